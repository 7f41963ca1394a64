"""Parquet: views on files whose text is strings in small row groups, and staging for all others, such as columns of whole mails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core import text_cells
from sanitize.readers.mail import mail_text
from sanitize.readers.staging_writer import BYTES, ROWS, Writer
from sanitize.readers.standard_form import TEXT, faults, is_binary, leaf_of, plain_schema, standard, without
from sanitize.readers.survey_types import Layout, Look, Roles, Unit, Unreadable
from sanitize.storage import row_groups
from sanitize.storage.row_groups import I64

FORMATS = {"parquet": (".parquet", ".pq", ".parq")}
VIEW_ROWS, VIEW_BYTES = 50_000, 128 << 20  # larger row groups would be decoded again by every task that touches them
PIECE = 64 << 20  # bytes, decoded, that one worker stages
ROWS_PER_BYTE = 1_000  # of a whole file; an empty text takes no byte where many follow each other, but nobody means a billion of them
RATIO = 1_000  # bytes that come out of one; no text is as dull as that
_ERRORS = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, NotImplementedError, MemoryError, OverflowError)


def recognise(head: bytes) -> str | None:
    """`parquet` by its magic; PARE is Parquet with an encrypted footer."""
    return "parquet" if head[:4] in (b"PAR1", b"PARE") else None


def accepts(head: bytes, format: str) -> str:
    """The format, where a file may be what its name says."""
    return recognise(head) or ""


def look(path: str, format: str, roles: Roles) -> Look:
    """The columns and the row groups, from the footer; nothing of the data is read."""
    try:
        with open(path, "rb") as file:
            if file.read(4) == b"PARE":
                raise Unreadable("encrypted")
            file.seek(-4, 2)
            if file.read(4) != b"PAR1":
                raise Unreadable("truncated")
        with pq.ParquetFile(path, pre_buffer=False) as file:
            meta, schema = file.metadata, file.schema_arrow
        groups = _checked(meta, os.path.getsize(path))
        twice, schema = len(set(schema.names)) < len(schema.names), plain_schema(schema)
    except MemoryError:
        raise Unreadable("memory") from None
    except _ERRORS:
        raise Unreadable("unreadable") from None
    if twice:
        raise Unreadable("unreadable")
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
    pieces, first = [], 0
    for piece in cuts:
        rows = sum(groups[number][0] for number in piece)
        pieces.append(replace(base, groups=tuple(piece), rows=rows, start=first))
        first += rows
    return Look(schema=schema, soft=False, pieces=tuple(pieces))


def readable(unit: Unit, layout: Layout, max_doc_bytes: int) -> bool:
    """Whether all rows of a unit can be read in place, to the last one, none of them too large and no row group once it is unpacked: what a
    view needs."""
    rows, unpacked = 0, [np.zeros(1, np.int64)]
    try:
        meta = pq.read_metadata(unit.path)
        for batch, sizes in row_groups.batches(unit.path, meta, unit.groups, rows=ROWS, bytes=BYTES):
            if int(sizes.max(initial=0)) > max_doc_bytes or batch.nbytes > VIEW_BYTES:
                return False
            rows += standard(batch, unit.columns, layout.schema).num_rows
            unpacked.append(sizes)
    except _ERRORS:
        return False
    if not rows == unit.rows == meta.num_rows:
        return False
    return bool(np.diff(np.cumsum(np.concatenate(unpacked))[row_groups.starts(meta)]).max(initial=0) <= VIEW_BYTES)


def _viewable(schema: pa.Schema, roles: Roles) -> bool:
    """Whether all texts are strings as they lie there, and no column would have to be made from mails."""
    return not any((leaf := leaf_of(name, schema)) and is_binary(schema.field(leaf.column).type) for name in roles.text)


def _checked(meta: pq.FileMetaData, size: int) -> list[tuple[int, int]]:
    """(rows, bytes) of each row group of a footer that agrees with itself and with the size of its file."""
    groups = []
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        if group.num_rows < 0 or group.total_byte_size < 0:
            raise Unreadable("unreadable")
        if group.num_rows > ROWS_PER_BYTE * size:
            raise Unreadable("bomb")
        for place in range(group.num_columns):
            column = group.column(place)
            first = min(at for at in (column.data_page_offset, column.dictionary_page_offset) if at is not None)
            if first < 0 or column.total_compressed_size < 0 or first + column.total_compressed_size > size:
                raise Unreadable("truncated")
            if meta.schema.column(place).max_repetition_level == 0 and column.num_values != group.num_rows:
                raise Unreadable("unreadable")
        held = sum(group.column(place).total_compressed_size for place in range(group.num_columns))
        if group.total_byte_size > RATIO * held + BYTES:
            raise Unreadable("bomb")
        groups.append((group.num_rows, group.total_byte_size))
    if sum(rows for rows, _ in groups) != meta.num_rows:
        raise Unreadable("unreadable")
    return groups


def stage(unit: Unit, layout: Layout, writer: Writer, max_doc_bytes: int) -> None:
    """All rows of a unit's row groups. What cannot be decoded is set aside, row by row."""
    if unit.lost:
        lost(unit, writer, unit.lost)
        return
    try:
        meta = pq.read_metadata(unit.path)
        starts = row_groups.starts(meta)
    except MemoryError:
        lost(unit, writer, "memory")
        return
    except _ERRORS:
        lost(unit, writer, "unreadable")
        return
    if sum(int(starts[group + 1] - starts[group]) if group < meta.num_row_groups else 0 for group in unit.groups) != unit.rows:
        lost(unit, writer, "unreadable")  # not the file that was looked at
        return
    for group in unit.groups:
        at, stop = int(starts[group]), int(starts[group + 1])
        batches = row_groups.batches(unit.path, meta, [group], rows=ROWS, bytes=BYTES)
        while at < stop:
            try:
                batch, _ = next(batches)
                made, found = in_standard_form(batch.slice(0, stop - at), unit, layout, max_doc_bytes)
            except MemoryError:
                _lost(unit, writer, at, stop, "memory")
                break
            except (*_ERRORS, StopIteration):
                _lost(unit, writer, at, stop, "unreadable")
                break
            writer.add(made, {row: (unit.path, f"row {at + row}", reason) for row, reason in found.items()})
            at += made.num_rows


def lost(unit: Unit, writer: Writer, reason: str) -> None:
    """All rows of a unit, which its footer counts and nobody reads."""
    _lost(unit, writer, unit.start, unit.start + (unit.rows or 0), reason)


def _lost(unit: Unit, writer: Writer, start: int, stop: int, reason: str) -> None:
    writer.lose(stop - start, lambda row: (unit.path, f"row {start + row}", reason))


def in_standard_form(batch: pa.RecordBatch, unit: Unit, layout: Layout, limit: int) -> tuple[pa.RecordBatch, dict[int, str]]:
    """A batch in standard form, with mails made text, and the rows in it to set aside: what is too large before it is decoded."""
    found: dict[int, str] = dict.fromkeys(np.flatnonzero(_sizes(batch, layout.roles) > limit).tolist(), "too_large")
    batch = without(batch, found)
    users: list[str | None] | None = None
    for number, name in enumerate(layout.roles.text):
        leaf = leaf_of(name, batch.schema)
        if leaf is None or leaf.steps or not is_binary(text_cells.plain_type(batch.schema.field(leaf.column).type)):
            continue
        texts: list[str | None] = []
        senders: list[str | None] = []
        for raw in _bytes(text_cells.plain(batch.column(leaf.column))):
            text, sender = (None, None) if raw is None else mail_text(raw)
            texts.append(text)
            senders.append(sender)
        batch = batch.set_column(batch.schema.get_field_index(leaf.column), leaf.column, pa.array(texts, TEXT))
        users = senders if number == 0 else users
    made = standard(batch, unit.columns, layout.schema)
    if users is not None and "user_id" not in (name for _, name in unit.columns):
        made = made.set_column(1, layout.schema.field(1), pa.array(users, TEXT))
    return made, faults(made, limit) | found


def _sizes(batch: pa.RecordBatch, roles: Roles) -> I64:
    """The bytes of text of each row, mails as they were sent; byte strings that nobody reads do not count."""
    kinds = plain_schema(batch.schema)
    mails = {leaf.column for name in roles.text if (leaf := leaf_of(name, kinds))}
    names = [field.name for field in kinds if field.name in mails or text_cells.leaves(pa.schema([field]))]
    return row_groups.text_bytes(batch.select(names)) if names else np.zeros(batch.num_rows, np.int64)


def _bytes(array: pa.Array) -> Iterator[bytes | None]:
    """The values of a binary column."""
    return (value.as_py() for value in array)
