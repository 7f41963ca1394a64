"""Hostile options and surroundings end in one error with the documented exit code, never in an
internal error. All people are invented."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ANN = "ann.roe@example.com"
DEEP = "[" * 100_000
Console = Callable[..., tuple[int, str, str]]
PLAN = (
    'about = "x"\n[find]\nkinds = ["EMAIL_ADDRESS"]\n[[edit]]\nuse = {}\nkinds ='
    ' ["EMAIL_ADDRESS"]\n'
)


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": f"Write to {ANN}"}) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_error(result: tuple[int, str, str], code: int, words: str) -> None:
    found_code, _, err = result
    assert (found_code, words in err) == (code, True), err
    assert (
        "internal error" not in err
        and "Traceback" not in err
        and err.count("error: ") == 1
        and ANN not in err
    )


BAD_PARTS = [
    "../../evil",
    "..",
    "..rmft",
    ".rmft",
    "sanitize..rmft",
    "a.b.c",
    "/etc/passwd",
    "a/b.c",
    "x\\u0000y",
    "",
    "__init__",
    "os",
]


@pytest.mark.parametrize("use", BAD_PARTS)
@pytest.mark.parametrize("where", ["edit", "drop", "find.finders"])
def test_a_part_is_a_name_or_a_module(use: str, where: str, folder: Path, console: Console) -> None:
    """A file beside the plan is never imported by its path."""
    (folder.parent / "evil.py").write_text("raise SystemExit(99)\n")
    text = PLAN.format('"redact"')
    if where == "edit":
        text = PLAN.format(f'"{use}"')
    elif where == "drop":
        text += f'[[drop]]\nuse = "{use}"\n'
    else:
        text = text.replace("[[edit]]", f'finders = [{{ use = "{use}" }}]\n[[edit]]')
    (folder / "plan.toml").write_text(text)
    check_error(
        console("run", "in.jsonl", "-o", "out", "--plan", "plan.toml", "-q"), 2, "plan.toml"
    )
    assert not (folder / "out").exists()


DEEP_FILES: dict[str, tuple[str, tuple[str, ...], int]] = {
    # name -> (file that is nested too deeply, arguments, exit code)
    "replay": ("manifest.json", ("replay", "manifest.json", "in.jsonl", "-o", "again"), 3),
    "verify": ("out/manifest.json", ("verify", "out"), 3),
    "report": ("out/manifest.json", ("report", "out"), 3),
    "run over an output": ("out/manifest.json", ("run", "in.jsonl", "-o", "out", "-q"), 3),
    "plan": ("plan.toml", ("run", "in.jsonl", "-o", "out", "--plan", "plan.toml", "-q"), 2),
    "--set": ("", ("run", "in.jsonl", "-o", "out", "--set", f"leave={DEEP}", "-q"), 2),
}


@pytest.mark.parametrize("name", DEEP_FILES)
def test_a_file_that_is_nested_too_deeply_is_no_valid_file(
    name: str, folder: Path, console: Console
) -> None:
    path, arguments, code = DEEP_FILES[name]
    if path:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(f"x = {DEEP}" if path.endswith(".toml") else DEEP)
    check_error(console(*arguments), code, Path(path).name or "leave")


@pytest.mark.parametrize("file", ["index.json", "vault/tombstones/00000.json"])
def test_a_private_folder_with_a_damaged_file(file: str, folder: Path, console: Console) -> None:
    assert console("run", "in.jsonl", "-o", "out", "-q", "--seed", "1")[0] == 0
    path = folder / "out.private" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(DEEP)
    for arguments in (
        ("verify", "out"),
        ("run", "in.jsonl", "-o", "out2", "--work", "out.private", "-q", "--seed", "1"),
    ):
        code, _, err = console(*arguments)
        assert code in (0, 2, 3) and "internal error" not in err and "Traceback" not in err, err


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("/proc/d", "nothing can be created in /proc"),
        ("/proc/d/e", "there is no folder /proc/d"),
        ("/sys/x", ""),
        ("/dev/null/x", "/dev/null is a file, not a folder"),
        ("in.jsonl/x", "in.jsonl is a file, not a folder"),
    ],
)
def test_an_output_that_cannot_be_created(
    out: str, reason: str, folder: Path, console: Console
) -> None:
    check_error(
        console("run", "in.jsonl", "-o", out, "-q"),
        2,
        f"{out}.private: cannot be made a private folder: {reason}",
    )
    check_error(
        console("run", "in.jsonl", "-o", out, "--work", "w", "-q"),
        2,
        f"{out}: no folder can be created there: {reason}",
    )
    check_error(
        console("stream", "in.jsonl", "-o", out, "-q"), 2, f"{out}: cannot be written: {reason}"
    )


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
@pytest.mark.parametrize("path", ["/proc", "/proc/self/net", "link"])
def test_files_of_the_kernel_are_no_corpus(path: str, folder: Path, console: Console) -> None:
    Path("link").symlink_to("/proc/self/net")
    check_error(console("run", path, "-o", "out", "-q"), 3, f"{path}: /proc holds no corpus")


@pytest.mark.parametrize(
    "arguments",
    [
        "run in.jsonl -o LONG",
        "stream in.jsonl -o LONG",
        "run LONG -o out",
        "status LONG",
        "run in.jsonl -o o --key LONG",
    ],
)
def test_a_name_that_is_too_long_is_no_internal_error(
    arguments: str, folder: Path, console: Console
) -> None:
    code, _, err = console(*arguments.replace("LONG", "x" * 300).split())
    assert code in (2, 3) and "internal error" not in err and err.count("error: ") == 1, err


@pytest.mark.parametrize("arguments", ["run in.jsonl -o out", "detect in.jsonl", "stream"])
def test_a_current_folder_that_was_deleted_is_named(
    arguments: str, folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "deleted").mkdir()
    monkeypatch.chdir(folder / "deleted")
    (folder / "deleted").rmdir()
    check_error(console(*arguments.split()), 2, "the current folder was deleted")


@pytest.mark.parametrize("seconds", ["9" * 17, "253402300800", "1e5", "²", "tomorrow"])
def test_a_date_that_is_none_is_refused_before_the_run(
    seconds: str, folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)
    check_error(
        console("run", "in.jsonl", "-o", "out", "-q"), 2, "SOURCE_DATE_EPOCH: is not a date"
    )
    assert not Path("out.private").exists()


@pytest.mark.parametrize("seconds", [1e12, -1e12])
def test_a_clock_far_from_today_is_refused_before_the_run(
    seconds: float, folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: seconds)
    check_error(console("run", "in.jsonl", "-o", "out", "-q"), 2, "the clock of this machine")


def run_in_shell(folder: Path, before: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell, after a statement such as `ulimit`."""
    command = [
        "bash",
        "-c",
        f'{before}; exec "$@"',
        "bash",
        sys.executable,
        "-m",
        "sanitize",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, timeout=120
    )


@pytest.mark.skipif(
    sys.platform != "linux", reason="limits of the address space exist only on Linux"
)
@pytest.mark.parametrize("kilobytes", [600_000, 800_000, 1_000_000, 1_700_000])
def test_a_small_address_space_is_refused(kilobytes: int, folder: Path) -> None:
    result = run_in_shell(folder, f"ulimit -v {kilobytes}", "run", "in.jsonl", "-o", "out", "-q")
    check_error((result.returncode, "", result.stderr), 7, "the address space is limited to")
    assert not (folder / "out").exists() and not (folder / "out.private").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("options", [("--json",), ()])
def test_a_report_that_is_lost_does_not_call_for_another_run(
    options: tuple[str, ...], folder: Path
) -> None:
    result = run_in_shell(folder, "exec > /dev/full", "run", "in.jsonl", "-o", "out", *options)
    assert (
        result.returncode == 7
        and "The command itself has completed" in result.stderr
        and "again to resume" not in result.stderr
    )
    assert (folder / "out" / "manifest.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing(closed: str, folder: Path) -> None:
    """Files would get the numbers of the closed streams, and what is printed would be written into
    them."""
    assert run_in_shell(folder, ":", "run", "in.jsonl", "-o", "out", "--seed", "1").returncode == 0
    assert (
        run_in_shell(
            folder, f"exec {closed}", "run", "in.jsonl", "-o", "again", "--seed", "1"
        ).returncode
        == 0
    )
    assert (folder / "again" / "SHA256SUMS").read_bytes() == (
        folder / "out" / "SHA256SUMS"
    ).read_bytes()


# a table of the private folder is missing or damaged: what every command does
TABLE_COMMANDS = (
    ("sql", "w", "SELECT count(*) FROM occurrences"),
    ("sql", "w", "SELECT count(*) FROM documents"),
    ("top", "w"),
    ("subject", "w", "--match", "who.txt"),
    ("diff", "out", "--work", "w"),
    ("report", "out", "--work", "w", "--to", "page.html"),
    ("verify", "out", "--work", "w"),
    ("label", "w", "--no-ask"),
    ("subject", "w", "--match", "who.txt", "--erase"),
    ("run", "in.jsonl", "-o", "out2", "--work", "w", "--plan", "rmft", "-q", "--workers", "1"),
)
WRITING_COMMANDS = ("subject", "run")  # these get a copy of the folder of their own


@pytest.mark.slow
def test_a_broken_table_is_never_an_internal_error(folder: Path, console: Console) -> None:
    (folder / "who.txt").write_text(f"{ANN}\n")
    arguments = ("run", "in.jsonl", "-o", "out", "--plan", "redact", "-q", "--workers", "1")
    assert console(*arguments)[0] == 0
    tables = sorted((folder / "out.private").rglob("*.parquet"))
    assert len(tables) > 15
    failures = 0
    for table_no, table in enumerate(tables):
        for number, command in enumerate(TABLE_COMMANDS):
            if number == 0 or command[0] in WRITING_COMMANDS:
                for name in ("w", "out2"):
                    shutil.rmtree(folder / name, ignore_errors=True)
                shutil.copytree(folder / "out.private", folder / "w")
                broken = folder / "w" / table.relative_to(folder / "out.private")
                content = broken.read_bytes()
                broken.unlink()
                if table_no % 2:  # truncated; the others are deleted
                    broken.write_bytes(content[: len(content) // 2])
            code, _, err = console(*command)
            place = (table.relative_to(folder), command, err)
            assert code in (0, 2, 3), place
            assert not any(word in err for word in ("internal error", "Traceback", ANN)), place
            failures += code != 0
    assert failures > 20
