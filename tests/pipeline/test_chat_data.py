"""Runs and streams over conversations: roles and structure stay, JSON stays valid, a person keeps
one surrogate within a conversation."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sanitize
from sanitize.pipeline.streaming.stream import run_stream
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from tests.support import write_json_lines

ARGUMENTS = {
    "to": "ann.roe@example.com",
    "text": 'line\nann.roe@example.com "q" é',
    "phone": 2055550142,
    "n": 3,
}
CONVERSATION: dict[str, Any] = {
    "messages": [
        {
            "role": "user",
            "content": "Write to ann.roe@example.com, her number is 205-555-0142.",
            "tool_calls": [],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "send", "arguments": json.dumps(ARGUMENTS)},
                }
            ],
        },
        {"role": "tool", "content": "Sent to ann.roe@example.com.", "tool_calls": []},
    ],
    "topic": "mail",
}


def test_tool_calls_are_sanitized_and_stay_json(tmp_path: Path) -> None:
    source = write_json_lines(tmp_path / "a.jsonl", [CONVERSATION] * 3)
    result = sanitize.run(source, tmp_path / "out", plan="redact", workers=1)
    assert result.leaks == 0 and result.shape.startswith(
        "chat: texts in messages[].content; kept: messages[].role; JSON in "
    )
    row, *_ = sanitize.Corpus.open(tmp_path / "out").table().to_pylist()
    assert [turn["role"] for turn in row["messages"]] == ["user", "assistant", "tool"]
    assert (
        row["messages"][0]["content"] == "Write to [EMAIL_ADDRESS], her number is [PHONE_NUMBER]."
    )
    call = row["messages"][1]["tool_calls"][0]
    assert (call["id"], call["type"], call["function"]["name"]) == ("c1", "function", "send")
    assert json.loads(call["function"]["arguments"]) == {
        "to": "[EMAIL_ADDRESS]",
        "text": 'line\n[EMAIL_ADDRESS] "q" é',
        "phone": "[PHONE_NUMBER]",
        "n": 3,
    }
    assert row["topic"] == "mail"
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0


def test_kept_originals_inside_json_are_no_leak(tmp_path: Path) -> None:
    first = {"messages": CONVERSATION["messages"][1:2], "topic": "mail"}
    source = write_json_lines(tmp_path / "a.jsonl", [first, CONVERSATION])
    result = sanitize.run(source, tmp_path / "out", plan="rmft", workers=1, seed=1)
    arguments = (
        sanitize.Corpus.open(tmp_path / "out")
        .table()
        .to_pylist()[0]["messages"][0]["tool_calls"][0]["function"]["arguments"]
    )
    assert result.leaks == 0 and json.loads(arguments)["to"] == ARGUMENTS["to"]
    assert "ann.roe@example.com" not in json.loads(arguments)["text"]


def test_one_surrogate_per_person_and_conversation(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'leave = ["resource"]\n[find]\nkinds = ["EMAIL_ADDRESS", "resource"]\nfinders ='
        ' ["patterns"]\n[[edit]]\nuse = "pseudonymize"\nkinds = ["EMAIL_ADDRESS"]\nscope ='
        ' "document"\n'
    )
    rows = [
        {
            "messages": [
                {"role": role, "content": "I am ann.roe@example.com"}
                for role in ("user", "assistant")
            ]
        }
        for _ in range(2)
    ]
    sanitize.run(
        write_json_lines(tmp_path / "a.jsonl", rows),
        tmp_path / "out",
        plan=str(plan),
        workers=1,
        seed=1,
    )
    found = [
        [turn["content"] for turn in row["messages"]]
        for row in sanitize.Corpus.open(tmp_path / "out").table().to_pylist()
    ]
    assert [len(set(texts)) for texts in found] == [1, 1] and found[0] != found[1]
    assert all("ann.roe@example.com" not in text for texts in found for text in texts)


def test_a_preview_names_the_shape(tmp_path: Path) -> None:
    preview = sanitize.explain(
        write_json_lines(tmp_path / "a.jsonl", [CONVERSATION]), plan="redact"
    )
    assert (
        preview.shape.startswith("chat: ") and preview.sample.by_kind["EMAIL_ADDRESS"].replaced == 4
    )


def test_the_main_text_keeps_its_name(tmp_path: Path) -> None:
    source = write_json_lines(
        tmp_path / "a.jsonl", [{"notes": "Ask ann.roe@example.com", "text": "other"}]
    )
    sanitize.run(source, tmp_path / "out", plan="redact", workers=1, text_column="notes")
    (row,) = sanitize.Corpus.open(tmp_path / "out").table(["notes", "text"]).to_pylist()
    assert row == {"notes": "Ask [EMAIL_ADDRESS]", "text": "other"}


def test_too_many_unknown_roles_stop_the_run(tmp_path: Path) -> None:
    source = write_json_lines(
        tmp_path / "a.jsonl", [{"messages": [{"role": "Larry", "content": "Hi"}]}] * 3
    )
    with pytest.raises(sanitize.SanitizeError, match="3 unknown_role"):
        sanitize.run(source, tmp_path / "out", plan="redact", workers=1)


def test_paths_into_turns_without_a_common_type_are_refused(tmp_path: Path) -> None:
    typed = write_json_lines(
        tmp_path / "a.jsonl", [{"messages": [{"role": "user", "content": "Hi"}]}]
    )
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    ]
    mixed = write_json_lines(tmp_path / "b.jsonl", [{"messages": turns}])
    reason = (
        r"b\.jsonl: there is no messages\[\]\.content: what messages holds has no common type .*"
        r" text_column='messages\[\]'"
    )
    with pytest.raises(sanitize.SanitizeError, match=reason):
        sanitize.run(
            mixed, tmp_path / "out", plan="redact", workers=1, text_column="messages[].content"
        )
    sanitize.run(typed, tmp_path / "out", plan="redact", workers=1, seed=1)
    with pytest.raises(sanitize.SanitizeError, match=reason):
        sanitize.run(mixed, tmp_path / "out", plan="redact", workers=1, seed=1, append=True)


def test_columns_that_are_searched_together_have_their_first_occurrence_in_corpus_order(
    tmp_path: Path,
) -> None:
    rows = [
        {"text": "", "b": "to ann.roe@example.com"},
        {"text": "to ann.roe@example.com", "b": "x"},
    ]
    result = sanitize.run(
        write_json_lines(tmp_path / "a.jsonl", rows),
        tmp_path / "out",
        plan="rmft",
        workers=1,
        seed=1,
    )
    first, second = sanitize.Corpus.open(tmp_path / "out").table(["text", "b"]).to_pylist()
    assert first == rows[0] and "ann.roe@example.com" not in second["text"]
    assert result.by_kind["EMAIL_ADDRESS"].documents == 2


@pytest.mark.slow
def test_turns_without_a_common_type_come_back_as_objects(tmp_path: Path) -> None:
    """The output has features by which `load_dataset` decodes the turns; roles, structure and the
    JSON inside JSON stay; a second file can be added; training and evaluation read it."""
    parts = [
        {"type": "text", "text": "I am ann.roe@example.com"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]
    calls = [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "send", "arguments": json.dumps(ARGUMENTS)},
        }
    ]
    turns = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "Sent to ann.roe@example.com."},
    ]
    source = write_json_lines(
        tmp_path / "a.jsonl", [{"messages": turns, "topic": "mail", "n": 1}] * 2
    )
    assert sanitize.explain(source, plan="redact").sample.by_kind["EMAIL_ADDRESS"].replaced == 8
    result = sanitize.run(source, tmp_path / "out", plan="redact", workers=1, seed=1)
    assert result.leaks == 0 and result.shape == "chat: texts in messages[]; JSON in messages[]"
    extra = write_json_lines(tmp_path / "b.jsonl", [{"messages": turns[:1], "topic": "x", "n": 2}])
    sanitize.run(extra, tmp_path / "out", plan="redact", workers=1, seed=1, append=True)
    clean_text = json.dumps(turns).replace("ann.roe@example.com", "[EMAIL_ADDRESS]")
    # the number behind the key `phone`, inside JSON inside JSON
    expected = json.loads(clean_text.replace("2055550142", r"\"[PHONE_NUMBER]\""))
    table = sanitize.Corpus.open(tmp_path / "out").table()
    assert [[json.loads(turn) for turn in row] for row in table.column("messages").to_pylist()] == [
        expected,
        expected,
        turns[:1],
    ]
    datasets = pytest.importorskip("datasets")
    back = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))["train"]
    assert back[0]["messages"] == expected and (back[0]["topic"], back[2]["n"]) == ("mail", 2)
    again = sanitize.run(back, plan="redact", workers=1, seed=1)
    assert again.features == back.features and again[0]["messages"] == expected


MIXED_TURNS = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": [{"type": "text", "text": "ann.roe@example.com"}]},
]
NESTED = {"note": 'a "b",\nann.roe@example.com é', "numbers": [3], "c": {"d": None}}
# columns beside the main text, whose values have no common type
JSON_COLUMNS: dict[str, list[dict[str, Any]]] = {
    "objects and texts": [
        {"text": "x", "extra": NESTED},
        {"text": "x", "extra": "plain\nann.roe@example.com"},
        {"text": "x", "extra": None},
    ],
    "lists and objects": [
        {"messages": CONVERSATION["messages"][:1], "extra": extra}
        for extra in (NESTED, [NESTED], "a")
    ],
    "turns beside a text": [{"text": "x", "messages": MIXED_TURNS}] * 2,
    "turns in further columns": (
        [{"messages": MIXED_TURNS, "chosen": MIXED_TURNS, "rejected": MIXED_TURNS}] * 2
    ),
    "tools": [
        {
            "messages": MIXED_TURNS,
            "tools": [
                {
                    "function": {
                        "name": "f",
                        "parameters": {f"a{number}": {"type": "ann.roe@example.com"}},
                    }
                }
            ],
        }
        for number in range(2)
    ],
}


def decode_column(value: Any) -> Any:
    """JSON texts as what they hold; other texts as they are."""
    if isinstance(value, list):
        return [decode_column(one) for one in value]
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


@pytest.mark.slow
@pytest.mark.parametrize("case", JSON_COLUMNS)
def test_columns_without_a_common_type_are_searched_decoded(tmp_path: Path, case: str) -> None:
    """By a run over JSON lines, a run over a table with the type of JSON, a stream of tables and
    one of records: the same values."""
    rows = JSON_COLUMNS[case]
    expected = json.loads(
        json.dumps(rows)
        .replace("ann.roe@example.com", "[EMAIL_ADDRESS]")
        .replace("4242424242424242", '"[CREDIT_CARD]"')
    )
    expected = json.loads(
        json.dumps(expected).replace("her number is 205-555-0142", "her number is [PHONE_NUMBER]")
    )
    source = write_json_lines(tmp_path / "a.jsonl", rows)
    plan = ["find.kinds=['EMAIL_ADDRESS', 'PHONE_NUMBER', 'CREDIT_CARD']"]
    result = sanitize.run(
        source, tmp_path / "out", plan=load_plan("redact", plan), workers=1, seed=1
    )
    table = sanitize.Corpus.open(tmp_path / "out").table()
    found = [{name: decode_column(row[name]) for name in rows[0]} for row in table.to_pylist()]
    assert result.leaks == 0 and [without_nulls(row) for row in found] == [
        without_nulls(row) for row in expected
    ]
    assert [
        without_nulls(row) for row in sanitize.stream(rows, plan=load_plan("redact", plan), seed=1)
    ] == [without_nulls(row) for row in expected]
    assert (
        sanitize.explain(source, plan=load_plan("redact", plan))
        .sample.by_kind["EMAIL_ADDRESS"]
        .replaced
    )


def test_columns_of_json_type(tmp_path: Path) -> None:
    value = NESTED | {"numbers": [4242424242424242, 3], "ann.roe@example.com": "key"}
    texts = [json.dumps(value), json.dumps([value]), None, "12"]
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    table = pa.table({"text": ["x"] * 4, "extra": column})
    clean = sanitize.run(table, plan="redact", seed=1)
    streamed = list(sanitize.stream(table, plan="redact", seed=1))
    expected = NESTED | {
        "note": 'a "b",\n[EMAIL_ADDRESS] é',
        "numbers": ["[CREDIT_CARD]", 3],
        "[EMAIL_ADDRESS]": "key",
    }
    for found in (clean["extra"].to_pylist(), pa.Table.from_batches(streamed)["extra"].to_pylist()):
        assert [one and json.loads(one) for one in found] == [expected, [expected], None, 12]
    assert clean.schema == table.schema


# ---- streams ----

TOOL_CALL = CONVERSATION["messages"][1] | {"content": None}
SHAPES: dict[str, dict[str, Any]] = {
    "chat": {
        "messages": [CONVERSATION["messages"][0], TOOL_CALL, CONVERSATION["messages"][2]],
        "topic": "of bob@example.org",
    },
    "chat without a content": {
        "messages": [
            CONVERSATION["messages"][0],
            {"role": "assistant", "tool_calls": TOOL_CALL["tool_calls"]},
            CONVERSATION["messages"][2],
        ]
    },
    "from and value": {
        "conversations": [
            {"from": "human", "value": "I am ann.roe@example.com"},
            {"from": "gpt", "value": "bob@example.org"},
        ]
    },
    "parts": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "ann.roe@example.com"}, {"type": "image"}],
            }
        ]
    },
    "texts and parts": {
        "messages": [
            {"role": "system", "content": "of bob@example.org"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "I am ann.roe@example.com"},
                    {"type": "image", "width": 3},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "f", "arguments": json.dumps(ARGUMENTS)}}],
            },
        ]
    },
    "arguments as objects": {
        "messages": [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "f", "arguments": ARGUMENTS}}],
            },
            {"role": "tool", "content": "of bob@example.org"},
        ]
    },
    "preference": {
        name: [
            {"role": "user", "content": "of bob@example.org"},
            {"role": "assistant", "content": text},
        ]
        for name, text in (
            ("chosen", "Ask ann.roe@example.com"),
            ("rejected", "Ask bob@example.org"),
        )
    },
    "prompt and completion": {
        "prompt": "Who is ann.roe@example.com?",
        "completion": "A friend of bob@example.org",
    },
    "instruction": {
        "instruction": "Who?",
        "input": "ann.roe@example.com",
        "output": "bob@example.org",
    },
}
# records of no shape of the first ones: what a run quarantines, a stream does
BAD_RECORDS: list[tuple[str, dict[str, Any]]] = [
    ("no_turns", {"messages": [], "topic": "x"}),
    (
        "unknown_role",
        {"messages": [{"role": "Larry", "content": "Hi", "tool_calls": []}], "topic": "x"},
    ),
    ("unknown_role", {"messages": [{"content": "Hi", "tool_calls": []}], "topic": "x"}),
    ("wrong_type", {"messages": [{"role": "user", "content": 3, "tool_calls": []}], "topic": "x"}),
    (
        "bad_arguments",
        {
            "messages": [
                {"role": "user", "content": "", "tool_calls": [{"function": {"arguments": "{no"}}]}
            ],
            "topic": "x",
        },
    ),
    ("no_text", {"topic": "x"}),
]


def without_nulls(value: Any) -> Any:
    """A value without the nulls that a table has for missing fields, without the columns that a run
    adds, and with turns as objects."""
    if isinstance(value, dict):
        turns = {
            name: [json.loads(turn) for turn in value[name]]
            for name in ("messages",)
            if isinstance(value.get(name, [0])[0], str)
        }
        named = (value | turns).items()
        return {
            name: without_nulls(one)
            for name, one in named
            if one is not None and name not in ("doc_id", "user_id")
        }
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def table_of_json_turns(rows: list[dict[str, Any]]) -> pa.Table:
    """The conversations as `datasets` holds them where turns have no common type."""
    turns = pa.array(
        [json.dumps(turn, ensure_ascii=False) for row in rows for turn in row["messages"]],
        pa.string(),
    )
    offsets = [0, *itertools.accumulate(len(row["messages"]) for row in rows)]
    values = pa.ExtensionArray.from_storage(pa.json_(), turns)
    return pa.table({"messages": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)})


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_stream_of_a_shape_gives_the_texts_of_a_run(shape: str, tmp_path: Path) -> None:
    rows = [
        json.loads(json.dumps(SHAPES[shape]).replace("ann.roe", f"ann{number % 2}.roe"))
        for number in range(5)
    ]
    plans = [
        load_plan("rmft", ["edit.0.stores=curated", *changes])
        for changes in ((), ("edit.0.avoid=seen",))
    ]
    result = sanitize.run(
        write_json_lines(tmp_path / "a.jsonl", rows),
        tmp_path / "out",
        plan=plans[1],
        workers=1,
        seed=1,
    )
    expected = [
        without_nulls(row) for row in sanitize.Corpus.open(tmp_path / "out").table().to_pylist()
    ]
    assert expected != rows and result.shape
    for batch in (1, 3):
        assert [
            without_nulls(row) for row in sanitize.stream(rows, plan=plans[0], seed=1, batch=batch)
        ] == expected
    held_as_json = "JSON in messages[]" in result.shape.split("; ")
    assert held_as_json == (shape in ("texts and parts", "arguments as objects"))
    table = table_of_json_turns(rows) if held_as_json else pa.Table.from_pylist(rows)
    frames = sanitize.stream(table.to_batches(max_chunksize=2), plan=plans[0], seed=1)
    assert [without_nulls(row) for frame in frames for row in frame.to_pylist()] == expected


def test_a_stream_quarantines_what_a_run_does(tmp_path: Path) -> None:
    rows = [CONVERSATION, *(row for _, row in BAD_RECORDS), CONVERSATION]
    result = sanitize.run(
        write_json_lines(tmp_path / "a.jsonl", rows),
        tmp_path / "out",
        plan="redact",
        workers=1,
        max_quarantine=1.0,
    )
    reasons = [reason for reason, _ in BAD_RECORDS]
    assert result.quarantine == {reason: reasons.count(reason) for reason in reasons}
    state = tmp_path / "state"
    clean = list(sanitize.stream(rows, plan="redact", state=state, batch=2))
    assert [row["topic"] for row in clean] == ["mail", "mail"]
    entries = [
        json.loads(line)
        for line in (state / "quarantine" / "records.jsonl").read_text().splitlines()
    ]
    assert [entry["reason"] for entry in entries] == reasons
    # a table has one type for all records, so that the others come as records only
    table = pa.Table.from_pylist(
        [
            CONVERSATION,
            *(row for reason, row in BAD_RECORDS if reason not in ("wrong_type", "no_text")),
        ]
    )
    frames = list(sanitize.stream(table, plan="redact", state=tmp_path / "state2"))
    assert sum(len(frame) for frame in frames) == 1
    entries = [
        json.loads(line)
        for line in (tmp_path / "state2" / "quarantine" / "records.jsonl").read_text().splitlines()
    ]
    assert [entry["reason"] for entry in entries] == [
        "no_turns",
        "unknown_role",
        "unknown_role",
        "bad_arguments",
    ]


def test_a_stream_remembers_its_shape(tmp_path: Path) -> None:
    """Records of a later call are read as those before, whatever they have; the summary names the
    shape."""
    state, later = tmp_path / "state", {"text": "other", **CONVERSATION}
    first = list(sanitize.stream([CONVERSATION], plan="redact", state=state, seed=1))
    assert (
        without_nulls(first[0])["messages"][0]["content"]
        == "Write to [EMAIL_ADDRESS], her number is [PHONE_NUMBER]."
    )
    (row,) = sanitize.stream([later], plan="redact", state=state, seed=1)
    assert (
        row["messages"][0]["role"] == "user"
        and json.loads(row["messages"][1]["tool_calls"][0]["function"]["arguments"])["n"] == 3
    )
    settings = Settings(seed=1, workers=1)
    summary = run_stream(
        [write_json_lines(tmp_path / "a.jsonl", [CONVERSATION])],
        tmp_path / "out.jsonl",
        load_plan("redact"),
        None,
        settings,
    )
    assert summary.shape.startswith("chat: texts in messages[].content")
    with pytest.raises(
        sanitize.SanitizeError, match="none of its 1 record has a text in a column text"
    ):
        list(sanitize.stream([{"notes": 1}], plan="redact"))
