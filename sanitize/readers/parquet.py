"""Reader for Parquet files, which are read in place or staged.

Files whose texts are strings in small row groups are read in place; all others are staged, such as
those with columns of whole mails.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.array_types import I64
from sanitize.core import text_cells
from sanitize.readers.mail import parse_mail
from sanitize.readers.staging_writer import STAGED_BATCH_BYTES, STAGED_BATCH_ROWS, StagingWriter
from sanitize.readers.standard_form import (
    TEXT_TYPE,
    find_faults,
    find_leaf,
    is_binary,
    null_out_rows,
    standardize_batch,
)
from sanitize.readers.survey_types import (
    FileSurvey,
    InputUnit,
    Roles,
    StagingLayout,
    UnreadableFile,
)
from sanitize.storage import parquet_files
from sanitize.storage.records.dataset_features import read_features
from sanitize.storage.records.lineage import Place
from sanitize.storage.records.record_shapes import (
    SNIFFED_ROWS,
    canonical_schema,
    find_shape_faults,
    mark_sniffed_turns,
)
from sanitize.storage.views.sql_text import is_encodable

FORMATS = {"parquet": (".parquet", ".pq", ".parq")}
# larger row groups are staged: in place, every task that reads a part of one would decode all of it
MAX_IN_PLACE_GROUP_ROWS, MAX_IN_PLACE_GROUP_BYTES = 50_000, 128 << 20
UNIT_BYTES = 64 << 20  # decoded bytes in one unit
# of a whole file; runs of empty texts take no bytes, but a billion of them is not plausible
MAX_ROWS_PER_BYTE = 1_000
MAX_COMPRESSION_RATIO = (
    1_000  # decoded bytes for each compressed byte; no real text compresses that well
)
_READ_ERRORS = (
    pa.ArrowException,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    NotImplementedError,
    MemoryError,
    OverflowError,
)


def detect_format(head: bytes) -> str | None:
    """`parquet` by its magic bytes, else None; PARE is Parquet with an encrypted footer."""
    return "parquet" if head[:4] in (b"PAR1", b"PARE") else None


def confirm_format(head: bytes, format: str) -> str:
    """The detected format of a file whose name says Parquet; "" where its first bytes are not
    Parquet."""
    return detect_format(head) or ""


def survey_file(path: str, format: str, roles: Roles, max_doc_bytes: int) -> FileSurvey:
    """The columns and the row groups, from the footer; data is read only of lists of texts that may
    be turns. Raises UnreadableFile."""
    try:
        with open(path, "rb") as file:
            if file.read(4) == b"PARE":
                raise UnreadableFile("encrypted")
            file.seek(-4, 2)
            if file.read(4) != b"PAR1":
                raise UnreadableFile("truncated")
        with pq.ParquetFile(path, pre_buffer=False) as file:
            meta, schema = file.metadata, file.schema_arrow
        groups = _validate_row_groups(meta, os.path.getsize(path))
        features = read_features(schema)
        has_duplicate_names, schema = (
            len(set(schema.names)) < len(schema.names),
            canonical_schema(schema),
        )
        if not has_duplicate_names:
            schema = mark_sniffed_turns(schema, functools.partial(_read_head, path))
    except MemoryError:
        raise UnreadableFile("memory") from None
    except _READ_ERRORS:
        raise UnreadableFile("unreadable") from None
    if has_duplicate_names:
        raise UnreadableFile("unreadable")
    in_place = (
        _has_text_as_strings(schema, roles)
        and all(
            rows <= MAX_IN_PLACE_GROUP_ROWS and size <= MAX_IN_PLACE_GROUP_BYTES
            for rows, size in groups
        )
        and is_encodable(os.path.abspath(path))  # queries read the documents too
    )
    cuts: list[list[int]] = [[]]
    unit_bytes = 0
    for number, (_, size) in enumerate(groups):
        if unit_bytes and unit_bytes + size > UNIT_BYTES and not in_place:
            cuts.append([])
            unit_bytes = 0
        cuts[-1].append(number)
        unit_bytes += size
    whole_file = InputUnit(no=0, path=path, format=format, files=(path,), in_place=in_place)
    pieces, first = [], 0
    for unit_groups in cuts:
        rows = sum(groups[number][0] for number in unit_groups)
        pieces.append(replace(whole_file, row_groups=tuple(unit_groups), rows=rows, start=first))
        first += rows
    return FileSurvey(schema=schema, is_inferred=False, units=tuple(pieces), features=features)


def _read_head(path: str, columns: list[str]) -> pa.Table:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        batches = list(
            itertools.islice(file.iter_batches(batch_size=SNIFFED_ROWS, columns=columns), 1)
        )
        return (
            pa.Table.from_batches(batches)
            if batches
            else file.schema_arrow.empty_table().select(columns)
        )


def is_readable_in_place(unit: InputUnit, layout: StagingLayout, max_doc_bytes: int) -> bool:
    """True if every row of a unit can be read in place, no row is too large, and no row group is
    too large once it is decoded."""
    rows, row_sizes = 0, [np.zeros(1, np.int64)]
    try:
        meta = pq.read_metadata(unit.path)
        for batch, sizes in parquet_files.read_bounded_batches(
            unit.path,
            meta,
            unit.row_groups,
            max_rows=STAGED_BATCH_ROWS,
            max_bytes=STAGED_BATCH_BYTES,
        ):
            if int(sizes.max(initial=0)) > max_doc_bytes or batch.nbytes > MAX_IN_PLACE_GROUP_BYTES:
                return False
            standardized = standardize_batch(batch, unit.column_mapping, layout.schema)
            if layout.roles.shape and find_shape_faults(standardized, layout.roles.shape):
                return False
            rows += standardized.num_rows
            row_sizes.append(sizes)
    except _READ_ERRORS:
        return False
    if not rows == unit.rows == meta.num_rows:
        return False
    return bool(
        np.diff(np.cumsum(np.concatenate(row_sizes))[parquet_files.row_group_starts(meta)]).max(
            initial=0
        )
        <= MAX_IN_PLACE_GROUP_BYTES
    )


def _has_text_as_strings(schema: pa.Schema, roles: Roles) -> bool:
    """True if all text columns hold strings, so that no column has to be made from mails."""
    return not any(
        (leaf := find_leaf(name, schema)) and is_binary(schema.field(leaf.column).type)
        for name in roles.text
    )


def _validate_row_groups(metadata: pq.FileMetaData, file_size: int) -> list[tuple[int, int]]:
    """(rows, bytes) of each row group. Raises UnreadableFile where the footer contradicts itself or
    the size of its file."""
    groups = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0 or group.total_byte_size < 0:
            raise UnreadableFile("unreadable")
        if group.num_rows > MAX_ROWS_PER_BYTE * file_size:
            raise UnreadableFile("bomb")
        for column_number in range(group.num_columns):
            column = group.column(column_number)
            first_byte = min(
                offset
                for offset in (column.data_page_offset, column.dictionary_page_offset)
                if offset is not None
            )
            if (
                first_byte < 0
                or column.total_compressed_size < 0
                or first_byte + column.total_compressed_size > file_size
            ):
                raise UnreadableFile("truncated")
            if (
                metadata.schema.column(column_number).max_repetition_level == 0
                and column.num_values != group.num_rows
            ):
                raise UnreadableFile("unreadable")
        compressed_bytes = sum(
            group.column(column_number).total_compressed_size
            for column_number in range(group.num_columns)
        )
        if group.total_byte_size > MAX_COMPRESSION_RATIO * compressed_bytes + STAGED_BATCH_BYTES:
            raise UnreadableFile("bomb")
        groups.append((group.num_rows, group.total_byte_size))
    if sum(rows for rows, _ in groups) != metadata.num_rows:
        raise UnreadableFile("unreadable")
    return groups


def stage_unit(
    unit: InputUnit, layout: StagingLayout, writer: StagingWriter, max_doc_bytes: int
) -> None:
    """Stages all rows of a unit's row groups. Rows that cannot be decoded are quarantined one by
    one."""
    if unit.quarantine_reason:
        quarantine_unit_rows(unit, writer, unit.quarantine_reason)
        return
    try:
        meta = pq.read_metadata(unit.path)
        starts = parquet_files.row_group_starts(meta)
    except MemoryError:
        quarantine_unit_rows(unit, writer, "memory")
        return
    except _READ_ERRORS:
        quarantine_unit_rows(unit, writer, "unreadable")
        return
    if (
        sum(
            int(starts[group + 1] - starts[group]) if group < meta.num_row_groups else 0
            for group in unit.row_groups
        )
        != unit.rows
    ):
        quarantine_unit_rows(unit, writer, "unreadable")  # the file changed since the survey
        return
    for group in unit.row_groups:
        next_row, group_end = int(starts[group]), int(starts[group + 1])
        batches = parquet_files.read_bounded_batches(
            unit.path, meta, [group], max_rows=STAGED_BATCH_ROWS, max_bytes=STAGED_BATCH_BYTES
        )
        while next_row < group_end:
            try:
                batch, _ = next(batches)
                standardized, faults = standardize_with_mails(
                    batch.slice(0, group_end - next_row), unit, layout, max_doc_bytes
                )
            except MemoryError:
                _quarantine_rows(unit, writer, next_row, group_end, "memory")
                break
            except (*_READ_ERRORS, StopIteration):
                _quarantine_rows(unit, writer, next_row, group_end, "unreadable")
                break
            end_row = next_row + standardized.num_rows
            places = [Place(unit.path, f"row {row}") for row in range(next_row, end_row)]
            writer.add_batch(standardized, places, faults)
            next_row = end_row


def quarantine_unit_rows(unit: InputUnit, writer: StagingWriter, reason: str) -> None:
    """Quarantines all rows of a unit, by the count in its footer; none of them is read."""
    _quarantine_rows(unit, writer, unit.start, unit.start + (unit.rows or 0), reason)


def _quarantine_rows(
    unit: InputUnit, writer: StagingWriter, start: int, end: int, reason: str
) -> None:
    writer.quarantine_rows(end - start, lambda row: Place(unit.path, f"row {start + row}"), reason)


def standardize_with_mails(
    batch: pa.RecordBatch, unit: InputUnit, layout: StagingLayout, limit: int
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """(a batch in standard form with mails decoded to text, row -> reason for the rows to
    quarantine). Rows that are too large are found before they are decoded.
    """
    faults: dict[int, str] = dict.fromkeys(
        np.flatnonzero(_text_sizes(batch, layout.roles) > limit).tolist(), "too_large"
    )
    batch = null_out_rows(batch, faults)
    users: list[str | None] | None = None
    for number, name in enumerate(layout.roles.text):
        leaf = find_leaf(name, batch.schema)
        if (
            leaf is None
            or leaf.steps
            or not is_binary(text_cells.canonical_type(batch.schema.field(leaf.column).type))
        ):
            continue
        texts: list[str | None] = []
        senders: list[str | None] = []
        for raw in _iter_bytes(text_cells.to_canonical_type(batch.column(leaf.column))):
            text, sender = (None, None) if raw is None else parse_mail(raw)
            texts.append(text)
            senders.append(sender)
        batch = batch.set_column(
            batch.schema.get_field_index(leaf.column), leaf.column, pa.array(texts, TEXT_TYPE)
        )
        users = senders if number == 0 else users
    standardized = standardize_batch(batch, unit.column_mapping, layout.schema)
    if users is not None and "user_id" not in (name for _, name in unit.column_mapping):
        standardized = standardized.set_column(
            1, layout.schema.field(1), pa.array(users, TEXT_TYPE)
        )
    return standardized, find_faults(standardized, limit, layout.roles.shape) | faults


def _text_sizes(batch: pa.RecordBatch, roles: Roles) -> I64:
    """The bytes of text of each row, mails as raw bytes; other columns of byte strings do not
    count."""
    plain_schema = canonical_schema(batch.schema.remove_metadata())
    text_role_columns = {
        leaf.column for name in roles.text if (leaf := find_leaf(name, plain_schema))
    }
    names = [
        field.name
        for field in plain_schema
        if field.name in text_role_columns or text_cells.list_text_leaves(pa.schema([field]))
    ]
    return (
        parquet_files.row_text_bytes(batch.select(names))
        if names
        else np.zeros(batch.num_rows, np.int64)
    )


def _iter_bytes(array: pa.Array) -> Iterator[bytes | None]:
    """The values of a binary column, None where it is null."""
    return (value.as_py() for value in array)
