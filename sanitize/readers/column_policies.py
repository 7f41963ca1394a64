"""Which columns of the input are sanitized, kept, pseudonymized or dropped, from the options of a
run and the types of the columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sanitize.core.text_cells import (
    LeafPath,
    Policies,
    iterate_paths,
    list_text_leaves,
    parse_path,
)
from sanitize.errors import UsageError, suggest_columns
from sanitize.readers.survey import Roles
from sanitize.storage.records.dataset_features import is_media

COLUMN_POLICIES = ("sanitize", "keep", "pseudonymize", "drop")
_WHOLE = {"drop": "left out", "pseudonymize": "pseudonymized"}  # no part is something else


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
    main_path: str,
    columns: Columns,
    features: Mapping[str, Any] | None = None,
    by_name: Mapping[str, str] | None = None,
) -> Policies:
    """The policy of every column, and of the parts of columns that `columns` names. Texts are
    sanitized, `user_id` is pseudonymised, images, sound and other binary columns are dropped, all
    others kept, where `by_name` (column -> policy) says nothing else. With the `features` of a data
    set, columns that no file has are dropped. Raises UsageError.
    """
    features, by_name = features or {}, by_name or {}
    main = parse_path(main_path) if main_path not in schema.names else LeafPath(main_path)
    added = {
        name for name in list_added_columns(columns.roles, features) if name not in columns.policies
    }
    policy_by_column = {}
    for column in schema:
        holds_text = bool(list_text_leaves(pa.schema([column])))
        is_file = is_media(features.get(column.name)) or (
            _holds_binary(column.type) and not holds_text
        )
        default = (
            "drop"
            if is_file or column.name in added
            else by_name[column.name]
            if column.name in by_name and column.name != main.column
            else "sanitize"
            if holds_text
            else "keep"
        )
        if column.name not in added:
            default = {"doc_id": "keep", "user_id": "pseudonymize"}.get(column.name, default)
        policy_by_column[column.name] = default
    asked = _find_asked_policies(schema, columns)
    policies = Policies(
        {**policy_by_column, **{path.column: asked[path] for path in asked if not path.steps}},
        {path: policy for path, policy in asked.items() if path.steps},
    )
    for path in asked:
        check_path_policy(path, policies, main, columns.roles)
    for path, data_type in iterate_paths(schema) if asked else ():
        if path in asked:
            searched_numbers = by_name.get(path.column) == "sanitize"
            check_type(path, asked[path], data_type, is_searched=searched_numbers)
    return policies


def _find_asked_policies(schema: pa.Schema, columns: Columns) -> dict[LeafPath, str]:
    """The policies that the user asked for, by path. Raises UsageError for unknown columns."""
    output_names = {columns.roles.id: "doc_id", columns.roles.user: "user_id"}
    if not columns.policies:
        return {}
    path_by_name = {str(path): path for path, _ in iterate_paths(schema)}
    if columns.roles.shape is not None:  # `check_path_policy` refuses fields of turns as JSON
        turns = columns.roles.shape.json_turns
        path_by_name |= {
            name: path
            for name in columns.policies
            if (path := parse_path(name)).steps and path.column in turns
        }
    path_by_name |= {name: LeafPath(name) for name in schema.names}
    asked = dict[LeafPath, str]()
    for name, policy in columns.policies.items():
        if name not in schema.names and name in output_names:
            raise UsageError(
                f"--{policy} {name}: this column is {output_names[name]} in the output; name it so:"
                f" --{policy} {output_names[name]}"
            )
        if name not in path_by_name:
            raise UsageError(
                f"--{policy} {name}: there is no such column; {suggest_columns(name, path_by_name)}"
            )
        asked[path_by_name[name]] = policy
    return asked


def check_type(
    path: LeafPath, policy: str, data_type: pa.DataType, *, is_searched: bool = False
) -> None:
    """Raises UsageError for a policy that values of a type cannot have. `is_searched`: it is one of
    numbers that are searched."""
    holds_text = is_searched or list_text_leaves(pa.schema([pa.field("", data_type)]))
    if policy == "sanitize" and not holds_text:
        raise UsageError(f"--sanitize {path}: {data_type} holds no text; use --keep or --drop")
    if policy == "pseudonymize" and data_type != pa.large_string():
        what = "is not plain strings" if path.steps else "is not a plain string column"
        raise UsageError(
            f"--pseudonymize {path}: {data_type} {what}; use --sanitize, --keep or --drop"
        )


def check_path_policy(path: LeafPath, policies: Policies, main: LeafPath, roles: Roles) -> None:
    """Raises UsageError for a policy of the main text, of who speaks in a chat, of a field of turns
    that are held as JSON, and of a part of something that is left out."""
    policy, shape = policies.at(path), roles.shape
    reason = ""
    if policy != "sanitize" and _is_part(main, path):
        reason = (
            "it is the main text, which is always sanitized; name another column with --text-column"
        )
    elif path.steps and shape is not None and path.column in shape.json_turns:
        reason = (
            f"the turns of {path.column} have no common type, so that their fields have no policies"
            " of their own; give the turns one form in the input"
        )
    elif path.steps and shape is not None and policy != "keep" and str(path) in shape.roles:
        reason = "it says who speaks, which is checked and kept as it is"
    wholes = (LeafPath(path.column, path.steps[:length]) for length in range(len(path.steps)))
    if outer := next((one for one in wholes if policies.at(one) in _WHOLE), None):
        what = _WHOLE[policies.at(outer)]
        reason = f"{outer} is {what} as a whole; name its parts one by one, or not this one"
    if reason:
        raise UsageError(f"--{policy} {path}: {reason}")


def _is_part(path: LeafPath, whole: LeafPath) -> bool:
    return path.column == whole.column and path.steps[: len(whole.steps)] == whole.steps


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
