"""Output formats of shards other than Parquet: one module of this folder per format.

A shard is first written and checked as Parquet. `--format` then packs it with the same rows in the
same order, and the leak check reads the packed file. A format is a module with

    NAME, SUFFIX     its name for `--format`, and the suffix of its shard files
    pack             converts a Parquet shard to a file of this format; equal rows give equal bytes
    read_batches     yields the rows of such a file, with a decoder that is independent of the
                     encoder
    sidecar_files    text files that belong beside the shards (such as an index); empty for most
                     formats

No format here supports binary values, and all write dates, times and decimals as text
(`packed_type`); only Parquet keeps these types.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.errors import UsageError

PARQUET = "parquet"
_TEXT_TYPE_TESTS = (pa.types.is_temporal, pa.types.is_decimal)


@cache
def _packed_formats() -> dict[str, ModuleType]:
    """All formats except Parquet, by name: the modules of this package."""
    modules = (
        importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
    )
    return {module.NAME: module for module in modules}


def list_formats() -> list[str]:
    """The valid values of `--format`."""
    return [PARQUET, *sorted(_packed_formats())]


def get_format(name: str) -> ModuleType:
    """The module of a format other than Parquet."""
    return _packed_formats()[name]


def format_suffix(name: str) -> str:
    """The suffix of the shard files of a format, such as .jsonl.zst."""
    return ".parquet" if name == PARQUET else str(get_format(name).SUFFIX)


def find_packed_format(path: Path) -> ModuleType | None:
    """The format module of a shard, by the suffix of its file name; None for Parquet."""
    return next(
        (module for module in _packed_formats().values() if path.name.endswith(module.SUFFIX)), None
    )


def check_schema(name: str, schema: pa.Schema) -> None:
    """Raises UsageError if a format cannot store a column of the output."""
    if name == PARQUET:
        return
    for field in schema:
        if _holds_bytes(field.type):
            raise UsageError(
                f"--format {name}: column {field.name} contains bytes ({field.type}), which {name}"
                f" cannot store; drop it (--drop {field.name}) or use --format parquet"
            )


def _holds_bytes(data_type: pa.DataType) -> bool:
    if pa.types.is_nested(data_type):
        return any(
            _holds_bytes(data_type.field(number).type) for number in range(data_type.num_fields)
        )
    return bool(
        pa.types.is_large_binary(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_fixed_size_binary(data_type)
    )


def packed_type(data_type: pa.DataType) -> pa.DataType:
    """The type of a column in these formats: durations become integers, other times and decimals
    become text."""
    if pa.types.is_duration(data_type):
        return pa.int64()
    if any(test(data_type) for test in _TEXT_TYPE_TESTS):
        return pa.large_string()
    if pa.types.is_float16(data_type):
        return pa.float32()
    if pa.types.is_large_list(data_type):
        return pa.large_list(packed_type(data_type.value_type))
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, packed_type(field.type)) for field in data_type])
    return data_type


def iter_shard_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a Parquet shard with packed types, one batch per row group; page checksums
    are verified."""
    with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
        schema = pa.schema(
            [(field.name, packed_type(_large_type(field.type))) for field in file.schema_arrow]
        )
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False).combine_chunks()
            columns = [
                (table.column(name).chunk(0) if table.num_rows else pa.nulls(0, kind)).cast(kind)
                for name, kind in zip(schema.names, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _large_type(data_type: pa.DataType) -> pa.DataType:
    """The type with large offsets, which `open_text_writer` was given; Parquet readers return types
    with 32-bit offsets."""
    if pa.types.is_string(data_type):
        return pa.large_string()
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.large_list(_large_type(data_type.value_type))
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _large_type(field.type)) for field in data_type])
    return data_type


@dataclass(frozen=True, kw_only=True)
class PackTask:
    """The task of packing one shard."""

    shard_no: int
    first_doc_no: int
    end_doc_no: int
    shard: Path
    format: str
    folder: Path


def pack_shard(task: PackTask) -> None:
    """Writes the shard in the format of the task to `task.folder`."""
    out = task.folder / f"shard{format_suffix(task.format)}"
    get_format(task.format).pack(task.shard, out)


def shard_path(run_folder: Path, format: str, shard_no: int) -> Path:
    """The path in WORK of a shard of a run, in a given format."""
    if format == PARQUET:
        return run_folder / "shards" / f"{shard_no:05d}.parquet"
    return run_folder / "packed" / format / f"{shard_no:05d}{format_suffix(format)}"
