"""`sanitize sql`: questions to the tables of WORK, named or written, or a shell."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sanitize.cli.console import show
from sanitize.cli.options import AsJson, MemoryLimit, Reveal, RunName, Work, documents_of, one_of
from sanitize.inspection.sql_api import known_kind, why_empty
from sanitize.storage.vault import private_folder

if TYPE_CHECKING:
    import duckdb

MOST = 1_000  # rows of a table on a terminal


def command(
    work: Work,
    query: Annotated[str | None, typer.Argument(help="one SELECT over the tables", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(metavar="Q", help="a named query (see --list)", show_default=False)] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="K=V", help="a parameter of the named query", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="the named queries: what each does and takes")] = False,
    init: Annotated[bool, typer.Option("--init", help="print CREATE VIEWs for DuckDB, dbt or a notebook")] = False,
    run: RunName = None,
    reveal: Reveal = False,
    memory_limit: MemoryLimit = "1GB",
    format: Annotated[str, typer.Option(help="table, csv, json or parquet")] = "table",
    as_json: AsJson = False,
) -> None:
    """DuckDB over all tables of WORK; raw values are masked unless --reveal. Without a query: a shell."""
    from sanitize.errors import UsageError
    from sanitize.storage import queries

    asked = [
        word for word, given in (("a query", query), ("--name", name), ("--list", list_), ("--init", init)) if given not in (None, False)
    ]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other; give one of them")
    if set_ and name is None:
        raise UsageError("--set gives a parameter to a named query; say which one with --name (see --list)")
    if list_:
        show(_listed(), as_json or format == "json", _table)
    elif init:
        private_folder(work)
        typer.echo(queries.init_sql(work, reveal=reveal, run=run, documents=documents_of(work)), nl=False)
    elif query is None and name is None:
        _Shell(work, reveal=reveal, run=run, memory_limit=memory_limit).loop()
    else:
        given = queries.settings(set_ or ())
        answer(work, query, name, given, reveal=reveal, run=run, memory_limit=memory_limit, format="json" if as_json else format)


def answer(
    work: Path,
    query: str | None,
    name: str | None,
    given: Mapping[str, str],
    *,
    reveal: bool,
    format: str,
    run: str | None = None,
    memory_limit: str = "1GB",
) -> None:
    """Print what a written or a named query gives; a table ends after its first rows and says so."""
    from sanitize.core.rendering import FORMATS, render
    from sanitize.inspection import sql_api
    from sanitize.storage import queries

    private_folder(work)
    one_of("--format", format, FORMATS)
    documents_of(work)
    statement = queries.query(name) if name is not None else query or ""
    most = MOST + 1 if format == "table" else None
    result = sql_api.answer(work, query, name=name, given=given, reveal=reveal, run=run, memory_limit=memory_limit, most=most)
    _say_run(work, run, statement)
    _say_empty(work, run, statement, result)
    shown = render(result, format, most=MOST)
    if isinstance(shown, bytes):
        sys.stdout.buffer.write(shown)
    else:
        typer.echo(shown, nl=not shown.endswith("\n"))


def _listed() -> list[dict[str, str]]:
    from sanitize.storage import queries

    return [{"name": one.name, "takes": one.signature, "does": one.does} for one in queries.queries().values() if one.askable]


def _table(rows: Iterable[Mapping[str, Any]]) -> str:
    import pyarrow as pa

    from sanitize.core.rendering import render

    return str(render(pa.Table.from_pylist(list(rows)), "table")).rstrip("\n")


def _say_run(work: Path, run: str | None, statement: Any) -> None:
    """Where several runs could be meant, say on stderr whose tables are shown."""
    from sanitize.storage.views import OF_RUN, runs

    known = runs(work)
    words = _names(statement)
    if run is None and len(known) > 1 and (read := sorted(words & {*OF_RUN, "parts"})):
        folder, plan = known[-1]
        typer.echo(f"note: {', '.join(read)} of run {folder.name} (plan {plan}), the latest of {len(known)}; --run names another", err=True)


def _say_empty(work: Path, run: str | None, statement: Any, result: Any) -> None:
    """Say on stderr why a query gave no row, where a table of the run is empty."""
    if not result.num_rows and (why := why_empty(work, _names(statement), run)):
        typer.echo(f"note: {why}", err=True)


def _names(statement: Any) -> set[str]:
    """The tables that a query may read."""
    return set(re.findall(r"\w+", statement.lower()) if isinstance(statement, str) else statement.reads)


HELP = """\
SELECT ... ;           one statement over the tables, ended by a semicolon (DESCRIBE and SUMMARIZE too)
.tables                the tables               .columns TABLE     a table's columns, and what each is
.queries               the named queries        .run NAME k=v ...  run one
.help                  this                     .quit              leave (or ctrl-D)"""


class _Shell:
    """Statements line by line, each answered at its semicolon; a line that begins with a dot is a command."""

    def __init__(self, work: Path, *, reveal: bool, run: str | None, memory_limit: str) -> None:
        from sanitize.storage import queries
        from sanitize.storage.views import run_named

        private_folder(work)
        self._work, self._run = work, run
        self.database: duckdb.DuckDBPyConnection = queries.connect(
            work, reveal=reveal, memory_limit=memory_limit, run=run, documents=documents_of(work)
        )
        with contextlib.suppress(ImportError):
            import readline  # editing of a line; what was asked is not remembered

            readline.set_auto_history(False)
        shown = run_named(work, run)
        whose = f"; edits, drops and ledger of run {shown.name}" if shown else ""
        typer.echo(
            f"{'RAW values are shown' if reveal else 'Texts are masked'}{whose}. One SELECT at a time, ended by ;   .help for more",
            err=True,
        )

    def loop(self) -> None:
        held = ""
        with contextlib.closing(self.database):
            while True:
                try:
                    line = input("...> " if held.strip() else "sql> ")
                    if not held.strip() and line.strip().startswith((".", "\\")):
                        if line.strip() in (".quit", ".exit", ".q", "\\q"):
                            return
                        self._answer(lambda line=line: self._dot(line.strip()))
                        continue
                    held += line + "\n"
                    if held.rstrip().endswith(";"):
                        statement, held = held, ""
                        if statement.strip(" \t\n;"):
                            self._answer(lambda statement=statement: self._asked(statement))
                except EOFError:
                    return
                except KeyboardInterrupt:
                    held = ""
                    typer.echo("", err=True)

    def _answer(self, what: Any) -> None:
        """Say what comes out, or what was wrong; neither ends the shell."""
        from sanitize.errors import SanitizeError

        try:
            typer.echo(what())
        except SanitizeError as error:
            typer.echo(f"error: {error}", err=True)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)

    def _asked(self, statement: Any, given: Mapping[str, object] | None = None) -> str:
        from sanitize.core.rendering import render
        from sanitize.storage.queries import ask

        result = ask(self.database, statement, given, most=MOST + 1)
        _say_empty(self._work, self._run, statement, result)
        return str(render(result, "table", most=MOST)).rstrip("\n")

    def _dot(self, line: str) -> str:
        from sanitize.errors import UsageError, nearest
        from sanitize.storage import queries

        try:
            word, *rest = shlex.split(line.replace("\\", ".", 1) if line.startswith("\\") else line)
        except ValueError:
            raise UsageError("the line ends inside a quotation; close it") from None
        columns = {".columns": ".columns", ".schema": ".columns", ".d": ".columns" if rest else ".tables", ".dt": ".tables"}
        words = {word: word for word in (".help", ".tables", ".queries", ".run")} | columns | {".?": ".help"}
        match words.get(word), rest:
            case ".help", []:
                return HELP
            case ".tables", []:
                return self._tables()
            case ".columns", [table]:
                return self._columns(table)
            case ".queries", []:
                return _table(_listed())
            case ".run", [name, *settings]:
                query = queries.query(name)
                given = queries.settings(settings)
                known_kind(query.bind(given), self._work)
                return self._asked(query, given)
            case None, _:
                raise UsageError(f"there is no command {word[:40]!r}; {nearest(word, words)}")
        raise UsageError("expected .tables, .columns TABLE, .queries, .run NAME k=v ..., .help or .quit")

    def _tables(self) -> str:
        from sanitize.storage import table_schemas

        names = [row[0] for row in self.database.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()]
        about = {name: table.row for name, table in table_schemas.ALL.items()}
        about |= {"documents": "one document of the input, in standard form", "partial_counts": "value_counts of one task"}
        return _table({"table": name, "a row is": about.get(name, "")} for name in names)

    def _columns(self, table: str) -> str:
        from sanitize.errors import UsageError, nearest
        from sanitize.storage import table_schemas

        query = "SELECT column_name, data_type FROM duckdb_columns() WHERE NOT internal AND table_name = ? ORDER BY column_index"
        columns = self.database.execute(query, [table.lower()]).fetchall()
        if not columns:
            known = [row[0] for row in self.database.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()]
            raise UsageError(f"there is no table {table[:60]!r}; {nearest(table, known)}")
        about = table_schemas.ALL[table.lower()].columns if table.lower() in table_schemas.ALL else {}
        return _table({"column": name, "type": kind.lower(), "what it is": about.get(name, "")} for name, kind in columns)
