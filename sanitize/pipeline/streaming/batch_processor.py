"""Processes one batch of a stream: collects its occurrences, applies the editors, and checks the
result for leaks before it is accepted.

    find -> select kept occurrences -> edit and rewrite -> leak check -> sweep once -> quarantine
    records that still leak

A pure function of the batch and of the values seen before it; nothing here touches the disk. What
is done with a batch is that of a run: `stages/batch_rewriting.py` edits and splices,
`verification/batch_check.py` searches and decides. Here is what a run has from its tables: the
occurrences of the batch, which of them are kept, where values first occurred, and the search terms,
which are the removed values of the batch in all their forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, fields, replace

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I32, I64, U32, Mask
from sanitize.core.arrow_buffers import (
    fill_null_texts,
    numbers_to_numpy,
    texts_to_arrow,
    to_large_string,
)
from sanitize.core.intervals import overlaps_any, sort_spans
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Aggregates, Editor
from sanitize.core.span_table import VALUE_SCHEMA, CellSpans, SpanTable, ValueTable
from sanitize.editors.synthesis.known_values import (
    FORM_COUNT,
    NORMALISED,
    FirstForms,
    hash_value_forms,
)
from sanitize.finders import patterns
from sanitize.kinds.kind import all_kinds, get_kind
from sanitize.pipeline.indexing.column_value_finder import ColumnValueFinder
from sanitize.pipeline.streaming.column_value_log import ColumnValueLog
from sanitize.pipeline.streaming.component_log import ComponentLog
from sanitize.pipeline.streaming.record_batches import TextColumns
from sanitize.pipeline.streaming.value_log import (
    SURROGATE_FLAG,
    SURROGATE_FORM_FLAG,
    VALUE_FLAG,
    ValueLog,
    get_counts,
)
from sanitize.plans.plan import Plan
from sanitize.stages.batch_rewriting import (
    EditRules,
    Occurrences,
    RewrittenBatch,
    list_kind_names,
    rewrite_batch,
)
from sanitize.stages.finder_pass import TOO_MANY_MATCHES
from sanitize.stages.prior_values import find_sorted
from sanitize.storage.corpus import CellColumn, flatten_cells, group_cells
from sanitize.verification.batch_check import (
    BatchFindings,
    BatchTables,
    check_batch,
    find_code_points,
)
from sanitize.verification.search_terms import SearchTerms, list_searched_forms
from sanitize.verification.shard_check import select_atomic_kinds
from sanitize.verification.value_matches import find_texts_with_values


class StreamPriorValues:
    """The values that a stream has seen before a batch and in it (implements
    `core.part_protocols.PriorValues`)."""

    def __init__(self, value_log: ValueLog, component_pools: ComponentLog | None) -> None:
        self.value_log, self._component_pools = value_log, component_pools
        self._batch_value_ids = self._batch_first_doc_nos = np.empty(0, np.int64)
        self._batch_forms = FirstForms.collect(np.empty(0, np.int64), np.empty(0, np.int64))
        self._surrogate_forms: list[I64] = []

    def begin_batch(self, value_ids: I64, first_doc_nos: I64, forms: FirstForms) -> None:
        """Start a batch with these values, the first document of each, and their forms. Values of
        texts and of columns: an id may be there twice."""
        order = np.lexsort((first_doc_nos, value_ids))
        self._batch_value_ids, first = np.unique(value_ids[order], return_index=True)
        self._batch_first_doc_nos = first_doc_nos[order][first]
        self._batch_forms, self._surrogate_forms = forms, []

    def is_known(self, forms: I64, doc_no: I64) -> Mask:
        """True for rows with a form of a value that occurs up to that document."""
        return self._has_flag(forms, VALUE_FLAG) | self._batch_forms.is_known(forms, doc_no)

    def was_drawn(self, normalised: I64) -> Mask:
        """True for normalised forms of variants generated before this batch."""
        return np.asarray((self.value_log.get_tags(normalised) & SURROGATE_FLAG) != 0)

    def find_drawn_before(self, value_ids: I64, edits: pl.DataFrame, /) -> Mask:
        """True for values that first occur after the document of the edit, in this batch
        (implements `verification.batch_check.FindDrawnBefore`)."""
        doc_no = edits["doc_no"].to_numpy()
        position, is_of_batch = find_sorted(self._batch_value_ids, value_ids)
        is_later = np.zeros(len(value_ids), np.bool_)
        is_later[is_of_batch] = (
            self._batch_first_doc_nos[position[is_of_batch]] > doc_no[is_of_batch]
        )
        is_later &= (self.value_log.get_tags(value_ids) & VALUE_FLAG) == 0
        return is_later

    def was_generated(self, forms: I64) -> Mask:
        """True for rows with a form of a variant generated before this batch."""
        return self._has_flag(forms, SURROGATE_FLAG | SURROGATE_FORM_FLAG)

    def record_generated(self, forms: I64) -> None:
        """Collect the forms of variants that this batch generates; `BatchResult` contains them."""
        self._surrogate_forms.append(forms)

    def list_new_forms(self) -> tuple[I64, U32]:
        """The forms that the batch adds to the `ValueLog`, with their tags: those of values that
        are new, and those of its variants."""
        values = self._batch_forms.forms
        values = values[(self.value_log.get_tags(values) & VALUE_FLAG) == 0]
        drawn = np.concatenate([np.empty((0, FORM_COUNT), np.int64), *self._surrogate_forms])
        others = np.setdiff1d(drawn[drawn != 0], drawn[:, NORMALISED])
        forms, flags = (
            (values, drawn[:, NORMALISED], others),
            (VALUE_FLAG, SURROGATE_FLAG, SURROGATE_FORM_FLAG),
        )
        return np.concatenate(forms), np.repeat(
            np.array(flags, np.uint32), [len(column) for column in forms]
        )

    def _has_flag(self, forms: I64, flags: np.uint32) -> Mask:
        """True for rows with a form that has one of these flags in the log."""
        tags = np.zeros(forms.shape, np.uint32)
        tags[forms != 0] = self.value_log.get_tags(forms[forms != 0])
        return np.asarray(((tags & flags) != 0).any(axis=1))

    def components(self, kind: str, component: str) -> tuple[pa.LargeStringArray, I64] | None:
        """The component pool that variants are drawn from, with the document of each entry; None
        without pools."""
        return (
            None
            if self._component_pools is None
            else self._component_pools.get_pool(kind, component)
        )


@dataclass(frozen=True, repr=False)
class BatchResult:
    """A processed batch: its table with the new texts, the rows that were edited, and the documents
    that were quarantined, each with the reason.

    `new_ids` and `new_tags` are to be added to the `ValueLog`; `by_kind` counts occurrences, kept
    ones, and those that the plan leaves; `inconclusive` the matches that may be a removed value or
    chance, by kind; `leaking_names` the names of columns and fields that are removed values.
    """

    table: pa.Table
    edited_rows: I64
    quarantined_docs: dict[int, str]
    new_ids: I64
    new_tags: U32
    by_kind: dict[str, dict[str, int]]
    swept_count: int
    inconclusive: Counter[str]
    leaking_names: frozenset[str]


@dataclass(frozen=True, repr=False, kw_only=True)
class _BatchOccurrences(CellSpans):
    """All occurrences of a batch in corpus order, with their values."""

    start: I64  # in code points
    end: I64
    spelling_no: I64  # the row in `values` of the value as it is spelled
    values: pl.DataFrame  # value_id, kind, value, normalised: one row per spelling

    def collect_forms(self, kind_names: Sequence[str], key: Key) -> FirstForms:
        """The forms of the values, each with the document from which on it is known."""
        spellings, rows = np.unique(self.spelling_no, return_index=True)
        return _collect_forms(
            self.values[spellings], self.kind[rows], self.doc_no[rows], kind_names, key
        )


def _collect_forms(
    values: pl.DataFrame, kinds: I32, first_doc_nos: I64, kind_names: Sequence[str], key: Key
) -> FirstForms:
    """The forms of values (columns `value` and `normalised`), each with the document from which on
    it is known. `kinds` are numbers in `kind_names`."""
    parts = [FirstForms.collect(np.empty(0, np.int64), np.empty(0, np.int64))]
    for number in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == number)
        texts, normalised = (
            to_large_string(values[name].gather(rows)) for name in ("value", "normalised")
        )
        forms = hash_value_forms(get_kind(kind_names[number]), texts, normalised, key)
        parts.append(FirstForms.collect(forms, first_doc_nos[rows]))
    return FirstForms.merge(parts)


@dataclass(frozen=True, repr=False)
class _KeptSelection:
    """The occurrences that the editors keep, a column for each editor; and for each value of the
    batch, ascending: its id, the row and the document of its first occurrence, and its occurrences
    as counted by editors that keep some."""

    kept: Mask
    value_ids: I64
    first_rows: I64
    first_doc_nos: I64
    occurrence_counts: I64


@dataclass(frozen=True, repr=False)
class _RewriteAttempt:
    """A batch rewritten once, and the result of its leak check."""

    batch: RewrittenBatch
    selection: _KeptSelection
    to_sweep: CellSpans
    leaking_doc_nos: frozenset[int]
    leaking_fields: frozenset[str]
    inconclusive: Counter[str]


@dataclass(repr=False)
class BatchProcessor:
    """Applies a plan to one batch after the other."""

    plan: Plan
    key: Key
    prior_values: StreamPriorValues
    component_pools: ComponentLog | None
    check_mode: str = "full"  # leak check: full, fast (spellings only) or off
    max_doc_matches: int = patterns.NO_MATCH_LIMIT  # what the finders may match in a document
    column_values: ColumnValueLog | None = (
        None  # values of columns that are pseudonymized or dropped; None if they are not searched
    )
    checked_mask: Mask = field(init=False)

    def __post_init__(self) -> None:
        self.kind_names = list(all_kinds())
        self.checked_mask = np.isin(self.kind_names, self.plan.leak_checked_kinds)
        self.atomic_kinds = select_atomic_kinds(self.plan.leave)
        self.searched_forms = tuple(list_searched_forms(self.check_mode))
        self.column_value_finder = ColumnValueFinder(
            self.plan.detection_spec, self.key, self.plan.kinds_that_may_stay
        )
        self.pooled_kinds = [kind for editor in self.plan.editors for kind in editor.pooled_kinds]
        for editor in self.plan.editors:
            editor.open(self.key, Aggregates({}))
            if editor.is_sequential:
                editor.set_prior_values(self.prior_values)

    def process(
        self,
        text_columns: TextColumns,
        cell_columns: Sequence[CellColumn],
        found_by_column: Sequence[SpanTable],
        has_any_field: Callable[[int, Set[str]], bool] = lambda row, names: False,
    ) -> BatchResult:
        """Process one batch: `text_columns`, its cells, and what was found in each column of cells.
        `has_any_field(row, names)` is True if a record of the batch has a field with one of these
        names."""
        doc_nos = numbers_to_numpy(text_columns.table.column("doc_no"))
        is_over = self._has_too_many_matches(len(doc_nos), cell_columns, found_by_column)
        too_many_matches = set(doc_nos[is_over].tolist())
        occurrences = self._gather_occurrences(doc_nos, cell_columns, found_by_column, is_over)
        column_values = pl.DataFrame(schema={**VALUE_SCHEMA, "first_doc_no": pl.Int64})
        if self.column_values is not None:
            for value_leaf, cells, cell_rows in text_columns.value_cells:
                found = self.column_value_finder.find(value_leaf, cells, doc_nos[cell_rows]).filter(
                    ~pl.col("is_name_guess")
                )
                self.column_values.add(found)
                column_values = pl.concat([column_values, found.select(column_values.columns)])
        terms = self._build_terms(self._select_checked(occurrences.values))
        quarantined: set[int] = set(too_many_matches)
        to_sweep = CellSpans.empty()
        swept_count = 0
        leaking_names: set[str] = set()
        while True:
            table, remaining = text_columns.table, occurrences
            if quarantined:
                table = _filter_rows(table, ~np.isin(doc_nos, list(quarantined)))
                remaining = occurrences.take(~np.isin(occurrences.doc_no, list(quarantined)))
                to_sweep = to_sweep.take(~np.isin(to_sweep.doc_no, list(quarantined)))
            attempt = self._rewrite(table, text_columns, remaining, column_values, to_sweep, terms)
            leaking_names |= attempt.leaking_fields
            leaking_doc_nos = attempt.leaking_doc_nos
            if attempt.leaking_fields:
                rows = zip(doc_nos.tolist(), text_columns.record_rows.tolist(), strict=True)
                leaking_doc_nos |= {
                    doc_no
                    for doc_no, row in rows
                    if doc_no not in quarantined and has_any_field(row, attempt.leaking_fields)
                }
            if not leaking_doc_nos and not len(attempt.to_sweep):
                break
            # only one sweep: a second one would find text that the first one wrote; what is left or
            # cannot be swept is quarantined
            quarantined |= leaking_doc_nos
            if len(attempt.to_sweep) and not swept_count:
                to_sweep = attempt.to_sweep
                swept_count = len(to_sweep)
            else:
                quarantined |= set(attempt.to_sweep.doc_no.tolist())
        edited_rows = np.searchsorted(
            numbers_to_numpy(table.column("doc_no")),
            np.unique(numbers_to_numpy(attempt.batch.edits.column("doc_no"))),
        )
        ids, tags = self._list_new_tags(attempt.selection)
        reasons = {
            doc_no: TOO_MANY_MATCHES if doc_no in too_many_matches else "leak"
            for doc_no in sorted(quarantined)
        }
        return BatchResult(
            attempt.batch.table,
            edited_rows,
            reasons,
            ids,
            tags,
            self._count_by_kind(attempt.batch, remaining),
            swept_count,
            attempt.inconclusive,
            frozenset(leaking_names),
        )

    def _has_too_many_matches(
        self,
        document_count: int,
        cell_columns: Sequence[CellColumn],
        found_by_column: Sequence[SpanTable],
    ) -> Mask:
        """True for documents of the batch in which the finders match more than
        `max_doc_matches`."""
        match_counts = np.zeros(document_count, np.int64)
        for column, found in zip(cell_columns, found_by_column, strict=True):
            np.add.at(match_counts, column.flat.rows, found.match_counts)
        return match_counts > self.max_doc_matches

    def _list_new_tags(self, selection: _KeptSelection) -> tuple[I64, U32]:
        """What the batch adds to the `ValueLog`: values that are new or counted again, and the
        variants that it generated."""
        known_tags = self.prior_values.value_log.get_tags(selection.value_ids)
        may_count = get_counts(known_tags) < self.prior_values.value_log.max_count
        is_new = ((known_tags & VALUE_FLAG) == 0) | ((selection.occurrence_counts > 0) & may_count)
        value_tags = selection.occurrence_counts[is_new].astype(np.uint32) | VALUE_FLAG
        forms, form_tags = self.prior_values.list_new_forms()
        return np.concatenate([selection.value_ids[is_new], forms]), np.concatenate(
            [value_tags, form_tags]
        )

    def _gather_occurrences(
        self,
        doc_nos: I64,
        cell_columns: Sequence[CellColumn],
        found_by_column: Sequence[SpanTable],
        is_left_out: Mask,
    ) -> _BatchOccurrences:
        """The occurrences of all columns of cells as one, in corpus order, without those of
        documents that are left out."""
        parts, tables, spelling_count = list[_BatchOccurrences](), [ValueTable.empty()], 0
        for column, found in zip(cell_columns, found_by_column, strict=True):
            found = found.take(~is_left_out[column.flat.rows[found.text_no]]).take_used_values()
            start, end = found.find_code_points(fill_null_texts(column.flat.texts))
            parts.append(
                _BatchOccurrences(
                    doc_no=doc_nos[column.flat.rows[found.text_no]],
                    cell=column.cell[found.text_no],
                    start_byte=found.start_byte,
                    end_byte=found.end_byte,
                    kind=found.kind,
                    value_id=found.value_id,
                    start=start,
                    end=end,
                    spelling_no=spelling_count + found.value_no,
                    values=pl.DataFrame(schema=VALUE_SCHEMA),
                )
            )
            spelling_count += len(found.values)
            tables.append(found.values)
        occurrences = _BatchOccurrences.concat(
            [_BatchOccurrences.empty(values=ValueTable.concat(tables).to_frame()), *parts]
        )
        is_one_column = sum(len(part) > 0 for part in parts) <= 1
        return (
            occurrences if is_one_column else occurrences.take(sort_spans(*occurrences.to_axis()))
        )

    def _select_checked(self, values: pl.DataFrame) -> pl.DataFrame:
        """The values whose kinds are checked, with the name of their kind."""
        kind = values["kind"].to_numpy()
        names = pl.Series(np.array(self.kind_names, object)[kind], dtype=pl.String)
        return values.with_columns(kind=names).filter(pl.Series(self.checked_mask[kind]))

    def _build_terms(self, checked_values: pl.DataFrame) -> tuple[SearchTerms, ...]:
        """The search terms of the values of a batch, and of those of columns in this batch and
        earlier ones; none without a check."""
        if self.check_mode == "off":
            return ()
        terms = SearchTerms.from_values(checked_values, self.check_mode)
        return (
            *([terms] if terms is not None else []),
            *(self.column_values.terms if self.column_values is not None else ()),
        )

    def select_kept(self, occurrences: _BatchOccurrences) -> _KeptSelection:
        """What each editor keeps: the first `keep` occurrences of a value in the stream. What
        `first_occurrences` is for a run.

        An occurrence that overlaps an edited one of an earlier editor is not counted."""
        value_ids, first_rows, value_no = np.unique(
            occurrences.value_id, return_index=True, return_inverse=True
        )
        counts = np.zeros(len(value_ids), np.int64)
        is_unclaimed = np.ones(len(value_no), np.bool_)
        claimed_kinds: set[str] = set()
        kept = np.zeros((len(value_no), len(self.plan.editors)), np.bool_)
        for number, editor in enumerate(self.plan.editors):
            is_own_kind = np.isin(
                occurrences.kind,
                [self.kind_names.index(name) for name in editor.kinds if name not in claimed_kinds],
            )
            claimed_kinds |= set(editor.kinds)
            is_kept = kept[:, number]
            if editor.keep and "first_occurrences" in editor.required_aggregates:
                counted = np.flatnonzero(is_own_kind & is_unclaimed)
                counted_before = get_counts(self.prior_values.value_log.get_tags(value_ids))[
                    value_no[counted]
                ]
                is_kept[
                    counted[counted_before + _count_earlier(value_no[counted]) < editor.keep]
                ] = True
                counts += np.bincount(value_no[counted], minlength=len(value_ids))
            if any(later.keep for later in self.plan.editors[number + 1 :]):
                start, end = occurrences.to_axis()
                claims = is_own_kind & is_unclaimed & ~is_kept
                is_unclaimed &= ~overlaps_any(start, end, start[claims], end[claims])
        return _KeptSelection(kept, value_ids, first_rows, occurrences.doc_no[first_rows], counts)

    def _rewrite(
        self,
        table: pa.Table,
        text_columns: TextColumns,
        occurrences: _BatchOccurrences,
        column_values: pl.DataFrame,
        swept: CellSpans,
        terms: Sequence[SearchTerms],
    ) -> _RewriteAttempt:
        """Rewrite the documents in `table`, and search the result for the values of `terms`."""
        selection = self.select_kept(occurrences)
        # an editor that decides in corpus order compares its surrogates with the values up to each
        # document
        is_ordered = any(editor.is_sequential for editor in self.plan.editors)
        kind, *known = (
            column_values[name].to_numpy() for name in ("kind", "value_id", "first_doc_no")
        )
        parts = [FirstForms.collect(np.empty(0, np.int64), np.empty(0, np.int64))]
        if is_ordered:
            parts += [occurrences.collect_forms(self.kind_names, self.key)]
            parts += [_collect_forms(column_values, kind, known[1], list(all_kinds()), self.key)]
        of_texts = (selection.value_ids, selection.first_doc_nos)
        value_ids, first_doc_nos = (
            np.concatenate(columns) for columns in zip(of_texts, known, strict=True)
        )
        self.prior_values.begin_batch(value_ids, first_doc_nos, FirstForms.merge(parts))
        if self.component_pools is not None:
            self.component_pools.discard_unconfirmed()
            self._add_components(occurrences, selection, self.component_pools)
        rules = EditRules(leaves=text_columns.leaves, editors=tuple(self.plan.editors))
        edited = self._build_edited_occurrences(table, rules, occurrences, selection, swept)
        batch = rewrite_batch(rules, table, edited)
        if not terms:
            return _RewriteAttempt(
                batch, selection, CellSpans.empty(), frozenset(), frozenset(), Counter()
            )
        found = self._check_texts(batch, occurrences, terms, rules)
        doc_nos, fields = self._check_kept_columns(batch, terms, text_columns)
        kinds = list(all_kinds())
        inconclusive: Counter[str] = Counter()
        for (kind_no, _), count in found.inconclusive.items():
            inconclusive[kinds[kind_no]] += count
        return _RewriteAttempt(
            batch,
            selection,
            found.to_sweep,
            frozenset(found.leaks.doc_no.tolist()) | doc_nos,
            fields,
            inconclusive,
        )

    def _add_components(
        self,
        occurrences: _BatchOccurrences,
        selection: _KeptSelection,
        component_pools: ComponentLog,
    ) -> None:
        """Add the components of values that are new to the stream, in order of appearance."""
        kind_names = self.kind_names
        new = np.flatnonzero(
            (self.prior_values.value_log.get_tags(selection.value_ids) & VALUE_FLAG) == 0
        )
        new = new[np.argsort(selection.first_rows[new])]
        for name in self.pooled_kinds:
            rows = new[occurrences.kind[selection.first_rows[new]] == kind_names.index(name)]
            if len(rows):
                new_values = pl.DataFrame(
                    {"value_id": selection.value_ids[rows], "doc_no": selection.first_doc_nos[rows]}
                )
                spellings = occurrences.values.unique("value_id", keep="first", maintain_order=True)
                joined = new_values.join(
                    spellings, on="value_id", how="left", maintain_order="left"
                )
                component_pools.add_components(
                    name, to_large_string(joined["normalised"]), joined["doc_no"].to_numpy()
                )

    def _build_edited_occurrences(
        self,
        table: pa.Table,
        rules: EditRules,
        found: _BatchOccurrences,
        selection: _KeptSelection,
        swept: CellSpans,
    ) -> Occurrences:
        """The occurrences of edited kinds and the swept spans, in order."""
        is_edited = np.isin(
            found.kind,
            [self.kind_names.index(name) for name in self.plan.editor_no_by_kind],
        )
        doc_no = numbers_to_numpy(table.column("doc_no"))
        start, end = find_code_points(
            swept, [(doc_no, flatten_cells(table, rules.leaves))] if len(swept) else []
        )
        edited, kind_names = found.take(is_edited), list_kind_names()
        occurrences = [
            Occurrences(
                **{one.name: getattr(spans, one.name) for one in fields(CellSpans)},
                start=first,
                end=last,
                swept=np.full(len(spans), spans is swept),
                erased=np.zeros(len(spans), np.bool_),
                kept=kept,
                kind_names=kind_names,
            )
            for spans, first, last, kept in (
                (edited, edited.start, edited.end, selection.kept[is_edited]),
                (swept, start, end, np.zeros((len(swept), len(rules.editors)), np.bool_)),
            )
        ]
        return Occurrences.concat(occurrences).in_order([False] * len(rules.editors))

    def _check_texts(
        self,
        batch: RewrittenBatch,
        occurrences: _BatchOccurrences,
        terms: Sequence[SearchTerms],
        rules: EditRules,
    ) -> BatchFindings:
        """Search for removed values in the rewritten texts, and decide which a sweep can redact."""
        table = batch.table
        groups = [
            replace(group, texts=fill_null_texts(group.texts))
            for group in group_cells(flatten_cells(table, rules.leaves))
        ]
        kind = pl.Series(np.array(self.kind_names, object)[occurrences.kind], dtype=pl.String)
        tables = BatchTables(
            kept=pl.DataFrame(batch.kept),
            edits=pl.DataFrame(batch.edits),
            occurrences=pl.DataFrame(
                {
                    **{
                        name: getattr(occurrences, name)
                        for name in ("doc_no", "cell", "start_byte", "end_byte")
                    },
                    "kind": kind,
                }
            ),
            atomic_kinds=self.atomic_kinds,
            find_drawn_before=self.prior_values.find_drawn_before,
        )
        return check_batch(
            terms,
            groups,
            numbers_to_numpy(table.column("doc_no")),
            tables,
            self.searched_forms,
        )

    def _check_kept_columns(
        self, batch: RewrittenBatch, terms: Sequence[SearchTerms], text_columns: TextColumns
    ) -> tuple[frozenset[int], frozenset[str]]:
        """Search for removed values in texts of kept columns, in numbers, and in field names: where
        one is found it cannot be swept. Returns the documents and the field names with one."""
        checked_docs = set(batch.table.column("doc_no").to_pylist())
        all_doc_nos = numbers_to_numpy(text_columns.table.column("doc_no"))
        offset = int(all_doc_nos[0]) - int(text_columns.record_rows[0]) if len(all_doc_nos) else 0
        names = texts_to_arrow(text_columns.field_names)
        columns = [texts for texts, _ in text_columns.kept_texts] + [names]
        found_texts = [
            find_texts_with_values(terms, texts, self.searched_forms) for texts in columns
        ]
        leaking_doc_nos = frozenset(
            row
            for (_, rows), text_nos in zip(text_columns.kept_texts, found_texts[:-1], strict=True)
            for text_no in text_nos
            if (row := int(rows[text_no]) + offset) in checked_docs
        )
        return leaking_doc_nos, frozenset(
            text_columns.field_names[text_no] for text_no in found_texts[-1]
        )

    def _count_by_kind(
        self, batch: RewrittenBatch, found: _BatchOccurrences
    ) -> dict[str, dict[str, int]]:
        """Counts by kind: `occurrences`, `kept`, and `left` (those that the plan leaves)."""
        kind_names, plan = self.kind_names, self.plan
        left_numbers = [
            kind_names.index(name)
            for name in plan.leave
            if name in kind_names and name not in plan.editor_no_by_kind
        ]
        left = np.bincount(
            found.kind[np.isin(found.kind, left_numbers)], minlength=len(kind_names)
        ).tolist()
        edited = batch.count_outcomes()
        counts = {}
        for name, left_count in zip(kind_names, left, strict=True):
            outcomes = edited.get(name, {"occurrences": 0, "kept": 0})
            if outcomes["occurrences"] or left_count:
                counts[name] = {
                    "occurrences": outcomes["occurrences"] + left_count,
                    "kept": outcomes["kept"],
                    "left_by_plan": left_count,
                }
        return counts


def _count_earlier(numbers: I64) -> I64:
    """For each number, how many equal ones come before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    count = np.empty(len(numbers), np.int64)
    count[order] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered, side="left")
    return count


def _filter_rows(table: pa.Table, rows: Mask) -> pa.Table:
    """The rows of a table as one chunk; an empty table if there are none."""
    return (
        table.filter(pa.array(rows)).combine_chunks() if rows.any() else table.schema.empty_table()
    )


def get_max_keep(editors: Sequence[Editor]) -> int:
    """The largest `keep` of the editors: occurrences of a value need not be counted beyond it."""
    return max((editor.keep for editor in editors), default=0)
