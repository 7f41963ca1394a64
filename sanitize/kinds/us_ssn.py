"""United States social security numbers, `ddd-dd-dddd` with hyphens or blanks. Identity: the nine digits."""

from __future__ import annotations

import polars as pl

from sanitize.keyed import Draws
from sanitize.kinds.kind import BOUND, WORD, Kind, drawn, grid, ungrid


def _check(values: pl.Series) -> pl.Series:
    """`separator` for two different ones, `range` for numbers the administration never gives out."""
    plain = _normalise(values)
    separators = values.str.replace_all("[0-9]", "")
    return pl.select(
        pl.when(separators.is_in(["- ", " -"]))
        .then(pl.lit("separator"))
        .when(plain.str.contains(r"\A(?:000|666|9)|\A[0-9]{3}00|0000\z"))
        .then(pl.lit("range"))
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all("[^0-9]", "")


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Another number that could be given out. `reserved`: one of 987-65-4320 to 4329, set aside for advertisements; the check
    refuses these on purpose, as it does every area above 899, so that they are not found again.
    """
    rows = grid(values, width=11)
    if reserved:
        numbers = 987_654_320 + drawn(draws, 0, 10)
    else:
        area = 1 + drawn(draws, 0, 898)
        area += area >= 666
        numbers = area * 1_000_000 + (1 + drawn(draws, 1, 99)) * 10_000 + 1 + drawn(draws, 2, 9_999)
    for power, column in enumerate((10, 9, 8, 7, 5, 4, 2, 1, 0)):
        rows[:, column] = 48 + numbers // 10**power % 10
    return ungrid(rows, values.name)


KIND = Kind(
    name="US_SSN",
    about="a United States social security number",
    pattern=rf"{BOUND}[0-9]{{3}}[ -][0-9]{{2}}[ -][0-9]{{4}}{BOUND}",
    check=_check,
    normalise=_normalise,
    fake=_fake,
    not_before=WORD + b"-",
    not_after=WORD + b"-",
    turn=2,
    rank=55,
)
