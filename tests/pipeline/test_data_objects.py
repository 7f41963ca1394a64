"""`run` over data in memory: the same type, columns, types and row order come back."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import sanitize
from sanitize.errors import UsageError
from tests.pipeline.test_datasets_in_and_out import make_dataset, make_features

ADDRESS = "ann.roe@example.com"

ANN = "ann.roe@example.com"


def make_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "kind": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
            "text": [f"Write to {ADDRESS}", None, ""],
            "at": [datetime.datetime(2020, 1, 2)] * 3,
            "level": pl.Series(["low", "high", None], dtype=pl.Enum(["low", "high"])),
            "meta": [{"by": ADDRESS, "n": 1}, None, {"by": None, "n": 3}],
            "small": pl.Series([1, 2, None], dtype=pl.UInt8),
            "pair": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int8, 2)),
        }
    )


@pytest.mark.parametrize("is_lazy", [False, True])
def test_polars_frames(is_lazy: bool) -> None:
    frame = make_frame()
    clean = sanitize.run(frame.lazy() if is_lazy else frame, plan="redact", workers=1)
    assert isinstance(clean, pl.LazyFrame if is_lazy else pl.DataFrame)
    collected = clean.lazy().collect()
    assert collected.schema == frame.schema and collected.columns == frame.columns
    assert collected["text"].to_list() == ["Write to [EMAIL_ADDRESS]", None, ""]
    assert collected["meta"].to_list() == [
        {"by": "[EMAIL_ADDRESS]", "n": 1},
        None,
        {"by": None, "n": 3},
    ]
    assert collected.drop("text", "meta").equals(frame.drop("text", "meta"))


def test_arrow_table_with_ids_is_published_too(tmp_path: Path) -> None:
    schema = pa.schema([("doc_id", pa.int32()), ("notes", pa.string()), ("user_id", pa.string())])
    table = pa.table(
        {"doc_id": [7, 8], "notes": [ADDRESS, "x"], "user_id": ["u1", None]}, schema=schema
    )
    clean = sanitize.run(table, tmp_path / "out", plan="redact", workers=1, text_column="notes")
    assert clean.schema == table.schema
    assert clean.column("doc_id").to_pylist() == [7, 8] and clean.column("notes").to_pylist() == [
        "[EMAIL_ADDRESS]",
        "x",
    ]
    assert clean.column("user_id")[0].as_py() != "u1" and clean.column("user_id")[1].as_py() is None
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0
    # nothing to do
    assert sanitize.run(
        table, tmp_path / "out", plan="redact", workers=1, text_column="notes"
    ).equals(clean)


def test_maps_of_an_arrow_table_stay_maps() -> None:
    maps = pa.array(
        [[("k", "ann.roe@example.com"), ("l", None)], None, []], pa.map_(pa.string(), pa.string())
    )
    table = pa.table({"text": ["x", "y", None], "m": maps})
    clean = sanitize.run(table, plan="redact", seed=1)
    assert clean.schema == table.schema and clean["m"].to_pylist() == [
        [("k", "[EMAIL_ADDRESS]"), ("l", None)],
        None,
        [],
    ]


def test_dataset_with_selected_rows() -> None:
    data = make_dataset("a", 6).select([4, 1, 3])
    clean = sanitize.run(data, plan="redact", workers=1, drop="notes")
    features = make_features()
    del features["notes"]
    assert type(clean) is type(data) and clean.features == features and clean["n"][:] == [4, 1, 3]
    assert [text.partition(":")[0] for text in clean["text"]] == ["a 4", "a 1", "a 3"]
    assert not any("@" in text for text in clean["text"])


def test_dataset_dict_counts_over_all_splits_and_keeps_empty_ones() -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.DatasetDict(
        {"test": make_dataset("t", 2), "train": make_dataset("r", 3), "empty": make_dataset("e", 0)}
    )
    clean = sanitize.run(data, plan="rmft", workers=1, seed=1)
    assert list(clean) == list(data) and all(
        clean[split].features == data[split].features for split in data
    )
    assert clean.num_rows == data.num_rows
    assert {split: sum(ADDRESS in text for text in clean[split]["text"]) for split in data} == {
        "test": 0,
        "train": 1,
        "empty": 0,
    }


def test_rows_that_are_missing_are_told() -> None:
    frame = pl.DataFrame(
        {
            "messages": [[{"role": "user", "content": "Hi"}]] * 20
            + [[{"role": "Larry", "content": "Hi"}]]
        }
    )
    with pytest.warns(
        UserWarning, match=r"1 of 21 rows are not in the result \(1 quarantined: unknown_role\)"
    ):
        assert sanitize.run(frame, plan="redact", workers=1).height == 20


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            pl.DataFrame({"text": ["a"], "x": pl.Series([object()], dtype=pl.Object)}),
            "column x holds Python objects",
        ),
        (
            pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]),
            "two columns have the same name",
        ),
        (pl.DataFrame({"n": [1]}), "the data: there is no column text"),
        (pl.DataFrame({"text": []}, schema={"text": pl.String}), "the input holds no record"),
        ([1, 2], "run: inputs is a list"),
    ],
)
def test_what_cannot_be_run(data: Any, message: str) -> None:
    with pytest.raises(sanitize.SanitizeError, match=message):
        sanitize.run(data, plan="redact", workers=1)


def test_an_object_to_a_url_is_refused() -> None:
    with pytest.raises(sanitize.SanitizeError, match="out is a URL"):
        sanitize.run(make_frame(), "s3://bucket/out", plan="redact")


def test_a_split_without_a_name_for_a_file_is_refused() -> None:
    datasets = pytest.importorskip("datasets")
    with pytest.raises(sanitize.SanitizeError, match="no name for a file"):
        sanitize.run(datasets.DatasetDict({"my split": make_dataset("a", 1)}), plan="redact")


@pytest.mark.slow
def test_what_a_run_does_not_read_is_not_in_the_result() -> None:
    """Metadata, categories that do not occur and descriptions are not searched; columns without
    text are dropped. A warning names them."""
    table = pa.table({"text": ["Hi"], "blob": [b"x"]}).replace_schema_metadata({"who": ANN})
    with pytest.warns(UserWarning, match="metadata of the schema") as warned:
        assert sanitize.run(table, plan="redact", workers=1).schema.equals(
            pa.schema({"text": pa.string()}), check_metadata=True
        )
    assert any("columns that hold no text: blob" in str(one.message) for one in warned)
    enum = pl.Enum([ANN, "x"])
    frame = pl.DataFrame(
        {"text": ["Hi", "a"], "e": [None, "x"], "l": [["x"], []]},
        schema={"text": pl.String, "e": enum, "l": pl.List(enum)},
    )
    result = sanitize.run(frame, plan="redact", workers=1)
    assert (result.schema["e"], result.schema["l"], result["e"].to_list()) == (
        pl.Enum(["x"]),
        pl.List(pl.String),
        [None, "x"],
    )
    datasets = pytest.importorskip("datasets")
    described = datasets.Dataset.from_dict({"text": ["Hi"], "blob": [b"x"]})
    described.info.description = ANN
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert sanitize.run(described, plan="redact", workers=1, drop="blob").info.description == ""
    assert [
        "description" in str(one.message)
        for one in caught
        if "not in the result" in str(one.message)
    ] == [True]
    with pytest.raises(
        sanitize.SanitizeError, match="records one by one, such as an IterableDataset"
    ):
        sanitize.run(described.to_iterable_dataset(), plan="redact")


def test_errors_name_the_split() -> None:
    datasets = pytest.importorskip("datasets")
    first, other = (datasets.Dataset.from_dict({"text": ["x"], "n": [n]}) for n in (1, "a"))
    with pytest.raises(sanitize.SanitizeError, match=r"\Asplit test: column n has other features"):
        sanitize.run(datasets.DatasetDict(train=first, test=other), plan="redact", workers=1)
    with pytest.raises(sanitize.SanitizeError, match="has no splits"):
        sanitize.run(datasets.DatasetDict({}), plan="redact")


def test_hub_names_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("squad", "owner/name"):
        with pytest.raises(
            sanitize.SanitizeError,
            match=f"hf download --repo-type dataset {name} --local-dir FOLDER",
        ):
            sanitize.run(name, "out")
    with pytest.raises(sanitize.SanitizeError, match="hf download --repo-type dataset owner/name"):
        sanitize.run("hf://datasets/owner/name/data.parquet", "out")


def test_a_table_with_a_type_that_parquet_lacks_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["ann.roe@example.com"])])
    with pytest.raises(UsageError, match="column c is of a type that cannot be searched") as caught:
        sanitize.run(pa.table({"text": ["a"], "c": union}), plan="redact")
    assert "ann.roe" not in str(caught.value)
