"""Finds the characters of a column that hide a value from a pattern, and what each stands for in a
plain reading of the text, in which finders search once more.

    digits               digits of other scripts, also full-width ones
    full-width           other full-width characters of ASCII beside a digit, and in texts with
                         full-width digits or a full-width @
    invisible            between visible characters of ASCII, such characters, or a digit and a
                         blank: zero-width characters, soft hyphens, marks of direction, the frames
                         of keycaps
    HTML                 numeric entities of the characters of an address
    Cloudflare           `data-cfemail="..."`: the address that it encodes
    broken values        line ends inside values, letters that stand for digits
                         (sanitize/text/decodings/broken_values.py)

A text without any of these costs one scan.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import TextBuffers, make_byte_table, slice_spans, to_large_string
from sanitize.text.decodings.broken_values import find_broken_values
from sanitize.text.decodings.character_classes import (
    FOLDS_TO_ASCII,
    INVISIBLE,
    OTHER_DIGIT,
    find_character_places,
)
from sanitize.text.decodings.decoded_pieces import Decoding, find_text_no
from sanitize.text.decodings.escapes import (
    ESCAPES,
    FoundEscapes,
    decode_escapes,
    decode_places,
    normalise_character,
)

# what a place is: nothing to replace, an invisible character, a full-width one, a digit or an @
_OTHER, _HIDDEN, _SIGN, _SURE = range(4)
_IS_ASCII_DIGIT = make_byte_table(b"0123456789")
_IS_SURE = make_byte_table(b"0123456789@")
_BLANK = ord(" ")
_IS_VISIBLE = make_byte_table(bytes(range(33, 127)))
_ADDRESS_BYTES = make_byte_table(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz@._+-"
)
_HEXADECIMAL = "[0-9A-Fa-f]{10,512}"
_ENCODED_ATTRIBUTE = b"data-cfemail="  # a search for plain bytes is faster
_ENCODED_ADDRESS = re.compile(
    rf"data-cfemail=[\"']?({_HEXADECIMAL})(?![0-9A-Fa-f])".encode(), re.ASCII
)
_ADDRESS = re.compile(rb"[\x21-\x7e]+@[\x21-\x7e]+")


def decode_hidden_characters(buffers: TextBuffers) -> Decoding | None:
    """The texts with such characters in their plain reading, whole; None if there are none."""
    found = [
        one
        for one in (
            _find_hidden_characters(buffers),
            _find_coded_letters(buffers),
            _find_encoded_addresses(buffers),
            *find_broken_values(buffers),
        )
        if one is not None
    ]
    if not found:
        return None
    escapes = found[0]
    if len(found) > 1:
        starts = np.concatenate([one.starts for one in found])
        ends = np.concatenate([one.ends for one in found])
        decoded = pa.concat_arrays([one.decoded.to_array() for one in found])
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        text_no = find_text_no(buffers, starts)
        decoded = TextBuffers.from_array(decoded.take(pa.array(order)))
        escapes = FoundEscapes(text_no, starts, ends, decoded)
    return decode_escapes("plain reading", buffers, escapes, len(buffers.data))


def to_plain_spelling(values: pa.LargeStringArray) -> pa.LargeStringArray:
    """The values with their hidden characters in the plain reading, and the addresses that are
    hexadecimal digits of Cloudflare decoded."""
    coded = pl.Series(values).str.contains(rf"\A{_HEXADECIMAL}\z").arg_true()
    if len(coded):
        addresses = [
            _decode_encoded_address(value.encode()).strip(b"<>").decode() or value
            for value in pl.Series(values).gather(coded)
        ]
        values = to_large_string(pl.Series(values).scatter(coded, addresses))
    decoding = decode_hidden_characters(TextBuffers.from_array(values))
    if decoding is None:
        return values
    none = np.zeros(len(decoding.pieces), np.int64)
    rows = decoding.find_encoded_spans(np.arange(len(none)), none, none).text_no
    plain = pl.Series(values).scatter(rows, pl.Series(decoding.pieces))
    return to_large_string(plain)


def _find_hidden_characters(buffers: TextBuffers) -> FoundEscapes | None:
    """Digits of other scripts, full-width and invisible characters, where they may be part of a
    value: of those that follow each other directly, all or none."""
    places = find_character_places(buffers, OTHER_DIGIT | INVISIBLE | FOLDS_TO_ASCII)
    found = decode_places(buffers, places, normalise_character)
    if found is None:
        return None
    text_no, starts, ends = places
    decoded_size, decoded = found.decoded.lengths, np.append(found.decoded.data, np.uint8(0))
    first = decoded[np.minimum(found.decoded.offsets[:-1], len(decoded) - 1)]
    role = np.select(
        [decoded_size == 0, decoded_size > 1, _IS_SURE[first]], [_HIDDEN, _OTHER, _SURE], _SIGN
    )
    rows = np.flatnonzero(role != _OTHER)
    if not len(rows):
        return None
    text_no, starts, ends, role = text_no[rows], starts[rows], ends[rows], role[rows]
    # runs of places without a byte between:  starts [3, 6, 20], ends [6, 9, 23] -> runs [0, 0, 1]
    begins_run = np.append(True, (starts[1:] != ends[:-1]) | (text_no[1:] != text_no[:-1]))
    run_no, run_starts = np.cumsum(begins_run) - 1, np.flatnonzero(begins_run)
    run_ends = np.append(run_starts[1:], len(rows)) - 1
    before = np.where(
        starts[run_starts] > buffers.offsets[text_no[run_starts]],
        buffers.data[starts[run_starts] - 1],
        0,
    )
    after = np.where(
        ends[run_ends] < buffers.offsets[text_no[run_ends] + 1],
        buffers.data[np.minimum(ends[run_ends], len(buffers.data) - 1)],
        0,
    )
    is_sure, has_sign = (
        np.bincount(run_no[role == one], minlength=len(run_starts)) > 0 for one in (_SURE, _SIGN)
    )
    # `ＧＢ２９ ＮＷＢＫ`: full-width letters of their own, in a text that is searched anyway
    run_text = text_no[run_starts]
    is_sure_text = np.zeros(len(buffers.lengths), np.bool_)
    is_sure_text[run_text[is_sure]] = True
    is_kept = is_sure | np.where(
        has_sign,
        is_sure_text[run_text] | _IS_ASCII_DIGIT[before] | _IS_ASCII_DIGIT[after],
        (_IS_VISIBLE[before] & _IS_VISIBLE[after])
        | (_IS_ASCII_DIGIT[before] & (after == _BLANK))
        | ((before == _BLANK) & _IS_ASCII_DIGIT[after]),
    )
    return _take(found, rows[is_kept[run_no]])


def _find_coded_letters(buffers: TextBuffers) -> FoundEscapes | None:
    """Numeric entities of HTML that stand for a character of an address."""
    found = ESCAPES["HTML"](buffers)
    if found is None:
        return None
    first = found.decoded.data[np.minimum(found.decoded.offsets[:-1], len(found.decoded.data) - 1)]
    is_numeric = buffers.data[np.minimum(found.starts + 1, len(buffers.data) - 1)] == ord("#")
    return _take(
        found, np.flatnonzero((found.decoded.lengths == 1) & _ADDRESS_BYTES[first] & is_numeric)
    )


def _find_encoded_addresses(buffers: TextBuffers) -> FoundEscapes | None:
    """The addresses that Cloudflare encodes: the first byte is added to each further one, without
    carry."""
    data = buffers.data.tobytes()
    if _ENCODED_ATTRIBUTE not in data:
        return None
    matches = [match.span(1) for match in _ENCODED_ADDRESS.finditer(data)]
    if not matches:
        return None
    starts, ends = np.array(matches, np.int64).T
    text_no = find_text_no(buffers, starts)
    inside = np.flatnonzero(ends <= buffers.offsets[text_no + 1])
    found = decode_places(
        buffers, (text_no[inside], starts[inside], ends[inside]), _decode_encoded_address
    )
    return found and _take(found, np.flatnonzero(found.decoded.lengths > 0))


def _decode_encoded_address(digits: bytes) -> bytes:
    """The address between brackets, which make it one whatever its host is; nothing where the
    digits encode none."""
    data = bytes.fromhex(digits[: len(digits) // 2 * 2].decode())
    address = bytes(byte ^ data[0] for byte in data[1:])
    return b"<" + address + b">" if _ADDRESS.fullmatch(address) else b""


def _take(found: FoundEscapes, rows: I64) -> FoundEscapes | None:
    """Some of the escapes; None for no rows."""
    if not len(rows):
        return None
    if len(rows) == len(found.starts):
        return found
    offsets = found.decoded.offsets
    decoded = slice_spans(found.decoded, offsets[rows], offsets[rows + 1])
    return FoundEscapes(
        found.text_no[rows], found.starts[rows], found.ends[rows], TextBuffers.from_array(decoded)
    )
