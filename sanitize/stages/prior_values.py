"""Values and generated variants that occur earlier in corpus order; lets editors process tasks of an indexed corpus in parallel.

The values are those of the whole corpus, with the document of their first occurrence. The variants are those that other tasks recorded,
and those of this task. For a stream, `StreamPriorValues` implements the same protocol (`PriorValues` of sanitize/core/part_protocols.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.array_types import I64, Mask
from sanitize.core.engine import cached_for_run
from sanitize.core.part_protocols import Aggregates, Editor
from sanitize.storage.parquet_files import open_table_writer

SURROGATE_ID_SCHEMA = pa.schema([pa.field("value_id", pa.int64())])


class IndexedPriorValues:
    """Prior values of one task of a run, for editors with `is_sequential`. Implements `PriorValues` of sanitize/core/part_protocols.py."""

    def __init__(self, value_counts: Path, other_surrogate_files: Sequence[Path]) -> None:
        """`other_surrogate_files` are the variants of other tasks, as written by `write_surrogates`."""
        self._value_ids, self._first_doc_nos = _load_first_docs(value_counts, value_counts.stat().st_mtime_ns)
        self._surrogate_ids = np.unique(
            np.concatenate([np.empty(0, np.int64), *(_load_ids(path, path.stat().st_mtime_ns) for path in other_surrogate_files)])
        )
        self._task_surrogate_ids: list[I64] = []
        self._batch_surrogate_ids: list[I64] = []

    def is_taken(self, ids: I64, doc_no: I64) -> Mask:
        """True for ids of values that first occur in document `doc_no` or earlier, and of variants generated before this batch."""
        position, occurs_before = find_sorted(self._value_ids, ids)
        occurs_before[occurs_before] = self._first_doc_nos[position[occurs_before]] <= doc_no[occurs_before]
        return occurs_before | self.was_generated(ids)

    def was_generated(self, ids: I64) -> Mask:
        """True for ids of variants generated before this batch."""
        return find_sorted(self._surrogate_ids, ids)[1]

    def record_generated(self, ids: I64) -> None:
        """Record variants of this batch; `was_generated` includes them after `commit_batch`."""
        self._batch_surrogate_ids.append(ids)

    def components(self, kind: str, component: str) -> tuple[pa.LargeStringArray, I64] | None:
        """None: component pools are computed over the whole corpus."""
        return None

    def commit_batch(self) -> None:
        """Commit the batch: its variants count as generated for the next batches."""
        if self._batch_surrogate_ids:
            self._task_surrogate_ids += self._batch_surrogate_ids
            self._surrogate_ids = np.union1d(self._surrogate_ids, np.concatenate(self._batch_surrogate_ids))
            self._batch_surrogate_ids = []

    def write_surrogates(self, path: Path) -> None:
        """Write the ids of this task's variants to `path`, ascending."""
        with open_table_writer(path, SURROGATE_ID_SCHEMA) as out:
            out.write_table(
                pa.table([np.sort(np.concatenate([np.empty(0, np.int64), *self._task_surrogate_ids]))], schema=SURROGATE_ID_SCHEMA)
            )


def attach_prior_values(
    editors: Sequence[Editor], aggregates: Sequence[Aggregates], other_surrogate_files: Sequence[Path]
) -> list[IndexedPriorValues]:
    """Give the sequential editors of a task one shared `IndexedPriorValues` (ids of different kinds differ). Returns at most one."""
    sequential = [(editor, aggregate) for editor, aggregate in zip(editors, aggregates, strict=True) if editor.is_sequential]
    prior_values = [IndexedPriorValues(aggregate.tables["value_ids"], other_surrogate_files) for _, aggregate in sequential[:1]]
    for editor, _ in sequential:
        editor.set_prior_values(prior_values[0])
    return prior_values


def find_sorted(sorted_ids: I64, ids: I64) -> tuple[I64, Mask]:
    """Position of each id in an ascending array (or of the nearest one), and a mask: true where the id is in it."""
    if not len(sorted_ids):
        return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
    at = np.minimum(np.searchsorted(sorted_ids, ids), len(sorted_ids) - 1)
    return at, sorted_ids[at] == ids


@cached_for_run(2)
def _load_first_docs(path: Path, _mtime_ns: int) -> tuple[I64, I64]:
    """All value ids of the corpus, ascending, and the `doc_no` of the first occurrence of each."""
    table = pq.read_table(path, columns=["value_id", "first_doc_no"], partitioning=None)
    ids, first_doc_nos = (np.asarray(table.column(name), np.int64) for name in ("value_id", "first_doc_no"))
    order = np.argsort(ids, kind="stable")
    return ids[order], first_doc_nos[order]


@cached_for_run(1024)
def _load_ids(path: Path, _mtime_ns: int) -> I64:
    return np.asarray(pq.read_table(path, partitioning=None).column(0), np.int64)
