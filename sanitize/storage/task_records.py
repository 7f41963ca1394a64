"""Runs a task once: its files are written to a temporary folder, checked, hashed, synced and
renamed, then its record is written.

A task without a record, or with one that does not match any more, is run again. This is how a
stopped run resumes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, Generic, TypeVar

from sanitize.core import failpoints
from sanitize.core.command_results import from_json, to_json
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.files import file_sha256, fsync, parse_json, write_json
from sanitize.storage.parquet_files import check_parquet_file

T = TypeVar("T")


@dataclass(frozen=True)
class TaskRecord:
    """What is stored of a finished task."""

    fingerprint: str
    files: Mapping[str, str]  # path, relative to the record -> SHA-256
    result: Any


@dataclass(frozen=True, kw_only=True)
class Job(Generic[T]):
    """A task that is done once: function, input, final paths of its files, and the fingerprint of
    everything its result depends on."""

    function: Callable[[Any], T]
    result_type: type[T] | None = None  # a dataclass; None: the files are all the result
    task: Any  # has an attribute `folder`, into which the task writes its files
    record_path: Path
    fingerprint: str
    # file name in `folder` -> final path; or the folder to which all files are moved
    outputs: Mapping[str, Path] | Path
    # outputs whose pages are not checked here: the next stage reads them all
    checked_by_next_stage: frozenset[str] = frozenset()
    # its files were published: it stays done while they are intact, whatever its fingerprint is now
    was_published: bool = False
    temp_record_path: Path | None = None  # where an attempt writes its record before the rename

    def for_attempt(self, folder: Path) -> Job[T]:
        """A copy of the job for one of several concurrent attempts: all its temporary files are in
        `folder`.

        The last attempt to rename wins, with the same bytes. Once `folder` is deleted, the attempt
        can rename nothing more.
        """
        return replace(
            self,
            task=replace(self.task, folder=folder / "files"),
            temp_record_path=folder / "record",
        )

    @property
    def description(self) -> str:
        """Describes the job for error messages: stage, task number, and the documents that it
        reads."""
        return f"{self.record_path.parent.name} {self.record_path.stem}" + (
            f", {description}" if (description := getattr(self.task, "description", "")) else ""
        )


def run_job(job: Job[T]) -> T:
    """Does a job unless a valid record exists; returns the result of the task.

    Order: write to a temporary folder, open again and check, hash, fsync, rename, fsync the
    folders, write the record. Every file that a record names is therefore complete. If the job
    fails, its temporary folder is removed.
    """
    output_paths = (
        None
        if isinstance(job.outputs, Path)
        else {_path_from_record(job, final) for final in job.outputs.values()}
    )
    fingerprint = None if job.was_published else job.fingerprint
    done = load_record(job.record_path, fingerprint, output_paths, job.result_type)
    if done is not None:
        result: T = done.result
        return result
    folder: Path = job.task.folder
    shutil.rmtree(folder, ignore_errors=True)
    with translate_disk_errors(folder.parent):
        try:
            folder.mkdir(parents=True)
            failpoints.hit("task:folder_created")
            result = job.function(job.task)
            assert isinstance(result, job.result_type or NoneType)
            failpoints.hit("task:files_written")
            hashes = {}
            outputs = (
                {path.name: job.outputs / path.name for path in folder.iterdir()}
                if isinstance(job.outputs, Path)
                else job.outputs
            )
            for name, final in sorted(outputs.items()):
                written = folder / name
                if written.suffix == ".parquet":
                    check_parquet_file(written, check_pages=name not in job.checked_by_next_stage)
                failpoints.hit("task:file_checked")
                hashes[_path_from_record(job, final)] = file_sha256(written)
                fsync(written)
                failpoints.hit("task:file_synced")
                final.parent.mkdir(parents=True, exist_ok=True)
                written.rename(final)
                failpoints.hit("task:file_renamed")
            for parent in {final.parent for final in outputs.values()}:
                fsync(parent)
            failpoints.hit("task:folders_synced")
            job.record_path.parent.mkdir(parents=True, exist_ok=True)
            record = to_json(TaskRecord(job.fingerprint, hashes, result))
            write_json(job.record_path, record, job.temp_record_path, indent=None)
            failpoints.hit("task:record_written")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return result


def output_sha256(job: Job[Any], output_name: str) -> str:
    """The SHA-256 of one output of a finished job, read from its record."""
    assert not isinstance(job.outputs, Path)
    record = TaskRecord(**parse_json(job.record_path.read_text("utf-8")))
    return record.files[_path_from_record(job, job.outputs[output_name])]


def _path_from_record(job: Job[Any], output: Path) -> str:
    """Path of an output relative to the record, so that a WORK folder can be moved and be named by
    any path."""
    return os.path.relpath(output, job.record_path.parent)


def hash_json(*items: object) -> str:
    """BLAKE2b hash of JSON-serializable values, as 32 hexadecimal digits."""
    return hashlib.blake2b(
        json.dumps(items, sort_keys=True, default=str).encode(), digest_size=16
    ).hexdigest()


def load_record(
    record_path: Path,
    fingerprint: str | None,
    output_paths: Set[str] | None = None,
    result_type: type[Any] | None = None,
) -> TaskRecord | None:
    """A record, or None unless its fingerprint matches (None: any), its files are those of
    `output_paths` (relative to the record; None: any) and have the recorded hashes, and its result
    is one of `result_type` (None: a task without a result)."""
    try:
        record = TaskRecord(**parse_json(record_path.read_text("utf-8")))
        if fingerprint is not None and record.fingerprint != fingerprint:
            return None
        if output_paths is not None and record.files.keys() != output_paths:
            # another version gave its files other names
            return None
        if any(
            file_sha256(record_path.parent / path) != sha256
            for path, sha256 in record.files.items()
        ):
            return None
        result = from_json(result_type, record.result) if result_type is not None else None
        return TaskRecord(record.fingerprint, record.files, result)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
