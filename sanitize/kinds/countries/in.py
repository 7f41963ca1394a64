"""India: Aadhaar numbers (Verhoeff's check digit, no leading 0 or 1) and permanent account numbers (no public check; the fourth letter
says what the holder is)."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, LETTERS, Bools, number, verhoeff, words
from sanitize.kinds.kind import U8


def _pan(rows: U8) -> Bools:
    return np.ones(len(rows), np.bool_)


KINDS = (
    number(
        name="IN_AADHAAR",
        about="an Indian Aadhaar number",
        country="IN",
        alone="[2-9][0-9]{3} [0-9]{4} [0-9]{4}|[2-9][0-9]{3}-[0-9]{4}-[0-9]{4}",
        behind="[2-9][0-9]{11}",
        named=words("Aadhaar", "Aadhar", "UIDAI", "UID"),
        sound=verhoeff,
        alphabets=[b"23456789", *[DIGITS] * 11],
        tail=1,
    ),
    number(
        name="IN_PAN",
        about="an Indian permanent account number",
        country="IN",
        alone="[A-Z]{3}[ABCFGHLJPT][A-Z][0-9]{4}[A-Z]",
        sound=_pan,
        alphabets=[*[LETTERS] * 3, b"P", LETTERS, *[DIGITS] * 4, LETTERS],
        tail=0,
    ),
)
