"""What one variant is worth in exact copies: the measure on curves whose answer is known, and the
corpora that are compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks import bench_fuzzy_copies as bench
from benchmarks import runner


@pytest.mark.parametrize(
    ("gains", "exact", "expected"),
    [
        ([0, 2, 4], [0, 1, 2, 3, 4], [1, 4, 16]),
        ([-5, 9], [0, 1, 2, 3, 4], [2**-5, 2**9]),  # beyond the curve: its slope
        ([0.5], [0, 1, 2, 3, 4], [2**0.5]),
        ([1.5], [0, 1, 0.5, 2, 4], [2**2]),  # the curve falls once: 1 at both 2 and 4
    ],
)
def test_exact_copies_of_a_gain(
    gains: list[float], exact: list[float], expected: list[float]
) -> None:
    assert bench.find_exact_copies(gains, exact) == pytest.approx(expected)


@pytest.mark.parametrize(("share", "low", "high"), [(1.0, 0.99, 1.01), (0.0, -0.01, 0.01)])
def test_worth_of_variants_that_are_copies_or_nothing(
    share: float, low: float, high: float
) -> None:
    rng = np.random.default_rng(0)
    levels = np.repeat(np.log2(bench.COUNTS), bench.EACH)
    noise = rng.normal(0, 1e-4, (2, len(levels)))
    # an advantage that does not depend on the number of occurrences is no gain
    advantages = {"exact": levels + noise, "rmft": 3 + share * levels + noise, "once": 0 * noise}
    rows = bench.summarize(advantages, advantages)
    assert [row["count"] for row in rows] == list(bench.COUNTS) and "worth" not in rows[0]
    for row in rows[1:]:
        assert low <= row["worth_low"] <= row["worth"] <= row["worth_high"] <= high


def test_pages_hold_what_they_claim(tmp_path: Path) -> None:
    addresses = bench.invent_addresses(3)
    for kind in ("exact", "once"):
        path = bench.write_pages(addresses, kind, tmp_path / kind, 3)
        text = "\n".join(pl.read_parquet(path, glob=False)["text"])
        for row in bench.list_rows(kind):
            cue, value, count = addresses.cues[row], addresses.values[row], addresses.counts[row]
            assert text.count(f"{cue} {value}.\n") == (count if kind == "exact" else 1)
            assert text.count(cue) == count
    assert len(set(addresses.values)) == len(addresses.values)
    for value, decoys in zip(addresses.values, addresses.decoys, strict=True):
        assert value not in decoys and len(decoys) == bench.DECOYS


@pytest.mark.slow
def test_variants_keep_one_part_of_their_address(tmp_path: Path) -> None:
    addresses = bench.invent_addresses(3)
    path = bench.publish_corpus(addresses, tmp_path, 3)
    text = "\n".join(pl.read_parquet(path, glob=False)["text"])
    for kind in bench.CORPORA:
        for row in bench.list_rows(kind):
            cue, value, count = addresses.cues[row], addresses.values[row], addresses.counts[row]
            assert text.count(f"{cue} {value}.") == (count if kind == "exact" else 1)
            found = [line.split()[-1] for line in text.splitlines() if line.startswith(cue)]
            assert len(found) == count
            for other in found if kind == "rmft" else ():
                assert set(re.split("[.@]", value)) & set(re.split("[.@]", other)) - {"example"}


def test_the_recorded_table_is_whole() -> None:
    recorded = json.loads((runner.RESULTS / "fuzzy_copies.json").read_text("utf-8"))
    assert len(recorded["seeds"]) >= 2 and recorded["epochs"] == bench.EPOCHS
    assert [row["count"] for row in recorded["rows"]] == list(bench.COUNTS)
    for row in recorded["rows"][1:]:
        assert row["worth_low"] <= row["worth"] <= row["worth_high"]
