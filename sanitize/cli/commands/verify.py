"""`sanitize verify`: checks a published folder for changed files and for removed values."""

from __future__ import annotations

from typing import Annotated

import typer

import sanitize
from sanitize.cli.console import print_result
from sanitize.cli.options import FROM_OPTIONS, AsJson, Quiet, require_choice, with_settings
from sanitize.core.verdict import describe_inconclusive, describe_recall, describe_search
from sanitize.plans.settings import Settings


@with_settings("verify")
def command(
    out: Annotated[
        str,
        typer.Argument(metavar="OUT", help="a published folder, or its URL", show_default=False),
    ],
    work: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="the private folder of the run that published OUT (default: OUT.private)",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        str, typer.Option(help="full (every byte, all forms), or fast (plain forms only)")
    ] = "full",
    settings: Settings = FROM_OPTIONS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check a published folder: files against the manifest (exit 3), and removed values that occur
    in it (exit 4)."""
    from sanitize.verification.published.output_check import verify as verify_output

    found = verify_output(
        out,
        work=work,
        mode=require_choice("--verify", verify, ("fast", "full")),
        workers=settings.workers,
        memory_limit=settings.memory_limit,
        progress=settings.progress,
    )
    print_result(found, as_json, _format_verification, quiet)


def _format_verification(result: sanitize.VerifyResult) -> str:
    lines = [f"{result.out}: {result.shards} shards match the manifest"]
    if result.foreign_files:
        lines.append(f"not published by a run, searched too: {', '.join(result.foreign_files)}")
    found = describe_search(
        0,
        result.values_checked,
        result.values_removed,
        len(result.forms),
        result.kept_originals,
    )
    lines.append(f"{found}:")
    lines.append("  " + ", ".join(result.forms))
    if result.mode != "full":
        lines.append(
            "not searched in the other forms of a full check: this check alone does not make it"
            " publishable"
        )
    if result.ambiguous_values:
        lines.append(
            f"{result.ambiguous_values:,} more value{'s' * (result.ambiguous_values > 1)} may mean"
            " something else, such as a name of one word: a match is no leak"
        )
    if searched := result.bytes_searched:
        lines.append(
            "searched "
            + ", ".join(f"{size / 1e6:,.1f} MB of {place}" for place, size in searched.items())
        )
    if result.inconclusive:
        lines.append(f"not certain: {describe_inconclusive(result.inconclusive)}")
    lines.append(f"recall: {describe_recall(result.measured, result.work).text}")
    return "\n".join(lines)
