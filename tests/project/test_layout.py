"""The layout of the packages: what import-linter and ruff do not check. The layers themselves are
contracts in pyproject.toml."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sanitize

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = {
    "kinds",
    "countries",
    "readers",
    "finders",
    "droppers",
    "editors",
    "formats",
    "engines",
    "plans",
    "commands",
}
# folders of independent modules, which are found by their file names
ONE_FILE_EACH = PLUGINS | {"kernels"}


def test_packages_are_small() -> None:
    """At most 14 modules a package, folders of independent modules excepted, and about 20 entries
    below `sanitize/`."""
    packages = [path.parent for path in (ROOT / "sanitize").rglob("__init__.py")]
    counts = {
        package.name: len(list(package.glob("*.py"))) - 1
        for package in packages
        if package.name not in ONE_FILE_EACH
    }
    assert {name: count for name, count in counts.items() if count > 14} == {}
    assert len({entry.name for entry in (ROOT / "sanitize").iterdir()} - {"__pycache__"}) <= 25


def test_the_folders_of_the_private_folder_are_named_in_one_place() -> None:
    """`storage/private_folder.py`; elsewhere a path of WORK begins with one of its names."""
    literal = re.compile(r"(?:work|workspace|workspace\.folder|corpus|index)\s*/ f?\"")
    in_task_files = re.compile(r"\b(?:index|corpus|workspace)\.task_files\(\"")
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in (ROOT / "sanitize").rglob("*.py")
        if path.parent.name != "storage"
        for pattern in (literal, in_task_files)
        for match in pattern.finditer(path.read_text("utf-8"))
    ]
    assert found == []


def test_no_package_has_the_name_of_a_public_function() -> None:
    names = {module.name for module in pkgutil.iter_modules(sanitize.__path__)}
    assert names.isdisjoint(sanitize.__all__)


def test_the_tests_shadow_no_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


@pytest.mark.parametrize(
    "module",
    ["sanitize.finders.patterns", "sanitize.pipeline.run", "sanitize.pipeline.streaming.stream"],
)
def test_importing_a_module_hides_no_public_function(module: str) -> None:
    code = (
        f"import {module}, sanitize; assert all(callable(getattr(sanitize, name)) for name in"
        " sanitize.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
