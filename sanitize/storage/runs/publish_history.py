"""Records of what was published from a WORK folder, and by which command. They are kept when the
index is rebuilt, so that an erasure request reaches every output. One JSON file for each OUT and
plan, written just before the output is swapped in.

A record is bound to its output by the hash of manifest.json, not by the path alone: folders are
moved, copied and replaced.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.errors import OutputBroken
from sanitize.storage import private_folder
from sanitize.storage.corpus import with_run_hash
from sanitize.storage.files import (
    file_sha256,
    keep_latest,
    read_json,
    read_saved_json,
    write_json,
)
from sanitize.storage.private_folder import PUBLISHED_FOLDER, RUNS_FOLDER, VAULT_FOLDER
from sanitize.storage.remote_storage import is_url
from sanitize.storage.task_records import hash_json

# what every reader of a record relies on
_COMMAND_KEYS = {"out": str, "inputs": list, "settings": dict, "plan": dict, "run_hash": str}


def record_command(
    workspace: Path, command: Mapping[str, Any], output: Path, manifest_sha256: str
) -> None:
    """Store a command just before its output is swapped in: `out`, `inputs`, `settings`, `plan`
    (resolved) and `run_hash`.

    With them the paths of the folder `output` and of the inputs from WORK; `manifest_sha256`, by
    which the output is recognised: of the new manifest, and of the present one if it is of the same
    command, as the swap may not happen; and `replaced_sha256`, of the manifests of other outputs
    that were at this path. The caller holds WORK's lock."""
    # a damaged record is written again
    path = _record_path(workspace, command)
    earlier = read_json(path) or {}
    present_sha256 = hash_manifest(output)
    manifest_hashes, replaced = [manifest_sha256], set(earlier.get("replaced_sha256", ()))
    if present_sha256 is not None and present_sha256 in earlier.get("manifest_sha256", ()):
        manifest_hashes.append(present_sha256)
    elif present_sha256 is not None:
        replaced.add(present_sha256)
    record = {
        **command,
        "out_from_work": path_from_workspace(workspace, output),
        "inputs_from_work": [
            None if is_url(path) else path_from_workspace(workspace, Path(path))
            for path in command["inputs"]
        ],
        "manifest_sha256": list(dict.fromkeys(manifest_hashes)),
        "replaced_sha256": sorted(replaced - {manifest_sha256}),
    }
    with private_folder.set_umask(0o077):
        # OUT is written under the user's own mask, this is not for others
        folder = private_folder.make_private_folder(workspace / PUBLISHED_FOLDER)
        write_json(path, record)
        keep_latest(path, set(folder.glob("*.json")) - {path})


def relocate_command(
    workspace: Path, command: Mapping[str, Any], output: Path
) -> Mapping[str, Any]:
    """Change the record of a command whose output was found in another folder; returns it."""
    old_path, moved = _record_path(workspace, command), {**command, "out": os.path.abspath(output)}
    moved["out_from_work"] = path_from_workspace(workspace, output)
    new_path, times = _record_path(workspace, moved), old_path.stat()
    if new_path != old_path:
        old_path.rename(new_path)
    with private_folder.set_umask(0o077):
        write_json(new_path, moved)
    os.utime(new_path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the order of commands stays
    return moved


def forget_command(workspace: Path, command: Mapping[str, Any]) -> None:
    """Delete the record of a command whose output no longer exists anywhere."""
    _record_path(workspace, command).unlink(missing_ok=True)


def hash_manifest(output: Path) -> str | None:
    """The hash by which a published folder is recognised; None if there is no such folder."""
    try:
        return file_sha256(output / "manifest.json")
    except OSError:
        return None


def path_from_workspace(workspace: Path, path: Path) -> str:
    """A path relative to WORK, which stays valid if both are moved together."""
    return os.path.relpath(os.path.realpath(path), os.path.realpath(workspace))


def _record_path(workspace: Path, command: Mapping[str, Any]) -> Path:
    return workspace / PUBLISHED_FOLDER / f"{hash_json(command['out'], command['run_hash'])}.json"


def find_reversible_outputs(workspace: Path) -> list[str]:
    """Output folders that were published from this WORK, are unchanged, and whose pseudonyms or
    numbered labels can be mapped back with it. Outputs at URLs are not checked."""
    outputs = []
    for command in list_commands(workspace):
        output, labels = (
            str(command["out"]),
            workspace / RUNS_FOLDER / str(command["run_hash"]) / VAULT_FOLDER / "labels",
        )
        manifest = None if is_url(output) else read_json(Path(output) / "manifest.json")
        if (
            manifest
            and with_run_hash(manifest).get("run_hash") == command["run_hash"]
            and any(map(_count_rows, labels.glob("*.parquet")))
        ):
            outputs.append(output)
    return outputs


def _count_rows(file: Path) -> int:
    """The number of rows of a table of WORK; 0 if it cannot be read."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):
        return 0


def list_commands(workspace: Path) -> list[Mapping[str, Any]]:
    """All commands that published from this WORK, the latest last. Raises OutputBroken for a
    damaged record."""
    files = sorted(
        (workspace / PUBLISHED_FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime_ns
    )
    remedy = (
        "Restore the private folder; if that is not possible, delete this file: erasures then no"
        " longer reach the output that it was about"
    )
    commands: list[Mapping[str, Any]] = []
    for path in files:
        command = read_saved_json(path, remedy)
        if command is None:  # deleted since the folder was listed
            continue
        command = with_run_hash(command)
        for name, expected_type in _COMMAND_KEYS.items():
            if not isinstance(command.get(name), expected_type):
                raise OutputBroken(
                    f"{path}: is damaged: it lacks {name}, or has another type of it. {remedy}"
                )
        commands.append(command)
    return commands
