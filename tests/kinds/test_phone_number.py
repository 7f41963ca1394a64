"""Telephone numbers: numbers with a distinctive shape, numbers that need context, and other
numbers. All numbers are invented."""

from __future__ import annotations

import re

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.phone_number import KIND
from tests.support import make_draws

FINDER = PatternFinder(Key.from_seed(3), opt_in_kinds=("AGE", "DATE_TIME"))


def find_numbers(text: str) -> list[str]:
    """The telephone numbers that the finder `patterns`, with all kinds, reports in a text."""
    column = pa.array([text], pa.large_string())
    detections = FINDER.run(column)
    starts, ends = detections.find_code_points(column)
    rows = zip(
        starts.tolist(),
        ends.tolist(),
        detections.kind.tolist(),
        strict=True,
    )
    return [text[start:stop] for start, stop, kind in rows if FINDER.kinds[kind].name == KIND.name]


NUMBERS_BY_SHAPE = [
    "713-555-0123",
    "(713) 555-0123",
    "713.555.0123",
    "1-800-555-0199 ext. 123",
    "713-555-0123x4508",
    "+17135550123",
    "+44 (0)20 7946 0958",
    "+33 1 99 00 12 34",
    "+46 (0)8 928 571 38",
    "0044 20 7946 0958",
    "00 49 30 901820",
    "020 7946 0958",
    "(020) 7946 0958",
    "01.99.00.12.34",
    "01 99 00 12 34",
    "138****0199",
    "+86-138-XXXX-0199",
    "022-6869XXXX",
    "400-xxx-xxxx",
]


@pytest.mark.parametrize("number", NUMBERS_BY_SHAPE)
def test_numbers_with_a_distinctive_shape_need_no_context(number: str) -> None:
    for text in (number, f"see {number}.", f"({number})", f"<td>{number}</td>", f"x\n{number}\ny"):
        assert [value.strip("()") for value in find_numbers(text)] == [number.strip("()")], text


NUMBERS_BY_CONTEXT = [
    "555-0123",
    "555 0123",
    "9472 7916",
    "78 651 450",
    "699 956 915",
    "60-56-85-91",
    "(37) 788-063",
    "7135550123",
    "1234567890",
    "20794609580",
    "030-23125000",
    "01238 762 624-6872",
    "+05-46 589.8630",
]


@pytest.mark.parametrize("number", NUMBERS_BY_CONTEXT)
@pytest.mark.parametrize(
    "text",
    [
        "call {}",
        "Phone: {}",
        "FAX {}",
        "reach our support team at {} today",
        "Mobile:\n{}\n",
        "{} (fax)",
        "{}, office",
    ],
)
def test_context_words_make_a_number_a_telephone_number(number: str, text: str) -> None:
    assert [value.strip("()+") for value in find_numbers(text.format(number))] == [
        number.strip("()+")
    ]


@pytest.mark.parametrize("number", NUMBERS_BY_CONTEXT)
@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "see {} for more",
        "order no. {}",
        "NPI: {}",
        "call about order {}",
        "the contact's NPI is {}",
        "phone IMEI {}",
        "ISBN {}",
    ],
)
def test_numbers_without_context_words_are_not_found(number: str, text: str) -> None:
    if not (number.startswith("+") and text in ("see {} for more",)):
        assert find_numbers(text.format(number)) == []


TEXTS_WITHOUT_NUMBER = [
    "call 2001-2002, phone 20010504, dial 1024",
    "call 4111 1111 1111 1111",  # a card, whatever precedes it
    "1024 2048 4096 8192",
    "12345 678 9 100",
    "046-1297901",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "2001-05-04 16:39:00 -0700",
    "10/04/2000 04:11 PM",
    "0000 0000 0000 0000",
    "0063 3522",
    "a713-555-0123 713-555-01234 713-555-0123_x",
    "+1234567890 was added\n+0000012345",
    "index 579e5a907..042841687 100644",
    "5.0.0123-4567 v0.1.2.3",
    "0x100xxx 200xxx",
    (
        "SKU 415-555-0199, SKU: 415-555-0199, Part no. 415-555-0199, order # 415-555-0199, Model"
        " 415 555 0199"
    ),
]


@pytest.mark.parametrize("text", TEXTS_WITHOUT_NUMBER)
def test_other_numbers_are_not_found(text: str) -> None:
    assert find_numbers(text) == []


def test_a_zip_code_before_a_number_is_not_part_of_it() -> None:
    assert find_numbers("Houston, TX 77002 713-555-0123") == ["713-555-0123"]
    assert find_numbers("Suite 1200, 713-555-0123 or 713 555 0124") == [
        "713-555-0123",
        "713 555 0124",
    ]


def test_product_number_is_rejected_and_adjacent_numbers_are_found() -> None:
    text = "SKU 415-555-0199 or part 415-555-0198, order 415-555-0197; SKU +1 415-555-0196"
    assert find_numbers(text) == ["415-555-0198", "415-555-0197", "+1 415-555-0196"]
    assert KIND.check is not None and KIND.check(pl.Series(["SKU 415-555-0199"])).to_list() == [
        "named"
    ]


def test_hotline_numbers_directly_follow_their_word() -> None:
    assert find_numbers("please contact 12366. Dial 95580") == ["12366", "95580"]
    assert find_numbers("please contact us about room 12366") == []


NORMALISED_VALUES = [
    ("(713) 555-0123", "+17135550123"),
    ("1.713.555.0123 ext. 12", "+17135550123x12"),
    ("+44 (0)20 7946 0958", "+442079460958"),
    ("0044 20 7946 0958", "+442079460958"),
    ("020 7946 0958", "02079460958"),
    ("555-0123", "5550123"),
    ("1234567890", "1234567890"),
    ("+86-138-XXXX-0199", "+86138****0199"),
    ("138xxxx0199", "138****0199"),
]


@pytest.mark.parametrize(("value", "normalised"), NORMALISED_VALUES)
def test_normalise(value: str, normalised: str) -> None:
    column = pl.Series([value, "713-555-0123"])
    assert KIND.normalise(column)[0] == KIND.normalise(column[:1])[0] == normalised
    assert KIND.normalise(pl.Series([normalised]))[0] == normalised


REASONS = [
    ("0000000", "same"),
    ("1234", "length"),
    ("12345678901234", "length"),
    ("2001 2002", "year"),
    ("20010504", "year"),
]


@pytest.mark.parametrize(("value", "reason"), REASONS)
def test_rejected_numbers_have_a_reason(value: str, reason: str) -> None:
    assert KIND.check is not None
    assert KIND.check(pl.Series([value])).to_list() == [reason]


def test_surrogates_keep_the_shape_and_are_accepted() -> None:
    values = pl.Series("value", (NUMBERS_BY_SHAPE + NUMBERS_BY_CONTEXT) * 20)
    surrogates = KIND.make_surrogates(values, make_draws(len(values)), False)
    assert KIND.check is not None and KIND.check(surrogates).is_null().all()
    assert KIND.is_value(pl.DataFrame({"value": surrogates})).all()
    shapes = [re.sub("[0-9]", "0", value) for value in values]
    assert [re.sub("[0-9]", "0", surrogate) for surrogate in surrogates] == shapes
    assert (KIND.normalise(surrogates) != KIND.normalise(values)).mean() > 0.99
    for value in NUMBERS_BY_SHAPE + NUMBERS_BY_CONTEXT:
        surrogate = KIND.make_surrogates(pl.Series([value]), make_draws(1), False)
        assert re.sub("[0-9]", "0", surrogate[0]) == re.sub("[0-9]", "0", value)
    # leading zeros that mark the type of number stay
    zeros = values.str.extract(r"\A([(]?0*)")
    assert surrogates.str.starts_with(zeros).all()


@given(st.from_regex(re.compile(KIND.pattern.replace(r"(?-u:\b)", ""), re.ASCII), fullmatch=True))
@settings(max_examples=60, deadline=None)
def test_normalise_is_idempotent(value: str) -> None:
    once = KIND.normalise(pl.Series([value]))
    assert KIND.normalise(once).to_list() == once.to_list()
