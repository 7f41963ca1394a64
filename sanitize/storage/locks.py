"""One run at a time: in a WORK folder, and towards an OUT.

The system holds the lock for the process that opened the file, and gives it back when that process ends, however it ends: what a
killed run leaves is a file, never a lock. The file says who holds it, where and since when. On a network file system without locks a
run is refused.
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

_LARGEST = 4096


def holder_of(work: Path) -> dict[str, Any] | None:
    """Who holds WORK at this moment: process, host, since; None where nobody does, whatever a killed run left behind."""
    try:
        handle = os.open(work / "run.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _said(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(work: Path) -> Iterator[None]:
    """Hold WORK for one run; `Locked` says who holds it and since when."""
    with _held(work / "run.lock", work):
        yield


@contextlib.contextmanager
def out_locked(out: Path) -> Iterator[None]:
    """Hold the name OUT for one run, whatever WORK it has: a file beside it that goes away at the end."""
    lock = out.with_name(f".{out.name}.sanitize-lock")
    with _held(lock, out):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


@contextlib.contextmanager
def _held(lock: Path, what: Path) -> Iterator[None]:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the holder before may have taken the file away between the two calls: then this is no lock of anything
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                break
        except FileNotFoundError:
            pass
        except BlockingIOError:
            who = _said(handle)
            os.close(handle)
            age = f"{max(0, int(time.time() - who['since']))} s" if isinstance(who.get("since"), float) else "some time"
            raise Locked(
                f"{what}: process {who.get('pid', '?')} on {who.get('host', '?')} has been at work here for {age}; wait for it, or stop it"
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


def _said(handle: int) -> dict[str, Any]:
    """What the holder wrote; nothing where it is only about to."""
    try:
        return dict(json.loads(os.pread(handle, _LARGEST, 0)))
    except (OSError, ValueError, TypeError):
        return {}
