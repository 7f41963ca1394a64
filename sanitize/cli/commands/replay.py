"""`sanitize replay`: reproduces an output from its manifest and inputs, and compares every
shard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sanitize
from sanitize.cli.console import print_result
from sanitize.cli.options import FROM_OPTIONS, AsJson, Inputs, Quiet, local_path, with_settings
from sanitize.plans.settings import Settings


@with_settings("replay")
def command(
    manifest: Annotated[
        Path,
        typer.Argument(
            parser=local_path,
            metavar="MANIFEST",
            help="manifest.json of a run with --seed, or its folder",
            show_default=False,
        ),
    ],
    inputs: Inputs,
    out: Annotated[
        str,
        typer.Option(
            "-o", "--out", metavar="OUT", help="the folder to publish", show_default=False
        ),
    ],
    work: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="a new private folder (default: OUT.private)", show_default=False
        ),
    ] = None,
    settings: Settings = FROM_OPTIONS,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="publish OUT even if it differs")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the output of a manifest from its inputs, and compare every shard (if one differs:
    exit 3, nothing published)."""
    from sanitize.errors import OutputBroken
    from sanitize.inspection.reproduction import replay

    result = replay(
        manifest,
        inputs,
        out,
        work=work,
        workers=settings.workers,
        memory_limit=settings.memory_limit,
        anyway=anyway,
        known=settings.known,
        progress=settings.progress,
    )
    print_result(result, as_json, _format_replay, quiet)
    if not result.same:
        raise typer.Exit(OutputBroken.exit_code)


def _format_replay(result: sanitize.ReplayResult) -> str:
    lines = [f"note: {note}" for note in result.notes]
    shards, different = result.shards, result.different_shards
    if result.same:
        earlier = "" if result.changed else " (made by an earlier replay)"
        manifest_too = ", and so is the manifest" if result.same_manifest else ""
        verb = "shard is" if shards == 1 else "shards are"
        lines.append(
            f"same: all {shards} {verb} byte for byte those of the manifest{manifest_too}{earlier}"
        )
    else:
        if different:
            numbers = ", ".join(map(str, different[:20])) + (" ..." if len(different) > 20 else "")
            lines.append(
                f"different: {len(different)} of {shards} shards (number {numbers}, counted from 0)"
            )
        if result.different_counts:
            lines.append(f"different: the counts of {', '.join(result.different_counts)}")
    lines.append(
        f"shards    {result.out}/data"
        if result.published
        else (
            f"nothing was published; the new shards are in {result.work}. Publish them with"
            " --anyway"
        )
    )
    return "\n".join(lines)
