"""Files and folders without permission. Root may read everything, so commands run without that
capability (setpriv)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ANN = "ann.roe@example.com"
_CAPABILITIES = "-dac_override,-dac_read_search"
MAIL = f"From x Mon May 14 16:39:00 2001\nFrom: {ANN}\n\nHello\n\n"


def run_without_privilege(
    folder: Path, *arguments: object, program: tuple[str, ...] = ("-m", "sanitize"), text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command, or another Python program, as a user whom permissions of files bind."""
    command = [sys.executable, *program, *map(str, arguments)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("as root, the tests of permissions need setpriv (util-linux)")
        command = [
            "setpriv",
            f"--bounding-set={_CAPABILITIES}",
            f"--inh-caps={_CAPABILITIES}",
            *command,
        ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        command,
        capture_output=True,
        input=text,
        text=True,
        cwd=folder,
        env=environment,
        timeout=120,
    )
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
        'about = "x"\n[find]\nkinds = ["EMAIL_ADDRESS"]\n[[edit]]\nuse = "redact"\nkinds ='
        ' ["EMAIL_ADDRESS"]\n'
    )
    (tmp_path / "key").write_text("5" * 64 + "\n")
    yield tmp_path
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o700)
    for path in tmp_path.rglob("*"):  # of folders that could not be listed before
        path.chmod(0o700)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "workers"), [(("b.mbox", "d.csv", "e.jsonl", "sub/c.mbox"), 1), (("sub",), 2)]
)
def test_unreadable_files_and_folders_are_quarantined(
    names: tuple[str, ...], workers: int, folder: Path
) -> None:
    for name in names:
        (folder / "in" / name).chmod(0)
    run = ("run", "in", "-o", "out", "--seed", "3", "--workers", workers, "--max-quarantine", "0.9")
    result = run_without_privilege(folder, *run, "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (
        summary["documents_in"] == 5
        and summary["quarantined"] == len(names)
        and summary["quarantine"] == {"unreadable": len(names)}
    )
    if names != ("sub",):
        return
    again = run_without_privilege(folder, *run, "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["changed"] is False
    (folder / "in" / "sub").chmod(0o700)
    # now it is another input, which is not taken silently
    readable = run_without_privilege(folder, *run)
    assert readable.returncode == 2 and "another input" in readable.stderr


REFUSED: dict[str, tuple[str, int, str, int, str]] = {
    # what -> (path, mode, command, exit code, words of the error)
    "named file": ("in/b.mbox", 0, "run in/b.mbox -o out", 3, "cannot read it"),
    "named folder": ("in/sub", 0, "run in/sub -o out", 3, "this folder cannot be read"),
    "file below a closed folder": (
        "in/sub",
        0,
        "run in/sub/c.mbox -o out",
        3,
        "cannot be reached",
    ),
    "plan": ("plan.toml", 0, "run in -o out --plan plan.toml", 2, "plan.toml"),
    "key": ("key", 0, "run in -o out --key key", 2, "key"),
    "parent of OUT": (
        "in",
        0o500,
        "run in/a.mbox -o in/sub2/out --work w",
        2,
        "in/sub2/out: no folder can be created there: no permission to write in in; use another -o",
    ),
    "WORK": (
        "in",
        0o500,
        "run in/a.mbox -o out --work in/w",
        2,
        "in/w: cannot be made a private folder: no permission to write in in; use another path",
    ),
    # the last, because it leaves a private folder
    "too many": ("in/b.mbox", 0, "run in -o out --strict", 5, "1 unreadable"),
}


# runs the command lines of standard input; `MODE PATH` changes the permissions of a path
COMMAND_LINES = """
import contextlib, io, pathlib, sys
from sanitize.cli import main

for line in sys.stdin.read().splitlines():
    arguments = line.split()
    if arguments[0].isdigit():
        pathlib.Path(arguments[1]).chmod(int(arguments[0], 8))
        continue
    sys.argv, err, code = ["sanitize", *arguments], io.StringIO(), 0
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            main.main()
        except SystemExit as end:
            code = end.code
    print(code, err.getvalue().strip().replace("\\n", " "))
"""


def run_lines_without_privilege(folder: Path, lines: Iterable[str]) -> list[str]:
    """Runs command lines in one process without the capability; returns exit code and standard
    error of each command."""
    result = run_without_privilege(folder, program=("-c", COMMAND_LINES), text="\n".join(lines))
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.slow
def test_what_cannot_be_read_or_written_is_named_by_a_run(folder: Path) -> None:
    (folder / "key").chmod(0o600)
    lines = []
    for name, mode, arguments, *_ in REFUSED.values():
        old_mode = (folder / name).stat().st_mode & 0o777
        lines += [f"{mode:o} {name}", f"{arguments} --workers 1 -q", f"{old_mode:o} {name}"]
    found = run_lines_without_privilege(folder, lines)
    for (what, (*_, code, words)), line in zip(REFUSED.items(), found, strict=True):
        assert line.startswith(f"{code} ") and words in line, f"{what}: {line}"
        assert "internal error" not in line
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_a_lock_of_another_user_is_named_by_its_folder(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    lines = ["run in/e.jsonl -o out --seed 1 -q --workers 1"]
    assert run_lines_without_privilege(folder, lines) == ["0 "]
    for lock, commands in {
        ".out.sanitize-lock": {"run in/e.jsonl -o out --work w --seed 2 -q --replace": "out"},
        "out.private/run.lock": {
            "run in/e.jsonl -o other --work out.private --seed 1 -q": "out.private",
            "verify out": "out.private",
        },
    }.items():
        (folder / lock).touch(mode=0o600)
        os.chown(folder / lock, 4242, 4242)
        for found, name in zip(
            run_lines_without_privilege(folder, commands), commands.values(), strict=True
        ):
            assert found.startswith(f"6 error: {name}: its lock file {Path(lock).name} belongs to")
            assert "another user (number 4242)" in found and "use another folder" in found
        os.chown(folder / lock, 0, 0)


@pytest.mark.slow
def test_every_command_says_why_a_path_cannot_be_written(folder: Path) -> None:
    """A folder without permission, in one process without the capability: each message names the
    path and the reason."""
    (folder / "closed").mkdir(mode=0o500)
    (folder / "empty").mkdir(mode=0o500)
    (folder / "closed.jsonl").touch(mode=0o400)
    (folder / "who.txt").write_text(ANN)
    no_permission = "no permission to write in closed"
    cases = [
        ("stream in/e.jsonl -q -o closed/out", no_permission),
        ("stream in/e.jsonl -q -o closed/out.jsonl", no_permission),
        (
            "stream in/e.jsonl -q -o empty",
            "empty: cannot be written: no permission to write in this folder",
        ),
        (
            "stream in/e.jsonl -q -o closed.jsonl",
            "closed.jsonl: cannot be written: no permission to write it",
        ),
        ("stream in/e.jsonl -q --state closed/state", no_permission),
        ("index in/e.jsonl -q --work closed/work", no_permission),
        ("demo --mails 10 --dir closed/demo", no_permission),
        ("plan init closed/plan.toml", no_permission),
        ("report out --to closed/page.html", no_permission),
        ("report out --to in/e.jsonl/page.html", "in/e.jsonl is a file, not a folder"),
        ("report out --figures closed/figures", no_permission),
        ("label out.private --out closed/sample.jsonl", no_permission),
        (
            "subject out.private --match who.txt --documents closed/ids",
            "closed/ids: no permission to write in its folder",
        ),
        (
            "subject out.private --match who.txt --documents in",
            "in: is a folder; expected the name of a file",
        ),
        ("replay out/manifest.json in/e.jsonl -o closed/again", no_permission),
    ]
    lines = ["run in/e.jsonl -o out --seed 1 -q", *(line for line, _ in cases)]
    results = run_lines_without_privilege(folder, [*lines, "500 out.private", "verify out"])
    assert results[0] == "0 " and len(results) == len(cases) + 2, results
    for (line, words), found in zip(cases, results[1:-1], strict=True):
        assert found.startswith("2 error: ") and words in found and found.count("error") == 1, (
            f"{line}: {found}"
        )
    assert results[-1].startswith(
        "2 error: out.private: cannot be written: no permission to write in this folder; the"
        " command writes"
    )
