"""The error tree is what its drawing says: exit codes, one root, and errors that survive the way from a worker."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from sanitize import errors
from sanitize.errors import MissingExtra, PlanError, SanitizeError, UsageError, suggest_names

TREE = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, SanitizeError)]
DRAWN = dict(re.findall(r"(\w+) {2,}(\d)  ?", errors.__doc__ or ""))

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
}


def made(error: type[SanitizeError]) -> SanitizeError:
    return error("torch", "learn") if error is MissingExtra else error("plan.toml: no such kind")


def test_exit_codes() -> None:
    assert {error.__name__: error.exit_code for error in TREE} == CODES


def test_the_drawing_shows_all() -> None:
    assert {drawn: int(code) for drawn, code in DRAWN.items()} == CODES
    assert {error.__name__ for error in TREE} == {word for word in errors.__all__ if word[0].isupper()}


def test_who_stands_under_whom() -> None:
    assert issubclass(PlanError, UsageError)
    assert all(issubclass(error, SanitizeError) and error.__doc__ for error in TREE)
    assert all(error.__bases__ == (SanitizeError,) for error in TREE if error not in (SanitizeError, PlanError))


@pytest.mark.parametrize("error", TREE, ids=lambda error: error.__name__)
def test_errors_travel(error: type[SanitizeError]) -> None:
    sent = made(error)
    came = pickle.loads(pickle.dumps(sent))
    assert type(came) is error
    assert str(came) == str(sent)
    assert vars(came) == vars(sent)


def test_missing_extra_says_what_to_install() -> None:
    assert "pip install 'corpus-sanitize[learn]'" in str(MissingExtra("torch", "learn"))


@pytest.mark.parametrize(
    ("word", "names", "expected"),
    [
        ("rmtf", ["redact", "rmft"], "known: redact, rmft. Did you mean rmft?"),
        ("zzz", ["redact", "rmft"], "known: redact, rmft."),
        ("rmft", [], "known: none."),
    ],
)
def test_nearest(word: str, names: list[str], expected: str) -> None:
    assert suggest_names(word, names) == expected
