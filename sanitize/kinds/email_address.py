"""Mail addresses: bare or between `<` and `>`, in ASCII or any other alphabet, and in the forms people hide them in.

Identity: letter case, dots at either end of the local part and at the end of the host do not count, nor does how the address is hidden
(`bob at example dot com`), broken by quoted-printable or sprinkled with characters that nobody sees; a host in punycode is the same as in
its own letters (IDNA 2008). Everything else does count, so `kenneth..lay@example.com` and `kenneth.lay@example.com` are two, and provider
rules (dots, plus tags) are not applied.

`=` is no part of a bare local part, so `=20` behind and `email=` before an address stay out. `=3D`, and escapes of blanks and brackets
before a letter, are what quoted-printable left in a text that nobody decoded: they are cut off, and a soft line break (`=` and a line
end) joins what it parts. Between brackets any single-@ candidate that MESSAGE_ID did not claim is an address: `<bob@corp>`,
`<.bob@example.com>`. Local parts may hold Latin, Greek and Cyrillic letters, hosts any: Chinese and Japanese text is written up to an
address without a blank, and is no part of it.

Hidden forms must say both: `at` and `dot` as words, with a top-level domain that is no English word; or `at` between brackets; or `@` and
`dot`. Local parts and hosts that read like prose (`look at the dot com boom`, `find us at example dot com`) are refused (`words`). `at`
alone, as mail archives write it (`bob at example.com`), says an address between `<` and `>`, in brackets, behind the name of a header
field, on a line of its own (with a usual top-level domain), and where an mbox opens a mail (`From bob at example.com  Mon Jan  1 ...`);
elsewhere it is prose. So is `bob @ example.com`. An `@` may be an entity (`&#64;`), behind a backslash, as programs quote it, or
quoted-printable (`=40`, before a letter and with a usual top-level domain: `id=40fa.html` is none), and a local part may be quoted
(`"bob"@example.com`).
"""

from __future__ import annotations

import functools
import unicodedata

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.keys import Draws, pick
from sanitize.kinds.kind import BOUND, Kind, first_in, joined, last_in, reshaped, table_of

_LETTERS = r"A-Za-z0-9_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0300-\u036f\u0370-\u052f"  # Latin, accents, Greek, Cyrillic
_ANY = r"A-Za-z0-9_\u00b7\u00c0-\u1fff\u3040-\ud7ff"  # ... and every other script of letters
_UNSEEN = r"\u00ad\u200b-\u200d\u2060\ufeff"  # soft hyphen, zero-width characters
_BREAK = r"=\r?\n"  # quoted-printable
_OPEN, _SHUT = r" ?[\[({<] ?", r" ?[\])}>]"
_DOTS = rf"(?: (?:dot|DOT|Dot) |{_OPEN}(?:dot|DOT|Dot|[.]){_SHUT} ?)"
# A bound on the separators, not on the length: without one, a long unbroken run would be searched to its end again from every
# number in it; a bound on the length costs up to nine tenths of the speed on real mail (states). Of a local part with more
# separators the end is found.
_SEPARATOR = rf"(?:[.%+'&~#{_UNSEEN}-]|{_BREAK})"
_ESCAPED = "=(?:09|0A|0D|20|22|27|28|2C|3A|3B|3C|5B)"
_FIRST = rf"(?:(?:=3D|{BOUND})[A-Za-z0-9_]|{_ESCAPED}[A-Za-z]|[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f])"
_LOCAL = rf"{_FIRST}[{_LETTERS}]*(?:{_SEPARATOR}+[{_LETTERS}]+){{0,16}}{_SEPARATOR}*"
_ENTITY = "&(?:#64|#[xX]40|commat);"
_CODED = rf"%40|=40|\\@|{_ENTITY}"  # in a URL, quoted-printable, a program, HTML
_AT = rf"(?:[@\uff20]|%40|{_OPEN}(?:at|AT|At|@){_SHUT} ?)"
_LABEL = rf"[A-Za-z0-9\u00c0-\u1fff\u3040-\ud7ff](?:[{_ANY}{_UNSEEN}-]|{_BREAK})*"
_DOT = rf"(?:[.](?:{_BREAK})?|[\uff0e\u3002]|{_OPEN}(?:dot|DOT|Dot|[.]){_SHUT} ?)"
_TLD = (
    r"(?:[Xx][Nn]--[A-Za-z0-9-]*[A-Za-z0-9]|[A-Za-z][A-Za-z]+|"
    # the country codes that are not in ASCII (IANA root zone): Cyrillic and Greek ones by their letters, others by name, as text goes on
    r"[\u0370-\u03ff]{2}|[\u0400-\u04ff]{2,}|中国|中國|香港|台湾|台灣|新加坡|澳門|公司|网络|网址|在线|한국|भारत|ไทย|السعودية|امارات|مصر|ایران|ישראל|გე)"
)
_WORDS = (  # no word of a language that a sentence goes on with, as in, is, it, me, to, us ... would be
    "(?:com|org|net|edu|gov|mil|info|biz|name|io|ai|dev|app|uk|de|fr|es|nl|pl|se|fi|dk|ch|ca|au|nz|jp|cn|kr|br|ru|cz|eu|ie|mx|za|"
    "COM|ORG|NET|EDU|GOV|Com|Org|Net|Edu)"
)
_PLAIN = "[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_HOST = "(?:[A-Za-z0-9-]+[.])+[A-Za-z][A-Za-z]+"
_WRITTEN = rf"{_LOCAL}{_AT}(?:{_LABEL}{_DOT})+{_TLD}"
# `bob at example dot com`, `bob dot lee at mail dot example dot co dot uk`, `bob@example dot com`
_SAID = "(?:dot|DOT|Dot)"
_SPOKEN = (
    rf"{BOUND}[A-Za-z0-9_]+(?:(?:[._+-]| {_SAID} )[A-Za-z0-9_]+){{0,4}}(?: (?:at|AT|At) |@)"
    rf"(?:[A-Za-z0-9-]+(?:[.]| {_SAID} )){{0,3}}[A-Za-z0-9-]+ {_SAID} {_WORDS}{BOUND}"
)
# `<bob at example.com>`, `(bob at example.com)`, `From: bob at example.com`: what stands around is asked later (`_context`), and `www` is
# no host here, as the candidate would take a URL along
_AWAY = "(?:[A-VX-Za-vx-z0-9-]|[Ww][A-VX-Za-vx-z0-9-])[A-Za-z0-9.-]*[.][A-Za-z][A-Za-z]+"
# one for each sign: a pattern with one literal within is looked for by that
_SIGNED = tuple(f"{_PLAIN} {sign} {_AWAY}" for sign in ("at", "@"))
_ARCHIVED = f"{_PLAIN} (?:at|@) {_AWAY}"
_LEAD = "(?:<|[(] ?|[mMoOcCrR]: ?)"  # of a field's name its last letter: `X-Virus-Scanned: amavisd-new at` is in most mails
_TRAIL = r"(?:[>)\s,;:\"'|]|\z)"  # what ends it, so that `(me at ann.lee@example.com)` holds no `me at ann.lee`
# a line of its own: in small letters, with a usual top-level domain
_OWN = rf" (?:at|@) (?:[a-z0-9-]+[.])+{_WORDS}"
_END = r"[ \t]*[\r\n]"
_GATE = (  # with what a text must hold for each form
    ((" dot | DOT | Dot ",), _SPOKEN),
    (
        (rf"=40|\\@|{_ENTITY}",),
        rf"{BOUND}[A-Za-z0-9_]+(?:[.+-][A-Za-z0-9_]+){{0,8}}(?:=40|\\@|{_ENTITY}){_HOST}",
    ),
    *((("[<(:] ?" + form, _LEAD + form + _TRAIL), _LEAD + form + _TRAIL) for form in _SIGNED),
    (("From " + _ARCHIVED,), "From " + _ARCHIVED + _TRAIL),
    ((_OWN + _END,), rf"{BOUND}[a-z0-9_][a-z0-9_.+-]*{_OWN}{_END}"),
    ((), rf"{_WRITTEN}|\"[A-Za-z0-9._+-]+\"@{_HOST}"),  # no blanks between quotes: a quotation would be searched to its end
)
_FIELD = r"(?:\A|\n)[> ]*(?i:from|to|cc|bcc|reply-to|sender|author): ?\z"
_OPENING = (r"(?:\A|\n)>*From \z", r"\A {1,2}(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z][a-z] ")  # of a mail in an mbox, around it
# what a value holds that is not in its plain form, but for capitals
_ODD = r"""[^!-~]|[\[(){}"&\\]|[%=]40|[Xx][Nn]--|<|>"""
_DOTTED = r"\A[.]|[.]@|[.]\z"
_PROSE = (  # before `at`, in a sentence about a place on the web
    "us me it him her them you we i they one people out up more online here there now today find found visit see seen look looked looking "
    "is are be was were been available site website page web info information details shop live watch check meet met work works working "
    "worked arrive arrived more located hosted posted published listed sold held based available staff anyone someone those"
)
_PLACES = "the a an this that these those any every each some all my your his her our their no another what which".split()
_ASSETS = "png|jpe?g|gif|svg|webp|avif|bmp|ico|tiff?|pdf|css|js|mjs|json|map|html?|woff2?|ttf|eot"  # none of them a top-level domain
_LETTER = table_of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + bytes(range(128, 256)))  # those of other alphabets too
_ALNUM = _LETTER | table_of(b"0123456789")
_COMMON = ("com", "org", "net", "edu", "gov", "info", "biz")  # a fake keeps these and the two-letter ones


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """What the pattern matches from end to end, with or without what says that `at` is an `@`, and anything with a single @ between
    brackets."""
    whole = pl.col("value").str.contains(rf"\A(?:{KIND.pattern}|{_ARCHIVED})\z")
    return candidates.select(whole | (pl.col("bracketed") & pl.col("value").str.contains(r"\A[^@]+@[^@]+\z"))).to_series()


def _check(values: pl.Series) -> pl.Series:
    """`file_name` for `icon@2x.png`, `lib@3.1.min.js` and their like; `remote` for `git@example.com`, where programs log in; `words` for a
    hidden form that is prose."""
    asset = values.str.contains(rf"@[0-9][0-9.]*[Xx]?(?:[.]min)?[.](?:{_ASSETS})\z")
    remote = values.str.contains(r"\Agit@")
    hidden = values.str.contains(" ", literal=True)
    prose = pl.select(pl.lit(False)).to_series()
    if hidden.any():
        said = values.str.to_lowercase().str.extract_groups(r"\A(.*?) (?:at|@) ([^ .]+)").struct.unnest()
        ordinary = said.to_series(0).is_in(_PROSE.split()) | said.to_series(1).is_in(_PLACES)
        prose = hidden & ordinary.fill_null(False)
    escape = values.str.contains("=40", literal=True)
    if escape.any():
        prose |= escape & ~values.str.contains(rf"[^=]=40[A-Za-z][^@]*[.]{_WORDS}\z|@")
    reason = pl.when(asset).then(pl.lit("file_name")).when(remote).then(pl.lit("remote")).when(prose).then(pl.lit("words"))
    return pl.select(reason).to_series()


def _doubtful(values: pl.Series) -> pl.Series:
    """What has `at`, or `@` between blanks, alone."""
    alone = values.str.contains(" (?:at|@) ")
    return alone & values.str.contains(rf"\A{_ARCHIVED}\z") if alone.any() else alone


def _context(seen: pl.DataFrame) -> pl.Series:
    """Between brackets of one sort, behind the name of a header field, on a line of its own, or where an mbox opens a mail."""
    before, after = pl.col("before"), pl.col("after")
    angles = before.str.ends_with("<") & after.str.starts_with(">")
    brackets = before.str.ends_with("(") & after.str.starts_with(")")
    opening = before.str.contains(_OPENING[0]) & after.str.contains(_OPENING[1])
    own = before.str.contains(r"(?:\A|\n)[> \t|]*\z") & after.str.contains(rf"\A{_END}")
    own &= pl.col("value").str.contains(rf"\A[a-z0-9_.+-]+{_OWN}\z")
    return seen.select(angles | brackets | before.str.contains(_FIELD) | opening | own).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    rows = values.str.contains(rf"{_ODD}|{_DOTTED}|[A-Z]").arg_true()
    if not len(rows):
        return values  # most are, in one look
    some = values.gather(rows)
    odd = some.str.contains(_ODD).arg_true()
    if len(odd):
        some = some.scatter(odd, _plain(some.gather(odd)))
    some = some.str.to_lowercase()
    dotted = some.str.contains(_DOTTED).arg_true()
    if len(dotted):
        bare = some.gather(dotted).str.replace(r"\A[.]+", "").str.replace(r"[.]+@", "@").str.replace(r"[.]+\z", "")
        some = some.scatter(dotted, bare)
    return values.clone().scatter(rows, some)


def _plain(values: pl.Series) -> pl.Series:
    """The addresses as mail programs write them: with `@` and dots, in composed letters, their hosts not in punycode."""
    frame = pl.DataFrame({"value": values.str.normalize("NFKC")})
    frame = frame.with_columns(
        pl.col("value")
        .str.replace_all(rf"[{_UNSEEN}]|{_BREAK}", "")
        .str.replace_all(rf"{_ENTITY}|\\@", "@")
        .str.replace('\\A"(.*)"', "${1}")
        .str.replace_all(_DOTS, ".")
        .str.replace(rf"{_OPEN}(?:at|AT|At|@){_SHUT} ?| (?:at|AT|At|@) ", "@")
        .str.replace_all("\u3002", ".", literal=True)
        .str.to_lowercase()
        .str.normalize("NFKC")  # letters and accents may compose once they are small
    )
    plain = frame["value"]
    plain = pl.select(pl.when(plain.str.contains("@", literal=True)).then(plain).otherwise(plain.str.replace("[%=]40", "@"))).to_series()
    coded = plain.str.contains(r"(?i:@(?:.*[.])?xn--)").arg_true()
    # a loop over distinct values with punycode in them, which are few: it has no columnar form
    return plain.scatter(coded, [_unicode(value) for value in plain.gather(coded)]) if len(coded) else plain


def _unicode(value: str) -> str:
    """An address whose host's labels are in their own letters, as far as they can be."""
    local, _, host = value.rpartition("@")
    labels = []
    for label in host.lower().split("."):
        try:
            own = label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
        except UnicodeError:
            own = label
        # no label that would be read otherwise the next time
        kept = own.isascii() or own != unicodedata.normalize("NFKC", own).lower() or not own.replace("-", "").isalnum()
        labels.append(label if kept else own)
    return f"{local}@{'.'.join(labels)}"


def _split(values: pl.Series) -> pl.DataFrame:
    """`lead first sep last at domain dot tld`; joined in this order they are the value.

    `first` is the leading run of letters and digits, `sep` all that stands between it and the next one, `last` the rest. `domain`
    is the host without its last label; `dot` and `tld` are empty for hosts that do not end in a name.
    """
    hidden = ~values.str.contains("@", literal=True) | values.str.contains(rf"{_OPEN}|{_DOTS}| @ |\\")
    if hidden.any() and not hidden.all():
        rows, others = hidden.arg_true(), (~hidden).arg_true()
        both = pl.concat([_split_hidden(values.gather(rows)), _split(values.gather(others))])
        return both[pl.concat([rows, others]).arg_sort()]
    if hidden.any():
        return _split_hidden(values)
    flat, offsets = joined(values)
    starts, stops = offsets[:-1], offsets[1:]
    alone = _ALNUM[flat]
    at = last_in(flat == ord("@"), starts, stops)
    after = np.minimum(at + 1, stops)
    at = at - ((at > starts) & (flat[at - 1] == ord('"')))  # the quote that ends a local part goes with the sign
    first = first_in(alone, starts, at)
    sep = first_in(~alone, first, at)
    last = first_in(alone, sep, at)
    # the host ends in a name where the last byte that no name holds is a dot, and a letter follows
    odd = last_in(~alone & (flat != ord("-")), after, stops)
    padded = np.append(flat, np.zeros(2, np.uint8))
    named = (odd < stops) & (padded[odd] == ord(".")) & (odd + 1 < stops) & _LETTER[padded[odd + 1]]
    dot, tld = np.where(named, odd, stops), np.where(named, odd + 1, stops)
    edges = np.column_stack([starts, first, sep, last, at, after, dot, tld]).ravel()
    pieces = pa.LargeStringArray.from_buffers(len(edges), pa.py_buffer(np.append(edges, offsets[-1])), pa.py_buffer(flat))
    names = ("lead", "first", "sep", "last", "at", "domain", "dot", "tld")
    return pl.DataFrame({name: pieces.take(pa.array(np.arange(number, len(edges), 8))) for number, name in enumerate(names)})


def _split_hidden(values: pl.Series) -> pl.DataFrame:
    """The same columns of addresses that are spelled out: `at` and `dot` are as they are written."""
    at = rf"{_OPEN}(?:at|AT|At|@){_SHUT} ?| (?:at|AT|At|@) |{_CODED}|[@\uff20]"
    dot = rf"{_DOTS}|[.\uff0e\u3002]"
    letter = r"A-Za-z0-9\x{80}-\x{10ffff}"
    lead = rf"(?<lead>[^{letter}]*)(?<first>[{letter}]*)"
    local = rf"(?<sep>(?: (?:dot|DOT|Dot) |[^{letter} @])*)(?<last>.*?)"
    pattern = rf"(?s)\A{lead}{local}(?<at>{at})(?:(?<domain>.*?)(?<dot>{dot})(?<tld>[A-Za-z\x{{80}}-\x{{10ffff}}]+)|(?<whole>.*?))\z"
    parts = values.str.extract_groups(pattern).struct.unnest()
    unread = parts["at"].is_null()  # nothing to be taken apart: one piece
    return parts.select(
        "lead",
        pl.when(pl.Series(unread)).then(pl.Series(values)).otherwise("first").alias("first"),
        "sep",
        "last",
        "at",
        pl.coalesce("domain", "whole").alias("domain"),
        "dot",
        "tld",
    ).fill_null("")


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
        pl.Series("site", np.array(_COMMON[:3], object)[pick(tld_bits, 3)], pl.String),
    )
    sign = pl.when(pl.col("dot") == "").then(pl.lit(".")).otherwise("dot")
    tld = pl.col("tld").str.to_lowercase()
    kept = tld.is_in(_COMMON) | tld.str.contains(r"\A[a-z]{2}\z")
    dotted = pl.col("domain").str.contains(".", literal=True) | (pl.col("dot") != "")
    host = pl.concat_str(
        _cased(pl.col("new_domain"), pl.col("domain")),
        pl.when(dotted)
        .then(sign + pl.when(kept).then(pl.col("tld")).otherwise(_cased(pl.col("new_tld"), pl.col("tld"))))
        .otherwise(pl.lit("")),
    )
    safe = pl.when(dotted).then(pl.lit("example") + sign + pl.col("site")).otherwise(pl.col("new_domain") + ".example")
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
    pattern="|".join(form for _, form in _GATE),
    gate=_GATE,
    doubtful=_doubtful,
    context=_context,
    accepts=_accepts,
    check=_check,
    normalise=_normalise,
    fake=_fake,
    parts=("first", "last", "domain", "tld"),
    split=_split,
    # `bob@example.com2nd` and `bob@example.com_x` hold an address all the same
    not_after=b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    lead=f"=3D|{_ESCAPED}|{_LEAD}|From ",
    trail=rf"[ \t]*{_TRAIL}",
    rank=20,
)
