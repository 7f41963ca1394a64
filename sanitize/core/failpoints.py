"""Failpoints: named points at which tests end the process, to check what a crash at that point
leaves on disk.

`SANITIZE_CRASH_AT=<point>:<n>` ends the process when it reaches the point for the n-th time (the
first, if n is omitted). As after SIGKILL nothing is cleaned up; the exit code is 137. The variable
is set in tests only; otherwise a point costs one comparison.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from sanitize.errors import suggest_names

FAILPOINTS = (
    "workspace:created",  # WORK exists, its lock is held
    "key:temp_written",  # the key is in its temporary file, not renamed yet
    "task:folder_created",  # the folder of an attempt exists and is empty
    "task:files_written",  # the task has written its files
    "task:file_checked",  # one of them was opened again and is complete
    "task:file_synced",  # one of them is synced to disk
    "task:file_renamed",  # one of them has its final name
    "task:folders_synced",  # all have their final names, and their folders are synced to disk
    "task:record_written",  # the record has its final name
    # a record or description is in its temporary file, synced, not renamed yet
    "file:temp_written",
    # text lines for a reader are in their temporary file, synced, not renamed yet
    "lines:temp_written",
    "detect:index_json_written",  # index.json is written; the index is not complete
    # the tables that the second round of finders needs are written
    "detect:second_round_input_written",
    "detect:index_complete",  # the index is complete
    "run:plan_written",  # plan.json is in the folder of the run
    "run:leak_checked",  # the leak check found no removed value
    "publish:shard_linked",  # a shard is in the staging folder beside OUT
    "publish:page_written",  # a report page is in it
    "publish:folder_complete",  # the staging folder is complete
    "swap:old_moved",  # where folders cannot be exchanged atomically: the old OUT was renamed
    "stream:output_written",  # the output of a batch of a stream is written, and not acknowledged
    "stream:state_written",  # the new state is on disk, and nothing refers to it yet
    "stream:committed",  # the batch is acknowledged
    "swap:complete",  # OUT is the new one; the old one may still exist beside it
)


def hit(point: str) -> None:
    """Ends the process with exit code 137 if SANITIZE_CRASH_AT names this point and its count is
    reached."""
    if point == _wanted_point:
        _hits_left[0] -= 1
        if not _hits_left[0]:
            os._exit(137)


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Context in which no failpoint ends the process.

    For child processes that parse untrusted files: their death is reported as a defect of the file.
    """
    saved, _hits_left[0] = _hits_left[0], 0
    try:
        yield
    finally:
        _hits_left[0] = saved


def _parse_setting(setting: str) -> tuple[str, int]:
    """(point, count) from the value of SANITIZE_CRASH_AT; ("", 0) for an empty value. Raises
    ValueError for an unknown point."""
    if not setting:
        return "", 0
    point, _, count = (
        setting.rpartition(":") if setting.rpartition(":")[2].isdecimal() else (setting, "", "1")
    )
    if point not in FAILPOINTS:
        raise ValueError(
            f"SANITIZE_CRASH_AT={setting}: no such point; {suggest_names(point, FAILPOINTS)}"
        )
    return point, int(count)


_wanted_point, _wanted_hits = _parse_setting(os.environ.get("SANITIZE_CRASH_AT", ""))
_hits_left = [_wanted_hits]
