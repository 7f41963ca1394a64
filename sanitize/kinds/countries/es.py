"""Spain: NIF of residents (DNI) and of foreigners (NIE), with a letter that is the number modulo 23."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, Bools, number
from sanitize.kinds.kind import U8

_LETTERS = b"TRWAGMYFPDXBNJZSQVHLCKE"


def _sound(rows: U8) -> Bools:
    first = np.where(rows[:, 0] >= 65, rows[:, 0] - 88, rows[:, 0] - 48).astype(np.int64)  # X, Y, Z count as 0, 1, 2
    total = first * 10**7 + (rows[:, 1:8].astype(np.int64) - 48) @ 10 ** np.arange(6, -1, -1)
    good: Bools = np.frombuffer(_LETTERS, np.uint8)[total % 23] == rows[:, 8]
    return good


KINDS = (
    number(
        name="ES_NIF",
        about="a Spanish identity number (DNI)",
        country="ES",
        alone="[0-9]{8}[ -]?[A-HJ-NP-TV-Z]|[0-9]{2}[.][0-9]{3}[.][0-9]{3}[ -]?[A-HJ-NP-TV-Z]",
        sound=_sound,
        alphabets=[*[DIGITS] * 8, _LETTERS],
        tail=1,
    ),
    number(
        name="ES_NIE",
        about="a Spanish identity number of a foreigner",
        country="ES",
        alone="[XYZ][ -]?[0-9]{7}[ -]?[A-HJ-NP-TV-Z]",
        sound=_sound,
        alphabets=[b"XYZ", *[DIGITS] * 7, _LETTERS],
        tail=1,
    ),
)
