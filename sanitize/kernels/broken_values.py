"""Finds the line ends and the letters of texts that may be inside a value."""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.string import memchr


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_digit(byte: uint8_t) -> cython.bint:
    return cython.cast(uint8_t, byte - 48) < 10


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_group(byte: uint8_t) -> cython.bint:
    """Whether a byte may be in a group of an IBAN: a digit or a capital."""
    return _is_digit(byte) or 65 <= byte <= 90


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _are_digits(data: cython.pointer[cython.const[uint8_t]], size: cython.int) -> cython.bint:
    good: cython.bint = True
    for i in range(size):
        good &= _is_digit(data[i])
    return good


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _are_group(data: cython.pointer[cython.const[uint8_t]], size: cython.int) -> cython.bint:
    good: cython.bint = True
    for i in range(size):
        good &= _is_group(data[i])
    return good


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_host(byte: uint8_t) -> cython.bint:
    """Whether a byte may be in a label of a host: a letter, digit or hyphen."""
    return _is_digit(byte) or 97 <= byte | 32 <= 122 or byte == 45


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_separator(byte: uint8_t) -> cython.bint:
    """Whether a byte may be between two groups of a number: a blank, `-`, `.`, `/`, a bracket, a
    line end."""
    return byte in (32, 45, 46, 47, 40, 41, 10, 13)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_quote(byte: uint8_t) -> cython.bint:
    return byte in (62, 32, 9)  # > blank tab


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _breaks_address(
    data: cython.pointer[cython.const[uint8_t]],
    start: int64_t,
    last: int64_t,
    feed: int64_t,
    end: int64_t,
    max_host: int64_t,
) -> cython.bint:
    """Whether an address without its end is before `last` (the last byte of the line that is no
    blank), and the rest of a host on the next line: `ann.roe@`, `ann.roe@example` or
    `ann.roe@example.`, and a word with a full stop behind one of the first two."""
    at: int64_t = last - (data[last] == 46)
    name: int64_t = feed + 1
    position: int64_t
    while at > start and last - at < max_host and _is_host(data[at]):
        at -= 1
    if data[at] != 64 or at == start or last - at >= max_host:
        return False
    if not (_is_host(data[at - 1]) or data[at - 1] in (46, 95, 43)):  # . _ +
        return False
    while name < end and _is_quote(data[name]):
        name += 1
    position = name
    while position < end and _is_host(data[position]):
        position += 1
    return position > name and (data[last] == 46 or (position < end and data[position] == 46))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _breaks_number(
    data: cython.pointer[cython.const[uint8_t]],
    start: int64_t,
    last: int64_t,
    feed: int64_t,
    end: int64_t,
) -> cython.bint:
    """Whether a number may go on behind the line that has its last byte that is no blank at `last`:
    behind `-` or `=`, behind three digits with four digits, or behind two groups of four with one.
    """
    first: int64_t = feed + 1  # of the next line, behind a blank, `> ` or nothing
    for _ in range(2):
        if first < end and _is_quote(data[first]):
            first += 1
    if first + 1 >= end or last - 3 < start:
        return False
    if data[last] == 45:
        return _are_digits(data + last - 2, 2) and _are_digits(data + first, 2)
    if data[last] == 61:
        return _is_digit(data[last - 1]) and _is_digit(data[first])
    if first + 3 >= end or (first + 4 < end and _is_group(data[first + 4])):
        return False
    if not (_are_group(data + last - 2, 3) and _are_group(data + first, 4)):
        return False
    if not _is_separator(data[last - 3]) and not (
        _is_group(data[last - 3]) and last - 4 >= start and _is_separator(data[last - 4])
    ):
        return False
    if _are_digits(data + last - 2, 3) and _are_digits(data + first, 4):
        return True
    return last - 8 >= start and data[last - 4] == 32 and _are_group(data + last - 8, 4)


def find_broken_lines(
    data: cython.const[uint8_t][::1],
    text_offsets: cython.const[int64_t][::1],
    max_host: int64_t,
    feeds: int64_t[::1],
) -> int:
    """Writes the line feeds that may be inside an address or a number of their text (see
    `_breaks_address`, `_breaks_number`); returns their number. Those beyond the size of the output
    are counted only. `max_host`: the bytes from an @ to the end of its line."""
    count: int64_t = 0
    capacity: int64_t = feeds.shape[0]
    text: cython.Py_ssize_t
    position: int64_t
    start: int64_t
    end: int64_t
    feed: int64_t
    last: int64_t
    found: cython.pointer[cython.const[uint8_t]]
    if data.shape[0] == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    with cython.nogil:
        for text in range(text_offsets.shape[0] - 1):
            start, end = text_offsets[text], text_offsets[text + 1]
            position = start
            while position < end:
                found = cython.cast(
                    cython.pointer[cython.const[uint8_t]],
                    memchr(first + position, 10, end - position),
                )
                if found is cython.NULL:
                    break
                feed = found - first
                position = feed + 1
                last = feed - 1  # without a blank, a carriage return and a blank
                last -= last > start and first[last] == 32
                last -= last > start and first[last] == 13
                last -= last > start and first[last] == 32
                if last > start and (
                    _breaks_address(first, start, last, feed, end, max_host)
                    or _breaks_number(first, start, last, feed, end)
                ):
                    if count < capacity:
                        feeds[count] = feed
                    count += 1
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_between_separators(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, position: int64_t, end: int64_t
) -> cython.bint:
    """Whether a separator is at most four bytes before, and one at most four bytes behind a byte;
    behind it also a zero byte or the end of the text."""
    distance: int64_t
    is_near: cython.bint = False
    for distance in range(1, min(position - start, 4) + 1):
        is_near |= _is_separator(data[position - distance])
    if not is_near:
        return False
    is_near = position + 4 >= end
    for distance in range(1, min(end - 1 - position, 4) + 1):
        is_near |= data[position + distance] == 0 or _is_separator(data[position + distance])
    return is_near


def find_read_letters(
    data: cython.const[uint8_t][::1],
    text_offsets: cython.const[int64_t][::1],
    roles: cython.const[uint8_t][::1],
    letters: int64_t[::1],
) -> int:
    """Writes the letters beside a digit and between separators (see `_is_between_separators`);
    returns their number. Those beyond the size of the output are counted only. `roles` has 1 for
    each of these letters, 2 for each digit, 0 for each other byte."""
    count: int64_t = 0
    capacity: int64_t = letters.shape[0]
    text: cython.Py_ssize_t
    position: int64_t
    start: int64_t
    end: int64_t
    letter: int64_t
    previous: int64_t = -1
    role: uint8_t
    role_before: uint8_t
    if data.shape[0] == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    role_of: cython.pointer[cython.const[uint8_t]] = cython.address(roles[0])
    with cython.nogil:
        for text in range(text_offsets.shape[0] - 1):
            start, end = text_offsets[text], text_offsets[text + 1]
            role_before = 0
            for position in range(start, end):
                role = role_of[first[position]]
                if role_before + role == 3:  # a letter and a digit
                    letter = position - (role == 2)
                    if letter != previous and _is_between_separators(first, start, letter, end):
                        if count < capacity:
                            letters[count] = letter
                        count += 1
                    previous = letter
                role_before = role
    return count
