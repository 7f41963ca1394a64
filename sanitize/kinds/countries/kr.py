"""South Korea: resident registration numbers: date of birth, a digit for century and sex, and a check digit, which numbers given out since
October 2020 no longer have."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, Bools, is_date, number, two, values_of, weighted, words
from sanitize.kinds.kind import U8


def _sound(rows: U8) -> Bools:
    value = values_of(rows)
    year = np.where(np.isin(value[:, 6], (1, 2, 5, 6)), 1900, 2000) + two(rows, 0)
    born = is_date(year, two(rows, 2), two(rows, 4))
    fits = (11 - weighted(rows, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10 == value[:, 12]
    good: Bools = born & (fits | (year * 100 + two(rows, 2) >= 202_010))
    return good


KINDS = (
    number(
        name="KR_RRN",
        about="a South Korean resident registration number",
        country="KR",
        alone="[0-9]{6}-[1-8][0-9]{6}",
        behind="[0-9]{6}[1-8][0-9]{6}",
        named=words("RRN", "주민등록번호", "주민번호"),
        sound=_sound,
        alphabets=[DIGITS, DIGITS, b"01", DIGITS, b"0123", DIGITS, b"12", *[DIGITS] * 6],
        tail=1,
    ),
)
