"""Shared functions of the papers' scripts: a given corpus is sampled and split by independent draws."""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.criteria import draw_uniform, read_own_corpus, split_documents


def test_a_sample_of_a_given_corpus_is_split_into_all_parts(tmp_path: Path) -> None:
    ids = [f"d{number}" for number in range(300)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"doc_id": ids, "text": [f"Note {doc_id}." for doc_id in ids]}), tmp_path / "in" / "a.parquet")
    arguments = argparse.Namespace(data=tmp_path / "in", text_column="text", documents=60)
    path = read_own_corpus(arguments, tmp_path)
    assert path is not None
    table = pq.read_table(path)
    assert table.num_rows == 60 and set(table["doc_id"].to_pylist()) < set(ids)
    for seed in range(3):
        parts = split_documents(table, seed, {"public": 0.5, "private": 0.2, "held": 0.3})
        assert sum(part.num_rows for part in parts.values()) == 60
        assert parts["public"].num_rows == pytest.approx(30, abs=12) and min(part.num_rows for part in parts.values()) >= 4


def test_draws_depend_on_id_seed_and_purpose() -> None:
    draws = draw_uniform(["a", "b"], 0)
    assert draws.tolist() == draw_uniform(["b", "a"], 0)[::-1].tolist() and ((draws >= 0) & (draws < 1)).all()
    assert draws[0] != draw_uniform(["a"], 1)[0] and draws[0] != draw_uniform(["a"], 0, purpose=b"own")[0]
