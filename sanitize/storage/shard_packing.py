"""Packs finished Parquet shards into the output format (`--format`), as separate files in WORK.

The leak check reads, and the run publishes, the packed file. The Parquet file is kept, so that a run in another format only repeats the
packing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.storage import formats


@dataclass(frozen=True, kw_only=True)
class PackTask:
    """The task of packing one shard."""

    shard_no: int
    first_doc_no: int
    end_doc_no: int
    shard: Path
    format: str
    folder: Path


def pack_shard(task: PackTask) -> dict[str, Any]:
    """Writes the shard in the format of the task to `task.folder`; returns its size in bytes."""
    out = task.folder / f"shard{formats.format_suffix(task.format)}"
    formats.get_format(task.format).pack(task.shard, out)
    return {"bytes": out.stat().st_size}


def shard_path(run_folder: Path, format: str, shard_no: int) -> Path:
    """The path in WORK of a shard of a run, in a given format."""
    if format == formats.PARQUET:
        return run_folder / "shards" / f"{shard_no:05d}.parquet"
    return run_folder / "packed" / format / f"{shard_no:05d}{formats.format_suffix(format)}"
