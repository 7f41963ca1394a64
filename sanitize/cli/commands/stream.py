"""`sanitize stream`: sanitizes records one batch at a time, as they arrive."""

from __future__ import annotations

from typing import Annotated

import typer

import sanitize
from sanitize.cli.console import format_facts, format_table, print_json, print_text
from sanitize.cli.options import (
    FROM_OPTIONS,
    AsJson,
    FinderNames,
    OptionalPlanName,
    PlanChanges,
    Quiet,
    local_path,
    with_settings,
)
from sanitize.plans.settings import Settings


@with_settings("stream")
def command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT]...",
            help="files and folders; - or none: JSON lines on standard input",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--out",
            metavar="OUT",
            help="FILE.jsonl, or a folder for Parquet (default: standard output)",
            show_default=False,
        ),
    ] = None,
    plan: OptionalPlanName = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help=(
                "the private folder for the values seen so far (default: a temporary one, deleted"
                " at the end)"
            ),
            show_default=False,
        ),
    ] = None,
    set_: PlanChanges = None,
    finder: FinderNames = None,
    lines: Annotated[
        bool,
        typer.Option(
            "--lines",
            help="each line of standard input is a text of its own (default: a JSON object)",
        ),
    ] = False,
    settings: Settings = FROM_OPTIONS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Sanitize records as they arrive: JSON lines in, JSON lines out. Each is edited by what was
    seen before it."""
    from sanitize.engines.worker_process import tune_malloc
    from sanitize.errors import UsageError
    from sanitize.pipeline.streaming.stream import choose_stream, run_stream
    from sanitize.storage.remote_storage import is_url, redact_url

    for url in filter(is_url, [*(inputs or ()), out, state]):
        raise UsageError(
            f"{redact_url(str(url))}: a stream reads and writes local files, standard input and"
            " output only; use `sanitize run` for URLs"
        )
    out_path, state_path = (local_path(path) if path is not None else None for path in (out, state))
    if "-" in (inputs or ()) and inputs != ["-"]:
        raise UsageError("- is standard input, which is read alone; give - or files")
    paths = [local_path(path) for path in inputs or () if path != "-"]
    chosen, settings = choose_stream(plan, state_path, settings, set_ or (), finder or ())
    tune_malloc()
    summary = run_stream(
        paths,
        out_path,
        chosen,
        state_path,
        settings,
        lines=lines,
    )
    if as_json and out is not None:
        print_json(summary.to_dict())
    elif as_json:
        print_json(summary.to_dict(), err=True)  # standard output has the records
    elif not quiet:
        print_text(_format_summary(summary), err=True)


def _format_summary(summary: sanitize.StreamResult) -> str:
    if not summary.changed:
        return f"nothing new; {summary.position:,} records are acknowledged"
    rows = [
        (kind, counts.occurrences, counts.kept, counts.replaced, counts.left_by_plan)
        for kind, counts in summary.by_kind.items()
    ]
    lines = [
        (
            f"{summary.documents_in:,} records in = {summary.documents_out:,} out +"
            f" {summary.quarantined:,} in quarantine in {summary.seconds:.1f} s;"
            f" {summary.position:,} are acknowledged"
        ),
        *([""] if rows else []),
        *(
            [
                format_table(
                    ("kind", "occurrences", "kept", "replaced", "left by plan"),
                    sorted(rows, key=lambda row: -row[1]),
                )
            ]
            if rows
            else []
        ),
    ]
    facts = (
        [
            (
                "quarantine",
                ", ".join(f"{times} {reason}" for reason, times in summary.quarantine.items()),
            )
        ]
        if summary.quarantine
        else []
    )
    facts += [("shape", summary.shape)] if summary.shape else []
    facts += [("note", note) for note in summary.notes]
    facts += [(line.name, line.text) for line in summary.verdict]
    lines += format_facts(facts)
    return "\n".join(lines)
