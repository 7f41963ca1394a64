"""Strings inside JSON: listed decoded, written back so that the text stays valid JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.text_cells import (
    JSON_STEP,
    LeafPath,
    flatten_leaf,
    is_valid_json,
    list_strings,
    replace_leaf_texts,
    replace_strings,
)

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_unchanged_strings_keep_every_byte(
    value: Any, ensure_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
    assert replace_strings(text, list(list_strings(text))) == text


@given(JSON_VALUES, st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_replaced_strings_give_valid_json(value: Any, replacement: str) -> None:
    text = json.dumps(value)
    changed = replace_strings(text, [replacement] * len(list_strings(text)))
    assert changed is not None and is_valid_json(changed)
    assert set(list_strings(changed)) <= {replacement} | ({replacement} if replacement else {""})


@pytest.mark.parametrize("text", [None, "", "  "])
def test_blank_texts_have_no_strings(text: str | None) -> None:
    assert list_strings(text) == [] and replace_strings(text, []) == text


def test_a_text_that_is_no_json_is_one_string() -> None:
    assert list_strings("{to: Ann}") == ["{to: Ann}"] and replace_strings("{to: Ann}", ["x"]) == "x"
    assert not is_valid_json("{to: Ann}") and not is_valid_json(r'"\ud83d"')


def test_leaf_inside_json_of_a_list_of_structs() -> None:
    call = pa.large_list(pa.struct([("arguments", pa.large_string())]))
    rows = [
        [{"arguments": '{"to": "Ann"}'}, {"arguments": None}],
        None,
        [],
        [{"arguments": '["b\\nc", 12345678, 9]'}],
    ]
    column, leaf = pa.array(rows, call), LeafPath("calls", ("[]", "arguments", JSON_STEP))
    flat = flatten_leaf(column, leaf)
    assert str(leaf) == "calls[].arguments{}" and leaf.stored == LeafPath(
        "calls", ("[]", "arguments")
    )
    assert flat.texts.to_pylist() == ["to", "Ann", "b\nc", "12345678"]
    assert flat.rows.tolist() == [0, 0, 3, 3] and flat.positions.tolist() == [0, 1, 0, 1]
    edited = replace_leaf_texts(
        column, {leaf: pa.array(["to", "[PERSON]", 'b\n"', "[PHONE]"], pa.large_string())}
    ).to_pylist()
    assert edited == [
        [{"arguments": '{"to": "[PERSON]"}'}, {"arguments": None}],
        None,
        [],
        [{"arguments": '["b\\n\\"", "[PHONE]", 9]'}],
    ]


def test_the_words_of_chat_formats_are_no_strings() -> None:
    turn = {
        "role": "User",
        "content": [{"type": "text", "text": "role"}, {"type": "Ann", "weight": "Roe"}],
        "tool_calls": [
            {"function": {"name": "send", "arguments": '{"from": "Claude", "to": "tool"}'}}
        ],
    }
    assert list_strings(json.dumps(turn)) == ["role", "Ann", "Roe", "send", "Claude", "to", "tool"]


def test_arguments_inside_json_are_entered() -> None:
    inner = json.dumps({"to": 'Ann "A" Roe\n', "call": 2055550142})
    text = json.dumps({"arguments": inner, "b": "[1, 2", "arguments2": "[]", "content": inner})
    assert list_strings(text) == [
        "to",
        'Ann "A" Roe\n',
        "call",
        "2055550142",
        "b",
        "[1, 2",
        "arguments2",
        "[]",
        inner,
    ]
    changed = replace_strings(text, ["to", '"x"', "call", "[PHONE]", "b", "y", "c", "z", "text"])
    assert changed is not None and json.loads(changed) == {
        "arguments": '{"to": "\\"x\\"", "call": "[PHONE]"}',
        "b": "y",
        "c": "z",
        "content": "text",
    }
