"""Checks a rewritten batch: finds the values in its texts that should have been removed, and decides which of them a sweep can redact and
which are leaks.

The one implementation for runs and streams. They differ in where the batch, its edits and its occurrences come from, and in how they know
in which document a value first occurs: a run has tables of the whole corpus, a stream what it has seen so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, bytes_to_code_points, fill_null_texts
from sanitize.core.intervals import flatten_spans, is_outermost, pack_pairs
from sanitize.storage.corpus import CellColumn, CellGroup
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches
from sanitize.verification.attribution import Attribution, within_kept_originals
from sanitize.verification.value_forms import CHANCE_FORMS


class FirstOccurrences(Protocol):
    """What is known about where values first occur."""

    def __call__(self, value_ids: I64, doc_no: I64, /) -> Mask:
        """True where a value first occurs after the document: a replacement that equals it was drawn before the value was known."""


@dataclass(frozen=True, repr=False)
class ResidualMatches:
    """Matches of removed values outside kept originals: text cell, start and end byte in the output, leaf of the cell, and value.

    Of several values in one place, the one of lowest `rank` is swept, then the one of lowest kind and id. `may_be_chance`: the form of
    the match may occur by chance inside a longer replacement (a value as it is written, the digits of a number; no encoded value)."""

    doc_no: I64
    cell: I64
    start: I64
    end: I64
    leaf_no: I64
    kind: I64
    value_id: I64
    rank: I64
    may_be_chance: Mask  # in a form that may occur by chance inside a longer replacement
    is_digits: Mask  # in the form of digits, with any separators

    @classmethod
    def concat(cls, parts: Sequence[ResidualMatches]) -> ResidualMatches:
        """The matches of all parts, of which there is at least one."""
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    def __len__(self) -> int:
        return len(self.doc_no)

    def are_explained(self, attribution: Attribution) -> Mask:
        """True for matches strictly inside a replacement that may be there by chance, or strictly inside an atomic value that the plan
        leaves."""
        found: Mask = attribution.inside_atomic | (attribution.inside_replacement & self.may_be_chance)
        return found


@dataclass(frozen=True, repr=False)
class SweepSpans:
    """Spans of the input texts, in bytes, that a sweep redacts, with the value that is there. In order; none is inside another."""

    doc_no: I64
    cell: I64
    start_byte: I64
    end_byte: I64
    kind: I64
    value_id: I64

    @classmethod
    def empty(cls) -> SweepSpans:
        """No spans."""
        return cls(*(np.empty(0, np.int64) for _ in fields(cls)))

    def __len__(self) -> int:
        return len(self.doc_no)

    def take(self, rows: I64 | Mask) -> SweepSpans:
        """The spans at the given rows."""
        return SweepSpans(*(getattr(self, one.name)[rows] for one in fields(self)))


def find_matches(matchers: Sequence[LiteralMatcher], texts: pa.LargeStringArray) -> Iterator[tuple[LiteralMatcher, LiteralMatches, bool]]:
    """Yields the non-empty matches of each matcher in a column: in the text as it is (True), and in compatibility form (False)."""
    for matcher in matchers:
        for matches, is_exact in ((matcher.find(texts), True), (matcher.find_nfkc(texts), False)):
            if len(matches.term):
                yield matcher, matches, is_exact


def select_residual(
    kept: pl.DataFrame,
    group: CellGroup,
    doc_no: I64,
    matcher: LiteralMatcher,
    matches: LiteralMatches,
    *,
    ranks_terms: bool,
    form: str = "exact",
) -> tuple[ResidualMatches, int]:
    """The matches in a group of cells that are outside kept originals, and how many kept originals are matched exactly, end to end.

    `doc_no` has the document of each row of the batch. With `ranks_terms` values are ranked in the order of their search terms.
    """
    docs, cells = doc_no[group.rows[matches.text_no]], group.cell[matches.text_no].astype(np.int64)
    in_kept, exact_count = within_kept_originals(kept, docs, cells, matches.start, matches.end)
    rows = np.flatnonzero(~in_kept)
    term = matches.term[rows]
    residual = ResidualMatches(
        doc_no=docs[rows],
        cell=cells[rows],
        start=matches.start[rows],
        end=matches.end[rows],
        leaf_no=group.leaf_no[matches.text_no[rows]],
        kind=matcher.kind[term].astype(np.int64),
        value_id=matcher.value_id[term],
        rank=term.astype(np.int64) if ranks_terms else np.zeros(len(rows), np.int64),
        may_be_chance=np.full(len(rows), form in CHANCE_FORMS),
        is_digits=np.full(len(rows), form == "digits"),
    )
    return residual, exact_count


def classify_matches(matches: ResidualMatches, attribution: Attribution, first_occurs_after: FirstOccurrences) -> tuple[SweepSpans, I64]:
    """What a sweep can redact, and the rows of matches that are leaks: those that are all of a replacement.

    No leak: a match strictly inside a replacement that may be there by chance, one strictly inside an atomic value that the plan leaves,
    one whose value first occurs in a later document, and digits that are those of a surrogate of another kind. Of a replacement that holds
    an encoded value, all is swept.
    """
    is_coincidence = matches.is_digits & attribution.is_surrogate_of_other_kind(matches.kind)
    leak_rows = np.flatnonzero(attribution.whole_replacement & ~is_coincidence)
    leak_rows = leak_rows[~first_occurs_after(matches.value_id[leak_rows], matches.doc_no[leak_rows])]
    rows = np.flatnonzero(~(matches.are_explained(attribution) | attribution.whole_replacement))
    doc_no, cell, kind, value_id, rank = (
        column[rows] for column in (matches.doc_no, matches.cell, matches.kind, matches.value_id, matches.rank)
    )
    start, end = attribution.original_start[rows], attribution.original_end[rows]
    (text_no,) = pack_pairs([doc_no], [cell])
    order = np.lexsort((value_id, kind, rank, -end, start, text_no))
    spans = SweepSpans(doc_no, cell, start, end, kind, value_id).take(order)
    (axis,) = flatten_spans((text_no[order], spans.start_byte, spans.end_byte))
    return spans.take(is_outermost(*axis)), leak_rows


def find_code_points(spans: SweepSpans, batches: Iterable[tuple[I64, Sequence[CellColumn]]]) -> tuple[I64, I64]:
    """Start and end of the spans in code points, from the input texts: batches of the documents of their rows, and their cells."""
    start, end = np.zeros(len(spans), np.int64), np.zeros(len(spans), np.int64)
    for doc_no, columns in batches:
        for column in columns:
            text_cell, span_cell = pack_pairs((doc_no[column.flat.rows], spans.doc_no), (column.cell, spans.cell))
            rows = np.flatnonzero(np.isin(span_cell, text_cell))
            text_no = np.searchsorted(text_cell, span_cell[rows])  # cells of one leaf ascend
            # a text with spans is copied once, not once for each of its spans
            used, used_no = np.unique(text_no, return_inverse=True)
            buffers = TextBuffers.from_array(fill_null_texts(column.flat.texts.take(pa.array(used))))
            base = buffers.offsets[used_no]
            start[rows], end[rows] = bytes_to_code_points(buffers, used_no, base + spans.start_byte[rows], base + spans.end_byte[rows])
    return start, end
