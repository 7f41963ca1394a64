"""Web and FTP addresses, and those of repositories: `http(s)://`, `ftp://`, `sftp://`, `ssh://`,
`git://`, `git+ssh://`, `svn+ssh://`, `rsync://` or `www.` and the characters of RFC 3986 up to a
blank, quote or bracket, and the letters that browsers show in place of percent escapes
(`/wiki/Jürgen`), of scripts that separate words with blanks: in a Chinese sentence a URL ends where
the script changes.

A URL is searched for values of other kinds, but not in a Message-ID that is part of it: a generated
one (`/4.3.2.7.2.20010412101010.00b5b960@mail.example.com`), and in the link of an archive
(`https://lore.example.org/r/87a7j1x2y3.fsf@example.com/`) one with four digits that do not end the
name. The sender's address in an id of `git send-email` is found.

Punctuation at the end belongs to the sentence. Normalised form: scheme and host in lower case, all
else as written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from string import ascii_letters, digits

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BOUNDARY,
    Kind,
    flatten_strings,
    redraw_characters,
    reserve_hosts,
)
from sanitize.kinds.message_id import is_generated, is_patch_id
from sanitize.kinds.plain_forms import UNBRACKETED, PlainForm

# The bytes a URL may end with; also those that may not follow one. The match is greedy, so none of
# these ever follows a URL that the finder reported: the rule only prevents that
# `http://example.com/b` is matched inside `http://example.com/bc`
_LAST_BYTES = ASCII_WORD_CHARS + b"-~/#@$&*+=%"
_ASCII, _LAST_ASCII = r"A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%", "A-Za-z0-9_~/#@$&*+=%"
# Latin beyond ASCII, Greek and Cyrillic, with their marks, without the signs of multiplication and
# division
_LETTERS = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u052f\u1e00-\u1fff"
_CHARS, _LAST_CHAR = f"[{_ASCII}-]", f"[{_LAST_ASCII}-]"
_ANY_CHARS, _ANY_LAST_CHAR = f"[{_ASCII}{_LETTERS}-]", f"[{_LAST_ASCII}{_LETTERS}-]"
_REPOSITORY = "(?:sftp|ssh|git|rsync|(?:git|svn)[+]ssh)://"
_SPLIT_PATTERN = r"\A(?<scheme>(?:[A-Za-z+]+://)?)(?<user>(?:[^/?#@]*@)?)(?<www>(?:[Ww][Ww][Ww][.])?)(?<host>\[[^/?#\]]*\]|[^/?#:]*)(?<rest>[\s\S]*)\z"
# the characters of an address inside a part of a path or query, before and after its @
_BEFORE_AT, _AFTER_AT = (f"{ascii_letters}{digits}{marks}" for marks in (".!$'*+_~=%-", "._:[]-"))
_TO_PARTS = str.maketrans("/?#&;", "\n" * 5)
_ARCHIVE = (
    r"(?i)://(?:lore|lists?|lkml|archives?|mid|marc|patchwork|public-inbox|(?:www[.])?mail-archive)[.]|"
    r"[/?&](?:msg-?id|mid|msg|message-?id|r|d|id|lists?|archives?|all|lkml|linux-[a-z0-9-]+)[/=](?:%3C)?\z"
)


def _find_parts_with_at(url: str) -> Iterator[tuple[int, int]]:
    """The start and end of each address in a part of a path or query (no user name): after a slash
    or an equal sign, up to the end of the part, without the brackets %3C and %3E. Takes time linear
    in the length of the URL."""
    part_start = 0
    for part in url.translate(_TO_PARTS).split("\n"):
        start, part_start = part_start, part_start + len(part) + 1
        address = part[:-3] if part[-3:].upper() == "%3E" else part
        at = max(address.rfind("@"), address.rfind("%40"))
        after = address[at + (1 if address[at : at + 1] == "@" else 3) :]
        if at < 0 or not after or after.strip(_AFTER_AT):
            continue
        begin = len(address[:at].rstrip(_BEFORE_AT))
        if begin or url[start - 1 : start] != "/" or url[start - 2 : start - 1] == "/":
            # not the whole part, or the host
            begin = address.find("=", begin, at) + 1
            if not begin:
                continue
        if address[begin : begin + 3].upper() == "%3C":
            begin += 3
        if begin < at:
            yield start + begin, start + len(address)


def _find_opaque_parts(values: pl.Series) -> list[tuple[int, int, int]]:
    """The Message-IDs in URLs: the row, start and end (bytes) of each."""
    # a loop over the few distinct URLs with an @
    rows = values.str.contains("@|%40").arg_true().to_list()
    found = [(row, values[row], *span) for row in rows for span in _find_parts_with_at(values[row])]
    if not found:
        return []
    table = pl.DataFrame(
        {
            "before": [url[:start] for _, url, start, _ in found],
            "id": [url[start:end] for _, url, start, end in found],
        }
    )
    local = pl.col("id").str.replace("(?:@|%40)[^@]*\\z", "")
    in_archive = pl.col("before").str.contains(_ARCHIVE) & (local.str.count_matches("[0-9]") >= 4)
    in_archive &= ~local.str.contains(r"\A[A-Za-z._+-]*[0-9]+\z")
    is_id = table.select(
        (is_generated(local) | in_archive) & ~is_patch_id(pl.col("id").str.replace("%40", "@"))
    ).to_series()
    return [
        (row, start, end)
        for (row, _, start, end), is_opaque in zip(found, is_id, strict=True)
        if is_opaque
    ]


def _normalise(values: pl.Series) -> pl.Series:
    not_plain = values.str.contains("[A-Z]|[^\\x00-\\x7f]")
    if not not_plain.all():
        return (
            values.clone().scatter(not_plain.arg_true(), _normalise(values.filter(not_plain)))
            if not_plain.any()
            else values
        )
    lower = [pl.col(name).str.to_lowercase() for name in ("scheme", "www", "host")]
    return (
        _split(values)
        .select(pl.concat_str(lower[0], "user", lower[1], lower[2], "rest").alias(values.name))
        .to_series()
    )


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """URLs with redrawn letters and digits; scheme, `www.`, port and percent escapes are kept. The
    host has as many labels, the last of which is `example` (RFC 2606), whatever `reserved` says: a
    drawn domain could belong to somebody."""
    flat, offsets = flatten_strings(values)
    parts = _split(values).select(
        scheme=pl.col("scheme").str.len_bytes(),
        user=pl.col("user").str.len_bytes(),
        www=pl.col("www").str.len_bytes(),
        host=pl.col("host").str.len_bytes(),
        port=pl.col("rest").str.extract(r"\A(:[0-9]*)").str.len_bytes().fill_null(0),
    )
    size = {name: parts[name].to_numpy().astype(np.int64) for name in parts.columns}
    site = offsets[:-1] + size["scheme"] + size["user"]
    host_end = site + size["www"] + size["host"]
    # how many kept ranges are open at each byte: +1 where one begins, -1 where it ends
    step = np.zeros(len(flat) + 1, np.int64)
    for begin, end in (
        (offsets[:-1], offsets[:-1] + size["scheme"]),
        (site, site + size["www"]),
        (host_end, host_end + size["port"]),
    ):
        np.add.at(step, begin, 1)
        np.add.at(step, end, -1)
    keep = np.cumsum(step[:-1]) > 0
    percent = np.flatnonzero(flat == ord("%"))
    for byte in (1, 2):
        keep[percent[percent + byte < len(flat)] + byte] = True
    return (
        _split(redraw_characters(values, draws, keep))
        .select(
            pl.concat_str("scheme", "user", "www", reserve_hosts("host"), "rest").alias(values.name)
        )
        .to_series()
    )


def _split(values: pl.Series) -> pl.DataFrame:
    """The columns scheme, user (with @), www, host and rest; joined they are the value."""
    return values.str.extract_groups(_SPLIT_PATTERN).struct.unnest()


KIND = Kind(
    name="URL",
    about="a web or FTP address",
    category="resource",
    field_names=tuple(
        (
            "url|urls|uri|uris|link|links|href|website|web site|homepage|home page|"
            "permalink|web page|webpage|web address|webseite|internetseite|site web|"
            "sitio web|pagina web|sito web|strona internetowa|网址|網址|ウェブサイト|"
            "ホームページ"
        ).split("|")
    ),
    aliases=("URL_PERSONAL",),
    pattern=rf"{BOUNDARY}(?:[Hh][Tt][Tt][Pp][Ss]?://|[Ff][Tt][Pp]://|{_REPOSITORY}|[Ww][Ww][Ww][.][A-Za-z0-9{_LETTERS}]){_ANY_CHARS}*{_ANY_LAST_CHAR}",
    normalise=_normalise,
    anchors=("://", *("".join(letters) + "." for letters in itertools.product("wW", repeat=3))),
    make_surrogates=_make_surrogates,
    find_opaque_parts=_find_opaque_parts,
    not_followed_by=_LAST_BYTES,
    plain_forms=(
        PlainForm(
            pattern=rf"(?:(?:https?|ftp)://|www[.][a-z0-9])[a-z0-9.-]*[a-z0-9-](?::[0-9]+)?(?:[/#]|[/?#]{_CHARS}*{_LAST_CHAR})?",
            marks=UNBRACKETED,
        ),
    ),
    rank=30,
    first_bytes=b"FHWfghrsw",
    hits=(
        (
            "see http://www.example.com/people/anna?id=42",
            "http://www.example.com/people/anna?id=42",
        ),
        ("see http://www.example.com/a_b?q=1#top.", "http://www.example.com/a_b?q=1#top"),
        ("(HTTPS://Example.com/x)", "HTTPS://Example.com/x"),
        (
            "www.example.org, ftp://ftp.example.com/pub!",
            "www.example.org",
            "ftp://ftp.example.com/pub",
        ),
        ('<a href="http://example.com/x">', "http://example.com/x"),
        ("<http://example.com/x>", "http://example.com/x"),
        ("http://user:pw@example.com/", "http://user:pw@example.com/"),
        ("git clone ssh://git@example.com/x.git", "ssh://git@example.com/x.git"),
        ("http://example.com/b谢谢", "http://example.com/b"),
        ("https://example.com/wiki/Jürgen_Groß.", "https://example.com/wiki/Jürgen_Groß"),
        (
            "http://müller.example/ñ?q=Ελένη#Ива, www.öko.example",
            "http://müller.example/ñ?q=Ελένη#Ива",
            "www.öko.example",
        ),
    ),
    near_misses=(
        "http:// https:// www. ftp://",
        "medium.com/@bob.smith example.com/x",
    ),
)
