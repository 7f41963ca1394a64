"""Starts commands faster: forks of a process that has imported all packages. Each command is a
process of its own, as for a user.

    python tests/server.py SOCKET      until standard input ends

A client sends one JSON object (argv, cwd, env) and three open files (its standard streams). The
answers are the process id and, when the process has ended, its exit code. Only imports and
functions without threads run before a fork, so that no thread and no lock is lost by it; the
functions compute what each command would compute again (a third of its time). Workers of a command
are spawned as usual. `tests/conftest.py` starts the server; tests of the start of a process do not
use it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path


def serve(socket_path: str) -> None:
    """Serve; returns in a fork, which then is the command."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path)
    listener.listen()
    signal_pipe, wakeup_pipe = os.pipe()
    os.set_blocking(wakeup_pipe, False)
    os.set_blocking(signal_pipe, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_pipe)
    clients: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listener, signal_pipe], [], [])
        if listener in ready:
            client, _ = listener.accept()
            request, files, _, _ = socket.recv_fds(client, 1 << 20, 3)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for open_socket in (listener, client, *clients.values()):
                    open_socket.close()
                os.close(signal_pipe)
                os.close(wakeup_pipe)
                apply_request(json.loads(request), *files)
                return
            for file in files:
                os.close(file)
            client.sendall(f"{pid}\n".encode())
            clients[pid] = client
        if signal_pipe in ready:
            os.read(signal_pipe, 1 << 10)
        while clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            with clients.pop(pid) as client:
                client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        if 0 in ready and not os.read(0, 1 << 10):
            os._exit(0)


def apply_request(request: dict[str, object], *streams: int) -> None:
    """Set arguments, folder, environment and streams of this process to those of the request, in a
    session of its own."""
    os.setsid()
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    for descriptor, file in enumerate(streams):
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = ["sanitize", *request["argv"]]  # type: ignore[misc]
    if "SHIM_UNDER" in os.environ:  # this server was started with the library of reliability/shim.c
        ctypes.CDLL(None).shim_read_environment()
    failpoints._wanted_point, failpoints._hits_left[0] = failpoints._parse_setting(
        os.environ.get("SANITIZE_CRASH_AT", "")
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import sanitize

    for name in sanitize.__all__:
        getattr(sanitize, name)
    import duckdb
    import faker
    import typer.main

    from sanitize.cli import main
    from sanitize.core import failpoints
    from sanitize.kinds.kind import all_kinds
    from sanitize.reporting import page_templates

    all_kinds()
    assert duckdb and faker
    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(main.app)
    for template in (Path(page_templates.__file__).parent / "templates").glob("*.j2"):
        page_templates.load_template(template.name)
    serve(sys.argv[1])
    main.main()
