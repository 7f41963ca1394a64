"""Settings from `SANITIZE_*` variables and `sanitize.toml`: their order, what a file may not give,
and that only commands read them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import sanitize
from sanitize.cli import settings_sources
from sanitize.cli.settings_sources import (
    FILE_SETTINGS,
    VARIABLE_SETTINGS,
    find_settings,
    list_unknown_variables,
    variable_of,
)
from sanitize.plans.settings import Settings

ANN = "ann.roe@example.com"
Console = Callable[..., tuple[int, str, str]]


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": f"Write to {ANN}", "notes": "a"}) + "\n")
    for name in [name for name in os.environ if name.startswith("SANITIZE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_each_source_wins_over_those_after_it(
    folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Default, file, variable, command line: each adds a source, and the plan of the published
    folder is that of the last."""

    def published_plan(number: int, *options: str) -> str:
        code, _, err = console(
            "run", "in.jsonl", "-o", f"out{number}", "--seed", "1", "-q", *options
        )
        assert code == 0, err
        return str(
            json.loads((folder / f"out{number}" / "manifest.json").read_text())["plan"]["name"]
        )

    assert published_plan(0) == "redact"
    (folder / "sanitize.toml").write_text('plan = "rmft"\n')
    assert published_plan(1) == "rmft"
    monkeypatch.setenv("SANITIZE_PLAN", "surrogates")
    assert published_plan(2) == "surrogates"
    assert published_plan(3, "--plan", "baseline") == "baseline"


def test_a_command_names_the_settings_that_no_option_gives(
    folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sanitize.toml").write_text('plan = "redact"\ndrop = ["notes"]\nbatch = 7\n')
    monkeypatch.setenv("SANITIZE_WORKERS", "1")
    expected = (
        "note: workers = 1 (SANITIZE_WORKERS), plan = redact (sanitize.toml), drop = notes"
        " (sanitize.toml)"
    )
    code, _, err = console("run", "in.jsonl", "-o", "out")
    assert code == 0 and sorted(err.splitlines()[0].removeprefix("note: ").split("), ")) == sorted(
        expected.removeprefix("note: ").split("), ")
    )
    assert pl.read_parquet(folder / "out/data/*.parquet").columns == ["doc_id", "user_id", "text"]
    # the file is named with --quiet, too, and nothing is where an option says the same
    assert console("explain", "in.jsonl", "--plan", "redact", "--drop", "notes")[2] == ""
    assert "(sanitize.toml)" in console("run", "in.jsonl", "-o", "out", "-q")[2]
    assert "SANITIZE" not in console("run", "in.jsonl", "-o", "out", "-q")[2]
    (folder / "sanitize.toml").write_text('drop = ["other"]\n')
    code, _, err = console("run", "in.jsonl", "-o", "out2", "-q")
    assert code == 2 and err.splitlines()[-1].endswith(
        "The command got drop = other (sanitize.toml)."
    )


def find(names: tuple[str, ...], **given: object) -> dict[str, tuple[object, str]]:
    return {one.name: (one.value, one.source) for one in find_settings(names, given)}


def test_a_column_gets_one_policy_from_the_highest_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sanitize.toml").write_text('keep = ["a", "b", "c"]\ndrop = "d"\n')
    monkeypatch.setenv("SANITIZE_DROP", "b, e")
    names = ("sanitize", "keep", "drop")
    assert find(names) == {
        "keep": (("a", "c"), "sanitize.toml"),
        "drop": (("b", "e"), "SANITIZE_DROP"),
    }
    assert find(names, sanitize=("a", "c")) == {"drop": (("b", "e"), "SANITIZE_DROP")}
    assert find(names, drop=("c",)) == {"keep": (("a", "b"), "sanitize.toml")}


def test_settings_that_exclude_each_other_come_from_one_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANITIZE_SEED", "3")
    monkeypatch.setenv("SANITIZE_MASTER", "yarn")
    names = ("seed", "key", "engine", "master")
    assert find(names) == {"seed": (3, "SANITIZE_SEED"), "master": ("yarn", "SANITIZE_MASTER")}
    assert find(names, key="k", engine="local") == {}


VARIABLES: dict[str, tuple[str, str]] = {
    # variable -> (value, words of the error)
    "SANITIZE_WORKERS": (
        "many",
        "SANITIZE_WORKERS = 'many': expected a whole number of at least 1",
    ),
    "SANITIZE_STRICT": ("perhaps", "SANITIZE_STRICT = perhaps: expected"),
    "SANITIZE_FORMAT": ("parket", "SANITIZE_FORMAT = parket: did you mean parquet? Known: "),
    "SANITIZE_MEMORY_LIMIT": ("much", "SANITIZE_MEMORY_LIMIT = much: expected a size"),
    "SANITIZE_MAX_QUARANTINE": ("1000%", "SANITIZE_MAX_QUARANTINE = 1000%: expected a share"),
    "SANITIZE_KEEP": ("a,,b", "SANITIZE_KEEP = (list): expected the name of a column"),
    "SANITIZE_PLAN": ("redakt", "redakt: neither a shipped plan nor a file; did you mean redact?"),
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_wrong_variable_is_refused_where_it_is_used(
    variable: str, folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, words = VARIABLES[variable]
    monkeypatch.setenv(variable, value)
    code, _, err = console("run", "in.jsonl", "-o", "out")
    assert code == 2 and words in err and not (folder / "out").exists()
    assert console("list", "engines")[0] == 0


FILES: dict[str, tuple[str, str]] = {
    # what -> (text of sanitize.toml, words of the error)
    "unknown key": ('pln = "redact"', "'pln': unknown key; did you mean plan? Known: batch, "),
    "a table": ("[run]\nworkers = 1", "'run': unknown key"),
    "a plan file": (
        'plan = "./mine.toml"',
        "plan = ./mine.toml: is not the name of a shipped plan; known: ",
    ),
    "a misspelt plan": ('plan = "redakt"', "did you mean redact?"),
    "plans": ('plan = ["redact"]', "plan = (list): is not the name"),
    "a number in quotes": ('workers = "2"', "workers = '2': expected a whole number"),
    "a switch": ("strict = 1", "strict = 1: expected"),
    "a choice": ('format = "parket"', "format = parket: did you mean parquet?"),
    "several lines": ('purpose = "a\\nb"', "purpose = (a text): expected one line"),
    "a long text": (f'license = "{"x" * 201}"', "license = (a text): expected one line"),
    "no TOML": (f"x = {ANN}", "sanitize.toml: not TOML at line 1, column 5; expected"),
    "nested": (f"x = {'[' * 20_000}", "sanitize.toml: cannot be read"),
    "too large": (f"# {'x' * 70_000}", "sanitize.toml: is too large; expected"),
    **{
        name: (
            f"{name} = {value}",
            (
                f"{name}: a file in the folder may not give this; use --{name.replace('_', '-')} or"
                " SANITIZE_"
            ),
        )
        for name, value in {
            "seed": "1",
            "key": '"key"',
            "known": '"list.csv"',
            "engine": '"spark"',
            "master": '"yarn"',
            "remote": '"sc://host"',
            "verify": '"off"',
            "sample": "0.5",
            "keep_versions": "true",
        }.items()
    },
    **{
        name: (f"{name} = true", f"{name}: is given only on the command line (--{name})")
        for name in ("replace", "append")
    },
    **{
        name: (f'{name} = "x"', f"{name!r}: unknown key")
        for name in ("out", "work", "state", "set", "reveal", "quiet", "yes", "progress")
    },
}


@pytest.mark.parametrize("what", FILES)
def test_what_a_file_may_not_say_is_refused(what: str, folder: Path, console: Console) -> None:
    text, words = FILES[what]
    (folder / "sanitize.toml").write_text(text)
    code, _, err = console("run", "in.jsonl", "-o", "out", "--seed", "1")
    assert (
        code == 2
        and words in err
        and ANN not in err
        and err.count("\n") == 1
        and not (folder / "out").exists()
    )
    assert console("status")[0] == 2
    # help and commands without such settings do not read it
    assert console("run", "-h")[0] == 0 and console("list", "engines")[0] == 0


@pytest.mark.parametrize(
    "make", [Path.mkdir, lambda path: os.mkfifo(path), lambda path: path.symlink_to("nowhere")]
)
def test_a_file_that_is_no_file_is_refused_at_once(
    make: Callable[[Path], object], folder: Path, console: Console
) -> None:
    make(folder / "sanitize.toml")
    code, _, err = console("explain", "in.jsonl")
    assert code == 2 and "sanitize.toml: is not a file; expected" in err


def test_every_setting_of_the_model_is_decided() -> None:
    """A new setting may be given by a variable; whether a file may give it has to be decided
    here."""
    model = {one.name for one in dataclasses.fields(Settings)} - {"progress"}
    not_in_file = {
        "seed",
        "key",
        "known",
        "engine",
        "master",
        "remote",
        "verify",
        "sample",
        "include",
        "read_as",
        "keep_versions",
        "replace",
        "append",
    }
    assert set(VARIABLE_SETTINGS) == model - {"replace", "append"} | {"plan"}
    assert set(FILE_SETTINGS) == model - not_in_file | {"plan"}
    assert len({variable_of(name) for name in VARIABLE_SETTINGS}) == len(VARIABLE_SETTINGS)


def test_the_file_starts_no_more_processes_than_the_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sanitize.toml").write_text("workers = 100000\n")
    monkeypatch.setattr(settings_sources.os, "cpu_count", lambda: 3)
    assert find(("workers",)) == {"workers": (3, "sanitize.toml")}


def test_status_shows_where_each_setting_comes_from(
    folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert console("status") == (
        0,
        (
            "settings  the defaults: no SANITIZE_* variable and no sanitize.toml in this folder"
            " gives one\n"
        ),
        "",
    )
    (folder / "sanitize.toml").write_text('plan = "redact"\nkeep = ["notes"]\n')
    monkeypatch.setenv("SANITIZE_PLAN", "surrogates")
    monkeypatch.setenv("SANITIZE_WORKER", ANN)
    monkeypatch.setenv("SANITIZE_REPLACE", "1")
    monkeypatch.setenv("SANITIZE_DROP", "")
    code, out, _ = console("status")
    assert code == 0 and ANN not in out
    assert [line.split() for line in out.splitlines()[4:7]] == [
        ["plan", "surrogates", "SANITIZE_PLAN"],
        ["plan", "(not", "used:", "another", "source", "wins)", "sanitize.toml"],
        ["keep", "notes", "sanitize.toml"],
    ]
    assert (
        "SANITIZE_WORKER gives no setting; did you mean SANITIZE_WORKERS?" in out
        and "SANITIZE_REPLACE gives no setting" in out
    )
    assert list_unknown_variables(
        {"SANITIZE_CRASH_AT": "", "SANITIZER": "", "SANITIZE_SEED": "1"}
    ) == ["SANITIZE_CRASH_AT"]
    data = json.loads(console("status", "--json")[1])
    assert data["unknown_variables"] == ["SANITIZE_REPLACE", "SANITIZE_WORKER"]
    assert [(one["name"], one["source"], one["used"]) for one in data["settings"]] == [
        ("plan", "SANITIZE_PLAN", True),
        ("plan", "sanitize.toml", False),
        ("keep", "sanitize.toml", True),
    ]


def test_functions_of_python_read_neither(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sanitize.toml").write_text("no TOML at all")
    monkeypatch.setenv("SANITIZE_PLAN", "surrogates")
    monkeypatch.setenv("SANITIZE_WORKERS", "x")
    assert sanitize.redact("Write to " + ANN) == "Write to [EMAIL_ADDRESS]"
    sanitize.run("in.jsonl", "out", seed=1)
    assert json.loads((folder / "out" / "manifest.json").read_text())["plan"]["name"] == "redact"


@pytest.mark.parametrize("command", ["detect", "redact"])
def test_commands_that_read_files_take_the_settings_of_reading(
    command: str, folder: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.log", "b.txt"):
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / name).write_text(f"{name} {ANN}")
    monkeypatch.setenv("SANITIZE_INCLUDE", "*.log")
    output = ("-o", "out") if command == "redact" else ()
    code, out, err = console(command, "in", *output)
    assert code == 0 and "note: include = *.log (SANITIZE_INCLUDE)" in err
    if output:
        assert [path.name for path in (folder / "out").iterdir()] == ["a.log"]
    else:
        assert "a.log" in out and "b.txt" not in out
    monkeypatch.setenv("SANITIZE_READ_AS", "parquet")
    code, _, err = console(command, "in", *output)
    assert code == (3 if output else 2) and "read_as = parquet (SANITIZE_READ_AS)" in err
    code, _, err = console(command, "in", *output, "--as", "text", "--include", "*")
    assert code == 0 and "note" not in err
