"""A run that ends at any failpoint leaves OUT absent, old or complete, and the same command then
ends with the same bytes."""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sanitize.core import failpoints
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.storage import publication
from sanitize.storage.locks import read_lock_holder

ROOT = Path(__file__).resolve().parents[2]
STRIDE = int(os.environ.get("SOAK_STRIDE", "1"))

# Consecutive crashes, each while the run before is resumed: no resume uses unfinished work of an
# earlier run. The number after a failpoint says at which call the run crashes; finished tasks are
# not repeated, so a resume calls a failpoint less often.
CRASHES_WITHOUT_OUTPUT = (
    "workspace:created:1",
    "file:temp_written:1",
    "task:folder_created:1",
    "task:files_written:1",
    "task:file_checked:1",
    "task:file_synced:2",
    "task:file_renamed:2",
    "task:folders_synced:1",
    "task:record_written:2",
    "detect:index_json_written:1",
    "task:file_renamed:10",
    "detect:index_complete:1",
)
CRASHES_OVER_OLD_OUTPUT = (
    "run:plan_written:1",
    "run:leak_checked:1",
    "publish:shard_linked:2",
    "publish:page_written:1",
    "publish:folder_complete:1",
    "swap:complete:1",
)
# these have tests of their own: a key of the vault, a second round of detection, samples for
# annotation (test_other_commands.py), a system without atomic exchange, a stream
# (test_stream_state.py)
TESTED_ELSEWHERE = {
    "key:temp_written",
    "detect:second_round_input_written",
    "lines:temp_written",
    "swap:old_moved",
    "stream:output_written",
    "stream:state_written",
    "stream:committed",
}


def test_every_failpoint_is_called_at_one_place() -> None:
    called_failpoints: list[str] = []
    for path in (ROOT / "sanitize").rglob("*.py"):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if "failpoints" in source else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "failpoints.hit":
                assert isinstance(node.args[0], ast.Constant), path
                called_failpoints.append(node.args[0].value)
    assert sorted(called_failpoints) == sorted(failpoints.FAILPOINTS)
    assert {
        failpoint.rpartition(":")[0]
        for failpoint in CRASHES_WITHOUT_OUTPUT + CRASHES_OVER_OLD_OUTPUT
    } | TESTED_ELSEWHERE == set(failpoints.FAILPOINTS)


def test_an_unknown_failpoint_is_refused() -> None:
    assert failpoints._parse_setting("task:file_renamed:12") == ("task:file_renamed", 12)
    assert failpoints._parse_setting("task:file_renamed") == ("task:file_renamed", 1)
    assert failpoints._parse_setting("") == ("", 0)
    with pytest.raises(ValueError, match="no such point"):
        failpoints._parse_setting("task:unheard")


@pytest.mark.slow
@pytest.mark.parametrize(
    "failpoints_in_order",
    [CRASHES_WITHOUT_OUTPUT, CRASHES_OVER_OLD_OUTPUT],
    ids=["no output", "old output"],
)
def test_consecutive_crashes_are_resumed_to_identical_bytes(
    harness: Any, failpoints_in_order: tuple[str, ...]
) -> None:
    state_before = "absent"
    if failpoints_in_order is CRASHES_OVER_OLD_OUTPUT:
        state_before = "old"
        harness.place_old_output()
    with harness.watch_output():
        for failpoint in failpoints_in_order:
            result = harness.run_command(SANITIZE_CRASH_AT=failpoint)
            assert (result.code, result.out) == (137, ""), failpoint
            assert harness.output_state() == (
                "new" if failpoint == "swap:complete:1" else state_before
            ), failpoint
            # a killed run leaves the lock file, but no lock
            assert (harness.work / "run.lock").stat().st_size and (
                failpoint == "workspace:created:1"
                or (harness.folder / ".out.sanitize-lock").exists()
            )
            assert read_lock_holder(harness.work) is None
            harness.check_no_canaries()
        harness.rerun()
    assert not (harness.work / "run.lock").stat().st_size


def test_a_crash_before_the_key_is_renamed_leaves_no_key(harness: Any) -> None:
    harness.options = ["--rows-per-shard", 25]
    assert harness.run_command(SANITIZE_CRASH_AT="key:temp_written").code == 137
    assert not (harness.work / "vault" / "key" / "key").exists()
    run_with_settings(
        harness.inputs, harness.out, settings=Settings(workers=1, rows_per_shard=25), plan="rmft"
    )
    key = harness.work / "vault" / "key" / "key"
    assert len(key.read_text()) == 65 and key.stat().st_mode & 0o777 == 0o600
    harness.check_files()


def test_old_output_is_restored_after_a_crash_without_atomic_exchange(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a system that cannot exchange two folders, OUT is absent for a moment; the old one is kept
    until the new one is in place."""

    class Crash(BaseException):
        pass

    def crash_after_move(point: str) -> None:
        if point == "swap:old_moved":
            raise Crash

    harness.place_old_output()
    monkeypatch.setattr(publication, "_exchange", lambda *_: False)
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit", crash_after_move)
        with pytest.raises(Crash):
            harness.rerun()
    assert harness.output_state() == "absent" and (harness.folder / ".out.sanitize-old").is_dir()
    publication.recover_output(harness.out)  # what the next run does first
    assert harness.output_state() == "old"
    harness.rerun()


@pytest.mark.slow
def test_a_dead_worker_is_reported_in_one_error(harness: Any) -> None:
    # the parent process calls the failpoint only three times before
    result = harness.run_command(workers=2, SANITIZE_CRASH_AT="task:file_renamed:6")
    assert result.code == 7 and "a worker died" in result.err and result.err.count("error: ") == 1
    assert harness.output_state() == "absent"
    harness.check_files()
    harness.rerun()


def crash_and_resume(harness: Any, point: str, occurrence: int, state_before: str) -> bool:
    """One crash, one resume; False if the run did not reach the failpoint that often."""
    if state_before == "old":
        harness.place_old_output()
    with harness.watch_output():
        result = harness.run_command(SANITIZE_CRASH_AT=f"{point}:{occurrence}")
        if result.code == 0:
            assert harness.output_state() == "new"
            return False
        assert (result.code, result.out) == (137, "")
        assert harness.output_state() == ("new" if point == "swap:complete" else state_before)
        harness.check_no_canaries()
        harness.rerun()
    return True


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "point", [point for point in failpoints.FAILPOINTS if point not in TESTED_ELSEWHERE]
)
def test_a_crash_at_every_failpoint_is_resumed(
    harness: Any, record_property: Any, point: str
) -> None:
    """Every time that a run reaches a failpoint, with OUT absent and old. SOAK_STRIDE=n takes every
    n-th time."""
    occurrence = 1 - STRIDE
    while True:
        occurrence += STRIDE
        for state_before in ("absent", "old"):
            shutil.rmtree(harness.work, ignore_errors=True)
            shutil.rmtree(harness.out, ignore_errors=True)
            if not crash_and_resume(harness, point, occurrence, state_before):
                record_property("crashes", 2 * (occurrence - 1))
                assert occurrence > 1
                return
