"""The namespace of Polars series, the function for `dataset.map`, and frames of conversations."""

from __future__ import annotations

import json

import polars as pl
import pyarrow as pa
import pytest

import sanitize
import sanitize.polars  # registers the namespace

TEXTS = pl.Series("note", ["Write to ann.roe@example.com", None])


def test_series_namespace() -> None:
    clean = TEXTS.sanitize.redact()  # type: ignore[attr-defined]
    assert clean.name == "note" and clean.to_list() == ["Write to [EMAIL_ADDRESS]", None]
    found = TEXTS.sanitize.detect(values=True)  # type: ignore[attr-defined]
    assert found.equals(sanitize.detect(TEXTS, values=True)) and found["value"].to_list() == [
        "ann.roe@example.com"
    ]
    seeded = [TEXTS.sanitize.redact(plan="surrogates", seed=3).to_list() for _ in range(2)]  # type: ignore[attr-defined]
    assert seeded[0] == seeded[1] != TEXTS.to_list()


def test_redact_batch_with_dataset_map() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["n", "p"])}
    )
    data = datasets.Dataset.from_dict(
        {"text": TEXTS.to_list() * 3, "label": [0, 1] * 3}, features=features
    )
    clean = data.map(
        sanitize.redact_batch,
        batched=True,
        batch_size=2,
        fn_kwargs={"plan": "surrogates", "seed": 5},
    )
    assert clean.features == features and clean["label"][:] == data["label"][:]
    assert len(set(clean["text"][::2])) == 1 and "ann.roe@example.com" not in clean["text"][0]


def test_redact_batch_leaves_other_columns_alone() -> None:
    marker = object()
    batch = {"text": ["ann.roe@example.com"], "image": [marker], "n": [1], "notes": ["x"]}
    clean = sanitize.redact_batch(batch, drop="notes")
    assert clean == {"text": ["[EMAIL_ADDRESS]"], "image": [marker], "n": [1]}


def test_redact_batch_refuses_plans_that_count_over_the_corpus() -> None:
    with pytest.raises(
        sanitize.PlanError, match=r"edit\[0\].keep = 1 counts over the whole corpus"
    ):
        sanitize.redact_batch({"text": ["a"]}, plan="rmft")
    with pytest.raises(sanitize.SanitizeError, match="give one of them"):
        sanitize.redact_batch({"text": ["a"]}, plan="pseudonymize")
    with pytest.raises(sanitize.SanitizeError, match="expected column -> values"):
        sanitize.redact_batch(["a"])


def test_redact_of_conversations_keeps_roles_and_json() -> None:
    call = {
        "function": {"name": "send", "arguments": json.dumps({"to": "ann.roe@example.com", "n": 1})}
    }
    frame = pl.DataFrame(
        {
            "messages": [
                [{"role": "user", "content": "to ann.roe@example.com", "tool_calls": [call]}]
            ]
        }
    )
    (turn,) = sanitize.redact(frame)["messages"].to_list()[0]
    assert turn["role"] == "user" and turn["content"] == "to [EMAIL_ADDRESS]"
    assert json.loads(turn["tool_calls"][0]["function"]["arguments"]) == {
        "to": "[EMAIL_ADDRESS]",
        "n": 1,
    }


@pytest.mark.parametrize("kind", ["table", "reader", "frame"])
def test_streams_of_arrow_data(kind: str) -> None:
    table = pa.table({"text": ["ann.roe@example.com", "x"]})
    source = {"table": table, "reader": table.to_reader(), "frame": pl.DataFrame(table)}[kind]
    batches = list(sanitize.stream(source, plan="redact", seed=1))
    assert [text for batch in batches for text in batch.column("text").to_pylist()] == [
        "[EMAIL_ADDRESS]",
        "x",
    ]
