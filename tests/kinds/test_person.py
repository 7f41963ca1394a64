"""Names as values: equal names, names too ambiguous for the leak check, and surrogates of the same
shape. All people are invented."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from sanitize.core.keys import Draws
from sanitize.kinds.east_asian_names import load_names
from sanitize.kinds.kind import get_kind
from sanitize.kinds.person import faker_given_names_by_gender, faker_names, fold_accents

EQUAL_SPELLINGS = [
    ("PERSON", "Ann Roe", "ROE, ANN"),
    ("PERSON", "Ann  Roe", "ann\nroe"),
    ("PERSON", "\uff21nn Roe", "Ann R\u200boe"),
    ("PERSON", "田中\u3000太郎", "田中太郎"),
    ("LOCATION", "S\u00e3o  Paulo", "s\u00e3o paulo"),
    ("ORGANIZATION", "Acorn Gas", "ACORN GAS"),
]
SHAPES = [
    "Ann Roe",
    "Roe, Ann M.",
    "ANN ROE",
    "ann roe",
    "Jan van der Berg",
    "Anna-Lena O'Neil",
    "J. K. Fischer",
    "Zo\u00eb \u00c5berg",
]


def reduce_to_shape(name: str) -> str:
    """The shape of a name: words reduced to their letter case, all else unchanged; fixed words
    unchanged."""
    return re.sub(
        r"[^\W\d_]+",
        lambda m: (
            m[0]
            if m[0] in ("van", "der")
            else "I"
            if len(m[0]) == 1
            else "U"
            if m[0].isupper()
            else "T"
            if m[0].istitle()
            else "l"
        ),
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
    # in scripts without blanks: a family name and a given name of three characters or more
    names = pl.DataFrame(
        {
            "normalised": [
                "王小明",
                "田中太郎",
                "林 太郎",
                "王伟",
                "王 伟",
                "佐々木",
                "田中",
                "김민수",
            ]
        }
    )
    assert is_distinctive(names).to_list() == [True, True, True, False, False, False, False, False]


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
        assert [reduce_to_shape(surrogate) for surrogate in surrogates] == [
            reduce_to_shape(value) for value in values
        ]
    same = get_kind(name).normalise(surrogates) == get_kind(name).normalise(values)
    assert same.sum() == 0


def draw_surrogates(names: list[str]) -> list[str]:
    draws = Draws.from_words(b"sixteen bytes ok", np.arange(len(names), dtype=np.uint64))
    return get_kind("PERSON").make_surrogates(pl.Series(names), draws, False).to_list()


def test_a_given_name_alone_becomes_a_given_name_of_its_gender() -> None:
    female, male = (
        set(fold_accents(pl.Series(list(names)))) for names in faker_given_names_by_gender()
    )
    assert not {"larry", "petra", "jurgen"} & female & male
    for name, same, other in (
        ("Larry", male, female),
        ("PETRA", female, male),
        ("Jürgen", male, female),
    ):
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
        ("ゑゑ", "Hiragana"),
        ("王小明", "Han"),
        ("欧阳 娜", "Han"),
        ("タナカ ハナコ", "Katakana"),
    ],
)
def test_surrogates_have_the_script_of_the_name(name: str, script: str) -> None:
    surrogates = draw_surrogates([name] * 20)
    assert (
        pl.Series(surrogates).str.contains(rf"\A[\p{{{script}}}\p{{M}} ]+\z").all()
        and len(set(surrogates)) > 5
    )


@pytest.mark.parametrize(
    ("name", "family", "given"),
    [
        ("王小明", "王", "小明"),
        ("欧阳娜", "欧阳", "娜"),
        ("金子涵", "金", "子涵"),
        ("田中太郎", "田中", "太郎"),
        ("佐々木 花子", "佐々木", "花子"),
        ("林太郎", "林", "太郎"),
        ("김민수", "김", "민수"),
        ("ジョン・スミス", "スミス", "ジョン"),
    ],
)
def test_variants_of_names_in_chinese_japanese_and_korean_keep_one_part(
    name: str, family: str, given: str
) -> None:
    variants = get_kind("PERSON").make_variants
    assert variants is not None
    draws = Draws.from_words(b"sixteen bytes ok", np.arange(20, dtype=np.uint64))
    for anchor, kept, other in ((0, given, family), (1, family, given)):
        made = variants(pl.Series([name] * 20), draws, np.full(20, anchor))
        assert made.str.contains(kept, literal=True).all() and not made.is_in([name]).all()
        place = name.index(kept)
        assert (
            all(
                variant.startswith(kept) if place == 0 else variant.endswith(kept)
                for variant in made
            )
            and other not in made.to_list()
        )


def test_surrogates_of_chinese_and_japanese_names_are_of_their_language_and_length() -> None:
    chinese, japanese = load_names("zh_CN"), load_names("ja_JP")
    for name, size in (("王伟", 2), ("王小明", 3), ("欧阳娜娜", 4)):
        surrogates = draw_surrogates([name] * 30)
        assert {len(surrogate) for surrogate in surrogates} == {size}
        family = size - (1 if size == 2 else 2)
        assert all(
            surrogate[:family] in chinese.family and surrogate[family:] in chinese.given
            for surrogate in surrogates
        )
    for surrogate in draw_surrogates(["林 太郎"] * 30):
        family_name, given_name = surrogate.split(" ")
        assert family_name in japanese.family and given_name in japanese.male
