"""Mail addresses in ASCII, bare or between `<` and `>`.

Identity: letter case, dots at either end of the local part and at the end of the host do not count; everything else does, so
`kenneth..lay@example.com` and `kenneth.lay@example.com` are two, and provider rules (dots, plus tags) are not applied.

`=` is no part of a bare local part, so quoted-printable `=20` behind and `email=` before an address stay out (of `=3Dbob@` the `3D`
remains: nothing tells it from a name). Between brackets any single-@ candidate that MESSAGE_ID did not claim is an address:
`<bob@corp>`, `<.bob@example.com>`.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.keyed import Draws, pick
from sanitize.kinds.kind import BOUND, Kind, first_in, joined, last_in, reshaped, table_of

# A bound on the separators, not on the length: without one, a long unbroken run would be searched to its end again from every
# number in it; a bound on the length costs up to nine tenths of the speed on real mail (states). Of a local part with more
# separators the end is found.
_LOCAL = rf"{BOUND}[A-Za-z0-9_]+(?:[.%+'&~#-]+[A-Za-z0-9_]+){{0,16}}[.%+'&~#-]*"
_TLD = r"(?:[Xx][Nn]--[A-Za-z0-9-]*[A-Za-z0-9]|[A-Za-z][A-Za-z]+)"
_ASSETS = "png|jpe?g|gif|svg|webp|avif|bmp|ico|tiff?|pdf|css|js|mjs|json|map|html?|woff2?|ttf|eot"  # none of them a top-level domain
_LETTER = table_of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_ALNUM = _LETTER | table_of(b"0123456789")
_COMMON = ("com", "org", "net", "edu", "gov", "info", "biz")  # a fake keeps these and the two-letter ones


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """What the pattern matches from end to end, and anything with a single @ between brackets."""
    whole = pl.col("value").str.contains(rf"\A(?:{KIND.pattern})\z")
    return candidates.select(whole | (pl.col("bracketed") & pl.col("value").str.contains(r"\A[^@]+@[^@]+\z"))).to_series()


def _check(values: pl.Series) -> pl.Series:
    """`file_name` for `icon@2x.png`, `lib@3.1.min.js` and their like."""
    asset = values.str.contains(rf"@[0-9][0-9.]*[Xx]?(?:[.]min)?[.](?:{_ASSETS})\z")
    return pl.select(pl.when(asset).then(pl.lit("file_name"))).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    lower = values.str.to_lowercase()
    dotted = lower.str.contains(r"\A[.]|[.]@|[.]\z")
    if not dotted.any():
        return lower
    rows = dotted.arg_true()
    bare = lower.gather(rows).str.replace(r"\A[.]+", "").str.replace(r"[.]+@", "@").str.replace(r"[.]+\z", "")
    return lower.scatter(rows, bare)


def _split(values: pl.Series) -> pl.DataFrame:
    """`lead first sep last at domain dot tld`; joined in this order they are the value.

    `first` is the leading run of letters and digits, `sep` all that stands between it and the next one, `last` the rest. `domain`
    is the host without its last label; `dot` and `tld` are empty for hosts that do not end in a name.
    """
    flat, offsets = joined(values)
    starts, stops = offsets[:-1], offsets[1:]
    alone = _ALNUM[flat]
    at = last_in(flat == ord("@"), starts, stops)
    first = first_in(alone, starts, at)
    sep = first_in(~alone, first, at)
    last = first_in(alone, sep, at)
    # the host ends in a name where the last byte that no name holds is a dot, and a letter follows
    odd = last_in(~alone & (flat != ord("-")), np.minimum(at + 1, stops), stops)
    padded = np.append(flat, np.zeros(2, np.uint8))
    named = (odd < stops) & (padded[odd] == ord(".")) & (odd + 1 < stops) & _LETTER[padded[odd + 1]]
    dot, tld = np.where(named, odd, stops), np.where(named, odd + 1, stops)
    edges = np.column_stack([starts, first, sep, last, at, np.minimum(at + 1, stops), dot, tld]).ravel()
    pieces = pa.LargeStringArray.from_buffers(len(edges), pa.py_buffer(np.append(edges, offsets[-1])), pa.py_buffer(flat))
    names = ("lead", "first", "sep", "last", "at", "domain", "dot", "tld")
    return pl.DataFrame({name: pieces.take(pa.array(np.arange(number, len(edges), 8))) for number, name in enumerate(names)})


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """An address of the same parts: a first and a last name, two words for the domain, separators and letter case as they were.

    A single-part local becomes an initial and a last name; digits at the end of a part become other digits. Usual and two-letter
    top-level domains stay, others are drawn. The domain may exist; `reserved` gives one of RFC 2606 that cannot.
    """
    firsts, lasts, words = _stores()
    parts = _split(values)
    single = (parts["last"] == "").to_numpy()
    first_bits, last_bits = draws.pair(0)
    word_bits, more_bits = draws.pair(1)
    tld_bits, initial_bits = draws.pair(2)
    surname = lasts[pick(last_bits, len(lasts))]
    given = firsts[pick(first_bits, len(firsts))]
    initial = np.array(list("abcdefghijklmnopqrstuvwxyz"), object)[pick(initial_bits, 26)]
    domain = words[pick(word_bits, len(words))] + words[pick(more_bits, len(words))]
    tails = [
        reshaped(parts[name].str.extract(r"([0-9]*)\z").fill_null(""), draws, first_lane=lane)
        for name, lane in (("first", 8), ("last", 64))
    ]
    made = parts.with_columns(
        pl.Series("new_first", np.where(single, initial + surname, given), pl.String) + tails[0],
        pl.Series("new_last", np.where(single, "", surname), pl.String) + tails[1],
        pl.Series("new_domain", domain, pl.String),
        pl.Series("new_tld", np.array(_COMMON[:3], object)[pick(tld_bits, 3)], pl.String),
        pl.Series("site", np.array(["example.com", "example.net", "example.org"], object)[pick(tld_bits, 3)], pl.String),
    )
    tld = pl.col("tld").str.to_lowercase()
    kept = tld.is_in(_COMMON) | tld.str.contains(r"\A[a-z]{2}\z")
    dotted = pl.col("domain").str.contains(".", literal=True) | (pl.col("dot") != "")
    host = pl.concat_str(
        _cased(pl.col("new_domain"), pl.col("domain")),
        pl.when(dotted)
        .then(pl.lit(".") + pl.when(kept).then(pl.col("tld")).otherwise(_cased(pl.col("new_tld"), pl.col("tld"))))
        .otherwise(pl.lit("")),
    )
    safe = pl.when(dotted).then(pl.col("site")).otherwise(pl.col("new_domain") + ".example")
    local = pl.concat_str("lead", _cased(pl.col("new_first"), pl.col("first")), "sep", _cased(pl.col("new_last"), pl.col("last")), "at")
    return made.select(pl.concat_str(local, safe if reserved else host).alias(values.name)).to_series()


def _cased(new: pl.Expr, old: pl.Expr) -> pl.Expr:
    """`new` in the case of `old`: UPPER, Title or lower; a mixed case counts as lower."""
    upper = old.str.contains("[A-Z]") & ~old.str.contains("[a-z]") & (old.str.len_bytes() > 1)
    title = old.str.contains(r"\A[A-Z](?:[^A-Z]|\z)")
    return (
        pl.when(upper)
        .then(new.str.to_uppercase())
        .when(title)
        .then(new.str.slice(0, 1).str.to_uppercase() + new.str.slice(1))
        .otherwise(new)
    )


@functools.cache
def _stores() -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """First names, last names and words in plain ASCII, sorted, so that a draw means the same on every machine."""
    from faker.providers.lorem.en_US import Provider as Words
    from faker.providers.person.en_US import Provider as Names

    def plain(names: list[str]) -> npt.NDArray[np.object_]:
        lower = pl.Series(names, dtype=pl.String).str.to_lowercase().unique().sort()
        return lower.filter(lower.str.contains(r"\A[a-z]{3,12}\z")).to_numpy().astype(object)

    return plain(list(Names.first_names)), plain(list(Names.last_names)), plain(list(Words.word_list))


KIND = Kind(
    name="EMAIL_ADDRESS",
    about="a mail address",
    pattern=rf"{_LOCAL}@(?:[A-Za-z0-9][A-Za-z0-9_-]*[.])+{_TLD}",
    accepts=_accepts,
    check=_check,
    normalise=_normalise,
    fake=_fake,
    parts=("first", "last", "domain", "tld"),
    split=_split,
    # `bob@example.com2nd` and `bob@example.com_x` hold an address all the same
    not_after=b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    rank=20,
)
