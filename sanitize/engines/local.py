"""The engine of one machine: spawned worker processes for shards, DuckDB with a memory limit and a
spill folder for SQL.

With one worker the tasks run in this process, which saves the start-up of a worker on small
corpora. Each worker has one compute thread; more workers use more cores.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sanitize.core.engine import TaskResult, WorkerDied, clear_run_caches
from sanitize.engines.worker_process import (
    WorkerProcess,
    borrow_worker,
    preload_arrow_without_pandas,
    rss_mb,
    run_measured,
    run_on_workers,
    trim_memory,
    tune_malloc,
)
from sanitize.errors import ResourceError, running_command_line
from sanitize.kinds.kind import with_custom_kinds
from sanitize.storage.disk_errors import get_disk_errno, make_disk_error
from sanitize.storage.parquet_files import TABLE_CODEC, TABLE_CODEC_LEVEL
from sanitize.storage.views.sql_text import quote_literal, quote_name, read_parquet_expression

T = TypeVar("T")
# MB that statements may add to this process before the database is closed and reopened (30 ms)
_REOPEN_ABOVE_MB = 64


class LocalEngine:
    """Worker processes and DuckDB on this machine."""

    def __init__(self, *, workers: int, spill: Path, memory_limit: str = "1GB") -> None:
        self.workers, self.spill, self.memory_limit = max(1, workers), spill, memory_limit
        self._workers: list[WorkerProcess] = []
        self._connection: Any = None
        self._growth_mb = 0.0  # MB that statements added to this process
        if running_command_line.get():  # not in a program of the user, which may use pandas itself
            preload_arrow_without_pandas()

    def runs_in_process(self, task_count: int) -> bool:
        """True where this number of tasks runs in this process, without workers."""
        return self.workers == 1 or task_count <= 1

    def map_shards(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[TaskResult]:
        """Runs `function` on every task; yields each result as the task ends. A task whose worker
        dies is retried once, alone and in a new worker.
        """
        function = with_custom_kinds(function)
        if self._growth_mb > _REOPEN_ABOVE_MB:
            # DuckDB keeps the memory of its statements until its database is closed
            self._close_database()
        if self.runs_in_process(len(tasks)):
            tune_malloc()
            trim_memory()  # the SQL statements since the last tasks left a fragmented heap
            for task_no, task in enumerate(tasks):
                yield run_measured(function, task_no, task)
            trim_memory()
            return
        died_task_nos: list[int] = []
        for task_no, outcome in run_on_workers(self._start_workers(len(tasks)), function, tasks):
            if isinstance(outcome, TaskResult):
                yield outcome
            else:
                died_task_nos.append(task_no)
        for task_no in died_task_nos:
            for _, outcome in run_on_workers(self._start_workers(1), function, [tasks[task_no]]):
                if isinstance(outcome, WorkerDied):
                    raise ResourceError(
                        f"a worker died twice at task {task_no + 1} of {len(tasks)}"
                        f" ({describe_task(tasks[task_no])}); the system may have killed it for"
                        " using too much memory. Run the same command again to continue from here,"
                        " with fewer --workers"
                    )
                yield dataclasses.replace(outcome, task_no=task_no)

    def map_untrusted(
        self,
        function: Callable[[T], Any],
        tasks: Sequence[T],
        *,
        time_limit: Callable[[T], float],
        memory_bytes: int,
    ) -> Iterator[tuple[int, TaskResult | WorkerDied]]:
        """Runs `function` on every task in processes that may die; yields (task number, result or
        WorkerDied) as each task ends.

        Each task has `time_limit(task)` seconds of wall time and `memory_bytes` bytes beyond what
        its process uses at rest.
        """
        if self.runs_in_process(len(tasks)):
            with borrow_worker() as workers:
                yield from run_on_workers(
                    workers, function, tasks, time_limit=time_limit, memory_bytes=memory_bytes
                )
        else:
            yield from run_on_workers(
                self._start_workers(len(tasks)),
                function,
                tasks,
                time_limit=time_limit,
                memory_bytes=memory_bytes,
            )

    def _start_workers(self, task_count: int) -> list[WorkerProcess]:
        """The workers for this number of tasks, at most `self.workers`; more are created if
        necessary."""
        wanted = min(self.workers, task_count)
        self._workers += [WorkerProcess() for _ in range(wanted - len(self._workers))]
        return self._workers[:wanted]

    def sql(
        self, query: str, tables: Mapping[str, Sequence[Path]], out: Path, **parameters: object
    ) -> None:
        """Writes the result of a query to the Parquet file `out`, in the order of the query."""
        with self._open_session(tables) as database:
            options = (
                f"FORMAT parquet, COMPRESSION {TABLE_CODEC}, COMPRESSION_LEVEL {TABLE_CODEC_LEVEL},"
                " ROW_GROUP_SIZE 65536"
            )
            database.execute(
                f"COPY ({_strip_semicolon(query)}) TO {quote_literal(str(out))} ({options})",
                parameters or None,
            )

    def scalar(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Any:
        """The first column of the first row of a query's result; None where it has no row."""
        with self._open_session(tables) as database:
            row = database.execute(_strip_semicolon(query), parameters or None).fetchone()
            return None if row is None else row[0]

    def close(self) -> None:
        """Kills the workers, closes the database and empties the caches. Unfinished tasks are done
        again by the next run."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
        self._close_database()
        clear_run_caches()

    def _close_database(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection, self._growth_mb = None, 0.0

    @contextlib.contextmanager
    def _open_session(self, tables: Mapping[str, Sequence[Path]]) -> Iterator[Any]:
        """A session with the given tables as its views. All sessions share one database, since
        opening one costs 30 ms."""
        import duckdb

        trim_memory()  # DuckDB's memory adds to the heap of this process
        self.spill.mkdir(parents=True, exist_ok=True)
        if self._connection is None:
            self._connection = duckdb.connect(":memory:")
            self._connection.execute(f"SET temp_directory = {quote_literal(str(self.spill))}")
            self._connection.execute(f"SET memory_limit = {quote_literal(self.memory_limit)}")
            self._connection.execute(f"SET threads = {self.workers}")
            self._connection.execute("SET autoinstall_known_extensions = false")
            # statements do not read the same files again
            self._connection.execute("SET enable_external_file_cache = false")
        database, rss_before_mb = self._connection.cursor(), rss_mb()
        try:
            database.execute("SET TimeZone = 'UTC'")
            for name, files in tables.items():
                source = read_parquet_expression([str(file) for file in files])
                database.execute(f"CREATE TEMP VIEW {quote_name(name)} AS SELECT * FROM {source}")  # noqa: S608
            yield database
        except duckdb.OutOfMemoryException:
            raise ResourceError(
                f"DuckDB needs more memory than {self.memory_limit}; raise --memory-limit"
            ) from None
        except (duckdb.Error, RuntimeError) as error:
            if type(error) is RuntimeError and "interrupted" in str(error):
                # DuckDB reports a signal during a query as this error
                raise KeyboardInterrupt from None
            # its messages may quote values: report only the type of the error, or that the disk
            # failed
            if (disk_errno := get_disk_errno(error)) is not None:
                raise make_disk_error(self.spill.parent, disk_errno) from None
            raise ResourceError(
                f"DuckDB failed at a query ({type(error).__name__}); if the disk is not full, this"
                " is an internal error, please report it"
            ) from None
        finally:
            database.close()
            self._growth_mb += rss_mb() - rss_before_mb


def describe_task(task: object) -> str:
    """A task in words, for messages: its `description`, or the name of its type. Never a value of
    the data."""
    return str(getattr(task, "description", None) or type(task).__name__)


def _strip_semicolon(query: str) -> str:
    return query.strip().rstrip(";")
