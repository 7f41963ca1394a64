"""`sanitize sql`: runs a named query or a SELECT on the tables of WORK, or opens an SQL shell."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sanitize.cli.completion import complete_query
from sanitize.cli.console import print_result, report_lost_output
from sanitize.cli.options import (
    FROM_OPTIONS,
    AsJson,
    Reveal,
    RunName,
    WorkspacePath,
    document_sources_or_note,
    require_choice,
    with_settings,
)
from sanitize.plans.settings import Settings

if TYPE_CHECKING:
    import duckdb

MAX_TERMINAL_ROWS = 1_000  # rows of a table on a terminal


@with_settings("sql")
def command(
    work: WorkspacePath,
    query: Annotated[
        str | None, typer.Argument(help="one SELECT over the tables", show_default=False)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="Q",
            autocompletion=complete_query,
            help="a named query (see --list)",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="K=V", help="a parameter of the named query", show_default=False
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="list the named queries with their parameters")
    ] = False,
    init: Annotated[
        bool,
        typer.Option("--init", help="print CREATE VIEW statements for DuckDB, dbt or a notebook"),
    ] = False,
    run: RunName = None,
    reveal: Reveal = False,
    settings: Settings = FROM_OPTIONS,
    format: Annotated[str, typer.Option(help="table, csv, json or parquet")] = "table",
    as_json: AsJson = False,
) -> None:
    """Query all tables of WORK with DuckDB; raw values are masked without --reveal. Without a
    query: a shell."""
    from sanitize.errors import UsageError
    from sanitize.storage import queries
    from sanitize.storage.private_folder import require_run_workspace

    actions = [
        word
        for word, given in (
            ("a query", query),
            ("--name", name),
            ("--list", list_),
            ("--init", init),
        )
        if given not in (None, False)
    ]
    if len(actions) > 1:
        raise UsageError(f"{' and '.join(actions)} exclude each other; give one of them")
    if set_ and name is None:
        raise UsageError(
            "--set gives a parameter to a named query; name the query with --name (see --list)"
        )
    if list_:
        print_result(_list_queries(), as_json or format == "json", _format_rows)
    elif init:
        require_run_workspace(work)
        statements = queries.create_views_sql(
            work, reveal=reveal, run=run, documents=document_sources_or_note(work)
        )
        with report_lost_output():
            typer.echo(statements, nl=False)
    elif query is None and name is None:
        _SqlShell(work, reveal=reveal, run=run, memory_limit=settings.memory_limit).run_loop()
    else:
        given = queries.parse_set_options(set_ or ())
        print_query_result(
            work,
            query,
            name,
            given,
            reveal=reveal,
            run=run,
            memory_limit=settings.memory_limit,
            format="json" if as_json else format,
        )


def print_query_result(
    work: Path,
    query: str | None,
    name: str | None,
    parameters: Mapping[str, str],
    *,
    reveal: bool,
    format: str,
    run: str | None = None,
    memory_limit: str = "1GB",
) -> None:
    """Run a SELECT or a named query and print its result. A table on the terminal is cut after
    1,000 rows, with a note."""
    from sanitize.core.table_rendering import TABLE_FORMATS, render_table
    from sanitize.inspection import sql_api
    from sanitize.storage import queries
    from sanitize.storage.private_folder import require_run_workspace

    require_run_workspace(work)
    require_choice("--format", format, TABLE_FORMATS)
    document_sources_or_note(work)
    statement = queries.get_query(name) if name is not None else query or ""
    max_rows = MAX_TERMINAL_ROWS + 1 if format == "table" else None
    result = sql_api.query_workspace(
        work,
        query,
        name=name,
        parameters=parameters,
        reveal=reveal,
        run=run,
        memory_limit=memory_limit,
        max_rows=max_rows,
    )
    _note_shown_run(work, run, statement)
    _note_empty_result(work, run, statement, result)
    shown = render_table(result, format, max_rows=MAX_TERMINAL_ROWS)
    with report_lost_output():
        if isinstance(shown, str):
            typer.echo(shown, nl=not shown.endswith("\n"))
        elif sys.stdout is not None:
            sys.stdout.buffer.write(shown)


def _list_queries() -> list[dict[str, str]]:
    from sanitize.storage import queries

    return [
        {"name": query.name, "params": query.signature, "description": query.description}
        for query in queries.load_queries().values()
        if query.is_user_query
    ]


def _format_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    import pyarrow as pa

    from sanitize.core.table_rendering import render_table

    return str(render_table(pa.Table.from_pylist(list(rows)), "table")).rstrip("\n")


def _note_shown_run(work: Path, run: str | None, statement: Any) -> None:
    """If WORK has several runs and none was chosen, print on stderr from which run the tables
    are."""
    from sanitize.storage.runs.run_folders import RUN_TABLE_FOLDERS, list_runs

    runs = list_runs(work)
    words = _tables_read(statement)
    if run is None and len(runs) > 1 and (read := sorted(words & {*RUN_TABLE_FOLDERS, "parts"})):
        latest = runs[-1]
        typer.echo(
            f"note: {', '.join(read)} of run {latest.folder.name} (plan {latest.plan}), the"
            f" latest of {len(runs)}; choose another one with --run",
            err=True,
        )


def _note_empty_result(work: Path, run: str | None, statement: Any, result: Any) -> None:
    """Print on stderr why a query gave no row, if a table of the run is empty."""
    from sanitize.inspection.sql_api import explain_empty_result

    if not result.num_rows and (reason := explain_empty_result(work, _tables_read(statement), run)):
        typer.echo(f"note: {reason}", err=True)


def _tables_read(statement: Any) -> set[str]:
    """Names that may be tables of the query: all words of a SELECT, the declared tables of a named
    query."""
    return set(
        re.findall(r"\w+", statement.lower()) if isinstance(statement, str) else statement.tables
    )


SHELL_HELP = """\
SELECT ... ;           one statement over the tables, ended by a semicolon (DESCRIBE and SUMMARIZE too)
.tables                the tables               .columns TABLE     the columns of a table
.queries               the named queries        .run NAME k=v ...  run one
.help                  this                     .quit              leave (or ctrl-D)"""  # noqa: E501


class _SqlShell:
    """An SQL shell: a statement runs at its semicolon; a line that begins with a dot is a shell
    command."""

    def __init__(self, work: Path, *, reveal: bool, run: str | None, memory_limit: str) -> None:
        from sanitize.storage import queries
        from sanitize.storage.private_folder import require_run_workspace
        from sanitize.storage.runs.run_folders import find_run

        require_run_workspace(work)
        self._work, self._run = work, run
        self.database: duckdb.DuckDBPyConnection = queries.open_connection(
            work,
            reveal=reveal,
            memory_limit=memory_limit,
            run=run,
            documents=document_sources_or_note(work),
        )
        with contextlib.suppress(ImportError):
            import readline  # line editing; no history, since statements may contain values

            readline.set_auto_history(False)
        shown_run = find_run(work, run)
        run_note = f"; edits, drops and ledger of run {shown_run.folder.name}" if shown_run else ""
        typer.echo(
            f"{'RAW values are shown' if reveal else 'Texts are masked'}{run_note}. One SELECT at a"
            " time, ended by ;   .help for more",
            err=True,
        )

    def run_loop(self) -> None:
        """Read and run statements and dot commands until `.quit` or the end of input; an interrupt
        discards the open statement."""
        pending = ""  # lines of a statement without its semicolon yet
        with contextlib.closing(self.database):
            while True:
                try:
                    line = input("...> " if pending.strip() else "sql> ")
                    if not pending.strip() and line.strip().startswith((".", "\\")):
                        if line.strip() in (".quit", ".exit", ".q", "\\q"):
                            return
                        self._print_answer(lambda line=line: self._run_dot_command(line.strip()))
                        continue
                    pending += line + "\n"
                    if pending.rstrip().endswith(";"):
                        statement, pending = pending, ""
                        if statement.strip(" \t\n;"):
                            self._print_answer(
                                lambda statement=statement: self._run_statement(statement)
                            )
                except EOFError:
                    if pending.strip() and not sys.stdin.isatty():
                        # a file or pipe whose last statement has no semicolon
                        self._print_answer(lambda statement=pending: self._run_statement(statement))
                    return
                except KeyboardInterrupt:
                    pending = ""
                    typer.echo("", err=True)

    def _print_answer(self, compute_answer: Any) -> None:
        """Print the answer, or the error; neither ends the shell."""
        from sanitize.errors import SanitizeError

        try:
            typer.echo(compute_answer())
        except SanitizeError as error:
            typer.echo(f"error: {error}", err=True)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)

    def _run_statement(self, statement: Any, parameters: Mapping[str, object] | None = None) -> str:
        from sanitize.core.table_rendering import render_table
        from sanitize.storage.queries import run_query

        result = run_query(self.database, statement, parameters, max_rows=MAX_TERMINAL_ROWS + 1)
        _note_empty_result(self._work, self._run, statement, result)
        return str(render_table(result, "table", max_rows=MAX_TERMINAL_ROWS)).rstrip("\n")

    def _run_dot_command(self, line: str) -> str:
        from sanitize.errors import UsageError, suggest_names
        from sanitize.inspection.sql_api import require_known_kind
        from sanitize.storage import queries

        try:
            word, *rest = shlex.split(line.replace("\\", ".", 1) if line.startswith("\\") else line)
        except ValueError:
            raise UsageError("the line ends inside a quotation; close it") from None
        columns = {
            ".columns": ".columns",
            ".schema": ".columns",
            ".d": ".columns" if rest else ".tables",
            ".dt": ".tables",
        }
        words = (
            {word: word for word in (".help", ".tables", ".queries", ".run")}
            | columns
            | {".?": ".help"}
        )
        match words.get(word), rest:
            case ".help", []:
                return SHELL_HELP
            case ".tables", []:
                return self._list_tables()
            case ".columns", [table]:
                return self._list_columns(table)
            case ".queries", []:
                return _format_rows(_list_queries())
            case ".run", [name, *settings]:
                query = queries.get_query(name)
                given = queries.parse_set_options(settings)
                require_known_kind(query.bind(given), self._work)
                return self._run_statement(query, given)
            case None, _:
                raise UsageError(f"there is no command {word[:40]!r}; {suggest_names(word, words)}")
        raise UsageError(
            "expected .tables, .columns TABLE, .queries, .run NAME k=v ..., .help or .quit"
        )

    def _list_tables(self) -> str:
        from sanitize.storage import table_schemas

        names = [
            row[0]
            for row in self.database.execute(
                "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
            ).fetchall()
        ]
        descriptions = {
            name: table.row_description for name, table in table_schemas.ALL_TABLES.items()
        }
        descriptions |= {
            "documents": "one document of the input, in standard form",
            "partial_counts": "value_counts of one task",
        }
        return _format_rows(
            {"table": name, "a row is": descriptions.get(name, "")} for name in names
        )

    def _list_columns(self, table: str) -> str:
        from sanitize.errors import UsageError, suggest_names
        from sanitize.storage import table_schemas

        query = (
            "SELECT column_name, data_type FROM duckdb_columns() WHERE NOT internal AND table_name"
            " = ? ORDER BY column_index"
        )
        columns = self.database.execute(query, [table.lower()]).fetchall()
        if not columns:
            known = [
                row[0]
                for row in self.database.execute(
                    "SELECT view_name FROM duckdb_views() WHERE NOT internal"
                ).fetchall()
            ]
            raise UsageError(f"there is no table {table[:60]!r}; {suggest_names(table, known)}")
        descriptions = (
            table_schemas.ALL_TABLES[table.lower()].column_descriptions
            if table.lower() in table_schemas.ALL_TABLES
            else {}
        )
        return _format_rows(
            {"column": name, "type": sql_type.lower(), "what it is": descriptions.get(name, "")}
            for name, sql_type in columns
        )
