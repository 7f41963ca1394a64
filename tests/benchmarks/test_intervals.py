"""Printed intervals contain the true number in at least 94 % of simulations, and are at most 1.5
times as wide as those of the profile likelihood."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks import bench_intervals, runner
from benchmarks.bench_intervals import DEPENDENCES, TRUSTED, measure_capture, measure_share


def check_row(row: Mapping[str, Any]) -> None:
    """A row of the table of three finders, of a dependence that the model allows."""
    assert row["wrong"] <= 0.06, row
    if "covered" in row:
        assert row["covered"] >= 0.94 and row["width"] <= 1.5 * row["profile_width"], row


@pytest.mark.parametrize(
    ("total", "recalls", "dependence"),
    [
        (300, (0.6, 0.6, 0.6), "none"),
        (1_000, (0.3, 0.3, 0.3), "pair-agrees"),
        (10_000, (0.9, 0.6, 0.3), "pair-differs"),
        (10_000, (0.95, 0.95, 0.95), "difficulty-1"),
    ],
)
def test_an_interval_of_three_finders_covers(
    total: int, recalls: tuple[float, ...], dependence: str
) -> None:
    row = measure_capture(total, recalls, dependence, simulations=800, widths=21)
    assert row["printed"] > 0.2
    check_row(row)


@pytest.mark.slow
@pytest.mark.parametrize("dependence", TRUSTED)
def test_the_whole_table_of_three_finders_covers(dependence: str) -> None:
    rows = [
        measure_capture(*case, widths=40)
        for case in bench_intervals.list_capture_cases()
        if case[2] == dependence
    ]
    assert sum("covered" in row for row in rows) >= 6
    for row in rows:
        check_row(row)


def test_the_recorded_table_is_whole_and_covers() -> None:
    recorded = json.loads((runner.RESULTS / "intervals.json").read_text("utf-8"))
    assert recorded["repeat"] == bench_intervals.SIMULATIONS
    assert [
        (row["total"], tuple(row["recalls"]), row["dependence"]) for row in recorded["capture"]
    ] == list(bench_intervals.list_capture_cases())
    for row in recorded["capture"]:
        if row["dependence"] in TRUSTED:
            check_row(row)
    # a strong common difficulty is recognised where there are enough items
    assert all(
        row["printed"] < 0.06
        for row in recorded["capture"]
        if row["dependence"] == "difficulty-2" and row["total"] >= 1_000
    )


def test_small_numbers_print_nothing() -> None:
    for dependence in DEPENDENCES:
        row = measure_capture(10, (0.6, 0.6, 0.6), dependence, simulations=200)
        assert row["printed"] == 0


@pytest.mark.parametrize("trials", [1, 2, 10, 30, 100, 1_000])
def test_an_interval_of_a_share_covers_every_share(trials: int) -> None:
    shares = [number / 1_000 for number in (1, 3, 10, 18, 50, 125, 300, 500, 950, 981, 999)]
    rows = [measure_share(trials, share) for share in shares]
    assert min(row["covered"] for row in rows) >= 0.949, rows
