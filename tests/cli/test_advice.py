"""Advice in messages ends the problem: each case runs a command, takes the advice out of its
message, and follows it literally."""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.core
import typer.main
from typer.testing import CliRunner

import sanitize
from sanitize.cli import main

MAIL = "ann.roe@example.com"
PACKAGE = Path(sanitize.__file__).parent
Run = Callable[[str], tuple[int, str]]


@dataclass(frozen=True)
class Case:
    """`before` are commands that must succeed; `command` then gives the message, in which `advice`
    is found.

    `follow` are the commands that follow the advice, with the groups of `advice` filled in (`{0}`);
    each must end with exit code 0.
    """

    name: str
    command: str
    advice: str
    follow: Sequence[str]
    code: int
    before: Sequence[str] = ()


PUBLISH = "run texts.jsonl -o out --plan redact"  # what several cases begin with
CASES = (
    Case(
        "too much in quarantine",
        "run mixed -o out --plan redact",
        r"Give only the files that can be read, such as FOLDER/(\*\.txt), (with --replace), or"
        r" allow it with (--max-quarantine \d+%).",
        [
            "run mixed/a.txt mixed/b.txt -o out --plan redact --replace",
            "run mixed -o other --plan redact {2}",
        ],
        5,
    ),
    Case(
        "where quarantined records are",
        "run mixed -o out --plan redact",
        r"To see where they are: sanitize (sql out.private --name quarantine_by_reason)",
        ["{0}"],
        5,
    ),
    Case(
        "explain says what the run would refuse",
        "explain mixed --plan redact",
        r"a run would stop: .* or allow it with (--max-quarantine \d+%)",
        ["run mixed -o out --plan redact {0}"],
        0,
    ),
    Case(
        "a value in a kept column",
        "run kept.jsonl -o out --plan redact --keep note",
        r"Run again with (--sanitize 'note') in place of --keep, or leave them out"
        r" \((--drop) COLUMN\), or pseudonymize them \((--pseudonymize) COLUMN\)",
        [
            "run kept.jsonl -o o1 --plan redact {0}",
            "run kept.jsonl -o o2 --plan redact {1} note",
            "run kept.jsonl -o o3 --plan redact {2} note",
        ],
        4,
    ),
    Case(
        "a value in a column of numbers",
        "run numbers.jsonl -o out --plan redact",
        r"left out \((--drop) COLUMN\), or cleaned .*; what a finder missed .* with (--known) FILE",
        [
            "run numbers.jsonl -o o1 --plan redact {0} n",
            "run texts.jsonl -o o2 --plan redact {1} known.csv",
        ],
        4,
    ),
    Case(
        "a value in numbers inside a column",
        "run numbers_inside.jsonl -o out --plan redact",
        r"left out \((--drop) COLUMN\)",
        [
            "run numbers_inside.jsonl -o o1 --plan redact {0} m",
            "run numbers_inside.jsonl -o o2 --plan redact {0} m.n",
        ],
        4,
    ),
    Case(
        "an encoded value in a kept column",
        "run kept_code.jsonl -o out --plan redact --keep note",
        r"left out \((--drop) COLUMN\), or cleaned if it holds texts \((--sanitize) COLUMN\)",
        [
            "run kept_code.jsonl -o o1 --plan redact {0} note",
            "run kept_code.jsonl -o o2 --plan redact {1} note",
        ],
        4,
    ),
    Case(
        "a value as the name of a column",
        "run named.jsonl -o out --plan redact",
        r"(Rename) the column .*, or leave the column out \((--drop) COLUMN\)",
        [
            f"run named.jsonl -o o1 --plan redact {{1}} {MAIL}",
            "run renamed.jsonl -o o2 --plan redact",
        ],
        4,
    ),
    Case(
        "a kept column that is renamed after what it holds",
        "run kept.jsonl -o out --plan redact --keep note",
        r"rename them in the input after what they hold, such as url, to keep that \((--keep)"
        r" COLUMN\)",
        ["run renamed.jsonl -o out --plan redact {0} email --replace"],
        4,
    ),
    Case(
        "OUT of another plan",
        "run texts.jsonl -o out --plan surrogates",
        r"use (--replace) to replace it once the new one is complete, or use another (-o)",
        [
            "run texts.jsonl -o other --plan surrogates",
            "run texts.jsonl -o out --plan surrogates {0}",
        ],
        2,
        [PUBLISH],
    ),
    Case(
        "another description",
        "run texts.jsonl -o out --plan redact --purpose training",
        r"with another description \(--purpose\); use (--replace)",
        ["run texts.jsonl -o out --plan redact --purpose training {0}"],
        2,
        [PUBLISH],
    ),
    Case(
        "a description with a removed value",
        f"run texts.jsonl -o out --plan redact --responsible {MAIL}",
        r"Give a text without it, such as the (name of an office)",
        ["run texts.jsonl -o out --plan redact --responsible '{0}'"],
        4,
    ),
    Case(
        "a fast check",
        "run texts.jsonl -o out --plan redact --verify fast",
        r"run again without --verify fast, with (--replace)",
        ["run texts.jsonl -o out --plan redact {0}", "verify out"],
        0,
    ),
    Case(
        "a leak that a fast check did not see",
        "verify out",
        r"It was written with --verify fast: run again without that, with (--replace)",
        ["run encoded.jsonl -o out --plan redact {0}", "verify out"],
        4,
        ["run encoded.jsonl -o out --plan redact --verify fast"],
    ),
    Case(
        "a value in a file that no run published",
        "verify out",
        r"(Delete) the files that no run published",
        ["delete out/notes.txt", "verify out"],
        4,
        ["run texts.jsonl -o out --plan redact", f"edit out/notes.txt {MAIL}"],
    ),
    Case(
        "no such text column",
        "run bodies.jsonl -o out --plan redact --text-column texts",
        r"Name the column with (--text-column 'body')\.",
        ["run bodies.jsonl -o out --plan redact {0}"],
        2,
    ),
    Case(
        "a misspelt plan",
        "run texts.jsonl -o out --plan redakt",
        r"did you mean (redact)\?",
        ["run texts.jsonl -o out --plan {0}"],
        2,
    ),
    Case(
        "a misspelt setting of a plan",
        "run texts.jsonl -o out --plan redact --set edit.0.labels=numbered",
        r"did you mean (label)\?",
        ["run texts.jsonl -o out --plan redact --set edit.0.{0}=numbered"],
        2,
    ),
    Case(
        "a misspelt option",
        "run texts.jsonl -o out --plan redact --replac",
        r"did you mean (--replace)\?",
        ["run texts.jsonl -o out --plan redact {0}"],
        2,
    ),
    Case(
        "an edited card",
        "verify out",
        r"run again with (--replace)|(--replace)",
        ["run texts.jsonl -o out --plan redact --replace", "verify out"],
        3,
        [PUBLISH, "edit out/README.md"],
    ),
    Case(
        "an emptied vault",
        "verify out",
        r"(move) it and the output away and run the same command again",
        [
            "{0} out.private away.private",
            "{0} out away",
            "run texts.jsonl -o out --plan redact",
            "verify out",
        ],
        3,
        [PUBLISH, "delete out.private/vault"],
    ),
    Case(
        "an append to what does not exist",
        "run texts.jsonl -o out --plan redact --append",
        r"run the same command without (--append); to add them to what is published, give its (-o)"
        r" and --work",
        [PUBLISH, "run more.jsonl {1} out --plan redact {0}"],
        2,
    ),
    Case(
        "the private folder in place of OUT",
        "report out.private",
        r"give the folder that the run published, and this one with (--work)",
        ["report out {0} out.private"],
        2,
        [PUBLISH],
    ),
    Case(
        "what to do next",
        "run texts.jsonl -o out --plan redact",
        r"next +sanitize (top .+?) +\| +sanitize (sql .+?) +\| +sanitize (verify .+)",
        ["{0}", "{1}", "{2}"],
        0,
    ),
    Case(
        "after plan init",
        "plan init own.toml",
        r"Next: sanitize (plan show own\.toml)",
        ["{0}", "run texts.jsonl -o out --plan own.toml"],
        0,
    ),
    Case(
        "an unknown table",
        "sql out.private --name quarantin",
        r"quarantine_by_reason",
        ["sql out.private --list"],
        2,
        [PUBLISH],
    ),
)


def write_inputs(folder: Path) -> None:
    """The inputs of all cases; all people are invented."""
    (folder / "mixed").mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / "mixed" / name).write_text(f"Write to {MAIL}.\n" * 20)
    (folder / "mixed" / "c.parquet").write_bytes(b"PAR1" + b"\0" * 900 + b"PAR1")
    rows = {
        "texts": [{"text": f"Write to {MAIL}"}, {"text": "or call 205-555-0142"}],
        "encoded": [
            {"text": f"Write to {MAIL}"},
            {"text": f"id={base64.b64encode(MAIL.encode()).decode()}"},
        ],
        "more": [{"text": "or by fax: 205-555-0143"}],
        "kept": [{"text": "hello", "note": MAIL}, {"text": "there", "note": "x"}],
        "renamed": [{"text": "hello", "email": MAIL}],
        "numbers": [{"text": "call 205-555-0142", "n": 2055550142}],
        "numbers_inside": [{"text": "call 205-555-0142", "m": {"n": 2055550142, "t": "x"}}],
        "kept_code": [{"text": MAIL, "note": base64.b64encode(MAIL.encode()).decode()}],
        "named": [{"text": "hello", MAIL: "x"}],
        "bodies": [{"id": "1", "body": f"Write to {MAIL}"}],
    }
    (folder / "known.csv").write_text("kind,value\nPERSON,Ann Zyq\n")
    for name, lines in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def publish_texts(folder: Path) -> None:
    write_inputs(folder)
    with contextlib.chdir(folder):
        result = CliRunner().invoke(main.app, [*shlex.split(PUBLISH), "--workers", "1"])
    assert result.exit_code == 0, result.output


@pytest.fixture()
def run(
    console: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs a command line in the folder of the inputs; `edit FILE TEXT`, `delete FILE` and `move
    FILE NAME` change files and folders."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)

    def run_line(line: str) -> tuple[int, str]:
        arguments = shlex.split(line)
        if arguments[0] in ("edit", "delete", "move"):
            path = Path(arguments[1])
            if arguments[0] == "move":
                path.rename(arguments[2])
            elif arguments[0] == "delete":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            else:
                path.write_text(
                    (path.read_text() if path.exists() else "")
                    + " ".join(arguments[2:] or ["edited"])
                )
            return 0, ""
        if arguments[0] == "run":
            arguments += ["--workers", "1"]
        code, out, err = console(*arguments)
        return code, out + err

    return run_line


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_advice_ends_the_problem(
    case: Case, run: Run, tmp_path: Path, copy_prepared: Callable[..., Path]
) -> None:
    for line in case.before:
        if line == PUBLISH:
            copy_prepared(publish_texts, tmp_path)
        else:
            assert run(line)[0] == 0
    code, message = run(case.command)
    assert code == case.code, message
    found = re.search(case.advice, message)
    assert found, message
    for line in case.follow:
        followed = line.format(*(group or "" for group in found.groups()))
        code, message = run(followed)
        assert code == 0, (followed, message)


def list_options() -> dict[str, set[str]]:
    """The options of every command, by its name."""
    group = typer.main.get_command(main.app)
    assert isinstance(group, typer.core.TyperGroup)
    return {
        name: {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        for name, command in group.commands.items()
    }


def iter_texts() -> Iterator[tuple[str, str]]:
    """(place, text) of every string literal of the package that is no docstring, parts of f-strings
    included."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docstrings
            ):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value


@pytest.mark.slow
def test_messages_name_commands_and_options_that_exist() -> None:
    options = list_options()
    every_option = set().union(*options.values()) | {"--help", "--version"}
    unknown = []
    for place, text in iter_texts():
        commands = re.findall(
            r"(?<![-\w./])sanitize ([a-z]+)\b(?= (?:[A-Z]{2,}|--|\S+\.private|run|--)|`)", text
        )
        unknown += [f"{place}: sanitize {name}" for name in commands if name not in options]
        named = re.findall(r"(?<![-\w])(--[a-z][a-z-]+)", text)
        unknown += [
            f"{place}: {name}"
            for name in named
            if name not in every_option and not _belongs_to_others(place, name)
        ]
    assert not unknown, "\n".join(unknown)


def _belongs_to_others(place: str, option: str) -> bool:
    """Options of pip, of `hf download`, of curl and of the script that compiles kernels, and an
    argument of `sanitize.verify` that is an option only until `to_python_names` has translated
    it."""
    return option in (
        "--extra-index-url",
        "--force-reinstall",
        "--index-url",
        "--no-deps",
        "--upgrade",
        "--user",
        "--repo-type",
        "--local-dir",
        "--proxy-user",
    ) or (
        (option == "--mode" and place.startswith("verification/published/output_check.py"))
        or place.startswith("kernels/build.py")
    )
