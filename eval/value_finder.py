"""What sees values in what a model says: any finders of `sanitize`, as a plan's `find.finders` names them.

    finders = ["patterns", "names"]
    finders = ["patterns", { use = "ner", model = "/abs/tagger" }]

An attacker takes whatever any of them sees: spans of several finders all count, also where they overlap, which a plan would settle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.core.keys import Key
from sanitize.core.parts import Column, Finder, load
from sanitize.errors import UsageError
from sanitize.finders.patterns import NAME as PATTERNS
from sanitize.finders.patterns import Patterns

Seer = Callable[[Sequence[str]], pl.DataFrame]  # texts -> text_no, start, stop, kind, value
SEEN: Mapping[str, Any] = {"text_no": pl.Int64, "start": pl.Int64, "stop": pl.Int64, "kind": pl.String, "value": pl.String}
WITHOUT = ("spans",)  # given from outside, for documents that are there


def seer(finders: Sequence[str | Mapping[str, Any]], where: str = "finders") -> Seer:
    """A function that gives what any of these finders sees in texts: `text_no`, `start` and `stop` in code points, `kind` and `value`, each
    once, in order.

    PlanError for a finder or setting that is not there, MissingExtra for a library that is not; UsageError for none at all, and for one
    that gathers from a corpus or is told its spans: answers of a model are none of its documents.
    """
    if not finders:
        raise UsageError(f'{where} is empty; name one at least, such as {where} = ["{PATTERNS}"]')
    parts: list[Finder] = [
        load("find", {"use": one} if isinstance(one, str) else one, f"{where}[{number}]") for number, one in enumerate(finders)
    ]
    for number, one in enumerate(parts):
        if one.second or one.use in WITHOUT:
            raise UsageError(f"{where}[{number}]: {one.use} looks at the documents of a corpus, and these are answers; leave it out")
        one.fits()
    key = Key.from_seed(0)  # for value ids, which are thrown away
    with_patterns = any(one.use == PATTERNS for one in parts)
    others = [one.settled() for one in parts if one.use != PATTERNS]

    def see(texts: Sequence[str]) -> pl.DataFrame:
        column = pa.array(texts, pa.large_string())
        patterns = Patterns(key)
        found = patterns.run(column)  # the others are shown what it finds, as in a run
        kinds = np.array([one.name for one in patterns.kinds], dtype=object)[found.distinct.kind][found.which]
        shown = pl.DataFrame(
            {
                "text_no": found.text_no, "start_byte": found.start_byte, "stop_byte": found.stop_byte,
                "kind": pl.Series(kinds, dtype=pl.String), "value_id": found.distinct.value_id[found.which],
            }
        )  # fmt: skip
        spans = [shown.drop("value_id")] if with_patterns else []
        for one in others:
            one.open(key, None)
            try:
                told = one.run(Column(column, shown))
            finally:
                one.close()
            names = pl.Series(np.array(told.kinds, dtype=object)[told.kind], dtype=pl.String)
            spans.append(pl.DataFrame({"text_no": told.text_no, "start_byte": told.start_byte, "stop_byte": told.stop_byte, "kind": names}))
        return _cut(pl.concat(spans, how="vertical_relaxed").unique(), texts)

    return see


def _cut(spans: pl.DataFrame, texts: Sequence[str]) -> pl.DataFrame:
    """The texts of spans, and their places in code points, in order."""
    rows = pl.DataFrame({"text_no": np.arange(len(texts)), "text": texts}, schema={"text_no": pl.Int64, "text": pl.String})
    spans = spans.with_columns(pl.col("text_no", "start_byte", "stop_byte").cast(pl.Int64)).join(rows, on="text_no")
    # byte places are cut as bytes: what stands before a span tells how many code points it begins behind
    whole = pl.col("text").cast(pl.Binary)
    before = whole.bin.slice(0, pl.col("start_byte")).cast(pl.String)
    value = whole.bin.slice(pl.col("start_byte"), pl.col("stop_byte") - pl.col("start_byte")).cast(pl.String)
    told = spans.with_columns(start=before.str.len_chars().cast(pl.Int64), value=value)
    told = told.with_columns(stop=pl.col("start") + pl.col("value").str.len_chars().cast(pl.Int64))
    return told.select(list(SEEN)).cast(pl.Schema(SEEN)).sort("text_no", "start", -pl.col("stop"), "kind")
