"""Named queries, and the read-only connection to WORK. All people in it are invented."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core import table_rendering
from sanitize.errors import OutputBroken, UsageError
from sanitize.storage import queries as q
from sanitize.storage import table_schemas
from sanitize.storage.corpus import DocumentFile
from sanitize.storage.views import masks, sql_text

MAIL, PHONE = "EMAIL_ADDRESS", "PHONE_NUMBER"
ADA, BEA, TEL = 11, 12, 21
VALUES = [
    (ADA, MAIL, "Ada.Quill@mail.example.org", "ada.quill@mail.example.org"),
    (ADA, MAIL, "ada.quill@mail.example.org", None),
    (BEA, MAIL, "bea@lab.example.net", None),
    (TEL, PHONE, "+1 (555) 010-0199", "+15550100199"),
]
OCCURRENCES = [  # doc_no, cell, start, stop, kind, value_id, section
    (0, 0, 6, 32, MAIL, ADA, "from"),
    (0, 0, 40, 57, PHONE, TEL, "body"),
    (1, 0, 6, 32, MAIL, ADA, "from"),
    (1, 0, 50, 69, MAIL, BEA, "body"),
    (3, 1, 0, 26, MAIL, ADA, None),
]


def make_edit_row(
    doc_no: int, start_byte: int, end_byte: int, replacement: str, part: str, kind: str
) -> dict[str, object]:
    return dict(
        zip(
            table_schemas.EDITS.schema.names,
            (doc_no, 0, start_byte, end_byte, replacement, part, kind),
            strict=True,
        )
    )


def make_table(name: str, rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, table_schemas.ALL_TABLES[name].schema)


def make_occurrences() -> pa.Table:
    rows = [
        {
            "doc_no": d,
            "cell": c,
            "start": a,
            "end": b,
            "start_byte": a,
            "end_byte": b,
            "kind": k,
            "value_id": v,
            "finder": "patterns",
            "score": 1.0,
            "section": s,
            "entity_id": ADA if v == BEA else None,
        }
        for d, c, a, b, k, v, s in OCCURRENCES
    ]
    return make_table("occurrences", rows)


def make_swept() -> pa.Table:
    (row,) = make_occurrences().slice(0, 1).to_pylist()
    return make_table(
        "swept",
        [{**row, "start": 90, "end": 116, "start_byte": 90, "end_byte": 116, "finder": "sweep"}],
    )


def make_value_counts(rows: list[tuple[int, str, int, int, int, int, int]]) -> pa.Table:
    return make_table(
        "value_counts",
        [dict(zip(table_schemas.VALUE_COUNTS.schema.names, row, strict=True)) for row in rows],
    )


def make_value_spellings() -> pa.Table:
    return make_table(
        "value_spellings",
        [dict(zip(table_schemas.VALUE_SPELLINGS.schema.names, row, strict=True)) for row in VALUES],
    )


def make_plan_table(names: str, *rows: tuple[object, ...]) -> pa.Table:
    """A table that exists only while a plan runs."""
    return pa.table(dict(zip(names.split(), map(list, zip(*rows, strict=True)), strict=True)))


@functools.cache
def small_tables() -> dict[str, pa.Table]:
    # not among the remaining occurrences
    return {
        "occurrences": make_occurrences(),
        "remaining_occurrences": make_occurrences(),
        "swept": make_swept(),
        "partial_counts": make_value_counts(
            [
                (ADA, MAIL, 2, 2, 0, 0, 6),
                (TEL, PHONE, 1, 1, 0, 0, 40),
                (BEA, MAIL, 1, 1, 1, 0, 50),
                (ADA, MAIL, 1, 1, 3, 1, 0),
            ]
        ),
        "value_counts": make_value_counts(
            [(ADA, MAIL, 3, 3, 0, 0, 6), (BEA, MAIL, 1, 1, 1, 0, 50), (TEL, PHONE, 1, 1, 0, 0, 40)]
        ),
        "value_spellings": make_value_spellings(),
        "chosen_kinds": pa.table({"kind": [MAIL]}),
        "first_occurrences": pa.table(
            {"doc_no": [0, 1], "cell": [0, 0], "start": [6, 50], "value_id": [ADA, BEA]}
        ),
        "kept": pa.table({"value_id": [ADA, BEA]}),
        "claimed_spans": pa.table(
            {"doc_no": [0, 1], "cell": [0, 0], "start_byte": [56, 32], "end_byte": [60, 50]}
        ),
        "drops": make_table(
            "drops", [{"doc_no": 3, "part": "near_dup", "reason": "copy", "kept_doc_no": 1}]
        ),
        "edits": make_table(
            "edits",
            [
                make_edit_row(1, 6, 32, "Ada.Moor@hill.example.org", "rmft", MAIL),
                make_edit_row(0, 40, 57, "+1 (555) 019-9010", "redact", PHONE),
            ],
        ),
        # of two shards: two surrogates of one text, two originals of another, and the sections of
        # the four
        "shard_outcomes": make_plan_table(
            "kind outcome section result_id occurrences",
            (MAIL, "stand_in", None, 7, 1),
            (MAIL, "stand_in", None, 7, 1),
            (MAIL, "original", None, ADA, 1),
            (MAIL, "original", None, BEA, 1),
            (MAIL, "stand_in", "from", 0, 1),
            (MAIL, "stand_in", "from", 0, 1),
            (MAIL, "original", "", 0, 2),
            (PHONE, "label", None, 0, 3),
            (PHONE, "label", "body", 0, 3),
        ),
        "labels": make_table(
            "labels",
            [
                {"doc_no": d, "label": word, "value_id": v}
                for d, word, v in (
                    (0, "iris@example.com", ADA),
                    (1, "iris@example.com", ADA),
                    (1, "[MAIL-2]", BEA),
                    (3, "IRIS@example.com", ADA),
                )
            ],
        ),
        "quarantine": make_table(
            "quarantine",
            [{"doc_no": 2, "source": "a.jsonl", "location": "line 3", "reason": "not_json"}],
        ),
        "sources": make_table(
            "sources",
            [{"doc_no": n, "source": "a.jsonl", "location": f"line {n + 1}"} for n in range(4)],
        ),
        "document_ids": make_table(
            "document_ids", [{"doc_id_hash": n} for n in (7, 5, 7, 9, 5, 7)]
        ),
        "documents": pa.table({"doc_no": [0, 1, 2, 3], "user_id": ["zoe", "abe", None, "zoe"]}),
        "users": make_table(
            "users", [{"doc_no": d, "user_no": u} for d, u in ((0, 0), (1, 1), (3, 0))]
        ),
        "value_users": make_table(
            "value_users",
            [{"value_id": v, "user_no": u} for v, u in ((ADA, 0), (ADA, 1), (BEA, 1), (TEL, 0))],
        ),
        "ngrams": make_table(
            "ngrams",
            [
                dict(zip(table_schemas.NGRAMS.schema.names, row, strict=True))
                for row in (
                    (1, "ada", 2, 5, "direct"),
                    (1, "call", 2, 3, None),
                    (1, "quill", 1, 2, "indirect"),
                    (2, "call ada", 1, 2, None),
                )
            ],
        ),
        "blacklist": make_table(
            "blacklist",
            [
                {"ngram": w, "n": 1, "users": u, "reason": r}
                for w, u, r in (("ada", 2, "direct"), ("x", 1, ""))
            ],
        ),
        "ledger": make_table(
            "ledger",
            [
                {
                    "part": "dp_mlm",
                    "privacy_unit": "word",
                    "doc_no": d,
                    "unit_count": u,
                    "epsilon_per_unit": 0.5,
                }
                for d, u in ((0, 3), (0, 1), (1, 6))
            ],
        ),
        "parts": make_table(
            "parts",
            [
                {"part_no": n, "stage": r, "part": p}
                for n, r, p in ((0, "drop", "near_dup"), (1, "edit", "redact"), (2, "edit", "rmft"))
            ],
        ),
        # 1 has one user, in two parts; 2 has one in each of two parts; 3 reached k users in one
        # part
        "ngram_users": make_plan_table(
            "ngram_id user_hash", (1, 10), (1, 10), (2, 10), (2, 11), (3, None), (3, 12)
        ),
        "ngram_user_counts": make_plan_table("ngram_id users", (1, 1), (2, 2)),
        "word_spellings": make_plan_table("ngram_id word", (1, "quill"), (2, "call"), (2, "call")),
        "direct_ngrams": make_plan_table("ngram n", ("ada hill", 2), ("ada", 1), ("ada hill", 2)),
        "digests": make_plan_table("doc_no high low", (0, 1, 1), (1, 1, 1), (2, 1, 2), (3, 1, 1)),
        # 2 has the signature of 0, which meets 1 in band 0; 1 meets 3 in band 1
        "bands": make_plan_table(
            "doc_no band hash",
            *((0, -1, 10), (1, -1, 11), (2, -1, 10), (3, -1, 12)),
            *(
                (0, 0, 5),
                (1, 0, 5),
                (2, 0, 5),
                (3, 0, 6),
                (0, 1, 7),
                (1, 1, 8),
                (2, 1, 7),
                (3, 1, 8),
            ),
        ),
        "pairs": make_plan_table("doc_no earlier_doc_no", (1, 0), (3, 1)),
        "shingles": make_plan_table(
            "doc_no shingle",
            *(
                (doc, run)
                for doc, row in ((0, "12345"), (1, "12346"), (3, "2346"))
                for run in map(int, row)
            ),
        ),
        "items": make_plan_table("group_no item_id", (0, 50), (1, 50), (1, 60), (2, 60), (3, 70)),
        "header_occurrences": make_plan_table(
            "doc_no cell start value_id field line_start line_end "
            "unit_start entry_start entry_end previous_end next_start entry_no entry_count",
            (0, 0, 6, ADA, "from", 0, 33, 6, 6, 32, 6, 32, 0, 1),
            (
                1,
                0,
                6,
                BEA,
                "to",
                0,
                33,
                6,
                6,
                32,
                6,
                32,
                0,
                1,
            ),
            (1, 0, 50, BEA, "to", 40, 90, 50, 50, 69, 50, 70, 0, 2),
        ),
        # a line of three entries whose first and third are removed, and a line of one entry
        "units": make_plan_table(
            "group_no item_id doc_no cell start field line_start line_end "
            "entry_start entry_end previous_end next_start entry_no entry_count",
            (0, ADA, 0, 0, 5, "to", 0, 40, 4, 10, 4, 12, 0, 3),
            (1, BEA, 0, 0, 13, "to", 0, 40, 12, 20, 10, 22, 1, 3),
            (2, ADA, 0, 0, 23, "to", 0, 40, 22, 30, 20, 30, 2, 3),
            (3, ADA, 1, 0, 7, "cc", 0, 30, 4, 29, 4, 29, 0, 1),
        ),
        "removed_groups": make_plan_table("group_no", (0,), (2,), (3,)),
        "removed_occurrences": make_plan_table(
            "doc_no cell start start_byte field whole_line",
            *(
                (0, 0, 5, 4, "to", 0),
                (0, 0, 6, 4, "to", 0),
                (1, 0, 7, 0, "to", 1),
                (2, 0, 7, 0, "cc", 1),
            ),
        ),
        "subject": make_plan_table("value_id", (ADA,), (TEL,)),
        "published_documents": make_plan_table("doc_no", (0,), (1,)),
        "skipped": make_table(
            "skipped", [{"kind": PHONE, "reason": "length", "candidates": n} for n in (2, 3)]
        ),
    }


# of ten ranges, the three with any
EXPECTED: dict[str, list[tuple[object, ...]]] = {
    "value_counts": [
        (ADA, MAIL, 3, 3, 0, 0, 6),
        (BEA, MAIL, 1, 1, 1, 0, 50),
        (TEL, PHONE, 1, 1, 0, 0, 40),
    ],
    "first_occurrences": [(0, 0, 6, ADA), (1, 0, 50, BEA)],
    "first_occurrences_from_counts": [(0, 0, 6, ADA), (1, 0, 50, BEA)],
    # 0:40..57 shares byte 56 with a claim; 1:6..32 and 1:50..69 only touch one; document 3 is
    # dropped
    "remaining_occurrences": [
        (0, 0, 6, 32, 6, 32, MAIL, ADA, "patterns", 1.0, "from", None),
        (1, 0, 6, 32, 6, 32, MAIL, ADA, "patterns", 1.0, "from", None),
        (1, 0, 50, 69, 50, 69, MAIL, BEA, "patterns", 1.0, "body", ADA),
    ],
    "entity_values": [(BEA, ADA, MAIL, "bea@lab.example.net")],
    "claimed_spans": [(1, 0, 6, 32), (3, 1, 0, 26)],
    "values_only_kept": [(BEA,)],  # of ADA other occurrences are removed
    "top_values": [
        (1, MAIL, "ada.quill@mail.example.org", 3, 3),
        (2, MAIL, "bea@lab.example.net", 1, 1),
        (3, PHONE, "+1 (555) 010-0199", 1, 1),
    ],
    "top_sources": [
        (1, MAIL, "ada.quill@mail.example.org", 3, 3, "a.jsonl", "line 1"),
        (2, MAIL, "bea@lab.example.net", 1, 1, "a.jsonl", "line 2"),
        (3, PHONE, "+1 (555) 010-0199", 1, 1, "a.jsonl", "line 1"),
    ],
    "occurrences_by_finder": [
        (MAIL, "patterns", 4, 3),
        (MAIL, "sweep", 1, 1),
        (PHONE, "patterns", 1, 1),
    ],
    "kind_counts": [(MAIL, 2, 4, 3, 0.5), (PHONE, 1, 1, 1, 1.0)],
    "frequency_histogram": [(MAIL, 1, 1), (MAIL, 3, 1), (PHONE, 1, 1)],
    "rank_frequency": [(MAIL, 1, 3, 0.75), (MAIL, 2, 1, 1.0), (PHONE, 1, 1, 1.0)],
    "top_documents": [(0, 2, 2), (1, 2, 2), (3, 1, 1)],
    "occurrences_by_section": [
        ("header", "from", MAIL, 2, 2),
        ("body", "body", MAIL, 1, 1),
        ("body", "body", PHONE, 1, 1),
        ("text", "", MAIL, 1, 1),
    ],
    "addresses_by_domain": [("mail.example.org", 1, 3), ("lab.example.net", 1, 1)],
    "first_and_last_documents": [
        (MAIL, "ada.quill@mail.example.org", 3, 0, 3),
        (MAIL, "bea@lab.example.net", 1, 1, 1),
        (PHONE, "+1 (555) 010-0199", 1, 0, 0),
    ],
    "quarantine_by_reason": [("not_json", "a.jsonl", 1)],
    "repeated_document_ids": [(7, 3), (5, 2)],
    "skipped_by_reason": [(PHONE, "length", 5)],
    "drops_by_part": [("near_dup", "copy", 1)],
    "document_users": [(0, 0), (1, 1), (3, 0)],
    "value_users": [(ADA, 0), (ADA, 1), (BEA, 1), (TEL, 0)],
    "top_values_by_users": [
        (1, MAIL, "ada.quill@mail.example.org", 2, 3, 3),
        (2, MAIL, "bea@lab.example.net", 1, 1, 1),
        (3, PHONE, "+1 (555) 010-0199", 1, 1, 1),
    ],
    "single_occurrence_values": [(MAIL, 2, 1, 0.5, 0.25), (PHONE, 1, 1, 1.0, 1.0)],
    "value_growth": [
        (MAIL, 1, 1, 1, 1.0),
        (MAIL, 2, 3, 2, 0.5),
        (MAIL, 4, 4, 2, 0.0),
        (PHONE, 1, 1, 1, 1.0),
    ],
    "co_occurring_values": [],  # no two values share two documents
    "values_per_user": [(0, 2, 3, 2, 1), (1, 1, 2, 2, 1)],
    "words_by_users": [(1, 1, 2, 0.3333, 0.2), (2, 2, 8, 1.0, 1.0)],
    "ngrams_by_n": [(1, 3, 10, 1, 0.3333, 0.2), (2, 1, 2, 1, 1.0, 1.0)],
    "ngram_user_counts": [(1, 1), (2, 2), (3, 2)],
    "value_ngrams": [("ada", 1), ("ada hill", 2)],
    "word_user_counts": [("call", 2, 2), ("quill", 1, 1)],
    "blacklist_coverage": [(1, "direct", 1, 5, 0.3333, 0.5), (1, "indirect", 1, 2, 0.3333, 0.2)],
    "duplicate_groups": [("near_dup", "copy", 1, 1, 3, 3)],
    # six ids are six readable documents
    "counts_by_part": [
        (0, "drop", "near_dup", 6, 5, 5, 4),
        (1, "edit", "redact", 5, 5, 4, 3),
        (2, "edit", "rmft", 5, 5, 3, 2),
    ],
    "ledger_summary": [("dp_mlm", "word", 2, 10, 0.5, 2.5, 3.0)],
    "exact_dup_links": [(1, 0), (3, 0)],
    "near_dup_pairs": [(1, 0), (2, 0), (3, 1)],
    "near_dup_candidates": [(0,), (1,), (3,)],
    "near_dup_links": [(3, 1)],
    "groups_sharing_items": [(0,), (1,), (2,)],
    "repeated_items": [(0, 0), (1, 0), (1, 1), (2, 1)],
    "document_values": sorted([(0, ADA), (1, ADA), (1, BEA), (3, ADA)]),
    "remaining_values": sorted([(ADA,), (BEA,), (TEL,)]),
    "distinct_values_of_kinds": sorted(
        [
            (ADA, MAIL, "Ada.Quill@mail.example.org", "ada.quill@mail.example.org"),
            (BEA, MAIL, "bea@lab.example.net", "bea@lab.example.net"),
        ]
    ),
    "pseudonyms": [
        ("IRIS@example.com", MAIL, "Ada.Quill@mail.example.org", 1, 3),
        ("[MAIL-2]", MAIL, "bea@lab.example.net", 1, 1),
        ("iris@example.com", MAIL, "Ada.Quill@mail.example.org", 2, 0),
    ],
    "remaining_kind_counts": [(MAIL, 4, 2, 3), (PHONE, 1, 1, 1)],
    "header_units": [
        (0, ADA, 0, 0, 6, "from", 0, 33, 6, 32, 6, 32, 0, 1),
        (1, BEA, 1, 0, 50, "to", 40, 90, 50, 69, 50, 70, 0, 2),
    ],
    "header_removals": [
        (0, 0, 5, ADA, 4, 12, "to", 0),
        (0, 0, 23, ADA, 20, 30, "to", 0),
        (1, 0, 7, ADA, 0, 30, "cc", 1),
    ],
    "subject_sections": [(MAIL, "from", 2, 2), (MAIL, None, 1, 1), (PHONE, "body", 1, 1)],
    "subject_values": sorted([(ADA, 3), (TEL, 1)]),
    "subject_documents": [(0, 2), (1, 1), (3, 1)],
    "subject_edits": [(MAIL, 2, 1), (PHONE, 1, 1)],
    "header_removals_by_field": [("to", 3, 2, 1), ("cc", 1, 1, 1)],
    "outcomes": [
        (MAIL, "original", None, 1, 2),
        (MAIL, "original", "", 2, 1),
        (MAIL, "stand_in", None, 2, 1),
        (MAIL, "stand_in", "from", 2, 1),
        (PHONE, "label", None, 3, 1),
        (PHONE, "label", "body", 3, 1),
    ],
    "edits_by_part": [("redact", PHONE, 1, 1, 1, 17), ("rmft", MAIL, 3, 1, 1, 26)],
}


@pytest.fixture(scope="module")
def database_once() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET threads = 1")
        for name, table in small_tables().items():
            connection.register(f"{name}_arrow", table)
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM {name}_arrow')
        yield connection


@pytest.fixture
def database(database_once: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the small tables; the changes of a test are rolled back."""
    database_once.begin()
    yield database_once
    database_once.rollback()


@pytest.mark.parametrize("name", q.load_queries())
def test_query_header_matches_duckdb(name: str, database: duckdb.DuckDBPyConnection) -> None:
    query = q.get_query(name)
    # it takes no parameters
    assert database.get_table_names(re.sub(r"\$\w+", "1", query.sql)) == set(query.tables)
    assert set(re.findall(r"\$(\w+)", query.sql)) == {
        parameter.name for parameter in query.parameters
    }
    result = database.execute(query.sql, query.bind() or None)
    assert tuple(column[0] for column in result.description) == query.output_columns
    for (
        table,
        columns,
    ) in query.table_columns.items():
        # a table of the run: the listed columns are enough
        database.execute(
            f"CREATE OR REPLACE TABLE {table} AS SELECT {', '.join(columns)} FROM {table}"
        )
    database.execute(query.sql, query.bind() or None)


@pytest.mark.parametrize("name", q.load_queries())
def test_query_returns_the_expected_rows(name: str, database: duckdb.DuckDBPyConnection) -> None:
    query = q.get_query(name)
    assert database.execute(query.sql, query.bind() or None).fetchall() == EXPECTED[name]


def test_first_occurrences_keep_as_many_as_asked_in_corpus_order(
    database: duckdb.DuckDBPyConnection,
) -> None:
    def first_occurrences(keep: int) -> list[tuple[int, ...]]:
        return database.execute(q.get_query("first_occurrences").sql, {"keep": keep}).fetchall()

    assert first_occurrences(0) == []
    assert first_occurrences(2) == [(0, 0, 6, ADA), (1, 0, 6, ADA), (1, 0, 50, BEA)]


# Syntax that SQL engines interpret differently or do not support (hash, first, strlen, list, a cast
# that rounds, an order of nulls).
NON_PORTABLE_PATTERNS = {
    r"::": "CAST(x AS T)",
    r"\b(list|array_agg|string_agg|hash|random|uuid|strlen|md5_number\w*|concat)\s*\(": (
        "a portable function"
    ),
    r"\b(first|last|any_value|arbitrary)\s*\(": "min, max, min_by",
    r"\barg_m(in|ax)\s*\(": "min_by, max_by",
    r"\bregexp_\w+": "a finder or a kind, in Python",
    r"\bQUALIFY\b": "a subquery",
    r"\bUSING SAMPLE\b|\bTABLESAMPLE\b": "no sampling",
    r"\*\s+(EXCLUDE|REPLACE)\b|SELECT\s+\*|\w+\.\*": "the columns by name",
    r"\]|\[": "no subscripts: some engines count from 0",
    r"GROUP BY (ALL|\d)|ORDER BY (ALL|\d)": "the columns by name",
    r"(?<!CAST\()\bsum\(": "CAST(sum(x) AS BIGINT): sums are wider in DuckDB",
    r"CAST\([^()]*/[^()]*AS BIGINT": "no cast of a quotient: one engine rounds, another cuts",
    r"\{\{|%s|\bformat\(": "no string formatting",
    r"read_parquet|read_csv|\.parquet": "tables by name",
}


@pytest.mark.parametrize("name", q.load_queries())
def test_a_query_is_portable(name: str) -> None:
    text = q.get_query(name).sql
    for pattern, replacement in NON_PORTABLE_PATTERNS.items():
        assert not re.search(pattern, text, re.IGNORECASE), (
            f"{name}.sql: {pattern}; use {replacement}"
        )
    assert len(re.findall(r"count\(DISTINCT", text, re.IGNORECASE)) <= 1, (
        f"{name}.sql: one distinct count each"
    )
    order_by_parts = text.rsplit("ORDER BY", 1)
    assert len(order_by_parts) == 2 and "FROM" not in order_by_parts[1].upper(), (
        f"{name}.sql: ends in a full order"
    )


# Spark's reserved keywords in ANSI mode (sql-ref-ansi-compliance.html of Spark 4); DuckDB lists its
# own in duckdb_keywords().
SPARK_RESERVED = set(
    "all and any as authorization both case cast check collate column constraint create cross"
    " current_date current_time current_timestamp current_user distinct else end escape except"
    " execute false fetch filter for foreign from full grant group having in inner intersect into"
    " is join lateral leading left natural not null offset on only or order outer overlaps primary"
    " references right select session_user some sql table then time to trailing union unique"
    " unknown user using when where with within".split()
)


@functools.cache
def reserved_words() -> set[str]:
    keyword_rows = (
        duckdb.connect()
        .execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'")
        .fetchall()
    )
    return SPARK_RESERVED | {name for (name,) in keyword_rows}


def bare_names(text: str, names: set[str]) -> list[str]:
    """Occurrences of `names` in a statement that are neither quoted nor behind a dot. An `end` that
    closes a CASE is not a name."""
    found_names, open_cases = [], 0
    for match in re.finditer(r"'[^']*'|\"[^\"]*\"|--[^\n]*|\$\w+|(?<![\w.])[A-Za-z_]\w*", text):
        word = match[0].lower()
        if word == "case":
            open_cases += 1
        elif word == "end" and open_cases:
            open_cases -= 1
        elif word in names:
            found_names.append(word)
    return found_names


def test_reserved_words_are_known() -> None:
    assert (
        "end" in SPARK_RESERVED & reserved_words()
        and not {"start", "cell", "value"} & reserved_words()
    )
    columns = {column for table in small_tables().values() for column in table.column_names}
    assert (columns | set(small_tables())) & reserved_words() == {"end"}


@pytest.mark.parametrize("name", q.load_queries())
def test_reserved_names_are_quoted_or_qualified(name: str) -> None:
    """A column such as `end` is a keyword in DuckDB and Spark, unless it is quoted or follows a
    dot."""
    query = q.get_query(name)
    table_columns = {
        column for table in query.tables for column in small_tables()[table].column_names
    }
    names = {*table_columns, *query.tables, *query.output_columns}
    assert bare_names(query.sql, names & reserved_words()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('SELECT o.end, o."end", "end" FROM occurrences AS o ORDER BY o.end', []),
        ("SELECT CASE WHEN o.end > 1 THEN 1 ELSE 0 END AS n FROM occurrences AS o", []),
        ("SELECT 'end' AS n, $end AS m FROM occurrences", []),
        ("SELECT end FROM occurrences", ["end"]),
        ("SELECT o.start AS end FROM occurrences AS o", ["end"]),
        ("SELECT doc_no, start, END FROM occurrences ORDER BY doc_no, start, end", ["end", "end"]),
        ("SELECT CASE WHEN end > 1 THEN 1 ELSE 0 END AS n FROM occurrences", ["end"]),
    ],
)
def test_bare_names_are_found(text: str, expected: list[str]) -> None:
    assert bare_names(text, {"end"}) == expected


@pytest.mark.parametrize(
    "name", sorted(set(q.load_queries()) - {"quarantine_by_reason", "drops_by_part"})
)
def test_query_order_is_total(name: str, database: duckdb.DuckDBPyConnection) -> None:
    """The final ORDER BY is a total order over the test tables, even if every value occurs equally
    often."""
    database.execute("UPDATE value_counts SET occurrences = 1, documents = 1")
    query, results = q.get_query(name), set()
    for _ in range(3):
        for table in query.tables:
            database.execute(
                f'CREATE OR REPLACE TABLE "{table}" AS SELECT * FROM "{table}" ORDER BY random()'
            )
        results.add(str(database.execute(query.sql, query.bind() or None).fetchall()))
    assert len(results) == 1


# ---------------------------------------------------------------- headers and parameters

HEADER = (
    "-- name: x\n-- description: Something,\n--              in two lines.\n"
    "-- tables: value_spellings\n-- columns: a, b\n-- params: {}\nSELECT 1\n"
)


def test_query_header_is_parsed() -> None:
    query = q.parse_query(
        HEADER.format("$k = 2, $share = 0.5, $kind = 'all', $deep = true, $n number"), "x"
    )
    assert (query.description, query.output_columns, query.sql) == (
        "Something, in two lines.",
        ("a", "b"),
        "SELECT 1",
    )
    assert query.signature == "k=2 share=0.5 kind=all deep=true n=(number)"
    assert query.bind({"k": "3", "n": "7", "deep": "FALSE"}) == {
        "k": 3,
        "share": 0.5,
        "kind": "all",
        "deep": False,
        "n": 7,
    }


@pytest.mark.parametrize(
    ("parameter_values", "message_part"),
    [
        ({}, "needs the parameter n"),
        ({"n": 1, "m": 1}, "has no parameter 'm'; known: deep, k, kind, n, share."),
        ({"n": "many"}, "whole number"),
        ({"n": -1}, "0 or more"),
        ({"n": True}, "whole number"),
        ({"n": 1 << 63}, "whole number"),
        ({"n": 1, "share": "nan"}, "a number"),
        ({"n": 1, "deep": "yes"}, "true or false"),
        ({"n": 1, "kind": 3}, "a text"),
    ],
)
def test_wrong_parameters_are_named(parameter_values: dict[str, object], message_part: str) -> None:
    query = q.parse_query(
        HEADER.format("$k = 2, $share = 0.5, $kind = 'all', $deep = true, $n number"), "x"
    )
    with pytest.raises(UsageError, match=re.escape(message_part)):
        query.bind(parameter_values)


@pytest.mark.parametrize("params", ["$k = ?", "$k", "$k = 'a"])
def test_malformed_query_header_is_an_assertion_error(params: str) -> None:
    with pytest.raises(AssertionError):
        q.parse_query(HEADER.format(params), "x")


def test_set_options_and_query_names_are_validated() -> None:
    assert q.parse_set_options(["k=3", "kind=A=B"]) == {"k": "3", "kind": "A=B"}
    for options in (["k"], ["=3"], ["k=1", "k=2"]):
        with pytest.raises(UsageError):
            q.parse_set_options(options)
    with pytest.raises(UsageError, match="did you mean top_values"):
        q.get_query("top_valuse")


# ---------------------------------------------------------------- masks

MASK_EXAMPLES = [
    ("Ada.Quill@mail.example.org", MAIL, "A***@m***.org"),
    ("x@y.co", MAIL, "x***@y***.co"),
    ("ada@quill.engineering", MAIL, "aaa@aaaa.aaaa"),  # such a long last label may be a name
    ("ada@[192.0.2.7]", MAIL, "aaa@[999.9.9.9]"),
    ("+1 (555) 010-0199", PHONE, "+9 (999) 999-9999"),
    ("4111111111111111", "CREDIT_CARD", "9999"),
    ("Zoë Ὀδυσσεύς 李雷", "PERSON", "Aaa Aaaaa aa"),
    ("Ⓐⓓⓐ \u202eevil\x1b[31m٣", "X", "??? ?aaaa?[99a9"),
]


def test_polars_and_sql_masks_agree() -> None:
    texts, kinds, expected = (list(column) for column in zip(*MASK_EXAMPLES, strict=True))
    assert masks.mask_texts(pl.Series("t", texts), pl.Series(kinds)).to_list() == expected
    connection = duckdb.connect()
    for text, kind, mask in MASK_EXAMPLES:
        expression = masks.mask_expression("v", "k")
        assert connection.execute(
            f"SELECT {expression} FROM (SELECT ? AS v, ? AS k)", [text, kind]
        ).fetchone() == (mask,)


@given(st.lists(st.none() | st.text(), max_size=20))
def test_masks_contain_only_shape_characters(texts: list[str | None]) -> None:
    clean = [None if text is None else text.encode("utf-8", "replace").decode() for text in texts]
    for text, shape in zip(
        clean, masks.mask_texts(pl.Series(clean, dtype=pl.String)).to_list(), strict=True
    ):
        assert (shape is None) == (text is None)
        if shape is not None:
            assert re.fullmatch(r"[Aa9 -/:-@\[-`{-~]*", shape), shape
            assert not re.search(r"A{5}|a{5}|9{5}", shape)
    masked = masks.mask_texts(pl.Series(clean, dtype=pl.String))
    assert masks.mask_texts(masked).equals(masked, null_equal=True)


# ---------------------------------------------------------------- reading WORK


def write_parquet(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return write_work(tmp_path)


def write_work(folder: Path) -> Path:
    root = folder / "out [1]*?'\"; -- user=eve.private"
    tables = small_tables()
    write_parquet(tables["occurrences"].slice(0, 3), root / "tables/occurrences/00000.parquet")
    write_parquet(tables["occurrences"].slice(3), root / "tables/occurrences/00001.parquet")
    write_parquet(tables["value_counts"], root / "tables/value_counts/00000.parquet")
    write_parquet(tables["value_spellings"], root / "vault/values/00000.parquet")
    write_parquet(tables["quarantine"], root / "quarantine/00000.parquet")
    for age, run in enumerate(("bbbb", "aaaa")):
        write_parquet(tables["edits"].slice(0, age + 1), root / f"runs/{run}/edits/00000.parquet")
        write_parquet(
            make_table(
                "blacklist", [{"ngram": "quill lane", "n": 2, "users": 1, "reason": "indirect"}]
            ),
            root / f"runs/{run}/vault/blacklist/00000.parquet",
        )
        (root / f"runs/{run}/plan.json").write_text("{}")
        os.utime(root / f"runs/{run}/plan.json", (age, age))
    return root


@pytest.fixture(scope="module")
def shared_work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `work`, for tests that change nothing in it."""
    return write_work(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def shared_connection(shared_work: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with q.open_connection(shared_work, memory_limit="200MB") as connection:
        yield connection


def fetch_rows(
    connection: duckdb.DuckDBPyConnection,
    sql: str | q.Query,
    params: dict[str, object] | None = None,
) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in q.run_query(connection, sql, params).to_pylist()]


def test_every_user_query_runs_on_a_full_and_on_an_empty_workspace(
    work: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    user_queries = {name for name, query in q.load_queries().items() if not query.table_columns}
    with q.open_connection(work) as full, q.open_connection(tmp_path / "empty") as empty:
        for name in user_queries:
            assert q.run_query(full, q.get_query(name)).column_names == list(
                q.get_query(name).output_columns
            )
            assert q.run_query(empty, q.get_query(name)).num_rows == 0
        with pytest.raises(
            UsageError,
            match="reads remaining_occurrences, chosen_kinds, which exists only while a plan runs",
        ):
            q.run_query(full, q.get_query("first_occurrences"))


def test_texts_are_masked_unless_revealed(work: Path) -> None:
    raw = re.compile("quill|bea@|moor|0199|9010|lane", re.IGNORECASE)
    masked_tables = ("value_spellings", "edits", "blacklist", "labels")
    with q.open_connection(work) as masked, q.open_connection(work, reveal=True) as revealed:
        for name in masked_tables:
            assert not raw.search(str(fetch_rows(masked, f'SELECT * FROM "{name}"')))
        assert fetch_rows(masked, q.get_query("top_values"), {"limit": "1"}) == [
            (1, MAIL, "a***@m***.org", 3, 3)
        ]
        assert fetch_rows(masked, "SELECT ngram FROM blacklist") == [("aaaa aaaa",)]
        assert fetch_rows(revealed, q.get_query("top_values"), {"limit": "1"}) == [
            (1, MAIL, "ada.quill@mail.example.org", 3, 3)
        ]
        assert fetch_rows(
            masked, "SELECT count(*) FROM value_spellings WHERE value ILIKE '%quill%'"
        ) == [(0,)]
        assert fetch_rows(masked, "SELECT part, kind FROM edits ORDER BY doc_no") == [
            ("redact", PHONE),
            ("rmft", MAIL),
        ]


def test_latest_run_is_the_default_and_another_can_be_named(work: Path) -> None:
    with q.open_connection(work) as latest, q.open_connection(work, run="bbbb") as named:
        assert fetch_rows(latest, "SELECT count(*) FROM edits") == [(2,)]
        assert fetch_rows(named, "SELECT count(*) FROM edits") == [(1,)]
    with pytest.raises(UsageError, match="known: aaaa, bbbb"):
        q.open_connection(work, run="cccc")
    with pytest.raises(UsageError, match="no such WORK"):
        q.open_connection(work / "nowhere")


def test_documents_are_numbered_and_masked(work: Path, tmp_path: Path) -> None:
    nested = pa.array(
        [[{"role": "user", "content": "I am Ada Quill"}], None],
        pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
    )
    write_parquet(
        pa.table(
            {
                "body": ["Dear Ada,", "Hi"],
                "id": ["a", "b"],
                "n": [1, 2],
                "raw": [b"Ada", None],
                "chat": nested,
            }
        ),
        tmp_path / "in[1].parquet",
    )
    columns = {"doc_id": "id", "text": "body", "n": "n", "raw": "raw", "chat": "chat"}
    path = str(tmp_path / "in[1].parquet")
    files = [
        DocumentFile(path=path, rows=2, first_doc_no=first, columns=columns) for first in (0, 5)
    ]
    with (
        q.open_connection(work, documents=files) as masked,
        q.open_connection(work, documents=files, reveal=True) as revealed,
    ):
        masked_chat = [{"role": "aaaa", "content": "A aa Aaa Aaaaa"}]
        assert fetch_rows(masked, "SELECT * FROM documents WHERE doc_no < 2 ORDER BY doc_no") == [
            (0, "a", None, "Aaaa Aaa,", 1, "?", masked_chat),
            (1, "a", None, "Aa", 2, None, None),
        ]
        assert fetch_rows(masked, "SELECT doc_no FROM documents ORDER BY doc_no") == [
            (0,),
            (1,),
            (5,),
            (6,),
        ]
        assert fetch_rows(revealed, "SELECT text FROM documents WHERE doc_no = 5") == [
            ("Dear Ada,",)
        ]


REFUSED_STATEMENTS = [
    "SELECT * FROM read_text('{raw}')",
    "SELECT * FROM read_parquet('{raw}')",
    "SELECT * FROM '{raw}'",
    'SELECT * FROM "{raw}"',
    'SELECT * FROM main."{raw}"',
    "SELECT * FROM '{raw}', (WITH \"{raw}\" AS (SELECT 1) SELECT 1)",
    "WITH a AS (SELECT * FROM '{raw}') SELECT * FROM a",
    "SELECT (SELECT max(value) FROM '{raw}')",
    "SELECT 1 WHERE EXISTS (FROM '{raw}')",
    "SUMMARIZE '{raw}'",
    "DESCRIBE '{raw}'",
    "DESCRIBE TABLE '{raw}'",
    "FROM query('SELECT 1')",
    "FROM query_table('value_spellings')",
    "FROM parquet_metadata('{raw}')",
    "FROM glob('/*')",
    "FROM json_execute_serialized_sql('{{}}')",
    "FROM duckdb_secrets()",
    "FROM pg_catalog.pg_class, '/etc/passwd.csv'",
    "FROM '/etc/passwd.csv'",
    "FROM read_csv('/etc/passwd')",
    "COPY (SELECT 1) TO 'stolen.csv'",
    "COPY value_spellings TO '{raw}'",
    "ATTACH 'x.db'",
    "SET lock_configuration = false",
    "SET VARIABLE x = 1",
    "RESET memory_limit",
    "CREATE TABLE t AS SELECT 1",
    "CREATE OR REPLACE VIEW value_spellings AS SELECT 1",
    "DROP VIEW value_spellings",
    "EXPLAIN ANALYZE SELECT 1",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT 1; SELECT 2",
    "",
    "-- nothing",
    "SELECT * FROM secret_frame",
    "SELECT * FROM occurences",
]


@pytest.mark.parametrize("sql", REFUSED_STATEMENTS)
def test_statements_that_leave_the_workspace_are_refused(
    sql: str,
    shared_work: Path,
    shared_connection: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(shared_work)
    secret_frame = pa.table({"value": ["Ada Quill"]})  # noqa: F841 - a table name must not find it
    raw = str(shared_work / "vault/values/00000.parquet").replace("'", "''")
    for spelling in {raw, "vault/values/00000.parquet"}:
        with pytest.raises(UsageError) as refused:
            q.run_query(shared_connection, sql.format(raw=spelling))
        assert "Quill" not in str(refused.value)
    assert not (shared_work / "stolen.csv").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "FROM value_counts",
        "WITH a AS (SELECT 1 AS x), b AS (FROM a) SELECT * FROM b JOIN a USING (x);",
        "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 3) FROM up",
        "SELECT unnest([1, 2])",
        "SELECT * FROM unnest([1, 2]), range(2)",
        "DESCRIBE value_counts",
        "SUMMARIZE value_counts",
        "SHOW TABLES",
        "SELECT table_name FROM information_schema.tables",
        "VALUES (1), (2)",
        "SELECT * FROM main.occurrences AS o WHERE o.kind IN (SELECT kind FROM Value_Counts)",
    ],
)
def test_read_only_statements_are_allowed(
    sql: str, shared_connection: duckdb.DuckDBPyConnection
) -> None:
    assert q.run_query(shared_connection, sql).num_columns


def test_the_connection_itself_is_locked(work: Path) -> None:
    """The connection without `run_query`: nothing can be written and nothing else opened, whatever
    is executed."""
    with q.open_connection(work) as connection:
        for sql in (
            "COPY (SELECT 1) TO 'x.csv'",
            "FROM read_text('/etc/hostname')",
            "SET enable_external_access = true",
            "ATTACH 'x.db'",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(sql)
        raw = str(work / "vault/values/00000.parquet").replace("'", "''")
        with pytest.raises(duckdb.Error):
            connection.execute(f"COPY (SELECT 1) TO '{raw}' (FORMAT parquet)")


@pytest.mark.parametrize(
    ("sql", "message_part"),
    [
        ("SELEKT 1", "syntax error"),
        ("SELECT nothing FROM value_counts", "nothing"),
        ("SELECT * FROM occurences", "did you mean occurrences"),
        ("SELECT CAST(ngram AS BIGINT) FROM blacklist", "cannot be converted"),
        ("SELECT error(ngram) FROM blacklist", "InvalidInputException"),
        ("SELECT '\udcff'", "not valid text"),
    ],
)
def test_errors_mention_the_statement_and_no_data(sql: str, message_part: str, work: Path) -> None:
    with (
        q.open_connection(work, reveal=True) as connection,
        pytest.raises(UsageError, match=message_part) as raised,
    ):
        q.run_query(connection, sql)
    assert "quill" not in str(raised.value)


def test_a_broken_table_is_named_without_its_bytes(work: Path) -> None:
    (work / "vault/values/00000.parquet").write_bytes(b"Ada Quill")
    with pytest.raises(OutputBroken, match="table value_spellings") as raised:
        q.open_connection(work)
    assert "Quill" not in str(raised.value) and raised.value.__cause__ is None


def test_a_broken_table_of_a_run_is_rebuilt_by_the_run(work: Path) -> None:
    path = next(work.glob("runs/*/edits/*.parquet"))
    path.write_bytes(b"Ada Quill")
    with pytest.raises(
        OutputBroken, match="table edits of WORK .* move the output of the run away"
    ):
        q.open_connection(work)


def test_a_wrong_memory_limit_is_reported(work: Path) -> None:
    with pytest.raises(UsageError, match="--memory-limit lots"):
        q.open_connection(work, memory_limit="lots")


def test_views_sql_creates_the_same_views_in_another_database(work: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(q.create_views_sql(work))
        assert connection.execute(
            "SELECT count(*), min(value) FROM value_spellings"
        ).fetchall() == [(4, "+9 (999) 999-9999")]
        connection.execute(q.create_views_sql(work, reveal=True))
        assert connection.execute("SELECT min(value) FROM value_spellings").fetchall() == [
            ("+1 (555) 010-0199",)
        ]


# ---------------------------------------------------------------- quoting

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@given(text=NAMES)
def test_quoted_literals_and_names_round_trip(
    database_once: duckdb.DuckDBPyConnection, text: str
) -> None:
    assert database_once.execute(f"SELECT {sql_text.quote_literal(text)}").fetchone() == (text,)
    if text:
        assert database_once.sql(f"SELECT 1 AS {sql_text.quote_name(text)}").columns == [text]


@pytest.mark.parametrize(
    "name",
    [
        "b[1]",
        "a*",
        "a?",
        "[!a]",
        "x' OR 1=1; --",
        'q"q',
        "user=eve",
        "back\\slash",
        "{a,b}",
        "$$",
        "new\nline",
        "~",
        "**",
        "é%20#",
        "a\\[b]",
        "\\*",
    ],
)
def test_special_characters_in_a_path_are_literal(name: str, tmp_path: Path) -> None:
    for decoy in ("b1", "aa", "ab", "a", "b"):
        write_parquet(pa.table({"x": [decoy]}), tmp_path / decoy / "tables/t" / f"{decoy}.parquet")
    root = tmp_path / name
    write_parquet(pa.table({"x": [7]}), root / "tables/t" / f"{name}.parquet")
    with q.open_connection(root) as connection:
        assert fetch_rows(connection, "SELECT * FROM t") == [(7,)]


def test_an_ordinary_path_is_a_text_in_the_sql_of_a_view() -> None:
    """Versions of DuckDB before 2 read the statements of `sanitize sql --init` too."""
    assert sql_text.read_parquet_expression(["/w/a b.parquet", "/w/{c}.parquet"]).startswith(
        "read_parquet(['/w/a b.parquet', '/w/{c}.parquet'],"
    )


# ---------------------------------------------------------------- rendering

RESULT = pa.table(
    {
        "n": [1, None],
        "-formula": ["=HYPERLINK(1)", "\x1b]0;gone\x07\u202e"],
        "f": [float("nan"), -2.5],
    }
)


def test_csv_is_guarded_against_formulas() -> None:
    csv_rows = list(csv.reader(io.StringIO(str(table_rendering.render_table(RESULT, "csv")))))
    assert csv_rows[0] == ["n", "'-formula", "f"]
    assert csv_rows[1] == ["1", "'=HYPERLINK(1)", ""]
    assert csv_rows[2][2] == "-2.5"


def test_json_is_an_array_of_row_objects() -> None:
    text = str(table_rendering.render_table(RESULT, "json"))
    assert json.loads(text)[0] == {"n": 1, "-formula": "=HYPERLINK(1)", "f": None}
    assert text.count("\n") == 1 and "\x1b" not in text and "\u202e" not in text


def test_labels_of_all_kinds_are_replacements_in_clear() -> None:
    texts = ["[US_SSN-12]", "[X500_NAME]", "[CASE2]", "[9]", "[ann]", "x [PERSON]"]
    shown = masks.mask_replacements(pl.Series(texts)).to_list()
    assert shown == ["[US_SSN-12]", "[X500_NAME]", "[CASE2]", "[9]", "[aaa]", "a [AAAA]"]


@pytest.mark.parametrize(
    ("sql", "formats", "message"),
    [
        ("SELECT 1 AS a, 2 AS a", ("json",), "two columns of the result are called 'a'"),
        ("SELECT INTERVAL 1 DAY AS i", ("parquet",), "'i' has an interval"),
        ("SELECT [{'a': INTERVAL 1 DAY}] AS i", ("parquet",), "'i' has an interval"),
        ("SELECT union_value(a := 1) AS u", ("parquet",), "'u' has an interval or a union"),
        ("SELECT [DATE 'infinity'] AS d", ("table", "csv", "json"), "'d' has a date outside"),
        (
            "SELECT TIMESTAMP '290000-01-01' AS d",
            ("table", "csv", "json"),
            "'d' has a date outside",
        ),
    ],
)
def test_what_a_format_cannot_hold_is_named(
    sql: str, formats: tuple[str, ...], message: str
) -> None:
    result = duckdb.sql(sql).to_arrow_table()
    for format in table_rendering.TABLE_FORMATS:
        if format in formats:
            with pytest.raises(UsageError, match=message):
                table_rendering.render_table(result, format)
        else:
            assert table_rendering.render_table(result, format)


def test_terminal_table_has_no_control_characters() -> None:
    text = str(table_rendering.render_table(RESULT, "table", width=100))
    assert "U+001B]0;goneU+0007U+202E" in text and "\x1b" not in text
    long = str(table_rendering.render_table(pa.table({"x": list(range(30))}), "table", max_rows=10))
    assert (
        "only the first 10 rows" in long
        and len(long.splitlines()) == 13
        and "[/red]"
        in str(table_rendering.render_table(pa.table({"[red]x": ["[/red]"]}), width=40))
    )


def test_parquet_is_rendered_as_bytes_and_unknown_formats_are_refused() -> None:
    data = table_rendering.render_table(RESULT, "parquet")
    assert isinstance(data, bytes) and pq.read_table(io.BytesIO(data)).num_rows == 2
    with pytest.raises(UsageError, match="known: csv, json, parquet, table"):
        table_rendering.render_table(RESULT, "xml")
