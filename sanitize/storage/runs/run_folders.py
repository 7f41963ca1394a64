"""The folders of runs in WORK: plan.json, which run a name selects, and where a run keeps its
tables."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sanitize.errors import OutputBroken, UsageError, suggest_names
from sanitize.storage.files import keep_latest, read_saved_json, write_json
from sanitize.storage.parquet_files import read_table
from sanitize.storage.private_folder import (
    INDEX_FILE,
    OCCURRENCES_FOLDER,
    RUNS_FOLDER,
    SavedIndex,
)
from sanitize.storage.runs.publish_history import list_commands

PLAN_FILE = "plan.json"
_PLAN_REMEDY = (
    "Restore the private folder, or move the output of that run away and run the same command again"
)
# tables that a run writes below its own folder; all other tables belong to the index, which all
# runs share
RUN_TABLE_FOLDERS = {
    "edits": "edits",
    "swept": "sweep",
    "drops": "drops",
    "ledger": "ledger",
    "labels": "vault/labels",
    "blacklist": "vault/blacklist",
}
SELECTED_IDS_FOLDER = (  # in the folder of a run, where its plan does not select all occurrences
    "selected/value_ids"
)
# in the folder of a run: the values of erased persons, where there are tombstones of values
ERASED_VALUES_FILE = "erasure/values.parquet"
# in the folder of a run: values of columns that the output does not hold in clear
COLUMN_VALUES_FOLDER = "vault/column_values"


@dataclass(frozen=True, kw_only=True)
class SavedRun:
    """A run in WORK: its folder, which is named by the run hash (of plan, input and options), and
    of its plan.json the name, the parts (`drop` or `edit`, name) in order, and the keys that have a
    value."""

    folder: Path
    plan: str
    parts: tuple[tuple[str, str], ...]
    plan_keys: frozenset[str]

    @classmethod
    def read(cls, folder: Path) -> SavedRun | None:
        """The run of a folder; None if it has not written its plan yet. Raises OutputBroken for a
        damaged plan.json."""
        plan = read_plan(folder)
        if plan is None:
            return None
        with contextlib.suppress(TypeError, AttributeError):
            return cls(
                folder=folder,
                plan=str(plan.get("name", "")),
                parts=tuple(
                    (stage, str(part.get("use", "")))
                    for stage in ("drop", "edit")
                    for part in plan.get(stage) or ()
                ),
                plan_keys=frozenset(key for key, value in plan.items() if value),
            )
        raise OutputBroken(
            f"{folder / PLAN_FILE}: is damaged: an entry of it has another form. {_PLAN_REMEDY}"
        )


def is_run_hash(value: object) -> bool:
    """True for the hash of a plan, which names the folder of a run. The hash of a manifest has to
    be checked before it is a part of a path: a manifest may come from anywhere."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{16}", value) is not None


def read_plan(run_folder: Path) -> Mapping[str, Any] | None:
    """The plan of a run with all settings, as `write_plan` got it; None if it wrote none. Raises
    OutputBroken for a damaged plan.json."""
    return read_saved_json(run_folder / PLAN_FILE, _PLAN_REMEDY)


def write_plan(run_folder: Path, settings: Mapping[str, Any]) -> None:
    """Write plan.json of a run: its plan with all settings. It is then the latest run of WORK."""
    path = run_folder / PLAN_FILE
    write_json(path, settings)
    keep_latest(path, set(run_folder.parent.glob(f"*/{PLAN_FILE}")) - {path})


def list_runs(work: Path) -> list[SavedRun]:
    """The runs of WORK whose plan.json can be read, the latest last."""
    runs = []
    for folder in _list_started(work):
        with contextlib.suppress(OutputBroken):  # only who asks for this run needs to know
            runs += [run] if (run := SavedRun.read(folder)) else []
    return runs


def _list_started(work: Path) -> list[Path]:
    """The folders of the runs that have written their plan, the latest last."""
    folders = [path for path in list_folders(work / RUNS_FOLDER) if (path / PLAN_FILE).is_file()]
    return sorted(folders, key=lambda path: ((path / PLAN_FILE).stat().st_mtime_ns, path))


def find_run(work: Path, name: str | None) -> SavedRun | None:
    """The run that `name` selects: a plan name (its latest run), a run hash, or a unique prefix of
    one.

    Without a name the latest run, or None if there is no run yet. Raises UsageError for an unknown
    name or an ambiguous prefix, and OutputBroken if the selected run has a damaged plan.json.
    """
    started = _list_started(work)
    if name is None:
        return SavedRun.read(started[-1]) if started else None
    known = list_runs(work)
    if runs_of_plan := [run for run in known if run.plan == name]:
        return runs_of_plan[-1]
    matching = [run for run in known if name and run.folder.name.startswith(name)]
    if len(matching) == 1 or (matching and matching[0].folder.name == name):
        return matching[0]
    if matching:
        raise UsageError(
            f"{work}: {len(matching)} runs begin with {name}; give more of the hash:"
            f" {', '.join(run.folder.name for run in matching)}"
        )
    for folder in started if name else ():
        if folder.name.startswith(name):
            SavedRun.read(folder)  # raises the error of a damaged plan.json
    names = [*(run.folder.name for run in known), *(run.plan for run in known if run.plan)]
    raise UsageError(f"{work}: there is no run {name[:60]!r}; {suggest_names(name, names)}")


def require_index_of_run(work: Path, run_hash: str, out: str) -> SavedIndex:
    """The index of WORK, which has the run of this plan that published OUT. Raises UsageError where
    it has not: WORK belongs to other runs, or its index was rebuilt since; and OutputBroken where
    only plan.json or index.json is missing or damaged."""
    index, folder = SavedIndex.read(work), work / RUNS_FOLDER / run_hash
    if folder.is_dir():
        has_plan = (folder / PLAN_FILE).is_file()
        if has_plan and index is not None:
            return index
        name = INDEX_FILE if has_plan else f"{RUNS_FOLDER}/{run_hash}/{PLAN_FILE}"
        raise OutputBroken(
            f"{work}: {name} is missing or damaged. Restore the private folder, or move it and"
            f" {out} away and run the same command again"
        )
    if any(command.get("run_hash") == run_hash for command in list_commands(work)):
        raise UsageError(
            f"{work}: the run that wrote {out} used an earlier index, and its tables were deleted"
            " when a run with another input or other finders rebuilt the index. Run the command"
            f" that wrote {out} again, with --replace; with a --work for each, both can be kept"
        )
    raise UsageError(
        f"{work}: is not the private folder of the run that wrote {out}; give that one with --work"
        f" (default: {out}.private)"
    )


def count_run_rows(run: Path, table: str) -> int:
    """The number of rows in one of the tables of a run."""
    return sum(
        int(pq.read_metadata(path).num_rows)
        for path in list_parquet_files(run / RUN_TABLE_FOLDERS[table])
    )


def list_selected_ids(run_folder: Path, shard_count: int) -> list[Path]:
    """The files of a run with the ids of the values of which an occurrence was selected, of its
    first shards; none where its plan selects all."""
    files = sorted((run_folder / SELECTED_IDS_FOLDER).glob("*.parquet"))
    return [path for path in files if int(path.stem) < shard_count]


def list_removable_occurrences(work: Path, run_folder: Path, names: Sequence[str]) -> list[Path]:
    """The files, by these names, of the occurrences that a run worked on: those that its plan
    selected, or all of the index, and those that it swept."""
    selected = run_folder / "selected" / "occurrences"
    folder = selected if selected.is_dir() else work / OCCURRENCES_FOLDER
    swept = [run_folder / RUN_TABLE_FOLDERS["swept"] / name for name in names]
    return [*(folder / name for name in names), *(path for path in swept if path.is_file())]


def find_unselected_values(
    value_files: Sequence[Path], selected_files: Sequence[Path]
) -> tuple[int, ...]:
    """The ids of the values in files of the vault that are in none of the files of
    `list_selected_ids`: the leak check does not search for them. None without such files."""
    return (
        tuple(sorted({*read_value_ids(value_files)} - {*read_value_ids(selected_files)}))
        if selected_files
        else ()
    )


def read_erased_values(run_folder: Path) -> tuple[int, ...]:
    """The ids of the values of erased persons that a run has found; only where there are tombstones
    of values."""
    return tuple(read_table(run_folder / ERASED_VALUES_FILE).column(0).to_pylist())


def list_column_values(run_folder: Path, shard_count: int) -> list[Path]:
    """The files of a run with values of columns, one for each of its increments, of which the first
    `shard_count` shards are part."""
    return [
        path
        for path in sorted((run_folder / COLUMN_VALUES_FOLDER).glob("*.parquet"))
        if int(path.stem) < shard_count
    ]


def read_value_ids(files: Sequence[Path]) -> tuple[int, ...]:
    """The distinct ids in some files of values, ascending."""
    columns = [
        np.asarray(read_table(path, columns=["value_id"]).column(0), np.int64) for path in files
    ]
    return tuple(np.unique(np.concatenate([np.empty(0, np.int64), *columns])).tolist())


def list_folders(parent: Path) -> list[Path]:
    """The folders in a folder, sorted; no links, and none whose name begins with a dot."""
    if not parent.is_dir():
        return []
    return sorted(
        path
        for path in parent.iterdir()
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    )


def list_parquet_files(folder: Path) -> Iterator[str]:
    """Yields all Parquet files below a folder, sorted by path. Unfinished files have another
    suffix. Raises OutputBroken for a link."""
    for directory, subfolders, names in os.walk(folder):
        subfolders.sort()
        for path in (
            Path(directory, name)
            for name in sorted(names)
            if name.endswith(".parquet") and not name.startswith(".")
        ):
            if path.is_symlink():
                raise OutputBroken(f"{path}: is a link; WORK must not contain links. Remove it")
            yield str(path.resolve())
