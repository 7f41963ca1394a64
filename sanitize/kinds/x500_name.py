"""Names of the directories that mail programs had before addresses: `/O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=ALEE` (X.500, as Exchange writes
it), and `Ann Lee/HOU/EXAMPLE@EXAMPLE` (Lotus Notes, which leaves the `CN=` out).

They name a person as an address does, without an `@` that an address would have. A name between `<` and `>` may hold blanks; one that
stands free ends at the first blank of its last part, as nothing else tells its end. Identity: without regard to letter case and
folded lines.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BOUND, Kind, joined, reshaped

_KEY = "(?:[Oo]|[Oo][Uu]|[Cc][Nn]|[Cc]|[Aa]|[Pp]|[Ss]|[Gg]|[Dd][Cc])="
_TEXT = r"(?:[A-Za-z0-9&()'.,+_-]|\r?\n?[ \t])"  # a folded line goes on after a blank
_LAST = "[A-Za-z0-9][A-Za-z0-9&'._+-]*"
# every part begins with a letter or digit, so that a name is one as soon as it has two, and no search for its end runs on in vain
_EXCHANGE = rf"/[Oo]=(?:[A-Za-z0-9]{_TEXT}*/{_KEY})+"
# no bounds on how often: counted letters in every capitalised word made the engine's tables too large to be kept
_UNIT = "[A-Z][A-Za-z0-9_&-]+"
_NOTES = rf"{BOUND}[A-Z][A-Za-z'.-]*(?: [A-Z][A-Za-z'.-]*)+(?:/{_UNIT})+@{_UNIT}"


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.replace_all(r"[ \t\r\n]+", " ").str.to_lowercase()


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Letters and digits drawn anew; the keys (`/OU=`) and the punctuation stay. No range is reserved."""
    flat, _ = joined(values)
    padded = np.concatenate([flat, np.zeros(1, np.uint8)])
    keep = np.zeros(len(flat), np.bool_)
    equal = padded[1:] == ord("=")
    letter = (flat | 32 >= 97) & (flat | 32 <= 122)
    keep |= letter & equal  # the last letter of a key, and the one before it where there are two
    keep[:-1] |= letter[:-1] & keep[1:]
    return reshaped(values, draws, keep)


KIND = Kind(
    name="X500_NAME",
    about="a name in a mail system's directory, as Exchange or Lotus Notes writes it",
    pattern=rf"<{_EXCHANGE}{_TEXT}+>|{_EXCHANGE}{_LAST}|{_NOTES}",
    accepts=lambda candidates: candidates["value"].str.contains(rf"\A(?:{_EXCHANGE}{_TEXT}+|{_NOTES})\z"),
    normalise=_normalise,
    fake=_fake,
    rank=65,
)
