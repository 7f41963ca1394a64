"""Reader for Arrow: IPC streams and IPC files (Feather), decoded once, batch by batch.

The files of a `datasets` folder (`save_to_disk`) are IPC streams. Arrow does not check the buffers
that it maps from such a file; every batch is validated before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader

import pyarrow as pa

from sanitize.readers.byte_streams import TruncatedStream, open_stream
from sanitize.readers.parquet import standardize_with_mails
from sanitize.readers.staging_writer import STAGED_BATCH_BYTES, STAGED_BATCH_ROWS, StagingWriter
from sanitize.readers.standard_form import (
    MAX_NESTING_LEVELS,
    has_unknown_type,
    nesting_levels,
    null_out_rows,
)
from sanitize.readers.survey_types import (
    FileSurvey,
    InputUnit,
    Roles,
    StagingLayout,
    UnreadableFile,
)
from sanitize.storage.records.dataset_features import read_features
from sanitize.storage.records.lineage import Place
from sanitize.storage.records.record_shapes import canonical_schema

FORMATS = {"arrow": (".arrow", ".feather", ".ipc")}
_FILE_MAGIC, _STREAM_MAGIC = b"ARROW1\0\0", b"\xff\xff\xff\xff"
_READ_ERRORS = (
    pa.ArrowException,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    NotImplementedError,
    OverflowError,
)


def detect_format(head: bytes) -> str | None:
    """`arrow` by the magic bytes of a file or the first bytes of a stream, else None."""
    return "arrow" if head.startswith((_FILE_MAGIC, _STREAM_MAGIC)) else None


def confirm_format(head: bytes, format: str) -> str:
    """The detected format of a file whose name says Arrow; "" where its first bytes are not
    Arrow."""
    return detect_format(head) or ""


def survey_file(path: str, format: str, roles: Roles, max_doc_bytes: int) -> FileSurvey:
    """The columns, from the schema at the start of the file. Raises UnreadableFile."""
    try:
        with open_stream(path) as stream:
            schema = _open_batches(stream)[0]
        features = read_features(schema)
        has_unknown_types = any(has_unknown_type(field.type) for field in schema)
        has_duplicate_names, schema = (
            len(set(schema.names)) < len(schema.names),
            canonical_schema(schema),
        )
    except TruncatedStream:
        raise UnreadableFile("truncated") from None
    except MemoryError:
        raise UnreadableFile("memory") from None
    except _READ_ERRORS:
        raise UnreadableFile("unreadable") from None
    if has_duplicate_names:
        raise UnreadableFile("unreadable")
    if any(nesting_levels(field.type) > MAX_NESTING_LEVELS for field in schema):
        raise UnreadableFile("too_deep")
    if has_unknown_types:
        raise UnreadableFile("unknown_column_type")
    return FileSurvey(
        schema=schema,
        is_inferred=False,
        units=(InputUnit(no=0, path=path, format=format, files=(path,)),),
        features=features,
    )


def _open_batches(stream: BufferedReader) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches of a stream. An IPC file is mostly a stream with eight bytes
    before it and a footer behind it; one without the schema at its start, as Polars writes it, is
    read by its footer."""
    head = stream.peek(len(_FILE_MAGIC) + len(_STREAM_MAGIC))
    if not head.startswith(_FILE_MAGIC):
        reader = pa.ipc.open_stream(stream)
        return reader.schema, iter(reader)
    if head[len(_FILE_MAGIC) :].startswith(_STREAM_MAGIC):
        stream.read(len(_FILE_MAGIC))
        reader = pa.ipc.open_stream(stream)
        return reader.schema, iter(reader)
    file = pa.ipc.open_file(stream)
    return file.schema, (file.get_batch(number) for number in range(file.num_record_batches))


def stage_unit(
    unit: InputUnit, layout: StagingLayout, writer: StagingWriter, max_doc_bytes: int
) -> None:
    """Stages all rows. Rows that cannot be decoded are quarantined one by one; a break in the file
    costs the rows behind it."""
    row = 0
    for batch, reason in _iter_batches(unit.path):
        if batch is None:
            place = Place(unit.path, f"after row {row}")
            writer.quarantine_rows(1, lambda _: place, reason)  # noqa: B023 - called before it returns
            return
        invalid_rows = _find_invalid_rows(batch)
        for piece, first in _slice_batch(batch):
            low, high = first, first + piece.num_rows
            if unit.quarantine_reason:
                faults = dict.fromkeys(range(piece.num_rows), unit.quarantine_reason)
                standardized = pa.RecordBatch.from_arrays(
                    [pa.nulls(piece.num_rows, kind) for kind in layout.schema.types],
                    schema=layout.schema,
                )
            else:
                faults = {at - low: why for at, why in invalid_rows.items() if low <= at < high}
                standardized, more_faults = standardize_with_mails(
                    null_out_rows(piece, faults), unit, layout, max_doc_bytes
                )
                faults = more_faults | faults
            writer.add_batch(
                standardized,
                [Place(unit.path, f"row {row + at}") for at in range(low, high)],
                faults,
            )
        row += batch.num_rows


def _iter_batches(path: str) -> Iterator[tuple[pa.RecordBatch | None, str]]:
    """(batch, "") for every batch of a file; if reading fails, (None, reason) as the last item."""
    try:
        with open_stream(path) as stream:
            yield from ((batch, "") for batch in _open_batches(stream)[1])
    except TruncatedStream as error:
        yield None, error.reason
    except MemoryError:
        yield None, "memory"
    except _READ_ERRORS as error:
        is_truncated = isinstance(error, OSError) or "Expected to be able to read" in str(error)
        yield None, "truncated" if is_truncated else "unreadable"


def _find_invalid_rows(batch: pa.RecordBatch) -> dict[int, str]:
    """The rows whose buffers are invalid, with the reason; all rows, where what is invalid is in no
    row. They must not be used."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return {}
    # a loop over rows: for a whole batch Arrow only reports that it is invalid, not which rows are
    reason_by_row = {}
    for row in range(batch.num_rows):
        try:
            batch.slice(row, 1).validate(full=True)
        except pa.ArrowInvalid as error:
            reason_by_row[row] = "not_utf8" if "UTF8" in str(error) else "unreadable"
    # such as a number of nulls that is not so
    return reason_by_row or dict.fromkeys(range(batch.num_rows), "unreadable")


def _slice_batch(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The batch in pieces within the limits of rows and bytes, each with the number of its first
    row."""
    piece_rows = (
        STAGED_BATCH_ROWS
        if batch.nbytes <= STAGED_BATCH_BYTES
        else max(1, min(STAGED_BATCH_ROWS, batch.num_rows * STAGED_BATCH_BYTES // batch.nbytes))
    )
    for first in range(0, batch.num_rows, piece_rows):
        yield batch.slice(first, piece_rows), first
