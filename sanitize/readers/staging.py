"""From a survey to numbered documents: the tasks that decode units (staging), and where each
document is stored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sanitize.core.text_cells import LeafPath, list_text_leaves
from sanitize.errors import InputRefused
from sanitize.readers.survey import (
    InputUnit,
    StagingLayout,
    StagingResult,
    Survey,
    quarantine_unit,
    stage_unit,
)
from sanitize.storage.corpus import DocumentFile, Documents
from sanitize.storage.private_folder import DOCUMENTS_FOLDER

VERSION = 5  # raise it when staging gives other documents for the same input


@dataclass(frozen=True, kw_only=True)
class StagingTask:
    """One unit to be decoded into a folder."""

    unit: InputUnit
    layout: StagingLayout
    max_doc_bytes: int
    folder: Path


def stage_task(task: StagingTask) -> StagingResult:
    """Decodes a unit into `documents.parquet` and `quarantine.parquet` of the task's folder."""
    return stage_unit(
        task.unit,
        task.layout,
        task.folder / "documents.parquet",
        task.folder / "quarantine.parquet",
        task.max_doc_bytes,
    )


def quarantine_unit_task(task: StagingTask) -> StagingResult:
    """Writes the files of `stage_task` for a unit that cannot be read at all, for its
    `quarantine_reason`; opens none of its files."""
    return quarantine_unit(
        task.unit,
        task.layout,
        task.folder / "documents.parquet",
        task.folder / "quarantine.parquet",
    )


def build_documents(
    survey: Survey, staging_results: Mapping[int, StagingResult], workspace: Path
) -> Documents:
    """All documents of a survey by `doc_no`: input files that are read in place, and WORK/documents
    for the others. Raises InputRefused if there are none.
    """
    sources = []
    first_doc_no = 0
    for unit in survey.units:
        if unit.in_place:
            assert unit.rows is not None
            rows, path, columns = (
                unit.rows,
                os.path.abspath(unit.path),
                {standard: source for source, standard in unit.column_mapping},
            )
        else:
            rows, path = (
                staging_results[unit.no].rows,
                os.path.abspath(workspace / DOCUMENTS_FOLDER / f"{unit.no:05d}.parquet"),
            )
            columns = {name: name for name in survey.schema.names}
        sources.append(
            DocumentFile(
                path=path,
                rows=rows,
                first_doc_no=first_doc_no,
                columns=columns,
                split=unit.split,
                source=(unit.files or (unit.path,))[0] if unit.in_place else "",
            )
        )
        first_doc_no += rows
    if not first_doc_no and survey.layout.sample:
        raise InputRefused("the sample holds no record; give a larger share with --sample")
    if not first_doc_no:
        raise InputRefused("the input holds no record; expected at least one document")
    return Documents(
        files=tuple(sources),
        schema=survey.schema,
        main_leaf=main_leaf_at(survey.layout.main_path, survey.schema),
    )


def main_leaf_at(path: str, schema: pa.Schema) -> LeafPath:
    """The text leaf whose path, as `str(leaf)` writes it, is `path`."""
    return next(leaf for leaf in list_text_leaves(schema) if str(leaf) == path)
