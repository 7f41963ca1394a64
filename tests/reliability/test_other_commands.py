"""The guarantees of a run hold for `stream`, `label`, `subject` and `replay`: wherever the disk fails, a signal arrives or the process
dies, there is one clear end, the output is absent, old or complete, and the same command resumes to the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sanitize.core.failpoints import FAILPOINTS
from sanitize.inspection.annotation import label
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.erasure.subject import subject
from sanitize.pipeline.run import run
from sanitize.pipeline.streaming.stream import StreamSettings, run_stream
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns
from sanitize.storage.files import read_json

FULL, BROKEN, TOO_MANY = 28, 5, 24  # ENOSPC, EIO, EMFILE
VERBS = ("stream", "label", "subject", "replay")
PERSON = "canary00003@canaryhost00003.example.com"


def told() -> Settings:
    return Settings(columns=Columns(), seed=1, workers=1, rows_per_shard=25, replace=True)


def state_of(place: Path) -> str:
    """One hash of a file, or of all files of a folder."""
    if not place.exists():
        return "absent"
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    told = [(path.relative_to(place).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


@dataclass
class Verb:
    """A command over a corpus: its output, its arguments, and its undisturbed result."""

    house: Any
    name: str
    made: Path  # what it is judged by
    again: Callable[[], object]  # the same command in this process

    def __post_init__(self) -> None:
        # all of the folder as it is before the command; put back before each attempt
        self.before = self.house.here.with_name(self.house.here.name + ".before")
        shutil.copytree(self.house.here, self.before, symlinks=True)
        self.old = state_of(self.made)
        self.again()
        self.new = state_of(self.made)
        assert self.new != self.old
        self.restore()

    def restore(self) -> None:
        for path in self.house.here.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.before, self.house.here, symlinks=True, dirs_exist_ok=True)

    def state(self) -> str:
        """Absent, old or new; a stream's file may also be a prefix of the final one, as it is truncated to the acknowledged records."""
        found = state_of(self.made)
        if self.name == "stream" and found != self.new:
            return "old"
        assert found in (self.old, self.new), f"{self.made} is neither what it was nor what it is to be"
        return "new" if found == self.new else "old"

    def goes_on(self) -> None:
        """The same command ends with the bytes of an undisturbed one, and no unknown file is left."""
        if self.name != "label" or self.state() == "old":  # a sample that is there is never written over
            self.again()
        assert self.state() == "new"
        here = {path.name for path in self.house.here.iterdir()} - {"shim.log"}
        assert here == {path.name for path in self.before.iterdir()} | {*self.names}, here
        self.house.silent_work()

    @property
    def names(self) -> tuple[str, ...]:
        return {
            "stream": ("out.jsonl", "state"),
            "label": (),
            "subject": ("ids.txt",),
            "replay": ("again", "again.private"),
        }[self.name]


@pytest.fixture()
def verb(request: pytest.FixtureRequest, house: Any, places: Any) -> Iterator[Verb]:
    name, here = request.param, house.here
    words: dict[str, list[Any]] = {
        "stream": [*house.inputs[:1], "-o", here / "out.jsonl", "--state", here / "state", "--seed", 1, "--batch", 7],
        "label": [house.work, "--n", 12],
        "subject": [house.work, "--match", here / "who.txt", "--erase", "--documents", here / "ids.txt", "--seed", 1, "--workers", 1],
        "replay": [here / "manifest.json", *house.inputs, "-o", here / "again", "--workers", 1],
    }
    if name == "replay":
        assert house.old is not None
        shutil.copy(house.old / "manifest.json", here / "manifest.json")
    elif name != "stream":
        run(house.inputs, house.out, load_plan("rmft"), None, told())
        (here / "who.txt").write_text(PERSON + "\n")
    shutil.rmtree(here / "cache", ignore_errors=True)
    again: dict[str, Callable[[], object]] = {
        "stream": lambda: run_stream(
            house.inputs[:1], here / "out.jsonl", load_plan("rmft"), here / "state", StreamSettings(seed=1, max_batch_records=7)
        ),
        "label": lambda: label(house.work, n=12),
        "subject": lambda: subject(house.work, here / "who.txt", erase=True, documents=here / "ids.txt", seed=1, workers=1),
        "replay": lambda: replay(here / "manifest.json", house.inputs, here / "again", workers=1),
    }
    made = {
        "stream": here / "out.jsonl",
        "label": house.work / "labels" / "sample.jsonl",
        "subject": house.out,
        "replay": here / "again",
    }
    house.words = lambda *more, workers=1: [sys.executable, "-m", "sanitize", name, *map(str, words[name])]

    def silent_work() -> None:
        for work in (house.work, here / "again.private"):
            for path in work.rglob("*") if work.exists() else ():
                place = path.relative_to(work).as_posix()
                assert path.is_dir() or places.fullmatch(place), f"{place} has no place in WORK"

    house.silent_work = silent_work
    one = Verb(house, name, made[name], again[name])
    yield one
    shutil.rmtree(one.before)


Calls = Callable[..., list[list[str]]]


def failing(verb: Verb, calls: Calls, number: int, code: int, stays: bool = False) -> bool:
    """One command whose n-th call fails, and the checks after it; False if it has no such call."""
    verb.restore()
    said: list[Any] = []
    done = calls(verb.house, said, SHIM_FAIL=str(number), SHIM_ERRNO=str(code), **({"SHIM_STAYS": "1"} if stays else {}))
    failed = [one for one in done if one[4]]
    where = f"call {number} of {len(done)}: {failed[0][1:4] if failed else ''}, error {code}: {said[0]}"
    if said[0].code:
        assert failed and said[0].code == 7, where
        assert said[0].err.count("error: ") == 1 and " MB are free there" in said[0].err and "Free some disk space" in said[0].err, where
        assert said[0].out == "" or verb.name == "stream", where
        verb.state()
    else:
        assert verb.state() == "new", where
    verb.goes_on()
    return bool(failed)


# of the calls of each, one in the middle of what it makes
SOME = [("stream", 31, FULL), ("label", 3, FULL), ("subject", 40, FULL), ("replay", 200, BROKEN)]


@pytest.mark.parametrize(("verb", "number", "code"), SOME, indirect=["verb"], ids=VERBS)
def test_a_call_that_fails(verb: Verb, calls: Calls, number: int, code: int) -> None:
    assert failing(verb, calls, number, code)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("code", "stays"), [(FULL, False), (FULL, True), (BROKEN, False), (TOO_MANY, False)])
@pytest.mark.parametrize("verb", VERBS, indirect=True)
def test_every_call_that_fails(verb: Verb, calls: Calls, code: int, stays: bool) -> None:
    """The first call, the second, ... until a command has no further call that could fail. SOAK_STRIDE=n takes every n-th."""
    number = 1
    while failing(verb, calls, number, code, stays):
        number += int(os.environ.get("SOAK_STRIDE", "1"))
    assert number > 5


# ---- crashes ----


def crashing(verb: Verb, point: str, times: int) -> bool:
    """One command that dies at a failpoint, and the checks after it; False if it does not reach the failpoint."""
    verb.restore()
    said = verb.house.command(SANITIZE_CRASH_AT=f"{point}:{times}")
    assert said.code in (0, 137), said
    assert said.code == 137 or verb.state() == "new"
    verb.state()
    verb.goes_on()
    return bool(said.code)


@pytest.mark.parametrize(
    ("verb", "point"),
    [
        ("stream", "stream:state_written"),
        ("label", "lines:temp_written"),
        ("subject", "swap:complete"),
        ("replay", "publish:folder_complete"),
    ],
    indirect=["verb"],
    ids=VERBS,
)
def test_a_crash(verb: Verb, point: str) -> None:
    assert crashing(verb, point, 1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("verb", VERBS, indirect=True)
def test_a_crash_at_every_point(verb: Verb) -> None:
    """Each time a failpoint is reached. SOAK_STRIDE=n takes every n-th."""
    come = set()
    for point in FAILPOINTS:
        times = 1
        while crashing(verb, point, times):
            come.add(point)
            times += int(os.environ.get("SOAK_STRIDE", "1"))
    wanted = {
        "stream": {"workspace:created", "stream:output_written", "stream:state_written", "stream:committed", "json:temp_written"}
        - {"workspace:created"},
        "label": {"lines:temp_written"},
        "subject": {"lines:temp_written", "json:temp_written", "task:record_written", "publish:folder_complete", "swap:complete"},
        "replay": {"json:temp_written", "task:record_written", "detect:index_complete", "publish:folder_complete", "swap:complete"},
    }[verb.name]
    assert wanted <= come


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("verb", VERBS, indirect=True)
def test_killed_at_any_moment(verb: Verb) -> None:
    """SIGKILL to the group, also while the command resumes, up to three times in a row. SOAK_KILLS=n sets the number of times."""
    draw = random.Random(f"{verb.name}")
    began = time.monotonic()
    verb.restore()
    assert verb.house.command().code == 0
    whole, killed, wanted = time.monotonic() - began, 0, int(os.environ.get("SOAK_KILLS", "300")) // 4
    while killed < wanted:
        verb.restore()
        for _ in range(draw.randint(1, 3)):
            process = verb.house.start()
            time.sleep(draw.uniform(0, whole))
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            killed += process.returncode == -signal.SIGKILL
            verb.state()
        verb.goes_on()


# ---- signals ----

# something that lies in the folder when the command is at work
BEGUN = {"stream": "state/state.json", "label": "out.private", "subject": "out.private/spill/subject", "replay": "again.private/run.lock"}


def stopped(verb: Verb, number: signal.Signals, group: bool, later: float = 0.0) -> bool:
    """One command that gets a signal when it has started, or some seconds later; False if it had ended before."""
    verb.restore()
    process = verb.house.start()
    until = time.monotonic() + 100
    while not list(verb.house.here.glob(BEGUN[verb.name])) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.001)
    if verb.name == "label":  # nothing tells when a sample is being drawn
        later += 0.5 if verb.house.forked is None else 0.1
    time.sleep(later)
    began = time.monotonic()
    with contextlib.suppress(ProcessLookupError):  # it has ended, and nobody waits for it any more
        (os.killpg if group else os.kill)(process.pid, number)
    said = verb.house.ended(process)
    assert time.monotonic() - began < 10  # 5 on a machine that does nothing else
    ended = said.code == 0 or (said.code == -number and said.out)  # it had answered; the signal met the interpreter on its way out
    assert ended or said.code == 128 + number, said
    if not ended:
        assert "stopped; the same command resumes from here" in said.err and "error: " not in said.err
    verb.state()
    verb.goes_on()
    return not ended


@pytest.mark.parametrize(
    ("verb", "number"),
    list(zip(VERBS, (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGTERM), strict=True)),
    indirect=["verb"],
    ids=VERBS,
)
def test_a_signal_stops_in_good_order(verb: Verb, number: signal.Signals) -> None:
    assert stopped(verb, number, group=True) or verb.name in ("label", "stream")  # these may have ended


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", VERBS, indirect=True)
def test_a_signal_at_many_moments(verb: Verb, number: signal.Signals) -> None:
    for place in range(10):
        stopped(verb, number, group=bool(place % 2), later=0.3 * place)


def test_a_stream_that_waits_is_stopped(tmp_path: Path) -> None:
    """A stream that waits for the next record reacts to a signal at once, and the records sent before are acknowledged."""
    rows = [json.dumps({"text": f"mail w{number}@example.com"}) + "\n" for number in range(6)]
    words = [sys.executable, "-m", "sanitize", "stream", "--state", str(tmp_path / "state"), "--seed", "1"]
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    got = []
    for some in (rows[:3], rows[3:]):
        process = subprocess.Popen(
            words, cwd=tmp_path, env=told, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("".join(some))
        process.stdin.flush()
        got += [process.stdout.readline() for _ in some]
        until = time.monotonic() + 20
        # what was sent is acknowledged a moment later
        while (read_json(tmp_path / "state" / "state.json") or {}).get("records", 0) < len(got) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        _, err = process.communicate(timeout=60)
        assert process.returncode == 143 and "stopped" in err and time.monotonic() - began < 10
    assert [json.loads(line).keys() for line in got] == [{"text"}] * 6
    assert (read_json(tmp_path / "state" / "state.json") or {})["records"] == 6
