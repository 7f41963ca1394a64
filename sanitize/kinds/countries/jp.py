"""Japan: individual numbers ("My Number") of twelve digits, the last of which checks the others (order 85 of the Ministry of Internal
Affairs, 2014)."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, Bools, number, values_of, weighted, words
from sanitize.kinds.kind import U8


def _sound(rows: U8) -> Bools:
    rest = weighted(rows, (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    good: Bools = np.where(rest <= 1, 0, 11 - rest) == values_of(rows)[:, 11]
    return good


KINDS = (
    number(
        name="JP_MY_NUMBER",
        about="a Japanese individual number",
        country="JP",
        alone="[0-9]{4} [0-9]{4} [0-9]{4}|[0-9]{4}-[0-9]{4}-[0-9]{4}",
        behind="[0-9]{12}",
        named=words("My Number", "MyNumber", "マイナンバー", "個人番号"),
        sound=_sound,
        alphabets=[DIGITS] * 12,
        tail=1,
    ),
)
