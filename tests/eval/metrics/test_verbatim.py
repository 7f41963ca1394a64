"""Where texts are probed, and when a suffix counts as memorized."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.eval.metrics import verbatim

LENGTHS = (10, 39, 40, 41, 90)
TEXTS = [list(range(1000 * number, 1000 * number + length)) for number, length in enumerate(LENGTHS)]
IDS = [f"doc-{number}" for number in range(len(LENGTHS))]


@given(st.integers(-5, 1000))
def test_prefix_and_suffix_follow_each_other_in_the_text(seed: int) -> None:
    where = verbatim.choose_probe_points(TEXTS, IDS, seed=seed)
    assert where.text_numbers.tolist() == [2, 3, 4] and where.too_short_count == 2 and where.text_count == 5
    for row, before, suffix in zip(where.text_numbers, where.prefix_tokens, where.suffix_tokens, strict=True):
        start = int(suffix[0]) - 1000 * int(row)
        assert TEXTS[row][start - 20 : start + 20] == [*before, *suffix]
    for k in verbatim.PREFIX_LENGTHS:
        assert (where.last_prefix_tokens(k) == where.prefix_tokens[:, -k:]).all() and where.last_prefix_tokens(k).shape == (3, k)


def test_the_place_hangs_on_doc_id_and_seed_alone() -> None:
    where = verbatim.choose_probe_points(TEXTS, IDS, seed=3)
    order = [4, 0, 3, 2, 1]
    shuffled = verbatim.choose_probe_points([TEXTS[row] for row in order], [IDS[row] for row in order], seed=3)
    assert {tuple(suffix) for suffix in where.suffix_tokens} == {tuple(suffix) for suffix in shuffled.suffix_tokens}
    alone = verbatim.choose_probe_points([TEXTS[4]], [IDS[4]], seed=3)
    assert (alone.suffix_tokens[0] == where.suffix_tokens[-1]).all()
    drawn = {tuple(verbatim.choose_probe_points([TEXTS[4]], [IDS[4]], seed=seed).suffix_tokens[0]) for seed in range(40)}
    assert len(drawn) > 20
    assert len({tuple(verbatim.choose_probe_points([TEXTS[4]], [f"other-{n}"]).suffix_tokens[0]) for n in range(40)}) > 20


def test_a_longer_prefix_must_have_been_drawn() -> None:
    where = verbatim.choose_probe_points(TEXTS, IDS, ks=(4, 8), suffix_length=5)
    assert where.prefix_tokens.shape == (4, 8) and where.suffix_tokens.shape == (4, 5)
    with pytest.raises(ValueError, match="1 to 8"):
        where.last_prefix_tokens(9)


def test_exact_and_contained() -> None:
    suffix = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    said = np.array([[1, 2, 3, 0], [0, 4, 5, 6], [7, 8, -1, -1]])
    assert verbatim.is_memorized(said, suffix).tolist() == [True, False, False]
    assert verbatim.is_memorized(said, suffix, match="contains").tolist() == [True, True, False]
    assert not verbatim.is_memorized(said[:, :2], suffix, match="contains").any()


def test_too_short_texts_count_where_they_are_asked_to() -> None:
    where = verbatim.choose_probe_points(TEXTS, IDS)
    hits = np.array([True, True, False])
    assert verbatim.memorized_percent(hits, where) == pytest.approx(100 * 2 / 3)
    assert verbatim.memorized_percent(hits, where, denominator="all") == pytest.approx(40)
    none = verbatim.choose_probe_points([[1, 2]], ["short"])
    assert verbatim.memorized_percent(np.zeros(0, bool), none) == 0.0 and none.prefix_tokens.shape == (0, 20)
