"""Distinct texts and copies of spans against a dictionary and slices of bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers, number_marked_texts, number_texts, slice_spans
from sanitize.kernels import distinct_texts as kernel

DATA = b"ab abab\xc3\xa9 \x00\x00ab"
SPANS = st.lists(
    st.tuples(st.integers(0, len(DATA)), st.integers(0, len(DATA))).map(sorted), max_size=40
)


def spans_of(pairs: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    bounds = np.array(pairs, np.int64).reshape(-1, 2)
    return (
        np.frombuffer(DATA, np.uint8),
        np.ascontiguousarray(bounds[:, 0]),
        np.ascontiguousarray(bounds[:, 1]),
    )


def reference_numbers(keys: list[object]) -> tuple[list[int], list[int]]:
    """The number of each key, in the order of first occurrence, and the first row of each."""
    first_rows: dict[object, int] = {}
    for row, key in enumerate(keys):
        first_rows.setdefault(key, row)
    order = {key: number for number, key in enumerate(first_rows)}
    return [order[key] for key in keys], list(first_rows.values())


@given(SPANS)
def test_texts_are_numbered_by_first_occurrence(pairs: list[list[int]]) -> None:
    numbers, first_spans = number_texts(*spans_of(pairs))
    assert (numbers.tolist(), first_spans.tolist()) == reference_numbers(
        [DATA[start:end] for start, end in pairs]
    )


@given(SPANS, st.data())
def test_texts_with_marks_are_ordered_by_text_then_mark(
    pairs: list[list[int]], data: st.DataObject
) -> None:
    marks = data.draw(st.lists(st.integers(0, 7), min_size=len(pairs), max_size=len(pairs)))
    numbers, first_spans = number_marked_texts(*spans_of(pairs), np.array(marks, np.int64))
    keys = [(DATA[start:end], mark) for (start, end), mark in zip(pairs, marks, strict=True)]
    text_order, _ = reference_numbers([text for text, _ in keys])
    expected = sorted(set(zip(text_order, marks, strict=True)))
    assert numbers.tolist() == [
        expected.index(pair) for pair in zip(text_order, marks, strict=True)
    ]
    assert first_spans.tolist() == [
        list(zip(text_order, marks, strict=True)).index(pair) for pair in expected
    ]


@given(SPANS, st.integers(0, 3))
def test_equal_hashes_of_different_texts_are_told_apart_by_their_bytes(
    pairs: list[list[int]], bits: int
) -> None:
    data, starts, ends = spans_of(pairs)
    hashes = np.array([len(DATA[start:end]) % (1 << bits) for start, end in pairs], np.uint64)
    slots, numbers, first_spans = (
        np.full(64, -1, np.int64),
        np.empty(len(pairs), np.int64),
        np.empty(len(pairs), np.int64),
    )
    count = kernel.number_texts(data, starts, ends, hashes, slots, numbers, first_spans)
    assert (numbers.tolist(), first_spans[:count].tolist()) == reference_numbers(
        [DATA[start:end] for start, end in pairs]
    )


@given(SPANS)
def test_spans_are_copied_one_after_the_other(pairs: list[list[int]]) -> None:
    data, starts, ends = spans_of(pairs)
    copied = TextBuffers.from_array(
        slice_spans(TextBuffers(data, np.array([0, len(data)])), starts, ends)
    )
    assert copied.data.tobytes() == b"".join(DATA[start:end] for start, end in pairs)
    assert np.diff(copied.offsets).tolist() == [end - start for start, end in pairs]
