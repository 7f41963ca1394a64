"""Shapes of instruction and chat data: recognised from the columns of a file, and checked record by record.

    messages        a list of turns with role and content, or from and value: also called conversations, conversation or chat
    preference      chosen and rejected
    prompt          prompt with completion, response or answer
    instruction     instruction with output, response or answer

Each of these columns holds a text, or a list of turns. A turn's content is a text, or a list of parts (`{"type": "text", "text": ...}`).
All strings of a record are searched, whatever its shape; the shape says which of them is the main text, which are roles (they stay as they
are) and which hold JSON (their inner strings are searched). `--text-column` overrides it: then no shape is recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.text_cells import (
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

# the columns of each shape in order of preference: every group must have one of its names; the first is the main text
_SHAPES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "chat": (("messages", "conversations", "conversation", "chat"),),
    "preference": (("chosen",), ("rejected",)),
    "prompt and completion": (("prompt",), ("completion", "response", "answer")),
    "instruction": (("instruction",), ("output", "response", "answer")),
}
_OPTIONAL_COLUMNS = frozenset(("prompt", "input", "context", "system", "question"))  # of the last three shapes
_TURN_FIELDS = (("role", "content"), ("from", "value"))
_ARGUMENT_FIELD = "arguments"  # of a tool call: JSON in a string
# what chat formats call the parties of a conversation, in lower case
KNOWN_ROLES = frozenset(
    "system developer user assistant tool function human gpt chatgpt bard bing claude model bot ai agent chatbot prompter observation "
    "environment context critic ipython tools function_call function_response tool_call tool_calls tool_response tool_result "
    "instruction input output".split()
)


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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RecordShape:
        """The shape whose fields are JSON data."""
        return cls(name=str(data["name"]), **{name: tuple(data[name]) for name in ("texts", "roles", "arguments", "turns")})

    def describe(self) -> str:
        """The shape in one line, such as `chat: texts in messages[].content; kept: messages[].role`."""
        parts = [f"texts in {', '.join(self.texts)}"]
        parts += [f"kept: {', '.join(self.roles)}"] if self.roles else []
        parts += [f"JSON in {', '.join(self.arguments)}"] if self.arguments else []
        return f"{self.name}: {'; '.join(parts)}"

    def select_cells(self, leaves: list[LeafPath]) -> list[LeafPath]:
        """The leaves that are text cells: without roles, and with the inner strings of JSON in place of the JSON."""
        cells = [leaf for leaf in leaves if str(leaf) not in self.roles]
        return [LeafPath(leaf.column, (*leaf.steps, JSON_STEP)) if str(leaf) in self.arguments else leaf for leaf in cells]


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """A schema in canonical types, as `recognize_shape` expects it."""
    return pa.schema([(field.name, canonical_type(field.type)) for field in schema])


def recognize_shape(schema: pa.Schema) -> RecordShape | None:
    """The shape of a file's records, from its columns in canonical types; None where they are none of the shapes."""
    for name, groups in _SHAPES.items():
        columns = [next((column for column in group if _find_texts(column, schema)), None) for group in groups]
        if None in columns or (name == "chat" and not is_list_type(schema.field(columns[0]).type)):
            continue
        optional = [column for column in schema.names if column in _OPTIONAL_COLUMNS and name != "chat" and _find_texts(column, schema)]
        chosen = list(dict.fromkeys([*(column for column in columns if column), *optional]))
        leaves = [leaf for leaf in list_text_leaves(schema) if leaf.column in chosen]
        turns = tuple(column for column in chosen if is_list_type(schema.field(column).type))
        role_paths = {f"{column}[].{_turn_fields(column, schema)[0]}" for column in turns}
        return RecordShape(
            name=name,
            texts=tuple(path for column in chosen for path in _find_texts(column, schema)),
            roles=tuple(str(leaf) for leaf in leaves if str(leaf) in role_paths),
            arguments=tuple(str(leaf) for leaf in leaves if leaf.column in turns and leaf.steps[-1] == _ARGUMENT_FIELD),
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
    """The paths of the texts of a column: its own, or that of the contents of its turns; none where it holds neither."""
    if column not in schema.names:
        return []
    data_type = schema.field(column).type
    if is_text_type(data_type):
        return [column]
    if not is_list_type(data_type) or not (content := _turn_fields(column, schema)[1]):
        return []
    path, content_type = f"{column}[].{content}", data_type.value_type.field(content).type
    if is_text_type(content_type):
        return [path]
    if is_list_type(content_type):
        part = content_type.value_type
        if is_text_type(part):
            return [f"{path}[]"]
        if pa.types.is_struct(part) and part.get_field_index("text") >= 0 and is_text_type(part.field("text").type):
            return [f"{path}[].text"]
    return []


def find_shape_faults(batch: pa.RecordBatch, shape: RecordShape) -> dict[int, str]:
    """Row -> reason for the records of a batch in canonical types that do not have the shape: a conversation without turns, a role that is
    not among `KNOWN_ROLES`, arguments that are not JSON. Null columns are no fault: the corpus may have records of several files."""
    reason_by_row: dict[int, str] = {}
    for path in shape.arguments:
        _add_faults(batch, path, "bad_arguments", lambda text: text is None or is_valid_json(text), reason_by_row)
    for path in shape.roles:
        _add_faults(batch, path, "unknown_role", lambda text: text is not None and text.strip().lower() in KNOWN_ROLES, reason_by_row)
    for column in shape.turns:
        if column in batch.schema.names:
            lengths = pc.list_value_length(batch.column(column))
            for row in np.flatnonzero(np.asarray(pc.fill_null(pc.equal(lengths, 0), False))):
                reason_by_row[int(row)] = "no_turns"
    return reason_by_row


def find_record_fault(record: Mapping[str, Any], shape: RecordShape) -> str:
    """The reason why a record as a dictionary does not have the shape, or "": those of `find_shape_faults`, and `wrong_type` for a text or
    a content of another form than the shape has."""
    if any(record.get(column) == [] for column in shape.turns):
        reason = "no_turns"
    else:
        roles = [role for path in shape.roles for role in _values_at(record, path)]
        arguments = [text for path in shape.arguments for text in _values_at(record, path)]
        if not all(isinstance(text, str | None) for text in (*roles, *arguments)):
            return "wrong_type"
        is_known = all(role is not None and role.strip().lower() in KNOWN_ROLES for role in roles)
        is_json = all(text is None or is_valid_json(text) for text in arguments)
        reason = "unknown_role" if not is_known else "bad_arguments" if not is_json else ""
    has_form = all(_has_form(record.get(path.partition("[")[0]), _path_steps(path)[1:]) for path in shape.texts)
    return reason if has_form else "wrong_type"


def _path_steps(path: str) -> tuple[str, ...]:
    """The column and the steps of a path such as `messages[].content`."""
    return tuple(path.replace("[]", ".[]").split("."))


def _values_at(record: Mapping[str, Any], path: str) -> Iterator[Any]:
    column, *steps = _path_steps(path)
    return iterate_leaf(record.get(column), tuple(steps), fill_missing=True)


def _has_form(value: Any, steps: tuple[str, ...]) -> bool:
    """Whether a value has lists and objects where the path has them, and texts at its end; all of them may be null."""
    if value is None:
        return True
    if not steps:
        return isinstance(value, str)
    if steps[0] == "[]":
        return isinstance(value, list) and all(_has_form(element, steps[1:]) for element in value)
    return isinstance(value, dict) and _has_form(value.get(steps[0]), steps[1:])


def _add_faults(
    batch: pa.RecordBatch, path: str, reason: str, is_valid: Callable[[str | None], bool], reason_by_row: dict[int, str]
) -> None:
    """Adds the rows with an invalid string at a path. Each distinct string is checked once."""
    leaf = next((leaf for leaf in list_text_leaves(batch.schema) if str(leaf) == path), None)
    if leaf is None:
        return
    flat = flatten_leaf(batch.column(leaf.column), leaf)
    encoded = flat.texts.dictionary_encode(null_encoding="encode")
    invalid = np.array([not is_valid(text) for text in encoded.dictionary.to_pylist()], np.bool_)
    if invalid.any():
        reason_by_row.update(dict.fromkeys(flat.rows[invalid[np.asarray(encoded.indices)]].tolist(), reason))


def infer_turns(values: list[Any]) -> list[Any]:
    """The sampled values of a column of turns without those of another form than the first one, so that the others have one type: contents
    are texts, or lists of parts. All values where no list of turns is among them."""
    forms = [_content_form(value) for value in values]
    first = next((form for form in forms if form), "")
    return [value for value, form in zip(values, forms, strict=True) if form in ("", first)] if first else values


def _content_form(value: Any) -> str:
    """`text` or `parts` by the contents of a list of turns; `mixed` with both, "" where it is no such list."""
    if not isinstance(value, list):
        return ""
    contents = [turn[field] for turn in value if isinstance(turn, dict) for _, field in _TURN_FIELDS if field in turn]
    forms = {"text" if isinstance(content, str) else "parts" for content in contents if isinstance(content, str | list)}
    return forms.pop() if len(forms) == 1 else "mixed" if forms else ""
