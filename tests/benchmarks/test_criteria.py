"""Shared functions of the papers' scripts: a given corpus is sampled and split by independent
draws; verdicts go by intervals."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.criteria import (
    FAILS,
    HOLDS,
    NOT_DECIDED,
    NOT_REPRODUCED,
    REPRODUCED,
    Criterion,
    Interval,
    bootstrap_intervals,
    compute_ratio_bounds,
    compute_seed_intervals,
    draw_uniform,
    read_own_corpus,
    split_documents,
    widen_interval,
    with_intervals,
)


def test_a_sample_of_a_given_corpus_is_split_into_all_parts(tmp_path: Path) -> None:
    ids = [f"d{number}" for number in range(300)]
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"doc_id": ids, "text": [f"Note {doc_id}." for doc_id in ids]}),
        tmp_path / "in" / "a.parquet",
    )
    arguments = argparse.Namespace(data=tmp_path / "in", text_column="text", documents=60)
    path = read_own_corpus(arguments, tmp_path)
    assert path is not None
    table = pq.read_table(path)
    assert table.num_rows == 60 and set(table["doc_id"].to_pylist()) < set(ids)
    for seed in range(3):
        parts = split_documents(table, seed, {"public": 0.5, "private": 0.2, "held": 0.3})
        assert sum(part.num_rows for part in parts.values()) == 60
        assert (
            parts["public"].num_rows == pytest.approx(30, abs=12)
            and min(part.num_rows for part in parts.values()) >= 4
        )


def test_draws_depend_on_id_seed_and_purpose() -> None:
    draws = draw_uniform(["a", "b"], 0)
    assert (
        draws.tolist() == draw_uniform(["b", "a"], 0)[::-1].tolist()
        and ((draws >= 0) & (draws < 1)).all()
    )
    assert (
        draws[0] != draw_uniform(["a"], 1)[0]
        and draws[0] != draw_uniform(["a"], 0, purpose=b"own")[0]
    )


@pytest.mark.parametrize(
    ("value", "bounds", "above", "verdict", "needed"),
    [
        (0.8, (0.7, 0.9), True, REPRODUCED, None),
        (0.8, (0.6, 0.9), True, REPRODUCED, None),  # the threshold itself is on the right side
        (0.5, (0.3, 0.59), True, NOT_REPRODUCED, None),
        (
            0.7,
            (0.3, 0.9),
            True,
            NOT_DECIDED,
            40 * 16,
        ),  # the lower half is four times the distance to the threshold
        (0.5, (0.3, 0.7), True, NOT_DECIDED, 40 * 4),
        (
            0.6,
            (0.3, 0.7),
            True,
            NOT_DECIDED,
            None,
        ),  # on the threshold: no number of events decides it
        (0.5, (0.3, 0.59), False, REPRODUCED, None),
        (0.5, (0.3, 0.9), False, NOT_DECIDED, 40 * 16),
        (0.8, (0.7, 0.9), False, NOT_REPRODUCED, None),
        (0.8, None, True, HOLDS, None),
        (0.8, None, False, FAILS, None),
    ],
)
def test_verdicts_go_by_the_interval(
    value: float, bounds: tuple[float, float] | None, above: bool, verdict: str, needed: int | None
) -> None:
    interval = None if bounds is None else Interval(low=bounds[0], high=bounds[1], events=40)
    one = Criterion(value=value, paper=1, threshold=0.6, above=above, interval=interval)
    assert one.verdict == verdict
    assert one.events_needed == pytest.approx(needed, abs=1)
    assert one.describe()["verdict"] == verdict and ("low" in one.describe()) == (
        bounds is not None
    )


def test_bootstrap_intervals_cover_and_leave_out_what_is_undefined() -> None:
    hits = np.random.default_rng(1).random(400) < 0.3

    def resample(generator: np.random.Generator) -> dict[str, float]:
        drawn = hits[generator.integers(400, size=400)]
        undefined = 1.0 if generator.random() < 0.5 else float("nan")
        return {"share": float(drawn.mean()), "rarely_defined": undefined, "without_events": 0.0}

    found = bootstrap_intervals(
        resample, method="texts", events={"share": 400, "without_events": 0}, resamples=400
    )
    half = 1.96 * (0.3 * 0.7 / 400) ** 0.5
    assert set(found) == {"share"} and found["share"].events == 400
    assert found["share"].low == pytest.approx(hits.mean() - half, abs=0.01)
    assert found["share"].high == pytest.approx(hits.mean() + half, abs=0.01)
    criteria = {name: Criterion(value=0.3, paper=1, threshold=0.1) for name in ("share", "other")}
    criteria = with_intervals(criteria, found)
    assert criteria["share"].verdict == REPRODUCED and criteria["other"].verdict == HOLDS


def test_intervals_over_seeds() -> None:
    by_seed = [
        {
            "a": Criterion(value=value, paper=1, threshold=0),
            "b": Criterion(value=1, paper=1, threshold=0),
        }
        for value in (1, 2, 3)
    ]
    assert compute_seed_intervals(by_seed[:1]) == {}
    found = compute_seed_intervals(by_seed)
    assert set(found) == {"a"}, "equal values say nothing about their spread"
    assert (found["a"].low, found["a"].high) == pytest.approx(
        (2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3
    )


def test_exact_bounds_of_counts() -> None:
    low, high = compute_ratio_bounds(0, 18)  # 1 - .025 ** (1 / 18) of the sum
    assert low == 0 and high == pytest.approx((1 - 0.025 ** (1 / 18)) / 0.025 ** (1 / 18))
    low, high = compute_ratio_bounds(30, 30)
    assert low < 1 < high and low == pytest.approx(1 / high)
    assert compute_ratio_bounds(3, 0)[1] == compute_ratio_bounds(0, 0)[1] == float("inf")
    certain = Interval(low=0.0, high=0.0, events=18, method="bootstrap")
    widened = widen_interval(certain, 0.0, 0.23, events=18, least=0.0, most=1.0)
    assert (widened.low, widened.high) == (
        0.0,
        0.23,
    ) and widened.method == "bootstrap, extended to exact bounds of the counts"
    assert widen_interval(None, 0.0, float("inf"), events=0, least=0.0, most=9.0) == Interval(
        low=0.0, high=9.0, events=0, method="exact bounds of the counts"
    )
