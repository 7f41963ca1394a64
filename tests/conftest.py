"""What holds for all tests.

Property tests draw the same examples every time under CI, so that a red run can be repeated; elsewhere they look further. What this
process writes is not waited for until it is on the disk (a thousand runs of a hundred files each would be minutes of waiting); processes
of their own do wait, and `reliability/test_disk.py` holds that they do, and in which order. And here one drill serves all runs of a plan.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

os.fsync = lambda handle: None

TIMES = int(os.environ.get("SOAK_TIMES", "10"))  # as many examples of a property in `make soak`


def pytest_configure(config: pytest.Config) -> None:
    # told by xdist alone, which single-process runs may leave out
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long form of a property is the property with more examples: `make soak` runs them all so."""
    if config.option.markexpr != "soak":
        return
    seen: set[int] = set()
    for item in items:
        held = getattr(item, "obj", None)
        if not getattr(held, "is_hypothesis_test", False) or item.get_closest_marker("soak"):
            continue
        item.add_marker("soak")
        if id(held) not in seen:  # a test with parameters is one function
            seen.add(id(held))
            told = held._hypothesis_internal_use_settings  # type: ignore[union-attr]
            held._hypothesis_internal_use_settings = settings(  # type: ignore[union-attr]
                told, max_examples=told.max_examples * TIMES, deadline=None, suppress_health_check=list(HealthCheck)
            )


@pytest.fixture(scope="session", autouse=True)
def shapes() -> Iterator[Callable[..., Any]]:
    """What the drill takes from the documents, which costs more than a run over a few of them; without it, it is the same for all runs of
    a plan. `test_verify_drill.py` puts it back, and so do processes of their own."""
    from sanitize.pipeline import canaries

    whole = canaries._get_document_shapes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canaries, "_get_document_shapes", lambda documents: canaries._DEFAULT_SHAPES)
        yield whole


@pytest.fixture()
def console(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """The console script in this process: exit code, standard output, standard error."""
    from sanitize.cli import main

    held = signal.getsignal(signal.SIGTERM)

    def command(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sanitize", *map(str, words)])
        capsys.readouterr()
        try:
            main.main()
            code: Any = 0
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return int(code or 0), said.out, said.err

    yield command
    signal.signal(signal.SIGTERM, held)


class Forked:
    """A command that runs as a fork of the server: what of `subprocess.Popen` the tests use."""

    def __init__(self, place: str, words: Sequence[str], cwd: Path, env: Mapping[str, str], given: bytes = b"") -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - until it has ended
        self._who = socket.socket(socket.AF_UNIX)
        self._who.connect(place)
        said = json.dumps({"argv": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
        with tempfile.TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            socket.send_fds(self._who, [said], [stdin.fileno(), self._out.fileno(), self._err.fileno()])
        self._answers = self._who.makefile()
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has."""
        if self.returncode is None:
            self._who.settimeout(timeout)
            try:
                said = self._answers.readline()
            except TimeoutError:
                raise subprocess.TimeoutExpired("sanitize", timeout or 0.0) from None
            self.returncode = int(said)
            self._answers.close()
            self._who.close()
        return self.returncode

    def poll(self) -> int | None:
        """The same, if it has ended."""
        return self.wait() if self.returncode is not None or select.select([self._who], [], [], 0)[0] else None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it said to its end."""
        self.wait(timeout)
        told = []
        for stream in (self._out, self._err):
            stream.seek(0)
            told.append(stream.read().decode())
            stream.close()
        return told[0], told[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any] | None]:
    """Starts `sanitize` with some words (folder, environment, standard input) in a process at the head of a session of its own, in a tenth
    of the time that a new one takes to import the house; None where there is no fork."""
    if sys.platform != "linux":
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="s-") as folder:  # a socket's path is short
        place = f"{folder}/s"
        told = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "MIMALLOC_PURGE_DELAY": "600000"}
        told["_RJEM_MALLOC_CONF"] = "narenas:1,dirty_decay_ms:2000"  # as cli.main sets them before it imports anything
        words = [sys.executable, str(Path(__file__).with_name("server.py")), place]
        server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ, **told})
        until = time.monotonic() + 60
        while not Path(place).exists():
            assert server.poll() is None and time.monotonic() < until, "the server of commands has not come up"
            time.sleep(0.01)
        yield functools.partial(Forked, place)
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
