"""Names of firms and bodies, as a user's list or a model gives them; no pattern finds them. Identity: as of LOCATION."""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import Kind
from sanitize.kinds.location import normalised
from sanitize.kinds.person import LETTERS, stores, telling, worded

_STAY = "the|of|and|for|inc|llc|ltd|limited|corp|corporation|co|company|group|bank|gmbh|ag|sa|plc|university|institute|department"


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """A name of as many words: surnames in the letter case of the value; Inc, Bank, University and their like stay."""
    _, lasts = stores()
    return worded(values, draws, lasts, lasts, _STAY)


KIND = Kind(
    name="ORGANIZATION",
    about="a firm or body, from a list or a model",
    pattern="",
    normalise=normalised,
    fake=_fake,
    telling=telling,
    not_before=LETTERS,
    not_after=LETTERS,
    rank=92,
)
