"""Selects the parts of lines of a column of texts that can contain a number, without the values that were already found (a prefilter).

Most lines of most texts have no digit, and searching for one costs a tenth of what the automata of the number patterns cost. No
occurrence is lost: a piece is a whole line except for values already found, and the condition here is weaker than that of any kind with
`Kind.digit_lines_only`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import MASKED_BYTE, TextBuffers
from sanitize.kernels import digit_lines

_PIECES_PER_TEXT = 16  # pieces that are joined to one text of `DigitLines.buffers`
_BYTES_PER_PIECE = 128  # of a column, at first: room for so many pieces is reserved


@dataclass(frozen=True, repr=False)
class DigitLines:
    """Pieces of a column of texts, ascending, none across two texts. `buffers` holds them one after the other, with a control byte that
    no pattern matches after each; `_PIECES_PER_TEXT` of them form one text, as an automaton has a fixed cost per text."""

    buffers: TextBuffers
    piece_starts: I64  # where each piece begins in `buffers`
    column_starts: I64  # and in the column's bytes

    @classmethod
    def from_spans(cls, buffers: TextBuffers, starts: I64, ends: I64) -> DigitLines:
        """Builds the pieces [start, end) of a column (byte offsets)."""
        places = np.concatenate([[0], np.cumsum(ends - starts + 1)])
        joined = np.empty(places[-1], np.uint8)
        digit_lines.join_pieces(buffers.data, starts, ends, MASKED_BYTE, joined)
        text_starts = places[np.append(np.arange(0, len(starts), _PIECES_PER_TEXT), len(starts))]
        return cls(TextBuffers(joined, text_starts), places[:-1], starts)

    def to_column(self, piece_offsets: I64) -> I64:
        """Converts ascending byte offsets in `buffers` to byte offsets in the column."""
        piece = np.searchsorted(self.piece_starts, piece_offsets, side="right") - 1
        return self.column_starts[piece] + piece_offsets - self.piece_starts[piece]


def find_digit_lines(buffers: TextBuffers, excluded_starts: I64, excluded_ends: I64) -> DigitLines:
    """Returns the pieces with a digit, two `:` at most five bytes apart, two `.` five bytes apart or two `-` three bytes apart.

    A piece is what the excluded spans (byte offsets, half-open, ascending, not overlapping) leave of a line."""
    capacity = len(buffers.data) // _BYTES_PER_PIECE
    while True:
        starts, ends = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        count = digit_lines.select_pieces(buffers.data, buffers.offsets, excluded_starts, excluded_ends, starts, ends)
        if count <= capacity:
            return DigitLines.from_spans(buffers, starts[:count], ends[:count])
        capacity = count
