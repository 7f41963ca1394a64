"""Runs over conversations: roles and structure stay, JSON stays valid, a person keeps one surrogate within a conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sanitize

ARGUMENTS = {"to": "ann.roe@example.com", "text": 'line\nann.roe@example.com "q" é', "phone": 2055550142, "n": 3}
CONVERSATION: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Write to ann.roe@example.com, her number is 205-555-0142.", "tool_calls": []},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "send", "arguments": json.dumps(ARGUMENTS)}}],
        },
        {"role": "tool", "content": "Sent to ann.roe@example.com.", "tool_calls": []},
    ],
    "topic": "mail",
}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_tool_calls_are_sanitized_and_stay_json(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", [CONVERSATION] * 3)
    result = sanitize.run(source, tmp_path / "out", plan="redact", workers=1)
    assert result.leaks == 0 and result.shape.startswith("chat: texts in messages[].content; kept: messages[].role; JSON in ")
    (row, *_) = sanitize.Corpus.open(tmp_path / "out").table().to_pylist()
    assert [turn["role"] for turn in row["messages"]] == ["user", "assistant", "tool"]
    assert row["messages"][0]["content"] == "Write to [EMAIL_ADDRESS], her number is [PHONE_NUMBER]."
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
    source = write_lines(tmp_path / "a.jsonl", [first, CONVERSATION])
    result = sanitize.run(source, tmp_path / "out", plan="rmft", workers=1, seed=1)
    arguments = sanitize.Corpus.open(tmp_path / "out").table().to_pylist()[0]["messages"][0]["tool_calls"][0]["function"]["arguments"]
    assert result.leaks == 0 and json.loads(arguments)["to"] == ARGUMENTS["to"]
    assert "ann.roe@example.com" not in json.loads(arguments)["text"]


def test_one_surrogate_per_person_and_conversation(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'leave = ["resource"]\n[find]\nkinds = ["EMAIL_ADDRESS", "resource"]\nfinders = ["patterns"]\n'
        '[[edit]]\nuse = "pseudonymize"\nkinds = ["EMAIL_ADDRESS"]\nscope = "document"\n'
    )
    rows = [{"messages": [{"role": role, "content": "I am ann.roe@example.com"} for role in ("user", "assistant")]} for _ in range(2)]
    sanitize.run(write_lines(tmp_path / "a.jsonl", rows), tmp_path / "out", plan=str(plan), workers=1, seed=1)
    found = [[turn["content"] for turn in row["messages"]] for row in sanitize.Corpus.open(tmp_path / "out").table().to_pylist()]
    assert [len(set(texts)) for texts in found] == [1, 1] and found[0] != found[1]
    assert all("ann.roe@example.com" not in text for texts in found for text in texts)


def test_a_preview_names_the_shape(tmp_path: Path) -> None:
    preview = sanitize.explain(write_lines(tmp_path / "a.jsonl", [CONVERSATION]), plan="redact")
    assert preview.shape.startswith("chat: ") and preview.sample.by_kind["EMAIL_ADDRESS"].replaced == 4


def test_the_main_text_keeps_its_name(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", [{"notes": "Ask ann.roe@example.com", "text": "other"}])
    sanitize.run(source, tmp_path / "out", plan="redact", workers=1, text_column="notes")
    (row,) = sanitize.Corpus.open(tmp_path / "out").table(["notes", "text"]).to_pylist()
    assert row == {"notes": "Ask [EMAIL_ADDRESS]", "text": "other"}


def test_too_many_unknown_roles_stop_the_run(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a.jsonl", [{"messages": [{"role": "Larry", "content": "Hi"}]}] * 3)
    with pytest.raises(sanitize.SanitizeError, match="unknown_role|a role in its conversation"):
        sanitize.run(source, tmp_path / "out", plan="redact", workers=1)


def test_columns_that_are_searched_together_have_their_first_occurrence_in_corpus_order(tmp_path: Path) -> None:
    rows = [{"text": "", "b": "to ann.roe@example.com"}, {"text": "to ann.roe@example.com", "b": "x"}]
    result = sanitize.run(write_lines(tmp_path / "a.jsonl", rows), tmp_path / "out", plan="rmft", workers=1, seed=1)
    first, second = sanitize.Corpus.open(tmp_path / "out").table(["text", "b"]).to_pylist()
    assert first == rows[0] and "ann.roe@example.com" not in second["text"]
    assert result.by_kind["EMAIL_ADDRESS"].documents == 2
