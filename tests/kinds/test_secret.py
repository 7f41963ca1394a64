"""Secrets: every issuer's format, also one character too short, key blocks, and passwords in URLs.
All are generated in the tests."""

from __future__ import annotations

import re

import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import get_kind
from tests.support import find_pattern_values, make_draws

FINDER = PatternFinder(Key.from_seed(3))
SECRET = get_kind("SECRET")
LETTERS, DIGITS = "AbCdEfGhIjKlMnOpQrStUvWxYz", "0123456789"
BODY = (LETTERS + DIGITS) * 8
HEX = "0123456789abcdef" * 4

# prefix, and the shortest body that makes a token of it
TOKENS = {
    "aws": ("AKIA", BODY[:16].upper()),
    "aws, for a while": ("ASIA", BODY[:16].upper()),
    "github": ("ghp_", BODY[:36]),
    "github app": ("ghs_", BODY[:36]),
    "github, fine": ("github_pat_", BODY[:22] + "_" + BODY[:59]),
    "gitlab": ("glpat-", BODY[:20]),
    "slack": ("xoxb-", DIGITS),
    "slack app": ("xapp-", "1-" + BODY[:20]),
    "slack hook": (
        "hooks.slack.com/services/T",
        BODY[:8].upper() + "/B" + BODY[:8].upper() + "/" + BODY[:24],
    ),
    "google": ("AIza", BODY[:35]),
    "google client": ("GOCSPX-", BODY[:28]),
    "google token": ("ya29.", BODY[:20]),
    "stripe": ("sk_live_", BODY[:16]),
    "stripe, restricted": ("rk_test_", BODY[:16]),
    "stripe hook": ("whsec_", BODY[:32]),
    "anthropic": ("sk-ant-", "api03-" + BODY[:14]),
    "openai project": ("sk-proj-", BODY[:20]),
    "openai": ("sk-", BODY[:32]),
    "jwt": ("eyJ", f"{BODY[:8]}.eyJ{BODY[:8]}.{BODY[:16]}"),
    "npm": ("npm_", BODY[:36]),
    "pypi": ("pypi-AgE", BODY[:50]),
    "sendgrid": ("SG.", BODY[:22] + "." + BODY[:43]),
    "twilio": ("SK", HEX[:32]),
    "twilio account": ("AC", HEX[:32]),
    "hugging face": ("hf_", BODY[:34]),
    "digitalocean": ("dop_v1_", HEX[:64]),
    "shopify": ("shpat_", HEX[:32]),
    "docker": ("dckr_pat_", BODY[:27]),
    "groq": ("gsk_", BODY[:52]),
    "vault": ("hvs.", BODY[:24]),
    "linear": ("lin_api_", BODY[:40]),
    "slack workflow": (
        "hooks.slack.com/workflows/",
        f"{BODY[:9].upper()}/{BODY[:9].upper()}/{DIGITS}/{BODY[:24]}",
    ),
    "telegram": ("", DIGITS[1:] + ":AA" + BODY[:33]),
}
# the text before a key, the key, and the text after it
NAMED_KEYS = {
    "azure storage": ("AccountName=x;AccountKey=", BODY[:86] + "==", ";EndpointSuffix=x"),
    "azure queue": ("SharedAccessKeyName=x;SharedAccessKey=", BODY[:43] + "=", ""),
    "aws file": ("aws_secret_access_key = ", BODY[:19] + "/+" + BODY[:19], "\n"),
    "aws shell": ("export AWS_SECRET_ACCESS_KEY='", BODY[:40], "'"),
    "aws json": ('"SecretAccessKey": "', BODY[:40], '",'),
    "telegram api": (
        "https://api.telegram.org/bot",
        DIGITS[:9] + ":AA" + BODY[:33],
        "/sendMessage",
    ),
}
KEY_LINES = (
    "\n".join("Proc-Type: 4,ENCRYPTED DEK-Info: AES-128-CBC,00FF".split(" D"))
    + "\n\n"
    + BODY[:64]
    + "\n"
    + BODY[:30]
    + "+/==\n"
)


def build_key_block(key_type: str = "RSA ", body: str = KEY_LINES) -> str:
    return f"-----BEGIN {key_type}PRIVATE KEY-----\n{body}-----END {key_type}PRIVATE KEY-----"


def find_values(text: str) -> list[tuple[str, str]]:
    return [found[:2] for found in find_pattern_values(FINDER, [text])[0]]


@pytest.mark.parametrize("issuer", TOKENS)
def test_a_token_is_found_and_one_that_is_too_short_is_not(issuer: str) -> None:
    prefix, body = TOKENS[issuer]
    token = prefix + body
    for frame in ("{}", "key={}.", '"{}"', "({}),", "token: {}\n", "写{}钥"):
        assert find_values(frame.format(token)) == [("SECRET", token)]
    assert not [value for value in find_values(token[:-1]) if value[0] == "SECRET"]
    assert not [value for value in find_values("x" + token) if value == ("SECRET", token)]


@pytest.mark.parametrize("issuer", TOKENS)
def test_surrogate_is_another_token_of_the_same_issuer(issuer: str) -> None:
    prefix, body = TOKENS[issuer]
    surrogates = SECRET.make_surrogates(pl.Series("v", [prefix + body] * 50), make_draws(50), False)
    assert (
        surrogates.n_unique() == 50
        and surrogates.str.starts_with(prefix).all()
        and (surrogates.str.len_bytes() == len(prefix + body)).all()
    )
    for surrogate in surrogates.head(5):
        assert find_values(surrogate) == [("SECRET", surrogate)] and surrogate != prefix + body


@pytest.mark.parametrize("format_name", NAMED_KEYS)
def test_key_is_found_by_its_name_and_excludes_it(format_name: str) -> None:
    before, key, after = NAMED_KEYS[format_name]
    assert [value for name, value in find_values(before + key + after) if name == "SECRET"] == [key]
    for surrogate in SECRET.make_surrogates(pl.Series("v", [key] * 5), make_draws(5), False):
        assert surrogate != key and ("SECRET", surrogate) in find_values(before + surrogate + after)
    assert not [
        value
        for value in find_values(
            before.replace("ey", "eyed").replace("/bot", "/robot") + key[:-3] + after
        )
        if value[0] == "SECRET"
    ]
    if format_name != "telegram api":
        assert not [value for value in find_values(f"md5 {key} and") if value[0] == "SECRET"]


@pytest.mark.parametrize("key_type", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "DSA "])
@pytest.mark.parametrize(
    "encode",
    [
        str,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\\n"),
        lambda text: text.replace("\n", "\n> "),
    ],
)
def test_a_key_block_is_one_value(key_type: str, encode: object) -> None:
    text = encode(build_key_block(key_type))  # type: ignore[operator]
    assert find_values(f"see:\n{text}\nbye") == [("SECRET", text)]


def test_key_blocks() -> None:
    pgp = build_key_block("PGP ").replace("KEY-", "KEY BLOCK-")
    assert find_values(pgp) == [("SECRET", pgp)]
    two = build_key_block() + "\n" + build_key_block("EC ")
    assert [value for _, value in find_values(two)] == two.replace(
        "-----\n-----B", "-----|-----B"
    ).split("|")
    # a truncated block does not extend to the end of the next one
    cut = build_key_block()[:-31]
    assert find_values(cut) == []
    assert find_values(cut + "\n" + build_key_block()) == [("SECRET", build_key_block())]
    assert find_values(build_key_block().replace("PRIVATE", "PUBLIC")) == []
    forms = SECRET.normalise(
        pl.Series(
            [
                build_key_block(),
                build_key_block().replace("\n", "\r\n"),
                build_key_block().replace("\n", "\\n"),
            ]
        )
    )
    assert forms.n_unique() == 1
    surrogate = SECRET.make_surrogates(pl.Series([build_key_block()]), make_draws(1), False)[0]
    assert surrogate.startswith("-----BEGIN RSA PRIVATE KEY-----\n") and surrogate.endswith(
        "\n-----END RSA PRIVATE KEY-----"
    )
    assert surrogate.count("\n") == build_key_block().count("\n") and not set(
        re.findall("[A-Za-z0-9]{8,}", surrogate)
    ) & set(re.findall("[A-Za-z0-9]{8,}", KEY_LINES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:pw@example.com/", ["user:pw"]),
        ("https://bob@example.com:hunter2@example.org/", ["bob@example.com:hunter2"]),
        ("mongodb+srv://ann:p%40ss@db.example.com", ["ann:p%40ss"]),
        ("redis://:s3cr3t@example.com", [":s3cr3t"]),
        ("ftp://a:b@example.com/", []),  # too short
        ("http://example.com:8080/a@b", []),
        ("http://example.com/a:b@c.d", []),
        ("see: //user:pw@ and mailto:bob@example.com", []),
    ],
)
def test_passwords_of_urls(text: str, expected: list[str]) -> None:
    assert [value for name, value in find_values(text) if name == "SECRET"] == expected


def test_host_after_a_password_is_searched() -> None:
    text = "https://user:pw@93.184.216.34/x?to=bob@example.com"
    assert find_values(text) == [
        ("URL", text),
        ("SECRET", "user:pw"),
        ("IP_ADDRESS", "93.184.216.34"),
        ("EMAIL_ADDRESS", "bob@example.com"),
    ]


def test_token_instead_of_a_user_name_is_not_an_address() -> None:
    token = "".join(TOKENS["github"])
    assert find_values(f"https://{token}@example.com/x") == [
        ("URL", f"https://{token}@example.com/x"),
        ("SECRET", token),
    ]


def test_placeholders_are_rejected() -> None:
    result = FINDER.run(
        pa.array(
            ["AKIA" + "X" * 16, "ghp_" + "x" * 36, "sk-" + "0" * 32, "ftp://a:b@example.com"],
            pa.large_string(),
        )
    )
    assert {
        reason: count
        for (number, reason), count in result.skipped.items()
        if FINDER.kinds[number].name == "SECRET"
    } == {
        "placeholder": 3,
        "short": 1,
    }
    assert "SECRET" not in {FINDER.kinds[number].name for number in result.values.kind}
