"""A run with a blacklist and masks that crashes at failpoints is resumed to the bytes of an undisturbed run, and leaves no files behind."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sanitize.pipeline.run import find, run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

CHANGES = ["blacklist.k=2", "blacklist.n=2", 'edit.0.reasons=["direct", "indirect"]']


def lists(work: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(work.rglob("vault/blacklist/*.parquet"))]


def test_crashes_while_it_is_counted(house: Any, tmp_path_factory: Any) -> None:
    whole = tmp_path_factory.mktemp("whole")
    plan = load_plan("mask_words", CHANGES)
    told = Settings(seed=1, workers=1, rows_per_shard=25)
    summary = run(house.inputs, whole / "out", plan, whole / "work", told)
    assert summary["blacklist"]["masked_words"] > 100 and summary["leaks"] == 0
    words = ["--plan", "mask_words", *(word for change in CHANGES for word in ("--set", change))]
    # the index is there; each attempt gets a little further than the one before
    find(house.inputs, house.work, told)
    crashes = counting = 0
    for point in itertools.cycle(("task:file_renamed:2", "task:record_written:2", "task:file_checked:1", "task:record_written:2")):
        said = house.command(*words, workers=1, SANITIZE_CRASH_AT=point)
        if said.code == 0:
            break
        assert (said.code, said.out, house.out.exists()) == (137, "", False), point
        house.silent()
        crashes += 1
        counting += any(house.work.glob("runs/*/blacklist/*"))
    assert crashes > counting >= 4
    assert house.command(*words, workers=2).code == 0  # nothing is left to do
    assert lists(house.work) == lists(whole / "work") and len(lists(house.work)) == 1
    shards = [sorted((out / "data").iterdir()) for out in (house.out, whole / "out")]
    assert [path.read_bytes() for path in shards[0]] == [path.read_bytes() for path in shards[1]]
    house.clean()
    assert pq.read_table(next(house.work.rglob("vault/blacklist/*.parquet"))).num_rows > 100
