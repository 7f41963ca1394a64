"""Whether this machine can do the work: one line a check, and what to do about each that is not well.

Everything is tried for real in a folder of its own inside the one that is asked about: writes, modes, renames, fsync, a lock held by
another process, spawned workers, and one small corpus sanitized twice, once without a break and once killed and resumed. That takes
about two seconds and 2 MB; nothing stays behind, and nothing leaves the machine. What cannot be seen from here: a disk that says fsync
and does not mean it, and locks between machines that share a folder.
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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sanitize.core.display import Told
from sanitize.core.progress import Progress, Step, silent
from sanitize.engines import spark_session
from sanitize.errors import ResourceError, SanitizeError, UsageError
from sanitize.storage.remote_storage import local_path

Status = Literal["ok", "warn", "fail", "absent"]

_DISTRIBUTION = "corpus-sanitize"
_EXTRAS = {
    "dedup": "near duplicates",
    "presidio": "Presidio's recognisers",
    "gliner": "GLiNER models behind Presidio",
    "learn": "models that find (ner), training and evaluation",
    "dp": "private training",
    "multi": "training on several GPUs",
    "spark": "the Spark engine",
    "plots": "plots",
    "remote": "object stores",
}
_NEWEST = (3, 14)  # of Python, with which the packages below have been seen to work
_MIB, _GIB = 1 << 20, 1 << 30
_WORKER = 0.8 * _GIB  # peak of the largest process in benchmarks/results/main_job.json, with room
_NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "lustre", "beegfs", "gpfs", "vboxsf"))
_MAILS, _ROWS = 80, 20  # of the self-test: four tasks
_MACHINE, _INSTALLATION, _OURS = ResourceError.exit_code, UsageError.exit_code, SanitizeError.exit_code


@dataclass(frozen=True)
class Check:
    """What one check found. `absent` is an optional part that is not there; `do` says how to mend or bring it.

    `code` is the exit code that the command ends with where the check fails.
    """

    name: str
    status: Status
    found: str
    do: str = ""
    code: int = 0


def doctor(folder: Path | str = ".", say: Callable[[Check], None] = lambda check: None) -> dict[str, Any]:
    """Check this machine for runs whose folders lie in `folder`; `say` sees each check as it is made.

    Returns `ok` (nothing fails), `exit_code` (that of the first failure: 7 the machine, 2 the installation, 1 a bug of ours), `checks`
    (name, status, found, do) and `seconds`. Raises UsageError where `folder` is no folder.
    """
    folder, began = local_path(folder), time.monotonic()
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; --dir takes the one that OUT and WORK shall lie in")
    checks: list[Check] = []
    for check in _all(folder):
        checks.append(check)
        say(check)
    failed = [check for check in checks if check.status == "fail"]
    told = {
        "ok": not failed,
        "exit_code": failed[0].code if failed else 0,
        "checks": [{name: value for name, value in asdict(check).items() if name != "code"} for check in checks],
        "folder": str(folder),
        "seconds": round(time.monotonic() - began, 2),
    }
    return Told("doctor", told)


def _all(folder: Path) -> Iterator[Check]:
    yield python()
    yield packages()
    yield cores()
    yield space("space", folder, "--dir names another place")
    yield space("temporary space", Path(tempfile.gettempdir()), "TMPDIR=DIR names another place")
    try:
        with tempfile.TemporaryDirectory(prefix=".sanitize-doctor-", dir=folder) as name:
            yield from _tried(Path(name))
    except OSError as error:
        why = errno.errorcode.get(error.errno or 0, type(error).__name__)
        yield Check(
            "writing", "fail", f"a write in {folder} failed ({why})", "make room there, or take a folder that you may write to", _MACHINE
        )
    yield workers()
    yield from extras()


def _tried(here: Path) -> Iterator[Check]:
    """What the file system of a folder does, and the main job in it."""
    yield file_system(here)
    yield modes(here)
    yield renames(here)
    yield syncs(here)
    yield from self_test(here)


# ---- what is installed -----------------------------------------------------------------------------------------------------------


def python() -> Check:
    """The interpreter's version, against what the distribution asks for."""
    asked = importlib.metadata.metadata(_DISTRIBUTION)["Requires-Python"] or ""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _numbers(asked)[:2]:
        return Check("python", "fail", f"{found}, where {asked} is asked for", "install a newer Python and set up again", _INSTALLATION)
    if sys.version_info[:2] > _NEWEST:
        return Check(
            "python", "warn", f"{found}, newer than the tests have seen", f"use Python {'.'.join(map(str, _NEWEST))} if anything fails"
        )
    return Check("python", "ok", found)


def packages() -> Check:
    """What the main job needs, each in a version that it takes."""
    wanted = _asked_for()[""]
    wrong = [one for one in wanted if not _fits(one)]
    if wrong:
        told = ", ".join(f"{name} {_version(name) or 'is missing'}" for name, _ in wrong)
        words = " ".join(f"'{name}>={least}'" if least else name for name, least in wrong)
        return Check("packages", "fail", told, f"pip install --upgrade {words}", _INSTALLATION)
    newer = [name for name, least in wanted if least and _numbers(_version(name) or "")[0] > _numbers(least)[0] > 0]
    told = ", ".join(f"{name} {_version(name)}" for name, _ in wanted)
    if newer:
        do = f"if anything fails, go back to the major versions in `pip show {_DISTRIBUTION}`'s requirements"
        return Check("packages", "warn", f"newer major versions than the tests have seen: {', '.join(newer)}", do)
    return Check("packages", "ok", told)


def extras() -> Iterator[Check]:
    """The optional parts, each with the command that brings it."""
    for extra, wanted in _asked_for().items():
        if extra not in _EXTRAS:
            continue
        missing = [name for name, _ in wanted if not _version(name)]
        old = [f"{name} {_version(name)}" for name, least in wanted if name not in missing and not _fits((name, least))]
        name, do = f"[{extra}]", f"pip install '{_DISTRIBUTION}[{extra}]'"
        if old:
            yield Check(name, "warn", f"{_EXTRAS[extra]}: too old are {', '.join(old)}", do)
        elif missing:
            told = f" (without {', '.join(missing)})" if len(missing) < len(wanted) else ""
            yield Check(name, "absent", _EXTRAS[extra] + told, do)
        else:
            yield Check(name, "ok", ", ".join(f"{one} {_version(one)}" for one, _ in wanted))
        if extra == "spark":
            yield java(wanted=not missing)


def java(*, wanted: bool) -> Check:
    """The Java that Spark 4 runs on: 17 or newer."""
    do = "apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    missing: Status = "warn" if wanted else "absent"
    version = spark_session.java()
    if version is None:
        return Check("java", missing, "for the Spark engine", do)
    if not version or _numbers(version)[0] < spark_session.JAVA:
        return Check("java", missing, f"{version or 'unknown'}, where Spark 4 asks for {spark_session.JAVA}", do)
    return Check("java", "ok", version)


def _asked_for() -> dict[str, list[tuple[str, str]]]:
    """The requirements of the distribution by extra ("" is the main job), each a name and its least version."""
    found: dict[str, list[tuple[str, str]]] = {"": []}
    for line in importlib.metadata.requires(_DISTRIBUTION) or ():
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        name = re.match(r"[\w.-]+", requirement.strip())
        least = re.search(r">=\s*([0-9.]+)", requirement)
        if name:
            found.setdefault(extra[1] if extra else "", []).append((name[0], least[1] if least else ""))
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _fits(wanted: tuple[str, str]) -> bool:
    version = _version(wanted[0])
    return version is not None and _numbers(version) >= _numbers(wanted[1])


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, such as (2, 1, 0); (0,) of none."""
    found = re.search(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(map(int, found[0].split("."))) if found else (0,)


# ---- the machine -----------------------------------------------------------------------------------------------------------------


def cores() -> Check:
    """Cores and memory, against what a worker takes at its peak."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory, files = _memory(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    told = f"{count} {'core' if count == 1 else 'cores'}, {memory / _GIB:.1f} GiB of memory"
    fit = int(memory / _WORKER)
    if memory < 0.5 * _GIB:
        return Check("cores, memory", "fail", told, "a run takes up to 0.8 GiB in one process; take a larger machine", _MACHINE)
    if fit < count:
        return Check("cores, memory", "warn", told, f"a worker takes up to 0.8 GiB: use --workers {max(fit, 1)}")
    if 0 < files < 256:
        return Check("cores, memory", "warn", f"{told}; {files} open files at most", "ulimit -n 1024")
    return Check("cores, memory", "ok", told)


def _memory() -> int:
    """Bytes of memory that this process and its workers may use: the machine's, or the smaller limit of its group or of itself."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(path).read_text("ascii")))
        except (OSError, ValueError):
            continue
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min([*limits, *([own] if own != resource.RLIM_INFINITY else [])])


def space(name: str, folder: Path, elsewhere: str) -> Check:
    """Free bytes and file entries of a file system."""
    free, entries = shutil.disk_usage(folder).free, os.statvfs(folder)
    told, do = f"{free / _GIB:,.1f} GiB free in {folder}", f"make room; `sanitize explain` says how much a run needs; {elsewhere}"
    if free < 64 * _MIB:
        return Check(name, "fail", told, do, _MACHINE)
    if entries.f_files and entries.f_favail < 1_000:
        return Check(name, "warn", f"{told}, and room for {entries.f_favail} more files", f"take away files; {elsewhere}")
    return Check(name, "warn" if free < _GIB else "ok", told, do if free < _GIB else "")


def workers() -> Check:
    """Two spawned processes that answer."""
    from sanitize.engines.local import Local

    with tempfile.TemporaryDirectory(prefix="sanitize-doctor-") as spill:
        engine = Local(workers=2, spill=Path(spill))
        try:
            answered = {done.result for done in engine.map_shards(_process, [0, 1])}
        except (OSError, SanitizeError, RuntimeError) as error:
            do = 'use --workers 1; from Python, call it in a file under `if __name__ == "__main__":`'
            return Check("workers", "fail", f"cannot be started ({type(error).__name__})", do, _MACHINE)
        finally:
            engine.close()
    if os.getpid() in answered:
        return Check("workers", "fail", "the work stayed in this process", "this is a bug of ours; use --workers 1", _OURS)
    return Check("workers", "ok", "spawned, and they answer")


def _process(_task: int) -> int:
    return os.getpid()


# ---- the file system -------------------------------------------------------------------------------------------------------------


def file_system(here: Path) -> Check:
    """Its kind, as far as the system tells."""
    kind = _kind_of(here)
    if kind in _NETWORK:
        do = "let one machine at a time run in it, or put WORK on a local disk with --work"
        return Check("file system", "warn", f"{kind}, shared over a network: locks may not hold between machines", do)
    return Check("file system", "ok", kind or "unknown")


def _kind_of(here: Path) -> str:
    """The type of the file system in which a folder lies, from /proc/mounts; "" where there is no such list."""
    try:
        lines = Path("/proc/mounts").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    found = ("", "")
    for line in lines:
        _, place, kind, *_ = line.split(" ")
        place = place.encode().decode("unicode_escape")
        # of two on one place, the later one lies on top
        if len(place) >= len(found[0]) and here.resolve().is_relative_to(place):
            found = (place, kind)
    return found[1]


def modes(here: Path) -> Check:
    """Whether a private folder and a private file stay private."""
    folder, file = here / "private", here / "private" / "key"
    folder.mkdir(mode=0o700)
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    found = [stat.S_IMODE(place.stat().st_mode) for place in (folder, file)]
    file.chmod(0o640)
    found.append(stat.S_IMODE(file.stat().st_mode))
    told = ", ".join(f"{mode:04o}" for mode in found)
    if found == [0o700, 0o600, 0o640]:
        return Check("modes", "ok", "private folders and files stay private")
    do = "others could read the key and the raw values: put WORK on a file system that keeps modes, with --work"
    return Check("modes", "fail", f"0700, 0600, 0640 were asked for, and {told} is there", do, _MACHINE)


def renames(here: Path) -> Check:
    """Whether a file takes another's name in one step, two folders exchange theirs, and files are linked."""
    from sanitize.storage.publication import _exchange as exchange  # what a publication really does

    one, other = here / "one", here / "other"
    one.write_text("new", "ascii")
    other.write_text("old", "ascii")
    (here / "a" / "new").mkdir(parents=True)
    (here / "b" / "old").mkdir(parents=True)
    try:
        os.replace(one, other)
        (here / "b" / "old").rename(here / "b" / "moved")
        good = other.read_text("ascii") == "new" and not one.exists() and (here / "b" / "moved").is_dir()
    except OSError:
        good = False
    if not good:
        return Check(
            "renames", "fail", "a file does not take the name of another", "take a local disk; nothing can be published here", _MACHINE
        )
    exchanged = exchange(here / "a", here / "b") and (here / "a" / "moved").is_dir() and (here / "b" / "new").is_dir()
    try:
        os.link(other, here / "linked")
        linked = True
    except OSError:
        linked = False
    told = f"files in one step; folders {'exchange' if exchanged else 'do not exchange'}; {'hard links' if linked else 'no hard links'}"
    if exchanged and linked:
        return Check("renames", "ok", told)
    do = [] if exchanged else ["with --replace the old OUT is away for a moment"]
    do += [] if linked else ["shards are copied, so OUT takes its size twice"]
    return Check("renames", "warn", told, "; ".join(do))


def syncs(here: Path) -> Check:
    """Whether files and folders can be brought to the disk, and how long that takes."""
    from sanitize.storage.corpus import fsync

    times = []
    try:
        for number in range(5):
            file = here / f"sync-{number}"
            file.write_bytes(bytes(4096))
            began = time.perf_counter()
            fsync(file)
            fsync(here)
            times.append(1000 * (time.perf_counter() - began))
    except OSError as error:
        do = "take a local disk: after a loss of power a record here could be there without its file"
        return Check("fsync", "fail", f"not possible ({type(error).__name__})", do, _MACHINE)
    return Check("fsync", "ok", f"files and folders, {sorted(times)[2]:.1f} ms")


# ---- the main job ----------------------------------------------------------------------------------------------------------------


def self_test(here: Path) -> Iterator[Check]:
    """A small corpus sanitized without a break, and again by a process that is killed on the way and resumed: the same bytes?

    The process holds WORK when it is killed, so the lock is tried with it.
    """
    import pyarrow.parquet as pq

    from sanitize.cli.demo import mails
    from sanitize.errors import Locked
    from sanitize.storage.locks import locked

    pq.write_table(mails(_MAILS, 1), here / "mails.parquet", row_group_size=_ROWS)
    whole, out, work = here / "whole", here / "out", here / "out.private"
    code = "import sys; from sanitize.cli.doctor import halting; halting(sys.argv[1])"
    try:
        _sanitize(here, whole)
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", code, str(here)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            try:
                halfway = process.stdout.readline() == b"halfway\n"
                held = False
                if halfway:
                    try:
                        with locked(work):
                            pass
                    except Locked:
                        held = True
            finally:
                process.send_signal(signal.SIGKILL)
        if not halfway:
            do = "try `sanitize demo`, which says more"
            yield Check("self-test", "fail", f"a second process cannot do the work (exit code {process.returncode})", do, _MACHINE)
            return
        with locked(work):
            pass  # the lock of a killed process is nobody's
        do = "let only one run at a time work in a folder here, or put WORK on a local disk with --work"
        yield (
            Check("locks", "ok", "held against others, free after a kill")
            if held
            else Check("locks", "fail", "two processes hold the same lock", do, _MACHINE)
        )
        early = out.exists()
        _sanitize(here, out)
    except SanitizeError as error:
        yield Check("self-test", "fail", f"{type(error).__name__}: {error}", "mend this first; no run would come further", error.exit_code)
        return
    if early or _contents(out) != _contents(whole):
        do = "please report this with the lines above; they hold no data"
        yield Check("self-test", "fail", "a killed and resumed run gave other bytes", do, _OURS)
        return
    yield Check("self-test", "ok", f"{_MAILS} invented mails; killed halfway and resumed to the same bytes")


def _sanitize(here: Path, out: Path, progress: Progress = silent) -> None:
    from sanitize.pipeline.index_build import Settings
    from sanitize.pipeline.run import run

    run([here / "mails.parquet"], out, "rmft", settings=Settings(seed=1, workers=1, rows_per_shard=_ROWS, progress=progress))


def halting(folder: str) -> None:
    """Sanitize the mails of the self-test up to the second task of `apply`; say so, and wait to be killed."""

    def progress(step: Step) -> None:
        if (step.stage, step.done) == ("apply", 2):
            sys.stdout.write("halfway\n")
            sys.stdout.flush()
            sys.stdin.read()  # ends when the parent does
            os._exit(1)

    _sanitize(Path(folder), Path(folder) / "out", progress)


def _contents(folder: Path) -> dict[str, str]:
    """The hash of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
