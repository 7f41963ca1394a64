"""A run folder is what it says, and a run that was killed anywhere ends in the same bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import train

ROOT = Path(__file__).resolve().parents[2]
FIRST = "ada bob cleo dan eve finn gus hal".split()


def corpus(path: Path, count: int = 30, **more: Any) -> Path:
    """Invented mails, one JSON line each."""
    lines = []
    for at in range(count):
        a, b = FIRST[at % 8], FIRST[(at * 3 + 1) % 8]
        text = f"From: {a}@example.com\nTo: {b}@example.org\n\nDear {b}, plan {at % 7} is ready for you. Yours, {a}."
        lines.append(json.dumps({"doc_id": f"m{at}", "text": text, **{name: value[at] for name, value in more.items()}}))
    path.write_text("\n".join(lines) + "\n")
    return path


def recipe(path: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    """A tiny recipe: two layers, width 32, 300 tokens, dropout on."""
    base: dict[str, dict[str, Any]] = {
        "data": {"path": str(path)},
        "model": {"arch": "gpt2", "layers": 2, "width": 32, "heads": 2, "context": 32},
        "tokenizer": {"vocab": 300},
        "objective": {"use": "causal"},
        "run": {"epochs": 2, "batch": 8, "lr": 5e-3, "checkpoint_every": 0.5, "log_every": 1, "device": "cpu"},
    }
    return {name: {**base[name], **sections.get(name, {})} for name in base}


def weights(run: Path, name: str | None = None) -> str:
    name = name or json.loads((run / "train.json").read_text())["final"]
    return hashlib.sha256((run / "checkpoints" / name / "model.safetensors").read_bytes()).hexdigest()


class Killed(BaseException):
    """What ends a run in the middle here."""


def killed_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """The objective dies at its n-th forward pass."""
    from train.objectives.causal import Causal

    calls = {"n": 0}
    sums = Causal.sums

    def dying(self: Causal, model: Any, shown: Any, *, training: bool) -> Any:
        calls["n"] += 1
        if calls["n"] == call:
            raise Killed
        return sums(self, model, shown, training=training)

    monkeypatch.setattr(Causal, "sums", dying)


def test_a_run_folder_holds_what_eval_reads(tmp_path: Path) -> None:
    data = corpus(tmp_path / "mails.jsonl")
    result = train.fit(recipe(data, data={"validation": str(data)}), tmp_path / "run")
    run = tmp_path / "run"
    assert json.loads((run / "train.json").read_text()) == result
    assert result["checkpoints"][0] == "step-000000" and result["checkpoints"][-1] == result["final"]
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == result["checkpoints"]
    told = json.loads((run / "recipe.json").read_text())
    assert told["data"]["documents"] == 30 and len(told["data"]["shards"][0]["sha256"]) == 64 and told["base_model"] is None
    steps = []
    for name in result["checkpoints"]:
        folder = run / "checkpoints" / name
        assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "checkpoint.json"} <= {
            path.name for path in folder.iterdir()
        }
        info = json.loads((folder / "checkpoint.json").read_text())
        assert info["recipe_hash"] == result["recipe_hash"] and info["validation_loss"] > 0
        steps.append(info["step"])
    assert steps[0] == 0 and steps[-1] == result["steps"]
    losses = [json.loads((run / "checkpoints" / name / "checkpoint.json").read_text())["validation_loss"] for name in result["checkpoints"]]
    assert losses[-1] < losses[0] - 0.5
    seen = pq.read_table(run / "seen.parquet")
    assert sorted(seen.column("doc_id").to_pylist()) == sorted(f"m{at}" for at in range(30))
    assert json.loads((run / "checkpoints" / result["final"] / "checkpoint.json").read_text())["documents_seen"] == 30
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == list(range(1, result["steps"] + 1))
    assert {"step", "epoch", "loss", "lr", "tokens"} <= log[0].keys()


def test_a_second_call_trains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus(tmp_path / "mails.jsonl")
    first = train.fit(recipe(data), tmp_path / "run")
    killed_at(monkeypatch, 1)
    assert train.fit(recipe(data), tmp_path / "run") == first


@pytest.mark.parametrize("call", [1, 4, 7, 14, 22, 23])
def test_killed_anywhere_and_resumed_is_bit_for_bit_the_same(tmp_path: Path, call: int) -> None:
    """Three pieces a step: most of these calls lie in the middle of an accumulation. Dropout is on."""
    data = corpus(tmp_path / "mails.jsonl")
    settings = recipe(data, run={"accumulate": 3, "state_every": 2, "noise_alpha": 5.0})
    train.fit(settings, tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, call)
        with pytest.raises(Killed):
            train.fit(settings, tmp_path / "run")
    train.fit(settings, tmp_path / "run")
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    assert (tmp_path / "run" / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()
    for name in json.loads((tmp_path / "run" / "train.json").read_text())["checkpoints"]:
        ours, theirs = (tmp_path / run / "checkpoints" / name for run in ("run", "whole"))
        assert (ours / "checkpoint.json").read_text() == (theirs / "checkpoint.json").read_text()
        assert weights(tmp_path / "run", name) == weights(tmp_path / "whole", name)
