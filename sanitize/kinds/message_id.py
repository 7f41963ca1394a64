"""Message-IDs: `<local@host>` as mail programs make them, in the three header fields that hold them or quoted anywhere else.

A candidate `<local@host>` may as well be a display address, `Bob <bob@example.com>`. Outside an id field it counts as a Message-ID
only where its local part looks made by a machine. The doubt goes to EMAIL_ADDRESS: plans leave Message-IDs more readily than
addresses, and an address taken for an id would stay. The rule looks at character classes only, so a fake passes where its original
did.

A colon stands only behind a digit, as several programs write it, so that of `<mailto:bob@example.com>` the address alone is taken.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import Kind, reshaped

_ATOM = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]"  # RFC 5322 atext and the dot


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """In an id field any single-@ candidate that does not read like a person's address; in an address field none; elsewhere those in
    brackets whose local part looks generated."""
    taken = np.zeros(candidates.height, np.bool_)
    # most candidates are neither, and most addresses in brackets have too few digits: the full rules are asked of the rest only
    value, local = pl.col("value"), pl.col("value").str.replace(r"@[^@]*\z", "")
    digits = value.str.contains(r"[$]|(?:[0-9][^0-9]*){6}") | (value.str.len_bytes() >= 40)
    asked = (pl.col("id_field") | pl.col("bracketed")) & ~pl.col("address_field")
    rows = candidates.select(asked.arg_true()).to_series()
    some = candidates[rows].with_columns(row=rows).filter(pl.col("id_field") | digits)
    some = some.filter((value.str.count_matches("@", literal=True) == 1) & ~value.str.contains(r"://|\A[Ww]{3}[.]"))
    # `In-Reply-To: Message from Bob Lee <bob.lee@example.com>`: what reads like a person's address is one there too
    person = (
        local.str.contains(r"\A[A-Za-z]+(?:[._-][A-Za-z]+)*[0-9]{0,2}\z") & (local.str.len_bytes() < 24) & value.str.contains(r"@.*[.]")
    )
    taken[some.filter(pl.col("id_field") & ~person)["row"].to_numpy()] = True
    taken[some.filter(~pl.col("id_field")).filter(_generated(value))["row"].to_numpy()] = True
    return pl.Series(taken)


def _generated(value: pl.Expr) -> pl.Expr:
    """True where the part before the @ is a machine's: a `$`, or sixteen characters with digits as no person would write them.

    The bounds let `first.last19850412`, telephone numbers of up to eleven digits and two of them joined pass as addresses; so do
    the addresses that Exchange wraps in a local part, `IMCEANOTES-Bob+20Mann+40corp`.
    """
    local = value.str.replace(r"@[^@]*\z", "")
    runs = local.str.count_matches("[0-9]+")
    mixed = runs >= 4  # uuids, hexadecimal blobs, the base64 of web mailers
    stamped = local.str.contains("[0-9]{14}") | (local.str.contains("[0-9]{12}") & (runs >= 2))  # a time down to the second
    numbered = local.str.count_matches(r"(?:\A|[.])[0-9]+(?-u:\b)") >= 3  # Pine.LNX.4.21.0010..., 5.1.0.14.2.2001...
    opaque = (local.str.len_bytes() >= 40) & (local.str.count_matches("[a-z0-9][A-Z]") >= 6)  # base64 with few digits
    long = (local.str.len_bytes() >= 16) & (local.str.count_matches("[0-9]") >= 6)
    made = local.str.contains("$", literal=True) | opaque | (long & (mixed | stamped | numbered))
    return made & ~local.str.contains(r"\AIMCEA")


def _normalise(values: pl.Series) -> pl.Series:
    """The id as it stands: RFC 5322 compares ids by case."""
    return values


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Letters and digits drawn anew, punctuation kept; `reserved` puts the host under `.example` (RFC 2606)."""
    shaped = reshaped(values, draws)
    return shaped + ".example" if reserved else shaped


KIND = Kind(
    name="MESSAGE_ID",
    about="the identifier of a mail, as in Message-ID, In-Reply-To and References",
    pattern=rf"<(?:{_ATOM}*[0-9]:)*{_ATOM}+@[A-Za-z0-9._:\[\]-]+>",
    accepts=_accepts,
    normalise=_normalise,
    fake=_fake,
    opaque=True,
    rank=10,
)
