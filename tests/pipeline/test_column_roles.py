"""What a column is taken for, and what becomes of it, with no option given: nothing stops, no text
becomes codes, and no person stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import sanitize
from sanitize.core.command_results import ColumnPolicy
from sanitize.errors import SanitizeError
from sanitize.stages.column_counts import CellCounts
from tests.support import read_rows, write_json_lines

NAMES = ["Maria Kowalski", "Roe, Anna", "Peter Quist <p.quist@example.com>", "zyq77", None]
PRODUCTS = ["USB-C Cable 2m", "Wireless Mouse", "Desk Lamp"]
LONG = "What is the capital of that country, and how does one get there by train?"
CODE, SEARCHED = "pseudonymize", "sanitize"

# name of a column, its cells (repeated up to 40 rows), its policy, what it is taken for
COLUMNS: dict[str, tuple[str, list[Any], str, str]] = {
    "names, by its name": ("author", ["Zyq Blorbax", "Quinn Vale"], CODE, "people"),
    "user names": ("login", ["zyq77", "quinnv"], CODE, "people"),
    "mail addresses of people": ("from", ["zyq@example.com", "quinn@example.com"], CODE, "people"),
    "names, by its cells": ("posted", NAMES, CODE, "people"),
    "no names in another column": ("title", ["Annual Report", "Project Plan"], SEARCHED, "text"),
    "long texts of users": ("user", [LONG], SEARCHED, "text"),
    "long texts of authors": ("author", [LONG], SEARCHED, "text"),
    "parties of a chat": ("from", ["human", "gpt"], SEARCHED, "category"),
    "no person": ("owner", ["unknown", "none"], SEARCHED, "category"),
    "few names of products": ("name", PRODUCTS, SEARCHED, "category"),
    "many names of products": ("name", [f"Part {no} mm" for no in range(40)], SEARCHED, "text"),
    "few names of people": ("name", ["Maria Kowalski", "Anna Roe"], CODE, "people"),
    "unlisted names": ("name", [f"Zyq{c} Blorb{c}" for c in "abcdefgh"], CODE, "people"),
    "users": ("user", [f"jdoe{no}" for no in range(40)], CODE, "people"),
    "few users": ("user", ["jdoe77", "quinnv"], CODE, "people"),
    "empty, called like people": ("author", [None, ""], CODE, "people"),
    "a kind": ("phone", ["3125550178", "3125550179"], SEARCHED, "PHONE_NUMBER"),
    "a kind that its cells are not": ("phone", ["iPhone", "Pixel"], SEARCHED, "PHONE_NUMBER"),
    "empty, called like a kind": ("ssn", [None, ""], SEARCHED, "US_SSN"),
    "a number": ("age_group", [1, 2], "keep", "number"),
    "a list of names": ("authors", [["Zyq Blorbax"], ["quinnv77"]], SEARCHED, "PERSON"),
}


def make_rows(name: str, cells: list[Any]) -> list[dict[str, Any]]:
    return [{"text": f"Line {no}.", name: cells[no % len(cells)]} for no in range(40)]


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_is_decided_by_its_cells_and_name(case: str, tmp_path: Path) -> None:
    name, cells, policy, taken_for = COLUMNS[case]
    rows = make_rows(name, cells)
    pl.DataFrame(rows, strict=False).write_parquet(tmp_path / "in.parquet")
    result = sanitize.run(
        tmp_path / "in.parquet", tmp_path / "out", plan="redact", seed=1, rows_per_shard=15
    )
    (column,) = [one for one in result.columns if one.name == name]
    assert (column.policy, column.taken_for) == (policy, taken_for)
    clean = read_rows(tmp_path / "out" / "data")
    found = [row[name] for row in clean]
    if policy == CODE:
        assert not {*found} & {cell for cell in cells if cell}
        assert [cell is None for cell in found] == [row[name] is None for row in rows]
    elif taken_for in ("text", "category", "number"):
        assert found == [row[name] for row in rows]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert column == ColumnPolicy(**next(one for one in manifest["columns"] if one["name"] == name))
    preview = sanitize.explain(tmp_path / "in.parquet", plan="redact")
    assert column in preview.columns


def test_an_option_decides_before_the_cells(tmp_path: Path) -> None:
    path = write_json_lines(tmp_path / "in.jsonl", make_rows("author", ["Zyq Blorbax", "Quinn V"]))
    for number, option in enumerate(("keep", "drop", "sanitize")):
        out = tmp_path / f"out{number}"
        result = sanitize.run(path, out, plan="rmft", seed=1, **{option: "author"})
        column = next(one for one in result.columns if one.name == "author")
        assert column.policy == option and column.why.startswith(f"--{option}")


def test_an_option_that_is_the_default_by_name_is_no_earlier_result(tmp_path: Path) -> None:
    """Counts decided otherwise before: neither index nor output are taken over."""
    rows = [{**row, "posted": "Anna Roe"} for row in make_rows("name", PRODUCTS)]
    path, out = write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / "out"
    sanitize.run(path, out, plan="redact", seed=1)
    options: dict[str, Any] = {"pseudonymize": "name", "sanitize": "posted", "replace": True}
    assert sanitize.run(path, out, plan="redact", seed=1, **options).changed
    for row in read_rows(out / "data"):
        assert row["posted"] == "[PERSON]" and row["name"] not in PRODUCTS
    work, out = tmp_path / "out.private", tmp_path / "new"
    assert sanitize.run(path, out, plan="redact", seed=1, work=work, replace=True).changed
    assert [row["name"] for row in read_rows(out / "data")] == [row["name"] for row in rows]


def test_an_append_goes_by_what_the_first_run_decided(tmp_path: Path) -> None:
    first = write_json_lines(tmp_path / "1.jsonl", make_rows("name", PRODUCTS))
    second = write_json_lines(tmp_path / "2.jsonl", make_rows("name", ["Maria Kowalski"]))
    sanitize.run(first, tmp_path / "out", plan="redact", seed=1)
    result = sanitize.run(second, tmp_path / "out", plan="redact", seed=1, append=True)
    names = [row["name"] for row in read_rows(tmp_path / "out" / "data")]
    assert names[:40] == [row["name"] for row in make_rows("name", PRODUCTS)]
    assert {*names[40:]} == {"[PERSON]"}
    assert next(one for one in result.columns if one.name == "name").taken_for == "category"


def test_a_replay_decides_the_same(tmp_path: Path) -> None:
    rows = [
        {**row, "author": "Zyq Blorbax", "posted": "Anna Roe", "id": f"q{number}@example.com"}
        for number, row in enumerate(make_rows("name", PRODUCTS))
    ]
    path = write_json_lines(tmp_path / "in.jsonl", rows)
    result = sanitize.run(path, tmp_path / "out", plan="redact", seed=1, id_column="id")
    policies = {column.name: column.policy for column in result.columns}
    assert [policies[name] for name in ("author", "posted", "name", "doc_id")] == [
        CODE,
        CODE,
        SEARCHED,
        CODE,
    ]
    replayed = sanitize.replay(tmp_path / "out" / "manifest.json", path, tmp_path / "again")
    assert replayed.published and not replayed.different_shards


ROW = {"text": "hello", "author": "zyq77", "Sender": {"name": "Zyq Blorbax"}, "user": LONG}


@pytest.mark.parametrize("form", ["dictionaries", "tables"])
def test_a_stream_goes_by_names_and_types(form: str) -> None:
    rows: Any = [ROW, {**ROW, "author": None}, {**ROW, "author": "quinnv"}]
    if form == "tables":
        rows = pa.Table.from_pylist(rows)
    clean = list(sanitize.stream(rows, plan="redact", seed=1, batch=2))
    if form == "tables":
        clean = pa.Table.from_batches(clean).to_pylist()
    authors = [row["author"] for row in clean]
    assert authors[1] is None and len({*authors}) == 3
    assert not {"zyq77", "quinnv"} & {*authors}
    for row in clean:
        assert (row["Sender"], row["user"]) == ({"name": "[PERSON]"}, LONG)


def test_redact_of_a_frame_codes_people() -> None:
    clean = sanitize.redact(pl.DataFrame([{"text": "hello", "author": "zyq77"}]), plan="redact")
    assert clean["text"].to_list() == ["hello"] and clean["author"][0] not in (None, "zyq77")


def test_counts_of_tasks_are_joined() -> None:
    few, many = (CellCounts(filled=2, distinct=tuple(range(no))) for no in (2, 300))
    assert (few + few).distinct == (0, 1) and (few + few).filled == 4
    assert (few + many).distinct is None and (many + few).distinct is None


# columns of strings without one called text, and which of them is the main text
MAIN_TEXTS = [
    (["level", "message", "service"], "message"),
    (["title", "body"], "body"),
    (["first_name", "email", "remark"], "remark"),
    (["id", "email", "Notes"], "Notes"),
    (["email", "first_name"], "email"),
]


@pytest.mark.parametrize(("names", "main"), MAIN_TEXTS)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_without_a_column_text(
    suffix: str, names: list[str], main: str, tmp_path: Path
) -> None:
    rows = [{name: f"{name} {no} at 312-555-0178" for name in names} for no in range(12)]
    path, frame = tmp_path / f"in.{suffix}", pl.DataFrame(rows)
    writers = {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}
    writers[suffix](path)
    result = sanitize.run(path, tmp_path / "out", seed=1, workers=1)
    assert any(f"the main text is {main}, since" in note for note in result.notes)
    assert next(one for one in result.columns if one.name == main).why.startswith("the main text")
    published = read_rows(tmp_path / "out" / "data")
    assert "0178" not in str(published)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"]["roles"]["text"] == [main]
    new = [{**row, names[0]: "more"} for row in rows]
    appended = write_json_lines(tmp_path / "new.jsonl", new)
    sanitize.run(appended, tmp_path / "out", append=True, workers=1)
    assert len(read_rows(tmp_path / "out" / "data")) == 24


def test_a_record_may_lack_a_main_text_that_was_chosen(tmp_path: Path) -> None:
    rows = [{"message": "call 312-555-0178"}, {"event": "start"}] * 6
    path = write_json_lines(tmp_path / "in.jsonl", rows)
    result = sanitize.run(path, tmp_path / "out", seed=1, workers=1)
    assert (result.documents_out, result.quarantined) == (12, 0)
    again = sanitize.replay(tmp_path / "out", path, tmp_path / "again", workers=1)
    assert again.same and again.published
    new = write_json_lines(tmp_path / "new.jsonl", [{"event": "stop"}, {"message": "bye"}])
    appended = sanitize.run(new, tmp_path / "out", append=True, workers=1)
    assert (appended.documents_out, appended.quarantined) == (14, 0)
    with pytest.raises(SanitizeError, match="quarantine"):
        sanitize.run(path, tmp_path / "named", text_column="message", workers=1)


HEADERLESS = "Maria Kowalska,Main Street 5,Springfield\nJon Doe,Elm Street 7,Springfield\n"


def test_an_append_goes_by_the_main_text_that_was_chosen(tmp_path: Path) -> None:
    for name, row in (("1", {"body": "b"}), ("2", {"body": "b", "content": "c"})):
        write_json_lines(tmp_path / "in" / f"{name}.jsonl", [row] * 3)
    sanitize.run(tmp_path / "in", tmp_path / "out", workers=1)
    write_json_lines(tmp_path / "in" / "3.jsonl", [{"body": "d", "content": "e"}] * 3)
    assert (
        sanitize.run(tmp_path / "in", tmp_path / "out", append=True, workers=1).documents_out == 9
    )


def test_a_table_without_a_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    for content in (
        "Call Ann,1\nBob,2\n",
        "hello there,some words\na,b\n",
        "a@b.example,x\n",
        HEADERLESS,
    ):
        path.write_text(content)
        with pytest.raises(SanitizeError, match="first line"):
            sanitize.run(path, tmp_path / "out", workers=1)
