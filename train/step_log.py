"""The log of a training run: means of losses between two entries, speed, and lines for people about
where the run is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sanitize.core.progress import format_duration
from sanitize.errors import UsageError

LOG_DIGITS = 12  # decimal places of logged numbers
FIRST_STEPS = 20  # steps over which the loss should not rise
HEARTBEAT_S = 30.0  # seconds between two lines about a run
_RISE = 1.1  # times the loss of the first step, by more than the noise between batches


@dataclass
class RunningMean:
    """Running sums and counts by name, and their means. Sums may be tensors on the device: they are
    only synchronized when read."""

    sums: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def update(self, sums: Mapping[str, Any], counts: Mapping[str, float]) -> None:
        """Add the sums and counts of one step."""
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0.0) + counts[name]

    def means(self) -> dict[str, float]:
        """Return the mean by name; 0 where nothing was counted, never NaN."""
        return {
            name: float(value) / self.counts[name] if self.counts[name] else 0.0
            for name, value in self.sums.items()
        }

    def state_dict(self) -> dict[str, dict[str, float]]:
        """Return sums and counts as plain numbers, for JSON; exact, since sums are float64."""
        return {
            "sums": {name: float(value) for name, value in self.sums.items()},
            "counts": dict(self.counts),
        }


class StepLog:
    """What was computed since the last entry of the log, since the last checkpoint, and in the
    first steps. A resumed run continues the first two, as `state_dict` has them."""

    def __init__(
        self,
        state: Mapping[str, Any],
        *,
        step_count: int,
        lr: float,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.since_entry = RunningMean(**state["logged"])
        self.since_checkpoint = RunningMean(**state["since"])
        self.tokens: int = state["tokens"]
        self._first_step, self._step_count, self._lr = state["step"], step_count, lr
        self._report, self._clock = report, clock
        self._first_losses: list[float] = []
        self._new_tokens, self._began = 0, clock()
        self._last_entry = self._last_line = self._began

    def add_step(
        self, step: int, sums: Mapping[str, Any], counts: Mapping[str, float], tokens: int
    ) -> None:
        """Add a step (from 0); report once if the losses of the first ones rise."""
        self.since_entry.update(sums, counts)
        self.since_checkpoint.update(sums, counts)
        self.tokens += tokens
        self._new_tokens += tokens
        if len(self._first_losses) == step < FIRST_STEPS:  # a resumed run has none
            self._first_losses.append(float(sums["loss"]) / max(counts["loss"], 1.0))
            is_last = step + 1 == min(FIRST_STEPS, self._step_count)
            if is_last and (warning := describe_rise(self._first_losses, self._lr)):
                self._report(warning)

    def make_entry(self, steps_done: int, epoch: float, weights: Mapping[str, float]) -> Any:
        """Return the means and the speed since the last entry, and begin a new one. `weights` are
        those of the loss terms in the minimised total."""
        means = self.since_entry.means()
        loss = sum(weights.get(name, 1.0) * value for name, value in means.items())
        check_finite_loss(loss, steps_done)
        now = self._clock()
        rate = self._new_tokens / max(now - self._last_entry, 1e-9)
        self.since_entry, self._new_tokens, self._last_entry = RunningMean(), 0, now
        parts = {name: round(value, LOG_DIGITS) for name, value in means.items()}
        return {
            "step": steps_done,
            "epoch": round(epoch, LOG_DIGITS),
            "loss": round(loss, LOG_DIGITS),
            "tokens": self.tokens,
            **({"parts": parts} if len(parts) > 1 else {}),
            "tokens_per_s": round(rate, 1),
        }

    def report_entry(self, entry: Mapping[str, Any]) -> None:
        """Report where the run is if `HEARTBEAT_S` seconds have passed since the last line."""
        now, done = self._clock(), entry["step"]
        if now - self._last_line < HEARTBEAT_S:
            return
        left = (self._step_count - done) * (now - self._began) / (done - self._first_step)
        self._report(
            f"step {done} of {self._step_count}, epoch {entry['epoch']:.2f}: loss"
            f" {entry['loss']:.4f}, {entry['tokens_per_s']:,.0f} tokens/s,"
            f" {format_duration(left)} left"
        )
        self._last_line = now

    def begin_checkpoint(self) -> float | None:
        """Return the mean loss since the last checkpoint, and begin a new mean."""
        loss = self.since_checkpoint.means().get("loss")
        self.since_checkpoint = RunningMean()
        return loss

    def exclude(self, seconds: float, *, has_line: bool) -> None:
        """Leave seconds out of the speed that were not spent on steps; `has_line` if a line about
        the run was reported in them."""
        self._last_entry += seconds
        if has_line:
            self._last_line = self._clock()

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run continues."""
        return {
            "tokens": self.tokens,
            "logged": self.since_entry.state_dict(),
            "since": self.since_checkpoint.state_dict(),
        }


def describe_rise(losses: Sequence[float], lr: float) -> str:
    """Return a warning if the losses of the first steps rise, which happens if the learning rate is
    too high for the model; else ""."""
    last = losses[-5:]
    mean = sum(last) / len(last)
    if len(losses) < 10 or not 0 < losses[0] * _RISE < mean:
        return ""
    return (
        f"warning: the loss rose from {losses[0]:.2f} at the first step to {mean:.2f} at steps"
        f" {len(losses) - 4} to {len(losses)}. run.lr = {lr:g} is probably too high for this model;"
        " a pretrained one takes 1e-5 to 2e-4"
    )


def check_finite_loss(loss: float | None, steps_done: int) -> None:
    """Raise UsageError if the loss after `steps_done` steps is NaN or infinite, so that no such
    checkpoint is written."""
    if loss is not None and not math.isfinite(loss):
        raise UsageError(
            f"the loss is not a finite number any more at step {steps_done}; lower run.lr, or set"
            " run.clip"
        )
