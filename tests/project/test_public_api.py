"""The face is light to import, shows what it says, and answers at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("polars", "duckdb", "pyarrow", "numpy", "pydantic", "typer", "torch")


def python(*arguments: str) -> tuple[str, float]:
    """What a fresh interpreter prints, and the CPU-seconds it used."""
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    printed = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    assert process.returncode == 0, printed
    return printed, used.ru_utime + used.ru_stime


def test_importing_costs_nothing() -> None:
    printed, _ = python("-c", f"import json, sys, sanitize; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))")
    assert json.loads(printed) == []


def test_the_face_shows_what_it_names() -> None:
    code = (
        "import json, sanitize; missing = [name for name in sanitize.__all__ if not hasattr(sanitize, name)]; "
        "names = set(sanitize.__all__); hidden = sorted(names - set(dir(sanitize))); "
        "print(json.dumps([missing, hidden, len(sanitize.__all__), len(names)]))"
    )
    missing, hidden, size, distinct = json.loads(python("-c", code)[0].strip().splitlines()[-1])
    assert missing == []
    assert hidden == []
    assert size == distinct <= 24  # the verbs, and about ten more


def test_a_wrong_name_is_an_attribute_error() -> None:
    import sanitize

    with pytest.raises(AttributeError):
        _ = sanitize.no_such_room


def test_help_answers_at_once() -> None:
    python("-m", "sanitize", "--help")  # writes the byte code
    cpu = [python("-m", "sanitize", "--help")[1] for _ in range(5)]
    assert min(cpu) < 0.3, f"sanitize --help took {min(cpu):.2f} s of CPU at best"


def test_help_names_every_verb() -> None:
    printed, _ = python("-m", "sanitize", "--help")
    assert all(
        verb in printed
        for verb in ("run", "find", "top", "sql", "explain", "verify", "report", "replay", "demo", "doctor", "list", "status")
    )
