"""Hardware addresses (EUI-48): six pairs of hexadecimal digits between colons or hyphens, or three fours between dots (`00a1.b2c3.d4e5`).

A longer run is a fingerprint (`groups`). One without a single letter may be a time or a serial number (`digits`): of real addresses
some 4 in 1000 look so. All zeros and all ones are nobody's (`reserved`). Identity: the twelve digits.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BOUND, WORD, Kind, drawn, grid, ungrid

_PAIR, _FOUR = "[0-9A-Fa-f]{2}", "[0-9A-Fa-f]{4}"
_PAIRS = f"{_PAIR}(?:(?::{_PAIR}){{5,}}|(?:-{_PAIR}){{5,}})"


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """Pairs, and three fours; four fours may be a payment card."""
    return candidates["value"].str.contains(rf"\A(?:{_PAIRS}|{_FOUR}(?:[.]{_FOUR}){{2}})\z")


def _check(values: pl.Series) -> pl.Series:
    plain = _normalise(values)
    return pl.select(
        pl.when(plain.str.len_bytes() != 12)
        .then(pl.lit("groups"))
        .when(plain.str.contains(r"\A(?:0{12}|f{12})\z"))
        .then(pl.lit("reserved"))
        .when(~plain.str.contains("[a-f]"))
        .then(pl.lit("digits"))
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all("[:.-]", "").str.to_lowercase()


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """All digits drawn anew, in the separators and letter case of the value; one for a group of stations, or given out locally, stays
    so. `reserved`: 00-00-5E-00-53-00 to FF (RFC 7042)."""
    rows = grid(values)
    is_digit = (rows != 0) & ~np.isin(rows, list(b":-."))
    place = np.where(is_digit, np.cumsum(is_digit, axis=1) - 1, -1)
    value = np.where(rows >= 65, (rows | 32) - 87, rows - 48).astype(np.int64)
    made = np.column_stack([drawn(draws, lane, 16) for lane in range(12)])
    second = value[np.arange(len(rows)), np.argmax(place == 1, axis=1)] if len(rows) else np.empty(0, np.int64)
    made[:, 1] = made[:, 1] & 12 | second & 3  # the two bits say what an address is for
    if reserved:
        made[:, :10] = [0, 0, 0, 0, 5, 14, 0, 0, 5, 3]
    wordless = np.flatnonzero((made < 10).all(axis=1))
    made[wordless, 11] = 10 + drawn(draws, 12, 6)[wordless]
    upper = np.asarray(((rows >= 65) & (rows <= 70)).any(axis=1))
    letters = np.where(made < 10, 48 + made, np.where(upper[:, None], 55, 87) + made)
    out = np.where(place >= 0, np.take_along_axis(letters, np.clip(place, 0, 11), axis=1), rows).astype(np.uint8)
    return ungrid(out, values.name)


KIND = Kind(
    name="MAC_ADDRESS",
    about="the hardware address of a network interface",
    pattern=rf"{BOUND}(?:{_PAIRS}|{_FOUR}(?:[.]{_FOUR}){{2,3}}){BOUND}",
    accepts=_accepts,
    check=_check,
    normalise=_normalise,
    fake=_fake,
    not_before=WORD + b".:-",
    not_after=WORD + b":-",
    turn=2,
    numeric=True,
    rank=41,
)
