"""From a survey to numbered documents: column policies, the staging tasks, and where each document is stored."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sanitize.core.text_cells import LeafPath, list_text_leaves
from sanitize.errors import InputRefused, UsageError, suggest_names
from sanitize.readers.survey import InputUnit, Roles, StagingLayout, Survey, quarantine_unit, stage_unit
from sanitize.storage.corpus import DocumentFile, Documents

VERSION = 3  # raise it when staging gives other documents for the same input
COLUMN_POLICIES = ("sanitize", "keep", "pseudonymize", "drop")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The user's settings for columns: the roles, and the policies that differ from the defaults (column -> policy)."""

    roles: Roles = field(default_factory=Roles)
    policies: Mapping[str, str] = field(default_factory=dict)

    @property
    def option_by_column(self) -> dict[str, str]:
        """The option or policy that named each column; text columns are left out."""
        column_by_option = {"id-column": self.roles.id, "user-column": self.roles.user}
        return {**{name: option for option, name in column_by_option.items() if name}, **self.policies}


def resolve_column_policies(schema: pa.Schema, main_column: str, columns: Columns) -> dict[str, str]:
    """The policy of every column: texts are sanitized, `user_id` is pseudonymised, other binary columns are dropped, all others kept.
    Raises UsageError.
    """
    for name, policy in columns.policies.items():
        if name not in schema.names:
            raise UsageError(f"--{policy} {name}: there is no such column; {suggest_names(name, schema.names)}")
    policy_by_column = {}
    for column in schema:
        holds_text = bool(list_text_leaves(pa.schema([column])))
        default = "sanitize" if holds_text else "drop" if _holds_binary(column.type) else "keep"
        policy = columns.policies.get(column.name, {"doc_id": "keep", "user_id": "pseudonymize"}.get(column.name, default))
        if column.name == main_column and policy != "sanitize":
            raise UsageError(
                f"--{policy} {column.name}: it is the main text, which is always sanitized; name another column with --text-column"
            )
        if policy == "sanitize" and not holds_text:
            raise UsageError(f"--sanitize {column.name}: {column.type} holds no text; use --keep or --drop")
        if policy == "pseudonymize" and column.type != pa.large_string():
            raise UsageError(f"--pseudonymize {column.name}: {column.type} is not a plain string column; use --sanitize, --keep or --drop")
        policy_by_column[column.name] = policy
    return policy_by_column


def _holds_binary(data_type: pa.DataType) -> bool:
    if pa.types.is_nested(data_type):
        return any(_holds_binary(data_type.field(number).type) for number in range(data_type.num_fields))
    return bool(
        pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
        or pa.types.is_fixed_size_binary(data_type)
        or pa.types.is_binary_view(data_type)
    )


@dataclass(frozen=True, kw_only=True)
class StagingTask:
    """One unit to be decoded into a folder."""

    unit: InputUnit
    layout: StagingLayout
    max_doc_bytes: int
    folder: Path


def stage_task(task: StagingTask) -> dict[str, Any]:
    """Decodes a unit into `documents.parquet` and `quarantine.parquet` of the task's folder."""
    result = stage_unit(task.unit, task.layout, task.folder / "documents.parquet", task.folder / "quarantine.parquet", task.max_doc_bytes)
    return {"rows": result.rows, "quarantined": result.quarantined}


def quarantine_unit_task(task: StagingTask) -> dict[str, Any]:
    """Writes the files of `stage_task` for a unit that cannot be read at all, for its `quarantine_reason`; opens none of its files."""
    result = quarantine_unit(task.unit, task.layout, task.folder / "documents.parquet", task.folder / "quarantine.parquet")
    return {"rows": result.rows, "quarantined": result.quarantined}


def build_documents(survey: Survey, staging_results: Mapping[int, Mapping[str, Any]], workspace: Path) -> Documents:
    """All documents of a survey by `doc_no`: input files that are read in place, and WORK/documents for the others. Raises InputRefused if
    there are none.
    """
    sources = []
    first_doc_no = 0
    for unit in survey.units:
        if unit.in_place:
            assert unit.rows is not None
            rows, path, columns = unit.rows, os.path.abspath(unit.path), {standard: source for source, standard in unit.column_mapping}
        else:
            rows, path = int(staging_results[unit.no]["rows"]), os.path.abspath(workspace / "documents" / f"{unit.no:05d}.parquet")
            columns = {name: name for name in survey.schema.names}
        sources.append(DocumentFile(path=path, rows=rows, first_doc_no=first_doc_no, columns=columns))
        first_doc_no += rows
    if not first_doc_no and survey.layout.sample:
        raise InputRefused("the sample holds no record; give a larger share with --sample")
    if not first_doc_no:
        raise InputRefused("the input holds no record; expected at least one document")
    return Documents(files=tuple(sources), schema=survey.schema, main_leaf=main_leaf_at(survey.layout.main_path, survey.schema))


def main_leaf_at(path: str, schema: pa.Schema) -> LeafPath:
    """The text leaf whose path, as `str(leaf)` writes it, is `path`."""
    return next(leaf for leaf in list_text_leaves(schema) if str(leaf) == path)


def format_policies(columns: Sequence[Mapping[str, str]]) -> str:
    """The policies in one line, such as `sanitize: text, subject; keep: doc_id`."""
    groups = {policy: [column["name"] for column in columns if column["policy"] == policy] for policy in COLUMN_POLICIES}
    return "; ".join(f"{policy}: {', '.join(names)}" for policy, names in groups.items() if names)
