"""`sanitize verify`: checks a published folder for changed files and for removed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sanitize.cli.console import print_result
from sanitize.cli.options import AsJson, MemoryLimit, Quiet, Workers, require_choice


def command(
    out: Annotated[str, typer.Argument(metavar="OUT", help="a published folder, or its URL", show_default=False)],
    work: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="the private folder of the run that published OUT (default: OUT.private)", show_default=False),
    ] = None,
    verify: Annotated[str, typer.Option(help="full (every byte, all forms), or fast (as in a run)")] = "full",
    workers: Workers = None,
    memory_limit: MemoryLimit = "1GB",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check a published folder: files against the manifest (exit 3), and removed values that occur in it (exit 4)."""
    from sanitize.core.progress import create_progress_display
    from sanitize.verification.leak_check import verify as verify_output

    found = verify_output(
        out,
        work,
        mode=require_choice("--verify", verify, ("fast", "full")),
        workers=workers,
        memory_limit=memory_limit,
        progress=create_progress_display(quiet),
    )
    print_result(found, as_json, _format_verification, quiet)


def _format_verification(result: Mapping[str, Any]) -> str:
    lines = [f"{result['out']}: {result['shards']} shards match the manifest"]
    lines.append(f"0 of {result['values_checked']:,} removed values were found in {len(result['forms'])} forms:")
    lines.append("  " + ", ".join(result["forms"]))
    if searched := result.get("bytes_searched"):
        lines.append("searched " + ", ".join(f"{size / 1e6:,.1f} MB of {place}" for place, size in searched.items()))
    if result["ambiguous"]:
        counts = ", ".join(f"{times:,} {kind}" for kind, times in result["ambiguous"].items())
        lines.append(f"ambiguous: {counts} (too short or too common to tell from other text)")
    return "\n".join(lines)
