"""Results of metrics on disk while a suite is measured, so that an evaluation that was stopped
continues with the next metric.

    FOLDER/<16 hexadecimal digits>.json     one metric at one checkpoint

The name is a hash of what the result depends on: the metric with its settings, the files it reads,
texts and addresses, the files of the checkpoint and (where the metric reads it) the run, type of
device and dtype, and the versions. Two checkpoints with the same weights, such as the base model of
several runs, therefore have one record. The records are deleted when the report is written. They
hold numbers only; if a private list of leaked values was asked for, also its rows: the folder then
lies beside that list, and only its owner can read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sanitize.storage.files import file_sha256, read_json, write_json
from sanitize.storage.private_folder import make_private_folder, set_umask
from sanitize.storage.task_records import hash_json
from sanitize.train import adapters

from .metric import EvalContext, Metric
from .run_folder import Checkpoint, RunFolder

VERSION = 2  # raise it when the result of a metric changes for the same input
_RECORD_NAME = re.compile(r"[0-9a-f]{16}[.]json([.]tmp)?")
_PACKAGES = ("corpus-sanitize", "torch", "transformers", "numpy")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a metric measured at a checkpoint: its result, its state for `Metric.restore_state`, and
    the rows of leaked values."""

    result: dict[str, Any]
    state: Any
    leaks: list[dict[str, Any]]


class MeasurementRecords:
    """The records of one evaluation: in a folder, which is created with the first one, or without a
    folder in memory."""

    def __init__(
        self,
        folder: Path | None,
        context: EvalContext,
        device: str,
        dtype: str,
        *,
        with_leaks: bool,
    ) -> None:
        self.folder = folder
        self._in_memory: dict[str, Measurement] = {}
        self._context_hash = hash_json(
            VERSION,
            _installed_versions(),
            _hash_context(context),
            device.partition(":")[0],
            dtype,
            with_leaks,
        )
        self._model_hashes: dict[Path, str] = {}

    def find(self, name: str) -> Measurement | None:
        """What was measured under a name; None if nothing was."""
        if self.folder is None:
            return self._in_memory.get(name)
        record = read_json(self.folder / f"{name}.json")
        return None if record is None else Measurement(**json.loads(record["measurement"]))

    def write(self, name: str, measurement: Measurement) -> None:
        """Write a record, with one rename."""
        if self.folder is None:
            self._in_memory[name] = measurement
            return
        with set_umask(0o077):
            make_private_folder(self.folder)
            # as a string, which keeps the order of keys
            write_json(
                self.folder / f"{name}.json", {"measurement": json.dumps(asdict(measurement))}
            )

    def make_name(self, metric: Metric, run: RunFolder, checkpoint: Checkpoint) -> str:
        """Return the name of the record of a metric at a checkpoint."""
        metric_hash = hash_json(metric.model_dump(mode="json"), [*_describe_files(metric)])
        run_hash = (
            hash_json(
                run.recipe, run.summary, checkpoint.step, self._hash_model(run.checkpoints[0].path)
            )
            if metric.depends_on_run(checkpoint)
            else ""
        )
        return hash_json(
            self._context_hash, metric_hash, run_hash, self._hash_model(checkpoint.path)
        )[:16]

    def _hash_model(self, folder: Path) -> str:
        """Return a hash of the weights, configuration and tokenizer in a folder; of an adapter's
        base, names, sizes and times."""
        if folder not in self._model_hashes:
            files = [
                file
                for file in sorted(folder.rglob("*"))
                if file.is_file() and file.name != "checkpoint.json"
            ]
            described: list[list[object]] = [[file.name, file_sha256(file)] for file in files]
            base = folder
            while adapters.is_adapter(base):
                base = adapters.find_base_folder(base)
                described += _describe_folder("base", base)
            self._model_hashes[folder] = hash_json(described)
        return self._model_hashes[folder]


def remove_records(folder: Path) -> None:
    """Delete the records in a folder, once the report is written, and the folder if nothing else is
    in it: it may be a user's own."""
    for file in folder.glob("*.json*"):
        if _RECORD_NAME.fullmatch(file.name):
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not there, or not empty
        folder.rmdir()


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
        digest.hexdigest(),
        context.seed,
        context.baseline,
        sorted(context.original_addresses.items()),
        list(context.unseen_addresses),
    )


def _describe_files(settings: BaseModel) -> Iterator[list[object]]:
    """Name, size and time of every file that the settings of a metric name."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from _describe_files(value)
        elif isinstance(value, Path):
            yield from _describe_folder(name, value)


def _describe_folder(name: str, path: Path) -> Iterator[list[object]]:
    """`name`, path, size and time of a file, or of every file of a folder."""
    for file in [path, *(sorted(path.rglob("*")) if path.is_dir() else ())]:
        if file.is_file():
            facts = file.stat()
            yield [name, str(file), facts.st_size, facts.st_mtime_ns]
