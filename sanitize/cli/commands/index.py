"""`sanitize index`: builds the index of a corpus, and publishes nothing."""

from __future__ import annotations

from typing import Annotated

import typer

import sanitize
from sanitize.cli.console import format_table, print_result
from sanitize.cli.options import (
    FROM_OPTIONS,
    AsJson,
    FinderNames,
    Inputs,
    PlanChanges,
    PlanName,
    Quiet,
    with_settings,
)
from sanitize.plans.settings import Settings


@with_settings("index")
def command(
    inputs: Inputs,
    work: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="the private folder in which to build the index", show_default=False
        ),
    ],
    plan: PlanName = "redact",
    set_: PlanChanges = None,
    finder: FinderNames = None,
    settings: Settings = FROM_OPTIONS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Build the index only, with the finders of a plan. A later run with the same finders and the
    same --work reuses it."""
    from sanitize.pipeline.run import index_with_settings
    from sanitize.plans.plan import load_plan

    print_result(
        index_with_settings(inputs, work, settings, load_plan(plan, set_ or (), finder or ())),
        as_json,
        _format_index_summary,
        quiet,
    )


def _format_index_summary(summary: sanitize.IndexResult) -> str:
    lines = [f"note: {note}" for note in summary.notes]
    lines.append(
        f"{summary.documents_in:,} documents, {summary.quarantined:,} in quarantine,"
        f" {summary.occurrences:,} occurrences"
        + ("" if summary.changed else " (the index was built before)")
    )
    lines += [
        "",
        format_table(("kind", "occurrences"), list(summary.by_kind.items())),
        "",
        f"next  sanitize top {summary.work}",
    ]
    return "\n".join(lines)
