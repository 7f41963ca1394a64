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

from dataclasses import dataclass
from typing import Any

import numpy as np

from sanitize.array_types import F32, I32, I64
from sanitize.core.intervals import find_overlapping_pairs, flatten_spans, select_greedily


@dataclass(frozen=True, repr=False)
class CompetingSpans:
    """Spans of several finders in one column of texts: text, start and end in bytes of the text,
    kind, finder (its position in the plan) and score. Spans of `exempt_finder_no` never conflict
    with each other; -1: no such finder."""

    text_no: I64
    start: I64
    end: I64
    kind_no: I32
    finder_no: I32
    score: F32
    exempt_finder_no: int = -1

    def take(self, rows: I64) -> CompetingSpans:
        """The spans at the given rows."""
        columns: dict[str, Any] = {
            name: getattr(self, name)[rows]
            for name in ("text_no", "start", "end", "kind_no", "finder_no", "score")
        }
        return CompetingSpans(**columns, exempt_finder_no=self.exempt_finder_no)


def resolve_conflicts(spans: CompetingSpans) -> tuple[I64, I64]:
    """Returns the rows that are kept, sorted by (text, start, longest first), and the rows that
    lost a conflict."""
    rows = _sort_without_duplicates(spans)
    ordered = spans.take(rows)
    first, second = _find_conflicts(ordered)
    if not len(first):
        return rows, np.empty(0, np.int64)
    is_kept = select_greedily(_rank(ordered, _raise_scores(ordered, first, second)), first, second)
    return rows[is_kept], rows[~is_kept]


def _sort_without_duplicates(spans: CompetingSpans) -> I64:
    """The rows of the spans by (text, start, longest first, kind); of one span of one kind only the
    best row."""
    order = np.lexsort(
        (spans.finder_no, -spans.score, spans.kind_no, -spans.end, spans.start, spans.text_no)
    )
    columns = [column[order] for column in (spans.text_no, spans.start, spans.end, spans.kind_no)]
    is_duplicate = np.zeros(len(order), np.bool_)
    is_duplicate[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return order[~is_duplicate]


def _raise_scores(spans: CompetingSpans, first: I64, second: I64) -> F32:
    """The score of each span, at least that of the spans of its kind inside it. `first` and
    `second` are the pairs in conflict."""
    # it begins no earlier
    is_inside = (spans.kind_no[first] == spans.kind_no[second]) & (
        spans.end[second] <= spans.end[first]
    )
    is_inside &= spans.finder_no[second] != spans.exempt_finder_no
    scores = spans.score.copy()
    np.maximum.at(scores, first[is_inside], spans.score[second[is_inside]])
    return scores


def _rank(spans: CompetingSpans, scores: F32) -> I64:
    """The place of each span in a total order, the best first: the result then does not depend on
    the order of the input rows."""
    lengths = spans.end - spans.start
    order = np.lexsort(
        (spans.kind_no, spans.start, spans.text_no, spans.finder_no, -lengths, -scores)
    )
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _find_conflicts(spans: CompetingSpans) -> tuple[I64, I64]:
    """The pairs of rows of sorted spans that are in conflict."""
    (axis,) = flatten_spans((spans.text_no, spans.start, spans.end))
    first, second = find_overlapping_pairs(*axis)
    is_same_kind = spans.kind_no[first] == spans.kind_no[second]
    is_nested = spans.end[second] <= spans.end[first]  # the later one begins no earlier
    is_same_span = (spans.start[first] == spans.start[second]) & (
        spans.end[first] == spans.end[second]
    )
    is_exempt = spans.finder_no == spans.exempt_finder_no
    is_conflict = (is_same_kind | is_same_span | ~is_nested) & ~(
        is_exempt[first] & is_exempt[second]
    )
    return first[is_conflict], second[is_conflict]
