"""Netherlands: citizen service numbers (BSN), with their check modulo 11 (the "elfproef")."""

from __future__ import annotations

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import make_national_id, weighted_sum
from sanitize.kinds.kind import DIGITS


def _is_valid(rows: U8) -> Mask:
    good: Mask = (weighted_sum(rows, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0) & (rows != 48).any(
        axis=1
    )
    return good


KINDS = (
    make_national_id(
        name="NL_BSN",
        about="a Dutch citizen service number",
        country="NL",
        bare_pattern="[0-9]{4}[.][0-9]{2}[.][0-9]{3}",
        labelled_pattern="[0-9]{9}|[0-9]{3}[ .][0-9]{3}[ .][0-9]{3}",
        labels=("BSN", "Burgerservicenummer", "Sofinummer", "Sofi"),
        is_valid=_is_valid,
        alphabets=[DIGITS] * 9,
        check_length=1,
        first_bytes=DIGITS + b"BSbs",
        hits=(
            ("1112.22.333", "1112.22.333"),
            ("BSN 111222333", "111222333"),
            ("Burgerservicenummer: 123456782", "123456782"),
        ),
        near_misses=(
            "1112.22.334",
            "111222333",
        ),
    ),
)
