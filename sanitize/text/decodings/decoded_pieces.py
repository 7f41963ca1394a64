"""Pieces of text that were decoded from a column, and where in the column each of their bytes comes
from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, make_byte_table

# values of fewer bytes are not searched in these forms: their decoding occurs by chance
MIN_BYTES = {
    "base64": 8,
    "UTF-16": 8,
    "base32": 12,
    "base32hex": 12,
    "hexadecimal": 12,
    "uuencode": 12,
    "ASCII85": 8,
}
WORD_BYTES = make_byte_table(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class EncodedSpans:
    """Spans in a column, one row each: the number of its text, and start and end byte within that
    text. `is_encoded`: the span contains something that was decoded. `is_whole_word`: it is not
    part of a longer word; None if the form cannot tell."""

    text_no: I64
    start: I64
    end: I64
    is_encoded: Mask
    is_whole_word: Mask | None = None


@dataclass(frozen=True, repr=False)
class Decoding:
    """Decoded pieces of a column (bytes, not necessarily valid UTF-8).
    `find_encoded_spans(piece_no, start, end)` maps byte spans in the pieces back to the spans of
    the column that they were decoded from."""

    form: str
    pieces: pa.LargeStringArray
    find_encoded_spans: Callable[[I64, I64, I64], EncodedSpans]


def find_text_no(buffers: TextBuffers, byte_offsets: I64) -> I64:
    """The number of the text that each byte is in."""
    return np.searchsorted(buffers.offsets, byte_offsets, side="right") - 1


def is_whole_word(buffers: TextBuffers, text_no: I64, start: I64, end: I64) -> Mask:
    """True for spans of bytes that are no part of a longer word of ASCII."""
    data = buffers.data
    follows_word = (start > buffers.offsets[text_no]) & WORD_BYTES[data[start - 1]]
    precedes_word = (end < buffers.offsets[text_no + 1]) & WORD_BYTES[
        data[np.minimum(end, len(data) - 1)]
    ]
    is_whole: Mask = ~follows_word & ~precedes_word
    return is_whole
