"""Markdown tables, and the settings of a pydantic model as a table."""

from __future__ import annotations

import inspect
import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

# set from a model or a file when a plan is loaded, never written in a plan
RESOLVED_SETTINGS = {
    "model_sha256",
    "rules_sha256",
    "sha256",
    "versions",
    "lower",
    "upper",
    "bounds_source",
}


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [
        f"| {' | '.join(row)} |".replace("|  |", "| |")
        for row in [head, ["---"] * len(head), *rows]
    ]


def read_field_comments(model: type[BaseModel]) -> dict[str, str]:
    """The comment at the end of the line that defines each field of a model."""
    comments: dict[str, str] = {}
    for model_class in reversed(model.__mro__):
        if not (issubclass(model_class, BaseModel) and model_class is not BaseModel):
            continue
        for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(model_class)).readline):
            field = re.match(r"\s*(\w+)\s*:", token.line)
            if token.type == tokenize.COMMENT and field:
                comments[field[1]] = token.string.lstrip("# ")
    return comments


def describe_type(schema: Mapping[str, Any]) -> str:
    """The type of a setting, from its JSON schema, in a few words such as `whole number, 1 to
    100`."""
    if "anyOf" in schema:
        return " or ".join(
            describe_type(option) for option in schema["anyOf"] if option.get("type") != "null"
        )
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "$ref" in schema:
        return "a table"
    if schema.get("type") == "array":
        return (
            "list" if not (items := schema.get("items", {})) else f"list of: {describe_type(items)}"
        )
    names = {
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "boolean": "true or false",
        "object": "a table",
    }
    limits = [
        f"{word} {schema[key]}"
        for key, word in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "above"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "below"),
        )
        if key in schema
    ]
    return ", ".join([names.get(str(schema.get("type")), "any"), *limits])


def format_default(value: object) -> str:
    """The default of a setting as TOML has it; a blank for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | list):
        return f"`[{', '.join(format_default(entry).strip('`') for entry in value)}]`"
    if isinstance(value, Mapping):
        return "`{}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def format_settings(model: type[BaseModel], hidden: Iterable[str] = ()) -> list[str]:
    """A table of the settings of a model: name, type, default and, where the code has them,
    comments."""
    properties = model.model_json_schema()["properties"]
    comments = read_field_comments(model)
    left_out = {"use", *RESOLVED_SETTINGS, *hidden}
    rows = []
    for name, field in model.model_fields.items():
        if name in left_out or properties[name].get("const") == 0:
            continue
        default = (
            "required"
            if field.is_required()
            else format_default(field.get_default(call_default_factory=True))
        )
        rows.append(
            [
                f"`{name}`",
                describe_type(properties[name]),
                default,
                comments.get(name, "").replace("|", "\\|"),
            ]
        )
    if not any(row[3] for row in rows):
        rows = [row[:3] for row in rows]
    return (
        format_table(["setting", "type", "default", "meaning"][: len(rows[0])], rows)
        if rows
        else ["No settings."]
    )
