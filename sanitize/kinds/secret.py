"""Keys, tokens and passwords that say themselves what they are: by the prefix of their issuer, behind the name that a vendor's settings
give them (`AccountKey=`, `aws_secret_access_key`), as a private key block, or as the `user:password` of a URL of any scheme.

A prefix alone is no proof, so lengths and alphabets are those that the issuers use. Any other password in prose or in a settings file is
not found: nothing tells it from a word. Of `https://user:pw@example.com/` the value is `user:pw`; with fewer than six characters it is
refused (`short`), since such a pair stands for too much elsewhere. A name alone before the `@` is left to EMAIL_ADDRESS. Identity: as
written; of key blocks, without blanks.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BOUND, Kind, joined, parted, reshaped

_MOST = "[A-Za-z0-9_-]"  # the alphabet of base64 for URLs
# (prefix, the rest) as the issuers document them or have them scanned for. Where a rest has a longest length, it is because a rest that
# fails late must not be searched to its end again from every number in it.
_ISSUED = (
    ("(?:AKIA|ASIA)", "[A-Z0-9]{16}"),  # Amazon Web Services
    ("gh[pousr]_", "[A-Za-z0-9]{36,}"),  # GitHub
    ("github_pat_", "[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("gl(?:pat|dt|rt|cbt|ptt|ft|oas|soat|agent|imt|ffct)-", f"{_MOST}{{20,}}"),  # GitLab
    ("xox[abeoprs]-", f"[0-9]{_MOST}{{9,}}"),  # Slack
    ("xapp-", f"[0-9]-{_MOST}{{20,}}"),
    ("hooks[.]slack[.]com/services/T", "[A-Z0-9]{8,11}/B[A-Z0-9]{8,11}/[A-Za-z0-9]{24}"),
    ("hooks[.]slack[.]com/(?:workflows|triggers)/", "[A-Z0-9]{9,12}/[A-Z0-9]{9,20}/(?:[0-9]{9,20}/)?[A-Za-z0-9]{24,32}"),
    ("AIza", f"{_MOST}{{35}}"),  # Google
    ("GOCSPX-", f"{_MOST}{{28}}"),
    ("ya29[.]", f"{_MOST}{{20,}}"),
    ("[rs]k_(?:live|test)_", "[A-Za-z0-9]{16,}"),  # Stripe
    ("whsec_", "[A-Za-z0-9+/]{32,}"),
    ("sk-(?:ant|proj|svcacct|admin|or)-", f"{_MOST}{{20,}}"),  # Anthropic, OpenAI, OpenRouter
    ("sk-", "[A-Za-z0-9]{32,}"),
    ("eyJ", f"{_MOST}{{8,200}}[.]eyJ{_MOST}{{8,}}[.]{_MOST}{{16,}}"),  # JSON Web Token, signed (RFC 7519)
    ("npm_", "[A-Za-z0-9]{36}"),
    ("pypi-AgE", f"{_MOST}{{50,}}"),
    ("SG[.]", f"{_MOST}{{22}}[.]{_MOST}{{43}}"),  # SendGrid
    ("(?:SK|AC)", "[0-9a-f]{32}"),  # Twilio
    ("hf_", "[A-Za-z0-9]{34}"),  # Hugging Face
    ("do[opr]_v1_", "[0-9a-f]{64}"),  # DigitalOcean
    ("shp(?:at|ca|pa|ss)_", "[0-9a-f]{32}"),  # Shopify
    ("dckr_pat_", f"{_MOST}{{27}}"),  # Docker Hub
    ("gsk_", "[A-Za-z0-9]{52}"),  # Groq
    ("hvs[.]", f"{_MOST}{{24,}}"),  # HashiCorp Vault
    ("lin_api_", "[A-Za-z0-9]{40}"),  # Linear
)
# (name in a settings file or a connection string, the key behind it)
_NAMED = (
    (
        rf"{BOUND}(?:[Aa]ccount[Kk]ey|SharedAccessKey)=",
        "[A-Za-z0-9+/]{43}(?:[A-Za-z0-9+/]{43}=)?=",
    ),  # Azure: 64 bytes for storage, 32 for queues
    (
        rf"{BOUND}(?:aws_secret_access_key|AWS_SECRET_ACCESS_KEY|aws_secret_key|[Ss]ecretAccessKey)[\"']? {{0,2}}[:=] {{0,2}}[\"']?",
        "[A-Za-z0-9/+]{40}",
    ),
)
_BOT = f"[0-9]{{8,10}}:AA{_MOST}{{33}}"  # Telegram: the number of a bot, which goes with its token
_TOKEN = "|".join(prefix + rest for prefix, rest in _ISSUED)
_OPEN, _CLOSE = (rf"-----{word} (?:[A-Z0-9]+ ){{0,3}}PRIVATE KEY(?: BLOCK)?-----" for word in ("BEGIN", "END"))
# a hyphen stands alone in the headers of a block (`DEK-Info`): one that was cut off does not run into the next
_PEM = rf"{_OPEN}(?:[A-Za-z0-9+/=:,.()>|\\ \t\r\n]|-[A-Za-z0-9 ])*{_CLOSE}"
_USER = "[A-Za-z0-9._~!$&'()*+,;=%@-]"  # RFC 3986 userinfo, and the @ that people leave unescaped
_PAIR = f"{_USER}*:(?:{_USER}|:)+"
_PARTS = (  # head and neck stay, body and tail are drawn
    rf"(?s)\A(?<head>{_OPEN})(?<body>.*)(?<neck>{_CLOSE})(?<tail>)\z",
    r"\A(?<head>eyJ)(?<body>[^.]*)(?<neck>[.]eyJ)(?<tail>.*)\z",
    r"\A(?<head>)(?<body>[0-9]{8,10})(?<neck>:AA)(?<tail>.{33})\z",
    r"\A(?<head>hooks[.]slack[.]com/services/T)(?<body>[^/]*)(?<neck>/B)(?<tail>.*)\z",
    rf"(?s)\A(?<head>(?:{'|'.join(prefix for prefix, _ in _ISSUED)})?)(?<body>.*)(?<neck>)(?<tail>)\z",
)
_GATE = (
    (
        ("ccount[Kk]ey=|SharedAccessKey=|aws_secret_|AWS_SECRET_|ecretAccessKey|:AA",),
        "|".join([*map("".join, _NAMED), rf"(?:{BOUND}|/bot){_BOT}"]),
    ),
    ((), rf"{BOUND}(?:{_TOKEN})|{_PEM}|://{_PAIR}@"),
)
_HEX = r"\A(?:SK|AC|do[opr]_v1_|shp(?:at|ca|pa|ss)_)[0-9a-f]+\z"


def _check(values: pl.Series) -> pl.Series:
    """`short` for a pair that stands for too much, `placeholder` for one character over and over."""
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
    return values.clone().scatter(rows, values.gather(rows).str.replace_all(r"[ \t\r\n]|\\[rn]", ""))


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """The same issuer and length, letters and digits drawn anew; key blocks keep their first and last line. No range is reserved."""
    flat, offsets = joined(values)
    tried = [values.str.extract_groups(pattern).struct.unnest() for pattern in _PARTS]
    size = {
        name: pl.select(pl.coalesce([parts[name].str.len_bytes() for parts in tried])).to_series().to_numpy().astype(np.int64)
        for name in ("head", "body", "neck")
    }
    row = np.repeat(np.arange(len(values)), np.diff(offsets))
    place = np.arange(len(flat)) - offsets[row]
    neck = (size["head"] + size["body"])[row]
    keep = (place < size["head"][row]) | ((place >= neck) & (place < neck + size["neck"][row]))
    keep[1:] |= flat[:-1] == ord("\\")  # the line ends of a block in a JSON text
    percent = np.flatnonzero(flat == ord("%"))
    for byte in (1, 2):
        keep[percent[percent + byte < len(flat)] + byte] = True
    made, _ = joined(reshaped(values, draws, keep))
    wide = (made >= ord("g")) & (made <= ord("z")) & ~keep & values.str.contains(_HEX).to_numpy()[row]
    return parted(np.where(wide, ord("a") + (made - ord("a")) % 6, made), offsets, values.name)


KIND = Kind(
    name="SECRET",
    about="a key or token of a known issuer, a private key, or the password of a URL",
    pattern="|".join(form for _, form in _GATE),
    gate=_GATE,
    check=_check,
    normalise=_normalise,
    fake=_fake,
    lead=f"://|/bot|{'|'.join(name for name, _ in _NAMED)}",
    trail="@",
    rank=15,
)
