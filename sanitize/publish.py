"""From work to files that count: a task's files under their names with a record, and a finished corpus under its name.

Two protocols, each ending in one rename. A task: written aside, hashed, to the disk, renamed, then recorded; what has no record, or
whose record does not fit any more, is done again. A corpus: built beside OUT, verified, described, manifest last, then swapped.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import LeakFound, OutputBroken, ResourceError
from sanitize.shards import fsync, sha256, write_json


@dataclass(frozen=True, kw_only=True)
class Job:
    """A task with what it takes to do it once: where its files go, and the fingerprint of everything its result depends on."""

    work: Callable[[Any], dict[str, Any]]
    task: Any  # has `folder`, where the task writes its files
    record: Path
    fingerprint: str
    outputs: Mapping[str, Path]  # file in the folder -> final path

    @property
    def told(self) -> str:
        """The job in words, for an error: what it is, and which documents it reads."""
        return f"{self.record.parent.name} {self.record.stem}" + (f", {told}" if (told := getattr(self.task, "told", "")) else "")


def perform(job: Job) -> dict[str, Any]:
    """Do a job unless its record says that it is done; returns the task's result."""
    done = recorded(job.record, job.fingerprint)
    if done is not None:
        return done
    folder: Path = job.task.folder
    shutil.rmtree(folder, ignore_errors=True)
    with disk_trouble(folder.parent):
        folder.mkdir(parents=True)
        result = job.work(job.task)
        hashes = {}
        for name, final in job.outputs.items():
            made = folder / name
            hashes[str(final)] = sha256(made)
            fsync(made)
            final.parent.mkdir(parents=True, exist_ok=True)
            made.rename(final)
        for parent in {final.parent for final in job.outputs.values()}:
            fsync(parent)
        shutil.rmtree(folder)
        job.record.parent.mkdir(parents=True, exist_ok=True)
        write_json(job.record, {"fingerprint": job.fingerprint, "files": hashes, "result": result})
    return result


def recorded(record: Path, fingerprint: str) -> dict[str, Any] | None:
    """The result in a record whose fingerprint and files still fit, else None."""
    try:
        found = json.loads(record.read_text("utf-8"))
        if found["fingerprint"] != fingerprint or any(sha256(Path(path)) != known for path, known in found["files"].items()):
            return None
        return dict(found["result"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@contextlib.contextmanager
def disk_trouble(where: Path) -> Iterator[None]:
    """Turn a full disk, a failing write or too little memory into one clear `ResourceError`."""
    try:
        yield
    except MemoryError:
        raise ResourceError("not enough memory for a batch; use fewer --workers, or a smaller --max-doc-bytes") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.EROFS):
            free = shutil.disk_usage(where).free >> 20 if where.exists() else 0
            raise ResourceError(
                f"{where}: a write failed ({errno.errorcode[error.errno]}), {free} MB are free there. "
                "Make room, then run the same command again"
            ) from None
        raise


def publish(
    out: Path,
    *,
    shards: Sequence[tuple[Path, str]],
    pages: Mapping[str, str],
    manifest: Mapping[str, Any],
    leaks_in: Callable[[dict[str, str]], Sequence[tuple[str, str]]],
    still: Callable[[], object] = lambda: None,
    mark: str = "new",
) -> None:
    """Build OUT beside itself and swap it in: shards (source, sha256), then pages and manifest once `leaks_in` finds nothing in them.

    The name beside OUT is ours and holds `mark`, so that two runs do not meet in it; `still` is asked just before the swap whether OUT
    may be replaced, and raises if not.
    """
    folder = out.with_name(f".{out.name}.sanitize-{mark}")
    shutil.rmtree(folder, ignore_errors=True)
    with disk_trouble(out.parent):
        (folder / "data").mkdir(parents=True)
        for number, (source, known) in enumerate(shards):
            target = folder / "data" / shard_name(number, len(shards))
            try:
                os.link(source, target)
            except OSError:  # another file system
                shutil.copyfile(source, target)
                fsync(target)
            if sha256(target) != known:
                shutil.rmtree(folder)
                raise OutputBroken(
                    f"{source}: not what its record says (sha256 differs); the disk may be failing. Run the same command again"
                )
        leaks = leaks_in({**pages, "manifest.json": json.dumps(manifest, ensure_ascii=False, default=str)})
        if leaks:
            shutil.rmtree(folder)
            name, kind = leaks[0]
            raise LeakFound(f"{name} would hold a {kind} that had to go, and {len(leaks) - 1} more; nothing was published")
        for name, text in pages.items():
            (folder / name).write_text(text, "utf-8")
            fsync(folder / name)
        fsync(folder / "data")
        write_json(folder / "manifest.json", manifest)
        fsync(folder)
        try:
            still()
        except BaseException:
            shutil.rmtree(folder)
            raise
        swap(folder, out)


def shard_name(number: int, count: int) -> str:
    """The name of an output shard, as `datasets` and others expect it."""
    return f"train-{number:05d}-of-{count:05d}.parquet"


def swap(new: Path, out: Path) -> None:
    """Give the folder `new` the name `out` in one rename; what was there goes away afterwards."""
    old = out.with_name(f".{out.name}.sanitize-old")
    if not out.exists():
        new.rename(out)
    elif _exchange(new, out):
        shutil.rmtree(new)
    else:
        # no atomic exchange on this system: the old folder steps aside for a moment
        shutil.rmtree(old, ignore_errors=True)
        out.rename(old)
        new.rename(out)
    fsync(out.parent)
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
