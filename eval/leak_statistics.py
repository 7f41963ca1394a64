"""Statistics of the leak test: shares and ranks compared with controls, each with an interval and
the smallest effect that would have been seen, and a lower bound of epsilon from one training.

Pure functions of counts and scores. Values are taken as independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sanitize.array_types import F64, Mask
from sanitize.reporting.confidence_intervals import wilson_interval

from .metrics.membership import compute_roc, find_auc_errors, find_auc_interval
from .unlearning_metrics import import_scipy_stats

POWER = 0.8  # with this probability `smallest` would have been seen
DELTA = 1e-5  # of the epsilon that `audit_one_run` bounds


def share_with_interval(hits: int, total: int) -> dict[str, Any]:
    """Return a share with its 95 % interval: `share`, `low`, `high`; for a total of 0: None and the
    full range."""
    share = hits / total if total else None
    low, high = (None if share is None else wilson_interval(share, total)) or (0.0, 1.0)
    return {"share": share, "low": low, "high": high}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An effect with its interval: it is seen if the interval excludes `null`. `smallest` is the
    smallest true effect whose interval would exclude it with a probability of `POWER`; None if no
    effect could be seen with so few values."""

    effect: float
    low: float
    high: float
    smallest: float | None
    null: float = 0.0

    @property
    def is_seen(self) -> bool:
        """Whether the effect is above chance."""
        return self.low > self.null


def compare_shares(
    hits: int, total: int, control_hits: int, control_total: int, *, level: float = 0.95
) -> Comparison:
    """Return the difference of two shares with Newcombe's hybrid score interval with continuity
    correction (Interval estimation for the difference between independent proportions, 1998, method
    11; without the correction it covers less than 94 % for some shares of small groups)."""
    if not total or not control_total:
        return Comparison(effect=0.0, low=-1.0, high=1.0, smallest=None)
    quantile = float(import_scipy_stats().norm.ppf((1 + level) / 2))
    share, control_share = np.arange(total + 1) / total, control_hits / control_total
    own_low, own_high = np.array([wilson_interval(one, total, quantile) for one in share]).T
    control_low, control_high = wilson_interval(control_share, control_total, quantile) or (
        0.0,
        1.0,
    )
    difference = share - control_share
    # by the number of hits, with which both ends rise
    low = difference - np.hypot(share - own_low, control_high - control_share)
    high = difference + np.hypot(own_high - share, control_share - control_low)
    smallest = _share_that_reaches(int((low <= 0).sum()), total)
    return Comparison(
        effect=float(difference[hits]),
        low=float(low[hits]),
        high=float(high[hits]),
        smallest=None if smallest is None else max(smallest - control_share, 0.0),
    )


def _share_that_reaches(hits: int, total: int) -> float | None:
    """Return the share with which `total` draws give `hits` or more with a probability of `POWER`;
    None if that is impossible."""
    if hits > total:
        return None
    return float(import_scipy_stats().beta.ppf(POWER, hits, total - hits + 1))


def compare_scores(
    scores: Sequence[float] | F64, control_scores: Sequence[float] | F64, *, level: float = 0.95
) -> Comparison:
    """Return the probability that a value has a higher score than a control (the area under the
    ROC curve, 0.5 by chance), with the interval of `find_auc_interval`."""
    if not len(scores) or not len(control_scores):
        return Comparison(effect=0.5, low=0.0, high=1.0, smallest=None, null=0.5)
    quantiles = import_scipy_stats().norm.ppf([(1 + level) / 2, POWER])
    low, high = find_auc_interval(scores, control_scores, level=level)
    grid = np.linspace(0, 1, 2001)
    errors = find_auc_errors(grid, len(scores), len(control_scores))
    seen = grid[grid - quantiles[1] * errors > 0.5 + quantiles[0] * errors[1000]]
    return Comparison(
        effect=compute_roc(scores, control_scores).auc,
        low=low,
        high=high,
        smallest=float(seen[0]) if len(seen) else None,
        null=0.5,
    )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A lower bound of epsilon: of `canaries`, `guesses` were guessed to be trained on or not, and
    `correct` rightly. `smallest` is the smallest epsilon that would have given a bound above 0 with
    a probability of `POWER`; None if none would."""

    canaries: int
    guesses: int
    correct: int
    epsilon: float
    smallest: float | None


def audit_one_run(scores: Sequence[float] | F64, is_trained: Mask, *, level: float = 0.95) -> Audit:
    """Return the bound at `DELTA` of one training in which each canary was included by a fair coin
    of its own (Steinke, Nasr, Jagielski: Privacy auditing with one training run, 2023).

    The quarter with the highest scores is guessed to be trained on, the quarter with the lowest not
    to be; the others are not guessed. The choice is fixed, since the best of several would need a
    correction.
    """
    quarter = len(scores) // 4
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    highest, lowest = order[:quarter], order[len(order) - quarter :]
    correct = int(is_trained[highest].sum() + (~is_trained[lowest]).sum())
    guesses = 2 * quarter

    fewest = sum(
        _p_value(len(scores), guesses, number, 0.0) >= 1 - level for number in range(guesses + 1)
    )
    share = _share_that_reaches(fewest, guesses) if guesses else None
    return Audit(
        canaries=len(scores),
        guesses=guesses,
        correct=correct,
        epsilon=bound_epsilon(len(scores), guesses, correct, level=level),
        smallest=None if share is None or share >= 1 else math.log(share / (1 - share)),
    )


def bound_epsilon(canaries: int, guesses: int, correct: int, *, level: float = 0.95) -> float:
    """Return the largest epsilon at `DELTA` under which so many correct guesses have a probability
    below 1 - `level` (theorem 5.2 and appendix D of the paper); 0 if there is none."""
    low, high = 0.0, 20.0
    if _p_value(canaries, guesses, correct, low) >= 1 - level:
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        is_refuted = _p_value(canaries, guesses, correct, middle) < 1 - level
        low, high = (middle, high) if is_refuted else (low, middle)
    return low


def _p_value(canaries: int, guesses: int, correct: int, epsilon: float) -> float:
    """Return the largest probability of `correct` or more right guesses where (`epsilon`, `DELTA`)
    holds."""
    share, binomial = 1 / (1 + math.exp(-epsilon)), import_scipy_stats().binom
    counts = np.arange(1, correct + 1)
    # of `correct` - i up to `correct` - 1 right guesses, for i = 1, 2, ...
    below = np.cumsum(binomial.pmf(correct - counts, guesses, share))
    slack = float((below / counts).max(initial=0.0))
    return float(binomial.sf(correct - 1, guesses, share)) + 2 * slack * DELTA * canaries
