"""Where texts are probed, and when a suffix counts as memorized."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import UsageError
from sanitize.eval.metrics import verbatim

LENGTHS = (10, 39, 40, 41, 90)
TEXTS = [
    list(range(1000 * number, 1000 * number + length)) for number, length in enumerate(LENGTHS)
]
IDS = [f"doc-{number}" for number in range(len(LENGTHS))]


@given(st.integers(-5, 1000))
def test_prefix_and_suffix_follow_each_other_in_the_text(seed: int) -> None:
    points = verbatim.choose_probe_points(TEXTS, IDS, seed=seed)
    assert (
        points.text_numbers.tolist() == [2, 3, 4]
        and points.too_short_count == 2
        and points.text_count == 5
    )
    for row, before, suffix in zip(
        points.text_numbers, points.prefix_tokens, points.suffix_tokens, strict=True
    ):
        start = int(suffix[0]) - 1000 * int(row)
        assert TEXTS[row][start - 20 : start + 20] == [*before, *suffix]
    for k in verbatim.PREFIX_LENGTHS:
        assert (
            points.last_prefix_tokens(k) == points.prefix_tokens[:, -k:]
        ).all() and points.last_prefix_tokens(k).shape == (3, k)


def test_probe_points_depend_on_doc_id_and_seed_only() -> None:
    points = verbatim.choose_probe_points(TEXTS, IDS, seed=3)
    order = [4, 0, 3, 2, 1]
    shuffled = verbatim.choose_probe_points(
        [TEXTS[row] for row in order], [IDS[row] for row in order], seed=3
    )
    assert {tuple(suffix) for suffix in points.suffix_tokens} == {
        tuple(suffix) for suffix in shuffled.suffix_tokens
    }
    alone = verbatim.choose_probe_points([TEXTS[4]], [IDS[4]], seed=3)
    assert (alone.suffix_tokens[0] == points.suffix_tokens[-1]).all()
    drawn = {
        tuple(verbatim.choose_probe_points([TEXTS[4]], [IDS[4]], seed=seed).suffix_tokens[0])
        for seed in range(40)
    }
    assert len(drawn) > 20
    assert (
        len(
            {
                tuple(verbatim.choose_probe_points([TEXTS[4]], [f"other-{n}"]).suffix_tokens[0])
                for n in range(40)
            }
        )
        > 20
    )


def test_a_longer_prefix_than_chosen_is_refused() -> None:
    points = verbatim.choose_probe_points(TEXTS, IDS, ks=(4, 8), suffix_length=5)
    assert points.prefix_tokens.shape == (4, 8) and points.suffix_tokens.shape == (4, 5)
    with pytest.raises(ValueError, match="1 to 8"):
        points.last_prefix_tokens(9)


def test_exact_and_contained() -> None:
    suffix = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    generated = np.array([[1, 2, 3, 0], [0, 4, 5, 6], [7, 8, -1, -1]])
    assert verbatim.is_memorized(generated, suffix).tolist() == [True, False, False]
    assert verbatim.is_memorized(generated, suffix, match="contains").tolist() == [
        True,
        True,
        False,
    ]
    assert not verbatim.is_memorized(generated[:, :2], suffix, match="contains").any()


def test_too_short_texts_count_with_denominator_all() -> None:
    points = verbatim.choose_probe_points(TEXTS, IDS)
    hits = np.array([True, True, False])
    assert verbatim.memorized_percent(hits, points) == pytest.approx(100 * 2 / 3)
    assert verbatim.memorized_percent(hits, points, denominator="all") == pytest.approx(40)
    empty = verbatim.choose_probe_points([[1, 2]], ["short"], ks=(4, 8), suffix_length=5)
    assert empty.prefix_tokens.shape == (0, 8)
    with pytest.raises(UsageError, match="verbatim: none of 1 texts has the 13 tokens"):
        verbatim.require_probed_texts(empty, "verbatim")
