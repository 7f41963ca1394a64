"""The writer of the tables of WORK: every reader gets the rows that were written."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.storage.parquet_files import open_table_writer

_INTEGERS = [0, 5, -3, 7, None, 7, 2**62, -(2**62), None, 2**63 - 1, -(2**63)]
_SMALL = [0, 5, -3, 7, None, 7, 2**30, -(2**30), None, 2**31 - 1, -(2**31)]
_TEXTS = ["", "a", None, "é" * 40, "a", "b", "", None, "x\0y", "z", "a"]
_ROWS = {
    "doc_no": pa.array(_INTEGERS, pa.int64()),
    "cell": pa.array(_SMALL, pa.int32()),
    "value_id": pa.array(_INTEGERS[::-1], pa.int64()),
    "entity_id": pa.array(_INTEGERS, pa.int64()),
    "score": pa.array([1.0] * len(_INTEGERS), pa.float32()),
    "kind": pa.array(_TEXTS, pa.string()).dictionary_encode(),
    "value": pa.array(_TEXTS, pa.large_string()),
    "words": pa.array([[text, "w"] if text else None for text in _TEXTS], pa.list_(pa.string())),
}


@pytest.mark.parametrize("row_count", [0, 1, len(_INTEGERS)])
def test_table_has_the_written_rows_in_every_engine(tmp_path: Path, row_count: int) -> None:
    table = pa.table(_ROWS).slice(0, row_count).combine_chunks()
    path = tmp_path / "table.parquet"
    with open_table_writer(path, table.schema) as out:
        out.write_table(table, row_group_size=4)
    expected = table.to_pylist()
    assert pq.read_table(path, partitioning=None).to_pylist() == expected
    assert pl.read_parquet(path).to_dicts() == expected
    rows = duckdb.connect().execute(f"SELECT * FROM read_parquet('{path}')").fetchall()
    assert rows == [tuple(row.values()) for row in expected]
    # what is not an integer has a codec, integers have none
    metadata = pq.read_metadata(path)
    columns = (
        [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
        if row_count
        else []
    )
    codecs = {column.path_in_schema: column.compression for column in columns}
    assert (
        not codecs
        or (codecs["doc_no"], codecs["value_id"], codecs["kind"], codecs["value"])
        == ("UNCOMPRESSED",) * 2 + ("ZSTD",) * 2
    )
