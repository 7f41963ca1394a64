"""Values that an erasure leaves in encoded form are counted, by form."""

from __future__ import annotations

import base64
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings

ANN = "ann.roe@example.com"


@pytest.mark.slow
def test_an_encoded_value_is_counted_by_form(tmp_path: Path) -> None:
    hidden = base64.b64encode(f"write to {ANN} today".encode()).decode()
    pq.write_table(
        pa.table({"text": [f"{ANN} wrote: {hidden}", f"call {ANN}"]}), tmp_path / "in.parquet"
    )
    run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "out",
        "redact",
        settings=Settings(workers=1, seed=7, verify="fast"),
    )
    (tmp_path / "who.txt").write_text(f"{ANN}\n")
    found = sanitize.subject(
        tmp_path / "out.private", tmp_path / "who.txt", erase=True, seed=7, workers=1
    )
    assert found.erased is not None and found.erased.outputs[0].encoded_leaks == {"base64": 1}
