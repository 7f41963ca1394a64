"""The functions that take data in memory take all of its types, give back what they got, and name
themselves in errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import sanitize
from sanitize.errors import UsageError

ROWS: dict[str, list[Any]] = {
    "n": [7, 8, 9],
    "text": ["Write to ann.lee@example.org", None, "or call +1 212 555 0123"],
}
CLEAN = ["Write to [EMAIL_ADDRESS]", None, "or call [PHONE_NUMBER]"]


def _records(rows: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]


def _pandas(rows: Mapping[str, list[Any]]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(rows, index=[3, 1, 2])


def _dataset(rows: Mapping[str, list[Any]]) -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(dict(rows))


def _dataset_dict(rows: Mapping[str, list[Any]]) -> Any:
    datasets = pytest.importorskip("datasets")
    parts = {
        split: {name: values[low:high] for name, values in rows.items()}
        for split, low, high in (("train", 0, 2), ("test", 2, 3))
    }
    return datasets.DatasetDict({name: _dataset(part) for name, part in parts.items()})


def _to_columns(data: Any) -> dict[str, list[Any]]:
    """Any of the types as lists of values, with None for what is missing."""
    if isinstance(data, Mapping):  # a DatasetDict
        parts = [_to_columns(part) for part in data.values()]
        return {name: [value for part in parts for value in part[name]] for name in parts[0]}
    if isinstance(data, list | tuple):
        return {name: [record[name] for record in data] for name in data[0]}
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    if isinstance(data, pl.DataFrame):
        return data.to_dict(as_series=False)
    if isinstance(data, pa.Table):
        return data.to_pydict()
    if hasattr(data, "features"):
        return dict(data[:])
    return {
        name: [None if value != value else value for value in data[name]] for name in data.columns
    }


TYPES: dict[str, Callable[[Mapping[str, list[Any]]], Any]] = {
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "pandas": _pandas,
    "arrow": pa.table,
    "records": _records,
    "tuple": lambda rows: tuple(_records(rows)),
    "dataset": _dataset,
    "dataset_dict": _dataset_dict,
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("function", [sanitize.redact, sanitize.run])
def test_the_same_type_comes_back(name: str, function: Callable[..., Any]) -> None:
    given = TYPES[name](ROWS)
    clean = function(given, plan="redact", text_column="text")
    assert type(clean) is type(given)
    assert _to_columns(clean) == {"n": ROWS["n"], "text": CLEAN}
    assert _to_columns(given) == ROWS
    if name == "pandas":
        assert clean.index.tolist() == [3, 1, 2]


@pytest.mark.parametrize("name", TYPES)
def test_detect_reports_rows_and_columns(name: str) -> None:
    found = sanitize.detect(TYPES[name](ROWS), plan="redact", values=True, text_column="text")
    columns = ["text_index", "column", "kind", "start", "value"]
    expected = [
        (0, "text", "EMAIL_ADDRESS", 9, "ann.lee@example.org"),
        (2, "text", "PHONE_NUMBER", 8, "+1 212 555 0123"),
    ]
    if name == "dataset_dict":
        assert found["split"].to_list() == ["train", "test"]
        expected[1] = (0, *expected[1][1:])
    assert found.select(columns).rows() == expected


@pytest.mark.parametrize("name", TYPES)
def test_explain_and_diff_take_it(name: str) -> None:
    given = TYPES[name](ROWS)
    explained = sanitize.explain(given, plan="redact", text_column="text")
    assert explained.sampled_documents == 3
    kinds = {example.kind: example.after for example in explained.examples}
    assert kinds == {"EMAIL_ADDRESS": "[EMAIL_ADDRESS]", "PHONE_NUMBER": "[PHONE_NUMBER]"}
    changed = sanitize.diff(given, plan="redact", text_column="text", reveal=True)
    assert changed.matching == 2
    pieces = [piece for one in changed.documents for cell in one.cells for piece in cell.pieces]
    marked = [(piece.before, piece.after) for piece in pieces if piece.kind]
    assert marked == [
        ("ann.lee@example.org", "[EMAIL_ADDRESS]"),
        ("+1 212 555 0123", "[PHONE_NUMBER]"),
    ]
    assert "tmp" not in f"{explained.to_dict()}{changed.to_dict()}"


def test_the_texts_of_all_columns_and_messages_are_found() -> None:
    records = [
        {"messages": [{"role": "user", "content": "ann@example.org"}], "note": "b@example.org"}
    ]
    found = sanitize.detect(records, values=True)
    assert found.select("column", "value").rows() == [
        ("messages[].content", "ann@example.org"),
        ("note", "b@example.org"),
    ]
    some = sanitize.detect(records, text_column="messages[].content")
    assert some["column"].to_list() == ["messages[].content"]


def test_a_row_that_a_run_drops_is_missing_in_the_type_given() -> None:
    text = " ".join(f"word{number}" for number in range(60))
    plan = sanitize.Plan.load("redact").with_({"drop": [{"use": "exact_dup"}]})
    for name in ("pandas", "records"):
        with pytest.warns(UserWarning, match="1 of 3 rows"):
            clean = sanitize.run(TYPES[name]({"text": [text, "a@example.org", text]}), plan=plan)
        assert _to_columns(clean) == {"text": [text, "[EMAIL_ADDRESS]"]}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sanitize.detect(Path("a.txt")), "detect: a Path is given"),
        (lambda: sanitize.redact(Path("a.txt")), "redact: a Path is given"),
        (lambda: sanitize.detect("a text", text_column="text"), "detect: text_column"),
        (lambda: sanitize.detect(_records(ROWS), text_column="txt"), "detect: text_column=txt"),
        (lambda: sanitize.detect(3), "detect: texts is of type int"),
        (lambda: sanitize.redact(3), "redact: texts is of type int"),
        (lambda: sanitize.run(3), "run: inputs is an int"),
        (lambda: sanitize.explain(3), "explain: inputs is an int"),
        (lambda: sanitize.diff(3), "diff: out is an int"),
        (lambda: sanitize.diff("out", plan="redact"), "diff: plan is for data in memory"),
        (lambda: sanitize.redact([{"text": "a"}, "b"]), "redact: record 1 (from 0) is of type str"),
        (lambda: sanitize.explain([{"text": "a"}, 3]), "explain: record 1 (from 0) is of type int"),
        (lambda: sanitize.diff(pa.table([["a"], ["b"]], ["t", "t"])), "diff: two columns"),
        (lambda: sanitize.run(pl.DataFrame({"o": [object()]})), "run: column o holds Python"),
        (lambda: sanitize.detect(pl.DataFrame({"o": [object()]})), "detect: column o holds Python"),
    ],
)
def test_errors_name_the_function(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(message)):
        call()
