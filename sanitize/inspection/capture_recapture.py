"""How much every finder missed, without any labels: what indexes of one corpus, made by different finders, say together.

One finder's finds are another's recaptures. Of two indexes, Chapman's estimate (Some properties of the hypergeometric distribution with
applications to zoological sample censuses, 1951): it holds only where the two find independently of each other. Of three or more, two
figures that ask for less:

- Chao's lower bound (Estimating the population size for capture-recapture data with unequal catchability, Biometrics 1987) takes things
  that are unequally easy to find: from those found once and twice, *at least* so many were found by none.
- Of three, a log-linear model (Fienberg, The multiple recapture census for closed populations and incomplete 2^k contingency tables,
  Biometrika 1972): pairs of finders may agree more, or less, than chance; which pairs, Akaike's criterion says. What all three have in
  common stays unseen.

Spans of one kind that overlap are one thing, whoever found them and however they are cut. Costs a pass over the occurrences.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Z = 1.959963984540054  # of a 95 % interval
F64 = npt.NDArray[np.float64]
_FAR = 15.0  # a coefficient beyond it belongs to an empty cell, and its model says nothing
TWO = "that the two find independently of each other; where both find the easy ones, more is missed than this says"
MORE = (
    "that what is hard to find for one of them is not hard for all of them: `at least` (Chao) allows for things that are unequally easy, "
    "the log-linear figure for pairs of finders that agree; what all of them pass over alike, neither figure knows"
)


def chapman(first: int, second: int, both: int) -> dict[str, Any]:
    """How many there are, (n1 + 1)(n2 + 1) / (m + 1) - 1, with the 95 % interval of its variance (Chapman 1951; Seber, The Estimation of
    Animal Abundance, 1982), and how many neither found. None where only one of the two found any: it then tells nothing."""
    out: dict[str, Any] = {"first": first, "second": second, "both": both, "estimate": None, "interval": None, "missed_by_both": None}
    if not first or not second:
        return out
    estimate = (first + 1) * (second + 1) / (both + 1) - 1
    variance = (first + 1) * (second + 1) * (first - both) * (second - both) / ((both + 1) ** 2 * (both + 2))
    least = first + second - both
    low, high = max(least, estimate - Z * variance**0.5), max(least, estimate + Z * variance**0.5)
    return out | {"estimate": estimate, "interval": [float(low), float(high)], "missed_by_both": max(0.0, estimate - least)}


def met(these: pl.DataFrame, those: pl.DataFrame) -> int:
    """How many of these spans (doc_no, cell, start, stop) overlap one of those."""
    if not these.height or not those.height:
        return 0
    left = these.select("doc_no", "cell", "start", "stop").with_row_index("row")
    pairs = left.join(those.select("doc_no", "cell", low="start", high="stop"), on=["doc_no", "cell"])
    return pairs.filter((pl.col("start") < pl.col("high")) & (pl.col("low") < pl.col("stop")))["row"].n_unique()


def histories(lists: Sequence[pl.DataFrame]) -> dict[int, int]:
    """How many things each set of lists found: the set as bits (1: the first list), each list the spans (doc_no, cell, start, stop) of one
    kind."""
    numbered = [one.select("doc_no", "cell", "start", "stop", bit=pl.lit(1 << number)) for number, one in enumerate(lists)]
    spans = pl.concat(numbered).sort("doc_no", "cell", "start", "stop")
    reach = pl.col("stop").cum_max().shift(1).over("doc_no", "cell")
    spans = spans.with_columns(thing=(reach.is_null() | (pl.col("start") >= reach)).cum_sum())
    found = spans.unique(["thing", "bit"]).group_by("thing").agg(pl.col("bit").sum())
    return dict(found.group_by("bit").len().sort("bit").iter_rows())


def together(found: Mapping[int, int], lists: int) -> dict[str, Any]:
    """What `histories` of three lists or more tell of one kind. None where fewer than two of them found any."""
    counts = [sum(times for bits, times in found.items() if bits >> number & 1) for number in range(lists)]
    active = [number for number, count in enumerate(counts) if count]
    once, twice = (sum(times for bits, times in found.items() if bits.bit_count() == number) for number in (1, 2))
    out: dict[str, Any] = {
        "lists": counts,
        "found": sum(found.values()),
        "once": once,
        "twice": twice,
        "least": None,
        "least_interval": None,
    }
    out |= {"missed_at_least": None, "loglinear": None, "loglinear_interval": None, "dependent": None}
    if len(active) < 2:
        return out
    out |= chao(out["found"], once, twice, len(active))
    if len(active) == 3:
        patterns = [sum(1 << number for number, there in zip(active, cell, strict=True) if there) for cell in _CELLS]
        out |= loglinear([found.get(bits, 0) for bits in patterns])
        out["dependent"] = out["dependent"] and [[active[one] + 1, active[other] + 1] for one, other in out["dependent"]]
    return out


def chao(found: int, once: int, twice: int, lists: int) -> dict[str, Any]:
    """At least how many there are, of which `lists` finders found some `once` and some `twice`: (t - 1) / t * f1^2 / (2 f2) more than were
    found, and its form without bias where none was found twice; the 95 % interval is log-normal (Chao 1987)."""
    share = (lists - 1) / lists
    if twice:
        ratio = once / twice
        more = share * once * ratio / 2
        variance = twice * (share / 2 * ratio**2 + share**2 * ratio**3 + share**2 / 4 * ratio**4)
    else:
        more = share * once * (once - 1) / 2
        variance = share * once * (once - 1) / 2 + share**2 * once * (2 * once - 1) ** 2 / 4
        variance = max(0.0, variance - share**2 * once**4 / (4 * (found + more)) if found + more else 0.0)
    spread = float(np.exp(Z * np.log1p(variance / more**2) ** 0.5)) if more else 1.0
    return {"least": found + more, "least_interval": [found + more / spread, found + more * spread], "missed_at_least": more}


_CELLS = [cell for cell in itertools.product((1, 0), repeat=3) if any(cell)]
_PAIRS = [(0, 1), (0, 2), (1, 2)]


def loglinear(counts: Sequence[int]) -> dict[str, Any]:
    """How many there are, from the seven counts of what three lists found, in the order of `_CELLS` (111, 110, ... 001): the model of
    least AIC among the eight hierarchical ones without the triple term, the pairs that it calls `dependent`, and a 95 % interval that is
    log-normal about what none found. None where the table is too empty for any."""
    said: dict[str, Any] = {"loglinear": None, "loglinear_interval": None, "dependent": None}
    best = np.inf
    y = np.array(counts, np.float64)
    for size in range(len(_PAIRS) + 1):
        for pairs in itertools.combinations(_PAIRS, size):
            columns = [[1.0, *cell, *(cell[one] * cell[other] for one, other in pairs)] for cell in _CELLS]
            fitted = _poisson(np.array(columns), y)
            if fitted is None:
                continue
            beta, error, likelihood = fitted
            aic = 2 * (len(beta) - likelihood)
            if aic < best - 1e-9:
                best, none, spread = aic, float(np.exp(beta[0])), float(np.exp(Z * error))
                said = {
                    "loglinear": y.sum() + none,
                    "loglinear_interval": [y.sum() + none / spread, y.sum() + none * spread],
                    "dependent": [list(pair) for pair in pairs],
                }
    return said


def _poisson(x: F64, y: F64) -> tuple[F64, float, float] | None:
    """Poisson regression with a log link, by Newton's steps: coefficients, the standard error of the first, and the log-likelihood up to a
    constant. None where a cell is empty that the model needs."""
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
    if np.abs(beta[1:]).max() > _FAR or abs(beta[0]) > 2 * _FAR:
        return None
    return beta, float(np.linalg.inv(information)[0, 0] ** 0.5), float((y * (x @ beta) - np.exp(x @ beta)).sum())
