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


def test_newcombe_interval() -> None:
    # Newcombe 1998, table II, example (a), method 10
    found = compare_shares(56, 70, 48, 80)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


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
