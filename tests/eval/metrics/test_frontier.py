"""MaxTER is a staircase that is continuous from the right; its area has a closed form; both are
non-decreasing in tau."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import UsageError
from sanitize.eval.metric import EvalContext
from sanitize.eval.metrics.frontier import (
    Frontier,
    build_staircase,
    compute_staircase_area,
    max_ter,
)

TWO_STEPS = [(5.0, 40.0), (15.0, 80.0)]


def test_two_steps() -> None:
    assert [max_ter(TWO_STEPS, tau) for tau in (0, 4.999, 5, 14.999, 15, 99)] == [
        0,
        0,
        40,
        40,
        80,
        80,
    ]
    assert build_staircase([*TWO_STEPS, (20.0, 60.0)]) == TWO_STEPS
    assert compute_staircase_area(TWO_STEPS)["aurc_raw"] == pytest.approx(
        40 * 10 + 80 * 10
    ) and compute_staircase_area(TWO_STEPS)["aurc"] == pytest.approx(48)
    assert compute_staircase_area(TWO_STEPS, 10)["aurc"] == pytest.approx(20)
    assert compute_staircase_area([]) == {"aurc": 0.0, "aurc_raw": 0.0, "range": 25.0}
    assert (
        compute_staircase_area([(25.0, 90.0)])["aurc"] == 0
        and compute_staircase_area([(30.0, 90.0)])["aurc"] == 0
    )


def test_negative_cost_is_feasible_from_zero() -> None:
    # the paper's deduplication on WikiText2
    assert compute_staircase_area([(-12.0, 82.08)])["aurc"] == pytest.approx(82.08)
    # and on held-out mail: 15.8, printed as 17.09
    assert compute_staircase_area([(20.2, 82.1)])["aurc"] == pytest.approx(82.1 * 4.8 / 25)
    assert compute_staircase_area([(0.0, -30.0)])["aurc"] == pytest.approx(-30), (
        "a defence that leaks more has an area below zero"
    )


@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(-100, 100)), max_size=12),
    st.floats(-60, 60),
    st.floats(0, 30),
    st.floats(0.5, 60),
)
def test_max_ter_is_non_decreasing_in_tau(
    points: list[tuple[float, float]], tau: float, increase: float, limit: float
) -> None:
    feasible = [drop for cost, drop in points if cost <= tau]
    if feasible:
        assert max_ter(points, tau + increase) >= max_ter(points, tau) == max(feasible)
    steps = build_staircase(points)
    assert steps == sorted(steps) and [drop for _, drop in steps] == sorted(
        drop for _, drop in steps
    )
    for cost, drop in steps:
        assert max_ter(points, cost) == drop
    # the integral against a fine sum from the left, which is exact up to one cell at each step
    cells = np.linspace(0, limit, 4001)[:-1]
    approximation = sum(max_ter(points, float(cell)) for cell in cells) * limit / 4000
    assert math.isclose(
        compute_staircase_area(points, limit)["aurc_raw"],
        approximation,
        abs_tol=(len(points) + 1) * 200 * limit / 4000,
    )


def build_rows(leaks: list[float], costs: list[float]) -> list[dict[str, Any]]:
    return [
        {"step": step, "extraction": {"web": {"ter": leak}}, "perplexity": {"mail": {"mean": cost}}}
        for step, (leak, cost) in enumerate(zip(leaks, costs, strict=True))
    ]


def test_checkpoints_where_the_baseline_leaks_nothing_are_skipped() -> None:
    metric = Frontier(use="frontier")
    metric.setup(EvalContext(baseline="raw"))
    result = metric.aggregate(
        {
            "raw": build_rows([9, 0, 2, 4], [9, 8, 5, 4]),
            "rmft": build_rows([9, 1, 1, 1], [9, 9, 5.5, 4.5]),
        }
    )["rmft"]
    assert result["skipped"] == 1 and np.allclose(result["points"], [(10, 50), (12.5, 75)])
    assert result["aurc"] == pytest.approx((50 * 2.5 + 75 * 12.5) / 25)
    with pytest.raises(UsageError, match="name one of the runs"):
        Frontier(use="frontier").setup(EvalContext())
    with pytest.raises(UsageError, match="needs extraction and perplexity"):
        metric.aggregate({"raw": [{"step": 1}], "rmft": [{"step": 1}]})
