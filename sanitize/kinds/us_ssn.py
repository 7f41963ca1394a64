"""United States social security numbers: `ddd-dd-dddd` with hyphens, blanks or dots of any form,
the same separator twice, or nine bare digits after a label; and numbers of the same form with an
area above 899: taxpayer numbers (ITIN, ATIN), and invented or mistyped numbers, since hardly
anything else is written in this form. The label may be a key in quotation marks of any form
(`“ssn”: “123456789”`). Inside a word the label may be directly before the number
(`ssn_123-45-6789_x`). A number after the word for a part of a building (`Suite 123-45-6789`) is
refused (`address`). A number directly after the word for a telephone, in a row of numbers, and one
with a further dotted group are none.

Normalised form: the nine digits.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BLANKS,
    BOUNDARY,
    DIGITS,
    HYPHENS,
    LETTERS,
    QUOTATION_MARKS,
    WORD_BEFORE,
    Kind,
    digit_mask,
    draw_indices,
    from_byte_matrix,
    is_in_number_row,
    to_byte_matrix,
    widen_separators,
)
from sanitize.kinds.plain_forms import PlainForm, keep_only


def _check(values: pl.Series) -> pl.Series:
    """`address` for a number with the word for a part of a building; `separator` for two different
    separators; `range` for numbers that are never assigned (area 000 or 666, group 00, serial 0000,
    and those of advertisements); else null.

    Taxpayer numbers (area above 899) have the groups 50 to 65, 70 to 88 and 90 to 99 (IRS,
    Publication 1915). This is not checked: a number of this form with another group is more often a
    wrong or mistyped number of a person than anything else.
    """
    plain = _normalise(values)
    gaps = (
        values.str.replace_all(f"[{BLANKS}]", " ")
        .str.replace_all(f"[{HYPHENS}]", "-")
        .str.extract_groups(r"\A[0-9]+([^0-9]*)[0-9]+([^0-9]*)")
    )
    return pl.select(
        pl.when(values.str.contains(r"\A[A-Za-z]"))
        .then(pl.lit("address"))
        .when(gaps.struct.field("1") != gaps.struct.field("2"))
        .then(pl.lit("separator"))
        .when(plain.str.contains(_NEVER_ISSUED))
        .then(pl.lit("range"))
    ).to_series()


def _needs_context(values: pl.Series) -> pl.Series:
    return values.str.contains(rf"\A{_FORMATTED}\z")


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """False after a word for a telephone, in a row of numbers, and beside further dotted groups."""
    before, after = pl.col("before").str.to_lowercase(), pl.col("after")
    has_group = before.str.contains(r"[0-9][.]\z") | after.str.contains(r"\A[.][0-9]")
    in_row = pl.col("value").str.contains(f"[{BLANKS}]") & is_in_number_row()
    return candidates.select(~(before.str.contains(_PHONE_WORD) | has_group | in_row)).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all("[^0-9]", "")


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Other numbers that could be assigned. `reserved`: one of 987-65-4320 to 4329, which are
    reserved for advertisements; `_check` refuses these on purpose, so that they are not found
    again.
    """
    rows = to_byte_matrix(values)
    if reserved:
        numbers = 987_654_320 + draw_indices(draws, 0, 10)
    else:
        area = 1 + draw_indices(draws, 0, 898)
        area += area >= 666
        numbers = (
            area * 1_000_000
            + (1 + draw_indices(draws, 1, 99)) * 10_000
            + 1
            + draw_indices(draws, 2, 9_999)
        )
    place = np.where(digit_mask(rows), np.cumsum(digit_mask(rows), axis=1) - 1, -1)
    for at in range(9):
        rows[place == at] = (48 + numbers // 10 ** (8 - at) % 10)[(place == at).any(axis=1)]
    return from_byte_matrix(rows, values.name)


_PHONE_WORD = (
    r"(?:phone|mobile|cell|fax|(?:\A|[^a-z])(?:tel|ph))[.]?(?: (?:no[.]?|number))?[ :#]{1,3}\z"
)
_NEVER_ISSUED = r"\A(?:000|666|98765432[0-9]\z)|\A[0-9]{3}00|0000\z"
_FORMATTED = widen_separators(rf"{BOUNDARY}[0-9]{{3}}[ .-][0-9]{{2}}[ .-][0-9]{{4}}{BOUNDARY}")
# the label, and what may be between it and the number: a word or two, a colon, quotation marks,
# brackets, `**` of Markdown
_LABEL = (
    rf"{BOUNDARY}(?:[Ss][Ss][Nn]|SS ?#|ITIN|ATIN|[Ss]ocial [Ss]ecurity|SOCIAL SECURITY|[Ss]oc[.]?"
    r" [Ss]ec[.]?)"
    r"(?: (?:[Nn]umber|NUMBER|[Nn]o[.]?|#))?(?: (?:is|was|of) |[:"
    rf" #=\"'(*{QUOTATION_MARKS}]{{1,6}})"
)
_KEY = rf"(?:{WORD_BEFORE}|{BOUNDARY})[Ss][Ss][Nn][_-]?"  # inside a word: `ssn_`, `my_ssn_`, `SSN`
_EMBEDDED = rf"{_KEY}(?:[0-9]{{3}}-[0-9]{{2}}-[0-9]{{4}}|[0-9]{{9}})(?:{BOUNDARY}|_)"
_ROOM = rf"{BOUNDARY}(?:[Ss]uite|SUITE|[Ss]te[.]?|STE[.]?|[Aa]pt[.]?|APT[.]?|[Aa]partment|[Rr]oom|[Uu]nit) #?"  # noqa: E501
KIND = Kind(
    name="US_SSN",
    about="a United States social security number",
    category="identifier",
    field_names=tuple(
        (
            "ssn|us ssn|ss no|ss number|ssn number|soc sec no|soc sec number|"
            "social security|social security number|social security no|"
            "social security num|socialsecurity|"
            "soc sec|social security nr"
        ).split("|")
    ),
    aliases=(
        "SSN",
        "SOCIALNUM",
    ),
    pattern=rf"{_ROOM}{_FORMATTED}|{_FORMATTED}|{_LABEL}[0-9]{{9}}{BOUNDARY}",
    embedded_pattern=_EMBEDDED,
    prefix_pattern=f"{_LABEL}|{_KEY}",
    suffix_pattern="_",
    accepts=lambda candidates: candidates["value"].str.contains(
        rf"\A(?:(?:{_ROOM})?{_FORMATTED}|(?:{_LABEL})?[0-9]{{9}}|{_EMBEDDED})\z"
    ),
    check=_check,
    needs_context=_needs_context,
    context_rule=_has_context,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    not_preceded_by=ASCII_WORD_CHARS + b"-",
    not_followed_by=ASCII_WORD_CHARS + b"-",
    phase=2,
    digit_lines_only=True,
    plain_forms=(
        PlainForm(
            pattern="[0-9]{3}(?:-[0-9]{2}-| [0-9]{2} |[.][0-9]{2}[.])[0-9]{4}",
            unless="(?:000|666).*|[0-9]{3}.00.*|.*0000|987.65.432[0-9]",
            normalised=keep_only(DIGITS),
            needs_context=True,
        ),
    ),
    rank=55,
    first_bytes=DIGITS + LETTERS + b"_",
    hits=(
        ("SSN 123-45-6789.", "123-45-6789"),
        ("123 45 6789", "123 45 6789"),
        ("123.45.6789", "123.45.6789"),
        ("Social Security Number: 123456789", "123456789"),
        ("ITIN 912-70-3456, 988-94-0001", "912-70-3456", "988-94-0001"),
        ("913-12-3457 or 914-66-3458", "913-12-3457", "914-66-3458"),
        ("ssn=123456789, SSN is 123456788", "123456789", "123456788"),
        (
            '{"ssn": "123456789"} **SSN:** 123456788, SS# 123456787',
            "123456789",
            "123456788",
            "123456787",
        ),
        ("{“ssn”: “123456789”} «SSN» : «123456788»", "123456789", "123456788"),
        (
            "ssn_123-45-6789_x my_ssn_123456788.txt SSN123-45-6787",
            "123-45-6789",
            "123456788",
            "123-45-6787",
        ),
        (
            "SSN (123456789), Soc. Sec. No. 123456788, social security number of 123456787",
            "123456789",
            "123456788",
            "123456787",
        ),
    ),
    near_misses=(
        "a123-45-6789 123-45-67890 123-456-789",
        "000-12-3456 666-12-3456 987-65-4321 123-00-4567 123-45-0000",
        "123-45 6789",
        "scan_123-45-6789_x lessn123-45-6789 ssn_1234567890 ssn_123-45-67890",
        "phone 123-45-6789, Tel. no. 123 45 6789, 1.123.45.6789 and 123.45.6789.10",
        "12 123 45 6789 7, 123 45 6789 1 2",
        "Suite 123-45-6789, Apt. 123 45 6789, suite 123456789",
    ),
)
