"""Netherlands: citizen service numbers (BSN), with the "elfproef"."""

from __future__ import annotations

from sanitize.kinds.countries.national_id import DIGITS, Bools, number, weighted, words
from sanitize.kinds.kind import U8


def _sound(rows: U8) -> Bools:
    good: Bools = (weighted(rows, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0) & (rows != 48).any(axis=1)
    return good


KINDS = (
    number(
        name="NL_BSN",
        about="a Dutch citizen service number",
        country="NL",
        alone="[0-9]{4}[.][0-9]{2}[.][0-9]{3}",
        behind="[0-9]{9}|[0-9]{3}[ .][0-9]{3}[ .][0-9]{3}",
        named=words("BSN", "Burgerservicenummer", "Sofinummer", "Sofi"),
        sound=_sound,
        alphabets=[DIGITS] * 9,
        tail=1,
    ),
)
