"""Patterns that stay compiled: work in threads of its own, and few enough patterns in each of them."""

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

from sanitize.cli.demo import mail_batches
from sanitize.core.keys import Key
from sanitize.finders.patterns import Patterns
from sanitize.kinds.kind import every_kind, known_countries
from sanitize.text.regex_threads import apart

KEPT = 32  # what Polars keeps of a thread's patterns
TAKING = ("contains", "count_matches", "extract", "extract_all", "extract_groups", "find", "replace", "replace_all")


def test_a_part_keeps_its_thread() -> None:
    mine, one, two = threading.get_ident(), apart("one", threading.get_ident), apart("two", threading.get_ident)
    assert len({mine, one, two}) == 3
    assert apart("one", threading.get_ident) == one


def test_an_error_comes_out_of_it() -> None:
    with pytest.raises(ZeroDivisionError):
        apart("one", divmod, 1, 0)
    assert apart("one", divmod, 7, 2) == (3, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_begins_anew() -> None:
    apart("one", threading.get_ident)
    child = os.fork()
    if not child:
        os._exit(apart("one", lambda: 7))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("everything", [False, True], ids=["by default", "all kinds"])
def test_no_thread_has_more_patterns_than_are_kept(monkeypatch: pytest.MonkeyPatch, everything: bool) -> None:
    """More than that, in turn, and each is compiled anew for every batch."""
    seen: dict[str, set[str]] = defaultdict(set)

    def listening(method: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
        def heard(self: ExprStringNameSpace, pattern: Any, *more: Any, **how: Any) -> pl.Expr:
            if isinstance(pattern, str) and not how.get("literal"):
                seen[threading.current_thread().name].add(pattern)
            return method(self, pattern, *more, **how)

        return heard

    for name in TAKING:
        monkeypatch.setattr(ExprStringNameSpace, name, listening(getattr(ExprStringNameSpace, name)))
    named = [kind.name for kind in every_kind().values() if kind.country is None]
    patterns = Patterns(Key.from_seed(1), *((known_countries(), named) if everything else ()))
    for dense in (True, False):
        for batch in mail_batches(2_000, 3, dense=dense):
            patterns.run(batch["text"].cast(pa.large_string()))
    assert sum(map(len, seen.values())) > KEPT  # or no threads would be needed
    assert {name: len(some) for name, some in seen.items() if len(some) > KEPT} == {}
