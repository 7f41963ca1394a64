"""Japan: individual numbers ("My Number") of twelve digits, the last of which is a check digit
(order 85 of the Ministry of Internal Affairs, 2014)."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import (
    character_values,
    make_national_id,
    weighted_sum,
)
from sanitize.kinds.kind import BEYOND_ASCII, DIGITS


def _is_valid(rows: U8) -> Mask:
    rest = weighted_sum(rows, (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    good: Mask = np.where(rest <= 1, 0, 11 - rest) == character_values(rows)[:, 11]
    return good


KINDS = (
    make_national_id(
        name="JP_MY_NUMBER",
        about="a Japanese individual number",
        country="JP",
        bare_pattern="[0-9]{4} [0-9]{4} [0-9]{4}|[0-9]{4}-[0-9]{4}-[0-9]{4}",
        labelled_pattern="[0-9]{12}",
        labels=("My Number", "MyNumber", "マイナンバー", "個人番号"),
        is_valid=_is_valid,
        alphabets=[DIGITS] * 12,
        check_length=1,
        first_bytes=DIGITS + b"Mm" + BEYOND_ASCII,
        hits=(
            ("1234 5678 9018", "1234 5678 9018"),
            ("マイナンバー 123456789018", "123456789018"),
        ),
        near_misses=("1234 5678 9019",),
    ),
)
