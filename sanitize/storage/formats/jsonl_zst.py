"""JSON lines in one zstd stream: an object with all columns on each line, in the order of the schema; null where there is nothing.

Written by Polars (200 MB/s on one core that others use too), read by Arrow, so that neither checks itself. JSON has no NaN and no infinity:
they become null.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj

from sanitize.core.text_cells import plain
from sanitize.errors import OutputBroken
from sanitize.storage.formats import rows_of

NAME, SUFFIX = "jsonl.zst", ".jsonl.zst"
BLOCK = 16 << 20  # bytes of lines that are decoded at once; more where one line is longer


def pack(shard: Path, out: Path) -> None:
    """Write the rows of a Parquet shard as lines."""
    import polars as pl  # who reads shards only, as train/ does, needs no Polars

    with pa.OSFile(str(out), "wb") as file, pa.CompressedOutputStream(file, "zstd") as packed:
        for batch in rows_of(shard):
            lines = io.BytesIO()
            frame = pl.DataFrame(pa.Table.from_batches([batch]))
            frame.write_ndjson(lines)
            packed.write(lines.getbuffer())


def batches(path: Path, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    """The rows again. `schema`: what they were before they were packed; without one the types follow from the values."""
    asked = None if schema is None else pa.schema([(field.name, _small(field.type)) for field in schema])
    how = pj.ParseOptions(explicit_schema=asked, unexpected_field_behavior="error" if asked is not None else "infer")
    try:
        with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, "zstd") as lines:
            for block in _blocks(lines):
                reading = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
                table = pj.read_json(pa.BufferReader(block), read_options=reading, parse_options=how).combine_chunks()
                if asked is not None:
                    table = table.select(asked.names)
                for batch in table.to_batches():
                    yield pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], names=table.column_names)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise OutputBroken(f"{path}: not whole lines of JSON ({type(error).__name__}); run again with --replace") from None


def _blocks(stream: pa.NativeFile) -> Iterator[bytes]:
    """Whole lines, some MB at a time."""
    held = b""
    while part := stream.read(BLOCK):
        held += part
        at = held.rfind(b"\n") + 1
        if at:
            yield held[:at]
            held = held[at:]
    if held:
        raise pa.ArrowInvalid("the last line has no end")


def _small(kind: pa.DataType) -> pa.DataType:
    """The same type as Arrow's reader of JSON has it."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _small(field.type)) for field in kind])
    return kind


def pages(shards: list[tuple[str, Path]]) -> dict[str, str]:
    """Nothing stands beside the lines."""
    return {}
