"""DP-SGD: Poisson sampling of units, gradients clipped per unit, Gaussian noise added once per
step.

    g = (sum over drawn units of clip(gradient of the unit, C) + N(0, sigma^2 C^2)) / expected
    number of units

Abadi et al. 2016, algorithm 1, with Poisson sampling. A unit is a document (all rows of a doc_id)
or a user (all rows of a user_id); its gradient is the sum over its rows of the gradient of the
row's own mean loss. Gradients are computed per row with torch.func (vmap), or in a loop if the
model does not support vmap; memory: one gradient per row of a micro-batch, and once more that of
the largest weight. Works with any objective whose loss of a row depends on that row alone. Nothing
computed for a drawn unit may depend on how many other units there are: dropout and masks are
therefore seeded from secret seeds, and noise on embeddings (which scales with padding) is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.exponential_mechanism import format_bound
from sanitize.errors import InputRefused, UsageError

from . import accountant
from .batches import BatchPlan, TokenRows
from .device_memory import is_out_of_memory
from .keyed_random import KeyedRandom
from .model import trainable_parameters
from .noise import draw_normal
from .objectives.objective import BatchArrays, Objective
from .tokenization import I64

if TYPE_CHECKING:
    from .recipe import PrivacySettings, Recipe

NORM_EPSILON = 1e-6  # avoids division by a norm of 0, as in opacus


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PoissonBatchPlan(BatchPlan):
    """A batch plan with Poisson sampling: each unit is in each step independently, with probability
    q = batch_size / unit_count.

    An epoch is ceil(1 / q) steps. `batch_size` is the expected number of units of a step; a step
    may be empty, and counts as a step.
    """

    unit_of_row: I64  # of each row, numbered from 0
    random: KeyedRandom

    @property
    def unit_count(self) -> int:
        """Number of units."""
        return int(self.unit_of_row.max(initial=-1)) + 1

    @property
    def sample_rate(self) -> float:
        """Probability q that a unit is in a step."""
        return self.batch_size / self.unit_count

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of one epoch."""
        return -(-self.unit_count // self.batch_size)

    def get_step_rows(self, step: int) -> I64:
        """Return the row numbers of a step, rows of one unit next to each other."""
        drawn = self.random.draw_uniform(self.unit_count, "sample", step) < self.sample_rate
        rows = np.flatnonzero(drawn[self.unit_of_row])
        return rows[np.argsort(self.unit_of_row[rows], kind="stable")]

    def compute_first_step_by_row(self) -> I64:
        """Return the step (from 1) in which each row is used for the first time, the largest int64
        if never.

        Draws every step once: units times steps random numbers.
        """
        found = np.full(self.row_count, np.iinfo(np.int64).max)
        for step in range(self.step_count - 1, -1, -1):
            found[self.get_step_rows(step)] = step + 1
        return found


def assign_units(rows: TokenRows, users: pa.Array | None) -> I64:
    """Return the unit of each row, numbered from 0: its document (by id), or its user if `users`
    (one per document) are given.

    Raises UsageError if a row has several documents, InputRefused if a document has no user.
    """
    first = rows.doc_numbers[rows.row_starts[:-1]]
    if (rows.doc_numbers[rows.row_starts[1:] - 1] != first).any():
        raise UsageError(
            "privacy: rows hold several documents, whose gradients cannot be clipped separately;"
            ' set data.layout = "document"'
        )
    if users is not None and users.null_count:
        raise InputRefused(
            f'privacy.unit = "user": {users.null_count} documents have no user; give each one, or'
            ' use unit = "record"'
        )
    names = (rows.doc_ids if users is None else users).take(pa.array(first))
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    found: I64 = pc.dictionary_encode(names).indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def check_rows_independent(model: Any) -> None:
    """Raise UsageError for layers whose output for one row depends on other rows, or that keep
    statistics: clipping would bound nothing."""
    import torch

    for name, module in model.named_modules():
        keeps_statistics = getattr(module, "track_running_stats", False) and not isinstance(
            module, torch.nn.modules.batchnorm._BatchNorm
        )
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) or keeps_statistics:
            raise UsageError(
                f"privacy: the layer {name} ({type(module).__name__}) mixes rows of a batch or"
                " keeps statistics of them, so that no gradient belongs to one unit; use a model"
                " with layer or group norms"
            )


class PerSampleGradients:
    """Computes the gradient of the mean loss of each row: with `vmap` over rows, or (`method` =
    "loop") row by row.

    `autocast` is the context of forward passes; backward passes run outside of it, as torch's
    documentation asks.
    """

    def __init__(
        self,
        model: Any,
        objective: Objective,
        *,
        method: str = "vmap",
        autocast: Callable[[], Any] = contextlib.nullcontext,
        on_warning: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.model, self.objective, self.method, self.autocast, self.on_warning = (
            model,
            objective,
            method,
            autocast,
            on_warning,
        )
        self.parameters = dict(trainable_parameters(model))
        if method == "vmap":
            # other attention implementations branch on the values of the mask, which vmap does not
            # support
            model.set_attn_implementation("eager")
            _keep_norms_in_float32(model)

    def __call__(
        self, inputs: Mapping[str, Any], counts: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return gradients [rows, ...] by parameter name and loss sums [rows] by name; `counts` are
        the loss terms of each row, [rows]."""
        if self.method == "vmap":
            try:
                return self._gradients_by_vmap(inputs, counts)
            except (RuntimeError, ValueError, NotImplementedError) as error:
                if is_out_of_memory(error):
                    raise
                self.method = (  # not supported by vmap: the same numbers from the loop, slower
                    "loop"
                )
                self.on_warning(
                    "warning: torch.func.vmap does not support this model"
                    f" ({type(error).__name__}); gradients are computed row by row, which is"
                    " several times slower"
                )
        return self._gradients_by_loop(inputs, counts)

    def _loss(
        self, model: Any, inputs: Mapping[str, Any], counts: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the loss of a batch of one row, and its loss sums by name."""
        sums = self.objective.loss_sums(model, inputs, training=True)
        factors = self.objective.loss_weights()
        total = sum(
            factors.get(name, 1.0) * value / counts[name].clamp(min=1.0)
            for name, value in sums.items()
        )
        return total, {name: value.detach() for name, value in sums.items()}

    def _gradients_by_vmap(
        self, inputs: Mapping[str, Any], counts: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        import torch
        from torch.func import functional_call, vjp, vmap

        frozen = {
            name: parameter
            for name, parameter in self.model.named_parameters()
            if name not in self.parameters
        }
        frozen |= dict(self.model.named_buffers())
        is_bidirectional = self.objective.HEAD != "causal"

        def row_gradient(parameters: Any, row: Any, count: Any) -> Any:
            def row_loss(parameters: Any) -> tuple[Any, dict[str, Any]]:
                def call_model(**model_inputs: Any) -> Any:
                    if is_bidirectional:
                        # transformers branches on the values of a 2-d mask, which vmap does not
                        # support; a 4-d mask is added as it is
                        masked = torch.finfo(torch.float32).min
                        model_inputs["attention_mask"] = torch.where(
                            model_inputs["attention_mask"][:, None, None, :] > 0, 0.0, masked
                        )
                    return functional_call(
                        self.model, (parameters, frozen), args=(), kwargs=model_inputs
                    )

                return self._loss(
                    call_model, {name: value[None] for name, value in row.items()}, count
                )

            with self.autocast():
                forward: Any = vjp(row_loss, parameters, has_aux=True)
                loss, compute_gradient, sums = forward
            return compute_gradient(torch.ones_like(loss))[0], sums

        mapped = vmap(row_gradient, in_dims=(None, 0, 0), randomness="different")
        found: tuple[dict[str, Any], dict[str, Any]] = mapped(
            {name: value.detach() for name, value in self.parameters.items()},
            dict(inputs),
            dict(counts),
        )
        return found

    def _gradients_by_loop(
        self, inputs: Mapping[str, Any], counts: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        import torch

        row_count = len(inputs["input_ids"])
        grads = {
            name: parameter.new_zeros((row_count, *parameter.shape))
            for name, parameter in self.parameters.items()
        }
        loss_sums: dict[str, list[Any]] = {name: [] for name in counts}
        for row in range(row_count):  # a loop on purpose
            row_slice = slice(row, row + 1)
            with self.autocast():
                total, sums = self._loss(
                    self.model,
                    {name: value[row_slice] for name, value in inputs.items()},
                    {name: value[row] for name, value in counts.items()},
                )
            found = torch.autograd.grad(total, list(self.parameters.values()), allow_unused=True)
            for name, value in zip(self.parameters, found, strict=True):
                if value is not None:
                    grads[name][row] = value
            for name, value in sums.items():
                loss_sums[name].append(value)
        return grads, {name: torch.stack(found) for name, found in loss_sums.items()}


def _keep_norms_in_float32(model: Any) -> None:
    """Let layer norms compute in float32 under autocast, as they do on a GPU: on a CPU their input
    may be bfloat16, and vmap does not support the backward pass of a norm whose input and weight
    have two dtypes."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.register_forward_pre_hook(
                lambda norm, args: (
                    (args[0].to(norm.weight.dtype), *args[1:]) if norm.weight is not None else args
                )
            )


@dataclass(repr=False)
class DpSgdStep:
    """Computes private gradients: `set_gradients` puts the clipped, noisy gradient of a step into
    the parameters' `grad`."""

    batch_plan: PoissonBatchPlan
    rows: TokenRows
    per_sample_gradients: PerSampleGradients
    noise_multiplier: float
    clip_norm: float
    n_micro_batches: int  # of a batch of the expected size
    to_device: Callable[[BatchArrays], dict[str, Any]]

    def set_gradients(self, step: int) -> tuple[dict[str, float], dict[str, float]]:
        """Set `grad` of all trained parameters; return loss sums and counts over the rows of the
        step, without noise.

        A unit whose rows continue in the next micro-batch is carried over: its partial gradient is
        added there.
        """
        import torch

        parameters = self.per_sample_gradients.parameters
        total = {
            name: torch.zeros_like(parameter, dtype=torch.float32)
            for name, parameter in parameters.items()
        }
        sums: dict[str, float] = {"loss": 0.0}
        counts: dict[str, float] = {"loss": 0.0}
        step_rows = self.batch_plan.get_step_rows(step)
        units, size = (
            self.batch_plan.unit_of_row[step_rows],
            max(1, -(-self.batch_plan.batch_size // self.n_micro_batches)),
        )
        carried: dict[str, Any] = {}
        for micro_batch, first in enumerate(range(0, len(step_rows), size)):
            after = first + size
            row_units = units[first:after]
            grads, batch_sums, batch_counts = self._compute_row_gradients(
                step, micro_batch, step_rows[first:after]
            )
            carried = _sum_over_units(
                grads,
                row_units,
                carried,
                continues=after < len(step_rows) and bool(units[after] == row_units[-1]),
            )
            factor = clip_factors(grads, self.clip_norm)
            for name in list(total):
                # removed from the dict: no gradient of this micro-batch is alive when those of the
                # next one are computed
                total[name] += torch.tensordot(factor, grads.pop(name), dims=1)
            for name, value in batch_sums.items():
                sums[name] = sums.get(name, 0.0) + value
                counts[name] = counts.get(name, 0.0) + batch_counts[name]
        for name, parameter in parameters.items():
            if self.noise_multiplier:
                total[name].add_(
                    self._draw_noise(step, name, parameter),
                    alpha=self.noise_multiplier * self.clip_norm,
                )
            parameter.grad = (total.pop(name) / self.batch_plan.batch_size).to(parameter.dtype)
        return sums, counts

    def _draw_noise(self, step: int, name: str, parameter: Any) -> Any:
        """Return the standard normal numbers of a parameter in a step."""
        key = self.batch_plan.random.derive_key("noise", step, name)
        return draw_normal(key, parameter.numel(), parameter.device).view(parameter.shape)

    def _compute_row_gradients(
        self, step: int, micro_batch: int, row_numbers: I64
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, float]]:
        """Return gradients [rows, ...] of some rows, with loss sums and counts."""
        import torch

        inputs = self.per_sample_gradients.objective.collate(
            self.rows.make_batch(row_numbers, self.batch_plan.epoch_of_step(step)), training=True
        )
        counts = count_loss_terms_by_row(self.per_sample_gradients.objective, inputs)
        torch.manual_seed(self.batch_plan.random.derive_seed("dropout", step, micro_batch))
        tensors = self.to_device(
            {**inputs, **{f"weight {name}": value for name, value in counts.items()}}
        )
        grads, loss_sums = self.per_sample_gradients(
            {name: tensors[name] for name in inputs},
            {name: tensors[f"weight {name}"] for name in counts},
        )
        return (
            grads,
            {name: float(value.double().sum()) for name, value in loss_sums.items()},
            {name: float(value.sum()) for name, value in counts.items()},
        )


def _sum_over_units(
    grads: dict[str, Any], row_units: I64, carried: Mapping[str, Any], *, continues: bool
) -> dict[str, Any]:
    """Replace gradients [rows, ...] by those of units [units, ...] in float32, weight by weight, so
    that no second copy of all exists.

    `carried` is added to the first unit. If the last one `continues` in the next micro-batch, it is
    left out, and returned.
    """
    import torch

    unit_numbers = np.concatenate([[0], np.cumsum(row_units[1:] != row_units[:-1])]).astype(
        np.int64
    )
    unit_count = int(unit_numbers[-1]) + 1
    following: dict[str, Any] = {}
    for name in list(grads):
        values = grads.pop(name).float()
        if unit_count < len(row_units):
            at = torch.from_numpy(unit_numbers).to(values.device)
            values = torch.zeros(
                (unit_count, *values.shape[1:]), dtype=torch.float32, device=values.device
            ).index_add_(0, at, values)
        if carried:
            values[0] += carried[name]
        if continues:
            following[name] = values[-1].clone()  # a view would keep the gradients of all rows
            values = values[:-1]
        grads[name] = values
    return following


def clip_factors(grads: Mapping[str, Any], clip_norm: float) -> Any:
    """Return min(1, C / norm) for each unit, the norm over all parameters; UsageError if a gradient
    is NaN or infinite."""
    import torch

    norms = [torch.linalg.vector_norm(value.flatten(1), dim=1) for value in grads.values()]
    norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
    if not bool(torch.isfinite(norm).all()):
        raise UsageError("privacy: a gradient is not a finite number any more; lower run.lr")
    return (clip_norm / (norm + NORM_EPSILON)).clamp(max=1.0)


def count_loss_terms_by_row(
    objective: Objective, inputs: BatchArrays
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the loss counts of each row separately, [rows] by name."""
    row_counts = [
        objective.loss_counts({name: value[at : at + 1] for name, value in inputs.items()})
        for at in range(len(inputs["input_ids"]))
    ]
    return {
        name: np.array([counts[name] for counts in row_counts], np.float32)
        for name in row_counts[0]
    }


def resolve_noise_multiplier(settings: PrivacySettings, batch_plan: PoissonBatchPlan) -> float:
    """Return the noise multiplier of the settings, or the one that spends their epsilon over the
    planned steps."""
    if settings.sigma is not None:
        return settings.sigma
    assert settings.epsilon is not None, "one of the two is set"
    return accountant.find_noise_multiplier(
        settings.accountant,
        target_epsilon=settings.epsilon,
        sample_rate=batch_plan.sample_rate,
        steps=batch_plan.step_count,
        delta=settings.delta,
    )


def compute_spent_epsilon(
    settings: PrivacySettings, batch_plan: PoissonBatchPlan, noise_multiplier: float, steps: int
) -> float | None:
    """Return the epsilon spent after `steps` steps; None if there is no bound."""
    return accountant.compute_epsilon(
        settings.accountant,
        noise_multiplier=noise_multiplier,
        sample_rate=batch_plan.sample_rate,
        steps=steps,
        delta=settings.delta,
    )


def describe_privacy(
    recipe: Recipe,
    batch_plan: PoissonBatchPlan,
    noise_multiplier: float,
    *,
    steps: int,
    stopped_early: bool = False,
) -> dict[str, Any]:
    """Return the privacy of a run after `steps` steps, as written to train.json and recipe.json."""
    settings = recipe.privacy
    assert settings is not None, "a private run"
    planned = compute_spent_epsilon(settings, batch_plan, noise_multiplier, batch_plan.step_count)
    used = (
        planned
        if steps == batch_plan.step_count
        else compute_spent_epsilon(settings, batch_plan, noise_multiplier, steps)
    )
    unit = "document" if settings.unit == "record" else "user"
    if settings.insecure_seed is not None:
        claim = "none: every draw follows from privacy.insecure_seed (a test run)"
    elif used is None:
        claim = "none: without noise, or with too little of it, there is no bound"
    else:
        claim = (
            f"({format_bound(used)}, {settings.delta:g})-differential privacy of the weights for"
            f" one {unit} more or less, after {steps} steps"
        )
    return {
        "mechanism": "DP-SGD: Poisson sampling, gradients clipped by unit, Gaussian noise",
        "claim": claim,
        "unit": settings.unit,
        "unit_count": batch_plan.unit_count,
        "epsilon": used,
        "delta": settings.delta,
        "sigma": noise_multiplier,
        "clip": settings.clip,
        "noise_generator": "ChaCha20",
        "sampling_rate": batch_plan.sample_rate,
        "expected_batch": batch_plan.batch_size,
        "steps": steps,
        "planned_steps": batch_plan.step_count,
        "planned_epsilon": planned,
        "accountant": settings.accountant,
        "secret_randomness": settings.insecure_seed is None,
        "not_covered": _list_not_covered(recipe, batch_plan, stopped_early),
    }


def _list_not_covered(
    recipe: Recipe, batch_plan: PoissonBatchPlan, stopped_early: bool
) -> list[str]:
    """Return what the privacy claim does not cover, in plain words."""
    settings = recipe.privacy
    assert settings is not None, "a private run"
    found = [
        (
            "losses in log.jsonl and checkpoint.json: they are computed on the data itself, without"
            " noise"
        ),
        (
            "seen.parquet, state/ and the hashes in recipe.json: keep the run folder private;"
            " publish checkpoints without checkpoint.json"
        ),
        (
            f"the number of units ({batch_plan.unit_count}), which determines the sampling rate and"
            " the number of steps"
        ),
        (
            "other runs on the same data: each spends its own epsilon, and they add up; so does"
            " choosing settings by their results"
        ),
        "rounding of the noise to 32-bit floating point",
    ]
    if settings.unit == "record":
        found.append(
            "people who occur in several documents: m documents have m times epsilon, and delta"
            " times m e^((m-1) epsilon)"
        )
    else:
        found.append("people who are mentioned in the documents of several users")
    if recipe.tokenizer.corpus or not (recipe.tokenizer.path or recipe.model.path):
        found.append(
            "the tokenizer: its entries are learned from texts without noise, and contain frequent"
            " strings of them"
        )
    if recipe.model.path:
        found.append("what the base model had learned before, from these or other texts")
    if paths := recipe.build_objective().input_paths():
        found.append(f"files that the objective reads: {', '.join(paths)}")
    if recipe.build_objective().HEAD == "classify":
        found.append("the names of the labels")
    if stopped_early:
        found.append(
            "the choice to stop early, if it depended on the data: then planned_epsilon holds, not"
            " epsilon"
        )
    return found
