"""Ctrl-C and SIGTERM, in any stage, to the group or to the command alone: an orderly end, no
process left behind, nothing lost."""

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

# a stage has begun when this path exists in the folder
STAGES = {
    "begin": "out.private/run.lock",
    "read": "out.private/spill/read-*",
    "find": "out.private/tasks/detect/00003.json",
    "apply": "out.private/runs/*/tasks/rewrite-00003.json",
    "verify": "out.private/runs/*/sweep/00002.parquet",
}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def run_with_signal(
    harness: Any, stage: str, number: signal.Signals, group: bool, workers: int
) -> bool:
    """Run, send a signal in a stage, and check the end; False if the run had ended before."""
    process: subprocess.Popen[str] = harness.start(workers=workers)
    deadline = time.monotonic() + 100
    while not list(harness.folder.glob(STAGES[stage])) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    if group:
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid, number)
    result = harness.wait_for_end(process)
    if result.code == 0:
        assert harness.output_state() == "new"
        return False
    assert result.code == CODES[number], result
    assert (
        "stopped; the same command resumes from here" in result.err and "error: " not in result.err
    )
    assert harness.output_state() == "absent"
    harness.check_files()
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "number", "group", "workers"),
    [
        ("find", signal.SIGINT, True, 2),  # every stage with every signal: in the soak tests
        ("find", signal.SIGTERM, False, 1),
    ],
)
def test_a_signal_stops_the_run_cleanly(
    large_harness: Any, stage: str, number: signal.Signals, group: bool, workers: int
) -> None:
    assert run_with_signal(large_harness, stage, number, group, workers)
    assert len(list(large_harness.work.glob("tasks/detect/*.json"))) >= 3
    if workers == 2:
        large_harness.rerun()


@pytest.mark.soak
@pytest.mark.new_interpreter
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_signal_in_every_stage_stops_the_run_cleanly(
    large_harness: Any, stage: str, number: signal.Signals, group: bool, workers: int
) -> None:
    run_with_signal(large_harness, stage, number, group, workers)
    large_harness.rerun()


def test_a_signal_stops_a_running_query(tmp_path: Path) -> None:
    """A DuckDB query can take minutes: a signal is handled nevertheless."""
    script = (
        "import sys; from pathlib import Path; import duckdb; from sanitize.cli import main as cli;"
        " from sanitize.engines.local import LocalEngine\nsys.argv = ['sanitize', '--version']\ndef"
        " app():\n    print('begun', flush=True)\n    query = 'SELECT sum(hash(a.range, b.range))"
        " FROM range(1000000) a, range(1000000) b'\n    LocalEngine(workers=1,"
        " spill=Path('spill')).scalar(query, {})\ncli.app = app; cli.main()"
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


SLOW_IMPORT_SCRIPT = """
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


def test_a_signal_during_an_import_is_handled_after_it(tmp_path: Path) -> None:
    """A C++ library that is interrupted during its import aborts the process; the signal is handled
    after the import."""
    (tmp_path / "slow.py").write_text(
        "import time\nuntil = time.monotonic() + 0.5\nwhile time.monotonic() < until:"
        " time.sleep(0.01)\nprint('whole', flush=True)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[2])]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT_SCRIPT],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    # it ends as soon as no import is running, not at the end of the script
    assert process.returncode == 143 and "stopped" in err and "Traceback" not in err, err
    assert out.startswith("whole\n")


IGNORED_EXIT_SCRIPT = """
import os, signal, time
from sanitize.cli import main as cli

def read():
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.SIGINT)

def command():
    rows = read()
    next(rows)
    del rows  # the signal's exit is raised in a generator that is thrown away: Python ignores it
    print("begun", flush=True)
    time.sleep(10)
    print("went on", flush=True)

cli.app = command
cli.main()
"""


def test_a_signal_whose_exit_python_ignores_stops_the_command() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", IGNORED_EXIT_SCRIPT]
    result = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert (result.returncode, result.stdout) == (130, "begun\n")
    assert result.stderr == "stopped; the same command resumes from here\n"


STOPPED_SCRIPT = """
import os, signal, sys, time
from sanitize.cli import main as cli
from sanitize.errors import resume_note

def command():
    cli._running_command.set(sys.argv[1])
    if sys.argv[1] == "stream":
        resume_note.set(lambda: "3 records of standard input are acknowledged")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)

cli.app = command
cli.main()
"""


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("run", "the same command resumes from here"),
        ("verify", "the same command begins again"),
        ("stream", "3 records of standard input are acknowledged"),
    ],
)
def test_what_the_same_command_does_is_said_truly(command: str, note: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    arguments = [sys.executable, "-c", STOPPED_SCRIPT, command]
    result = subprocess.run(
        arguments, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (143, f"stopped; {note}\n")


@pytest.mark.soak
@pytest.mark.new_interpreter
def test_a_signal_at_startup_stops_the_command(harness: Any) -> None:
    """Thirty moments in the first seconds of a command."""
    for moment in range(30):
        process = harness.start()
        time.sleep(0.1 * moment)
        process.send_signal(signal.SIGTERM)
        result = harness.wait_for_end(process)
        # before the command has installed its handler, Python ends in its default way
        assert result.code in (143, 0, -signal.SIGTERM), (moment, result)


# ---- concurrent runs ----


def test_a_locked_workspace_or_output_stays_unchanged(harness: Any) -> None:
    """The exit code of `Locked` is checked in the tests of the command line."""
    harness.place_old_output()
    harness.work.mkdir()
    for name, hold in (
        ("out.private", lock_workspace(harness.work)),
        ("out", lock_output(harness.out)),
    ):
        with hold, pytest.raises(Locked) as caught:
            harness.rerun()
        expected_message = (
            rf"{harness.folder}/{name}: locked by process {os.getpid()} on {os.uname().nodename}"
            r" for [0-9]+ s; wait until it ends"
        )
        assert re.match(expected_message, str(caught.value))
        assert harness.output_state() == "old"
    harness.rerun()


@pytest.mark.slow
def test_of_two_concurrent_runs_one_publishes(harness: Any) -> None:
    """One publishes; the other stops, or starts so late that there is nothing to do."""
    processes = [harness.start("--json") for _ in range(2)]
    results = [harness.wait_for_end(process) for process in processes]
    codes = sorted(result.code for result in results)
    assert codes in ([0, 6], [0, 0]), results
    assert sum('"changed": true' in result.out for result in results) == 1
    assert harness.output_state() == "new"
    harness.check_files()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("own_work", [False, True])
def test_of_two_concurrent_runs_one_publishes_repeatedly(harness: Any, own_work: bool) -> None:
    rng, refused = random.Random(7), 0
    for number in range(20):
        shutil.rmtree(harness.work, ignore_errors=True)
        shutil.rmtree(harness.out, ignore_errors=True)
        options_of_both = [
            ["--work", str(harness.folder / "out.private")],
            ["--work", str(harness.folder / ("other" if own_work else "out.private"))],
        ]
        processes = []
        for options in options_of_both:
            processes.append(harness.start("--json", *options))
            time.sleep(rng.uniform(0, 0.4) if number % 2 else 0)
        results = [harness.wait_for_end(process) for process in processes]
        assert {result.code for result in results} <= {0, 6} and sum(
            '"changed": true' in result.out for result in results
        ) == 1, results
        refused += sum(result.code == 6 for result in results)
        assert harness.output_state() == "new"
        shutil.rmtree(harness.folder / "other", ignore_errors=True)
    assert refused


def test_a_lock_is_acquired_again_when_its_file_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder of OUT's lock deletes the lock file: a process that opened it just before must not
    hold a file without a name."""
    out, real_flock, call_count = tmp_path / "out", fcntl.flock, [0]

    def delete_then_lock(handle: int, operation: int) -> None:
        call_count[0] += 1
        if call_count[0] == 1:
            (tmp_path / ".out.sanitize-lock").unlink()
        real_flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", delete_then_lock)
    with lock_output(out):
        assert call_count[0] == 2 and (tmp_path / ".out.sanitize-lock").stat().st_size
        with pytest.raises(Locked), lock_output(out):
            pass
    assert not list(tmp_path.iterdir())


# ---- the engine ----


def test_busy_workers_are_terminated_on_close(tmp_path: Path) -> None:
    engine = LocalEngine(workers=2, spill=tmp_path)
    tasks = engine.map_shards(time.sleep, [0.0, 600.0, 600.0])
    next(tasks)
    worker_pids = [child._process.pid for child in engine._workers if child._process is not None]
    start_time = time.monotonic()
    engine.close()
    assert len(worker_pids) == 2 and time.monotonic() - start_time < 20
    assert [pid for pid in worker_pids if Path(f"/proc/{pid}").exists()] == []
