"""Recall for numbers in the national formats of the known regions: libphonenumber's own examples,
and drawn numbers that its numbering plans accept, in its national format. Each lower bound is the
measured recall, less what another sample may differ.
"""

from __future__ import annotations

import functools
import random

import phonenumbers
import pyarrow as pa
import pytest
from phonenumbers import PhoneNumberFormat, PhoneNumberType

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.phone_number import KIND, REGIONS

FINDER = PatternFinder(Key.from_seed(3), opt_in_kinds=("AGE", "DATE_TIME"))
COUNT = 60  # numbers of each region and sort
LINE, MOBILE = PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE
WORDS = {  # what people of a region write before a number
    "US": "Phone:",
    "CA": "Cell:",
    "GB": "Mob:",
    "DE": "Tel.:",
    "FR": "Tél. :",
    "ES": "Teléfono:",
    "IT": "Cellulare:",
    "NL": "Telefoon:",
    "BR": "Telefone:",
    "IN": "Ph:",
    "CN": "电话:",
    "JP": "電話:",
    "AU": "Mobile:",
    "RU": "тел.",
}


@functools.cache
def sample_numbers(region: str, sort: int) -> tuple[str, ...]:
    """Valid numbers of a region and type in its national format, the same ones every time."""
    draw = random.Random(f"{region} {sort}")
    example = phonenumbers.example_number_for_type(region, sort)
    assert example is not None
    digits = phonenumbers.national_significant_number(example)
    formatted = [phonenumbers.format_number(example, PhoneNumberFormat.NATIONAL)]
    while len(formatted) < COUNT:
        # the first digits decide the sort; some of them are drawn too
        head = digits[: draw.randint(1, 3)]
        candidate = head + "".join(str(draw.randrange(10)) for _ in digits[len(head) :])
        number = phonenumbers.PhoneNumber(
            country_code=example.country_code, national_number=int(candidate)
        )
        number.italian_leading_zero = True if candidate[0] == "0" else None
        kind = phonenumbers.number_type(number)
        if phonenumbers.is_valid_number_for_region(number, region) and kind in (
            sort,
            PhoneNumberType.FIXED_LINE_OR_MOBILE,
        ):
            formatted.append(phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL))
    return tuple(formatted)


def measure_recall(text: str, formatted: tuple[str, ...]) -> float:
    """The share of numbers that are found exactly, in a text with one number."""
    column = pa.array([text.format(values) for values in formatted], pa.large_string())
    detections = FINDER.run(column)
    starts, ends = detections.find_code_points(column)
    found: list[list[str]] = [[] for _ in formatted]
    for row, start, stop, value_no in zip(
        detections.text_no, starts, ends, detections.value_no, strict=True
    ):
        if FINDER.kinds[detections.values.kind[value_no]].name == KIND.name:
            found[row].append(text.format(formatted[row])[start:stop])
    return sum(values == [number] for values, number in zip(found, formatted, strict=True)) / len(
        formatted
    )


# (region, sort): the share that is found without any word
RECALL_WITHOUT_WORD = {("DE", LINE): 0.75}
REGIONS_AND_SORTS = [
    pytest.param(region, sort, id=f"{region} {'line' if sort == LINE else 'mobile'}")
    for region in REGIONS
    for sort in (LINE, MOBILE)
]


@pytest.mark.parametrize(("region", "sort"), REGIONS_AND_SORTS)
def test_recall_without_a_context_word(region: str, sort: int) -> None:
    assert measure_recall(
        "Ann Roe, {} in town", sample_numbers(region, sort)
    ) >= RECALL_WITHOUT_WORD.get((region, sort), 0.95)


@pytest.mark.parametrize(("region", "sort"), REGIONS_AND_SORTS)
def test_recall_after_the_word_of_the_region(region: str, sort: int) -> None:
    assert (
        measure_recall(f"Ann Roe, {WORDS[region]} {{}}\nin town", sample_numbers(region, sort))
        >= 0.97
    )


LABELS = [
    "Ph: ",
    "Mob: ",
    "Mob. ",
    "Ann: ",
    "Ann - ",
    "Fax/",
    "Portable : ",
    "Tél. : ",
    "Natel: ",
    "電話: ",
    "电话：",
    "मोबाइल ",
    "Re: ",
]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_does_not_hide_a_number(label: str) -> None:
    """A number that is found without context is also found after any word, a colon or a dash."""
    for number in ("020 7946 0958", "03-1234-5678", "089 / 636-48018", "(11) 91234-5678"):
        assert measure_recall(label + "{}", (number,)) == 1, number


@pytest.mark.parametrize(
    "text", ["SIN {}", "TFN: {}", "part no {}", "ubr-b-{}", "x={}", "12:{}", "1.{}", "order no. {}"]
)
def test_other_words_and_parts_of_longer_strings_are_not_found(text: str) -> None:
    for number in ("020 7946 0958", "046 454 286", "0171 1234567"):
        assert measure_recall(text, (number,)) == 0, number
