"""From a survey to documents by number: what is staged, which column is what, and where each document lies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sanitize.core.text_cells import Leaf, leaves
from sanitize.errors import InputRefused, UsageError, nearest
from sanitize.readers.survey import Layout, Roles, Survey, Unit, lose, stage
from sanitize.storage.corpus import Documents, Source

VERSION = 2  # raise it when what is staged for the same input changes
POLICIES = ("sanitize", "keep", "pseudonymize", "drop")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the user said about columns: the roles, and the policies that differ from the defaults (column -> policy)."""

    roles: Roles = field(default_factory=Roles)
    policies: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str]:
        """The columns that were named, but for the texts, with the option that did."""
        said = {"id-column": self.roles.id, "user-column": self.roles.user}
        return {**{name: option for option, name in said.items() if name}, **self.policies}


def policies_for(schema: pa.Schema, main: str, columns: Columns) -> dict[str, str]:
    """The policy of every column: texts are sanitized, `user_id` is pseudonymised, other binary is dropped, all else is kept."""
    for name, policy in columns.policies.items():
        if name not in schema.names:
            raise UsageError(f"--{policy} {name}: there is no such column; {nearest(name, schema.names)}")
    found = {}
    for one in schema:
        holds_text = bool(leaves(pa.schema([one])))
        default = "sanitize" if holds_text else "drop" if _binary(one.type) else "keep"
        policy = columns.policies.get(one.name, {"doc_id": "keep", "user_id": "pseudonymize"}.get(one.name, default))
        if one.name == main and policy != "sanitize":
            raise UsageError(
                f"--{policy} {one.name}: it is the main text, which is always sanitized; name another column with --text-column"
            )
        if policy == "sanitize" and not holds_text:
            raise UsageError(f"--sanitize {one.name}: {one.type} holds no text; use --keep or --drop")
        if policy == "pseudonymize" and one.type != pa.large_string():
            raise UsageError(f"--pseudonymize {one.name}: {one.type} is not a plain string column; use --sanitize, --keep or --drop")
        found[one.name] = policy
    return found


def _binary(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_binary(kind.field(number).type) for number in range(kind.num_fields))
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind)
    )


@dataclass(frozen=True, kw_only=True)
class Staging:
    """One unit to be decoded into a folder."""

    unit: Unit
    layout: Layout
    max_doc_bytes: int
    folder: Path


def stage_task(task: Staging) -> dict[str, Any]:
    """Decode a unit into `documents.parquet` and `quarantine.parquet` of the task's folder."""
    made = stage(task.unit, task.layout, task.folder / "documents.parquet", task.folder / "quarantine.parquet", task.max_doc_bytes)
    return {"rows": made.rows, "quarantined": made.quarantined}


def lose_task(task: Staging) -> dict[str, Any]:
    """What `stage_task` leaves behind where the unit cannot be read at all, for the reason in `unit.lost`; opens none of its files."""
    made = lose(task.unit, task.layout, task.folder / "documents.parquet", task.folder / "quarantine.parquet")
    return {"rows": made.rows, "quarantined": made.quarantined}


def documents_of(survey: Survey, staged: Mapping[int, Mapping[str, Any]], work: Path) -> Documents:
    """All documents of a survey by `doc_no`: a view on each input that is read in place, WORK/documents for the others."""
    sources = []
    first = 0
    for unit in survey.units:
        if unit.view:
            assert unit.rows is not None
            rows, path, columns = unit.rows, os.path.abspath(unit.path), {standard: source for source, standard in unit.columns}
        else:
            rows, path = int(staged[unit.no]["rows"]), os.path.abspath(work / "documents" / f"{unit.no:05d}.parquet")
            columns = {name: name for name in survey.schema.names}
        sources.append(Source(path=path, rows=rows, first_doc_no=first, columns=columns))
        first += rows
    if not first and survey.layout.sample:
        raise InputRefused("the sample holds no record; take a larger share (--sample)")
    if not first:
        raise InputRefused("the input holds no record at all; expected at least one document")
    return Documents(sources=tuple(sources), schema=survey.schema, main=leaf_named(survey.layout.leaf, survey.schema))


def leaf_named(path: str, schema: pa.Schema) -> Leaf:
    """The leaf of a path as `str(leaf)` writes it."""
    return next(leaf for leaf in leaves(schema) if str(leaf) == path)


def shown(columns: Sequence[Mapping[str, str]]) -> str:
    """The policies in one line, such as `sanitize: text, subject; keep: doc_id`."""
    groups = {policy: [column["name"] for column in columns if column["policy"] == policy] for policy in POLICIES}
    return "; ".join(f"{policy}: {', '.join(names)}" for policy, names in groups.items() if names)
