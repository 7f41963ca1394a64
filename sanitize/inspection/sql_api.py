"""What lies in a private folder: its tables by SQL, its most frequent values, and how far its runs have come."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitize.errors import UsageError
from sanitize.storage.remote_storage import local_path
from sanitize.storage.vault import private_folder

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from sanitize.storage.corpus import Source


def sql(
    work: Path | str,
    query: str | None = None,
    *,
    name: str | None = None,
    run: str | None = None,
    reveal: bool = False,
    **parameters: object,
) -> pl.DataFrame:
    """The answer to one SELECT over the tables of WORK, or to the named query `name` with its parameters.

    `run` says whose edits and drops are asked: a plan's hash or name, by default those of the latest run. Texts and raw values are masked
    before the query sees them, unless `reveal`.
    Raises UsageError for a statement that is no question, an unknown name or parameter, and for what is no WORK.
    """
    import polars as pl

    return pl.DataFrame(answer(local_path(work), query, name=name, given=parameters, reveal=reveal, run=run))


def top(work: Path | str, kind: str = "all", limit: int = 20, *, by: str = "occurrences", reveal: bool = False) -> pl.DataFrame:
    """The values that occur most often: rank, kind, value (masked unless `reveal`), occurrences, documents.

    `by` is `occurrences`, `documents` or `users`; the last adds a column `users`.
    """
    if by == "users":
        return sql(work, name="top_by_users", reveal=reveal, kind=kind, limit=limit)
    return sql(work, name="top", reveal=reveal, kind=kind, limit=limit, by=by)


def status(work: Path | str) -> dict[str, Any]:
    """What WORK holds: its index, the runs made from it with the tasks done of each, and who is at work in it."""
    from sanitize.core.display import Told
    from sanitize.storage.corpus import read_json
    from sanitize.storage.locks import holder_of

    work = local_path(work)
    private_folder(work)
    index = read_json(work / "index.json") or {}
    runs = [
        {
            "plan_hash": folder.name,
            "plan": (read_json(folder / "plan.json") or {}).get("name"),
            "tasks_done": len(list(folder.glob("tasks/apply-*.json"))),
        }
        for folder in sorted((work / "runs").glob("*"))
    ]
    told = {
        "indexed": bool(index),
        "documents": index["documents"]["sources"][-1]["first_doc_no"] + index["documents"]["sources"][-1]["rows"] if index else None,
        "tasks": len(index.get("ranges", [])),
        "batches": len(index.get("batches", [])) or None,
        "key_id": index.get("key_id"),
        "find_tasks_done": len(list((work / "tasks" / "find").glob("*.json"))),
        "runs": runs,
        "held_by": holder_of(work),
    }
    return Told("status", told)


def answer(
    work: Path,
    query: str | None,
    *,
    name: str | None,
    given: Mapping[str, object],
    reveal: bool,
    run: str | None = None,
    memory_limit: str = "1GB",
    most: int | None = None,
) -> pa.Table:
    """The answer to a query or a named query, as Arrow, at most its first `most` rows.

    `documents` is empty where the input has moved (see `documents_of`).
    """
    from sanitize.storage import queries

    private_folder(work)
    if (query is None) == (name is None):
        raise UsageError("a query and a name exclude each other; give one of them")
    statement: str | queries.Query = query or ""
    if name is not None:
        statement = queries.query(name)
        known_kind(statement.bind(given), work)
    documents = documents_of(work) or ()
    with contextlib.closing(queries.connect(work, reveal=reveal, memory_limit=memory_limit, run=run, documents=documents)) as database:
        return queries.ask(database, statement, given or None, most=most)


# a table that only some plans fill: what a plan of the other sort has not, and which has it
_FILLED_BY = {
    "blacklist": ("blacklist", "its plan has no [blacklist], as the plan `blacklist` has"),
    "drops": ("drop", "its plan has no [[drop]] part"),
    "ledger": ("", "none of its editors spends privacy, as dp_mlm does"),
    "labels": ("", "none of its editors left numbered labels or pseudonyms, as redact and pseudonymize do"),
    "edits": ("edit", "its plan has no [[edit]] part"),
}


def why_empty(work: Path, reads: Collection[str], run: str | None = None) -> str | None:
    """Why a query over these tables may have given no row: the first of them that the shown run left empty, and the runs that did not.
    None where all hold something."""
    from sanitize.storage.corpus import read_json
    from sanitize.storage.views import rows_of_run, run_named, runs

    asked = [name for name in _FILLED_BY if name in reads]
    shown = run_named(work, run)
    if shown is None:
        return f"nothing was run yet from {work}: `sanitize run INPUT -o OUT --work {work}` makes {asked[0]}" if asked else None
    for table in asked:
        if rows_of_run(shown, table):
            continue
        plan = read_json(shown / "plan.json") or {}
        part, lacks = _FILLED_BY[table]
        why = "it found nothing to put there" if part and plan.get(part) else lacks
        others = [f"{folder.name} ({name})" for folder, name in runs(work) if rows_of_run(folder, table)]
        more = f"; --run shows another: {', '.join(others)}" if others else ""
        return f"{table} of run {shown.name} (plan {plan.get('name')}) is empty: {why}{more}"
    return None


def known_kind(bound: Mapping[str, object], work: Path) -> None:
    """Refuse a parameter `kind` that is no kind, in WORK: that is a mistake, and not an empty answer."""
    from sanitize.kinds.kind import bringing, kind
    from sanitize.plans.detection_spec import customs_in

    if bound.get("kind", "all") != "all":
        with bringing(customs_in(work)):
            kind(str(bound["kind"]))


def documents_of(work: Path) -> tuple[Source, ...] | None:
    """The files that `documents` is a view on; None where the input has moved or changed since it was indexed."""
    from sanitize.storage.corpus import Documents, read_json

    index = read_json(work / "index.json")
    sources = Documents.from_json(index["documents"], work).sources if index else ()
    return sources if all(source.is_there() for source in sources) else None
