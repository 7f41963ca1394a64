"""`sanitize report`: the report of a published folder made again, and its figures as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sanitize.cli.console import show
from sanitize.cli.options import AsJson, local_path


def command(
    out: Annotated[Path, typer.Argument(parser=local_path, metavar="OUT", help="a published folder", show_default=False)],
    to: Annotated[
        Path | None,
        typer.Option(
            "-o", "--to", parser=local_path, metavar="FILE", help="the page (default: OUT.report.html, beside OUT)", show_default=False
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(parser=local_path, metavar="DIR", help="the folder it was made in (default: OUT.private)", show_default=False),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(parser=local_path, metavar="DIR", help="also the figures, as files (needs the extra plots)", show_default=False),
    ] = None,
    format: Annotated[str, typer.Option(help="of the figures: png or svg")] = "png",
    as_json: AsJson = False,
) -> None:
    """The report of a published folder made again, outside of it: one page, and its figures as files."""
    from sanitize.reporting.report_data import report as go

    show(go(out, to=to, figures_to=figures, work=work, format=format), as_json, _made)


def _made(result: Mapping[str, Any]) -> str:
    lines = [f"page      {result['page']}"] if result["page"] else []
    lines += [f"figure    {path}" for path in result["figures"]]
    if not result["samples"]:
        lines.append("note: there are no samples: nothing was edited, or the input has moved or changed since")
    return "\n".join(lines)
