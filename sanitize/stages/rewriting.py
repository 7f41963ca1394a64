"""Rewrites one task: documents + occurrences + editors -> sanitized documents, a table of edits, and the spans of kept originals.

A pure function of a task. The text is read once. Editors are given the occurrences of their kinds, batches of whole documents at a time;
overlapping edits are resolved, and all edits of a column are applied in one pass. Every byte outside the edits equals the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts, slice_nested_spans, splice, to_large_string
from sanitize.core.keys import Key, pseudonymize_column
from sanitize.core.part_protocols import Aggregates, EditBatch, Editor, TextBatch, TextEdits
from sanitize.core.text_cells import LeafPath, replace_leaf_texts
from sanitize.kinds.kind import all_kinds
from sanitize.stages.prior_values import attach_prior_values
from sanitize.stages.privacy_ledger import LedgerWriter
from sanitize.storage import table_schemas
from sanitize.storage.corpus import CellColumn, Documents, flatten_cells
from sanitize.storage.parquet_files import RowGroupWriter, open_table_writer, open_text_writer

I64 = npt.NDArray[np.int64]
ERASURE_PART = "subject"  # the name in `edits` of the part that erases a person
VERSION = 2  # raise it when emitted bytes change for the same input, plan and key

KEPT_SCHEMA = pa.schema(
    [
        pa.field("doc_no", pa.int64()),
        pa.field("cell", pa.int32()),
        pa.field("start_byte", pa.int64()),
        pa.field("end_byte", pa.int64()),
        pa.field("value_id", pa.int64()),
    ]
)


WORD_KIND = "WORD"  # the kind of an edit without an occurrence
_NO_VALUE = -1
ROWS_SCHEMA = pa.schema([pa.field("doc_no", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class RewriteTask:
    """One range of documents to rewrite: one output shard."""

    no: int
    first_doc_no: int
    end_doc_no: int
    documents: Documents
    leaves: tuple[LeafPath, ...]
    policies: Mapping[str, str]  # output column -> sanitize | keep | pseudonymize | drop
    key: Key
    editors: tuple[Editor, ...]
    aggregates: tuple[Aggregates, ...]
    occurrences: tuple[Path, ...]  # of this task: those of the index, and those that the sweep added
    by_position: bool  # draws depend on doc_no instead of doc_id, because ids repeat
    excluded_docs: tuple[int, ...]  # quarantined and dropped documents of the range
    folder: Path
    erased_value_ids: tuple[int, ...] = ()  # values of erased persons: replaced by a label, whatever the plan does
    erased_local_parts: tuple[str, ...] = ()  # local parts of their addresses: no replacement may contain one
    other_surrogate_files: tuple[Path, ...] = ()  # for sequential editors: the variants that other tasks generated

    @property
    def description(self) -> str:
        """The task in words, for an error."""
        return self.documents.describe_range(self.first_doc_no, self.end_doc_no)


def output_schema(documents: Documents, policies: Mapping[str, str]) -> pa.Schema:
    """The schema of the output shards: the columns of the documents without the dropped ones."""
    return pa.schema([field for field in documents.schema if policies[field.name] != "drop"])


def rewrite_task(task: RewriteTask) -> dict[str, Any]:
    """Rewrite one task. Writes `shard`, `edits`, `kept`, `labels` and `rows` (.parquet) to its folder, the privacy ledger where an editor
    spends, and `made.parquet` (generated variants) where one is sequential. Returns `rows` and `bytes` of the shard and counts of
    occurrences by outcome."""
    for editor, aggregates in zip(task.editors, task.aggregates, strict=True):
        editor.open(task.key, aggregates)
    prior_values = attach_prior_values(task.editors, task.aggregates, task.other_surrogate_files)
    occurrences = _load_task_occurrences(task)
    schema = output_schema(task.documents, task.policies)
    outcome_counts = _OutcomeCounts()
    excluded = np.array(task.excluded_docs, np.int64)
    rows = 0
    shard = task.folder / "shard.parquet"
    with (
        open_text_writer(shard, schema) as out,
        open_table_writer(task.folder / "edits.parquet", table_schemas.EDITS.schema) as edits_out,
        open_table_writer(task.folder / "kept.parquet", KEPT_SCHEMA) as kept_out,
        open_table_writer(task.folder / "labels.parquet", table_schemas.LABELS.schema) as labels_out,
        open_table_writer(task.folder / "rows.parquet", ROWS_SCHEMA) as rows_out,
        LedgerWriter(task.editors, task.folder) as ledger,
    ):
        group_writer = RowGroupWriter(out)
        next_row = 0
        names = [name for name in task.documents.schema.names if task.policies[name] != "drop"]
        required = [name for editor in task.editors for name in editor.required_columns]
        for table in task.documents.read(task.first_doc_no, task.end_doc_no, [*dict.fromkeys(["doc_id", *names, *required])]):
            table = table.combine_chunks()
            end_row = int(np.searchsorted(occurrences.doc_no, table.column("doc_no")[-1].as_py(), side="right"))
            if len(excluded):
                table = table.filter(pc.invert(pc.is_in(table.column("doc_no"), value_set=pa.array(excluded)))).combine_chunks()
            if not table.num_rows:
                next_row = end_row
                continue
            rewriter = BatchRewriter(task, table, occurrences.slice(next_row, end_row))
            next_row = end_row
            for values in prior_values:
                values.commit_batch()
            rows_out.write_table(table.select(["doc_no"]))
            edits_out.write_table(rewriter.edits)
            kept_out.write_table(rewriter.kept)
            for labels in rewriter.labels:
                labels_out.write_table(labels)
            ledger.add(*rewriter.draws_spent)
            outcome_counts.add(rewriter)
            output = _pseudonymize_columns(task, rewriter.table).select(schema.names)
            group_writer.add(output)
            rows += output.num_rows
        group_writer.flush()
        if not rows:
            out.write_table(schema.empty_table())
    for values in prior_values:
        values.write_surrogates(task.folder / "surrogate_ids.parquet")
    outcomes = {
        "by_kind": outcome_counts.by_kind,
        "masked_spans": outcome_counts.masked_count,
        "masked_words": outcome_counts.word_count,
        "erased": outcome_counts.erased_by_kind,
    }
    return {"rows": rows, "bytes": shard.stat().st_size, **outcomes}


@dataclass(frozen=True, repr=False)
class OccurrenceArrays:
    """The columns of a task's occurrences that rewriting needs, as arrays of one length."""

    doc_no: I64
    cell: npt.NDArray[np.int32]
    start: I64
    end: I64
    start_byte: I64
    end_byte: I64
    kind: npt.NDArray[np.int32]
    value_id: I64
    swept: npt.NDArray[np.bool_]  # added by the leak check
    erased: npt.NDArray[np.bool_]  # of the value of an erased person: no editor may keep it
    kept_by_editor: tuple[npt.NDArray[np.bool_], ...]  # one array per editor
    kind_names: pa.Array

    def slice(self, low: int, high: int) -> OccurrenceArrays:
        return self.take(np.arange(low, high))

    def take(self, rows: I64) -> OccurrenceArrays:
        """The occurrences at the given rows."""
        columns = {name: getattr(self, name)[rows] for name in _ARRAY_FIELDS}
        return OccurrenceArrays(**columns, kept_by_editor=tuple(kept[rows] for kept in self.kept_by_editor), kind_names=self.kind_names)


_ARRAY_FIELDS = ("doc_no", "cell", "start", "end", "start_byte", "end_byte", "kind", "value_id", "swept", "erased")
_OCCURRENCE_COLUMNS = [*_ARRAY_FIELDS[:-2], "finder"]


def _load_task_occurrences(task: RewriteTask) -> OccurrenceArrays:
    """The task's occurrences of edited kinds and of erased values, sorted, with a flag per editor for those that it keeps."""
    edited = sorted({kind for editor in task.editors for kind in editor.kinds})
    tables_read = [pq.read_table(path, columns=_OCCURRENCE_COLUMNS, partitioning=None) for path in task.occurrences]
    table = pa.concat_tables(tables_read).unify_dictionaries().combine_chunks()
    kind = (
        table.column("kind").chunk(0)
        if table.num_rows
        else pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    )
    is_edited = np.isin(np.array(kind.dictionary.to_pylist(), object), edited)
    code = np.asarray(kind.indices, np.int32)
    erased = np.isin(np.asarray(table.column("value_id")), np.array(task.erased_value_ids, np.int64))
    rows = np.flatnonzero(is_edited[code] | erased) if len(code) else np.empty(0, np.int64)
    columns = {name: np.asarray(table.column(name))[rows] for name in _OCCURRENCE_COLUMNS if name not in ("kind", "finder")}
    columns["kind"] = code[rows]
    finder = table.column("finder").chunk(0) if table.num_rows else None
    by_sweep = (
        np.asarray(pc.equal(finder.dictionary, table_schemas.SWEEP_FINDER))[np.asarray(finder.indices)]
        if finder is not None
        else np.empty(0, np.bool_)
    )
    columns["swept"], columns["erased"] = by_sweep[rows], erased[rows]
    if len(tables_read) > 1:
        order = np.lexsort((-columns["end_byte"], columns["start_byte"], columns["cell"], columns["doc_no"]))
        columns = {name: column[order] for name, column in columns.items()}
    # an original cannot be kept where a swept value overlaps it
    may_keep = ~columns["swept"] & ~columns["erased"]
    for row in np.flatnonzero(columns["swept"]):
        low, high = (np.searchsorted(columns["doc_no"], columns["doc_no"][row], side=side) for side in ("left", "right"))
        same_document = slice(int(low), int(high))
        may_keep[same_document] &= (
            (columns["cell"][same_document] != columns["cell"][row])
            | (columns["start_byte"][same_document] >= columns["end_byte"][row])
            | (columns["end_byte"][same_document] <= columns["start_byte"][row])
        )
    kept = tuple(
        _find_kept(task, editor, aggregates, columns, kind.dictionary) & (may_keep | ("removed_occurrences" in aggregates.tables))
        for editor, aggregates in zip(task.editors, task.aggregates, strict=True)
    )
    return OccurrenceArrays(kept_by_editor=kept, kind_names=kind.dictionary, **columns)


def _find_kept(
    task: RewriteTask, editor: Editor, aggregates: Aggregates, columns: dict[str, npt.NDArray[Any]], kind_names: pa.Array
) -> npt.NDArray[np.bool_]:
    """True for the occurrences that the editor keeps: those in its `first_occurrences`, or all but its `removed_occurrences`."""
    has_removals = "removed_occurrences" in aggregates.tables
    kept = np.full(len(columns["doc_no"]), has_removals)
    if not (has_removals or "first_occurrences" in aggregates.tables) or not len(kept):
        return kept
    key_columns = ["doc_no", "cell", "start", "value_id"]
    in_range = [("doc_no", ">=", task.first_doc_no), ("doc_no", "<", task.end_doc_no)]
    listed = pl.DataFrame(
        pq.read_table(
            aggregates.tables["removed_occurrences" if has_removals else "first_occurrences"],
            columns=key_columns,
            filters=in_range,
            partitioning=None,
        )
    )
    all_rows = pl.DataFrame({name: columns[name] for name in key_columns}).with_row_index("row")
    listed = listed.select(pl.col(name).cast(all_rows.schema[name]) for name in key_columns)
    kept[all_rows.join(listed, on=key_columns, how="semi")["row"].to_numpy()] = not has_removals
    is_editor_kind = np.isin(np.array(kind_names.to_pylist(), object), list(editor.kinds))
    is_of_editor: npt.NDArray[np.bool_] = is_editor_kind[columns["kind"]]
    return kept & is_of_editor


class BatchRewriter:
    """A rewritten batch of documents: edits of all editors, with overlaps resolved and applied to the texts.

    Results are attributes: `table` (the documents), `edits`, `kept` and `labels` (tables), `draws_spent`, and counts.
    """

    def __init__(self, task: RewriteTask, table: pa.Table, occurrences: OccurrenceArrays) -> None:
        self.labels: list[pa.Table] = []
        self.masked_count = 0
        self.unchecked_editors = [no for no, editor in enumerate(task.editors) if editor.removal_policy == "ledger"]
        columns = flatten_cells(table, list(task.leaves))
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        row = np.searchsorted(doc_no, occurrences.doc_no)
        is_present = (row < len(doc_no)) & (doc_no[np.minimum(row, len(doc_no) - 1)] == occurrences.doc_no)
        if not is_present.all():  # occurrences of dropped documents
            keep = np.flatnonzero(is_present)
            occurrences, row = occurrences.take(keep), row[keep]
        self.occurrences = occurrences
        leaf, self.text_no = _locate_cells(columns, table.num_rows, row, occurrences.cell)
        buffers = [TextBuffers.from_array(fill_null_texts(column.flat.texts)) for column in columns]
        values = _cut_values(buffers, leaf, self.text_no, occurrences)
        doc_ids = pa.DictionaryArray.from_arrays(pa.array(row.astype(np.int32)), _draw_ids(task, table))
        texts = _BatchTexts(columns, buffers, doc_no, leaf, self.text_no, _draw_ids(task, table), table)
        edits, occurrences, leaf, self.text_no = self._run_editors(task, occurrences, values, doc_ids, texts)
        self.occurrences = occurrences
        edits = self._resolve_overlaps(edits, occurrences)
        self.word_count = int((occurrences.value_id[edits.occurrence_row] == _NO_VALUE).sum())
        drawn = np.flatnonzero(self.draw_by_row[edits.occurrence_row] >= 0)
        rows = edits.occurrence_row[drawn]
        self.draws_spent = (edits.editor_no[drawn], occurrences.doc_no[rows], leaf[rows], self.draw_by_row[rows])
        self.edits = self._build_edit_table(task, edits, occurrences)
        self.kept = self._build_kept_table(edits, occurrences)
        for number, column in enumerate(columns):
            column_edits = np.flatnonzero(leaf[edits.occurrence_row] == number)
            if len(column_edits):
                base = buffers[number].offsets[self.text_no[edits.occurrence_row[column_edits]]]
                starts, stops = base + edits.start_byte[column_edits], base + edits.end_byte[column_edits]
                assert (starts[1:] >= stops[:-1]).all()
                texts = splice(buffers[number], starts, stops, edits.replacement.take(pa.array(column_edits)))
                if column.flat.texts.null_count:
                    texts = pc.if_else(column.flat.texts.is_valid(), texts, pa.scalar(None, pa.large_string()))
                column_no = table.schema.get_field_index(column.leaf.column)
                table = table.set_column(
                    column_no, column.leaf.column, replace_leaf_texts(table.column(column_no).chunk(0), column.leaf, texts)
                )
        self.table = table
        self.edited_rows = edits.occurrence_row

    def _run_editors(
        self, task: RewriteTask, occurrences: OccurrenceArrays, values: pa.Array, doc_ids: pa.DictionaryArray, batch_texts: _BatchTexts
    ) -> tuple[_Edits, OccurrenceArrays, I64, I64]:
        """Run the editors in plan order; a kind belongs to the first editor that names it.

        Returns the edits, the occurrences, and the leaf and text number of each occurrence. Spans without an occurrence that an editor
        found by reading texts are added to the occurrences. Sets `draw_by_row`.
        """
        rows, texts, parts = [], [], []
        words: list[_WordSpans] = []
        draws: list[tuple[I64, I64]] = []
        spans: list[tuple[I64, I64]] = []
        may_reorder = False
        claimed = np.zeros(len(occurrences.kind_names), np.bool_)
        for number, editor in enumerate(task.editors):
            is_editor_kind = np.isin(np.array(occurrences.kind_names.to_pylist(), object), list(editor.kinds)) & ~claimed
            claimed |= is_editor_kind
            editor_rows = (
                np.flatnonzero(is_editor_kind[occurrences.kind] & ~occurrences.erased) if len(occurrences.kind) else np.empty(0, np.int64)
            )
            if editor.reads == "texts":
                for text_edits, row, new_spans in batch_texts.iter_rewrites(
                    editor, occurrences, editor_rows, len(occurrences.doc_no) + sum(len(new_spans.leaf_no) for new_spans in words)
                ):
                    words.append(new_spans)
                    spans.append((text_edits.start_byte, text_edits.end_byte))
                    rows.append(row)
                    if text_edits.draw_no is not None:
                        draws.append((row, text_edits.draw_no))
                    texts.append(text_edits.replacement)
                    parts.append(np.full(len(row), number, np.int32))
                    if editor.privacy_unit:  # an occurrence that no span of the mechanism touches is kept
                        untouched_rows = np.setdiff1d(editor_rows, row)
                        occurrences.kept_by_editor[number][untouched_rows] = True
                continue
            if not len(editor_rows):
                continue
            frame = pl.DataFrame(
                {
                    **{name: getattr(occurrences, name)[editor_rows] for name in ("doc_no", "cell", "start", "end", "value_id", "swept")},
                    "kind": pl.Series(
                        pa.DictionaryArray.from_arrays(pa.array(occurrences.kind[editor_rows]), occurrences.kind_names).cast(
                            pa.large_string()
                        )
                    ),
                    "kept": occurrences.kept_by_editor[number][editor_rows],
                    "value": pl.Series(values.take(pa.array(editor_rows))),
                }
            )
            batch = EditBatch(occurrences=frame, doc_ids=doc_ids.take(pa.array(editor_rows)))
            changed, replacement, labels = editor.edit_occurrences(batch)
            if task.erased_local_parts:
                replacement = _label_erased_local_parts(task.erased_local_parts, frame["kind"].gather(changed), replacement)
            ranges = editor.edited_byte_ranges(batch, changed)
            may_reorder |= ranges is not None
            spans.append(ranges or (occurrences.start_byte[editor_rows[changed]], occurrences.end_byte[editor_rows[changed]]))
            rows.append(editor_rows[changed])
            texts.append(replacement)
            parts.append(np.full(len(changed), number, np.int32))
            if labels is not None:
                self.labels.append(labels)
        erased = np.flatnonzero(occurrences.erased)
        if len(erased):
            labels = pa.array([f"[{name}]" for name in occurrences.kind_names.to_pylist()], pa.large_string())
            rows.append(erased)
            texts.append(labels.take(pa.array(occurrences.kind[erased])))
            parts.append(np.full(len(erased), len(task.editors), np.int32))
            spans.append((occurrences.start_byte[erased], occurrences.end_byte[erased]))
        if not rows:
            empty = np.empty(0, np.int64)
            no_edits = _Edits(empty, empty, empty, np.empty(0, np.int32), pa.array([], pa.large_string()))
            self.draw_by_row = np.full(len(occurrences.doc_no), -1, np.int64)
            return no_edits, occurrences, batch_texts.leaf_no, batch_texts.text_no
        row = np.concatenate(rows)
        leaf_no, text_no, new_row_of = batch_texts.leaf_no, batch_texts.text_no, np.arange(len(occurrences.doc_no))
        if words:
            occurrences, new_row_of, leaf_no, text_no = _merge_word_spans(occurrences, leaf_no, text_no, words)
            row, may_reorder = new_row_of[row], True
        self.draw_by_row = np.full(len(occurrences.doc_no), -1, np.int64)
        for draw_rows, draw in draws:
            self.draw_by_row[new_row_of[draw_rows]] = draw
        start, stop = (np.concatenate(side) for side in zip(*spans, strict=True))
        # edits are in order of their occurrences, unless an edit covers more than its occurrence
        order = np.lexsort((-stop, start, _number_cells(occurrences)[row])) if may_reorder else np.argsort(row, kind="stable")
        edits = _Edits(
            row[order],
            start[order],
            stop[order],
            np.concatenate(parts)[order],
            pa.concat_arrays(texts).take(pa.array(order)),
        )
        return edits, occurrences, leaf_no, text_no

    def _resolve_overlaps(self, edits: _Edits, occurrences: OccurrenceArrays) -> _Edits:
        """Returns edits that do not overlap. An edit inside another is removed. Of two that cross, the later part's is cut and masked."""
        if not len(edits.occurrence_row):
            return edits
        cell = _number_cells(occurrences)[edits.occurrence_row]
        # cell * 2**40 + byte offset orders positions over all cells of the batch
        max_end = np.maximum.accumulate(cell * (1 << 40) + edits.end_byte)
        overlapping = np.flatnonzero((cell[1:] * (1 << 40) + edits.start_byte[1:]) < max_end[:-1]) + 1
        if not len(overlapping):
            return edits
        # rare (addresses inside edited URLs, swept spans): resolve these few one by one, in order of position
        start, stop = edits.start_byte.copy(), edits.end_byte.copy()
        alive = np.ones(len(start), np.bool_)
        mask: dict[int, int] = {}
        for later in overlapping.tolist():
            earlier: int = later - 1
            while earlier >= 0 and not alive[earlier]:
                earlier -= 1
            if earlier < 0 or cell[earlier] != cell[later] or stop[earlier] <= start[later]:
                continue
            if stop[later] <= stop[earlier]:
                alive[later] = False
            elif edits.editor_no[earlier] <= edits.editor_no[later]:
                start[later] = stop[earlier]
                mask[later] = int(stop[later] - start[later])
            else:
                stop[earlier] = start[later]
                mask[int(earlier)] = int(stop[earlier] - start[earlier])
        replacement = edits.replacement
        if mask:
            replacements = replacement.to_pylist()
            for later, size in mask.items():
                replacements[later] = "*" * size
            replacement = pa.array(replacements, pa.large_string())
            self.masked_count += len(mask)
        keep = np.flatnonzero(alive & (stop > start))
        return _Edits(edits.occurrence_row[keep], start[keep], stop[keep], edits.editor_no[keep], replacement.take(pa.array(keep)))

    def _build_edit_table(self, task: RewriteTask, edits: _Edits, occurrences: OccurrenceArrays) -> pa.Table:
        """The rows of the table `edits`."""
        parts = pa.array([*(editor.use for editor in task.editors), ERASURE_PART], pa.string())
        arrays = {
            "doc_no": pa.array(occurrences.doc_no[edits.occurrence_row]),
            "cell": pa.array(occurrences.cell[edits.occurrence_row]),
            "start_byte": pa.array(edits.start_byte),
            "end_byte": pa.array(edits.end_byte),
            "replacement": edits.replacement,
            "part": pa.DictionaryArray.from_arrays(pa.array(edits.editor_no), parts),
            "kind": pa.DictionaryArray.from_arrays(pa.array(occurrences.kind[edits.occurrence_row]), occurrences.kind_names),
        }
        return pa.table([arrays[name] for name in table_schemas.EDITS.schema.names], schema=table_schemas.EDITS.schema)

    def _build_kept_table(self, edits: _Edits, occurrences: OccurrenceArrays) -> pa.Table:
        """The kept occurrences that no edit touches and that the leak check searches for, in bytes of the output."""
        kept = np.flatnonzero(np.logical_or.reduce(occurrences.kept_by_editor)) if occurrences.kept_by_editor else np.empty(0, np.int64)
        cell = _number_cells(occurrences)
        cumulative_growth = np.concatenate(
            [[0], np.cumsum(TextBuffers.from_array(edits.replacement).lengths - (edits.end_byte - edits.start_byte))]
        )
        edit_cell_start = cell[edits.occurrence_row] * (1 << 40)
        before = np.searchsorted(edit_cell_start + edits.end_byte, cell[kept] * (1 << 40) + occurrences.start_byte[kept], side="right")
        is_touched = (
            np.searchsorted(edit_cell_start + edits.start_byte, cell[kept] * (1 << 40) + occurrences.end_byte[kept], side="left") != before
        )
        first = np.searchsorted(edit_cell_start, cell[kept] * (1 << 40), side="left")
        kept, shift = kept[~is_touched], (cumulative_growth[before] - cumulative_growth[first])[~is_touched]
        self.kept_rows = kept
        # occurrences that a mechanism leaves by its privacy claim are counted, but the leak check does not search for them
        is_searched = (
            ~np.logical_or.reduce([occurrences.kept_by_editor[no][kept] for no in self.unchecked_editors])
            if self.unchecked_editors
            else np.ones(len(kept), np.bool_)
        )
        # nor for texts that also occur with other meanings
        kinds = all_kinds()
        is_ambiguous = np.array(
            [name in kinds and kinds[name].ambiguous_text for name in occurrences.kind_names.to_pylist()] + [False], np.bool_
        )
        is_searched &= ~is_ambiguous[occurrences.kind[kept]]
        kept, shift = kept[is_searched], shift[is_searched]
        return pa.table(
            [
                occurrences.doc_no[kept],
                occurrences.cell[kept],
                occurrences.start_byte[kept] + shift,
                occurrences.end_byte[kept] + shift,
                occurrences.value_id[kept],
            ],
            schema=KEPT_SCHEMA,
        )


@dataclass(frozen=True, repr=False)
class _Edits:
    """Edits in order of position; `occurrence_row` is the row of the occurrence, `editor_no` the position of the editor in the plan."""

    occurrence_row: I64
    start_byte: I64
    end_byte: I64
    editor_no: npt.NDArray[np.int32]
    replacement: pa.Array


@dataclass(frozen=True, repr=False)
class _WordSpans:
    """Spans of edits that belong to no occurrence: an editor that reads the texts chose them."""

    doc_no: I64
    cell: npt.NDArray[np.int32]
    start: I64
    end: I64
    leaf_no: I64
    text_no: I64


@dataclass(frozen=True, repr=False)
class _BatchTexts:
    """The texts of a batch for editors that read them, and the leaf and text number of each occurrence."""

    columns: list[CellColumn]
    buffers: list[TextBuffers]
    doc_no: I64
    leaf_no: I64
    text_no: I64
    draw_ids: pa.Array
    table: pa.Table

    def iter_rewrites(
        self, editor: Editor, occurrences: OccurrenceArrays, editor_rows: I64, next_row: int
    ) -> Iterator[tuple[TextEdits, I64, _WordSpans]]:
        """Yields, column by column, the editor's edits, their occurrence rows (new ones, from `next_row` on, where there is none), and the
        spans of the new rows."""
        for number, (column, buffers) in enumerate(zip(self.columns, self.buffers, strict=True)):
            column_rows = editor_rows[self.leaf_no[editor_rows] == number]
            frame = pl.DataFrame(
                {
                    name: getattr(occurrences, name)[column_rows]
                    for name in ("doc_no", "cell", "start", "start_byte", "end_byte", "value_id")
                }
            )
            docs = self.doc_no[column.flat.rows]
            text_batch = TextBatch(
                docs,
                column.cell,
                buffers.to_array(),
                frame.with_columns(text_no=pl.Series(self.text_no[column_rows])),
                pa.DictionaryArray.from_arrays(pa.array(column.flat.rows.astype(np.int32)), self.draw_ids),
                self.table.select(list(editor.required_columns)).take(pa.array(column.flat.rows)) if editor.required_columns else None,
            )
            edits = editor.edit_texts(text_batch)
            without_occurrence = np.flatnonzero(edits.occurrence_no < 0)
            row = np.full(len(edits.start_byte), -1, np.int64)
            row[without_occurrence] = next_row + np.arange(len(without_occurrence))
            with_occurrence = np.flatnonzero(edits.occurrence_no >= 0)
            row[with_occurrence] = column_rows[edits.occurrence_no[with_occurrence]]
            text_no = edits.text_no[without_occurrence]
            leaf = np.full(len(without_occurrence), number, np.int64)
            next_row += len(without_occurrence)
            yield (
                edits,
                row,
                _WordSpans(
                    docs[text_no],
                    column.cell[text_no],
                    edits.start_byte[without_occurrence],
                    edits.end_byte[without_occurrence],
                    leaf,
                    text_no,
                ),
            )


def _merge_word_spans(
    occurrences: OccurrenceArrays, leaf_no: I64, text_no: I64, words: list[_WordSpans]
) -> tuple[OccurrenceArrays, I64, I64, I64]:
    """Merge the spans into the occurrences, in order. Returns these, the new row of each old one, and leaf and text number of each row."""
    columns = {
        name: np.concatenate([getattr(occurrences, name), *(getattr(spans, name) for spans in words)]) for name in ("doc_no", "cell")
    }
    for side in ("start", "end"):
        word_sides = [getattr(spans, side) for spans in words]
        columns[f"{side}_byte"] = np.concatenate([getattr(occurrences, f"{side}_byte"), *word_sides])
        columns[side] = np.concatenate([getattr(occurrences, side), *word_sides])
    word_count = sum(len(spans.leaf_no) for spans in words)
    columns["kind"] = np.append(occurrences.kind, np.full(word_count, len(occurrences.kind_names), np.int32))
    columns["value_id"] = np.append(occurrences.value_id, np.full(word_count, _NO_VALUE, np.int64))
    columns["swept"], columns["erased"] = (
        np.append(mask, np.zeros(word_count, np.bool_)) for mask in (occurrences.swept, occurrences.erased)
    )
    kept = tuple(np.append(mask, np.zeros(word_count, np.bool_)) for mask in occurrences.kept_by_editor)
    names = pa.concat_arrays([occurrences.kind_names.cast(pa.string()), pa.array([WORD_KIND], pa.string())])
    order = np.lexsort((-columns["end_byte"], columns["start_byte"], columns["cell"], columns["doc_no"]))
    new_row_of = np.empty(len(order), np.int64)
    new_row_of[order] = np.arange(len(order))
    leaf_no, text_no = (
        np.concatenate([leaf_no, *(spans.leaf_no for spans in words)]),
        np.concatenate([text_no, *(spans.text_no for spans in words)]),
    )
    return OccurrenceArrays(**columns, kept_by_editor=kept, kind_names=names).take(order), new_row_of, leaf_no[order], text_no[order]


class _OutcomeCounts:
    """Counts of occurrences by kind and outcome."""

    def __init__(self) -> None:
        self.by_kind: dict[str, dict[str, int]] = {}
        self.masked_count = self.word_count = 0
        self.erased_by_kind: dict[str, int] = {}

    def add(self, rewriter: BatchRewriter) -> None:
        names = rewriter.occurrences.kind_names.to_pylist()
        for outcome, rows in (("occurrences", slice(None)), ("kept", rewriter.kept_rows)):
            for kind, count in enumerate(np.bincount(rewriter.occurrences.kind[rows], minlength=len(names)).tolist()):
                if count:
                    counts = self.by_kind.setdefault(names[kind], {"occurrences": 0, "kept": 0})
                    counts[outcome] += count
        self.masked_count += rewriter.masked_count
        self.word_count += rewriter.word_count
        if rewriter.occurrences.erased.any():
            for kind, count in zip(
                names, np.bincount(rewriter.occurrences.kind[rewriter.occurrences.erased], minlength=len(names)).tolist(), strict=True
            ):
                self.erased_by_kind[kind] = self.erased_by_kind.get(kind, 0) + count


def _label_erased_local_parts(local_parts: Sequence[str], kinds: pl.Series, replacement: pa.Array) -> pa.LargeStringArray:
    """The replacements; one that has the local part of an erased address becomes a label."""
    replacements = pl.Series(replacement)
    is_erased = has_local_part(replacements, local_parts)
    return to_large_string(
        pl.select(pl.when(is_erased).then(pl.concat_str(pl.lit("["), kinds, pl.lit("]"))).otherwise(replacements)).to_series()
    )


def has_local_part(replacements: pl.Series, local_parts: Sequence[str]) -> pl.Series:
    """True for each replacement whose local part is one of `local_parts`, which are in lower case."""
    return replacements.str.to_lowercase().str.extract(r"\A([^@]+)@").is_in(pl.Series(local_parts).implode()).fill_null(False)


def _number_cells(occurrences: OccurrenceArrays) -> I64:
    """A number for the cell of each occurrence, ascending in the order of the occurrences."""
    new = (np.diff(occurrences.doc_no, prepend=-1) != 0) | (np.diff(occurrences.cell, prepend=-1) != 0)
    return np.cumsum(new).astype(np.int64)


def _locate_cells(columns: list[CellColumn], row_count: int, row: I64, cell: npt.NDArray[np.int32]) -> tuple[I64, I64]:
    """The leaf number of every (row, cell), and its position in the flat column of that leaf."""
    if len(columns) == 1 and not columns[0].leaf.steps:
        return np.zeros(len(row), np.int64), row
    cells_per_row = np.zeros(row_count, np.int64)
    for column in columns:
        cells_per_row += np.bincount(column.flat.rows, minlength=row_count)
    first_cell_of_row = np.concatenate([[0], np.cumsum(cells_per_row)])
    leaf_of, flat_of = np.empty(first_cell_of_row[-1], np.int64), np.empty(first_cell_of_row[-1], np.int64)
    for number, column in enumerate(columns):
        at = first_cell_of_row[column.flat.rows] + column.cell
        leaf_of[at], flat_of[at] = number, np.arange(len(at))
    at = first_cell_of_row[row] + cell
    return leaf_of[at], flat_of[at]


def _cut_values(buffers: list[TextBuffers], leaf_no: I64, text_no: I64, occurrences: OccurrenceArrays) -> pa.Array:
    """The text of every occurrence."""
    pieces, order = [], []
    for number, column_buffers in enumerate(buffers):
        column_rows = np.flatnonzero(leaf_no == number)
        if len(column_rows):
            base = column_buffers.offsets[text_no[column_rows]]
            pieces.append(
                slice_nested_spans(column_buffers, base + occurrences.start_byte[column_rows], base + occurrences.end_byte[column_rows])
            )
            order.append(column_rows)
    if not pieces:
        return pa.array([], pa.large_string())
    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(order))))


def _draw_ids(task: RewriteTask, table: pa.Table) -> pa.Array:
    """The text that the draws of each document depend on: its id, or its position where ids repeat."""
    return table.column("doc_no").chunk(0).cast(pa.large_string()) if task.by_position else table.column("doc_id").chunk(0)


def _pseudonymize_columns(task: RewriteTask, table: pa.Table) -> pa.Table:
    """Pseudonymize columns by policy: equal texts become equal keyed hashes of 16 hexadecimal digits; null stays null."""
    for name, policy in task.policies.items():
        if policy == "pseudonymize":
            column_no = table.schema.get_field_index(name)
            table = table.set_column(column_no, name, pseudonymize_column(table.column(column_no).chunk(0), name, task.key))
    return table
