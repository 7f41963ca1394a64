"""How certain a match is, in each form and beside each kind of neighbour, and where it is."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.kinds.kind import all_kinds
from sanitize.verification.search_terms import ALL_FORMS, SearchTerms
from sanitize.verification.value_matches import (
    CERTAIN,
    INCONCLUSIVE,
    NONE,
    describe_forms,
    find_texts_with_values,
    find_value_matches,
)

MAIL, TEL, PERSON, IP = "EMAIL_ADDRESS", "PHONE_NUMBER", "PERSON", "IP_ADDRESS"
ANN, NAME, PHONE, CARD = (
    "ann.lee@example.com",
    "Rosalind Franke",
    "212-555-0123",
    "4111 1111 1111 1111",
)


def encode64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def build_terms(values: Sequence[tuple[str, str]], mode: str = "full") -> SearchTerms:
    rows = []
    for number, (kind, value) in enumerate(values):
        normal = all_kinds()[kind].normalise(pl.Series([value]))[0]
        rows.append((number, kind, value, None if normal == value else normal))
    terms = SearchTerms.from_values(
        pl.DataFrame(rows, schema=["value_id", "kind", "value", "normalised"], orient="row"), mode
    )
    assert terms is not None
    return terms


def find_all(
    terms: SearchTerms, text: str, forms: Sequence[str] = ALL_FORMS
) -> list[tuple[str, str, int]]:
    """The form, the text and the certainty of each match in a column."""
    column = pa.array(["other", text], pa.large_string())
    found = []
    for matches in find_value_matches(terms, column, forms):
        names = [ALL_FORMS[number] for number in describe_forms(terms, matches, column)]
        assert set(matches.text_no.tolist()) <= {1}
        for name, start, end, certainty in zip(
            names,
            matches.start.tolist(),
            matches.end.tolist(),
            matches.certainty.tolist(),
            strict=True,
        ):
            found.append((name, text.encode()[start:end].decode(), certainty))
    return found


FORMS = [
    # kind, value, text, and what is found in it
    (MAIL, ANN, f"to {ANN}.", [("exact", ANN, CERTAIN)]),
    (MAIL, ANN, f"to {ANN.upper()}.", [("case-folded", ANN.upper(), CERTAIN)]),
    (MAIL, ANN, f"x{ANN}", [("exact", ANN, INCONCLUSIVE)]),
    (MAIL, ANN, f"{ANN}\u0301", [("exact", ANN, INCONCLUSIVE)]),
    (MAIL, ANN, f"_{ANN} 7{ANN}", [("exact", ANN, CERTAIN)] * 2),
    (MAIL, ANN, rf"\n{ANN} %0A{ANN}", [("exact", ANN, CERTAIN)] * 2),
    (MAIL, ANN, ANN.replace("@", "\uff20"), [("NFKC", ANN.replace("@", "\uff20"), CERTAIN)]),
    (
        MAIL,
        ANN,
        "x" + ANN.replace("@", "\uff20"),
        [("NFKC", ANN.replace("@", "\uff20"), INCONCLUSIVE)],
    ),
    (MAIL, "a@b.co", "xa@b.co a@b.cox", []),  # short: in a longer word it is another one
    (MAIL, "a@b.co", "_a@b.co 7a@b.co", [("exact", "a@b.co", INCONCLUSIVE)] * 2),
    (PERSON, NAME, f"{NAME}l {NAME}s", [("exact", NAME, INCONCLUSIVE)] * 2),
    (PERSON, "Ann Lee", "Joann Lee Ann Leeds", []),
    (
        PERSON,
        "Ann Lee",
        "Ann Lee7 Ann_Lee",
        [("exact", "Ann Lee", INCONCLUSIVE), ("case-folded", "Ann_Lee", CERTAIN)],
    ),
    (PERSON, "Ann Lee", "ann lee_7", [("case-folded", "ann lee", CERTAIN)]),
    (TEL, PHONE, f"x{PHONE} {PHONE}x", [("exact", PHONE, CERTAIN)] * 2),
    (TEL, PHONE, f"9{PHONE} {PHONE}9", [("exact", PHONE, INCONCLUSIVE)] * 2),
    (IP, "10.0.0.7", "110.0.0.7 10.0.0.71 1.10.0.0.7", []),
    (IP, "10.0.0.7", "ip10.0.0.7", [("exact", "10.0.0.7", INCONCLUSIVE)]),
    (
        "CREDIT_CARD",
        "4111111111111111",
        "scan_4111111111111111.pdf",
        [("exact", "4111111111111111", CERTAIN)],
    ),
    (
        "CREDIT_CARD",
        "4111111111111111",
        "abcd4111111111111111",
        [("exact", "4111111111111111", INCONCLUSIVE)],
    ),  # hexadecimal
    ("CREDIT_CARD", CARD, "no 4111/1111/1111/1111", [("digits", "4111/1111/1111/1111", CERTAIN)]),
    (
        "IBAN_CODE",
        "GB82 WEST 1234 5698 7654 32",
        "gb82west12345698765432",
        [("identity", "gb82west12345698765432", CERTAIN)],
    ),
    (TEL, PHONE, "2125550123", [("digits", "2125550123", CERTAIN)]),
    (TEL, PHONE, "a2125550123b", [("digits", "2125550123", CERTAIN)]),
    (TEL, PHONE, "1 212 555 0123", [("digits", "1 212 555 0123", CERTAIN)]),
    (TEL, PHONE, "7 212 555 0123", [("digits", "212 555 0123", INCONCLUSIVE)]),
    (TEL, PHONE, "92125550123", [("digits", "2125550123", INCONCLUSIVE)]),
    (
        TEL,
        "555-0123",
        "5550123, 555 0123",
        [("digits", "5550123", INCONCLUSIVE), ("digits", "555 0123", INCONCLUSIVE)],
    ),  # few
    (MAIL, ANN, encode64(ANN), [("base64", encode64(ANN).rstrip("="), CERTAIN)]),
    (
        MAIL,
        ANN,
        encode64(f"x{ANN}"),
        [("base64", encode64(f"x{ANN}")[1:].rstrip("="), INCONCLUSIVE)],
    ),
    (MAIL, ANN, ANN.replace("@", "%40"), [("URL", ANN.replace("@", "%40"), CERTAIN)]),
    (MAIL, ANN, ANN.replace("@", "&#64;"), [("HTML", ANN.replace("@", "&#64;"), CERTAIN)]),
    (MAIL, ANN, ANN.replace("@", "=40"), [("quoted-printable", ANN.replace("@", "=40"), CERTAIN)]),
    (
        MAIL,
        ANN,
        f"{ANN.replace('@', '=')}@lists.example.net",
        [("wrapped address", ANN.replace("@", "="), CERTAIN)],
    ),
    (TEL, "212 555 0123", "212 555\n0123", [("line breaks", "212 555\n0123", CERTAIN)]),
    # =53, or a = before a value with a soft line break
    ("US_SSN", "536-22-8741", "=536-22=\n-8741", [("quoted-printable", "536-22=\n-8741", CERTAIN)]),
    ("US_SSN", "S6-22-8741", "=536-22=\n-8741", [("quoted-printable", "=536-22=\n-8741", CERTAIN)]),
    (
        MAIL,
        "abe.lee@example.com",
        "=abe.lee@exam=\nple.com",
        [("quoted-printable", "abe.lee@exam=\nple.com", CERTAIN)],
    ),
    (
        MAIL,
        ANN,
        "=41 ann.lee@exam=\nple.com",
        [("quoted-printable", "ann.lee@exam=\nple.com", CERTAIN)],
    ),  # once
    (PERSON, NAME, "Rosalind \t Franke", [("line breaks", "Rosalind \t Franke", CERTAIN)]),
    (
        PERSON,
        NAME,
        ">  Rosalind\\\n>   Franke",
        [("line breaks", "Rosalind\\\n>   Franke", CERTAIN)],
    ),
    (PERSON, NAME, "Rosalind+%46ranke", [("form encoding", "Rosalind+%46ranke", CERTAIN)]),
    (PERSON, NAME, "rosalind_franke_1", [("case-folded", "rosalind_franke", CERTAIN)]),
    (
        PERSON,
        "Rosalind  Franke",
        NAME,
        [("case-folded", NAME, CERTAIN), ("identity", NAME, CERTAIN)],
    ),
    (PERSON, "Ann O'Franke", "Ann O\u2019Franke", [("case-folded", "Ann O\u2019Franke", CERTAIN)]),
    (PERSON, "Ann O\u2019Franke", "ann_o'franke", [("case-folded", "ann_o'franke", CERTAIN)]),
    (MAIL, "ann_lee@example.com", "ann lee@example.com", []),
]


@pytest.mark.parametrize(("kind", "value", "text", "expected"), FORMS)
def test_form_and_certainty(
    kind: str, value: str, text: str, expected: list[tuple[str, str, int]]
) -> None:
    found = [match for match in find_all(build_terms([(kind, value)]), text) if match[2] != NONE]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("value", "is_short"),
    [("a@b.c", True), ("a@bc.d", False), ("ann", True), ("annabella", True), ("annabell4", False)],
)
def test_short_terms_are_marked(value: str, is_short: bool) -> None:
    """Where such a term is not written as a word of a text, its match may be there by chance."""
    terms = build_terms([(MAIL, value)])
    texts = [value, value.upper(), "".join(f"&#{ord(char)};" for char in value)]
    column = pa.array([text + " " for text in texts], pa.large_string())
    by_form = {
        ALL_FORMS[int(matches.form[0])]: matches
        for matches in find_value_matches(terms, column)
        if len(matches)
    }
    assert by_form.keys() == {"exact", "HTML"} and all(
        one.is_short.tolist() == [is_short] * len(one) for one in by_form.values()
    )
    found = find_texts_with_values([terms], column, ALL_FORMS)
    assert found == ([0, 1] if is_short else [0, 1, 2])


def test_fast_checks_search_spellings_only() -> None:
    terms = build_terms([(TEL, PHONE), (MAIL, ANN)], "fast")
    forms = ("exact", "case-folded", "NFKC")
    assert find_all(terms, f"{PHONE} 2125550123 {encode64(ANN)} {ANN.upper()}", forms) == [
        ("exact", PHONE, CERTAIN),
        ("case-folded", ANN.upper(), CERTAIN),
    ]


def test_digits_alone_are_searched_in_numbers() -> None:
    terms = build_terms([(TEL, PHONE)])
    assert find_all(terms, "2125550123", ["digits"]) == [("digits", "2125550123", CERTAIN)]
    assert find_all(terms, "12125550123", ["digits"]) == [("digits", "12125550123", CERTAIN)]


def test_the_digits_of_a_match_are_no_other_match() -> None:
    """Not those of a certain match in another form, nor the national number in the international
    one."""
    terms = build_terms([(TEL, PHONE), (TEL, "+44 20 7946 0958")])
    text = f"{PHONE}, 1-212-555-0123, +44 20 7946 0958, 442079460958"
    assert find_all(terms, text) == [
        ("exact", PHONE, CERTAIN),
        ("exact", PHONE, CERTAIN),
        ("exact", "+44 20 7946 0958", CERTAIN),
        ("digits", "1-212-555-0123", CERTAIN),
        ("digits", "442079460958", CERTAIN),
    ]


def test_digests_are_whole_runs_of_hexadecimal_digits() -> None:
    digest = hashlib.sha1(ANN.encode(), usedforsecurity=False).hexdigest()
    terms = build_terms([(MAIL, ANN), (TEL, "+1 212-555-0123")])
    assert find_all(terms, f"is {digest.upper()} and x{digest}_ and {digest}0 and {'0' * 40}") == [
        ("digest", digest.upper(), CERTAIN),
        ("digest", digest, CERTAIN),
    ]
    assert not find_all(terms, digest, [form for form in ALL_FORMS if form != "digest"])


@settings(max_examples=200, deadline=None)
@given(
    before=st.text("ab7_. \n@\u00e9", max_size=4),
    after=st.text("ab7_. \n@\u00e9", max_size=4),
    kind=st.sampled_from([MAIL, TEL, PERSON, IP, "CREDIT_CARD"]),
)
def test_a_long_value_is_never_passed_over(before: str, after: str, kind: str) -> None:
    """From the certain length of its kind on, each match is certain or inconclusive, whatever is
    beside it."""
    value = {
        MAIL: ANN,
        TEL: PHONE,
        PERSON: NAME,
        IP: "192.0.2.77",
        "CREDIT_CARD": "4111111111111111",
    }[kind]
    assert len(value) >= all_kinds()[kind].certain_length
    found = find_all(build_terms([(kind, value)]), before + value + after)
    assert any(
        match in found for match in (("exact", value, CERTAIN), ("exact", value, INCONCLUSIVE))
    )
