"""Input and OUT at URLs: allowed URLs, complete downloads, and an OUT that is always the old or the
new one, whichever call fails."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import hashlib
import io
import json
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sanitize.errors import (
    InputRefused,
    LeakFound,
    Locked,
    MissingExtra,
    OutputBroken,
    RemoteUnavailable,
    SanitizeError,
    UsageError,
)
from sanitize.inspection import sql_api
from sanitize.pipeline.erasure.subject_request import subject
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.settings import Settings
from sanitize.readers import remote_input
from sanitize.storage import remote_storage
from sanitize.storage.corpus import Corpus
from sanitize.storage.files import read_json
from sanitize.storage.remote_output import (
    LOCK_NAME,
    RemoteOutput,
    check_urls_disjoint,
    require_workspace,
)
from sanitize.storage.remote_storage import (
    ObjectMissing,
    RemoteStorage,
    check_url,
    is_url,
    redact_url,
)
from sanitize.verification.published.output_check import verify
from tests.support import read_files

CANARY = "canary-of-a-library"
STORAGE_CALLS = (
    "info",
    "find",
    "cat_file",
    "get_file",
    "put_file",
    "pipe_file",
    "rm",
    "mv",
    "cp_file",
)


class FaultyFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """An in-memory storage in which any call can fail: `fault(call, number, do)` is called each
    time."""

    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]
    pseudo_dirs: ClassVar[list[str]] = [""]  # type: ignore[misc]
    calls = 0
    fault: ClassVar[Callable[..., Any] | None] = None
    _in_call = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(str(path).replace("faulty://", "memory://")))


def _wrap_call(name: str) -> Callable[..., Any]:
    original = getattr(MemoryFileSystem, name)

    def call(self: FaultyFileSystem, *args: Any, **more: Any) -> Any:
        if FaultyFileSystem._in_call or FaultyFileSystem.fault is None:
            return original(self, *args, **more)
        FaultyFileSystem.calls += 1
        FaultyFileSystem._in_call = True
        try:
            return FaultyFileSystem.fault(
                name, FaultyFileSystem.calls, lambda: original(self, *args, **more), args, self
            )
        finally:
            FaultyFileSystem._in_call = False

    return call


for _name in STORAGE_CALLS:
    setattr(FaultyFileSystem, _name, _wrap_call(_name))
fsspec.register_implementation("faulty", FaultyFileSystem, clobber=True)


@pytest.fixture(autouse=True)
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryFileSystem]:
    monkeypatch.setattr(remote_storage, "RETRY_SECONDS", 0.0)
    # no parallel calls, so that the n-th call is always the same
    monkeypatch.setattr(remote_input, "MAX_PARALLEL_REQUESTS", 1)
    FaultyFileSystem.store.clear()
    FaultyFileSystem.pseudo_dirs[:] = [""]
    FaultyFileSystem.fault, FaultyFileSystem.calls, FaultyFileSystem._in_call = None, 0, False
    yield fsspec.filesystem("faulty")
    FaultyFileSystem.fault = None


# ---- URLs ----


@pytest.mark.parametrize(
    ("location", "is_remote", "redacted"),
    [
        ("s3://bucket/a/b", True, "s3://bucket/a/b"),
        ("S3://bucket/a", True, "s3://bucket/a"),
        ("https://ann:pass@host.example.com/x?token=abc#part", True, "https://host.example.com/x"),
        (
            "abfss://box@account.dfs.core.windows.net/x",
            True,
            "abfss://box@account.dfs.core.windows.net/x",
        ),
        ("abfss://box:pass@account.example.com/x", True, "abfss://account.example.com/x"),
        ("memory://x?sig=abc", True, "memory://x"),
        ("folder/s3:/x", False, ""),
        ("C:/x", False, ""),
        ("/abs/path", False, ""),
    ],
)
def test_urls_are_recognized_and_redacted(location: str, is_remote: bool, redacted: str) -> None:
    assert is_url(location) is is_remote and not is_url(Path(location))
    if is_remote:
        assert redact_url(location) == redacted


@pytest.mark.parametrize(
    ("url", "message_part"),
    [
        ("s3://AKIAX:secret@bucket/x", "credentials"),
        ("s3://AKIAX@bucket/x", "credentials"),
        ("https://ann:secret@host.example.com/x", "credentials"),
        ("simplecache::s3://bucket/x", "chained"),
    ],
)
def test_a_url_with_credentials_or_a_chain_is_refused_without_quoting_it(
    url: str, message_part: str
) -> None:
    if "::" in url:
        url = url.replace("simplecache::s3", "s3::simplecache") if not is_url(url) else url
    with pytest.raises(UsageError, match=message_part) as error:
        check_url("zip://x.zip::" + url if "::" in url else url)
    assert "secret" not in str(error.value) and "AKIAX" not in str(error.value)


def test_unknown_schemes_and_missing_packages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown storage s4://.*s3"):
        RemoteStorage("s4://bucket/x")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(
        MissingExtra,
        match=r"gcsfs is not installed; install it with: pip install 'corpus-sanitize\[remote\]'",
    ):
        RemoteStorage("gs://bucket/x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtra, match=r"fsspec.*\[remote\]"):
        RemoteStorage("memory://x")


class NoCredentialsError(Exception):
    """An exception like those of cloud libraries."""


@pytest.mark.parametrize(
    ("error", "output", "kind", "expected_tries"),
    [
        (NoCredentialsError(CANARY), False, UsageError, 1),
        (PermissionError(CANARY), False, InputRefused, 1),
        (PermissionError(CANARY), True, UsageError, 1),
        (OSError(CANARY), False, RemoteUnavailable, 3),
        (TimeoutError(CANARY), True, RemoteUnavailable, 3),
        (RuntimeError(CANARY), False, RemoteUnavailable, 3),
    ],
)
def test_storage_errors_are_reported_without_their_text(
    error: Exception, output: bool, kind: type[SanitizeError], expected_tries: int
) -> None:
    def fault(name: str, number: int, call_original: Callable[[], Any], *_: Any) -> Any:
        raise error

    storage = RemoteStorage("faulty://in/x", is_output=output)
    FaultyFileSystem.fault = fault
    with pytest.raises(SanitizeError) as caught:
        storage.info("/in/x")
    assert type(caught.value) is kind and FaultyFileSystem.calls == expected_tries
    assert CANARY not in str(caught.value) and "faulty://in/x" in str(caught.value)


@pytest.mark.parametrize(
    ("work", "message_part"),
    [
        (None, "the private folder must be named too"),
        ("s3://bucket/private", "folder on this machine"),
        ("https://ann:secret@host.example.com/x", "folder on this machine"),
    ],
)
def test_workspace_of_a_remote_output_must_be_named_and_local(
    work: str | None, message_part: str
) -> None:
    with pytest.raises(UsageError, match=message_part) as error:
        require_workspace(work, "faulty://out")
    assert "secret" not in str(error.value)


# ---- INPUT ----


def fetch_inputs(inputs: list[str], work: Path) -> remote_input.InputSet:
    input_set = remote_input.list_inputs(inputs, work)
    work.mkdir(exist_ok=True)
    input_set.fetch()
    return input_set


def test_folders_files_and_patterns_come_in_corpus_order(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    for name in ("in/b/2.txt", "in/a.txt", "in/b/10.txt", "in/Z.txt", "more/y.txt", "more/x.txt"):
        storage.pipe_file(f"/{name}", name.encode())
    (tmp_path / "here.txt").write_text("here")
    input_set = fetch_inputs(
        ["faulty://more/*.txt", str(tmp_path / "here.txt"), "faulty://in", "faulty://in/a.txt"],
        tmp_path / "work",
    )
    fetched = [
        sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        if path.is_dir()
        else path.read_text()
        for path in input_set.paths_to_read
    ]
    assert fetched == [
        "more/x.txt",
        "more/y.txt",
        "here",
        ["Z.txt", "a.txt", "b/10.txt", "b/2.txt"],
        "in/a.txt",
    ]
    assert input_set.display_names == [
        "faulty://more/*.txt",
        str(tmp_path / "here.txt"),
        "faulty://in",
        "faulty://in/a.txt",
    ]
    assert all(
        stat.S_IMODE(path.stat().st_mode) == 0o700 for path in [tmp_path / "work" / "fetched"]
    )
    input_set.remove_fetched({})
    assert not (tmp_path / "work" / "fetched").exists() and (tmp_path / "here.txt").exists()


def test_only_changed_objects_are_fetched_again_and_deleted_ones_removed(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    for name in "abc":
        storage.pipe_file(f"/in/{name}", name.encode())
    fetched_paths: list[str] = []

    def fault(name: str, number: int, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        if name == "get_file":
            fetched_paths.append(str(args[0]))
        return call_original()

    FaultyFileSystem.fault = fault
    fetch_inputs(["faulty://in"], tmp_path)
    assert fetched_paths == ["/in/a", "/in/b", "/in/c"]
    storage.pipe_file("/in/b", b"B")
    storage.rm("/in/c")
    fetched_paths.clear()
    fetch_inputs(["faulty://in"], tmp_path)
    assert fetched_paths == ["/in/b"]
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "fetched").rglob("*") if path.is_file()
    } == {"a": b"a", "b": b"B"}


@pytest.mark.parametrize("failures", [1, 99])
def test_an_incomplete_download_is_retried_or_refused(
    failures: int, storage: MemoryFileSystem, tmp_path: Path
) -> None:
    storage.pipe_file("/in/a", b"0123456789" * 100)
    failures_left = [failures]

    def fault(name: str, number: int, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        call_original()
        if name == "get_file" and failures_left[0]:
            failures_left[0] -= 1
            Path(args[1]).write_bytes(b"0123456789")  # without an error
        return call_original() if name != "get_file" else None

    FaultyFileSystem.fault = fault
    if failures == 1:
        fetch_inputs(["faulty://in"], tmp_path)
        assert (tmp_path / "fetched" / "0-00000" / "in" / "a").read_bytes() == b"0123456789" * 100
    else:
        with pytest.raises(RemoteUnavailable, match="failed 3 times"):
            fetch_inputs(["faulty://in"], tmp_path)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_object_that_changes_during_a_run_is_refused(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    storage.pipe_file("/in/a", b"one")
    storage.pipe_file("/in/b", b"two")
    input_set = remote_input.list_inputs(["faulty://in"], tmp_path)
    storage.pipe_file("/in/b", b"TWO")  # of the same size, between the listing and the reading
    with pytest.raises(InputRefused, match="changed or was removed"):
        input_set.fetch()
    input_set = fetch_inputs(["faulty://in"], tmp_path)
    input_set.check_unchanged()
    storage.pipe_file("/in/b", b"two")
    with pytest.raises(InputRefused, match="file 2 of the input changed"):
        input_set.check_unchanged()
    storage.rm("/in/a")
    with pytest.raises(InputRefused, match="file 1 of the input changed"):
        input_set.check_unchanged()


def test_a_stale_listing_is_detected(storage: MemoryFileSystem, tmp_path: Path) -> None:
    storage.pipe_file("/in/a", b"one")
    storage.pipe_file("/in/b", b"two")
    old_listing = storage.find("/in", detail=True)
    storage.rm("/in/b")
    storage.pipe_file("/in/a", b"three")
    FaultyFileSystem.fault = lambda name, number, call_original, *_: (
        old_listing if name == "find" else call_original()
    )
    with pytest.raises(InputRefused, match="1 listed objects are not there"):
        remote_input.list_inputs(["faulty://in"], tmp_path)
    del old_listing["/in/b"]
    input_set = fetch_inputs(["faulty://in"], tmp_path)  # size and time are requested again
    assert (input_set.paths_to_read[0] / "a").read_bytes() == b"three"


@pytest.mark.parametrize(
    "names", [["/in/../x"], ["/in/a//b"], ["/in/./b"], ["/in/a", "/in/a/b"], ["/in/" + "x" * 256]]
)
def test_object_names_that_are_no_file_names_are_refused(
    names: list[str], storage: MemoryFileSystem, tmp_path: Path
) -> None:
    storage.pipe_file("/in/good", b"x")
    listing = {name: {"name": name, "size": 1, "type": "file"} for name in ["/in/good", *names]}
    FaultyFileSystem.fault = lambda name, number, call_original, *_: (
        listing if name == "find" else call_original()
    )
    with pytest.raises(InputRefused, match="names that cannot be file names"):
        remote_input.list_inputs(["faulty://in"], tmp_path)


@pytest.mark.parametrize("url", ["faulty://none", "faulty://none/*.txt"])
def test_a_missing_input_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="no such file|nothing matches"):
        remote_input.list_inputs([url], tmp_path)


# ---- OUT ----


def write_corpus(folder: Path, word: str, shards: int = 2) -> Path:
    """A folder as a run publishes it, with the files that an upload reads."""
    (folder / "data").mkdir(parents=True)
    entries = []
    for number in range(shards):
        path = folder / "data" / f"train-{number:05d}-of-{shards:05d}.parquet"
        # the first is the same in every version
        path.write_bytes(f"{word if number else ''} {number} ".encode() * 50)
        entries.append(
            {
                "path": f"data/{path.name}",
                "rows": 1,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
        )
    (folder / "README.md").write_text(word)
    (folder / "manifest.json").write_text(json.dumps({"run_hash": word, "shards": entries}))
    return folder


def upload(out: str, folder: Path, work: Path, keep_versions: bool = False) -> bool:
    prefix = RemoteOutput(out)
    with prefix.hold_lock(work):
        return prefix.publish(folder, keep_versions=keep_versions, before_switch=lambda: None)


def read_published(out: str, folder: Path) -> dict[str, bytes] | None:
    """What a reader finds through the manifest; None without a manifest."""
    FaultyFileSystem.fault = None
    prefix = RemoteOutput(out)
    if prefix.read_manifest() is None:
        return None
    folder.mkdir(exist_ok=True)
    with prefix.download_corpus(folder) as downloaded:
        return read_files(downloaded)


@pytest.mark.parametrize("scheme", ["faulty", "file"])
def test_versions_are_published_replaced_and_kept(scheme: str, tmp_path: Path) -> None:
    out = "faulty://pub/out" if scheme == "faulty" else f"file://{tmp_path}/pub/out"
    first_corpus, second_corpus, work = (
        write_corpus(tmp_path / "one", "one"),
        write_corpus(tmp_path / "two", "two"),
        tmp_path / "work",
    )
    assert upload(out, first_corpus, work) and not upload(out, first_corpus, work)
    assert read_published(out, tmp_path / "a") == read_files(first_corpus)
    assert upload(out, second_corpus, work, keep_versions=True)
    assert read_published(out, tmp_path / "b") == read_files(second_corpus)
    fs, top = RemoteOutput(out).storage.fs, RemoteOutput(out).storage.path
    manifest = json.loads(fs.cat_file(f"{top}/manifest.json"))
    for entry in manifest["shards"]:
        assert hashlib.sha256(fs.cat_file(f"{top}/{entry['path']}")).hexdigest() == entry["sha256"]
    assert len(fs.ls(f"{top}/versions", detail=False)) == 2
    # without --keep-versions the other version is deleted
    assert not upload(out, second_corpus, work)
    assert len(fs.ls(f"{top}/versions", detail=False)) == 1 and not fs.exists(f"{top}/{LOCK_NAME}")


def _make_faults() -> dict[str, Callable[..., Any]]:
    def fail(name: str, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        raise OSError(CANARY)

    def fail_after_call(name: str, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        call_original()
        raise ConnectionError(CANARY)

    def write_half(name: str, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        if name == "put_file":
            data = Path(args[0]).read_bytes()
            return MemoryFileSystem.pipe_file(fs, args[1], data[: len(data) // 2])
        if name == "pipe_file":
            return MemoryFileSystem.pipe_file(fs, args[0], args[1][: len(args[1]) // 2])
        return call_original()

    return {
        "fails": fail,
        "succeeds but reports an error": fail_after_call,
        "writes half without an error": write_half,
    }


@pytest.mark.parametrize("fault_name", _make_faults())
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "replaced"])
def test_readers_see_a_complete_version_whichever_call_fails(
    fault_name: str, is_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_storage, "MAX_TRIES", 1)
    first_corpus, second_corpus, work, out = (
        write_corpus(tmp_path / "one", "one", 1),
        write_corpus(tmp_path / "two", "two", 1),
        tmp_path / "work",
        "faulty://pub/out",
    )
    (work / "remote").mkdir(parents=True)
    inject_fault, old_version_count = _make_faults()[fault_name], 0
    for n in range(1, 200):
        FaultyFileSystem.store.clear()
        FaultyFileSystem.fault = None
        if not is_first:
            upload(out, first_corpus, work)
        FaultyFileSystem.calls = 0
        FaultyFileSystem.fault = lambda name, number, call_original, args, fs, n=n: (
            inject_fault(name, call_original, args, fs) if number == n else call_original()
        )
        with contextlib.suppress(SanitizeError):
            upload(out, second_corpus, work)
        is_last = FaultyFileSystem.calls < n
        FaultyFileSystem.fault = None
        old = None if is_first else read_files(first_corpus)
        published_files = read_published(out, tmp_path / f"seen-{n}")
        assert published_files in (old, read_files(second_corpus))
        old_version_count += published_files == old
        upload(out, second_corpus, work)  # the same command again
        assert read_published(out, tmp_path / f"again-{n}") == read_files(second_corpus)
        names = RemoteOutput(out).storage.fs.find("/pub/out")
        assert (
            len({name.split("/")[4] for name in names if "/versions/" in name}) == 1
            and len(names) == 4
        )
        if is_last:
            break
    else:
        raise AssertionError("the upload never ended")
    assert old_version_count > (2 if fault_name.startswith("writes") else 5)


def test_a_single_fault_is_retried(tmp_path: Path) -> None:
    first_corpus, out = write_corpus(tmp_path / "one", "one", 1), "faulty://pub/out"
    for inject_fault in _make_faults().values():
        for n in range(1, 60):
            FaultyFileSystem.store.clear()
            FaultyFileSystem.calls = 0
            FaultyFileSystem.fault = (
                lambda name, number, call_original, args, fs, n=n, inject_fault=inject_fault: (
                    inject_fault(name, call_original, args, fs)
                    if number == n and name != "rm"
                    else call_original()
                )
            )
            upload(out, first_corpus, tmp_path / "work")
            is_last = FaultyFileSystem.calls < n
            FaultyFileSystem.fault = None
            assert read_published(out, tmp_path / "seen") == read_files(first_corpus)
            if is_last:
                break


def test_a_stopped_upload_resumes_with_uploaded_objects(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    first_corpus, work, out = (
        write_corpus(tmp_path / "one", "one", 5),
        tmp_path / "work",
        "faulty://pub/out",
    )
    uploaded: list[str] = []

    def fault(name: str, number: int, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        if name == "put_file":
            uploaded.append(str(args[1]))
            if len(uploaded) == 4:
                raise KeyboardInterrupt
        return call_original()

    FaultyFileSystem.fault = fault
    with pytest.raises(KeyboardInterrupt):
        upload(out, first_corpus, work)
    assert not storage.exists("/pub/out/manifest.json")
    assert upload(out, first_corpus, work)
    assert len(uploaded) == 4 + 7 - 3  # three were uploaded completely


def test_incomplete_versions_are_deleted_with_keep_versions(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    first_corpus, second_corpus, work, out = (
        write_corpus(tmp_path / "one", "one"),
        write_corpus(tmp_path / "two", "two"),
        tmp_path / "work",
        "faulty://pub/out",
    )

    def fault(name: str, number: int, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        if name == "put_file" and str(args[1]).endswith("-00001-of-00002.parquet"):
            raise KeyboardInterrupt
        return call_original()

    FaultyFileSystem.fault = fault
    with pytest.raises(KeyboardInterrupt):
        upload(out, first_corpus, work)
    FaultyFileSystem.fault = None
    assert len(storage.ls("/pub/out/versions")) == 1
    upload(out, second_corpus, work, keep_versions=True)
    assert len(storage.ls("/pub/out/versions")) == 1 and read_published(
        out, tmp_path / "seen"
    ) == read_files(second_corpus)


def test_only_one_run_publishes_at_a_time(storage: MemoryFileSystem, tmp_path: Path) -> None:
    first_corpus, second_corpus, out = (
        write_corpus(tmp_path / "one", "one"),
        write_corpus(tmp_path / "two", "two"),
        "faulty://pub/out",
    )
    with (
        RemoteOutput(out).hold_lock(tmp_path / "work"),
        pytest.raises(Locked, match="another run has been publishing"),
    ):
        upload(out, first_corpus, tmp_path / "other")
    upload(out, first_corpus, tmp_path / "other")
    killed_lock = RemoteOutput(out).hold_lock(tmp_path / "work")
    killed_lock.__enter__()  # the lock is not released
    with pytest.raises(Locked, match=LOCK_NAME):
        upload(out, second_corpus, tmp_path / "other")
    # a run with the same WORK knows that the lock is stale
    assert upload(out, second_corpus, tmp_path / "work")
    prefix = RemoteOutput(out)
    with prefix.hold_lock(tmp_path / "work"), pytest.raises(Locked, match="meanwhile"):
        storage.pipe_file(f"/pub/out/{LOCK_NAME}", b"{}")
        prefix.publish(first_corpus, keep_versions=False, before_switch=lambda: None)
    assert read_published(out, tmp_path / "seen") == read_files(second_corpus)


def test_a_concurrent_publication_is_detected(storage: MemoryFileSystem, tmp_path: Path) -> None:
    first_corpus, second_corpus, out = (
        write_corpus(tmp_path / "one", "one"),
        write_corpus(tmp_path / "two", "two"),
        "faulty://pub/out",
    )
    upload(out, first_corpus, tmp_path / "work")
    other_manifest = storage.cat_file("/pub/out/manifest.json").replace(b'"one"', b'"two"')
    prefix = RemoteOutput(out)
    with prefix.hold_lock(tmp_path / "work"), pytest.raises(Locked, match="meanwhile"):
        prefix.publish(
            second_corpus,
            keep_versions=True,
            before_switch=lambda: storage.pipe_file("/pub/out/manifest.json", other_manifest),
        )
    assert storage.cat_file("/pub/out/manifest.json") == other_manifest


def test_a_prefix_with_foreign_objects_is_refused(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    storage.pipe_file("/pub/out/notes.txt", b"x")
    with pytest.raises(UsageError, match="contains 1 objects that sanitize did not write"):
        RemoteOutput("faulty://pub/out").check_replaceable("one", False)
    storage.pipe_file("/pub/other/manifest.json", b'{"shards": []}')
    with pytest.raises(UsageError, match="sanitize did not write"):
        RemoteOutput("faulty://pub/other").check_replaceable("one", True)
    upload("faulty://pub/mine", write_corpus(tmp_path / "one", "one"), tmp_path / "work")
    RemoteOutput("faulty://pub/mine").check_replaceable("one", False)
    RemoteOutput("faulty://pub/mine").check_replaceable("two", True)
    with pytest.raises(UsageError, match="--replace"):
        RemoteOutput("faulty://pub/mine").check_replaceable("two", False)


def test_changed_missing_and_extra_objects_are_found(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    first_corpus, out = write_corpus(tmp_path / "one", "one"), "faulty://pub/out"
    with (
        pytest.raises(OutputBroken, match=r"no manifest\.json"),
        RemoteOutput(out).download_corpus(tmp_path),
    ):
        pass
    cases: list[tuple[str, Callable[[str], Any], str]] = [
        (
            "changed",
            lambda base: storage.pipe_file(f"{base}/data/train-00001-of-00002.parquet", b"y" * 300),
            "sha256 differs",
        ),
        (
            "missing",
            lambda base: storage.rm(f"{base}/data/train-00001-of-00002.parquet"),
            "is missing",
        ),
        (
            "more",
            lambda base: storage.pipe_file(f"{base}/data/more.parquet", b"x"),
            "not in the manifest",
        ),
    ]
    for name, damage, message_part in cases:
        FaultyFileSystem.store.clear()
        upload(out, first_corpus, tmp_path / "work")
        damage(
            f"/pub/out/versions/{json.loads(storage.cat_file('/pub/out/manifest.json'))['version']}"
        )
        (tmp_path / name).mkdir()
        with (
            pytest.raises(OutputBroken, match=message_part),
            RemoteOutput(out).download_corpus(tmp_path / name),
        ):
            pass
    manifest = json.loads(storage.cat_file("/pub/out/manifest.json"))
    storage.pipe_file(
        "/pub/out/manifest.json",
        json.dumps({**manifest, "files": {"../../escaped": {"sha256": "x"}}}).encode(),
    )
    storage.rm(f"/pub/out/versions/{manifest['version']}", recursive=True)
    with (
        pytest.raises(OutputBroken, match="outside"),
        RemoteOutput(out).download_corpus(tmp_path / "more"),
    ):
        pass
    with pytest.raises(ObjectMissing):
        RemoteOutput(out).storage.read("/pub/none")


@pytest.mark.parametrize(
    ("input_url", "out", "is_allowed"),
    [
        ("faulty://b/in", "faulty://b/in/clean", False),
        ("faulty://b/in/*.jsonl", "faulty://b/in/clean", False),
        ("faulty://b/in/x.jsonl", "faulty://b/in", False),
        ("faulty://b/in", "faulty://b/in", False),
        ("faulty://b/in", "faulty://b/in-clean", True),
        ("faulty://b/in*/x", "faulty://b/out", False),  # it might match
        ("s3://b/in", "faulty://b/in/clean", True),
    ],
)
def test_input_and_output_urls_must_not_contain_each_other(
    input_url: str, out: str, is_allowed: bool
) -> None:
    with (
        contextlib.nullcontext()
        if is_allowed
        else pytest.raises(UsageError, match="inside each other")
    ):
        check_urls_disjoint([input_url, Path("/tmp/in")], out)


def test_unchanged_objects_are_copied_inside_the_storage(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    first_corpus, second_corpus, out = (
        write_corpus(tmp_path / "one", "one"),
        write_corpus(tmp_path / "two", "two"),
        "faulty://pub/out",
    )
    upload(out, first_corpus, tmp_path / "work")
    uploaded: list[str] = []
    FaultyFileSystem.fault = lambda name, number, call_original, args, fs: (
        uploaded.append(Path(args[1]).name) if name == "put_file" else None,
        call_original(),
    )[1]
    upload(out, second_corpus, tmp_path / "work")
    assert uploaded == ["README.md", "train-00001-of-00002.parquet", "manifest.json"]
    assert read_published(out, tmp_path / "seen") == read_files(second_corpus)


# ---- a whole run ----


@pytest.mark.slow
def test_a_run_from_url_to_url_equals_a_local_run(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    lines = [
        json.dumps({"text": f"mail {no} to ann{no % 7}@example.com", "user_id": f"u{no}"}).encode()
        for no in range(30)
    ]
    for name, rows in (("b/x.jsonl", lines[:12]), ("a.jsonl", lines[12:])):
        storage.pipe_file(f"/in/{name}", b"\n".join(rows) + b"\n")
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"\n".join(rows) + b"\n")
    settings = Settings(seed=1, workers=1, rows_per_shard=20, keep_versions=True)
    work, url = tmp_path / "work", "faulty://pub/clean"
    summary = run_with_settings(["faulty://in"], url, "rmft", work, settings)
    run_with_settings([tmp_path / "in"], tmp_path / "out", "rmft", tmp_path / "other", settings)
    assert summary.changed and summary.out == url
    assert read_published(url, tmp_path / "seen") == read_files(tmp_path / "out")
    fingerprints = [
        (read_json(folder / "index.json") or {})["fingerprint"]
        for folder in (work, tmp_path / "other")
    ]
    assert fingerprints[0] == fingerprints[1]
    # only the index of the input is left, and all of WORK is private
    assert not (work / "fetched").exists()
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in work.rglob("*"))
    assert verify(url, work=work, mode="fast", workers=1).leaks == 0
    with pytest.raises(UsageError, match="is not the private folder of the run"):
        verify(url, work=tmp_path / "nobody")
    # an erasure deletes every version with the person, also with keep_versions
    assert subject(work, ["ann3@example.com"], erase=True, workers=1).erased.outputs[0].erased
    assert len(storage.ls("/pub/clean/versions")) == 1
    published = read_published(url, tmp_path / "erased") or {}
    texts = [
        text
        for name, raw in published.items()
        if name.endswith(".parquet")
        for text in pq.read_table(io.BytesIO(raw))["text"].to_pylist()
    ]
    assert (
        len(texts) == 30
        and not any("ann3@" in text for text in texts)
        and any("ann4@" in text for text in texts)
    )
    # an input that changes during the run stops it before the output is switched
    store_before = dict(FaultyFileSystem.store)
    is_changed = [False]

    def fault(name: str, number: int, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        if name == "put_file" and not is_changed[0]:
            is_changed[0] = True
            MemoryFileSystem.pipe_file(fs, "/in/a.jsonl", b"{}")
        return call_original()

    FaultyFileSystem.fault = fault
    with pytest.raises(InputRefused, match="file 1 of the input changed"):
        run_with_settings(
            ["faulty://in"],
            url,
            "redact",
            work,
            Settings(seed=1, workers=1, rows_per_shard=20, replace=True),
        )
    FaultyFileSystem.fault = None
    assert (
        FaultyFileSystem.store["/pub/clean/manifest.json"]
        is store_before["/pub/clean/manifest.json"]
    )


@pytest.mark.slow
def test_remote_files_are_appended_and_fetched_once(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    def write_input(name: str, start: int) -> None:
        rows = [
            json.dumps({"text": f"mail {no} to ann{no % 7}@example.com", "user_id": f"u{no}"})
            for no in range(start, start + 10)
        ]
        storage.pipe_file(f"/in/{name}.jsonl", "\n".join(rows).encode() + b"\n")
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")

    fetched_paths: list[str] = []

    def fault(name: str, number: int, call_original: Callable[[], Any], args: Any, fs: Any) -> Any:
        if name == "get_file":
            fetched_paths.append(str(args[0]))
        return call_original()

    settings_of_first_run = Settings(seed=1, workers=1)
    work, url = tmp_path / "work", "faulty://pub/clean"

    def run_both(source: str, settings: Settings = settings_of_first_run) -> RunResult:
        fetched_paths.clear()
        FaultyFileSystem.fault = fault  # `read_published` resets it
        run_with_settings([tmp_path / "in"], tmp_path / "out", "rmft", tmp_path / "other", settings)
        summary = run_with_settings([source], url, "rmft", work, settings)
        assert read_published(url, tmp_path / f"seen{len(list(tmp_path.iterdir()))}") == read_files(
            tmp_path / "out"
        )
        assert not (work / "fetched").exists()
        return summary

    write_input("1", 0)
    run_both("faulty://in")
    append_settings = dataclasses.replace(settings_of_first_run, append=True)
    # a folder, a pattern, a single object: objects that were read are not fetched again, however
    # they are named
    for no, source in enumerate(("faulty://in", "faulty://in/*.jsonl", "faulty://in/4.jsonl"), 2):
        write_input(str(no), 10 * no)
        assert run_both(source, append_settings).to_dict()["appended"]["files"] == 1
        assert fetched_paths == [f"/in/{no}.jsonl"]
    # nothing is new, and nothing is fetched
    assert run_both("faulty://in", append_settings).changed is False and fetched_paths == []
    # an object written again with the same bytes is the same document
    storage.pipe_file("/in/2.jsonl", storage.cat_file("/in/2.jsonl"))
    storage.store["/in/2.jsonl"].modified += datetime.timedelta(seconds=5)
    assert run_both("faulty://in", append_settings).changed is False and fetched_paths == [
        "/in/2.jsonl"
    ]
    # a changed and a deleted object are refused, like local files
    store_before = dict(FaultyFileSystem.store)
    storage.pipe_file("/in/2.jsonl", b'{"text": "other"}\n')
    with pytest.raises(UsageError, match="was read by an earlier run and has changed"):
        run_with_settings(["faulty://in"], url, "rmft", work, append_settings)
    storage.rm("/in/2.jsonl")
    with pytest.raises(UsageError, match="1 files that an earlier run read are missing"):
        run_with_settings(["faulty://in"], url, "rmft", work, append_settings)
    assert (
        FaultyFileSystem.store["/pub/clean/manifest.json"]
        is store_before["/pub/clean/manifest.json"]
    )


@pytest.mark.slow
def test_parquet_inputs_remain_readable_from_the_index(
    storage: MemoryFileSystem, tmp_path: Path
) -> None:
    def write_input(name: str, start: int) -> None:
        rows = [
            {"text": f"mail {no} to ann{no % 7}@example.com", "user_id": f"u{no}"}
            for no in range(start, start + 10)
        ]
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in" / f"{name}.parquet")
        storage.pipe_file(f"/in/{name}.parquet", (tmp_path / "in" / f"{name}.parquet").read_bytes())

    work, url = tmp_path / "work", "faulty://pub/clean"
    outputs_by_source = {
        tmp_path / "in": (tmp_path / "out", tmp_path / "other"),
        "faulty://in": (url, work),
    }

    def run_both(**more: Any) -> None:
        for source, (out, private_folder) in outputs_by_source.items():
            run_with_settings(
                [source],
                out,
                "rmft",
                private_folder,
                Settings(seed=1, workers=1, rows_per_shard=4, **more),
            )
        assert not (work / "fetched").exists()
        assert read_published(url, tmp_path / f"seen{len(list(tmp_path.iterdir()))}") == read_files(
            tmp_path / "out"
        )

    def erase_and_count(private_folder: Path, **more: Any) -> dict[str, Any]:
        receipt = subject(private_folder, ["ann3@example.com"], workers=1, **more)
        return {
            name: receipt.to_dict()[name]
            for name in ("documents", "occurrences", "occurrences_by_section")
        }

    write_input("1", 0)
    run_both()
    assert sql_api.sql(work, "SELECT count(*) AS n FROM documents")["n"].to_list() == [10]
    write_input("2", 10)
    run_both(append=True)
    # a run over another input is refused
    with pytest.raises(UsageError, match="another input"):
        run_with_settings(
            ["faulty://in/2.parquet"],
            url,
            "rmft",
            work,
            Settings(seed=1, workers=1, rows_per_shard=4),
        )
    # the index suffices although the storage has lost the object
    storage.rm("/in/1.parquet")
    assert sql_api.sql(work, "SELECT count(*) AS n FROM documents")["n"].to_list() == [20]
    assert erase_and_count(work, erase=True) == erase_and_count(tmp_path / "other", erase=True)
    assert read_published(url, tmp_path / "erased") == read_files(tmp_path / "out")
    texts = Corpus.open(tmp_path / "out").table(["text"]).column(0).to_pylist()
    assert len(texts) == 20 and not any("ann3@" in text for text in texts)


def test_a_leak_is_reported_with_its_url(storage: MemoryFileSystem, tmp_path: Path) -> None:
    encoded_address = base64.b64encode(b"to ann3@example.com, again").decode()
    rows = [
        {"text": "to ann3@example.com"},
        {"text": "to ann3@example.com"},
        {"text": f"see {encoded_address}"},
    ]
    storage.pipe_file("/in/a.jsonl", "\n".join(map(json.dumps, rows)).encode())
    run_with_settings(
        ["faulty://in"],
        "faulty://pub/clean",
        "surrogates",
        tmp_path / "work",
        Settings(seed=1, workers=1, verify="fast"),
    )
    with pytest.raises(LeakFound, match=r"\Afaulty://pub/clean: 1 matches"):
        verify("faulty://pub/clean", work=tmp_path / "work", mode="full", workers=1)
