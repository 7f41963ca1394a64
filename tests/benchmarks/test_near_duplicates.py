"""Candidate pairs of near-duplicates, by each of the compared libraries that is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import near_duplicates

WORDS = "the plan for the next week was sent to all of us by the office on monday"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three shards: a text and its copy with one word more, and eight that share nothing."""
    texts = [WORDS * 3, WORDS * 3 + " again"]
    texts += [" ".join(f"word{number}x{at}" for at in range(40)) for number in range(8)]
    for shard, first in enumerate((0, 4, 8)):
        table = pa.table({"text": texts[first : first + 4]})
        pq.write_table(table, tmp_path / f"part-{shard}.parquet")
    return tmp_path


@pytest.mark.parametrize("name", near_duplicates.METHODS)
def test_each_library_finds_the_copy(corpus: Path, name: str) -> None:
    if name != "near_dup" and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    texts = near_duplicates.read_texts(corpus)
    assert near_duplicates.METHODS[name](texts, 16, 8) == 1


def test_the_limit_counts_documents_of_all_shards(corpus: Path) -> None:
    assert [len(batch) for batch in near_duplicates.read_texts(corpus, 6)] == [4, 2]
    assert [len(batch) for batch in near_duplicates.read_texts(corpus)] == [4, 4, 2]
    one = [pa.array(["four", "five!"], pa.large_string())]
    assert near_duplicates.count_mb(one) == pytest.approx(9e-6)
