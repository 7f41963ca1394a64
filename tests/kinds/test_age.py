"""Ages: the number alone is the value, the words around it make it one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from sanitize.find.patterns import Patterns
from sanitize.keyed import Draws, Key
from sanitize.kinds.age import KIND

FINDER = Patterns(Key.from_seed(3), named=("AGE", "DATE_TIME"))


def found(text: str) -> list[str]:
    seen = FINDER.run(pa.array([text], pa.large_string()))
    rows = zip(seen.start.tolist(), seen.stop.tolist(), seen.distinct.kind[seen.which].tolist(), strict=True)
    return [text[start:stop] for start, stop, kind in rows if FINDER.kinds[kind].name == KIND.name]


@pytest.mark.parametrize(
    "text",
    [
        "a 64 year old man",
        "a 64-year-old",
        "64 years old",
        "64 Years of Age",
        "64 y/o",
        "64yo male",
        "64 yrs old",
        "aged 64",
        "Age: 64",
        "age=64",
        "at the age of 64",
        "he just turned 64",
        "I'll turn 64.",
        "ages 64",
        "a 64-month-old",
    ],
)
def test_takes(text: str) -> None:
    assert found(text) == ["64"]


@pytest.mark.parametrize(
    "text",
    [
        "64",
        "64 years ago",
        "64 years",
        "page 64",
        "turn 64 pages",
        "x64 years old",
        "164 years old",
        "aged 640",
        "64.5 years older",
        "0 years old",
        "aged",
    ],
)
def test_takes_nothing(text: str) -> None:
    assert found(text) == []


def test_one_value_in_several_phrases_is_one_value() -> None:
    seen = FINDER.run(pa.array(["aged 64, he is 64 years old, turned 64"], pa.large_string()))
    assert len(seen.text_no) == 3 and len(seen.distinct.kind) == 1 and set(seen.which.tolist()) == {0}


def test_fakes_have_as_many_digits() -> None:
    values = pl.Series("value", ["7", "64", "101"] * 50)
    rows = np.arange(len(values), dtype=np.uint64)
    draws = Draws.at(b"sixteen bytes ok", np.full(len(values), 7, np.uint64), np.zeros(len(values), np.uint64), rows)
    fakes = KIND.fake(values, draws, False)
    assert KIND.check is not None and KIND.check(fakes).is_null().all()
    assert fakes.str.len_bytes().to_list() == values.str.len_bytes().to_list()
    assert (fakes != values).all()
    assert KIND.takes(pl.DataFrame({"value": fakes})).all()
    assert KIND.normalise(pl.Series(["064", "0"])).to_list() == ["64", "0"]
