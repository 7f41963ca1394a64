"""Which columns of the input are sanitized, kept, pseudonymized or dropped, from the options of a
run and the types of the columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sanitize.core.command_results import ColumnPolicy
from sanitize.core.text_cells import is_list_type, is_text_type, list_text_leaves
from sanitize.errors import UsageError, shell_quote, suggest_names
from sanitize.readers.survey import Roles
from sanitize.storage.records.dataset_features import is_media

# names of columns that name people: whole names, and last words of names (`post_author`,
# `senderName`)
_PERSON_COLUMNS = frozenset(
    "from to cc bcc reply_to name user created_by posted_by written_by sent_by full_name first_name"
    " last_name middle_name given_name family_name maiden_name real_name display_name screen_name"
    " user_name login_name nick_name patient_name customer_name client_name employee_name"
    " contact_name person_name author_name sender_name recipient_name from_name to_name owner_name"
    " member_name".split()
)
_PERSON_WORDS = frozenset(
    "author authors sender senders recipient recipients username usernames fullname firstname"
    " lastname realname displayname screenname surname forename nickname nick handle login person"
    " patient customer employee creator poster commenter reviewer speaker writer correspondent"
    " addressee owner assignee custodian".split()
)
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
    schema: pa.Schema, main_column: str, columns: Columns, features: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The policy of every column: texts are sanitized, `user_id` is pseudonymised, images, sound
    and other binary columns are dropped, all others kept. With the `features` of a data set,
    columns that no file has are dropped. Raises UsageError.
    """
    features = features or {}
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
    refuse_undecided_columns(
        (column.name for column in schema if _is_text_or_list(column.type)),
        {*columns.policies, "doc_id", "user_id", main_column},
    )
    for column in schema:
        holds_text = bool(list_text_leaves(pa.schema([column])))
        is_file = is_media(features.get(column.name)) or (
            _holds_binary(column.type) and not holds_text
        )
        default = (
            "drop" if is_file or column.name in added else "sanitize" if holds_text else "keep"
        )
        if column.name not in added:
            default = {"doc_id": "keep", "user_id": "pseudonymize"}.get(column.name, default)
        policy = columns.policies.get(column.name, default)
        if column.name == main_column and policy != "sanitize":
            raise UsageError(
                f"--{policy} {column.name}: it is the main text, which is always sanitized; name"
                " another column with --text-column"
            )
        if policy == "sanitize" and not holds_text:
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


def names_people(column: str) -> bool:
    """Whether a column names people, by its name: `author`, `from`, `post_author`, `firstName`; not
    `file_name` or `user_agent`.

    >>> names = ("Sender", "firstName", "file_name", "to", "user_agent")
    >>> [name for name in names if names_people(name)]
    ['Sender', 'firstName', 'to']
    """
    words = re.sub(
        r"[^a-z0-9]+", "_", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", column).lower()
    ).strip("_")
    return words in _PERSON_COLUMNS or words.rpartition("_")[2] in _PERSON_WORDS


def refuse_undecided_columns(names: Iterable[str], decided: Iterable[str]) -> None:
    """Raises UsageError where a column of texts names people by its name and is not among the
    `decided` ones.

    The finders search a text for what shows a name; a cell with `jdoe77` alone shows nothing, so
    such a column would pass as it is.
    """
    undecided = [name for name in names if names_people(name) and name not in set(decided)]
    if undecided:
        raise make_undecided_error(undecided)


def make_undecided_error(undecided: Sequence[str]) -> UsageError:
    """The error for columns that name people, by their names or by what they hold, with the ways
    out."""
    name, several = shell_quote(undecided[0]), len(undecided) > 1
    return UsageError(
        f"column{'s' if several else ''} {', '.join(undecided)} name{'' if several else 's'}"
        f" people, and no option says what becomes of {'each' if several else 'it'}: give"
        f" --pseudonymize {name} (a keyed code for each value), --drop {name}, --sanitize {name}"
        " (searched like any text: a user name alone is not found) or, if no cell of it holds what"
        " the plan removes, --keep"
        f" {name}{'; the same for ' + ', '.join(undecided[1:]) if several else ''}"
    )


def _is_text_or_list(data_type: pa.DataType) -> bool:
    """True for texts and lists of texts; the fields inside of objects have names of their own."""
    return is_text_type(data_type) or (
        is_list_type(data_type) and is_text_type(data_type.value_type)
    )


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


def format_policies(columns: Sequence[ColumnPolicy]) -> str:
    """The policies in one line, such as `sanitize: text, subject; keep: doc_id`."""
    groups = {
        policy: [column.name for column in columns if column.policy == policy]
        for policy in COLUMN_POLICIES
    }
    return "; ".join(f"{policy}: {', '.join(names)}" for policy, names in groups.items() if names)
