"""Decodes UTF-16 and UTF-32 in a column of bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.decodings.decoded_pieces import Decoding, EncodedSpans, find_text_no

_MIN_CHARACTERS = 4  # characters of a stretch that have zero bytes
_MAX_GAP = 4  # from one of them to the next, in characters
_MARGIN = 8  # characters that are decoded before and after a stretch


def decode_wide_characters(buffers: TextBuffers) -> Decoding | None:
    """Decodes bytes as UTF-16 where every other byte of several is zero, and as UTF-32 where two of
    four are, in both byte orders."""
    if not len(buffers.data) or buffers.data.min() > 0:
        return None
    pieces, starts, widths = [], [], []
    # a loop over stretches with zero bytes, which ordinary text does not contain; each is decoded
    # once per byte order
    for width, first, last in find_wide_stretches(buffers):
        text_no = int(np.searchsorted(buffers.offsets, first, side="right")) - 1
        text_start, text_end = int(buffers.offsets[text_no]), int(buffers.offsets[text_no + 1])
        # the zeros are the last bytes of characters, or the first ones
        for order, first_start in (("le", first - width // 2), ("be", first)):
            start = first_start - width * min(_MARGIN, (first_start - text_start) // width)
            start = start if start >= text_start else start + width
            stop = min(last + _MARGIN * width + 1, text_end)
            decoded = (
                buffers.data[start:stop].tobytes().decode(f"utf-{8 * width}-{order}", "replace")
            )
            pieces.append(decoded.encode("utf-8", "replace"))
            starts.append(start)
            widths.append(width)
    if not pieces:
        return None
    text = pa.array(pieces, pa.large_binary())
    column = pa.LargeStringArray.from_buffers(len(text), *text.buffers()[1:])
    piece_starts, width_of_piece = np.array(starts, np.int64), np.array(widths, np.int64)
    piece_text = find_text_no(buffers, piece_starts)

    def find_encoded_spans(piece_nos: I64, start: I64, stop: I64) -> EncodedSpans:
        decoded = TextBuffers.from_array(column)
        text_no, width = piece_text[piece_nos], width_of_piece[piece_nos]
        # a character is one unit, in UTF-16 two if it takes four bytes of UTF-8
        character_count = np.concatenate([[0], np.cumsum((decoded.data & 0xC0) != 0x80)])
        pair_count = np.concatenate([[0], np.cumsum(decoded.data >= 0xF0)])
        first = decoded.offsets[piece_nos]

        def to_column(position: I64) -> I64:
            characters = character_count[first + position] - character_count[first]
            pairs = pair_count[first + position] - pair_count[first]
            place: I64 = (
                piece_starts[piece_nos] + width * characters + np.where(width == 2, 2 * pairs, 0)
            )
            # the last unit may be cut
            return np.minimum(place, buffers.offsets[text_no + 1]) - buffers.offsets[text_no]

        return EncodedSpans(
            text_no, to_column(start), to_column(stop), np.ones(len(piece_nos), np.bool_)
        )

    return Decoding("UTF-16", column, find_encoded_spans)


def find_wide_stretches(buffers: TextBuffers) -> Iterator[tuple[int, int, int]]:
    """Yields the stretches of UTF-16 and UTF-32: bytes of a character, place of the first zero, and
    end of the last one."""
    zeros = np.flatnonzero(buffers.data == 0)
    yield from ((2, *stretch) for stretch in _link_places(buffers, zeros, 2))
    # a character of the basic plane has two zeros beside each other
    pairs = zeros[:-1][np.diff(zeros) == 1]
    for remainder in range(4):
        stretches = _link_places(buffers, pairs[pairs % 4 == remainder], 4)
        yield from ((4, first, last + 1) for first, last in stretches)


def _link_places(buffers: TextBuffers, places: I64, width: int) -> Iterator[tuple[int, int]]:
    """Yields the first place of each sequence of at least four in steps of one to four characters,
    and the byte behind the last one."""
    if len(places) < _MIN_CHARACTERS:
        return
    step = np.diff(places)
    linked = (
        (step % width == 0)
        & (step <= _MAX_GAP * width)
        & (np.diff(find_text_no(buffers, places)) == 0)
    )
    firsts = np.flatnonzero(np.append(True, ~linked))
    size = np.diff(np.append(firsts, len(places)))
    is_long = size >= _MIN_CHARACTERS
    yield from zip(
        places[firsts[is_long]].tolist(),
        (places[(firsts + size - 1)[is_long]] + 1).tolist(),
        strict=True,
    )
