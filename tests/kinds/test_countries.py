"""National identifiers: searched only where the plan names their country, validated by their
checks; surrogates pass the same checks."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.errors import PlanError
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds import national_id
from sanitize.kinds.kind import (
    builtin_kinds,
    get_kind,
    known_countries,
    list_kinds,
    redraw_characters,
)
from tests.support import find_pattern_values, make_draws

KEY = Key.from_seed(3)
NATIONAL = {name: kind for name, kind in builtin_kinds().items() if kind.country is not None}
CASES = [(name, text, value) for name, kind in NATIONAL.items() for text, value in kind.hits]


def find_values(text: str, countries: tuple[str, ...]) -> list[tuple[str, str]]:
    finder = PatternFinder(KEY, countries, opt_in_kinds=("AGE", "DATE_TIME"))
    return [found[:2] for found in find_pattern_values(finder, [text])[0]]


def country_of(name: str) -> str:
    country = get_kind(name).country
    assert country is not None
    return country


def list_values(name: str) -> list[str]:
    """The values of all hits of a kind."""
    return [value for _, value in NATIONAL[name].hits]


@pytest.mark.parametrize(("name", "text", "value"), CASES)
def test_identifier_is_found_with_its_country_in_any_surroundings(
    name: str, text: str, value: str
) -> None:
    for before, after in (("", ""), ("see ", "."), ("(", ")"), ("é", "é")):
        assert find_values(f"{before}{text}{after}", (country_of(name),)) == [(name, value)]


@pytest.mark.parametrize(("name", "text"), [case[:2] for case in CASES])
def test_identifier_is_not_found_without_its_country(name: str, text: str) -> None:
    assert name not in dict(find_values(text, ()))
    assert name not in list_kinds() and name in list_kinds([country_of(name).lower()])
    assert not [
        kind
        for kind in list_kinds([country_of(name)]).values()
        if kind.country not in (None, country_of(name))
    ]


@pytest.mark.parametrize(("name", "value"), [case[::2] for case in CASES])
def test_identifier_next_to_a_word_character_is_not_found(name: str, value: str) -> None:
    assert name not in dict(find_values(f"x{value}", (country_of(name),)))
    assert name not in dict(find_values(f"{value}0", (country_of(name),)))


@pytest.mark.parametrize("name", NATIONAL)
@pytest.mark.parametrize("reserved", [False, True])
def test_surrogates_keep_the_shape_and_rarely_repeat(name: str, reserved: bool) -> None:
    kind = get_kind(name)
    values = pl.Series("value", list_values(name) * 40)
    surrogates = kind.make_surrogates(values, make_draws(len(values)), reserved)
    assert kind.check is not None and kind.check(surrogates).is_null().all()
    # where the sign of the century is drawn too
    drawn_characters = "[0-9A-Za-z]" if name != "FI_PERSONAL_IDENTITY_CODE" else "[0-9A-Za-z-]"
    assert (
        surrogates.str.replace_all(drawn_characters, "0").to_list()
        == values.str.replace_all(drawn_characters, "0").to_list()
    )
    assert (kind.normalise(surrogates) != kind.normalise(values)).all()
    assert surrogates.n_unique() > len(values) * 0.9


@pytest.mark.parametrize("name", NATIONAL)
def test_another_attempt_gives_another_surrogate(name: str) -> None:
    """A surrogate that is already used is drawn again, and each of the sixty-four attempts gives
    another number."""
    kind = get_kind(name)
    values = pl.Series("value", list_values(name) * 5)
    first, second = (
        kind.make_surrogates(values, make_draws(len(values)).with_attempt(attempt), False)
        for attempt in (0, 1)
    )
    assert (first != second).mean() > 0.9


def test_spellings_of_one_number_share_a_normalised_value() -> None:
    for name in NATIONAL:
        forms = get_kind(name).normalise(pl.Series(list_values(name)))
        if name not in (
            "DE_TAX_ID",
            "NL_BSN",
            "BR_CNPJ",
            "IT_FISCAL_CODE",
        ):
            # their cases are of several numbers
            assert forms.n_unique() == 1, name


def test_reserved_health_numbers() -> None:
    assert (
        get_kind("UK_NHS")
        .make_surrogates(pl.Series(["943 476 5919"] * 20), make_draws(20), True)
        .str.starts_with("999 ")
        .all()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # written like a telephone number, a card or a date: that kind, unless the identifier's name
        # precedes it
        ("713-555-0123", [("PHONE_NUMBER", "713-555-0123")]),
        ("943 476 5919", [("PHONE_NUMBER", "943 476 5919")]),
        ("NHS 943 476 5919", [("UK_NHS", "943 476 5919")]),
        ("4111 1111 1111 1111", [("CREDIT_CARD", "4111 1111 1111 1111")]),
        ("123-45-6789", [("US_SSN", "123-45-6789")]),
        ("+49 30 5550 1234", [("PHONE_NUMBER", "+49 30 5550 1234")]),
        ("+44 20 7946 0958", [("PHONE_NUMBER", "+44 20 7946 0958")]),
        ("GB82 WEST 1234 5698 7654 32", [("IBAN_CODE", "GB82 WEST 1234 5698 7654 32")]),
        ("192.0.2.77", [("IP_ADDRESS", "192.0.2.77")]),
        ("2001-05-14 16:39:00", [("DATE_TIME", "2001-05-14 16:39:00")]),
        ("order 20010514 at 16:39, 12345678901", [("DATE_TIME", "16:39")]),
        # three groups of three digits: the kind whose check passes
        ("130 692 544", [("CA_SIN", "130 692 544")]),
        ("123 456 782", [("AU_TFN", "123 456 782")]),
        ("1234 5678 9018", [("JP_MY_NUMBER", "1234 5678 9018")]),
        ("2341 2341 2346", [("IN_AADHAAR", "2341 2341 2346")]),
        # a word or a person between the label and the number
        ("Steuer-ID ist 86095742719", [("DE_TAX_ID", "86095742719")]),
        ("Steuer-ID lautet 86 095 742 719", [("DE_TAX_ID", "86 095 742 719")]),
        ("Het burgerservicenummer van mevrouw de Roe is 111222333;", [("NL_BSN", "111222333")]),
        ("NIF da senhora Roe é 123456789,", [("PT_NIF", "123456789")]),
        ("マイナンバーは123456789018です", [("JP_MY_NUMBER", "123456789018")]),
        ("BSN van de vader van een van de buren is 111222333", []),
        ("BSN voor 111222333, BSN was 111222333", []),
        ("+351 912 312 979", [("PHONE_NUMBER", "+351 912 312 979")]),
        (
            "https://example.com/?pesel=44051401359",
            [("URL", "https://example.com/?pesel=44051401359"), ("PL_PESEL", "44051401359")],
        ),
    ],
)
def test_kinds_with_all_countries_enabled(text: str, expected: list[tuple[str, str]]) -> None:
    assert find_values(text, known_countries()) == expected


def test_an_unknown_country_is_refused_with_suggestions() -> None:
    with pytest.raises(
        PlanError,
        match=r"find\.countries: 'UK' is not a country code of ISO 3166; did you mean GB\?",
    ):
        list_kinds(["DE", "uk"])
    with pytest.raises(PlanError, match="DE"):
        PatternFinder(KEY, ("XX",))


def test_a_national_kind_is_known_by_name() -> None:
    assert get_kind("ES_NIF").country == "ES"
    with pytest.raises(PlanError, match="ES_NIF"):
        get_kind("ES_NIFF")


def test_candidates_rejected_by_all_kinds_are_counted_once() -> None:
    finder = PatternFinder(KEY, known_countries())
    result = finder.run(pa.array(["511 111 110 and 130 692 544"], pa.large_string()))
    skipped = {
        (finder.kinds[number].name, reason): count
        for (number, reason), count in result.skipped.items()
    }
    assert skipped == {("AU_TFN", "checksum"): 1, ("PHONE_NUMBER", "context"): 1}


@pytest.mark.parametrize("name", national_id.STRONG_KINDS)
def test_chance_finds_without_a_label_are_rare(name: str) -> None:
    kind = get_kind(name)
    example = pl.Series("value", [kind.hits[0][1]]).new_from_index(0, 100_000)
    drawn = redraw_characters(example, make_draws(len(example)))
    flags = (pl.lit(False).alias(flag) for flag in ("bracketed", "id_field", "address_field"))
    found = national_id.KIND.is_value(drawn.to_frame().with_columns(flags))
    assert found.sum() < 10
    assert national_id.KIND.is_value(
        example.head(1).to_frame().with_columns(pl.lit(False).alias("bracketed"))
    ).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # its own kind first: no social security or telephone number, no date is a record
        ("patient id 123-45-6789, member no. 312-555-0178", ["US_SSN", "PHONE_NUMBER"]),
        ("case no. 2024-05-01", []),
        # on the line of its label, or alone on the next one
        ("MRN 00123456\n40.712776, -74.005974", ["RECORD_NUMBER"]),
        ("MRN\n00123456\n", ["RECORD_NUMBER"]),
        ("MRN\n00123456 and more", []),
        ("MRN\n\n00123456", []),
        ("a member 123456 of the case 123456", []),
        ("BSN 111222333 and 111222333", ["NATIONAL_ID"]),
    ],
)
def test_a_label_belongs_to_one_value(text: str, expected: list[str]) -> None:
    finder = PatternFinder(KEY, (), ("RECORD_NUMBER", "NATIONAL_ID"))
    found = finder.run(pa.array([text], pa.large_string()))
    kinds = [finder.kinds[number].name for number in found.values.kind[found.value_no]]
    assert kinds == expected
