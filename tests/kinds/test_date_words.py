"""Words, zones and limits of dates one by one: context that makes a year, a time or a short weekday
a date, or prevents it."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.date_time import KIND

FINDER = PatternFinder(Key.from_seed(3), opt_in_kinds=("DATE_TIME",))
YEARS = """
in since during of until till by before after from through between year years early late mid circa ca spring summer fall
autumn winter Q1 q4 born founded class FY Copyright date dated to and a the for
""".split()  # noqa: E501
UNITS = """
px kb kib mb gb tb byte bytes bit bits kg km m ft miles people persons shares units times lines words files mhz rpm mw
mwh volt volts hours days minutes seconds dollars usd euro euros points votes items users calories jobs employees
customers members copies tons barrels 1999
""".split()  # noqa: E501
VERSIONS = (
    "version ver ver. v v. release rel rel. rev revision build firmware kernel section chapter sec."
).split()
TIMES = (
    "at by until till from to around about before after between and time start starts starting when"
).split()
WEEKDAYS = "on by until till this next last every through thru before after early late".split()
ZONES = (
    "UTC GMT EST EDT CST CDT MST MDT PST PDT AST ADT ET CT MT PT AT CEST CET BST IST JST Z".split()
)
BIRTHS = [
    *(
        "DOB",
        "dob",
        "D.O.B",
        "D.O.B.",
        "Born",
        "born on",
        "BORN",
        "Birthdate",
        "birth date",
        "Birth Day",
        "birthday",
        "Date of Birth",
    ),
    *(
        "date Of birth",
        "Date",
        "dated",
        "Dated",
        "DATE",
        "Geb.",
        "geb.",
        "Geboren",
        "geboren am",
        "Geburtsdatum",
        "geburtsdatum",
        "Né le",
    ),
    *("née le", "Nacida el", "nacido el", "Nacimiento", "nacimiento"),
]

# a text, and the dates in it
DATES_BY_TEXT = [
    *((f"so {word}{sign}2001 they", ["2001"]) for word in YEARS for sign in (" ", " (", ": ")),
    *((f"so, {sign}2001) x", ["2001"]) for sign in ("(", "( ", "Lee, ")),
    *((f"{first}2001 x", ["2001"]) for first in ("1999-", "1999--", "2000 - ")),
    ("(c) 2001 Lee", ["2001"]),
    ("2 2001 1 2001; x 2001 y", []),
    ("Vol. 12, 2001), 12, 2001)", []),
    *((f"in 2001 {unit} x", []) for unit in UNITS),
    *(
        (f"in 2001{sign}", [])
        for sign in (
            "%",
            " %",
            ".5",
            ",500",
            ":db8",
            "/x",
            "/2",
            "-12",
            "-123",
            "-12345",
            "-x",
            "@",
            "=",
            "kb",
        )
    ),
    *((f"in 2001{sign} x", ["2001"]) for sign in ("-", ", 50", ". 5", ":", "/", " kbx", " 199")),
    *((f"see {word}{sign}1.2.2001", []) for word in VERSIONS for sign in (" ", ": ", "=")),
    *((f"see {word} 1.2.2001", ["1.2.2001"]) for word in ("aversion", "every", "Grev")),
    *((f"so {word}{sign}3:16 x", ["3:16"]) for word in TIMES for sign in (" ", "  ", ": ")),
    *((f"{sign}3:16 x", ["3:16"]) for sign in ("@ ", "@")),
    ("1 - 3:16 x", ["3:16"]),
    *((f"so {word} 3:16", []) for word in ("bat", "whenever", "John", "xto", "by 5")),
    *((f"so {word} {day} we", [day]) for word in WEEKDAYS for day in ("Mon", "Sat")),
    *((f"so {word} Wed we", []) for word in ("xon", "nearby", "the", "on the")),
    *(
        (f"x {stamp} {zone} y", [f"{stamp} {zone}"])
        for zone in ZONES[:-1]
        for stamp in ("Mon, 14 May 2001 16:39:00", "16:39", "4 PM")
    ),
    *(
        (f"x {day} 14 May 2001 y", [f"{day} 14 May 2001"])
        for day in ("Mon", "Tue", "Tues", "Weds", "Wed.", "Thu", "Thur", "fri", "SAT", "Sunday,")
    ),
    *(
        (f"x {name} 14 y", [f"{name} 14"])
        for name in (
            "Jan",
            "JAN.",
            "January",
            "Feb",
            "Sep",
            "Sept",
            "sept.",
            "November",
            "DECEMBER",
            "aug",
        )
    ),
    ("x 14 May 2001, 2.2001.3 y", ["14 May 2001"]),
    ("x1.2.2001.3 2.3.2001.", ["2.3.2001"]),
    ("14.05.2001 Notes", ["14.05.2001"]),
    ("so 1.2.2001 x.5 y", ["1.2.2001"]),
    ("Lee, vol. 12, 2001) y", []),
    ("Fri,  9 Feb 2001 10:00:00 +0100 (CET)", ["Fri,  9 Feb 2001 10:00:00 +0100 (CET)"]),
    ("Jan'01 and Jan '01", ["Jan'01", "Jan '01"]),
    *(
        (f"x May {day} y", [f"May {day}"])
        for day in ("1st", "2nd", "3rd", "4th", "1ST", "2ND", "3RD", "4TH")
    ),
    *(
        (f"x May\n{day} y", [f"May\n{day}"])
        for day in ("1st", "2nd", "3rd", "4th", "1st, 2001", "4th 2001")
    ),
    *(
        (f"x {day} y", [day])
        for day in ("14. April 2001", "14. August 2001", "14. September 2001", "14. November 2001")
    ),
    *(
        (f"x {word}{sign}14.05.85 y", ["14.05.85"])
        for word in BIRTHS
        for sign in (" ", ": ", "=", " (")
    ),
    *(
        (f"x {word} {day}, y", [day])
        for word in ("DOB", "born")
        for day in ("5-4-85", "05.14.85", "19851014", "20010930", "19850131")
    ),
    *(
        (f"DOB {day} y", [])
        for day in ("21850514", "19851314", "19850541", "05-14-853", "5-4-85-1")
    ),
]
# a spelling, and its normalised value
NORMALISED_VALUES = [
    *(
        (f"14 May 2001 10:30{half}", "2001-05-14T10:30")
        for half in ("AM", " AM", "am", " a.m.", "A.M.")
    ),
    *((f"14 May 2001 10:30{half}", "2001-05-14T22:30") for half in ("PM", " pm", " p.m.")),
    ("14 May 2001 12:15 AM", "2001-05-14T00:15"),
    ("14 May 2001 12:15 PM", "2001-05-14T12:15"),
    ("14 May 2001 9pm", "2001-05-14T21:00"),
    ("Saturday September 15th 2001 9 am", "2001-09-15T09:00"),
    ("Saturday, September 15, 2001 at 9:05 PM", "2001-09-15T21:05"),
    ("September 15, 2001 @9:05 PM", "2001-09-15T21:05"),
    ("September 15, 2001, @ 9:05 PM", "2001-09-15T21:05"),
    ("Dec 14 2001  9:01AM", "2001-12-14T09:01"),
    ("2001-05-14 16:39:00,123", "2001-05-14T16:39:00.123"),
    ("2001-05-14 16:39:00.5", "2001-05-14T16:39:00.5"),
    *((f"14 May 2001 16:39:00 {zone}", f"2001-05-14T16:39:00{zone}") for zone in ZONES[:-1]),
    ("14 May 2001 10:30AM -0700", "2001-05-14T10:30-0700"),
    ("2001-05-14T16:39:00Z", "2001-05-14T16:39:00Z"),
    *((f"14 May 2001 {hour}am", f"2001-05-14T{hour}:00") for hour in ("09", "10", "11")),
    ("14 May 2001 9.30 P.M.", "2001-05-14T21:30"),
    ("Oct 12 10:20:30.1999", "oct 12 10:20:30.1999"),
    ("12/12/2001", "2001-12-12"),
    ("12/11/2001", "12/11/2001"),
    ("11/12/2001", "11/12/2001"),
    ("12/13/2001", "2001-12-13"),
    ("13/12/2001", "2001-12-13"),
    ("31/1/68", "2068-01-31"),
    ("31/1/69", "1969-01-31"),
    ("31/1/99", "1999-01-31"),
    ("31/1/00", "2000-01-31"),
    ("1/1/2001", "2001-01-01"),
    ("September 5, 2001", "2001-09-05"),
    ("5-May-99", "1999-05-05"),
]
LIMITS = [
    *(
        ("10:59", None),
        ("10:60", "time"),
        ("24:00", None),
        ("25:00", "time"),
        ("10:30:60", None),
        ("10:30:61", "time"),
        ("12:59 PM", None),
    ),
    *(
        ("13:00 pm", "time"),
        ("12/31/2001", None),
        ("1/1/2001", None),
        ("30/4/2001", None),
        ("31/4/2001", "date"),
        ("11/31/2001", "date"),
    ),
    *(
        ("13/13/2001", "date"),
        ("0/13/2001", "date"),
        ("2001-12-31", None),
        ("2001-13-31", "date"),
        ("2001-01-00", "date"),
        ("2001-00-10", "date"),
    ),
    *(
        ("1 Jun 2001", None),
        ("30 Jun 2001", None),
        ("31 Jun 2001", "date"),
        ("30 Sep 2001", None),
        ("31 Sep 2001", "date"),
        ("31 Nov", "date"),
    ),
    *((f"{word} 5", "word") for word in ("may", "mar", "dec", "sun", "sat")),
    *((f"{day} {word}", "word") for word in ("may", "mar", "dec", "march") for day in ("5", "5th")),
    *(
        ("May 5", None),
        ("5 June", None),
        ("june 5", None),
        ("2 mars", "word"),
        ("2 Mars", "word"),
        ("1er mars", "word"),
        ("2 mars 2001", None),
    ),
    *((f"Mon, 14 May 2001 {clock} -0700", None) for clock in ("24:00:00", "10:59:60")),
    *(
        (f"Mon, 14 May 2001 {clock} -0700", "time")
        for clock in ("25:00:00", "10:60:00", "10:30:61")
    ),
    *(
        (f"Mon, {day} 2001 10:30:00 -0700", None)
        for day in ("1 Jan", "31 Jan", "28 Feb", "30 Apr", "31 Dec")
    ),
    *(
        (f"Mon, {day} 2001 10:30:00 -0700", "date")
        for day in ("0 Jan", "32 Jan", "29 Feb", "31 Apr", "31 Jun", "31 Sep", "31 Nov")
    ),
]


def test_every_context_word_and_zone() -> None:
    texts = [text for text, _ in DATES_BY_TEXT] + [f"x\n{text}\ny" for text, _ in NORMALISED_VALUES]
    column = pa.array(texts, pa.large_string())
    detections = FINDER.run(column)
    starts, ends = detections.find_code_points(column)
    dates: list[list[str]] = [[] for _ in texts]
    for text_no, start, stop, value_no in zip(
        *(
            column.tolist()
            for column in (
                detections.text_no,
                starts,
                ends,
                detections.value_no,
            )
        ),
        strict=True,
    ):
        if FINDER.kinds[detections.values.kind[value_no]].name == KIND.name:
            dates[text_no].append(texts[text_no][start:stop])
    expected = [expected_dates for _, expected_dates in DATES_BY_TEXT] + [
        [text] for text, _ in NORMALISED_VALUES
    ]
    assert [
        (text, values)
        for text, values, expected_values in zip(texts, dates, expected, strict=True)
        if values != expected_values
    ] == []


@pytest.mark.parametrize("size", [1, len(NORMALISED_VALUES)])
def test_every_normalised_value(size: int) -> None:
    for low in range(0, len(NORMALISED_VALUES), size):
        assert KIND.normalise(
            pl.Series([text for text, _ in NORMALISED_VALUES[low : low + size]])
        ).to_list() == [form for _, form in NORMALISED_VALUES[low : low + size]]


def test_every_limit() -> None:
    assert KIND.check is not None
    values = [text for text, _ in LIMITS]
    wrong = [
        (value, reason)
        for (value, expected), reason in zip(LIMITS, KIND.check(pl.Series(values)), strict=True)
        if reason != expected
    ]
    assert wrong == []
