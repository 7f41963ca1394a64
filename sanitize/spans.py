"""Spans on the buffers of a column of texts: matched, cut out, replaced, and counted in code points, without a copy per document."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
_STEPS = 64  # windows of 8 bytes that are looked at one by one; beyond, all bytes of the column are
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_OPEN, _CLOSE = 1, 2  # the sentinel bytes; no pattern matches a control byte, so a text that holds them is scanned without them


@dataclass(frozen=True, repr=False)
class Buffers:
    """The bytes of a large_string column without nulls: text i is data[offsets[i]:offsets[i + 1]], offsets[0] = 0."""

    data: npt.NDArray[np.uint8]
    offsets: I64

    @classmethod
    def of(cls, texts: pa.LargeStringArray) -> Buffers:
        """The buffers of a column; nothing is copied."""
        _, offsets, data = texts.buffers()
        cut = np.frombuffer(offsets, np.int64, len(texts) + 1, texts.offset * 8) if len(texts) else np.zeros(1, np.int64)
        size = int(cut[-1] - cut[0])
        return cls(np.frombuffer(data, np.uint8, size, int(cut[0])) if size else np.empty(0, np.uint8), cut - cut[0])

    @cached_property
    def continuing(self) -> I64:
        """The places of all bytes that continue a character: none in ASCII."""
        return np.flatnonzero(self.data.view(np.int8) < -64)

    @property
    def lengths(self) -> I64:
        """The bytes of each text."""
        return np.diff(self.offsets)

    def column(self) -> pa.LargeStringArray:
        """The texts as an Arrow column over the same bytes."""
        return pa.LargeStringArray.from_buffers(len(self.offsets) - 1, pa.py_buffer(self.offsets), pa.py_buffer(self.data))


def matches(buffers: Buffers, pattern: str) -> tuple[I64, I64]:
    """First and last + 1 byte (in `buffers.data`) of every leftmost match, ascending, never across two texts."""
    texts = pl.Series(buffers.column())
    marked = Buffers.of(arrow(texts.str.replace_all(pattern, "\x01$0\x02")))
    marks = np.flatnonzero(marked.data <= _CLOSE)
    opens, closes = marks[::2], marks[1::2]
    paired = len(opens) == len(closes) and (marked.data[opens] == _OPEN).all() and (marked.data[closes] == _CLOSE).all()
    if not paired or len(marks) != len(marked.data) - len(buffers.data):
        # the texts hold control bytes of their own: scan a copy without them, of the same length
        table = bytes(127 if byte <= _CLOSE else byte for byte in range(256))
        clean = np.frombuffer(buffers.data.tobytes().translate(table), np.uint8)
        return matches(Buffers(clean, buffers.offsets), pattern)
    order = 2 * np.arange(len(opens))
    return opens - order, closes - order - 1


def cut(buffers: Buffers, starts: I64, stops: I64) -> pa.LargeStringArray:
    """The text of each span, for spans that ascend and do not overlap."""
    if not len(starts):
        return pa.array([], pa.large_string())
    edges = np.column_stack([starts, stops]).ravel().astype(np.int64)
    pieces = pa.LargeStringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(buffers.data))
    return pieces.take(pa.array(np.arange(0, len(edges), 2)))


def cut_nested(buffers: Buffers, starts: I64, stops: I64) -> pa.LargeStringArray:
    """The text of each span, for spans sorted by (start, longest first) that may lie inside each other."""
    if not len(starts):
        return pa.array([], pa.large_string())
    before = np.concatenate([[0], np.maximum.accumulate(stops)[:-1]])
    nested = starts < before
    if not nested.any():
        return cut(buffers, starts, stops)
    outer, inner = np.flatnonzero(~nested), np.flatnonzero(nested)
    both = [cut(buffers, starts[outer], stops[outer]), cut_nested(buffers, starts[inner], stops[inner])]
    return pa.concat_arrays(both).take(pa.array(np.argsort(np.concatenate([outer, inner]))))


def splice(buffers: Buffers, starts: I64, stops: I64, replacements: pa.LargeStringArray) -> pa.LargeStringArray:
    """The column with each span replaced; spans ascend and do not overlap. Every byte outside them is the input's."""
    if not len(starts):
        return buffers.column()
    edges = np.concatenate([[0], np.column_stack([starts, stops]).ravel(), [len(buffers.data)]]).astype(np.int64)
    pieces = pa.LargeStringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(buffers.data))
    order = np.arange(2 * len(starts) + 1)
    order[1::2] = len(pieces) + np.arange(len(starts))
    data = pa.concat_arrays([pieces, replacements]).take(pa.array(order)).buffers()[2]
    grown = np.concatenate([[0], np.cumsum(Buffers.of(replacements).lengths - (stops - starts))])
    offsets = buffers.offsets + grown[np.searchsorted(stops, buffers.offsets, side="right")]
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.astype(np.int64)), data)


def last_before(buffers: Buffers, byte: int, places: I64, floors: I64) -> I64:
    """Where each byte of that number stands that is the last one before a place and not before its floor; -1 where there is none."""
    found = np.full(len(places), -1, np.int64)
    windows = _windows(buffers)
    rest, at = np.flatnonzero(places > floors), places.copy()
    for _ in range(_STEPS):
        if not len(rest):
            return found
        here = at[rest]
        short = np.maximum(8 - here, 0)  # of a window that would begin before the first byte
        seen = _equal(windows[np.maximum(here - 8, 0)] << (8 * short).astype(np.uint64), byte)
        # the highest bit that is set tells the last byte: a double has it as its exponent
        hit = here - 9 + (np.frexp(seen.astype(np.float64))[1] >> 3)
        good = (seen != 0) & (hit >= floors[rest])
        found[rest[good]] = hit[good]
        at[rest] -= 8
        rest = rest[(seen == 0) & (here - 8 > floors[rest])]
    every = np.append(np.flatnonzero(buffers.data == byte), -1)
    hit = every[np.searchsorted(every[:-1], at[rest]) - 1]
    found[rest] = np.where(hit >= floors[rest], hit, -1)
    return found


def first_after(buffers: Buffers, byte: int, places: I64, ceilings: I64) -> I64:
    """Where the first byte of that number stands at a place or after it and before its ceiling; the ceiling where there is none."""
    found = ceilings.astype(np.int64)
    windows = _windows(buffers)
    rest, at = np.flatnonzero(places < ceilings), places.copy()
    for _ in range(_STEPS):
        if not len(rest):
            return found
        here = at[rest]
        beyond = np.maximum(here - (len(windows) - 1), 0)  # of a window that would end behind the last byte
        seen = _equal(windows[here - beyond] >> (8 * beyond).astype(np.uint64), byte)
        low = seen & (~seen + np.uint64(1))
        hit = here + (np.frexp(low.astype(np.float64))[1] >> 3) - 1
        good = (seen != 0) & (hit < ceilings[rest])
        found[rest[good]] = hit[good]
        at[rest] += 8
        rest = rest[(seen == 0) & (here + 8 < ceilings[rest])]
    every = np.append(np.flatnonzero(buffers.data == byte), len(buffers.data))
    found[rest] = np.minimum(every[np.searchsorted(every[:-1], at[rest])], ceilings[rest])
    return found


def _windows(buffers: Buffers) -> U64:
    """The eight bytes from each place on, as one little-endian number; of a shorter column one with zeros behind."""
    data = buffers.data if len(buffers.data) >= 8 else np.append(buffers.data, np.zeros(8 - len(buffers.data), np.uint8))
    return np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))


def _equal(windows: U64, byte: int) -> U64:
    """The highest bit of each byte that is this one."""
    other = windows ^ np.uint64(byte * 0x0101010101010101)
    return ~(((other & _SEVENS) + _SEVENS) | other | _SEVENS)


def code_points(buffers: Buffers, text_no: I64, *places: I64) -> tuple[I64, ...]:
    """How many code points of its text stand before each byte place; `places` are columns of byte positions in `buffers.data`."""
    base = buffers.offsets[text_no]
    if not len(buffers.continuing):
        return tuple(place - base for place in places)
    base = base - np.searchsorted(buffers.continuing, buffers.offsets)[text_no]
    return tuple(place - np.searchsorted(buffers.continuing, place) - base for place in places)


def bytes_at(buffers: Buffers, text_no: I64, *places: I64) -> tuple[I64, ...]:
    """The reverse of `code_points`: at which byte of its text each code point begins; a place is between 0 and the text's length in code
    points, and the answer is counted from the text's first byte."""
    if not len(buffers.continuing):
        return places
    base = buffers.offsets[text_no]
    first = base - np.searchsorted(buffers.continuing, base)
    # the number of the character, in the whole column, that each continuing byte belongs to
    owner = buffers.continuing - np.arange(len(buffers.continuing)) - 1
    return tuple(first + place + np.searchsorted(owner, first + place) - base for place in places)


def arrow(series: pl.Series) -> pa.LargeStringArray:
    """A column of texts as Arrow's large_string, which is what the buffers above are of."""
    array = series.to_arrow(compat_level=pl.CompatLevel.oldest())
    return array if array.type == pa.large_string() else array.cast(pa.large_string())


def ascii_lower(values: pl.Series) -> pl.Series:
    """ASCII letters small, all else as it is."""
    return pl.Series(values.name, pc.ascii_lower(arrow(values)))


def ranges(low: I64, high: I64) -> tuple[I64, I64]:
    """Every number of every range [low, high), with the place of its range."""
    times = high - low
    each = np.repeat(np.arange(len(times)), times)
    return each, np.repeat(low, times) + np.arange(len(each)) - np.repeat(np.cumsum(times) - times, times)
