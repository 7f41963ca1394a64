"""Attribution of matches: classifies each match in an output as part of a kept original, of a replacement, of an atomic value that the
plan leaves, or as none of these (a leak); and maps it to its bytes in the input. Used by the fast and the full leak check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import enumerate_ranges
from sanitize.core.text_cells import LeafPath, to_canonical_type
from sanitize.errors import OutputBroken
from sanitize.storage import formats
from sanitize.storage.corpus import Documents

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class VerifyTask:
    """One shard to check, with the tables of what was kept and replaced in it."""

    shard_no: int
    first_doc_no: int
    end_doc_no: int
    shard_path: Path
    forbidden_values: Path
    kept_originals: Path
    edits: Path
    occurrences: Path
    atomic_kinds: tuple[str, ...]  # kinds that the plan leaves; a match inside such a value is no leak
    row_doc_nos: Path  # the doc_no of every row of the shard
    documents: Documents
    leaves: tuple[LeafPath, ...]
    sweep_path: Path  # matches to sweep are written here, as occurrences of the input text
    erased_names: tuple[str, ...] = ()  # of erased persons: no mention may occur
    columns: tuple[str, ...] = ()  # of the shard, in order; formats other than Parquet do not store them
    value_counts: Path | None = (
        None  # where set, a variant may equal a value that first occurs in a later document (not known when it was drawn)
    )
    sweep_terms: tuple[Path, ...] = ()  # of a full check: identity forms, digits and digests, which are swept as well
    temp_path: Path | None = None  # where an attempt writes `sweep_path` before it is renamed

    def for_attempt(self, folder: Path) -> VerifyTask:
        """The task for one of several concurrent attempts: with a temp path in `folder`."""
        return replace(self, temp_path=folder / "sweep.parquet")


def read_shard_batches(task: VerifyTask) -> Iterator[tuple[pa.Table, I64]]:
    """Yields the rows of a shard as tables of canonical types, with the `doc_no` of each row. Raises OutputBroken on another row count."""
    if (format_module := formats.find_packed_format(task.shard_path)) is not None:
        yield from _read_converted_batches(task, format_module)
        return
    with pq.ParquetFile(task.shard_path, page_checksum_verification=True, pre_buffer=False) as file:
        doc_nos = np.asarray(pq.read_table(task.row_doc_nos, partitioning=None).column("doc_no"), np.int64)
        if len(doc_nos) != file.metadata.num_rows:
            raise OutputBroken(f"{task.shard_path}: {file.metadata.num_rows} rows; the run wrote {len(doc_nos)}; run again with --replace")
        next_row = 0
        for batch in file.iter_batches(5_000, use_threads=False):
            if batch.num_rows:
                columns = {name: to_canonical_type(batch.column(name)) for name in batch.schema.names}
                yield pa.table(columns), doc_nos[next_row : next_row + batch.num_rows]
                next_row += batch.num_rows


def read_shard_schema(task: VerifyTask) -> pa.Schema:
    """The schema of a shard."""
    if formats.find_packed_format(task.shard_path) is None:
        return pq.read_schema(task.shard_path)
    return pa.schema([(name, formats.packed_type(task.documents.schema.field(name).type)) for name in task.columns])


def _read_converted_batches(task: VerifyTask, format_module: ModuleType) -> Iterator[tuple[pa.Table, I64]]:
    """`read_shard_batches` for a shard in a format other than Parquet."""
    doc_nos = np.asarray(pq.read_table(task.row_doc_nos, partitioning=None).column("doc_no"), np.int64)
    next_row = 0
    for batch in format_module.read_batches(task.shard_path, read_shard_schema(task)):
        for low in range(0, batch.num_rows, 5_000):
            part = batch.slice(low, 5_000)
            yield pa.Table.from_batches([part]).combine_chunks(), doc_nos[next_row : next_row + part.num_rows]
            next_row += part.num_rows
    if next_row != len(doc_nos):
        raise OutputBroken(f"{task.shard_path}: {next_row} rows; the run wrote {len(doc_nos)}; run again with --replace")


def first_occurs_after(task: VerifyTask, value_ids: I64, doc_no: I64) -> Mask:
    """True where a value first occurs after document `doc_no`: a replacement that equals it was drawn before the value was known."""
    if task.value_counts is None or not len(value_ids):
        return np.zeros(len(value_ids), np.bool_)
    counts = pq.read_table(task.value_counts, columns=["value_id", "first_doc_no"], partitioning=None)
    counts = counts.filter(pc.is_in(counts["value_id"], pa.array(np.unique(value_ids))))
    first_doc_nos = dict(zip(*(column.to_pylist() for column in counts.columns), strict=True))
    return np.array([first_doc_nos.get(int(one), -1) for one in value_ids], np.int64) > doc_no


def within_kept_originals(
    kept: pl.DataFrame, docs: I64, cells: npt.NDArray[np.integer[Any]], match_start: I64, match_end: I64
) -> tuple[Mask, int]:
    """Returns a mask of the matches inside a kept original, and how many kept originals are matched exactly, end to end."""
    if not kept.height:
        return np.zeros(len(docs), np.bool_), 0
    base = int(docs.min())
    cell_stride = np.int64(1) << 30
    cell_count = int(max(cells.max(), kept["cell"].max())) + 1
    kept_key = ((kept["doc_no"].to_numpy() - base) * cell_count + kept["cell"].to_numpy()) * cell_stride
    match_key = ((docs - base) * cell_count + cells) * cell_stride
    start, stop = kept_key + kept["start_byte"].to_numpy(), kept_key + kept["end_byte"].to_numpy()
    # inside: the largest end of all kept originals that begin at or before a match reaches its end
    last_before = np.searchsorted(start, match_key + match_start, side="right") - 1
    is_inside = (last_before >= 0) & (np.maximum.accumulate(stop)[np.maximum(last_before, 0)] >= match_key + match_end)
    match_no, kept_no = enumerate_ranges(np.searchsorted(start, match_key + match_start, side="left"), last_before + 1)
    return is_inside, len(np.unique(kept_no[stop[kept_no] == (match_key + match_end)[match_no]]))


def within_kept_or_atomic(task: VerifyTask, kept: pl.DataFrame, docs: I64, cells: I64, text_no: I64, start: I64, end: I64) -> Mask:
    """True for spans that are inside a kept original, or inside an atomic value that the plan leaves. `docs` and `cells` are per text."""
    in_kept, _ = within_kept_originals(kept, docs[text_no], cells[text_no], start, end)
    in_atomic = attribute_from_files(
        task.edits, task.occurrences, task.atomic_kinds, docs[text_no], cells[text_no], start, end
    ).inside_atomic
    in_either: Mask = in_kept | in_atomic
    return in_either


@dataclass(frozen=True, repr=False)
class Attribution:
    """Attribution of matches in output cells: strictly inside a replacement or an atomic value (only a part of it); all of a replacement;
    across the edge of an edit. `original_start` and `original_end` are the bytes of the input, widened to the whole spans of edits."""

    inside_replacement: Mask
    inside_atomic: Mask
    whole_replacement: Mask
    across_edit: Mask
    original_start: I64
    original_end: I64


def attribute_from_files(
    edits_file: Path, occurrences_file: Path, atomic_kinds: tuple[str, ...], doc_no: I64, cell: I64, start: I64, end: I64
) -> Attribution:
    """`attribute_matches` with the tables read from files. A match is `doc_no`, `cell`, and `start`, `end` in bytes of the output."""
    edits = pl.DataFrame(pq.read_table(edits_file, columns=["doc_no", "cell", "start_byte", "end_byte", "replacement"], partitioning=None))
    found = pl.DataFrame(pq.read_table(occurrences_file, columns=["doc_no", "cell", "start_byte", "end_byte", "kind"], partitioning=None))
    return attribute_matches(edits, found, atomic_kinds, doc_no, cell, start, end)


def attribute_matches(
    edits: pl.DataFrame, occurrences: pl.DataFrame, atomic_kinds: tuple[str, ...], doc_no: I64, cell: I64, start: I64, end: I64
) -> Attribution:
    """Attribute matches, given in bytes of the output, to the edits and occurrences (in bytes of the input) of their documents."""
    doc_nos = pl.Series(np.unique(doc_no))
    edits = edits.filter(pl.col("doc_no").is_in(doc_nos.implode())).with_columns(size=pl.col("replacement").str.len_bytes().cast(pl.Int64))
    atomic = occurrences.filter(pl.col("doc_no").is_in(doc_nos.implode()) & pl.col("kind").cast(pl.String).is_in(list(atomic_kinds)))
    offset_map = _OffsetMap(edits, int(max(cell.max(), edits["cell"].max() or 0, atomic["cell"].max() or 0)) + 1, int(doc_no.min()))
    match_key = offset_map.cell_key(doc_no, cell)
    inside_masks = []
    is_whole = np.zeros(len(doc_no), np.bool_)
    for spans, is_edit in ((edits, True), (atomic, False)):
        key = offset_map.cell_key(spans["doc_no"].to_numpy(), spans["cell"].to_numpy())
        low = key + offset_map.to_output(key, spans["start_byte"].to_numpy())
        high = low + spans["size"].to_numpy() if is_edit else key + offset_map.to_output(key, spans["end_byte"].to_numpy())
        inside_masks.append(np.zeros(len(doc_no), np.bool_))
        if len(low):
            at = np.maximum(np.searchsorted(low, match_key + start, side="right") - 1, 0)
            is_within = (low[at] <= match_key + start) & (high[at] >= match_key + end)
            is_equal = (low[at] == match_key + start) & (high[at] == match_key + end)
            inside_masks[-1] |= is_within & ~is_equal
            is_whole |= is_equal & is_edit
    # edits that a match overlaps: those that begin before its end, less those that end at or before its start
    across = np.searchsorted(offset_map.output_start, match_key + end, side="left") > np.searchsorted(
        offset_map.output_end, match_key + start, side="right"
    )
    first, last = offset_map.to_input(match_key, start, end)
    return Attribution(inside_masks[0], inside_masks[1], is_whole, across & ~inside_masks[0] & ~is_whole, first, last)


class _OffsetMap:
    """Maps byte offsets of input texts to output texts and back, from the edits."""

    _CELL_STRIDE = np.int64(1) << 30

    def __init__(self, edits: pl.DataFrame, cell_count: int, first_doc_no: int) -> None:
        self.cell_count, self.first_doc_no = cell_count, first_doc_no
        key = self.cell_key(edits["doc_no"].to_numpy(), edits["cell"].to_numpy())
        self.input_start, self.input_end = key + edits["start_byte"].to_numpy(), key + edits["end_byte"].to_numpy()
        grown = edits["size"].to_numpy() - (self.input_end - self.input_start)
        self.cumulative_growth = np.concatenate([[0], np.cumsum(grown)])
        self.output_start = self.input_start + self.cumulative_growth[:-1] - self.cumulative_growth[np.searchsorted(key, key)]
        self.output_end = self.output_start + edits["size"].to_numpy()

    def cell_key(self, doc_no: I64, cell: I64) -> I64:
        """A number for each cell, ascending; consecutive cells are far enough apart to add any byte offset."""
        return (doc_no - self.first_doc_no) * (self.cell_count * self._CELL_STRIDE) + cell * self._CELL_STRIDE

    def to_output(self, key: I64, offset: I64) -> I64:
        """Offsets in the output text for offsets in the input text."""
        before = np.searchsorted(self.input_end, key + offset, side="right")
        shifted: I64 = (
            offset + self.cumulative_growth[before] - self.cumulative_growth[np.minimum(np.searchsorted(self.input_start, key), before)]
        )
        return shifted

    def to_input(self, key: I64, start: I64, end: I64) -> tuple[I64, I64]:
        """Spans of the input text for spans of the output text; one that overlaps a replacement is widened to all that it replaced."""
        spans = []
        for offset, is_start in ((start, True), (end, False)):
            at = np.searchsorted(self.output_end if is_start else self.output_start, key + offset, side="right" if is_start else "left")
            # `at` edits lie before the offset; the next one (for an end: the last of them) may contain it
            first = np.minimum(np.searchsorted(self.input_start, key), at)
            shifted = offset - (self.cumulative_growth[at] - self.cumulative_growth[first])
            if is_start:
                edit_no = np.minimum(at, max(len(self.input_start) - 1, 0))
                is_inside_edit = (
                    (at < len(self.input_start)) & (self.output_start[edit_no] < key + offset)
                    if len(self.input_start)
                    else np.zeros(len(offset), np.bool_)
                )
                spans.append(np.where(is_inside_edit, self.input_start[edit_no] - key, shifted) if len(self.input_start) else shifted)
            else:
                edit_no = np.maximum(at - 1, 0)
                is_inside_edit = (
                    (at > first) & (self.output_end[edit_no] > key + offset) if len(self.input_start) else np.zeros(len(offset), np.bool_)
                )
                spans.append(np.where(is_inside_edit, self.input_end[edit_no] - key, shifted) if len(self.input_start) else shifted)
        return spans[0], spans[1]
