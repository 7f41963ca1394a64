"""Files and folders without permission. Root may read everything, so commands run without that capability (setpriv)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ANN = "ann.roe@example.com"
_CAPABILITIES = "-dac_override,-dac_read_search"
MAIL = f"From x Mon May 14 16:39:00 2001\nFrom: {ANN}\n\nHello\n\n"


def run_without_privilege(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command as a user whom permissions of files bind."""
    command = [sys.executable, "-m", "sanitize", *map(str, arguments)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("as root, the tests of permissions need setpriv (util-linux)")
        command = ["setpriv", f"--bounding-set={_CAPABILITIES}", f"--inh-caps={_CAPABILITIES}", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120)
    assert ANN not in result.stdout + result.stderr and "Traceback" not in result.stderr
    return result


@pytest.fixture()
def folder(tmp_path: Path) -> Iterator[Path]:
    """Inputs of several formats; permissions are restored at the end."""
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for name in ("a.mbox", "b.mbox", "sub/c.mbox"):
        (tmp_path / "in" / name).write_text(MAIL)
    (tmp_path / "in" / "d.csv").write_text(f"text\nhello {ANN}\n")
    (tmp_path / "in" / "e.jsonl").write_text(json.dumps({"text": f"hello {ANN}"}) + "\n")
    (tmp_path / "plan.toml").write_text(
        'about = "x"\n[find]\nkinds = ["EMAIL_ADDRESS"]\n[[edit]]\nuse = "redact"\nkinds = ["EMAIL_ADDRESS"]\n'
    )
    (tmp_path / "key").write_text("5" * 64 + "\n")
    yield tmp_path
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o700)
    for path in tmp_path.rglob("*"):  # of folders that could not be listed before
        path.chmod(0o700)


@pytest.mark.parametrize(("name", "workers"), [("b.mbox", 1), ("d.csv", 1), ("e.jsonl", 1), ("sub/c.mbox", 1), ("sub", 2)])
def test_one_unreadable_file_or_folder_is_quarantined(name: str, workers: int, folder: Path) -> None:
    (folder / "in" / name).chmod(0)
    run = ("run", "in", "-o", "out", "--seed", "3", "--workers", workers, "--max-quarantine", "0.9")
    result = run_without_privilege(folder, *run, "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["documents_in"] == 5 and summary["quarantined"] == 1 and summary["quarantine"] == {"unreadable": 1}
    if name != "sub":
        return
    again = run_without_privilege(folder, *run, "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["changed"] is False
    (folder / "in" / name).chmod(0o700)
    readable = run_without_privilege(folder, *run)  # now it is another input, which is not taken silently
    assert readable.returncode == 2 and "another input" in readable.stderr


REFUSED: dict[str, tuple[str, int, tuple[str, ...], int, str]] = {
    # what -> (path, mode, arguments, exit code, words of the error)
    "named file": ("in/b.mbox", 0, ("run", "in/b.mbox", "-o", "out"), 3, "cannot read it"),
    "named folder": ("in/sub", 0, ("run", "in/sub", "-o", "out"), 3, "this folder cannot be read"),
    "file below a closed folder": ("in/sub", 0, ("run", "in/sub/c.mbox", "-o", "out"), 3, "cannot be reached"),
    "too many": ("in/b.mbox", 0, ("run", "in", "-o", "out", "--strict"), 5, "1 unreadable"),
    "plan": ("plan.toml", 0, ("run", "in", "-o", "out", "--plan", "plan.toml"), 2, "plan.toml"),
    "key": ("key", 0, ("run", "in", "-o", "out", "--key", "key"), 2, "key"),
    "parent of OUT": ("in", 0o500, ("run", "in/a.mbox", "-o", "in/sub2/out", "--work", "w"), 2, "no folder can be created there"),
    "WORK": ("in", 0o500, ("run", "in/a.mbox", "-o", "out", "--work", "in/w"), 2, "w"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_read_or_written_is_named(what: str, folder: Path) -> None:
    name, mode, arguments, code, words = REFUSED[what]
    (folder / "key").chmod(0o600)
    (folder / name).chmod(mode)
    result = run_without_privilege(folder, *arguments, "--workers", 1, "-q")
    assert (result.returncode, words in result.stderr) == (code, True), result.stderr
    assert "internal error" not in result.stderr and not (folder / "out").exists()
