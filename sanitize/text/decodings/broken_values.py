"""Finds values that a line end, quoted-printable or a character reader broke, and what each broken
place stands for in the plain reading of the text.

    address          ann.roe@ / example.org, ann.roe@example-univer / sity.edu
    soft break       a number over the `=` that ends a line of quoted-printable
    hyphen           123-45- / 6789, 205-555- / 0142
    groups           a card or an IBAN in groups of four, a telephone number behind its label
    read letters     O, I and l in the digits of a number behind its label: `Tel: 2O5-555-O142`

The candidates are found by their bytes, so a text without any costs a few passes of numpy; a
regular expression decides about each.
"""

from __future__ import annotations

import re

import numpy as np

from sanitize.array_types import I64, U8
from sanitize.core.arrow_buffers import TextBuffers, make_byte_table
from sanitize.text.decodings.decoded_pieces import find_text_no
from sanitize.text.decodings.escapes import FoundEscapes, decode_places

_LINE_FEED, _CARRIAGE_RETURN, _BLANK, _AT_SIGN = b"\n\r @"
_IS_DIGIT = make_byte_table(b"0123456789")
_IS_GROUP = make_byte_table(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_IS_SEPARATOR = make_byte_table(b" -.()/\n\r")
_IS_QUOTE = make_byte_table(b"> \t")
_ENDS_OPEN_HOST = make_byte_table(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-.@"
)
_OPEN_HOST = re.compile(rb"@[A-Za-z0-9-]*\.?")
_ENDS_BROKEN_LINE = _IS_GROUP | make_byte_table(b"-=")
_IS_READ_LETTER = make_byte_table(b"OoIl")
_BYTES_BESIDE = 80  # on either side of a broken place: what decides about it

_BREAK = rb"[ \t]*\r?\n[> \t]*"
# the ends of hosts at which an address may go on; not those that are words or endings of files
_HOST_END = rb"(?:com|org|net|edu|gov|mil|info|example|(?:ac|co|com|edu|gov|org)\.[a-z]{2})"
_LOCAL = rb"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@"
_PHONE_LABEL = (
    rb"(?i:\b(?:tel|telephone|telefon|t[e\xc3][\xa9l]*l?|phone|ph|fax|mobile|cell)\b)[^\n0-9]{0,12}"
)
_CARD_LABEL = (
    rb"(?i:\b(?:card|visa|mastercard|amex|cc|karte|kreditkarte|carte|tarjeta|carta)\b)"
    rb"[^\n0-9]{0,20}"
)
_SSN_LABEL = rb"(?i:\bssn\b|\bsoc(?:ial|\.)? ?sec(?:urity|\.)?)[^\n0-9]{0,16}?"
# each has the broken place as its group; what it stands for
_BROKEN_LINES: tuple[tuple[re.Pattern[bytes], bytes], ...] = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (
            _LOCAL + rb"(" + _BREAK + rb")(?:[A-Za-z0-9-]+\.)+" + rb"[a-z]{2,}(?![A-Za-z0-9-])",
            b"",
        ),
        (
            _LOCAL
            + rb"[A-Za-z0-9-]+("
            + _BREAK
            + rb")[a-z0-9-]+(?:\.[a-z0-9-]+)*\."
            + _HOST_END
            + rb"(?![A-Za-z0-9-]|\.[A-Za-z0-9])",
            b"",
        ),
        (
            _LOCAL + rb"[A-Za-z0-9-]+\.(" + _BREAK + rb")" + _HOST_END + rb"(?![A-Za-z0-9-])",
            b"",
        ),
        (rb"(?<![0-9-])[0-9]{3}-[0-9]{2}-(" + _BREAK + rb")[0-9]{4}(?![0-9-])", b""),
        (rb"(?<![0-9-])[0-9]{3}-(" + _BREAK + rb")[0-9]{2}-[0-9]{4}(?![0-9-])", b""),
        (
            rb"(?<![0-9-])[0-9]{3}-[0-9]{3}-(" + _BREAK + rb")[0-9]{4}(?![0-9-])",
            b"",
        ),
        (
            rb"(?<![0-9-])[0-9]{3}-(" + _BREAK + rb")[0-9]{3}-[0-9]{4}(?![0-9-])",
            b"",
        ),
        (
            _PHONE_LABEL
            + rb"\+?(?:[0-9]{1,3}[ .-])?\(?[0-9]{3}[) .-]{1,2}[0-9]{3}("
            + _BREAK
            + rb")[0-9]{4}(?![0-9])",
            b" ",
        ),
        *(
            (
                _CARD_LABEL
                + rb"[0-9]{4}"
                + rb"[ -][0-9]{4}" * before
                + rb"("
                + _BREAK
                + rb")[0-9]{4}"
                + rb"[ -][0-9]{4}" * (2 - before)
                + rb"(?![0-9]|[ -][0-9])",
                b" ",
            )
            for before in range(3)
        ),
        (rb"[0-9]{3}[ .-]?[0-9]*(=\r?\n)[0-9][0-9 .-]*[0-9]", b""),
        # the check digits of the IBAN decide
        (
            rb"\b[A-Z]{2}[0-9]{2}(?: [A-Z0-9]{4}){1,7}("
            + _BREAK
            + rb")[A-Z0-9]{4}(?: [A-Z0-9]{4}){0,6}(?: [A-Z0-9]{1,3})?\b",
            b" ",
        ),
    )
)
_BROKEN_NUMBERS = tuple(line for line in _BROKEN_LINES if _LOCAL not in line[0].pattern)
_UNLABELLED_NUMBERS = tuple(
    line for line in _BROKEN_NUMBERS if not line[0].pattern.startswith((_PHONE_LABEL, _CARD_LABEL))
)
# one of the labels of telephone numbers and cards; most lines have none
_IS_LABELLED = re.compile(
    rb"(?i:tel|t\xc3\xa9l|ph|fax|mobile|cell|card|visa|amex|cc|kart|carte|tarjeta|carta)"
)
_READ_DIGIT = rb"[0-9OoIl]"
_READ_NUMBERS: tuple[re.Pattern[bytes], ...] = tuple(
    re.compile(label + rb"((?=\S*[0-9])" + number + rb")(?![A-Za-z0-9])")
    for label, number in (
        (
            _PHONE_LABEL.replace(b"[^\\n0-9]", rb"[^\nA-Za-z0-9]"),
            rb"\(?D{3}\)?[ .-]{1,2}D{3}[ .-]D{4}".replace(b"D", _READ_DIGIT),
        ),
        (
            _SSN_LABEL.replace(b"[^\\n0-9]", rb"[^\nA-Za-z0-9]"),
            rb"D{3}[- ]D{2}[- ]D{4}".replace(b"D", _READ_DIGIT),
        ),
        (
            _CARD_LABEL.replace(b"[^\\n0-9]", rb"[^\nA-Za-z0-9]"),
            rb"D{4}(?:[ -]?D{4}){3}".replace(b"D", _READ_DIGIT),
        ),
    )
)
_MAX_READ_LETTERS = 4  # in a number; more are a word


def find_broken_values(buffers: TextBuffers) -> list[FoundEscapes]:
    """The broken places of all texts, by what they stand for; each place is in one of them."""
    data = np.append(buffers.data, np.zeros(8, np.uint8))
    places: dict[bytes, set[tuple[int, int]]] = {}
    for feed in _find_line_ends(data, buffers).tolist():
        low, high = max(0, feed - _BYTES_BESIDE), feed + _BYTES_BESIDE
        around = buffers.data[low:high].tobytes()
        if b"@" in around[: feed - low]:
            patterns = _BROKEN_LINES
        else:
            is_labelled = _IS_LABELLED.search(around, 0, feed - low) is not None
            patterns = _BROKEN_NUMBERS if is_labelled else _UNLABELLED_NUMBERS
        for pattern, plain in patterns:
            _add_place(places, pattern, plain, around, low, feed)
    for letter in _find_read_letters(data).tolist():
        low = max(0, letter - _BYTES_BESIDE)
        around = buffers.data[low : letter + 32].tobytes()
        if any(_has_letter(pattern, around, letter - low) for pattern in _READ_NUMBERS):
            plain = b"0" if data[letter] in b"Oo" else b"1"
            places.setdefault(plain, set()).add((letter, letter + 1))
    return [
        found for plain, spans in places.items() if (found := _make_escapes(buffers, plain, spans))
    ]


def _find_line_ends(data: U8, buffers: TextBuffers) -> I64:
    """The line feeds that may be inside a value: behind an address without its end, a hyphen or the
    `=` of quoted-printable between digits, or between two groups of four."""
    feeds = np.flatnonzero(buffers.data == _LINE_FEED)
    feeds = feeds[feeds > 4]
    last = feeds - 1
    last_byte = data[last]
    for sign in (_BLANK, _CARRIAGE_RETURN, _BLANK):
        last = last - (last_byte == sign)
        last_byte = data[last]
    open_hosts = _find_open_hosts(data, feeds, last)
    may_end = np.flatnonzero(_ENDS_BROKEN_LINE[last_byte])
    feeds, last, last_byte = feeds[may_end], last[may_end], last_byte[may_end]
    first = feeds + 1  # of the next line, behind a blank, `> ` or nothing
    for _ in range(2):
        first += _IS_QUOTE[data[np.minimum(first, len(data) - 1)]]
    goes_on = np.flatnonzero(_IS_GROUP[data[np.minimum(first, len(data) - 1)]])
    feeds, last, first = feeds[goes_on], last[goes_on], first[goes_on]
    before = [data[np.maximum(last - at, 0)] for at in range(5)]
    following = [data[np.minimum(first + at, len(data) - 1)] for at in range(5)]
    ends_group = _IS_GROUP[before[0]] & _IS_GROUP[before[1]] & _IS_GROUP[before[2]]
    ends_group &= _IS_SEPARATOR[before[3]] | (_IS_GROUP[before[3]] & _IS_SEPARATOR[before[4]])
    for column in following[:4]:
        ends_group &= _IS_GROUP[column]
    ends_group &= ~_IS_GROUP[following[4]]
    ends_open = ~_IS_GROUP[before[0]] & _IS_DIGIT[before[1]] & _IS_DIGIT[following[0]]
    return np.union1d(feeds[ends_group | ends_open], open_hosts)


def _find_open_hosts(data: U8, feeds: I64, last: I64) -> I64:
    """The line feeds behind an @, or behind it and a word with or without a full stop; `last` is
    the last byte of each line that is no blank."""
    rows = np.flatnonzero(_ENDS_OPEN_HOST[data[last]])
    at_signs = np.flatnonzero(data == _AT_SIGN)
    if not len(at_signs):
        return at_signs
    nearest = at_signs[np.maximum(np.searchsorted(at_signs, last[rows], side="right") - 1, 0)]
    distance = last[rows] - nearest
    is_near = (distance >= 0) & (distance < _BYTES_BESIDE // 2)
    rows, nearest = rows[is_near], nearest[is_near]
    is_open = [
        _OPEN_HOST.fullmatch(data[start : stop + 1].tobytes()) is not None
        for start, stop in zip(nearest.tolist(), last[rows].tolist(), strict=True)
    ]
    return feeds[rows[np.array(is_open, np.bool_)]]


def _add_place(
    places: dict[bytes, set[tuple[int, int]]],
    pattern: re.Pattern[bytes],
    plain: bytes,
    around: bytes,
    low: int,
    feed: int,
) -> None:
    """Adds the broken place of a match whose group has the line feed at `feed`."""
    for match in pattern.finditer(around):
        start, end = match.span(1)
        if start <= feed - low < end and not any(
            (low + start, low + end) in known for known in places.values()
        ):
            places.setdefault(plain, set()).add((low + start, low + end))


def _find_read_letters(data: U8) -> I64:
    """The letters that may stand for a digit: beside a digit or a separator, and with a separator
    at most four bytes away on both sides."""
    letters = np.flatnonzero(_IS_READ_LETTER[data])
    letters = letters[(letters >= 5) & (letters < len(data) - 8)]
    beside = _IS_DIGIT[data[letters - 1]] | _IS_DIGIT[data[letters + 1]]
    letters = letters[beside]
    is_near = np.zeros((2, len(letters)), np.bool_)
    for distance in range(1, 5):
        is_near[0] |= _IS_SEPARATOR[data[letters - distance]]
        is_near[1] |= _IS_SEPARATOR[data[letters + distance]] | (data[letters + distance] == 0)
    return letters[is_near.all(axis=0)]


def _has_letter(pattern: re.Pattern[bytes], around: bytes, at: int) -> bool:
    """Whether a number behind its label has the letter at `at`, and not too many letters."""
    for match in pattern.finditer(around):
        start, end = match.span(1)
        if start <= at < end:
            letters = sum(match.group(1).count(letter) for letter in (b"O", b"o", b"I", b"l"))
            return letters <= _MAX_READ_LETTERS
    return False


def _make_escapes(
    buffers: TextBuffers, plain: bytes, spans: set[tuple[int, int]]
) -> FoundEscapes | None:
    """The places that stand for `plain`; a place over the border of two texts is none."""
    starts, ends = np.array(sorted(spans), np.int64).T
    text_no = find_text_no(buffers, starts)
    inside = np.flatnonzero(ends < buffers.offsets[text_no + 1])
    return decode_places(buffers, (text_no[inside], starts[inside], ends[inside]), lambda _: plain)
