"""`sanitize verify`: a published folder looked at again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sanitize.options import AsJson
from sanitize.shown import show


def command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="a published folder", show_default=False)],
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", help="the folder it was made in (default: OUT.private)", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at a published folder again: integrity (exit 3), and values that had to go (exit 4)."""
    from sanitize.verify import check

    show(check(out, work), as_json, _verified)


def _verified(result: Mapping[str, Any]) -> str:
    forms = ", ".join(result["forms"])
    return f"{result['out']}: {result['shards']} shards are what the manifest says; 0 values that had to go, in {forms} form"
