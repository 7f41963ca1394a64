"""Finland: personal identity codes: date of birth, a sign for the century (also those added in 2023), and a check character."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, Bools, is_date, number, two
from sanitize.kinds.kind import U8

_CHECK = b"0123456789ABCDEFHJKLMNPRSTUVWXY"
_CENTURY = np.full(256, 2000)
_CENTURY[list(b"-YXWVU")], _CENTURY[ord("+")] = 1900, 1800


def _sound(rows: U8) -> Bools:
    born = is_date(_CENTURY[rows[:, 6]] + two(rows, 4), two(rows, 2), two(rows, 0))
    total = (two(rows, 0) * 10_000 + two(rows, 2) * 100 + two(rows, 4)) * 1_000 + two(rows, 7) * 10 + rows[:, 9].astype(np.int64) - 48
    good: Bools = born & (np.frombuffer(_CHECK, np.uint8)[total % 31] == rows[:, 10])
    return good


KINDS = (
    number(
        name="FI_PERSONAL_IDENTITY_CODE",
        about="a Finnish personal identity code",
        country="FI",
        alone="[0-3][0-9][01][0-9]{3}[-+A-FYXWVU][0-9]{3}[0-9A-FHJ-NPR-Y]",
        sound=_sound,
        alphabets=[b"0123", DIGITS, b"01", DIGITS, DIGITS, DIGITS, b"-A", *[DIGITS] * 3, _CHECK],
        separators=b"",
        tail=1,
    ),
)
