"""Poland: PESEL, which contains the date of birth (20 is added to the month from the year 2000 on)
and a check digit."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import is_date, make_national_id, two_digits, weighted_sum
from sanitize.kinds.kind import DIGITS


def _is_valid(rows: U8) -> Mask:
    month, late = two_digits(rows, 2), two_digits(rows, 2) > 20
    born = is_date(
        np.where(late, 2000, 1900) + two_digits(rows, 0), month - 20 * late, two_digits(rows, 4)
    )
    good: Mask = born & (weighted_sum(rows, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0)
    return good


KINDS = (
    make_national_id(
        name="PL_PESEL",
        about="a Polish identity number",
        country="PL",
        bare_pattern="[0-9]{2}[0-3][0-9][0-3][0-9]{6}",
        further_labels=("PESEL",),
        is_valid=_is_valid,
        alphabets=[DIGITS, DIGITS, b"0123", DIGITS, b"0123", *[DIGITS] * 6],
        check_length=1,
        first_bytes=DIGITS,
        hits=(("44051401359", "44051401359"),),
        near_misses=(
            "44051401358",
            "44151401359",
        ),
    ),
)
