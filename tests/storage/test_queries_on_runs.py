"""User queries on the tables of a real run: every result is computed again from the same tables and texts in another way.

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

from sanitize.cli.demo import generate_mails
from sanitize.cli.options import document_sources_or_note
from sanitize.pipeline.run import find, run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage import queries as q
from sanitize.storage import table_schemas

Rows = list[tuple[Any, ...]]
COUNT, SHARDS = 120, 50  # documents, and how many a task has


def corpus() -> pa.Table:
    """Generated mails, some without a user; with remarks in a list of objects, labels in a map, and words of other scripts."""
    made = generate_mails(COUNT, 11)
    users = [None if n % 17 == 0 else user for n, user in enumerate(made["user_id"].to_pylist())]
    remarks = [
        [{"by": f"desk{n % 3}", "said": f"Seen, ZOË's naïve Łódź, İZMİR ΟΔΟΣ Σ1ΑΣ2 x{n % 7}"}, {"by": None, "said": None}]
        if n % 2
        else None
        for n in range(COUNT)
    ]
    kind = pa.list_(pa.struct([("by", pa.string()), ("said", pa.string())]))
    labels = [[("lane", f"north {n % 5}")] if n % 3 else None for n in range(COUNT)]
    return (
        made.set_column(made.schema.get_field_index("user_id"), "user_id", pa.array(users, pa.string()))
        .append_column("remarks", pa.array(remarks, kind))
        .append_column("labels", pa.array(labels, pa.map_(pa.string(), pa.string())))
    )


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WORK after a run of `rmft`, and hand-written tables of a second run: drops, a blacklist, a ledger."""
    folder = tmp_path_factory.mktemp("look")
    pq.write_table(corpus(), folder / "in.parquet")
    run([folder / "in.parquet"], folder / "out", settings=Settings(seed=1, workers=1, rows_per_shard=SHARDS))
    (ran,) = (folder / "out.private" / "runs").iterdir()
    plan = json.loads((ran / "plan.json").read_text())
    (ran / "plan.json").write_text(json.dumps({**plan, "drop": [{"use": "near_dup"}, {"use": "exact_dup"}]}))
    for place, name, rows in (
        (
            "drops",
            "drops",
            [(2, "near_dup", "copy", 0), (9, "near_dup", "copy", 0), (7, "near_dup", "copy", 5), (30, "exact_dup", "same", None)],
        ),
        (
            "vault/blacklist",
            "blacklist",
            [("zoë", 1, 3, "direct"), ("x1", 1, 1, "indirect"), ("zoë s", 2, 1, "indirect"), ("neverland9", 1, 1, "indirect")],
        ),
        ("ledger", "ledger", [("dp_mlm", "word", doc, doc + 1, 0.5) for doc in range(6)]),
    ):
        (ran / place).mkdir(parents=True, exist_ok=True)
        names = table_schemas.ALL_TABLES[name].schema.names
        pq.write_table(
            pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], table_schemas.ALL_TABLES[name].schema),
            ran / place / "0.parquet",
        )
    return folder / "out.private"


@pytest.fixture(scope="module")
def shown(work: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with q.open_connection(work, reveal=True, memory_limit="500MB", documents=document_sources_or_note(work)) as connection:
        yield connection


@pytest.fixture(scope="module")
def masked(work: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with q.open_connection(work, memory_limit="500MB", documents=document_sources_or_note(work)) as connection:
        yield connection


def ask(connection: duckdb.DuckDBPyConnection, name: str, **given: object) -> Rows:
    return [tuple(row.values()) for row in q.run_query(connection, q.get_query(name), given).to_pylist()]


def raw(work: Path, place: str) -> pl.DataFrame:
    """A table of WORK, read directly and not through the views."""
    files = sorted(work.glob(f"{place}/**/*.parquet"))
    return pl.concat([pl.DataFrame(pq.read_table(file, partitioning=None)).cast({pl.Categorical: pl.String}) for file in files])


@pytest.fixture(scope="module")
def places(work: Path) -> list[dict[str, Any]]:
    """All occurrences with the user of their document and one spelling of their value."""
    users = corpus()["user_id"].to_pylist()
    spelled = dict(raw(work, "vault/values").group_by("value_id").agg(pl.col("value").max()).iter_rows())
    return [
        {**row, "user": users[row["doc_no"]], "value": spelled[row["value_id"]]}
        for row in raw(work, "tables/occurrences").iter_rows(named=True)
    ]


def numbers(users: list[str | None]) -> dict[str, int]:
    return {user: number for number, user in enumerate(dict.fromkeys(user for user in users if user is not None))}


def rounded(value: float) -> float:
    return round(value, 4)


# ---- users ----


def test_users_are_numbered_by_their_first_documents(shown: duckdb.DuckDBPyConnection, places: list[dict[str, Any]]) -> None:
    users = corpus()["user_id"].to_pylist()
    number = numbers(users)
    assert ask(shown, "document_users") == [(doc_no, number[user]) for doc_no, user in enumerate(users) if user is not None]
    pairs = {(row["value_id"], number[row["user"]]) for row in places if row["user"] is not None}
    assert ask(shown, "value_users") == sorted(pairs)


def test_top_counts_occurrences_documents_or_users(shown: duckdb.DuckDBPyConnection, places: list[dict[str, Any]]) -> None:
    facts = defaultdict(lambda: {"occurrences": 0, "documents": set(), "users": set()})
    for row in places:
        fact = facts[row["value_id"], row["kind"], row["value"]]
        fact["occurrences"] += 1
        fact["documents"].add(row["doc_no"])
        fact["users"] |= {row["user"]} - {None}
    counted = [(*key, fact["occurrences"], len(fact["documents"]), len(fact["users"])) for key, fact in facts.items()]
    by_occurrences = sorted(counted, key=lambda row: (-row[3], -row[4], row[0]))
    by_documents = sorted(counted, key=lambda row: (-row[4], -row[3], row[0]))
    by_users = sorted((row for row in counted if row[5]), key=lambda row: (-row[5], -row[3], -row[4], row[0]))
    assert ask(shown, "top_values", limit=30) == [(n + 1, *row[1:5]) for n, row in enumerate(by_occurrences[:30])]
    assert ask(shown, "top_values", limit=30, by="documents") == [(n + 1, *row[1:5]) for n, row in enumerate(by_documents[:30])]
    assert by_occurrences[:30] != by_documents[:30] != by_users[:30]
    assert ask(shown, "top_values_by_users", limit=30) == [
        (n + 1, row[1], row[2], row[5], *row[3:5]) for n, row in enumerate(by_users[:30])
    ]
    phones = [row for row in by_users if row[1] == "PHONE_NUMBER"][:5]
    assert [row[2] for row in ask(shown, "top_values_by_users", kind="PHONE_NUMBER", limit=5)] == [row[2] for row in phones]


def test_values_per_user(shown: duckdb.DuckDBPyConnection, places: list[dict[str, Any]]) -> None:
    users = corpus()["user_id"].to_pylist()
    number, written = numbers(users), Counter(users)
    holders = defaultdict(set)
    for row in places:
        if row["user"] is not None:
            holders[row["value_id"]].add(row["user"])
    for kind in ("all", "EMAIL_ADDRESS"):
        mine = defaultdict(list)
        for row in places:
            if row["user"] is not None and kind in ("all", row["kind"]):
                mine[row["user"]].append(row["value_id"])
        expected = [
            (number[user], written[user], len(values), len(set(values)), sum(len(holders[value]) == 1 for value in set(values)))
            for user, values in mine.items()
        ]
        expected.sort(key=lambda row: (-row[3], -row[2], row[0]))
        assert ask(shown, "values_per_user", kind=kind) == expected[:20]


def test_without_users_nobody_is_counted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["ask ann.roe@example.org now", "ann.roe@example.org"]}), tmp_path / "in.parquet")
    find([tmp_path / "in.parquet"], tmp_path / "work", Settings(seed=1, workers=1))
    with q.open_connection(tmp_path / "work", documents=document_sources_or_note(tmp_path / "work")) as connection:
        assert ask(connection, "document_users") == ask(connection, "value_users") == ask(connection, "top_values_by_users") == []
        assert ask(connection, "words_by_users") == [(0, 6, 10, 1.0, 1.0)]  # ask ann roe example org now


# ---- words ----


def words(text: str) -> list[str]:
    """The words of a text by the categories of its characters, each lowered by itself: the reference for the pattern."""
    letters = [letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in text]
    return [word.lower() for word in "".join(letters).split()]


def texts() -> list[list[str]]:
    """The texts of every document."""
    table = corpus()
    return [
        [text, *(part for remark in remarks or () for part in remark.values() if part), *(part for pair in labels or () for part in pair)]
        for text, remarks, labels in zip(*(table[name].to_pylist() for name in ("text", "remarks", "labels")), strict=True)
    ]


@pytest.fixture(scope="module")
def grams() -> dict[int, dict[str, tuple[int, int]]]:
    """Every n-gram with its users and occurrences, by size."""
    users = corpus()["user_id"].to_pylist()
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for n in (1, 2, 3):
        times, holders = Counter[str](), defaultdict(set)
        for user, document in zip(users, texts(), strict=True):
            for text in document:
                spoken = words(text)
                for gram in map(" ".join, zip(*(spoken[place:] for place in range(n)), strict=False)):
                    times[gram] += 1
                    holders[gram] |= {user} - {None}
        found[n] = {gram: (len(holders[gram]), count) for gram, count in times.items()}
    return found


def test_ngrams_are_those_of_every_text(shown: duckdb.DuckDBPyConnection, grams: dict[int, dict[str, tuple[int, int]]]) -> None:
    for n in (1, 2, 3):
        seen = q.run_query(shown, f"SELECT ngram, users, occurrences FROM ngrams WHERE n = {n}").to_pylist()
        assert {row["ngram"]: (row["users"], row["occurrences"]) for row in seen} == grams[n]
    assert {"zoë", "łódź", "lane", "desk2", "i\u0307zmi\u0307r", "οδος"} <= grams[1].keys()


def test_labels_are_shown_and_other_replacements_masked(tmp_path: Path) -> None:
    texts = ["Ask ann.roe@example.com or 555-0100 200", "Ann again: ann.roe@example.com"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    run([tmp_path / "in.parquet"], tmp_path / "out", load_plan("redact", ["edit.0.label=numbered"]), settings=Settings(seed=1, workers=1))
    with closing(q.open_connection(tmp_path / "out.private")) as connection:
        assert {row[0] for row in connection.execute("SELECT label FROM labels").fetchall()} == {"[EMAIL_ADDRESS-1]"}
        assert {row[0] for row in connection.execute("SELECT replacement FROM edits").fetchall()} == {"[EMAIL_ADDRESS-1]"}


@pytest.mark.parametrize("name", ["shown", "masked"])
def test_counts_of_words_are_the_same_masked(
    name: str, grams: dict[int, dict[str, tuple[int, int]]], request: pytest.FixtureRequest
) -> None:
    connection = request.getfixturevalue(name)
    expected, words_so_far, times_so_far = [], 0, 0
    for users, alike in itertools.groupby(sorted(grams[1].values()), key=lambda one: one[0]):
        times = [count for _, count in alike]
        words_so_far, times_so_far = words_so_far + len(times), times_so_far + sum(times)
        all_times = sum(count for _, count in grams[1].values())
        expected.append((users, len(times), sum(times), rounded(words_so_far / len(grams[1])), rounded(times_so_far / all_times)))
    assert ask(connection, "words_by_users", limit=1000) == expected
    by_size = []
    for n in (1, 2, 3):
        rare = [count for users, count in grams[n].values() if users < 3]
        everything = sum(count for _, count in grams[n].values())
        by_size.append((n, len(grams[n]), everything, len(rare), rounded(len(rare) / len(grams[n])), rounded(sum(rare) / everything)))
    assert ask(connection, "ngrams_by_n", n=3, k=3) == by_size
    assert ask(connection, "ngrams_by_n", n=1, k=3) == by_size[:1]


@pytest.mark.parametrize("name", ["shown", "masked"])
def test_blacklist_coverage(name: str, grams: dict[int, dict[str, tuple[int, int]]], request: pytest.FixtureRequest) -> None:
    connection = request.getfixturevalue(name)

    def row(n: int, reason: str, gram: str) -> tuple[Any, ...]:
        times, everything = grams[n][gram][1], sum(count for _, count in grams[n].values())
        return (n, reason, 1, times, rounded(1 / len(grams[n])), rounded(times / everything))

    expected = [row(1, "direct", "zoë"), row(1, "indirect", "x1"), row(2, "indirect", "zoë s")]  # neverland9 stands nowhere
    assert ask(connection, "blacklist_coverage", n=2) == expected
    assert ask(connection, "blacklist_coverage") == expected[:2]


# ---- values over the corpus ----


def test_single_occurrence_values(shown: duckdb.DuckDBPyConnection, places: list[dict[str, Any]]) -> None:
    times: dict[str, Counter[int]] = defaultdict(Counter)
    for row in places:
        times[row["kind"]][row["value_id"]] += 1
    expected = []
    for kind, counts in times.items():
        once = sum(count == 1 for count in counts.values())
        expected.append((kind, len(counts), once, rounded(once / len(counts)), rounded(once / counts.total())))
    assert ask(shown, "single_occurrence_values") == sorted(expected, key=lambda row: (-row[2], row[0]))


@pytest.mark.parametrize("steps", [0, 1, 7, 10, 1000])
def test_value_growth(steps: int, shown: duckdb.DuckDBPyConnection, places: list[dict[str, Any]]) -> None:
    size, ranges = max(row["doc_no"] for row in places) + 1, max(steps, 1)
    expected: Rows = []
    for kind in sorted({row["kind"] for row in places}):
        here = [row for row in places if row["kind"] == kind]
        done: set[int] = set()
        for step, group in itertools.groupby(sorted(here, key=lambda row: row["doc_no"]), key=lambda row: row["doc_no"] * ranges // size):
            values = [row["value_id"] for row in group]
            new = set(values) - done
            done |= new
            last = -(-(step + 1) * size // ranges)
            expected.append(
                (
                    kind,
                    last,
                    (expected[-1][2] if expected and expected[-1][0] == kind else 0) + len(values),
                    len(done),
                    rounded(len(new) / len(values)),
                )
            )
    assert ask(shown, "value_growth", steps=steps) == expected


def test_co_occurring_values(shown: duckdb.DuckDBPyConnection, places: list[dict[str, Any]]) -> None:
    held = defaultdict(set)
    kinds, spelled = {}, {}
    for row in places:
        held[row["value_id"]].add(row["doc_no"])
        kinds[row["value_id"]], spelled[row["value_id"]] = row["kind"], row["value"]
    times = Counter(row["value_id"] for row in places)
    for kind, candidates in (("all", 60), ("EMAIL_ADDRESS", 25)):
        able = [value for value in held if len(held[value]) > 1 and kind in ("all", kinds[value])]
        chosen = sorted(able, key=lambda value: (-len(held[value]), -times[value], value))[:candidates]
        pairs = []
        for one, other in itertools.combinations(sorted(chosen), 2):
            if (both := len(held[one] & held[other])) > 1:
                pairs.append((-both, -both / min(len(held[one]), len(held[other])), one, other))
        expected = [(kinds[a], spelled[a], kinds[b], spelled[b], -both, rounded(-share)) for both, share, a, b in sorted(pairs)[:20]]
        assert len(expected) > 5
        assert ask(shown, "co_occurring_values", kind=kind, candidates=candidates) == expected


# ---- what a run did ----


def test_parts_and_what_each_took(work: Path, shown: duckdb.DuckDBPyConnection) -> None:
    (ran,) = (work / "runs").iterdir()
    found, edits, drops = raw(work, "tables/occurrences"), raw(ran, "edits"), raw(ran, "drops")
    order = [("drop", "near_dup"), ("drop", "exact_dup"), ("edit", "rmft"), ("edit", "redact")]
    documents, left, expected = COUNT, list(found.iter_rows(named=True)), []
    for number, (room, part) in enumerate(order):
        if room == "drop":
            gone = set(drops.filter(pl.col("part") == part)["doc_no"])
            after = [row for row in left if row["doc_no"] not in gone]
        else:
            gone, spans = set(), defaultdict(list)
            for edit in edits.filter(pl.col("part") == part).iter_rows(named=True):
                spans[edit["doc_no"], edit["cell"]].append((edit["start_byte"], edit["end_byte"]))
            after = [
                row
                for row in left
                if not any(start < row["end_byte"] and stop > row["start_byte"] for start, stop in spans[row["doc_no"], row["cell"]])
            ]
        expected.append((number, room, part, documents, documents - len(gone), len(left), len(after)))
        documents, left = documents - len(gone), after
    assert ask(shown, "counts_by_part") == expected
    assert [row[5] > row[6] for row in expected] == [True] * 4
    assert ask(shown, "duplicate_groups") == [("near_dup", "copy", 0, 2, 2, 9), ("near_dup", "copy", 5, 1, 7, 7)]
    assert ask(shown, "duplicate_groups", limit=1) == [("near_dup", "copy", 0, 2, 2, 9)]
    assert ask(shown, "ledger_summary") == [("dp_mlm", "word", 6, 21, 0.5, 1.75, 3.0)]


def test_a_run_is_named_by_hash_beginning_or_plan(tmp_path: Path) -> None:
    for age, (name, plan) in enumerate((("ab12", "rmft"), ("ab34", "erase"), ("cd56", "rmft"))):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps({"name": plan, "edit": [{"use": name}]}))
        os.utime(folder / "plan.json", (age, age))
    for asked, part in ((None, "cd56"), ("ab12", "ab12"), ("ab3", "ab34"), ("rmft", "cd56"), ("erase", "ab34")):
        with q.open_connection(tmp_path, run=asked) as connection:
            assert q.run_query(connection, "SELECT * FROM parts").to_pylist() == [{"part_no": 0, "stage": "edit", "part": part}]
    with pytest.raises(q.UsageError, match="2 runs begin with ab; give more of the hash: ab12, ab34"):
        q.open_connection(tmp_path, run="ab")
    with pytest.raises(q.UsageError, match="there is no run 'eraze'.*Did you mean erase"):
        q.open_connection(tmp_path, run="eraze")


# ---- masks ----


SECRET = re.compile(r"c?anary|555[-.) ]*01", re.IGNORECASE)


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WORK in which every text of the corpus is a canary: values, users, ids, words, labels, replacements."""
    folder = tmp_path_factory.mktemp("birds")
    lines = [
        f"Canary{n % 4} wrote canary{n % 2}@canaryhost{n % 2}.example.com, call 212-555-01{n % 3:02d} or canarytail" for n in range(12)
    ]
    table = {
        "text": lines,
        "doc_id": [f"canary-{n}" for n in range(12)],
        "user_id": [f"canary{n % 5}@example.com" for n in range(12)],
        "remarks": pa.array([[{"said": f"canary {n}"}] for n in range(12)]),
    }
    pq.write_table(pa.table(table), folder / "in.parquet")
    plan = load_plan("redact", ['edit.0.label="numbered"'])
    run([folder / "in.parquet"], folder / "out", plan, settings=Settings(seed=1, workers=1))
    (ran,) = (folder / "out.private" / "runs").iterdir()
    (ran / "drops").mkdir(exist_ok=True)
    (ran / "vault" / "blacklist").mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist([{"doc_no": 3, "part": "p", "reason": "r", "kept_doc_no": 1}], table_schemas.DROPS.schema),
        ran / "drops/0.parquet",
    )
    listed = [{"ngram": "canarytail", "n": 1, "users": 5, "reason": "direct"}]
    pq.write_table(pa.Table.from_pylist(listed, table_schemas.BLACKLIST.schema), ran / "vault/blacklist/0.parquet")
    return folder / "out.private"


def test_no_named_query_and_no_table_shows_a_canary(birds: Path) -> None:
    with (
        q.open_connection(birds, documents=document_sources_or_note(birds)) as masked,
        q.open_connection(birds, reveal=True, documents=document_sources_or_note(birds)) as shown,
    ):
        names = [row["name"] for row in q.run_query(masked, "SHOW TABLES").to_pylist()]
        assert {*table_schemas.ALL_TABLES, "documents"} <= set(names)
        raw_ones = set()
        for statement in [*(one for one in q.load_queries().values() if one.is_user_query), *(f'SELECT * FROM "{name}"' for name in names)]:
            assert not SECRET.search(str(q.run_query(masked, statement).to_pylist())), statement
            if SECRET.search(str(q.run_query(shown, statement).to_pylist())):
                raw_ones.add(statement.name if isinstance(statement, q.Query) else statement.split('"')[1])
        # the canaries were there to be seen
        assert {"top_values", "top_values_by_users", "addresses_by_domain", "first_and_last_documents", "co_occurring_values"} <= raw_ones
        assert {"documents", "value_spellings", "ngrams", "blacklist"} <= raw_ones
        assert ask(masked, "blacklist_coverage")[0][1:4] == ("direct", 1, 12)


# ---- elsewhere ----


def test_init_makes_a_database_that_others_can_read(work: Path, tmp_path: Path, shown: duckdb.DuckDBPyConnection) -> None:
    """As in docs/sql.md: the views are written to a file, which dbt or a notebook attaches."""
    with duckdb.connect(str(tmp_path / "look.duckdb")) as made:
        made.execute(q.create_views_sql(work, documents=document_sources_or_note(work)))
    with duckdb.connect() as other:
        other.execute(f"ATTACH '{tmp_path / 'look.duckdb'}' AS look (READ_ONLY)")
        for name in table_schemas.ALL_TABLES:
            assert (
                other.execute(f'SELECT count(*) FROM look.main."{name}"').fetchone()
                == shown.execute(f'SELECT count(*) FROM "{name}"').fetchone()
            )
        other.execute(
            "CREATE SCHEMA marts; CREATE VIEW marts.kinds AS SELECT kind, count(*) AS n FROM look.main.value_counts GROUP BY kind"
        )
        assert other.execute("SELECT count(*) > 3 FROM marts.kinds").fetchone() == (True,)
    with duckdb.connect(str(tmp_path / "look.duckdb"), read_only=True) as again:
        for one in q.load_queries().values():
            if one.is_user_query:
                assert again.execute(one.sql, one.bind() or None).description


def test_a_text_that_is_not_utf8_is_said(tmp_path: Path) -> None:
    broken = pa.array([b"ask ann.roe@example.org", b"canary \xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": broken}), tmp_path / "in.parquet")
    find([tmp_path / "in.parquet"], tmp_path / "work", Settings(seed=1, workers=1, max_quarantine=1.0))
    with q.open_connection(tmp_path / "work", documents=document_sources_or_note(tmp_path / "work")) as connection:
        assert len(ask(connection, "top_values")) == 1
        with pytest.raises(q.InputRefused, match="not valid UTF-8.*quarantine") as refused:
            ask(connection, "words_by_users")
        assert "canary" not in str(refused.value)


def test_only_the_first_rows_are_fetched_where_only_they_are_shown(shown: duckdb.DuckDBPyConnection) -> None:
    asked = q.run_query(shown, "SELECT range AS n FROM range(3000000000)", max_rows=3)
    assert asked.column("n").to_pylist() == [0, 1, 2]
    assert q.run_query(shown, "SELECT range AS n FROM range(5)", max_rows=1000).num_rows == 5
    assert q.run_query(shown, "SELECT 1 AS n WHERE false", max_rows=3).num_rows == 0


def test_a_query_is_stopped_by_ctrl_c(shown: duckdb.DuckDBPyConnection) -> None:
    held = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a script it is ignored
    stop = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    stop.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            q.run_query(shown, "SELECT sum(a.range * b.range) FROM range(100000000) AS a, range(100000) AS b", max_rows=1)
        stop.join()
    finally:
        signal.signal(signal.SIGINT, held)
    assert q.run_query(shown, "SELECT 42 AS n").to_pylist() == [{"n": 42}]
