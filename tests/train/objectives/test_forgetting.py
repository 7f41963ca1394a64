"""Each unlearning loss against its formula; pairs with retained documents; refusals; and deviations
of the published code."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from sanitize import train
from sanitize.errors import InputRefused, UsageError
from sanitize.train import objectives, recipe_data
from sanitize.train.batches import BatchPlan
from sanitize.train.model import build_model
from sanitize.train.objectives.objective import TrainContext
from sanitize.train.recipe import Recipe
from sanitize.train.unlearning_losses import (
    REFUSALS,
    RefusalObjective,
    UnlearningObjective,
    select_listed_documents,
)

CPU = torch.device("cpu")
PrepareObjective = Callable[..., tuple[Any, Any, Any, Any]]


@pytest.fixture
def prepare_objective(corpus: Any, recipe: Any, tmp_path: Path) -> PrepareObjective:
    """An objective after setup() that forgets four of thirty documents, a live model with changed
    weights, the original model, and the collated first rows. Documents have a prompt, so that
    answers and prompts differ."""

    def make(use: str, **settings: Any) -> tuple[Any, Any, Any, Any]:
        data = corpus(question=[f"Which plan is number {number}?" for number in range(30)])
        (tmp_path / "ids.txt").write_text("m1\nm7\nm8\nm29\n")
        parsed_recipe = Recipe.load(
            {
                **recipe(
                    data,
                    data={
                        "layout": "document",
                        "prompt_columns": ["question"],
                        "answers_only": True,
                    },
                ),
                "objective": {"use": use, "forget": str(tmp_path / "ids.txt"), **settings},
                "model": {"path": "somewhere"},
            }
        )
        documents = recipe_data.read_recipe_documents(parsed_recipe, parsed_recipe.data.path)
        tokenizer = recipe_data.get_tokenizer(
            parsed_recipe.model_copy(
                update={"model": parsed_recipe.model.model_copy(update={"path": ""})}
            ),
            documents,
        )
        sizes = parsed_recipe.model.model_copy(
            update={
                "path": "",
                "arch": "gpt2",
                "width": 16,
                "heads": 2,
                "layers": 1,
                "context": 64,
                "dropout": 0.0,
            }
        )
        objective: Any = parsed_recipe.build_objective()
        before, context = build_model(sizes, head="causal", tokenizer=tokenizer, seed=1)
        mask = objective.select_trained_documents(documents.doc_ids)
        rows = recipe_data.make_rows(
            documents.filter_rows(mask), parsed_recipe, objective, tokenizer, context
        )
        retain_rows = recipe_data.make_rows(
            documents.filter_rows(~mask), parsed_recipe, objective, tokenizer, context
        )
        live = copy.deepcopy(before)
        objective.setup(
            TrainContext(
                rows=rows,
                tokenizer=tokenizer,
                model=live,
                device=CPU,
                seed=3,
                batch_size=8,
                context_length=context,
                retain_rows=retain_rows,
            )
        )
        torch.manual_seed(2)
        with torch.no_grad():
            for parameter in live.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        collated = {
            name: torch.from_numpy(value)
            for name, value in objective.collate(
                rows.make_batch(np.arange(4), 0), training=True
            ).items()
        }
        return objective, live, before, collated

    return make


def compute_nlls(model: Any, collated: Any, prefix: str = "") -> list[torch.Tensor]:
    """Minus the log-probabilities of each row's targets, row by row, each row in its own forward
    pass and without padding."""
    losses = []
    for ids, mask, labels in zip(
        *(collated[f"{prefix}{name}"] for name in ("input_ids", "attention_mask", "labels")),
        strict=True,
    ):
        length = int(mask.sum())
        logits = model(input_ids=ids[None, :length]).logits[0].log_softmax(-1)
        positions = [position for position in range(length) if labels[position] != -100]
        losses.append(-torch.stack([logits[position, labels[position]] for position in positions]))
    return losses


def compute_total(objective: Any, model: Any, collated: Any) -> torch.Tensor:
    """The total that the trainer minimises."""
    weights = objective.loss_counts({name: value.numpy() for name, value in collated.items()})
    sums = objective.loss_sums(model, collated, training=True)
    assert set(sums) == set(weights)
    result: torch.Tensor = sum(
        objective.loss_weights().get(name, 1.0) * value / weights[name]
        for name, value in sums.items()
    )  # type: ignore[assignment]
    return result


def compute_gradient(model: Any, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat(
        [
            part.flatten()
            for part in torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
            if part is not None
        ]
    )


def test_gradient_ascent(prepare_objective: PrepareObjective) -> None:
    objective, live, _, collated = prepare_objective("ga")
    assert not any(name.startswith("other_") for name in collated), "other documents are not read"
    assert float(compute_total(objective, live, collated)) == pytest.approx(
        -float(torch.cat(compute_nlls(live, collated)).mean()), rel=1e-5
    )


def test_gradient_difference(prepare_objective: PrepareObjective) -> None:
    objective, live, _, collated = prepare_objective("gd")
    forgotten, kept = (
        torch.cat(compute_nlls(live, collated)).mean(),
        torch.cat(compute_nlls(live, collated, "other_")).mean(),
    )
    assert float(compute_total(objective, live, collated)) == pytest.approx(
        float(kept - forgotten), rel=1e-5
    )


def test_divergence_from_the_frozen_oracle(prepare_objective: PrepareObjective) -> None:
    """KL(oracle || model), the mean over all positions that hold a token; the oracle is the model
    of setup()."""
    objective, live, before, collated = prepare_objective("kl")
    divergences = []
    for ids, mask in zip(
        collated["other_input_ids"], collated["other_attention_mask"], strict=True
    ):
        length = int(mask.sum())
        p0, p = (
            model(input_ids=ids[None, :length]).logits[0].softmax(-1) for model in (before, live)
        )
        divergences.append((p0 * (p0.log() - p.log())).sum(-1))
    expected = torch.cat(divergences).mean() - torch.cat(compute_nlls(live, collated)).mean()
    assert float(torch.cat(divergences).mean()) > 0.1
    assert float(compute_total(objective, live, collated)) == pytest.approx(
        float(expected), rel=1e-4
    )
    oracle_weights = torch.cat(
        [parameter.flatten() for parameter in objective._reference_model.parameters()]
    )
    assert (
        torch.equal(
            oracle_weights, torch.cat([parameter.flatten() for parameter in before.parameters()])
        )
        and not objective._reference_model.training
    )


def test_the_published_divergence_is_zero(prepare_objective: PrepareObjective) -> None:
    """Both sides use the live model: the term is 0, its gradient too, and what remains is gradient
    ascent."""
    quirk_objective, live, _, collated = prepare_objective("kl", quirk="dp2u")
    corrected, _, _, _ = prepare_objective("kl")
    gradient_ascent, _, _, _ = prepare_objective("ga")
    quirk_gradient, ascent_gradient = (
        compute_gradient(live, compute_total(objective, live, collated))
        for objective in (quirk_objective, gradient_ascent)
    )
    assert float(quirk_objective.loss_sums(live, collated, training=True)["kl"]) == pytest.approx(
        0, abs=1e-5
    )
    assert float((quirk_gradient - ascent_gradient).norm() / ascent_gradient.norm()) < 1e-5
    assert (
        float(
            (
                compute_gradient(live, compute_total(corrected, live, collated)) - ascent_gradient
            ).norm()
            / ascent_gradient.norm()
        )
        > 0.05
    )


def test_refusals_and_other_documents_in_one_mean(prepare_objective: PrepareObjective) -> None:
    objective, live, _, collated = prepare_objective("idk")
    expected = torch.cat(
        compute_nlls(live, collated, "refused_") + compute_nlls(live, collated, "other_")
    ).mean()
    assert float(compute_total(objective, live, collated)) == pytest.approx(
        float(expected), rel=1e-5
    )


def test_direct_preference(prepare_objective: PrepareObjective) -> None:
    objective, live, before, collated = prepare_objective("dpo")
    assert not any(name.startswith("other_") for name in collated)

    def compute_preference(model: Any) -> torch.Tensor:
        refused, answered = (
            [-losses.sum() for losses in compute_nlls(model, collated, prefix)]
            for prefix in ("refused_", "")
        )
        return torch.stack(refused) - torch.stack(answered)

    margin = 0.1 * (compute_preference(live) - compute_preference(before))
    expected = torch.log1p(torch.exp(-margin)).mean()
    assert abs(float(expected) - math.log(2)) > 0.05, "the live model differs from the oracle"
    assert float(compute_total(objective, live, collated)) == pytest.approx(
        float(expected), rel=1e-4
    )
    # a gradient step makes refusals more likely than answers
    before_step = float(compute_preference(live).mean())
    grads = torch.autograd.grad(
        compute_total(objective, live, collated), list(live.parameters()), allow_unused=True
    )
    with torch.no_grad():
        for parameter, step in zip(live.parameters(), grads, strict=True):
            parameter.sub_(1e-3 * (step if step is not None else torch.zeros_like(parameter)))
    assert float(compute_preference(live).mean()) > before_step


def test_negative_preference(prepare_objective: PrepareObjective) -> None:
    """The formula; retained documents with their weight; and a gradient that is the one of gradient
    ascent on sequences as long as the model is the reference, and less when answers are unlikely.
    """
    objective, live, before, collated = prepare_objective("npo", retain=0.5)

    def compute_ratio(model: Any) -> torch.Tensor:
        live_nlls, reference_nlls = (
            torch.stack([losses.sum() for losses in compute_nlls(one, collated)])
            for one in (model, before)
        )
        return reference_nlls - live_nlls  # log p(answer) / p0(answer)

    ratio = compute_ratio(live)
    preference = (2 / 0.1) * torch.log1p(torch.exp(0.1 * ratio)).mean()
    kept = torch.cat(compute_nlls(live, collated, "other_")).mean()
    assert abs(float(preference) - 20 * math.log(2)) > 0.5, "the live model differs from p0"
    assert float(compute_total(objective, live, collated)) == pytest.approx(
        float(preference + 0.5 * kept), rel=1e-4
    )
    weights = 2 * torch.sigmoid(0.1 * ratio).detach()
    alone, _, _, _ = prepare_objective("npo", retain=0)
    expected = compute_gradient(live, (weights * compute_ratio(live)).mean())
    found = compute_gradient(live, compute_total(alone, live, collated))
    assert float((found - expected).norm() / expected.norm()) < 1e-3
    assert float(weights.min()) < 0.9, "less than gradient ascent where an answer is unlikely"


def test_the_published_preference_has_the_opposite_sign(
    prepare_objective: PrepareObjective,
) -> None:
    objective, live, _, collated = prepare_objective("dpo", quirk="dp2u")
    refused, retained = (
        torch.stack([losses.sum() for losses in compute_nlls(live, collated, prefix)])
        for prefix in ("refused_", "other_")
    )
    expected = torch.log1p(torch.exp(-0.1 * (refused - retained))).mean()
    assert float(compute_total(objective, live, collated)) == pytest.approx(
        float(expected), rel=1e-4
    )
    slope = torch.autograd.grad(
        compute_total(objective, live, collated), list(live.parameters()), allow_unused=True
    )
    with torch.no_grad():
        for parameter, step in zip(live.parameters(), slope, strict=True):
            parameter.sub_(1e-3 * (step if step is not None else torch.zeros_like(parameter)))
    after = torch.stack([losses.sum() for losses in compute_nlls(live, collated, "refused_")])
    assert float(after.mean()) > float(refused.mean()), "refusals become less likely"


def test_a_refusal_replaces_the_answer(prepare_objective: PrepareObjective) -> None:
    objective, _, _, collated = prepare_objective("idk")
    refusals = [list(ids) for ids in objective._refusal_token_ids]
    for row in range(4):
        # the first target is one to the right
        prompt = int((collated["labels"][row] != -100).nonzero()[0]) + 1
        ids = collated["refused_input_ids"][row][
            : int(collated["refused_attention_mask"][row].sum())
        ].tolist()
        assert ids[:prompt] == collated["input_ids"][row][:prompt].tolist(), "the prompt is kept"
        assert ids[prompt:] in [refusal[: 64 - prompt] for refusal in refusals]
        labels = collated["refused_labels"][row]
        assert labels[labels != -100].tolist() == ids[prompt:], (
            "the targets are exactly the refusal"
        )
        assert labels[prompt - 1 : len(ids) - 1].tolist() == ids[prompt:], (
            "one to the left, as for causal"
        )
    assert len(set(REFUSALS)) == len(REFUSALS) >= 20


def test_each_row_is_paired_with_a_retained_document(prepare_objective: PrepareObjective) -> None:
    """Drawn in each epoch, uniformly from the retained documents, and never one that is to be
    forgotten."""
    objective, _, _, _ = prepare_objective("gd")
    assert sorted(set(objective._retain_rows.doc_ids.to_pylist()) & {"m1", "m7", "m8", "m29"}) == []
    assert len(objective._retain_rows.doc_ids) == 26
    row_numbers = np.concatenate(
        [objective.draw_retain_rows(np.arange(4), epoch) for epoch in range(3000)]
    )
    counts = np.bincount(row_numbers, minlength=26)
    assert (
        len(counts) == len(objective._retain_rows) == 26
        and counts.min() > 380
        and counts.max() < 550
    )
    assert (
        objective.draw_retain_rows(np.arange(4), 0).tolist()
        != objective.draw_retain_rows(np.arange(4), 1).tolist()
    )
    plan = BatchPlan(row_count=4, batch_size=3, seed=0, epochs=2)
    first_steps = objective.compute_retain_first_steps(plan)
    for step in range(plan.step_count):
        for partner in objective.draw_retain_rows(
            plan.get_step_rows(step), plan.epoch_of_step(step)
        ).tolist():
            assert first_steps[partner] <= step + 1


def test_the_validation_loss_is_the_causal_loss(prepare_objective: PrepareObjective) -> None:
    for use in ("gd", "kl", "idk", "dpo", "npo"):
        objective, live, _, _ = prepare_objective(use)
        plain = objectives.load_objective({"use": "causal"}, "test")
        batch = objective._retain_rows.make_batch(np.arange(3), 0)
        collated = objective.collate(batch, training=False)
        tensors = {name: torch.from_numpy(value) for name, value in collated.items()}
        assert objective.loss_counts(collated) == plain.loss_counts(collated)
        loss, expected = (
            float(causal.loss_sums(live, tensors, training=False)["loss"])
            for causal in (objective, plain)
        )
        assert loss == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "m1\nnobody@example.com\n\nm3",
            UsageError,
            r"line 2 names a document that the data does not have \(1 of 3",
        ),
        ("\n\n", UsageError, "names no document"),
        (None, InputRefused, "cannot be read"),
    ],
)
def test_invalid_lists_of_ids_are_refused(
    tmp_path: Path, text: str | None, error: type[Exception], message: str
) -> None:
    if text is not None:
        (tmp_path / "ids.txt").write_text(text)
    with pytest.raises(error, match=message) as caught:
        select_listed_documents(
            pa.array(["m1", "m2", "m3"], pa.large_string()), tmp_path / "ids.txt"
        )
    assert "nobody@" not in str(caught.value)


def test_lists_may_have_carriage_returns_and_repeated_ids(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_bytes(b"m3\r\nm1\r\nm3\r\n")
    assert select_listed_documents(pa.array(["m1", "m2", "m3"]), tmp_path / "ids.txt").tolist() == [
        True,
        False,
        True,
    ]


def test_lists_of_all_documents_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("m1\nm2\n")
    objective: Any = objectives.load_objective(
        {"use": "ga", "forget": str(tmp_path / "ids.txt")}, "test"
    )
    with pytest.raises(UsageError, match="none is left to keep"):
        objective.select_trained_documents(pa.array(["m1", "m2"]))
    objective = objectives.load_objective({"use": "ga"}, "test")
    with pytest.raises(UsageError, match="needs objective.forget"):
        objective.select_trained_documents(pa.array(["m1", "m2"]))


def test_recipes_that_cannot_forget_are_refused() -> None:
    with pytest.raises(UsageError, match="ga needs model.path"):
        Recipe.load({"model": {"arch": "gpt2"}, "objective": {"use": "ga"}})
    with pytest.raises(UsageError, match="rows of one document"):
        Recipe.load({"model": {"path": "x"}, "objective": {"use": "ga"}})
    privacy = {
        "model": {"path": "x"},
        "objective": {"use": "gd"},
        "data": {"layout": "document"},
        "privacy": {"sigma": 1.0},
    }
    with pytest.raises(UsageError, match="combines rows"):
        Recipe.load(privacy)
    with pytest.raises(UsageError, match="need their own loop"):
        train.stream_batches(
            {
                **privacy,
                "data": {"layout": "document", "path": __file__},
                "objective": {"use": "causal"},
            }
        )
    assert issubclass(RefusalObjective, UnlearningObjective)
