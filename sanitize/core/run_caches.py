"""Caches of what tasks read from the files of a run, emptied when the run's engine is closed.

They hold values of the corpus, search terms and keys, some as mappings of files that are deleted at the end of the run: a program that uses
the library would keep them, and the disk space of these files, until it ends or runs again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_cached_functions: list[Any] = []


def cached_for_run(maxsize: int) -> Callable[[F], F]:
    """Like `functools.lru_cache(maxsize)`, until the next `clear_run_caches`."""

    def decorate(function: F) -> F:
        cached: Any = functools.lru_cache(maxsize=maxsize)(function)
        _cached_functions.append(cached)
        return cached  # type: ignore[no-any-return]

    return decorate


def clear_run_caches() -> None:
    """Empty the caches of this process. A run in another thread reads its files again."""
    for function in _cached_functions:
        function.cache_clear()
