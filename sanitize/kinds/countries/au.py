"""Australia: tax file numbers of nine digits (modulus 11) and Medicare numbers (modulus 10; the tenth digit is the issue of the card, and
a reference number may follow)."""

from __future__ import annotations

from sanitize.kinds.countries.national_id import DIGITS, Bools, number, values_of, weighted, words
from sanitize.kinds.kind import U8


def _tfn(rows: U8) -> Bools:
    good: Bools = (weighted(rows, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0) & (rows != 48).any(axis=1)
    return good


def _medicare(rows: U8) -> Bools:
    good: Bools = weighted(rows, (1, 3, 7, 9, 1, 3, 7, 9)) % 10 == values_of(rows)[:, 8]
    return good


KINDS = (
    number(
        name="AU_TFN",
        about="an Australian tax file number",
        country="AU",
        alone="[0-9]{3} [0-9]{3} [0-9]{3}",
        behind="[0-9]{9}|[0-9]{3}[ -][0-9]{3}[ -][0-9]{3}",
        named=words("TFN", "Tax file"),
        sound=_tfn,
        alphabets=[DIGITS] * 9,
        tail=1,
    ),
    number(
        name="AU_MEDICARE",
        about="an Australian Medicare number",
        country="AU",
        alone="[2-6][0-9]{3} [0-9]{5} [0-9]|[2-6][0-9]{3}-[0-9]{5}-[0-9]",
        behind="[2-6][0-9]{9}",
        named=words("Medicare", "Medicare card"),
        sound=_medicare,
        alphabets=[b"23456", *[DIGITS] * 8, b"123456789"],
        tail=2,
    ),
)
