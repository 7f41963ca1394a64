"""What one variant is worth in exact copies: the measure on curves whose answer is known, and the
corpora that are compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks import bench_fuzzy_copies as bench
from benchmarks import runner


@pytest.mark.parametrize(
    ("advantages", "exact", "expected"),
    [
        ([0, 2, 4], [0, 1, 2, 3, 4], [1, 4, 16]),
        ([-5, 9], [0, 1, 2, 3, 4], [1, 16]),  # outside of the curve: its ends
        ([0.5], [0, 1, 2, 3, 4], [2**0.5]),
        ([1.5], [0, 1, 0.5, 2, 4], [2**2]),  # the curve falls once: 1 at both 2 and 4
    ],
)
def test_exact_copies_of_an_advantage(
    advantages: list[float], exact: list[float], expected: list[float]
) -> None:
    assert bench.find_exact_copies(advantages, exact) == pytest.approx(expected)


@pytest.mark.parametrize(("share", "low", "high"), [(1.0, 0.99, 1.01), (0.0, -0.01, 0.01)])
def test_worth_of_variants_that_are_copies_or_nothing(
    share: float, low: float, high: float
) -> None:
    rng = np.random.default_rng(0)
    levels = np.repeat(np.log2(bench.COUNTS), bench.EACH)
    noise = rng.normal(0, 1e-4, (2, len(levels)))
    advantages = {"exact": levels + noise, "rmft": share * levels + noise, "once": 0 * noise}
    rows = bench.summarize(advantages, advantages)
    assert [row["count"] for row in rows] == list(bench.COUNTS) and "worth" not in rows[0]
    for row in rows[1:]:
        assert low <= row["worth_low"] <= row["worth"] <= row["worth_high"] <= high


def test_corpora_hold_what_they_claim(tmp_path: Path) -> None:
    addresses = bench.invent_addresses(3)
    texts = {
        once: "\n".join(
            pl.read_parquet(
                bench.write_corpus(tmp_path / str(once), addresses, 3, once=once), glob=False
            )["text"]
        )
        for once in (False, True)
    }
    for cue, value, count, decoys in zip(
        addresses.cues, addresses.values, addresses.counts, addresses.decoys, strict=True
    ):
        assert texts[False].count(f"{cue}{value}.\n") == count
        assert texts[True].count(f"{cue}{value}.\n") == 1 and texts[True].count(cue) == count
        assert value not in decoys and len(decoys) == bench.DECOYS
    assert len(set(addresses.values)) == len(addresses.values)


def test_the_recorded_table_is_whole() -> None:
    recorded = json.loads((runner.RESULTS / "fuzzy_copies.json").read_text("utf-8"))
    assert recorded["seeds"] == 4 and recorded["epochs"] == bench.EPOCHS
    assert [row["count"] for row in recorded["rows"]] == list(bench.COUNTS)
    for row in recorded["rows"][1:]:
        assert row["worth_low"] <= row["worth"] <= row["worth_high"]
