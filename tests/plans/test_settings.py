"""One settings model: the options of the commands and the keyword arguments of the Python functions
follow from it."""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest
import typer.main

import sanitize
from sanitize.cli.main import app
from sanitize.errors import UsageError
from sanitize.plans import python_api
from sanitize.plans.settings import COMMAND_SETTINGS, Settings, flag_of, options_of, settings_of

FUNCTION_OPTIONS = {
    "run": python_api.RunOptions,
    "index": python_api.IndexOptions,
    "stream": python_api.StreamOptions,
    "explain": python_api.ExplainOptions,
    "redact": python_api.RedactOptions,
}


def test_typed_dictionaries_have_the_settings_of_their_command() -> None:
    for command, options in FUNCTION_OPTIONS.items():
        names = set(typing.get_type_hints(options)) - {"progress"}
        assert names == set(COMMAND_SETTINGS[command]), command


def test_functions_show_their_settings_in_help() -> None:
    for command in FUNCTION_OPTIONS:
        parameters = inspect.signature(getattr(sanitize, command)).parameters
        for name in COMMAND_SETTINGS[command]:
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters[name].default == Settings.__dataclass_fields__[name].default


def test_commands_have_the_options_of_their_settings() -> None:
    group: Any = typer.main.get_command(app)
    for command in COMMAND_SETTINGS.keys() - {"redact"}:
        flags = {parameter.opts[-1]: parameter for parameter in group.commands[command].params}
        for name, option in options_of(command).items():
            assert flags[flag_of(name)].help == option.help


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("text_column", "messages[].content", ("messages[].content",)),
        ("text_column", ["a", "b"], ("a", "b")),
        ("text_column", None, ("text",)),
        ("keep", "note", ("note",)),
        ("sample", "5%", 0.05),
        ("sample", 0.5, 0.5),
        ("max_quarantine", 1, 1.0),
        ("max_doc_bytes", "1.5KB", 1536),
        ("key", "key.txt", Path("key.txt")),
    ],
)
def test_values_are_read(name: str, value: object, expected: object) -> None:
    assert getattr(Settings(**{name: value}), name) == expected  # type: ignore[arg-type]


WRONG_VALUES: list[tuple[str, object, str]] = [
    ("text_column", 3, "--text-column 3: expected the name of a column, or a list of names"),
    ("text_column", [""], "--text-column (list): expected the name"),
    ("user_column", ["a"], "--user-column (list): expected one text"),
    ("documents", "words", "--documents words: known: file, lines, paragraphs."),
    ("read_as", "tex", "--as tex: did you mean text?"),
    ("include", 3, "--include 3: expected"),
    ("seed", "1", "--seed '1': expected a whole number"),
    ("seed", True, "--seed True: expected a whole number"),
    ("workers", 0, "--workers 0: expected a whole number of at least 1"),
    ("engine", "sparc", "--engine sparc: did you mean spark? Known: local, spark."),
    (
        "master",
        "local[2]",
        "--master and --remote give the address of Spark; use them with --engine spark",
    ),
    ("memory_limit", "much", "--memory-limit much: expected a size"),
    ("memory_limit", 5, "--memory-limit 5: expected a size"),
    ("rows_per_shard", 0, "--rows-per-shard 0: expected a whole number from 1 to 524,288"),
    ("max_quarantine", "many", "--max-quarantine many: expected a share of the records"),
    ("max_quarantine", 2, "--max-quarantine 2: expected a share of the records"),
    ("sample", 0, "--sample 0: expected a share of the documents above 0"),
    ("max_doc_bytes", "1TB", "--max-doc-bytes 1TB: expected a size of 512 MB at most"),
    ("strict", "yes", "--strict yes: expected True or False"),
    ("verify", "slow", "--verify slow: known: fast, full, off."),
    ("format", "csv", "--format csv: known: "),
    ("known", 3, "--known 3: expected the path of a file"),
    ("key", "s3://bucket/key", "expected a path on this machine"),
    ("progress", 3, "--progress 3: expected a function"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG_VALUES)
def test_wrong_values_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_settings_of_another_command_are_refused() -> None:
    with pytest.raises(
        UsageError, match="index: verify does not apply to this function; only to run"
    ):
        settings_of("index", {"verify": "off"})
    with pytest.raises(UsageError, match="run: there is no argument worker; did you mean workers"):
        settings_of("run", {"worker": 1})


def test_settings_survive_as_json() -> None:
    settings = Settings(
        text_column=("body", "note"),
        user_column="who",
        keep=["note"],
        drop="raw",
        seed=3,
        known="list.csv",
        sample="5%",  # type: ignore[arg-type]
    )
    restored = Settings.from_json(settings.to_json())
    assert restored == settings or (
        restored.known == Path("list.csv").absolute() and restored.policies == settings.policies
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("--sample 2: expected a share", "sample=2: expected a share"),
        ("Name the column with --text-column NAME.", "Name the column with text_column=NAME."),
        ("--verify fats: known", 'verify="fats": known'),
        (
            "use --replace to replace it, or another -o",
            "use replace=True to replace it, or another out",
        ),
        ("give -o FOLDER", "give out=FOLDER"),
        ("--as cvs: did you mean csv?", 'read_as="cvs": did you mean csv?'),
        ("can be read; --as text reads any text", 'can be read; read_as="text" reads any text'),
        (
            "run again without --verify off, with --replace",
            'run again without verify="off", with replace=True',
        ),
        ("set it (--set blacklist.k=2)", 'set it (Plan.with_({"blacklist.k": 2}))'),
        ("--max-quarantine allows 10%", "max_quarantine allows 10%"),
        ("run `sanitize run --append` again", "run `sanitize run --append` again"),
        (
            "sanitize index INPUT... --work a/b.private. The key",
            "sanitize index INPUT... --work a/b.private. The key",
        ),
    ],
)
def test_errors_of_python_functions_name_python_arguments(message: str, expected: str) -> None:
    assert python_api.to_python_names(message) == expected
