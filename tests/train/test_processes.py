"""Runs of two processes (gloo, on the CPU) equal a run of one; a dead process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sanitize import train
from sanitize.errors import UsageError
from sanitize.train.processes import DataParallel, SingleProcess, detect_processes
from tests.train.test_training_run import read_log, read_result

ROOT = Path(__file__).resolve().parents[2]
# every run of a JSON file of [recipe, folder, step at whose end rank 1 dies]
SCRIPT = """
import json, os, sys, torch
from sanitize import train
from sanitize.train.trainer import Trainer
torch.set_num_threads(1)
update = Trainer._optimizer_step
for recipe, folder, last_step in json.load(open(sys.argv[1])):
    def update_or_die(self, step):
        update(self, step)
        if step == last_step and self.processes.rank == 1:
            os._exit(9)
    Trainer._optimizer_step = update_or_die
    train.fit(recipe, folder, progress=lambda line: print(line, flush=True))
"""


def launch(tmp_path: Path, runs: list[Any]) -> subprocess.CompletedProcess[str]:
    """Starts the runs in two processes."""
    (tmp_path / "runs.json").write_text(
        json.dumps([[recipe, str(folder), step] for recipe, folder, step in runs])
    )
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        tmp_path / "script.py",
        tmp_path / "runs.json",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )


def assert_nearly_equal_runs(actual: Path, expected: Path, file: str = "model.safetensors") -> None:
    """Asserts equal numbers up to the order of sums."""
    from safetensors.torch import load_file

    first, second = read_result(actual), read_result(expected)
    assert first["checkpoints"] == second["checkpoints"] and first["tokens"] == second["tokens"]
    for name in first["checkpoints"]:
        folder, expected_folder = (run / "checkpoints" / name for run in (actual, expected))
        weights, expected_weights = (load_file(one / file) for one in (folder, expected_folder))
        assert weights.keys() == expected_weights.keys(), "tied weights are in it once"
        assert all(
            torch.allclose(weights[key], expected_weights[key], atol=1e-4) for key in weights
        ), name
        losses = [
            json.loads((one / "checkpoint.json").read_text())["validation_loss"]
            for one in (folder, expected_folder)
        ]
        assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    for entry, expected_entry in zip(read_log(actual), read_log(expected), strict=True):
        assert (
            entry["loss"] == pytest.approx(expected_entry["loss"], abs=1e-4)
            and entry["step"] == expected_entry["step"]
        )


@pytest.mark.slow
def test_two_processes_equal_one(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    """Dropout is off, so that only the order of sums differs. One of the two processes dies; the
    same command goes on."""
    data = corpus()
    # seven rows for two processes in two micro-batches; three batches of validation rows
    run = {"accumulate": 2, "batch": 7, "state_every": 2, "epochs": 2}
    settings = recipe(
        data,
        model={"dropout": 0.0},
        run=run,
        data={"validation": str(corpus("held_out.jsonl", count=9))},
    )
    train.fit(settings, tmp_path / "one")
    base = tmp_path / "one" / "checkpoints" / read_result(tmp_path / "one")["final"]
    adapted = settings | {
        "model": {"path": str(base), "context": 32},
        "tokenizer": {},
        "lora": {"rank": 4, "dropout": 0.0},
    }
    adapted["model"]["dropout"] = 0.0
    train.fit(adapted, tmp_path / "one-adapter")
    runs = [(settings, tmp_path / "two"), (adapted, tmp_path / "two-adapter")]
    result = launch(tmp_path, [(*runs[0], 4)])
    assert result.returncode != 0 and "exitcode  : 9" in result.stderr, result.stderr[-3000:]
    assert not (tmp_path / "two" / "train.json").exists() and (tmp_path / "two" / "tokens").is_dir()
    result = launch(tmp_path, [(*one, None) for one in runs])
    assert result.returncode == 0, result.stderr[-3000:]
    assert (
        "resumed after step 4" in result.stdout and result.stdout.count("documents, recipe") == 2
    ), "one process reads and reports"
    assert_nearly_equal_runs(tmp_path / "two", tmp_path / "one")
    assert_nearly_equal_runs(
        tmp_path / "two-adapter", tmp_path / "one-adapter", "adapter_model.safetensors"
    )


def test_one_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(detect_processes("cpu")) is SingleProcess
    with pytest.raises(UsageError, match="run.device = meta: not a device of this machine"):
        SingleProcess("meta")
    with pytest.raises(UsageError, match="not a device of this machine"):
        SingleProcess("cuda:99")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(DataParallel, "__init__", SingleProcess.__init__)
    assert type(detect_processes("cpu")) is DataParallel


def test_what_needs_one_process_is_refused(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Two(SingleProcess):
        world_size = 2

    monkeypatch.setattr("sanitize.train.training_run.detect_processes", Two)
    settings = recipe(corpus(), data={"layout": "document"})
    with pytest.raises(UsageError, match="in one process only"):
        train.fit({**settings, "privacy": {"sigma": 1.0}}, tmp_path / "run")
