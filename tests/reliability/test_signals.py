"""Ctrl-C and SIGTERM, in any stage, to the group or to the command alone: an orderly end, no process left behind, nothing lost."""

from __future__ import annotations

import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sanitize.engines.local import LocalEngine
from sanitize.errors import Locked
from sanitize.storage.locks import lock_output, lock_workspace

# a stage has begun when this lies in the folder
STAGES = {
    "begin": "out.private/run.lock",
    "read": "out.private/spill/read-*",
    "find": "out.private/tasks/detect/00003.json",
    "apply": "out.private/runs/*/tasks/rewrite-00003.json",
    "verify": "out.private/runs/*/sweep/00002.parquet",
}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def stopped(house: Any, stage: str, number: signal.Signals, group: bool, workers: int) -> bool:
    """A run that gets a signal in a stage, and the checks then; False if it had ended before."""
    process: subprocess.Popen[str] = house.start(workers=workers)
    until = time.monotonic() + 100
    while not list(house.here.glob(STAGES[stage])) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.001)
    if group:
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid, number)
    said = house.ended(process)
    if said.code == 0:
        assert house.state() == "new"
        return False
    assert said.code == CODES[number], said
    assert "stopped; the same command resumes from here" in said.err and "error: " not in said.err
    assert house.state() == "absent"
    house.clean()
    return True


@pytest.mark.parametrize(
    ("stage", "number", "group", "workers"),
    [
        ("find", signal.SIGINT, True, 2),  # every stage with every signal: in the long form
        ("find", signal.SIGTERM, False, 1),
    ],
)
def test_a_signal_stops_in_good_order(large: Any, stage: str, number: signal.Signals, group: bool, workers: int) -> None:
    assert stopped(large, stage, number, group, workers)
    assert len(list(large.work.glob("tasks/detect/*.json"))) >= 3
    if workers == 2:
        large.again()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_signal_in_every_stage(large: Any, stage: str, number: signal.Signals, group: bool, workers: int) -> None:
    stopped(large, stage, number, group, workers)
    large.again()


def test_a_query_is_stopped(tmp_path: Path) -> None:
    """A DuckDB query can take minutes: a signal is handled nevertheless."""
    script = (
        "import sys; from pathlib import Path; import duckdb; from sanitize.cli import main as cli; "
        "from sanitize.engines.local import LocalEngine\n"
        "sys.argv = ['sanitize', '--version']\n"
        "def app():\n"
        "    print('begun', flush=True)\n"
        "    query = 'SELECT sum(hash(a.range, b.range)) FROM range(1000000) a, range(1000000) b'\n"
        "    LocalEngine(workers=1, spill=Path('spill')).scalar(query, {})\n"
        "cli.app = app; cli.main()"
    )
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped" in err and "Traceback" not in err, err


SLOW = """
import sys, time
from sanitize.cli import main as cli
sys.argv = ["sanitize", "--version"]
def app():
    print("begun", flush=True)
    import slow
    print("imported", flush=True)
    time.sleep(60)
cli.app = app
cli.main()
"""


def test_an_import_is_not_broken_off(tmp_path: Path) -> None:
    """A C++ library that is interrupted during its import aborts the process; the signal is handled after the import."""
    (tmp_path / "slow.py").write_text(
        "import time\nuntil = time.monotonic() + 0.5\nwhile time.monotonic() < until: time.sleep(0.01)\nprint('whole', flush=True)\n"
    )
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[2])])}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=told
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    # it ends at the first moment at which no import is under way, not at the end of all that was to come
    assert process.returncode == 143 and "stopped" in err and "Traceback" not in err, err
    assert out.startswith("whole\n")


@pytest.mark.soak
def test_a_signal_while_libraries_are_imported(house: Any) -> None:
    """Thirty moments in the first seconds of a command."""
    for moment in range(30):
        process = house.start()
        time.sleep(0.1 * moment)
        process.send_signal(signal.SIGTERM)
        said = house.ended(process)
        # before the command has begun to listen Python ends as it always does
        assert said.code in (143, 0, -signal.SIGTERM), (moment, said)


# ---- two at once ----


def test_a_held_work_and_a_held_out_are_left_alone(house: Any) -> None:
    """The exit code of `Locked` is checked in the tests of the command line."""
    house.put_old()
    house.work.mkdir()
    for name, hold in (("out.private", lock_workspace(house.work)), ("out", lock_output(house.out))):
        with hold, pytest.raises(Locked) as caught:
            house.again()
        said = rf"{house.here}/{name}: locked by process {os.getpid()} on {os.uname().nodename} for [0-9]+ s; wait until it ends"
        assert re.match(said, str(caught.value))
        assert house.state() == "old"
    house.again()


def test_two_runs_at_once(house: Any) -> None:
    """One publishes; the other stops, or comes so late that there is nothing to do."""
    both = [house.start("--json") for _ in range(2)]
    said = [house.ended(one) for one in both]
    codes = sorted(one.code for one in said)
    assert codes in ([0, 6], [0, 0]), said
    assert sum('"changed": true' in one.out for one in said) == 1
    assert house.state() == "new"
    house.clean()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("own_work", [False, True])
def test_twenty_times_two_runs_at_once(house: Any, own_work: bool) -> None:
    draw, refused = random.Random(7), 0
    for number in range(20):
        shutil.rmtree(house.work, ignore_errors=True)
        shutil.rmtree(house.out, ignore_errors=True)
        more = [["--work", str(house.here / "out.private")], ["--work", str(house.here / ("other" if own_work else "out.private"))]]
        both = []
        for words in more:
            both.append(house.start("--json", *words))
            time.sleep(draw.uniform(0, 0.4) if number % 2 else 0)
        said = [house.ended(one) for one in both]
        assert {one.code for one in said} <= {0, 6} and sum('"changed": true' in one.out for one in said) == 1, said
        refused += sum(one.code == 6 for one in said)
        assert house.state() == "new"
        shutil.rmtree(house.here / "other", ignore_errors=True)
    assert refused


def test_a_lock_whose_file_went_away_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder of OUT's lock deletes the lock file: a process that opened it just before must not hold a file without a name."""
    out, whole, times = tmp_path / "out", fcntl.flock, [0]

    def late(handle: int, how: int) -> None:
        times[0] += 1
        if times[0] == 1:
            (tmp_path / ".out.sanitize-lock").unlink()
        whole(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with lock_output(out):
        assert times[0] == 2 and (tmp_path / ".out.sanitize-lock").stat().st_size
        with pytest.raises(Locked), lock_output(out):
            pass
    assert not list(tmp_path.iterdir())


# ---- the engine ----


def test_workers_at_work_are_ended(tmp_path: Path) -> None:
    engine = LocalEngine(workers=2, spill=tmp_path)
    tasks = engine.map_shards(time.sleep, [0.0, 600.0, 600.0])
    next(tasks)
    workers = [child._process.pid for child in engine._workers if child._process is not None]
    began = time.monotonic()
    engine.close()
    assert len(workers) == 2 and time.monotonic() - began < 20
    assert [pid for pid in workers if Path(f"/proc/{pid}").exists()] == []
