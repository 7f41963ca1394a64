"""Capture-recapture estimates of what all finders missed, without labels, from indexes of one
corpus built by different finders.

A span that a second finder reports, too, is a recapture.

- Two indexes: Chapman's estimate (Some properties of the hypergeometric distribution with
  applications to zoological sample censuses, 1951). It holds only if the two find independently of
  each other. Two indexes cannot show whether they do, and how much they may depend on each other
  decides how wide an interval has to be: none is given.
- Three: the log-linear model in which any two may depend on each other in any way (Fienberg, The
  multiple recapture census for closed populations and incomplete 2^k contingency tables, Biometrika
  1972). The same number follows if one difficulty of each item, with a normal distribution, makes
  it hard for all three (Holland, The Dutch identity, Psychometrika 1990). What all three miss for
  another reason cannot be seen. The interval inverts the conditional test of the model given all
  counts by two finders, as Fisher's exact test does for two (Zelen, The analysis of several 2 x 2
  contingency tables, Biometrika 1971), with half of the probability of the observed table.

There is no estimate, but a reason, where one finder contains another, and where too few items were
found by some. `benchmarks/bench_intervals.py` measures how often the interval covers the true
number. Overlapping spans of one kind count as one thing, whichever finders found them and wherever
they start and end. Costs one pass over the occurrences.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sanitize.array_types import F64, I64
from sanitize.core.intervals import begins_group, flatten_spans, overlaps_any, pack_pairs

# items found by two, and in each cell of the table of three, for an estimate. From 7 on Chapman's
# has next to no bias (Robson and Regier, Sample size in Petersen mark-recapture experiments, 1964);
# with fewer than 10 in a cell, the interval is more than 1.4 times that of the profile likelihood
_LEAST_COUNT = 10
# odds ratio of all three pairs from which their common difficulty is too strong for a normal one:
# with standard deviations from 1.5 log-odds on the interval would cover less than 94 %
_MAX_COMMON_ODDS_RATIO = 2.0
# probability on either side. With .025 the coverage is .95 where the model holds exactly, and .94
# where a normal difficulty with a standard deviation of 1 log-odds approximates it
TAIL = 0.02

TWO_INDEX_ASSUMPTION = (
    "that the two find independently of each other, which two indexes cannot show: there is no"
    " interval; if both find the easy ones and miss the hard ones, more is missed than estimated"
)
SEVERAL_INDEX_ASSUMPTION = (
    "that a group that all three miss alike does not exist: any two of them may depend on each"
    " other, and some items may be harder for all, but what none of them can find is not counted"
)


@dataclass(frozen=True, kw_only=True)
class TwoIndexEstimate:
    """Chapman's estimate of one kind from two indexes, without an interval; None where
    `no_estimate` has the reason."""

    first: int
    second: int
    both: int
    estimate: float | None
    missed_by_both: float | None
    no_estimate: str | None


@dataclass(frozen=True, kw_only=True)
class SeveralIndexEstimate:
    """The log-linear estimate of one kind from the three indexes that have any, with its 95 %
    interval; None where `no_estimate` has the reason."""

    found_by_list: Sequence[int]
    found: int
    estimate: float | None
    interval: Sequence[float] | None
    missed_by_all: float | None
    no_estimate: str | None


def chapman_estimate(first: int, second: int, both: int) -> TwoIndexEstimate:
    """Estimate the total number, (n1 + 1)(n2 + 1) / (m + 1) - 1 (Chapman 1951), and the number that
    neither found, from the numbers that the first, the second and both found."""
    assert 0 <= both <= min(first, second), "what both found, each found"
    reason = None
    if not first or not second:
        reason = _ONE_INDEX_ONLY
    elif both == min(first, second):
        reason = _describe_containment(*((2, 1) if both == second else (1, 2)))
    elif both < _LEAST_COUNT:
        reason = f"fewer than {_LEAST_COUNT} were found by both"
    estimate = None if reason else (first + 1) * (second + 1) / (both + 1) - 1
    return TwoIndexEstimate(
        first=first,
        second=second,
        both=both,
        estimate=estimate,
        missed_by_both=None if estimate is None else estimate - (first + second - both),
        no_estimate=reason,
    )


_ONE_INDEX_ONLY = "only one index has any"


def _describe_containment(inner: int, outer: int) -> str:
    return (
        f"index {outer} found everything that index {inner} found, which shows nothing of what both"
        " missed"
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
    """The estimate for one kind from `capture_histories` of three lists or more."""
    counts = [
        sum(times for bits, times in history_counts.items() if bits >> number & 1)
        for number in range(list_count)
    ]
    active = [number for number, count in enumerate(counts) if count]
    contained = [
        (inner + 1, outer + 1)
        for inner in active
        for outer in active
        if inner != outer
        and not any(bits >> inner & 1 and not bits >> outer & 1 for bits in history_counts)
    ]
    found = sum(history_counts.values())
    missed, interval = None, None
    if len(active) < 2:
        reason: str | None = _ONE_INDEX_ONLY
    elif contained:
        reason = "; ".join(_describe_containment(*pair) for pair in contained)
    elif len(active) != 3:
        reason = f"{len(active)} indexes have any, and an estimate needs three"
    else:
        masks = [1 << number for number in active]
        singles = [history_counts.get(mask, 0) for mask in masks]
        pairs = [history_counts.get(sum(masks) - mask, 0) for mask in masks]
        every = history_counts.get(sum(masks), 0)
        reason = find_obstacle(singles, pairs, every)
        if not reason:
            missed, interval = _estimate_missed(singles, pairs, every)
    return SeveralIndexEstimate(
        found_by_list=counts,
        found=found,
        estimate=None if missed is None else found + missed,
        interval=interval and [float(found + end) for end in interval],
        missed_by_all=missed,
        no_estimate=reason,
    )


def find_obstacle(singles: Sequence[int], pairs: Sequence[int], every: int) -> str | None:
    """The reason against an estimate from the numbers found by one list alone, by the other two
    alone, and by all three; None if there is none."""
    if min(*singles, *pairs, every) < _LEAST_COUNT:
        return f"fewer than {_LEAST_COUNT} were found by one, by two or by all three of them alone"
    # the product of all three pairs is every * single / (pair * pair), the same with each third
    ratios = [
        every * single * own / np.prod(pairs, dtype=np.float64)
        for single, own in zip(singles, pairs, strict=True)
    ]
    if min(ratios) >= _MAX_COMMON_ODDS_RATIO:
        return "all three find the same ones easily, so that they miss the same ones, too"
    return None


def _estimate_missed(
    singles: Sequence[int], pairs: Sequence[int], every: int
) -> tuple[float, tuple[int, int]]:
    """The number that none of three lists found, with its interval, from the numbers found by one
    alone, two alone and all: without a dependence of all three on each other, the product of the
    cells with an odd number of finders equals that of the cells with an even number."""
    odd, even = np.array([*singles, every], np.float64), np.array(pairs, np.float64)
    missed = float(odd.prod() / even.prod())
    # with no cell below _LEAST_COUNT the upper end is at most about nine times the estimate
    candidates = range(int(100 * missed) + 100)

    def find_tail(number: float) -> float:  # rises with the number
        return lower_tail(odd, np.append(even, number))

    low = bisect.bisect_right(candidates, TAIL, key=find_tail)
    high = bisect.bisect_left(candidates, 1 - TAIL, key=find_tail) - 1
    return missed, (low, max(low, high))


def lower_tail(odd: F64, even: F64) -> float:
    """The probability of fewer items in the cells `even` than there are, plus half of that of as
    many, among the tables `even + j`, `odd - j` of the same margins, if there is no dependence of
    all lists on each other: each has a probability of 1 / product of the factorials."""
    first, last = -int(even.min()), int(odd.min())

    def log_ratios(shifts: I64) -> F64:  # of the probability of the next table to that of this one
        up, down = np.log(odd[:, None] - shifts), np.log(even[:, None] + shifts + 1)
        return np.asarray(up.sum(axis=0) - down.sum(axis=0), np.float64)

    # the probabilities rise up to the mode and fall from there; what is more than 9 standard
    # deviations away is less than the rounding error
    mode = first + bisect.bisect_left(
        range(first, last), True, key=lambda shift: log_ratios(np.array([shift]))[0] <= 0
    )
    variance = 1 / ((1 / (even + mode + 1)).sum() + (1 / (odd - mode + 1)).sum())
    reach = int(9 * variance**0.5) + 12
    shifts = np.arange(max(first, mode - reach), min(last, mode + reach) + 1)
    logs = np.append(0.0, np.cumsum(log_ratios(shifts[:-1])))
    weights = np.exp(logs - logs.max())
    return float((weights[shifts < 0].sum() + weights[shifts == 0].sum() / 2) / weights.sum())
