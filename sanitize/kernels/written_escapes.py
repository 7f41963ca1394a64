"""Writes separators over the escapes of a column that stand for a separator: backslash, percent and
quoted-printable escapes, sequences of terminals, and underscores around a number.

Text i is data[offsets[i]:offsets[i + 1]]; no escape crosses two texts. Time is linear in the bytes.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.string import memchr, memset

_TAB = cython.declare(uint8_t, 9)
_LINE_FEED = cython.declare(uint8_t, 10)
_RETURN = cython.declare(uint8_t, 13)
# bytes between the bracket and the letter of a terminal's sequence
_MAX_PARAMETERS = cython.declare(int64_t, 32)
_MAX_EMPHASIS = cython.declare(int64_t, 64)  # bytes of a number between underscores
_MIN_KEY_BYTES = cython.declare(int64_t, 35)  # more than any IBAN has


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_digit(byte: uint8_t) -> cython.bint:
    return 48 <= byte <= 57


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_alphanumeric(byte: uint8_t) -> cython.bint:
    return 48 <= byte <= 57 or 97 <= byte | 32 <= 122


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hex_value(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t, count: int64_t
) -> int64_t:
    """The number that `count` hexadecimal digits at `start` write, or -1."""
    value: int64_t = 0
    byte: uint8_t
    if start + count > end:
        return -1
    while count > 0:
        byte = data[start]
        if 48 <= byte <= 57:
            value = value * 16 + byte - 48
        elif 97 <= byte | 32 <= 102:
            value = value * 16 + (byte | 32) - 87
        else:
            return -1
        start += 1
        count -= 1
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _match_sequence(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t
) -> int64_t:
    """The end of what follows the escape character of a terminal's sequence (ECMA-48: `[`,
    parameters, a letter; or `(` and a character set), or -1."""
    position: int64_t = start + 1
    if start + 2 > end:
        return -1
    if data[start] == 40:
        return start + 2 if 48 <= data[start + 1] <= 126 else -1
    if data[start] != 91:
        return -1
    while position < end and position < start + _MAX_PARAMETERS and (48 <= data[position] <= 63):
        position += 1
    return position + 1 if position < end and 97 <= data[position] | 32 <= 122 else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _follows_home_folders(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, position: int64_t
) -> cython.bint:
    r"""True behind the folder of all users of Windows, in any case: `\Users`, `\Documents and
    Settings`."""
    size: int64_t
    i: int64_t = 0
    name: cython.pointer[cython.const[cython.char]]
    if position - start > 6 and data[position - 1] | 32 == 115 and data[position - 6] in (47, 92):
        name, size = b"users", 5
    elif position - start > 9 and data[position - 1] | 32 == 115 and data[position - 9] == 32:
        name, size = b"settings", 8
    else:
        return False
    while i < size and data[position - size + i] | 32 == name[i]:
        i += 1
    return i == size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _cover(
    view: cython.pointer[uint8_t], start: int64_t, end: int64_t, sign: uint8_t
) -> cython.void:
    """Writes a separator: the end of a line, or blanks and a tab, which no number crosses."""
    memset(view + start, _RETURN if sign in (_LINE_FEED, _RETURN) else 32, end - start)
    view[end - 1] = sign


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_in_url(
    data: cython.pointer[cython.const[uint8_t]],
    start: int64_t,
    position: int64_t,
    checked: int64_t,
    was_in_url: cython.bint,
) -> cython.bint:
    """True if `://` or `www.` is before a position, without a byte between that ends a URL.
    `was_in_url` is the result for `checked`, a position before it, behind which the search ends."""
    at: int64_t = position
    byte: uint8_t
    while at > start:
        if at <= checked:
            return was_in_url
        at -= 1
        byte = data[at]
        if byte <= 32 or byte in (34, 60, 62, 92, 94, 96, 123, 124, 125, 127):
            return False
        if byte == 58 and at + 2 < position and data[at + 1] == 47 and data[at + 2] == 47:
            return True
        if (
            byte == 46
            and at - start >= 3
            and data[at - 1] | 32 == 119
            and data[at - 2] | 32 == 119
            and data[at - 3] | 32 == 119
        ):
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _cover_backslash(
    data: cython.pointer[cython.const[uint8_t]],
    start: int64_t,
    position: int64_t,
    end: int64_t,
    letter_signs: cython.pointer[cython.const[uint8_t]],
    fonts: cython.pointer[cython.const[uint8_t]],
    view: cython.pointer[uint8_t],
) -> int64_t:
    """Covers the escape of which the first backslash is at `position`; returns its end, or that of
    the backslashes if it is none."""
    code: int64_t = position + 1
    value: int64_t = -1
    stop: int64_t = -1
    sequence: int64_t
    sign: uint8_t = _TAB
    while code < end and data[code] == 92:
        code += 1
    if code >= end or _follows_home_folders(data, start, position):
        return code
    if letter_signs[data[code]]:
        sign, stop = letter_signs[data[code]], code + 1
        if data[code] == 102 and stop < end and fonts[data[stop]]:
            # before a capital, the letter belongs to a code or a word in capitals behind a form
            # feed
            stop += stop + 1 >= end or not 65 <= data[stop + 1] <= 90
    elif data[code] == 117:  # u
        value, stop = _hex_value(data, code + 1, end, 4), code + 5
    elif data[code] == 85:  # U
        value, stop = _hex_value(data, code + 1, end, 8), code + 9
    elif data[code] == 120:  # x
        value, stop = _hex_value(data, code + 1, end, 2), code + 3
    elif data[code] | 32 == 101:  # e
        value, stop = 27, code + 1
    elif code + 2 < end and data[code] == 48 and data[code + 1] == 51 and data[code + 2] == 51:
        # 033
        value, stop = 27, code + 3
    elif code + 1 < end and data[code] == 51 and data[code + 1] == 51:  # 33
        value, stop = 27, code + 2
    if stop < 0 or (value < 0 and not letter_signs[data[code]]):
        return code
    if value == 27:
        sequence = _match_sequence(data, stop, end)
        if sequence > 0:
            stop = sequence
        elif data[code] not in (85, 117, 120):
            return code
    elif value in (_LINE_FEED, _RETURN):
        sign = cython.cast(uint8_t, value)
    if position > start and data[position - 1] == 61:
        sign = _TAB  # = and the end of a line would be a soft line break of quoted-printable
    _cover(view, position, stop, sign)
    return stop


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip_key_block(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, position: int64_t, end: int64_t
) -> int64_t:
    """Behind the first line of a key block (`-----BEGIN ...-----`), where its last line begins;
    else `position`. The escapes between are part of the key."""
    found: cython.pointer[cython.const[uint8_t]]
    at: int64_t = position
    if (
        position - start < 5
        or data[position - 1] != 45
        or data[position - 5] != 45
        or data[position - 3] != 45
    ):
        return position
    while at < end:
        found = cython.cast(cython.pointer[cython.const[uint8_t]], memchr(data + at, 45, end - at))
        if found is cython.NULL:
            return position
        at = found - data
        if (
            at + 8 < end
            and data[at + 4] == 45
            and data[at + 5] == 69
            and data[at + 6] == 78
            and data[at + 7] == 68
        ):
            # ----END
            return at
        if at + 4 < end and data[at + 1] == 45 and data[at + 4] == 45:
            return position  # another block, or a rule of hyphens
        at += 1
    return position


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _cover_emphasis(
    data: cython.pointer[cython.const[uint8_t]],
    start: int64_t,
    position: int64_t,
    end: int64_t,
    view: cython.pointer[uint8_t],
) -> int64_t:
    """Covers the underscores at `position` and behind the number that follows, as in
    `_312-555-0178_` of Markdown; returns where the search continues."""
    first: int64_t = position
    close: int64_t
    stop: int64_t
    after: uint8_t
    before: uint8_t = data[position - 1] if position > start else 32
    while first < end and data[first] == 95:
        first += 1
    if first >= end or first - position > 3 or not _is_digit(data[first]):
        return first
    if not (before <= 32 or before in (34, 39, 40, 42, 62, 91, 124)):  # " ' ( * > [ |
        return first
    close = first
    while (
        close < end
        and close < first + _MAX_EMPHASIS
        and data[close] > 31
        and data[close] not in (64, 95)
    ):
        close += 1
    stop = close
    while stop < end and data[stop] == 95:
        stop += 1
    if close == stop or not _is_alphanumeric(data[close - 1]):
        return first
    after = data[stop] if stop < end else 32
    if after == 46:  # the end of a sentence, or a dot inside a name
        after = data[stop + 1] if stop + 1 < end else 32
    if _is_alphanumeric(after) or after > 127 or after == 64:
        return first
    memset(view + position, 32, first - position)
    memset(view + close, 32, stop - close)
    return stop


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _begins_key(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, sign: int64_t, end: int64_t
) -> cython.bint:
    """True if the equal sign at `sign` is between `key`, in any case, and a run of base64 that is
    longer than any IBAN."""
    position: int64_t = sign + 1
    if (
        sign - start < 3
        or data[sign - 1] | 32 != 121
        or data[sign - 2] | 32 != 101
        or data[sign - 3] | 32 != 107
    ):
        return False
    while (
        position < end
        and position <= sign + _MIN_KEY_BYTES
        and (_is_alphanumeric(data[position]) or data[position] in (43, 47))
    ):
        position += 1
    return position > sign + _MIN_KEY_BYTES


def write_separators(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    letter_signs: cython.const[uint8_t][::1],
    fonts: cython.const[uint8_t][::1],
    percent_signs: cython.const[uint8_t][::1],
    quoted_signs: cython.const[uint8_t][::1],
    inside_urls: cython.bint,
    view: uint8_t[::1],
) -> int:
    """Writes a separator of the same size over each escape into `view`, a copy of `data`; returns
    how many escapes there are.

    letter_signs[c] is the separator that a backslash and `c` stand for; fonts[c] is not 0 for a
    letter that belongs to the escape behind `\\f`. percent_signs[b] and quoted_signs[b] are the
    separators of the escaped byte b. 0 is none. Percent escapes and quoted-printable inside URLs
    are left as they are; with `inside_urls`, all texts are URLs, and only percent escapes are
    covered.
    """
    count: int64_t = 0
    size: int64_t = data.shape[0]
    marks: cython.int[5]
    mark_no: cython.int
    mark: cython.int
    text: cython.Py_ssize_t
    position: int64_t
    stop: int64_t
    start: int64_t
    end: int64_t
    value: int64_t
    checked: int64_t
    is_url: cython.bint
    sign: uint8_t
    found: cython.pointer[cython.const[uint8_t]]
    if size == 0:
        return 0
    first: cython.pointer[cython.const[uint8_t]] = cython.address(data[0])
    out: cython.pointer[uint8_t] = cython.address(view[0])
    letters: cython.pointer[cython.const[uint8_t]] = cython.address(letter_signs[0])
    font_letters: cython.pointer[cython.const[uint8_t]] = cython.address(fonts[0])
    marks[0], marks[1], marks[2], marks[3], marks[4] = 37, 92, 27, 61, 95  # % \ ESC = _
    with cython.nogil:
        for mark_no in range(1 if inside_urls else 5):
            mark = marks[mark_no]
            text = 0
            position = 0
            checked = -1
            is_url = False
            while position < size:
                found = cython.cast(
                    cython.pointer[cython.const[uint8_t]],
                    memchr(first + position, mark, size - position),
                )
                if found is cython.NULL:
                    break
                position = found - first
                stop = position + 1
                while offsets[text + 1] <= position:
                    text += 1
                start, end = offsets[text], offsets[text + 1]
                if mark == 92:
                    stop = _skip_key_block(first, start, position, end)
                    if stop == position:
                        stop = _cover_backslash(
                            first, start, position, end, letters, font_letters, out
                        )
                elif mark == 27:
                    stop = _match_sequence(first, position + 1, end)
                    if stop > 0:
                        _cover(out, position, stop, _TAB)
                    else:
                        stop = position + 1
                elif mark == 95:
                    stop = _cover_emphasis(first, start, position, end, out)
                else:
                    if mark == 37:
                        while (
                            stop + 4 <= end
                            and stop < position + 5
                            and first[stop] == 50
                            and first[stop + 1] == 53
                        ):
                            stop += 2  # %25 is an escaped %
                    value = _hex_value(first, stop, end, 2)
                    sign = 0
                    if value >= 0:
                        sign = percent_signs[value] if mark == 37 else quoted_signs[value]
                    if (
                        mark == 61
                        and sign
                        and (first[stop + 1] > 90 or _begins_key(first, start, position, end))
                    ):
                        sign = 0
                    if not sign:
                        stop = position + 1
                    else:
                        if not inside_urls:
                            if checked < start:
                                checked = -1
                            is_url = _is_in_url(first, start, position, checked, is_url)
                            checked = position
                        if inside_urls or not is_url:
                            _cover(out, position, stop + 2, sign)
                        stop += 2
                count += out[position] != mark
                position = stop
    return count
