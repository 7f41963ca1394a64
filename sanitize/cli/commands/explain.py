"""`sanitize explain`: what a run would do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sanitize.cli.console import by_kind, listed, show
from sanitize.cli.options import (
    AsJson,
    Changes,
    Drop,
    IdColumn,
    Inputs,
    Keep,
    PlanName,
    Pseudonymize,
    Sanitize,
    Split,
    TextColumn,
    UserColumn,
    columns_of,
    local_path,
)


def command(
    inputs: Inputs,
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
    forecast: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="curves.json of `sanitize-eval frontier`: what models may leak, by plan",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What a run would do: the columns, counts and masked pairs of a sample, an estimate. Writes nothing."""
    from sanitize.inspection.preview import explain as go
    from sanitize.pipeline.index_build import Settings
    from sanitize.plans.plan import load_plan

    show(go(inputs, load_plan(plan, set_ or ()), Settings(columns=columns_of(locals())), forecast), as_json, explained)


def explained(told: Mapping[str, Any]) -> str:
    from sanitize.readers.staging import shown

    estimate, plan = told["estimate"], told["plan"]
    documents = f"{told['documents']:,} documents" if told["documents"] is not None else "documents not counted yet"
    lines = [f"plan      {plan['name']}: {plan['about']}"]
    lines.append(
        f"input     {told['files']:,} files, {told['bytes'] / 1e6:,.1f} MB, {documents}, {told['unreadable_files']:,} files cannot be read"
    )
    lines += [
        f"columns   {shown(told['columns'])}",
        f"estimate  {estimate['cpu_seconds']:,} CPU-seconds, {estimate['out_mb']:,} MB out, {estimate['work_mb']:,} MB private",
    ]
    if "missing" in told:
        lines += ["", *(f"missing   {text}" for text in told["missing"])]
        lines.append("          The plan cannot run before that; what follows is a count, and an estimate without its edits.")
    lines += [f"note      {note}" for note in told.get("notes", ())]
    lines += ["", f"In the first {told['sampled']:,} documents:", "", by_kind(told["sample"]["by_kind"]), ""]
    lines += [f"  {one['documents']:,} dropped by {one['part']}: {one['reason']}" for one in told["sample"]["dropped"]]
    if "blacklist" in told["sample"]:
        lines += [f"  blacklist      {listed(told['sample']['blacklist'])}"]
    lines += [f"  {pair['kind']:<14} {pair['before']}  ->  {pair['after']}" for pair in told["pairs"]]
    if "forecast" in told:
        lines.append(
            f"\nforecast  addresses that models like the measured ones may say ({told['forecast']['prompts']} prompts), of those sampled:"
        )
        for one in told["forecast"]["plans"]:
            lines.append(f"  {one['plan']:<14} {one['expected']:,.1f} of {one['addresses']:,} ({one['low']:,.1f} to {one['high']:,.1f})")
            for band in one["bands"]:
                most = f"{band['from']} or more" if band["to"] is None else f"{band['from']} to {band['to']}"
                lines.append(
                    f"    {most:>12} times: {band['expected']:,.1f} of {band['addresses']:,} ({band['low']:,.1f} to {band['high']:,.1f})"
                )
    lines.append("\nValues are masked by shape. Nothing was written.")
    return "\n".join(lines)
