"""Australia: tax file numbers of nine digits (check modulo 11) and Medicare numbers (check modulo
10; the tenth digit is the issue number of the card, and a reference number may follow)."""

from __future__ import annotations

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import (
    character_values,
    make_national_id,
    weighted_sum,
)
from sanitize.kinds.kind import DIGITS


def _is_tfn(rows: U8) -> Mask:
    good: Mask = (weighted_sum(rows, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0) & (rows != 48).any(
        axis=1
    )
    return good


def _is_medicare(rows: U8) -> Mask:
    good: Mask = weighted_sum(rows, (1, 3, 7, 9, 1, 3, 7, 9)) % 10 == character_values(rows)[:, 8]
    return good


KINDS = (
    make_national_id(
        name="AU_TFN",
        about="an Australian tax file number",
        country="AU",
        bare_pattern="[0-9]{3} [0-9]{3} [0-9]{3}",
        labelled_pattern="[0-9]{9}|[0-9]{3}[ -][0-9]{3}[ -][0-9]{3}",
        labels=("TFN", "Tax file"),
        is_valid=_is_tfn,
        alphabets=[DIGITS] * 9,
        check_length=1,
        first_bytes=DIGITS + b"Tt",
        hits=(
            ("123 456 782", "123 456 782"),
            ("TFN: 123456782", "123456782"),
        ),
        near_misses=(
            "123 456 783",
            "123456782",
        ),
    ),
    make_national_id(
        name="AU_MEDICARE",
        about="an Australian Medicare number",
        country="AU",
        bare_pattern="[2-6][0-9]{3} [0-9]{5} [0-9]|[2-6][0-9]{3}-[0-9]{5}-[0-9]",
        labelled_pattern="[2-6][0-9]{9}",
        labels=("Medicare", "Medicare card"),
        is_valid=_is_medicare,
        alphabets=[b"23456", *[DIGITS] * 8, b"123456789"],
        check_length=2,
        first_bytes=b"23456Mm",
        hits=(
            ("2123 45670 1", "2123 45670 1"),
            ("Medicare number 2123456701", "2123456701"),
        ),
        near_misses=("2123 45671 1",),
    ),
)
