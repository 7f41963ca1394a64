"""Token ids drawn by the exponential mechanism from clipped logits, and the bounds that make its claim.

A utility that is clipped to fixed bounds [lower, upper] changes by at most `upper - lower` when anything in the input changes, so that a
draw with probability proportional to exp(epsilon * utility / (2 * (upper - lower))) is epsilon-differentially private (McSherry, Talwar:
Mechanism Design via Differential Privacy, FOCS 2007; for masked language models DP-MLM, arXiv 2407.00637, section 3). That is a softmax
at the temperature T = 2 * (upper - lower) / epsilon.

The draw is the inverse of the distribution function in float64, over weights in ascending order, at a uniform number of 128 bits: the
weight of a rare token is then added to smaller ones only and not lost beside a large one, so that every token can come at every epsilon
that is allowed. Costs about a sort of the vocabulary for each token.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sanitize.errors import PlanError

F64 = npt.NDArray[np.float64]
U64 = npt.NDArray[np.uint64]
CARD = "dp_mlm.json"
LARGEST = 1000.0  # beyond it the smallest weight, exp(-epsilon / 2), comes near the end of float64


@dataclass(frozen=True)
class Bounds:
    """Where utilities are clipped; constants that must not come from the data that is rewritten. `source` says where they come from."""

    lower: float
    upper: float
    source: str = ""
    trained_on: str = ""  # `public`, or `corpus` for a model that has seen what it is to rewrite

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise PlanError(f"bounds {self.lower:g} to {self.upper:g}; expected two finite numbers, lower < upper")

    @property
    def sensitivity(self) -> float:
        """How far a clipped utility can move when the input changes."""
        return self.upper - self.lower

    def temperature(self, epsilon: float) -> float:
        """The temperature T = 2 * sensitivity / epsilon. Raises PlanError for an epsilon that no draw can be made with."""
        if not 0 < epsilon <= LARGEST:
            raise PlanError(f"epsilon = {epsilon:g}; expected a number above 0 and up to {LARGEST:g}")
        return 2 * self.sensitivity / epsilon

    @classmethod
    def read(cls, folder: Path) -> Bounds:
        """The bounds in a model's card, `dp_mlm.json` in its folder."""
        path = folder / CARD
        wanted = 'expected {"lower": -5.2, "upper": 20.3, "source": "which public text", "trained_on": "public"}, see docs/dp_mlm.md'
        try:
            told: Any = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise PlanError(f"{path}: the model's clip bounds cannot be read ({type(error).__name__}); {wanted}") from None
        known = isinstance(told, dict) and set(told) == {"lower", "upper", "source", "trained_on"}
        if not known or not all(isinstance(told[name], int | float) and not isinstance(told[name], bool) for name in ("lower", "upper")):
            raise PlanError(f"{path}: not a card of clip bounds; {wanted}")
        if not isinstance(told["source"], str) or not told["source"].strip() or told["trained_on"] not in ("public", "corpus"):
            raise PlanError(f"{path}: says not where its bounds and its model come from; {wanted}")
        try:
            return cls(float(told["lower"]), float(told["upper"]), told["source"], told["trained_on"])
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from None

    def write(self, folder: Path) -> Path:
        """The card as a file in the model's folder."""
        path = folder / CARD
        told = {"lower": self.lower, "upper": self.upper, "source": self.source, "trained_on": self.trained_on}
        path.write_text(json.dumps(told, indent=2) + "\n", "utf-8")
        return path


def uniform(high: U64, low: U64) -> F64:
    """Numbers in (0, 1] from 128 uniform bits each; small ones are as fine as 2^-128."""
    return np.asarray(high.astype(np.float64) * 2.0**-64 + (low.astype(np.float64) + 0.5) * 2.0**-128, np.float64)


def weights(utilities: npt.NDArray[Any], bounds: Bounds, epsilon: float) -> F64:
    """exp((clipped utility - upper) / T): the weights of the draw, in (0, 1]. Raises ValueError where a utility is no number."""
    exact = np.asarray(utilities, np.float64)
    if np.isnan(exact).any():
        raise ValueError("the model gives NaN for a logit; nothing is drawn around a failure")
    return np.asarray(np.exp((np.clip(exact, bounds.lower, bounds.upper) - bounds.upper) / bounds.temperature(epsilon)), np.float64)


def draw(utilities: npt.NDArray[Any], at: F64, *, bounds: Bounds, epsilon: float) -> npt.NDArray[np.int64]:
    """One column of `utilities` (rows, candidates) for each row, drawn at the uniform numbers `at` (rows)."""
    return inverse(weights(utilities, bounds, epsilon), at)


def inverse(weight: F64, at: F64) -> npt.NDArray[np.int64]:
    """One column of `weight` (rows, candidates) for each row, with probability proportional to it, at the uniform numbers `at` (rows)."""
    ascending = np.sort(weight, axis=1)
    total = np.cumsum(ascending, axis=1)
    wanted = at * total[:, -1]
    rows, last = np.arange(len(weight)), weight.shape[1] - 1
    place = np.minimum(np.count_nonzero(total < wanted[:, None], axis=1), last)
    value = ascending[rows, place]
    # of several with the same weight the one of that rank, so that the order among them is that of the candidates
    rank = place - np.count_nonzero(ascending < value[:, None], axis=1)
    found: npt.NDArray[np.int64] = np.argmax(weight == value[:, None], axis=1)
    for row in np.flatnonzero(rank):  # the others are the first of theirs, and mostly the only one
        found[row] = np.flatnonzero(weight[row] == value[row])[rank[row]]
    return found
