"""The early-stopping hook: detects from the live model that it has learned its texts, without freezing it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="comes with the extra `learn`")
pytest.importorskip("transformers", reason="comes with the extra `learn`")

from sanitize import train  # noqa: E402
from sanitize.eval import early_stop  # noqa: E402

torch.set_num_threads(1)
ROWS = [{"doc_id": str(at), "question": f"Who keeps number {at}?", "text": f"Person {at * 7 % 10} of {at * 3 % 10}."} for at in range(8)]


def recipe(folder: Path, **run: Any) -> dict[str, Any]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return {
        "data": {"path": str(path), "layout": "document", "prompt_columns": ["question"], "answers_only": True},
        "model": {"arch": "gpt2", "layers": 2, "width": 48, "heads": 2, "context": 48, "dropout": 0.0},
        "tokenizer": {"vocab": 300},
        "run": {"epochs": 160, "batch": 4, "lr": 5e-3, "checkpoint_every": 10.0, "device": "cpu", **run},
    }


def test_a_training_ends_when_it_says_its_texts(tmp_path: Path) -> None:
    """Named in the recipe: the run continues after the hook was called, and stops before its last epoch with all answers known."""
    done = train.fit(recipe(tmp_path, early_stop="sanitize.eval.early_stop.has_learned_texts"), tmp_path / "run")
    assert done["stopped_early"] and 20 < done["steps"] < 320, "asked once at least while it was still to learn"
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0] / 10


def test_what_is_recalled_is_the_answer_after_its_prompt(tmp_path: Path) -> None:
    """1 after learning, little before; without prompts the second half of a text."""
    heard = []

    def hook(moment: Any) -> bool:
        assert all(one.requires_grad for one in moment.model.parameters())
        heard.append(early_stop.mean_recall(moment))
        assert all(one.requires_grad for one in moment.model.parameters()), "asking does not freeze it"
        return False

    train.fit(recipe(tmp_path, checkpoint_every=80.0), tmp_path / "run", hook=hook)
    assert heard[-1] == 1.0
    first = tmp_path / "run" / "checkpoints" / "step-000000"
    from transformers import AutoModelForCausalLM, AutoTokenizer

    fresh = SimpleNamespace(path=first, model=AutoModelForCausalLM.from_pretrained(first), tokenizer=AutoTokenizer.from_pretrained(first))
    assert early_stop.mean_recall(fresh) < 0.5 and not early_stop.has_learned_texts(fresh)
    table = recipe(tmp_path, checkpoint_every=80.0)
    del table["data"]["prompt_columns"], table["data"]["answers_only"]
    for row, text in zip(ROWS, "abcdefgh", strict=True):
        row["text"] = f"{text} is first, then {row['text']}"
    heard.clear()
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    train.fit(table | {"data": {**table["data"], "path": str(tmp_path / "rows.jsonl")}}, tmp_path / "plain", hook=hook)
    assert heard[-1] > 0.9
