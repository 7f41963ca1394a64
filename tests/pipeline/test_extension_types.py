"""Strings whose Arrow type is an extension type are texts, at any depth."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings

JSON = '{"sender": "ann.roe@example.com"}'


@pytest.mark.parametrize(
    "data_type",
    [
        pa.json_(),
        pa.list_(pa.json_()),
        pa.struct([("json", pa.json_())]),
        pa.list_(pa.struct([("json", pa.list_(pa.json_()))])),
    ],
    ids=str,
)
def test_json_columns_are_sanitized_at_any_depth(tmp_path: Path, data_type: pa.DataType) -> None:
    def nest(current: pa.DataType) -> object:
        if pa.types.is_list(current):
            return [nest(current.value_type)]
        if pa.types.is_struct(current):
            return {field.name: nest(field.type) for field in current}
        return JSON

    def replace_extensions(current: pa.DataType) -> pa.DataType:
        if pa.types.is_list(current):
            return pa.list_(replace_extensions(current.value_type))
        if pa.types.is_struct(current):
            return pa.struct([(field.name, replace_extensions(field.type)) for field in current])
        return pa.string()

    plain = pa.array([nest(data_type)], replace_extensions(data_type))
    column = plain.cast(data_type)
    assert column.type == data_type
    pq.write_table(pa.table({"text": ["nothing"], "notes": column}), tmp_path / "in.parquet")
    summary = run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "out",
        "surrogates",
        settings=Settings(seed=1, workers=1),
    )
    output = str(pq.read_table(tmp_path / "out" / "data").to_pylist())
    assert "ann.roe" not in output and '{"sender": "' in output
    assert summary.by_kind["EMAIL_ADDRESS"].replaced == 1
