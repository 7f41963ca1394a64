"""What a shell sees: `-h`, completion, mistakes in a command line in one line, and exit codes of
failing storages."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sanitize.cli import main
from sanitize.plans.shipped_plans import plan_names

Console = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("command", ["", *main.COMMANDS])
def test_h_is_help(command: str, console: Console) -> None:
    code, out, err = console(*command.split(), "-h")
    assert (code, err) == (0, "") and out.startswith("Usage: ") and "-h, --help" in out
    assert console(*command.split(), "--help")[1] == out


# words of the command line -> what the shell completes the last of them to
COMPLETIONS: dict[str, list[str]] = {
    "ru": ["run"],
    "run --plan r": ["redact", "rmft"],
    "detect a.txt --plan ": plan_names(),
    "run --verify f": ["full", "fast"],
    "run --engine s": ["spark"],
    "run --max-doc-b": ["--max-doc-bytes"],
    "top work --kind EMAIL": ["EMAIL_ADDRESS"],
    "top work --by o": ["occurrences"],
    "sql work --name top_v": ["top_values", "top_values_by_users"],
    "detect a.txt --fail-on cred": ["credential"],
    "detect a.txt --fail-on credential,US_SSN,cred": [],  # given already
    "detect a.txt --fail-on credential,US_SSN,con": ["credential,US_SSN,contact"],
    "list pl": ["plans"],
    "plan t": ["test"],
    "plan show stri": ["strict"],
    "run no-such-file": [],
}


@pytest.mark.parametrize("line", COMPLETIONS)
def test_a_shell_completes_names(
    line: str, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    words = ["sanitize", *line.split(" ")]
    monkeypatch.setenv("_SANITIZE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    code, out, err = console()
    assert (code, out.split(), err) == (0, COMPLETIONS[line], "")


def test_completion_reads_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    (tmp_path / "sanitize.toml").write_text("no TOML")
    monkeypatch.chdir(tmp_path)
    test_a_shell_completes_names("run --plan r", monkeypatch, console)


MISTAKES: dict[str, str] = {
    "rnu": "error: there is no command 'rnu'; did you mean run? Known: demo, ",
    "--vers": "error: there is no option --vers; did you mean --version? Known: ",
    "run in.txt --wrokers 2": (
        "error: run: there is no option --wrokers; did you mean --workers? Known: --append, "
    ),
    "run in.txt -x": "error: run: there is no option -x; known: -h, -o, -q.",
    "run in.txt": "error: run: missing option '-o' / '--out'; see `sanitize run -h`",
    "run in.txt -o": "error: run: option '-o' requires an argument; see `sanitize run -h`",
    "run in.txt -o out --workers 0": "error: run: invalid value for '--workers': ",
    "top": "error: top: missing argument 'WORK'; see `sanitize top -h`",
    "detect a.txt --plan redakt": (
        "error: redakt: neither a shipped plan nor a file; did you mean redact? Known: baseline, "
    ),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_in_a_command_line_is_one_line(line: str, console: Console) -> None:
    code, out, err = console(*line.split())
    assert (code, out) == (2, "") and err.startswith(MISTAKES[line]) and err.count("\n") == 1, err


def test_no_arguments_are_help(console: Console) -> None:
    code, out, err = console()
    assert code == 2 and "Commands:" in out + err


@pytest.mark.parametrize(
    "arguments",
    [
        ("ftp://127.0.0.1:{port}/in", "-o", "out"),
        ("in.txt", "-o", "ftp://127.0.0.1:{port}/out", "--work", "w"),
    ],
)
def test_a_storage_that_does_not_answer_has_an_exit_code(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    pytest.importorskip("fsspec", reason="comes with the extra `remote`")
    from sanitize.storage import remote_storage

    monkeypatch.setattr(remote_storage, "RETRY_SECONDS", 0)
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("nothing")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # no one listens there
        code, _, err = console(
            "run", *(one.format(port=unused.getsockname()[1]) for one in arguments), "-q"
        )
    assert (
        code == 9
        and "the storage failed 3 times (ConnectionRefusedError)" in err
        and not Path("out").exists()
    ), err


def test_the_script_of_the_completion_can_be_shown(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--show-completion` finds the shell among the processes above it; its script is that of this
    variable."""
    monkeypatch.setenv("_SANITIZE_COMPLETE", "source_bash")
    code, out, _ = console()
    assert code == 0 and "_SANITIZE_COMPLETE" in out
