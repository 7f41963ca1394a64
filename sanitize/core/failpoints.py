"""Named points at which a process can be told to die, so that tests see what a crash leaves at each of them.

`SANITIZE_CRASH_AT=<point>:<n>` ends the process the n-th time (the first, where n is left out) that it comes by the point: as after
SIGKILL nothing is cleaned up, and the exit code is 137. Unset, which is always but in tests, a point costs one comparison.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

POINTS = (
    "work:made",  # WORK is there, its lock is held
    "key:written",  # the key lies aside, under no name yet
    "task:begun",  # the folder of an attempt is there, and empty
    "task:written",  # the task has written its files
    "task:checked",  # one of them was opened again and is whole
    "task:synced",  # one of them is on the disk
    "task:renamed",  # one of them has its name
    "task:settled",  # all have their names, and their folders are on the disk
    "task:recorded",  # the record has its name
    "json:aside",  # a record or description is on the disk, under no name yet
    "lines:aside",  # lines for a person are on the disk, under no name yet
    "find:described",  # the index is described, and not complete
    "find:gathered",  # what the second round needs lies there
    "find:done",  # the index is complete
    "run:described",  # the folder of a plan is there
    "run:judged",  # nothing is left that had to go
    "publish:linked",  # a shard stands in the folder beside OUT
    "publish:paged",  # a page stands there
    "publish:built",  # the folder beside OUT is whole
    "swap:aside",  # where folders cannot be exchanged: OUT has stepped aside
    "stream:emitted",  # a batch of a stream is where it belongs, and not acknowledged
    "stream:written",  # what the state is to say lies on the disk, and nothing points at it
    "stream:committed",  # the batch is acknowledged
    "swap:done",  # OUT is the new one; the old one may still lie beside it
)


def at(point: str) -> None:
    """End the process here if the environment says so."""
    if point == _wanted:
        _left[0] -= 1
        if not _left[0]:
            os._exit(137)


@contextlib.contextmanager
def asleep() -> Iterator[None]:
    """No point ends the process here: a child that reads strangers' files may die of them, and that would say something about a file."""
    left, _left[0] = _left[0], 0
    try:
        yield
    finally:
        _left[0] = left


def _told(said: str) -> tuple[str, int]:
    """Point and count, from what the environment says; no point where it says nothing."""
    if not said:
        return "", 0
    point, _, times = said.rpartition(":") if said.rpartition(":")[2].isdecimal() else (said, "", "1")
    if point not in POINTS:
        raise ValueError(f"SANITIZE_CRASH_AT={said}: no such point; known: {', '.join(POINTS)}")
    return point, int(times)


_wanted, _times = _told(os.environ.get("SANITIZE_CRASH_AT", ""))
_left = [_times]
