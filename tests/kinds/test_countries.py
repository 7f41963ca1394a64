"""National identifiers: searched only where the plan names their country, validated by their checks; surrogates pass the same checks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Draws, Key
from sanitize.errors import PlanError
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import all_kinds, get_kind, known_countries, list_kinds

KEY = Key.from_seed(3)
# kind: values of published examples or with check characters computed by hand, as written; none belongs to a person
VALID = {
    "UK_NHS": ["NHS no. 943 476 5919", "NHS number: 9434765919", "nhs=943-476-5919"],
    "UK_NINO": ["AB123456C", "AB 12 34 56 C"],
    "CA_SIN": ["130 692 544", "130-692-544", "SIN: 130692544"],
    "DE_TAX_ID": ["86095742719", "86 095 742 719", "Steuer-ID: 47036892816"],
    "FR_NIR": ["2 55 08 14 168 025 38", "255081416802538"],
    "ES_NIF": ["12345678Z", "12.345.678-Z", "12345678-Z"],
    "ES_NIE": ["X1234567L", "X-1234567-L"],
    "IT_FISCAL_CODE": ["RSSMRA85T10A562S", "RSS MRA 85T10 A562S", "RSSMRA85T10A56NH", "RSSMRAURTMLARS2W"],
    "NL_BSN": ["1112.22.333", "BSN 111222333", "Burgerservicenummer: 123456782"],
    "PL_PESEL": ["44051401359"],
    "SE_PERSONNUMMER": ["811228-9874", "19811228-9874", "personnummer 8112289874"],
    "FI_PERSONAL_IDENTITY_CODE": ["131052-308T"],
    "AU_TFN": ["123 456 782", "TFN: 123456782"],
    "AU_MEDICARE": ["2123 45670 1", "Medicare number 2123456701"],
    "IN_AADHAAR": ["2341 2341 2346", "Aadhaar: 234123412346"],
    "IN_PAN": ["ABCPE1234F"],
    "BR_CPF": ["111.444.777-35", "CPF 11144477735"],
    "BR_CNPJ": ["11.222.333/0001-81", "12.ABC.345/01DE-35"],
    "CN_RESIDENT_ID": ["11010519491231002X"],
    "JP_MY_NUMBER": ["1234 5678 9018", "マイナンバー 123456789018"],
    "KR_RRN": ["900101-1234568", "RRN 9001011234568"],
    "ZA_ID_NUMBER": ["8001015009087"],
    "TR_NATIONAL_ID": ["10000000146"],
}
# the same with one wrong character, and numbers that the country does not assign
INVALID = {
    "UK_NHS": ["NHS number 943 476 5918", "NHS 000 000 0000"],
    "UK_NINO": ["GB123456C", "AB123456E", "QQ123456C"],
    "CA_SIN": ["130 692 545", "046 454 286", "130692544"],
    "DE_TAX_ID": ["86095742718", "12345678901", "11111111111"],
    "FR_NIR": ["255081416802539", "255131416802538"],
    "ES_NIF": ["12345678A"],
    "ES_NIE": ["X1234567M"],
    "IT_FISCAL_CODE": ["RSSMRA85T10A562T", "RSSMRA85T90A562S", "RSSMRAURTMLARSNL 4"],
    "NL_BSN": ["1112.22.334", "111222333"],
    "PL_PESEL": ["44051401358", "44151401359"],
    "SE_PERSONNUMMER": ["811228-9875", "811328-9874", "8112289874"],
    "FI_PERSONAL_IDENTITY_CODE": ["131052-308U", "321052-308T"],
    "AU_TFN": ["123 456 783", "123456782"],
    "AU_MEDICARE": ["2123 45671 1"],
    "IN_AADHAAR": ["2341 2341 2347", "1341 2341 2346"],
    "IN_PAN": ["ABCDE1234F"],
    "BR_CPF": ["111.444.777-36", "111.111.111-11"],
    "BR_CNPJ": ["11.222.333/0001-82"],
    "CN_RESIDENT_ID": ["110105194912310021", "11010519491331002X"],
    "JP_MY_NUMBER": ["1234 5678 9019"],
    "KR_RRN": ["900101-1234567", "901301-1234568"],
    "ZA_ID_NUMBER": ["8001015009088", "8013015009087"],
    "TR_NATIONAL_ID": ["10000000147", "10000000148"],
}
CASES = [(name, text) for name, texts in VALID.items() for text in texts]


def find_values(text: str, countries: tuple[str, ...]) -> list[tuple[str, str]]:
    finder = PatternFinder(KEY, countries, opt_in_kinds=("AGE", "DATE_TIME"))
    result = finder.run(pa.array([text], pa.large_string()))
    values = result.distinct.value.to_pylist()
    return [(finder.kinds[result.distinct.kind[value_no]].name, values[value_no]) for value_no in result.value_no]


def country_of(name: str) -> str:
    country = get_kind(name).country
    assert country is not None
    return country


def extract_value(name: str, text: str) -> str:
    """The value in a text, without the label before it."""
    prefix = get_kind(name).prefix_pattern
    return text if prefix is None else text[len(pl.Series([text]).str.extract(rf"\A({prefix})").fill_null("")[0]) :]


def make_draws(count: int) -> Draws:
    return Draws.from_words(
        b"sixteen bytes ok", np.full(count, 7, np.uint64), np.zeros(count, np.uint64), np.arange(count, dtype=np.uint64)
    )


def test_every_identifier_has_cases() -> None:
    national = {name for name, kind in all_kinds().items() if kind.country is not None}
    assert national == set(VALID) == set(INVALID)
    assert {country_of(name) for name in VALID} == set(known_countries())


@pytest.mark.parametrize(("name", "text"), CASES)
def test_identifier_is_found_with_its_country(name: str, text: str) -> None:
    value = extract_value(name, text)
    assert value
    for before, after in (("", ""), ("see ", "."), ("(", ")"), ("é", "é")):
        assert find_values(f"{before}{text}{after}", (country_of(name),)) == [(name, value)]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_identifier_is_not_found_without_its_country(name: str, text: str) -> None:
    assert name not in dict(find_values(text, ()))
    assert name not in list_kinds() and name in list_kinds([country_of(name).lower()])
    assert not [kind for kind in list_kinds([country_of(name)]).values() if kind.country not in (None, country_of(name))]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in INVALID.items() for text in texts])
def test_invalid_identifier_is_not_found(name: str, text: str) -> None:
    assert name not in dict(find_values(text, (country_of(name),)))


@pytest.mark.parametrize(("name", "text"), CASES)
def test_identifier_next_to_a_word_character_is_not_found(name: str, text: str) -> None:
    assert name not in dict(find_values(f"x{extract_value(name, text)}", (country_of(name),)))
    assert name not in dict(find_values(f"{extract_value(name, text)}0", (country_of(name),)))


@pytest.mark.parametrize("name", VALID)
@pytest.mark.parametrize("reserved", [False, True])
def test_surrogates_are_of_their_kind(name: str, reserved: bool) -> None:
    kind = get_kind(name)
    values = pl.Series("value", [extract_value(name, text) for text in VALID[name]] * 40)
    surrogates = kind.make_surrogates(values, make_draws(len(values)), reserved)
    assert kind.check is not None and kind.check(values).is_null().all() and kind.check(surrogates).is_null().all()
    frame = pl.DataFrame({"value": values}).with_columns(bracketed=False, id_field=False, address_field=False)
    # bare digits are accepted only after their name
    assert kind.is_value(frame).to_list() == kind.is_value(frame.with_columns(value=surrogates)).to_list() and kind.is_value(frame).any()
    drawn_characters = (
        "[0-9A-Za-z]" if name != "FI_PERSONAL_IDENTITY_CODE" else "[0-9A-Za-z-]"
    )  # where the sign of the century is drawn too
    assert surrogates.str.replace_all(drawn_characters, "0").to_list() == values.str.replace_all(drawn_characters, "0").to_list()
    assert (kind.normalise(surrogates) != kind.normalise(values)).all()
    assert surrogates.n_unique() > len(values) * 0.9
    rows = np.arange(1, len(values), 3)
    assert (
        kind.make_surrogates(values.gather(rows), make_draws(len(values)).take(rows), reserved).to_list()
        == surrogates.gather(rows).to_list()
    )
    assert len(kind.make_surrogates(values.clear(), make_draws(0), reserved)) == len(kind.check(values.clear())) == 0


@pytest.mark.parametrize("name", VALID)
def test_another_attempt_gives_another_surrogate(name: str) -> None:
    """A surrogate that is already used is drawn again, and each of the sixty-four attempts gives another number."""
    kind = get_kind(name)
    values = pl.Series("value", [extract_value(name, text) for text in VALID[name]] * 5)
    first, second = (kind.make_surrogates(values, make_draws(len(values)).with_attempt(attempt), False) for attempt in (0, 1))
    assert (first != second).mean() > 0.9


def test_spellings_of_one_number_share_a_normalised_value() -> None:
    for name, texts in VALID.items():
        forms = get_kind(name).normalise(pl.Series([extract_value(name, text) for text in texts]))
        if name not in ("DE_TAX_ID", "NL_BSN", "BR_CNPJ", "IT_FISCAL_CODE"):  # their cases are of several numbers
            assert forms.n_unique() == 1, name


def test_reserved_health_numbers() -> None:
    assert get_kind("UK_NHS").make_surrogates(pl.Series(["943 476 5919"] * 20), make_draws(20), True).str.starts_with("999 ").all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # written like a telephone number, a card or a date: that kind, unless the identifier's name precedes it
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
        ("https://example.com/?pesel=44051401359", [("URL", "https://example.com/?pesel=44051401359"), ("PL_PESEL", "44051401359")]),
    ],
)
def test_kinds_with_all_countries_enabled(text: str, expected: list[tuple[str, str]]) -> None:
    assert find_values(text, known_countries()) == expected


def test_an_unknown_country_is_refused_with_suggestions() -> None:
    with pytest.raises(PlanError, match=r"find\.countries: 'UK' is not a country code of ISO 3166; did you mean GB\?"):
        list_kinds(["DE", "uk"])
    with pytest.raises(PlanError, match="DE"):
        PatternFinder(KEY, ("XX",))


def test_a_national_kind_is_known_by_name() -> None:
    assert get_kind("ES_NIF").country == "ES"
    with pytest.raises(PlanError, match="ES_NIF"):
        get_kind("ES_NIFF")


def test_candidates_rejected_by_all_kinds_are_counted_once() -> None:
    finder = PatternFinder(KEY, known_countries())
    result = finder.run(pa.array(["111 111 110 and 130 692 544"], pa.large_string()))
    skipped = {(finder.kinds[number].name, reason): count for (number, reason), count in result.skipped.items()}
    assert skipped == {("AU_TFN", "checksum"): 1, ("PHONE_NUMBER", "context"): 1}
