"""Numbers in groups with any blank or hyphen between them: found whole, one normalised form, a
surrogate with the same separators."""

from __future__ import annotations

import re
import unicodedata

import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import BLANKS, BOUNDARY, HYPHENS, get_kind, widen_separators
from sanitize.text.decodings import iter_decodings
from tests.support import find_pattern_values, make_draws

KEY = Key.from_seed(3)
FINDER = PatternFinder(KEY, countries=("GB", "AU", "CA", "JP", "FR", "DE"))
# replacements of `~`: no-break, figure, thin, narrow and wide blanks; hyphens, dashes, minus; two
# or three of them
SINGLE = [
    "\u00a0",
    "\u2007",
    "\u2009",
    "\u202f",
    "\u3000",
    "\u2010",
    "\u2011",
    "\u2012",
    "\u2013",
    "\u2014",
    "\u2212",
    "\uff0d",
]
DOUBLED = ["  ", " -", "- ", "\u00a0-", "-\u202f"]
BLANK = ["\u00a0", "\u2009", "\u202f", "\u3000"]
# words before it, a number, its kind, its normalised value, and the separators it is written with
NUMBER_FORMATS = [
    ("", "713~555~0123", "PHONE_NUMBER", "+17135550123", [*SINGLE, *DOUBLED, " - "]),
    ("", "(713)~555~0123", "PHONE_NUMBER", "+17135550123", [*SINGLE, *DOUBLED, " - "]),
    ("", "+1~713~555~0123", "PHONE_NUMBER", "+17135550123", [*SINGLE, *DOUBLED, " - "]),
    ("", "+44~20~7946~0958", "PHONE_NUMBER", "+442079460958", [*SINGLE, *DOUBLED]),
    ("", "020~7946~0958", "PHONE_NUMBER", "02079460958", [*SINGLE, *DOUBLED]),
    ("", "01~99~00~12~34", "PHONE_NUMBER", "0199001234", [*SINGLE, *DOUBLED]),
    ("", "138~****~0199", "PHONE_NUMBER", "138****0199", SINGLE),
    ("call ", "555~0123", "PHONE_NUMBER", "5550123", [*SINGLE, *DOUBLED]),
    ("call ", "78~651~450", "PHONE_NUMBER", "78651450", SINGLE),
    ("", "4111~1111~1111~1111", "CREDIT_CARD", "4111111111111111", [*SINGLE, *DOUBLED, " - "]),
    ("", "3782~822463~10005", "CREDIT_CARD", "378282246310005", [*SINGLE, *DOUBLED]),
    ("", "123~45~6789", "US_SSN", "123456789", [*SINGLE, *DOUBLED]),
    ("", "DE89~3704~0044~0532~0130~00", "IBAN_CODE", "DE89370400440532013000", [*SINGLE, *DOUBLED]),
    ("NHS number: ", "943~476~5919", "UK_NHS", "9434765919", [*SINGLE, *DOUBLED]),
    ("", "130~692~544", "CA_SIN", "130692544", SINGLE),
    ("", "123~456~782", "AU_TFN", "123456782", BLANK),
    ("", "86~095~742~719", "DE_TAX_ID", "86095742719", BLANK),
    ("", "2~55~08~14~168~025~38", "FR_NIR", "255081416802538", BLANK),
]
CASES = [
    (word, number.replace("~", gap), name, form)
    for word, number, name, form, gaps in NUMBER_FORMATS
    for gap in gaps
]


def find_values(texts: list[str]) -> list[list[tuple[str, str, str]]]:
    return find_pattern_values(FINDER, texts)


def test_any_separator_between_the_groups() -> None:
    texts = [f"Dear all,\nsee {word}{value}, as said\n" for word, value, _, _ in CASES]
    wrong = [
        (ascii(text), values)
        for text, values, (_, value, name, form) in zip(
            texts, find_values(texts), CASES, strict=True
        )
        if values != [(name, value, form)]
    ]
    assert not wrong


def test_plain_separators_give_the_same_normalised_value() -> None:
    """A number with any separators has one normalised form, and therefore one value_id."""
    plain = [
        (word, number.replace("~", "-" if gaps is not BLANK else " "))
        for word, number, _, _, gaps in NUMBER_FORMATS
    ]
    normalised = [values[0][2] for values in find_values([word + value for word, value in plain])]
    assert normalised == [form for _, _, _, form, _ in NUMBER_FORMATS]


@pytest.mark.parametrize("reserved", [False, True])
def test_surrogate_keeps_the_separators(reserved: bool) -> None:
    for name in {name for _, _, name, _ in CASES}:
        values = pl.Series([value for _, value, kind, _ in CASES if kind == name])
        surrogates = get_kind(name).make_surrogates(values, make_draws(len(values)), reserved)
        assert (
            surrogates.str.replace_all("[0-9A-Z*]", "").to_list()
            == values.str.replace_all("[0-9A-Z*]", "").to_list()
        ), name
        assert (surrogates != values).all(), name


# texts that resemble a number with a doubled or a typeset separator
TEXTS_WITHOUT_VALUES = [
    "123  45 6789",  # two different gaps
    "123\u201345 6789",
    "pages 123\u2013456",
    "2001\u20132002",
    "call 2001 \u2013 2002",
    "in 713\n555\n0123",  # no line ends
    "713\t555\t0123",  # columns
    "713    555    0123",
    "4111\u20131111\u20131111\u20131112",
    "9999  1234",
]


@pytest.mark.parametrize("text", TEXTS_WITHOUT_VALUES)
def test_texts_with_other_separators_have_no_values(text: str) -> None:
    assert find_values([text]) == [[]]


def test_number_of_unknown_length_ends_at_a_wide_gap() -> None:
    """Two blanks end a number of unknown length: what follows is the next item on the line."""
    texts = ["tel 01 99 00 12 34  75001 Paris", "(020) 7946 0958  12345", "call 78 651 450  2001"]
    assert [[value for _, value, _ in values] for values in find_values(texts)] == [
        ["01 99 00 12 34"],
        ["(020) 7946 0958"],
        ["78 651 450"],
    ]


ADJACENT_ITEMS = [
    ("", " - 12/27"),
    ("", " - 123"),
    ("2024 - ", ""),
    ("12/27 - ", ""),
    ("10 - ", ""),
    ("123 - ", ""),
    ("123  ", ""),
    ("2024  ", ""),
    ("", "  2024"),
]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("4111-1111-1111-1111", "CREDIT_CARD"),
        ("4111 1111 1111 1111", "CREDIT_CARD"),
        ("3782-822463-10005", "CREDIT_CARD"),
        ("713-555-0123", "PHONE_NUMBER"),
        ("(713) 555-0123", "PHONE_NUMBER"),
        ("+44 20 7946 0958", "PHONE_NUMBER"),
        ("123-45-6789", "US_SSN"),
        ("DE89 3704 0044 0532 0130 00", "IBAN_CODE"),
    ],
)
def test_adjacent_items_are_not_part_of_a_number(value: str, name: str) -> None:
    """A wide gap separates the next item on the line: an expiry date, a code, a year, another
    number."""
    texts = [f"see {before}{value}{behind}, as said" for before, behind in ADJACENT_ITEMS]
    missed = [
        text
        for text, values in zip(texts, find_values(texts), strict=True)
        if not any(kind == name and value in found_value for kind, found_value, _ in values)
    ]
    assert not missed


def test_number_with_trunk_zero_starts_after_a_wide_gap() -> None:
    assert [
        [value for _, value, _ in values]
        for values in find_values(["123  020 7946 0958", "2024  020 7946 0958"])
    ] == [["020 7946 0958"]] * 2


def test_separator_classes_equal_the_unicode_categories() -> None:
    """The constants contain each Unicode blank that ends no line, and each dash that looks like a
    hyphen, once."""
    blank, hyphen = re.compile(f"[{BLANKS}]"), re.compile(f"[{HYPHENS}]")
    characters = [chr(code) for code in range(0x20, 0x10000)]
    assert [
        character
        for character in characters
        if unicodedata.category(character) == "Zs" and character != "\u1680"
    ] == [character for character in characters if blank.fullmatch(character)]
    dashes = {character for character in characters if hyphen.fullmatch(character)}
    assert (
        dashes - {"\u2212"}
        <= {character for character in characters if unicodedata.category(character) == "Pd"}
        and {"-", "\u2011", "\u2013"} <= dashes
    )


def test_widened_patterns_keep_everything_else() -> None:
    unchanged = rf"{BOUNDARY}(?:[0-9]{{3}}|[A-F-]x?){BOUNDARY}\-"
    assert widen_separators(unchanged) == unchanged
    assert re.fullmatch(
        widen_separators("[0-9] ?[0-9]-[0-9][ .-]{2}x"), "1\u00a0 2 \u2013 3.\u2011x"
    )
    assert not re.fullmatch(widen_separators("[0-9] [0-9]", allow_repeated=False), "1  2")


def test_leak_check_skips_the_same_separators() -> None:
    """Digits with up to four bytes between them: the full leak check searches all forms that the
    finder reports."""
    texts = [
        value
        for _, value, name, _ in CASES
        if name in ("PHONE_NUMBER", "CREDIT_CARD", "US_SSN")
        and not set(value) & set("(*\u3000\uff0d")
    ]
    (view,) = iter_decodings(pa.array(texts, pa.large_string()), 40, ("digits",))
    assert view.pieces.to_pylist() == [re.sub("[^0-9]", "", text) for text in texts]
