"""Directory names of mail systems: `/O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=ALEE` (X.500, as Exchange
writes it) and `Ann Lee/HOU/EXAMPLE@EXAMPLE` (Lotus Notes, which omits the `CN=`).

They identify a person like a mail address does, but do not have its form. A name between `<` and
`>` may contain blanks; without brackets it ends at the first blank of its last component, since
nothing else marks its end. Normalised form: ignores letter case and folded lines.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    BOUNDARY,
    CAPITALS,
    Alternative,
    Kind,
    flatten_strings,
    redraw_characters,
)

_KEY = "(?:[Oo]|[Oo][Uu]|[Cc][Nn]|[Cc]|[Aa]|[Pp]|[Ss]|[Gg]|[Dd][Cc])="
_PART_CHAR = r"(?:[A-Za-z0-9&()'.,+_-]|\r?\n?[ \t])"  # a folded line continues after a blank
_LAST_PART = "[A-Za-z0-9][A-Za-z0-9&'._+-]*"
# every component begins with a letter or digit, so that a name matches as soon as it has two, and
# no failed search runs far ahead
_EXCHANGE_NAME = rf"/[Oo]=(?:[A-Za-z0-9]{_PART_CHAR}*/{_KEY})+"
# repetitions have no bounds: counted letters in every capitalised word made the tables of the regex
# engine too large for its cache
_NOTES_UNIT = "[A-Z][A-Za-z0-9_&-]+"
_NOTES_NAME = (
    rf"{BOUNDARY}[A-Z][A-Za-z'.-]*(?: [A-Z][A-Za-z'.-]*)+(?:/{_NOTES_UNIT})+@{_NOTES_UNIT}"
)
_ALTERNATIVES = (
    Alternative(
        rf"<{_EXCHANGE_NAME}{_PART_CHAR}+>|{_EXCHANGE_NAME}{_LAST_PART}", literals=("/O=", "/o=")
    ),
    Alternative(
        _NOTES_NAME,
        literals=tuple(f"@{letter}" for letter in CAPITALS.decode()),
        conditions=(rf"/{_NOTES_UNIT}@[A-Z]",),
    ),
)


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all(r"[ \t\r\n]+", " ").str.to_lowercase()


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Names with redrawn letters and digits; the keys (`/OU=`) and the punctuation are kept.
    `reserved` has no effect: no range is reserved."""
    flat, _ = flatten_strings(values)
    padded = np.concatenate([flat, np.zeros(1, np.uint8)])
    keep = np.zeros(len(flat), np.bool_)
    equal = padded[1:] == ord("=")
    letter = (flat | 32 >= 97) & (flat | 32 <= 122)
    keep |= letter & equal  # the last letter of a key, and the one before it where there are two
    keep[:-1] |= letter[:-1] & keep[1:]
    return redraw_characters(values, draws, keep)


KIND = Kind(
    name="X500_NAME",
    about="a name in a mail system's directory, as Exchange or Lotus Notes writes it",
    category="account",
    pattern="|".join(alternative.pattern for alternative in _ALTERNATIVES),
    alternatives=_ALTERNATIVES,
    accepts=lambda candidates: candidates["value"].str.contains(
        rf"\A(?:{_EXCHANGE_NAME}{_PART_CHAR}+|{_NOTES_NAME})\z"
    ),
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    rank=65,
    first_bytes=CAPITALS + b"/<",
    hits=(
        (
            "</O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=AKOWAL4711>",
            "/O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=AKOWAL4711",
        ),
        (
            "Lee, Ann </O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=ALEE>,",
            "/O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=ALEE",
        ),
        ("cc: Ann Lee/HOU/EXAMPLE@EXAMPLE, Bo", "Ann Lee/HOU/EXAMPLE@EXAMPLE"),
    ),
    near_misses=("/O=EXAMPLE /usr/CN=x and/or@home",),
)
