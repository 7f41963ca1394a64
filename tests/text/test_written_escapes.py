r"""Escapes that texts write out, against a table of cases and regular expressions."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.decodings.written_escapes import (
    BACKSLASH_SEPARATORS,
    FONTS,
    HEXADECIMAL_ESCAPES,
    PERCENT_SEPARATORS,
    QUOTED_PRINTABLE_SEPARATORS,
    separate_escapes,
)


def separate(*texts: str, inside_urls: bool = False) -> list[str]:
    view = separate_escapes(
        TextBuffers.from_array(pa.array(texts, pa.large_string())), inside_urls=inside_urls
    )
    return view.to_array().to_pylist()


KEY_BLOCK = r"-----BEGIN PRIVATE KEY-----\nMIIE\r\nab==\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "view"),
    [
        (r"x\n312", "x\r\n312"),
        (r"x\r\n312", "x\r\r\r\n312"),
        (r"x\t312\b1\f2\v3", "x \t312 \t1 \t2 \t3"),
        (r"x\\n312\\\\t4", "x\r\r\n312    \t4"),
        (r"\u000a1\u00221\u003cann", "\r\r\r\r\r\n1     \t1     \tann"),
        (r"\x0aann\x41nn\U0001F600ann", "\r\r\r\nann   \tnn         \tann"),
        (r"\fBname\fP \fxann \fRSSMRA", "  \tname  \t  \txann  \tRSSMRA"),
        ("\x1b[32mann\x1b[0m \x1b(Bx", "    \tann   \t   \tx"),
        (r"\x1b[32mann\u001b[38;5;1mbo", " " * 7 + "\tann" + " " * 13 + "\tbo"),
        (r"\033[0mann\33[1mbo\e[1mcy", "      \tann     \tbo    \tcy"),
        ("a%0Abo%20cy%22dee%3Cfi", "a\r\r\nbo  \tcy  \tdee  \tfi"),
        ("a%250Abo", "a\r\r\r\r\nbo"),
        ("Hi=0Abo=0D1", "Hi\r\r\nbo\r\r\r1"),
        ("_312-555-0178_ __5105__, (_1_) *_1_*.", " 312-555-0178    5105  , ( 1 ) * 1 *."),
        (KEY_BLOCK + r"\nann", KEY_BLOCK + "\r\nann"),
        (r"-----Original-----\nFrom", "-----Original-----\r\nFrom"),
        # one of two readings
        (r"CORP\nina C:\temp\tom", "CORP\r\nina C: \temp \tom"),
    ],
)
def test_escapes_are_white_space_of_the_same_size(text: str, view: str) -> None:
    assert separate(text) == [view]


@pytest.mark.parametrize(
    "text",
    [
        "https://h.example/a?x=1%0A2&y=0A3 www.h.example/%20a http://x/%0Da%0Ab",
        "postgres://ann:p%20w=0A@h.example",
        "bob%40example.com bo%2Btag%40example.com 5%5F",
        "id=20 phone=2125550187 q=0b1 q=0d1",
        "AccountKey=0A" + "aB3d" * 10,
        r"C:\Users\tom D:\users\nina C:\\Users\\ruth C:\Documents and Settings\tom",
        r"\d \w \s \section \users \xg1 \u00g1 \0331 \e1 \\server",
        r"\" \/ \' \@ &#10;ann &nbsp;ann",
        "_ann_ _99bob@example.com _1 a_1_ _1_a _1_.txt ____1____ f(_1_2_3)",
        "\x1b]0;title \x1b[ \x1b",
        "100% %d 5%2",
    ],
)
def test_what_is_no_escape_stays(text: str) -> None:
    buffers = TextBuffers.from_array(pa.array([text], pa.large_string()))
    assert separate_escapes(buffers) is buffers


def test_percent_escapes_separate_inside_urls() -> None:
    assert separate(r"http://x.example/%0A1\n2=0A3", inside_urls=True) == [
        "http://x.example/\r\r\n1\\n2=0A3"
    ]


def test_escapes_do_not_cross_texts() -> None:
    assert separate("a\\", "n1", "b%0", "A2", "c\x1b", "[1md", "\\Users", r"\ta") == [
        *("a\\", "n1", "b%0", "A2", "c\x1b", "[1md", "\\Users", " \ta")
    ]


# ---- against regular expressions ----

_LETTERS = "".join(BACKSLASH_SEPARATORS)
_NUMBERS = "|".join(f"{mark}[0-9A-Fa-f]{{{size}}}" for mark, size in HEXADECIMAL_ESCAPES.items())
_SEQUENCE = r"(?:\[[0-?]{0,31}[A-Za-z]|\([0-~])"
_BACKSLASH = re.compile(
    rf"\\+(?:(?P<sequence>(?:u001[bB]|U0000001[bB]|x1[bB]|[eE]|033|33){_SEQUENCE})|"
    rf"f[{FONTS}](?![A-Z])|(?P<letter>[{_LETTERS}])|(?P<number>{_NUMBERS}))"
)
_BYTES = {f"{ord(sign):02X}": sign for sign in PERCENT_SEPARATORS}


def reference(text: str) -> str:
    """The view of a text without URLs, paths, key blocks and emphasis."""

    def cover(match: re.Match[str], sign: str) -> str:
        fill = "\r" if sign in "\r\n" else " "
        return fill * (len(match[0]) - 1) + (sign if sign in "\r\n" else "\t")

    def cover_backslash(match: re.Match[str]) -> str:
        if text[: match.start()].endswith("="):
            return cover(match, "\t")
        if match["letter"]:
            return cover(match, BACKSLASH_SEPARATORS[match["letter"]])
        return cover(
            match, chr(int(match["number"][1:], 16) % 0x110000) if match["number"] else "\t"
        )

    def cover_byte(match: re.Match[str], separators: str) -> str:
        sign = _BYTES.get(match[1].upper(), "x")
        return cover(match, sign) if sign in separators else match[0]

    text = re.sub("%(?:25){0,2}([0-9A-Fa-f]{2})", lambda m: cover_byte(m, PERCENT_SEPARATORS), text)
    text = _BACKSLASH.sub(cover_backslash, text)
    text = re.sub(f"\x1b{_SEQUENCE}", lambda m: cover(m, "\t"), text)
    return re.sub("=([0-9][A-Z])", lambda m: cover_byte(m, QUOTED_PRINTABLE_SEPARATORS), text)


PIECES = ["\\", "n", "t", "f", "B", "u", "00", "0a", "1b", "x", "U", "[", "3", "3;1", "m", "(", "e"]
PIECES += ["\x1b", "%", "25", "0A", "40", "3C", "=", "0D", " ", "é", "z"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=3))
@example(["\\x1b[33mz", "\\\\u000a", "%2540", "=0A=0D", "\x1b(e", "\x1b(é", "\\e(", "=\\n=\\u000a"])
def test_escapes_are_those_of_the_expressions(texts: list[str]) -> None:
    assert separate(*texts) == [reference(text) for text in texts]
