"""Confidence intervals of shares, at 95 %."""

from __future__ import annotations

Z_95 = 1.959963984540054  # normal quantile of a two-sided 95 % interval


def wilson_interval(share: float, trials: float) -> list[float] | None:
    """The score interval of a share of `trials` trials, which may be an effective number; None
    without a trial. Source: Wilson, Probable inference, the law of succession, and statistical
    inference, 1927."""
    if trials <= 0:
        return None
    z2 = Z_95 * Z_95
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = (
        Z_95
        * (share * (1 - share) / trials + z2 / (4 * trials * trials)) ** 0.5
        / (1 + z2 / trials)
    )
    return [max(0.0, middle - half), min(1.0, middle + half)]
