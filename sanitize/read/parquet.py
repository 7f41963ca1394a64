"""Parquet: views on files whose text is strings in small row groups, and staging for all others, such as columns of whole mails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize import cells
from sanitize.read.mail import mail_text
from sanitize.read.standard import TEXT, faults, is_binary, leaf_of, plain_schema, standard
from sanitize.read.unit import Layout, Look, Roles, Unit, Unreadable
from sanitize.read.writer import BYTES, ROWS, Writer

FORMATS = {"parquet": (".parquet", ".pq", ".parq")}
VIEW_ROWS, VIEW_BYTES = 50_000, 128 << 20  # larger row groups would be decoded again by every task that touches them
PIECE = 64 << 20  # bytes, decoded, that one worker stages
_ERRORS = (pa.ArrowException, OSError, ValueError, NotImplementedError, MemoryError, OverflowError)


def recognise(head: bytes) -> str | None:
    """`parquet` by its magic; PARE is Parquet with an encrypted footer."""
    return "parquet" if head[:4] in (b"PAR1", b"PARE") else None


def accepts(head: bytes, format: str) -> bool:
    """Whether a file may be what its name says."""
    return recognise(head) is not None


def look(path: str, format: str, roles: Roles) -> Look:
    """The columns and the row groups, from the footer; nothing of the data is read."""
    try:
        with open(path, "rb") as file:
            if file.read(4) == b"PARE":
                raise Unreadable("encrypted")
            file.seek(-4, 2)
            if file.read(4) != b"PAR1":
                raise Unreadable("truncated")
        with pq.ParquetFile(path) as file:
            meta, schema = file.metadata, file.schema_arrow
    except _ERRORS:
        raise Unreadable("unreadable") from None
    if len(set(schema.names)) < len(schema.names):
        raise Unreadable("unreadable")
    groups = [(meta.row_group(number).num_rows, meta.row_group(number).total_byte_size) for number in range(meta.num_row_groups)]
    schema = plain_schema(schema)
    view = _viewable(schema, roles) and all(rows <= VIEW_ROWS and size <= VIEW_BYTES for rows, size in groups)
    cuts: list[list[int]] = [[]]
    held = 0
    for number, (_, size) in enumerate(groups):
        if held and held + size > PIECE and not view:
            cuts.append([])
            held = 0
        cuts[-1].append(number)
        held += size
    base = Unit(no=0, path=path, format=format, files=(path,), view=view)
    pieces = [replace(base, groups=tuple(cut), rows=sum(groups[number][0] for number in cut)) for cut in cuts]
    return Look(schema=schema, soft=False, pieces=tuple(pieces))


def _viewable(schema: pa.Schema, roles: Roles) -> bool:
    """Whether all texts are strings as they lie there, and no column would have to be made from mails."""
    return not any((leaf := leaf_of(name, schema)) and is_binary(schema.field(leaf.column).type) for name in roles.text)


def stage(unit: Unit, layout: Layout, writer: Writer, max_doc_bytes: int) -> None:
    """All rows of a unit's row groups. What cannot be decoded is set aside, row by row."""
    try:
        file = pq.ParquetFile(unit.path, page_checksum_verification=True)
    except _ERRORS:
        _lost(unit, layout, writer, 0, unit.rows or 0)
        return
    with file:
        counts = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        for group in unit.groups:
            at, stop = sum(counts[:group]), sum(counts[: group + 1])
            size = file.metadata.row_group(group).total_byte_size
            step = max(1, min(ROWS, BYTES * counts[group] // max(size, 1)))
            batches = file.iter_batches(step, row_groups=[group], use_threads=False)
            while at < stop:
                try:
                    batch = next(batches)
                    made, found = _standard(batch, unit, layout, max_doc_bytes)
                except (*_ERRORS, StopIteration):
                    _lost(unit, layout, writer, at, stop)
                    break
                writer.add(made, {row: (unit.path, f"row {at + row}", reason) for row, reason in found.items()})
                at += batch.num_rows


def _lost(unit: Unit, layout: Layout, writer: Writer, start: int, stop: int) -> None:
    """Rows start..stop of the file, which its footer counts and nobody can decode."""
    for first in range(start, stop, ROWS):
        rows = range(first, min(first + ROWS, stop))
        nulls = [pa.nulls(len(rows), field.type) for field in layout.schema]
        batch = pa.RecordBatch.from_arrays(nulls, schema=layout.schema)
        writer.add(batch, {row - first: (unit.path, f"row {row}", "unreadable") for row in rows})


def _standard(batch: pa.RecordBatch, unit: Unit, layout: Layout, limit: int) -> tuple[pa.RecordBatch, dict[int, str]]:
    """A batch in standard form, with mails made text, and the rows in it to set aside."""
    found: dict[int, str] = {}
    users: list[str | None] | None = None
    for number, name in enumerate(layout.roles.text):
        leaf = leaf_of(name, batch.schema)
        if leaf is None or leaf.steps or not is_binary(cells.plain_type(batch.schema.field(leaf.column).type)):
            continue
        texts: list[str | None] = []
        senders: list[str | None] = []
        for row, raw in enumerate(_bytes(batch.column(leaf.column))):
            if raw is not None and len(raw) > limit:
                found[row], raw = "too_large", None
            text, sender = (None, None) if raw is None else mail_text(raw)
            texts.append(text)
            senders.append(sender)
        batch = batch.set_column(batch.schema.get_field_index(leaf.column), leaf.column, pa.array(texts, TEXT))
        users = senders if number == 0 else users
    made = standard(batch, unit.columns, layout.schema)
    if users is not None and "user_id" not in (name for _, name in unit.columns):
        made = made.set_column(1, layout.schema.field(1), pa.array(users, TEXT))
    return made, faults(made, limit) | found


def _bytes(array: pa.Array) -> Iterator[bytes | None]:
    """The values of a binary column."""
    return (value.as_py() for value in array)
