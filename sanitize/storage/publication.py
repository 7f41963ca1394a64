"""From work to files that count: a task's files under their names with a record, and a finished corpus under its name.

Two protocols, each ending in one rename. A task: written aside, hashed, to the disk, renamed, then recorded; what has no record, or
whose record does not fit any more, is done again. A corpus: built beside OUT, verified, described, manifest last, then swapped.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sanitize.core import failpoints
from sanitize.errors import LeakFound, OutputBroken
from sanitize.storage.corpus import fsync, reopened, sha256, write_json
from sanitize.storage.disk_errors import disk_trouble


@dataclass(frozen=True, kw_only=True)
class Job:
    """A task with what it takes to do it once: where its files go, and the fingerprint of everything its result depends on."""

    work: Callable[[Any], dict[str, Any]]
    task: Any  # has `folder`, where the task writes its files
    record: Path
    fingerprint: str
    outputs: Mapping[str, Path] | Path  # file in the folder -> final path; or where everything in the folder goes
    checked_next: frozenset[str] = frozenset()  # outputs whose pages the next room checks, as it reads all of them before they count
    standing: bool = False  # what it made was published: it counts as long as its files are whole, whatever it would depend on now
    aside: Path | None = None  # where an attempt writes its record before that has its name

    def attempt(self, folder: Path) -> Job:
        """The job as one of several attempts at once may do it: all that has no name yet lies in `folder`. Whichever is last wins, with
        the same bytes; where `folder` is gone, nothing more gets a name."""
        return replace(self, task=replace(self.task, folder=folder / "made"), aside=folder / "record")

    @property
    def told(self) -> str:
        """The job in words, for an error: what it is, and which documents it reads."""
        return f"{self.record.parent.name} {self.record.stem}" + (f", {told}" if (told := getattr(self.task, "told", "")) else "")


def perform(job: Job) -> dict[str, Any]:
    """Do a job unless its record says that it is done; returns the task's result.

    Written aside, opened again and checked, hashed, to the disk, renamed, the folders to the disk, recorded: what the record names is
    whole. A job that fails takes its attempt away.
    """
    done = recorded(job.record, None if job.standing else job.fingerprint)
    if done is not None:
        return done
    folder: Path = job.task.folder
    shutil.rmtree(folder, ignore_errors=True)
    with disk_trouble(folder.parent):
        try:
            folder.mkdir(parents=True)
            failpoints.at("task:begun")
            result = job.work(job.task)
            failpoints.at("task:written")
            hashes = {}
            outputs = {path.name: job.outputs / path.name for path in folder.iterdir()} if isinstance(job.outputs, Path) else job.outputs
            for name, final in sorted(outputs.items()):
                made = folder / name
                if made.suffix == ".parquet":
                    reopened(made, pages=name not in job.checked_next)
                failpoints.at("task:checked")
                hashes[_place(job, final)] = sha256(made)
                fsync(made)
                failpoints.at("task:synced")
                final.parent.mkdir(parents=True, exist_ok=True)
                made.rename(final)
                failpoints.at("task:renamed")
            for parent in {final.parent for final in outputs.values()}:
                fsync(parent)
            failpoints.at("task:settled")
            job.record.parent.mkdir(parents=True, exist_ok=True)
            write_json(job.record, {"fingerprint": job.fingerprint, "files": hashes, "result": result}, job.aside)
            failpoints.at("task:recorded")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return result


def hash_of(job: Job, name: str) -> str:
    """The sha256 of one of the outputs of a job that is done, as its record says."""
    assert not isinstance(job.outputs, Path)
    return str(json.loads(job.record.read_text("utf-8"))["files"][_place(job, job.outputs[name])])


def _place(job: Job, output: Path) -> str:
    """Where an output lies, from its record: a private folder may be moved as a whole, and named from anywhere."""
    return os.path.relpath(output, job.record.parent)


def hashed(*things: object) -> str:
    """Thirty-two hexadecimal digits of some plain things."""
    return hashlib.blake2b(json.dumps(things, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def recorded(record: Path, fingerprint: str | None) -> dict[str, Any] | None:
    """The result in a record whose fingerprint (where one is asked for) and files still fit, else None."""
    try:
        found = json.loads(record.read_text("utf-8"))
        if fingerprint is not None and found["fingerprint"] != fingerprint:
            return None
        if any(sha256(record.parent / path) != known for path, known in found["files"].items()):
            return None
        return dict(found["result"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def publish(
    out: Path,
    *,
    shards: Sequence[tuple[Path, str]],
    parts: Sequence[int] = (),
    pages: Mapping[str, str],
    manifest: Mapping[str, Any],
    leaks_in: Callable[[dict[str, str]], Sequence[tuple[str, str]]],
    still: Callable[[], object] = lambda: None,
) -> None:
    """Build OUT beside itself and swap it in: shards (source, sha256), then pages and manifest once `leaks_in` finds nothing in them.
    `parts` says how many shards each part has, where there are several.

    The name OUT is held by its lock (lock.py), so nobody else builds there; `still` is asked just before the swap whether OUT may be
    replaced, and raises if not.
    """
    folder, _ = _beside(out)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with disk_trouble(out.parent):
            suffix = "".join(shards[0][0].suffixes) if shards else ".parquet"
            named = [(*shard, name) for shard, name in zip(shards, shard_names(parts or [len(shards)], suffix), strict=True)]
            _build(folder, named, pages, manifest, leaks_in)
            still()
            swap(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def mend(out: Path) -> None:
    """Take away what a stopped run left beside OUT, whose lock is held; an OUT that had only stepped aside comes back."""
    new, old = _beside(out)
    if old.exists() and not out.exists():
        old.rename(out)
        fsync(out.parent)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)


def _beside(out: Path) -> tuple[Path, Path]:
    """The names that are ours beside OUT: where the new one is built, and where an old one steps aside."""
    return out.with_name(f".{out.name}.sanitize-new"), out.with_name(f".{out.name}.sanitize-old")


def _build(
    folder: Path,
    shards: Sequence[tuple[Path, str, str]],
    pages: Mapping[str, str],
    manifest: Mapping[str, Any],
    leaks_in: Callable[[dict[str, str]], Sequence[tuple[str, str]]],
) -> None:
    """A whole corpus in a folder of its own, on the disk."""
    (folder / "data").mkdir(parents=True)
    # a link has the mode of its source, and that lies in WORK: what is published has the mode that the user gives to new files
    mode = (folder / "data").stat().st_mode & 0o666
    for source, known, name in shards:
        target = folder / "data" / name
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copyfile(source, target)
        target.chmod(mode)
        if sha256(target) != known:
            raise OutputBroken(f"{source}: not what its record says (sha256 differs); the disk may be failing. Run the same command again")
        fsync(target)
        failpoints.at("publish:linked")
    leaks = leaks_in({**pages, "manifest.json": json.dumps(manifest, ensure_ascii=False, default=str)})
    if leaks:
        name, kind = leaks[0]
        raise LeakFound(f"{name} would hold a {kind} that had to go, and {len(leaks) - 1} more; nothing was published")
    for name, text in pages.items():
        (folder / name).write_text(text, "utf-8")
        fsync(folder / name)
        failpoints.at("publish:paged")
    fsync(folder / "data")
    write_json(folder / "manifest.json", manifest)
    fsync(folder)
    failpoints.at("publish:built")


def shard_name(number: int, count: int, part: int = 1, suffix: str = ".parquet") -> str:
    """The name of an output shard, as `datasets` and others expect it; of the first part of a corpus, or of one that was appended."""
    return f"train-{f'b{part:04d}-' if part > 1 else ''}{number:05d}-of-{count:05d}{suffix}"


def shard_names(parts: Sequence[int], suffix: str = ".parquet") -> list[str]:
    """The names of all shards of a corpus whose parts have so many each; in the order of their names, too."""
    return [shard_name(number, count, part, suffix) for part, count in enumerate(parts, 1) for number in range(count)]


def swap(new: Path, out: Path) -> None:
    """Give the folder `new` the name `out` in one rename; what was there goes away afterwards."""
    _, old = _beside(out)
    if not out.exists():
        new.rename(out)
    elif _exchange(new, out):
        pass  # what was OUT has the name of the new one now
    else:
        # no atomic exchange on this system: the old folder steps aside for a moment
        shutil.rmtree(old, ignore_errors=True)
        out.rename(old)
        failpoints.at("swap:aside")
        new.rename(out)
    failpoints.at("swap:done")
    fsync(out.parent)
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)  # also what a stop between the two renames left


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically (Linux's renameat2); False where the system cannot."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(-100, os.fsencode(one), -100, os.fsencode(other), 2) == 0)
