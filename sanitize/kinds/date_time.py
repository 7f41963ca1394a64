"""Dates and times: ISO 8601, numeric dates with separators, dates with the name of a month, each
with weekday, time and zone; weekdays; times of day; and years where the words around them say that
they are years.

One span covers all that belongs together: `Mon, 14 May 2001 16:39:00 -0700 (PDT)`. Impossible dates
(month 13, 30 February) are refused. Normalised form: ISO 8601 where the spelling is unambiguous, so
that `14 May 2001` and `2001-05-14` are one value; else the text in lower case. `5/4/2001` can mean
two days, so its text is used. A year of two digits is one from 1969 to 2068, as in POSIX.

Months may have their German, French, Spanish, Italian, Portuguese, Dutch or Polish names (`14. Mai
1985`, `1er janvier 2001`, `14 de mayo de 1985`, `5 maja 1985`). `05-14-85`, `14.05.85` and
`20010514` are dates after words that say so (`DOB`, `born`, `geboren`, `Date:`); `version 1.2.2001`
is not a date. Short weekdays are reported after `on`, `by`, `next` and similar words. A line may
break after the comma of a weekday, and in a date that has a year or an ending such as `7th`.

Dates of birth behind their labels are DATE_OF_BIRTH where a plan does not look for dates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sanitize.array_types import I64, U8
from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BOUNDARY,
    DIGITS,
    LETTERS,
    Kind,
    draw_indices,
    from_byte_matrix,
    to_byte_matrix,
)

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _case_insensitive(word: str, *abbreviations: str) -> str:
    """A pattern for a word or one of its abbreviations, in any ASCII letter case; longest first."""
    forms = sorted({word, *abbreviations}, key=len, reverse=True)
    return "|".join("".join(f"[{letter.upper()}{letter}]" for letter in form) for form in forms)


_MONTH = rf"(?:{'|'.join(_case_insensitive(name, name[:3], *(['sept'] if name[0] == 's' else [])) for name in _MONTHS)}){BOUNDARY}[.]?"  # noqa: E501
_WEEKDAY = (
    rf"(?:{'|'.join(_case_insensitive(name, name[:3], *{'t': [name[:4]], 'w': ['weds']}.get(name[0], [])) for name in _WEEKDAYS)})"  # noqa: E501
    rf"{BOUNDARY}[.]?"
)
_LONG_WEEKDAY = rf"(?:{'|'.join(_case_insensitive(name) for name in _WEEKDAYS)}){BOUNDARY}"
# not `Sun`, which is also a star and a company
_SHORT_DAYS = (
    "Mon",
    "Tue",
    "Wed",
    "Thu",
    "Fri",
    "Sat",
)
_SHORT_WEEKDAY = rf"(?:{'|'.join(_SHORT_DAYS)}){BOUNDARY}"
# months of other languages; the Polish ones in the genitive, as in dates, and in the nominative, as
# before a year alone. `mars` is also a planet, `marca` a brand in Spanish, `maja` a name: they are
# months only in a date of day and year
_FOREIGN_MONTHS = tuple(
    tuple(names.split())
    for names in (
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        (
            "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre"
            " dicembre"
        ),
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "januari februari maart april mei juni juli augustus september oktober november december",
        (
            "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października"
            " listopada grudnia"
        ),
        (
            "styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik"
            " listopad grudzień"
        ),
    )
)
_GERMAN, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _DUTCH, _POLISH, _POLISH_NOMINATIVE = range(
    len(_FOREIGN_MONTHS)
)
_OTHER_SPELLINGS = {
    "märz": ("maerz",),
    "januar": ("jänner",),
    "février": ("fevrier",),
    "août": ("aout",),
    "décembre": ("decembre",),
}
_FOREIGN_MONTH_NUMBERS = {
    spelling: number
    for names in _FOREIGN_MONTHS
    for number, name in enumerate(names, 1)
    for spelling in (name.lower(), *_OTHER_SPELLINGS.get(name.lower(), ()))
    if name.lower() not in _MONTHS
}
# spelling -> row of `_FOREIGN_MONTHS`; later entries win: `Mai` is German, `mai` French
_MONTH_LANGUAGES = {
    case(spelling): row
    for case, rows in (
        (
            str.title,
            (
                _POLISH_NOMINATIVE,
                _POLISH,
                _PORTUGUESE,
                _ITALIAN,
                _DUTCH,
                _SPANISH,
                _FRENCH,
                _GERMAN,
            ),
        ),
        (
            str.lower,
            (
                _GERMAN,
                _POLISH_NOMINATIVE,
                _POLISH,
                _PORTUGUESE,
                _ITALIAN,
                _DUTCH,
                _SPANISH,
                _FRENCH,
            ),
        ),
    )
    for row in rows
    for name in _FOREIGN_MONTHS[row]
    for spelling in (name.lower(), *_OTHER_SPELLINGS.get(name.lower(), ()))
    if spelling in _FOREIGN_MONTH_NUMBERS
}


def _match_months(spellings: Iterable[str]) -> str:
    """A pattern for months, with a capital or not. The ASCII word boundary is behind ASCII letters
    only."""
    words = (
        f"[{word[0].upper()}{word[0]}]{word[1:]}{BOUNDARY if word[-1].isascii() else ''}"
        for word in spellings
    )
    return f"(?:{'|'.join(sorted(words, key=len, reverse=True))})"


_FOREIGN_MONTH = _match_months(_FOREIGN_MONTH_NUMBERS)
_MONTH_AFTER_DAY = _match_months(
    spelling
    for spelling in _FOREIGN_MONTH_NUMBERS
    if spelling not in _FOREIGN_MONTHS[_POLISH_NOMINATIVE]
)
_MONTH_BEFORE_YEAR = _match_months(
    spelling for spelling in _FOREIGN_MONTH_NUMBERS if spelling not in ("marca", "maja")
)
_YEAR = "(?:1[6-9]|20)[0-9]{2}"
_MONTH_NUMBER, _DAY_NUMBER = "(?:0[1-9]|1[0-2]|[1-9])", "(?:0[1-9]|[12][0-9]|3[01]|[1-9])"
_ORDINAL_DAY = f"{_DAY_NUMBER}(?:st|nd|rd|th|ST|ND|RD|TH)?"
# a line end, and the quotation marks (`> `) at the start of the next line
_LINE_BREAK = r"[ \t]*\r?\n[> \t]*"
_AM_PM = rf"(?: ?[AaPp](?:[Mm]{BOUNDARY}|[.][Mm](?:[.]|{BOUNDARY})))"
_NAMED_ZONE = "UTC|GMT|[ECMPA][SD]?T|CEST|CET|BST|IST|JST"
_ZONE = (
    rf"(?: ?[+-][0-9]{{2}}:?[0-9]{{2}}{BOUNDARY}(?: [(][A-Z]{{2,5}}[)])?|Z{BOUNDARY}|"
    rf" (?:{_NAMED_ZONE}){BOUNDARY})"
)
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})*"
_TIME = rf"[0-9]{{1,2}}(?:(?:[.][0-9]{{2}})?{_AM_PM}{_ZONE}?|:[0-9]{{2}}(?::[0-9]{{2}})*(?:[.,][0-9]+)?(?:{_AM_PM}{_ZONE}?|{_ZONE}|{BOUNDARY}))"  # noqa: E501
# common parts of the alternatives are factored out where possible: the tables of the regex engine
# contain all of them at once
_NUMERIC_DATE = (
    rf"{_YEAR}(?:-{_MONTH_NUMBER}-|/{_MONTH_NUMBER}/|[.]{_MONTH_NUMBER}[.]){_DAY_NUMBER}|"
    + "|".join(
        rf"(?:{_MONTH_NUMBER}{sep}{_DAY_NUMBER}|{_DAY_NUMBER}{sep}{_MONTH_NUMBER}){sep}{'(?:' + _YEAR + '|[0-9]{2})' if sep == '/' else _YEAR}"  # noqa: E501
        for sep in ("-", "/", "[.]")
    )
)
_MONTH_NAME_DATE = (
    rf"{_MONTH}(?: {{1,2}}{_ORDINAL_DAY}(?: {_CLOCK}(?: (?:{_NAMED_ZONE}))? {_YEAR}|,?"
    rf" {_YEAR}|,{_LINE_BREAK}{_YEAR}|)|"
    rf",? {_YEAR}| ?'[0-9]{{2}}|"
    rf"{_LINE_BREAK}{_DAY_NUMBER}(?:(?:st|nd|rd|th)(?:,? {_YEAR})?|,? {_YEAR}))|"
    # `Nov-01`; not `DEC-10`, which is a computer
    rf"(?:{'|'.join(name[:3].title() for name in _MONTHS)})-[0-9]{{2}}|"
    rf"{_ORDINAL_DAY}(?: of)?[ -]{_MONTH}(?:,?[ -]{_YEAR}|-[0-9]{{2}}|)"
)
_FOREIGN_DATE = (
    rf"{_DAY_NUMBER}(?:[.]|er|[.]?º|°)? (?:de )?{_MONTH_AFTER_DAY}(?: (?:del? )?{_YEAR})?|"
    rf"{_DAY_NUMBER}[.] (?:April|August|September|November) {_YEAR}|"
    rf"{_MONTH_BEFORE_YEAR} (?:del? )?{_YEAR}"
)
# a word before digits that makes them a date, and the forms that need such a word
_DATE_LABEL = (
    r"(?:(?:DOB|dob|BDAY|D[.]O[.]B[.]?|[Bb]orn(?: on)?|BORN|[Bb]irth ?[Dd]a(?:te|y)|[Dd]ate [Oo]f"
    r" [Bb]irth|[Dd]ated?|DATE|"
    r"[Gg]eb[.]|[Gg]eboren(?: am)?|[Gg]eburtsdatum|[Nn]ée? le|[Nn]acid[oa] el|[Nn]acimiento)["
    r" :=(]{1,3})"
)
_LABELLED_DATE = "[0-9]{1,2}(?:-[0-9]{1,2}-|[.][0-9]{1,2}[.])[0-9]{2}|(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"  # noqa: E501
_DOTTED_TIME = r"\b([0-9]{1,2})[.]([0-9]{2} ?[AaPp][.]?[Mm])"  # `9.30 a.m.`
# foreign months first: `mar` is the beginning of `março`, and behind it is an ASCII word boundary
_DATE = (
    rf"(?:{_NUMERIC_DATE}|{_FOREIGN_DATE}|{_MONTH_NAME_DATE})(?:(?:T|,? {{1,2}}(?:at |@"
    rf" ?)?){_TIME}|{BOUNDARY})"
)
_PATTERN = (
    rf"{BOUNDARY}(?:{_DATE_LABEL}(?:{_LABELLED_DATE}){BOUNDARY}|(?:{_WEEKDAY}(?:,?"
    rf" {{1,2}}|,{_LINE_BREAK}))?{_DATE}|"
    rf"{_LONG_WEEKDAY}|{_SHORT_WEEKDAY}|"
    rf"{_TIME}|{_YEAR}(?:年{_MONTH_NUMBER}月(?:{_DAY_NUMBER}日)?|{BOUNDARY}))"
)

_SHORT_MONTH = f"(?:{'|'.join(name[:3] for name in _MONTHS)})"
_YEAR_BEFORE = (
    rf"(?:{BOUNDARY}(?:in|since|during|of|until|till|by|before|after|from|through|between|years?|early|late|mid|circa|ca|spring|summer|fall|"
    rf"autumn|winter|q[1-4]|born|founded|class|fy|copyright|dated?|to|and|a|the|for)["
    rf" ,.:(-]{{0,2}}|[(]c[)] |[12][0-9]{{3}} ?-{{1,2}} ?)\z"
)
# a number that counts something or continues is no year: 2001 shares, 2001.5, 2001:db8::1, 2001-x
_NO_YEAR_AFTER = (
    rf"\A(?: ?%|"
    rf" ?(?:px|[kmgt]i?b|bytes?|bits?|kg|km|m|ft|miles|people|persons|shares|units|times|lines|words|files|mhz|rpm|mw|mwh|volts?|"  # noqa: E501
    rf"hours|days|minutes|seconds|dollars|usd|euros?|points|votes|items|users|calories|jobs|employees|customers|members|copies|tons|"
    rf"barrels){BOUNDARY}|"
    rf" [0-9]{{4}}{BOUNDARY}|[.][0-9]|,[0-9]{{3}}|[:/][0-9a-z]|-(?:[0-9]{{1,3}}|[0-9]{{5,}}){BOUNDARY}|-[a-z]|[@=])"  # noqa: E501
)
_VERSION_BEFORE = (
    r"(?:\A|[^a-z])(?:version|ver[.]?|v|v[.]|release|rel[.]?|rev|revision|build|firmware|kernel|section|chapter|sec[.])["
    r" :=]{0,2}\z"
)
_TIME_BEFORE = (
    rf"(?:{BOUNDARY}(?:at|by|until|till|from|to|around|about|before|after|between|and|time|start(?:s|ing)?|when)["
    r" :]{1,2}|"
    r"@ ?|[0-9] ?- ?)\z"
)


# dates as in mail headers (RFC 5322), the most frequent ones in a mail corpus: parsed by byte
# position
_RFC5322_DATE = (
    rf"\A(?:{'|'.join(name[:3].title() for name in _WEEKDAYS)}), [0-9]{{1,2}}"
    rf" (?:{'|'.join(name[:3].title() for name in _MONTHS)}) {_YEAR} "
    r"[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}(?: [(][A-Z]{2,5}[)])?\z"
)
_MONTH_CODES = np.array(
    [int.from_bytes(name[:3].title().encode(), "big") for name in _MONTHS], np.int64
)


def _rfc5322_date_bytes(values: pl.Series) -> U8:
    """The 26 bytes of each date that `_RFC5322_DATE` matches, from `01 Jan 2001` to the zone."""
    body = values.str.slice(5, 26)
    return to_byte_matrix(
        pl.select(
            pl.when(pl.lit(body.str.slice(1, 1)) == " ")
            .then("0" + pl.lit(body))
            .otherwise(pl.lit(body))
            .str.slice(0, 26)
        ).to_series()
    )


def _read_month(rows: U8) -> I64:
    """The month (1 to 12) of rows of `_rfc5322_date_bytes`."""
    code = rows[:, 3].astype(np.int64) << 16 | rows[:, 4].astype(np.int64) << 8 | rows[:, 5]
    order = np.argsort(_MONTH_CODES)
    return np.asarray(order[np.searchsorted(_MONTH_CODES[order], code)] + 1, np.int64)


def _read_number(rows: U8, start: int, end: int) -> I64:
    """The decimal number in the columns from `start` to before `end`."""
    out = np.zeros(len(rows), np.int64)
    for column in range(start, end):
        out = out * 10 + rows[:, column] - 48
    return out


def _parse(values: pl.Series) -> pl.DataFrame:
    """The fields of each value, one row per value.

    `year`, `month`, `day`, `hour`, `minute`, `second` and `half` of the day (`a`, `p`), null where
    absent; `first` and `other`, the two numbers of a numeric date that ends in its year; `is_iso`,
    `is_numeric` and `is_named` (the form of the date); and `lowered`, the value in lower case.
    """
    values = _to_english(
        values.str.replace_all(_DOTTED_TIME, "${1}:${2}").str.replace_all(_LINE_BREAK, " ")
    )
    lowered = pl.col("value").str.to_lowercase()
    # remove a weekday; applied only where the text begins with one
    plain = lowered.str.replace(r"\A[a-z]+[.]?,? +", "")
    plain = (
        pl.when(lowered.str.contains(rf"\A(?:{'|'.join(name[:3] for name in _WEEKDAYS)})"))
        .then(plain)
        .otherwise(lowered)
    )
    iso = plain.str.extract_groups(
        r"\A([0-9]{4})[-/.年]([0-9]{1,2})[-/.月]([0-9]{1,2})(?:[^0-9]|\z)"
    )
    numeric = plain.str.extract_groups(
        r"\A([0-9]{1,2})[-/.]([0-9]{1,2})[-/.]([0-9]{4}|[0-9]{2})(?:[^0-9]|\z)"
    )
    month = plain.str.extract(rf"\A(?:[0-9]{{1,2}}[a-z]*[ -](?:of )?)?({_SHORT_MONTH})")
    day = pl.coalesce(
        plain.str.extract(r"\A([0-9]{1,2})[a-z]*[ -](?:of )?[a-z]{3}"),
        plain.str.extract(r"\A[a-z]{3,9}[.]? {1,2}([0-9]{1,2})(?:[^0-9:]|\z)"),
    )
    year = pl.coalesce(
        plain.str.extract(r"[ -]([12][0-9]{3})(?:[^0-9:]|\z)"),
        plain.str.extract(r"[a-z][.]?(?:-| ?')([0-9]{2})(?:[^0-9]|\z)"),
    )
    clock = lowered.str.extract_groups(r"(?:\A|[^0-9])([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
    frame = pl.DataFrame({"value": values}).select(
        lowered=lowered,
        iso=iso,
        numeric=numeric,
        month_name=month,
        named_day=pl.when(month.is_not_null()).then(day),
        named_year=pl.when(month.is_not_null()).then(year),
        clock=clock,
        half=lowered.str.extract(r"[0-9] ?([ap])(?:m\b|[.]m)"),
        hour_only=lowered.str.extract(r"(?:\A|[^0-9:])([0-9]{1,2}) ?[ap](?:m\b|[.]m)"),
        year_alone=lowered.str.extract(r"\A([12][0-9]{3})(?:年([0-9]{1,2})月)?\z"),
    )
    month_by_name = {name[:3]: at + 1 for at, name in enumerate(_MONTHS)}
    frame = frame.with_columns(
        is_iso=pl.col("iso").struct.field("1").is_not_null(),
        is_numeric=pl.col("numeric").struct.field("1").is_not_null(),
        is_named=pl.col("month_name").is_not_null(),
    )

    def group(name: str, at: int) -> pl.Expr:
        return pl.col(name).struct.field(str(at)).cast(pl.Int64, strict=False)

    first_number, second_number, third_number = (
        group("numeric", 1),
        group("numeric", 2),
        group("numeric", 3),
    )
    written_year = pl.coalesce(third_number, pl.col("named_year").cast(pl.Int64, strict=False))
    full_year = (
        pl.when(written_year < 69)
        .then(written_year + 2000)
        .when(written_year < 100)
        .then(written_year + 1900)
        .otherwise(written_year)
    )
    # in a numeric date, the number that is no month is the day; where both can be the month, the
    # date is ambiguous
    is_unambiguous = pl.col("is_numeric") & (
        (first_number > 12) | (second_number > 12) | (first_number == second_number)
    )
    return frame.select(
        "lowered",
        "is_iso",
        "is_numeric",
        "is_named",
        first=first_number,
        other=second_number,
        year=pl.coalesce(
            group("iso", 1), full_year, pl.col("year_alone").cast(pl.Int64, strict=False)
        ),
        month=pl.coalesce(
            group("iso", 2),
            pl.when(is_unambiguous & (first_number > 12))
            .then(second_number)
            .when(is_unambiguous)
            .then(first_number),
            pl.col("month_name").replace_strict(month_by_name, default=None, return_dtype=pl.Int64),
        ),
        day=pl.coalesce(
            group("iso", 3),
            pl.when(is_unambiguous & (first_number > 12))
            .then(first_number)
            .when(is_unambiguous)
            .then(second_number),
            pl.col("named_day").cast(pl.Int64, strict=False),
        ),
        hour=pl.coalesce(group("clock", 1), pl.col("hour_only").cast(pl.Int64, strict=False)),
        minute=group("clock", 2),
        second=group("clock", 3),
        half=pl.col("half"),
    )


def _to_english(values: pl.Series) -> pl.Series:
    """The values with foreign month names replaced by English ones, and `20010514` written as
    `2001-05-14`."""
    rows = values.str.contains(rf"{_FOREIGN_MONTH}|[0-9][.] [A-Z]|\A[0-9]{{8}}\z").arg_true()
    if not len(rows):
        return values
    plain = values.gather(rows).str.to_lowercase()
    parts = plain.str.extract_groups(
        r"\A(?:([0-9]{1,2})(?:[.]|er|[.]?º|°)? (?:de )?)?([^ ,0-9]+)(?: del? )?([\s\S]*)\z"
    ).struct.unnest()
    month = parts.to_series(1).replace(
        {word: _MONTHS[number - 1] for word, number in _FOREIGN_MONTH_NUMBERS.items()}
    )
    day, rest = parts.to_series(0), parts.to_series(2).str.strip_chars_start(" ")
    translated = pl.select(
        pl.when(pl.lit(month).is_null())
        .then(pl.lit(plain.str.replace(r"\A([0-9]{4})([0-9]{2})([0-9]{2})\z", "${1}-${2}-${3}")))
        .otherwise(
            pl.concat_str(
                pl.lit(day).fill_null(""), pl.lit(month), pl.lit(rest), separator=" "
            ).str.strip_chars()
        )
    ).to_series()
    return values.clone().scatter(rows, translated)


def _is_leap_year(year: Any) -> Any:
    """Whether years, an array or an expression, have a 29 February."""
    return (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))


def _check(values: pl.Series) -> pl.Series:
    """`date` for an impossible day or month, `time` for an impossible time, `word` for `may 5` in
    lower case; else null."""
    mail = values.str.contains(_RFC5322_DATE)
    if mail.any():
        rows = _rfc5322_date_bytes(values.filter(mail))
        month, year = _read_month(rows), _read_number(rows, 7, 11)
        last_days = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[month - 1]
        last_days += (month == 2) & _is_leap_year(year)
        day = _read_number(rows, 0, 2)
        too_late = (
            (_read_number(rows, 12, 14) > 24)
            | (_read_number(rows, 15, 17) > 59)
            | (_read_number(rows, 18, 20) > 60)
        )
        reasons = np.where((day < 1) | (day > last_days), "date", np.where(too_late, "time", ""))
        out = pl.Series(values.name, [None], dtype=pl.String).new_from_index(0, len(values))
        out = out.scatter(mail.arg_true(), pl.Series(reasons).replace("", None))
        return (
            out.scatter((~mail).arg_true(), _check(values.filter(~mail))) if not mail.all() else out
        )
    parsed = _parse(values)
    last_day = pl.col("month").replace_strict(
        {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}, default=31, return_dtype=pl.Int64
    )
    is_impossible_date = (
        (pl.col("month") > 12)
        | (pl.col("month") < 1)
        | (pl.col("day") > last_day)
        | (pl.col("day") < 1)
        | (
            (pl.col("month") == 2)
            & (pl.col("day") == 29)
            & pl.col("year").is_not_null()
            & ~_is_leap_year(pl.col("year"))
        )
        | (
            pl.col("is_numeric")
            & (
                (pl.min_horizontal("first", "other") > 12)
                | (pl.min_horizontal("first", "other") < 1)
            )
        )
    )
    is_impossible_time = (
        (pl.col("hour") > 24)
        | (pl.col("minute") > 59)
        | (pl.col("second") > 60)
        | (pl.col("half").is_not_null() & (pl.col("hour") > 12))
    )
    is_impossible_time |= pl.col("lowered").str.contains("[0-9]:[0-9]{2}:[0-9]{2}:[0-9]{2}")
    is_plain_word = pl.lit(
        values.str.contains(
            rf"\A(?:may|mar|dec|sun|sat)[ ]{{1,2}}{_ORDINAL_DAY}\z|\A{_ORDINAL_DAY}"
            r" (?:may|mar|dec|march)\z|"
            r"\A[0-9]+(?:er)? [Mm]ar(?:s|ca)\z"
        )
    )
    return parsed.select(
        pl.when(is_impossible_date.fill_null(False))
        .then(pl.lit("date"))
        .when(is_impossible_time.fill_null(False))
        .then(pl.lit("time"))
        .when(is_plain_word)
        .then(pl.lit("word"))
    ).to_series()


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for what the pattern matches from end to end, with or without the word that makes it a
    date."""
    return candidates["value"].str.contains(rf"\A(?:{_PATTERN}|{_LABELLED_DATE})\z")


def _needs_context(values: pl.Series) -> pl.Series:
    """True for bare years, short weekdays, `3:16` without am, pm or zone, dotted dates that may be
    the beginning of a longer dotted number, and forms that only a word before them makes a date."""
    return values.str.contains(
        rf"\A(?:{_YEAR}|{_SHORT_WEEKDAY}|[0-9]:[0-9]{{2}}|[0-9]+[.][0-9]+[.][0-9]+|{_LABELLED_DATE})\z"
    )


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """True where the context makes the value a date, weekday, time or year; one rule for each form
    of `_needs_context`."""
    before, after = pl.col("before").str.to_lowercase(), pl.col("after").str.to_lowercase()
    year = (before.str.contains(_YEAR_BEFORE) & ~after.str.contains(_NO_YEAR_AFTER)) | (
        before.str.contains(r"[(] ?\z|[a-z], \z") & after.str.contains(r"\A[)]")
    )
    value = pl.col("value")
    return candidates.select(
        pl.when(value.str.contains(rf"\A(?:{_LABELLED_DATE})\z"))
        .then(
            pl.col("spelled").str.contains(rf"(?:\A|[^A-Za-z]){_DATE_LABEL}\z")
            & ~after.str.contains(r"\A[.-][0-9]")
        )
        .when(value.str.contains(r"\A[A-Z]"))
        .then(
            before.str.contains(
                rf"{BOUNDARY}(?:on|by|until|till|this|next|last|every|through|thru|before|after|early|late) \z"  # noqa: E501
            )
        )
        .when(value.str.contains(":", literal=True))
        .then(before.str.contains(_TIME_BEFORE))
        .when(value.str.contains(".", literal=True))
        .then(~after.str.contains(r"\A[.][0-9]") & ~before.str.contains(_VERSION_BEFORE))
        .otherwise(year)
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    """ISO 8601 where the spelling is unambiguous, else the text in lower case; dates of mail
    headers take a fast path."""
    mail = values.str.contains(_RFC5322_DATE)
    if not mail.any():
        return _normalise_parsed(values)
    rows = _rfc5322_date_bytes(values.filter(mail))
    month = _read_month(rows)
    normalised = np.full((len(rows), 24), ord("-"), np.uint8)
    normalised[:, 0:4], normalised[:, 5], normalised[:, 6], normalised[:, 8:10] = (
        rows[:, 7:11],
        48 + month // 10,
        48 + month % 10,
        rows[:, 0:2],
    )
    normalised[:, 10], normalised[:, 11:19], normalised[:, 19:24] = (
        ord("T"),
        rows[:, 12:20],
        rows[:, 21:26],
    )
    out = values.clone().scatter(mail.arg_true(), from_byte_matrix(normalised))
    return (
        out.scatter((~mail).arg_true(), _normalise_parsed(values.filter(~mail)))
        if not mail.all()
        else out
    )


def _normalise_parsed(values: pl.Series) -> pl.Series:
    """The general path of `_normalise`, through `_parse`."""

    def two_digits(name: str) -> pl.Expr:
        return pl.col(name).cast(pl.String).str.zfill(2)

    hour = (
        pl.when(pl.col("half") == "p")
        .then(pl.col("hour") % 12 + 12)
        .when(pl.col("half") == "a")
        .then(pl.col("hour") % 12)
        .otherwise("hour")
    )
    zone = pl.col("lowered").str.extract(
        r"[0-9](?: ?[ap][.]?m[.]?)?"
        r" ?([+-][0-9]{2}:?[0-9]{2}|z|utc|gmt|[ecmpa][sd]?t|cest|cet|bst|ist|jst)"
        r"(?: [(][a-z]+[)])?(?: [12][0-9]{3})?\z"
    )
    fraction = pl.col("lowered").str.extract(r":[0-9]{2}([.,][0-9]+)")
    clock = pl.concat_str(
        pl.lit("T"),
        hour.cast(pl.String).str.zfill(2),
        pl.lit(":"),
        two_digits("minute").fill_null("00"),
        (":" + two_digits("second")).fill_null(""),
        fraction.fill_null("").str.replace(",", ".", literal=True),
        pl.when(pl.col("lowered").str.contains(r"[0-9][-+][0-9]{2}:?[0-9]{2}|:"))
        .then(zone.str.to_uppercase().str.replace(":", ""))
        .fill_null(""),
    )
    date = pl.concat_str(
        pl.col("year").cast(pl.String).str.zfill(4),
        pl.lit("-"),
        two_digits("month"),
        pl.lit("-"),
        two_digits("day"),
    )
    full = pl.all_horizontal(pl.col("year", "month", "day").is_not_null())
    text = pl.col("lowered").str.replace_all(" +", " ")
    normalised = _parse(values).select(
        pl.when(full)
        .then(date + pl.when(pl.col("hour").is_not_null()).then(clock).otherwise(pl.lit("")))
        .otherwise(text)
    )
    return normalised.to_series().alias(values.name)


@dataclass(frozen=True)
class _DrawnParts:
    """A number for each value and each part of it. `weekday` is also the second number of a date of
    which both may be the month."""

    year: I64
    day: I64
    month: I64
    weekday: I64
    hour: I64
    minute: I64
    second: I64


@dataclass(frozen=True)
class _MovedDates:
    """Dates with other numbers in the same spelling: the text of each, and the month and day that
    it now has."""

    text: pl.Series
    month: I64
    day: I64


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Other dates in the same spelling, up to fifteen years away, on a day from 1 to 28; other
    times of day.

    Widths, letter case and zone are kept. A weekday is that of the new date, where the date has a
    year; else it is drawn.
    """
    # two spellings without a separator that the others have: `20010514` and `4.39 pm`
    compact = values.str.contains(r"\A[0-9]{8}\z")
    if compact.any():
        values = values.str.replace(r"\A([0-9]{4})([0-9]{2})([0-9]{2})\z", "${1}-${2}-${3}")
    dotted = values.str.contains(_DOTTED_TIME)
    if dotted.any():
        values = values.str.replace_all(_DOTTED_TIME, "${1}:${2}")
    surrogates = _redraw_dates(
        values, _DrawnParts(*(draw_indices(draws, lane, 1 << 20) for lane in range(7)))
    ).alias(values.name)
    if dotted.any():
        with_dots = surrogates.filter(dotted).str.replace(
            r"([0-9]):([0-9]{2} ?[AaPp][.]?[Mm])", "${1}.${2}"
        )
        surrogates = surrogates.scatter(dotted.arg_true(), with_dots)
    if compact.any():
        surrogates = surrogates.scatter(
            compact.arg_true(), surrogates.filter(compact).str.replace_all("-", "", literal=True)
        )
    return surrogates


def _redraw_dates(values: pl.Series, drawn: _DrawnParts) -> pl.Series:
    """`_make_surrogates` of values in their usual spelling."""
    parsed = _parse(values)
    year = _move_year(parsed["year"].fill_null(2000).to_numpy().astype(np.int64), drawn.year)
    pieces = values.str.extract_groups(rf"\A((?:{_WEEKDAY})?[.]?,? *)([\s\S]*)\z").struct.unnest()
    weekday_text, rest = pieces.to_series(0).fill_null(""), pieces.to_series(1)
    has_numbers = (parsed["is_iso"] | parsed["is_numeric"]).to_numpy()
    has_month_name = parsed["is_named"].to_numpy()
    numeric, named = (
        _move_numeric_dates(rest, parsed, year, drawn),
        _move_named_dates(rest, year, drawn),
    )
    month, day = (
        np.where(has_month_name, named.month, numeric.month),
        np.where(has_month_name, named.day, numeric.day),
    )
    is_bare_year = rest.str.contains(rf"\A{_YEAR}(?:\z|年)") & ~parsed["is_iso"]
    body = pl.select(
        pl.when(pl.lit(pl.Series(has_numbers)))
        .then(pl.lit(numeric.text))
        .when(pl.lit(pl.Series(has_month_name)))
        .then(pl.lit(named.text))
        .when(pl.lit(is_bare_year))
        .then(pl.concat_str(pl.lit(pl.Series(year).cast(pl.String)), pl.lit(rest.str.slice(4))))
        .otherwise(pl.lit(rest))
    ).to_series()
    is_full_date = parsed["year"].is_not_null().to_numpy() & (has_numbers | has_month_name)
    weekday = np.where(is_full_date, _weekday_number(year, month, day), drawn.weekday % 7)
    weekday = np.where(
        values.is_in(_SHORT_DAYS).to_numpy(), drawn.weekday % len(_SHORT_DAYS), weekday
    )
    date = pl.select(
        pl.concat_str(pl.lit(_format_name(weekday + 1, weekday_text, _WEEKDAYS)), pl.lit(body))
    ).to_series()
    return _redraw_time(date, drawn)


def _move_year(year: I64, bits: I64) -> I64:
    """Another year, up to fifteen away, from 1600 to 2099 if the original is."""
    offset = bits % 31 - 15
    moved = year + np.where(offset == 0, 1, offset)
    return np.where(moved > 2099, moved - 30, np.where(moved < 1600, moved + 30, moved))


def _move_numeric_dates(
    dates: pl.Series, parsed: pl.DataFrame, year: I64, drawn: _DrawnParts
) -> _MovedDates:
    """Dates in three numbers, with the order and widths of these kept. Where the numbers do not say
    which one is the day, both are drawn from 1 to 12, so that the result is as ambiguous as the
    original."""
    groups = (
        dates.str.extract_groups(r"\A([0-9]+)([-/.年])([0-9]+)([-/.月])([0-9]+)([\s\S]*)\z")
        .struct.unnest()
        .fill_null("")
    )
    first, separator, second, other_separator, third, tail = (
        groups.to_series(at) for at in range(6)
    )
    first_number, second_number = (
        parsed[name].fill_null(0).to_numpy() for name in ("first", "other")
    )
    starts_with_year = first.str.len_bytes().to_numpy() == 4
    starts_with_day = (first_number > 12) & ~starts_with_year
    is_ambiguous = parsed["is_numeric"].to_numpy() & (first_number <= 12) & (second_number <= 12)
    month, day = np.ones(len(dates), np.int64), np.ones(len(dates), np.int64)
    numbers: list[pl.Series] = []
    for place, original in enumerate((first, second, third)):
        is_year = starts_with_year if place == 0 else ~starts_with_year & (place == 2)
        is_day = np.where(
            starts_with_year, place == 2, np.where(starts_with_day, place == 0, place == 1)
        )
        width, padded = (
            original.str.len_bytes().to_numpy(),
            original.str.starts_with("0").to_numpy(),
        )
        as_day, as_month = (
            _number_of_width(drawn.day, width, padded, 28),
            _number_of_width(drawn.weekday if place == 1 else drawn.month, width, padded, 12),
        )
        number = np.where(is_day & ~is_ambiguous, as_day, as_month)
        month, day = (
            np.where(~is_year & ~is_day, number, month),
            np.where(~is_year & is_day, number, day),
        )
        numbers.append(
            _format_number(np.where(is_year, np.where(width == 2, year % 100, year), number), width)
        )
    pieces = (numbers[0], separator, numbers[1], other_separator, numbers[2], tail)
    return _MovedDates(pl.select(pl.concat_str(*map(pl.lit, pieces))).to_series(), month, day)


def _move_named_dates(dates: pl.Series, year: I64, drawn: _DrawnParts) -> _MovedDates:
    """Dates with the name of a month, and day and year in any order: `14 May 2001`, `May 14th,
    2001`, `May 2001`, `14 May`."""
    name_between_numbers = (
        rf"\A(\D*?)([0-9]{{0,2}}?)([^0-9]*?)({_FOREIGN_MONTH}|{_MONTH})([^0-9]*)([0-9]*)([\s\S]*)\z"
    )
    groups = dates.str.extract_groups(name_between_numbers).struct.unnest().fill_null("")
    text_before, number_before, gap_before, name, gap_after, number_after, text_after = (
        groups.to_series(at) for at in range(7)
    )
    width_before, width_after = (
        number.str.len_bytes().to_numpy() for number in (number_before, number_after)
    )
    padded_before, padded_after = (
        number.str.starts_with("0").to_numpy() for number in (number_before, number_after)
    )
    month = drawn.month % 12 + 1
    day_before = np.where(
        width_before > 0, _number_of_width(drawn.day, width_before, padded_before, 28), 0
    )
    day_after = _number_of_width(drawn.day, np.minimum(width_after, 2), padded_after, 28)
    ends_with_year = (width_after == 4) | (width_before > 0)
    new_after = np.where(ends_with_year, np.where(width_after == 4, year, year % 100), day_after)
    gap_before = _replace_ordinal(gap_before, day_before)
    # the year of `May 14, 2001` is in the text after the number; \x01 stands for it, since a
    # replacement is one text for all rows
    marked = _replace_ordinal(text_after, day_after).str.replace(
        r"([ ,-])[12][0-9]{3}(\z|[^0-9:])", "${1}\x01${2}"
    )
    new_text_after = pl.select(
        pl.lit(marked).str.replace("\x01", pl.lit(pl.Series(year).cast(pl.String)), literal=True)
    ).to_series()
    pieces = (
        text_before,
        _format_number(day_before, width_before),
        gap_before,
        _format_month(month, name, gap_before),
        gap_after,
        _format_number(new_after, width_after),
        new_text_after,
    )
    day = np.where(width_before > 0, day_before, np.where(width_after <= 2, day_after, 1))
    return _MovedDates(pl.select(pl.concat_str(*map(pl.lit, pieces))).to_series(), month, day)


def _number_of_width(
    bits: I64, width: I64, padded: np.typing.NDArray[np.bool_], maximum: int
) -> I64:
    """A number up to `maximum` with as many digits as the one it replaces (`width`; `padded`: with
    a leading zero)."""
    one_digit, two_digits = bits % 9 + 1, 10 + bits % (maximum - 9)
    return np.where(width <= 1, one_digit, np.where(padded, bits % maximum + 1, two_digits))


def _replace_ordinal(text_after: pl.Series, day: I64) -> pl.Series:
    """The text after a day, with its ordinal ending (`st`, `nd`, `rd`, `th`, in its letter case)
    replaced by that of the new day."""
    ending_text = text_after.str.extract(r"\A(st|nd|rd|th|ST|ND|RD|TH)(?:[^A-Za-z]|\z)")
    ending = np.where(day // 10 == 1, 0, np.where(day % 10 < 4, day % 10, 0))
    lower_case_ending = pl.Series(
        np.array(["th", "st", "nd", "rd"], object)[ending], dtype=pl.String
    )
    new_ending = pl.select(
        pl.when(ending_text == ending_text.str.to_uppercase())
        .then(lower_case_ending.str.to_uppercase())
        .otherwise(lower_case_ending)
    ).to_series()
    return pl.select(
        pl.when(ending_text.is_not_null())
        .then(pl.lit(new_ending) + pl.lit(text_after.str.slice(2)))
        .otherwise(pl.lit(text_after))
    ).to_series()


def _format_number(numbers: I64, width: I64) -> pl.Series:
    """Numbers as text: empty at width 0, padded to two digits at width 2, else as they are."""
    text = pl.Series(numbers).cast(pl.String)
    return pl.select(
        pl.when(pl.lit(pl.Series(width)) == 0)
        .then(pl.lit(""))
        .when(pl.lit(pl.Series(width)) == 2)
        .then(pl.lit(text.str.zfill(2)))
        .otherwise(pl.lit(text))
    ).to_series()


def _format_name(numbers: I64, like: pl.Series, names: tuple[str, ...]) -> pl.Series:
    """The name of each month or weekday (1 is the first), abbreviated and in the letter case as the
    text it replaces (`like`)."""
    letters = like.str.extract(r"\A([A-Za-z]*)").fill_null("")
    full = pl.Series(names).gather(numbers - 1)
    frame = pl.DataFrame(
        {"like": letters, "full": full, "rest": like.str.replace(r"\A[A-Za-z]*", "")}
    )
    text = (
        pl.when(pl.col("like").str.len_bytes() <= 4)
        .then(pl.col("full").str.slice(0, 3))
        .otherwise("full")
    )
    text = (
        pl.when(pl.col("like") == "")
        .then(pl.lit(""))
        .when(pl.col("like") == pl.col("like").str.to_uppercase())
        .then(text.str.to_uppercase())
        .when(pl.col("like") == pl.col("like").str.to_lowercase())
        .then(text)
        .otherwise(text.str.to_titlecase())
    )
    return frame.select(text + pl.col("rest")).to_series()


def _format_month(numbers: I64, like: pl.Series, gap_before: pl.Series) -> pl.Series:
    """The name of each month in the language of the text it replaces; `gap_before` is the text
    between the day and the month.

    Months that are spelled as in English, `mars`, `marca` and `maja` are not used: without a day or
    a year they would not be found again.
    """
    listed = pl.lit(like.replace_strict(_MONTH_LANGUAGES, default=None, return_dtype=pl.Int64))
    gap, spelling = pl.lit(gap_before), pl.lit(like.str.to_lowercase())
    language = pl.select(
        pl.when(gap.str.starts_with(". ") & listed.is_null())
        .then(_GERMAN)
        # Spanish and Italian months of one spelling: Spanish dates have `de`
        .when(spelling.is_in(["marzo", "agosto"]) & gap.str.contains(r"\A[°º]? \z"))
        .then(_ITALIAN)
        .otherwise(listed)
    ).to_series()
    formatted = _format_name(numbers, like, _MONTHS)
    for number, names in enumerate(_FOREIGN_MONTHS):
        rows = (language == number).fill_null(False).arg_true()
        own = np.array(
            [
                name
                for name in names
                if name.lower() not in _MONTHS and name not in ("mars", "marca", "maja")
            ],
            object,
        )
        new = pl.Series(own[numbers[rows.to_numpy()] % len(own)], dtype=pl.String)
        capital = like.gather(rows).str.contains(r"\A\p{Lu}")
        first = (
            pl.when(pl.lit(capital))
            .then(pl.lit(new.str.slice(0, 1).str.to_uppercase()))
            .otherwise(pl.lit(new.str.slice(0, 1).str.to_lowercase()))
        )
        formatted = (
            formatted.scatter(rows, pl.select(first + pl.lit(new.str.slice(1))).to_series())
            if len(rows)
            else formatted
        )
    return formatted


def _weekday_number(year: I64, month: I64, day: I64) -> I64:
    """The weekday of dates, 0 for Monday (Sakamoto's rule for the Gregorian calendar)."""
    shift = np.array([0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4])[np.clip(month, 1, 12) - 1]
    year = year - (month < 3)
    sunday: I64 = (year + year // 4 - year // 100 + year // 400 + shift + day) % 7
    return (sunday + 6) % 7


def _redraw_time(values: pl.Series, drawn: _DrawnParts) -> pl.Series:
    """The values with hours, minutes and seconds redrawn in the same widths; values without a time
    are unchanged."""
    is_twelve_hour = values.str.contains(r"[0-9] ?[AaPp][.]?[Mm]").to_numpy()
    parts = values.str.extract_groups(
        r"\A((?:[\s\S]*?[^0-9])?)([0-9]{1,2}):([0-9]{2})((?::[0-9]{2})?)([\s\S]*)\z"
    ).struct.unnest()
    has_clock = parts.to_series(1).is_not_null().to_numpy()
    text_before, hour, _, second, text_after = (
        parts.to_series(at).fill_null("") for at in range(5)
    )
    width, padded = (
        hour.str.len_bytes().to_numpy().astype(np.int64),
        hour.str.starts_with("0").to_numpy(),
    )
    drawn_hour = np.where(
        is_twelve_hour,
        _number_of_width(drawn.hour, width, padded, 12),
        _number_of_width(drawn.hour, width, padded, 23),
    )
    seconds = pl.select(
        pl.when(pl.lit(second) == "")
        .then(pl.lit(""))
        .otherwise(":" + pl.lit(pl.Series(drawn.second % 60).cast(pl.String).str.zfill(2)))
    ).to_series()
    minutes = pl.Series(drawn.minute % 60).cast(pl.String).str.zfill(2)
    clock = pl.select(
        pl.concat_str(
            *(
                pl.lit(column)
                for column in (
                    text_before,
                    _format_number(drawn_hour, width),
                    pl.Series([":"] * len(values), dtype=pl.String),
                    minutes,
                    seconds,
                    text_after,
                )
            )
        )
    ).to_series()
    hour_groups = values.str.extract_groups(
        r"\A((?:[\s\S]*?[^0-9:])?)([0-9]{1,2})( ?[AaPp][.]?[Mm][\s\S]*)\z"
    ).struct.unnest()
    is_hour_alone = hour_groups.to_series(1).is_not_null().to_numpy() & ~has_clock
    text_before, number, text_after = (hour_groups.to_series(at).fill_null("") for at in range(3))
    width, padded = (
        number.str.len_bytes().to_numpy().astype(np.int64),
        number.str.starts_with("0").to_numpy(),
    )
    hours = pl.select(
        pl.concat_str(
            pl.lit(text_before),
            pl.lit(_format_number(_number_of_width(drawn.hour, width, padded, 12), width)),
            pl.lit(text_after),
        )
    ).to_series()
    return pl.select(
        pl.when(pl.lit(pl.Series(has_clock)))
        .then(pl.lit(clock))
        .when(pl.lit(pl.Series(is_hour_alone)))
        .then(pl.lit(hours))
        .otherwise(pl.lit(values))
    ).to_series()


KIND = Kind(
    name="DATE_TIME",
    about="a date, a time of day, a weekday, or a year that the context marks as one",
    category="time",
    field_names=tuple(
        (
            "date|dates|time|times|timestamp|timestamps|datetime|date time|created|"
            "created at|updated|updated at|modified|modified at|year|month|day|datum|"
            "fecha|data|日期|日付|"
            "submitted at|posted at|published|published at|opened at|closed at|merged at|"
            "resolved at|started at|ended at|deleted at|sent at|received at|joined|joined at|"
            "last login|last seen|modified on|created on|updated on"
        ).split("|")
    ),
    aliases=(
        "DATE",
        "TIME",
        "DOB",
        "DATEOFBIRTH",
    ),
    pattern=_PATTERN,
    prefix_pattern=_DATE_LABEL,
    accepts=_accepts,
    check=_check,
    needs_context=_needs_context,
    context_rule=_has_context,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    not_preceded_by=ASCII_WORD_CHARS + b":.",
    not_followed_by=ASCII_WORD_CHARS,
    ambiguous_text=True,
    phase=3,
    opt_in=True,
    rank=57,
    first_bytes=DIGITS + LETTERS,
    hits=(
        ("on 2001-05-14 16:39:00", "2001-05-14 16:39:00"),
        ("Mon, 14 May 2001 16:39:00 -0700 (PDT)", "Mon, 14 May 2001 16:39:00 -0700 (PDT)"),
        ("14.05.2001 or 5/14/2001", "14.05.2001", "5/14/2001"),
        ("May 14, 2001; 14. Mai 1985", "May 14, 2001", "14. Mai 1985"),
        ("14 de mayo de 1985", "14 de mayo de 1985"),
        ("14 maggio 1985, 1º de março de 2001", "14 maggio 1985", "1º de março de 2001"),
        (
            "3 mei 1985, 5 października 2001, styczeń 2001",
            "3 mei 1985",
            "5 października 2001",
            "styczeń 2001",
        ),
        ("at 10:30 on Tuesday", "10:30", "Tuesday"),
        ("in 1999", "1999"),
    ),
    near_misses=(
        "version 1.2.2001",
        "2001",
        "30 February 2001, 2001-13-01",
        "may, march on",
        "2 marca, marca 2001, Maja 2001, Marco 2001",
    ),
)
