"""Perplexities are those of losses one by one; MDP is the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eval.language_model import Model
from eval.metric import Ground
from eval.metrics.perplexity import Perplexity, deltas, perplexities
from eval.probe_inputs import Texts
from sanitize.errors import UsageError


def test_perplexity_is_that_of_one_text_at_a_time(gpt2: Any, tokenizer: Any) -> None:
    import torch

    model, texts = Model.of(gpt2, tokenizer), ["Dear Ann", "", "a longer text, of more tokens than the others"]
    losses = []
    for text in texts:
        ids = torch.tensor([[0, *tokenizer(text)["input_ids"]]])
        if ids.shape[1] > 1:
            losses.append(torch.nn.functional.cross_entropy(gpt2(ids).logits[0, :-1], ids[0, 1:], reduction="none").double())
    told = perplexities(model, texts, batch=2)
    assert told["texts"] == 2 and told["tokens"] == sum(map(len, losses))
    assert told["mean"] == pytest.approx(np.mean([float(one.mean().exp()) for one in losses]), rel=1e-4)
    assert told["corpus"] == pytest.approx(float(torch.cat(losses).mean().exp()), rel=1e-4)
    assert perplexities(model, [""]) == {"mean": None, "corpus": None, "texts": 0, "tokens": 0}


def row(step: int, mean: float, corpus: float) -> dict[str, Any]:
    return {"step": step, "perplexity": {"mail": {"mean": mean, "corpus": corpus}}}


def test_what_it_costs() -> None:
    told = deltas([row(0, 99, 99), row(2, 10, 4), row(4, 8, 4)], [row(0, 98, 98), row(1, 11, 5), row(2, 10, 3)], "mail")
    assert told["mean"]["mdp_percent"] == pytest.approx([10, 25]) and told["mean"]["mean"] == pytest.approx(17.5)
    assert told["mean"]["final"] == pytest.approx(25) and told["mean"]["delta"] == pytest.approx(1.5)
    assert told["corpus"]["mdp_percent"] == pytest.approx([25, -25])
    paper = deltas([row(1, 6.432, 1)], [row(1, 6.798, 1)], "mail")
    assert paper["mean"]["final"] == pytest.approx(5.69, abs=0.005)


def test_sets_are_named() -> None:
    texts = {"mail": Texts(("a",), ("b",)), "body": Texts(("a",), ("b",))}
    with pytest.raises(UsageError, match="Did you mean mail"):
        Perplexity(use="perplexity", texts=("mial",)).open(Ground(texts=texts))
    with pytest.raises(UsageError, match="needs texts"):
        Perplexity(use="perplexity").open(Ground())
