"""Atomic completion of tasks (files and a record) and atomic publication of a finished corpus as OUT.

Two protocols, each of which ends in one rename. A task: its files are written to a temporary folder, checked, hashed, synced and renamed,
then its record is written; a task without a record, or with one that does not match any more, is done again. A corpus: built in a staging
folder beside OUT, verified, manifest written last, then swapped with OUT.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sanitize.core import failpoints
from sanitize.errors import LeakFound, OutputBroken
from sanitize.storage.corpus import check_parquet_file, file_sha256, fsync, write_json
from sanitize.storage.disk_errors import translate_disk_errors


@dataclass(frozen=True, kw_only=True)
class Job:
    """A task that is done once: function, input, final paths of its files, and the fingerprint of everything its result depends on."""

    function: Callable[[Any], dict[str, Any]]
    task: Any  # has an attribute `folder`, into which the task writes its files
    record_path: Path
    fingerprint: str
    outputs: Mapping[str, Path] | Path  # file name in `folder` -> final path; or the folder to which all files are moved
    checked_by_next_stage: frozenset[str] = frozenset()  # outputs whose pages are not checked here: the next stage reads them all
    was_published: bool = False  # its files were published: it stays done while they are intact, whatever its fingerprint is now
    temp_record_path: Path | None = None  # where an attempt writes its record before the rename

    def for_attempt(self, folder: Path) -> Job:
        """A copy of the job for one of several concurrent attempts: all its temporary files are in `folder`.

        The last attempt to rename wins, with the same bytes. Once `folder` is deleted, the attempt can rename nothing more.
        """
        return replace(self, task=replace(self.task, folder=folder / "files"), temp_record_path=folder / "record")

    @property
    def description(self) -> str:
        """Describes the job for error messages: stage, task number, and the documents that it reads."""
        return f"{self.record_path.parent.name} {self.record_path.stem}" + (
            f", {description}" if (description := getattr(self.task, "description", "")) else ""
        )


def run_job(job: Job) -> dict[str, Any]:
    """Does a job unless a valid record exists; returns the result of the task.

    Order: write to a temporary folder, open again and check, hash, fsync, rename, fsync the folders, write the record. Every file that a
    record names is therefore complete. If the job fails, its temporary folder is removed.
    """
    output_paths = None if isinstance(job.outputs, Path) else {_path_from_record(job, final) for final in job.outputs.values()}
    done = load_record(job.record_path, None if job.was_published else job.fingerprint, output_paths)
    if done is not None:
        return done
    folder: Path = job.task.folder
    shutil.rmtree(folder, ignore_errors=True)
    with translate_disk_errors(folder.parent):
        try:
            folder.mkdir(parents=True)
            failpoints.hit("task:folder_created")
            result = job.function(job.task)
            failpoints.hit("task:files_written")
            hashes = {}
            outputs = {path.name: job.outputs / path.name for path in folder.iterdir()} if isinstance(job.outputs, Path) else job.outputs
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
            write_json(job.record_path, {"fingerprint": job.fingerprint, "files": hashes, "result": result}, job.temp_record_path)
            failpoints.hit("task:record_written")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return result


def output_sha256(job: Job, output_name: str) -> str:
    """The SHA-256 of one output of a finished job, read from its record."""
    assert not isinstance(job.outputs, Path)
    return str(json.loads(job.record_path.read_text("utf-8"))["files"][_path_from_record(job, job.outputs[output_name])])


def _path_from_record(job: Job, output: Path) -> str:
    """Path of an output relative to the record, so that a WORK folder can be moved and be named by any path."""
    return os.path.relpath(output, job.record_path.parent)


def hash_json(*items: object) -> str:
    """BLAKE2b hash of JSON-serializable values, as 32 hexadecimal digits."""
    return hashlib.blake2b(json.dumps(items, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def load_record(record_path: Path, fingerprint: str | None, output_paths: Set[str] | None = None) -> dict[str, Any] | None:
    """The result in a record, or None unless its fingerprint matches (None: any), its files are those of `output_paths` (relative to the
    record; None: any) and they have the recorded hashes."""
    try:
        record = json.loads(record_path.read_text("utf-8"))
        if fingerprint is not None and record["fingerprint"] != fingerprint:
            return None
        if output_paths is not None and record["files"].keys() != output_paths:  # another version gave its files other names
            return None
        if any(file_sha256(record_path.parent / path) != sha256 for path, sha256 in record["files"].items()):
            return None
        return dict(record["result"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def publish_corpus(
    out: Path,
    *,
    shards: Sequence[tuple[Path, str]],
    shards_per_increment: Sequence[int] = (),
    text_files: Mapping[str, str],
    manifest: Mapping[str, Any],
    find_leaks: Callable[[dict[str, str]], Sequence[tuple[str, str]]],
    before_swap: Callable[[], object] = lambda: None,
) -> None:
    """Builds a corpus in a staging folder beside OUT and swaps it in: shards (source, SHA-256), then text files, manifest last.

    `find_leaks` gets the text files and the manifest by name and returns (file name, kind) for each removed value in them; LeakFound is
    raised if there is any. `shards_per_increment` has the number of shards of each increment, if there are several.

    The caller holds the lock of OUT (locks.py), so no other run builds there. `before_swap` is called just before the swap and raises if
    OUT must not be replaced.
    """
    folder, _ = _staging_paths(out)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with translate_disk_errors(out.parent):
            suffix = "".join(shards[0][0].suffixes) if shards else ".parquet"
            named_shards = [
                (*shard, name) for shard, name in zip(shards, shard_names(shards_per_increment or [len(shards)], suffix), strict=True)
            ]
            _build(folder, named_shards, text_files, manifest, find_leaks)
            before_swap()
            swap_folders(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def recover_output(out: Path) -> None:
    """Recovers from an interrupted publication: restores OUT if the swap did not finish, and removes the staging folders.

    The caller holds the lock of OUT.
    """
    new, old = _staging_paths(out)
    if old.exists() and not out.exists():
        old.rename(out)
        fsync(out.parent)
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)


def _staging_paths(out: Path) -> tuple[Path, Path]:
    """The two reserved paths beside OUT: where the new output is built, and where the old one is moved during a swap."""
    return out.with_name(f".{out.name}.sanitize-new"), out.with_name(f".{out.name}.sanitize-old")


def _build(
    folder: Path,
    shards: Sequence[tuple[Path, str, str]],
    text_files: Mapping[str, str],
    manifest: Mapping[str, Any],
    find_leaks: Callable[[dict[str, str]], Sequence[tuple[str, str]]],
) -> None:
    """Writes a complete corpus to `folder`, synced to disk. Raises LeakFound or OutputBroken."""
    (folder / "data").mkdir(parents=True)
    # a hard link has the private mode of its source in WORK; published files get the mode that the umask gives to new files
    mode = (folder / "data").stat().st_mode & 0o666
    for source, expected_sha256, name in shards:
        target = folder / "data" / name
        try:
            os.link(source, target)
        except OSError:  # WORK is on another file system
            shutil.copyfile(source, target)
        target.chmod(mode)
        if file_sha256(target) != expected_sha256:
            raise OutputBroken(f"{source}: does not match its record (sha256 differs); the disk may be failing. Run the same command again")
        fsync(target)
        failpoints.hit("publish:shard_linked")
    leaks = find_leaks({**text_files, "manifest.json": json.dumps(manifest, ensure_ascii=False, default=str)})
    if leaks:
        name, kind = leaks[0]
        raise LeakFound(f"{name} would contain a removed {kind} value, and {len(leaks) - 1} more; nothing was published")
    for name, text in text_files.items():
        (folder / name).write_text(text, "utf-8")
        fsync(folder / name)
        failpoints.hit("publish:page_written")
    fsync(folder / "data")
    write_json(folder / "manifest.json", manifest)
    fsync(folder)
    failpoints.hit("publish:folder_complete")


def shard_name(number: int, count: int, increment: int = 1, suffix: str = ".parquet") -> str:
    """The file name of an output shard, in the form that `datasets` expects; shards of appended increments have a prefix such as b0002-."""
    return f"train-{f'b{increment:04d}-' if increment > 1 else ''}{number:05d}-of-{count:05d}{suffix}"


def shard_names(shards_per_increment: Sequence[int], suffix: str = ".parquet") -> list[str]:
    """The file names of all shards, given the number of shards of each increment; their sorted order is corpus order."""
    return [
        shard_name(number, count, increment, suffix) for increment, count in enumerate(shards_per_increment, 1) for number in range(count)
    ]


def swap_folders(new: Path, out: Path) -> None:
    """Replaces the folder `out` by `new` with one rename, atomically where the system can exchange folders; deletes the old folder."""
    _, old = _staging_paths(out)
    if not out.exists():
        new.rename(out)
    elif _exchange(new, out):
        pass  # the old OUT now has the name `new`
    else:
        # no atomic exchange on this system: move the old folder away first
        shutil.rmtree(old, ignore_errors=True)
        out.rename(old)
        failpoints.hit("swap:old_moved")
        new.rename(out)
    failpoints.hit("swap:complete")
    fsync(out.parent)
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)  # also what an interruption between the two renames left


def _exchange(first: Path, second: Path) -> bool:
    """Exchanges two folders atomically (renameat2 of Linux with RENAME_EXCHANGE); returns False if the system cannot."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(-100, os.fsencode(first), -100, os.fsencode(second), 2) == 0)
