"""The mechanism compared with its closed formula, in the middle, in the tail and between
neighbours; each test also runs on wrong samplers.

A test is a function of a sampler, so that it can be run on wrong ones: without the factor 2 of the
exponential mechanism, with a temperature that is 5 % off, and with sums in half precision. Each
test must reject them. Seeds are fixed; the probability that a test rejects the right sampler was
one in a million when they were chosen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sanitize.array_types import F64, I64
from sanitize.core.exponential_mechanism import (
    BOUNDS_FILE,
    ClipBounds,
    draw_candidates,
    format_bound,
    uniform_from_bits,
)
from sanitize.core.keys import Draws, Key
from sanitize.errors import PlanError

Sampler = Callable[[F64, float, F64], I64]
BOUNDS = ClipBounds(-5.0, 20.0)
ALPHA = 1e-6


def draw_uniform(count: int, seed: int) -> F64:
    """Uniform numbers as the editor draws them."""
    draws = Draws.from_words(Key.from_seed(seed).subkey("test"), np.arange(count, dtype=np.uint64))
    return uniform_from_bits(draws.u64(0), draws.u64(1))


def exact_probabilities(logits: F64, epsilon: float) -> F64:
    """The closed formula, written differently than in the code under test: exp(epsilon u / (2 (b -
    a))) over its sum."""
    clipped = np.minimum(np.maximum(logits, BOUNDS.lower), BOUNDS.upper)
    powers = np.array(
        [math.exp(epsilon * u / (2 * (BOUNDS.upper - BOUNDS.lower))) for u in clipped.tolist()]
    )
    return np.asarray(powers / math.fsum(powers.tolist()), np.float64)


def mechanism(logits: F64, epsilon: float, uniforms: F64) -> I64:
    """Draws of `draw_candidates` on the same logits, a thousand rows at a time."""
    parts = np.array_split(uniforms, max(1, len(uniforms) // 1000))
    return np.concatenate(
        [
            draw_candidates(
                np.broadcast_to(logits, (len(part), len(logits))),
                part,
                bounds=BOUNDS,
                epsilon=epsilon,
            )
            for part in parts
        ]
    )


def without_factor_2(logits: F64, epsilon: float, uniforms: F64) -> I64:
    return mechanism(logits, 2 * epsilon, uniforms)


def wrong_temperature(logits: F64, epsilon: float, uniforms: F64) -> I64:
    return mechanism(logits, epsilon / 0.95, uniforms)


def half_precision(logits: F64, epsilon: float, uniforms: F64) -> I64:
    """The inverse of the distribution function in float16, summed like in a model in half
    precision."""
    clipped = np.clip(logits, BOUNDS.lower, BOUNDS.upper).astype(np.float16)
    scaled = (clipped - clipped.max()) * np.float16(epsilon / (2 * BOUNDS.sensitivity))
    weight = np.exp(scaled)
    total = np.zeros(len(weight), np.float16)
    sum_so_far = np.float16(0)
    for index, value in enumerate(weight):
        sum_so_far = np.float16(sum_so_far + value)
        total[index] = sum_so_far
    return np.minimum(
        np.searchsorted(total.astype(np.float64), uniforms * float(total[-1])), len(total) - 1
    )


WRONG_SAMPLERS = {
    "no factor 2": without_factor_2,
    "temperature 5 % off": wrong_temperature,
    "float16": half_precision,
}


def pooled_chi_square(
    sampler: Sampler, epsilon: float = 20.0, vectors: int = 12, draws: int = 20_000
) -> float:
    """p of the sum of chi-square statistics over several vectors of logits; bins of fewer than five
    expected are merged."""
    # for the inputs of the test; the mechanism's randomness is `draw_uniform`
    rng = np.random.default_rng(7)
    statistic, freedom = 0.0, 0
    for number in range(vectors):
        logits = rng.normal(6, 8, 50)  # some beyond either bound
        expected = exact_probabilities(logits, epsilon) * draws
        observed = np.bincount(
            sampler(logits, epsilon, draw_uniform(draws, 100 + number)), minlength=50
        ).astype(np.float64)
        order = np.argsort(expected)
        rare_bins = order[np.cumsum(expected[order]) < 5]
        rare_bins = (
            order[: max(len(rare_bins) + 1, int((expected < 5).sum()))]
            if len(rare_bins)
            else order[:0]
        )
        frequent_bins = np.setdiff1d(order, rare_bins)
        expected_counts, observed_counts = expected[frequent_bins], observed[frequent_bins]
        if len(rare_bins):
            expected_counts, observed_counts = (
                np.append(expected_counts, expected[rare_bins].sum()),
                np.append(observed_counts, observed[rare_bins].sum()),
            )
        assert (expected_counts >= 5).all()
        statistic += float(((observed_counts - expected_counts) ** 2 / expected_counts).sum())
        freedom += len(expected_counts) - 1
    return float(stats.chi2.sf(statistic, freedom))


def tail_p_value(sampler: Sampler, epsilon: float = 12.0, draws: int = 100_000) -> float:
    """p-value of the frequency of the rare words, all at the lower bound while one word is at the
    upper bound."""
    logits = np.concatenate([[25.0], np.full(200, -9.0)])
    rare = float(exact_probabilities(logits, epsilon)[1:].sum())
    observed = int((sampler(logits, epsilon, draw_uniform(draws, 5)) > 0).sum())
    return float(stats.binomtest(observed, draws, rare).pvalue)


def audit_epsilon(sampler: Sampler, epsilon: float = 4.0, draws: int = 100_000) -> float:
    """The largest ln of the odds of one word between worst-case neighbours, bounded from below with
    confidence 1 - 1e-6 (Clopper-Pearson).

    The first input has one word at the upper bound and all others at the lower bound; the second is
    the opposite.
    """
    first_logits = np.array([25.0, *[-9.0] * 49])
    second_logits = np.array([-9.0, *[25.0] * 49])
    log_odds = []
    for word in (0, 1):
        counts = [
            int((sampler(logits, epsilon, draw_uniform(draws, seed)) == word).sum())
            for logits, seed in ((first_logits, 11), (second_logits, 12))
        ]
        for higher, lower in (counts, counts[::-1]):
            lower_bound = stats.beta.ppf(ALPHA / 4, higher, draws - higher + 1) if higher else 0.0
            upper_bound = stats.beta.ppf(1 - ALPHA / 4, lower + 1, draws - lower)
            log_odds.append(math.log(lower_bound / upper_bound) if lower_bound else -math.inf)
    return max(log_odds)


def test_chi_square_accepts_the_exponential_mechanism() -> None:
    assert pooled_chi_square(mechanism) > 1e-3
    assert pooled_chi_square(mechanism, epsilon=100.0) > 1e-3


@pytest.mark.parametrize("name", WRONG_SAMPLERS)
def test_chi_square_rejects_wrong_samplers(name: str) -> None:
    assert pooled_chi_square(WRONG_SAMPLERS[name]) < ALPHA


def test_rare_words_have_the_right_frequency() -> None:
    assert tail_p_value(mechanism) > 1e-3


@pytest.mark.parametrize("name", WRONG_SAMPLERS)
def test_tail_test_rejects_wrong_samplers(name: str) -> None:
    assert tail_p_value(WRONG_SAMPLERS[name]) < ALPHA


@pytest.mark.slow
def test_odds_between_neighbours_are_within_epsilon() -> None:
    audited_epsilon = audit_epsilon(mechanism)
    # the exact value for fifty words is 3.86; the lower limit rejects an audit that detects nothing
    assert 3.0 < audited_epsilon <= 4.0


@pytest.mark.slow
def test_audit_rejects_a_missing_factor_2() -> None:
    assert audit_epsilon(without_factor_2) > 4.0


@pytest.mark.parametrize("epsilon", [1.0, 50.0, 200.0, 1000.0])
def test_every_word_can_be_drawn(epsilon: float) -> None:
    """The smallest uniform numbers draw a word at the lower bound, at every allowed epsilon, and 1
    draws the likeliest word."""
    logits = np.array([[3.0, -50.0, 40.0, -5.0]])
    rare = float(exact_probabilities(logits[0], epsilon)[[1, 3]].sum())
    for share, word in ((0.0, 1), (0.25, 1), (0.75, 3)):
        uniforms = np.array([max(rare * share, 5e-324)])
        assert draw_candidates(logits, uniforms, bounds=BOUNDS, epsilon=epsilon).tolist() == [word]
    assert draw_candidates(logits, np.ones(1), bounds=BOUNDS, epsilon=epsilon).tolist() == [2]


def test_uniform_numbers_are_fine_near_zero() -> None:
    largest = np.array([2**64 - 1], np.uint64)
    smallest = np.zeros(1, np.uint64)
    assert (
        uniform_from_bits(smallest, smallest)[0] == 2.0**-129
        and uniform_from_bits(smallest, largest)[0] == 2.0**-64
        and uniform_from_bits(largest, largest)[0] == 1.0
    )


@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9),
    st.floats(0.01, 1000),
    st.floats(0, 1, exclude_min=True),
)
def test_any_logits_give_a_word(logits: list[float], epsilon: float, uniforms: float) -> None:
    """Infinities and numbers above half precision are clipped; the interval of the drawn word
    contains the number."""
    drawn = draw_candidates(
        np.array([logits], np.float32), np.array([uniforms]), bounds=BOUNDS, epsilon=epsilon
    )
    assert drawn.dtype == np.int64 and 0 <= int(drawn[0]) < len(logits)
    chances = exact_probabilities(np.array(logits, np.float64), epsilon)
    order = sorted(range(len(logits)), key=lambda position: (chances[position], position))
    cumulative = np.cumsum(chances[order])
    position = order.index(int(drawn[0]))
    interval_start = cumulative[position - 1] if position else 0.0
    assert interval_start * (1 - 1e-9) <= uniforms <= cumulative[position] * (
        1 + 1e-9
    ) or uniforms > cumulative[-1] * (1 - 1e-9)


def test_nan_logits_are_refused() -> None:
    logits = np.array([[1.0, 2.0], [np.nan, 2.0]])
    with pytest.raises(ValueError, match="NaN"):
        draw_candidates(logits, np.array([0.5, 0.5]), bounds=BOUNDS, epsilon=1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1001.0])
def test_an_invalid_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(PlanError, match="epsilon"):
        BOUNDS.temperature(epsilon)


@pytest.mark.parametrize(
    ("lower", "upper"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)]
)
def test_invalid_bounds_are_refused(lower: float, upper: float) -> None:
    with pytest.raises(PlanError, match="lower < upper"):
        ClipBounds(lower, upper)


VALID_BOUNDS = {"lower": -5.2, "upper": 20.3, "source": "invented", "trained_on": "public"}


def test_bounds_file_round_trips(tmp_path: Path) -> None:
    bounds = ClipBounds(-5.2, 20.3, "invented", "public")
    assert bounds.write(tmp_path) == tmp_path / BOUNDS_FILE and ClipBounds.read(tmp_path) == bounds
    assert bounds.sensitivity == 25.5 and bounds.temperature(10.0) == 5.1


@pytest.mark.parametrize(
    "bounds_text",
    [
        None,
        "{",
        "[]",
        json.dumps({**VALID_BOUNDS, "lower": 30}),
        json.dumps({**VALID_BOUNDS, "upper": "20"}),
        json.dumps({**VALID_BOUNDS, "upper": True}),
        json.dumps({**VALID_BOUNDS, "source": " "}),
        json.dumps({**VALID_BOUNDS, "trained_on": "private"}),
        json.dumps({**VALID_BOUNDS, "more": 1}),
        json.dumps({name: VALID_BOUNDS[name] for name in ("lower", "upper")}),
        '{"lower": NaN, "upper": 1, "source": "x", "trained_on": "public"}',
    ],
)
def test_an_invalid_bounds_file_is_refused(tmp_path: Path, bounds_text: str | None) -> None:
    if bounds_text is not None:
        (tmp_path / BOUNDS_FILE).write_text(bounds_text, "utf-8")
    with pytest.raises(PlanError, match=BOUNDS_FILE.replace(".", r"\.")):
        ClipBounds.read(tmp_path)


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (0.0, "0"),
        (0.1 * 3, "0.3"),
        (0.4, "0.4"),
        (3.00049, "3.001"),
        (4000.0, "4,000"),
        (12345.2, "12,346"),
        (0.00012341, "0.0001235"),
        (1e-11, "1e-11"),
        (1.23401e-9, "1.235e-09"),
        (1.65001e18, "1.651e+18"),
    ],
)
def test_a_bound_is_never_rounded_down(bound: float, text: str) -> None:
    assert format_bound(bound) == text
