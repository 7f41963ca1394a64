"""China: resident identity numbers of 18 characters: region, date of birth, sequence number, and a
check character (ISO 7064 MOD 11-2)."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import (
    STRONG_CHECK_RANK,
    is_date,
    make_national_id,
    two_digits,
    weighted_sum,
)
from sanitize.kinds.kind import DIGITS


def _is_valid(rows: U8) -> Mask:
    born = is_date(
        two_digits(rows, 6) * 100 + two_digits(rows, 8), two_digits(rows, 10), two_digits(rows, 12)
    )
    rest = weighted_sum(rows, [2**power % 11 for power in range(17, 0, -1)]) % 11
    good: Mask = born & (np.frombuffer(b"10X98765432", np.uint8)[rest] == rows[:, 17])
    return good


KINDS = (
    make_national_id(
        name="CN_RESIDENT_ID",
        about="a Chinese resident identity number",
        country="CN",
        bare_pattern="[1-8][0-9]{5}(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])[0-9]{3}[0-9Xx]",
        further_labels=(
            "身份证",
            "身份证号",
            "身份证号码",
            "居民身份证",
        ),
        is_valid=_is_valid,
        alphabets=[
            b"123456",
            b"1234",
            *[DIGITS] * 4,
            b"1",
            b"9",
            b"456789",
            DIGITS,
            b"01",
            DIGITS,
            b"0123",
            DIGITS,
            *[DIGITS] * 3,
            b"0123456789X",
        ],
        check_length=1,
        rank=STRONG_CHECK_RANK,
        first_bytes=b"12345678",
        hits=(("11010519491231002X", "11010519491231002X"),),
        near_misses=(
            "110105194912310021",
            "11010519491331002X",
        ),
    ),
)
