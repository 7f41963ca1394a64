"""South Africa: identity numbers: date of birth, four digits for the sex, citizenship, and a check digit (Luhn)."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, STRONG, Bools, is_date, luhn, number, two
from sanitize.kinds.kind import U8


def _sound(rows: U8) -> Bools:
    born = is_date(np.where(two(rows, 0) == 0, 2000, 1900) + two(rows, 0), two(rows, 2), two(rows, 4))
    good: Bools = born & luhn(rows)
    return good


KINDS = (
    number(
        name="ZA_ID_NUMBER",
        about="a South African identity number",
        country="ZA",
        alone="[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]) ?[0-9]{4} ?[012][0-9]{2}",
        sound=_sound,
        alphabets=[DIGITS, DIGITS, b"01", DIGITS, b"0123", DIGITS, *[DIGITS] * 4, b"01", b"89", DIGITS],
        tail=1,
        rank=STRONG,
    ),
)
