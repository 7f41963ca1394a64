"""Settings and fixtures of all tests.

Property tests draw the same examples every time under CI, so that a failing run can be repeated;
elsewhere the examples are random. `os.fsync` does nothing in the test process, because a thousand
runs of a hundred files each would wait for minutes; a test marked `real_fsync` calls the real one.
Commands in processes of their own do call it, and `reliability/test_disk_errors.py` checks that
they do and in which order. The canary check runs once per plan in this process, and the options of
the commands are read once.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import select
import shutil
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
import typer.main
from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# A property runs at most this many examples here; `make soak` runs a multiple of the number that
# the property names
MAX_EXAMPLES = 25
SOAK_EXAMPLE_FACTOR = int(os.environ.get("SOAK_TIMES", "10"))


def pytest_configure(config: pytest.Config) -> None:
    # registered by xdist, which may be missing in single-process runs
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")
    config.addinivalue_line("markers", "real_fsync: `os.fsync` in the test process is the real one")
    config.addinivalue_line(
        "markers", "new_interpreter: commands are started as by a user, not as forks of server.py"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects without garbage collection: all objects stay, and searching them again and again
    takes a seventh of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sets the number of examples of every property test. `make soak` also runs these tests."""
    is_soak = config.option.markexpr == "soak"
    changed_functions: set[int] = set()
    for item in items:
        function = getattr(item, "obj", None)
        if not getattr(function, "is_hypothesis_test", False) or item.get_closest_marker("soak"):
            continue
        if is_soak:
            item.add_marker("soak")
        if id(function) not in changed_functions:  # all parameters of a test share one function
            changed_functions.add(id(function))
            profile = function._hypothesis_internal_use_settings  # type: ignore[union-attr]
            changes: dict[str, Any] = {
                "max_examples": profile.max_examples * SOAK_EXAMPLE_FACTOR,
                "deadline": None,
                "suppress_health_check": list(HealthCheck),
            }
            if not is_soak:
                changes = {"max_examples": min(profile.max_examples, MAX_EXAMPLES)}
            function._hypothesis_internal_use_settings = settings(  # type: ignore[union-attr]
                profile, **changes
            )


@pytest.fixture(scope="session", autouse=True)
def real_fsync() -> Iterator[Callable[[int], None]]:
    """Returns the real `os.fsync`, and replaces it by one that does nothing."""
    fsync = os.fsync
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield fsync


@pytest.fixture(autouse=True)
def restore_fsync(
    request: pytest.FixtureRequest, real_fsync: Callable[[int], None]
) -> Iterator[None]:
    """Restores the real `os.fsync` for a test marked `real_fsync`."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("real_fsync"):
            patch.setattr(os, "fsync", real_fsync)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_core() -> Iterator[None]:
    """A command in this process starts worker processes only where a test names a number of
    workers: two of them cost as much as ten runs over a few documents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def read_command_options_once() -> Iterator[None]:
    """Typer reads the options of all commands from their signatures at each call of the console
    script (30 ms); the result is the same for all calls in one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def get_real_document_shapes() -> Iterator[Callable[..., Any]]:
    """Returns the real `_get_document_shapes`, and replaces it by one that returns the default
    shapes.

    The canary check reads the shapes of documents, which costs more than a run over a few
    documents. With the default shapes its result is the same for all runs of a plan.
    `pipeline/test_canaries.py` uses the real function, and so do commands in processes of their
    own."""
    from sanitize.pipeline import canaries

    get_document_shapes = canaries._get_document_shapes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canaries, "_get_document_shapes", lambda documents: canaries._DEFAULT_SHAPES)
        yield get_document_shapes


@pytest.fixture(scope="session")
def copy_prepared(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Callable[[Path], object], Path], Path]:
    """Copies what `prepare` writes into a folder, and returns the folder. A process calls `prepare`
    once: a copy of a published corpus costs a tenth of a run."""
    prepared: dict[Callable[[Path], object], Path] = {}

    def copy(prepare: Callable[[Path], object], folder: Path) -> Path:
        if prepare not in prepared:
            prepared[prepare] = tmp_path_factory.mktemp("prepared")
            prepare(prepared[prepare])
        return Path(shutil.copytree(prepared[prepare], folder, dirs_exist_ok=True, symlinks=True))

    return copy


@pytest.fixture()
def console(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Runs the console script in this process; returns exit code, standard output and standard
    error."""
    from sanitize.cli import main

    sigterm_handler = signal.getsignal(signal.SIGTERM)

    def run_command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sanitize", *map(str, arguments)])
        # Click would name the program `python -m pytest`
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
        capsys.readouterr()
        try:
            main.main()
            exit_code: Any = 0
        except SystemExit as exit_request:
            exit_code = exit_request.code
        captured = capsys.readouterr()
        return int(exit_code or 0), captured.out, captured.err

    yield run_command
    signal.signal(signal.SIGTERM, sigterm_handler)


class ForkedCommand:
    """A command that runs as a fork of `server.py`; has the methods of `subprocess.Popen` that the
    tests use. Its standard error goes to the file descriptor `stderr`, if one is given."""

    def __init__(
        self,
        socket_path: str,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin_bytes: bytes = b"",
        stderr: int | None = None,
    ) -> None:
        self._out, self._err = (
            tempfile.TemporaryFile(),  # noqa: SIM115
            tempfile.TemporaryFile(),  # noqa: SIM115
        )
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(socket_path)
        request = json.dumps({"argv": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        with tempfile.TemporaryFile() as stdin:
            stdin.write(stdin_bytes)
            stdin.seek(0)
            streams = [
                stdin.fileno(),
                self._out.fileno(),
                self._err.fileno() if stderr is None else stderr,
            ]
            socket.send_fds(self._connection, [request], streams)
        self._replies = self._connection.makefile()
        self.pid = int(self._replies.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end of the process; returns its exit code."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                status_line = self._replies.readline()
            except TimeoutError:
                raise subprocess.TimeoutExpired("sanitize", timeout or 0.0) from None
            self.returncode = int(status_line)
            self._replies.close()
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """Returns the exit code if the process has ended, else None."""
        return (
            self.wait()
            if self.returncode is not None or select.select([self._connection], [], [], 0)[0]
            else None
        )

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Waits for the end of the process; returns its standard output and standard error."""
        self.wait(timeout)
        texts = []
        for stream in (self._out, self._err):
            stream.seek(0)
            texts.append(stream.read().decode())
            stream.close()
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Sends SIGKILL to the process."""
        self.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def run_command_server(**environment: str) -> Iterator[Callable[..., Any]]:
    """Runs `server.py`; the function starts `sanitize` with arguments, folder, environment and
    standard input as a fork of it."""
    with tempfile.TemporaryDirectory(prefix="s-") as folder:  # the path of a socket must be short
        socket_path = f"{folder}/s"
        server_environment = {
            "POLARS_MAX_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MIMALLOC_PURGE_DELAY": "600000",
        }
        server_environment["_RJEM_MALLOC_CONF"] = (
            "narenas:1,dirty_decay_ms:2000"  # as cli.main sets them before it imports anything
        )
        server_environment |= environment
        server_command = [sys.executable, str(Path(__file__).with_name("server.py")), socket_path]
        server = subprocess.Popen(
            server_command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **server_environment},
        )
        deadline = time.monotonic() + 60
        while not Path(socket_path).exists():
            assert server.poll() is None and time.monotonic() < deadline, (
                "tests/server.py has not started"
            )
            time.sleep(0.01)
        yield functools.partial(ForkedCommand, socket_path)
        assert server.stdin is not None
        server.stdin.close()
        server.wait()


@pytest.fixture(scope="session")
def command_server() -> Callable[..., contextlib.AbstractContextManager[Callable[..., Any]]]:
    """The function that runs a `server.py` with additional environment variables."""
    return run_command_server


@pytest.fixture(scope="session")
def start_forked_command() -> Iterator[Callable[..., Any] | None]:
    """Starts `sanitize` with arguments, folder, environment and standard input, as a session leader
    in a process of its own.

    The process is a fork of `server.py`, which has imported the packages: it starts in a tenth of
    the time of a new interpreter. None on systems other than Linux."""
    if sys.platform != "linux":
        yield None
        return
    with run_command_server() as start_command:
        yield start_command
