"""Hundreds of kills at random moments, also while a run resumes: the final bytes are those of an
undisturbed run.

300 kills of runs without an earlier output and 100 of runs that replace one; SOAK_KILLS=n divides
all numbers of kills by 300 / n. Each is a SIGKILL to the whole process group; up to five hit one
WORK before a run may end.
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
# the parts of the kills with OUT absent or old; each has a tenth or a twelfth of KILLS
SHARES = {"absent": range(5), "old": range(2)}
CASES = [
    (state, workers, part)
    for state, parts in SHARES.items()
    for workers in (1, 2)
    for part in parts
]


@pytest.mark.soak
@pytest.mark.new_interpreter
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(("state_before", "workers", "part"), CASES)
def test_kills_at_random_moments_are_resumed_to_identical_bytes(
    harness: Any, record_property: Any, state_before: str, workers: int, part: int
) -> None:
    rng, kills, late_count = random.Random(f"{state_before} {workers} {part}"), 0, 0
    start_time = time.monotonic()
    assert harness.run_command(workers=workers).code == 0 and harness.output_state() == "new"
    duration = time.monotonic() - start_time
    while kills < KILLS // (10 if state_before == "absent" else 12):
        for folder in (harness.work, harness.out):
            shutil.rmtree(folder, ignore_errors=True)
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
                    late_count += 1
                    break
                assert result.code == -signal.SIGKILL
                kills += 1
                assert harness.output_state() in (state_before, "new")
                harness.check_no_canaries()
            harness.rerun()
    record_property("kills", kills)
    record_property("ended before the kill", late_count)
