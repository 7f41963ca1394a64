"""The wheel contains all packages, and works in a folder whose own train.py and eval.py must not be
imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_command(*command: str | Path, cwd: Path) -> str:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
    )
    assert result.returncode == 0, result.stdout[-2_000:] + result.stderr[-4_000:]
    return result.stdout


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution; no network, the installed build backend is
    used."""
    target = tmp_path_factory.mktemp("dist")
    # the wheel is built from the sdist
    run_command(
        sys.executable, "-m", "build", "--no-isolation", "--outdir", target, ROOT, cwd=target
    )
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; its dependencies come from the environment of the
    tests."""
    venv = tmp_path_factory.mktemp("home") / "venv"
    run_command(sys.executable, "-m", "venv", "--without-pip", venv, cwd=venv.parent)
    run_command(
        sys.executable,
        "-m",
        "pip",
        "--python",
        venv / "bin/python",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=venv.parent,
    )
    site = next(venv.glob("lib/python*/site-packages"))
    # a plain path line: .pth files in that folder, such as that of an editable install, are not
    # followed
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return venv


def test_pip_installs_the_checkout(venv: Path, tmp_path: Path) -> None:
    """`pip install .`, without the network: build backend and libraries are those of the tests."""
    run_command(
        sys.executable,
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"),
        *("--target", tmp_path / "site", ROOT),
        cwd=tmp_path,
    )
    script = "import sys; sys.path.insert(0, 'site'); import sanitize; print(sanitize.__file__)"
    found = run_command(venv / "bin/python", "-c", script, cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(tmp_path / "site")


@pytest.fixture
def decoy_folder(tmp_path: Path) -> Path:
    """A working folder with files that would fail if they were imported."""
    folder = tmp_path / "project"
    folder.mkdir()
    for decoy in ("train", "eval"):
        (folder / f"{decoy}.py").write_text("raise SystemExit('the wrong module was imported')\n")
    return folder


def test_the_wheel_contains_all_packages(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside in (
        ("sql", "sanitize/storage/sql"),
        ("sanitize", "sanitize"),
        ("train", "sanitize/train"),
        ("eval", "sanitize/eval"),
    ):
        expected = {
            f"{inside}/{path.relative_to(ROOT / folder).as_posix()}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert expected <= names, sorted(expected - names)
    assert {
        "sanitize/storage/sql/value_counts.sql",
        "sanitize/plans/rmft.toml",
        "sanitize/plans/plan.schema.json",
        "sanitize/py.typed",
        "sanitize/train/__init__.py",
        "sanitize/train/recipes/rmft.toml",
        "sanitize/train/objectives/ppmlm.py",
        "sanitize/eval/__init__.py",
    } <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"sanitize"}


def test_modules_of_the_working_folder_are_not_imported(venv: Path, decoy_folder: Path) -> None:
    module_path = run_command(
        venv / "bin/python", "-c", "import sanitize; print(sanitize.__file__)", cwd=decoy_folder
    )
    assert Path(module_path.strip()).is_relative_to(venv)
    assert "run" in run_command(venv / "bin/sanitize", "--help", cwd=decoy_folder)
    assert "run" in run_command(venv / "bin/python", "-m", "sanitize", "--help", cwd=decoy_folder)
    assert "early_detection" in run_command(venv / "bin/sanitize-train", "list", cwd=decoy_folder)
    assert "early_detection" in run_command(
        venv / "bin/python", "-m", "sanitize.train.cli", "list", cwd=decoy_folder
    )
    assert "perplexity" in run_command(
        venv / "bin/python", "-m", "sanitize.eval.cli", "list", cwd=decoy_folder
    )
    assert "perplexity" in run_command(venv / "bin/sanitize-eval", "list", cwd=decoy_folder)


def test_a_new_plan_names_the_schema_of_the_installed_wheel(venv: Path, decoy_folder: Path) -> None:
    run_command(venv / "bin/sanitize", "plan", "init", "mine.toml", cwd=decoy_folder)
    named = re.search(r"#:schema (.+)", (decoy_folder / "mine.toml").read_text("utf-8"))
    assert named and Path(named[1]).is_relative_to(venv)
    assert json.loads(Path(named[1]).read_text("utf-8"))["title"] == "Plan of sanitize"


def test_the_installed_wheel_sanitizes_a_corpus(venv: Path, decoy_folder: Path) -> None:
    lines = [
        json.dumps(
            {"text": f"Mail {number}: write to ada.stokes@acorn.example or call 212-555-0123."}
        )
        for number in range(20)
    ]
    (decoy_folder / "mails.jsonl").write_text("\n".join(lines) + "\n")
    output = run_command(
        venv / "bin/sanitize",
        "run",
        "mails.jsonl",
        "-o",
        "clean",
        "--seed",
        "1",
        "--json",
        cwd=decoy_folder,
    )
    summary = json.loads(output)
    assert summary["documents_in"] == summary["documents_out"] == 20
    assert summary["leaks"] == 0
    assert summary["occurrences"] == 40
    assert list((decoy_folder / "clean" / "data").glob("train-*.parquet"))
