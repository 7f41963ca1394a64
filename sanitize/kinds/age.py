"""Ages of people: the number in `64 years old`, `64-year-old`, `64 y/o`, `aged 64`, `turned 64`, `at the age of 64`.

The words around it make a number an age; they are not part of the value. Identity: the number without leading zeros.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.keyed import Draws
from sanitize.kinds.kind import BOUND, Kind, drawn

_NUMBER = rf"{BOUND}[0-9]{{1,3}}{BOUND}"
_BEHIND = (
    r"(?:[ -](?:[Yy]ears?|[Mm]onths?|[Ww]eeks?|[Dd]ays?)[ -](?:[Oo]ld|[Oo]f [Aa]ge)|[ -]?(?:y/o|Y/O|yo|y[.]o[.]?|YO)|"
    r"[ -]?(?:yrs?|YRS?)[.]?[ -](?:old|OLD))"
)
_AHEAD = (
    r"(?:[Aa]ged|AGED|[Aa]ge(?:[ ]is|[ ]was)?(?: of)?|AGE|[Aa]ges|(?:[Jj]ust |[Ii]'ll |will |[Ss]he |[Hh]e |[Ii] )[Tt]urn(?:s|ed|ing)?|"
    r"[Tt]urned|[Tt]urning)(?:: ?|=| = | )"
)


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """An age with or without its words: without them, somebody else has said that it is one."""
    return candidates["value"].str.contains(rf"\A(?:[0-9]{{1,3}}{_BEHIND}|(?:{_AHEAD})?{_NUMBER})\z")


def _check(values: pl.Series) -> pl.Series:
    """`range` for what nobody lives to be."""
    number = values.cast(pl.Int64, strict=False)
    return pl.select(pl.when((pl.lit(number) > 120) | pl.lit(values).str.starts_with("0")).then(pl.lit("range"))).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace(r"\A0+([0-9])", "${1}")


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Another age with as many digits: 1 to 9, 10 to 99, 100 to 109."""
    wide = values.str.len_bytes().to_numpy()
    low, size = np.select([wide == 1, wide == 2], [1, 10], 100), np.select([wide == 1, wide == 2], [9, 90], 10)
    own = values.cast(pl.Int64, strict=False).fill_null(0).to_numpy()
    made = low + drawn(draws, 0, size)
    return pl.Series(values.name, np.where(made == own, low + (made - low + 1) % size, made)).cast(pl.String)


KIND = Kind(
    name="AGE",
    about="the age of a person",
    pattern=rf"{BOUND}[0-9]{{1,3}}{_BEHIND}{BOUND}|{BOUND}{_AHEAD}{_NUMBER}",
    lead=_AHEAD,
    trail=rf"{_BEHIND}{BOUND}",
    accepts=_accepts,
    common=True,
    turn=3,
    check=_check,
    normalise=_normalise,
    fake=_fake,
    asked=True,
    rank=56,
)
