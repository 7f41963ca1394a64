"""Perplexities against losses computed one by one; MDP as in the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sanitize.errors import UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metric import EvalContext
from sanitize.eval.metrics.perplexity import Perplexity, compute_mdp, measure_perplexity
from sanitize.eval.texts_and_prompts import TextSet


def test_perplexity_equals_that_of_single_texts(gpt2: Any, tokenizer: Any) -> None:
    import torch

    model, texts = (
        LanguageModel.from_loaded(gpt2, tokenizer),
        ["Dear Ann", "", "a longer text, of more tokens than the others"],
    )
    losses = []
    for text in texts:
        ids = torch.tensor([[0, *tokenizer(text)["input_ids"]]])
        if ids.shape[1] > 1:
            losses.append(
                torch.nn.functional.cross_entropy(
                    gpt2(ids).logits[0, :-1], ids[0, 1:], reduction="none"
                ).double()
            )
    result = measure_perplexity(model, texts, batch=2)
    assert result["texts"] == 2 and result["tokens"] == sum(map(len, losses))
    assert result["mean"] == pytest.approx(
        np.mean([float(loss.mean().exp()) for loss in losses]), rel=1e-4
    )
    assert result["corpus"] == pytest.approx(float(torch.cat(losses).mean().exp()), rel=1e-4)
    assert measure_perplexity(model, [""]) == {
        "mean": None,
        "corpus": None,
        "texts": 0,
        "tokens": 0,
    }


def build_row(step: int, mean: float, corpus: float) -> dict[str, Any]:
    return {"step": step, "perplexity": {"mail": {"mean": mean, "corpus": corpus}}}


def test_mdp_of_checkpoints() -> None:
    result = compute_mdp(
        [build_row(0, 99, 99), build_row(2, 10, 4), build_row(4, 8, 4)],
        [build_row(0, 98, 98), build_row(1, 11, 5), build_row(2, 10, 3)],
        "mail",
    )
    assert result["mean"]["mdp_percent"] == pytest.approx([10, 25]) and result["mean"][
        "mean"
    ] == pytest.approx(17.5)
    assert result["mean"]["final"] == pytest.approx(25) and result["mean"][
        "delta"
    ] == pytest.approx(1.5)
    assert result["corpus"]["mdp_percent"] == pytest.approx([25, -25])
    paper = compute_mdp([build_row(1, 6.432, 1)], [build_row(1, 6.798, 1)], "mail")
    assert paper["mean"]["final"] == pytest.approx(5.69, abs=0.005)


def test_texts_without_tokens_have_no_mdp() -> None:
    """A set of texts that are no tokens has no perplexity, at any checkpoint."""
    rows = [
        {"step": step, "perplexity": {"mail": {"mean": None, "corpus": None}}} for step in (0, 1, 2)
    ]
    assert compute_mdp(rows, rows, "mail")["mean"] == {
        "mdp_percent": [],
        "mean": None,
        "final": None,
        "delta": None,
    }


def test_unknown_text_sets_are_refused() -> None:
    texts = {"mail": TextSet(("a",), ("b",)), "body": TextSet(("a",), ("b",))}
    with pytest.raises(UsageError, match="did you mean mail"):
        Perplexity(use="perplexity", texts=("mial",)).setup(EvalContext(text_sets=texts))
    with pytest.raises(UsageError, match="needs texts"):
        Perplexity(use="perplexity").setup(EvalContext())
