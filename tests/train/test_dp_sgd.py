"""DP-SGD follows Abadi et al.: each unit clipped, noise added once, divided by the expected batch;
and the spent epsilon is reported."""

from __future__ import annotations

import json
import math
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from safetensors.torch import load_file

from sanitize import train
from sanitize.core.exponential_mechanism import format_bound
from sanitize.errors import InputRefused, MissingExtra, UsageError
from sanitize.train import accountant, dp_sgd, noise, recipe_data
from sanitize.train.batches import TokenRows
from sanitize.train.checkpoint import CheckpointEvent
from sanitize.train.dp_sgd import DpSgdStep, PerSampleGradients, PoissonBatchPlan
from sanitize.train.keyed_random import KeyedRandom, load_or_create_random, make_insecure_random
from sanitize.train.model import build_model
from sanitize.train.objectives.objective import TrainContext
from sanitize.train.recipe import PrivacySettings, Recipe
from tests.support import SimulatedKill

CPU = torch.device("cpu")


def make_private_recipe(recipe: Any, path: Path, **options: Any) -> dict[str, Any]:
    """A tiny private recipe with reproducible draws."""
    privacy = {"sigma": 1.0, "delta": 1e-3, "insecure_seed": 5, **options.pop("privacy", {})}
    sections = {name: options.pop(name, {}) for name in ("model", "objective", "run", "tokenizer")}
    return {
        **recipe(path, data={"layout": "document", **options.pop("data", {})}, **sections),
        "privacy": privacy,
    }


MakeStep = Callable[..., DpSgdStep]


@pytest.fixture
def make_step(corpus: Any, recipe: Any) -> MakeStep:
    """The private step of a recipe, over its rows and a fresh model without dropout."""

    def make(
        arch: str = "gpt2",
        *,
        use: str = "",
        method: str = "vmap",
        users: list[str] | None = None,
        **privacy: Any,
    ) -> DpSgdStep:
        data = corpus(**({"user_id": users} if users else {}))
        settings = Recipe.load(
            make_private_recipe(
                recipe,
                data,
                model={"arch": arch, "dropout": 0.0, "context": 48},
                objective={"use": use or ("masked" if arch in ("bert", "roberta") else "causal")},
                privacy=privacy,
            )
        )
        documents = recipe_data.read_recipe_documents(settings, settings.data.path)
        tokenizer = recipe_data.get_tokenizer(settings, documents)
        objective = settings.build_objective()
        model, context = build_model(
            settings.model, head=objective.HEAD, tokenizer=tokenizer, seed=1
        )
        rows = recipe_data.make_rows(documents, settings, objective, tokenizer, context)
        objective.setup(
            TrainContext(
                rows=rows, tokenizer=tokenizer, model=model, device=CPU, seed=3, batch_size=8
            )
        )
        assert settings.privacy is not None
        owners = documents.table.column("user") if settings.privacy.unit == "user" else None
        plan = PoissonBatchPlan(
            row_count=len(rows),
            batch_size=8,
            seed=0,
            epochs=2,
            unit_of_row=dp_sgd.assign_units(rows, owners),
            random=make_insecure_random(settings.privacy.insecure_seed or 0),
        )
        return DpSgdStep(
            batch_plan=plan,
            rows=rows,
            per_sample_gradients=PerSampleGradients(model, objective, method=method),
            noise_multiplier=settings.privacy.sigma or 0.0,
            clip_norm=settings.privacy.clip,
            n_micro_batches=1,
            to_device=lambda collated: {
                name: torch.from_numpy(value) for name, value in collated.items()
            },
        )

    return make


def compute_row_gradients(
    step: DpSgdStep, row_numbers: Any, epoch: int = 0
) -> list[dict[str, torch.Tensor]]:
    """The gradient of each row's mean loss, from a backward pass over that row alone."""
    gradients = []
    for number in row_numbers:
        collated = step.per_sample_gradients.objective.collate(
            step.rows.make_batch(np.array([number]), epoch), training=True
        )
        step.per_sample_gradients.model.zero_grad()
        sums = step.per_sample_gradients.objective.loss_sums(
            step.per_sample_gradients.model, step.to_device(collated), training=True
        )
        (
            sums["loss"] / max(step.per_sample_gradients.objective.loss_counts(collated)["loss"], 1)
        ).backward()
        gradients.append(
            {
                name: (
                    torch.zeros_like(parameter)
                    if parameter.grad is None
                    else parameter.grad.clone()
                )
                for name, parameter in step.per_sample_gradients.parameters.items()
            }
        )
    step.per_sample_gradients.model.zero_grad()
    return gradients


def compute_norm(gradient: dict[str, torch.Tensor]) -> float:
    return math.sqrt(sum(float(value.double().square().sum()) for value in gradient.values()))


def get_step_gradient(step: DpSgdStep) -> dict[str, torch.Tensor]:
    """The gradient that the step set, multiplied by the expected batch size."""
    return {
        name: parameter.grad * step.batch_plan.batch_size
        for name, parameter in step.per_sample_gradients.parameters.items()
    }


def relative_distance(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    return compute_norm({name: actual[name] - expected[name] for name in actual}) / compute_norm(
        expected
    )


def sum_gradients(gradients: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {
        name: sum((gradient[name] for gradient in gradients[1:]), start=gradients[0][name])
        for name in gradients[0]
    }


@pytest.mark.parametrize("method", ["vmap", "loop"])
@pytest.mark.parametrize("arch", ["gpt2", "gpt_neo", "bert", "roberta"])
def test_row_gradients_equal_those_of_a_loop(make_step: MakeStep, arch: str, method: str) -> None:
    """Rows of different lengths, padded in one batch, against each row alone; and vmap is used if
    it is requested."""
    step = make_step(arch, method=method)
    row_numbers = step.batch_plan.get_step_rows(0)
    assert len(set(step.rows.lengths[row_numbers].tolist())) > 1
    collated = step.per_sample_gradients.objective.collate(
        step.rows.make_batch(row_numbers, 0), training=True
    )
    weights = dp_sgd.count_loss_terms_by_row(step.per_sample_gradients.objective, collated)
    grads, sums = step.per_sample_gradients(step.to_device(collated), step.to_device(weights))
    assert step.per_sample_gradients.method == method
    expected = compute_row_gradients(step, row_numbers)
    for row, row_gradient in enumerate(expected):
        assert (
            relative_distance({name: value[row] for name, value in grads.items()}, row_gradient)
            < 1e-4
        )
    batch_sums = step.per_sample_gradients.objective.loss_sums(
        step.per_sample_gradients.model, step.to_device(collated), training=True
    )
    assert float(sums["loss"].sum()) == pytest.approx(float(batch_sums["loss"]), rel=1e-5)


def test_other_objectives_are_vectorised(make_step: MakeStep) -> None:
    for use in ("goldfish",):
        step = make_step(use=use, sigma=0.0, clip=1e6)
        step.set_gradients(0)
        assert step.per_sample_gradients.method == "vmap"
        assert (
            relative_distance(
                get_step_gradient(step),
                sum_gradients(compute_row_gradients(step, step.batch_plan.get_step_rows(0))),
            )
            < 1e-4
        )


def test_each_unit_is_clipped(make_step: MakeStep) -> None:
    """The sum is that of clipped gradients; one row is never worth more than C, however large its
    gradient."""
    step = make_step(sigma=0.0, clip=0.5)
    row_numbers = step.batch_plan.get_step_rows(0)
    row_gradients = compute_row_gradients(step, row_numbers)
    assert min(map(compute_norm, row_gradients)) > 0.5, "all units are clipped"
    clipped = [
        {name: value * 0.5 / compute_norm(gradient) for name, value in gradient.items()}
        for gradient in row_gradients
    ]
    step.set_gradients(0)
    assert relative_distance(get_step_gradient(step), sum_gradients(clipped)) < 1e-4
    assert compute_norm(get_step_gradient(step)) <= 0.5 * len(row_numbers) * (1 + 1e-6)
    factors = dp_sgd.clip_factors(
        {"a": torch.tensor([[3.0], [0.1], [0.0]]), "b": torch.tensor([[4.0], [0.0], [0.0]])}, 1.0
    )
    assert factors.tolist() == pytest.approx([0.2, 1.0, 1.0], rel=1e-6)
    with pytest.raises(UsageError, match="not a finite number"):
        dp_sgd.clip_factors({"a": torch.tensor([[float("nan")]])}, 1.0)


@pytest.mark.parametrize("arch", ["gpt2", "gpt_neo", "bert", "roberta"])
def test_bf16_gradients_are_vectorised(make_step: MakeStep, arch: str) -> None:
    """Forward passes in bf16 autocast, backward passes outside of it: vmap supports all models;
    gradients are those of float32, rounded."""
    step, warnings, is_backward_in_autocast = make_step(arch), list[str](), list[bool]()
    step.per_sample_gradients.on_warning = warnings.append
    row_numbers = step.batch_plan.get_step_rows(0)
    expected = compute_row_gradients(step, row_numbers)
    collated = step.per_sample_gradients.objective.collate(
        step.rows.make_batch(row_numbers, 0), training=True
    )
    weights = dp_sgd.count_loss_terms_by_row(step.per_sample_gradients.objective, collated)
    step.per_sample_gradients.autocast = lambda: torch.autocast("cpu", dtype=torch.bfloat16)

    class Probe(torch.autograd.Function):
        """The identity; its backward pass records whether autocast is on."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            is_backward_in_autocast.append(torch.is_autocast_enabled("cpu"))
            return gradient

    embeddings = step.per_sample_gradients.model.get_input_embeddings()
    embeddings.register_forward_hook(lambda module, inputs, output: Probe.apply(output))
    for method in ("vmap", "loop"):
        step.per_sample_gradients.method = method
        grads, _ = step.per_sample_gradients(step.to_device(collated), step.to_device(weights))
        assert step.per_sample_gradients.method == method and not warnings
        for row, row_gradient in enumerate(expected):
            found = {name: value[row] for name, value in grads.items()}
            assert {value.dtype for value in found.values()} == {torch.float32}
            assert 1e-5 < relative_distance(found, row_gradient) < 0.05, "computed in bf16"
    assert is_backward_in_autocast and not any(is_backward_in_autocast)


def test_too_little_memory_is_not_taken_for_an_unsupported_model(
    make_step: MakeStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = make_step()
    for error in (
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ):

        def fail(*_: Any, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr(PerSampleGradients, "_gradients_by_vmap", fail)
        with pytest.raises(RuntimeError, match="memory"):
            step.set_gradients(0)
    assert step.per_sample_gradients.method == "vmap"


def test_gradients_of_rows_exist_once(make_step: MakeStep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a micro-batch are gone when the next one is computed; units of one row are clipped
    without a copy of their gradients."""
    step = make_step()
    step.n_micro_batches = 4
    compute, pointers, alive_counts = (
        DpSgdStep._compute_row_gradients,
        list[dict[str, int]](),
        list[int](),
    )
    references: list[Any] = []

    def record(self: DpSgdStep, *arguments: Any) -> Any:
        alive_counts.append(sum(reference() is not None for reference in references))
        found = compute(self, *arguments)
        references.extend(weakref.ref(value) for value in found[0].values())
        pointers.append({name: value.data_ptr() for name, value in found[0].items()})
        return found

    def compare(
        grads: dict[str, Any], clip_norm: float, clip_factors: Any = dp_sgd.clip_factors
    ) -> Any:
        assert {name: value.data_ptr() for name, value in grads.items()} == pointers[-1]
        return clip_factors(grads, clip_norm)

    monkeypatch.setattr(DpSgdStep, "_compute_row_gradients", record)
    monkeypatch.setattr(dp_sgd, "clip_factors", compare)
    step.set_gradients(0)
    assert len(alive_counts) > 2 and not any(alive_counts)


def test_slow_noise_is_reported(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, lines = make_private_recipe(recipe, corpus(), run={"max_steps": 1}), list[str]()
    train.fit(settings, tmp_path / "fast", progress=lines.append)
    assert not any("warning" in line for line in lines)
    monkeypatch.setattr("sanitize.train.trainer.SLOW_NOISE_WEIGHTS", 1000)
    result = train.fit(settings, tmp_path / "slow", progress=lines.append)
    assert any(line.startswith("warning: noise for ") and "on the CPU" in line for line in lines)
    assert result.privacy["noise_generator"] == "ChaCha20"


@pytest.mark.parametrize("pieces", [1, 3, 8])
def test_a_user_is_clipped_once_for_all_rows(make_step: MakeStep, pieces: int) -> None:
    """Users of ten rows: a user's rows are drawn together, summed, then clipped, however the batch
    is cut."""
    step = make_step(
        unit="user", users=[f"u{number % 3}" for number in range(30)], sigma=0.0, clip=0.5
    )
    step.batch_plan = PoissonBatchPlan(**{**vars(step.batch_plan), "batch_size": 2})
    step.n_micro_batches = pieces
    step_no = next(
        step_no
        for step_no in range(50)
        if len(np.unique(step.batch_plan.unit_of_row[step.batch_plan.get_step_rows(step_no)])) == 2
    )
    row_numbers = step.batch_plan.get_step_rows(step_no)
    assert len(row_numbers) == 20, "all rows of both"
    row_gradients = compute_row_gradients(step, row_numbers, step.batch_plan.epoch_of_step(step_no))
    users = [sum_gradients(row_gradients[:10]), sum_gradients(row_gradients[10:])]
    step.set_gradients(step_no)
    assert (
        relative_distance(
            get_step_gradient(step),
            sum_gradients(
                [
                    {name: value * 0.5 / compute_norm(gradient) for name, value in gradient.items()}
                    for gradient in users
                ]
            ),
        )
        < 1e-4
    )


def test_documents_of_one_id_are_one_unit() -> None:
    import pyarrow as pa

    empty = np.zeros(0, bool)
    rows = TokenRows(
        token_ids=np.zeros(8, np.int32),
        row_starts=np.array([0, 2, 4, 6, 8]),
        doc_numbers=np.array([0, 0, 0, 0, 1, 1, 2, 2], np.int32),
        loss_mask=empty,
        word_ids=None,
        is_maskable=None,
        doc_labels=None,
        doc_ids=pa.array(["a", "b", "a"]),
        pad_id=0,
    )
    assert dp_sgd.assign_units(rows, None).tolist() == [0, 0, 1, 0]
    assert dp_sgd.assign_units(rows, pa.array(["u", "u", "v"])).tolist() == [0, 0, 0, 1]
    with pytest.raises(InputRefused, match="1 documents have no user"):
        dp_sgd.assign_units(rows, pa.array(["u", None, "v"]))


@pytest.mark.parametrize("pieces", [1, 4])
def test_noise_is_added_once_with_its_deviation(make_step: MakeStep, pieces: int) -> None:
    """The noise of a step, whatever it is cut into, and of one without any row, has the deviation
    sigma C."""
    noiseless, noisy = make_step(sigma=0.0, clip=0.5), make_step(sigma=1.3, clip=0.5)
    noisy.n_micro_batches = pieces
    empty = next(
        step_no
        for step_no in range(10_000)
        if not len(
            PoissonBatchPlan(**{**vars(noisy.batch_plan), "batch_size": 1}).get_step_rows(step_no)
        )
    )
    full = max(range(20), key=lambda step_no: len(noisy.batch_plan.get_step_rows(step_no)))
    assert len(noisy.batch_plan.get_step_rows(full)) > 8, "more than one piece"
    for step_no in (full, empty):
        if step_no == empty:
            noisy.batch_plan, noiseless.batch_plan = (
                PoissonBatchPlan(**{**vars(step.batch_plan), "batch_size": 1})
                for step in (noisy, noiseless)
            )
        noiseless.set_gradients(step_no)
        noisy.set_gradients(step_no)
        added = torch.cat(
            [
                (get_step_gradient(noisy)[name] - get_step_gradient(noiseless)[name]).flatten()
                for name in get_step_gradient(noisy)
            ]
        )
        assert len(added) > 20_000
        assert float(added.std()) == pytest.approx(1.3 * 0.5, rel=0.03)
        assert abs(float(added.mean())) < 4 * 1.3 * 0.5 / math.sqrt(len(added))
    assert compute_norm(get_step_gradient(noiseless)) == 0


def test_gradients_are_divided_by_the_expected_batch_size(make_step: MakeStep) -> None:
    step = make_step(sigma=0.0, clip=1e6)
    step_no = next(
        step_no
        for step_no in range(50)
        if len(step.batch_plan.get_step_rows(step_no)) not in (0, 8)
    )
    step.set_gradients(step_no)
    grads = {
        name: parameter.grad for name, parameter in step.per_sample_gradients.parameters.items()
    }
    expected = {
        name: value / 8
        for name, value in sum_gradients(
            compute_row_gradients(
                step, step.batch_plan.get_step_rows(step_no), step.batch_plan.epoch_of_step(step_no)
            )
        ).items()
    }
    assert relative_distance(grads, expected) < 1e-4


def test_units_are_drawn_independently() -> None:
    """A unit is in a step with probability q, by itself: rate, spread of the sizes, and no tie
    between two units."""
    plan = PoissonBatchPlan(
        row_count=100,
        batch_size=10,
        seed=0,
        epochs=400,
        unit_of_row=np.arange(100),
        random=make_insecure_random(1),
    )
    assert plan.sample_rate == 0.1 and plan.step_count == 4000 and plan.steps_per_epoch == 10
    is_drawn = np.zeros((plan.step_count, 100), bool)
    for step in range(plan.step_count):
        is_drawn[step, plan.get_step_rows(step)] = True
    sizes = is_drawn.sum(axis=1)
    assert abs(sizes.mean() - 10) < 5 * 3 / math.sqrt(4000) and abs(sizes.var() - 9) < 1
    assert np.abs(is_drawn.mean(axis=0) - 0.1).max() < 5 * 0.3 / math.sqrt(4000)
    correlations = np.corrcoef(is_drawn.T)[np.triu_indices(100, 1)]
    assert np.abs(correlations).max() < 6 / math.sqrt(4000)
    first = plan.compute_first_step_by_row()
    assert (first == is_drawn.argmax(axis=0) + 1).all()


def test_keyed_random_draws() -> None:
    random, other_random = KeyedRandom(b"a" * 32), KeyedRandom(b"b" * 32)
    uniform = random.draw_uniform(100_000, "sample", 0)
    assert (
        uniform.min() > 0
        and uniform.max() < 1
        and scipy.stats.kstest(uniform, "uniform").pvalue > 0.001
    )
    assert np.array_equal(uniform, random.draw_uniform(100_000, "sample", 0))
    for other in (
        random.draw_uniform(9, "sample", 1),
        random.draw_uniform(9, "noise", 0),
        other_random.draw_uniform(9, "sample", 0),
    ):
        assert not np.isin(other, uniform[:9]).any()
    assert repr(random) == "KeyedRandom()"


def test_chacha20_blocks_are_those_of_the_rfc() -> None:
    """RFC 8439, section 2.3.2: block 1 of the key 00 01 ... 1f; the upper half of our counter is
    the first word of the RFC's nonce."""
    words = noise.compute_chacha20_blocks(
        bytes(range(32)), 0x0900000000000001, 2, CPU, (0x4A000000, 0)
    )[:, 0]
    assert [int(word) & 0xFFFFFFFF for word in words] == [
        0xE4E7F110,
        0x15593BD1,
        0x1FDD0F50,
        0xC47120A3,
        0xC7F4D1C7,
        0x0368C033,
        0x9AAA2204,
        0x4E6CD4C3,
        0x466482D2,
        0x09AA9F07,
        0x05D7C214,
        0xA2028BD9,
        0xD19C12B5,
        0xB94E16DE,
        0xE883D0CB,
        0x4E3C50A2,
    ]


@pytest.mark.parametrize("first_block", [0, 5, (1 << 32) - 7, 3 << 32])
def test_the_bits_of_a_cpu_are_those_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, first_block: int
) -> None:
    """OpenSSL's blocks equal those computed on tensors, also beyond 32 bits of the counter."""
    key = bytes(range(32))
    words = (
        noise.compute_chacha20_blocks(key, first_block, 7, CPU)
        .numpy()
        .view(np.uint32)
        .astype(np.uint64)
    )
    expected = (words[0::2] | words[1::2] << np.uint64(32)).view(np.int64)
    assert np.array_equal(noise.draw_bits(key, first_block, 7, CPU).numpy(), expected)
    # the branch of a GPU, on a device that has no other
    monkeypatch.setattr(
        noise,
        "compute_chacha20_blocks",
        lambda *_: torch.from_numpy(words.astype(np.uint32).view(np.int32)),
    )
    assert np.array_equal(
        noise.draw_bits(key, first_block, 7, torch.device("meta")).numpy(), expected
    )


def test_noise_is_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    random, other_random = KeyedRandom(b"a" * 32), KeyedRandom(b"b" * 32)
    key = random.derive_key("noise", 0, "w")
    draws = noise.draw_normal(key, 400_001, CPU)
    numbers = draws.double().numpy()
    assert draws.dtype == torch.float32 and scipy.stats.kstest(numbers, "norm").pvalue > 0.001
    assert (np.abs(numbers) > 3).mean() == pytest.approx(0.0027, rel=0.15) and len(
        np.unique(numbers)
    ) > 390_000
    for distance in (1, 2, 200_000):
        assert abs(np.corrcoef(numbers[:-distance], numbers[distance:])[0, 1]) < 0.01
    monkeypatch.setattr(noise, "_CPU_BLOCK_SIZE", 1 << 10)
    assert torch.equal(noise.draw_normal(key, 4_001, CPU), draws[:4_001]), "however it is cut"
    for other_key in (
        random.derive_key("noise", 1, "w"),
        random.derive_key("noise", 0, "v"),
        other_random.derive_key("noise", 0, "w"),
    ):
        assert (
            len(other_key) == 32
            and not np.isin(noise.draw_normal(other_key, 9, CPU).numpy(), numbers[:9]).any()
        )
    bits = noise.draw_bits(key, 1, 1, CPU)[:, 0].tolist()
    uniform = [((number >> 12) + 2**51 + 0.5) * 2.0**-52 for number in bits]
    assert all(0 < number < 1 for number in uniform)
    pairs = [
        (math.sqrt(-2 * math.log(uniform[at])), 2 * math.pi * uniform[at + 1])
        for at in range(0, 8, 2)
    ]
    by_hand = [
        sum(radius * function(angle) for radius, angle in pairs) / 2
        for function in (math.cos, math.sin)
    ]
    assert numbers[2:4].tolist() == pytest.approx(by_hand, rel=1e-6)


def test_noise_of_a_device_without_float64_is_drawn_on_the_cpu() -> None:
    assert [noise.choose_noise_device(name).type for name in ("cpu", "mps", "cuda")] == [
        "cpu",
        "cpu",
        "cuda",
    ]


def test_the_noise_key_is_private_and_reused(tmp_path: Path) -> None:
    path = tmp_path / "noise.key"
    first = load_or_create_random(path, has_started=False)
    assert path.stat().st_mode & 0o777 == 0o600
    assert first.derive_seed("x") == load_or_create_random(path, has_started=True).derive_seed("x")
    assert first.derive_seed("x") != load_or_create_random(
        tmp_path / "other.key", has_started=False
    ).derive_seed("x")
    with pytest.raises(UsageError, match="key of this private run is missing"):
        load_or_create_random(tmp_path / "gone.key", has_started=True)
    # a run that starts never has the noise of another one
    assert first.derive_seed("x") != load_or_create_random(path, has_started=False).derive_seed("x")


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_without_noise_and_clipping_training_equals_the_plain_loop(
    corpus: Any, recipe: Any, tmp_path: Path, objective: str
) -> None:
    """q = 1, no noise, no clipping, rows of like length: AdamW ends where the plain loop ends."""
    lines = [
        json.dumps({"doc_id": str(number), "text": text})
        for number, text in enumerate(["plan ab is on", "plan bc is on", "plan cd is on"] * 3)
    ]
    data = tmp_path / "even.jsonl"
    data.write_text("\n".join(lines))
    common: dict[str, Any] = {
        "model": {"arch": "bert" if objective == "masked" else "gpt2", "dropout": 0.0},
        "objective": {"use": objective, **({"share": 1.0} if objective == "masked" else {})},
        "tokenizer": {"vocab": 260},
        "run": {"batch": 9, "epochs": 3, "clip": 0.0, "epsilon": 1e-3},
    }
    plain_result = train.fit(
        {**recipe(data, data={"layout": "document"}, **common)}, tmp_path / "plain"
    )
    private_result = train.fit(
        make_private_recipe(
            recipe, data, **common, privacy={"sigma": 0.0, "clip": 1e6, "delta": 1e-3}
        ),
        tmp_path / "private",
    )
    assert (
        private_result.steps == plain_result.steps == 3
        and private_result.privacy["sampling_rate"] == 1.0
        and private_result.privacy["epsilon"] is None
    )
    weights = [
        load_file(tmp_path / name / "checkpoints" / "step-000003" / "model.safetensors")
        for name in ("private", "plain", "plain")
    ]
    weights[2] = load_file(tmp_path / "plain" / "checkpoints" / "step-000000" / "model.safetensors")
    for name in weights[0]:
        assert torch.allclose(weights[0][name], weights[1][name], atol=1e-5), name
    assert any(
        not torch.allclose(weights[1][name], weights[2][name], atol=1e-3) for name in weights[0]
    )


@pytest.mark.slow
def test_resume_after_kill_repeats_the_same_noise_and_batches(
    corpus: Any, recipe: Any, tmp_path: Path
) -> None:
    """With a secret key: repeated steps have the same noise and batches, and the key is deleted at
    the end."""
    settings = make_private_recipe(
        recipe, corpus(), privacy={"insecure_seed": None}, run={"state_every": 1}
    )
    gradient_sums: list[dict[int, str]] = [{}, {}]
    set_gradients = DpSgdStep.set_gradients

    def record_gradients(number: int, last: int | None) -> Callable[[DpSgdStep, int], Any]:
        def step(self: DpSgdStep, step_no: int) -> Any:
            result = set_gradients(self, step_no)
            gradient_sums[number][step_no] = str(
                [
                    float(parameter.grad.double().sum())
                    for parameter in self.per_sample_gradients.parameters.values()
                ]
            )
            if step_no == last:
                raise SimulatedKill  # before the optimizer's step and before the state is written
            return result

        return step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DpSgdStep, "set_gradients", record_gradients(0, 3))
        with pytest.raises(SimulatedKill):
            train.fit(settings, tmp_path / "run")
        assert (tmp_path / "run" / "noise.key").is_file()
        patch.setattr(DpSgdStep, "set_gradients", record_gradients(1, None))
        result = train.fit(settings, tmp_path / "run")
    assert sorted(gradient_sums[0]) == [0, 1, 2, 3] and sorted(gradient_sums[1]) == [3, 4, 5, 6, 7]
    assert gradient_sums[0][3] == gradient_sums[1][3], "the lost step is repeated"
    assert result.privacy["steps"] == 8 and not (tmp_path / "run" / "noise.key").exists()
    assert train.fit(settings, tmp_path / "run") == result
    other_run = train.fit(settings, tmp_path / "again")
    weights, other_weights = (
        load_file(tmp_path / name / "checkpoints" / other_run.final / "model.safetensors")
        for name in ("run", "again")
    )
    assert not torch.allclose(
        weights["transformer.wte.weight"], other_weights["transformer.wte.weight"], atol=1e-4
    ), "another key gives other noise"


def test_a_run_without_its_key_is_refused(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    settings = make_private_recipe(
        recipe, corpus(), privacy={"insecure_seed": None}, run={"max_steps": 1}
    )
    train.fit(settings, tmp_path / "run")
    (tmp_path / "run" / "train.json").unlink()
    with pytest.raises(UsageError, match="the key of this private run is missing"):
        train.fit(settings, tmp_path / "run")


def test_a_run_with_the_noise_of_an_earlier_version_is_refused(
    corpus: Any, recipe: Any, tmp_path: Path
) -> None:
    settings = make_private_recipe(recipe, corpus(), run={"max_steps": 1})
    train.fit(settings, tmp_path / "run")
    begun = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert begun["identity"].pop("noise generator") == noise.NOISE_VERSION
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(begun))
    with pytest.raises(UsageError, match="holds a run of another noise generator"):
        train.fit(settings, tmp_path / "run")


@pytest.mark.slow
def test_spent_epsilon_is_reported(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    """A target epsilon, a run that is stopped early, and every file that reports the spent
    epsilon."""
    settings = make_private_recipe(
        recipe, corpus(), privacy={"sigma": None, "epsilon": 3.0, "insecure_seed": None}
    )

    def stop(event: CheckpointEvent) -> bool:
        return bool(event.metadata["step"] >= 4)

    result = train.fit(settings, tmp_path / "run", hook=stop)
    privacy = result.privacy
    assert result.stopped_early and privacy["steps"] == 4 and privacy["planned_steps"] == 8
    assert (
        2.9 < privacy["planned_epsilon"] <= 3.0 and privacy["epsilon"] < privacy["planned_epsilon"]
    )
    assert privacy["epsilon"] == accountant.compute_epsilon(
        "prv", noise_multiplier=privacy["sigma"], sample_rate=8 / 30, steps=4, delta=1e-3
    )
    assert (
        privacy["unit"] == "record"
        and privacy["unit_count"] == 30
        and privacy["secret_randomness"]
        and privacy["clip"] == 1.0
    )
    assert privacy["claim"].startswith(
        f"({format_bound(privacy['epsilon'])}, 0.001)-differential privacy"
    )
    assert any("tokenizer" in note for note in privacy["not_covered"]) and any(
        "stop early" in note for note in privacy["not_covered"]
    )
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["privacy"] == privacy
    final = json.loads(
        (tmp_path / "run" / "checkpoints" / result.final / "checkpoint.json").read_text()
    )
    assert final["privacy"]["epsilon"] == privacy["epsilon"]
    untrained = json.loads(
        (tmp_path / "run" / "checkpoints" / "step-000000" / "checkpoint.json").read_text()
    )
    assert untrained["privacy"]["epsilon"] == 0.0


def test_a_seeded_run_has_no_privacy_claim(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    privacy = train.fit(
        make_private_recipe(recipe, corpus(), run={"epochs": 1}), tmp_path / "run"
    ).privacy
    assert privacy["claim"].startswith("none") and not privacy["secret_randomness"]


# eps_rdp and eps_prv of opacus 1.6.0, as the reference numbers of this project have them; the first
# two columns are q and sigma
GOLDEN = [
    (0.01, 1.1, 1000, 1e-05, 1.7117700912203435, 1.525472649316146),
    (0.01, 0.8, 5000, 1e-05, 7.530424136227856, 6.852110374235637),
    (0.004, 1.0, 2500, 1e-05, 1.3131023186712891, 1.068851599383549),
    (0.004, 0.7, 2500, 1e-05, 3.483472446335752, 2.8178163714776603),
    (1.0, 10.0, 1, 1e-05, 0.3752912223662765, 0.35070249948421145),
    (1.0, 5.0, 10, 1e-06, 3.131089774915035, 2.931738266870425),
    (0.004266666666666667, 1.3, 3515, 1e-05, 0.9544295087300312, 0.874476841441553),
]


@pytest.mark.parametrize(("q", "sigma", "steps", "delta", "rdp", "prv"), GOLDEN)
def test_accountants_give_the_golden_numbers(
    q: float, sigma: float, steps: int, delta: float, rdp: float, prv: float
) -> None:
    pytest.importorskip("opacus")
    assert accountant.compute_epsilon(
        "rdp", noise_multiplier=sigma, sample_rate=q, steps=steps, delta=delta
    ) == pytest.approx(rdp, rel=0.01)
    assert accountant.compute_epsilon(
        "prv", noise_multiplier=sigma, sample_rate=q, steps=steps, delta=delta
    ) == pytest.approx(prv, rel=0.01)


def test_accountants_bound_the_gaussian_mechanism() -> None:
    """One step over all units is the Gaussian mechanism, whose delta is known exactly (Balle and
    Wang 2018, theorem 8)."""
    pytest.importorskip("opacus")
    stats = pytest.importorskip("scipy.stats")
    sigma, delta = 2.0, 1e-5
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        a, b = 1 / (2 * sigma), middle * sigma
        delta_at_middle = stats.norm.cdf(a - b) - math.exp(middle) * stats.norm.cdf(-a - b)
        low, high = (middle, high) if delta_at_middle > delta else (low, middle)
    rdp, prv = (
        accountant.compute_epsilon(
            name, noise_multiplier=sigma, sample_rate=1.0, steps=1, delta=delta
        )
        for name in ("rdp", "prv")
    )  # type: ignore[arg-type]
    assert rdp is not None and prv is not None
    assert low <= prv <= low * 1.02 and low <= rdp <= low * 1.1


def test_noise_for_an_epsilon() -> None:
    pytest.importorskip("opacus")
    noise_multiplier = accountant.find_noise_multiplier(
        "rdp", target_epsilon=8.0, sample_rate=16 / 2000, steps=375, delta=1e-5
    )
    assert noise_multiplier == pytest.approx(0.533, rel=0.02)
    spent = accountant.compute_epsilon(
        "rdp", noise_multiplier=noise_multiplier, sample_rate=16 / 2000, steps=375, delta=1e-5
    )
    assert spent is not None and 7.98 < spent <= 8.0
    # the default asks for less noise by the same budget
    tight = PrivacySettings(epsilon=8.0).accountant
    less = accountant.find_noise_multiplier(
        tight, target_epsilon=8.0, sample_rate=16 / 2000, steps=375, delta=1e-5
    )
    spent = accountant.compute_epsilon(
        tight, noise_multiplier=less, sample_rate=16 / 2000, steps=375, delta=1e-5
    )
    assert less < noise_multiplier - 0.02 and spent is not None and 7.9 < spent <= 8.0
    assert (
        accountant.compute_epsilon(
            "rdp", noise_multiplier=1.0, sample_rate=0.1, steps=0, delta=1e-5
        )
        == 0.0
    )
    assert (
        accountant.compute_epsilon(
            "rdp", noise_multiplier=0.0, sample_rate=0.1, steps=1, delta=1e-5
        )
        is None
    )


def test_group_privacy() -> None:
    assert accountant.group_privacy(0.5, 1e-6, 1) == pytest.approx((0.5, 1e-6))
    epsilon, delta = accountant.group_privacy(0.5, 1e-6, 3)
    assert epsilon == 1.5 and delta == pytest.approx(3e-6 * math.e)
    assert accountant.group_privacy(8.0, 1e-5, 20) == (
        160.0,
        None,
    ), "a delta above 1 is no guarantee"
    assert accountant.group_privacy(None, 1e-5, 2) == (None, None)


def test_layers_that_mix_rows_are_refused() -> None:
    class Mixing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))

    with pytest.raises(UsageError, match=r"inner\.1 \(BatchNorm1d\) mixes rows"):
        dp_sgd.check_rows_independent(Mixing())
    dp_sgd.check_rows_independent(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2)))
    dp_sgd.check_rows_independent(torch.nn.InstanceNorm1d(2))
    with pytest.raises(UsageError, match="keeps statistics"):
        dp_sgd.check_rows_independent(
            torch.nn.Sequential(torch.nn.InstanceNorm1d(2, track_running_stats=True))
        )


def test_dropout_is_drawn_for_each_row(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    """Dropout removes different units from two equal rows, and vmap is used with dropout on."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from sanitize.train.objectives.causal import Causal

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config).train()
    rows = PerSampleGradients(model, Causal(use="causal"))
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]] * 2)
    collated = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.roll(-1, 1)}
    _, sums = rows(collated, {"loss": torch.tensor([6.0, 6.0])})
    assert rows.method == "vmap" and float(sums["loss"][0]) != float(sums["loss"][1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"privacy": {"sigma": None}}, "epsilon or sigma"),
        ({"privacy": {"epsilon": 1.0}}, "epsilon or sigma"),
        ({"privacy": {"sigma": None, "epsilon": 0.0}}, "privacy.epsilon: expected more than 0"),
        ({"privacy": {"clip": 0.0}}, "privacy.clip"),
        ({"privacy": {"delta": 1.0}}, "privacy.delta"),
        ({"privacy": {"unit": "person"}}, "'record' or 'user'"),
        ({"privacy": {"epsilom": 1.0}}, "unknown key; .*did you mean epsilon"),
        ({"data": {"layout": "packed"}}, "data.layout"),
        ({"data": {"limit": 3}}, "data.limit"),
        ({"run": {"noise_alpha": 5.0}}, "run.noise_alpha"),
        ({"run": {"batch": 31}}, "the data has 30"),
        ({"privacy": {"delta": 0.04}}, "not below 1 / 30 units"),
        ({"privacy": {"unit": "user"}}, "no column 'user_id'"),
    ],
)
def test_invalid_private_recipes_are_refused(
    corpus: Any, recipe: Any, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        train.fit(make_private_recipe(recipe, corpus(), **change), tmp_path / "run")
    assert caught.value.exit_code == 2 and not (tmp_path / "run" / "recipe.json").exists()


def test_without_a_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in ("opacus.accountants", "cryptography.hazmat.primitives.ciphers"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"corpus-sanitize\[dp\]"):
        accountant.compute_epsilon(
            "rdp", noise_multiplier=1.0, sample_rate=0.1, steps=1, delta=1e-5
        )
    with pytest.raises(MissingExtra, match=r"corpus-sanitize\[dp\]"):
        noise.draw_normal(bytes(32), 1, CPU)


def test_privacy_settings_change_the_recipe_hash() -> None:
    plain = Recipe.load({"model": {"arch": "gpt2"}})
    assert (
        plain.privacy is None
        and "privacy" not in json.loads(json.dumps(plain.to_dict()))
        or plain.to_dict()["privacy"] is None
    )
    private = plain.model_copy(
        update={
            "privacy": PrivacySettings(sigma=1.0),
            "data": plain.data.model_copy(update={"layout": "document"}),
        }
    )
    assert (
        private.hash()
        != plain.model_copy(
            update={"data": plain.data.model_copy(update={"layout": "document"})}
        ).hash()
    )
