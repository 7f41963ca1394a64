"""Resolution of conflicts between spans of several finders: a table of cases, and a slow reference."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.stages.span_conflicts import CompetingSpans, resolve_conflicts


class Span(NamedTuple):
    text: int
    start: int
    stop: int
    kind: int
    finder: int
    score: float


def claims(spans: list[Span], sealed: int = -1) -> CompetingSpans:
    columns = list(zip(*spans, strict=True)) or [()] * 6
    whole = [np.array(column, np.int64) for column in columns[:3]]
    return CompetingSpans(*whole, np.array(columns[3], np.int32), np.array(columns[4], np.int32), np.array(columns[5], np.float32), sealed)


def stays(spans: list[Span], sealed: int = -1) -> tuple[list[Span], list[Span]]:
    kept, lost = resolve_conflicts(claims(spans, sealed))
    return [spans[row] for row in kept], sorted(spans[row] for row in lost)


A, B = 0, 1
CASES = {
    "the same twice is one, of the surer": ([Span(0, 0, 5, A, 0, 0.5), Span(0, 0, 5, A, 1, 0.9)], [1], []),
    "the same twice, equally sure, is of the first finder": ([Span(0, 0, 5, A, 1, 0.9), Span(0, 0, 5, A, 0, 0.9)], [1], []),
    "neighbours are two": ([Span(0, 0, 5, A, 0, 1), Span(0, 5, 9, A, 1, 1)], [0, 1], []),
    "other texts do not matter": ([Span(0, 0, 5, A, 0, 1), Span(1, 2, 9, A, 1, 1)], [0, 1], []),
    "one kind inside another": ([Span(0, 0, 20, A, 0, 0.2), Span(0, 5, 9, B, 1, 1)], [0, 1], []),
    "a kind inside itself: the surer": ([Span(0, 0, 20, A, 0, 0.9), Span(0, 5, 9, A, 1, 0.5)], [0], [1]),
    "equally sure: the longer": ([Span(0, 0, 5, A, 0, 0.9), Span(0, 3, 20, A, 1, 0.9)], [1], [0]),
    "equally long: the first finder": ([Span(0, 0, 5, A, 1, 0.9), Span(0, 3, 8, A, 0, 0.9)], [1], [0]),
    "two kinds for one span": ([Span(0, 0, 5, A, 1, 0.8), Span(0, 0, 5, B, 0, 0.9)], [1], [0]),
    "two kinds over each other's edge": ([Span(0, 0, 5, A, 0, 0.8), Span(0, 4, 9, B, 1, 0.9)], [1], [0]),
    "who loses to a loser stays": ([Span(0, 0, 5, A, 0, 0.9), Span(0, 4, 9, A, 1, 0.8), Span(0, 8, 12, A, 2, 0.7)], [0, 2], [1]),
    "patterns are at peace with themselves": ([Span(0, 0, 5, A, 0, 1), Span(0, 4, 9, B, 0, 1)], [0, 1], []),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rule(name: str) -> None:
    spans, kept, lost = CASES[name]
    sealed = 0 if "peace" in name else -1
    assert stays(spans, sealed) == ([spans[row] for row in kept], [spans[row] for row in lost])


def slow(spans: list[Span]) -> set[Span]:
    """Reference: take the spans one by one, best first; keep each that is not in conflict with a kept one."""
    best: dict[tuple[int, int, int, int], Span] = {}
    for span in sorted(spans, key=lambda one: (-np.float32(one.score), one.finder)):
        best.setdefault(span[:4], span)
    kept: list[Span] = []
    for span in sorted(best.values(), key=lambda one: (-np.float32(one.score), one.start - one.stop, one.finder, *one[:2], one.kind)):

        def fights(other: Span, span: Span = span) -> bool:
            if span.text != other.text or span.stop <= other.start or other.stop <= span.start:
                return False
            nested = span.start <= other.start and other.stop <= span.stop or other.start <= span.start and span.stop <= other.stop
            return span.kind == other.kind or not nested or span[1:3] == other[1:3]

        if not any(map(fights, kept)):
            kept.append(span)
    return set(kept)


SPANS = st.lists(
    st.builds(
        lambda text, start, size, kind, finder, score: Span(text, start, start + size, kind, finder, score),
        st.integers(0, 1), st.integers(0, 12), st.integers(1, 8), st.integers(0, 1), st.integers(0, 2), st.sampled_from([0.5, 0.9]),
    ),
    max_size=14,
)  # fmt: skip


@given(SPANS, st.randoms(use_true_random=False))
def test_as_the_slow_way_says_it_whatever_the_order(spans: list[Span], chance: object) -> None:
    kept, lost = stays(spans)
    assert set(kept) == slow(spans)
    assert kept == sorted(kept, key=lambda one: (one.text, one.start, -one.stop)) or len({one[:3] for one in kept}) < len(kept)
    assert not {one[:4] for one in kept} & {one[:4] for one in lost}
    mixed = list(spans)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert set(stays(mixed)[0]) == set(kept)
    # no span is lost silently: each is kept, loses, or is a duplicate of one that is kept or loses
    assert {one[:4] for one in spans} == {one[:4] for one in kept} | {one[:4] for one in lost}
