"""What an engine has to do: map a function over shard descriptors, and run SQL over tables. Text never travels through it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sanitize.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True)
class Done:
    """What came of one task: its place in the list, its result, and what it cost."""

    place: int
    result: Any
    cpu_s: float
    peak_rss_mb: float


class Died(Exception):
    """A process that ended, hung or ran out of memory at a task: `reason` is crashed, timed_out or memory."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Engine(Protocol):
    """The verbs of an engine. A task opens its files itself; results are small.

    An engine may run a task twice at once. One that writes has `attempt(folder)`: the same task, with all that has no name yet in there.
    """

    def inside(self, tasks: int) -> bool:
        """True where so many tasks run in this process, whose costs the caller counts."""

    def map_shards(self, work: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[Done]:
        """Run `work` on every task, in any order; yields each as it ends. The first error stops the rest and is raised."""

    def map_untrusted(
        self, work: Callable[[T], Any], tasks: Sequence[T], *, seconds: Callable[[T], float], memory: int
    ) -> Iterator[tuple[int, Done | Died]]:
        """Run `work` on every task in processes that may die of it; yields (place, what came of it). A task's own error is raised."""

    def sql(self, query: str, tables: Mapping[str, Sequence[Path]], out: Path, **parameters: object) -> None:
        """Write the result of a statement over `tables` (name -> Parquet files) to the Parquet file `out`, in its order."""

    def scalar(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Any:
        """The first column of the first row of a statement over `tables`."""

    def close(self) -> None:
        """Give everything back. An engine is used once."""


def size_of(text: str) -> int | None:
    """The bytes that a size such as 500MB or 1.5GB says; None for what is none."""
    said = re.fullmatch(r"([1-9][0-9]*(?:\.[0-9]+)?) ?([KMGT])i?B", text)
    return int(float(said[1]) * 1024 ** ("KMGT".index(said[2]) + 1)) if said else None


def bytes_of(memory_limit: str) -> int:
    """The bytes of a memory limit as it is given. UsageError for what is no size."""
    if re.fullmatch(r"[1-9][0-9]*(?:\.[0-9]+)? ?%", memory_limit):
        return 1 << 30  # DuckDB's alone is a share of the machine
    size = size_of(memory_limit)
    if size is None:
        raise UsageError(f"--memory-limit {memory_limit}: expected a size such as 500MB or 4GB")
    return size


_PARTS = ("worker_process", "spark_dialect", "spark_session")  # what engines are made of


def engine_names() -> list[str]:
    """The names of the engines there are."""
    package = importlib.import_module("sanitize.engines")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name not in _PARTS)
