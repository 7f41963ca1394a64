"""File locks (flock) that allow one run at a time per WORK folder and per OUT.

The operating system ties the lock to the process that opened the file and releases it when that process ends, however it ends: a killed
run leaves a file, never a lock. The file contains the process id and host of the holder and the time since when. On a network file system
without locks a run is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sanitize.errors import Locked
from sanitize.storage.files import parse_json

_MAX_LOCK_BYTES = 4096


def read_lock_holder(work: Path) -> dict[str, Any] | None:
    """The present holder of WORK's lock: pid, host, since; None if it is free, even if a killed run left its lock file."""
    try:
        handle = os.open(work / "run.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read_holder(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def lock_workspace(work: Path) -> Iterator[None]:
    """Holds the lock of WORK for one run. Raises `Locked` with the holder and the age of its lock if another run has it."""
    with hold_lock(work / "run.lock", work):
        yield


@contextlib.contextmanager
def lock_output(out: Path) -> Iterator[None]:
    """Holds the lock of OUT for one run, independent of its WORK: a lock file beside OUT, which is removed at the end."""
    lock = out.with_name(f".{out.name}.sanitize-lock")
    with hold_lock(lock, out):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


@contextlib.contextmanager
def hold_lock(lock: Path, locked_path: Path) -> Iterator[None]:
    """Holds the lock file `lock` of the folder `locked_path`. Raises `Locked` with the holder and the age of its lock if it is held."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the previous holder may have removed the file between open and flock; then this handle locks a deleted file: try again
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                break
        except FileNotFoundError:
            pass
        except BlockingIOError:
            holder = _read_holder(handle)
            os.close(handle)
            age = f"{max(0, int(time.time() - holder['since']))} s" if isinstance(holder.get("since"), float) else "some time"
            raise Locked(
                f"{locked_path}: locked by process {holder.get('pid', '?')} on {holder.get('host', '?')} for {age}; "
                "wait until it ends, or stop it"
            ) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "since": time.time()}).encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
        os.close(handle)


def _read_holder(handle: int) -> dict[str, Any]:
    """What the holder wrote to the lock file; empty if it has not written it yet."""
    try:
        return dict(parse_json(os.pread(handle, _MAX_LOCK_BYTES, 0)))
    except (OSError, ValueError, TypeError):
        return {}
