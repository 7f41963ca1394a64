"""Staged documents on disk: Parquet in standard form, one row a record, and beside it the list of those that could not be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.keys import siphash
from sanitize.readers.standard_form import TEXT, without
from sanitize.readers.survey_types import REASONS, Sample, Staged, shown
from sanitize.storage.corpus import writer

ROWS = 5_000  # a row group is one batch of a worker: reference/performance.md, larger groups cost memory
BYTES = 16 << 20
FAULTS = pa.schema([("row", pa.int64()), ("source", pa.string()), ("place", pa.string()), ("reason", pa.string())])

Record = TypeVar("Record")
Text = tuple[str, str | None]  # a document of a file that has no columns, and who wrote it


class Writer:
    """Takes batches in standard form, in order, and faults by row; both files get their names only when all is written."""

    def __init__(self, out: Path, quarantine: Path, schema: pa.Schema, sample: Sample | None = None, unit: int = 0) -> None:
        """`unit` is the number of the unit that is written, for a `sample`."""
        self._sample, self._unit, self._seen = sample, unit, 0
        self._paths = [(path.with_name(path.name + ".part"), path) for path in (out, quarantine)]
        self._schema = schema
        self._rows = writer(self._paths[0][0], schema)
        self._faults = writer(self._paths[1][0], FAULTS)
        self._pending: list[pa.RecordBatch] = []
        self._found: list[tuple[int, str, str, str]] = []
        self.rows = self._quarantined = 0
        self.staged: Staged | None = None

    def add(self, batch: pa.RecordBatch, faults: dict[int, tuple[str, str, str]]) -> None:
        """Appends rows; `faults` gives (source, place, reason) of rows of this batch, whose cells become null."""
        if self._sample is not None:
            batch, faults = self._drawn(self._sample, batch, faults)
        for row, (source, place, reason) in sorted(faults.items()):
            assert reason in REASONS
            self._found.append((self.rows + row, shown(source), place, reason))
        self._quarantined += len(faults)
        self.rows += batch.num_rows
        self._append(without(batch, faults))
        if len(self._found) >= ROWS:
            self._flush_faults()

    def _drawn(
        self, sample: Sample, batch: pa.RecordBatch, faults: dict[int, tuple[str, str, str]]
    ) -> tuple[pa.RecordBatch, dict[int, tuple[str, str, str]]]:
        """The rows of a batch that a sample has, and their faults. What is set aside is drawn by its place: nothing in it is sure."""
        rows = np.arange(batch.num_rows)
        places = pa.array([f"\0{self._unit} {self._seen + row}" for row in rows], TEXT)
        by_place = np.isin(rows, list(faults)) | np.asarray(batch.column(0).is_null())
        words = siphash(pc.if_else(pa.array(by_place), places, batch.column(0)), sample.key)
        self._seen += batch.num_rows
        kept = np.flatnonzero(words < np.uint64(int(sample.share * (1 << 64))))
        number = {row: at for at, row in enumerate(kept.tolist())}
        return batch.take(pa.array(kept)), {number[row]: fault for row, fault in faults.items() if row in number}

    def lose(self, rows: int, fault: Callable[[int], tuple[str, str, str]]) -> None:
        """Appends records of which nothing can be read; `fault` gives (source, place, reason) of each, counted from 0."""
        for first in range(0, rows, ROWS):
            count = min(ROWS, rows - first)
            nothing = pa.RecordBatch.from_arrays([pa.nulls(count, kind) for kind in self._schema.types], schema=self._schema)
            self.add(nothing, {row: fault(first + row) for row in range(count)})

    def _append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows > ROWS or (batch.num_rows > 1 and batch.nbytes > BYTES):
            half = min(ROWS, (batch.num_rows + 1) // 2) if batch.nbytes > BYTES else ROWS
            self._append(batch.slice(0, half))
            self._append(batch.slice(half))
            return
        rows, size = (sum(part.num_rows for part in self._pending), sum(part.nbytes for part in self._pending))
        if self._pending and (rows + batch.num_rows > ROWS or size + batch.nbytes > BYTES):
            self._flush()
        if batch.num_rows:
            self._pending.append(batch)

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending)
            self._rows.write_table(table, row_group_size=table.num_rows)
            self._pending = []

    def _flush_faults(self) -> None:
        rows = [dict(zip(FAULTS.names, fault, strict=True)) for fault in self._found]
        self._faults.write_table(pa.Table.from_pylist(rows, FAULTS))
        self._found = []

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._flush()
                self._flush_faults()
            self._rows.close()
            self._faults.close()
            if kind is None:
                for part, path in self._paths:
                    part.replace(path)
                self.staged = Staged(rows=self.rows, quarantined=self._quarantined, bytes=self._paths[0][1].stat().st_size)
        finally:
            for part, _ in self._paths:
                part.unlink(missing_ok=True)


class Records(Generic[Record]):
    """Records one by one, made batches by `build`, which sees None for one that is set aside and may find more."""

    def __init__(self, writer: Writer, build: Callable[[list[Record | None]], tuple[pa.RecordBatch, dict[int, str]]]) -> None:
        self._writer, self._build = writer, build
        self._records: list[Record | None] = []
        self._places: list[tuple[str, str]] = []
        self._faults: dict[int, str] = {}
        self._size = 0

    def put(self, record: Record | None, source: str, place: str, reason: str = "", size: int = 0) -> None:
        """One record, or the reason why there is none."""
        if reason:
            self._faults[len(self._records)] = reason
        self._records.append(record)
        self._places.append((source, place))
        self._size += size
        if len(self._records) >= ROWS or self._size >= BYTES:
            self.flush()

    def flush(self) -> None:
        """What is still held, written."""
        batch, more = self._build(self._records)
        faults = {row: (*self._places[row], reason) for row, reason in (more | self._faults).items()}
        self._writer.add(batch, faults)
        self._records, self._places, self._faults, self._size = [], [], {}, 0


def texts(rows: list[Text | None], schema: pa.Schema) -> pa.RecordBatch:
    """Texts in standard form."""
    columns = {"text": [row and row[0] for row in rows], "user_id": [row and row[1] for row in rows]}
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(len(rows), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
