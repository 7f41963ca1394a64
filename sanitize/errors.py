"""Exceptions that sanitize raises on purpose, and the exit code of each.

    SanitizeError                1  (an internal error where this class itself is raised)
    +-- UsageError               2  the command or its options cannot be executed as given
    |   +-- PlanError            2  a plan is wrong, or does not fit the data
    +-- InputRefused             3  a named input cannot be used, or nothing is readable
    +-- OutputBroken             3  a shard, manifest or index does not match its record
    +-- LeakFound                4  a removed value occurs in the output; nothing was published
    +-- QuarantineExceeded       5  more records were quarantined than the limit allows
    +-- Locked                   6  another run holds the folder
    +-- ResourceError            7  disk or memory
    +-- MissingExtra             8  an optional dependency is not installed
    +-- InstallationBroken       8  the compiled modules are missing or do not match their sources
    +-- RemoteUnavailable        9  a remote storage or another machine does not answer, or fails
    +-- OccurrencesFound        10  `sanitize detect --fail-on` found a kind that must not occur

A message states what happened, where, what was expected and what to do. It never carries a value or
a piece of text from the data.
"""

from __future__ import annotations

import difflib
import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

__all__ = [
    "InputRefused",
    "InstallationBroken",
    "LeakFound",
    "Locked",
    "MissingExtra",
    "OccurrencesFound",
    "OutputBroken",
    "PlanError",
    "QuarantineExceeded",
    "RemoteUnavailable",
    "ResourceError",
    "SanitizeError",
    "UsageError",
    "describe_exception",
    "describe_validation_error",
    "suggest_names",
    "internal_error",
    "running_command_line",
    "resume_note",
]

# True while the command line runs: errors then name options, and else Python arguments
# (plans/python_api.py)
running_command_line: ContextVar[bool] = ContextVar("running_command_line", default=False)
# says how a command that was stopped goes on, where the same command does not simply resume
resume_note: ContextVar[Callable[[], str] | None] = ContextVar("resume_note", default=None)


class SanitizeError(Exception):
    """Base class of the errors that reach the user; `exit_code` is that of the command. An instance
    of the class itself is an internal error."""

    exit_code = 1


class UsageError(SanitizeError):
    """The command or one of its options cannot be executed as given."""

    exit_code = 2


class PlanError(UsageError):
    """The plan cannot be used: it cannot be read, has an unknown key or kind, a wrong value or
    settings that contradict each other (also by --set), names a model that cannot be opened, or
    finds a kind that neither an editor nor `leave` names."""


class InputRefused(SanitizeError):
    """The input cannot be used: a named file is missing or unreadable, files contradict each other,
    an input changed since it was listed, or no record is left. One unreadable file inside a folder
    is quarantined instead."""

    exit_code = 3


class OutputBroken(SanitizeError):
    """A file of OUT or WORK does not match its record."""

    exit_code = 3


class LeakFound(SanitizeError):
    """A removed value was found in what was, or would be, published; the message says whether it
    is. `findings`, from a full check only: one mapping per location with `file`, `location`,
    `kind`, `form` and `count`."""

    exit_code = 4
    findings: Sequence[Mapping[str, object]] = ()


class QuarantineExceeded(SanitizeError):
    """More records were quarantined than `--max-quarantine` (or `--strict`) allows."""

    exit_code = 5


class Locked(SanitizeError):
    """Another run holds the lock of WORK or of a remote OUT, or published to that OUT meanwhile.
    Run the command again once it ended."""

    exit_code = 6


class ResourceError(SanitizeError):
    """The disk is full, a write failed, or memory is short."""

    exit_code = 7
    is_disk_error = False  # True where the cause is a disk, not memory

    def with_required_bytes(self, required_bytes: int) -> ResourceError:
        """The same error, with the disk space that the whole run needs added to the message."""
        return ResourceError(
            f"{self} (a run over this input needs about {max(required_bytes >> 20, 1):,} MB in"
            " total)"
        )


class MissingExtra(SanitizeError):
    """An optional dependency (a pip extra) is not installed."""

    exit_code = 8

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install 'corpus-sanitize[{extra}]'"
        )
        self.package, self.extra = package, extra

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), (self.package, self.extra)


class InstallationBroken(SanitizeError):
    """The compiled modules of the package are missing, or were compiled from other sources."""

    exit_code = 8


class RemoteUnavailable(SanitizeError):
    """A remote storage failed in every try, or another machine does not answer. Finished work is
    kept: the same command resumes."""

    exit_code = 9


class OccurrencesFound(SanitizeError):
    """`sanitize detect --fail-on` found occurrences of the given kinds; what was found and where is
    on standard output."""

    exit_code = 10


def internal_error(error: BaseException) -> SanitizeError:
    """An unexpected exception as a one-line `SanitizeError`: its type and where it happened (up to
    six frames).

    The message of the exception is left out, because it may quote the data.
    """
    return SanitizeError(
        f"bug: {describe_exception(error)}. This is an internal error; please report this line, it"
        " contains no data"
    )


def describe_exception(error: BaseException, inside: str | None = None) -> str:
    """The type of an exception and where it happened: the last six frames; with `inside`, the path
    of a source file, its first and the last of all.

    Its message is left out, because it may quote the data.
    """
    found: list[traceback.FrameSummary] = list(traceback.extract_tb(error.__traceback__))
    if inside is not None:
        found = (
            found[
                next(
                    (number for number, frame in enumerate(found) if frame.filename == inside), 0
                ) :
            ][:1]
            + found[-1:]
        )
    frames = [
        f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in found[-6:]
    ]
    return f"{type(error).__name__} at {' > '.join(dict.fromkeys(frames))}"


def printable_path(path: str) -> str:
    """A path that can be printed and stored, whatever bytes its name has: bytes that are not UTF-8
    are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def shell_quote(name: str) -> str:
    """A name from the data, such as that of a column, as the value of an option in a message:
    always in quotes, so that `python_api.to_python_names` sees where it ends.

    >>> shell_quote("messages[].content")
    "'messages[].content'"
    """
    return "'" + name.replace("'", "'\"'\"'") + "'"


_MAX_LISTED = 100  # names in an error message
_COLUMN_NAME = re.compile(r"[^\W\d][\w -]{0,39}(?:(?:\[\])*\.[^\W\d][\w-]{0,39}|\[\])*")


def suggest_columns(word: str, names: Iterable[str]) -> str:
    """`suggest_names` for columns and paths inside them. Names come from the data: only those that
    begin with a letter and have no signs are printed, which leaves out addresses and numbers."""
    return suggest_names(word, filter(_COLUMN_NAME.fullmatch, names))


def suggest_names(word: str, names: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the known name that is most similar to
    `word`, if any, then all known `names`.

    >>> suggest_names("rmtf", ["redact", "rmft"])
    'did you mean rmft? Known: redact, rmft.'
    >>> suggest_names("xyz", ["redact", "rmft"])
    'known: redact, rmft.'
    """
    known = sorted(names)
    similar = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    more = f" and {len(known) - _MAX_LISTED:,} more" if len(known) > _MAX_LISTED else ""
    listed = f"nown: {', '.join(known[:_MAX_LISTED]) or 'none'}{more}."
    return f"did you mean {similar[0]}? K{listed}" if similar else f"k{listed}"


def describe_validation_error(error: ValidationError, model: type[BaseModel], location: str) -> str:
    """The first error of pydantic as a sentence: `location` (such as `plan.toml: edit[1]` or
    `suite.toml:`), the path of the key inside it, and what was expected or which key was meant. The
    rejected value is never part of it."""
    first = error.errors(include_url=False, include_input=False)[0]
    # a step that only names the branch of a union
    steps = [step for step in first["loc"] if step not in ("str", "dict[str,any]")]
    inside = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    path = location + (inside if not location.endswith(":") else " " + inside.lstrip("."))
    if first["type"] != "extra_forbidden":
        return f"{path.rstrip(': ')}: {_expected_setting(first)}"
    *outer, key = first["loc"]
    for step in outer:  # the section that has the key; an optional one is a union with None
        annotation = (
            model.model_fields[step].annotation
            if isinstance(step, str) and step in model.model_fields
            else None
        )
        sections = [
            one
            for one in (annotation, *get_args(annotation))
            if isinstance(one, type) and hasattr(one, "model_fields")
        ]
        model = sections[0] if sections else model
    return f"{path}: unknown key; {suggest_names(str(key), model.model_fields)}"


def _expected_setting(error: ErrorDetails) -> str:
    """What was expected for a setting, in terms of a TOML file."""
    limits, kind = error.get("ctx", {}), error["type"]
    for prefix, message in _EXPECTED_SETTINGS.items():
        if kind.startswith(prefix):
            return message.format(**limits)
    return error["msg"].removeprefix("Value error, ")


# prefix of a pydantic error type -> message
_EXPECTED_SETTINGS = {
    "missing": "is missing, a value was expected",
    "int": "expected a whole number, such as 1",
    "float": "expected a number, such as 0.5",
    "bool": "expected true or false",
    "string_pattern": "expected text of the form {pattern}",
    "string_type": 'expected text in quotes, such as "name"',
    "path_type": 'expected a path in quotes, such as "folder/file"',
    "tuple": 'expected a list in brackets, such as ["ONE", "TWO"]',
    "list": 'expected a list in brackets, such as ["ONE", "TWO"]',
    "dict": "expected a table, such as {{ NAME = ... }}",
    "model": "expected a table with its own keys",
    "literal_error": "expected {expected}",
    "greater_than_equal": "expected {ge} or more",
    "greater_than": "expected more than {gt}",
    "less_than_equal": "expected {le} or less",
    "less_than": "expected less than {lt}",
}
