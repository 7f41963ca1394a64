"""Replaces dates by their years, ages by ten-year ranges (`90 or more` above 89), and values of
other kinds by their labels.

A date without a year of four digits becomes its label; a year alone stays what it is. The rules for
dates and ages are those of the Safe Harbor list (45 CFR 164.514(b)(2)), ages in ranges throughout.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.part_protocols import EditBatch, Editor, OccurrenceEdits
from sanitize.kinds.kind import all_kinds

_DATES, _AGE = ("DATE_TIME", "DATE_OF_BIRTH"), "AGE"
_YEAR = r"(?:\A|[^0-9])((?:1[6-9]|20)[0-9]{2})(?:[^0-9]|\z)"
_OLDEST_RANGE = 90  # ages from here on are one range: 45 CFR 164.514(b)(2)(i)(C)


class Generalize(Editor):
    """Settings: `kinds` only."""

    keep: Literal[0] = 0

    @property
    def action(self) -> str:
        """Years for dates, ranges for ages, labels for the rest."""
        return "dates replaced by their years, ages by ten-year ranges, all others by labels"

    def describe_staying(self, kind: str) -> str:
        """Years of dates."""
        return "the year of a date" if kind in _DATES else ""

    def edit_occurrences(self, batch: EditBatch) -> OccurrenceEdits:
        """A replacement for every occurrence."""
        frame = batch.occurrences.select(pl.col("kind").cast(pl.String), "value")
        label = "[" + pl.col("kind") + "]"
        replacements = frame.select(
            pl.when(pl.col("kind").is_in(_DATES))
            .then(pl.col("value").str.extract(_YEAR))
            .when(pl.col("kind") == _AGE)
            .then(_age_ranges(frame))
            .fill_null(label)
        ).to_series()
        return OccurrenceEdits(np.arange(frame.height), to_large_string(replacements))


def _age_ranges(frame: pl.DataFrame) -> pl.Series:
    """`60 to 69` for 64, `90 or more` from 90; null where a value is not the number of an age."""
    is_age = frame["kind"] == _AGE
    ages = all_kinds()[_AGE].normalise(
        pl.select(pl.when(is_age).then(frame["value"]).otherwise(pl.lit(""))).to_series()
    )
    low = ages.cast(pl.Int64, strict=False) // 10 * 10
    text = low.cast(pl.String) + " to " + (low + 9).cast(pl.String)
    return pl.select(
        pl.when(low >= _OLDEST_RANGE).then(pl.lit(f"{_OLDEST_RANGE} or more")).otherwise(text)
    ).to_series()
