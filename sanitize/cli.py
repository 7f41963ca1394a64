"""The command: arguments in, one call, a result out. Results for people go to stderr with `--json`, else to stdout; errors to stderr."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sanitize.run import Settings

app = typer.Typer(
    name="sanitize",
    help="Sanitize a text corpus before a language model is trained on it: find, rewrite, verify, publish.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Inputs = Annotated[
    list[Path],
    typer.Argument(metavar="INPUT...", help="files and folders: Parquet, JSON lines, mbox, maildir, mails", show_default=False),
]
Work = Annotated[Path, typer.Argument(metavar="WORK", help="the private folder of a run, such as clean.private", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="one line, one object, on stdout; all else on stderr")]
Reveal = Annotated[bool, typer.Option(help="show raw values")]
PlanName = Annotated[str, typer.Option("--plan", help="a shipped plan (sanitize list plans) or a TOML file")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change the plan, such as edit.0.keep=2", show_default=False)
]
Sanitize = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="clean this column (all texts by default)", show_default=False)]
Keep = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="leave this column as it is; it is checked all the same", show_default=False)
]
Pseudonymize = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="a keyed code for each text (user_id by default)", show_default=False)
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="leave this column out", show_default=False)]
TextColumn = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="the main text, then further ones (default: text)", show_default=False)
]
UserColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="who wrote it (default: user_id, or a mail's From)", show_default=False)
]
IdColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="the document's id (default: doc_id)", show_default=False)]
Seed = Annotated[int | None, typer.Option(help="a public key: repeatable anywhere, guessable by anyone", show_default=False)]
KeyFile = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="the secret key (default: the vault's own)", show_default=False)
]
Workers = Annotated[int | None, typer.Option(min=1, help="processes at work (default: one a core)", show_default=False)]
MemoryLimit = Annotated[str, typer.Option(help="for counting in DuckDB")]
RowsPerShard = Annotated[int, typer.Option(min=1, max=1 << 19, help="documents of one output shard")]
MaxQuarantine = Annotated[str, typer.Option(help="the share of records that may be set aside")]
MaxDocBytes = Annotated[int, typer.Option(min=1, max=1 << 29, help="larger documents are set aside")]
Strict = Annotated[bool, typer.Option("--strict", help="set nothing aside: stop at the first bad record")]


@app.callback(invoke_without_command=True)
def _version(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="say the version")] = False) -> None:
    if version:
        import sanitize

        typer.echo(sanitize.__version__)
        raise typer.Exit


@app.command()
def run(
    inputs: Inputs,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="OUT", help="the folder to publish", show_default=False)],
    plan: PlanName = "rmft",
    work: Annotated[Path | None, typer.Option(metavar="DIR", help="the private folder (default: OUT.private)", show_default=False)] = None,
    set_: Changes = None,
    text_column: TextColumn = None,
    user_column: UserColumn = None,
    id_column: IdColumn = None,
    sanitize: Sanitize = None,
    keep: Keep = None,
    pseudonymize: Pseudonymize = None,
    drop: Drop = None,
    seed: Seed = None,
    key: KeyFile = None,
    workers: Workers = None,
    memory_limit: MemoryLimit = "1GB",
    rows_per_shard: RowsPerShard = 50_000,
    max_quarantine: MaxQuarantine = "10%",
    max_doc_bytes: MaxDocBytes = 32 << 20,
    strict: Strict = False,
    verify: Annotated[str, typer.Option(help="fast, or off (then not publishable)")] = "fast",
    replace: Annotated[bool, typer.Option("--replace", help="swap an OUT of another plan for the new one, once that is whole")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be done (as `explain`)")] = False,
    as_json: AsJson = False,
) -> None:
    """Sanitize a corpus: index every occurrence, rewrite, verify, and publish OUT in one rename."""
    from sanitize.plan import load_plan
    from sanitize.run import run as go

    chosen = load_plan(plan, set_ or ())
    columns = _columns(
        text_column, user_column, id_column, {"sanitize": sanitize, "keep": keep, "pseudonymize": pseudonymize, "drop": drop}
    )
    settings = _settings(locals(), columns, verify=_one_of("--verify", verify, ("fast", "off")), replace=replace)
    if dry_run:
        from sanitize.explain import explain as describe

        _show(describe(inputs, chosen, settings), as_json, _explained)
        return
    _show(go(inputs, out, chosen, work, settings), as_json, _ran)


@app.command()
def find(
    inputs: Inputs,
    work: Annotated[Path, typer.Option(metavar="DIR", help="the private folder to make the index in", show_default=False)],
    text_column: TextColumn = None,
    user_column: UserColumn = None,
    id_column: IdColumn = None,
    sanitize: Sanitize = None,
    keep: Keep = None,
    pseudonymize: Pseudonymize = None,
    drop: Drop = None,
    seed: Seed = None,
    key: KeyFile = None,
    workers: Workers = None,
    memory_limit: MemoryLimit = "1GB",
    rows_per_shard: RowsPerShard = 50_000,
    max_quarantine: MaxQuarantine = "10%",
    max_doc_bytes: MaxDocBytes = 32 << 20,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Build the index only; a later run with any plan and the same --work uses it."""
    from sanitize.run import find as go

    columns = _columns(
        text_column, user_column, id_column, {"sanitize": sanitize, "keep": keep, "pseudonymize": pseudonymize, "drop": drop}
    )
    _show(go(inputs, work, _settings(locals(), columns)), as_json, _found)


@app.command()
def explain(
    inputs: Inputs,
    plan: PlanName = "rmft",
    set_: Changes = None,
    text_column: TextColumn = None,
    user_column: UserColumn = None,
    id_column: IdColumn = None,
    sanitize: Sanitize = None,
    keep: Keep = None,
    pseudonymize: Pseudonymize = None,
    drop: Drop = None,
    as_json: AsJson = False,
) -> None:
    """What a run would do: the columns, counts and masked pairs of a sample, an estimate. Writes nothing."""
    from sanitize.explain import explain as go
    from sanitize.plan import load_plan
    from sanitize.run import Settings

    columns = _columns(
        text_column, user_column, id_column, {"sanitize": sanitize, "keep": keep, "pseudonymize": pseudonymize, "drop": drop}
    )
    _show(go(inputs, load_plan(plan, set_ or ()), Settings(columns=columns)), as_json, _explained)


@app.command()
def top(
    work: Work,
    kind: Annotated[str, typer.Option(help="one kind, such as EMAIL_ADDRESS")] = "all",
    limit: Annotated[int, typer.Option("--limit", min=1, help="how many")] = 20,
    reveal: Reveal = False,
    format: Annotated[str, typer.Option(help="table, csv, json or parquet")] = "table",
    as_json: AsJson = False,
) -> None:
    """The values that occur most often, by rank (masked)."""
    from sanitize.kinds.kind import kind as known

    if kind != "all":
        known(kind)
    _ask(work, None, "top", {"kind": kind, "limit": str(limit)}, reveal, "json" if as_json else format)


@app.command()
def sql(
    work: Work,
    query: Annotated[str | None, typer.Argument(help="one SELECT over the tables", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(metavar="Q", help="a named query (see --list)", show_default=False)] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="K=V", help="a parameter of the named query", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="the named queries: what each does and takes")] = False,
    init: Annotated[bool, typer.Option("--init", help="print CREATE VIEWs for DuckDB, dbt or a notebook")] = False,
    reveal: Reveal = False,
    format: Annotated[str, typer.Option(help="table, csv, json or parquet")] = "table",
    as_json: AsJson = False,
) -> None:
    """DuckDB over all tables of WORK; raw values are masked unless --reveal. Without a query: a shell."""
    from sanitize import queries

    if list_:
        rows = [{"name": one.name, "does": one.does, "takes": one.signature} for one in queries.queries().values() if one.askable]
        _show(rows, as_json or format == "json", lambda rows: _table(("name", "does", "takes"), [tuple(row.values()) for row in rows]))
    elif init:
        _work(work)
        typer.echo(queries.init_sql(work, reveal=reveal, documents=_documents(work)))
    elif query is None and name is None:
        _shell(work, reveal)
    else:
        _ask(work, query, name, queries.settings(set_ or ()), reveal, "json" if as_json else format)


@app.command()
def verify(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="a published folder", show_default=False)],
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", help="the folder it was made in (default: OUT.private)", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at a published folder again: integrity (exit 3), and values that had to go (exit 4)."""
    from sanitize.verify import check

    _show(check(out, work), as_json, _verified)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="where to put it")] = Path("demo"),
    mails: Annotated[int, typer.Option(min=10, help="how many mails")] = 2_000,
    as_json: AsJson = False,
) -> None:
    """Make 2,000 invented mails, sanitize them, and show what was found, three before/after pairs, and where everything lies."""
    from sanitize.demo import demo as go

    summary = go(folder, mails, (lambda text: typer.echo(text, err=True)) if as_json else typer.echo)
    if as_json:
        _print_json(summary)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="kinds, finders, droppers, editors, plans or engines")] = "kinds",
    as_json: AsJson = False,
) -> None:
    """What there is: kinds, finders, droppers, editors, plans, engines."""
    from sanitize import part, plan
    from sanitize.engines.engine import engine_names
    from sanitize.kinds.kind import kinds

    def about(room: part.Room) -> dict[str, str]:
        import importlib

        return {name: (importlib.import_module(f"sanitize.{room}.{name}").__doc__ or "").partition("\n")[0] for name in part.names(room)}

    rooms: dict[str, Callable[[], dict[str, str]]] = {
        "kinds": lambda: {kind.name: kind.about for kind in kinds().values()},
        "finders": lambda: about("find"),
        "droppers": lambda: about("drop"),
        "editors": lambda: about("edit"),
        "plans": lambda: {name: plan.load_plan(name).about for name in plan.plan_names()},
        "engines": lambda: dict.fromkeys(engine_names(), "spawned workers and DuckDB on this machine"),
    }
    found = rooms[_one_of("list", what, tuple(rooms))]()
    _show(
        [{"name": name, "about": text} for name, text in found.items()],
        as_json,
        lambda rows: _table(("name", "about"), [tuple(row.values()) for row in rows]),
    )


@app.command()
def status(work: Work, as_json: AsJson = False) -> None:
    """What lies in WORK: the index, and the runs made from it."""
    from sanitize.lock import holder_of
    from sanitize.shards import read_json

    _work(work)
    index = read_json(work / "index.json") or {}
    runs = [
        {
            "plan_hash": folder.name,
            "plan": (read_json(folder / "plan.json") or {}).get("name"),
            "tasks_done": len(list(folder.glob("tasks/*.json"))),
        }
        for folder in sorted((work / "runs").glob("*"))
    ]
    found = {
        "indexed": bool(index),
        "documents": index["documents"]["sources"][-1]["first_doc_no"] + index["documents"]["sources"][-1]["rows"] if index else None,
        "tasks": len(index.get("ranges", [])),
        "key_id": index.get("key_id"),
        "find_tasks_done": len(list((work / "tasks" / "find").glob("*.json"))),
        "runs": runs,
        "held_by": holder_of(work),
    }
    _show(found, as_json, _status)


# ---- what the verbs share ----


def _columns(text: list[str] | None, user: str | None, identity: str | None, policies: Mapping[str, list[str] | None]) -> Any:
    from sanitize.corpus import Columns
    from sanitize.errors import UsageError
    from sanitize.read import Roles

    said: dict[str, str] = {}
    for policy, names in policies.items():
        for name in names or ():
            if said.get(name, policy) != policy:
                raise UsageError(f"--{policy} {name}: the same column stands under --{said[name]}; it can have one policy")
            said[name] = policy
    return Columns(roles=Roles(text=tuple(text or ("text",)), user=user, id=identity), policies=said)


def _settings(said: Mapping[str, Any], columns: Any, **more: Any) -> Settings:
    from sanitize.run import Settings

    return Settings(
        columns=columns,
        seed=said["seed"],
        key_file=said["key"],
        workers=said["workers"],
        memory_limit=said["memory_limit"],
        rows_per_shard=said["rows_per_shard"],
        max_doc_bytes=said["max_doc_bytes"],
        max_quarantine=_share(said["max_quarantine"]),
        strict=said["strict"],
        progress=_progress(),
        **more,
    )


def _share(text: str) -> float:
    from sanitize.errors import UsageError

    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"--max-quarantine {text}: expected a share of the records, such as 10% or 0.1")
    return share


def _one_of(option: str, word: str, known: tuple[str, ...]) -> str:
    from sanitize.errors import UsageError, nearest

    if word not in known:
        raise UsageError(f"{option} {word}: {nearest(word, known)}")
    return word


def _progress() -> Callable[[str, int, int], None]:
    """A line on a terminal that is written over; elsewhere a line at the end of each stage."""
    terminal = sys.stderr.isatty() and not os.environ.get("CI")

    def show(stage: str, done: int, total: int) -> None:
        if not total:
            return
        if terminal:
            sys.stderr.write(f"\r\x1b[K{stage:<8} {done}/{total} tasks" + ("\r\x1b[K" if done == total else ""))
            sys.stderr.flush()
        elif done == total:
            sys.stderr.write(f"{stage}: {total} {'task' if total == 1 else 'tasks'} done\n")

    return show


def _work(work: Path) -> None:
    from sanitize.errors import UsageError

    if not (work / "vault").is_dir():
        raise UsageError(f"{work}: not the private folder of a run; expected the WORK of `sanitize run` or `find`, such as clean.private")


def _documents(work: Path) -> Any:
    from sanitize.shards import Documents, read_json

    index = read_json(work / "index.json")
    sources = Documents.from_json(index["documents"]).sources if index else ()
    if not all(source.is_there() for source in sources):
        typer.echo(
            "note: the input has moved or changed since it was indexed; `documents` is empty, all other tables are as they were", err=True
        )
        return ()
    return sources


def _ask(work: Path, query: str | None, name: str | None, given: Mapping[str, str], reveal: bool, format: str) -> None:
    from sanitize import queries
    from sanitize.errors import UsageError
    from sanitize.render import FORMATS, render

    _work(work)
    if query is not None and name is not None:
        raise UsageError("a query and --name exclude each other; give one of them")
    _one_of("--format", format, FORMATS)
    database = queries.connect(work, reveal=reveal, documents=_documents(work))
    try:
        result = queries.ask(database, queries.query(name), given) if name is not None else queries.ask(database, query or "", None)
    finally:
        database.close()
    shown = render(result, format)
    if isinstance(shown, bytes):
        sys.stdout.buffer.write(shown)
    else:
        typer.echo(shown, nl=not shown.endswith("\n"))


def _shell(work: Path, reveal: bool) -> None:
    """Statements line by line, each answered at its semicolon."""
    from sanitize import queries
    from sanitize.errors import SanitizeError
    from sanitize.render import render

    _work(work)
    database = queries.connect(work, reveal=reveal, documents=_documents(work))
    typer.echo("One SELECT at a time, ended by ;   (SHOW TABLES; lists them, ctrl-D ends)", err=True)
    held = ""
    try:
        while True:
            try:
                held += input("... " if held.strip() else "sql> ") + "\n"
            except EOFError:
                return
            if held.strip() and held.rstrip().endswith(";"):
                try:
                    typer.echo(render(queries.ask(database, held), "table"))
                except SanitizeError as error:
                    typer.echo(f"error: {error}", err=True)
                held = ""
    finally:
        database.close()


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def _show(value: Any, as_json: bool, human: Callable[[Any], str]) -> None:
    if as_json:
        _print_json(value)
    else:
        typer.echo(human(value))


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    cells = [
        head,
        *[tuple("" if value is None else f"{value:,}" if isinstance(value, int) else str(value) for value in row) for row in rows],
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    right = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(text.rjust(width) if side else text.ljust(width) for text, width, side in zip(row, widths, right, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _by_kind(by_kind: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (kind, entry["occurrences"], entry["values"], entry["kept"], entry["replaced"], entry["left"]) for kind, entry in by_kind.items()
    ]
    return _table(("kind", "occurrences", "values", "kept", "replaced", "left by plan"), sorted(rows, key=lambda row: -row[1]))


def _ran(summary: Mapping[str, Any]) -> str:
    from sanitize.corpus import shown

    out, work, check = summary["out"], summary["work"], summary["verify"]
    if not summary["changed"]:
        return f"{out} is already what this plan makes of this input; nothing to do."
    lines = [*(f"note: {note}" for note in summary["notes"])]
    lines.append(
        f"Done in {summary['seconds']} s: {summary['documents_in']:,} documents in = {summary['documents_out']:,} out"
        f" + {summary['documents_dropped']:,} dropped + {summary['quarantined']:,} in quarantine"
    )
    lines += ["", _by_kind(summary["by_kind"]), ""]
    lines.append(f"columns   {shown(summary['columns'])}")
    if summary["quarantine"]:
        lines.append(f"set aside {', '.join(f'{times} {reason}' for reason, times in summary['quarantine'].items())}")
    if check["mode"] == "off":
        lines.append("verify    off: nothing was checked, not publishable")
    else:
        swept = f"; {check['swept']:,} that the finders had missed were swept" if check["swept"] else ""
        lines.append(
            f"verify    {summary['leaks']} of {check['values_checked']:,} values that had to go found in {len(check['forms'])} forms{swept}"
        )
    if summary["kept_originals"]:
        lines.append(f"kept      {summary['kept_originals']:,} originals stay by plan (the first of each value)")
    if summary["key"] == "seed":
        lines.append("key       from a seed: reproducible, replacements guessable, no privacy claim")
    if not summary["publishable"]:
        lines.append("publish   not publishable (see the plan)")
    lines += ["", f"shards    {out}/data", f"report    {out}/report.html", f"private   {work}   (raw values: do not share)"]
    lines.append(f"next      sanitize top {work}   |   sanitize sql {work} --list   |   sanitize verify {out}")
    return "\n".join(lines)


def _found(found: Mapping[str, Any]) -> str:
    lines = [f"note: {note}" for note in found["notes"]]
    lines.append(
        f"{found['documents_in']:,} documents, {found['quarantined']:,} in quarantine, {found['occurrences']:,} occurrences"
        + ("" if found["changed"] else " (the index was there)")
    )
    lines += ["", _table(("kind", "occurrences"), list(found["by_kind"].items())), "", f"next  sanitize top {found['work']}"]
    return "\n".join(lines)


def _explained(told: Mapping[str, Any]) -> str:
    from sanitize.corpus import shown

    estimate, plan = told["estimate"], told["plan"]
    documents = f"{told['documents']:,} documents" if told["documents"] is not None else "documents not counted yet"
    lines = [f"plan      {plan['name']}: {plan['about']}"]
    lines.append(
        f"input     {told['files']:,} files, {told['bytes'] / 1e6:,.1f} MB, {documents}, {told['unreadable_files']:,} files cannot be read"
    )
    lines += [
        f"columns   {shown(told['columns'])}",
        f"estimate  {estimate['cpu_seconds']:,} CPU-seconds, {estimate['out_mb']:,} MB out, {estimate['work_mb']:,} MB private",
    ]
    lines += ["", f"In the first {told['sampled']:,} documents:", "", _by_kind(told["sample"]["by_kind"]), ""]
    lines += [f"  {pair['kind']:<14} {pair['before']}  ->  {pair['after']}" for pair in told["pairs"]]
    lines.append("\nValues are masked by shape. Nothing was written.")
    return "\n".join(lines)


def _verified(result: Mapping[str, Any]) -> str:
    forms = ", ".join(result["forms"])
    return f"{result['out']}: {result['shards']} shards are what the manifest says; 0 values that had to go, in {forms} form"


def _status(found: Mapping[str, Any]) -> str:
    if not found["indexed"]:
        return f"no index yet ({found['find_tasks_done']} tasks of find done)"
    lines = [f"index     {found['documents']:,} documents, {found['tasks']} tasks, key {found['key_id']}"]
    lines += [
        f"run       {run['plan_hash']}  plan {run['plan']}, {run['tasks_done']} of {found['tasks']} tasks done" for run in found["runs"]
    ]
    if found["held_by"]:
        lines.append(f"held by   process {found['held_by'].get('pid')} on {found['held_by'].get('host')}")
    return "\n".join(lines)


def _stopped(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """The console script: every error is one clear line and its exit code; a traceback is shown for our own bugs only, without values."""
    from sanitize.errors import SanitizeError

    signal.signal(signal.SIGTERM, _stopped)
    # before Polars is imported, here and in the workers: one thread each, and allocators that keep what they have
    for name, value in (
        ("POLARS_MAX_THREADS", "1"),
        ("MIMALLOC_PURGE_DELAY", "-1"),
        ("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:2000"),
    ):
        os.environ.setdefault(name, value)
    try:
        app()
    except SanitizeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from here", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        # a bug of ours: where it happened, never what the data was
        import traceback

        places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)[-6:]]
        typer.echo(f"bug: {type(error).__name__} at {' > '.join(places)}\nPlease report this line; it holds no data.", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
