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
def test_kills_at_random(house: Any, workers: int) -> None:
    draw, kills, rounds, late = random.Random(workers), 0, 0, 0
    began = time.monotonic()
    assert house.command(workers=workers).code == 0 and house.state() == "new"
    whole = time.monotonic() - began
    while kills < KILLS // 2:
        rounds += 1
        for folder in (house.work, house.out):
            shutil.rmtree(folder, ignore_errors=True)
        first = "old" if rounds % 2 else "absent"
        if first == "old":
            house.put_old()
        with house.watched():
            for _ in range(draw.randint(1, 5)):
                process = house.start(workers=workers)
                # most of a short run is the start of Python: the first third is left out
                time.sleep(draw.uniform(whole / 3, whole * 1.1))
                os.killpg(process.pid, signal.SIGKILL)
                said = house.ended(process)
                if said.code == 0:
                    late += 1
                    break
                assert said.code == -signal.SIGKILL
                kills += 1
                assert house.state() in (first, "new")
                house.silent()
            house.again()
    print(f"{kills} kills in {rounds} rounds with {workers} workers, {late} came too late; a run takes {whole:.1f} s")
