"""Patterns stay compiled: regex work runs in dedicated threads, with few enough patterns in each of them."""

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

from sanitize.cli.demo import generate_mail_batches
from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import all_kinds, known_countries
from sanitize.text.regex_threads import run_in_regex_thread

KEPT = 32  # what Polars keeps of a thread's patterns
TAKING = ("contains", "count_matches", "extract", "extract_all", "extract_groups", "find", "replace", "replace_all")


def test_a_part_keeps_its_thread() -> None:
    mine, one, two = threading.get_ident(), run_in_regex_thread("one", threading.get_ident), run_in_regex_thread("two", threading.get_ident)
    assert len({mine, one, two}) == 3
    assert run_in_regex_thread("one", threading.get_ident) == one


def test_an_error_comes_out_of_it() -> None:
    with pytest.raises(ZeroDivisionError):
        run_in_regex_thread("one", divmod, 1, 0)
    assert run_in_regex_thread("one", divmod, 7, 2) == (3, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_begins_anew() -> None:
    run_in_regex_thread("one", threading.get_ident)
    child = os.fork()
    if not child:
        os._exit(run_in_regex_thread("one", lambda: 7))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("everything", [False, True], ids=["by default", "all kinds"])
def test_no_thread_has_more_patterns_than_are_kept(monkeypatch: pytest.MonkeyPatch, everything: bool) -> None:
    """With more patterns than the cache holds, each is compiled again for every batch."""
    seen: dict[str, set[str]] = defaultdict(set)

    def listening(method: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
        def heard(self: ExprStringNameSpace, pattern: Any, *more: Any, **how: Any) -> pl.Expr:
            if isinstance(pattern, str) and not how.get("literal"):
                seen[threading.current_thread().name].add(pattern)
            return method(self, pattern, *more, **how)

        return heard

    for name in TAKING:
        monkeypatch.setattr(ExprStringNameSpace, name, listening(getattr(ExprStringNameSpace, name)))
    named = [kind.name for kind in all_kinds().values() if kind.country is None]
    patterns = PatternFinder(Key.from_seed(1), *((known_countries(), named) if everything else ()))
    for dense in (True, False):
        for batch in generate_mail_batches(2_000, 3, dense=dense):
            patterns.run(batch["text"].cast(pa.large_string()))
    assert sum(map(len, seen.values())) > KEPT  # or no threads would be needed
    assert {name: len(some) for name, some in seen.items() if len(some) > KEPT} == {}
