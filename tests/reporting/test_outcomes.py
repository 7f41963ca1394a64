"""Outcomes of occurrences by shard: small tables written by hand, and sums over shards and ranges
of values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.engines.local import LocalEngine
from sanitize.reporting.outcomes import OutcomeTask, count_outcomes, write_shard_outcomes
from sanitize.storage import table_schemas
from sanitize.storage.parquet_files import open_table_writer

MAIL, PHONE, URL = "EMAIL_ADDRESS", "PHONE_NUMBER", "URL"


def write_table(path: Path, name: str, rows: list[dict[str, object]]) -> Path:
    schema = table_schemas.ALL_TABLES[name].schema
    with open_table_writer(path, schema) as out:
        out.write_table(pa.Table.from_pylist(rows, schema) if rows else schema.empty_table())
    return path


def occurrence(
    doc_no: int,
    start: int,
    stop: int,
    kind: str = MAIL,
    value: int = 1,
    section: str | None = "body",
    cell: int = 0,
) -> dict:
    position = {
        "doc_no": doc_no,
        "cell": cell,
        "start": start,
        "end": stop,
        "start_byte": start,
        "end_byte": stop,
    }
    return {
        **position,
        "kind": kind,
        "value_id": value,
        "section": section,
        "finder": "patterns",
        "score": 1.0,
    }


def edit(
    doc_no: int,
    start: int,
    stop: int,
    text: str,
    kind: str = MAIL,
    cell: int = 0,
    part: str = "rmft",
) -> dict[str, object]:
    position = {"doc_no": doc_no, "cell": cell, "start_byte": start, "end_byte": stop}
    return {**position, "replacement": text, "kind": kind, "part": part}


def run_count(
    tmp_path: Path, *shards: tuple[list[dict], list[dict] | None], drops: tuple[int, ...] = ()
) -> list[tuple[object, ...]]:
    drops_file = write_table(
        tmp_path / "0.parquet",
        "drops",
        [{"doc_no": no, "part": "near_dup", "reason": "copy", "kept_doc_no": 0} for no in drops],
    )
    tasks = [
        OutcomeTask(
            occurrences=(
                write_table(tmp_path / f"occurrences-{no}.parquet", "occurrences", occurrences),
            ),
            edits=None
            if edits is None
            else write_table(tmp_path / f"edits-{no}.parquet", "edits", edits),
            drops=(drops_file,),
            outcomes_path=tmp_path / f"shard_outcomes-{no}.parquet",
        )
        for no, (occurrences, edits) in enumerate(shards)
    ]
    engine = LocalEngine(workers=1, spill=tmp_path / "spill")
    try:
        rows = count_outcomes(engine, tasks, tmp_path / "outcomes.parquet").to_pylist()
    finally:
        engine.close()
    return [tuple(row.values()) for row in rows]


CASES: dict[str, tuple[list[dict], list[dict] | None, list[tuple[str, str]]]] = {
    "no occurrences": ([], [], []),
    "no edits": ([occurrence(0, 0, 5)], None, [(MAIL, "original")]),
    "edit of the same span": (
        [occurrence(0, 2, 5)],
        [edit(0, 2, 5, "a@b.example")],
        [(MAIL, "surrogate")],
    ),
    "removed": ([occurrence(0, 2, 5)], [edit(0, 0, 9, "")], [(MAIL, "removed")]),
    "a label": ([occurrence(0, 2, 5)], [edit(0, 2, 5, f"[{MAIL}-7]")], [(MAIL, "label")]),
    "a mask, and a year": (
        [occurrence(0, 2, 5), occurrence(1, 2, 5)],
        [edit(0, 2, 5, "X@X", part="mask_words"), edit(1, 2, 5, "1998", part="generalize")],
        [(MAIL, "other_text"), (MAIL, "other_text")],
    ),
    "what an editor from outside writes is no known surrogate": (
        [occurrence(0, 2, 5)],
        [edit(0, 2, 5, "text", part="their.editor")],
        [(MAIL, "other_text")],
    ),
    "the label of another kind is a text": (
        [occurrence(0, 2, 5)],
        [edit(0, 2, 5, f"[{PHONE}]")],
        [(MAIL, "surrogate")],
    ),
    "inside an edit of another kind": (
        [occurrence(0, 2, 5)],
        [edit(0, 4, 9, "x", URL)],
        [(MAIL, "other_edit")],
    ),
    "its own edit counts, the other does not": (
        [occurrence(0, 2, 8)],
        [edit(0, 1, 3, "x", URL), edit(0, 5, 8, "y")],
        [(MAIL, "surrogate")],
    ),
    "adjacent edits": (
        [occurrence(0, 2, 5)],
        [edit(0, 0, 2, "x"), edit(0, 5, 9, "y")],
        [(MAIL, "original")],
    ),
    "in another cell, in another document": (
        [occurrence(1, 2, 5)],
        [edit(0, 2, 5, "x"), edit(1, 2, 5, "y", cell=1), edit(2, 2, 5, "z")],
        [(MAIL, "original")],
    ),
    "two edits of its own kind": (
        [occurrence(0, 0, 9)],
        [edit(0, 0, 3, "x"), edit(0, 6, 9, "y")],
        [(MAIL, "surrogate"), (MAIL, "surrogate")],
    ),
    "nested occurrences": (
        [occurrence(0, 0, 9, URL), occurrence(0, 3, 6)],
        [edit(0, 3, 6, "x@y.example")],
        [(MAIL, "surrogate"), (URL, "other_edit")],
    ),
    "dropped document": (
        [occurrence(3, 2, 5), occurrence(4, 2, 5)],
        [edit(4, 2, 5, "x")],
        [(MAIL, "dropped"), (MAIL, "surrogate")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_outcome_of_occurrences(case: str, tmp_path: Path) -> None:
    occurrences, edits, expected = CASES[case]
    rows = run_count(tmp_path, (occurrences, edits), drops=(3,))
    by_value = [
        (kind, outcome)
        for kind, outcome, section, count, values in rows
        if section is None
        for _ in range(count * values)
    ]
    assert by_value == sorted(expected)
    by_section = [
        (kind, outcome)
        for kind, outcome, section, count, _ in rows
        if section == "body"
        for _ in range(count)
    ]
    assert by_section == by_value


def test_outcomes_are_summed_over_shards(tmp_path: Path) -> None:
    """One value three times and one twice, over two shards; a surrogate that occurs in both; a text
    that is not a mail."""
    first_shard = [
        occurrence(0, 0, 3),
        occurrence(0, 5, 8, value=3),
        occurrence(0, 10, 13, section=None),
        occurrence(0, 15, 18, value=2),
    ]
    second_shard = [
        occurrence(1, 0, 3),
        occurrence(1, 5, 8, value=3),
        occurrence(1, 10, 13, value=4),
    ]
    assert run_count(
        tmp_path, (first_shard, [edit(0, 15, 18, "s")]), (second_shard, [edit(1, 10, 13, "s")])
    ) == [
        (MAIL, "original", None, 3, 1),
        (MAIL, "original", None, 2, 1),
        (MAIL, "original", "", 1, 1),
        (MAIL, "original", "body", 4, 1),
        (MAIL, "surrogate", None, 2, 1),
        (MAIL, "surrogate", "body", 2, 1),
    ]


def test_attempt_renames_its_complete_file(tmp_path: Path) -> None:
    """The file has one row per value, and one per section."""
    rows = [occurrence(0, 0, 3), occurrence(0, 5, 8, value=3), occurrence(0, 10, 13)]
    occurrences = write_table(tmp_path / "occurrences.parquet", "occurrences", rows)
    task = OutcomeTask(
        occurrences=(occurrences,),
        edits=None,
        drops=(),
        outcomes_path=tmp_path / "shard_outcomes.parquet",
    )
    (tmp_path / "attempt").mkdir()
    write_shard_outcomes(task.for_attempt(tmp_path / "attempt"))
    assert not list((tmp_path / "attempt").iterdir())
    assert pq.read_metadata(task.outcomes_path).num_rows == 3


def test_outcomes_are_summed_over_value_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result does not depend on the number of rows counted together; values cover 64 bits,
    including both ends."""
    extreme_values = [-(1 << 63), (1 << 63) - 1, -1, 0, 1]
    occurrences = [
        occurrence(no, 0, 3, value=value)
        for no, value in enumerate(
            [*extreme_values, *extreme_values[:2], *range(-(1 << 62), 1 << 62, 1 << 58)]
        )
    ]
    shards = [
        (
            occurrences[low::2],
            [edit(row["doc_no"], 0, 3, f"s{row['doc_no']}") for row in occurrences[low::10]],
        )
        for low in (0, 1)
    ]
    (tmp_path / "whole").mkdir()
    expected = run_count(tmp_path / "whole", *shards)
    assert sum(
        count * values for _, _, section, count, values in expected if section is None
    ) == len(occurrences)
    monkeypatch.setattr("sanitize.reporting.outcomes._ROWS_PER_RANGE", 5)
    assert run_count(tmp_path, *shards) == expected
