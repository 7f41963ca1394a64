"""`sanitize explain`: shows what a run would do, from a sample in a temporary folder."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import sanitize
from sanitize.cli.console import (
    format_blacklist,
    format_columns,
    format_facts,
    format_kind_counts,
    print_result,
)
from sanitize.cli.options import (
    FROM_OPTIONS,
    AsJson,
    FinderNames,
    Inputs,
    PlanChanges,
    PlanName,
    Reveal,
    local_path,
    with_settings,
)
from sanitize.plans.settings import Settings

if TYPE_CHECKING:
    from sanitize.reporting.leak_forecast import Forecast


@with_settings("explain")
def command(
    inputs: Inputs,
    plan: PlanName = "redact",
    set_: PlanChanges = None,
    finder: FinderNames = None,
    settings: Settings = FROM_OPTIONS,
    forecast: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help=(
                "curves.json of `sanitize-eval frontier`: forecast how many addresses models may"
                " leak, by plan"
            ),
            show_default=False,
        ),
    ] = None,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    """Show what a run would do: columns, counts and before/after pairs of a sample, an estimate,
    files it cannot read. The sample is in a temporary folder meanwhile; nothing else is written.

    INPUT may be -, a text on standard input, which is copied to that folder. The pairs
    are masked; with --reveal they are in clear text, with the line around each.
    """
    from sanitize.inspection.preview import explain_with_settings
    from sanitize.inspection.text_files import STANDARD_INPUT, read_bytes
    from sanitize.plans.plan import load_plan

    chosen = load_plan(plan, set_ or (), finder or ())
    # its mode is 0700: only its owner reads it
    with tempfile.TemporaryDirectory(prefix="sanitize-explain-") as folder:
        text = Path(folder) / "standard_input.txt"
        if STANDARD_INPUT in inputs:
            text.write_bytes(read_bytes(STANDARD_INPUT))
        named = [str(text) if one == STANDARD_INPUT else one for one in inputs]
        found = explain_with_settings(named, chosen, settings, forecast, reveal=reveal)
    print_result(
        found, as_json, functools.partial(_format_preview, is_copied=STANDARD_INPUT in inputs)
    )


def _format_preview(preview: sanitize.ExplainResult, *, is_copied: bool) -> str:
    """The result of `explain` as text. `is_copied`: a text on standard input was."""
    estimate, plan = preview.estimate, preview.plan
    documents = (
        f"{preview.documents:,} documents"
        if preview.documents is not None
        else "documents not counted yet"
    )
    facts = [
        ("plan", f"{plan['name']}: {plan['about']}"),
        (
            "input",
            (
                f"{preview.files:,} files, {preview.bytes / 1e6:,.1f} MB, {documents},"
                f" {preview.unreadable_files:,} files cannot be read"
            ),
        ),
        *(("unreadable", message) for message in preview.unreadable),
    ]
    if preview.quarantine:
        facts.append(
            (
                "quarantine",
                ", ".join(f"{times} {reason}" for reason, times in preview.quarantine.items()),
            )
        )
    if preview.refusal:
        facts.append(("refused", f"a run would stop: {preview.refusal}"))
    facts += [
        *([("shape", preview.shape)] if preview.shape else []),
        (
            "estimate",
            (
                f"{estimate.cpu_seconds:,} CPU-seconds, {estimate.output_mb:,} MB out,"
                f" {estimate.workspace_mb:,} MB private"
            ),
        ),
        *(("missing", message) for message in preview.missing_requirements),
    ]
    if preview.missing_requirements:
        facts.append(
            (
                "",
                (
                    "The plan cannot run without it. The counts and the estimate below are without"
                    " its edits."
                ),
            )
        )
    lines = format_facts([*facts, *(("note", note) for note in preview.notes)])
    if len(preview.columns) > 1:
        lines += ["", format_columns(preview.columns)]
    lines += [
        "",
        f"In the first {preview.sampled_documents:,} documents:",
        "",
        format_kind_counts(preview.sample.by_kind),
        "",
    ]
    lines += [
        f"  {drop.documents:,} dropped by {drop.part}: {drop.reason}"
        for drop in preview.sample.dropped
    ]
    if preview.sample.blacklist:
        lines += [f"  blacklist      {format_blacklist(preview.sample.blacklist)}"]
    lines += [f"  {pair.kind:<14} {pair.before}  ->  {pair.after}" for pair in preview.examples]
    changed_lines = dict.fromkeys(
        (pair.line_before, pair.line_after)
        for pair in preview.examples
        if pair.line_before is not None
    )
    for before, after in changed_lines:
        lines += ["", f"  - {before}", f"  + {after}"]
    if preview.forecast:
        lines.append(
            "\nforecast  addresses that models like the measured ones may leak"
            f" ({preview.forecast.prompts} prompts), of those sampled:"
        )
        for row in preview.forecast.plans:
            lines.append(f"  {row.plan:<14} {_format_forecast(row)}")
            for band in row.bands:
                frequency = (
                    f"{band.from_} or more" if band.to is None else f"{band.from_} to {band.to}"
                )
                lines.append(
                    f"    {frequency:>12} times: {_format_forecast(band)}"
                    f"   ({band.measured_leaked:,} of {band.measured_on:,} leaked when measured)"
                )
    if changed_lines:
        shown = "Values are shown in clear text: do not share this."
    elif preview.examples:
        shown = "Values are masked by shape (--reveal shows them)."
    else:
        shown = "No value of the sample would be changed."
    held = "The text and its sample were" if is_copied else "The sample was"
    lines.append(f"\n{shown} {held} in a temporary folder, now deleted; nothing else was written.")
    return "\n".join(lines)


def _format_forecast(forecast: Forecast) -> str:
    expected = "not measured" if forecast.expected is None else f"{forecast.expected:,.1f}"
    return f"{expected} of {forecast.addresses:,}"
