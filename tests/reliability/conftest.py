"""Fixtures for the reliability tests: a corpus in which every token is a canary, commands over it
in separate processes, and the checks after each.

However a run ends, the checks are the same: OUT is absent, old or complete; WORK contains only
known files; no canary appears in messages; and the same command, run again, ends with the bytes of
an undisturbed run.
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

from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus
from tests.support import find_canaries

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS, PER_SHARD, SEED = 44, 25, 1

# all files that may exist in WORK between two commands; the README describes each
WORK_PATHS = re.compile(
    r"""\.gitignore | run\.lock | index\.json | documents/(quarantined/)?\d{5}\.parquet
    | tasks/(read|detect|column_cells|columns)/\d{5}\.json | tasks/read/(quarantined(-\d{4})?|check-\d{5}-\d{5})\.json | tasks/count/value_counts\.json
    | tasks/second_round/(\d{5}|input(-\d{4})?)\.json | first_round/(occurrences|partial_counts|skipped|links)/\d{5}\.parquet
    | first_round/entities(-\d{4})?\.parquet | vault/first_round/(values/\d{5}|known_terms(-\d{4})?)\.parquet
    | tables/(occurrences|partial_counts|document_ids|skipped)/\d{5}\.parquet | tables/value_counts/all\.parquet
    | vault/key/key | vault/values/\d{5}\.parquet | quarantine/(read|detect)/\d{5}\.parquet
    | vault/tombstones/\d{5}\.json | receipts/\d{5}\.json | (replay|prior_runs)\.json
     | fetched/\d+-\d{5}/.+ | tasks/fetch/\d{5}\.json | tasks/fetched\.json | remote/owner | remote/[0-9a-f]{16}/(data/)?[A-Za-z0-9._-]+
     | published/[0-9a-f]{32}\.json | labels/sample\.jsonl | runs/[0-9a-f]{16}/(plan\.json | counts(-\d{4})?/[a-z0-9_-]+\.parquet
       | selected/(occurrences|skipped|value_ids)/\d{5}\.parquet
       | tasks/((select|rewrite|replacement_forms|column_candidates|column_values)-\d{5}|counts(-\d{4})?)\.json
       | tasks/(erased_values|blacklist|pass-[a-z0-9-]+)\.json
       | tasks/pack-[a-z.]+-\d{5}\.json
       | (shards|edits|kept|rows|surrogate_forms|replacement_forms|ledger|draws)/\d{5}\.parquet
       | vault/(labels|blacklist|column_values|column_candidates)/\d{5}\.parquet
       | vault/published_key
       | sweep/(recheck-)?\d{5}\.parquet | erasure/values\.parquet
       | packed/[a-z.]+/\d{5}[a-z.]+ | drops/\d{5}\.parquet | corpus_passes/[a-z0-9_/-]+\.parquet)""",  # noqa: E501
    re.VERBOSE,
)


@dataclass(frozen=True)
class CommandResult:
    """Exit code and all output of a command."""

    code: int
    out: str
    err: str


def compute_tree_hash(folder: Path) -> str:
    """One hash of all files of a folder, including their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file_hashes = [
        (path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in files
    ]
    return hashlib.sha256(json.dumps(file_hashes).encode()).hexdigest()


def make_row(number: int) -> dict[str, Any]:
    address = f"canary{number:05d}@canaryhost{number:05d}.example.com"
    return {
        "text": (
            f"Canaryword{number:05d} wrote {address}\ncall 646-555-01{number % 100:02d}"
            f" canarytail{number:05d} {address}"
        ),
        "subject": f"Canarysubject{number:05d} canary{number + 50000:05d}@example.com",
        "user_id": f"canary{number + 70000:05d}@example.com",
        "n": number,
    }


def write_corpus(folder: Path, documents: int) -> list[Path]:
    """Half of it JSON lines, which are decoded into WORK, half Parquet, which is read in place."""
    rows = [make_row(number) for number in range(documents)]
    half = documents // 2
    (folder / "in.a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:half]))
    pq.write_table(pa.Table.from_pylist(rows[half:]), folder / "in.b.parquet")
    return [folder / "in.a.jsonl", folder / "in.b.parquet"]


@dataclass
class RunHarness:
    """A folder with a corpus, and the two versions of OUT that runs over it write: `old` by the
    plan redact, `new` by rmft."""

    folder: Path
    inputs: list[Path]
    expected_hashes: dict[str, str]  # version -> its tree hash
    old_output: Path | None = None
    options: list[object] = field(
        default_factory=lambda: ["--seed", SEED, "--rows-per-shard", PER_SHARD, "--replace"]
    )
    start_forked: Callable[..., Any] | None = None  # starts the command without its imports

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def work(self) -> Path:
        return self.folder / "out.private"

    def command_line(self, *more: object, workers: int = 1) -> list[str]:
        plan = [] if "--plan" in [*self.options, *more] else ["--plan", "rmft"]
        arguments = [
            *self.inputs,
            "-o",
            self.out,
            *plan,
            *self.options,
            "--workers",
            workers,
            *more,
        ]
        return [sys.executable, "-m", "sanitize", "run", *map(str, arguments)]

    def start(self, *more: object, workers: int = 1, env: dict[str, str] | None = None) -> Any:
        """Start the command as the leader of a session of its own."""
        arguments = self.command_line(*more, workers=workers)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        if self.start_forked is not None and arguments[1:3] == ["-m", "sanitize"]:
            return self.start_forked(arguments[3:], self.folder, environment)
        return subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            start_new_session=True,
            env=environment,
        )

    def wait_for_end(self, process: Any) -> CommandResult:
        """Wait for a command and return its result; checks that its output has no canary and that
        none of its processes is left."""
        out, err = process.communicate(timeout=120)
        assert find_canaries(out + err) == []
        assert "Traceback" not in err, err
        deadline = time.monotonic() + 20
        while remaining := find_session_processes(process.pid):
            assert time.monotonic() < deadline, f"processes left: {remaining}"
            time.sleep(0.02)
        return CommandResult(process.returncode, out, err)

    def run_command(self, *more: object, workers: int = 1, **env: str) -> CommandResult:
        return self.wait_for_end(self.start(*more, workers=workers, env=env))

    def rerun(self) -> RunResult:
        """Run the same command in this process to its end; OUT must then be the expected one."""
        settings = Settings(seed=SEED, workers=1, rows_per_shard=PER_SHARD, replace=True)
        summary = run_with_settings(self.inputs, self.out, load_plan("rmft"), None, settings)
        assert compute_tree_hash(self.out) == self.expected_hashes["new"]
        self.check_files()
        return summary

    def place_old_output(self) -> None:
        """Put an earlier version in OUT, built by another plan."""
        assert self.old_output is not None
        shutil.copytree(self.old_output, self.out)

    def output_state(self) -> str:
        """The state of OUT as a reader sees it: absent, old or new, and complete."""
        if not self.out.exists():
            return "absent"
        Corpus.open(self.out).check()
        tree_hash = compute_tree_hash(self.out)
        assert tree_hash in self.expected_hashes.values()
        return "new" if tree_hash == self.expected_hashes["new"] else "old"

    @contextlib.contextmanager
    def watch_output(self) -> Iterator[None]:
        """Watch OUT all the time: it is never incomplete."""
        finished, unexpected_listings = threading.Event(), []

        def watch() -> None:
            while not finished.is_set():
                try:
                    # read through one handle: a folder that was swapped out may be deleted while it
                    # is read
                    handle = os.open(self.out, os.O_RDONLY)
                except FileNotFoundError:
                    time.sleep(0.001)
                    continue
                try:
                    names = sorted(os.listdir(handle))
                    if os.path.samestat(os.fstat(handle), os.stat(self.out)) and names != [
                        "README.md",
                        "SHA256SUMS",
                        "data",
                        "manifest.json",
                        "report.html",
                    ]:
                        unexpected_listings.append(names)
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
            finished.set()
            thread.join()
        assert unexpected_listings == []

    def check_files(self) -> None:
        """Check after a command that was not killed: no files next to OUT, only known files in
        WORK, all private, no canary in messages."""
        names = (
            {path.name for path in self.folder.iterdir()}
            - {path.name for path in self.inputs}
            - {"shim.so", "shim.log"}
        )
        assert names <= {"out", "out.private"}, names
        self.check_no_canaries()
        if not self.work.exists():
            return
        for path in self.work.rglob("*"):
            relative_path = path.relative_to(self.work).as_posix()
            mode = stat.S_IMODE(path.stat().st_mode)
            if path.is_dir():
                assert mode & 0o077 == 0, f"{relative_path}: {mode:04o}"
                continue
            assert WORK_PATHS.fullmatch(relative_path), (
                f"{relative_path} is not a known file of WORK"
            )
            # a published file has the mode of the user's own files; it has a name in WORK and one
            # in OUT
            assert mode & 0o077 == 0 or "/shards/" in relative_path, f"{relative_path}: {mode:04o}"

    def check_no_canaries(self) -> None:
        """No canary in what is published besides the kept text, nor in WORK outside of its tables
        and search terms."""
        for path in self.folder.rglob("*"):
            if (
                path.is_file()
                and path.suffix not in (".parquet", ".arrow")
                and path not in self.inputs
            ):
                assert find_canaries(path.read_bytes().decode("latin-1")) == [], path


def find_session_processes(leader: int) -> list[int]:
    """The processes of a session that still exist (Linux); zombies do not count."""
    process_ids = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, _, _, session = entry.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                process_ids.append(int(entry.parent.name))
    return process_ids


@pytest.fixture(scope="session")
def work_paths() -> re.Pattern[str]:
    """All paths that may exist in WORK between two commands."""
    return WORK_PATHS


@pytest.fixture(scope="session")
def hash_tree() -> Callable[[Path], str]:
    """One hash of all files of a folder."""
    return compute_tree_hash


BuildOutput = Callable[[int, str], Path]


@pytest.fixture(scope="session")
def build_output(tmp_path_factory: pytest.TempPathFactory) -> BuildOutput:
    """The OUT of an undisturbed run of a plan over this many documents; built once for each."""
    outputs: dict[tuple[int, str], Path] = {}

    def build_once(documents: int, plan: str) -> Path:
        if (documents, plan) not in outputs:
            folder = tmp_path_factory.mktemp("undisturbed")
            settings = Settings(seed=SEED, workers=1, rows_per_shard=PER_SHARD)
            run_with_settings(
                write_corpus(folder, documents),
                folder / "out",
                load_plan(plan),
                folder / "work",
                settings,
            )
            outputs[documents, plan] = folder / "out"
        return outputs[documents, plan]

    return build_once


@pytest.fixture()
def command_starter(
    request: pytest.FixtureRequest, start_forked_command: Callable[..., Any] | None
) -> Callable[..., Any] | None:
    """The function that starts commands; None for tests marked `new_interpreter`, which start them
    like a user."""
    return None if request.node.get_closest_marker("new_interpreter") else start_forked_command


@pytest.fixture()
def harness(
    tmp_path: Path, build_output: BuildOutput, command_starter: Callable[..., Any] | None
) -> RunHarness:
    old_output = build_output(DOCUMENTS, "redact")
    expected_hashes = {
        "old": compute_tree_hash(old_output),
        "new": compute_tree_hash(build_output(DOCUMENTS, "rmft")),
    }
    return RunHarness(
        tmp_path,
        write_corpus(tmp_path, DOCUMENTS),
        expected_hashes,
        old_output,
        start_forked=command_starter,
    )


@pytest.fixture()
def large_harness(
    tmp_path: Path, build_output: BuildOutput, command_starter: Callable[..., Any] | None
) -> RunHarness:
    """A harness with 600 documents in 24 tasks: long enough to be stopped in the middle of each
    stage."""
    return RunHarness(
        tmp_path,
        write_corpus(tmp_path, 600),
        {"new": compute_tree_hash(build_output(600, "rmft"))},
        start_forked=command_starter,
    )


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library that makes file system calls fail."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("failing calls need a library that is compiled for Linux")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source, "-ldl"],
        check=True,
    )
    return library


@pytest.fixture(scope="session")
def start_shimmed_command(
    shim: Path, command_server: Callable[..., Any]
) -> Iterator[Callable[..., Any]]:
    """Starts a command that has loaded the shim, as a fork of a server of its own."""
    with command_server(LD_PRELOAD=str(shim)) as start_command:
        yield start_command


@pytest.fixture()
def trace_calls(
    shim: Path, start_shimmed_command: Callable[..., Any]
) -> Callable[..., list[list[str]]]:
    """Run a command under the shim; returns the calls it made on files below its folder."""

    def run_traced(harness: Any, results: list[Any], **env: str) -> list[list[str]]:
        log_file = harness.folder / "shim.log"
        log_file.unlink(missing_ok=True)
        usual_starter, harness.start_forked = harness.start_forked, start_shimmed_command
        results.append(
            harness.run_command(
                LD_PRELOAD=str(shim), SHIM_UNDER=str(harness.folder), SHIM_LOG=str(log_file), **env
            )
        )
        harness.start_forked = usual_starter
        return [line.split("\t") for line in log_file.read_text().splitlines()]

    return run_traced
