"""Results of metrics on disk while a suite is measured, so that an evaluation that was stopped continues with the next metric.

    FOLDER/<16 hexadecimal digits>.json     one metric at one checkpoint

The name is a hash of what the result depends on: the metric with its settings, the files it reads, texts and addresses, the files of the
checkpoint and the run, the device, and the versions. The records are deleted when the report is written. They hold numbers only; if a
private list of leaked values was asked for, also its rows: the folder then lies beside that list, and only its owner can read it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sanitize.storage.files import file_sha256, read_json, write_json
from sanitize.storage.private_folder import make_private_folder, set_umask
from sanitize.storage.task_records import hash_json

from .metric import EvalContext, Metric
from .run_folder import Checkpoint, RunFolder

VERSION = 1  # raise it when the result of a metric changes for the same input
_PACKAGES = ("corpus-sanitize", "torch", "transformers", "numpy")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a metric measured at a checkpoint: its result, its state for `Metric.restore_state`, and the rows of leaked values."""

    result: dict[str, Any]
    state: Any
    leaks: list[dict[str, Any]]


class MeasurementRecords:
    """The records of one evaluation in a folder, which is created with the first one."""

    def __init__(self, folder: Path, context: EvalContext, device: str | None, *, with_leaks: bool) -> None:
        self.folder = folder
        self._with_leaks = with_leaks
        self._context_hash = hash_json(VERSION, _installed_versions(), _hash_context(context), device, with_leaks)
        self._checkpoint_hashes: dict[Path, str] = {}

    def find(self, metric: Metric, run: RunFolder, checkpoint: Checkpoint) -> Measurement | None:
        """What was measured by a metric at a checkpoint; None if it was not."""
        record = read_json(self._path(metric, run, checkpoint))
        return None if record is None else Measurement(**json.loads(record["measurement"]))

    def write(self, metric: Metric, run: RunFolder, checkpoint: Checkpoint, measurement: Measurement) -> None:
        """Write a record, with one rename."""
        with set_umask(0o077):
            make_private_folder(self.folder)
            # as a string, which keeps the order of keys
            write_json(self._path(metric, run, checkpoint), {"measurement": json.dumps(asdict(measurement))})

    def _path(self, metric: Metric, run: RunFolder, checkpoint: Checkpoint) -> Path:
        if checkpoint.path not in self._checkpoint_hashes:
            files = [file for folder in (checkpoint.path, run.base_checkpoint.path) for file in sorted(folder.rglob("*")) if file.is_file()]
            described = [[file.name, file_sha256(file)] for file in files]
            self._checkpoint_hashes[checkpoint.path] = hash_json(described, run.recipe, run.summary, checkpoint.step)
        metric_hash = hash_json(metric.model_dump(mode="json"), [*_describe_files(metric)])
        return self.folder / f"{hash_json(self._context_hash, metric_hash, self._checkpoint_hashes[checkpoint.path])[:16]}.json"


def _installed_versions() -> dict[str, str]:
    installed = {}
    for name in _PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def _hash_context(context: EvalContext) -> str:
    """A hash of the texts and addresses that the metrics share."""
    digest = hashlib.sha256()
    for name, texts in sorted(context.text_sets.items()):
        for part in (name, *texts.doc_ids, *texts.texts):
            digest.update(len(part).to_bytes(8, "little") + part.encode("utf-8", "surrogatepass"))
    return hash_json(
        digest.hexdigest(), context.seed, context.baseline, sorted(context.original_addresses.items()), list(context.unseen_addresses)
    )


def _describe_files(settings: BaseModel) -> Iterator[list[object]]:
    """Name, size and time of every file that the settings of a metric name."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from _describe_files(value)
        elif isinstance(value, Path):
            for file in [value, *(sorted(value.rglob("*")) if value.is_dir() else ())]:
                if file.is_file():
                    facts = file.stat()
                    yield [name, str(file), facts.st_size, facts.st_mtime_ns]
