"""Resolves conflicts between the spans of several finders.

Rules for spans that share bytes of one text:

- The same span of the same kind, found twice, is one occurrence: that of the finder with the higher score, then of the one named first in
  the plan.
- Two spans of different kinds may be nested (an address in a URL); both are kept.
- Everything else is a conflict: two spans of one kind that share bytes, two kinds for one span, two spans that cross. The higher score
  wins; then the longer span; then the finder named first; then the span that begins first. A span that loses only to spans that lose
  themselves is kept. Removed spans are counted as `overlap`.

Adjacent spans do not conflict. The spans of `patterns` never conflict with each other. Costs one sort, and the pairs that share bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sanitize.core.arrow_buffers import enumerate_ranges

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class CompetingSpans:
    """Spans of several finders in one column of texts: text, start and end in bytes of the text, kind, finder (its position in the plan)
    and score. Spans of `exempt_finder_no` never conflict with each other; -1: no such finder."""

    text_no: I64
    start: I64
    end: I64
    kind_no: I32
    finder_no: I32
    score: npt.NDArray[np.float32]
    exempt_finder_no: int = -1

    def take(self, rows: I64) -> CompetingSpans:
        """The spans at the given rows."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in ("text_no", "start", "end", "kind_no", "finder_no", "score")}
        return CompetingSpans(**columns, exempt_finder_no=self.exempt_finder_no)


def resolve_conflicts(spans: CompetingSpans) -> tuple[I64, I64]:
    """Returns the rows that are kept, sorted by (text, start, longest first), and the rows that lost a conflict."""
    # remove duplicates: the best of each comes first in this order
    order = np.lexsort((spans.finder_no, -spans.score, spans.kind_no, -spans.end, spans.start, spans.text_no))
    ordered = spans.take(order)
    is_duplicate = np.zeros(len(order), np.bool_)
    is_duplicate[1:] = np.logical_and.reduce([np.diff(getattr(ordered, name)) == 0 for name in ("text_no", "start", "end", "kind_no")])
    order = order[~is_duplicate]
    ordered = spans.take(order)
    first, second = _find_conflicts(ordered)
    if not len(first):
        return order, np.empty(0, np.int64)
    # the better span of each pair, by a total order: the result does not depend on the order of the input rows
    rank = np.empty(len(order), np.int64)
    lengths = ordered.end - ordered.start
    rank[np.lexsort((ordered.kind_no, ordered.start, ordered.text_no, ordered.finder_no, -lengths, -ordered.score))] = np.arange(len(order))
    is_second_better = rank[first] > rank[second]
    better, worse = np.where(is_second_better, second, first), np.where(is_second_better, first, second)
    # in rounds: a span without a better open rival is kept, and its rivals are removed
    state = np.zeros(len(order), np.int8)  # 0 open, 1 kept, -1 removed
    while len(better):
        is_beaten = np.zeros(len(order), np.bool_)
        is_beaten[worse] = True
        is_winner = np.zeros(len(order), np.bool_)
        is_winner[better] = ~is_beaten[better]
        state[is_winner] = 1
        state[worse[is_winner[better]]] = -1
        is_open = (state[better] == 0) & (state[worse] == 0)
        better, worse = better[is_open], worse[is_open]
    return order[state >= 0], order[state < 0]


def _find_conflicts(spans: CompetingSpans) -> tuple[I64, I64]:
    """The pairs of rows of sorted spans that are in conflict."""
    text_stride = np.int64(1) << 31  # a text has fewer bytes
    starts, ends = spans.text_no * text_stride + spans.start, spans.text_no * text_stride + spans.end
    rows = np.arange(len(starts))
    first, second = enumerate_ranges(rows + 1, np.maximum(np.searchsorted(starts, ends, side="left"), rows + 1))
    same_kind = spans.kind_no[first] == spans.kind_no[second]
    is_nested = spans.end[second] <= spans.end[first]  # the later one begins no earlier
    same_span = (spans.start[first] == spans.start[second]) & (spans.end[first] == spans.end[second])
    is_conflict = same_kind | same_span | ~is_nested
    is_conflict &= ~((spans.finder_no[first] == spans.exempt_finder_no) & (spans.finder_no[second] == spans.exempt_finder_no))
    return first[is_conflict], second[is_conflict]
