"""Where documents come from: the file, and the row, line or mail in it.

Neighbouring records are one run, so that a file of a million rows is one entry. A staged Parquet
file holds the runs of its rows as JSON in its metadata under `SOURCES_KEY`; a file that is read in
place is one run itself. Metadata must stay small to be readable: from `MAX_RUNS` runs on, as with
a sample of many records, a row of a staged file is counted from the last exact position, as in
`after line 70412, record 5`.
"""

from __future__ import annotations

import bisect
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sanitize.errors import printable_path

SOURCES_KEY = "sanitize.sources"
MAX_RUNS = 65_536  # of a staged file with exact positions; about 2 MB of metadata
LINEAGE_COLUMNS = ("source_file", "source_position")  # of OUT, with --lineage


class Place(NamedTuple):
    """The input file of a record, and its position there in words, such as `row 17` or `file`."""

    source: str
    location: str

    def below(self, input_path: str) -> Place:
        """The same with the path below the folder that the user named, or the name of the file."""
        is_below = self.source != input_path and bool(input_path)
        name = os.path.relpath(self.source, input_path) if is_below else ""
        return Place(printable_path(name or os.path.basename(self.source)), self.location)


def position_in_part(start_byte: int, position: str) -> str:
    """A position that counts from the first record which begins at or after `start_byte`, where a
    large file is read in parts: `line 3` of the first part, `part at byte 67108864, line 3`."""
    return f"part at byte {start_byte}, {position}" if start_byte else position


@dataclass(frozen=True, kw_only=True)
class SourceRun:
    """`rows` records from row `row` on: of the file `source`, at the positions `word number`,
    `word number + 1` and so on; at `word` alone without a number."""

    row: int
    rows: int
    source: str
    word: str
    number: int | None

    def place_of(self, row: int) -> Place:
        """The place of a row of the run."""
        at = "" if self.number is None else f" {self.number + row - self.row}"
        return Place(self.source, self.word + at)


class SourceRuns:
    """Collects the runs of the rows of one staged file, in order: at most `MAX_RUNS`, and one more
    for each further source."""

    def __init__(self) -> None:
        self._starts: list[tuple[int, str, str, int | None]] = []
        self._rows = 0
        self._next: tuple[str, str, int] | None = None  # what continues the last run
        self._last = Place("", "")
        self._counted: tuple[str, str, int] | None = None  # the next row without exact position

    def add(self, place: Place) -> None:
        """Adds the next row. Of `mail 2 at byte 86` the number is enough."""
        word, number = _split_position(place.location)
        if self._counted or (
            len(self._starts) >= MAX_RUNS and self._next != (place.source, word, number)
        ):
            word, number = self._count_row(place.source)
        if number is None or self._next != (place.source, word, number):
            self._starts.append((self._rows, place.source, word, number))
        self._rows += 1
        self._next = None if number is None else (place.source, word, number + 1)
        self._last = place

    def _count_row(self, source: str) -> tuple[str, int]:
        """The position of a row as its number after the last exact position in its source."""
        if self._counted is None or self._counted[0] != source:
            is_begun = self._last.source == source
            word = f"after {self._last.location}, record" if is_begun else "record"
            self._counted = (source, word, 1)
        _, word, number = self._counted
        self._counted = (source, word, number + 1)
        return word, number

    def to_json(self) -> str:
        """The runs as they are stored: names once, and each run as its row, its count of rows, the
        positions of its source and its word in their lists, and its number or -1."""
        sources = {one: at for at, one in enumerate(dict.fromkeys(run[1] for run in self._starts))}
        words = {one: at for at, one in enumerate(dict.fromkeys(run[2] for run in self._starts))}
        ends = [*(start[0] for start in self._starts[1:]), self._rows]
        runs = [
            (row, end - row, sources[source], words[word], -1 if number is None else number)
            for (row, source, word, number), end in zip(self._starts, ends, strict=False)
        ]
        names = [printable_path(source) for source in sources]
        return json.dumps({"sources": names, "words": [*words], "runs": runs})


def _split_position(location: str) -> tuple[str, int | None]:
    """(`line`, 17) of `line 17`; (`file`, None) of `file`."""
    word, _, digits = location.rpartition(" ")
    if not word or not digits.isdecimal():
        return location, None
    if word.endswith(" at byte"):
        before, _, number = word.removesuffix(" at byte").rpartition(" ")
        if before and number.isdecimal():
            return before, int(number)
    return word, int(digits)


def parse_runs(stored: bytes) -> list[SourceRun]:
    """The runs of a staged file."""
    data = json.loads(stored)
    return [
        SourceRun(
            row=row,
            rows=rows,
            source=data["sources"][source],
            word=data["words"][word],
            number=None if number < 0 else number,
        )
        for row, rows, source, word, number in data["runs"]
    ]


def find_place(runs: Sequence[SourceRun], row: int) -> Place:
    """The place of a row among runs in ascending order."""
    at = bisect.bisect_right(runs, row, key=lambda run: run.row) - 1
    return runs[at].place_of(row)
