"""Values and generated variants that occur earlier in corpus order; lets editors process tasks of
an indexed corpus in parallel.

The values are those of the whole corpus, with the document of their first occurrence. The variants
are those that other tasks recorded, and those of this task. Both are known by their forms
(sanitize/editors/synthesis/known_values.py), whatever their kinds. For a stream,
`StreamPriorValues` implements the same protocol (`PriorValues` of sanitize/core/part_protocols.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from sanitize.array_types import I64, Mask
from sanitize.core.engine import cached_for_run
from sanitize.core.part_protocols import Aggregates, Editor
from sanitize.editors.synthesis.known_values import NORMALISED, FirstForms
from sanitize.storage.parquet_files import open_table_writer, read_table

SURROGATE_FORM_SCHEMA = pa.schema(
    [pa.field("form", pa.int64()), pa.field("is_normalised", pa.bool_())]
)


class SurrogateForms:
    """The forms of surrogates: those of the normalised forms (`normalised`), and all of them
    (`forms`), ascending."""

    def __init__(self, normalised: I64 | None = None, forms: I64 | None = None) -> None:
        self.normalised = np.empty(0, np.int64) if normalised is None else normalised
        self.forms = np.empty(0, np.int64) if forms is None else forms

    def add(self, forms: I64) -> None:
        """Add surrogates, a row of forms each."""
        self.normalised = np.union1d(self.normalised, forms[:, NORMALISED])
        self.forms = np.union1d(self.forms, forms[forms != 0])


class IndexedPriorValues:
    """Prior values of one task of a run, for editors with `is_sequential`. Implements `PriorValues`
    of sanitize/core/part_protocols.py."""

    def __init__(self, known_forms: Path, other_surrogate_files: Sequence[Path]) -> None:
        """`other_surrogate_files` are the variants of other tasks, as written by
        `write_surrogates`."""
        self._values = FirstForms.read(known_forms)
        others = [_load_surrogates(path, path.stat().st_mtime_ns) for path in other_surrogate_files]
        self._surrogates = SurrogateForms(
            *(
                np.unique(
                    np.concatenate(
                        [np.empty(0, np.int64), *(getattr(other, name) for other in others)]
                    )
                )
                for name in ("normalised", "forms")
            )
        )
        self._task_surrogates, self._batch_forms = SurrogateForms(), list[I64]()

    def is_known(self, forms: I64, doc_no: I64) -> Mask:
        """True for rows with a form of a value that first occurs in document `doc_no` or
        earlier."""
        return self._values.is_known(forms, doc_no)

    def was_drawn(self, normalised: I64) -> Mask:
        """True for normalised forms of variants generated before this batch."""
        return find_sorted(self._surrogates.normalised, normalised)[1]

    def was_generated(self, forms: I64) -> Mask:
        """True for rows with a form of a variant generated before this batch."""
        return np.asarray(find_sorted(self._surrogates.forms, forms)[1].any(axis=1))

    def record_generated(self, forms: I64) -> None:
        """Record variants of this batch; `was_generated` includes them after `commit_batch`."""
        self._batch_forms.append(forms)

    def components(self, kind: str, component: str) -> tuple[pa.LargeStringArray, I64] | None:
        """None: component pools are computed over the whole corpus."""
        return None

    def commit_batch(self) -> None:
        """Commit the batch: its variants count as generated for the next batches."""
        for forms in self._batch_forms:
            self._task_surrogates.add(forms)
            self._surrogates.add(forms)
        self._batch_forms = []

    def write_surrogates(self, path: Path) -> None:
        """Write the forms of this task's variants to `path`, ascending."""
        forms = self._task_surrogates.forms
        is_normalised = find_sorted(self._task_surrogates.normalised, forms)[1]
        with open_table_writer(path, SURROGATE_FORM_SCHEMA) as out:
            out.write_table(pa.table([forms, is_normalised], schema=SURROGATE_FORM_SCHEMA))


def attach_prior_values(
    editors: Sequence[Editor],
    aggregates: Sequence[Aggregates],
    other_surrogate_files: Sequence[Path],
) -> list[IndexedPriorValues]:
    """Give the sequential editors of a task one shared `IndexedPriorValues`. Returns at most
    one."""
    sequential = [
        (editor, aggregate)
        for editor, aggregate in zip(editors, aggregates, strict=True)
        if editor.is_sequential
    ]
    prior_values = [
        IndexedPriorValues(aggregate.tables["known_forms"], other_surrogate_files)
        for _, aggregate in sequential[:1]
    ]
    for editor, _ in sequential:
        editor.set_prior_values(prior_values[0])
    return prior_values


def find_sorted(sorted_ids: I64, ids: I64) -> tuple[I64, Mask]:
    """Position of each id in an ascending array (or of the nearest one), and a mask: true where the
    id is in it."""
    if not len(sorted_ids):
        return np.zeros(ids.shape, np.int64), np.zeros(ids.shape, np.bool_)
    at = np.minimum(np.searchsorted(sorted_ids, ids), len(sorted_ids) - 1)
    return at, sorted_ids[at] == ids


@cached_for_run(1024)
def _load_surrogates(path: Path, _mtime_ns: int) -> SurrogateForms:
    table = read_table(path)
    forms, is_normalised = (
        np.asarray(table.column("form"), np.int64),
        np.asarray(table.column("is_normalised")),
    )
    return SurrogateForms(forms[is_normalised], forms)
