"""docs/how_to/train.md lists the settings, recipes and objectives that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sanitize.train import objectives
from sanitize.train.objectives.objective import Objective
from sanitize.train.recipe import Recipe, list_recipes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how_to" / "train.md").read_text(
    encoding="utf-8"
)


def test_the_example_recipe_is_valid() -> None:
    block, private = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.S)
    recipe = Recipe.load(tomllib.loads(block))
    assert Recipe.load({**tomllib.loads(block), **tomllib.loads(private)}).privacy is not None
    assert recipe.data.path == "clean" and recipe.objective == {"use": "causal"}


def test_all_objectives_and_their_settings_are_documented() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| (.*)\|$",
        PAGE.split("## Objectives")[1].split("## What")[0],
        flags=re.M,
    )
    rows = rows[1:]  # the head
    assert sorted(name for name, _ in rows) == objectives.list_objectives()
    for name, settings in rows:
        kind = type(objectives.load_objective({"use": name}, "recipe"))
        assert issubclass(kind, Objective)
        named = {word for word in re.findall(r"`(\w+)`", settings) if word in kind.model_fields}
        settings_of_class = set(kind.model_fields) - {"use"}
        base = {"share", "replace"} if name in ("ppmlm", "mlma") else set()
        assert named == settings_of_class - base, name


def test_all_named_keys_exist() -> None:
    sections = {name: field.annotation for name, field in Recipe.model_fields.items()}
    for section, key in re.findall(r"`(data|model|tokenizer|run)\.(\w+)", PAGE):
        assert key in sections[section].model_fields, f"{section}.{key}"


def test_shipped_recipes_name_their_paper() -> None:
    for name in list_recipes():
        assert name in ("causal", "finetune", "finetune_chat", "finetune_lora") or re.search(
            "RMFT|[Ee]arly detection|PPMLM|DP2Unlearning", Recipe.load(name).about
        )
