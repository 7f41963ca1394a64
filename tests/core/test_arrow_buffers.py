"""Span operations on Arrow buffers compared with plain Python code: match, slice, replace and
convert positions, for any texts."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core import arrow_buffers
from sanitize.core.arrow_buffers import (
    TextBuffers,
    bytes_to_code_points,
    fill_columns,
    fill_null_texts,
    find_alternatives,
    find_first_byte_after,
    find_matches,
    find_matches_in,
    join_alternatives,
    slice_spans,
    splice,
)
from sanitize.core.intervals import enumerate_ranges, expand_ranges

LETTERS = st.sampled_from(
    [
        "a",
        "b",
        "Z",
        "7",
        " ",
        "\n",
        "@",
        "é",
        "ß",
        "中",
        "🙂",
        "e\u0301",
        "\u202e",
        "\x00",
        "\x01",
        "\x02",
        "א",
        "\U0010ffff",
    ]
)
TEXTS = st.lists(st.lists(LETTERS, max_size=12).map("".join), max_size=6)
DIGITS = "(?-u:\\b)[0-9a-z]+"


def make_column(texts: list[str], before: int = 0, after: int = 0) -> pa.LargeStringArray:
    """The texts as a slice of a longer column."""
    padded = ["xé"] * before + texts + ["中y"] * after
    return pa.array(padded, pa.large_string()).slice(before, len(texts))


def character_offsets(text: str) -> list[int]:
    """The byte positions between characters."""
    offsets = [0]
    for letter in text:
        offsets.append(offsets[-1] + len(letter.encode()))
    return offsets


@st.composite
def texts_with_spans(draw: st.DrawFn) -> tuple[list[str], list[list[tuple[int, int]]]]:
    """Texts, and in each some spans (in bytes of the text) that ascend and do not overlap; some are
    empty or adjacent."""
    texts = draw(TEXTS)
    spans = []
    for text in texts:
        span_edges = sorted(draw(st.lists(st.sampled_from(character_offsets(text)), max_size=8)))
        pairs = list(pairwise(span_edges))[:: draw(st.sampled_from([1, 2]))]
        # an empty span at the edge of another span is left out
        spans.append([pair for pair in pairs if pair[0] < pair[1]])
    return texts, spans


def flatten_spans(
    texts: list[str], spans: list[list[tuple[int, int]]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Text numbers, first and last + 1 bytes in the joined data."""
    base = np.concatenate([[0], np.cumsum([len(text.encode()) for text in texts])]).astype(np.int64)
    rows = [
        (no, base[no] + start, base[no] + end)
        for no, spans_of_text in enumerate(spans)
        for start, end in spans_of_text
    ]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


@pytest.mark.slow
@given(TEXTS, st.integers(0, 2), st.integers(0, 2))
def test_buffers_round_trip_texts_of_any_slice(texts: list[str], before: int, after: int) -> None:
    buffers = TextBuffers.from_array(make_column(texts, before, after))
    assert buffers.offsets[0] == 0 and buffers.data.tobytes() == "".join(texts).encode()
    assert buffers.lengths.tolist() == [len(text.encode()) for text in texts]
    assert buffers.to_array().to_pylist() == texts


@given(TEXTS, st.integers(0, 2))
def test_matches_equal_python_matches_in_each_text(texts: list[str], before: int) -> None:
    starts, stops = find_matches(TextBuffers.from_array(make_column(texts, before)), DIGITS)
    expected, base = [], 0
    for text in texts:
        spans = (match.span() for match in re.finditer(r"\b[0-9a-z]+", text, re.ASCII))
        expected += [
            (base + len(text[:start].encode()), base + len(text[:stop].encode()))
            for start, stop in spans
        ]
        base += len(text.encode())
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    "lengths", [[40] * 5000, [40, 0] * 2000, [0] * 9, [40, 3] * 50, [13], [12]]
)
@pytest.mark.parametrize("before", [0, 1])
def test_matches_in_long_texts_are_found_without_a_copy(lengths: list[int], before: int) -> None:
    texts = [("ab1 é" * 9)[:length] for length in lengths]
    buffers = TextBuffers.from_array(make_column(texts, before))
    starts, stops = find_matches(buffers, "[0-9]")
    joined = "".join(texts).encode()
    assert starts.tolist() == [match.start() for match in re.finditer(b"[0-9]", joined)]
    assert stops.tolist() == (starts + 1).tolist()
    blocks = arrow_buffers._byte_blocks(pl.Series(texts))
    assert b"".join(map(bytes, blocks)) == joined
    assert (len(blocks) > 1) == (sum(lengths) > 10_000), (
        "several blocks only if they are in order, without a copy"
    )


@given(
    st.lists(st.text("abc ", max_size=12), min_size=1, max_size=4),
    st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_alternatives_searched_apart_match_as_their_alternation(
    texts: list[str], words: list[str]
) -> None:
    buffers = TextBuffers.from_array(pa.array(texts, pa.large_string()))
    patterns = [rf"(?-u:\b)?{word}c?" if no % 2 else f"{word}+ ?" for no, word in enumerate(words)]
    starts, stops = find_alternatives(buffers, patterns)
    expected_starts, expected_stops = find_matches(buffers, "|".join(patterns))
    assert starts.tolist() == expected_starts.tolist()
    assert stops.tolist() == expected_stops.tolist()
    starts, stops = join_alternatives(
        buffers,
        [find_matches(buffers, pattern) for pattern in reversed(patterns)],
        partial(find_matches_in, buffers, pattern="|".join(patterns)),
        is_ordered=False,
    )
    assert starts.tolist() == expected_starts.tolist()
    assert stops.tolist() == expected_stops.tolist()


def test_byte_blocks_are_correct_for_reordered_and_partial_columns() -> None:
    long = pl.Series([str(number) * 20 for number in range(100)])
    short = pl.Series(["a" * 10, "b" * 10])
    columns = [
        long.reverse(),
        long[10:],
        long.head(90),
        long.gather([3, 3]),
        pl.concat([long, long])[5:150],
        long.filter(long > "5"),
    ]
    for series in [
        *columns,
        pl.concat([long[10:12].head(1), short], rechunk=True),
        pl.concat([pl.Series(["c" * 20] * 2).head(1), short]),
    ]:
        assert (
            b"".join(map(bytes, arrow_buffers._byte_blocks(series)))
            == "".join(series.to_list()).encode()
        )


@pytest.mark.parametrize(
    "texts",
    [
        ["\x01a\x02"],
        ["\x01", "a", "\x02"],
        ["a\x01b\x02c"],
        ["\x02\x01"],
        ["a", "\x01"],
        ["\x01\x02" * 3 + "ab", "ab"],
        ["", "a", ""],
    ],
)
def test_matches_are_correct_in_texts_with_separator_bytes(texts: list[str]) -> None:
    buffers = TextBuffers.from_array(make_column(texts, 1, 1))
    starts, stops = find_matches(buffers, DIGITS)
    joined = "".join(texts).encode()
    assert buffers.data.tobytes() == joined, "the input is unchanged"
    matches = [joined[start:end].decode() for start, end in zip(starts, stops, strict=True)]
    assert matches == [
        match[0] for text in texts for match in re.finditer(r"\b[0-9a-z]+", text, re.ASCII)
    ]


@given(texts_with_spans(), st.integers(0, 2))
def test_slice_spans_gives_the_text_of_each_span(
    drawn: tuple[list[str], list[list[tuple[int, int]]]], before: int
) -> None:
    texts, spans = drawn
    _, starts, stops = flatten_spans(texts, spans)
    expected = [
        texts[no].encode()[start:end].decode()
        for no, spans_of_text in enumerate(spans)
        for start, end in spans_of_text
    ]
    buffers = TextBuffers.from_array(make_column(texts, before, 1))
    assert slice_spans(buffers, starts, stops).to_pylist() == expected
    # spans in any order, also overlapping ones
    twice = (np.concatenate([starts[::-1], starts]), np.concatenate([stops[::-1], stops]))
    assert slice_spans(buffers, *twice).to_pylist() == expected[::-1] + expected


@given(texts_with_spans(), st.integers(0, 2), st.data())
def test_splice_changes_only_the_spans(
    drawn: tuple[list[str], list[list[tuple[int, int]]]], before: int, data: st.DataObject
) -> None:
    texts, spans = drawn
    _, starts, stops = flatten_spans(texts, spans)
    words = [
        data.draw(st.sampled_from(["", "x", "[NEW]", "中🙂", "twelve bytes", "longer than before"]))
        for _ in starts
    ]
    spliced = splice(
        TextBuffers.from_array(make_column(texts, before, 1)),
        starts,
        stops,
        pa.array(words, pa.large_string()),
    )
    replacements = iter(words)
    expected = []
    for text, spans_of_text in zip(texts, spans, strict=True):
        raw, position, pieces = text.encode(), 0, []
        for start, end in spans_of_text:
            pieces += [raw[position:start], next(replacements).encode()]
            position = end
        expected.append(b"".join([*pieces, raw[position:]]).decode())
    spliced.validate(full=True)
    assert spliced.to_pylist() == expected


@pytest.mark.parametrize(
    ("texts", "spans", "words", "expected"),
    [
        (["ab", "cd"], [[(0, 2)], [(0, 2)]], ["1", "22"], ["1", "22"]),
        (["ab", "cd"], [[(1, 2)], []], [""], ["a", "cd"]),
        (["ab", "", "cd"], [[(0, 2)], [], [(1, 2)]], ["xyz", "!"], ["xyz", "", "c!"]),
        (["", "ab"], [[], [(0, 1), (1, 2)]], ["中", "é"], ["", "中é"]),
        (["ab", ""], [[(0, 2)], []], [""], ["", ""]),
    ],
)
def test_splice_at_the_edges_of_texts(
    texts: list[str], spans: list[list[tuple[int, int]]], words: list[str], expected: list[str]
) -> None:
    _, starts, stops = flatten_spans(texts, spans)
    assert (
        splice(
            TextBuffers.from_array(make_column(texts, 1)),
            starts,
            stops,
            pa.array(words, pa.large_string()),
        ).to_pylist()
        == expected
    )


@given(TEXTS, st.integers(0, 2))
@settings(max_examples=60)
def test_code_point_positions_of_every_character(texts: list[str], before: int) -> None:
    rows = [
        (no, byte_offset, points)
        for no, text in enumerate(texts)
        for points, byte_offset in enumerate(character_offsets(text))
    ]
    table = np.array(rows, np.int64).reshape(-1, 3)
    buffers = TextBuffers.from_array(make_column(texts, before, 1))
    (points,) = bytes_to_code_points(
        buffers, table[:, 0], buffers.offsets[table[:, 0]] + table[:, 1]
    )
    assert points.tolist() == table[:, 2].tolist()


@given(st.binary(max_size=70), st.data(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_byte_search_equals_python_find(
    data: bytes, draw: st.DataObject, is_ascending: bool
) -> None:
    data = bytes(10 if byte % 11 == 0 else byte for byte in data)
    pairs = draw.draw(st.lists(st.tuples(*[st.integers(0, len(data))] * 2).map(sorted), max_size=8))
    pairs = sorted(pairs) if is_ascending else pairs
    start, end = (
        np.array([start for start, _ in pairs], np.int64),
        np.array([end for _, end in pairs], np.int64),
    )
    # data that is not aligned
    buffers = TextBuffers(np.frombuffer(b"\n" + data, np.uint8)[1:], np.array([0, len(data)]))
    found = find_first_byte_after(buffers, 10, start, end)
    assert found.tolist() == [
        (data.find(b"\n", *pair) if b"\n" in data[slice(*pair)] else pair[1]) for pair in pairs
    ]


def test_a_null_is_an_empty_text_whatever_bytes_it_covers() -> None:
    full_array = pa.array(["ab", "hidden", "c"], pa.large_string())
    _, offsets, data = full_array.buffers()
    array_with_null = pa.LargeStringArray.from_buffers(3, offsets, data, pa.py_buffer(b"\x05"))
    assert (
        array_with_null.to_pylist() == ["ab", None, "c"]
        and len(TextBuffers.from_array(array_with_null).data) == 9
    )
    assert bytes(
        TextBuffers.from_array(fill_null_texts(array_with_null)).data
    ) == b"abc" and fill_null_texts(array_with_null).to_pylist() == ["ab", "", "c"]
    assert fill_null_texts(full_array) is full_array, "no copy without nulls"


@pytest.mark.parametrize("ranges", [[], [(3, 5)], [(0, 2), (2, 2), (7, 9), (1, 4)], [(5, 5)]])
def test_enumerate_ranges_gives_every_number_of_each_range(ranges: list[tuple[int, int]]) -> None:
    start, end = np.array(ranges, np.int64).reshape(-1, 2).T
    range_numbers, value_numbers = enumerate_ranges(start, end)
    expected = [
        (index, value)
        for index, (range_start, range_end) in enumerate(ranges)
        for value in range(range_start, range_end)
    ]
    assert list(zip(range_numbers.tolist(), value_numbers.tolist(), strict=True)) == expected
    assert (
        expand_ranges(start, end).tolist() == value_numbers.tolist()
        and value_numbers.dtype == np.int64
    )


def test_the_capacity_follows_what_a_kernel_wrote_before() -> None:
    """Its columns are complete whatever the capacity, and a second call of the same size needs no
    repetition."""
    capacities: list[int] = []

    def count_up(count: int, *columns: np.ndarray[Any, Any]) -> int:
        capacities.append(len(columns[0]))
        for column in columns:
            column[: min(count, len(column))] = np.arange(count)[: len(column)]
        return count

    for count, calls in (
        (10, 1),
        (5000, 2),
        (5000, 1),
        (0, 1),
        (9_999, 1),
        (2_000_000, 2),
        (2_000_000, 2),
    ):
        capacities.clear()
        columns = fill_columns(partial(count_up, count), 2)
        assert [column.tolist() for column in columns] == [list(range(count))] * 2 and len(
            capacities
        ) == calls
    assert capacities[0] < 2_000_000, "one unusual text does not make all later columns as large"
