"""The mechanism against its closed formula, in the middle, in the tail and between neighbours; each test against wrong samplers too.

A test is a function of a sampler, so that it can be held against mutants: one that forgets the factor 2 of the exponential mechanism, one
whose temperature is 5 % off, and one that adds up in half precision. A test that takes a mutant for the mechanism is no test.
Seeds are fixed; that the right sampler is refused by chance had odds of a million to one when they were chosen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sanitize.core.exponential_mechanism import BOUNDS_FILE, ClipBounds, draw_candidates, uniform_from_bits
from sanitize.core.keys import Draws, Key
from sanitize.errors import PlanError

F64 = npt.NDArray[np.float64]
Sampler = Callable[[F64, float, F64], npt.NDArray[np.int64]]
BOUNDS = ClipBounds(-5.0, 20.0)
ALPHA = 1e-6


def at(count: int, seed: int) -> F64:
    """Uniform numbers as the editor draws them."""
    draws = Draws.from_words(Key.from_seed(seed).subkey("test"), np.arange(count, dtype=np.uint64))
    return uniform_from_bits(draws.u64(0), draws.u64(1))


def truth(logits: F64, epsilon: float) -> F64:
    """The closed formula, written differently than in the code under test: exp(epsilon u / (2 (b - a))) over its sum."""
    clipped = np.minimum(np.maximum(logits, BOUNDS.lower), BOUNDS.upper)
    powers = np.array([math.exp(epsilon * u / (2 * (BOUNDS.upper - BOUNDS.lower))) for u in clipped.tolist()])
    return np.asarray(powers / math.fsum(powers.tolist()), np.float64)


def mechanism(logits: F64, epsilon: float, where: F64) -> npt.NDArray[np.int64]:
    """Draws of `draw_candidates` on the same logits, a thousand rows at a time."""
    parts = np.array_split(where, max(1, len(where) // 1000))
    return np.concatenate(
        [draw_candidates(np.broadcast_to(logits, (len(part), len(logits))), part, bounds=BOUNDS, epsilon=epsilon) for part in parts]
    )


def no_factor_2(logits: F64, epsilon: float, where: F64) -> npt.NDArray[np.int64]:
    return mechanism(logits, 2 * epsilon, where)


def temperature_off(logits: F64, epsilon: float, where: F64) -> npt.NDArray[np.int64]:
    return mechanism(logits, epsilon / 0.95, where)


def half_precision(logits: F64, epsilon: float, where: F64) -> npt.NDArray[np.int64]:
    """The inverse of the distribution function in float16, as a model in half precision would add it up."""
    clipped = np.clip(logits, BOUNDS.lower, BOUNDS.upper).astype(np.float16)
    scaled = (clipped - clipped.max()) * np.float16(epsilon / (2 * BOUNDS.sensitivity))
    weight = np.exp(scaled)
    total = np.zeros(len(weight), np.float16)
    sum_so_far = np.float16(0)
    for place, one in enumerate(weight):
        sum_so_far = np.float16(sum_so_far + one)
        total[place] = sum_so_far
    return np.minimum(np.searchsorted(total.astype(np.float64), where * float(total[-1])), len(total) - 1)


MUTANTS = {"no factor 2": no_factor_2, "temperature 5 % off": temperature_off, "float16": half_precision}


def pooled_chi_square(sampler: Sampler, epsilon: float = 20.0, vectors: int = 12, draws: int = 20_000) -> float:
    """p of the sum of chi-square statistics over several vectors of logits; bins of fewer than five expected are merged."""
    rng = np.random.default_rng(7)  # of the test's own inputs; the mechanism's randomness is `at`
    statistic, freedom = 0.0, 0
    for number in range(vectors):
        logits = rng.normal(6, 8, 50)  # some beyond either bound
        expected = truth(logits, epsilon) * draws
        seen = np.bincount(sampler(logits, epsilon, at(draws, 100 + number)), minlength=50).astype(np.float64)
        order = np.argsort(expected)
        few = order[np.cumsum(expected[order]) < 5]
        few = order[: max(len(few) + 1, int((expected < 5).sum()))] if len(few) else order[:0]
        rest = np.setdiff1d(order, few)
        wanted, got = expected[rest], seen[rest]
        if len(few):
            wanted, got = np.append(wanted, expected[few].sum()), np.append(got, seen[few].sum())
        assert (wanted >= 5).all()
        statistic += float(((got - wanted) ** 2 / wanted).sum())
        freedom += len(wanted) - 1
    return float(stats.chi2.sf(statistic, freedom))


def tail(sampler: Sampler, epsilon: float = 12.0, draws: int = 100_000) -> float:
    """p-value of the frequency of the rare words, all at the lower bound while one word is at the upper bound."""
    logits = np.concatenate([[25.0], np.full(200, -9.0)])
    rare = float(truth(logits, epsilon)[1:].sum())
    seen = int((sampler(logits, epsilon, at(draws, 5)) > 0).sum())
    return float(stats.binomtest(seen, draws, rare).pvalue)


def audited(sampler: Sampler, epsilon: float = 4.0, draws: int = 100_000) -> float:
    """The largest ln of the odds of one word between worst-case neighbours, bounded from below with confidence 1 - 1e-6 (Clopper-Pearson).

    Of two inputs one puts a word at the upper bound and all others at the lower, the other the other way round.
    """
    one = np.array([25.0, *[-9.0] * 49])
    other = np.array([-9.0, *[25.0] * 49])
    found = []
    for word in (0, 1):
        counts = [int((sampler(logits, epsilon, at(draws, seed)) == word).sum()) for logits, seed in ((one, 11), (other, 12))]
        for more, less in (counts, counts[::-1]):
            low = stats.beta.ppf(ALPHA / 4, more, draws - more + 1) if more else 0.0
            high = stats.beta.ppf(1 - ALPHA / 4, less + 1, draws - less)
            found.append(math.log(low / high) if low else -math.inf)
    return max(found)


def test_it_is_the_exponential_mechanism() -> None:
    assert pooled_chi_square(mechanism) > 1e-3
    assert pooled_chi_square(mechanism, epsilon=100.0) > 1e-3


@pytest.mark.parametrize("name", MUTANTS)
def test_the_chi_square_refuses_mutants(name: str) -> None:
    assert pooled_chi_square(MUTANTS[name]) < ALPHA


def test_rare_words_come_as_often_as_they_should() -> None:
    assert tail(mechanism) > 1e-3


@pytest.mark.parametrize("name", MUTANTS)
def test_the_tail_refuses_mutants(name: str) -> None:
    assert tail(MUTANTS[name]) < ALPHA


def test_the_odds_between_neighbours_are_within_epsilon() -> None:
    found = audited(mechanism)
    assert 3.0 < found <= 4.0  # the truth for fifty words is 3.86: an audit that finds nothing would pass anything


def test_the_audit_refuses_a_forgotten_factor() -> None:
    assert audited(no_factor_2) > 4.0


@pytest.mark.parametrize("epsilon", [1.0, 50.0, 200.0, 1000.0])
def test_every_word_can_come(epsilon: float) -> None:
    """The smallest uniform numbers draw a word at the lower bound, at every allowed epsilon, and 1 draws the likeliest word."""
    logits = np.array([[3.0, -50.0, 40.0, -5.0]])
    rare = float(truth(logits[0], epsilon)[[1, 3]].sum())
    for share, word in ((0.0, 1), (0.25, 1), (0.75, 3)):
        where = np.array([max(rare * share, 5e-324)])
        assert draw_candidates(logits, where, bounds=BOUNDS, epsilon=epsilon).tolist() == [word]
    assert draw_candidates(logits, np.ones(1), bounds=BOUNDS, epsilon=epsilon).tolist() == [2]


def test_uniform_numbers_are_fine_near_zero() -> None:
    most = np.array([2**64 - 1], np.uint64)
    none = np.zeros(1, np.uint64)
    assert (
        uniform_from_bits(none, none)[0] == 2.0**-129
        and uniform_from_bits(none, most)[0] == 2.0**-64
        and uniform_from_bits(most, most)[0] == 1.0
    )


@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9),
    st.floats(0.01, 1000),
    st.floats(0, 1, exclude_min=True),
)
def test_any_logits_give_a_word(logits: list[float], epsilon: float, where: float) -> None:
    """Infinities and numbers above half precision are clipped; the drawn word is the one whose interval contains the number."""
    found = draw_candidates(np.array([logits], np.float32), np.array([where]), bounds=BOUNDS, epsilon=epsilon)
    assert found.dtype == np.int64 and 0 <= int(found[0]) < len(logits)
    chances = truth(np.array(logits, np.float64), epsilon)
    order = sorted(range(len(logits)), key=lambda place: (chances[place], place))
    line = np.cumsum(chances[order])
    place = order.index(int(found[0]))
    low = line[place - 1] if place else 0.0
    assert low * (1 - 1e-9) <= where <= line[place] * (1 + 1e-9) or where > line[-1] * (1 - 1e-9)


def test_nothing_is_drawn_around_a_failure() -> None:
    logits = np.array([[1.0, 2.0], [np.nan, 2.0]])
    with pytest.raises(ValueError, match="NaN"):
        draw_candidates(logits, np.array([0.5, 0.5]), bounds=BOUNDS, epsilon=1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1001.0])
def test_an_epsilon_that_is_none(epsilon: float) -> None:
    with pytest.raises(PlanError, match="epsilon"):
        BOUNDS.temperature(epsilon)


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)])
def test_bounds_that_are_none(lower: float, upper: float) -> None:
    with pytest.raises(PlanError, match="lower < upper"):
        ClipBounds(lower, upper)


GOOD = {"lower": -5.2, "upper": 20.3, "source": "invented", "trained_on": "public"}


def test_a_card_comes_back(tmp_path: Path) -> None:
    made = ClipBounds(-5.2, 20.3, "invented", "public")
    assert made.write(tmp_path) == tmp_path / BOUNDS_FILE and ClipBounds.read(tmp_path) == made
    assert made.sensitivity == 25.5 and made.temperature(10.0) == 5.1


@pytest.mark.parametrize(
    "card",
    [
        None,
        "{",
        "[]",
        json.dumps({**GOOD, "lower": 30}),
        json.dumps({**GOOD, "upper": "20"}),
        json.dumps({**GOOD, "upper": True}),
        json.dumps({**GOOD, "source": " "}),
        json.dumps({**GOOD, "trained_on": "private"}),
        json.dumps({**GOOD, "more": 1}),
        json.dumps({name: GOOD[name] for name in ("lower", "upper")}),
        '{"lower": NaN, "upper": 1, "source": "x", "trained_on": "public"}',
    ],
)
def test_a_card_that_is_none(tmp_path: Path, card: str | None) -> None:
    if card is not None:
        (tmp_path / BOUNDS_FILE).write_text(card, "utf-8")
    with pytest.raises(PlanError, match=BOUNDS_FILE.replace(".", r"\.")):
        ClipBounds.read(tmp_path)
