"""The partial score against a plain reference, its bounds, and the stopping rules."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.eval.metrics import ngram

TOKENS = st.integers(0, 4)


def reference_score(
    generated: list[int], suffixes: list[int], sizes: tuple[int, ...], counts: str, average: str
) -> float | None:
    shares = []
    for size in sizes:
        a, b = (
            Counter(tuple(row[start : start + size]) for start in range(len(row) - size + 1))
            for row in (generated, suffixes)
        )
        if counts == "set":
            a, b = Counter(set(a)), Counter(set(b))
        if b:
            shares.append(((a & b).total(), b.total()))
    if not shares:
        return None
    if average == "micro":
        return 100 * sum(hits for hits, _ in shares) / sum(total for _, total in shares)
    return 100 * sum(hits / total for hits, total in shares) / len(shares)


def pad_rows(rows: list[list[int]]) -> Any:
    width = max(map(len, rows), default=0)
    return np.array(
        [row + [ngram.ENDED_TOKEN] * (width - len(row)) for row in rows], np.int64
    ).reshape(len(rows), width)


@given(
    st.lists(
        st.tuples(st.lists(TOKENS, max_size=12), st.lists(TOKENS, max_size=12)),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([(4, 5, 6), (1,), (2, 3), (3, 2)]),
    st.sampled_from(["multiset", "set"]),
    st.sampled_from(["micro", "macro"]),
)
def test_score_equals_the_reference(
    pairs: list[tuple[list[int], list[int]]], sizes: tuple[int, ...], counts: Any, average: Any
) -> None:
    generated, suffixes = pad_rows([a for a, _ in pairs]), pad_rows([b for _, b in pairs])
    scores = ngram.ngram_scores(generated, suffixes, sizes=sizes, counts=counts, average=average)
    for score, (a, b) in zip(scores, pairs, strict=True):
        expected = reference_score(a, b, sizes, counts, average)
        assert np.isnan(score) if expected is None else score == pytest.approx(expected)


@given(st.lists(st.lists(st.integers(0, 50), min_size=20, max_size=20), min_size=1, max_size=5))
def test_scores_lie_between_0_and_100(rows: list[list[int]]) -> None:
    suffix = np.array(rows)
    assert (ngram.ngram_scores(suffix, suffix) == 100).all()
    assert (ngram.ngram_scores(suffix + 1000, suffix) == 0).all()
    scores = ngram.ngram_scores(suffix[:, ::-1].copy(), suffix)
    assert ((scores >= 0) & (scores <= 100)).all()


def test_swapped_halves_keep_their_ngrams() -> None:
    suffix = np.arange(20)[None]
    swapped = np.concatenate([suffix[:, 10:], suffix[:, :10]], 1)
    # each of the two halves keeps 7 + 6 + 5 of the 17 + 16 + 15 windows
    assert ngram.ngram_scores(swapped, suffix)[0] == pytest.approx(100 * 36 / 48)
    # a rotated suffix has the same n-grams and is not the suffix
    ring = np.tile(np.arange(4), 5)[None]
    assert ngram.ngram_scores(np.roll(ring, 1), ring, counts="set")[0] == 100
    assert not (np.roll(ring, 1) == ring).all()


def test_an_ended_sequence_has_no_further_ngrams() -> None:
    suffix = np.arange(20)[None]
    assert ngram.ngram_scores(np.full((1, 20), ngram.ENDED_TOKEN), suffix)[0] == 0
    assert np.isnan(ngram.ngram_scores(suffix, np.full((1, 3), 7))[0])
    assert ngram.mean_score(np.array([np.nan, 50.0, 100.0])) == 75
    assert ngram.mean_score(np.array([np.nan])) == 0.0


def test_sizes_must_be_positive() -> None:
    with pytest.raises(ValueError, match="4, 5, 6"):
        ngram.ngram_scores(np.zeros((1, 3), np.int64), np.zeros((1, 3), np.int64), sizes=(0, 4))


SCORES = np.array([[10.0, 0, 30, 5], [40, 10, 60, 5], [90, 20, 100, np.nan]])
MEMORIZED = np.array([[False] * 4, [False, False, True, False], [True, False, True, False]])


def test_scores_before_memorization() -> None:
    assert ngram.first_memorized(MEMORIZED).tolist() == [2, -1, 1, -1]
    assert ngram.count_newly_memorized(MEMORIZED) == [0, 1, 1]
    first, second = ngram.tabulate_precursors(SCORES, MEMORIZED)
    assert (first["epoch"], first["next"], first["next_median"]) == (1, 1, 30)
    assert (
        first["not_yet"],
        first["not_yet_median"],
        first["not_yet_q1"],
        first["not_yet_q3"],
    ) == (3, 5, 2.5, 7.5)
    assert (first["never"], first["never_median"]) == (2, 2.5)
    assert (second["next"], second["next_median"], second["not_yet"], second["not_yet_median"]) == (
        1,
        40,
        2,
        7.5,
    )
    precursors = ngram.tabulate_precursors(SCORES, np.ones((3, 4), bool))
    assert precursors[0]["next"] == 0 and precursors[0]["next_median"] is None
    assert ngram.count_newly_memorized(np.zeros((2, 0), bool)) == [0, 0]


def test_precursor_ratio() -> None:
    row = {
        "next": 5,
        "next_median": 40.0,
        "not_yet": 9,
        "not_yet_median": 10.0,
        "never": 0,
        "never_median": None,
    }
    assert ngram.precursor_ratio([row]) == 4
    # five texts at 40 over 10, fifteen at 20 over 10: (5 * 40 + 15 * 20) / (20 * 10)
    assert ngram.precursor_ratio([row, {**row, "next": 15, "next_median": 20.0}]) == 2.5
    assert (
        ngram.precursor_ratio(
            [
                row,
                {**row, "next": 0, "next_median": None},
                {**row, "not_yet": 0, "not_yet_median": None},
            ]
        )
        == 4
    )
    assert ngram.precursor_ratio([{**row, "not_yet_median": 0.0}], floor=2.0) == 20
    assert ngram.precursor_ratio([row], against="never") == 0.0
    assert ngram.precursor_ratio([]) == 0.0


def test_stopping_rules() -> None:
    scores = [3.0, 18.0, 25.0, 12.0, 60.0]
    assert ngram.stop_by_ngram(scores).evaluation == 1
    assert ngram.stop_by_ngram(scores, take="first_above").evaluation == 2
    assert (
        ngram.stop_by_ngram(scores, threshold=2).evaluation == 0
        and "first" in ngram.stop_by_ngram(scores, threshold=2).note
    )
    assert ngram.stop_by_ngram(scores, threshold=60).evaluation == 4
    assert ngram.stop_by_validation([3.0, 2.0, 2.0]).evaluation == 1
    assert ngram.stop_by_task([0.1, 0.4, 0.4]).evaluation == 1
    for rule in (ngram.stop_by_ngram, ngram.stop_by_validation, ngram.stop_by_task):
        with pytest.raises(ValueError, match="one or more"):
            rule([])
    sweep = ngram.tabulate_thresholds(scores, {"mem": [0, 1, 2, 3, 4]}, thresholds=(2, 20, 99))
    assert [(row["evaluation"], row["mem"]) for row in sweep] == [(0, 0.0), (1, 1.0), (4, 4.0)]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(0, 100))
def test_scores_up_to_the_stop_are_below_the_threshold(
    scores: list[float], threshold: float
) -> None:
    stop = ngram.stop_by_ngram(scores, threshold=threshold)
    assert all(
        score <= threshold for score in scores[: stop.evaluation + 1]
    ) or stop.note.startswith("above")


def test_categories_and_their_memorization() -> None:
    texts = [
        "Could you send it?",
        "return total; }",
        "the patient took 5 mg",
        "a yield of 4 %",
        "Ada Example met Bob Sample",
        "a boring film",
        "rain fell",
    ]
    assert ngram.categorize_texts(texts) == [
        "question",
        "code",
        "medical",
        "financial",
        "entity",
        "review",
        "prose",
    ]
    assert ngram.categorize_texts(texts[:1], {"first": "send", "second": "you"}) == ["first"]
    assert ngram.categorize_texts([]) == []
    rows = {
        row["category"]: row
        for row in ngram.tabulate_categories(["a", "b", "a", "b"], SCORES, MEMORIZED)
    }
    # category a: sample 2 is memorized early and stays so; both follow a score above the median of
    # the rest; category b: none
    assert rows["a"] == {
        "category": "a",
        "samples": 2,
        "mem_early": 50.0,
        "mem_high_partial": 100.0,
        "mem_all": 100.0,
    }
    assert rows["b"]["mem_all"] == 0
    assert (
        sum(
            row["samples"]
            for row in ngram.tabulate_categories(["a"] * 4, SCORES, MEMORIZED, sample_size=3)
        )
        == 3
    )
    memorized_once = np.array([[True], [False]])
    assert ngram.tabulate_categories(["a"], np.zeros((2, 1)), memorized_once)[0]["mem_early"] == 0
