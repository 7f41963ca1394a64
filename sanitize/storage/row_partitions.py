"""Rows of a table spread over files by a number each, and taken file by file: memory is that of one file, however many rows there are."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

MOST = 256  # files at once: each is open while it is written, and a process may open a thousand


class Spread:
    """The files, while they are written and taken."""

    def __init__(self, folder: Path, schema: pa.Schema, count: int) -> None:
        self.count, self._schema = count, schema
        self._paths = [folder / f"{number:04d}.arrow" for number in range(count)]
        self._writers = [pa.ipc.new_stream(path, schema) for path in self._paths]

    def add(self, rows: pl.DataFrame, number: npt.NDArray[np.integer]) -> None:
        """Put each row into the file that its number names."""
        order = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number[order], np.arange(len(self._paths) + 1))
        table = rows[order].to_arrow(compat_level=pl.CompatLevel.oldest()).cast(self._schema)
        for place in np.flatnonzero(np.diff(bounds)).tolist():
            self._writers[place].write_table(table.slice(bounds[place], bounds[place + 1] - bounds[place]))

    def take(self) -> Iterator[pl.DataFrame]:
        """The rows of each file in turn, in the order in which they were added; a file goes when it has been taken."""
        self.close()
        for path in self._paths:
            with pa.OSFile(str(path)) as file:
                rows = pl.DataFrame(pa.ipc.open_stream(file).read_all())
            path.unlink()
            yield rows

    def close(self) -> None:
        """Write down what is not yet written."""
        for writer in self._writers:
            writer.close()


@contextlib.contextmanager
def spread(folder: Path, schema: pa.Schema, count: int) -> Iterator[Spread]:
    """So many files (256 at most) in a folder that is there for as long as the block lasts."""
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
    folder.mkdir(parents=True)
    try:
        made = Spread(folder, schema, max(1, min(count, MOST)))
        try:
            yield made
        finally:
            made.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
