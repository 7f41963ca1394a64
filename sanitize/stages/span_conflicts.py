"""Which of several finders' spans stay, and what the index knows of those that do.

The rule, for spans that share bytes of one text:

- The same span of the same kind, found twice, is one occurrence: of the surer finder, then of the one named first in the plan.
- Two spans of different kinds may lie one inside the other (an address in a URL); both stay.
- All else is a conflict: two spans of one kind that share bytes, two kinds for one span, two that reach over each other's edge. The
  surer one stays; of equally sure ones the longer; of equally long ones that of the finder named first; then the one that begins first.
  A span that loses only to one that itself loses stays. What goes is counted, as `overlap`.

Spans that only touch are two. What `patterns` finds is never in conflict with itself. Costs a sort, and the pairs that share bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sanitize.core.arrow_buffers import ranges

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Claims:
    """Spans of several finders in one column: text, bytes from its first one, kind, `finder` (its place in the plan) and score; `sealed`
    is the finder that is never in conflict with itself, -1 where there is none."""

    text_no: I64
    start: I64
    stop: I64
    kind: I32
    finder: I32
    score: npt.NDArray[np.float32]
    sealed: int = -1

    def take(self, rows: I64) -> Claims:
        """Some of them."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in ("text_no", "start", "stop", "kind", "finder", "score")}
        return Claims(**columns, sealed=self.sealed)


def settle(claims: Claims) -> tuple[I64, I64]:
    """The rows that stay, sorted by (text, start, longest first), and those that lost a conflict."""
    # duplicates: sorted so that the best of each comes first
    order = np.lexsort((claims.finder, -claims.score, claims.kind, -claims.stop, claims.start, claims.text_no))
    ordered = claims.take(order)
    same = np.zeros(len(order), np.bool_)
    same[1:] = np.logical_and.reduce([np.diff(getattr(ordered, name)) == 0 for name in ("text_no", "start", "stop", "kind")])
    order = order[~same]
    ordered = claims.take(order)
    one, other = _conflicts(ordered)
    if not len(one):
        return order, np.empty(0, np.int64)
    # the better one of each pair; a total order, so that nothing hangs on how rows came in
    rank = np.empty(len(order), np.int64)
    lengths = ordered.stop - ordered.start
    rank[np.lexsort((ordered.kind, ordered.start, ordered.text_no, ordered.finder, -lengths, -ordered.score))] = np.arange(len(order))
    swap = rank[one] > rank[other]
    better, worse = np.where(swap, other, one), np.where(swap, one, other)
    # round by round: who has no better rival left stays, and its rivals go
    state = np.zeros(len(order), np.int8)  # 0 open, 1 stays, -1 goes
    while len(better):
        beaten = np.zeros(len(order), np.bool_)
        beaten[worse] = True
        winners = np.zeros(len(order), np.bool_)
        winners[better] = ~beaten[better]
        state[winners] = 1
        state[worse[winners[better]]] = -1
        going = (state[better] == 0) & (state[worse] == 0)
        better, worse = better[going], worse[going]
    return order[state >= 0], order[state < 0]


def _conflicts(claims: Claims) -> tuple[I64, I64]:
    """The pairs of sorted spans that are in conflict."""
    unit = np.int64(1) << 31  # a text has fewer bytes
    low, high = claims.text_no * unit + claims.start, claims.text_no * unit + claims.stop
    place = np.arange(len(low))
    one, other = ranges(place + 1, np.maximum(np.searchsorted(low, high, side="left"), place + 1))
    alike = claims.kind[one] == claims.kind[other]
    inside = claims.stop[other] <= claims.stop[one]  # the later one begins no earlier
    equal = (claims.start[one] == claims.start[other]) & (claims.stop[one] == claims.stop[other])
    bad = alike | equal | ~inside
    bad &= ~((claims.finder[one] == claims.sealed) & (claims.finder[other] == claims.sealed))
    return one[bad], other[bad]
