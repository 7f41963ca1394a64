"""Aggregates over the whole corpus compared with a reference count of the same occurrences in
Python."""

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

from sanitize.core.keys import Key
from sanitize.editors.redact import Redact
from sanitize.editors.rmft import Rmft
from sanitize.engines.local import LocalEngine
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.stages import aggregates
from sanitize.storage import queries, table_schemas

KINDS = ["EMAIL_ADDRESS", "PHONE_NUMBER", "URL"]
Row = tuple[int, int, int, int, str, int]  # doc_no, cell, start, stop, kind, value_id


def write_occurrences(rows: Sequence[Row], path: Path) -> Path:
    """The table `occurrences`; texts are ASCII here, so that bytes are code points."""
    columns = {
        **{
            name: [row[index] for row in rows]
            for index, name in enumerate(("doc_no", "cell", "start", "end", "kind", "value_id"))
        },
        "start_byte": [row[2] for row in rows],
        "end_byte": [row[3] for row in rows],
        "finder": ["patterns"] * len(rows),
        "score": [1.0] * len(rows),
        "section": [None] * len(rows),
        "entity_id": [None] * len(rows),
    }
    schema = table_schemas.OCCURRENCES.schema
    pq.write_table(
        pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema),
        path,
    )
    return path


def write_partial_counts(rows: Sequence[Row], path: Path) -> Path:
    """The partial counts of a task."""
    schema = table_schemas.VALUE_COUNTS.schema
    counts = reference_counts(rows)
    pq.write_table(
        pa.table(
            [
                pa.array([row[index] for row in counts], field.type)
                for index, field in enumerate(schema)
            ],
            schema=schema,
        ),
        path,
    )
    return path


def reference_counts(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    by_value: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[:3]):
        by_value[row[5], row[4]].append(row)
    return [
        (
            value,
            kind,
            len(rows_of_value),
            len({row[0] for row in rows_of_value}),
            *rows_of_value[0][:3],
        )
        for (value, kind), rows_of_value in sorted(by_value.items())
    ]


def reference_first_occurrences(
    rows: Sequence[Row], kinds: Sequence[str], keep: int
) -> list[tuple[int, int, int, int]]:
    seen_counts: dict[int, int] = defaultdict(int)
    first_rows = []
    for doc_no, cell, start, _, kind, value in sorted(rows, key=lambda row: row[:3]):
        if kind in kinds:
            seen_counts[value] += 1
            if seen_counts[value] <= keep:
                first_rows.append((doc_no, cell, start, value))
    return sorted(first_rows)


def read_first_occurrences(path: Path) -> list[tuple[int, int, int, int]]:
    return [
        tuple(row.values())
        for row in pq.read_table(path, columns=["doc_no", "cell", "start", "value_id"]).to_pylist()
    ]


@st.composite
def corpora(draw: st.DrawFn) -> list[list[Row]]:
    """Tasks of occurrences: disjoint ranges of documents, disjoint spans in a document, each value
    of one kind."""
    tasks: list[list[Row]] = []
    for task in range(draw(st.integers(1, 3))):
        rows: list[Row] = []
        for doc_no in draw(
            st.lists(st.integers(10 * task, 10 * task + 4), unique=True, max_size=4)
        ):
            for cell in draw(st.lists(st.integers(0, 2), unique=True, max_size=2)):
                for slot in draw(st.lists(st.integers(0, 5), unique=True, max_size=4)):
                    value = draw(st.integers(1, 9))
                    rows.append((doc_no, cell, 10 * slot, 10 * slot + 5, KINDS[value % 3], value))
        tasks.append(sorted(rows))
    return tasks


few_examples = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    return LocalEngine(workers=1, spill=tmp_path_factory.mktemp("spill"))


def write_and_count(
    engine: LocalEngine, tasks: Sequence[Sequence[Row]], folder: Path
) -> tuple[list[Path], Path]:
    for number, rows in enumerate(tasks):
        write_occurrences(rows, folder / f"o{number}.parquet")
        write_partial_counts(rows, folder / f"p{number}.parquet")
    aggregates.write_value_counts(
        engine,
        [folder / f"p{number}.parquet" for number in range(len(tasks))],
        folder / "counts.parquet",
    )
    return [
        folder / f"o{number}.parquet" for number in range(len(tasks))
    ], folder / "counts.parquet"


@few_examples
@given(tasks=corpora())
def test_value_counts_equal_the_reference(
    engine: LocalEngine, tmp_path: Path, tasks: list[list[Row]]
) -> None:
    _, path = write_and_count(engine, tasks, tmp_path)
    table = pq.read_table(path)
    assert table.schema.names == table_schemas.VALUE_COUNTS.schema.names
    assert [tuple(row.values()) for row in table.to_pylist()] == reference_counts(
        [row for rows in tasks for row in rows]
    )


@few_examples
@given(
    tasks=corpora(), keep=st.integers(1, 3), kinds=st.sampled_from([KINDS, KINDS[:1], KINDS[1:]])
)
def test_first_occurrences_equal_the_reference(
    engine: LocalEngine, tmp_path: Path, tasks: list[list[Row]], keep: int, kinds: list[str]
) -> None:
    files, path = write_and_count(engine, tasks, tmp_path)
    chosen_kinds = tmp_path / "chosen.parquet"
    pq.write_table(pa.table({"kind": kinds}), chosen_kinds)
    expected = reference_first_occurrences([row for rows in tasks for row in rows], kinds, keep)
    engine.sql(
        queries.get_query("first_occurrences").sql,
        {"remaining_occurrences": files, "chosen_kinds": [chosen_kinds]},
        tmp_path / "first_occurrences.parquet",
        keep=keep,
    )
    assert read_first_occurrences(tmp_path / "first_occurrences.parquet") == expected
    if keep == 1:  # both queries give the same table
        engine.sql(
            queries.get_query("first_occurrences_from_counts").sql,
            {"value_counts": [path], "chosen_kinds": [chosen_kinds]},
            tmp_path / "short.parquet",
        )
        assert read_first_occurrences(tmp_path / "short.parquet") == expected


def aggregate(
    engine: LocalEngine,
    editors: Sequence[Any],
    tasks: Sequence[Sequence[Row]],
    folder: Path,
    drops: Sequence[Path] = (),
) -> Any:
    files, path = write_and_count(engine, tasks, folder)
    (folder / "counted").mkdir(exist_ok=True)
    empty_values = pa.table(
        [pa.array([], field.type) for field in table_schemas.VALUE_SPELLINGS.schema],
        schema=table_schemas.VALUE_SPELLINGS.schema,
    )
    pq.write_table(empty_values, folder / "values.parquet")
    sources = aggregates.AggregateSources(
        engine=engine,
        occurrences=files,
        value_counts_file=path,
        value_files=[folder / "values.parquet"],
        drop_files=drops,
        folder=folder / "counted",
        key=Key.from_seed(1),
    )
    return aggregates.aggregate_for_editors(sources, editors)


@few_examples
@given(tasks=corpora(), keep=st.integers(1, 2), second_keep=st.integers(1, 2))
def test_a_second_editor_keeps_first_occurrences_among_remaining_spans(
    engine: LocalEngine, tmp_path: Path, tasks: list[list[Row]], keep: int, second_keep: int
) -> None:
    """For example an address in a URL: where the first editor claimed the URL's span, the second
    editor is not given the address."""
    # every third occurrence contains one of another kind
    tasks = [
        [
            *rows,
            *(
                (d, c, start + 1, start + 4, "IP_ADDRESS", 100 + v % 2)
                for d, c, start, _, _, v in rows[::3]
            ),
        ]
        for rows in tasks
    ]
    tasks = [sorted(rows, key=lambda row: (*row[:3], -row[3])) for rows in tasks]
    editors = [
        Rmft(use="rmft", kinds=("EMAIL_ADDRESS", "URL"), keep=keep),
        Rmft(use="rmft", kinds=("IP_ADDRESS", "URL"), keep=second_keep),
    ]
    aggregates_by_editor = aggregate(engine, editors, tasks, tmp_path)
    rows = [row for task in tasks for row in task]
    expected = reference_first_occurrences(rows, ["EMAIL_ADDRESS", "URL"], keep)
    assert read_first_occurrences(aggregates_by_editor[0].tables["first_occurrences"]) == expected
    kept = set(expected)
    claimed = [
        row for row in rows if row[4] in ("EMAIL_ADDRESS", "URL") and (*row[:3], row[5]) not in kept
    ]
    remaining = [
        row
        for row in rows
        if not any(
            claim[:2] == row[:2] and claim[2] < row[3] and row[2] < claim[3] for claim in claimed
        )
    ]
    # URL belongs to the first editor, so that the second keeps none of it
    assert read_first_occurrences(
        aggregates_by_editor[1].tables["first_occurrences"]
    ) == reference_first_occurrences(remaining, ["IP_ADDRESS"], second_keep)


def test_an_editor_that_keeps_nothing_claims_its_spans(engine: LocalEngine, tmp_path: Path) -> None:
    rows: list[Row] = [
        (0, 0, 0, 9, "URL", 1),
        (0, 0, 2, 6, "IP_ADDRESS", 7),
        (1, 0, 0, 4, "IP_ADDRESS", 7),
        (2, 0, 0, 4, "IP_ADDRESS", 7),
    ]
    editors = [
        Redact(use="redact", kinds=("URL",)),
        Rmft(use="rmft", kinds=("IP_ADDRESS",), keep=1),
    ]
    aggregates_by_editor = aggregate(engine, editors, [rows[:2], rows[2:]], tmp_path)
    assert "first_occurrences" not in aggregates_by_editor[0].tables
    assert read_first_occurrences(aggregates_by_editor[1].tables["first_occurrences"]) == [
        (1, 0, 0, 7)
    ]


def test_no_editors_need_no_aggregates(engine: LocalEngine, tmp_path: Path) -> None:
    assert aggregate(engine, [], [[]], tmp_path) == ()


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_a_run_keeps_first_occurrences_in_corpus_order(tmp_path: Path, keep: int) -> None:
    """The same through the public API: over shards, further columns and spellings."""
    mails = ["ann.roe@example.com", "ANN.ROE@example.com", "cy@example.org"]
    texts = [f"{mails[index % 3]} and {mails[(index + 1) % 3]}" for index in range(6)]
    pq.write_table(
        pa.table({"note": [mails[index % 2] for index in range(6)], "text": texts}),
        tmp_path / "in.parquet",
    )
    plan = load_plan("rmft", [f"edit.0.keep={keep}"])
    summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        plan,
        None,
        Settings(seed=3, workers=1, rows_per_shard=2),
    )
    assert summary.kept_originals == 2 * keep
    seen_counts: dict[str, int] = defaultdict(int)
    output_rows = pa.concat_tables(
        [pq.read_table(file) for file in sorted((tmp_path / "out" / "data").iterdir())]
    ).to_pylist()
    for index, row in enumerate(output_rows):
        for before, after in ((texts[index], row["text"]), (mails[index % 2], row["note"])):
            for original, published in zip(
                before.split(" and "), after.split(" and "), strict=True
            ):
                seen_counts[original.lower()] += 1
                assert (original == published) == (seen_counts[original.lower()] <= keep)


# ---- pools ----


def write_values(path: Path, rows: Sequence[tuple[str, str, str | None]]) -> Path:
    # equal values have equal ids in all files
    value_ids = [zlib.crc32((row[2] or row[1]).encode()) for row in rows]
    columns = [value_ids, *([row[index] for row in rows] for index in range(3))]
    arrays = [
        pa.array(list(column), field.type)
        for column, field in zip(columns, table_schemas.VALUE_SPELLINGS.schema, strict=True)
    ]
    pq.write_table(pa.table(arrays, schema=table_schemas.VALUE_SPELLINGS.schema), path)
    return path


def read_pools(path: Path) -> dict[tuple[str, str], list[str]]:
    texts_by_component: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in pq.read_table(path).to_pylist():
        texts_by_component[row["kind"], row["component"]].append(row["text"])
    return dict(texts_by_component)


def test_component_pools_have_each_component_once_sorted_in_lower_case(tmp_path: Path) -> None:
    first_file = write_values(
        tmp_path / "one.parquet",
        [
            ("EMAIL_ADDRESS", "Ann.Roe@Mail.Example.COM", "ann.roe@mail.example.com"),
            ("EMAIL_ADDRESS", "ann.roe@mail.example.com", None),
            ("EMAIL_ADDRESS", "desk@example.org", None),
            ("PHONE_NUMBER", "212-555-0123", "+12125550123"),
        ],
    )
    second_file = write_values(
        tmp_path / "two.parquet",
        [
            ("EMAIL_ADDRESS", "bea_roe@example.com", None),
            ("EMAIL_ADDRESS", "Sales@example.net", None),
        ],
    )
    aggregates.write_component_pools(
        ["EMAIL_ADDRESS", "PHONE_NUMBER"], [first_file, second_file], tmp_path / "pools.parquet"
    )
    assert read_pools(tmp_path / "pools.parquet") == {
        ("EMAIL_ADDRESS", "domain"): ["example", "mail.example"],
        ("EMAIL_ADDRESS", "first"): ["ann", "bea"],
        ("EMAIL_ADDRESS", "host"): [
            "example.com",
            "example.net",
            "example.org",
            "mail.example.com",
        ],
        ("EMAIL_ADDRESS", "last"): ["roe"],
        ("EMAIL_ADDRESS", "local"): ["desk", "sales"],
        ("EMAIL_ADDRESS", "tld"): ["com", "net", "org"],
    }


def test_component_pools_do_not_depend_on_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[str, str, str | None]] = [
        ("EMAIL_ADDRESS", f"n{index % 7}.m{index % 5}@d{index % 3}.example.com", None)
        for index in range(40)
    ]
    aggregates.write_component_pools(
        ["EMAIL_ADDRESS"], [write_values(tmp_path / "all.parquet", rows)], tmp_path / "a.parquet"
    )
    files = [
        write_values(tmp_path / f"{index}.parquet", rows[::-1][index::4]) for index in range(4)
    ]
    monkeypatch.setattr(aggregates, "_READ_ROWS", 3)
    aggregates.write_component_pools(["EMAIL_ADDRESS"], files, tmp_path / "b.parquet")
    assert read_pools(tmp_path / "a.parquet") == read_pools(tmp_path / "b.parquet")
    for texts in read_pools(tmp_path / "a.parquet").values():
        assert texts == sorted(set(texts)) and texts == [text.lower() for text in texts]


@pytest.mark.parametrize("rows", [[], [("PHONE_NUMBER", "212-555-0123", None)]])
def test_component_pools_of_no_values_are_empty(
    tmp_path: Path, rows: list[tuple[str, str, str | None]]
) -> None:
    aggregates.write_component_pools(
        ["EMAIL_ADDRESS", "PHONE_NUMBER"],
        [write_values(tmp_path / "v.parquet", rows)],
        tmp_path / "pools.parquet",
    )
    table = pq.read_table(tmp_path / "pools.parquet")
    assert table.num_rows == 0 and table.schema.names == ["kind", "component", "text"]
