"""Progress: a live line on a terminal, plain lines elsewhere, nothing if quiet; only numbers, never
a name."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sanitize.cli.generated_mails import generate_mails
from sanitize.core import progress
from sanitize.core.progress import (
    LineProgress,
    LiveProgress,
    ProgressUpdate,
    create_progress_display,
    format_count,
    format_duration,
)
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings

CORPUS = {"total_tasks": 4, "total_documents": 4_000, "total_bytes": 40_000_000}


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def render_updates(
    kind: type[LiveProgress] | type[LineProgress], steps: list[tuple[float, ProgressUpdate]]
) -> list[str]:
    """The text that is written after each update, at the given seconds."""
    out, clock, outputs = io.StringIO(), Clock(), []
    display = kind(out, clock)
    for second, step in steps:
        clock.now = 100 + second
        display(step)
        outputs.append(out.getvalue())
        out.seek(0)
        out.truncate()
    return outputs


def make_update(tasks_done: int, **more: float) -> ProgressUpdate:
    return ProgressUpdate(
        stage="detect",
        tasks_done=tasks_done,
        documents=1_000 * tasks_done,
        bytes=10_000_000 * tasks_done,
        **(CORPUS | more),
    )  # type: ignore[arg-type]


def test_a_live_line_is_overwritten_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    outputs = render_updates(
        LiveProgress,
        [
            (0, ProgressUpdate(stage="detect")),
            (0, make_update(0)),
            (2, make_update(1, occurrences=7_500, peak_rss_mb=311.4)),
            (2.05, make_update(2)),
            (5, make_update(4)),
        ],
    )
    assert outputs[0] == "\r\x1b[Kdetect   ..."
    assert outputs[1] == "\r\x1b[Kdetect   ------------------   0%  0/4.0K docs"
    assert (
        outputs[2]
        == "\r\x1b[Kdetect   ####--------------  25%  1.0K/4.0K docs  500 docs/s  5 MB/s  7.5K"
        " found  311 MB  eta 0:06"
    )
    assert outputs[3] == ""  # not more often than ten times a second
    assert outputs[4] == "\r\x1b[K"
    assert render_updates(
        LiveProgress,
        [
            (0, ProgressUpdate(stage="aggregate")),
            (1, ProgressUpdate(stage="aggregate", tasks_done=1)),
        ],
    ) == [
        "\r\x1b[Kaggregate ...",
        "\r\x1b[K",
    ]


def test_a_live_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    line = render_updates(LiveProgress, [(0, make_update(0)), (2, make_update(1))])[1]
    assert len(line.removeprefix("\r\x1b[K")) == 39


def test_eta_uses_bytes_and_the_last_ten_seconds() -> None:
    # the first half of the documents has a tenth of the bytes
    slow_start = [
        (0, make_update(0)),
        (
            10,
            ProgressUpdate(
                stage="detect", tasks_done=2, documents=2_000, bytes=4_000_000, **CORPUS
            ),
        ),
    ]
    assert "eta 1:30" in render_updates(LiveProgress, slow_start)[1]  # type: ignore[arg-type]
    # forty seconds for the first quarter, then five per quarter: the recent pace counts
    faster_end = [
        (0, make_update(0)),
        (40, make_update(1)),
        (45, make_update(2)),
        (50, make_update(3)),
    ]
    assert (
        "eta 0:05" in render_updates(LiveProgress, faster_end)[3]
        and "200 docs/s" in render_updates(LiveProgress, faster_end)[3]
    )
    # only the number of tasks is known
    tasks_only = [
        (0, ProgressUpdate(stage="check", total_tasks=4)),
        (3, ProgressUpdate(stage="check", tasks_done=3, total_tasks=4)),
    ]
    assert render_updates(LiveProgress, tasks_only)[1].endswith("75%  3/4 tasks  eta 0:01")


def test_plain_lines_at_the_end_and_every_ten_seconds() -> None:
    outputs = render_updates(
        LineProgress,
        [
            (0, ProgressUpdate(stage="detect")),
            (0, make_update(0)),
            (2, make_update(1)),
            (11, make_update(2)),
            (15, make_update(3)),
            (20, make_update(4)),
            (21, ProgressUpdate(stage="detect", tasks_done=1)),
        ],
    )
    assert outputs[3] == "detect: 50%, 2.0K/4.0K docs, 182 docs/s, 2 MB/s, eta 0:11\n"
    assert (
        outputs[5] == "detect: 4 tasks, 4,000 documents, 40.0 MB in 20.0 s (200 docs/s, 2 MB/s)\n"
    )
    assert "".join(outputs) == outputs[3] + outputs[5]
    assert (
        render_updates(
            LineProgress,
            [
                (0, ProgressUpdate(stage="check", total_tasks=1)),
                (1, ProgressUpdate(stage="check", tasks_done=1, total_tasks=1)),
            ],
        )[1]
        == "check: 1 task in 1.0 s\n"
    )


def test_counts_and_durations_are_short() -> None:
    assert [
        format_count(n)
        for n in (0, 950, 999.6, 14_640, 99_949, 118_000, 999_499, 999_600, 3_100_000, 2e15)
    ] == [*("0", "950", "1.0K", "14.6K", "99.9K", "118K", "999K", "1.0M", "3.1M", "2000T")]
    assert [format_duration(n) for n in (0, 46, 725.4, 3723)] == [
        "0:00",
        "0:46",
        "12:05",
        "1:02:03",
    ]


def test_display_depends_on_terminal_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert (
        type(create_progress_display(out=Terminal())) is LiveProgress
        and type(create_progress_display(out=io.StringIO())) is LineProgress
    )
    assert create_progress_display(True, Terminal()) is progress.ignore_progress
    monkeypatch.setenv("CI", "1")
    assert type(create_progress_display(out=Terminal())) is LineProgress
    monkeypatch.delenv("CI")
    monkeypatch.setenv("TERM", "dumb")
    assert type(create_progress_display(out=Terminal())) is LineProgress


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("progress")
    pl.DataFrame(generate_mails(120, 3)).select("text").write_parquet(folder / "in.parquet")
    return folder


@pytest.mark.slow
def test_a_run_reports_every_document_once(corpus: Path, tmp_path: Path) -> None:
    updates: list[ProgressUpdate] = []
    for workers in (1, 2):
        run_with_settings(
            corpus / "in.parquet",
            tmp_path / f"out{workers}",
            settings=Settings(seed=1, workers=workers, rows_per_shard=50, progress=updates.append),
        )
    for stage in ("detect", "rewrite", "verify"):
        last_updates = [
            step
            for step in updates
            # a shard in which the check finds a value is rewritten and checked again, alone
            if step.stage == stage and step.tasks_done == step.total_tasks == 3
        ]
        assert len(last_updates) == 2
        for step in last_updates:
            assert (
                (step.tasks_done, step.documents, step.total_documents) == (3, 120, 120)
                and step.bytes > 10_000
                and step.peak_rss_mb > 10
            )
            assert stage == "detect" or step.bytes == step.total_bytes
        task_counts = [
            step.tasks_done for step in updates if step.stage == stage and step.total_tasks == 3
        ]
        assert task_counts == [0, 1, 2, 3] * 2
    assert (
        next(
            step for step in updates if step.stage == "detect" and step.tasks_done == 3
        ).occurrences
        > 100
    )
    for stage in ("aggregate", "canaries", "publish"):
        assert {step.tasks_done for step in updates if step.stage == stage} == {0, 1}


RunInTerminal = Callable[..., tuple[str, str]]


@pytest.fixture()
def run_in_terminal(start_forked_command: Callable[..., Any] | None) -> RunInTerminal:
    """Runs the command with a terminal as its stderr; returns its output on stderr and on
    stdout."""

    def run_command(*arguments: str, folder: Path) -> tuple[str, str]:
        terminal, terminal_end = pty.openpty()
        env = {key: value for key, value in os.environ.items() if key != "CI"} | {
            "TERM": "xterm",
            "COLUMNS": "100",
        }
        process: Any
        if start_forked_command is not None:
            process = start_forked_command(arguments, folder, env, stderr=terminal_end)
        else:
            process = subprocess.Popen(
                [sys.executable, "-m", "sanitize", *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=terminal_end,
                env=env,
                text=True,
            )
        os.close(terminal_end)
        stderr = b""
        with contextlib.suppress(OSError):  # Linux raises it when the other end is closed
            while chunk := os.read(terminal, 4096):
                stderr += chunk
        os.close(terminal)
        stdout, _ = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
        return stderr.decode(), stdout

    return run_command


@pytest.mark.slow
def test_progress_on_a_real_terminal(
    corpus: Path, tmp_path: Path, run_in_terminal: RunInTerminal
) -> None:
    arguments = [
        "run",
        str(corpus / "in.parquet"),
        "-o",
        str(tmp_path / "out"),
        "--seed",
        "1",
        "--workers",
        "1",
        "--rows-per-shard",
        "20",
    ]
    stderr, stdout = run_in_terminal(*arguments, folder=tmp_path)
    assert (
        re.search(r"detect   #+-+ +\d+%  \d+/120 docs  [\d.]+K? docs/s", stderr)
        and "\r\x1b[Krewrite " in stderr
    )
    assert stderr.endswith("\r\x1b[K") and "\n" not in stderr  # the line is erased at the end
    assert (
        stdout.startswith("Done in ")
        and "120 documents in = 120 out" in stdout
        and "documents/s" in stdout
        and "recall          not measured" in stdout
    )
    values = {
        value
        for file in Path(tmp_path / "out.private/vault/values").glob("*.parquet")
        for value in pl.read_parquet(file)["value"]
    }
    assert [value for value in values if len(value) > 5 and value in stderr + stdout] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "index"])
def test_quiet_run_prints_nothing_or_json(
    corpus: Path, tmp_path: Path, command: str, run_in_terminal: RunInTerminal
) -> None:
    output_options = ["-o", "out"] if command == "run" else ["--work", "work"]
    stderr, stdout = run_in_terminal(
        command,
        str(corpus / "in.parquet"),
        *output_options,
        "--seed",
        "1",
        "--workers",
        "1",
        "-q",
        folder=tmp_path,
    )
    assert (stderr, stdout) == ("", "")
    stderr, stdout = run_in_terminal(
        command,
        str(corpus / "in.parquet"),
        *output_options,
        "--seed",
        "1",
        "--workers",
        "1",
        "-q",
        "--json",
        folder=tmp_path,
    )
    assert stderr == "" and json.loads(stdout)["documents_in"] == 120


@pytest.mark.slow
def test_verify_shows_progress_unless_quiet(
    corpus: Path, tmp_path: Path, run_in_terminal: RunInTerminal
) -> None:
    run_with_settings(
        corpus / "in.parquet",
        tmp_path / "out",
        settings=Settings(seed=1, workers=1, rows_per_shard=30),
    )
    stderr, stdout = run_in_terminal("verify", "out", "--workers", "1", folder=tmp_path)
    # four shards, four pages
    assert (
        "verify   " in stderr
        and "/8 tasks" in stderr
        and stderr.endswith("\r\x1b[K")
        and "0 of" in stdout
    )
    assert run_in_terminal("verify", "out", "--workers", "1", "--quiet", folder=tmp_path) == (
        "",
        "",
    )
    replay_arguments = [
        "replay",
        "out",
        str(corpus / "in.parquet"),
        "-o",
        "again",
        "--workers",
        "1",
        "--quiet",
    ]
    assert run_in_terminal(*replay_arguments, folder=tmp_path) == ("", "")


@pytest.mark.slow
def test_json_option_prints_one_object(
    corpus: Path, tmp_path: Path, run_in_terminal: RunInTerminal
) -> None:
    stderr, stdout = run_in_terminal(
        "run",
        str(corpus / "in.parquet"),
        "-o",
        "out",
        "--seed",
        "1",
        "--workers",
        "1",
        "--json",
        folder=tmp_path,
    )
    assert "rewrite" in stderr and stdout.count("\n") == 1 and json.loads(stdout)["changed"] is True


def test_a_closed_stderr_does_not_stop_the_run() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as out:
        display = create_progress_display(out=out)
        os.close(read_end)
        for done in (0, 1, 2):
            display(ProgressUpdate(stage="detect", total_tasks=2, tasks_done=done))
        out.write("more")  # later writes do not fail either
        out.flush()
