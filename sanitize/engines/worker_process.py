"""Worker processes that run one task at a time and may die of it: a crash, a hang or too much
memory costs only that task.

Why not `multiprocessing`: a pool cannot tell which task broke it, a spawned worker imports the
user's script again, and the output of a crashing library would reach the terminal. A worker is a
plain interpreter with our module path and a socket; it prints nothing and ends with its parent. A
new worker answers after about 0.15 s; a task costs 0.2 ms.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, TypeVar

from sanitize.core import failpoints
from sanitize.core.engine import TaskResult, WorkerDied

_TRIM_ABOVE_MB = 700  # a process above this size returns free memory to the system after every task
_TASKS_AHEAD = 2  # that are taken for each worker before the result of the first is used
_IDLE_BEFORE_TRIM_S = 0.05  # seconds to wait for the next task before free memory is returned
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")
_BOOTSTRAP_CODE = (
    "import sys; sys.path[:] = sys.argv[3:]; from sanitize.engines.worker_process import"
    " serve_tasks; serve_tasks(int(sys.argv[1]), int(sys.argv[2]))"
)


class WorkerProcess:
    """One child process. It is started when a task is sent, and restarted after it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.connection: Connection[Any, Any] | None = None
        self._is_ready = False
        self.task_no = -1
        self.deadline = float("inf")
        self.written_bytes = 0  # by the task, when its time last began
        self._is_terminated = False

    def start(self) -> None:
        """Starts the process if it does not run; it is ready a little later."""
        if self._is_terminated:
            raise WorkerDied("crashed")
        if self.connection is not None:
            return
        parent_socket, child_socket = socket.socketpair()
        with child_socket:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [
                    sys.executable,
                    "-c",
                    _BOOTSTRAP_CODE,
                    str(child_socket.fileno()),
                    str(os.getpid()),
                    *sys.path,
                ],
                pass_fds=[child_socket.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "POLARS_MAX_THREADS": "1"},
            )
        self.connection = Connection(parent_socket.detach())
        self._is_ready = False

    def send(
        self,
        function: Callable[[Any], Any],
        task_no: int,
        task: Any,
        *,
        time_limit: float = float("inf"),
        memory_bytes: int | None = None,
        umask: int | None = None,
    ) -> None:
        """Sends a task. It may take `time_limit` seconds of wall time and `memory_bytes` of address
        space beyond what the process has.

        Files that the task creates get `umask`; the default is the umask of this process, which
        only the thread that creates files may query. Raises WorkerDied where the process ends twice
        before it has received the task.
        """
        if umask is None:
            umask = os.umask(0o077)
            os.umask(umask)  # the umask can only be read by setting it
        message = pickle.dumps((function, task_no, task, memory_bytes, os.getcwd(), umask))
        try:
            self._send_message(message)
        except (OSError, EOFError):  # it died while it was idle
            self.kill()
            try:
                self._send_message(message)
            except (OSError, EOFError):
                self.kill()
                raise WorkerDied("crashed") from None
        self.task_no, self.deadline, self.written_bytes = task_no, time.monotonic() + time_limit, 0

    def _send_message(self, message: bytes) -> None:
        self.start()
        assert self.connection is not None
        if not self._is_ready:  # the time to start does not count as the task's
            self.connection.recv_bytes()
            self._is_ready = True
        self.connection.send_bytes(message)

    def receive(self) -> TaskResult:
        """The result of the task; its own error is raised. Raises WorkerDied where the process
        ended or ran out of memory."""
        assert self.connection is not None
        try:
            answer: TaskResult | BaseException = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            self.kill()
            raise WorkerDied("crashed") from None
        if isinstance(answer, MemoryError):
            self.kill()  # a process that ran out of memory is not used again
            raise WorkerDied("memory") from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def terminate(self) -> None:
        """Ends the process for good while another thread may wait for its answer; that thread gets
        WorkerDied."""
        self._is_terminated = True
        if (process := self._process) is not None:
            process.kill()

    def kill(self) -> None:
        """Kills the process at once and closes its connection."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self.connection is not None:
            self.connection.close()
        self._process = self.connection = None


def run_on_workers(
    workers: Sequence[WorkerProcess],
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    *,
    time_limit: Callable[[Any], float] = lambda task: float("inf"),
    memory_bytes: int | None = None,
) -> Iterator[tuple[int, TaskResult | WorkerDied]]:
    """(task number, result or WorkerDied) for every task, as each ends. A task's own error is
    raised; workers still busy then are killed. A task that has written to its folder when its time
    is over gets the same time again.
    """
    idle, busy = list(workers), dict[Any, WorkerProcess]()
    for worker in idle[: len(tasks)]:
        worker.start()  # in parallel: they become ready later
    queue = iter(enumerate(tasks))
    try:
        while True:
            while idle and (entry := next(queue, None)) is not None:
                worker = idle.pop()
                try:
                    worker.send(
                        function, *entry, time_limit=time_limit(entry[1]), memory_bytes=memory_bytes
                    )
                except WorkerDied as died:
                    idle.append(worker)
                    yield entry[0], died
                    continue
                busy[worker.connection] = worker
            if not busy:
                return
            seconds_left = min(worker.deadline for worker in busy.values()) - time.monotonic()
            ready = wait(
                list(busy), None if seconds_left == float("inf") else max(seconds_left, 0.0)
            )
            ended = [busy.pop(connection) for connection in ready]
            for worker in ended:
                idle.append(worker)
                try:
                    outcome: TaskResult | WorkerDied = worker.receive()
                except WorkerDied as died:
                    outcome = died
                yield worker.task_no, outcome
            now = time.monotonic()
            for connection, worker in [pair for pair in busy.items() if pair[1].deadline <= now]:
                if (written := _count_written_bytes(tasks[worker.task_no])) > worker.written_bytes:
                    worker.deadline, worker.written_bytes = (
                        now + time_limit(tasks[worker.task_no]),
                        written,
                    )
                    continue
                del busy[connection]
                worker.kill()
                idle.append(worker)
                yield worker.task_no, WorkerDied("timed_out")
    finally:
        for worker in busy.values():
            worker.kill()


def map_ahead(
    function: Callable[[T], R], tasks: Iterable[tuple[C, T]], *, workers: int
) -> Iterator[tuple[C, R]]:
    """(what came with a task, its result) for every task, in order. While the caller uses one
    result, as many worker processes do the next tasks, and two more each are taken from `tasks`; a
    single worker is this process. The processes end with the iterator. Raises WorkerDied, and the
    errors of tasks."""
    if workers == 1:
        for given, task in tasks:
            yield given, function(task)
        return
    processes, idle = [WorkerProcess() for _ in range(workers)], SimpleQueue[WorkerProcess]()
    for process in processes:
        idle.put(process)

    def run(task: T) -> R:
        process = idle.get()
        try:
            process.send(function, 0, task, umask=0o077)
            result: R = process.receive().result
            return result
        finally:
            idle.put(process)

    threads = ThreadPoolExecutor(workers, "ahead")
    waiting: deque[tuple[C, Future[R]]] = deque()
    try:
        for given, task in tasks:
            waiting.append((given, threads.submit(run, task)))
            if len(waiting) > _TASKS_AHEAD * workers:
                given, future = waiting.popleft()
                yield given, future.result()
        while waiting:
            given, future = waiting.popleft()
            yield given, future.result()
    finally:
        # at once, even if they are busy
        threads.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        threads.shutdown()
        for process in processes:
            process.kill()


def _count_written_bytes(task: object) -> int:
    """The bytes that a task has written to its folder so far; 0 for a task without one."""
    folder = getattr(getattr(task, "task", task), "folder", None)
    total = 0
    with contextlib.suppress(OSError, TypeError):
        for entry in os.scandir(folder):
            total += entry.stat().st_size
    return total


_idle_workers: list[WorkerProcess] = []


@contextlib.contextmanager
def borrow_worker() -> Iterator[list[WorkerProcess]]:
    """A worker that is kept for the next caller: many small runs in one process then pay for one
    start."""
    worker = _idle_workers.pop() if _idle_workers else WorkerProcess()
    try:
        yield [worker]
    finally:
        if _idle_workers:
            worker.kill()
        else:
            _idle_workers.append(worker)


@atexit.register
def _kill_idle_workers() -> None:
    while _idle_workers:
        _idle_workers.pop().kill()


# ---- inside the child ----


def serve_tasks(socket_fd: int, parent_pid: int) -> None:
    """The loop of a child process: runs tasks and sends answers until the parent closes the
    socket."""
    connection = Connection(socket_fd)
    _initialize(parent_pid)
    connection.send_bytes(b"")
    while True:
        try:
            if not connection.poll(_IDLE_BEFORE_TRIM_S):
                trim_memory()  # no further task of this stage follows soon
            message = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(_run_message(message))


def _run_message(message: bytes) -> bytes:
    def attempt() -> TaskResult:
        function, task_no, task, memory_bytes, folder, umask = pickle.loads(message)
        # the parent may have changed its folder since the child was started, and paths may be
        # relative
        os.chdir(folder)
        os.umask(umask)  # the parent may have changed its umask too, to create private files
        with (
            limit_memory(memory_bytes),
            failpoints.disabled() if memory_bytes is not None else contextlib.nullcontext(),
        ):
            return run_measured(function, task_no, task)

    return pickle_outcome(attempt)


def pickle_outcome(run: Callable[[], TaskResult | WorkerDied], task_label: str = "") -> bytes:
    """The result of `run`, or the error it raises without its frames, pickled. `task_label` names
    the task where that cannot be pickled."""
    answer: TaskResult | WorkerDied | BaseException
    try:
        answer = run()
    except Exception as error:
        answer = error.with_traceback(None)
        answer.__context__ = answer.__cause__ = None
    try:
        return pickle.dumps(answer)
    except Exception:
        return pickle.dumps(
            RuntimeError(f"a {type(answer).__name__}{task_label} that cannot be passed on")
        )


def _initialize(parent_pid: int) -> None:
    """Prepares a child: it ignores signals, since the parent ends its children, and ends when the
    parent ends in any way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold documents
    gc.set_threshold(50_000, 20, 20)  # as in `cli.main`
    tune_malloc()
    preload_arrow_without_pandas()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent_pid:
                os._exit(1)


@contextlib.contextmanager
def limit_memory(memory_bytes: int | None) -> Iterator[None]:
    """Limits the process to `memory_bytes` beyond what it has (Linux): an allocation above that
    fails instead of filling the machine."""
    if memory_bytes is None or sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", "rb") as file:
        current_bytes = int(file.read().split()[0]) * resource.getpagesize()
    limit_bytes = current_bytes + memory_bytes
    resource.setrlimit(
        resource.RLIMIT_AS,
        (limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard), hard),
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run_measured(function: Callable[[Any], Any], task_no: int, task: Any) -> TaskResult:
    """The result of a task, with the CPU time and peak memory of this process."""
    cpu_before = time.process_time()
    result = function(task)
    if rss_mb() > _TRIM_ABOVE_MB:
        trim_memory()
    return TaskResult(task_no, result, time.process_time() - cpu_before, peak_rss_mb())


def peak_rss_mb() -> float:
    """The largest resident size of this process so far, in MB."""
    with (
        contextlib.suppress(OSError, StopIteration),
        open("/proc/self/status", encoding="ascii") as file,
    ):
        # not ru_maxrss: a process inherits it from the process that started it
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rss_mb() -> float:
    """The resident size of this process now, in MB; 0 where it is not available."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / (1 << 20)
    return 0.0


def tune_malloc() -> None:
    """Keeps large blocks in one heap for all threads instead of mapping each again: large
    temporaries come and go, and the first touch of memory costs the system a sixth of a run.

    This applies to numpy, and to Arrow where the environment selects the system allocator
    (`cli.main` sets it, and the setting for Polars): call it before they are loaded.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            for option, value in (
                (-4, 0),
                (-1, 1 << 30),
                (-2, 16 << 20),
                (-8, 1),
            ):
                # no mmap, trim threshold, top pad, one arena
                mallopt(option, value)


class _PandasBlocker:
    """An import hook that reports pandas as not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def preload_arrow_without_pandas() -> None:
    """Keeps Arrow from importing pandas at the first array made of numbers and at the first table
    that is read whole (`pyarrow.dataset`), which costs half a second and 40 MB in every process.

    Arrow looks for pandas in these two places and remembers that it is absent. Conversions to
    pandas still work later, those from pandas do not: only for processes of which all code is ours.
    """
    if "pandas" in sys.modules:
        return
    blocker = _PandasBlocker()
    sys.meta_path.insert(0, blocker)
    try:
        import numpy as np
        import pyarrow as pa
        import pyarrow.dataset

        pa.array(np.zeros(1))
    finally:
        sys.meta_path.remove(blocker)


def trim_memory() -> None:
    """Returns unused memory to the system. Called between stages; the tasks of one stage reuse the
    memory of the task before."""
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
