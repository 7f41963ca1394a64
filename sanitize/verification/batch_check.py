"""Checks a rewritten batch: finds the values in its texts that should have been removed, and
decides which of them a sweep can redact, which are leaks, and which are inconclusive.

The one function for runs, appends, erasures, canaries, `verify` and streams. They differ in where
the batch, its edits and its occurrences come from, and in how they know when a replacement was
drawn: a run has tables of the whole corpus, a stream what it has seen so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64, U8, Mask
from sanitize.core.arrow_buffers import TextBuffers, bytes_to_code_points, fill_null_texts
from sanitize.core.intervals import is_outermost, pack_pairs
from sanitize.core.span_table import CellSpans
from sanitize.storage.corpus import CellColumn, CellGroup
from sanitize.text.decodings.coded_runs import find_coded_runs
from sanitize.verification.attribution import Attribution, attribute_matches, within_kept_originals
from sanitize.verification.search_terms import ALL_FORMS, CHANCE_FORMS, LITERAL_FORMS, SearchTerms
from sanitize.verification.value_matches import (
    NONE,
    ValueMatches,
    describe_forms,
    find_value_matches,
)

_MAY_BE_CHANCE = np.isin(ALL_FORMS, CHANCE_FORMS)
_DIGITS = ALL_FORMS.index("digits")
_MATCHES_AT_ONCE = 1 << 18  # that are classified together: 400 bytes of intermediate columns each


class FindDrawnBefore(Protocol):
    """What is known about when replacements were drawn."""

    def __call__(self, value_ids: I64, edits: pl.DataFrame, /) -> Mask:
        """True where a value was not known yet when a replacement was drawn; both in each row."""


@dataclass(frozen=True, repr=False)
class BatchTables:
    """What is known about a batch: the originals that were kept in it and its edits, both in bytes
    of the output, and the occurrences in it. A match inside a value of `atomic_kinds`, which the
    plan leaves, is no leak; nor is a replacement that was drawn before the value was known."""

    kept: pl.DataFrame
    edits: pl.DataFrame
    occurrences: pl.DataFrame
    atomic_kinds: tuple[str, ...]
    find_drawn_before: FindDrawnBefore


@dataclass(frozen=True, repr=False, kw_only=True)
class CellMatches(CellSpans):
    """Matches of removed values outside kept originals, in bytes of the output: the leaf of the
    cell, the form (an index of `ALL_FORMS`), and whether the match is certain."""

    leaf_no: I64
    form: U8
    is_certain: Mask


@dataclass(frozen=True, repr=False)
class BatchFindings:
    """What the check of a batch found. `to_sweep`: what a sweep can redact, in bytes of the input,
    in order, none inside another; `sweepable` counts the matches of it, by leaf, kind and form, as
    numbers, and whether an edit made them. `leaks`:
    matches that are all of a replacement. `inconclusive`: the others that are not certain, by kind
    and form, as numbers."""

    to_sweep: CellSpans
    sweepable: Counter[tuple[int, int, int, bool]]
    leaks: CellMatches
    inconclusive: Counter[tuple[int, int]]

    @classmethod
    def merge(cls, parts: Sequence[BatchFindings]) -> BatchFindings:
        """The findings of all parts of a batch."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            _select_outermost(
                CellSpans.concat([CellSpans.empty(), *(part.to_sweep for part in parts)])
            ),
            sum((part.sweepable for part in parts), Counter()),
            CellMatches.concat([CellMatches.empty(), *(part.leaks for part in parts)]),
            sum((part.inconclusive for part in parts), Counter()),
        )


def check_batch(
    passes: Sequence[SearchTerms],
    groups: Sequence[CellGroup],
    doc_no: I64,
    tables: BatchTables,
    forms: Sequence[str] = ALL_FORMS,
) -> BatchFindings:
    """Search the text cells of a batch for the values of all passes. `doc_no` has the document of
    each row of the batch."""
    found = []
    is_encoded = set(forms) > set(LITERAL_FORMS)
    for group in groups if passes else ():
        texts = fill_null_texts(group.texts)
        runs = find_coded_runs(texts) if is_encoded else None
        for terms in passes:
            for matches in find_value_matches(terms, texts, forms, runs):
                rows = np.flatnonzero(matches.certainty != NONE)
                for low in range(0, len(rows), _MATCHES_AT_ONCE):
                    part = matches.take(rows[low : low + _MATCHES_AT_ONCE])
                    part = replace(part, form=describe_forms(terms, part, texts))
                    found.append(_locate(part, group, doc_no, tables.kept))
    outside = CellMatches.concat([CellMatches.empty(), *found])
    found.clear()
    parts = []
    for low in range(0, len(outside), _MATCHES_AT_ONCE):
        part_of_all = outside.take(slice(low, low + _MATCHES_AT_ONCE))
        attribution = attribute_matches(
            tables.edits, tables.occurrences, tables.atomic_kinds, part_of_all
        )
        parts.append(classify_matches(part_of_all, attribution, tables.find_drawn_before))
    return BatchFindings.merge(parts)


def _locate(
    matches: ValueMatches, group: CellGroup, doc_no: I64, kept: pl.DataFrame
) -> CellMatches:
    """The matches in a group of cells that are outside kept originals."""
    spans = CellMatches(
        doc_no=doc_no[group.rows[matches.text_no]],
        cell=group.cell[matches.text_no],
        start_byte=matches.start,
        end_byte=matches.end,
        kind=matches.kind,
        value_id=matches.value_id,
        leaf_no=group.leaf_no[matches.text_no],
        form=matches.form,
        is_certain=matches.are_certain(is_cell=True),
    )
    return spans.take(~within_kept_originals(kept, spans))


def classify_matches(
    matches: CellMatches, attribution: Attribution, find_drawn_before: FindDrawnBefore
) -> BatchFindings:
    """What a sweep can redact, which matches are leaks, and which are inconclusive.

    | where the match is                                  | certain | else         |
    | --------------------------------------------------- | ------- | ------------ |
    | outside replacements, or across the edge of one     | sweep   | inconclusive |
    | strictly inside a replacement, in an encoded form   | sweep   | inconclusive |
    | the same in a form that occurs by chance (spelling) | nothing | nothing      |
    | strictly inside an atomic value that the plan leaves | nothing | nothing     |
    | all of a replacement                                | leak    | nothing      |

    All of a replacement is no leak if it was drawn before the value was known, or has only the
    digits of a surrogate of another kind. Of a replacement that holds an encoded value, all is
    swept. Matches inside kept originals were left out before.
    """
    explained = attribution.inside_atomic | (
        attribution.inside_replacement & _MAY_BE_CHANCE[matches.form]
    )
    whole, certain = attribution.whole_replacement, matches.is_certain
    is_coincidence = (matches.form == _DIGITS) & attribution.is_surrogate_of_other_kind(
        matches.kind
    )
    leak_rows = np.flatnonzero(whole & certain & ~is_coincidence)
    edits = attribution.edits[attribution.edit_row[leak_rows]]
    leak_rows = leak_rows[~find_drawn_before(matches.value_id[leak_rows], edits)]
    other = ~(explained | whole)
    rows = np.flatnonzero(other & certain)
    uncertain = np.flatnonzero(other & ~certain)
    found = matches.take(rows)
    to_sweep = CellSpans(
        doc_no=found.doc_no,
        cell=found.cell,
        start_byte=attribution.original_start[rows],
        end_byte=attribution.original_end[rows],
        kind=found.kind,
        value_id=found.value_id,
    )
    return BatchFindings(
        _select_outermost(to_sweep),
        _count_rows(found.leaf_no, found.kind, found.form, attribution.across_edit[rows]),
        matches.take(leak_rows),
        _count_rows(matches.kind[uncertain], matches.form[uncertain]),
    )


def _select_outermost(spans: CellSpans) -> CellSpans:
    """The spans that are in no other one, in order; of several values in one place the first kind,
    then the first value."""
    start, end = spans.to_axis()
    order = np.lexsort((spans.value_id, spans.kind, -end, start))
    return spans.take(order[is_outermost(start[order], end[order])])


def _count_rows(*columns: npt.NDArray[Any]) -> Counter[Any]:
    """How often each row of some columns occurs."""
    counts = (
        pl.DataFrame({str(number): column for number, column in enumerate(columns)})
        .group_by(pl.all())
        .len()
    )
    return Counter({(*row,): times for *row, times in counts.iter_rows()})


def find_code_points(
    spans: CellSpans, batches: Iterable[tuple[I64, Sequence[CellColumn]]]
) -> tuple[I64, I64]:
    """Start and end of the spans in code points, from the input texts: batches of the documents of
    their rows, and their cells."""
    start, end = np.zeros(len(spans), np.int64), np.zeros(len(spans), np.int64)
    for doc_no, columns in batches:
        for column in columns:
            text_cell, span_cell = pack_pairs(
                (doc_no[column.flat.rows], spans.doc_no), (column.cell, spans.cell)
            )
            rows = np.flatnonzero(np.isin(span_cell, text_cell))
            text_no = np.searchsorted(text_cell, span_cell[rows])  # cells of one leaf ascend
            # a text with spans is copied once, not once for each of its spans
            used, used_no = np.unique(text_no, return_inverse=True)
            buffers = TextBuffers.from_array(
                fill_null_texts(column.flat.texts.take(pa.array(used)))
            )
            base = buffers.offsets[used_no]
            start[rows], end[rows] = bytes_to_code_points(
                buffers, used_no, base + spans.start_byte[rows], base + spans.end_byte[rows]
            )
    return start, end
