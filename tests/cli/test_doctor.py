"""Checks of `sanitize doctor`, on this machine and with simulated faults."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sanitize.cli.doctor import EnvironmentCheck, doctor
from sanitize.errors import ResourceError, UsageError
from sanitize.storage import locks

ROOT = Path(__file__).resolve().parents[2]
room = importlib.import_module("sanitize.cli.doctor")  # `sanitize.doctor` is the function
MACHINE = ["python", "packages", "cores, memory", "space", "temporary space", "file system", "modes", "renames", "fsync", "locks"]
EXTRAS = {"[dedup]", "[dp]", "[gliner]", "[learn]", "[multi]", "[plots]", "[presidio]", "[remote]", "[spark]"}

# the command in a fresh process that may not open a connection; `ulimit` words come first
COMMAND = """
import sys
def heard(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        sys.stderr.write(f"NETWORK {event}\\n")
sys.addaudithook(heard)
from sanitize.cli.main import main
sys.argv = ["sanitize", "doctor", *sys.argv[1:]]
main()
"""


def command(*words: object, limit: str = ":", **more: str) -> subprocess.CompletedProcess[str]:
    shell = ["bash", "-c", f'{limit}; exec "$@"', "bash", sys.executable, "-c", COMMAND, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(shell, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def test_this_machine_is_well_and_nothing_stays_behind(tmp_path: Path) -> None:
    here, temporary = tmp_path / "a folder", tmp_path / "tmp"
    here.mkdir()
    temporary.mkdir()
    done = command("--dir", here, "--json", TMPDIR=str(temporary))
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr
    assert "NETWORK" not in done.stderr
    said = json.loads(done.stdout)
    assert said["ok"] and said["exit_code"] == 0 and said["folder"] == str(here)
    names = [check["name"] for check in said["checks"]]
    assert names[:12] == [*MACHINE, "self-test", "workers"]
    assert set(names[12:]) == EXTRAS | {"java"}
    for check in said["checks"]:
        assert check.keys() == {"name", "status", "detail", "action"} and check["detail"]
        assert bool(check["action"]) == (check["status"] != "ok"), "whatever is not well says what to do"
        if check["status"] == "absent":
            assert check["name"] == "java" or check["action"] == f"pip install 'corpus-sanitize{check['name']}'"
    lines = done.stderr.splitlines()
    assert [line[8:25].strip() for line in lines if line[:6].strip()] == names
    assert not list(here.iterdir()) and not list(temporary.iterdir())


def test_a_disk_that_takes_no_large_file(tmp_path: Path) -> None:
    """A file size limit simulates a full disk."""
    done = command("--dir", tmp_path, limit="ulimit -f 60")
    assert done.returncode == 7
    assert "fail    writing          a write in" in done.stdout and "(EFBIG)" in done.stdout and "Traceback" not in done.stderr
    assert "ok      modes" in done.stdout and "1 fail" in done.stdout
    assert not list(tmp_path.iterdir())


# /proc takes no folder of anybody, root's neither
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
def test_a_folder_that_takes_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "check_workers", lambda: EnvironmentCheck("workers", "ok", "not asked"))
    said = doctor("/proc")
    failed = [check for check in said["checks"] if check["status"] == "fail"]
    assert failed[-1]["name"] == "writing" and "take a folder" in failed[-1]["action"]
    assert not said["ok"] and said["exit_code"] == 7


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        doctor(tmp_path / "nothing")


# ---- the file system, where it does not keep its word ----


def checks(here: Path) -> dict[str, EnvironmentCheck]:
    return {check.name: check for check in room.run_self_test(here)}


def test_locks_that_do_not_hold_and_a_resumed_run_that_gives_other_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def open_to_all(work: Path) -> Iterator[None]:
        yield

    real = room._sanitize_test_mails

    def careless(here: Path, out: Path, *more: Any) -> None:
        real(here, out, *more)
        if out.name == "out":
            page = out / "README.md"
            page.write_text(page.read_text() + " ")

    monkeypatch.setattr(locks, "lock_workspace", open_to_all)
    monkeypatch.setattr(room, "_sanitize_test_mails", careless)
    found = checks(tmp_path)
    assert found["locks"].status == "fail" and "two processes" in found["locks"].detail and found["locks"].exit_code == 7
    assert found["self-test"].status == "fail" and "other bytes" in found["self-test"].detail and found["self-test"].exit_code == 1


def test_trouble_in_the_run_is_told_as_the_run_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = room._sanitize_test_mails

    def refused(here: Path, out: Path, *more: Any) -> None:
        if out.name == "out":
            raise ResourceError("the disk is full")
        real(here, out, *more)

    monkeypatch.setattr(room, "_sanitize_test_mails", refused)
    found = checks(tmp_path)
    assert found["locks"].status == "ok"
    assert found["self-test"].status == "fail" and found["self-test"].exit_code == 7 and "the disk is full" in found["self-test"].detail


def test_a_second_process_that_cannot_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    found = checks(tmp_path)
    assert found.keys() == {"self-test"} and found["self-test"].status == "fail" and "exit code 1" in found["self-test"].detail


def test_modes_that_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert room.check_file_modes(tmp_path).status == "ok"
    (tmp_path / "fat").mkdir()
    real = os.open
    # as on a file system without modes: every file is everyone's
    monkeypatch.setattr(os, "open", lambda path, flags, mode=0o777, **more: real(path, flags, 0o644, **more))
    found = room.check_file_modes(tmp_path / "fat")
    assert found.status == "fail" and "found 0700, 0644, 0640" in found.detail and "--work" in found.action


@pytest.mark.parametrize(
    ("missing", "status", "says"),
    [
        ("", "ok", "files replaced in one step; folders can be exchanged; hard links"),
        ("exchange", "warn", "cannot be exchanged"),
        ("link", "warn", "no hard links"),
        ("replace", "fail", "cannot be renamed"),
    ],
)
def test_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, status: str, says: str) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    if missing == "exchange":
        monkeypatch.setattr("sanitize.storage.publication._exchange", lambda one, other: False)
    elif missing:
        monkeypatch.setattr(os, missing, refused)
    elif sys.platform != "linux":
        pytest.skip("only Linux exchanges folders")
    found = room.check_renames(tmp_path)
    assert found.status == status and says in found.detail and bool(found.action) == (status != "ok")


def test_fsync_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert room.check_fsync(tmp_path).status == "ok"

    def refused(handle: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refused)
    found = room.check_fsync(tmp_path)
    assert found.status == "fail" and found.exit_code == 7


def test_a_network_file_system_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "with a blank"
    odd.mkdir()
    mounts = f"/dev/a / ext4 rw 0 0\nserver:/x {str(odd).replace(' ', chr(92) + '040')} nfs4 rw 0 0\n"
    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, *more: mounts if str(path) == "/proc/mounts" else real(path, *more))
    assert room.check_file_system(odd).status == "warn" and "nfs4" in room.check_file_system(odd).detail
    assert room.check_file_system(tmp_path) == EnvironmentCheck("file system", "ok", "ext4")


# ---- the machine ----

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(("free", "status"), [(10 << 20, "fail"), (200 << 20, "warn"), (5 << 30, "ok")])
def test_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 0, free))
    found = room.check_free_space("space", tmp_path, "--dir names another place")
    assert found.status == status and f"{free / (1 << 30):,.1f} GiB" in found.detail and ("--dir" in found.action) == (status != "ok")


@pytest.mark.parametrize(
    ("memory", "count", "status", "do"),
    [(0.4, 2, "fail", "larger machine"), (1.0, 2, "warn", "--workers 1"), (4.0, 16, "warn", "--workers 5"), (16.0, 4, "ok", "")],
)
def test_memory_and_cores(monkeypatch: pytest.MonkeyPatch, memory: float, count: int, status: str, do: str) -> None:
    monkeypatch.setattr(room, "_available_memory", lambda: int(memory * (1 << 30)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)), raising=False)
    found = room.check_cores_and_memory()
    assert found.status == status and do in found.action and f"{count} cores, {memory:.1f} GiB" in found.detail


def test_a_limit_on_memory_is_seen() -> None:
    code = "from sanitize.cli.doctor import _available_memory; print(_available_memory())"
    words = ["bash", "-c", 'ulimit -v 3000000; exec "$@"', "bash", sys.executable, "-c", code]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 3_000_000 * 1024


# ---- what is installed ----


@pytest.fixture()
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions by package that appear to be installed; the requirements are those below."""
    found = {"polars": "2.1.0", "typer": "0.30", "torch": "2.14", "datasketch": "1.6"}
    asked = ["polars>=2", "typer>=0.29", "torch>=2.13; extra == 'learn'", "transformers>=5; extra == 'learn'"]
    asked += ["datasketch>=2; extra == 'dedup'", "pytest>=9; extra == 'dev'", "pyspark>=4; extra == 'spark'", "polars>=2; extra == 'plots'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: asked)
    monkeypatch.setattr(room, "_installed_version", found.get)
    monkeypatch.setattr(room, "check_java", lambda *, wanted: EnvironmentCheck("java", "ok", str(wanted)))
    return found


@pytest.mark.parametrize(
    ("change", "status", "found", "do"),
    [
        ({}, "ok", "polars 2.1.0, typer 0.30", ""),
        ({"typer": "0.28.9"}, "fail", "typer 0.28.9", "pip install --upgrade 'typer>=0.29'"),
        ({"polars": None}, "fail", "polars is missing", "pip install --upgrade 'polars>=2'"),
        ({"polars": "10.0"}, "warn", "polars", "if anything fails"),
    ],
)
def test_packages(installed: dict[str, Any], change: dict[str, Any], status: str, found: str, do: str) -> None:
    installed.update(change)
    check = room.check_packages()
    assert check.status == status and found in check.detail and do in check.action and check.exit_code == (2 if status == "fail" else 0)


def test_optional_parts(installed: dict[str, Any]) -> None:
    found = {check.name: check for check in room.check_extras()}
    assert found["[learn]"] == EnvironmentCheck(
        "[learn]",
        "absent",
        "models that find (ner), training and evaluation (without transformers)",
        "pip install 'corpus-sanitize[learn]'",
    )
    assert found["[dedup]"].status == "warn" and "datasketch 1.6" in found["[dedup]"].detail
    assert found["[plots]"].status == "ok" and found["[spark]"].status == "absent"
    assert "[dev]" not in found and found["java"].detail == "False"
    installed["pyspark"] = "4.0"
    assert {check.name: check.detail for check in room.check_extras()}["java"] == "True"


def test_the_extras_are_those_of_the_distribution() -> None:
    asked = set(room._requirements_by_extra()) - {"", "all", "dev", "peers"}
    assert asked == room._EXTRAS.keys()


@pytest.mark.parametrize(
    ("version", "wanted", "status"),
    [("17.0.2", True, "ok"), ("21", False, "ok"), ("1.8.0_202", True, "warn"), ("11.0.1", False, "absent"), (None, False, "absent")],
)
def test_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, wanted: bool, status: str) -> None:
    if version:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = room.check_java(wanted=wanted)
    assert found.status == status and ("apt-get install" in found.action) == (status != "ok")


def test_python(monkeypatch: pytest.MonkeyPatch) -> None:
    Version = namedtuple("Version", "major minor micro")
    for version, status in ((Version(3, 10, 1), "fail"), (Version(3, 11, 0), "ok"), (Version(3, 99, 0), "warn")):
        monkeypatch.setattr(sys, "version_info", version)
        assert room.check_python().status == status
