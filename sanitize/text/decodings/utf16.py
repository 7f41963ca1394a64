"""Decodes UTF-16 in a column of bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.decodings.decoded_pieces import Decoding, EncodedSpans, find_text_no


def decode_utf16(buffers: TextBuffers) -> Decoding | None:
    """Decodes bytes as UTF-16, in both byte orders, where every other byte of several is zero."""
    if not len(buffers.data) or buffers.data.min() > 0:
        return None
    zeros = np.flatnonzero(buffers.data == 0)
    step = np.diff(zeros)
    linked = (step % 2 == 0) & (step <= 8) & (np.diff(find_text_no(buffers, zeros)) == 0)
    firsts = np.flatnonzero(np.append(True, ~linked))
    size = np.diff(np.append(firsts, len(zeros)))
    is_long = size >= 4
    low, high = zeros[firsts[is_long]], zeros[(firsts + size - 1)[is_long]] + 1
    pieces, starts = [], []
    # a loop over stretches with zero bytes, which ordinary text does not contain; each is decoded once per byte order
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        text_no = int(np.searchsorted(buffers.offsets, first, side="right")) - 1
        text_start, text_end = int(buffers.offsets[text_no]), int(buffers.offsets[text_no + 1])
        for order, piece_start in (("utf-16-le", first - 1), ("utf-16-be", first)):
            piece_start -= 2 * min(8, max(0, (piece_start - text_start) // 2))
            piece_start = max(piece_start, text_start)
            pieces.append(
                buffers.data[piece_start : min(last + 17, text_end)].tobytes().decode(order, "replace").encode("utf-8", "replace")
            )
            starts.append(piece_start)
    if not pieces:
        return None
    text = pa.array(pieces, pa.large_binary())
    begins = np.array(starts, np.int64)
    piece_text = find_text_no(buffers, begins)

    def find_encoded_spans(piece_nos: I64, start: I64, stop: I64) -> EncodedSpans:
        base = begins[piece_nos] - buffers.offsets[piece_text[piece_nos]]
        low, high = (
            base
            + np.array(
                [_utf16_length(pieces[text_no][:place]) for text_no, place in zip(piece_nos.tolist(), places.tolist(), strict=True)],
                np.int64,
            )
            for places in (start, stop)
        )
        return EncodedSpans(piece_text[piece_nos], low, high, np.ones(len(piece_nos), np.bool_))

    return Decoding("UTF-16", pa.LargeStringArray.from_buffers(len(text), *text.buffers()[1:]), find_encoded_spans)


def _utf16_length(utf8: bytes) -> int:
    """Returns the number of bytes that UTF-8 text takes in UTF-16."""
    return len(utf8.decode("utf-8", "replace").encode("utf-16-le"))
