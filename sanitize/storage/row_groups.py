"""Parquet as batches of bounded size, whatever its pages unpack to.

A dictionary page may hold one long text and the rows a million references to it: 21 KB that unpack to gigabytes. Texts with such pages
are therefore read as dictionaries, which stay as small as the page, and batches are cut by the bytes that their rows will have, until the
file is known not to hold such. What this costs: a quarter of the decoding of mixed pages. What it cannot bound is a single page, and
texts inside lists and structs; who reads files of strangers sets a limit of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

I64 = npt.NDArray[np.int64]
ROW_GROUP = 5_000  # rows of an output row group, unless its texts are long; part of what makes the files byte-identical
ROW_GROUP_BYTES = 64 << 20


def starts(metadata: pq.FileMetaData) -> I64:
    """The row in which each row group begins, and at the end the number of rows."""
    return np.cumsum([0, *(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))], dtype=np.int64)


def batches(
    path: str,
    metadata: pq.FileMetaData,
    groups: Sequence[int],
    *,
    columns: Sequence[str] | None = None,
    rows: int,
    bytes: int,
    known: bool = False,
) -> Iterator[tuple[pa.RecordBatch, I64]]:
    """(batch, the bytes of text in each of its rows) for the rows of some row groups of a file, in order; texts may be dictionaries.

    A batch has at most `rows` rows, and at most `bytes` bytes of text once it is decoded, or one row. `known`: the file has been read once
    and no row group of it unpacks to more than memory holds, so that its texts are decoded at once.
    """
    sizes = [(metadata.row_group(group).num_rows, metadata.row_group(group).total_byte_size) for group in groups]
    step = min([rows, *(max(1, bytes * count // max(size, 1)) for count, size in sizes if count)])
    coded = [] if known else _coded(metadata, groups)
    with pq.ParquetFile(path, metadata=metadata, page_checksum_verification=True, read_dictionary=coded, pre_buffer=False) as file:
        for batch in file.iter_batches(step, row_groups=list(groups), columns=columns, use_threads=False):
            texts = text_bytes(batch)
            for low, high in cut(texts, bytes):
                yield batch.slice(low, high - low), texts[low:high]


def _coded(metadata: pq.FileMetaData, groups: Sequence[int]) -> list[str]:
    """The columns of texts that have a dictionary page in some of the row groups; nested ones Arrow cannot give as dictionaries."""
    columns = [(number, metadata.schema.column(number)) for number in range(len(metadata.schema))]
    texts = [
        (number, column.path)
        for number, column in columns
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type in ("STRING", "NONE") and column.path == column.name
    ]
    return [path for number, path in texts if any(metadata.row_group(group).column(number).has_dictionary_page for group in groups)]


def cut(sizes: I64, bytes: int, rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Ranges of rows in order, each of at most `bytes` (or of one row) and at most `rows`."""
    total = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        before = int(total[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(total, before + bytes, side="right")))
        high = min(high, low + rows) if rows else high
        yield low, high
        low = high


def text_bytes(batch: pa.RecordBatch) -> I64:
    """The bytes of the strings and byte strings in each row, as they will be once decoded."""
    return sum((_bytes(column) for column in batch.columns), np.zeros(batch.num_rows, np.int64))


def _bytes(array: pa.Array) -> I64:
    kind: Any = array.type
    if isinstance(array, pa.ExtensionArray):
        return _bytes(array.storage)
    if pa.types.is_dictionary(kind):
        lengths = np.append(_bytes(array.dictionary), 0)
        places = np.asarray(pc.fill_null(array.indices, len(array.dictionary)), np.int64)
        if len(places) and not 0 <= places.min() <= places.max() < len(lengths):
            raise pa.ArrowInvalid("a reference past the end of a dictionary page")  # Arrow does not look, and would read beyond it
        return lengths[places]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return np.asarray(pc.fill_null(pc.binary_length(array), 0), np.int64)
    if pa.types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
        total = np.concatenate([[0], np.cumsum(_bytes(array.flatten()))])
        ends = np.cumsum(lengths)
        return np.asarray(total[ends] - total[ends - lengths], np.int64)
    if pa.types.is_struct(kind):
        return sum((_bytes(child) for child in array.flatten()), np.zeros(len(array), np.int64))
    return np.zeros(len(array), np.int64)


class Groups:
    """Rows on their way into row groups, which end after a fixed number of rows or bytes of text, whatever the batches were."""

    def __init__(self, out: pq.ParquetWriter) -> None:
        self._out = out
        self._waiting: list[pa.Table] = []
        self._sizes = np.empty(0, np.int64)

    def add(self, table: pa.Table) -> None:
        """Takes rows, and writes the row groups that are complete with them."""
        (batch,) = table.combine_chunks().to_batches()
        self._waiting.append(table)
        self._sizes = np.concatenate([self._sizes, text_bytes(batch)])
        if len(self._sizes) >= ROW_GROUP or int(self._sizes.sum()) > ROW_GROUP_BYTES:
            self._write(last=False)

    def flush(self) -> None:
        """Writes what is left."""
        if self._waiting:
            self._write(last=True)

    def _write(self, last: bool) -> None:
        joined, low = pa.concat_tables(self._waiting), 0
        for full, high in cut(self._sizes, ROW_GROUP_BYTES, ROW_GROUP):
            if high == joined.num_rows and high - full < ROW_GROUP and not last:
                break  # it may become larger
            self._out.write_table(joined.slice(full, high - full).combine_chunks(), row_group_size=ROW_GROUP)
            low = high
        self._waiting = [joined.slice(low)] if low < joined.num_rows else []
        self._sizes = self._sizes[low:]
