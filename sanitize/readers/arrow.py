"""Arrow: IPC streams, such as a `datasets` folder of `save_to_disk` holds, and IPC files (Feather). Decoded once, batch by batch.

Arrow checks nothing of what it maps from such a file; every batch is validated before anything looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader

import pyarrow as pa

from sanitize.readers.byte_streams import Break, opened
from sanitize.readers.parquet import in_standard_form
from sanitize.readers.staging_writer import BYTES, ROWS, Writer
from sanitize.readers.standard_form import plain_schema, without
from sanitize.readers.survey_types import Layout, Look, Roles, Unit, Unreadable

FORMATS = {"arrow": (".arrow", ".feather", ".ipc")}
_FILE, _STREAM = b"ARROW1\0\0", b"\xff\xff\xff\xff"
_ERRORS = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, NotImplementedError, OverflowError)


def recognise(head: bytes) -> str | None:
    """`arrow` by the magic of a file, or by how a stream begins."""
    return "arrow" if head.startswith((_FILE, _STREAM)) else None


def accepts(head: bytes, format: str) -> str:
    """The format, where a file may be what its name says."""
    return recognise(head) or ""


def look(path: str, format: str, roles: Roles) -> Look:
    """The columns, from the schema at the start."""
    try:
        with opened(path) as stream:
            schema = _reader(stream).schema
        twice, schema = len(set(schema.names)) < len(schema.names), plain_schema(schema)
    except Break:
        raise Unreadable("truncated") from None
    except MemoryError:
        raise Unreadable("memory") from None
    except _ERRORS:
        raise Unreadable("unreadable") from None
    if twice:
        raise Unreadable("unreadable")
    return Look(schema=schema, soft=False, pieces=(Unit(no=0, path=path, format=format, files=(path,)),))


def _reader(stream: BufferedReader) -> pa.RecordBatchReader:
    """What reads a stream from its start. A file is a stream too, with eight bytes before it and a footer behind."""
    if stream.peek(len(_FILE)).startswith(_FILE):
        stream.read(len(_FILE))
    return pa.ipc.open_stream(stream)


def stage(unit: Unit, layout: Layout, writer: Writer, max_doc_bytes: int) -> None:
    """All rows. What cannot be decoded is set aside, row by row; a break costs what lies behind it."""
    row = 0
    for batch, reason in _batches(unit.path):
        if batch is None:
            writer.lose(1, lambda _, at=row, why=reason: (unit.path, f"after row {at}", why))  # type: ignore[misc]
            return
        bad = _invalid(batch)
        for part, first in _parts(batch):
            low, high = first, first + part.num_rows
            if unit.lost:
                found = dict.fromkeys(range(part.num_rows), unit.lost)
                made = pa.RecordBatch.from_arrays([pa.nulls(part.num_rows, kind) for kind in layout.schema.types], schema=layout.schema)
            else:
                found = {at - low: why for at, why in bad.items() if low <= at < high}
                made, more = in_standard_form(without(part, found), unit, layout, max_doc_bytes)
                found = more | found
            writer.add(made, {at: (unit.path, f"row {row + low + at}", why) for at, why in found.items()})
        row += batch.num_rows


def _batches(path: str) -> Iterator[tuple[pa.RecordBatch | None, str]]:
    """(batch, "") for every batch of a file; if it fails on the way, (None, reason) as the last."""
    try:
        with opened(path) as stream:
            yield from ((batch, "") for batch in _reader(stream))
    except Break:
        yield None, "truncated"
    except MemoryError:
        yield None, "memory"
    except _ERRORS as error:
        short = isinstance(error, OSError) or "Expected to be able to read" in str(error)
        yield None, "truncated" if short else "unreadable"


def _invalid(batch: pa.RecordBatch) -> dict[int, str]:
    """The rows whose buffers do not hold what they claim, which nothing may look at."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return {}
    # a loop over the rows of a batch that is broken: Arrow says of a whole batch only that it is
    found = {}
    for row in range(batch.num_rows):
        try:
            batch.slice(row, 1).validate(full=True)
        except pa.ArrowInvalid as error:
            found[row] = "not_utf8" if "UTF8" in str(error) else "unreadable"
    return found


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The batch in pieces that are not too large, each with its first row."""
    step = ROWS if batch.nbytes <= BYTES else max(1, min(ROWS, batch.num_rows * BYTES // batch.nbytes))
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step), first
