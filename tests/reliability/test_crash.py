"""A run that ends at any failpoint leaves OUT absent, old or complete, and the same command then ends with the same bytes."""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sanitize.core import failpoints
from sanitize.pipeline.run import run
from sanitize.plans.settings import Settings
from sanitize.storage import publication
from sanitize.storage.locks import read_lock_holder

ROOT = Path(__file__).resolve().parents[2]
STRIDE = int(os.environ.get("SOAK_STRIDE", "1"))

# Crashes one after the other, each in the resume of the one before: none takes the work of those before for more than it is. A point
# that a run comes by several times is told with the time; as tasks get done, a resume comes by less often.
INTO_NOTHING = (
    "workspace:created:1",
    "json:temp_written:1",
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
OVER_AN_OLD_ONE = (
    "run:plan_written:1",
    "run:leak_checked:1",
    "publish:shard_linked:2",
    "publish:page_written:1",
    "publish:folder_complete:1",
    "swap:complete:1",
)
# these have tests of their own: a key of the vault, a second round of find, lines for a person (test_verbs.py), a system that cannot
# exchange, a stream (test_stream_state.py)
ELSEWHERE = {
    "key:temp_written",
    "detect:second_round_input_written",
    "lines:temp_written",
    "swap:old_moved",
    "stream:output_written",
    "stream:state_written",
    "stream:committed",
}


def test_every_point_is_passed_at_one_place() -> None:
    found: list[str] = []
    for path in (ROOT / "sanitize").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "failpoints.hit":
                assert isinstance(node.args[0], ast.Constant), path
                found.append(node.args[0].value)
    assert sorted(found) == sorted(failpoints.FAILPOINTS)
    assert {told.rpartition(":")[0] for told in INTO_NOTHING + OVER_AN_OLD_ONE} | ELSEWHERE == set(failpoints.FAILPOINTS)


def test_an_unknown_point_is_refused() -> None:
    assert failpoints._parse_setting("task:file_renamed:12") == ("task:file_renamed", 12)
    assert failpoints._parse_setting("task:file_renamed") == ("task:file_renamed", 1)
    assert failpoints._parse_setting("") == ("", 0)
    with pytest.raises(ValueError, match="no such point"):
        failpoints._parse_setting("task:unheard")


@pytest.mark.parametrize("points", [INTO_NOTHING, OVER_AN_OLD_ONE], ids=["into nothing", "over an old one"])
def test_crashes_one_after_another(house: Any, points: tuple[str, ...]) -> None:
    first = "absent"
    if points is OVER_AN_OLD_ONE:
        first = "old"
        house.put_old()
    with house.watched():
        for told in points:
            said = house.command(SANITIZE_CRASH_AT=told)
            assert (said.code, said.out) == (137, ""), told
            assert house.state() == ("new" if told == "swap:complete:1" else first), told
            # what a run that was killed leaves is a file, never a lock
            assert (house.work / "run.lock").stat().st_size and (
                told == "workspace:created:1" or (house.here / ".out.sanitize-lock").exists()
            )
            assert read_lock_holder(house.work) is None
            house.silent()
        house.again()
    assert not (house.work / "run.lock").stat().st_size


def test_a_crash_before_the_key_has_its_name(house: Any) -> None:
    house.told = ["--rows-per-shard", 25]
    assert house.command(SANITIZE_CRASH_AT="key:temp_written").code == 137
    assert not (house.work / "vault" / "key" / "key").exists()
    run(house.inputs, house.out, settings=Settings(workers=1, rows_per_shard=25))
    key = house.work / "vault" / "key" / "key"
    assert len(key.read_text()) == 65 and key.stat().st_mode & 0o777 == 0o600
    house.clean()


def test_a_crash_while_out_stands_aside(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system that cannot exchange two folders, OUT is absent for a moment; the old one is kept until the new one is in place."""

    class Crash(BaseException):
        pass

    def here(point: str) -> None:
        if point == "swap:old_moved":
            raise Crash

    house.put_old()
    monkeypatch.setattr(publication, "_exchange", lambda *_: False)
    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit", here)
        with pytest.raises(Crash):
            house.again()
    assert house.state() == "absent" and (house.here / ".out.sanitize-old").is_dir()
    publication.recover_output(house.out)  # what the next run does first
    assert house.state() == "old"
    house.again()


def test_a_worker_that_dies_is_one_clear_error(house: Any) -> None:
    said = house.command(workers=2, SANITIZE_CRASH_AT="task:file_renamed:6")  # this process comes by only three times before
    assert said.code == 7 and "a worker died" in said.err and said.err.count("error: ") == 1
    assert house.state() == "absent"
    house.clean()
    house.again()


def crashed_and_resumed(house: Any, point: str, times: int, first: str) -> bool:
    """One crash, one resume; False if the run did not reach the failpoint that often."""
    if first == "old":
        house.put_old()
    with house.watched():
        said = house.command(SANITIZE_CRASH_AT=f"{point}:{times}")
        if said.code == 0:
            assert house.state() == "new"
            return False
        assert (said.code, said.out) == (137, "")
        assert house.state() == ("new" if point == "swap:complete" else first)
        house.silent()
        house.again()
    return True


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("point", [point for point in failpoints.FAILPOINTS if point not in ELSEWHERE])
def test_a_crash_each_time(house: Any, point: str) -> None:
    """Every time that a run reaches a failpoint, with OUT absent and old. SOAK_STRIDE=n takes every n-th time."""
    times = 1 - STRIDE
    while True:
        times += STRIDE
        for first in ("absent", "old"):
            shutil.rmtree(house.work, ignore_errors=True)
            shutil.rmtree(house.out, ignore_errors=True)
            if not crashed_and_resumed(house, point, times, first):
                assert times > 1
                return
