"""Recipes: shipped ones are valid, errors are one line, and the hash covers what the weights depend
on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sanitize.errors import UsageError
from sanitize.train import objectives
from sanitize.train.recipe import (
    NEW_MODEL_LR,
    PRETRAINED_LR,
    Recipe,
    TrainingSettings,
    list_recipes,
)
from sanitize.train.trainer import compute_learning_rate
from sanitize.train.unlearning import list_unlearning_objectives


@pytest.mark.parametrize("name", list_recipes())
def test_shipped_recipes(name: str) -> None:
    recipe = Recipe.load(name)
    assert recipe.about.endswith(".") and recipe.name == name
    assert recipe.objective["use"] in objectives.list_objectives()
    assert Recipe.load(recipe.to_dict()) == recipe, "a resolved recipe can be loaded again"


def test_recipes_and_objectives_of_the_papers_exist() -> None:
    assert {
        "rmft",
        "early_detection",
        "goldfish",
        "ngram_penalty",
        "mlm",
        "ppmlm",
        "mlma",
        "classify",
    } <= set(list_recipes())
    assert {"dp_sgd", "dp2unlearning"} <= set(list_recipes())
    learning = ["causal", "classify", "goldfish", "masked", "mlma", "ngram_penalty", "ppmlm"]
    forgetting = ["dpo", "ga", "gd", "idk", "kl", "npo"]
    assert {*learning, *forgetting} <= set(objectives.list_objectives())
    assert set(forgetting) <= set(list_unlearning_objectives()) and not {*learning} & set(
        list_unlearning_objectives()
    )


SMALL: dict[str, Any] = {"model": {"arch": "gpt2"}}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"model": {"arch": "gpt2"}, "rum": {}}, "rum: unknown key; .*did you mean run"),
        ({**SMALL, "run": {"epoch": 3}}, "run.epoch: unknown key; .*did you mean epochs"),
        ({**SMALL, "run": {"epochs": 0}}, "run.epochs: expected 1 or more"),
        ({**SMALL, "run": {"seed": 2**63}}, "run.seed: expected less than"),
        ({**SMALL, "run": {"betas": [1.0, 0.9]}}, "run.betas.0.: expected less than 1"),
        ({**SMALL, "run": {"lr": float("inf")}}, "run.lr: .*finite number"),
        (
            {**SMALL, "run": {"checkpoint_every": 1e-12}},
            "run.checkpoint_every: expected 0, or 0.0001 or more",
        ),
        ({**SMALL, "run": {"lr": 1e300}}, "run.lr: expected 1e.30 or less"),
        ({"model": {"arch": "gpt2", "layers": 10**9}}, "model.layers: expected 1000 or less"),
        ({"model": {"arch": "gpt2", "width": 10**12}}, "model.width: expected 131072 or less"),
        ({"model": {"arch": "gpt2", "heads": 10**400}}, "model.heads: "),
        ({"model": {"arch": "gpt2", "context": 10**9}}, "model.context: expected 1048576 or less"),
        ({**SMALL, "tokenizer": {"vocab": 10**9}}, "tokenizer.vocab: expected 2000000 or less"),
        ({**SMALL, "objective": {"use": "goldfsh"}}, "did you mean goldfish"),
        ({**SMALL, "objective": {"use": "goldfish", "kk": 3}}, "objective.kk: unknown key"),
        ({**SMALL, "objective": {"use": "goldfish", "k": 1}}, "objective.k: expected 2 or more"),
        ({**SMALL, "objective": {}}, "has no `use`"),
        ({**SMALL, "objective": {"use": "no.such.module"}}, "cannot be imported"),
        (
            {**SMALL, "objective": {"use": "json.decoder"}},
            "no subclass of Objective with the name Decoder",
        ),
        ({"model": {}}, "needs a path, or arch"),
        ({"model": {"arch": "gpt2", "path": "x"}}, "not both"),
        ({"model": {"arch": "gpt5"}}, "model.arch: .*'gpt2', 'gpt_neo'"),
        ({"model": {"arch": "gpt2", "width": 30, "heads": 4}}, "not a multiple of heads"),
        ({"model": {"arch": "bert"}}, "bert cannot learn causal"),
        ({**SMALL, "objective": {"use": "masked"}}, "gpt2 cannot learn masked"),
        (
            {**SMALL, "data": {"answers_only": True, "prompts": "remove"}},
            "there is no prompt to leave out",
        ),
        (
            {**SMALL, "data": {"attention": "document"}, "objective": {"use": "ngram_penalty"}},
            "cannot be combined with objective",
        ),
        ({"model": {"arch": "bert"}, "objective": {"use": "classify"}}, "data.layout"),
    ],
)
def test_an_invalid_recipe_is_a_one_line_error(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Recipe.load(table)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


def test_recipe_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[model]\narch = "gpt2"\n[run]\nepochs = 4\n')
    assert Recipe.load(path).run.epochs == 4 and Recipe.load(path).name == "mine"
    path.write_text("[model\n")
    with pytest.raises(UsageError, match="not TOML"):
        Recipe.load(path)
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        Recipe.load(path)
    with pytest.raises(UsageError, match="did you mean ppmlm"):
        Recipe.load("pmlm")


def test_changes_of_a_recipe() -> None:
    recipe = Recipe.load(
        "rmft",
        [
            "run.epochs=4",
            "data.path=some/folder",
            'run.schedule="constant"',
            "objective.use=goldfish",
        ],
    )
    assert (recipe.run.epochs, recipe.data.path, recipe.run.schedule, recipe.objective["k"]) == (
        4,
        "some/folder",
        "constant",
        4,
    )
    recipe_of_a_model = Recipe.load("rmft", ["model.path=models/own"])
    assert recipe_of_a_model.model.arch is None and recipe_of_a_model.model.path == "models/own"
    for change in ("epochs=4", "run.epochs", "run.a.b=1", "about.x=1", "=1"):
        with pytest.raises(UsageError, match="--set"):
            Recipe.load("rmft", [change])


def test_the_hash_covers_what_the_weights_depend_on() -> None:
    base = Recipe.load("ppmlm").hash()
    assert (
        Recipe.load(
            "ppmlm",
            [
                "data.path=x",
                "objective.blacklist=y",
                "run.log_every=1",
                "run.device=cpu",
                "run.state_every=3",
            ],
        ).hash()
        == base
    )
    for change in (
        "run.lr=1",
        "run.seed=1",
        "objective.share=0.2",
        "model.width=32",
        "tokenizer.vocab=900",
        "data.layout=packed",
        "run.batch=4",
    ):
        assert Recipe.load("ppmlm", [change]).hash() != base, change


def test_a_custom_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_losses").mkdir()
    (tmp_path / "my_losses" / "half_loss.py").write_text(
        "from sanitize.train.objectives.causal import Causal\n\n\nclass HalfLoss(Causal):\n   "
        " share: float = 0.5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    recipe = Recipe.load({**SMALL, "objective": {"use": "my_losses.half_loss", "share": 0.25}})
    assert recipe.objective == {"use": "my_losses.half_loss", "share": 0.25}
    assert type(recipe.build_objective()).__name__ == "HalfLoss"
    sys.modules.pop("my_losses.half_loss")


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0, 0.5, 1, 1, 1, 1]),
        ("linear", [0, 0.5, 1, 0.75, 0.5, 0.25]),
        ("cosine", [0, 0.5, 1, 0.8536, 0.5, 0.1464]),
    ],
)
def test_schedules_after_a_warm_up(schedule: Any, expected: list[float]) -> None:
    run = TrainingSettings(lr=1.0, schedule=schedule, warmup=2 / 6)
    assert [round(compute_learning_rate(run, step, 6), 4) for step in range(6)] == expected
    assert compute_learning_rate(TrainingSettings(lr=2.0, schedule=schedule), 0, 6) == 2.0


def test_a_pretrained_model_has_its_own_schedule() -> None:
    """A learning rate for a new model ruins a pretrained one within two steps."""
    new, pretrained = Recipe.load("rmft"), Recipe.load("rmft", ["model.path=MODEL"])
    assert (new.run.epochs, new.run.lr, new.run.schedule) == (30, 5e-3, "linear")
    assert (pretrained.run.epochs, pretrained.run.lr, pretrained.run.schedule) == (
        3,
        2e-5,
        "constant",
    )
    # what is named is taken
    assert Recipe.load("rmft", ["run.lr=1e-4", "model.path=MODEL"]).run.lr == 1e-4
    assert Recipe.load(pretrained) == pretrained and Recipe.load(pretrained.to_dict()) == pretrained
    assert new.pretrained is None and new.hash() == Recipe.load(new.to_dict()).hash()
    for name in list_recipes():
        rate = Recipe.load(name, ["model.path=MODEL"]).run.lr
        assert rate <= 2e-4, f"{name}: {rate}"
    table: dict[str, Any] = {"model": {"path": "MODEL"}}
    assert (
        Recipe.load(table).run.lr == PRETRAINED_LR
        and Recipe.load({"model": {"arch": "gpt2"}}).run.lr == NEW_MODEL_LR
    )
    for section, message in (
        ({"lrr": 1}, "recipe: pretrained.lrr: unknown key"),
        ({"lr": 0}, "recipe: pretrained.lr"),
        (3, "a table"),
    ):
        with pytest.raises(UsageError, match=message):
            Recipe.load({**table, "pretrained": section})
