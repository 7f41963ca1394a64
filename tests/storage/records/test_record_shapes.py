"""Shapes of instruction and chat data: recognised from columns, with roles and JSON apart; records that do not have the shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.errors import UsageError
from sanitize.readers.standard_form import to_plain_schema
from sanitize.readers.survey import Roles, survey_inputs
from sanitize.storage.records.record_shapes import RecordShape, recognize_shape
from tests.readers.test_read import stage_survey, to_json_lines

TURN = {"role": "user", "content": "Hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "send", "arguments": '{"to": "Ann"}'}}
PARTS = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]

SHAPES: list[tuple[dict[str, Any], tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = [
    ({"messages": [TURN]}, ("messages[].content",), ("messages[].role",), ()),
    ({"id": "1", "conversation": [TURN]}, ("conversation[].content",), ("conversation[].role",), ()),
    ({"conversations": [{"from": "human", "value": "Hi"}]}, ("conversations[].value",), ("conversations[].from",), ()),
    ({"messages": [{"role": "user", "content": PARTS}]}, ("messages[].content[].text",), ("messages[].role",), ()),
    (
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [CALL]}]},
        ("messages[].content",),
        ("messages[].role",),
        ("messages[].tool_calls[].function.arguments",),
    ),
    ({"prompt": "p", "completion": "c"}, ("prompt", "completion"), (), ()),
    ({"prompt": "p", "response": "c", "n": 1}, ("prompt", "response"), (), ()),
    ({"prompt": [TURN], "completion": [TURN]}, ("prompt[].content", "completion[].content"), ("prompt[].role", "completion[].role"), ()),
    ({"instruction": "i", "input": "", "output": "o"}, ("instruction", "output", "input"), (), ()),
    ({"prompt": "p", "chosen": "c", "rejected": "r"}, ("chosen", "rejected", "prompt"), (), ()),
    ({"chosen": [TURN], "rejected": [TURN]}, ("chosen[].content", "rejected[].content"), ("chosen[].role", "rejected[].role"), ()),
]


@pytest.mark.parametrize(("record", "texts", "roles", "arguments"), SHAPES, ids=lambda value: "-".join(value)[:40])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_shape_is_recognised_and_records_stay_as_they_are(
    tmp_path: Path, suffix: str, record: dict[str, Any], texts: tuple[str, ...], roles: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    path, rows = tmp_path / f"a.{suffix}", [record] * 3
    if suffix == "jsonl":
        path.write_bytes(to_json_lines(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    survey = survey_inputs([path], Roles())
    shape = survey.roles.shape
    assert shape is not None and (shape.texts, shape.roles, shape.arguments) == (texts, roles, arguments)
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert not quarantine and len(documents) == 3
    assert {name: documents[0][name] for name in record if name != "id"} == {
        name: pa.array([value]).cast(survey.schema.field(name).type).to_pylist()[0] for name, value in record.items() if name != "id"
    }


@pytest.mark.parametrize(
    "record",
    [
        {"text": "T", "messages": [TURN]},  # a column `text` is the main text
        {"messages": "Hi"},
        {"messages": [{"author": "a", "body": "b"}]},
        {"prompt": "p"},
        {"instruction": "i", "input": "x"},
        {"chosen": "c"},
        {"prompt": 3, "completion": 4},
    ],
)
def test_other_columns_are_no_shape(record: dict[str, Any]) -> None:
    schema = to_plain_schema(pa.Table.from_pylist([record]).schema)
    assert recognize_shape(schema) is None or "text" in record


def test_csv_with_the_columns_of_a_shape(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('instruction;output\n"Sum; up";Done\n')
    survey = survey_inputs([tmp_path / "a.csv"], Roles())
    rows, _ = stage_survey(survey, tmp_path / "out")
    assert [(row["instruction"], row["output"]) for row in rows] == [("Sum; up", "Done")]


def test_text_column_overrides_the_shape(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(to_json_lines([{"messages": [{"role": "Doctor", "content": "Hi"}]}, {"messages": []}]))
    survey = survey_inputs([tmp_path / "a.jsonl"], Roles(text=("messages[].content",)))
    assert survey.roles.shape is None and not stage_survey(survey, tmp_path / "out")[1]


GOOD = {"messages": [{"role": "assistant", "content": "Hi", "tool_calls": [CALL]}]}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"messages": []}, "no_turns"),
        ({"messages": [{"role": "Larry", "content": "Hi", "tool_calls": []}]}, "unknown_role"),
        ({"messages": [{"role": None, "content": "Hi", "tool_calls": []}]}, "unknown_role"),
        (
            {
                "messages": [
                    {"role": "assistant", "content": "", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{to: x"}}]}
                ]
            },
            "bad_arguments",
        ),
    ],
)
def test_records_without_the_shape_are_quarantined(tmp_path: Path, suffix: str, record: dict[str, Any], reason: str) -> None:
    path, rows = tmp_path / f"a.{suffix}", [GOOD, record, GOOD]
    if suffix == "jsonl":
        path.write_bytes(to_json_lines(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    survey = survey_inputs([path], Roles())
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert [(row, why) for row, *_, why in quarantine] == [(1, reason)]
    assert json.loads(json.dumps(documents[0]["messages"])) == GOOD["messages"]


def test_a_file_of_texts_and_parts_keeps_the_first_form(tmp_path: Path) -> None:
    parts = {"messages": [{"role": "user", "content": PARTS}]}
    (tmp_path / "a.jsonl").write_bytes(to_json_lines([{"messages": [TURN]}, parts, {"messages": [TURN]}]))
    (tmp_path / "b.jsonl").write_bytes(to_json_lines([parts, {"messages": [TURN]}]))
    for name, path, bad_row in (("a", "messages[].content", 1), ("b", "messages[].content[].text", 1)):
        survey = survey_inputs([tmp_path / f"{name}.jsonl"], Roles())
        assert survey.roles.text == (path,)
        assert [(row, why) for row, *_, why in stage_survey(survey, tmp_path / f"out{name}")[1]] == [(bad_row, "wrong_type")]


def test_files_of_two_shapes_are_refused_or_quarantined(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(to_json_lines([{"messages": [TURN]}]))
    (folder / "b.jsonl").write_bytes(to_json_lines([{"conversations": [{"from": "human", "value": "Hi"}]}] * 2))
    survey = survey_inputs([folder], Roles())
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert len(documents) == 3 and [why for *_, why in quarantine] == ["no_text"] * 2
    with pytest.raises(UsageError, match="there is no column"):
        survey_inputs([folder / "a.jsonl", folder / "b.jsonl"], Roles())


def test_description_is_one_line() -> None:
    shape = RecordShape("chat", ("messages[].content",), ("messages[].role",), ("messages[].tool_calls[].function.arguments",))
    assert shape.describe() == (
        "chat: texts in messages[].content; kept: messages[].role; JSON in messages[].tool_calls[].function.arguments"
    )
