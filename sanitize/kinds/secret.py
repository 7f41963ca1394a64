"""Passwords, keys and tokens that their own form or the words around them show.

By their form: tokens of a hundred issuers (sanitize/kinds/issuer_formats.py), hashes of passwords
(`$2b$...`), private key blocks, also without their end, and the `user:password` of a URL of any
scheme. By the words around them (sanitize/kinds/labelled_secrets.py): `POSTGRES_PASSWORD=...`,
`"api_key": "..."`, `Authorization: Bearer ...`, cookies of sessions, `curl -u user:password`,
`--password ...`, `IDENTIFIED BY '...'`, connection strings, parameters of URLs. Placeholders
(`changeme`, `${VAR}`, `<password>`), code (`get_password()`, `self.token`) and prose are none, nor
is a plain word without quotation marks (`password: sunflower`); behind names that often mean
something else, such as `token`, only letters mixed with digits count. A password in a sentence that
no such word introduces is not found. For code, a scanner of secrets knows more forms.

In `https://user:pw@example.com/` the value is `user:pw`; with fewer than six characters it is
refused (`short`), since such a text has other meanings elsewhere. A name alone before the `@` is
left to EMAIL_ADDRESS. What might be a word or a number is edited where it is found, and searched
nowhere else. Normalised form: as written; for key blocks, without blanks and line ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.issuer_formats import ISSUER_FORMATS, PASSWORD_HASHES
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BOUNDARY,
    DIGITS,
    LETTERS,
    Alternative,
    Kind,
    byte_table,
    first_marked,
    flatten_strings,
    redraw_characters,
    unflatten_strings,
)
from sanitize.kinds.labelled_secrets import (
    LABELLED,
    PREFIX,
    SUFFIX,
    accept_labelled,
    is_password,
    is_token,
)


def _expand_prefix(prefix: str) -> list[str]:
    """The literals that the prefix of an issuer matches: it has sets such as `[rs]` and groups such
    as `(?:live|test)`, not nested."""
    opening = min((at for at in (prefix.find("["), prefix.find("(?:")) if at >= 0), default=-1)
    if opening < 0:
        return [prefix]
    is_set = prefix[opening] == "["
    closing = prefix.index("]" if is_set else ")", opening)
    choices = (
        list(prefix[opening + 1 : closing]) if is_set else prefix[opening + 3 : closing].split("|")
    )
    return [
        prefix[:opening] + choice + rest
        for choice in choices
        for rest in _expand_prefix(prefix[closing + 1 :])
    ]


def _join_by_first_character(tokens: Iterable[str]) -> str:
    """One alternation of patterns that begin with a literal, of which the engine follows few."""
    groups: dict[str, list[str]] = {}
    for token in tokens:
        groups.setdefault(token[0], []).append(token[1:])
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in groups.items())


# Telegram: the number of a bot, which is part of its token
_TELEGRAM_TOKEN = "[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"
_ISSUED_TOKEN = _join_by_first_character(
    re.escape(prefix) + one.rest
    for one in ISSUER_FORMATS
    if one.prefix
    for prefix in _expand_prefix(one.prefix)
) + "".join(f"|{one.rest}" for one in ISSUER_FORMATS if not one.prefix)
_PASSWORD_HASH = "|".join(map("".join, PASSWORD_HASHES))
_PEM_BEGIN, _PEM_END = (
    rf"-----{word} (?:[A-Z0-9]+ ){{0,3}}PRIVATE KEY(?: BLOCK)?-----" for word in ("BEGIN", "END")
)
# inside a block, a hyphen is only allowed alone (as in the header `DEK-Info`), so that a truncated
# block does not extend into the next
_PEM_BLOCK = rf"{_PEM_BEGIN}(?:[A-Za-z0-9+/=:,.()>|\\ \t\r\n]|-[A-Za-z0-9 ])*{_PEM_END}"
# the first lines of a block without its end
_CUT_PEM_BLOCK = rf"{_PEM_BEGIN}(?:(?:[ \t\r\n>|]|\\[rn])+[A-Za-z0-9+/]{{40,}}={{0,2}})+"
_PUTTY_LABEL = r"Private-Lines: [0-9]{1,3}\r?\n"  # before the lines of a private key of PuTTY
_PUTTY_LINES = r"(?:[A-Za-z0-9+/]{8,80}={0,2}\r?\n)*[A-Za-z0-9+/]{8,80}={0,2}"
_USERINFO_CHAR = (  # RFC 3986 userinfo, and the @ that people leave unescaped
    "[A-Za-z0-9._~!$&'()*+,;=%@-]"
)
_USER_PASSWORD = f"{_USERINFO_CHAR}*:(?:{_USERINFO_CHAR}|:)+"
_PREFIXES = "|".join(
    prefix
    for prefix in (
        *(one.prefix for one in ISSUER_FORMATS),
        *(prefix for prefix, _ in PASSWORD_HASHES),
    )
    if prefix
)
_SPLIT_PATTERNS = (  # head and neck are kept, body and tail are redrawn
    rf"(?s)\A(?<head>{_PEM_BEGIN})(?<body>.*?)(?<neck>(?:{_PEM_END})?)(?<tail>)\z",
    r"\A(?<head>eyJ)(?<body>[^.]*)(?<neck>[.]eyJ)(?<tail>.*)\z",
    r"\A(?<head>)(?<body>[0-9]{8,10})(?<neck>:AA)(?<tail>.{33})\z",
    r"\A(?<head>hooks[.]slack[.]com/services/T)(?<body>[^/]*)(?<neck>/B)(?<tail>.*)\z",
    rf"(?s)\A(?<head>(?:{_PREFIXES})?)(?<body>.*)(?<neck>)(?<tail>)\z",
)
_ALTERNATIVES = (
    Alternative(rf"(?:{BOUNDARY}|/bot){_TELEGRAM_TOKEN}", literals=(":AA",)),
    Alternative(f"{_PEM_BLOCK}|{_CUT_PEM_BLOCK}", literals=("-----BEGIN ",)),
    Alternative(_PUTTY_LABEL + _PUTTY_LINES, literals=("Private-Lines: ",)),
    # a long name without a password is a token
    Alternative(rf"://(?:{_USER_PASSWORD}|[A-Za-z0-9_-]{{30,}})@"),
)


def _find_anchors(prefix: str) -> list[str]:
    """The longest part of a prefix without sets and groups, or all that it matches."""
    parts = re.split(r"\[.*?\]|\(.*?\)", re.sub(r"\[(.)\]", r"\1", prefix))
    longest = max(parts, key=len)
    return [longest] if len(longest) > 2 else _expand_prefix(prefix)


_TOKENS = Alternative(
    rf"{BOUNDARY}(?:{_ISSUED_TOKEN})|{_PASSWORD_HASH}",
    literals=(
        *(anchor for one in ISSUER_FORMATS for anchor in one.anchors or _find_anchors(one.prefix)),
        *(anchor for prefix, _ in PASSWORD_HASHES for anchor in _find_anchors(prefix)),
    ),
)
_ANY_FORM = rf"\A(?:{'|'.join(one.pattern for one in (*_ALTERNATIVES, _TOKENS))})\z"


_PLACEHOLDER = (
    r"x{12}|X{12}|0{16}|[*]{3}|A{30}"
    r"|(?i)\A[^:]*:(?:(?:my|your|the)?[_-]?(?:password|passwd|pass|pwd|token|secret|changeme)"
    r"|[$][a-z_]\w*)\z"
)


_IS_HEX, _IS_LETTER = byte_table(b"0123456789abcdef-"), byte_table(DIGITS + LETTERS)


def _check(values: pl.Series) -> pl.Series:
    """`short` for a `user:password` under six bytes, `placeholder` for a repeated character such as
    `xxxxxxxxxxxx` and for `user:password` itself, else null."""
    return pl.select(
        pl.when((values.str.len_bytes() < 6) & values.str.contains(":", literal=True))
        .then(pl.lit("short"))
        .when(values.str.contains(_PLACEHOLDER))
        .then(pl.lit("placeholder"))
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    rows = values.str.starts_with("-----BEGIN ").arg_true()
    if not len(rows):
        return values
    return values.clone().scatter(
        rows, values.gather(rows).str.replace_all(r"[ \t\r\n]|\\[rn]", "")
    )


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Secrets of the same issuer and length, with redrawn letters and digits; key blocks keep their
    first and last line. `reserved` has no effect: no range is reserved."""
    flat, offsets = flatten_strings(values)
    tried = [values.str.extract_groups(pattern).struct.unnest() for pattern in _SPLIT_PATTERNS]
    size = {
        name: (
            pl.select(pl.coalesce([parts[name].str.len_bytes() for parts in tried]))
            .to_series()
            .to_numpy()
            .astype(np.int64)
        )
        for name in ("head", "body", "neck")
    }
    row = np.repeat(np.arange(len(values)), np.diff(offsets))
    place = np.arange(len(flat)) - offsets[row]
    neck = (size["head"] + size["body"])[row]
    keep = (place < size["head"][row]) | ((place >= neck) & (place < neck + size["neck"][row]))
    keep[1:] |= flat[:-1] == ord("\\")  # escaped line ends (`\n`) of a key block in JSON
    percent = np.flatnonzero(flat == ord("%"))
    for byte in (1, 2):
        keep[percent[percent + byte < len(flat)] + byte] = True
    redrawn, _ = flatten_strings(redraw_characters(values, draws, keep))
    # hexadecimal numbers of eight digits and more stay such
    is_hex = _IS_HEX[flat]
    nowhere = np.where(is_hex, -1, np.arange(len(flat)))
    before = np.maximum(np.maximum.accumulate(nowhere), offsets[row] - 1)
    after = first_marked(~is_hex, np.arange(len(flat)), offsets[row + 1])
    ends_there = (after == offsets[row + 1]) | ~_IS_LETTER[np.append(flat, 0)[after]]
    wide = (
        is_hex
        & (after - before > 8)
        & ends_there
        & (redrawn >= ord("g"))
        & (redrawn <= ord("z"))
        & ~keep
    )
    return unflatten_strings(
        np.where(wide, ord("a") + (redrawn - ord("a")) % 6, redrawn), offsets, values.name
    )


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for matches of the pattern; of those with an @, which are mostly addresses, only the
    user and password of a URL."""
    values = candidates["value"]
    maybe = ~values.str.contains("@", literal=True) | values.str.starts_with("://")
    return maybe.scatter(maybe.arg_true(), values.filter(maybe).str.contains(_ANY_FORM))


def _accepts_in_field(values: pl.Series) -> pl.Series:
    """True for passwords and tokens (see labelled_secrets.py), also behind the scheme of a header
    (`Bearer ...`), and for key blocks."""
    token = values.str.extract(r"\A[A-Za-z]{3,10} (\S+)\z").fill_null("")
    return is_password(values) | is_token(token) | values.str.starts_with("-----BEGIN ")


def _is_distinctive(values: pl.DataFrame) -> pl.Series:
    """False for what might be a word or a number: `sunflower`, `4821`."""
    value, size = values["value"], values["value"].str.len_bytes()
    has_both = value.str.contains("[0-9]") & value.str.contains("[A-Za-z]")
    return (size >= 16) | (has_both & (size >= 8)) | value.str.contains(":", literal=True)


KIND = Kind(
    name="SECRET",
    about="a password, key or token, by its form or the words around it",
    category="credential",
    field_names=tuple(
        (
            "password|passwords|passwd|pwd|pass phrase|passphrase|secret|secret key|"
            "client secret|api key|apikey|api token|access key|access token|auth token|"
            "bearer token|refresh token|private key|credential|credentials|passwort|"
            "kennwort|mot de passe|contrasena|senha|parola d ordine|wachtwoord|haslo|"
            "密码|密碼|パスワード|"
            "passcode|pw|secret answer|security answer|signing key|encryption key"
        ).split("|")
    ),
    accepts_in_field=_accepts_in_field,
    pattern="|".join(alternative.pattern for alternative in _ALTERNATIVES),
    alternatives=_ALTERNATIVES,
    anchors=("://",),
    check=_check,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    tokens=_TOKENS,
    labelled_text=LABELLED,
    accepts=_accepts,
    accepts_labelled=accept_labelled,
    is_distinctive=_is_distinctive,
    prefix_pattern=f"://|/bot|{_PUTTY_LABEL}|{PREFIX}",
    suffix_pattern=f"@|{SUFFIX}",
    rank=15,
    first_bytes=ASCII_WORD_CHARS + b"$-/:",
    hits=(
        (
            "token ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        ),
        ("key AKIAIOSFODNN7EXAMPLE.", "AKIAIOSFODNN7EXAMPLE"),
        (
            "SK0123456789abcdef0123456789abcdef, sk-proj-a_b-0123456789abcdefXY",
            "SK0123456789abcdef0123456789abcdef",
            "sk-proj-a_b-0123456789abcdefXY",
        ),
    ),
    near_misses=(
        "ghp_0123 AKIA1234 sk-learn eyJ.eyJ. SG.a.b npm_config key-value hf_transfer",
        "-----BEGIN CERTIFICATE-----MIIE-----END CERTIFICATE-----",
        "//TODO:ask bob@ C://x:y /x:y@",
    ),
)
