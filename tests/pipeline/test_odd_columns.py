"""Columns that are not what their names or types say: types that differ between files, options
that contradict each other, many fields, empty columns, names without letters. Nothing stops, no
text becomes codes, and no value of a kind is left.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sanitize
from tests.support import read_rows, write_json_lines

ROWS = 30
ANN, ZYQ, PHONE = "ann.roe@example.com", "Zyq Blorbax", "312-555-0178"
Row = dict[str, Any]
CODE = object()  # in place of a cell


def run_files(folder: Path, *files: list[Row]) -> tuple[list[Row], dict[str, tuple[str, str]]]:
    """The published rows, and the policy and the role of each column."""
    for number, rows in enumerate(files):
        write_json_lines(folder / "in" / f"{number}.jsonl", rows)
    result = sanitize.run(folder / "in", folder / "out", plan="redact", seed=1, workers=1)
    columns = {one.name: (one.policy, one.taken_for) for one in result.columns}
    return read_rows(folder / "out" / "data"), columns


def make_rows(name: str, cells: list[Any], count: int = ROWS) -> list[Row]:
    return [{"text": f"Line {no}.", name: cells[no % len(cells)]} for no in range(count)]


# name of a column, its cells in the first file, those in the second one, what comes out of each
TYPE_CHANGES: dict[str, tuple[str, list[Any], list[Any], Any]] = {
    "numbers, then strings": ("phone", [3125550178], [PHONE], "[PHONE_NUMBER]"),
    "numbers, then nothing": ("note", ["Fine."], [None], "kept"),
    "a name, then a list": ("author", [ZYQ], [[ZYQ]], CODE),
    "a name, then an object": ("owner", [ZYQ], [{"name": ZYQ, "phone": PHONE}], CODE),
    "flags, then long texts": ("user", [True], ["What is the way to the station?"], "kept"),
}


@pytest.mark.parametrize("case", TYPE_CHANGES)
def test_a_column_that_changes_its_type_between_files(case: str, tmp_path: Path) -> None:
    name, first, second, expected = TYPE_CHANGES[case]
    files = make_rows(name, first), make_rows(name, second)
    rows, columns = run_files(tmp_path, *files)
    assert len(rows) == 2 * ROWS
    assert not [row for row in rows if ZYQ in str(row) or PHONE in str(row)]
    if expected is CODE:
        assert columns[name] == ("pseudonymize", "people")
    elif expected == "kept":
        texts = [None if cell is None else str(cell) for cell in (first[0], second[0])]
        found = [None if row[name] is None else str(row[name]) for row in rows]
        assert [one and one.lower() for one in found] == [
            text and text.lower() for text in texts for _ in range(ROWS)
        ]
    else:
        assert {row[name] for row in rows} == {expected}


# name of a column in a script without case, a cell, what comes out
CASELESS = [
    ("電話番号", "3125550178", "[PHONE_NUMBER]"),
    ("携帯_番号", "3125550178", "[PHONE_NUMBER]"),
    ("手机号码 (家)", "3125550178", "[PHONE_NUMBER]"),
    ("密码", "hunter2secret", "[SECRET]"),
    ("氏名", ZYQ, CODE),
    ("联系人", ZYQ, CODE),
    ("担当者2", ZYQ, CODE),
    ("이름", ZYQ, "[PERSON]"),
    ("الاسم", ZYQ, "[PERSON]"),
    ("备注", "下雨了", "下雨了"),
    ("ملاحظة", "مرحبا", "مرحبا"),
]


def test_names_in_scripts_without_case(tmp_path: Path) -> None:
    row = {"text": "Line.", **{name: cell for name, cell, _ in CASELESS}}
    (clean, *_), columns = run_files(tmp_path, [row] * 3)
    for name, cell, expected in CASELESS:
        if expected is CODE:
            assert columns[name] == ("pseudonymize", "people") and clean[name] != cell, name
        else:
            assert (clean[name], columns[name][0]) == (expected, "sanitize"), name


# name of a column, its cells, its policy, its cells in the output (None: codes)
CELLS: dict[str, tuple[str, list[Any], str, list[Any] | None]] = {
    "products": ("name", ["Desk Lamp", "Oak Chair"], "sanitize", ["Desk Lamp", "Oak Chair"]),
    "parties of a chat": ("from", ["human", "gpt"], "sanitize", ["human", "gpt"]),
    "an empty column of a kind": ("ssn", [None], "sanitize", [None]),
    "a blank column of a kind": ("ssn", [" "], "sanitize", [" "]),
    "models of phones": ("phone", ["iPhone 12", "Pixel 7"], "sanitize", ["iPhone 12", "Pixel 7"]),
    "models of phones and a phone": (
        "phone",
        ["iPhone 12", "Pixel 7", PHONE],
        "sanitize",
        ["iPhone 12", "Pixel 7", "[PHONE_NUMBER]"],
    ),
    "one author": ("author", [*[None] * (ROWS - 1), ZYQ], "pseudonymize", None),
    "one name": ("name", [*[None] * (ROWS - 1), ZYQ], "pseudonymize", None),
    "one listed name elsewhere": (
        "posted",
        [*[None] * (ROWS - 1), "Maria Kowalski"],
        "sanitize",
        [*[None] * (ROWS - 1), "[PERSON]"],
    ),
    "package managers": ("manager", ["npm", "yarn"], "sanitize", ["npm", "yarn"]),
    "companies as payees": (
        "payee",
        ["Acme Store", "Gas Co"],
        "sanitize",
        ["Acme Store", "Gas Co"],
    ),
    "hashed addresses": ("hashed_ip", ["a7f0", "b8e1"], "sanitize", ["a7f0", "b8e1"]),
    "flags of users": ("active_user", ["true", "false"], "sanitize", ["true", "false"]),
}


@pytest.mark.parametrize("case", CELLS)
def test_cells_decide_before_names(case: str, tmp_path: Path) -> None:
    name, cells, policy, expected = CELLS[case]
    rows, columns = run_files(tmp_path, make_rows(name, cells))
    assert columns[name][0] == policy
    if expected is None:
        assert [row[name] is None for row in rows] == [cell is None for cell in cells]
        assert not {row[name] for row in rows} & {ZYQ}
    else:
        assert [row[name] for row in rows] == [expected[no % len(expected)] for no in range(ROWS)]


@pytest.mark.xfail(reason="the name of a column says its kind, also where no cell is of it")
def test_a_column_without_a_value_of_the_kind_is_not_taken_for_it(tmp_path: Path) -> None:
    _, columns = run_files(tmp_path, make_rows("phone", ["iPhone 12", "Pixel 7"]))
    assert columns["phone"] == ("sanitize", "text")


@pytest.mark.xfail(reason="a list of one name has another code than the name")
def test_one_person_has_one_code_in_a_column_that_changes_its_type(tmp_path: Path) -> None:
    rows, _ = run_files(tmp_path, make_rows("author", [ZYQ]), make_rows("author", [[ZYQ]]))
    assert len({row["author"] for row in rows}) == 1


@pytest.mark.xfail(reason="a blank cell of a column of people becomes a code, as if of somebody")
def test_blank_cells_of_people_stay_blank(tmp_path: Path) -> None:
    rows, _ = run_files(tmp_path, make_rows("author", ["", ZYQ]))
    assert {row["author"] for row in rows[::2]} == {""}


def test_a_number_that_a_text_has_does_not_stop_a_run(tmp_path: Path) -> None:
    rows = [{"text": f"Call {3125550100 + no}.", "phone": 3125550100 + no} for no in range(ROWS)]
    clean, _ = run_files(tmp_path, rows)
    assert {(row["text"], row["phone"]) for row in clean} == {("Call [PHONE_NUMBER].", None)}


@pytest.mark.parametrize("name", ["", " ", "...", "-", "_", "()", "[]", "{}", "🙂", "\u200b", '"'])
def test_names_without_letters(name: str, tmp_path: Path) -> None:
    rows, columns = run_files(tmp_path, make_rows(name, [f"Write to {ANN}", PHONE]))
    assert columns[name] == ("sanitize", "text")
    assert [row[name] for row in rows[:2]] == ["Write to [EMAIL_ADDRESS]", "[PHONE_NUMBER]"]


def test_contradicting_options_name_the_column(
    console: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_json_lines(tmp_path / "in.jsonl", make_rows("author", [ZYQ]))
    toml = tmp_path / "sanitize.toml"
    command = ("run", "in.jsonl", "-o", "out", "--seed", "1", "--quiet")
    toml.write_text('keep = ["author"]\ndrop = ["author"]\n')
    code, _, error = console(*command)
    assert code == 2 and "author" in error and "--keep" in error and "--drop" in error
    assert not (tmp_path / "out").exists()
    toml.write_text('keep = ["author"]\n')
    assert console(*command, "--drop", "author")[0] == 0
    assert "author" not in read_rows(tmp_path / "out" / "data")[0]


def count_calls(folder: Path, fields: int) -> int:
    """The calls of Python functions in a run over rows with so many nested fields."""
    names = [f"{('note', 'phone')[no % 2]}_{no}" for no in range(fields)]
    meta = {name: (PHONE if "phone" in name else "Say so.") for name in names}
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        rows, _ = run_files(folder, [{"text": "Line.", "meta": meta}] * 2)
    finally:
        sys.setprofile(None)
    assert rows[1]["meta"] == {
        name: ("[PHONE_NUMBER]" if "phone" in name else "Say so.") for name in names
    }
    return calls


@pytest.mark.slow
def test_calls_are_linear_in_nested_fields(tmp_path: Path) -> None:
    count_calls(tmp_path / "first", 2)  # builds what every process builds once
    few, many = (count_calls(tmp_path / str(fields), fields) for fields in (500, 2000))
    assert many < 6 * few


@pytest.mark.parametrize("plan", ["redact", "strict"])
def test_typed_dates_are_searched_where_the_plan_looks_for_dates(plan: str, tmp_path: Path) -> None:
    born, at = datetime.date(2019, 5, 1), datetime.datetime(2020, 1, 2, 3, 4, 5)
    rows = [
        {"text": f"Line {no}.", "born": born, "event": {"at": at, "note": "3 May 2019"}}
        for no in range(ROWS)
    ]
    path = tmp_path / "in.parquet"
    pl.DataFrame(rows).write_parquet(path)
    sanitize.run(path, tmp_path / "out", plan=plan, seed=1, workers=1)
    published = [
        {name: row[name] for name in rows[0]} for row in read_rows(tmp_path / "out" / "data")
    ]
    streamed = list(sanitize.stream(iter(rows), plan=plan, seed=1))
    assert published == streamed == sanitize.redact(pl.DataFrame(rows), plan=plan).to_dicts()
    event = {"at": None, "note": "2019"} if plan == "strict" else rows[0]["event"]
    assert published[0] == {
        "text": "Line 0.",
        "born": None if plan == "strict" else born,
        "event": event,
    }


JSON_CELLS: list[tuple[list[str | None], str]] = [
    (['{"phone": 3125550178, "n": 5}', None, " "], '{"phone": "[PHONE_NUMBER]", "n": 5}'),
    (['[{"author": "Zyq Blorbax"}]', "[]"], '[{"author": "[PERSON]"}]'),
    (['{"e": "at \\u0061nn.roe@example.com"}'], '{"e": "at [EMAIL_ADDRESS]"}'),
    # most of the cells are no JSON: all are texts
    (['{"phone": 3125550178, "n": 5}', "{5", "n/a"], '{"phone": [PHONE_NUMBER], "n": 5}'),
    (['{"phone": 3125550178}', "[]", "{5"], '{"phone": "[PHONE_NUMBER]"}'),
    (["[deleted]", "[sic]"], "[deleted]"),
]


@pytest.mark.parametrize(("cells", "expected"), JSON_CELLS)
def test_a_column_of_json_is_searched_inside(
    cells: list[str | None], expected: str, tmp_path: Path
) -> None:
    rows, columns = run_files(tmp_path, make_rows("payload", cells))
    assert rows[0]["payload"] == expected
    is_json = "n/a" not in cells and "[sic]" not in cells
    assert columns["payload"] == ("sanitize", "JSON" if is_json else "text")


def test_an_append_goes_on_with_a_column_of_json(tmp_path: Path) -> None:
    cell = '{"phone": 3125550178}'
    run_files(tmp_path, make_rows("payload", [cell]))
    rows = make_rows("payload", ["call 3125550178", cell])
    path = write_json_lines(tmp_path / "new.jsonl", rows)
    sanitize.run(path, tmp_path / "out", append=True, workers=1)
    published = [row["payload"] for row in read_rows(tmp_path / "out" / "data")]
    assert {*published} == {'{"phone": "[PHONE_NUMBER]"}', "call [PHONE_NUMBER]"}


NAMED_BY_WHAT_IT_IS_IN = [
    ({"user": {"name": "jdoe077"}}, "[USER_NAME]"),
    ({"user": {"name": ZYQ}}, "[PERSON]"),
    ({"name": {"first": "Zyq"}}, "[PERSON]"),
    ({"phone": {"number": "3125550178"}}, "[PHONE_NUMBER]"),
    ({"phones": [{"kind": "home"}]}, "home"),
    ({"phone": {"number": 3125550178}}, None),
    ({"ids": {"number": 3125550178}}, 3125550178),
    ({"company": {"name": "Zyq Blorbax Ltd"}}, "Zyq Blorbax Ltd"),
    ({"card": {"number": 4242424242424242}}, None),
    ({"n": {"ssn": 536221200}}, None),
    ({"hashed": {"phone": "3125550178"}}, "[PHONE_NUMBER]"),
]


@pytest.mark.parametrize(("value", "expected"), NAMED_BY_WHAT_IT_IS_IN)
def test_a_field_is_named_with_what_it_is_in(value: Any, expected: Any, tmp_path: Path) -> None:
    rows = [{"text": "Line.", "log": value} for _ in range(3)]
    sanitize.run(write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / "out", seed=1, workers=1)
    streamed = list(sanitize.stream(iter(rows), seed=1))
    frame = sanitize.redact(pl.DataFrame(rows), seed=1).to_dicts()
    for row in (read_rows(tmp_path / "out" / "data")[0], streamed[0], frame[0]):
        (inner,) = row["log"].values()
        assert [*(inner[0] if isinstance(inner, list) else inner).values()] == [expected]
