"""Curves by hand, areas against the count of pairs, intervals against sums of binomial terms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.eval.metrics import membership

SCORES = st.lists(st.integers(0, 4), min_size=1, max_size=12)


def test_a_score_is_the_number_of_generated_own_words() -> None:
    own_words = {"ada": {"oboe", "fjord"}, "bob": set(), "eve": {"kelp"}}
    assert membership.compute_membership_scores(own_words, ["fjord", "oboe", "else"]) == {
        "ada": 2.0,
        "bob": 0.0,
        "eve": 0.0,
    }
    assert membership.compute_membership_scores(own_words, ["fjord"], by="share") == {
        "ada": 0.5,
        "bob": 0.0,
        "eve": 0.0,
    }


def test_a_curve_with_ties_by_hand() -> None:
    # thresholds 3, 1, 0: members 1, 3 and 4 of 4 above, non-members 0, 2 and 4 of 4
    curve = membership.compute_roc([3, 1, 1, 0], [1, 1, 0, 0])
    assert curve.false_positive_rates.tolist() == [0, 0, 0.5, 1]
    assert curve.true_positive_rates.tolist() == [0, 0.25, 0.75, 1]
    # 0.5 * (0.25 + 0.75) / 2 + 0.5 * (0.75 + 1) / 2
    assert curve.auc == pytest.approx(0.6875)
    # no point between 0 and a half: the step is not interpolated
    assert [curve.tpr_at(target) for target in (0.0, 0.1, 0.49, 0.5, 1.0)] == [
        0.25,
        0.25,
        0.25,
        0.75,
        1.0,
    ]


@given(SCORES, SCORES)
def test_the_area_is_the_share_of_pairs(members: list[int], non_members: list[int]) -> None:
    pairs = [(a > b) + (a == b) / 2 for a in members for b in non_members]
    curve = membership.compute_roc(members, non_members)
    assert curve.auc == pytest.approx(sum(pairs) / len(pairs))
    assert (np.diff(curve.false_positive_rates) >= 0).all() and (
        np.diff(curve.true_positive_rates) >= 0
    ).all()
    assert membership.compute_roc(non_members, members).auc == pytest.approx(1 - curve.auc)
    low, high = membership.find_auc_interval(members, non_members)
    assert 0 <= low <= curve.auc <= high <= 1 and low < high


def test_equal_scores_give_an_auc_of_one_half() -> None:
    curve = membership.compute_roc([0, 0, 0], [0, 0])
    assert curve.auc == 0.5 and curve.tpr_at(0.1) == 0.0


def test_empty_groups_give_no_nan() -> None:
    for members, non_members in (([], [1.0]), ([1.0], []), ([], [])):
        row = membership.summarize_membership(members, non_members)
        assert row["auc"] == 0.5 and (row["auc_low"], row["auc_high"]) == (0.0, 1.0)
        assert all(np.isfinite(value) for value in row.values())


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (7, 7), (1, 10), (31, 100), (3, 795)])
def test_exact_intervals_leave_a_tail_of_a_fortieth_at_each_end(hits: int, trials: int) -> None:
    def probability(counts: range, rate: float) -> float:
        return math.fsum(
            math.comb(trials, n) * rate**n * (1 - rate) ** (trials - n) for n in counts
        )

    low, high = membership.clopper_pearson_interval(hits, trials)
    assert (
        low == 0 if not hits else probability(range(hits, trials + 1), low) == pytest.approx(0.025)
    )
    assert (
        high == 1 if hits == trials else probability(range(hits + 1), high) == pytest.approx(0.025)
    )


def test_a_rate_of_exactly_the_target_counts() -> None:
    """One false alarm of 100, and one of 1,000: in floats 1 - 99 / 100 is above 0.01."""
    for size, target in ((100, 0.01), (300, 0.01), (1_000, 0.001), (3_000, 0.001)):
        alarms = round(size * target)
        curve = membership.compute_roc([1.0] * 5, [2.0] * alarms + [0.0] * (size - alarms))
        assert curve.tpr_at(target) == 1.0, size


@pytest.mark.slow
def test_the_interval_of_a_rate_covers_it_though_the_threshold_is_estimated() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng, covered = np.random.default_rng(2), {"tpr_interval": 0, "threshold taken as known": 0}
    expected = stats.norm.sf(stats.norm.isf(0.1) - 1)
    for _ in range(200):
        members, non_members = rng.normal(1, 1, 300), rng.normal(0, 1, 300)
        hits = round(membership.compute_roc(members, non_members).tpr_at(0.1) * 300)
        for name, (low, high) in zip(
            covered,
            (
                membership.tpr_interval(members, non_members, 0.1),
                membership.clopper_pearson_interval(hits, 300),
            ),
            strict=True,
        ):
            covered[name] += low <= expected <= high
    assert covered["tpr_interval"] >= 190 and covered["threshold taken as known"] < 180
    # too few non-members for a threshold at .1 %: nothing is known from below
    assert membership.tpr_interval([5.0] * 100, [0.0] * 100, 0.001)[0] == 0.0


def test_summary_of_an_attack() -> None:
    row = membership.summarize_membership([5, 4, 3, 0], [0, 0, 0, 1])
    assert row["members"] == 4 and row["tpr_at_0.1%"] == 0.75 and row["tpr_at_10%"] == 0.75
    assert row["tpr_at_1%_low"] <= 0.75 <= row["tpr_at_1%_high"]
    assert membership.summarize_membership([5, 4, 3, 0], [0, 0, 0, 1]) == row
