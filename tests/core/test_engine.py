"""What a run cached of its files is gone when the call returns."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core import engine
from sanitize.editors import pseudonymize, rmft
from sanitize.engines.local import LocalEngine
from sanitize.finders import known
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.verification import search_terms

# plan -> caches that a run by it fills, among others
CACHES = {
    "rmft": [rmft._load_pools, search_terms._load_passes],
    "names": [known._read_cached_terms],
    "pseudonymize": [pseudonymize._load_values],
}


@pytest.mark.parametrize("plan", CACHES)
def test_a_program_keeps_no_cache_and_no_file_of_a_run(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "Ada Lindgren <ada.lindgren@example.com> wrote from ada.lindgren@example.com, call +1 202"
        " 555 0143"
    )
    pq.write_table(pa.table({"doc_id": ["a", "b"], "text": [text, text]}), tmp_path / "in.parquet")
    loads = []  # of each cache, when the engine is closed

    def close(closed: LocalEngine, close: object = LocalEngine.close) -> None:
        loads.append([cache.cache_info().currsize for cache in CACHES[plan]])
        close(closed)  # type: ignore[operator]

    monkeypatch.setattr(LocalEngine, "close", close)
    settings = Settings(seed=1, workers=1, verify="full")
    run_with_settings(
        [tmp_path / "in.parquet"], tmp_path / "out", load_plan(plan), tmp_path / "work", settings
    )

    # each was used, so that there was something to forget
    assert all(map(any, zip(*loads, strict=True)))
    assert [
        cache.__name__ for cache in engine._cached_functions if cache.cache_info().currsize
    ] == []
    if sys.platform == "linux":
        assert str(tmp_path) not in Path("/proc/self/maps").read_text()
