"""Hundreds of kills at random moments, also while a run resumes: the final bytes are those of an undisturbed run.

SOAK_KILLS=n sets the number of kills (300). Each is a SIGKILL to the whole process group; up to five hit one WORK before a run may end.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from typing import Any

import pytest

KILLS = int(os.environ.get("SOAK_KILLS", "300"))


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("workers", [1, 2])
def test_kills_at_random_moments_are_resumed_to_identical_bytes(harness: Any, workers: int) -> None:
    rng, kills, rounds, finished_runs = random.Random(workers), 0, 0, 0
    start_time = time.monotonic()
    assert harness.run_command(workers=workers).code == 0 and harness.output_state() == "new"
    duration = time.monotonic() - start_time
    while kills < KILLS // 2:
        rounds += 1
        for folder in (harness.work, harness.out):
            shutil.rmtree(folder, ignore_errors=True)
        state_before = "old" if rounds % 2 else "absent"
        if state_before == "old":
            harness.place_old_output()
        with harness.watch_output():
            for _ in range(rng.randint(1, 5)):
                process = harness.start(workers=workers)
                # most of a short run is the start of Python: the first third is left out
                time.sleep(rng.uniform(duration / 3, duration * 1.1))
                os.killpg(process.pid, signal.SIGKILL)
                result = harness.wait_for_end(process)
                if result.code == 0:
                    finished_runs += 1
                    break
                assert result.code == -signal.SIGKILL
                kills += 1
                assert harness.output_state() in (state_before, "new")
                harness.check_no_canaries()
            harness.rerun()
    print(f"{kills} kills in {rounds} rounds with {workers} workers, {finished_runs} came too late; a run takes {duration:.1f} s")
