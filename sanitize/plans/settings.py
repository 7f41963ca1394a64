"""The settings of all commands besides inputs, outputs and the plan: one model, from which the
command line takes its options and the Python functions their keyword arguments.

Each field has its help text and how a value is read. `COMMAND_SETTINGS` lists which fields a
command has, in the order of its `--help`. Imports nothing heavy, because `--help` needs it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitize.core.engine import engine_names
from sanitize.core.progress import ProgressCallback, ignore_progress
from sanitize.engines.memory_limits import parse_memory_limit, parse_size
from sanitize.errors import UsageError, suggest_names

if TYPE_CHECKING:
    from sanitize.readers.column_policies import Columns


# ------------------------------------------------------------------------------- reading values
# Each function gets the option's name and a value from the command line or from Python, and returns
# the field's value.


def refuse_value(flag: str, value: object, expected: str) -> UsageError:
    """The error for a value that an option does not take. A number or a short text is repeated; of
    all else only the type is named."""
    is_short = (
        value is None
        or isinstance(value, int | float | Path)
        or (isinstance(value, str) and len(value) <= 60)
    )
    shown = f"{value:g}" if isinstance(value, float) else value
    return UsageError(
        f"{flag} {shown if is_short else f'({type(value).__name__})'}: expected {expected}"
    )


def _read_names(flag: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(
        isinstance(name, str) and name for name in names
    ):
        raise refuse_value(flag, value, "the name of a column, or a list of names")
    return tuple(names)


def _read_text(flag: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise refuse_value(flag, value, "one text")


def _read_path(flag: str, value: object) -> Path | None:
    from sanitize.storage.remote_storage import require_local_path

    if value is None or isinstance(value, str | Path):
        return None if value is None else require_local_path(value)
    raise refuse_value(flag, value, "the path of a file")


def _read_flag(flag: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise refuse_value(flag, value, "True or False")


def _read_integer(
    flag: str, value: object, *, minimum: int | None = None, maximum: int | None = None
) -> int | None:
    in_range = (
        isinstance(value, int)
        and (minimum is None or value >= minimum)
        and (maximum is None or value <= maximum)
    )
    if value is None or (in_range and not isinstance(value, bool)):
        return value  # type: ignore[return-value]
    limits = (
        f" from {minimum:,} to {maximum:,}"
        if maximum is not None
        else f" of at least {minimum}"
        if minimum is not None
        else ""
    )
    raise refuse_value(
        flag, repr(value) if isinstance(value, str) else value, f"a whole number{limits}"
    )


def _read_choice(flag: str, value: object, choices: Callable[[], tuple[str, ...]]) -> str:
    names = choices()
    if isinstance(value, str) and value in names:
        return value
    if not isinstance(value, str):
        raise refuse_value(flag, value, f"one of {', '.join(names)}")
    raise UsageError(f"{flag} {value}: {suggest_names(value, names)}")


def _read_share(flag: str, value: object, *, above: float = -1.0) -> float:
    try:
        text = value.strip() if isinstance(value, str) else value
        is_percentage = isinstance(text, str) and text.endswith("%")
        number = text.removesuffix("%") if isinstance(text, str) else text
        share = float(number) / (100 if is_percentage else 1)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1 or share <= above:
        records = (
            "documents above 0 and at most 1 (100%), such as 1% or 0.01"
            if above == 0
            else "records from 0 to 1, such as 10% or 0.1"
        )
        raise refuse_value(flag, value, f"a share of the {records}")
    return share


def _read_document_size(flag: str, value: object) -> int:
    """Bytes, from a number or a size such as `200MB`."""
    text = str(value)
    size = int(text) if text.isascii() and text.isdigit() else parse_size(text) or 0
    if isinstance(value, bool) or not 1 <= size <= 1 << 29:
        raise refuse_value(flag, value, "a size of 512 MB at most, such as 32MB or 100000000")
    return size


def _read_memory_limit(flag: str, value: object) -> str:
    if not isinstance(value, str):
        raise refuse_value(flag, value, "a size such as 500MB or 4GB")
    parse_memory_limit(value, flag)
    return value


def _read_callback(flag: str, value: object) -> Any:
    if not callable(value):
        raise refuse_value(flag, value, "a function that takes a progress update")
    return value


def _read_choice_or_none(
    flag: str, value: object, choices: Callable[[], tuple[str, ...]]
) -> str | None:
    return None if value is None else _read_choice(flag, value, choices)


def _list_text_documents() -> tuple[str, ...]:
    return "file", "paragraphs", "lines"


def _list_input_formats() -> tuple[str, ...]:
    return "text", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "mbox", "mail"


def _list_formats() -> tuple[str, ...]:
    from sanitize.storage import formats

    return tuple(formats.list_formats())


def _list_engines() -> tuple[str, ...]:
    return tuple(engine_names())


def _list_check_modes() -> tuple[str, ...]:
    return "full", "fast", "off"


# ------------------------------------------------------------------------------------ the model


@dataclass(frozen=True, kw_only=True)
class Option:
    """How a setting appears on the command line. `read` turns a given value into the field's value,
    or raises UsageError.

    `shown_default` is the default in `--help` where the help text does not say it; `flag` the name
    where it is not the field's.
    """

    help: str
    read: Callable[[str, Any], Any]
    metavar: str = ""
    shown_default: str | int | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: Callable[[], tuple[str, ...]] | None = None  # all values, if they are names


def _option(
    default: Any,
    help: str,
    read: Callable[..., Any],
    metavar: str = "",
    shown_default: str | int | None = None,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    choices: Callable[[], tuple[str, ...]] | None = None,
) -> Any:
    """A field with its `Option`."""
    if minimum is not None or maximum is not None:
        read = functools.partial(read, minimum=minimum, maximum=maximum)
    elif choices is not None:
        read = functools.partial(read, choices=choices)
    option = Option(
        help=help,
        read=read,
        metavar=metavar,
        shown_default=shown_default,
        minimum=minimum,
        maximum=maximum,
        choices=choices,
    )
    return field(default=default, metadata={"option": option})


def _choice(
    default: str, help: str, choices: Callable[[], tuple[str, ...]], metavar: str = ""
) -> Any:
    return _option(default, help, _read_choice, metavar, default, choices=choices)


POLICIES = ("sanitize", "keep", "pseudonymize", "drop")
_DEFAULT_TEXTS = ("text",)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a command besides its inputs, OUT, WORK and plan; the defaults are those of
    the command line.

    Values are read as given on the command line or in Python: a single name for a list of names,
    `10%` or 0.1 for a share, `32MB` or a number of bytes for a size. Raises UsageError for any
    other value.
    """

    text_column: tuple[str, ...] = _option(
        _DEFAULT_TEXTS, "the main text, then further ones (default: text)", _read_names, "COLUMN"
    )
    user_column: str | None = _option(
        None, "the author (default: user_id, or a mail's From)", _read_text, "COLUMN"
    )
    id_column: str | None = _option(
        None, "the document's id (default: doc_id)", _read_text, "COLUMN"
    )
    documents: str = _choice(
        "file",
        "what becomes one document of a text file: file, paragraphs or lines",
        _list_text_documents,
        "WHAT",
    )
    read_as: str | None = _option(
        None,
        "the format of all files: text, jsonl, json, csv, tsv, parquet, arrow, mbox, mail (default:"
        " by name and content)",
        _read_choice_or_none,
        "FORMAT",
        choices=_list_input_formats,
    )
    include: tuple[str, ...] = _option(
        (), "of folders only these files: '*.log'", _read_names, "PATTERN"
    )
    lineage: bool = _option(
        False,
        "two more columns in OUT: the input file and the position in it, searched like other texts",
        _read_flag,
    )
    sanitize: tuple[str, ...] = _option(
        (), "sanitize this column or field (default: all text columns)", _read_names, "COLUMN"
    )
    keep: tuple[str, ...] = _option(
        (),
        "leave this column, or a field such as meta.by, unchanged; it is searched for leaks",
        _read_names,
        "COLUMN",
    )
    pseudonymize: tuple[str, ...] = _option(
        (),
        "replace each text of this column or field by a keyed code (default: user_id)",
        _read_names,
        "COLUMN",
    )
    drop: tuple[str, ...] = _option((), "leave this column or field out", _read_names, "COLUMN")
    seed: int | None = _option(
        None,
        "derive the key from this public number: reproducible, but replacements can be guessed",
        _read_integer,
    )
    key: Path | None = _option(
        None, "the secret key (default: the vault's own)", _read_path, "FILE"
    )
    known: Path | None = _option(
        None, "known values to find: CSV, TSV or JSON lines with kind and value", _read_path, "FILE"
    )
    workers: int | None = _option(
        None, "number of processes (default: one per core)", _read_integer, minimum=1
    )
    engine: str = _choice(
        "local", "local (this machine) or spark; see docs/how_to/spark.md", _list_engines
    )
    master: str | None = _option(
        None, "with --engine spark: local[2], spark://host:7077, yarn, k8s://...", _read_text, "URL"
    )
    remote: str | None = _option(
        None, "with --engine spark: a Spark Connect server, sc://host:15002", _read_text, "URL"
    )
    memory_limit: str = _option(
        "1GB",
        "memory for counting, for the leak check, for one piece of an input; see"
        " docs/reference/input.md",
        _read_memory_limit,
        shown_default="1GB",
    )
    rows_per_shard: int = _option(
        50_000,
        "documents per output shard",
        _read_integer,
        shown_default=50_000,
        minimum=1,
        maximum=1 << 19,
    )
    max_quarantine: float = _option(
        0.10,
        "the largest share of records that may be quarantined; beyond it the run stops",
        _read_share,
        shown_default="10%",
    )
    max_doc_bytes: int = _option(
        32 << 20, "larger documents are quarantined", _read_document_size, "SIZE", "32MB"
    )
    max_doc_matches: int = _option(
        1_000_000,
        "documents in which the finders match more are quarantined",
        _read_integer,
        shown_default=1_000_000,
        minimum=1,
    )
    strict: bool = _option(False, "quarantine nothing: stop at the first bad record", _read_flag)
    sample: float = _option(
        1.0,
        "only this share of the documents, drawn by their ids",
        functools.partial(_read_share, above=0.0),
        "SHARE",
        "100%",
    )
    per_split: bool = _option(
        False,
        "keep and number values in each split for itself (default: over all, train first, then"
        " validation, test, others)",
        _read_flag,
    )
    verify: str = _choice(
        "full",
        "leak check: full (every byte, all forms); fast (plain forms only) or off, then not"
        " publishable",
        _list_check_modes,
    )
    format: str = _choice(
        "parquet", "format of the shards: parquet, jsonl.zst or mds", _list_formats
    )
    replace: bool = _option(
        False, "replace an OUT of another plan or input, once the new one is complete", _read_flag
    )
    keep_versions: bool = _option(
        False, "if OUT is a URL: keep what was published before", _read_flag
    )
    append: bool = _option(
        False,
        "add only the new input files to OUT; give the new files alone, or the whole folder again",
        _read_flag,
    )
    dataset_name: str | None = _option(
        None, "for card and report: the name of the dataset", _read_text, "TEXT"
    )
    purpose: str | None = _option(
        None, "for card and report: what the dataset is made for", _read_text, "TEXT"
    )
    responsible: str | None = _option(
        None, "for card and report: the person or office responsible for it", _read_text, "TEXT"
    )
    license: str | None = _option(
        None,
        "for card and report: the license of the dataset, such as cc-by-4.0",
        _read_text,
        "NAME",
    )
    batch: int = _option(
        10_000,
        "at most this many records are acknowledged together",
        _read_integer,
        shown_default=10_000,
        minimum=1,
    )
    progress: ProgressCallback = field(
        default=ignore_progress,
        metadata={
            "python_only": Option(help="called with each progress update", read=_read_callback)
        },
    )

    def __post_init__(self) -> None:
        for name, option in _ALL_OPTIONS.items():
            object.__setattr__(self, name, option.read(flag_of(name), getattr(self, name)))
        if not self.text_column:
            object.__setattr__(self, "text_column", _DEFAULT_TEXTS)
        if self.engine != "spark" and (self.master or self.remote):
            raise UsageError(
                "--master and --remote give the address of Spark; use them with --engine spark"
            )
        self.policies  # noqa: B018 - raises for a column with two policies

    @functools.cached_property
    def policies(self) -> dict[str, str]:
        """The policy of each column that has another one than by default. Raises UsageError for a
        column with two policies."""
        policies: dict[str, str] = {}
        for policy in POLICIES:
            for name in getattr(self, policy):
                if policies.get(name, policy) != policy:
                    raise UsageError(
                        f"--{policy} {name}: the same column is also given with --{policies[name]};"
                        " a column can have one policy only"
                    )
                policies[name] = policy
        return policies

    @functools.cached_property
    def columns(self) -> Columns:
        """The roles and policies of the columns."""
        from sanitize.readers.column_policies import Columns
        from sanitize.readers.survey import Roles

        roles = Roles(
            text=self.text_column,
            user=self.user_column,
            id=self.id_column,
            documents=self.documents,
            read_as=self.read_as,
            include=self.include,
            lineage=self.lineage,
        )
        return Columns(roles=roles, policies=self.policies)

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON data for `from_json`. Settings of one command only are left out,
        such as `progress` and `replace`."""
        names = (
            "seed",
            "memory_limit",
            "rows_per_shard",
            "max_doc_bytes",
            "max_doc_matches",
            "max_quarantine",
            "strict",
            "sample",
            "per_split",
            "verify",
            "format",
            "keep_versions",
            *DESCRIPTION_SETTINGS,
        )
        files = {
            name: os.path.abspath(path) if path else None
            for name, path in (("key_file", self.key), ("known", self.known))
        }
        return {
            "columns": asdict(self.columns),
            **files,
            **{name: getattr(self, name) for name in names},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], **more: Any) -> Settings:
        """The settings that `to_json` described, with the changes in `more`."""
        others = {
            name: value for name, value in data.items() if name not in ("columns", "key_file")
        }
        more = {**others, "key": data.get("key_file"), **more}
        return cls.of_columns(data["columns"]["roles"], data["columns"]["policies"], **more)

    @classmethod
    def of_columns(
        cls, roles: Mapping[str, Any], policies: Mapping[str, str], **more: Any
    ) -> Settings:
        """The settings that give these roles (the fields of `Roles` that the user gives) and
        policies of columns, with those in `more`."""
        for name, policy in policies.items():
            if policy not in POLICIES:
                raise UsageError(f"column {name}: {suggest_names(str(policy), POLICIES)}")
        columns = {
            policy: [name for name, given in policies.items() if given == policy]
            for policy in set(policies.values())
        }
        return cls(
            **{
                "text_column": list(roles["text"]),
                "user_column": roles["user"],
                "id_column": roles["id"],
                **{name: roles[name] for name in FILE_SETTINGS if name in roles},
                **columns,
                **more,
            }
        )

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return parse_memory_limit(self.memory_limit)

    @property
    def reading_memory_bytes(self) -> int:
        """The memory that a task may use to read input: the limit, and a few copies of the largest
        document."""
        return self.memory_bytes + 8 * self.max_doc_bytes


_ALL_OPTIONS: Mapping[str, Option] = {
    one.name: one.metadata.get("option") or one.metadata["python_only"]
    for one in dataclasses.fields(Settings)
}

# which files are read, and how
FILE_SETTINGS = ("documents", "read_as", "include", "lineage")
COLUMN_SETTINGS = (
    "text_column",
    "user_column",
    "id_column",
    "sanitize",
    "keep",
    "pseudonymize",
    "drop",
)
# what the user says about the output
DESCRIPTION_SETTINGS = (
    "dataset_name",
    "purpose",
    "responsible",
    "license",
)
INPUT_SETTINGS = (*COLUMN_SETTINGS, *FILE_SETTINGS)
_INDEX_SETTINGS = (
    *INPUT_SETTINGS,
    *(
        "seed",
        "key",
        "known",
        "workers",
        "engine",
        "master",
        "remote",
        "memory_limit",
        "rows_per_shard",
    ),
    *("max_quarantine", "max_doc_bytes", "max_doc_matches", "strict"),
)
# the settings of each command, in the order of its --help
COMMAND_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "run": (
        *_INDEX_SETTINGS,
        "sample",
        "per_split",
        "verify",
        "format",
        "replace",
        "keep_versions",
        "append",
        *DESCRIPTION_SETTINGS,
    ),
    "index": (*_INDEX_SETTINGS, "replace"),
    "stream": (
        *COLUMN_SETTINGS,
        *(
            "seed",
            "key",
            "workers",
            "batch",
            "rows_per_shard",
            "max_quarantine",
            "max_doc_bytes",
            "max_doc_matches",
            "verify",
        ),
    ),
    "explain": INPUT_SETTINGS,
    "redact": (*COLUMN_SETTINGS, "seed", "key"),
    "subject": ("seed", "key", "workers"),
    "verify": ("workers", "memory_limit"),
    "replay": ("workers", "memory_limit", "known"),
    "sql": ("memory_limit",),
    "top": ("memory_limit",),
}
# settings that mean something narrower in one command
_HELP_BY_COMMAND = {
    (
        "stream",
        "workers",
    ): "processes that find values in parallel; the order of records stays (default: 1)",
    ("index", "replace"): "build the index again if the folder holds that of another input",
}


def list_given_roles(roles: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the roles in a manifest those that the user gave: a main text that the run chose is chosen
    again."""
    return {**roles, "text": _DEFAULT_TEXTS} if roles.get("is_chosen") else roles


def flag_of(name: str) -> str:
    """The option of a setting on the command line, such as `--text-column`."""
    return "--as" if name == "read_as" else "--" + name.replace("_", "-")


def option_of(name: str) -> Option:
    """The option of a setting."""
    return _ALL_OPTIONS[name]


def options_of(command: str) -> dict[str, Option]:
    """The options of a command, by the names of their settings, in the order of its `--help`."""
    return {
        name: dataclasses.replace(
            _ALL_OPTIONS[name], help=_HELP_BY_COMMAND.get((command, name), _ALL_OPTIONS[name].help)
        )
        for name in COMMAND_SETTINGS[command]
    }


def settings_of(command: str, options: Mapping[str, Any]) -> Settings:
    """The settings of a command from keyword arguments. Raises UsageError for a name or a value
    that the command does not take."""
    names = (*COMMAND_SETTINGS[command], "progress")
    for name in options:
        if name in _ALL_OPTIONS and name not in names:
            users = [other for other, settings in COMMAND_SETTINGS.items() if name in settings]
            raise UsageError(
                f"{command}: {name} does not apply to this function; only to {', '.join(users)}."
                " Leave it out"
            )
        if name not in names:
            raise UsageError(
                f"{command}: there is no argument {name}; {suggest_names(name, names)}"
            )
    return Settings(**options)
