"""Shapes of instruction and chat data: recognised from columns, with roles and JSON apart; records
that do not have the shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.errors import UsageError
from sanitize.readers.survey import Roles, survey_inputs
from sanitize.storage.records.record_shapes import (
    RecordShape,
    canonical_schema,
    recognize_shape,
    recognize_table,
)
from tests.readers.test_read import stage_survey, to_json_lines

TURN = {"role": "user", "content": "Hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "send", "arguments": '{"to": "Ann"}'}}
PARTS = [
    {"type": "text", "text": "Hi"},
    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
]

SHAPES: list[tuple[dict[str, Any], tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = [
    ({"messages": [TURN]}, ("messages[].content",), ("messages[].role",), ()),
    (
        {"id": "1", "conversation": [TURN]},
        ("conversation[].content",),
        ("conversation[].role",),
        (),
    ),
    (
        {"conversations": [{"from": "human", "value": "Hi"}]},
        ("conversations[].value",),
        ("conversations[].from",),
        (),
    ),
    (
        {"messages": [{"role": "user", "content": PARTS}]},
        ("messages[].content[].text",),
        ("messages[].role",),
        (),
    ),
    (
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [CALL]}]},
        ("messages[].content",),
        ("messages[].role",),
        ("messages[].tool_calls[].function.arguments",),
    ),
    ({"prompt": "p", "completion": "c"}, ("prompt", "completion"), (), ()),
    ({"prompt": "p", "response": "c", "n": 1}, ("prompt", "response"), (), ()),
    (
        {"prompt": [TURN], "completion": [TURN]},
        ("prompt[].content", "completion[].content"),
        ("prompt[].role", "completion[].role"),
        (),
    ),
    ({"instruction": "i", "input": "", "output": "o"}, ("instruction", "output", "input"), (), ()),
    ({"prompt": "p", "chosen": "c", "rejected": "r"}, ("chosen", "rejected", "prompt"), (), ()),
    (
        {"chosen": [TURN], "rejected": [TURN]},
        ("chosen[].content", "rejected[].content"),
        ("chosen[].role", "rejected[].role"),
        (),
    ),
]


@pytest.mark.parametrize(
    ("record", "texts", "roles", "arguments"), SHAPES, ids=lambda value: "-".join(value)[:40]
)
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_shape_is_recognised_and_records_stay_as_they_are(
    tmp_path: Path,
    suffix: str,
    record: dict[str, Any],
    texts: tuple[str, ...],
    roles: tuple[str, ...],
    arguments: tuple[str, ...],
) -> None:
    path, rows = tmp_path / f"a.{suffix}", [record] * 3
    if suffix == "jsonl":
        path.write_bytes(to_json_lines(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    survey = survey_inputs([path], Roles())
    shape = survey.roles.shape
    assert shape is not None and (shape.texts, shape.roles, shape.arguments) == (
        texts,
        roles,
        arguments,
    )
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert not quarantine and len(documents) == 3
    assert {name: documents[0][name] for name in record if name != "id"} == {
        name: pa.array([value]).cast(survey.schema.field(name).type).to_pylist()[0]
        for name, value in record.items()
        if name != "id"
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
    schema = canonical_schema(pa.Table.from_pylist([record]).schema)
    assert recognize_shape(schema) is None or "text" in record


def test_csv_with_the_columns_of_a_shape(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('instruction;output\n"Sum; up";Done\n')
    survey = survey_inputs([tmp_path / "a.csv"], Roles())
    rows, _ = stage_survey(survey, tmp_path / "out")
    assert [(row["instruction"], row["output"]) for row in rows] == [("Sum; up", "Done")]


def test_text_column_overrides_the_shape(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        to_json_lines([{"messages": [{"role": "Doctor", "content": "Hi"}]}, {"messages": []}])
    )
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
                    {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{to: x"}}],
                    }
                ]
            },
            "bad_arguments",
        ),
    ],
)
def test_records_without_the_shape_are_quarantined(
    tmp_path: Path, suffix: str, record: dict[str, Any], reason: str
) -> None:
    path, rows = tmp_path / f"a.{suffix}", [GOOD, record, GOOD]
    if suffix == "jsonl":
        path.write_bytes(to_json_lines(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    survey = survey_inputs([path], Roles())
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert [(row, why) for row, *_, why in quarantine] == [(1, reason)]
    assert json.loads(json.dumps(documents[0]["messages"])) == GOOD["messages"]


OBJECT_CALL = {"function": {"name": "send", "arguments": {"to": "Ann", "n": 1}}}
MIXED: dict[str, list[dict[str, Any]]] = {
    "texts and parts in a record": [{"messages": [TURN, {"role": "user", "content": PARTS}]}],
    "texts and parts in two records": [
        {"messages": [TURN]},
        {"messages": [{"role": "user", "content": PARTS}]},
    ],
    "arguments as objects": [
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [OBJECT_CALL]}]}
    ],
    "old call with an object": [
        {
            "messages": [
                {"role": "assistant", "content": None, "function_call": OBJECT_CALL["function"]},
                TURN,
            ]
        }
    ],
    "a field of two types": [
        {"messages": [{**TURN, "weight": 1}]},
        {"messages": [{**TURN, "weight": "low"}]},
    ],
    "from and value": [
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": PARTS}]}
    ],
    "a pair": [{"chosen": [TURN], "rejected": [TURN, {"role": "assistant", "content": PARTS}]}],
}


@pytest.mark.parametrize("case", MIXED)
def test_turns_without_a_common_type_are_json(tmp_path: Path, case: str) -> None:
    rows = MIXED[case]
    (tmp_path / "a.jsonl").write_bytes(to_json_lines(rows))
    survey = survey_inputs([tmp_path / "a.jsonl"], Roles())
    shape = survey.roles.shape
    assert shape is not None and shape.json_turns
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert not quarantine
    for column in rows[0]:
        found = [row[column] for row in documents]
        assert [
            [json.loads(turn) if column in shape.json_turns else turn for turn in turns]
            for turns in found
        ] == [row[column] for row in rows]


def test_one_type_stays_one_type(tmp_path: Path) -> None:
    """Null contents and fields that only some turns have are no reason for JSON."""
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        TURN,
        {"role": "tool", "content": "x", "name": "send"},
    ]
    (tmp_path / "a.jsonl").write_bytes(
        to_json_lines([{"messages": turns}, {"messages": None}, {"messages": [TURN]}])
    )
    shape = survey_inputs([tmp_path / "a.jsonl"], Roles()).roles.shape
    assert shape is not None and not shape.json_turns and shape.texts == ("messages[].content",)


def test_files_with_and_without_a_common_type_are_one_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(to_json_lines([{"messages": [TURN]}] * 2))
    (tmp_path / "b.jsonl").write_bytes(to_json_lines(MIXED["texts and parts in a record"]))
    survey = survey_inputs([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], Roles())
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert not quarantine and [
        [json.loads(turn) for turn in row["messages"]] for row in documents
    ] == [
        [TURN],
        [TURN],
        MIXED["texts and parts in a record"][0]["messages"],
    ]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([{"role": "Larry", "content": "Hi"}], "unknown_role"),
        ([{"content": "Hi"}], "unknown_role"),
        ([None], "unknown_role"),
        ([{"role": "user", "content": 3}], "wrong_type"),
        (
            [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"arguments": "{to: x"}}],
                }
            ],
            "bad_arguments",
        ),
        ([], "no_turns"),
        ("Hi", "wrong_type"),
    ],
)
@pytest.mark.parametrize("position", [0, 2])
def test_bad_turns_among_turns_as_json(
    tmp_path: Path, messages: Any, reason: str, position: int
) -> None:
    rows: list[dict[str, Any]] = MIXED["texts and parts in two records"] * 2
    rows = [*rows[:position], {"messages": messages}, *rows[position:]]
    (tmp_path / "a.jsonl").write_bytes(to_json_lines(rows))
    survey = survey_inputs([tmp_path / "a.jsonl"], Roles())
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert len(documents) == 5 and [(row, why) for row, *_, why in quarantine] == [
        (position, reason)
    ]


def test_lists_of_json_by_type_and_by_features() -> None:
    turns = pa.array([json.dumps(TURN)], pa.string())
    as_extension = pa.ListArray.from_arrays(
        pa.array([0, 1], pa.int32()), pa.ExtensionArray.from_storage(pa.json_(), turns)
    )
    features = {"info": {"features": {"messages": {"feature": {"_type": "Json"}, "_type": "List"}}}}
    as_texts = pa.table({"messages": [turns.to_pylist()]}).replace_schema_metadata(
        {"huggingface": json.dumps(features)}
    )
    for table in (pa.table({"messages": as_extension}), as_texts):
        shape = recognize_shape(canonical_schema(table.schema))
        assert shape is not None and (shape.texts, shape.arguments, shape.roles) == (
            ("messages[]",),
            ("messages[]",),
            (),
        )
    plain = as_texts.replace_schema_metadata(None)
    assert (
        recognize_shape(canonical_schema(plain.schema)) is None
        and recognize_table(plain) is not None
    )
    assert recognize_table(pa.table({"messages": [["Hi", "there"]]})) is None


def test_files_of_two_shapes_are_refused_or_quarantined(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(to_json_lines([{"messages": [TURN]}]))
    (folder / "b.jsonl").write_bytes(
        to_json_lines([{"conversations": [{"from": "human", "value": "Hi"}]}] * 2)
    )
    survey = survey_inputs([folder], Roles())
    documents, quarantine = stage_survey(survey, tmp_path / "out")
    assert len(documents) == 3 and [why for *_, why in quarantine] == ["no_text"] * 2
    with pytest.raises(UsageError, match="there is no column"):
        survey_inputs([folder / "a.jsonl", folder / "b.jsonl"], Roles())


def test_description_is_one_line() -> None:
    shape = RecordShape(
        "chat",
        ("messages[].content",),
        ("messages[].role",),
        ("messages[].tool_calls[].function.arguments",),
    )
    assert (
        shape.describe() == "chat: texts in messages[].content; kept: messages[].role; JSON in"
        " messages[].tool_calls[].function.arguments"
    )
