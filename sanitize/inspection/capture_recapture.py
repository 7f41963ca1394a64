"""Capture-recapture estimates of what all finders missed, without labels, from indexes of one
corpus built by different finders.

A span that a second finder reports, too, is a recapture. For two indexes: Chapman's estimate (Some
properties of the hypergeometric distribution with applications to zoological sample censuses,
1951). It is valid only if the two find independently of each other. For three or more, two
estimates with weaker assumptions:

- Chao's lower bound (Estimating the population size for capture-recapture data with unequal
  catchability, Biometrics 1987) allows for spans that are unequally easy to find: from the numbers
  found once and twice it gives the *least* number found by none.
- For three, a log-linear model (Fienberg, The multiple recapture census for closed populations and
  incomplete 2^k contingency tables, Biometrika 1972): pairs of finders may agree more, or less,
  than by chance; Akaike's criterion selects the pairs. A dependence common to all three cannot be
  seen.

Overlapping spans of one kind count as one thing, whichever finders found them and wherever they
start and end. Costs one pass over the occurrences.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sanitize.array_types import F64, I64
from sanitize.core.intervals import begins_group, flatten_spans, overlaps_any, pack_pairs
from sanitize.reporting.confidence_intervals import Z_95

_MAX_COEFFICIENT = (
    15.0  # a larger coefficient comes from an empty cell, and the model is not usable
)
TWO_INDEX_ASSUMPTION = (
    "that the two find independently of each other; if both find the easy ones and miss the hard"
    " ones, more is missed than estimated"
)
SEVERAL_INDEX_ASSUMPTION = (
    "that what is hard to find for one of them is not hard for all of them: `at least` (Chao)"
    " allows for values that are unequally easy to find, the log-linear estimate for pairs of"
    " finders that agree; neither can see what all of them miss alike"
)


@dataclass(frozen=True, kw_only=True)
class TwoIndexEstimate:
    """Chapman's estimate of one kind from two indexes, with its 95 % interval; None unless both
    have any."""

    first: int
    second: int
    both: int
    estimate: float | None
    interval: Sequence[float] | None
    missed_by_both: float | None


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """Chao's lower bound of a number, with its 95 % interval; None where the counts do not
    suffice."""

    lower_bound: float | None = None
    lower_bound_interval: Sequence[float] | None = None
    missed_at_least: float | None = None


@dataclass(frozen=True, kw_only=True)
class LoglinearEstimate:
    """A log-linear estimate with its 95 % interval, and the pairs of lists that depend on each
    other in its model; None where the counts do not suffice."""

    loglinear: float | None = None
    loglinear_interval: Sequence[float] | None = None
    dependent_pairs: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, kw_only=True)
class SeveralIndexEstimate(LowerBound, LoglinearEstimate):
    """Estimates of one kind from three indexes or more. Pairs of indexes are counted from 1."""

    found_by_list: Sequence[int]
    found: int
    found_once: int
    found_twice: int


def chapman_estimate(first: int, second: int, both: int) -> TwoIndexEstimate:
    """Estimate the total number, (n1 + 1)(n2 + 1) / (m + 1) - 1, with the 95 % interval from its
    variance (Chapman 1951; Seber, The Estimation of Animal Abundance, 1982), and the number that
    neither found. The estimates are None if only one of the two found any."""
    if not first or not second:
        return TwoIndexEstimate(
            first=first, second=second, both=both, estimate=None, interval=None, missed_by_both=None
        )
    estimate = (first + 1) * (second + 1) / (both + 1) - 1
    variance = (
        (first + 1)
        * (second + 1)
        * (first - both)
        * (second - both)
        / ((both + 1) ** 2 * (both + 2))
    )
    least = first + second - both
    low, high = (
        max(least, estimate - Z_95 * variance**0.5),
        max(least, estimate + Z_95 * variance**0.5),
    )
    interval, missed = [float(low), float(high)], max(0.0, estimate - least)
    return TwoIndexEstimate(
        first=first,
        second=second,
        both=both,
        estimate=estimate,
        interval=interval,
        missed_by_both=missed,
    )


def count_overlapping(spans: pl.DataFrame, other_spans: pl.DataFrame) -> int:
    """The number of `spans` (doc_no, cell, start, end) that overlap one of `other_spans`."""
    axis, other_axis = _flatten(spans, other_spans)
    return int(overlaps_any(*axis, *other_axis).sum())


def capture_histories(span_lists: Sequence[pl.DataFrame]) -> dict[int, int]:
    """Number of things by the set of lists that found them. The set is a bit mask (1: the first
    list); each list has the spans (doc_no, cell, start, end) of one kind. Spans that overlap,
    directly or through others, are one thing."""
    numbered = [
        spans.select("doc_no", "cell", "start", "end", bit=pl.lit(1 << number))
        for number, spans in enumerate(span_lists)
    ]
    spans = pl.concat(numbered).sort("doc_no", "cell", "start", "end")
    (axis,) = _flatten(spans)
    spans = spans.with_columns(thing=pl.Series(np.cumsum(begins_group(*axis))))
    found = spans.unique(["thing", "bit"]).group_by("thing").agg(pl.col("bit").sum())
    return dict(found.group_by("bit").len().sort("bit").iter_rows())


def _flatten(*span_lists: pl.DataFrame) -> list[tuple[I64, I64]]:
    """The spans (doc_no, cell, start, end) of each list on one axis."""
    texts = pack_pairs(
        [spans["doc_no"].to_numpy() for spans in span_lists],
        [spans["cell"].to_numpy() for spans in span_lists],
    )
    offsets = [(spans["start"].to_numpy(), spans["end"].to_numpy()) for spans in span_lists]
    return flatten_spans(
        *((text, start, end) for text, (start, end) in zip(texts, offsets, strict=True))
    )


def estimate_total(history_counts: Mapping[int, int], list_count: int) -> SeveralIndexEstimate:
    """Estimates for one kind from `capture_histories` of three lists or more; they are None if
    fewer than two lists found any."""
    counts = [
        sum(times for bits, times in history_counts.items() if bits >> number & 1)
        for number in range(list_count)
    ]
    active = [number for number, count in enumerate(counts) if count]
    once, twice = (
        sum(times for bits, times in history_counts.items() if bits.bit_count() == number)
        for number in (1, 2)
    )
    found = sum(history_counts.values())
    bound, loglinear = LowerBound(), LoglinearEstimate()
    if len(active) > 1:
        bound = chao_lower_bound(found, once, twice, len(active))
    if len(active) == 3:
        patterns = [
            sum(1 << number for number, present in zip(active, cell, strict=True) if present)
            for cell in _CAPTURE_PATTERNS
        ]
        loglinear = loglinear_estimate([history_counts.get(bits, 0) for bits in patterns])
    return SeveralIndexEstimate(
        found_by_list=counts,
        found=found,
        found_once=once,
        found_twice=twice,
        lower_bound=bound.lower_bound,
        lower_bound_interval=bound.lower_bound_interval,
        missed_at_least=bound.missed_at_least,
        loglinear=loglinear.loglinear,
        loglinear_interval=loglinear.loglinear_interval,
        dependent_pairs=loglinear.dependent_pairs
        and [
            [active[first] + 1, active[second] + 1] for first, second in loglinear.dependent_pairs
        ],
    )


def chao_lower_bound(found: int, once: int, twice: int, list_count: int) -> LowerBound:
    """Chao's lower bound of the total number, from the numbers found by exactly one (`once`) and
    exactly two lists (`twice`).

    With t lists, (t - 1) / t * f1^2 / (2 f2) more than were found, and the bias-corrected form if
    none was found twice; the 95 % interval is log-normal (Chao 1987).
    """
    share = (list_count - 1) / list_count
    if twice:
        ratio = once / twice
        more = share * once * ratio / 2
        variance = twice * (share / 2 * ratio**2 + share**2 * ratio**3 + share**2 / 4 * ratio**4)
    else:
        more = share * once * (once - 1) / 2
        variance = share * once * (once - 1) / 2 + share**2 * once * (2 * once - 1) ** 2 / 4
        variance = max(
            0.0, variance - share**2 * once**4 / (4 * (found + more)) if found + more else 0.0
        )
    spread = float(np.exp(Z_95 * np.log1p(variance / more**2) ** 0.5)) if more else 1.0
    return LowerBound(
        lower_bound=found + more,
        lower_bound_interval=[found + more / spread, found + more * spread],
        missed_at_least=more,
    )


_CAPTURE_PATTERNS = [cell for cell in itertools.product((1, 0), repeat=3) if any(cell)]
_LIST_PAIRS = [(0, 1), (0, 2), (1, 2)]


def loglinear_estimate(counts: Sequence[int]) -> LoglinearEstimate:
    """Estimate the total number from the seven counts of three lists, in the order of
    `_CAPTURE_PATTERNS` (111, 110, ... 001).

    Takes the model with the least AIC among the eight hierarchical ones without the triple term;
    `dependent_pairs` has the pairs of lists in it. The 95 % interval is log-normal in the number
    that none found. Its variance is that of the fitted rate and of the number around its rate (a
    Poisson count): with the first term alone it covers half of the true totals (.41 to .76 in
    simulations). The choice of the model is not in the interval, which covers about .90 of them
    therefore. The results are None if the table is too empty for any model.
    """
    result = LoglinearEstimate()
    best = np.inf
    y = np.array(counts, np.float64)
    for size in range(len(_LIST_PAIRS) + 1):
        for pairs in itertools.combinations(_LIST_PAIRS, size):
            columns = [
                [1.0, *cell, *(cell[first] * cell[second] for first, second in pairs)]
                for cell in _CAPTURE_PATTERNS
            ]
            fitted = _fit_poisson(np.array(columns), y)
            if fitted is None:
                continue
            beta, error, likelihood = fitted
            aic = 2 * (len(beta) - likelihood)
            if aic < best - 1e-9:
                best, found_by_none = aic, float(np.exp(beta[0]))
                spread = float(np.exp(Z_95 * (error**2 + 1 / found_by_none) ** 0.5))
                result = LoglinearEstimate(
                    loglinear=y.sum() + found_by_none,
                    loglinear_interval=[
                        y.sum() + found_by_none / spread,
                        y.sum() + found_by_none * spread,
                    ],
                    dependent_pairs=[list(pair) for pair in pairs],
                )
    return result


def _fit_poisson(x: F64, y: F64) -> tuple[F64, float, float] | None:
    """Fit a Poisson regression with a log link by Newton's method: coefficients, standard error of
    the first one, and log-likelihood up to a constant. None if it does not converge, or a cell that
    the model needs is empty."""
    beta: F64 = np.linalg.lstsq(x, np.log(y + 0.5), rcond=None)[0].astype(np.float64)
    for _ in range(100):
        rate = np.exp(np.clip(x @ beta, -30, 30))
        information = x.T @ (rate[:, None] * x)
        try:
            step = np.linalg.solve(information, x.T @ (y - rate))
        except np.linalg.LinAlgError:
            return None
        beta += step
        if np.abs(step).max() < 1e-10:
            break
    else:
        return None
    if np.abs(beta[1:]).max() > _MAX_COEFFICIENT or abs(beta[0]) > 2 * _MAX_COEFFICIENT:
        return None
    return (
        beta,
        float(np.linalg.inv(information)[0, 0] ** 0.5),
        float((y * (x @ beta) - np.exp(x @ beta)).sum()),
    )
