"""The functions that take data in memory take all of its types, give back what they got, and name
themselves in errors."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.errors import InputRefused, UsageError

Console = Callable[..., tuple[int, str, str]]

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


def _parquet(rows: Mapping[str, list[Any]]) -> bytes:
    pq.write_table(pa.table(dict(rows)), sink := io.BytesIO())
    return sink.getvalue()


# name -> bytes; the texts of ROWS in each format that `redact` writes
FILES: dict[str, bytes] = {
    "a.txt": f"{ROWS['text'][0]}\r\n".encode(),
    "mark.log": codecs.BOM_UTF8 + str(ROWS["text"][0]).encode(),
    "mark_16.md": codecs.BOM_UTF16_LE + str(ROWS["text"][0]).encode("utf-16-le"),
    "small.txt.gz": gzip.compress(str(ROWS["text"][2]).encode(), mtime=0),
    "a.csv": "n,text\r\n007,{}\r\n".format(ROWS["text"][0]).encode(),
    "a.jsonl": "".join(json.dumps(row) + "\n" for row in _records(ROWS)).encode(),
    "a.json": json.dumps(_records(ROWS)).encode(),
    "a.eml": "Subject: a\n\n{}\n".format(ROWS["text"][2]).encode(),
    "a.parquet": _parquet(ROWS),
    "-": str(ROWS["text"][0]).encode(),  # no standard input
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    return [Path(name) for name in FILES]


@pytest.mark.filterwarnings("ignore:redact. a.eml. of each mail")
def test_a_path_is_redacted_as_by_the_command(files: list[Path], console: Console) -> None:
    contents = [sanitize.redact(path) for path in files]
    assert sanitize.redact(files) == contents  # each decides on its own in this plan
    assert sanitize.redact((files[0], files[0])) == (contents[0], contents[0])
    assert contents[0] == f"{CLEAN[0]}\r\n"
    for path, content in zip(files, contents, strict=True):
        assert console("redact", path.absolute(), "-o", "out", "-q")[0] == 0
        written = Path("out").read_bytes()
        if path.suffix == ".parquet":
            assert content == written
            assert pq.read_table(io.BytesIO(content)).to_pydict() == {"n": ROWS["n"], "text": CLEAN}
        else:
            encoding = "utf-16" if path.name == "mark_16.md" else "utf-8-sig"
            assert content == written.decode(encoding)
            assert "[" in content and "ann.lee" not in content and "555" not in content
    assert sanitize.redact(Path("a.csv"), drop="n") == f"text\r\n{CLEAN[0]}\r\n"


def test_what_a_file_cannot_keep_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(FILES["a.eml"])
    with pytest.warns(UserWarning, match="^redact: .*a.eml: of each mail") as warned:
        sanitize.redact(tmp_path / "a.eml")
    assert warned[0].filename == __file__


def test_a_path_is_searched_as_by_the_command(files: list[Path], console: Console) -> None:
    texts = [path for path in files if path.suffix != ".parquet"]
    found = sanitize.detect(texts, values=True)
    names = [path.absolute() if path.name == "-" else path for path in texts]
    code, out, _ = console("detect", *names, "--json", "--reveal")
    assert code == 0
    listed = [json.loads(line) for line in out.splitlines()]
    assert {row["file"] for row in listed} == {str(name) for name in names}
    for row in listed:
        del row["score"]
    assert found.drop("score").to_dicts() == listed
    alone = sanitize.detect(Path("a.txt"), values=True)
    assert alone.equals(found.filter(pl.col("file") == "a.txt"))
    texts_alone = sanitize.detect(FILES["a.txt"].decode(), values=True)
    assert alone.drop("file").equals(texts_alone)
    assert "value" not in sanitize.detect(Path("a.txt")).columns


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
        (lambda: sanitize.detect([Path(__file__), "a"]), "detect: texts[1] is of type str"),
        (lambda: sanitize.redact((Path(__file__), None)), "redact: texts[1] is of type NoneType"),
        (lambda: sanitize.redact(["a", Path(__file__)]), "redact: texts[1] is of type"),
        (lambda: sanitize.detect(Path(__file__), text_column="text"), "detect: text_column"),
        (
            lambda: sanitize.redact(Path(__file__).parent),
            f"redact: {Path(__file__).parent}: is a f",
        ),
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
        (lambda: sanitize.detect(pa.table([["a"], ["b"]], ["t", "t"])), "detect: two columns"),
        (lambda: sanitize.redact(pa.table([["a"], ["b"]], ["t", "t"])), "redact: two columns"),
        (lambda: sanitize.run(pl.DataFrame({"o": [object()]})), "run: column o holds Python"),
        (lambda: sanitize.detect(pl.DataFrame({"o": [object()]})), "detect: column o holds Python"),
    ],
)
def test_errors_name_the_function(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(message)):
        call()


@pytest.mark.parametrize("function", [sanitize.detect, sanitize.redact])
def test_a_path_that_cannot_be_read_is_named(function: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1\2")
    for name, words in (("none.txt", "there is no such file"), ("a.bin", "it holds no text")):
        for given in (tmp_path / name, [tmp_path / name]):
            with pytest.raises(InputRefused, match=f"{re.escape(str(tmp_path / name))}: {words}"):
                function(given)
    with pytest.raises(InputRefused, match="or read it and give its texts$"):
        function(tmp_path / "a.bin")


def test_a_folder_is_searched_and_files_without_text_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1\2")
    (tmp_path / "b.txt").write_bytes(FILES["a.txt"])
    with pytest.warns(UserWarning, match="^detect: 1 files of folders hold no text") as warned:
        found = sanitize.detect(tmp_path)
    assert warned[0].filename == __file__
    assert found.select("file", "kind").rows() == [(str(tmp_path / "b.txt"), "EMAIL_ADDRESS")]


@pytest.mark.parametrize("function", [sanitize.detect, sanitize.redact, sanitize.run])
def test_columns_of_pandas_with_one_name_as_texts_are_refused(
    function: Callable[..., Any],
) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1], 1: ["ann@example.org"], "1": ["a"]})
    with pytest.raises(UsageError, match=f"^{function.__name__}: columns 1 and 2 "):
        function(frame)
    assert sanitize.redact(frame[["n", 1]])[1].to_list() == ["[EMAIL_ADDRESS]"]


def test_columns_named_as_internal_ones_are_searched() -> None:
    names = ["doc_id", "doc_no", "doc_no_"]
    frame = pl.DataFrame({name: [f"{name[-2]}@example.org"] * 2 for name in names})
    found = sanitize.detect(frame, plan="redact", values=True)
    assert found.select("text_index", "column", "value").rows() == [
        (row, name, f"{name[-2]}@example.org") for row in range(2) for name in sorted(names)
    ]
    nested = sanitize.detect([{"doc_id": {"a": "ann@example.org"}}], text_column="doc_id.a")
    assert nested["column"].to_list() == ["doc_id.a"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["call me", 2055550142], ["call me", "[PHONE_NUMBER]"]),
        (["ann@example.org", 7, None, True], ["[EMAIL_ADDRESS]", 7, None, True]),
        ([["ann@example.org"], {"a": 7}], [["[EMAIL_ADDRESS]"], {"a": 7}]),
        (["7", 7], ["7", 7]),  # a text stays a text
    ],
)
def test_values_of_several_types_keep_theirs(values: list[Any], expected: list[Any]) -> None:
    records = [{"phone": value, "text": "a"} for value in values]
    assert [one["phone"] for one in sanitize.redact(records)] == expected


@pytest.mark.filterwarnings("ignore:not in the result")
def test_a_code_for_a_number_is_a_text() -> None:
    (clean,) = sanitize.run([{"user_id": 5, "text": "mail ann@example.org"}], plan="redact")
    assert isinstance(clean["user_id"], str) and clean["user_id"] != "5"
    assert clean["text"] == "mail [EMAIL_ADDRESS]"


class Pair(NamedTuple):
    first: Any
    second: Any


def test_a_named_tuple_comes_back_as_a_tuple() -> None:
    assert sanitize.redact(Pair("ann@example.org", "a")) == ("[EMAIL_ADDRESS]", "a")
    records = Pair({"text": "ann@example.org"}, {"text": "a"})
    assert sanitize.redact(records) == ({"text": "[EMAIL_ADDRESS]"}, {"text": "a"})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([{"a": "b"}, {1: "b"}], "record 1 (from 0) has a field whose name is of type int"),
        ([{"text": "\ud800"}], "a text or the name of a field holds a lone surrogate"),
        ([{"text": ["\ud800", 3]}], "a text or the name of a field holds a lone surrogate"),
        ([{"\ud800": "a"}], "a text or the name of a field holds a lone surrogate"),
        ([{"x": "a"}, {"x": date(2020, 1, 2)}], "the records have a column of values of several"),
    ],
)
@pytest.mark.parametrize("function", [sanitize.detect, sanitize.redact, sanitize.run])
def test_records_that_are_no_columns_are_refused(
    function: Callable[..., Any], data: list[Any], message: str
) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(f"{function.__name__}: {message}")):
        function(data)


@pytest.mark.parametrize("function", [sanitize.detect, sanitize.redact])
def test_a_series_of_pandas_that_is_no_column_of_texts_is_refused(
    function: Callable[..., Any],
) -> None:
    pandas = pytest.importorskip("pandas")
    for values, message in ((["\ud800"], "a text holds a lone"), (["a", 3], "texts is a Series")):
        with pytest.raises(UsageError, match=f"^{function.__name__}: {message}"):
            function(pandas.Series(values, dtype=object))


@pytest.mark.parametrize("name", TYPES)
def test_numbers_of_users_become_codes(name: str) -> None:
    given = TYPES[name]({"user_id": [7, None, 7], "text": ROWS["text"]})
    clean = _to_columns(sanitize.redact(given, plan="redact", seed=1))
    assert clean["text"] == CLEAN
    first, none, last = clean["user_id"]
    assert none is None and first == last and re.fullmatch("u[0-9a-f]{16}", first)
    texts = pl.DataFrame({"user_id": ["7"], "text": ["a"]})
    assert sanitize.redact(texts, plan="redact", seed=1)["user_id"].to_list() == [first]
