"""Canada: social insurance numbers (Luhn; the first digit names the region, 0 and 8 are given to no person)."""

from __future__ import annotations

from sanitize.kinds.countries.national_id import DIGITS, luhn, number, words

KINDS = (
    number(
        name="CA_SIN",
        about="a Canadian social insurance number",
        country="CA",
        alone="[1-79][0-9]{2} [0-9]{3} [0-9]{3}|[1-79][0-9]{2}-[0-9]{3}-[0-9]{3}",
        behind="[1-79][0-9]{8}",
        named=words("SIN", "NAS", "Social Insurance"),
        sound=luhn,
        alphabets=[b"12345679", *[DIGITS] * 8],
        tail=1,
    ),
)
