"""`detect`: the finders of a plan on texts in memory, both rounds if the plan has them, by the
functions of the tasks of an index (sanitize/stages/detection.py):

    texts -> first round -> occurrences and values -> terms -> second round -> occurrences

No file is written.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import numbers_to_arrow, numbers_to_numpy, to_large_string
from sanitize.core.keys import Key
from sanitize.core.span_table import SpanTable, ValueTable
from sanitize.core.text_cells import LeafPath
from sanitize.finders.known import build_known_terms, read_known_list
from sanitize.inspection.input_objects import read_texts
from sanitize.kinds.kind import all_kinds, custom_kinds, get_kind
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.plan import DEFAULT_PLAN, Plan, SelectionRules
from sanitize.plans.python_api import public_function
from sanitize.stages.finder_pass import FinderPass
from sanitize.stages.occurrence_table_writer import (
    OccurrenceBatch,
    distinct_spellings,
    one_spelling_each,
)
from sanitize.storage.corpus import CellGroup

DETECT_SCHEMA = {
    "text_index": pl.Int64,
    "kind": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "score": pl.Float32,
}
_LEAVES = (LeafPath("text"),)
_BATCH_BYTES, _BATCH_TEXTS = 16 << 20, 10_000  # of texts that are searched together


@public_function()
def detect(
    texts: Any,
    /,
    *,
    plan: Plan | Path | str = DEFAULT_PLAN,
    values: bool = False,
    known: Path | str | None = None,
) -> pl.DataFrame:
    """The occurrences that the finders of a plan report in some texts, as one row each:
    `text_index` (the position of the text, from 0), `kind`, `start`, `end` (code points, half-open:
    the value is `text[start:end]`) and `score` (0 to 1), by position.

    texts   A text, or a list, tuple, Polars Series or Arrow array of texts; None has no rows.
    plan    The name of a shipped plan, the path of a TOML file, or a `Plan`. Finders that need the
            whole corpus take these texts for it.
    values  Adds a column `value`. Without it no value is in the result, so that none reaches a log
    by its `repr`.
    known   A list of known values to find: CSV, TSV or JSON lines with kind and value.

    Occurrences that the plan does not act on (`find.allow`, `find.min_score`) are left out. Raises
    UsageError for anything that is not a text, and PlanError for a plan that is not valid.

    >>> import sanitize
    >>> texts = ["Write to ann.lee@example.com", None, "or call +1 212 555 0123."]
    >>> found = sanitize.detect(texts, values=True)
    >>> found.select("text_index", "start", "end", "value").rows()
    [(0, 9, 28, 'ann.lee@example.com'), (2, 8, 23, '+1 212 555 0123')]
    """
    column = read_texts("detect", texts)
    chosen = Plan.load(plan).with_known_values(known)
    with custom_kinds(chosen.custom_kinds):
        found = find_in_texts(column, chosen.detection_spec, known)
        found = _select(
            found.sort("text_index", "start", "end", "kind"), column, chosen.find.selection_rules
        )
    return found if values else found.drop("value")


def _select(found: pl.DataFrame, column: pl.Series, rules: SelectionRules) -> pl.DataFrame:
    """The occurrences that the rules of a plan select, with their values."""
    length = pl.col("end") - pl.col("start")
    found = found.with_columns(text=column.gather(found["text_index"])).with_columns(
        value=pl.col("text").str.slice(pl.col("start"), length)
    )
    found = found.drop("text")
    if not rules:
        return found
    from sanitize.pipeline.occurrence_selection import find_unselected  # few plans have rules

    values = found.select("kind", "value").unique().with_row_index("value_id")
    by_kind = values.partition_by("kind")
    values = pl.concat([values.clear(), *by_kind]).with_columns(
        normalised=pl.concat(
            [
                pl.Series("normalised", [], pl.String),
                *(
                    get_kind(part["kind"][0]).normalise(part["value"]).alias("normalised")
                    for part in by_kind
                ),
            ]
        )
    )
    is_allowed, is_below_min = find_unselected(
        found.join(values, ["kind", "value"], maintain_order="left"), values, rules
    )
    return found.filter(pl.Series(~is_allowed & ~is_below_min))


@dataclass(frozen=True, repr=False)
class _SearchedBatch:
    """A batch of texts, and what was found in each of its groups of cells."""

    table: pa.Table
    by_group: Sequence[tuple[CellGroup, SpanTable]]

    @property
    def doc_no(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return numbers_to_numpy(self.table.column("doc_no"))

    def list_rows(self) -> pl.DataFrame:
        """The occurrences with the columns of `DETECT_SCHEMA`."""
        kind_names = pl.Series(list(all_kinds()), dtype=pl.String)
        frames = [pl.DataFrame(schema=DETECT_SCHEMA)]
        for group, found in self.by_group:
            start, end = found.find_code_points(group.texts)
            columns = {
                "text_index": self.doc_no[group.rows[found.text_no]],
                "kind": kind_names.gather(found.kind),
                "start": start,
                "end": end,
                "score": found.score,
            }
            frames.append(pl.DataFrame(columns))
        return pl.concat(frames)


def find_in_texts(texts: pl.Series, spec: DetectionSpec, known: Path | str | None) -> pl.DataFrame:
    """The occurrences in a column of texts, with the columns of `DETECT_SCHEMA`: those of both
    rounds if `spec` has finders of the second, for which `known` is a user's list. A null text has
    none; a warning counts texts that a finder could not analyse."""
    key = Key.generate()
    batches = _run_first_round(texts, spec, key)
    if any(finder.second_round for finder in spec.finders):
        batches = _run_second_round(batches, spec, key, known)
    return pl.concat([pl.DataFrame(schema=DETECT_SCHEMA), *(one.list_rows() for one in batches)])


def _run_first_round(texts: pl.Series, spec: DetectionSpec, key: Key) -> list[_SearchedBatch]:
    batches, unread_count = list[_SearchedBatch](), 0
    with FinderPass(spec, _LEAVES, key) as finder_pass:
        for low, part in _split_texts(texts):
            doc_no = numbers_to_arrow(np.arange(low, low + len(part)))
            doc_id = doc_no.cast(pa.large_string())
            table = pa.table({"doc_no": doc_no, "doc_id": doc_id, "text": to_large_string(part)})
            found = finder_pass.find_in_batch(table)
            unread_count += len(found.unread)
            batches.append(_SearchedBatch(found.table, found.by_group))
    if unread_count:
        warnings.warn(
            f"{unread_count} texts could not be analysed by a finder of the plan, and have no rows",
            stacklevel=5,
        )
    return batches


def _run_second_round(
    batches: Sequence[_SearchedBatch], spec: DetectionSpec, key: Key, known: Path | str | None
) -> list[_SearchedBatch]:
    """Searches the texts again with what the first round found in all of them."""
    finder_names = [finder.use for finder in spec.finders]
    occurrences = list[pl.DataFrame]()
    values = [ValueTable.empty().to_frame()]
    for batch in batches:
        rows = OccurrenceBatch(batch.doc_no, finder_names)
        for group, found in batch.by_group:
            rows.add(found, group)
        if rows.pieces:
            values.append(rows.spellings())
        occurrences.append(rows.to_frame())
    spellings = distinct_spellings(values)
    kind_names = pl.Series(list(all_kinds()), dtype=pl.String)
    terms = build_known_terms(
        [spellings.with_columns(kind_names.gather(spellings["kind"]).alias("kind"))],
        occurrences,
        read_known_list(Path(known)) if known is not None else None,
        key,
    )
    known_values = one_spelling_each(ValueTable.from_frame(spellings))
    with FinderPass(spec, _LEAVES, key, terms, known_values=known_values) as finder_pass:
        return [
            _SearchedBatch(batch.table, list(finder_pass.find_again(batch.table, rows)))
            for batch, rows in zip(batches, occurrences, strict=True)
            if batch.table.num_rows
        ]


def _split_texts(texts: pl.Series) -> Iterator[tuple[int, pl.Series]]:
    """The texts in batches, each with the position of its first text."""
    sizes = texts.str.len_bytes().fill_null(0).to_numpy()
    low, size = 0, 0
    for position, text_bytes in enumerate(sizes.tolist()):
        if position > low and (size + text_bytes > _BATCH_BYTES or position - low >= _BATCH_TEXTS):
            yield low, texts[low:position]
            low, size = position, 0
        size += text_bytes
    if low < len(texts):
        yield low, texts[low:]
