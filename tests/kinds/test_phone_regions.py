"""Recall for numbers in the national formats of the known regions: libphonenumber's own examples, and drawn numbers that its numbering
plans accept, in its national format. Each lower bound is the measured recall, less what another sample may differ.
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
}


@functools.cache
def numbers(region: str, sort: int) -> tuple[str, ...]:
    """Valid numbers of a region and type in its national format, the same ones every time."""
    draw = random.Random(f"{region} {sort}")
    example = phonenumbers.example_number_for_type(region, sort)
    assert example is not None
    digits = phonenumbers.national_significant_number(example)
    made = [phonenumbers.format_number(example, PhoneNumberFormat.NATIONAL)]
    while len(made) < COUNT:
        # the first digits say what sort it is; some of them are drawn too
        head = digits[: draw.randint(1, 3)]
        tried = head + "".join(str(draw.randrange(10)) for _ in digits[len(head) :])
        number = phonenumbers.PhoneNumber(country_code=example.country_code, national_number=int(tried))
        number.italian_leading_zero = True if tried[0] == "0" else None
        kind = phonenumbers.number_type(number)
        if phonenumbers.is_valid_number_for_region(number, region) and kind in (sort, PhoneNumberType.FIXED_LINE_OR_MOBILE):
            made.append(phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL))
    return tuple(made)


def share(text: str, written: tuple[str, ...]) -> float:
    """The share of numbers that are found exactly, in a text with one number."""
    seen = FINDER.run(pa.array([text.format(one) for one in written], pa.large_string()))
    found: list[list[str]] = [[] for _ in written]
    for row, start, stop, which in zip(seen.text_no, seen.start, seen.end, seen.value_no, strict=True):
        if FINDER.kinds[seen.distinct.kind[which]].name == KIND.name:
            found[row].append(text.format(written[row])[start:stop])
    return sum(one == [number] for one, number in zip(found, written, strict=True)) / len(written)


# (region, sort): the share that is found without any word
UNSAID = {("DE", LINE): 0.75}
EACH = [pytest.param(region, sort, id=f"{region} {'line' if sort == LINE else 'mobile'}") for region in REGIONS for sort in (LINE, MOBILE)]


@pytest.mark.parametrize(("region", "sort"), EACH)
def test_found_without_a_word(region: str, sort: int) -> None:
    assert share("Ann Roe, {} in town", numbers(region, sort)) >= UNSAID.get((region, sort), 0.95)


@pytest.mark.parametrize(("region", "sort"), EACH)
def test_found_behind_the_word_of_the_region(region: str, sort: int) -> None:
    assert share(f"Ann Roe, {WORDS[region]} {{}}\nin town", numbers(region, sort)) >= 0.97


LABELS = ["Ph: ", "Mob: ", "Mob. ", "Ann: ", "Ann - ", "Fax/", "Portable : ", "Tél. : ", "Natel: ", "電話: ", "电话：", "मोबाइल ", "Re: "]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_does_not_hide_a_number(label: str) -> None:
    """A number that is found without context is also found after any word, a colon or a dash."""
    for number in ("020 7946 0958", "03-1234-5678", "089 / 636-48018", "(11) 91234-5678"):
        assert share(label + "{}", (number,)) == 1, number


@pytest.mark.parametrize("text", ["SIN {}", "TFN: {}", "part no {}", "ubr-b-{}", "x={}", "12:{}", "1.{}", "order no. {}"])
def test_other_words_and_pieces_of_longer_things_are_none(text: str) -> None:
    for number in ("020 7946 0958", "046 454 286", "0171 1234567"):
        assert share(text, (number,)) == 0, number
