"""Queries on a private folder: SQL over its tables, the most frequent values, and the state of its
runs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sanitize.core.command_results import CommandResult
from sanitize.core.table_rendering import SummaryTable
from sanitize.errors import UsageError
from sanitize.plans.python_api import public_function
from sanitize.storage.locks import LockHolder, read_lock_holder
from sanitize.storage.private_folder import (
    RUNS_FOLDER,
    TASKS_FOLDER,
    SavedIndex,
    require_run_workspace,
)
from sanitize.storage.remote_storage import require_local_path

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from sanitize.storage.corpus import DocumentFile


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """A run made from a private folder, and how many of its tasks are done. `plan` is None where
    plan.json is not written yet, or damaged."""

    run_hash: str
    plan: str | None
    tasks_done: int


@dataclass(frozen=True, kw_only=True, repr=False)
class StatusResult(CommandResult):
    """The state of a private folder: its index (`documents`, `increments` and `key_id` are None
    without one), the runs made from it, and the process that holds its lock (`pid`, `host`,
    `since`), None if it is free."""

    indexed: bool
    documents: int | None
    tasks: int
    increments: int | None
    key_id: str | None
    detect_tasks_done: int
    runs: Sequence[RunProgress]
    lock_holder: LockHolder | None

    def summary_table(self) -> SummaryTable:
        index = (
            f"{self.documents:,} documents, {self.tasks:,} tasks"
            if self.indexed
            else f"none yet ({self.detect_tasks_done:,} tasks done)"
        )
        holder = self.lock_holder
        facts = [
            ("index", index),
            *([("held by", f"process {holder.pid} on {holder.host}")] if holder else []),
        ]
        rows = [(run.run_hash, run.plan, run.tasks_done) for run in self.runs]
        return SummaryTable(
            title="sanitize status", facts=facts, header=("run", "plan", "tasks done"), rows=rows
        )


@public_function()
def sql(
    work: Path | str,
    query: str | None = None,
    /,
    *,
    name: str | None = None,
    run: str | None = None,
    reveal: bool = False,
    **parameters: object,
) -> pl.DataFrame:
    """The result of one SELECT over the tables of WORK, or of the named query `name` with its
    parameters.

    `run` chooses the run whose edits and drops are read: a plan's hash or name, by default the
    latest run. Texts and raw values are masked before the query reads them, unless `reveal`. Raises
    UsageError for a statement that is no SELECT, for an unknown name or parameter, for a result
    that is no frame (two columns of one name, intervals), and for a folder that is no WORK.

    >>> import sanitize
    >>> query = "SELECT kind, sum(occurrences)::int AS n FROM value_counts GROUP BY kind ORDER BY n"
    >>> sanitize.sql("clean.private", query).rows()
    [('PERSON', 1), ('EMAIL_ADDRESS', 2)]
    """
    import polars as pl

    from sanitize.core.table_rendering import require_distinct_names, require_plain_types

    result = query_workspace(
        require_local_path(work), query, name=name, parameters=parameters, reveal=reveal, run=run
    )
    require_distinct_names(result)
    require_plain_types(result)
    return pl.DataFrame(result)


@public_function()
def top(
    work: Path | str,
    /,
    *,
    kind: str = "all",
    limit: int = 20,
    by: str = "occurrences",
    sources: bool = False,
    reveal: bool = False,
) -> pl.DataFrame:
    """The `limit` values that occur most often: rank, kind, value (masked unless `reveal`),
    occurrences, documents.

    `by` is `occurrences`, `documents` or `users`; the last adds a column `users`. With `sources`
    the input file and the position of the first occurrence are added. `kind` is one kind, or
    `all`. Raises UsageError for an unknown kind or order, and for a folder that is no
    WORK.

    >>> import sanitize
    >>> sanitize.top("clean.private", limit=1).rows()
    [(1, 'EMAIL_ADDRESS', 'a***@e***.com', 2, 1)]
    """
    if by == "users" and sources:
        raise UsageError("top: sources is not shown with by = users; leave one of them out")
    if by == "users":
        return sql(work, name="top_values_by_users", reveal=reveal, kind=kind, limit=limit)
    name = "top_sources" if sources else "top_values"
    return sql(work, name=name, reveal=reveal, kind=kind, limit=limit, by=by)


@public_function()
def status(work: Path | str, /) -> StatusResult:
    """State of WORK: its index, the runs made from it with their finished tasks, and the process
    that holds its lock.

    Raises UsageError for a folder that is no WORK.

    >>> import sanitize
    >>> sanitize.status("clean.private").documents
    1
    """
    from sanitize.storage.runs.run_folders import list_runs

    work = require_local_path(work)
    index = require_run_workspace(work)
    plans = {run.folder.name: run.plan for run in list_runs(work)}
    runs = [
        RunProgress(
            run_hash=folder.name,
            plan=plans.get(folder.name),
            tasks_done=len(list(folder.glob("tasks/rewrite-*.json"))),
        )
        for folder in sorted((work / RUNS_FOLDER).glob("*"))
    ]
    return StatusResult(
        indexed=index is not None,
        documents=index.documents.count if index else None,
        tasks=len(index.task_ranges) if index else 0,
        increments=len(index.increments) or None if index else None,
        key_id=index.key_id if index else None,
        detect_tasks_done=len(list((work / TASKS_FOLDER / "detect").glob("*.json"))),
        runs=runs,
        lock_holder=read_lock_holder(work),
    )


def query_workspace(
    work: Path,
    query: str | None,
    *,
    name: str | None,
    parameters: Mapping[str, object],
    reveal: bool,
    run: str | None = None,
    memory_limit: str = "1GB",
    max_rows: int | None = None,
) -> pa.Table:
    """The result of a SELECT or of a named query, as Arrow; at most the first `max_rows` rows.

    The table `documents` is empty if the input has moved or changed (see `find_document_sources`).
    """
    from sanitize.storage import queries

    require_run_workspace(work)
    if (query is None) == (name is None):
        raise UsageError("a query and a name exclude each other; give one of them")
    statement: str | queries.Query = query or ""
    if name is not None:
        statement = queries.get_query(name)
        require_known_kind(statement.bind(parameters), work)
    documents = find_document_sources(work) or ()
    with contextlib.closing(
        queries.open_connection(
            work, reveal=reveal, memory_limit=memory_limit, run=run, documents=documents
        )
    ) as database:
        return queries.run_query(database, statement, parameters or None, max_rows=max_rows)


# tables that only some plans fill: (plan key that fills it, message if the plan lacks that key)
_OPTIONAL_TABLES = {
    "blacklist": ("blacklist", "its plan has no [blacklist], as the plan `blacklist` has"),
    "drops": ("drop", "its plan has no [[drop]] part"),
    "ledger": ("", "none of its editors spends privacy, as dp_mlm does"),
    "labels": (
        "",
        "none of its editors writes numbered labels or pseudonyms, as redact and pseudonymize do",
    ),
    "edits": ("edit", "its plan has no [[edit]] part"),
}


def explain_empty_result(
    work: Path, tables_read: Collection[str], run: str | None = None
) -> str | None:
    """Why a query over these tables may have given no row: the first of them that is empty in the
    shown run, and the runs in which it is not. None if no table that depends on the plan is
    empty."""
    from sanitize.storage.runs.run_folders import count_run_rows, find_run, list_runs

    optional_tables = [name for name in _OPTIONAL_TABLES if name in tables_read]
    shown_run = find_run(work, run)
    if shown_run is None:
        if not optional_tables:
            return None
        return (
            f"nothing was run yet from {work}: `sanitize run INPUT -o OUT --work {work}` writes the"
            f" table {optional_tables[0]}"
        )
    for table in optional_tables:
        if count_run_rows(shown_run.folder, table):
            continue
        plan_key, missing_part = _OPTIONAL_TABLES[table]
        reason = (
            "the run had nothing to write there"
            if plan_key in shown_run.plan_keys
            else missing_part
        )
        others = [
            f"{other.folder.name} ({other.plan})"
            for other in list_runs(work)
            if count_run_rows(other.folder, table)
        ]
        choose = f"; choose another run with --run: {', '.join(others)}" if others else ""
        return (
            f"{table} of run {shown_run.folder.name} (plan {shown_run.plan}) is empty:"
            f" {reason}{choose}"
        )
    return None


def require_known_kind(parameters: Mapping[str, object], work: Path) -> None:
    """Raise PlanError if the parameter `kind` is no kind of WORK: a misspelt kind would otherwise
    give an empty result."""
    from sanitize.kinds.kind import custom_kinds, get_kind
    from sanitize.plans.detection_spec import read_custom_kinds

    if parameters.get("kind", "all") != "all":
        with custom_kinds(read_custom_kinds(work)):
            get_kind(str(parameters["kind"]))


def find_document_sources(work: Path) -> tuple[DocumentFile, ...] | None:
    """The files behind the view `documents`; None if the input has moved or changed since it was
    indexed."""
    index = SavedIndex.read(work)
    sources = index.documents.files if index else ()
    return sources if all(source.is_available() for source in sources) else None
