"""Poland: PESEL, which holds the date of birth (months of this century are 20 more) and a check digit."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, Bools, is_date, number, two, weighted
from sanitize.kinds.kind import U8


def _sound(rows: U8) -> Bools:
    month, late = two(rows, 2), two(rows, 2) > 20
    born = is_date(np.where(late, 2000, 1900) + two(rows, 0), month - 20 * late, two(rows, 4))
    good: Bools = born & (weighted(rows, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0)
    return good


KINDS = (
    number(
        name="PL_PESEL",
        about="a Polish identity number",
        country="PL",
        alone="[0-9]{2}[0-3][0-9][0-3][0-9]{6}",
        sound=_sound,
        alphabets=[DIGITS, DIGITS, b"0123", DIGITS, b"0123", *[DIGITS] * 6],
        tail=1,
    ),
)
