"""Finland: personal identity codes: date of birth, a sign for the century (including those added in
2023), and a check character."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import is_date, make_national_id, two_digits
from sanitize.kinds.kind import DIGITS

_CHECK_CHARACTERS = b"0123456789ABCDEFHJKLMNPRSTUVWXY"
_CENTURY_BY_SIGN = np.full(256, 2000)
_CENTURY_BY_SIGN[list(b"-YXWVU")], _CENTURY_BY_SIGN[ord("+")] = 1900, 1800


def _is_valid(rows: U8) -> Mask:
    born = is_date(
        _CENTURY_BY_SIGN[rows[:, 6]] + two_digits(rows, 4), two_digits(rows, 2), two_digits(rows, 0)
    )
    total = (
        (two_digits(rows, 0) * 10_000 + two_digits(rows, 2) * 100 + two_digits(rows, 4)) * 1_000
        + two_digits(rows, 7) * 10
        + rows[:, 9].astype(np.int64)
        - 48
    )
    good: Mask = born & (np.frombuffer(_CHECK_CHARACTERS, np.uint8)[total % 31] == rows[:, 10])
    return good


KINDS = (
    make_national_id(
        name="FI_PERSONAL_IDENTITY_CODE",
        about="a Finnish personal identity code",
        country="FI",
        bare_pattern="[0-3][0-9][01][0-9]{3}[-+A-FYXWVU][0-9]{3}[0-9A-FHJ-NPR-Y]",
        further_labels=(
            "Henkilötunnus",
            "Hetu",
            "Personbeteckning",
        ),
        is_valid=_is_valid,
        alphabets=[
            b"0123",
            DIGITS,
            b"01",
            DIGITS,
            DIGITS,
            DIGITS,
            b"-A",
            *[DIGITS] * 3,
            _CHECK_CHARACTERS,
        ],
        separators=b"",
        check_length=1,
        first_bytes=b"0123",
        hits=(("131052-308T", "131052-308T"),),
        near_misses=(
            "131052-308U",
            "321052-308T",
        ),
    ),
)
