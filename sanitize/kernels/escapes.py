"""Places of a text where other bytes are written by an escape: HTML, percent, backslash, CSS,
quoted-printable and UTF-7 escapes, the + of form encoding, characters of given classes, control
characters, and ends of lines.

Text i is data[offsets[i]:offsets[i + 1]]; no place crosses two texts. Places are leftmost, as long
as possible, and do not overlap. The functions that find them return how many there are, also where
the arrays are too short for all of them.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr, memcpy

# more blanks or quote marks around the end of a line are no wrapped line
_MAX_BLANKS = cython.declare(int64_t, 40)
_MAX_CHECKED = cython.declare(int64_t, 100)  # characters of a sequence of UTF-7 that are checked
_BLOCK_BYTES = cython.declare(int64_t, 1024)  # that are searched for control characters at once


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
def _is_letter(byte: uint8_t) -> cython.bint:
    return 97 <= byte | 32 <= 122


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_hex(byte: uint8_t) -> cython.bint:
    return 48 <= byte <= 57 or 97 <= byte | 32 <= 102


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_byte(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t, byte: cython.int
) -> int64_t:
    """Where a byte is first in [start, end), or `end`."""
    found: cython.pointer[cython.const[uint8_t]]
    found = cython.cast(
        cython.pointer[cython.const[uint8_t]], memchr(data + start, byte, end - start)
    )
    return found - data if found else end


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has_hex(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t, count: cython.int
) -> cython.bint:
    """True if `count` hexadecimal digits begin at `start`."""
    stop: int64_t = start + count
    while start < stop and start < end and _is_hex(data[start]):
        start += 1
    return start == stop


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_escaped_nbsp(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t, mark: uint8_t
) -> cython.bint:
    """True if a no-break space (U+00A0) begins at `start`, as two escaped bytes."""
    if start + 6 > end or data[start + 3] != mark:
        return False
    return (
        data[start + 1] | 32 == 99
        and data[start + 2] == 50
        and data[start + 4] | 32 == 97
        and data[start + 5] == 48
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_pair(
    data: cython.pointer[cython.const[uint8_t]], first: int64_t, second: int64_t
) -> cython.bint:
    """True if the four hexadecimal digits at `first` and at `second` are the halves of a character
    beyond the basic plane."""
    if data[first] | 32 != 100 or not (
        data[first + 1] in (56, 57) or data[first + 1] | 32 in (97, 98)
    ):
        return False
    return data[second] | 32 == 100 and 99 <= data[second + 1] | 32 <= 102


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _match_html(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t
) -> int64_t:
    """The end of an HTML entity that begins with the & at `start`, or -1: &#64; &#64 &#x40;
    &commat; and each with &amp; for &."""
    position: int64_t = start + 1
    first: int64_t
    if (
        position + 4 <= end
        and data[position] == 97
        and data[position + 1] == 109
        and data[position + 2] == 112
        and data[position + 3] == 59
    ):
        first = _match_entity(data, position + 4, end)
        return first if first > 0 else position + 4  # &amp; itself
    return _match_entity(data, position, end)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _match_entity(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t
) -> int64_t:
    """The end of an HTML entity whose part behind the & begins at `start`, or -1."""
    position: int64_t = start
    first: int64_t
    if position >= end:
        return -1
    if data[position] == 35:  # #
        position += 1
        if position < end and data[position] | 32 == 120:
            first = position + 1
            position = first
            while position < end and position < first + 6 and _is_hex(data[position]):
                position += 1
        else:
            first = position
            while position < end and position < first + 7 and _is_digit(data[position]):
                position += 1
        if position == first:
            return -1
        return position + 1 if position < end and data[position] == 59 else position
    if not _is_letter(data[position]):
        return -1
    while (
        position < end
        and position < start + 25
        and (_is_letter(data[position]) or _is_digit(data[position]))
    ):
        position += 1
    return position + 1 if position >= start + 2 and position < end and data[position] == 59 else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _match_percent(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t
) -> int64_t:
    """The end of a byte of a URL that begins with the % at `start`, or -1: %40, %2540, %252540, and
    the %u0040 of old JavaScript."""
    position: int64_t = start + 1
    has_second: cython.bint
    if _is_escaped_nbsp(data, start, end, 37):
        return start + 6
    while position + 2 <= end and data[position] == 50 and data[position + 1] == 53:
        position += 2
    if position < end and data[position] == 117 and _has_hex(data, position + 1, end, 4):
        has_second = position + 11 <= end and data[position + 5] == 37 and data[position + 6] == 117
        if (
            has_second
            and _has_hex(data, position + 7, end, 4)
            and _is_pair(data, position + 1, position + 7)
        ):
            return position + 11
        return position + 5
    if _has_hex(data, position, end, 2):
        return position + 2
    return position if position > start + 1 else -1  # %25 itself


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _match_backslash(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t
) -> int64_t:
    """The end of an escape of JSON or of other languages whose backslashes begin at `start`, or -1:
    \\u0040, \\u{40}, \\U00000040, \\x40, the octal \\100 and \\56, \\/ and others."""
    position: int64_t = start
    second: int64_t
    has_second: cython.bint
    while position < end and data[position] == 92:
        position += 1
    if position == end:
        return -1
    if data[position] == 117 and position + 1 < end and data[position + 1] == 123:  # u{
        second = position + 2
        while second < end and second < position + 8 and _is_hex(data[second]):
            second += 1
        return second + 1 if position + 2 < second < end and data[second] == 125 else -1
    if data[position] == 117:  # u
        if not _has_hex(data, position + 1, end, 4):
            return -1
        second = position + 5
        while second < end and data[second] == 92:
            second += 1
        has_second = (
            position + 5 < second < end
            and data[second] == 117
            and _has_hex(data, second + 1, end, 4)
        )
        return (
            second + 5 if has_second and _is_pair(data, position + 1, second + 1) else position + 5
        )
    if data[position] == 85:  # U
        return position + 9 if _has_hex(data, position + 1, end, 8) else -1
    if 48 <= data[position] <= 55:  # two or three octal digits, at most 377
        second = position + 1
        while (
            second < end
            and second < position + (3 if data[position] <= 51 else 2)
            and 48 <= data[second] <= 55
        ):
            second += 1
        return second if second >= position + 2 else -1
    if data[position] == 120:  # x
        return position + 3 if _has_hex(data, position + 1, end, 2) else -1
    # " / b f n r t
    return position + 1 if data[position] in (34, 47, 98, 102, 110, 114, 116) else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _match_css(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t
) -> int64_t:
    """The end of an escape of CSS whose backslashes begin at `start`, or -1: two to six hexadecimal
    digits that begin with a decimal one or are followed by a blank, which is part of the escape:
    \\40, \\000040, \\e9 with its blank."""
    position: int64_t = start
    first: int64_t
    is_ended: cython.bint
    while position < end and data[position] == 92:
        position += 1
    first = position
    while position < end and position < first + 6 and _is_hex(data[position]):
        position += 1
    if position < first + 2:
        return -1
    is_ended = position < end and data[position] in (9, 10, 32)
    return position + is_ended if is_ended or _is_digit(data[first]) else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _match_equals(
    data: cython.pointer[cython.const[uint8_t]], start: int64_t, end: int64_t
) -> int64_t:
    """The end of a quoted-printable escape that begins with the = at `start`, or -1: =40, and a =
    at the end of a line."""
    position: int64_t = start + 1
    if _is_escaped_nbsp(data, start, end, 61):
        return start + 6
    if _has_hex(data, position, end, 2):
        return position + 2
    while position < end and (data[position] == 32 or data[position] == 9):
        position += 1
    if position < end and data[position] == 13:
        position += 1
    return position + 1 if position < end and data[position] == 10 else -1


def find_escapes(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    mark: cython.int,
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """Writes the escapes that begin with `mark`: & (HTML), % (URL), backslash (JSON), =
    (quoted-printable), or 256 more than a backslash (CSS)."""
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t
    position: int64_t
    text_end: int64_t
    end: int64_t
    size: int64_t = data.shape[0]
    first: cython.pointer[cython.const[uint8_t]]
    if size == 0:
        return 0
    first = cython.address(data[0])
    with cython.nogil:
        position, text_no, text_end = 0, -1, 0
        while position < size:
            position = _find_byte(first, position, size, mark & 255)
            if position == size:
                break
            while position >= text_end:
                text_no += 1
                text_end = offsets[text_no + 1]
            if mark == 38:
                end = _match_html(first, position, text_end)
            elif mark == 37:
                end = _match_percent(first, position, text_end)
            elif mark == 92:
                end = _match_backslash(first, position, text_end)
            elif mark == 256 + 92:
                end = _match_css(first, position, text_end)
            else:
                end = _match_equals(first, position, text_end)
            if end < 0:
                position += 1
                while mark & 255 == 92 and position < text_end and data[position] == 92:
                    position += 1
                continue
            if count < starts.shape[0]:
                text_nos[count], starts[count], ends[count] = text_no, position, end
            count += 1
            position = end
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_base64(byte: uint8_t) -> cython.int:
    """The six bits that a character of base64 stands for, or -1."""
    if 65 <= byte <= 90:
        return byte - 65
    if 97 <= byte <= 122:
        return byte - 71
    if _is_digit(byte):
        return byte + 4
    return 62 if byte == 43 else 63 if byte == 47 else -1


def find_utf7_escapes(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """Writes the shifted sequences of UTF-7: + with UTF-16 in base64, without control characters,
    and the - that ends it; and +- between letters or digits. Without a - only those of characters
    below U+0800, as base64 is common."""
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t = -1
    position: int64_t = 0
    end: int64_t = 0  # of the characters of base64 behind the + (which is one of them)
    text_start: int64_t = 0
    text_end: int64_t = 0
    checked_to: int64_t
    rest: int64_t
    word: uint32_t
    bit_count: cython.int
    unit: cython.int
    highest: cython.int
    size: int64_t = data.shape[0]
    first: cython.pointer[cython.const[uint8_t]]
    is_escape: cython.bint
    if size == 0:
        return 0
    first = cython.address(data[0])
    with cython.nogil:
        while position < size:
            position = _find_byte(first, position, size, 43)
            if position == size:
                break
            while position >= text_end:
                text_no += 1
                text_start, text_end = offsets[text_no], offsets[text_no + 1]
            end = max(end, position + 1)
            while end < text_end and _read_base64(data[end]) >= 0:
                end += 1
            rest = (end - position - 1) * 6 % 16  # bits behind the last character of UTF-16
            is_escape = False
            if end == position + 1:
                if position > text_start and end + 1 < text_end and data[end] == 45:
                    is_escape = (
                        _is_letter(data[position - 1]) or _is_digit(data[position - 1])
                    ) and (_is_letter(data[end + 1]) or _is_digit(data[end + 1]))
            elif (
                end >= position + 4
                and rest < 6
                and _read_base64(data[end - 1]) & ((1 << rest) - 1) == 0
            ):
                highest = 0xFFFF if end < text_end and data[end] == 45 else 0x7FF
                is_escape = True
                word, bit_count, checked_to = 0, 0, position + 1
                while is_escape and checked_to < end and checked_to < position + _MAX_CHECKED:
                    word, bit_count = (
                        (word << 6 | _read_base64(data[checked_to])) & 0xFFFFFF,
                        bit_count + 6,
                    )
                    checked_to += 1
                    if bit_count >= 16:
                        bit_count -= 16
                        unit = word >> bit_count & 0xFFFF
                        is_escape = (
                            32 <= unit <= highest or unit in (9, 10, 13)
                        ) and not 127 <= unit < 160
            if is_escape:
                end += end < text_end and data[end] == 45
                if count < starts.shape[0]:
                    text_nos[count], starts[count], ends[count] = text_no, position, end
                count += 1
                position = end
            else:
                position += 1
    return count


def find_form_blanks(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    pairs: cython.const[uint8_t][:, ::1],
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """Writes each + that may be a blank of form encoding: between bytes a and b for which pairs[a,
    b] is set, of 256 times 256, or beside an escape such as %C3."""
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t = -1
    position: int64_t = 0
    text_start: int64_t = 0
    text_end: int64_t = 0
    is_blank: cython.bint
    size: int64_t = data.shape[0]
    first: cython.pointer[cython.const[uint8_t]]
    if size == 0:
        return 0
    first = cython.address(data[0])
    with cython.nogil:
        while position < size:
            position = _find_byte(first, position, size, 43)
            if position == size:
                break
            while position >= text_end:
                text_no += 1
                text_start, text_end = offsets[text_no], offsets[text_no + 1]
            if text_start < position < text_end - 1:
                is_blank = pairs[data[position - 1], data[position + 1]]
                is_blank = is_blank or (
                    data[position + 1] == 37 and _has_hex(first, position + 2, text_end, 2)
                )
                if position >= text_start + 3 and data[position - 3] == 37:
                    is_blank = is_blank or _has_hex(first, position - 2, position, 2)
                if is_blank:
                    if count < starts.shape[0]:
                        text_nos[count], starts[count], ends[count] = (
                            text_no,
                            position,
                            position + 1,
                        )
                    count += 1
            position += 1
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_wrapping(byte: uint8_t) -> cython.bint:
    """True for the characters of a local part that contains another address."""
    # % & ' + - . / = _
    return _is_letter(byte) or _is_digit(byte) or byte in (37, 38, 39, 43, 45, 46, 47, 61, 95)


def find_wrapped_signs(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """Writes the escapes before each @ whose local part contains another address: the = of a bounce
    (`bob=example.com@`), and after `IMCEA` each + with two hexadecimal digits, _20, _2E and _40,
    and every other _."""
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t
    position: int64_t
    start: int64_t
    sign: int64_t
    end: int64_t
    text_end: int64_t
    last: int64_t
    has_dot: cython.bint
    is_wrapped: cython.bint
    size: int64_t = data.shape[0]
    first: cython.pointer[cython.const[uint8_t]]
    if size == 0:
        return 0
    first = cython.address(data[0])
    with cython.nogil:
        position, text_no, text_end, last = 0, -1, 0, 0
        while position < size:
            position = _find_byte(first, position, size, 64)
            if position == size:
                break
            while position >= text_end:
                last = offsets[text_no + 1]
                text_no += 1
                text_end = offsets[text_no + 1]
            start, sign, has_dot = position, -1, False
            while start > last and _is_wrapping(data[start - 1]):
                start -= 1
                if sign < 0:
                    if data[start] == 61:
                        sign = start
                    elif data[start] == 46:
                        has_dot = True
            is_wrapped = False
            end = start
            while end + 5 < position and not is_wrapped:
                is_wrapped = (
                    data[end] == 73
                    and data[end + 1] == 77
                    and data[end + 2] == 67
                    and data[end + 3] == 69
                    and data[end + 4] == 65
                )
                end += 1
            if is_wrapped:
                sign = end + 4
                while sign < position:
                    end = sign + 1
                    if data[sign] == 43 and _has_hex(first, sign + 1, position, 2):
                        end = sign + 3
                    elif data[sign] == 95:
                        if sign + 2 < position and (
                            (data[sign + 1] == 52 and data[sign + 2] == 48)
                            or (
                                data[sign + 1] == 50
                                and (data[sign + 2] == 48 or data[sign + 2] | 32 == 101)
                            )
                        ):
                            end = sign + 3
                    else:
                        sign += 1
                        continue
                    if count < starts.shape[0]:
                        text_nos[count], starts[count], ends[count] = text_no, sign, end
                    count += 1
                    sign = end
            elif sign > start and has_dot and _is_letter(data[position - 1]):
                if count < starts.shape[0]:
                    text_nos[count], starts[count], ends[count] = text_no, sign, sign + 1
                count += 1
            position += 1
            last = position
    return count


def find_characters(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    classes: cython.const[uint8_t][::1],
    is_known: cython.const[uint8_t][::1],
    unknown: uint8_t[::1],
    wanted: uint8_t,
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """Writes the characters beyond ASCII of which `classes` (by code point) has a bit of `wanted`.
    Bytes that are no UTF-8 are left out.

    `is_known` has for each block of 256 code points, as many as `classes` has, whether their
    classes are set; where they are not, the characters are left out, and the entry of the block in
    `unknown` is set to 1.
    """
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t = -1
    position: int64_t = 0
    text_end: int64_t = 0
    size: int64_t = data.shape[0]
    word: uint64_t
    code: uint32_t
    length: cython.int
    step: cython.int
    with cython.nogil:
        while position < size:
            if position + 8 <= size:  # eight bytes of ASCII at once
                memcpy(cython.address(word), cython.address(data[position]), 8)
                if word & cython.cast(uint64_t, 0x8080808080808080) == 0:
                    position += 8
                    continue
            if data[position] < 0xC2 or data[position] > 0xF4:
                position += 1
                continue
            while position >= text_end:
                text_no += 1
                text_end = offsets[text_no + 1]
            length = 2 if data[position] < 0xE0 else 3 if data[position] < 0xF0 else 4
            code = data[position] & (0x7F >> length)
            step = 1
            while (
                step < length
                and position + step < text_end
                and data[position + step] & 0xC0 == 0x80
            ):
                code = code << 6 | data[position + step] & 0x3F
                step += 1
            if (
                step < length
                or length == 3
                and code < 0x800
                or length == 4
                and (code < 0x10000 or code > 0x10FFFF)
            ):
                position += 1
                continue
            if code < classes.shape[0] and not is_known[code >> 8]:
                unknown[code >> 8] = 1
            elif code < classes.shape[0] and classes[code] & wanted:
                if count < starts.shape[0]:
                    text_nos[count], starts[count], ends[count] = (
                        text_no,
                        position,
                        position + length,
                    )
                count += 1
            position += length
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_control(byte: uint8_t) -> cython.bint:
    """True for the control characters of ASCII without tab and the ends of lines."""
    return ((byte < 32) & (byte != 9) & (byte != 10) & (byte != 13)) | (byte == 127)


def find_controls(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """Writes the control characters of ASCII without tab and the ends of lines: an escape of a
    terminal with all of its sequence (ESC[32m), a zero byte only where it is alone, as others are
    part of numbers or of UTF-16."""
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t = -1
    position: int64_t = 0
    end: int64_t
    text_start: int64_t = 0
    text_end: int64_t = 0
    block_end: int64_t
    size: int64_t = data.shape[0]
    has_control: uint8_t
    step: cython.int
    is_alone: cython.bint
    with cython.nogil:
        while position < size:
            block_end = min(size, position + _BLOCK_BYTES)
            has_control = 0
            # without branches, so that it is compiled to vector instructions
            for end in range(position, block_end):
                has_control |= _is_control(data[end])
            if not has_control:
                position = block_end
                continue
            while position < block_end:
                if not _is_control(data[position]):
                    position += 1
                    continue
                while position >= text_end:
                    text_no += 1
                    text_start, text_end = offsets[text_no], offsets[text_no + 1]
                end, is_alone = position + 1, True
                if data[position] == 0:
                    for step in range(1, 3):
                        if position - step >= text_start and data[position - step] == 0:
                            is_alone = False
                        if position + step < text_end and data[position + step] == 0:
                            is_alone = False
                elif data[position] == 27 and end < text_end and data[end] == 91:
                    end += 1
                    while end < text_end and end < position + _MAX_BLANKS and 32 <= data[end] < 64:
                        end += 1
                    end = end + 1 if end < text_end and 64 <= data[end] < 127 else position + 1
                if is_alone:
                    if count < starts.shape[0]:
                        text_nos[count], starts[count], ends[count] = text_no, position, end
                    count += 1
                position = end
    return count


def find_line_breaks(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    pairs: cython.const[uint8_t][:, ::1],
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """Writes the ends of lines inside a paragraph, each with the blanks and backslashes before it
    and the blanks and quote marks (> and |) after it; only those between bytes a and b for which
    pairs[a, b] is set, of 256 times 256."""
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t = -1
    position: int64_t = 0
    start: int64_t
    end: int64_t
    text_start: int64_t = 0
    text_end: int64_t = 0
    is_inside: cython.bint
    size: int64_t = data.shape[0]
    first: cython.pointer[cython.const[uint8_t]]
    if size == 0:
        return 0
    first = cython.address(data[0])
    with cython.nogil:
        while position < size:
            position = _find_byte(first, position, size, 10)
            if position == size:
                break
            while position >= text_end:
                text_no += 1
                text_start, text_end = offsets[text_no], offsets[text_no + 1]
            start, end = position, position + 1
            while (
                start > text_start
                and position - start < _MAX_BLANKS
                and data[start - 1] in (9, 13, 32, 92)
            ):
                start -= 1
            while (
                end < text_end
                and end - position - 1 < _MAX_BLANKS
                and data[end] in (9, 32, 62, 124)
            ):
                end += 1
            is_inside = (
                start > text_start
                and end < text_end
                and data[start - 1] != 10
                and data[end] not in (9, 10, 13, 32)
            )
            if is_inside and pairs[data[start - 1], data[end]]:
                if count < starts.shape[0]:
                    text_nos[count], starts[count], ends[count] = text_no, start, end
                count += 1
            position += 1
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_blank(byte: uint8_t) -> cython.bint:
    return (byte == 32) | (byte == 9)


def find_blank_runs(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    pairs: cython.const[uint8_t][:, ::1],
    text_nos: int64_t[::1],
    starts: int64_t[::1],
    ends: int64_t[::1],
):
    """Writes the runs of 2 to 40 blanks and tabs between bytes a and b for which pairs[a, b] is
    set, of 256 times 256."""
    count: cython.Py_ssize_t = 0
    text_no: cython.Py_ssize_t = -1
    position: int64_t = 0
    end: int64_t
    text_start: int64_t = 0
    text_end: int64_t = 0
    block_end: int64_t
    size: int64_t = data.shape[0]
    has_run: uint8_t
    is_run: cython.bint
    with cython.nogil:
        while position + 1 < size:
            block_end = min(size - 1, position + _BLOCK_BYTES)
            has_run = 0
            # without branches, so that it is compiled to vector instructions
            for end in range(position, block_end):
                has_run |= _is_blank(data[end]) & _is_blank(data[end + 1])
            if not has_run:
                position = block_end
                continue
            while position < block_end:
                if not (_is_blank(data[position]) and _is_blank(data[position + 1])):
                    position += 1
                    continue
                while position >= text_end:
                    text_no += 1
                    text_start, text_end = offsets[text_no], offsets[text_no + 1]
                end = position + 1
                while end < text_end and _is_blank(data[end]):
                    end += 1
                is_run = (
                    2 <= end - position <= _MAX_BLANKS and text_start < position and end < text_end
                )
                if is_run and pairs[data[position - 1], data[end]]:
                    if count < starts.shape[0]:
                        text_nos[count], starts[count], ends[count] = text_no, position, end
                    count += 1
                position = end
    return count


def merge_windows(
    data: cython.const[uint8_t][::1],
    offsets: cython.const[int64_t][::1],
    text_nos: cython.const[int64_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    margin: int64_t,
    window_texts: int64_t[::1],
    window_starts: int64_t[::1],
    window_ends: int64_t[::1],
):
    """Writes windows with `margin` bytes on either side of places, none across two texts and none
    with a part of a character (UTF-8); those that overlap or touch are one. Returns how many there
    are: at most as many as places."""
    count: cython.Py_ssize_t = 0
    place: cython.Py_ssize_t
    start: int64_t
    end: int64_t
    with cython.nogil:
        for place in range(starts.shape[0]):
            start, end = (
                max(starts[place] - margin, offsets[text_nos[place]]),
                min(ends[place] + margin, offsets[text_nos[place] + 1]),
            )
            while start > offsets[text_nos[place]] and data[start] & 0xC0 == 0x80:
                start -= 1
            while end < offsets[text_nos[place] + 1] and data[end] & 0xC0 == 0x80:
                end += 1
            if (
                count
                and window_texts[count - 1] == text_nos[place]
                and start <= window_ends[count - 1]
            ):
                window_ends[count - 1] = end
            else:
                window_texts[count], window_starts[count], window_ends[count] = (
                    text_nos[place],
                    start,
                    end,
                )
                count += 1
    return count


def splice_windows(
    data: cython.const[uint8_t][::1],
    window_starts: cython.const[int64_t][::1],
    window_ends: cython.const[int64_t][::1],
    starts: cython.const[int64_t][::1],
    ends: cython.const[int64_t][::1],
    replacements: cython.const[uint8_t][::1],
    replacement_offsets: cython.const[int64_t][::1],
    spliced: uint8_t[::1],
    spliced_offsets: int64_t[::1],
    spliced_starts: int64_t[::1],
    first_places: int64_t[::1],
):
    """Writes each window of `data` to `spliced`, with the places in it replaced. `spliced_offsets`:
    where each window ends up; `spliced_starts`: where each replacement does; `first_places`: the
    first place of each window. Each place is within a window, in order; `spliced` is long enough
    for all."""
    size: int64_t = 0
    window: cython.Py_ssize_t
    place: cython.Py_ssize_t = 0
    position: int64_t
    length: int64_t
    with cython.nogil:
        for window in range(window_starts.shape[0]):
            spliced_offsets[window], first_places[window] = size, place
            position = window_starts[window]
            while place < starts.shape[0] and starts[place] < window_ends[window]:
                length = starts[place] - position
                if length > 0:
                    memcpy(cython.address(spliced[size]), cython.address(data[position]), length)
                    size += length
                spliced_starts[place] = size
                length = replacement_offsets[place + 1] - replacement_offsets[place]
                if length > 0:
                    memcpy(
                        cython.address(spliced[size]),
                        cython.address(replacements[replacement_offsets[place]]),
                        length,
                    )
                    size += length
                position = ends[place]
                place += 1
            length = window_ends[window] - position
            if length > 0:
                memcpy(cython.address(spliced[size]), cython.address(data[position]), length)
                size += length
        spliced_offsets[window_starts.shape[0]] = size
