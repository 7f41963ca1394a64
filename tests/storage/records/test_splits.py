"""Splits: which file belongs to which, and the order in which they are read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sanitize.errors import InputRefused
from sanitize.readers.survey import Roles, survey_inputs
from sanitize.storage.records.splits import split_rank
from tests.readers.test_read import MAIL, stage_survey, to_json_lines, write_file

LINE = to_json_lines([{"text": "Hi"}])


def survey_splits(folder: Path) -> list[tuple[str, str]]:
    """(file below the folder, split) of each unit, in corpus order."""
    return [
        (str(Path(unit.files[0]).relative_to(folder)), unit.split)
        for unit in survey_inputs([folder], Roles()).units
    ]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            ["train.jsonl", "test.jsonl", "dev.jsonl"],
            [("train.jsonl", "train"), ("dev.jsonl", "validation"), ("test.jsonl", "test")],
        ),
        (
            [
                "data/train-00000-of-00002.jsonl",
                "data/train-00001-of-00002.jsonl",
                "data/test_sft-00000-of-00001.jsonl",
            ],
            [
                ("data/train-00000-of-00002.jsonl", "train"),
                ("data/train-00001-of-00002.jsonl", "train"),
                ("data/test_sft-00000-of-00001.jsonl", "test_sft"),
            ],
        ),
        (["test/a.jsonl", "train/a.jsonl"], [("train/a.jsonl", "train"), ("test/a.jsonl", "test")]),
        (["test_1.jsonl", "logs.jsonl"], [("logs.jsonl", "train"), ("test_1.jsonl", "test")]),
        (["a.jsonl", "b.jsonl"], [("a.jsonl", ""), ("b.jsonl", "")]),
        (["trainer.jsonl", "testimony.jsonl"], [("testimony.jsonl", ""), ("trainer.jsonl", "")]),
        (["train-1.jsonl", "train-2.jsonl"], [("train-1.jsonl", ""), ("train-2.jsonl", "")]),
        (
            ["part-00000-of-00002.jsonl", "part-00001-of-00002.jsonl"],
            [(f"part-0000{no}-of-00002.jsonl", "") for no in range(2)],
        ),
        (["test.jsonl"], [("test.jsonl", "test")]),
        (["Test/a.jsonl", "TRAIN-1.jsonl"], [("TRAIN-1.jsonl", "train"), ("Test/a.jsonl", "test")]),
    ],
)
def test_layouts(tmp_path: Path, files: list[str], expected: list[tuple[str, str]]) -> None:
    for name in files:
        write_file(tmp_path / name, LINE)
    assert survey_splits(tmp_path) == expected


@pytest.mark.parametrize(
    ("files", "count"),
    [
        (["train.jsonl", "test.jsonl", "a.jsonl", "holdout/b.jsonl", "c.json"], 3),
        (["train.jsonl", "a.jsonl"], 0),
        (["test.jsonl"], 0),
    ],
)
def test_files_whose_paths_name_no_split_are_counted(
    tmp_path: Path, files: list[str], count: int
) -> None:
    for name in files:
        write_file(tmp_path / name, LINE)
    assert survey_inputs([tmp_path], Roles()).files_without_split == count


def test_order_of_splits() -> None:
    assert sorted(["b", "test", "a", "validation", "train"], key=split_rank) == [
        "train",
        "validation",
        "test",
        "a",
        "b",
    ]


def test_a_single_named_file_has_no_split(tmp_path: Path) -> None:
    write_file(tmp_path / "test.jsonl", LINE)
    write_file(tmp_path / "train.jsonl", LINE)
    assert [unit.split for unit in survey_inputs([tmp_path / "test.jsonl"], Roles()).units] == [""]
    survey = survey_inputs([tmp_path / "test.jsonl", tmp_path / "train.jsonl"], Roles())
    assert [unit.split for unit in survey.units] == ["train", "test"]
    assert [Path(path).name for path, _ in survey.files] == ["train.jsonl", "test.jsonl"]


def test_mails_have_no_split_of_their_own(tmp_path: Path) -> None:
    for name in ("test/1.eml", "train/2.eml"):
        write_file(tmp_path / name, MAIL % b"a")
    assert {unit.split for unit in survey_inputs([tmp_path], Roles()).units} == {""}
    write_file(tmp_path / "test.jsonl", LINE)
    survey = survey_inputs([tmp_path], Roles())
    assert [(unit.split, len(unit.files)) for unit in survey.units] == [("train", 2), ("test", 1)]
    assert [row["user_id"] for row in stage_survey(survey, tmp_path / "out")[0]] == [
        "ann@example.com",
        "ann@example.com",
        None,
    ]


def write_dataset_dict(folder: Path, *splits: str) -> None:
    for split in splits:
        path = folder / split / "data-00000-of-00001.arrow"
        path.parent.mkdir(parents=True)
        table = pa.table({"text": ["Hi"]})
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
        (folder / split / "dataset_info.json").write_text("{}")
        (folder / split / "state.json").write_text("{}")
    (folder / "dataset_dict.json").write_text("{}")


def test_dataset_dict(tmp_path: Path) -> None:
    write_dataset_dict(tmp_path / "a", "test", "train", "extra")
    assert [split for _, split in survey_splits(tmp_path / "a")] == ["train", "test", "extra"]
    assert [split for _, split in survey_splits(tmp_path)] == ["train", "test", "extra"]


def test_a_split_name_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    write_dataset_dict(tmp_path, "train", "my split")
    with pytest.raises(InputRefused, match="the name of this split"):
        survey_splits(tmp_path)
