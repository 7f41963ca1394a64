"""Values that only their context identifies: edited where they are found, and searched nowhere else
by any part of a run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sanitize

TEXTS = [
    "call 7028915 now",
    "row 7028915 9",
    "call 12 345 678 and mail",
    "table 12 345 678 of",
    "the ip 3.14.1.1 is up",
    "libuhd 3.14.1.1 is out",
    "my number, call 555-0123",
    "555-0123 was engaged",
    "tel. 2125550187",
    "id 2125550187 x",
]
WEAK = ("7028915", "12 345 678", "3.14.1.1")


@pytest.mark.parametrize("plan", ["rmft", "redact"])  # without and with the finder `known`
def test_a_value_that_only_its_context_identifies_is_searched_nowhere_else(
    tmp_path: Path, plan: str
) -> None:
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "in.parquet")
    done = sanitize.run(tmp_path / "in.parquet", tmp_path / "out", plan=plan, seed=7, workers=1)
    published = pl.concat(
        [pl.read_parquet(path) for path in (tmp_path / "out" / "data").glob("*.parquet")]
    )["text"].to_list()
    # every second text has the value of the text before it without a context
    for value, before, (found, elsewhere) in zip(
        (*WEAK, "555-0123", "2125550187"),
        TEXTS[1::2],
        zip(published[::2], published[1::2], strict=True),
        strict=True,
    ):
        assert (value in found) == (plan == "rmft")  # the first occurrence is kept
        assert (elsewhere == before) == (value in WEAK), value
    assert done.verify.ambiguous_values == len(WEAK) and done.verify.values_checked == 2
    verified = sanitize.verify(tmp_path / "out")
    assert verified.leaks == 0 and verified.inconclusive == {} and verified.values_checked == 2
