"""A stream that is stopped at any instant resumes after the acknowledged records: none is lost, and none is written twice with another
replacement."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.errors import InputRefused, Locked, OutputBroken, UsageError
from sanitize.inspection.annotation import label
from sanitize.inspection.sql_api import status, top
from sanitize.pipeline.erasure.subject import subject
from sanitize.pipeline.run import run
from sanitize.pipeline.streaming.batch_processor import StreamPriorValues
from sanitize.pipeline.streaming.component_log import ComponentLog
from sanitize.pipeline.streaming.records import DictBatch
from sanitize.pipeline.streaming.sources_and_sinks import JsonLinesFileSink, ParquetFolderSink
from sanitize.pipeline.streaming.stream import StreamProcessor, StreamSettings, run_stream
from sanitize.pipeline.streaming.value_log import SURROGATE_FLAG, VALUE_FLAG, ValueLog, get_counts
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns

ROOT = Path(__file__).resolve().parents[3]
ROWS = [{"text": f"kim.day{number % 7}@example.com and kim.day{number}@example.org, 212-555-01{number % 100:02d}"} for number in range(90)]
PLAN = load_plan("rmft")
POINTS = [
    "stream:output_written:1",
    "stream:output_written:2",
    "stream:state_written:2",
    "json:temp_written:2",
    "stream:committed:1",
    "stream:committed:3",
]


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    returncode: int
    stdout: bytes
    stderr: bytes


Start = Callable[..., Any]


@pytest.fixture()
def start(forked: Start | None) -> Start:
    """Start the program in a process of its own."""

    def one(folder: Path, *words: str, said: bytes = b"", crash: str = "") -> Any:
        there = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "SANITIZE_CRASH_AT": crash}
        line = ["stream", "--seed", "1", "--state", "state", *words]
        if forked is not None:
            return forked(line, folder, there, said)
        with tempfile.TemporaryFile() as stdin:
            stdin.write(said)
            stdin.seek(0)
            line = [sys.executable, "-m", "sanitize", *line]
            return subprocess.Popen(line, cwd=folder, env=there, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return one


@pytest.fixture()
def command(start: Start) -> Callable[..., Done]:
    """Run the program to its end, with small batches."""

    def one(folder: Path, *words: str, said: bytes = b"", crash: str = "") -> Done:
        process = start(folder, "--batch", "10", "--rows-per-shard", "25", *words, said=said, crash=crash)
        out, err = process.communicate(timeout=120)
        return Done(process.returncode, out.encode(), err.encode())

    return one


def goes_on(folder: Path, out: str) -> dict[str, Any]:
    """The result of the same command, run in this process."""
    with contextlib.chdir(folder):
        return run_stream(
            [Path("in.jsonl")], Path(out), PLAN, Path("state"), StreamSettings(seed=1, max_batch_records=10, rows_per_shard=25)
        )


def lines(rows: list[dict[str, str]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@functools.cache
def undisturbed() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "in.jsonl").write_bytes(lines(ROWS))
        run_stream([Path(name) / "in.jsonl"], Path(name) / "out.jsonl", PLAN, Path(name) / "state", StreamSettings(seed=1))
        return (Path(name) / "out.jsonl").read_bytes()


@pytest.mark.parametrize("point", POINTS)
def test_a_file_is_whole_after_a_crash(point: str, tmp_path: Path, command: Callable[..., Done]) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(ROWS))
    assert command(tmp_path, "in.jsonl", "-o", "out.jsonl", crash=point).returncode == 137
    if point == POINTS[0]:  # one of them by the command itself
        done = command(tmp_path, "in.jsonl", "-o", "out.jsonl")
        assert done.returncode == 0, done.stderr
        assert b"90 are acknowledged" in done.stderr
    else:
        assert goes_on(tmp_path, "out.jsonl")["position"] == 90
    assert (tmp_path / "out.jsonl").read_bytes() == undisturbed()


@pytest.mark.parametrize("point", ["stream:output_written:2", "stream:state_written:1", "json:temp_written:2", "stream:committed:1"])
def test_a_folder_is_whole_after_a_crash(point: str, tmp_path: Path, command: Callable[..., Done]) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(ROWS))
    assert command(tmp_path, "in.jsonl", "-o", "out", crash=point).returncode == 137
    goes_on(tmp_path, "out")
    texts = [text for part in sorted((tmp_path / "out").iterdir()) for text in pq.read_table(part).column("text").to_pylist()]
    assert texts == [json.loads(line)["text"] for line in undisturbed().splitlines()]


def test_a_state_of_another_version_is_refused(tmp_path: Path, command: Callable[..., Done]) -> None:
    """A state of version 1 had other keys: its counts and quarantine must not be read as if there were none."""
    assert command(tmp_path, said=lines(ROWS[:5])).returncode == 0
    path = tmp_path / "state" / "state.json"
    before = {**json.loads(path.read_text()), "version": 1}
    path.write_text(json.dumps(before))
    refused = command(tmp_path, said=lines(ROWS[5:]))
    assert refused.returncode == 2 and json.loads(path.read_text()) == before
    assert b"its state has version 1" in refused.stderr and b"new --state" in refused.stderr


@pytest.mark.parametrize("point", ["stream:output_written:2", "stream:state_written:3", "stream:committed:2"])
def test_what_was_sent_and_not_acknowledged_comes_again_as_it_was(point: str, tmp_path: Path, command: Callable[..., Done]) -> None:
    first = command(tmp_path, said=lines(ROWS), crash=point)
    assert first.returncode == 137
    said = json.loads((tmp_path / "state" / "state.json").read_text())["records"]
    second = command(tmp_path, said=lines(ROWS[said:]))
    assert second.returncode == 0
    sent, again, expected = first.stdout.splitlines(), second.stdout.splitlines(), undisturbed().splitlines()
    assert sent == expected[: len(sent)] and again == expected[said:] and len(sent) >= said


def test_killed_at_any_instant(tmp_path: Path, start: Start) -> None:
    rows = ROWS * 20
    (tmp_path / "in.jsonl").write_bytes(lines(rows))
    words = ["in.jsonl", "-o", "out.jsonl", "--batch", "40"]
    killed = 0
    for wait in (0.15, 0.4, 0.05):
        process = start(tmp_path, *words)
        # it has begun when the state is held
        until = time.monotonic() + 60
        before = _size(tmp_path / "out.jsonl")
        while _size(tmp_path / "out.jsonl") <= before and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed >= 2
    process = start(tmp_path, *words)
    process.communicate(timeout=120)
    assert process.returncode == 0
    (tmp_path / "all").mkdir()
    run_stream([tmp_path / "in.jsonl"], tmp_path / "all" / "out.jsonl", PLAN, tmp_path / "all.state", StreamSettings(seed=1))
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "all" / "out.jsonl").read_bytes()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_what_may_lie_in_a_state(tmp_path: Path, command: Callable[..., Done]) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(ROWS) + b"broken\n")
    for point in POINTS[:3]:
        command(tmp_path, "in.jsonl", "-o", "out.jsonl", crash=point)
    goes_on(tmp_path, "out.jsonl")
    names = {path.relative_to(tmp_path / "state").as_posix() for path in (tmp_path / "state").rglob("*") if path.is_file()}
    runs = {name for name in names if name.startswith("value_log/")}
    assert names - runs == {".gitignore", "run.lock", "state.json", "component_pools.jsonl", "quarantine/records.jsonl"}
    assert runs == {f"value_log/{one['name']}" for one in json.loads((tmp_path / "state" / "state.json").read_text())["value_files"]}
    for path in (tmp_path / "state").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert "@" not in (tmp_path / "state" / "state.json").read_text()


def test_a_state_is_held_by_one(tmp_path: Path) -> None:
    with (
        StreamProcessor(PLAN, tmp_path / "state", StreamSettings(seed=1)),
        pytest.raises(Locked),
        StreamProcessor(PLAN, tmp_path / "state", StreamSettings(seed=1)),
    ):
        pass


def test_what_was_changed_by_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(ROWS))
    told = ([tmp_path / "in.jsonl"], tmp_path / "out.jsonl", PLAN, tmp_path / "state", StreamSettings(seed=1))
    run_stream(*told)
    kept = (tmp_path / "out.jsonl").read_bytes()
    (tmp_path / "out.jsonl").write_bytes(kept[:-10])
    with pytest.raises(OutputBroken, match="bytes"):
        run_stream(*told)
    (tmp_path / "out.jsonl").write_bytes(kept)
    (tmp_path / "in.jsonl").write_bytes(lines(ROWS[:3]))
    with pytest.raises(InputRefused, match="shorter"):
        run_stream(*told)
    (run,) = (tmp_path / "state" / "value_log").iterdir()
    data = bytearray(run.read_bytes())
    data[5] ^= 1
    run.write_bytes(data)
    with pytest.raises(OutputBroken, match="state"):
        run_stream(*told)
    with pytest.raises(UsageError, match="lie inside"):
        run_stream([tmp_path], None, PLAN, tmp_path / "state", StreamSettings(seed=1))


@pytest.mark.parametrize("sink", [JsonLinesFileSink, ParquetFolderSink])
def test_a_place_that_is_not_ours_is_left_alone(sink: type, tmp_path: Path) -> None:
    place = tmp_path / "there"
    if sink is ParquetFolderSink:
        place.mkdir()
        (place / "mine").write_text("x")
    else:
        place.write_text("x")
    with pytest.raises(UsageError, match="already|holds files"):
        sink(place, {})
    assert (place / "mine" if sink is ParquetFolderSink else place).read_text() == "x"


MISTAKES: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "no input": ("missing.jsonl", "out.jsonl", {}),
    "nothing to read": ("empty", "out", {}),
    "what a stream does not read": ("in.csv", "out", {}),
    "no text in it": ("bytes.parquet", None, {}),
    "no such key": ("in.jsonl", "out", {"seed": None, "key_file": Path("key")}),
    "an ending nobody writes": ("in.jsonl", "out.csv", {}),
    "a file for a folder": ("in.jsonl", "file", {}),
    "a folder for a file": ("in.jsonl", "folder.jsonl", {}),
    "no main text": ("in.jsonl", "out", {"columns": Columns(policies={"text": "drop"})}),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_leaves_nothing(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "folder.jsonl"):
        Path(folder).mkdir()
    Path("in.jsonl").write_bytes(lines(ROWS[:2]))
    Path("in.csv").write_text("text\na\n")
    Path("file").touch()
    pq.write_table(pa.table({"text": [b"a"]}), "bytes.parquet")
    before = sorted(tmp_path.rglob("*"))
    name, out, more = MISTAKES[case]
    with pytest.raises((UsageError, InputRefused)):
        run_stream([Path(name)], Path(out) if out else None, PLAN, Path("state"), StreamSettings(**{"seed": 1, **more}))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_column_has_one_type_in_a_folder(tmp_path: Path) -> None:
    one = ParquetFolderSink(tmp_path / "out", {})
    one.put(DictBatch([{"text": "a", "n": 1}]))
    said = one.commit()
    one.put(DictBatch([{"text": "b", "n": None}]))
    one.put(DictBatch([{"text": "c", "more": "x"}]))
    said = one.commit()
    assert said["parts"] == 2
    found = pa.concat_tables([pq.read_table(path) for path in sorted((tmp_path / "out").iterdir())], promote_options="default")
    assert found.column("n").to_pylist() == [1, None, None] and found.column("more").to_pylist() == [None, None, "x"]
    one.put(DictBatch([{"text": "d", "n": "x"}]))
    with pytest.raises(InputRefused, match="one type"):
        one.commit()


def test_columns_keep_their_order_after_a_stop(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines([{"text": row["text"], "no": str(no), "a": "b"} for no, row in enumerate(ROWS)]))
    made = []
    for stops in (False, True):
        here = (tmp_path / f"out{stops}", PLAN, tmp_path / f"state{stops}", StreamSettings(seed=1, max_batch_records=10, rows_per_shard=25))
        with pytest.MonkeyPatch.context() as patch:
            if stops:
                patch.setattr(StreamProcessor, "commit", _twice(StreamProcessor.commit))
                with pytest.raises(KeyboardInterrupt):
                    run_stream([tmp_path / "in.jsonl"], *here)
        run_stream([tmp_path / "in.jsonl"], *here)
        made.append({path.name: path.read_bytes() for path in here[0].iterdir()})
    assert made[0] == made[1] and len(made[0]) == 3
    assert pq.read_schema(here[0] / "part-00002.parquet").names == ["text", "no", "a"]


def _twice(commit: Callable[[StreamProcessor], None]) -> Callable[[StreamProcessor], None]:
    done = [0]

    def one(stream: StreamProcessor) -> None:
        commit(stream)
        done[0] += 1
        if done[0] == 2:  # the place is ours, and one file is there
            raise KeyboardInterrupt

    return one


def test_a_file_has_its_rows_however_large_the_batches(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(ROWS))
    run_stream([tmp_path / "in.jsonl"], tmp_path / "out", PLAN, tmp_path / "state", StreamSettings(seed=1, rows_per_shard=40))
    assert [pq.read_metadata(path).num_rows for path in sorted((tmp_path / "out").iterdir())] == [40, 40, 10]


# ---- what was seen ----

IDS = st.integers(0, 40).map(lambda number: number * (1 << 57) + number)
TAGS = st.sampled_from([int(VALUE_FLAG), int(VALUE_FLAG) | 1, int(SURROGATE_FLAG), int(VALUE_FLAG) | 2])


@settings(max_examples=30)
@given(st.lists(st.tuples(st.lists(st.tuples(IDS, TAGS), max_size=12), st.booleans(), st.booleans()), max_size=8), st.integers(1, 3))
def test_ids_are_remembered(steps: list[tuple[list[tuple[int, int]], bool, bool]], most: int) -> None:
    """Compared with a dictionary: additions, commits, and reopening from the last commit."""
    with tempfile.TemporaryDirectory() as name:
        seen, said = ValueLog(Path(name), (), most), []
        known: dict[int, tuple[int, int]] = {}
        committed: dict[int, tuple[int, int]] = {}
        for additions, commit, reopen in steps:
            seen.add(np.array([one for one, _ in additions], np.int64), np.array([tag for _, tag in additions], np.uint32))
            for one, tag in additions:
                flags, times = known.get(one, (0, 0))
                known[one] = (flags | tag & 0xC0000000, min(times + (tag & 3), most))
            if commit:
                said, committed = seen.commit(), dict(known)
                sizes = [entry["ids"] for entry in said]
                assert all(later * 2 <= earlier for earlier, later in zip(sizes, sizes[1:], strict=False))
            if reopen:
                seen, known = ValueLog(Path(name), said, most), dict(committed)
                assert {path.name for path in Path(name).iterdir()} == {entry["name"] for entry in said}
            ids = np.array([number * (1 << 57) + number for number in range(41)], np.int64)
            tags = seen.get_tags(ids)
            expected = [known.get(int(one), (0, 0)) for one in ids]
            assert [(int(tag) & 0xC0000000, int(times)) for tag, times in zip(tags, get_counts(tags), strict=True)] == expected


def test_many_ids_stay_in_few_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    seen, every = ValueLog(tmp_path), []
    for _ in range(40):
        ids = rng.integers(0, 1 << 63, 3_000, np.int64)
        every.append(ids)
        seen.add(ids, np.full(len(ids), SURROGATE_FLAG, np.uint32))
        said = seen.commit()
        seen.delete_stale_files()
    assert len(said) <= 8 and len(list(tmp_path.iterdir())) == len(said)
    again = ValueLog(tmp_path, said)
    assert (again.get_tags(np.concatenate(every)) == SURROGATE_FLAG).all()
    assert not again.get_tags(rng.integers(0, 1 << 63, 3_000, np.int64)).any()


def test_parts_are_remembered_in_order(tmp_path: Path) -> None:
    values = pa.array(["kim.day@example.com", "lou.day@example.org", "solo@example.com"], pa.large_string())
    stores = ComponentLog(tmp_path / "stores.jsonl", 0)
    stores.add_components("EMAIL_ADDRESS", values, np.array([3, 5, 5]))
    stores.discard_unconfirmed()
    assert not len(stores.get_pool("EMAIL_ADDRESS", "first")[0])
    stores.add_components("EMAIL_ADDRESS", values, np.array([3, 5, 5]))
    stores.confirm()
    length = stores.commit()
    stores.add_components("EMAIL_ADDRESS", pa.array(["max.roe@example.net"], pa.large_string()), np.array([9]))
    stores.confirm()
    stores.commit()
    again = ComponentLog(tmp_path / "stores.jsonl", length)  # the second commit was never acknowledged
    for part, expected in {"first": ["kim", "lou"], "last": ["day"], "local": ["solo"], "host": ["example.com", "example.org"]}.items():
        texts, since = again.get_pool("EMAIL_ADDRESS", part)
        assert texts.to_pylist() == expected
        assert since.tolist() == [3, 5][: len(expected)] if part != "local" else since.tolist() == [5]


def test_the_past_of_a_batch(tmp_path: Path) -> None:
    seen = ValueLog(tmp_path)
    seen.add(np.array([1, 2], np.int64), np.array([VALUE_FLAG | 1, SURROGATE_FLAG], np.uint32))
    past = StreamPriorValues(seen, None)
    past.begin_batch(np.array([5, 9], np.int64), np.array([10, 12], np.int64))
    ids, docs = np.array([1, 2, 5, 5, 9, 7], np.int64), np.array([10, 10, 9, 10, 11, 99], np.int64)
    assert past.is_taken(ids, docs).tolist() == [True, True, False, True, False, False]
    assert past.was_generated(ids).tolist() == [False, True, False, False, False, False]


def test_a_state_and_the_private_folder_of_a_run_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text(json.dumps({"text": "bob.mann@example.com"}) + "\n")
    run_stream([Path("in.jsonl")], Path("out.jsonl"), PLAN, Path("state"), StreamSettings(seed=1))
    run("in.jsonl", "out", "rmft", settings=Settings(seed=1, workers=1))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="out.private: is the private folder of a run; use another --state"):
        run_stream([Path("in.jsonl")], Path("more.jsonl"), PLAN, Path("out.private"), StreamSettings(seed=1))
    with pytest.raises(UsageError, match="state: is the state of a stream; use another --work"):
        run("in.jsonl", "more", "rmft", "state", settings=Settings(seed=1, workers=1))
    for ask in (top, status, label, functools.partial(subject, match=["bob.mann@example.com"])):
        with pytest.raises(UsageError, match="state: the state of a stream, which keeps no tables"):
            ask("state")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_state_of_version_1_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text(json.dumps({"text": "bob.mann@example.com"}) + "\n")
    run_stream([Path("in.jsonl")], Path("out.jsonl"), PLAN, Path("state"), StreamSettings(seed=1))
    Path("state/value_log").rename("state/seen")
    Path("state/component_pools.jsonl").rename("state/stores.jsonl")
    Path("state/state.json").write_text(json.dumps({**json.loads(Path("state/state.json").read_text()), "version": 1}))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="another version of the state; use the same one, or a new --state"):
        run_stream([Path("in.jsonl")], Path("out.jsonl"), PLAN, Path("state"), StreamSettings(seed=1))
    with pytest.raises(UsageError, match="state: is the state of a stream; use another --work"):
        run("in.jsonl", "more", "rmft", "state", settings=Settings(seed=1, workers=1))
    with pytest.raises(UsageError, match="state: the state of a stream, which keeps no tables"):
        top("state")
    assert sorted(tmp_path.rglob("*")) == before


def test_an_output_lies_apart_without_a_state_too(tmp_path: Path) -> None:
    """Otherwise the next stream over the folder would read what this one wrote."""
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(UsageError, match="lie inside each other"):
        run_stream([tmp_path], tmp_path / "out.jsonl", PLAN, None, StreamSettings(seed=1))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
