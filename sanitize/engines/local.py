"""The engine of one machine: spawned workers over shards, DuckDB with a memory limit and a spill folder.

With one worker the tasks run in this process: a small corpus then costs no start-up. Each worker has one compute thread; the machine
is filled by workers.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sanitize.core.engine import Died, Done
from sanitize.engines.worker_process import Child, borrowed, measured, release, resident_mb, spared, spread, steady
from sanitize.errors import ResourceError
from sanitize.kinds.kind import carried
from sanitize.storage.disk_errors import code_of, failed
from sanitize.storage.views import glob_escaped, quote_literal, quote_name

T = TypeVar("T")
_MUCH = 64  # MB: more is worth the 30 ms of opening a database anew


class Local:
    """Spawned workers and DuckDB on this machine."""

    def __init__(self, *, workers: int, spill: Path, memory_limit: str = "1GB") -> None:
        self.workers, self.spill, self.memory_limit = max(1, workers), spill, memory_limit
        self._children: list[Child] = []
        self._opened: Any = None
        self._grown = 0.0  # MB that its statements added to this process
        spared()

    def inside(self, tasks: int) -> bool:
        """True where so many tasks run in this process."""
        return self.workers == 1 or tasks <= 1

    def map_shards(self, work: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[Done]:
        """Run `work` on every task; yields each as it ends. A task whose worker dies is tried once more, alone and in a fresh one."""
        work = carried(work)
        if self._grown > _MUCH:  # what statements held stays with DuckDB until its database is closed
            self._shut()
        if self.inside(len(tasks)):
            steady()
            release()  # what was counted since the last tasks left a heap of holes
            for place, task in enumerate(tasks):
                yield measured(work, place, task)
            release()
            return
        dead: list[int] = []
        for place, outcome in spread(self._crew(len(tasks)), work, tasks):
            if isinstance(outcome, Done):
                yield outcome
            else:
                dead.append(place)
        for place in dead:
            for _, outcome in spread(self._crew(1), work, [tasks[place]]):
                if isinstance(outcome, Died):
                    raise ResourceError(
                        f"a worker died twice at task {place + 1} of {len(tasks)} ({told(tasks[place])}); the system may have ended it for "
                        "its memory. Run the same command again to go on from here, with fewer --workers"
                    )
                yield dataclasses.replace(outcome, place=place)

    def map_untrusted(
        self, work: Callable[[T], Any], tasks: Sequence[T], *, seconds: Callable[[T], float], memory: int
    ) -> Iterator[tuple[int, Done | Died]]:
        """Run `work` on every task in processes that may die; yields (place, what came of it) as each ends.

        Each task has `seconds` of wall time and `memory` bytes more than its process has at rest.
        """
        if self.inside(len(tasks)):
            with borrowed() as one:
                yield from spread(one, work, tasks, seconds=seconds, memory=memory)
        else:
            yield from spread(self._crew(len(tasks)), work, tasks, seconds=seconds, memory=memory)

    def _crew(self, tasks: int) -> list[Child]:
        """As many of our children as have something to do."""
        wanted = min(self.workers, tasks)
        self._children += [Child() for _ in range(wanted - len(self._children))]
        return self._children[:wanted]

    def sql(self, query: str, tables: Mapping[str, Sequence[Path]], out: Path, **parameters: object) -> None:
        """Write the result of a statement to `out`, in its order."""
        with self._database(tables) as database:
            database.execute(
                f"COPY ({_statement(query)}) TO {quote_literal(str(out))} (FORMAT parquet, COMPRESSION lz4, ROW_GROUP_SIZE 65536)",
                parameters or None,
            )

    def scalar(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Any:
        """The first column of the first row."""
        with self._database(tables) as database:
            row = database.execute(_statement(query), parameters or None).fetchone()
            return None if row is None else row[0]

    def close(self) -> None:
        """End the workers at once; what they were at is done again by the next run."""
        for child in self._children:
            child.kill()
        self._children.clear()
        self._shut()

    def _shut(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened, self._grown = None, 0.0

    @contextlib.contextmanager
    def _database(self, tables: Mapping[str, Sequence[Path]]) -> Iterator[Any]:
        """A session over some tables, which are its own views. One database serves all sessions: opening one costs 30 ms."""
        import duckdb

        release()  # DuckDB's memory comes on top of what is held here
        self.spill.mkdir(parents=True, exist_ok=True)
        if self._opened is None:
            self._opened = duckdb.connect(":memory:")
            self._opened.execute(f"SET temp_directory = {quote_literal(str(self.spill))}")
            self._opened.execute(f"SET memory_limit = {quote_literal(self.memory_limit)}")
            self._opened.execute(f"SET threads = {self.workers}")
            self._opened.execute("SET autoinstall_known_extensions = false")
            self._opened.execute("SET enable_external_file_cache = false")  # what one statement read is nothing to the next
        database, before = self._opened.cursor(), resident_mb()
        try:
            database.execute("SET TimeZone = 'UTC'")
            for name, files in tables.items():
                listed = ", ".join(quote_literal(glob_escaped(str(file))) for file in files)
                source = f"read_parquet([{listed}], hive_partitioning = false)"
                database.execute(f"CREATE TEMP VIEW {quote_name(name)} AS SELECT * FROM {source}")  # noqa: S608
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
            self._grown += resident_mb() - before


def told(task: object) -> str:
    """A task in words: what it says of itself, without a value."""
    return str(getattr(task, "told", None) or type(task).__name__)


def _statement(query: str) -> str:
    return query.strip().rstrip(";")
