"""The term table: which forms of which values are searched, split into passes that fit in
memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.kinds.kind import all_kinds, list_kinds
from sanitize.storage import table_schemas
from sanitize.storage.parquet_files import write_table_rows
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches
from sanitize.verification import search_terms
from sanitize.verification.search_terms import (
    BYTES_PER_TERM,
    DIGITS,
    IDENTITY,
    NOT_REMOVED,
    SPELLING,
    SearchTerms,
    ValueCounts,
    write_terms,
)
from tests.support import full_width

KINDS = list(all_kinds())
MAIL, TEL, PERSON = "EMAIL_ADDRESS", "PHONE_NUMBER", "PERSON"
# form: is it too short to be conclusive where it is not written as a word of a text
FORMS = {
    "a@b.c": True,
    "a@bc.d": False,
    "ab@cd.e": False,
    "ann": True,
    "annabella": True,
    "rene\u0301e\u0301lise": True,  # letters with combining marks
    "ann beck": False,
    "annabell4": False,
}
# value_id, kind, value, and its normalised form if that is another
Row = tuple[int, str, str, str | None]


def write_vault(path: Path, rows: Sequence[Row]) -> Path:
    write_table_rows(path, table_schemas.VALUE_SPELLINGS.schema, [*rows])
    return path


def list_rows(values: Sequence[tuple[str, str]]) -> list[Row]:
    rows: list[Row] = []
    for number, (kind, value) in enumerate(values):
        normal = list_kinds()[kind].normalise(pl.Series([value]))[0]
        rows.append((number * 7 + 1, kind, value, None if normal == value else normal))
    return rows


def build_search_terms(
    folder: Path, rows: Sequence[Row], edited: Sequence[str] = KINDS
) -> SearchTerms:
    folder.mkdir(exist_ok=True)
    write_terms([write_vault(folder / "values.parquet", rows)], edited, folder / "terms")
    (terms,) = SearchTerms.open([folder / "terms"])
    return terms


def list_terms(terms: SearchTerms) -> list[tuple[Any, ...]]:
    """Form, number of the kind, type and spelling of all terms of a pass."""
    names = ("term", "kind", "term_type", "spelled")
    return [
        tuple(row[name] for name in names)
        for table in terms.tables.values()
        for row in table.to_pylist()
    ]


def select_forms(terms: SearchTerms, term_type: int) -> list[str]:
    return sorted(form for form, _, found_type, _ in list_terms(terms) if found_type == term_type)


def limit_memory(
    monkeypatch: pytest.MonkeyPatch, max_unshared: int = 0, partition: int = 3
) -> None:
    """Passes are limited by memory, with few values too, and all processes share their matchers."""
    monkeypatch.setattr(search_terms, "MAX_UNSHARED_TERMS", max_unshared)
    monkeypatch.setattr(search_terms, "TERMS_PER_PARTITION", partition)


def test_forms_of_a_value(tmp_path: Path) -> None:
    rows: list[Row] = [
        (1, MAIL, "Ann@Corp.example", "ann@corp.example"),
        (2, TEL, "(212) 555-0123", "+12125550123"),
        (3, "IBAN_CODE", "GB82 WEST 1234 5698 7654 32", "GB82WEST12345698765432"),
        (4, PERSON, "Ren\u00e9e", None),
        (5, "US_SSN", "219-09-9999", None),
    ]
    terms = build_search_terms(tmp_path, rows, [MAIL, TEL, "IBAN_CODE"])
    assert select_forms(terms, SPELLING) == sorted(
        ["ann@corp.example", "(212) 555-0123", "gb82 west 1234 5698 7654 32"]
    )
    assert select_forms(terms, IDENTITY) == ["gb82west12345698765432"]
    assert select_forms(terms, DIGITS) == ["12125550123", "2125550123"]
    # a replacement may equal neither a value that the plan leaves nor the identity form of one that
    # it removes
    not_removed = ["+12125550123", "219-09-9999", "gb82west12345698765432", "ren\u00e9e"]
    assert select_forms(terms, NOT_REMOVED) == sorted(not_removed)
    spellings = {
        form: spelled for form, _, term_type, spelled in list_terms(terms) if term_type == SPELLING
    }
    assert spellings["ann@corp.example"] == "Ann@Corp.example"
    write_terms(
        [tmp_path / "values.parquet"],
        [MAIL, TEL, "IBAN_CODE"],
        tmp_path / "fast",
        check_mode="fast",
    )
    (fast,) = SearchTerms.open([tmp_path / "fast"])
    assert [select_forms(fast, term_type) for term_type in (IDENTITY, DIGITS, NOT_REMOVED)] == [
        [],
        [],
        [],
    ]
    assert select_forms(fast, SPELLING) == select_forms(terms, SPELLING)


@pytest.mark.parametrize(
    ("value", "others"),
    [
        ("Ann  de Roe", ["ann de roe", "ann_de_roe"]),
        ("Ann O'Roe", ["ann o\u2019roe", "ann_o\u2019roe", "ann_o'roe"]),
        ("ann_roe", []),
    ],
)
def test_a_value_of_several_words_has_a_term_for_each_way_to_join_them(
    tmp_path: Path, value: str, others: list[str]
) -> None:
    terms = build_search_terms(tmp_path, [(1, PERSON, value, None)])
    assert select_forms(terms, SPELLING) == sorted([value.lower(), *others])


def test_a_value_beyond_ascii_has_a_term_for_each_spelling(tmp_path: Path) -> None:
    terms = build_search_terms(tmp_path, [(1, PERSON, "Ren\u00e9e \u00c5lund", None)])
    assert {"ren\u00e9e \u00e5lund", "rene\u0301e a\u030alund"} <= set(
        select_forms(terms, SPELLING)
    )


def test_removed_values_are_those_of_kinds_and_ids(tmp_path: Path) -> None:
    """Values of edited kinds without `exclude_ids`, and `include_ids` of any kind."""
    rows: list[Row] = [(no, MAIL, f"p{no}@example.com", None) for no in range(4)] + [
        (9, "IP_ADDRESS", "192.0.2.7", None)
    ]
    values = write_vault(tmp_path / "values.parquet", rows)
    counts = write_terms(
        [values], [MAIL], tmp_path / "terms", include_ids=[9, 1], exclude_ids=[0, 1]
    )
    (terms,) = SearchTerms.open([tmp_path / "terms"])
    assert select_forms(terms, SPELLING) == [
        "192.0.2.7",
        "p1@example.com",
        "p2@example.com",
        "p3@example.com",
    ]
    assert counts == ValueCounts(4, 0) and "p0@example.com" in select_forms(terms, NOT_REMOVED)


def test_short_forms_are_marked(tmp_path: Path) -> None:
    rows: list[Row] = [(no, PERSON, form, None) for no, form in enumerate(FORMS)]
    terms = build_search_terms(tmp_path, [(no, MAIL, form, None) for no, _, form, _ in rows])
    forms = [text.decode() for text in terms.read_spellings(np.arange(len(terms.is_short)))]
    short = dict(zip(forms, terms.is_short.tolist(), strict=True))
    assert {form: short[form] for form in FORMS} == FORMS


def test_all_checks_count_the_same_values(tmp_path: Path) -> None:
    """A name of one word may mean something else: it is in neither count of the values that are
    searched for."""
    rows: list[Row] = [
        (1, PERSON, "Will", "will"),
        (2, PERSON, "Ann Roe", "ann roe"),
        (2, PERSON, "ANN ROE", "ann roe"),
        (3, TEL, "555-0100", "5550100"),
        (4, "US_SSN", "219-09-9999", None),
    ]
    files = [write_vault(tmp_path / f"{no}.parquet", rows[no:]) for no in range(2)]
    for mode in ("full", "fast"):
        assert write_terms(files, [PERSON, TEL], tmp_path / mode, check_mode=mode) == ValueCounts(
            searched=2, common=1
        )
    assert write_terms([], [PERSON], tmp_path / "none") == ValueCounts(0, 0)
    (none,) = SearchTerms.open([tmp_path / "none"])
    assert not len(none.plain) and not len(none.digits) and none.max_length == 0


def test_identity_forms_are_distinctive(tmp_path: Path) -> None:
    """Identity forms begin and end with a letter or digit and are no number; numbers have seven
    digits or more."""
    rows: list[Row] = [
        (1, MAIL, "<ann beck>", "ann beck"),
        (2, MAIL, "x@example.com", "@example.com"),
    ]
    rows += [
        (3, TEL, "555-0100", "5550100"),
        (4, TEL, "+44 20 555 0100", "+44205550100"),
        (5, TEL, "55-0100", "550100"),
    ]
    terms = build_search_terms(tmp_path, rows)
    assert select_forms(terms, IDENTITY) == ["ann beck"]
    assert select_forms(terms, DIGITS) == ["44205550100", "5550100"]


def test_passes_partition_the_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [(MAIL, f"p{number}.q@example{number % 7}.com") for number in range(50)]
    values += [(TEL, f"212-555-{number:04d}") for number in range(20)]
    rows = list_rows(values)
    files = [
        write_vault(tmp_path / "a.parquet", rows[:40]),
        write_vault(tmp_path / "b.parquet", rows),
    ]
    count = write_terms(files, [MAIL, TEL], tmp_path / "one")
    limit_memory(monkeypatch)
    assert (
        write_terms(files, [MAIL, TEL], tmp_path / "many", 20 * BYTES_PER_TERM)
        == count
        == ValueCounts(70, 0)
    )
    (one_pass,), passes = (
        SearchTerms.open([tmp_path / "one"]),
        SearchTerms.open([tmp_path / "many"]),
    )
    parts = [list_terms(one) for one in passes]
    assert 7 <= len(parts) <= 14 and max(map(len, parts)) <= 20
    assert sorted(row for part in parts for row in part) == sorted(list_terms(one_pass))
    assert sum(len(one.plain) + len(one.digits) for one in passes) == 70 + 2 * 20
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == [
        f"pass-{no:04d}" for no in range(len(parts))
    ]
    # all forms of a value are in one pass
    ids = [
        {row["value_id"] for table in one.tables.values() for row in table.to_pylist()}
        for one in passes
    ]
    assert sum(map(len, ids)) == len(set().union(*ids)) == 70


def test_terms_do_not_depend_on_partitions_and_order_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = "aZ\u00e9b"
    values = [
        (MAIL, f"{letters[number % 4]}{number * 37 % 1000}@example.com") for number in range(900)
    ]
    # forms of two values
    values += [
        (MAIL, f"a b{number}{sign}c@example.com") for number in range(200) for sign in "'\u2019"
    ]
    rows = list_rows(values)
    files = [
        write_vault(tmp_path / "a.parquet", rows[::2]),
        write_vault(tmp_path / "b.parquet", [*rows[1::2], *rows[:50]]),
    ]
    counts = [write_terms(files, [MAIL], tmp_path / "one")]
    monkeypatch.setattr(search_terms, "TERMS_PER_PARTITION", 100)
    counts.append(write_terms(files, [MAIL], tmp_path / "many"))
    counts.append(write_terms(files[::-1], [MAIL], tmp_path / "turned"))
    tables = [
        [table.to_pydict() for table in SearchTerms.open([tmp_path / name])[0].tables.values()]
        for name in ("one", "many", "turned")
    ]
    assert counts[0] == counts[1] == counts[2] and tables[0] == tables[1] == tables[2]
    assert (
        tables[0][0]["term"] == sorted(tables[0][0]["term"], key=str.encode)
        and len(tables[0][0]["term"]) > 900
    )


def test_shared_terms_equal_those_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [(MAIL, f"p{number}@example.com") for number in range(9)] + [
        (TEL, f"212-555-{number:04d}") for number in range(9)
    ]
    values += [
        (PERSON, "Rose Will"),
        (PERSON, "Will"),
        ("IBAN_CODE", "GB82 WEST 1234 5698 7654 32"),
    ]
    unshared = build_search_terms(tmp_path / "a", list_rows(values))
    limit_memory(monkeypatch)
    write_terms([tmp_path / "a/values.parquet"], KINDS, tmp_path / "b/terms", memory_bytes=1 << 30)
    (shared,) = SearchTerms.open([tmp_path / "b/terms"])
    assert shared.folder and (shared.folder / "plain").is_dir()
    assert unshared.folder and not (unshared.folder / "plain").is_dir()
    assert (
        shared.is_identity.tolist() == unshared.is_identity.tolist() and unshared.is_identity.any()
    )
    assert shared.is_short.tolist() == unshared.is_short.tolist()
    term_numbers = np.arange(len(unshared.plain))
    assert (
        shared.read_spellings(term_numbers) == unshared.read_spellings(term_numbers)
        and shared.max_length == unshared.max_length
    )
    md5 = hashlib.md5(b"p3@example.com", usedforsecurity=False).hexdigest()
    words = [
        hashlib.sha1(b"x", usedforsecurity=False).hexdigest(),
        md5,
        hashlib.sha512(b"+12125550004").hexdigest(),
    ]
    stored = [
        one.match_digests(words)
        for one in (shared, unshared, *SearchTerms.open([tmp_path / "b/terms"]))
    ]
    assert stored[0] == stored[1] == stored[2] and [number for number, _ in stored[0]] == [1, 2]
    kinds, value_ids = unshared.find_owners(np.array([row for _, row in stored[0]]))
    names = [unshared.plain.kind_names[kind] for kind in kinds.tolist()]
    vault = pl.read_parquet(tmp_path / "a/values.parquet").filter(
        pl.col("value_id").is_in(value_ids.tolist())
    )
    assert names == [MAIL, TEL] and sorted(vault["value"].unique()) == [
        "212-555-0004",
        "p3@example.com",
    ]
    assert {path.name for path in (tmp_path / "b/terms").glob("digests-*")} == {
        f"digests-pass-0000-{name}.npy" for name in ("md5", "sha1", "sha512")
    }
    for terms in (shared, unshared):
        for kind, text, is_collision in (
            (MAIL, "P3@example.com", True),
            (MAIL, "no@example.com", False),
            # the normalised form is that of the value
            ("IBAN_CODE", "GB82 west1234 5698765432", True),
            (MAIL, "GB82 west1234 5698765432", False),  # which is one of another kind
            (PERSON, "p4@example.com", True),  # literally a value of another kind
        ):
            assert (
                terms.find_collisions(kind, pl.Series(["other", text]))["replacement"].to_list()
                == [text] * is_collision
            ), text
        assert terms.find_collisions(MAIL, pl.Series([], dtype=pl.String)).height == 0


def test_passes_find_the_same_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many forms of every length and kind, in passes of a few hundred: every match is found
    once."""
    values = [
        (MAIL, f"{'abcxyz'[no % 6]}{no * 37 % 1009}.lee@{'m' * (no % 9)}host{no % 5}.example.com")
        for no in range(1_500)
    ]
    values += [(TEL, f"212-555-{no:04d}") for no in range(300)] + [
        ("IP_ADDRESS", f"192.0.2.{no}") for no in range(200)
    ]
    values += [("IP_ADDRESS", f"::{no:x}") for no in range(30)] + [
        (MAIL, f"{letter}@b") for letter in "abcd"
    ]
    values += [(PERSON, "Rose Will"), (PERSON, "Will")]
    rows: list[Row] = [(no + 1, kind, value, None) for no, (kind, value) in enumerate(values)]
    vault = write_vault(tmp_path / "values.parquet", rows)
    count = write_terms([vault], KINDS, tmp_path / "terms")
    (unshared,) = SearchTerms.open([tmp_path / "terms"])
    limit_memory(monkeypatch, partition=200)
    spellings = [value for _, value in values]
    lines = [" ".join(spellings[no::97]) for no in range(97)] + [
        full_width(spelling) for spelling in spellings[::50]
    ]
    texts = pa.array([*lines, "x" + spellings[0], ""], pa.large_string())

    def list_matches(matcher: LiteralMatcher, found: LiteralMatches) -> list[tuple[int, ...]]:
        columns = (
            found.text_no,
            found.start,
            found.end,
            matcher.kind[found.term],
            matcher.value_id[found.term],
        )
        return list(zip(*(column.tolist() for column in columns), strict=True))

    for memory, min_passes in ((1 << 30, 1), (700 * BYTES_PER_TERM, 3), (200 * BYTES_PER_TERM, 8)):
        folder = tmp_path / f"terms-{memory}"
        assert (
            write_terms([vault], KINDS, folder, memory) == count == ValueCounts(len(values) - 1, 1)
        )
        passes = [one.plain for one in SearchTerms.open([folder])]
        assert (len(passes) == 1) if min_passes == 1 else len(passes) >= min_passes
        assert sum(map(len, passes)) == len(unshared.plain)
        for find in (LiteralMatcher.find, LiteralMatcher.find_nfkc):
            found = [
                row for matcher in passes for row in list_matches(matcher, find(matcher, texts))
            ]
            assert len(found) > 30 and sorted(found) == sorted(
                list_matches(unshared.plain, find(unshared.plain, texts))
            )


def test_a_spelling_has_a_term_for_each_kind(tmp_path: Path) -> None:
    path = write_vault(
        tmp_path / "values.parquet",
        [(no, kind, "x1@example.com", None) for no, kind in enumerate(("MESSAGE_ID", MAIL))],
    )
    pq.write_table(pa.concat_tables([pq.read_table(path)] * 2), path)
    assert write_terms([path], KINDS, tmp_path / "terms") == ValueCounts(2, 0)
    (terms,) = SearchTerms.open([tmp_path / "terms"])
    assert sorted(
        KINDS[kind] for form, kind, *_ in list_terms(terms) if form == "x1@example.com"
    ) == [MAIL, "MESSAGE_ID"]


def test_a_replacement_may_equal_no_value_that_the_plan_leaves(tmp_path: Path) -> None:
    rows = list_rows([(MAIL, "p3@example.com"), ("IP_ADDRESS", "192.0.2.7")])
    terms = build_search_terms(tmp_path / "terms", rows, edited=[MAIL])
    assert terms.find_collisions("IP_ADDRESS", pl.Series(["192.0.2.7", "192.0.2.8"]))[
        "replacement"
    ].to_list() == ["192.0.2.7"]


def test_terms_of_a_few_values_are_those_of_the_vault(tmp_path: Path) -> None:
    rows = list_rows(
        [
            (MAIL, "Ann@example.com"),
            (TEL, "212-555-0123"),
            (PERSON, "Will"),
            ("IBAN_CODE", "GB82 WEST 1234 5698 7654 32"),
        ]
    )
    values = pl.DataFrame(rows, schema=["value_id", "kind", "value", "normalised"], orient="row")
    removed = (SPELLING, IDENTITY, DIGITS)
    for mode in ("full", "fast"):
        write_terms(
            [write_vault(tmp_path / "values.parquet", rows)],
            KINDS,
            tmp_path / mode,
            check_mode=mode,
        )
        (written,) = SearchTerms.open([tmp_path / mode])
        terms = SearchTerms.from_values(values, mode)
        assert terms and list_terms(terms) == [
            row for row in list_terms(written) if row[2] in removed
        ]
    assert SearchTerms.from_values(values.filter(pl.col("kind") == PERSON)) is None
