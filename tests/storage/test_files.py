"""JSON lines are refused before a parser in compiled code follows their brackets too deeply; the
order of commands and runs does not depend on the clock."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sanitize.storage import files
from sanitize.storage.files import require_shallow_lines
from sanitize.storage.runs.publish_history import list_commands, record_command
from sanitize.storage.runs.run_folders import list_runs, write_plan

VALUES = st.recursive(
    st.text(st.sampled_from('a[]{}"\\')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("[{"), inner),
    max_leaves=12,
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(st.lists(VALUES, max_size=4), st.integers(1, 5))
def test_only_lines_with_deeper_brackets_are_refused(values: list[Any], limit: int) -> None:
    data = "\n".join(map(json.dumps, values)).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "MAX_NESTING", limit)
        if max(map(depth, values), default=0) > limit:
            with pytest.raises(ValueError, match="nested too deeply"):
                require_shallow_lines(data)
        else:
            assert require_shallow_lines(data) == data


def test_the_latest_run_and_command_are_the_last_written_when_the_clock_goes_back(
    tmp_path: Path,
) -> None:
    names = [f"{number:016x}" for number in (7, 2, 9, 4)]
    for run_hash in [*names, names[0]]:  # the first one is written again
        for path in [*tmp_path.glob("published/*"), *tmp_path.glob("runs/*/*")]:
            # seen from a clock that went back by a day, earlier files are from tomorrow
            tomorrow = path.stat().st_mtime_ns + 86_400 * 10**9
            os.utime(path, ns=(tomorrow, tomorrow))
        folder = tmp_path / "runs" / run_hash
        folder.mkdir(parents=True, exist_ok=True)
        write_plan(folder, {"name": run_hash})
        command = {"out": "out", "inputs": [], "settings": {}, "plan": {}, "run_hash": run_hash}
        record_command(tmp_path, command, tmp_path / "out", "0" * 64)
    assert [run.plan for run in list_runs(tmp_path)] == [*names[1:], names[0]]
    assert [one["run_hash"] for one in list_commands(tmp_path)] == [*names[1:], names[0]]
