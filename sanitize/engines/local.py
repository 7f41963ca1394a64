"""The engine of one machine: spawned workers over shards, DuckDB with a memory limit and a spill folder.

With one worker the tasks run in this process: a small corpus then costs no start-up. Each worker has one compute thread; the machine
is filled by workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

from sanitize.disk import code_of, failed
from sanitize.engines.engine import Done
from sanitize.errors import ResourceError

T = TypeVar("T")


class Local:
    """Spawned workers and DuckDB on this machine."""

    def __init__(self, *, workers: int, spill: Path, memory_limit: str = "1GB") -> None:
        self.workers, self.spill, self.memory_limit = max(1, workers), spill, memory_limit
        self._pool: ProcessPoolExecutor | None = None

    def map_shards(self, work: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[Done]:
        """Run `work` on every task; yields each as it ends."""
        if self.workers == 1 or len(tasks) <= 1:
            steady()
            for place, task in enumerate(tasks):
                yield _measured(work, (place, task))
            return
        if self._pool is None:
            os.environ["POLARS_MAX_THREADS"] = "1"
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),))
        waiting: set[Future[Done]] = set()
        queue = iter(enumerate(tasks))
        try:
            while True:
                # a few ahead of the workers, so that a long list of tasks does not lie in the pipe
                while len(waiting) < self.workers + 1 and (entry := next(queue, None)) is not None:
                    with _signals_later():
                        waiting.add(self._pool.submit(_measured, work, entry))
                if not waiting:
                    return
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield future.result()
        except BrokenProcessPool:
            raise ResourceError(
                "a worker died without a word; the system may have ended it for its memory. "
                "Run the same command again to go on, with fewer --workers"
            ) from None
        finally:
            for future in waiting:
                future.cancel()

    def sql(self, query: str, tables: Mapping[str, Sequence[Path]], out: Path, **parameters: object) -> None:
        """Write the result of a statement to `out`, in its order."""
        with self._database(tables) as database:
            database.execute(
                f"COPY ({_statement(query)}) TO {_literal(str(out))} (FORMAT parquet, COMPRESSION lz4, ROW_GROUP_SIZE 65536)",
                parameters or None,
            )

    def scalar(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Any:
        """The first column of the first row."""
        with self._database(tables) as database:
            row = database.execute(_statement(query), parameters or None).fetchone()
            return None if row is None else row[0]

    def close(self) -> None:
        """End the workers: those without a task at once, one that is at work after a second. None is left behind."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for patience in (1.0, 3.0):
            deadline = time.monotonic() + patience
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))
            for process in processes:
                if process.is_alive():
                    process.kill()

    @contextlib.contextmanager
    def _database(self, tables: Mapping[str, Sequence[Path]]) -> Iterator[Any]:
        import duckdb

        self.spill.mkdir(parents=True, exist_ok=True)
        database = duckdb.connect(":memory:")
        try:
            database.execute(f"SET temp_directory = {_literal(str(self.spill))}")
            database.execute(f"SET memory_limit = {_literal(self.memory_limit)}")
            database.execute(f"SET threads = {self.workers}")
            database.execute("SET TimeZone = 'UTC'")
            database.execute("SET autoinstall_known_extensions = false")
            for name, files in tables.items():
                listed = ", ".join(_literal(_unglobbed(str(file))) for file in files)
                database.execute(f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet([{listed}], hive_partitioning = false)')  # noqa: S608
            yield database
        except duckdb.OutOfMemoryException:
            raise ResourceError(f"DuckDB needs more than {self.memory_limit}; give --memory-limit more") from None
        except (duckdb.Error, RuntimeError) as error:
            if type(error) is RuntimeError and "interrupted" in str(error):
                raise KeyboardInterrupt from None  # a signal came in the middle of a query, and this is all that DuckDB makes of it
            # its messages may quote values: only the kind of error is told, or that the disk failed
            if (code := code_of(error)) is not None:
                raise failed(self.spill.parent, code) from None
            raise ResourceError(f"the engine could not count ({type(error).__name__}); if the disk is not full, this is a bug") from None
        finally:
            database.close()


def steady() -> None:
    """Keep large blocks in the heap instead of mapping each anew: large temporaries come and go, and page faults cost a tenth.

    This is for numpy; what the allocators of Arrow and Polars are told stands in the environment (`cli.main`), before they are loaded.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            for option, value in ((-4, 0), (-1, 1 << 30), (-2, 16 << 20)):  # no mmap, trim threshold, top pad
                mallopt(option, value)


def release() -> None:
    """Between tasks, memory that nobody holds goes back: the next stage begins small."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Hold back signals while workers may be spawned: these then never see one, not even before `_begin`; this process sees it after."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int) -> None:
    """A worker's first act: leave signals to the parent, which ends its workers, and end with it however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    steady()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:
                os._exit(1)


def _measured(work: Callable[[Any], Any], entry: tuple[int, Any]) -> Done:
    place, task = entry
    began = time.process_time()
    result = work(task)
    release()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Done(place, result, time.process_time() - began, peak)


def _statement(query: str) -> str:
    return query.strip().rstrip(";")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unglobbed(path: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)
