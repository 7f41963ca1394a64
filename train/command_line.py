"""What the commands `sanitize-train` and `sanitize-eval` share: the command that may be left out,
and how they end."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from sanitize.errors import SanitizeError, internal_error
from sanitize.storage.files import open_closed_streams

from .stop_signals import end_on_signals


class DefaultRunGroup(TyperGroup):
    """Takes the first word as a command; if it is none, as the first argument of `run`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)


def run_app(app: typer.Typer, message_of_stop: str) -> None:
    """Run a command; every error becomes one line without values of the data, and an exit code."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    open_closed_streams()
    try:
        with end_on_signals(message_of_stop):
            app()
    except SystemExit:
        raise
    except SanitizeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BaseException as error:
        typer.echo(f"error: {internal_error(error)}", err=True)
        sys.exit(1)
