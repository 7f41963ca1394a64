"""`sanitize label` at a real terminal (a pseudo one), and off it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from sanitize.errors import UsageError
from sanitize.inspection.annotation import SampleFile, read_sample, sample_for_labels, score_labels
from sanitize.pipeline.run import index_with_settings
from sanitize.plans.settings import Settings


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("label")
    texts = [f"Write to person{number}@example.com, please." for number in range(6)]
    pl.DataFrame({"text": texts}).write_parquet(folder / "in.parquet")
    index_with_settings([folder / "in.parquet"], folder / "work", Settings(seed=1, workers=1))
    return folder / "work"


class Session:
    """A command with a pseudo terminal as its standard streams."""

    def __init__(self, *arguments: object) -> None:
        self._terminal, terminal_of_command = pty.openpty()
        self.modes = termios.tcgetattr(terminal_of_command)[3]
        self._command_side = terminal_of_command
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sanitize", "label", *map(str, arguments)],
            stdin=terminal_of_command,
            stdout=terminal_of_command,
            stderr=terminal_of_command,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"},
            start_new_session=True,
        )
        self.output = ""

    def wait_for(self, text: str) -> None:
        """Read until the output has `text`, after what was waited for before."""
        start, end = len(self.output), time.monotonic() + 60
        while text not in self.output[start:]:
            assert time.monotonic() < end, self.output[-2000:]
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    self.output += os.read(self._terminal, 65536).decode()
                except OSError:  # the command has ended
                    assert text in self.output[start:], self.output[-2000:]

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def end(self, number: int | None = None) -> int:
        if number is not None:
            self._process.send_signal(number)
        exit_code = self._process.wait(60)
        assert number == signal.SIGKILL or termios.tcgetattr(self._command_side)[3] == self.modes
        os.close(self._terminal)
        os.close(self._command_side)
        return exit_code


@pytest.mark.slow
def test_decisions_survive_a_kill_and_the_next_session_goes_on(workspace: Path) -> None:
    first = Session(workspace, "--n", 6)
    first.wait_for("row 1 of 6, 0 labelled")
    first.type("r")
    first.wait_for("row 2 of 6, 1 labelled")
    first.type("w")
    first.wait_for("row 3 of 6, 2 labelled")
    first.type("e")
    first.wait_for("Where is the EMAIL_ADDRESS?")
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    path = workspace / "labels" / "sample.jsonl"
    assert [
        row["right"]
        for row in map(json.loads, path.read_text().splitlines())
        if row["ask"] == "find"
    ] == [True, False, None]
    assert path.stat().st_mode & 0o777 == 0o600

    second = Session(workspace)
    second.wait_for("row 3 of 6, 2 labelled")
    assert "person" not in second.output
    second.type("s")
    second.wait_for("person")
    second.type("e\x1b[C\r")
    second.wait_for("row 4 of 6, 3 labelled")
    second.type("\x03")  # Ctrl-C quits like q
    second.wait_for("3 of 6 rows are not labelled yet")
    assert second.end() == 0
    # the screen is gone, with all texts that were on it
    shown, _, after = second.output.rpartition("\x1b[?1049l")
    assert "\x1b[?1049h" in shown and "person" not in re.sub(r"\S*sample.jsonl", "", after)
    scores = score_labels(workspace, path).kinds["EMAIL_ADDRESS"]
    assert (scores.judged, scores.right, scores.wrong_spans) == (
        3,
        1,
        1,
    ) and scores.precision == pytest.approx(1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_session_that_waits_for_a_key(
    workspace: Path, tmp_path: Path, number: signal.Signals
) -> None:
    session = Session(workspace, "--n", 2, "--out", tmp_path / "s.jsonl")
    session.wait_for("row 1 of 2")
    time.sleep(0.2)  # it waits for a key now
    assert session.end(number) == 128 + number


def test_off_a_terminal_the_file_is_written_or_the_message_says_what_to_do(
    workspace: Path, tmp_path: Path, console: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, _ = console("label", workspace, "--n", 2, "--out", tmp_path / "s.jsonl")
    assert code == 0 and "fill  `right` of every find" in out
    code, _, err = console("label", workspace, "--out", tmp_path / "s.jsonl")
    assert code == 2 and "At a terminal, `sanitize label" in err
    code, _, err = console("label", workspace, "--ask")
    assert code == 2 and "leave --ask out to get a file to fill in" in err


def test_labels_of_another_program_are_not_overwritten(workspace: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    sample_for_labels(workspace, n=3, out=path)
    file, rows = SampleFile(path), read_sample(path)
    file.save([{**row, "right": True} for row in rows])
    file.save(rows)
    labelled = path.read_text().replace('"right": null', '"right": false')
    path.write_text(labelled)
    with pytest.raises(UsageError, match="another program changed it"):
        file.save(rows)
    assert path.read_text() == labelled
    path.write_text('{"ask": "find", "kind": "PERSON", "right": null}\n')
    with pytest.raises(UsageError, match="row 1"):
        read_sample(path)
