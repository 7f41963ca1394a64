"""Threads beside the training loop: one that writes files, and one that prepares the batches of the next steps.

Both run functions in order, one at a time, and hand their errors to the loop. They are daemons: a process that ends does not wait for them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

_Prepared = TypeVar("_Prepared")
_POLL_S = 0.1  # seconds between two looks whether the other thread has ended


class BackgroundWriter:
    """Calls functions that write files, in the order of `submit`; at most one waits while another runs.

    After an error no later function is called, so that what is on disk is what a sequence that ended there would have left. The error is
    raised by the next call of any method. Leaving the block waits for what was submitted.
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[Callable[[], object] | None] = queue.Queue(maxsize=1)
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="writer of checkpoints", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._queue.put(None)
        self._queue.join()
        if error is None:
            self.raise_error()

    def submit(self, write: Callable[[], object]) -> None:
        """Call `write` after all that was submitted before."""
        self.raise_error()
        self._queue.put(write)

    def wait(self) -> None:
        """Wait until all that was submitted is on disk."""
        self._queue.join()
        self.raise_error()

    def raise_error(self) -> None:
        """Raise the error of a function that failed, if one did."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while True:
            write = self._queue.get()
            try:
                if write is None:
                    return
                if self._error is None:
                    write()
            except BaseException as error:  # raised in the thread that submits
                self._error = error
            finally:
                del write  # holds a copy of the weights
                self._queue.task_done()


class Prefetcher(Generic[_Prepared]):
    """Computes `prepare(number)` for the numbers from `first` to `end` in a thread, a few ahead of `get`, which returns them in order.

    An error of `prepare` is raised by `get` of that number. Leaving the block ends the thread after the call that it is in.
    """

    def __init__(self, prepare: Callable[[int], _Prepared], first: int, end: int, *, ahead: int = 2) -> None:
        self._prepare, self._first, self._end = prepare, first, end
        self._ready: queue.Queue[tuple[int, _Prepared | None, BaseException | None]] = queue.Queue(maxsize=ahead)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prefetch of batches", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        self._thread.join()

    def get(self, number: int) -> _Prepared:
        """Return what was prepared for a number; to be called for each in order."""
        found, prepared, error = self._ready.get()
        assert found == number, "numbers in order"
        if error is not None:
            raise error
        return prepared  # type: ignore[return-value]  # without an error there is one

    def _run(self) -> None:
        for number in range(self._first, self._end):
            try:
                entry: tuple[int, _Prepared | None, BaseException | None] = (number, self._prepare(number), None)
            except BaseException as error:  # raised in the thread that asks
                entry = (number, None, error)
            while not self._is_closed.is_set():
                try:
                    self._ready.put(entry, timeout=_POLL_S)
                    break
                except queue.Full:
                    continue
            if self._is_closed.is_set() or entry[2] is not None:
                return
