"""`sanitize stream`: the same plan over records as they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sanitize.cli.console import print_json, say, table
from sanitize.cli.options import (
    AsJson,
    Changes,
    Drop,
    IdColumn,
    Keep,
    KeyFile,
    MaxDocBytes,
    MaxQuarantine,
    PlanName,
    Pseudonymize,
    Quiet,
    RowsPerShard,
    Sanitize,
    Seed,
    TextColumn,
    UserColumn,
    columns_of,
    local_path,
    share,
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
        typer.Option(metavar="DIR", help="the private folder of what was seen (default: forgotten at the end)", show_default=False),
    ] = None,
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
    workers: Annotated[int, typer.Option(min=1, help="processes that look for values ahead; the order stays")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="records that are acknowledged together, at most")] = 10_000,
    rows_per_shard: RowsPerShard = 50_000,
    max_quarantine: MaxQuarantine = "10%",
    max_doc_bytes: MaxDocBytes = 32 << 20,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Sanitize records as they come: JSON lines in, JSON lines out, each decided against what was seen before it."""
    from sanitize.engines.worker_process import steady
    from sanitize.errors import UsageError
    from sanitize.pipeline.streaming.stream import Options, pipe
    from sanitize.plans.plan import load_plan
    from sanitize.storage.remote_storage import is_url, shown

    for url in filter(is_url, [*(inputs or ()), out, state]):
        raise UsageError(f"{shown(str(url))}: a stream knows local files, standard input and output only; `sanitize run` takes URLs")
    said = locals()
    options = Options(
        columns=columns_of({**said, "split": "file"}),
        seed=seed,
        key_file=key,
        workers=workers,
        rows=batch,
        rows_per_shard=rows_per_shard,
        max_doc_bytes=max_doc_bytes,
        max_quarantine=share(max_quarantine),
    )
    into, here = (local_path(one) if one is not None else None for one in (out, state))
    steady()
    summary = pipe([local_path(one) for one in inputs or ()], into, load_plan(plan, set_ or ()), here, options)
    if as_json and out is not None:
        print_json(summary)
    elif as_json:
        print_json(summary, err=True)  # standard output has the records
    elif not quiet:
        say(_streamed(summary), err=True)


def _streamed(summary: Mapping[str, Any]) -> str:
    if not summary["changed"]:
        return f"nothing new; {summary['position']:,} records are acknowledged"
    rows = [(kind, one["occurrences"], one["kept"], one["replaced"], one["left"]) for kind, one in summary["by_kind"].items()]
    lines = [
        f"{summary['documents_in']:,} records in = {summary['documents_out']:,} out + {summary['quarantined']:,} in quarantine"
        f" in {summary['seconds']:.1f} s; {summary['position']:,} are acknowledged",
        *([""] if rows else []),
        *([table(("kind", "occurrences", "kept", "replaced", "left by plan"), sorted(rows, key=lambda row: -row[1]))] if rows else []),
    ]
    if summary["quarantine"]:
        lines.append(f"set aside {', '.join(f'{times} {reason}' for reason, times in summary['quarantine'].items())}")
    lines += [f"note: {note}" for note in summary["notes"]]
    if summary["swept"]:
        lines.append(f"verify    {summary['swept']:,} that the finders had missed were swept")
    return "\n".join(lines)
