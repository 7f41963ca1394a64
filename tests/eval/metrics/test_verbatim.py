"""Where texts are probed, and when a suffix has come out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.metrics import verbatim

LENGTHS = (10, 39, 40, 41, 90)
TEXTS = [list(range(1000 * number, 1000 * number + length)) for number, length in enumerate(LENGTHS)]
IDS = [f"doc-{number}" for number in range(len(LENGTHS))]


@given(st.integers(-5, 1000))
def test_prefix_and_suffix_follow_each_other_in_the_text(seed: int) -> None:
    where = verbatim.places(TEXTS, IDS, seed=seed)
    assert where.rows.tolist() == [2, 3, 4] and where.left_out == 2 and where.texts == 5
    for row, before, suffix in zip(where.rows, where.before, where.suffix, strict=True):
        start = int(suffix[0]) - 1000 * int(row)
        assert TEXTS[row][start - 20 : start + 20] == [*before, *suffix]
    for k in verbatim.KS:
        assert (where.prefix(k) == where.before[:, -k:]).all() and where.prefix(k).shape == (3, k)


def test_the_place_hangs_on_doc_id_and_seed_alone() -> None:
    where = verbatim.places(TEXTS, IDS, seed=3)
    order = [4, 0, 3, 2, 1]
    shuffled = verbatim.places([TEXTS[row] for row in order], [IDS[row] for row in order], seed=3)
    assert {tuple(suffix) for suffix in where.suffix} == {tuple(suffix) for suffix in shuffled.suffix}
    alone = verbatim.places([TEXTS[4]], [IDS[4]], seed=3)
    assert (alone.suffix[0] == where.suffix[-1]).all()
    drawn = {tuple(verbatim.places([TEXTS[4]], [IDS[4]], seed=seed).suffix[0]) for seed in range(40)}
    assert len(drawn) > 20
    assert len({tuple(verbatim.places([TEXTS[4]], [f"other-{n}"]).suffix[0]) for n in range(40)}) > 20


def test_a_longer_prefix_must_have_been_drawn() -> None:
    where = verbatim.places(TEXTS, IDS, ks=(4, 8), suffix=5)
    assert where.before.shape == (4, 8) and where.suffix.shape == (4, 5)
    with pytest.raises(ValueError, match="1 to 8"):
        where.prefix(9)


def test_exact_and_contained() -> None:
    suffix = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    said = np.array([[1, 2, 3, 0], [0, 4, 5, 6], [7, 8, -1, -1]])
    assert verbatim.memorized(said, suffix).tolist() == [True, False, False]
    assert verbatim.memorized(said, suffix, match="contains").tolist() == [True, True, False]
    assert not verbatim.memorized(said[:, :2], suffix, match="contains").any()


def test_too_short_texts_count_where_they_are_asked_to() -> None:
    where = verbatim.places(TEXTS, IDS)
    hits = np.array([True, True, False])
    assert verbatim.percent(hits, where) == pytest.approx(100 * 2 / 3)
    assert verbatim.percent(hits, where, of="all") == pytest.approx(40)
    none = verbatim.places([[1, 2]], ["short"])
    assert verbatim.percent(np.zeros(0, bool), none) == 0.0 and none.before.shape == (0, 20)
