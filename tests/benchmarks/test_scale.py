"""The cost model behind docs/explanation/scale.md, against simulated draws and known costs."""

import numpy as np
import pytest

from benchmarks.scale import expected_distinct, expected_rows, fit_costs, power_law, simulate_rows


def test_shares_sum_to_one_and_decrease() -> None:
    shares = power_law(1_000, 1.0)
    assert shares.sum() == pytest.approx(1)
    assert (np.diff(shares) < 0).all()
    assert shares[0] / shares[9] == pytest.approx(10)


@pytest.mark.parametrize(
    ("shares", "draws", "expected"),
    [([1.0], 5, 1.0), ([0.5, 0.5], 1, 1.0), ([0.5, 0.5], 2, 1.5), ([0.25] * 4, 0, 0.0)],
)
def test_distinct_values_by_hand(shares: list[float], draws: int, expected: float) -> None:
    assert expected_distinct(np.array(shares), draws) == pytest.approx(expected)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.4])
def test_the_model_agrees_with_simulated_draws(exponent: float) -> None:
    shares = power_law(20_000, exponent)
    predicted, drawn = expected_rows(shares, 20, 5_000), simulate_rows(shares, 20, 5_000, seed=1)
    assert predicted["rows_plain"] == drawn["rows_plain"] == 100_000
    assert predicted["rows_counted"] == pytest.approx(drawn["rows_counted"], rel=0.01)
    if exponent:
        assert predicted["heaviest_plain"] == pytest.approx(drawn["heaviest_plain"], rel=0.1)
    assert drawn["heaviest_counted"] <= 20
    assert predicted["rows_counted"] <= predicted["rows_plain"]


def test_counting_first_limits_the_heaviest_value() -> None:
    steep = expected_rows(power_law(20_000, 1.4), 20, 5_000)
    assert steep["heaviest_plain"] > 10_000
    assert steep["heaviest_counted"] == pytest.approx(20)


@pytest.mark.parametrize(("start", "per_mb"), [(0.5, 0.03), (0.0, 0.02), (2.0, 0.001)])
def test_fit_finds_start_and_slope(start: float, per_mb: float) -> None:
    sizes = [25.0, 50.0, 100.0, 200.0]
    fit = fit_costs(sizes, [start + per_mb * size for size in sizes])
    assert (fit["start"], fit["per_mb"]) == pytest.approx((start, per_mb), abs=1e-6)
    assert fit["exponent"] == pytest.approx(1) if not start else fit["exponent"] < 1


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_exponent_covers_the_total_cost(exponent: float) -> None:
    sizes = [100.0, 1_000.0, 5_000.0]
    assert fit_costs(sizes, [0.01 * size**exponent for size in sizes])["exponent"] == pytest.approx(
        exponent
    )


def test_a_fitted_start_is_never_negative() -> None:
    fit = fit_costs([1.0, 2.0, 4.0], [1.0, 4.0, 16.0])
    assert fit["start"] == 0
    assert fit["exponent"] == pytest.approx(2)
