"""`sanitize stream`: sanitizes records one batch at a time, as they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sanitize.cli.console import format_table, print_json, print_text
from sanitize.cli.options import (
    AsJson,
    DropColumns,
    IdColumn,
    KeepColumns,
    KeyFile,
    MaxDocBytes,
    MaxQuarantine,
    PlanChanges,
    PlanName,
    PseudonymizeColumns,
    Quiet,
    RowsPerShard,
    SanitizeColumns,
    Seed,
    TextColumn,
    UserColumn,
    columns_from_options,
    local_path,
    parse_share,
)


def command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT]...", help="files and folders (default: JSON lines on standard input)", show_default=False),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", metavar="OUT", help="FILE.jsonl, or a folder for Parquet (default: standard output)", show_default=False
        ),
    ] = None,
    plan: PlanName = "rmft",
    state: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="the private folder for the values seen so far (default: a temporary one, deleted at the end)",
            show_default=False,
        ),
    ] = None,
    set_: PlanChanges = None,
    text_column: TextColumn = None,
    user_column: UserColumn = None,
    id_column: IdColumn = None,
    sanitize: SanitizeColumns = None,
    keep: KeepColumns = None,
    pseudonymize: PseudonymizeColumns = None,
    drop: DropColumns = None,
    seed: Seed = None,
    key: KeyFile = None,
    workers: Annotated[int, typer.Option(min=1, help="processes that find values in parallel; the order of records stays")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="at most this many records are acknowledged together")] = 10_000,
    rows_per_shard: RowsPerShard = 50_000,
    max_quarantine: MaxQuarantine = "10%",
    max_doc_bytes: MaxDocBytes = 32 << 20,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Sanitize records as they arrive: JSON lines in, JSON lines out. Each is edited by what was seen before it."""
    from sanitize.engines.worker_process import tune_malloc
    from sanitize.errors import UsageError
    from sanitize.pipeline.streaming.stream import StreamSettings, run_stream
    from sanitize.plans.plan import load_plan
    from sanitize.storage.remote_storage import is_url, redact_url

    for url in filter(is_url, [*(inputs or ()), out, state]):
        raise UsageError(
            f"{redact_url(str(url))}: a stream reads and writes local files, standard input and output only; use `sanitize run` for URLs"
        )
    options = locals()
    settings = StreamSettings(
        columns=columns_from_options({**options, "split": "file"}),
        seed=seed,
        key_file=key,
        workers=workers,
        max_batch_records=batch,
        rows_per_shard=rows_per_shard,
        max_doc_bytes=max_doc_bytes,
        max_quarantine=parse_share(max_quarantine),
    )
    out_path, state_path = (local_path(path) if path is not None else None for path in (out, state))
    tune_malloc()
    summary = run_stream([local_path(path) for path in inputs or ()], out_path, load_plan(plan, set_ or ()), state_path, settings)
    if as_json and out is not None:
        print_json(summary)
    elif as_json:
        print_json(summary, err=True)  # standard output has the records
    elif not quiet:
        print_text(_format_summary(summary), err=True)


def _format_summary(summary: Mapping[str, Any]) -> str:
    if not summary["changed"]:
        return f"nothing new; {summary['position']:,} records are acknowledged"
    rows = [
        (kind, counts["occurrences"], counts["kept"], counts["replaced"], counts["left_by_plan"])
        for kind, counts in summary["by_kind"].items()
    ]
    lines = [
        f"{summary['documents_in']:,} records in = {summary['documents_out']:,} out + {summary['quarantined']:,} in quarantine"
        f" in {summary['seconds']:.1f} s; {summary['position']:,} are acknowledged",
        *([""] if rows else []),
        *(
            [format_table(("kind", "occurrences", "kept", "replaced", "left by plan"), sorted(rows, key=lambda row: -row[1]))]
            if rows
            else []
        ),
    ]
    if summary["quarantine"]:
        lines.append(f"quarantine {', '.join(f'{times} {reason}' for reason, times in summary['quarantine'].items())}")
    lines += [f"note: {note}" for note in summary["notes"]]
    if summary["swept"]:
        lines.append(f"verify    {summary['swept']:,} occurrences that the finders had missed were swept")
    return "\n".join(lines)
