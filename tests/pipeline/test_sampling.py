"""`--sample`: draws a share of the documents by their ids and the key, independent of their files;
all guarantees of a run hold for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.errors import InputRefused, UsageError
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.settings import Settings

ROWS = [
    {
        "doc_id": f"d{no}",
        "text": f"Document {no}: ann{no % 7}@example.com or 212-555-01{no % 100:02d}.",
    }
    for no in range(400)
]


def run_sample(
    base: Path, name: str, inputs: Path, sample: float, **changed_settings: Any
) -> tuple[RunResult, list[dict[str, Any]]]:
    settings = Settings(
        **{
            "seed": 1,
            "workers": 1,
            "sample": sample,
            "rows_per_shard": 70,
            "max_quarantine": 1.0,
            **changed_settings,
        }
    )
    summary = run_with_settings([inputs], base / name, "baseline", settings=settings)
    return summary, [
        row
        for file in sorted((base / name / "data").iterdir())
        for row in pq.read_table(file).to_pylist()
    ]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("in")
    pq.write_table(pa.Table.from_pylist(ROWS), base / "a.parquet", row_group_size=50)
    (base / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (base / "noid.jsonl").write_text(
        "".join(
            "broken\n" if no % 4 == 0 else json.dumps({"text": row["text"]}) + "\n"
            for no, row in enumerate(ROWS)
        )
    )
    return {path.stem: path for path in base.iterdir()}


@pytest.mark.slow
def test_a_sample_is_drawn_by_ids(tmp_path: Path, inputs: dict[str, Path]) -> None:
    summary, rows_at_30_percent = run_sample(tmp_path, "a", inputs["a"], 0.3)
    assert 80 < len(
        rows_at_30_percent
    ) < 160 and summary.documents_in == summary.documents_out == len(rows_at_30_percent)
    assert "sample of 0.3" in " ".join(summary.notes)
    assert [
        row
        for row in ROWS
        if row
        in [
            {"doc_id": sampled_row["doc_id"], "text": sampled_row["text"]}
            for sampled_row in rows_at_30_percent
        ]
    ] == [
        {"doc_id": sampled_row["doc_id"], "text": sampled_row["text"]}
        for sampled_row in rows_at_30_percent
    ]
    # the sample is the same in another file format and with two workers; a smaller share is a
    # subset
    assert run_sample(tmp_path, "b", inputs["b"], 0.3, workers=2)[1] == rows_at_30_percent
    rows_at_10_percent = run_sample(tmp_path, "c", inputs["a"], 0.1)[1]
    assert (
        15 < len(rows_at_10_percent) < 70
        and [row for row in rows_at_30_percent if row in rows_at_10_percent] == rows_at_10_percent
    )
    assert (
        run_sample(tmp_path, "d", inputs["a"], 0.3, seed=2, rows_per_shard=400)[1]
        != rows_at_30_percent
    )
    assert len(run_sample(tmp_path, "e", inputs["a"], 1.0, rows_per_shard=400)[1]) == 400


def test_quarantined_records_are_sampled_too(tmp_path: Path, inputs: dict[str, Path]) -> None:
    summary, rows = run_sample(tmp_path, "a", inputs["noid"], 0.5)
    assert (
        summary.documents_in == summary.documents_out + summary.quarantined
        and summary.documents_out == len(rows)
    )
    assert 25 < summary.quarantined < 75 and 110 < len(rows) < 190
    assert run_sample(tmp_path, "b", inputs["noid"], 0.5)[1] == rows
    quarantined_rows = pq.read_table(
        tmp_path / "a.private" / "quarantine" / "read" / "00000.parquet"
    ).to_pylist()
    assert all(
        (int(row["location"].removeprefix("line ")) - 1) % 4 == 0 and row["reason"] == "not_json"
        for row in quarantined_rows
    )


def test_another_share_rebuilds_the_index_and_replay_reproduces_the_sample(
    tmp_path: Path, inputs: dict[str, Path]
) -> None:
    common_settings = {"seed": 1, "workers": 1, "replace": True}
    first_summary = run_with_settings(
        [inputs["a"]],
        tmp_path / "out",
        settings=Settings(sample=0.5, **common_settings),
        plan="rmft",
    )
    second_summary = run_with_settings(
        [inputs["a"]],
        tmp_path / "out",
        settings=Settings(sample=0.5, **common_settings),
        plan="rmft",
    )
    assert first_summary.changed and not second_summary.changed
    replay_result = replay(tmp_path / "out", [inputs["a"]], tmp_path / "replayed", workers=1)
    assert replay_result.same
    full_summary = run_with_settings(
        [inputs["a"]], tmp_path / "out", settings=Settings(**common_settings), plan="rmft"
    )
    # the input is used in place again
    assert not list((tmp_path / "out.private" / "documents").glob("*.parquet"))
    assert (
        full_summary.changed and full_summary.documents_in == 400 > first_summary.documents_in > 100
    )


def test_values_of_the_sample_option(tmp_path: Path, inputs: dict[str, Path]) -> None:
    assert Settings(sample="1%").sample == 0.01
    with pytest.raises(UsageError, match="--sample many"):
        Settings(sample="many")
    with pytest.raises(UsageError, match="--sample 0: expected a share of the documents above 0"):
        Settings(sample=0.0)
    with pytest.raises(InputRefused, match="the sample holds no record; give a larger share"):
        run_sample(tmp_path, "a", inputs["a"], 1e-9)
