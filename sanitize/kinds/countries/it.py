"""Italy: fiscal codes of persons, with the control letter of the decree of 23 December 1976; in a code that two would share, digits are
replaced by letters (LMNPQRSTUV)."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, LETTERS, Bools, number, values_of
from sanitize.kinds.kind import U8

_ODD = np.array(
    [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)]
)
_MONTHS = b"ABCDEHLMPRST"
_DIGIT = np.zeros(256, np.int64)
_DIGIT[list(DIGITS)] = np.arange(10)
_DIGIT[list(b"LMNPQRSTUV")] = np.arange(10)


def _sound(rows: U8) -> Bools:
    value = values_of(rows)
    even = np.where(value >= 10, value - 10, value)
    total = _ODD[np.clip(value[:, 0:15:2], 0, 35)].sum(axis=1) + even[:, 1:15:2].sum(axis=1)
    day = _DIGIT[rows[:, 9]] * 10 + _DIGIT[rows[:, 10]]
    good: Bools = (total % 26 + 65 == rows[:, 15]) & (day % 40 >= 1) & (day % 40 <= 31) & (day <= 71)  # women: 40 more
    return good


KINDS = (
    number(
        name="IT_FISCAL_CODE",
        about="an Italian fiscal code",
        country="IT",
        alone="[A-Z]{3} ?[A-Z]{3} ?[0-9LMNP-V]{2}[ABCDEHLMPRST][0-9LMNP-V]{2} ?[A-Z][0-9LMNP-V]{3} ?[A-Z]",
        sound=_sound,
        alphabets=[*[LETTERS] * 6, DIGITS, DIGITS, _MONTHS, b"0123456", DIGITS, LETTERS, *[DIGITS] * 3, LETTERS],
        tail=1,
    ),
)
