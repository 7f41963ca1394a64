"""Measures how often the printed intervals contain the true number, and how wide they are beside
those of the profile likelihood, in simulations with a fixed seed.

    python -m benchmarks.bench_intervals                   2,000 simulations a row, two minutes:
                                                           benchmarks/results/intervals.{json,md}
    python -m benchmarks.bench_intervals --repeat 100 --results /tmp/x      a smoke run

Capture-recapture (`sanitize/inspection/capture_recapture.py`): items are found by three finders of
the stated recall, and the interval is that of `estimate_total`, where it gives one. Whether it
contains the number of missed items is read from the two tails that it inverts, in every simulation;
widths are those of the first `WIDTHS` intervals. The profile likelihood is that of the same model:
the numbers of missed items of which twice the logarithm of the likelihood ratio is below the 95 %
quantile of chi-squared, extended to the next whole numbers, as what is printed is.

Shares (`wilson_interval`): exact sums over the binomial distribution, no simulation.

Forecasts of leaks have no interval; the last table says why. The share that a training leaks is
drawn from a beta distribution. A new training is predicted from several by the profile predictive
likelihood of exactly this model; the width is that of its interval, beside that of the middle 95 %
of new trainings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks import runner
from sanitize.array_types import F64, I64, Mask
from sanitize.inspection import capture_recapture
from sanitize.reporting.confidence_intervals import wilson_interval

SIMULATIONS, WIDTHS = 2_000, 100
TOTALS = (10, 30, 100, 300, 1_000, 10_000)
RECALLS = ((0.3, 0.3, 0.3), (0.6, 0.6, 0.6), (0.95, 0.95, 0.95), (0.9, 0.6, 0.3))
# how the finders depend on each other; the last two break the assumption
DEPENDENCES = {
    "none": "independent",
    "pair-agrees": "two agree, odds ratio 5",
    "pair-differs": "two differ, odds ratio 1/5",
    "difficulty-1": "common difficulty, sd 1",
    "difficulty-2": "common difficulty, sd 2",
    "hidden": "a tenth that none finds",
}
TRUSTED = [*DEPENDENCES][:-2]
CHI2_95 = 3.841458820694124
_PATTERNS = [(bits & 1, bits >> 1 & 1, bits >> 2 & 1) for bits in range(8)]
_ODD, _EVEN = [1, 2, 4, 7], [6, 5, 3]  # bit masks of patterns, without that of none


# ---- capture-recapture ----


def find_cell_shares(recalls: Sequence[float], dependence: str) -> F64:
    """The probabilities of the eight sets of finders, by their bit mask."""
    if dependence == "hidden":
        shares = 0.9 * find_cell_shares(recalls, "none")
        shares[0] += 0.1
        return shares
    if dependence.startswith("difficulty"):
        spread = float(dependence[-1])
        nodes, weights = np.polynomial.hermite_e.hermegauss(61)
        weights = weights / weights.sum()
        levels = np.linspace(-30, 30, 60_001)
        finds = []
        for recall in recalls:
            mean = (weights / (1 + np.exp(-levels[:, None] - spread * nodes))).sum(axis=1)
            level = np.interp(recall, mean, levels)
            finds.append(1 / (1 + np.exp(-level - spread * nodes)))
        return np.array(
            [
                (
                    weights
                    * np.prod(
                        [one if bit else 1 - one for one, bit in zip(finds, pattern, strict=True)],
                        axis=0,
                    )
                ).sum()
                for pattern in _PATTERNS
            ]
        )
    first, second, third = recalls
    ratio = {"none": 1.0, "pair-agrees": 5.0, "pair-differs": 0.2}[dependence]
    both = first * second
    if ratio != 1:
        middle = 1 + (first + second) * (ratio - 1)
        both = (middle - (middle**2 - 4 * ratio * (ratio - 1) * both) ** 0.5) / (2 * (ratio - 1))
    pair = {(1, 1): both, (1, 0): first - both, (0, 1): second - both}
    pair[0, 0] = 1 - sum(pair.values())
    return np.array([pair[a, b] * (third if c else 1 - third) for a, b, c in _PATTERNS])


def measure_capture(
    total: int,
    recalls: Sequence[float],
    dependence: str,
    simulations: int = SIMULATIONS,
    widths: int = WIDTHS,
) -> dict[str, Any]:
    """How often an interval is printed, how often those contain the true number, their median
    width, and the same of the profile likelihood, None where fewer than a twentieth is printed."""
    rng = np.random.default_rng(total)
    counts = rng.multinomial(total, find_cell_shares(recalls, dependence), size=simulations)
    estimates = [
        capture_recapture.find_obstacle(row[[1, 2, 4]], row[_EVEN], row[7]) is None
        for row in counts
    ]
    printed = counts[np.array(estimates, np.bool_)]
    result: dict[str, Any] = {
        "total": total,
        "recalls": list(recalls),
        "dependence": dependence,
        "printed": len(printed) / simulations,
        "wrong": 0.0,
    }
    if not len(printed):
        return result
    covered = np.array([_has_missed(row) for row in printed])
    result["wrong"] = float((~covered).sum() / simulations)
    if len(printed) < simulations / 20:
        return result
    low, high = find_profile_intervals(printed[:widths])
    ends = [
        capture_recapture.estimate_total(dict(enumerate(row.tolist()[1:], 1)), 3).interval
        for row in printed[:widths]
    ]
    width = float(np.median([end[1] - end[0] for end in ends if end]))
    profile_width = float(np.median(high + 1 - np.maximum(low - 1, 0)))
    return result | {
        "covered": float(covered.mean()),
        "width": width,
        "profile_width": profile_width,
        "profile_covered": float(
            ((low - 1 <= printed[:widths, 0]) & (printed[:widths, 0] <= high + 1)).mean()
        ),
    }


def _has_missed(row: I64) -> bool:
    """Whether the interval of these counts contains the number that none found."""
    tail = capture_recapture.lower_tail(
        row[_ODD].astype(np.float64), row[[*_EVEN, 0]].astype(np.float64)
    )
    return capture_recapture.TAIL < tail < 1 - capture_recapture.TAIL


def find_profile_intervals(counts: I64) -> tuple[F64, F64]:
    """The lowest and highest number of missed items within the profile likelihood of the model
    without a dependence of all three, for each row of counts by bit mask."""
    odd = counts[:, _ODD].astype(np.float64)
    even = counts[:, _EVEN].astype(np.float64)
    middle = np.floor(odd.prod(axis=1) / even.prod(axis=1))
    near = [np.maximum(middle + step, 0) for step in range(-3, 4)]
    best = np.max([_profile(odd, even, missed) for missed in near], axis=0)

    def is_within(missed: F64) -> Mask:
        return np.asarray(2 * (best - _profile(odd, even, missed)) <= CHI2_95)

    low, high = [
        _bisect_outwards(is_within, middle, limit)
        for limit in (np.zeros_like(middle), 100 * middle + 100)
    ]
    return low, high


def _bisect_outwards(is_within: Any, middle: F64, limit: F64) -> F64:
    """The last whole number on the way from `middle` to `limit` that is within."""
    inner, outer = middle, limit
    at_limit = is_within(limit)
    for _ in range(60):
        between = inner + np.trunc((outer - inner) / 2)
        within = is_within(between)
        inner, outer = np.where(within, between, inner), np.where(within, outer, between)
    return np.where(at_limit, limit, inner)


def _profile(odd: F64, even: F64, missed: F64) -> F64:
    """The logarithm of the likelihood of a number of missed items. The fitted counts keep all
    margins, so that they differ from the observed ones by one shift of both groups of cells."""
    from scipy.special import gammaln, xlogy

    even = np.column_stack([even, missed])
    low, high = -even.min(axis=1), odd.min(axis=1)
    for _ in range(60):
        shift = ((low + high) / 2)[:, None]
        with np.errstate(divide="ignore"):
            is_low = np.log(even + shift).sum(axis=1) < np.log(odd - shift).sum(axis=1)
        low, high = np.where(is_low, shift[:, 0], low), np.where(is_low, high, shift[:, 0])
    total = odd.sum(axis=1) + even.sum(axis=1)
    fitted = xlogy(odd, np.maximum(odd - shift, 1e-300)).sum(axis=1)
    fitted += xlogy(even, np.maximum(even + shift, 1e-300)).sum(axis=1)
    return np.asarray(gammaln(total + 1) - gammaln(missed + 1) + fitted - xlogy(total, total))


def measure_two_indexes(
    total: int, recall: float, ratio: str, simulations: int = SIMULATIONS
) -> float:
    """How often an interval from two indexes, which is not printed, would contain the number that
    both missed: it inverts Fisher's exact test of independence."""
    shares = find_cell_shares((recall, recall, 0.0), ratio)
    counts = np.random.default_rng(total).multinomial(total, shares, size=simulations)
    tails = [
        capture_recapture.lower_tail(row[[1, 2]].astype(np.float64), row[[3, 0]].astype(np.float64))
        for row in counts
    ]
    return float(np.mean([0.025 < tail < 0.975 for tail in tails]))


# ---- shares ----


def measure_share(trials: int, share: float) -> dict[str, Any]:
    """The probability that the interval of a share contains it, the median width, and both of the
    profile likelihood."""
    from scipy.special import xlogy
    from scipy.stats import binom

    hits = np.arange(trials + 1)
    weights = binom.pmf(hits, trials, share)
    own = np.array([wilson_interval(number / trials, trials) for number in hits])

    def is_within(tested: F64) -> Mask:
        ratio = xlogy(hits, hits / trials) + xlogy(trials - hits, 1 - hits / trials)
        ratio = ratio - xlogy(hits, tested) - xlogy(trials - hits, 1 - tested)
        return np.asarray(2 * ratio <= CHI2_95)

    profile = []
    for limit in (np.zeros(trials + 1), np.ones(trials + 1)):
        inner, outer = hits / trials, limit
        for _ in range(60):
            between = (inner + outer) / 2
            within = is_within(between)
            inner, outer = np.where(within, between, inner), np.where(within, outer, between)
        profile.append(inner)
    low, high = profile
    return {
        "trials": trials,
        "share": share,
        "covered": float(weights[(own[:, 0] <= share) & (share <= own[:, 1])].sum()),
        "width": _weighted_median(own[:, 1] - own[:, 0], weights),
        "profile_covered": float(weights[(low <= share) & (share <= high)].sum()),
        "profile_width": _weighted_median(high - low, weights),
    }


def _weighted_median(values: F64, weights: F64) -> float:
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), 0.5)])


# ---- forecasts ----


class TrainingModel:
    """Numbers of leaks of trainings whose shares have a beta distribution, on a grid of its mean
    and of the correlation within a training."""

    def __init__(self, addresses: int, new_addresses: int) -> None:
        mean, correlation = np.meshgrid(
            1 / (1 + np.exp(-np.linspace(-7, 7, 71))), np.geomspace(1e-5, 0.7, 25)
        )
        self._measured, self._new = (
            self.find_log_shares(number, mean.ravel(), correlation.ravel())
            for number in (addresses, new_addresses)
        )

    @staticmethod
    def find_log_shares(addresses: int, mean: F64, correlation: F64) -> F64:
        """The logarithm of the probability of each number of leaks, a row for each parameter."""
        from scipy.stats import betabinom

        scale = (1 - correlation) / correlation
        numbers = np.arange(addresses + 1)
        return np.asarray(
            betabinom.logpmf(
                numbers, addresses, (mean * scale)[:, None], ((1 - mean) * scale)[:, None]
            )
        )

    def predict(self, leaks: I64) -> tuple[int, int]:
        """The interval of a new training by the profile predictive likelihood."""
        likelihood = self._measured[:, leaks].sum(axis=1)
        near = likelihood > likelihood.max() - 30
        profile = (likelihood[near, None] + self._new[near]).max(axis=0)
        within = np.flatnonzero(2 * (profile.max() - profile) <= CHI2_95)
        return int(within[0]), int(within[-1])


def measure_forecast(
    share: float,
    correlation: float,
    trainings: int,
    model: TrainingModel,
    addresses: int,
    new_addresses: int,
    simulations: int = SIMULATIONS,
) -> dict[str, Any]:
    """How often the profile predictive likelihood contains the leaks of a new training, its median
    width, and that of the middle 95 % of new trainings."""
    rng = np.random.default_rng(trainings)
    scale = (1 - correlation) / correlation
    shares = rng.beta(share * scale, (1 - share) * scale, (simulations, trainings + 1))
    leaks = rng.binomial(addresses, shares[:, 1:])
    new = rng.binomial(new_addresses, shares[:, 0])
    ends = np.array([model.predict(row) for row in leaks])
    middle = np.quantile(new, [0.025, 0.975])
    return {
        "share": share,
        "correlation": correlation,
        "trainings": trainings,
        "addresses": addresses,
        "new_addresses": new_addresses,
        "covered": float(((ends[:, 0] <= new) & (new <= ends[:, 1])).mean()),
        "width": float(np.median(ends[:, 1] - ends[:, 0])),
        "middle_width": float(middle[1] - middle[0]),
    }


# ---- the page ----


def format_page(result: dict[str, Any]) -> str:
    """The result as a Markdown page."""
    capture = runner.format_table(
        [
            "finders",
            "recall",
            "items",
            "printed",
            "covered",
            "wrong",
            "median width",
            "of profile likelihood",
        ],
        [_format_capture(row) for row in result["capture"] if row["printed"]],
        left=2,
    )
    two = runner.format_table(
        ["two finders", *(f"{total:,} items" for total in TWO_TOTALS)],
        [
            [DEPENDENCES[name], *(f"{value:.3f}" for value in values)]
            for name, values in result["two_indexes"].items()
        ],
        left=1,
    )
    shares = runner.format_table(
        [
            "trials",
            "share",
            "covered",
            "of profile likelihood",
            "median width",
            "of profile likelihood",
        ],
        [
            [
                f"{row['trials']:,}",
                f"{row['share']}",
                f"{row['covered']:.3f}",
                f"{row['profile_covered']:.3f}",
                f"{row['width']:.4f}",
                f"{row['profile_width']:.4f}",
            ]
            for row in result["shares"]
        ],
        left=0,
    )
    forecasts = runner.format_table(
        [
            "trainings",
            "correlation",
            "share",
            "new addresses",
            "covered",
            "median width",
            "middle 95 % of trainings",
        ],
        [
            [
                f"{row['trainings']}",
                f"{row['correlation']}",
                f"{row['share']}",
                f"{row['new_addresses']:,}",
                f"{row['covered']:.3f}",
                f"{row['width']:,.0f}",
                f"{row['middle_width']:,.0f}",
            ]
            for row in result["forecasts"]
        ],
        left=0,
    )
    return "\n".join(
        [
            "# How often intervals contain the true number",
            "",
            f"{result['date']}, {result['repeat']:,} simulations a row, fixed seeds.",
            "",
            "# Three finders",
            "",
            "Rows in which nothing is printed are left out. *Wrong* is the share of all simulations"
            " in which an interval was printed that does not contain the number. A difficulty of sd"
            " 2 (log-odds) is mostly recognised, and nothing is printed; a group that none of the"
            " three can find is outside of what any method can see.",
            "",
            *capture,
            "",
            "# Two finders: why no interval is printed",
            "",
            "Coverage of the exact interval for independent finders, with a recall of 0.6, by how"
            " the two depend on each other.",
            "",
            *two,
            "",
            "# Shares: precision, recall, leaks",
            "",
            *shares,
            "",
            "# Forecasts of leaks: why no interval is printed",
            "",
            "100 addresses measured in each training; *covered* and *median width* are those of the"
            " profile predictive likelihood.",
            "",
            *forecasts,
            "",
        ]
    )


def _format_capture(row: dict[str, Any]) -> list[str]:
    start = [
        DEPENDENCES[row["dependence"]],
        " ".join(f"{recall}" for recall in row["recalls"]),
        f"{row['total']:,}",
        f"{row['printed']:.3f}",
    ]
    if "covered" not in row:
        return [*start, "–", f"{row['wrong']:.3f}", "–", "–"]
    return [
        *start,
        f"{row['covered']:.3f}",
        f"{row['wrong']:.3f}",
        f"{row['width']:,.0f}",
        f"{row['profile_width']:,.0f}",
    ]


TWO_TOTALS = (30, 100, 1_000, 10_000)


def list_capture_cases() -> Iterable[tuple[int, tuple[float, ...], str]]:
    """All combinations of the capture-recapture table."""
    return (
        (total, recalls, dependence)
        for dependence in DEPENDENCES
        for recalls in RECALLS
        for total in TOTALS
    )


def main() -> None:
    options = runner.build_parser(__doc__, repeat=SIMULATIONS).parse_args()
    repeat = options.repeat
    result = runner.start_result(repeat=repeat)
    result["capture"] = [measure_capture(*case, repeat) for case in list_capture_cases()]
    result["two_indexes"] = {
        name: [measure_two_indexes(total, 0.6, name, repeat) for total in TWO_TOTALS]
        for name in ("none", "pair-agrees", "pair-differs")
    }
    result["shares"] = [
        measure_share(trials, share)
        for trials in (10, 30, 100, 1_000, 10_000)
        for share in (0.3, 0.6, 0.9, 0.95, 0.99)
    ]
    result["forecasts"] = []
    for new_addresses in (100, 1_000):
        model = TrainingModel(100, new_addresses)
        result["forecasts"] += [
            measure_forecast(share, correlation, trainings, model, 100, new_addresses, repeat)
            for trainings in (3, 5)
            for correlation, share in ((0.02, 0.3), (0.1, 0.05))
        ]
    runner.save_result(options.results, "intervals", result, format_page(result))


if __name__ == "__main__":
    main()
