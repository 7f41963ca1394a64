"""Writes staged documents: a Parquet file in standard form, one row a record, and a second file
with the records that could not be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.keys import siphash
from sanitize.errors import printable_path
from sanitize.readers.standard_form import TEXT_TYPE, null_out_rows
from sanitize.readers.survey_types import (
    REASONS,
    DocumentSample,
    InputUnit,
    StagingLayout,
    StagingResult,
)
from sanitize.storage.parquet_files import open_text_writer
from sanitize.storage.records.lineage import LINEAGE_COLUMNS, SOURCES_KEY, Place, SourceRuns

STAGED_BATCH_ROWS = 5_000  # a row group is one batch of a worker; larger groups cost memory
STAGED_BATCH_BYTES = 16 << 20
FAULT_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("source", pa.string()),
        ("location", pa.string()),
        ("reason", pa.string()),
    ]
)

Record = TypeVar("Record")
TextDocument = tuple[str, str | None]  # (text, user id) of a document in a file without columns


class StagingWriter:
    """Writes one staged unit as two files: documents in standard form (standard_form.py), and
    faults.

    A fault is a record that could not be read: row, source, location and reason; its cells are null
    in the first file, whose metadata has the places of all records (lineage.py). A context manager:
    both files are written to temp paths, renamed on a clean exit and deleted on an error; `result`
    then has the counts. With `sample`, only the drawn rows are written.
    """

    def __init__(
        self,
        out_path: Path,
        quarantine_path: Path,
        layout: StagingLayout,
        unit: InputUnit,
    ) -> None:
        """The number of the `unit` that is written enters the drawing of a sample."""
        self._sample, self._unit_no, self._rows_seen = layout.sample, unit.no, 0
        self._input_path, self._has_lineage = unit.input_path, layout.roles.lineage
        schema = layout.schema
        self._temp_and_final_paths = [
            (path.with_name(path.name + ".part"), path) for path in (out_path, quarantine_path)
        ]
        self._schema = schema
        self._documents_writer = open_text_writer(self._temp_and_final_paths[0][0], schema)
        self._faults_writer = open_text_writer(self._temp_and_final_paths[1][0], FAULT_SCHEMA)
        self._pending: list[pa.RecordBatch] = []
        self._pending_faults: list[tuple[int, str, str, str]] = []
        self._sources = SourceRuns()
        self.rows = self._quarantined = 0
        self.guessed_encodings: dict[str, str] = {}
        self.result: StagingResult | None = None

    def add_batch(
        self, batch: pa.RecordBatch, places: Sequence[Place], faults: Mapping[int, str]
    ) -> None:
        """Appends rows with their places. `faults` maps rows of this batch to the reasons why they
        cannot be read; the cells of these rows become null."""
        if self._sample is not None:
            batch, kept = self._draw_sample(self._sample, batch, faults)
            faults = {at: faults[row] for at, row in enumerate(kept) if row in faults}
            places = [places[row] for row in kept]
        if self._has_lineage:
            batch = self._fill_lineage(batch, places)
        for row, reason in sorted(faults.items()):
            assert reason in REASONS
            source, location = places[row]
            self._pending_faults.append((self.rows + row, printable_path(source), location, reason))
        for place in places:
            self._sources.add(place)
        self._quarantined += len(faults)
        self.rows += batch.num_rows
        self._append(null_out_rows(batch, faults))
        if len(self._pending_faults) >= STAGED_BATCH_ROWS:
            self._flush_faults()

    def _fill_lineage(self, batch: pa.RecordBatch, places: Sequence[Place]) -> pa.RecordBatch:
        """The batch with its places in the columns of `--lineage`."""
        shown = [place.below(self._input_path) for place in places]
        for position, name in enumerate(LINEAGE_COLUMNS):
            at = batch.schema.get_field_index(name)
            values = pa.array([place[position] for place in shown], TEXT_TYPE)
            batch = batch.set_column(at, batch.schema.field(at), values)
        return batch

    def _draw_sample(
        self, sample: DocumentSample, batch: pa.RecordBatch, faults: Collection[int]
    ) -> tuple[pa.RecordBatch, list[int]]:
        """The rows of a batch that are in the sample, and their numbers in the batch. Quarantined
        rows are drawn by their position, since their content is not reliable.
        """
        rows = np.arange(batch.num_rows)
        positions = pa.array(
            [f"\0{self._unit_no} {self._rows_seen + row}" for row in rows], TEXT_TYPE
        )
        drawn_by_position = np.isin(rows, list(faults)) | np.asarray(batch.column(0).is_null())
        hashes = siphash(
            pc.if_else(pa.array(drawn_by_position), positions, batch.column(0)), sample.key
        )
        self._rows_seen += batch.num_rows
        kept = np.flatnonzero(hashes < np.uint64(int(sample.share * (1 << 64))))
        return batch.take(pa.array(kept)), kept.tolist()

    def quarantine_rows(
        self, row_count: int, find_place: Callable[[int], Place], reason: str
    ) -> None:
        """Appends records of which nothing can be read; `find_place` gives the place of each,
        counted from 0."""
        for first in range(0, row_count, STAGED_BATCH_ROWS):
            count = min(STAGED_BATCH_ROWS, row_count - first)
            null_batch = pa.RecordBatch.from_arrays(
                [pa.nulls(count, data_type) for data_type in self._schema.types],
                schema=self._schema,
            )
            places = [find_place(first + row) for row in range(count)]
            self.add_batch(null_batch, places, dict.fromkeys(range(count), reason))

    def _append(self, batch: pa.RecordBatch) -> None:
        """Holds a batch until a row group is full; a batch over the limits is split in halves
        first."""
        if batch.num_rows > STAGED_BATCH_ROWS or (
            batch.num_rows > 1 and batch.nbytes > STAGED_BATCH_BYTES
        ):
            half = (
                min(STAGED_BATCH_ROWS, (batch.num_rows + 1) // 2)
                if batch.nbytes > STAGED_BATCH_BYTES
                else STAGED_BATCH_ROWS
            )
            self._append(batch.slice(0, half))
            self._append(batch.slice(half))
            return
        rows, size = (
            sum(part.num_rows for part in self._pending),
            sum(part.nbytes for part in self._pending),
        )
        if self._pending and (
            rows + batch.num_rows > STAGED_BATCH_ROWS or size + batch.nbytes > STAGED_BATCH_BYTES
        ):
            self._flush()
        if batch.num_rows:
            self._pending.append(batch)

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending)
            self._documents_writer.write_table(table, row_group_size=table.num_rows)
            self._pending = []

    def _flush_faults(self) -> None:
        rows = [dict(zip(FAULT_SCHEMA.names, fault, strict=True)) for fault in self._pending_faults]
        self._faults_writer.write_table(pa.Table.from_pylist(rows, FAULT_SCHEMA))
        self._pending_faults = []

    def __enter__(self) -> StagingWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._flush()
                self._flush_faults()
                self._documents_writer.add_key_value_metadata(
                    {SOURCES_KEY: self._sources.to_json()}
                )
            self._documents_writer.close()
            self._faults_writer.close()
            if kind is None:
                for temp_path, path in self._temp_and_final_paths:
                    temp_path.replace(path)
                self.result = StagingResult(
                    rows=self.rows,
                    quarantined=self._quarantined,
                    guessed_encodings=self.guessed_encodings,
                )
        finally:
            for temp_path, _ in self._temp_and_final_paths:
                temp_path.unlink(missing_ok=True)


class RecordBatcher(Generic[Record]):
    """Collects records and writes them in batches made by `build`. `build` receives None for a
    quarantined record and may report more faults.
    """

    def __init__(
        self,
        writer: StagingWriter,
        build: Callable[[list[Record | None]], tuple[pa.RecordBatch, dict[int, str]]],
    ) -> None:
        self._writer, self._build = writer, build
        self._records: list[Record | None] = []
        self._places: list[Place] = []
        self._faults: dict[int, str] = {}
        self._size = 0

    def add(
        self, record: Record | None, source: str, location: str, reason: str = "", size: int = 0
    ) -> None:
        """Adds one record, or None and the reason why it cannot be read. `size` is its bytes."""
        if reason:
            self._faults[len(self._records)] = reason
        self._records.append(record)
        self._places.append(Place(source, location))
        self._size += size
        if len(self._records) >= STAGED_BATCH_ROWS or self._size >= STAGED_BATCH_BYTES:
            self.flush()

    def note_encoding(self, source: str, encoding: str) -> None:
        """Notes that a file is read in an encoding that was guessed."""
        self._writer.guessed_encodings[printable_path(source)] = encoding

    def flush(self) -> None:
        """Writes the records that are still held."""
        batch, build_faults = self._build(self._records)
        self._writer.add_batch(batch, self._places, build_faults | self._faults)
        self._records, self._places, self._faults, self._size = [], [], {}, 0


def build_text_batch(rows: list[TextDocument | None], schema: pa.Schema) -> pa.RecordBatch:
    """Texts and their user ids in standard form; all other columns are null."""
    columns = {
        schema.field(2).name: [row and row[0] for row in rows],
        "user_id": [row and row[1] for row in rows],
    }
    arrays = [
        pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(len(rows), f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
