"""Shapes of instruction and chat data: recognised from the columns of a file, and checked record by
record.

    messages        a list of turns with role and content, or from and value: also called
                    conversations, conversation or chat
    preference      chosen and rejected
    prompt          prompt with completion, response or answer
    instruction     instruction with output, response or answer

Each of these columns holds a text, or a list of turns. A turn's content is a text, or a list of
parts (`{"type": "text", "text": ...}`). Turns that have no common type, such as contents of both
forms or calls with arguments as objects, are held as one JSON text each, as `datasets` does it
(`List(Json())`).

All strings of a record are searched, whatever its shape; the shape says which of them is the main
text, which are roles (they stay as they are) and which hold JSON (their inner strings are
searched). `--text-column` overrides it: then no shape is recognised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.text_cells import (
    CHAT_ROLES,
    JSON_STEP,
    LeafPath,
    canonical_type,
    flatten_leaf,
    is_list_type,
    is_text_type,
    is_valid_json,
    iterate_leaf,
    list_text_leaves,
)
from sanitize.storage.records.dataset_features import read_features

# the columns of each shape in order of preference: every group must have one of its names; the
# first is the main text
_SHAPES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "chat": (("messages", "conversations", "conversation", "chat"),),
    "preference": (("chosen",), ("rejected",)),
    "prompt and completion": (("prompt",), ("completion", "response", "answer")),
    "instruction": (("instruction",), ("output", "response", "answer")),
}
# of the last three shapes
_OPTIONAL_COLUMNS = frozenset(("prompt", "input", "context", "system", "question"))
_TURN_FIELDS = (("role", "content"), ("from", "value"))
_ARGUMENT_FIELD = "arguments"  # of a tool call: JSON in a string
_TURN_COLUMNS = frozenset(
    (
        "messages conversations conversation chat chosen rejected prompt completion response answer"
    ).split()
)
SNIFFED_ROWS = 20  # of a table, to tell texts that are turns as JSON
_TOOLS_COLUMN = "tools"  # the functions that a model may call, each with parameters of its own
_JSON = {b"texts": b"json"}  # metadata of a field whose texts, or whose elements, are JSON


@dataclass(frozen=True)
class RecordShape:
    """What the columns of a corpus of conversations or instructions hold, as leaf paths.

    texts      The texts of the shape, the main text first.
    roles      Who speaks: searched for nothing, and kept.
    arguments  Strings of JSON, whose inner strings are searched.
    turns      The columns that hold lists of turns, of which none may be empty.
    """

    name: str
    texts: tuple[str, ...]
    roles: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()

    @property
    def call_arguments(self) -> tuple[str, ...]:
        """The paths of `arguments` that are not turns as JSON."""
        turns = {f"{column}[]" for column in self.turns}
        return tuple(path for path in self.arguments if path not in turns)

    @property
    def json_turns(self) -> tuple[str, ...]:
        """The columns that hold each turn as a JSON text."""
        return tuple(column for column in self.turns if f"{column}[]" in self.arguments)

    def describe(self) -> str:
        """The shape in one line, such as `chat: texts in messages[].content; kept:
        messages[].role`."""
        parts = [f"texts in {', '.join(self.texts)}"]
        parts += [f"kept: {', '.join(self.roles)}"] if self.roles else []
        parts += [f"JSON in {', '.join(self.arguments)}"] if self.arguments else []
        return f"{self.name}: {'; '.join(parts)}"

    def select_cells(self, leaves: list[LeafPath]) -> list[LeafPath]:
        """The leaves that are text cells: without roles, and with the inner strings of JSON in
        place of the JSON."""
        cells = [leaf for leaf in leaves if str(leaf) not in self.roles]
        return [
            LeafPath(leaf.column, (*leaf.steps, JSON_STEP)) if str(leaf) in self.arguments else leaf
            for leaf in cells
        ]


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a file in canonical types, without its metadata. Marks the columns that hold
    JSON or lists of JSON, by their types or by their features of `datasets`."""
    features = json.loads(read_features(schema) or "{}")
    plain = pa.schema([(field.name, canonical_type(field.type)) for field in schema])
    return mark_json_columns(
        plain, [field.name for field in schema if _holds_json(field.type, features.get(field.name))]
    )


def _holds_json(data_type: pa.DataType, feature: Any) -> bool:
    """Whether a column has JSON texts, or lists of them."""
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        inner = (
            feature[0]
            if isinstance(feature, list)
            else feature.get("feature")
            if isinstance(feature, Mapping)
            else None
        )
        return _holds_json(data_type.value_type, inner) and not is_list_type(data_type.value_type)
    is_json_feature = isinstance(feature, Mapping) and feature.get("_type") == "Json"
    return isinstance(data_type, pa.JsonType) or (is_json_feature and is_text_type(data_type))


def mark_json_columns(schema: pa.Schema, columns: Collection[str]) -> pa.Schema:
    """A schema in canonical types in which these columns are marked: texts that are JSON, or lists
    of such texts whatever they were."""
    for name in columns:
        if name in schema.names:
            data_type = schema.field(name).type
            data_type = data_type if is_text_type(data_type) else pa.large_list(pa.large_string())
            schema = schema.set(
                schema.get_field_index(name), pa.field(name, data_type, metadata=_JSON)
            )
    return schema


def list_json_columns(schema: pa.Schema) -> list[str]:
    """The columns that `mark_json_columns` marked."""
    return [field.name for field in schema if field.metadata == _JSON]


def select_turns(name: str, values: list[Any]) -> list[Any]:
    """The sampled values of a column by which its type is inferred: of one of conversations, by its
    name and most of its values, those that are lists of turns; else all. The others do not fit the
    type, and are quarantined."""
    if name not in _TURN_COLUMNS:
        return values
    conversations = [
        value for value in values if isinstance(value, list) and all(map(_is_turn, value))
    ]
    return (
        conversations
        if len(conversations) > sum(value is not None for value in values) - len(conversations)
        else values
    )


def find_json_columns(values: Mapping[str, list[Any]]) -> list[str]:
    """The columns of turns that have no common type: contents that are texts and others that are
    parts, arguments that are objects, or fields of several types; and the descriptions of tools
    whose parameters differ. `values`: column -> sampled values by `select_turns`. Texts that are
    turns as JSON already count, too."""
    turns = [
        name
        for name, column in values.items()
        if name in _TURN_COLUMNS and _are_turns(column) and not _have_one_type(column)
    ]
    return [
        *turns,
        *(
            name
            for name, column in values.items()
            if name == _TOOLS_COLUMN and _are_different_objects(column)
        ),
    ]


def _are_different_objects(values: list[Any]) -> bool:
    """Whether values are lists of objects, and one type for all of them would fill some up with
    nulls."""
    lists = [value for value in values if value is not None]
    if not lists or not all(
        isinstance(value, list) and all(isinstance(one, dict) for one in value) for value in lists
    ):
        return False
    try:
        return bool(pa.array(lists).to_pylist() != lists)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return True


def _are_turns(values: list[Any]) -> bool:
    """Whether all values that are not null are lists of turns, as objects or as JSON, and one of
    them says who speaks, and what."""
    lists = [value for value in values if value is not None]
    turns = [
        _parse_turn(turn)
        for value in lists
        if isinstance(value, list)
        for turn in value
        if turn is not None
    ]
    has_fields = any(
        all(field in turn for field in fields) for turn in turns for fields in _TURN_FIELDS
    )
    return has_fields and all(
        isinstance(value, list) and all(map(_is_turn, value)) for value in lists
    )


def _is_turn(value: Any) -> bool:
    """Whether a value is null or a turn, as an object or as JSON: it has a field of turns, and its
    content is a text or a list of parts."""
    turn = _parse_turn(value)
    has_field = any(field in turn for fields in _TURN_FIELDS for field in fields)
    return value is None or (has_field and isinstance(_content_of(turn), str | list | None))


def _content_of(turn: Mapping[str, Any]) -> Any:
    return turn.get("content", turn.get("value"))


def _parse_turn(turn: Any) -> dict[str, Any]:
    """The turn; {} for a text that is none as JSON, and for other values."""
    if isinstance(turn, str):
        try:
            turn = json.loads(turn)
        except (ValueError, RecursionError):
            return {}
    return turn if isinstance(turn, dict) else {}


def _have_one_type(values: list[Any]) -> bool:
    """Whether turns have a type in which every one keeps its form: contents of one form, and no
    arguments that are objects."""
    turns = [turn for value in values for turn in value or () if turn is not None]
    if any(isinstance(turn, str) for turn in turns):
        return False
    contents = [content for turn in turns if (content := _content_of(turn)) is not None]
    if len({isinstance(content, list) for content in contents}) > 1 or any(
        map(_has_object_arguments, turns)
    ):
        return False
    try:
        return pa.array(values) is not None
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return False


def _has_object_arguments(turn: Mapping[str, Any]) -> bool:
    """Whether a turn has a call with arguments as an object: as a type, it would have the fields of
    all calls of the corpus."""
    return any(isinstance(call.get(_ARGUMENT_FIELD), dict) for call in _iterate_calls(turn))


def _iterate_calls(turn: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The functions that a turn calls."""
    calls = turn.get("tool_calls")
    for call in [turn.get("function_call"), *(calls if isinstance(calls, list) else ())]:
        if isinstance(call, Mapping):
            yield call
            if isinstance(call.get("function"), Mapping):
                yield call["function"]


def mark_sniffed_turns(schema: pa.Schema, read_head: Callable[[list[str]], pa.Table]) -> pa.Schema:
    """A schema by `canonical_schema` in which lists of texts are marked, too, whose column is named
    as turns are and whose first ones are turns as JSON. `read_head` gives the first rows of
    columns; it is called only where there are such lists."""
    marked = list_json_columns(schema)
    names = [
        field.name
        for field in schema
        if field.name in _TURN_COLUMNS
        and field.name not in marked
        and is_list_type(field.type)
        and is_text_type(field.type.value_type)
    ]
    if not names:
        return schema
    head = read_head(names)
    return mark_json_columns(
        schema,
        find_json_columns(
            {name: head.column(name).slice(0, SNIFFED_ROWS).to_pylist() for name in names}
        ),
    )


def recognize_table(table: pa.Table) -> RecordShape | None:
    """The shape of a table's records."""
    return recognize_shape(mark_sniffed_turns(canonical_schema(table.schema), table.select))


def encode_turns(value: Any) -> Any:
    """A list of turns as a list of JSON texts; turns that are texts, and a null, are returned as
    they are. Raises TypeError for other values, and for a turn with a value that JSON does not
    have; ValueError for numbers that JSON cannot hold."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise TypeError("turns are a list")
    return [
        (
            turn
            if turn is None or isinstance(turn, str)
            else json.dumps(turn, ensure_ascii=False, allow_nan=False)
        )
        for turn in value
    ]


def recognize_shape(schema: pa.Schema) -> RecordShape | None:
    """The shape of a file's records, from its schema by `canonical_schema`; None where its columns
    are none of the shapes."""
    for name, groups in _SHAPES.items():
        columns = [
            next((column for column in group if _find_texts(column, schema)), None)
            for group in groups
        ]
        if None in columns or (name == "chat" and not is_list_type(schema.field(columns[0]).type)):
            continue
        optional = [
            column
            for column in schema.names
            if column in _OPTIONAL_COLUMNS and name != "chat" and _find_texts(column, schema)
        ]
        chosen = list(dict.fromkeys([*(column for column in columns if column), *optional]))
        leaves = [leaf for leaf in list_text_leaves(schema) if leaf.column in chosen]
        turns = tuple(column for column in chosen if is_list_type(schema.field(column).type))
        role_paths = {f"{column}[].{_turn_fields(column, schema)[0]}" for column in turns}
        return RecordShape(
            name=name,
            texts=tuple(path for column in chosen for path in _find_texts(column, schema)),
            roles=tuple(str(leaf) for leaf in leaves if str(leaf) in role_paths),
            arguments=tuple(
                str(leaf)
                for leaf in leaves
                if leaf.column in turns
                and (leaf.steps == ("[]",) or leaf.steps[-1] == _ARGUMENT_FIELD)
            ),
            turns=turns,
        )
    return None


def _turn_fields(column: str, schema: pa.Schema) -> tuple[str, str]:
    """The fields of a column of turns: who speaks, and what; empty names where it is none."""
    element = schema.field(column).type.value_type
    if pa.types.is_struct(element):
        for fields in _TURN_FIELDS:
            if all(element.get_field_index(field) >= 0 for field in fields):
                return fields
    return "", ""


def _find_texts(column: str, schema: pa.Schema) -> list[str]:
    """The paths of the texts of a column: its own, or that of the contents of its turns; none where
    it holds neither."""
    if column not in schema.names:
        return []
    data_type = schema.field(column).type
    is_json = column in list_json_columns(schema)
    if is_text_type(data_type):
        return [] if is_json else [column]
    if is_json:
        return [f"{column}[]"]
    if not is_list_type(data_type) or not (content := _turn_fields(column, schema)[1]):
        return []
    path, content_type = f"{column}[].{content}", data_type.value_type.field(content).type
    if is_text_type(content_type):
        return [path]
    if is_list_type(content_type):
        part = content_type.value_type
        if is_text_type(part):
            return [f"{path}[]"]
        if (
            pa.types.is_struct(part)
            and part.get_field_index("text") >= 0
            and is_text_type(part.field("text").type)
        ):
            return [f"{path}[].text"]
    return []


def find_shape_faults(batch: pa.RecordBatch, shape: RecordShape) -> dict[int, str]:
    """Row -> reason for the records of a batch in canonical types that do not have the shape: a
    conversation without turns, a role that is not among `CHAT_ROLES`, arguments that are not JSON.
    Null columns are no fault: the corpus may have records of several files."""
    reason_by_row: dict[int, str] = {}
    for path in shape.arguments:
        _add_faults(
            batch,
            path,
            _find_argument_fault if path in shape.call_arguments else _find_turn_fault,
            reason_by_row,
        )
    for path in shape.roles:
        _add_faults(batch, path, _find_role_fault, reason_by_row)
    for column in shape.turns:
        if column in batch.schema.names:
            lengths = pc.list_value_length(batch.column(column))
            for row in np.flatnonzero(np.asarray(pc.fill_null(pc.equal(lengths, 0), False))):
                reason_by_row[int(row)] = "no_turns"
    return reason_by_row


def _find_role_fault(role: str | None) -> str:
    return "" if role is not None and role.strip().lower() in CHAT_ROLES else "unknown_role"


def _find_argument_fault(arguments: str | None) -> str:
    return "" if arguments is None or is_valid_json(arguments) else "bad_arguments"


def _find_turn_fault(text: str | None) -> str:
    """The fault of a turn as JSON."""
    if text is not None and not is_valid_json(text):
        return "not_json"
    turn = _parse_turn(text)
    role = turn.get("role", turn.get("from"))
    arguments = [call.get(_ARGUMENT_FIELD) for call in _iterate_calls(turn)]
    if any(isinstance(value, str) and not is_valid_json(value) for value in arguments):
        return "bad_arguments"
    if not isinstance(_content_of(turn), str | list | None):
        return "wrong_type"
    return _find_role_fault(role if isinstance(role, str) else None)


def find_record_fault(record: Mapping[str, Any], shape: RecordShape) -> str:
    """The reason why a record as a dictionary does not have the shape, or "": those of
    `find_shape_faults`, and `wrong_type` for a text or a content of another form than the shape
    has."""
    if any(record.get(column) == [] for column in shape.turns):
        reason = "no_turns"
    else:
        roles = [role for path in shape.roles for role in _values_at(record, path)]
        turns = [turn for column in shape.json_turns for turn in _values_at(record, f"{column}[]")]
        arguments = [text for path in shape.call_arguments for text in _values_at(record, path)]
        if not all(isinstance(text, str | None) for text in (*roles, *turns, *arguments)):
            return "wrong_type"
        faults = [
            *map(_find_role_fault, roles),
            *map(_find_turn_fault, turns),
            *map(_find_argument_fault, arguments),
        ]
        reason = next(filter(None, faults), "")
    has_form = all(
        _has_form(record.get(path.partition("[")[0]), _path_steps(path)[1:]) for path in shape.texts
    )
    return reason if has_form else "wrong_type"


def _path_steps(path: str) -> tuple[str, ...]:
    """The column and the steps of a path such as `messages[].content`."""
    return tuple(path.replace("[]", ".[]").split("."))


def _values_at(record: Mapping[str, Any], path: str) -> Iterator[Any]:
    column, *steps = _path_steps(path)
    return iterate_leaf(record.get(column), tuple(steps), fill_missing=True)


def _has_form(value: Any, steps: tuple[str, ...]) -> bool:
    """Whether a value has lists and objects where the path has them, and texts at its end; all of
    them may be null."""
    if value is None:
        return True
    if not steps:
        return isinstance(value, str)
    if steps[0] == "[]":
        return isinstance(value, list) and all(_has_form(element, steps[1:]) for element in value)
    return isinstance(value, dict) and _has_form(value.get(steps[0]), steps[1:])


def _add_faults(
    batch: pa.RecordBatch,
    path: str,
    find_fault: Callable[[str | None], str],
    reason_by_row: dict[int, str],
) -> None:
    """Adds the rows with a string at a path that has a fault. Each distinct string is checked
    once."""
    leaf = next((leaf for leaf in list_text_leaves(batch.schema) if str(leaf) == path), None)
    if leaf is None:
        return
    flat = flatten_leaf(batch.column(leaf.column), leaf)
    encoded = flat.texts.dictionary_encode(null_encoding="encode")
    faults = [find_fault(text) for text in encoded.dictionary.to_pylist()]
    if any(faults):
        numbers = np.asarray(encoded.indices)
        at_fault = np.flatnonzero(np.array([bool(reason) for reason in faults])[numbers])
        reason_by_row.update((int(flat.rows[at]), faults[numbers[at]]) for at in at_fault)
