"""`sanitize demo`: the main job on invented mails."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sanitize.cli.console import print_json
from sanitize.cli.options import AsJson, local_path


def command(
    folder: Annotated[Path, typer.Option("--dir", parser=local_path, metavar="DIR", help="where to put it")] = Path("demo"),
    mails: Annotated[int, typer.Option(min=10, help="how many mails")] = 2_000,
    as_json: AsJson = False,
) -> None:
    """Make 2,000 invented mails, sanitize them, and show what was found, three before/after pairs, and where everything lies."""
    from sanitize.cli.demo import demo as go

    summary = go(folder, mails, (lambda text: typer.echo(text, err=True)) if as_json else typer.echo)
    if as_json:
        print_json(summary)
