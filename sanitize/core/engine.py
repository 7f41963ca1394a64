"""The protocol `Engine`: maps a function over shard descriptors and runs SQL over tables. Texts are
never sent through an engine.

Also parses sizes and memory limits, lists the engines that exist (the modules of sanitize/engines),
and has the caches of tasks (`cached_for_run`), which a closed engine leaves empty.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class TaskResult:
    """The result of one task: its index in the task list, the return value, CPU seconds and peak
    memory of its process in MB."""

    task_no: int
    result: Any
    cpu_s: float
    peak_rss_mb: float


class WorkerDied(Exception):
    """Why a task has no result: its worker process ended (`reason` crashed), hung (timed_out) or
    ran out of memory (memory).

    `Engine.map_untrusted` yields it in place of the result."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@runtime_checkable
class AttemptableTask(Protocol):
    """A task that writes files, which an engine may run twice at the same time."""

    def for_attempt(self, folder: Path) -> Any:
        """The same task with all its temporary files in `folder`."""


class Engine(Protocol):
    """Runs tasks and SQL queries over Parquet files, on this machine or on Spark. Tasks name files
    and open them themselves; only small results come back. An engine may run two attempts of one
    task at the same time, each with `for_attempt` if the task has it.
    """

    def runs_in_process(self, task_count: int) -> bool:
        """True if `task_count` tasks run in the calling process, so that the caller accounts for
        their costs."""

    def map_shards(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[TaskResult]:
        """Runs `function` on every task, in any order; yields each result as its task ends. The
        first error stops all and is raised."""

    def map_untrusted(
        self,
        function: Callable[[T], Any],
        tasks: Sequence[T],
        *,
        time_limit: Callable[[T], float],
        memory_bytes: int,
    ) -> Iterator[tuple[int, TaskResult | WorkerDied]]:
        """Runs `function` on every task in child processes that may crash, with limits on seconds
        (`time_limit` of the task) and memory.

        Yields (index of the task, its result or why its worker died). An exception that the task
        itself raises is raised.
        """

    def sql(
        self, query: str, tables: Mapping[str, Sequence[Path]], out: Path, **parameters: object
    ) -> None:
        """Writes the rows of a SQL query over `tables` (name -> Parquet files) to the Parquet file
        `out`, in the order of the query."""

    def scalar(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Any:
        """The first column of the first row of a SQL query over `tables`."""

    def close(self) -> None:
        """Releases all processes and files. An engine cannot be used after that."""


# modules of sanitize/engines that are not engines themselves
_NON_ENGINE_MODULES = (
    "worker_process",
    "task_runner",
    "spark_dialect",
    "spark_session",
    "memory_limits",
)


def engine_names() -> list[str]:
    """The names of all engines, sorted: the modules of sanitize/engines that implement `Engine`."""
    package = importlib.import_module("sanitize.engines")
    return sorted(
        module.name
        for module in pkgutil.iter_modules(package.__path__)
        if module.name not in _NON_ENGINE_MODULES
    )


_cached_functions: list[Any] = []


def cached_for_run(maxsize: int) -> Callable[[F], F]:
    """Like `functools.lru_cache(maxsize)`, until an engine of this process is closed: for what
    tasks read from the files of a run.

    These are values of the corpus, search terms and keys, some as mappings of files that are
    deleted at the end of the run. A program that uses the library would keep them, and the disk
    space of these files, until it ends or runs again.
    """

    def decorate(function: F) -> F:
        cached: Any = functools.lru_cache(maxsize=maxsize)(function)
        _cached_functions.append(cached)
        return cached  # type: ignore[no-any-return]

    return decorate


def clear_run_caches() -> None:
    """Empty the caches of `cached_for_run`. A run in another thread reads its files again."""
    for function in _cached_functions:
        function.cache_clear()
