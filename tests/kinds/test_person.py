"""Names as values: equal names, names too ambiguous for the leak check, and surrogates of the same shape. All people are invented."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from sanitize.core.keys import Draws
from sanitize.kinds.kind import get_kind
from sanitize.kinds.person import faker_given_names_by_gender, faker_names, fold_accents

EQUAL_SPELLINGS = [
    ("PERSON", "Ann Roe", "ROE, ANN"),
    ("PERSON", "Ann  Roe", "ann\nroe"),
    ("PERSON", "\uff21nn Roe", "Ann R\u200boe"),
    ("LOCATION", "S\u00e3o  Paulo", "s\u00e3o paulo"),
    ("ORGANIZATION", "Acorn Gas", "ACORN GAS"),
]
SHAPES = ["Ann Roe", "Roe, Ann M.", "ANN ROE", "ann roe", "Jan van der Berg", "Anna-Lena O'Neil", "J. K. Fischer", "Zo\u00eb \u00c5berg"]


def reduce_to_shape(name: str) -> str:
    """The shape of a name: words reduced to their letter case, all else unchanged; fixed words unchanged."""
    return re.sub(
        r"[^\W\d_]+",
        lambda m: m[0] if m[0] in ("van", "der") else "I" if len(m[0]) == 1 else "U" if m[0].isupper() else "T" if m[0].istitle() else "l",
        name,
    )


@pytest.mark.parametrize(("name", "first", "second"), EQUAL_SPELLINGS)
def test_equal_spellings_share_a_normalised_value(name: str, first: str, second: str) -> None:
    forms = get_kind(name).normalise(pl.Series([first, second]))
    assert forms[0] == forms[1]
    assert get_kind("LOCATION").normalise(pl.Series(["Roe, Ann"]))[0] == "roe, ann"


def test_common_names_are_not_distinctive() -> None:
    is_distinctive = get_kind("PERSON").is_distinctive
    assert is_distinctive is not None
    names = pl.DataFrame({"normalised": ["ann roe", "li wu", "mark", "rodriguez", "anna-lena"]})
    assert is_distinctive(names).to_list() == [True, False, False, False, True]


@pytest.mark.parametrize("name", ["PERSON", "LOCATION", "ORGANIZATION"])
def test_surrogate_has_the_same_shape_and_other_words(name: str) -> None:
    values = pl.Series(SHAPES * 20)
    draws = Draws.from_words(b"sixteen bytes ok", np.arange(len(values), dtype=np.uint64))
    surrogates = get_kind(name).make_surrogates(values, draws, False)
    assert surrogates.len() == len(values) and surrogates.null_count() == 0
    assert (surrogates == get_kind(name).make_surrogates(values, draws, False)).all() and (
        surrogates != get_kind(name).make_surrogates(values, draws.with_attempt(1), False)
    ).any()
    if name == "PERSON":
        assert [reduce_to_shape(surrogate) for surrogate in surrogates] == [reduce_to_shape(value) for value in values]
    same = get_kind(name).normalise(surrogates) == get_kind(name).normalise(values)
    assert same.sum() == 0


def draw_surrogates(names: list[str]) -> list[str]:
    draws = Draws.from_words(b"sixteen bytes ok", np.arange(len(names), dtype=np.uint64))
    return get_kind("PERSON").make_surrogates(pl.Series(names), draws, False).to_list()


def test_a_given_name_alone_becomes_a_given_name_of_its_gender() -> None:
    female, male = (set(fold_accents(pl.Series(list(names)))) for names in faker_given_names_by_gender())
    assert not {"larry", "petra", "jurgen"} & female & male
    for name, same, other in (("Larry", male, female), ("PETRA", female, male), ("Jürgen", male, female)):
        words = [surrogate.lower() for surrogate in draw_surrogates([name] * 50)]
        assert all(word in same and word not in other for word in words)
    # after a title, or if no list has it as a given name, a single word is a surname
    surnames = {surrogate.lower() for surrogate in draw_surrogates(["Dr. Larry", "Zyqwert"] * 50)}
    assert not {surname.removeprefix("dr. ") for surname in surnames} - faker_names()[1]


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("Иван Петров", "Cyrillic"),
        ("Γιώργος", "Greek"),
        ("김민수", "Hangul"),
        ("דניאל", "Hebrew"),
        ("Zo\u00eb Roe", "Latin"),
        ("ゑゑ", "Latin"),
    ],
)
def test_surrogates_have_the_script_of_the_name(name: str, script: str) -> None:
    surrogates = draw_surrogates([name] * 20)
    assert pl.Series(surrogates).str.contains(rf"\A[\p{{{script}}}\p{{M}} ]+\z").all() and len(set(surrogates)) > 5
