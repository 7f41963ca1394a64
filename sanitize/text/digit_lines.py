"""Selects the lines of a column of texts that can contain a number, without the values that were already found in them (a prefilter).

Most lines of most texts have no digit, and searching for one costs a tenth of what the automata of the number patterns cost. No
occurrence is lost: a piece is a whole line except for values already found, and the condition here is weaker than that of any kind with
`Kind.numeric`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64, U8, Mask
from sanitize.core.arrow_buffers import BLOCK_BYTES, MASKED_BYTE, TextBuffers, slice_spans
from sanitize.core.intervals import expand_ranges, split_spans, subtract_spans

_WORD_SIZE = 8  # bytes that are selected or skipped together
_MAX_SEPARATOR_GAP = 5  # bytes from one separator to the next in a number without a digit
_PIECES_PER_TEXT = 16  # pieces that are joined to one text of `DigitLines.buffers`
_MAX_UNMARKED_WORDS = 7  # longest gap of unmarked words that is closed


@dataclass(frozen=True, repr=False)
class DigitLines:
    """Pieces of a column of texts, ascending, none across two texts. `buffers` holds them one after the other, with a control byte that
    no pattern matches after each; `_PIECES_PER_TEXT` of them form one text, as an automaton has a fixed cost per text."""

    buffers: TextBuffers
    piece_starts: I64  # where each piece begins in `buffers`
    column_starts: I64  # and in the column's bytes

    @classmethod
    def from_spans(cls, buffers: TextBuffers, line_starts: I64, line_ends: I64) -> DigitLines:
        """Builds the pieces [line_starts, line_ends) of a column (byte offsets)."""
        texts = slice_spans(buffers, line_starts, line_ends)
        places = np.concatenate([[0], np.cumsum(line_ends - line_starts + 1)])
        rows = np.append(np.arange(0, len(texts), _PIECES_PER_TEXT), len(texts))
        ends = np.arange(len(rows) - 1)  # binary_join writes no byte after the last piece of a text
        data = pc.binary_join(pa.ListArray.from_arrays(pa.array(rows, pa.int32()), texts.cast(pa.string())), chr(MASKED_BYTE))
        return cls(TextBuffers.from_array(data.cast(pa.large_string())), places[:-1] - np.repeat(ends, np.diff(rows)), line_starts)

    def to_column(self, piece_offsets: I64) -> I64:
        """Converts ascending byte offsets in `buffers` to byte offsets in the column."""
        piece = np.searchsorted(self.piece_starts, piece_offsets, side="right") - 1
        return self.column_starts[piece] + piece_offsets - self.piece_starts[piece]


def find_digit_lines(buffers: TextBuffers, excluded_starts: I64, excluded_ends: I64) -> DigitLines:
    """Returns the lines with a digit, two `:` at most five bytes apart, two `.` five bytes apart or two `-` three bytes apart.

    The excluded spans (byte offsets, half-open, ascending, not overlapping) are cut out. Lines with none of these may be returned too."""
    words, feeds = _mark_words(buffers.data)
    # bytes inside an excluded span do not select their line
    first, last = -(-excluded_starts // _WORD_SIZE), excluded_ends // _WORD_SIZE
    covers_words = last > first
    words[expand_ranges(first[covers_words], last[covers_words])] = False
    words = _close_gaps(words)
    edges = np.flatnonzero(np.diff(words, prepend=False, append=False))
    # from the last line feed in a word before to the first one in a word after; lines that touch are one piece
    begin, end = _extend_to_lines(buffers.data, np.flatnonzero(feeds), edges[::2], edges[1::2])
    is_disjoint = begin[1:] > end[:-1]
    begin, end = begin[np.append(True, is_disjoint)[: len(begin)]], end[np.append(is_disjoint, True)[: len(end)]]
    texts = buffers.offsets[np.append(np.diff(buffers.offsets) > 0, True)]
    begin, end = split_spans(begin, end, texts, texts)
    begin, end = subtract_spans(begin, end, excluded_starts, excluded_ends)
    return DigitLines.from_spans(buffers, begin, end)


def _mark_words(data: U8) -> tuple[Mask, Mask]:
    """Marks the words of eight bytes that contain a digit or separators of a number, and the words that contain a line feed."""
    count = -(-len(data) // _WORD_SIZE)
    words, feeds = np.empty(count, np.bool_), np.empty(count, np.bool_)
    is_number_byte, is_line_feed = np.empty(BLOCK_BYTES, np.bool_), np.empty(BLOCK_BYTES, np.bool_)
    padded = np.zeros(BLOCK_BYTES + 2 * _MAX_SEPARATOR_GAP, np.uint8)  # the block, and the bytes after it
    for at in range(0, len(data), BLOCK_BYTES):
        ahead = data[at : at + BLOCK_BYTES + _MAX_SEPARATOR_GAP]
        padded[: len(ahead)], padded[len(ahead) :] = ahead, 0
        size = min(len(ahead), BLOCK_BYTES)
        block = padded[:size]
        np.less(block - np.uint8(ord("0")), 10, out=is_number_byte[:size])
        for byte, distance in ((ord("."), 5), (ord("-"), 3)):  # `dead.beef.cafe`, `aa-bb-cc`
            is_byte = padded == byte
            is_number_byte[:size] |= is_byte[:size] & is_byte[distance : distance + size]
        is_byte = padded == ord(":")  # `::`, `aa:bb`, `dead:beef:`
        has_second_colon = is_byte[1:-1] | is_byte[2:]
        is_number_byte[:size] |= is_byte[:size] & (
            has_second_colon[:size] | has_second_colon[2 : size + 2] | is_byte[_MAX_SEPARATOR_GAP : size + _MAX_SEPARATOR_GAP]
        )
        np.equal(block, ord("\n"), out=is_line_feed[:size])
        padded_size = -(-size // _WORD_SIZE) * _WORD_SIZE
        is_number_byte[size:padded_size] = is_line_feed[size:padded_size] = False
        for marks, target in ((is_number_byte, words), (is_line_feed, feeds)):
            target[at // _WORD_SIZE : (at + padded_size) // _WORD_SIZE] = marks[:padded_size].view(np.uint64) != 0
    return words, feeds


def _close_gaps(is_marked: Mask) -> Mask:
    """Marks gaps of up to `_MAX_UNMARKED_WORDS` words between two marked ones as well: fewer pieces, from the same lines."""
    out = np.concatenate([is_marked, np.zeros(_MAX_UNMARKED_WORDS, np.bool_)])
    for step in (1, 2, 4):
        out[step:] |= out[:-step].copy()
    for step in (1, 2, 4):
        out[:-step] &= out[step:].copy()
    return out[: len(is_marked)]


def _extend_to_lines(data: U8, feed_words: I64, first_words: I64, end_words: I64) -> tuple[I64, I64]:
    """Extends ranges of words to whole lines: from the byte after the last line feed in a word before `first_words` to the first line
    feed in a word from `end_words` on. `feed_words` are the words that contain a line feed."""
    before, after = np.searchsorted(feed_words, first_words) - 1, np.searchsorted(feed_words, end_words)
    word = np.arange(_WORD_SIZE)
    start = feed_words[before[before >= 0]] * _WORD_SIZE
    begin, end = np.zeros(len(first_words), np.int64), np.full(len(end_words), len(data))
    begin[before >= 0] = start + _WORD_SIZE - np.argmax(data[start[:, None] + word[::-1]] == ord("\n"), axis=1)
    start = feed_words[after[after < len(feed_words)]] * _WORD_SIZE
    end[after < len(feed_words)] = start + np.argmax(data[np.minimum(start[:, None] + word, len(data) - 1)] == ord("\n"), axis=1)
    return begin, end
