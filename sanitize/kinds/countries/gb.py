"""United Kingdom: NHS numbers (check modulo 11, NHS Data Dictionary) and National Insurance numbers
(no check digit; HMRC's rules for the prefix)."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import make_national_id, weighted_sum
from sanitize.kinds.kind import DIGITS

_FIRST_LETTERS, _SECOND_LETTERS = b"ABCEGHJKLMNOPRSTWXYZ", b"ABCEGHJKLMNPRSTWXYZ"
_UNUSED_PREFIXES = [list(pair.encode()) for pair in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")]


def _is_nhs(rows: U8) -> Mask:
    rest = (11 - weighted_sum(rows, range(10, 1, -1)) % 11) % 11
    good: Mask = (rest == rows[:, 9].astype(np.int64) - 48) & (rows != rows[:, :1]).any(axis=1)
    return good


def _is_nino(rows: U8) -> Mask:
    good = np.ones(len(rows), np.bool_)
    for pair in _UNUSED_PREFIXES:
        good &= ~(rows[:, :2] == pair).all(axis=1)
    return good


KINDS = (
    make_national_id(
        name="UK_NHS",
        about="a British NHS number",
        country="GB",
        bare_pattern="[0-9]{3} [0-9]{3} [0-9]{4}|[0-9]{3}-[0-9]{3}-[0-9]{4}",
        labelled_pattern="[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{4}",
        labels=("NHS",),
        phase=3,  # one in eleven telephone numbers passes the check
        is_valid=_is_nhs,
        alphabets=[DIGITS] * 10,
        reserved=[b"9", b"9", b"9", *[DIGITS] * 7],  # range reserved for tests
        check_length=1,
        first_bytes=DIGITS + b"Nn",
        hits=(
            ("NHS no. 943 476 5919", "943 476 5919"),
            ("NHS number: 9434765919", "9434765919"),
            ("nhs=943-476-5919", "943-476-5919"),
        ),
        near_misses=(
            "NHS number 943 476 5918",
            "NHS 000 000 0000",
        ),
    ),
    make_national_id(
        name="UK_NINO",
        about="a British National Insurance number",
        country="GB",
        bare_pattern="[ABCEGHJ-PRSTW-Z][ABCEGHJ-NPRSTW-Z](?: ?[0-9]{2}){3} ?[A-D]",
        further_labels=(
            "National Insurance",
            "NINO",
            "NI",
        ),
        is_valid=_is_nino,
        alphabets=[_FIRST_LETTERS, _SECOND_LETTERS, *[DIGITS] * 6, b"ABCD"],
        check_length=0,
        first_bytes=b"ABCEGHJKLMNOPRSTWXYZ",
        hits=(
            ("AB123456C", "AB123456C"),
            ("AB 12 34 56 C", "AB 12 34 56 C"),
        ),
        near_misses=(
            "GB123456C",
            "AB123456E",
            "QQ123456C",
        ),
    ),
)
