"""Values in columns that the output keeps unchanged, and in the names of columns and struct fields:
searched by the plan's finders before detection, over all rows, and decided per column and kind.

A kind that the plan edits must not remain in a kept column without a decision. Decided are:

- `name`: the name of the column, which --keep named, says that it holds this kind, such as `url` or
  `server_ip`.
- `chance`: a column of numbers or hexadecimal codes, such as tweet ids or UUIDs, of which a few
  pass as a card or account number by chance; never an address, a telephone number or a secret.

Everything else stops the run. The decisions are in the manifest (`kept_values`), as counts.

Columns that the output does not keep hold known values instead (`select_value_leaves`), which are
searched in all texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sanitize.core.command_results import ColumnPolicy, KeptValues
from sanitize.core.text_cells import LeafPath, Policies, list_text_leaves
from sanitize.errors import LeakFound, shell_quote
from sanitize.kinds.field_names import find_kind_of_field, names_people, split_field_name
from sanitize.kinds.kind import all_kinds
from sanitize.pipeline.indexing.column_value_finder import ValueLeaf, number_texts_type
from sanitize.plans.plan import Plan
from sanitize.stages.detection import ColumnFindings, FindTask, find_in_texts
from sanitize.storage.records.dataset_features import list_label_names
from sanitize.verification.shard_reading import describe_column

_IDS = LeafPath("doc_id")
# categories of kinds whose name in the name of a column says that it identifies people
_IDENTIFYING_CATEGORIES = frozenset(("contact", "network", "financial", "identifier", "credential"))
# words before `id`, `no` and the like in names of columns that number people: `customer_id`
_NUMBERED_WORDS = frozenset(
    "user account member client customer patient employee student contact subscriber applicant"
    " tenant".split()
)
_NUMBER_WORDS = frozenset("id ids uid uuid no nr number num code key ref".split())
# numbers that are recognised by a check digit, or by their length alone
_CHANCE_CATEGORIES = ("financial", "identifier")
# a random number passes a check digit modulo 10 with this probability; measured: 4 % of 16 digits,
# 3e-5 of UUIDs
_MAX_CHANCE = 0.10


def kept_leaves(schema: pa.Schema, policies: Policies) -> tuple[LeafPath, ...]:
    """The strings that the output keeps unchanged."""
    return tuple(leaf for leaf in list_text_leaves(schema) if policies.at(leaf) == "keep")


def check_names(
    schema: pa.Schema,
    policies: Policies,
    plan: Plan,
    task: FindTask,
    features: Mapping[str, Any] | None = None,
) -> None:
    """Raises LeakFound for a value in the name of a column, of a struct field or of a class label
    that would be published. `task` has the finders.
    """
    names: list[str] = []
    locations: list[str] = []
    for column in (column for column in schema if policies.by_column[column.name] != "drop"):
        field_names = _list_field_names(column.type)
        names += [column.name, *field_names]
        locations += [
            "column names",
            *(f"names of fields inside column {column.name}" for _ in field_names),
        ]
    for column_name, label_name in list_label_names(features or {}):
        if policies.by_column.get(column_name, "drop") != "drop":
            names.append(label_name)
            locations.append(f"names of class labels of column {column_name}")
    found: Counter[tuple[str, str]] = Counter()
    value_columns: set[str] = set()  # a name that is a value is not printed
    for kind, text_nos in find_in_texts(task, pa.array(names, pa.large_string())).items():
        if kind in plan.editor_no_by_kind:
            found.update((locations[text_no], kind) for text_no in set(text_nos.tolist()))
            value_columns |= {names[text_no] for text_no in text_nos.tolist()}
    if found:
        hidden = {
            f"names of fields inside column {name}": "names of fields inside such a column"
            for name in value_columns
        }
        where = "; ".join(
            f"{hidden.get(location, location)}: {count} {kind}"
            for (location, kind), count in sorted(found.items())
        )
        raise LeakFound(
            f"values that the plan removes are in names that the output keeps ({where}); nothing"
            " was published. Rename the column or the class label whose name is a value, in the"
            " input, or leave the column out (--drop COLUMN). Then run again"
        )


def describe_value_leaf(
    leaf: LeafPath, policy: str, *, is_role: bool, is_number: bool
) -> ValueLeaf | None:
    """What a path inside a column holds that the output does not hold in clear; None for numbers
    that do not identify people.

    A pseudonymized column identifies people, as the id and the user (`is_role`) do; a dropped one,
    or a field inside it, where its name says so.
    """
    names = [leaf.column, *leaf.field_names]
    kind = next(
        (
            name
            for name, one in all_kinds().items()
            if one.category in _IDENTIFYING_CATEGORIES and _says_kind(leaf, name)
        ),
        "",
    )
    is_identity = (
        policy == "pseudonymize"
        or is_role
        or bool(kind)
        or any(names_people(name) or _numbers_people(name) for name in names)
    )
    return ValueLeaf(leaf, is_identity, kind) if is_identity or not is_number else None


def select_value_leaves(
    schema: pa.Schema, policies: Policies, roles: Collection[str] = ("doc_id", "user_id")
) -> list[ValueLeaf]:
    """Where the values are that the output does not hold in clear: strings and integers of columns,
    and of parts of columns, that are pseudonymized or dropped. `roles`: the columns with the ids
    and the users of documents."""
    value_leaves = []
    strings = set(list_text_leaves(schema))
    as_texts = pa.schema([column.with_type(number_texts_type(column.type)) for column in schema])
    for leaf in list_text_leaves(as_texts):
        if (policy := policies.at(leaf)) in ("pseudonymize", "drop"):
            is_role, is_number = leaf.column in roles, leaf not in strings
            value_leaves.append(
                describe_value_leaf(leaf, policy, is_role=is_role, is_number=is_number)
            )
    return [one for one in value_leaves if one is not None]


def _numbers_people(name: str) -> bool:
    """True for names such as `customer_id` and `accountNo`."""
    *words, last = split_field_name(name) or [""]
    return (
        last in _NUMBER_WORDS
        and bool(words)
        and (words[-1] in _NUMBERED_WORDS or names_people("_".join(words)))
    )


def decide(
    results: Sequence[ColumnFindings],
    leaves: Sequence[LeafPath],
    plan: Plan,
    renamed_columns: Mapping[str, str],
    *,
    may_code_ids: bool,
) -> tuple[list[KeptValues], list[ColumnPolicy]]:
    """The decision on each kind that was found in a kept column, for the manifest, and the columns
    that become keyed codes instead: with `may_code_ids`, the ids. Raises LeakFound, with the ways
    out, if a kind has none.

    `results` are those of `find_in_columns_task`; `renamed_columns` those of
    `find_renamed_columns`.
    """
    decisions, undecided = [], []
    coded = dict[str, ColumnPolicy]()
    for leaf_no, leaf in enumerate(leaves):
        by_kind = sum((Counter(one.values[leaf_no]) for one in results), Counter[str]())
        in_codes = sum((Counter(one.values_in_codes[leaf_no]) for one in results), Counter[str]())
        code_count = sum(result.codes[leaf_no] for result in results)
        for kind, count in sorted(by_kind.items()):
            if kind not in plan.editor_no_by_kind:
                continue  # the plan leaves this kind everywhere, or does not look for it
            reason = ""
            if _says_kind(leaf, kind):
                reason = "name"
            elif (
                all_kinds()[kind].category in _CHANCE_CATEGORIES
                and in_codes[kind] == count
                and count <= _MAX_CHANCE * code_count
            ):
                reason = "chance"
            if reason:
                decisions.append(
                    KeptValues(column=str(leaf), kind=kind, values=count, kept_for=reason)
                )
            elif may_code_ids and leaf == _IDS:
                coded[leaf.column] = ColumnPolicy(
                    name=leaf.column, policy="pseudonymize", taken_for="id", why=f"holds {kind}"
                )
            else:
                undecided.append((leaf, kind, count))
    if undecided:
        where = "; ".join(
            f"{describe_column(str(leaf), renamed_columns)}: {count:,} {kind}"
            for leaf, kind, count in undecided
        )
        options = dict.fromkeys(
            f"--{'pseudonymize' if leaf == _IDS else 'sanitize'} {shell_quote(str(leaf))}"
            for leaf, _, _ in undecided
        )
        raise LeakFound(
            f"values that the plan removes are in columns that the output keeps ({where}); nothing"
            f" was published. Run again with {' '.join(options)} in place of --keep, or leave them"
            " out (--drop COLUMN), or pseudonymize them (--pseudonymize COLUMN), or rename them in"
            " the input after what they hold, such as url, to keep that (--keep COLUMN)"
        )
    return [one for one in decisions if one.column not in coded], [*coded.values()]


def _says_kind(leaf: LeafPath, kind: str) -> bool:
    """True if the last name on the path to the strings names their kind, in the output."""
    return find_kind_of_field(leaf.name) == kind


def _list_field_names(data_type: pa.DataType) -> list[str]:
    """The names of all struct fields inside a type, also inside lists."""
    names: list[str] = []
    if pa.types.is_nested(data_type):
        for number in range(data_type.num_fields):
            field = data_type.field(number)
            names += [field.name] if pa.types.is_struct(data_type) else []
            names += _list_field_names(field.type)
    return names
