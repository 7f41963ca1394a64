"""Italy: fiscal codes of persons, with the control letter of the decree of 23 December 1976.

Where two persons would share a code, digits are replaced by letters (LMNPQRSTUV). The last of the
127 variants, in which all seven digits are replaced, is not accepted: numeric kinds are searched
only in lines with a digit.
"""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import character_values, make_national_id
from sanitize.kinds.kind import CAPITALS, DIGITS

_ODD_POSITION_VALUES = np.array(
    [
        1,
        0,
        5,
        7,
        9,
        13,
        15,
        17,
        19,
        21,
        *(
            1,
            0,
            5,
            7,
            9,
            13,
            15,
            17,
            19,
            21,
            2,
            4,
            18,
            20,
            11,
            3,
            6,
            8,
            12,
            14,
            16,
            10,
            22,
            25,
            24,
            23,
        ),
    ]
)
_MONTH_LETTERS = b"ABCDEHLMPRST"
_DIGIT_VALUES = np.zeros(256, np.int64)
_DIGIT_VALUES[list(DIGITS)] = np.arange(10)
_DIGIT_VALUES[list(b"LMNPQRSTUV")] = np.arange(10)


def _is_valid(rows: U8) -> Mask:
    value = character_values(rows)
    even = np.where(value >= 10, value - 10, value)
    total = _ODD_POSITION_VALUES[np.clip(value[:, 0:15:2], 0, 35)].sum(axis=1) + even[
        :, 1:15:2
    ].sum(axis=1)
    day = _DIGIT_VALUES[rows[:, 9]] * 10 + _DIGIT_VALUES[rows[:, 10]]
    # the day of birth of women is increased by 40
    has_digit = ((rows >= ord("0")) & (rows <= ord("9"))).any(axis=1)
    good: Mask = (
        has_digit
        & (total % 26 + 65 == rows[:, 15])
        & (day % 40 >= 1)
        & (day % 40 <= 31)
        & (day <= 71)
    )
    return good


KINDS = (
    make_national_id(
        name="IT_FISCAL_CODE",
        about="an Italian fiscal code",
        country="IT",
        bare_pattern=(
            "[A-Z]{3} ?[A-Z]{3} ?[0-9LMNP-V]{2}[ABCDEHLMPRST][0-9LMNP-V]{2} ?[A-Z][0-9LMNP-V]{3}"
            " ?[A-Z]"
        ),
        further_labels=(
            "Codice fiscale",
            "CF",
            "C.F.",
        ),
        is_valid=_is_valid,
        alphabets=[
            *[CAPITALS] * 6,
            DIGITS,
            DIGITS,
            _MONTH_LETTERS,
            b"0123456",
            DIGITS,
            CAPITALS,
            *[DIGITS] * 3,
            CAPITALS,
        ],
        check_length=1,
        first_bytes=CAPITALS,
        hits=(
            ("RSSMRA85T10A562S", "RSSMRA85T10A562S"),
            ("RSS MRA 85T10 A562S", "RSS MRA 85T10 A562S"),
            ("RSSMRA85T10A56NH", "RSSMRA85T10A56NH"),
            ("RSSMRAURTMLARS2W", "RSSMRAURTMLARS2W"),
        ),
        near_misses=(
            "RSSMRA85T10A562T",
            "RSSMRA85T90A562S",
            "RSSMRAURTMLARSNL 4",
        ),
    ),
)
