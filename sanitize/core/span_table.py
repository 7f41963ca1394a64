"""Spans and the values that they spell, as tables of arrays: what finders give, and what is stored,
rewritten and checked.

    texts  ["ann@example.com or", "Ann@Example.com"]
    spans  text_no [0, 1]  start_byte [0, 0]  end_byte [15, 15]  value_no [0, 1]
    values value_id [7, 7]  value ["ann@example.com", "Ann@Example.com"]

A `SpanTable` is about a column of texts, `CellSpans` about the cells of documents, wherever their
texts are. Positions are bytes from the start of the text. Code points are computed where spans
leave the program, in tables and frames (`SpanTable.find_code_points`). Kinds have one numbering,
that of `kinds.kind.all_kinds()`.
"""

from __future__ import annotations

import functools
import typing
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.array_types import F32, I32, I64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    bytes_to_code_points,
    numbers_to_arrow,
    to_large_string,
)
from sanitize.core.intervals import flatten_spans, pack_pairs

VALUE_SCHEMA = {"value_id": pl.Int64, "kind": pl.Int32, "value": pl.String, "normalised": pl.String}


@dataclass(frozen=True, repr=False)
class ArrayTable:
    """Base of frozen dataclasses whose arrays, numpy's or Arrow's, are the columns of a table. What
    other fields hold, and the arrays named in `about_all_rows`, is about the whole table: `take`
    keeps it, and `concat` has that of the first table."""

    about_all_rows: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(next(iter(self._columns().values())))

    def _columns(self) -> dict[str, npt.NDArray[Any] | pa.Array]:
        return {
            one.name: column
            for one in fields(self)
            if one.name not in self.about_all_rows
            and isinstance(column := getattr(self, one.name), np.ndarray | pa.Array)
        }

    @classmethod
    def empty(cls, **about_all_rows: Any) -> Self:
        """A table without rows."""
        types = _read_column_types(cls)  # type: ignore[arg-type]  # mypy: type[Self] is hashable
        names = [one.name for one in fields(cls) if one.name not in about_all_rows]
        return cls(**{name: _make_empty(types[name]) for name in names}, **about_all_rows)

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """The rows of all tables, of which there is at least one, in order."""
        if len(tables) == 1:
            return tables[0]
        parts = [table._columns() for table in tables]
        return replace(
            tables[0],
            **{
                name: np.concatenate([part[name] for part in parts])
                if isinstance(column, np.ndarray)
                else pa.concat_arrays([part[name] for part in parts])
                for name, column in parts[0].items()
            },
        )

    def take(self, rows: npt.NDArray[np.integer[Any]] | Mask | slice) -> Self:
        """Some of the rows; those of a slice without a copy."""
        if not isinstance(rows, slice) and rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        return replace(
            self,
            **{
                name: column[rows]
                if isinstance(column, np.ndarray) or isinstance(rows, slice)
                else column.take(numbers_to_arrow(rows))
                for name, column in self._columns().items()
            },
        )

    def extend(self, table_type: type[_Table], **columns: Any) -> _Table:
        """The table with further columns, as `table_type`, which has the fields of this one."""
        return table_type(**{one.name: getattr(self, one.name) for one in fields(self)}, **columns)


_Table = TypeVar("_Table", bound=ArrayTable)


@functools.cache
def _read_column_types(table_type: type[ArrayTable]) -> dict[str, Any]:
    return typing.get_type_hints(table_type)


def _make_empty(array_type: Any) -> npt.NDArray[Any] | pa.Array:
    if array_type is pa.LargeStringArray:
        return pa.nulls(0, pa.large_string())
    ((element,),) = (typing.get_args(one) for one in typing.get_args(array_type)[1:])
    return np.empty(0, element)


@dataclass(frozen=True, repr=False)
class ValueTable(ArrayTable):
    """Spellings of values: one row for each distinct spelling of a value of one kind."""

    value_id: I64
    kind: I32
    value: pa.LargeStringArray
    normalised: pa.LargeStringArray

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> ValueTable:
        """The table of a frame with the columns of `VALUE_SCHEMA`."""
        value_id, kind = (frame[name].to_numpy() for name in ("value_id", "kind"))
        texts = (to_large_string(frame[name]) for name in ("value", "normalised"))
        return cls(value_id, kind, *texts)

    def to_frame(self) -> pl.DataFrame:
        """The table as a frame with the columns of `VALUE_SCHEMA`."""
        return pl.DataFrame({name: pl.Series(getattr(self, name)) for name in VALUE_SCHEMA}).cast(
            VALUE_SCHEMA  # type: ignore[arg-type]
        )


@dataclass(frozen=True, repr=False)
class SpanTable(ArrayTable):
    """Spans in a column of texts, and what belongs to the whole column.

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

    about_all_rows: ClassVar[tuple[str, ...]] = ("match_counts",)

    @property
    def kind(self) -> I32:
        """The kind of each span."""
        return self.values.kind[self.value_no]

    @property
    def value_id(self) -> I64:
        """The value of each span."""
        return self.values.value_id[self.value_no]

    @classmethod
    def no_spans(cls, text_count: int) -> SpanTable:
        """No spans in so many texts."""
        return cls.empty(
            values=ValueTable.empty(),
            section_names=(),
            skipped={},
            match_counts=np.zeros(text_count, np.int64),
        )

    @classmethod
    def join(cls, tables: Sequence[SpanTable]) -> SpanTable:
        """The spans of several tables over the same texts, one table after the other; counts are
        added up."""
        if len(tables) == 1:
            return tables[0]
        names = tuple(dict.fromkeys(name for table in tables for name in table.section_names))
        shifts = np.cumsum([0, *(len(table.values) for table in tables[:-1])])
        value_no = [table.value_no + shift for table, shift in zip(tables, shifts, strict=True)]
        section_no = [  # the last entry of a lookup serves -1
            np.array([*map(names.index, table.section_names), -1], np.int32)[table.section_no]
            for table in tables
        ]
        return replace(
            cls.concat(tables),
            value_no=np.concatenate(value_no),
            section_no=np.concatenate(section_no),
            values=ValueTable.concat([table.values for table in tables]),
            section_names=names,
            skipped=dict(sum((Counter(table.skipped) for table in tables), Counter())),
            match_counts=np.sum([table.match_counts for table in tables], axis=0),
        )

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

    def locate(self, texts: TextBuffers) -> tuple[I64, I64]:
        """Start and end of each span in the bytes of the column."""
        base = texts.offsets[self.text_no]
        return base + self.start_byte, base + self.end_byte

    def find_code_points(self, texts: pa.LargeStringArray) -> tuple[I64, I64]:
        """Start and end of each span in code points of its text. `texts` is the column, without
        nulls; the spans are in order."""
        buffers = TextBuffers.from_array(texts)
        start, end = bytes_to_code_points(buffers, self.text_no, *self.locate(buffers))
        return start, end


@dataclass(frozen=True, repr=False, kw_only=True)
class CellSpans(ArrayTable):
    """Spans of values in the texts of documents. The texts of a document are its cells, which are
    numbered."""

    doc_no: I64
    cell: I32
    start_byte: I64
    end_byte: I64
    kind: I32
    value_id: I64

    def to_axis(self) -> tuple[I64, I64]:
        """Start and end of the spans on one axis, see `core.intervals`."""
        (cell,) = pack_pairs([self.doc_no], [self.cell])
        (axis,) = flatten_spans((cell, self.start_byte, self.end_byte))
        return axis
