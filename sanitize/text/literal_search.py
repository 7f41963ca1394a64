"""Finds removed values in a column of texts, in the forms `exact`, `case-folded` (ASCII letter case ignored) and `NFKC` (each character in
its Unicode compatibility form).

A search term is a spelling of a value. Terms are found in one pass over the bytes of a text (sanitize/kernels/term_search.py). The search
is exact, and as fast for many values as for few. It does not use the pattern of a kind, only its boundary rule.
"""

from __future__ import annotations

import secrets
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I32, I64, U8, U32, U64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    ascii_lower,
    fill_columns,
    make_byte_table,
    to_large_string,
)
from sanitize.core.engine import cached_for_run
from sanitize.core.intervals import sort_spans
from sanitize.kernels.term_search import find_terms, hash_terms, set_bits, set_start_bits
from sanitize.kinds.kind import ASCII_WORD_CHARS, all_kinds, boundary_tables
from sanitize.storage.parquet_files import TABLE_CODEC, TABLE_CODEC_LEVEL
from sanitize.text.decodings.character_classes import FOLDS, FOLDS_TO_ASCII, find_character_places
from sanitize.text.decodings.escapes import decode_escapes, decode_places
from sanitize.text.partition_files import MAX_FILES, open_partitions

LITERAL_FORMS = ("exact", "case-folded", "NFKC")
TERMS_PER_RANGE = 100_000  # terms that `LiteralMatcher.write` sorts at a time: about 30 MB
_VALUES_PER_BATCH = 100_000  # values that are read at a time
_TERM_SCHEMA = pa.schema([("form", pa.large_string()), ("kind", pa.int32()), ("value_id", pa.int64())])
_PARTITIONED_SCHEMA = _TERM_SCHEMA.append(pa.field("wide", pa.bool_()))
MAX_UNSHARED_TERMS = 100_000  # up to this many terms, each process builds its own index, in a tenth of a second
BYTES_PER_TERM = 400  # memory per term while the index is built: 332 bytes were measured for addresses of 35 bytes
_MATCHER_ARRAYS = ("kind", "value_id", "data", "offsets", "lengths", "is_forbidden_before", "term_stats", "blank_pairs")
_START_FILTER_BYTES = 1 << 14  # half of the first-level cache
_BLANK = ord(" ")
_UPPER, _LOWER = slice(ord("A"), ord("Z") + 1), slice(ord("a"), ord("z") + 1)
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
        self.data, self.offsets, self.lengths = buffers.data, buffers.offsets, buffers.lengths
        kinds_present = np.unique(kind)
        # bytes that no kind of these terms may follow
        self.is_forbidden_before: Mask = np.all(self.not_before[kinds_present], axis=0) if len(kinds_present) else np.zeros(256, np.bool_)
        # whether any term has a character beyond ASCII, and the length of the longest term
        self.term_stats = np.array([(buffers.data >= 128).any(), self.lengths.max(initial=0)], np.int64)
        self.blank_pairs = _find_blank_pairs(buffers)
        self._index = TermIndex.build(buffers)

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
            with pq.ParquetWriter(out, _TERM_SCHEMA, compression=TABLE_CODEC, compression_level=TABLE_CODEC_LEVEL) as writer:
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
        self._index.save(folder / "index")

    @classmethod
    def load(cls, folder: Path) -> LiteralMatcher:
        """Loads what `save` wrote, memory-mapped: pages are read on first use and shared with other processes."""
        matcher = cls.__new__(cls)
        vars(matcher).update({name: _load_array(folder / name) for name in _MATCHER_ARRAYS})
        matcher._load_kind_rules()
        matcher._index = TermIndex.load(folder / "index")
        return matcher

    def find(self, texts: pa.LargeStringArray, check_boundaries: bool = True) -> LiteralMatches:
        """Returns all matches of all terms in a column of texts, in any ASCII letter case; with `check_boundaries` only those that the
        boundary rule of their kind allows."""
        buffers = TextBuffers.from_array(texts)
        if not len(self) or not len(buffers.data):
            return _empty_matches()
        byte_rules = self.is_word_byte.astype(np.uint8)
        if check_boundaries:
            byte_rules |= self.is_forbidden_before.astype(np.uint8) << 1
        text_no, start, term = self._index.find(buffers, byte_rules, self.data, self.offsets)
        end = start + self.lengths[term]
        if check_boundaries:
            is_valid = self._has_valid_boundaries(buffers, start, end, text_no, term)
            start, term, end, text_no = start[is_valid], term[is_valid], end[is_valid], text_no[is_valid]
        order = sort_spans(start, end)
        base = buffers.offsets[text_no]
        return LiteralMatches(text_no[order], (start - base)[order], (end - base)[order], term[order])

    def has_valid_boundaries(self, texts: pa.LargeStringArray, matches: LiteralMatches) -> Mask:
        """Returns a mask of the matches (found with `check_boundaries=False`) that the boundary rule of their kind allows."""
        buffers = TextBuffers.from_array(texts)
        base = buffers.offsets[matches.text_no]
        return self._has_valid_boundaries(buffers, base + matches.start, base + matches.end, matches.text_no, matches.term)

    def _has_valid_boundaries(self, buffers: TextBuffers, start: I64, end: I64, text_no: I64, term: I64) -> Mask:
        data, kind, last = buffers.data, self.kind[term], max(len(buffers.data) - 1, 0)
        bad_before = (
            (start > buffers.offsets[text_no]) & self.is_word_byte[data[start]] & self.not_before[kind, data[np.maximum(start - 1, 0)]]
        )
        bad_after = (end < buffers.offsets[text_no + 1]) & self.is_word_byte[data[end - 1]]
        bad_after &= self.not_after[kind, data[np.minimum(end, last)]] | self.checks_accents[kind] & _is_accent(data, end)
        is_valid: Mask = ~(bad_before | bad_after)
        return is_valid

    def find_nfkc(self, texts: pa.LargeStringArray) -> LiteralMatches:
        """Returns matches that appear only once characters are in their compatibility form (NFKC); byte offsets are those of the original
        text.

        Only the surroundings of such a character can differ from what `find` searches: windows as wide as the longest term are searched.
        """
        # terms of ASCII are not changed by a character whose compatibility form has none
        classes = FOLDS if self.term_stats[0] else FOLDS_TO_ASCII
        buffers = TextBuffers.from_array(texts)
        folded = decode_places(buffers, find_character_places(buffers, classes), _fold_bytes) if len(self) else None
        if folded is None:
            return _empty_matches()
        windows = decode_escapes("NFKC", buffers, folded, int(self.term_stats[1]) + 4)
        found = self.find(windows.pieces)
        spans = windows.find_encoded_spans(found.text_no, found.start, found.end)
        # a match that does not touch such a character is found by `find` anyway
        base = buffers.offsets[spans.text_no]
        next_place = np.searchsorted(folded.ends, base + spans.start, side="left")
        touches = (next_place < len(folded.starts)) & (folded.starts[np.minimum(next_place, len(folded.starts) - 1)] <= base + spans.end)
        return LiteralMatches(spans.text_no[touches], spans.start[touches], spans.end[touches], found.term[touches])


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


@cached_for_run(4)  # full verification uses three of them in each shard
def _read_cached(path: Path, _mtime_ns: int, _inode: int) -> LiteralMatcher:
    return _from_table(pq.read_table(path, partitioning=None))


@cached_for_run(4)  # as above
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
    """Which values their kind reports as too common to be searched for (`is_distinctive`), as a mask: columns `value`, `normalised` and
    `kind` (a number)."""
    predicates = {number: kind.is_distinctive for number, kind in enumerate(all_kinds().values()) if kind.is_distinctive is not None}
    is_common = pl.Series(np.zeros(frame.height, np.bool_))
    for number in frame["kind"].unique():
        is_distinctive = predicates.get(number)
        if is_distinctive is not None:
            rows = (frame["kind"] == number).arg_true()
            values = frame.select("value", normalised=pl.coalesce("normalised", "value"))[rows]
            is_common = is_common.scatter(rows, ~is_distinctive(values))
    return is_common


def find_weak_values(frame: pl.DataFrame) -> pl.Series:
    """Which values only their context identifies, as a mask; columns as in `find_common_values`. A match of one in another place means
    nothing, while that of a common word is counted as ambiguous."""
    may_need_context = [number for number, kind in enumerate(all_kinds().values()) if kind.needs_context is not None]
    return find_common_values(frame) & frame["kind"].is_in(may_need_context)


def _split_common_values(frame: pl.DataFrame) -> tuple[pl.DataFrame, I64]:
    """Splits values into those that are searched for, and the ids of those that are too common."""
    is_common = find_common_values(frame)
    return frame.filter(~is_common), np.unique(frame.filter(is_common)["value_id"].to_numpy())


@dataclass(frozen=True, repr=False)
class TermIndex:
    """The tables and filters by which `find_terms` finds terms (sanitize/kernels/term_search.py); about 60 bytes per term."""

    first_bytes: U8
    key: U64
    widths: U8
    start_filter: U64
    head_filter: U64
    head_directory: U32
    head_hashes: U64
    length_ranges: U32
    head_lengths: U32
    tail_filter: U64
    term_directory: U32
    term_hashes: U64
    term_rows: U32

    @classmethod
    def build(cls, terms: TextBuffers) -> TermIndex:
        """The index of terms."""
        head_hashes, edge_hashes, hashes = np.zeros((3, len(terms.lengths)), np.uint64)
        key = np.frombuffer(secrets.token_bytes(16), np.uint64) | np.uint64(1)
        hash_terms(terms.data, terms.offsets, key, head_hashes, edge_hashes, hashes)
        start_filter = np.zeros(_START_FILTER_BYTES // 8, np.uint64)
        set_start_bits(terms.data, terms.offsets, start_filter)
        # the distinct (hash of the head, length), and where those of each hash begin
        order = np.lexsort((terms.lengths, head_hashes))
        heads, lengths = head_hashes[order], terms.lengths[order]
        is_new_head = np.append(True, heads[1:] != heads[:-1])[: len(heads)]
        is_new_pair = is_new_head | np.append(True, lengths[1:] != lengths[:-1])[: len(heads)]
        heads, lengths, is_new_head = heads[is_new_pair], lengths[is_new_pair], is_new_head[is_new_pair]
        order = np.argsort(hashes, kind="stable")
        return cls(
            _find_first_bytes(terms),
            key,
            np.unique(np.minimum(terms.lengths, 8)).astype(np.uint8),
            start_filter,
            _make_filter(heads[is_new_head]),
            _make_directory(heads[is_new_head]),
            heads[is_new_head],
            np.append(np.flatnonzero(is_new_head), len(heads)).astype(np.uint32),
            lengths.astype(np.uint32),
            _make_filter(edge_hashes),
            _make_directory(hashes[order]),
            hashes[order],
            order.astype(np.uint32),
        )

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for column in fields(self):
            np.save(folder / column.name, getattr(self, column.name))

    @classmethod
    def load(cls, folder: Path) -> TermIndex:
        """Loads what `save` wrote, memory-mapped."""
        return cls(*(_load_array(folder / column.name) for column in fields(cls)))

    def find(self, buffers: TextBuffers, byte_rules: U8, term_data: U8, term_offsets: I64) -> tuple[I64, I64, I64]:
        """Returns the text number, start byte and term row of all matches, in order of their starts."""
        tables = (getattr(self, column.name) for column in fields(self)[1:])
        rules: U8 = byte_rules | (self.first_bytes << np.uint8(2))
        text_no, start, row = fill_columns(
            partial(find_terms, buffers.data, buffers.offsets, rules, *tables, term_data, term_offsets), column_count=3
        )
        return text_no, start, row


def _find_first_bytes(terms: TextBuffers) -> U8:
    """1 for each byte, in either letter case, with which a term begins."""
    table = np.zeros(256, np.uint8)
    table[terms.data[terms.offsets[:-1][terms.lengths > 0]]] = 1
    table[_UPPER] = table[_LOWER]
    return table


def _find_blank_pairs(terms: TextBuffers) -> Mask:
    """True at [a, b] where a blank in a term is between the bytes a and b, in either letter case; any byte is beside one at its end."""
    table = np.zeros((256, 256), np.bool_)
    blanks = np.flatnonzero(terms.data == _BLANK)
    term = np.searchsorted(terms.offsets, blanks, side="right") - 1
    is_first, is_last = blanks == terms.offsets[term], blanks + 1 == terms.offsets[term + 1]
    before, after = terms.data[np.maximum(blanks - 1, 0)], terms.data[np.minimum(blanks + 1, len(terms.data) - 1)]
    table[before[~is_first & ~is_last], after[~is_first & ~is_last]] = True
    table[:, after[is_first & ~is_last]] = True
    table[before[~is_first & is_last]] = True
    table |= bool((is_first & is_last).any())
    table[_UPPER] |= table[_LOWER]
    table[:, _UPPER] |= table[:, _LOWER]
    return table


def _make_filter(hashes: U64) -> U64:
    """A filter of 16 to 32 bits per hash."""
    bits = np.zeros(max(2, (1 << (16 * len(hashes)).bit_length()) // 64), np.uint64)
    set_bits(hashes, bits)
    return bits


def _make_directory(hashes: U64) -> U32:
    """The directory of hashes in ascending order, with an entry for each one or two of them."""
    bits = max(1, len(hashes).bit_length() - 1)
    return np.searchsorted(hashes >> np.uint64(64 - bits), np.arange((1 << bits) + 1, dtype=np.uint64)).astype(np.uint32)


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


def _fold_bytes(character: bytes) -> bytes:
    return fold_nfkc(character.decode()).encode()


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
