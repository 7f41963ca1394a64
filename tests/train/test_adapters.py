"""LoRA adapters: what a run writes, that it resumes, that others and sanitize-eval read it, and
adapters that cannot be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sanitize import train
from sanitize.errors import InputRefused, MissingExtra, UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.run_folder import RunFolder
from sanitize.train import adapters
from sanitize.train.checkpoint import write_merged_model
from sanitize.train.model import load_model
from sanitize.train.recipe import Recipe
from tests.train.test_training_run import SimulatedKill, kill_in_forward, read_result

pytest.importorskip("peft")
torch.set_num_threads(1)
IDS = torch.tensor([[5, 6, 7, 8, 9]])


@pytest.fixture
def base(corpus: Any, recipe: Any, tmp_path: Path) -> Path:
    """A GPT-2 that was trained for a step."""
    result = train.fit(
        recipe(corpus(), run={"epochs": 1, "max_steps": 1, "checkpoint_every": 0}),
        tmp_path / "base-run",
    )
    return Path(
        shutil.copytree(tmp_path / "base-run" / "checkpoints" / result.final, tmp_path / "base")
    )


def make_recipe(recipe: Any, tmp_path: Path, base: Path, **sections: Any) -> dict[str, Any]:
    settings = recipe(tmp_path / "mails.jsonl", run={"epochs": 1, **sections.pop("run", {})})
    return settings | {
        "model": {"path": str(base), "context": 32},
        "tokenizer": {},
        "lora": {"rank": 4},
        **sections,
    }


def compute_logits(model: Any) -> Any:
    with torch.no_grad():
        return model.eval()(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits


def test_checkpoints_are_adapters_that_peft_and_eval_read(
    recipe: Any, tmp_path: Path, base: Path
) -> None:
    import peft

    live: list[Any] = []
    settings = make_recipe(recipe, tmp_path, base)
    result = train.fit(
        settings,
        tmp_path / "run",
        hook=lambda event: live.append(compute_logits(event.model)) is not None,
    )
    folders = [tmp_path / "run" / "checkpoints" / name for name in result.checkpoints]
    for folder in folders:
        names = {path.name for path in folder.iterdir()}
        assert {
            "adapter_config.json",
            "adapter_model.safetensors",
            "tokenizer.json",
            "checkpoint.json",
        } <= names
        assert not {"config.json", "model.safetensors"} & names
    config = json.loads((folders[-1] / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == (
        4,
        32.0,
        str(base),
    )
    # all linear layers, not the head
    assert {name.rpartition(".")[2] for name in config["target_modules"]} == {
        "c_attn",
        "c_fc",
        "c_proj",
    }
    expected = live[-1]
    assert torch.allclose(
        compute_logits(load_model(base, "causal")), compute_logits(load_model(folders[0], "causal"))
    )
    assert not torch.allclose(compute_logits(load_model(base, "causal")), expected, atol=1e-2)
    by_peft = peft.PeftModel.from_pretrained(load_model(base, "causal"), str(folders[-1]))
    assert torch.allclose(compute_logits(by_peft), expected, atol=1e-5)
    last = RunFolder.open(tmp_path / "run").final_checkpoint
    evaluated = LanguageModel.load(last.path)
    assert (
        torch.allclose(compute_logits(evaluated.model), expected, atol=1e-5)
        and type(evaluated.model).__name__ == "GPT2LMHeadModel"
    )
    merged = write_merged_model(last.path, tmp_path / "merged")
    assert torch.allclose(compute_logits(load_model(merged, "causal")), expected, atol=1e-5)
    assert LanguageModel.load(merged).tokenizer.get_vocab() == evaluated.tokenizer.get_vocab()
    with pytest.raises(UsageError, match="exists"):
        write_merged_model(last.path, tmp_path / "merged")
    with pytest.raises(InputRefused, match="no LoRA adapter"):
        write_merged_model(base, tmp_path / "other")


def test_an_adapter_is_trained_further_on_top_of_another(
    recipe: Any, tmp_path: Path, base: Path
) -> None:
    first = train.fit(make_recipe(recipe, tmp_path, base), tmp_path / "first")
    adapter = tmp_path / "first" / "checkpoints" / first.final
    second = train.fit(make_recipe(recipe, tmp_path, adapter), tmp_path / "second")
    start = tmp_path / "second" / "checkpoints" / second.checkpoints[0]
    assert (
        adapters.find_base_folder(start) == adapter and adapters.find_base_folder(adapter) == base
    )
    assert torch.allclose(
        compute_logits(load_model(start, "causal")),
        compute_logits(load_model(adapter, "causal")),
        atol=1e-6,
    )
    (base / "config.json").write_text((base / "config.json").read_text() + "\n")
    with pytest.raises(UsageError, match="another base model"):
        train.fit(make_recipe(recipe, tmp_path, adapter), tmp_path / "second")


def test_a_killed_run_resumes_to_the_same_adapter(recipe: Any, tmp_path: Path, base: Path) -> None:
    settings = make_recipe(recipe, tmp_path, base, run={"state_every": 2})
    train.fit(settings, tmp_path / "expected")
    with pytest.MonkeyPatch.context() as patch:
        kill_in_forward(patch, 4)
        with pytest.raises(SimulatedKill):
            train.fit(settings, tmp_path / "run")
    (state,) = (tmp_path / "run" / "state").iterdir()
    assert (state / "state.safetensors").stat().st_size < (
        base / "model.safetensors"
    ).stat().st_size / 2, "the base is not in it"
    train.fit(settings, tmp_path / "run")
    final = read_result(tmp_path / "run")["final"]
    for file in ("adapter_model.safetensors", "adapter_config.json"):
        actual, expected = (
            (tmp_path / name / "checkpoints" / final / file).read_bytes()
            for name in ("run", "expected")
        )
        assert actual == expected, file


def test_private_adapters(
    recipe: Any, tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients of each row exist for the adapter's weights only, and vmap gives those of the
    loop."""
    from sanitize.train.dp_sgd import PerSampleGradients

    compute, steps = PerSampleGradients.__call__, []

    def compare(self: PerSampleGradients, *arguments: Any) -> Any:
        found = compute(self, *arguments)
        assert self.method == "vmap" and found[0] and all(".lora_" in name for name in found[0])
        self.method = "loop"
        by_loop = compute(self, *arguments)[0]
        self.method = "vmap"
        steps.append(
            all(torch.allclose(value, by_loop[name], atol=1e-5) for name, value in found[0].items())
        )
        return found

    monkeypatch.setattr(PerSampleGradients, "__call__", compare)
    settings = make_recipe(
        recipe, tmp_path, base, data={"path": str(tmp_path / "mails.jsonl"), "layout": "document"}
    )
    settings |= {"lora": {"rank": 2, "dropout": 0.0}, "privacy": {"sigma": 1.0, "insecure_seed": 1}}
    settings["model"]["dropout"] = 0.0
    result = train.fit(settings, tmp_path / "run")
    assert result.privacy is not None and result.privacy["epsilon"] > 0 and steps and all(steps)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"arch": "gpt2"}}, "lora needs model.path"),
        ({"model": {"path": "M", "top_layers": 1}}, "use one of the two"),
        ({"objective": {"use": "classify"}, "data": {"layout": "document"}}, "new head"),
        ({"lora": {"r": 8}}, "lora.r: unknown key"),
        ({"lora": {"rank": 0}}, "lora.rank"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Recipe.load({"model": {"path": "M"}, "lora": {}, **changes})


def test_settings_of_an_adapter() -> None:
    table: dict[str, Any] = {"model": {"path": "M"}}
    plain, adapted = Recipe.load(table), Recipe.load(table, ["lora.rank=8"])
    assert plain.lora is None and plain.run.lr == 5e-5 and adapted.run.lr == 2e-4
    assert adapted.lora is not None and adapted.lora.rank == 8 and plain.hash() != adapted.hash()
    assert (
        Recipe.load("finetune_lora", ["model.path=M"]).lora
        == Recipe.load(table, ["lora.rank=16"]).lora
    )


def test_adapters_that_cannot_be_read(
    recipe: Any, tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UsageError, match="linear layers of this model are c_attn, c_fc, c_proj, lm_head"
    ):
        train.fit(
            make_recipe(recipe, tmp_path, base, lora={"target_modules": ["q_proj"]}),
            tmp_path / "run",
        )
    result = train.fit(
        make_recipe(recipe, tmp_path, base, lora={"target_modules": ["c_attn"]}), tmp_path / "run"
    )
    adapter = tmp_path / "run" / "checkpoints" / result.final
    base.rename(tmp_path / "moved")
    for read in (
        lambda: LanguageModel.load(adapter),
        lambda: load_model(adapter, "causal"),
        lambda: write_merged_model(adapter, tmp_path / "m"),
    ):
        with pytest.raises(
            InputRefused, match="a LoRA adapter without its base: .*base_model_name_or_path"
        ):
            read()
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(
        json.dumps({**config, "base_model_name_or_path": str(tmp_path / "moved")})
    )
    assert load_model(adapter, "causal").config.n_layer == 2, "the path can be corrected"
    (adapter / "adapter_config.json").write_text(
        json.dumps({**config, "base_model_name_or_path": "somebody/model"})
    )
    with pytest.raises(InputRefused, match="without its base: somebody/model"):
        load_model(adapter, "causal")
    (adapter / "adapter_config.json").write_text(
        json.dumps({**config, "base_model_name_or_path": str(adapter)})
    )
    with pytest.raises(InputRefused, match="leads back to itself"):
        load_model(adapter, "causal")
    wide = train.fit(
        recipe(tmp_path / "mails.jsonl", model={"width": 48}, run={"epochs": 1, "max_steps": 1}),
        tmp_path / "wide",
    )
    other = tmp_path / "wide" / "checkpoints" / wide.final
    (adapter / "adapter_config.json").write_text(
        json.dumps({**config, "base_model_name_or_path": str(other)})
    )
    with pytest.raises(InputRefused, match="does not fit its base model"):
        load_model(adapter, "causal")
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(InputRefused, match="safetensors only"):
        load_model(adapter, "causal")
    (adapter / "adapter_config.json").write_text("{}")
    with pytest.raises(InputRefused, match="describes no LoRA adapter"):
        load_model(adapter, "causal")
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(MissingExtra, match=r"corpus-sanitize\[lora\]"):
        train.fit(make_recipe(recipe, tmp_path, tmp_path / "moved"), tmp_path / "other")
