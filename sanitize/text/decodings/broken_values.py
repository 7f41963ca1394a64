"""Finds values that a line end, quoted-printable or a character reader broke, and what each broken
place stands for in the plain reading of the text.

    address          ann.roe@ / example.org, ann.roe@example-univer / sity.edu
    soft break       a number over the `=` that ends a line of quoted-printable
    hyphen           123-45- / 6789, 205-555- / 0142
    groups           a card or an IBAN in groups of four, a telephone number behind its label
    read letters     O, I and l in the digits of a number behind its label: `Tel: 2O5-555-O142`

The candidates are found by their bytes, so a text without any costs one pass; regular expressions
decide about each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from sanitize.core.arrow_buffers import TextBuffers, fill_columns, make_byte_table
from sanitize.kernels.broken_values import find_broken_lines, find_read_letters
from sanitize.text.decodings.decoded_pieces import find_text_no
from sanitize.text.decodings.escapes import FoundEscapes

_BYTES_BESIDE = 80  # on either side of a broken place: what decides about it
_BYTES_BEHIND_LETTER = 32
_MAX_HOST_BYTES = 40  # between an @ and the end of its line

_BREAK = rb"[ \t]*\r?\n[> \t]*"
# the ends of hosts at which an address may go on; not those that are words or endings of files
_HOST_END = rb"(?:com|org|net|edu|gov|mil|info|example|(?:ac|co|com|edu|gov|org)\.[a-z]{2})"
_LOCAL = rb"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@"
_PHONE_WORD = rb"(?i:\b(?:tel|telephone|telefon|t[e\xc3][\xa9l]*l?|phone|ph|fax|mobile|cell)\b)"
_CARD_WORD = rb"(?i:\b(?:card|visa|mastercard|amex|cc|karte|kreditkarte|carte|tarjeta|carta)\b)"
_SSN_WORD = rb"(?i:\bssn\b|\bsoc(?:ial|\.)? ?sec(?:urity|\.)?)"


def _compile(*patterns: tuple[bytes, bytes]) -> tuple[tuple[re.Pattern[bytes], bytes], ...]:
    """Patterns with the broken place as their group, and what replaces it; `~` is a break."""
    return tuple(
        (re.compile(pattern.replace(b"~", b"(" + _BREAK + b")")), plain)
        for pattern, plain in patterns
    )


_BROKEN_ADDRESSES = _compile(
    (_LOCAL + rb"~(?:[A-Za-z0-9-]+\.)+[a-z]{2,}(?![A-Za-z0-9-])", b""),
    (
        _LOCAL
        + rb"[A-Za-z0-9-]+~[a-z0-9-]+(?:\.[a-z0-9-]+)*\."
        + _HOST_END
        + rb"(?![A-Za-z0-9-]|\.[A-Za-z0-9])",
        b"",
    ),
    (_LOCAL + rb"[A-Za-z0-9-]+\.~" + _HOST_END + rb"(?![A-Za-z0-9-])", b""),
)
_BROKEN_NUMBERS = _compile(
    (rb"(?<![0-9-])[0-9]{3}-[0-9]{2,3}-~[0-9]{4}(?![0-9-])", b""),
    (rb"(?<![0-9-])[0-9]{3}-~[0-9]{2,3}-[0-9]{4}(?![0-9-])", b""),
    (rb"[0-9]{3}[ .-]?[0-9]*(=\r?\n)[0-9][0-9 .-]*[0-9]", b""),
    # the check digits of the IBAN decide
    (
        rb"\b[A-Z]{2}[0-9]{2}(?: [A-Z0-9]{4}){1,7}~"
        rb"[A-Z0-9]{4}(?: [A-Z0-9]{4}){0,6}(?: [A-Z0-9]{1,3})?\b",
        b" ",
    ),
)
_LABELLED_NUMBERS = _compile(
    (
        _PHONE_WORD + rb"[^\n0-9]{0,12}\+?(?:[0-9]{1,3}[ .-])?\(?[0-9]{3}[) .-]{1,2}"
        rb"[0-9]{3}~[0-9]{4}(?![0-9])",
        b" ",
    ),
    *(
        (
            _CARD_WORD
            + rb"[^\n0-9]{0,20}[0-9]{4}"
            + rb"[ -][0-9]{4}" * before
            + rb"~[0-9]{4}"
            + rb"[ -][0-9]{4}" * (2 - before)
            + rb"(?![0-9]|[ -][0-9])",
            b" ",
        )
        for before in range(3)
    ),
)
# one of the labels of telephone numbers and cards; most lines have none
_IS_LABELLED = re.compile(
    rb"(?i:tel|t\xc3\xa9l|ph|fax|mobile|cell|card|visa|amex|cc|kart|carte|tarjeta|carta)"
)
# D is a digit or a letter that is read as one
_READ_NUMBERS = tuple(
    re.compile(
        word
        + rb"[^\nA-Za-z0-9]"
        + gap
        + rb"((?=\S*[0-9])"
        + number.replace(b"D", b"[0-9OoIl]")
        + rb")(?![A-Za-z0-9])"
    )
    for word, gap, number in (
        (_PHONE_WORD, b"{0,12}", rb"\(?D{3}\)?[ .-]{1,2}D{3}[ .-]D{4}"),
        (_SSN_WORD, b"{0,16}?", rb"D{3}[- ]D{2}[- ]D{4}"),
        (_CARD_WORD, b"{0,20}", rb"D{4}(?:[ -]?D{4}){3}"),
    )
)
_MAX_READ_LETTERS = 4  # in a number; more are a word
_ROLES = make_byte_table(b"OoIl") + 2 * make_byte_table(b"0123456789").view(np.uint8)


def find_broken_values(buffers: TextBuffers) -> FoundEscapes | None:
    """The broken places of all texts; None if there are none."""
    plain_by_place: dict[tuple[int, int], bytes] = {}
    for feed, low, high in _find_windows(
        buffers, partial(find_broken_lines, buffers.data, buffers.offsets, _MAX_HOST_BYTES)
    ):
        around, at = buffers.data[low:high].tobytes(), feed - low
        patterns = _BROKEN_NUMBERS
        if b"@" in around[:at]:
            patterns = (*_BROKEN_ADDRESSES, *_BROKEN_NUMBERS, *_LABELLED_NUMBERS)
        elif _IS_LABELLED.search(around, 0, at):
            patterns = (*_BROKEN_NUMBERS, *_LABELLED_NUMBERS)
        for pattern, plain in patterns:
            for match in pattern.finditer(around):
                start, end = match.span(1)
                if start <= at < end:
                    plain_by_place.setdefault((low + start, low + end), plain)
    for letter, low, high in _find_windows(
        buffers, partial(find_read_letters, buffers.data, buffers.offsets, _ROLES)
    ):
        around = buffers.data[low : min(high, letter + _BYTES_BEHIND_LETTER)].tobytes()
        if any(_has_letter(pattern, around, letter - low) for pattern in _READ_NUMBERS):
            plain = b"0" if around[letter - low] in b"Oo" else b"1"
            plain_by_place[letter, letter + 1] = plain
    if not plain_by_place:
        return None
    places = sorted(plain_by_place)
    starts, ends = np.ascontiguousarray(np.array(places, np.int64).T)
    decoded = pa.array([plain_by_place[place].decode() for place in places], pa.large_string())
    return FoundEscapes(
        find_text_no(buffers, starts), starts, ends, TextBuffers.from_array(decoded)
    )


def _find_windows(buffers: TextBuffers, kernel: partial[int]) -> Iterator[tuple[int, int, int]]:
    """The positions that a kernel finds, each with the start and end of what decides about it in
    its text."""
    (positions,) = fill_columns(kernel, 1)
    text_no = find_text_no(buffers, positions)
    low = np.maximum(positions - _BYTES_BESIDE, buffers.offsets[text_no])
    high = np.minimum(positions + _BYTES_BESIDE, buffers.offsets[text_no + 1])
    return zip(positions.tolist(), low.tolist(), high.tolist(), strict=True)


def _has_letter(pattern: re.Pattern[bytes], around: bytes, at: int) -> bool:
    """Whether a number behind its label has the letter at `at`, and not too many letters."""
    for match in pattern.finditer(around):
        start, end = match.span(1)
        if start <= at < end:
            letters = sum(match.group(1).count(letter) for letter in (b"O", b"o", b"I", b"l"))
            return letters <= _MAX_READ_LETTERS
    return False
