"""Collects the occurrences of one task and writes its tables: occurrences, partial counts,
spellings, skipped and quarantined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import (
    fill_null_texts,
    numbers_to_arrow,
    texts_to_arrow,
)
from sanitize.core.span_table import SpanTable, ValueTable
from sanitize.kinds.kind import all_kinds
from sanitize.storage import table_schemas
from sanitize.storage.corpus import CellGroup
from sanitize.storage.parquet_files import open_table_writer, read_table, write_table_rows

LINK_SCHEMA = pa.schema([pa.field("value_id", pa.int64()), pa.field("other", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class OccurrenceCounts:
    """Occurrences, and documents that have any, by kind."""

    by_kind: Mapping[str, int]
    documents_by_kind: Mapping[str, int]


def _list_kind_names() -> pa.StringArray:
    return texts_to_arrow(all_kinds()).cast(pa.string())


class OccurrenceTableWriter:
    """The tables of one task. A context manager: `occurrences` is written batch by batch, the
    others by `write` at the end."""

    def __init__(
        self, folder: Path, finder_names: Sequence[str], entities: pl.DataFrame | None = None
    ) -> None:
        """The files are written to `folder`, one per table. `entities`: the entity ids of the
        second round, ascending by `value_id`."""
        self.folder, self.finder_names, self.entities = folder, finder_names, entities
        self.kind_names = _list_kind_names()
        self.document_ids = [np.empty(0, np.uint64)]  # keyed hashes
        self.partial_counts: list[pl.DataFrame] = []
        self.values: list[pl.DataFrame] = []
        self.skipped: dict[tuple[int, str], int] = {}
        self.quarantine_rows: list[table_schemas.QuarantineRow] = []
        self.doc_count_by_kind = np.zeros(len(self.kind_names), np.int64)
        self.has_first_round = False

    def __enter__(self) -> OccurrenceTableWriter:
        self._writer = open_table_writer(
            self.folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add_first_round(self, values: ValueTable, skipped_file: Path) -> None:
        """Add the values of the first round, and its counts of rejected candidates."""
        numbers = {name: number for number, name in enumerate(self.kind_names.to_pylist())}
        self.values.append(values.to_frame())
        for row in read_table(skipped_file).to_pylist():
            self.skipped[numbers[row["kind"]], row["reason"]] = row["candidates"]
        self.has_first_round = True

    def add_batch(self, doc_no: I64, groups: Iterable[tuple[CellGroup, SpanTable]]) -> None:
        """Add the occurrences of a batch of documents, given for each of its groups of cells."""
        batch = OccurrenceBatch(doc_no, self.finder_names, self.entities)
        for group, occurrences in groups:
            batch.add(occurrences, group)
        if batch.pieces:
            rows = batch.build_table()
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self.partial_counts.append(batch.count_values())
            self.doc_count_by_kind += batch.count_docs_by_kind()
            self.values.append(batch.spellings())
        for reason_key, times in batch.skipped.items():
            self.skipped[reason_key] = self.skipped.get(reason_key, 0) + times

    def write_first_round(self, person_links: pl.DataFrame | None) -> None:
        """Write what only the first round knows: document ids, quarantined documents and, for a
        second round, the links between values."""
        folder = self.folder
        write_table_rows(
            folder / "quarantine.parquet", table_schemas.QUARANTINE.schema, self.quarantine_rows
        )
        document_ids = pa.array(np.concatenate(self.document_ids).astype(np.int64))
        frames = [
            ("document_ids", pa.table([document_ids], schema=table_schemas.DOCUMENT_IDS.schema))
        ]
        if person_links is not None:
            frames.append(
                (
                    "links",
                    person_links.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(LINK_SCHEMA),
                )
            )
        for name, rows in frames:
            with open_table_writer(folder / f"{name}.parquet", rows.schema) as out:
                out.write_table(rows)

    def write(self) -> OccurrenceCounts:
        """Write the counts, spellings and rejected candidates."""
        folder, names = self.folder, self.kind_names
        counts = _merge_counts(self.partial_counts)
        _write_table(folder / "partial_counts.parquet", table_schemas.VALUE_COUNTS, counts, names)
        spellings = distinct_spellings(self.values) if self.values else None
        if self.has_first_round and spellings is not None:
            # a value whose spans all lost to the second round is not stored in the vault
            present_ids = (
                counts["value_id"] if counts is not None else pl.Series([], dtype=pl.Int64)
            )
            spellings = spellings.filter(pl.col("value_id").is_in(present_ids.implode()))
        _write_table(folder / "values.parquet", table_schemas.VALUE_SPELLINGS, spellings, names)
        write_table_rows(
            folder / "skipped.parquet",
            table_schemas.SKIPPED.schema,
            [
                (names[kind].as_py(), reason, times)
                for (kind, reason), times in sorted(self.skipped.items())
            ],
        )
        by_kind: dict[str, int] = {}
        if counts is not None:
            summed = counts.group_by("kind").agg(pl.col("occurrences").sum())
            by_kind = {
                names[kind].as_py(): times for kind, times in summed.sort("kind").iter_rows()
            }
        documents_by_kind = {
            name: int(times)
            for name, times in zip(names.to_pylist(), self.doc_count_by_kind, strict=True)
            if times
        }
        return OccurrenceCounts(by_kind=by_kind, documents_by_kind=documents_by_kind)


class OccurrenceBatch:
    """The occurrences of one batch, collected over its text leaves."""

    def __init__(
        self, doc_no: I64, finder_names: Sequence[str], entities: pl.DataFrame | None = None
    ) -> None:
        self.kind_names = _list_kind_names()
        self.doc_no, self.finder_names, self.entities = doc_no, finder_names, entities
        # the spans of each group of cells, and the columns that the table has besides
        self.pieces: list[tuple[SpanTable, dict[str, npt.NDArray[Any]]]] = []
        self.skipped: dict[tuple[int, str], int] = {}
        self._sorted_columns: dict[str, npt.NDArray[Any]] = {}

    def add(self, occurrences: SpanTable, group: CellGroup) -> None:
        for reason_key, times in occurrences.skipped.items():
            self.skipped[reason_key] = self.skipped.get(reason_key, 0) + times
        if len(occurrences):
            start, end = occurrences.find_code_points(fill_null_texts(group.texts))
            doc_no = self.doc_no[group.rows[occurrences.text_no]]
            cell = group.cell[occurrences.text_no]
            columns: dict[str, npt.NDArray[Any]] = {"start": start, "end": end}
            self.pieces.append((occurrences, columns | {"doc_no": doc_no, "cell": cell}))

    def build_table(self) -> pa.Table:
        """The rows of the table `occurrences`, sorted."""
        sections = sorted({name for piece, _ in self.pieces for name in piece.section_names})
        section_no_by_name = {name: section_no for section_no, name in enumerate(sections)}
        columns: dict[str, list[npt.NDArray[Any]]] = {}
        for piece, others in self.pieces:
            lookup = np.array(
                [*(section_no_by_name[name] for name in piece.section_names), -1], np.int32
            )
            stored = ("start_byte", "end_byte", "kind", "value_id", "finder", "score")
            own = {name: getattr(piece, name) for name in stored}
            for name, column in (others | own | {"section": lookup[piece.section_no]}).items():
                columns.setdefault(name, []).append(column)
        joined = {
            name: np.concatenate(parts) if len(parts) > 1 else parts[0]
            for name, parts in columns.items()
        }
        # columns that are searched together come one after the other; within a cell occurrences are
        # in order
        steps = np.diff(joined["doc_no"])
        if not ((steps > 0) | ((steps == 0) & (np.diff(joined["cell"]) >= 0))).all():
            order = np.lexsort((-joined["end"], joined["start"], joined["cell"], joined["doc_no"]))
            joined = {name: column[order] for name, column in joined.items()}
        self._sorted_columns = joined
        section = pl.Series(joined["section"], dtype=pl.Int32)
        section = section.set(section < 0, None).to_arrow()
        arrays: dict[str, pa.Array] = {
            **{
                name: numbers_to_arrow(joined[name])
                for name in (
                    "doc_no",
                    "cell",
                    "start",
                    "end",
                    "start_byte",
                    "end_byte",
                    "value_id",
                    "score",
                )
            },
            "kind": pa.DictionaryArray.from_arrays(
                numbers_to_arrow(joined["kind"].astype(np.int32)), self.kind_names
            ),
            "finder": pa.DictionaryArray.from_arrays(
                numbers_to_arrow(joined["finder"].astype(np.int32)),
                texts_to_arrow(self.finder_names).cast(pa.string()),
            ),
            "section": pa.DictionaryArray.from_arrays(
                section, texts_to_arrow(sections).cast(pa.string())
            ),
            "entity_id": self._entity_ids(joined["value_id"]),
        }
        return pa.table(
            [arrays[name] for name in table_schemas.OCCURRENCES.schema.names],
            schema=table_schemas.OCCURRENCES.schema,
        )

    def to_frame(self) -> pl.DataFrame:
        """The rows as `frame_occurrences` gives them; also of a batch without occurrences."""
        empty = table_schemas.OCCURRENCES.schema.empty_table
        return frame_occurrences(self.build_table() if self.pieces else empty())

    def _entity_ids(self, value_id: I64) -> pa.Array:
        """The entity id of each value, null where it has none."""
        if self.entities is None or not self.entities.height:
            return pa.nulls(len(value_id), pa.int64())
        known = self.entities["value_id"].to_numpy()
        at = np.minimum(np.searchsorted(known, value_id), len(known) - 1)
        return pa.array(self.entities["entity_id"].to_numpy()[at], mask=known[at] != value_id)

    def count_values(self) -> pl.DataFrame:
        """The batch's share of `value_counts`. Call after `build_table`."""
        rows = self._sorted_columns
        order = np.argsort(rows["value_id"], kind="stable")
        value_id, doc_no = rows["value_id"][order], rows["doc_no"][order]
        new_value = np.diff(value_id, prepend=-1) != 0
        new_document = new_value | (np.diff(doc_no, prepend=-1) != 0)
        at = np.flatnonzero(new_value)
        first = order[at]
        return pl.DataFrame(
            {
                "value_id": value_id[at],
                "kind": rows["kind"][first].astype(np.int32),
                "occurrences": np.diff(np.append(at, len(order))),
                "documents": np.add.reduceat(new_document.astype(np.int64), at)
                if len(at)
                else np.empty(0, np.int64),
                "first_doc_no": rows["doc_no"][first],
                "first_cell": rows["cell"][first],
                "first_start": rows["start"][first],
            }
        )

    def count_docs_by_kind(self) -> I64:
        """Number of documents that contain each kind. Call after `build_table`."""
        rows = self._sorted_columns
        # offset in the batch; a batch has few documents
        document = rows["doc_no"] - rows["doc_no"][0]
        held = np.zeros((int(document[-1]) + 1, len(self.kind_names)), np.bool_)
        held[document, rows["kind"]] = True
        return np.asarray(held.sum(axis=0), np.int64)

    def spellings(self) -> pl.DataFrame:
        """The spellings in the batch, for the vault: value_id, kind, value, normalised."""
        return pl.concat([piece.take_used_values().values.to_frame() for piece, _ in self.pieces])


def read_values(path: Path) -> ValueTable:
    """The values of one task from its file in the vault."""
    numbers = {name: number for number, name in enumerate(all_kinds())}
    return ValueTable.from_frame(
        pl.DataFrame(read_table(path)).with_columns(
            pl.col("kind").cast(pl.String).replace_strict(numbers, return_dtype=pl.Int32),
            pl.coalesce("normalised", "value").alias("normalised"),
        )
    )


def frame_occurrences(table: pa.Table) -> pl.DataFrame:
    """Rows of the table `occurrences` as a frame, with names instead of categories."""
    names = ("kind", "finder", "section")
    return pl.DataFrame(table).with_columns(pl.col(name).cast(pl.String) for name in names)


def distinct_spellings(values: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The spellings of several batches, each once."""
    return pl.concat(values).unique(["value_id", "value"], maintain_order=True)


def one_spelling_each(values: ValueTable) -> ValueTable:
    """The first spelling of each value, ascending by id."""
    return values.take(np.unique(values.value_id, return_index=True)[1])


def _merge_counts(partial: list[pl.DataFrame]) -> pl.DataFrame | None:
    """Add up the counts of batches, which hold different documents and are in corpus order; None
    where there are none."""
    if not partial:
        return None
    rest = ("kind", "first_doc_no", "first_cell", "first_start")
    return (
        pl.concat(partial)
        .group_by("value_id", maintain_order=True)
        .agg(
            pl.col("occurrences").sum(),
            pl.col("documents").sum(),
            *(pl.col(name).first() for name in rest),
        )
        .sort("value_id")
    )


def _write_table(
    path: Path, table: table_schemas.TableSchema, frame: pl.DataFrame | None, kind_names: pa.Array
) -> None:
    """Write a frame, whose `kind` is an index into `kind_names`, as the given table."""
    with open_table_writer(path, table.schema) as out:
        if frame is None or not frame.height:
            out.write_table(table.schema.empty_table())
            return
        arrays = []
        for field in table.schema:
            column = frame[field.name].to_arrow(compat_level=pl.CompatLevel.oldest())
            if field.name == "kind":
                column = pa.DictionaryArray.from_arrays(column.cast(pa.int32()), kind_names)
            if field.name == "normalised":
                column = pc.if_else(
                    pc.equal(column, frame["value"].to_arrow(compat_level=pl.CompatLevel.oldest())),
                    None,
                    column,
                )
            arrays.append(column.cast(field.type))
        out.write_table(pa.table(arrays, schema=table.schema), row_group_size=100_000)
