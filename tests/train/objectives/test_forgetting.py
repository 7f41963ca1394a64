"""Each unlearning loss against its formula; pairs with retained documents; refusals; and the quirks of the published code."""

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
from sanitize.train import objectives, training_run
from sanitize.train.batches import BatchPlan
from sanitize.train.objectives.objective import TrainContext
from sanitize.train.recipe import Recipe
from sanitize.train.unlearning_losses import REFUSALS, RefusalObjective, UnlearningObjective, select_listed_documents

CPU = torch.device("cpu")
Prepared = Callable[..., tuple[Any, Any, Any, Any]]


@pytest.fixture
def prepared(corpus: Any, recipe: Any, tmp_path: Path) -> Prepared:
    """An opened objective that forgets four of thirty documents, a live model that is no longer the one it was opened with, that one, and
    what is shown of the first rows. Documents have a prompt, so that answers and prompts are apart."""

    def make(use: str, **settings: Any) -> tuple[Any, Any, Any, Any]:
        data = corpus(question=[f"Which plan is number {at}?" for at in range(30)])
        (tmp_path / "ids.txt").write_text("m1\nm7\nm8\nm29\n")
        made = Recipe.load(
            {
                **recipe(data, data={"layout": "document", "prompt_columns": ["question"], "answers_only": True}),
                "objective": {"use": use, "forget": str(tmp_path / "ids.txt"), **settings},
                "model": {"path": "somewhere"},
            }
        )
        documents = training_run.read_recipe_documents(made, made.data.path)
        tokenizer = training_run.get_tokenizer(made.model_copy(update={"model": made.model.model_copy(update={"path": ""})}), documents)
        sizes = made.model.model_copy(
            update={"path": "", "arch": "gpt2", "width": 16, "heads": 2, "layers": 1, "context": 64, "dropout": 0.0}
        )
        objective: Any = made.build_objective()
        before, context = training_run.build_model(sizes, head="causal", tokenizer=tokenizer, seed=1)
        mask = objective.select_trained_documents(documents.doc_ids)
        rows = training_run.make_rows(documents.filter_rows(mask), made, objective, tokenizer, context)
        others = training_run.make_rows(documents.filter_rows(~mask), made, objective, tokenizer, context)
        live = copy.deepcopy(before)
        objective.setup(
            TrainContext(
                rows=rows, tokenizer=tokenizer, model=live, device=CPU, seed=3, batch_size=8, context_length=context, retain_rows=others
            )
        )
        torch.manual_seed(2)
        with torch.no_grad():
            for one in live.parameters():
                one.add_(0.3 * torch.randn_like(one))
        shown = {
            name: torch.from_numpy(value) for name, value in objective.collate(rows.make_batch(np.arange(4), 0), training=True).items()
        }
        return objective, live, before, shown

    return make


def nlls(model: Any, shown: Any, prefix: str = "") -> list[torch.Tensor]:
    """Minus the log-probabilities of each row's targets, row by row, each row alone and without its padding."""
    found = []
    for ids, mask, labels in zip(*(shown[f"{prefix}{name}"] for name in ("input_ids", "attention_mask", "labels")), strict=True):
        length = int(mask.sum())
        logits = model(input_ids=ids[None, :length]).logits[0].log_softmax(-1)
        at = [place for place in range(length) if labels[place] != -100]
        found.append(-torch.stack([logits[place, labels[place]] for place in at]))
    return found


def total(objective: Any, model: Any, shown: Any) -> torch.Tensor:
    """The total that the trainer minimises."""
    weights = objective.loss_counts({name: value.numpy() for name, value in shown.items()})
    sums = objective.loss_sums(model, shown, training=True)
    assert set(sums) == set(weights)
    found: torch.Tensor = sum(objective.loss_weights().get(name, 1.0) * value / weights[name] for name, value in sums.items())  # type: ignore[assignment]
    return found


def gradient(model: Any, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.parameters()), allow_unused=True) if one is not None])


def test_gradient_ascent(prepared: Prepared) -> None:
    objective, live, _, shown = prepared("ga")
    assert not any(name.startswith("other_") for name in shown), "other documents are not read"
    assert float(total(objective, live, shown)) == pytest.approx(-float(torch.cat(nlls(live, shown)).mean()), rel=1e-5)


def test_gradient_difference(prepared: Prepared) -> None:
    objective, live, _, shown = prepared("gd")
    forgotten, kept = torch.cat(nlls(live, shown)).mean(), torch.cat(nlls(live, shown, "other_")).mean()
    assert float(total(objective, live, shown)) == pytest.approx(float(kept - forgotten), rel=1e-5)


def test_divergence_from_the_frozen_oracle(prepared: Prepared) -> None:
    """KL(oracle || model), the mean over all positions that hold a token; the oracle is the model of setup()."""
    objective, live, before, shown = prepared("kl")
    apart = []
    for ids, mask in zip(shown["other_input_ids"], shown["other_attention_mask"], strict=True):
        length = int(mask.sum())
        p0, p = (model(input_ids=ids[None, :length]).logits[0].softmax(-1) for model in (before, live))
        apart.append((p0 * (p0.log() - p.log())).sum(-1))
    expected = torch.cat(apart).mean() - torch.cat(nlls(live, shown)).mean()
    assert float(torch.cat(apart).mean()) > 0.1
    assert float(total(objective, live, shown)) == pytest.approx(float(expected), rel=1e-4)
    held = torch.cat([one.flatten() for one in objective._reference_model.parameters()])
    assert torch.equal(held, torch.cat([one.flatten() for one in before.parameters()])) and not objective._reference_model.training


def test_the_published_divergence_is_none(prepared: Prepared) -> None:
    """Both sides live: the term is 0, its gradient too, and what remains is gradient ascent."""
    quirk, live, _, shown = prepared("kl", quirk="dp2u")
    right, _, _, _ = prepared("kl")
    ascent, _, _, _ = prepared("ga")
    ours, theirs = (gradient(live, total(one, live, shown)) for one in (quirk, ascent))
    assert float(quirk.loss_sums(live, shown, training=True)["kl"]) == pytest.approx(0, abs=1e-5)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5
    assert float((gradient(live, total(right, live, shown)) - theirs).norm() / theirs.norm()) > 0.05


def test_refusals_and_other_documents_in_one_mean(prepared: Prepared) -> None:
    objective, live, _, shown = prepared("idk")
    both = torch.cat(nlls(live, shown, "refused_") + nlls(live, shown, "other_")).mean()
    assert float(total(objective, live, shown)) == pytest.approx(float(both), rel=1e-5)


def test_direct_preference(prepared: Prepared) -> None:
    objective, live, before, shown = prepared("dpo")
    assert not any(name.startswith("other_") for name in shown)

    def preferred(model: Any) -> torch.Tensor:
        refused, answered = ([-one.sum() for one in nlls(model, shown, prefix)] for prefix in ("refused_", ""))
        return torch.stack(refused) - torch.stack(answered)

    margin = 0.1 * (preferred(live) - preferred(before))
    expected = torch.log1p(torch.exp(-margin)).mean()
    assert abs(float(expected) - math.log(2)) > 0.05, "the live model is another one"
    assert float(total(objective, live, shown)) == pytest.approx(float(expected), rel=1e-4)
    # a step down makes refusals likelier against answers
    before_step = float(preferred(live).mean())
    grads = torch.autograd.grad(total(objective, live, shown), list(live.parameters()), allow_unused=True)
    with torch.no_grad():
        for one, step in zip(live.parameters(), grads, strict=True):
            one.sub_(1e-3 * (step if step is not None else torch.zeros_like(one)))
    assert float(preferred(live).mean()) > before_step


def test_the_published_preference_has_its_sign_turned(prepared: Prepared) -> None:
    objective, live, _, shown = prepared("dpo", quirk="dp2u")
    refused, other = (torch.stack([one.sum() for one in nlls(live, shown, prefix)]) for prefix in ("refused_", "other_"))
    expected = torch.log1p(torch.exp(-0.1 * (refused - other))).mean()
    assert float(total(objective, live, shown)) == pytest.approx(float(expected), rel=1e-4)
    slope = torch.autograd.grad(total(objective, live, shown), list(live.parameters()), allow_unused=True)
    with torch.no_grad():
        for one, step in zip(live.parameters(), slope, strict=True):
            one.sub_(1e-3 * (step if step is not None else torch.zeros_like(one)))
    after = torch.stack([one.sum() for one in nlls(live, shown, "refused_")])
    assert float(after.mean()) > float(refused.mean()), "refusals become less likely"


def test_a_refusal_stands_where_the_answer_was(prepared: Prepared) -> None:
    objective, _, _, shown = prepared("idk")
    ends = [list(ids) for ids in objective._refusal_token_ids]
    for row in range(4):
        prompt = int((shown["labels"][row] != -100).nonzero()[0]) + 1  # the first target is one to the right
        ids = shown["refused_input_ids"][row][: int(shown["refused_attention_mask"][row].sum())].tolist()
        assert ids[:prompt] == shown["input_ids"][row][:prompt].tolist(), "the prompt stays"
        assert ids[prompt:] in [one[: 64 - prompt] for one in ends]
        labels = shown["refused_labels"][row]
        assert labels[labels != -100].tolist() == ids[prompt:], "all of the refusal is asked for, and nothing else"
        assert labels[prompt - 1 : len(ids) - 1].tolist() == ids[prompt:], "one to the left, as for causal"
    assert len(set(REFUSALS)) == len(REFUSALS) >= 20


def test_each_row_has_another_document_beside_it(prepared: Prepared) -> None:
    """Drawn in each epoch, uniformly from the retained documents, and never one that is to be forgotten."""
    objective, _, _, _ = prepared("gd")
    assert sorted(set(objective._retain_rows.doc_ids.to_pylist()) & {"m1", "m7", "m8", "m29"}) == []
    assert len(objective._retain_rows.doc_ids) == 26
    drawn = np.concatenate([objective.draw_retain_rows(np.arange(4), epoch) for epoch in range(3000)])
    counts = np.bincount(drawn, minlength=26)
    assert len(counts) == len(objective._retain_rows) == 26 and counts.min() > 380 and counts.max() < 550
    assert objective.draw_retain_rows(np.arange(4), 0).tolist() != objective.draw_retain_rows(np.arange(4), 1).tolist()
    plan = BatchPlan(row_count=4, batch_size=3, seed=0, epochs=2)
    first = objective.compute_retain_first_steps(plan)
    for step in range(plan.step_count):
        for partner in objective.draw_retain_rows(plan.get_step_rows(step), plan.epoch_of_step(step)).tolist():
            assert first[partner] <= step + 1


def test_a_validation_loss_is_the_plain_one(prepared: Prepared) -> None:
    for use in ("gd", "kl", "idk", "dpo"):
        objective, live, _, _ = prepared(use)
        plain = objectives.load_objective({"use": "causal"}, "test")
        batch = objective._retain_rows.make_batch(np.arange(3), 0)
        shown = objective.collate(batch, training=False)
        moved = {name: torch.from_numpy(value) for name, value in shown.items()}
        assert objective.loss_counts(shown) == plain.loss_counts(shown)
        ours, theirs = (float(one.loss_sums(live, moved, training=False)["loss"]) for one in (objective, plain))
        assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "error", "word"),
    [
        ("m1\nnobody@example.com\n\nm3", UsageError, r"line 2 names a document that the data does not have \(1 of 3"),
        ("\n\n", UsageError, "names no document"),
        (None, InputRefused, "cannot be read"),
    ],
)
def test_lists_of_ids(tmp_path: Path, text: str | None, error: type[Exception], word: str) -> None:
    if text is not None:
        (tmp_path / "ids.txt").write_text(text)
    with pytest.raises(error, match=word) as caught:
        select_listed_documents(pa.array(["m1", "m2", "m3"], pa.large_string()), tmp_path / "ids.txt")
    assert "nobody@" not in str(caught.value)


def test_a_list_of_windows_and_twice_the_same(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_bytes(b"m3\r\nm1\r\nm3\r\n")
    assert select_listed_documents(pa.array(["m1", "m2", "m3"]), tmp_path / "ids.txt").tolist() == [True, False, True]


def test_nothing_to_keep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("m1\nm2\n")
    objective: Any = objectives.load_objective({"use": "ga", "forget": str(tmp_path / "ids.txt")}, "test")
    with pytest.raises(UsageError, match="none is left to keep"):
        objective.select_trained_documents(pa.array(["m1", "m2"]))
    objective = objectives.load_objective({"use": "ga"}, "test")
    with pytest.raises(UsageError, match="needs objective.forget"):
        objective.select_trained_documents(pa.array(["m1", "m2"]))


def test_a_model_of_sizes_has_nothing_to_forget() -> None:
    with pytest.raises(UsageError, match="ga needs model.path"):
        Recipe.load({"model": {"arch": "gpt2"}, "objective": {"use": "ga"}})
    with pytest.raises(UsageError, match="rows of one document"):
        Recipe.load({"model": {"path": "x"}, "objective": {"use": "ga"}})
    privacy = {"model": {"path": "x"}, "objective": {"use": "gd"}, "data": {"layout": "document"}, "privacy": {"sigma": 1.0}}
    with pytest.raises(UsageError, match="combines rows"):
        Recipe.load(privacy)
    with pytest.raises(UsageError, match="need their own loop"):
        train.stream_batches({**privacy, "data": {"layout": "document", "path": __file__}, "objective": {"use": "causal"}})
    assert issubclass(RefusalObjective, UnlearningObjective)
