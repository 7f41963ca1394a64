"""Sweden: personal identity numbers, and coordination numbers (60 is added to the day): date of
birth and a check digit (Luhn over the last ten digits). Normalised form: these ten digits."""

from __future__ import annotations

import numpy as np
import polars

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import (
    is_date,
    make_national_id,
    passes_luhn,
    two_digits,
)
from sanitize.kinds.kind import DIGITS


def _is_valid(rows: U8) -> Mask:
    day = two_digits(rows, 4)
    year = 1900 + two_digits(rows, 0)
    # year 00: 1900 was no leap year, 2000 is
    leap = (two_digits(rows, 2) == 2) & (day % 60 == 29) & (two_digits(rows, 0) % 4 == 0)
    born = is_date(year, two_digits(rows, 2), np.where(day > 60, day - 60, day)) | leap
    good: Mask = born & passes_luhn(rows)
    return good


def _last_ten(plain: polars.Series) -> polars.Series:
    return plain.str.tail(10)


_CENTURY = "(?:18|19|20)?"
KINDS = (
    make_national_id(
        name="SE_PERSONNUMMER",
        about="a Swedish personal identity number",
        country="SE",
        bare_pattern=rf"{_CENTURY}[0-9]{{2}}[01][0-9]{{3}}[-+][0-9]{{4}}",
        labelled_pattern=rf"{_CENTURY}[0-9]{{2}}[01][0-9]{{7}}",
        labels=("Personnummer", "Personnr", "Pers.nr", "Samordningsnummer"),
        is_valid=_is_valid,
        alphabets=[DIGITS, DIGITS, b"01", DIGITS, b"0123", *[DIGITS] * 5],
        separators=b"+-",
        shorten=_last_ten,
        check_length=1,
        first_bytes=DIGITS + b"PSps",
        hits=(
            ("811228-9874", "811228-9874"),
            ("19811228-9874", "19811228-9874"),
            ("personnummer 8112289874", "8112289874"),
        ),
        near_misses=(
            "811228-9875",
            "811328-9874",
            "8112289874",
        ),
    ),
)
