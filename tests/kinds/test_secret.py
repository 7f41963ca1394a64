"""Secrets: every issuer's format, also one character too short, key blocks, and passwords in URLs.
All are generated in the tests."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.issuer_formats import ISSUER_FORMATS, PASSWORD_HASHES
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


def draw_text(pattern: str, draws: random.Random) -> str:
    """A text that a pattern of the table matches, with the fewest repetitions."""

    def draw(items: Any) -> str:
        drawn = ""
        for operation, value in items:
            match str(operation):
                case "LITERAL":
                    drawn += chr(value)
                case "IN":
                    ranges = [(one, one) if str(kind) == "LITERAL" else one for kind, one in value]
                    drawn += chr(
                        draws.choice([n for low, high in ranges for n in range(low, high + 1)])
                    )
                case "MAX_REPEAT":
                    drawn += "".join(draw(value[2]) for _ in range(value[0]))
                case "SUBPATTERN":
                    drawn += draw(value[3])
                case "BRANCH":
                    drawn += draw(draws.choice(value[1]))
                case name:
                    raise NotImplementedError(name)
        return drawn

    return draw(re._parser.parse(pattern))  # type: ignore[attr-defined]


FORMATS = [
    *((one.issuer, one.prefix, one.rest) for one in ISSUER_FORMATS),
    *((f"hash {prefix}", prefix, rest) for prefix, rest in PASSWORD_HASHES),
]


@pytest.mark.parametrize(("issuer", "prefix", "rest"), FORMATS, ids=[one[0] for one in FORMATS])
def test_every_form_of_the_table_is_found_in_texts_and_urls(
    issuer: str, prefix: str, rest: str
) -> None:
    draws = random.Random(issuer)
    for _ in range(3):
        start = draw_text(prefix, draws)
        token = start + draw_text(rest, draws)
        for frame in ('value "{}" end', "see {}, then", "https://example.com/a?x={}&y=1"):
            if "//" in token and "https" in frame:
                continue
            text = frame.format(token)
            found = [value for name, value in find_values(text) if name == "SECRET"]
            assert found == [token], text
        surrogate = SECRET.make_surrogates(pl.Series([token]), make_draws(1), False)[0]
        assert surrogate.startswith(start) and len(surrogate) == len(token) and surrogate != token
        # of these, the alphabets are no classes of characters
        if start and issuer not in ("age", "Trello", "Brevo"):
            assert find_values(f'"{surrogate}"') == [("SECRET", surrogate)]
        # half of a token, one in a longer word, and a variable with the name of the prefix
        near_misses = [start + token[len(start) : (len(start) + len(token)) // 2], f"{start}name"]
        near_misses += [] if token.startswith("$") else ["Q" + token]
        for text in near_misses:
            assert ("SECRET", token) not in find_values(text)
        assert find_values(near_misses[1]) == []


# a text, and the secret in it; all invented
LABELLED_VALUES = [
    ("password: tr4ctor-Blue", "tr4ctor-Blue"),
    ("Passwd=Rain2day!", "Rain2day!"),
    ("  MYSQL_ROOT_PASSWORD: Kestrel88!x", "Kestrel88!x"),
    ("DB_PASSWORD=kestrelgrey", "kestrelgrey"),
    ("Server=db1;User Id=app;Password=kestrelgrey;Encrypt=yes", "kestrelgrey"),
    ("db_pass = 'kestrel grey'.strip()", None),
    ('"password": "kestrelgrey"', "kestrelgrey"),
    ('{\\"password\\": \\"kestrelgrey\\"}', "kestrelgrey"),
    ("password: str = 'kestrelgrey'", "kestrelgrey"),
    ("config['password'] = b'kestrelgrey'", "kestrelgrey"),
    ("<dbPassword>kestrel7</dbPassword>", "kestrel7"),
    ("<key>Password</key>\n  <string>kestrel7</string>", "kestrel7"),
    ('- name: API_TOKEN\n  value: "4f9a2c7b1e"', "4f9a2c7b1e"),
    ('<add key="ApiKey" value="4f9a2c7b1e"/>', "4f9a2c7b1e"),
    ("&quot;password&quot;: &quot;kestrel7&quot;", "kestrel7"),
    ("mot de passe : Pluie77x", "Pluie77x"),
    ("contraseña: Lluvia77", "Lluvia77"),
    ("пароль: Dozhd77", "Dozhd77"),
    ("密码：Yu2345678", "Yu2345678"),
    ("パスワードは Ame2345", "Ame2345"),
    ("the guest password is kestrel-77", "kestrel-77"),
    ("PIN: 4907", "4907"),
    ("Your verification code is 490712", "490712"),
    ("api_key=4f9a2c7b1e", "4f9a2c7b1e"),
    ("X-Auth-Token: 4f9a2c7b1e", "4f9a2c7b1e"),
    ("SNYK_TOKEN=1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"),
    ("Authorization: Basic bmVsYTpyYWluMmRheQ==", "bmVsYTpyYWluMmRheQ=="),
    ("headers = {'Authorization': 'Bearer 4f9a2c7b1e'}", "4f9a2c7b1e"),
    ("Cookie: theme=dark; sessionid=4f9a2c7b1e", "4f9a2c7b1e"),
    ("Set-Cookie: laravel=4f9a2c7b1e; Path=/", "4f9a2c7b1e"),
    ("curl -s -u nela:rain2day https://example.com/", "nela:rain2day"),
    ("deploy --password rain2day --force", "rain2day"),
    ("deploy --token=4f9a2c7b1e", "4f9a2c7b1e"),
    ("mysql -h db1 -u nela -prain2day app", "rain2day"),
    ("docker login -u nela -p rain2day example.com", "rain2day"),
    ("CREATE USER nela IDENTIFIED BY 'kestrelgrey';", "kestrelgrey"),
    ("requirepass rain2day", "rain2day"),
    ("machine example.com login nela password rain2day", "rain2day"),
    ('set("password", "rain2day")', "rain2day"),
    ("https://example.com/in?user=nela&password=rain2day", "rain2day"),
    ("https://example.com/f?se=1&sig=4f9a%2Bc7b1e%2Fx%3D", "4f9a%2Bc7b1e%2Fx%3D"),
    ("GET /files?access_token=4f9a2c7b1e HTTP/1.1", "4f9a2c7b1e"),
    ("Private-Lines: 1\n" + BODY[:48] + "\nPrivate-MAC: 0", BODY[:48]),
    ("-----BEGIN EC PRIVATE KEY-----\n" + (BODY[:64] + "\n") * 2, None),
]
NO_SECRETS = (
    """
password: changeme|password=${DB_PASSWORD}|password: $DB_PASSWORD|password = "{{ vault.pw }}"
password: <password>|PASSWORD=xxxxxxxx|password: ********|password: null|password=None|pwd = true
password = get_password()|token: string|self.token = token|key = os.environ["API_KEY"]
password=args.password|token=self.token|api_key = config.api_key|password=db_password
postgres://user:password@localhost/db|password: must be at least 8 characters
The password is required|the token is valid for 30 days|password: 8-64 characters
"password": "Password must have 8 characters"|"password": "newPassword"|PWD=/usr/src/app
password_file: /run/secrets/db_password1|password: vault:kv/db#2|token = TokenType2.ACCESS_TOKEN
max_tokens: 4096|token_count=12345678|eos_token: <s>|primary_key = customer_id_1
session: InferenceSession2|["Sam2VideoSession", "Sam2VideoModel"]
session_id: int64|secret: db-credentials-2|pwd: 12px
public_key: 4f9a2c7b1e|sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
id: 1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed|scan_2024_final_v2.pdf|token: 2024-11-02T10:30:00
e.password=t,e.token=n.token;if(password==="x"){}|function(token,password){return token}
docker run -u 1000:1000 app|PIN code 560001|PIN 1: VCC|Spin: 4821|code: 4821|password:
Bearer authentication|Authorization: Bearer <token>|Authorization: Bearer ${TOKEN}|passwd 1:4.8.1-1
password hash: bcrypt|enter your password: |--password PASSWORD|login and password protection
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


@pytest.mark.parametrize(("text", "value"), LABELLED_VALUES)
def test_a_value_is_found_by_its_label(text: str, value: str | None) -> None:
    for frame in ("{}", "a line\n{}\nanother"):
        found = [one for name, one in find_values(frame.format(text)) if name == "SECRET"]
        if value is not None:
            assert found == [value]
        else:
            assert len(found) == ("PRIVATE" in text)


@pytest.mark.parametrize("text", NO_SECRETS)
def test_placeholders_code_and_prose_are_no_secrets(text: str) -> None:
    for frame in ("{}", "a line\n{}\nanother", "f({})"):
        assert "SECRET" not in dict(find_values(frame.format(text)))


def test_a_label_hides_no_value_of_another_kind() -> None:
    assert find_values("password: nela@example.com") == [("EMAIL_ADDRESS", "nela@example.com")]
    token = "ghp_" + BODY[:36]
    assert find_values(f'password: "or use {token}"') == [("SECRET", token)]


def test_what_might_be_a_word_or_a_number_is_searched_nowhere_else() -> None:
    values = pl.DataFrame({"value": ["4907", "kestrelgrey", "rain2day", "a:b", BODY]})
    assert SECRET.is_distinctive is not None
    assert SECRET.is_distinctive(values).to_list() == [False, False, True, True, True]


def test_values_of_fields() -> None:
    values = ["kestrelgrey", "Bearer 4f9a2c7b1e", "changeme", "two words", "${VAR}", "abc"]
    assert SECRET.is_field_value(pl.Series(values)).to_list() == [True] * 2 + [False] * 4


@pytest.mark.parametrize(
    "text",
    [
        "password=" * 100_000,
        'token="' * 100_000,
        "PASSWORDTOKENSECRET" * 50_000,
        "key=" + BODY * 4_000,
        BODY * 4_000 + "/" + "A" * 500_000,
        "e.password=t,n.token=e;" * 40_000,
        "curl -s " * 100_000,
        "--" * 400_000 + "password",
        "-----BEGIN PRIVATE KEY-----\n" * 30_000,
        "<password" + ' a="b"' * 100_000,
    ],
    ids=lambda text: text[:12],
)
def test_bad_input_takes_linear_time(text: str) -> None:
    FINDER.run(pa.array([text[:1000]], pa.large_string()))  # compiles the patterns
    start = time.process_time()
    FINDER.run(pa.array([text], pa.large_string()))
    assert time.process_time() - start < 3  # of a megabyte


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
            re.sub("(?i)key", "keyed", before).replace("/bot", "/robot") + key[:-3] + after
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
