"""China: resident identity numbers of eighteen characters: region, date of birth, order, and a check character (ISO 7064 MOD 11-2)."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, STRONG, Bools, is_date, number, two, weighted
from sanitize.kinds.kind import U8


def _sound(rows: U8) -> Bools:
    born = is_date(two(rows, 6) * 100 + two(rows, 8), two(rows, 10), two(rows, 12))
    rest = weighted(rows, [2**power % 11 for power in range(17, 0, -1)]) % 11
    good: Bools = born & (np.frombuffer(b"10X98765432", np.uint8)[rest] == rows[:, 17])
    return good


KINDS = (
    number(
        name="CN_RESIDENT_ID",
        about="a Chinese resident identity number",
        country="CN",
        alone="[1-8][0-9]{5}(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])[0-9]{3}[0-9Xx]",
        sound=_sound,
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
        tail=1,
        rank=STRONG,
    ),
)
