"""What holds for all tests.

Property tests draw the same examples every time under CI, so that a red run can be repeated; elsewhere they look further. What this
process writes is not waited for until it is on the disk (a thousand runs of a hundred files each would be minutes of waiting); processes
of their own do wait, and `reliability/test_disk.py` holds that they do, and in which order. And here one drill serves all runs of a plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

os.fsync = lambda handle: None


@pytest.fixture(scope="session", autouse=True)
def shapes() -> Iterator[Callable[..., Any]]:
    """What the drill takes from the documents, which costs more than a run over a few of them; without it, it is the same for all runs of
    a plan. `test_verify_drill.py` puts it back, and so do processes of their own."""
    from sanitize import drill

    whole = drill._shapes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drill, "_shapes", lambda documents: drill._USUAL)
        yield whole
