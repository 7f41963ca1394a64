"""Runs regex work in dedicated threads, so that its patterns stay compiled from one batch to the
next.

Polars caches the 32 regular expressions that a thread used last. Work that uses more than 32 per
batch never hits that cache and compiles each pattern again: 100 ms per batch for the kinds of the
finder, a fifth of its time. The work is therefore divided into groups of fewer than 32 patterns,
each with a thread of its own; the calling thread waits for the result.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_thread_pools: dict[str, ThreadPoolExecutor] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_thread_pools.clear)  # threads do not survive a fork


def run_in_regex_thread(
    thread_name: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Runs `work` in the thread named `thread_name` and returns its result or raises its error.
    Must not be called from within that thread: it would wait for itself."""
    if thread_name not in _thread_pools:
        _thread_pools[thread_name] = ThreadPoolExecutor(1, thread_name)
    context = contextvars.copy_context()
    return _thread_pools[thread_name].submit(lambda: context.run(work, *args, **kwargs)).result()
