"""MDS, the shards of MosaicML's `streaming`: samples behind a table of their places, and one `index.json` for the folder.

Written and read here, without that package (its format is a few headers; tests/storage/test_formats.py holds a shard against the published
layout). A column without nulls is `str` or a number of numpy in a shard, all else `json`, which has null and nested values.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sanitize.errors import OutputBroken, UsageError
from sanitize.storage.formats import rows_of

NAME, SUFFIX = "mds", ".mds"
VERSION = 2
_MOST = (1 << 32) - 1  # places in a shard are 32 bits wide
_READ = 5_000  # samples of a batch
_NUMBERS = {
    **{pa.type_for_alias(name): name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    pa.float32(): "float32",
    pa.float64(): "float64",
}


def pack(shard: Path, out: Path) -> None:
    """Write the rows of a Parquet shard as samples: read twice, since the places of all stand before the first."""
    names, kinds, nulls = [], [], np.zeros(0, np.int64)
    for batch in rows_of(shard):
        names, kinds = batch.schema.names, batch.schema.types
        found = np.array([column.null_count for column in batch.columns], np.int64)
        nulls = found if not len(nulls) else nulls + found
    encodings = {name: _encoding(kind, bool(null)) for name, kind, null in zip(names, kinds, nulls, strict=True)}
    head = json.dumps(_described(encodings), sort_keys=True).encode()
    sizes: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    body = out.with_name(out.name + ".tmp")
    try:
        with body.open("wb") as samples:
            for batch in rows_of(shard):
                made = _samples(batch, encodings)
                sizes.append(np.array([len(one) for one in made], np.int64))
                samples.write(b"".join(made))
        each = np.concatenate(sizes)
        first = 4 + 4 * (len(each) + 1) + len(head)
        places = first + np.concatenate([[0], np.cumsum(each)])
        if places[-1] > _MOST:
            raise UsageError("--format mds: a shard would be larger than 4 GB, which MDS has no place for; take fewer --rows-per-shard")
        with out.open("wb") as file, body.open("rb") as samples:
            file.write(np.uint32(len(each)).tobytes() + places.astype(np.uint32).tobytes() + head)
            while part := samples.read(1 << 20):
                file.write(part)
    finally:
        body.unlink(missing_ok=True)


def _encoding(kind: pa.DataType, nulls: bool) -> str:
    return "json" if nulls else "str" if pa.types.is_large_string(kind) else _NUMBERS.get(kind, "json")


def _described(encodings: dict[str, str]) -> dict[str, Any]:
    """What a shard says of itself; columns stand in the order of their names, as `streaming` writes them."""
    names = sorted(encodings)
    return {
        "column_encodings": [encodings[name] for name in names],
        "column_names": names,
        "column_sizes": [None if encodings[name] in ("str", "json") else np.dtype(encodings[name]).itemsize for name in names],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": VERSION,
    }


def _samples(batch: pa.RecordBatch, encodings: dict[str, str]) -> list[bytes]:
    """Each row as bytes. A loop over rows: a sample is the values of all its columns, one behind the other."""
    columns = [_values(batch.column(name), encodings[name]) for name in sorted(encodings)]
    wide = [encodings[name] in ("str", "json") for name in sorted(encodings)]
    made = []
    for values in zip(*columns, strict=True):
        sizes = [len(value) for value, free in zip(values, wide, strict=True) if free]
        made.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(values))
    return made


def _values(column: pa.Array, encoding: str) -> list[bytes]:
    if encoding == "str":
        return [value.encode() for value in column.to_pylist()]
    if encoding == "json":
        return [json.dumps(value).encode() for value in column.to_pylist()]
    raw, size = np.asarray(column).astype(encoding).tobytes(), np.dtype(encoding).itemsize
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def batches(path: Path, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    """The rows again, in the order of `schema` (what they were before they were packed); without one, by name and with types that follow
    from the values."""
    try:
        with path.open("rb") as file:
            count = struct.unpack("<I", file.read(4))[0]
            places = np.frombuffer(file.read(4 * (count + 1)), np.uint32).astype(np.int64)
            first = int(places[0])
            if np.diff(places).min(initial=0) < 0:
                raise ValueError("places that go back")
            said = json.loads(file.read(first - file.tell()))
            if path.stat().st_size != places[-1]:
                raise ValueError("other bytes than the places say")
            columns = list(zip(said["column_names"], said["column_encodings"], said["column_sizes"], strict=True))
            names = [name for name, *_ in columns] if schema is None else schema.names
            for low in range(0, count, _READ):
                high = min(low + _READ, count)
                raw = file.read(int(places[high] - places[low]))
                rows = [_row(raw[places[at] - places[low] : places[at + 1] - places[low]], columns) for at in range(low, high)]
                kinds = [None if schema is None else schema.field(name).type for name in names]
                arrays = [pa.array([row[name] for row in rows], kind) for name, kind in zip(names, kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
    except (ValueError, LookupError, struct.error, pa.ArrowException) as error:
        raise OutputBroken(f"{path}: not whole samples of MDS ({type(error).__name__}); run again with --replace") from None


def _row(sample: bytes, columns: list[tuple[str, str, int | None]]) -> dict[str, Any]:
    """A sample by column."""
    free = sum(size is None for *_, size in columns)
    sizes = iter(struct.unpack_from(f"<{free}I", sample))
    at, row = 4 * free, {}
    for name, encoding, size in columns:
        width = next(sizes) if size is None else size
        value, at = sample[at : at + width], at + width
        row[name] = (
            value.decode()
            if encoding == "str"
            else json.loads(value)
            if encoding == "json"
            else np.frombuffer(value, np.dtype(encoding))[0].item()
        )
    if at != len(sample):
        raise ValueError("a sample with bytes that belong to no column")
    return row


def pages(shards: list[tuple[str, Path]]) -> dict[str, str]:
    """`data/index.json`: what `streaming.StreamingDataset(local=...)` opens first."""
    said = []
    for name, path in shards:
        with path.open("rb") as file:
            count = struct.unpack("<I", file.read(4))[0]
            first = struct.unpack("<I", file.read(4))[0]
            file.seek(4 + 4 * (count + 1))
            head = json.loads(file.read(first - file.tell()))
        raw = {"basename": name, "bytes": path.stat().st_size, "hashes": {}}
        said.append({**head, "raw_data": raw, "samples": count, "zip_data": None})
    return {"data/index.json": json.dumps({"shards": said, "version": VERSION}, sort_keys=True)}
