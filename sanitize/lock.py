"""One run at a time in a WORK folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sanitize.errors import Locked
from sanitize.shards import read_json, write_json


def holder_of(work: Path) -> dict[str, Any] | None:
    """Who holds WORK at this moment: process, host, since; None where nobody does, whatever a killed run left behind."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(str(work / "run.lock"), timeout=0):
            return None
    except Timeout:
        return read_json(work / "run.holder.json") or {}


@contextlib.contextmanager
def locked(work: Path) -> Iterator[None]:
    """Hold WORK for one run; `Locked` says who holds it and since when."""
    from filelock import FileLock, Timeout

    lock, holder = FileLock(str(work / "run.lock")), work / "run.holder.json"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        who = read_json(holder) or {}
        age = int(time.time() - who["since"]) if "since" in who else 0
        raise Locked(
            f"{work}: process {who.get('pid', '?')} on {who.get('host', '?')} has been at work here for {age} s; wait for it, or stop it"
        ) from None
    try:
        write_json(holder, {"pid": os.getpid(), "host": os.uname().nodename, "since": time.time()})
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()
