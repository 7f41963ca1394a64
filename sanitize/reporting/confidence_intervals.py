"""Confidence intervals of shares, at 95 %."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054  # normal quantile of a two-sided 95 % interval


def wilson_interval(share: float, trials: float, quantile: float = Z_95) -> list[float] | None:
    """The score interval with continuity correction of a share of `trials` trials, which may be an
    effective number; None without a trial. `quantile` is that of a normal distribution.

    It covers every share in at least 95 % of samples; without the correction, shares near 0 and 1
    in 84 %. Source: Newcombe, Two-sided confidence intervals for the single proportion, 1998,
    method 4; after Wilson, Probable inference, 1927.
    """
    if not trials > 0:
        return None
    return [1 - _upper_end(1 - share, trials, quantile), _upper_end(share, trials, quantile)]


def _upper_end(share: float, trials: float, quantile: float) -> float:
    if share >= 1:
        return 1.0
    z2 = quantile * quantile
    root = z2 + 2 - 1 / trials + 4 * share * (trials * (1 - share) - 1)
    end = 2 * trials * share + z2 + 1 + quantile * math.sqrt(max(root, 0.0))
    return min(1.0, max(share, end / (2 * (trials + z2))))
