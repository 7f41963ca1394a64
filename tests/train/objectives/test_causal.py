"""Causal objectives: all targets, most of them (goldfish), or all with a penalty on memorised
n-grams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sanitize import train
from sanitize.train import objectives
from sanitize.train.batches import TokenBatch, TokenRows, pack_rows
from sanitize.train.model import build_model, train_tokenizer
from sanitize.train.objectives.goldfish import TABLE_SIZE, Goldfish, _hash_table
from sanitize.train.objectives.ngram_penalty import NgramPenalty
from sanitize.train.objectives.objective import IGNORE_INDEX, Objective, TrainContext
from sanitize.train.recipe import ModelSettings
from sanitize.train.tokenization import TokenizedDocuments

torch.set_num_threads(1)
GOLDEN_TABLE = [0.2336839, 0.441264, 0.7411477]
GOLDEN_DROPPED = [3, 7, 12, 18, 20, 23, 26, 27, 29, 36, 37, 39]
TEXTS = ["Dear Ada, plan 3 is ready.", "Dear Eve, plan 4 is ready. Yours, Ada Stokes", "no"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TEXTS, vocab_size=300, context_length=32)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    """Large random weights, so that probabilities are far from uniform."""
    network, _ = build_model(
        ModelSettings(arch="gpt2", layers=2, width=32, heads=2, context=32, dropout=0.0),
        head="causal",
        tokenizer=tokenizer,
        seed=1,
    )
    with torch.no_grad():
        network.get_input_embeddings().weight.mul_(20)
    return network


def make_rows(
    ids: list[list[int]], context: int = 32, keep: list[list[bool]] | None = None
) -> TokenRows:
    flat = np.array([value for row in ids for value in row], np.int32)
    loss_mask = None if keep is None else np.array([value for row in keep for value in row], bool)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in ids])]).astype(np.int64)
    names = pa.array([str(number) for number in range(len(ids))], pa.large_string())
    tokens = TokenizedDocuments(
        token_ids=flat,
        offsets=offsets,
        loss_mask=loss_mask,
        word_ids=None,
        is_maskable=None,
        doc_ids=names,
    )
    return pack_rows(tokens, layout="document", context_length=context, seed=0, pad_id=1)


def make_batch(rows: TokenRows) -> TokenBatch:
    return rows.make_batch(np.arange(len(rows)), 0)


def load_objective(**settings: Any) -> Any:
    return objectives.load_objective(settings, "recipe: objective")


def set_up_objective(
    objective: Objective, rows: TokenRows, model: Any, tokenizer: Any
) -> Objective:
    objective.setup(
        TrainContext(
            rows=rows,
            tokenizer=tokenizer,
            model=model,
            device=torch.device("cpu"),
            seed=0,
            batch_size=2,
        )
    )
    return objective


def to_tensors(collated: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(value) for name, value in collated.items()}


def test_labels_are_the_next_tokens() -> None:
    rows = make_rows([[5, 6, 7, 8], [9, 10]], keep=[[True, True, False, True], [False, True]])
    collated = load_objective(use="causal").collate(make_batch(rows), training=True)
    assert collated["labels"].tolist() == [
        [6, IGNORE_INDEX, 8, IGNORE_INDEX],
        [10, IGNORE_INDEX, IGNORE_INDEX, IGNORE_INDEX],
    ]
    assert collated["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]


def test_the_loss_equals_that_of_hugging_face(model: Any, tokenizer: Any) -> None:
    rows = make_rows([tokenizer(text)["input_ids"] for text in TEXTS])
    objective, batch = load_objective(use="causal"), make_batch(rows)
    collated = objective.collate(batch, training=True)
    mean = (
        objective.loss_sums(model, to_tensors(collated), training=True)["loss"]
        / objective.loss_counts(collated)["loss"]
    )
    labels = torch.from_numpy(
        np.where(batch.attention_mask, batch.token_ids, -100).astype(np.int64)
    )
    expected = model(
        input_ids=to_tensors(collated)["input_ids"],
        attention_mask=to_tensors(collated)["attention_mask"],
        labels=labels,
    ).loss
    assert torch.allclose(mean, expected, rtol=1e-6)


IDS = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=40), min_size=1, max_size=4)


@given(
    IDS, st.integers(2, 5), st.integers(1, 5), st.sampled_from(["mixed", "compat"]), st.booleans()
)
def test_the_goldfish_rule_equals_the_reference(
    ids: list[list[int]], k: int, h: int, rule: str, including: bool
) -> None:
    objective = load_objective(use="goldfish", k=k, h=h, hash=rule, includes_target=including)
    dropped_rows = objective.find_dropped_targets(
        np.array([row + [0] * (40 - len(row)) for row in ids], np.int32)
    )
    for row, dropped in zip(ids, dropped_rows, strict=True):
        padded = row + [0] * (40 - len(row))
        for position in range(40):
            window = (
                padded[position - h + 1 : position + 1]
                if including
                else padded[position - h : position]
            )
            if len(window) < h or (not including and position < h):
                assert not dropped[position]
            elif rule == "compat":
                assert dropped[position] == (
                    _hash_table()[int(np.prod(np.array(window, np.int64))) % TABLE_SIZE] < 1 / k
                )


def test_goldfish_drops_one_in_k_and_the_same_in_every_copy() -> None:
    draw = np.random.default_rng(1).integers(0, 1000, (20, 500)).astype(np.int32)
    for k in (2, 4, 8):
        share = load_objective(use="goldfish", k=k).find_dropped_targets(draw)[:, 3:].mean()
        assert abs(share - 1 / k) < 0.01
    objective = load_objective(use="goldfish")
    passage = draw[0, :50]
    early = np.concatenate([draw[1, :20], passage, draw[2, :30]])[None]
    late = np.concatenate([draw[3, :47], passage])[None]
    assert (
        objective.find_dropped_targets(early)[0, 23:70]
        == objective.find_dropped_targets(late)[0, 50:97]
    ).all()
    assert objective.find_dropped_targets(early)[0, 23:70].any()


def test_goldfish_golden() -> None:
    """Frozen values of the published hash table and of our hash: a change alters the results of
    every run."""
    assert np.allclose(_hash_table()[:3], GOLDEN_TABLE, atol=1e-7)
    assert (
        np.flatnonzero(
            Goldfish(use="goldfish").find_dropped_targets(np.arange(40, dtype=np.int32)[None])[0]
        ).tolist()
        == GOLDEN_DROPPED
    )


def test_compat_hash_overflows_like_torch() -> None:
    ids = np.random.default_rng(2).integers(30_000, 50_000, (3, 40)).astype(np.int32)
    objective = load_objective(use="goldfish", h=13, hash="compat")
    windows = torch.from_numpy(ids.astype(np.int64)).unfold(1, 13, 1)
    # the expression of the published code
    expected = torch.from_numpy(_hash_table())[windows.prod(dim=-1) % TABLE_SIZE] < 1 / 4
    assert (objective.find_dropped_targets(ids)[:, 12:] == expected.numpy()).all()


def test_goldfish_masks_training_and_not_validation() -> None:
    rows = make_rows([list(range(5, 35))])
    objective = load_objective(use="goldfish", k=2)
    training, validation = (
        objective.collate(make_batch(rows), training=is_training)["labels"]
        for is_training in (True, False)
    )
    dropped = objective.find_dropped_targets(make_batch(rows).token_ids)
    assert ((training[:, :-1] == IGNORE_INDEX) == dropped[:, 1:]).all()
    assert (validation[:, :-1] != IGNORE_INDEX).all()


@pytest.mark.parametrize("use", ["causal", "goldfish", "ngram_penalty"])
def test_rows_without_targets_have_zero_loss(model: Any, tokenizer: Any, use: str) -> None:
    rows = make_rows([[5, 6, 7, 8, 9, 10, 11]], keep=[[False] * 7])
    objective = set_up_objective(load_objective(use=use), rows, model, tokenizer)
    collated = objective.collate(make_batch(rows), training=True)
    assert set(objective.loss_counts(collated).values()) == {0.0}
    model.zero_grad()
    for value in objective.loss_sums(model, to_tensors(collated), training=True).values():
        assert value.item() == 0
        if value.requires_grad:
            value.backward(retain_graph=True)
    assert all(
        parameter.grad is None or not parameter.grad.any() for parameter in model.parameters()
    )


def brute_force_penalty(
    log_probs: torch.Tensor,
    reference_log_probs: torch.Tensor,
    is_target: torch.Tensor,
    sizes: tuple[int, ...],
    tau: float,
) -> tuple[torch.Tensor, int]:
    """Window by window, product by product."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row in range(log_probs.shape[0]):
        for size in sizes:
            for first in range(log_probs.shape[1] - size + 1):
                if is_target[row, first : first + size].all():
                    p = log_probs[row, first : first + size].double().exp().prod()
                    p0 = reference_log_probs[row, first : first + size].double().exp().prod()
                    total = total + torch.clamp(p - p0 - tau, min=0) ** 2
                    count += 1
    return total, count


@given(st.integers(1, 3), st.integers(1, 12), st.floats(0, 0.5), st.integers(0, 10_000))
def test_the_penalty_equals_brute_force(rows: int, length: int, tau: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.log(torch.rand(rows, length, generator=generator) ** 0.2).requires_grad_()
    reference_log_probs = torch.log(torch.rand(rows, length, generator=generator))
    is_target = torch.rand(rows, length, generator=generator) > 0.1
    objective: NgramPenalty = load_objective(use="ngram_penalty", sizes=[2, 4], tau=tau)
    penalty, (expected, count) = (
        objective.sum_squared_excess(log_probs, reference_log_probs, is_target),
        brute_force_penalty(log_probs, reference_log_probs, is_target, (2, 4), tau),
    )
    assert torch.allclose(penalty, expected, rtol=1e-9, atol=1e-12)
    labels = np.where(is_target.numpy(), 7, IGNORE_INDEX)
    assert objective.loss_counts({"labels": labels, "reference": labels})["penalty"] == count
    if expected.requires_grad and penalty.requires_grad:
        (gradient,), (expected_gradient,) = (
            torch.autograd.grad(penalty, log_probs, allow_unused=True),
            torch.autograd.grad(expected, log_probs, allow_unused=True),
        )
        assert expected_gradient is None or torch.allclose(
            gradient, expected_gradient, rtol=1e-5, atol=1e-9
        )


def test_no_gradient_below_p0_and_tau() -> None:
    objective: NgramPenalty = load_objective(use="ngram_penalty", sizes=[4], tau=0.1)
    reference_log_probs = torch.log(torch.full((1, 8), 0.8))
    is_target = torch.ones(1, 8, dtype=torch.bool)
    just_below = torch.log(torch.full((1, 8), (0.8**4 + 0.0999) ** 0.25)).requires_grad_()
    objective.sum_squared_excess(just_below, reference_log_probs, is_target).backward()
    assert just_below.grad is not None and not just_below.grad.any()
    above = torch.log(torch.full((1, 8), (0.8**4 + 0.1001) ** 0.25)).requires_grad_()
    objective.sum_squared_excess(above, reference_log_probs, is_target).backward()
    assert above.grad is not None and (above.grad > 0).all(), "the penalty pushes such windows down"


def test_the_reference_is_the_model_before_its_first_step(model: Any, tokenizer: Any) -> None:
    rows = make_rows([tokenizer(text)["input_ids"] for text in TEXTS], context=9)
    objective = set_up_objective(
        load_objective(use="ngram_penalty", sizes=[2]), rows, model, tokenizer
    )
    collated = objective.collate(make_batch(rows), training=True)
    inputs = to_tensors(collated)
    with torch.no_grad():
        logits = model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        ).logits
    is_target = collated["labels"] != IGNORE_INDEX
    expected = (
        logits.log_softmax(-1).gather(-1, inputs["labels"].clamp(min=0)[..., None])[..., 0].numpy()
    )
    assert np.allclose(collated["reference"][is_target], expected[is_target], atol=1e-5)
    assert objective.loss_sums(model, inputs, training=True)["penalty"].item() == 0, (
        "no n-gram is likelier than before"
    )
    assert "reference" not in objective.collate(make_batch(rows), training=False)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss_counts_of_the_penalty(reduction: str) -> None:
    objective: NgramPenalty = load_objective(
        use="ngram_penalty", sizes=[2], reduction=reduction, lam=3.0
    )
    labels = np.array([[5, 6, 7, IGNORE_INDEX]])
    weights = objective.loss_counts({"labels": labels, "reference": labels})
    assert weights == {"loss": 3.0, "penalty": 2.0 if reduction == "mean" else 3.0}
    assert objective.loss_weights() == {"penalty": 3.0}


def test_lambda_zero_is_plain_training_bit_for_bit(
    corpus: Any, recipe: Any, tmp_path: Path
) -> None:
    data, weights = corpus(), []
    for name, objective in (
        ("plain", {"use": "causal"}),
        ("zero", {"use": "ngram_penalty", "lam": 0.0}),
    ):
        result = train.fit(recipe(data, objective=objective, run={"epochs": 1}), tmp_path / name)
        weights.append(
            (tmp_path / name / "checkpoints" / result.final / "model.safetensors").read_bytes()
        )
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_the_penalty_reduces_memorisation(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    """Three texts, many times: with the penalty the model is less confident of them."""
    data, validation_losses = corpus(count=3), {}
    for use in ("causal", "ngram_penalty"):
        settings = recipe(
            data,
            objective={"use": use},
            data={"validation": str(data), "layout": "document"},
            model={"dropout": 0.0},
        )
        settings["run"] |= {
            "epochs": 60,
            "checkpoint_every": 60,
            "lr": 1e-2,
            "schedule": "constant",
        }
        result = train.fit(settings, tmp_path / use)
        import json

        validation_losses[use] = json.loads(
            (tmp_path / use / "checkpoints" / result.final / "checkpoint.json").read_text()
        )["validation_loss"]
    assert validation_losses["causal"] < 0.1 < 0.2 < validation_losses["ngram_penalty"]
