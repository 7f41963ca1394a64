"""Input and OUT at URLs: allowed URLs, complete downloads, and an OUT that is always the old or the new one, whatever call fails."""

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

from sanitize.errors import InputRefused, LeakFound, Locked, MissingExtra, OutputBroken, ResourceError, SanitizeError, UsageError
from sanitize.inspection import sql_api
from sanitize.pipeline.erasure.subject import subject
from sanitize.pipeline.run import run
from sanitize.plans.settings import Settings
from sanitize.readers import remote_input
from sanitize.storage import remote_storage
from sanitize.storage.corpus import Corpus
from sanitize.storage.files import read_json
from sanitize.storage.remote_output import LOCK_NAME, RemoteOutput, check_urls_disjoint, require_workspace
from sanitize.storage.remote_storage import ObjectMissing, RemoteStorage, check_url, is_url, redact_url
from sanitize.verification.leak_check import verify

CANARY = "canary-of-a-library"
CALLS = ("info", "find", "cat_file", "get_file", "put_file", "pipe_file", "rm", "mv", "cp_file")


class Faulty(MemoryFileSystem):  # type: ignore[misc]
    """An in-memory storage in which any call can fail: `fault(call, number, do)` is called each time."""

    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]
    pseudo_dirs: ClassVar[list[str]] = [""]  # type: ignore[misc]
    calls = 0
    fault: ClassVar[Callable[..., Any] | None] = None
    _inside = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(str(path).replace("faulty://", "memory://")))


def _wrapped(name: str) -> Callable[..., Any]:
    plain = getattr(MemoryFileSystem, name)

    def call(self: Faulty, *given: Any, **more: Any) -> Any:
        if Faulty._inside or Faulty.fault is None:
            return plain(self, *given, **more)
        Faulty.calls += 1
        Faulty._inside = True
        try:
            return Faulty.fault(name, Faulty.calls, lambda: plain(self, *given, **more), given, self)
        finally:
            Faulty._inside = False

    return call


for _name in CALLS:
    setattr(Faulty, _name, _wrapped(_name))
fsspec.register_implementation("faulty", Faulty, clobber=True)


@pytest.fixture(autouse=True)
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryFileSystem]:
    monkeypatch.setattr(remote_storage, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(remote_input, "MAX_PARALLEL_REQUESTS", 1)  # one call after the other, so that the n-th is always the same
    Faulty.store.clear()
    Faulty.pseudo_dirs[:] = [""]
    Faulty.fault, Faulty.calls, Faulty._inside = None, 0, False
    yield fsspec.filesystem("faulty")
    Faulty.fault = None


# ---- URLs ----


@pytest.mark.parametrize(
    ("place", "url", "said"),
    [
        ("s3://bucket/a/b", True, "s3://bucket/a/b"),
        ("S3://bucket/a", True, "s3://bucket/a"),
        ("https://ann:pass@host.example.com/x?token=abc#part", True, "https://host.example.com/x"),
        ("abfss://box@account.dfs.core.windows.net/x", True, "abfss://box@account.dfs.core.windows.net/x"),
        ("abfss://box:pass@account.example.com/x", True, "abfss://account.example.com/x"),
        ("memory://x?sig=abc", True, "memory://x"),
        ("folder/s3:/x", False, ""),
        ("C:/x", False, ""),
        ("/abs/path", False, ""),
    ],
)
def test_a_url_is_known_and_shown_without_its_secrets(place: str, url: bool, said: str) -> None:
    assert is_url(place) is url and not is_url(Path(place))
    if url:
        assert redact_url(place) == said


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://AKIAX:secret@bucket/x", "credentials"),
        ("s3://AKIAX@bucket/x", "credentials"),
        ("https://ann:secret@host.example.com/x", "credentials"),
        ("simplecache::s3://bucket/x", "chained"),
    ],
)
def test_a_url_with_credentials_or_a_chain_is_refused_unquoted(url: str, words: str) -> None:
    if "::" in url:
        url = url.replace("simplecache::s3", "s3::simplecache") if not is_url(url) else url
    with pytest.raises(UsageError, match=words) as error:
        check_url("zip://x.zip::" + url if "::" in url else url)
    assert "secret" not in str(error.value) and "AKIAX" not in str(error.value)


def test_a_scheme_nobody_knows_a_missing_package_and_a_missing_login(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown storage s4://.*s3"):
        RemoteStorage("s4://bucket/x")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingExtra, match=r"gcsfs is not installed; install it with: pip install 'corpus-sanitize\[remote\]'"):
        RemoteStorage("gs://bucket/x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtra, match=r"fsspec.*\[remote\]"):
        RemoteStorage("memory://x")


class NoCredentialsError(Exception):
    """An exception like those of cloud libraries."""


@pytest.mark.parametrize(
    ("error", "output", "kind", "tries"),
    [
        (NoCredentialsError(CANARY), False, UsageError, 1),
        (PermissionError(CANARY), False, InputRefused, 1),
        (PermissionError(CANARY), True, UsageError, 1),
        (OSError(CANARY), False, ResourceError, 3),
        (TimeoutError(CANARY), True, ResourceError, 3),
        (RuntimeError(CANARY), False, ResourceError, 3),
    ],
)
def test_trouble_is_one_error_that_quotes_nobody(error: Exception, output: bool, kind: type[SanitizeError], tries: int) -> None:
    def fault(name: str, number: int, do: Callable[[], Any], *_: Any) -> Any:
        raise error

    here = RemoteStorage("faulty://in/x", is_output=output)
    Faulty.fault = fault
    with pytest.raises(SanitizeError) as told:
        here.info("/in/x")
    assert type(told.value) is kind and Faulty.calls == tries
    assert CANARY not in str(told.value) and "faulty://in/x" in str(told.value)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (None, "the private folder must be named too"),
        ("s3://bucket/private", "folder on this machine"),
        ("https://ann:secret@host.example.com/x", "folder on this machine"),
    ],
)
def test_work_is_named_and_local(work: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        require_workspace(work, "faulty://out")
    assert "secret" not in str(error.value)


# ---- INPUT ----


def bring(inputs: list[str], work: Path) -> remote_input.InputSet:
    found = remote_input.list_inputs(inputs, work)
    work.mkdir(exist_ok=True)
    found.fetch()
    return found


def test_folders_files_and_patterns_come_in_corpus_order(storage: MemoryFileSystem, tmp_path: Path) -> None:
    for name in ("in/b/2.txt", "in/a.txt", "in/b/10.txt", "in/Z.txt", "more/y.txt", "more/x.txt"):
        storage.pipe_file(f"/{name}", name.encode())
    (tmp_path / "here.txt").write_text("here")
    found = bring(["faulty://more/*.txt", str(tmp_path / "here.txt"), "faulty://in", "faulty://in/a.txt"], tmp_path / "work")
    told = [
        sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.read_text()
        for path in found.paths_to_read
    ]
    assert told == ["more/x.txt", "more/y.txt", "here", ["Z.txt", "a.txt", "b/10.txt", "b/2.txt"], "in/a.txt"]
    assert found.display_names == ["faulty://more/*.txt", str(tmp_path / "here.txt"), "faulty://in", "faulty://in/a.txt"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in [tmp_path / "work" / "fetched"])
    found.remove_fetched({})
    assert not (tmp_path / "work" / "fetched").exists() and (tmp_path / "here.txt").exists()


def test_only_what_changed_is_fetched_again_and_what_is_gone_goes(storage: MemoryFileSystem, tmp_path: Path) -> None:
    for name in "abc":
        storage.pipe_file(f"/in/{name}", name.encode())
    got: list[str] = []

    def fault(name: str, number: int, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        if name == "get_file":
            got.append(str(given[0]))
        return do()

    Faulty.fault = fault
    bring(["faulty://in"], tmp_path)
    assert got == ["/in/a", "/in/b", "/in/c"]
    storage.pipe_file("/in/b", b"B")
    storage.rm("/in/c")
    got.clear()
    bring(["faulty://in"], tmp_path)
    assert got == ["/in/b"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "fetched").rglob("*") if path.is_file()} == {"a": b"a", "b": b"B"}


@pytest.mark.parametrize("times", [1, 99])
def test_a_read_that_breaks_off_is_no_file(times: int, storage: MemoryFileSystem, tmp_path: Path) -> None:
    storage.pipe_file("/in/a", b"0123456789" * 100)
    left = [times]

    def fault(name: str, number: int, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        do()
        if name == "get_file" and left[0]:
            left[0] -= 1
            Path(given[1]).write_bytes(b"0123456789")  # and nothing is said
        return do() if name != "get_file" else None

    Faulty.fault = fault
    if times == 1:
        bring(["faulty://in"], tmp_path)
        assert (tmp_path / "fetched" / "0-00000" / "in" / "a").read_bytes() == b"0123456789" * 100
    else:
        with pytest.raises(ResourceError, match="failed 3 times"):
            bring(["faulty://in"], tmp_path)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_changes_while_it_is_read_is_noticed(storage: MemoryFileSystem, tmp_path: Path) -> None:
    storage.pipe_file("/in/a", b"one")
    storage.pipe_file("/in/b", b"two")
    found = remote_input.list_inputs(["faulty://in"], tmp_path)
    storage.pipe_file("/in/b", b"TWO")  # of the same size, between the listing and the reading
    with pytest.raises(InputRefused, match="changed or was removed"):
        found.fetch()
    found = bring(["faulty://in"], tmp_path)
    found.check_unchanged()
    storage.pipe_file("/in/b", b"two")
    with pytest.raises(InputRefused, match="file 2 of the input changed"):
        found.check_unchanged()
    storage.rm("/in/a")
    with pytest.raises(InputRefused, match="file 1 of the input changed"):
        found.check_unchanged()


def test_a_listing_that_lags(storage: MemoryFileSystem, tmp_path: Path) -> None:
    storage.pipe_file("/in/a", b"one")
    storage.pipe_file("/in/b", b"two")
    old = storage.find("/in", detail=True)
    storage.rm("/in/b")
    storage.pipe_file("/in/a", b"three")
    Faulty.fault = lambda name, number, do, *_: old if name == "find" else do()
    with pytest.raises(InputRefused, match="1 listed objects are not there"):
        remote_input.list_inputs(["faulty://in"], tmp_path)
    del old["/in/b"]
    found = bring(["faulty://in"], tmp_path)  # size and time are asked for anew
    assert (found.paths_to_read[0] / "a").read_bytes() == b"three"


@pytest.mark.parametrize("names", [["/in/../x"], ["/in/a//b"], ["/in/./b"], ["/in/a", "/in/a/b"], ["/in/" + "x" * 256]])
def test_names_that_no_file_can_have_lead_nowhere(names: list[str], storage: MemoryFileSystem, tmp_path: Path) -> None:
    storage.pipe_file("/in/good", b"x")
    listing = {name: {"name": name, "size": 1, "type": "file"} for name in ["/in/good", *names]}
    Faulty.fault = lambda name, number, do, *_: listing if name == "find" else do()
    with pytest.raises(InputRefused, match="names that cannot be file names"):
        remote_input.list_inputs(["faulty://in"], tmp_path)


@pytest.mark.parametrize("url", ["faulty://none", "faulty://none/*.txt"])
def test_an_input_that_is_not_there(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="no such file|nothing matches"):
        remote_input.list_inputs([url], tmp_path)


# ---- OUT ----


def corpus(folder: Path, word: str, shards: int = 2) -> Path:
    """A folder as a run publishes it, with what an upload reads of it."""
    (folder / "data").mkdir(parents=True)
    entries = []
    for number in range(shards):
        path = folder / "data" / f"train-{number:05d}-of-{shards:05d}.parquet"
        path.write_bytes(f"{word if number else ''} {number} ".encode() * 50)  # the first is the same in every version
        entries.append({"path": f"data/{path.name}", "rows": 1, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
    (folder / "README.md").write_text(word)
    (folder / "manifest.json").write_text(json.dumps({"plan_hash": word, "shards": entries}))
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def upload(out: str, folder: Path, work: Path, keep: bool = False) -> bool:
    prefix = RemoteOutput(out)
    with prefix.hold_lock(work):
        return prefix.publish(folder, keep_versions=keep, before_switch=lambda: None)


def seen(out: str, folder: Path) -> dict[str, bytes] | None:
    """What a reader finds through the manifest; None without a manifest."""
    Faulty.fault = None
    prefix = RemoteOutput(out)
    if prefix.read_manifest() is None:
        return None
    folder.mkdir(exist_ok=True)
    with prefix.download_corpus(folder) as there:
        return tree(there)


@pytest.mark.parametrize("scheme", ["faulty", "file"])
def test_a_version_is_published_replaced_and_kept(scheme: str, tmp_path: Path) -> None:
    out = "faulty://pub/out" if scheme == "faulty" else f"file://{tmp_path}/pub/out"
    one, two, work = corpus(tmp_path / "one", "one"), corpus(tmp_path / "two", "two"), tmp_path / "work"
    assert upload(out, one, work) and not upload(out, one, work)
    assert seen(out, tmp_path / "a") == tree(one)
    assert upload(out, two, work, keep=True)
    assert seen(out, tmp_path / "b") == tree(two)
    fs, top = RemoteOutput(out).storage.fs, RemoteOutput(out).storage.path
    said = json.loads(fs.cat_file(f"{top}/manifest.json"))
    for entry in said["shards"]:
        assert hashlib.sha256(fs.cat_file(f"{top}/{entry['path']}")).hexdigest() == entry["sha256"]
    assert len(fs.ls(f"{top}/versions", detail=False)) == 2
    assert not upload(out, two, work)  # without --keep-versions the other goes
    assert len(fs.ls(f"{top}/versions", detail=False)) == 1 and not fs.exists(f"{top}/{LOCK_NAME}")


def _faults() -> dict[str, Callable[..., Any]]:
    def fail(name: str, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        raise OSError(CANARY)

    def lost(name: str, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        do()
        raise ConnectionError(CANARY)

    def half(name: str, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        if name == "put_file":
            data = Path(given[0]).read_bytes()
            return MemoryFileSystem.pipe_file(fs, given[1], data[: len(data) // 2])
        if name == "pipe_file":
            return MemoryFileSystem.pipe_file(fs, given[0], given[1][: len(given[1]) // 2])
        return do()

    return {"fails": fail, "is done and its answer lost": lost, "writes half and says nothing": half}


@pytest.mark.parametrize("how", _faults())
@pytest.mark.parametrize("first", [True, False], ids=["first", "replaced"])
def test_whatever_call_fails_readers_see_a_whole_version(how: str, first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_storage, "MAX_TRIES", 1)
    one, two, work, out = corpus(tmp_path / "one", "one", 1), corpus(tmp_path / "two", "two", 1), tmp_path / "work", "faulty://pub/out"
    (work / "remote").mkdir(parents=True)
    inject, failed = _faults()[how], 0
    for n in range(1, 200):
        Faulty.store.clear()
        Faulty.fault = None
        if not first:
            upload(out, one, work)
        Faulty.calls = 0
        Faulty.fault = lambda name, number, do, given, fs, n=n: inject(name, do, given, fs) if number == n else do()
        with contextlib.suppress(SanitizeError):
            upload(out, two, work)
        last = Faulty.calls < n
        Faulty.fault = None
        old = None if first else tree(one)
        found = seen(out, tmp_path / f"seen-{n}")
        assert found in (old, tree(two))
        failed += found == old
        upload(out, two, work)  # the same command again
        assert seen(out, tmp_path / f"again-{n}") == tree(two)
        names = RemoteOutput(out).storage.fs.find("/pub/out")
        assert len({name.split("/")[4] for name in names if "/versions/" in name}) == 1 and len(names) == 4
        if last:
            break
    else:
        raise AssertionError("never came to an end")
    assert failed > (2 if how.startswith("writes") else 5)


def test_one_fault_is_tried_again_and_nobody_notices(tmp_path: Path) -> None:
    one, out = corpus(tmp_path / "one", "one", 1), "faulty://pub/out"
    for inject in _faults().values():
        for n in range(1, 60):
            Faulty.store.clear()
            Faulty.calls = 0
            Faulty.fault = lambda name, number, do, given, fs, n=n, inject=inject: (
                inject(name, do, given, fs) if number == n and name != "rm" else do()
            )
            upload(out, one, tmp_path / "work")
            last = Faulty.calls < n
            Faulty.fault = None
            assert seen(out, tmp_path / "seen") == tree(one)
            if last:
                break


def test_a_stopped_upload_goes_on_with_what_is_there(storage: MemoryFileSystem, tmp_path: Path) -> None:
    one, work, out = corpus(tmp_path / "one", "one", 5), tmp_path / "work", "faulty://pub/out"
    put: list[str] = []

    def fault(name: str, number: int, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        if name == "put_file":
            put.append(str(given[1]))
            if len(put) == 4:
                raise KeyboardInterrupt
        return do()

    Faulty.fault = fault
    with pytest.raises(KeyboardInterrupt):
        upload(out, one, work)
    assert not storage.exists("/pub/out/manifest.json")
    assert upload(out, one, work)
    assert len(put) == 4 + 7 - 3  # three were there and whole


def test_what_never_became_whole_goes_though_versions_are_kept(storage: MemoryFileSystem, tmp_path: Path) -> None:
    one, two, work, out = corpus(tmp_path / "one", "one"), corpus(tmp_path / "two", "two"), tmp_path / "work", "faulty://pub/out"

    def fault(name: str, number: int, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        if name == "put_file" and str(given[1]).endswith("-00001-of-00002.parquet"):
            raise KeyboardInterrupt
        return do()

    Faulty.fault = fault
    with pytest.raises(KeyboardInterrupt):
        upload(out, one, work)
    Faulty.fault = None
    assert len(storage.ls("/pub/out/versions")) == 1
    upload(out, two, work, keep=True)
    assert len(storage.ls("/pub/out/versions")) == 1 and seen(out, tmp_path / "seen") == tree(two)


def test_one_run_at_a_time(storage: MemoryFileSystem, tmp_path: Path) -> None:
    one, two, out = corpus(tmp_path / "one", "one"), corpus(tmp_path / "two", "two"), "faulty://pub/out"
    with RemoteOutput(out).hold_lock(tmp_path / "work"), pytest.raises(Locked, match="another run has been publishing"):
        upload(out, one, tmp_path / "other")
    upload(out, one, tmp_path / "other")
    killed = RemoteOutput(out).hold_lock(tmp_path / "work")
    killed.__enter__()  # its lock stays
    with pytest.raises(Locked, match=LOCK_NAME):
        upload(out, two, tmp_path / "other")
    assert upload(out, two, tmp_path / "work")  # whoever has its WORK knows that it is over
    prefix = RemoteOutput(out)
    with prefix.hold_lock(tmp_path / "work"), pytest.raises(Locked, match="meanwhile"):
        storage.pipe_file(f"/pub/out/{LOCK_NAME}", b"{}")
        prefix.publish(one, keep_versions=False, before_switch=lambda: None)
    assert seen(out, tmp_path / "seen") == tree(two)


def test_another_publication_in_between_is_noticed(storage: MemoryFileSystem, tmp_path: Path) -> None:
    one, two, out = corpus(tmp_path / "one", "one"), corpus(tmp_path / "two", "two"), "faulty://pub/out"
    upload(out, one, tmp_path / "work")
    other = storage.cat_file("/pub/out/manifest.json").replace(b'"one"', b'"two"')
    prefix = RemoteOutput(out)
    with prefix.hold_lock(tmp_path / "work"), pytest.raises(Locked, match="meanwhile"):
        prefix.publish(two, keep_versions=True, before_switch=lambda: storage.pipe_file("/pub/out/manifest.json", other))
    assert storage.cat_file("/pub/out/manifest.json") == other


def test_a_place_that_is_not_ours_is_refused(storage: MemoryFileSystem, tmp_path: Path) -> None:
    storage.pipe_file("/pub/out/notes.txt", b"x")
    with pytest.raises(UsageError, match="contains 1 objects that sanitize did not write"):
        RemoteOutput("faulty://pub/out").check_replaceable("one", False)
    storage.pipe_file("/pub/other/manifest.json", b'{"shards": []}')
    with pytest.raises(UsageError, match="sanitize did not write"):
        RemoteOutput("faulty://pub/other").check_replaceable("one", True)
    upload("faulty://pub/mine", corpus(tmp_path / "one", "one"), tmp_path / "work")
    RemoteOutput("faulty://pub/mine").check_replaceable("one", False)
    RemoteOutput("faulty://pub/mine").check_replaceable("two", True)
    with pytest.raises(UsageError, match="--replace"):
        RemoteOutput("faulty://pub/mine").check_replaceable("two", False)


def test_what_is_not_as_it_was_published_is_found(storage: MemoryFileSystem, tmp_path: Path) -> None:
    one, out = corpus(tmp_path / "one", "one"), "faulty://pub/out"
    with pytest.raises(OutputBroken, match=r"no manifest\.json"), RemoteOutput(out).download_corpus(tmp_path):
        pass
    cases: list[tuple[str, Callable[[str], Any], str]] = [
        ("changed", lambda base: storage.pipe_file(f"{base}/data/train-00001-of-00002.parquet", b"y" * 300), "sha256 differs"),
        ("missing", lambda base: storage.rm(f"{base}/data/train-00001-of-00002.parquet"), "is missing"),
        ("more", lambda base: storage.pipe_file(f"{base}/data/more.parquet", b"x"), "not in the manifest"),
    ]
    for name, harm, words in cases:
        Faulty.store.clear()
        upload(out, one, tmp_path / "work")
        harm(f"/pub/out/versions/{json.loads(storage.cat_file('/pub/out/manifest.json'))['version']}")
        (tmp_path / name).mkdir()
        with pytest.raises(OutputBroken, match=words), RemoteOutput(out).download_corpus(tmp_path / name):
            pass
    said = json.loads(storage.cat_file("/pub/out/manifest.json"))
    storage.pipe_file("/pub/out/manifest.json", json.dumps({**said, "files": {"../../escaped": {"sha256": "x"}}}).encode())
    storage.rm(f"/pub/out/versions/{said['version']}", recursive=True)
    with pytest.raises(OutputBroken, match="outside"), RemoteOutput(out).download_corpus(tmp_path / "more"):
        pass
    with pytest.raises(ObjectMissing):
        RemoteOutput(out).storage.read("/pub/none")


@pytest.mark.parametrize(
    ("given", "out", "fits"),
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
def test_an_input_and_out_lie_apart(given: str, out: str, fits: bool) -> None:
    with contextlib.nullcontext() if fits else pytest.raises(UsageError, match="inside each other"):
        check_urls_disjoint([given, Path("/tmp/in")], out)


def test_what_stands_there_is_copied_there(storage: MemoryFileSystem, tmp_path: Path) -> None:
    one, two, out = corpus(tmp_path / "one", "one"), corpus(tmp_path / "two", "two"), "faulty://pub/out"
    upload(out, one, tmp_path / "work")
    put: list[str] = []
    Faulty.fault = lambda name, number, do, given, fs: (put.append(Path(given[1]).name) if name == "put_file" else None, do())[1]
    upload(out, two, tmp_path / "work")
    assert put == ["README.md", "train-00001-of-00002.parquet", "manifest.json"]
    assert seen(out, tmp_path / "seen") == tree(two)


# ---- a whole run ----


def test_a_run_from_url_to_url_is_the_local_run(storage: MemoryFileSystem, tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"mail {no} to ann{no % 7}@example.com", "user_id": f"u{no}"}).encode() for no in range(30)]
    for name, rows in (("b/x.jsonl", lines[:12]), ("a.jsonl", lines[12:])):
        storage.pipe_file(f"/in/{name}", b"\n".join(rows) + b"\n")
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"\n".join(rows) + b"\n")
    settings = Settings(seed=1, workers=1, rows_per_shard=20, keep_versions=True)
    work, url = tmp_path / "work", "faulty://pub/clean"
    summary = run(["faulty://in"], url, "rmft", work, settings)
    run([tmp_path / "in"], tmp_path / "out", "rmft", tmp_path / "other", settings)
    assert summary["changed"] and summary["out"] == url
    assert seen(url, tmp_path / "seen") == tree(tmp_path / "out")
    fingerprints = [(read_json(folder / "index.json") or {})["fingerprint"] for folder in (work, tmp_path / "other")]
    assert fingerprints[0] == fingerprints[1]
    # nothing of the input is left but the index, and all of WORK is private
    assert not (work / "fetched").exists()
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in work.rglob("*"))
    assert verify(url, work, mode="fast", workers=1)["leaks"] == 0
    with pytest.raises(UsageError, match="is not the private folder of the run"):
        verify(url, tmp_path / "nobody")
    # somebody is to be forgotten: every version that has them goes, whatever the run was told
    assert subject(work, ["ann3@example.com"], erase=True)["erased"]["outputs"][0]["erased"]
    assert len(storage.ls("/pub/clean/versions")) == 1
    published = seen(url, tmp_path / "erased") or {}
    texts = [
        text for name, raw in published.items() if name.endswith(".parquet") for text in pq.read_table(io.BytesIO(raw))["text"].to_pylist()
    ]
    assert len(texts) == 30 and not any("ann3@" in text for text in texts) and any("ann4@" in text for text in texts)
    # a change behind the run's back stops it before anything is switched
    before = dict(Faulty.store)
    changed = [False]

    def fault(name: str, number: int, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        if name == "put_file" and not changed[0]:
            changed[0] = True
            MemoryFileSystem.pipe_file(fs, "/in/a.jsonl", b"{}")
        return do()

    Faulty.fault = fault
    with pytest.raises(InputRefused, match="file 1 of the input changed"):
        run(["faulty://in"], url, "redact", work, Settings(seed=1, workers=1, rows_per_shard=20, replace=True))
    Faulty.fault = None
    assert Faulty.store["/pub/clean/manifest.json"] is before["/pub/clean/manifest.json"]


def test_each_night_is_added_from_where_it_lies(storage: MemoryFileSystem, tmp_path: Path) -> None:
    def night(name: str, first: int) -> None:
        rows = [json.dumps({"text": f"mail {no} to ann{no % 7}@example.com", "user_id": f"u{no}"}) for no in range(first, first + 10)]
        storage.pipe_file(f"/in/{name}.jsonl", "\n".join(rows).encode() + b"\n")
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")

    got: list[str] = []

    def fault(name: str, number: int, do: Callable[[], Any], given: Any, fs: Any) -> Any:
        if name == "get_file":
            got.append(str(given[0]))
        return do()

    first = Settings(seed=1, workers=1)
    work, url = tmp_path / "work", "faulty://pub/clean"

    def go(source: str, settings: Settings = first) -> dict[str, Any]:
        got.clear()
        Faulty.fault = fault  # `seen` takes it away
        run([tmp_path / "in"], tmp_path / "out", "rmft", tmp_path / "other", settings)
        summary = run([source], url, "rmft", work, settings)
        assert seen(url, tmp_path / f"seen{len(list(tmp_path.iterdir()))}") == tree(tmp_path / "out")
        assert not (work / "fetched").exists()
        return dict(summary)

    night("1", 0)
    go("faulty://in")
    again = dataclasses.replace(first, append=True)
    # the whole folder, a pattern, an object of its own: what was read is not fetched again, however it is named
    for no, source in enumerate(("faulty://in", "faulty://in/*.jsonl", "faulty://in/4.jsonl"), 2):
        night(str(no), 10 * no)
        assert go(source, again)["appended"]["files"] == 1
        assert got == [f"/in/{no}.jsonl"]
    # nothing is new, and nothing is fetched
    assert go("faulty://in", again)["changed"] is False and got == []
    # an object written anew with the same bytes is the same document
    storage.pipe_file("/in/2.jsonl", storage.cat_file("/in/2.jsonl"))
    storage.store["/in/2.jsonl"].modified += datetime.timedelta(seconds=5)
    assert go("faulty://in", again)["changed"] is False and got == ["/in/2.jsonl"]
    # one that changed, and one that is gone, are refused as local files are
    before = dict(Faulty.store)
    storage.pipe_file("/in/2.jsonl", b'{"text": "other"}\n')
    with pytest.raises(UsageError, match="was read by an earlier run and has changed"):
        run(["faulty://in"], url, "rmft", work, again)
    storage.rm("/in/2.jsonl")
    with pytest.raises(UsageError, match="1 files that an earlier run read are missing"):
        run(["faulty://in"], url, "rmft", work, again)
    assert Faulty.store["/pub/clean/manifest.json"] is before["/pub/clean/manifest.json"]


def test_what_was_read_in_place_stays_with_the_index(storage: MemoryFileSystem, tmp_path: Path) -> None:
    def night(name: str, first: int) -> None:
        rows = [{"text": f"mail {no} to ann{no % 7}@example.com", "user_id": f"u{no}"} for no in range(first, first + 10)]
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in" / f"{name}.parquet")
        storage.pipe_file(f"/in/{name}.parquet", (tmp_path / "in" / f"{name}.parquet").read_bytes())

    work, url = tmp_path / "work", "faulty://pub/clean"
    there = {tmp_path / "in": (tmp_path / "out", tmp_path / "other"), "faulty://in": (url, work)}

    def go(**more: Any) -> None:
        for source, (out, private) in there.items():
            run([source], out, "rmft", private, Settings(seed=1, workers=1, rows_per_shard=4, **more))
        assert not (work / "fetched").exists()
        assert seen(url, tmp_path / f"seen{len(list(tmp_path.iterdir()))}") == tree(tmp_path / "out")

    def found(private: Path, **more: Any) -> dict[str, Any]:
        said = subject(private, ["ann3@example.com"], **more)
        return {name: said[name] for name in ("documents", "occurrences", "occurrences_by_section")}

    night("1", 0)
    go()
    assert sql_api.sql(work, "SELECT count(*) AS n FROM documents")["n"].to_list() == [10]
    night("2", 10)
    go(append=True)
    # another run over what the index holds takes its place in WORK, and nothing else
    with pytest.raises(UsageError, match="another input"):
        run(["faulty://in/2.parquet"], url, "rmft", work, Settings(seed=1, workers=1, rows_per_shard=4))
    # nobody has to bring anything back, though the storage has lost it
    storage.rm("/in/1.parquet")
    assert sql_api.sql(work, "SELECT count(*) AS n FROM documents")["n"].to_list() == [20]
    assert found(work, erase=True) == found(tmp_path / "other", erase=True)
    assert seen(url, tmp_path / "erased") == tree(tmp_path / "out")
    texts = Corpus.open(tmp_path / "out").table(["text"]).column(0).to_pylist()
    assert len(texts) == 20 and not any("ann3@" in text for text in texts)


def test_a_leak_is_told_where_it_was_published(storage: MemoryFileSystem, tmp_path: Path) -> None:
    hidden = base64.b64encode(b"to ann3@example.com, again").decode()
    rows = [{"text": "to ann3@example.com"}, {"text": "to ann3@example.com"}, {"text": f"see {hidden}"}]
    storage.pipe_file("/in/a.jsonl", "\n".join(map(json.dumps, rows)).encode())
    run(["faulty://in"], "faulty://pub/clean", "erase", tmp_path / "work", Settings(seed=1, workers=1))
    with pytest.raises(LeakFound, match=r"\Afaulty://pub/clean: 1 matches"):
        verify("faulty://pub/clean", tmp_path / "work", mode="full", workers=1)
