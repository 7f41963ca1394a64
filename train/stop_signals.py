"""Stop signals of the commands that train and evaluate: they end about a second after SIGINT or
SIGTERM, whatever they compute then.

A Python signal handler runs only between two bytecodes: a long call into a library, such as a step
of a large model, delays it, and a library may swallow its exception. A thread therefore ends the
process `GRACE_SECONDS` after the signal. That is as safe as a kill: what is written to disk is
complete at every moment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

GRACE_SECONDS = 1.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CANCEL = b"\0"


@contextlib.contextmanager
def end_on_signals(message: str) -> Iterator[None]:
    """Within the block, the first stop signal prints `message` and raises SystemExit(128 + signal),
    and leaving the block then ends the process; a second one ends the process at once. To be used
    in the main thread, around all that a command does."""
    previous = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    received_number = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal received_number
        received_number = number
        for one in _STOP_SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        sys.stderr.write(message + "\n")
        sys.stderr.flush()
        raise SystemExit(128 + number)

    def watch() -> None:
        while (received := os.read(read_end, 1)) not in (_CANCEL, b""):
            if received[0] in _STOP_SIGNALS and not is_done.wait(GRACE_SECONDS):
                os._exit(128 + received[0])

    is_done = threading.Event()
    watcher = threading.Thread(target=watch, name="stop signals", daemon=True)
    watcher.start()
    previous_descriptor = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        for number in _STOP_SIGNALS:
            signal.signal(number, handle)
        yield
    finally:
        is_done.set()
        signal.set_wakeup_fd(previous_descriptor)
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.write(write_end, _CANCEL)
        watcher.join()
        os.close(write_end)
        os.close(read_end)
        if received_number:
            end_process(128 + received_number)


def end_process(code: int) -> None:
    """End the process without the interpreter's finalization, which takes seconds where torch is
    loaded."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
