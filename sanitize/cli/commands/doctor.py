"""`sanitize doctor`: whether this machine can do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sanitize.cli.console import print_json
from sanitize.cli.options import AsJson, local_path


def command(
    folder: Annotated[Path, typer.Option("--dir", parser=local_path, metavar="DIR", help="where OUT and WORK shall lie")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Check this machine: versions, disk, modes, locks, workers, optional parts, and a run that is killed and resumed."""
    from sanitize.cli.doctor import Check
    from sanitize.cli.doctor import doctor as go

    def say(check: Check) -> None:
        typer.echo(f"{check.status:<6}  {check.name:<15}  {check.found}", err=as_json)
        if check.do:
            typer.echo(f"{'':<25}{check.do}", err=as_json)

    result = go(folder, say)
    if as_json:
        print_json(result)
    else:
        states = [check["status"] for check in result["checks"]]
        told = ", ".join(f"{states.count(state)} {state}" for state in ("ok", "warn", "fail", "absent") if state in states)
        typer.echo(f"\n{told} in {result['seconds']} s; nothing was left in {result['folder']}")
    if not result["ok"]:
        raise typer.Exit(result["exit_code"])
