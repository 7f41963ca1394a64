"""Sweden: personal identity numbers, and coordination numbers (their day is 60 more): date of birth and a check digit (Luhn over the
last ten digits). Identity: these ten."""

from __future__ import annotations

import numpy as np
import polars

from sanitize.kinds.countries.national_id import DIGITS, Bools, is_date, luhn, number, two, words
from sanitize.kinds.kind import U8


def _sound(rows: U8) -> Bools:
    day = two(rows, 4)
    year = 1900 + two(rows, 0)
    leap = (two(rows, 2) == 2) & (day % 60 == 29) & (two(rows, 0) % 4 == 0)  # 1900 was none, 2000 is
    born = is_date(year, two(rows, 2), np.where(day > 60, day - 60, day)) | leap
    good: Bools = born & luhn(rows)
    return good


def _last_ten(plain: polars.Series) -> polars.Series:
    return plain.str.tail(10)


_YEAR = "(?:18|19|20)?"
KINDS = (
    number(
        name="SE_PERSONNUMMER",
        about="a Swedish personal identity number",
        country="SE",
        alone=rf"{_YEAR}[0-9]{{2}}[01][0-9]{{3}}[-+][0-9]{{4}}",
        behind=rf"{_YEAR}[0-9]{{2}}[01][0-9]{{7}}",
        named=words("Personnummer", "Personnr", "Pers.nr", "Samordningsnummer"),
        sound=_sound,
        alphabets=[DIGITS, DIGITS, b"01", DIGITS, b"0123", *[DIGITS] * 5],
        separators=b"+-",
        shorten=_last_ten,
        tail=1,
    ),
)
