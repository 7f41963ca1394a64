"""Reads Parquet in batches of bounded size, whatever its pages decompress to; opens the writers of
texts and of tables.

All texts are written by one writer (`open_text_writer`). Its settings leave no copy of a removed
value in a file: plain strings, no dictionary, no statistics, no foreign metadata, checksums on
every page.

A dictionary page may contain one long text and the rows a million references to it: 21 KB that
expand to gigabytes. Text columns with such pages are therefore read as dictionaries, which stay as
small as the page, and batches are cut by the decoded bytes of their rows, until the file is known
to be harmless (`is_trusted`). Cost: a quarter of the decoding time of mixed pages. The size of a
single page, and of texts inside lists and structs, is not bounded; a process that reads untrusted
files must have a memory limit.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64
from sanitize.errors import OutputBroken

TABLE_CODEC: Final = (
    "zstd"  # of the tables of WORK: every engine reads it; Spark refuses some LZ4 pages
)
TABLE_CODEC_LEVEL: Final = 1
# rows of an output row group, unless its texts are long; a change alters the bytes of output files
ROW_GROUP_ROWS = 5_000
ROW_GROUP_BYTES = 64 << 20
_CHECK_BATCH_ROWS = 10_000
_NO_ROWS = np.zeros(1, np.int64)


def read_table(
    path: Path | str,
    columns: Sequence[str] | None = None,
    filters: pc.Expression | None = None,
) -> pa.Table:
    """The rows of one table of WORK, or of some of its columns, for which `filters` is true.
    Folders in the path that look like `key=value` are no columns. Raises OutputBroken for a file
    that is damaged or gone."""
    names = None if columns is None else list(columns)
    try:
        return pq.read_table(path, columns=names, filters=filters, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
            raise  # of the disk
        raise broken_table_error(path, error) from None


def broken_table_error(path: Path | str, error: Exception) -> OutputBroken:
    """The error for a table of WORK (its file, or WORK) that is damaged or gone. The libraries'
    messages may quote bytes."""
    state = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
    return OutputBroken(
        f"{path}: a table of the private folder {state} ({type(error).__name__}). `sanitize index`,"
        " with the options of the run, rebuilds those of the index; for those of a run, move its"
        " output away and run it again"
    )


def row_group_starts(metadata: pq.FileMetaData) -> I64:
    """The first row of each row group, followed by the total number of rows."""
    return np.cumsum(
        [0, *(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))],
        dtype=np.int64,
    )


def read_bounded_batches(
    path: str,
    metadata: pq.FileMetaData,
    row_groups: Sequence[int],
    *,
    columns: Sequence[str] | None = None,
    max_rows: int,
    max_bytes: int,
    is_trusted: bool = False,
) -> Iterator[tuple[pa.RecordBatch, I64]]:
    """Yields (batch, bytes of text in each of its rows) for some row groups of a file, in order;
    text columns may be dictionaries.

    A batch has at most `max_rows` rows, and at most `max_bytes` bytes of decoded text, or one row.
    `is_trusted` means that the file was read completely before and that each of its row groups fits
    in memory, so that texts are decoded directly.
    """
    sizes = [
        (metadata.row_group(group).num_rows, metadata.row_group(group).total_byte_size)
        for group in row_groups
    ]
    step = min(
        [max_rows, *(max(1, max_bytes * count // max(size, 1)) for count, size in sizes if count)]
    )
    dictionary_columns = [] if is_trusted else _dictionary_columns(metadata, row_groups)
    with pq.ParquetFile(
        path,
        metadata=metadata,
        page_checksum_verification=True,
        read_dictionary=dictionary_columns,
        pre_buffer=False,
    ) as file:
        for batch in file.iter_batches(
            step, row_groups=list(row_groups), columns=columns, use_threads=False
        ):
            texts = row_text_bytes(batch)
            for low, high in split_rows(texts, max_bytes):
                yield batch.slice(low, high - low), texts[low:high]


def _dictionary_columns(metadata: pq.FileMetaData, row_groups: Sequence[int]) -> list[str]:
    """The text columns with a dictionary page in any of the row groups. Not nested ones, also
    repeated ones without the annotation of a list: Arrow cannot read them as dictionaries."""
    columns = [(number, metadata.schema.column(number)) for number in range(len(metadata.schema))]
    texts = [
        (number, column.path)
        for number, column in columns
        if column.physical_type == "BYTE_ARRAY"
        and column.logical_type.type in ("STRING", "NONE")
        and column.path == column.name
        and column.max_repetition_level == 0
    ]
    return [
        path
        for number, path in texts
        if any(metadata.row_group(group).column(number).has_dictionary_page for group in row_groups)
    ]


def split_rows(
    sizes: I64, max_bytes: int, max_rows: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yields consecutive ranges (low, high) of rows, each of at most `max_bytes` (or one row) and
    at most `max_rows` rows."""
    total = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        bytes_before = int(total[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(total, bytes_before + max_bytes, side="right")))
        high = min(high, low + max_rows) if max_rows else high
        yield low, high
        low = high


def row_text_bytes(batch: pa.RecordBatch) -> I64:
    """The decoded bytes of the strings and byte strings in each row."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += count_row_bytes(column)
    return sizes


def count_row_bytes(array: pa.Array) -> I64:
    """The decoded bytes of the strings and byte strings in each row of one column."""
    kind: Any = array.type
    if isinstance(array, pa.LargeStringArray | pa.StringArray) and not array.null_count:
        # most columns: of many with few rows, a call of Arrow would cost more than the rest
        offsets = (
            np.frombuffer(
                array.buffers()[1], np.int32 if isinstance(array, pa.StringArray) else np.int64
            )
            if len(array)
            else _NO_ROWS
        )
        return np.diff(offsets[array.offset : array.offset + len(array) + 1]).astype(
            np.int64, copy=False
        )
    if isinstance(array, pa.ExtensionArray):
        return count_row_bytes(array.storage)
    if pa.types.is_dictionary(kind):
        lengths = np.append(count_row_bytes(array.dictionary), 0)
        indices = np.asarray(pc.fill_null(array.indices, len(array.dictionary)), np.int64)
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(lengths):
            # Arrow does not check it, and would read out of bounds
            raise pa.ArrowInvalid("an index past the end of a dictionary page")
        return lengths[indices]
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    ):
        return np.asarray(pc.fill_null(pc.binary_length(array), 0), np.int64)
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
        total = np.concatenate([[0], np.cumsum(count_row_bytes(array.flatten()))])
        ends = np.cumsum(lengths)
        return np.asarray(total[ends] - total[ends - lengths], np.int64)
    if pa.types.is_struct(kind):
        return sum(
            (count_row_bytes(child) for child in array.flatten()), np.zeros(len(array), np.int64)
        )
    return np.zeros(len(array), np.int64)


class RowGroupWriter:
    """Collects rows and writes row groups that end after a fixed number of rows or bytes of text,
    independent of the input batches."""

    def __init__(self, out: pq.ParquetWriter) -> None:
        self._out = out
        self._pending: list[pa.Table] = []
        self._sizes = np.empty(0, np.int64)

    def add(self, table: pa.Table) -> None:
        """Adds rows, and writes all row groups that are complete now."""
        (batch,) = table.combine_chunks().to_batches()
        self._pending.append(table)
        self._sizes = np.concatenate([self._sizes, row_text_bytes(batch)])
        if len(self._sizes) >= ROW_GROUP_ROWS or int(self._sizes.sum()) > ROW_GROUP_BYTES:
            self._write(last=False)

    def flush(self) -> None:
        """Writes the remaining rows."""
        if self._pending:
            self._write(last=True)

    def _write(self, last: bool) -> None:
        joined, low = pa.concat_tables(self._pending), 0
        for start, high in split_rows(self._sizes, ROW_GROUP_BYTES, ROW_GROUP_ROWS):
            if high == joined.num_rows and high - start < ROW_GROUP_ROWS and not last:
                break  # the next rows may belong to this row group
            self._out.write_table(
                joined.slice(start, high - start).combine_chunks(), row_group_size=ROW_GROUP_ROWS
            )
            low = high
        self._pending = [joined.slice(low)] if low < joined.num_rows else []
        self._sizes = self._sizes[low:]


def open_text_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """The only Parquet writer for texts: zstd level 1, page checksums, and no dictionary or
    statistics that could hold a removed value.

    Arrow's copy of the schema is stored only for types that Parquet alone does not restore
    (durations, time zones). It contains column names and types, and for canonical types nothing
    else.
    """
    needs_arrow_schema = any(
        pa.types.is_duration(field.type) or (pa.types.is_timestamp(field.type) and field.type.tz)
        for field in schema
    )
    return pq.ParquetWriter(
        path,
        schema.remove_metadata(),
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        write_statistics=False,
        store_schema=needs_arrow_schema,
        write_page_checksum=True,
        write_page_index=False,
    )


def open_table_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer for the tables of WORK: texts with `TABLE_CODEC`, and statistics on `doc_no`, by
    which readers select ranges of documents.

    Integers are stored as differences or, where they are hashes, as they are, both without a codec:
    half the time of writing and a third of that of reading, for files that are as large as
    compressed ones.
    """
    dictionary_columns = [
        field.name
        for field in schema
        if pa.types.is_dictionary(field.type) or field.name in ("score", "entity_id")
    ]
    numbers = [
        field.name
        for field in schema
        if pa.types.is_integer(field.type) and field.name not in dictionary_columns
    ]
    compressed = [name for name in schema.names if name not in numbers]
    return pq.ParquetWriter(
        path,
        schema,
        compression=dict.fromkeys(compressed, TABLE_CODEC),
        compression_level=dict.fromkeys(compressed, TABLE_CODEC_LEVEL),
        use_dictionary=dictionary_columns,
        column_encoding={
            name: "DELTA_BINARY_PACKED" for name in numbers if not name.endswith(("_id", "_hash"))
        },
        write_statistics=["doc_no"] if "doc_no" in schema.names else False,
        write_page_checksum=True,
    )


def write_table_rows(path: Path, schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> None:
    """Writes a small table of WORK from rows of Python values."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)
    ]
    with open_table_writer(path, schema) as out:
        out.write_table(pa.table(arrays, schema=schema))


def check_parquet_file(path: Path, *, check_pages: bool = True) -> None:
    """Checks a file that was just written. Raises OutputBroken unless its footer and (with
    `check_pages`) all page checksums are valid."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            expected = file.metadata.num_rows
            rows = (
                sum(
                    batch.num_rows
                    for batch in file.iter_batches(_CHECK_BATCH_ROWS, use_threads=False)
                )
                if check_pages
                else expected
            )
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise OutputBroken(
            f"{path}: not readable after it was written ({type(error).__name__}); the disk may be"
            " failing"
        ) from None
    if rows != expected:
        raise OutputBroken(
            f"{path}: contains {rows} rows, but its footer states {expected}; the disk may be"
            " failing"
        )
