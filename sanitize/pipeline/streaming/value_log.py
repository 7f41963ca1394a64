"""What a stream has seen, as ids on the disk: how often each value stood (up to what matters), and which ids are variants that it made.

Sorted runs in files that are never changed, newest last; a new one is merged with its neighbours until each is less than half as long
as the one before it, so that there are few. A bitmap in memory, of at most 128 MB, says no to most ids that are in none; the runs
themselves are mapped, and the system keeps of them what it has room for. Nothing counts until the list of runs that `commit` gives is
written down (stream.py), and whatever else lies in the folder is then taken away. 12 bytes an id.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sanitize.errors import OutputBroken
from sanitize.storage.corpus import fsync

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
MADE = np.uint32(1 << 31)  # set where an id is that of a variant
REAL = np.uint32(1 << 30)  # set where it is that of a value, also of one that no count is kept of
MOST = (1 << 30) - 1
_TIMES = np.uint32(MOST)
_BITS = 27
_PIECE = 1 << 20  # ids that are merged at a time


@dataclass(frozen=True, repr=False)
class _Run:
    """Ascending ids with a tag each; `name` of the file, empty while it is in memory only."""

    ids: I64
    tags: U32
    name: str = ""
    crc: int = 0


class Seen:
    """Ids with their tags: the number of occurrences, at most `most`, with `REAL` for values and `MADE` for variants."""

    def __init__(self, folder: Path, runs: Sequence[Mapping[str, Any]] = (), most: int = 1) -> None:
        """`runs` as `commit` gave them; OutputBroken where one is not what it says."""
        self.folder, self.most = folder, min(most, MOST)
        self._runs = [_opened(folder, one) for one in runs]
        self._next = max((int(Path(one.name).stem) for one in self._runs), default=-1) + 1
        self._fill()
        self.tidy()

    def __len__(self) -> int:
        return sum(len(one.ids) for one in self._runs)

    def tags(self, ids: I64) -> U32:
        """The tag of each id; 0 where it was never seen."""
        out = np.zeros(len(ids), np.uint32)
        maybe = np.flatnonzero(self._map[ids & (len(self._map) - 1)])
        if len(maybe):
            maybe = maybe[np.argsort(ids[maybe])]
            wanted, found = ids[maybe], np.zeros(len(maybe), np.uint32)
            for one in self._runs:
                at = np.minimum(np.searchsorted(one.ids, wanted), len(one.ids) - 1)
                same = np.flatnonzero(one.ids[at] == wanted)
                found[same] = self._sum(found[same], one.tags[at[same]])
            out[maybe] = found
        return out

    def add(self, ids: I64, tags: U32) -> None:
        """Add tags to ids, which may repeat; kept in memory until `commit`."""
        if len(ids):
            order = np.argsort(ids, kind="stable")
            self._runs.append(_Run(*self._reduced(ids[order], tags[order])))
            self._mark(self._runs[-1].ids)

    def commit(self) -> list[dict[str, Any]]:
        """Write what is in memory, merge what is to be merged, all to the disk; the list of runs by which they are opened again."""
        fresh = [one for one in self._runs if not one.name]
        old = [one for one in self._runs if one.name]
        while len(fresh) > 1:
            fresh = [self._joined(fresh[at : at + 2]) for at in range(0, len(fresh), 2)]
        merged = fresh
        while fresh and old and len(old[-1].ids) < 2 * sum(len(one.ids) for one in merged):
            merged = [old.pop(), *merged]
        if fresh:
            old.append(self._written(merged))
        self._runs = old
        return [{"name": one.name, "ids": len(one.ids), "crc32": one.crc} for one in self._runs]

    def tidy(self) -> None:
        """Take away files that are no run of ours any more."""
        names = {one.name for one in self._runs}
        for path in self.folder.glob("*"):
            if path.name not in names:
                path.unlink(missing_ok=True)

    def _written(self, parts: list[_Run]) -> _Run:
        """Some runs as one, on the disk. Ids are uniform, so that equal ranges of them are pieces of about equal size."""
        name = f"{self._next:08d}.run"
        self._next += 1
        total = sum(len(one.ids) for one in parts)
        pieces = max(1, -(-total // _PIECE))
        edges = [(1 << 63) // pieces * number for number in range(1, pieces)]
        cuts = [[0, *np.searchsorted(one.ids, edges).tolist(), len(one.ids)] for one in parts]
        path, tags_path = self.folder / name, self.folder / f"{name}.tags"
        crc = rows = 0
        with path.open("wb") as file, tags_path.open("w+b") as tags:
            for number in range(pieces):
                some = [
                    _Run(one.ids[cut[number] : cut[number + 1]], one.tags[cut[number] : cut[number + 1]])
                    for one, cut in zip(parts, cuts, strict=True)
                ]
                made = self._joined(some)
                crc = zlib.crc32(made.ids.data, crc)
                rows += len(made.ids)
                file.write(made.ids.data)
                tags.write(made.tags.data)
            tags.seek(0)
            while part := tags.read(_PIECE):
                crc = zlib.crc32(part, crc)
                file.write(part)
        tags_path.unlink()
        fsync(path)
        fsync(self.folder)
        return _mapped(path, name, rows, crc)

    def _joined(self, parts: Sequence[_Run]) -> _Run:
        ids, tags = (np.concatenate([getattr(one, name) for one in parts]) for name in ("ids", "tags"))
        order = np.argsort(ids, kind="stable")
        return _Run(*self._reduced(ids[order], tags[order]))

    def _reduced(self, ids: I64, tags: U32) -> tuple[I64, U32]:
        """Each id once."""
        first = np.flatnonzero(np.diff(ids, prepend=-1))
        if len(first) == len(ids):
            return ids, np.minimum(tags & _TIMES, np.uint32(self.most)) | (tags & ~_TIMES)
        times = np.minimum(np.add.reduceat((tags & _TIMES).astype(np.int64), first), self.most).astype(np.uint32)
        return ids[first], times | (np.bitwise_or.reduceat(tags, first) & ~_TIMES)

    def _sum(self, one: U32, other: U32) -> U32:
        times = np.minimum((one & _TIMES).astype(np.int64) + (other & _TIMES), self.most).astype(np.uint32)
        return times | ((one | other) & ~_TIMES)

    def _fill(self) -> None:
        """The bitmap, at eight places an id and more."""
        self._map = np.zeros(1 << min(_BITS, max(16, len(self).bit_length() + 4)), np.bool_)
        for one in self._runs:
            for low in range(0, len(one.ids), _PIECE):
                self._map[one.ids[low : low + _PIECE] & (len(self._map) - 1)] = True

    def _mark(self, ids: I64) -> None:
        if len(self) << 3 > len(self._map) and len(self._map) < 1 << _BITS:
            self._fill()
        else:
            self._map[ids & (len(self._map) - 1)] = True


def times_of(tags: U32) -> I64:
    """How often each was seen, as far as that is counted."""
    return (tags & _TIMES).astype(np.int64)


def _opened(folder: Path, said: Mapping[str, Any]) -> _Run:
    path, count = folder / str(said["name"]), int(said["ids"])
    try:
        whole = path.stat().st_size == 12 * count
        crc = 0
        with path.open("rb") as file:
            while part := file.read(_PIECE):
                crc = zlib.crc32(part, crc)
    except OSError:
        whole = False
    if not whole or crc != said["crc32"]:
        raise OutputBroken(f"{path}: not what the state says; the disk may be failing. Take the state from a backup, or a new --state")
    return _mapped(path, path.name, count, crc)


def _mapped(path: Path, name: str, count: int, crc: int) -> _Run:
    """A run whose columns are read from its file when they are looked at."""
    ids = np.memmap(path, np.int64, "r", 0, (count,))
    tags = np.memmap(path, np.uint32, "r", 8 * count, (count,))
    return _Run(ids, tags, name, crc)
