"""`sanitize explain`: shows what a run would do, from a sample. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sanitize.cli.console import format_blacklist, format_kind_counts, print_result
from sanitize.cli.options import (
    AsJson,
    DropColumns,
    IdColumn,
    Inputs,
    KeepColumns,
    PlanChanges,
    PlanName,
    PseudonymizeColumns,
    SanitizeColumns,
    TextColumn,
    TextSplit,
    UserColumn,
    columns_from_options,
    local_path,
)


def command(
    inputs: Inputs,
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
    forecast: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="curves.json of `sanitize-eval frontier`: forecast how many addresses models may leak, by plan",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run would do: columns, counts and masked before/after pairs of a sample, an estimate. Writes nothing."""
    from sanitize.inspection.preview import explain
    from sanitize.plans.plan import load_plan
    from sanitize.plans.settings import Settings

    print_result(
        explain(inputs, load_plan(plan, set_ or ()), Settings(columns=columns_from_options(locals())), forecast), as_json, format_preview
    )


def format_preview(preview: Mapping[str, Any]) -> str:
    """The result of `explain` as text."""
    from sanitize.readers.column_policies import format_policies

    estimate, plan = preview["estimate"], preview["plan"]
    documents = f"{preview['documents']:,} documents" if preview["documents"] is not None else "documents not counted yet"
    lines = [f"plan      {plan['name']}: {plan['about']}"]
    lines.append(
        f"input     {preview['files']:,} files, {preview['bytes'] / 1e6:,.1f} MB, {documents},"
        f" {preview['unreadable_files']:,} files cannot be read"
    )
    lines += [
        f"columns   {format_policies(preview['columns'])}",
        f"estimate  {estimate['cpu_seconds']:,} CPU-seconds, {estimate['output_mb']:,} MB out, {estimate['workspace_mb']:,} MB private",
    ]
    if "missing_requirements" in preview:
        lines += ["", *(f"missing   {text}" for text in preview["missing_requirements"])]
        lines.append("          The plan cannot run without it. The counts and the estimate below are without its edits.")
    lines += [f"note      {note}" for note in preview.get("notes", ())]
    lines += ["", f"In the first {preview['sampled_documents']:,} documents:", "", format_kind_counts(preview["sample"]["by_kind"]), ""]
    lines += [f"  {drop['documents']:,} dropped by {drop['part']}: {drop['reason']}" for drop in preview["sample"]["dropped"]]
    if "blacklist" in preview["sample"]:
        lines += [f"  blacklist      {format_blacklist(preview['sample']['blacklist'])}"]
    lines += [f"  {pair['kind']:<14} {pair['before']}  ->  {pair['after']}" for pair in preview["examples"]]
    if "forecast" in preview:
        lines.append(
            "\nforecast  addresses that models like the measured ones may leak"
            f" ({preview['forecast']['prompts']} prompts), of those sampled:"
        )
        for row in preview["forecast"]["plans"]:
            lines.append(f"  {row['plan']:<14} {row['expected']:,.1f} of {row['addresses']:,} ({row['low']:,.1f} to {row['high']:,.1f})")
            for band in row["bands"]:
                frequency = f"{band['from']} or more" if band["to"] is None else f"{band['from']} to {band['to']}"
                lines.append(
                    f"    {frequency:>12} times: {band['expected']:,.1f} of {band['addresses']:,}"
                    f" ({band['low']:,.1f} to {band['high']:,.1f})"
                )
    lines.append("\nValues are masked by shape. Nothing was written.")
    return "\n".join(lines)
