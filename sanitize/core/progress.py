"""Progress of a stage and its display: one live line on a terminal, plain lines elsewhere. Numbers
only, never a name or a text.

A run calls a `ProgressCallback` with a `ProgressUpdate` whenever a task ends; the displays here are
such callbacks. Rates are averages of the last ten seconds. The remaining time is computed from
bytes where they are known, since documents differ in size.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

_WINDOW_SECONDS = 10.0  # seconds over which a rate is averaged, and between two plain lines
_REDRAW_SECONDS = 0.1  # seconds between two updates of the live line
_BAR_WIDTH = 18


@dataclass(frozen=True, kw_only=True)
class ProgressUpdate:
    """Progress of one stage. A stage without tasks (`total_tasks` = 0) is reported when it begins
    (`tasks_done` = 0) and when it ends (1).

    `documents` and `bytes` (of text, as UTF-8) are finished; `total_documents` and `total_bytes`
    are the totals, 0 where unknown. `occurrences` (found so far) and `peak_rss_mb` (of the largest
    process) are 0 where a stage does not know them.
    """

    stage: str
    tasks_done: int = 0
    total_tasks: int = 0
    documents: int = 0
    total_documents: int = 0
    bytes: int = 0
    total_bytes: int = 0
    occurrences: int = 0
    peak_rss_mb: float = 0.0

    @property
    def fraction_done(self) -> float:
        """Finished fraction of the stage, 0 to 1: by bytes where known, else by documents, else by
        tasks."""
        pairs = (
            (self.bytes, self.total_bytes),
            (self.documents, self.total_documents),
            (self.tasks_done, self.total_tasks),
        )
        return next((done / total for done, total in pairs if total), 0.0)


ProgressCallback = Callable[[ProgressUpdate], object]


def ignore_progress(update: ProgressUpdate) -> None:
    """A `ProgressCallback` that displays nothing."""


def create_progress_display(quiet: bool = False, out: TextIO | None = None) -> ProgressCallback:
    """The progress display for `out` (default stderr): one updated line on a terminal, lines
    elsewhere and under CI, nothing if `quiet`."""
    out = out or sys.stderr
    if quiet:
        return ignore_progress
    terminal = out.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
    return LiveProgress(out) if terminal else LineProgress(out)


class _Throughput:
    """Documents and bytes per second over the last ten seconds of a stage, and the estimated
    remaining seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.stage, self.started_at = clock, "", 0.0
        self._recent_updates: deque[tuple[float, ProgressUpdate]] = deque()

    def add(self, update: ProgressUpdate) -> None:
        now = self.clock()
        if update.stage != self.stage or update.tasks_done == 0:
            self.stage, self.started_at = update.stage, now
            self._recent_updates.clear()
        self._recent_updates.append((now, update))
        while len(self._recent_updates) > 2 and self._recent_updates[1][0] <= now - _WINDOW_SECONDS:
            self._recent_updates.popleft()

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the stage began."""
        return self.clock() - self.started_at

    def rates(self) -> tuple[float, float]:
        """(documents, bytes) per second; 0 where nothing is finished yet."""
        (first, before), (last, now) = self._recent_updates[0], self._recent_updates[-1]
        span = max(last - first, 1e-3)
        return (
            max(now.documents - before.documents, 0) / span,
            max(now.bytes - before.bytes, 0) / span,
        )

    def seconds_left(self) -> float | None:
        """Estimated seconds to the end of the stage at the present rate; None while no rate is
        known."""
        (first, before), (last, now) = self._recent_updates[0], self._recent_updates[-1]
        gained = now.fraction_done - before.fraction_done
        return (
            (1 - now.fraction_done) * (last - first) / gained
            if gained > 0 and last > first
            else None
        )


class LiveProgress:
    """Displays one line on a terminal, which each update overwrites; the line is erased when the
    stage ends."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._throughput, self._last_drawn = out, _Throughput(clock), float("-inf")
        self._clock = clock

    def __call__(self, update: ProgressUpdate) -> None:
        self._throughput.add(update)
        ended = update.tasks_done >= max(update.total_tasks, 1)
        now = self._clock()
        if not ended and update.tasks_done and now - self._last_drawn < _REDRAW_SECONDS:
            return
        self._last_drawn = now
        line = "" if ended else self._format_line(update)
        # one column stays empty: a line as wide as the terminal would wrap
        _write_unless_closed(
            self._out, "\r\x1b[K" + line[: max(shutil.get_terminal_size((100, 24)).columns - 1, 20)]
        )

    def _format_line(self, update: ProgressUpdate) -> str:
        if not update.total_tasks:
            return f"{update.stage:<8} ..."
        filled = round(_BAR_WIDTH * update.fraction_done)
        return "  ".join(
            [
                (
                    f"{update.stage:<8} {'#' * filled}{'-' * (_BAR_WIDTH - filled)}"
                    f" {update.fraction_done:>4.0%}"
                ),
                *_format_running(update, self._throughput),
            ]
        )


class LineProgress:
    """Writes a line when a stage with tasks ends, and one every ten seconds before that."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._throughput, self._clock, self._last_written = (
            out,
            _Throughput(clock),
            clock,
            clock(),
        )

    def __call__(self, update: ProgressUpdate) -> None:
        if not update.total_tasks:
            return
        self._throughput.add(update)
        if update.tasks_done == 0:
            self._last_written = self._clock()
        if update.tasks_done >= update.total_tasks:
            self._write_line(_format_finished(update, self._throughput.elapsed_seconds))
        elif update.tasks_done and self._clock() - self._last_written >= _WINDOW_SECONDS:
            self._last_written = self._clock()
            self._write_line(
                f"{update.stage}: {update.fraction_done:.0%},"
                f" {', '.join(_format_running(update, self._throughput))}"
            )

    def _write_line(self, line: str) -> None:
        _write_unless_closed(self._out, line + "\n")


def _write_unless_closed(out: TextIO, text: str) -> None:
    """Writes and flushes text. If the reader of the pipe is closed (`2>&1 | head`), the run
    continues and later output is discarded."""
    try:
        out.write(text)
        out.flush()
    except BrokenPipeError:
        with open(os.devnull, "wb") as null_device:
            os.dup2(null_device.fileno(), out.fileno())


def _format_running(update: ProgressUpdate, throughput: _Throughput) -> list[str]:
    """The figures of a running stage: documents or tasks, rates, occurrences, memory, remaining
    time."""
    documents, volume = throughput.rates()
    of = f"/{format_count(update.total_documents)}" if update.total_documents else ""
    figures = [
        (
            f"{format_count(update.documents)}{of} docs"
            if update.documents or of
            else f"{update.tasks_done}/{update.total_tasks} tasks"
        )
    ]
    figures += [f"{format_count(documents)} docs/s"] if documents else []
    figures += [f"{volume / 1e6:,.0f} MB/s"] if volume else []
    figures += [f"{format_count(update.occurrences)} found"] if update.occurrences else []
    figures += [f"{update.peak_rss_mb:,.0f} MB"] if update.peak_rss_mb else []
    left = throughput.seconds_left()
    return [*figures, f"eta {format_duration(left)}"] if left is not None else figures


def _format_finished(update: ProgressUpdate, seconds: float) -> str:
    """The line of a finished stage: tasks, documents, size, seconds and rates."""
    figures = [f"{update.total_tasks:,} {'task' if update.total_tasks == 1 else 'tasks'}"]
    figures += [f"{update.documents:,} documents"] if update.documents else []
    figures += [f"{update.bytes / 1e6:,.1f} MB"] if update.bytes else []
    span = max(seconds, 1e-3)
    rates = [f"{format_count(update.documents / span)} docs/s"] if update.documents else []
    rates += [f"{update.bytes / 1e6 / span:,.0f} MB/s"] if update.bytes else []
    return f"{update.stage}: {', '.join(figures)} in {seconds:.1f} s" + (
        f" ({', '.join(rates)})" if rates else ""
    )


def format_count(number: float) -> str:
    """A number in at most five characters: 950, 14.6K, 3.1M."""
    for unit in ("", "K", "M", "G", "T"):
        if abs(number) < 999.5 or unit == "T":
            break
        number /= 1000
    return f"{number:.0f}{unit}" if not unit or number >= 99.95 else f"{number:.1f}{unit}"


def format_duration(seconds: float) -> str:
    """Seconds as 0:46, 12:05 or 1:02:03."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
