"""Progress: a live line on a terminal, plain lines elsewhere, nothing if quiet; only numbers, never a name."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from sanitize.cli.demo import generate_mails
from sanitize.core import progress
from sanitize.core.progress import LineProgress, LiveProgress, ProgressUpdate, create_progress_display, format_count, format_duration
from sanitize.pipeline.run import run
from sanitize.plans.settings import Settings

CORPUS = {"total_tasks": 4, "total_documents": 4_000, "total_bytes": 40_000_000}


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def told(kind: type[LiveProgress] | type[LineProgress], steps: list[tuple[float, ProgressUpdate]]) -> list[str]:
    """The text that is written after each update, at the given seconds."""
    out, watch, seen = io.StringIO(), Clock(), []
    shown = kind(out, watch)
    for second, step in steps:
        watch.now = 100 + second
        shown(step)
        seen.append(out.getvalue())
        out.seek(0)
        out.truncate()
    return seen


def at(done: int, **more: float) -> ProgressUpdate:
    return ProgressUpdate(stage="detect", tasks_done=done, documents=1_000 * done, bytes=10_000_000 * done, **(CORPUS | more))  # type: ignore[arg-type]


def test_a_live_line_is_written_over_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    seen = told(
        LiveProgress,
        [(0, ProgressUpdate(stage="detect")), (0, at(0)), (2, at(1, occurrences=7_500, peak_rss_mb=311.4)), (2.05, at(2)), (5, at(4))],
    )
    assert seen[0] == "\r\x1b[Kdetect   ..."
    assert seen[1] == "\r\x1b[Kdetect   ------------------   0%  0/4.0K docs"
    assert seen[2] == "\r\x1b[Kdetect   ####--------------  25%  1.0K/4.0K docs  500 docs/s  5 MB/s  7.5K found  311 MB  eta 0:06"
    assert seen[3] == ""  # not more often than ten times a second
    assert seen[4] == "\r\x1b[K"
    assert told(LiveProgress, [(0, ProgressUpdate(stage="aggregate")), (1, ProgressUpdate(stage="aggregate", tasks_done=1))]) == [
        "\r\x1b[Kaggregate ...",
        "\r\x1b[K",
    ]


def test_a_live_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    line = told(LiveProgress, [(0, at(0)), (2, at(1))])[1]
    assert len(line.removeprefix("\r\x1b[K")) == 39


def test_the_end_is_told_from_bytes_and_from_the_last_ten_seconds() -> None:
    # the first half of the documents holds a tenth of the bytes
    slow = [(0, at(0)), (10, ProgressUpdate(stage="detect", tasks_done=2, documents=2_000, bytes=4_000_000, **CORPUS))]
    assert "eta 1:30" in told(LiveProgress, slow)[1]  # type: ignore[arg-type]
    # forty seconds for the first quarter, then a quarter in five: the pace of late counts
    paced = [(0, at(0)), (40, at(1)), (45, at(2)), (50, at(3))]
    assert "eta 0:05" in told(LiveProgress, paced)[3] and "200 docs/s" in told(LiveProgress, paced)[3]
    # nothing known but tasks
    bare = [(0, ProgressUpdate(stage="check", total_tasks=4)), (3, ProgressUpdate(stage="check", tasks_done=3, total_tasks=4))]
    assert told(LiveProgress, bare)[1].endswith("75%  3/4 tasks  eta 0:01")


def test_plain_lines_at_the_end_and_every_ten_seconds() -> None:
    seen = told(
        LineProgress,
        [
            (0, ProgressUpdate(stage="detect")),
            (0, at(0)),
            (2, at(1)),
            (11, at(2)),
            (15, at(3)),
            (20, at(4)),
            (21, ProgressUpdate(stage="detect", tasks_done=1)),
        ],
    )
    assert seen[3] == "detect: 50%, 2.0K/4.0K docs, 182 docs/s, 2 MB/s, eta 0:11\n"
    assert seen[5] == "detect: 4 tasks, 4,000 documents, 40.0 MB in 20.0 s (200 docs/s, 2 MB/s)\n"
    assert "".join(seen) == seen[3] + seen[5]
    assert (
        told(
            LineProgress,
            [(0, ProgressUpdate(stage="check", total_tasks=1)), (1, ProgressUpdate(stage="check", tasks_done=1, total_tasks=1))],
        )[1]
        == "check: 1 task in 1.0 s\n"
    )


def test_numbers_are_short() -> None:
    assert [format_count(n) for n in (0, 950, 999.6, 14_640, 99_949, 118_000, 999_499, 999_600, 3_100_000, 2e15)] == [
        *("0", "950", "1.0K", "14.6K", "99.9K", "118K", "999K", "1.0M", "3.1M", "2000T")
    ]
    assert [format_duration(n) for n in (0, 46, 725.4, 3723)] == ["0:00", "0:46", "12:05", "1:02:03"]


def test_who_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert (
        type(create_progress_display(out=Terminal())) is LiveProgress and type(create_progress_display(out=io.StringIO())) is LineProgress
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


def test_a_run_tells_every_document_once(corpus: Path, tmp_path: Path) -> None:
    seen: list[ProgressUpdate] = []
    for workers in (1, 2):
        run(
            corpus / "in.parquet",
            tmp_path / f"out{workers}",
            settings=Settings(seed=1, workers=workers, rows_per_shard=50, progress=seen.append),
        )
    for stage in ("detect", "rewrite", "verify"):
        ends = [step for step in seen if step.stage == stage and step.total_tasks and step.tasks_done == step.total_tasks]
        assert len(ends) == 2
        for step in ends:
            assert (
                (step.tasks_done, step.documents, step.total_documents) == (3, 120, 120) and step.bytes > 10_000 and step.peak_rss_mb > 10
            )
            assert stage == "detect" or step.bytes == step.total_bytes
        done = [step.tasks_done for step in seen if step.stage == stage and step.total_tasks]
        assert done == [0, 1, 2, 3] * 2
    assert next(step for step in seen if step.stage == "detect" and step.tasks_done == 3).occurrences > 100
    for stage in ("aggregate", "canaries", "publish"):
        assert {step.tasks_done for step in seen if step.stage == stage} == {0, 1}


def on_a_terminal(*words: str, folder: Path) -> tuple[str, str]:
    """The output of the command on stderr (a terminal) and on stdout."""
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key != "CI"} | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-m", "sanitize", *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=env
    )
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # how Linux says that nobody writes there any more
        while chunk := os.read(ours, 4096):
            seen += chunk
    os.close(ours)
    assert process.stdout is not None
    said = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait() == 0, seen
    return seen.decode(), said


def test_a_real_terminal(corpus: Path, tmp_path: Path) -> None:
    where = ["run", str(corpus / "in.parquet"), "-o", str(tmp_path / "out"), "--seed", "1", "--workers", "1", "--rows-per-shard", "20"]
    seen, said = on_a_terminal(*where, folder=tmp_path)
    assert re.search(r"detect   #+-+ +\d+%  \d+/120 docs  [\d.]+K? docs/s", seen) and "\r\x1b[Krewrite " in seen
    assert seen.endswith("\r\x1b[K") and "\n" not in seen  # nothing of it stays
    assert (
        said.startswith("Done in ") and "120 documents in = 120 out" in said and "documents/s" in said and "recall    not measured" in said
    )
    values = {value for file in Path(tmp_path / "out.private/vault/values").glob("*.parquet") for value in pl.read_parquet(file)["value"]}
    assert [value for value in values if len(value) > 5 and value in seen + said] == []


@pytest.mark.parametrize("verb", ["run", "find"])
def test_quiet(corpus: Path, tmp_path: Path, verb: str) -> None:
    place = ["-o", "out"] if verb == "run" else ["--work", "work"]
    seen, said = on_a_terminal(verb, str(corpus / "in.parquet"), *place, "--seed", "1", "--workers", "1", "-q", folder=tmp_path)
    assert (seen, said) == ("", "")
    seen, said = on_a_terminal(verb, str(corpus / "in.parquet"), *place, "--seed", "1", "--workers", "1", "-q", "--json", folder=tmp_path)
    assert seen == "" and json.loads(said)["documents_in"] == 120


def test_verify_tells_and_is_quiet(corpus: Path, tmp_path: Path) -> None:
    run(corpus / "in.parquet", tmp_path / "out", settings=Settings(seed=1, workers=1, rows_per_shard=30))
    seen, said = on_a_terminal("verify", "out", "--workers", "1", folder=tmp_path)
    assert "verify   " in seen and "/7 tasks" in seen and seen.endswith("\r\x1b[K") and "0 of" in said  # four shards, three pages
    assert on_a_terminal("verify", "out", "--workers", "1", "--quiet", folder=tmp_path) == ("", "")
    assert on_a_terminal("replay", "out", str(corpus / "in.parquet"), "-o", "again", "--quiet", folder=tmp_path) == ("", "")


def test_json_leaves_stdout_to_one_object(corpus: Path, tmp_path: Path) -> None:
    seen, said = on_a_terminal("run", str(corpus / "in.parquet"), "-o", "out", "--seed", "1", "--workers", "1", "--json", folder=tmp_path)
    assert "rewrite" in seen and said.count("\n") == 1 and json.loads(said)["changed"] is True


def test_who_stops_reading_stops_nothing() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as out:
        show = create_progress_display(out=out)
        os.close(read)
        for done in (0, 1, 2):
            show(ProgressUpdate(stage="detect", total_tasks=2, tasks_done=done))
        out.write("more")  # nor does what is written to it later
        out.flush()
