"""The engine of many machines: Spark's executors over shard descriptors, and the same statements in Spark SQL.

Spark is given numbers and statements, never a text: the descriptors of a stage lie in a private file of WORK, a Spark task gets its place
in that file, opens what it needs itself and leaves its answer beside it. Inputs, WORK and OUT therefore lie where all machines see them
under one path, and the package is installed on each. Only calls that Spark Connect knows are used, so that a session may be local, of a
cluster or remote.

Spark may run a task twice, at once or after a loss. Each attempt has a folder of its own inside the folder of its stage, and what it made
leaves it in renames; when the stage is over its folder steps aside first, so that a straggler has nothing left to rename.

Results are those of `local.py`: OUT byte for byte, tables row for row. A statement's rows come sorted out of Spark, and DuckDB writes them
down in the types that it would have given. What it costs: seconds for a session, and about a second for each statement.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import pickle
import re
import secrets
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.engine import Died, Done
from sanitize.engines.local import Local, told
from sanitize.engines.spark_dialect import spark as in_spark
from sanitize.engines.spark_session import START, begin, is_local, where
from sanitize.engines.worker_process import borrowed, measured, packed, release, spread, steady
from sanitize.errors import ResourceError, UsageError
from sanitize.kinds.kind import carried
from sanitize.storage.views import quote_name

T = TypeVar("T")

PACKAGES = ("corpus-sanitize", "polars", "pyarrow", "duckdb", "numpy", "phonenumbers", "faker")  # these decide what comes out

# whatever the session says elsewhere: a file that is gone or broken is an error, and numbers do not wrap
_SESSION = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
# the types that tables of WORK have: in DuckDB, and in Spark
_TYPES = {
    pa.int32(): ("INTEGER", "INT"),
    pa.int64(): ("BIGINT", "BIGINT"),
    pa.float32(): ("FLOAT", "FLOAT"),
    pa.float64(): ("DOUBLE", "DOUBLE"),
    pa.string(): ("VARCHAR", "STRING"),
    pa.large_string(): ("VARCHAR", "STRING"),
    pa.bool_(): ("BOOLEAN", "BOOLEAN"),
    pa.binary(): ("BLOB", "BINARY"),
}


class Spark:
    """A Spark session over a WORK that all of its machines see. `master` and `remote` say where; without both it is the session that is
    there, or what spark-submit and the environment say, or this machine."""

    def __init__(
        self, *, workers: int, spill: Path, memory_limit: str = "1GB", master: str | None = None, remote: str | None = None
    ) -> None:
        self.workers, self.spill = max(1, workers), spill
        self._local = Local(workers=workers, spill=spill, memory_limit=memory_limit)  # describes results and writes them down
        spill.mkdir(parents=True, exist_ok=True)
        self._session, self._mine = begin(self.workers, spill, memory_limit, master, remote)
        self._before = {name: self._session.conf.get(name, None) for name in _SESSION}
        try:
            for name, value in _SESSION.items():
                self._session.conf.set(name, value)
            self._here = is_local(self._session)
            self._ask_workers()
        except BaseException:
            self.close()
            raise

    def inside(self, tasks: int) -> bool:
        """False: no task runs in this process."""
        return False

    def map_shards(self, work: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[Done]:
        """Run `work` on every task; yields each as it ends. A task whose worker is lost is tried again elsewhere, by Spark."""
        for _, outcome in self._spread(carried(work), tasks, None):
            assert isinstance(outcome, Done)
            yield outcome

    def map_untrusted(
        self, work: Callable[[T], Any], tasks: Sequence[T], *, seconds: Callable[[T], float], memory: int
    ) -> Iterator[tuple[int, Done | Died]]:
        """Run `work` on every task in a child of a Spark worker, which may die of it; yields (place, what came of it) as each ends."""
        yield from self._spread(work, tasks, [(seconds(task), memory) for task in tasks])

    def sql(self, query: str, tables: Mapping[str, Sequence[Path]], out: Path, **parameters: object) -> None:
        """Write the result of a statement to `out`, in its order."""
        with self._stage() as stage:
            schema = self._result_schema(stage, query, tables, parameters)
            parts = stage / "parts"
            with self._query(query, tables, parameters) as frame:
                self._act(lambda: frame.write.option("compression", "zstd").parquet(f"file://{parts.resolve()}"))  # a name, where it writes
            # the number in the name is the place in the order
            files = sorted(parts.glob("part-*.parquet"), key=lambda path: (int(path.name.split("-")[1]), path.name))
            columns = ", ".join(f"CAST({quote_name(f.name)} AS {_TYPES[f.type][0]}) AS {quote_name(f.name)}" for f in schema)
            self._local.sql(f"SELECT {columns} FROM parts", {"parts": files}, out)  # noqa: S608

    def scalar(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Any:
        """The first column of the first row."""
        with self._query(query, tables, parameters) as frame:
            rows = self._act(lambda: frame.take(1))
        return rows[0][0] if rows else None

    def close(self) -> None:
        """End what is at work, and the session if it was made here; another one's is left as it was."""
        with contextlib.suppress(Exception):
            if self._mine:
                self._session.stop()
            else:
                for name, value in self._before.items():
                    self._session.conf.unset(name) if value is None else self._session.conf.set(name, value)
        self._local.close()

    # ---- shards ----

    def _spread(
        self, work: Callable[[T], Any], tasks: Sequence[T], limits: Sequence[tuple[float, int]] | None
    ) -> Iterator[tuple[int, Done | Died]]:
        """(place, what came of it) for every task, as each ends. A task's own error is raised, and the rest is stopped."""
        if not tasks:
            return
        with self._stage() as stage:
            (stage / "answers").mkdir()
            (stage / "attempts").mkdir()
            _write_tasks(stage, work, tasks, limits)
            count, serve = len(tasks), _server(str(stage.resolve()), sys.path if self._here else [])
            waiting, pause = set(range(count)), 0.02
            with self._acting(lambda: self._session.range(0, count, 1, count).mapInArrow(serve, "place long").collect()) as future:
                while waiting:
                    over = future.done()
                    seen = [int(entry.name) for entry in os.scandir(stage / "answers") if int(entry.name) in waiting]
                    for place in sorted(seen):
                        waiting.discard(place)
                        yield place, _answer(stage, place)
                    if over:
                        break
                    pause = 0.02 if seen else min(pause * 1.5, 1.0)
                    with contextlib.suppress(TimeoutError):
                        future.result(pause)
                if waiting:  # a listing may lag behind on a shared file system; a name does not
                    future.result()
                    for place in sorted(waiting):
                        yield place, _answer(stage, place)

    @contextlib.contextmanager
    def _stage(self) -> Iterator[Path]:
        """A private folder for one stage. It steps aside before it is taken away: from then on no straggler finds it."""
        stage = self.spill / f"stage-{secrets.token_hex(8)}"
        stage.mkdir(mode=0o700, parents=True)
        try:
            yield stage
        finally:
            over = stage.with_name(f"{stage.name}-over")
            with contextlib.suppress(OSError):
                stage.rename(over)
            shutil.rmtree(over, ignore_errors=True)

    def _ask_workers(self) -> None:
        """Refuse a cluster whose workers could not do the work: without the package or the folder, with other versions, as another user."""
        with self._stage() as stage:
            (stage / "seen").write_text("here", "ascii")
            probe = _prober(str((stage / "seen").resolve()), _versions(), sys.path if self._here else [])
            count = 1 if self._here else 64
            rows = self._act(lambda: self._session.range(0, count, 1, count).mapInArrow(probe, "said string").collect(), START)
        for said in sorted({row[0] for row in rows} - {""}):
            raise UsageError(f"--engine spark: {said}")

    # ---- statements ----

    @contextlib.contextmanager
    def _query(self, query: str, tables: Mapping[str, Sequence[Path]], parameters: Mapping[str, object]) -> Iterator[Any]:
        """The result of a statement over `tables`, as views of these names for its time."""
        for name, files in tables.items():
            read = self._session.read.option("recursiveFileLookup", "true")  # no columns are read out of the names of folders
            read = read.schema(_ddl(pq.read_schema(files[0])))  # else Spark opens files to see
            self._act(lambda: read.parquet(*map(_uri, files)).createOrReplaceTempView(name))  # noqa: B023 - done before the next
        try:
            yield self._act(lambda: self._session.sql(in_spark(query), args=dict(parameters)))
        finally:
            for name in tables:
                with contextlib.suppress(Exception):
                    self._session.catalog.dropTempView(name)

    def _result_schema(self, stage: Path, query: str, tables: Mapping[str, Sequence[Path]], parameters: Mapping[str, object]) -> pa.Schema:
        """The columns and types that DuckDB gives for this statement: asked over the same tables without rows."""
        (stage / "empty").mkdir()
        empty: dict[str, list[Path]] = {}
        for name, files in tables.items():
            empty[name] = [stage / "empty" / f"{name}.parquet"]
            pq.write_table(pq.read_schema(files[0]).empty_table(), empty[name][0])
        self._local.sql(query, empty, stage / "empty" / "result", **parameters)
        return pq.read_schema(stage / "empty" / "result")

    # ---- Spark at work ----

    def _act(self, action: Callable[[], Any], seconds: float | None = None) -> Any:
        """What an action of Spark gives."""
        with self._acting(action) as future:
            try:
                return future.result(seconds)
            except TimeoutError:
                raise UsageError(
                    f"--engine spark: no worker of {where(self._session)} took a task in {seconds:.0f} s; see that it has free workers"
                ) from None

    @contextlib.contextmanager
    def _acting(self, action: Callable[[], Any]) -> Iterator[Future[Any]]:
        """An action of Spark at work in a thread, so that signals are heard; what is still at work at the end of the block is stopped."""
        tag, future = f"sanitize-{secrets.token_hex(8)}", Future[Any]()
        try:  # a session stops only what its own thread has tagged; its context, where there is one, what any thread has
            add, interrupt = self._session.sparkContext.addJobTag, self._session.sparkContext.cancelJobsWithTag
        except Exception:  # Spark Connect has no context, and its tags hold for all threads
            add, interrupt = self._session.addTag, self._session.interruptTag

        def act() -> None:
            try:
                add(tag)
                found = action()  # a tag is its thread's, and ends with it
            except BaseException as error:
                future.set_exception(_plain(error))
            else:
                future.set_result(found)

        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        try:
            yield future
        finally:
            if not future.done():
                with contextlib.suppress(Exception):
                    interrupt(tag)
                thread.join(10.0)


def _versions() -> dict[str, str]:
    """The versions here that decide what comes out."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _uri(path: Path) -> str:
    """A file for Spark, whose paths are patterns."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.resolve()))


def _ddl(schema: pa.Schema) -> str:
    """The columns of a table in Spark's words."""
    plain = [(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type) for field in schema]
    return ", ".join(f"`{name}` {_TYPES[type_][1]}" for name, type_ in plain)


def _plain(error: BaseException) -> BaseException:
    """An error of Spark in our words: its own may quote values."""
    if type(error).__module__.split(".")[0] not in ("pyspark", "py4j", "grpc"):
        return error
    said = str(error)
    if "PYTHON_VERSION_MISMATCH" in said:
        here = ".".join(map(str, sys.version_info[:2]))
        return UsageError(f"--engine spark: its workers have another Python than {here}, which runs here; set PYSPARK_PYTHON for both")
    if "No module named" in said:
        return UsageError("--engine spark: a worker has no corpus-sanitize; install the version that runs here on every worker")
    if "Python worker exited unexpectedly" in said or "ExecutorLostFailure" in said or "worker lost" in said:
        return ResourceError(
            "a Spark worker died several times at one task; the system may have ended it for its memory. Run the same command again to go "
            "on from here, with fewer tasks at a time or more memory for Python (spark.executor.memoryOverhead)"
        )
    code = next((code for text, code in (("No space left", "ENOSPC"), ("OutOfMemoryError", "memory")) if text in said), None)
    if code:
        return ResourceError(f"Spark has too little room ({code}); give it more memory or disk, then run the same command again to go on")
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    return ResourceError(f"Spark could not do its part ({condition or type(error).__name__}); see its log, and run the same command again")


# ---- descriptors and answers ----


def _write_tasks(stage: Path, work: Callable[[Any], Any], tasks: Sequence[Any], limits: Sequence[tuple[float, int]] | None) -> None:
    """The file of a stage: a row is what one task takes. It holds the key, and so is as private as WORK."""
    schema = pa.schema([("task", pa.large_binary())])
    here = os.getcwd()
    with (stage / "tasks").open("wb") as file, pa.ipc.new_file(file, schema) as out:
        for place, task in enumerate(tasks):  # descriptors, not documents
            row = pickle.dumps((work, task, limits[place] if limits else None, here))
            out.write_batch(pa.record_batch([pa.array([row], pa.large_binary())], schema))


def _answer(stage: Path, place: int) -> Done | Died:
    """What came of a task; its own error is raised."""
    answer = pickle.loads((stage / "answers" / str(place)).read_bytes())
    if isinstance(answer, BaseException) and not isinstance(answer, Died):
        raise answer
    return answer  # type: ignore[no-any-return]


def attempt(stage: str, place: int) -> None:
    """Inside a worker: do one task in a folder of its own, and leave its answer. Where the stage is over, nothing is done."""
    folder = Path(stage) / "attempts" / secrets.token_hex(8)
    before, umask = os.getcwd(), os.umask(0o077)
    try:
        with pa.memory_map(str(Path(stage) / "tasks")) as file:
            work, task, limits, here = pickle.loads(pa.ipc.open_file(file).get_batch(place).column(0)[0].as_py())
        folder.mkdir()
    except FileNotFoundError:
        os.umask(umask)
        return
    try:
        os.chdir(here)
        steady()
        answer = _tried(work, place, task.attempt(folder) if hasattr(task, "attempt") else task, limits)
        with contextlib.suppress(FileNotFoundError):  # the stage is over
            (folder / "answer").write_bytes(answer)
            (folder / "answer").rename(Path(stage) / "answers" / str(place))
    finally:
        release()  # Spark's next task of this process may be another's
        os.chdir(before)
        os.umask(umask)
        shutil.rmtree(folder, ignore_errors=True)


def _tried(work: Callable[[Any], Any], place: int, task: Any, limits: tuple[float, int] | None) -> bytes:
    def attempt() -> Done | Died:
        if limits is None:
            return measured(work, place, task)
        with borrowed() as one:
            ((_, outcome),) = spread(one, work, [task], seconds=lambda _: limits[0], memory=limits[1])
        return outcome if isinstance(outcome, Died) else Done(place, outcome.result, outcome.cpu_s, outcome.peak_rss_mb)

    return packed(attempt, f" of {told(task)}")


# The two functions below travel to workers by value, since they are made inside a function: a worker without the package can then say so.


def _server(stage: str, path: list[str]) -> Callable[[Any], Any]:
    """What a worker does with the numbers of a partition."""

    def serve(batches: Any) -> Any:
        import os
        import sys

        sys.path += [one for one in path if one not in sys.path]
        for name, value in (("POLARS_MAX_THREADS", "1"), ("MIMALLOC_PURGE_DELAY", "-1")):
            os.environ.setdefault(name, value)
        from sanitize.engines.spark import attempt

        for batch in batches:
            for place in batch.column(0).to_pylist():
                attempt(stage, place)
            yield batch.rename_columns(["place"])

    return serve


def _prober(seen: str, versions: dict[str, str], path: list[str]) -> Callable[[Any], Any]:
    """What a worker says of itself: "" where it can do the work, else what is wrong and what to do."""

    def probe(batches: Any) -> Any:
        import importlib.metadata
        import os
        import sys

        import pyarrow

        sys.path += [one for one in path if one not in sys.path]
        said = ""
        for name, wanted in versions.items():
            try:
                found = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found = None
            if not said and found != wanted:
                said = f"a worker has {name} {found}, {wanted} runs here" if found else f"a worker has no {name}; {wanted} runs here"
                said += ". Install the same versions of corpus-sanitize and its packages on every worker"
        if not said and not os.path.exists(seen):
            said = "a worker does not see WORK; inputs, WORK and OUT must lie under one path on a file system that all machines share"
        elif not said and not os.access(seen, os.R_OK | os.W_OK):
            said = "a worker runs as another user, who may not read WORK; let executors run as the user of this command"
        for batch in batches:
            yield pyarrow.RecordBatch.from_pydict({"said": [said] * batch.num_rows})

    return probe
