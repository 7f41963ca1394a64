"""A private step (DP-SGD): units drawn one by one, each unit's gradient clipped, noise once, divided by the expected batch.

    g = (sum over drawn units of clip(gradient of the unit, C) + N(0, sigma^2 C^2)) / expected number of units

Abadi et al. 2016, algorithm 1, with Poisson sampling; a unit is a document (all rows of a doc_id) or a user (all rows of a user_id); its
gradient is the sum over its rows of the gradient of the row's own mean loss. Gradients are made row by row with torch.func (vmap), or in a
loop where a model cannot be mapped; memory is that of one gradient for each row of a piece. Any objective will do whose loss of a row
depends on that row alone. Nothing that follows a unit's draw may hang on how many others there are: so dropout and masks hang on secret
seeds, and noise on embeddings (which scales with padding) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.errors import InputRefused, UsageError

from . import accountant
from .batches import Plan, Rows
from .keyed_random import Draws
from .model import learned
from .objectives.objective import Arrays, Objective
from .tokenization import I64

if TYPE_CHECKING:
    from .recipe import Privacy, Recipe

ROUNDING = 1e-6  # keeps a gradient of norm 0 from being divided by it, as opacus does


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Poisson(Plan):
    """Steps of which each unit is a part with probability q = batch / units, by itself; an epoch is ceil(1 / q) steps.

    `batch` is the expected number of units; a step may be empty, and counts.
    """

    units: I64  # of each row, numbered from 0
    draws: Draws

    @property
    def count(self) -> int:
        """How many units there are."""
        return int(self.units.max(initial=-1)) + 1

    @property
    def q(self) -> float:
        """With which probability a unit is in a step."""
        return self.batch / self.count

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of one epoch."""
        return -(-self.count // self.batch)

    def step(self, step: int) -> I64:
        """The rows of a step, those of one unit side by side."""
        drawn = self.draws.uniform(self.count, "sample", step) < self.q
        rows = np.flatnonzero(drawn[self.units])
        return rows[np.argsort(self.units[rows], kind="stable")]

    def first_of_rows(self) -> I64:
        """After which step (from 1) each row was in a batch for the first time: every step is drawn once, units times steps numbers."""
        found = np.full(self.rows, np.iinfo(np.int64).max)
        for step in range(self.steps - 1, -1, -1):
            found[self.step(step)] = step + 1
        return found


def units_of(rows: Rows, users: pa.Array | None) -> I64:
    """The unit of each row, numbered from 0: its document (by id), or its user where `users` (of documents) are given.

    Raises UsageError where rows hold several documents, InputRefused where a document has no user.
    """
    first = rows.doc[rows.starts[:-1]]
    if (rows.doc[rows.starts[1:] - 1] != first).any():
        raise UsageError('privacy: rows hold several documents, so that nothing could be clipped for one; set data.layout = "document"')
    if users is not None and users.null_count:
        raise InputRefused(f'privacy.unit = "user": {users.null_count} documents have no user; give each one, or use unit = "record"')
    names = (rows.doc_ids if users is None else users).take(pa.array(first))
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    found: I64 = pc.dictionary_encode(names).indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def refuse_mixing(model: Any) -> None:
    """UsageError for layers whose answer for one row depends on others, or which remember rows: clipping would bound nothing."""
    import torch

    for name, module in model.named_modules():
        remembers = getattr(module, "track_running_stats", False) and not isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) or remembers:
            raise UsageError(
                f"privacy: the layer {name} ({type(module).__name__}) mixes rows of a batch or keeps statistics of them, so that "
                "no gradient is one unit's own; use a model with layer or group norms"
            )


class PerRow:
    """Gradients of the mean loss of each row: `vmap` over rows, or (`how` = "loop") one row after the other."""

    def __init__(self, model: Any, objective: Objective, *, how: str = "vmap") -> None:
        self.model, self.objective, self.how = model, objective, how
        self.parameters = dict(learned(model))
        if how == "vmap":
            # other kinds look into the mask to see whether they need it, which cannot be mapped
            model.set_attn_implementation("eager")

    def __call__(self, shown: Mapping[str, Any], weights: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Gradients [rows, ...] by the names of the parameters, and the sums [rows] by name; `weights` are each row's own, [rows]."""
        if self.how == "vmap":
            import torch

            try:
                return self._mapped(shown, weights)
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, ValueError, NotImplementedError):
                self.how = "loop"  # what cannot be mapped is done one by one: the same numbers, slower
        return self._looped(shown, weights)

    def _loss(self, call: Any, shown: Mapping[str, Any], weights: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The loss of one row that is shown alone, and its sums."""
        sums = self.objective.sums(call, shown, training=True)
        factors = self.objective.factors()
        total = sum(factors.get(name, 1.0) * value / weights[name].clamp(min=1.0) for name, value in sums.items())
        return total, {name: value.detach() for name, value in sums.items()}

    def _mapped(self, shown: Mapping[str, Any], weights: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        import torch
        from torch.func import functional_call, grad, vmap

        held = {name: one for name, one in self.model.named_parameters() if name not in self.parameters}
        held |= dict(self.model.named_buffers())
        sided = self.objective.HEAD != "causal"

        def one(parameters: dict[str, Any], row: dict[str, Any], count: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            def call(**given: Any) -> Any:
                if sided:
                    # a mask of two dimensions is looked into here, too; one of four is added as it is
                    hidden = torch.finfo(torch.float32).min
                    given["attention_mask"] = torch.where(given["attention_mask"][:, None, None, :] > 0, 0.0, hidden)
                return functional_call(self.model, (parameters, held), args=(), kwargs=given)

            return self._loss(call, {name: value[None] for name, value in row.items()}, count)

        mapped = vmap(grad(one, has_aux=True), in_dims=(None, 0, 0), randomness="different")
        found: tuple[dict[str, Any], dict[str, Any]] = mapped(
            {name: value.detach() for name, value in self.parameters.items()}, dict(shown), dict(weights)
        )
        return found

    def _looped(self, shown: Mapping[str, Any], weights: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        import torch

        grads: dict[str, list[Any]] = {name: [] for name in self.parameters}
        told: dict[str, list[Any]] = {name: [] for name in weights}
        for row in range(len(shown["input_ids"])):  # one row after the other is the point
            only = slice(row, row + 1)
            total, sums = self._loss(
                self.model, {name: value[only] for name, value in shown.items()}, {name: value[row] for name, value in weights.items()}
            )
            found = torch.autograd.grad(total, list(self.parameters.values()), allow_unused=True)
            for (name, one), value in zip(self.parameters.items(), found, strict=True):
                grads[name].append(torch.zeros_like(one) if value is None else value)
            for name, value in sums.items():
                told[name].append(value)
        return {name: torch.stack(found) for name, found in grads.items()}, {name: torch.stack(found) for name, found in told.items()}


@dataclass(repr=False)
class Private:
    """All that makes a step private. `gradient` puts the noisy gradient of a step into the parameters' `grad`."""

    plan: Poisson
    rows: Rows
    per_row: PerRow
    sigma: float
    clip: float
    pieces: int  # an expected batch is taken in so many pieces
    moved: Callable[[Arrays], dict[str, Any]]  # onto the device
    precision: Callable[[], Any]

    def gradient(self, step: int) -> tuple[dict[str, float], dict[str, float]]:
        """Set `grad` of all that learns; the sums and weights over the rows of the step, without noise."""
        import torch

        parameters = self.per_row.parameters
        total = {name: torch.zeros_like(one, dtype=torch.float32) for name, one in parameters.items()}
        sums: dict[str, float] = {"loss": 0.0}
        weights: dict[str, float] = {"loss": 0.0}
        for grads, told, counted in self._units(step):
            factor = clip_factors(grads, self.clip)
            for name, values in grads.items():
                total[name] += torch.tensordot(factor, values, dims=1)
            for name, value in told.items():
                sums[name] = sums.get(name, 0.0) + value
                weights[name] = weights.get(name, 0.0) + counted[name]
        for name, one in parameters.items():
            if self.sigma:
                drawn = self.plan.draws.normal(one.numel(), "noise", step, name)
                total[name] += self.sigma * self.clip * torch.from_numpy(drawn).view(one.shape).to(one.device)
            one.grad = (total[name] / self.plan.batch).to(one.dtype)
        return sums, weights

    def _units(self, step: int) -> Iterator[tuple[dict[str, Any], dict[str, float], dict[str, float]]]:
        """Gradients [units, ...] of whole units, piece by piece; what a piece has begun of its last unit goes on to the next."""
        import torch

        numbers = self.plan.step(step)
        units, size = self.plan.units[numbers], max(1, -(-self.plan.batch // self.pieces))
        begun: dict[str, Any] | None = None
        for piece, first in enumerate(range(0, len(numbers), size)):
            here = numbers[first : first + size]
            shown = self.per_row.objective.shown(self.rows.batch(here, self.plan.epoch_of(step)), training=True)
            weights = row_weights(self.per_row.objective, shown)
            torch.manual_seed(self.plan.draws.seed("dropout", step, piece))
            given = self.moved({**shown, **{f"weight {name}": value for name, value in weights.items()}})
            with self.precision():
                grads, told = self.per_row({name: given[name] for name in shown}, {name: given[f"weight {name}"] for name in weights})
            owner = units[first : first + size]
            local = np.concatenate([[0], np.cumsum(owner[1:] != owner[:-1])]).astype(np.int64)
            at = torch.from_numpy(local).to(next(iter(grads.values())).device)
            count = int(local[-1]) + 1
            summed = {
                name: torch.zeros((count, *value.shape[1:]), dtype=torch.float32, device=value.device).index_add_(0, at, value.float())
                for name, value in grads.items()
            }
            if begun is not None:
                for name in summed:
                    summed[name][0] += begun[name]
                begun = None
            after = first + len(here)
            if after < len(numbers) and units[after] == owner[-1]:
                begun = {name: value[-1] for name, value in summed.items()}
                summed = {name: value[:-1] for name, value in summed.items()}
            yield (
                summed,
                {name: float(value.double().sum()) for name, value in told.items()},
                {name: float(value.sum()) for name, value in weights.items()},
            )


def clip_factors(grads: Mapping[str, Any], clip: float) -> Any:
    """min(1, C / norm) for each unit, the norm taken over all parameters; UsageError for a gradient that is no number."""
    import torch

    squares: Any = sum(value.flatten(1).square().sum(1) for value in grads.values())
    if not bool(torch.isfinite(squares).all()):
        raise UsageError("privacy: a gradient is no number any more; lower run.lr")
    return (clip / (squares.sqrt() + ROUNDING)).clamp(max=1.0)


def row_weights(objective: Objective, shown: Arrays) -> dict[str, npt.NDArray[np.float32]]:
    """The weights of each row by itself, [rows] by name."""
    found = [objective.weights({name: value[at : at + 1] for name, value in shown.items()}) for at in range(len(shown["input_ids"]))]
    return {name: np.array([one[name] for one in found], np.float32) for name in found[0]}


def sigma_of(settings: Privacy, plan: Poisson) -> float:
    """The noise multiplier that the settings give, or that their epsilon asks for over the planned steps."""
    if settings.sigma is not None:
        return settings.sigma
    assert settings.epsilon is not None, "one of the two is set"
    return accountant.sigma_for(settings.accountant, target=settings.epsilon, q=plan.q, steps=plan.steps, delta=settings.delta)


def spent(settings: Privacy, plan: Poisson, sigma: float, steps: int) -> float | None:
    """The epsilon of so many steps; None where there is no bound."""
    return accountant.epsilon(settings.accountant, sigma=sigma, q=plan.q, steps=steps, delta=settings.delta)


def told(recipe: Recipe, plan: Poisson, sigma: float, *, steps: int, stopped: bool = False) -> dict[str, Any]:
    """What train.json and recipe.json say of the privacy of a run after so many steps."""
    settings = recipe.privacy
    assert settings is not None, "a private run"
    planned = spent(settings, plan, sigma, plan.steps)
    used = planned if steps == plan.steps else spent(settings, plan, sigma, steps)
    unit = "document" if settings.unit == "record" else "user"
    if settings.insecure_seed is not None:
        claim = "none: every draw follows from privacy.insecure_seed (a test run)"
    elif used is None:
        claim = "none: without noise, or with too little of it, there is no bound"
    else:
        claim = f"({used:.4g}, {settings.delta:g})-differential privacy of the weights for one {unit} more or less, after {steps} steps"
    return {
        "mechanism": "DP-SGD: Poisson sampling, gradients clipped by unit, Gaussian noise",
        "claim": claim,
        "unit": settings.unit,
        "units": plan.count,
        "epsilon": used,
        "delta": settings.delta,
        "sigma": sigma,
        "clip": settings.clip,
        "q": plan.q,
        "expected_batch": plan.batch,
        "steps": steps,
        "steps_planned": plan.steps,
        "epsilon_planned": planned,
        "accountant": settings.accountant,
        "secret": settings.insecure_seed is None,
        "not_covered": _not_covered(recipe, plan, stopped),
    }


def _not_covered(recipe: Recipe, plan: Poisson, stopped: bool) -> list[str]:
    """What the claim does not speak of, in plain words."""
    settings = recipe.privacy
    assert settings is not None, "a private run"
    found = [
        "losses in log.jsonl and checkpoint.json: they are of the data itself, without noise",
        "seen.parquet, state/ and the hashes in recipe.json: keep the run folder private; give checkpoints away without checkpoint.json",
        f"the number of units ({plan.count}), which the sampling rate and the number of steps follow from",
        "other runs on the same data: each spends its own epsilon, and they add up; so does choosing settings by their results",
        "rounding of the noise to 32-bit floating point",
    ]
    if settings.unit == "record":
        found.append("people who are in several documents: m documents have m times epsilon, and delta times m e^((m-1) epsilon)")
    else:
        found.append("people who are written about in the documents of several users")
    if recipe.tokenizer.corpus or not (recipe.tokenizer.path or recipe.model.path):
        found.append("the tokenizer: its entries are learned from texts without noise, and frequent strings of them stand in it")
    if recipe.model.path:
        found.append("what the base model had learned before, from these or other texts")
    if recipe.made().paths():
        found.append(f"files that the objective reads: {', '.join(recipe.made().paths())}")
    if recipe.made().HEAD == "classify":
        found.append("the names of the labels")
    if stopped:
        found.append("the choice to stop early, if it looked at the data: then epsilon_planned holds, not epsilon")
    return found
