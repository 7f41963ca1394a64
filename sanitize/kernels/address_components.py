"""Components of mail addresses: where each begins."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_letter(byte: uint8_t) -> cython.bint:
    """True for ASCII letters, and for the bytes of all characters beyond ASCII."""
    return byte >= 0x80 or 0x61 <= (byte | 0x20) <= 0x7A


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_alnum(byte: uint8_t) -> cython.bint:
    return _is_letter(byte) or 0x30 <= byte <= 0x39


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_sign_code(first: uint8_t, second: uint8_t) -> cython.bint:
    """True for two hexadecimal digits of a sign, as in `%2B`: `%2`, `%3`, `%5` or `%7` and one
    more. Letters and digits beyond these are part of a name (`user%decade@host`)."""
    return (first == 0x32 or first == 0x33 or first == 0x35 or first == 0x37) and (
        0x30 <= second <= 0x39 or 0x61 <= (second | 0x20) <= 0x66
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _skip_signs(data: cython.const[uint8_t][::1], position: int64_t, end: int64_t) -> int64_t:
    """Where the signs at a position end: bytes that are no letters or digits, and escapes of a link
    (`%2B`, `%252B`), which are no part of a name."""
    after: int64_t
    while position < end and not _is_alnum(data[position]):
        after = position + 1
        if data[position] == 0x25:
            while after + 3 < end and data[after] == 0x32 and data[after + 1] == 0x35:
                after += 2
            if after + 1 < end and _is_sign_code(data[after], data[after + 1]):
                position = after + 1
        position += 1
    return position


def locate(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    edges: int64_t[:, ::1],
    unusual: uint8_t[::1],
):
    """Writes to edges[i] where the components of address i begin (lead, first, sep, last, at,
    domain, dot, tld), and where it ends.

    `at` is the last @, with the quote before it that ends a local part. `unusual` marks the
    addresses without @, and those with a blank, a bracket or a backslash.
    """
    row: cython.Py_ssize_t
    position: int64_t
    start: int64_t
    end: int64_t
    at: int64_t
    byte: uint8_t
    with cython.nogil:
        for row in range(edges.shape[0]):
            start, end = offsets[row], offsets[row + 1]
            at = end
            unusual[row] = 0
            for position in range(start, end):
                byte = data[position]
                if byte == 0x40:
                    at = position
                elif (
                    byte == 0x20
                    or byte == 0x28
                    or byte == 0x3C
                    or byte == 0x5B
                    or byte == 0x5C
                    or byte == 0x7B
                ):
                    unusual[row] = 1
            if at == end:
                unusual[row] = 1
            edges[row, 0] = start
            edges[row, 8] = end
            edges[row, 5] = at + 1 if at < end else end  # domain
            if at > start and data[at - 1] == 0x22:
                at -= 1
            edges[row, 4] = at
            position = _skip_signs(data, start, at)
            edges[row, 1] = position  # first
            while position < at and _is_alnum(data[position]):
                position += 1
            edges[row, 2] = position  # sep
            position = _skip_signs(data, position, at)
            edges[row, 3] = position  # last
            # the host ends in a name if the last byte that cannot be in a name is a dot, and a
            # letter follows
            edges[row, 6] = edges[row, 7] = end
            position = end - 1
            while position >= edges[row, 5] and (
                _is_alnum(data[position]) or data[position] == 0x2D
            ):
                position -= 1
            if (
                position >= edges[row, 5]
                and data[position] == 0x2E
                and position + 1 < end
                and _is_letter(data[position + 1])
            ):
                edges[row, 6], edges[row, 7] = position, position + 1
