"""Variants of values with components: some components kept, the others drawn from pools, in the
letter case of those they replace.

A value is the bytes between its first and its last edge: `lead first sep last at domain dot tld`;
FIRST, LAST, DOMAIN and TLD are its components, by number, the others separators. Entries of pools
are in lower case, in ASCII.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_lower(byte: uint8_t) -> cython.bint:
    return 0x61 <= byte <= 0x7A


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_upper(byte: uint8_t) -> cython.bint:
    return 0x41 <= byte <= 0x5A


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _edge_of(component: cython.int) -> cython.int:
    """The number of the edge where a component (FIRST, LAST, DOMAIN, TLD) begins."""
    return 1 if component == 0 else 3 if component == 1 else 5 if component == 2 else 7


def find_letter_cases(
    data: cython.const[uint8_t][::1], edges: cython.const[int64_t][:, ::1], cases: uint8_t[:, ::1]
):
    """Writes to cases[i] the letter case of each component of value i: 0 lower or mixed, 1 upper, 2
    title, 3 if it is not in ASCII.

    In title case every letter after another character is upper, and every letter after a letter is
    lower.
    """
    row: cython.Py_ssize_t
    component: cython.int
    position: int64_t
    byte: uint8_t
    has_upper: cython.bint
    has_lower: cython.bint
    is_title: cython.bint
    after_letter: cython.bint
    is_ascii: cython.bint
    with cython.nogil:
        for row in range(edges.shape[0]):
            for component in range(4):
                has_upper = has_lower = after_letter = False
                is_title = is_ascii = True
                for position in range(
                    edges[row, _edge_of(component)], edges[row, _edge_of(component) + 1]
                ):
                    byte = data[position]
                    if _is_upper(byte):
                        has_upper = True
                        is_title = is_title and not after_letter
                        after_letter = True
                    elif _is_lower(byte):
                        has_lower = True
                        is_title = is_title and after_letter
                        after_letter = True
                    else:
                        is_ascii = is_ascii and byte < 0x80
                        after_letter = False
                if not is_ascii:
                    cases[row, component] = 3
                elif has_upper and not has_lower:
                    cases[row, component] = 1
                else:
                    cases[row, component] = 2 if has_upper and is_title else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _pick_entry(
    pool: cython.const[int64_t][::1],
    first_doc_no: cython.const[int64_t][::1],
    doc_no: int64_t,
    bits: uint32_t,
) -> cython.Py_ssize_t:
    """The entry of a pool that 32 random bits choose for a document.

    `pool`: its first entry, the end of the entries of the corpus, the end of the curated ones,
    whether it grows, whether it is mixed, and the least number of entries of the corpus that
    suffice alone. In a growing pool a document sees the entries up to it.
    """
    seen: int64_t = pool[1] - pool[0]
    curated: int64_t = pool[2] - pool[1]
    low: int64_t
    high: int64_t
    middle: int64_t
    drawn: int64_t
    if pool[3]:
        low, high = pool[0], pool[1]
        while low < high:  # the first entry of a later document
            middle = (low + high) // 2
            if first_doc_no[middle] <= doc_no:
                low = middle + 1
            else:
                high = middle
        seen = low - pool[0]
        if not pool[4]:
            if seen >= pool[5]:
                curated = 0
            else:
                seen = 0
    drawn = cython.cast(
        int64_t, (cython.cast(uint64_t, bits) * cython.cast(uint64_t, seen + curated)) >> 32
    )
    return pool[0] + drawn if drawn < seen else pool[1] + drawn - seen


def draw(
    data: cython.const[uint8_t][::1],
    edges: cython.const[int64_t][:, ::1],
    cases: cython.const[uint8_t][:, ::1],
    value_no: cython.const[int64_t][::1],
    doc_no: cython.const[int64_t][::1],
    kept: cython.const[uint8_t][::1],
    bits: cython.const[uint32_t][:, ::1],
    extensions: cython.const[int64_t][::1],
    pools: cython.const[int64_t][:, ::1],
    entry_data: cython.const[uint8_t][::1],
    entry_offsets: cython.const[int64_t][::1],
    entry_doc_no: cython.const[int64_t][::1],
    out: uint8_t[::1],
    out_offsets: int64_t[::1],
    is_new: uint8_t[::1],
) -> cython.Py_ssize_t:
    """Writes a variant of value value_no[i] for each draw i to `out`; returns the bytes that all of
    them take.

    kept[i] has a bit for each component that is kept; the others are drawn with bits[i].
    extensions[i] is a number that extends a component that is not kept, or -1. `pools` has those of
    FIRST, LAST, DOMAIN, TLD, and of FIRST in values without LAST. Variants that end beyond `out`
    are not written. is_new[i]: every drawn component differs from that of the value.
    """
    row: cython.Py_ssize_t
    value: cython.Py_ssize_t
    component: cython.int
    edge: cython.int
    entry: cython.Py_ssize_t
    size: int64_t = 0
    start: int64_t
    end: int64_t
    place: int64_t
    length: int64_t
    extended: cython.int
    has_last: cython.bint
    is_equal: cython.bint
    after_letter: cython.bint
    byte: uint8_t
    own: uint8_t
    number: int64_t
    digits: uint8_t[20]
    digit_count: cython.int
    room: int64_t = out.shape[0]
    out_offsets[0] = 0
    with cython.nogil:
        for row in range(value_no.shape[0]):
            value = value_no[row]
            has_last = edges[value, 3] < edges[value, 4]
            is_new[row] = 1
            digit_count = 0
            extended = -1
            if extensions[row] >= 0:
                number = extensions[row]
                while True:
                    digits[digit_count] = 0x30 + cython.cast(uint8_t, number % 10)
                    digit_count += 1
                    number //= 10
                    if number == 0:
                        break
                # the digits extend the local part, or the host if the local part is one component
                # that is kept
                extended = (
                    1
                    if has_last and not kept[row] & 2
                    else 2
                    if not has_last and kept[row] & 1
                    else 0
                )
            for edge in range(8):
                start, end = edges[value, edge], edges[value, edge + 1]
                component = edge >> 1 if edge & 1 else -1
                if component == 2 and extended == 2:
                    length = digit_count + 2
                    if size + length <= room:
                        out[size] = 0x78  # x12.
                        for place in range(digit_count):
                            out[size + 1 + place] = digits[digit_count - 1 - place]
                        out[size + 1 + digit_count] = 0x2E
                    size += length
                if component < 0 or kept[row] & (1 << component):
                    length = end - start
                    if length and size + length <= room:
                        memcpy(cython.address(out[size]), cython.address(data[start]), length)
                    size += length
                else:
                    entry = _pick_entry(
                        pools[4 if component == 0 and not has_last else component],
                        entry_doc_no,
                        doc_no[row],
                        bits[row, component],
                    )
                    length = entry_offsets[entry + 1] - entry_offsets[entry]
                    is_equal = length == end - start
                    after_letter = False
                    for place in range(length):
                        byte = entry_data[entry_offsets[entry] + place]
                        if is_equal:
                            own = data[start + place]
                            is_equal = byte == (own | 0x20 if _is_upper(own) else own)
                        if size + place < room:
                            if _is_lower(byte) and (
                                cases[value, component] == 1
                                or (cases[value, component] == 2 and not after_letter)
                            ):
                                out[size + place] = byte ^ 0x20
                            else:
                                out[size + place] = byte
                        after_letter = _is_lower(byte)
                    size += length
                    if is_equal:
                        is_new[row] = 0
                if component == extended and component >= 0 and extended != 2:
                    if size + digit_count <= room:
                        for place in range(digit_count):
                            out[size + place] = digits[digit_count - 1 - place]
                    size += digit_count
            out_offsets[row + 1] = size
    return size
