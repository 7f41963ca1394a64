"""Turkey: identity numbers of eleven digits, the last two of which are check digits."""

from __future__ import annotations

from sanitize.array_types import U8, Mask
from sanitize.kinds.countries.national_id import character_values, make_national_id
from sanitize.kinds.kind import DIGITS


def _is_valid(rows: U8) -> Mask:
    value = character_values(rows)
    tenth = (7 * value[:, 0:9:2].sum(axis=1) - value[:, 1:8:2].sum(axis=1)) % 10
    good: Mask = (tenth == value[:, 9]) & (value[:, :10].sum(axis=1) % 10 == value[:, 10])
    return good


KINDS = (
    make_national_id(
        name="TR_NATIONAL_ID",
        about="a Turkish identity number",
        country="TR",
        bare_pattern="[1-9][0-9]{9}[02468]",
        labels=("TCKN", "T.C. Kimlik", "TC Kimlik", "Kimlik"),
        is_valid=_is_valid,
        alphabets=[b"123456789", *[DIGITS] * 10],
        check_length=2,
        first_bytes=DIGITS + b"KTkt",
        hits=(("10000000146", "10000000146"),),
        near_misses=(
            "10000000147",
            "10000000148",
        ),
    ),
)
