"""Finds removed values in a column of texts, in the forms `exact`, `case-folded` (ASCII letter case ignored) and `NFKC` (each character in
its Unicode compatibility form).

A search term is a spelling of a value. Terms are indexed by eight of their bytes, their length and their last eight bytes; the few places
of a text that pass these are compared byte by byte. The search is exact, and as fast for many values as for few. It does not use the
pattern of a kind, only its boundary rule.
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

from sanitize.array_types import I32, I64, U8, U64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    ascii_lower,
    find_matches,
    is_in_byte_table,
    make_byte_table,
    slice_spans,
    to_large_string,
)
from sanitize.core.intervals import enumerate_ranges, merge_spans, sort_spans
from sanitize.kinds.kind import ASCII_WORD_CHARS, all_kinds, boundary_tables
from sanitize.text.partition_files import MAX_FILES, open_partitions

LITERAL_FORMS = ("exact", "case-folded", "NFKC")
TERMS_PER_RANGE = 100_000  # terms that `LiteralMatcher.write` sorts at a time: about 30 MB
_VALUES_PER_BATCH = 100_000  # values that are read at a time
_TERM_SCHEMA = pa.schema([("form", pa.large_string()), ("kind", pa.int32()), ("value_id", pa.int64())])
_PARTITIONED_SCHEMA = _TERM_SCHEMA.append(pa.field("wide", pa.bool_()))
MAX_UNSHARED_TERMS = 100_000  # up to this many terms, each process builds its own index, in a tenth of a second
BYTES_PER_TERM = 400  # memory per term while the index is built: 332 bytes were measured for addresses of 35 bytes
_MATCHER_ARRAYS = ("kind", "value_id", "data", "offsets", "lengths", "is_first_byte", "is_forbidden_before", "term_stats")
_PADDING = np.zeros(16, np.uint8)
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_AT_SIGN = ord("@")
_UNSEARCHED_KIND = -1  # the kind in rows of values that are not searched


@dataclass(frozen=True)
class LiteralMatches:
    """Matches of search terms in a column, one row each: number of the text, start and end byte in it, and the row of the term."""

    text_no: I64
    start: I64
    end: I64
    term: I64

    def take(self, rows: I64) -> LiteralMatches:
        """The matches at the given rows."""
        return LiteralMatches(self.text_no[rows], self.start[rows], self.end[rows], self.term[rows])


class LiteralMatcher:
    """Finds many literal terms at once in a column of texts, in any ASCII letter case.

    A term is a spelling of a value that must not remain, with its kind, whose boundary rule applies, and its `value_id`. Large sets of
    terms are divided over several matchers (`open_partitions`); `unsearched_ids` are values that are too common to be searched.
    """

    def __init__(self, terms: pa.LargeStringArray, kind: I32, value_id: I64) -> None:
        self.kind, self.value_id = kind, value_id
        self._load_kind_rules()
        buffers = TextBuffers.from_array(terms)
        self.data, self.offsets = np.concatenate([buffers.data, _PADDING]), buffers.offsets
        self.lengths = buffers.lengths
        kinds_present = np.unique(kind)
        # bytes that no kind of these terms may follow
        self.is_forbidden_before: Mask = np.all(self.not_before[kinds_present], axis=0) if len(kinds_present) else np.zeros(256, np.bool_)
        # whether any term has a character beyond ASCII, and the length of the longest term
        self.term_stats = np.array([(buffers.data >= 128).any(), self.lengths.max(initial=0)], np.int64)
        # an address is searched around its @, which is rare in a text; any other term from its first byte on
        at_signs = np.flatnonzero(buffers.data == _AT_SIGN)
        first = np.minimum(np.searchsorted(at_signs, buffers.offsets[:-1]), max(len(at_signs) - 1, 0))
        at_offset = (at_signs[first] if len(at_signs) else np.full(1, -1)) - buffers.offsets[:-1]
        has_at = (at_offset >= 0) & (at_offset < self.lengths)
        is_deep = has_at & (at_offset >= 4) & (self.lengths - at_offset >= 4)
        is_shallow = has_at & ~is_deep & (at_offset >= 1) & (self.lengths - at_offset >= 7)
        is_plain = ~is_deep & ~is_shallow
        is_long, is_short = is_plain & (self.lengths >= 8), is_plain & (self.lengths < 8)
        self.is_first_byte = np.zeros(256, np.bool_)
        self.is_first_byte[self.data[self.offsets[:-1][is_plain]]] = True
        self._indexes_around_at = []
        for selected, bytes_before in ((is_deep, 4), (is_shallow, 1)):
            if selected.any():
                self._indexes_around_at.append(
                    _TermIndex(self, np.flatnonzero(selected), at_offset[selected] - bytes_before, 8, bytes_before)
                )
        self._indexes_from_start = (
            [_TermIndex(self, np.flatnonzero(is_long), np.zeros(is_long.sum(), np.int64), 8)] if is_long.any() else []
        )
        for width in np.unique(self.lengths[is_short]).tolist():
            rows = np.flatnonzero(is_short & (self.lengths == width))
            self._indexes_from_start.append(_TermIndex(self, rows, np.zeros(len(rows), np.int64), width))

    def _load_kind_rules(self) -> None:
        self.unsearched_ids = np.empty(0, np.int64)  # removed values that are too common to be searched for
        self.kind_names = list(all_kinds())
        self.not_before, self.not_after = boundary_tables(list(all_kinds().values()))
        # an accent after a word makes it another word; a pattern has byte boundaries, which ignore an accent just as they ignore `é`
        self.checks_accents = np.array([not kind.pattern for kind in all_kinds().values()])
        self.is_word_byte = make_byte_table(ASCII_WORD_CHARS)

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def from_values(cls, values: pl.DataFrame) -> LiteralMatcher | None:
        """A matcher for all spellings of a few values: columns value_id, kind (a number in `all_kinds`), value, normalised. None if all are
        too common to be searched."""
        searched = _split_common_values(values)[0].rename({"value": "form"})
        if not searched.height:
            return None
        spellings = pl.concat([searched.with_columns(ascii_lower(searched["form"])), expand_spellings(searched)])
        terms = spellings.filter(pl.col("form") != "").unique(["form", "kind"], keep="first", maintain_order=True)
        return cls(to_large_string(terms["form"]), terms["kind"].to_numpy(), terms["value_id"].to_numpy())

    @classmethod
    def write(
        cls,
        value_files: Sequence[Path],
        edited_kinds: Sequence[str],
        out: Path,
        extra_ids: Sequence[int] = (),
        excluded_ids: Sequence[int] = (),
    ) -> int:
        """Writes the search terms of all values of the edited kinds from the vault into one file; returns the number of distinct values.

        Values whose `value_id` is in `excluded_ids` are left out, those in `extra_ids` are added whatever their kind. The terms are
        partitioned by ranges of the alphabet on disk and sorted range by range: peak memory is one range.
        """
        numbers = {name: number for number, name in enumerate(all_kinds())}
        edges = _sample_range_edges(
            value_files, min(MAX_FILES, -(-sum(pq.read_metadata(path).num_rows for path in value_files) // TERMS_PER_RANGE))
        )
        ids: list[I64] = []
        unsearched: list[I64] = []
        with open_partitions(out.with_name(f".{out.name}.parts"), _PARTITIONED_SCHEMA, len(edges) + 1) as parts:
            for frame in iter_value_batches(value_files):
                is_removed = pl.col("kind").is_in(list(edited_kinds)) & ~pl.col("value_id").is_in(
                    pl.Series(excluded_ids, dtype=pl.Int64).implode()
                )
                is_removed = is_removed | pl.col("value_id").is_in(pl.Series(extra_ids, dtype=pl.Int64).implode())
                frame = frame.filter(is_removed).with_columns(kind=pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32))
                frame, common = _split_common_values(frame)
                unsearched.append(common)
                ids.append(np.unique(frame["value_id"].to_numpy()))
                own_spellings = frame.select(ascii_lower(frame["value"]).alias("form"), "kind", "value_id", wide=pl.lit(False))
                other_spellings = expand_spellings(frame.select("kind", "value_id", form="value")).select(
                    *_TERM_SCHEMA.names, wide=pl.lit(True)
                )
                for rows in (own_spellings, other_spellings):
                    parts.add(rows, _assign_ranges(rows["form"], edges))
            with pq.ParquetWriter(out, _TERM_SCHEMA, compression="lz4") as writer:
                for rows in parts.drain():
                    # of equal terms the one that is the value's own spelling comes first
                    rows = rows.filter(pl.col("form") != "").sort("wide", maintain_order=True).drop("wide")
                    rows = rows.unique(["form", "kind"], keep="first", maintain_order=True).sort("form", "kind")
                    # one row group per range, so that all rows of a term are in one row group
                    writer.write_table(
                        rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_TERM_SCHEMA), row_group_size=max(1, rows.height)
                    )
                common = np.unique(np.concatenate([np.empty(0, np.int64), *unsearched]))
                if len(common):
                    empty_columns = [
                        pa.array([""] * len(common), pa.large_string()),
                        pa.array(np.full(len(common), _UNSEARCHED_KIND, np.int32)),
                    ]
                    writer.write_table(pa.table([*empty_columns, pa.array(common)], schema=_TERM_SCHEMA))
        all_ids = np.concatenate(ids) if ids else np.empty(0, np.int64)
        all_ids.sort()  # in place: np.unique would take several times the memory
        return int((all_ids[1:] != all_ids[:-1]).sum()) + 1 if len(all_ids) else 0

    @classmethod
    def read(cls, path: Path) -> LiteralMatcher:
        """Returns the matcher of a file that `write` wrote; cached in this process for the next task."""
        stat = path.stat()
        return _read_cached(path, stat.st_mtime_ns, stat.st_ino)

    @classmethod
    def open_partitions(cls, path: Path) -> tuple[LiteralMatcher, ...]:
        """Returns the matchers of a path that `prepare_terms` returned. Each term is in one of them; `unsearched_ids` of the first one are
        those of all."""
        if not path.is_dir():
            return (cls.read(path),)
        stat = path.stat()
        return _load_partitions_cached(path, stat.st_mtime_ns, stat.st_ino)

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for name in _MATCHER_ARRAYS:
            np.save(folder / name, getattr(self, name))
        for number, index in enumerate((*self._indexes_around_at, *self._indexes_from_start)):
            index.save(folder / f"{number:02d}")

    @classmethod
    def load(cls, folder: Path) -> LiteralMatcher:
        """Loads what `save` wrote, memory-mapped: pages are read on first use and shared with other processes."""
        matcher = cls.__new__(cls)
        vars(matcher).update({name: _load_array(folder / name) for name in _MATCHER_ARRAYS})
        matcher._load_kind_rules()
        indexes = [_TermIndex.load(matcher, path) for path in sorted(path for path in folder.iterdir() if path.is_dir())]
        matcher._indexes_around_at = [index for index in indexes if index.bytes_before_at]
        matcher._indexes_from_start = [index for index in indexes if not index.bytes_before_at]
        return matcher

    def find(self, texts: pa.LargeStringArray, check_boundaries: bool = True) -> LiteralMatches:
        """Returns all matches of all terms in a column of texts, in any ASCII letter case; with `check_boundaries` only those that the
        boundary rule of their kind allows."""
        buffers = TextBuffers.from_array(texts)
        if not len(self) or not len(buffers.data):
            return _empty_matches()
        size = len(buffers.data)
        lowercase = np.frombuffer(b"".join([buffers.data.data, bytes(16)]).lower(), np.uint8)
        windows: U64 = np.ndarray((size + 9,), "<u8", lowercase, strides=(1,))
        found = []
        if self._indexes_around_at:
            at_signs = np.flatnonzero(lowercase == _AT_SIGN)
            found += [index.find(lowercase, windows, at_signs - index.bytes_before_at) for index in self._indexes_around_at]
        if self._indexes_from_start:
            may_start = is_in_byte_table(lowercase[:size], self.is_first_byte)
            if check_boundaries and self.is_forbidden_before.any():
                # no term of any kind may begin inside a word
                is_inside_word = is_in_byte_table(lowercase[1:size], self.is_word_byte) & is_in_byte_table(
                    buffers.data[:-1], self.is_forbidden_before
                )
                is_inside_word[buffers.offsets[1:-1][(buffers.offsets[1:-1] > 0) & (buffers.offsets[1:-1] < size)] - 1] = False
                may_start = np.concatenate([may_start[:1], may_start[1:] & ~is_inside_word])
            places = np.flatnonzero(may_start)
            found += [index.find(lowercase, windows, places) for index in self._indexes_from_start]
        start = np.concatenate([place for place, _ in found])
        term = np.concatenate([row for _, row in found])
        end = start + self.lengths[term]
        text_no = np.searchsorted(buffers.offsets, start, side="right") - 1
        # inside one text, and not next to bytes that the boundary rule of the kind forbids
        is_valid = end <= buffers.offsets[text_no + 1]
        start, term, end, text_no = start[is_valid], term[is_valid], end[is_valid], text_no[is_valid]
        if check_boundaries:
            is_valid = self._has_valid_boundaries(buffers, lowercase, start, end, text_no, term)
            start, term, end, text_no = start[is_valid], term[is_valid], end[is_valid], text_no[is_valid]
        order = sort_spans(start, end)
        base = buffers.offsets[text_no]
        return LiteralMatches(text_no[order], (start - base)[order], (end - base)[order], term[order])

    def has_valid_boundaries(self, texts: pa.LargeStringArray, matches: LiteralMatches) -> Mask:
        """Returns a mask of the matches (found with `check_boundaries=False`) that the boundary rule of their kind allows."""
        buffers = TextBuffers.from_array(texts)
        base = buffers.offsets[matches.text_no]
        return self._has_valid_boundaries(buffers, buffers.data, base + matches.start, base + matches.end, matches.text_no, matches.term)

    def _has_valid_boundaries(self, buffers: TextBuffers, data: U8, start: I64, end: I64, text_no: I64, term: I64) -> Mask:
        kind, last = self.kind[term], max(len(buffers.data) - 1, 0)
        bad_before = (
            (start > buffers.offsets[text_no])
            & self.is_word_byte[data[start]]
            & self.not_before[kind, buffers.data[np.maximum(start - 1, 0)]]
        )
        bad_after = end < buffers.offsets[text_no + 1]
        next_byte = buffers.data[np.minimum(end, last)]
        bad_after &= self.is_word_byte[data[end - 1]] & (
            self.not_after[kind, next_byte] | self.checks_accents[kind] & _is_accent(buffers.data, end)
        )
        is_valid: Mask = ~(bad_before | bad_after)
        return is_valid

    def find_nfkc(self, texts: pa.LargeStringArray) -> LiteralMatches:
        """Returns matches that appear only once characters are in their compatibility form (NFKC); byte offsets are those of the original
        text.

        Only the surroundings of such a character can differ from what `find` searches: windows as wide as the longest term are searched.
        """
        buffers = TextBuffers.from_array(texts)
        if not len(self):
            return _empty_matches()
        non_ascii_texts = np.flatnonzero(np.diff(np.searchsorted(np.flatnonzero(buffers.data >= 128), buffers.offsets)))
        if len(non_ascii_texts) < len(texts):
            found = self.find_nfkc(texts.take(pa.array(non_ascii_texts))) if len(non_ascii_texts) else _empty_matches()
            return LiteralMatches(non_ascii_texts[found.text_no], found.start, found.end, found.term)
        starts, stops = find_matches(buffers, _changed_chars_pattern(bool(self.term_stats[0])))
        if not len(starts):
            return _empty_matches()
        text_no = np.searchsorted(buffers.offsets, starts, side="right") - 1
        margin = int(self.term_stats[1]) + 4
        low, high = np.maximum(starts - margin, buffers.offsets[text_no]), np.minimum(stops + margin, buffers.offsets[text_no + 1])
        # windows of one text that overlap or touch are merged, and no window cuts a character
        text_no, low, high = merge_spans(text_no, low, high)
        for edge, step in ((low, -1), (high, 1)):
            while (inside := (edge < len(buffers.data)) & ((buffers.data[np.minimum(edge, len(buffers.data) - 1)] & 0xC0) == 0x80)).any():
                edge += step * inside
        # a loop over windows around rare characters: Unicode's compatibility forms have no columnar implementation
        raw = slice_spans(buffers, low, high).to_pylist()
        found = self.find(pa.array([fold_nfkc(window) for window in raw], pa.large_string()))
        first, last = np.empty(len(found.start), np.int64), np.empty(len(found.start), np.int64)
        for window_no in np.unique(found.text_no):
            rows = np.flatnonzero(found.text_no == window_no)
            first[rows], last[rows] = _to_unfolded_bytes(raw[int(window_no)], found.start[rows], found.end[rows])
        first, last = first + low[found.text_no], last + low[found.text_no]
        # a match that does not touch such a character is found by `find` anyway, or is an artefact of the window's edge
        next_char = np.searchsorted(stops, first, side="left")
        touches = (next_char < len(starts)) & (starts[np.minimum(next_char, len(starts) - 1)] <= last)
        text_no, term = text_no[found.text_no][touches], found.term[touches]
        base = buffers.offsets[text_no]
        return LiteralMatches(text_no, first[touches] - base, last[touches] - base, term)


def iter_value_batches(value_files: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """Yields the values of a vault, `_VALUES_PER_BATCH` rows at a time."""
    for path in value_files:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_VALUES_PER_BATCH, columns=["value_id", "kind", "value", "normalised"], use_threads=False):
                yield pl.DataFrame(pa.Table.from_batches([batch])).with_columns(pl.col("kind").cast(pl.String))


def prepare_terms(path: Path, folder: Path, memory_bytes: int = 1 << 30) -> Path:
    """Builds the index of the terms in a file of `LiteralMatcher.write` in `folder`, and returns the path for
    `LiteralMatcher.open_partitions`. All processes that search share its memory-mapped pages.

    Uses about `memory_bytes` of memory. Terms that do not fit are partitioned, and each text is then searched once per partition. A file
    of at most `MAX_UNSHARED_TERMS` terms is not indexed: its own path is returned."""
    if pq.read_metadata(path).num_rows <= MAX_UNSHARED_TERMS:
        return path
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    unsearched = [np.empty(0, np.int64)]
    with pq.ParquetFile(path, pre_buffer=False) as file:
        groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
        ends = np.cumsum(groups)
        partition_of_group = (ends - 1) // max(MAX_UNSHARED_TERMS, memory_bytes // BYTES_PER_TERM, 1)
        for number in np.unique(partition_of_group):
            matcher = _from_table(file.read_row_groups(np.flatnonzero(partition_of_group == number).tolist()))
            unsearched.append(matcher.unsearched_ids)
            if len(matcher):
                matcher.save(folder / f"{number:06d}")
    np.save(folder / "unsearched_ids", np.concatenate(unsearched))
    return folder


@functools.lru_cache(maxsize=4)  # full verification uses three of them in each shard
def _read_cached(path: Path, _mtime_ns: int, _inode: int) -> LiteralMatcher:
    return _from_table(pq.read_table(path, partitioning=None))


@functools.lru_cache(maxsize=4)  # as above
def _load_partitions_cached(path: Path, _mtime_ns: int, _inode: int) -> tuple[LiteralMatcher, ...]:
    empty = LiteralMatcher(pa.array([], pa.large_string()), np.empty(0, np.int32), np.empty(0, np.int64))
    parts = tuple(LiteralMatcher.load(folder) for folder in sorted(folder for folder in path.iterdir() if folder.is_dir())) or (empty,)
    parts[0].unsearched_ids = np.load(path / "unsearched_ids.npy")
    return parts


def _from_table(table: pa.Table) -> LiteralMatcher:
    is_unsearched = pc.equal(table.column("kind"), _UNSEARCHED_KIND)
    unsearched_ids = np.asarray(table.filter(is_unsearched).column("value_id"), np.int64)
    table = table.filter(pc.invert(is_unsearched)).combine_chunks()
    terms = table.column("form").chunk(0).cast(pa.large_string()) if table.num_rows else pa.array([], pa.large_string())
    matcher = LiteralMatcher(terms, np.asarray(table.column("kind"), np.int32), np.asarray(table.column("value_id"), np.int64))
    matcher.unsearched_ids = unsearched_ids
    return matcher


def _load_array(path: Path) -> npt.NDArray[Any]:
    return np.asarray(np.load(path.with_name(f"{path.name}.npy"), mmap_mode="r"))


def count_common_values(path: Path) -> int:
    """How many removed values are not searched for, because they are too common, of a file that `LiteralMatcher.write` wrote."""
    return int(pc.sum(pc.equal(pq.read_table(path, columns=["kind"], partitioning=None).column("kind"), _UNSEARCHED_KIND)).as_py() or 0)


def find_common_values(frame: pl.DataFrame) -> pl.Series:
    """Which values their kind reports as too common to be searched for (`is_distinctive`); `kind` is a number. A mask."""
    predicates = {number: kind.is_distinctive for number, kind in enumerate(all_kinds().values()) if kind.is_distinctive is not None}
    is_common = pl.Series(np.zeros(frame.height, np.bool_))
    for number in frame["kind"].unique():
        is_distinctive = predicates.get(number)
        if is_distinctive is not None:
            rows = (frame["kind"] == number).arg_true()
            values = frame.select(pl.coalesce("normalised", "value")).to_series().gather(rows)
            is_common = is_common.scatter(rows, ~is_distinctive(values))
    return is_common


def _split_common_values(frame: pl.DataFrame) -> tuple[pl.DataFrame, I64]:
    """Splits values into those that are searched for, and the ids of those that are too common."""
    is_common = find_common_values(frame)
    return frame.filter(~is_common), np.unique(frame.filter(is_common)["value_id"].to_numpy())


class _TermIndex:
    """Index of terms by eight of their bytes (the head, `head_offset` bytes after their start), then their length, then their last
    bytes (the tail)."""

    def __init__(
        self, matcher: LiteralMatcher, rows: npt.NDArray[np.intp], head_offset: I64, window_bytes: int, bytes_before_at: int = 0
    ) -> None:
        self._set_window(matcher, window_bytes, bytes_before_at)
        windows: U64 = np.ndarray((len(matcher.data) - 7,), "<u8", matcher.data, strides=(1,))
        lengths = matcher.lengths[rows]
        heads = windows[matcher.offsets[rows] + head_offset] & self.window_mask
        tails = windows[matcher.offsets[rows] + lengths - window_bytes] & self.window_mask
        order = np.lexsort((tails, lengths, head_offset, heads))
        rows, heads, head_offset, lengths, tails = rows[order], heads[order], head_offset[order], lengths[order], tails[order]
        self.heads, first = np.unique(heads, return_index=True)
        group = np.repeat(np.arange(len(self.heads)), np.diff(np.append(first, len(heads))))
        # the distinct (head, head_offset, length), and where those of each head begin
        is_first_of_pair = np.append(True, (np.diff(group) != 0) | (np.diff(head_offset) != 0) | (np.diff(lengths) != 0))
        self.pair_head_offsets, self.pair_lengths = head_offset[is_first_of_pair], lengths[is_first_of_pair]
        self.pair_ranges = np.append(np.searchsorted(group[is_first_of_pair], np.arange(len(self.heads))), is_first_of_pair.sum())
        self.tails = np.unique(tails)
        pair = np.cumsum(is_first_of_pair) - 1
        self.pair_tail_keys = pair * len(self.tails) + np.searchsorted(self.tails, tails)
        self.term_rows = rows
        bits = min(26, max(12, len(self.heads).bit_length() + 4))
        self.head_filter = np.zeros(1 << bits, np.bool_)
        self.head_filter[(self.heads * _HASH_MULTIPLIER) >> np.uint64(64 - bits)] = True

    _SAVED_ARRAYS = ("heads", "pair_head_offsets", "pair_lengths", "pair_ranges", "tails", "pair_tail_keys", "term_rows", "head_filter")

    def _set_window(self, matcher: LiteralMatcher, window_bytes: int, bytes_before_at: int) -> None:
        self.matcher, self.window_bytes, self.bytes_before_at = matcher, window_bytes, bytes_before_at
        self.window_mask = np.uint64(0xFFFFFFFFFFFFFFFF >> (64 - 8 * window_bytes))

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for name in self._SAVED_ARRAYS:
            np.save(folder / name, getattr(self, name))
        np.save(folder / "window", np.array([self.window_bytes, self.bytes_before_at]))

    @classmethod
    def load(cls, matcher: LiteralMatcher, folder: Path) -> _TermIndex:
        """Loads what `save` wrote, memory-mapped."""
        index = cls.__new__(cls)
        index._set_window(matcher, *_load_array(folder / "window").tolist())
        vars(index).update({name: _load_array(folder / name) for name in cls._SAVED_ARRAYS})
        return index

    def find(self, lowercase_data: U8, windows: U64, head_starts: I64) -> tuple[I64, I64]:
        """Returns start bytes and term rows of all matches, byte for byte; `head_starts` are the offsets at which a head may be."""
        if self.bytes_before_at:
            head_starts = head_starts[head_starts >= 0]
        heads = windows[head_starts]
        if self.window_bytes < 8:
            heads = heads & self.window_mask
        candidates = np.flatnonzero(self.head_filter[(heads * _HASH_MULTIPLIER) >> np.uint64(65 - len(self.head_filter).bit_length())])
        head_starts, heads = head_starts[candidates], heads[candidates]
        head = np.minimum(np.searchsorted(self.heads, heads), len(self.heads) - 1)
        is_equal = self.heads[head] == heads
        head_starts, head = head_starts[is_equal], head[is_equal]
        # each place with each term start and length that belongs to its head
        match_no, pair = enumerate_ranges(self.pair_ranges[head], self.pair_ranges[head + 1])
        begins, length = head_starts[match_no] - self.pair_head_offsets[pair], self.pair_lengths[pair]
        is_inside = (begins >= 0) & (begins + length <= len(lowercase_data) - 16)
        begins, length, pair = begins[is_inside], length[is_inside], pair[is_inside]
        tails = windows[begins + length - self.window_bytes] & self.window_mask
        tail = np.minimum(np.searchsorted(self.tails, tails), len(self.tails) - 1)
        is_equal = self.tails[tail] == tails
        begins, key = begins[is_equal], (pair * len(self.tails) + tail)[is_equal]
        match_no, entry = enumerate_ranges(
            np.searchsorted(self.pair_tail_keys, key, side="left"), np.searchsorted(self.pair_tail_keys, key, side="right")
        )
        begins, rows = begins[match_no], self.term_rows[entry]
        # the remaining candidates agree in head, length and tail; the bytes between are compared eight at a time
        if len(rows) and self.window_bytes == 8:
            term_windows: U64 = np.ndarray((len(self.matcher.data) - 7,), "<u8", self.matcher.data, strides=(1,))
            for step in range(0, int(self.matcher.lengths[rows].max()) - 8, 8):
                long_rows = np.flatnonzero(self.matcher.lengths[rows] > step + 8)
                is_equal_8 = np.ones(len(rows), np.bool_)
                is_equal_8[long_rows] = windows[begins[long_rows] + step] == term_windows[self.matcher.offsets[rows[long_rows]] + step]
                begins, rows = begins[is_equal_8], rows[is_equal_8]
        return begins, rows


def _is_accent(data: U8, byte_offsets: I64) -> Mask:
    """True where a combining mark (U+0300 to 036F) is, which forms one letter with the character before it."""
    last = max(len(data) - 1, 0)
    lead, trail = data[np.minimum(byte_offsets, last)], data[np.minimum(byte_offsets + 1, last)]
    mark: Mask = (byte_offsets < last) & ((lead == 0xCC) | ((lead == 0xCD) & (trail < 0xB0)))
    return mark


def _sample_range_edges(value_files: Sequence[Path], range_count: int) -> list[str]:
    """Returns the terms at which the alphabet is cut into about `range_count` ranges of equal size, from a sample of the values."""
    if range_count <= 1:
        return []
    sample = []
    for path in value_files[:: max(1, len(value_files) // 16)]:
        column = pq.read_table(path, columns=["value"], partitioning=None)["value"]
        sample += pc.ascii_lower(column.take(pa.array(range(0, len(column), 64)))).to_pylist()
    ordered = sorted(sample, key=str.encode)
    return sorted({ordered[len(ordered) * number // range_count] for number in range(1, range_count)}, key=str.encode)


def _assign_ranges(terms: pl.Series, edges: list[str]) -> I64:
    """Returns the number of the range of each term, from 0."""
    if not edges:
        return np.zeros(len(terms), np.int64)
    return np.asarray(pl.Series(edges).search_sorted(terms, side="right").to_numpy(), np.int64)


def _empty_matches() -> LiteralMatches:
    nothing = np.empty(0, np.int64)
    return LiteralMatches(nothing, nothing, nothing, nothing)


class _NfkcFolding(dict[int, str]):
    """Maps each character to its Unicode compatibility form (NFKC), case-folded; filled on first use."""

    def __missing__(self, code: int) -> str:
        self[code] = form = unicodedata.normalize("NFKC", chr(code)).casefold()
        return form


_NFKC_FOLDING = _NfkcFolding()


def fold_nfkc(text: str) -> str:
    """Returns a text in its Unicode compatibility form (NFKC), case-folded."""
    return text.translate(_NFKC_FOLDING)


def list_spellings(value: str) -> list[str]:
    """Returns how a value beyond ASCII may be written in a text, or in a text's compatibility form: each composed and decomposed (NFC,
    NFD)."""
    folded = fold_nfkc(value)
    return list(
        dict.fromkeys([folded, *(unicodedata.normalize(normal_form, text) for text in (value, folded) for normal_form in ("NFC", "NFD"))])
    )


def expand_spellings(values: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows whose `form` is beyond ASCII, one row per spelling, ASCII letters in lower case."""
    non_ascii = values.filter(pl.col("form").str.contains(r"[^\x00-\x7f]"))
    # a loop over distinct values beyond ASCII: Unicode's compatibility forms have no columnar implementation
    non_ascii = non_ascii.with_columns(
        form=pl.Series([list_spellings(form) for form in non_ascii["form"]], dtype=pl.List(pl.String))
    ).explode("form")
    return non_ascii.with_columns(ascii_lower(non_ascii["form"]))


@functools.cache
def _changed_chars_pattern(all_changes: bool) -> str:
    """Returns a pattern for a run of characters beyond ASCII whose compatibility form contains ASCII, or (`all_changes`) differs from
    the character itself."""
    codes = []
    for code in (*range(0x80, 0xD800), *range(0xE000, 0x20000)):
        letter = chr(code)
        if unicodedata.decomposition(letter) or letter.casefold() != letter:
            folded = _NFKC_FOLDING[code]
            if folded != letter if all_changes else any(char < "\x80" for char in folded):
                codes.append(code)
    edges = np.flatnonzero(np.diff(codes, prepend=-2) != 1)
    runs = [(codes[low], codes[high - 1]) for low, high in zip(edges, [*edges[1:], len(codes)], strict=True)]
    return "[" + "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in runs) + "]+"


def _to_unfolded_bytes(text: str, folded_starts: I64, folded_ends: I64) -> tuple[I64, I64]:
    """Maps byte offsets in the compatibility form of a text to byte offsets in the text."""
    folded_lengths = np.fromiter((len(_NFKC_FOLDING[ord(letter)].encode()) for letter in text), np.int64, len(text))
    original_lengths = np.fromiter((len(letter.encode()) for letter in text), np.int64, len(text))
    form_ends, ends = np.cumsum(folded_lengths), np.concatenate([[0], np.cumsum(original_lengths)])
    first = np.searchsorted(form_ends, folded_starts, side="right")
    last = np.searchsorted(form_ends, folded_ends, side="left")
    return ends[first], ends[last + 1]
