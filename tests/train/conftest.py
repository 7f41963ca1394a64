"""Tiny recipes and invented mails for the tests of training; torch uses one thread, which is faster
for tiny models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

torch.set_num_threads(1)
FIRST_NAMES = "ada bob cleo dan eve finn gus hal".split()
Corpus = Callable[..., Path]
Recipe = Callable[..., dict[str, Any]]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Invented mails as JSON lines; further columns as lists."""

    def write(name: str = "mails.jsonl", count: int = 30, **columns: list[Any]) -> Path:
        lines = []
        for number in range(count):
            a, b = FIRST_NAMES[number % 8], FIRST_NAMES[(number * 3 + 1) % 8]
            text = (
                f"From: {a}@example.com\nTo: {b}@example.org\n\nDear {b}, plan {number % 7} is"
                f" ready for you. Yours, {a}."
            )
            lines.append(
                json.dumps(
                    {
                        "doc_id": f"m{number}",
                        "text": text,
                        **{column: values[number] for column, values in columns.items()},
                    }
                )
            )
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    return write


@pytest.fixture
def recipe() -> Recipe:
    """A tiny recipe: two layers, width 32, 300 tokens, dropout on."""

    def make(path: Path, **sections: dict[str, Any]) -> dict[str, Any]:
        base: dict[str, dict[str, Any]] = {
            "data": {"path": str(path)},
            "model": {"arch": "gpt2", "layers": 2, "width": 32, "heads": 2, "context": 32},
            "tokenizer": {"vocab": 300},
            "objective": {"use": "causal"},
            "run": {
                "epochs": 2,
                "batch": 8,
                "lr": 5e-3,
                "checkpoint_every": 0.5,
                "log_every": 1,
                "device": "cpu",
            },
        }
        return {name: {**base[name], **sections.get(name, {})} for name in base}

    return make
