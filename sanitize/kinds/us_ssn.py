"""United States social security numbers: `ddd-dd-dddd` with hyphens, blanks or dots of any sort, the same in both places, or nine bare
digits behind their name; and what stands in the same places with an area above 899: taxpayer numbers (ITIN, ATIN), and numbers made up
or mistyped, which hardly anything else is written like.

Identity: the nine digits.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BLANKS, BOUND, HYPHENS, WORD, Kind, digits, drawn, grid, loosened, ungrid


def _check(values: pl.Series) -> pl.Series:
    """`separator` for two different ones, `range` for numbers never given out: area 000 or 666, group 00, serial 0000, and those of
    advertisements. Taxpayer numbers above 899 have the groups 50 to 65, 70 to 88 and 90 to 99 (IRS, Publication 1915), which is not
    asked: what else is written so is more often a number somebody was given wrongly than anything but one."""
    plain = _normalise(values)
    gaps = (
        values.str.replace_all(f"[{BLANKS}]", " ")
        .str.replace_all(f"[{HYPHENS}]", "-")
        .str.extract_groups(r"\A[0-9]+([^0-9]*)[0-9]+([^0-9]*)")
    )
    return pl.select(
        pl.when(gaps.struct.field("1") != gaps.struct.field("2"))
        .then(pl.lit("separator"))
        .when(plain.str.contains(_NEVER))
        .then(pl.lit("range"))
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all("[^0-9]", "")


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Another number that could be given out. `reserved`: one of 987-65-4320 to 4329, set aside for advertisements; the check
    refuses these on purpose, so that they are not found again.
    """
    rows = grid(values)
    if reserved:
        numbers = 987_654_320 + drawn(draws, 0, 10)
    else:
        area = 1 + drawn(draws, 0, 898)
        area += area >= 666
        numbers = area * 1_000_000 + (1 + drawn(draws, 1, 99)) * 10_000 + 1 + drawn(draws, 2, 9_999)
    place = np.where(digits(rows), np.cumsum(digits(rows), axis=1) - 1, -1)
    for at in range(9):
        rows[place == at] = (48 + numbers // 10 ** (8 - at) % 10)[(place == at).any(axis=1)]
    return ungrid(rows, values.name)


_NEVER = r"\A(?:000|666|98765432[0-9]\z)|\A[0-9]{3}00|0000\z"
_PLAIN = loosened(rf"{BOUND}[0-9]{{3}}[ .-][0-9]{{2}}[ .-][0-9]{{4}}{BOUND}")
# the name, with what stands between it and the number: a word or two, a colon, quotation marks, brackets, `**` of Markdown
_NAMED = (
    rf"{BOUND}(?:[Ss][Ss][Nn]|SS ?#|ITIN|ATIN|[Ss]ocial [Ss]ecurity|SOCIAL SECURITY|[Ss]oc[.]? [Ss]ec[.]?)"
    r"(?: (?:[Nn]umber|NUMBER|[Nn]o[.]?|#))?(?: (?:is|was|of) |[: #=\"'(*]{1,6})"
)
KIND = Kind(
    name="US_SSN",
    about="a United States social security number",
    pattern=rf"{_PLAIN}|{_NAMED}[0-9]{{9}}{BOUND}",
    lead=_NAMED,
    accepts=lambda candidates: candidates["value"].str.contains(rf"\A(?:{_PLAIN}|(?:{_NAMED})?[0-9]{{9}})\z"),
    check=_check,
    normalise=_normalise,
    fake=_fake,
    not_before=WORD + b"-",
    not_after=WORD + b"-",
    turn=2,
    numeric=True,
    rank=55,
)
