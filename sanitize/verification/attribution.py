"""Attribution of matches: what each match in an output is part of, a kept original, a replacement,
an atomic value that the plan leaves, or none of these; and its bytes in the input. What is a leak
is decided by `batch_check.classify_matches`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I32, I64, Mask
from sanitize.core.intervals import (
    contained_in_any,
    contained_in_larger,
    equals_any,
    flatten_spans,
    locate_replacements,
    overlaps_any,
    pack_pairs,
    to_input_spans,
    to_output_offsets,
)
from sanitize.core.span_table import CellSpans
from sanitize.kinds.kind import all_kinds
from sanitize.storage.parquet_files import read_table

_SPAN_COLUMNS = ("doc_no", "cell", "start_byte", "end_byte")


@dataclass(frozen=True, kw_only=True)
class DrawTimes:
    """When each replacement was drawn, and so which values it could not avoid. The parts in
    `sequential_parts` draw each replacement in its document, where the values up to it are known.
    Others draw that of a value where it first occurs, when those of that increment are known."""

    value_counts: Path = Path()
    column_values: tuple[Path, ...] = ()  # files of this table
    increment_starts: tuple[int, ...] = (0,)  # the first document of each increment of the output
    sequential_parts: tuple[str, ...] = ()

    def find_drawn_before(
        self, value_ids: I64, edits: pl.DataFrame, occurrences: pl.DataFrame
    ) -> Mask:
        """True where a value was not known yet when a replacement was drawn: one value and one edit
        in each row. `occurrences` (in bytes of the input) have the values that were replaced."""
        if not len(value_ids) or not (self.sequential_parts or len(self.increment_starts) > 1):
            return np.zeros(len(value_ids), np.bool_)
        columns = list(_SPAN_COLUMNS)
        replaced = edits.select(columns).join(
            occurrences.select(*columns, "value_id").unique(
                columns, keep="first", maintain_order=True
            ),
            on=columns,
            how="left",
            maintain_order="left",
        )
        known_first = self._find_first_documents(value_ids)
        replaced_first = self._find_first_documents(replaced["value_id"].fill_null(-1).to_numpy())
        doc_no = edits["doc_no"].to_numpy()
        drawn = np.where(replaced_first >= 0, replaced_first, doc_no)  # -1: found by a sweep
        is_later_increment = self._find_increment(known_first) > self._find_increment(drawn)
        is_sequential = edits["part"].cast(pl.String).is_in(list(self.sequential_parts)).to_numpy()
        found: Mask = np.where(is_sequential, known_first > doc_no, is_later_increment)
        return found

    def _find_first_documents(self, value_ids: I64) -> I64:
        """The first document that has each value, in a text or in a column; -1 for none."""
        first: dict[int, int] = {}
        wanted = pa.array(np.unique(value_ids))
        for path in (self.value_counts, *self.column_values):
            found = read_table(path, columns=["value_id", "first_doc_no"])
            found = found.filter(pc.is_in(found["value_id"], wanted))
            for value_id, doc_no in zip(
                *(column.to_pylist() for column in found.columns), strict=True
            ):
                first[value_id] = min(first.get(value_id, doc_no), doc_no)
        return np.array([first.get(value_id, -1) for value_id in value_ids.tolist()], np.int64)

    def _find_increment(self, doc_no: I64) -> I64:
        return np.searchsorted(np.array(self.increment_starts), doc_no, "right")


def within_kept_originals(kept: pl.DataFrame, matches: CellSpans) -> Mask:
    """True for matches inside a kept original, both in bytes of the output."""
    kept_doc, kept_cell, kept_start, kept_end = (kept[name].to_numpy() for name in _SPAN_COLUMNS)
    kept_text, match_text = pack_pairs((kept_doc, matches.doc_no), (kept_cell, matches.cell))
    originals, spans = flatten_spans(
        (kept_text, kept_start, kept_end), (match_text, matches.start_byte, matches.end_byte)
    )
    return contained_in_any(*spans, *originals)


@dataclass(frozen=True, repr=False)
class Attribution:
    """Attribution of matches in output cells: strictly inside a replacement or an atomic value
    (only a part of it); all of a replacement; across the edge of an edit. `edit_row`: the row of
    `edits` whose whole replacement the match is; -1 for other matches. `original_start` and
    `original_end` are the bytes of the input, widened to the whole spans of edits."""

    inside_replacement: Mask
    inside_atomic: Mask
    whole_replacement: Mask
    across_edit: Mask
    edits: pl.DataFrame
    edit_row: I64
    original_start: I64
    original_end: I64

    def is_surrogate_of_other_kind(self, kind: I32) -> Mask:
        """True for matches that are all of a surrogate of a value of another kind than that of the
        match, which is in `kind`.

        Editors compare a surrogate with values of its own kind only, so that its digits may equal
        those of a value of another kind: the digits of the IP address 143.255.50.185 are those of
        +1 432-555-0185.
        """
        numbers = {name: number for number, name in enumerate(all_kinds())}
        rows = np.flatnonzero(self.edit_row >= 0)
        kinds = self.edits["kind"].gather(self.edit_row[rows]).cast(pl.String)
        replaced_kind = kinds.replace_strict(numbers, default=-1, return_dtype=pl.Int64).to_numpy()
        found = np.zeros(len(kind), np.bool_)
        found[rows] = (replaced_kind >= 0) & (replaced_kind != kind[rows])
        return found


def attribute_matches(
    edits: pl.DataFrame,
    occurrences: pl.DataFrame,
    atomic_kinds: tuple[str, ...],
    matches: CellSpans,
) -> Attribution:
    """Attribute matches, given in bytes of the output, to the edits and occurrences (in bytes of
    the input) of their documents."""
    doc_nos = pl.Series(np.unique(matches.doc_no))
    edits = edits.filter(pl.col("doc_no").is_in(doc_nos.implode()))
    atomic = occurrences.filter(
        pl.col("doc_no").is_in(doc_nos.implode())
        & pl.col("kind").cast(pl.String).is_in(list(atomic_kinds))
    )
    edit_text, atomic_text, match_text = pack_pairs(
        (edits["doc_no"].to_numpy(), atomic["doc_no"].to_numpy(), matches.doc_no),
        (edits["cell"].to_numpy(), atomic["cell"].to_numpy(), matches.cell),
    )
    size = edits["replacement"].str.len_bytes().cast(pl.Int64).to_numpy()
    edit_columns = (edit_text, edits["start_byte"].to_numpy(), edits["end_byte"].to_numpy(), size)
    atomic_start, atomic_end = (
        to_output_offsets(edit_columns, atomic_text, atomic[name].to_numpy())
        for name in _SPAN_COLUMNS[2:]
    )
    spans, replacements, atomic_values = flatten_spans(  # in the output
        (match_text, matches.start_byte, matches.end_byte),
        (edit_text, *locate_replacements(*edit_columns)),
        (atomic_text, atomic_start, atomic_end),
    )
    inside_replacement, is_whole = (
        contained_in_larger(*spans, *replacements),
        equals_any(*spans, *replacements),
    )
    edit_row = np.full(len(matches), -1, np.int64)
    # of replacements that begin in one place only the last is not empty
    edit_row[is_whole] = np.searchsorted(replacements[0], spans[0][is_whole], side="right") - 1
    input_start, input_end = to_input_spans(
        edit_columns, match_text, matches.start_byte, matches.end_byte
    )
    return Attribution(
        inside_replacement=inside_replacement,
        inside_atomic=contained_in_larger(*spans, *atomic_values),
        whole_replacement=is_whole,
        across_edit=overlaps_any(*spans, *replacements) & ~inside_replacement & ~is_whole,
        edits=edits,
        edit_row=edit_row,
        original_start=input_start,
        original_end=input_end,
    )
