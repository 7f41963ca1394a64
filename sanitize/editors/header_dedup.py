"""Removes repeated addresses from mail headers and leaves bodies unchanged: the deduplication
baseline that RMFT is compared with.

An address that occurs in an earlier header is removed with its entry of the address list: display
name, angle brackets and separator. If all entries of a field are removed, the whole line is. With
`scope = "line"` a whole line, folded lines included, is removed if any of its addresses occurs in
an earlier line (the paper's wording). "Earlier" means in corpus order, among what is kept: the
first header with an address keeps it, and a removed address causes no further removals. Headers are
those of the mail and of mails that are forwarded or quoted in its body
(`sanitize/text/mail_headers.py`). In a header that is no address list (Received, Subject), only the
address and its angle brackets are removed.

Addresses in bodies are kept, repeated or not, and are not leaks here: this is a baseline for
comparison. Cost: one more pass over the texts. Source: RMFT (arXiv 2512.03310), section 4.1.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import PrivateAttr

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.duplicate_groups import find_repeating_groups
from sanitize.core.intervals import pack_pairs
from sanitize.core.keys import Key
from sanitize.core.part_protocols import (
    Aggregates,
    CorpusView,
    EditBatch,
    Editor,
    OccurrenceEdits,
    RemovalPolicy,
    TextBatch,
)
from sanitize.storage.parquet_files import read_table
from sanitize.text.address_lists import find_address_entries
from sanitize.text.mail_headers import WELL_KNOWN_FIELDS, find_header_lines

_I64 = pa.int64()
HEADER_OCCURRENCE_SCHEMA = pa.schema(
    [
        ("doc_no", _I64),
        ("cell", pa.int32()),
        ("start", _I64),
        ("value_id", _I64),
        ("field", pa.string()),
        *(
            (name, _I64)
            for name in (
                "line_start",
                "line_end",
                "unit_start",
                "entry_start",
                "entry_end",
                "previous_end",
                "next_start",
                "entry_no",
                "entry_count",
            )
        ),
    ]
)
_KEY_COLUMNS = ["doc_no", "cell", "start", "value_id"]
_REMOVAL_COLUMNS = [*_KEY_COLUMNS, "start_byte", "end_byte"]


class HeaderDedup(Editor):
    """Settings: `scope` is `address` (remove the entry of the address list) or `line` (remove the
    whole header line)."""

    kinds: tuple[str, ...] = ("EMAIL_ADDRESS",)
    keep: Literal[0] = 0
    scope: Literal["address", "line"] = "address"
    required_aggregates: ClassVar[tuple[str, ...]] = (
        "header_units",
        "repeated_items",
        "header_removals",
        "header_removals_by_field",
    )
    pass_schemas: ClassVar[Mapping[str, pa.Schema]] = {
        "header_occurrences": HEADER_OCCURRENCE_SCHEMA
    }
    cell_scope: ClassVar[Literal["main", "all"]] = "all"
    _removals: _RemovalTable = PrivateAttr()

    @property
    def removal_policy(self) -> RemovalPolicy:
        """`ledger`: addresses in bodies are kept by design, so the removal of values is not
        promised."""
        return "ledger"

    def run_pass(self, pass_name: str, text_batch: TextBatch) -> pa.Table:
        """One row of `HEADER_OCCURRENCE_SCHEMA` for each occurrence in a header: its line, its
        entry of the address list, and the entries next to it. Positions are bytes from the start of
        the cell."""
        buffers, found = TextBuffers.from_array(text_batch.texts), text_batch.occurrences
        text_no = found["text_no"].to_numpy()
        base = buffers.offsets[text_no]
        starts, ends = base + found["start_byte"].to_numpy(), base + found["end_byte"].to_numpy()
        lines = find_header_lines(buffers, text_no, starts)
        rows = np.flatnonzero(lines.start >= 0)
        base, start = base[rows], lines.start[rows]
        if self.scope == "line":
            units = dict.fromkeys(
                ("unit_start", "entry_start", "entry_end", "previous_end", "next_start"),
                start - base,
            )
            units |= {
                "entry_no": np.zeros(len(rows), np.int64),
                "entry_count": np.ones(len(rows), np.int64),
            }
        else:
            entries = find_address_entries(buffers, lines, starts, ends)
            units = {
                name: getattr(entries, name)[rows] - base
                for name in ("entry_start", "entry_end", "previous_end", "next_start")
            }
            units |= {
                "unit_start": units["entry_start"],
                "entry_no": entries.entry_no[rows],
                "entry_count": entries.entry_count[rows],
            }
        columns = {
            **{
                name: found[name].to_numpy()[rows]
                for name in ("doc_no", "cell", "start", "value_id")
            },
            "field": pa.DictionaryArray.from_arrays(
                pa.array(lines.field_code[rows]), pa.array(lines.field_names, pa.string())
            ),
            "line_start": start - base,
            "line_end": lines.end[rows] - base,
            **units,
        }
        return pa.table({name: columns[name] for name in HEADER_OCCURRENCE_SCHEMA.names}).cast(
            HEADER_OCCURRENCE_SCHEMA
        )

    def build_tables(self, corpus: CorpusView) -> Mapping[str, Path]:
        """The table `removed_occurrences`, with the byte range that is removed with each; and its
        counts, `header_removals_by_field`."""
        units = corpus.run_query(
            "header_units", {"header_occurrences": corpus.run_corpus_pass("header_occurrences")}
        )
        removed_groups, _ = find_repeating_groups(
            corpus.run_query("repeated_items", {"items": [units]})
        )
        groups_file = corpus.write_table("removed_groups", pa.table({"group_no": removed_groups}))
        removals = corpus.run_query(
            "header_removals", {"units": [units], "removed_groups": [groups_file]}
        )
        counts = corpus.run_query("header_removals_by_field", {"removed_occurrences": [removals]})
        return {"removed_occurrences": removals, "header_removals_by_field": counts}

    @property
    def action(self) -> str:
        """Repeats removed from header lines."""
        return "repeated values removed from mail headers, all others kept"

    def describe_staying(self, kind: str) -> str:
        """The same for all its kinds."""
        return "values in bodies, and the first in mail headers"

    def summarize(self, aggregates: Aggregates) -> Mapping[str, Any]:
        """The numbers of removed addresses, spans and whole lines, by header field.

        The name of a rare field may reveal who wrote the mail, so all fields without a well-known
        name are counted as `other`.
        """
        by_field: dict[str, dict[str, int]] = {}
        for row in read_table(aggregates.tables["header_removals_by_field"]).to_pylist():
            field = row.pop("field")
            total = by_field.setdefault(
                field if field in WELL_KNOWN_FIELDS else "other", dict.fromkeys(row, 0)
            )
            for name, times in row.items():
                total[name] += times
        return {"scope": self.scope, "by_field": by_field}

    def open(self, key: Key, aggregates: Aggregates) -> None:
        """Open the table of removals; each batch reads its own part of it."""
        self._removals = _RemovalTable(aggregates.tables["removed_occurrences"])

    def edit_occurrences(self, batch: EditBatch) -> OccurrenceEdits:
        """An empty replacement for every removed entry or line."""
        rows, spans = self._match_removals(batch.occurrences)
        doc_no, cell, start = (spans[name].to_numpy() for name in ("doc_no", "cell", "start_byte"))
        # a span that is removed for several addresses is edited once
        first = np.append(
            True, (np.diff(doc_no) != 0) | (np.diff(cell) != 0) | (np.diff(start) != 0)
        )[: len(rows)]
        rows = rows[first]
        return OccurrenceEdits(
            rows,
            pa.array([""], pa.large_string()).take(pa.array(np.zeros(len(rows), np.int64))),
            byte_spans=(start[first], spans["end_byte"].to_numpy()[first]),
        )

    def _match_removals(
        self, occurrences: pl.DataFrame
    ) -> tuple[npt.NDArray[np.intp], pl.DataFrame]:
        """The removed rows of a batch, ascending, and the row of `removed_occurrences` for each: a
        merge join of two sorted tables."""
        if not occurrences.height:
            return np.empty(0, np.intp), self._removals.between(0, -1)
        doc_no, cell, start, value_id = (
            occurrences[name].to_numpy().astype(np.int64, copy=False) for name in _KEY_COLUMNS
        )
        removals = self._removals.between(int(doc_no[0]), int(doc_no[-1]))
        doc_no_2, cell_2, start_2, value_id_2 = (
            removals[name].to_numpy().astype(np.int64, copy=False) for name in _KEY_COLUMNS
        )
        cell_no, removal_cell_no = pack_pairs((doc_no, doc_no_2), (cell, cell_2))
        place, wanted = pack_pairs((cell_no, removal_cell_no), (start, start_2))
        row = np.minimum(np.searchsorted(place, wanted), len(place) - 1)
        # of several occurrences that begin at one position, take the one with this value_id
        mismatched = np.flatnonzero((place[row] == wanted) & (value_id[row] != value_id_2))
        while len(mismatched):
            row[mismatched] = np.minimum(row[mismatched] + 1, len(place) - 1)
            mismatched = mismatched[
                (place[row[mismatched]] == wanted[mismatched])
                & (value_id[row[mismatched]] != value_id_2[mismatched])
                & (row[mismatched] < len(place) - 1)
            ]
        good = (place[row] == wanted) & (value_id[row] == value_id_2)
        return (row, removals) if good.all() else (row[good], removals.filter(good))


class _RemovalTable:
    """The table `removed_occurrences`, read a few row groups at a time: batches ascend, so hardly
    any group is read twice."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, pq.ParquetFile(path, pre_buffer=False)
        bounds = [
            self._file.metadata.row_group(group).column(0).statistics
            for group in range(self._file.num_row_groups)
        ]
        assert all(one.has_min_max for one in bounds)
        self._first_doc_no, self._last_doc_no = (
            np.array([getattr(one, side) for one in bounds], np.int64) for side in ("min", "max")
        )
        self._empty = pl.DataFrame(self._file.schema_arrow.empty_table().select(_REMOVAL_COLUMNS))
        self._row_groups: dict[int, pl.DataFrame] = {}

    def __reduce__(self) -> tuple[type[_RemovalTable], tuple[Path]]:
        return _RemovalTable, (self._path,)

    def between(self, first_doc_no: int, last_doc_no: int) -> pl.DataFrame:
        """The removals in the documents from `first_doc_no` to `last_doc_no`, both included."""
        groups = np.flatnonzero(
            (self._first_doc_no <= last_doc_no) & (self._last_doc_no >= first_doc_no)
        ).tolist()
        if groups != [*self._row_groups]:
            self._row_groups = {
                group: self._row_groups[group]
                if group in self._row_groups
                else self._read_row_group(group)
                for group in groups
            }
        found = [self._empty]
        for rows in self._row_groups.values():
            low, high = np.searchsorted(rows["doc_no"].to_numpy(), [first_doc_no, last_doc_no + 1])
            found.append(rows[int(low) : int(high)])
        return pl.concat(found, rechunk=True)

    def _read_row_group(self, row_group: int) -> pl.DataFrame:
        return pl.DataFrame(
            self._file.read_row_group(row_group, columns=_REMOVAL_COLUMNS, use_threads=False)
        )
