"""Features of `datasets`: read from schema metadata, written as the hub's YAML exactly as
`datasets` does."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from sanitize.errors import InputRefused
from sanitize.storage.records.dataset_features import (
    list_label_names,
    merge_features,
    published_features,
    read_features,
    to_yaml_list,
)

datasets = pytest.importorskip("datasets")
Value, ClassLabel, List = datasets.Value, datasets.ClassLabel, datasets.List


def all_features() -> Any:
    return datasets.Features(
        {
            "text": Value("string"),
            "label": ClassLabel(names=["neg", "pos"]),
            "tags": List(Value("string")),
            "three": List(Value("float32"), length=3),
            "labels": List(ClassLabel(names=["x", "y"])),
            "turns": List({"role": Value("string"), "score": Value("int8")}),
            "meta": {"source": Value("string"), "inner": {"at": Value("timestamp[us]")}},
            "large": datasets.LargeList(Value("large_string")),
            "image": datasets.Image(),
            "sound": datasets.Audio(sampling_rate=16_000),
            "matrix": datasets.Array2D((2, 2), "int32"),
            "pair": datasets.Translation(["de", "en"]),
        }
    )


def test_yaml_restores_the_same_features() -> None:
    features = all_features()
    found = to_yaml_list(json.loads(json.dumps(features.to_dict())))
    assert found == features._to_yaml_list()
    assert datasets.Features._from_yaml_list(json.loads(json.dumps(found))) == features


def test_metadata_of_a_dataset_is_read() -> None:
    data = datasets.Dataset.from_dict(
        {"text": ["a"], "label": [1]},
        features=datasets.Features(
            {"text": Value("string"), "label": ClassLabel(names=["n", "p"])}
        ),
    )
    assert json.loads(read_features(data.data.table.schema)) == data.features.to_dict()
    assert list_label_names(data.features.to_dict()) == [("label", "n"), ("label", "p")]


@pytest.mark.parametrize(
    "metadata",
    [None, b"", b"{}", b'{"info": 3}', b'{"info": {"features": {"other": {}}}}', b"[" * 100_000],
)
def test_other_metadata_is_ignored(metadata: bytes | None) -> None:
    schema = pa.schema(
        [("text", pa.string())], metadata=None if metadata is None else {b"huggingface": metadata}
    )
    assert read_features(schema) == ""


def test_files_must_agree() -> None:
    first = json.dumps({"label": {"names": ["n", "p"], "_type": "ClassLabel"}})
    assert merge_features([("a", first), ("b", first)]) == json.loads(first)
    assert merge_features([("a", first), ("b", "")]) == {}
    with pytest.raises(InputRefused, match="column label has other features"):
        merge_features([("a", first), ("b", first.replace('"p"', '"q"'))])


@pytest.mark.parametrize(
    "feature",
    [
        {"_type": "Hologram"},
        {"feature": {"_type": "Hologram"}, "_type": "List"},
        [{"a": {"_type": "New"}}],
        3,
    ],
)
def test_unknown_types_are_refused(feature: Any) -> None:
    with pytest.raises(InputRefused, match="feature type of `datasets` that is not known"):
        merge_features([("a.parquet", json.dumps({"x": feature}))])


def test_features_of_the_output_follow_the_policies() -> None:
    text, number = {"dtype": "string", "_type": "Value"}, {"dtype": "int64", "_type": "Value"}
    columns = [
        ("doc_id", "keep"),
        ("text", "sanitize"),
        ("n", "keep"),
        ("author", "pseudonymize"),
        ("image", "drop"),
    ]
    features = {
        "n": number,
        "text": text,
        "key": number,
        "author": text,
        "image": {"_type": "Image"},
    }
    assert published_features(features, columns, {"doc_id": "key"}) == {
        "n": number,
        "text": text,
        "doc_id": text,
        "author": text,
    }
