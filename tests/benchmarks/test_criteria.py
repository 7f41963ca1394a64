"""What the papers' scripts share: a corpus of one's own is sampled and split by lots that know nothing of each other."""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.criteria import draw_uniform, read_own_corpus, split_documents


def test_a_sample_of_ones_own_falls_into_all_parts(tmp_path: Path) -> None:
    ids = [f"d{number}" for number in range(300)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"doc_id": ids, "text": [f"Note {one}." for one in ids]}), tmp_path / "in" / "a.parquet")
    arguments = argparse.Namespace(data=tmp_path / "in", text_column="text", documents=60)
    found = read_own_corpus(arguments, tmp_path)
    assert found is not None
    table = pq.read_table(found)
    assert table.num_rows == 60 and set(table["doc_id"].to_pylist()) < set(ids)
    for seed in range(3):
        parts = split_documents(table, seed, {"public": 0.5, "private": 0.2, "held": 0.3})
        assert sum(one.num_rows for one in parts.values()) == 60
        assert parts["public"].num_rows == pytest.approx(30, abs=12) and min(one.num_rows for one in parts.values()) >= 4


def test_lots_hang_on_the_id_the_seed_and_what_they_are_for() -> None:
    one = draw_uniform(["a", "b"], 0)
    assert one.tolist() == draw_uniform(["b", "a"], 0)[::-1].tolist() and ((one >= 0) & (one < 1)).all()
    assert one[0] != draw_uniform(["a"], 1)[0] and one[0] != draw_uniform(["a"], 0, purpose=b"own")[0]
