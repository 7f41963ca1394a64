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
doctor_module = importlib.import_module("sanitize.cli.doctor")  # `sanitize.doctor` is the function
MACHINE = [
    "python",
    "packages",
    "cores, memory",
    "space",
    "temporary space",
    "file system",
    "modes",
    "renames",
    "fsync",
    "locks",
]
EXTRAS = {
    "[dedup]",
    "[dp]",
    "[gliner]",
    "[learn]",
    "[lora]",
    "[multi]",
    "[ner]",
    "[plots]",
    "[presidio]",
    "[remote]",
    "[spark]",
}

# the command in a fresh process that may not open a connection; `ulimit` words come first
COMMAND = """
import sys
def report_network(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        sys.stderr.write(f"NETWORK {event}\\n")
sys.addaudithook(report_network)
from sanitize.cli.main import main
sys.argv = ["sanitize", "doctor", *sys.argv[1:]]
main()
"""


def run_doctor(
    *arguments: object, limit: str = ":", **changes: str
) -> subprocess.CompletedProcess[str]:
    shell = [
        "bash",
        "-c",
        f'{limit}; exec "$@"',
        "bash",
        sys.executable,
        "-c",
        COMMAND,
        *map(str, arguments),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
    return subprocess.run(
        shell,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


@pytest.mark.slow
def test_this_machine_passes_and_no_files_are_left(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "a folder", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    result = run_doctor("--dir", folder, "--json", TMPDIR=str(temporary))
    assert result.returncode == 0 and result.stdout.count("\n") == 1, result.stderr
    assert "NETWORK" not in result.stderr
    report = json.loads(result.stdout)
    assert report["ok"] and report["exit_code"] == 0 and report["folder"] == str(folder)
    names = [check["name"] for check in report["checks"]]
    assert names[:12] == [*MACHINE, "self-test", "workers"]
    assert set(names[12:]) == EXTRAS | {"java"}
    for check in report["checks"]:
        assert check.keys() == {"name", "status", "detail", "action"} and check["detail"]
        assert bool(check["action"]) == (check["status"] != "ok"), (
            "a check that is not ok names an action"
        )
        if check["status"] == "absent":
            assert (
                check["name"] == "java"
                or check["action"] == f"pip install 'corpus-sanitize{check['name']}'"
            )
    lines = result.stderr.splitlines()
    assert [line[8:25].strip() for line in lines if line[:6].strip()] == names
    assert not list(folder.iterdir()) and not list(temporary.iterdir())


@pytest.mark.slow
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """A file size limit simulates a full disk."""
    result = run_doctor("--dir", tmp_path, limit="ulimit -f 60")
    assert result.returncode == 7
    assert (
        "fail    writing          a write in" in result.stdout
        and "(EFBIG)" in result.stdout
        and "Traceback" not in result.stderr
    )
    assert "ok      modes" in result.stdout and "1 fail" in result.stdout
    assert not list(tmp_path.iterdir())


# no user can create a folder in /proc, not even root
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
def test_a_folder_without_write_access_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor_module, "check_workers", lambda: EnvironmentCheck("workers", "ok", "not asked")
    )
    report = doctor("/proc")
    failed = [check for check in report.checks if check.status == "fail"]
    assert failed[-1].name == "writing" and "use a folder" in failed[-1].action
    assert not report.ok and report.exit_code == 7


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        doctor(tmp_path / "nothing")


# ---- faults of the file system ----


def run_checks(folder: Path) -> dict[str, EnvironmentCheck]:
    return {check.name: check for check in doctor_module.run_self_test(folder)}


@pytest.mark.slow
def test_broken_locks_and_changed_bytes_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def lock_nothing(workspace: Path) -> Iterator[None]:
        yield

    original = doctor_module._sanitize_test_mails

    def write_and_damage(folder: Path, out: Path, *arguments: Any) -> None:
        original(folder, out, *arguments)
        if out.name == "out":
            page = out / "README.md"
            page.write_text(page.read_text() + " ")

    monkeypatch.setattr(locks, "lock_workspace", lock_nothing)
    monkeypatch.setattr(doctor_module, "_sanitize_test_mails", write_and_damage)
    checks = run_checks(tmp_path)
    assert (
        checks["locks"].status == "fail"
        and "two processes" in checks["locks"].detail
        and checks["locks"].exit_code == 7
    )
    assert (
        checks["self-test"].status == "fail"
        and "other bytes" in checks["self-test"].detail
        and checks["self-test"].exit_code == 1
    )


@pytest.mark.slow
def test_errors_of_the_self_test_run_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = doctor_module._sanitize_test_mails

    def refuse(folder: Path, out: Path, *arguments: Any) -> None:
        if out.name == "out":
            raise ResourceError("the disk is full")
        original(folder, out, *arguments)

    monkeypatch.setattr(doctor_module, "_sanitize_test_mails", refuse)
    checks = run_checks(tmp_path)
    assert checks["locks"].status == "ok"
    assert (
        checks["self-test"].status == "fail"
        and checks["self-test"].exit_code == 7
        and "the disk is full" in checks["self-test"].detail
    )


@pytest.mark.slow
def test_a_failing_second_process_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    checks = run_checks(tmp_path)
    assert (
        checks.keys() == {"self-test"}
        and checks["self-test"].status == "fail"
        and "exit code 1" in checks["self-test"].detail
    )


def test_lost_file_modes_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor_module.check_file_modes(tmp_path).status == "ok"
    (tmp_path / "fat").mkdir()
    original = os.open
    # as on a file system without modes: all files have the same mode
    monkeypatch.setattr(
        os,
        "open",
        lambda path, flags, mode=0o777, **options: original(path, flags, 0o644, **options),
    )
    result = doctor_module.check_file_modes(tmp_path / "fat")
    assert (
        result.status == "fail"
        and "found 0700, 0644, 0640" in result.detail
        and "--work" in result.action
    )


@pytest.mark.parametrize(
    ("missing", "status", "detail"),
    [
        ("", "ok", "files replaced in one step; folders can be exchanged; hard links"),
        ("exchange", "warn", "cannot be exchanged"),
        ("link", "warn", "no hard links"),
        ("replace", "fail", "cannot be renamed"),
    ],
)
def test_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, status: str, detail: str
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    if missing == "exchange":
        monkeypatch.setattr("sanitize.storage.publication._exchange", lambda first, second: False)
    elif missing:
        monkeypatch.setattr(os, missing, refuse)
    elif sys.platform != "linux":
        pytest.skip("only Linux exchanges folders")
    result = doctor_module.check_renames(tmp_path)
    assert (
        result.status == status
        and detail in result.detail
        and bool(result.action) == (status != "ok")
    )


@pytest.mark.real_fsync
def test_refused_fsync_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor_module.check_fsync(tmp_path).status == "ok"

    def refuse(handle: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    result = doctor_module.check_fsync(tmp_path)
    assert result.status == "fail" and result.exit_code == 7


def test_a_network_file_system_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount_point = tmp_path / "with a blank"
    mount_point.mkdir()
    mounts = (
        f"/dev/a / ext4 rw 0 0\nserver:/x {str(mount_point).replace(' ', chr(92) + '040')} nfs4 rw"
        " 0 0\n"
    )
    original = Path.read_text
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda path, *arguments: (
            mounts if str(path) == "/proc/mounts" else original(path, *arguments)
        ),
    )
    assert (
        doctor_module.check_file_system(mount_point).status == "warn"
        and "nfs4" in doctor_module.check_file_system(mount_point).detail
    )
    assert doctor_module.check_file_system(tmp_path) == EnvironmentCheck(
        "file system", "ok", "ext4"
    )


# ---- the machine ----

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("free", "status"), [(10 << 20, "fail"), (200 << 20, "warn"), (5 << 30, "ok")]
)
def test_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 0, free))
    result = doctor_module.check_free_space("space", tmp_path, "--dir names another place")
    assert (
        result.status == status
        and f"{free / (1 << 30):,.1f} GiB" in result.detail
        and ("--dir" in result.action) == (status != "ok")
    )


@pytest.mark.parametrize(
    ("memory", "count", "status", "action"),
    [
        (0.4, 2, "fail", "larger machine"),
        (1.0, 2, "warn", "--workers 1"),
        (4.0, 16, "warn", "--workers 5"),
        (16.0, 4, "ok", ""),
    ],
)
def test_memory_and_cores(
    monkeypatch: pytest.MonkeyPatch, memory: float, count: int, status: str, action: str
) -> None:
    monkeypatch.setattr(doctor_module, "_available_memory", lambda: int(memory * (1 << 30)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)), raising=False)
    result = doctor_module.check_cores_and_memory()
    assert (
        result.status == status
        and action in result.action
        and f"{count} cores, {memory:.1f} GiB" in result.detail
    )


def test_a_memory_limit_is_detected() -> None:
    code = "from sanitize.cli.doctor import _available_memory; print(_available_memory())"
    arguments = ["bash", "-c", 'ulimit -v 3000000; exec "$@"', "bash", sys.executable, "-c", code]
    result = subprocess.run(
        arguments,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(result.stdout) == 3_000_000 * 1024


# ---- what is installed ----


@pytest.fixture()
def installed_versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions by package that appear to be installed; with invented requirements."""
    versions = {"polars": "2.1.0", "typer": "0.30", "torch": "2.14", "datasketch": "1.6"}
    requirements = [
        "polars>=2",
        "typer>=0.29",
        "torch>=2.13; extra == 'learn'",
        "transformers>=5; extra == 'learn'",
    ]
    requirements += [
        "datasketch>=2; extra == 'dedup'",
        "pytest>=9; extra == 'dev'",
        "pyspark>=4; extra == 'spark'",
        "polars>=2; extra == 'plots'",
    ]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: requirements)
    monkeypatch.setattr(doctor_module, "_installed_version", versions.get)
    monkeypatch.setattr(
        doctor_module, "check_java", lambda *, wanted: EnvironmentCheck("java", "ok", str(wanted))
    )
    return versions


@pytest.mark.parametrize(
    ("change", "status", "detail", "action"),
    [
        ({}, "ok", "polars 2.1.0, typer 0.30", ""),
        ({"typer": "0.28.9"}, "fail", "typer 0.28.9", "pip install --upgrade 'typer>=0.29'"),
        ({"polars": None}, "fail", "polars is missing", "pip install --upgrade 'polars>=2'"),
        ({"polars": "10.0"}, "warn", "polars", "if anything fails"),
    ],
)
def test_packages(
    installed_versions: dict[str, Any],
    change: dict[str, Any],
    status: str,
    detail: str,
    action: str,
) -> None:
    installed_versions.update(change)
    check = doctor_module.check_packages()
    assert (
        check.status == status
        and detail in check.detail
        and action in check.action
        and check.exit_code == (2 if status == "fail" else 0)
    )


def test_the_versions_that_tests_run_with_are_tested_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = dict(
        line.lower().split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line[:60]
    )
    monkeypatch.setattr(doctor_module, "_installed_version", lambda name: pinned.get(name.lower()))
    check = doctor_module.check_packages()
    assert (check.status, check.action) == ("ok", "")


def test_extras(installed_versions: dict[str, Any]) -> None:
    checks = {check.name: check for check in doctor_module.check_extras()}
    assert checks["[learn]"] == EnvironmentCheck(
        "[learn]",
        "absent",
        "models that find (ner), training and evaluation (without transformers)",
        "pip install 'corpus-sanitize[learn]'",
    )
    assert checks["[dedup]"].status == "warn" and "datasketch 1.6" in checks["[dedup]"].detail
    assert checks["[plots]"].status == "ok" and checks["[spark]"].status == "absent"
    assert "[dev]" not in checks and checks["java"].detail == "False"
    installed_versions["pyspark"] = "4.0"
    assert {check.name: check.detail for check in doctor_module.check_extras()}["java"] == "True"


def test_extras_equal_those_of_the_distribution() -> None:
    extras = set(doctor_module._requirements_by_extra()) - {"", "all", "dev", "peers"}
    assert extras == doctor_module._EXTRAS.keys()


@pytest.mark.parametrize(
    ("version", "wanted", "status"),
    [
        ("17.0.2", True, "ok"),
        ("21", False, "ok"),
        ("1.8.0_202", True, "warn"),
        ("11.0.1", False, "absent"),
        (None, False, "absent"),
    ],
)
def test_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, wanted: bool, status: str
) -> None:
    if version:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(
            f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n"
        )
        (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = doctor_module.check_java(wanted=wanted)
    assert result.status == status and ("apt-get install" in result.action) == (status != "ok")


def test_python(monkeypatch: pytest.MonkeyPatch) -> None:
    Version = namedtuple("Version", "major minor micro")
    for version, status in (
        (Version(3, 10, 1), "fail"),
        (Version(3, 11, 0), "ok"),
        (Version(3, 99, 0), "warn"),
    ):
        monkeypatch.setattr(sys, "version_info", version)
        assert doctor_module.check_python().status == status
