"""The wheel holds everything, and works in a folder whose own train.py and eval.py must not be taken for ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=clean, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution; no network, the build backend is the one installed here."""
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, ROOT, cwd=target)  # the wheel is built from the sdist
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; what the wheel depends on is lent by the environment of the tests."""
    home = tmp_path_factory.mktemp("home") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        home / "bin/python",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=home.parent,
    )
    site = next(home.glob("lib/python*/site-packages"))
    # a plain path line: .pth files over there, such as that of an editable install, are not followed
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return home


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A working folder with files that would break us if we imported them."""
    folder = tmp_path / "project"
    folder.mkdir()
    for decoy in ("train", "eval"):
        (folder / f"{decoy}.py").write_text("raise SystemExit('the wrong module was imported')\n")
    return folder


def test_everything_is_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside in (
        ("sql", "sanitize/storage/sql"),
        ("sanitize", "sanitize"),
        ("train", "sanitize/train"),
        ("eval", "sanitize/eval"),
    ):
        there = {
            f"{inside}/{path.relative_to(ROOT / folder).as_posix()}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert there <= names, sorted(there - names)
    assert {
        "sanitize/storage/sql/value_counts.sql",
        "sanitize/plans/rmft.toml",
        "sanitize/py.typed",
        "sanitize/train/__init__.py",
        "sanitize/train/recipes/rmft.toml",
        "sanitize/train/objectives/ppmlm.py",
        "sanitize/eval/__init__.py",
    } <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"sanitize"}


def test_no_name_is_taken_for_ours(home: Path, trap: Path) -> None:
    where = run(home / "bin/python", "-c", "import sanitize; print(sanitize.__file__)", cwd=trap)
    assert Path(where.strip()).is_relative_to(home)
    assert "run" in run(home / "bin/sanitize", "--help", cwd=trap)
    assert "run" in run(home / "bin/python", "-m", "sanitize", "--help", cwd=trap)
    assert "early_detection" in run(home / "bin/sanitize-train", "list", cwd=trap)
    assert "early_detection" in run(home / "bin/python", "-m", "sanitize.train.cli", "list", cwd=trap)
    assert "perplexity" in run(home / "bin/python", "-m", "sanitize.eval.cli", "list", cwd=trap)
    assert "perplexity" in run(home / "bin/sanitize-eval", "list", cwd=trap)


def test_the_wheel_does_the_main_job(home: Path, trap: Path) -> None:
    lines = [json.dumps({"text": f"Mail {at}: write to ada.stokes@acorn.example or call 212-555-0123."}) for at in range(20)]
    (trap / "mails.jsonl").write_text("\n".join(lines) + "\n")
    printed = run(home / "bin/sanitize", "run", "mails.jsonl", "-o", "clean", "--seed", "1", "--json", cwd=trap)
    shown = json.loads(printed)
    assert shown["documents_in"] == shown["documents_out"] == 20
    assert shown["leaks"] == 0
    assert shown["occurrences"] == 40
    assert list((trap / "clean" / "data").glob("train-*.parquet"))
