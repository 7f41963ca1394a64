"""Settings that are not given on the command line: from `SANITIZE_*` variables, else from
`sanitize.toml` in the current folder.

    command line > SANITIZE_* variables > sanitize.toml > default

Only commands read them; the functions of the Python API do not. A variable is the user's own and
may give every setting but decisions about one OUT. The file may come with a folder that somebody
else made: it names no code, no path, no key, no other machine, and no weaker check (ADR 050,
docs/security.md). Imports nothing heavy, because every command needs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import UsageError, suggest_names
from sanitize.plans.settings import POLICIES, Settings, flag_of, option_of
from sanitize.plans.shipped_plans import EARLIER_NAMES, plan_names

FILE_NAME = "sanitize.toml"
PREFIX = "SANITIZE_"
MAX_FILE_BYTES = 64 << 10
MAX_TEXT_LENGTH = 200  # characters of a text in the file
PLAN = "plan"  # the one setting of commands that is not in the settings model
# decisions about one OUT: only the command line takes them
_COMMAND_LINE_ONLY = {"replace", "append"}
# what a file in the folder does not decide: keys and public seeds, paths, other machines, how the
# output is checked and how much is read
_NOT_IN_FILE = {
    *_COMMAND_LINE_ONLY,
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
}
_MODEL_SETTINGS = tuple(name for name in Settings.__dataclass_fields__ if name != "progress")
VARIABLE_SETTINGS = (PLAN, *(name for name in _MODEL_SETTINGS if name not in _COMMAND_LINE_ONLY))
FILE_SETTINGS = (PLAN, *(name for name in _MODEL_SETTINGS if name not in _NOT_IN_FILE))
# settings that exclude each other: where one comes from a higher source, a lower source gives none
# of them
_EXCLUSIVE = ({"seed", "key"}, {"engine", "master", "remote"})


@dataclass(frozen=True, kw_only=True)
class GivenSetting:
    """A setting with its value, and the variable or the file that gives it."""

    name: str
    value: Any
    source: str


def read_variables(
    names: Collection[str], environment: Mapping[str, str] | None = None
) -> list[GivenSetting]:
    """The settings of `names` that variables give; an empty variable gives none. Raises UsageError
    for a value that a setting does not take."""
    variables = os.environ if environment is None else environment
    found = []
    for name in VARIABLE_SETTINGS:
        text = variables.get(variable_of(name), "")
        if name in names and text:
            value = (
                text
                if name == PLAN
                else option_of(name).read(f"{variable_of(name)} =", _parse_variable(name, text))
            )
            found.append(GivenSetting(name=name, value=value, source=variable_of(name)))
    return found


def variable_of(name: str) -> str:
    """The variable of a setting, such as `SANITIZE_TEXT_COLUMN`."""
    return PREFIX + name.upper()


def _parse_variable(name: str, text: str) -> Any:
    """The text of a variable as the type of its setting; the text itself where it has no such
    value, which the setting then refuses."""
    default = Settings.__dataclass_fields__[name].default
    if isinstance(default, bool):
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(
            text.lower(), text
        )
    if isinstance(default, tuple):
        return [part.strip() for part in text.split(",")]
    if (option_of(name).minimum is not None or name == "seed") and re.fullmatch(
        r"-?[0-9]{1,18}", text
    ):
        return int(text)
    return text


def list_unknown_variables(environment: Mapping[str, str] | None = None) -> list[str]:
    """The variables that begin with `SANITIZE_` and give no setting, sorted."""
    variables = os.environ if environment is None else environment
    known = {variable_of(name) for name in VARIABLE_SETTINGS}
    return sorted(name for name in variables if name.startswith(PREFIX) and name not in known)


def read_settings_file(folder: Path) -> list[GivenSetting]:
    """All settings of `sanitize.toml` in a folder; none without such a file. Raises UsageError for
    a file that cannot be read, an unknown key, a key that a file may not give, and a value that a
    setting does not take."""
    path = folder / FILE_NAME
    if not os.path.lexists(path):
        return []
    import tomllib

    expected = (
        f"expected a TOML file in UTF-8 of at most {MAX_FILE_BYTES >> 10} KB; rename it if it is"
        " not meant for this program"
    )
    if not path.is_file():
        raise UsageError(f"{FILE_NAME}: is not a file; {expected}")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UsageError(f"{FILE_NAME}: is too large; {expected}")
        source = tomllib.loads(data.decode("utf-8"))
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{FILE_NAME}: cannot be read ({type(error).__name__}); {expected}"
        ) from None
    except tomllib.TOMLDecodeError as error:
        # the message may quote the file
        place = re.search(r"at line \d+, column \d+|at end of document", str(error))
        raise UsageError(
            f"{FILE_NAME}: not TOML{f' {place[0]}' if place else ''}; {expected}"
        ) from None
    return [
        GivenSetting(name=name, value=_read_file_value(name, value), source=FILE_NAME)
        for name, value in source.items()
    ]


def _read_file_value(name: str, value: object) -> Any:
    if name not in FILE_SETTINGS:
        raise UsageError(f"{FILE_NAME}: {_refuse_key(name)}")
    place = f"{FILE_NAME}: {name} ="
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and not (len(text) <= MAX_TEXT_LENGTH and text.isprintable()):
            # it may be shown in the dataset card
            raise UsageError(
                f"{place} (a text): expected one line of at most {MAX_TEXT_LENGTH} printable"
                " characters"
            )
    if name == PLAN:
        if value not in (*plan_names(), *EARLIER_NAMES):
            shown = value if isinstance(value, str) else f"({type(value).__name__})"
            raise UsageError(
                f"{place} {shown}: is not the name of a shipped plan;"
                f" {suggest_names(str(value), plan_names())} Give a plan of your own by --plan or"
                f" {variable_of(PLAN)}"
            )
        return value
    read_value = option_of(name).read(place, value)
    # not more processes than without the file
    return (
        min(read_value, os.cpu_count() or 1)
        if name == "workers" and read_value is not None
        else read_value
    )


def _refuse_key(name: str) -> str:
    if name in VARIABLE_SETTINGS:
        return (
            f"{name}: a file in the folder may not give this; use {flag_of(name)} or"
            f" {variable_of(name)}, and remove it here"
        )
    if name in _COMMAND_LINE_ONLY:
        return f"{name}: is given only on the command line ({flag_of(name)}); remove it here"
    return f"{name[:60]!r}: unknown key; {suggest_names(name, FILE_SETTINGS)}"


def find_settings(names: Collection[str], on_command_line: Mapping[str, Any]) -> list[GivenSetting]:
    """The settings of `names` that a command gets from variables and the file, at most one of each.

    `on_command_line` has the settings that its options give, which win. A column that a higher
    source gives a policy is taken out of the lists of lower ones, and settings that exclude each
    other all come from the highest source that gives one of them.
    """
    found: dict[str, GivenSetting] = {}
    decided: dict[str, Any] = dict(on_command_line)
    for settings in (
        read_variables(names),
        read_settings_file(Path.cwd()) if set(names) & set(FILE_SETTINGS) else [],
    ):
        new = [
            one
            for one in settings
            if one.name in names and one.name not in decided and not _is_excluded(one.name, decided)
        ]
        columns = {column for policy in POLICIES for column in decided.get(policy) or ()}
        for one in new:
            value = (
                tuple(column for column in one.value if column not in columns)
                if one.name in POLICIES
                else one.value
            )
            decided[one.name] = value
            if value or one.name not in POLICIES:
                found[one.name] = GivenSetting(name=one.name, value=value, source=one.source)
    return list(found.values())


def _is_excluded(name: str, decided: Iterable[str]) -> bool:
    return any(name in group and group & set(decided) for group in _EXCLUSIVE)


def describe_sources(settings: Iterable[GivenSetting]) -> str:
    """A note on settings that a command did not get from its options, such as `plan = redact
    (sanitize.toml)`; "" if there is none."""
    return ", ".join(f"{one.name} = {format_value(one.value)} ({one.source})" for one in settings)


def format_value(value: object) -> str:
    """A value in one word or a list with commas."""
    return ", ".join(value) if isinstance(value, tuple) else str(value)
