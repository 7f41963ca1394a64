"""Formats that shards are published in, beside Parquet: one file of this folder each.

A shard is made and checked as Parquet first; `--format` then packs it, row by row the same, and the leak check reads what was packed. A
format is a module with

    NAME, SUFFIX    as `--format` names it, and how its shards' names end
    pack            a Parquet shard -> a file of this format; the same rows give the same bytes
    batches         the rows of such a file again, by another decoder than the one that wrote them
    pages           text files that belong beside the shards (an index); most have none

No format here has bytes among its values, and all write dates, times and decimals as text (`typed`); Parquet alone has them as they are.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.errors import UsageError, nearest

PARQUET = "parquet"
_TIMES = (pa.types.is_temporal, pa.types.is_decimal)


@cache
def _others() -> dict[str, ModuleType]:
    """All formats but Parquet, by name: the folder is the registry."""
    found = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {module.NAME: module for module in found}


def names() -> list[str]:
    """What `--format` may say."""
    return [PARQUET, *sorted(_others())]


def known(name: str) -> str:
    """The name of a format, or UsageError with those that there are."""
    if name not in names():
        raise UsageError(f"--format {name}: {nearest(name, names())}")
    return name


def format_of(name: str) -> ModuleType:
    """The module of a format that is not Parquet."""
    return _others()[name]


def suffix(name: str) -> str:
    """How the names of its shards end."""
    return ".parquet" if name == PARQUET else str(format_of(name).SUFFIX)


def by_suffix(path: Path) -> ModuleType | None:
    """The format of a shard, by its name; None for Parquet."""
    return next((module for module in _others().values() if path.name.endswith(module.SUFFIX)), None)


def fits(name: str, schema: pa.Schema) -> None:
    """UsageError where a format cannot hold a column of the output."""
    if name == PARQUET:
        return
    for field in schema:
        if _has_bytes(field.type):
            raise UsageError(
                f"--format {name}: column {field.name} holds bytes ({field.type}), which {name} has no place for; "
                f"leave it out (--drop {field.name}) or take --format parquet"
            )


def _has_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_bytes(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_large_binary(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def typed(kind: pa.DataType) -> pa.DataType:
    """The type in which a plain column stands in these formats: durations are whole numbers, other times and decimals text."""
    if pa.types.is_duration(kind):
        return pa.int64()
    if any(test(kind) for test in _TIMES):
        return pa.large_string()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_large_list(kind):
        return pa.large_list(typed(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, typed(field.type)) for field in kind])
    return kind


def rows_of(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet shard in the types of these formats, row group by row group, every page checked."""
    with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
        schema = pa.schema([(field.name, typed(_large(field.type))) for field in file.schema_arrow])
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False).combine_chunks()
            columns = [
                (table.column(name).chunk(0) if table.num_rows else pa.nulls(0, kind)).cast(kind)
                for name, kind in zip(schema.names, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _large(kind: pa.DataType) -> pa.DataType:
    """The type that the house's writer was given, where reading gives the same with small offsets."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(_large(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _large(field.type)) for field in kind])
    return kind
