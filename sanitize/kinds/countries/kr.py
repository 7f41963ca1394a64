"""South Korea: resident registration numbers: date of birth, a digit for century and sex, and a
check digit, which numbers assigned since October 2020 no longer have."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import (
    character_values,
    is_date,
    make_national_id,
    two_digits,
    weighted_sum,
)
from sanitize.kinds.kind import BEYOND_ASCII, DIGITS


def _is_valid(rows: U8) -> Mask:
    value = character_values(rows)
    year = np.where(np.isin(value[:, 6], (1, 2, 5, 6)), 1900, 2000) + two_digits(rows, 0)
    born = is_date(year, two_digits(rows, 2), two_digits(rows, 4))
    fits = (11 - weighted_sum(rows, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10 == value[:, 12]
    good: Mask = born & (fits | (year * 100 + two_digits(rows, 2) >= 202_010))
    return good


KINDS = (
    make_national_id(
        name="KR_RRN",
        about="a South Korean resident registration number",
        country="KR",
        bare_pattern="[0-9]{6}-[1-8][0-9]{6}",
        labelled_pattern="[0-9]{6}[1-8][0-9]{6}",
        labels=("RRN", "주민등록번호", "주민번호"),
        is_valid=_is_valid,
        alphabets=[DIGITS, DIGITS, b"01", DIGITS, b"0123", DIGITS, b"12", *[DIGITS] * 6],
        check_length=1,
        first_bytes=DIGITS + b"Rr" + BEYOND_ASCII,
        hits=(
            ("900101-1234568", "900101-1234568"),
            ("RRN 9001011234568", "9001011234568"),
        ),
        near_misses=(
            "900101-1234567",
            "901301-1234568",
        ),
    ),
)
