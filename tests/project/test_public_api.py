"""The public API: it imports no heavy packages, has all listed names, and `--help` is fast."""

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
    """Runs a new interpreter; returns its output and CPU-seconds."""
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    assert process.returncode == 0, output
    return output, usage.ru_utime + usage.ru_stime


def test_import_loads_no_heavy_packages() -> None:
    output, _ = python("-c", f"import json, sys, sanitize; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))")
    assert json.loads(output) == []


def test_the_command_line_loads_no_library_before_it_sets_their_environment() -> None:
    """Arrow reads ARROW_DEFAULT_MEMORY_POOL at its import; with another pool, a run takes a fifth more memory."""
    libraries = ("polars", "duckdb", "pyarrow", "numpy", "torch")
    code = f"import json, sys, sanitize.cli.main; print(json.dumps([name for name in {libraries} if name in sys.modules]))"
    assert json.loads(python("-c", code)[0]) == []


def test_all_public_names_exist() -> None:
    code = (
        "import json, sanitize; missing = [name for name in sanitize.__all__ if not hasattr(sanitize, name)]; "
        "names = set(sanitize.__all__); hidden = sorted(names - set(dir(sanitize))); "
        "print(json.dumps([missing, hidden, len(sanitize.__all__), len(names)]))"
    )
    missing, hidden, size, distinct = json.loads(python("-c", code)[0].strip().splitlines()[-1])
    assert missing == []
    assert hidden == []
    assert size == distinct <= 24  # the commands, and about ten more


def test_a_wrong_name_is_an_attribute_error() -> None:
    import sanitize

    with pytest.raises(AttributeError):
        _ = sanitize.no_such_name


def test_help_is_fast() -> None:
    python("-m", "sanitize", "--help")  # writes the byte code
    cpu = [python("-m", "sanitize", "--help")[1] for _ in range(5)]
    assert min(cpu) < 0.3, f"sanitize --help took {min(cpu):.2f} s of CPU at best"


def test_help_lists_all_commands() -> None:
    output, _ = python("-m", "sanitize", "--help")
    assert all(
        command_name in output
        for command_name in ("run", "find", "top", "sql", "explain", "verify", "report", "replay", "demo", "doctor", "list", "status")
    )
