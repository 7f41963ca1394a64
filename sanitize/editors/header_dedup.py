"""Repeated addresses leave the mail headers, bodies stay as they are: the deduplication that RMFT is compared with.

An address that already stands in an earlier header goes with its entry of the list: display name, angle brackets and separator; a field
whose entries all go, goes as a line. With `scope = "line"` the whole line goes, folded lines included, if any of its addresses stands
in an earlier line (the paper's wording). "Earlier" means in corpus order, among what stays: the first header with an address keeps it,
and what goes makes nothing else go. Headers are those of the mail and of mails that stand forwarded or quoted in its body
(`sanitize/text/mail_headers.py`). In a header that is no address list (Received, Subject) the address goes with its angle brackets alone.

Addresses in the texts themselves stay, repeated or not, and are no leak here: this is a baseline for comparison. Cost: one more pass over
the texts. Source: RMFT (arXiv 2512.03310), section 4.1.2.
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

from sanitize.core.arrow_buffers import Buffers
from sanitize.core.duplicate_groups import that_repeat
from sanitize.core.keys import Key
from sanitize.core.parts import Batch, Counts, Editor, Policy, Sight, Whole
from sanitize.text.address_lists import recipients
from sanitize.text.mail_headers import WELL_KNOWN, header_lines

I64 = npt.NDArray[np.int64]
_I64 = pa.int64()
PLACES = pa.schema(
    [
        ("doc_no", _I64),
        ("cell", pa.int32()),
        ("start", _I64),
        ("value_id", _I64),
        ("field", pa.string()),
        *((name, _I64) for name in ("line_start", "line_stop", "unit", "head", "tail", "before", "next", "place", "entries")),
    ]
)
_ON = ["doc_no", "cell", "start", "value_id"]
_OF_GOES = [*_ON, "start_byte", "stop_byte"]


class HeaderDedup(Editor):
    """Settings: `scope` is `address` (the entry of the list goes) or `line`."""

    kinds: tuple[str, ...] = ("EMAIL_ADDRESS",)
    keep: Literal[0] = 0
    scope: Literal["address", "line"] = "address"
    needs: ClassVar[tuple[str, ...]] = ("header_units", "repeated_things", "header_removals", "removed_by_field")
    looks: ClassVar[Mapping[str, pa.Schema]] = {"places": PLACES}
    cells: ClassVar[Literal["main", "all"]] = "all"
    _goes: _Goes = PrivateAttr()
    _reach: tuple[npt.NDArray[np.intp], I64, I64] = PrivateAttr()

    @property
    def policy(self) -> Policy:
        """What is left in bodies is left by design, so that no value of these kinds is promised to be gone."""
        return "ledger"

    def look(self, name: str, sight: Sight) -> pa.Table:
        """Where each occurrence in a header stands: its line, its entry of the list, and what goes with it; in bytes of the cell."""
        buffers, found = Buffers.of(sight.texts), sight.occurrences
        text_no = found["text_no"].to_numpy()
        base = buffers.offsets[text_no]
        starts, stops = base + found["start_byte"].to_numpy(), base + found["stop_byte"].to_numpy()
        lines = header_lines(buffers, text_no, starts)
        rows = np.flatnonzero(lines.start >= 0)
        base, start = base[rows], lines.start[rows]
        if self.scope == "line":
            units = dict.fromkeys(("unit", "head", "tail", "before", "next"), start - base)
            units |= {"place": np.zeros(len(rows), np.int64), "entries": np.ones(len(rows), np.int64)}
        else:
            found_in = recipients(buffers, lines, starts, stops)
            units = {name: getattr(found_in, name)[rows] - base for name in ("head", "tail", "before", "next")}
            units |= {"unit": units["head"], "place": found_in.place[rows], "entries": found_in.entries[rows]}
        columns = {
            **{name: found[name].to_numpy()[rows] for name in ("doc_no", "cell", "start", "value_id")},
            "field": pa.DictionaryArray.from_arrays(pa.array(lines.field[rows]), pa.array(lines.names, pa.string())),
            "line_start": start - base,
            "line_stop": lines.stop[rows] - base,
            **units,
        }
        return pa.table({name: columns[name] for name in PLACES.names}).cast(PLACES)

    def gather(self, whole: Whole) -> Mapping[str, Path]:
        """The table `goes`: which occurrences go, and with which bytes."""
        units = whole.ask("header_units", {"places": whole.look("places")})
        gone, _ = that_repeat(whole.ask("repeated_things", {"things": [units]}))
        goes = whole.ask("header_removals", {"units": [units], "gone": [whole.write("gone", pa.table({"group_no": gone}))]})
        return {"goes": goes, "removed_by_field": whole.ask("removed_by_field", {"goes": [goes]})}

    def told(self, counts: Counts) -> dict[str, Any]:
        """How many addresses went, with how many spans and whole lines, by header field. A field that few mails have may itself tell who
        wrote them, so that only well-known names are said."""
        by_field: dict[str, dict[str, int]] = {}
        for row in pq.read_table(counts.tables["removed_by_field"], partitioning=None).to_pylist():
            field = row.pop("field")
            total = by_field.setdefault(field if field in WELL_KNOWN else "other", dict.fromkeys(row, 0))
            for name, times in row.items():
                total[name] += times
        return {"scope": self.scope, "by_field": by_field}

    def open(self, key: Key, counts: Counts) -> None:
        """Remember where it stands what goes; each batch takes its own part."""
        self._goes = _Goes(counts.tables["goes"])

    def run(self, batch: Batch) -> tuple[npt.NDArray[np.intp], pa.Array, pa.Table | None]:
        """Nothing in the place of every entry and line that goes."""
        rows, spans = self._rows(batch.occurrences)
        doc_no, cell, start = (spans[name].to_numpy() for name in ("doc_no", "cell", "start_byte"))
        # what goes with several addresses goes once
        first = np.append(True, (np.diff(doc_no) != 0) | (np.diff(cell) != 0) | (np.diff(start) != 0))[: len(rows)]
        rows = rows[first]
        self._reach = rows, start[first], spans["stop_byte"].to_numpy()[first]
        return rows, pa.array([""], pa.large_string()).take(pa.array(np.zeros(len(rows), np.int64))), None

    def reach(self, batch: Batch, rows: npt.NDArray[np.intp]) -> tuple[I64, I64] | None:
        """The bytes of the entries and lines, as `run` has just found them."""
        mine, starts, stops = self._reach
        assert rows is mine or np.array_equal(rows, mine)
        return starts, stops

    def _rows(self, occurrences: pl.DataFrame) -> tuple[npt.NDArray[np.intp], pl.DataFrame]:
        """The rows of a batch that go, ascending, and the row of `goes` of each: a merge of two tables in the same order."""
        if not occurrences.height:
            return np.empty(0, np.intp), self._goes.between(0, -1)
        doc_no, cell, start, value_id = (occurrences[name].to_numpy().astype(np.int64, copy=False) for name in _ON)
        goes = self._goes.between(int(doc_no[0]), int(doc_no[-1]))
        doc_no_2, cell_2, start_2, value_id_2 = (goes[name].to_numpy().astype(np.int64, copy=False) for name in _ON)
        # one number for the place of each: that of its cell among those here, and where in the cell it begins
        wide = 1 + max(cell.max(), cell_2.max(initial=0))
        here, there = (doc_no - doc_no[0]) * wide + cell, (doc_no_2 - doc_no[0]) * wide + cell_2
        new = np.append(True, np.diff(here) != 0)
        long = 1 + max(start.max(), start_2.max(initial=0))
        place = (np.cumsum(new) - 1) * long + start
        of = np.searchsorted(here[new], there)
        wanted = of * long + start_2
        row = np.minimum(np.searchsorted(place, wanted), len(place) - 1)
        # of several that begin at one place the one with this value
        other = np.flatnonzero((place[row] == wanted) & (value_id[row] != value_id_2))
        while len(other):
            row[other] = np.minimum(row[other] + 1, len(place) - 1)
            other = other[
                (place[row[other]] == wanted[other]) & (value_id[row[other]] != value_id_2[other]) & (row[other] < len(place) - 1)
            ]
        good = (here[row] == there) & (place[row] == wanted) & (value_id[row] == value_id_2)
        return (row, goes) if good.all() else (row[good], goes.filter(good))


class _Goes:
    """The table `goes`, a few row groups at a time: batches ascend, so that hardly any group is read twice."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, pq.ParquetFile(path, pre_buffer=False)
        bounds = [self._file.metadata.row_group(group).column(0).statistics for group in range(self._file.num_row_groups)]
        assert all(one.has_min_max for one in bounds)
        self._low, self._high = (np.array([getattr(one, side) for one in bounds], np.int64) for side in ("min", "max"))
        self._nothing = pl.DataFrame(self._file.schema_arrow.empty_table().select(_OF_GOES))
        self._held: dict[int, pl.DataFrame] = {}

    def __reduce__(self) -> tuple[type[_Goes], tuple[Path]]:
        return _Goes, (self._path,)

    def between(self, first: int, last: int) -> pl.DataFrame:
        """What goes from the documents of these numbers and those between them."""
        groups = np.flatnonzero((self._low <= last) & (self._high >= first)).tolist()
        if groups != [*self._held]:
            self._held = {group: self._held[group] if group in self._held else self._read(group) for group in groups}
        found = [self._nothing]
        for held in self._held.values():
            low, high = np.searchsorted(held["doc_no"].to_numpy(), [first, last + 1])
            found.append(held[int(low) : int(high)])
        return pl.concat(found, rechunk=True)

    def _read(self, group: int) -> pl.DataFrame:
        return pl.DataFrame(self._file.read_row_group(group, columns=_OF_GOES, use_threads=False))
