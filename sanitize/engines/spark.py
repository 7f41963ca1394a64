"""The engine of many machines: Spark executors run tasks on shard descriptors, and Spark SQL runs
the same statements as DuckDB.

Spark receives numbers and statements, never a text. The descriptors of a stage are in a private
file of WORK; a Spark task gets its number in that file, opens what it needs itself, and writes its
answer beside the file. Inputs, WORK and OUT must therefore be visible to all machines under one
path, and the package must be installed on each. Only calls that Spark Connect supports are used, so
a session may be local, on a cluster or remote.

Spark may run a task twice, at the same time or after a loss. Each attempt has a folder of its own
inside the folder of its stage, and its results leave it by renames. When the stage is over its
folder is renamed first, so that the renames of a late attempt fail.

Results are those of `local.py`: OUT byte for byte, tables row for row. Spark returns the rows of a
statement sorted, and DuckDB writes them in the types that it would have given itself. Costs:
seconds for a session, and about a second for each statement.
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
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.engine import AttemptableTask, TaskResult, WorkerDied
from sanitize.engines.local import LocalEngine, describe_task
from sanitize.engines.spark_dialect import to_spark_sql
from sanitize.engines.spark_session import (
    SESSION_TIMEOUT_S,
    is_local_session,
    open_session,
    session_master,
)
from sanitize.engines.worker_process import (
    borrow_worker,
    pickle_outcome,
    run_measured,
    run_on_workers,
    trim_memory,
    tune_malloc,
)
from sanitize.errors import ResourceError, UsageError
from sanitize.kinds.kind import with_custom_kinds
from sanitize.storage.views.sql_text import quote_name

T = TypeVar("T")

# the output depends on their versions
VERSIONED_PACKAGES = (
    "corpus-sanitize",
    "polars",
    "pyarrow",
    "duckdb",
    "numpy",
    "phonenumbers",
    "faker",
)

# set in every session: a missing or corrupt file is an error, and numbers do not overflow silently
_SESSION_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
# the types of the tables in WORK: their names in DuckDB and in Spark
_SQL_TYPES = {
    pa.int32(): ("INTEGER", "INT"),
    pa.int64(): ("BIGINT", "BIGINT"),
    pa.float32(): ("FLOAT", "FLOAT"),
    pa.float64(): ("DOUBLE", "DOUBLE"),
    pa.string(): ("VARCHAR", "STRING"),
    pa.large_string(): ("VARCHAR", "STRING"),
    pa.bool_(): ("BOOLEAN", "BOOLEAN"),
    pa.binary(): ("BLOB", "BINARY"),
}


class SparkEngine:
    """Runs tasks and SQL in a Spark session; every machine of it must see the folder WORK under the
    same path.

    `master` or `remote` is the address of Spark. Without both it is the active session of this
    process, else the one that spark-submit or the environment gives, else a session on this
    machine.
    """

    def __init__(
        self,
        *,
        workers: int,
        spill: Path,
        memory_limit: str = "1GB",
        master: str | None = None,
        remote: str | None = None,
    ) -> None:
        self.workers, self.spill = max(1, workers), spill
        # gives the types of results, and writes them
        self._local_engine = LocalEngine(workers=workers, spill=spill, memory_limit=memory_limit)
        spill.mkdir(parents=True, exist_ok=True)
        self._session, self._owns_session = open_session(
            self.workers, spill, memory_limit, master, remote
        )
        self._previous_settings = {
            name: self._session.conf.get(name, None) for name in _SESSION_SETTINGS
        }
        try:
            for name, value in _SESSION_SETTINGS.items():
                self._session.conf.set(name, value)
            self._is_local = is_local_session(self._session)
            self._probe_workers()
        except BaseException:
            self.close()
            raise

    def runs_in_process(self, task_count: int) -> bool:
        """False: tasks never run in this process."""
        return False

    def map_shards(self, function: Callable[[T], Any], tasks: Sequence[T]) -> Iterator[TaskResult]:
        """Runs `function` on every task; yields each result as the task ends. Spark retries a task
        whose worker is lost."""
        for _, outcome in self._run_tasks(with_custom_kinds(function), tasks, None):
            assert isinstance(outcome, TaskResult)
            yield outcome

    def map_untrusted(
        self,
        function: Callable[[T], Any],
        tasks: Sequence[T],
        *,
        time_limit: Callable[[T], float],
        memory_bytes: int,
    ) -> Iterator[tuple[int, TaskResult | WorkerDied]]:
        """Runs `function` on every task in a child process of a Spark worker, which may die; yields
        (task number, result or WorkerDied)."""
        yield from self._run_tasks(
            function, tasks, [(time_limit(task), memory_bytes) for task in tasks]
        )

    def sql(
        self, query: str, tables: Mapping[str, Sequence[Path]], out: Path, **parameters: object
    ) -> None:
        """Writes the result of a query to the Parquet file `out`, in the order of the query."""
        with self._stage_folder() as stage:
            schema = self._result_schema(stage, query, tables, parameters)
            parts = stage / "parts"
            with self._run_query(query, tables, parameters) as frame:
                self._run_action(
                    lambda: frame.write.option("compression", "zstd").parquet(
                        f"file://{parts.resolve()}"
                    )
                )
            # the number in a file's name gives its place in the order
            files = sorted(
                parts.glob("part-*.parquet"),
                key=lambda path: (int(path.name.split("-")[1]), path.name),
            )
            columns = ", ".join(
                f"CAST({quote_name(field.name)} AS {_SQL_TYPES[field.type][0]}) AS"
                f" {quote_name(field.name)}"
                for field in schema
            )
            self._local_engine.sql(f"SELECT {columns} FROM parts", {"parts": files}, out)  # noqa: S608

    def scalar(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Any:
        """The first column of the first row of a query's result; None where it has no row."""
        with self._run_query(query, tables, parameters) as frame:
            rows = self._run_action(lambda: frame.take(1))
        return rows[0][0] if rows else None

    def close(self) -> None:
        """Ends running work, and the session if it was created here; a session of the caller is
        kept, with its settings restored."""
        with contextlib.suppress(Exception):
            if self._owns_session:
                self._session.stop()
            else:
                for name, value in self._previous_settings.items():
                    (
                        self._session.conf.unset(name)
                        if value is None
                        else self._session.conf.set(name, value)
                    )
        self._local_engine.close()

    # ---- shards ----

    def _run_tasks(
        self,
        function: Callable[[T], Any],
        tasks: Sequence[T],
        limits: Sequence[tuple[float, int]] | None,
    ) -> Iterator[tuple[int, TaskResult | WorkerDied]]:
        """(task number, result or WorkerDied) for every task, as each ends. A task's own error is
        raised, and the other tasks are stopped.
        """
        if not tasks:
            return
        with self._stage_folder() as stage:
            (stage / "answers").mkdir()
            (stage / "attempts").mkdir()
            _write_tasks(stage, function, tasks, limits)
            count, run_partition = (
                len(tasks),
                _make_partition_runner(str(stage.resolve()), sys.path if self._is_local else []),
            )
            waiting, pause = set(range(count)), 0.02
            with self._start_action(
                lambda: (
                    self._session.range(0, count, 1, count)
                    .mapInArrow(run_partition, "task_no long")
                    .collect()
                )
            ) as future:
                while waiting:
                    is_finished = future.done()
                    answered = [
                        int(entry.name)
                        for entry in os.scandir(stage / "answers")
                        if int(entry.name) in waiting
                    ]
                    for task_no in sorted(answered):
                        waiting.discard(task_no)
                        yield task_no, _read_outcome(stage, task_no)
                    if is_finished:
                        break
                    pause = 0.02 if answered else min(pause * 1.5, 1.0)
                    with contextlib.suppress(TimeoutError):
                        future.result(pause)
                # on a shared file system a listing may be outdated; opening a file by name is not
                if waiting:
                    future.result()
                    for task_no in sorted(waiting):
                        yield task_no, _read_outcome(stage, task_no)

    @contextlib.contextmanager
    def _stage_folder(self) -> Iterator[Path]:
        """A private folder for one stage. It is renamed before it is removed, so that a late
        attempt does not find it."""
        stage = self.spill / f"stage-{secrets.token_hex(8)}"
        stage.mkdir(mode=0o700, parents=True)
        try:
            yield stage
        finally:
            finished = stage.with_name(f"{stage.name}-finished")
            with contextlib.suppress(OSError):
                stage.rename(finished)
            shutil.rmtree(finished, ignore_errors=True)

    def _probe_workers(self) -> None:
        """Raises UsageError for a cluster whose workers lack the package or the folder, have other
        versions, or run as another user."""
        with self._stage_folder() as stage:
            (stage / "probe").write_text("here", "ascii")
            probe = _make_probe(
                str((stage / "probe").resolve()),
                _package_versions(),
                sys.path if self._is_local else [],
            )
            count = 1 if self._is_local else 64
            rows = self._run_action(
                lambda: (
                    self._session.range(0, count, 1, count)
                    .mapInArrow(probe, "problem string")
                    .collect()
                ),
                SESSION_TIMEOUT_S,
            )
        for problem in sorted({row[0] for row in rows} - {""}):
            raise UsageError(f"--engine spark: {problem}")

    # ---- statements ----

    @contextlib.contextmanager
    def _run_query(
        self, query: str, tables: Mapping[str, Sequence[Path]], parameters: Mapping[str, object]
    ) -> Iterator[Any]:
        """The result of a statement over `tables`, which exist as views during the block."""
        for name, files in tables.items():
            # no partition columns from the names of folders
            reader = self._session.read.option("recursiveFileLookup", "true")
            # else Spark opens the files to infer it
            reader = reader.schema(_ddl(pq.read_schema(files[0])))
            self._run_action(
                lambda: reader.parquet(*map(_uri, files)).createOrReplaceTempView(name)  # noqa: B023
            )
        try:
            yield self._run_action(
                lambda: self._session.sql(to_spark_sql(query), args=dict(parameters))
            )
        finally:
            for name in tables:
                with contextlib.suppress(Exception):
                    self._session.catalog.dropTempView(name)

    def _result_schema(
        self,
        stage_folder: Path,
        query: str,
        tables: Mapping[str, Sequence[Path]],
        parameters: Mapping[str, object],
    ) -> pa.Schema:
        """The columns and types that DuckDB gives for this statement, from a run over the same
        tables without rows."""
        (stage_folder / "empty").mkdir()
        empty: dict[str, list[Path]] = {}
        for name, files in tables.items():
            empty[name] = [stage_folder / "empty" / f"{name}.parquet"]
            pq.write_table(pq.read_schema(files[0]).empty_table(), empty[name][0])
        self._local_engine.sql(query, empty, stage_folder / "empty" / "result", **parameters)
        return pq.read_schema(stage_folder / "empty" / "result")

    # ---- Spark at work ----

    def _run_action(self, action: Callable[[], Any], time_limit: float | None = None) -> Any:
        """The result of an action of Spark. Raises UsageError where no worker took a task within
        `time_limit` seconds."""
        with self._start_action(action) as future:
            try:
                return future.result(time_limit)
            except TimeoutError:
                raise UsageError(
                    f"--engine spark: no worker of {session_master(self._session)} took a task in"
                    f" {time_limit:.0f} s; check that it has free workers"
                ) from None

    @contextlib.contextmanager
    def _start_action(self, action: Callable[[], Any]) -> Iterator[Future[Any]]:
        """Runs an action of Spark in a thread, so that signals are handled; an action still running
        at the end of the block is cancelled.
        """
        tag, future = f"sanitize-{secrets.token_hex(8)}", Future[Any]()
        # a session cancels only jobs tagged by its own thread; the context, where there is one,
        # those of any thread
        try:
            add_tag, cancel = (
                self._session.sparkContext.addJobTag,
                self._session.sparkContext.cancelJobsWithTag,
            )
        except Exception:  # Spark Connect has no context, and its tags apply to all threads
            add_tag, cancel = self._session.addTag, self._session.interruptTag

        def run() -> None:
            try:
                add_tag(tag)
                result = action()  # the tag belongs to this thread and ends with it
            except BaseException as error:
                future.set_exception(_translate_error(error))
            else:
                future.set_result(result)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield future
        finally:
            if not future.done():
                with contextlib.suppress(Exception):
                    cancel(tag)
                thread.join(10.0)


def _package_versions() -> dict[str, str]:
    """The installed versions of the packages that the output depends on."""
    versions = {}
    for name in VERSIONED_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _uri(path: Path) -> str:
    """The URI of a file for Spark, with glob characters escaped, since Spark reads paths as
    patterns."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.resolve()))


def _ddl(schema: pa.Schema) -> str:
    """The columns of a table as Spark DDL."""
    plain = [
        (field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in schema
    ]
    return ", ".join(f"`{name}` {_SQL_TYPES[type_][1]}" for name, type_ in plain)


def _translate_error(error: BaseException) -> BaseException:
    """Spark's errors as errors of this package, without Spark's message, which may quote values;
    other errors unchanged."""
    if type(error).__module__.split(".")[0] not in ("pyspark", "py4j", "grpc"):
        return error
    message = str(error)
    if "PYTHON_VERSION_MISMATCH" in message:
        local_version = ".".join(map(str, sys.version_info[:2]))
        return UsageError(
            f"--engine spark: its workers have another Python than {local_version}, which runs"
            " here; set PYSPARK_PYTHON to the same version for both"
        )
    if "No module named" in message:
        return UsageError(
            "--engine spark: a worker has no corpus-sanitize; install the version that runs here on"
            " every worker"
        )
    if (
        "Python worker exited unexpectedly" in message
        or "ExecutorLostFailure" in message
        or "worker lost" in message
    ):
        return ResourceError(
            "a Spark worker died several times at one task; the system may have killed it for using"
            " too much memory. Run the same command again to continue from here, with fewer tasks"
            " at a time or more memory for Python (spark.executor.memoryOverhead)"
        )
    code = next(
        (
            code
            for text, code in (("No space left", "ENOSPC"), ("OutOfMemoryError", "memory"))
            if text in message
        ),
        None,
    )
    if code:
        return ResourceError(
            f"Spark ran out of memory or disk ({code}); give it more, then run the same command"
            " again to continue"
        )
    return ResourceError(
        f"Spark failed ({_describe_cause(error)}); run the same command again to continue. If it"
        " fails again, report this line"
    )


def _describe_cause(error: BaseException) -> str:
    """The condition of a Spark error, the file that it names, and the classes of the exceptions
    that caused it; none of their texts."""
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    parameters = (
        (error.getMessageParameters() or {}) if hasattr(error, "getMessageParameters") else {}
    )
    file_name = os.path.basename(urlsplit(parameters["path"]).path) if "path" in parameters else ""
    causes = [name.rpartition(".")[2] for name in re.findall(r"Caused by: ([\w.$]+)", str(error))]
    return ", ".join(
        [
            condition or type(error).__name__,
            *([f"file {file_name}"] if file_name else []),
            *dict.fromkeys(causes),
        ]
    )


# ---- descriptors and answers ----


def _write_tasks(
    stage_folder: Path,
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    limits: Sequence[tuple[float, int]] | None,
) -> None:
    """Writes the tasks of a stage to a file, one row a task. It holds the key, and so is as private
    as WORK."""
    schema = pa.schema([("task", pa.large_binary())])
    working_folder = os.getcwd()
    with (stage_folder / "tasks").open("wb") as file, pa.ipc.new_file(file, schema) as out:
        for task_no, task in enumerate(tasks):  # descriptors, not documents
            row = pickle.dumps(
                (function, task, limits[task_no] if limits else None, working_folder)
            )
            out.write_batch(pa.record_batch([pa.array([row], pa.large_binary())], schema))


def _read_outcome(stage_folder: Path, task_no: int) -> TaskResult | WorkerDied:
    """The result of a task, or WorkerDied; a task's own error is raised."""
    answer = pickle.loads((stage_folder / "answers" / str(task_no)).read_bytes())
    if isinstance(answer, BaseException) and not isinstance(answer, WorkerDied):
        raise answer
    return answer  # type: ignore[no-any-return]


def run_attempt(stage_folder: str, task_no: int) -> None:
    """Runs one task inside a worker, in a folder of its own, and writes its answer. Does nothing
    where the stage is over."""
    folder = Path(stage_folder) / "attempts" / secrets.token_hex(8)
    previous_folder, previous_umask = os.getcwd(), os.umask(0o077)
    try:
        with pa.memory_map(str(Path(stage_folder) / "tasks")) as file:
            function, task, limits, working_folder = pickle.loads(
                pa.ipc.open_file(file).get_batch(task_no).column(0)[0].as_py()
            )
        folder.mkdir()
    except FileNotFoundError:
        os.umask(previous_umask)
        return
    try:
        os.chdir(working_folder)
        tune_malloc()
        own_task = task.for_attempt(folder) if isinstance(task, AttemptableTask) else task
        answer = _run_limited(function, task_no, own_task, limits)
        with contextlib.suppress(FileNotFoundError):  # the stage is over
            (folder / "answer").write_bytes(answer)
            (folder / "answer").rename(Path(stage_folder) / "answers" / str(task_no))
    finally:
        trim_memory()  # the next task of this process may belong to another application
        os.chdir(previous_folder)
        os.umask(previous_umask)
        shutil.rmtree(folder, ignore_errors=True)


def _run_limited(
    function: Callable[[Any], Any], task_no: int, task: Any, limits: tuple[float, int] | None
) -> bytes:
    """The pickled outcome of a task, run in a child process where there are limits."""

    def attempt() -> TaskResult | WorkerDied:
        if limits is None:
            return run_measured(function, task_no, task)
        with borrow_worker() as workers:
            ((_, outcome),) = run_on_workers(
                workers, function, [task], time_limit=lambda _: limits[0], memory_bytes=limits[1]
            )
        return (
            outcome
            if isinstance(outcome, WorkerDied)
            else TaskResult(task_no, outcome.result, outcome.cpu_s, outcome.peak_rss_mb)
        )

    return pickle_outcome(attempt, f" of {describe_task(task)}")


# The two functions below return closures, which are pickled by value: a worker without the package
# can then report that it is missing.


def _make_partition_runner(stage_folder: str, sys_path: list[str]) -> Callable[[Any], Any]:
    """The function that a worker runs on the task numbers of a partition."""

    def run_partition(batches: Any) -> Any:
        import os
        import sys

        sys.path += [folder for folder in sys_path if folder not in sys.path]
        for name, value in (("POLARS_MAX_THREADS", "1"), ("MIMALLOC_PURGE_DELAY", "-1")):
            os.environ.setdefault(name, value)
        from sanitize.engines.spark import run_attempt

        for batch in batches:
            for task_no in batch.column(0).to_pylist():
                run_attempt(stage_folder, task_no)
            yield batch.rename_columns(["task_no"])

    return run_partition


def _make_probe(
    marker_path: str, versions: dict[str, str], sys_path: list[str]
) -> Callable[[Any], Any]:
    """The function that checks a worker: it returns "" where tasks can run, else what is wrong and
    what to do."""

    def probe(batches: Any) -> Any:
        import importlib.metadata
        import os
        import sys

        import pyarrow

        sys.path += [folder for folder in sys_path if folder not in sys.path]
        problem = ""
        for name, wanted in versions.items():
            try:
                installed = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                installed = None
            if not problem and installed != wanted:
                problem = (
                    f"a worker has {name} {installed}, {wanted} runs here"
                    if installed
                    else f"a worker has no {name}; {wanted} runs here"
                )
                problem += (
                    ". Install the same versions of corpus-sanitize and its packages on every"
                    " worker"
                )
        if not problem and not os.path.exists(marker_path):
            problem = (
                "a worker does not see WORK; inputs, WORK and OUT must be under one path on a file"
                " system that all machines share"
            )
        elif not problem and not os.access(marker_path, os.R_OK | os.W_OK):
            problem = (
                "a worker runs as another user, who may not read WORK; let executors run as the"
                " user of this command"
            )
        for batch in batches:
            yield pyarrow.RecordBatch.from_pydict({"problem": [problem] * batch.num_rows})

    return probe
