"""Worker processes that may die: a crash costs only its task, prints nothing, and is reported with
one reason."""

from __future__ import annotations

import ctypes
import operator
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sanitize.core.engine import TaskResult, WorkerDied
from sanitize.engines.local import LocalEngine
from sanitize.engines.worker_process import WorkerProcess, borrow_worker, rss_mb, run_on_workers
from sanitize.errors import ResourceError
from sanitize.storage import private_folder

needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="memory limits exist only on Linux"
)


def run_and_collect(work: object, tasks: list[object], **limits: object) -> dict[int, object]:
    with borrow_worker() as worker:
        results = run_on_workers(worker, work, tasks, **limits)  # type: ignore[arg-type]
        return {
            task_no: outcome.result if isinstance(outcome, TaskResult) else outcome.reason
            for task_no, outcome in results
        }


def test_a_crash_loses_only_its_task() -> None:
    assert run_and_collect(operator.methodcaller("__call__", 3), [abs, os._exit, abs]) == {
        0: 3,
        1: "crashed",
        2: 3,
    }


def test_a_segmentation_fault_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_and_collect(operator.methodcaller("__call__", 0), [abs, ctypes.string_at, abs]) == {
        0: 0,
        1: "crashed",
        2: 0,
    }
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_hanging_task_is_ended() -> None:
    assert run_and_collect(time.sleep, [0, 60, 0], time_limit=lambda task: 1.0) == {
        0: None,
        1: "timed_out",
        2: None,
    }


@pytest.mark.slow
@needs_linux
def test_a_task_over_its_memory_limit_fails() -> None:
    assert run_and_collect(len, [b"x" * 1_000]) == {0: 1_000}
    assert run_and_collect(bytearray, [10, 1 << 33, 10], memory_bytes=256 << 20) == {
        0: bytearray(10),
        1: "memory",
        2: bytearray(10),
    }
    assert len(run_and_collect(bytearray, [300 << 20])[0]) == 300 << 20  # type: ignore[arg-type] - the limit was that task's


def test_an_error_of_a_task_is_raised_without_its_cause() -> None:
    with pytest.raises(AttributeError) as caught:
        run_and_collect(operator.attrgetter("real"), [1, "no number"])
    assert caught.value.__cause__ is None
    # the next task is not affected
    assert run_and_collect(operator.attrgetter("real"), [1]) == {0: 1}


def test_a_worker_is_reused_and_follows_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = operator.methodcaller("__call__")
    (first,) = run_and_collect(called, [os.getpid]).values()
    monkeypatch.chdir(tmp_path)
    assert run_and_collect(called, [os.getpid]) == {0: first}
    assert run_and_collect(os.path.abspath, ["x"]) == {0: str(tmp_path / "x")}
    for mask in (0o077, 0o022):
        with private_folder.set_umask(mask):
            assert run_and_collect(os.umask, [0]) == {0: mask}  # umask returns the previous mask
    assert first != os.getpid()
    os.kill(int(str(first)), signal.SIGKILL)
    time.sleep(0.05)
    assert run_and_collect(abs, [-1]) == {0: 1}  # the worker died between two tasks


def test_a_script_without_main_guard_runs_once(tmp_path: Path) -> None:
    script = (
        "import sanitize.engines.worker_process as c\nprint('once')\n"
        "child = c.WorkerProcess()\nchild.send(abs, 0, -1)\nprint(child.receive().result)"
    )
    (tmp_path / "script.py").write_text(script)
    process = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (process.stdout, process.stderr) == ("once\n1\n", "")


@needs_linux
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    script = (
        "import os, time, sanitize.engines.worker_process as c\nchild ="
        " c.WorkerProcess()\nchild.send(time.sleep, 0, 600)\nprint(child._process.pid,"
        " flush=True)\nos.kill(os.getpid(), 9)"
    )
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    pid, deadline = int(process.stdout), time.monotonic() + 20
    while (
        Path(f"/proc/{pid}").exists()
        and "zombie" not in Path(f"/proc/{pid}/status").read_text()
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text()


def test_a_worker_that_dies_twice_is_reported_with_its_task(tmp_path: Path) -> None:
    engine = LocalEngine(workers=2, spill=tmp_path)
    results: list[TaskResult] = []
    with pytest.raises(
        ResourceError,
        match=r"died twice at task 2 of 3 \(builtin_function_or_method\).*with fewer --workers",
    ):
        for result in engine.map_shards(operator.methodcaller("__call__", 3), [abs, os._exit, abs]):
            results.append(result)  # noqa: PERF402 - the results before the error are needed
    assert sorted(result.task_no for result in results) == [0, 2]  # the other tasks ended
    engine.close()
    assert not engine._workers


def test_a_task_is_retried_after_one_worker_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is retried alone: the system may have killed the worker for the memory of the
    others."""
    monkeypatch.chdir(tmp_path)
    engine = LocalEngine(workers=2, spill=tmp_path)
    results = {
        result.task_no: result.result
        for result in engine.map_shards(
            os.system, ["true", "mkdir once 2>/dev/null && kill -9 $PPID; true", "true"]
        )
    }
    engine.close()
    assert results == {0: 0, 1: 0, 2: 0} and (tmp_path / "once").is_dir()


def test_a_child_that_was_killed_can_be_killed_again() -> None:
    child = WorkerProcess()
    child.kill()
    child.send(abs, 0, -1)
    assert child.receive().result == 1
    child.kill()
    child.kill()


def test_pandas_is_not_imported() -> None:
    """In a new process, numbers become an Arrow column and a table is read whole without pandas;
    pandas can still be imported."""
    pytest.importorskip("pandas")
    code = (
        "import sys, io; from sanitize.engines.worker_process import preload_arrow_without_pandas;"
        " preload_arrow_without_pandas(); import numpy as np, pyarrow as pa, pyarrow.parquet as pq;"
        " file = io.BytesIO(); pq.write_table(pa.table([pa.array(np.arange(3))], names=['a']),"
        " file); table = pq.read_table(file); before = 'pandas' in sys.modules; print(before,"
        " table.to_pandas()['a'].sum())"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["False", "3"]


def test_pandas_works_in_a_program_that_uses_an_engine() -> None:
    """`preload_arrow_without_pandas` would break conversions from pandas in the program of a
    user."""
    pytest.importorskip("pandas")
    code = (
        "from pathlib import Path; from sanitize.engines.local import LocalEngine;"
        " LocalEngine(workers=1, spill=Path('spill')); import pandas, pyarrow;"
        " print(pyarrow.array(pandas.Series(['a', None], index=[7, 5])).to_pylist())"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "['a', None]\n"


@needs_linux
@pytest.mark.parametrize("rows", [1_000, 3_000_000])
def test_memory_of_statements_is_released_before_tasks(tmp_path: Path, rows: int) -> None:
    """DuckDB keeps a large statement's memory until its database is closed; for a small one,
    reopening is not worthwhile."""
    engine = LocalEngine(workers=1, spill=tmp_path)
    engine.scalar("SELECT 1", {})
    memory_before = rss_mb()
    engine.sql(
        f"SELECT range, count(*) AS n FROM range({rows}) GROUP BY ALL ORDER BY ALL",
        {},
        tmp_path / "grouped.parquet",
    )
    assert len(list(engine.map_shards(abs, [1]))) == 1
    assert rss_mb() - memory_before < 64
    assert (
        engine.scalar("SELECT count(*) FROM grouped", {"grouped": [tmp_path / "grouped.parquet"]})
        == rows
    )
    engine.close()


class DeadWorker(WorkerProcess):
    """A process that ends before it has received a task, as when the system reclaims its memory."""

    def start(self) -> None:
        super().start()
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def test_a_worker_that_died_before_its_task_is_reported() -> None:
    results = dict(run_on_workers([DeadWorker()], abs, [-1, -2]))  # type: ignore[arg-type]
    assert {
        task_no: outcome.reason
        for task_no, outcome in results.items()
        if isinstance(outcome, WorkerDied)
    } == {
        0: "crashed",
        1: "crashed",
    }
    terminated = WorkerProcess()
    terminated.terminate()
    with pytest.raises(WorkerDied):
        terminated.send(abs, 0, -1)
