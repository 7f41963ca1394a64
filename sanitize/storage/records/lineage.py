"""Where documents come from: the file, and the row, line or mail in it.

Neighbouring records are one run, so that a file of a million rows is one entry. A staged Parquet
file holds the runs of its rows as JSON in its metadata under `SOURCES_KEY`; a file that is read in
place is one run itself.
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
    """Collects the runs of the rows of one staged file, in order."""

    def __init__(self) -> None:
        self._starts: list[tuple[int, str, str, int | None]] = []
        self._rows = 0
        self._next: tuple[str, str, int | None] | None = None  # what continues the last run

    def add(self, place: Place) -> None:
        """Adds the next row. Of `mail 2 at byte 86` the number is enough."""
        word, _, digits = place.location.partition(" at byte ")[0].rpartition(" ")
        if not (word and digits.isdecimal()):
            word, _, digits = place.location.rpartition(" ")
        number = int(digits) if word and digits.isdecimal() else None
        word = place.location if number is None else word
        if number is None or self._next != (place.source, word, number):
            self._starts.append((self._rows, place.source, word, number))
        self._rows += 1
        self._next = None if number is None else (place.source, word, number + 1)

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
