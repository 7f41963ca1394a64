"""The command: one verb a file in verbs/; errors become one line and an exit code.

Results for people go to stdout, and to stderr with `--json`; errors to stderr.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

# in the order of --help; each is sanitize/verbs/NAME.py
VERBS = ("run", "find", "explain", "top", "sql", "verify", "replay", "demo", "doctor", "list", "status")

app = typer.Typer(
    name="sanitize",
    help="Sanitize a text corpus before a language model is trained on it: find, rewrite, verify, publish.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _version(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="say the version")] = False) -> None:
    if version:
        import sanitize

        typer.echo(sanitize.__version__)
        raise typer.Exit


for verb in VERBS:
    app.command(verb)(importlib.import_module(f"sanitize.verbs.{verb}").command)


def _stopped(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """The console script: every error is one clear line and its exit code; a traceback is shown for our own bugs only, without values."""
    from sanitize.errors import SanitizeError

    signal.signal(signal.SIGTERM, _stopped)
    # before Polars is imported, here and in the workers: one thread each, and allocators that keep what they have
    for name, value in (
        ("POLARS_MAX_THREADS", "1"),
        ("MIMALLOC_PURGE_DELAY", "-1"),
        ("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:2000"),
    ):
        os.environ.setdefault(name, value)
    try:
        app()
    except SanitizeError as error:
        from sanitize.shown import say

        say(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from here", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        # a bug of ours: where it happened, never what the data was
        import traceback

        places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)[-6:]]
        typer.echo(f"bug: {type(error).__name__} at {' > '.join(places)}\nPlease report this line; it holds no data.", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
