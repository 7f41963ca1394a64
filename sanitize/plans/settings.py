"""Everything but the plan that a run is told, and what its stages cost."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sanitize.core.engine import bytes_of, engine_names
from sanitize.core.progress import Progress, Step, silent
from sanitize.engines.worker_process import peak_mb
from sanitize.errors import UsageError, nearest
from sanitize.readers.staging import Columns
from sanitize.readers.survey import Roles
from sanitize.storage import formats


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything but the plan that a run is told; the defaults are the command's."""

    columns: Columns = field(default_factory=Columns)
    seed: int | None = None
    key_file: Path | None = None
    known: Path | None = None  # a user's list of values, for the finder of that name
    workers: int | None = None
    memory_limit: str = "1GB"
    rows_per_shard: int = 50_000
    max_doc_bytes: int = 32 << 20
    max_quarantine: float = 0.10
    strict: bool = False
    sample: float = 1.0  # the share of the documents that there are for this run
    verify: str = "fast"
    format: str = "parquet"  # what the shards are published as
    keep_versions: bool = False  # where OUT is a URL: what was published before stays
    replace: bool = False
    append: bool = False  # to what an earlier run has made
    engine: str = "local"
    master: str | None = None  # where Spark's driver here finds its workers
    remote: str | None = None  # a Spark Connect server
    progress: Progress = silent

    def __post_init__(self) -> None:
        bytes_of(self.memory_limit)
        if not 0 < self.sample <= 1:
            raise UsageError(f"--sample {self.sample:g}: expected a share of the documents above 0, such as 1% or 0.01")
        if self.engine not in engine_names():
            raise UsageError(f"--engine {self.engine}: {nearest(self.engine, engine_names())}")
        if self.engine != "spark" and (self.master or self.remote):
            raise UsageError("--master and --remote say where Spark is; use them with --engine spark")
        if self.verify not in ("fast", "full", "off"):
            raise UsageError(f"--verify {self.verify}: {nearest(self.verify, ('fast', 'full', 'off'))}")
        formats.known(self.format)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes the same settings of; `progress` and `replace` are of one command alone."""
        names = (
            "seed",
            "memory_limit",
            "rows_per_shard",
            "max_doc_bytes",
            "max_quarantine",
            "strict",
            "sample",
            "verify",
            "format",
            "keep_versions",
        )
        files = {name: os.path.abspath(path) if path else None for name, path in (("key_file", self.key_file), ("known", self.known))}
        return {"columns": asdict(self.columns), **files, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], **more: Any) -> Settings:
        """The settings that `to_json` described, with some changed."""
        roles = said["columns"]["roles"]
        columns = Columns(roles=Roles(**{**roles, "text": tuple(roles["text"])}), policies=said["columns"]["policies"])
        files = {name: Path(said[name]) if said.get(name) else None for name in ("key_file", "known")}
        return cls(**{**said, "columns": columns, **files, **more})

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return bytes_of(self.memory_limit)

    @property
    def reading_bytes(self) -> int:
        """The memory that reading one piece of an input may take: the limit, and a few copies of the largest document."""
        return self.memory_bytes + 8 * self.max_doc_bytes


@dataclass
class Stages:
    """What each stage cost: CPU-seconds over all processes, wall seconds, and the peak memory of one process."""

    found: dict[str, dict[str, float]] = field(default_factory=dict)
    progress: Progress = silent
    _within: list[list[float]] = field(default_factory=lambda: [[0.0, 0.0]])  # CPU and wall seconds of the stages inside each open one

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[dict[str, float]]:
        """Add what happens in the block to a stage; a stage inside another one is not counted twice."""
        cpu, wall = time.process_time(), time.monotonic()
        cost = {"cpu_s": 0.0, "peak_rss_mb": 0.0}
        self._within.append([0.0, 0.0])
        self.progress(Step(stage=name))
        try:
            yield cost
        finally:
            self.progress(Step(stage=name, done=1))
            spent = (time.process_time() - cpu, time.monotonic() - wall)
            inside = self._within.pop()
            self._within[-1] = [total + one for total, one in zip(self._within[-1], spent, strict=True)]
        before = self.found.get(name, {"cpu_s": 0.0, "wall_s": 0.0, "peak_rss_mb": 0.0})
        peak = max(cost["peak_rss_mb"], peak_mb(), before["peak_rss_mb"])
        self.found[name] = {
            "cpu_s": round(before["cpu_s"] + cost["cpu_s"] + spent[0] - inside[0], 3),
            "wall_s": round(before["wall_s"] + spent[1] - inside[1], 3),
            "peak_rss_mb": round(peak, 1),
        }
