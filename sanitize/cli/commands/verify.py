"""`sanitize verify`: a published folder looked at again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sanitize.cli.console import show
from sanitize.cli.options import AsJson, MemoryLimit, Quiet, Workers, one_of


def command(
    out: Annotated[str, typer.Argument(metavar="OUT", help="a published folder, or its URL", show_default=False)],
    work: Annotated[
        str | None, typer.Option(metavar="DIR", help="the folder it was made in (default: OUT.private)", show_default=False)
    ] = None,
    verify: Annotated[str, typer.Option(help="full (every byte, all forms), or fast (as in a run)")] = "full",
    workers: Workers = None,
    memory_limit: MemoryLimit = "1GB",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Look at a published folder again: integrity (exit 3), and values that had to go (exit 4)."""
    from sanitize.core.progress import shower
    from sanitize.verification.leak_check import check

    found = check(
        out, work, mode=one_of("--verify", verify, ("fast", "full")), workers=workers, memory_limit=memory_limit, progress=shower(quiet)
    )
    show(found, as_json, _verified, quiet)


def _verified(result: Mapping[str, Any]) -> str:
    lines = [f"{result['out']}: {result['shards']} shards are what the manifest says"]
    lines.append(f"0 of {result['values_checked']:,} values that had to go were found in {len(result['forms'])} forms:")
    lines.append("  " + ", ".join(result["forms"]))
    if looked := result.get("looked"):
        lines.append("looked at " + ", ".join(f"{size / 1e6:,.1f} MB of {place}" for place, size in looked.items()))
    if result["ambiguous"]:
        told = ", ".join(f"{times:,} {kind}" for kind, times in result["ambiguous"].items())
        lines.append(f"ambiguous: {told} (too short or too common to tell from other text)")
    return "\n".join(lines)
