"""Texts that break the patterns of other tools, with the complete list of expected findings for
each."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from tests.support import find_pattern_values

FINDER = PatternFinder(Key.from_seed(3))
MAIL, ID, IP, URL, SECRET = "EMAIL_ADDRESS", "MESSAGE_ID", "IP_ADDRESS", "URL", "SECRET"

# name, text, and (kind, value, normalised value) of every finding
PROBES: list[tuple[str, str, list[tuple[str, str, str]]]] = [
    ("end of document", "write to bob@example.com", [(MAIL, "bob@example.com", "bob@example.com")]),
    ("upper-case domain", "BOB@EXAMPLE.COM!", [(MAIL, "BOB@EXAMPLE.COM", "bob@example.com")]),
    ("apostrophe", "Tell o'neil@example.com", [(MAIL, "o'neil@example.com", "o'neil@example.com")]),
    ("quotes are none", "'bob@example.com'", [(MAIL, "bob@example.com", "bob@example.com")]),
    ("3D prefix", "title=3Dklaus@example.com", [(MAIL, "klaus@example.com", "klaus@example.com")]),
    ("20 prefix", "to=20bob@example.com", [(MAIL, "bob@example.com", "bob@example.com")]),
    (
        "20 of a year",
        "id=2012bob@example.com",
        [(MAIL, "2012bob@example.com", "2012bob@example.com")],
    ),
    (
        "soft break in the name",
        "see bob.l=\nee@example.com",
        [(MAIL, "bob.l=\nee@example.com", "bob.lee@example.com")],
    ),
    (
        "soft break in the host",
        "bob@exam=\r\nple.com, yes",
        [(MAIL, "bob@exam=\r\nple.com", "bob@example.com")],
    ),
    ("20 behind", "bob@example.com=20", [(MAIL, "bob@example.com", "bob@example.com")]),
    ("IDN", "bob@bücher.example.", [(MAIL, "bob@bücher.example", "bob@bücher.example")]),
    (
        "punycode",
        "bob@xn--bcher-kva.example",
        [(MAIL, "bob@xn--bcher-kva.example", "bob@bücher.example")],
    ),
    ("Cyrillic", "Пишите на иван@пример.рф сегодня", [(MAIL, "иван@пример.рф", "иван@пример.рф")]),
    ("accent", "josé@example.com", [(MAIL, "josé@example.com", "josé@example.com")]),
    (
        "words",
        "mail bob at example dot com today",
        [(MAIL, "bob at example dot com", "bob@example.com")],
    ),
    (
        "words with dots",
        "ann dot lee at mail dot example dot co dot uk",
        [(MAIL, "ann dot lee at mail dot example dot co dot uk", "ann.lee@mail.example.co.uk")],
    ),
    (
        "brackets",
        "bob [at] example [dot] com",
        [(MAIL, "bob [at] example [dot] com", "bob@example.com")],
    ),
    (
        "brackets, tight",
        "bob(at)example(dot)com",
        [(MAIL, "bob(at)example(dot)com", "bob@example.com")],
    ),
    (
        "brackets around at",
        "bob <at> example.com",
        [(MAIL, "bob <at> example.com", "bob@example.com")],
    ),
    ("full-width @", "bob＠example.com", [(MAIL, "bob＠example.com", "bob@example.com")]),
    ("percent", "?u=bob%40example.com&x", [(MAIL, "bob%40example.com", "bob@example.com")]),
    ("zero width", "bob@exam\u200bple.com", [(MAIL, "bob@exam\u200bple.com", "bob@example.com")]),
    (
        "zero width around",
        "\u200bbob@example.com\ufeff",
        [(MAIL, "bob@example.com", "bob@example.com")],
    ),
    ("soft hyphen", "bob@exam\u00adple.com", [(MAIL, "bob@exam\u00adple.com", "bob@example.com")]),
    (
        "list",
        "a@example.com;b@example.org;c@example.net",
        [
            (MAIL, f"{one}@example.{tld}", f"{one}@example.{tld}")
            for one, tld in (("a", "com"), ("b", "org"), ("c", "net"))
        ],
    ),
    (
        "neighbours",
        "a@example.com b@example.com",
        [(MAIL, f"{one}@example.com", f"{one}@example.com") for one in "ab"],
    ),
    ("Chinese around", "写信给bob@example.com谢谢", [(MAIL, "bob@example.com", "bob@example.com")]),
    ("Chinese host", "bob@例子.中国谢谢", [(MAIL, "bob@例子.中国", "bob@例子.中国")]),
    (
        "Japanese around",
        "メールはbob@example.comです",
        [(MAIL, "bob@example.com", "bob@example.com")],
    ),
    (
        "punycode in capitals",
        "bob@XN--BCHER-KVA.EXAMPLE",
        [(MAIL, "bob@XN--BCHER-KVA.EXAMPLE", "bob@bücher.example")],
    ),
    ("ideographic full stop", "bob@例子。中国", [(MAIL, "bob@例子。中国", "bob@例子.中国")]),
    (
        "two letters that are one",
        "bob@straße.example",
        [(MAIL, "bob@straße.example", "bob@straße.example")],
    ),
    (
        "a capital that grows",
        "BOB@İSTANBUL.example",
        [(MAIL, "BOB@İSTANBUL.example", "bob@i̇stanbul.example")],
    ),
    (
        "composed or not",
        "jose\u0301@example.com",
        [(MAIL, "jose\u0301@example.com", "josé@example.com")],
    ),
    (
        "double dot",
        "kenneth..lee@example.com",
        [(MAIL, "kenneth..lee@example.com", "kenneth..lee@example.com")],
    ),
    ("glued behind", "bob@example.com2nd", [(MAIL, "bob@example.com", "bob@example.com")]),
    ("quoted-printable @", "bob=40example.com", [(MAIL, "bob=40example.com", "bob@example.com")]),
    ("entity for @", "bob&#64;example.com", [(MAIL, "bob&#64;example.com", "bob@example.com")]),
    ("other entities", "bob&#x40;example.com", [(MAIL, "bob&#x40;example.com", "bob@example.com")]),
    ("@ and dot", "to bob@example dot com!", [(MAIL, "bob@example dot com", "bob@example.com")]),
    (
        "@ and dots",
        "to bob@mail.example dot com!",
        [(MAIL, "bob@mail.example dot com", "bob@mail.example.com")],
    ),
    (
        "quoted name",
        'to "bob.lee"@example.com',
        [(MAIL, '"bob.lee"@example.com', "bob.lee@example.com")],
    ),
    (
        "archive, angles",
        "Bob Lee <bob at example.com> wrote:",
        [(MAIL, "bob at example.com", "bob@example.com")],
    ),
    (
        "archive, brackets",
        "(bob.lee at example.com)",
        [(MAIL, "bob.lee at example.com", "bob.lee@example.com")],
    ),
    (
        "archive, field",
        "From: bob at example.com (Bob Lee)",
        [(MAIL, "bob at example.com", "bob@example.com")],
    ),
    (
        "archive, opening",
        "From bob at example.com  Mon Jan  1 10:00:00 2001\nx",
        [(MAIL, "bob at example.com", "bob@example.com")],
    ),
    (
        "archive, line",
        "-- \nbob.lee at example.com\nann @ example.org \n",
        [
            (MAIL, "bob.lee at example.com", "bob.lee@example.com"),
            (MAIL, "ann @ example.org", "ann@example.org"),
        ],
    ),
    (
        "archive, quoted line",
        "so\n> > bob at example.com\r\n",
        [(MAIL, "bob at example.com", "bob@example.com")],
    ),
    (
        "blanks around @",
        "Reply-To: ann @ example.org\nx ((bob @ example.com))",
        [
            (MAIL, "ann @ example.org", "ann@example.org"),
            (MAIL, "bob @ example.com", "bob@example.com"),
        ],
    ),
    (
        "backslash",
        'add("bob.lee\\@example.com")',
        [(MAIL, "bob.lee\\@example.com", "bob.lee@example.com")],
    ),
    (
        "an address behind at",
        "(me at ann.lee@example.com) <me at bo.lee.x@example.com>",
        [
            (MAIL, "ann.lee@example.com", "ann.lee@example.com"),
            (MAIL, "bo.lee.x@example.com", "bo.lee.x@example.com"),
        ],
    ),
    (
        "archive, no line",
        "it is\nonline at example.org\nand\nsold at example.com,\nShop at Example.com\nrun at main.pm\n",  # noqa: E501
        [],
    ),
    (
        "archive, no opening",
        "From bob at example.com we have heard, or From bob at example.com\nx",
        [],
    ),
    (
        "archive, quoted field",
        "> To: bob at example.com",
        [(MAIL, "bob at example.com", "bob@example.com")],
    ),
    # texts that resemble an address
    ("=40 of a parameter", "p=40fa.html width=40.com size=40ex.png x=407.net", []),
    (
        "at in brackets",
        "(available at example.com) (us at example.com) (more at example.com) <at example.com>",
        [],
    ),
    (
        "at in prose",
        "From what I saw at example.com, she works at example.com: bob at example.com",
        [],
    ),
    (
        "at behind a colon",
        "note: bob at example.com, (bob at example.com or ann) <bob at example.com, ann>",
        [],
    ),
    (
        "a URL behind at",
        "(more at www.example.com/x)",
        [(URL, "www.example.com/x", "www.example.com/x")],
    ),
    ("dot in prose", "bob@ dot com", []),
    ("git", "git clone git@github.com:example/x.git", []),
    ("file name", "icon@2x.png, lib@3.1.min.js", []),
    ("package", "npm i pkg@1.2.3 @scope/pkg@4.5.6-rc1", []),
    ("handle", "medium.com/@bob.smith", []),
    (
        "handle in a URL",
        "https://medium.com/@bob.smith",
        [(URL, "https://medium.com/@bob.smith", "https://medium.com/@bob.smith")],
    ),
    ("handle in prose", "thanks @bob_smith, see @example.com", []),
    (
        "Message-ID",
        "Message-ID: <4A3B.7090807@example.com>\nFrom: a@example.com\n\nhi",
        [
            (ID, "4A3B.7090807@example.com", "4A3B.7090807@example.com"),
            (MAIL, "a@example.com", "a@example.com"),
        ],
    ),
    (
        "Message-ID quoted",
        "in <20010514163900.A4711@mail.example.com> she says",
        [(ID, "20010514163900.A4711@mail.example.com", "20010514163900.A4711@mail.example.com")],
    ),
    (
        "password in a URL",
        "https://user:pw@example.com/x",
        [
            (URL, "https://user:pw@example.com/x", "https://user:pw@example.com/x"),
            (SECRET, "user:pw", "user:pw"),
        ],
    ),
    (
        "password in a connection",
        "redis://ann:s3cr3t@db.example.com:6379",
        [(SECRET, "ann:s3cr3t", "ann:s3cr3t")],
    ),
    # prose with `at` and `dot`
    ("the dot com boom", "look at the dot com boom", []),
    ("a dot", "we looked at a dot in the sky, at any dot com", []),
    ("a place on the web", "find us at example dot com", []),
    ("a time", "meet at noon dot", []),
    ("at alone", "bob at example.com", []),
    # dotted numbers
    ("version and dash", "version 2.21.7.14-release", []),
    ("version", "version 12.21.7.14 and v12.21.7.15", []),
    ("section", "section 4.3.2.1 and Section 14.3.2.1", []),
    ("OID", "1.3.6.1.4.1.311 and OID 11.3.6.1", []),
    ("too long", "88.1.2.34567", []),
    ("a resolver all below ten", "nameserver 8.8.8.8", []),
    ("private", "host 192.168.7.20 up", [(IP, "192.168.7.20", "192.168.7.20")]),
    ("glued in front", "x1234.5.6.7", []),
    ("public", "from 93.184.216.34.", [(IP, "93.184.216.34", "93.184.216.34")]),
    ("colons alone", "std::vector a :: b ::1", []),
]


@pytest.mark.parametrize(
    ("text", "expected"), [probe[1:] for probe in PROBES], ids=[probe[0] for probe in PROBES]
)
def test_probe(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert find_values([text])[0] == expected


def find_values(texts: list[str]) -> list[list[tuple[str, str, str]]]:
    return find_pattern_values(FINDER, texts)


def test_all_probes_in_one_column() -> None:
    """The content of one text does not change the result for its neighbours."""
    assert find_values([text for _, text, _ in PROBES]) == [expected for _, _, expected in PROBES]


def test_hidden_forms_of_one_address_are_one_value() -> None:
    hidden = [
        "bob@example.com",
        "bob at example dot com",
        "bob [at] example [dot] com",
        "=3Dbob@example.com",
        "b=\nob＠example.com",
        "BOB%40example.com",
    ]
    result = FINDER.run(pa.array(hidden, pa.large_string()))
    assert (
        len(result.value_no) == len(hidden)
        and len(set(result.values.value_id[result.value_no].tolist())) == 1
    )
