"""Queries on a private folder from Python: the same results as from the commands, masked without
`reveal`."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sanitize
from sanitize.errors import OutputBroken, UsageError
from sanitize.inspection import preview
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.plans.settings import Settings

TEXTS = [
    "First bob.lee@example.com and 212-555-0123.",
    "Then bob.lee@example.com, ann.roe@example.org.",
    "Again bob.lee@example.com.",
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("asked")
    pl.DataFrame({"text": TEXTS}).write_parquet(base / "in.parquet")
    run_with_settings(
        base / "in.parquet", base / "out", settings=Settings(seed=1, workers=1), plan="rmft"
    )
    return base / "out.private"


def test_top(workspace: Path) -> None:
    rows = sanitize.top(workspace, limit=2)
    assert rows.columns[:3] == ["rank", "kind", "value"] and rows["occurrences"].to_list()[0] == 3
    assert "bob.lee" not in str(rows) and "bob.lee" not in repr(rows)
    assert sanitize.top(str(workspace), kind="PHONE_NUMBER")["kind"].to_list() == ["PHONE_NUMBER"]
    assert sanitize.top(workspace, reveal=True)["value"][0] == "bob.lee@example.com"
    assert sanitize.top(workspace, by="documents")["documents"].to_list() == [3, 1, 1]
    assert sanitize.top(workspace, by="users").height == 0  # these texts have no users
    for options in (
        {"kind": "EMAIL_ADRESS"},
        {"name": "occurrences_by_section", "kind": "EMAIL_ADRESS"},
    ):
        with pytest.raises(sanitize.SanitizeError, match="EMAIL_ADDRESS"):
            (sanitize.sql if "name" in options else sanitize.top)(workspace, **options)
    with pytest.raises(sanitize.SanitizeError, match="known: documents, occurrences"):
        sanitize.top(workspace, by="size")


def test_sql(workspace: Path) -> None:
    rows = sanitize.sql(
        workspace,
        "SELECT kind, count(*) AS times FROM occurrences GROUP BY kind ORDER BY times DESC",
    )
    assert rows.rows() == [("EMAIL_ADDRESS", 4), ("PHONE_NUMBER", 1)]
    assert sanitize.sql(workspace, name="top_values", limit=1).height == 1
    assert sanitize.sql(workspace, "SELECT part FROM parts ORDER BY part_no", run="rmft")[
        "part"
    ].to_list() == ["rmft", "redact"]
    assert (
        sanitize.sql(workspace, "SELECT text FROM documents WHERE doc_no = 0")["text"][0]
        != TEXTS[0]
    )
    assert (
        sanitize.sql(workspace, "SELECT text FROM documents WHERE doc_no = 0", reveal=True)["text"][
            0
        ]
        == TEXTS[0]
    )


@pytest.mark.parametrize(
    ("query", "name"),
    [
        (None, None),
        ("SELECT 1", "top_values"),
        ("DROP TABLE occurrences", None),
        (None, "top_valuse"),
        ("SELECT 1 AS a, 2 AS a", None),
        ("SELECT [INTERVAL 1 DAY] AS a", None),
    ],
)
def test_invalid_query_is_refused(workspace: Path, query: str | None, name: str | None) -> None:
    with pytest.raises(UsageError):
        sanitize.sql(workspace, query, name=name)


def test_documents_are_empty_after_the_input_was_moved(workspace: Path, tmp_path: Path) -> None:
    shutil.copytree(workspace.parent, tmp_path / "all")
    (workspace.parent / "in.parquet").rename(tmp_path / "in.parquet")
    try:
        assert sanitize.sql(workspace, "SELECT count(*) FROM documents").item() == 0
        assert sanitize.sql(workspace, "SELECT count(*) FROM occurrences").item() == 5
    finally:
        (tmp_path / "in.parquet").rename(workspace.parent / "in.parquet")


def test_status(workspace: Path, tmp_path: Path) -> None:
    status = sanitize.status(workspace)
    assert status.indexed and status.documents == 3 and status.lock_holder is None
    assert [run.plan for run in status.runs] == ["rmft"]
    for query in (sanitize.status, sanitize.top, lambda folder: sanitize.sql(folder, "SELECT 1")):
        with pytest.raises(UsageError, match="not the private folder"):
            query(tmp_path)


def _without(*keys: str) -> Callable[[dict[str, Any]], object]:
    """What removes an entry of index.json."""

    def remove(index: dict[str, Any]) -> None:
        *outer, last = keys
        del functools.reduce(dict.__getitem__, outer, index)[last]

    return remove


def list_readers_of_index(out: Path, work: Path) -> list[Callable[[], object]]:
    """The commands that read index.json."""
    return [
        lambda: sanitize.status(work),
        lambda: sanitize.top(work),
        lambda: sanitize.report(out, work=work, to=work.with_name("page.html")),
        lambda: sanitize.diff(out, work=work),
        lambda: sanitize.verify(out, work=work),
        lambda: sanitize.sample_for_labels(work),
    ]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_without("leaf_paths"), "it lacks leaf_paths"),
        (_without("task_ranges"), "it lacks task_ranges"),
        (_without("documents"), "it lacks documents"),
        (_without("documents", "main"), "it lacks documents.main"),
        (_without("key_id"), "it lacks key_id"),
        (_without("fingerprint"), "it lacks fingerprint"),
        (dict.clear, "it lacks complete"),
        (lambda index: index.update(increments=[{}]), "an entry of it has another form"),
        (lambda index: index.update(task_ranges=[[0]]), "an entry of it has another form"),
        (lambda index: index["documents"].update(schema=""), "an entry of it has another form"),
    ],
)
def test_a_damaged_index_is_reported(
    workspace: Path, tmp_path: Path, damage: Callable[[dict[str, Any]], object], reason: str
) -> None:
    """Every command says so, and `sanitize index` builds it again."""
    work = tmp_path / "work"
    shutil.copytree(workspace, work)
    index = json.loads((work / "index.json").read_text("utf-8"))
    damage(index)
    (work / "index.json").write_text(json.dumps(index), "utf-8")
    for command in list_readers_of_index(workspace.with_suffix(""), work):
        with pytest.raises(OutputBroken, match=rf"index.json: is damaged: {reason}"):
            command()
    index_with_settings(
        [workspace.parent / "in.parquet"], work, settings=Settings(seed=1, workers=1), plan="rmft"
    )
    assert sanitize.top(work).height == 3


@pytest.mark.parametrize("content", ["", "[1]", '{"key_id": '])
def test_a_file_that_is_no_json_object_is_reported(
    workspace: Path, tmp_path: Path, content: str
) -> None:
    """index.json, and plan.json of the selected run: the same words in every command."""
    out, work = workspace.with_suffix(""), tmp_path / "work"
    shutil.copytree(workspace, work)
    (plan_file,) = work.glob("runs/*/plan.json")
    plan = plan_file.read_text("utf-8")
    plan_file.write_text(content, "utf-8")
    for run in (None, plan_file.parent.name[:8]):
        with pytest.raises(OutputBroken, match=r"plan.json: is damaged: it cannot be read"):
            sanitize.sql(work, "SELECT 1", run=run)
    assert [run.plan for run in sanitize.status(work).runs] == [None]
    plan_file.write_text('{"edit": [1]}', "utf-8")
    with pytest.raises(OutputBroken, match=r"plan.json: is damaged: an entry of it has another"):
        sanitize.top(work)
    other = work / "runs" / "0000000000000000" / "plan.json"
    other.parent.mkdir()
    other.write_text(content, "utf-8")
    os.utime(other, (1, 1))
    plan_file.write_text(plan, "utf-8")
    assert sanitize.top(work).height == 3  # a damaged plan of another run is of no account
    (work / "index.json").write_text(content, "utf-8")
    inputs = [workspace.parent / "in.parquet"]
    for command in (
        *list_readers_of_index(out, work),
        lambda: index_with_settings(
            inputs, work, Settings(seed=1, workers=1, append=True), plan="rmft"
        ),
    ):
        with pytest.raises(OutputBroken, match=r"index.json: is damaged: it cannot be read"):
            command()
    index_with_settings(inputs, work, Settings(seed=1, workers=1), plan="rmft")
    assert sanitize.top(work).height == 3


@pytest.mark.parametrize("content", ["{", "{}", '{"out": 1}'])
def test_a_damaged_record_of_a_publication_is_reported(
    content: str, workspace: Path, tmp_path: Path
) -> None:
    """Without it, an erasure would not reach the output."""
    work, match = tmp_path / "work", tmp_path / "who.txt"
    shutil.copytree(workspace, work)
    match.write_text("bob.lee@example.com\n")
    (record,) = (work / "published").iterdir()
    record.write_text(content)
    with pytest.raises(OutputBroken, match=rf"{record.name}: is damaged: .*delete this file"):
        sanitize.subject(work, match, erase=True, seed=1, workers=1)
    record.unlink()
    assert sanitize.subject(work, match, seed=1, workers=1).documents


@pytest.mark.parametrize("table", ["tables/occurrences", "vault/values"])
def test_a_missing_table_is_no_empty_one(workspace: Path, tmp_path: Path, table: str) -> None:
    work, match = tmp_path / "work", tmp_path / "who.txt"
    shutil.copytree(workspace, work)
    match.write_text("bob.lee@example.com\n")
    (work / table / "00000.parquet").unlink()
    for command in (
        lambda: sanitize.top(work),
        lambda: sanitize.subject(work, match),
        lambda: sanitize.sample_for_labels(work),
    ):
        with pytest.raises(
            OutputBroken, match=rf"{table}: lacks 00000.parquet, which the index wrote"
        ):
            command()
    index_with_settings(
        [workspace.parent / "in.parquet"], work, settings=Settings(seed=1, workers=1), plan="rmft"
    )
    assert sanitize.top(work).height == 3


def test_verify(workspace: Path) -> None:
    assert sanitize.verify(workspace.parent / "out").leaks == 0


def test_empty_result_is_explained(workspace: Path, tmp_path: Path) -> None:
    from sanitize.inspection.sql_api import explain_empty_result
    from sanitize.storage.queries import get_query

    for name, message in (
        ("blacklist_coverage", "blacklist of run .* has no .blacklist."),
        ("ledger_summary", "ledger of run .* spends privacy"),
        ("duplicate_groups", "drops of run .* has no ..drop.. part"),
    ):
        assert sanitize.sql(workspace, name=name).height == 0
        assert re.search(message, explain_empty_result(workspace, get_query(name).tables) or "")
    assert explain_empty_result(workspace, {"edits", "occurrences"}) is None
    index_with_settings(
        workspace.parent / "in.parquet",
        work=tmp_path / "found",
        settings=Settings(seed=1, workers=1),
        plan="rmft",
    )
    assert "nothing was run yet" in (explain_empty_result(tmp_path / "found", {"drops"}) or "")


def test_the_estimate_is_scaled_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long document among the first ones was counted for each thousand that follow."""
    long = " ".join(f"word{number} of a long text" for number in range(20_000))
    rows = [long, *(f"note {number} to p{number % 50}@example.com" for number in range(3_000))]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in rows))
    scales: list[float] = []
    write_sample = preview._write_sample

    def keep_scale(*arguments: Any) -> Any:
        sample = write_sample(*arguments)
        scales.append(sample[2])
        return sample

    monkeypatch.setattr(preview, "_write_sample", keep_scale)
    assert sanitize.explain(path, plan="redact").estimate.cpu_seconds > 0
    (scale,) = scales
    right = sum(map(len, rows)) / sum(map(len, rows[:1_000]))
    assert right / 1.5 < scale < right * 1.5 < 2  # by documents it is 3
