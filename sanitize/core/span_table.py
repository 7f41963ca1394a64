"""Spans in a column of texts and the values that they spell: what finders give, and what is stored,
rewritten and checked.

    texts  ["ann@example.com or", "Ann@Example.com"]
    spans  text_no [0, 1]  start_byte [0, 0]  end_byte [15, 15]  value_no [0, 1]
    values value_id [7, 7]  value ["ann@example.com", "Ann@Example.com"]

Positions are bytes from the start of the text. Code points are computed where spans leave the
program, in tables and frames (`SpanTable.find_code_points`). Kinds have one numbering, that of
`kinds.kind.all_kinds()`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import F32, I32, I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, bytes_to_code_points

VALUE_SCHEMA = {"value_id": pl.Int64, "kind": pl.Int32, "value": pl.String, "normalised": pl.String}


@dataclass(frozen=True, repr=False)
class ValueTable:
    """Spellings of values: one row for each distinct spelling of a value of one kind."""

    value_id: I64
    kind: I32
    value: pa.LargeStringArray
    normalised: pa.LargeStringArray

    def __len__(self) -> int:
        return len(self.value_id)

    @classmethod
    def empty(cls) -> ValueTable:
        """No values."""
        no_texts = pa.array([], pa.large_string())
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), no_texts, no_texts)

    @classmethod
    def concat(cls, tables: Sequence[ValueTable]) -> ValueTable:
        """The rows of all tables, in order."""
        if len(tables) == 1:
            return tables[0]
        return cls(
            np.concatenate([table.value_id for table in tables]),
            np.concatenate([table.kind for table in tables]),
            pa.concat_arrays([table.value for table in tables]),
            pa.concat_arrays([table.normalised for table in tables]),
        )

    def take(self, rows: I64) -> ValueTable:
        """The rows with these numbers."""
        texts = (column.take(pa.array(rows)) for column in (self.value, self.normalised))
        return ValueTable(self.value_id[rows], self.kind[rows], *texts)

    def to_frame(self) -> pl.DataFrame:
        """The table as a frame with the columns of `VALUE_SCHEMA`."""
        return pl.DataFrame({name: pl.Series(getattr(self, name)) for name in VALUE_SCHEMA}).cast(
            VALUE_SCHEMA  # type: ignore[arg-type]
        )


_COLUMNS = ("text_no", "start_byte", "end_byte", "value_no", "section_no", "finder", "score")


@dataclass(frozen=True, repr=False)
class SpanTable:
    """Spans in a column of texts, as arrays of one length, and what belongs to the whole column.

    Finders give them sorted by (text, start, longest first). `value_no` is the row of `values` that
    a span spells; `section_no` indexes `section_names`, -1 outside mail; `finder` is the position
    in the list of finders. `skipped` counts rejected candidates by (kind, reason); `match_counts`
    is, for each text, what the finders matched, accepted or not.
    """

    text_no: I64
    start_byte: I64
    end_byte: I64
    value_no: I64
    section_no: I32
    finder: I32
    score: F32
    values: ValueTable
    section_names: tuple[str, ...]
    skipped: dict[tuple[int, str], int]
    match_counts: I64

    def __len__(self) -> int:
        return len(self.text_no)

    @property
    def kind(self) -> I32:
        """The kind of each span."""
        return self.values.kind[self.value_no]

    @property
    def value_id(self) -> I64:
        """The value of each span."""
        return self.values.value_id[self.value_no]

    @classmethod
    def empty(cls, text_count: int) -> SpanTable:
        """No spans in so many texts."""
        numbers, small = np.empty(0, np.int64), np.empty(0, np.int32)
        return cls(
            text_no=numbers,
            start_byte=numbers,
            end_byte=numbers,
            value_no=numbers,
            section_no=small,
            finder=small,
            score=np.empty(0, np.float32),
            values=ValueTable.empty(),
            section_names=(),
            skipped={},
            match_counts=np.zeros(text_count, np.int64),
        )

    @classmethod
    def concat(cls, tables: Sequence[SpanTable]) -> SpanTable:
        """The spans of several tables over the same texts, one table after the other; counts are
        added up."""
        if len(tables) == 1:
            return tables[0]
        names = tuple(dict.fromkeys(name for table in tables for name in table.section_names))
        columns = {
            name: np.concatenate([getattr(table, name) for table in tables]) for name in _COLUMNS
        }
        shifts = np.cumsum([0, *(len(table.values) for table in tables[:-1])])
        columns["value_no"] = np.concatenate(
            [table.value_no + shift for table, shift in zip(tables, shifts, strict=True)]
        )
        # the last entry of a lookup serves -1
        columns["section_no"] = np.concatenate(
            [
                np.array([*map(names.index, table.section_names), -1], np.int32)[table.section_no]
                for table in tables
            ]
        )
        return cls(
            **columns,
            values=ValueTable.concat([table.values for table in tables]),
            section_names=names,
            skipped=dict(sum((Counter(table.skipped) for table in tables), Counter())),
            match_counts=np.sum([table.match_counts for table in tables], axis=0),
        )

    def take(self, rows: I64 | Mask | slice) -> SpanTable:
        """Some of the spans, with all values and counts."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns)

    def take_used_values(self) -> SpanTable:
        """The same spans, without the values that none of them spells."""
        is_used = np.bincount(self.value_no, minlength=len(self.values)) > 0
        if is_used.all():
            return self
        value_no = (np.cumsum(is_used) - 1)[self.value_no]
        return replace(self, value_no=value_no, values=self.values.take(np.flatnonzero(is_used)))

    def split(self, sizes: Sequence[int]) -> list[SpanTable]:
        """The spans in consecutive parts of the column, of these numbers of texts. All parts have
        the same values; the first has the counts of rejected candidates."""
        ends = np.cumsum(sizes)
        bounds = [0, *np.searchsorted(self.text_no, ends).tolist()]
        parts = []
        for number, (low, high, end, size) in enumerate(
            zip(bounds, bounds[1:], ends.tolist(), sizes, strict=False)
        ):
            part = self.take(slice(low, high))
            parts.append(
                replace(
                    part,
                    text_no=part.text_no - (end - size),
                    skipped={} if number else self.skipped,
                    match_counts=self.match_counts[end - size : end],
                )
            )
        return parts

    def find_code_points(self, texts: pa.LargeStringArray) -> tuple[I64, I64]:
        """Start and end of each span in code points of its text. `texts` is the column, without
        nulls; the spans are in order."""
        buffers = TextBuffers.from_array(texts)
        base = buffers.offsets[self.text_no]
        start, end = bytes_to_code_points(
            buffers, self.text_no, base + self.start_byte, base + self.end_byte
        )
        return start, end
