"""User queries on the tables of a real run: every result is compared with a second computation from
the same tables and texts.

All people in it are invented.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import threading
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.cli.generated_mails import generate_mails
from sanitize.cli.options import document_sources_or_note
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage import queries as q
from sanitize.storage import table_schemas

Rows = list[tuple[Any, ...]]
DOCUMENT_COUNT, ROWS_PER_SHARD = 120, 50  # documents, and how many a task has


def make_corpus() -> pa.Table:
    """Generated mails, some without a user; with remarks in a list of objects, labels in a map, and
    words of other scripts."""
    mails = generate_mails(DOCUMENT_COUNT, 11)
    users = [None if n % 17 == 0 else user for n, user in enumerate(mails["user_id"].to_pylist())]
    remarks = [
        (
            [
                {
                    "by": f"desk{n % 3}",
                    "said": f"Seen, ZOË's naïve Łódź, İZMİR ΟΔΟΣ Σ1ΑΣ2 x{n % 7}",
                },
                {"by": None, "said": None},
            ]
            if n % 2
            else None
        )
        for n in range(DOCUMENT_COUNT)
    ]
    kind = pa.list_(pa.struct([("by", pa.string()), ("said", pa.string())]))
    labels = [[("lane", f"north {n % 5}")] if n % 3 else None for n in range(DOCUMENT_COUNT)]
    return (
        mails.set_column(
            mails.schema.get_field_index("user_id"), "user_id", pa.array(users, pa.string())
        )
        .append_column("remarks", pa.array(remarks, kind))
        .append_column("labels", pa.array(labels, pa.map_(pa.string(), pa.string())))
    )


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WORK after a run of `rmft`, and hand-written tables of a second run: drops, a blacklist, a
    ledger."""
    folder = tmp_path_factory.mktemp("look")
    pq.write_table(make_corpus(), folder / "in.parquet")
    run_with_settings(
        [folder / "in.parquet"],
        folder / "out",
        settings=Settings(seed=1, workers=1, rows_per_shard=ROWS_PER_SHARD),
        plan="rmft",
    )
    (run_folder,) = (folder / "out.private" / "runs").iterdir()
    plan = json.loads((run_folder / "plan.json").read_text())
    (run_folder / "plan.json").write_text(
        json.dumps({**plan, "drop": [{"use": "near_dup"}, {"use": "exact_dup"}]})
    )
    for subfolder, name, rows in (
        (
            "drops",
            "drops",
            [
                (2, "near_dup", "copy", 0),
                (9, "near_dup", "copy", 0),
                (7, "near_dup", "copy", 5),
                (30, "exact_dup", "same", None),
            ],
        ),
        (
            "vault/blacklist",
            "blacklist",
            [
                ("zoë", 1, 3, "direct"),
                ("x1", 1, 1, "indirect"),
                ("zoë s", 2, 1, "indirect"),
                ("neverland9", 1, 1, "indirect"),
            ],
        ),
        ("ledger", "ledger", [("dp_mlm", "word", doc, doc + 1, 0.5) for doc in range(6)]),
    ):
        (run_folder / subfolder).mkdir(parents=True, exist_ok=True)
        names = table_schemas.ALL_TABLES[name].schema.names
        pq.write_table(
            pa.Table.from_pylist(
                [dict(zip(names, row, strict=True)) for row in rows],
                table_schemas.ALL_TABLES[name].schema,
            ),
            run_folder / subfolder / "0.parquet",
        )
    return folder / "out.private"


@pytest.fixture(scope="module")
def revealed(work: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with q.open_connection(
        work, reveal=True, memory_limit="500MB", documents=document_sources_or_note(work)
    ) as connection:
        yield connection


@pytest.fixture(scope="module")
def masked(work: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with q.open_connection(
        work, memory_limit="500MB", documents=document_sources_or_note(work)
    ) as connection:
        yield connection


def run_named_query(connection: duckdb.DuckDBPyConnection, name: str, **parameters: object) -> Rows:
    return [
        tuple(row.values())
        for row in q.run_query(connection, q.get_query(name), parameters).to_pylist()
    ]


def read_work_table(work: Path, subfolder: str) -> pl.DataFrame:
    """A table of WORK, read directly and not through the views."""
    files = sorted(work.glob(f"{subfolder}/**/*.parquet"))
    return pl.concat(
        [
            pl.DataFrame(pq.read_table(file, partitioning=None)).cast({pl.Categorical: pl.String})
            for file in files
        ]
    )


@pytest.fixture(scope="module")
def occurrence_rows(work: Path) -> list[dict[str, Any]]:
    """All occurrences with the user of their document and one spelling of their value."""
    users = make_corpus()["user_id"].to_pylist()
    spellings = dict(
        read_work_table(work, "vault/values")
        .group_by("value_id")
        .agg(pl.col("value").max())
        .iter_rows()
    )
    return [
        {**row, "user": users[row["doc_no"]], "value": spellings[row["value_id"]]}
        for row in read_work_table(work, "tables/occurrences").iter_rows(named=True)
    ]


def number_users(users: list[str | None]) -> dict[str, int]:
    return {
        user: number
        for number, user in enumerate(dict.fromkeys(user for user in users if user is not None))
    }


def rounded(value: float) -> float:
    return round(value, 4)


# ---- users ----


def test_users_are_numbered_by_their_first_documents(
    revealed: duckdb.DuckDBPyConnection, occurrence_rows: list[dict[str, Any]]
) -> None:
    users = make_corpus()["user_id"].to_pylist()
    number = number_users(users)
    assert run_named_query(revealed, "document_users") == [
        (doc_no, number[user]) for doc_no, user in enumerate(users) if user is not None
    ]
    pairs = {
        (row["value_id"], number[row["user"]]) for row in occurrence_rows if row["user"] is not None
    }
    assert run_named_query(revealed, "value_users") == sorted(pairs)


def test_top_counts_occurrences_documents_or_users(
    revealed: duckdb.DuckDBPyConnection, occurrence_rows: list[dict[str, Any]]
) -> None:
    statistics = defaultdict(lambda: {"occurrences": 0, "documents": set(), "users": set()})
    for row in occurrence_rows:
        entry = statistics[row["value_id"], row["kind"], row["value"]]
        entry["occurrences"] += 1
        entry["documents"].add(row["doc_no"])
        entry["users"] |= {row["user"]} - {None}
    counted_rows = [
        (*key, entry["occurrences"], len(entry["documents"]), len(entry["users"]))
        for key, entry in statistics.items()
    ]
    by_occurrences = sorted(counted_rows, key=lambda row: (-row[3], -row[4], row[0]))
    by_documents = sorted(counted_rows, key=lambda row: (-row[4], -row[3], row[0]))
    by_users = sorted(
        (row for row in counted_rows if row[5]), key=lambda row: (-row[5], -row[3], -row[4], row[0])
    )
    assert run_named_query(revealed, "top_values", limit=30) == [
        (n + 1, *row[1:5]) for n, row in enumerate(by_occurrences[:30])
    ]
    assert run_named_query(revealed, "top_values", limit=30, by="documents") == [
        (n + 1, *row[1:5]) for n, row in enumerate(by_documents[:30])
    ]
    assert by_occurrences[:30] != by_documents[:30] != by_users[:30]
    assert run_named_query(revealed, "top_values_by_users", limit=30) == [
        (n + 1, row[1], row[2], row[5], *row[3:5]) for n, row in enumerate(by_users[:30])
    ]
    phones = [row for row in by_users if row[1] == "PHONE_NUMBER"][:5]
    assert [
        row[2]
        for row in run_named_query(revealed, "top_values_by_users", kind="PHONE_NUMBER", limit=5)
    ] == [row[2] for row in phones]


def test_values_per_user(
    revealed: duckdb.DuckDBPyConnection, occurrence_rows: list[dict[str, Any]]
) -> None:
    users = make_corpus()["user_id"].to_pylist()
    number, document_counts = number_users(users), Counter(users)
    users_of_value = defaultdict(set)
    for row in occurrence_rows:
        if row["user"] is not None:
            users_of_value[row["value_id"]].add(row["user"])
    for kind in ("all", "EMAIL_ADDRESS"):
        values_of_user = defaultdict(list)
        for row in occurrence_rows:
            if row["user"] is not None and kind in ("all", row["kind"]):
                values_of_user[row["user"]].append(row["value_id"])
        expected = [
            (
                number[user],
                document_counts[user],
                len(values),
                len(set(values)),
                sum(len(users_of_value[value]) == 1 for value in set(values)),
            )
            for user, values in values_of_user.items()
        ]
        expected.sort(key=lambda row: (-row[3], -row[2], row[0]))
        assert run_named_query(revealed, "values_per_user", kind=kind) == expected[:20]


def test_without_users_user_counts_are_zero(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"text": ["ask ann.roe@example.org now", "ann.roe@example.org"]}),
        tmp_path / "in.parquet",
    )
    index_with_settings(
        [tmp_path / "in.parquet"], tmp_path / "work", Settings(seed=1, workers=1), plan="rmft"
    )
    with q.open_connection(
        tmp_path / "work", documents=document_sources_or_note(tmp_path / "work")
    ) as connection:
        assert (
            run_named_query(connection, "document_users")
            == run_named_query(connection, "value_users")
            == run_named_query(connection, "top_values_by_users")
            == []
        )
        # ask ann roe example org now
        assert run_named_query(connection, "words_by_users") == [(0, 6, 10, 1.0, 1.0)]


# ---- words ----


def split_words(text: str) -> list[str]:
    """The words of a text by the categories of its characters, each lowered by itself: the
    reference for the pattern."""
    letters = [letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in text]
    return [word.lower() for word in "".join(letters).split()]


def read_texts() -> list[list[str]]:
    """The texts of every document."""
    table = make_corpus()
    return [
        [
            text,
            *(part for remark in remarks or () for part in remark.values() if part),
            *(part for pair in labels or () for part in pair),
        ]
        for text, remarks, labels in zip(
            *(table[name].to_pylist() for name in ("text", "remarks", "labels")), strict=True
        )
    ]


@pytest.fixture(scope="module")
def ngrams() -> dict[int, dict[str, tuple[int, int]]]:
    """Every n-gram with its users and occurrences, by size."""
    users = make_corpus()["user_id"].to_pylist()
    ngrams_by_size: dict[int, dict[str, tuple[int, int]]] = {}
    for n in (1, 2, 3):
        occurrence_counts, users_of_value = Counter[str](), defaultdict(set)
        for user, document in zip(users, read_texts(), strict=True):
            for text in document:
                text_words = split_words(text)
                for ngram in map(
                    " ".join, zip(*(text_words[offset:] for offset in range(n)), strict=False)
                ):
                    occurrence_counts[ngram] += 1
                    users_of_value[ngram] |= {user} - {None}
        ngrams_by_size[n] = {
            ngram: (len(users_of_value[ngram]), count) for ngram, count in occurrence_counts.items()
        }
    return ngrams_by_size


def test_ngrams_come_from_every_text_cell(
    revealed: duckdb.DuckDBPyConnection, ngrams: dict[int, dict[str, tuple[int, int]]]
) -> None:
    for n in (1, 2, 3):
        ngram_rows = q.run_query(
            revealed, f"SELECT ngram, users, occurrences FROM ngrams WHERE n = {n}"
        ).to_pylist()
        assert {row["ngram"]: (row["users"], row["occurrences"]) for row in ngram_rows} == ngrams[n]
    assert {"zoë", "łódź", "lane", "desk2", "i\u0307zmi\u0307r", "οδος"} <= ngrams[1].keys()


def test_labels_are_shown_and_other_replacements_masked(tmp_path: Path) -> None:
    texts = ["Ask ann.roe@example.com or 555-0100 200", "Ann again: ann.roe@example.com"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        load_plan("redact", ["edit.0.label=numbered"]),
        settings=Settings(seed=1, workers=1),
    )
    with closing(q.open_connection(tmp_path / "out.private")) as connection:
        assert {row[0] for row in connection.execute("SELECT label FROM labels").fetchall()} == {
            "[EMAIL_ADDRESS-1]",
            "[PERSON-1]",
        }
        assert {
            row[0] for row in connection.execute("SELECT replacement FROM edits").fetchall()
        } == {"[EMAIL_ADDRESS-1]", "[PERSON-1]"}


@pytest.mark.parametrize("name", ["revealed", "masked"])
def test_counts_of_words_are_the_same_masked(
    name: str, ngrams: dict[int, dict[str, tuple[int, int]]], request: pytest.FixtureRequest
) -> None:
    connection = request.getfixturevalue(name)
    expected, words_so_far, times_so_far = [], 0, 0
    for users, group in itertools.groupby(sorted(ngrams[1].values()), key=lambda pair: pair[0]):
        occurrence_counts = [count for _, count in group]
        words_so_far, times_so_far = (
            words_so_far + len(occurrence_counts),
            times_so_far + sum(occurrence_counts),
        )
        all_times = sum(count for _, count in ngrams[1].values())
        expected.append(
            (
                users,
                len(occurrence_counts),
                sum(occurrence_counts),
                rounded(words_so_far / len(ngrams[1])),
                rounded(times_so_far / all_times),
            )
        )
    assert run_named_query(connection, "words_by_users", limit=1000) == expected
    by_size = []
    for n in (1, 2, 3):
        rare = [count for users, count in ngrams[n].values() if users < 3]
        total = sum(count for _, count in ngrams[n].values())
        by_size.append(
            (
                n,
                len(ngrams[n]),
                total,
                len(rare),
                rounded(len(rare) / len(ngrams[n])),
                rounded(sum(rare) / total),
            )
        )
    assert run_named_query(connection, "ngrams_by_n", n=3, k=3) == by_size
    assert run_named_query(connection, "ngrams_by_n", n=1, k=3) == by_size[:1]


@pytest.mark.parametrize("name", ["revealed", "masked"])
def test_blacklist_coverage(
    name: str, ngrams: dict[int, dict[str, tuple[int, int]]], request: pytest.FixtureRequest
) -> None:
    connection = request.getfixturevalue(name)

    def row(n: int, reason: str, ngram: str) -> tuple[Any, ...]:
        occurrence_count, total = ngrams[n][ngram][1], sum(count for _, count in ngrams[n].values())
        return (
            n,
            reason,
            1,
            occurrence_count,
            rounded(1 / len(ngrams[n])),
            rounded(occurrence_count / total),
        )

    # neverland9 does not occur
    expected = [row(1, "direct", "zoë"), row(1, "indirect", "x1"), row(2, "indirect", "zoë s")]
    assert run_named_query(connection, "blacklist_coverage", n=2) == expected
    assert run_named_query(connection, "blacklist_coverage") == expected[:2]


# ---- values over the corpus ----


def test_single_occurrence_values(
    revealed: duckdb.DuckDBPyConnection, occurrence_rows: list[dict[str, Any]]
) -> None:
    occurrence_counts: dict[str, Counter[int]] = defaultdict(Counter)
    for row in occurrence_rows:
        occurrence_counts[row["kind"]][row["value_id"]] += 1
    expected = []
    for kind, counts in occurrence_counts.items():
        single_count = sum(count == 1 for count in counts.values())
        expected.append(
            (
                kind,
                len(counts),
                single_count,
                rounded(single_count / len(counts)),
                rounded(single_count / counts.total()),
            )
        )
    assert run_named_query(revealed, "single_occurrence_values") == sorted(
        expected, key=lambda row: (-row[2], row[0])
    )


@pytest.mark.parametrize("steps", [0, 1, 7, 10, 1000])
def test_value_growth(
    steps: int, revealed: duckdb.DuckDBPyConnection, occurrence_rows: list[dict[str, Any]]
) -> None:
    size, ranges = max(row["doc_no"] for row in occurrence_rows) + 1, max(steps, 1)
    expected: Rows = []
    for kind in sorted({row["kind"] for row in occurrence_rows}):
        rows_of_kind = [row for row in occurrence_rows if row["kind"] == kind]
        known_values: set[int] = set()
        for step, group in itertools.groupby(
            sorted(rows_of_kind, key=lambda row: row["doc_no"]),
            key=lambda row: row["doc_no"] * ranges // size,
        ):
            values = [row["value_id"] for row in group]
            new = set(values) - known_values
            known_values |= new
            last = -(-(step + 1) * size // ranges)
            expected.append(
                (
                    kind,
                    last,
                    (expected[-1][2] if expected and expected[-1][0] == kind else 0) + len(values),
                    len(known_values),
                    rounded(len(new) / len(values)),
                )
            )
    assert run_named_query(revealed, "value_growth", steps=steps) == expected


def test_co_occurring_values(
    revealed: duckdb.DuckDBPyConnection, occurrence_rows: list[dict[str, Any]]
) -> None:
    documents_of_value = defaultdict(set)
    kinds, spellings = {}, {}
    for row in occurrence_rows:
        documents_of_value[row["value_id"]].add(row["doc_no"])
        kinds[row["value_id"]], spellings[row["value_id"]] = row["kind"], row["value"]
    occurrence_counts = Counter(row["value_id"] for row in occurrence_rows)
    for kind, candidates in (("all", 60), ("EMAIL_ADDRESS", 25)):
        candidate_values = [
            value
            for value in documents_of_value
            if len(documents_of_value[value]) > 1 and kind in ("all", kinds[value])
        ]
        chosen = sorted(
            candidate_values,
            key=lambda value: (-len(documents_of_value[value]), -occurrence_counts[value], value),
        )[:candidates]
        pairs = []
        for first, second in itertools.combinations(sorted(chosen), 2):
            if (shared_count := len(documents_of_value[first] & documents_of_value[second])) > 1:
                pairs.append(
                    (
                        -shared_count,
                        -shared_count
                        / min(len(documents_of_value[first]), len(documents_of_value[second])),
                        first,
                        second,
                    )
                )
        expected = [
            (kinds[a], spellings[a], kinds[b], spellings[b], -shared_count, rounded(-share))
            for shared_count, share, a, b in sorted(pairs)[:20]
        ]
        assert len(expected) > 5
        assert (
            run_named_query(revealed, "co_occurring_values", kind=kind, candidates=candidates)
            == expected
        )


# ---- results of a run ----


def test_counts_by_part_match_edits_and_drops(
    work: Path, revealed: duckdb.DuckDBPyConnection
) -> None:
    (run_folder,) = (work / "runs").iterdir()
    all_occurrences, edits, drops = (
        read_work_table(work, "tables/occurrences"),
        read_work_table(run_folder, "edits"),
        read_work_table(run_folder, "drops"),
    )
    order = [("drop", "near_dup"), ("drop", "exact_dup"), ("edit", "rmft"), ("edit", "redact")]
    documents, remaining, expected = DOCUMENT_COUNT, list(all_occurrences.iter_rows(named=True)), []
    for number, (stage, part) in enumerate(order):
        if stage == "drop":
            dropped_documents = set(drops.filter(pl.col("part") == part)["doc_no"])
            remaining_after = [row for row in remaining if row["doc_no"] not in dropped_documents]
        else:
            dropped_documents, spans = set(), defaultdict(list)
            for edit in edits.filter(pl.col("part") == part).iter_rows(named=True):
                spans[edit["doc_no"], edit["cell"]].append((edit["start_byte"], edit["end_byte"]))
            remaining_after = [
                row
                for row in remaining
                if not any(
                    start < row["end_byte"] and stop > row["start_byte"]
                    for start, stop in spans[row["doc_no"], row["cell"]]
                )
            ]
        expected.append(
            (
                number,
                stage,
                part,
                documents,
                documents - len(dropped_documents),
                len(remaining),
                len(remaining_after),
            )
        )
        documents, remaining = documents - len(dropped_documents), remaining_after
    assert run_named_query(revealed, "counts_by_part") == expected
    assert [row[5] > row[6] for row in expected] == [True] * 4
    assert run_named_query(revealed, "duplicate_groups") == [
        ("near_dup", "copy", 0, 2, 2, 9),
        ("near_dup", "copy", 5, 1, 7, 7),
    ]
    assert run_named_query(revealed, "duplicate_groups", limit=1) == [
        ("near_dup", "copy", 0, 2, 2, 9)
    ]
    assert run_named_query(revealed, "ledger_summary") == [
        ("dp_mlm", "word", 6, 21, 0.5, 1.75, 3.0)
    ]


def test_a_run_can_be_named_by_hash_prefix_or_plan(tmp_path: Path) -> None:
    for age, (name, plan) in enumerate(
        (("ab12", "rmft"), ("ab34", "surrogates"), ("cd56", "rmft"))
    ):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps({"name": plan, "edit": [{"use": name}]}))
        os.utime(folder / "plan.json", (age, age))
    for run_name, part in (
        (None, "cd56"),
        ("ab12", "ab12"),
        ("ab3", "ab34"),
        ("rmft", "cd56"),
        ("surrogates", "ab34"),
    ):
        with q.open_connection(tmp_path, run=run_name) as connection:
            assert q.run_query(connection, "SELECT * FROM parts").to_pylist() == [
                {"part_no": 0, "stage": "edit", "part": part}
            ]
    with pytest.raises(
        q.UsageError, match="2 runs begin with ab; give more of the hash: ab12, ab34"
    ):
        q.open_connection(tmp_path, run="ab")
    with pytest.raises(q.UsageError, match="there is no run 'surogates'.*did you mean surrogates"):
        q.open_connection(tmp_path, run="surogates")


# ---- masks ----


SECRET = re.compile(r"c?anary|555[-.) ]*01", re.IGNORECASE)


@pytest.fixture(scope="module")
def canary_work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WORK in which every text of the corpus is a canary: values, users, ids, words, labels,
    replacements."""
    folder = tmp_path_factory.mktemp("birds")
    lines = [
        f"Canary{n % 4} wrote canary{n % 2}@canaryhost{n % 2}.example.com, call"
        f" 212-555-01{n % 3:02d} or canarytail"
        for n in range(12)
    ]
    table = {
        "text": lines,
        "doc_id": [f"canary-{n}" for n in range(12)],
        "user_id": [f"canary{n % 5}@example.com" for n in range(12)],
        "remarks": pa.array([[{"said": f"canary {n}"}] for n in range(12)]),
    }
    pq.write_table(pa.table(table), folder / "in.parquet")
    plan = load_plan("redact", ['edit.0.label="numbered"'])
    run_with_settings(
        [folder / "in.parquet"], folder / "out", plan, settings=Settings(seed=1, workers=1)
    )
    (run_folder,) = (folder / "out.private" / "runs").iterdir()
    (run_folder / "drops").mkdir(exist_ok=True)
    (run_folder / "vault" / "blacklist").mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist(
            [{"doc_no": 3, "part": "p", "reason": "r", "kept_doc_no": 1}],
            table_schemas.DROPS.schema,
        ),
        run_folder / "drops/0.parquet",
    )
    blacklist_rows = [{"ngram": "canarytail", "n": 1, "users": 5, "reason": "direct"}]
    pq.write_table(
        pa.Table.from_pylist(blacklist_rows, table_schemas.BLACKLIST.schema),
        run_folder / "vault/blacklist/0.parquet",
    )
    return folder / "out.private"


@pytest.mark.slow
def test_no_query_and_no_masked_table_shows_a_canary(canary_work: Path) -> None:
    with (
        q.open_connection(canary_work, documents=document_sources_or_note(canary_work)) as masked,
        q.open_connection(
            canary_work, reveal=True, documents=document_sources_or_note(canary_work)
        ) as revealed,
    ):
        names = [row["name"] for row in q.run_query(masked, "SHOW TABLES").to_pylist()]
        assert {*table_schemas.ALL_TABLES, "documents"} <= set(names)
        revealing_statements = set()
        for statement in [
            *(query for query in q.load_queries().values() if query.is_user_query),
            *(f'SELECT * FROM "{name}"' for name in names),
        ]:
            assert not SECRET.search(str(q.run_query(masked, statement).to_pylist())), statement
            if SECRET.search(str(q.run_query(revealed, statement).to_pylist())):
                revealing_statements.add(
                    statement.name if isinstance(statement, q.Query) else statement.split('"')[1]
                )
        # the unmasked connection shows the canaries
        assert {
            "top_values",
            "top_values_by_users",
            "addresses_by_domain",
            "first_and_last_documents",
            "co_occurring_values",
        } <= revealing_statements
        assert {"documents", "value_spellings", "ngrams", "blacklist"} <= revealing_statements
        assert run_named_query(masked, "blacklist_coverage")[0][1:4] == ("direct", 1, 12)


# ---- other databases, limits, interrupts ----


def test_views_sql_creates_a_database_for_other_tools(
    work: Path, tmp_path: Path, revealed: duckdb.DuckDBPyConnection
) -> None:
    """As in docs/how_to/explore.md: the views are written to a file that dbt or a notebook
    attaches."""
    with duckdb.connect(str(tmp_path / "look.duckdb")) as database:
        database.execute(q.create_views_sql(work, documents=document_sources_or_note(work)))
    with duckdb.connect() as consumer:
        consumer.execute(f"ATTACH '{tmp_path / 'look.duckdb'}' AS look (READ_ONLY)")
        for name in table_schemas.ALL_TABLES:
            assert (
                consumer.execute(f'SELECT count(*) FROM look.main."{name}"').fetchone()
                == revealed.execute(f'SELECT count(*) FROM "{name}"').fetchone()
            )
        consumer.execute(
            "CREATE SCHEMA marts; CREATE VIEW marts.kinds AS SELECT kind, count(*) AS n FROM"
            " look.main.value_counts GROUP BY kind"
        )
        assert consumer.execute("SELECT count(*) > 3 FROM marts.kinds").fetchone() == (True,)
    with duckdb.connect(str(tmp_path / "look.duckdb"), read_only=True) as reopened:
        for query in q.load_queries().values():
            if query.is_user_query:
                assert reopened.execute(query.sql, query.bind() or None).description


def test_invalid_utf8_is_reported_without_text(tmp_path: Path) -> None:
    broken = pa.array([b"ask ann.roe@example.org", b"canary \xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": broken}), tmp_path / "in.parquet")
    index_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "work",
        Settings(seed=1, workers=1, max_quarantine=1.0),
        plan="rmft",
    )
    with q.open_connection(
        tmp_path / "work", documents=document_sources_or_note(tmp_path / "work")
    ) as connection:
        assert len(run_named_query(connection, "top_values")) == 1
        with pytest.raises(q.InputRefused, match="not valid UTF-8.*quarantine") as refused:
            run_named_query(connection, "words_by_users")
        assert "canary" not in str(refused.value)


def test_columns_whose_names_sql_does_not_distinguish(tmp_path: Path) -> None:
    rows = [
        {
            "text": f"one {number}",
            "Text": f"two {number}",
            "": "three",
            "TEXT": "four",
            "m": {"k": "five", "K": [{"": "six", "x": f"seven {number}"}], "": "eight"},
        }
        for number in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    sanitize.run(
        tmp_path / "in.parquet", tmp_path / "out", sanitize=["Text"], seed=1, workers=1, plan="rmft"
    )
    found = sanitize.sql(
        tmp_path / "out.private", "SELECT * FROM documents ORDER BY doc_no", reveal=True
    )
    assert found.select("text", "TEXT_1", "Text_2", "column").rows() == [
        (f"one {n}", "four", f"two {n}", "three") for n in range(3)
    ]
    words = sanitize.sql(
        tmp_path / "out.private", "SELECT ngram FROM ngrams WHERE n = 1", reveal=True
    )["ngram"]
    assert {"one", "two", "five", "six", "seven", "eight"} <= set(words)
    masked = sanitize.sql(tmp_path / "out.private", "SELECT m FROM documents LIMIT 1")
    assert masked["m"].to_list() == [
        {"k": "aaaa", "K_1": [{"column": "aaa", "x": "aaaa 9"}], "column": "aaaa"}
    ]
    sanitize.top(tmp_path / "out.private")
    for query in q.load_queries().values():
        if query.is_user_query:
            examples = {one.name: one.example for one in query.parameters if one.default is None}
            sanitize.sql(tmp_path / "out.private", name=query.name, **examples)


def test_max_rows_limits_the_fetched_rows(revealed: duckdb.DuckDBPyConnection) -> None:
    first_rows = q.run_query(revealed, "SELECT range AS n FROM range(3000000000)", max_rows=3)
    assert first_rows.column("n").to_pylist() == [0, 1, 2]
    assert q.run_query(revealed, "SELECT range AS n FROM range(5)", max_rows=1000).num_rows == 5
    assert q.run_query(revealed, "SELECT 1 AS n WHERE false", max_rows=3).num_rows == 0


def test_ctrl_c_stops_a_query(revealed: duckdb.DuckDBPyConnection) -> None:
    # in the background of a script it is ignored
    original_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    stop = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    stop.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            q.run_query(
                revealed,
                "SELECT sum(a.range * b.range) FROM range(100000000) AS a, range(100000) AS b",
                max_rows=1,
            )
        stop.join()
    finally:
        signal.signal(signal.SIGINT, original_handler)
    assert q.run_query(revealed, "SELECT 42 AS n").to_pylist() == [{"n": 42}]
