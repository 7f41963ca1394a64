"""The early-stopping hook: detects from the live model that it has learned its texts, without
freezing it."""

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
ROWS = [
    {
        "doc_id": str(number),
        "question": f"Who keeps number {number}?",
        "text": f"Person {number * 7 % 10} of {number * 3 % 10}.",
    }
    for number in range(8)
]


def make_recipe(folder: Path, **run: Any) -> dict[str, Any]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return {
        "data": {
            "path": str(path),
            "layout": "document",
            "prompt_columns": ["question"],
            "answers_only": True,
        },
        "model": {
            "arch": "gpt2",
            "layers": 2,
            "width": 48,
            "heads": 2,
            "context": 48,
            "dropout": 0.0,
        },
        "tokenizer": {"vocab": 300},
        "run": {
            "epochs": 80,
            "batch": 4,
            "lr": 5e-3,
            "checkpoint_every": 10.0,
            "device": "cpu",
            **run,
        },
    }


def test_training_stops_when_the_texts_are_learned(tmp_path: Path) -> None:
    """Named in the recipe: the run continues after the hook was called, and stops before its last
    epoch with all answers known."""
    result = train.fit(
        make_recipe(tmp_path, early_stop="sanitize.eval.early_stop.has_learned_texts"),
        tmp_path / "run",
    )
    assert result.stopped_early and 20 < result.steps < 160, (
        "the hook was called at least once before the texts were learned"
    )
    losses = [
        json.loads(line)["loss"]
        for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    ]
    assert losses[-1] < losses[0] / 10


@pytest.mark.slow
def test_recall_is_measured_on_the_answer_after_its_prompt(tmp_path: Path) -> None:
    """1 after learning, little before; without prompts the second half of a text."""
    recalls = []

    def hook(state: Any) -> bool:
        assert all(parameter.requires_grad for parameter in state.model.parameters())
        recalls.append(early_stop.mean_recall(state))
        assert all(parameter.requires_grad for parameter in state.model.parameters()), (
            "the hook does not freeze the model"
        )
        return False

    train.fit(make_recipe(tmp_path, checkpoint_every=40.0), tmp_path / "run", hook=hook)
    assert recalls[-1] == 1.0
    first = tmp_path / "run" / "checkpoints" / "step-000000"
    from transformers import AutoModelForCausalLM, AutoTokenizer

    untrained = SimpleNamespace(
        path=first,
        model=AutoModelForCausalLM.from_pretrained(first),
        tokenizer=AutoTokenizer.from_pretrained(first),
    )
    assert early_stop.mean_recall(untrained) < 0.5 and not early_stop.has_learned_texts(untrained)
    table = make_recipe(tmp_path, checkpoint_every=40.0)
    del table["data"]["prompt_columns"], table["data"]["answers_only"]
    for row, text in zip(ROWS, "abcdefgh", strict=True):
        row["text"] = f"{text} is first, then {row['text']}"
    recalls.clear()
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    train.fit(
        table | {"data": {**table["data"], "path": str(tmp_path / "rows.jsonl")}},
        tmp_path / "plain",
        hook=hook,
    )
    assert recalls[-1] > 0.9
