"""Spain: NIF of residents (DNI) and of foreigners (NIE), with a check letter for the number modulo
23."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import make_national_id
from sanitize.kinds.kind import DIGITS

_CHECK_LETTERS = b"TRWAGMYFPDXBNJZSQVHLCKE"


def _is_valid(rows: U8) -> Mask:
    # X, Y, Z count as 0, 1, 2
    first = np.where(rows[:, 0] >= 65, rows[:, 0] - 88, rows[:, 0] - 48).astype(np.int64)
    total = first * 10**7 + (rows[:, 1:8].astype(np.int64) - 48) @ 10 ** np.arange(6, -1, -1)
    good: Mask = np.frombuffer(_CHECK_LETTERS, np.uint8)[total % 23] == rows[:, 8]
    return good


KINDS = (
    make_national_id(
        name="ES_NIF",
        about="a Spanish identity number (DNI)",
        country="ES",
        bare_pattern=(
            "[0-9]{8}[ -]?[A-HJ-NP-TV-Z]|[0-9]{2}[.][0-9]{3}[.][0-9]{3}[ -]?[A-HJ-NP-TV-Z]"
        ),
        further_labels=(
            "NIF",
            "DNI",
        ),
        is_valid=_is_valid,
        alphabets=[*[DIGITS] * 8, _CHECK_LETTERS],
        check_length=1,
        first_bytes=DIGITS,
        hits=(
            ("12345678Z", "12345678Z"),
            ("12.345.678-Z", "12.345.678-Z"),
            ("12345678-Z", "12345678-Z"),
        ),
        near_misses=("12345678A",),
    ),
    make_national_id(
        name="ES_NIE",
        about="a Spanish identity number of a foreigner",
        country="ES",
        bare_pattern="[XYZ][ -]?[0-9]{7}[ -]?[A-HJ-NP-TV-Z]",
        further_labels=("NIE", "DNI"),
        is_valid=_is_valid,
        alphabets=[b"XYZ", *[DIGITS] * 7, _CHECK_LETTERS],
        check_length=1,
        first_bytes=b"XYZ",
        hits=(
            ("X1234567L", "X1234567L"),
            ("X-1234567-L", "X-1234567-L"),
        ),
        near_misses=("X1234567M",),
    ),
)
