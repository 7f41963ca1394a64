"""Fixtures for the reliability tests: a corpus in which every token is a canary, commands over it in separate processes, and the checks
after each.

However a run ends, the checks are the same: OUT is absent, old or complete; WORK contains only known files; no canary appears in messages;
and the same command, run again, ends with the bytes of an undisturbed run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns
from sanitize.storage.corpus import Corpus

CANARY = re.compile(r"canary|212[-.) ]*555[-. ]*01|c2FuYXJ5|Y2FuYXJ5", re.IGNORECASE)  # the last two: its base64
ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS, PER_SHARD, SEED = 60, 25, 1

# all that may lie in WORK between two commands; README and the design say what each is
PLACES = re.compile(
    r"""\.gitignore | run\.lock | index\.json | documents/(quarantined/)?\d{5}\.parquet
    | tasks/(read|detect)/\d{5}\.json | tasks/read/(quarantined(-\d{4})?|check-\d{5}-\d{5})\.json | tasks/count/value_counts\.json
    | tasks/second_round/(\d{5}|input(-\d{4})?)\.json | first_round/(occurrences|partial_counts|skipped|links)/\d{5}\.parquet
    | first_round/entities(-\d{4})?\.parquet | vault/first_round/(values/\d{5}|known_terms(-\d{4})?)\.parquet
    | tables/(occurrences|partial_counts|document_ids|skipped)/\d{5}\.parquet | tables/value_counts/all\.parquet
    | vault/key/key | vault/values/\d{5}\.parquet | quarantine/(read|detect)/\d{5}\.parquet
    | vault/tombstones/\d{5}\.json | receipts/\d{5}\.json | replay\.json
     | fetched/\d+-\d{5}/.+ | tasks/fetch/\d{5}\.json | tasks/fetched\.json | remote/owner | remote/[0-9a-f]{16}/(data/)?[A-Za-z0-9._-]+
     | published/[0-9a-f]{32}\.json | labels/sample\.jsonl | runs/[0-9a-f]{16}/(plan\.json | counts(-\d{4})?/[a-z0-9_-]+\.parquet
       | selected/(occurrences|skipped|value_ids)/\d{5}\.parquet
       | tasks/((select|rewrite|replacement_ids)-\d{5}|counts(-\d{4})?|forbidden_values|blacklist|pass-[a-z0-9-]+)\.json
       | tasks/pack-[a-z.]+-\d{5}\.json
       | (shards|edits|kept|rows|surrogate_ids|replacement_ids|ledger|draws|vault/(labels|blacklist))/\d{5}\.parquet
       | sweep/(recheck-)?\d{5}\.parquet
       | packed/[a-z.]+/\d{5}[a-z.]+ | drops/\d{5}\.parquet | corpus_passes/[a-z0-9_/-]+\.parquet)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Said:
    """Exit code and all output of a command."""

    code: int
    out: str
    err: str


def heard(said: str) -> list[str]:
    return [said[max(0, found.start() - 30) : found.end() + 10] for found in CANARY.finditer(said)]


def tree(folder: Path) -> str:
    """One hash of all files of a folder, including their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    told = [(path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def line(number: int) -> dict[str, Any]:
    address = f"canary{number:05d}@canaryhost{number:05d}.example.com"
    return {
        "text": f"Canaryword{number:05d} wrote {address}\ncall 212-555-01{number % 100:02d} canarytail{number:05d} {address}",
        "subject": f"Canarysubject{number:05d} canary{number + 50000:05d}@example.com",
        "user_id": f"canary{number + 70000:05d}@example.com",
        "n": number,
    }


def corpus(folder: Path, documents: int) -> list[Path]:
    """Half of it JSON lines, which are decoded into WORK, half Parquet, which is read in place."""
    rows = [line(number) for number in range(documents)]
    half = documents // 2
    (folder / "in.a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:half]))
    pq.write_table(pa.Table.from_pylist(rows[half:]), folder / "in.b.parquet")
    return [folder / "in.a.jsonl", folder / "in.b.parquet"]


@dataclass
class House:
    """A folder with a corpus, and the two versions of OUT that runs over it make: `old` by the plan redact, `new` by rmft."""

    here: Path
    inputs: list[Path]
    wanted: dict[str, str]  # version -> its tree hash
    old: Path | None = None
    told: list[object] = field(default_factory=lambda: ["--seed", SEED, "--rows-per-shard", PER_SHARD, "--replace"])
    forked: Callable[..., Any] | None = None  # starts the command without its imports

    @property
    def out(self) -> Path:
        return self.here / "out"

    @property
    def work(self) -> Path:
        return self.here / "out.private"

    def words(self, *more: object, workers: int = 1) -> list[str]:
        told = [*self.inputs, "-o", self.out, *self.told, "--workers", workers, *more]
        return [sys.executable, "-m", "sanitize", "run", *map(str, told)]

    def start(self, *more: object, workers: int = 1, env: dict[str, str] | None = None) -> Any:
        """Start the command as the leader of a session of its own."""
        words = self.words(*more, workers=workers)
        told = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        if self.forked is not None and words[1:3] == ["-m", "sanitize"] and "LD_PRELOAD" not in told:
            return self.forked(words[3:], self.here, told)
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.here, start_new_session=True, env=told
        )

    def ended(self, process: Any) -> Said:
        """Wait for a command and return its result; checks that its output has no canary and that none of its processes is left."""
        out, err = process.communicate(timeout=120)
        assert heard(out + err) == []
        assert "Traceback" not in err, err
        until = time.monotonic() + 20
        while left := of_session(process.pid):
            assert time.monotonic() < until, f"still there: {left}"
            time.sleep(0.02)
        return Said(process.returncode, out, err)

    def command(self, *more: object, workers: int = 1, **env: str) -> Said:
        return self.ended(self.start(*more, workers=workers, env=env))

    def again(self) -> dict[str, Any]:
        """Run the same command in this process to its end; OUT must then be the expected one."""
        told = Settings(columns=Columns(), seed=SEED, workers=1, rows_per_shard=PER_SHARD, replace=True)
        summary = run(self.inputs, self.out, load_plan("rmft"), None, told)
        assert tree(self.out) == self.wanted["new"]
        self.clean()
        return summary

    def put_old(self) -> None:
        """Put an earlier version in OUT, built elsewhere with another plan."""
        assert self.old is not None
        shutil.copytree(self.old, self.out)

    def state(self) -> str:
        """The state of OUT as a reader sees it: absent, old or new, and complete."""
        if not self.out.exists():
            return "absent"
        Corpus.open(self.out).check()
        found = tree(self.out)
        assert found in self.wanted.values()
        return "new" if found == self.wanted["new"] else "old"

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch OUT all the time: it is never incomplete."""
        done, trouble = threading.Event(), []

        def watch() -> None:
            while not done.is_set():
                try:
                    # read through one handle: a folder that was swapped away under a reader may be on its way out
                    handle = os.open(self.out, os.O_RDONLY)
                except FileNotFoundError:
                    continue
                try:
                    names = sorted(os.listdir(handle))
                    if os.path.samestat(os.fstat(handle), os.stat(self.out)) and names != [
                        "README.md",
                        "data",
                        "manifest.json",
                        "report.html",
                    ]:
                        trouble.append(names)
                except FileNotFoundError:
                    pass
                finally:
                    os.close(handle)
                time.sleep(0.001)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert trouble == []

    def clean(self) -> None:
        """After a command that ended by itself: no files beside OUT, only known files in WORK, all of them private, none with a canary
        in messages."""
        names = {path.name for path in self.here.iterdir()} - {path.name for path in self.inputs} - {"shim.so", "shim.log"}
        assert names <= {"out", "out.private"}, names
        self.silent()
        if not self.work.exists():
            return
        for path in self.work.rglob("*"):
            place = path.relative_to(self.work).as_posix()
            mode = stat.S_IMODE(path.stat().st_mode)
            if path.is_dir():
                assert mode & 0o077 == 0, f"{place}: {mode:04o}"
                continue
            assert PLACES.fullmatch(place), f"{place} has no place in WORK"
            # what is published has the mode of the user's own files, under either of its two names
            assert mode & 0o077 == 0 or "/shards/" in place, f"{place}: {mode:04o}"

    def silent(self) -> None:
        """No canary in what is published besides the kept text, nor in a record, description or lock of WORK."""
        for path in self.here.rglob("*"):
            if path.is_file() and path.suffix != ".parquet" and path not in self.inputs:
                assert heard(path.read_bytes().decode("latin-1")) == [], path


def of_session(leader: int) -> list[int]:
    """The processes of a session that still exist (Linux); zombies do not count."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, _, _, session = entry.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(entry.parent.name))
    return found


@pytest.fixture(scope="session")
def places() -> re.Pattern[str]:
    """All paths that may exist in WORK between two commands."""
    return PLACES


@pytest.fixture(scope="session")
def hash_of_tree() -> Callable[[Path], str]:
    """One hash of all files of a folder."""
    return tree


Build = Callable[[int, str], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The OUT of an undisturbed run of a plan over this many documents; built once for each."""
    made: dict[tuple[int, str], Path] = {}

    def one(documents: int, plan: str) -> Path:
        if (documents, plan) not in made:
            folder = tmp_path_factory.mktemp("undisturbed")
            told = Settings(seed=SEED, workers=1, rows_per_shard=PER_SHARD)
            run(corpus(folder, documents), folder / "out", load_plan(plan), folder / "work", told)
            made[documents, plan] = folder / "out"
        return made[documents, plan]

    return one


@pytest.fixture()
def starter(request: pytest.FixtureRequest, start_forked_command: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """How commands are started: the long tests start a new interpreter each time, as a user does."""
    return None if request.node.get_closest_marker("soak") else start_forked_command


@pytest.fixture()
def house(tmp_path: Path, build: Build, starter: Callable[..., Any] | None) -> House:
    old = build(DOCUMENTS, "redact")
    wanted = {"old": tree(old), "new": tree(build(DOCUMENTS, "rmft"))}
    return House(tmp_path, corpus(tmp_path, DOCUMENTS), wanted, old, forked=starter)


@pytest.fixture()
def large(tmp_path: Path, build: Build, starter: Callable[..., Any] | None) -> House:
    """The same with 600 documents in 24 tasks: long enough to be stopped in the middle of each stage."""
    return House(tmp_path, corpus(tmp_path, 600), {"new": tree(build(600, "rmft"))}, forked=starter)


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library that makes file system calls fail."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("the failing calls are made by a library that is compiled for Linux")
    made = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", made, source, "-ldl"], check=True)
    return made


@pytest.fixture()
def calls(shim: Path) -> Callable[..., list[list[str]]]:
    """Run a command under the shim; returns the calls it made on files below its folder."""

    def command(house: Any, said: list[Any], **env: str) -> list[list[str]]:
        log = house.here / "shim.log"
        log.unlink(missing_ok=True)
        said.append(house.command(LD_PRELOAD=str(shim), SHIM_UNDER=str(house.here), SHIM_LOG=str(log), **env))
        return [line.split("\t") for line in log.read_text().splitlines()]

    return command
