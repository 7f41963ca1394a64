"""Ids that a stream has seen, on disk: how often each value occurred (up to a limit), and the forms
of values and of the variants that the stream generated (hashes, see
sanitize/editors/synthesis/known_values.py).

A log-structured merge of sorted runs in immutable files, newest last: a new run is merged with its
neighbours until each run is less than half as long as the one before it, so that there are few. A
bitmap in memory, of at most 128 MB, rejects most ids that are in no run; the runs are
memory-mapped. A run counts only once the list of runs that `commit` returns is stored in the state
(stream.py); all other files in the folder are then deleted. 12 bytes per id: a value has one and
its distinct forms, most often one, at most six."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sanitize.array_types import I64, U32
from sanitize.errors import OutputBroken
from sanitize.pipeline.streaming.stream_state import ValueFile
from sanitize.storage.files import fsync

SURROGATE_FLAG = np.uint32(1 << 31)  # tag bit: the id is the normalised form of a generated variant
# tag bit: the id is that of a value or of one of its forms, even if its occurrences are not counted
VALUE_FLAG = np.uint32(1 << 30)
SURROGATE_FORM_FLAG = np.uint32(1 << 29)  # tag bit: the id is another form of a generated variant
MAX_COUNT = (1 << 29) - 1
_COUNT_MASK = np.uint32(MAX_COUNT)
_MAX_BITMAP_BITS = 27
_CHUNK_SIZE = 1 << 20  # ids per merge step


@dataclass(frozen=True, repr=False)
class _SortedRun:
    """Ascending ids with a tag each. `name` is the file name, empty while the run is only in
    memory."""

    ids: I64
    tags: U32
    name: str = ""
    crc: int = 0


class ValueLog:
    """Ids with their tags: number of occurrences (at most `max_count`), with VALUE_FLAG for values,
    SURROGATE_FLAG and SURROGATE_FORM_FLAG for variants."""

    def __init__(self, folder: Path, runs: Sequence[ValueFile] = (), max_count: int = 1) -> None:
        """`runs` is the list that `commit` returned. Raises OutputBroken if a file does not match
        its entry."""
        self.folder, self.max_count = folder, min(max_count, MAX_COUNT)
        self._runs = [_open_run(folder, run) for run in runs]
        self._next_number = max((int(Path(run.name).stem) for run in self._runs), default=-1) + 1
        self._rebuild_bitmap()
        self.delete_stale_files()

    def __len__(self) -> int:
        return sum(len(run.ids) for run in self._runs)

    def get_tags(self, ids: I64) -> U32:
        """The tag of each id; 0 for ids that were never seen."""
        tags = np.zeros(len(ids), np.uint32)
        candidates = np.flatnonzero(self._bitmap[ids & (len(self._bitmap) - 1)])
        if len(candidates):
            candidates = candidates[np.argsort(ids[candidates])]
            sorted_ids, found_tags = ids[candidates], np.zeros(len(candidates), np.uint32)
            for run in self._runs:
                positions = np.minimum(np.searchsorted(run.ids, sorted_ids), len(run.ids) - 1)
                matches = np.flatnonzero(run.ids[positions] == sorted_ids)
                found_tags[matches] = self._add_tags(
                    found_tags[matches], run.tags[positions[matches]]
                )
            tags[candidates] = found_tags
        return tags

    def add(self, ids: I64, tags: U32) -> None:
        """Add tags to ids, which may repeat; kept in memory until `commit`."""
        if len(ids):
            order = np.argsort(ids, kind="stable")
            self._runs.append(_SortedRun(*self._combine_duplicates(ids[order], tags[order])))
            self._add_to_bitmap(self._runs[-1].ids)

    def commit(self) -> list[ValueFile]:
        """Write the runs in memory to disk (fsync), merging where needed; returns the list of runs
        for the next `ValueLog`."""
        new = [run for run in self._runs if not run.name]
        old = [run for run in self._runs if run.name]
        while len(new) > 1:
            new = [self._merge_runs(new[first : first + 2]) for first in range(0, len(new), 2)]
        merged = new
        while new and old and len(old[-1].ids) < 2 * sum(len(run.ids) for run in merged):
            merged = [old.pop(), *merged]
        if new:
            old.append(self._write_run(merged))
        self._runs = old
        return [ValueFile(name=run.name, ids=len(run.ids), crc32=run.crc) for run in self._runs]

    def delete_stale_files(self) -> None:
        """Delete the files in the folder that are no current run."""
        names = {run.name for run in self._runs}
        for path in self.folder.glob("*"):
            if path.name not in names:
                path.unlink(missing_ok=True)

    def _write_run(self, runs: list[_SortedRun]) -> _SortedRun:
        """Merge runs into one file. Ids are uniformly distributed, so equal ranges of ids give
        pieces of about equal size."""
        name = f"{self._next_number:08d}.run"
        self._next_number += 1
        total = sum(len(run.ids) for run in runs)
        pieces = max(1, -(-total // _CHUNK_SIZE))
        edges = [(1 << 63) // pieces * number for number in range(1, pieces)]
        chunk_bounds = [
            [0, *np.searchsorted(run.ids, edges).tolist(), len(run.ids)] for run in runs
        ]
        path, tags_path = self.folder / name, self.folder / f"{name}.tags"
        crc = rows = 0
        with path.open("wb") as file, tags_path.open("w+b") as tags:
            for number in range(pieces):
                chunks = [
                    _SortedRun(
                        run.ids[bounds[number] : bounds[number + 1]],
                        run.tags[bounds[number] : bounds[number + 1]],
                    )
                    for run, bounds in zip(runs, chunk_bounds, strict=True)
                ]
                merged = self._merge_runs(chunks)
                crc = zlib.crc32(merged.ids.data, crc)
                rows += len(merged.ids)
                file.write(merged.ids.data)
                tags.write(merged.tags.data)
            tags.seek(0)
            while block := tags.read(_CHUNK_SIZE):
                crc = zlib.crc32(block, crc)
                file.write(block)
        tags_path.unlink()
        fsync(path)
        fsync(self.folder)
        return _map_run(path, name, rows, crc)

    def _merge_runs(self, runs: Sequence[_SortedRun]) -> _SortedRun:
        ids, tags = (
            np.concatenate([getattr(run, name) for run in runs]) for name in ("ids", "tags")
        )
        order = np.argsort(ids, kind="stable")
        return _SortedRun(*self._combine_duplicates(ids[order], tags[order]))

    def _combine_duplicates(self, ids: I64, tags: U32) -> tuple[I64, U32]:
        """Combine the tags of equal ids; input and output ascend by id."""
        first = np.flatnonzero(np.diff(ids, prepend=-1))
        if len(first) == len(ids):
            return ids, np.minimum(tags & _COUNT_MASK, np.uint32(self.max_count)) | (
                tags & ~_COUNT_MASK
            )
        counts = np.minimum(
            np.add.reduceat((tags & _COUNT_MASK).astype(np.int64), first), self.max_count
        ).astype(np.uint32)
        return ids[first], counts | (np.bitwise_or.reduceat(tags, first) & ~_COUNT_MASK)

    def _add_tags(self, one: U32, other: U32) -> U32:
        times = np.minimum(
            (one & _COUNT_MASK).astype(np.int64) + (other & _COUNT_MASK), self.max_count
        ).astype(np.uint32)
        return times | ((one | other) & ~_COUNT_MASK)

    def _rebuild_bitmap(self) -> None:
        """Rebuild the bitmap with at least eight entries per id, up to its maximum size."""
        self._bitmap = np.zeros(
            1 << min(_MAX_BITMAP_BITS, max(16, len(self).bit_length() + 4)), np.bool_
        )
        for run in self._runs:
            for low in range(0, len(run.ids), _CHUNK_SIZE):
                self._bitmap[run.ids[low : low + _CHUNK_SIZE] & (len(self._bitmap) - 1)] = True

    def _add_to_bitmap(self, ids: I64) -> None:
        if len(self) << 3 > len(self._bitmap) and len(self._bitmap) < 1 << _MAX_BITMAP_BITS:
            self._rebuild_bitmap()
        else:
            self._bitmap[ids & (len(self._bitmap) - 1)] = True


def get_counts(tags: U32) -> I64:
    """The counts in tags: how often each value occurred, up to the limit."""
    return (tags & _COUNT_MASK).astype(np.int64)


def _open_run(folder: Path, entry: ValueFile) -> _SortedRun:
    path, count = folder / entry.name, entry.ids
    try:
        has_expected_size = path.stat().st_size == 12 * count
        crc = 0
        with path.open("rb") as file:
            while block := file.read(_CHUNK_SIZE):
                crc = zlib.crc32(block, crc)
    except OSError:
        has_expected_size = False
    if not has_expected_size or crc != entry.crc32:
        raise OutputBroken(
            f"{path}: does not match the state (size or CRC-32); the disk may be failing. "
            "Restore the state from a backup, or use a new --state"
        )
    return _map_run(path, path.name, count, crc)


def _map_run(path: Path, name: str, count: int, crc: int) -> _SortedRun:
    """A run whose columns are memory-mapped from its file."""
    ids = np.memmap(path, np.int64, "r", 0, (count,))
    tags = np.memmap(path, np.uint32, "r", 8 * count, (count,))
    return _SortedRun(ids, tags, name, crc)
