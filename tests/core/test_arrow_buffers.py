"""Span operations on Arrow buffers compared with slow Python code: match, slice, replace and convert positions, for any texts."""

from __future__ import annotations

import re
from itertools import pairwise

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
    enumerate_ranges,
    expand_ranges,
    fill_null_texts,
    find_first_byte_after,
    find_last_byte_before,
    find_matches,
    slice_nested_spans,
    slice_spans,
    splice,
)

LETTERS = st.sampled_from(
    ["a", "b", "Z", "7", " ", "\n", "@", "é", "ß", "中", "🙂", "e\u0301", "\u202e", "\x00", "\x01", "\x02", "א", "\U0010ffff"]
)
TEXTS = st.lists(st.lists(LETTERS, max_size=12).map("".join), max_size=6)
DIGITS = "(?-u:\\b)[0-9a-z]+"


def column(texts: list[str], before: int = 0, after: int = 0) -> pa.LargeStringArray:
    """The texts as a slice of a longer column."""
    padded = ["xé"] * before + texts + ["中y"] * after
    return pa.array(padded, pa.large_string()).slice(before, len(texts))


def bounds(text: str) -> list[int]:
    """The byte positions between characters."""
    places = [0]
    for letter in text:
        places.append(places[-1] + len(letter.encode()))
    return places


@st.composite
def spanned(draw: st.DrawFn) -> tuple[list[str], list[list[tuple[int, int]]]]:
    """Texts, and in each some spans (in bytes of the text) that ascend and do not overlap; some are empty or adjacent."""
    texts = draw(TEXTS)
    spans = []
    for text in texts:
        edges = sorted(draw(st.lists(st.sampled_from(bounds(text)), max_size=8)))
        pairs = list(pairwise(edges))[:: draw(st.sampled_from([1, 2]))]
        # an empty span at the edge of another one has no place of its own
        spans.append([pair for pair in pairs if pair[0] < pair[1]])
    return texts, spans


def flat(texts: list[str], spans: list[list[tuple[int, int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Text numbers, first and last + 1 bytes in the joined data."""
    base = np.concatenate([[0], np.cumsum([len(text.encode()) for text in texts])]).astype(np.int64)
    rows = [(no, base[no] + low, base[no] + high) for no, mine in enumerate(spans) for low, high in mine]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


@given(TEXTS, st.integers(0, 2), st.integers(0, 2))
def test_buffers_give_the_texts_back_from_any_slice(texts: list[str], before: int, after: int) -> None:
    buffers = TextBuffers.from_array(column(texts, before, after))
    assert buffers.offsets[0] == 0 and buffers.data.tobytes() == "".join(texts).encode()
    assert buffers.lengths.tolist() == [len(text.encode()) for text in texts]
    assert buffers.to_array().to_pylist() == texts


@given(TEXTS, st.integers(0, 2))
def test_matches_are_those_of_python_in_every_text_on_its_own(texts: list[str], before: int) -> None:
    starts, stops = find_matches(TextBuffers.from_array(column(texts, before)), DIGITS)
    expected, base = [], 0
    for text in texts:
        spans = (match.span() for match in re.finditer(r"\b[0-9a-z]+", text, re.ASCII))
        expected += [(base + len(text[:start].encode()), base + len(text[:stop].encode())) for start, stop in spans]
        base += len(text.encode())
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == expected


@pytest.mark.parametrize("lengths", [[40] * 5000, [40, 0] * 2000, [0] * 9, [40, 3] * 50, [13], [12]])
@pytest.mark.parametrize("before", [0, 1])
def test_matches_in_long_texts_are_read_where_they_lie(lengths: list[int], before: int) -> None:
    texts = [("ab1 é" * 9)[:length] for length in lengths]
    buffers = TextBuffers.from_array(column(texts, before))
    starts, stops = find_matches(buffers, "[0-9]")
    joined = "".join(texts).encode()
    assert starts.tolist() == [one.start() for one in re.finditer(b"[0-9]", joined)]
    assert stops.tolist() == (starts + 1).tolist()
    blocks = arrow_buffers._byte_blocks(pl.Series(texts))
    assert b"".join(map(bytes, blocks)) == joined
    assert (len(blocks) > 1) == (sum(lengths) > 10_000), "several only where they come in their order, without a copy"


def test_blocks_that_are_not_all_of_a_column_in_its_order_are_not_taken_for_it() -> None:
    long = pl.Series([str(number) * 20 for number in range(100)])
    short = pl.Series(["a" * 10, "b" * 10])
    others = [long.reverse(), long[10:], long.head(90), long.gather([3, 3]), pl.concat([long, long])[5:150], long.filter(long > "5")]
    for some in [*others, pl.concat([long[10:12].head(1), short], rechunk=True), pl.concat([pl.Series(["c" * 20] * 2).head(1), short])]:
        assert b"".join(map(bytes, arrow_buffers._byte_blocks(some))) == "".join(some.to_list()).encode()


@pytest.mark.parametrize(
    "texts",
    [["\x01a\x02"], ["\x01", "a", "\x02"], ["a\x01b\x02c"], ["\x02\x01"], ["a", "\x01"], ["\x01\x02" * 3 + "ab", "ab"], ["", "a", ""]],
)
def test_matches_are_exact_where_the_text_holds_the_marks_themselves(texts: list[str]) -> None:
    buffers = TextBuffers.from_array(column(texts, 1, 1))
    starts, stops = find_matches(buffers, DIGITS)
    joined = "".join(texts).encode()
    assert buffers.data.tobytes() == joined, "the input is left as it is"
    found = [joined[low:high].decode() for low, high in zip(starts, stops, strict=True)]
    assert found == [match[0] for text in texts for match in re.finditer(r"\b[0-9a-z]+", text, re.ASCII)]


@given(spanned(), st.integers(0, 2))
def test_cut_gives_the_text_of_each_span(drawn: tuple[list[str], list[list[tuple[int, int]]]], before: int) -> None:
    texts, spans = drawn
    _, starts, stops = flat(texts, spans)
    expected = [texts[no].encode()[low:high].decode() for no, mine in enumerate(spans) for low, high in mine]
    assert slice_spans(TextBuffers.from_array(column(texts, before, 1)), starts, stops).to_pylist() == expected


@given(TEXTS, st.data())
def test_cut_nested_gives_the_text_of_each_span_however_deep_they_lie(texts: list[str], data: st.DataObject) -> None:
    spans: list[list[tuple[int, int]]] = []
    for text in texts:
        mine: list[tuple[int, int]] = []
        for _ in range(data.draw(st.integers(0, 5))):
            low, high = sorted(data.draw(st.tuples(st.sampled_from(bounds(text)), st.sampled_from(bounds(text)))))
            # each inside another or beside it: spans that cross are not allowed
            if low < high and all(high <= a or b <= low or (a <= low and high <= b) or (low <= a and b <= high) for a, b in mine):
                mine.append((low, high))
        spans.append(sorted(mine, key=lambda pair: (pair[0], -pair[1])))
    _, starts, stops = flat(texts, spans)
    expected = [texts[no].encode()[low:high].decode() for no, mine in enumerate(spans) for low, high in mine]
    assert slice_nested_spans(TextBuffers.from_array(column(texts)), starts, stops).to_pylist() == expected


@given(spanned(), st.integers(0, 2), st.data())
def test_splice_changes_the_spans_and_nothing_else(
    drawn: tuple[list[str], list[list[tuple[int, int]]]], before: int, data: st.DataObject
) -> None:
    texts, spans = drawn
    _, starts, stops = flat(texts, spans)
    words = [data.draw(st.sampled_from(["", "x", "[NEW]", "中🙂", "twelve bytes", "longer than before"])) for _ in starts]
    made = splice(TextBuffers.from_array(column(texts, before, 1)), starts, stops, pa.array(words, pa.large_string()))
    queue = iter(words)
    expected = []
    for text, mine in zip(texts, spans, strict=True):
        raw, at, pieces = text.encode(), 0, []
        for low, high in mine:
            pieces += [raw[at:low], next(queue).encode()]
            at = high
        expected.append(b"".join([*pieces, raw[at:]]).decode())
    made.validate(full=True)
    assert made.to_pylist() == expected


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
def test_splice_at_the_edges_of_texts(texts: list[str], spans: list[list[tuple[int, int]]], words: list[str], expected: list[str]) -> None:
    _, starts, stops = flat(texts, spans)
    assert splice(TextBuffers.from_array(column(texts, 1)), starts, stops, pa.array(words, pa.large_string())).to_pylist() == expected


@given(TEXTS, st.integers(0, 2))
@settings(max_examples=60)
def test_code_points_before_every_place(texts: list[str], before: int) -> None:
    places = [(no, place, points) for no, text in enumerate(texts) for points, place in enumerate(bounds(text))]
    table = np.array(places, np.int64).reshape(-1, 3)
    buffers = TextBuffers.from_array(column(texts, before, 1))
    (points,) = bytes_to_code_points(buffers, table[:, 0], buffers.offsets[table[:, 0]] + table[:, 1])
    assert points.tolist() == table[:, 2].tolist()


@given(st.binary(max_size=70), st.data(), st.sampled_from([1, 64]))
@settings(max_examples=150, deadline=None)
def test_a_byte_before_and_behind_a_place_is_that_of_a_slow_search(data: bytes, draw: st.DataObject, steps: int) -> None:
    data = bytes(10 if byte % 11 == 0 else byte for byte in data)
    pairs = draw.draw(st.lists(st.tuples(*[st.integers(0, len(data))] * 2).map(sorted), max_size=8))
    low, high = np.array([low for low, _ in pairs], np.int64), np.array([high for _, high in pairs], np.int64)
    buffers = TextBuffers(np.frombuffer(b"\n" + data, np.uint8)[1:], np.array([0, len(data)]))  # one that begins anywhere
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_buffers, "_MAX_WINDOWS", steps)
        before, behind = find_last_byte_before(buffers, 10, high, low), find_first_byte_after(buffers, 10, low, high)
    assert before.tolist() == [data.rfind(b"\n", *pair) for pair in pairs]
    assert behind.tolist() == [(data.find(b"\n", *pair) if b"\n" in data[slice(*pair)] else pair[1]) for pair in pairs]


def test_a_null_is_an_empty_text_whatever_bytes_lie_under_it() -> None:
    whole = pa.array(["ab", "hidden", "c"], pa.large_string())
    _, offsets, data = whole.buffers()
    some = pa.LargeStringArray.from_buffers(3, offsets, data, pa.py_buffer(b"\x05"))
    assert some.to_pylist() == ["ab", None, "c"] and len(TextBuffers.from_array(some).data) == 9
    assert bytes(TextBuffers.from_array(fill_null_texts(some)).data) == b"abc" and fill_null_texts(some).to_pylist() == ["ab", "", "c"]
    assert fill_null_texts(whole) is whole, "no copy where there is none"


@pytest.mark.parametrize("these", [[], [(3, 5)], [(0, 2), (2, 2), (7, 9), (1, 4)], [(5, 5)]])
def test_every_number_of_every_range(these: list[tuple[int, int]]) -> None:
    low, high = np.array(these, np.int64).reshape(-1, 2).T
    each, number = enumerate_ranges(low, high)
    expected = [(at, one) for at, (first, after) in enumerate(these) for one in range(first, after)]
    assert list(zip(each.tolist(), number.tolist(), strict=True)) == expected
    assert expand_ranges(low, high).tolist() == number.tolist() and number.dtype == np.int64
