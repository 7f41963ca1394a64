"""Names as values: who is the same, what is too common to be looked for, and stand-ins of the same shape. All people are invented."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from sanitize.core.keys import Draws
from sanitize.kinds.kind import kind

ALIKE = [
    ("PERSON", "Ann Roe", "ROE, ANN"),
    ("PERSON", "Ann  Roe", "ann\nroe"),
    ("PERSON", "\uff21nn Roe", "Ann R\u200boe"),
    ("LOCATION", "S\u00e3o  Paulo", "s\u00e3o paulo"),
    ("ORGANIZATION", "Acorn Gas", "ACORN GAS"),
]
SHAPES = ["Ann Roe", "Roe, Ann M.", "ANN ROE", "ann roe", "Jan van der Berg", "Anna-Lena O'Neil", "J. K. Fischer", "Zo\u00eb \u00c5berg"]


def shape(name: str) -> str:
    """Words by their letter case, all else as it is; words that may stay are themselves."""
    return re.sub(
        r"[^\W\d_]+",
        lambda m: m[0] if m[0] in ("van", "der") else "I" if len(m[0]) == 1 else "U" if m[0].isupper() else "T" if m[0].istitle() else "l",
        name,
    )


@pytest.mark.parametrize(("name", "one", "other"), ALIKE)
def test_one_value(name: str, one: str, other: str) -> None:
    forms = kind(name).normalise(pl.Series([one, other]))
    assert forms[0] == forms[1]
    assert kind("LOCATION").normalise(pl.Series(["Roe, Ann"]))[0] == "roe, ann"


def test_what_is_too_common_to_be_looked_for() -> None:
    tells = kind("PERSON").telling
    assert tells is not None
    assert tells(pl.Series(["ann roe", "li wu", "mark", "rodriguez", "anna-lena"])).to_list() == [True, False, False, False, True]


@pytest.mark.parametrize("name", ["PERSON", "LOCATION", "ORGANIZATION"])
def test_a_stand_in_has_the_same_shape_and_other_words(name: str) -> None:
    values = pl.Series(SHAPES * 20)
    draws = Draws.at(b"sixteen bytes ok", np.arange(len(values), dtype=np.uint64))
    fakes = kind(name).fake(values, draws, False)
    assert fakes.len() == len(values) and fakes.null_count() == 0
    assert (fakes == kind(name).fake(values, draws, False)).all() and (fakes != kind(name).fake(values, draws.again(1), False)).any()
    if name == "PERSON":
        assert [shape(fake) for fake in fakes] == [shape(value) for value in values]
    same = kind(name).normalise(fakes) == kind(name).normalise(values)
    assert same.sum() == 0
