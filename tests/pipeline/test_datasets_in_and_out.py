"""A folder of `datasets` goes through a run and keeps its splits, features, columns and row
order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sanitize

datasets = pytest.importorskip("datasets")


def make_features(**more: Any) -> Any:
    columns = {
        "label": datasets.ClassLabel(names=["neg", "pos"]),
        "notes": datasets.Value("string"),
        "text": datasets.Value("string"),
        "tags": datasets.List(datasets.Value("string")),
        "n": datasets.Value("int32"),
    }
    return datasets.Features({**columns, **more})


def make_dataset(split: str, rows: int) -> Any:
    columns = {
        "label": [row % 2 for row in range(rows)],
        "notes": ["x"] * rows,
        "text": [
            f"{split} {row}: write to ann.roe@example.com or bob{row}@example.com"
            for row in range(rows)
        ],
        "tags": [["a", None]] * rows,
        "n": list(range(rows)),
    }
    return datasets.Dataset.from_dict(columns, features=make_features())


@pytest.fixture(scope="module")
def dataset_dict() -> Any:
    return datasets.DatasetDict(
        {name: make_dataset(name, rows) for name, rows in (("test", 3), ("train", 5), ("extra", 2))}
    )


@pytest.fixture(scope="module")
def saved(dataset_dict: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "in"
    dataset_dict.save_to_disk(folder)
    return folder


def load(folder: Path) -> Any:
    return datasets.load_dataset(str(folder), cache_dir=str(folder.parent / "cache"))


@pytest.mark.slow
def test_splits_and_features_survive(dataset_dict: Any, saved: Path, tmp_path: Path) -> None:
    preview = sanitize.explain(saved, plan="redact")
    result = sanitize.run(saved, tmp_path / "out", plan="rmft", workers=1, seed=1)
    assert [column.name for column in result.columns] == ["text", "label", "notes", "tags", "n"]
    assert preview.columns == result.columns
    corpus = sanitize.Corpus.open(tmp_path / "out")
    assert corpus.splits == {"train": 5, "test": 3, "extra": 2}
    loaded = load(tmp_path / "out")
    for split, data in dataset_dict.items():
        assert loaded[split].features == data.features
        assert loaded[split]["n"][:] == data["n"][:] and loaded[split]["tags"][:] == data["tags"][:]
        assert [text.partition(":")[0] for text in loaded[split]["text"]] == [
            text.partition(":")[0] for text in data["text"]
        ]
    kept = {
        split: sum("ann.roe@example.com" in text for text in data["text"])
        for split, data in loaded.items()
    }
    assert kept == {"train": 1, "test": 0, "extra": 0}  # over all splits: the first is in train
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0
    with pytest.raises(sanitize.SanitizeError, match="there is no split dev"):
        corpus.table(split="dev")


def test_per_split_keeps_the_first_of_each(saved: Path, tmp_path: Path) -> None:
    sanitize.run(saved, tmp_path / "out", plan="rmft", workers=1, seed=1, per_split=True)
    corpus = sanitize.Corpus.open(tmp_path / "out")
    for split in corpus.splits:
        texts = corpus.table(["text"], split=split).column("text").to_pylist()
        assert ["ann.roe@example.com" in text for text in texts] == [True] + [False] * (
            len(texts) - 1
        )
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0


@pytest.mark.slow
@pytest.mark.parametrize("dropper", ["exact_dup", "near_dup"])
def test_per_split_with_dropped_documents(dropper: str, tmp_path: Path) -> None:
    """Counts are those of the documents that remain in all splits, also where an erasure drops
    further ones."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    long_text = (
        "we met ann.roe@example.com in the long hall beside the old mill near the river and spoke"
        " of the weather until noon"
    )
    train = [("a", "u1", long_text), ("b", "u2", long_text), ("c", "u1", "for cy.lee@example.com")]
    test = [
        ("d", "u2", "to bob.day@example.com and bob.day@example.com"),
        ("e", "u1", "by eve.fox@example.com"),
    ]
    for split, rows in (("train", train), ("test", test)):
        lines = [
            json.dumps(dict(zip(("doc_id", "user_id", "text"), row, strict=True))) for row in rows
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    plan = tmp_path / "p.toml"
    find, edit = (
        '[find]\nkinds=["EMAIL_ADDRESS"]\nfinders=["patterns"]\n',
        '[[edit]]\nuse="redact"\nkinds=["EMAIL_ADDRESS"]\n',
    )
    plan.write_text(f'{find}[[drop]]\nuse="{dropper}"\n{edit}')
    result = sanitize.run(folder, out, plan=plan, workers=1, seed=1, per_split=True)
    together = sanitize.run(folder, tmp_path / "together", plan=plan, workers=1, seed=1)
    assert result.documents_out == together.documents_out < 5
    assert result.by_kind["EMAIL_ADDRESS"] == together.by_kind["EMAIL_ADDRESS"]
    sanitize.subject(tmp_path / "out.private", ["user:u1"], erase=True, workers=1)
    corpus = sanitize.Corpus.open(out)
    remaining = [
        doc_id
        for split in corpus.splits
        for doc_id in corpus.table(["doc_id"], split=split).column("doc_id").to_pylist()
    ]
    assert sorted(remaining) == ["b", "d"]
    assert corpus.manifest["summary"]["by_kind"]["EMAIL_ADDRESS"]["occurrences"] == 3
    assert not sanitize.run(folder, out, plan=plan, workers=1, seed=1, per_split=True).changed
    assert sanitize.verify(out, workers=1).leaks == 0


@pytest.mark.slow
def test_shards_hold_one_split_whatever_their_size(saved: Path, tmp_path: Path) -> None:
    sanitize.run(saved, tmp_path / "out", plan="redact", workers=1, rows_per_shard=2)
    names = [shard.path.name for shard in sanitize.Corpus.open(tmp_path / "out").shards]
    assert names == [
        *(f"train-{no:05d}-of-00003.parquet" for no in range(3)),
        *(f"test-{no:05d}-of-00002.parquet" for no in range(2)),
        "extra-00000-of-00001.parquet",
    ]


@pytest.mark.slow
def test_append_keeps_splits(saved: Path, tmp_path: Path) -> None:
    sanitize.run(saved, tmp_path / "out", plan="redact", workers=1, seed=1)
    datasets.DatasetDict(
        {"test": make_dataset("late", 2), "train": make_dataset("later", 1)}
    ).save_to_disk(tmp_path / "more")
    sanitize.run(tmp_path / "more", tmp_path / "out", plan="redact", workers=1, seed=1, append=True)
    assert sanitize.Corpus.open(tmp_path / "out").splits == {"train": 6, "test": 5, "extra": 2}
    assert load(tmp_path / "out")["test"].features == make_features()
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0


def test_images_are_dropped_unless_they_are_kept(tmp_path: Path) -> None:
    pixels = bytes.fromhex("89504e470d0a1a0a")
    features = make_features(image=datasets.Image(decode=False))
    rows = {**make_dataset("a", 2).to_dict(), "image": [{"bytes": pixels, "path": None}] * 2}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "in")
    sanitize.run(tmp_path / "in", tmp_path / "out", plan="redact", workers=1)
    assert load(tmp_path / "out")["train"].features == make_features()
    sanitize.run(tmp_path / "in", tmp_path / "kept", plan="redact", workers=1, keep="image")
    kept = load(tmp_path / "kept")["train"]
    assert isinstance(kept.features["image"], datasets.Image)
    assert (
        pq.read_table(next((tmp_path / "kept/data").iterdir()))
        .column("image")
        .to_pylist()[0]["bytes"]
        == pixels
    )


def test_a_value_as_the_name_of_a_label_stops_the_run(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "who": datasets.ClassLabel(names=["ann.roe@example.com", "none"]),
        }
    )
    datasets.Dataset.from_dict({"text": ["a"], "who": [0]}, features=features).save_to_disk(
        tmp_path / "in"
    )
    with pytest.raises(
        sanitize.LeakFound, match="names of class labels of column who: 1 EMAIL_ADDRESS"
    ):
        sanitize.run(tmp_path / "in", tmp_path / "out", plan="redact", workers=1)
    sanitize.run(tmp_path / "in", tmp_path / "out", plan="redact", workers=1, drop="who")


@pytest.mark.parametrize(
    ("split", "plan"),
    [("312_555_0178", "redact"), ("x_3125550178", "rmft"), ("c3125550178", "redact")],
)
def test_a_value_as_the_name_of_a_split_stops_the_run(
    tmp_path: Path, split: str, plan: str
) -> None:
    rows = datasets.Dataset.from_list([{"text": "call 312-555-0178"}, {"text": "or 312-555-0178"}])
    data = datasets.DatasetDict({"train": rows, split: rows})
    data.save_to_disk(tmp_path / "in")
    for given in (tmp_path / "in", data):
        with pytest.raises(sanitize.LeakFound) as caught:
            sanitize.run(given, tmp_path / "out", plan=plan, workers=1)
        assert caught.value.exit_code == 4 and not (tmp_path / "out").exists()
        assert not any(
            digits in f"{caught.value} {getattr(caught.value, 'findings', '')}"
            for digits in ("3125550178", "555_0178")
        )


def test_names_of_datasets_and_files_are_not_in_the_output(tmp_path: Path) -> None:
    folder = tmp_path / "312-555-0178"
    (folder / "555-0178").mkdir(parents=True)
    for name in ("a 312-555-0178.jsonl", "555-0178/3125550178.jsonl"):
        (folder / name).write_text('{"text": "call 312-555-0178"}\n')
    card = (
        "---\nconfigs:\n- config_name: c3125550178\n  data_files: 'a 312-555-0178.jsonl'\n---\n#"
        " 312-555-0178\n"
    )
    (folder / "README.md").write_text(card)
    sanitize.run(folder, tmp_path / "out", plan="redact", workers=1)
    assert sanitize.verify(tmp_path / "out").inconclusive == {}
    for path in (tmp_path / "out").rglob("*"):
        assert "0178" not in path.relative_to(tmp_path).as_posix()
        assert path.is_dir() or path.suffix == ".parquet" or "0178" not in path.read_text()
    assert (
        pq.read_table(next((tmp_path / "out/data").iterdir()))["text"].to_pylist()
        == ["call [PHONE_NUMBER]"] * 2
    )


@pytest.mark.parametrize("per_split", [False, True])
def test_append_brings_the_first_splits(per_split: bool, tmp_path: Path) -> None:
    """What was read before is in train, and the card names both."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    options = {"plan": "rmft", "workers": 1, "seed": 1, "per_split": per_split}
    (folder / "train.jsonl").write_text('{"text": "write to ann.roe@example.com"}\n')
    assert sanitize.run(folder, out, **options).splits == {}
    (folder / "test.jsonl").write_text('{"text": "or to ann.roe@example.com"}\n')
    (folder / "holdout.jsonl").write_text('{"text": "x"}\n')
    result = sanitize.run(folder, out, append=True, **options)
    assert result.splits == sanitize.Corpus.open(out).splits == {"train": 2, "test": 1}
    assert [note for note in result.notes if "split" in note] == [
        "files in train whose paths name no split: 1 (known are train, validation, test)"
    ]
    assert {split: data.num_rows for split, data in load(out).items()} == {"train": 2, "test": 1}
    assert ("ann.roe@example.com" in load(out)["test"]["text"][0]) == per_split
