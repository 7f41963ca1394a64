"""JSON schemas of plans and recipes, for editors that check TOML files:
`docs/reference/plan.schema.json` and `recipe.schema.json`.

Written by `make generate`; a test compares.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from docs.generate.markdown import RESOLVED_SETTINGS, read_field_comments
from sanitize.core import part_protocols
from sanitize.plans import plan
from sanitize.train import objectives, recipe

FOLDER = Path(__file__).resolve().parents[1] / "reference"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PART_TABLES: Mapping[part_protocols.PartType, str] = {
    "drop": "dropper",
    "edit": "editor",
    "find": "finder",
}


def load_part_model(part_type: part_protocols.PartType, name: str) -> type[BaseModel]:
    """The class with the settings of a part."""
    if name == "patterns":
        return part_protocols.Finder
    module = importlib.import_module(f"sanitize.{part_protocols.PACKAGES[part_type]}.{name}")
    model: type[BaseModel] = getattr(module, "".join(word.title() for word in name.split("_")))
    return model


def describe_model(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a model, with the comments of its fields as descriptions; the models that it
    contains go to `definitions`."""
    schema = model.model_json_schema(ref_template="#/$defs/{model}")
    models = {model.__name__: model}
    for name, definition in schema.pop("$defs", {}).items():
        definitions.setdefault(name, definition)
    for field in model.model_fields.values():
        for candidate in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                models[candidate.__name__] = candidate
    for name, described in models.items():
        properties = (schema if described is model else definitions[name])["properties"]
        for field_name, comment in read_field_comments(described).items():
            if field_name in properties:
                properties[field_name]["description"] = comment
    schema["properties"] = {
        name: entry for name, entry in schema["properties"].items() if name not in RESOLVED_SETTINGS
    }
    return schema


def describe_part(model: type[BaseModel], name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of the table of a part or an objective, whose `use` is its name."""
    schema = describe_model(model, definitions)
    schema["properties"] = {**schema["properties"], "use": {"const": name, "type": "string"}}
    schema["required"] = sorted({"use", *schema.get("required", ())})
    return schema


OWN_PART = {
    "type": "object",
    "description": "a part of your own, by the dotted path of its module",
    "properties": {"use": {"type": "string", "pattern": "[.]"}},
    "required": ["use"],
}


def build_plan_schema() -> dict[str, Any]:
    """The schema of a plan file."""
    definitions: dict[str, Any] = {}
    schema = describe_model(plan._PlanFile, definitions)
    for part_type, table in PART_TABLES.items():
        names = part_protocols.list_part_names(part_type)
        for name in names:
            definitions[f"{table}_{name}"] = describe_part(
                load_part_model(part_type, name), name, definitions
            )
        definitions[table] = {
            "oneOf": [*({"$ref": f"#/$defs/{table}_{name}"} for name in names), OWN_PART]
        }
    for part_type in ("drop", "edit"):
        schema["properties"][part_type]["items"] = {"$ref": f"#/$defs/{PART_TABLES[part_type]}"}
    definitions["FindSettings"]["properties"]["finders"]["items"] = {
        "anyOf": [{"type": "string"}, {"$ref": "#/$defs/finder"}]
    }
    return {"$schema": DIALECT, **schema, "title": "Plan of sanitize", "$defs": definitions}


def build_recipe_schema() -> dict[str, Any]:
    """The schema of a recipe file."""
    definitions: dict[str, Any] = {}
    schema = describe_model(recipe.Recipe, definitions)
    names = objectives.list_objectives()
    for name in names:
        model = type(objectives.load_objective({"use": name}, "recipe"))
        definitions[f"objective_{name}"] = describe_part(model, name, definitions)
    schema["properties"]["objective"] = {
        "oneOf": [*({"$ref": f"#/$defs/objective_{name}"} for name in names), OWN_PART]
    }
    return {"$schema": DIALECT, **schema, "title": "Recipe of sanitize-train", "$defs": definitions}


SCHEMAS = {"plan.schema.json": build_plan_schema, "recipe.schema.json": build_recipe_schema}


def render_schema(name: str) -> str:
    """The text of one of the two files, without the titles that pydantic makes from names."""
    schema = SCHEMAS[name]()
    schema["$defs"] = {
        key: _without_titles(definition) for key, definition in schema["$defs"].items()
    }
    schema["properties"] = _without_titles(schema["properties"])
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _without_titles(data: Any) -> Any:
    if isinstance(data, dict):
        return {
            key: _without_titles(value)
            for key, value in data.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_without_titles(entry) for entry in data] if isinstance(data, list) else data


def write_schemas() -> None:
    """Write both files."""
    for name in SCHEMAS:
        (FOLDER / name).write_text(render_schema(name), "utf-8")
