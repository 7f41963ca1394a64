"""Task records and atomic publication: finished work is not repeated, OUT is always complete,
shards contain only their rows."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.errors import LeakFound, OutputBroken, ResourceError
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage import publication, task_records
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.files import file_sha256
from sanitize.storage.publication import publish_corpus, shard_name, swap_folders
from sanitize.storage.task_records import Job, load_record, run_job

BOB, PHONE = "bob.lee@example.com", "212-555-0123"


# ---- a task ----


@dataclasses.dataclass(frozen=True)
class Task:
    folder: Path


@dataclasses.dataclass(frozen=True)
class Rows:
    rows: int


class CountingWork:
    """Writes two files, and counts its calls."""

    def __init__(self) -> None:
        self.call_count = 0

    def __call__(self, task: Task) -> Rows:
        self.call_count += 1
        assert task.folder.is_dir() and not list(task.folder.iterdir())
        (task.folder / "a").write_text("one")
        (task.folder / "b").write_text("two")
        return Rows(2)


def make_job(folder: Path, work: Any, fingerprint: str = "f") -> Job[Rows]:
    return Job(
        function=work,
        result_type=Rows,
        task=Task(folder / "spill" / "task-0"),
        record_path=folder / "tasks" / "0.json",
        fingerprint=fingerprint,
        outputs={"a": folder / "here" / "a", "b": folder / "there" / "b"},
    )


def test_a_finished_task_is_not_repeated(tmp_path: Path) -> None:
    work = CountingWork()
    assert [run_job(make_job(tmp_path, work)) for _ in range(3)] == [Rows(2)] * 3
    assert work.call_count == 1
    assert (tmp_path / "here" / "a").read_text() + (
        tmp_path / "there" / "b"
    ).read_text() == "onetwo"
    assert sorted(
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    ) == [
        "here/a",
        "tasks/0.json",
        "there/b",
    ]
    assert not (tmp_path / "spill" / "task-0").exists()


DAMAGES = {
    "another fingerprint": lambda folder: None,
    "changed output": lambda folder: (folder / "here" / "a").write_text("onf"),
    "longer output": lambda folder: (folder / "there" / "b").write_text("twotwo"),
    "empty output": lambda folder: (folder / "there" / "b").write_text(""),
    "missing output": lambda folder: (folder / "there" / "b").unlink(),
    "missing output folder": lambda folder: shutil.rmtree(folder / "here"),
    "missing record": lambda folder: (folder / "tasks" / "0.json").unlink(),
    "truncated record": (
        lambda folder: (folder / "tasks" / "0.json").write_text(
            (folder / "tasks" / "0.json").read_text()[:-9]
        )
    ),
    "empty record": lambda folder: (folder / "tasks" / "0.json").write_text(""),
    # regression: this raised a TypeError
    "JSON list as record": lambda folder: (folder / "tasks" / "0.json").write_text("[1, 2]"),
    "record without a result": (
        lambda folder: (folder / "tasks" / "0.json").write_text('{"fingerprint": "f", "files": {}}')
    ),
    "result of another version": lambda folder: replace_in_record(folder, '"rows"', '"count"'),
    "result of another type": lambda folder: replace_in_record(folder, "2}", '"two"}'),
}


def replace_in_record(folder: Path, old: str, new: str) -> None:
    record = folder / "tasks" / "0.json"
    text = record.read_text()
    assert text.count(old) == 1
    record.write_text(text.replace(old, new))


def test_a_record_of_another_version_with_more_counts_is_used(tmp_path: Path) -> None:
    work = CountingWork()
    run_job(make_job(tmp_path, work))
    replace_in_record(tmp_path, '"rows": 2', '"rows": 2, "bytes": 6')
    assert run_job(make_job(tmp_path, work)) == Rows(2) and work.call_count == 1


def test_a_record_with_other_output_names_is_not_used(tmp_path: Path) -> None:
    """A record of a version that used other names for the same outputs."""
    work = CountingWork()
    run_job(make_job(tmp_path, work))
    record = tmp_path / "tasks" / "0.json"
    record.write_text(record.read_text().replace("there/b", "there/old"))
    (tmp_path / "there" / "b").rename(tmp_path / "there" / "old")
    assert run_job(make_job(tmp_path, work)) == Rows(2)
    assert work.call_count == 2 and (tmp_path / "there" / "b").is_file()


@pytest.mark.parametrize("case", DAMAGES)
def test_a_task_is_repeated_when_files_and_record_differ(tmp_path: Path, case: str) -> None:
    work = CountingWork()
    run_job(make_job(tmp_path, work))
    DAMAGES[case](tmp_path)
    second_job = make_job(tmp_path, work, "g" if case == "another fingerprint" else "f")
    assert load_record(second_job.record_path, second_job.fingerprint, result_type=Rows) is None
    assert run_job(second_job) == Rows(2)
    assert work.call_count == 2
    assert (tmp_path / "here" / "a").read_text() + (
        tmp_path / "there" / "b"
    ).read_text() == "onetwo"
    assert run_job(second_job) == Rows(2) and work.call_count == 2


def test_leftovers_of_an_earlier_attempt_are_deleted(tmp_path: Path) -> None:
    leftover_folder = tmp_path / "spill" / "task-0"
    leftover_folder.mkdir(parents=True)
    (leftover_folder / "a").write_text("half")
    work = CountingWork()
    run_job(make_job(tmp_path, work))
    assert work.call_count == 1 and not leftover_folder.exists()


def test_a_failed_task_leaves_no_record(tmp_path: Path) -> None:
    def write_and_fail(task: Task) -> Rows:
        (task.folder / "a").write_text("one")
        raise ValueError

    with pytest.raises(ValueError):
        run_job(make_job(tmp_path, write_and_fail))
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and "spill" not in path.parts
    ]


def truncate(raw: bytearray) -> None:
    del raw[-9:]


def flip_bit(raw: bytearray) -> None:
    raw[len(raw) // 2] ^= 1


@pytest.mark.parametrize("damage", [truncate, flip_bit])
def test_an_unreadable_output_file_fails_the_task(
    tmp_path: Path, damage: Callable[[bytearray], None]
) -> None:
    def write_damaged_file(task: Task) -> None:
        texts = pa.table({"text": [f"{number} {PHONE}" * 9 for number in range(500)]})
        # without compression only the checksum shows that a bit was flipped
        pq.write_table(
            texts,
            task.folder / "a.parquet",
            compression="none",
            use_dictionary=False,
            write_page_checksum=True,
        )
        raw = bytearray((task.folder / "a.parquet").read_bytes())
        damage(raw)
        (task.folder / "a.parquet").write_bytes(raw)

    parquet_job = dataclasses.replace(
        make_job(tmp_path, write_damaged_file),
        result_type=None,
        outputs={"a.parquet": tmp_path / "here" / "a.parquet"},
    )
    with pytest.raises(OutputBroken, match="a.parquet: not readable after it was written"):
        run_job(parquet_job)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    if damage is flip_bit:  # the next stage checks the pages of this file itself
        run_job(dataclasses.replace(parquet_job, checked_by_next_stage=frozenset({"a.parquet"})))
        assert (tmp_path / "here" / "a.parquet").is_file()


def test_a_task_is_completed_after_a_crash_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash at the n-th disk call, for every n; the next attempt completes the task."""

    class Crash(BaseException):
        pass

    crashed, n = True, 0
    while crashed:
        n += 1
        folder, calls_left = tmp_path / str(n), [n]

        def crash_after(original: Any, calls_left: list[int] = calls_left) -> Any:
            def count_call(*args: Any, **more: Any) -> Any:
                calls_left[0] -= 1
                if calls_left[0] == 0:
                    raise Crash
                return original(*args, **more)

            return count_call

        with monkeypatch.context() as patch:
            for name in ("fsync", "file_sha256", "write_json"):
                patch.setattr(task_records, name, crash_after(getattr(task_records, name)))
            patch.setattr(Path, "rename", crash_after(Path.rename))
            try:
                run_job(make_job(folder, CountingWork()))
                crashed = False
            except Crash:
                pass
        work = CountingWork()
        assert run_job(make_job(folder, work)) == Rows(2)
        assert (folder / "here" / "a").read_text() + (
            folder / "there" / "b"
        ).read_text() == "onetwo"
        assert work.call_count == int(crashed) or (
            work.call_count == 0 and (folder / "tasks" / "0.json").exists()
        )
        assert not (folder / "spill" / "task-0").exists()
    assert n > 8


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.EROFS, errno.EFBIG]
)
def test_a_disk_error_is_reported_without_its_message(tmp_path: Path, code: int) -> None:
    with pytest.raises(ResourceError) as caught, translate_disk_errors(tmp_path / "not" / "there"):
        raise OSError(code, "secret words", "secret.txt")
    assert caught.value.exit_code == 7 and errno.errorcode[code] in str(caught.value)
    assert "secret" not in str(caught.value) and caught.value.__suppress_context__


def test_other_errors_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), translate_disk_errors(tmp_path):
        (tmp_path / "nothing").read_bytes()
    with pytest.raises(ResourceError, match="memory"), translate_disk_errors(tmp_path):
        raise MemoryError


# ---- OUT ----


def make_version(folder: Path, number: int, shards: int = 2) -> dict[str, Any]:
    """Arguments of `publish_corpus` for version n: every file contains n."""
    sources = []
    for index in range(shards):
        path = folder / f"v{number}-{index}.parquet"
        path.write_text(f"{number}" * 5_000)
        sources.append((path, file_sha256(path)))
    return {
        "shards": sources,
        "text_files": {"README.md": f"{number}", "report.html": f"{number}"},
        "manifest": {
            "version": number,
            "shards": [f"data/{shard_name(index, shards)}" for index in range(shards)],
        },
        "find_leaks": lambda texts: [],
        "mac_key": bytes(16),
    }


def read_versions(out: Path) -> set[str]:
    """The versions that a reader sees that opens the manifest through one folder handle."""
    manifest = json.loads((out / "manifest.json").read_text())
    return {
        str(manifest["version"]),
        (out / "README.md").read_text(),
        *({(out / path).read_text()[:1] for path in manifest["shards"]}),
    }


def list_files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


SHARD_NAMES = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]
VERSION_FILES = ["README.md", "SHA256SUMS", *SHARD_NAMES, "manifest.json", "report.html"]


def test_a_corpus_is_published_completely(tmp_path: Path) -> None:
    publish_corpus(tmp_path / "out", **make_version(tmp_path, 1))
    assert list_files(tmp_path / "out") == VERSION_FILES
    assert read_versions(tmp_path / "out") == {"1"}
    assert not list(tmp_path.glob(".out*"))


def test_shards_are_linked_not_copied(tmp_path: Path) -> None:
    version = make_version(tmp_path, 1)
    publish_corpus(tmp_path / "out", **version)
    for index, (source, _) in enumerate(version["shards"]):
        assert os.path.samefile(source, tmp_path / "out" / "data" / shard_name(index, 2))


def test_shards_are_copied_where_they_cannot_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", link)
    publish_corpus(tmp_path / "out", **make_version(tmp_path, 1))
    assert list_files(tmp_path / "out") == VERSION_FILES and read_versions(tmp_path / "out") == {
        "1"
    }


def test_leftovers_next_to_the_output_are_deleted(tmp_path: Path) -> None:
    (tmp_path / ".out.sanitize-new" / "data").mkdir(parents=True)
    (tmp_path / ".out.sanitize-new" / "data" / "half.parquet").write_text("half")
    publish_corpus(tmp_path / "out", **make_version(tmp_path, 1))
    assert list_files(tmp_path / "out") == VERSION_FILES


@pytest.mark.parametrize("old", [False, True])
def test_a_shard_with_another_sha256_is_not_published(tmp_path: Path, old: bool) -> None:
    if old:
        publish_corpus(tmp_path / "out", **make_version(tmp_path, 1))
    version = make_version(tmp_path, 2)
    version["shards"][1][0].write_text("another")
    with pytest.raises(OutputBroken, match="sha256"):
        publish_corpus(tmp_path / "out", **version)
    assert not list(tmp_path.glob(".out*"))
    assert (read_versions(tmp_path / "out") == {"1"}) if old else not (tmp_path / "out").exists()


def test_pages_and_manifest_are_scanned_for_leaks_before_publication(tmp_path: Path) -> None:
    publish_corpus(tmp_path / "out", **make_version(tmp_path, 1))
    scanned_texts: dict[str, str] = {}
    version = {
        **make_version(tmp_path, 2),
        "find_leaks": lambda texts: (
            scanned_texts.update(texts) or [("report.html", "EMAIL_ADDRESS")]
        ),
    }
    with pytest.raises(LeakFound, match="report.html would contain a removed EMAIL_ADDRESS"):
        publish_corpus(tmp_path / "out", **version)
    assert (
        sorted(scanned_texts) == ["README.md", "manifest.json", "report.html"]
        and json.loads(scanned_texts["manifest.json"])["version"] == 2
    )
    assert read_versions(tmp_path / "out") == {"1"} and not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("atomic", [True, False])
def test_a_crash_at_any_step_leaves_output_absent_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, atomic: bool
) -> None:
    class Crash(BaseException):
        pass

    if not atomic:
        monkeypatch.setattr(publication, "_exchange", lambda *_: False)
    versions = {number: make_version(tmp_path, number) for number in (1, 2)}
    states = set()
    for old in (False, True):
        crashed, n = True, 0
        while crashed:
            n += 1
            calls_left, out = [n], tmp_path / f"out-{old}-{n}"
            if old:
                publish_corpus(out, **versions[1])

            def crash_after(original: Any, calls_left: list[int] = calls_left) -> Any:
                def count_call(*args: Any, **more: Any) -> Any:
                    calls_left[0] -= 1
                    if calls_left[0] == 0:
                        raise Crash
                    return original(*args, **more)

                return count_call

            with monkeypatch.context() as patch:
                for name in ("fsync", "file_sha256", "write_json", "swap_folders", "_exchange"):
                    patch.setattr(publication, name, crash_after(getattr(publication, name)))
                for name in ("rename", "write_text", "mkdir"):
                    patch.setattr(Path, name, crash_after(getattr(Path, name)))
                patch.setattr(os, "link", crash_after(os.link))
                patch.setattr(shutil, "rmtree", crash_after(shutil.rmtree))
                try:
                    publish_corpus(out, **versions[2])
                    crashed = False
                except Crash:
                    pass
            state = "".join(sorted(read_versions(out))) if out.exists() else "absent"
            states.add((old, state))
            if out.exists():
                assert list_files(out) == VERSION_FILES
            publish_corpus(out, **versions[2])  # the next run repairs every leftover
            assert read_versions(out) == {"2"} and list_files(out) == VERSION_FILES
            # regression: without atomic exchange, a crash between the two renames left OUT.old
            # forever
            assert not list(tmp_path.glob(f".out-{old}-{n}.*"))
        assert n > 10
    assert states == {(False, "absent"), (False, "2"), (True, "1"), (True, "2")} | (
        set() if atomic else {(True, "absent")}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the atomic exchange")
def test_a_reader_sees_only_complete_versions(tmp_path: Path) -> None:
    out, stop_watching, problems, listing_sizes = tmp_path / "out", threading.Event(), [], []
    publish_corpus(out, **make_version(tmp_path, 0))

    def watch() -> None:
        while not stop_watching.is_set():
            # a folder handle represents a reader that opened OUT once
            handle = os.open(out, os.O_RDONLY)
            try:
                listing = os.listdir(handle)
                is_complete = sorted(listing) == [
                    "README.md",
                    "SHA256SUMS",
                    "data",
                    "manifest.json",
                    "report.html",
                ]
                # an old version may be deleted while the handle is open, but never under the name
                # OUT
                if not is_complete and os.path.samestat(os.fstat(handle), os.stat(out)):
                    problems.append(listing)
                listing_sizes.append(len(listing))
            except FileNotFoundError as error:
                problems.append(error)
            finally:
                os.close(handle)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        for number in range(1, 60):
            publish_corpus(out, **make_version(tmp_path, number % 10))
    finally:
        stop_watching.set()
        thread.join()
    assert problems == [] and len(listing_sizes) > 50
    assert read_versions(out) == {"9"}


def test_swap_renames_and_replaces_a_folder(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / str(number)).write_text("x")
        swap_folders(tmp_path / "new", tmp_path / "out")
        assert list_files(tmp_path / "out") == [str(number)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


# ---- the output of a run ----


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    rows = [f"{BOB} wrote {number}, call {PHONE}" for number in range(7)]
    table = pa.table(
        {
            "text": pa.array(rows).dictionary_encode(),
            "user_id": [BOB] * 7,
            "n": list(range(7)),
            "note": pa.array(["removed", *["same"] * 6]).dictionary_encode().slice(0),
            "messages": [[{"content": BOB}]] * 7,
        },
        metadata={"secret": BOB, "pandas": BOB},
    )
    pq.write_table(table, folder / "in.parquet")
    old_umask = os.umask(0o022)
    try:
        run_with_settings(
            [folder / "in.parquet"],
            folder / "out",
            load_plan("redact"),
            None,
            Settings(seed=1, workers=1, rows_per_shard=3),
        )
    finally:
        os.umask(old_umask)
    return folder


def test_shards_contain_no_metadata_statistics_or_dictionaries(run_folder: Path) -> None:
    shards = sorted((run_folder / "out" / "data").iterdir())
    assert [shard.name for shard in shards] == [shard_name(index, 3) for index in range(3)]
    for shard in shards:
        with pq.ParquetFile(shard) as file:
            assert not file.metadata.metadata
            assert "ARROW:schema" not in str(file.schema_arrow.metadata)
            for group in range(file.num_row_groups):
                for index in range(file.metadata.num_columns):
                    column = file.metadata.row_group(group).column(index)
                    assert column.compression == "ZSTD"
                    assert not column.is_stats_set and column.statistics is None
                    assert not column.has_dictionary_page
                    assert not [name for name in column.encodings if "DICT" in name]
                    assert not column.has_column_index and not column.has_offset_index
        raw = shard.read_bytes()
        assert not [
            word for word in (b"ARROW:schema", b"pandas", BOB.encode(), b"c2VjcmV0") if word in raw
        ]


def test_shards_have_page_checksums(run_folder: Path, tmp_path: Path) -> None:
    shard = run_folder / "out" / "data" / shard_name(0, 3)
    with pq.ParquetFile(shard) as file:
        column = file.metadata.row_group(0).column(file.schema_arrow.names.index("n"))
    raw = bytearray(shard.read_bytes())
    raw[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    (tmp_path / "bad.parquet").write_bytes(raw)
    with pytest.raises(OSError, match="(?i)crc|checksum"):
        pq.read_table(tmp_path / "bad.parquet", page_checksum_verification=True)


def test_strings_are_plain(run_folder: Path) -> None:
    schema = pq.read_schema(run_folder / "out" / "data" / shard_name(0, 3))
    assert not [field for field in schema if pa.types.is_dictionary(field.type)]
    assert {schema.field(name).type for name in ("text", "user_id", "note")} <= {
        pa.string(),
        pa.large_string(),
    }


def read_mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def test_the_workspace_is_private(run_folder: Path, tmp_path: Path) -> None:
    work = run_folder / "out.private"
    assert (read_mode(work), read_mode(work / "vault"), (work / ".gitignore").read_text()) == (
        "0700",
        "0700",
        "*\n",
    )
    run_with_settings(
        [run_folder / "in.parquet"],
        tmp_path / "out",
        load_plan("redact"),
        None,
        Settings(workers=1),
    )
    work = tmp_path / "out.private"
    assert [read_mode(work / "vault" / "key"), read_mode(work / "vault" / "key" / "key")] == [
        "0700",
        "0600",
    ]
    # a run with a seed stores no key
    assert not list((run_folder / "out.private" / "vault").glob("key/*"))


def test_an_existing_workspace_becomes_private(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(mode=0o755)
    run_with_settings(
        [run_folder / "in.parquet"],
        tmp_path / "out",
        load_plan("redact"),
        tmp_path / "work",
        Settings(seed=1, workers=1),
    )
    assert read_mode(tmp_path / "work") == "0700"


def test_a_run_leaves_only_output_and_workspace(run_folder: Path) -> None:
    assert sorted(path.name for path in run_folder.iterdir()) == [
        "in.parquet",
        "out",
        "out.private",
    ]
    assert (
        not list((run_folder / "out.private").rglob("*.tmp"))
        and not (run_folder / "out.private" / "spill").exists()
    )
    assert sorted(path.name for path in (run_folder / "out").iterdir()) == [
        "README.md",
        "SHA256SUMS",
        "data",
        "manifest.json",
        "report.html",
    ]


def run_datasets_script(*lines: str, folder: Path, cache: Path) -> Any:
    """The output of a new process without network access."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(cache),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    script = "; ".join(["import json, datasets", *lines])
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.slow
def test_datasets_loads_only_the_shards(run_folder: Path, tmp_path: Path) -> None:
    print_statement = (
        "print(json.dumps([{k: v.num_rows for k, v in d.items()} for d in (a, b)] +"
        " [a['train']['n'][:], a['train']['text'][0]]))"
    )
    row_counts_and_texts = run_datasets_script(
        "a = datasets.load_dataset('parquet', data_dir='out')",
        "b = datasets.load_dataset('out')",
        print_statement,
        folder=run_folder,
        cache=tmp_path,
    )
    assert row_counts_and_texts == [
        {"train": 7},
        {"train": 7},
        list(range(7)),
        "[EMAIL_ADDRESS] wrote 0, call [PHONE_NUMBER]",
    ]


def test_the_manifest_lists_every_file(run_folder: Path) -> None:
    manifest = json.loads((run_folder / "out" / "manifest.json").read_text())
    assert [entry["path"] for entry in manifest["shards"]] == [
        f"data/{shard_name(index, 3)}" for index in range(3)
    ]
    for entry in manifest["shards"]:
        path = run_folder / "out" / entry["path"]
        assert (entry["sha256"], entry["bytes"], entry["rows"]) == (
            file_sha256(path),
            path.stat().st_size,
            pq.read_metadata(path).num_rows,
        )
    assert [input_entry["sha256"] for input_entry in manifest["inputs"]] == [
        file_sha256(run_folder / "in.parquet")
    ]
    assert str(run_folder) not in json.dumps(manifest)


@pytest.mark.slow
def test_output_does_not_depend_on_workers_and_folder(run_folder: Path, tmp_path: Path) -> None:
    shutil.copy(run_folder / "in.parquet", tmp_path / "in.parquet")
    run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "other",
        load_plan("redact"),
        None,
        Settings(seed=1, workers=2, rows_per_shard=3),
    )
    assert read_shards(tmp_path / "other") == read_shards(run_folder / "out")


def read_shards(out: Path) -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted((out / "data").iterdir())]
