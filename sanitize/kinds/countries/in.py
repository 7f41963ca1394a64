"""India: Aadhaar numbers (Verhoeff's check digit, no leading 0 or 1) and permanent account numbers
(no public check; the fourth letter is the type of the holder)."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import make_national_id, passes_verhoeff
from sanitize.kinds.kind import CAPITALS, DIGITS


def _is_pan(rows: U8) -> Mask:
    return np.ones(len(rows), np.bool_)


KINDS = (
    make_national_id(
        name="IN_AADHAAR",
        about="an Indian Aadhaar number",
        country="IN",
        bare_pattern="[2-9][0-9]{3} [0-9]{4} [0-9]{4}|[2-9][0-9]{3}[-:][0-9]{4}[-:][0-9]{4}",
        labelled_pattern="[2-9][0-9]{11}",
        labels=("Aadhaar", "Aadhar", "UIDAI", "UID"),
        separators=b" ./-:",
        is_valid=passes_verhoeff,
        alphabets=[b"23456789", *[DIGITS] * 11],
        check_length=1,
        first_bytes=b"23456789AUau",
        hits=(
            ("2341 2341 2346", "2341 2341 2346"),
            ("Aadhaar: 234123412346", "234123412346"),
        ),
        near_misses=(
            "2341 2341 2347",
            "1341 2341 2346",
        ),
    ),
    make_national_id(
        name="IN_PAN",
        about="an Indian permanent account number",
        country="IN",
        bare_pattern="[A-Z]{3}[ABCFGHLJPT][A-Z][0-9]{4}[A-Z]",
        further_labels=("PAN",),
        is_valid=_is_pan,
        alphabets=[*[CAPITALS] * 3, b"P", CAPITALS, *[DIGITS] * 4, CAPITALS],
        check_length=0,
        first_bytes=CAPITALS,
        hits=(("ABCPE1234F", "ABCPE1234F"),),
        near_misses=("ABCDE1234F",),
    ),
)
