"""The state of a stream, state.json of its private folder: what was acknowledged, and up to where
the other files of the folder count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from sanitize.errors import OutputBroken, UsageError
from sanitize.storage.files import read_json, write_json
from sanitize.storage.records.record_shapes import RecordShape

VERSION = 3  # raise it when an older state cannot be resumed
_FILE = "state.json"
# what a state is only valid for, in the order in which differences are reported
_SETTINGS = {"plan_hash": "plan", "key_id": "key", "columns_hash": "roles of columns"}


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
    text_fields: Sequence[Sequence[Any]] = ()  # rank, column, and the steps inside it
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
        saved = read_json(folder / _FILE)
        if saved is None and cls.exists(folder):
            raise OutputBroken(
                f"{folder}/{_FILE}: not readable; restore the state from a backup, or use a new"
                " --state"
            )
        if not saved:
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
        shape = RecordShape.from_json(saved["shape"]) if "shape" in saved else None
        names = {one.name for one in fields(cls)}
        known = {name: value for name, value in saved.items() if name in names}
        return cls(**{**known, "shape": shape})

    def write(self, folder: Path) -> None:
        """Put this state in the place of that in the folder, with one rename."""
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        del state["shape"]
        shape = {} if self.shape is None else {"shape": asdict(self.shape)}
        write_json(folder / _FILE, {**state, **shape})
