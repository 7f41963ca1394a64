"""What `find` writes for one task: occurrences, their counts, the raw values (into the vault), and the records it sets aside.

A pure function of a task: the documents of a fixed range of `doc_no`, read once. Costs one pass; memory is that of a batch and of the
task's distinct values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize import tables
from sanitize.cells import Leaf, leaves
from sanitize.find import patterns
from sanitize.keyed import Key, siphash
from sanitize.read import faults
from sanitize.shards import Documents, cells_of, table_writer, write_rows

I64 = npt.NDArray[np.int64]
VERSION = 2  # part of the index's fingerprint: raise it when what is written for the same input changes


@dataclass(frozen=True, kw_only=True)
class FindTask:
    """One range of documents to be indexed."""

    no: int
    first: int
    last: int
    documents: Documents
    leaves: tuple[Leaf, ...]
    key: Key
    max_doc_bytes: int
    checked: tuple[str, ...]  # columns of the output: their strings must be readable
    set_aside: tuple[int, ...]  # documents of the range that could not be read when they were staged
    folder: Path  # attempts are written here: <table>.parquet

    @property
    def told(self) -> str:
        """The task in words, for an error."""
        return self.documents.told(self.first, self.last)


def find_task(task: FindTask) -> dict[str, Any]:
    """Index one task; returns documents, quarantined, text_bytes, and by kind its occurrences and the documents that hold it."""
    finder = patterns.Patterns(task.key)
    names = pa.array([kind.name for kind in finder.kinds], pa.string())
    partial: list[pl.DataFrame] = []
    values: list[pl.DataFrame] = []
    skipped: dict[tuple[int, str], int] = {}
    aside: list[tuple[int, str, str, str]] = []
    text_bytes = documents = 0
    holding = np.zeros(len(finder.kinds), np.int64)
    ids, id_key = [np.empty(0, np.uint64)], task.key.subkey("doc_id")
    texts = {name for name in task.checked if leaves(pa.schema([task.documents.schema.field(name)]))}
    wanted = [*dict.fromkeys([*(leaf.column for leaf in task.leaves), *sorted(texts), "doc_id"])]
    with table_writer(task.folder / "occurrences.parquet", tables.OCCURRENCES.schema) as out:
        for table in task.documents.read(task.first, task.last, wanted):
            table = table.combine_chunks()
            good, bad = _readable(table, task)
            aside += bad
            if not good.all():
                table = table.filter(pa.array(good)).combine_chunks()
            if not table.num_rows:
                continue
            documents += table.num_rows
            ids.append(siphash(table.column("doc_id").chunk(0), id_key))
            batch = _Rows(finder, np.asarray(table.column("doc_no"), np.int64))
            for column in cells_of(table, list(task.leaves)):
                text_bytes += int(pc.sum(pc.binary_length(column.flat.texts)).as_py() or 0)
                batch.add(finder.run(column.flat.texts), column.flat.rows, column.cells)
            if batch.parts:
                rows = batch.table(names)
                out.write_table(rows, row_group_size=rows.num_rows)
                partial.append(batch.counts())
                holding += batch.holding()
                values.append(batch.values())
            for where, times in batch.skipped.items():
                skipped[where] = skipped.get(where, 0) + times
    with table_writer(task.folder / "ids.parquet", tables.IDS.schema) as out:
        out.write_table(pa.table([np.concatenate(ids).astype(np.int64)], schema=tables.IDS.schema))
    counts = _merge(partial)
    _write(task.folder / "partial_counts.parquet", tables.VALUE_COUNTS, counts, names)
    spellings = pl.concat(values).unique(["value_id", "value"], maintain_order=True) if values else None
    _write(task.folder / "values.parquet", tables.VALUES, spellings, names)
    write_rows(
        task.folder / "skipped.parquet",
        tables.SKIPPED.schema,
        [(names[kind].as_py(), reason, times) for (kind, reason), times in sorted(skipped.items())],
    )
    write_rows(task.folder / "quarantine.parquet", tables.QUARANTINE.schema, aside)
    by_kind: dict[str, int] = {}
    if counts is not None:
        summed = counts.group_by("kind").agg(pl.col("occurrences").sum())
        by_kind = {names[kind].as_py(): times for kind, times in summed.sort("kind").iter_rows()}
    held = {kind.name: int(times) for kind, times in zip(finder.kinds, holding, strict=True) if times}
    return {"documents": documents, "quarantined": len(aside), "text_bytes": text_bytes, "by_kind": by_kind, "documents_by_kind": held}


def _readable(table: pa.Table, task: FindTask) -> tuple[npt.NDArray[np.bool_], list[tuple[int, str, str, str]]]:
    """Which rows can be worked on; the others with source, place and reason. Records set aside when staged are only left out."""
    good = np.ones(table.num_rows, np.bool_)
    numbers = np.asarray(table.column("doc_no"), np.int64)
    if task.set_aside:
        good &= ~np.isin(numbers, np.array(task.set_aside, np.int64))
    bad = []
    for row, reason in sorted(faults(table.drop_columns(["doc_no"]).to_batches()[0], task.max_doc_bytes).items()):
        if good[row]:
            doc_no = int(numbers[row])
            source = next(s for s in task.documents.sources if s.first_doc_no <= doc_no < s.first_doc_no + s.rows)
            bad.append((doc_no, source.path, f"row {doc_no - source.first_doc_no}", reason))
            good[row] = False
    return good, bad


class _Rows:
    """The occurrences of one batch, gathered over its leaves."""

    def __init__(self, finder: patterns.Patterns, doc_no: I64) -> None:
        self.finder, self.doc_no = finder, doc_no
        self.parts: list[tuple[patterns.Found, I64, npt.NDArray[np.int32]]] = []
        self.skipped: dict[tuple[int, str], int] = {}
        self._sorted: dict[str, npt.NDArray[Any]] = {}

    def add(self, found: patterns.Found, rows: I64, cells: npt.NDArray[np.int32]) -> None:
        for where, times in found.skipped.items():
            self.skipped[where] = self.skipped.get(where, 0) + times
        if len(found.text_no):
            self.parts.append((found, self.doc_no[rows[found.text_no]], cells[found.text_no]))

    def table(self, names: pa.Array) -> pa.Table:
        """The rows of the table `occurrences`, sorted."""
        sections = sorted({name for found, _, _ in self.parts for name in found.section_names})
        number = {name: place for place, name in enumerate(sections)}
        columns: dict[str, list[npt.NDArray[Any]]] = {}
        for found, doc_no, cell in self.parts:
            lookup = np.array([*(number[name] for name in found.section_names), -1], np.int32)
            for name, column in (
                ("doc_no", doc_no),
                ("cell", cell),
                ("start", found.start),
                ("stop", found.stop),
                ("start_byte", found.start_byte),
                ("stop_byte", found.stop_byte),
                ("kind", found.distinct.kind[found.which]),
                ("value_id", found.distinct.value_id[found.which]),
                ("section", lookup[found.section]),
            ):
                columns.setdefault(name, []).append(column)
        joined = {name: np.concatenate(parts) if len(parts) > 1 else parts[0] for name, parts in columns.items()}
        if len(self.parts) > 1:
            order = np.lexsort((-joined["stop"], joined["start"], joined["cell"], joined["doc_no"]))
            joined = {name: column[order] for name, column in joined.items()}
        self._sorted = joined
        count = len(joined["doc_no"])
        section = pa.array(joined["section"].astype(np.int32), mask=joined["section"] < 0)
        arrays: dict[str, pa.Array] = {
            **{name: pa.array(joined[name]) for name in ("doc_no", "cell", "start", "stop", "start_byte", "stop_byte", "value_id")},
            "kind": pa.DictionaryArray.from_arrays(pa.array(joined["kind"].astype(np.int32)), names),
            "finder": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([patterns.NAME])),
            "score": pa.array(np.ones(count, np.float32)),
            "section": pa.DictionaryArray.from_arrays(section, pa.array(sections, pa.string())),
            "entity_id": pa.nulls(count, pa.int64()),
        }
        return pa.table([arrays[name] for name in tables.OCCURRENCES.schema.names], schema=tables.OCCURRENCES.schema)

    def counts(self) -> pl.DataFrame:
        """The batch's share of `value_counts`; call after `table`."""
        rows = self._sorted
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
                "documents": np.add.reduceat(new_document.astype(np.int64), at) if len(at) else np.empty(0, np.int64),
                "first_doc_no": rows["doc_no"][first],
                "first_cell": rows["cell"][first],
                "first_start": rows["start"][first],
            }
        )

    def holding(self) -> I64:
        """How many documents hold each kind; call after `table`."""
        rows = self._sorted
        held = np.zeros(len(self.finder.kinds), np.int64)
        for kind in range(len(held)):
            held[kind] = (np.diff(rows["doc_no"][rows["kind"] == kind], prepend=-1) != 0).sum()
        return held

    def values(self) -> pl.DataFrame:
        """The batch's spellings, for the vault."""
        frames = []
        for found, _, _ in self.parts:
            one, used = found.distinct, np.flatnonzero(np.bincount(found.which))
            value, normalised = (pl.Series(column.take(pa.array(used))) for column in (one.value, one.normalised))
            frames.append(pl.DataFrame({"value_id": one.value_id[used], "kind": one.kind[used], "value": value, "normalised": normalised}))
        return pl.concat(frames)


def _merge(partial: list[pl.DataFrame]) -> pl.DataFrame | None:
    """Counts of batches added up; batches hold different documents and stand in corpus order."""
    if not partial:
        return None
    rest = ("kind", "first_doc_no", "first_cell", "first_start")
    return (
        pl.concat(partial)
        .group_by("value_id", maintain_order=True)
        .agg(pl.col("occurrences").sum(), pl.col("documents").sum(), *(pl.col(name).first() for name in rest))
        .sort("value_id")
    )


def _write(path: Path, table: tables.Table, frame: pl.DataFrame | None, names: pa.Array) -> None:
    """Write a frame whose `kind` is an index into `names` as one of the house's tables."""
    with table_writer(path, table.schema) as out:
        if frame is None or not frame.height:
            out.write_table(table.schema.empty_table())
            return
        arrays = []
        for field in table.schema:
            column = frame[field.name].to_arrow(compat_level=pl.CompatLevel.oldest())
            if field.name == "kind":
                column = pa.DictionaryArray.from_arrays(column.cast(pa.int32()), names)
            if field.name == "normalised":
                column = pc.if_else(pc.equal(column, frame["value"].to_arrow(compat_level=pl.CompatLevel.oldest())), None, column)
            arrays.append(column.cast(field.type))
        out.write_table(pa.table(arrays, schema=table.schema), row_group_size=100_000)
