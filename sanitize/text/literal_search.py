"""Where the values that had to go stand in a column of texts, in the forms `exact`, `case-folded` (ASCII without regard to case) and
`NFKC` (each character in its Unicode compatibility form).

Each form is known by eight of its bytes, its length and its last eight bytes; the few places of a text that pass are compared byte by
byte. Exact, and as fast for many values as for few. Nothing here knows a kind's pattern; only its boundary rule is asked.
"""

from __future__ import annotations

import functools
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import Buffers, among, ascii_lower, cut, matches, ranges, table_of
from sanitize.kinds.kind import WORD, boundaries, every_kind
from sanitize.storage.row_partitions import MOST, spread

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
FORMS = ("exact", "case-folded", "NFKC")
RANGE = 100_000  # spellings that are sorted at a time when the forms are gathered: some 30 MB
_BATCH = 100_000  # values that are read at a time
_FORMS = pa.schema([("form", pa.large_string()), ("kind", pa.int32()), ("value_id", pa.int64())])
_PARTED = _FORMS.append(pa.field("wide", pa.bool_()))
FEW = 100_000  # forms that each process makes ready for itself, in a tenth of a second
EACH = 400  # bytes that a form takes while it is made ready: 332 were measured for addresses of 35 bytes
_ARRAYS = ("kind", "value_id", "data", "offsets", "lengths", "first", "glued", "about")
_PAD = np.zeros(16, np.uint8)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_AT = ord("@")
_SPARED = -1  # in place of the kind, in the rows of values without forms


@dataclass(frozen=True)
class Matches:
    """Where flagged forms stand in a column: the text, first and last + 1 byte in it, and which form."""

    text_no: I64
    start: I64
    stop: I64
    form: I64


class Flagged:
    """The forms of all values that had to go, ready to be looked for."""

    def __init__(self, forms: pa.LargeStringArray, kind: npt.NDArray[np.int32], value_id: I64) -> None:
        self.kind, self.value_id = kind, value_id
        self._know_kinds()
        buffers = Buffers.of(forms)
        self.data, self.offsets = np.concatenate([buffers.data, _PAD]), buffers.offsets
        self.lengths = buffers.lengths
        there = np.unique(kind)
        # bytes that no kind here may stand behind
        self.glued: npt.NDArray[np.bool_] = np.all(self.not_before[there], axis=0) if len(there) else np.zeros(256, np.bool_)
        # whether any form is beyond ASCII, and the length of the longest
        self.about = np.array([(buffers.data >= 128).any(), self.lengths.max(initial=0)], np.int64)
        # an address is looked for around its @, which is rare in a text; anything else from its first byte on
        signs = np.flatnonzero(buffers.data == _AT)
        first = np.minimum(np.searchsorted(signs, buffers.offsets[:-1]), max(len(signs) - 1, 0))
        before = (signs[first] if len(signs) else np.full(1, -1)) - buffers.offsets[:-1]
        addressed = (before >= 0) & (before < self.lengths)
        deep = addressed & (before >= 4) & (self.lengths - before >= 4)
        flat = addressed & ~deep & (before >= 1) & (self.lengths - before >= 7)
        plain = ~deep & ~flat
        long, short = plain & (self.lengths >= 8), plain & (self.lengths < 8)
        self.first = np.zeros(256, np.bool_)
        self.first[self.data[self.offsets[:-1][plain]]] = True
        self._around = []
        for which, back in ((deep, 4), (flat, 1)):
            if which.any():
                self._around.append(_Trie(self, np.flatnonzero(which), before[which] - back, 8, back))
        self._ahead = [_Trie(self, np.flatnonzero(long), np.zeros(long.sum(), np.int64), 8)] if long.any() else []
        for width in np.unique(self.lengths[short]).tolist():
            rows = np.flatnonzero(short & (self.lengths == width))
            self._ahead.append(_Trie(self, rows, np.zeros(len(rows), np.int64), width))

    def _know_kinds(self) -> None:
        self.spared = np.empty(0, np.int64)  # values that had to go, and that are too common to be looked for
        self.names = list(every_kind())
        self.not_before, self.not_after = boundaries(list(every_kind().values()))
        # an accent behind a word makes another word of it; a pattern's edge is one of bytes, and sees an accent as little as `é`
        self.by_word = np.array([not one.pattern for one in every_kind().values()])
        self.word = table_of(WORD)

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def write(cls, values: Sequence[Path], edited: Sequence[str], out: Path, also: Sequence[int] = (), alone: Sequence[int] = ()) -> int:
        """Gather the forms of all values of the edited kinds without those whose `value_id` is in `alone`, and of those in `also`, from the
        vault into one file; returns how many distinct values.

        The forms are parted by ranges of the alphabet on the disk, and sorted range by range: memory is that of one range.
        """
        numbers = {name: number for number, name in enumerate(every_kind())}
        edges = _edges(values, min(MOST, -(-sum(pq.read_metadata(path).num_rows for path in values) // RANGE)))
        ids: list[I64] = []
        spared: list[I64] = []
        with spread(out.with_name(f".{out.name}.parts"), _PARTED, len(edges) + 1) as parts:
            for frame in batches_of(values):
                goes = pl.col("kind").is_in(list(edited)) & ~pl.col("value_id").is_in(pl.Series(alone, dtype=pl.Int64).implode())
                goes = goes | pl.col("value_id").is_in(pl.Series(also, dtype=pl.Int64).implode())
                frame = frame.filter(goes).with_columns(kind=pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32))
                frame, common = _told_apart(frame)
                spared.append(common)
                ids.append(np.unique(frame["value_id"].to_numpy()))
                plainly = frame.select(ascii_lower(frame["value"]).alias("form"), "kind", "value_id", wide=pl.lit(False))
                others = respelled(frame.select("kind", "value_id", form="value")).select(*_FORMS.names, wide=pl.lit(True))
                for rows in (plainly, others):
                    parts.add(rows, _place_of(rows["form"], edges))
            with pq.ParquetWriter(out, _FORMS, compression="lz4") as made:
                for rows in parts.take():
                    # of equal forms the one that is spelled so comes first
                    rows = rows.filter(pl.col("form") != "").sort("wide", maintain_order=True).drop("wide")
                    rows = rows.unique(["form", "kind"], keep="first", maintain_order=True).sort("form", "kind")
                    # one row group a range, so that all rows of a form are in one
                    made.write_table(rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_FORMS), row_group_size=max(1, rows.height))
                common = np.unique(np.concatenate([np.empty(0, np.int64), *spared]))
                if len(common):
                    nothing = [pa.array([""] * len(common), pa.large_string()), pa.array(np.full(len(common), _SPARED, np.int32))]
                    made.write_table(pa.table([*nothing, pa.array(common)], schema=_FORMS))
        every = np.concatenate(ids) if ids else np.empty(0, np.int64)
        every.sort()  # in place: np.unique would hold them several times over
        return int((every[1:] != every[:-1]).sum()) + 1 if len(every) else 0

    @classmethod
    def read(cls, path: Path) -> Flagged:
        """The forms in a file that `write` made; kept in this process for the next task."""
        stat = path.stat()
        return _flagged(path, stat.st_mtime_ns, stat.st_ino)

    @classmethod
    def parts(cls, path: Path) -> tuple[Flagged, ...]:
        """The forms in what `ready` gave: each form is in one part, and the first part knows what is spared in all of them."""
        if not path.is_dir():
            return (cls.read(path),)
        stat = path.stat()
        return _mapped(path, stat.st_mtime_ns, stat.st_ino)

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for name in _ARRAYS:
            np.save(folder / name, getattr(self, name))
        for number, trie in enumerate((*self._around, *self._ahead)):
            trie.save(folder / f"{number:02d}")

    @classmethod
    def opened(cls, folder: Path) -> Flagged:
        """What `save` wrote, its pages read when they are looked at and shared with other processes."""
        one = cls.__new__(cls)
        vars(one).update({name: _array(folder / name) for name in _ARRAYS})
        one._know_kinds()
        tries = [_Trie.opened(one, path) for path in sorted(path for path in folder.iterdir() if path.is_dir())]
        one._around = [trie for trie in tries if trie.back]
        one._ahead = [trie for trie in tries if not trie.back]
        return one

    def find(self, texts: pa.LargeStringArray, bounded: bool = True) -> Matches:
        """All places of all forms in a column of texts, in any ASCII letter case; `bounded`: only where the kind's boundary rule allows."""
        buffers = Buffers.of(texts)
        if not len(self) or not len(buffers.data):
            return _no_matches()
        size = len(buffers.data)
        low = np.frombuffer(b"".join([buffers.data.data, bytes(16)]).lower(), np.uint8)
        windows: U64 = np.ndarray((size + 9,), "<u8", low, strides=(1,))
        found = []
        if self._around:
            signs = np.flatnonzero(low == _AT)
            found += [trie.find(low, windows, signs - trie.back) for trie in self._around]
        if self._ahead:
            maybe = among(low[:size], self.first)
            if bounded and self.glued.any():
                # inside a word no form may begin, whatever its kind
                inside = among(low[1:size], self.word) & among(buffers.data[:-1], self.glued)
                inside[buffers.offsets[1:-1][(buffers.offsets[1:-1] > 0) & (buffers.offsets[1:-1] < size)] - 1] = False
                maybe = np.concatenate([maybe[:1], maybe[1:] & ~inside])
            places = np.flatnonzero(maybe)
            found += [trie.find(low, windows, places) for trie in self._ahead]
        at = np.concatenate([place for place, _ in found])
        form = np.concatenate([row for _, row in found])
        stop = at + self.lengths[form]
        text_no = np.searchsorted(buffers.offsets, at, side="right") - 1
        # inside one text, and not glued to bytes that the kind's rule forbids
        good = stop <= buffers.offsets[text_no + 1]
        at, form, stop, text_no = at[good], form[good], stop[good], text_no[good]
        if bounded:
            good = self._bounded(buffers, low, at, stop, text_no, form)
            at, form, stop, text_no = at[good], form[good], stop[good], text_no[good]
        order = np.lexsort((-stop, at))
        base = buffers.offsets[text_no]
        return Matches(text_no[order], (at - base)[order], (stop - base)[order], form[order])

    def bounded(self, texts: pa.LargeStringArray, found: Matches) -> npt.NDArray[np.bool_]:
        """Which of the places that `find` gave without bounds the kind's boundary rule allows."""
        buffers = Buffers.of(texts)
        base = buffers.offsets[found.text_no]
        return self._bounded(buffers, buffers.data, base + found.start, base + found.stop, found.text_no, found.form)

    def _bounded(self, buffers: Buffers, data: npt.NDArray[np.uint8], at: I64, stop: I64, text_no: I64, form: I64) -> npt.NDArray[np.bool_]:
        kind, last = self.kind[form], max(len(buffers.data) - 1, 0)
        before = (at > buffers.offsets[text_no]) & self.word[data[at]] & self.not_before[kind, buffers.data[np.maximum(at - 1, 0)]]
        after = stop < buffers.offsets[text_no + 1]
        behind = buffers.data[np.minimum(stop, last)]
        after &= self.word[data[stop - 1]] & (self.not_after[kind, behind] | self.by_word[kind] & _accent(buffers.data, stop))
        good: npt.NDArray[np.bool_] = ~(before | after)
        return good

    def find_compatible(self, texts: pa.LargeStringArray) -> Matches:
        """Places of forms that only show once characters are in their compatibility form; byte places are those of the text as it is.

        Only what lies around such a character can differ from what `find` sees: windows as wide as the longest form are looked at.
        """
        buffers = Buffers.of(texts)
        if not len(self):
            return _no_matches()
        some = np.flatnonzero(np.diff(np.searchsorted(np.flatnonzero(buffers.data >= 128), buffers.offsets)))
        if len(some) < len(texts):
            found = self.find_compatible(texts.take(pa.array(some))) if len(some) else _no_matches()
            return Matches(some[found.text_no], found.start, found.stop, found.form)
        starts, stops = matches(buffers, _changing(bool(self.about[0])))
        if not len(starts):
            return _no_matches()
        text_no = np.searchsorted(buffers.offsets, starts, side="right") - 1
        wide = int(self.about[1]) + 4
        low, high = np.maximum(starts - wide, buffers.offsets[text_no]), np.minimum(stops + wide, buffers.offsets[text_no + 1])
        # windows that overlap become one, and none cuts a character
        new = np.append(True, (low[1:] > np.maximum.accumulate(high)[:-1]) | (np.diff(text_no) != 0))
        low, high, text_no = low[new], np.maximum.reduceat(high, np.flatnonzero(new)), text_no[new]
        for edge, step in ((low, -1), (high, 1)):
            while (inside := (edge < len(buffers.data)) & ((buffers.data[np.minimum(edge, len(buffers.data) - 1)] & 0xC0) == 0x80)).any():
                edge += step * inside
        # a loop over windows around rare characters: Unicode's compatibility forms have no columnar implementation
        raw = cut(buffers, low, high).to_pylist()
        found = self.find(pa.array([compatible(window) for window in raw], pa.large_string()))
        first, last = np.empty(len(found.start), np.int64), np.empty(len(found.start), np.int64)
        for place in np.unique(found.text_no):
            mine = np.flatnonzero(found.text_no == place)
            first[mine], last[mine] = _original(raw[int(place)], found.start[mine], found.stop[mine])
        first, last = first + low[found.text_no], last + low[found.text_no]
        # a match that does not touch such a character is one that `find` sees as it is, or one that only the window's edge made
        near = np.searchsorted(stops, first, side="left")
        touches = (near < len(starts)) & (starts[np.minimum(near, len(starts) - 1)] <= last)
        text_no, form = text_no[found.text_no][touches], found.form[touches]
        base = buffers.offsets[text_no]
        return Matches(text_no, first[touches] - base, last[touches] - base, form)


def batches_of(values: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """The values of a vault, so many at a time that what is made of them is small."""
    for path in values:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_BATCH, columns=["value_id", "kind", "value", "normalised"], use_threads=False):
                yield pl.DataFrame(pa.Table.from_batches([batch])).with_columns(pl.col("kind").cast(pl.String))


def ready(path: Path, folder: Path, memory: int = 1 << 30) -> Path:
    """The forms in a file that `Flagged.write` made, made ready in `folder` for all processes that look for them, which share them as
    pages of files: what `Flagged.parts` takes. About so many bytes of memory are used; what does not fit is parted, and each text is
    then looked at for one part after the other. Few forms stay as they are."""
    if pq.read_metadata(path).num_rows <= FEW:
        return path
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spared = [np.empty(0, np.int64)]
    with pq.ParquetFile(path, pre_buffer=False) as file:
        groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
        ends = np.cumsum(groups)
        of = (ends - 1) // max(FEW, memory // EACH, 1)
        for number in np.unique(of):
            one = _of_table(file.read_row_groups(np.flatnonzero(of == number).tolist()))
            spared.append(one.spared)
            if len(one):
                one.save(folder / f"{number:06d}")
    np.save(folder / "spared", np.concatenate(spared))
    return folder


@functools.lru_cache(maxsize=4)  # full verification looks for three in each shard
def _flagged(path: Path, _time: int, _inode: int) -> Flagged:
    return _of_table(pq.read_table(path, partitioning=None))


@functools.lru_cache(maxsize=4)  # as above
def _mapped(path: Path, _time: int, _inode: int) -> tuple[Flagged, ...]:
    nothing = Flagged(pa.array([], pa.large_string()), np.empty(0, np.int32), np.empty(0, np.int64))
    parts = tuple(Flagged.opened(one) for one in sorted(one for one in path.iterdir() if one.is_dir())) or (nothing,)
    parts[0].spared = np.load(path / "spared.npy")
    return parts


def _of_table(table: pa.Table) -> Flagged:
    spared = pc.equal(table.column("kind"), _SPARED)
    common = np.asarray(table.filter(spared).column("value_id"), np.int64)
    table = table.filter(pc.invert(spared)).combine_chunks()
    forms = table.column("form").chunk(0).cast(pa.large_string()) if table.num_rows else pa.array([], pa.large_string())
    found = Flagged(forms, np.asarray(table.column("kind"), np.int32), np.asarray(table.column("value_id"), np.int64))
    found.spared = common
    return found


def _array(path: Path) -> npt.NDArray[Any]:
    return np.asarray(np.load(path.with_name(f"{path.name}.npy"), mmap_mode="r"))


def _told_apart(frame: pl.DataFrame) -> tuple[pl.DataFrame, I64]:
    """The values that can be looked for wherever they stand, and the ids of those that their kind says are common words first."""
    asked = {number: one.telling for number, one in enumerate(every_kind().values()) if one.telling is not None}
    common = pl.Series(np.zeros(frame.height, np.bool_))
    for number in frame["kind"].unique():
        tells = asked.get(number)
        if tells is not None:
            mine = (frame["kind"] == number).arg_true()
            form = frame.select(pl.coalesce("normalised", "value")).to_series().gather(mine)
            common = common.scatter(mine, ~tells(form))
    return frame.filter(~common), np.unique(frame.filter(common)["value_id"].to_numpy())


class _Trie:
    """Forms by eight bytes of theirs (`head`, `before` bytes behind their beginning), then their length, then their last bytes."""

    def __init__(self, flagged: Flagged, rows: npt.NDArray[np.intp], before: I64, width: int, back: int = 0) -> None:
        self._know(flagged, width, back)
        windows: U64 = np.ndarray((len(flagged.data) - 7,), "<u8", flagged.data, strides=(1,))
        lengths = flagged.lengths[rows]
        heads = windows[flagged.offsets[rows] + before] & self.mask
        tails = windows[flagged.offsets[rows] + lengths - width] & self.mask
        order = np.lexsort((tails, lengths, before, heads))
        rows, heads, before, lengths, tails = rows[order], heads[order], before[order], lengths[order], tails[order]
        self.heads, first = np.unique(heads, return_index=True)
        group = np.repeat(np.arange(len(self.heads)), np.diff(np.append(first, len(heads))))
        # the distinct (head, before, length), and where those of each head begin
        new = np.append(True, (np.diff(group) != 0) | (np.diff(before) != 0) | (np.diff(lengths) != 0))
        self.pair_before, self.pair_length = before[new], lengths[new]
        self.pairs_from = np.append(np.searchsorted(group[new], np.arange(len(self.heads))), new.sum())
        self.tails = np.unique(tails)
        pair = np.cumsum(new) - 1
        self.keys = pair * len(self.tails) + np.searchsorted(self.tails, tails)
        self.rows = rows
        bits = min(26, max(12, len(self.heads).bit_length() + 4))
        self.map = np.zeros(1 << bits, np.bool_)
        self.map[(self.heads * _MIX) >> np.uint64(64 - bits)] = True

    _SAVED = ("heads", "pair_before", "pair_length", "pairs_from", "tails", "keys", "rows", "map")

    def _know(self, flagged: Flagged, width: int, back: int) -> None:
        self.flagged, self.width, self.back = flagged, width, back
        self.mask = np.uint64(0xFFFFFFFFFFFFFFFF >> (64 - 8 * width))

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for name in self._SAVED:
            np.save(folder / name, getattr(self, name))
        np.save(folder / "about", np.array([self.width, self.back]))

    @classmethod
    def opened(cls, flagged: Flagged, folder: Path) -> _Trie:
        """What `save` wrote."""
        one = cls.__new__(cls)
        one._know(flagged, *_array(folder / "about").tolist())
        vars(one).update({name: _array(folder / name) for name in cls._SAVED})
        return one

    def find(self, low: npt.NDArray[np.uint8], windows: U64, places: I64) -> tuple[I64, I64]:
        """Where a form begins, byte for byte, and which; `places` are where its head may stand."""
        if self.back:
            places = places[places >= 0]
        heads = windows[places]
        if self.width < 8:
            heads = heads & self.mask
        maybe = np.flatnonzero(self.map[(heads * _MIX) >> np.uint64(65 - len(self.map).bit_length())])
        places, heads = places[maybe], heads[maybe]
        head = np.minimum(np.searchsorted(self.heads, heads), len(self.heads) - 1)
        same = self.heads[head] == heads
        places, head = places[same], head[same]
        # each place with each beginning and length that its head knows
        each, pair = ranges(self.pairs_from[head], self.pairs_from[head + 1])
        begins, length = places[each] - self.pair_before[pair], self.pair_length[pair]
        inside = (begins >= 0) & (begins + length <= len(low) - 16)
        begins, length, pair = begins[inside], length[inside], pair[inside]
        tails = windows[begins + length - self.width] & self.mask
        tail = np.minimum(np.searchsorted(self.tails, tails), len(self.tails) - 1)
        same = self.tails[tail] == tails
        begins, key = begins[same], (pair * len(self.tails) + tail)[same]
        each, entry = ranges(np.searchsorted(self.keys, key, side="left"), np.searchsorted(self.keys, key, side="right"))
        begins, rows = begins[each], self.rows[entry]
        # what is left agrees in head, length and tail; the rest is compared in steps of eight bytes
        if len(rows) and self.width == 8:
            known: U64 = np.ndarray((len(self.flagged.data) - 7,), "<u8", self.flagged.data, strides=(1,))
            for step in range(0, int(self.flagged.lengths[rows].max()) - 8, 8):
                on = np.flatnonzero(self.flagged.lengths[rows] > step + 8)
                good = np.ones(len(rows), np.bool_)
                good[on] = windows[begins[on] + step] == known[self.flagged.offsets[rows[on]] + step]
                begins, rows = begins[good], rows[good]
        return begins, rows


def _accent(data: npt.NDArray[np.uint8], at: I64) -> npt.NDArray[np.bool_]:
    """Where a combining mark stands (U+0300 to 036F), which makes one letter with the one before it."""
    last = max(len(data) - 1, 0)
    lead, trail = data[np.minimum(at, last)], data[np.minimum(at + 1, last)]
    mark: npt.NDArray[np.bool_] = (at < last) & ((lead == 0xCC) | ((lead == 0xCD) & (trail < 0xB0)))
    return mark


def _edges(values: Sequence[Path], parts: int) -> list[str]:
    """Where the alphabet is cut so that the forms fall into about so many equal ranges, from a sample of them."""
    if parts <= 1:
        return []
    sample = []
    for path in values[:: max(1, len(values) // 16)]:
        column = pq.read_table(path, columns=["value"], partitioning=None)["value"]
        sample += pc.ascii_lower(column.take(pa.array(range(0, len(column), 64)))).to_pylist()
    ordered = sorted(sample, key=str.encode)
    return sorted({ordered[len(ordered) * number // parts] for number in range(1, parts)}, key=str.encode)


def _place_of(forms: pl.Series, edges: list[str]) -> I64:
    """By the range that each form falls into, a number from 0."""
    if not edges:
        return np.zeros(len(forms), np.int64)
    return np.asarray(pl.Series(edges).search_sorted(forms, side="right").to_numpy(), np.int64)


def _no_matches() -> Matches:
    nothing = np.empty(0, np.int64)
    return Matches(nothing, nothing, nothing, nothing)


class _Compatible(dict[int, str]):
    """Each character in its Unicode compatibility form (NFKC), case-folded; ASCII capitals become small."""

    def __missing__(self, code: int) -> str:
        self[code] = form = unicodedata.normalize("NFKC", chr(code)).casefold()
        return form


_COMPATIBLE = _Compatible()


def compatible(text: str) -> str:
    """A text in its Unicode compatibility form, letter case folded."""
    return text.translate(_COMPATIBLE)


def spellings(value: str) -> list[str]:
    """How a value beyond ASCII may stand in a text, or in a text's compatibility form: each composed and decomposed (NFC, NFD)."""
    form = compatible(value)
    return list(dict.fromkeys([form, *(unicodedata.normalize(way, one) for one in (value, form) for way in ("NFC", "NFD"))]))


def respelled(values: pl.DataFrame) -> pl.DataFrame:
    """The rows whose `form` is beyond ASCII, once for each of its spellings, ASCII letters small."""
    wide = values.filter(pl.col("form").str.contains(r"[^\x00-\x7f]"))
    # a loop over distinct values beyond ASCII: Unicode's compatibility forms have no columnar implementation
    wide = wide.with_columns(form=pl.Series([spellings(form) for form in wide["form"]], dtype=pl.List(pl.String))).explode("form")
    return wide.with_columns(ascii_lower(wide["form"]))


@functools.cache
def _changing(all_changes: bool) -> str:
    """A run of characters beyond ASCII whose compatibility form holds ASCII, or (all_changes) is any other than themselves."""
    codes = []
    for code in (*range(0x80, 0xD800), *range(0xE000, 0x20000)):
        letter = chr(code)
        if unicodedata.decomposition(letter) or letter.casefold() != letter:
            form = _COMPATIBLE[code]
            if form != letter if all_changes else any(one < "\x80" for one in form):
                codes.append(code)
    edges = np.flatnonzero(np.diff(codes, prepend=-2) != 1)
    runs = [(codes[low], codes[high - 1]) for low, high in zip(edges, [*edges[1:], len(codes)], strict=True)]
    return "[" + "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in runs) + "]+"


def _original(text: str, starts: I64, stops: I64) -> tuple[I64, I64]:
    """Byte places of a text for byte places of its compatibility form."""
    wide = np.fromiter((len(_COMPATIBLE[ord(letter)].encode()) for letter in text), np.int64, len(text))
    real = np.fromiter((len(letter.encode()) for letter in text), np.int64, len(text))
    form_ends, ends = np.cumsum(wide), np.concatenate([[0], np.cumsum(real)])
    first = np.searchsorted(form_ends, starts, side="right")
    last = np.searchsorted(form_ends, stops, side="left")
    return ends[first], ends[last + 1]
