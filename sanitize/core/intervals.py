"""Arithmetic on spans: overlap, containment, conflicts, merging, splitting, subtraction, and
offsets before and after edits.

A span is half-open, [start, end), and spans are arrays of one length. Functions that take only
`start` and `end` work on one axis, such as the bytes of a column. Spans of several texts are put on
one axis by `flatten_spans`; a text that has a number of two parts (document and cell) gets a single
number by `pack_pairs`. No constant bounds a text, an offset or a number: the packing is computed
from the arrays, and falls back to ranks where it does not fit into 64 bits.

Two spans *overlap* if each begins before the other ends: spans that touch do not, and an empty span
overlaps those that have it strictly inside. A span is *contained* in another that begins no later
and ends no earlier. Pure numpy; n log n unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sanitize.array_types import F64, I64, Mask

_MAX_INT64 = 2**63 - 1


class TextSpans(NamedTuple):
    """Spans of a column of texts: the number of the text, start and end byte in the column."""

    text_no: I64
    start: I64
    end: I64


class ScoredSpans(NamedTuple):
    """Start, end and score of spans. Starts and ends are bytes, or the first and the last word, as
    the function says that returns them."""

    start: I64
    end: I64
    score: F64


# ---- ranges of numbers ----


def expand_ranges(starts: I64, ends: I64) -> I64:
    """Every number of every range [start, end), range after range, as one array."""
    # starts [0, 4], ends [3, 6] -> [0, 1, 2, 4, 5]
    sizes = ends - starts
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def enumerate_ranges(starts: I64, ends: I64) -> tuple[I64, I64]:
    """For every number of every range [start, end): the index of its range, and the number
    itself."""
    return np.repeat(np.arange(len(starts)), ends - starts), expand_ranges(starts, ends)


# ---- one number for two ----


def pack_pairs(
    highs: Sequence[npt.NDArray[np.integer]], lows: Sequence[npt.NDArray[np.integer]]
) -> list[I64]:
    """One integer for each pair (high, low), by which pairs of all arrays compare: equal for equal
    pairs, ascending by high, then low.

    The numbers of one call must not be compared with those of another. One pass; a sort where the
    pairs do not fit into 64 bits.
    """
    # highs [7, 7, 8], lows [20, 25, 20] -> lows span 6 numbers, packed [0, 5, 6]
    first_high, high_count = _find_bounds(highs)
    first_low, low_count = _find_bounds(lows)
    if high_count * low_count > _MAX_INT64:
        highs, lows = _replace_by_ranks(highs), _replace_by_ranks(lows)
        first_high = first_low = 0
        _, low_count = _find_bounds(lows)  # at most the number of pairs: its square fits
    packed = []
    for high, low in zip(highs, lows, strict=True):
        key = np.asarray(high, np.int64) - first_high
        key *= low_count
        key += low
        key -= first_low
        packed.append(key)
    return packed


def flatten_spans(*spans: tuple[I64, I64, I64]) -> list[tuple[I64, I64]]:
    """Spans (text number, start, end) as spans (start, end) of one axis, on which texts lie in the
    order of their numbers without overlap.

    Positions on the axis can be compared with each other; differences between them mean nothing.
    """
    text_nos = [text_no for text_no, _, _ in spans for _ in range(2)]
    packed = pack_pairs(text_nos, [offset for _, start, end in spans for offset in (start, end)])
    return list(zip(packed[::2], packed[1::2], strict=True))


def _find_bounds(arrays: Sequence[npt.NDArray[np.integer]]) -> tuple[int, int]:
    """The least number of all arrays, and how many numbers lie between it and the greatest one,
    both included; (0, 1) without any."""
    filled = [array for array in arrays if len(array)]
    if not filled:
        return 0, 1
    least = min(int(array.min()) for array in filled)
    return least, max(int(array.max()) for array in filled) - least + 1


def _replace_by_ranks(arrays: Sequence[npt.NDArray[np.integer]]) -> list[I64]:
    """The rank of each number among the distinct numbers of all arrays."""
    _, ranks = np.unique(np.concatenate(arrays), return_inverse=True)
    return np.split(ranks.astype(np.int64), np.cumsum([len(array) for array in arrays])[:-1])


# ---- order ----


def sort_spans(start: I64, end: I64) -> I64:
    """The rows of spans by (start, longest first); equal spans keep their order. Linear if no two
    begin at one position, in order."""
    if (start[1:] > start[:-1]).all():
        return np.arange(len(start))
    (key,) = pack_pairs([start], [start - end])
    return np.argsort(key, kind="stable")


# ---- spans against other spans ----


def overlaps_any(start: I64, end: I64, other_start: I64, other_end: I64) -> Mask:
    """True for spans that overlap one of the others."""
    other_start, reach = _find_reach(other_start, other_end)
    # others that begin before the span ends
    count_before = np.searchsorted(other_start, end, side="left")
    # one of them overlaps the span if the one that reaches farthest does
    overlapping: Mask = (count_before > 0) & (reach[count_before] > start)
    return overlapping


def contained_in_any(start: I64, end: I64, other_start: I64, other_end: I64) -> Mask:
    """True for spans that are contained in one of the others."""
    other_start, reach = _find_reach(other_start, other_end)
    # others that begin no later than the span
    count_before = np.searchsorted(other_start, start, side="right")
    contained: Mask = (count_before > 0) & (reach[count_before] >= end)
    return contained


def contained_in_larger(start: I64, end: I64, other_start: I64, other_end: I64) -> Mask:
    """True for spans that are contained in one of the others that is not the same span."""
    other_start, reach = _find_reach(other_start, other_end)
    began_earlier = np.searchsorted(other_start, start, side="left")
    began_no_later = np.searchsorted(other_start, start, side="right")
    contained: Mask = (began_earlier > 0) & (reach[began_earlier] >= end)
    contained |= (began_no_later > 0) & (reach[began_no_later] > end)
    return contained


def equals_any(start: I64, end: I64, other_start: I64, other_end: I64) -> Mask:
    """True for spans that are among the others."""
    spans, others = pack_pairs((start, other_start), (end - start, other_end - other_start))
    return np.isin(spans, others)


def find_overlapping_rows(
    start: I64, end: I64, disjoint_start: I64, disjoint_end: I64
) -> tuple[I64, I64]:
    """For each span the range [low, high) of the disjoint spans that overlap it. These are in
    order; edits of a text are such spans."""
    assert (disjoint_start[1:] >= disjoint_end[:-1]).all()
    low = np.searchsorted(disjoint_end, start, side="right")
    high = np.searchsorted(disjoint_start, end, side="left")
    return low, np.maximum(low, high)


def _find_reach(start: I64, end: I64) -> tuple[I64, I64]:
    """The starts of spans, ascending; and an array whose entry n is the greatest end of the first n
    spans (entry 0 has no meaning)."""
    # start [0, 2, 9], end [8, 4, 12] -> reach [0, 8, 8, 12]: the span 2 to 4 adds nothing
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.zeros(len(end) + 1, np.int64)
    np.maximum.accumulate(end, out=reach[1:])
    return start, reach


# ---- spans among themselves ----


def begins_group(start: I64, end: I64, *, join_touching: bool = False) -> Mask:
    """True for spans (ascending by start) that begin where all spans before them have ended: the
    first of each group of spans that overlap, directly or through others. With `join_touching`
    spans that touch belong to one group. Linear."""
    # start [0, 2, 9], end [8, 4, 12] -> [True, False, True]
    assert (start[1:] >= start[:-1]).all()
    is_behind = np.greater if join_touching else np.greater_equal
    begins = np.ones(len(start), np.bool_)
    begins[1:] = is_behind(start[1:], np.maximum.accumulate(end)[:-1])
    return begins


def is_outermost(start: I64, end: I64) -> Mask:
    """True for spans (ascending by start, longest first) that are not contained in one before them.
    Linear."""
    assert (start[1:] >= start[:-1]).all()
    outermost = np.ones(len(start), np.bool_)
    outermost[1:] = end[1:] > np.maximum.accumulate(end)[:-1]
    return outermost


def merge_spans(text_no: I64, start: I64, end: I64) -> TextSpans:
    """Merges spans (ascending by text and start) that overlap or touch: their text numbers, starts
    and ends. Linear."""
    ((flat_start, flat_end),) = flatten_spans((text_no, start, end))
    first = np.flatnonzero(begins_group(flat_start, flat_end, join_touching=True))
    return TextSpans(
        text_no[first], start[first], np.maximum.reduceat(end, first) if len(first) else end
    )


def find_overlapping_pairs(start: I64, end: I64) -> tuple[I64, I64]:
    """All pairs (row, later row) of overlapping spans, which ascend by start. Costs their number,
    and that of empty spans at a start."""
    # start [0, 2, 3], end [5, 4, 9] -> pairs (0, 1), (0, 2), (1, 2)
    assert (start[1:] >= start[:-1]).all()
    rows = np.arange(len(start))
    first, second = enumerate_ranges(
        rows + 1, np.maximum(np.searchsorted(start, end, side="left"), rows + 1)
    )
    overlaps = start[first] < end[second]  # false for an empty span at the start of another
    return first[overlaps], second[overlaps]


def select_greedily(rank: I64, first: I64, second: I64) -> Mask:
    """True for the members kept of a set in which the pairs (first, second) exclude each other: by
    ascending `rank` (all different), each that excludes none kept before it.

    This is the greedy (lexicographically first) maximal independent set, computed in rounds
    (Blelloch, Fineman and Shun, SPAA 2012): the rivals of a member without a rival of lower rank
    are removed. After each round, every pair that is left has two members that are left; a round
    decides at least the one of lowest rank. O(log^2 n) rounds for ranks in random order, n at
    worst.
    """
    is_left = np.ones(len(rank), np.bool_)  # kept or undecided
    is_second_better = rank[second] < rank[first]
    better, worse = (
        np.where(is_second_better, second, first),
        np.where(is_second_better, first, second),
    )
    while len(better):
        has_better_rival = np.zeros(len(rank), np.bool_)
        has_better_rival[worse] = True
        is_left[worse[~has_better_rival[better]]] = False
        both_left = is_left[better] & is_left[worse]
        better, worse = better[both_left], worse[both_left]
    return is_left


# ---- splitting and subtraction ----


def split_spans(start: I64, end: I64, inner_start: I64, inner_end: I64) -> tuple[I64, I64]:
    """Splits disjoint spans (in order) at the inner spans that lie strictly inside one, which are
    left out; an empty one cuts in two.

    Inner spans are disjoint and in order as well."""
    # start [0], end [10], inner [2, 4) and [6, 8) -> [0, 2), [4, 6), [8, 10)
    if not len(start):
        return start, end
    span_no = np.searchsorted(start, inner_start, side="right") - 1
    is_inside = (span_no >= 0) & (inner_start > start[span_no]) & (inner_end < end[span_no])
    return np.sort(np.concatenate([start, inner_end[is_inside]])), np.sort(
        np.concatenate([end, inner_start[is_inside]])
    )


def subtract_spans(start: I64, end: I64, removed_start: I64, removed_end: I64) -> tuple[I64, I64]:
    """Returns disjoint spans (in order) without the positions that the removed spans (disjoint, in
    order) cover, and without empty ones."""
    # [0, 10) and [12, 15) without [3, 5) and [8, 13) -> [0, 3), [5, 8), [13, 15)
    if not len(removed_start) or not len(start):
        return start, end
    is_apart = removed_start[1:] > removed_end[:-1]  # removed spans that touch are one
    removed_start, removed_end = (
        removed_start[np.append(True, is_apart)],
        removed_end[np.append(is_apart, True)],
    )
    last_before_start = np.searchsorted(removed_start, start, side="right") - 1
    start = np.where(
        last_before_start >= 0, np.maximum(start, removed_end[last_before_start]), start
    )
    last_before_end = np.searchsorted(removed_start, end, side="left") - 1
    reaches_end = (last_before_end >= 0) & (removed_end[last_before_end] >= end)
    end = np.where(reaches_end, removed_start[last_before_end], end)
    is_nonempty = start < end
    start, end = split_spans(start[is_nonempty], end[is_nonempty], removed_start, removed_end)
    is_nonempty = start < end
    return start[is_nonempty], end[is_nonempty]


# ---- offsets before and after edits ----
# Edits of texts are arrays: text number, start and end (of the input), size of the replacement;
# disjoint, by (text, start).


def locate_replacements(text_no: I64, start: I64, end: I64, size: I64) -> tuple[I64, I64]:
    """Start and end of the replacement of each edit, in its output text."""
    # edits of one text at [2, 5) and [8, 9), sizes 1 and 4 -> [2, 3) and [6, 10): the first one
    # takes two bytes away from what follows
    assert (text_no[1:] >= text_no[:-1]).all()
    growth = _sum_before(size - (end - start))
    first_of_text = np.searchsorted(text_no, text_no, side="left")
    output_start = start + growth[:-1] - growth[first_of_text]
    return output_start, output_start + size


def to_output_offsets(edits: tuple[I64, I64, I64, I64], text_no: I64, offset: I64) -> I64:
    """Offsets in the output texts for offsets in the input texts: moved by the edits that end there
    or before."""
    edit_text, edit_start, edit_end, size = edits
    growth = _sum_before(size - (edit_end - edit_start))
    edit_position, position = pack_pairs((edit_text, text_no), (edit_end, offset))
    assert (edit_position[1:] >= edit_position[:-1]).all()
    edits_before = np.searchsorted(edit_position, position, side="right")
    moved: I64 = (
        offset + growth[edits_before] - growth[np.searchsorted(edit_text, text_no, side="left")]
    )
    return moved


def to_input_spans(
    edits: tuple[I64, I64, I64, I64], text_no: I64, start: I64, end: I64
) -> tuple[I64, I64]:
    """Spans of the input texts for spans of the output texts; one that overlaps a replacement is
    widened to all that it replaced."""
    edit_text, edit_start, edit_end, size = edits
    growth = _sum_before(size - (edit_end - edit_start))
    first_of_text, end_of_text = (
        np.searchsorted(edit_text, text_no, side=side) for side in ("left", "right")
    )
    output = flatten_spans((edit_text, *locate_replacements(*edits)), (text_no, start, end))
    (replacement_start, replacement_end), (span_start, span_end) = output
    assert (replacement_start[1:] >= replacement_end[:-1]).all()
    # edits that end at the start or before
    ended = np.searchsorted(replacement_end, span_start, side="right")
    # edits that begin before the end
    begun = np.searchsorted(replacement_start, span_end, side="left")
    input_start = start - (growth[ended] - growth[first_of_text])
    input_end = end - (growth[begun] - growth[first_of_text])
    # a replacement that has an edge of the span strictly inside is the next one (start), or the
    # last one (end)
    starts_inside = np.flatnonzero(ended < end_of_text)
    starts_inside = starts_inside[
        replacement_start[ended[starts_inside]] < span_start[starts_inside]
    ]
    input_start[starts_inside] = edit_start[ended[starts_inside]]
    ends_inside = np.flatnonzero(begun > first_of_text)
    ends_inside = ends_inside[replacement_end[begun[ends_inside] - 1] > span_end[ends_inside]]
    input_end[ends_inside] = edit_end[begun[ends_inside] - 1]
    return input_start, input_end


def _sum_before(numbers: I64) -> I64:
    """Entry n is the sum of the first n numbers."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers)])
