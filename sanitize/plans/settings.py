"""The settings of a run other than its plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sanitize.core.engine import engine_names
from sanitize.core.progress import ProgressCallback, ignore_progress
from sanitize.core.sizes import parse_memory_limit
from sanitize.errors import UsageError, suggest_names
from sanitize.readers.column_policies import Columns
from sanitize.readers.survey import Roles
from sanitize.storage import formats


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of a run besides its inputs, OUT, WORK and plan; the defaults are those of the command line."""

    columns: Columns = field(default_factory=Columns)
    seed: int | None = None
    key_file: Path | None = None
    known: Path | None = None  # a user's list of values, for the finder `known`
    workers: int | None = None
    memory_limit: str = "1GB"
    rows_per_shard: int = 50_000
    max_doc_bytes: int = 32 << 20
    max_quarantine: float = 0.10
    strict: bool = False
    sample: float = 1.0  # the share of the documents that the run uses
    verify: str = "fast"
    format: str = "parquet"  # the file format of the published shards
    keep_versions: bool = False  # where OUT is a URL: earlier published versions are kept
    replace: bool = False
    append: bool = False  # add the inputs to an existing output
    engine: str = "local"
    master: str | None = None  # Spark's master, for a driver in this process
    remote: str | None = None  # the address of a Spark Connect server
    progress: ProgressCallback = ignore_progress

    def __post_init__(self) -> None:
        parse_memory_limit(self.memory_limit)
        if not 0 < self.sample <= 1:
            raise UsageError(f"--sample {self.sample:g}: expected a share of the documents above 0, such as 1% or 0.01")
        if self.engine not in engine_names():
            raise UsageError(f"--engine {self.engine}: {suggest_names(self.engine, engine_names())}")
        if self.engine != "spark" and (self.master or self.remote):
            raise UsageError("--master and --remote give the address of Spark; use them with --engine spark")
        if self.verify not in ("fast", "full", "off"):
            raise UsageError(f"--verify {self.verify}: {suggest_names(self.verify, ('fast', 'full', 'off'))}")
        formats.check_format(self.format)

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON data for `from_json`. Settings of one command only are left out, such as `progress` and `replace`."""
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
    def from_json(cls, data: Mapping[str, Any], **more: Any) -> Settings:
        """The settings that `to_json` described, with the changes in `more`."""
        roles = data["columns"]["roles"]
        columns = Columns(roles=Roles(**{**roles, "text": tuple(roles["text"])}), policies=data["columns"]["policies"])
        files = {name: Path(data[name]) if data.get(name) else None for name in ("key_file", "known")}
        return cls(**{**data, "columns": columns, **files, **more})

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return parse_memory_limit(self.memory_limit)

    @property
    def reading_memory_bytes(self) -> int:
        """The memory that a task may use to read input: the limit, and a few copies of the largest document."""
        return self.memory_bytes + 8 * self.max_doc_bytes
