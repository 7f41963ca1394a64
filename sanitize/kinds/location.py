"""Names of places, reported from a user's list or by a model; there is no pattern.

Normalised form: as for PERSON, but `Roe, Ann` is not reordered at the comma.
"""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import Kind
from sanitize.kinds.person import (
    ASCII_ALPHANUMERICS,
    INVISIBLE,
    is_distinctive,
    name_pools,
    redraw_words,
)

_FIXED_WORDS = "the|of|on|upon|and|de|la|le|el|st|street|road|avenue|lane|new|north|south|east|west|county|city|saint|san|los|las|am|an|der|den"  # noqa: E501


def normalise_proper_noun(values: pl.Series) -> pl.Series:
    """Normalised names: each character in its Unicode compatibility form, lower case, single
    blanks, no invisible characters."""
    plain = values.str.replace_all(INVISIBLE, "").str.normalize("NFKC").str.replace_all(r"\s+", " ")
    return plain.str.strip_chars(" ,").str.to_lowercase()


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Names with as many words that are no known places: surnames in the letter case of the value;
    words such as street and county stay."""
    _, lasts = name_pools()
    return redraw_words(values, draws, lasts, lasts, _FIXED_WORDS)


KIND = Kind(
    name="LOCATION",
    about="a place, from a list or a model",
    category="place",
    field_names=tuple(
        (
            "city|town|village|municipality|county|place|place of birth|birthplace|"
            "stadt|ort|wohnort|ville|ciudad|cidade|citta|woonplaats|miasto|miejscowosc|"
            "城市|市区町村|"
            "hometown|home town|place of residence|geburtsort|lieu de naissance|"
            "lugar de nacimiento|local de nascimento|luogo di nascita|geboorteplaats|"
            "miejsce urodzenia|出生地|出身地"
        ).split("|")
    ),
    aliases=(
        "LOC",
        "GPE",
        "FAC",
        "FACILITY",
        "ADDRESS",
        "CITY",
        "STATE",
        "COUNTRY",
        "COUNTY",
        "STREET",
        "ZIPCODE",
    ),
    pattern="",
    normalise=normalise_proper_noun,
    make_surrogates=_make_surrogates,
    is_distinctive=is_distinctive,
    certain_length=12,
    not_preceded_by=ASCII_ALPHANUMERICS,
    not_followed_by=ASCII_ALPHANUMERICS,
    rank=91,
    hits=(("we met in Upper Riverton again", "Upper Riverton"),),
    near_misses=("Rivertonian, Riverside",),
)
