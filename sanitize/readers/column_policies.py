"""Which columns of the input are sanitized, kept, pseudonymized or dropped, from the options of a
run and the types of the columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sanitize.core.text_cells import list_text_leaves
from sanitize.errors import UsageError, suggest_names
from sanitize.readers.survey import Roles
from sanitize.storage.records.dataset_features import is_media

COLUMN_POLICIES = ("sanitize", "keep", "pseudonymize", "drop")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The user's settings for columns: the roles, and the policies that differ from the defaults
    (column -> policy)."""

    roles: Roles = field(default_factory=Roles)
    policies: Mapping[str, str] = field(default_factory=dict)

    @property
    def option_by_column(self) -> dict[str, str]:
        """The option or policy that named each column; text columns are left out."""
        column_by_option = {"id-column": self.roles.id, "user-column": self.roles.user}
        return {
            **{name: option for option, name in column_by_option.items() if name},
            **self.policies,
        }


def resolve_column_policies(
    schema: pa.Schema,
    main_column: str,
    columns: Columns,
    features: Mapping[str, Any] | None = None,
    by_name: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The policy of every column: texts are sanitized, `user_id` is pseudonymised, images, sound
    and other binary columns are dropped, all others kept, where `by_name` (column -> policy) says
    nothing else. With the `features` of a data set, columns that no file has are dropped. Raises
    UsageError.
    """
    features, by_name = features or {}, by_name or {}
    added = {
        name for name in list_added_columns(columns.roles, features) if name not in columns.policies
    }
    output_names = {columns.roles.id: "doc_id", columns.roles.user: "user_id"}
    for name, policy in columns.policies.items():
        if name not in schema.names and name in output_names:
            raise UsageError(
                f"--{policy} {name}: this column is {output_names[name]} in the output; name it so:"
                f" --{policy} {output_names[name]}"
            )
        if name not in schema.names:
            raise UsageError(
                f"--{policy} {name}: there is no such column; {suggest_names(name, schema.names)}"
            )
    policy_by_column = {}
    for column in schema:
        holds_text = bool(list_text_leaves(pa.schema([column])))
        is_searched = holds_text or by_name.get(column.name) == "sanitize"
        is_file = is_media(features.get(column.name)) or (
            _holds_binary(column.type) and not holds_text
        )
        default = (
            "drop"
            if is_file or column.name in added
            else by_name[column.name]
            if column.name in by_name and column.name != main_column
            else "sanitize"
            if holds_text
            else "keep"
        )
        if column.name not in added:
            default = {"doc_id": "keep", "user_id": "pseudonymize"}.get(column.name, default)
        policy = columns.policies.get(column.name, default)
        if column.name == main_column and policy != "sanitize":
            raise UsageError(
                f"--{policy} {column.name}: it is the main text, which is always sanitized; name"
                " another column with --text-column"
            )
        if policy == "sanitize" and not is_searched:
            raise UsageError(
                f"--sanitize {column.name}: {column.type} holds no text; use --keep or --drop"
            )
        if policy == "pseudonymize" and column.type != pa.large_string():
            raise UsageError(
                f"--pseudonymize {column.name}: {column.type} is not a plain string column; use"
                " --sanitize, --keep or --drop"
            )
        policy_by_column[column.name] = policy
    return policy_by_column


def list_added_columns(roles: Roles, features: Mapping[str, Any]) -> list[str]:
    """The columns of the standard form that no file of a data set with these features has; none
    without features."""
    sources = {"doc_id": roles.id or "doc_id", "user_id": roles.user or "user_id"}
    return [name for name, source in sources.items() if features and source not in features]


def _holds_binary(data_type: pa.DataType) -> bool:
    if pa.types.is_nested(data_type):
        return any(
            _holds_binary(data_type.field(number).type) for number in range(data_type.num_fields)
        )
    return bool(
        pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
        or pa.types.is_fixed_size_binary(data_type)
        or pa.types.is_binary_view(data_type)
    )
