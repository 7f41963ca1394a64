"""Spans on the buffers of a column of texts: matched, cut out, replaced, and counted in code points, without a copy per document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
_STEPS = 64  # windows of 8 bytes that are looked at one by one; beyond, all bytes of the column are
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
BLOCK = 1 << 18  # bytes at a time: what is computed of them stays in the second-level cache
_SHORT = 12  # bytes of a text that Arrow keeps in its view
GONE = 127  # in place of what is not to be seen: no pattern matches a control byte
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
        signed = self.data.view(np.int8)
        return np.concatenate([np.flatnonzero(signed[at : at + BLOCK] < -64) + at for at in range(0, len(signed) or 1, BLOCK)])

    @property
    def lengths(self) -> I64:
        """The bytes of each text."""
        return np.diff(self.offsets)

    def part(self, low: int, high: int) -> Buffers:
        """The texts of a range; nothing is copied but their offsets."""
        return Buffers(self.data[self.offsets[low] : self.offsets[high]], self.offsets[low : high + 1] - self.offsets[low])

    def column(self) -> pa.LargeStringArray:
        """The texts as an Arrow column over the same bytes."""
        return pa.LargeStringArray.from_buffers(len(self.offsets) - 1, pa.py_buffer(self.offsets), pa.py_buffer(self.data))


def filled(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """The column as `Buffers` takes it: an empty text where there is none."""
    return texts.fill_null("") if texts.null_count else texts


def pieces(offsets: I64, size: int = 1 << 20) -> Iterator[tuple[int, int]]:
    """Ranges of texts, each of at most so many bytes, or of one text: what is made of a piece then stays in the cache."""
    low, last = 0, len(offsets) - 1
    while low < last:
        high = max(low + 1, int(np.searchsorted(offsets, offsets[low] + size, side="right")) - 1)
        yield low, high
        low = high


def matches(buffers: Buffers, pattern: str) -> tuple[I64, I64]:
    """First and last + 1 byte (in `buffers.data`) of every leftmost match, ascending, never across two texts."""
    texts = pl.Series(buffers.column())
    blocks = _blocks(texts.str.replace_all(pattern, "\x01$0\x02"))
    size, marks, marked = 0, list[I64](), list[U8]()
    for block in blocks:
        here = np.flatnonzero(block <= _CLOSE)
        marks.append(here + size)
        marked.append(block[here])
        size += len(block)
    places, which = np.concatenate(marks), np.concatenate(marked)
    opens, closes = places[::2], places[1::2]
    paired = len(opens) == len(closes) and (which[::2] == _OPEN).all() and (which[1::2] == _CLOSE).all()
    if not paired or len(places) != size - len(buffers.data):
        # the texts hold control bytes of their own: scan a copy without them, of the same length
        table = bytes(GONE if byte <= _CLOSE else byte for byte in range(256))
        return matches(Buffers(translated(buffers.data, table), buffers.offsets), pattern)
    order = 2 * np.arange(len(opens))
    return opens - order, closes - order - 1


def _blocks(texts: pl.Series) -> list[U8]:
    """The bytes of a column, text after text, where they lie: to make one column of them would copy all."""
    views = texts.to_arrow(compat_level=pl.CompatLevel.newest())
    if views.type == pa.string_view() and len(views):
        # of each text its length, four bytes of it, and where it begins: in which block, and behind how many bytes
        _, told, *blocks = views.buffers()
        length, _, block, behind = np.frombuffer(told, np.int32, 4 * len(views), 16 * views.offset).reshape(-1, 4).T
        sizes = np.array([len(one) for one in blocks], np.int64)
        far = length > _SHORT
        starts = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
        if (far | (length == 0)).all() and starts[-1] == sizes.sum():
            begin = np.cumsum(sizes) - sizes
            if (begin[block[far]] + behind[far] == starts[:-1][far]).all():
                return [np.frombuffer(one, np.uint8) for one in blocks] or [np.empty(0, np.uint8)]
    return [Buffers.of(arrow(texts)).data]


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
    new = Buffers.of(replacements)
    # what is left between the spans and what takes their place, in turn
    source = np.zeros(2 * len(starts) + 1, np.int32)
    source[1::2] = 1
    begin, size = np.zeros((2, len(source)), np.int64)
    begin[1::2], size[1::2] = new.offsets[:-1], new.lengths
    begin[2::2], size[:-1:2], size[-1] = stops, starts, len(buffers.data)
    size[2::2] -= stops
    data = _laid([buffers.data, new.data], source, begin, size).buffers()[2]
    grown = np.concatenate([[0], np.cumsum(new.lengths - (stops - starts))])
    offsets = buffers.offsets + grown[np.searchsorted(stops, buffers.offsets, side="right")]
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.astype(np.int64)), data)


def _laid(sources: list[U8], source: I32, begin: I64, size: I64) -> pa.LargeStringArray:
    """One text after the other: of each its source, its first byte there, and its bytes; none reaches beyond 2^31.

    They are told to Arrow as views, so that every byte is copied once, into memory that is allocated once; `take` would want the sources in
    one array first, and grow its result step by step.
    """
    views = np.zeros((len(size), 4), np.int32)
    views[:, 0], views[:, 2], views[:, 3] = size, source, begin
    short = (size > 0) & (size <= _SHORT)  # these stand in the view itself
    for number, data in enumerate(sources):
        mine = np.flatnonzero(short & (source == number))
        if len(mine):
            data = np.append(data, np.zeros(_SHORT, np.uint8)) if begin[mine].max() + _SHORT > len(data) else data
            every = np.ndarray(len(data) - _SHORT + 1, f"V{_SHORT}", data, strides=(1,))
            bytes = every[begin[mine]].view(np.uint8).reshape(-1, _SHORT)
            views.view(np.uint8).reshape(-1, 16)[mine, 4:] = np.where(np.arange(_SHORT) < size[mine, None], bytes, 0)
    told = [None, *(pa.py_buffer(one) for one in (views, *sources))]
    return pa.Array.from_buffers(pa.string_view(), len(size), told).cast(pa.large_string())


def last_before(buffers: Buffers, byte: int, places: I64, floors: I64) -> I64:
    """Where each byte of that number stands that is the last one before a place and not before its floor; -1 where there is none."""
    rest = np.flatnonzero(places > floors)
    last = places[rest] - 1
    first, at = floors[rest] >> 3, last >> 3
    eights, found, marks = _Eights(buffers.data, byte), np.full(len(places), -1, np.int64), np.zeros(len(places), np.uint64)
    marked = eights.marked(at) & _ALL >> (np.uint64(8) * (7 - (last & 7)).astype(np.uint64))  # those before the place
    for _ in range(_STEPS):
        hit, left = np.flatnonzero(marked), np.flatnonzero((marked == 0) & (at > first))
        marks[rest[hit]], found[rest[hit]] = marked[hit], at[hit] << 3
        rest, at, first = rest[left], at[left] - 1, first[left]
        if not len(rest):
            break
        marked = eights.marked(at)
    # the highest bit that is set tells the last byte: a double has it as its exponent
    found += (np.frexp(marks.astype(np.float64))[1] >> 3) - (marks != 0)
    if len(rest):
        every = np.append(np.flatnonzero(buffers.data == byte), -1)
        found[rest] = every[np.searchsorted(every[:-1], (at + 1) << 3) - 1]
    return np.where(found >= floors, found, -1)


def first_after(buffers: Buffers, byte: int, places: I64, ceilings: I64) -> I64:
    """Where the first byte of that number stands at a place or after it and before its ceiling; the ceiling where there is none."""
    rest = np.flatnonzero(places < ceilings)
    last, at = (ceilings[rest] - 1) >> 3, places[rest] >> 3
    eights, found, marks = _Eights(buffers.data, byte), ceilings.astype(np.int64), np.zeros(len(places), np.uint64)
    marked = eights.marked(at) & _ALL << (np.uint64(8) * (places[rest] & 7).astype(np.uint64))  # those from the place on
    for _ in range(_STEPS):
        hit, left = np.flatnonzero(marked), np.flatnonzero((marked == 0) & (at < last))
        marks[rest[hit]], found[rest[hit]] = marked[hit], at[hit] << 3
        rest, at, last = rest[left], at[left] + 1, last[left]
        if not len(rest):
            break
        marked = eights.marked(at)
    marks &= ~marks + np.uint64(1)  # the lowest bit alone
    found += (np.frexp(marks.astype(np.float64))[1] >> 3) - (marks != 0)
    if len(rest):
        every = np.append(np.flatnonzero(buffers.data == byte), len(buffers.data))
        found[rest] = every[np.searchsorted(every[:-1], at << 3)]
    return np.minimum(found, ceilings)


def translated(data: npt.NDArray[np.uint8], table: bytes, more: int = 0) -> npt.NDArray[np.uint8]:
    """The entry of each byte in a table of 256, and `more` zeros behind them: half the price of numpy's indexing, which takes a number of
    eight bytes for each."""
    made = data.tobytes().translate(table)
    return np.frombuffer(made + bytes(more) if more else made, np.uint8)


def table_of(some: bytes) -> npt.NDArray[np.bool_]:
    """A table of 256 bytes: True for some of them."""
    table = np.zeros(256, np.bool_)
    table[list(some)] = True
    return table


def among(data: npt.NDArray[np.uint8], table: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which bytes are some of 256, by `table_of` these."""
    return translated(data, table.tobytes()).view(np.bool_)


class _Eights:
    """A buffer eight bytes at a time, from its first byte on, and which of them are one byte."""

    def __init__(self, data: npt.NDArray[np.uint8], byte: int) -> None:
        whole = len(data) // 8
        self._words = data[: 8 * whole].view("<u8")
        self._last = np.append(data[8 * whole :], np.zeros(8, np.uint8))[:8].view("<u8")
        self._byte = np.uint64(byte * 0x0101010101010101)

    def marked(self, at: I64) -> U64:
        """The highest bit of each byte that is the one looked for, in the eight of each number."""
        if len(at) and at.max() >= len(self._words):
            inside = at < len(self._words)
            words = np.full(len(at), self._last[0])
            words[inside] = self._words[at[inside]]
        else:
            words = self._words[at]
        words ^= self._byte
        marked: U64 = words & _SEVENS
        marked += _SEVENS
        marked |= words
        marked |= _SEVENS
        marked ^= _ALL
        return marked


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


def within(low: I64, high: I64) -> I64:
    """Every number of every range [low, high), range after range."""
    sizes = high - low
    return np.repeat(low - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def ranges(low: I64, high: I64) -> tuple[I64, I64]:
    """The place of its range, and the number itself, for every number of every range [low, high)."""
    return np.repeat(np.arange(len(low)), high - low), within(low, high)
