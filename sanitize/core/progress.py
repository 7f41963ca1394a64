"""How far a stage is, and how that is shown: one live line on a terminal, plain lines elsewhere. Numbers only, never a name or a text.

The hall tells a `Step` whenever a task ends; whoever listens draws it. Rates are those of the last ten seconds, and the time that is left
follows from bytes where they are known, since documents differ.
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

_WINDOW = 10.0  # seconds that a rate looks back, and between two plain lines
_REDRAWN = 0.1  # seconds between two drawings of the live line
_BAR = 18


@dataclass(frozen=True, kw_only=True)
class Step:
    """Where one stage stands. A stage without tasks (`total` = 0) is told when it begins (`done` = 0) and when it ends (1).

    `documents` and `bytes` (of text, as UTF-8) are done, `of_documents` and `of_bytes` there are in all; 0 where that is not known.
    `occurrences` found so far, and the largest process in MB, are told where a stage knows them.
    """

    stage: str
    done: int = 0
    total: int = 0
    documents: int = 0
    of_documents: int = 0
    bytes: int = 0
    of_bytes: int = 0
    occurrences: int = 0
    peak_rss_mb: float = 0.0

    @property
    def share(self) -> float:
        """How much of the stage is done, 0 to 1: by bytes, else by documents, else by tasks."""
        pairs = ((self.bytes, self.of_bytes), (self.documents, self.of_documents), (self.done, self.total))
        return next((part / whole for part, whole in pairs if whole), 0.0)


Progress = Callable[[Step], object]


def silent(step: Step) -> None:
    """Shows nothing."""


def shower(quiet: bool = False, out: TextIO | None = None) -> Progress:
    """What shows progress on `out` (stderr): one line, written over, on a terminal; lines elsewhere and under CI; nothing if `quiet`."""
    out = out or sys.stderr
    if quiet:
        return silent
    terminal = out.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
    return Live(out) if terminal else Lines(out)


class _Pace:
    """Documents and bytes a second over the last ten seconds of a stage, and the seconds it still takes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.stage, self.began = clock, "", 0.0
        self._seen: deque[tuple[float, Step]] = deque()

    def see(self, step: Step) -> None:
        now = self.clock()
        if step.stage != self.stage or step.done == 0:
            self.stage, self.began = step.stage, now
            self._seen.clear()
        self._seen.append((now, step))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW:
            self._seen.popleft()

    @property
    def seconds(self) -> float:
        """Since the stage began."""
        return self.clock() - self.began

    def rates(self) -> tuple[float, float]:
        """(documents, bytes) a second; 0 where nothing was done yet."""
        (first, before), (last, now) = self._seen[0], self._seen[-1]
        span = max(last - first, 1e-3)
        return max(now.documents - before.documents, 0) / span, max(now.bytes - before.bytes, 0) / span

    def left(self) -> float | None:
        """Seconds to the end of the stage at the present pace; None where there is none yet."""
        (first, before), (last, now) = self._seen[0], self._seen[-1]
        gained = now.share - before.share
        return (1 - now.share) * (last - first) / gained if gained > 0 and last > first else None


class Live:
    """One line on a terminal, written over; a stage that ends takes its line away."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._pace, self._drawn = out, _Pace(clock), float("-inf")
        self._clock = clock

    def __call__(self, step: Step) -> None:
        self._pace.see(step)
        ended = step.done >= max(step.total, 1)
        now = self._clock()
        if not ended and step.done and now - self._drawn < _REDRAWN:
            return
        self._drawn = now
        line = "" if ended else self._line(step)
        # one column stays free: a line as wide as the terminal would wrap
        _tell(self._out, "\r\x1b[K" + line[: max(shutil.get_terminal_size((100, 24)).columns - 1, 20)])

    def _line(self, step: Step) -> str:
        if not step.total:
            return f"{step.stage:<8} ..."
        filled = round(_BAR * step.share)
        return "  ".join([f"{step.stage:<8} {'#' * filled}{'-' * (_BAR - filled)} {step.share:>4.0%}", *_said(step, self._pace)])


class Lines:
    """A line when a stage with tasks ends, and one every ten seconds before that."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._pace, self._clock, self._told = out, _Pace(clock), clock, clock()

    def __call__(self, step: Step) -> None:
        if not step.total:
            return
        self._pace.see(step)
        if step.done == 0:
            self._told = self._clock()
        if step.done >= step.total:
            self._say(_ended(step, self._pace.seconds))
        elif step.done and self._clock() - self._told >= _WINDOW:
            self._told = self._clock()
            self._say(f"{step.stage}: {step.share:.0%}, {', '.join(_said(step, self._pace))}")

    def _say(self, line: str) -> None:
        _tell(self._out, line + "\n")


def _tell(out: TextIO, text: str) -> None:
    """Show some progress. Whoever stopped reading it (`2>&1 | head`) does not stop the run."""
    try:
        out.write(text)
        out.flush()
    except BrokenPipeError:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), out.fileno())


def _said(step: Step, pace: _Pace) -> list[str]:
    """What is told while a stage lasts."""
    documents, volume = pace.rates()
    of = f"/{short(step.of_documents)}" if step.of_documents else ""
    said = [f"{short(step.documents)}{of} docs" if step.documents or of else f"{step.done}/{step.total} tasks"]
    said += [f"{short(documents)} docs/s"] if documents else []
    said += [f"{volume / 1e6:,.0f} MB/s"] if volume else []
    said += [f"{short(step.occurrences)} found"] if step.occurrences else []
    said += [f"{step.peak_rss_mb:,.0f} MB"] if step.peak_rss_mb else []
    left = pace.left()
    return [*said, f"eta {clock(left)}"] if left is not None else said


def _ended(step: Step, seconds: float) -> str:
    """A stage in one line, when it is over."""
    said = [f"{step.total:,} {'task' if step.total == 1 else 'tasks'}"]
    said += [f"{step.documents:,} documents"] if step.documents else []
    said += [f"{step.bytes / 1e6:,.1f} MB"] if step.bytes else []
    span = max(seconds, 1e-3)
    rates = [f"{short(step.documents / span)} docs/s"] if step.documents else []
    rates += [f"{step.bytes / 1e6 / span:,.0f} MB/s"] if step.bytes else []
    return f"{step.stage}: {', '.join(said)} in {seconds:.1f} s" + (f" ({', '.join(rates)})" if rates else "")


def short(number: float) -> str:
    """A number in few characters: 950, 14.6K, 3.1M."""
    for unit in ("", "K", "M", "G", "T"):
        if abs(number) < 999.5 or unit == "T":
            break
        number /= 1000
    return f"{number:.0f}{unit}" if not unit or number >= 99.95 else f"{number:.1f}{unit}"


def clock(seconds: float) -> str:
    """Seconds as 0:46, 12:05 or 1:02:03."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
