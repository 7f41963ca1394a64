"""A command ends within about a second after SIGTERM, also in the middle of a long call into a
library."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sanitize.train.stop_signals import GRACE_SECONDS, end_on_signals

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import hashlib, sys, time
from sanitize.train.stop_signals import end_on_signals
with end_on_signals("stopped, run it again"):
    print("ready", flush=True)
    {work}
"""
WORK = {
    "between bytecodes": "while True: pass",
    "in a long call": "hashlib.pbkdf2_hmac('sha256', b'x', b'y', 200_000_000)",
    "swallowed": "while True:\n        try: time.sleep(60)\n        except BaseException: pass",
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("work", WORK)
def test_a_stop_signal_ends_the_process(work: str, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM.format(work=WORK[work])]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    began = time.monotonic()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number and "Traceback" not in stderr
    assert time.monotonic() - began < GRACE_SECONDS + 4  # four seconds for a busy machine
    if work == "between bytecodes":
        assert stderr == "stopped, run it again\n"


def test_handlers_and_descriptors_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with end_on_signals("stopped"):
        assert signal.getsignal(signal.SIGTERM) not in before
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
