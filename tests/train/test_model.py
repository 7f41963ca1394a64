"""Models of every architecture accept their stated context length, and mismatches are reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sanitize import train
from sanitize.errors import InputRefused, UsageError
from sanitize.train import checkpoint
from sanitize.train.model import (
    add_neftune_noise,
    build_model,
    get_layers,
    get_max_positions,
    get_special_tokens,
    tokenizer_sha256,
    train_tokenizer,
)
from sanitize.train.recipe import ModelSettings

torch.set_num_threads(1)
TEXTS = ["Dear Ada, plan 3 is ready."] * 3
SMALL: dict[str, Any] = {"layers": 3, "width": 32, "heads": 2, "context": 24}
HEAD = {"gpt2": "causal", "gpt_neo": "causal", "bert": "masked", "roberta": "masked"}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TEXTS, vocab_size=300, context_length=24)


def make_model(arch: Any, tokenizer: Any, seed: int = 1, **settings: Any) -> Any:
    return build_model(
        ModelSettings(arch=arch, **{**SMALL, **settings}),
        head=HEAD[arch],
        tokenizer=tokenizer,
        seed=seed,
    )[0]


@pytest.mark.parametrize("arch", HEAD)
def test_every_position_may_be_used(arch: str, tokenizer: Any) -> None:
    model = make_model(arch, tokenizer)
    assert get_max_positions(model) == 24 and len(get_layers(model)) == 3
    ids = torch.full((1, 24), 7)
    assert model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.shape == (
        1,
        24,
        len(tokenizer),
    )


def test_a_model_that_no_memory_holds_is_refused_before_it_is_built(tokenizer: Any) -> None:
    with pytest.raises(
        UsageError, match=r"layers = 1000, model.width = 131072: .* 2.1e\+14 weights"
    ):
        make_model("gpt2", tokenizer, layers=1_000, width=1 << 17)


@pytest.mark.parametrize("arch", HEAD)
def test_padding_does_not_change_logits(arch: str, tokenizer: Any) -> None:
    model = make_model(arch, tokenizer).eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    alone = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    padded = torch.tensor([[5, 6, 7, 8, tokenizer.pad_token_id, tokenizer.pad_token_id]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    assert torch.allclose(
        model(input_ids=padded, attention_mask=mask).logits[:, :4], alone, atol=1e-5
    )


def test_initial_weights_depend_on_the_seed_only(tokenizer: Any) -> None:
    def first(seed: int) -> Any:
        return make_model("gpt2", tokenizer, seed).get_input_embeddings().weight

    assert torch.equal(first(1), first(1)) and not torch.equal(first(1), first(2))


def test_a_trained_tokenizer_is_deterministic() -> None:
    sums = {
        tokenizer_sha256(train_tokenizer(TEXTS, vocab_size=300, context_length=24))
        for _ in range(3)
    }
    assert len(sums) == 1
    assert (
        tokenizer_sha256(
            train_tokenizer([*TEXTS, "other words in there"], vocab_size=300, context_length=24)
        )
        not in sums
    )


def test_special_tokens_are_the_tokenizers_own(tokenizer: Any) -> None:
    from tokenizers import processors

    assert get_special_tokens(tokenizer, "causal") == ((), (tokenizer.eos_token_id,))
    assert get_special_tokens(tokenizer, "masked") == ((), ())
    import copy

    changed = copy.deepcopy(tokenizer)
    changed.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|mask|> $A <|endoftext|>", special_tokens=[("<|mask|>", 2), ("<|endoftext|>", 0)]
    )
    assert (
        get_special_tokens(changed, "masked")
        == ((2,), (0,))
        == get_special_tokens(changed, "causal")
    )


def test_neftune_noise_is_bounded_and_only_in_training(tokenizer: Any) -> None:
    model = make_model("gpt2", tokenizer)
    ids = torch.zeros((2, 20), dtype=torch.long)
    plain = model.get_input_embeddings()(ids)
    with add_neftune_noise(model, 5.0):
        noise = model.get_input_embeddings()(ids) - plain
        bound = 5.0 / (20 * 32) ** 0.5
        assert 0.95 * bound < noise.abs().max() <= bound * (1 + 1e-5)
        assert abs(noise.mean()) < bound / 10
        model.eval()
        assert torch.equal(model.get_input_embeddings()(ids), plain)
        model.train()
    with add_neftune_noise(model, 0.0):
        assert torch.equal(model.get_input_embeddings()(ids), plain)
    assert torch.equal(model.get_input_embeddings()(ids), plain)


def test_mismatched_models_are_refused(
    corpus: Any, recipe: Any, tmp_path: Path, tokenizer: Any
) -> None:
    data = corpus()
    result = train.fit(recipe(data, run={"epochs": 1}), tmp_path / "base")
    base = tmp_path / "base" / "checkpoints" / result.final

    def fit(model: dict[str, Any], **sections: dict[str, Any]) -> None:
        train.fit(
            {**recipe(data, **sections), "model": {"path": str(base), **model}}, tmp_path / "run"
        )

    with pytest.raises(UsageError, match="positions for 32"):
        fit({"context": 64})
    with pytest.raises(UsageError, match="the model has only 2 layers"):
        fit({"top_layers": 3})
    with pytest.raises(UsageError, match="another vocabulary"):
        tokenizer.save_pretrained(tmp_path / "tokenizer")
        fit({}, tokenizer={"path": str(tmp_path / "tokenizer")})
    large = train_tokenizer(
        ["all sorts of other words and letters stand here in a row beside each other"] * 3,
        vocab_size=340,
        context_length=32,
    )
    without_tokenizer = shutil.copytree(base, tmp_path / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (without_tokenizer / name).unlink()
    large.save_pretrained(tmp_path / "large")
    with pytest.raises(UsageError, match=r"tokenizer has \d+ entries, the model embeds 300"):
        fit({"path": str(without_tokenizer)}, tokenizer={"path": str(tmp_path / "large")})
    with pytest.raises(InputRefused, match="no MaskedLM"):
        fit({}, objective={"use": "masked"})
    (without_tokenizer / "model.safetensors").rename(without_tokenizer / "pytorch_model.bin")
    shutil.copy(base / "tokenizer.json", without_tokenizer)
    with pytest.raises(InputRefused, match="safetensors only"):
        fit({"path": str(without_tokenizer)})


def test_a_bidirectional_model_is_refused_for_causal(
    corpus: Any, recipe: Any, tmp_path: Path
) -> None:
    data = corpus()
    result = train.fit(
        recipe(data, model={"arch": "bert"}, objective={"use": "masked"}, run={"epochs": 1}),
        tmp_path / "base",
    )
    path = tmp_path / "base" / "checkpoints" / result.final
    with pytest.raises(InputRefused, match="bidirectional model"):
        train.fit({**recipe(data), "model": {"path": str(path)}}, tmp_path / "run")


def test_missing_weights_are_reported(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    data = corpus()
    result = train.fit(recipe(data, run={"epochs": 1}), tmp_path / "base")
    path = tmp_path / "base" / "checkpoints" / result.final
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "n_layer": 3}))
    with pytest.raises(InputRefused, match="lacks 12 weights"):
        train.fit({**recipe(data), "model": {"path": str(path)}}, tmp_path / "run")


def test_fine_tuning_begins_at_the_base(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    data = corpus()
    base = train.fit(recipe(data, run={"epochs": 1}), tmp_path / "base")
    path = tmp_path / "base" / "checkpoints" / base.final
    train.fit(
        {**recipe(corpus("other.jsonl", 12)), "model": {"path": str(path), "dropout": 0.2}},
        tmp_path / "run",
    )
    first = tmp_path / "run" / "checkpoints" / "step-000000"
    weights, base_weights = (
        load_file(first / "model.safetensors"),
        load_file(path / "model.safetensors"),
    )
    assert all(torch.equal(weights[name], base_weights[name]) for name in base_weights)
    assert json.loads((first / "config.json").read_text())["attn_pdrop"] == 0.2
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["base_model"] == str(path)
    assert (first / "tokenizer.json").read_text() == (path / "tokenizer.json").read_text()


def test_classify_trains_the_last_layer_and_the_head(
    corpus: Any, recipe: Any, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    data = corpus(label=["odd" if number % 2 else "even" for number in range(30)])
    sections: dict[str, Any] = {"data": {"layout": "document"}, "run": {"epochs": 2}}
    base = train.fit(
        recipe(data, model={"arch": "bert"}, objective={"use": "masked"}, **sections),
        tmp_path / "base",
    )
    path = tmp_path / "base" / "checkpoints" / base.final
    settings = recipe(data, objective={"use": "classify"}, **sections)
    settings["data"]["validation"] = str(data)
    result = train.fit(
        {**settings, "model": {"path": str(path), "top_layers": 1, "context": 32}}, tmp_path / "run"
    )
    final = tmp_path / "run" / "checkpoints" / result.final
    assert json.loads((final / "config.json").read_text())["id2label"] == {"0": "even", "1": "odd"}
    before, after = load_file(path / "model.safetensors"), load_file(final / "model.safetensors")
    changed = {
        name for name in before.keys() & after.keys() if not torch.equal(before[name], after[name])
    }
    assert changed == {name for name in before if name.startswith("bert.encoder.layer.1.")}
    start = load_file(tmp_path / "run" / "checkpoints" / "step-000000" / "model.safetensors")
    assert all(
        not torch.equal(start[name], after[name])
        for name in ("classifier.weight", "bert.pooler.dense.weight")
    )
    losses = [
        json.loads((tmp_path / "run" / "checkpoints" / name / "checkpoint.json").read_text())[
            "validation_loss"
        ]
        for name in result.checkpoints
    ]
    assert losses[-1] < losses[0]
    settings = recipe(
        corpus("one.jsonl", label=["a"] * 30),
        model={"arch": "bert"},
        objective={"use": "classify"},
        **sections,
    )
    with pytest.raises(InputRefused, match="two or more"):
        train.fit(settings, tmp_path / "other")


def test_tensors_at_one_address_are_one_only_if_they_have_one_shape(tmp_path: Path) -> None:
    """Empty tensors all have the address 0, and a view has that of its tensor."""
    whole = torch.arange(6.0).reshape(2, 3)
    state = {
        "tied": whole, "again": whole, "view": whole[:1],
        "no_rows": torch.empty(0, 3), "no_columns": torch.empty(0, 5),
    }  # fmt: skip

    class Recorder:
        written: dict[str, torch.Tensor]

        def state_dict(self) -> dict[str, torch.Tensor]:
            return dict(state)

        def save_pretrained(self, path: Path, state_dict: dict[str, torch.Tensor]) -> None:
            self.written = state_dict

    model = Recorder()
    checkpoint._save_model(model, tmp_path, "bfloat16")
    assert {name: value.shape for name, value in model.written.items()} == {
        name: value.shape for name, value in state.items()
    }
    assert model.written["tied"] is model.written["again"]
