"""`sanitize sql`: questions to the tables of WORK, named or written, or a shell."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sanitize.ask import private_folder
from sanitize.options import AsJson, Reveal, Work, documents_of, one_of
from sanitize.shown import show, table


def command(
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
        show(rows, as_json or format == "json", lambda rows: table(("name", "does", "takes"), [tuple(row.values()) for row in rows]))
    elif init:
        private_folder(work)
        typer.echo(queries.init_sql(work, reveal=reveal, documents=documents_of(work)))
    elif query is None and name is None:
        _shell(work, reveal)
    else:
        answer(work, query, name, queries.settings(set_ or ()), reveal, "json" if as_json else format)


def _shell(work: Path, reveal: bool) -> None:
    """Statements line by line, each answered at its semicolon."""
    from sanitize import queries
    from sanitize.errors import SanitizeError
    from sanitize.render import render

    private_folder(work)
    database = queries.connect(work, reveal=reveal, documents=documents_of(work))
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


def answer(work: Path, query: str | None, name: str | None, given: Mapping[str, str], reveal: bool, format: str) -> None:
    from sanitize import ask
    from sanitize.errors import UsageError
    from sanitize.render import FORMATS, render

    private_folder(work)
    if query is not None and name is not None:
        raise UsageError("a query and --name exclude each other; give one of them")
    one_of("--format", format, FORMATS)
    documents_of(work)
    shown = render(ask.answer(work, query, name=name, given=given, reveal=reveal), format)
    if isinstance(shown, bytes):
        sys.stdout.buffer.write(shown)
    else:
        typer.echo(shown, nl=not shown.endswith("\n"))
