"""Rewrites a batch of documents: runs the editors on its occurrences, resolves overlapping edits,
and splices the rest into the texts.

The one implementation for runs and streams. A run reads the occurrences of a batch from its tables,
and a stream finds them just before; which originals are kept was decided by then, and what occurs
earlier in the corpus the editors ask their prior values. Tables and arrays in, a table out; only
`Occurrences.kept` is changed, where a mechanism touches no span of an occurrence.
Every byte outside the edits equals the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I32, I64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    fill_null_texts,
    numbers_to_arrow,
    numbers_to_numpy,
    slice_spans,
    splice,
    texts_to_arrow,
    to_large_string,
)
from sanitize.core.intervals import (
    begins_group,
    flatten_spans,
    overlaps_any,
    sort_spans,
    to_output_offsets,
)
from sanitize.core.part_protocols import EditBatch, Editor, TextBatch, TextEditor, TextEdits
from sanitize.core.span_table import ArrayTable, CellSpans
from sanitize.core.text_cells import LeafPath, replace_leaf_texts
from sanitize.kernels import edit_overlaps
from sanitize.kinds.kind import all_kinds
from sanitize.storage import table_schemas
from sanitize.storage.corpus import CellColumn, flatten_cells
from sanitize.text.decodings.plain_readings import to_plain_spelling
from sanitize.text.erased_addresses import ErasedAddresses

ERASURE_PART = "subject"  # the name in `edits` of the part that erases a person
WORD_KIND = "WORD"  # the kind of an edit without an occurrence
_NO_VALUE = -1

KEPT_SCHEMA = pa.schema(
    [
        pa.field("doc_no", pa.int64()),
        pa.field("cell", pa.int32()),
        pa.field("start_byte", pa.int64()),
        pa.field("end_byte", pa.int64()),
        pa.field("value_id", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class EditRules:
    """How batches are rewritten."""

    leaves: tuple[LeafPath, ...]
    editors: tuple[Editor, ...]  # opened, in the order of the plan
    by_position: bool = False  # draws depend on doc_no instead of doc_id, because ids repeat
    erased_addresses: ErasedAddresses | None = None  # no replacement may have one


# ---- occurrences ----


@dataclass(frozen=True, repr=False, kw_only=True)
class Occurrences(CellSpans):
    """Occurrences as rewriting needs them, in order: by document, cell, start, longest first. Kinds
    are numbers in `kind_names`: those of `all_kinds()`, behind them the kinds that only the tables
    of an index name, and `WORD_KIND`."""

    start: I64  # in code points: what editors see, and their draws depend on
    end: I64
    swept: Mask  # added by the leak check
    erased: Mask  # of the value of an erased person: no editor may keep it
    kept: Mask  # a column for each editor
    kind_names: tuple[str, ...]

    def in_order(self, keeps_swept: Sequence[bool]) -> Occurrences:
        """The occurrences in order. No editor keeps an occurrence of an erased value, one that the
        leak check added, or one that overlaps an added one; except those with `keeps_swept`, which
        keep all but the occurrences that they list."""
        start, end = self.to_axis()
        is_refused = self.swept | self.erased
        is_refused |= overlaps_any(start, end, start[self.swept], end[self.swept])
        kept = self.kept & (~is_refused[:, None] | np.array(keeps_swept, np.bool_))
        return replace(self, kept=kept).take(_sort_swept_first(start, end, self.swept))

    def select_kinds(self, kinds: Iterable[str]) -> Mask:
        """True for the occurrences of these kinds."""
        numbers = {name: number for number, name in enumerate(self.kind_names)}
        is_selected = np.zeros(len(numbers), np.bool_)
        is_selected[[numbers[name] for name in kinds if name in numbers]] = True
        selected: Mask = is_selected[self.kind]
        return selected

    def number_cells(self) -> I64:
        """A number for the cell of each occurrence, ascending in the order of the occurrences."""
        new = (np.diff(self.doc_no, prepend=-1) != 0) | (np.diff(self.cell, prepend=-1) != 0)
        return np.cumsum(new).astype(np.int64)


def list_kind_names(others: Iterable[str] = ()) -> tuple[str, ...]:
    """The kinds of `Occurrences.kind_names`, where the tables of an index name `others`."""
    return tuple(dict.fromkeys([*all_kinds(), *others, WORD_KIND]))


def _sort_swept_first(start: I64, end: I64, is_swept: Mask) -> npt.NDArray[np.intp]:
    """The order of `sort_spans`; of equal spans the swept one is first, so that its edit stays
    where edits overlap."""
    return np.lexsort((~is_swept, -end, start)) if is_swept.any() else sort_spans(start, end)


@dataclass(frozen=True, repr=False, kw_only=True)
class _LocatedOccurrences(Occurrences):
    """Occurrences of a batch, and for each the number of its leaf and of its text in the flat
    column of that leaf."""

    leaf_no: I64
    text_no: I64


# ---- edits ----


@dataclass(frozen=True, repr=False)
class _Edits(ArrayTable):
    """Edits in order of position; `occurrence_row` is the row of the occurrence, `editor_no` the
    position of the editor in the plan."""

    occurrence_row: I64
    start_byte: I64
    end_byte: I64
    editor_no: I32
    replacement: pa.LargeStringArray


@dataclass(frozen=True, repr=False)
class _Proposal:
    """The edits that one editor proposes, in any order. `occurrence_row` counts on behind the
    occurrences for the edits of `words`."""

    edits: _Edits
    draw_no: I64 | None = None  # of edits that a privacy mechanism drew
    words: _LocatedOccurrences | None = None  # spans that an editor of texts chose itself
    labels: pa.Table | None = None  # rows of the table `labels`
    is_wider: bool = False  # an edit may cover other bytes than its occurrence

    @property
    def keeps_order(self) -> bool:
        """True if the edits lie in the order of their occurrences."""
        return self.words is None and not self.is_wider


@dataclass(frozen=True, repr=False)
class RewrittenBatch:
    """A rewritten batch of documents: edits of all editors, with overlaps resolved and applied to
    the texts."""

    table: pa.Table  # the documents
    edits: pa.Table
    kept: pa.Table
    labels: tuple[pa.Table, ...]
    occurrences: Occurrences  # with the words that editors chose themselves
    kept_rows: I64  # of these
    draws_spent: tuple[I32, I64, I64, I64]  # editor, document, leaf and draw of each
    word_count: int

    def count_outcomes(self) -> dict[str, dict[str, int]]:
        """Numbers of occurrences, and of those the kept and the swept ones, by kind."""
        names, kind_no = self.occurrences.kind_names, self.occurrences.kind
        kinds = {
            "occurrences": kind_no,
            "kept": kind_no[self.kept_rows],
            "swept": kind_no[self.occurrences.swept],
        }
        counts = {name: np.bincount(rows, minlength=len(names)) for name, rows in kinds.items()}
        return {
            names[kind]: {outcome: int(count[kind]) for outcome, count in counts.items()}
            for kind in np.flatnonzero(counts["occurrences"]).tolist()
        }

    def count_erased(self) -> Counter[str]:
        """Numbers of occurrences of erased persons, by kind."""
        names, kind_no = self.occurrences.kind_names, self.occurrences.kind
        counts = np.bincount(kind_no[self.occurrences.erased], minlength=len(names))
        return Counter(dict(zip(names, counts.tolist(), strict=True)))


def rewrite_batch(rules: EditRules, table: pa.Table, occurrences: Occurrences) -> RewrittenBatch:
    """The batch `table` with the edits that the editors propose for its occurrences, which are in
    order (`Occurrences.in_order`); marks in `kept` those that a mechanism did not touch."""
    columns = flatten_cells(table, rules.leaves)
    buffers = [TextBuffers.from_array(fill_null_texts(column.flat.texts)) for column in columns]
    found, row = _locate_occurrences(table, columns, occurrences)
    draw_ids = (
        table.column("doc_no").chunk(0).cast(pa.large_string())
        if rules.by_position
        else table.column("doc_id").chunk(0)
    )
    texts = _BatchTexts(columns, buffers, numbers_to_numpy(table.column("doc_no")), draw_ids, table)
    proposals = list(_propose(rules, found, row, texts))
    found, proposed, draw_no = _combine(proposals, found)
    edits = _resolve_overlaps(proposed, found)
    drawn = np.flatnonzero(draw_no[edits.occurrence_row] >= 0)
    rows = edits.occurrence_row[drawn]
    kept_rows, moved_by = _find_untouched_originals(edits, found)
    return RewrittenBatch(
        table=_apply_edits(table, columns, buffers, found, edits),
        edits=_build_edit_table(rules, edits, found),
        kept=_build_kept_table(rules, found, kept_rows, moved_by),
        labels=tuple(one.labels for one in proposals if one.labels is not None),
        occurrences=found,
        kept_rows=kept_rows,
        draws_spent=(
            edits.editor_no[drawn],
            found.doc_no[rows],
            found.leaf_no[rows],
            draw_no[rows],
        ),
        word_count=int((found.value_id[edits.occurrence_row] == _NO_VALUE).sum()),
    )


def _apply_edits(
    table: pa.Table,
    columns: Sequence[CellColumn],
    buffers: Sequence[TextBuffers],
    found: _LocatedOccurrences,
    edits: _Edits,
) -> pa.Table:
    """The documents with the edits in their texts."""
    new_texts: dict[str, dict[LeafPath, pa.Array]] = {}
    edit_leaf_no = found.leaf_no[edits.occurrence_row]
    edits_by_leaf = (
        edits.take(np.argsort(edit_leaf_no, kind="stable")) if len(columns) > 1 else edits
    )
    edge = 0
    for leaf_no, count in zip(*np.unique(edit_leaf_no, return_counts=True), strict=True):
        column, column_edits = (
            columns[leaf_no],
            edits_by_leaf.take(slice(edge, edge := edge + count)),
        )
        texts_of_column = new_texts.setdefault(column.leaf.column, {})
        texts_of_column[column.leaf] = _splice_texts(
            column, buffers[leaf_no], found.text_no[column_edits.occurrence_row], column_edits
        )
    return replace_columns(
        table,
        {
            name: replace_leaf_texts(table.column(name).chunk(0), texts)
            for name, texts in new_texts.items()
        },
    )


# ---- proposals ----


def _propose(
    rules: EditRules, found: _LocatedOccurrences, row: I64, texts: _BatchTexts
) -> Iterator[_Proposal]:
    """Yields what the editors propose, in plan order; a kind belongs to the first editor that
    names it. Erased values come last, and swept ones of kinds that no editor names."""
    values = _cut_values(texts.buffers, found)
    doc_ids = pa.DictionaryArray.from_arrays(numbers_to_arrow(row.astype(np.int32)), texts.draw_ids)
    unclaimed, next_row = ~found.erased, len(found)
    for editor_no, editor in enumerate(rules.editors):
        is_own = found.select_kinds(editor.kinds)
        rows = np.flatnonzero(is_own & unclaimed)
        unclaimed = unclaimed & ~is_own
        if isinstance(editor, TextEditor):
            touched = []
            for proposal in texts.iter_proposals(editor_no, editor, found, rows, next_row):
                next_row += len(proposal.words) if proposal.words else 0
                touched.append(proposal.edits.occurrence_row)
                yield proposal
            if editor.privacy_unit:
                # an occurrence that no span of the mechanism touches is kept
                found.kept[np.setdiff1d(rows, np.concatenate(touched)), editor_no] = True
        elif len(rows):
            yield _propose_for_occurrences(rules, editor_no, editor, found, rows, values, doc_ids)
    for part_no, is_labelled in enumerate(
        (found.erased, found.swept & unclaimed), len(rules.editors)
    ):
        if is_labelled.any():
            yield _propose_labels(found, np.flatnonzero(is_labelled), part_no)


def _propose_for_occurrences(
    rules: EditRules,
    editor_no: int,
    editor: Editor,
    occurrences: Occurrences,
    rows: I64,
    values: pa.Array,
    doc_ids: pa.DictionaryArray,
) -> _Proposal:
    """What an editor of occurrences proposes for those at `rows`."""
    kinds = pa.DictionaryArray.from_arrays(
        numbers_to_arrow(occurrences.kind[rows]), texts_to_arrow(occurrences.kind_names)
    ).cast(pa.large_string())
    frame = pl.DataFrame(
        {
            **{
                name: getattr(occurrences, name)[rows]
                for name in ("doc_no", "cell", "start", "end", "value_id", "swept")
            },
            "kind": pl.Series(kinds),
            "kept": occurrences.kept[rows, editor_no],
            "value": pl.Series(to_plain_spelling(values.take(numbers_to_arrow(rows)))),
        }
    )
    batch = EditBatch(occurrences=frame, doc_ids=doc_ids.take(numbers_to_arrow(rows)))
    proposed = editor.edit_occurrences(batch)
    replacement = proposed.replacement
    if rules.erased_addresses:
        replacement = _label_erased_addresses(
            rules.erased_addresses, frame["kind"].gather(proposed.rows), replacement
        )
    changed_rows = rows[proposed.rows]
    start, end = proposed.byte_spans or (
        occurrences.start_byte[changed_rows],
        occurrences.end_byte[changed_rows],
    )
    edits = _Edits(
        changed_rows, start, end, np.full(len(changed_rows), editor_no, np.int32), replacement
    )
    return _Proposal(edits, labels=proposed.labels, is_wider=proposed.byte_spans is not None)


def _propose_labels(occurrences: Occurrences, rows: I64, part_no: int) -> _Proposal:
    """Labels in the place of the occurrences at `rows`."""
    labels = pa.array([f"[{name}]" for name in occurrences.kind_names], pa.large_string())
    numbers = np.full(len(rows), part_no, np.int32)
    replacement = labels.take(numbers_to_arrow(occurrences.kind[rows]))
    return _Proposal(
        _Edits(rows, occurrences.start_byte[rows], occurrences.end_byte[rows], numbers, replacement)
    )


# ---- results ----


def _build_kept_table(
    rules: EditRules, occurrences: Occurrences, kept_rows: I64, moved_by: I64
) -> pa.Table:
    """The kept originals that the leak check searches for, in bytes of the output. `moved_by`
    is for each of `kept_rows`."""
    is_searched = np.ones(len(kept_rows), np.bool_)
    # occurrences that a mechanism leaves by its privacy claim are counted, but the leak check
    # does not search for them
    for editor_no, editor in enumerate(rules.editors):
        if editor.removal_policy == "ledger":
            is_searched &= ~occurrences.kept[kept_rows, editor_no]
    # nor for texts that also occur with other meanings
    ambiguous_kinds = [name for name, kind in all_kinds().items() if kind.ambiguous_text]
    is_searched &= ~occurrences.select_kinds(ambiguous_kinds)[kept_rows]
    kept, moved_by = kept_rows[is_searched], moved_by[is_searched]
    start, end = (
        column[kept] + moved_by for column in (occurrences.start_byte, occurrences.end_byte)
    )
    doc_no, cell = occurrences.doc_no[kept], occurrences.cell[kept]
    columns: list[I64 | I32] = [doc_no, cell, start, end, occurrences.value_id[kept]]
    return pa.Table.from_arrays([numbers_to_arrow(one) for one in columns], schema=KEPT_SCHEMA)


def replace_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """The table with the columns of these names replaced. One pass, where `set_column` copies the
    list of columns for each."""
    fields = [
        pa.field(field.name, columns[field.name].type) if field.name in columns else field
        for field in table.schema
    ]
    arrays = [
        columns.get(field.name, column) for field, column in zip(fields, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=table.schema.metadata))


def _group_rows(numbers: I64) -> Iterator[tuple[int, I64]]:
    """Yields each number that occurs, ascending, and its rows, ascending."""
    order = np.argsort(numbers, kind="stable")
    firsts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    yield from zip(numbers[order[firsts]].tolist(), np.split(order, firsts[1:]), strict=False)


def _splice_texts(
    column: CellColumn, buffers: TextBuffers, text_no: I64, edits: _Edits
) -> pa.Array:
    """The texts of one column of cells, with its edits applied."""
    base = buffers.offsets[text_no]
    starts, ends = base + edits.start_byte, base + edits.end_byte
    assert (starts[1:] >= ends[:-1]).all()
    texts = splice(buffers, starts, ends, edits.replacement)
    if column.flat.texts.null_count:
        texts = pc.if_else(column.flat.texts.is_valid(), texts, pa.scalar(None, pa.large_string()))
    return texts


class _CombinedProposals(NamedTuple):
    """The occurrences, with the spans of edits that belong to none among them; the edits; and for
    each occurrence the number of its draw, or -1."""

    found: _LocatedOccurrences
    edits: _Edits
    draw_no: I64


def _combine(proposals: Sequence[_Proposal], found: _LocatedOccurrences) -> _CombinedProposals:
    """All proposed edits in order of position, which may overlap."""
    words = [proposal.words for proposal in proposals if proposal.words is not None]
    new_row_of = np.arange(len(found))
    if words:
        found = _LocatedOccurrences.concat([found, *words])
        order = sort_spans(*found.to_axis())
        found, new_row_of = found.take(order), np.argsort(order)
    draw_no = np.full(len(found), -1, np.int64)
    for proposal in proposals:
        if proposal.draw_no is not None:
            draw_no[new_row_of[proposal.edits.occurrence_row]] = proposal.draw_no
    if not proposals:
        return _CombinedProposals(found, _Edits.empty(), draw_no)
    parts = [proposal.edits for proposal in proposals]
    edits = _Edits.concat(parts)
    edits = replace(edits, occurrence_row=new_row_of[edits.occurrence_row])
    if all(proposal.keeps_order for proposal in proposals):
        if not (edits.occurrence_row[1:] >= edits.occurrence_row[:-1]).all():
            edits = edits.take(np.argsort(edits.occurrence_row, kind="stable"))
        return _CombinedProposals(found, edits, draw_no)
    cell = found.number_cells()[edits.occurrence_row]
    (axis,) = flatten_spans((cell, edits.start_byte, edits.end_byte))
    edits = edits.take(_sort_swept_first(*axis, found.swept[edits.occurrence_row]))
    return _CombinedProposals(found, edits, draw_no)


def _resolve_overlaps(edits: _Edits, occurrences: Occurrences) -> _Edits:
    """Edits that do not overlap. An edit inside another is removed; of two that cross, that of the
    later editor is cut, and masks what is left of it."""
    cell = occurrences.number_cells()[edits.occurrence_row]
    (axis,) = flatten_spans((cell, edits.start_byte, edits.end_byte))
    begins = begins_group(*axis)
    if begins.all():
        return edits
    start, end = edits.start_byte.copy(), edits.end_byte.copy()
    is_left, is_masked = np.ones(len(edits), np.bool_), np.zeros(len(edits), np.bool_)
    flags = (column.view(np.uint8) for column in (begins, is_left, is_masked))
    edit_overlaps.cut_overlaps(start, end, edits.editor_no, *flags, np.empty(len(edits), np.int64))
    replacement = edits.replacement
    if is_masked.any():
        offsets = np.append(0, np.cumsum(np.maximum(end - start, 0)[is_masked]))
        masks = TextBuffers(np.full(offsets[-1], ord("*"), np.uint8), offsets).to_array()
        replacement = pc.replace_with_mask(replacement, pa.array(is_masked), masks)
    resolved = _Edits(edits.occurrence_row, start, end, edits.editor_no, replacement)
    is_left &= end > start
    return resolved.take(np.flatnonzero(is_left))


def _build_edit_table(rules: EditRules, edits: _Edits, occurrences: Occurrences) -> pa.Table:
    """The rows of the table `edits`."""
    parts = texts_to_arrow(
        [*(editor.use for editor in rules.editors), ERASURE_PART, table_schemas.SWEEP_FINDER]
    ).cast(pa.string())
    kind_names = texts_to_arrow(occurrences.kind_names).cast(pa.string())
    arrays = {
        "doc_no": numbers_to_arrow(occurrences.doc_no[edits.occurrence_row]),
        "cell": numbers_to_arrow(occurrences.cell[edits.occurrence_row]),
        "start_byte": numbers_to_arrow(edits.start_byte),
        "end_byte": numbers_to_arrow(edits.end_byte),
        "replacement": edits.replacement,
        "part": pa.DictionaryArray.from_arrays(numbers_to_arrow(edits.editor_no), parts),
        "kind": pa.DictionaryArray.from_arrays(
            numbers_to_arrow(occurrences.kind[edits.occurrence_row]), kind_names
        ),
    }
    return pa.table(
        [arrays[name] for name in table_schemas.EDITS.schema.names],
        schema=table_schemas.EDITS.schema,
    )


def _find_untouched_originals(edits: _Edits, occurrences: Occurrences) -> tuple[I64, I64]:
    """The rows of kept occurrences that no edit touches, and by how many bytes the edits before
    them move each."""
    kept = np.flatnonzero(occurrences.kept.any(axis=1))
    cell = occurrences.number_cells()
    edit_cell, start = cell[edits.occurrence_row], occurrences.start_byte
    kept_axis, edit_axis = flatten_spans(
        (cell[kept], start[kept], occurrences.end_byte[kept]),
        (edit_cell, edits.start_byte, edits.end_byte),
    )
    kept = kept[~overlaps_any(*kept_axis, *edit_axis)]
    sizes = TextBuffers.from_array(edits.replacement).lengths
    return kept, to_output_offsets(
        (edit_cell, edits.start_byte, edits.end_byte, sizes), cell[kept], start[kept]
    ) - start[kept]


@dataclass(frozen=True, repr=False)
class _BatchTexts:
    """The texts of a batch for editors that read them, and the text that the draws of each document
    depend on."""

    columns: list[CellColumn]
    buffers: list[TextBuffers]
    doc_no: I64
    draw_ids: pa.Array
    table: pa.Table

    def iter_proposals(
        self,
        editor_no: int,
        editor: TextEditor,
        found: _LocatedOccurrences,
        editor_rows: I64,
        next_row: int,
    ) -> Iterator[_Proposal]:
        """Yields what an editor of texts proposes, column by column. Edits without an occurrence
        are numbered from `next_row` on."""
        rows_of_leaves = dict(_group_rows(found.leaf_no[editor_rows]))
        for leaf_no, column in enumerate(self.columns):
            column_rows = editor_rows[rows_of_leaves.get(leaf_no, np.empty(0, np.int64))]
            doc_no = self.doc_no[column.flat.rows]
            edits: TextEdits = editor.edit_texts(
                self._build_batch(editor, leaf_no, found, column_rows)
            )
            is_word = edits.occurrence_no < 0
            word_count = int(is_word.sum())
            row = np.empty(len(is_word), np.int64)
            row[is_word] = next_row + np.arange(word_count)
            row[~is_word] = column_rows[edits.occurrence_no[~is_word]]
            next_row += word_count
            text_no = edits.text_no[is_word]
            # editors that read texts count bytes only: `start` and `end` of a word are bytes, too
            start, end = edits.start_byte[is_word], edits.end_byte[is_word]
            words = _LocatedOccurrences(
                doc_no=doc_no[text_no],
                cell=column.cell[text_no],
                start_byte=start,
                end_byte=end,
                kind=np.full(word_count, found.kind_names.index(WORD_KIND), np.int32),
                value_id=np.full(word_count, _NO_VALUE, np.int64),
                start=start,
                end=end,
                swept=np.zeros(word_count, np.bool_),
                erased=np.zeros(word_count, np.bool_),
                kept=np.zeros((word_count, found.kept.shape[1]), np.bool_),
                kind_names=found.kind_names,
                leaf_no=np.full(word_count, leaf_no, np.int64),
                text_no=text_no,
            )
            numbers = np.full(len(row), editor_no, np.int32)
            yield _Proposal(
                _Edits(row, edits.start_byte, edits.end_byte, numbers, edits.replacement),
                edits.draw_no,
                words,
            )

    def _build_batch(
        self, editor: TextEditor, leaf_no: int, found: _LocatedOccurrences, rows: I64
    ) -> TextBatch:
        """One column of texts, with the occurrences at `rows`."""
        column = self.columns[leaf_no]
        names = ("doc_no", "cell", "start", "start_byte", "end_byte", "value_id")
        frame = pl.DataFrame({name: getattr(found, name)[rows] for name in names})
        document_rows = column.flat.rows
        return TextBatch(
            self.doc_no[document_rows],
            column.cell,
            self.buffers[leaf_no].to_array(),
            frame.with_columns(text_no=pl.Series(found.text_no[rows])),
            pa.DictionaryArray.from_arrays(pa.array(document_rows.astype(np.int32)), self.draw_ids),
            self.table.select(list(editor.required_columns)).take(pa.array(document_rows))
            if editor.required_columns
            else None,
        )


def _locate_occurrences(
    table: pa.Table, columns: Sequence[CellColumn], occurrences: Occurrences
) -> tuple[_LocatedOccurrences, I64]:
    """The occurrences of the documents in `table`, located in its cells, and the row of the
    document of each."""
    doc_no = numbers_to_numpy(table.column("doc_no"))
    row = np.searchsorted(doc_no, occurrences.doc_no)
    is_present = (row < len(doc_no)) & (
        doc_no[np.minimum(row, len(doc_no) - 1)] == occurrences.doc_no
    )
    if not is_present.all():  # occurrences of dropped documents
        present = np.flatnonzero(is_present)
        occurrences, row = occurrences.take(present), row[present]
    if len(columns) == 1 and not columns[0].leaf.steps:
        located = occurrences.extend(
            _LocatedOccurrences, leaf_no=np.zeros(len(row), np.int64), text_no=row
        )
        return located, row
    cells_per_row = np.zeros(table.num_rows, np.int64)
    for column in columns:
        cells_per_row += np.bincount(column.flat.rows, minlength=table.num_rows)
    first_cell_of_row = np.concatenate([[0], np.cumsum(cells_per_row)])
    # by the number of a cell in the batch: its leaf, and its position in the flat column of that
    # leaf
    leaf_of, text_of = (
        np.empty(first_cell_of_row[-1], np.int64),
        np.empty(first_cell_of_row[-1], np.int64),
    )
    for leaf_no, column in enumerate(columns):
        cell_no = first_cell_of_row[column.flat.rows] + column.cell
        leaf_of[cell_no], text_of[cell_no] = leaf_no, np.arange(len(cell_no))
    cell_no = first_cell_of_row[row] + occurrences.cell
    located = occurrences.extend(
        _LocatedOccurrences, leaf_no=leaf_of[cell_no], text_no=text_of[cell_no]
    )
    return located, row


def _cut_values(buffers: Sequence[TextBuffers], found: _LocatedOccurrences) -> pa.Array:
    """The text of every occurrence."""
    pieces, rows_of_pieces = [], []
    for leaf_no, rows in _group_rows(found.leaf_no):
        base = buffers[leaf_no].offsets[found.text_no[rows]]
        start, end = (
            base + found.start_byte[rows],
            base + found.end_byte[rows],
        )
        pieces.append(slice_spans(buffers[leaf_no], start, end))
        rows_of_pieces.append(rows)
    if not pieces:
        return pa.array([], pa.large_string())
    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(rows_of_pieces))))


def _label_erased_addresses(
    erased_addresses: ErasedAddresses, kinds: pl.Series, replacement: pa.Array
) -> pa.LargeStringArray:
    """The replacements; one that has an erased address becomes a label."""
    replacements = pl.Series(replacement)
    is_erased = erased_addresses.are_in(replacements)
    return to_large_string(
        pl.select(
            pl.when(is_erased)
            .then(pl.concat_str(pl.lit("["), kinds, pl.lit("]")))
            .otherwise(replacements)
        ).to_series()
    )
