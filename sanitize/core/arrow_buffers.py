"""Span operations on the Arrow buffers of a text column: match, slice, replace, and convert between
byte and code point positions.

All functions work on the whole column at once; no text is copied document by document.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I32, I64, U8, Mask
from sanitize.core.keys import siphash_spans
from sanitize.kernels import byte_positions, distinct_texts

# bytes per block: intermediate arrays of this size stay in the second-level cache
BLOCK_BYTES = 1 << 18
# longest text that Arrow stores inside its string view (Arrow columnar format, variable-size binary
# view)
_INLINE_BYTES = 12
MASKED_BYTE = 127  # replaces bytes that patterns must not see: no pattern matches a control byte
# no result depends on it; texts that were made to share a hash would be slow
_HASH_KEY = secrets.token_bytes(16)
_MIN_CAPACITY, _MAX_CAPACITY = 1 << 12, 1 << 20  # rows of the arrays of `fill_columns` at first
_most_rows: dict[Callable[..., int], int] = {}  # that a kernel has written in this process
_HIGH_BITS = np.uint64(0x8080808080808080)  # of eight bytes
# sentinel bytes around a match; no pattern matches a control byte, so they may be masked in the
# texts
_MATCH_START, _MATCH_END = (
    1,
    2,
)


@dataclass(frozen=True, repr=False)
class TextBuffers:
    """The bytes of a large_string column without nulls: text i is data[offsets[i]:offsets[i + 1]],
    offsets[0] = 0."""

    data: U8
    offsets: I64

    @classmethod
    def from_array(cls, texts: pa.LargeStringArray) -> Self:
        """The buffers of an Arrow column, without a copy."""
        _, offsets, data = texts.buffers()
        bounds = (
            np.frombuffer(offsets, np.int64, len(texts) + 1, texts.offset * 8)
            if len(texts)
            else np.zeros(1, np.int64)
        )
        size = int(bounds[-1] - bounds[0])
        return cls(
            np.frombuffer(data, np.uint8, size, int(bounds[0])) if size else np.empty(0, np.uint8),
            bounds - bounds[0],
        )

    @cached_property
    def continuation_bytes(self) -> I64:
        """Positions of all UTF-8 continuation bytes in `data`, ascending; empty for ASCII."""
        signed = self.data.view(np.int8)
        return np.concatenate(
            [
                np.flatnonzero(signed[at : at + BLOCK_BYTES] < -64) + at
                for at in range(0, len(signed) or 1, BLOCK_BYTES)
            ]
        )

    @cached_property
    def non_ascii_bytes(self) -> I64:
        """Positions of all bytes beyond ASCII, ascending."""
        block_count = len(self.data) // 8
        blocks = (
            np.frombuffer(self.data, np.uint64, block_count)
            if block_count
            else np.empty(0, np.uint64)
        )
        positions = (np.flatnonzero(blocks & _HIGH_BITS)[:, None] * 8 + np.arange(8)).ravel()
        positions = np.append(positions, np.arange(block_count * 8, len(self.data)))
        found: I64 = positions[self.data[positions] >= 128]
        return found

    @property
    def lengths(self) -> I64:
        """Length of each text in bytes."""
        return np.diff(self.offsets)

    def slice(self, low: int, high: int) -> TextBuffers:
        """Texts `low` to `high` (half-open). Copies the offsets only."""
        return TextBuffers(
            self.data[self.offsets[low] : self.offsets[high]],
            self.offsets[low : high + 1] - self.offsets[low],
        )

    def to_array(self) -> pa.LargeStringArray:
        """The texts as an Arrow column over the same bytes, without a copy."""
        return pa.LargeStringArray.from_buffers(
            len(self.offsets) - 1, pa.py_buffer(self.offsets), pa.py_buffer(self.data)
        )


def fill_null_texts(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """The column with nulls replaced by empty texts, as `TextBuffers` expects it."""
    return texts.fill_null("") if texts.null_count else texts


def iter_text_ranges(offsets: I64, max_bytes: int = 1 << 20) -> Iterator[tuple[int, int]]:
    """Yields ranges (low, high) of texts, each of at most `max_bytes` bytes or of one longer text.

    Intermediate results of one range then stay in the cache.
    """
    low, last = 0, len(offsets) - 1
    while low < last:
        high = max(
            low + 1, int(np.searchsorted(offsets, offsets[low] + max_bytes, side="right")) - 1
        )
        yield low, high
        low = high


def find_matches(buffers: TextBuffers, pattern: str) -> tuple[I64, I64]:
    """Byte spans (start, end; half-open, in `buffers.data`) of every leftmost match of a regular
    expression, ascending.

    A match never crosses from one text to the next.
    """
    texts = pl.Series(buffers.to_array())
    blocks = _byte_blocks(texts.str.replace_all(pattern, "\x01$0\x02"))
    size, position_blocks, sentinel_blocks = 0, list[I64](), list[U8]()
    for block in blocks:
        block_positions = np.flatnonzero(block <= _MATCH_END)
        position_blocks.append(block_positions + size)
        sentinel_blocks.append(block[block_positions])
        size += len(block)
    positions, sentinels = np.concatenate(position_blocks), np.concatenate(sentinel_blocks)
    opens, closes = positions[::2], positions[1::2]
    paired = (
        len(opens) == len(closes)
        and (sentinels[::2] == _MATCH_START).all()
        and (sentinels[1::2] == _MATCH_END).all()
    )
    if not paired or len(positions) != size - len(buffers.data):
        # the texts themselves contain sentinel bytes: scan a copy of the same length in which they
        # are masked
        table = bytes(MASKED_BYTE if byte <= _MATCH_END else byte for byte in range(256))
        return find_matches(
            TextBuffers(translate_bytes(buffers.data, table), buffers.offsets), pattern
        )
    inserted = 2 * np.arange(len(opens))  # sentinel bytes before each match
    return opens - inserted, closes - inserted - 1


def find_matches_in(buffers: TextBuffers, rows: I64, pattern: str) -> tuple[I64, I64]:
    """The same as `find_matches`, in some of the texts (ascending); spans are those of the
    column."""
    first = buffers.offsets[rows]
    texts = TextBuffers.from_array(slice_spans(buffers, first, buffers.offsets[rows + 1]))
    low, high = find_matches(texts, pattern)
    row = np.searchsorted(texts.offsets, low, side="right") - 1
    shift = first[row] - texts.offsets[row]
    return low + shift, high + shift


def find_alternatives(buffers: TextBuffers, patterns: Sequence[str]) -> tuple[I64, I64]:
    """The same as `find_matches` for the alternation of the patterns, each searched by itself: for
    an alternation whose automaton would be too large for the cache of the regex engine."""
    found = [find_matches(buffers, pattern) for pattern in patterns]
    find_again = partial(find_matches_in, buffers, pattern="|".join(patterns))
    return join_alternatives(buffers, found, find_again)


def join_alternatives(
    buffers: TextBuffers,
    found: Sequence[tuple[I64, I64]],
    find_again: Callable[[I64], tuple[I64, I64]],
    *,
    is_ordered: bool = True,
) -> tuple[I64, I64]:
    """The matches of an alternation, from those of its parts, each searched by itself.

    A match inside an earlier one is none. The texts in which matches overlap in another way, or,
    unless the parts are in the order of the alternation, begin at one place, are searched for the
    alternation (`find_again`, from the numbers of the texts)."""
    low, high = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.argsort(low, kind="stable")  # of those with one start, the first part's is first
    low, high = low[order], high[order]
    # low [2, 2, 4, 9], high [8, 5, 8, 12] -> reach [0, 8, 8, 8]: the first and last are leftmost
    reach = np.concatenate([[0], np.maximum.accumulate(high)])[:-1]
    is_leftmost, is_contained = low >= reach, high <= reach
    if not is_ordered:
        is_contained &= low > np.maximum.accumulate(np.where(is_leftmost, low, -1))
    if (is_leftmost | is_contained).all():
        return low[is_leftmost], high[is_leftmost]
    text_no = np.searchsorted(buffers.offsets, low, side="right") - 1
    again = np.unique(text_no[~is_leftmost & ~is_contained])
    is_final = is_leftmost & ~np.isin(text_no, again)
    again_low, again_high = find_again(again)
    low = np.concatenate([low[is_final], again_low])
    high = np.concatenate([high[is_final], again_high])
    order = np.argsort(low)
    return low[order], high[order]


def _byte_blocks(texts: pl.Series) -> list[U8]:
    """The bytes of a column in text order, as blocks without a copy where the column is a string
    view whose buffers are in text order."""
    views = texts.to_arrow(compat_level=pl.CompatLevel.newest())
    if views.type == pa.string_view() and len(views):
        # a view has, for each text, its length, its first four bytes, its block number and its
        # offset in that block
        _, view_buffer, *blocks = views.buffers()
        length, _, block_no, block_offset = (
            np.frombuffer(view_buffer, np.int32, 4 * len(views), 16 * views.offset).reshape(-1, 4).T
        )
        sizes = np.array([len(block) for block in blocks], np.int64)
        is_outlined = length > _INLINE_BYTES  # stored in a block, not in the view
        starts = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
        if (is_outlined | (length == 0)).all() and starts[-1] == sizes.sum():
            block_starts = np.cumsum(sizes) - sizes
            if (
                block_starts[block_no[is_outlined]] + block_offset[is_outlined]
                == starts[:-1][is_outlined]
            ).all():
                return [np.frombuffer(block, np.uint8) for block in blocks] or [
                    np.empty(0, np.uint8)
                ]
    return [TextBuffers.from_array(to_large_string(texts)).data]


def slice_spans(buffers: TextBuffers, starts: I64, ends: I64) -> pa.LargeStringArray:
    """The text of each byte span, in any order."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=offsets[1:])
    texts = np.empty(int(offsets[-1]), np.uint8)
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    distinct_texts.copy_spans(buffers.data, starts, ends, offsets, texts)
    return TextBuffers(texts, offsets).to_array()


def splice(
    buffers: TextBuffers, starts: I64, ends: I64, replacements: pa.LargeStringArray
) -> pa.LargeStringArray:
    """The column with each byte span replaced. Spans ascend and do not overlap; every byte outside
    them is copied unchanged."""
    if not len(starts):
        return buffers.to_array()
    new = TextBuffers.from_array(replacements)
    # entry n: by how many bytes the first n replacements are longer than their spans
    grown = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(new.lengths - (ends - starts), out=grown[1:])
    data = np.empty(len(buffers.data) + int(grown[-1]), np.uint8)
    # the unchanged bytes before, between and behind the spans
    begin, end = (np.append(0, ends), np.append(starts, len(buffers.data)))
    distinct_texts.copy_spans(buffers.data, begin, end, begin + grown, data)
    distinct_texts.copy_spans(
        new.data, new.offsets[:-1], new.offsets[1:], starts + grown[:-1], data
    )
    offsets = buffers.offsets + grown[np.searchsorted(ends, buffers.offsets, side="right")]
    return TextBuffers(data, offsets).to_array()


def find_first_byte_after(buffers: TextBuffers, byte: int, positions: I64, ceilings: I64) -> I64:
    """For each position, where the first byte equal to `byte` is in [position, ceiling); the
    ceiling where there is none. One pass where positions ascend."""
    found = np.empty(len(positions), np.int64)
    byte_positions.find_first_from(buffers.data, byte, positions, ceilings, found)
    return found


def translate_bytes(data: U8, table: bytes) -> U8:
    """The entry of each byte in a table of 256 bytes. Costs half of numpy's indexing, which needs
    an index of eight bytes for each byte."""
    return np.frombuffer(data.tobytes().translate(table), np.uint8)


def make_byte_table(members: bytes) -> Mask:
    """A boolean table of 256 entries: True for the bytes in `members`."""
    table = np.zeros(256, np.bool_)
    table[list(members)] = True
    return table


def is_in_byte_table(data: U8, table: Mask) -> Mask:
    """True for each byte of `data` that is a member of `table` (see `make_byte_table`)."""
    return translate_bytes(data, table.tobytes()).view(np.bool_)


def bytes_to_code_points(buffers: TextBuffers, text_no: I64, *positions: I64) -> tuple[I64, ...]:
    """Code point positions, counted from the start of the text, for columns of byte positions in
    `buffers.data`."""
    base = buffers.offsets[text_no]
    if not len(buffers.continuation_bytes):
        return tuple(place - base for place in positions)
    base = base - np.searchsorted(buffers.continuation_bytes, buffers.offsets)[text_no]
    return tuple(
        place - np.searchsorted(buffers.continuation_bytes, place) - base for place in positions
    )


def code_points_to_bytes(buffers: TextBuffers, text_no: I64, *positions: I64) -> tuple[I64, ...]:
    """The inverse of `bytes_to_code_points`: byte positions, counted from the first byte of the
    text, at which code points begin.

    A position is between 0 and the length of the text in code points.
    """
    if not len(buffers.continuation_bytes):
        return positions
    base = buffers.offsets[text_no]
    first = base - np.searchsorted(buffers.continuation_bytes, base)
    # for each continuation byte, the number (in the whole column) of the character it belongs to
    owner = buffers.continuation_bytes - np.arange(len(buffers.continuation_bytes)) - 1
    return tuple(
        first + place + np.searchsorted(owner, first + place) - base for place in positions
    )


def to_large_string(series: pl.Series) -> pa.LargeStringArray:
    """A Polars text column as Arrow large_string, the type that `TextBuffers` expects."""
    array = series.to_arrow(compat_level=pl.CompatLevel.oldest())
    return array if array.type == pa.large_string() else array.cast(pa.large_string())


def texts_to_arrow(texts: Iterable[str | None]) -> pa.LargeStringArray:
    """Texts as Arrow large_string."""
    return to_large_string(pl.Series(list(texts), dtype=pl.String))


# `pa.array` and `np.asarray` of an Arrow array import pandas where it is installed, which costs a
# third of a second in the first call of a process; Polars converts the same without it
def numbers_to_arrow(values: np.ndarray[Any, Any]) -> pa.Array:
    """Numbers or truth values as an Arrow array, without a copy."""
    return pl.Series(values).to_arrow()


def numbers_to_numpy(values: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """An Arrow array of numbers or truth values, without nulls, as an array of numpy."""
    return pl.Series(values).to_numpy()


def ascii_lower(values: pl.Series) -> pl.Series:
    """A Polars text column with its ASCII letters in lower case; other characters are unchanged,
    and so are byte positions."""
    return pl.Series(values.name, pc.ascii_lower(to_large_string(values)))


def number_texts(data: U8, starts: I64, ends: I64) -> tuple[I64, I64]:
    """For each span, the number of its text among the distinct ones, in the order in which they
    first occur; for each of these, the first span. One pass, about 50 ns and 32 bytes for each
    span."""
    count = len(starts)
    numbers, first_spans = np.empty(count, np.int64), np.empty(count, np.int64)
    slots = np.full(2 << count.bit_length(), -1, np.int64)
    hashes = siphash_spans(data, starts, ends, _HASH_KEY)
    distinct_count = distinct_texts.number_texts(
        data, starts, ends, hashes, slots, numbers, first_spans
    )
    return numbers, first_spans[:distinct_count]


def number_marked_texts(data: U8, starts: I64, ends: I64, marks: I32 | I64) -> tuple[I64, I64]:
    """Like `number_texts`, for distinct (text, mark): ordered by the first occurrence of the text,
    then by mark."""
    text_nos, _ = number_texts(data, starts, ends)
    pairs = text_nos * (int(marks.max(initial=0)) + 1) + marks
    present = np.flatnonzero(np.bincount(pairs))
    number_of_pair = np.empty(int(pairs.max(initial=0)) + 1, np.int64)
    number_of_pair[present] = np.arange(len(present))
    numbers = number_of_pair[pairs]
    first_spans = np.empty(len(present), np.int64)
    # the last assignment is the first span
    first_spans[numbers[::-1]] = np.arange(len(pairs) - 1, -1, -1)
    return numbers, first_spans


def fill_columns(
    kernel: partial[int], column_count: int, capacity: int | None = None
) -> tuple[I64, ...]:
    """The columns of numbers that a kernel writes. It is called with arrays for `capacity` rows, by
    default twice the most rows that it has written in this process (memory that is not written
    costs nothing), and once more if it reports more rows than that."""
    if capacity is None:
        capacity = min(max(_MIN_CAPACITY, 2 * _most_rows.get(kernel.func, 0)), _MAX_CAPACITY)
    while True:
        columns = tuple(np.empty(capacity, np.int64) for _ in range(column_count))
        row_count = kernel(*columns)
        _most_rows[kernel.func] = max(row_count, _most_rows.get(kernel.func, 0))
        if row_count <= capacity:
            return tuple(column[:row_count] for column in columns)
        capacity = row_count
