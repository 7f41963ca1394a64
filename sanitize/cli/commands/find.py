"""`sanitize find`: the index only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sanitize.cli.console import show, table
from sanitize.cli.options import (
    AsJson,
    Changes,
    Drop,
    EngineName,
    IdColumn,
    Inputs,
    Keep,
    KeyFile,
    Known,
    Master,
    MaxDocBytes,
    MaxQuarantine,
    MemoryLimit,
    PlanName,
    Pseudonymize,
    Quiet,
    Remote,
    RowsPerShard,
    Sanitize,
    Seed,
    Split,
    Strict,
    TextColumn,
    UserColumn,
    Workers,
    settings_of,
)


def command(
    inputs: Inputs,
    work: Annotated[str, typer.Option(metavar="DIR", help="the private folder to make the index in", show_default=False)],
    plan: PlanName = "rmft",
    set_: Changes = None,
    text_column: TextColumn = None,
    user_column: UserColumn = None,
    id_column: IdColumn = None,
    split: Split = "file",
    sanitize: Sanitize = None,
    keep: Keep = None,
    pseudonymize: Pseudonymize = None,
    drop: Drop = None,
    seed: Seed = None,
    key: KeyFile = None,
    known: Known = None,
    workers: Workers = None,
    engine: EngineName = "local",
    master: Master = None,
    remote: Remote = None,
    memory_limit: MemoryLimit = "1GB",
    rows_per_shard: RowsPerShard = 50_000,
    max_quarantine: MaxQuarantine = "10%",
    max_doc_bytes: MaxDocBytes = 32 << 20,
    strict: Strict = False,
    replace: Annotated[bool, typer.Option("--replace", help="make the index of another input anew")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Build the index only, with the finders of a plan; a later run with a plan of the same finders and the same --work uses it."""
    from sanitize.pipeline.run import find as go
    from sanitize.plans.plan import load_plan

    chosen = load_plan(plan, set_ or ())
    show(go(inputs, work, settings_of(locals(), replace=replace), chosen), as_json, _found, quiet)


def _found(found: Mapping[str, Any]) -> str:
    lines = [f"note: {note}" for note in found["notes"]]
    lines.append(
        f"{found['documents_in']:,} documents, {found['quarantined']:,} in quarantine, {found['occurrences']:,} occurrences"
        + ("" if found["changed"] else " (the index was there)")
    )
    lines += ["", table(("kind", "occurrences"), list(found["by_kind"].items())), "", f"next  sanitize top {found['work']}"]
    return "\n".join(lines)
