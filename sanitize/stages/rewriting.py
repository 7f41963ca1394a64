"""Rewrites one task: documents + occurrences + editors -> sanitized documents, a table of edits,
and the spans of kept originals.

A pure function of a task, which reads batches of whole documents, once, and has each rewritten by
`batch_rewriting.rewrite_batch`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I32, Mask
from sanitize.core.command_results import KindCounts
from sanitize.core.keys import Key, pseudonymize_column
from sanitize.core.part_protocols import Aggregates, Editor, TextEditor
from sanitize.core.text_cells import LeafPath, Policies, rewrite_parts
from sanitize.stages.batch_rewriting import (
    KEPT_SCHEMA,
    EditRules,
    Occurrences,
    list_kind_names,
    replace_columns,
    rewrite_batch,
)
from sanitize.stages.prior_values import attach_prior_values
from sanitize.stages.privacy_ledger import LedgerWriter
from sanitize.storage import table_schemas
from sanitize.storage.corpus import Documents
from sanitize.storage.parquet_files import (
    RowGroupWriter,
    open_table_writer,
    open_text_writer,
    read_table,
)
from sanitize.text.erased_addresses import ErasedAddresses

VERSION = 3  # raise it when emitted bytes change for the same input, plan and key

ROWS_SCHEMA = pa.schema([pa.field("doc_no", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class RewriteTask:
    """One range of documents to rewrite: one output shard."""

    task_no: int
    first_doc_no: int
    end_doc_no: int
    documents: Documents
    leaves: tuple[LeafPath, ...]
    policies: Policies
    key: Key
    editors: tuple[Editor, ...]
    aggregates: tuple[Aggregates, ...]
    # of this task: those of the index, and those that the sweep added
    occurrences: tuple[Path, ...]
    by_position: bool  # draws depend on doc_no instead of doc_id, because ids repeat
    excluded_docs: tuple[int, ...]  # quarantined and dropped documents of the range
    folder: Path
    # values of erased persons: replaced by a label, whatever the plan does
    erased_value_ids: tuple[int, ...] = ()
    erased_addresses: ErasedAddresses | None = None  # no replacement may have one
    # for sequential editors: the variants that other tasks generated
    other_surrogate_files: tuple[Path, ...] = ()

    @property
    def rules(self) -> EditRules:
        """How the batches of the task are rewritten."""
        return EditRules(
            leaves=self.leaves,
            editors=self.editors,
            by_position=self.by_position,
            erased_addresses=self.erased_addresses,
        )

    @property
    def description(self) -> str:
        """The task in words, for an error."""
        return self.documents.describe_range(self.first_doc_no, self.end_doc_no)


def output_schema(documents: Documents, policies: Policies) -> pa.Schema:
    """The schema of the output shards: the columns of the documents without the dropped ones."""
    return pa.schema(
        [field for field in documents.schema if policies.by_column[field.name] != "drop"]
    )


@dataclass(frozen=True, kw_only=True)
class ShardCounts:
    """One shard: its documents and size, and by kind its occurrences, of these the kept and the
    swept ones, and those of erased persons."""

    rows: int
    bytes: int
    by_kind: Mapping[str, KindCounts]
    masked_words: int
    erased: Mapping[str, int]


def rewrite_task(task: RewriteTask) -> ShardCounts:
    """Rewrite one task. Writes `shard`, `edits`, `kept`, `labels` and `rows` (.parquet) to its
    folder, the privacy ledger where an editor spends, and `surrogate_forms.parquet` (of generated
    variants) where one is sequential."""
    for editor, aggregates in zip(task.editors, task.aggregates, strict=True):
        editor.open(task.key, aggregates)
    prior_values = attach_prior_values(task.editors, task.aggregates, task.other_surrogate_files)
    occurrences = _load_task_occurrences(task)
    schema = output_schema(task.documents, task.policies)
    by_kind: dict[str, Counter[str]] = {}
    erased_by_kind, masked_words = Counter[str](), 0
    excluded = np.array(task.excluded_docs, np.int64)
    rows = 0
    shard = task.folder / "shard.parquet"
    with (
        open_text_writer(shard, schema) as out,
        open_table_writer(task.folder / "edits.parquet", table_schemas.EDITS.schema) as edits_out,
        open_table_writer(task.folder / "kept.parquet", KEPT_SCHEMA) as kept_out,
        open_table_writer(
            task.folder / "labels.parquet", table_schemas.LABELS.schema
        ) as labels_out,
        open_table_writer(task.folder / "rows.parquet", ROWS_SCHEMA) as rows_out,
        LedgerWriter(task.editors, task.folder) as ledger,
    ):
        group_writer = RowGroupWriter(out)
        next_row = 0
        names = schema.names
        required = [
            name
            for editor in task.editors
            if isinstance(editor, TextEditor)
            for name in editor.required_columns
        ]
        for table in task.documents.read(
            task.first_doc_no, task.end_doc_no, [*dict.fromkeys(["doc_id", *names, *required])]
        ):
            table = table.combine_chunks()
            end_row = int(
                np.searchsorted(
                    occurrences.doc_no, table.column("doc_no")[-1].as_py(), side="right"
                )
            )
            if len(excluded):
                table = table.filter(
                    pc.invert(pc.is_in(table.column("doc_no"), value_set=pa.array(excluded)))
                ).combine_chunks()
            if not table.num_rows:
                next_row = end_row
                continue
            batch = rewrite_batch(task.rules, table, occurrences.take(slice(next_row, end_row)))
            next_row = end_row
            for values in prior_values:
                values.commit_batch()
            rows_out.write_table(table.select(["doc_no"]))
            edits_out.write_table(batch.edits)
            kept_out.write_table(batch.kept)
            for labels in batch.labels:
                labels_out.write_table(labels)
            ledger.add(*batch.draws_spent)
            for kind, counts in batch.count_outcomes().items():
                by_kind.setdefault(kind, Counter()).update(counts)
            erased_by_kind += batch.count_erased()
            masked_words += batch.word_count
            output = _pseudonymize_columns(task, batch.table).select(schema.names)
            group_writer.add(output)
            rows += output.num_rows
        group_writer.flush()
        if not rows:
            out.write_table(schema.empty_table())
    for values in prior_values:
        values.write_surrogates(task.folder / "surrogate_forms.parquet")
    return ShardCounts(
        rows=rows,
        bytes=shard.stat().st_size,
        by_kind={
            kind: KindCounts(
                occurrences=counts["occurrences"], kept=counts["kept"], swept=counts["swept"]
            )
            for kind, counts in by_kind.items()
        },
        masked_words=masked_words,
        erased=erased_by_kind,
    )


_OCCURRENCE_COLUMNS = (
    *("doc_no", "cell", "start", "end", "start_byte", "end_byte", "value_id"),
    *("kind", "finder"),
)


def _load_task_occurrences(task: RewriteTask) -> Occurrences:
    """The task's occurrences of edited kinds, of erased values and those that the leak check added,
    in order, with what each editor keeps."""
    tables_read = [read_table(path, columns=[*_OCCURRENCE_COLUMNS]) for path in task.occurrences]
    table = pa.concat_tables(tables_read).unify_dictionaries().combine_chunks()
    kind, names = _decode_dictionary(table, "kind")
    kind_names = list_kind_names(names)
    finder, finder_names = _decode_dictionary(table, "finder")
    columns = {name: np.asarray(table.column(name)) for name in _OCCURRENCE_COLUMNS[:-2]}
    occurrences = Occurrences(
        **columns,
        kind=np.array([kind_names.index(name) for name in names], np.int32)[kind],
        swept=np.array([name == table_schemas.SWEEP_FINDER for name in finder_names], np.bool_)[
            finder
        ],
        erased=np.isin(columns["value_id"], np.array(task.erased_value_ids, np.int64)),
        kept=np.empty((table.num_rows, 0), np.bool_),
        kind_names=kind_names,
    )
    is_edited = occurrences.select_kinds(name for editor in task.editors for name in editor.kinds)
    occurrences = occurrences.take(is_edited | occurrences.erased | occurrences.swept)
    kept = [
        _find_kept(task, editor, aggregates, occurrences)
        for editor, aggregates in zip(task.editors, task.aggregates, strict=True)
    ]
    keeps_swept = ["removed_occurrences" in aggregates.tables for aggregates in task.aggregates]
    kept_columns = np.array(kept, np.bool_).reshape(len(kept), len(occurrences)).T
    return replace(occurrences, kept=kept_columns).in_order(keeps_swept)


def _decode_dictionary(table: pa.Table, name: str) -> tuple[I32, list[str]]:
    """The codes of a dictionary column of one chunk or none, and its names."""
    if not table.num_rows:
        return np.empty(0, np.int32), []
    column = table.column(name).chunk(0)
    return np.asarray(column.indices, np.int32), column.dictionary.to_pylist()


def _find_kept(
    task: RewriteTask,
    editor: Editor,
    aggregates: Aggregates,
    occurrences: Occurrences,
) -> Mask:
    """True for the occurrences that the editor keeps: those in its `first_occurrences`, or all but
    its `removed_occurrences`."""
    has_removals = "removed_occurrences" in aggregates.tables
    kept = np.full(len(occurrences), has_removals)
    if not (has_removals or "first_occurrences" in aggregates.tables) or not len(kept):
        return kept
    key_columns = ["doc_no", "cell", "start", "value_id"]
    doc_no = pc.field("doc_no")
    listed = pl.DataFrame(
        read_table(
            aggregates.tables["removed_occurrences" if has_removals else "first_occurrences"],
            columns=key_columns,
            filters=(doc_no >= task.first_doc_no) & (doc_no < task.end_doc_no),
        )
    )
    all_rows = pl.DataFrame({name: getattr(occurrences, name) for name in key_columns})
    all_rows = all_rows.with_row_index("row")
    listed = listed.select(pl.col(name).cast(all_rows.schema[name]) for name in key_columns)
    kept[all_rows.join(listed, on=key_columns, how="semi")["row"].to_numpy()] = not has_removals
    return kept & occurrences.select_kinds(editor.kinds)


def _pseudonymize_columns(task: RewriteTask, table: pa.Table) -> pa.Table:
    """Pseudonymize columns and parts of them by policy: equal texts become equal keyed hashes of 16
    hexadecimal digits, and null stays null. Parts that are dropped become null."""
    policies = task.policies
    encode = partial(pseudonymize_column, key=task.key)
    coded = {
        name: encode(table.column(name).chunk(0), name)
        for name in policies.list_columns("pseudonymize")
    }
    for name in {path.column for path in policies.by_path}:
        coded[name] = rewrite_parts(table.column(name).chunk(0), name, policies, encode)
    return replace_columns(table, coded)
