"""Checks of this machine for `sanitize doctor`: one line per check, with a remedy for each that
fails.

Checks really run, in a temporary folder inside the given one: writes, modes, renames, fsync, a lock
held by another process, spawned workers, and one small corpus sanitized twice, once without
interruption and once killed and resumed. That takes about two seconds and 2 MB; the temporary
folder is removed, and nothing is sent over a network. Not checked: a disk that reports fsync as
done although it is not, and locks between machines that share a folder.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from sanitize.core.command_results import CommandResult
from sanitize.core.progress import ProgressCallback, ProgressUpdate, ignore_progress
from sanitize.core.table_rendering import SummaryTable
from sanitize.engines import spark_session
from sanitize.errors import ResourceError, SanitizeError, UsageError
from sanitize.plans.python_api import public_function
from sanitize.storage.remote_storage import require_local_path

_DISTRIBUTION = "corpus-sanitize"
_EXTRAS = {
    "dedup": "near duplicates",
    "presidio": "Presidio's recognisers",
    "gliner": "GLiNER models behind Presidio",
    "learn": "models that find (ner), training and evaluation",
    "dp": "private training",
    "multi": "training on several GPUs",
    "lora": "training and reading LoRA adapters",
    "spark": "the Spark engine",
    "plots": "plots",
    "remote": "object stores",
    "ner": "names and addresses by a small model",
}
# of packages that are tested with a newer major version than the oldest one allowed
_NEWEST_TESTED_MAJORS = {"rich": 15}
_NEWEST_TESTED_PYTHON = (3, 14)  # the tests have passed with it and the required packages
_MIB, _GIB = 1 << 20, 1 << 30
# peak of the largest process in benchmarks/results/main_job.json, rounded up
_WORKER_BYTES = 0.8 * _GIB
_NETWORK_FILE_SYSTEMS = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "fuse.sshfs",
        "afs",
        "ceph",
        "lustre",
        "beegfs",
        "gpfs",
        "vboxsf",
    )
)
# mails of the self-test, and documents per shard: four tasks
_SELF_TEST_MAILS, _SELF_TEST_SHARD_ROWS = (80, 20)
_MACHINE_EXIT_CODE, _INSTALLATION_EXIT_CODE, _INTERNAL_EXIT_CODE = (
    ResourceError.exit_code,
    UsageError.exit_code,
    SanitizeError.exit_code,
)


CheckStatus = Literal["ok", "warn", "fail", "absent"]


@dataclass(frozen=True)
class EnvironmentCheck:
    """Result of one check of `doctor`. `absent` is an optional package that is not installed;
    `action` is the remedy, or how to install it. `exit_code` is the exit code of the command if
    this check fails."""

    name: str
    status: CheckStatus
    detail: str
    action: str = ""
    exit_code: Annotated[int, Field(exclude=True)] = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class DoctorResult(CommandResult):
    """The result of `doctor`: `ok` if no check failed; `exit_code` of the first failure (7 the
    machine, 2 the installation, 1 an internal error)."""

    ok: bool
    exit_code: int
    checks: Sequence[EnvironmentCheck]
    folder: str
    seconds: float

    def summary_table(self) -> SummaryTable:
        rows = [(check.status, check.name, check.detail, check.action) for check in self.checks]
        head = ("status", "check", "detail", "action")
        return SummaryTable(
            title=f"sanitize doctor: {'nothing fails' if self.ok else 'something fails'}",
            header=head,
            rows=rows,
        )


@public_function()
def doctor(
    folder: Path | str = ".",
    /,
    *,
    on_check: Callable[[EnvironmentCheck], None] = lambda check: None,
) -> DoctorResult:
    """Check this machine for runs that write into `folder`; `on_check` is called with the result of
    each check.

    The result has `ok` (no check failed), `exit_code` (of the first failure: 7 the machine, 2 the
    installation, 1 an internal error), `checks` (name, status, detail, action) and `seconds`. It
    takes some seconds. Raises UsageError if `folder` is no folder.

    >>> import sanitize
    >>> sanitize.doctor(".").ok  # doctest: +SKIP
    True
    """
    folder, began = require_local_path(folder), time.monotonic()
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: there is no such folder; expected with --dir the folder in which OUT and"
            " WORK will be created"
        )
    checks: list[EnvironmentCheck] = []
    for check in _run_checks(folder):
        checks.append(check)
        on_check(check)
    failed = [check for check in checks if check.status == "fail"]
    return DoctorResult(
        ok=not failed,
        exit_code=failed[0].exit_code if failed else 0,
        checks=checks,
        folder=str(folder),
        seconds=round(time.monotonic() - began, 2),
    )


def _run_checks(folder: Path) -> Iterator[EnvironmentCheck]:
    yield check_python()
    yield check_packages()
    yield check_cores_and_memory()
    yield check_free_space("space", folder, "choose another folder with --dir")
    yield check_free_space(
        "temporary space", Path(tempfile.gettempdir()), "choose another folder with TMPDIR=DIR"
    )
    try:
        with tempfile.TemporaryDirectory(prefix=".sanitize-doctor-", dir=folder) as name:
            yield from _check_folder(Path(name))
    except OSError as error:
        error_name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        yield EnvironmentCheck(
            "writing",
            "fail",
            f"a write in {folder} failed ({error_name})",
            "free disk space there, or use a folder that you may write to",
            _MACHINE_EXIT_CODE,
        )
    yield check_workers()
    yield from check_extras()


def _check_folder(folder: Path) -> Iterator[EnvironmentCheck]:
    """Checks of the file system of a folder, and the self-test in it."""
    yield check_file_system(folder)
    yield check_file_modes(folder)
    yield check_renames(folder)
    yield check_fsync(folder)
    yield from run_self_test(folder)


# ---- what is installed ---------------------------------------------------------------------------


def check_python() -> EnvironmentCheck:
    """Compare the version of Python with the one that the distribution requires."""
    required = importlib.metadata.metadata(_DISTRIBUTION)["Requires-Python"] or ""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _version_numbers(required)[:2]:
        return EnvironmentCheck(
            "python",
            "fail",
            f"{found}; {required} is required",
            "install a newer Python, and install the package again with it",
            _INSTALLATION_EXIT_CODE,
        )
    if sys.version_info[:2] > _NEWEST_TESTED_PYTHON:
        return EnvironmentCheck(
            "python",
            "warn",
            f"{found}, newer than the tested versions",
            f"use Python {'.'.join(map(str, _NEWEST_TESTED_PYTHON))} if anything fails",
        )
    return EnvironmentCheck("python", "ok", found)


def check_packages() -> EnvironmentCheck:
    """Check that every required package is installed in a version that is new enough."""
    required = _requirements_by_extra()[""]
    unsatisfied = [requirement for requirement in required if not _is_satisfied(requirement)]
    if unsatisfied:
        detail = ", ".join(
            f"{name} {_installed_version(name) or 'is missing'}" for name, _ in unsatisfied
        )
        pip_arguments = " ".join(
            f"'{name}>={minimum}'" if minimum else name for name, minimum in unsatisfied
        )
        return EnvironmentCheck(
            "packages",
            "fail",
            detail,
            f"pip install --upgrade {pip_arguments}",
            _INSTALLATION_EXIT_CODE,
        )
    newer = [
        name
        for name, minimum in required
        if minimum
        and _version_numbers(_installed_version(name) or "")[0]
        > _NEWEST_TESTED_MAJORS.get(name, _version_numbers(minimum)[0])
        > 0
    ]
    detail = ", ".join(f"{name} {_installed_version(name)}" for name, _ in required)
    if newer:
        action = (
            f"if anything fails, go back to the major versions in `pip show {_DISTRIBUTION}`'s"
            " requirements"
        )
        return EnvironmentCheck(
            "packages",
            "warn",
            f"newer major versions than the tested ones: {', '.join(newer)}",
            action,
        )
    return EnvironmentCheck("packages", "ok", detail)


def check_extras() -> Iterator[EnvironmentCheck]:
    """Check the packages of every optional extra; the action is the command that installs it."""
    for extra, required in _requirements_by_extra().items():
        if extra not in _EXTRAS:
            continue
        missing = [name for name, _ in required if not _installed_version(name)]
        old = [
            f"{name} {_installed_version(name)}"
            for name, minimum in required
            if name not in missing and not _is_satisfied((name, minimum))
        ]
        name, action = f"[{extra}]", f"pip install '{_DISTRIBUTION}[{extra}]'"
        if old:
            yield EnvironmentCheck(
                name, "warn", f"{_EXTRAS[extra]}: too old are {', '.join(old)}", action
            )
        elif missing:
            partly = f" (without {', '.join(missing)})" if len(missing) < len(required) else ""
            yield EnvironmentCheck(name, "absent", _EXTRAS[extra] + partly, action)
        else:
            yield EnvironmentCheck(
                name,
                "ok",
                ", ".join(f"{package} {_installed_version(package)}" for package, _ in required),
            )
        if extra == "spark":
            yield check_java(wanted=not missing)


def check_java(*, wanted: bool) -> EnvironmentCheck:
    """Check for the Java that Spark 4 needs: 17 or newer. `wanted`: pyspark is installed, so that a
    missing Java is a warning."""
    action = "apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    missing: CheckStatus = "warn" if wanted else "absent"
    version = spark_session.find_java_version()
    if version is None:
        return EnvironmentCheck("java", missing, "for the Spark engine", action)
    if not version or _version_numbers(version)[0] < spark_session.MIN_JAVA_VERSION:
        detail = (
            f"{version or 'unknown'}; Spark 4 requires {spark_session.MIN_JAVA_VERSION} or newer"
        )
        return EnvironmentCheck("java", missing, detail, action)
    return EnvironmentCheck("java", "ok", version)


def _requirements_by_extra() -> dict[str, list[tuple[str, str]]]:
    """The requirements of the distribution by extra ("" for the required ones): pairs of a name and
    the minimum version, or ""."""
    requirements: dict[str, list[tuple[str, str]]] = {"": []}
    for line in importlib.metadata.requires(_DISTRIBUTION) or ():
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        name = re.match(r"[\w.-]+", requirement.strip())
        minimum = re.search(r">=\s*([0-9.]+)", requirement)
        if name:
            requirements.setdefault(extra[1] if extra else "", []).append(
                (name[0], minimum[1] if minimum else "")
            )
    return requirements


def _installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _is_satisfied(requirement: tuple[str, str]) -> bool:
    version = _installed_version(requirement[0])
    return version is not None and _version_numbers(version) >= _version_numbers(requirement[1])


def _version_numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, such as (2, 1, 0); (0,) if there is none."""
    found = re.search(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(map(int, found[0].split("."))) if found else (0,)


# ---- the machine ---------------------------------------------------------------------------------


def check_cores_and_memory() -> EnvironmentCheck:
    """Compare cores and memory with the peak memory of a worker, 0.8 GiB; also checks the limit of
    open files."""
    count = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    memory, files = _available_memory(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    detail = f"{count} {'core' if count == 1 else 'cores'}, {memory / _GIB:.1f} GiB of memory"
    max_workers = int(memory / _WORKER_BYTES)
    if memory < 0.5 * _GIB:
        return EnvironmentCheck(
            "cores, memory",
            "fail",
            detail,
            "a run takes up to 0.8 GiB in one process; use a larger machine",
            _MACHINE_EXIT_CODE,
        )
    if max_workers < count:
        return EnvironmentCheck(
            "cores, memory",
            "warn",
            detail,
            f"a worker takes up to 0.8 GiB: use --workers {max(max_workers, 1)}",
        )
    if 0 < files < 256:
        return EnvironmentCheck(
            "cores, memory", "warn", f"{detail}; {files} open files at most", "ulimit -n 1024"
        )
    return EnvironmentCheck("cores, memory", "ok", detail)


def _available_memory() -> int:
    """Bytes of memory that this process and its workers may use: the least of physical memory,
    cgroup limit and RLIMIT_AS."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(path).read_text("ascii")))
        except (OSError, ValueError):
            continue
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min([*limits, *([own] if own != resource.RLIM_INFINITY else [])])


def check_free_space(name: str, folder: Path, alternative: str) -> EnvironmentCheck:
    """Check the free bytes and free file entries (inodes) of a file system; `alternative` says how
    to choose another one."""
    free, entries = shutil.disk_usage(folder).free, os.statvfs(folder)
    detail = f"{free / _GIB:,.1f} GiB free in {folder}"
    action = (
        f"free disk space (`sanitize explain` estimates how much a run needs), or {alternative}"
    )
    if free < 64 * _MIB:
        return EnvironmentCheck(name, "fail", detail, action, _MACHINE_EXIT_CODE)
    if entries.f_files and entries.f_favail < 1_000:
        return EnvironmentCheck(
            name,
            "warn",
            f"{detail}, and {entries.f_favail} more files at most",
            f"delete files, or {alternative}",
        )
    return EnvironmentCheck(
        name, "warn" if free < _GIB else "ok", detail, action if free < _GIB else ""
    )


def check_workers() -> EnvironmentCheck:
    """Start two worker processes, and check that they run tasks."""
    from sanitize.engines.local import LocalEngine

    with tempfile.TemporaryDirectory(prefix="sanitize-doctor-") as spill:
        engine = LocalEngine(workers=2, spill=Path(spill))
        try:
            worker_pids = {done.result for done in engine.map_shards(_worker_pid, [0, 1])}
        except (OSError, SanitizeError, RuntimeError) as error:
            action = (
                'use --workers 1; from Python, call it in a file under `if __name__ == "__main__":`'
            )
            return EnvironmentCheck(
                "workers",
                "fail",
                f"cannot be started ({type(error).__name__})",
                action,
                _MACHINE_EXIT_CODE,
            )
        finally:
            engine.close()
    if os.getpid() in worker_pids:
        return EnvironmentCheck(
            "workers",
            "fail",
            "the tasks ran in this process instead of in workers",
            "internal error, please report it; until then use --workers 1",
            _INTERNAL_EXIT_CODE,
        )
    return EnvironmentCheck("workers", "ok", "processes started and ran tasks")


def _worker_pid(_task: int) -> int:
    return os.getpid()


# ---- the file system -----------------------------------------------------------------------------


def check_file_system(folder: Path) -> EnvironmentCheck:
    """The type of the file system of a folder; a warning for network file systems."""
    type_name = _file_system_type(folder)
    if type_name in _NETWORK_FILE_SYSTEMS:
        action = "run only one machine at a time in it, or put WORK on a local disk with --work"
        return EnvironmentCheck(
            "file system",
            "warn",
            f"{type_name}, shared over a network: locks may not hold between machines",
            action,
        )
    return EnvironmentCheck("file system", "ok", type_name or "unknown")


def _file_system_type(folder: Path) -> str:
    """The type of the file system of a folder, from /proc/mounts; "" on systems without that
    file."""
    try:
        lines = Path("/proc/mounts").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    found = ("", "")  # (mount point, type); the longest mount point that contains the folder
    for line in lines:
        _, mount_point, type_name, *_ = line.split(" ")
        mount_point = mount_point.encode().decode("unicode_escape")
        # of two file systems with the same mount point, the later one hides the earlier one
        if len(mount_point) >= len(found[0]) and folder.resolve().is_relative_to(mount_point):
            found = (mount_point, type_name)
    return found[1]


def check_file_modes(test_folder: Path) -> EnvironmentCheck:
    """Check that the file system keeps the access modes of folders and files (0700, 0600, 0640)."""
    folder, file = test_folder / "private", test_folder / "private" / "key"
    folder.mkdir(mode=0o700)
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)]
    file.chmod(0o640)
    modes.append(stat.S_IMODE(file.stat().st_mode))
    if modes == [0o700, 0o600, 0o640]:
        return EnvironmentCheck("modes", "ok", "private folders and files stay private")
    action = (
        "others could read the key and the raw values: put WORK on a file system that keeps modes,"
        " with --work"
    )
    detail = f"expected modes 0700, 0600, 0640; found {', '.join(f'{mode:04o}' for mode in modes)}"
    return EnvironmentCheck("modes", "fail", detail, action, _MACHINE_EXIT_CODE)


def check_renames(test_folder: Path) -> EnvironmentCheck:
    """Check that a file can be renamed over another one, that two folders can be exchanged, and
    that files can be hard-linked."""
    # the function that a publication uses
    from sanitize.storage.publication import _exchange as exchange

    source, target = test_folder / "one", test_folder / "other"
    source.write_text("new", "ascii")
    target.write_text("old", "ascii")
    (test_folder / "a" / "new").mkdir(parents=True)
    (test_folder / "b" / "old").mkdir(parents=True)
    try:
        os.replace(source, target)
        (test_folder / "b" / "old").rename(test_folder / "b" / "moved")
        renamed = (
            target.read_text("ascii") == "new"
            and not source.exists()
            and (test_folder / "b" / "moved").is_dir()
        )
    except OSError:
        renamed = False
    if not renamed:
        return EnvironmentCheck(
            "renames",
            "fail",
            "a file cannot be renamed over another one",
            "use a local disk; nothing can be published here",
            _MACHINE_EXIT_CODE,
        )
    exchanged = (
        exchange(test_folder / "a", test_folder / "b")
        and (test_folder / "a" / "moved").is_dir()
        and (test_folder / "b" / "new").is_dir()
    )
    try:
        os.link(target, test_folder / "linked")
        linked = True
    except OSError:
        linked = False
    folders = "folders can be exchanged" if exchanged else "folders cannot be exchanged"
    detail = f"files replaced in one step; {folders}; {'hard links' if linked else 'no hard links'}"
    if exchanged and linked:
        return EnvironmentCheck("renames", "ok", detail)
    actions = (
        []
        if exchanged
        else ["with --replace there is no OUT for a moment, between the old and the new one"]
    )
    actions += [] if linked else ["shards are copied, so OUT takes its size twice"]
    return EnvironmentCheck("renames", "warn", detail, "; ".join(actions))


def check_fsync(test_folder: Path) -> EnvironmentCheck:
    """Check that files and folders can be synced to disk; reports the median time of five
    writes."""
    from sanitize.storage.files import fsync

    times = []
    try:
        for number in range(5):
            file = test_folder / f"sync-{number}"
            file.write_bytes(bytes(4096))
            began = time.perf_counter()
            fsync(file)
            fsync(test_folder)
            times.append(1000 * (time.perf_counter() - began))
    except OSError as error:
        action = (
            "use a local disk: here a power failure could leave the record of a task without its"
            " files"
        )
        return EnvironmentCheck(
            "fsync", "fail", f"not possible ({type(error).__name__})", action, _MACHINE_EXIT_CODE
        )
    return EnvironmentCheck("fsync", "ok", f"files and folders, {sorted(times)[2]:.1f} ms")


# ---- the self-test -------------------------------------------------------------------------------


def run_self_test(test_folder: Path) -> Iterator[EnvironmentCheck]:
    """Sanitize a small corpus without interruption, and again with a process that is killed halfway
    and resumed; compare all bytes.

    The process holds the lock of WORK when it is killed, so locks are checked on the way.
    """
    import pyarrow.parquet as pq

    from sanitize.cli.generated_mails import generate_mails
    from sanitize.errors import Locked
    from sanitize.storage.locks import lock_workspace

    pq.write_table(
        generate_mails(_SELF_TEST_MAILS, 1),
        test_folder / "mails.parquet",
        row_group_size=_SELF_TEST_SHARD_ROWS,
    )
    uninterrupted, out, work = (
        test_folder / "uninterrupted",
        test_folder / "out",
        test_folder / "out.private",
    )
    code = (
        "import sys; from sanitize.cli.doctor import sanitize_until_halfway;"
        " sanitize_until_halfway(sys.argv[1])"
    )
    try:
        _sanitize_test_mails(test_folder, uninterrupted)
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", code, str(test_folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            try:
                halfway = process.stdout.readline() == b"halfway\n"
                lock_held = False
                if halfway:
                    try:
                        with lock_workspace(work):
                            pass
                    except Locked:
                        lock_held = True
            finally:
                process.send_signal(signal.SIGKILL)
        if not halfway:
            action = "run `sanitize demo`, which prints the error"
            yield EnvironmentCheck(
                "self-test",
                "fail",
                f"a run in a second process failed (exit code {process.returncode})",
                action,
                _MACHINE_EXIT_CODE,
            )
            return
        with lock_workspace(work):
            pass  # the lock of a killed process is free again
        action = (
            "run only one command at a time in a folder here, or put WORK on a local disk with"
            " --work"
        )
        yield (
            EnvironmentCheck("locks", "ok", "held against other processes, free after a kill")
            if lock_held
            else EnvironmentCheck(
                "locks", "fail", "two processes hold the same lock", action, _MACHINE_EXIT_CODE
            )
        )
        published_early = out.exists()
        _sanitize_test_mails(test_folder, out)
    except SanitizeError as error:
        yield EnvironmentCheck(
            "self-test",
            "fail",
            f"{type(error).__name__}: {error}",
            "resolve this first; any run would fail in the same way",
            error.exit_code,
        )
        return
    if published_early or _hash_files(out) != _hash_files(uninterrupted):
        action = "internal error, please report it with the lines above; they hold no data"
        yield EnvironmentCheck(
            "self-test",
            "fail",
            "a killed and resumed run gave other bytes",
            action,
            _INTERNAL_EXIT_CODE,
        )
        return
    yield EnvironmentCheck(
        "self-test",
        "ok",
        f"{_SELF_TEST_MAILS} invented mails; killed halfway and resumed with the same bytes",
    )


def _sanitize_test_mails(
    test_folder: Path, out: Path, progress: ProgressCallback = ignore_progress
) -> None:
    from sanitize.pipeline.run import run_with_settings
    from sanitize.plans.plan import Plan
    from sanitize.plans.settings import Settings

    run_with_settings(
        [test_folder / "mails.parquet"],
        out,
        Plan.load("rmft"),
        settings=Settings(
            seed=1, workers=1, rows_per_shard=_SELF_TEST_SHARD_ROWS, progress=progress
        ),
    )


def sanitize_until_halfway(folder: str) -> None:
    """Sanitize the mails of the self-test up to the second task of `rewrite`; print `halfway`, then
    wait to be killed; exits with 1 when standard input is closed."""

    def progress(step: ProgressUpdate) -> None:
        if (step.stage, step.tasks_done) == ("rewrite", 2):
            sys.stdout.write("halfway\n")
            sys.stdout.flush()
            sys.stdin.read()  # ends when the parent does
            os._exit(1)

    _sanitize_test_mails(Path(folder), Path(folder) / "out", progress)


def _hash_files(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
