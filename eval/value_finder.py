"""Finds values in generated texts with any finders of `sanitize`, named as in a plan's
`find.finders`.

    finders = ["patterns", "names"]
    finders = ["patterns", { use = "ner", model = "/abs/tagger" }]

The spans of all finders are returned, overlapping ones included (a plan would resolve overlaps): an
attacker uses whatever any of them finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.core.keys import Key
from sanitize.core.part_protocols import Finder, TextColumn, load_part
from sanitize.errors import UsageError
from sanitize.finders.patterns import FINDER_NAME as PATTERNS
from sanitize.finders.patterns import PatternFinder

ValueFinder = Callable[[Sequence[str]], pl.DataFrame]  # texts -> text_no, start, end, kind, value
VALUE_SCHEMA: Mapping[str, Any] = {
    "text_no": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "kind": pl.String,
    "value": pl.String,
}
UNSUPPORTED_FINDERS = ("spans",)  # reads its spans from a file, for given documents


def make_value_finder(
    finders: Sequence[str | Mapping[str, Any]], where: str = "finders"
) -> ValueFinder:
    """Return a function that finds values in texts: `text_no`, `start` and `end` in code points,
    `kind` and `value`, distinct, in order.

    Raises PlanError for an unknown finder or setting, MissingExtra for a missing library;
    UsageError for an empty list, and for a finder that needs a whole corpus or reads its spans from
    a file, since generated texts are not documents of a corpus.
    """
    if not finders:
        raise UsageError(
            f'{where} is empty; name at least one finder, such as {where} = ["{PATTERNS}"]'
        )
    parts: list[Finder] = [
        load_part("find", {"use": one} if isinstance(one, str) else one, f"{where}[{number}]")
        for number, one in enumerate(finders)
    ]
    for number, one in enumerate(parts):
        if one.second_round or one.use in UNSUPPORTED_FINDERS:
            raise UsageError(
                f"{where}[{number}]: {one.use} needs the documents of a corpus, and these are"
                " generated texts; leave it out"
            )
        one.validate_settings()
    key = Key.from_seed(0)  # for value ids, which are not used
    with_patterns = any(one.use == PATTERNS for one in parts)
    others = [one.resolve_settings() for one in parts if one.use != PATTERNS]

    def find_all(texts: Sequence[str]) -> pl.DataFrame:
        column = pa.array(texts, pa.large_string())
        patterns = PatternFinder(key)
        found = patterns.run(column)  # given to the other finders, as in a run
        kinds = np.array([one.name for one in patterns.kinds], dtype=object)[found.kind]
        pattern_spans = pl.DataFrame(
            {
                "text_no": found.text_no,
                "start_byte": found.start_byte,
                "end_byte": found.end_byte,
                "kind": pl.Series(kinds, dtype=pl.String),
                "value_id": found.value_id,
            }
        )
        spans = [pattern_spans.drop("value_id")] if with_patterns else []
        for one in others:
            one.open(key, None)
            try:
                finder_spans = one.find_spans(TextColumn(column, pattern_spans))
            finally:
                one.close()
            names = pl.Series(
                np.array(finder_spans.kind_names, dtype=object)[finder_spans.kind_no],
                dtype=pl.String,
            )
            spans.append(
                pl.DataFrame(
                    {
                        "text_no": finder_spans.text_no,
                        "start_byte": finder_spans.start_byte,
                        "end_byte": finder_spans.end_byte,
                        "kind": names,
                    }
                )
            )
        return _to_code_points(pl.concat(spans, how="vertical_relaxed").unique(), texts)

    return find_all


def _to_code_points(spans: pl.DataFrame, texts: Sequence[str]) -> pl.DataFrame:
    """Return the spans with their values, and with positions in code points instead of bytes, in
    order."""
    rows = pl.DataFrame(
        {"text_no": np.arange(len(texts)), "text": texts},
        schema={"text_no": pl.Int64, "text": pl.String},
    )
    spans = spans.with_columns(pl.col("text_no", "start_byte", "end_byte").cast(pl.Int64)).join(
        rows, on="text_no"
    )
    # the number of code points in the bytes before a span is its start
    text_bytes = pl.col("text").cast(pl.Binary)
    before = text_bytes.bin.slice(0, pl.col("start_byte")).cast(pl.String)
    value = text_bytes.bin.slice(
        pl.col("start_byte"), pl.col("end_byte") - pl.col("start_byte")
    ).cast(pl.String)
    found = spans.with_columns(start=before.str.len_chars().cast(pl.Int64), value=value)
    found = found.with_columns(end=pl.col("start") + pl.col("value").str.len_chars().cast(pl.Int64))
    return (
        found.select(list(VALUE_SCHEMA))
        .cast(pl.Schema(VALUE_SCHEMA))
        .sort("text_no", "start", -pl.col("end"), "kind")
    )
