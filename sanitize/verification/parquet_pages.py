"""Readable text in the raw bytes and in the decompressed pages of a Parquet file, for the full
check.

pyarrow returns the rows, but not a dictionary entry that no row uses, slack in a page or a key in
the footer. So page headers are parsed here (Thrift's compact protocol, PageHeader of
parquet-format), and readable stretches are extracted from bytes as `strings(1)` does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64, U8
from sanitize.core.arrow_buffers import TextBuffers, slice_spans
from sanitize.errors import OutputBroken
from sanitize.storage.files import open_regular_file

PIECE_BYTES = 8 << 20
MIN_CONTEXT_BYTES = 64 << 10
_CONTEXT_BYTES_PER_VALUE_BYTE = (
    16  # the longest form, escaped twice (`&amp;#x0070;` and `%2540`), has twelve for one byte
)
_MIN_TEXT_BYTES = 6  # bytes of the shortest stretch that is returned
_CODEC_BY_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
# fields of PageHeader; of DataPageHeader and DataPageHeaderV2 the encoding, and of the latter the
# sizes of the levels
_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE, _DATA_PAGE_V1, _DATA_PAGE_V2 = 2, 3, 5, 8
_ENCODING_V1, _ENCODING_V2, _DEFINITION_LEVELS, _REPETITION_LEVELS, _IS_COMPRESSED = 2, 4, 5, 6, 7
_PLAIN = 0  # Encoding.PLAIN: the values one after the other, texts with their length in four bytes
# by physical type, in bytes
_VALUE_WIDTHS = {
    "INT32": 4,
    "INT64": 8,
    "INT96": 12,
    "FLOAT": 4,
    "DOUBLE": 8,
}


def extract_readable_texts(data: U8) -> pa.LargeStringArray:
    """The stretches of bytes that are text: UTF-8 without control characters other than tab, LF and
    CR; six bytes or more."""
    return slice_spans(
        TextBuffers(data, np.array([0, len(data)], np.int64)), *find_readable_spans(data)
    )


def find_readable_spans(data: U8) -> tuple[I64, I64]:
    """Start and end of each stretch of `extract_readable_texts`."""
    next_byte = np.concatenate([data[1:], np.zeros(1, np.uint8)])
    is_text = ((data >= 32) & (data < 127)) | (data == 9) | (data == 10) | (data == 13)
    lead = np.flatnonzero((data >= 0xC2) & (data <= 0xF4) & ((next_byte & 0xC0) == 0x80))
    if len(lead):
        padded = np.concatenate([data, np.zeros(3, np.uint8)])
        first, second, third, fourth = (padded[lead + step] for step in range(4))
        length = np.where(first < 0xE0, 2, np.where(first < 0xF0, 3, 4))
        is_complete = (length == 2) | (
            ((third & 0xC0) == 0x80) & ((length == 3) | ((fourth & 0xC0) == 0x80))
        )
        # no overlong forms, no surrogates, nothing beyond Unicode
        is_complete &= ~(((first == 0xE0) & (second < 0xA0)) | ((first == 0xED) & (second > 0x9F)))
        is_complete &= ~(((first == 0xF0) & (second < 0x90)) | ((first == 0xF4) & (second > 0x8F)))
        for step in range(4):
            is_text[lead[is_complete & (length > step)] + step] = True
    edge = np.diff(is_text.view(np.int8), prepend=0, append=0)
    starts, stops = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    long = stops - starts >= _MIN_TEXT_BYTES
    return starts[long], stops[long]


def as_single_text(data: U8) -> pa.LargeStringArray:
    """Bytes as a column of one text, for functions that read only bytes: it need not be valid
    UTF-8."""
    return pa.LargeStringArray.from_buffers(
        1, pa.py_buffer(np.array([0, len(data)], np.int64)), pa.py_buffer(data)
    )


@dataclass(frozen=True, repr=False)
class FilePiece:
    """A piece of a file, with the bytes before and after it.

    An occurrence belongs to the piece with its first byte in `data[start:end]`, so that each is
    counted once. `data[:seen]` was in `data` of the piece before, too."""

    data: U8
    start: int
    end: int
    seen: int = 0

    @classmethod
    def whole(cls, data: U8) -> FilePiece:
        """Bytes that are searched at once."""
        return cls(data, 0, len(data))


def count_context_bytes(max_value_bytes: int) -> int:
    """How many bytes before and after a piece are searched with it, where the longest searched
    value has so many bytes: 64 KiB and sixteen for each of its bytes. An encoded value that is
    longer (such as one with thousands of invisible characters) is missed across a cut."""
    return MIN_CONTEXT_BYTES + _CONTEXT_BYTES_PER_VALUE_BYTE * max_value_bytes


def read_pieces(path: Path, context_bytes: int) -> Iterator[FilePiece]:
    """Yields a file in pieces of about `PIECE_BYTES`, each with `context_bytes` before and after
    it; none for an empty file. A gzip, zstd or bz2 file is decompressed. No cut is inside a
    character of UTF-8.

    Raises OutputBroken where it cannot be read.
    """
    try:
        # opened here, as Arrow opens no file whose name is not UTF-8
        with open_regular_file(path) as file:
            head = file.read(4)
            file.seek(0)
            codec = next(
                (name for magic, name in _CODEC_BY_MAGIC.items() if head.startswith(magic)), None
            )
            stream = pa.input_stream(file, compression=codec)
            data, start, seen = stream.read(PIECE_BYTES), 0, 0
            while block := stream.read(PIECE_BYTES):
                stop = _character_start(data, len(data) - 1)
                end = _character_start(data, stop - context_bytes)
                if end > start:
                    yield FilePiece(np.frombuffer(data, np.uint8, stop), start, end, seen)
                    first = _character_start(data, end - context_bytes)
                    data, start, seen = data[first:], end - first, stop - first
                data += block
            if data:
                yield FilePiece(np.frombuffer(data, np.uint8), start, len(data), seen)
    except (OSError, pa.ArrowException) as error:
        raise OutputBroken(
            f"{path}: cannot be read ({type(error).__name__}); run again with --replace"
        ) from None


def _character_start(data: bytes, offset: int) -> int:
    """The offset of the first byte of the character of UTF-8 at `offset`; `offset` in other bytes,
    0 where it is negative."""
    first = next(
        (one for one in range(offset, offset - 4, -1) if one > 0 and data[one] & 0xC0 != 0x80),
        offset,
    )
    return max(0, first)


@dataclass(frozen=True, repr=False)
class Page:
    """A decompressed page: levels (which values are null, and where lists begin), then values.
    `is_plain`: its values are in the plain encoding, so that it has no dictionary."""

    levels_size: int
    is_plain: bool
    data: U8


@dataclass(frozen=True, repr=False)
class RowOnlyColumns:
    """The columns of a Parquet file whose pages hold nothing but the values of the rows that
    pyarrow returns, and the levels of these pages by number of the row group and of the column."""

    names: frozenset[str] = frozenset()
    levels: Mapping[tuple[int, int], Sequence[U8]] = field(default_factory=dict)


def read_pages(path: Path, row_only: RowOnlyColumns) -> Iterator[tuple[str, U8]]:
    """Yields (path of the column, bytes) of every decompressed page of a Parquet file; of pages of
    `row_only` columns only the levels.

    Raises OutputBroken for a page it cannot read."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for chunk in itertools.product(
            range(file.metadata.num_row_groups), range(file.metadata.num_columns)
        ):
            column = file.schema.column(chunk[1]).path
            for data in (
                row_only.levels[chunk]
                if chunk in row_only.levels
                else (page.data for page in _read_column_chunk(path, file, *chunk))
            ):
                yield column, data


def read_bytes_outside_pages(path: Path) -> Iterator[U8]:
    """Yields the bytes of a Parquet file without those of its pages: page headers, gaps, and the
    footer."""
    with pq.ParquetFile(path, pre_buffer=False) as file, path.open("rb") as raw:
        parts, end = [], 0
        chunks = itertools.product(
            range(file.metadata.num_row_groups), range(file.metadata.num_columns)
        )
        for start, data in sorted(
            (_read_chunk_bytes(raw, file, *chunk) for chunk in chunks), key=lambda chunk: chunk[0]
        ):
            raw.seek(end)
            parts.append(raw.read(start - end))
            offset = 0
            while offset < len(data):
                header, body = _read_struct(data, offset)
                parts.append(data[offset:body])
                offset = body + header[_COMPRESSED_SIZE]
            end = start + len(data)
        raw.seek(end)
        yield np.frombuffer(b"\1".join([*parts, raw.read()]), np.uint8)


def find_row_only_columns(path: Path, value_bytes: Mapping[str, int]) -> RowOnlyColumns:
    """The columns of a Parquet file whose pages hold nothing but the values of the rows that
    pyarrow returns.

    All their pages are plain, so that there is no dictionary, and the values in them take as many
    bytes as those of the rows. These are in `value_bytes` for columns that were read before (see
    `count_plain_bytes`); the rows of others are read here."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        paths = [file.schema.column(number).path for number in range(file.metadata.num_columns)]
        levels = [
            _read_row_only_levels(path, file, number, value_bytes.get(column))
            for number, column in enumerate(paths)
        ]
        others = {
            name
            for column, one in zip(paths, levels, strict=True)
            if one is None
            for name in _list_prefixes(column)
        }
        names = frozenset(name for name in file.schema_arrow.names if name not in others)
    is_row_only = [any(name in names for name in _list_prefixes(column)) for column in paths]
    return RowOnlyColumns(
        names,
        {
            (group, number): pages
            for number, one in enumerate(levels)
            if is_row_only[number]
            for group, pages in enumerate(one or [])
        },
    )


def _read_row_only_levels(
    path: Path, file: pq.ParquetFile, number: int, value_bytes: int | None
) -> list[list[U8]] | None:
    """The levels of each page of a column, by row group; None if its pages may hold anything else
    than the values of its rows."""
    column = file.schema.column(number)
    if column.physical_type != "BYTE_ARRAY" and column.physical_type not in _VALUE_WIDTHS:
        return None
    levels, page_bytes = [], 0
    for group in range(file.metadata.num_row_groups):
        levels.append(list[U8]())
        for page in _read_column_chunk(path, file, group, number):
            if not page.is_plain:
                return None
            levels[group].append(page.data[: page.levels_size].copy())
            page_bytes += len(page.data) - page.levels_size
    # no row group has fewer bytes in its pages than in its rows
    return (
        levels
        if page_bytes == (_count_value_bytes(file, number) if value_bytes is None else value_bytes)
        else None
    )


def _list_prefixes(path: str) -> list[str]:
    """The names that a column may have of which `path` is the path, or the path of a part; a name
    may hold a dot itself.

    >>> _list_prefixes("meta.refs.list")
    ['meta', 'meta.refs', 'meta.refs.list']
    """
    return [
        path[:end] for end in (*(found.start() for found in re.finditer(r"\.", path)), len(path))
    ]


def _count_value_bytes(file: pq.ParquetFile, number: int) -> int:
    """The bytes that the values of a column take in the plain encoding."""
    column = file.schema.column(number)
    width = _VALUE_WIDTHS.get(column.physical_type)
    value_bytes = 0
    for batch in file.iter_batches(5_000, columns=[column.path], use_threads=False):
        values = _only_leaf(batch.column(0)).drop_null()
        value_bytes += len(values) * width if width else count_plain_bytes(values)
    return value_bytes


def count_plain_bytes(values: pa.Array) -> int:
    """The bytes that texts, without the nulls among them, take in the plain encoding: each has its
    length before it."""
    return int(
        (pc.sum(pc.binary_length(values)).as_py() or 0) + 4 * (len(values) - values.null_count)
    )


def _only_leaf(array: pa.Array) -> pa.Array:
    """The values of an array that was read for one leaf: lists and structs have one child each."""
    while True:
        if isinstance(array, pa.StructArray):
            (array,) = array.flatten()
        elif isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
            array = array.flatten()
        else:
            return array


def _read_column_chunk(path: Path, file: pq.ParquetFile, group: int, number: int) -> Iterator[Page]:
    """Yields the decompressed pages of a column chunk. Raises OutputBroken for a page it cannot
    read."""
    with path.open("rb") as raw:
        _, data = _read_chunk_bytes(raw, file, group, number)
    schema, compression = (
        file.schema.column(number),
        file.metadata.row_group(group).column(number).compression,
    )
    try:
        yield from _decompress_pages(
            data, compression, (schema.max_repetition_level > 0) + (schema.max_definition_level > 0)
        )
    except (IndexError, KeyError, ValueError, OSError, pa.ArrowException) as error:
        raise OutputBroken(
            f"{path}: a page of column {number} cannot be unpacked ({type(error).__name__}); run"
            " again with --replace"
        ) from None


def _read_chunk_bytes(
    raw: IO[bytes], file: pq.ParquetFile, group: int, number: int
) -> tuple[int, bytes]:
    """Returns the offset and the bytes of a column chunk."""
    chunk = file.metadata.row_group(group).column(number)
    # 0: an empty row group
    start = min(
        (at for at in (chunk.dictionary_page_offset, chunk.data_page_offset) if at), default=0
    )
    raw.seek(start)
    return start, raw.read(chunk.total_compressed_size)


def _decompress_pages(chunk: bytes, compression: str, level_count: int) -> Iterator[Page]:
    """Yields the decompressed pages of a column chunk, whose values have `level_count` sorts of
    levels."""
    codec = (
        None
        if compression == "UNCOMPRESSED"
        else pa.Codec("lz4_raw" if compression.startswith("LZ4") else compression.lower())
    )
    offset = 0
    while offset < len(chunk):
        header, offset = _read_struct(chunk, offset)
        size, body = header[_UNCOMPRESSED_SIZE], chunk[offset : offset + header[_COMPRESSED_SIZE]]
        offset += header[_COMPRESSED_SIZE]
        levels = 0
        is_compressed = codec is not None
        header_v1, header_v2 = header.get(_DATA_PAGE_V1), header.get(_DATA_PAGE_V2)
        if header_v2 is not None:  # in V2 pages the levels precede the compressed part
            levels = header_v2.get(_DEFINITION_LEVELS, 0) + header_v2.get(_REPETITION_LEVELS, 0)
            is_compressed = is_compressed and header_v2.get(_IS_COMPRESSED, True)
        if is_compressed and codec is not None and size > levels:
            body = body[:levels] + codec.decompress(body[levels:], size - levels, asbytes=True)
        if header_v1 is not None:
            for _ in range(level_count):  # each with its size in four bytes
                levels += 4 + int.from_bytes(body[levels : levels + 4], "little")
        encoding = (
            header_v1.get(_ENCODING_V1)
            if header_v1 is not None
            else header_v2.get(_ENCODING_V2)
            if header_v2 is not None
            else None
        )
        yield Page(levels, encoding == _PLAIN, np.frombuffer(body, np.uint8))


def _read_struct(data: bytes, offset: int) -> tuple[dict[int, Any], int]:
    """Parse a struct of Thrift's compact protocol; returns its fields by number, and the offset
    after it. Unneeded values become None."""
    fields: dict[int, Any] = {}
    field = 0
    while kind := data[offset]:
        offset += 1
        if kind >> 4:
            field += kind >> 4
        else:
            number, offset = _read_varint(data, offset)
            field = (number >> 1) ^ -(number & 1)
        fields[field], offset = _read_value(data, offset, kind & 15)
    return fields, offset + 1


def _read_value(data: bytes, offset: int, thrift_type: int) -> tuple[Any, int]:
    """Parse a value of a type of Thrift's compact protocol; returns it (None if not needed) and the
    offset after it."""
    if thrift_type in (1, 2):
        return thrift_type == 1, offset
    if thrift_type == 3:
        return data[offset], offset + 1
    if thrift_type in (4, 5, 6):
        number, offset = _read_varint(data, offset)
        return (number >> 1) ^ -(number & 1), offset
    if thrift_type == 7:
        return None, offset + 8
    if thrift_type == 8:
        size, offset = _read_varint(data, offset)
        return None, offset + size
    if thrift_type == 12:
        return _read_struct(data, offset)
    if thrift_type in (9, 10):
        head, offset = data[offset], offset + 1
        count, inner = head >> 4, head & 15
        if count == 15:
            count, offset = _read_varint(data, offset)
        for _ in range(count):
            _, offset = (None, offset + 1) if inner in (1, 2) else _read_value(data, offset, inner)
        return None, offset
    raise ValueError("not a page header")


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Parse an unsigned LEB128 number; returns it and the offset after it."""
    number = shift = 0
    while True:
        byte = data[offset]
        number |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return number, offset
