"""Results do not depend on the batch, and equal those of transformers."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sanitize.errors import InputRefused, OutputBroken, ResourceError, UsageError
from sanitize.eval.language_model import BatchControl, LanguageModel, _make_sampler, resolve_devices
from sanitize.train.model import load_model, load_tokenizer


def make_prompts(count: int = 33, longest: int = 20) -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [
        rng.integers(3, 259, size=int(size)).tolist()
        for size in rng.integers(1, longest, size=count)
    ]


@pytest.fixture(scope="module")
def model(gpt2: Any, tokenizer: Any) -> LanguageModel:
    return LanguageModel.from_loaded(gpt2, tokenizer)


def make_model_with_frequent_eos(gpt2: Any, tokenizer: Any) -> tuple[LanguageModel, int]:
    """The model with an end-of-text token that it really generates: the most common third token of
    its continuations."""
    continuations = LanguageModel.from_loaded(gpt2, tokenizer).generate(
        make_prompts(), new_tokens=12, stop_at_eos=False
    )
    counts = np.bincount(np.concatenate([row[2:] for row in continuations]), minlength=259)
    return LanguageModel.from_loaded(gpt2, tokenizer), int(counts.argmax())


@pytest.mark.parametrize("mode", ["greedy", "sample", "beam"])
def test_results_do_not_depend_on_the_batch(model: LanguageModel, mode: str) -> None:
    prompts = make_prompts(12 if mode == "beam" else 33)
    settings: dict[str, Any] = {"new_tokens": 16, "mode": mode, "seed": 3, "beams": 3}
    expected = model.generate(prompts, batch=1, **settings)
    assert len({tuple(row) for row in expected}) > len(prompts) // 2, (
        "degenerate continuations would hide a wrong mask"
    )
    for batch in (2, 7, 64):
        assert model.generate(prompts, batch=batch, **settings) == expected


def test_results_without_the_attention_mask_differ(model: LanguageModel, gpt2: Any) -> None:
    """The tests above can fail: a model that is not given its attention mask gives other
    results."""

    def remove_mask(
        module: Any, arguments: Any, inputs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        return arguments, {**inputs, "attention_mask": None, "position_ids": None}

    prompts = make_prompts()
    with_mask = model.generate(prompts, new_tokens=16)
    handle = gpt2.register_forward_pre_hook(remove_mask, with_kwargs=True)
    without_mask = model.generate(prompts, new_tokens=16)
    handle.remove()
    assert (
        sum(expected == actual for expected, actual in zip(with_mask, without_mask, strict=True))
        < len(prompts) // 2
    )


def test_greedy_equals_transformers(model: LanguageModel, gpt2: Any) -> None:
    import torch

    for prompt in make_prompts(8):
        output = gpt2.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=16,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=1,
        )
        assert model.generate([prompt], new_tokens=16, stop_at_eos=False) == [
            output[0, len(prompt) :].tolist()
        ]


@pytest.mark.parametrize("mode", ["greedy", "sample"])
def test_ended_rows_do_not_change_other_rows(
    gpt2: Any, tokenizer: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, end = make_model_with_frequent_eos(gpt2, tokenizer)
    prompts = make_prompts()
    complete = model.generate(prompts, new_tokens=16, stop_at_eos=False, mode=mode)
    monkeypatch.setattr(LanguageModel, "eos_id", property(lambda self: end))
    cut = model.generate(prompts, new_tokens=16, mode=mode, batch=8)
    assert cut == [row[: row.index(end)] if end in row else row for row in complete]
    assert len({len(row) for row in cut}) > 2, "rows must end at different times"


def test_sampling_follows_the_softmax(model: LanguageModel, gpt2: Any) -> None:
    import torch

    prompt = make_prompts(1)[0]
    samples = model.generate(
        [prompt] * 4000,
        new_tokens=1,
        mode="sample",
        temperature=3.0,
        top_k=5,
        batch=512,
        stop_at_eos=False,
    )
    with torch.no_grad():
        top, token_ids = (gpt2(torch.tensor([prompt])).logits[0, -1] / 3.0).topk(5)
    expected = dict(zip(token_ids.tolist(), top.softmax(0).tolist(), strict=True))
    sampled_tokens = np.array([row[0] for row in samples])
    assert set(sampled_tokens.tolist()) <= set(expected)
    for token, share in expected.items():
        assert (
            abs((sampled_tokens == token).mean() - share)
            < 4 * np.sqrt(share * (1 - share) / 4000) + 1e-9
        )
    narrow = model.generate(
        [prompt] * 50, new_tokens=1, mode="sample", top_p=1e-9, stop_at_eos=False
    )
    assert narrow == [model.generate([prompt], new_tokens=1, stop_at_eos=False)[0]] * 50
    assert model.generate([prompt] * 9, new_tokens=4, mode="sample", seed=1) != model.generate(
        [prompt] * 9, new_tokens=4, mode="sample"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("top_k", "top_p"), [(None, None), (5, None), (None, 0.9), (40, 0.6), (None, 1.0)]
)
@pytest.mark.parametrize("vocabulary", [50, 5_000])
def test_sampled_tokens_have_the_probabilities_of_a_complete_sort(
    top_k: int | None, top_p: float | None, vocabulary: int
) -> None:
    """Flat rows need more than the first candidates for their nucleus; the shares of 4,000 draws
    follow the definition."""
    import torch

    rng = np.random.default_rng(vocabulary)
    for scale in (0.05, 4.0):
        row = torch.from_numpy(rng.normal(0, scale, vocabulary).astype(np.float32))
        choose = _make_sampler(range(4_000), 1, 1.3, top_k, top_p, 7)
        chosen = choose(row.expand(4_000, -1).clone(), torch.arange(4_000), 0).numpy()
        order = torch.argsort(row, descending=True)[:top_k]
        probabilities = (row[order].double() / 1.3).softmax(0).numpy()
        kept = np.cumsum(probabilities) - probabilities < (top_p or 2)
        expected = np.zeros(vocabulary)
        expected[order.numpy()[kept]] = probabilities[kept] / probabilities[kept].sum()
        assert (expected[chosen] > 0).all()
        # grouped by position in a fixed order, so that every group is expected often enough
        groups = np.arange(vocabulary) % 7
        shares, found = (
            np.bincount(groups, weights, 7)
            for weights in (expected, np.bincount(chosen, minlength=vocabulary) / 4_000)
        )
        assert (np.abs(found - shares) < 4.5 * np.sqrt(shares * (1 - shares) / 4_000) + 1e-9).all()


@pytest.mark.parametrize("mode", ["greedy", "sample", "beam"])
def test_a_model_on_several_devices_gives_the_results_of_one(
    model: LanguageModel, gpt2: Any, tokenizer: Any, mode: str
) -> None:
    prompts = make_prompts(12 if mode == "beam" else 33)
    settings: dict[str, Any] = {"new_tokens": 16, "mode": mode, "seed": 3, "beams": 3}
    shared = LanguageModel.from_loaded(copy.deepcopy(gpt2), tokenizer, "cpu,cpu,cpu")
    used: dict[int, int] = {}
    for replica in (shared, *shared.replicas):

        def count_batch(*_: object, number: int = id(replica)) -> None:
            used[number] = used.get(number, 0) + 1

        replica.model.register_forward_pre_hook(count_batch)
    assert (
        len(shared.replicas) == 2 and len({id(replica.model) for replica in shared.replicas}) == 2
    )
    assert shared.generate(prompts, batch=4, **settings) == model.generate(prompts, **settings)
    for one, other in zip(shared.token_losses(prompts), model.token_losses(prompts), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert len(used) == 3 and shared.control.rows_done == shared.control.row_count > 0
    assert shared.token_losses([]) == [] and shared.generate(
        prompts[:1], **settings
    ) == model.generate(prompts[:1], **settings)


def test_an_error_on_one_device_ends_the_others(gpt2: Any, tokenizer: Any) -> None:
    shared = LanguageModel.from_loaded(copy.deepcopy(gpt2), tokenizer, "cpu,cpu")
    batches: list[int] = []

    def fail(*_: object) -> None:
        raise ValueError("of the second device")

    shared.model.register_forward_pre_hook(lambda *_: batches.append(1))
    shared.replicas[0].model.register_forward_pre_hook(fail)
    with pytest.raises(ValueError, match="of the second device"):
        shared.token_losses(make_prompts(500), batch=1)
    assert len(batches) < 400


@pytest.mark.parametrize("devices", ["cpu", "cpu,cpu"])
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail] can't allocate memory"),
    ],
)
def test_too_little_memory_halves_the_batch(
    gpt2: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, devices: str
) -> None:
    """Forward passes of more than five rows fail: the results are the same, and one note says so; a
    single row that fails is an error."""
    prompts, notes, sizes, limit = make_prompts(), list[str](), list[int](), [10**9]
    forward = type(gpt2).forward

    @functools.wraps(forward)  # transformers reads from the signature which inputs a model takes
    def forward_of_few_rows(self: Any, input_ids: Any, **inputs: Any) -> Any:
        if len(input_ids) > limit[0]:
            raise error
        sizes.append(len(input_ids))
        return forward(self, input_ids, **inputs)

    monkeypatch.setattr(type(gpt2), "forward", forward_of_few_rows)
    model = LanguageModel.from_loaded(
        copy.deepcopy(gpt2), tokenizer, devices, control=BatchControl(on_note=notes.append)
    )
    expected, losses = model.generate(prompts, new_tokens=4), model.token_losses(prompts)
    assert not notes and max(sizes) == -(-len(prompts) // len(devices.split(",")))
    limit[0] = 5
    sizes.clear()
    assert model.generate(prompts, new_tokens=4) == expected
    for one, other in zip(model.token_losses(prompts), losses, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert len(notes) == 1 and "batches are halved" in notes[0] and max(sizes) <= 5
    assert model.control.rows_done == model.control.row_count > 0
    limit[0] = 0
    with pytest.raises(ResourceError, match="single row of .* tokens; use dtype bfloat16"):
        model.generate(prompts[:3], new_tokens=4)
    limit[0], other_error = 5, ValueError("something else")
    monkeypatch.setattr(
        type(gpt2), "forward", lambda self, **inputs: (_ for _ in ()).throw(other_error)
    )
    with pytest.raises(ValueError, match="something else"):
        model.generate(prompts[:3], new_tokens=4)


def test_a_shared_prompt_is_read_once(model: LanguageModel, gpt2: Any) -> None:
    prompts = make_prompts(3)
    read_rows: list[int] = []
    handle = gpt2.register_forward_pre_hook(
        lambda module, arguments, options: read_rows.append(len(options["input_ids"])),
        with_kwargs=True,
    )
    rows = model.generate(
        [prompts[0], prompts[1], prompts[0], prompts[0]],
        new_tokens=5,
        mode="sample",
        seed=2,
        stop_at_eos=False,
    )
    handle.remove()
    assert read_rows == [2, 4, 4, 4, 4, 4], "the shared beginning, then a token at a time"
    singles = [
        model.generate(
            [prompts[0]] * 4, new_tokens=5, mode="sample", seed=2, batch=1, stop_at_eos=False
        )[number]
        for number in (0, 2, 3)
    ]
    assert [rows[0], rows[2], rows[3]] == singles and rows[0] != rows[2]
    # nothing but a last token
    short = model.generate([[7]] * 4, new_tokens=5, mode="sample", seed=2, stop_at_eos=False)
    assert short == model.generate(
        [[7]] * 4, new_tokens=5, mode="sample", seed=2, batch=1, stop_at_eos=False
    )


def test_settings_of_a_checkpoint_do_not_change_a_continuation(gpt2: Any, tokenizer: Any) -> None:
    """A published model may come with a temperature or a penalty on repeated tokens; greedy means
    the likeliest token."""
    from transformers import GenerationConfig

    prompts, penalised = make_prompts(8), copy.deepcopy(gpt2)
    expected = LanguageModel.from_loaded(gpt2, tokenizer).generate(prompts, new_tokens=12)
    penalised.generation_config = GenerationConfig(
        repetition_penalty=5.0, max_new_tokens=2, no_repeat_ngram_size=1
    )
    assert (
        LanguageModel.from_loaded(penalised, tokenizer).generate(prompts, new_tokens=12) == expected
    )


def test_losses_equal_those_of_single_rows(model: LanguageModel, gpt2: Any) -> None:
    import torch

    rows = [[], [7], *make_prompts(20, 60)]
    loss_rows = model.token_losses(rows, batch=6)
    for row, losses in zip(rows, loss_rows, strict=True):
        assert losses.shape == (max(len(row) - 1, 0),)
        if len(row) > 1:
            ids = torch.tensor([row])
            with torch.no_grad():
                expected = torch.nn.functional.cross_entropy(
                    gpt2(ids).logits[0, :-1], ids[0, 1:], reduction="none"
                ).numpy()
            np.testing.assert_allclose(losses, expected, atol=2e-4)


def test_losses_beyond_the_context(model: LanguageModel, gpt2: Any) -> None:
    import torch

    # the context is 64: windows 0..64, 32..96, 64..128, 96..150
    row = np.random.default_rng(6).integers(3, 259, size=150).tolist()
    losses = model.token_losses([row])[0]
    expected = np.zeros(149, np.float32)
    for first, stop, scored in ((0, 64, 1), (32, 96, 64), (64, 128, 96), (96, 150, 128)):
        ids = torch.tensor([row[first:stop]])
        with torch.no_grad():
            window_losses = torch.nn.functional.cross_entropy(
                gpt2(ids).logits[0, :-1], ids[0, 1:], reduction="none"
            ).numpy()
        expected[scored - 1 : stop - 1] = window_losses[scored - first - 1 :]
    np.testing.assert_allclose(losses, expected, atol=2e-4)


def test_filled_masks_equal_those_of_single_rows(bert: Any, tokenizer: Any) -> None:
    import torch

    model = LanguageModel.from_loaded(bert, tokenizer)
    assert not model.is_causal
    rows = make_prompts(20, 30)
    masked = [
        sorted({len(row) // 2, len(row) - 1}) if number % 5 else []
        for number, row in enumerate(rows)
    ]
    filled_rows = model.fill_masks(rows, masked, batch=6)
    for row, positions, filled in zip(rows, masked, filled_rows, strict=True):
        ids = torch.tensor(
            [[2 if position in positions else token for position, token in enumerate(row)]]
        )
        with torch.no_grad():
            expected = bert(ids).logits[0].argmax(1)
        assert filled == expected[positions].tolist()


def test_a_checkpoint_is_loaded_as_it_was_saved(
    gpt2: Any, bert: Any, tokenizer: Any, tmp_path: Path
) -> None:
    for name, network in (("causal", gpt2), ("masked", bert)):
        network.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    causal, masked = (
        LanguageModel.load(tmp_path / "causal"),
        LanguageModel.load(tmp_path / "masked"),
    )
    assert causal.is_causal and not masked.is_causal
    text = "Dear Ann,\n  it is 5 o'clock ."
    assert causal.decode(causal.encode([text])) == [text]
    assert causal.generate(make_prompts(3), new_tokens=5) == LanguageModel.from_loaded(
        gpt2, tokenizer
    ).generate(make_prompts(3), new_tokens=5)
    assert (
        causal.encode([]) == []
        and causal.decode([]) == []
        and causal.generate([], new_tokens=4) == []
    )
    halved = LanguageModel.load(tmp_path / "causal", dtype="bfloat16")
    assert {weight.dtype for weight in halved.model.parameters()} == {torch.bfloat16}
    assert halved.load_another(tmp_path / "masked").model.dtype == torch.bfloat16
    for exact, rounded in zip(
        causal.token_losses(make_prompts(3)), halved.token_losses(make_prompts(3)), strict=True
    ):
        assert rounded.dtype == np.float32
        np.testing.assert_allclose(rounded, exact, rtol=0.1, atol=0.5)
    with pytest.raises(UsageError, match="masked model cannot continue prompts"):
        masked.generate([[3]], new_tokens=1)
    with pytest.raises(UsageError, match="causal model cannot fill masks"):
        causal.fill_masks([[3]], [[0]])


def test_invalid_requests_are_refused(
    model: LanguageModel, gpt2: Any, tokenizer: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="exceed the model's context of 64"):
        model.generate([[3] * 60], new_tokens=5)
    with pytest.raises(UsageError, match="did you mean greedy"):
        model.generate([[3]], new_tokens=5, mode="greddy")
    with pytest.raises(UsageError, match="no such folder"):
        LanguageModel.load(tmp_path / "none")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"no pickle is read")
    with pytest.raises(OutputBroken, match="other formats can run code"):
        LanguageModel.load(tmp_path)
    for device, message in (
        ("cudda", "did you mean cuda"),
        ("cpu,,cuda", "device : known"),
        ("cuda:x", "known|did you mean"),
    ):
        with pytest.raises(UsageError, match=message):
            resolve_devices(device)
    assert resolve_devices("cpu, cpu") == ["cpu", "cpu"]
    with pytest.raises(UsageError, match="did you mean bfloat16"):
        LanguageModel.load(tmp_path, dtype="bfloat61")
    larger_tokenizer = type("More", (), {"__len__": lambda self: 300})()
    with pytest.raises(OutputBroken, match="do not belong together"):
        LanguageModel.from_loaded(gpt2, larger_tokenizer)


def need_own_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    names = {
        "model_type": "own",
        "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"},
    }
    (folder / "config.json").write_text(json.dumps(config | names))
    (folder / "code.py").write_text(f"open({str(folder / 'was-run')!r}, 'w')")


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (need_own_code, r"needs code of its own \(auto_map in config.json\), which is not run"),
        (cut_weights, r"damaged or incomplete \(SafetensorError\)"),
        (
            lambda folder: change_weights(
                folder, lambda weights: weights.pop("transformer.h.0.mlp.c_fc.weight")
            ),
            "lacks 1 weights of a GPT2",
        ),
        (
            lambda folder: change_weights(
                folder, lambda weights: weights["transformer.wte.weight"][3].fill_(float("nan"))
            ),
            "weights that are not finite numbers",
        ),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer"),
        (
            lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
            "other formats",
        ),
    ],
)
def test_model_folders_that_cannot_be_used(
    gpt2: Any, tokenizer: Any, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    """Training and evaluation say the same of a folder."""
    folder = tmp_path / "model"
    gpt2.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    damage(folder)
    with pytest.raises(OutputBroken, match=message):
        LanguageModel.load(folder)
    with pytest.raises(InputRefused, match=message):
        load_tokenizer(folder)
        load_model(folder, "causal")
    assert not (folder / "was-run").exists()
