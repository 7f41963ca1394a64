"""`sanitize top`: the most frequent values."""

from __future__ import annotations

from typing import Annotated

import typer

from sanitize.options import AsJson, Reveal, Work
from sanitize.verbs.sql import answer


def command(
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
    answer(work, None, "top", {"kind": kind, "limit": str(limit)}, reveal, "json" if as_json else format)
