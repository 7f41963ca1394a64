"""What was published from a WORK folder, and by which command: kept when the index is made anew, so that nothing is forgotten when somebody
is to be. One JSON file for each OUT and plan, written just before the swap.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.storage import vault
from sanitize.storage.corpus import read_json, write_json
from sanitize.storage.publication import hashed
from sanitize.storage.remote_storage import is_url


def note(work: Path, command: Mapping[str, Any]) -> None:
    """Write a command down: `out`, `inputs`, `settings`, `plan` (resolved) and `plan_hash`. WORK's lock is held."""
    with vault.umask(0o077):  # OUT is written under the user's own mask, this is not for others
        folder = vault.private(work / "published")
        write_json(folder / f"{hashed(command['out'], command['plan_hash'])}.json", dict(command))


def led_back(work: Path) -> list[str]:
    """The folders that were published from here, stand as they were, and whose pseudonyms or numbered labels can be led back here. Those at
    URLs are not asked."""
    found = []
    for command in commands(work):
        out, labels = str(command["out"]), work / "runs" / str(command["plan_hash"]) / "vault" / "labels"
        manifest = None if is_url(out) else read_json(Path(out) / "manifest.json")
        if manifest and manifest.get("plan_hash") == command["plan_hash"] and any(map(_rows, labels.glob("*.parquet"))):
            found.append(out)
    return found


def _rows(file: Path) -> int:
    """How many rows a table of WORK has; none where it cannot be read."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):
        return 0


def commands(work: Path) -> list[dict[str, Any]]:
    """All commands that published from here, the latest last."""
    files = sorted((work / "published").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [found for path in files if (found := read_json(path)) is not None]
