"""Tokens a second by hand, what a resumed run continues, and the lines about a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sanitize import train
from sanitize.train import step_log
from sanitize.train.step_log import StepLog
from sanitize.train.trainer import NEW_RUN

torch.set_num_threads(1)


def test_rates_leave_out_checkpoints_and_means_cover_the_entry() -> None:
    now = [0.0]

    def make(state: Any) -> StepLog:
        return StepLog(state, step_count=9, lr=1.0, report=print, clock=lambda: now[0])

    log = make(NEW_RUN)
    log.add_step(0, {"loss": 6.0}, {"loss": 2.0}, 200)
    log.add_step(1, {"loss": 2.0}, {"loss": 2.0}, 100)
    now[0] = 5.0
    log.exclude(2.0, has_line=False)
    expected = {"step": 2, "epoch": 0.5, "loss": 2.0, "tokens": 300, "tokens_per_s": 100.0}
    assert log.make_entry(2, 0.5, {}) == expected
    log.add_step(2, {"loss": 5.0, "kl": 3.0}, {"loss": 1.0, "kl": 2.0}, 10)
    resumed = make({**NEW_RUN, "step": 3, **log.state_dict()})
    now[0] = 6.0
    entry = log.make_entry(3, 0.75, {"loss": -1.0})
    assert entry["loss"] == -5.0 + 1.5 and entry["parts"] == {"loss": 5.0, "kl": 1.5}
    assert entry["tokens_per_s"] == 10.0
    assert resumed.make_entry(3, 0.75, {"loss": -1.0}) == {**entry, "tokens_per_s": 0.0}
    assert resumed.begin_checkpoint() == log.begin_checkpoint() == 13.0 / 5


def test_lines_about_a_run(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line every so many seconds between checkpoints, and the same numbers in the log."""
    monkeypatch.setattr(step_log, "HEARTBEAT_S", 0.0)
    lines: list[str] = []
    train.fit(
        recipe(corpus(), run={"epochs": 1, "log_every": 2, "checkpoint_every": 0}),
        tmp_path / "run",
        progress=lines.append,
    )
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert all(entry["tokens_per_s"] > 0 for entry in log)
    found = [line for line in lines if "tokens/s" in line]
    assert len(found) == len(log) - 1 == 2, "the last one is that of the checkpoint"
    first = log[0]
    assert found[0].startswith(
        f"step 2 of 5, epoch 0.40: loss {first['loss']:.4f}, {first['tokens_per_s']:,.0f} tokens/s,"
        " 0:"
    )
    assert found[0].endswith(" left") and found[-1].startswith("step 4 of 5")
