"""Overlapping edits of a batch: the rest is disjoint and covers the same bytes, whatever crosses or
nests."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sanitize.stages.batch_rewriting import Occurrences, _Edits, _resolve_overlaps

Span = tuple[int, int, int]  # start, end, number of the editor

SPANS = st.lists(
    st.builds(
        lambda start, length, editor: (start, start + length, editor),
        *[st.integers(0, 12), st.integers(1, 8), st.integers(0, 2)],
    )
)


def resolve(spans: list[Span]) -> tuple[list[Span], int]:
    """What is left of the edits of one text, and the number of masks."""
    count = len(spans)
    start, end, editor_no = (
        np.array(sorted(spans, key=lambda span: (span[0], -span[1])), np.int64)
        .reshape(-1, 3)
        .T.copy()
    )
    zeros, no = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    narrow = zeros.astype(np.int32)
    occurrences = Occurrences(
        doc_no=zeros,
        cell=narrow,
        start_byte=start,
        end_byte=end,
        kind=narrow,
        value_id=zeros,
        start=start,
        end=end,
        swept=no,
        erased=no,
        kept=np.zeros((count, 0), np.bool_),
        kind_names=("URL",),
    )
    texts = pa.array(["x"] * count, pa.large_string())
    edits = _resolve_overlaps(
        _Edits(np.arange(count), start, end, editor_no.astype(np.int32), texts), occurrences
    )
    left = zip(
        edits.start_byte.tolist(), edits.end_byte.tolist(), edits.editor_no.tolist(), strict=True
    )
    masked_count = [set(text) for text in edits.replacement.to_pylist()].count({"*"})
    return list(left), masked_count


def get_positions(spans: list[Span]) -> list[int]:
    return [position for start, end, _ in spans for position in range(start, end)]


@given(SPANS)
def test_edits_that_are_left_are_disjoint_and_cover_the_same_bytes(spans: list[Span]) -> None:
    left, _ = resolve(spans)
    assert get_positions(left) == sorted(set(get_positions(spans)))  # no position twice


def test_of_crossing_edits_that_of_the_later_editor_is_cut_and_masked() -> None:
    assert resolve([(0, 5, 0), (3, 8, 1)]) == ([(0, 5, 0), (5, 8, 1)], 1)
    assert resolve([(0, 5, 1), (3, 8, 0)]) == ([(0, 3, 1), (3, 8, 0)], 1)
    # nothing is left of the second, and the third crosses the first
    assert resolve([(2, 10, 1), (6, 11, 2), (9, 15, 1)]) == ([(2, 10, 1), (10, 15, 1)], 1)


def test_many_edits_inside_one_take_linear_time() -> None:
    """100,000 edits: tens of minutes if each one looked at all those before it."""
    count, began = 100_000, time.monotonic()
    assert resolve(
        [(0, 2 * count + 2, 0), *((2 * row + 1, 2 * row + 2, 0) for row in range(count))]
    )[0] == [(0, 2 * count + 2, 0)]
    assert time.monotonic() - began < 60
