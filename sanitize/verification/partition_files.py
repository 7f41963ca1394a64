"""Partitions the rows of a table over temporary files by number and reads them back file by file;
memory is that of one file."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

# files at once: all are open while they are written, and a process can often open 1,024 files only
MAX_FILES = 256


class PartitionFiles:
    """The partition files while they are written and read back."""

    def __init__(self, folder: Path, schema: pa.Schema, partition_count: int) -> None:
        self.partition_count, self._schema = partition_count, schema
        self._paths = [folder / f"{number:04d}.arrow" for number in range(partition_count)]
        self._writers = [pa.ipc.new_stream(path, schema) for path in self._paths]

    def add(self, rows: pl.DataFrame, partition_nos: npt.NDArray[np.integer]) -> None:
        """Appends each row to the file of its partition number."""
        order = np.argsort(partition_nos, kind="stable")
        bounds = np.searchsorted(partition_nos[order], np.arange(len(self._paths) + 1))
        table = rows[order].to_arrow(compat_level=pl.CompatLevel.oldest()).cast(self._schema)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            self._writers[number].write_table(
                table.slice(bounds[number], bounds[number + 1] - bounds[number])
            )

    def drain(self) -> Iterator[pl.DataFrame]:
        """Yields the rows of each file in turn, in the order in which they were added; each file is
        deleted after it was read."""
        self.close()
        for path in self._paths:
            with pa.OSFile(str(path)) as file:
                rows = pl.DataFrame(pa.ipc.open_stream(file).read_all())
            path.unlink()
            yield rows

    def close(self) -> None:
        """Closes the writers, which completes all files."""
        for writer in self._writers:
            writer.close()


@contextlib.contextmanager
def open_partitions(
    folder: Path, schema: pa.Schema, partition_count: int
) -> Iterator[PartitionFiles]:
    """Context with `partition_count` files (at most `MAX_FILES`) in a folder that is deleted at the
    end."""
    shutil.rmtree(folder, ignore_errors=True)  # leftovers of an interrupted run
    folder.mkdir(parents=True)
    try:
        partitions = PartitionFiles(folder, schema, max(1, min(partition_count, MAX_FILES)))
        try:
            yield partitions
        finally:
            partitions.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
