"""The state of a stream, state.json of its private folder: what was acknowledged, and up to where
the other files of the folder count."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from sanitize.core.text_cells import LeafPath
from sanitize.errors import OutputBroken, UsageError
from sanitize.storage.files import read_saved_json, write_json
from sanitize.storage.records.record_shapes import RecordShape

VERSION = 3  # raise it when an older state cannot be resumed
_FILE = "state.json"
# the other files of the folder, beside the vault and the value log
COMPONENT_LOG_FILE, COLUMN_VALUES_FILE = "component_pools.jsonl", "column_values.jsonl"
QUARANTINE_FOLDER = "quarantine"
# what a state is only valid for, in the order in which differences are reported
_SETTINGS = {"plan_hash": "plan", "key_id": "key", "columns_hash": "roles of columns"}
# of the values in state.json
_TYPES = {
    **dict.fromkeys(("records", "quarantined", "component_log_bytes"), int),
    **dict.fromkeys(("column_value_bytes", "quarantine_bytes"), int),
    **dict.fromkeys(("sources", "sinks"), dict),
    **dict.fromkeys(("text_fields", "seen_columns", "value_files"), list),
}


@dataclass(frozen=True)
class TextField:
    """A field of the records that had texts: the rank by which fields are sorted, and its path."""

    rank: int
    path: LeafPath


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
    sinks: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    text_fields: Sequence[TextField] = ()
    seen_columns: Sequence[str] = ()
    shape: RecordShape | None = None
    value_files: Sequence[Mapping[str, Any]] = ()
    component_log_bytes: int = 0
    column_value_bytes: int = 0
    quarantine_bytes: int = 0

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """True if the stream of this folder acknowledged something."""
        return (folder / _FILE).exists()

    @classmethod
    def open(cls, folder: Path, **settings: Any) -> StreamState:
        """The state in a folder; a new one for these settings (`plan_hash`, `key_id` and
        `columns_hash`) if there is none.

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
                    f"{folder}: was created with another {described}; use the same one, or a new"
                    " --state"
                )
        with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):
            return cls._parse(saved)
        raise OutputBroken(
            f"{folder / _FILE}: is damaged: an entry of it has another form. {remedy}"
        )

    @classmethod
    def _parse(cls, saved: Mapping[str, Any]) -> StreamState:
        """The state in the content of state.json. Raises TypeError and the like for another
        form."""
        known = {one.name: saved[one.name] for one in fields(cls) if one.name in saved}
        if any(not isinstance(known.get(name, kind()), kind) for name, kind in _TYPES.items()):
            raise TypeError
        known["text_fields"] = [
            TextField(rank, LeafPath(column, tuple(steps)))
            for rank, column, *steps in saved.get("text_fields", ())
        ]
        known["shape"] = RecordShape.from_json(saved["shape"]) if "shape" in saved else None
        return cls(**known)

    def write(self, folder: Path) -> None:
        """Put this state in the place of that in the folder, with one rename."""
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        state["text_fields"] = [
            [one.rank, one.path.column, *one.path.steps] for one in self.text_fields
        ]
        del state["shape"]
        shape = {} if self.shape is None else {"shape": asdict(self.shape)}
        write_json(folder / _FILE, {**state, **shape})
