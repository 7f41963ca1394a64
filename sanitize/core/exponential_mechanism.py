"""The exponential mechanism on clipped logits: draws token ids with differential privacy; reads and
writes the clip bounds of a model.

A utility that is clipped to fixed bounds [lower, upper] changes by at most `upper - lower` when
anything in the input changes. A draw with probability proportional to exp(epsilon * utility / (2 *
(upper - lower))) is therefore epsilon-differentially private (McSherry, Talwar: Mechanism Design
via Differential Privacy, FOCS 2007; for masked language models DP-MLM, arXiv 2407.00637, section
3). That is a softmax at the temperature T = 2 * (upper - lower) / epsilon.

The draw is the inverse of the distribution function in float64, over weights in ascending order, at
a uniform number of 128 bits: the weight of a rare token is added only to smaller weights and is not
lost to rounding beside a large one, so every token can be drawn at every allowed epsilon. Cost:
about one sort of the vocabulary per drawn token.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sanitize.array_types import F64, I64, U64
from sanitize.errors import PlanError

BOUNDS_FILE = "dp_mlm.json"
MAX_EPSILON = (
    1000.0  # above it the smallest weight, exp(-epsilon / 2), comes close to the smallest float64
)


@dataclass(frozen=True)
class ClipBounds:
    """The bounds to which utilities are clipped. They are constants and must not be derived from
    the data that is rewritten.

    `source` states in words where they come from.
    """

    lower: float
    upper: float
    source: str = ""
    trained_on: str = (
        ""  # `public`, or `corpus` for a model that was trained on the data that it rewrites
    )

    def __post_init__(self) -> None:
        if not (
            math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper
        ):
            raise PlanError(
                f"bounds {self.lower:g} to {self.upper:g}; expected two finite numbers, lower <"
                " upper"
            )

    @property
    def sensitivity(self) -> float:
        """The largest possible change of a clipped utility when the input changes."""
        return self.upper - self.lower

    def temperature(self, epsilon: float) -> float:
        """The temperature T = 2 * sensitivity / epsilon. Raises PlanError for an epsilon outside
        (0, MAX_EPSILON]."""
        if not 0 < epsilon <= MAX_EPSILON:
            raise PlanError(
                f"epsilon = {epsilon:g}; expected a number above 0 and up to {MAX_EPSILON:g}"
            )
        return 2 * self.sensitivity / epsilon

    @classmethod
    def read(cls, folder: Path) -> ClipBounds:
        """The bounds stored with a model, in the file `dp_mlm.json` of its folder. Raises PlanError
        for a missing or invalid file."""
        path = folder / BOUNDS_FILE
        expected = (
            'expected {"lower": -5.2, "upper": 20.3, "source": "which public text", "trained_on":'
            ' "public"}; see docs/how_to/dp_mlm.md'
        )
        try:
            fields: Any = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise PlanError(
                f"{path}: the model's clip bounds cannot be read ({type(error).__name__});"
                f" {expected}"
            ) from None
        has_fields = isinstance(fields, dict) and set(fields) == {
            "lower",
            "upper",
            "source",
            "trained_on",
        }
        if not has_fields or not all(
            isinstance(fields[name], int | float) and not isinstance(fields[name], bool)
            for name in ("lower", "upper")
        ):
            raise PlanError(f"{path}: not a valid file of clip bounds; {expected}")
        if (
            not isinstance(fields["source"], str)
            or not fields["source"].strip()
            or fields["trained_on"] not in ("public", "corpus")
        ):
            raise PlanError(
                f"{path}: `source` or `trained_on` does not state where the bounds and the model"
                f" come from; {expected}"
            )
        try:
            return cls(
                float(fields["lower"]),
                float(fields["upper"]),
                fields["source"],
                fields["trained_on"],
            )
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from None

    def write(self, folder: Path) -> Path:
        """Writes the bounds to `dp_mlm.json` in the model's folder; returns its path."""
        path = folder / BOUNDS_FILE
        fields = {
            "lower": self.lower,
            "upper": self.upper,
            "source": self.source,
            "trained_on": self.trained_on,
        }
        path.write_text(json.dumps(fields, indent=2) + "\n", "utf-8")
        return path


def uniform_from_bits(high_bits: U64, low_bits: U64) -> F64:
    """Uniform numbers in (0, 1] from 128 bits each; the resolution near zero is 2^-128."""
    return np.asarray(
        high_bits.astype(np.float64) * 2.0**-64 + (low_bits.astype(np.float64) + 0.5) * 2.0**-128,
        np.float64,
    )


def exponential_weights(utilities: npt.NDArray[Any], bounds: ClipBounds, epsilon: float) -> F64:
    """exp((clipped utility - upper) / T): the weights of the draw, in (0, 1]. Raises ValueError for
    a NaN."""
    exact = np.asarray(utilities, np.float64)
    if np.isnan(exact).any():
        raise ValueError(
            "the model returned NaN for a logit; no token is drawn from a failed model output."
            " Check the model and its inputs"
        )
    return np.asarray(
        np.exp(
            (np.clip(exact, bounds.lower, bounds.upper) - bounds.upper)
            / bounds.temperature(epsilon)
        ),
        np.float64,
    )


def draw_candidates(
    utilities: npt.NDArray[Any], uniforms: F64, *, bounds: ClipBounds, epsilon: float
) -> I64:
    """The index of one candidate for each row of `utilities` (rows, candidates), drawn with the
    uniform numbers `uniforms` (rows)."""
    return invert_cdf(exponential_weights(utilities, bounds, epsilon), uniforms)


def invert_cdf(weights: F64, uniforms: F64) -> I64:
    """The index of one candidate for each row of `weights` (rows, candidates), with probability
    proportional to its weight.

    `uniforms` has one number in (0, 1] per row; the draw inverts the distribution function over
    ascending weights.
    """
    ascending = np.sort(weights, axis=1)
    total = np.cumsum(ascending, axis=1)
    thresholds = uniforms * total[:, -1]
    rows, last = np.arange(len(weights)), weights.shape[1] - 1
    # position in ascending order
    drawn = np.minimum(np.count_nonzero(total < thresholds[:, None], axis=1), last)
    value = ascending[rows, drawn]
    # among candidates of equal weight the one of this rank, in the order of the candidates
    rank = drawn - np.count_nonzero(ascending < value[:, None], axis=1)
    found: I64 = np.argmax(weights == value[:, None], axis=1)
    for row in np.flatnonzero(rank):
        # rank 0 is the first candidate of that weight, which argmax found; mostly it is the only
        # one
        found[row] = np.flatnonzero(weights[row] == value[row])[rank[row]]
    return found


def format_bound(bound: float) -> str:
    """Return an epsilon or delta for people: four significant digits, or all before the point,
    rounded up, since less would be no bound."""
    number = Decimal(f"{bound:.12g}")  # without the rounding errors of sums: 0.1 x 3 is 0.3
    is_plain = 1e-4 <= bound < 1e12 or not bound
    rounded = Context(
        prec=max(4, number.adjusted() + 1) if is_plain else 4, rounding=ROUND_CEILING
    ).plus(number)
    return f"{float(rounded):,.9f}".rstrip("0").rstrip(".") if is_plain else f"{float(rounded):.4g}"
