"""The state of a stream, state.json of its private folder: what was acknowledged, and up to where
the other files of the folder count."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from sanitize.core.command_results import IF_SET, from_json, to_json
from sanitize.core.text_cells import LeafPath
from sanitize.errors import OutputBroken, UsageError
from sanitize.storage.files import read_json, read_saved_json, write_json
from sanitize.storage.records.record_shapes import RecordShape

VERSION = 3  # raise it when an older state cannot be resumed
_FILE = "state.json"
# the other files of the folder, beside the vault and the value log
COMPONENT_LOG_FILE, COLUMN_VALUES_FILE = "component_pools.jsonl", "column_values.jsonl"
QUARANTINE_FOLDER = "quarantine"
# what a state is only valid for, in the order in which differences are reported
_SETTINGS = {
    "plan_hash": "another plan",
    "key_id": "another key",
    "columns_hash": "other options for columns",
}


@dataclass(frozen=True, kw_only=True)
class SinkPosition:
    """What of an output is acknowledged, from which a new sink for the same place resumes: of a
    file its bytes, of a folder the number of its files and the names and types of their columns (as
    pairs, since a JSON object would lose the order). `tail` is a hash of the last bytes."""

    bytes: int = 0
    parts: int = 0
    columns: Sequence[tuple[str, str]] = ()
    tail: Annotated[str | None, IF_SET] = None


@dataclass(frozen=True, kw_only=True)
class ValueFile:
    """One file of the `ValueLog`: its name, the number of its ids, and its checksum."""

    name: str
    ids: int
    crc32: int


@dataclass(frozen=True)
class TextField:
    """A field of the records that had texts: the rank by which fields are sorted, and its path."""

    rank: int
    path: LeafPath

    @classmethod
    def from_json(cls, row: object) -> TextField:
        """The field of a row of state.json: rank, column, and the steps inside it."""
        match row:
            case [int(rank), str(column), *steps] if all(isinstance(one, str) for one in steps):
                return cls(rank, LeafPath(column, tuple(map(str, steps))))
        raise ValueError

    def to_json(self) -> list[int | str]:
        """The row of state.json."""
        return [self.rank, self.path.column, *self.path.steps]


def name_path(path: str | Path) -> str:
    """The name of a source or sink in a state: its absolute path; if that is not UTF-8, its bytes
    in hexadecimal digits."""
    name = os.path.abspath(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"bytes:{os.fsencode(name).hex()}"
    return name


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """What was acknowledged so far: records and how many of them are in quarantine, the records of
    each source and of each sink, by path, and the texts and columns that were seen. The last
    fields are the parts of the logs and of the quarantine file that count: what follows there was
    not acknowledged."""

    version: int = VERSION
    plan_hash: str
    key_id: str
    columns_hash: str
    records: int = 0
    quarantined: int = 0
    sources: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    sinks: Mapping[str, SinkPosition] = field(default_factory=dict)
    text_fields: Sequence[
        Annotated[
            TextField, BeforeValidator(TextField.from_json), PlainSerializer(TextField.to_json)
        ]
    ] = ()
    seen_columns: Sequence[str] = ()
    shape: Annotated[RecordShape | None, IF_SET] = None
    plan: Mapping[str, Any] = field(default_factory=dict)  # with all settings
    columns: Mapping[str, Any] = field(default_factory=dict)  # the options for columns
    value_files: Sequence[ValueFile] = ()
    component_log_bytes: int = 0
    column_value_bytes: int = 0
    quarantine_bytes: int = 0

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """True if the stream of this folder acknowledged something."""
        return (folder / _FILE).exists()

    @classmethod
    def read_options(cls, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """The plan of the stream of this folder, with all settings, and its options for columns;
        None if there is no stream, and nothing in them for one that an earlier version began."""
        saved = read_json(folder / _FILE)
        if saved is None:
            return None
        plan, columns = (
            one if isinstance(one := saved.get(name), dict) else {} for name in ("plan", "columns")
        )
        return plan, columns

    @classmethod
    def open(cls, folder: Path, **settings: Any) -> StreamState:
        """The state in a folder; a new one for these settings (`plan_hash`, `key_id`,
        `columns_hash`, `plan` and `columns`) if there is none.

        Raises OutputBroken if it cannot be read, and UsageError if it is one of another version or
        of other settings: what was seen is only valid for these."""
        remedy = "Restore the state from a backup, or use a new --state"
        saved = read_saved_json(folder / _FILE, remedy)
        if saved is None:
            return cls(**settings)
        if saved.get("version") != VERSION:
            raise UsageError(
                f"{folder}: its state has version {saved.get('version')}, and this program reads"
                f" version {VERSION}. Continue with the version of corpus-sanitize that wrote it,"
                " or use a new --state, for which no value was seen before"
            )
        for name, described in _SETTINGS.items():
            if saved.get(name) != settings[name]:
                raise UsageError(
                    f"{folder}: was created with {described}; use the same, or a new --state"
                )
        try:
            # an earlier version wrote no plan
            return replace(
                from_json(cls, saved), plan=settings["plan"], columns=settings["columns"]
            )
        except ValueError:
            raise OutputBroken(
                f"{folder / _FILE}: is damaged: an entry of it has another form. {remedy}"
            ) from None

    def find_chosen_text(self, given: str) -> str | None:
        """The main text if the first records chose it, not the options (`given`)."""
        main = next((str(one.path) for one in self.text_fields if one.rank < 0), given)
        return main if main != given and self.shape is None else None

    def write(self, folder: Path) -> None:
        """Put this state in the place of that in the folder, with one rename."""
        write_json(folder / _FILE, to_json(self))
