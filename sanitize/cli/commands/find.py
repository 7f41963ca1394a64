"""`sanitize find`: builds the index of a corpus, and publishes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sanitize.cli.console import format_table, print_result
from sanitize.cli.options import (
    AsJson,
    DropColumns,
    EngineName,
    IdColumn,
    Inputs,
    KeepColumns,
    KeyFile,
    KnownValuesFile,
    MaxDocBytes,
    MaxQuarantine,
    MemoryLimit,
    PlanChanges,
    PlanName,
    PseudonymizeColumns,
    Quiet,
    RowsPerShard,
    SanitizeColumns,
    Seed,
    SparkConnectUrl,
    SparkMaster,
    Strict,
    TextColumn,
    TextSplit,
    UserColumn,
    Workers,
    settings_from_options,
)


def command(
    inputs: Inputs,
    work: Annotated[str, typer.Option(metavar="DIR", help="the private folder in which to build the index", show_default=False)],
    plan: PlanName = "rmft",
    set_: PlanChanges = None,
    text_column: TextColumn = None,
    user_column: UserColumn = None,
    id_column: IdColumn = None,
    split: TextSplit = "file",
    sanitize: SanitizeColumns = None,
    keep: KeepColumns = None,
    pseudonymize: PseudonymizeColumns = None,
    drop: DropColumns = None,
    seed: Seed = None,
    key: KeyFile = None,
    known: KnownValuesFile = None,
    workers: Workers = None,
    engine: EngineName = "local",
    master: SparkMaster = None,
    remote: SparkConnectUrl = None,
    memory_limit: MemoryLimit = "1GB",
    rows_per_shard: RowsPerShard = 50_000,
    max_quarantine: MaxQuarantine = "10%",
    max_doc_bytes: MaxDocBytes = 32 << 20,
    strict: Strict = False,
    replace: Annotated[bool, typer.Option("--replace", help="build the index again if the folder holds that of another input")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Build the index only, with the finders of a plan. A later run with the same finders and the same --work reuses it."""
    from sanitize.pipeline.run import find
    from sanitize.plans.plan import load_plan

    loaded_plan = load_plan(plan, set_ or ())
    print_result(find(inputs, work, settings_from_options(locals(), replace=replace), loaded_plan), as_json, _format_index_summary, quiet)


def _format_index_summary(summary: Mapping[str, Any]) -> str:
    lines = [f"note: {note}" for note in summary["notes"]]
    lines.append(
        f"{summary['documents_in']:,} documents, {summary['quarantined']:,} in quarantine, {summary['occurrences']:,} occurrences"
        + ("" if summary["changed"] else " (the index was built before)")
    )
    lines += ["", format_table(("kind", "occurrences"), list(summary["by_kind"].items())), "", f"next  sanitize top {summary['work']}"]
    return "\n".join(lines)
