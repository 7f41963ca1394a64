"""Numbers of documents and registers: passports, driving licences, identity cards, tax numbers;
reported from a user's list or by a model, since without their context they look like any number.
There is no pattern: national identifiers with a check are kinds of their own.

Normalised form: letters in capitals and digits, without separators.
"""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import Kind, redraw_characters


def normalise_number(values: pl.Series) -> pl.Series:
    """Normalised numbers: letters in capitals and digits, without separators."""
    return values.str.normalize("NFKC").str.replace_all(r"[^\p{L}\p{N}]", "").str.to_uppercase()


def is_distinctive(values: pl.DataFrame) -> pl.Series:
    """True for numbers of seven characters or more with letters and digits, and for nine digits or
    more: a shorter one is a number of something else in other places."""
    numbers = values["normalised"]
    has_both = numbers.str.contains(r"\p{L}") & numbers.str.contains("[0-9]")
    return (has_both & (numbers.str.len_chars() >= 7)) | numbers.str.contains(r"\A[0-9]{9,}\z")


def make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Numbers of the same shape: each letter and digit redrawn within its class. No range of them
    is reserved for examples."""
    return redraw_characters(values, draws)


KIND = Kind(
    name="ID_NUMBER",
    about="a number of a passport, licence, identity card or taxpayer, from a list or a model",
    category="identifier",
    aliases=(
        *(
            "PASSPORT",
            "PASSPORTNUM",
            "PASSPORTNUMBER",
            "DRIVERS_LICENSE",
            "DRIVER_LICENSE",
            "DRIVERLICENSENUM",
        ),
        *("GOVERNMENT_ID", "GOVERNMENTID", "IDCARDNUM", "ID_NUM", "IDNUM"),
        *(
            "TAX_ID",
            "TAXNUM",
            "VEHICLEVIN",
            "VEHICLEVRM",
            "MEDICALRECORD",
            "MEDICAL_RECORD_NUMBER",
            "MASKEDNUMBER",
        ),
    ),
    pattern="",
    normalise=normalise_number,
    make_surrogates=make_surrogates,
    is_distinctive=is_distinctive,
    rank=93,
    hits=(
        ("passport K12345678, issued 2019", "K12345678"),
        ("licence D123-4567-8901.", "D123-4567-8901"),
    ),
    near_misses=("K123456789 and XD123-4567-8901",),
)
