"""Names of places, as a user's list or a model gives them; no pattern finds them. Identity: as of PERSON, without the turn at a comma."""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import Kind
from sanitize.kinds.person import LETTERS, UNSEEN, stores, telling, worded

_STAY = "the|of|on|upon|and|de|la|le|el|st|street|road|avenue|lane|new|north|south|east|west|county|city|saint|san|los|las|am|an|der|den"


def normalised(values: pl.Series) -> pl.Series:
    """Each character in its Unicode compatibility form, lower case, single blanks, nothing that cannot be seen."""
    plain = values.str.replace_all(UNSEEN, "").str.normalize("NFKC").str.replace_all(r"\s+", " ")
    return plain.str.strip_chars(" ,").str.to_lowercase()


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """A name of as many words that is no known place: surnames in the letter case of the value; street, county and their like stay."""
    _, lasts = stores()
    return worded(values, draws, lasts, lasts, _STAY)


KIND = Kind(
    name="LOCATION",
    about="a place, from a list or a model",
    pattern="",
    normalise=normalised,
    fake=_fake,
    telling=telling,
    not_before=LETTERS,
    not_after=LETTERS,
    rank=91,
)
