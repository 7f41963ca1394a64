"""Texts are flattened from any column and written back; everything that is not replaced stays
unchanged."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.text_cells import (
    LeafPath,
    PathArrays,
    canonical_type,
    flatten_leaf,
    list_text_leaves,
    replace_leaf_texts,
    to_canonical_type,
)

TEXT = pa.large_string()
MESSAGES = pa.large_list(pa.struct([("role", TEXT), ("content", TEXT), ("at", pa.int64())]))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.string(), ["c"]),
        (pa.string_view(), ["c"]),
        (pa.dictionary(pa.int8(), pa.string()), ["c"]),
        (pa.int64(), []),
        (pa.binary(), []),
        (pa.list_(pa.string()), ["c[]"]),
        (pa.list_(pa.list_(pa.large_string())), ["c[][]"]),
        (
            pa.struct(
                [("a", pa.string()), ("b", pa.int8()), ("d", pa.struct([("e", pa.string())]))]
            ),
            ["c.a", "c.d.e"],
        ),
        (MESSAGES, ["c[].role", "c[].content"]),
        (pa.map_(pa.string(), pa.list_(pa.string())), ["c[].key", "c[].value[]"]),
        (pa.list_(pa.binary()), []),
    ],
    ids=str,
)
def test_leaves_in_schema_order(kind: pa.DataType, expected: list[str]) -> None:
    schema = pa.schema([("before", pa.string()), ("c", kind), ("after", pa.int32())])
    assert [str(leaf) for leaf in list_text_leaves(schema)] == ["before", *expected]


FIELD_NAMES = {
    "[]": r"\[]",
    "{}": r"\{}",
    r"\[]": r"\\[]",
    r"\\{}": r"\\\{}",
    "\\": "\\",
    "[0]": "[0]",
}
# (type, values, leaf, its texts, the row of each, the position of each)
CASES: list[tuple[pa.DataType, list[Any], str, list[str | None], list[int], list[int]]] = [
    (TEXT, ["a", None, ""], "c", ["a", None, ""], [0, 1, 2], [0, 0, 0]),
    (
        pa.large_list(TEXT),
        [["a", "b"], None, [], [None, "c"]],
        "c[]",
        ["a", "b", None, "c"],
        [0, 0, 3, 3],
        [0, 1, 0, 1],
    ),
    (
        pa.large_list(pa.large_list(TEXT)),
        [[["a"], []], None, [None, ["b", "c"]]],
        "c[][]",
        ["a", "b", "c"],
        [0, 2, 2],
        [0, 0, 1],
    ),
    (
        pa.struct([("a", TEXT), ("b", pa.int64())]),
        [{"a": "x", "b": 1}, {"a": None, "b": None}],
        "c.a",
        ["x", None],
        [0, 1],
        [0, 0],
    ),
    (
        MESSAGES,
        [
            [{"role": "u", "content": "hi", "at": 1}, {"role": "a", "content": None, "at": None}],
            [],
            None,
            [{"role": "u", "content": "é", "at": 3}],
        ],
        "c[].content",
        ["hi", None, "é"],
        [0, 0, 3],
        [0, 1, 0],
    ),
    # fields with the names of steps, and with the names that such fields have as steps
    *(
        (
            pa.struct([(name, pa.large_list(pa.struct([(name, TEXT)]))) for name in FIELD_NAMES]),
            [{name: [{name: f"{name} a"}, {name: f"{name} b"}] for name in FIELD_NAMES}],
            f"c.{step}[].{step}",
            [f"{name} a", f"{name} b"],
            [0, 0],
            [0, 1],
        )
        for name, step in FIELD_NAMES.items()
    ),
]


def find_leaf(array: pa.Array, leaf_name: str) -> LeafPath:
    return next(
        leaf for leaf in list_text_leaves(pa.schema([("c", array.type)])) if str(leaf) == leaf_name
    )


@pytest.mark.parametrize(
    ("kind", "values", "leaf_name", "texts", "rows", "positions"),
    CASES,
    ids=[case[2] for case in CASES],
)
def test_flatten_leaf_gives_texts_rows_and_positions(
    kind: pa.DataType,
    values: list[Any],
    leaf_name: str,
    texts: list[str | None],
    rows: list[int],
    positions: list[int],
) -> None:
    column = pa.array(values, kind)
    flattened = flatten_leaf(column, find_leaf(column, leaf_name))
    assert flattened.texts.to_pylist() == texts
    assert flattened.rows.tolist() == rows
    assert flattened.positions.tolist() == positions


@pytest.mark.parametrize(
    ("kind", "values", "leaf_name", "texts", "rows", "positions"),
    CASES,
    ids=[case[2] for case in CASES],
)
def test_replacement_changes_only_the_leaf(
    kind: pa.DataType,
    values: list[Any],
    leaf_name: str,
    texts: list[str | None],
    rows: list[int],
    positions: list[int],
) -> None:
    column = pa.array(values, kind)
    leaf = find_leaf(column, leaf_name)
    upper_cased = replace_leaf_texts(
        column, {leaf: pc.utf8_upper(flatten_leaf(column, leaf).texts)}
    )
    assert upper_cased.type == column.type
    upper_cased.validate(full=True)
    assert flatten_leaf(upper_cased, leaf).texts.to_pylist() == [
        None if text is None else text.upper() for text in texts
    ]
    for other in list_text_leaves(pa.schema([("c", kind)])):
        if other != leaf:
            assert flatten_leaf(upper_cased, other).texts.equals(flatten_leaf(column, other).texts)
    assert replace_leaf_texts(upper_cased, {leaf: flatten_leaf(column, leaf).texts}).equals(column)


def test_several_leaves_are_replaced_at_once() -> None:
    turns = [
        [{"role": "user", "content": "a", "at": 1}, None],
        None,
        [{"role": None, "content": "b", "at": None}],
    ]
    column = pa.array(turns, MESSAGES)
    role, content = (LeafPath("c", ("[]", name)) for name in ("role", "content"))
    upper_cased = {
        leaf: pc.utf8_upper(flatten_leaf(column, leaf).texts) for leaf in (role, content)
    }
    both = replace_leaf_texts(column, upper_cased)
    both.validate(full=True)
    one_by_one = replace_leaf_texts(
        replace_leaf_texts(column, {role: upper_cased[role]}), {content: upper_cased[content]}
    )
    assert both.equals(one_by_one)
    assert both.to_pylist() == [
        [{"role": "USER", "content": "A", "at": 1}, None],
        None,
        [{"role": None, "content": "B", "at": None}],
    ]


def test_a_null_struct_stays_null() -> None:
    column = pa.array(
        [{"a": "x", "b": 1}, None, {"a": None, "b": 2}], pa.struct([("a", TEXT), ("b", pa.int64())])
    )
    leaf = LeafPath("c", ("a",))
    assert flatten_leaf(column, leaf).texts.to_pylist() == ["x", None, None]
    assert replace_leaf_texts(column, {leaf: pa.array(["y", None, None], TEXT)}).to_pylist() == [
        {"a": "y", "b": 1},
        None,
        {"a": None, "b": 2},
    ]


def test_nested_texts_under_a_null_are_left_out() -> None:
    struct_array = pa.StructArray.from_arrays(
        [pa.array(["seen", "hidden"], TEXT)], names=["a"], mask=pa.array([False, True])
    )
    assert flatten_leaf(struct_array, LeafPath("c", ("a",))).texts.to_pylist() == ["seen", None]
    offsets, values = pa.array([0, 1, 2], pa.int64()), pa.array(["seen", "hidden"], TEXT)
    listed = pa.LargeListArray.from_arrays(offsets, values, mask=pa.array([False, True]))
    flattened = flatten_leaf(listed, LeafPath("c", ("[]",)))
    assert flattened.texts.to_pylist() == ["seen"]
    assert flattened.rows.tolist() == [0]
    assert replace_leaf_texts(listed, {LeafPath("c", ("[]",)): flattened.texts}).to_pylist() == [
        ["seen"],
        None,
    ]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["a", None]), ["a", None]),
        (pa.array(["a", None], pa.string_view()), ["a", None]),
        (pa.array(["a", "b", "a", None]).dictionary_encode(), ["a", "b", "a", None]),
        (pa.array(["x", "a", "b", "a"]).dictionary_encode().slice(1, 2), ["a", "b"]),
        (pa.array([["a"], None], pa.list_(pa.string())), [["a"], None]),
        (pa.array([["a", "b"]], pa.list_(pa.string(), 2)), [["a", "b"]]),
        (
            pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string())),
            [[{"key": "k", "value": "v"}], None, []],
        ),
        (
            pa.array([{"a": "x", "b": b"y"}], pa.struct([("a", pa.string()), ("b", pa.binary())])),
            [{"a": "x", "b": b"y"}],
        ),
        (
            pa.array([{"a": ["x"]}, None], pa.struct([("a", pa.list_(pa.string()))])),
            [{"a": ["x"]}, None],
        ),
        (pa.array([1, None]), [1, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_canonical_type_keeps_values(column: pa.Array, expected: list[Any]) -> None:
    canonical = to_canonical_type(column)
    assert canonical.type == canonical_type(column.type)
    canonical.validate(full=True)
    assert canonical.to_pylist() == expected
    assert to_canonical_type(canonical) is canonical


def test_plain_columns_are_not_copied() -> None:
    column = pa.array(["a", "b"], TEXT)
    assert flatten_leaf(column, LeafPath("c")).texts is column


WORD = st.none() | st.text(max_size=6)
VALUE = st.none() | st.lists(
    st.none()
    | st.fixed_dictionaries(
        {"role": WORD, "content": WORD, "tags": st.none() | st.lists(WORD, max_size=3)}
    ),
    max_size=3,
)


@given(st.lists(VALUE, max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_flattened_texts_can_be_written_back(values: list[Any], skip: int, keep: int) -> None:
    column_type = pa.list_(
        pa.struct(
            [("role", pa.string()), ("content", pa.string()), ("tags", pa.list_(pa.string()))]
        )
    )
    column = to_canonical_type(pa.array(values, column_type)).slice(skip, keep)
    rows = values[skip : skip + keep]
    for leaf in list_text_leaves(pa.schema([("c", column.type)])):
        flattened = flatten_leaf(column, leaf)
        assert len(flattened.texts) == len(flattened.rows) == len(flattened.positions)
        written_back = replace_leaf_texts(column, {leaf: flattened.texts})
        written_back.validate(full=True)
        assert written_back.to_pylist() == rows
        marked = replace_leaf_texts(
            column,
            {
                leaf: pa.array(
                    [None if text is None else "!" + text for text in flattened.texts.to_pylist()],
                    TEXT,
                )
            },
        )
        assert flatten_leaf(marked, leaf).texts.to_pylist() == [
            None if text is None else "!" + text for text in flattened.texts.to_pylist()
        ]
        # positions count the texts of a row from 0
        for row in set(flattened.rows.tolist()):
            assert flattened.positions[flattened.rows == row].tolist() == list(
                range(int((flattened.rows == row).sum()))
            )


def test_time_is_linear_in_the_fields_of_a_struct() -> None:
    def measure(field_count: int) -> float:
        column = pa.array([{f"key{number}": "a" for number in range(field_count)}, None])
        column = to_canonical_type(column)
        leaves = list_text_leaves(pa.schema([("c", column.type)]))
        start = time.process_time()
        path_arrays: PathArrays = {}
        flattened = {leaf: flatten_leaf(column, leaf, path_arrays).texts for leaf in leaves}
        assert all(texts.to_pylist() == ["a", None] for texts in flattened.values())
        assert replace_leaf_texts(column, flattened).equals(column)
        return time.process_time() - start

    measure(100)
    # 64 times as long where each field costs time for all others
    assert measure(8_000) <= 24 * measure(1_000)
