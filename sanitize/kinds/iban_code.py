"""International bank account numbers: in upper case, unbroken or in groups of four with blanks or
hyphens of any form between them, or in lower case unbroken.

Also inside a word, behind or before an underscore, and in upper case behind a letter in lower case
(`iban_DE89...`, `scan_DE89..._1`, `ibanDE89...`).

The pattern has the length that each country uses, so that a match stops where the number ends:
`BE68 5390 0754 7034 IBAN` contains one of sixteen characters. Normalised form: letters and digits,
in upper case.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.array_types import I64
from sanitize.core.keys import Draws
from sanitize.kernels import check_digits
from sanitize.kinds.kind import (
    BOUNDARY,
    LETTERS,
    WORD_BEFORE,
    Kind,
    flatten_strings,
    from_byte_matrix,
    redraw_characters,
    to_byte_matrix,
    widen_separators,
)

_COUNTRIES_BY_LENGTH = {  # SWIFT IBAN registry, release 98
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
_LENGTH_BY_COUNTRY = {
    country: length
    for length, countries in _COUNTRIES_BY_LENGTH.items()
    for country in countries.split()
}


def _list_branches() -> tuple[list[str], list[str]]:
    """The patterns in upper case and in lower case for each length: the countries, two check
    digits, then groups of four and the remaining characters. In lower case, as people type it, only
    unbroken."""
    upper, lower = list[str](), list[str]()
    for length, countries in _COUNTRIES_BY_LENGTH.items():
        groups, rest = divmod(length - 4, 4)
        tail = f"[ -]?[A-Z0-9]{{{rest}}}" if rest else ""
        upper.append(
            f"(?:{'|'.join(countries.split())})[0-9]{{2}}(?:[ -]?[A-Z0-9]{{4}}){{{groups}}}{tail}"
        )
        lower.append(f"(?:{'|'.join(countries.lower().split())})[0-9]{{2}}[a-z0-9]{{{length - 4}}}")
    return upper, lower


def _build_pattern() -> str:
    """The pattern of a number on its own."""
    branches = [branch for pair in zip(*_list_branches(), strict=True) for branch in pair]
    return widen_separators(f"{BOUNDARY}(?:{'|'.join(branches)}){BOUNDARY}")


def _build_embedded_pattern() -> str:
    """The pattern of an unbroken number inside a word: behind or before an underscore, and in upper
    case behind a letter in lower case."""
    upper, lower = ("|".join(branches).replace("[ -]?", "") for branches in _list_branches())
    before = rf"(?:{WORD_BEFORE}(?:[A-Za-z0-9]*[a-z])?|{BOUNDARY}[A-Za-z]*[a-z])"
    end = f"(?:{BOUNDARY}|_)"
    return rf"{before}(?:{upper}){end}|{WORD_BEFORE}(?:{lower}){end}|{BOUNDARY}(?:{upper}|{lower})_"


def _check(values: pl.Series) -> pl.Series:
    """`country` for an unknown country code, `length` for a wrong length, `mod97` for wrong check
    digits; else null."""
    numbers = _normalise(values)
    remainders = _mod97_remainders(numbers).tolist()
    return pl.Series(
        [
            _refusal_reason(number, remainder)
            for number, remainder in zip(numbers, remainders, strict=True)
        ],
        dtype=pl.String,
    )


def _refusal_reason(number: str, remainder: int) -> str | None:
    length = _LENGTH_BY_COUNTRY.get(number[:2])
    if length != len(number):
        return "country" if length is None else "length"
    return None if remainder == 1 else "mod97"


def _mod97_remainders(plain: pl.Series) -> I64:
    """The ISO 7064 remainder (modulo 97) of every normalised value."""
    flat, offsets = flatten_strings(plain)
    remainders = np.empty(len(plain), np.int64)
    check_digits.mod97_remainders(flat, offsets, remainders)
    return remainders


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all("[^0-9A-Za-z]", "").str.to_uppercase()


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Numbers of the same country and grouping, with a redrawn account and valid check digits.
    `reserved` has no effect: no range is reserved for examples."""
    rows = to_byte_matrix(values)
    keep = np.zeros(rows.shape, bool)
    keep[:, :2] = True
    out = to_byte_matrix(redraw_characters(values, draws, keep[rows != 0]))
    out[:, 2:4] = 48
    check = 98 - _mod97_remainders(_normalise(from_byte_matrix(out)))
    out[:, 2], out[:, 3] = 48 + check // 10, 48 + check % 10
    return from_byte_matrix(out, values.name)


KIND = Kind(
    name="IBAN_CODE",
    about="an international bank account number",
    category="financial",
    field_names=tuple(
        (
            "iban|iban number|iban no|iban code|iban nummer|iban nr|codigo iban|"
            "codice iban|code iban|numer iban"
        ).split("|")
    ),
    aliases=("IBAN",),
    pattern=_build_pattern(),
    embedded_pattern=_build_embedded_pattern(),
    prefix_pattern=(
        "([A-Za-z0-9_]*_)[a-z]{2}[0-9]{2}[a-z0-9]*_?\\z|([A-Za-z0-9_]*[a-z_])[A-Z]{2}[0-9]{2}[A-Z0-9 -]"  # noqa: E501
    ),
    suffix_pattern="_",
    check=_check,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    phase=2,
    digit_lines_only=True,
    rank=42,
    first_bytes=LETTERS + b"_",
    hits=(
        ("account GB82 WEST 1234 5698 7654 32.", "GB82 WEST 1234 5698 7654 32"),
        ("IBAN: DE89 3704 0044 0532 0130 00 please", "DE89 3704 0044 0532 0130 00"),
        ("GB82WEST12345698765432", "GB82WEST12345698765432"),
        ("BE68 5390 0754 7034 IBAN", "BE68 5390 0754 7034"),
        ("iban is gb82west12345698765432", "gb82west12345698765432"),
        ("NO93 8601 1117 947.", "NO93 8601 1117 947"),
        (
            "iban_GB82WEST12345698765432.pdf x_gb82west12345698765432_1",
            "GB82WEST12345698765432",
            "gb82west12345698765432",
        ),
        (
            "ibanDE89370400440532013000, DE89370400440532013000_2",
            "DE89370400440532013000",
            "DE89370400440532013000",
        ),
    ),
    near_misses=(
        "DE89370400440532013000X DE8937040044053201300",
        "DE88 3704 0044 0532 0130 00",
    ),
)
