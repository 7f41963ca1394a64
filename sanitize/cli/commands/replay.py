"""`sanitize replay`: a corpus made again from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sanitize.cli.console import show
from sanitize.cli.options import AsJson, Inputs, Known, MemoryLimit, Quiet, Workers, local_path


def command(
    manifest: Annotated[
        Path,
        typer.Argument(parser=local_path, metavar="MANIFEST", help="manifest.json of a run with --seed, or its folder", show_default=False),
    ],
    inputs: Inputs,
    out: Annotated[str, typer.Option("-o", "--out", metavar="OUT", help="the folder to publish", show_default=False)],
    work: Annotated[str | None, typer.Option(metavar="DIR", help="a new private folder (default: OUT.private)", show_default=False)] = None,
    workers: Workers = None,
    memory_limit: MemoryLimit = "1GB",
    known: Known = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="publish OUT even where it is different")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make the corpus of a manifest again from its inputs, and compare every shard (different: exit 3, nothing published)."""
    from sanitize.core.progress import shower
    from sanitize.errors import OutputBroken
    from sanitize.inspection.reproduction import replay as go

    result = go(manifest, inputs, out, work, workers=workers, memory_limit=memory_limit, anyway=anyway, known=known, progress=shower(quiet))
    show(result, as_json, _replayed, quiet)
    if not result["same"]:
        raise typer.Exit(OutputBroken.exit_code)


def _replayed(result: Mapping[str, Any]) -> str:
    lines = [f"note: {note}" for note in result["notes"]]
    shards, different = result["shards"], result["different"]
    if result["same"]:
        again = "" if result["changed"] else " (made by an earlier replay)"
        whole = ", and so is the manifest" if result["manifest_same"] else ""
        lines.append(f"same: all {shards} {'shard is' if shards == 1 else 'shards are'} byte for byte those of the manifest{whole}{again}")
    else:
        if different:
            named = ", ".join(map(str, different[:20])) + (" ..." if len(different) > 20 else "")
            lines.append(f"different: {len(different)} of {shards} shards (number {named}, counted from 0)")
        if result["counts_different"]:
            lines.append(f"different: the counts of {', '.join(result['counts_different'])}")
    lines.append(
        f"shards    {result['out']}/data" if result["published"] else f"nothing was published (--anyway does); it lies in {result['work']}"
    )
    return "\n".join(lines)
