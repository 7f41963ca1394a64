"""Dates and times: what is accepted, what is refused, one normalised form for several spellings,
and surrogates that keep the spelling."""

from __future__ import annotations

import datetime
import re

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.date_time import _RFC5322_DATE, KIND, _normalise_parsed
from tests.support import make_draws

FINDER = PatternFinder(Key.from_seed(3), opt_in_kinds=("AGE", "DATE_TIME"))


def find_dates(text: str) -> list[str]:
    """The dates that the finder `patterns`, with all kinds, reports in a text."""
    return find_dates_of_texts([text])[0]


def find_dates_of_texts(texts: list[str]) -> list[list[str]]:
    column = pa.array(texts, pa.large_string())
    detections = FINDER.run(column)
    starts, ends = detections.find_code_points(column)
    kinds = detections.kind
    dates: list[list[str]] = [[] for _ in texts]
    for no, start, end, kind in zip(detections.text_no, starts, ends, kinds, strict=True):
        if FINDER.kinds[kind].name == KIND.name:
            dates[no].append(texts[no][start:end])
    return dates


# a spelling, and its normalised value
DATES = [
    ("2001-05-14", "2001-05-14"),
    ("2001/5/14", "2001-05-14"),
    ("2001-05-14 16:39:00", "2001-05-14T16:39:00"),
    ("2001-05-14T16:39:00Z", "2001-05-14T16:39:00Z"),
    ("2001-05-14T16:39:00.123+02:00", "2001-05-14T16:39:00.123+0200"),
    ("14.05.2001", "2001-05-14"),
    ("5/14/2001 4:39 PM", "2001-05-14T16:39"),
    ("5/4/2001", "5/4/2001"),  # ambiguous: the fourth of May or the fifth of April
    ("05/14/01", "2001-05-14"),
    ("5/5/2001", "2001-05-05"),
    ("14 May 2001", "2001-05-14"),
    ("14th of May 2001", "2001-05-14"),
    ("May 14, 2001", "2001-05-14"),
    ("MAY 14TH, 2001", "2001-05-14"),
    ("Sept. 5, 2001", "2001-09-05"),
    ("4-May-01", "2001-05-04"),
    ("Monday, May 14, 2001 at 10:30 AM", "2001-05-14T10:30"),
    ("Mon, 14 May 2001 16:39:00 -0700 (PDT)", "2001-05-14T16:39:00-0700"),
    ("Mon, 4 May 2001 16:39:00 -0700", "2001-05-04T16:39:00-0700"),
    ("Sat Feb  3 12:00:00 2001", "2001-02-03T12:00:00"),
    ("Sat Feb  3 12:00:00 PST 2001", "2001-02-03T12:00:00PST"),
    ("2001年5月14日", "2001-05-14"),
    ("14. Mai 1985", "1985-05-14"),
    ("3. März 2001", "2001-03-03"),
    ("14. April 1985", "1985-04-14"),
    ("1er janvier 2001", "2001-01-01"),
    ("14 février 2001", "2001-02-14"),
    ("2 mars 2001", "2001-03-02"),
    ("14 août 2001", "2001-08-14"),
    ("14 de mayo de 1985", "1985-05-14"),
    ("3 de enero del 2001", "2001-01-03"),
    ("5 août 2001, 10:30", "2001-08-05T10:30"),
    ("mayo de 1985", "may 1985"),
    ("14 maggio 1985", "1985-05-14"),
    ("1º gennaio 2001", "2001-01-01"),
    ("1.º de janeiro de 2001", "2001-01-01"),
    ("3 de março de 2001", "2001-03-03"),
    ("3 mei 1985", "1985-05-03"),
    ("28 februari 2001", "2001-02-28"),
    ("5 maja 1985", "1985-05-05"),
    ("14 października 2001", "2001-10-14"),
    ("styczeń 2001", "january 2001"),
    ("3 marca 2001", "2001-03-03"),
    ("14. Dezember", "14 december"),
    ("May 2001", "may 2001"),
    ("14 May", "14 may"),
    ("Thursday", "thursday"),
    ("10:30", "10:30"),
    ("10:30:15 PM", "10:30:15 pm"),
    ("5 p.m.", "5 p.m."),
    ("9.30 a.m.", "9:30 a.m."),
    ("14 May 2001 2.15 pm", "2001-05-14T14:15"),
    ("Jan '01", "jan '01"),
    ("Nov-01", "nov-01"),
    ("Mon,\n    4 Feb 2002 16:58:53 +0200", "2002-02-04T16:58:53+0200"),
    ("May\n> 14, 2001", "2001-05-14"),
    ("May 14,\n2001", "2001-05-14"),
    ("May \r\n 14th", "may 14th"),
]


@pytest.mark.parametrize(("text", "normalised"), DATES)
def test_dates_are_found_and_normalised(text: str, normalised: str) -> None:
    assert (
        find_dates_of_texts([text, f"on {text}, they say", f"({text})", f"x\n{text}\ny"])
        == [[text]] * 4
    )
    assert KIND.normalise(pl.Series([text])).to_list() == [normalised]
    assert KIND.normalise(pl.Series([normalised])).to_list() == [normalised]


SHORT_WEEKDAYS = [
    ("moved to 4:00 on Wed. in", ["4:00", "Wed"]),
    ("by next Fri, or Sat", ["Fri"]),
    ("Mon ami, Wed she will; on Sun hardware; Satin", []),
]


@pytest.mark.parametrize(("text", "expected"), SHORT_WEEKDAYS)
def test_short_weekdays_need_a_context_word(text: str, expected: list[str]) -> None:
    assert find_dates(text) == expected
    surrogates = KIND.make_surrogates(pl.Series("value", ["Wed"] * 50), make_draws(50), False)
    assert surrogates.n_unique() == 6
    assert find_dates_of_texts([f"on {surrogate} we" for surrogate in surrogates]) == [
        [surrogate] for surrogate in surrogates
    ]


YEARS = [
    "in 2012",
    "since 1998 they",
    "a 2017 Polish film",
    "(Lee, 2001)",
    "the Act of 2001",
    "born 1961",
    "from 1999-2001",
    "Copyright (c) 2001 X",
]


@pytest.mark.parametrize("text", YEARS)
def test_years_need_a_context_word(text: str) -> None:
    assert find_dates(text) == re.findall("[12][0-9]{3}", text)


DATES_AFTER_WORDS = [
    ("DOB: 05-14-85", "05-14-85", "1985-05-14"),
    ("D.O.B. 05-14-85", "05-14-85", "1985-05-14"),
    ("born 14.05.85 in", "14.05.85", "1985-05-14"),
    ("Geburtsdatum: 14.05.85", "14.05.85", "1985-05-14"),
    ("née le 14.05.85", "14.05.85", "1985-05-14"),
    ("Date of birth = 19850514", "19850514", "1985-05-14"),
    ("dated 20010514.", "20010514", "2001-05-14"),
    ("born on 5.4.85", "5.4.85", "5.4.85"),
]


@pytest.mark.parametrize(("text", "value", "normalised"), DATES_AFTER_WORDS)
def test_dates_that_need_a_context_word(text: str, value: str, normalised: str) -> None:
    assert find_dates(text) == [value] and KIND.normalise(pl.Series([value])).to_list() == [
        normalised
    ]
    rows = np.arange(50, dtype=np.uint64)
    surrogates = KIND.make_surrogates(
        pl.Series("value", [value] * 50), make_draws(50).take(rows.astype(np.intp)), False
    )
    assert {re.sub("[0-9]", "0", surrogate) for surrogate in surrogates} == {
        re.sub("[0-9]", "0", value)
    } and surrogates.n_unique() > 20
    assert find_dates_of_texts([text.replace(value, surrogate) for surrogate in surrogates]) == [
        [surrogate] for surrogate in surrogates
    ]


NOTHING = [
    "2012",
    "in 2012 shares, of 2001 people, by 2000%, in 1999.5",
    "in 2012kb since 1024",
    "1.2.2001.4 10.20.30.40",
    "12:30:15:20:30 aa:10:20",
    "you may 5 times, he will mar 3",
    "version 3:16, x10:30, 10:305",
    "march on, may be, sat down, sun",
    "Mondays fridayish",
    "60-56-85-91",
    "05-14-85, 14.05.85 and 20010514",
    "update: 20010514, stubborn 05-14-85, DOB 05-14-85-22-11",
    "version 1.2.2001, v. 1.2.2001, firmware: 10.4.2001, Release 1.2.2001",
    "call me in 1999 2000",
    "2 mars, le 3 mars",
    "2 marca, marca 2001, Maja 2001, Marco 2001, maggiore 2001, 5 mein, 3 majątek",
    "room 14. May I",
    "marsh 2001, mayor 1985, junior 1985",
    "",
]


@pytest.mark.parametrize("text", NOTHING)
def test_other_numbers_are_not_dates(text: str) -> None:
    assert find_dates(text) == []


REASONS = [
    ("2001-13-01", None),  # no candidate: no month has that number
    ("2001-02-30", "date"),
    ("31/04/2001", "date"),
    ("Feb 29, 2001", "date"),
    ("Tue, 30 Feb 2001 10:00:00 -0700", "date"),
    ("Tue, 28 Feb 2001 10:61:00 -0700", "time"),
    ("25:30", "time"),
    ("13:30 PM", "time"),
    ("10:20:30:40", "time"),
    ("may 5", "word"),
]


@pytest.mark.parametrize(("text", "reason"), REASONS)
def test_rejected_candidates_have_a_reason(text: str, reason: str | None) -> None:
    assert find_dates(text) == []
    if reason is not None:
        assert KIND.check is not None
        assert KIND.check(pl.Series([text])).to_list() == [reason]
        assert KIND.check(
            pl.Series([text, "10:30", "Mon, 14 May 2001 16:39:00 -0700"])
        ).to_list() == [reason, None, None]


def test_leap_years() -> None:
    assert KIND.check is not None
    days = [
        "Feb 29, 2000",
        "Feb 29, 2004",
        "Thu, 29 Feb 1996 10:00:00 +0000",
        "1900-02-29",
        "Thu, 29 Feb 1900 10:00:00 +0000",
    ]
    assert KIND.check(pl.Series(days)).to_list() == [None, None, None, "date", "date"]


@given(st.dates(datetime.date(1600, 1, 1), datetime.date(2099, 12, 31)))
@settings(max_examples=60, deadline=None)
def test_spellings_of_a_day_share_a_normalised_value(day: datetime.date) -> None:
    spellings = [
        day.isoformat(),
        f"{day:%d %b %Y}",
        f"{day:%B} {day.day}, {day.year}",
        f"{day:%a, %d %b %Y}",
    ]
    spellings += [f"{day:%d.%m.%Y}"] if day.day > 12 else []
    assert KIND.check is not None and KIND.check(pl.Series(spellings)).is_null().all()
    assert set(KIND.normalise(pl.Series(spellings))) == {day.isoformat()}


@given(
    st.datetimes(datetime.datetime(1980, 1, 1), datetime.datetime(2099, 12, 31)),
    st.sampled_from(["+0000", "-0730", "+0200 (CEST)"]),
)
@settings(max_examples=60, deadline=None)
def test_fixed_position_parser_equals_the_pattern_parser(
    moment: datetime.datetime, zone: str
) -> None:
    value = pl.Series([f"{moment:%a}, {moment.day} {moment:%b %Y %H:%M:%S} {zone}"])
    assert value.str.contains(_RFC5322_DATE).all()
    assert (
        KIND.normalise(value).to_list()
        == _normalise_parsed(value).to_list()
        == [f"{moment:%Y-%m-%dT%H:%M:%S}{zone[:5]}"]
    )


def reduce_to_shape(text: str) -> str:
    text = re.sub(
        "(?<=[0-9])(st|nd|rd|th)(?![a-z])",
        "th",
        re.sub("(?<=[0-9])(ST|ND|RD|TH)(?![A-Z])", "TH", text),
    )
    return re.sub("[^\\W\\d_]{3,}", "w", re.sub("[0-9]", "0", text))


def test_surrogates_keep_the_spelling_and_are_valid_dates() -> None:
    values = pl.Series("value", [text for text, _ in DATES] * 40 + ["2012", "1998"])
    surrogates = KIND.make_surrogates(values, make_draws(len(values)), False)
    assert KIND.check is not None and KIND.check(surrogates).is_null().all()
    assert KIND.is_value(pl.DataFrame({"value": surrogates})).all()
    assert [reduce_to_shape(surrogate) for surrogate in surrogates] == [
        reduce_to_shape(value) for value in values
    ]
    assert (KIND.normalise(surrogates) != KIND.normalise(values)).mean() > 0.9
    rows = np.arange(1, len(values), 3)
    assert (
        KIND.make_surrogates(
            values.gather(rows), make_draws(len(values)).take(rows), False
        ).to_list()
        == surrogates.gather(rows).to_list()
    )


@pytest.mark.parametrize(
    ("value", "months"),
    [
        (
            "14 agosto 2001",
            (
                "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre"
                " novembre dicembre"
            ),
        ),
        (
            "14 de agosto de 2001",
            (
                "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre"
                " diciembre"
            ),
        ),
        (
            "14 de março de 2001",
            (
                "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro"
                " dezembro"
            ),
        ),
        ("14 mei 2001", "januari februari maart mei juni juli augustus oktober"),
        (
            "maj 2001",
            (
                "styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik"
                " listopad grudzień"
            ),
        ),
        (
            "14 maja 2001",
            (
                "stycznia lutego kwietnia czerwca lipca sierpnia września października listopada"
                " grudnia"
            ),
        ),
    ],
)
def test_surrogates_keep_the_language_of_the_month(value: str, months: str) -> None:
    surrogates = KIND.make_surrogates(pl.Series("value", [value] * 200), make_draws(200), False)
    assert set(surrogates.str.extract(r"(\p{L}{3,})")) == set(months.split())
    assert find_dates_of_texts(list(surrogates)) == [[surrogate] for surrogate in surrogates]


def test_surrogate_ordinals_match_their_day() -> None:
    values = pl.Series(
        "value",
        [
            "3rd of May 2001",
            "May 1st, 2002",
            "22ND Jun",
            "21st August",
            "Monday, 11th June 1999",
            "12th-May-01",
        ]
        * 40,
    )
    endings = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}
    days = set()
    for value, surrogate in zip(
        values, KIND.make_surrogates(values, make_draws(len(values)), False), strict=True
    ):
        ordinal = re.search("([0-9]+)([a-z]{2})(?![a-z])", surrogate, re.IGNORECASE)
        assert (
            ordinal
            and ordinal[2].lower() == endings.get(int(ordinal[1]), "th")
            and ordinal[2].isupper() == ("ND" in value)
        )
        days.add(int(ordinal[1]))
    assert days >= {1, 2, 3, 11, 12, 13, 21, 22, 23}


def test_surrogate_weekday_matches_its_date() -> None:
    values = pl.Series(
        ["Mon, 14 May 2001 16:39:00 -0700", "Monday, May 14, 2001", "Mon May 14 12:00:00 2001"] * 60
    )
    surrogates = KIND.make_surrogates(values, make_draws(len(values)), False)
    for surrogate in surrogates:
        words = re.findall("[A-Za-z]+|[0-9]+", surrogate)
        numbers = [word for word in words if word.isdigit()]
        month = next(
            word for word in words[1:] if word[:3] in "JanFebMarAprMayJunJulAugSepOctNovDec"
        )
        year = next(number for number in numbers if len(number) == 4 and number[:2] in ("19", "20"))
        day = datetime.datetime.strptime(f"{numbers[0]} {month[:3]} {year}", "%d %b %Y")
        assert day.strftime("%a") == words[0][:3], surrogate


@given(st.from_regex(re.compile(KIND.pattern.replace(r"(?-u:\b)", ""), re.ASCII), fullmatch=True))
@settings(max_examples=60, deadline=None)
def test_normalise_is_idempotent(value: str) -> None:
    once = KIND.normalise(pl.Series([value]))
    assert KIND.normalise(once).to_list() == once.to_list()


def test_empty_column() -> None:
    empty = pl.Series("value", [], dtype=pl.String)
    assert (
        KIND.check is not None
        and len(KIND.check(empty))
        == len(KIND.normalise(empty))
        == len(KIND.make_surrogates(empty, make_draws(0), False))
        == 0
    )
