"""MDS, the shard format of MosaicML's `streaming`: an offset table followed by samples, and one
`index.json` for the folder.

Written and read without that package (the format is a few headers; tests/storage/test_formats.py
compares a shard with the published layout). A column without nulls is encoded as `str` or as a
numpy number in a shard; all other columns as `json`, which supports null and nested values.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64
from sanitize.errors import OutputBroken, UsageError
from sanitize.storage.files import parse_json
from sanitize.storage.formats import iter_shard_batches

NAME, SUFFIX = "mds", ".mds"
MDS_VERSION = 2
_MAX_OFFSET = (1 << 32) - 1  # offsets in a shard have 32 bits
_BATCH_SAMPLES = 5_000  # samples per batch
_NUMBER_ENCODINGS = {
    **{
        pa.type_for_alias(name): name
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    pa.float32(): "float32",
    pa.float64(): "float64",
}


def pack(shard: Path, out: Path) -> None:
    """Writes the rows of a Parquet shard as samples. Reads the shard twice: the offsets of all
    samples precede the first one.

    Raises UsageError for a shard of 4 GB or more.
    """
    names, kinds, nulls = [], [], np.zeros(0, np.int64)
    for batch in iter_shard_batches(shard):
        names, kinds = batch.schema.names, batch.schema.types
        batch_nulls = np.array([column.null_count for column in batch.columns], np.int64)
        nulls = batch_nulls if not len(nulls) else nulls + batch_nulls
    encodings = {
        name: _choose_encoding(kind, bool(null))
        for name, kind, null in zip(names, kinds, nulls, strict=True)
    }
    header = _encode_header(encodings)
    sizes: list[I64] = [np.zeros(0, np.int64)]
    body = out.with_name(out.name + ".tmp")
    try:
        with body.open("wb") as samples:
            for batch in iter_shard_batches(shard):
                encoded = _encode_samples(batch, encodings)
                sizes.append(np.array([len(sample) for sample in encoded], np.int64))
                samples.write(b"".join(encoded))
        sample_sizes = np.concatenate(sizes)
        first = 4 + 4 * (len(sample_sizes) + 1) + len(header)
        offsets = first + np.concatenate([[0], np.cumsum(sample_sizes)])
        if offsets[-1] > _MAX_OFFSET:
            raise UsageError(
                "--format mds: a shard would be larger than 4 GB, the limit of MDS; use fewer"
                " --rows-per-shard"
            )
        with out.open("wb") as file, body.open("rb") as samples:
            file.write(
                np.uint32(len(sample_sizes)).tobytes()
                + offsets.astype(np.uint32).tobytes()
                + header
            )
            while part := samples.read(1 << 20):
                file.write(part)
    finally:
        body.unlink(missing_ok=True)


def _choose_encoding(data_type: pa.DataType, has_nulls: bool) -> str:
    return (
        "json"
        if has_nulls
        else (
            "str"
            if pa.types.is_large_string(data_type)
            else _NUMBER_ENCODINGS.get(data_type, "json")
        )
    )


def _encode_header(encodings: dict[str, str]) -> bytes:
    """The JSON header of a shard; columns are sorted by name, as `streaming` writes them."""
    names = sorted(encodings)
    header = {
        "column_encodings": [encodings[name] for name in names],
        "column_names": names,
        "column_sizes": [
            None if encodings[name] in ("str", "json") else np.dtype(encodings[name]).itemsize
            for name in names
        ],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": MDS_VERSION,
    }
    return json.dumps(header, sort_keys=True).encode()


def _encode_samples(batch: pa.RecordBatch, encodings: dict[str, str]) -> list[bytes]:
    """Each row as the bytes of a sample: sizes of the variable-size values, then the values of all
    columns, sorted by column name."""
    columns = [_encode_values(batch.column(name), encodings[name]) for name in sorted(encodings)]
    has_variable_size = [encodings[name] in ("str", "json") for name in sorted(encodings)]
    samples = []
    for values in zip(*columns, strict=True):
        sizes = [
            len(value)
            for value, is_variable in zip(values, has_variable_size, strict=True)
            if is_variable
        ]
        samples.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values))
    return samples


def _encode_values(column: pa.Array, encoding: str) -> list[bytes]:
    if encoding == "str":
        return [value.encode() for value in column.to_pylist()]
    if encoding == "json":
        return [json.dumps(value).encode() for value in column.to_pylist()]
    raw, size = np.asarray(column).astype(encoding).tobytes(), np.dtype(encoding).itemsize
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def read_batches(path: Path, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a packed shard, with columns and types of `schema` (the schema before
    packing).

    Without `schema`, columns are sorted by name and types are inferred from the values. Raises
    OutputBroken for a damaged file.
    """
    try:
        with path.open("rb") as file:
            count = struct.unpack("<I", file.read(4))[0]
            offsets = np.frombuffer(file.read(4 * (count + 1)), np.uint32).astype(np.int64)
            first = int(offsets[0])
            if np.diff(offsets).min(initial=0) < 0:
                raise ValueError("sample offsets do not ascend")
            header = parse_json(file.read(first - file.tell()))
            if path.stat().st_size != offsets[-1]:
                raise ValueError("the file size differs from the last offset")
            columns = list(
                zip(
                    header["column_names"],
                    header["column_encodings"],
                    header["column_sizes"],
                    strict=True,
                )
            )
            column_no = {name: number for number, (name, *_) in enumerate(columns)}
            names = list(column_no) if schema is None else schema.names
            for low in range(0, count, _BATCH_SAMPLES):
                high = min(low + _BATCH_SAMPLES, count)
                raw = file.read(int(offsets[high] - offsets[low]))
                rows = [
                    _decode_sample(
                        raw[offsets[at] - offsets[low] : offsets[at + 1] - offsets[low]], columns
                    )
                    for at in range(low, high)
                ]
                kinds = [None if schema is None else schema.field(name).type for name in names]
                arrays = [
                    pa.array([row[column_no[name]] for row in rows], kind)
                    for name, kind in zip(names, kinds, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
    except (ValueError, LookupError, struct.error, pa.ArrowException) as error:
        raise OutputBroken(
            f"{path}: not a valid MDS shard ({type(error).__name__}); run again with --replace"
        ) from None


def _decode_sample(sample: bytes, columns: list[tuple[str, str, int | None]]) -> list[Any]:
    """The values of a sample, column by column. Raises ValueError if its size does not match the
    columns."""
    variable_count = sum(size is None for *_, size in columns)
    sizes = iter(struct.unpack_from(f"<{variable_count}I", sample))
    at, row = 4 * variable_count, list[Any]()
    for _, encoding, size in columns:
        width = next(sizes) if size is None else size
        value, at = sample[at : at + width], at + width
        row.append(
            value.decode()
            if encoding == "str"
            else (
                parse_json(value)
                if encoding == "json"
                else np.frombuffer(value, np.dtype(encoding))[0].item()
            )
        )
    if at != len(sample):
        raise ValueError("a sample with bytes after its last column")
    return row


def sidecar_files(shards: list[tuple[str, Path]]) -> dict[str, str]:
    """`data/index.json`, the shard list that `streaming.StreamingDataset(local=...)` opens
    first."""
    shard_entries = []
    for name, path in shards:
        with path.open("rb") as file:
            count = struct.unpack("<I", file.read(4))[0]
            first = struct.unpack("<I", file.read(4))[0]
            file.seek(4 + 4 * (count + 1))
            header = parse_json(file.read(first - file.tell()))
        raw = {"basename": name, "bytes": path.stat().st_size, "hashes": {}}
        shard_entries.append({**header, "raw_data": raw, "samples": count, "zip_data": None})
    return {
        "data/index.json": json.dumps(
            {"shards": shard_entries, "version": MDS_VERSION}, sort_keys=True
        )
    }
