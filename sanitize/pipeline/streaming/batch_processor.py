"""Processes one batch of a stream: collects its occurrences, applies the editors, and checks the result for leaks before it is accepted.

    find -> select kept occurrences -> edit and rewrite -> leak check -> sweep once -> quarantine records that still leak

A pure function of the batch and of the values seen before it; nothing here touches the disk. The leak check searches for every removed
value of the batch, in all its spellings and in the forms of the fast check, with the matcher of that check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import TextBuffers, ascii_lower, bytes_to_code_points, fill_null_texts, to_large_string
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Aggregates, Editor
from sanitize.core.text_cells import LeafPath
from sanitize.finders import patterns
from sanitize.kinds.kind import all_kinds
from sanitize.pipeline.streaming.component_log import ComponentLog
from sanitize.pipeline.streaming.record_batches import TextColumns
from sanitize.pipeline.streaming.value_log import SURROGATE_FLAG, VALUE_FLAG, ValueLog, get_counts
from sanitize.plans.plan import Plan
from sanitize.stages.rewriting import BatchRewriter, OccurrenceArrays, RewriteTask
from sanitize.stages.scanner import Scanner
from sanitize.storage.corpus import CellColumn, Documents, flatten_cells
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches, expand_spellings
from sanitize.verification.attribution import attribute_matches, within_kept_originals
from sanitize.verification.leak_check import select_atomic_kinds

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_SPAN_COLUMNS = ("doc_no", "cell", "start", "end", "start_byte", "end_byte")


class StreamPriorValues:
    """The values that a stream has seen before a batch and in it (implements `core.part_protocols.PriorValues`)."""

    def __init__(self, value_log: ValueLog, component_pools: ComponentLog | None) -> None:
        self.value_log, self._component_pools = value_log, component_pools
        self._batch_value_ids = self._batch_first_doc_nos = np.empty(0, np.int64)
        self.new_surrogate_ids: list[I64] = []

    def begin_batch(self, value_ids: I64, first_doc_nos: I64) -> None:
        """Start a batch with these values (ascending) and the document of the first occurrence of each."""
        self._batch_value_ids, self._batch_first_doc_nos, self.new_surrogate_ids = value_ids, first_doc_nos, []

    def is_taken(self, ids: I64, doc_no: I64) -> Mask:
        """True for ids of values that occur up to that document, and of variants generated before this batch."""
        taken: Mask = self.value_log.get_tags(ids) != 0
        if len(self._batch_value_ids):
            positions = np.minimum(np.searchsorted(self._batch_value_ids, ids), len(self._batch_value_ids) - 1)
            taken |= (self._batch_value_ids[positions] == ids) & (self._batch_first_doc_nos[positions] <= doc_no)
        return taken

    def was_generated(self, ids: I64) -> Mask:
        """True for ids of variants generated before this batch."""
        generated: Mask = (self.value_log.get_tags(ids) & SURROGATE_FLAG) != 0
        return generated

    def record_generated(self, ids: I64) -> None:
        """Collect the ids of variants that this batch generates; `BatchResult` contains them."""
        self.new_surrogate_ids.append(ids)

    def components(self, kind: str, component: str) -> tuple[pa.LargeStringArray, I64] | None:
        """The component pool that variants are drawn from, with the document of each entry; None without pools."""
        return None if self._component_pools is None else self._component_pools.get_pool(kind, component)


@dataclass(frozen=True, repr=False)
class BatchResult:
    """A processed batch: its table with the new texts, the rows that were edited, and the documents that were quarantined.

    `new_ids` and `new_tags` are to be added to the `ValueLog`; `by_kind` counts occurrences, kept ones, and those that the plan leaves.
    """

    table: pa.Table
    edited_rows: I64
    quarantined_doc_nos: list[int]
    new_ids: I64
    new_tags: npt.NDArray[np.uint32]
    by_kind: dict[str, dict[str, int]]
    swept_count: int


@dataclass(frozen=True, repr=False)
class _BatchOccurrences:
    """All occurrences of a batch in corpus order, with their values."""

    spans: dict[str, I64]  # by the names in _SPAN_COLUMNS
    kind: npt.NDArray[np.int32]
    value_id: I64
    values: pl.DataFrame  # value_id, kind, value, normalised: one row per spelling

    def select_rows(self, rows: I64 | Mask) -> _BatchOccurrences:
        """The occurrences at `rows`, with all values."""
        return _BatchOccurrences(
            {name: column[rows] for name, column in self.spans.items()}, self.kind[rows], self.value_id[rows], self.values
        )


@dataclass(repr=False)
class BatchProcessor:
    """Applies a plan to one batch after the other."""

    plan: Plan
    key: Key
    prior_values: StreamPriorValues
    component_pools: ComponentLog | None
    folder: Path
    checked_mask: Mask = field(init=False)

    def __post_init__(self) -> None:
        # kinds are numbered twice: `Detections` by the kinds of the scanner, `LiteralMatcher` by all kinds
        self.kind_names = [kind.name for kind in Scanner(self.key, self.plan.detection_spec).kinds]
        all_kind_names = list(all_kinds())
        self.kind_numbers = np.array([all_kind_names.index(name) for name in self.kind_names], np.int32)
        self.local_kind_numbers = np.full(len(all_kind_names), -1, np.int32)
        self.local_kind_numbers[self.kind_numbers] = np.arange(len(self.kind_names))
        self.checked_mask = np.isin(self.kind_names, self.plan.leak_checked_kinds)
        self.atomic_kinds = select_atomic_kinds(self.plan.leave)
        self.pooled_kinds = [
            kind for editor in self.plan.editors for kind in editor.kinds if getattr(editor, "stores", "curated") != "curated"
        ]
        for editor in self.plan.editors:
            editor.open(self.key, Aggregates({}))
            if editor.is_sequential:
                editor.set_prior_values(self.prior_values)

    def process(
        self,
        text_columns: TextColumns,
        cell_columns: Sequence[CellColumn],
        found_by_column: Sequence[patterns.Detections],
        has_any_field: Callable[[int, set[str]], bool] = lambda row, names: False,
    ) -> BatchResult:
        """Process one batch: `text_columns`, its cells, and what the scanner found in each column of cells. `has_any_field(row, names)` is
        True if a record of the batch has a field with one of these names."""
        doc_nos = np.asarray(text_columns.table.column("doc_no"), np.int64)
        occurrences = self._gather_occurrences(doc_nos, cell_columns, found_by_column)
        forbidden_values = self._collect_forbidden_values(occurrences.values)
        quarantined: set[int] = set()
        swept_spans: list[tuple[int, int, int, int, int]] = []
        swept_count = 0
        while True:
            remaining = ~np.isin(doc_nos, list(quarantined))
            table = text_columns.table if remaining.all() else _filter_rows(text_columns.table, remaining)
            remaining_occurrences = (
                occurrences if remaining.all() else occurrences.select_rows(~np.isin(occurrences.spans["doc_no"], list(quarantined)))
            )
            attempt = _RewriteAttempt(
                self,
                table,
                text_columns,
                remaining_occurrences,
                [span for span in swept_spans if span[0] not in quarantined],
                forbidden_values,
            )
            if attempt.leaking_fields:
                rows = zip(doc_nos.tolist(), text_columns.record_rows.tolist(), strict=True)
                attempt.leaking_doc_nos |= {
                    doc_no for doc_no, row in rows if doc_no not in quarantined and has_any_field(row, attempt.leaking_fields)
                }
            if not attempt.leaking_doc_nos and not attempt.sweepable_spans:
                break
            # only one sweep: a second one would find text that the first one wrote; what is left or cannot be swept is quarantined
            quarantined |= {int(doc_no) for doc_no in attempt.leaking_doc_nos}
            if attempt.sweepable_spans and not swept_spans:
                swept_spans = attempt.sweepable_spans
                swept_count = len(swept_spans)
            else:
                quarantined |= {span[0] for span in attempt.sweepable_spans}
        edited_rows = np.searchsorted(np.asarray(table.column("doc_no")), np.unique(attempt.rewriter.edits.column("doc_no")))
        surrogate_ids = np.concatenate([np.empty(0, np.int64), *self.prior_values.new_surrogate_ids])
        known_tags = self.prior_values.value_log.get_tags(attempt.value_ids)
        is_new = ((known_tags & VALUE_FLAG) == 0) | (
            (attempt.occurrence_counts > 0) & (get_counts(known_tags) < self.prior_values.value_log.max_count)
        )
        ids = np.concatenate([attempt.value_ids[is_new], surrogate_ids])
        tags = np.concatenate(
            [attempt.occurrence_counts[is_new].astype(np.uint32) | VALUE_FLAG, np.full(len(surrogate_ids), SURROGATE_FLAG, np.uint32)]
        )
        return BatchResult(attempt.rewriter.table, edited_rows, sorted(quarantined), ids, tags, attempt.count_by_kind(), swept_count)

    def _gather_occurrences(
        self, doc_nos: I64, cell_columns: Sequence[CellColumn], found_by_column: Sequence[patterns.Detections]
    ) -> _BatchOccurrences:
        """The occurrences of all columns of cells as one, in corpus order."""
        chunks_by_name: dict[str, list[npt.NDArray[Any]]] = {name: [np.empty(0, np.int64)] for name in (*_SPAN_COLUMNS, "kind", "value_id")}
        frames = [pl.DataFrame(schema={"value_id": pl.Int64, "kind": pl.Int32, "value": pl.String, "normalised": pl.String})]
        for column, found in zip(cell_columns, found_by_column, strict=True):
            if not len(found.text_no):
                continue
            chunks_by_name["doc_no"].append(doc_nos[column.flat.rows[found.text_no]])
            chunks_by_name["cell"].append(column.cell[found.text_no].astype(np.int64))
            for name in _SPAN_COLUMNS[2:]:
                chunks_by_name[name].append(getattr(found, name))
            chunks_by_name["kind"].append(found.distinct.kind[found.value_no])
            chunks_by_name["value_id"].append(found.distinct.value_id[found.value_no])
            used_values = pa.array(np.flatnonzero(np.bincount(found.value_no, minlength=len(found.distinct.kind))))
            texts = {name: pl.Series(getattr(found.distinct, name).take(used_values)) for name in ("value", "normalised")}
            frames.append(
                pl.DataFrame({"value_id": found.distinct.value_id[used_values], "kind": found.distinct.kind[used_values], **texts})
            )
        joined = {name: np.concatenate(chunks) for name, chunks in chunks_by_name.items()}
        if sum(len(found.text_no) > 0 for found in found_by_column) > 1:
            order = np.lexsort((-joined["end"], joined["start"], joined["cell"], joined["doc_no"]))
            joined = {name: column[order] for name, column in joined.items()}
        kind, value_id = joined.pop("kind").astype(np.int32), joined.pop("value_id")
        return _BatchOccurrences(joined, kind, value_id, pl.concat(frames))

    def _collect_forbidden_values(self, values: pl.DataFrame) -> LiteralMatcher | None:
        """A matcher for all spellings of the batch's values whose kinds are checked, in the forms of the fast check; None without values.

        Values that are not distinctive for their kind are left out."""
        removed = values.filter(pl.Series(self.checked_mask[values["kind"].to_numpy()]))
        for number, name in enumerate(self.kind_names):
            is_distinctive = all_kinds()[name].is_distinctive
            if is_distinctive is not None:
                is_of_kind = removed["kind"] == number
                removed = removed.filter(
                    ~is_of_kind
                    | is_of_kind.clone().scatter(is_of_kind.arg_true(), is_distinctive(removed.filter(is_of_kind)["normalised"]))
                )
        if not removed.height:
            return None
        removed = removed.rename({"value": "form"})
        all_spellings = pl.concat([removed.with_columns(ascii_lower(removed["form"])), expand_spellings(removed)])
        forms = all_spellings.filter(pl.col("form") != "").unique(["form", "kind"], keep="first", maintain_order=True)
        return LiteralMatcher(to_large_string(forms["form"]), self.kind_numbers[forms["kind"].to_numpy()], forms["value_id"].to_numpy())

    def select_kept(self, occurrences: _BatchOccurrences) -> tuple[tuple[Mask, ...], I64, I64, I64, I64]:
        """For each editor a mask of the kept occurrences; then for each value, ascending: its id, the document of its first occurrence, its
        occurrences as counted by editors that keep some, and the row of its first occurrence.

        An occurrence that overlaps an edited one of an earlier editor is not counted."""
        order = np.argsort(occurrences.value_id, kind="stable")
        group_starts = np.flatnonzero(np.diff(occurrences.value_id[order], prepend=-1))
        ids, rows = occurrences.value_id[order[group_starts]], order[group_starts]
        group = np.zeros(len(order), np.int64)
        group[order] = np.repeat(np.arange(len(group_starts)), np.diff(np.append(group_starts, len(order))))
        counts = np.zeros(len(ids), np.int64)
        is_unclaimed = np.ones(len(order), np.bool_)
        claimed_kinds: set[str] = set()
        kept_masks = []
        prior_counts: I64 | None = None
        for number, editor in enumerate(self.plan.editors):
            is_own_kind = np.isin(occurrences.kind, [self.kind_names.index(name) for name in editor.kinds if name not in claimed_kinds])
            claimed_kinds |= set(editor.kinds)
            is_kept = np.zeros(len(order), np.bool_)
            if editor.keep and "first_occurrences" in editor.required_aggregates:
                prior_counts = get_counts(self.prior_values.value_log.get_tags(ids)) if prior_counts is None else prior_counts
                counted = np.flatnonzero(is_own_kind & is_unclaimed)
                by_value = counted[np.argsort(group[counted], kind="stable")]
                value_starts = np.flatnonzero(np.diff(group[by_value], prepend=-1))
                nth_occurrence = np.arange(len(by_value)) - np.repeat(value_starts, np.diff(np.append(value_starts, len(by_value))))
                is_kept[by_value[nth_occurrence + prior_counts[group[by_value]] < editor.keep]] = True
                counts += np.bincount(group[counted], minlength=len(ids))
            kept_masks.append(is_kept)
            if any(later.keep for later in self.plan.editors[number + 1 :]):
                is_unclaimed &= ~_mask_overlapping(occurrences, is_own_kind & is_unclaimed & ~is_kept)
        return tuple(kept_masks), ids, occurrences.spans["doc_no"][rows], counts, rows


def _filter_rows(table: pa.Table, rows: Mask) -> pa.Table:
    """The rows of a table as one chunk; an empty table if there are none."""
    return table.filter(pa.array(rows)).combine_chunks() if rows.any() else table.schema.empty_table()


def get_max_keep(editors: Sequence[Editor]) -> int:
    """The largest `keep` of the editors: occurrences of a value need not be counted beyond it."""
    return max((editor.keep for editor in editors), default=0)


def _mask_overlapping(occurrences: _BatchOccurrences, claimed_mask: Mask) -> Mask:
    """True for occurrences that share a byte with an occurrence in `claimed_mask`."""
    spans = occurrences.spans
    is_new_cell = (np.diff(spans["doc_no"], prepend=-1) != 0) | (np.diff(spans["cell"], prepend=-1) != 0)
    cell = np.cumsum(is_new_cell).astype(np.int64) << 40
    start, end = cell + spans["start_byte"], cell + spans["end_byte"]
    rows = np.flatnonzero(claimed_mask)
    if not len(rows):
        return claimed_mask
    max_end = np.maximum.accumulate(end[rows])
    last_before = np.searchsorted(start[rows], end, side="left") - 1
    overlaps: Mask = (last_before >= 0) & (max_end[np.maximum(last_before, 0)] > start)
    return overlaps


class _RewriteAttempt:
    """A batch rewritten once, and the result of its leak check: `leaking_doc_nos`, `leaking_fields`, and `sweepable_spans`, which a sweep
    can redact."""

    def __init__(
        self,
        processor: BatchProcessor,
        table: pa.Table,
        text_columns: TextColumns,
        occurrences: _BatchOccurrences,
        swept_spans: Sequence[tuple[int, int, int, int, int]],
        forbidden_values: LiteralMatcher | None,
    ) -> None:
        self.processor, self.occurrences, self.forbidden_values = processor, occurrences, forbidden_values
        kept, self.value_ids, self.first_doc_nos, self.occurrence_counts, rows = processor.select_kept(occurrences)
        processor.prior_values.begin_batch(self.value_ids, self.first_doc_nos)
        if processor.component_pools is not None:
            processor.component_pools.discard_unconfirmed()
            self._add_components(processor.component_pools, rows)
        self.task = RewriteTask(
            no=0,
            first_doc_no=0,
            end_doc_no=0,
            documents=Documents(files=(), schema=table.schema, main_leaf=text_columns.leaves[0]),
            leaves=text_columns.leaves,
            policies={},
            key=processor.key,
            editors=tuple(processor.plan.editors),
            aggregates=(),
            occurrences=(),
            by_position=False,
            excluded_docs=(),
            folder=processor.folder,
        )
        self.leaves = list(text_columns.leaves)
        self.rewriter = BatchRewriter(self.task, table, self._build_edited_occurrences(table, kept, swept_spans))
        self.leaking_doc_nos: set[int] = set()
        self.leaking_fields: set[str] = set()
        self.sweepable_spans: list[tuple[int, int, int, int, int]] = []
        if forbidden_values is not None:
            self._check_leaks(forbidden_values, text_columns)

    def _add_components(self, component_pools: ComponentLog, first_rows: I64) -> None:
        """Add the components of values that are new to the stream, in order of appearance."""
        new = np.flatnonzero((self.processor.prior_values.value_log.get_tags(self.value_ids) & VALUE_FLAG) == 0)
        new = new[np.argsort(first_rows[new])]
        for name in self.processor.pooled_kinds:
            rows = new[self.occurrences.kind[first_rows[new]] == self.processor.kind_names.index(name)]
            if len(rows):
                new_values = pl.DataFrame({"value_id": self.value_ids[rows], "doc_no": self.first_doc_nos[rows]})
                spellings = self.occurrences.values.unique("value_id", keep="first", maintain_order=True)
                joined = new_values.join(spellings, on="value_id", how="left", maintain_order="left")
                component_pools.add_components(name, to_large_string(joined["normalised"]), joined["doc_no"].to_numpy())

    def _build_edited_occurrences(
        self, table: pa.Table, kept_masks: tuple[Mask, ...], swept_spans: Sequence[tuple[int, int, int, int, int]]
    ) -> OccurrenceArrays:
        """The occurrences of edited kinds and the swept spans; an occurrence that overlaps a swept span is not kept."""
        processor, occurrences = self.processor, self.occurrences
        edited = np.isin(occurrences.kind, [processor.kind_names.index(name) for name in processor.plan.editor_no_by_kind])
        columns = {name: column[edited] for name, column in occurrences.spans.items()}
        kind, value_id = occurrences.kind[edited], occurrences.value_id[edited]
        masks = [mask[edited] for mask in kept_masks]
        swept = np.zeros(len(kind), np.bool_)
        if swept_spans:
            assert self.forbidden_values is not None
            doc_no, cell, low, high, term = (np.array(column, np.int64) for column in zip(*swept_spans, strict=True))
            points = _to_code_points(table, self.leaves, doc_no, cell, low, high)
            swept_columns = dict(zip(_SPAN_COLUMNS, (doc_no, cell, *points, low, high), strict=True))
            order = np.lexsort(
                (
                    -np.concatenate([columns["end_byte"], high]),
                    *(np.concatenate([columns[name], swept_columns[name]]) for name in ("start_byte", "cell", "doc_no")),
                )
            )
            for span in zip(doc_no, cell, low, high, strict=True):
                overlapping = (columns["doc_no"] == span[0]) & (columns["cell"] == span[1])
                overlapping &= (columns["start_byte"] < span[3]) & (columns["end_byte"] > span[2])
                masks = [mask & ~overlapping for mask in masks]
            columns = {name: np.concatenate([columns[name], swept_columns[name]])[order] for name in columns}
            kind = np.concatenate([kind, processor.local_kind_numbers[self.forbidden_values.kind[term]]])[order]
            value_id = np.concatenate([value_id, self.forbidden_values.value_id[term]])[order]
            masks = [np.concatenate([mask, np.zeros(len(term), np.bool_)])[order] for mask in masks]
            swept = np.concatenate([swept, np.ones(len(term), np.bool_)])[order]
        columns["cell"] = columns["cell"].astype(np.int32)
        return OccurrenceArrays(
            **columns,  # type: ignore[arg-type]
            kind=kind,
            value_id=value_id,
            swept=swept,
            erased=np.zeros(len(kind), np.bool_),
            kept_by_editor=tuple(masks),
            kind_names=pa.array(processor.kind_names, pa.string()),
        )

    def _check_leaks(self, forbidden_values: LiteralMatcher, text_columns: TextColumns) -> None:
        """Search for removed values in the texts, in texts of kept columns, and in field names."""
        table, kept_originals = self.rewriter.table, pl.DataFrame(self.rewriter.kept)
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        matches: list[tuple[I64, I64, I64, I64, I64]] = []
        for column in flatten_cells(table, self.leaves):
            texts = fill_null_texts(column.flat.texts)
            for found in _find_matches(forbidden_values, texts):
                docs, cells = doc_no[column.flat.rows[found.text_no]], column.cell[found.text_no].astype(np.int64)
                in_kept_original, _ = within_kept_originals(kept_originals, docs, cells, found.start, found.end)
                outside = np.flatnonzero(~in_kept_original)
                matches.append((docs[outside], cells[outside], found.start[outside], found.end[outside], found.term[outside]))
        if matches:
            self._classify_matches(forbidden_values, *(np.concatenate(chunks) for chunks in zip(*matches, strict=True)))
        all_doc_nos = text_columns.table.column("doc_no").to_numpy()
        offset = int(all_doc_nos[0]) - int(text_columns.record_rows[0]) if len(all_doc_nos) else 0
        checked_docs = set(doc_no.tolist())
        for texts, rows in text_columns.kept_texts:
            for found in _find_matches(forbidden_values, texts):
                self.leaking_doc_nos |= {row for text_no in found.text_no if (row := int(rows[text_no]) + offset) in checked_docs}
        names = pa.array(text_columns.field_names, pa.large_string())
        self.leaking_fields = {
            text_columns.field_names[text_no] for found in _find_matches(forbidden_values, names) for text_no in found.text_no.tolist()
        }

    def _classify_matches(
        self, forbidden_values: LiteralMatcher, doc_no: I64, cell: I64, start_byte: I64, end_byte: I64, form_rows: I64
    ) -> None:
        """Split matches into sweepable spans (in bytes of the input text) and leaks (a match that is a whole replacement).

        No leak: a match strictly inside a replacement, one inside an atomic value that the plan leaves, and one whose value first occurs in
        a later document."""
        if not len(doc_no):
            return
        spans = {name: self.occurrences.spans[name] for name in ("doc_no", "cell", "start_byte", "end_byte")}
        occurrences = pl.DataFrame(
            {**spans, "kind": pl.Series(np.array(self.processor.kind_names, object)[self.occurrences.kind], dtype=pl.String)},
            schema_overrides={"cell": pl.Int32},
        )
        attribution = attribute_matches(
            pl.DataFrame(self.rewriter.edits), occurrences, self.processor.atomic_kinds, doc_no, cell, start_byte, end_byte
        )
        ids = forbidden_values.value_id[form_rows]
        positions = np.minimum(np.searchsorted(self.value_ids, ids), max(len(self.value_ids) - 1, 0))
        is_known = self.value_ids[positions] == ids if len(self.value_ids) else np.zeros(len(ids), np.bool_)
        first_occurs_later = np.zeros(len(ids), np.bool_)
        first_occurs_later[is_known] = self.first_doc_nos[positions[is_known]] > doc_no[is_known]
        first_occurs_later &= (self.processor.prior_values.value_log.get_tags(ids) & VALUE_FLAG) == 0
        self.leaking_doc_nos |= set(doc_no[attribution.whole_replacement & ~first_occurs_later].tolist())
        unassigned = np.flatnonzero(~attribution.inside_replacement & ~attribution.inside_atomic & ~attribution.whole_replacement)
        columns = (
            doc_no[unassigned],
            cell[unassigned],
            attribution.original_start[unassigned],
            -attribution.original_end[unassigned],
            form_rows[unassigned],
        )
        sorted_spans = sorted(set(zip(*(column.tolist() for column in columns), strict=True)))
        last_span = (-1, -1, -1)
        for document, cell_no, low, high, form_row in sorted_spans:  # few; a span inside the one before it is skipped
            if (document, cell_no) == last_span[:2] and -high <= last_span[2]:
                continue
            last_span = (document, cell_no, -high)
            self.sweepable_spans.append((document, cell_no, low, -high, form_row))

    def count_by_kind(self) -> dict[str, dict[str, int]]:
        """Counts by kind: `occurrences`, `kept`, and `left` (those that the plan leaves)."""
        counts: dict[str, dict[str, int]] = {}
        kind_names, edited = self.processor.kind_names, self.rewriter.occurrences
        left_kinds = self.occurrences.kind[
            np.isin(self.occurrences.kind, [kind_names.index(name) for name in self.processor.plan.leave if name in kind_names])
        ]
        for count_name, kinds in (
            ("occurrences", np.concatenate([edited.kind, left_kinds])),
            ("kept", edited.kind[self.rewriter.kept_rows]),
            ("left_by_plan", left_kinds),
        ):
            for kind, count in enumerate(np.bincount(kinds, minlength=len(kind_names)).tolist()):
                if count and kind < len(kind_names):
                    counts.setdefault(kind_names[kind], dict.fromkeys(("occurrences", "kept", "left_by_plan"), 0))[count_name] += count
        return counts


def _find_matches(forbidden_values: LiteralMatcher, texts: pa.LargeStringArray) -> list[LiteralMatches]:
    """Matches of removed values, in all forms of the fast check."""
    return [matches for matches in (forbidden_values.find(texts), forbidden_values.find_nfkc(texts)) if len(matches.term)]


def _to_code_points(table: pa.Table, leaves: list[LeafPath], doc_no: I64, cell: I64, start_byte: I64, end_byte: I64) -> tuple[I64, I64]:
    """The code points (start, end) of a few spans that are given in bytes of the input text."""
    doc_nos = np.asarray(table.column("doc_no"), np.int64)
    start, end = np.zeros(len(start_byte), np.int64), np.zeros(len(start_byte), np.int64)
    for column in flatten_cells(table, leaves):
        docs = doc_nos[column.flat.rows]
        for row in range(len(start_byte)):  # rare: values that the finders missed and the check found
            rows_of_cell = np.flatnonzero((docs == doc_no[row]) & (column.cell == cell[row]))
            if len(rows_of_cell):
                buffers = TextBuffers.from_array(pa.array([column.flat.texts[int(rows_of_cell[0])].as_py() or ""], pa.large_string()))
                (points,) = bytes_to_code_points(buffers, np.zeros(2, np.int64), np.array([start_byte[row], end_byte[row]]))
                start[row], end[row] = points
    return start, end
