"""The values of columns that the output does not hold in clear, as the known values of a run:
collected once from the documents, stored in its vault, and searched by its leak check, by
`verify`, and by the draws of its editors.

One file for each output increment, so that values of earlier increments stay known when files are
appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sanitize.engines.task_runner import FolderTask
from sanitize.pipeline.indexing import column_value_finder
from sanitize.pipeline.indexing.column_value_finder import (
    CellCounts,
    ColumnValuesTask,
    column_values_task,
    merge_column_values,
)
from sanitize.pipeline.indexing.kept_columns import select_value_leaves
from sanitize.pipeline.run_state import RunState
from sanitize.storage.files import file_sha256
from sanitize.storage.private_folder import SPILL_FOLDER, VAULT_FOLDER
from sanitize.storage.runs.run_folders import (
    COLUMN_VALUES_FOLDER,
    list_column_values,
    read_value_ids,
)
from sanitize.storage.task_records import run_job


@dataclass(frozen=True)
class ColumnValues:
    """The known values of one run from columns, in its folder."""

    folder: Path  # of the run
    task_count: int

    @property
    def files(self) -> list[Path]:
        """The files of the vault with these values (tables `column_values`), one for each output
        increment."""
        return self.list_files(self.task_count)

    def list_files(self, end_task: int) -> list[Path]:
        """The files of the increments that begin before a task."""
        return list_column_values(self.folder, end_task)

    @property
    def value_ids(self) -> tuple[int, ...]:
        """The ids of these values, ascending."""
        return read_value_ids(self.files)


def collect_column_values(state: RunState) -> ColumnValues:
    """Find the values in the columns of each increment that the output does not hold in clear.
    Nothing is searched for plans that do not remove what they find: those whose output is not to be
    published."""
    index, settings = state.index, state.index.settings
    column_values = ColumnValues(state.folder, len(index.task_ranges))
    selected = select_value_leaves(index.documents.schema, index.policies)
    layout = index.survey.layout
    value_leaves = tuple(replace(one, leaf=layout.cell_leaf(one.leaf)) for one in selected)
    if not value_leaves or settings.verify == "off" or not state.plan.publishable:
        return column_values
    depends_on = (
        "column values",
        column_value_finder.VERSION,
        [str(one) for one in value_leaves],
    )
    spill = index.workspace / SPILL_FOLDER
    quarantined = np.asarray(index.quarantine.column("doc_no"), np.int64)
    for increment in state.output_increments:
        jobs, candidate_files = [], []
        for task_no in range(increment.first_task, increment.end_task):
            low, high = index.task_ranges[task_no]
            task = ColumnValuesTask(
                first_doc_no=low,
                end_doc_no=high,
                documents=index.documents,
                value_leaves=value_leaves,
                key=index.key,
                detection_spec=index.detection_spec,
                left_kinds=state.plan.kinds_that_may_stay,
                quarantined_docs=tuple(
                    quarantined[(quarantined >= low) & (quarantined < high)].tolist()
                ),
                max_doc_bytes=settings.max_doc_bytes,
                folder=spill / f"column_values-{task_no}",
            )
            candidate_files.append(
                state.folder / VAULT_FOLDER / "column_candidates" / f"{task_no:05d}.parquet"
            )
            outputs = {"candidates.parquet": candidate_files[-1]}
            name = f"column_candidates-{task_no:05d}"
            jobs.append(
                state.create_job(
                    name,
                    column_values_task,
                    task,
                    outputs,
                    *depends_on,
                    result_type=CellCounts,
                    increment=increment,
                )
            )
        results = state.tasks.run("column_values", jobs)

        def merge(
            task: FolderTask,
            files: Sequence[Path] = candidate_files,
            found: Sequence[CellCounts] = results,
        ) -> None:
            merge_column_values(files, [one.cells for one in found], task.folder / "values.parquet")

        name = f"{increment.first_task:05d}"
        job = state.create_job(
            f"column_values-{name}",
            merge,
            FolderTask(spill / "column_values"),
            {"values.parquet": state.folder / COLUMN_VALUES_FOLDER / f"{name}.parquet"},
            *depends_on,
            [file_sha256(path) for path in candidate_files],
            increment=increment,
        )
        with state.tasks.measure("column_values"):
            run_job(job)
    return column_values
