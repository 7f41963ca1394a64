"""Germany: tax identification numbers (ISO 7064 MOD 11,10; among the first ten digits, one digit
occurs two or three times and the others at most once)."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8, Mask
from sanitize.core.keys import Draws
from sanitize.kinds.countries.national_id import (
    character_values,
    make_national_id,
    passes_mod11_10,
)
from sanitize.kinds.kind import DIGITS, draw_indices


def _is_valid(rows: U8) -> Mask:
    value = character_values(rows)
    times = (
        np.stack([(value[:, :10] == digit).sum(axis=1) for digit in range(10)], axis=1)
        if len(rows)
        else np.zeros((0, 10), np.int64)
    )
    repeated = (times >= 2).sum(axis=1)
    thrice = (value[:, :8] == value[:, 1:9]) & (value[:, 1:9] == value[:, 2:10])
    good: Mask = (
        passes_mod11_10(rows)
        & (repeated == 1)
        & (times.max(axis=1, initial=0) <= 3)
        & ~thrice.any(axis=1)
    )
    return np.asarray(good & (value[:, 0] != 0))


def _draw_characters(rows: U8, draws: Draws) -> U8:
    """The rows with their first ten places drawn: a permutation of the ten digits in which one
    digit replaces another."""
    keys = np.column_stack([draws.u64(20 + column) for column in range(10)])
    rows[:, :10] = 48 + np.argsort(keys, axis=1)
    row_numbers = np.arange(len(rows))
    rows[row_numbers, draw_indices(draws, 30, 10)] = rows[row_numbers, draw_indices(draws, 31, 10)]
    return rows


KINDS = (
    make_national_id(
        name="DE_TAX_ID",
        about="a German tax identification number",
        country="DE",
        bare_pattern="[1-9][0-9]{10}|[1-9][0-9](?: [0-9]{3}){3}",
        labels=(
            "Steuer-ID",
            "Steuer-IdNr.",
            "IdNr.",
            "Steueridentifikationsnummer",
            "Identifikationsnummer",
        ),
        is_valid=_is_valid,
        alphabets=[b"123456789", *[DIGITS] * 10],
        draw_characters=_draw_characters,
        check_length=1,
        first_bytes=b"123456789ISis",
        hits=(
            ("86095742719", "86095742719"),
            ("86 095 742 719", "86 095 742 719"),
            ("Steuer-ID: 47036892816", "47036892816"),
        ),
        near_misses=(
            "86095742718",
            "12345678901",
            "11111111111",
        ),
    ),
)
