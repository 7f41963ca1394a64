"""Germany: tax identification numbers (ISO 7064 MOD 11,10; of the first ten digits one stands twice or three times, the others once at
most)."""

from __future__ import annotations

import numpy as np

from sanitize.core.keys import Draws
from sanitize.kinds.countries.national_id import DIGITS, Bools, mod11_10, number, values_of, words
from sanitize.kinds.kind import U8, drawn


def _sound(rows: U8) -> Bools:
    value = values_of(rows)
    times = np.stack([(value[:, :10] == digit).sum(axis=1) for digit in range(10)], axis=1) if len(rows) else np.zeros((0, 10), np.int64)
    repeated = (times >= 2).sum(axis=1)
    thrice = (value[:, :8] == value[:, 1:9]) & (value[:, 1:9] == value[:, 2:10])
    good: Bools = mod11_10(rows) & (repeated == 1) & (times.max(axis=1, initial=0) <= 3) & ~thrice.any(axis=1)
    return np.asarray(good & (value[:, 0] != 0))


def _make(rows: U8, draws: Draws) -> U8:
    """The ten digits in some order, one of them in the place of another."""
    keys = np.column_stack([draws.u64(20 + column) for column in range(10)])
    rows[:, :10] = 48 + np.argsort(keys, axis=1)
    every = np.arange(len(rows))
    rows[every, drawn(draws, 30, 10)] = rows[every, drawn(draws, 31, 10)]
    return rows


KINDS = (
    number(
        name="DE_TAX_ID",
        about="a German tax identification number",
        country="DE",
        alone="[1-9][0-9]{10}|[1-9][0-9](?: [0-9]{3}){3}",
        named=words("Steuer-ID", "Steuer-IdNr.", "IdNr.", "Steueridentifikationsnummer", "Identifikationsnummer"),
        sound=_sound,
        alphabets=[b"123456789", *[DIGITS] * 10],
        make=_make,
        tail=1,
    ),
)
