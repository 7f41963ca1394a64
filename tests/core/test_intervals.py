"""Arithmetic on spans equals brute force, for any offsets and text numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.array_types import I64, Mask
from sanitize.core import intervals

Span = tuple[int, int, int]  # text number, start, end
Edit = tuple[int, int, int, int]  # text number, start, end, size of the replacement
Axis = tuple[I64, I64]

# small numbers meet, and each of these makes another packing overflow: of offsets, of text numbers,
# and of both
OFFSETS = [0, 2**30 - 3, 2**40, 2**62 - 20]
TEXT_NOS = [0, 1, 2, 2**31, 2**40 + 1, 2**61, 2**62 + 5, -1]


@st.composite
def spans(draw: st.DrawFn, max_size: int = 12) -> list[Span]:
    """Spans of few texts, of length 0 to 8, some of them at huge offsets."""
    bases = draw(st.lists(st.sampled_from(OFFSETS), min_size=1, max_size=2))
    texts = draw(st.lists(st.sampled_from(TEXT_NOS), min_size=1, max_size=3))
    place = st.tuples(
        st.sampled_from(texts), st.sampled_from(bases), st.integers(0, 12), st.integers(0, 8)
    )
    return [
        (text, base + offset, base + offset + length)
        for text, base, offset, length in draw(st.lists(place, max_size=max_size))
    ]


def to_arrays(rows: list[Span]) -> tuple[I64, I64, I64]:
    text_no, start, end = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    return text_no, start, end


def sort_rows(rows: list[Span]) -> list[Span]:
    return sorted(rows, key=lambda span: (span[0], span[1], -span[2]))


def overlap(span: Span, other: Span) -> bool:
    return span[0] == other[0] and span[1] < other[2] and other[1] < span[2]


def is_within(span: Span, other: Span) -> bool:
    return span[0] == other[0] and other[1] <= span[1] and span[2] <= other[2]


@given(
    st.lists(
        st.tuples(st.sampled_from(TEXT_NOS), st.sampled_from([*OFFSETS, 1, 7, -(2**62)])),
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_packed_pairs_compare_as_the_pairs(pairs: list[tuple[int, int]], cut: int) -> None:
    high, low = np.array(pairs, np.int64).reshape(-1, 2).T
    packed = np.concatenate(
        intervals.pack_pairs((high[:cut], high[cut:]), (low[:cut], low[cut:]))
    ).tolist()
    for pair, key in zip(pairs, packed, strict=True):
        for other_pair, other_key in zip(pairs, packed, strict=True):
            assert (pair < other_pair, pair == other_pair) == (key < other_key, key == other_key)


@pytest.mark.parametrize("first_low", [0, 2**62])
@pytest.mark.parametrize(
    ("last_high", "expected"), [(2**31 - 2, (2**31 - 1) * 2**32 - 1), (2**31 - 1, 3)]
)
def test_pairs_are_ranked_where_they_do_not_fit(
    last_high: int, expected: int, first_low: int
) -> None:
    (packed,) = intervals.pack_pairs(
        [np.array([0, last_high])], [np.array([0, 2**32 - 1]) + first_low]
    )
    assert packed.tolist() == [0, expected]


def test_packing_takes_narrow_columns() -> None:
    cells = np.array([0, 2**31 - 1], np.int32)
    assert intervals.pack_pairs([np.array([5, 5])], [cells])[0].tolist() == [0, 2**31 - 1]


def test_ranges_are_expanded() -> None:
    starts, ends = np.array([3, 7, 7]), np.array([5, 7, 10])
    assert intervals.expand_ranges(starts, ends).tolist() == [3, 4, 7, 8, 9]
    assert [column.tolist() for column in intervals.enumerate_ranges(starts, ends)] == [
        [0, 0, 2, 2, 2],
        [3, 4, 7, 8, 9],
    ]


@given(spans())
def test_sorted_by_text_start_and_longest_first(rows: list[Span]) -> None:
    (axis,) = intervals.flatten_spans(to_arrays(rows))
    order = intervals.sort_spans(*axis)
    assert order.tolist() == sorted(
        range(len(rows)), key=lambda row: (rows[row][0], rows[row][1], -rows[row][2])
    )


def test_spans_at_one_start_are_sorted_longest_first() -> None:
    assert intervals.sort_spans(np.array([3, 3, 3, 4]), np.array([5, 9, 9, 4])).tolist() == [
        1,
        2,
        0,
        3,
    ]


RELATIONS: dict[str, tuple[Callable[[I64, I64, I64, I64], Mask], Callable[[Span, Span], bool]]] = {
    "overlap": (intervals.overlaps_any, overlap),
    "containment": (intervals.contained_in_any, is_within),
    "nesting": (
        intervals.contained_in_larger,
        lambda span, other: is_within(span, other) and span != other,
    ),
    "equality": (intervals.equals_any, lambda span, other: span == other),
}


@pytest.mark.parametrize("name", RELATIONS)
@given(rows=spans(), others=spans())
def test_lookup_of_spans_in_spans(name: str, rows: list[Span], others: list[Span]) -> None:
    function, is_related = RELATIONS[name]
    axis, other_axis = intervals.flatten_spans(to_arrays(rows), to_arrays(others))
    assert function(*axis, *other_axis).tolist() == [
        any(is_related(span, other) for other in others) for span in rows
    ]


def drop_overlapping(rows: list[Span]) -> list[Span]:
    """Disjoint spans in order: of the sorted ones each that begins where those kept before it have
    ended."""
    kept: list[Span] = []
    for span in sort_rows(rows):
        if not any(other[0] == span[0] and other[2] > span[1] for other in kept):
            kept.append(span)
    return kept


@given(spans(), spans())
def test_ranges_of_overlapping_disjoint_spans(rows: list[Span], others: list[Span]) -> None:
    disjoint = drop_overlapping(others)
    axis, other_axis = intervals.flatten_spans(to_arrays(rows), to_arrays(disjoint))
    low, high = intervals.find_overlapping_rows(*axis, *other_axis)
    found = [
        list(range(first, last)) for first, last in zip(low.tolist(), high.tolist(), strict=True)
    ]
    assert found == [
        [number for number, other in enumerate(disjoint) if overlap(span, other)] for span in rows
    ]


@given(spans())
def test_pairs_of_overlapping_spans(rows: list[Span]) -> None:
    rows = sort_rows(rows)
    (axis,) = intervals.flatten_spans(to_arrays(rows))
    first, second = intervals.find_overlapping_pairs(*axis)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    assert pairs == [
        (row, later)
        for row in range(len(rows))
        for later in range(row + 1, len(rows))
        if overlap(rows[row], rows[later])
    ]


@given(spans(), st.booleans())
def test_groups_begin_behind_all_spans_before(rows: list[Span], join_touching: bool) -> None:
    rows = sort_rows(rows)
    (axis,) = intervals.flatten_spans(to_arrays(rows))
    expected = []
    for number, (text, start, _) in enumerate(rows):
        ends = [end for other_text, _, end in rows[:number] if other_text == text]
        expected.append(all(end < start or (end == start and not join_touching) for end in ends))
    assert intervals.begins_group(*axis, join_touching=join_touching).tolist() == expected


@given(spans())
def test_outermost_spans_are_in_no_span_before(rows: list[Span]) -> None:
    rows = sort_rows(rows)
    (axis,) = intervals.flatten_spans(to_arrays(rows))
    expected = [
        not any(is_within(span, other) for other in rows[:number])
        for number, span in enumerate(rows)
    ]
    assert intervals.is_outermost(*axis).tolist() == expected


@given(spans())
def test_merged_spans_cover_the_same_positions(rows: list[Span]) -> None:
    rows = sort_rows(rows)
    merged: list[Span] = []
    for text, start, end in rows:
        if merged and merged[-1][0] == text and start <= merged[-1][2]:
            merged[-1] = (text, merged[-1][1], max(merged[-1][2], end))
        else:
            merged.append((text, start, end))
    found = intervals.merge_spans(*to_arrays(rows))
    assert list(zip(*(column.tolist() for column in found), strict=True)) == merged


@given(
    st.permutations(range(8)),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20),
)
def test_selection_is_that_of_a_loop_by_rank(rank: list[int], pairs: list[tuple[int, int]]) -> None:
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    kept: set[int] = set()
    for member in sorted(range(8), key=lambda number: rank[number]):
        if not any({member, other} in [set(pair) for pair in pairs] for other in kept):
            kept.add(member)
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    selected = intervals.select_greedily(np.array(rank), first, second)
    assert np.flatnonzero(selected).tolist() == sorted(kept)


def get_positions(axis: Axis) -> list[int]:
    return [
        position
        for start, end in zip(*(side.tolist() for side in axis), strict=True)
        for position in range(start, end)
    ]


@given(spans(), spans(), st.sampled_from(OFFSETS))
def test_subtraction_is_that_of_positions(rows: list[Span], removed: list[Span], base: int) -> None:
    """On one axis: all spans are taken as those of one text."""
    rows, removed = (
        drop_overlapping(
            [(0, start % 32 + base, start % 32 + base + end - start) for _, start, end in one]
        )
        for one in (rows, removed)
    )
    axis, removed_axis = (to_arrays(one)[1:] for one in (rows, removed))
    left = intervals.subtract_spans(*axis, *removed_axis)
    assert get_positions(left) == sorted(
        set(get_positions(axis)) - set(get_positions(removed_axis))
    )
    if removed and rows:
        assert (left[0] < left[1]).all()


def test_spans_are_split_only_strictly_inside() -> None:
    cuts = np.array([0, 3, 5, 8]), np.array([0, 3, 6, 9])
    found = intervals.split_spans(np.array([0, 7]), np.array([7, 9]), *cuts)
    assert [side.tolist() for side in found] == [[0, 3, 6, 7], [3, 5, 7, 9]]
    empty = np.empty(0, np.int64)
    assert intervals.split_spans(empty, empty, *cuts)[0].tolist() == []


@st.composite
def edited_texts(draw: st.DrawFn) -> tuple[list[Edit], dict[int, int]]:
    """Edits in order, and a base offset of each text: offsets of a text begin there."""
    texts = draw(st.lists(st.sampled_from(TEXT_NOS), min_size=1, max_size=3, unique=True))
    bases = {text: draw(st.sampled_from(OFFSETS)) for text in texts}
    edits: list[Edit] = []
    for text in sorted(texts):
        cuts = sorted(draw(st.sets(st.integers(0, 20), max_size=8)))
        for low, high in list(pairwise(cuts))[:: draw(st.sampled_from([1, 2]))]:
            edits.append((text, bases[text] + low, bases[text] + high, draw(st.integers(0, 5))))
    return edits, bases


def edit_arrays(edits: list[Edit]) -> tuple[I64, I64, I64, I64]:
    text_no, start, end, size = np.array(edits, np.int64).reshape(-1, 4).T.copy()
    return text_no, start, end, size


def map_offset(edits: list[Edit], text: int, offset: int) -> int:
    return offset + sum(
        size - (end - start) for other, start, end, size in edits if other == text and end <= offset
    )


@given(edited_texts(), st.data())
def test_offsets_before_and_after_edits(
    edited: tuple[list[Edit], dict[int, int]], data: st.DataObject
) -> None:
    edits, bases = edited
    output_starts = [map_offset(edits, text, start) for text, start, _, _ in edits]
    output = [
        (edit[0], start, start + edit[3]) for edit, start in zip(edits, output_starts, strict=True)
    ]
    located = intervals.locate_replacements(*edit_arrays(edits))
    assert list(zip(*(side.tolist() for side in located), strict=True)) == [
        (start, end) for _, start, end in output
    ]

    wanted = data.draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(bases)), st.integers(0, 24), st.integers(0, 6)),
            max_size=8,
        )
    )
    text_no, start, end = to_arrays(
        [
            (text, bases[text] + offset, bases[text] + offset + length)
            for text, offset, length in wanted
        ]
    )
    moved = intervals.to_output_offsets(edit_arrays(edits), text_no, start)
    assert moved.tolist() == [
        map_offset(edits, *where) for where in zip(text_no.tolist(), start.tolist(), strict=True)
    ]

    found = intervals.to_input_spans(edit_arrays(edits), text_no, start, end)
    for text, low, high, first, last in zip(
        *(column.tolist() for column in (text_no, start, end, *found)), strict=True
    ):
        inside_low = [
            edit[1]
            for edit, (_, begin, stop) in zip(edits, output, strict=True)
            if edit[0] == text and begin < low < stop
        ]
        before_low = [
            edit
            for edit, (_, _, stop) in zip(edits, output, strict=True)
            if edit[0] == text and stop <= low
        ]
        assert first == (
            inside_low[0]
            if inside_low
            else low - sum(size - (stop - begin) for _, begin, stop, size in before_low)
        )
        inside_high = [
            edit[2]
            for edit, (_, begin, stop) in zip(edits, output, strict=True)
            if edit[0] == text and begin < high < stop
        ]
        before_high = [
            edit
            for edit, (_, begin, _) in zip(edits, output, strict=True)
            if edit[0] == text and begin < high
        ]
        assert last == (
            inside_high[0]
            if inside_high
            else high - sum(size - (stop - begin) for _, begin, stop, size in before_high)
        )


def test_removed_spans_that_touch_are_one() -> None:
    left = intervals.subtract_spans(
        np.array([4]), np.array([20]), np.array([3, 5]), np.array([5, 8])
    )
    assert [side.tolist() for side in left] == [[8], [20]]


def test_an_empty_span_overlaps_no_empty_span() -> None:
    low, high = intervals.find_overlapping_rows(*(np.array([5]) for _ in range(4)))
    assert (low.tolist(), high.tolist()) == ([1], [1])


def test_spans_in_another_order_are_refused() -> None:
    start, end, size = np.array([5, 0]), np.array([6, 1]), np.array([2, 2])
    one_text, swapped, edits = (
        np.array([0, 0]),
        np.array([1, 0]),
        (np.array([0, 0]), start, end, size),
    )
    calls: list[Callable[[], object]] = [
        lambda: intervals.begins_group(start, end),
        lambda: intervals.is_outermost(start, end),
        lambda: intervals.merge_spans(one_text, start, end),
        lambda: intervals.find_overlapping_pairs(start, end),
        lambda: intervals.find_overlapping_rows(start, end, start, end),
        lambda: intervals.locate_replacements(swapped, start, end, size),
        lambda: intervals.to_output_offsets(edits, one_text, start),
        lambda: intervals.to_input_spans(edits, one_text, start, end),
    ]
    for call in calls:
        with pytest.raises(AssertionError):
            call()


def test_empty_inputs() -> None:
    empty = np.empty(0, np.int64)
    one = np.array([3]), np.array([5])
    for function, _ in RELATIONS.values():
        assert function(empty, empty, *one).tolist() == []
        assert function(*one, empty, empty).tolist() == [False]
    assert intervals.begins_group(empty, empty).tolist() == []
    assert [side.tolist() for side in intervals.merge_spans(empty, empty, empty)] == [[], [], []]
    assert [side.tolist() for side in intervals.find_overlapping_rows(*one, empty, empty)] == [
        [0],
        [0],
    ]
    assert intervals.select_greedily(np.array([0]), empty, empty).tolist() == [True]
