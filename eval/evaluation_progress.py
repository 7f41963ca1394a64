"""Lines about an evaluation: each checkpoint when it begins, and every `HEARTBEAT_S` seconds what
is done and the time that is left."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from sanitize.core.progress import format_duration

from .language_model import BatchControl

HEARTBEAT_S = 30.0


class EvaluationProgress:
    """Counts measurements, one of a metric at a checkpoint. The time left follows from the mean
    time of each metric so far."""

    def __init__(
        self,
        uses: Sequence[str],
        report: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # metrics that are to be measured
        self._waiting, self._report, self._clock = list(uses), report, clock
        self._total = len(uses)
        self._seconds: dict[str, list[float]] = {}
        self._last_line = clock()
        self._current = ""
        self.control = BatchControl(on_note=self.note)

    def begin(self, where: str, use: str) -> None:
        """A metric is measured now; `where` is run and checkpoint."""
        self._current = f"{where}: {use}"
        self.control.rows_done = self.control.row_count = 0

    def end(self, use: str, seconds: float) -> None:
        """A metric was measured."""
        self._waiting.remove(use)
        self._seconds.setdefault(use, []).append(seconds)

    def note(self, line: str) -> None:
        """Report a line of its own."""
        self._report(line)
        self._last_line = self._clock()

    def describe(self) -> str:
        """Return what is done, and the time that is left where it is known."""
        left = self.seconds_left()
        done = f"{self._total - len(self._waiting)} of {self._total} measurements"
        return done if left is None else f"{done}, about {format_duration(left)} left"

    def seconds_left(self) -> float | None:
        """Return an estimate in seconds; None before the first measurement has ended."""
        if not self._seconds:
            return None
        means = {use: sum(found) / len(found) for use, found in self._seconds.items()}
        unknown = sum(means.values()) / len(means)
        return sum(means.get(use, unknown) for use in self._waiting)

    def beat(self) -> None:
        """Report a line if `HEARTBEAT_S` seconds have passed since the last one."""
        if self._clock() - self._last_line < HEARTBEAT_S:
            return
        rows = (
            f", {self.control.rows_done:,} of {self.control.row_count:,} rows"
            if self.control.row_count
            else ""
        )
        self.note(
            f"{self._current}{rows} ({self.describe()})" if self._current else self.describe()
        )

    @contextlib.contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Call `beat` from a thread within the block."""
        is_done = threading.Event()

        def watch() -> None:
            while not is_done.wait(1.0):
                self.beat()

        thread = threading.Thread(target=watch, name="progress of the evaluation", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            thread.join()
