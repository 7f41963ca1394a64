"""Web and FTP addresses: `http(s)://`, `ftp://` or `www.` and the ASCII characters of RFC 3986 up to a blank, quote or bracket.

Punctuation at the end belongs to the sentence. Identity: scheme and host in lower case, all else as written.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BOUND, WORD, Kind, joined, reshaped

# The last byte of a URL; also what may not follow one. The match is greedy, so none of these ever follows a URL the finder took:
# the rule only keeps `http://example.com/b` from being seen inside `http://example.com/bc`
_LAST = WORD + b"-~/#@$&*+=%"
_PARTS = (
    r"\A(?<scheme>(?:[A-Za-z]+://)?)(?<user>(?:[^/?#@]*@)?)(?<www>(?:[Ww][Ww][Ww][.])?)(?<host>\[[^/?#\]]*\]|[^/?#:]*)(?<rest>[\s\S]*)\z"
)


def _normalise(values: pl.Series) -> pl.Series:
    odd = values.str.contains("[A-Z]|[^\\x00-\\x7f]")
    if not odd.all():
        return values.clone().scatter(odd.arg_true(), _normalise(values.filter(odd))) if odd.any() else values
    lower = [pl.col(name).str.to_lowercase() for name in ("scheme", "www", "host")]
    return _parts(values).select(pl.concat_str(lower[0], "user", lower[1], lower[2], "rest").alias(values.name)).to_series()


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Letters and digits drawn anew; scheme, `www.`, top-level domain, port and percent escapes stay. `reserved` makes the host one
    label under `.example` (RFC 2606)."""
    flat, offsets = joined(values)
    parts = _parts(values).select(
        scheme=pl.col("scheme").str.len_bytes(),
        user=pl.col("user").str.len_bytes(),
        www=pl.col("www").str.len_bytes(),
        host=pl.col("host").str.len_bytes(),
        tld=pl.col("host").str.extract(r"[.]([A-Za-z]+)[.]?\z").str.len_bytes().fill_null(0),
        port=pl.col("rest").str.extract(r"\A(:[0-9]*)").str.len_bytes().fill_null(0),
    )
    size = {name: parts[name].to_numpy().astype(np.int64) for name in parts.columns}
    site = offsets[:-1] + size["scheme"] + size["user"]
    stop = site + size["www"] + size["host"]
    # how many kept ranges are open at each byte: +1 where one begins, -1 where it ends
    step = np.zeros(len(flat) + 1, np.int64)
    for begin, end in (
        (offsets[:-1], offsets[:-1] + size["scheme"]),
        (site, site + size["www"]),
        (stop - size["tld"], stop + size["port"]),
    ):
        np.add.at(step, begin, 1)
        np.add.at(step, end, -1)
    keep = np.cumsum(step[:-1]) > 0
    percent = np.flatnonzero(flat == ord("%"))
    for byte in (1, 2):
        keep[percent[percent + byte < len(flat)] + byte] = True
    made = reshaped(values, draws, keep)
    if not reserved:
        return made
    label = pl.col("host").str.replace_all("[^A-Za-z]", "").str.head(63)
    host = pl.when(label == "").then(pl.lit("site")).otherwise(label) + ".example"
    return _parts(made).select(pl.concat_str("scheme", "user", "www", host, "rest").alias(values.name)).to_series()


def _parts(values: pl.Series) -> pl.DataFrame:
    return values.str.extract_groups(_PARTS).struct.unnest()


KIND = Kind(
    name="URL",
    about="a web or FTP address",
    pattern=rf"{BOUND}(?:[Hh][Tt][Tt][Pp][Ss]?://|[Ff][Tt][Pp]://|[Ww][Ww][Ww][.][A-Za-z0-9])[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*[A-Za-z0-9_~/#@$&*+=%-]",
    normalise=_normalise,
    fake=_fake,
    not_after=_LAST,
    rank=30,
)
