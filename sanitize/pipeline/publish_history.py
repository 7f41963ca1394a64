"""Records of what was published from a WORK folder, and by which command. They are kept when the index is rebuilt, so that an erasure
request reaches every output. One JSON file for each OUT and plan, written just before the output is swapped in.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.storage import private_folder
from sanitize.storage.files import read_json, write_json
from sanitize.storage.remote_storage import is_url
from sanitize.storage.task_records import hash_json


def record_command(workspace: Path, command: Mapping[str, Any]) -> None:
    """Store a command: `out`, `inputs`, `settings`, `plan` (resolved) and `plan_hash`. The caller holds WORK's lock."""
    with private_folder.set_umask(0o077):  # OUT is written under the user's own mask, this is not for others
        folder = private_folder.make_private_folder(workspace / "published")
        write_json(folder / f"{hash_json(command['out'], command['plan_hash'])}.json", dict(command))


def find_reversible_outputs(workspace: Path) -> list[str]:
    """Output folders that were published from this WORK, are unchanged, and whose pseudonyms or numbered labels can be mapped back with it.
    Outputs at URLs are not checked."""
    outputs = []
    for command in list_commands(workspace):
        output, labels = str(command["out"]), workspace / "runs" / str(command["plan_hash"]) / "vault" / "labels"
        manifest = None if is_url(output) else read_json(Path(output) / "manifest.json")
        if manifest and manifest.get("plan_hash") == command["plan_hash"] and any(map(_count_rows, labels.glob("*.parquet"))):
            outputs.append(output)
    return outputs


def _count_rows(file: Path) -> int:
    """The number of rows of a table of WORK; 0 if it cannot be read."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):
        return 0


def list_commands(workspace: Path) -> list[dict[str, Any]]:
    """All commands that published from this WORK, the latest last."""
    files = sorted((workspace / "published").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [found for path in files if (found := read_json(path)) is not None]
