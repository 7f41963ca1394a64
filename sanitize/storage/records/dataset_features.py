"""Features of `datasets`: what its files say about their columns beyond Arrow types (class labels,
images, ...), from input to output.

The description lies in the metadata of the Arrow schema, key `huggingface`, as JSON. It is kept as
it is for the columns of the output, and written to the card in the hub's YAML, from which
`load_dataset` restores it. `datasets` itself is not needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sanitize.core.text_cells import is_list_type
from sanitize.errors import InputRefused, printable_path

Features = Mapping[str, Any]
_METADATA_KEY = b"huggingface"
_TEXT = {"dtype": "string", "_type": "Value"}
# of values in JSON
_DTYPES = {
    pa.large_string(): "string",
    pa.bool_(): "bool",
    pa.int64(): "int64",
    pa.float64(): "float64",
}
_LIST_TYPES = {"List": "list", "LargeList": "large_list", "Sequence": "list"}
# types that `datasets` 2 to 5 knows; of media, the bytes lie in a column of their own type
MEDIA_TYPES = frozenset(
    ("Audio", "Image", "Video", "Pdf", "Mesh", "Nifti", "BioSequence", "BioStructure")
)
KNOWN_TYPES = MEDIA_TYPES | frozenset(
    (*_LIST_TYPES, "Value", "ClassLabel", "Translation", "TranslationVariableLanguages", "Json")
    + tuple(f"Array{dimensions}D" for dimensions in range(2, 6))
)


def read_features(schema: pa.Schema) -> str:
    """The features in the metadata of a file's schema as JSON; "" where it has none or they do not
    describe its columns."""
    try:
        features = json.loads((schema.metadata or {})[_METADATA_KEY])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return ""
    if (
        not isinstance(features, dict)
        or list(features) != schema.names
        and set(features) != set(schema.names)
    ):
        return ""
    return json.dumps({name: features[name] for name in schema.names})


def merge_features(found: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The features of a corpus from those of its files (path, JSON), which must be the same; none
    where a file has none.

    Raises InputRefused where the features of a column differ, or have a type that is not known.
    """
    merged: dict[str, Any] = {}
    if not all(features for _, features in found):
        return {}
    for path, text in dict(zip((text for _, text in found), found, strict=True)).values():
        for name, feature in json.loads(text).items():
            if not all(inner.get("_type") in KNOWN_TYPES for inner in _iterate_features(feature)):
                raise InputRefused(
                    f"{printable_path(path)}: column {name} has a feature type of `datasets` that"
                    f" is not known; expected one of {', '.join(sorted(KNOWN_TYPES))}. Cast the"
                    " column, or write the file without the metadata of `datasets`"
                )
            if merged.setdefault(name, feature) != feature:
                raise InputRefused(
                    f"{printable_path(path)}: column {name} has other features than in an earlier"
                    " file, such as other class labels; a column has the same features in a"
                    " corpus. Cast one of them, or run these inputs separately"
                )
    return merged


def _iterate_features(feature: Any) -> Iterator[Mapping[str, Any]]:
    """The features with a type (`_type`) inside a feature, itself first; {} for what is no
    feature."""
    if isinstance(feature, list):
        for inner in feature:
            yield from _iterate_features(inner)
    elif isinstance(feature, Mapping) and isinstance(feature.get("_type"), str):
        yield feature
        if "feature" in feature:
            yield from _iterate_features(feature["feature"])
    elif isinstance(feature, Mapping):
        for inner in feature.values():
            yield from _iterate_features(inner)
    else:
        yield {}


def is_media(feature: Any) -> bool:
    """True for images, sound and other files inside a column."""
    return isinstance(feature, Mapping) and feature.get("_type") in MEDIA_TYPES


def list_label_names(features: Features) -> list[tuple[str, str]]:
    """(column, name) of all class labels, which are published."""
    inner_features = [
        (column, inner)
        for column, feature in features.items()
        for inner in _iterate_features(feature)
    ]
    labels = [
        (column, inner) for column, inner in inner_features if inner.get("_type") == "ClassLabel"
    ]
    return [(column, str(name)) for column, label in labels for name in label.get("names") or ()]


def published_features(
    features: Features, columns: Sequence[tuple[str, str]], sources: Mapping[str, str]
) -> dict[str, Any]:
    """The features of the output. `columns` are its columns (name, policy), `sources` the input's
    name of a renamed one."""
    found = {}
    for name, policy in columns:
        feature = features.get(sources.get(name, name))
        if policy != "drop" and feature is not None:
            found[name] = _TEXT if policy == "pseudonymize" or name in sources else feature
    order = {name: number for number, name in enumerate(features)}
    return dict(sorted(found.items(), key=lambda item: order[sources.get(item[0], item[0])]))


def infer_features(schema: pa.Schema, json_lists: Collection[str]) -> dict[str, Any]:
    """Features for columns of canonical types, of which `json_lists` hold lists of JSON texts, so
    that `load_dataset` decodes these. Empty if another column has a type that JSON does not
    have."""
    try:
        json_feature = {"feature": {"_type": "Json"}, "_type": "List"}
        return {
            field.name: json_feature if field.name in json_lists else _infer_feature(field.type)
            for field in schema
        }
    except KeyError:
        return {}


def _infer_feature(data_type: pa.DataType) -> Any:
    if is_list_type(data_type):
        return {"feature": _infer_feature(data_type.value_type), "_type": "List"}
    if pa.types.is_struct(data_type):
        return {field.name: _infer_feature(field.type) for field in data_type}
    return {"dtype": _DTYPES[data_type], "_type": "Value"}


def to_yaml_list(features: Features) -> list[dict[str, Any]]:
    """The features in the form that the hub's cards have (`dataset_info: features:`)."""
    return [{"name": name, **_to_yaml(feature)} for name, feature in features.items()]


def _to_yaml(feature: Any) -> dict[str, Any]:
    if isinstance(feature, list):
        return {"list": _shorten(_to_yaml(feature[0]))}
    type_name = feature.get("_type")
    settings = {name: value for name, value in feature.items() if name not in ("_type", "feature")}
    if type_name in _LIST_TYPES:
        return {_LIST_TYPES[type_name]: _shorten(_to_yaml(feature["feature"])), **settings}
    if type_name == "Value":
        return settings
    if type_name is None:
        return {"struct": [{"name": name, **_to_yaml(inner)} for name, inner in feature.items()]}
    snake_name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type_name).lower()
    if type_name == "ClassLabel":
        settings = {
            "names": {str(number): name for number, name in enumerate(settings.get("names") or ())}
        }
    return {"dtype": {snake_name: settings} if settings else snake_name}


def _shorten(inner: dict[str, Any]) -> Any:
    """The element of a list: a type alone, or fields, without the word for it."""
    return next(iter(inner.values())) if list(inner) in (["dtype"], ["struct"]) else inner
