"""Spawned processes that do one task at a time and may die of it: a crash, a hang or too much memory costs that task and no other.

Not `multiprocessing`: a pool cannot say which task broke it, a spawned worker imports the user's script again, and what a dying library
prints would reach the terminal. A child is a plain interpreter with our module path and a socket, silent, that ends with its parent.
A fresh one answers after about 0.15 s; a task costs 0.2 ms.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from sanitize.core import failpoints
from sanitize.core.engine import Died, Done

_LARGE = 700  # MB: a process above it gives back what is free after every task
_SOON = 0.05  # seconds after a task within which the next of its stage comes
_SERVE = (
    "import sys; sys.path[:] = sys.argv[3:]; from sanitize.engines.worker_process import serve; serve(int(sys.argv[1]), int(sys.argv[2]))"
)


class Child:
    """One process. It is started when a task is sent, and again after it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.connection: Connection[Any, Any] | None = None
        self._ready = False
        self.place = -1
        self.deadline = float("inf")
        self._over = False

    def start(self) -> None:
        """Begin the process, if there is none; it answers a little later."""
        if self._over:
            raise Died("crashed")
        if self.connection is not None:
            return
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-c", _SERVE, str(there.fileno()), str(os.getpid()), *sys.path],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "POLARS_MAX_THREADS": "1"},
            )
        self.connection = Connection(here.detach())
        self._ready = False

    def send(
        self,
        work: Callable[[Any], Any],
        place: int,
        task: Any,
        *,
        seconds: float = float("inf"),
        memory: int | None = None,
        mask: int | None = None,
    ) -> None:
        """Begin a task. `seconds` of wall time and `memory` bytes of address space beyond what it has are all it gets; its files lack the
        bits of `mask`, by default those that ours lack (which only the one thread may ask that makes files). `Died` where the process
        ends before it has it, twice."""
        if mask is None:
            mask = os.umask(0o077)
            os.umask(mask)  # there is no other way to ask for it
        message = pickle.dumps((work, place, task, memory, os.getcwd(), mask))
        try:
            self._say(message)
        except (OSError, EOFError):  # it died while nobody was looking
            self.kill()
            try:
                self._say(message)
            except (OSError, EOFError):
                self.kill()
                raise Died("crashed") from None
        self.place, self.deadline = place, time.monotonic() + seconds

    def _say(self, message: bytes) -> None:
        self.start()
        assert self.connection is not None
        if not self._ready:  # what it takes to start is not the task's time
            self.connection.recv_bytes()
            self._ready = True
        self.connection.send_bytes(message)

    def receive(self) -> Done:
        """What came of the task: `Died` where the process ended or had too little memory, else the task's own error or its result."""
        assert self.connection is not None
        try:
            answer: Done | BaseException = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            self.kill()
            raise Died("crashed") from None
        if isinstance(answer, MemoryError):
            self.kill()  # a heap that was filled to the brim is not used again
            raise Died("memory") from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def stop(self) -> None:
        """End the process for good where another thread may be waiting for its answer: that is then told that it died."""
        self._over = True
        if (process := self._process) is not None:
            process.kill()

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self.connection is not None:
            self.connection.close()
        self._process = self.connection = None


def spread(
    children: Sequence[Child],
    work: Callable[[Any], Any],
    tasks: Sequence[Any],
    *,
    seconds: Callable[[Any], float] = lambda task: float("inf"),
    memory: int | None = None,
) -> Iterator[tuple[int, Done | Died]]:
    """(place, what came of it) for every task, as each ends. A task's own error is raised; children still at work then are ended."""
    idle, busy = list(children), dict[Any, Child]()
    for child in idle[: len(tasks)]:
        child.start()  # all at once
    queue = iter(enumerate(tasks))
    try:
        while True:
            while idle and (entry := next(queue, None)) is not None:
                child = idle.pop()
                try:
                    child.send(work, *entry, seconds=seconds(entry[1]), memory=memory)
                except Died as died:
                    idle.append(child)
                    yield entry[0], died
                    continue
                busy[child.connection] = child
            if not busy:
                return
            left = min(child.deadline for child in busy.values()) - time.monotonic()
            ready = wait(list(busy), None if left == float("inf") else max(left, 0.0))
            ended = [busy.pop(connection) for connection in ready]
            for child in ended:
                idle.append(child)
                try:
                    outcome: Done | Died = child.receive()
                except Died as died:
                    outcome = died
                yield child.place, outcome
            now = time.monotonic()
            for connection, child in [pair for pair in busy.items() if pair[1].deadline <= now]:
                del busy[connection]
                child.kill()
                idle.append(child)
                yield child.place, Died("timed_out")
    finally:
        for child in busy.values():
            child.kill()


_spare: list[Child] = []


@contextlib.contextmanager
def borrowed() -> Iterator[list[Child]]:
    """A child for readers, kept for the next one: many small runs in one process then cost one start."""
    child = _spare.pop() if _spare else Child()
    try:
        yield [child]
    finally:
        if _spare:
            child.kill()
        else:
            _spare.append(child)


@atexit.register
def _end() -> None:
    while _spare:
        _spare.pop().kill()


# ---- inside the child ----


def serve(handle: int, parent: int) -> None:
    """Take tasks and give answers until the other side is closed."""
    connection = Connection(handle)
    _begin(parent)
    connection.send_bytes(b"")
    while True:
        try:
            if not connection.poll(_SOON):
                release()  # what comes next is not more of the same
            message = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(_answer(message))


def _answer(message: bytes) -> bytes:
    def attempt() -> Done:
        work, place, task, memory, folder, mask = pickle.loads(message)
        os.chdir(folder)  # the parent may have moved since the child was made, and paths may be relative
        os.umask(mask)  # ... and be making files that are for nobody else
        with limited(memory), failpoints.asleep() if memory is not None else contextlib.nullcontext():
            return measured(work, place, task)

    return packed(attempt)


def packed(attempt: Callable[[], Done | Died], of: str = "") -> bytes:
    """The answer that `attempt` gives, or the error it raises without its frames, pickled; `of` names the task of one that cannot be."""
    answer: Done | Died | BaseException
    try:
        answer = attempt()
    except Exception as error:
        answer = error.with_traceback(None)
        answer.__context__ = answer.__cause__ = None
    try:
        return pickle.dumps(answer)
    except Exception:
        return pickle.dumps(RuntimeError(f"a {type(answer).__name__}{of} that cannot be passed on"))


def _begin(parent: int) -> None:
    """A child's first act: leave signals to the parent, which ends its children, and end with it however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold documents
    steady()
    spared()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:
                os._exit(1)


@contextlib.contextmanager
def limited(memory: int | None) -> Iterator[None]:
    """No more than `memory` bytes beyond what the process has (Linux): an allocation above that fails instead of filling the machine."""
    if memory is None or sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", "rb") as file:
        there = int(file.read().split()[0]) * resource.getpagesize()
    wanted = there + memory
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def measured(work: Callable[[Any], Any], place: int, task: Any) -> Done:
    """The result of a task with what it cost this process."""
    began = time.process_time()
    result = work(task)
    if resident_mb() > _LARGE:
        release()
    return Done(place, result, time.process_time() - began, peak_mb())


def peak_mb() -> float:
    """The largest resident size of this process so far, in MB."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/self/status", encoding="ascii") as file:
        # not ru_maxrss: a process inherits that of the one that started it
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mb() -> float:
    """The resident size of this process now, in MB; 0 where that cannot be had."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / (1 << 20)
    return 0.0


def steady() -> None:
    """Keep large blocks in one heap for all threads instead of mapping each anew: large temporaries come and go, and a first touch of
    memory costs the system a sixth of a run.

    This is for numpy, and for Arrow where the environment says so, as it says what Polars keeps (`cli.main`): before they are loaded.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            for option, value in ((-4, 0), (-1, 1 << 30), (-2, 16 << 20), (-8, 1)):  # no mmap, trim threshold, top pad, one arena
                mallopt(option, value)


class _Away:
    """An importer that says of pandas that it is not there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def spared() -> None:
    """Keep Arrow from loading pandas at the first array that is made of numbers, and at the first table that is read whole
    (`pyarrow.dataset`): half a second and 40 MB in every process.

    It looks for pandas in these two places, and takes it as absent when it is asked in passing; whoever converts to pandas later still can.
    """
    if "pandas" in sys.modules:
        return
    away = _Away()
    sys.meta_path.insert(0, away)
    try:
        import numpy as np
        import pyarrow as pa
        import pyarrow.dataset

        pa.array(np.zeros(1))
    finally:
        sys.meta_path.remove(away)


def release() -> None:
    """Memory that nobody holds goes back. Between stages, so that the next one begins small; the tasks of one take over what the one before
    had."""
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
