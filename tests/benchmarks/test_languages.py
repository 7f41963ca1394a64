"""The generated texts in nine languages: their labels, check digits and names; what the benchmark
counts and writes."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from benchmarks import bench_languages
from benchmarks.bench_languages import (
    KINDS,
    NAMES,
    count_other_kinds,
    count_people_in_addresses,
    find_spans,
    score_kinds,
)
from benchmarks.labelled_templates import LabelledText
from benchmarks.language_texts import LANGUAGES, NATIONAL_ID, Language
from sanitize.kinds.kind import builtin_kinds, get_kind
from sanitize.kinds.person import faker_names


@pytest.mark.parametrize("name", LANGUAGES)
def test_texts_are_drawn_from_the_seed_and_their_labels_are_values_of_their_kind(name: str) -> None:
    language = Language.load(name)
    assert len(set(language.templates)) >= 40
    texts = language.generate_texts(2, seed=3)
    assert texts == language.generate_texts(2, seed=3) != language.generate_texts(2, seed=4)
    values: dict[str, list[str]] = {}
    for text in texts:
        assert "{" not in text.text and "|" not in text.text.replace(" | ", "")
        for start, end, kind in text.spans:
            values.setdefault(kind, []).append(text.text[start:end])
    assert set(values) == {*KINDS, "LOCATION"}
    assert all(value == value.strip() for strings in values.values() for value in strings)
    # the check digits are not computed by the kinds; the kinds of the country accept all of them
    national = [
        kind
        for kind in builtin_kinds().values()
        if kind.country == language.country and kind.check is not None
    ]
    identifiers = pl.Series("value", values[NATIONAL_ID])
    accepted = [kind.check(identifiers).is_null() for kind in national if kind.check is not None]
    assert (
        pl.DataFrame([one.alias(str(no)) for no, one in enumerate(accepted)])
        .select(pl.any_horizontal(pl.all()))["0"]
        .all()
    )
    iban_check = get_kind("IBAN_CODE").check
    assert (
        iban_check is not None
        and iban_check(pl.Series("value", values["IBAN_CODE"])).is_null().all()
    )
    assert all(
        address.endswith(("example.com", "example.org", "example.net", ".example", ".test"))
        for address in values["EMAIL_ADDRESS"]
    )


@pytest.mark.parametrize("name", LANGUAGES)
def test_names_in_no_list_are_in_no_list(name: str) -> None:
    settings = Language.load(name).settings
    given, surnames = faker_names()
    for names in (settings["unlisted_given"], settings["unlisted_family"]):
        assert len(set(names)) >= 10 and not {one.lower() for one in names} & (given | surnames)


def test_finds_are_counted_by_kind() -> None:
    text = "Ann Roe, Ann-Roe-Weg 1, ann@example.com"
    texts = [
        LabelledText(text, ((0, 7, "PERSON"), (9, 22, "LOCATION"), (24, 39, "EMAIL_ADDRESS"))),
        LabelledText("x 123456789", ()),
    ]
    found = [[(0, 7, "PERSON"), (9, 16, "PERSON"), (24, 38, "EMAIL_ADDRESS")], [(2, 11, "US_SSN")]]
    scores = score_kinds(texts, found, ("PERSON", "EMAIL_ADDRESS", "IBAN_CODE"))
    assert [scores["PERSON"][name] for name in ("labels", "finds", "hits")] == [1, 2, 1]
    assert [scores["EMAIL_ADDRESS"][name] for name in ("labels", "finds", "hits")] == [1, 1, 0]
    assert scores["IBAN_CODE"]["labels"] == 0 and scores["IBAN_CODE"]["precision"] is None
    assert count_other_kinds(found) == {"US_SSN": 1}
    assert count_people_in_addresses(texts, found) == 1


def test_the_benchmark_writes_its_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench_languages.main(
        ["--texts", "1", "--languages", "pt,ja", "--no-model", "--results", str(tmp_path)]
    )
    result = json.loads((tmp_path / "languages.json").read_text("utf-8"))
    for name in ("pt", "ja"):
        scores = result["languages"][name]["scores"]
        for kind in (
            "EMAIL_ADDRESS",
            "PHONE_NUMBER",
            "IBAN_CODE",
            NATIONAL_ID,
            "DATE_TIME",
        ):
            # 5 to 16 labels of each
            assert scores[kind]["f2"] >= 0.9, (name, kind)
    table = (tmp_path / "languages.md").read_text("utf-8")
    assert (
        f"| F2 | {NAMES['pt']} | {NAMES['ja']} |" in table
        and "| DATE_TIME | Portuguese | 16 |" in table
    )
    assert "example.com" not in capsys.readouterr().out + table + json.dumps(result)


def test_identifiers_of_the_country_are_found_as_such() -> None:
    found = find_spans(["O NIF da senhora Roe é 123456789"], "PT", "names")
    assert (23, 32, NATIONAL_ID) in found[0]
