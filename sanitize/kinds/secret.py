"""Keys, tokens and passwords with a recognisable form: the prefix of an issuer, the name of a
vendor's setting before them (`AccountKey=`, `aws_secret_access_key`), a private key block, or the
`user:password` of a URL of any scheme.

A prefix alone is not sufficient, so lengths and alphabets are those that the issuers use. Any other
password in prose or in a settings file is not found, since nothing distinguishes it from a word. In
`https://user:pw@example.com/` the value is `user:pw`; with fewer than six characters it is refused
(`short`), since such a text has other meanings elsewhere. A name alone before the `@` is left to
EMAIL_ADDRESS. Normalised form: as written; for key blocks, without blanks and line ends.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    BOUNDARY,
    DIGITS,
    QUOTATION_MARKS,
    Alternative,
    Kind,
    flatten_strings,
    redraw_characters,
    unflatten_strings,
)

_BASE64URL = "[A-Za-z0-9_-]"  # the alphabet of base64 for URLs
# (prefix, rest) as the issuers document them or have them scanned for. A rest has a maximum length
# where one that fails late would otherwise be searched to its end again from every number in it.
_ISSUER_FORMATS = (
    ("(?:AKIA|ASIA)", "[A-Z0-9]{16}"),  # Amazon Web Services
    ("gh[pousr]_", "[A-Za-z0-9]{36,}"),  # GitHub
    ("github_pat_", "[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("gl(?:pat|dt|rt|cbt|ptt|ft|oas|soat|agent|imt|ffct)-", f"{_BASE64URL}{{20,}}"),  # GitLab
    ("xox[abeoprs]-", f"[0-9]{_BASE64URL}{{9,}}"),  # Slack
    ("xapp-", f"[0-9]-{_BASE64URL}{{20,}}"),
    ("hooks[.]slack[.]com/services/T", "[A-Z0-9]{8,11}/B[A-Z0-9]{8,11}/[A-Za-z0-9]{24}"),
    (
        "hooks[.]slack[.]com/(?:workflows|triggers)/",
        "[A-Z0-9]{9,12}/[A-Z0-9]{9,20}/(?:[0-9]{9,20}/)?[A-Za-z0-9]{24,32}",
    ),
    ("AIza", f"{_BASE64URL}{{35}}"),  # Google
    ("GOCSPX-", f"{_BASE64URL}{{28}}"),
    ("ya29[.]", f"{_BASE64URL}{{20,}}"),
    ("[rs]k_(?:live|test)_", "[A-Za-z0-9]{16,}"),  # Stripe
    ("whsec_", "[A-Za-z0-9+/]{32,}"),
    ("sk-(?:ant|proj|svcacct|admin|or)-", f"{_BASE64URL}{{20,}}"),  # Anthropic, OpenAI, OpenRouter
    ("sk-", "[A-Za-z0-9]{32,}"),
    # JSON Web Token, signed (RFC 7519)
    ("eyJ", f"{_BASE64URL}{{8,200}}[.]eyJ{_BASE64URL}{{8,}}[.]{_BASE64URL}{{16,}}"),
    ("npm_", "[A-Za-z0-9]{36}"),
    ("pypi-AgE", f"{_BASE64URL}{{50,}}"),
    ("SG[.]", f"{_BASE64URL}{{22}}[.]{_BASE64URL}{{43}}"),  # SendGrid
    ("(?:SK|AC)", "[0-9a-f]{32}"),  # Twilio
    ("hf_", "[A-Za-z0-9]{34}"),  # Hugging Face
    ("do[opr]_v1_", "[0-9a-f]{64}"),  # DigitalOcean
    ("shp(?:at|ca|pa|ss)_", "[0-9a-f]{32}"),  # Shopify
    ("dckr_pat_", f"{_BASE64URL}{{27}}"),  # Docker Hub
    ("gsk_", "[A-Za-z0-9]{52}"),  # Groq
    ("hvs[.]", f"{_BASE64URL}{{24,}}"),  # HashiCorp Vault
    ("lin_api_", "[A-Za-z0-9]{40}"),  # Linear
)
# (name in a settings file or a connection string, the key behind it)
# Azure: 64 bytes for storage, 32 for queues
_LABELLED_KEYS = (
    (
        rf"{BOUNDARY}(?:[Aa]ccount[Kk]ey|SharedAccessKey)=",
        "[A-Za-z0-9+/]{43}(?:[A-Za-z0-9+/]{43}=)?=",
    ),
    (
        rf"{BOUNDARY}(?:aws_secret_access_key|AWS_SECRET_ACCESS_KEY|aws_secret_key|[Ss]ecretAccessKey)"
        rf"[\"'{QUOTATION_MARKS}]? {{0,2}}[:=] {{0,2}}[\"'{QUOTATION_MARKS}]?",
        "[A-Za-z0-9/+]{40}",
    ),
)
# Telegram: the number of a bot, which is part of its token
_TELEGRAM_TOKEN = f"[0-9]{{8,10}}:AA{_BASE64URL}{{33}}"
_ISSUED_TOKEN = "|".join(prefix + rest for prefix, rest in _ISSUER_FORMATS)
_PEM_BEGIN, _PEM_END = (
    rf"-----{word} (?:[A-Z0-9]+ ){{0,3}}PRIVATE KEY(?: BLOCK)?-----" for word in ("BEGIN", "END")
)
# inside a block, a hyphen is only allowed alone (as in the header `DEK-Info`), so that a truncated
# block does not extend into the next
_PEM_BLOCK = rf"{_PEM_BEGIN}(?:[A-Za-z0-9+/=:,.()>|\\ \t\r\n]|-[A-Za-z0-9 ])*{_PEM_END}"
_USERINFO_CHAR = (  # RFC 3986 userinfo, and the @ that people leave unescaped
    "[A-Za-z0-9._~!$&'()*+,;=%@-]"
)
_USER_PASSWORD = f"{_USERINFO_CHAR}*:(?:{_USERINFO_CHAR}|:)+"
_SPLIT_PATTERNS = (  # head and neck are kept, body and tail are redrawn
    rf"(?s)\A(?<head>{_PEM_BEGIN})(?<body>.*)(?<neck>{_PEM_END})(?<tail>)\z",
    r"\A(?<head>eyJ)(?<body>[^.]*)(?<neck>[.]eyJ)(?<tail>.*)\z",
    r"\A(?<head>)(?<body>[0-9]{8,10})(?<neck>:AA)(?<tail>.{33})\z",
    r"\A(?<head>hooks[.]slack[.]com/services/T)(?<body>[^/]*)(?<neck>/B)(?<tail>.*)\z",
    (
        rf"(?s)\A(?<head>(?:{'|'.join(prefix for prefix, _ in _ISSUER_FORMATS)})?)(?<body>.*)(?<neck>)(?<tail>)\z"  # noqa: E501
    ),
)
_ALTERNATIVES = (
    Alternative(
        "|".join([*map("".join, _LABELLED_KEYS), rf"(?:{BOUNDARY}|/bot){_TELEGRAM_TOKEN}"]),
        literals=(
            "ccountKey=",
            "ccountkey=",
            "SharedAccessKey=",
            "aws_secret_",
            "AWS_SECRET_",
            "ecretAccessKey",
            ":AA",
        ),
    ),
    Alternative(_PEM_BLOCK, literals=("-----BEGIN ",)),
    Alternative(rf"{BOUNDARY}(?:{_ISSUED_TOKEN})|://{_USER_PASSWORD}@"),
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


_ANCHORS = (
    "://",
    *(literal for prefix, _ in _ISSUER_FORMATS for literal in _expand_prefix(prefix)),
)
_HEX_TOKEN = r"\A(?:SK|AC|do[opr]_v1_|shp(?:at|ca|pa|ss)_)[0-9a-f]+\z"


def _check(values: pl.Series) -> pl.Series:
    """`short` for a value under six bytes, `placeholder` for a repeated character such as
    `xxxxxxxxxxxx`, else null."""
    return pl.select(
        pl.when(values.str.len_bytes() < 6)
        .then(pl.lit("short"))
        .when(values.str.contains(r"x{12}|X{12}|0{16}|[*]{3}"))
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
    wide = (
        (redrawn >= ord("g"))
        & (redrawn <= ord("z"))
        & ~keep
        & values.str.contains(_HEX_TOKEN).to_numpy()[row]
    )
    return unflatten_strings(
        np.where(wide, ord("a") + (redrawn - ord("a")) % 6, redrawn), offsets, values.name
    )


# what stands where a secret belongs, and is none
_PLACEHOLDER = (
    r"(?i)\A(?:[x*.•_-]+|[<\[{(%$].*|(?:change|replace|your|enter|insert|example|dummy|sample|test).*"
    r"|null|none|nil|true|false|yes|no|on|off|n/a|undefined|unknown|redacted|hidden|removed"
    r"|required|optional|string|str|text|bytes|password|passwd|pwd|secret|token|key|basic|bearer)\z"
)


def _accepts_in_field(values: pl.Series) -> pl.Series:
    """True for texts of 4 to 512 bytes without blanks that are no placeholder, and for what the
    patterns match."""
    size = values.str.len_bytes()
    return pl.select(
        size.is_between(4, 512)
        & values.str.contains(r"\A\S+\z")
        & ~values.str.contains(_PLACEHOLDER)
        | values.str.starts_with("-----BEGIN ")
    ).to_series()


KIND = Kind(
    name="SECRET",
    about="a key or token of a known issuer, a private key, or the password of a URL",
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
    anchors=_ANCHORS,
    check=_check,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    prefix_pattern=f"://|/bot|{'|'.join(name for name, _ in _LABELLED_KEYS)}",
    suffix_pattern="@",
    rank=15,
    first_bytes=DIGITS + b"-/:AGSadeghlnprswxy",
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
