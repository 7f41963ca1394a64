"""Policies of parts of columns (`--drop meta.refs[].by`): a run, a stream of records and a stream
of tables give the same, and the values of what is left out are searched elsewhere."""

from __future__ import annotations

import contextlib
import decimal
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sanitize
from sanitize.errors import LeakFound, UsageError
from tests.support import read_rows, write_json_lines

ZYQ, MAIL, OTHER_MAIL = "Zyq Blorbax", "zyq@corp.example.com", "info@corp.example.com"
PHONE, OTHER_PHONE = "312-555-0178", "312-555-0199"
Row = dict[str, Any]


def make_rows() -> list[Row]:
    return [
        {
            "text": f"Line {no}: ask at {OTHER_PHONE}.",
            "meta": {
                "refs": [{"by": ZYQ, "mail": MAIL, "n": no}, {"by": None, "mail": None, "n": 5}],
                "phone": PHONE,
                "note": f"by {OTHER_MAIL}",
            },
        }
        for no in range(12)
    ]


LEFT = {
    "by": "[PERSON]",
    "mail": "[EMAIL_ADDRESS]",
    "phone": "[PHONE_NUMBER]",
    "note": "by [EMAIL_ADDRESS]",
}
CODE = "a code"

# options, and what comes out of the first record instead of `LEFT`
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"drop": "meta.refs[].by"}, {"by": None}),
    ({"drop": "meta.phone"}, {"phone": None}),
    ({"pseudonymize": "meta.refs[].by"}, {"by": CODE}),
    ({"keep": "meta.refs[].mail"}, {"mail": MAIL}),
    ({"keep": "meta.phone", "drop": ["meta.note"]}, {"phone": PHONE, "note": None}),
    (
        {"pseudonymize": ["meta.refs[].mail", "meta.refs[].by"], "drop": "meta.note"},
        {"mail": CODE, "by": CODE, "note": None},
    ),
]


@pytest.mark.parametrize(("options", "changed"), CASES)
def test_run_and_streams_agree(
    options: dict[str, Any], changed: dict[str, Any], tmp_path: Path
) -> None:
    rows = make_rows()
    result = sanitize.run(
        write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / "out", seed=1, **options
    )
    published = [
        {name: row[name] for name in ("text", "meta")}
        for row in read_rows(tmp_path / "out" / "data")
    ]
    streamed = list(sanitize.stream(iter(rows), seed=1, **options))
    frame = sanitize.redact(pl.DataFrame(rows), seed=1, **options)
    assert published == streamed == frame.to_dicts()

    first = published[0]["meta"]
    found = {**first["refs"][0], "phone": first["phone"], "note": first["note"]}
    codes = {name: value for name, value in changed.items() if value is CODE}
    assert {name: found[name] for name in LEFT if name not in codes} == {
        name: value for name, value in {**LEFT, **changed}.items() if name not in codes
    }
    assert all(found[name].startswith("m") and len(found[name]) == 17 for name in codes)
    assert first["refs"][1] == {"by": None, "mail": None, "n": 5}
    assert first["refs"][0]["n"] == 0
    policies = {one.name: one.policy for one in result.columns}
    for policy, names in options.items():
        for name in [names] if isinstance(names, str) else names:
            assert policies[name] == policy


@pytest.mark.parametrize(
    ("column", "value", "path"),
    [
        ("a", {"d.e": "q77", "z": "k"}, "a.d.e"),
        ("m", {"by": "q77", "n": 1}, "m.by"),  # the only text of its column
        ("strs", ["q77", "p"], "strs[]"),
        ("tags[]", ["q77"], "tags[][]"),
        ("my", {"[]": "q77"}, r"my.\[]"),
        ("deep", [[{"by": "q77", "n": 1}], []], "deep[][].by"),
        ("n", {"by": "q77", "ok": True}, "n.by"),
    ],
)
@pytest.mark.parametrize("policy", ["drop", "pseudonymize", "keep"])
def test_odd_names_and_columns_without_other_texts(
    column: str, value: Any, path: str, policy: str, tmp_path: Path
) -> None:
    rows = [{"text": "Line.", column: value}, {"text": "Line.", column: None}]
    options: dict[str, Any] = {policy: path}
    sanitize.run(write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / "out", seed=1, **options)
    published = [
        {name: row[name] for name in rows[0]} for row in read_rows(tmp_path / "out" / "data")
    ]
    streamed = list(sanitize.stream(iter(rows), seed=1, **options))
    assert (
        published == streamed == sanitize.redact(pl.DataFrame(rows), seed=1, **options).to_dicts()
    )
    assert ("q77" in str(published)) == (policy == "keep")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"lat": 1.5, "ok": True}, "geo.lat"),
        ({"lat": None, "ok": True}, "geo.ok"),
        ([1.5], "geo[]"),
    ],
)
def test_a_part_without_texts_is_dropped(value: Any, path: str, tmp_path: Path) -> None:
    rows = [{"text": "Line.", "geo": value}] * 2
    source = write_json_lines(tmp_path / "in.jsonl", rows)
    sanitize.run(source, tmp_path / "out", drop=path)
    (published, _) = read_rows(tmp_path / "out" / "data")
    (streamed, _) = sanitize.stream(iter(rows), drop=path)
    assert published["geo"] == streamed["geo"]
    assert sanitize.redact(pl.DataFrame(rows), drop=path)["geo"].to_list()[0] == streamed["geo"]
    assert "1.5" not in str(streamed) and (path != "geo.ok" or "True" not in str(streamed))


def test_a_name_of_a_column_is_no_path(tmp_path: Path) -> None:
    rows = [{"text": "Line.", "meta.note": "a", "meta": {"note": f"call {PHONE}"}}] * 2
    source = write_json_lines(tmp_path / "in.jsonl", rows)
    sanitize.run(source, tmp_path / "out", keep="meta.note")
    published = [row["meta"]["note"] for row in read_rows(tmp_path / "out" / "data")]
    streamed = [row["meta"]["note"] for row in sanitize.stream(iter(rows), keep="meta.note")]
    assert published == streamed == ["call [PHONE_NUMBER]"] * 2


def test_decimals_of_a_stream_are_values() -> None:
    rows = [{"text": "Line 536221200.", "ssn": decimal.Decimal("536221200")}]
    assert list(sanitize.stream(iter(rows))) == [{"text": "Line [US_SSN].", "ssn": None}]


def test_a_part_of_a_nested_id_is_dropped() -> None:
    table = pl.DataFrame({"text": ["x"], "doc_id": [{"k": "a", "secret": "q77"}]}).to_arrow()
    (batch,) = sanitize.stream(table, drop="doc_id.secret")
    assert batch.to_pylist() == [{"text": "x", "doc_id": {"k": "a", "secret": None}}]


def test_a_column_that_is_named_now_decides_about_its_parts(tmp_path: Path) -> None:
    source = write_json_lines(tmp_path / "in.jsonl", make_rows())
    sanitize.run(source, tmp_path / "out", keep="meta.refs[].mail")
    sanitize.run(source, tmp_path / "out", drop="meta", replace=True)
    assert "meta" not in read_rows(tmp_path / "out" / "data")[0]
    other = write_json_lines(tmp_path / "other.jsonl", [{"text": "Line."}])
    with pytest.raises(UsageError, match="there is no such column.*used again from the last run"):
        sanitize.run(other, tmp_path / "out", replace=True)


@pytest.mark.parametrize("option", ["drop", "keep", "sanitize"])
def test_an_append_refuses_another_option(option: str, tmp_path: Path) -> None:
    rows = [{"text": "Line.", "author": ZYQ, "posted": "Anna Roe"} for _ in range(9)]
    source = write_json_lines(tmp_path / "1.jsonl", rows)
    second = write_json_lines(tmp_path / "2.jsonl", rows[:2])
    for column in ("author", "posted"):
        out = tmp_path / f"{option}-{column}"
        sanitize.run(source, out, workers=1)
        options: dict[str, Any] = {option: column}
        with pytest.raises((UsageError, LeakFound)):
            sanitize.run(second, out, append=True, workers=1, **options)


@pytest.mark.parametrize("number", [float, decimal.Decimal])
def test_numbers_of_other_types_are_values(number: type, tmp_path: Path) -> None:
    rows = [{"text": f"Line 5362212{no:02d}.", "ssn": number(536221200 + no)} for no in range(12)]
    frame = pl.DataFrame(rows)
    frame.write_parquet(tmp_path / "in.parquet")
    for options in ({}, {"drop": "ssn"}):
        out = tmp_path / f"out{len(options)}"
        sanitize.run(tmp_path / "in.parquet", out, seed=1, **options)
        published = read_rows(out / "data")
        assert {row["text"] for row in published} == {"Line [US_SSN]."}
        assert {row.get("ssn") for row in published} == {None}
        assert {*sanitize.redact(frame, seed=1, **options)["text"]} == {"Line [US_SSN]."}


def test_names_of_fields_that_may_be_values_are_not_printed(tmp_path: Path) -> None:
    rows = [{"text": "Line.", "score": {"anna.kurz0@post.example": 1, "205-555-1199": 2, "ok": 3}}]
    with pytest.raises(UsageError, match="Known: doc_id, score, score.ok, text, user_id") as caught:
        sanitize.run(
            write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / "out", drop="score.nope"
        )
    assert "anna" not in str(caught.value) and "1199" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "note", "expected"),
    [
        ({}, "--text-column 'body', --drop 'meta.by', --drop 'note'", ["body", "meta"]),
        ({"text_column": "body"}, "--drop 'meta.by', --drop 'note'", ["body", "meta"]),
        ({"keep": "meta.n"}, "--drop 'note'", ["body", "meta"]),
        ({"plan": "strict"}, "--drop 'note'", ["body", "meta"]),
        ({"work": "other"}, "--drop 'note'", ["body", "meta"]),
        ({"sanitize": "note"}, "--drop 'meta.by'", ["body", "note", "meta"]),
    ],
)
def test_a_replacement_forgets_no_option(
    arguments: dict[str, Any], note: str, expected: list[str], tmp_path: Path
) -> None:
    rows = [
        {"body": f"Line {no}.", "note": "inner", "meta": {"by": ZYQ, "n": no}} for no in range(9)
    ]
    first = write_json_lines(tmp_path / "1.jsonl", rows)
    second = write_json_lines(tmp_path / "2.jsonl", rows[:3])
    out = tmp_path / "out"
    sanitize.run(first, out, text_column="body", drop=["note", "meta.by"])
    if "work" in arguments:
        arguments = {"work": tmp_path / "other"}
    result = sanitize.run([first, second], out, replace=True, **arguments)
    assert any(note in to_cli_names(one) for one in result.notes), result.notes
    published = read_rows(out / "data")
    assert [name for name in published[0] if name not in ("doc_id", "user_id")] == expected
    assert {row["meta"]["by"] for row in published} == {None}


def to_cli_names(note: str) -> str:
    """A note of the Python API with the options of the command line."""
    return re.sub(r"(\w+)=('[^']*')", lambda one: f"--{one[1].replace('_', '-')} {one[2]}", note)


def test_a_list_that_is_dropped_is_null(tmp_path: Path) -> None:
    rows = make_rows()
    sanitize.run(
        write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / "out", drop="meta.refs", seed=1
    )
    published = read_rows(tmp_path / "out" / "data")
    streamed = list(sanitize.stream(iter(rows), drop="meta.refs", seed=1))
    for row in (*published, *streamed):
        assert row["meta"]["refs"] is None and row["meta"]["phone"] == "[PHONE_NUMBER]"


def test_values_of_a_dropped_part_are_searched_in_all_texts(tmp_path: Path) -> None:
    rows = make_rows()
    rows[3]["text"] = f"Signed by {ZYQ}."
    path = write_json_lines(tmp_path / "in.jsonl", rows)
    for option in ("drop", "pseudonymize"):
        options: dict[str, Any] = {option: "meta.refs[].by"}
        with contextlib.suppress(LeakFound):
            sanitize.run(path, tmp_path / option, seed=1, **options)
            published = read_rows(tmp_path / option / "data")
            assert not [row for row in published if ZYQ in str(row)]


def test_a_kept_part_with_values_stops_once_and_names_the_command(tmp_path: Path) -> None:
    rows = make_rows()
    for row in rows:
        row["meta"]["refs"][0]["by"] = "Maria Lopez"
        row["meta"]["note"] = "ask Maria Lopez"
    path = write_json_lines(tmp_path / "in.jsonl", rows)
    with pytest.raises(LeakFound) as caught:
        sanitize.run(path, tmp_path / "out", keep="meta", seed=1)
    message = str(caught.value)
    assert "meta.refs[].by: 12 PERSON" in message and "meta.note: 12 PERSON" in message
    assert "Maria" not in message
    sanitize.run(
        path,
        tmp_path / "out",
        keep="meta",
        sanitize=["meta.refs[].by", "meta.note"],
        seed=1,
    )
    meta = read_rows(tmp_path / "out" / "data")[0]["meta"]
    assert meta["note"] == "ask [PERSON]" and meta["refs"][0]["mail"] == MAIL


def test_an_append_and_a_replay_remember_the_parts(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_json_lines(tmp_path / "in" / "1.jsonl", make_rows())
    arguments: dict[str, Any] = {"work": tmp_path / "work", "seed": 1, "drop": "meta.refs[].by"}
    sanitize.run(tmp_path / "in", tmp_path / "out", **arguments)
    write_json_lines(tmp_path / "in" / "2.jsonl", make_rows())
    del arguments["drop"]
    sanitize.run(tmp_path / "in", tmp_path / "out", append=True, **arguments)
    published = read_rows(tmp_path / "out" / "data")
    assert len(published) == 24
    assert {row["meta"]["refs"][0]["by"] for row in published} == {None}


def chat_rows() -> Iterator[Row]:
    for no in range(12):
        yield {
            "messages": [
                {"role": "user", "content": f"I am at {PHONE}, {no}.", "name": ZYQ},
                {"role": "assistant", "content": "Thanks.", "name": None},
            ]
        }


def test_fields_of_turns_have_policies_but_not_who_speaks(tmp_path: Path) -> None:
    path = write_json_lines(tmp_path / "in.jsonl", chat_rows())
    sanitize.run(path, tmp_path / "out", seed=1, pseudonymize="messages[].name")
    published = read_rows(tmp_path / "out" / "data")
    streamed = list(sanitize.stream(chat_rows(), seed=1, pseudonymize="messages[].name"))
    turns = [[turn["name"] for turn in row["messages"]] for row in published]
    assert turns == [[turn["name"] for turn in row["messages"]] for row in streamed]
    assert turns[0][0].startswith("m") and turns[0][1] is None
    for name, message in (
        ("messages[].role", "says who speaks"),
        ("messages[].content", "main text"),
    ):
        with pytest.raises(UsageError, match=message):
            sanitize.run(path, tmp_path / "other", drop=name)
        with pytest.raises(UsageError, match=message):
            list(sanitize.stream(chat_rows(), drop=name))


def test_turns_without_a_common_type_have_no_parts(tmp_path: Path) -> None:
    rows = [*chat_rows()]
    for row in rows[::2]:
        row["messages"][0]["content"] = [{"type": "text", "text": "Hi"}]
    path = write_json_lines(tmp_path / "in.jsonl", rows)
    with pytest.raises(UsageError, match="no common type"):
        sanitize.run(path, tmp_path / "out", drop="messages[].name")
    with pytest.raises(UsageError, match="no common type"):
        list(sanitize.stream(rows, drop="messages[].name"))
