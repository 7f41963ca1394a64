"""The cost model behind docs/scale.md, against draws and against costs that are known."""

import numpy as np
import pytest

from benchmarks.scale import expected_distinct, expected_rows, fit_costs, power_law, simulate_rows


def test_shares_add_up_and_fall() -> None:
    shares = power_law(1_000, 1.0)
    assert shares.sum() == pytest.approx(1)
    assert (np.diff(shares) < 0).all()
    assert shares[0] / shares[9] == pytest.approx(10)


@pytest.mark.parametrize(
    ("shares", "draws", "expected"), [([1.0], 5, 1.0), ([0.5, 0.5], 1, 1.0), ([0.5, 0.5], 2, 1.5), ([0.25] * 4, 0, 0.0)]
)
def test_distinct_values_by_hand(shares: list[float], draws: int, expected: float) -> None:
    assert expected_distinct(np.array(shares), draws) == pytest.approx(expected)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.4])
def test_model_is_what_draws_show(exponent: float) -> None:
    shares = power_law(20_000, exponent)
    said, seen = expected_rows(shares, 20, 5_000), simulate_rows(shares, 20, 5_000, seed=1)
    assert said["rows_plain"] == seen["rows_plain"] == 100_000
    assert said["rows_counted"] == pytest.approx(seen["rows_counted"], rel=0.01)
    if exponent:
        assert said["heaviest_plain"] == pytest.approx(seen["heaviest_plain"], rel=0.1)
    assert seen["heaviest_counted"] <= 20
    assert said["rows_counted"] <= said["rows_plain"]


def test_counting_first_binds_the_heaviest_value() -> None:
    steep = expected_rows(power_law(20_000, 1.4), 20, 5_000)
    assert steep["heaviest_plain"] > 10_000
    assert steep["heaviest_counted"] == pytest.approx(20)


@pytest.mark.parametrize(("start", "per_mb"), [(0.5, 0.03), (0.0, 0.02), (2.0, 0.001)])
def test_fit_finds_start_and_slope(start: float, per_mb: float) -> None:
    sizes = [25.0, 50.0, 100.0, 200.0]
    found = fit_costs(sizes, [start + per_mb * size for size in sizes])
    assert (found["start"], found["per_mb"]) == pytest.approx((start, per_mb), abs=1e-6)
    assert found["exponent"] == pytest.approx(1) if not start else found["exponent"] < 1


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_exponent_is_that_of_the_whole_cost(exponent: float) -> None:
    sizes = [100.0, 1_000.0, 5_000.0]
    assert fit_costs(sizes, [0.01 * size**exponent for size in sizes])["exponent"] == pytest.approx(exponent)


def test_fit_never_says_that_a_start_gives_time_back() -> None:
    found = fit_costs([1.0, 2.0, 4.0], [1.0, 4.0, 16.0])
    assert found["start"] == 0
    assert found["exponent"] == pytest.approx(2)
