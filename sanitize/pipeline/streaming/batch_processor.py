"""Processes one batch of a stream: collects its occurrences, applies the editors, and checks the result for leaks before it is accepted.

    find -> select kept occurrences -> edit and rewrite -> leak check -> sweep once -> quarantine records that still leak

A pure function of the batch and of the values seen before it; nothing here touches the disk. What is done with a batch is that of a run:
`stages/batch_rewriting.py` edits and splices, `verification/batch_check.py` searches and decides. Here is what a run has from its tables:
the occurrences of the batch, which of them are kept, where values first occurred, and the search terms, which are the removed values of
the batch in all their forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.array_types import I32, I64, U32, Mask
from sanitize.core.arrow_buffers import fill_null_texts, to_large_string
from sanitize.core.intervals import overlaps_any, sort_spans
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Aggregates, Editor
from sanitize.finders import patterns
from sanitize.kinds.kind import all_kinds
from sanitize.pipeline.indexing.column_value_finder import ColumnValueFinder
from sanitize.pipeline.streaming.column_value_log import ColumnValueLog, name_kinds
from sanitize.pipeline.streaming.component_log import ComponentLog
from sanitize.pipeline.streaming.record_batches import TextColumns
from sanitize.pipeline.streaming.value_log import SURROGATE_FLAG, VALUE_FLAG, ValueLog, get_counts
from sanitize.plans.plan import Plan
from sanitize.stages.batch_rewriting import BatchRewriter, EditRules, OccurrenceArrays, assemble_occurrences, flatten_occurrences
from sanitize.stages.finder_pass import TOO_MANY_MATCHES, TextSearch
from sanitize.stages.prior_values import find_sorted
from sanitize.storage.corpus import CellColumn, flatten_cells, group_cells
from sanitize.text.decodings.coded_runs import CodedRuns, find_coded_runs
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches
from sanitize.verification.attribution import attribute_matches
from sanitize.verification.batch_check import ResidualMatches, SweepSpans, classify_matches, find_code_points, find_matches, select_residual
from sanitize.verification.leak_check import select_atomic_kinds
from sanitize.verification.sweep_terms import SweepTerms

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
        position, is_of_batch = find_sorted(self._batch_value_ids, ids)
        taken[is_of_batch] |= self._batch_first_doc_nos[position[is_of_batch]] <= doc_no[is_of_batch]
        return taken

    def first_occurs_after(self, value_ids: I64, doc_no: I64, /) -> Mask:
        """True for values that first occur after the document, in this batch (implements `verification.batch_check.FirstOccurrences`)."""
        position, is_of_batch = find_sorted(self._batch_value_ids, value_ids)
        is_later = np.zeros(len(value_ids), np.bool_)
        is_later[is_of_batch] = self._batch_first_doc_nos[position[is_of_batch]] > doc_no[is_of_batch]
        is_later &= (self.value_log.get_tags(value_ids) & VALUE_FLAG) == 0
        return is_later

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
    """A processed batch: its table with the new texts, the rows that were edited, and the documents that were quarantined, each with the
    reason.

    `new_ids` and `new_tags` are to be added to the `ValueLog`; `by_kind` counts occurrences, kept ones, and those that the plan leaves.
    """

    table: pa.Table
    edited_rows: I64
    quarantined_docs: dict[int, str]
    new_ids: I64
    new_tags: U32
    by_kind: dict[str, dict[str, int]]
    swept_count: int


@dataclass(frozen=True, repr=False)
class _BatchOccurrences:
    """All occurrences of a batch in corpus order, with their values."""

    spans: dict[str, I64]  # by the names in _SPAN_COLUMNS
    kind: I32
    value_id: I64
    values: pl.DataFrame  # value_id, kind, value, normalised: one row per spelling

    def select_rows(self, rows: I64 | Mask) -> _BatchOccurrences:
        """The occurrences at `rows`, with all values."""
        return _BatchOccurrences(
            {name: column[rows] for name, column in self.spans.items()}, self.kind[rows], self.value_id[rows], self.values
        )


@dataclass(frozen=True, repr=False)
class _ForbiddenValues:
    """The search terms of one batch: a matcher for all spellings of its removed values, and the other forms if those are searched, too."""

    values: pl.DataFrame  # value_id, kind (a name), value, normalised
    spellings: tuple[LiteralMatcher, ...]
    sweep_terms: SweepTerms | None

    @classmethod
    def build(cls, values: pl.DataFrame, check_mode: str, column_values: ColumnValueLog | None) -> _ForbiddenValues | None:
        """The search terms for values whose kind is a number among all kinds, and for those of columns; None if nothing is searched for."""
        own_spellings = LiteralMatcher.from_values(values) if check_mode != "off" else None
        column_spellings = column_values.matchers if column_values is not None else ()
        spellings = (*([own_spellings] if own_spellings is not None else []), *column_spellings)
        if not spellings or check_mode == "off":
            return None
        named = name_kinds(values)
        if check_mode != "full":
            return cls(named, spellings, None)
        sweep_terms = [SweepTerms.from_values(named), *(column_values.sweep_terms if column_values is not None else ())]
        identity, digits = (sum((getattr(terms, form) for terms in sweep_terms), ()) for form in ("identity", "digits"))
        return cls(named, spellings, SweepTerms(identity, digits))

    def find_runs(self, columns: Sequence[pa.LargeStringArray]) -> list[CodedRuns | None]:
        """What may be encoded in each column, where encoded forms are searched."""
        return [find_coded_runs(texts) if self.sweep_terms else None for texts in columns]

    def with_digests(self, columns: Sequence[pa.LargeStringArray], runs: Sequence[CodedRuns | None]) -> _ForbiddenValues:
        """The terms with the digests that occur in some columns, where digests are searched. `runs` are those of the columns."""
        return self if self.sweep_terms is None else replace(self, sweep_terms=self.sweep_terms.with_digests(columns, runs, self.values))

    def find(self, texts: pa.LargeStringArray, runs: CodedRuns | None = None) -> Iterator[tuple[LiteralMatcher, LiteralMatches, str]]:
        """Yields the conclusive matches in a column, and their form. `runs` are those of the column, if they are known."""
        for matcher, matches, _ in find_matches(self.spellings, texts):
            yield matcher, matches, "exact"
        for matcher, matches, conclusive, form in self.sweep_terms.find(texts, self.spellings, runs) if self.sweep_terms else ():
            yield matcher, matches.take(np.flatnonzero(conclusive)), form


@dataclass(frozen=True, repr=False)
class _KeptSelection:
    """For each editor a mask of the occurrences that it keeps; and for each value of the batch, ascending: its id, the row and the document
    of its first occurrence, and its occurrences as counted by editors that keep some."""

    masks: tuple[Mask, ...]
    value_ids: I64
    first_rows: I64
    first_doc_nos: I64
    occurrence_counts: I64


@dataclass(repr=False)
class BatchProcessor:
    """Applies a plan to one batch after the other."""

    plan: Plan
    key: Key
    prior_values: StreamPriorValues
    component_pools: ComponentLog | None
    check_mode: str = "full"  # leak check: full, fast (without the forms of `SweepTerms`) or off
    max_doc_matches: int = patterns.NO_MATCH_LIMIT  # what the finders may match in a document
    column_values: ColumnValueLog | None = None  # values of columns that are pseudonymized or dropped; None if they are not searched
    checked_mask: Mask = field(init=False)

    def __post_init__(self) -> None:
        # kinds are numbered twice: `Detections` by the kinds of the search, `LiteralMatcher` by all kinds
        self.kind_names = [kind.name for kind in TextSearch(self.key, self.plan.detection_spec).kinds]
        all_kind_names = list(all_kinds())
        self.kind_names += [name for name in all_kind_names if name not in self.kind_names]  # of values that only columns show
        self.kind_numbers = np.array([all_kind_names.index(name) for name in self.kind_names], np.int32)
        self.local_kind_numbers = np.full(len(all_kind_names), -1, np.int32)
        self.local_kind_numbers[self.kind_numbers] = np.arange(len(self.kind_names))
        self.checked_mask = np.isin(self.kind_names, self.plan.leak_checked_kinds)
        self.atomic_kinds = select_atomic_kinds(self.plan.leave)
        self.column_value_finder = ColumnValueFinder(self.plan.detection_spec, self.key, self.plan.leave)
        self.pooled_kinds = [kind for editor in self.plan.editors for kind in editor.pooled_kinds]
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
        """Process one batch: `text_columns`, its cells, and what was found in each column of cells. `has_any_field(row, names)` is
        True if a record of the batch has a field with one of these names."""
        doc_nos = np.asarray(text_columns.table.column("doc_no"), np.int64)
        is_over = self._has_too_many_matches(len(doc_nos), cell_columns, found_by_column)
        too_many_matches = set(doc_nos[is_over].tolist())
        occurrences = self._gather_occurrences(doc_nos, cell_columns, found_by_column, is_over)
        if self.column_values is not None:
            for value_leaf, cells in text_columns.value_cells:
                found = self.column_value_finder.find(value_leaf, cells)
                self.column_values.add(found.filter(~pl.col("is_name_guess")))
        forbidden_values = _ForbiddenValues.build(self._select_checked(occurrences.values), self.check_mode, self.column_values)
        quarantined: set[int] = set(too_many_matches)
        to_sweep = SweepSpans.empty()
        swept_count = 0
        while True:
            table, remaining = text_columns.table, occurrences
            if quarantined:
                table = _filter_rows(table, ~np.isin(doc_nos, list(quarantined)))
                remaining = occurrences.select_rows(~np.isin(occurrences.spans["doc_no"], list(quarantined)))
                to_sweep = to_sweep.take(~np.isin(to_sweep.doc_no, list(quarantined)))
            attempt = _RewriteAttempt(self, table, text_columns, remaining, to_sweep, forbidden_values)
            if attempt.leaking_fields:
                rows = zip(doc_nos.tolist(), text_columns.record_rows.tolist(), strict=True)
                attempt.leaking_doc_nos |= {
                    doc_no for doc_no, row in rows if doc_no not in quarantined and has_any_field(row, attempt.leaking_fields)
                }
            if not attempt.leaking_doc_nos and not len(attempt.to_sweep):
                break
            # only one sweep: a second one would find text that the first one wrote; what is left or cannot be swept is quarantined
            quarantined |= attempt.leaking_doc_nos
            if len(attempt.to_sweep) and not swept_count:
                to_sweep = attempt.to_sweep
                swept_count = len(to_sweep)
            else:
                quarantined |= set(attempt.to_sweep.doc_no.tolist())
        edited_rows = np.searchsorted(np.asarray(table.column("doc_no")), np.unique(attempt.rewriter.edits.column("doc_no")))
        ids, tags = self._list_new_tags(attempt.selection)
        reasons = {doc_no: TOO_MANY_MATCHES if doc_no in too_many_matches else "leak" for doc_no in sorted(quarantined)}
        return BatchResult(attempt.rewriter.table, edited_rows, reasons, ids, tags, attempt.count_by_kind(), swept_count)

    def _has_too_many_matches(
        self, document_count: int, cell_columns: Sequence[CellColumn], found_by_column: Sequence[patterns.Detections]
    ) -> Mask:
        """True for documents of the batch in which the finders match more than `max_doc_matches`."""
        match_counts = np.zeros(document_count, np.int64)
        for column, found in zip(cell_columns, found_by_column, strict=True):
            np.add.at(match_counts, column.flat.rows, found.match_counts)
        return match_counts > self.max_doc_matches

    def _list_new_tags(self, selection: _KeptSelection) -> tuple[I64, U32]:
        """What the batch adds to the `ValueLog`: values that are new or counted again, and the variants that it generated."""
        known_tags = self.prior_values.value_log.get_tags(selection.value_ids)
        may_count = get_counts(known_tags) < self.prior_values.value_log.max_count
        is_new = ((known_tags & VALUE_FLAG) == 0) | ((selection.occurrence_counts > 0) & may_count)
        value_tags = selection.occurrence_counts[is_new].astype(np.uint32) | VALUE_FLAG
        surrogate_ids = np.concatenate([np.empty(0, np.int64), *self.prior_values.new_surrogate_ids])
        surrogate_tags = np.full(len(surrogate_ids), SURROGATE_FLAG, np.uint32)
        return np.concatenate([selection.value_ids[is_new], surrogate_ids]), np.concatenate([value_tags, surrogate_tags])

    def _gather_occurrences(
        self, doc_nos: I64, cell_columns: Sequence[CellColumn], found_by_column: Sequence[patterns.Detections], is_left_out: Mask
    ) -> _BatchOccurrences:
        """The occurrences of all columns of cells as one, in corpus order, without those of documents that are left out."""
        chunks_by_name: dict[str, list[npt.NDArray[Any]]] = {name: [np.empty(0, np.int64)] for name in (*_SPAN_COLUMNS, "kind", "value_id")}
        frames = [pl.DataFrame(schema={"value_id": pl.Int64, "kind": pl.Int32, "value": pl.String, "normalised": pl.String})]
        for column, found in zip(cell_columns, found_by_column, strict=True):
            if is_left_out.any():
                found = found.select(~is_left_out[column.flat.rows[found.text_no]])
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
            order = sort_spans(*flatten_occurrences(joined))
            joined = {name: column[order] for name, column in joined.items()}
        kind, value_id = joined.pop("kind").astype(np.int32), joined.pop("value_id")
        return _BatchOccurrences(joined, kind, value_id, pl.concat(frames))

    def _select_checked(self, values: pl.DataFrame) -> pl.DataFrame:
        """The values whose kinds are checked, with the number of their kind among all kinds."""
        kind = values["kind"].to_numpy()
        return values.with_columns(kind=pl.Series(self.kind_numbers[kind], dtype=pl.Int32)).filter(pl.Series(self.checked_mask[kind]))

    def select_kept(self, occurrences: _BatchOccurrences) -> _KeptSelection:
        """What each editor keeps: the first `keep` occurrences of a value in the stream. What `first_occurrences` is for a run.

        An occurrence that overlaps an edited one of an earlier editor is not counted."""
        value_ids, first_rows, value_no = np.unique(occurrences.value_id, return_index=True, return_inverse=True)
        counts = np.zeros(len(value_ids), np.int64)
        is_unclaimed = np.ones(len(value_no), np.bool_)
        claimed_kinds: set[str] = set()
        masks = []
        for number, editor in enumerate(self.plan.editors):
            is_own_kind = np.isin(occurrences.kind, [self.kind_names.index(name) for name in editor.kinds if name not in claimed_kinds])
            claimed_kinds |= set(editor.kinds)
            is_kept = np.zeros(len(value_no), np.bool_)
            if editor.keep and "first_occurrences" in editor.required_aggregates:
                counted = np.flatnonzero(is_own_kind & is_unclaimed)
                counted_before = get_counts(self.prior_values.value_log.get_tags(value_ids))[value_no[counted]]
                is_kept[counted[counted_before + _count_earlier(value_no[counted]) < editor.keep]] = True
                counts += np.bincount(value_no[counted], minlength=len(value_ids))
            masks.append(is_kept)
            if any(later.keep for later in self.plan.editors[number + 1 :]):
                is_unclaimed &= ~_mask_overlapping(occurrences, is_own_kind & is_unclaimed & ~is_kept)
        return _KeptSelection(tuple(masks), value_ids, first_rows, occurrences.spans["doc_no"][first_rows], counts)


def _count_earlier(numbers: I64) -> I64:
    """For each number, how many equal ones come before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    count = np.empty(len(numbers), np.int64)
    count[order] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered, side="left")
    return count


def _filter_rows(table: pa.Table, rows: Mask) -> pa.Table:
    """The rows of a table as one chunk; an empty table if there are none."""
    return table.filter(pa.array(rows)).combine_chunks() if rows.any() else table.schema.empty_table()


def get_max_keep(editors: Sequence[Editor]) -> int:
    """The largest `keep` of the editors: occurrences of a value need not be counted beyond it."""
    return max((editor.keep for editor in editors), default=0)


def _mask_overlapping(occurrences: _BatchOccurrences, claimed_mask: Mask) -> Mask:
    """True for occurrences that share a byte with an occurrence in `claimed_mask`."""
    start, end = flatten_occurrences(occurrences.spans)
    return overlaps_any(start, end, start[claimed_mask], end[claimed_mask])


class _RewriteAttempt:
    """A batch rewritten once, and the result of its leak check: `leaking_doc_nos`, `leaking_fields`, and `to_sweep`."""

    def __init__(
        self,
        processor: BatchProcessor,
        table: pa.Table,
        text_columns: TextColumns,
        occurrences: _BatchOccurrences,
        swept: SweepSpans,
        forbidden_values: _ForbiddenValues | None,
    ) -> None:
        self.processor, self.occurrences = processor, occurrences
        self.selection = processor.select_kept(occurrences)
        processor.prior_values.begin_batch(self.selection.value_ids, self.selection.first_doc_nos)
        if processor.component_pools is not None:
            processor.component_pools.discard_unconfirmed()
            self._add_components(processor.component_pools)
        rules = EditRules(leaves=text_columns.leaves, editors=tuple(processor.plan.editors))
        self.rewriter = BatchRewriter(rules, table, self._build_edited_occurrences(table, rules, swept))
        self.leaking_doc_nos: set[int] = set()
        self.leaking_fields: set[str] = set()
        self.to_sweep = SweepSpans.empty()
        if forbidden_values is not None:
            self._check_texts(forbidden_values, rules)
            self._check_kept_columns(forbidden_values, text_columns)

    def _add_components(self, component_pools: ComponentLog) -> None:
        """Add the components of values that are new to the stream, in order of appearance."""
        selection, kind_names = self.selection, self.processor.kind_names
        new = np.flatnonzero((self.processor.prior_values.value_log.get_tags(selection.value_ids) & VALUE_FLAG) == 0)
        new = new[np.argsort(selection.first_rows[new])]
        for name in self.processor.pooled_kinds:
            rows = new[self.occurrences.kind[selection.first_rows[new]] == kind_names.index(name)]
            if len(rows):
                new_values = pl.DataFrame({"value_id": selection.value_ids[rows], "doc_no": selection.first_doc_nos[rows]})
                spellings = self.occurrences.values.unique("value_id", keep="first", maintain_order=True)
                joined = new_values.join(spellings, on="value_id", how="left", maintain_order="left")
                component_pools.add_components(name, to_large_string(joined["normalised"]), joined["doc_no"].to_numpy())

    def _build_edited_occurrences(self, table: pa.Table, rules: EditRules, swept: SweepSpans) -> OccurrenceArrays:
        """The occurrences of edited kinds and the swept spans, in order."""
        processor, found = self.processor, self.occurrences
        is_edited = np.isin(found.kind, [processor.kind_names.index(name) for name in processor.plan.editor_no_by_kind])
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        start, end = find_code_points(swept, [(doc_no, flatten_cells(table, list(rules.leaves)))] if len(swept) else [])
        swept_columns = {
            **{name: getattr(swept, name) for name in ("doc_no", "cell", "start_byte", "end_byte", "value_id")},
            "start": start,
            "end": end,
            "kind": processor.local_kind_numbers[swept.kind],
        }
        found_columns: dict[str, npt.NDArray[Any]] = {**found.spans, "kind": found.kind, "value_id": found.value_id}
        columns = {name: np.concatenate([column[is_edited], swept_columns[name]]) for name, column in found_columns.items()}
        is_swept = np.arange(len(columns["kind"])) >= is_edited.sum()
        columns |= {"cell": columns["cell"].astype(np.int32), "swept": is_swept, "erased": np.zeros(len(is_swept), np.bool_)}
        kept = [np.append(mask[is_edited], np.zeros(len(swept), np.bool_)) for mask in self.selection.masks]
        return assemble_occurrences(columns, kept, pa.array(processor.kind_names, pa.string()), [False] * len(kept))

    def _check_texts(self, forbidden_values: _ForbiddenValues, rules: EditRules) -> None:
        """Search for removed values in the rewritten texts, and decide which a sweep can redact."""
        table, kept_originals = self.rewriter.table, pl.DataFrame(self.rewriter.kept)
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        residual = []
        groups = list(group_cells(flatten_cells(table, list(rules.leaves))))
        texts = [fill_null_texts(group.texts) for group in groups]
        runs = forbidden_values.find_runs(texts)
        forbidden_values = forbidden_values.with_digests(texts, runs)
        for group, group_texts, group_runs in zip(groups, texts, runs, strict=True):
            for matcher, matches, form in forbidden_values.find(group_texts, group_runs):
                outside, _ = select_residual(kept_originals, group, doc_no, matcher, matches, ranks_terms=True, form=form)
                residual.append(outside)
        if not sum(map(len, residual)):
            return
        found = ResidualMatches.concat(residual)
        kind = pl.Series(np.array(self.processor.kind_names, object)[self.occurrences.kind], dtype=pl.String)
        spans = {name: self.occurrences.spans[name] for name in ("doc_no", "cell", "start_byte", "end_byte")}
        attribution = attribute_matches(
            pl.DataFrame(self.rewriter.edits),
            pl.DataFrame({**spans, "kind": kind}, schema_overrides={"cell": pl.Int32}),
            self.processor.atomic_kinds,
            found.doc_no,
            found.cell,
            found.start,
            found.end,
        )
        self.to_sweep, leak_rows = classify_matches(found, attribution, self.processor.prior_values.first_occurs_after)
        self.leaking_doc_nos |= set(found.doc_no[leak_rows].tolist())

    def _check_kept_columns(self, forbidden_values: _ForbiddenValues, text_columns: TextColumns) -> None:
        """Search for removed values in texts of kept columns, and in field names: where one is found it cannot be swept."""
        checked_docs = set(self.rewriter.table.column("doc_no").to_pylist())
        all_doc_nos = text_columns.table.column("doc_no").to_numpy()
        offset = int(all_doc_nos[0]) - int(text_columns.record_rows[0]) if len(all_doc_nos) else 0
        columns = [texts for texts, _ in text_columns.kept_texts]
        runs = forbidden_values.find_runs(columns)
        forbidden_values = forbidden_values.with_digests(columns, runs)
        for (texts, rows), column_runs in zip(text_columns.kept_texts, runs, strict=True):
            for _, matches, _ in forbidden_values.find(texts, column_runs):
                self.leaking_doc_nos |= {row for text_no in matches.text_no if (row := int(rows[text_no]) + offset) in checked_docs}
        names = pa.array(text_columns.field_names, pa.large_string())
        for _, matches, _ in forbidden_values.find(names):
            self.leaking_fields |= {text_columns.field_names[text_no] for text_no in matches.text_no.tolist()}

    def count_by_kind(self) -> dict[str, dict[str, int]]:
        """Counts by kind: `occurrences`, `kept`, and `left` (those that the plan leaves)."""
        kind_names, found = self.processor.kind_names, self.occurrences
        plan = self.processor.plan
        left_numbers = [kind_names.index(name) for name in plan.leave if name in kind_names and name not in plan.editor_no_by_kind]
        left = np.bincount(found.kind[np.isin(found.kind, left_numbers)], minlength=len(kind_names)).tolist()
        edited = self.rewriter.count_outcomes()
        counts = {}
        for name, left_count in zip(kind_names, left, strict=True):
            outcomes = edited.get(name, {"occurrences": 0, "kept": 0})
            if outcomes["occurrences"] or left_count:
                counts[name] = {"occurrences": outcomes["occurrences"] + left_count, "kept": outcomes["kept"], "left_by_plan": left_count}
        return counts
