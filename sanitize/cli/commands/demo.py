"""`sanitize demo`: generates invented mails, sanitizes them, and shows the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sanitize.cli.console import print_json
from sanitize.cli.options import AsJson, local_path


def command(
    folder: Annotated[
        Path, typer.Option("--dir", parser=local_path, metavar="DIR", help="the folder to write to")
    ] = Path("demo"),
    mails: Annotated[int, typer.Option(min=10, help="how many mails")] = 2_000,
    as_json: AsJson = False,
) -> None:
    """Generate 2,000 invented mails, sanitize them, and show what was found, three before/after
    pairs, and the files written."""
    from sanitize.cli.demo import run_demo

    summary = run_demo(
        folder, mails, (lambda text: typer.echo(text, err=True)) if as_json else typer.echo
    )
    if as_json:
        out = Path(summary.out)
        files = {
            "mails": str(folder / "mails.mbox"),
            "shards": str(out / "data"),
            "report": str(out / "report.html"),
        }
        print_json({**summary.to_dict(), **files})
