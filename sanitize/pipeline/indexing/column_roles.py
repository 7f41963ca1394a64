"""What a column is taken for, and what becomes of it: decided by options, types and names first,
then by counts over all rows, since values decide before names.

A column of plain strings whose name names people (`author`), or of which half of the cells are
names, becomes keyed codes: nothing in a cell with `jdoe77` shows the finders a name. Not so where
its cells are long texts (`user` in prompt data), the parties of a chat (`human`, `gpt`), or, in a
column that is called `name`, `manager` and the like, few values that repeat or no names (products).
Such a column is searched like other texts. Of a column of JSON the strings inside are searched.

A stream sees no counts: there columns whose names surely name people become codes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from sanitize.core.command_results import ColumnPolicy
from sanitize.core.text_cells import (
    LIST_STEP,
    LeafPath,
    Policies,
    iterate_paths,
    list_number_leaves,
    list_text_leaves,
)
from sanitize.kinds.field_names import (
    find_kind_of_field,
    is_name_of_names,
    is_name_of_users,
    is_searched,
    names_people,
)
from sanitize.kinds.kind import all_kinds
from sanitize.plans.plan import Plan
from sanitize.readers.column_policies import list_added_columns
from sanitize.readers.standard_form import is_binary
from sanitize.readers.survey import Survey
from sanitize.stages.column_counts import CellCounts
from sanitize.storage.records.dataset_features import is_media

VERSION = 4  # part of the index's fingerprint: raise it when other columns become codes
COUNTED_POLICIES = ("sanitize", "pseudonymize")  # between which counts decide
PEOPLE, TEXT, CHAT, JSON = "people", "text", "turns of a chat", "JSON"
_ROLES = {"doc_id": "id", "user_id": "user"}
_MIN_NAMES = 2  # one says nothing about a column
_MIN_REPEATS = 10  # cells for each distinct one, in a column of categories


def find_policies_by_name(schema: pa.Schema, opt_in_kinds: Collection[str]) -> dict[str, str]:
    """The policies of columns whose names decide: codes for plain strings that name people, a
    search of numbers that are values of a kind, and of dates where the plan looks for them."""
    searched = list_number_leaves(schema, partial(is_searched, opt_in_kinds=opt_in_kinds))
    people = [
        column.name
        for column in schema
        if column.type == pa.large_string() and names_people(column.name)
    ]
    return {leaf.column: "sanitize" for leaf in searched} | dict.fromkeys(people, "pseudonymize")


def list_candidates(
    schema: pa.Schema, policies: Mapping[str, str], decided: Collection[str]
) -> tuple[str, ...]:
    """The columns that counts decide: all of plain strings but those in `decided`, the id and the
    user."""
    return tuple(
        column.name
        for column in schema
        if column.type == pa.large_string()
        and policies[column.name] in COUNTED_POLICIES
        and column.name not in {*decided, *_ROLES}
    )


def decide_column(name: str, counts: CellCounts) -> ColumnPolicy:
    """The policy of a column of plain strings, what it is taken for, and why."""
    people = ColumnPolicy(name=name, policy="pseudonymize", taken_for=PEOPLE, why="its name")
    text = ColumnPolicy(name=name, policy="sanitize", taken_for=TEXT)
    if 2 * counts.json > counts.filled:
        share = "all" if counts.json == counts.filled else "most"
        return replace(text, taken_for=JSON, why=f"{share} of its cells are JSON")
    has_names = counts.names >= _MIN_NAMES and 2 * counts.names >= counts.filled
    if not names_people(name):
        return replace(people, why="half of its cells are names") if has_names else text
    if counts.filled and 2 * counts.texts >= counts.filled:
        return replace(text, why="its cells are long texts")
    if counts.filled and counts.roles + counts.texts == counts.filled:
        why = "its cells are the parties of a chat, or name no person"
        return replace(text, taken_for="category", why=why)
    has_names |= 2 * (counts.names + counts.addresses) >= counts.filled
    # few distinct cells of a `user` may be user names, which nothing but the column shows
    if has_names or names_people(name, surely=True) or is_name_of_users(name):
        return people
    if counts.distinct is not None and counts.filled >= _MIN_REPEATS * len(counts.distinct):
        why = f"{len(counts.distinct)} distinct cells, no names"
        return replace(text, taken_for="category", why=why)
    if is_name_of_names(name) and 2 * counts.name_like < counts.filled:
        return replace(text, why="fewer than half of its cells look like names of people")
    return people


def list_json_columns(decided: Iterable[ColumnPolicy]) -> list[str]:
    """Of the decided columns those of JSON."""
    return [one.name for one in decided if one.taken_for == JSON]


def describe_columns(
    survey: Survey,
    policies: Policies,
    options: Mapping[str, str],
    decided: Sequence[ColumnPolicy],
    plan: Plan,
) -> list[ColumnPolicy]:
    """What each column that the files have is taken for, and why; of a kind also whether `plan`
    leaves it. Inside columns the parts that `options` (the policies that the user gave) name, and
    those that are taken for a kind. `decided`: what counts over the rows decided."""
    added = list_added_columns(survey.roles, survey.features)
    decided_by_name = {one.name: one for one in decided}
    main_column = survey.layout.main_column
    described = []
    for path, data_type in iterate_paths(survey.schema):
        name, policy = str(path), policies.at(path)
        if path.column in added:
            continue
        taken_for, why = _take_for(path, data_type, survey)
        if name in options and (path in policies.by_path or not path.steps):
            why = f"--{options[name]}"
        elif path.steps:
            if taken_for not in all_kinds() or policy not in ("sanitize", "keep"):
                continue
        elif name == main_column:
            taken_for, why = taken_for if taken_for == CHAT else TEXT, "the main text"
        elif name in _ROLES:
            taken_for, why = _ROLES[name], ""
        if not path.steps and (one := decided_by_name.get(name)) and one.why:
            taken_for, why = one.taken_for, one.why
        if taken_for in all_kinds() and policy == "sanitize":
            why = "; ".join(filter(None, (why, _describe_leaving(taken_for, plan))))
        described.append(ColumnPolicy(name=name, policy=policy, taken_for=taken_for, why=why))
    return described


def _describe_leaving(kind: str, plan: Plan) -> str:
    """Why cells of a kind stay under a plan; "" where they do not."""
    if kind not in plan.find.kinds:
        return "the plan does not look for it"
    if kind in plan.leave:
        return "the plan leaves it"
    has_fields = any(finder.use == "fields" for finder in plan.finders)
    return "" if has_fields else "found by its form only: the plan has no finder fields"


def _take_for(path: LeafPath, data_type: pa.DataType, survey: Survey) -> tuple[str, str]:
    """What a column, or something inside one, is taken for by its type and name, and why."""
    if not path.steps and is_media(survey.features.get(path.column)) or is_binary(data_type):
        return "media", ""
    if pa.types.is_temporal(data_type):
        return "date", ""
    if (shape := survey.roles.shape) is not None and not path.steps and path.column in shape.turns:
        return CHAT, ""
    whole = pa.schema([pa.field(path.name, data_type)])
    # the element of a list is no field of its own
    is_field = not pa.types.is_struct(data_type) and path.steps[-1:] != (LIST_STEP,)
    kind = find_kind_of_field(path.name) if is_field else None
    if not list_text_leaves(whole):
        if kind and list_number_leaves(whole, partial(is_searched, opt_in_kinds=())):
            return kind, "its name"
        return "number" if pa.types.is_primitive(data_type) else "other", ""
    is_json = not path.steps and path.column in survey.layout.json_columns
    return (kind, "its name") if kind else (JSON if is_json else TEXT, "")
