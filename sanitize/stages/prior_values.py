"""What stands before a batch of a corpus that is all there: which values came up to a document, and which variants were made before it.

The values are those of the whole corpus with the document of their first occurrence; the variants are those that earlier tasks wrote down,
and this one's own. A stream has the same face with its state behind it (`stream.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.parts import Counts, Editor
from sanitize.storage.corpus import table_writer

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
MADE = pa.schema([pa.field("value_id", pa.int64())])


class Before:
    """The past of the tasks of a run, for its editors that are `ordered` (`part.Past`)."""

    def __init__(self, value_counts: Path, earlier: Sequence[Path]) -> None:
        """`earlier`: the variants of other tasks, as `write` left them."""
        self._ids, self._first = _firsts(value_counts, value_counts.stat().st_mtime_ns)
        self._made = np.unique(np.concatenate([np.empty(0, np.int64), *(_column(path, path.stat().st_mtime_ns) for path in earlier)]))
        self._own: list[I64] = []
        self._batch: list[I64] = []

    def taken(self, ids: I64, doc_no: I64) -> Mask:
        """True for ids of values that stand in the document of that number or in one before it, and of variants made before this batch."""
        at, there = place(self._ids, ids)
        there[there] = self._first[at[there]] <= doc_no[there]
        return there | self.made(ids)

    def made(self, ids: I64) -> Mask:
        """True for ids of variants made before this batch."""
        return place(self._made, ids)[1]

    def make(self, ids: I64) -> None:
        """Remember the variants of this batch, once it counts."""
        self._batch.append(ids)

    def parts(self, kind: str, part: str) -> tuple[pa.LargeStringArray, I64] | None:
        """None: they are counted over the whole corpus."""
        return None

    def settle(self) -> None:
        """The batch counts: what it made stands before the next one."""
        if self._batch:
            self._own += self._batch
            self._made = np.union1d(self._made, np.concatenate(self._batch))
            self._batch = []

    def write(self, path: Path) -> None:
        """The variants of this task, ascending."""
        with table_writer(path, MADE) as out:
            out.write_table(pa.table([np.sort(np.concatenate([np.empty(0, np.int64), *self._own]))], schema=MADE))


def followed(editors: Sequence[Editor], counts: Sequence[Counts], earlier: Sequence[Path]) -> list[Before]:
    """The past that the editors of a task are told where they are ordered: one for all of them, since ids of different kinds differ."""
    ordered = [(editor, one) for editor, one in zip(editors, counts, strict=True) if editor.ordered]
    past = [Before(one.tables["value_ids"], earlier) for _, one in ordered[:1]]
    for editor, _ in ordered:
        editor.follow(past[0])
    return past


def place(ordered: I64, ids: I64) -> tuple[I64, Mask]:
    """Where each id stands in an ascending column, and whether it does."""
    if not len(ordered):
        return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
    at = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
    return at, ordered[at] == ids


@functools.lru_cache(maxsize=2)
def _firsts(path: Path, _time: int) -> tuple[I64, I64]:
    """All values of the corpus, ascending, and the document of the first occurrence of each."""
    found = pq.read_table(path, columns=["value_id", "first_doc_no"], partitioning=None)
    ids, first = (np.asarray(found.column(name), np.int64) for name in ("value_id", "first_doc_no"))
    order = np.argsort(ids, kind="stable")
    return ids[order], first[order]


@functools.lru_cache(maxsize=1024)
def _column(path: Path, _time: int) -> I64:
    return np.asarray(pq.read_table(path, partitioning=None).column(0), np.int64)
