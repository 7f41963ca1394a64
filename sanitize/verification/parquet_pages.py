"""Everything a Parquet file holds besides its rows: its bytes, and each of its pages taken out of its compression, as readable stretches.

pyarrow gives the rows; a dictionary entry that no row uses, a page's slack or a key in the footer it does not. So page headers are read
here (Thrift's compact protocol, parquet-format's PageHeader), and bytes are searched as `strings(1)` would.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import Buffers, cut
from sanitize.errors import OutputBroken

U8 = npt.NDArray[np.uint8]
CHUNK = 8 << 20
_LEAST = 6  # bytes of the shortest stretch that is looked at
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_PAGE_SIZE, _PACKED_SIZE, _V2 = 2, 3, 8  # fields of PageHeader


def readable(data: U8) -> pa.LargeStringArray:
    """The stretches of bytes that are text: UTF-8 without control characters other than tab and line ends, six bytes or more."""
    after = np.concatenate([data[1:], np.zeros(1, np.uint8)])
    good = ((data >= 32) & (data < 127)) | (data == 9) | (data == 10) | (data == 13)
    lead = np.flatnonzero((data >= 0xC2) & (data <= 0xF4) & ((after & 0xC0) == 0x80))
    if len(lead):
        padded = np.concatenate([data, np.zeros(3, np.uint8)])
        first, second, third, fourth = (padded[lead + step] for step in range(4))
        size = np.where(first < 0xE0, 2, np.where(first < 0xF0, 3, 4))
        whole = (size == 2) | (((third & 0xC0) == 0x80) & ((size == 3) | ((fourth & 0xC0) == 0x80)))
        # no overlong forms, no surrogates, nothing beyond Unicode
        whole &= ~(((first == 0xE0) & (second < 0xA0)) | ((first == 0xED) & (second > 0x9F)))
        whole &= ~(((first == 0xF0) & (second < 0x90)) | ((first == 0xF4) & (second > 0x8F)))
        for step in range(4):
            good[lead[whole & (size > step)] + step] = True
    edge = np.diff(good.view(np.int8), prepend=0, append=0)
    starts, stops = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    long = stops - starts >= _LEAST
    return cut(Buffers(data, np.array([0, len(data)], np.int64)), starts[long], stops[long])


def as_one(data: U8) -> pa.LargeStringArray:
    """Bytes as a column of one text, whatever they spell: for what reads bytes only."""
    return pa.LargeStringArray.from_buffers(1, pa.py_buffer(np.array([0, len(data)], np.int64)), pa.py_buffer(data))


def chunks(path: Path) -> Iterator[U8]:
    """The bytes of a file, some MB at a time, cut where no text goes on; one that is compressed as a whole is unpacked."""
    with path.open("rb") as file:
        head = file.read(4)
    packed = next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)
    try:
        with pa.input_stream(str(path), compression=packed) as stream:
            held = b""
            while block := stream.read(CHUNK):
                data = np.frombuffer(held + block, np.uint8)
                at = _cut(data)
                yield data[:at]
                held = data[at:].tobytes()
            if held:
                yield np.frombuffer(held, np.uint8)
    except (OSError, pa.ArrowException) as error:
        raise OutputBroken(f"{path}: cannot be read ({type(error).__name__}); run again with --replace") from None


def _cut(data: U8) -> int:
    """Behind the last byte at which no text, in whatever coding, goes on; behind the last line where there is none."""
    tail = data[-(64 << 10) :]
    base = len(data) - len(tail)
    for stop in ((tail < 9) & (tail > 0), (tail == 10) | (tail == 13)):
        places = np.flatnonzero(stop)
        if len(places) and base + places[-1] > 0:
            return base + int(places[-1]) + 1
    return len(data)


def pages(path: Path) -> Iterator[tuple[str, U8]]:
    """Every page of a Parquet file, unpacked, with the path of its column."""
    with pq.ParquetFile(path, pre_buffer=False) as file, path.open("rb") as raw:
        for group in range(file.metadata.num_row_groups):
            for number in range(file.metadata.num_columns):
                column = file.metadata.row_group(group).column(number)
                begins = [at for at in (column.dictionary_page_offset, column.data_page_offset) if at]
                raw.seek(min(begins))
                packed = raw.read(column.total_compressed_size)
                try:
                    for page in _unpacked(packed, column.compression):
                        yield column.path_in_schema, page
                except (IndexError, KeyError, ValueError, OSError, pa.ArrowException) as error:
                    raise OutputBroken(
                        f"{path}: a page of column {number} cannot be unpacked ({type(error).__name__}); run again with --replace"
                    ) from None


def _unpacked(chunk: bytes, compression: str) -> Iterator[U8]:
    codec = None if compression == "UNCOMPRESSED" else pa.Codec("lz4_raw" if compression.startswith("LZ4") else compression.lower())
    at = 0
    while at < len(chunk):
        header, at = _struct(chunk, at)
        size, body = header[_PAGE_SIZE], chunk[at : at + header[_PACKED_SIZE]]
        at += header[_PACKED_SIZE]
        levels = 0
        packed = codec is not None
        if _V2 in header:  # its levels stand before the compressed part
            levels = header[_V2].get(5, 0) + header[_V2].get(6, 0)
            packed = packed and header[_V2].get(7, True)
        if packed and codec is not None and size > levels:
            body = body[:levels] + codec.decompress(body[levels:], size - levels, asbytes=True)
        yield np.frombuffer(body, np.uint8)


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol by field number, and the place behind it; what no page header needs is stepped over."""
    fields: dict[int, Any] = {}
    field = 0
    while kind := data[at]:
        at += 1
        if kind >> 4:
            field += kind >> 4
        else:
            number, at = _varint(data, at)
            field = (number >> 1) ^ -(number & 1)
        fields[field], at = _value(data, at, kind & 15)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        number, at = _varint(data, at)
        return (number >> 1) ^ -(number & 1), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        size, at = _varint(data, at)
        return None, at + size
    if kind == 12:
        return _struct(data, at)
    if kind in (9, 10):
        head, at = data[at], at + 1
        count, inner = head >> 4, head & 15
        if count == 15:
            count, at = _varint(data, at)
        for _ in range(count):
            _, at = (None, at + 1) if inner in (1, 2) else _value(data, at, inner)
        return None, at
    raise ValueError("not a page header")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
