"""`sanitize doctor`: checks whether `sanitize` can run on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sanitize.cli.console import print_json
from sanitize.cli.options import AsJson, local_path


def command(
    folder: Annotated[
        Path,
        typer.Option(
            "--dir",
            parser=local_path,
            metavar="DIR",
            help="the folder in which OUT and WORK will be created",
        ),
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Check this machine: versions, disk, file modes, locks, workers, optional packages, and a run
    that is killed and resumed."""
    from sanitize.cli.doctor import EnvironmentCheck, doctor

    def print_check(check: EnvironmentCheck) -> None:
        typer.echo(f"{check.status:<6}  {check.name:<15}  {check.detail}", err=as_json)
        if check.action:
            typer.echo(f"{'':<25}{check.action}", err=as_json)

    result = doctor(folder, on_check=print_check)
    if as_json:
        print_json(result.to_dict())
    else:
        states = [check.status for check in result.checks]
        totals = ", ".join(
            f"{states.count(state)} {state}"
            for state in ("ok", "warn", "fail", "absent")
            if state in states
        )
        typer.echo(
            f"\n{totals} in {result.seconds} s; all test files in {result.folder} were removed"
        )
    if not result.ok:
        raise typer.Exit(result.exit_code)
