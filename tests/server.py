"""Commands as processes of their own that need not import the house first: this process has, and each of them is a fork of it.

    python tests/server.py SOCKET      until standard input ends

What comes through the socket is one JSON object (argv, cwd, env) with three open files (its streams); what goes back is the number of the
process, and then how it ended. Nothing but imports has been done when a fork is made, so that no thread and no lock is missing in it; the
workers that a command starts are spawned as ever. `tests/conftest.py` starts it; what is about the start of a process itself starts one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from pathlib import Path


def serve(place: str) -> None:
    """Serve; returns in a fork, which then is the command."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(heard, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    asked: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listener, heard], [], [])
        if listener in ready:
            who, _ = listener.accept()
            said, files, _, _ = socket.recv_fds(who, 1 << 20, 3)
            number = os.fork()
            if not number:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (listener, who, *asked.values()):
                    one.close()
                os.close(heard)
                os.close(wake)
                become(json.loads(said), *files)
                return
            for file in files:
                os.close(file)
            who.sendall(f"{number}\n".encode())
            asked[number] = who
        if heard in ready:
            os.read(heard, 1 << 10)
        while asked:
            number, status = os.waitpid(-1, os.WNOHANG)
            if not number:
                break
            with asked.pop(number) as who:
                who.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        if 0 in ready and not os.read(0, 1 << 10):
            os._exit(0)


def become(told: dict[str, object], *streams: int) -> None:
    """Take on what the command was told: its words, folder, environment and streams, at the head of a session of its own."""
    os.setsid()
    os.chdir(str(told["cwd"]))
    os.environ.clear()
    os.environ.update(told["env"])  # type: ignore[call-overload]
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["sanitize", *told["argv"]]  # type: ignore[misc]
    failpoints._wanted_point, failpoints._hits_left[0] = failpoints._parse_setting(os.environ.get("SANITIZE_CRASH_AT", ""))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import sanitize

    for name in sanitize.__all__:
        getattr(sanitize, name)
    import duckdb
    import jinja2

    from sanitize.cli import main
    from sanitize.core import failpoints
    from sanitize.kinds.kind import all_kinds

    all_kinds()
    assert duckdb and jinja2
    serve(sys.argv[1])
    main.main()
