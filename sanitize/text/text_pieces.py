"""Selects the pieces of a column of texts in which patterns can match, and joins them to shorter
texts (a prefilter).

Most bytes of most texts belong to no occurrence, and an automaton of patterns costs five times what
the selection costs. No occurrence is lost: the conditions here are weaker than any pattern that is
searched in the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sanitize.array_types import I64, U8, U64
from sanitize.core.arrow_buffers import MASKED_BYTE, TextBuffers
from sanitize.core.intervals import enumerate_ranges
from sanitize.kernels import text_pieces as kernel

_PIECES_PER_TEXT = 16  # pieces that are joined to one text of `TextPieces.buffers`
_BYTES_PER_PIECE = 128  # of a column, at first: room for so many pieces is reserved
# of a kind with `Kind.landmarks`: the part of a value before one, with what its context rule reads,
# and the part behind one
_BYTES_BEFORE_LANDMARK, _BYTES_AFTER_LANDMARK = 160, 320
_BUCKETS, _WINDOW_BYTES = 64, 4  # of literals; of each the first bytes, which a filter reads
_MAX_LABEL_BYTES = 64  # of a line that is a label, and of a value alone on a line


@dataclass(frozen=True, repr=False)
class TextPieces:
    """Pieces of a column of texts, ascending, none across two texts. `buffers` holds them one after
    the other, with a control byte that no pattern matches after each; `_PIECES_PER_TEXT` of them
    form one text, as an automaton has a fixed cost per text."""

    buffers: TextBuffers
    piece_starts: I64  # where each piece begins in `buffers`
    column_starts: I64  # and in the column's bytes

    @classmethod
    def from_spans(cls, buffers: TextBuffers, starts: I64, ends: I64) -> TextPieces:
        """Builds the pieces [start, end) of a column (byte offsets)."""
        places = np.concatenate([[0], np.cumsum(ends - starts + 1)])
        joined = np.empty(places[-1], np.uint8)
        kernel.join_pieces(buffers.data, starts, ends, MASKED_BYTE, joined)
        text_starts = places[np.append(np.arange(0, len(starts), _PIECES_PER_TEXT), len(starts))]
        return cls(TextBuffers(joined, text_starts), places[:-1], starts)

    @classmethod
    def around_spans(cls, buffers: TextBuffers, starts: I64, ends: I64) -> TextPieces:
        """Builds the pieces with everything up to `_BYTES_BEFORE_LANDMARK` before and
        `_BYTES_AFTER_LANDMARK` after the spans (byte offsets, ascending) in their texts."""
        # spans [300, 304), [310, 315) of a text of 900 bytes -> one piece [140, 635)
        low, high, text_no = widen_spans(
            buffers, starts, ends, _BYTES_BEFORE_LANDMARK, _BYTES_AFTER_LANDMARK
        )
        is_first = np.ones(len(low), np.bool_)
        is_first[1:] = (low[1:] > high[:-1]) | (text_no[1:] != text_no[:-1])
        return cls.from_spans(buffers, low[is_first], high[np.roll(is_first, -1)])

    def mask_spans(self, starts: I64, ends: I64) -> TextBuffers:
        """The texts of the pieces with the bytes of these spans of the column masked."""
        # spans [280, 310) of pieces [300, 304), [308, 315) -> [300, 304), [308, 310)
        piece_ends = (
            self.column_starts + np.diff(self.piece_starts, append=len(self.buffers.data)) - 1
        )  # without the control byte
        first = np.searchsorted(piece_ends, starts, side="right")
        last = np.searchsorted(self.column_starts, ends, side="left")
        span, piece = enumerate_ranges(first, np.maximum(first, last))
        shift = self.piece_starts[piece] - self.column_starts[piece]
        low = np.maximum(starts[span], self.column_starts[piece]) + shift
        high = np.minimum(ends[span], piece_ends[piece]) + shift
        return mask_spans(self.buffers, low, high)

    def ends_in_column(self) -> I64:
        """Where each piece ends in the column's bytes."""
        stops = np.append(self.piece_starts, len(self.buffers.data))[1:]
        ends: I64 = self.column_starts + stops - self.piece_starts - 1
        return ends

    def to_column(self, piece_offsets: I64) -> I64:
        """Converts ascending byte offsets in `buffers` to byte offsets in the column."""
        piece = np.searchsorted(self.piece_starts, piece_offsets, side="right") - 1
        return self.column_starts[piece] + piece_offsets - self.piece_starts[piece]


def mask_spans(buffers: TextBuffers, starts: I64, ends: I64) -> TextBuffers:
    """Returns the texts with the bytes of the given spans masked, so that no pattern matches
    them."""
    if not len(starts):
        return buffers
    data = buffers.data.copy()
    kernel.fill_spans(data, starts, ends, MASKED_BYTE)
    return TextBuffers(data, buffers.offsets)


def widen_spans(
    buffers: TextBuffers, starts: I64, ends: I64, before: int, after: int
) -> tuple[I64, I64, I64]:
    """Returns spans (byte offsets) with up to so many bytes before and after them in their texts,
    but no part of a character, and the number of the text of each."""
    text_no = np.searchsorted(buffers.offsets, starts, side="right") - 1
    low = np.maximum(starts - before, buffers.offsets[text_no])
    high = np.minimum(ends + after, buffers.offsets[text_no + 1])
    for _ in range(3):  # a character has up to three continuation bytes
        low += (buffers.data[low] & 0xC0) == 0x80
        is_cut = high < len(buffers.data)
        high -= is_cut & ((buffers.data[np.where(is_cut, high, 0)] & 0xC0) == 0x80)
    return low, high, text_no


def find_digit_lines(buffers: TextBuffers, excluded_starts: I64, excluded_ends: I64) -> TextPieces:
    """Returns the pieces with a digit, two `:` at most five bytes apart, two `.` five bytes apart
    or two `-` three bytes apart.

    A piece is what the excluded spans (byte offsets, half-open, ascending, not overlapping) leave
    of a line. The condition is weaker than the pattern of any kind with `Kind.digit_lines_only`."""
    starts, ends = _fill(
        buffers,
        lambda starts, ends: kernel.select_pieces(
            buffers.data, buffers.offsets, excluded_starts, excluded_ends, starts, ends
        ),
    )
    return TextPieces.from_spans(buffers, starts, ends)


def find_values_below_labels(buffers: TextBuffers, lines: TextPieces) -> TextPieces:
    """The pieces that are lines of one word, each with the line above it, which may be the label of
    a number.

    # lines ["Passport", "K1234567", "of 12"] -> pieces ["Passport\\nK1234567"]
    """
    starts, ends = np.empty((2, len(lines.column_starts)), np.int64)
    count = kernel.select_labelled_words(
        buffers.data,
        buffers.offsets,
        lines.column_starts,
        lines.ends_in_column(),
        _MAX_LABEL_BYTES,
        starts,
        ends,
    )
    return TextPieces.from_spans(buffers, starts[:count], ends[:count])


def find_two_lines(buffers: TextBuffers, positions: I64) -> tuple[I64, I64]:
    """For each position (ascending byte offsets), where its line starts and where the line after it
    ends."""
    starts, ends = np.empty((2, len(positions)), np.int64)
    kernel.find_two_lines(buffers.data, buffers.offsets, positions, starts, ends)
    return starts, ends


def find_words(buffers: TextBuffers) -> TextPieces:
    """Returns the words in which a kind may find a value by its `Kind.embedded_pattern`."""
    starts, ends = _fill(
        buffers,
        lambda starts, ends: kernel.select_words(buffers.data, buffers.offsets, starts, ends),
    )
    return TextPieces.from_spans(buffers, starts, ends)


@dataclass(frozen=True, repr=False)
class LiteralTable:
    """Literals that one pass over a column finds: anchors, around which runs of bytes are selected,
    and literals that mark their text."""

    bits: dict[str, int]  # the bit of each name of marking literals
    data: U8
    offsets: I64
    marks: U64  # the bits that a literal sets in the mark of its text; 0 for an anchor
    window_masks: U64  # the buckets of the literals that may have a byte at a place
    bucket_offsets: I64  # where the literals of each bucket begin

    @classmethod
    def build(
        cls, anchors: Iterable[str], marking_literals: Mapping[str, Iterable[str]]
    ) -> LiteralTable:
        """Builds the table; a text that contains one of `marking_literals[name]` gets the bit of
        that name. Anchors contain no blank or line end, except a blank beside a bracket."""
        pairs = [(0, literal) for literal in anchors] + [
            (1 << bit, literal)
            for bit, group in enumerate(marking_literals.values())
            for literal in group
        ]
        # literals with the same beginnings in one bucket, the short ones apart from the long ones
        encoded = sorted(
            {(literal.encode(), mark) for mark, literal in pairs},
            key=lambda pair: (min(len(pair[0]), _WINDOW_BYTES), pair),
        )
        assert len(marking_literals) <= 64
        bucket = np.arange(len(encoded)) * _BUCKETS // max(len(encoded), 1)
        masks = np.zeros((_WINDOW_BYTES, 256), np.uint64)
        for (literal, _), bit in zip(
            encoded, np.uint64(1) << bucket.astype(np.uint64), strict=True
        ):
            for place in range(_WINDOW_BYTES):
                masks[place, literal[place] if place < len(literal) else slice(None)] |= bit
        return cls(
            {name: bit for bit, name in enumerate(marking_literals)},
            np.frombuffer(b"".join(literal for literal, _ in encoded), np.uint8),
            np.cumsum([0, *(len(literal) for literal, _ in encoded)], dtype=np.int64),
            np.array([mark for _, mark in encoded], np.uint64),
            masks.ravel(),
            np.searchsorted(bucket, np.arange(_BUCKETS + 1)).astype(np.int64),
        )


class AnchoredRuns(NamedTuple):
    """Start and end of runs of bytes, and the mark of each text."""

    start: I64
    end: I64
    marks: U64


def find_runs(buffers: TextBuffers, literals: LiteralTable) -> AnchoredRuns:
    """Returns the runs of bytes that contain an anchor, ascending.

    A run ends at a control byte or line end, except a soft line break (`=` and a line end), and at
    a blank that is next to no bracket."""
    marks = np.zeros(len(buffers.offsets) - 1, np.uint64)
    starts, ends = _fill(
        buffers,
        lambda starts, ends: kernel.select_runs(
            buffers.data,
            buffers.offsets,
            literals.data,
            literals.offsets,
            literals.marks,
            literals.window_masks,
            literals.bucket_offsets,
            marks,
            starts,
            ends,
        ),
    )
    return AnchoredRuns(starts, ends, marks)


def _fill(buffers: TextBuffers, select: Callable[[I64, I64], int]) -> tuple[I64, I64]:
    """Calls `select`, which fills arrays of starts and ends and returns how many there are, and
    again if the arrays were too small."""
    capacity = len(buffers.data) // _BYTES_PER_PIECE
    while True:
        starts, ends = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        count = select(starts, ends)
        if count <= capacity:
            return starts[:count], ends[:count]
        capacity = count
