"""How kernels are compiled, and what is reported where the compiled modules are missing or
outdated."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sanitize.kernels

FOLDER = Path(sanitize.kernels.__file__).parent


def load_build(folder: Path) -> ModuleType:
    """The module build.py of a folder of kernels, under a name of its own."""
    spec = importlib.util.spec_from_file_location(
        f"build_of_{folder.parent.parent.name}", folder / "build.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package whose kernels may be changed; returns the folder of the kernels."""
    package = tmp_path / "sanitize"
    shutil.copytree(FOLDER, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("errors.py",):
        shutil.copy(FOLDER.parent / name, package / name)
    (package / "__init__.py").touch()
    return package / "kernels"


def import_kernels(folder: Path) -> str:
    """What the import of the kernels of a copied package reports: nothing, or the last line of its
    error."""
    environment = {**os.environ, "PYTHONPATH": str(folder.parents[1])}
    command = [sys.executable, "-S", "-c", "import sanitize.kernels.span_hashes"]
    done = subprocess.run(
        command, cwd=folder.parents[1], env=environment, capture_output=True, text=True, timeout=60
    )
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def test_a_complete_installation_is_imported(copied: Path) -> None:
    assert import_kernels(copied) == ""


def test_an_outdated_module_is_reported_with_the_command(copied: Path) -> None:
    with (copied / "span_hashes.py").open("a") as source:
        source.write("# changed\n")
    message = import_kernels(copied)
    assert "kernels/span_hashes.py is older than its source" in message and "run `make`" in message


@pytest.mark.parametrize("lost", ["compiled.json", "span_hashes.abi3.so"])
def test_a_missing_module_is_reported_with_the_command(copied: Path, lost: str) -> None:
    (copied / lost).unlink()
    message = import_kernels(copied)
    assert "InstallationBroken" in message and "pip install --force-reinstall" in message


@pytest.mark.slow
def test_only_changed_kernels_are_compiled_again(copied: Path) -> None:
    build = load_build(copied)
    assert build.compile_kernels() == []
    with (copied / "span_hashes.py").open("a") as source:
        source.write("# changed\n")
    assert build.compile_kernels() == ["span_hashes"]
    assert import_kernels(copied) == ""


def test_a_failed_build_leaves_no_record(copied: Path) -> None:
    with (copied / "span_hashes.py").open("a") as source:
        source.write("def broken(:\n")
    with pytest.raises(Exception):  # noqa: B017  # Cython's own error, which names the line
        load_build(copied).compile_kernels()
    assert "InstallationBroken" in import_kernels(copied)


def test_a_compiler_is_asked_for_only_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    build = load_build(FOLDER)
    hook = build.KernelBuildHook(str(FOLDER.parents[1]), {}, None, None, str(tmp_path), "wheel")
    assert hook.dependencies() == []
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert hook.dependencies() == ["ziglang"]


@pytest.mark.soak
def test_kernels_compile_without_a_compiler_of_the_machine(
    copied: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip(
            "needs the package ziglang, which a build installs where there is no C compiler"
        )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    for binary in copied.glob("*.so"):
        binary.unlink()
    assert "span_hashes" in load_build(copied).compile_kernels()
    assert import_kernels(copied) == ""


@pytest.mark.soak
@pytest.mark.parametrize("option", ["--checked", "--sanitize"])
def test_kernels_stay_within_their_arrays(tmp_path: Path, option: str) -> None:
    """The tests of the kernels, on a build that checks every index, and on one under
    AddressSanitizer."""
    root = FOLDER.parents[1]
    copied = tmp_path / "checkout"
    for name in ("sanitize", "train", "eval", "sql", "tests"):
        shutil.copytree(
            root / name,
            copied / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "*.so", "compiled.json"),
        )
    shutil.copy(root / "pyproject.toml", copied)
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0"}
    subprocess.run(
        [sys.executable, "sanitize/kernels/build.py", option],
        cwd=copied,
        env=environment,
        check=True,
        timeout=600,
    )
    if option == "--sanitize":
        libraries = [
            _compiler_library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so")
        ]
        environment["LD_PRELOAD"] = " ".join(libraries)
    tests = [
        "tests/kernels",
        "tests/finders/test_patterns.py",
        "--ignore",
        "tests/kernels/test_build.py",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, cwd=copied, env=environment, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def _compiler_library(name: str) -> str:
    """The path of a library of the C compiler; skips the test where it is not installed."""
    done = subprocess.run(
        ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False
    )
    path = done.stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip(f"needs {name} of the C compiler")
    return path
