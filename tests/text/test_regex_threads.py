"""Patterns stay compiled: regex work runs in dedicated threads, with few enough patterns in each of
them."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.expr.string import ExprStringNameSpace

from sanitize.cli.generated_mails import generate_mail_batches
from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import all_kinds, known_countries
from sanitize.text.regex_threads import run_in_regex_thread

CACHED_PATTERNS = 32  # compiled patterns that Polars caches per thread
PATTERN_METHODS = (
    "contains",
    "count_matches",
    "extract",
    "extract_all",
    "extract_groups",
    "find",
    "replace",
    "replace_all",
)


def test_thread_of_a_name_is_reused() -> None:
    main, first, second = (
        threading.get_ident(),
        run_in_regex_thread("one", threading.get_ident),
        run_in_regex_thread("two", threading.get_ident),
    )
    assert len({main, first, second}) == 3
    assert run_in_regex_thread("one", threading.get_ident) == first


def test_errors_propagate_to_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        run_in_regex_thread("one", divmod, 1, 0)
    assert run_in_regex_thread("one", divmod, 7, 2) == (3, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_threads_are_created_again_after_a_fork() -> None:
    run_in_regex_thread("one", threading.get_ident)
    child = os.fork()
    if not child:
        os._exit(run_in_regex_thread("one", lambda: 7))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("everything", [False, True], ids=["by default", "all kinds"])
def test_no_thread_uses_more_patterns_than_are_cached(
    monkeypatch: pytest.MonkeyPatch, everything: bool
) -> None:
    """With more patterns than the cache holds, each is compiled again for every batch."""
    patterns_by_thread: dict[str, set[str]] = defaultdict(set)

    def record_patterns(method: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
        def recording(
            self: ExprStringNameSpace, pattern: Any, *arguments: Any, **options: Any
        ) -> pl.Expr:
            if isinstance(pattern, str) and not options.get("literal"):
                patterns_by_thread[threading.current_thread().name].add(pattern)
            return method(self, pattern, *arguments, **options)

        return recording

    for name in PATTERN_METHODS:
        monkeypatch.setattr(
            ExprStringNameSpace, name, record_patterns(getattr(ExprStringNameSpace, name))
        )
    kind_names = [kind.name for kind in all_kinds().values() if kind.country is None]
    finder = PatternFinder(
        Key.from_seed(1), *((known_countries(), kind_names) if everything else ())
    )
    for dense in (True, False):
        for batch in generate_mail_batches(2_000, 3, dense=dense):
            finder.run(batch["text"].cast(pa.large_string()))
    # otherwise one thread would suffice
    assert sum(map(len, patterns_by_thread.values())) > CACHED_PATTERNS
    assert {
        name: len(thread_patterns)
        for name, thread_patterns in patterns_by_thread.items()
        if len(thread_patterns) > CACHED_PATTERNS
    } == {}
