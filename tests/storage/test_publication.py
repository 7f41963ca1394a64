"""Task records and atomic publication: finished work is not repeated, OUT is always complete, shards contain only their rows."""

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
from sanitize.pipeline.run import run
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


class Work:
    """Writes two files, and counts its calls."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, task: Task) -> dict[str, Any]:
        self.times += 1
        assert task.folder.is_dir() and not list(task.folder.iterdir())
        (task.folder / "a").write_text("one")
        (task.folder / "b").write_text("two")
        return {"rows": 2}


def job(folder: Path, work: Any, fingerprint: str = "f") -> Job:
    return Job(
        function=work,
        task=Task(folder / "spill" / "task-0"),
        record_path=folder / "tasks" / "0.json",
        fingerprint=fingerprint,
        outputs={"a": folder / "here" / "a", "b": folder / "there" / "b"},
    )


def test_work_is_done_once(tmp_path: Path) -> None:
    work = Work()
    assert [run_job(job(tmp_path, work)) for _ in range(3)] == [{"rows": 2}] * 3
    assert work.times == 1
    assert (tmp_path / "here" / "a").read_text() + (tmp_path / "there" / "b").read_text() == "onetwo"
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()) == [
        "here/a",
        "tasks/0.json",
        "there/b",
    ]
    assert not (tmp_path / "spill" / "task-0").exists()


SPOILED = {
    "another fingerprint": lambda folder: None,
    "an output that was changed": lambda folder: (folder / "here" / "a").write_text("onf"),
    "an output that grew": lambda folder: (folder / "there" / "b").write_text("twotwo"),
    "an output that is empty": lambda folder: (folder / "there" / "b").write_text(""),
    "an output that is gone": lambda folder: (folder / "there" / "b").unlink(),
    "a folder of outputs that is gone": lambda folder: shutil.rmtree(folder / "here"),
    "no record": lambda folder: (folder / "tasks" / "0.json").unlink(),
    "a record cut short": lambda folder: (folder / "tasks" / "0.json").write_text((folder / "tasks" / "0.json").read_text()[:-9]),
    "a record that is empty": lambda folder: (folder / "tasks" / "0.json").write_text(""),
    # bug: a bare TypeError
    "a record of something else": lambda folder: (folder / "tasks" / "0.json").write_text("[1, 2]"),
    "a record without a result": lambda folder: (folder / "tasks" / "0.json").write_text('{"fingerprint": "f", "files": {}}'),
}


def test_a_record_of_other_files_is_not_used(tmp_path: Path) -> None:
    """A record of a version that gave the same outputs other names."""
    work = Work()
    run_job(job(tmp_path, work))
    record = tmp_path / "tasks" / "0.json"
    record.write_text(record.read_text().replace("there/b", "there/old"))
    (tmp_path / "there" / "b").rename(tmp_path / "there" / "old")
    assert run_job(job(tmp_path, work)) == {"rows": 2}
    assert work.times == 2 and (tmp_path / "there" / "b").is_file()


@pytest.mark.parametrize("case", SPOILED)
def test_what_does_not_fit_its_record_is_done_again(tmp_path: Path, case: str) -> None:
    work = Work()
    run_job(job(tmp_path, work))
    SPOILED[case](tmp_path)
    again = job(tmp_path, work, "g" if case == "another fingerprint" else "f")
    assert load_record(again.record_path, again.fingerprint) is None
    assert run_job(again) == {"rows": 2}
    assert work.times == 2
    assert (tmp_path / "here" / "a").read_text() + (tmp_path / "there" / "b").read_text() == "onetwo"
    assert run_job(again) == {"rows": 2} and work.times == 2


def test_leftovers_of_an_attempt_are_taken_away(tmp_path: Path) -> None:
    left = tmp_path / "spill" / "task-0"
    left.mkdir(parents=True)
    (left / "a").write_text("half")
    work = Work()
    run_job(job(tmp_path, work))
    assert work.times == 1 and not left.exists()


def test_work_that_fails_leaves_no_record(tmp_path: Path) -> None:
    def fails(task: Task) -> dict[str, Any]:
        (task.folder / "a").write_text("one")
        raise ValueError

    with pytest.raises(ValueError):
        run_job(job(tmp_path, fails))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "spill" not in path.parts]


def cut(raw: bytearray) -> None:
    del raw[-9:]


def flip(raw: bytearray) -> None:
    raw[len(raw) // 2] ^= 1


@pytest.mark.parametrize("spoil", [cut, flip])
def test_a_file_that_does_not_open_again_does_not_count(tmp_path: Path, spoil: Callable[[bytearray], None]) -> None:
    def work(task: Task) -> dict[str, Any]:
        texts = pa.table({"text": [f"{number} {PHONE}" * 9 for number in range(500)]})
        # without compression only the checksum tells that a bit was flipped
        pq.write_table(texts, task.folder / "a.parquet", compression="none", use_dictionary=False, write_page_checksum=True)
        raw = bytearray((task.folder / "a.parquet").read_bytes())
        spoil(raw)
        (task.folder / "a.parquet").write_bytes(raw)
        return {}

    one = dataclasses.replace(job(tmp_path, work), outputs={"a.parquet": tmp_path / "here" / "a.parquet"})
    with pytest.raises(OutputBroken, match="a.parquet: not readable after it was written"):
        run_job(one)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    if spoil is flip:  # the next room checks the pages of such a file itself
        assert run_job(dataclasses.replace(one, checked_by_next_stage=frozenset({"a.parquet"}))) == {}


def test_a_crash_between_any_two_steps_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash at the n-th disk call, for every n; the next attempt completes the task."""

    class Crash(BaseException):
        pass

    crashed, n = True, 0
    while crashed:
        n += 1
        folder, left = tmp_path / str(n), [n]

        def counting(whole: Any, left: list[int] = left) -> Any:
            def step(*args: Any, **more: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    raise Crash
                return whole(*args, **more)

            return step

        with monkeypatch.context() as patch:
            for name in ("fsync", "file_sha256", "write_json"):
                patch.setattr(task_records, name, counting(getattr(task_records, name)))
            patch.setattr(Path, "rename", counting(Path.rename))
            try:
                run_job(job(folder, Work()))
                crashed = False
            except Crash:
                pass
        work = Work()
        assert run_job(job(folder, work)) == {"rows": 2}
        assert (folder / "here" / "a").read_text() + (folder / "there" / "b").read_text() == "onetwo"
        assert work.times == int(crashed) or (work.times == 0 and (folder / "tasks" / "0.json").exists())
        assert not (folder / "spill" / "task-0").exists()
    assert n > 8


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.EROFS, errno.EFBIG])
def test_disk_trouble_is_one_clear_error(tmp_path: Path, code: int) -> None:
    with pytest.raises(ResourceError) as caught, translate_disk_errors(tmp_path / "not" / "there"):
        raise OSError(code, "secret words", "secret.txt")
    assert caught.value.exit_code == 7 and errno.errorcode[code] in str(caught.value)
    assert "secret" not in str(caught.value) and caught.value.__suppress_context__


def test_other_trouble_passes(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), translate_disk_errors(tmp_path):
        (tmp_path / "nothing").read_bytes()
    with pytest.raises(ResourceError, match="memory"), translate_disk_errors(tmp_path):
        raise MemoryError


# ---- OUT ----


def version(folder: Path, number: int, shards: int = 2) -> dict[str, Any]:
    """Arguments of `publish_corpus` for version n: every file contains n."""
    sources = []
    for at in range(shards):
        path = folder / f"v{number}-{at}.parquet"
        path.write_text(f"{number}" * 5_000)
        sources.append((path, file_sha256(path)))
    return {
        "shards": sources,
        "text_files": {"README.md": f"{number}", "report.html": f"{number}"},
        "manifest": {"version": number, "shards": [f"data/{shard_name(at, shards)}" for at in range(shards)]},
        "find_leaks": lambda texts: [],
    }


def seen(out: Path) -> set[str]:
    """The versions that a reader sees that opens the manifest through one folder handle."""
    manifest = json.loads((out / "manifest.json").read_text())
    return {str(manifest["version"]), (out / "README.md").read_text(), *({(out / path).read_text()[:1] for path in manifest["shards"]})}


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


WHOLE = ["README.md", "data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "manifest.json", "report.html"]


def test_a_corpus_is_published_whole(tmp_path: Path) -> None:
    publish_corpus(tmp_path / "out", **version(tmp_path, 1))
    assert names(tmp_path / "out") == WHOLE
    assert seen(tmp_path / "out") == {"1"}
    assert not list(tmp_path.glob(".out*"))


def test_shards_are_linked_not_copied(tmp_path: Path) -> None:
    told = version(tmp_path, 1)
    publish_corpus(tmp_path / "out", **told)
    for at, (source, _) in enumerate(told["shards"]):
        assert os.path.samefile(source, tmp_path / "out" / "data" / shard_name(at, 2))


def test_shards_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", link)
    publish_corpus(tmp_path / "out", **version(tmp_path, 1))
    assert names(tmp_path / "out") == WHOLE and seen(tmp_path / "out") == {"1"}


def test_leftovers_beside_out_are_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".out.sanitize-new" / "data").mkdir(parents=True)
    (tmp_path / ".out.sanitize-new" / "data" / "half.parquet").write_text("half")
    publish_corpus(tmp_path / "out", **version(tmp_path, 1))
    assert names(tmp_path / "out") == WHOLE


@pytest.mark.parametrize("old", [False, True])
def test_a_shard_that_is_not_what_its_record_says_is_not_published(tmp_path: Path, old: bool) -> None:
    if old:
        publish_corpus(tmp_path / "out", **version(tmp_path, 1))
    told = version(tmp_path, 2)
    told["shards"][1][0].write_text("another")
    with pytest.raises(OutputBroken, match="sha256"):
        publish_corpus(tmp_path / "out", **told)
    assert not list(tmp_path.glob(".out*"))
    assert (seen(tmp_path / "out") == {"1"}) if old else not (tmp_path / "out").exists()


def test_pages_and_manifest_are_scanned_before_they_count(tmp_path: Path) -> None:
    publish_corpus(tmp_path / "out", **version(tmp_path, 1))
    asked: dict[str, str] = {}
    told = {**version(tmp_path, 2), "find_leaks": lambda texts: asked.update(texts) or [("report.html", "EMAIL_ADDRESS")]}
    with pytest.raises(LeakFound, match="report.html would contain a removed EMAIL_ADDRESS"):
        publish_corpus(tmp_path / "out", **told)
    assert sorted(asked) == ["README.md", "manifest.json", "report.html"] and json.loads(asked["manifest.json"])["version"] == 2
    assert seen(tmp_path / "out") == {"1"} and not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("atomic", [True, False])
def test_a_crash_between_any_two_steps_leaves_out_absent_old_or_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, atomic: bool) -> None:
    class Crash(BaseException):
        pass

    if not atomic:
        monkeypatch.setattr(publication, "_exchange", lambda *_: False)
    told = {number: version(tmp_path, number) for number in (1, 2)}
    found = set()
    for old in (False, True):
        crashed, n = True, 0
        while crashed:
            n += 1
            left, out = [n], tmp_path / f"out-{old}-{n}"
            if old:
                publish_corpus(out, **told[1])

            def counting(whole: Any, left: list[int] = left) -> Any:
                def step(*args: Any, **more: Any) -> Any:
                    left[0] -= 1
                    if left[0] == 0:
                        raise Crash
                    return whole(*args, **more)

                return step

            with monkeypatch.context() as patch:
                for name in ("fsync", "file_sha256", "write_json", "swap_folders", "_exchange"):
                    patch.setattr(publication, name, counting(getattr(publication, name)))
                for name in ("rename", "write_text", "mkdir"):
                    patch.setattr(Path, name, counting(getattr(Path, name)))
                patch.setattr(os, "link", counting(os.link))
                patch.setattr(shutil, "rmtree", counting(shutil.rmtree))
                try:
                    publish_corpus(out, **told[2])
                    crashed = False
                except Crash:
                    pass
            state = "".join(sorted(seen(out))) if out.exists() else "absent"
            found.add((old, state))
            if out.exists():
                assert names(out) == WHOLE
            publish_corpus(out, **told[2])  # the next run mends whatever was left
            assert seen(out) == {"2"} and names(out) == WHOLE
            # bug: where no atomic exchange is to be had, a crash between the two renames leaves OUT.old for good
            assert not list(tmp_path.glob(f".out-{old}-{n}.*"))
        assert n > 10
    assert found == {(False, "absent"), (False, "2"), (True, "1"), (True, "2")} | (set() if atomic else {(True, "absent")})


@pytest.mark.skipif(sys.platform != "linux", reason="the atomic exchange is Linux's")
def test_a_reader_sees_whole_versions_only(tmp_path: Path) -> None:
    out, done, trouble, looks = tmp_path / "out", threading.Event(), [], []
    publish_corpus(out, **version(tmp_path, 0))

    def watch() -> None:
        while not done.is_set():
            # a folder handle stands for a reader that opened OUT once
            handle = os.open(out, os.O_RDONLY)
            try:
                listed = os.listdir(handle)
                whole = sorted(listed) == ["README.md", "data", "manifest.json", "report.html"]
                # an old version may be on its way out behind the handle, but never under the name
                if not whole and os.path.samestat(os.fstat(handle), os.stat(out)):
                    trouble.append(listed)
                looks.append(len(listed))
            except FileNotFoundError as error:
                trouble.append(error)
            finally:
                os.close(handle)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        for number in range(1, 60):
            publish_corpus(out, **version(tmp_path, number % 10))
    finally:
        done.set()
        thread.join()
    assert trouble == [] and len(looks) > 50
    assert seen(out) == {"9"}


def test_swap_gives_a_folder_its_name(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / str(number)).write_text("x")
        swap_folders(tmp_path / "new", tmp_path / "out")
        assert names(tmp_path / "out") == [str(number)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


# ---- what a run leaves ----


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    old = os.umask(0o022)
    try:
        run([folder / "in.parquet"], folder / "out", load_plan("redact"), None, Settings(seed=1, workers=1, rows_per_shard=3))
    finally:
        os.umask(old)
    return folder


def test_shards_hold_nothing_but_their_rows(made: Path) -> None:
    shards = sorted((made / "out" / "data").iterdir())
    assert [shard.name for shard in shards] == [shard_name(at, 3) for at in range(3)]
    for shard in shards:
        with pq.ParquetFile(shard) as file:
            assert not file.metadata.metadata
            assert "ARROW:schema" not in str(file.schema_arrow.metadata)
            for group in range(file.num_row_groups):
                for at in range(file.metadata.num_columns):
                    column = file.metadata.row_group(group).column(at)
                    assert column.compression == "ZSTD"
                    assert not column.is_stats_set and column.statistics is None
                    assert not column.has_dictionary_page
                    assert not [name for name in column.encodings if "DICT" in name]
                    assert not column.has_column_index and not column.has_offset_index
        raw = shard.read_bytes()
        assert not [word for word in (b"ARROW:schema", b"pandas", BOB.encode(), b"c2VjcmV0") if word in raw]


def test_shards_have_page_checksums(made: Path, tmp_path: Path) -> None:
    shard = made / "out" / "data" / shard_name(0, 3)
    with pq.ParquetFile(shard) as file:
        column = file.metadata.row_group(0).column(file.schema_arrow.names.index("n"))
    raw = bytearray(shard.read_bytes())
    raw[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    (tmp_path / "bad.parquet").write_bytes(raw)
    with pytest.raises(OSError, match="(?i)crc|checksum"):
        pq.read_table(tmp_path / "bad.parquet", page_checksum_verification=True)


def test_strings_are_plain(made: Path) -> None:
    schema = pq.read_schema(made / "out" / "data" / shard_name(0, 3))
    assert not [field for field in schema if pa.types.is_dictionary(field.type)]
    assert {schema.field(name).type for name in ("text", "user_id", "note")} <= {pa.string(), pa.large_string()}


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def test_the_private_folder_is_private(made: Path, tmp_path: Path) -> None:
    work = made / "out.private"
    assert (mode(work), mode(work / "vault"), (work / ".gitignore").read_text()) == ("0700", "0700", "*\n")
    run([made / "in.parquet"], tmp_path / "out", load_plan("redact"), None, Settings(workers=1))
    work = tmp_path / "out.private"
    assert [mode(work / "vault" / "key"), mode(work / "vault" / "key" / "key")] == ["0700", "0600"]
    assert not list((made / "out.private" / "vault").glob("key/*"))  # a seed leaves no key behind


def test_an_open_private_folder_is_closed(made: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(mode=0o755)
    run([made / "in.parquet"], tmp_path / "out", load_plan("redact"), tmp_path / "work", Settings(seed=1, workers=1))
    assert mode(tmp_path / "work") == "0700"


def test_nothing_is_left_beside_out(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == ["in.parquet", "out", "out.private"]
    assert not list((made / "out.private").rglob("*.tmp")) and not (made / "out.private" / "spill").exists()
    assert sorted(path.name for path in (made / "out").iterdir()) == ["README.md", "data", "manifest.json", "report.html"]


def loaded(*lines: str, folder: Path, cache: Path) -> Any:
    """The output of a new process without network access."""
    told = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(cache),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    script = "; ".join(["import json, datasets", *lines])
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=told, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_datasets_reads_the_shards_and_nothing_else(made: Path, tmp_path: Path) -> None:
    say = "print(json.dumps([{k: v.num_rows for k, v in d.items()} for d in (a, b)] + [a['train']['n'][:], a['train']['text'][0]]))"
    told = loaded(
        "a = datasets.load_dataset('parquet', data_dir='out')",
        "b = datasets.load_dataset('out')",
        say,
        folder=made,
        cache=tmp_path,
    )
    assert told == [{"train": 7}, {"train": 7}, list(range(7)), "[EMAIL_ADDRESS] wrote 0, call [PHONE_NUMBER]"]


def test_the_manifest_knows_every_file(made: Path) -> None:
    manifest = json.loads((made / "out" / "manifest.json").read_text())
    assert [entry["path"] for entry in manifest["shards"]] == [f"data/{shard_name(at, 3)}" for at in range(3)]
    for entry in manifest["shards"]:
        path = made / "out" / entry["path"]
        assert (entry["sha256"], entry["bytes"], entry["rows"]) == (file_sha256(path), path.stat().st_size, pq.read_metadata(path).num_rows)
    assert [one["sha256"] for one in manifest["inputs"]] == [file_sha256(made / "in.parquet")]
    assert str(made) not in json.dumps(manifest)


def test_the_same_bytes_for_any_number_of_workers_and_places(made: Path, tmp_path: Path) -> None:
    shutil.copy(made / "in.parquet", tmp_path / "in.parquet")
    run([tmp_path / "in.parquet"], tmp_path / "other", load_plan("redact"), None, Settings(seed=1, workers=2, rows_per_shard=3))
    assert shards_of(tmp_path / "other") == shards_of(made / "out")


def shards_of(out: Path) -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted((out / "data").iterdir())]
