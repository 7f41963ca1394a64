"""The command: one verb a file in verbs/; errors become one line and an exit code.

Results for people go to stdout, and to stderr with `--json`; errors to stderr.
"""

from __future__ import annotations

import importlib
import io
import os
import select
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

# in the order of --help; each is sanitize/cli/commands/NAME.py
VERBS = (
    "run",
    "stream",
    "find",
    "explain",
    "top",
    "sql",
    "subject",
    "verify",
    "label",
    "rules",
    "report",
    "replay",
    "demo",
    "doctor",
    "list",
    "status",
)

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
    app.command(verb)(importlib.import_module(f"sanitize.cli.commands.{verb}").command)


_MOMENT = 0.02  # seconds
_heard: list[int] = []  # the signal that stops this command


def _stopped(number: int, frame: FrameType | None) -> None:
    """The first signal stops in good order; a second one ends the process where it stands, which the next run can take as well."""
    _heard.append(number)
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)
    _end(number, frame)


def _end(_number: int, frame: FrameType | None) -> None:
    """End the command, or look again in a moment: libraries in C++ abort where an exception comes out of an import of theirs."""
    if _importing(frame) and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _end)
        signal.setitimer(signal.ITIMER_REAL, _MOMENT)
        return
    raise SystemExit(128 + _heard[0])


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


# told before Polars and Arrow are imported, here and in the workers: one thread each, and allocators that keep what they have
ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",
    **({"ARROW_DEFAULT_MEMORY_POOL": "system"} if sys.platform == "linux" else {}),  # the heap that numpy has too (`child.steady`)
    "MIMALLOC_PURGE_DELAY": "600000",  # ms, elsewhere: what is free goes back between stages (`child.release`), not before
    "_RJEM_MALLOC_CONF": "narenas:1,dirty_decay_ms:2000",
}


def main() -> None:
    """The console script: every error is one clear line and its exit code, without values."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _buffer()
    _heard.clear()
    before = {one: signal.signal(one, _stopped) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        app()
    except BaseException as error:
        sys.exit(_code_of(error))
    finally:
        if _heard and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for one, handler in before.items():
            signal.signal(one, handler)


def _buffer() -> None:
    """Where Python was told not to buffer (PYTHONUNBUFFERED, as in many images), a write to a pipe that closes or a disk that fills takes a
    part of what it is given, and nobody asks how much: what is missing would count as written."""
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        was = sys.stdout
        sys.stdout = open(was.fileno(), "w", encoding=was.encoding, errors=was.errors, closefd=False)  # noqa: SIM115 - for good


def _code_of(error: BaseException) -> int | str | None:
    """The exit code of what ended the command, once it is told."""
    from sanitize.cli.console import say
    from sanitize.errors import SanitizeError, unforeseen
    from sanitize.storage.disk_errors import code_of, failed

    if _heard:  # whatever the signal became on its way through other people's code
        typer.echo("stopped; the same command goes on from here", err=True)
        return 128 + _heard[0]
    if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
        error = error.__context__  # typer makes an exit code of it
    if isinstance(error, SystemExit):
        return error.code
    if isinstance(error, BrokenPipeError) and _nobody_listens():
        _hush()
        return 0
    if not isinstance(error, SanitizeError):
        number = code_of(error)
        error = unforeseen(error) if number is None else failed(Path.cwd(), number)
    say(f"error: {error}", err=True)
    try:
        if sys.stdout is not None:  # as where it was closed by `>&-`
            sys.stdout.flush()
    except OSError:
        _hush()
    return error.exit_code


def _nobody_listens() -> bool:
    """Whether it is our own output that leads nowhere, and no other pipe that broke."""
    if not hasattr(select, "poll"):
        return True
    asked = select.poll()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            asked.register(stream.fileno(), 0)  # an end that is gone is told without being asked for
    return any(said & (select.POLLERR | select.POLLHUP) for _, said in asked.poll(0))


def _hush() -> None:
    """Nobody takes what was still to be said: Python would try once more when it ends, and make an exit code of that."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
