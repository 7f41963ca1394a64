"""Twenty tables as public data has them, with no option given: what every column is taken for and
what becomes of every field (column_schemas.json), nothing stops, no text becomes codes, and no
identifier is left.

The golden file holds what a user wants; where the program does something else, the case is in
`WRONG` with the reason.
"""

from __future__ import annotations

import functools
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sanitize
from tests.pipeline.column_schemas import SCHEMAS, Table, build_schema, write_table
from tests.support import read_rows

GOLDEN = json.loads(Path(__file__).with_name("column_schemas.json").read_text(encoding="utf-8"))
_CODE = re.compile(r"[^\W\d]?[0-9a-f]{16}")
_LABEL = re.compile(r"\[[A-Z_]+\]")

# (schema, column): why something else than the golden file says comes out
WRONG: dict[tuple[str, str], str] = {}
# (schema, identifiers): why they are left
_NAME_ALONE = "a given name or surname alone is not searched, though a column has the full name"
_PLAIN_USER = "a user name of letters and a dot is not searched, though a column has it"
LEFT = {
    ("orders", "Tevita Hina Zyq Rajiv Nguyen Oluwaseun"): _NAME_ALONE,
    ("hr_records", "Nwokwuma Sigmarsdal Patelkar"): _NAME_ALONE,
    ("code_reviews", "bjork.s f.rashedi seun.ade"): _PLAIN_USER,
}


@dataclass(frozen=True)
class Outcome:
    """Of one run: for each column what it is taken for and its policy, what became of each field,
    and the published rows and files as one text."""

    table: Table
    columns: dict[str, tuple[str, str]]
    fields: dict[str, str]
    published: str


@functools.cache
def run_schema(name: str) -> Outcome:
    table = build_schema(name)
    options: dict[str, Any] = {"text_column": table.text_column} if table.text_column else {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        path = write_table(table, Path(folder))
        result = sanitize.run(path, out, plan="redact", seed=1, workers=1, **options)
        rows = read_rows(out / "data")
        files = [
            one.read_text(encoding="utf-8")
            for one in sorted(out.rglob("*"))
            if one.suffix in (".json", ".md", ".html")
        ]
    added = {"doc_id", "user_id"} - {*table.rows[0]}
    return Outcome(
        table=table,
        columns={
            one.name: (one.taken_for, one.policy) for one in result.columns if one.name not in added
        },
        fields=describe_fields(table.rows, rows),
        published="\n".join([*(str(value) for _, value in walk(rows, "")), *files]),
    )


def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The fields inside a value, each with its path; of JSON in a text, too."""
    if isinstance(value, str) and value[:1] == "{":
        value, path = json.loads(value), f"{path}{{}}"
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from walk(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner, f"{path}[]")
    else:
        yield path, value


def describe_fields(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, str]:
    """What became of each field with values: `codes`, `replaced` (each value as a whole),
    `searched` (parts of values, or some of them), or `kept`."""
    pairs: dict[str, list[tuple[Any, Any]]] = {}
    for old, new in zip(before, after, strict=True):
        for column, cell in old.items():
            found = [(path, value) for path, value in walk(new[column], column)]
            values: dict[str, list[Any]] = {}
            for path, value in found:
                values.setdefault(path, []).append(value)
            for path, value in walk(cell, column):
                cells = values.get(path, [])
                # a field that rows lack is null in the output
                while cells and cells[0] is None and value not in (None, ""):
                    cells.pop(0)
                if value not in (None, ""):
                    pairs.setdefault(path, []).append((value, cells.pop(0) if cells else None))
    return {path: _describe(values) for path, values in sorted(pairs.items())}


def _describe(pairs: list[tuple[Any, Any]]) -> str:
    changed = [(old, new) for old, new in pairs if new != old]
    if not changed:
        return "kept"
    texts = [str(new) for _, new in changed]
    if len(changed) == len(pairs) and all(map(_CODE.fullmatch, texts)):
        return "codes"
    whole = [new for _, new in changed if new is None or _LABEL.fullmatch(str(new))]
    return "replaced" if len(whole) == len(pairs) else "searched"


def find_left(outcome: Outcome) -> set[str]:
    return {
        value
        for value in outcome.table.identifiers
        if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", outcome.published)
    }


def list_known_left(name: str) -> set[str]:
    return {value for schema, values in LEFT if schema == name for value in values.split()}


def list_expected(name: str, column: str) -> tuple[tuple[str, str], dict[str, str]]:
    """What the golden file says of a column: taken for and policy, and each of its fields."""
    taken_for, policy, fields = GOLDEN[name][column]
    paths = {"": fields} if isinstance(fields, str) else fields
    return (taken_for, policy), {column + path: became for path, became in paths.items()}


def select_fields(outcome: Outcome, column: str) -> dict[str, str]:
    """The fields of a column with what became of them; a column without values is kept."""
    own = re.compile(rf"{re.escape(column)}(?:[.\[{{].*)?")
    found = {path: became for path, became in outcome.fields.items() if own.fullmatch(path)}
    return found or {column: "kept"}


@pytest.mark.parametrize("name", SCHEMAS)
def test_columns_and_identifiers_of_public_schemas(name: str) -> None:
    outcome = run_schema(name)
    assert {*GOLDEN[name]} == {*outcome.columns}
    for column, decided in outcome.columns.items():
        if (name, column) not in WRONG:
            found = (decided, select_fields(outcome, column))
            assert found == list_expected(name, column), column
    texts = {path: outcome.fields.get(path, "kept") for path in outcome.table.texts}
    assert {*texts.values()} <= {"kept", "searched"}, texts
    assert {*outcome.table.texts} <= {*outcome.fields}
    assert not find_left(outcome) - list_known_left(name)


@pytest.mark.parametrize(
    ("name", "column"),
    [pytest.param(*case, marks=pytest.mark.xfail(reason=why)) for case, why in WRONG.items()],
)
def test_columns_that_are_decided_wrongly(name: str, column: str) -> None:
    outcome = run_schema(name)
    found = (outcome.columns[column], select_fields(outcome, column))
    assert found == list_expected(name, column)


@pytest.mark.parametrize(
    ("name", "values"),
    [pytest.param(*case, marks=pytest.mark.xfail(reason=why)) for case, why in LEFT.items()],
)
def test_identifiers_that_are_left(name: str, values: str) -> None:
    assert not find_left(run_schema(name)) & {*values.split()}


def test_the_schemas_plant_what_they_say() -> None:
    assert len(SCHEMAS) == 20 and {*GOLDEN} == {*SCHEMAS}
    formats = set()
    for name in SCHEMAS:
        table = build_schema(name)
        formats.add(table.format)
        assert 40 <= len(table.rows) <= 60 and len(table.identifiers) >= 8
        assert build_schema(name).rows == table.rows
    assert formats == {"csv", "jsonl", "parquet"}
