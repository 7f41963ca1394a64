"""France: the national register number (NIR, "numéro de sécurité sociale"), with its two-digit key
(97 minus the number modulo 97; Corsica's 2A and 2B count as 19 and 18)."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import (
    STRONG_CHECK_RANK,
    character_values,
    make_national_id,
    two_digits,
)
from sanitize.kinds.kind import DIGITS


def _is_valid(rows: U8) -> Mask:
    digits = rows.copy()
    corsica = (rows[:, 5] == ord("2")) & np.isin(rows[:, 6], list(b"AB"))
    digits[corsica, 5], digits[corsica, 6] = 49, (57 - (rows[:, 6] - 65))[corsica]
    known: Mask = np.asarray(((digits >= 48) & (digits <= 57)).all(axis=1))
    value = character_values(np.where(known[:, None], digits, np.uint8(48)))
    rest = np.zeros(len(rows), np.int64)
    for column in range(13):
        rest = (rest * 10 + value[:, column]) % 97
    month = two_digits(digits, 3)
    # months from 20 on mean that the month is unknown
    good: Mask = (
        known
        & (97 - rest == value[:, 13] * 10 + value[:, 14])
        & (((month >= 1) & (month <= 12)) | (month >= 20))
    )
    return good


KINDS = (
    make_national_id(
        name="FR_NIR",
        about="a French social security number",
        country="FR",
        bare_pattern=(
            "[1278] ?[0-9]{2} ?(?:0[1-9]|1[0-2]|[2-9][0-9]) ?(?:[0-9]{2}|2[AB]) ?[0-9]{3} ?[0-9]{3}"
            " ?[0-9]{2}"
        ),
        further_labels=(
            "Numéro de sécurité sociale",
            "Sécurité sociale",
            "N° sécu",
            "NIR",
            "INSEE",
            "Sécu",
        ),
        is_valid=_is_valid,
        alphabets=[b"12", DIGITS, DIGITS, b"01", DIGITS, b"12345678", DIGITS, *[DIGITS] * 8],
        check_length=2,
        rank=STRONG_CHECK_RANK,
        first_bytes=b"1278",
        hits=(
            ("2 55 08 14 168 025 38", "2 55 08 14 168 025 38"),
            ("255081416802538", "255081416802538"),
        ),
        near_misses=(
            "255081416802539",
            "255131416802538",
        ),
    ),
)
