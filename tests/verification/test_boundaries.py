"""What adjoins a match: each line of the boundary rule, and a second implementation of it over
characters."""

from __future__ import annotations

import string

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.kinds.kind import all_kinds, boundary_tables
from sanitize.verification.boundaries import ADJOINED, INSIDE, SEPARATE, find_boundaries, is_in_code

NAMES = list(all_kinds())
TABLES = boundary_tables(list(all_kinds().values()))
VALUES = {
    "PERSON": "Ann Rowbotham",
    "EMAIL_ADDRESS": "ann.lee@example.com",
    "PHONE_NUMBER": "212-555-0123",
    "CREDIT_CARD": "4111111111111111",
    "IP_ADDRESS": "192.0.2.77",
    "US_SSN": "219-09-9999",
    "IBAN_CODE": "GB82WEST12345698765432",
}
WORDS = ("PERSON", "EMAIL_ADDRESS")  # values that begin and end with a letter
NUMBERS = ("PHONE_NUMBER", "CREDIT_CARD", "IP_ADDRESS", "US_SSN")


def find_boundary(text: str, start: int, end: int, kind: str) -> int:
    """What adjoins the characters from `start` to `end`, in a column that has other texts too."""
    column = pa.array(["x9", text, "9x"], pa.large_string())
    buffers = TextBuffers.from_array(column)
    first, last = (int(buffers.offsets[1]) + len(text[:place].encode()) for place in (start, end))
    arrays = [np.array([number], np.int64) for number in (1, first, last, NAMES.index(kind))]
    return int(find_boundaries(buffers, *arrays, TABLES)[0])


def find_beside(kind: str, before: str, after: str = "") -> int:
    value = VALUES[kind]
    return find_boundary(before + value + after, len(before), len(before + value), kind)


SEPARATORS = [
    "",
    " ",
    "\n",
    "(",
    "<",
    "'",
    ",",
    ":",
    "/",
    "=",
    "\u3000",
    "\u6f22",
    "\u0434",
    "\u05d0",
    "\U0001f600",
    "\x00",
    "\u00d7",
]
ESCAPES = [
    r"\n",
    r"\t",
    r"\r",
    r"\"",
    r"\/",
    r"\\n",
    r"\u000a",
    r"\u{a}",
    r"\U0000000a",
    r"\x0A",
    r"\012",
    r"\0",
]
ESCAPES += [
    "%0A",
    "%20",
    "%2520",
    "%u000a",
    "=0A",
    "=3D",
    "&#10;",
    "&nbsp;",
    "\x1b[31m",
    "\x1b[0;1m",
    r"\e[1m",
    r"\033[32m",
    r"\u001b[0m",
]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("before", SEPARATORS)
def test_nothing_of_a_word_separates(kind: str, before: str) -> None:
    assert (
        find_beside(kind, before)
        == find_beside(kind, "", before)
        == find_beside(kind, before, before)
        == SEPARATE
    )


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("escape", ESCAPES)
def test_an_escape_before_a_value_separates(kind: str, escape: str) -> None:
    assert (
        find_beside(kind, escape)
        == find_beside(kind, "abc" + escape)
        == find_beside(kind, "1" + escape)
        == SEPARATE
    )


@pytest.mark.parametrize("before", ["n", "0A", "%zA", r"\y", r"\nx", "%0Ax", "0m"])
def test_an_escape_is_whole_and_directly_before_the_value(before: str) -> None:
    assert find_beside("PERSON", before) == INSIDE


ADJOINED_CASES = [
    *((kind, "_", "") for kind in VALUES if kind not in WORDS),
    *((kind, "", "_") for kind in VALUES if kind not in WORDS),
    *((kind, "id", "") for kind in NUMBERS),
    *((kind, "", "x") for kind in NUMBERS),
    *((kind, "scan_", ".pdf") for kind in NUMBERS),
    *((kind, "_", "x") for kind in NUMBERS),
    ("IBAN_CODE", "7", ""),
    ("IBAN_CODE", "", "x"),
    ("PERSON", "7", ""),
    ("PERSON", "", "7"),
]


@pytest.mark.parametrize(("kind", "before", "after"), ADJOINED_CASES)
def test_an_underscore_or_a_letter_beside_a_digit_adjoins(
    kind: str, before: str, after: str
) -> None:
    assert find_beside(kind, before, after) == ADJOINED


@pytest.mark.parametrize(("before", "after"), [("_", ""), ("", "_"), ("_", "_")])
def test_signs_that_a_kind_allows_separate(before: str, after: str) -> None:
    """Names stand in identifiers, and an address may end before a digit or an underscore."""
    assert find_beside("PERSON", before, after) == SEPARATE
    assert (
        find_beside("EMAIL_ADDRESS", "", "_7") == find_beside("EMAIL_ADDRESS", "", "7") == SEPARATE
    )


INSIDE_CASES = [
    *((kind, "x", "") for kind in WORDS),
    *((kind, "", "x") for kind in WORDS),
    *((kind, letter, "") for kind in WORDS for letter in ("\u00e9", "e\u0301", "\u0142", "\u1e9e")),
    *((kind, "", letter) for kind in WORDS for letter in ("\u00e9", "\u0301", "\u0142", "\u1e9e")),
    *((kind, "9", "") for kind in NUMBERS),
    *((kind, "", "9") for kind in NUMBERS),
    ("IBAN_CODE", "x", ""),
    ("IBAN_CODE", "", "9"),
    ("IP_ADDRESS", "1.", ""),
    ("IP_ADDRESS", "1-", ""),
    ("IP_ADDRESS", "", "-1"),
    ("US_SSN", "1-", ""),
    ("US_SSN", "", "-1"),
    ("PHONE_NUMBER", "_", "9"),  # the worse of both edges
    ("PHONE_NUMBER", "9", "_"),
]


@pytest.mark.parametrize(("kind", "before", "after"), INSIDE_CASES)
def test_a_part_of_a_longer_word_or_number_is_inside(kind: str, before: str, after: str) -> None:
    assert find_beside(kind, before, after) == INSIDE


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [("IP_ADDRESS", "see .", ""), ("IP_ADDRESS", "-", ""), ("US_SSN", "a-", "-b")],
)
def test_a_sign_of_a_kind_separates_where_no_number_continues(
    kind: str, before: str, after: str
) -> None:
    assert find_beside(kind, before, after) == SEPARATE


def test_other_texts_are_not_beside_a_value() -> None:
    for kind in VALUES:
        assert find_beside(kind, "") == SEPARATE


# ---- a second implementation ----

HEX = set(string.hexdigits)


def is_escape(text: str) -> bool:
    """True if all of a text is one written-out escape or ANSI sequence."""
    if text.startswith("%"):
        code = text[1:]
        while code.startswith("25") and len(code) > 2:
            code = code[2:]
        return (
            len(code) == 2
            and set(code) <= HEX
            or code[:1] == "u"
            and len(code) == 5
            and set(code[1:]) <= HEX
        )
    if text.startswith("="):
        return len(text) == 3 and set(text[1:]) <= HEX
    for opening in ("\x1b", r"\e", r"\x1b", r"\x1B", r"\u001b", r"\033"):
        if text.startswith(opening + "["):
            body = text[len(opening) + 1 :]
            return (
                body != ""
                and set(body[:-1]) <= set("0123456789;")
                and body[-1] in string.ascii_letters
            )
    if not text.startswith("\\"):
        return False
    code = text.lstrip("\\")
    if len(code) == 1:
        return code in "abefnrtv0\"'/"
    if code[:2] == "u{":
        return code[-1] == "}" and 0 < len(code) - 3 <= 6 and set(code[2:-1]) <= HEX
    sizes = {"u": 5, "U": 9, "x": 3}
    if code[:1] in sizes:
        return len(code) == sizes[code[0]] and set(code[1:]) <= HEX
    return len(code) == 3 and set(code) <= set("01234567")


def is_latin(char: str) -> bool:
    code = ord(char)
    return (
        (0xC0 <= code <= 0x27F and code not in (0xD7, 0xF7))
        or 0x300 <= code <= 0x36F
        or 0x1E00 <= code <= 0x1EFF
    )


def classify(char: str) -> str:
    if char in string.ascii_letters or is_latin(char):
        return "letter"
    return "digit" if char in string.digits else "underscore" if char == "_" else "other"


def reference_edge(inner: str, outward: str, excluded: bytes) -> int:
    """What is beside one edge: `inner` is the character of the match, `outward` the text from it
    on, nearest first."""
    if not outward or classify(inner) == "other":
        return SEPARATE
    beside = outward[0]
    if not beside.isascii():
        return (
            INSIDE
            if is_latin(beside) and classify(inner) == "letter" and ord("a") in excluded
            else SEPARATE
        )
    if ord(beside) not in excluded:
        return SEPARATE
    if classify(beside) == "other":
        continues = (
            len(outward) > 1 and outward[1].isascii() and classify(outward[1]) == classify(inner)
        )
        return INSIDE if continues else SEPARATE
    return INSIDE if classify(beside) == classify(inner) != "underscore" else ADJOINED


def reference_boundary(text: str, start: int, end: int, kind: str) -> int:
    rule = all_kinds()[kind]
    before = reference_edge(text[start], text[:start][::-1], rule.not_preceded_by)
    if any(is_escape(text[first:start]) for first in range(start)):
        before = SEPARATE
    return max(before, reference_edge(text[end - 1], text[end:], rule.not_followed_by))


PIECES = [
    *string.ascii_lowercase[:3],
    "N",
    "0",
    "7",
    "A",
    "25",
    "_",
    ".",
    "-",
    " ",
    "@",
    "/",
    "%",
    "=",
    "\\",
    "[",
    "{",
    "}",
    "m",
    "u",
    "x",
]
PIECES += [
    "\u00e9",
    "\u00c0",
    "\u00d7",
    "\u00f7",
    "\u027f",
    "\u0280",
    "\u02ff",
    "\u0300",
    "\u036f",
    "\u0370",
    "\u1dff",
    "\u1e00",
    "\u1eff",
]
PIECES += ["\u1f00", "\u0434", "\u6f22", "\U0001f600", "\x1b", *ESCAPES, *VALUES.values()]
texts = st.lists(
    st.sampled_from([piece for piece in PIECES if not piece.startswith("&")]), max_size=5
).map("".join)


@settings(max_examples=500, deadline=None)
@given(before=texts, value=texts.filter(bool), after=texts, kind=st.sampled_from(NAMES))
def test_boundaries_equal_the_reference(before: str, value: str, after: str, kind: str) -> None:
    text = before + value + after
    start, end = len(before), len(before + value)
    found = find_boundary(text, start, end, kind)
    # 24 bytes before a match are searched for an escape
    if len(before.encode()) <= 24:
        assert found == reference_boundary(text, start, end, kind)


@pytest.mark.parametrize(
    ("before", "value", "after", "expected"),
    [
        ("deadbeef", "4111111111", "00", True),  # 20 hexadecimal digits
        ("deadbee", "4111111111", "00", False),
        ("", "4111111111111111", "", False),
        ("\\u0007", "4111111111111111", "x", False),  # digits of an escape
        ("", "4111111111111111", "abcd", True),
        ("Zm9vQ2", "4111111111111111", "mFyQ", True),
        ("identifier", "4111111111111111", "number", False),  # words
        ("identifier", "4111111111111111", "", False),
        ("Zm9vQmFy", "212-555-0123", "Zm9vQmFy", False),  # no such run holds a sign
        ("Zm9vQmFy ", "4111111111111111", " Zm9vQmFy", False),
    ],
)
def test_runs_of_hexadecimal_digits_and_base64(
    before: str, value: str, after: str, expected: bool
) -> None:
    raw = f"xx{before}{value}{after}".encode() + b"A9" * 10  # another text, which does not count
    start = 2 + len(before)
    data = np.frombuffer(raw, np.uint8)
    assert is_in_code(data, 2, len(raw) - 20, start, start + len(value)) is expected
