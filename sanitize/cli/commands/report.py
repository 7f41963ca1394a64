"""`sanitize report`: writes the report of a published folder again, and its charts as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sanitize
from sanitize.cli.console import print_result
from sanitize.cli.options import AsJson, WorkspaceOfOutput, local_path


def command(
    out: Annotated[
        Path,
        typer.Argument(
            parser=local_path, metavar="OUT", help="a published folder", show_default=False
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--to",
            parser=local_path,
            metavar="FILE",
            help="the file to write the page to (default: OUT.report.html, beside OUT)",
            show_default=False,
        ),
    ] = None,
    work: WorkspaceOfOutput = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="DIR",
            help="write the charts as files to this folder (needs the extra plots)",
            show_default=False,
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="format of the charts: png or svg")] = "png",
    as_json: AsJson = False,
) -> None:
    """Write the report of a published folder again, outside of it: one HTML page, and charts as
    files."""
    from sanitize.reporting.report_data import report

    print_result(
        report(out, to=to, figures=figures, work=work, format=format), as_json, _format_report_paths
    )


def _format_report_paths(result: sanitize.ReportResult) -> str:
    lines = [f"page      {result.page}"] if result.page else []
    lines += [f"figure    {path}" for path in result.figures]
    if not result.samples:
        lines.append(
            "note: the page has no samples: nothing was edited, or the input has moved or changed"
            " since the run"
        )
    return "\n".join(lines)
