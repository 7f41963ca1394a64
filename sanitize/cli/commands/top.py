"""`sanitize top`: lists the most frequent values."""

from __future__ import annotations

from typing import Annotated

import typer

from sanitize.cli.commands.sql import print_query_result
from sanitize.cli.completion import complete_kind, complete_words
from sanitize.cli.options import (
    FROM_OPTIONS,
    AsJson,
    Reveal,
    WorkspacePath,
    require_choice,
    with_settings,
)
from sanitize.plans.settings import Settings

RANKINGS = ("occurrences", "documents", "users")


@with_settings("top")
def command(
    work: WorkspacePath,
    kind: Annotated[
        str, typer.Option(autocompletion=complete_kind, help="one kind, such as EMAIL_ADDRESS")
    ] = "all",
    by: Annotated[
        str,
        typer.Option(
            autocompletion=complete_words(lambda: RANKINGS),
            help="rank by occurrences, documents or users",
        ),
    ] = "occurrences",
    sources: Annotated[
        bool,
        typer.Option("--sources", help="with the file and the position of the first occurrence"),
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="number of values")] = 20,
    reveal: Reveal = False,
    settings: Settings = FROM_OPTIONS,
    format: Annotated[str, typer.Option(help="table, csv, json or parquet")] = "table",
    as_json: AsJson = False,
) -> None:
    """List the values that occur most often, by rank (masked without --reveal)."""
    from sanitize.errors import UsageError

    require_choice("--by", by, RANKINGS)
    given = {"kind": kind, "limit": str(limit)} | ({} if by == "users" else {"by": by})
    if sources and by == "users":
        raise UsageError("--sources: is not shown with --by users; leave one of them out")
    name = "top_sources" if sources else "top_values_by_users" if by == "users" else "top_values"
    print_query_result(
        work,
        None,
        name,
        given,
        reveal=reveal,
        memory_limit=settings.memory_limit,
        format="json" if as_json else format,
    )
