"""Details of the built-in kinds: reasons of refusal, normalised forms, components, shapes of
surrogates. All people are invented.

test_examples.py tests every kind on its own examples.
"""

from __future__ import annotations

import re
import time

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.keys import Key
from sanitize.errors import PlanError
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import (
    BOUNDARY,
    flatten_strings,
    from_byte_matrix,
    get_kind,
    list_kinds,
    redraw_characters,
    to_byte_matrix,
    unflatten_strings,
)
from tests.support import make_draws

FINDER = PatternFinder(Key.from_seed(3))
KINDS = {name: kind for name, kind in list_kinds().items() if kind.pattern}
PATTERN = "|".join(f"(?:{kind.pattern})" for kind in KINDS.values())


def find_values(text: str) -> tuple[list[tuple[str, str]], set[tuple[str, str]]]:
    """(kind, value) of every occurrence in a text, and (kind, reason) of the rejected
    candidates."""
    found = FINDER.run(pa.array([text], pa.large_string()))
    values = [
        (FINDER.kinds[found.values.kind[value_no]].name, found.values.value[value_no].as_py())
        for value_no in found.value_no
    ]
    return values, {(FINDER.kinds[number].name, reason) for number, reason in found.skipped}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "046-1297901",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "1234.5678 00:1a:2b:3c:4d 0x5aAeb6 bc1",
    ],
)
def test_other_texts_have_no_values(text: str) -> None:
    assert find_values(text)[0] == []


REJECTED = [
    ("icon@2x.png", "EMAIL_ADDRESS", "file_name"),
    ("lib@3.1.min.js", "EMAIL_ADDRESS", "file_name"),
    ("git@github.com:x/y.git", "EMAIL_ADDRESS", "remote"),
    ("find us at example dot com", "EMAIL_ADDRESS", "words"),
    ("version 12.21.7.14", "IP_ADDRESS", "version"),
    ("Section 14.3.2.1", "IP_ADDRESS", "version"),
    ("§ 14.3.2.1", "IP_ADDRESS", "version"),
    ("OID: 1.3.61.4", "IP_ADDRESS", "version"),
    ("256.1.2.3", "IP_ADDRESS", "range"),
    ("aa:bb:cc:dd:ee:ff:00:11", "IP_ADDRESS", "groups"),
    ("4111.1111.1111.1112", "CREDIT_CARD", "luhn"),
    ("1.3.6.1.4.1.311", "IP_ADDRESS", "groups"),
    ("1.3.6.1.4.1.31123", "IP_ADDRESS", "groups"),
    ("4.3.2.1", "IP_ADDRESS", "version"),
    ("127.0.0.1", "IP_ADDRESS", "reserved"),
    ("0.0.0.0", "IP_ADDRESS", "reserved"),
    ("255.255.255.0", "IP_ADDRESS", "reserved"),
    ("0:0:0:0:0:0:0:1", "IP_ADDRESS", "reserved"),
    ("add::bad", "IP_ADDRESS", "word"),
    ("ab:cd:ef:01:23:45:67:89:ab", "IP_ADDRESS", "groups"),
    ("DE88 3704 0044 0532 0130 00", "IBAN_CODE", "mod97"),
    ("4111 1111 1111 1112", "CREDIT_CARD", "luhn"),
    ("2000 0000 0000 0006", "CREDIT_CARD", "issuer"),
    ("000-12-3456", "US_SSN", "range"),
    ("666-12-3456", "US_SSN", "range"),
    ("987-65-4321", "US_SSN", "range"),
    ("912-00-3456", "US_SSN", "range"),
    ("123-00-4567", "US_SSN", "range"),
    ("123-45-0000", "US_SSN", "range"),
    ("123-45 6789", "US_SSN", "separator"),
]


@pytest.mark.parametrize(("text", "name", "reason"), REJECTED)
def test_rejected_candidates_have_a_reason(text: str, name: str, reason: str) -> None:
    values, rejected = find_values(text)
    assert name not in dict(values) and (name, reason) in rejected


def test_checks_of_values_that_no_pattern_matches() -> None:
    assert KINDS["IBAN_CODE"].check(
        pl.Series(["XX8937040044053201", "DE8937040044", "4"])
    ).to_list() == [
        "country",
        "length",
        "country",
    ]
    assert KINDS["CREDIT_CARD"].check(pl.Series(["0000000000000000", "4"])).to_list() == [
        "issuer",
        "luhn",
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("<a1b2c3@example.com>", ("MESSAGE_ID", "a1b2c3@example.com")),
        ("a1b2c3@example.com", ("MESSAGE_ID", "a1b2c3@example.com")),
        ("Message from Bob Lee <bob.lee@example.com>", ("EMAIL_ADDRESS", "bob.lee@example.com")),
        ("http://bob@example.com", ("URL", "http://bob@example.com")),
    ],
)
def test_an_id_field_makes_all_but_a_persons_address_a_message_id(
    field: str, value: tuple[str, str]
) -> None:
    assert find_values(f"From: x\nIn-Reply-To: {field}\n\nhello")[0][0] == value


NORMALISED_VALUES = [
    ("EMAIL_ADDRESS", "BOB@Example.COM", "bob@example.com"),
    ("EMAIL_ADDRESS", "Bob [at] Example (dot) com", "bob@example.com"),
    ("EMAIL_ADDRESS", "bob dot lee at mail dot example dot com", "bob.lee@mail.example.com"),
    ("EMAIL_ADDRESS", "bob.l=\nee@exam=\r\nple.com", "bob.lee@example.com"),
    ("EMAIL_ADDRESS", "b\u200bob\uff20exam\u00adple\uff0ecom", "bob@example.com"),
    ("EMAIL_ADDRESS", "jose\u0301@example.com", "jos\u00e9@example.com"),
    ("EMAIL_ADDRESS", "bob@XN--BCHER-KVA.example", "bob@b\u00fccher.example"),
    ("EMAIL_ADDRESS", "bob@xn--fa-hia.de", "bob@fa\u00df.de"),
    ("EMAIL_ADDRESS", "bob@xn--abc-.example", "bob@xn--abc-.example"),
    ("EMAIL_ADDRESS", "bob%40example.com", "bob@example.com"),
    ("EMAIL_ADDRESS", "bob%40example.com@example.org", "bob%40example.com@example.org"),
    (
        "CRYPTO",
        "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
    ),
    ("MAC_ADDRESS", "00-1A-2B-3c-4d-5E", "001a2b3c4d5e"),
    ("X500_NAME", "/O=EXAMPLE/OU=Two\r\n Words/CN=Lee", "/o=example/ou=two words/cn=lee"),
    ("EMAIL_ADDRESS", "..bob.@example.com.", "bob@example.com"),
    ("URL", "HTTP://Bob:PW@WWW.Example.COM:80/A?B=c", "http://Bob:PW@www.example.com:80/A?B=c"),
    ("IP_ADDRESS", "010.001.002.000", "10.1.2.0"),
    ("IP_ADDRESS", "2001:DB8:0:0:8:800:200C:417A", "2001:db8::8:800:200c:417a"),
    ("IBAN_CODE", "DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
    ("CREDIT_CARD", "4111-1111 1111 1111", "4111111111111111"),
    ("US_SSN", "123 45 6789", "123456789"),
    ("PHONE_NUMBER", "(713) 555-6161", "+17135556161"),
    ("PHONE_NUMBER", "1.713.555.6161 ext. 12", "+17135556161x12"),
    ("PHONE_NUMBER", "+44 (0)20 7946 0958", "+442079460958"),
    ("MESSAGE_ID", "A1@Host", "A1@Host"),
]


@pytest.mark.parametrize(("name", "value", "normalised"), NORMALISED_VALUES)
def test_normalise(name: str, value: str, normalised: str) -> None:
    assert KINDS[name].normalise(pl.Series([value])).to_list() == [normalised]


SAMPLES = {
    name: [value for _, *values in kind.hits for value in values] for name, kind in KINDS.items()
}
SAMPLES["PHONE_NUMBER"] += [
    "+7 495 123-45-67",
    "+39 06 1234567",
    "+36 1 123 4567",
    "+229 98 47 77 62",
    "(212)555-0123",
]
SAMPLES["IP_ADDRESS"] += ["172.20.1.1", "192.168.0.9", "9.9.9.10", "FE80::ABCD:1", "2001:DB8::a1"]
SAMPLES["EMAIL_ADDRESS"] += [
    "_bob@example.com",
    "__@example.com",
    "bob-@example.com",
    "J.Doe+x@example.museum",
    "7@example.com",
    "B@E.COM",
]
SAMPLES["EMAIL_ADDRESS"] += ["a_b@[192.0.2.1]", "..@corp"]
SAMPLES["SECRET"] += ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"]
SAMPLES["CRYPTO"] += [
    "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy",
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "LTC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KGMN4N9",
]
SAMPLES["CRYPTO"] += ["bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"]
HIDDEN_ADDRESSES = [
    "bob at example dot com",
    "Ann [at] mail [dot] example [dot] com",
    "BOB(AT)EXAMPLE.COM",
    "b\u200bob\uff20example.com",
    "bob%40example.com",
]
HIDDEN_ADDRESSES += [
    "jos\u00e9@b\u00fccher.example",
    "иван@пример.рф",
    "bob.l=\nee@example.com",
    "ann dot lee at example dot org",
]


# kinds of which a surrogate keeps the class of every character
SHAPED_KINDS = (
    "CREDIT_CARD",
    "IBAN_CODE",
    "MESSAGE_ID",
    "PHONE_NUMBER",
    "SECRET",
    "URL",
    "US_SSN",
    "X500_NAME",
)


def reduce_to_shape(name: str, value: str) -> str:
    """What a surrogate of this kind keeps."""
    if name == "IP_ADDRESS" and ":" not in value:
        return value.count(".") * "."
    if name == "IP_ADDRESS":
        value = re.sub("[0-9]+([.][0-9]+){3}$", "0.0.0.0", value)
        return re.sub("[0-9A-Fa-f]", "h", value)
    if name == "CRYPTO":
        return (
            value[0].lower() + re.sub("[^0-9A-Za-z]", "", value[1:2]).lower()
            if value[0] in "0bBlLtT"
            else value[0]
        )
    if name == "MAC_ADDRESS":
        return re.sub("[0-9A-Fa-f]", "h", value)
    if name == "EMAIL_ADDRESS":
        if "@" not in value:  # inside another address, or in a link
            value = re.sub(r"[+]2E|\W+(?:punkt|punto)\W+", ".", value)
            value = re.sub(r"%(?:25)?40|[+_]40|=|\W+(?:at|ät|arroba)\W+", "@", value)
        local, host = value.rsplit("@", 1)
        return (
            re.sub(
                "[A-Za-z0-9]",
                "",
                re.sub("^([^A-Za-z0-9]*[A-Za-z0-9]*[^A-Za-z0-9]*).*", r"\1", local),
            )
            + "@"
            + "." * (1 if host[:1] == "[" else max(host.count("."), 1))
        )
    if name in ("MESSAGE_ID", "URL"):  # the last label of a host is redrawn as a whole
        pattern = (
            "(.*@)(.*)()" if name == "MESSAGE_ID" else "((?:[^:]*://|)(?:[^/?#@]*@)?)([^/?#:]*)(.*)"
        )
        before, host, after = re.fullmatch(pattern, value, re.DOTALL).groups()
        labels = host.split(".")[:-1] if "." in host else [host]
        value = f"{before}{'.'.join(labels)}{after}"
    return re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "0", value)))


@pytest.mark.parametrize(
    "name", [*SHAPED_KINDS, "CRYPTO", "EMAIL_ADDRESS", "IP_ADDRESS", "MAC_ADDRESS"]
)
def test_surrogates_keep_the_shape(name: str) -> None:
    kind, values = KINDS[name], pl.Series("value", SAMPLES[name] * 20)
    surrogates = kind.make_surrogates(values, make_draws(len(values)), False)
    assert [reduce_to_shape(name, surrogate) for surrogate in surrogates] == [
        reduce_to_shape(name, value) for value in values
    ]
    frame = pl.DataFrame({"value": surrogates}).with_columns(
        bracketed=pl.lit(True), id_field=pl.lit(False), address_field=pl.lit(False)
    )
    assert kind.is_value(frame).all() and (
        kind.check is None or kind.check(surrogates).is_null().all()
    )
    assert (kind.normalise(surrogates) != kind.normalise(values)).mean() > (
        0.99 if name != "EMAIL_ADDRESS" else 0.999
    )


def test_surrogate_addresses_match_the_whole_pattern() -> None:
    values = pl.Series(
        [
            "bob@example.com",
            "a.b..c@example.co.uk",
            "x_@example.xn--p1ai",
            "O'Neil+tag@EXAMPLE.museum",
        ]
        * 50
    )
    surrogates = KINDS["EMAIL_ADDRESS"].make_surrogates(values, make_draws(len(values)), False)
    assert surrogates.str.contains(rf"\A(?:{KINDS['EMAIL_ADDRESS'].pattern})\z").all()


def test_surrogates_and_components_of_hidden_addresses() -> None:
    kind = KINDS["EMAIL_ADDRESS"]
    values = pl.Series("value", HIDDEN_ADDRESSES * 20)
    assert kind.split_components is not None
    components = kind.split_components(values)
    assert components.columns == COMPONENT_NAMES
    assert components.select(pl.concat_str(pl.all())).to_series().to_list() == values.to_list()
    assert components.rows()[0] == ("", "bob", "", "", " at ", "example", " dot ", "com")
    for reserved in (False, True):
        surrogates = kind.make_surrogates(values, make_draws(len(values)), reserved)
        assert surrogates.str.contains(rf"\A(?:{kind.pattern})\z").all()
        assert kind.check is not None and kind.check(surrogates).is_null().all()
        assert not set(kind.normalise(surrogates)) & set(kind.normalise(values))
    spelled = kind.make_surrogates(values, make_draws(len(values)), False)
    assert (
        spelled[0].count(" at ") == 1 and spelled[0].endswith(" dot com") and "[at]" in spelled[1]
    )


@pytest.mark.parametrize(
    "at", [" at ", " AT ", "(at)", " (at) ", "[at]", " [at] ", "%40", "\uff20", " (@) "]
)
@pytest.mark.parametrize(
    "local",
    [
        "jane.moody",
        "hans_maximov",
        "o-brien",
        "peter.smith",
        "a1.b2",
        "jane dot doe",
        "ann",
        "ann.b.kovac",
    ],
)
def test_hidden_address_has_the_components_of_the_plain_one(local: str, at: str) -> None:
    """Letters of a name in `sep` would not be replaced, since a variant keeps the separators."""
    kind = KINDS["EMAIL_ADDRESS"]
    assert kind.split_components is not None
    plain, hidden = kind.split_components(
        pl.Series([f"{local.replace(' dot ', '.')}@uni.example", f"{local}{at}uni.example"])
    ).rows(named=True)
    for name in ("lead", "first", "last", "domain", "dot", "tld"):
        assert hidden[name] == plain[name], name
    assert hidden["sep"] == (" dot " if " dot " in local else plain["sep"]) and hidden["at"] == at
    surrogates = kind.make_surrogates(
        pl.Series([f"{local}{at}uni.example"] * 20), make_draws(20), False
    )
    words = set(re.findall("[a-z]{3,}", local)) - {"dot"}
    # of 20 or 40: a drawn name may be the same
    assert sum(word in address for word in words for address in surrogates) < 20


def test_surrogate_addresses_rarely_repeat() -> None:
    values = pl.Series(["bob.mann@example.com", "bob@example.com"] * 5_000)
    assert KINDS["EMAIL_ADDRESS"].make_surrogates(
        values, make_draws(len(values)), False
    ).n_unique() == len(values)


def test_reserved_ranges() -> None:
    def surrogates(name: str, value: str) -> pl.Series:
        return KINDS[name].make_surrogates(pl.Series([value] * 50), make_draws(50), True)

    assert (
        surrogates("PHONE_NUMBER", "(713) 253-6161 x12")
        .str.contains(r"\A[(][2-9][0-9]{2}[)] 555-01[0-9]{2} x[0-9]{2}\z")
        .all()
    )
    assert (
        surrogates("IP_ADDRESS", "10.1.2.3")
        .str.contains(r"\A(?:192[.]0[.]2|198[.]51[.]100|203[.]0[.]113)[.][0-9]{1,3}\z")
        .all()
    )
    assert surrogates("IP_ADDRESS", "fe80::1").str.starts_with("2001:db8::").all()
    assert surrogates("CREDIT_CARD", "5105 1051 0510 5100").str.starts_with("5555 55").all()
    assert (
        surrogates("MAC_ADDRESS", "00:1A:2B:3C:4D:5E")
        .str.contains(r"\A00:00:5E:00:53:[0-9A-F]{2}\z")
        .all()
    )
    assert surrogates("US_SSN", "123-45-6789").str.contains(r"\A987-65-432[0-9]\z").all()


@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "surrogate"),
    [
        ("EMAIL_ADDRESS", "bob@corp.net", "[a-z]+@[a-z]+[.]example"),
        ("EMAIL_ADDRESS", "bob@corp", "[a-z]+@[a-z]+[.]example"),
        ("EMAIL_ADDRESS", "BOB.LEE@A.B.CO.UK", r"[A-Z.]+@(?:[A-Z]+[.]){3}EXAMPLE"),
        ("EMAIL_ADDRESS", "bob@a.b.c.d.e.f.g.com", "[a-z]+@(?:[a-z]+[.]){4}example"),
        ("EMAIL_ADDRESS", "bob at corp dot com", "[a-z]+ at example dot com"),
        ("EMAIL_ADDRESS", "b at a dot c dot de", "[a-z]+ at [a-z]+ dot example dot (com|net|org)"),
        ("EMAIL_ADDRESS", "bob%40corp.de", "[a-z]+%40example[.](com|net|org)"),
        ("URL", "https://www.corp.net:80/a", "https://www[.][a-z]{4}[.]example:80/[a-z]"),
        ("URL", "ftp://a:b@x-1.corp.com.?q", r"ftp://[a-z]:[a-z]@[a-z]-[0-9][.][a-z]{4}[.]example[?][a-z]"),
        ("URL", "http://intranet/x", "http://[a-z]{8}[.]example/[a-z]"),
        ("URL", "http://84.17.201.63:8080/", "http://site[.]example:8080/"),
        ("URL", "http://[fe80::1]/", "http://site[.]example/"),
        ("MESSAGE_ID", "1$a@host", "[0-9][$][a-z]@[a-z]{4}[.]example"),
        ("MESSAGE_ID", "1$a@x.Corp.com", "[0-9][$][a-z]@[a-z][.][A-Z][a-z]{3}[.]example"),
        ("MESSAGE_ID", "1$a@[84.17.201.63]", "[0-9][$][a-z]@site[.]example"),
    ],
)  # fmt: skip
def test_hosts_of_surrogates_are_reserved(
    name: str, value: str, surrogate: str, reserved: bool
) -> None:
    drawn = KINDS[name].make_surrogates(pl.Series([value] * 50), make_draws(50), reserved)
    assert drawn.str.contains(rf"\A{surrogate}\z").all()


COMPONENT_NAMES = ["lead", "first", "sep", "last", "at", "domain", "dot", "tld"]


def test_split_components() -> None:
    split = KINDS["EMAIL_ADDRESS"].split_components
    assert split is not None
    table = split(pl.Series(["kenneth..lay@example.co.uk", "bob@corp", ".bob.m-x@example.com"]))
    assert table.columns == COMPONENT_NAMES
    assert table.rows() == [
        ("", "kenneth", "..", "lay", "@", "example.co", ".", "uk"),
        ("", "bob", "", "", "@", "corp", "", ""),
        (".", "bob", ".", "m-x", "@", "example", ".", "com"),
    ]


def test_escapes_of_a_link_are_signs_between_components() -> None:
    split = KINDS["EMAIL_ADDRESS"].split_components
    assert split is not None
    rows = {
        "bo%2Btag%40acme.example": ("", "bo", "%2B", "tag", "%40", "acme", ".", "example"),
        "bo%252Btag%2540acme.example": ("", "bo", "%252B", "tag", "%2540", "acme", ".", "example"),
        "bo%2btag@acme.example": ("", "bo", "%2b", "tag", "@", "acme", ".", "example"),
        "%22bo.x@acme.example": ("%22", "bo", ".", "x", "@", "acme", ".", "example"),
        "user%decade@acme.example": ("", "user", "%", "decade", "@", "acme", ".", "example"),
        "bo%2@acme.example": ("", "bo", "%", "2", "@", "acme", ".", "example"),
        "bo%@acme.example": ("", "bo", "%", "", "@", "acme", ".", "example"),
        "bo%25@acme.example": ("", "bo", "%25", "", "@", "acme", ".", "example"),
    }
    assert split(pl.Series([*rows])).rows() == [*rows.values()]


LOCAL = st.text("ab1.-_'+=$A!%25B", min_size=1, max_size=12)
HOST = st.text("ab1.-_[]:A", min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(LOCAL, HOST), min_size=1, max_size=30))
def test_components_concatenate_to_the_value(pairs: list[tuple[str, str]]) -> None:
    values = pl.Series([f"{local}@{host}" for local, host in pairs])
    split = KINDS["EMAIL_ADDRESS"].split_components
    assert split is not None
    assert split(values).select(pl.concat_str(pl.all())).to_series().to_list() == values.to_list()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", KINDS)
def test_normalise_is_idempotent(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    values = st.from_regex(
        re.compile(kind.pattern.replace(BOUNDARY, "").replace(r"\z", ""), re.ASCII), fullmatch=True
    )
    column = pl.Series(
        data.draw(st.lists(values, min_size=1, max_size=5)), dtype=pl.String
    ).str.strip_chars("<>")
    once = kind.normalise(column)
    assert kind.normalise(once).to_list() == once.to_list()


def test_redraw_keeps_character_classes_and_kept_bytes() -> None:
    values = pl.Series(["Ab-09 é", "", "zz"])
    flat, _ = flatten_strings(values)
    out = redraw_characters(values, make_draws(3), flat == ord("-"))
    assert out.str.contains(r"\A(?:[A-Z][a-z]-[0-9]{2} é|[a-z]{2}|)\z").all()
    assert out.to_list() != values.to_list()
    assert (
        redraw_characters(values, make_draws(3), np.ones(len(flat), bool)).to_list()
        == values.to_list()
    )


def test_byte_matrix_and_flattened_strings_round_trip() -> None:
    values = pl.Series("v", ["ab", "", "abcdef"])
    assert from_byte_matrix(to_byte_matrix(values), "v").equals(values)
    assert unflatten_strings(*flatten_strings(values), "v").equals(values)
    assert unflatten_strings(*flatten_strings(values.slice(1)), "v").equals(values.slice(1))


def test_kinds_are_tried_in_the_order_of_their_ranks() -> None:
    ranks = [kind.rank for kind in list_kinds().values()]
    assert ranks == sorted(ranks)


def test_unknown_kind_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(PlanError, match="EMAIL_ADDRESS"):
        get_kind("EMAIL_ADRESS")


@pytest.mark.parametrize(
    "unit",
    [
        "10.0.0.1-",
        "713-555-6161-",
        "10.0.0.1&",
        "<10.0.0.1:",
        "a.b@",
        "ab::1:",
        "eyJ-713-555-6161-",
        "eyJaaaaaaaa.eyJ-713-555-6161-",
        "://a:10.0.0.1,",
        "-----BEGIN PRIVATE KEY----- 10.0.0.1 ",
        "/O=a 713-555-6161 /",
        "/O= 713-555-6161 ",
        "</O=a/O=b 713-555-6161 ",
        "A B/C 10.0.0.1 ",
        "a at 10.0.0.1 ",
        "é10.0.0.1\u200b",
        "00:1a:2b:3c:4d:5e:",
        "=3Da=\n10.0.0.1 ",
    ],
)
def test_long_unbroken_runs_take_linear_time(unit: str) -> None:
    """Quadratic work in the length of a run would take half a minute: all patterns in one search
    do, for the first two."""
    texts = pa.array([(unit * 125_000)[:500_000]], pa.large_string())
    finder = PatternFinder(Key.from_seed(1))
    start = time.process_time()
    finder.run(texts)
    assert time.process_time() - start < 8
