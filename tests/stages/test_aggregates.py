"""Aggregates over the whole corpus against a slow count of the same occurrences in Python."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sanitize.editors.redact import Redact
from sanitize.editors.rmft import Rmft
from sanitize.engines.local import LocalEngine
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.stages import aggregates
from sanitize.storage import queries, table_schemas

KINDS = ["EMAIL_ADDRESS", "PHONE_NUMBER", "URL"]
Row = tuple[int, int, int, int, str, int]  # doc_no, cell, start, stop, kind, value_id


def occurrences(rows: Sequence[Row], path: Path) -> Path:
    """The table `occurrences`; texts are ASCII here, so that bytes are code points."""
    columns = {
        **{name: [row[at] for row in rows] for at, name in enumerate(("doc_no", "cell", "start", "end", "kind", "value_id"))},
        "start_byte": [row[2] for row in rows],
        "end_byte": [row[3] for row in rows],
        "finder": ["patterns"] * len(rows),
        "score": [1.0] * len(rows),
        "section": [None] * len(rows),
        "entity_id": [None] * len(rows),
    }
    schema = table_schemas.OCCURRENCES.schema
    pq.write_table(pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema), path)
    return path


def partial(rows: Sequence[Row], path: Path) -> Path:
    """The partial counts of a task."""
    schema = table_schemas.VALUE_COUNTS.schema
    found = slow_counts(rows)
    pq.write_table(pa.table([pa.array([row[at] for row in found], field.type) for at, field in enumerate(schema)], schema=schema), path)
    return path


def slow_counts(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    by_value: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[:3]):
        by_value[row[5], row[4]].append(row)
    return [(value, kind, len(all_), len({row[0] for row in all_}), *all_[0][:3]) for (value, kind), all_ in sorted(by_value.items())]


def slow_first_occurrences(rows: Sequence[Row], kinds: Sequence[str], keep: int) -> list[tuple[int, int, int, int]]:
    seen: dict[int, int] = defaultdict(int)
    found = []
    for doc_no, cell, start, _, kind, value in sorted(rows, key=lambda row: row[:3]):
        if kind in kinds:
            seen[value] += 1
            if seen[value] <= keep:
                found.append((doc_no, cell, start, value))
    return sorted(found)


def first_occurrences(path: Path) -> list[tuple[int, int, int, int]]:
    return [tuple(row.values()) for row in pq.read_table(path, columns=["doc_no", "cell", "start", "value_id"]).to_pylist()]


@st.composite
def corpora(draw: st.DrawFn) -> list[list[Row]]:
    """Tasks of occurrences: disjoint ranges of documents, disjoint spans in a document, each value of one kind."""
    tasks: list[list[Row]] = []
    for task in range(draw(st.integers(1, 3))):
        rows: list[Row] = []
        for doc_no in draw(st.lists(st.integers(10 * task, 10 * task + 4), unique=True, max_size=4)):
            for cell in draw(st.lists(st.integers(0, 2), unique=True, max_size=2)):
                for place in draw(st.lists(st.integers(0, 5), unique=True, max_size=4)):
                    value = draw(st.integers(1, 9))
                    rows.append((doc_no, cell, 10 * place, 10 * place + 5, KINDS[value % 3], value))
        tasks.append(sorted(rows))
    return tasks


calm = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    return LocalEngine(workers=1, spill=tmp_path_factory.mktemp("spill"))


def counted(engine: LocalEngine, tasks: Sequence[Sequence[Row]], folder: Path) -> tuple[list[Path], Path]:
    for number, rows in enumerate(tasks):
        occurrences(rows, folder / f"o{number}.parquet")
        partial(rows, folder / f"p{number}.parquet")
    aggregates.write_value_counts(engine, [folder / f"p{number}.parquet" for number in range(len(tasks))], folder / "counts.parquet")
    return [folder / f"o{number}.parquet" for number in range(len(tasks))], folder / "counts.parquet"


@calm
@given(tasks=corpora())
def test_value_counts_are_those_of_a_slow_count(engine: LocalEngine, tmp_path: Path, tasks: list[list[Row]]) -> None:
    _, path = counted(engine, tasks, tmp_path)
    table = pq.read_table(path)
    assert table.schema.names == table_schemas.VALUE_COUNTS.schema.names
    assert [tuple(row.values()) for row in table.to_pylist()] == slow_counts([row for rows in tasks for row in rows])


@calm
@given(tasks=corpora(), keep=st.integers(1, 3), kinds=st.sampled_from([KINDS, KINDS[:1], KINDS[1:]]))
def test_first_occurrences_are_those_of_a_slow_count(
    engine: LocalEngine, tmp_path: Path, tasks: list[list[Row]], keep: int, kinds: list[str]
) -> None:
    files, path = counted(engine, tasks, tmp_path)
    chosen = tmp_path / "chosen.parquet"
    pq.write_table(pa.table({"kind": kinds}), chosen)
    expected = slow_first_occurrences([row for rows in tasks for row in rows], kinds, keep)
    engine.sql(
        queries.get_query("first_occurrences").sql,
        {"remaining_occurrences": files, "chosen_kinds": [chosen]},
        tmp_path / "first_occurrences.parquet",
        keep=keep,
    )
    assert first_occurrences(tmp_path / "first_occurrences.parquet") == expected
    if keep == 1:  # both ways to the same table
        engine.sql(
            queries.get_query("first_occurrences_from_counts").sql,
            {"value_counts": [path], "chosen_kinds": [chosen]},
            tmp_path / "short.parquet",
        )
        assert first_occurrences(tmp_path / "short.parquet") == expected


def needs(engine: LocalEngine, editors: Sequence[Any], tasks: Sequence[Sequence[Row]], folder: Path, drops: Sequence[Path] = ()) -> Any:
    files, path = counted(engine, tasks, folder)
    (folder / "counted").mkdir(exist_ok=True)
    values = pa.table(
        [pa.array([], field.type) for field in table_schemas.VALUE_SPELLINGS.schema], schema=table_schemas.VALUE_SPELLINGS.schema
    )
    pq.write_table(values, folder / "values.parquet")
    return aggregates.aggregate_for_editors(
        engine,
        editors,
        occurrences=files,
        value_counts_file=path,
        value_files=[folder / "values.parquet"],
        drop_files=drops,
        folder=folder / "counted",
    )


@calm
@given(tasks=corpora(), keep=st.integers(1, 2), second=st.integers(1, 2))
def test_a_second_editor_keeps_what_it_can_among_what_is_left(
    engine: LocalEngine, tmp_path: Path, tasks: list[list[Row]], keep: int, second: int
) -> None:
    """For example an address in a URL: where the first editor claimed the URL's span, the second editor is not given the address."""
    # every third occurrence stands inside one of another kind
    tasks = [[*rows, *((d, c, start + 1, start + 4, "IP_ADDRESS", 100 + v % 2) for d, c, start, _, _, v in rows[::3])] for rows in tasks]
    tasks = [sorted(rows, key=lambda row: (*row[:3], -row[3])) for rows in tasks]
    editors = [Rmft(use="rmft", kinds=("EMAIL_ADDRESS", "URL"), keep=keep), Rmft(use="rmft", kinds=("IP_ADDRESS", "URL"), keep=second)]
    found = needs(engine, editors, tasks, tmp_path)
    rows = [row for task in tasks for row in task]
    expected = slow_first_occurrences(rows, ["EMAIL_ADDRESS", "URL"], keep)
    assert first_occurrences(found[0].tables["first_occurrences"]) == expected
    kept = set(expected)
    taken = [row for row in rows if row[4] in ("EMAIL_ADDRESS", "URL") and (*row[:3], row[5]) not in kept]
    left = [row for row in rows if not any(one[:2] == row[:2] and one[2] < row[3] and row[2] < one[3] for one in taken)]
    # URL belongs to the first editor, so that the second keeps none of it
    assert first_occurrences(found[1].tables["first_occurrences"]) == slow_first_occurrences(left, ["IP_ADDRESS"], second)


def test_an_editor_that_keeps_nothing_still_takes_its_spans(engine: LocalEngine, tmp_path: Path) -> None:
    rows: list[Row] = [(0, 0, 0, 9, "URL", 1), (0, 0, 2, 6, "IP_ADDRESS", 7), (1, 0, 0, 4, "IP_ADDRESS", 7), (2, 0, 0, 4, "IP_ADDRESS", 7)]
    editors = [Redact(use="redact", kinds=("URL",)), Rmft(use="rmft", kinds=("IP_ADDRESS",), keep=1)]
    found = needs(engine, editors, [rows[:2], rows[2:]], tmp_path)
    assert "first_occurrences" not in found[0].tables
    assert first_occurrences(found[1].tables["first_occurrences"]) == [(1, 0, 0, 7)]


def test_no_editor_needs_nothing(engine: LocalEngine, tmp_path: Path) -> None:
    assert needs(engine, [], [[]], tmp_path) == ()


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_a_run_keeps_the_first_in_corpus_order(tmp_path: Path, keep: int) -> None:
    """The same through the public API: over shards, further columns and spellings."""
    mails = ["ann.roe@example.com", "ANN.ROE@example.com", "cy@example.org"]
    texts = [f"{mails[at % 3]} and {mails[(at + 1) % 3]}" for at in range(6)]
    pq.write_table(pa.table({"note": [mails[at % 2] for at in range(6)], "text": texts}), tmp_path / "in.parquet")
    plan = load_plan("rmft", [f"edit.0.keep={keep}"])
    summary = run([tmp_path / "in.parquet"], tmp_path / "out", plan, None, Settings(seed=3, workers=1, rows_per_shard=2))
    assert summary["kept_originals"] == 2 * keep
    seen: dict[str, int] = defaultdict(int)
    got = pa.concat_tables([pq.read_table(file) for file in sorted((tmp_path / "out" / "data").iterdir())]).to_pylist()
    for at, row in enumerate(got):
        for before, after in ((texts[at], row["text"]), (mails[at % 2], row["note"])):
            for one, now in zip(before.split(" and "), after.split(" and "), strict=True):
                seen[one.lower()] += 1
                assert (one == now) == (seen[one.lower()] <= keep)


# ---- pools ----


def values(path: Path, rows: Sequence[tuple[str, str, str | None]]) -> Path:
    ids = [zlib.crc32((row[2] or row[1]).encode()) for row in rows]  # an id belongs to a value, whatever file it lies in
    columns = [ids, *([row[at] for row in rows] for at in range(3))]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, table_schemas.VALUE_SPELLINGS.schema, strict=True)]
    pq.write_table(pa.table(arrays, schema=table_schemas.VALUE_SPELLINGS.schema), path)
    return path


def pools(path: Path) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in pq.read_table(path).to_pylist():
        found[row["kind"], row["component"]].append(row["text"])
    return dict(found)


def test_component_pools_hold_every_component_once_sorted_in_lower_case(tmp_path: Path) -> None:
    one = values(
        tmp_path / "one.parquet",
        [
            ("EMAIL_ADDRESS", "Ann.Roe@Mail.Example.COM", "ann.roe@mail.example.com"),
            ("EMAIL_ADDRESS", "ann.roe@mail.example.com", None),
            ("EMAIL_ADDRESS", "desk@example.org", None),
            ("PHONE_NUMBER", "212-555-0123", "+12125550123"),
        ],
    )
    other = values(tmp_path / "two.parquet", [("EMAIL_ADDRESS", "bea_roe@example.com", None), ("EMAIL_ADDRESS", "Sales@example.net", None)])
    aggregates.write_component_pools(["EMAIL_ADDRESS", "PHONE_NUMBER"], [one, other], tmp_path / "pools.parquet")
    assert pools(tmp_path / "pools.parquet") == {
        ("EMAIL_ADDRESS", "domain"): ["example", "mail.example"],
        ("EMAIL_ADDRESS", "first"): ["ann", "bea"],
        ("EMAIL_ADDRESS", "host"): ["example.com", "example.net", "example.org", "mail.example.com"],
        ("EMAIL_ADDRESS", "last"): ["roe"],
        ("EMAIL_ADDRESS", "local"): ["desk", "sales"],
        ("EMAIL_ADDRESS", "tld"): ["com", "net", "org"],
    }


def test_component_pools_do_not_depend_on_how_values_lie_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[str, str, str | None]] = [("EMAIL_ADDRESS", f"n{at % 7}.m{at % 5}@d{at % 3}.example.com", None) for at in range(40)]
    aggregates.write_component_pools(["EMAIL_ADDRESS"], [values(tmp_path / "all.parquet", rows)], tmp_path / "a.parquet")
    files = [values(tmp_path / f"{at}.parquet", rows[::-1][at::4]) for at in range(4)]
    monkeypatch.setattr(aggregates, "_READ_ROWS", 3)
    aggregates.write_component_pools(["EMAIL_ADDRESS"], files, tmp_path / "b.parquet")
    assert pools(tmp_path / "a.parquet") == pools(tmp_path / "b.parquet")
    for texts in pools(tmp_path / "a.parquet").values():
        assert texts == sorted(set(texts)) and texts == [text.lower() for text in texts]


@pytest.mark.parametrize("rows", [[], [("PHONE_NUMBER", "212-555-0123", None)]])
def test_component_pools_of_nothing(tmp_path: Path, rows: list[tuple[str, str, str | None]]) -> None:
    aggregates.write_component_pools(["EMAIL_ADDRESS", "PHONE_NUMBER"], [values(tmp_path / "v.parquet", rows)], tmp_path / "pools.parquet")
    table = pq.read_table(tmp_path / "pools.parquet")
    assert table.num_rows == 0 and table.schema.names == ["kind", "component", "text"]
