"""What can go wrong, and the exit code that says so.

    SanitizeError                1  (a bug of ours if raised bare)
    +-- UsageError               2  the command or its options cannot be carried out as given
    |   +-- PlanError            2  a plan is wrong, or does not fit
    +-- InputRefused             3  a named input cannot be used, or nothing is readable
    +-- OutputBroken             3  a shard, manifest or index is not what its record says
    +-- LeakFound                4  a value that had to go is in the output; nothing was published
    +-- QuarantineExceeded       5  more records were set aside than the limit allows
    +-- Locked                   6  another run holds the folder
    +-- ResourceError            7  disk or memory
    +-- MissingExtra             8  an optional part is not installed

A message says what, where, what was expected and what to do. It never carries a value or a piece of text from the data.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "InputRefused",
    "LeakFound",
    "Locked",
    "MissingExtra",
    "OutputBroken",
    "PlanError",
    "QuarantineExceeded",
    "ResourceError",
    "SanitizeError",
    "UsageError",
    "nearest",
]


class SanitizeError(Exception):
    """The root of all errors this house raises on purpose."""

    exit_code = 1


class UsageError(SanitizeError):
    """The command or one of its options cannot be carried out as given."""

    exit_code = 2


class PlanError(UsageError):
    """A plan with an unknown key, a wrong value, or a kind that nothing decides about."""


class InputRefused(SanitizeError):
    """A named input cannot be used, or nothing in the input is readable."""

    exit_code = 3


class OutputBroken(SanitizeError):
    """A file of OUT or WORK is not what its record says it is."""

    exit_code = 3


class LeakFound(SanitizeError):
    """A value that had to go was found in the output. Nothing was published. `findings`, where known: file, place, kind, form and times."""

    exit_code = 4
    findings: Sequence[Mapping[str, object]] = ()


class QuarantineExceeded(SanitizeError):
    """More records were set aside than `--max-quarantine` (or `--strict`) allows."""

    exit_code = 5


class Locked(SanitizeError):
    """Another run holds the folder."""

    exit_code = 6


class ResourceError(SanitizeError):
    """The disk is full, a write failed, or memory is short."""

    exit_code = 7


class MissingExtra(SanitizeError):
    """An optional part is not installed."""

    exit_code = 8

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; it comes with: pip install 'corpus-sanitize[{extra}]'")
        self.package, self.extra = package, extra

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), (self.package, self.extra)


def nearest(word: str, names: Iterable[str]) -> str:
    """The tail of an error about a wrong name: the nearest of `names`, and all of them."""
    known = sorted(names)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"known: {', '.join(known) or 'none'}.{hint}"
