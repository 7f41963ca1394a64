"""Readable text in the raw bytes and in the decompressed pages of a Parquet file, for the full check.

pyarrow returns the rows, but not a dictionary entry that no row uses, slack in a page or a key in the footer. So page headers are parsed
here (Thrift's compact protocol, PageHeader of parquet-format), and readable stretches are extracted from bytes as `strings(1)` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.array_types import U8
from sanitize.core.arrow_buffers import TextBuffers, slice_spans
from sanitize.errors import OutputBroken

CHUNK_BYTES = 8 << 20
_MIN_TEXT_BYTES = 6  # bytes of the shortest stretch that is returned
_CODEC_BY_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE, _DATA_PAGE_V2 = 2, 3, 8  # fields of PageHeader


def extract_readable_texts(data: U8) -> pa.LargeStringArray:
    """The stretches of bytes that are text: UTF-8 without control characters other than tab, LF and CR; six bytes or more."""
    next_byte = np.concatenate([data[1:], np.zeros(1, np.uint8)])
    is_text = ((data >= 32) & (data < 127)) | (data == 9) | (data == 10) | (data == 13)
    lead = np.flatnonzero((data >= 0xC2) & (data <= 0xF4) & ((next_byte & 0xC0) == 0x80))
    if len(lead):
        padded = np.concatenate([data, np.zeros(3, np.uint8)])
        first, second, third, fourth = (padded[lead + step] for step in range(4))
        length = np.where(first < 0xE0, 2, np.where(first < 0xF0, 3, 4))
        is_complete = (length == 2) | (((third & 0xC0) == 0x80) & ((length == 3) | ((fourth & 0xC0) == 0x80)))
        # no overlong forms, no surrogates, nothing beyond Unicode
        is_complete &= ~(((first == 0xE0) & (second < 0xA0)) | ((first == 0xED) & (second > 0x9F)))
        is_complete &= ~(((first == 0xF0) & (second < 0x90)) | ((first == 0xF4) & (second > 0x8F)))
        for step in range(4):
            is_text[lead[is_complete & (length > step)] + step] = True
    edge = np.diff(is_text.view(np.int8), prepend=0, append=0)
    starts, stops = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    long = stops - starts >= _MIN_TEXT_BYTES
    return slice_spans(TextBuffers(data, np.array([0, len(data)], np.int64)), starts[long], stops[long])


def as_single_text(data: U8) -> pa.LargeStringArray:
    """Bytes as a column of one text, for functions that read only bytes: it need not be valid UTF-8."""
    return pa.LargeStringArray.from_buffers(1, pa.py_buffer(np.array([0, len(data)], np.int64)), pa.py_buffer(data))


def read_chunks(path: Path) -> Iterator[U8]:
    """Yields the bytes of a file in chunks of about `CHUNK_BYTES`, cut between texts; a gzip, zstd or bz2 file is decompressed.

    Raises OutputBroken where it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(4)
    codec = next((name for magic, name in _CODEC_BY_MAGIC.items() if head.startswith(magic)), None)
    try:
        with pa.input_stream(str(path), compression=codec) as stream:
            rest = b""
            while block := stream.read(CHUNK_BYTES):
                data = np.frombuffer(rest + block, np.uint8)
                boundary = _last_text_boundary(data)
                yield data[:boundary]
                rest = data[boundary:].tobytes()
            if rest:
                yield np.frombuffer(rest, np.uint8)
    except (OSError, pa.ArrowException) as error:
        raise OutputBroken(f"{path}: cannot be read ({type(error).__name__}); run again with --replace") from None


def _last_text_boundary(data: U8) -> int:
    """Offset after the last control byte (1 to 8), which occurs in no text; else after the last line end; else the length of `data`."""
    tail = data[-(64 << 10) :]
    base = len(data) - len(tail)
    for is_boundary in ((tail < 9) & (tail > 0), (tail == 10) | (tail == 13)):
        positions = np.flatnonzero(is_boundary)
        if len(positions) and base + positions[-1] > 0:
            return base + int(positions[-1]) + 1
    return len(data)


def read_pages(path: Path) -> Iterator[tuple[str, U8]]:
    """Yields (path of the column, bytes) of every decompressed page of a Parquet file. Raises OutputBroken for a page it cannot read."""
    with pq.ParquetFile(path, pre_buffer=False) as file, path.open("rb") as raw:
        for group in range(file.metadata.num_row_groups):
            for number in range(file.metadata.num_columns):
                column = file.metadata.row_group(group).column(number)
                starts = [at for at in (column.dictionary_page_offset, column.data_page_offset) if at]
                raw.seek(min(starts))
                chunk = raw.read(column.total_compressed_size)
                try:
                    for page in _decompress_pages(chunk, column.compression):
                        yield column.path_in_schema, page
                except (IndexError, KeyError, ValueError, OSError, pa.ArrowException) as error:
                    raise OutputBroken(
                        f"{path}: a page of column {number} cannot be unpacked ({type(error).__name__}); run again with --replace"
                    ) from None


def _decompress_pages(chunk: bytes, compression: str) -> Iterator[U8]:
    """Yields the decompressed pages of a column chunk."""
    codec = None if compression == "UNCOMPRESSED" else pa.Codec("lz4_raw" if compression.startswith("LZ4") else compression.lower())
    offset = 0
    while offset < len(chunk):
        header, offset = _read_struct(chunk, offset)
        size, body = header[_UNCOMPRESSED_SIZE], chunk[offset : offset + header[_COMPRESSED_SIZE]]
        offset += header[_COMPRESSED_SIZE]
        levels = 0
        is_compressed = codec is not None
        if _DATA_PAGE_V2 in header:  # in V2 pages the levels precede the compressed part
            levels = header[_DATA_PAGE_V2].get(5, 0) + header[_DATA_PAGE_V2].get(6, 0)
            is_compressed = is_compressed and header[_DATA_PAGE_V2].get(7, True)
        if is_compressed and codec is not None and size > levels:
            body = body[:levels] + codec.decompress(body[levels:], size - levels, asbytes=True)
        yield np.frombuffer(body, np.uint8)


def _read_struct(data: bytes, offset: int) -> tuple[dict[int, Any], int]:
    """Parse a struct of Thrift's compact protocol; returns its fields by number, and the offset after it. Unneeded values become None."""
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
    """Parse a value of a type of Thrift's compact protocol; returns it (None if not needed) and the offset after it."""
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
