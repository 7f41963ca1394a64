"""Comparisons and the audit of the leak test against known truths, in simulated trainings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sanitize.eval.leak_statistics import (
    DELTA,
    POWER,
    audit_one_run,
    bound_epsilon,
    compare_scores,
    compare_shares,
)

RUNS = 400
# at most so many false alarms in RUNS runs, where 5 % are allowed: binomial, 1 in 10,000
MOST_ALARMS = int(stats.binom.isf(1e-4, RUNS, 0.05))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.95])
def test_controls_alone_show_no_difference_of_shares(share: float) -> None:
    random = np.random.default_rng(3)
    alarms = sum(
        compare_shares(int(random.binomial(80, share)), 80, int(random.binomial(30, share)), 30).low
        > 0
        for _ in range(RUNS)
    )
    assert alarms <= MOST_ALARMS


def test_controls_alone_show_no_difference_of_scores() -> None:
    random = np.random.default_rng(4)
    alarms = sum(
        compare_scores(random.normal(size=60), random.normal(size=25)).is_seen for _ in range(RUNS)
    )
    assert 0 < alarms <= MOST_ALARMS, "half of the level lies above chance"


def test_controls_alone_give_no_bound_of_epsilon() -> None:
    random = np.random.default_rng(5)
    alarms = sum(
        audit_one_run(random.normal(size=64), random.random(64) < 0.5).epsilon > 0
        for _ in range(RUNS)
    )
    assert 0 < alarms <= MOST_ALARMS


def test_the_bound_holds_for_randomised_response() -> None:
    # each canary shows whether it was trained on, and lies with probability 1 / (1 + e^epsilon)
    random, epsilon = np.random.default_rng(6), 1.5
    exceeded = 0
    for _ in range(RUNS):
        is_trained = random.random(128) < 0.5
        is_honest = random.random(128) < 1 / (1 + math.exp(-epsilon))
        scores = np.where(is_trained == is_honest, 1.0, 0.0) + random.random(128) / 10
        exceeded += audit_one_run(scores, is_trained).epsilon > epsilon
    assert 0 < exceeded <= MOST_ALARMS


def test_a_model_that_remembers_everything_excludes_zero() -> None:
    is_trained = np.random.default_rng(7).random(128) < 0.5
    audit = audit_one_run(is_trained * 3.0, is_trained)
    assert (audit.guesses, audit.correct) == (64, 64)
    # without the term of delta: s^64 = .05
    share = 0.05 ** (1 / 64)
    assert audit.epsilon == pytest.approx(math.log(share / (1 - share)), rel=0.02)
    assert compare_shares(40, 40, 0, 20).low > 0.7
    assert compare_scores([2.0] * 40, [1.0] * 20).low > 0.9


def test_bounds_grow_with_right_guesses_and_with_certainty_given_up() -> None:
    bounds = [bound_epsilon(128, 64, correct) for correct in range(65)]
    assert bounds == sorted(bounds) and bounds[32] == 0 < bounds[45]
    assert bound_epsilon(128, 64, 60, level=0.99) < bounds[60]
    # without delta the theorem is an exact binomial bound
    share = stats.binomtest(60, 64, alternative="greater").proportion_ci(0.95, "exact").low
    assert bounds[60] == pytest.approx(math.log(share / (1 - share)), abs=0.02)
    assert math.log(share / (1 - share)) - bounds[60] > 10 * DELTA


def test_one_leak_of_175_decides_nothing() -> None:
    found = compare_shares(1, 175, 0, 175)
    assert found.low < 0 < found.high and not found.is_seen


@pytest.mark.parametrize(("total", "control_total"), [(5, 5), (10, 10), (8, 40)])
def test_the_interval_of_a_difference_covers(total: int, control_total: int) -> None:
    """Summed over all outcomes, for shares over the whole range."""
    hits, control_hits = np.arange(total + 1), np.arange(control_total + 1)
    found = [
        [compare_shares(int(hit), total, int(other), control_total) for other in control_hits]
        for hit in hits
    ]
    low, high = (
        np.array([[getattr(one, end) for one in row] for row in found]) for end in ("low", "high")
    )
    for share in (0.02, 0.1, 0.3, 0.5, 0.95):
        for control_share in (0.02, 0.3, 0.95):
            weights = stats.binom.pmf(hits, total, share)[:, None] * stats.binom.pmf(
                control_hits, control_total, control_share
            )
            is_covered = (low <= share - control_share) & (share - control_share <= high)
            assert weights[is_covered].sum() >= 0.935, (share, control_share)


@pytest.mark.parametrize(("count", "shift"), [(10, 2.0), (10, 3.0), (30, 3.0), (30, 0.5)])
def test_the_interval_of_an_area_covers(count: int, shift: float) -> None:
    """Also where most samples are separated completely, of which a bootstrap covers 51 to 87 %."""
    random, area = np.random.default_rng(9), stats.norm.cdf(shift / math.sqrt(2))
    covered = 0
    for _ in range(RUNS):
        found = compare_scores(random.normal(shift, size=count), random.normal(size=count))
        covered += found.low <= area <= found.high
    assert covered / RUNS >= 0.94 - 0.02


def test_newcombe_interval() -> None:
    # Newcombe 1998, table II, example (a), method 11
    found = compare_shares(56, 70, 48, 80)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0428, 0.3422)


def test_the_smallest_effect_is_seen_with_the_stated_probability() -> None:
    random = np.random.default_rng(8)
    smallest = compare_shares(0, 90, 2, 50).smallest
    assert smallest is not None
    share = smallest + 2 / 50
    seen = sum(
        compare_shares(int(random.binomial(90, share)), 90, 2, 50).is_seen for _ in range(RUNS)
    )
    assert seen / RUNS == pytest.approx(POWER, abs=0.06)
    area = compare_scores(random.normal(size=90), random.normal(size=50)).smallest
    assert area is not None
    shift = math.sqrt(2) * stats.norm.ppf(area)
    seen = sum(
        compare_scores(random.normal(shift, size=90), random.normal(size=50)).is_seen
        for _ in range(RUNS)
    )
    assert seen / RUNS == pytest.approx(POWER, abs=0.07)
    audit = audit_one_run(random.random(128), random.random(128) < 0.5)
    assert audit.smallest is not None
    share = 1 / (1 + math.exp(-audit.smallest))
    seen = sum(bound_epsilon(128, 64, int(random.binomial(64, share))) > 0 for _ in range(RUNS))
    assert seen / RUNS == pytest.approx(POWER, abs=0.06)


def test_nothing_is_compared_with_nothing() -> None:
    for found in (
        compare_shares(0, 0, 0, 9),
        compare_shares(3, 3, 0, 0),
        compare_scores([], [1.0]),
        compare_scores([1.0], []),
    ):
        assert not found.is_seen and found.smallest is None
    empty = audit_one_run([], np.zeros(0, bool))
    assert (empty.epsilon, empty.guesses, empty.smallest) == (0.0, 0, None)
    # a single value and its decoy, or a single control, cannot show anything
    assert not compare_shares(1, 1, 0, 1).is_seen and compare_scores([9.0], [1.0]).low <= 0.5
