"""Numbers in groups with any blank or hyphen between them: found whole, one normalised form, a surrogate with the same separators."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Draws, Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import BLANKS, BOUNDARY, HYPHENS, get_kind, widen_separators
from sanitize.text.decodings import iter_decodings

KEY = Key.from_seed(3)
FINDER = PatternFinder(KEY, countries=("GB", "AU", "CA", "JP", "FR", "DE"))
# what stands for `~`: no-break, figure, thin, narrow and wide blanks; hyphens, dashes, minus; two or three of them
SINGLE = ["\u00a0", "\u2007", "\u2009", "\u202f", "\u3000", "\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2212", "\uff0d"]
DOUBLED = ["  ", " -", "- ", "\u00a0-", "-\u202f"]
BLANK = ["\u00a0", "\u2009", "\u202f", "\u3000"]
# words before it, a number, its kind, its identity, and which separators it is written with
WRITTEN = [
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
CASES = [(word, number.replace("~", gap), name, form) for word, number, name, form, gaps in WRITTEN for gap in gaps]


def found(texts: list[str]) -> list[list[tuple[str, str, str]]]:
    """The values in each text: kind, value, normalised form."""
    seen = FINDER.run(pa.array(texts, pa.large_string()))
    out: list[list[tuple[str, str, str]]] = [[] for _ in texts]
    for row, start, stop, which in zip(seen.text_no, seen.start, seen.end, seen.value_no, strict=True):
        name = FINDER.kinds[seen.distinct.kind[which]].name
        out[row].append((name, texts[row][start:stop], str(seen.distinct.normalised[which])))
    return out


def test_whatever_stands_between_the_groups() -> None:
    texts = [f"Dear all,\nsee {word}{value}, as said\n" for word, value, _, _ in CASES]
    wrong = [
        (ascii(text), one)
        for text, one, (_, value, name, form) in zip(texts, found(texts), CASES, strict=True)
        if one != [(name, value, form)]
    ]
    assert not wrong


def test_an_old_spelling_is_the_same_value() -> None:
    """One normalised form, and so one value_id, for a number with any separators."""
    plain = [(word, number.replace("~", "-" if gaps is not BLANK else " ")) for word, number, _, _, gaps in WRITTEN]
    said = [one[0][2] for one in found([word + value for word, value in plain])]
    assert said == [form for _, _, _, form, _ in WRITTEN]


def draws(count: int) -> Draws:
    rows = np.arange(count, dtype=np.uint64)
    return Draws.from_words(b"sixteen bytes ok", rows, rows)


@pytest.mark.parametrize("reserved", [False, True])
def test_a_stand_in_keeps_the_separators(reserved: bool) -> None:
    for name in {name for _, _, name, _ in CASES}:
        values = pl.Series([value for _, value, of, _ in CASES if of == name])
        fakes = get_kind(name).make_surrogates(values, draws(len(values)), reserved)
        assert fakes.str.replace_all("[0-9A-Z*]", "").to_list() == values.str.replace_all("[0-9A-Z*]", "").to_list(), name
        assert (fakes != values).all(), name


# what only looks like a number with a doubled or a typeset separator
NOT = [
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


@pytest.mark.parametrize("text", NOT)
def test_what_is_none(text: str) -> None:
    assert found([text]) == [[]]


def test_an_open_number_ends_at_a_wide_gap() -> None:
    """Two blanks end a number of unknown length: what follows is the next item on the line."""
    texts = ["tel 01 99 00 12 34  75001 Paris", "(020) 7946 0958  12345", "call 78 651 450  2001"]
    assert [[value for _, value, _ in one] for one in found(texts)] == [["01 99 00 12 34"], ["(020) 7946 0958"], ["78 651 450"]]


BESIDE = [
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
def test_what_stands_beside_a_number_is_none_of_it(value: str, name: str) -> None:
    """A wide gap separates the next item on the line: an expiry date, a code, a year, another number."""
    texts = [f"see {before}{value}{behind}, as said" for before, behind in BESIDE]
    missed = [text for text, one in zip(texts, found(texts), strict=True) if not any(of == name and value in seen for of, seen, _ in one)]
    assert not missed


def test_a_trunk_zero_begins_behind_a_wide_gap() -> None:
    assert [[value for _, value, _ in one] for one in found(["123  020 7946 0958", "2024  020 7946 0958"])] == [["020 7946 0958"]] * 2


def test_the_classes_are_what_unicode_calls_so() -> None:
    """The constants contain each Unicode blank that ends no line, and each dash that looks like a hyphen, once."""
    blank, hyphen = re.compile(f"[{BLANKS}]"), re.compile(f"[{HYPHENS}]")
    every = [chr(code) for code in range(0x20, 0x10000)]
    assert [one for one in every if unicodedata.category(one) == "Zs" and one != "\u1680"] == [one for one in every if blank.fullmatch(one)]
    dashes = {one for one in every if hyphen.fullmatch(one)}
    assert dashes - {"\u2212"} <= {one for one in every if unicodedata.category(one) == "Pd"} and {"-", "\u2011", "\u2013"} <= dashes


def test_loosened_leaves_all_else() -> None:
    same = rf"{BOUNDARY}(?:[0-9]{{3}}|[A-F-]x?){BOUNDARY}\-"
    assert widen_separators(same) == same
    assert re.fullmatch(widen_separators("[0-9] ?[0-9]-[0-9][ .-]{2}x"), "1\u00a0 2 \u2013 3.\u2011x")
    assert not re.fullmatch(widen_separators("[0-9] [0-9]", allow_repeated=False), "1  2")


def test_the_leak_check_sees_through_the_same_separators() -> None:
    """Digits with up to four bytes between them: the full leak check searches all forms that the finder reports."""
    texts = [
        value for _, value, name, _ in CASES if name in ("PHONE_NUMBER", "CREDIT_CARD", "US_SSN") and not set(value) & set("(*\u3000\uff0d")
    ]
    (view,) = iter_decodings(pa.array(texts, pa.large_string()), 40, ("digits",))
    assert view.pieces.to_pylist() == [re.sub("[^0-9]", "", text) for text in texts]
