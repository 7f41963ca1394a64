"""India: Aadhaar numbers (Verhoeff's check digit, no leading 0 or 1) and permanent account numbers (no public check; the fourth letter
says what the holder is)."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.number import DIGITS, LETTERS, Bools, number, values_of, words
from sanitize.kinds.kind import U8

# Verhoeff's multiplication in the dihedral group of ten, and the powers of his permutation
_TIMES = np.array(
    [
        [(a + b) % 5 if a < 5 and b < 5 else (a + b - 5) % 5 + 5 if a < 5 else (a - b) % 5 + 5 if b < 5 else (a - b) % 5 for b in range(10)]
        for a in range(10)
    ]
)
_STEP = np.array([1, 5, 7, 6, 2, 8, 3, 0, 9, 4])


def _aadhaar(rows: U8) -> Bools:
    value = values_of(rows)
    state, turned = np.zeros(len(rows), np.int64), np.arange(10)
    for column in range(value.shape[1] - 1, -1, -1):
        state = _TIMES[state, turned[value[:, column]]]
        turned = _STEP[turned]
    good: Bools = state == 0
    return good


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
        sound=_aadhaar,
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
