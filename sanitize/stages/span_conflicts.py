"""Resolves conflicts between the spans of several finders.

Rules for spans that share bytes of one text:

- The same span of the same kind, found twice, is one occurrence: that of the finder with the higher
  score, then of the one named first in the plan.
- Two spans of different kinds may be nested (an address in a URL); both are kept.
- Everything else is a conflict: two spans of one kind that share bytes, two kinds for one span, two
  spans that cross. The higher score wins; then the longer span; then the finder named first; then
  the span that begins first. A span counts with the highest score of the spans of its kind inside
  it, except those of `patterns`: `Ann Lee` by one finder wins over `Lee` by another. A span that
  loses only to spans that lose themselves is kept. Removed spans are counted as `overlap`.

Adjacent spans do not conflict. The spans of `patterns` never conflict with each other. Of spans in
conflict a greedy maximal independent set is kept (`core.intervals.select_greedily`). Costs one
sort, and the pairs that share bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sanitize.array_types import F32, I64
from sanitize.core.intervals import find_overlapping_pairs, flatten_spans, select_greedily
from sanitize.core.span_table import SpanTable


def merge_spans(tables: Sequence[SpanTable], exempt_finder: int = -1) -> SpanTable:
    """The spans of several finders in one column of texts, without those that lose a conflict;
    sorted by (text, start, longest first), with the values that they spell. Spans of
    `exempt_finder` never conflict with each other; -1: no such finder."""
    joined = SpanTable.join(tables)
    kept, lost = resolve_conflicts(joined, exempt_finder)
    overlaps = Counter((kind, "overlap") for kind in joined.kind[lost].tolist())
    skipped = dict(Counter(joined.skipped) + overlaps)
    return replace(joined.take(kept), skipped=skipped).take_used_values()


def resolve_conflicts(spans: SpanTable, exempt_finder: int = -1) -> tuple[I64, I64]:
    """Returns the rows that are kept, sorted by (text, start, longest first), and the rows that
    lost a conflict."""
    rows = _sort_without_duplicates(spans)
    ordered = spans.take(rows)
    first, second = _find_conflicts(ordered, exempt_finder)
    if not len(first):
        return rows, np.empty(0, np.int64)
    scores = _raise_scores(ordered, first, second, exempt_finder)
    is_kept = select_greedily(_rank(ordered, scores), first, second)
    return rows[is_kept], rows[~is_kept]


def _sort_without_duplicates(spans: SpanTable) -> I64:
    """The rows of the spans by (text, start, longest first, kind); of one span of one kind only the
    best row."""
    # row 0: [4, 7) PERSON .5    row 1: [0, 7) PERSON .6    row 2: [4, 7) PERSON .9
    # order [1, 2, 0]; row 0 repeats the span and the kind of row 2 with a lower score -> [1, 2]
    order = np.lexsort(
        (spans.finder, -spans.score, spans.kind, -spans.end_byte, spans.start_byte, spans.text_no)
    )
    columns = [
        column[order] for column in (spans.text_no, spans.start_byte, spans.end_byte, spans.kind)
    ]
    is_duplicate = np.zeros(len(order), np.bool_)
    is_duplicate[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return order[~is_duplicate]


def _raise_scores(spans: SpanTable, first: I64, second: I64, exempt_finder: int) -> F32:
    """The score of each span, at least that of the spans of its kind inside it. `first` and
    `second` are the pairs in conflict."""
    # row 0: [0, 7) PERSON .6    row 1: [4, 7) PERSON .9    pair (0, 1)
    # row 1 begins no earlier, because it comes later, and ends inside row 0 -> scores [.9, .9]
    is_inside = (spans.kind[first] == spans.kind[second]) & (
        spans.end_byte[second] <= spans.end_byte[first]
    )
    is_inside &= spans.finder[second] != exempt_finder
    scores = spans.score.copy()
    np.maximum.at(scores, first[is_inside], spans.score[second[is_inside]])
    return scores


def _rank(spans: SpanTable, scores: F32) -> I64:
    """The place of each span in a total order, the best first: the result then does not depend on
    the order of the input rows."""
    # scores [.9, .9, .5], lengths [7, 3, 9] -> order [0, 1, 2], and each row has its place in it
    lengths = spans.end_byte - spans.start_byte
    order = np.lexsort(
        (spans.kind, spans.start_byte, spans.text_no, spans.finder, -lengths, -scores)
    )
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _find_conflicts(spans: SpanTable, exempt_finder: int) -> tuple[I64, I64]:
    """The pairs of rows of sorted spans that are in conflict."""
    # row 0: [0, 30) URL    row 1: [8, 23) EMAIL    row 2: [20, 34) EMAIL
    # (0, 1): two kinds, nested, no conflict; (0, 2): they cross; (1, 2): one kind shares bytes
    (axis,) = flatten_spans((spans.text_no, spans.start_byte, spans.end_byte))
    first, second = find_overlapping_pairs(*axis)
    is_same_kind = spans.kind[first] == spans.kind[second]
    is_nested = spans.end_byte[second] <= spans.end_byte[first]  # the later one begins no earlier
    is_same_span = (spans.start_byte[first] == spans.start_byte[second]) & (
        spans.end_byte[first] == spans.end_byte[second]
    )
    is_exempt = spans.finder == exempt_finder
    is_conflict = (is_same_kind | is_same_span | ~is_nested) & ~(
        is_exempt[first] & is_exempt[second]
    )
    return first[is_conflict], second[is_conflict]
