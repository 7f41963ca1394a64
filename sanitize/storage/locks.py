"""File locks (flock) that allow one run at a time per WORK folder and per OUT, and none while a
command reads all of WORK. A locked folder that is moved, replaced or deleted is one clear error.

The operating system ties the lock to the process that opened the file and releases it when that
process ends, however it ends: a killed run leaves a file, never a lock. The file contains the
process id and host of the holder and the time since when. On a network file system without locks a
run is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from sanitize.core.command_results import from_json
from sanitize.errors import Locked, OutputBroken
from sanitize.storage.files import parse_json

_MAX_LOCK_BYTES = 4096
# real paths of the lock files that this process holds for runs, and their handles
_held_locks: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class LockHolder:
    """The process that holds a lock, and since when (seconds since 1970)."""

    pid: int
    host: str
    since: float


def read_lock_holder(work: Path) -> LockHolder | None:
    """The present holder of WORK's lock; None if it is free, even if a killed run left its lock
    file."""
    try:
        handle = os.open(work / "run.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_holder(handle) if _is_held_by_run(handle) else None
    finally:
        os.close(handle)


@contextlib.contextmanager
def lock_workspace(work: Path) -> Iterator[None]:
    """Holds the lock of WORK for one run. Raises `Locked` with the holder and the age of its lock
    if another run has it."""
    with hold_lock(work / "run.lock", work):
        yield


@contextlib.contextmanager
def share_workspace(work: Path) -> Iterator[None]:
    """Keeps runs away from WORK while a command reads it; other readers may do the same. Raises
    `Locked` if another process runs there.

    A run that this process makes there reads its own tables: it is not refused.
    """
    lock = work / "run.lock"
    if os.path.realpath(lock) in _held_locks:
        yield
        return
    handle = _open_lock(lock, work)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(_describe_holder(handle, work)) from None
        yield
    except Locked:
        raise
    except Exception:
        if not _is_lock_at(handle, lock):
            raise _moved_error(work) from None
        raise
    finally:
        os.close(handle)


def is_unmoved(work: Path) -> bool:
    """True if WORK is the folder that this process has locked for its run, and nothing moved,
    replaced or deleted it."""
    lock = work / "run.lock"
    handle = _held_locks.get(os.path.realpath(lock))
    return handle is not None and _is_lock_at(handle, lock)


def require_unmoved(work: Path) -> None:
    """Raises OutputBroken if WORK is no longer the folder that this process has locked."""
    if not is_unmoved(work):
        raise _moved_error(work)


def remove_locked_folder(work: Path) -> None:
    """Deletes a WORK that this process has locked; not what something else put in its place."""
    if is_unmoved(work):
        del _held_locks[os.path.realpath(work / "run.lock")]
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def lock_output(out: Path) -> Iterator[None]:
    """Holds the lock of OUT for one run, independent of its WORK: a lock file beside OUT, which is
    removed at the end."""
    with hold_lock(out.with_name(f".{out.name}.sanitize-lock"), out, is_removed=True):
        yield


@contextlib.contextmanager
def hold_lock(lock: Path, locked_path: Path, *, is_removed: bool = False) -> Iterator[None]:
    """Holds the lock file `lock` of the folder `locked_path`; with `is_removed` the file is removed
    at the end. Raises `Locked` with the holder and the age of its lock if it is held."""
    while True:
        handle = _open_lock(lock, locked_path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the previous holder may have removed the file between open and flock; then this handle
            # locks a deleted file: try again
            if _is_lock_at(handle, lock):
                break
        except BlockingIOError:
            message = _describe_holder(handle, locked_path)
            os.close(handle)
            raise Locked(message) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    real_path = os.path.realpath(lock)
    try:
        os.ftruncate(handle, 0)
        holder = LockHolder(pid=os.getpid(), host=os.uname().nodename, since=time.time())
        os.pwrite(handle, json.dumps(asdict(holder)).encode(), 0)
        _held_locks[real_path] = handle
        yield
    except Exception:
        # whatever failed, failed because of that; a folder that this process removed itself is no
        # longer among the held ones
        if _held_locks.get(real_path) == handle and not _is_lock_at(handle, lock):
            raise _moved_error(locked_path) from None
        raise
    finally:
        _held_locks.pop(real_path, None)
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
        try:
            # before the lock is released: the next holder has a file of its own
            if is_removed and _is_lock_at(handle, lock):
                lock.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _is_lock_at(handle: int, lock: Path) -> bool:
    """True if an open lock file is the file at this path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(lock))
    except OSError:
        return False


def _moved_error(folder: Path) -> OutputBroken:
    return OutputBroken(
        f"{folder}: was moved, replaced or deleted while this command used it, so it stopped; move"
        " it back, then run the same command again to resume"
    )


def _read_holder(handle: int) -> LockHolder | None:
    """What the holder wrote to the lock file; None if it has not written it yet."""
    try:
        return from_json(LockHolder, parse_json(os.pread(handle, _MAX_LOCK_BYTES, 0)))
    except (OSError, ValueError):
        return None


def _open_lock(lock: Path, locked_path: Path) -> int:
    """Open the lock file of a folder, made if it is missing. Raises `Locked` if it is another
    user's."""
    try:
        return os.open(
            lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600
        )
    except PermissionError:
        owner = _find_owner(lock)
        if owner in (None, os.geteuid()):
            raise
    raise Locked(
        f"{locked_path}: its lock file {lock.name} belongs to another user (number {owner}), who"
        " may be running there; wait until that run ends and ask for the file to be deleted, or"
        " use another folder"
    )


def _find_owner(path: Path) -> int | None:
    """Return the number of the user that a file belongs to; None if that cannot be known."""
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def _is_held_by_run(handle: int) -> bool:
    """True if a run holds the lock of an open lock file, and not commands that read."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(handle, fcntl.LOCK_UN)
    return False


def _describe_holder(handle: int, locked_path: Path) -> str:
    """Who holds a lock, and for how long, from its open lock file."""
    if not _is_held_by_run(handle):
        return (
            f"{locked_path}: another command reads it, such as `sanitize verify` or `sanitize"
            " report`; wait until it ends"
        )
    holder = _read_holder(handle)
    process = (
        f"process {holder.pid} on {holder.host} for {max(0, int(time.time() - holder.since))} s"
        if holder is not None
        else "process ? on ? for some time"
    )
    return f"{locked_path}: locked by {process}; wait until it ends, or stop it"
