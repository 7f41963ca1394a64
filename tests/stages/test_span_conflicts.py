"""Resolution of conflicts between spans of several finders: a table of cases, and a reference
implementation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.span_table import SpanTable, ValueTable
from sanitize.stages.span_conflicts import resolve_conflicts


class Span(NamedTuple):
    text: int
    start: int
    stop: int
    kind: int
    finder: int
    score: float


def make_span_table(spans: list[Span]) -> SpanTable:
    columns = list(zip(*spans, strict=True)) or [()] * 6
    text_no, start, end = (np.array(column, np.int64) for column in columns[:3])
    kinds, value_no = np.unique(np.array(columns[3], np.int32), return_inverse=True)
    texts = pa.array([str(kind) for kind in kinds], pa.large_string())
    return SpanTable(
        text_no=text_no,
        start_byte=start,
        end_byte=end,
        value_no=value_no.astype(np.int64),
        section_no=np.full(len(spans), -1, np.int32),
        finder=np.array(columns[4], np.int32),
        score=np.array(columns[5], np.float32),
        values=ValueTable(kinds.astype(np.int64), kinds, texts, texts),
        section_names=(),
        skipped={},
        match_counts=np.zeros(2, np.int64),
    )


def resolve(spans: list[Span], sealed: int = -1) -> tuple[list[Span], list[Span]]:
    kept, rejected = resolve_conflicts(make_span_table(spans), sealed)
    return [spans[row] for row in kept], sorted(spans[row] for row in rejected)


A, B = 0, 1
CASES = {
    "duplicates: the higher score": ([Span(0, 0, 5, A, 0, 0.5), Span(0, 0, 5, A, 1, 0.9)], [1], []),
    "duplicates with equal scores: the first finder": (
        [Span(0, 0, 5, A, 1, 0.9), Span(0, 0, 5, A, 0, 0.9)],
        [1],
        [],
    ),
    "adjacent spans are both kept": ([Span(0, 0, 5, A, 0, 1), Span(0, 5, 9, A, 1, 1)], [0, 1], []),
    "other texts do not matter": ([Span(0, 0, 5, A, 0, 1), Span(1, 2, 9, A, 1, 1)], [0, 1], []),
    "one kind inside another": ([Span(0, 0, 20, A, 0, 0.2), Span(0, 5, 9, B, 1, 1)], [0, 1], []),
    "nested spans of one kind: the longer one": (
        [Span(0, 0, 20, A, 0, 0.5), Span(0, 5, 9, A, 1, 0.9)],
        [0],
        [1],
    ),
    "nested spans of one kind: the longer one has the score of the other": (
        [Span(0, 0, 20, A, 0, 0.5), Span(0, 5, 9, A, 1, 0.9), Span(0, 18, 25, B, 2, 0.8)],
        [0],
        [1, 2],
    ),
    "nested spans of one kind: sealed patterns by their score": (
        [Span(0, 0, 20, A, 1, 0.5), Span(0, 5, 9, A, 0, 0.9)],
        [1],
        [0],
    ),
    "equal scores: the longer span": (
        [Span(0, 0, 5, A, 0, 0.9), Span(0, 3, 20, A, 1, 0.9)],
        [1],
        [0],
    ),
    "equal lengths: the first finder": (
        [Span(0, 0, 5, A, 1, 0.9), Span(0, 3, 8, A, 0, 0.9)],
        [1],
        [0],
    ),
    "two kinds for one span": ([Span(0, 0, 5, A, 1, 0.8), Span(0, 0, 5, B, 0, 0.9)], [1], [0]),
    "crossing spans of two kinds: the higher score": (
        [Span(0, 0, 5, A, 0, 0.8), Span(0, 4, 9, B, 1, 0.9)],
        [1],
        [0],
    ),
    "a span that conflicts only with a rejected one is kept": (
        [Span(0, 0, 5, A, 0, 0.9), Span(0, 4, 9, A, 1, 0.8), Span(0, 8, 12, A, 2, 0.7)],
        [0, 2],
        [1],
    ),
    "sealed patterns do not conflict with each other": (
        [Span(0, 0, 5, A, 0, 1), Span(0, 4, 9, B, 0, 1)],
        [0, 1],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_conflict_rules(name: str) -> None:
    spans, kept, rejected = CASES[name]
    sealed = 0 if "sealed" in name else -1
    assert resolve(spans, sealed) == (
        [spans[row] for row in kept],
        [spans[row] for row in rejected],
    )


def resolve_one_by_one(spans: list[Span]) -> set[Span]:
    """Reference: take the spans one by one, best first; keep each that is not in conflict with a
    kept one."""
    best: dict[tuple[int, int, int, int], Span] = {}
    for span in sorted(
        spans, key=lambda candidate: (-np.float32(candidate.score), candidate.finder)
    ):
        best.setdefault(span[:4], span)
    kept: list[Span] = []

    def score(span: Span) -> np.float32:
        inside = [
            one
            for one in best.values()
            if (one.text, one.kind) == (span.text, span.kind)
            and span.start <= one.start
            and one.stop <= span.stop
        ]
        return max(np.float32(one.score) for one in inside)

    for span in sorted(
        best.values(),
        key=lambda candidate: (
            -score(candidate),
            candidate.start - candidate.stop,
            candidate.finder,
            *candidate[:2],
            candidate.kind,
        ),
    ):

        def conflicts(other: Span, span: Span = span) -> bool:
            if span.text != other.text or span.stop <= other.start or other.stop <= span.start:
                return False
            nested = (
                span.start <= other.start
                and other.stop <= span.stop
                or other.start <= span.start
                and span.stop <= other.stop
            )
            return span.kind == other.kind or not nested or span[1:3] == other[1:3]

        if not any(map(conflicts, kept)):
            kept.append(span)
    return set(kept)


SPANS = st.lists(
    st.builds(
        lambda text, start, size, kind, finder, score: Span(
            text, start, start + size, kind, finder, score
        ),
        st.integers(0, 1),
        st.integers(0, 12),
        st.integers(1, 8),
        st.integers(0, 1),
        st.integers(0, 2),
        st.sampled_from([0.5, 0.9]),
    ),
    max_size=14,
)


@given(SPANS, st.randoms(use_true_random=False))
def test_resolution_equals_the_reference_in_any_order(spans: list[Span], rng: object) -> None:
    kept, rejected = resolve(spans)
    assert set(kept) == resolve_one_by_one(spans)
    assert kept == sorted(kept, key=lambda span: (span.text, span.start, -span.stop)) or len(
        {span[:3] for span in kept}
    ) < len(kept)
    assert not {span[:4] for span in kept} & {span[:4] for span in rejected}
    shuffled = list(spans)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert set(resolve(shuffled)[0]) == set(kept)
    # no span disappears: each is kept, rejected, or a duplicate of a kept or rejected one
    assert {span[:4] for span in spans} == {span[:4] for span in kept} | {
        span[:4] for span in rejected
    }
