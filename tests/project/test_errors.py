"""The error classes equal the list in their docstring: exit codes, one base class, and errors that
can be pickled."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from sanitize import errors
from sanitize.errors import MissingExtra, PlanError, SanitizeError, UsageError, suggest_names

ERROR_CLASSES = [
    error_class
    for _, error_class in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error_class, SanitizeError)
]
DOCUMENTED_CODES = dict(re.findall(r"(\w+) {2,}(\d+)  ?", errors.__doc__ or ""))

CODES = {
    "SanitizeError": 1,
    "UsageError": 2,
    "PlanError": 2,
    "InputRefused": 3,
    "OutputBroken": 3,
    "LeakFound": 4,
    "QuarantineExceeded": 5,
    "Locked": 6,
    "ResourceError": 7,
    "MissingExtra": 8,
    "InstallationBroken": 8,
    "RemoteUnavailable": 9,
    "OccurrencesFound": 10,
}


def make_error(error: type[SanitizeError]) -> SanitizeError:
    return error("torch", "learn") if error is MissingExtra else error("plan.toml: no such kind")


def test_exit_codes() -> None:
    assert {error.__name__: error.exit_code for error in ERROR_CLASSES} == CODES


def test_the_docstring_lists_all_errors() -> None:
    assert {name: int(code) for name, code in DOCUMENTED_CODES.items()} == CODES
    assert {error.__name__ for error in ERROR_CLASSES} == {
        word for word in errors.__all__ if word[0].isupper()
    }


def test_base_classes() -> None:
    assert issubclass(PlanError, UsageError)
    assert all(issubclass(error, SanitizeError) and error.__doc__ for error in ERROR_CLASSES)
    assert all(
        error.__bases__ == (SanitizeError,)
        for error in ERROR_CLASSES
        if error not in (SanitizeError, PlanError)
    )


@pytest.mark.parametrize("error", ERROR_CLASSES, ids=lambda error: error.__name__)
def test_errors_can_be_pickled(error: type[SanitizeError]) -> None:
    original = make_error(error)
    restored = pickle.loads(pickle.dumps(original))
    assert type(restored) is error
    assert str(restored) == str(original)
    assert vars(restored) == vars(original)


def test_missing_extra_says_what_to_install() -> None:
    assert "pip install 'corpus-sanitize[learn]'" in str(MissingExtra("torch", "learn"))


@pytest.mark.parametrize(
    ("word", "names", "expected"),
    [
        ("rmtf", ["redact", "rmft"], "did you mean rmft? Known: redact, rmft."),
        ("zzz", ["redact", "rmft"], "known: redact, rmft."),
        ("rmft", [], "known: none."),
    ],
)
def test_suggested_names(word: str, names: list[str], expected: str) -> None:
    assert suggest_names(word, names) == expected
