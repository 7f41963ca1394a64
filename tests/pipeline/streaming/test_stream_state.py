"""A stream that stops at any moment resumes after the acknowledged records: no record is lost, and
no record gets another replacement when it is written again."""

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

from sanitize.editors.synthesis.known_values import FirstForms
from sanitize.errors import InputRefused, Locked, OutputBroken, UsageError
from sanitize.inspection.annotation import sample_for_labels
from sanitize.inspection.sql_api import status, top
from sanitize.pipeline.erasure.subject_request import subject
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.streaming.batch_processor import StreamPriorValues
from sanitize.pipeline.streaming.component_log import ComponentLog
from sanitize.pipeline.streaming.record_batches import DictBatch
from sanitize.pipeline.streaming.sources_and_sinks import JsonLinesFileSink, ParquetFolderSink
from sanitize.pipeline.streaming.stream import StreamProcessor, run_stream
from sanitize.pipeline.streaming.stream_result import StreamResult
from sanitize.pipeline.streaming.value_log import (
    SURROGATE_FLAG,
    SURROGATE_FORM_FLAG,
    VALUE_FLAG,
    ValueLog,
    get_counts,
)
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from tests.support import to_json_lines, write_json_lines

ROOT = Path(__file__).resolve().parents[3]
ROWS = [
    {
        "text": (
            f"kim.day{number % 7}@example.com and kim.day{number}@example.org,"
            f" 212-555-01{number % 100:02d}"
        )
    }
    for number in range(90)
]
PLAN = load_plan("rmft")
CRASH_POINTS = [
    "stream:output_written:1",
    "stream:output_written:2",
    "stream:state_written:2",
    "file:temp_written:2",
    "stream:committed:1",
    "stream:committed:3",
]


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    returncode: int
    stdout: bytes
    stderr: bytes


StartCommand = Callable[..., Any]


@pytest.fixture()
def start(start_forked_command: StartCommand | None) -> StartCommand:
    """Starts the program in a process of its own."""

    def start_command(
        folder: Path, *arguments: str, stdin_bytes: bytes = b"", crash: str = ""
    ) -> Any:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "SANITIZE_CRASH_AT": crash,
        }
        command_line = ["stream", "--plan", "rmft", "--seed", "1", "--state", "state", *arguments]
        if start_forked_command is not None:
            return start_forked_command(command_line, folder, environment, stdin_bytes)
        with tempfile.TemporaryFile() as stdin:
            stdin.write(stdin_bytes)
            stdin.seek(0)
            command_line = [sys.executable, "-m", "sanitize", *command_line]
            return subprocess.Popen(
                command_line,
                cwd=folder,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    return start_command


@pytest.fixture()
def command(start: StartCommand) -> Callable[..., CommandResult]:
    """Runs the program to its end, with small batches."""

    def run_command(
        folder: Path, *arguments: str, stdin_bytes: bytes = b"", crash: str = ""
    ) -> CommandResult:
        process = start(
            folder,
            "--batch",
            "10",
            "--rows-per-shard",
            "25",
            *arguments,
            stdin_bytes=stdin_bytes,
            crash=crash,
        )
        out, err = process.communicate(timeout=120)
        return CommandResult(process.returncode, out.encode(), err.encode())

    return run_command


def resume_in_process(folder: Path, out: str) -> StreamResult:
    """Runs the same command again in this process; returns its summary."""
    with contextlib.chdir(folder):
        return run_stream(
            [Path("in.jsonl")],
            Path(out),
            PLAN,
            Path("state"),
            Settings(seed=1, batch=10, rows_per_shard=25),
        )


@functools.cache
def get_expected_output() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "in.jsonl").write_bytes(to_json_lines(ROWS))
        run_stream(
            [Path(name) / "in.jsonl"],
            Path(name) / "out.jsonl",
            PLAN,
            Path(name) / "state",
            Settings(seed=1),
        )
        return (Path(name) / "out.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("point", CRASH_POINTS)
def test_output_file_is_complete_after_a_crash_and_a_resume(
    point: str, tmp_path: Path, command: Callable[..., CommandResult]
) -> None:
    (tmp_path / "in.jsonl").write_bytes(to_json_lines(ROWS))
    assert command(tmp_path, "in.jsonl", "-o", "out.jsonl", crash=point).returncode == 137
    if point == CRASH_POINTS[0]:  # for one crash point the command itself resumes
        result = command(tmp_path, "in.jsonl", "-o", "out.jsonl")
        assert result.returncode == 0, result.stderr
        assert b"90 are acknowledged" in result.stderr
    else:
        assert resume_in_process(tmp_path, "out.jsonl").position == 90
    assert (tmp_path / "out.jsonl").read_bytes() == get_expected_output()


@pytest.mark.parametrize(
    "point",
    [
        "stream:output_written:2",
        "stream:state_written:1",
        "file:temp_written:2",
        "stream:committed:1",
    ],
)
def test_output_folder_is_complete_after_a_crash_and_a_resume(
    point: str, tmp_path: Path, command: Callable[..., CommandResult]
) -> None:
    (tmp_path / "in.jsonl").write_bytes(to_json_lines(ROWS))
    assert command(tmp_path, "in.jsonl", "-o", "out", crash=point).returncode == 137
    resume_in_process(tmp_path, "out")
    texts = [
        text
        for part in sorted((tmp_path / "out").iterdir())
        for text in pq.read_table(part).column("text").to_pylist()
    ]
    assert texts == [json.loads(line)["text"] for line in get_expected_output().splitlines()]


def test_a_state_of_another_version_is_refused(
    tmp_path: Path, command: Callable[..., CommandResult]
) -> None:
    """A state of version 1 has other keys: its counts and quarantine must not be read as empty."""
    assert command(tmp_path, stdin_bytes=to_json_lines(ROWS[:5])).returncode == 0
    path = tmp_path / "state" / "state.json"
    before = {**json.loads(path.read_text()), "version": 1}
    path.write_text(json.dumps(before))
    result = command(tmp_path, stdin_bytes=to_json_lines(ROWS[5:]))
    assert result.returncode == 2 and json.loads(path.read_text()) == before
    assert b"its state has version 1" in result.stderr and b"new --state" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["stream:output_written:2", "stream:state_written:3", "stream:committed:2"]
)
def test_unacknowledged_records_are_sent_again_with_identical_bytes(
    point: str, tmp_path: Path, command: Callable[..., CommandResult]
) -> None:
    first = command(tmp_path, stdin_bytes=to_json_lines(ROWS), crash=point)
    assert first.returncode == 137
    acknowledged_count = json.loads((tmp_path / "state" / "state.json").read_text())["records"]
    second = command(tmp_path, stdin_bytes=to_json_lines(ROWS[acknowledged_count:]))
    assert second.returncode == 0
    first_lines, second_lines, expected = (
        first.stdout.splitlines(),
        second.stdout.splitlines(),
        get_expected_output().splitlines(),
    )
    assert (
        first_lines == expected[: len(first_lines)]
        and second_lines == expected[acknowledged_count:]
        and len(first_lines) >= acknowledged_count
    )


@pytest.mark.slow
def test_killed_stream_resumes_to_identical_bytes(tmp_path: Path, start: StartCommand) -> None:
    rows = ROWS * 20
    (tmp_path / "in.jsonl").write_bytes(to_json_lines(rows))
    arguments = ["in.jsonl", "-o", "out.jsonl", "--batch", "40"]
    kill_count = 0
    for delay in (0.15, 0.4, 0.05):
        process = start(tmp_path, *arguments)
        # the stream has started when its output grows
        deadline = time.monotonic() + 60
        initial_size = get_file_size(tmp_path / "out.jsonl")
        while (
            get_file_size(tmp_path / "out.jsonl") <= initial_size
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kill_count += process.returncode == -signal.SIGKILL
    assert kill_count >= 2
    process = start(tmp_path, *arguments)
    process.communicate(timeout=120)
    assert process.returncode == 0
    (tmp_path / "all").mkdir()
    run_stream(
        [tmp_path / "in.jsonl"],
        tmp_path / "all" / "out.jsonl",
        PLAN,
        tmp_path / "all.state",
        Settings(seed=1),
    )
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "all" / "out.jsonl").read_bytes()


def get_file_size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.slow
def test_files_of_a_state_are_known_and_private(
    tmp_path: Path, command: Callable[..., CommandResult]
) -> None:
    (tmp_path / "in.jsonl").write_bytes(to_json_lines(ROWS) + b"broken\n")
    for point in CRASH_POINTS[:3]:
        command(tmp_path, "in.jsonl", "-o", "out.jsonl", crash=point)
    resume_in_process(tmp_path, "out.jsonl")
    file_names = {
        path.relative_to(tmp_path / "state").as_posix()
        for path in (tmp_path / "state").rglob("*")
        if path.is_file()
    }
    value_log_names = {name for name in file_names if name.startswith("value_log/")}
    assert file_names - value_log_names == {
        *(
            ".gitignore",
            "run.lock",
            "state.json",
            "component_pools.jsonl",
            "column_values.jsonl",
            "quarantine/records.jsonl",
        )
    }
    assert value_log_names == {
        f"value_log/{value_file['name']}"
        for value_file in json.loads((tmp_path / "state" / "state.json").read_text())["value_files"]
    }
    for path in (tmp_path / "state").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert "@" not in (tmp_path / "state" / "state.json").read_text()


def test_a_state_is_locked_by_one_stream(tmp_path: Path) -> None:
    with (
        StreamProcessor(PLAN, tmp_path / "state", Settings(seed=1)),
        pytest.raises(Locked),
        StreamProcessor(PLAN, tmp_path / "state", Settings(seed=1)),
    ):
        pass


@pytest.mark.parametrize(
    ("out", "sink"), [("out.jsonl", JsonLinesFileSink), ("out", ParquetFolderSink)]
)
def test_an_output_is_locked_by_one_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, sink: Any
) -> None:
    """Two streams with a state each: before the first one's records are acknowledged, its file or
    folder looks unused."""
    (tmp_path / "a.jsonl").write_bytes(to_json_lines(ROWS[:3]))
    (tmp_path / "b.jsonl").write_bytes(to_json_lines(ROWS[3:5]))
    (tmp_path / "link").symlink_to(tmp_path)
    put, others = sink.put, [tmp_path / "link" / out]

    def put_and_start_another(self: Any, batch: Any) -> None:
        put(self, batch)
        if others:
            with pytest.raises(Locked):
                run_stream(
                    [tmp_path / "b.jsonl"],
                    others.pop(),
                    PLAN,
                    tmp_path / "state-b",
                    Settings(seed=1),
                )

    monkeypatch.setattr(sink, "put", put_and_start_another)
    assert (
        run_stream(
            [tmp_path / "a.jsonl"], tmp_path / out, PLAN, tmp_path / "state-a", Settings(seed=1)
        ).documents_out
        == 3
    )
    table = (
        pq.read_table(tmp_path / out)
        if sink is ParquetFolderSink
        else (tmp_path / out).read_text().splitlines()
    )
    assert len(table) == 3 and not others
    with pytest.raises(UsageError, match="does not belong to this state"):
        run_stream(
            [tmp_path / "b.jsonl"], tmp_path / out, PLAN, tmp_path / "state-b", Settings(seed=1)
        )
    assert not list(tmp_path.glob(".*lock"))


@pytest.mark.parametrize("out", ["out.jsonl", "out"])
def test_an_output_that_another_state_wrote_is_not_cut(tmp_path: Path, out: str) -> None:
    """The output is moved away, and another stream writes there: the first state would delete what
    follows its own position."""
    for name, rows in (("a", ROWS[:3]), ("b", ROWS[2:9])):
        (tmp_path / f"{name}.jsonl").write_bytes(to_json_lines(rows))
        run_stream(
            [tmp_path / f"{name}.jsonl"],
            tmp_path / out,
            PLAN,
            tmp_path / f"state-{name}",
            Settings(seed=1, batch=2),
        )
        content = {
            path: path.read_bytes()
            for path in tmp_path.rglob("*")
            if path.is_file() and "state" not in str(path)
        }
        if name == "a":
            (tmp_path / out).rename(tmp_path / "moved")
    (tmp_path / "a.jsonl").write_bytes(to_json_lines(ROWS[:6]))
    with pytest.raises(OutputBroken, match="is not what this state wrote"):
        run_stream(
            [tmp_path / "a.jsonl"], tmp_path / out, PLAN, tmp_path / "state-a", Settings(seed=1)
        )
    assert all(
        path.read_bytes() == written for path, written in content.items() if path.name != "a.jsonl"
    )
    (tmp_path / out).rename(tmp_path / "others")
    (tmp_path / "moved").rename(tmp_path / out)
    assert (
        run_stream(
            [tmp_path / "a.jsonl"], tmp_path / out, PLAN, tmp_path / "state-a", Settings(seed=1)
        ).documents_in
        == 3
    )


def test_a_source_must_begin_with_what_was_read(tmp_path: Path) -> None:
    """Acknowledged records are skipped by number: a file that was exchanged or a new file before
    the others would be lost in part."""
    (tmp_path / "in").mkdir()
    file, late, early = (tmp_path / name for name in ("log.jsonl", "in/c.jsonl", "in/a.jsonl"))
    (tmp_path / "in" / "b.jsonl").write_bytes(to_json_lines(ROWS[:3]))
    late.write_bytes(to_json_lines(ROWS[3:5]))
    file.write_bytes(to_json_lines(ROWS[5:7]))

    def run_again() -> int:
        return run_stream(
            [tmp_path / "in", file],
            tmp_path / "out.jsonl",
            PLAN,
            tmp_path / "state",
            Settings(seed=1),
        ).documents_in

    assert [run_again(), run_again()] == [7, 0]
    late.write_bytes(to_json_lines(ROWS[3:6]))
    (tmp_path / "in" / "d.jsonl").write_bytes(to_json_lines(ROWS[:1]))
    file.write_bytes(to_json_lines(ROWS[5:9]))
    assert run_again() == 4, "what follows the acknowledged records"
    written, state = (
        (tmp_path / "out.jsonl").read_bytes(),
        (tmp_path / "state" / "state.json").read_bytes(),
    )
    early.write_bytes(to_json_lines(ROWS[:1]))
    with pytest.raises(InputRefused, match=r"the files \(3\) that were read"):
        run_again()
    early.unlink()
    file.write_bytes(to_json_lines(ROWS[9:20]))
    with pytest.raises(InputRefused, match="does not begin with what was read"):
        run_again()
    assert (
        (tmp_path / "out.jsonl").read_bytes(),
        (tmp_path / "state" / "state.json").read_bytes(),
    ) == (written, state)


def test_an_incomplete_last_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    lines = to_json_lines(ROWS[:4]).splitlines(keepends=True)
    notes = []
    for content in (
        b"".join(lines[:2]) + lines[2][:9],
        b"".join(lines[:3]),
        b"".join(lines).rstrip() + b"\n{broken\n",
    ):
        file.write_bytes(content)
        result = run_stream(
            [file], tmp_path / "out.jsonl", PLAN, tmp_path / "state", Settings(seed=1)
        )
        notes.append([note for note in result.notes if "has no end and is no JSON" in note])
    assert [len(found) for found in notes] == [1, 0, 0] and str(file) in notes[0][0]
    assert result.quarantine == {"not_json": 1}, "a line with an end is complete"
    expected = run_stream(
        [file], tmp_path / "expected.jsonl", PLAN, tmp_path / "other", Settings(seed=1)
    )
    assert expected.documents_out == 4
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "expected.jsonl").read_bytes()


def test_changed_output_input_or_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(to_json_lines(ROWS))
    arguments = (
        [tmp_path / "in.jsonl"],
        tmp_path / "out.jsonl",
        PLAN,
        tmp_path / "state",
        Settings(seed=1),
    )
    run_stream(*arguments)
    output_bytes = (tmp_path / "out.jsonl").read_bytes()
    (tmp_path / "out.jsonl").write_bytes(output_bytes[:-10])
    with pytest.raises(OutputBroken, match="bytes"):
        run_stream(*arguments)
    (tmp_path / "out.jsonl").write_bytes(output_bytes)
    (tmp_path / "in.jsonl").write_bytes(to_json_lines(ROWS[:3]))
    with pytest.raises(InputRefused, match="shorter"):
        run_stream(*arguments)
    (value_file,) = (tmp_path / "state" / "value_log").iterdir()
    data = bytearray(value_file.read_bytes())
    data[5] ^= 1
    value_file.write_bytes(data)
    with pytest.raises(OutputBroken, match="state"):
        run_stream(*arguments)
    with pytest.raises(UsageError, match="lie inside"):
        run_stream([tmp_path], None, PLAN, tmp_path / "state", Settings(seed=1))


@pytest.mark.parametrize("sink", [JsonLinesFileSink, ParquetFolderSink])
def test_existing_files_at_the_output_are_refused_and_unchanged(sink: type, tmp_path: Path) -> None:
    existing_path = tmp_path / "there"
    if sink is ParquetFolderSink:
        existing_path.mkdir()
        (existing_path / "mine").write_text("x")
    else:
        existing_path.write_text("x")
    with pytest.raises(UsageError, match="already|holds files"):
        sink(existing_path, None)
    assert (
        existing_path / "mine" if sink is ParquetFolderSink else existing_path
    ).read_text() == "x"


INVALID_ARGUMENTS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "missing input": ("missing.jsonl", "out.jsonl", {}),
    "empty input folder": ("empty", "out", {}),
    "unsupported input format": ("in.csv", "out", {}),
    "no text column": ("bytes.parquet", None, {}),
    "missing key file": ("in.jsonl", "out", {"seed": None, "key": Path("key")}),
    "unsupported output format": ("in.jsonl", "out.csv", {}),
    "a file for a folder": ("in.jsonl", "file", {}),
    "a folder for a file": ("in.jsonl", "folder.jsonl", {}),
    "main text dropped": ("in.jsonl", "out", {"drop": ["text"]}),
}


@pytest.mark.parametrize("case", INVALID_ARGUMENTS)
def test_invalid_arguments_leave_no_files(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "folder.jsonl"):
        Path(folder).mkdir()
    Path("in.jsonl").write_bytes(to_json_lines(ROWS[:2]))
    Path("in.csv").write_text("text\na\n")
    Path("file").touch()
    pq.write_table(pa.table({"text": [b"a"]}), "bytes.parquet")
    before = sorted(tmp_path.rglob("*"))
    name, out, options = INVALID_ARGUMENTS[case]
    with pytest.raises((UsageError, InputRefused)):
        run_stream(
            [Path(name)],
            Path(out) if out else None,
            PLAN,
            Path("state"),
            Settings(**{"seed": 1, **options}),
        )
    assert sorted(tmp_path.rglob("*")) == before


def test_a_column_has_one_type_in_a_folder(tmp_path: Path) -> None:
    sink = ParquetFolderSink(tmp_path / "out", None)
    sink.put(DictBatch([{"text": "a", "n": 1}]))
    committed = sink.commit()
    sink.put(DictBatch([{"text": "b", "n": None}]))
    sink.put(DictBatch([{"text": "c", "more": "x"}]))
    committed = sink.commit()
    assert committed.parts == 2
    table = pa.concat_tables(
        [pq.read_table(path) for path in sorted((tmp_path / "out").iterdir())],
        promote_options="default",
    )
    assert table.column("n").to_pylist() == [1, None, None] and table.column(
        "more"
    ).to_pylist() == [None, None, "x"]
    sink.put(DictBatch([{"text": "d", "n": "x"}]))
    with pytest.raises(InputRefused, match="one type"):
        sink.commit()


def test_columns_keep_their_order_after_an_interruption(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(
        to_json_lines(
            [{"text": row["text"], "no": str(no), "a": "b"} for no, row in enumerate(ROWS)]
        )
    )
    outputs = []
    for interrupted in (False, True):
        arguments = (
            tmp_path / f"out{interrupted}",
            PLAN,
            tmp_path / f"state{interrupted}",
            Settings(seed=1, batch=10, rows_per_shard=25),
        )
        with pytest.MonkeyPatch.context() as patch:
            if interrupted:
                patch.setattr(
                    StreamProcessor, "commit", interrupt_after_second_commit(StreamProcessor.commit)
                )
                with pytest.raises(KeyboardInterrupt):
                    run_stream([tmp_path / "in.jsonl"], *arguments)
        run_stream([tmp_path / "in.jsonl"], *arguments)
        outputs.append({path.name: path.read_bytes() for path in arguments[0].iterdir()})
    assert outputs[0] == outputs[1] and len(outputs[0]) == 3
    assert pq.read_schema(arguments[0] / "part-00002.parquet").names == ["text", "no", "a"]


def interrupt_after_second_commit(
    commit: Callable[[StreamProcessor], None],
) -> Callable[[StreamProcessor], None]:
    commit_count = [0]

    def commit_and_interrupt(stream: StreamProcessor) -> None:
        commit(stream)
        commit_count[0] += 1
        if commit_count[0] == 2:  # the output belongs to the state, and holds one file
            raise KeyboardInterrupt

    return commit_and_interrupt


def test_row_count_of_parts_is_independent_of_the_batch_size(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(to_json_lines(ROWS))
    run_stream(
        [tmp_path / "in.jsonl"],
        tmp_path / "out",
        PLAN,
        tmp_path / "state",
        Settings(seed=1, rows_per_shard=40),
    )
    assert [pq.read_metadata(path).num_rows for path in sorted((tmp_path / "out").iterdir())] == [
        40,
        40,
        10,
    ]


# ---- the value log and other parts of the state ----

IDS = st.integers(0, 40).map(lambda number: number * (1 << 57) + number)
TAGS = st.sampled_from(
    [int(VALUE_FLAG), int(VALUE_FLAG) | 1, int(SURROGATE_FLAG), int(VALUE_FLAG) | 2]
)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.lists(st.tuples(IDS, TAGS), max_size=12), st.booleans(), st.booleans()),
        max_size=8,
    ),
    st.integers(1, 3),
)
def test_value_log_equals_a_dictionary(
    steps: list[tuple[list[tuple[int, int]], bool, bool]], max_count: int
) -> None:
    """Compared with a dictionary: additions, commits, and reopening from the last commit."""
    with tempfile.TemporaryDirectory() as name:
        value_log, committed_files = ValueLog(Path(name), (), max_count), []
        expected_entries: dict[int, tuple[int, int]] = {}
        committed_entries: dict[int, tuple[int, int]] = {}
        for additions, is_commit, is_reopen in steps:
            value_log.add(
                np.array([value_id for value_id, _ in additions], np.int64),
                np.array([tag for _, tag in additions], np.uint32),
            )
            for value_id, tag in additions:
                flags, count = expected_entries.get(value_id, (0, 0))
                expected_entries[value_id] = (
                    flags | tag & 0xC0000000,
                    min(count + (tag & 3), max_count),
                )
            if is_commit:
                committed_files, committed_entries = value_log.commit(), dict(expected_entries)
                sizes = [entry.ids for entry in committed_files]
                assert all(
                    smaller * 2 <= larger for larger, smaller in zip(sizes, sizes[1:], strict=False)
                )
            if is_reopen:
                value_log, expected_entries = (
                    ValueLog(Path(name), committed_files, max_count),
                    dict(committed_entries),
                )
                assert {path.name for path in Path(name).iterdir()} == {
                    entry.name for entry in committed_files
                }
            all_ids = np.array([number * (1 << 57) + number for number in range(41)], np.int64)
            found_tags = value_log.get_tags(all_ids)
            expected_tags = [expected_entries.get(int(value_id), (0, 0)) for value_id in all_ids]
            assert [
                (int(tag) & 0xC0000000, int(count))
                for tag, count in zip(found_tags, get_counts(found_tags), strict=True)
            ] == expected_tags


def test_many_ids_stay_in_few_files_of_the_value_log(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    value_log, batches_of_ids = ValueLog(tmp_path), []
    for _ in range(40):
        ids = rng.integers(0, 1 << 63, 3_000, np.int64)
        batches_of_ids.append(ids)
        value_log.add(ids, np.full(len(ids), SURROGATE_FLAG, np.uint32))
        committed_files = value_log.commit()
        value_log.delete_stale_files()
    assert len(committed_files) <= 8 and len(list(tmp_path.iterdir())) == len(committed_files)
    reopened_log = ValueLog(tmp_path, committed_files)
    assert (reopened_log.get_tags(np.concatenate(batches_of_ids)) == SURROGATE_FLAG).all()
    assert not reopened_log.get_tags(rng.integers(0, 1 << 63, 3_000, np.int64)).any()


def test_component_log_keeps_order_and_discards_uncommitted_entries(tmp_path: Path) -> None:
    values = pa.array(
        ["kim.day@example.com", "lou.day@example.org", "solo@example.com"], pa.large_string()
    )
    component_log = ComponentLog(tmp_path / "stores.jsonl", 0)
    component_log.add_components("EMAIL_ADDRESS", values, np.array([3, 5, 5]))
    component_log.discard_unconfirmed()
    assert not len(component_log.get_pool("EMAIL_ADDRESS", "first")[0])
    component_log.add_components("EMAIL_ADDRESS", values, np.array([3, 5, 5]))
    component_log.confirm()
    length = component_log.commit()
    component_log.add_components(
        "EMAIL_ADDRESS", pa.array(["max.roe@example.net"], pa.large_string()), np.array([9])
    )
    component_log.confirm()
    component_log.commit()
    # the length of the first commit: the second one was not acknowledged
    reopened_log = ComponentLog(tmp_path / "stores.jsonl", length)
    for component, expected in {
        "first": ["kim", "lou"],
        "last": ["day"],
        "local": ["solo"],
        "host": ["example.com", "example.org"],
    }.items():
        texts, first_records = reopened_log.get_pool("EMAIL_ADDRESS", component)
        assert texts.to_pylist() == expected
        assert (
            first_records.tolist() == [3, 5][: len(expected)]
            if component != "local"
            else first_records.tolist() == [5]
        )


def test_prior_values_of_a_batch(tmp_path: Path) -> None:
    value_log = ValueLog(tmp_path)
    value_log.add(
        np.array([1, 2, 3], np.int64),
        np.array([VALUE_FLAG, SURROGATE_FLAG, SURROGATE_FORM_FLAG], np.uint32),
    )
    prior_values = StreamPriorValues(value_log, None)
    no_ids = np.empty(0, np.int64)
    prior_values.begin_batch(
        no_ids, no_ids, FirstForms(np.array([5, 9], np.int64), np.array([10, 12], np.int64))
    )
    forms, docs = (
        np.array([[1], [2], [3], [5], [5], [9], [7], [0]], np.int64),
        np.array([10, 10, 10, 9, 10, 11, 99, 99], np.int64),
    )
    for side in (forms, np.hstack([np.zeros_like(forms), forms])):
        assert prior_values.is_known(side, docs).tolist() == [
            True,
            False,
            False,
            False,
            True,
            False,
            False,
            False,
        ]
        assert prior_values.was_generated(side).tolist() == [
            False,
            True,
            True,
            False,
            False,
            False,
            False,
            False,
        ]
    assert prior_values.was_drawn(forms[:, 0]).tolist() == [False, True, *[False] * 6]
    prior_values.record_generated(np.array([[20, 20, 30, 0, 0, 0], [40, 50, 0, 0, 0, 0]], np.int64))
    flags = {
        5: VALUE_FLAG,
        9: VALUE_FLAG,
        20: SURROGATE_FLAG,
        40: SURROGATE_FLAG,
        30: SURROGATE_FORM_FLAG,
        50: SURROGATE_FORM_FLAG,
    }
    assert (
        dict(zip(*(column.tolist() for column in prior_values.list_new_forms()), strict=True))
        == flags
    )


def test_a_state_and_a_work_folder_are_not_interchangeable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text(json.dumps({"text": "bob.mann@example.com"}) + "\n")
    run_stream([Path("in.jsonl")], Path("out.jsonl"), PLAN, Path("state"), Settings(seed=1))
    run_with_settings("in.jsonl", "out", "rmft", settings=Settings(seed=1, workers=1))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        UsageError, match="out.private: is the private folder of a run; use another --state"
    ):
        run_stream(
            [Path("in.jsonl")], Path("more.jsonl"), PLAN, Path("out.private"), Settings(seed=1)
        )
    with pytest.raises(UsageError, match="state: is the state of a stream; use another --work"):
        run_with_settings("in.jsonl", "more", "rmft", "state", settings=Settings(seed=1, workers=1))
    for function in (
        top,
        status,
        sample_for_labels,
        lambda work: subject(work, ["bob.mann@example.com"]),
    ):
        with pytest.raises(UsageError, match="state: the state of a stream, which keeps no tables"):
            function("state")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "change",
    [
        None,
        {"records": "one"},
        {"text_fields": [[]]},
        {"text_fields": [[0, "text", 1]]},
        {"sinks": {"a": 1}},
        {"shape": {"name": "chat"}},
        {"value_files": [{"name": "0.run"}]},
    ],
)
def test_a_damaged_state_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object] | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text(json.dumps({"text": "bob.mann@example.com"}) + "\n")
    run_stream([Path("in.jsonl")], Path("out.jsonl"), PLAN, Path("state"), Settings(seed=1))
    path = Path("state/state.json")
    saved = json.loads(path.read_text())
    path.write_text("[1]" if change is None else json.dumps({**saved, **change}))
    before = path.read_bytes()
    with pytest.raises(OutputBroken, match="state.json: is damaged: .* or use a new --state"):
        run_stream([Path("in.jsonl")], Path("out.jsonl"), PLAN, Path("state"), Settings(seed=1))
    assert path.read_bytes() == before


def test_a_state_of_version_1_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text(json.dumps({"text": "bob.mann@example.com"}) + "\n")
    run_stream([Path("in.jsonl")], Path("out.jsonl"), PLAN, Path("state"), Settings(seed=1))
    Path("state/value_log").rename("state/seen")
    Path("state/component_pools.jsonl").rename("state/stores.jsonl")
    Path("state/state.json").write_text(
        json.dumps({**json.loads(Path("state/state.json").read_text()), "version": 1})
    )
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        UsageError, match="its state has version 1, and this program reads version 3.*new --state"
    ):
        run_stream([Path("in.jsonl")], Path("out.jsonl"), PLAN, Path("state"), Settings(seed=1))
    with pytest.raises(UsageError, match="state: is the state of a stream; use another --work"):
        run_with_settings("in.jsonl", "more", "rmft", "state", settings=Settings(seed=1, workers=1))
    with pytest.raises(UsageError, match="state: the state of a stream, which keeps no tables"):
        top("state")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("output", ["out.jsonl", "out"])
def test_a_state_with_only_the_entries_of_its_output_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """Earlier versions wrote either the bytes of a file or the parts of a folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("1.jsonl", "2.jsonl"):
        Path(name).write_text(json.dumps({"text": f"bob.mann{name[0]}@example.com"}) + "\n")
    settings = Settings(seed=1)
    run_stream([Path("1.jsonl")], Path(output), PLAN, Path("state"), settings)
    state = json.loads(Path("state/state.json").read_text())
    for position in state["sinks"].values():
        for entry in ("parts", "columns") if output == "out.jsonl" else ("bytes",):
            del position[entry]
    Path("state/state.json").write_text(json.dumps(state))
    result = run_stream([Path("2.jsonl")], Path(output), PLAN, Path("state"), settings)
    assert result.position == 2
    texts = (
        Path(output).read_text().splitlines()
        if output == "out.jsonl"
        else pq.read_table(output).column("text").to_pylist()
    )
    assert len(texts) == 2


def test_output_inside_the_input_is_refused_without_a_state_too(tmp_path: Path) -> None:
    """Otherwise the next stream over the folder would read this output."""
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(UsageError, match="lie inside each other"):
        run_stream([tmp_path], tmp_path / "out.jsonl", PLAN, None, Settings(seed=1))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_source_and_an_output_whose_names_are_not_utf8_are_continued(
    tmp_path: Path, console: Callable[..., tuple[int, str, str]]
) -> None:
    names = [os.fsdecode(name) for name in (b"f\xff.jsonl", b"f\xfe.jsonl", b"o\xff.jsonl")]
    *sources, out = [tmp_path / name for name in names]
    for number, source in enumerate(sources):
        write_json_lines(source, [{"text": f"ann{number}{n}@example.com"} for n in range(3)])
    for _ in range(2):
        code, _, _ = console(
            "stream", *sources, "-o", out, "--state", tmp_path / "st", "--seed", 1, "-q"
        )
        assert code == 0
    assert len(out.read_bytes().splitlines()) == 6
