"""Search of many terms in texts at once, whatever the case of ASCII letters.

At every place where a term may begin, four questions are asked, each costlier than the one before
and asked more rarely: may a term begin with these four bytes (`start_filter`); does one begin with
these eight, or is it shorter and all of it here (`head_filter`, then the table of heads); for each
length that such a term has, does one end with these eight bytes (`tail_filter`); is it in the table
of terms. The last answer compares the bytes, so that the search is exact. Terms are in lower case.

Hashes have a key, two odd numbers that are drawn for each set of terms: neither the texts nor the
terms can be made such that many hashes are equal. A filter has a bit for each value of the highest
bits of a hash, in two or more words. A table has its hashes in ascending order, and a directory:
entry b is the row of the first hash whose highest bits are b or more; it has three or more entries.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lower(word: uint64_t) -> uint64_t:
    """Eight bytes with the letters A to Z in lower case."""
    ones: uint64_t = cython.cast(uint64_t, 0x0101010101010101)
    seven_bits: uint64_t = word & (ones * 0x7F)
    # the highest bit of a byte: it is A or beyond
    from_a: uint64_t = seven_bits + ones * (0x80 - 0x41)
    beyond_z: uint64_t = seven_bits + ones * (0x80 - 0x5B)
    return word | ((from_a & ~beyond_z & ~word & (ones * 0x80)) >> 2)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _load(data: cython.pointer[cython.const[uint8_t]], count: int64_t) -> uint64_t:
    """The first `count` of at most eight bytes as a number, in lower case; the others count as
    0."""
    word: uint64_t = 0
    if count >= 8:
        memcpy(cython.address(word), data, 8)  # little-endian machines only, as Arrow
    else:
        memcpy(cython.address(word), data, count)
    return _lower(word)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mix(hash: uint64_t, word: uint64_t, key: cython.pointer[cython.const[uint64_t]]) -> uint64_t:
    """A hash that depends on a hash, one more word and a key: two odd numbers. Who does not know
    them cannot make many hashes equal."""
    hash = (hash ^ word) * key[0]
    hash = (hash ^ (hash >> 32)) * key[1]
    return hash ^ (hash >> 32)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hash_head(
    head: uint64_t, width: int64_t, key: cython.pointer[cython.const[uint64_t]]
) -> uint64_t:
    """The hash of the first bytes of a term, `width` of them."""
    return _mix(head, width, key)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hash_edges(
    head_hash: uint64_t,
    tail: uint64_t,
    length: int64_t,
    key: cython.pointer[cython.const[uint64_t]],
) -> uint64_t:
    """The hash of the first and last bytes of a term and its length."""
    return _mix(_mix(head_hash, tail, key), length, key)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hash_all(
    data: cython.pointer[cython.const[uint8_t]],
    length: int64_t,
    key: cython.pointer[cython.const[uint64_t]],
) -> uint64_t:
    """The hash of all bytes of a term."""
    hash: uint64_t = length
    position: int64_t = 0
    while position < length:
        hash = _mix(hash, _load(data + position, length - position), key)
        position += 8
    return _mix(hash, length, key)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_term(
    text: cython.pointer[cython.const[uint8_t]],
    length: int64_t,
    term_data: cython.pointer[cython.const[uint8_t]],
    term_offsets: cython.pointer[cython.const[int64_t]],
) -> cython.bint:
    """True if the first bytes of a text, in lower case, are the term between the first two of the
    given offsets."""
    position: int64_t = 0
    if term_offsets[1] - term_offsets[0] != length:
        return False
    while position < length:
        if _load(text + position, length - position) != _load(
            term_data + (term_offsets[0] + position), length - position
        ):
            return False
        position += 8
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hash_start(word: uint64_t) -> uint64_t:
    """The hash of the first four of eight bytes; the case of letters does not count."""
    return ((word | 0x20202020) << 32) * cython.cast(uint64_t, 0x9E3779B97F4A7C15)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_bit(
    filter: cython.pointer[cython.const[uint64_t]], shift: cython.int, hash: uint64_t
) -> cython.int:
    return (filter[hash >> (shift + 6)] >> ((hash >> shift) & 63)) & 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_shift(entries: cython.Py_ssize_t) -> cython.int:
    """By how many bits a hash is shifted to number the bits of a filter or the entries of a
    directory, a power of two."""
    shift: cython.int = 64
    while entries > 1:
        entries >>= 1
        shift -= 1
    return shift


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_row(
    directory: cython.pointer[cython.const[uint32_t]],
    shift: cython.int,
    hashes: cython.pointer[cython.const[uint64_t]],
    hash: uint64_t,
) -> int64_t:
    """The first row of a table with this hash, or -1."""
    row: int64_t = directory[hash >> shift]
    while row < directory[(hash >> shift) + 1]:
        if hashes[row] == hash:
            return row
        row += 1
    return -1


def hash_terms(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    key: cython.const[uint64_t][::1],
    head_hashes: uint64_t[::1],
    edge_hashes: uint64_t[::1],
    hashes: uint64_t[::1],
):
    """Writes three hashes of each term: of its first bytes, of both ends, and of all bytes.

    Term i is data[offsets[i]:offsets[i + 1]]. An empty one has no hashes; it is found nowhere.
    """
    row: cython.Py_ssize_t
    length: int64_t
    width: int64_t
    term: cython.pointer[cython.const[uint8_t]]
    key_words: cython.pointer[cython.const[uint64_t]] = cython.address(key[0])
    with cython.nogil:
        for row in range(offsets.shape[0] - 1):
            length = offsets[row + 1] - offsets[row]
            if length == 0:
                continue
            term = cython.address(data[offsets[row]])
            width = length if length < 8 else 8
            head_hashes[row] = _hash_head(_load(term, width), width, key_words)
            edge_hashes[row] = _hash_edges(
                head_hashes[row], _load(term + (length - width), width), length, key_words
            )
            hashes[row] = _hash_all(term, length, key_words)


def set_start_bits(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    inside_lengths: cython.const[uint8_t][::1],
    filter: uint64_t[::1],
):
    """Sets the bits in a filter for the first four bytes of each term that has at least
    `inside_lengths` bytes; one of three bytes may have any byte after it, and for shorter ones all
    bits are set."""
    row: cython.Py_ssize_t
    entry: cython.Py_ssize_t
    shift: cython.int = _find_shift(filter.shape[0] * 64)
    length: int64_t
    word: uint64_t
    last: uint64_t
    bit: uint64_t
    with cython.nogil:
        for row in range(offsets.shape[0] - 1):
            length = offsets[row + 1] - offsets[row]
            if length == 0 or length < inside_lengths[row]:
                continue
            word = _load(cython.address(data[offsets[row]]), length)
            if length > 3:
                bit = _hash_start(word) >> shift
                filter[bit >> 6] |= cython.cast(uint64_t, 1) << (bit & 63)
            elif length == 3:
                for last in range(256):
                    bit = _hash_start(word | (last << 24)) >> shift
                    filter[bit >> 6] |= cython.cast(uint64_t, 1) << (bit & 63)
            else:
                for entry in range(filter.shape[0]):
                    filter[entry] = ~cython.cast(uint64_t, 0)


def set_next_bits(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    inside_lengths: cython.const[uint8_t][::1],
    filter: uint64_t[::1],
):
    """Sets the bits in a filter for the second four bytes of each term that has at least
    `inside_lengths` bytes; all bits where one of these has fewer than eight bytes."""
    row: cython.Py_ssize_t
    entry: cython.Py_ssize_t
    shift: cython.int = _find_shift(filter.shape[0] * 64)
    length: int64_t
    bit: uint64_t
    with cython.nogil:
        for row in range(offsets.shape[0] - 1):
            length = offsets[row + 1] - offsets[row]
            if length >= 8 and length >= inside_lengths[row]:
                bit = _hash_start(_load(cython.address(data[offsets[row] + 4]), 4)) >> shift
                filter[bit >> 6] |= cython.cast(uint64_t, 1) << (bit & 63)
            elif length > 0 and length >= inside_lengths[row]:
                for entry in range(filter.shape[0]):
                    filter[entry] = ~cython.cast(uint64_t, 0)


def set_bits(hashes: cython.const[uint64_t][::1], filter: uint64_t[::1]):
    """Sets the bit of each hash in a filter."""
    row: cython.Py_ssize_t
    shift: cython.int = _find_shift(filter.shape[0] * 64)
    bit: uint64_t
    with cython.nogil:
        for row in range(hashes.shape[0]):
            bit = hashes[row] >> shift
            filter[bit >> 6] |= cython.cast(uint64_t, 1) << (bit & 63)


def find_terms(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    byte_rules: cython.const[uint8_t][::1],
    key: cython.const[uint64_t][::1],
    widths: cython.const[uint8_t][::1],
    start_filter: cython.const[uint64_t][:, ::1],
    head_filter: cython.const[uint64_t][::1],
    head_directory: cython.const[uint32_t][::1],
    head_hashes: cython.const[uint64_t][::1],
    length_ranges: cython.const[uint32_t][::1],
    head_lengths: cython.const[uint32_t][::1],
    tail_filter: cython.const[uint64_t][::1],
    term_directory: cython.const[uint32_t][::1],
    term_hashes: cython.const[uint64_t][::1],
    term_rows: cython.const[uint32_t][::1],
    term_data: cython.const[uint8_t][::1],
    term_offsets: cython.const[int64_t][::1],
    inside_lengths: cython.const[uint8_t][::1],
    min_inside_length: int64_t,
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    rows: int64_t[::1],
):
    """Writes text number, start in `data` and row of the term of each match, by place; returns how
    many there are, also where the arrays have no room for all of them.

    Text i is data[offsets[i]:offsets[i + 1]]. `byte_rules` has for each byte 1 if it is part of a
    word, 2 if no term that begins with a part of a word may follow it, 4 if a term begins with it,
    8 if it is a letter, and 16 if it is a digit. A place is inside a word or number where the bytes
    on both sides are letters, or are digits; a term that begins or ends there is found only if it
    has at least `inside_lengths` bytes, of which `min_inside_length` is the least; the first four
    bytes of these terms are in the second row of `start_filter` and the next four in the third, the
    first four of all terms in the first. `widths` are the numbers of bytes that the heads have: 8,
    and the lengths of shorter terms. The length_ranges[h] to length_ranges[h + 1] of `head_lengths`
    are the lengths of the terms with the hash head_hashes[h].
    """
    places: int64_t[1024]  # where in a block of so many bytes a term may begin
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t
    place_no: cython.Py_ssize_t
    begin_count: cython.Py_ssize_t
    place_count: cython.Py_ssize_t
    place: int64_t
    width_no: cython.Py_ssize_t
    position: int64_t
    block_end: int64_t
    text_end: int64_t
    room: int64_t
    length: int64_t
    width: int64_t
    rules: cython.int
    last: int64_t
    is_inside: int64_t
    classes_before: cython.int  # of the byte before, 8 or 16
    min_inside_width: int64_t
    is_barred: cython.int  # 1 if no term that begins with a part of a word may begin here
    head: int64_t
    entry: int64_t
    length_no: uint32_t
    window: uint64_t
    head_hash: uint64_t
    hash: uint64_t
    text: cython.pointer[cython.const[uint8_t]]
    key_words: cython.pointer[cython.const[uint64_t]] = cython.address(key[0])
    start_shift: cython.int = _find_shift(start_filter.shape[1] * 64)
    head_filter_shift: cython.int = _find_shift(head_filter.shape[0] * 64)
    tail_filter_shift: cython.int = _find_shift(tail_filter.shape[0] * 64)
    head_shift: cython.int = _find_shift(head_directory.shape[0] - 1)
    term_shift: cython.int = _find_shift(term_directory.shape[0] - 1)
    min_inside_width = min(min_inside_length, 8)
    with cython.nogil:
        for text_no in range(offsets.shape[0] - 1):
            position, text_end = offsets[text_no], offsets[text_no + 1]
            is_barred = classes_before = 0
            while position < text_end:
                # no branches in these two loops: which places pass cannot be predicted
                block_end = min(position + 1024, text_end)
                begin_count = place_count = 0
                while position < block_end:
                    rules = byte_rules[data[position]]
                    places[begin_count] = 2 * position + (rules & classes_before != 0)
                    begin_count += (rules >> 2) & ~(rules & is_barred) & 1
                    is_barred, classes_before = (rules >> 1) & 1, rules & 24
                    position += 1
                for place_no in range(begin_count):
                    place, is_inside = places[place_no] >> 1, places[place_no] & 1
                    if place + 8 <= data.shape[0]:
                        memcpy(cython.address(window), cython.address(data[place]), 8)
                    else:
                        window = _load(cython.address(data[place]), data.shape[0] - place)
                    places[place_count] = places[place_no]
                    place_count += _has_bit(
                        cython.address(start_filter[is_inside, 0]), start_shift, _hash_start(window)
                    ) & (
                        1 - is_inside
                        | _has_bit(
                            cython.address(start_filter[2, 0]),
                            start_shift,
                            _hash_start(window >> 32),
                        )
                    )
                for place_no in range(place_count):
                    place, is_inside = places[place_no] >> 1, places[place_no] & 1
                    text = cython.address(data[place])
                    room = text_end - place
                    window = _load(text, room)
                    for width_no in range(widths.shape[0]):
                        width = widths[width_no]
                        if is_inside and width < min_inside_width:
                            continue
                        head_hash = _hash_head(
                            window & (~cython.cast(uint64_t, 0) >> (64 - 8 * width)),
                            width,
                            key_words,
                        )
                        if width > room or not _has_bit(
                            cython.address(head_filter[0]), head_filter_shift, head_hash
                        ):
                            continue
                        head = _find_row(
                            cython.address(head_directory[0]),
                            head_shift,
                            cython.address(head_hashes[0]),
                            head_hash,
                        )
                        if head < 0:
                            continue
                        for length_no in range(length_ranges[head], length_ranges[head + 1]):
                            length = head_lengths[length_no]
                            if length > room or (length if length < 8 else 8) != width:
                                continue
                            hash = _hash_edges(
                                head_hash, _load(text + (length - width), width), length, key_words
                            )
                            if not _has_bit(
                                cython.address(tail_filter[0]), tail_filter_shift, hash
                            ):
                                continue
                            hash = _hash_all(text, length, key_words)
                            entry = _find_row(
                                cython.address(term_directory[0]),
                                term_shift,
                                cython.address(term_hashes[0]),
                                hash,
                            )
                            last = place + length
                            while 0 <= entry < term_hashes.shape[0] and term_hashes[entry] == hash:
                                if length < inside_lengths[term_rows[entry]] and (
                                    is_inside
                                    or last < text_end
                                    and byte_rules[data[last - 1]] & byte_rules[data[last]] & 24
                                    != 0
                                ):
                                    pass  # a short term inside a word or number
                                elif _is_term(
                                    text,
                                    length,
                                    cython.address(term_data[0]),
                                    cython.address(term_offsets[term_rows[entry]]),
                                ):
                                    if count < starts.shape[0]:
                                        text_nos[count], starts[count], rows[count] = (
                                            text_no,
                                            place,
                                            term_rows[entry],
                                        )
                                    count += 1
                                entry += 1
    return count
