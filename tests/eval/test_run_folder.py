"""A run folder is read as it was written; errors name what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.errors import OutputBroken, UsageError
from sanitize.eval.run_folder import RunFolder, read_first_steps


def write_run_folder(folder: Path, steps: tuple[int, ...] = (0, 5, 10)) -> Path:
    """A run with empty weights, which are never loaded in this file."""
    for step in steps:
        checkpoint_folder = folder / "checkpoints" / f"step-{step:06d}"
        checkpoint_folder.mkdir(parents=True)
        (checkpoint_folder / "config.json").write_text("{}")
        (checkpoint_folder / "model.safetensors").write_bytes(b"")
        checkpoint_info = {
            "step": step,
            "epoch": step / 5,
            "tokens": 8 * step,
            "documents_seen": step,
            "train_loss": None if not step else 2.5,
        }
        (checkpoint_folder / "checkpoint.json").write_text(json.dumps(checkpoint_info))
    (folder / "recipe.json").write_text(
        json.dumps({"data": {"path": "/somewhere/corpus", "documents": 3}})
    )
    pq.write_table(
        pa.table({"doc_id": ["a", "b", "c"], "first_step": pa.array([3, 7, 5], pa.int64())}),
        folder / "seen.parquet",
    )
    names = [f"step-{step:06d}" for step in reversed(steps)]
    (folder / "train.json").write_text(
        json.dumps({"steps": steps[-1], "checkpoints": names, "final": f"step-{steps[-1]:06d}"})
    )
    return folder


def test_a_run_folder_is_read(tmp_path: Path) -> None:
    run = RunFolder.open(write_run_folder(tmp_path))
    assert [
        (checkpoint.step, checkpoint.epoch, checkpoint.name) for checkpoint in run.checkpoints
    ] == [
        (0, 0, "step-000000"),
        (5, 1, "step-000005"),
        (10, 2, "step-000010"),
    ]
    assert (
        run.base_checkpoint.step == 0
        and run.final_checkpoint.step == 10
        and [checkpoint.step for checkpoint in run.trained_checkpoints] == [5, 10]
    )
    assert run.final_checkpoint.train_loss == 2.5 and run.base_checkpoint.train_loss is None


def test_seen_documents_grow_with_the_steps(tmp_path: Path) -> None:
    rows = read_first_steps(write_run_folder(tmp_path)).to_pylist()
    doc_ids = {
        step: [row["doc_id"] for row in rows if row["first_step"] <= step]
        for step in (0, 2, 3, 5, 7, 99)
    }
    assert doc_ids == {
        0: [],
        2: [],
        3: ["a"],
        5: ["a", "c"],
        7: ["a", "b", "c"],
        99: ["a", "b", "c"],
    }


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda run: None, UsageError, "no such folder"),
        (lambda run: (run / "recipe.json").unlink(), OutputBroken, "recipe.json: is missing"),
        (
            lambda run: (run / "recipe.json").write_text("["),
            OutputBroken,
            "no readable JSON object",
        ),
        (lambda run: (run / "train.json").unlink(), OutputBroken, "training is not finished"),
        (
            lambda run: (run / "train.json").write_text('{"checkpoints": []}'),
            OutputBroken,
            "names no checkpoints",
        ),
        (
            lambda run: (run / "checkpoints/step-000005/checkpoint.json").unlink(),
            OutputBroken,
            "step-000005/checkpoint.json: is missing",
        ),
        (
            lambda run: (run / "checkpoints/step-000005/model.safetensors").unlink(),
            OutputBroken,
            "no config.json or adapter_config.json with",
        ),
        (
            lambda run: (run / "checkpoints/step-000005/checkpoint.json").write_text("{}"),
            OutputBroken,
            "no step and epoch",
        ),
    ],
)
def test_missing_parts_are_named(
    tmp_path: Path, damage, error: type[Exception], message: str
) -> None:  # type: ignore[no-untyped-def]
    run = write_run_folder(tmp_path / "run")
    damage(run)
    with pytest.raises(error, match=message):
        RunFolder.open(run if message != "no such folder" else tmp_path / "none")


def test_missing_files_are_reported_on_use(tmp_path: Path) -> None:
    folder = write_run_folder(tmp_path, (5, 10))
    run = RunFolder.open(folder)
    with pytest.raises(OutputBroken, match="no step-000000"):
        _ = run.base_checkpoint
    (folder / "seen.parquet").unlink()
    with pytest.raises(OutputBroken, match="seen.parquet: cannot be read"):
        read_first_steps(run.path)
