"""A workspace with tables of another version is refused, and the error names the command that
rebuilds it. A rebuild keeps the key, the erasures and the labels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.errors import UsageError
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.plans.settings import Settings
from sanitize.storage import table_schemas
from sanitize.storage.corpus import MANIFEST_VERSION, Corpus

ANN, BOB = "ann.roe@example.com", "bob.moss@example.org"
TEXTS = [
    f"Mail {number}: {ANN} wrote to {BOB}, call 212-555-01{number:02d}." for number in range(12)
]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder that all tests use in turn, because an index belongs to the paths of its files;
    and a copy of its first state."""
    folder = tmp_path_factory.mktemp("schema") / "corpus"
    folder.mkdir()
    pq.write_table(pa.table({"text": TEXTS}), folder / "in.parquet")
    run_with_settings(
        folder / "in.parquet", folder / "out", "pseudonymize", settings=Settings(workers=1)
    )
    (folder / "who.txt").write_text(f"{BOB}\n")
    sanitize.subject(folder / "out.private", folder / "who.txt", erase=True, workers=1)
    return folder, Path(shutil.copytree(folder, folder.with_name("first_state")))


@pytest.fixture
def corpus(snapshot: tuple[Path, Path]) -> Path:
    """A corpus that was pseudonymized under a secret key, and from which one person was erased."""
    folder, first_state = snapshot
    shutil.rmtree(folder)
    return Path(shutil.copytree(first_state, folder))


VERSION_1_CONTENT = b"a raw value of an earlier version"
VERSION_1_RAW_FILES = (
    "vault/rounds/values/00000.parquet",
    "vault/rounds/forms.parquet",
    "rounds/occurrences/00000.parquet",
)


def convert_to_version_1(work: Path) -> None:
    """Converts WORK to version 1: other names of columns, files, folders and keys, and no version
    in index.json."""
    (work / "tasks" / "detect").rename(work / "tasks" / "find")
    (work / "quarantine" / "detect").rename(work / "quarantine" / "find")
    for run in (work / "runs").iterdir():
        (run / "shards").rename(run / "stage")
        for name in ("said", "made", "looks", "forget/mentions"):
            (run / name).mkdir(parents=True)
            (run / name / "00000.parquet").write_bytes(VERSION_1_CONTENT)
    for name in (*VERSION_1_RAW_FILES, "documents/aside/00000.parquet"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(VERSION_1_CONTENT)
    for path in (work / "tables" / "occurrences").glob("*.parquet"):
        table = pq.read_table(path)
        old_columns = {"end": "stop", "end_byte": "stop_byte"}
        pq.write_table(
            table.rename_columns([old_columns.get(name, name) for name in table.column_names]), path
        )
    index = json.loads((work / "index.json").read_text())
    del index["schema_version"]
    old_keys = {
        "detection_settings": "looked_for",
        "inputs_hash": "inputs",
        "input_files": "files",
        "increments": "batches",
        "leaf_paths": "leaves",
        "task_ranges": "ranges",
    }
    assert old_keys.keys() <= index.keys()
    index = {old_keys.get(name, name): value for name, value in index.items()}
    (work / "index.json").write_text(json.dumps(index))


def read_shards(out: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((out / "data").iterdir())]


@pytest.mark.parametrize(
    "command",
    [
        lambda folder: sanitize.top(folder / "out.private"),
        lambda folder: sanitize.sql(folder / "out.private", "SELECT 1"),
        lambda folder: sanitize.status(folder / "out.private"),
        lambda folder: sanitize.verify(folder / "out"),
        lambda folder: sanitize.report(folder / "out"),
        lambda folder: sanitize.sample_for_labels(
            folder / "out.private", out=folder / "sample.jsonl"
        ),
        lambda folder: sanitize.subject(folder / "out.private", folder / "who.txt"),
        lambda folder: run_with_settings(
            folder / "in.parquet",
            folder / "out",
            "pseudonymize",
            settings=Settings(workers=1, append=True),
        ),
    ],
    ids=["top", "sql", "status", "verify", "report", "label", "subject", "append"],
)
def test_commands_refuse_an_outdated_index(corpus: Path, command: Callable[[Path], Any]) -> None:
    convert_to_version_1(corpus / "out.private")
    before = read_shards(corpus / "out")
    with pytest.raises(UsageError) as caught:
        command(corpus)
    assert f"sanitize index INPUT... --work {corpus / 'out.private'}" in str(caught.value)
    assert f"version {table_schemas.VERSION}" in str(caught.value)
    assert read_shards(corpus / "out") == before


def test_an_outdated_index_of_other_input_is_refused(corpus: Path) -> None:
    """A wrong input path must not delete an index that took hours to build: nothing is deleted, and
    the error names the difference."""
    work = corpus / "out.private"
    convert_to_version_1(work)
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    pq.write_table(pa.table({"text": [*TEXTS, "one more"]}), corpus / "other.parquet")
    with pytest.raises(
        UsageError,
        match=r"holds the index of another input \(1 of 1 files changed: .*use --replace",
    ):
        index_with_settings(corpus / "other.parquet", work, Settings(workers=1), "pseudonymize")
    assert {
        path: path.read_bytes()
        for path in work.rglob("*")
        if path.is_file() and path.name != "run.lock"
    } == {path: content for path, content in before.items() if path.name != "run.lock"}


def convert_manifest_to_format_1(out: Path) -> None:
    """Converts the manifest of an output to the keys of format 1."""
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["format"] == MANIFEST_VERSION
    summary = manifest["summary"]
    summary["drill"], summary["parts"] = summary.pop("canaries"), summary.pop("editor_reports")
    inputs = [{"no": entry.pop("number"), **entry} for entry in manifest["inputs"]]
    (out / "manifest.json").write_text(json.dumps({**manifest, "format": 1, "inputs": inputs}))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (lambda folder: sanitize.verify(folder / "out"), "sanitize run INPUT... -o"),
        (lambda folder: sanitize.report(folder / "out"), "sanitize run INPUT... -o"),
        (
            lambda folder: run_with_settings(
                folder / "in.parquet", folder / "out", "pseudonymize", settings=Settings(workers=1)
            ),
            "use --replace",
        ),
        (
            lambda folder: run_with_settings(
                folder / "in.parquet",
                folder / "out",
                "pseudonymize",
                settings=Settings(workers=1, append=True),
            ),
            "use --replace",
        ),
    ],
    ids=["verify", "report", "run", "append"],
)
def test_an_output_of_manifest_format_1_can_only_be_read_and_replaced(
    corpus: Path, command: Callable[[Path], Any], message: str
) -> None:
    convert_manifest_to_format_1(corpus / "out")
    before = read_shards(corpus / "out")
    with pytest.raises(UsageError) as caught:
        command(corpus)
    assert message in str(caught.value) and "format 1" in str(caught.value), caught.value
    old = Corpus.open(corpus / "out")
    old.check()
    assert old.table().num_rows == len(TEXTS) and read_shards(corpus / "out") == before
    run_with_settings(
        corpus / "in.parquet",
        corpus / "out",
        "pseudonymize",
        settings=Settings(workers=1, replace=True),
    )
    assert Corpus.open(corpus / "out").manifest["format"] == MANIFEST_VERSION
    assert (
        read_shards(corpus / "out") == before
        and sanitize.verify(corpus / "out", workers=1).leaks == 0
    )


def test_a_manifest_of_a_newer_format_is_refused(corpus: Path) -> None:
    manifest = json.loads((corpus / "out" / "manifest.json").read_text())
    (corpus / "out" / "manifest.json").write_text(
        json.dumps({**manifest, "format": MANIFEST_VERSION + 1})
    )
    with pytest.raises(
        UsageError,
        match=(
            f"has format {MANIFEST_VERSION + 1}, and this program reads formats 1 and"
            f" {MANIFEST_VERSION}"
        ),
    ):
        Corpus.open(corpus / "out")


def test_a_rebuilt_index_keeps_key_erasures_pseudonyms_and_labels(corpus: Path) -> None:
    work, before = corpus / "out.private", read_shards(corpus / "out")
    key = (work / "vault" / "key" / "key").read_text()
    labels = {path: path.read_bytes() for path in (work / "runs").glob("*/vault/labels/*.parquet")}
    assert labels
    convert_to_version_1(work)
    found = index_with_settings(corpus / "in.parquet", work, Settings(workers=1), "pseudonymize")
    assert any("version 1 of the tables" in note for note in found.notes), found.notes
    assert (work / "vault" / "key" / "key").read_text() == key
    assert {path: path.read_bytes() for path in labels} == labels
    assert not [
        path
        for path in work.rglob("*")
        if path.is_file() and VERSION_1_CONTENT in path.read_bytes()
    ]
    version_1_folders = {"find", "rounds", "aside", "forget", "looks", "said", "made", "stage"}
    assert not version_1_folders & {path.name for path in work.rglob("*") if path.is_dir()}
    assert sanitize.sql(work, 'SELECT max("end") AS last FROM occurrences')["last"][0] > 0
    summary = run_with_settings(
        corpus / "in.parquet", corpus / "again", "pseudonymize", work, Settings(workers=1)
    )
    assert summary.erased == len(TEXTS)
    assert read_shards(corpus / "again") == before
    assert not any(BOB.encode() in shard for shard in read_shards(corpus / "again"))


def test_raw_files_of_a_half_discarded_index_are_deleted(corpus: Path) -> None:
    """The program was killed between the deletion of index.json and that of the files: the next run
    deletes them."""
    work = corpus / "out.private"
    convert_to_version_1(work)
    (work / "index.json").unlink()
    index_with_settings(corpus / "in.parquet", work, Settings(workers=1), "pseudonymize")
    assert [
        path
        for path in work.rglob("*.parquet")
        if path.is_relative_to(work / "vault") and VERSION_1_CONTENT in path.read_bytes()
    ] == []
    assert not (work / "rounds").exists()


def test_a_workspace_of_an_unreleased_version_is_outdated(corpus: Path) -> None:
    """Version 2 had the columns of today and the keys of version 1."""
    work = corpus / "out.private"
    convert_to_version_1(work)
    index = json.loads((work / "index.json").read_text())
    (work / "index.json").write_text(json.dumps({**index, "schema_version": 2}))
    index_with_settings(corpus / "in.parquet", work, Settings(workers=1), "pseudonymize")
    assert not any((work / name).exists() for name in VERSION_1_RAW_FILES)
