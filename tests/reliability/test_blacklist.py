"""A run with a blacklist and masks that crashes at failpoints is resumed to the bytes of an
undisturbed run, and leaves no files behind."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

CHANGES = ["blacklist.k=2", "blacklist.n=2", 'edit.0.reasons=["direct", "indirect"]']


def read_blacklists(work: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(work.rglob("vault/blacklist/*.parquet"))]


@pytest.mark.slow
def test_crashes_while_the_blacklist_is_counted_do_not_change_it(
    harness: Any, tmp_path_factory: Any
) -> None:
    undisturbed = tmp_path_factory.mktemp("whole")
    plan = load_plan("mask_words", CHANGES)
    settings = Settings(seed=1, workers=1, rows_per_shard=25)
    summary = run_with_settings(
        harness.inputs, undisturbed / "out", plan, undisturbed / "work", settings
    )
    assert summary.blacklist.masked_words > 100 and summary.leaks == 0
    options = ["--plan", "mask_words", *(word for change in CHANGES for word in ("--set", change))]
    # the index exists; each attempt gets a little further than the one before
    index_with_settings(harness.inputs, harness.work, settings)
    crashes = counting_crashes = 0
    for point in itertools.cycle(
        (
            "task:file_renamed:2",
            "task:record_written:2",
            "task:file_checked:1",
            "task:record_written:2",
        )
    ):
        result = harness.run_command(*options, workers=1, SANITIZE_CRASH_AT=point)
        if result.code == 0:
            break
        assert (result.code, result.out, harness.out.exists()) == (137, "", False), point
        harness.check_no_canaries()
        crashes += 1
        counting_crashes += any(harness.work.glob("runs/*/blacklist/*"))
    assert crashes > counting_crashes >= 3
    assert harness.run_command(*options, workers=2).code == 0  # nothing is left to do
    assert (
        read_blacklists(harness.work) == read_blacklists(undisturbed / "work")
        and len(read_blacklists(harness.work)) == 1
    )
    shards = [sorted((out / "data").iterdir()) for out in (harness.out, undisturbed / "out")]
    assert [path.read_bytes() for path in shards[0]] == [path.read_bytes() for path in shards[1]]
    harness.check_files()
    assert pq.read_table(next(harness.work.rglob("vault/blacklist/*.parquet"))).num_rows > 100
