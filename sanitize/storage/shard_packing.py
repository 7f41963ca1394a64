"""Shards in the format they are published in: Parquet as it was made, or packed anew beside it in WORK.

What the leak check reads, and what is published, is the packed file; the Parquet one stays, so that another format costs the packing alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.storage import formats


@dataclass(frozen=True, kw_only=True)
class PackTask:
    """One shard to be packed."""

    no: int
    first: int
    last: int
    shard: Path
    format: str
    folder: Path


def pack_task(task: PackTask) -> dict[str, Any]:
    """Write `shard` with the suffix of the format into the task's folder; returns its bytes."""
    out = task.folder / f"shard{formats.suffix(task.format)}"
    formats.format_of(task.format).pack(task.shard, out)
    return {"bytes": out.stat().st_size}


def place_of(run: Path, format: str, no: int) -> Path:
    """Where a shard of a run lies in WORK."""
    if format == formats.PARQUET:
        return run / "stage" / f"{no:05d}.parquet"
    return run / "packed" / format / f"{no:05d}{formats.suffix(format)}"
