"""Hardware addresses (EUI-48): six pairs of hexadecimal digits with colons or hyphens, or three
groups of four with dots (`00a1.b2c3.d4e5`).

A longer sequence is a fingerprint and is refused (`groups`). One without a letter may be a time or
a serial number and is refused too (`digits`): about 4 in 1000 real addresses have no letter. All
zeros and all ones are assigned to no device (`reserved`). Normalised form: the twelve digits in
lower case.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BOUNDARY,
    DIGITS,
    Kind,
    draw_indices,
    from_byte_matrix,
    to_byte_matrix,
)

_PAIR, _QUAD = "[0-9A-Fa-f]{2}", "[0-9A-Fa-f]{4}"
_PAIRS = f"{_PAIR}(?:(?::{_PAIR}){{5,}}|(?:-{_PAIR}){{5,}})"


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for pairs, and for three groups of four; four groups of four may be a payment card."""
    return candidates["value"].str.contains(rf"\A(?:{_PAIRS}|{_QUAD}(?:[.]{_QUAD}){{2}})\z")


def _check(values: pl.Series) -> pl.Series:
    """`groups`, `reserved` or `digits` (see the module docstring), else null."""
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


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Addresses with all digits redrawn, in the separators and letter case of the value. A
    multicast or locally administered address stays one. `reserved`: 00-00-5E-00-53-00 to FF (RFC
    7042)."""
    rows = to_byte_matrix(values)
    is_digit = (rows != 0) & ~np.isin(rows, list(b":-."))
    place = np.where(is_digit, np.cumsum(is_digit, axis=1) - 1, -1)
    value = np.where(rows >= 65, (rows | 32) - 87, rows - 48).astype(np.int64)
    nibbles = np.column_stack([draw_indices(draws, lane, 16) for lane in range(12)])
    second = (
        value[np.arange(len(rows)), np.argmax(place == 1, axis=1)]
        if len(rows)
        else np.empty(0, np.int64)
    )
    # the two lowest bits of the first octet: multicast, locally administered
    nibbles[:, 1] = nibbles[:, 1] & 12 | second & 3
    if reserved:
        nibbles[:, :10] = [0, 0, 0, 0, 5, 14, 0, 0, 5, 3]
    without_letter = np.flatnonzero((nibbles < 10).all(axis=1))
    nibbles[without_letter, 11] = 10 + draw_indices(draws, 12, 6)[without_letter]
    upper = np.asarray(((rows >= 65) & (rows <= 70)).any(axis=1))
    letters = np.where(nibbles < 10, 48 + nibbles, np.where(upper[:, None], 55, 87) + nibbles)
    out = np.where(
        place >= 0, np.take_along_axis(letters, np.clip(place, 0, 11), axis=1), rows
    ).astype(np.uint8)
    return from_byte_matrix(out, values.name)


KIND = Kind(
    name="MAC_ADDRESS",
    about="the hardware address of a network interface",
    category="network",
    field_names=tuple(
        (
            "mac|mac addr|mac address|hardware address|hwaddr|ethernet address|bssid|"
            "mac adresse|adresse mac|direccion mac|endereco mac|indirizzo mac|mac adres|"
            "adres mac|mac地址|macアドレス"
        ).split("|")
    ),
    aliases=("MAC",),
    pattern=rf"{BOUNDARY}(?:{_PAIRS}|{_QUAD}(?:[.]{_QUAD}){{2,3}}){BOUNDARY}",
    accepts=_accepts,
    accepts_in_field=lambda values: values.str.contains(rf"\A(?:{_PAIR}[:. -]?){{5}}{_PAIR}\z"),
    check=_check,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    not_preceded_by=ASCII_WORD_CHARS + b".:-",
    not_followed_by=ASCII_WORD_CHARS + b":-",
    phase=2,
    digit_lines_only=True,
    rank=41,
    first_bytes=DIGITS + b"ABCDEFabcdef",
    hits=(
        ("HWaddr 00:1b:44:11:3a:b7", "00:1b:44:11:3a:b7"),
        ("HWaddr 00:1A:2b:3c:4d:5e, 00-1a-2b-3c-4d-5e.", "00:1A:2b:3c:4d:5e", "00-1a-2b-3c-4d-5e"),
        ("001a.2b3c.4d5e", "001a.2b3c.4d5e"),
    ),
    near_misses=(
        "00:1a:2b:3c:4d 1234.5678 10:20:30:40:50:60",
        "aa:bb:cc:dd:ee:ff:00:11",
        "00:00:00:00:00:00 ff:ff:ff:ff:ff:ff",
    ),
)
