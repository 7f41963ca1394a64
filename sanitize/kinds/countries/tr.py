"""Turkey: identity numbers of eleven digits, the last two of which check the others."""

from __future__ import annotations

from sanitize.kinds.countries.national_id import DIGITS, Bools, number, values_of, words
from sanitize.kinds.kind import U8


def _sound(rows: U8) -> Bools:
    value = values_of(rows)
    tenth = (7 * value[:, 0:9:2].sum(axis=1) - value[:, 1:8:2].sum(axis=1)) % 10
    good: Bools = (tenth == value[:, 9]) & (value[:, :10].sum(axis=1) % 10 == value[:, 10])
    return good


KINDS = (
    number(
        name="TR_NATIONAL_ID",
        about="a Turkish identity number",
        country="TR",
        alone="[1-9][0-9]{9}[02468]",
        named=words("TCKN", "T.C. Kimlik", "TC Kimlik", "Kimlik"),
        sound=_sound,
        alphabets=[b"123456789", *[DIGITS] * 10],
        tail=2,
    ),
)
