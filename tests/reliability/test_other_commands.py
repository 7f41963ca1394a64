"""The guarantees of a run hold for `stream`, `label`, `subject` and `replay`: after a disk error, a
signal or a crash the command ends with one clear message, the output is absent, old or complete,
and the same command resumes to the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sanitize.core.failpoints import FAILPOINTS
from sanitize.inspection.annotation import sample_for_labels
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.erasure.subject_request import subject
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.streaming.stream import run_stream
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.files import read_json

ENOSPC, EIO, EMFILE = 28, 5, 24
FAILING_CALL_PARTS = 3  # parameters among which a soak test divides the calls of a command
COMMANDS = ("stream", "label", "subject", "replay")
# these publish as `run` does, of which test_disk_errors.py fails every call
PUBLISHING_COMMANDS = ("subject", "replay")
PERSON = "canary00003@canaryhost00003.example.com"


def make_settings() -> Settings:
    return Settings(seed=1, workers=1, rows_per_shard=25, replace=True)


def hash_path(path: Path) -> str:
    """One hash of a file, or of all files of a folder."""
    if not path.exists():
        return "absent"
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    file_hashes = [
        (file.relative_to(path).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest())
        for file in files
    ]
    return hashlib.sha256(json.dumps(file_hashes).encode()).hexdigest()


@dataclass
class CommandCase:
    """A command over a corpus: its output, its arguments, and its undisturbed result."""

    harness: Any
    name: str
    output: Path  # the file or folder that is compared
    rerun: Callable[[], object]  # runs the same command in this process

    def __post_init__(self) -> None:
        # a copy of the folder before the command; restored before each attempt
        self.snapshot = self.harness.folder.with_name(self.harness.folder.name + ".before")
        shutil.copytree(self.harness.folder, self.snapshot, symlinks=True)
        self.old_hash = hash_path(self.output)
        self.rerun()
        self.new_hash = hash_path(self.output)
        assert self.new_hash != self.old_hash
        self.restore()

    def restore(self) -> None:
        for path in self.harness.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.snapshot, self.harness.folder, symlinks=True, dirs_exist_ok=True)

    def output_state(self) -> str:
        """Absent, old or new; a stream's file may also be a prefix of the final one, as it is
        truncated to the acknowledged records."""
        output_hash = hash_path(self.output)
        if self.name == "stream" and output_hash != self.new_hash:
            return "old"
        assert output_hash in (
            self.old_hash,
            self.new_hash,
        ), f"{self.output} is neither the old nor the new output"
        return "new" if output_hash == self.new_hash else "old"

    def check_resume(self) -> None:
        """The same command ends with the bytes of an undisturbed one, and no unknown file is
        left."""
        if self.name != "label" or self.output_state() == "old":
            # an existing sample is never overwritten
            self.rerun()
        assert self.output_state() == "new"
        remaining_names = {path.name for path in self.harness.folder.iterdir()} - {"shim.log"}
        assert remaining_names == {path.name for path in self.snapshot.iterdir()} | {
            *self.new_names
        }, remaining_names
        self.harness.check_work_paths()

    @property
    def new_names(self) -> tuple[str, ...]:
        return {
            "stream": ("out.jsonl", "state"),
            "label": (),
            "subject": ("ids.txt",),
            "replay": ("again", "again.private"),
        }[self.name]


@pytest.fixture()
def command_case(
    request: pytest.FixtureRequest, harness: Any, work_paths: Any
) -> Iterator[CommandCase]:
    name, folder = request.param, harness.folder
    arguments: dict[str, list[Any]] = {
        "stream": [
            *harness.inputs[:1],
            "-o",
            folder / "out.jsonl",
            "--plan",
            "rmft",
            "--state",
            folder / "state",
            "--seed",
            1,
            "--batch",
            7,
        ],
        "label": [harness.work, "--n", 12],
        "subject": [
            harness.work,
            "--match",
            folder / "who.txt",
            "--erase",
            "--documents",
            folder / "ids.txt",
            "--seed",
            1,
            "--workers",
            1,
        ],
        "replay": [
            folder / "manifest.json",
            *harness.inputs,
            "-o",
            folder / "again",
            "--workers",
            1,
        ],
    }
    if name == "replay":
        assert harness.old_output is not None
        shutil.copy(harness.old_output / "manifest.json", folder / "manifest.json")
    elif name != "stream":
        run_with_settings(harness.inputs, harness.out, load_plan("rmft"), None, make_settings())
        (folder / "who.txt").write_text(PERSON + "\n")
    shutil.rmtree(folder / "cache", ignore_errors=True)
    reruns: dict[str, Callable[[], object]] = {
        "stream": lambda: run_stream(
            harness.inputs[:1],
            folder / "out.jsonl",
            load_plan("rmft"),
            folder / "state",
            Settings(seed=1, batch=7),
        ),
        "label": lambda: sample_for_labels(harness.work, n=12),
        "subject": lambda: subject(
            harness.work,
            folder / "who.txt",
            erase=True,
            documents=folder / "ids.txt",
            seed=1,
            workers=1,
        ),
        "replay": lambda: replay(
            folder / "manifest.json", harness.inputs, folder / "again", workers=1
        ),
    }
    outputs = {
        "stream": folder / "out.jsonl",
        "label": harness.work / "labels" / "sample.jsonl",
        "subject": harness.out,
        "replay": folder / "again",
    }
    harness.command_line = lambda *more, workers=1: [
        sys.executable,
        "-m",
        "sanitize",
        name,
        *map(str, arguments[name]),
    ]

    def check_work_paths() -> None:
        for folder_of_work in (harness.work, folder / "again.private"):
            for file in folder_of_work.rglob("*") if folder_of_work.exists() else ():
                relative_path = file.relative_to(folder_of_work).as_posix()
                assert file.is_dir() or work_paths.fullmatch(relative_path), (
                    f"{relative_path} is not a known file of WORK"
                )

    harness.check_work_paths = check_work_paths
    case = CommandCase(harness, name, outputs[name], reruns[name])
    yield case
    shutil.rmtree(case.snapshot)


TraceCalls = Callable[..., list[list[str]]]


def run_with_failing_call(
    command_case: CommandCase,
    trace_calls: TraceCalls,
    number: int,
    code: int,
    permanent: bool = False,
) -> bool:
    """One command whose n-th call fails, and the checks after it; False if it has no such call."""
    command_case.restore()
    results: list[Any] = []
    system_calls = trace_calls(
        command_case.harness,
        results,
        SHIM_FAIL=str(number),
        SHIM_ERRNO=str(code),
        **({"SHIM_STAYS": "1"} if permanent else {}),
    )
    failed_calls = [call for call in system_calls if call[4]]
    context = (
        f"call {number} of {len(system_calls)}: {failed_calls[0][1:4] if failed_calls else ''},"
        f" error {code}: {results[0]}"
    )
    if results[0].code:
        assert failed_calls and results[0].code == 7, context
        assert (
            len(re.findall(r"^error: ", results[0].err, re.M)) == 1
            and " MB are free there" in results[0].err
            and "Free some disk space" in results[0].err
        ), context
        assert results[0].out == "" or command_case.name == "stream", context
        command_case.output_state()
    else:
        assert command_case.output_state() == "new", context
    command_case.check_resume()
    return bool(failed_calls)


# one call of each command, while it writes its output
FAILING_CALLS = [
    ("stream", 31, ENOSPC),
    ("label", 3, ENOSPC),
    ("subject", 40, ENOSPC),
    ("replay", 200, EIO),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command_case", "number", "code"), FAILING_CALLS, indirect=["command_case"], ids=COMMANDS
)
def test_a_failing_call_is_one_error_and_the_command_resumes(
    command_case: CommandCase, trace_calls: TraceCalls, number: int, code: int
) -> None:
    assert run_with_failing_call(command_case, trace_calls, number, code)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(FAILING_CALL_PARTS))
@pytest.mark.parametrize(
    ("code", "permanent"), [(ENOSPC, False), (ENOSPC, True), (EIO, False), (EMFILE, False)]
)
@pytest.mark.parametrize("command_case", COMMANDS, indirect=True)
def test_every_failing_call_is_one_error_and_the_command_resumes(
    command_case: CommandCase,
    trace_calls: TraceCalls,
    record_property: Any,
    code: int,
    permanent: bool,
    part: int,
) -> None:
    """Every call of a command fails once, until a command has no further call that could fail; of
    commands that publish, the first and the last of the same calls on each file. Each part takes
    every n-th call. SOAK_STRIDE=n takes every n-th of these."""
    step, is_publishing = (
        FAILING_CALL_PARTS * int(os.environ.get("SOAK_STRIDE", "1")),
        command_case.name in PUBLISHING_COMMANDS,
    )
    numbers: Sequence[int] = range(1 + part, 1_000_000, step)
    if is_publishing:
        numbers = find_first_and_last_calls(trace_calls(command_case.harness, []))[part::step]
    failed_count = sum(
        1
        for _ in itertools.takewhile(
            lambda n: run_with_failing_call(command_case, trace_calls, n, code, permanent), numbers
        )
    )
    record_property("failing calls", failed_count)
    assert failed_count == len(numbers) if is_publishing else numbers[failed_count] > 5


def find_first_and_last_calls(system_calls: list[list[str]]) -> list[int]:
    """The numbers of the first and the last call of each operation on each file, ascending."""
    numbers: dict[tuple[str, ...], list[int]] = {}
    for number, *operation_and_path, _ in system_calls:
        numbers.setdefault(tuple(operation_and_path), []).append(int(number))
    return sorted({one for found in numbers.values() for one in (found[0], found[-1])})


# ---- crashes ----


def run_with_crash(command_case: CommandCase, point: str, occurrence: int) -> bool:
    """One command that dies at a failpoint, and the checks after it; False if it does not reach the
    failpoint."""
    command_case.restore()
    result = command_case.harness.run_command(SANITIZE_CRASH_AT=f"{point}:{occurrence}")
    assert result.code in (0, 137), result
    assert result.code == 137 or command_case.output_state() == "new"
    command_case.output_state()
    command_case.check_resume()
    return bool(result.code)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command_case", "point"),
    [
        ("stream", "stream:state_written"),
        ("label", "lines:temp_written"),
        ("subject", "swap:complete"),
        ("replay", "publish:folder_complete"),
    ],
    indirect=["command_case"],
    ids=COMMANDS,
)
def test_a_crashed_command_resumes(command_case: CommandCase, point: str) -> None:
    assert run_with_crash(command_case, point, 1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("command_case", COMMANDS, indirect=True)
def test_a_crash_at_every_failpoint_is_resumed(
    command_case: CommandCase, record_property: Any
) -> None:
    """Each time a failpoint is reached. SOAK_STRIDE=n takes every n-th."""
    reached: list[str] = []
    for point in FAILPOINTS:
        occurrence = 1
        while run_with_crash(command_case, point, occurrence):
            reached.append(point)
            occurrence += int(os.environ.get("SOAK_STRIDE", "1"))
    expected_failpoints = {
        "stream": (
            {
                "workspace:created",
                "stream:output_written",
                "stream:state_written",
                "stream:committed",
                "file:temp_written",
            }
            - {"workspace:created"}
        ),
        "label": {"lines:temp_written"},
        "subject": {
            "lines:temp_written",
            "file:temp_written",
            "task:record_written",
            "publish:folder_complete",
            "swap:complete",
        },
        "replay": {
            "file:temp_written",
            "task:record_written",
            "detect:index_complete",
            "publish:folder_complete",
            "swap:complete",
        },
    }[command_case.name]
    assert expected_failpoints <= {*reached}
    record_property("crashes", len(reached))


@pytest.mark.soak
@pytest.mark.new_interpreter
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("command_case", COMMANDS, indirect=True)
def test_a_command_killed_at_any_moment_resumes(
    command_case: CommandCase, record_property: Any, part: int
) -> None:
    """SIGKILL to the group, also while the command resumes, up to three times in a row: 100 of them
    for each command. SOAK_KILLS=n divides all numbers of kills by 300 / n."""
    rng = random.Random(f"{command_case.name} {part}")
    start_time = time.monotonic()
    command_case.restore()
    assert command_case.harness.run_command().code == 0
    duration, kill_count, kill_target = (
        time.monotonic() - start_time,
        0,
        int(os.environ.get("SOAK_KILLS", "300")) // 12,
    )
    while kill_count < kill_target:
        command_case.restore()
        for _ in range(rng.randint(1, 3)):
            process = command_case.harness.start()
            # the first third is the start of Python
            time.sleep(rng.uniform(duration / 3, duration * 1.1))
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            kill_count += process.returncode == -signal.SIGKILL
            command_case.output_state()
        command_case.check_resume()
    record_property("kills", kill_count)


def run_with_kill_at_call(command_case: CommandCase, trace_calls: TraceCalls, number: int) -> bool:
    """One command that is killed before its n-th call that changes files, and the checks after it;
    False if it has no such call."""
    command_case.restore()
    results: list[Any] = []
    trace_calls(command_case.harness, results, SHIM_FAIL=str(number), SHIM_KILL="1")
    assert results[0].code in (0, -signal.SIGKILL), results[0]
    assert results[0].code or command_case.output_state() == "new"
    command_case.output_state()
    command_case.check_resume()
    return bool(results[0].code)


@pytest.mark.slow
@pytest.mark.parametrize("command_case", PUBLISHING_COMMANDS, indirect=True)
def test_a_command_killed_before_its_last_calls_resumes(
    command_case: CommandCase, trace_calls: TraceCalls
) -> None:
    """The calls that exchange the output, and those before and after them."""
    system_calls = trace_calls(command_case.harness, [])
    (exchange,) = (int(call[0]) for call in system_calls if is_publication(command_case, call))
    for number in range(exchange - 1, exchange + 3):
        assert run_with_kill_at_call(command_case, trace_calls, number)


def is_publication(command_case: CommandCase, call: list[str]) -> bool:
    """Whether a call gives the output its name."""
    return call[1] in ("exchange", "rename") and str(command_case.output) in call[2:4]


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(FAILING_CALL_PARTS))
@pytest.mark.parametrize("command_case", PUBLISHING_COMMANDS, indirect=True)
def test_a_command_killed_before_any_call_resumes(
    command_case: CommandCase, trace_calls: TraceCalls, record_property: Any, part: int
) -> None:
    """Before the first and the last of the same calls on each file. SOAK_STRIDE=n takes every n-th
    of these."""
    step = FAILING_CALL_PARTS * int(os.environ.get("SOAK_STRIDE", "1"))
    numbers = find_first_and_last_calls(trace_calls(command_case.harness, []))[part::step]
    for number in numbers:
        assert run_with_kill_at_call(command_case, trace_calls, number)
    record_property("kills", len(numbers))


# ---- signals ----

# a path that exists once the command works
START_MARKERS = {
    "stream": "state/state.json",
    "label": "out.private",
    "subject": "out.private/spill/subject",
    "replay": "again.private/run.lock",
}


def handles_stop_signals(process_id: int) -> bool:
    """True once a process has a handler for SIGTERM, which Python has none for by itself."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
        caught = next(line for line in lines if line.startswith("SigCgt:"))
        return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))
    return True  # it has ended, or the system has no such file


def run_with_signal(
    command_case: CommandCase, number: signal.Signals, group: bool, delay: float = 0.0
) -> bool:
    """One command that gets a signal when it has started, or some seconds later; False if it had
    ended before."""
    command_case.restore()
    process = command_case.harness.start()
    deadline = time.monotonic() + 100
    while (
        not list(command_case.harness.folder.glob(START_MARKERS[command_case.name]))
        and process.poll() is None
    ):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    if command_case.name == "label":  # no file shows when a sample is being drawn
        while not handles_stop_signals(process.pid) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        delay += 0.1
    time.sleep(delay)
    start_time = time.monotonic()
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        (os.killpg if group else os.kill)(process.pid, number)
    result = command_case.harness.wait_for_end(process)
    assert time.monotonic() - start_time < 10  # 5 on an idle machine
    # -number: it had finished, and the signal arrived while the interpreter exited
    ended = result.code == 0 or (
        result.code == -number and (result.out or "are acknowledged" in result.err)
    )
    assert ended or result.code == 128 + number, result
    if not ended:
        assert (
            "stopped; the same command resumes from here" in result.err
            and "error: " not in result.err
        )
    command_case.output_state()
    command_case.check_resume()
    return not ended


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command_case", "number"),
    list(
        zip(COMMANDS, (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGTERM), strict=True)
    ),
    indirect=["command_case"],
    ids=COMMANDS,
)
def test_a_signal_stops_the_command_cleanly(
    command_case: CommandCase, number: signal.Signals
) -> None:
    # these may have ended
    assert run_with_signal(command_case, number, group=True) or command_case.name in (
        "label",
        "stream",
    )


@pytest.mark.soak
@pytest.mark.new_interpreter
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command_case", COMMANDS, indirect=True)
def test_a_signal_at_many_moments_stops_the_command_cleanly(
    command_case: CommandCase, number: signal.Signals
) -> None:
    for moment in range(10):
        run_with_signal(command_case, number, group=bool(moment % 2), delay=0.3 * moment)


@pytest.mark.slow
def test_a_waiting_stream_is_stopped_by_a_signal(tmp_path: Path) -> None:
    """A stream that waits for the next record reacts to a signal at once, and the records sent
    before are acknowledged."""
    rows = [json.dumps({"text": f"mail w{number}@example.com"}) + "\n" for number in range(6)]
    arguments = [
        sys.executable,
        "-m",
        "sanitize",
        "stream",
        "--state",
        str(tmp_path / "state"),
        "--seed",
        "1",
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    output_lines = []
    for batch in (rows[:3], rows[3:]):
        process = subprocess.Popen(
            arguments,
            cwd=tmp_path,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("".join(batch))
        process.stdin.flush()
        output_lines += [process.stdout.readline() for _ in batch]
        deadline = time.monotonic() + 20
        # the records are acknowledged shortly after their output
        while (read_json(tmp_path / "state" / "state.json") or {}).get("records", 0) < len(
            output_lines
        ) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        start_time = time.monotonic()
        _, err = process.communicate(timeout=60)
        assert process.returncode == 143 and "stopped" in err and time.monotonic() - start_time < 10
    assert [json.loads(line).keys() for line in output_lines] == [{"text"}] * 6
    assert (read_json(tmp_path / "state" / "state.json") or {})["records"] == 6
