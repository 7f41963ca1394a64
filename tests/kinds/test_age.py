"""Ages: the value is the number; the words around it decide whether it is an age."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Draws, Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.age import KIND

FINDER = PatternFinder(Key.from_seed(3), opt_in_kinds=("AGE", "DATE_TIME"))


def find_ages(text: str) -> list[str]:
    return find_ages_of_texts([text])[0]


def find_ages_of_texts(texts: list[str]) -> list[list[str]]:
    column = pa.array(texts, pa.large_string())
    detections = FINDER.run(column)
    starts, ends = detections.find_code_points(column)
    kinds = detections.kind
    ages: list[list[str]] = [[] for _ in texts]
    for no, start, end, kind in zip(detections.text_no, starts, ends, kinds, strict=True):
        if FINDER.kinds[kind].name == KIND.name:
            ages[no].append(texts[no][start:end])
    return ages


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
        "I'm 64.",
        "I am 64 and he is not",
        "she\u2019s 64!",
        "he is 64, she said",
        "He's 64 now",
        "he's 64 :)",
        "she was 64, and well",
        "He was 64 at the time",
        "he is 64\u2014and well",
        "when he was 64 that came",
        "until I was 64 I did",
        "a man, 64, guilty",
        "64yrs, male",
        "a case of 64 yrs/F)",
        "he is 64yrs.",
        "er ist 64 Jahre alt",
        "ein 64-jähriger Mann",
        "im Alter von 64 Jahren",
        "âgé de 64 ans",
        "Âgées de 64 ans",
        "64 años de edad",
        "Edad: 64",
    ],
)
def test_ages_are_found(text: str) -> None:
    assert find_ages(text) == ["64"]


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
        "I'm 64 miles away",
        "I'm 64% sure",
        "I am 64.5 of it",
        "she's 64,000 short",
        "when I was 64\n> weeks along",
        "I was 64 miles away, he was 64% sure",
        "1 girl, 64 guys; her son, 64 years after",
        "Tim 64.",
        "64yrs ago",
        "64yrs of work",
        "64 Jahre lang",
        "64 ans plus tard",
        "sixty-four years ago",
        "sixtyfour years old",
        "one of the years old",
        "read The Age 10/1/2002, aged 10-12-2002",
    ],
)
def test_other_numbers_are_not_ages(text: str) -> None:
    assert find_ages(text) == []


# every context word and sign of an age, one in each text
TEXTS_WITH_AGE = [
    *(
        f"64{sign}{unit}{sign}old"
        for sign in " -"
        for unit in ("year", "Years", "month", "Months", "week", "Weeks", "day", "Days")
    ),
    *(
        f"64{short}, she"
        for short in (
            " y/o",
            " Y/O",
            "yo",
            "-yo",
            " YO",
            " y.o.",
            " y.o",
            " yr old",
            "yrs-old",
            " YRS OLD",
            " YR. OLD",
        )
    ),
    *(
        f"{word}64 at"
        for word in (
            "aged ",
            "Aged: ",
            "AGED ",
            "age ",
            "Age is ",
            "age was ",
            "AGE:",
            "Age = ",
            "age=",
            "Ages ",
        )
    ),
    *(
        f"{one}{turn} 64"
        for one in ("just ", "Just ", "I'll ", "will ", "she ", "He ", "i ")
        for turn in ("turn", "turns", "Turned")
    ),
    *(
        f"{word} 64"
        for word in (
            "turned",
            "Turned",
            "turning",
            "Turning",
            "Im Alter von",
            "im Alter von",
            "Alter",
            "edad",
            "Edad de",
        )
    ),
    *(f"{word} de 64 ans" for word in ("âgé", "âgée", "âgés", "Âgées")),
    *(f"64{form}" for form in ("-jährige", " jährigen", "jährigem", "-jährigen", "-jähriges")),
    *(
        f"{one} 64."
        for one in (
            "I'm",
            "i'm",
            "I am",
            "i am",
            "I was",
            "i was",
            "He's",
            "he is",
            "he was",
            "She's",
            "she is",
            "She was",
        )
    ),
    *(
        f"I am 64{end}"
        for end in (";", "!", "?", ")", "\n", ".", ",", " :)", " :-(", "   ", "\u2014and")
    ),
    *(
        f"I am 64 {word} x"
        for word in (
            "and",
            "now",
            "today",
            "but",
            "so",
            "this",
            "next",
            "year",
            "years",
            "yr",
            "yrs",
            "yo",
            "y/o",
            "when",
            "at the time",
        )
    ),
    *(
        f"{word} {one} was 64 we"
        for word in ("when", "since", "until", "till", "Before")
        for one in ("I", "he", "she")
    ),
    *(
        f"the {one}, 64{end}"
        for one in ("man", "Man", "boy", "Boy", "girl", "Girl", "son", "daughter", "teen")
        for end in (",", ";", ")", ".", "")
    ),
    *(
        f"64{gap}{one}, x"
        for gap in ("yrs, ", " yr/", "-yrs/ ", " yr. ")
        for one in (
            "male",
            "female",
            "man",
            "woman",
            "boy",
            "girl",
            "lady",
            "gentleman",
            "M",
            "f",
            "white",
            "black",
            "asian",
            "hispanic",
            "Caucasian",
        )
    ),
    *(
        f"{one}64{short}{end}"
        for one in ("Patient ", "pt, ", "I'm ", "I am ", "he's ", "She is ", "who is ", "who was: ")
        for short in ("yrs", " yr")
        for end in (".", ",", ";", ")", "\n", "")
    ),
]
TEXTS_WITHOUT_AGE = [
    *(
        f"when I was 64{gap}{what} x"
        for gap in (" ", "\n> ")
        for what in (
            *(
                "week",
                "weeks",
                "month",
                "months",
                "day",
                "days",
                "hour",
                "hours",
                "minute",
                "minutes",
                "miles",
                "km",
                "feet",
                "ft",
                "inches",
            ),
            *("pounds", "lbs", "kg", "cm", "percent", "per cent", "point", "points", "times"),
        )
    ),
    *(f"when I was 64{what}" for what in ("%", "km", "/2", ".5", ",5", ":30", "-30")),
    *(
        f"he is 64 {what}"
        for what in ("miles away", "of them", "andy", "nowhere", "in a row", ":x")
    ),
    *(
        "Aged 64/10",
        "ages 64-70",
        "a man, 64 of",
        "the girl, 64 x",
        "the son, 64,5",
        "64yrs, malefactor",
        "64 yrs     male",
        "64 yrs male1",
    ),
    *(
        "64yrs at",
        "it is 64yrs.",
        "he is 64yrs at",
        "Age  64",
        "will turned: 64/5",
        "121 years old",
        "064 years old",
    ),
]


def test_every_context_word_of_an_age() -> None:
    column = pa.array(TEXTS_WITH_AGE + TEXTS_WITHOUT_AGE, pa.large_string())
    detections = FINDER.run(column)
    starts, ends = detections.find_code_points(column)
    ages = [FINDER.kinds[kind].name == KIND.name for kind in detections.kind.tolist()]
    age_counts = [0] * len(TEXTS_WITH_AGE + TEXTS_WITHOUT_AGE)
    for text_no, start, stop, age in zip(
        detections.text_no.tolist(),
        starts.tolist(),
        ends.tolist(),
        ages,
        strict=True,
    ):
        age_counts[text_no] += age and (
            (TEXTS_WITH_AGE + TEXTS_WITHOUT_AGE)[text_no][start:stop] == "64" or 100
        )
    wrong = [
        text
        for text, count in zip(TEXTS_WITH_AGE + TEXTS_WITHOUT_AGE, age_counts, strict=True)
        if count != (text in TEXTS_WITH_AGE)
    ]
    assert wrong == []


def test_age_limit_is_120() -> None:
    assert KIND.check is not None
    assert KIND.check(pl.Series(["120", "121", "064", "64", "one"])).to_list() == [
        None,
        "range",
        "range",
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "value", "form"),
    [
        ("sixty-four years old", "sixty-four", "64"),
        ("Sixty Four Years Old", "Sixty Four", "64"),
        ("a two-year-old", "two", "2"),
        ("aged twenty-one", "twenty-one", "21"),
        ("at the age of seventy", "seventy", "70"),
        ("nineteen years of age", "nineteen", "19"),
    ],
)
def test_ages_in_words(text: str, value: str, form: str) -> None:
    assert find_ages(text) == [value] and KIND.normalise(pl.Series([value])).to_list() == [form]


def test_surrogates_in_words_keep_the_form_and_are_found() -> None:
    values = pl.Series("value", ["sixty-four", "Sixty Four", "seventy", "twelve", "Two", "64"] * 60)
    rows = np.arange(len(values), dtype=np.uint64)
    surrogates = KIND.make_surrogates(
        values,
        Draws.from_words(b"sixteen bytes ok", np.full(len(values), 7, np.uint64), rows * 0, rows),
        False,
    )
    assert (
        KIND.check is not None
        and KIND.check(surrogates).is_null().all()
        and (surrogates != values).all()
    )
    shapes = [
        r"[a-z]+ty-[a-z]+",
        r"[A-Z][a-z]+ty [A-Z][a-z]+",
        r"[a-z]+ty",
        r"[a-z]+(?:en|elve)",
        r"[A-Z][a-z]{2,4}",
        "[1-9][0-9]",
    ]
    assert all(
        re.fullmatch(shape, surrogate)
        for surrogate, shape in zip(surrogates, shapes * 60, strict=True)
    )
    texts = [f"aged {surrogate}, {surrogate} years old" for surrogate in surrogates]
    assert find_ages_of_texts(texts) == [[surrogate, surrogate] for surrogate in surrogates]


def test_spellings_of_an_age_share_a_value_id() -> None:
    detections = FINDER.run(
        pa.array(
            ["aged 64, he is 64 years old, turned 64, sixty-four years old"], pa.large_string()
        )
    )
    assert len(detections.text_no) == 4
    assert (
        set(detections.values.normalised.to_pylist()) == {"64"}
        and len(set(detections.values.value_id.tolist())) == 1
    )


def test_surrogates_keep_the_digit_count() -> None:
    values = pl.Series("value", ["7", "64", "101"] * 50)
    rows = np.arange(len(values), dtype=np.uint64)
    draws = Draws.from_words(
        b"sixteen bytes ok",
        np.full(len(values), 7, np.uint64),
        np.zeros(len(values), np.uint64),
        rows,
    )
    surrogates = KIND.make_surrogates(values, draws, False)
    assert KIND.check is not None and KIND.check(surrogates).is_null().all()
    assert surrogates.str.len_bytes().to_list() == values.str.len_bytes().to_list()
    assert (surrogates != values).all()
    assert KIND.is_value(pl.DataFrame({"value": surrogates})).all()
    assert KIND.normalise(pl.Series(["064", "0"])).to_list() == ["64", "0"]
