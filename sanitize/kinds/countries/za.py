"""South Africa: identity numbers: date of birth, four digits that include the sex, citizenship, and
a check digit (Luhn)."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import (
    STRONG_CHECK_RANK,
    is_date,
    make_national_id,
    passes_luhn,
    two_digits,
)
from sanitize.kinds.kind import DIGITS


def _is_valid(rows: U8) -> Mask:
    born = is_date(
        np.where(two_digits(rows, 0) == 0, 2000, 1900) + two_digits(rows, 0),
        two_digits(rows, 2),
        two_digits(rows, 4),
    )
    good: Mask = born & passes_luhn(rows)
    return good


KINDS = (
    make_national_id(
        name="ZA_ID_NUMBER",
        about="a South African identity number",
        country="ZA",
        bare_pattern="[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]) ?[0-9]{4} ?[012][0-9]{2}",
        further_labels=(
            "SA ID",
            "South African ID",
            "ID number",
        ),
        is_valid=_is_valid,
        alphabets=[
            DIGITS,
            DIGITS,
            b"01",
            DIGITS,
            b"0123",
            DIGITS,
            *[DIGITS] * 4,
            b"01",
            b"89",
            DIGITS,
        ],
        check_length=1,
        rank=STRONG_CHECK_RANK,
        first_bytes=DIGITS,
        hits=(("8001015009087", "8001015009087"),),
        near_misses=(
            "8001015009088",
            "8013015009087",
        ),
    ),
)
