"""Entry point of `sanitize`: registers the commands of `commands/`, turns errors into one line and
an exit code, handles signals.

Text for people is printed to stdout, and to stderr with `--json`; errors to stderr.
"""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import select
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sanitize.cli.console import print_text
from sanitize.cli.settings_sources import (
    FILE_NAME,
    PLAN,
    GivenSetting,
    describe_sources,
    find_settings,
)
from sanitize.errors import UsageError, resume_note, running_command_line, suggest_names
from sanitize.plans.settings import COMMAND_SETTINGS, flag_of
from sanitize.plans.shipped_plans import RenamedPlanWarning

# in the order of --help; each is sanitize/cli/commands/NAME.py
COMMANDS = (
    "run",
    "stream",
    "index",
    "detect",
    "redact",
    "explain",
    "top",
    "sql",
    "subject",
    "verify",
    "label",
    "plan",
    "report",
    "diff",
    "replay",
    "demo",
    "doctor",
    "list",
    "status",
)

# these keep what they have done; the others begin again
_READING_SETTINGS = ("include", "read_as")
_RESUMED_COMMANDS = ("run", "stream", "index", "subject", "label", "replay", "demo")
_running_command: ContextVar[str] = ContextVar("_running_command", default="run")
# the base of all errors in a command line
_ParsingError: type[Exception] = typer.BadParameter.__mro__[1]


class _Command(TyperCommand):
    """A command: a mistake in its command line is one line, and settings that no option gives come
    from variables or `sanitize.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _ParsingError as error:
            _refuse_unknown_option(error, self, ctx)
            message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
            raise UsageError(
                f"{ctx.info_name}: {message[:1].lower()}{message[1:]}; see `sanitize"
                f" {ctx.info_name} -h`"
            ) from None

    def invoke(self, ctx: Any) -> Any:
        _running_command.set(str(self.name))
        names = [name for name in COMMAND_SETTINGS.get(str(self.name), ()) if name in ctx.params]
        # how files are read: also of commands without the settings of a corpus
        names += [one for one in _READING_SETTINGS if one in ctx.params and one not in names]
        names += [PLAN for parameter in self.params if "--plan" in parameter.opts]
        found: list[GivenSetting] = []
        if names:
            given = {
                name: ctx.params[name]
                for name in names
                if ctx.get_parameter_source(name).name == "COMMANDLINE"
            }
            found = find_settings(names, given)
            ctx.params |= {one.name: one.value for one in found}
            # with --quiet only the file is named: others may have made it
            if stated := [
                one for one in found if one.source == FILE_NAME or not ctx.params.get("quiet")
            ]:
                print_text(f"note: {describe_sources(stated)}", err=True)
        try:
            with _notes_on_renamed_plans():
                return super().invoke(ctx)
        except UsageError as error:
            if sources := [one for one in found if f"{flag_of(one.name)} " in str(error)]:
                error.args = (f"{error} The command got {describe_sources(sources)}.",)
            raise


@contextmanager
def _notes_on_renamed_plans() -> Iterator[None]:
    """Context in which a RenamedPlanWarning is printed as a note on stderr, and other warnings as
    before."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", RenamedPlanWarning)  # also with PYTHONWARNINGS=error
        show_others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, RenamedPlanWarning):
                print_text(f"note: {message}", err=True)
            else:
                show_others(message, category, *place, **more)

        warnings.showwarning = show
        yield


class _CommandGroup(TyperGroup):
    """The program: an unknown command or option is one line, with the most similar name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _ParsingError as error:
            _refuse_unknown_option(error, self, ctx)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise UsageError(
                f"there is no command {args[0][:40]!r}; {suggest_names(args[0], self.commands)}"
            )
        return super().resolve_command(ctx, args)


def _refuse_unknown_option(error: Exception, command: Any, context: Any) -> None:
    """Raise UsageError with the most similar option if that is the mistake."""
    option = getattr(error, "option_name", None)
    if option is None or not hasattr(error, "possibilities"):
        return
    names = {
        name
        for parameter in command.get_params(context)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    is_long = option.startswith("--")
    known = [name for name in names if name.startswith("-") and name.startswith("--") == is_long]
    place = f"{context.info_name}: " if context.parent else ""
    raise UsageError(
        f"{place}there is no option {option[:40]};"
        f" {suggest_names(option if is_long else '', known)}"
    ) from None


app = typer.Typer(
    name="sanitize",
    cls=_CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Sanitize a text corpus before a language model is trained on it: find, rewrite, verify,"
        " publish."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _print_version(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    """Print the version with `--version`, then exit."""
    if version:
        import sanitize

        typer.echo(sanitize.__version__)
        raise typer.Exit


for command_name in COMMANDS:
    module = importlib.import_module(f"sanitize.cli.commands.{command_name}")
    app.command(command_name, cls=_Command, epilog=getattr(module, "EPILOG", None))(module.command)


# the mistake is a path of the command, not of this program
_PATH_ERRNOS = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
_RETRY_SECONDS = 0.02  # seconds
_received_signals: list[int] = []  # the signal that stops this command


def _handle_stop_signal(signal_number: int, frame: FrameType | None) -> None:
    """Stop the command in an orderly way at the first signal. A second one ends the process at
    once; the next run can resume then, too."""
    _received_signals.append(signal_number)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    _end_command(signal_number, frame)


def _end_command(_signal_number: int, frame: FrameType | None) -> None:
    """End the command, or try again after 0.02 s while a module is imported: C++ libraries abort on
    an exception raised in their import."""
    if _is_importing(frame) and hasattr(signal, "setitimer"):
        _end_command_later()
        return
    raise SystemExit(128 + _received_signals[0])


def _end_command_later() -> None:
    signal.signal(signal.SIGALRM, _end_command)
    signal.setitimer(signal.ITIMER_REAL, _RETRY_SECONDS)


def _repeat_ignored_exit(unraisable: sys.UnraisableHookArgs) -> None:
    """A hook for exceptions that Python prints and ignores, such as one in a generator that is
    thrown away: if it is the exit after a signal, the command ends 0.02 s later."""
    if (
        _received_signals
        and isinstance(unraisable.exc_value, SystemExit)
        and hasattr(signal, "setitimer")
    ):
        _end_command_later()
    else:
        sys.__unraisablehook__(unraisable)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


# set before Polars and Arrow are imported, here and in the workers: one thread each, and allocators
# that keep freed memory
LIBRARY_ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",
    # the heap that numpy uses, too (see `worker_process.tune_malloc`)
    **({"ARROW_DEFAULT_MEMORY_POOL": "system"} if sys.platform == "linux" else {}),
    # ms, elsewhere: free memory is returned between stages (`worker_process.trim_memory`), not
    # before
    "MIMALLOC_PURGE_DELAY": "600000",
    "_RJEM_MALLOC_CONF": "narenas:1,dirty_decay_ms:2000",
}


def main() -> None:
    """The console script. Every error is printed as one line without values, and sets the exit
    code."""
    from sanitize.storage.files import open_closed_streams

    for name, value in LIBRARY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # imports make a million objects that stay: at Python's 700 their collection is a twentieth of a
    # start
    gc.set_threshold(50_000, 20, 20)
    open_closed_streams()
    _ensure_buffered_stdout()
    _escape_unencodable_output()
    disable_core_dumps()
    _received_signals.clear()
    resume_note.set(None)
    token = running_command_line.set(True)
    previous_handlers = {
        number: signal.signal(number, _handle_stop_signal)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    previous_hook, sys.unraisablehook = sys.unraisablehook, _repeat_ignored_exit
    try:
        app()
    except BaseException as error:
        sys.exit(_report_error(error))
    finally:
        running_command_line.reset(token)
        if _received_signals and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = previous_hook
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def disable_core_dumps() -> None:
    """Let a crash of this process or of a worker leave no image of its memory on disk: it would
    hold raw values and the key."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _ensure_buffered_stdout() -> None:
    """Reopen stdout with a buffer if Python does not buffer it (PYTHONUNBUFFERED, as in many
    container images).

    An unbuffered write to a pipe that closes or to a full disk may write only a part, and `print`
    does not check the count: the missing rest would count as written.
    """
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        unbuffered = sys.stdout
        sys.stdout = open(  # noqa: SIM115 - stays open until the process ends
            unbuffered.fileno(),
            "w",
            encoding=unbuffered.encoding,
            errors=unbuffered.errors,
            closefd=False,
        )


def _escape_unencodable_output() -> None:
    """Let standard output write what its encoding lacks as escapes, such as `\\u2500` where the
    locale is not UTF-8, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _report_error(error: BaseException) -> int | str | None:
    """Print the error that ended the command; return its exit code."""
    from sanitize.errors import ResourceError, SanitizeError, internal_error
    from sanitize.storage.disk_errors import explain_access_error, get_disk_errno, make_disk_error

    if _received_signals:  # other libraries may have turned the exit into another exception
        does = (
            "resumes from here" if _running_command.get() in _RESUMED_COMMANDS else "begins again"
        )
        note = resume_note.get()
        print_text(f"stopped; {note() if note else f'the same command {does}'}", err=True)
        return 128 + _received_signals[0]
    if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
        error = error.__context__  # typer turned it into an exit code
    if isinstance(error, SystemExit):
        return error.code
    if isinstance(error, BrokenPipeError) and _is_output_closed():
        _redirect_output_to_null()
        return 0
    if (
        isinstance(error, OSError)
        and error.errno in _PATH_ERRNOS
        and isinstance(error.filename, str)
    ):
        path = Path(error.filename)
        error = UsageError(
            f"{path}: {explain_access_error(path, error)}; use another path, or change the"
            " permissions"
        )
    if isinstance(error, FileNotFoundError) and _is_current_folder_deleted():
        error = UsageError("the current folder was deleted; change to one that exists, and repeat")
    if not isinstance(error, SanitizeError):
        number = get_disk_errno(error)
        error = internal_error(error) if number is None else make_disk_error(Path.cwd(), number)
    note = resume_note.get() if isinstance(error, ResourceError) else None
    print_text(f"error: {error}{f' ({note()})' if note else ''}", err=True)
    try:
        if sys.stdout is not None:  # None where the shell closed it with `>&-`
            sys.stdout.flush()
    except OSError:
        _redirect_output_to_null()
    return error.exit_code


def _is_current_folder_deleted() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _is_output_closed() -> bool:
    """Whether the reader of our own stdout or stderr is gone; otherwise another pipe broke."""
    if not hasattr(select, "poll"):
        return True
    poller = select.poll()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            poller.register(stream.fileno(), 0)  # POLLERR and POLLHUP are always reported
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poller.poll(0))


def _redirect_output_to_null() -> None:
    """Discard the rest of the output: its reader is gone, and Python would fail to flush it at exit
    and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
