"""Obfuscated addresses one by one: each way to write `@` and a dot, each top-level domain, escape,
header field and context."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder

FINDER = PatternFinder(Key.from_seed(3))
BOB = "bob@example.com"
TLDS = (
    "com org net edu gov mil info biz name io ai dev app uk de fr es nl pl se fi dk ch ca au nz jp"
    " cn kr br ru cz eu ie mx za".split()
)
TLDS_IN_CAPITALS = "COM ORG NET EDU GOV Com Org Net Edu".split()
UNICODE_TLDS = (
    "中国 中國 香港 台湾 台灣 新加坡 澳門 公司 网络 网址 在线 한국 भारत ไทย السعودية امارات مصر"
    " ایران ישראל გე".split()
)
ASSETS = (
    "png jpg jpeg gif svg webp avif bmp ico tif tiff pdf css js mjs json map htm html woff woff2"
    " ttf eot".split()
)
DAYS = "Mon Tue Wed Thu Fri Sat Sun".split()

# a text, and the normalised value of the one address in it
ADDRESS_BY_TEXT = [
    *(
        (f"mail bob at example dot {tld} today", f"bob@example.{tld.lower()}")
        for tld in TLDS + TLDS_IN_CAPITALS
    ),
    *((f"see\nbob at example.{tld}\nand", f"bob@example.{tld}") for tld in TLDS),
    *((f"see\nbob @ example.{tld} \r\nand", f"bob@example.{tld}") for tld in TLDS),
    *((f"p bob=40example.{tld}", f"bob@example.{tld}") for tld in TLDS),
    *(
        (f"mail bob{at}example{dot}com today", BOB)
        for at in (" at ", " AT ", " At ")
        for dot in (" dot ", " DOT ", " Dot ")
    ),
    *(
        (f"mail bob{gap}{left}{at}{right}{gap}example{gap}{left}{dot}{right}{gap}com today", BOB)
        for gap in ("", " ")
        for left, right in ("[]", "()", "{}", "<>")
        for at, dot in (("at", "dot"), ("AT", "DOT"), ("At", "Dot"), ("@", "."))
    ),
    *(
        (f"x ={code}bob@example.com", BOB)
        for code in "09 0A 0D 20 22 27 28 2C 3A 3B 3C 5B 3D".split()
    ),
    *(
        (f"to bob{at}example.com.", BOB)
        for at in ("&#64;", "&#x40;", "&#X40;", "&commat;", "%40", "=40", "\\@", "\uff20")
    ),
    *(
        (f"to {name}&#64;example.com.", f"{name}@example.com")
        for name in ("b.o.b", "b-o", "b+o", ".".join("abcdefghi"))
    ),
    *((f"bob@例子.{tld}", f"bob@例子.{tld}") for tld in UNICODE_TLDS),
    *((f"bob@example.{xn}--p1ai", "bob@example.рф") for xn in ("xn", "Xn", "xN", "XN")),
    *(
        (f"{opens}{field}:{gap}bob at example.com", BOB)
        for opens in ("", "x\n", "> > ")
        for field in (
            "From",
            "To",
            "Cc",
            "Bcc",
            "Reply-To",
            "Sender",
            "Author",
            "FROM",
            "cc",
            "sender",
        )
        for gap in (" ", "")
    ),
    *(
        (f"{opens}From bob at example.com{gap}{day} Jan  1 10:00", BOB)
        for opens in ("", "x\n>")
        for gap in (" ", "  ")
        for day in DAYS
    ),
    *(
        (f"x\n{opens}bob at example.com{end}y", BOB)
        for opens in ("", "> ", "\t", "| ")
        for end in ("\n", "\r\n", " \n", "\t\r")
    ),
    *(
        (f"x {opens}bob {at} example.com{shut} y", BOB)
        for opens, shut in ("<>", "()")
        for at in ("at", "@")
    ),
    ("a dot b dot c dot d dot bob at example dot com", "a.b.c.d.bob@example.com"),
    ("bob at m dot b dot c dot example dot com", "bob@m.b.c.example.com"),
]
TEXTS_WITHOUT_ADDRESS = [
    *(
        f"see {name}.{asset} here"
        for asset in ASSETS
        for name in ("icon@2x", "icon@2X", "lib@3.1.min", "lib@3")
    ),
    *(f"{word} at example dot com" for word in "find visit website located anyone those".split()),
    *(f"bob at {word} dot com" for word in "the a an this any our which".split()),
    *(
        f"{opens}From bob at example.com{gap}Mon Jan  1"
        for opens, gap in (("x", " "), ("x ", " "), ("", "   "), ("", " x "))
    ),
    *(
        f"{opens}: bob at example.com"
        for opens in ("x From", "xTo", "To x", "Subject", "actor", "Upto")
    ),
    *(
        f"<{text}>"
        for text in ("to bob at example.com", "bob at example.com x", "bob at example.com)")
    ),
    *(
        "so bob at example.com\n",
        "x\nbob at example.com,\n",
        "x\nbob at example.com",
        "x\nBob at example.com\n",
        "x\nbob at example.pm\n",
    ),
    *("x=40example.com.html", "id=40ab.html", "size =40example.com", "p bob=401example.com"),
    "git clone git@example.com",
]


def test_every_obfuscation_of_an_address() -> None:
    texts = [text for text, _ in ADDRESS_BY_TEXT] + TEXTS_WITHOUT_ADDRESS
    detections = FINDER.run(pa.array(texts, pa.large_string()))
    forms, kinds = detections.values.normalised.to_pylist(), detections.values.kind
    addresses: list[list[str]] = [[] for _ in texts]
    for text_no, value_no in zip(
        detections.text_no.tolist(), detections.value_no.tolist(), strict=True
    ):
        if FINDER.kinds[kinds[value_no]].name == "EMAIL_ADDRESS":
            addresses[text_no].append(forms[value_no])
    expected = [[form] for _, form in ADDRESS_BY_TEXT] + [[] for _ in TEXTS_WITHOUT_ADDRESS]
    wrong = [
        (text, values)
        for text, values, expected_values in zip(texts, addresses, expected, strict=True)
        if values != expected_values
    ]
    assert wrong == []


@pytest.mark.parametrize("size", [4, 5, 6])
def test_long_spelled_out_local_part_is_truncated(size: int) -> None:
    """Four ` dot ` in a local part and three in a host are matched; of a longer address only the
    end is found."""
    names = [chr(ord("a") + letter_no) for letter_no in range(size)]
    detections = FINDER.run(
        pa.array([f"{' dot '.join(names)} at example dot com"], pa.large_string())
    )
    assert detections.values.normalised.to_pylist() == [".".join(names[-5:]) + "@example.com"]
