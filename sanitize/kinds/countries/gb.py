"""United Kingdom: NHS numbers (modulus 11, NHS Data Dictionary) and National Insurance numbers (no check digit; HMRC's rules for the
prefix)."""

from __future__ import annotations

import numpy as np

from sanitize.kinds.countries.national_id import DIGITS, Bools, number, weighted, words
from sanitize.kinds.kind import U8

_FIRST, _SECOND = b"ABCEGHJKLMNOPRSTWXYZ", b"ABCEGHJKLMNPRSTWXYZ"
_NEVER = [list(pair.encode()) for pair in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")]


def _nhs(rows: U8) -> Bools:
    rest = (11 - weighted(rows, range(10, 1, -1)) % 11) % 11
    good: Bools = (rest == rows[:, 9].astype(np.int64) - 48) & (rows != rows[:, :1]).any(axis=1)
    return good


def _nino(rows: U8) -> Bools:
    good = np.ones(len(rows), np.bool_)
    for pair in _NEVER:
        good &= ~(rows[:, :2] == pair).all(axis=1)
    return good


KINDS = (
    number(
        name="UK_NHS",
        about="a British NHS number",
        country="GB",
        alone="[0-9]{3} [0-9]{3} [0-9]{4}|[0-9]{3}-[0-9]{3}-[0-9]{4}",
        behind="[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{4}",
        named=words("NHS"),
        turn=3,  # one in eleven telephone numbers passes its check
        sound=_nhs,
        alphabets=[DIGITS] * 10,
        reserved=[b"9", b"9", b"9", *[DIGITS] * 7],  # set aside for tests
        tail=1,
    ),
    number(
        name="UK_NINO",
        about="a British National Insurance number",
        country="GB",
        alone="[ABCEGHJ-PRSTW-Z][ABCEGHJ-NPRSTW-Z](?: ?[0-9]{2}){3} ?[A-D]",
        sound=_nino,
        alphabets=[_FIRST, _SECOND, *[DIGITS] * 6, b"ABCD"],
        tail=0,
    ),
)
