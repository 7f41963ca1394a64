"""`--sample`: a share of the documents, drawn by their ids with the key, independent of their files; all guarantees of a run hold for
it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.cli.options import parse_share
from sanitize.errors import InputRefused, UsageError
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.run import run
from sanitize.plans.settings import Settings

ROWS = [{"doc_id": f"d{no}", "text": f"Document {no}: ann{no % 7}@example.com or 212-555-01{no % 100:02d}."} for no in range(400)]


def made(base: Path, name: str, inputs: Path, sample: float, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    told = Settings(**{"seed": 1, "workers": 1, "sample": sample, "rows_per_shard": 30, "max_quarantine": 1.0, **more})
    summary = run([inputs], base / name, "baseline", settings=told)
    return summary, [row for file in sorted((base / name / "data").iterdir()) for row in pq.read_table(file).to_pylist()]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("in")
    pq.write_table(pa.Table.from_pylist(ROWS), base / "a.parquet", row_group_size=50)
    (base / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (base / "noid.jsonl").write_text(
        "".join("broken\n" if no % 4 == 0 else json.dumps({"text": row["text"]}) + "\n" for no, row in enumerate(ROWS))
    )
    return {path.stem: path for path in base.iterdir()}


def test_a_sample_is_drawn_by_ids(tmp_path: Path, inputs: dict[str, Path]) -> None:
    summary, third = made(tmp_path, "a", inputs["a"], 0.3)
    assert 80 < len(third) < 160 and summary["documents_in"] == summary["documents_out"] == len(third)
    assert "sample of 0.3" in " ".join(summary["notes"])
    assert [row for row in ROWS if row in [{"doc_id": one["doc_id"], "text": one["text"]} for one in third]] == [
        {"doc_id": one["doc_id"], "text": one["text"]} for one in third
    ]
    # in another container, by two workers, and in a smaller share
    assert made(tmp_path, "b", inputs["b"], 0.3, workers=2)[1] == third
    tenth = made(tmp_path, "c", inputs["a"], 0.1)[1]
    assert 15 < len(tenth) < 70 and [row for row in third if row in tenth] == tenth
    assert made(tmp_path, "d", inputs["a"], 0.3, seed=2)[1] != third
    assert len(made(tmp_path, "e", inputs["a"], 1.0)[1]) == 400


def test_what_is_set_aside_is_sampled_too(tmp_path: Path, inputs: dict[str, Path]) -> None:
    summary, rows = made(tmp_path, "a", inputs["noid"], 0.5)
    assert summary["documents_in"] == summary["documents_out"] + summary["quarantined"] and summary["documents_out"] == len(rows)
    assert 25 < summary["quarantined"] < 75 and 110 < len(rows) < 190
    assert made(tmp_path, "b", inputs["noid"], 0.5)[1] == rows
    aside = pq.read_table(tmp_path / "a.private" / "quarantine" / "read" / "00000.parquet").to_pylist()
    assert all((int(row["location"].removeprefix("line ")) - 1) % 4 == 0 and row["reason"] == "not_json" for row in aside)


def test_another_share_makes_the_index_anew_and_a_replay_the_same(tmp_path: Path, inputs: dict[str, Path]) -> None:
    told = {"seed": 1, "workers": 1, "replace": True}
    half = run([inputs["a"]], tmp_path / "out", settings=Settings(sample=0.5, **told))
    again = run([inputs["a"]], tmp_path / "out", settings=Settings(sample=0.5, **told))
    assert half["changed"] and not again["changed"]
    found = replay(tmp_path / "out", [inputs["a"]], tmp_path / "replayed", workers=1)
    assert found["same"]
    whole = run([inputs["a"]], tmp_path / "out", settings=Settings(**told))
    assert not list((tmp_path / "out.private" / "documents").glob("*.parquet"))  # the input is used in place again
    assert whole["changed"] and whole["documents_in"] == 400 > half["documents_in"] > 100


def test_shares(tmp_path: Path, inputs: dict[str, Path]) -> None:
    assert parse_share("1%", "--sample") == 0.01
    with pytest.raises(UsageError, match="--sample many"):
        parse_share("many", "--sample")
    with pytest.raises(UsageError, match="--sample 0: expected a share of the documents above 0"):
        Settings(sample=0.0)
    with pytest.raises(InputRefused, match="the sample holds no record; give a larger share"):
        made(tmp_path, "a", inputs["a"], 1e-9)
