"""Patterns that stay compiled from one batch to the next.

Polars keeps the 32 regular expressions that a thread used last. Work that uses more of them, batch after batch, finds none of them when it
comes round again, and compiles each anew: 100 ms a batch for the kinds of the finder, a fifth of its time. Each part of such work that
needs fewer than that therefore has a thread of its own, and the one that asks waits for it.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_threads: dict[str, ThreadPoolExecutor] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.clear)  # threads do not come along


def apart(part: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `work` gives or raises, done in the thread of that part of the work. Not to be asked for from within that thread."""
    if part not in _threads:
        _threads[part] = ThreadPoolExecutor(1, part)
    here = contextvars.copy_context()
    return _threads[part].submit(lambda: here.run(work, *args, **kwargs)).result()
