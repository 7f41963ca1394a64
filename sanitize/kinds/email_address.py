"""Mail addresses: bare or between `<` and `>`, in ASCII or any other alphabet, and in the usual
obfuscated forms.

Normalised form: ignores letter case, dots at either end of the local part and at the end of the
host, obfuscation (`bob at example dot com`), quoted-printable line breaks and invisible characters;
a host in punycode equals the same host in its own letters (IDNA 2008). Everything else counts, so
`kenneth..lay@example.com` and `kenneth.lay@example.com` are two values, and provider rules (dots,
plus tags) are not applied.

`=` is not part of a bare local part, so `=20` after and `email=` before an address are left out;
nor are `_` before its first letter, which are marks of emphasis (`_bob@example.com_`), or `mail_`
and `email_` (`mail_bob@example.com`). `=3D`, and escapes of blanks and brackets before a letter,
are remains of quoted-printable in text that was not decoded: they are cut off, and the two sides of
a soft line break (`=` and a line end) are joined. Between brackets, any candidate with a single @
that MESSAGE_ID did not accept is an address: `<bob@corp>`, `<.bob@example.com>`. Local parts may
contain Latin, Greek and Cyrillic letters, hosts any letters: Chinese and Japanese text may precede
an address without a blank, and is no part of it.

Addresses inside others are values of their own, with the identity of the plain address: what is
around them is cut off and stays. These are the recipient in the sender of a bounce (VERP:
`list-bounces+bob=example.com@lists.example.net`, `list-return-12-bob=example.com@...`,
`prvs=0123456789=bob@example.com`), where the first host has a usual top-level domain; the address
that Exchange wraps (`IMCEASMTP-bob+2Emann+40example+2Ecom@...`,
`IMCEAEX-_O=EXAMPLE_CN=bob+40example+2Ecom@...`; a wrapped name without such an address is one value
with its wrapping); and the sender in a Message-ID of `git send-email`
(`20190401123456.123-1-bob@example.com`). In a link, `%40`, `%2540`, `%2B` and similar escapes stand
for their characters, and escapes of quotes, blanks and brackets before an address are cut off
(`%22bob%40example.com%22`).

An obfuscated address needs `at` and `dot` as words and a top-level domain that is no English word,
or `at` in brackets, or `@` and `dot`. Local parts and hosts that read like prose (`look at the dot
com boom`, `find us at example dot com`) are refused (`words`). `at` alone, as in mail archives
(`bob at example.com`), makes an address between `<` and `>`, in brackets, after the name of a
header field, on a line of its own (with a usual top-level domain), and in the From line of an mbox
(`From bob at example.com  Mon Jan  1 ...`); elsewhere it is prose. The same holds for `bob @
example.com`. The `@` may be an HTML entity (`&#64;`), preceded by a backslash, as in source code,
or quoted-printable (`=40`, before a letter and with a usual top-level domain: `id=40fa.html` is not
an address), and a local part may be quoted (`"bob"@example.com`).
"""

from __future__ import annotations

import functools
import unicodedata

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.array_types import I64
from sanitize.core.keys import Draws, draw_index
from sanitize.kernels import address_components
from sanitize.kinds.kind import (
    BEYOND_ASCII,
    BOUNDARY,
    DIGITS,
    LETTERS,
    Alternative,
    Kind,
    flatten_strings,
    redraw_characters,
)
from sanitize.kinds.message_id import PATCH_ID_PREFIX
from sanitize.kinds.plain_forms import LOWER_CASE, OUTSIDE_ID_FIELDS, UNMARKED, PlainForm

# Latin, accents, Greek, Cyrillic
_LOCAL_CHARS = r"A-Za-z0-9_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0300-\u036f\u0370-\u052f"
_HOST_CHARS = r"A-Za-z0-9_\u00b7\u00c0-\u1fff\u3040-\ud7ff"  # ... and every other script of letters
_INVISIBLE = r"\u00ad\u200b-\u200d\u2060\ufeff"  # soft hyphen, zero-width characters
_SOFT_LINE_BREAK = r"=\r?\n"  # quoted-printable
_OPEN_BRACKET, _CLOSE_BRACKET = r" ?[\[({<] ?", r" ?[\])}>]"
# `at` and `dot` between brackets, where they may be words of other languages
_AT_WORDS = (
    "at",
    "AT",
    "At",
    "ät",
    "ÄT",
    "Ät",
    "arroba",
    "ARROBA",
    "chiocciola",
    "małpa",
    "arobase",
)
_BRACKETED_AT = f"(?:{'|'.join(_AT_WORDS)}|@)"
_BRACKETED_DOT = "(?:dot|DOT|Dot|punkt|PUNKT|Punkt|punto|ponto|point|kropka|[.])"
_SPELLED_DOT = rf"(?: (?:dot|DOT|Dot) |{_OPEN_BRACKET}{_BRACKETED_DOT}{_CLOSE_BRACKET} ?)"
# The number of separators is bounded, not the length: without a bound, a long unbroken run would be
# searched to its end again from every number in it; a bound on the length costs up to nine tenths
# of the speed on real mail (automaton states). Of a local part with more separators, only the end
# is found.
_SEPARATOR = rf"(?:[.+'&~#{_INVISIBLE}-]|%(?:2[BDEbde]|5[Ff])|{_SOFT_LINE_BREAK})"
_ESCAPED_DELIMITER = "=(?:09|0A|0D|20|22|27|28|2C|3A|3B|3C|5B)"
# in a link: quotes, blanks, brackets, and & = / ? : ; ,
_URL_DELIMITER = "%(?:25){0,2}(?:09|0[AaDd]|2[0278CcFf]|29|3[A-Fa-f]|5[BbDd]|7[BbDd])"
_LOCAL_START = (
    rf"(?:(?:=3D|{BOUNDARY}|{_URL_DELIMITER})[A-Za-z0-9_]|{_ESCAPED_DELIMITER}[A-Za-z]|"
    r"[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f])"
)
_LOCAL_PART = rf"{_LOCAL_START}[{_LOCAL_CHARS}]*(?:(?:{_SEPARATOR}+|%[A-Za-z_])[{_LOCAL_CHARS}]+){{0,16}}{_SEPARATOR}*"  # noqa: E501
_AT_ENTITY = "&(?:#64|#[xX]40|commat);"
_ENCODED_AT = (  # in a URL, quoted-printable, a program, HTML
    rf"%(?:25){{0,2}}40|=40|\\@|{_AT_ENTITY}"
)
_AT_SIGN = rf"(?:[@\uff20]|%(?:25){{0,2}}40|{_OPEN_BRACKET}{_BRACKETED_AT}{_CLOSE_BRACKET} ?)"
_HOST_LABEL = (
    rf"[A-Za-z0-9\u00c0-\u1fff\u3040-\ud7ff](?:[{_HOST_CHARS}{_INVISIBLE}-]|{_SOFT_LINE_BREAK})*"
)
_HOST_DOT = rf"(?:[.](?:{_SOFT_LINE_BREAK})?|[\uff0e\u3002]|{_OPEN_BRACKET}{_BRACKETED_DOT}{_CLOSE_BRACKET} ?)"  # noqa: E501
_TLD = (
    r"(?:[Xx][Nn]--[A-Za-z0-9-]*[A-Za-z0-9]|[A-Za-z][A-Za-z]+|"
    # top-level domains beyond ASCII (IANA root zone): Cyrillic and Greek ones by script, others
    # listed, since text follows without a blank
    r"[\u0370-\u03ff]{2}|[\u0400-\u04ff]{2,}|中国|中國|香港|台湾|台灣|新加坡|澳門|公司|网络|网址|在线|한국|भारत|ไทย|السعودية|امارات|مصر|ایران|ישראל|გე)"
)
_USUAL_TLD = (  # without those that are words in a sentence, such as in, is, it, me, to, us
    "(?:com|org|net|edu|gov|mil|info|biz|name|io|ai|dev|app|uk|de|fr|es|nl|pl|se|fi|dk|ch|ca|au|nz|jp|cn|kr|br|ru|cz|eu|ie|mx|za|"
    "COM|ORG|NET|EDU|GOV|Com|Org|Net|Edu)"
)
_PLAIN_LOCAL_PART = "[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_PLAIN_HOST = "(?:[A-Za-z0-9-]+[.])+[A-Za-z][A-Za-z]+"
_PLAIN_ADDRESS = rf"{_LOCAL_PART}{_AT_SIGN}(?:{_HOST_LABEL}{_HOST_DOT})+{_TLD}"
# a word for an address, joined to one: `email_bob@example.com`
_LABEL = "(?:[Ee][_-]?)?(?:[Mm]ail(?:to)?|MAIL(?:TO)?)_+"
# ... of `PlainForm`: single separators, as in most addresses, and a host that begins with a letter
_ASCII_LOCAL_PART = "[A-Za-z0-9][A-Za-z0-9_]*(?:[.+-][A-Za-z0-9_]+){0,16}"
_ASCII_HOST = "[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*[.](?:[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*[.])*[A-Za-z]{2,}"  # noqa: E501
_NO_PLAIN_FORM = f"{PATCH_ID_PREFIX}[A-Za-z].*|IMCEA.*|{_LABEL}.*"
# `bob at example dot com`, `bob dot lee at mail dot example dot co dot uk`, `bob@example dot com`
_DOT_WORD = "(?:dot|DOT|Dot)"
_SPELLED_OUT_ADDRESS = (
    rf"{BOUNDARY}[A-Za-z0-9_]+(?:(?:[._+-]| {_DOT_WORD} )[A-Za-z0-9_]+){{0,4}}(?: (?:at|AT|At) |@)"
    rf"(?:[A-Za-z0-9-]+(?:[.]| {_DOT_WORD} )){{0,3}}[A-Za-z0-9-]+ {_DOT_WORD}"
    rf" {_USUAL_TLD}{BOUNDARY}"
)
# `<bob at example.com>`, `(bob at example.com)`, `From: bob at example.com`: `_has_context` checks
# the context later. A host must not begin with `www` here, as the candidate would include a URL
_ARCHIVE_HOST = "(?:[A-VX-Za-vx-z0-9-]|[Ww][A-VX-Za-vx-z0-9-])[A-Za-z0-9.-]*[.][A-Za-z][A-Za-z]+"
# an address inside another one, which is cut off on both sides
_COUNTRY_TLD = (  # without surnames of two letters, as `user=ann.li@example.com` is no bounce
    "at|be|bg|cl|cr|ee|gr|hk|id|il|in|ir|is|it|kz|lt|lv|me|my|no|pk|pt|rs|sg|si|sk|th|tr|tw|ua|us|vn"
)
_FURTHER_TLD = (
    "example|test|online|store|shop|site|xyz|club|cloud|tech|email|live|space|top|pro|world"
)
_BOUNCED_TLD = f"(?:{_USUAL_TLD}|{_COUNTRY_TLD}|{_FURTHER_TLD})"
_BOUNCED_RECIPIENT = rf"[A-Za-z0-9_][A-Za-z0-9_.'-]*=(?:[A-Za-z0-9-]+[.])+{_BOUNCED_TLD}"
_BOUNCE_WORD = "(?:[0-9]{5,}-[0-9a-f]{4}|return|bounces?|verp|[0-9]+)-"
_BOUNCE_PREFIX = rf"(?:[^@]*[=+])?(?:(?:[A-Za-z0-9_.-]*[._-])?{_BOUNCE_WORD})?"
_BATV_PREFIX = "(?:prvs|msprvs1|btv1)=[0-9A-Za-z:_-]*="
# Exchange: +40 is @, +2E a dot
_WRAPPED_ADDRESS = "(?:[A-Za-z0-9.'-]|[+](?:2[1-9A-Fa-f]|5[Ff]))+[+_]40(?:[A-Za-z0-9-]+(?:[+]2[Ee]|[.]))+[A-Za-z]{2,}"  # noqa: E501
_WRAPPING = r"IMCEA[A-Z0-9]{2,12}-"
# one form for each sign: the regex engine searches a pattern with one inner literal by that literal
_ARCHIVE_ADDRESS_FORMS = {
    sign: f"{_PLAIN_LOCAL_PART} {sign} {_ARCHIVE_HOST}" for sign in ("at", "@")
}
_ARCHIVE_ADDRESS = f"{_PLAIN_LOCAL_PART} (?:at|@) {_ARCHIVE_HOST}"
# of a field's name (From, To, Cc, Sender, E-mail), its last letter: `X-Virus-Scanned: amavisd-new
# at` is in most mails
_PREFIX = "(?:<|[(] ?|[lLmMoOcCrR]: ?)"
# what must follow, so that `(me at ann.lee@example.com)` does not contain `me at ann.lee`
_SUFFIX = r"(?:[>)\s,;:\"'|]|\z)"
# an address on a line of its own: in lower case, with a usual top-level domain
_OWN_LINE_HOST = rf" (?:at|@) (?:[a-z0-9-]+[.])+{_USUAL_TLD}"
_LINE_END = r"[ \t]*[\r\n]"
_QUOTED_WORD = "[A-Za-z0-9._+-]{1,32}"
_ALTERNATIVES = (
    Alternative(_SPELLED_OUT_ADDRESS, literals=(" dot ", " DOT ", " Dot ")),
    Alternative(
        rf"{BOUNDARY}[A-Za-z0-9_]+(?:[.+-][A-Za-z0-9_]+){{0,8}}(?:=40|\\@|{_AT_ENTITY}){_PLAIN_HOST}",
        literals=("=40", "\\@", "&#64;", "&#x40;", "&#X40;", "&commat;"),
    ),
    # a quoted local part with blanks
    Alternative(rf"\"{_QUOTED_WORD}(?: {_QUOTED_WORD}){{1,3}}\"@{_PLAIN_HOST}", literals=('"@',)),
    Alternative(rf"{BOUNDARY}{_WRAPPING}[A-Za-z0-9_.+=%/'&-]+@{_PLAIN_HOST}", literals=("IMCEA",)),
    *(
        Alternative(
            _PREFIX + form + _SUFFIX,
            literals=(f" {sign} ",),
            conditions=("[<(:] ?" + form, _PREFIX + form + _SUFFIX),
        )
        for sign, form in _ARCHIVE_ADDRESS_FORMS.items()
    ),
    Alternative(
        "From " + _ARCHIVE_ADDRESS + _SUFFIX,
        literals=("From ",),
        conditions=("From " + _ARCHIVE_ADDRESS,),
    ),
    Alternative(
        rf"{BOUNDARY}[a-z0-9_][a-z0-9_.+-]*{_OWN_LINE_HOST}{_LINE_END}",
        literals=(" at ", " @ "),
        conditions=(_OWN_LINE_HOST + _LINE_END,),
    ),
    # no blanks between quotes: otherwise every quotation would be searched to its end
    Alternative(
        rf"{BOUNDARY}{_BOUNCED_RECIPIENT}@[A-Za-z0-9]|{_PLAIN_ADDRESS}|\"[A-Za-z0-9._+-]+\"@{_PLAIN_HOST}"
    ),
)
_ANCHORS = (
    "@",
    "\uff20",
    "%40",
    "%2540",
    "%252540",
    *(f"{bracket}{blank}{at}" for bracket in "[({<" for blank in ("", " ") for at in _AT_WORDS),
)
_HEADER_FIELD = (
    r"(?:\A|\n)[> ]*(?i:from|to|cc|bcc|reply-to|sender|author): ?\z|"
    r"(?i:\be-?mail|(?:\A|\n)[> *-]*mail): ?\z"
)
# before and after it
_MBOX_FROM_LINE = (
    r"(?:\A|\n)>*From \z",
    r"\A {1,2}(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z][a-z] ",
)
# matches values that are not in plain form; upper case is handled separately
_NOT_PLAIN = (
    r"""[^!-~]|[\[(){}"&\\]|[%=]40|%2[5BDEbde]|%5[Ff]|[Xx][Nn]--|<|>|\A[^@]*(?:[+_]40|=)[^@]*\z"""
)
_EDGE_DOT = r"\A[.]|[.]@|[.]\z"
# of characters of addresses, in lower case
_URL_ESCAPES = {f"%{ord(sign):02x}": sign for sign in ".+-_~'&"}
_WRAPPING_ESCAPES = {f"+{ord(sign):02x}": sign for sign in ".+-_~'&"}
_PROSE_WORDS = (  # words before `at`, in a sentence about a web site
    "us me it him her them you we i they one people out up more online here there now today find"
    " found visit see seen look looked looking is are be was were been available site website page"
    " web info information details shop live watch check meet met work works working worked arrive"
    " arrived more located hosted posted published listed sold held based available staff anyone"
    " someone those"
)
_PROSE_DETERMINERS = (
    "the a an this that these those any every each some all my your his her our their no another"
    " what which".split()
)
# none of them a top-level domain
_FILE_EXTENSIONS = (
    "png|jpe?g|gif|svg|webp|avif|bmp|ico|tiff?|pdf|css|js|mjs|json|map|html?|woff2?|ttf|eot"
)
_RESERVED_TLDS = ("com", "net", "org")  # with `example` in front


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for what the pattern matches from end to end, with or without the context that makes
    `at` an `@`, and for anything with a single @ between brackets."""
    value = pl.col("value")
    accepted = candidates.select(
        value.str.contains(rf"\A{_PLAIN_LOCAL_PART}@{_PLAIN_HOST}\z")
        | (pl.col("bracketed") & value.str.contains(r"\A[^@]+@[^@]+\z"))
    ).to_series()
    rest = (~accepted).arg_true()
    if not len(rest):
        return accepted
    forms = rf"\A(?:{KIND.pattern}|{_ARCHIVE_ADDRESS}|{_BOUNCED_RECIPIENT}|{_WRAPPED_ADDRESS})\z"
    return accepted.scatter(rest, candidates["value"].gather(rest).str.contains(forms))


def _check(values: pl.Series) -> pl.Series:
    """`file_name` for `icon@2x.png`, `lib@3.1.min.js` and similar; `remote` for `git@example.com`,
    an account of programs; `words` for an obfuscated form that is prose; else null."""
    asset = values.str.contains(rf"@[0-9][0-9.]*[Xx]?(?:[.]min)?[.](?:{_FILE_EXTENSIONS})\z")
    remote = values.str.contains(r"\Agit@")
    hidden = values.str.contains(" ", literal=True)
    prose = pl.select(pl.lit(False)).to_series()
    if hidden.any():
        words_around_at = (
            values.str.to_lowercase()
            .str.extract_groups(r"\A(.*?) (?:at|@) ([^ .]+)")
            .struct.unnest()
        )
        ordinary = words_around_at.to_series(0).is_in(
            _PROSE_WORDS.split()
        ) | words_around_at.to_series(1).is_in(_PROSE_DETERMINERS)
        prose = hidden & ordinary.fill_null(False)
    escape = values.str.contains("=40", literal=True)
    if escape.any():
        prose |= escape & ~values.str.contains(rf"[^=]=40[A-Za-z][^@]*[.]{_USUAL_TLD}\z|@")
    reason = (
        pl.when(asset)
        .then(pl.lit("file_name"))
        .when(remote)
        .then(pl.lit("remote"))
        .when(prose)
        .then(pl.lit("words"))
    )
    return pl.select(reason).to_series()


def _needs_context(values: pl.Series) -> pl.Series:
    """True for addresses that only have `at`, or `@` between blanks."""
    alone = values.str.contains(" (?:at|@) ")
    return alone & values.str.contains(rf"\A{_ARCHIVE_ADDRESS}\z") if alone.any() else alone


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """True between a pair of brackets, after the name of a header field, on a line of its own, or
    in the From line of an mbox."""
    before, after = pl.col("before"), pl.col("after")
    angles = before.str.ends_with("<") & after.str.starts_with(">")
    brackets = before.str.ends_with("(") & after.str.starts_with(")")
    mbox_line = before.str.contains(_MBOX_FROM_LINE[0]) & after.str.contains(_MBOX_FROM_LINE[1])
    own_line = before.str.contains(r"(?:\A|\n)[> \t|]*\z") & after.str.contains(rf"\A{_LINE_END}")
    own_line &= pl.col("value").str.contains(rf"\A[a-z0-9_.+-]+{_OWN_LINE_HOST}\z")
    return candidates.select(
        angles | brackets | before.str.contains(_HEADER_FIELD) | mbox_line | own_line
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    """Plain form, lower case, without dots at the edges of the local part and at the end of the
    host; skips values that need no change."""
    rows = values.str.contains(rf"{_NOT_PLAIN}|{_EDGE_DOT}|[A-Z]").arg_true()
    if not len(rows):
        return values  # one regex pass; most columns are normalised already
    changed = values.gather(rows)
    encoded = changed.str.contains(_NOT_PLAIN).arg_true()
    if len(encoded):
        changed = changed.scatter(encoded, _to_plain(changed.gather(encoded)))
    changed = changed.str.to_lowercase()
    dotted = changed.str.contains(_EDGE_DOT).arg_true()
    if len(dotted):
        bare = (
            changed.gather(dotted)
            .str.replace(r"\A[.]+", "")
            .str.replace(r"[.]+@", "@")
            .str.replace(r"[.]+\z", "")
        )
        changed = changed.scatter(dotted, bare)
    return values.clone().scatter(rows, changed)


def _to_plain(values: pl.Series) -> pl.Series:
    """The addresses as mail programs write them: with `@` and dots, in composed letters, hosts
    decoded from punycode."""
    frame = pl.DataFrame({"value": values.str.normalize("NFKC")})
    frame = frame.with_columns(
        pl.col("value")
        .str.replace_all(rf"[{_INVISIBLE}]|{_SOFT_LINE_BREAK}", "")
        .str.replace_all(rf"{_AT_ENTITY}|\\@", "@")
        .str.replace('\\A"(.*)"', "${1}")
        .str.replace_all(_SPELLED_DOT, ".")
        .str.replace(rf"{_OPEN_BRACKET}{_BRACKETED_AT}{_CLOSE_BRACKET} ?| (?:at|AT|At|@) ", "@")
        .str.replace_all("\u3002", ".", literal=True)
        .str.to_lowercase()
        .str.normalize("NFKC")  # letters and accents may compose only in lower case
    )
    plain = frame["value"]
    escaped = plain.str.contains("%", literal=True).arg_true()
    if len(escaped):
        plain = plain.scatter(
            escaped,
            plain.gather(escaped).str.replace_all("%(?:25)+", "%").str.replace_many(_URL_ESCAPES),
        )
    inner = (~plain.str.contains("@", literal=True)).arg_true()
    if len(inner):
        plain = plain.scatter(inner, _unwrap(plain.gather(inner)))
    coded = plain.str.contains(r"(?i:@(?:.*[.])?xn--)").arg_true()
    # a loop over the few distinct values with punycode, which has no columnar form
    return (
        plain.scatter(coded, [_decode_punycode(value) for value in plain.gather(coded)])
        if len(coded)
        else plain
    )


def _unwrap(values: pl.Series) -> pl.Series:
    """Addresses without @ in lower case: quoted-printable, wrapped by Exchange, or the recipient of
    a bounce."""
    wrapped = values.str.contains("[+_]40")
    unwrapped = values.str.replace("[+_]40", "@").str.replace_many(_WRAPPING_ESCAPES)
    quoted = values.str.contains("[%=]40")
    bounced = values.str.replace(r"=([^=]*)\z", "@${1}")
    return pl.select(
        pl.when(wrapped)
        .then(unwrapped)
        .when(quoted)
        .then(values.str.replace("[%=]40", "@"))
        .otherwise(bounced)
    ).to_series()


def _decode_punycode(value: str) -> str:
    """The address with the punycode labels of its host decoded, as far as possible."""
    local, _, host = value.rpartition("@")
    labels = []
    for label in host.lower().split("."):
        try:
            decoded = (
                label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else label
            )
        except UnicodeError:
            decoded = label
        # keep the label if decoding it again would give another result
        kept = (
            decoded.isascii()
            or decoded != unicodedata.normalize("NFKC", decoded).lower()
            or not decoded.replace("-", "").isalnum()
        )
        labels.append(label if kept else decoded)
    return f"{local}@{'.'.join(labels)}"


def _locate_components(values: pl.Series) -> I64:
    """Where the components of addresses begin, and where each address ends; see
    `Kind.locate_components`.

    `first` is the first run of letters and digits, `sep` all characters up to the next run, escapes
    of a link among them (`%2B`), `last` the rest of the local part. `domain` is the host without
    its last label; `dot` and `tld` are empty for hosts that do not end in a name.
    """
    bounced = values.str.contains(r"\A[^@%&\\]*=[^=@]*\z") & ~values.str.contains(
        "=40", literal=True
    )
    if bounced.any():  # the sign has one byte, as the @
        values = values.clone().scatter(
            bounced.arg_true(), values.filter(bounced).str.replace("=", "@", literal=True)
        )
    flat, offsets = flatten_strings(values)
    edges, unusual = np.empty((len(values), 9), np.int64), np.empty(len(values), np.uint8)
    address_components.locate(flat, offsets, edges, unusual)
    rows = np.flatnonzero(unusual)
    if len(rows):
        candidates = values.gather(rows)
        is_obfuscated = ~candidates.str.contains("@", literal=True) | candidates.str.contains(
            rf"{_OPEN_BRACKET}|{_SPELLED_DOT}| @ |\\"
        )
        rows = rows[is_obfuscated.to_numpy()]
        sizes = (
            _split_obfuscated(values.gather(rows))
            .select(pl.all().str.len_bytes().cast(pl.Int64))
            .to_numpy()
        )
        edges[rows, 1:] = offsets[rows, None] + np.cumsum(sizes, axis=1)
    return edges


def _split_obfuscated(values: pl.Series) -> pl.DataFrame:
    """The components of obfuscated addresses, in order, as columns: `at` and `dot` are as
    written."""
    at = (
        rf"{_OPEN_BRACKET}{_BRACKETED_AT}{_CLOSE_BRACKET} ?| (?:at|AT|At|@)"
        rf" |{_ENCODED_AT}|[+_]40|[@\uff20]"
    )
    dot = rf"{_SPELLED_DOT}|[.\uff0e\u3002]|[+]2[Ee]"
    letter = r"A-Za-z0-9\x{80}-\x{10ffff}"
    # escapes of a link are signs, as for the kernel; `%40` is the at
    escape = "%(?:25)*[2357][0-9A-Fa-f]"
    lead = rf"(?<lead>(?:{escape}|[^{letter}])*)(?<first>[{letter}]*)"
    local = rf"(?<sep>(?: (?:dot|DOT|Dot) |[+]2[BDEbde]|{escape}|[^{letter} @])*)(?<last>.*?)"
    pattern = rf"(?s)\A{lead}{local}(?<at>{at})(?:(?<domain>.*?)(?<dot>{dot})(?<tld>[A-Za-z\x{{80}}-\x{{10ffff}}]+)|(?<whole>.*?))\z"  # noqa: E501
    parts = values.str.extract_groups(pattern).struct.unnest()
    unread = parts["at"].is_null()  # cannot be split: all in `first`
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


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Addresses of the same components: a first and a last name, two words for the domain,
    separators and letter case unchanged.

    A local part of one component becomes an initial and a last name; digits at the end of a
    component become other digits. The host lies in the reserved names of RFC 2606, whatever
    `reserved` says, since a drawn domain could belong to somebody: two words under `.example`, and
    a word for each further label, up to three. Where only a usual top-level domain makes an address
    of the text (`bob at corp dot com`), they are in front of `example.com`, `.net` or `.org`.
    """
    firsts, lasts, words = map(_component_pool, ("first_names", "last_names", "word_list"))
    parts = KIND.split_components(values)  # type: ignore[misc]
    single = (parts["last"] == "").to_numpy()
    first_bits, last_bits = draws.u32_pair(0)
    tld_bits, initial_bits = draws.u32_pair(2)
    surname = lasts[draw_index(last_bits, len(lasts))]
    given = firsts[draw_index(first_bits, len(firsts))]
    initial = np.array(list("abcdefghijklmnopqrstuvwxyz"), object)[draw_index(initial_bits, 26)]
    drawn = [*draws.u32_pair(1), *draws.u32_pair(3), draws.u32_pair(4)[0]]
    word, more, *labels = (words[draw_index(bits, len(words))] for bits in drawn)
    tails = [
        redraw_characters(
            parts[name].str.extract(r"([0-9]*)\z").fill_null(""), draws, first_lane=lane
        )
        for name, lane in (("first", 8), ("last", 64))
    ]
    frame = parts.with_columns(
        pl.Series("new_first", np.where(single, initial + surname, given), pl.String) + tails[0],
        pl.Series("new_last", np.where(single, "", surname), pl.String) + tails[1],
        pl.Series("words", word + more, pl.String),
        pl.Series("site", np.array(_RESERVED_TLDS, object)[draw_index(tld_bits, 3)], pl.String),
        *(pl.Series(f"label{n}", label, pl.String) for n, label in enumerate(labels)),
    )
    sign = pl.when(pl.col("dot") == "").then(pl.lit(".")).otherwise("dot")
    depth = pl.col("domain").str.count_matches(rf"{_SPELLED_DOT}|[.\uff0e\u3002]|[+]2[Ee]")
    further = pl.concat_str(
        pl.when((pl.col("dot") != "") & (depth > n))
        .then(_match_case(pl.col(f"label{n}"), pl.col("domain")) + sign)
        .otherwise(pl.lit(""))
        for n in range(len(labels))
    )
    tld_or_none = pl.when(pl.col("tld") != "").then("tld")
    tld = pl.col("tld").str.to_lowercase()
    is_plain = (pl.col("at") == "@") & pl.col("dot").is_in(["", "."])
    host = (
        pl.when(is_plain)
        .then(
            _match_case(pl.col("words"), pl.col("domain"))
            + sign
            + _match_case(pl.lit("example"), pl.coalesce(tld_or_none, "domain"))
        )
        .otherwise(
            pl.lit("example")
            + sign
            + pl.when(tld.is_in(_RESERVED_TLDS)).then("tld").otherwise("site")
        )
    )
    local = pl.concat_str(
        "lead",
        _match_case(pl.col("new_first"), pl.col("first")),
        "sep",
        _match_case(pl.col("new_last"), pl.col("last")),
        "at",
    )
    return frame.select(pl.concat_str(local, further, host).alias(values.name)).to_series()


def _match_case(new: pl.Expr, old: pl.Expr) -> pl.Expr:
    """`new` in the letter case of `old`: UPPER, Title or lower; mixed case counts as lower."""
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
def _component_pool(name: str) -> npt.NDArray[np.object_]:
    """The `first_names`, `last_names` or words (`word_list`) in plain ASCII, sorted, so that a draw
    gives the same on every machine; without words that make `at every dot` prose."""
    from faker.providers.lorem.en_US import Provider as Words
    from faker.providers.person.en_US import Provider as Names

    listed = list(getattr(Words if name == "word_list" else Names, name))
    lower = pl.Series(listed, dtype=pl.String).str.to_lowercase().unique().sort()
    lower = lower.filter(lower.str.contains(r"\A[a-z]{3,12}\z") & ~lower.is_in(_PROSE_DETERMINERS))
    return lower.to_numpy().astype(object)


KIND = Kind(
    name="EMAIL_ADDRESS",
    about="a mail address",
    category="contact",
    field_names=tuple(
        (
            "email|emails|e mail|mail|mail address|email address|e mail address|"
            "email addr|mailbox|correo|correo electronico|adresse mail|adresse e mail|"
            "adresse electronique|courriel|email adresse|e mail adresse|mail adresse|"
            "indirizzo email|indirizzo e mail|posta elettronica|endereco de email|"
            "endereco email|correio eletronico|emailadres|e mailadres|mailadres|"
            "adres email|adres e mail|邮箱|电子邮件|电子邮箱|郵箱|電子郵件|メール|"
            "メールアドレス|電子メール|"
            "email work|email home|email personal|email primary|email secondary"
        ).split("|")
    ),
    aliases=(
        "EMAIL",
        "EMAILADDRESS",
    ),
    pattern="|".join(alternative.pattern for alternative in _ALTERNATIVES),
    alternatives=_ALTERNATIVES,
    anchors=_ANCHORS,
    needs_context=_needs_context,
    context_rule=_has_context,
    accepts=_accepts,
    check=_check,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    components=("first", "last", "domain", "tld"),
    locate_components=_locate_components,
    # `bob@example.com2nd` and `bob@example.com_x` contain an address too
    not_followed_by=b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    prefix_pattern=(
        rf"({_BOUNCE_PREFIX}){_BOUNCED_RECIPIENT}@|({_WRAPPING}(?:[^@]*[=_])?){_WRAPPED_ADDRESS}(?:[+_]40[A-Za-z0-9]+)?@|"
        rf"({_BATV_PREFIX})[^=@]+@|({PATCH_ID_PREFIX})[A-Za-z][^@]*@[^@]+[.][A-Za-z]|"
        rf"((?:=3D|{_ESCAPED_DELIMITER}|{_PREFIX}|From"
        rf" |[^@]*{_URL_DELIMITER})?_*(?:{_LABEL})?)[^_@]"
    ),
    suffix_pattern=(
        rf"\A{_BOUNCE_PREFIX}{_BOUNCED_RECIPIENT}(@[^@]*)|"
        rf"\A{_WRAPPING}(?:[^@]*[=_])?{_WRAPPED_ADDRESS}((?:[+_]40[A-Za-z0-9]+)?@[^@]*)|(["
        rf" \t]*{_SUFFIX})"
    ),
    plain_forms=(
        PlainForm(
            pattern=rf"{_ASCII_LOCAL_PART}@{_ASCII_HOST}",
            unless=f"git@.*|{_NO_PLAIN_FORM}",
            marks=UNMARKED,
            normalised=LOWER_CASE,
        ),
        # between brackets only where it cannot be a Message-ID: with less than sixteen characters
        # before the @, or less than six digits
        PlainForm(
            pattern=rf"{_ASCII_LOCAL_PART}@{_ASCII_HOST}",
            unless=f"git@.*|.{{16,}}@.*|{_NO_PLAIN_FORM}",
            marks=OUTSIDE_ID_FIELDS,
            normalised=LOWER_CASE,
        ),
        PlainForm(
            pattern="[A-Za-z]+(?:[._-][A-Za-z]+)*[0-9]{0,5}@(?:[A-Za-z]+(?:-[A-Za-z]+)*[.])+[A-Za-z]{2,}",
            marks=OUTSIDE_ID_FIELDS,
            unless=f"git@.*|{_LABEL}.*",
            max_bytes=39,
            normalised=LOWER_CASE,
        ),
    ),
    rank=20,
    first_bytes=DIGITS + LETTERS + b'"%(<=_' + BEYOND_ASCII,
    hits=(
        ("write to anna.kowal@mail.example.com", "anna.kowal@mail.example.com"),
        ("write to bob@example.com", "bob@example.com"),
        ("bob@example.com.", "bob@example.com"),
        ("(BOB.MANN@EXAMPLE.COM)", "BOB.MANN@EXAMPLE.COM"),
        ("o'neil@example.com", "o'neil@example.com"),
        ("'bob@example.com','ann@example.org'", "bob@example.com", "ann@example.org"),
        ("kenneth..lee@example.com", "kenneth..lee@example.com"),
        (
            "a@example.com;b@example.org,c@example.net",
            "a@example.com",
            "b@example.org",
            "c@example.net",
        ),
        ("title=3Dklaus@example.com", "klaus@example.com"),
        ("email=klaus@example.com&x=1", "klaus@example.com"),
        ("bob@example.com=20", "bob@example.com"),
        ("bob@example.com2nd", "bob@example.com"),
        ("bob@example.com_x", "bob@example.com"),
        ("_bob@example.com_ __bob@example.com__ *bob@example.com*", *3 * ("bob@example.com",)),
        (
            "mail_bob@example.com <E-Mail_bob@example.com> email=3Dbob@example.com",
            *3 * ("bob@example.com",),
        ),
        ("写信给bob@example.com谢谢", "bob@example.com"),
        ("bob@mail-2.my_host.example.co.uk", "bob@mail-2.my_host.example.co.uk"),
        (
            "bob@xn--bcher-kva.example, bob@example.xn--p1ai",
            "bob@xn--bcher-kva.example",
            "bob@example.xn--p1ai",
        ),
        ("Bob <bob@example.com>", "bob@example.com"),
        ("<bob@corp> <.bob@example.com>", "bob@corp", ".bob@example.com"),
        ("<mailto:bob@example.com>", "bob@example.com"),
        (
            "<bob.mann2001@example.com> <first.last@corp>",
            "bob.mann2001@example.com",
            "first.last@corp",
        ),
        ("<john.smith19850412@example.com>", "john.smith19850412@example.com"),
        (
            "<IMCEANOTES-Bob+20Mann+40a+2Ecom+40CORP@example.com>",
            "IMCEANOTES-Bob+20Mann+40a+2Ecom+40CORP@example.com",
        ),
        ('to "bob lee"@example.com only', '"bob lee"@example.com'),
        ('"bob"@example.com, "bob.lee"@example.com', '"bob"@example.com', '"bob.lee"@example.com'),
        ("bounce+1234567-ab12-bob@example.com", "bounce+1234567-ab12-bob@example.com"),
        ("from bounce-list=bob.mann=example.com@lists.example.net", "bob.mann=example.com"),
        ("<list-bounces+bob=example.com@lists.example.net>", "bob=example.com"),
        (
            "list-return-123-ann-marie.lee=example.org@lists.example.net",
            "ann-marie.lee=example.org",
        ),
        ("<bounces+1234567-ab12-bob=example.com@mail.example.net>", "bob=example.com"),
        (
            "prvs=0123456789=bob@example.com <prvs=0123456789=bob@example.com>",
            "bob@example.com",
            "bob@example.com",
        ),
        (
            "user=ann.li@example.com smtp.mailfrom=first.last@example.com",
            "ann.li@example.com",
            "first.last@example.com",
        ),
        ("<IMCEASMTP-bob+2Emann+40example+2Ecom@mail.example.net>", "bob+2Emann+40example+2Ecom"),
        ("IMCEANOTES-bob+2Emann_40example+2Ecom+40CORP@example.net", "bob+2Emann_40example+2Ecom"),
        (
            "IMCEAEX-_O=EXAMPLE_OU=FIRST+20GROUP_CN=bob+40example+2Ecom@mail.example.net",
            "bob+40example+2Ecom",
        ),
        (
            "IMCEAEX-_O=EXAMPLE_CN=BOB@mail.example.net",
            "IMCEAEX-_O=EXAMPLE_CN=BOB@mail.example.net",
        ),
        ("<20190401123456.123-1-bob@example.com>", "bob@example.com"),
        (
            "References: <1554100000-4711-2-git-send-email-bob.lee@example.com>",
            "bob.lee@example.com",
        ),
        (
            "?q=%22bob%40example.com%22&to=x%3Cbob%40example.com%3E",
            "bob%40example.com",
            "bob%40example.com",
        ),
        (
            "bob (ät) example (punkt) com, ann[arroba]example[punto]es",
            "bob (ät) example (punkt) com",
            "ann[arroba]example[punto]es",
        ),
        (
            "Email: bob @ example.com\n- E-mail: bob at example.com",
            "bob @ example.com",
            "bob at example.com",
        ),
        ("envelope-from=list+bob=shop.example@lists.example.net", "bob=shop.example"),
        ("?a=ann%40example.com%2Cbob%2540example.com%2cbo%2Btag%40example.com",)
        + ("ann%40example.com", "bob%2540example.com", "bo%2Btag%40example.com"),
        ("https://lore.example.org/r/20190401123456.123-1-bob@example.com/", "bob@example.com"),
    ),
    near_misses=(
        "@bob, bob@, pkg@1.2.3, medium.com/@bob.smith",
        "look at dot com, meet at noon dot",
        "find us at example dot com",
        "icon@2x.png, lib@3.1.min.js, git@github.com:x/y.git",
        "a\nb@\nc <a @b>",
        (
            "https://lore.example.org/r/87a7j1x2y3.fsf@example.org/"
            " http://example.org/%3C20010203123456.A1234@example.com%3E"
        ),
    ),
)
