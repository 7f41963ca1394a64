"""The loop: steps of a plan, each the mean of an objective over its rows, with AdamW. Loss and plan are handed in; files are not its job.

A step is the same however it is cut: sums are divided by counts over all its pieces and processes. Dropout and all other draws of torch
are seeded anew for each piece from (seed, step, piece), so a step hangs on nothing but the weights and moments before it, and a run that
was killed anywhere goes on bit for bit (on the CPU; a GPU adds in its own order).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sanitize.errors import UsageError

from .batches import Plan, Rows, mixed
from .dp_sgd import PerRow, Poisson, Private
from .model import learned, noisy
from .objectives.objective import IGNORED, Arrays, Objective
from .processes import Crew

if TYPE_CHECKING:
    from .recipe import Privacy, Run

STEP = 4  # a lane of `mixed`
PLACES = 12  # digits of what is logged


def rate(run: Run, done: int, steps: int) -> float:
    """The learning rate of the step after `done` steps: up from 0 over the warm-up, then constant, or down to 0 in a line or a cosine."""
    warm = round(run.warmup * steps)
    if done < warm:
        return run.lr * done / warm
    left = (steps - done) / max(steps - warm, 1)
    shape = {"constant": 1.0, "linear": left, "cosine": (1 + math.cos(math.pi * (1 - left))) / 2}
    return run.lr * shape[run.schedule]


def adamw(model: Any, run: Run) -> Any:
    """AdamW over what learns in this model; weight decay on matrices only."""
    import torch

    found = [one for _, one in learned(model)]
    groups = [
        {"params": [one for one in found if one.ndim > 1], "weight_decay": run.weight_decay},
        {"params": [one for one in found if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=run.lr, betas=run.betas, eps=run.epsilon)


@dataclass
class Tally:
    """Sums and weights by name since some step; their means. Sums may still lie on the device: nobody waits for it before they are read."""

    sums: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def add(self, sums: Mapping[str, Any], weights: Mapping[str, float]) -> None:
        """One more step."""
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.weights[name] = self.weights.get(name, 0.0) + weights[name]

    def means(self) -> dict[str, float]:
        """The mean of each part; 0 where nothing was counted, never NaN."""
        return {name: float(value) / self.weights[name] if self.weights[name] else 0.0 for name, value in self.sums.items()}

    def numbers(self) -> dict[str, dict[str, float]]:
        """The same as plain numbers, to be written; exact, as sums are float64."""
        return {"sums": {name: float(value) for name, value in self.sums.items()}, "weights": dict(self.weights)}


@dataclass(frozen=True, repr=False)
class Loop:
    """One training: what it runs on, and whom it tells. `go` runs it."""

    model: Any  # on the crew's device
    optimizer: Any
    objective: Objective
    rows: Rows
    plan: Plan
    run: Run
    crew: Crew
    validation: Rows | None = None
    privacy: Privacy | None = None  # then `plan` is a Poisson, and
    sigma: float = 0.0  # its noise multiplier
    log: Callable[[dict[str, Any]], None] = lambda entry: None
    checkpoint: Callable[[dict[str, Any]], bool] = lambda info: False  # true stops the run
    state: Callable[[dict[str, Any]], None] = lambda info: None

    def go(self, resumed: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Train to the end, or to where a checkpoint says stop; the numbers of the last state. `resumed` are those to go on from."""
        import torch

        info = dict(resumed or {"step": 0, "tokens": 0, "seconds": 0.0, "logged": {}, "since": {}, "stopped": False})
        before, earlier = info["seconds"], time.perf_counter()
        logged, since = Tally(**info["logged"]), Tally(**info["since"])
        marks = set(self.plan.marks(self.run.checkpoint_every))
        called = self.crew.wrapped(self.model)
        noise = noisy(self.model, self.run.noise_alpha) if self.run.noise_alpha else None
        lengths = self.rows.lengths
        private = self._private()
        devices = [self.crew.device] if self.crew.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):  # the caller's draws are left as they were
            self.model.train()
            for step in range(info["step"], 0 if info["stopped"] else self.plan.steps):
                sums, weights = self._step(called, step) if private is None else private.gradient(step)
                self._update(step)
                done = step + 1
                info["tokens"] += int(lengths[self.plan.step(step)].sum())
                logged.add(sums, weights)
                since.add(sums, weights)
                if done % self.run.log_every == 0 or done == self.plan.steps:
                    self._tell(done, logged, info["tokens"])
                    logged = Tally()
                due = done in marks
                if due:
                    loss = since.means().get("loss")
                    # between two lines of the log, and after the update that a loss was taken before
                    finite(loss if all(bool(torch.isfinite(one).all()) for one in self.model.parameters()) else math.nan, done)
                    stop = self.checkpoint(self.told(done, info["tokens"], loss))
                    info["stopped"] = bool(self.crew.summed({"stop": float(stop)})["stop"])
                    since = Tally()
                    self.model.train()
                if due or (self.run.state_every and done % self.run.state_every == 0):
                    seconds = before + time.perf_counter() - earlier
                    info |= {"step": done, "seconds": seconds, "logged": logged.numbers(), "since": since.numbers()}
                    self.state(dict(info))
                if info["stopped"]:
                    break
        if noise is not None:
            noise.remove()
        return info

    def told(self, done: int, tokens: int, train_loss: float | None) -> dict[str, Any]:
        """What checkpoint.json says of the moment after `done` steps, but for what only files know."""
        return {
            "step": done,
            "epoch": round(done / self.plan.steps_per_epoch, PLACES),
            "tokens": tokens,
            "train_loss": None if train_loss is None else round(train_loss, PLACES),
            "validation_loss": None if self.validation is None else round(self.validated(self.validation), PLACES),
        }

    def validated(self, rows: Rows) -> float:
        """The mean loss over these rows, without dropout; what is masked is the same each time."""
        import numpy as np
        import torch

        tally = Tally()
        self.model.eval()
        with torch.no_grad():
            # rows of like length lie side by side, so that little is padding
            by_length = np.argsort(rows.lengths, kind="stable")
            for first in range(0, len(rows), self.run.batch):
                shown = self.objective.shown(rows.batch(by_length[first : first + self.run.batch], 0), training=False)
                with self._precision():
                    sums = self.objective.sums(self.model, self._moved(shown), training=False)
                weights = self.objective.weights(shown)
                tally.add({name: float(value) for name, value in sums.items()}, weights)
        self.model.train()
        return tally.means().get("loss", 0.0)

    def _step(self, called: Any, step: int) -> tuple[dict[str, Any], dict[str, float]]:
        """The gradient of one optimizer step; its sums and weights over all processes."""
        import torch

        pieces = self._pieces(step)
        weights = dict.fromkeys(self.objective.weights(pieces[0]), 0.0)
        for shown in pieces:
            for name, count in self.objective.weights(shown).items():
                weights[name] += count
        weights = self.crew.summed(weights)
        factors = self.objective.factors()
        spent: dict[str, Any] = {}
        for number, shown in enumerate(pieces):
            torch.manual_seed(int(mixed(self.run.seed, STEP, step, self.crew.rank, number)) >> 1)
            last = number == len(pieces) - 1
            with contextlib.nullcontext() if last else self.crew.apart(called):
                with self._precision():
                    sums = self.objective.sums(called, self._moved(shown), training=True)
                # DDP takes the mean over processes, a step wants the sum
                terms = [factors.get(name, 1.0) * self.crew.ranks / max(weights[name], 1.0) * value for name, value in sums.items()]
                torch.autograd.backward(terms)
            for name, value in sums.items():
                spent[name] = value.detach().double() + spent.get(name, 0.0)
        if self.run.clip:
            torch.nn.utils.clip_grad_norm_([one for _, one in learned(self.model)], self.run.clip)
        return spent if self.crew.ranks == 1 else self.crew.summed({name: float(value) for name, value in spent.items()}), weights

    def _update(self, step: int) -> None:
        """Let the optimizer make its step of the gradients that lie there."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.run, step, self.plan.steps)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _private(self) -> Private | None:
        if self.privacy is None:
            return None
        assert isinstance(self.plan, Poisson), "a private run has a plan of its own"
        return Private(
            plan=self.plan,
            rows=self.rows,
            per_row=PerRow(self.model, self.objective),
            sigma=self.sigma,
            clip=self.privacy.clip,
            pieces=self.run.accumulate,
            moved=self._moved,
            precision=self._precision,
        )

    def _pieces(self, step: int) -> list[Arrays]:
        """What this process is shown in a step, piece by piece."""
        epoch = self.plan.epoch_of(step)
        shares = self.plan.share(step, rank=self.crew.rank, ranks=self.crew.ranks, pieces=self.run.accumulate)
        if self.crew.ranks == 1:
            return [self.objective.shown(self.rows.batch(numbers, epoch), training=True) for numbers in shares if len(numbers)]
        found = []
        for numbers in shares:
            # all processes take the same number of pieces: one that has no rows left is shown one without a label
            shown = self.objective.shown(self.rows.batch(numbers if len(numbers) else self.plan.step(step)[:1], epoch), training=True)
            if not len(numbers):
                shown["labels"] = shown["labels"] * 0 + IGNORED
            found.append(shown)
        return found

    def _moved(self, shown: Arrays) -> dict[str, Any]:
        import torch

        return {name: torch.from_numpy(array).to(self.crew.device, non_blocking=True) for name, array in shown.items()}

    def _precision(self) -> Any:
        return precision(self.run, self.crew.device)

    def _tell(self, done: int, tally: Tally, tokens: int) -> None:
        means = tally.means()
        factors = self.objective.factors()
        loss = sum(factors.get(name, 1.0) * value for name, value in means.items())
        finite(loss, done)
        parts = {name: round(value, PLACES) for name, value in means.items()} if len(means) > 1 else {}
        entry = {"step": done, "epoch": round(done / self.plan.steps_per_epoch, PLACES), "loss": round(loss, PLACES), "tokens": tokens}
        self.log({**entry, "lr": rate(self.run, done - 1, self.plan.steps), **({"parts": parts} if parts else {})})


def finite(loss: float | None, done: int) -> None:
    """UsageError where the loss after so many steps is no number: nothing that was trained since is worth keeping."""
    if loss is not None and not math.isfinite(loss):
        raise UsageError(f"the loss is no number any more at step {done}; lower run.lr, or set run.clip")


def precision(run: Run, device: Any) -> Any:
    """The context of a forward pass: bf16 where the recipe wants it and the device has it, else nothing."""
    import torch

    able = device.type == "cuda" and torch.cuda.is_bf16_supported()
    if run.precision == "bf16" or (run.precision == "auto" and able):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
