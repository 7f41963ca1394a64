"""Single keys from the terminal: `KeyReader` reads them by name, on a screen of its own that leaves
nothing behind.

The alternate screen has no history: texts that were shown on it cannot be scrolled back to after
the session. The terminal is restored when the context ends, by an error or a signal too.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

_NAMES = {
    " ": "space",
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b": "escape",
}
_NAMES |= {"\x03": "q", "\x04": "q"}  # Ctrl-C and Ctrl-D
# cursor keys, with and without the application mode; with Ctrl they take large steps, as up and
# down do
_SEQUENCES = {
    f"\x1b{mode}{letter}": name
    for mode in "[O"
    for letter, name in zip("ABCD", ("up", "down", "right", "left"), strict=True)
}
_SEQUENCES |= {"\x1b[1;5C": "down", "\x1b[1;5D": "up", "\x1b[Z": "left"}
_SEQUENCE_SECONDS = (
    0.05  # the rest of a sequence follows its escape at once; nothing follows a key Escape
)
_SHOW_SCREEN, _HIDE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def has_terminal() -> bool:
    """Whether standard input and output are a terminal that can show a screen and read single
    keys."""
    if sys.stdin is None or sys.stdout is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        import termios
    except ImportError:  # not on Windows
        return False
    return bool(termios) and os.environ.get("TERM", "") not in ("", "dumb")


def parse_keys(typed: str) -> Iterator[str]:
    """The names of the keys of what a terminal sent; unknown sequences and control characters are
    left out."""
    at = 0
    while at < len(typed):
        if typed[at] == "\x1b" and typed[at + 1 : at + 2] in ("[", "O"):
            end = at + 2
            while end < len(typed) and not "\x40" <= typed[end] <= "\x7e":
                # ECMA-48: the final byte of a control sequence
                end += 1
            if name := _SEQUENCES.get(typed[at : end + 1]):
                yield name
            at = end + 1
            continue
        if (character := typed[at]) in _NAMES:
            yield _NAMES[character]
        elif character.isprintable():
            yield character
        at += 1


class KeyReader:
    """Context in which standard input gives single keys and standard output has a screen of its
    own."""

    def __enter__(self) -> Self:
        import termios
        import tty

        self._input = sys.stdin.fileno()
        self._saved: Any = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        mode = termios.tcgetattr(self._input)
        mode[3] &= ~termios.ISIG  # Ctrl-C is a key that quits, Ctrl-Z leaves no screen behind
        termios.tcsetattr(self._input, termios.TCSANOW, mode)
        sys.stdout.write(_SHOW_SCREEN)
        sys.stdout.flush()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import termios

        termios.tcsetattr(self._input, termios.TCSANOW, self._saved)
        sys.stdout.write(_HIDE_SCREEN)
        sys.stdout.flush()

    def read_keys(self) -> list[str]:
        """Wait for a key; returns the names of the keys typed since the last call, `q` when the
        terminal is closed."""
        # Polars catches SIGINT such that the system continues a `read`; a `select` ends, and the
        # handler of this program runs
        select.select([self._input], [], [])
        typed = os.read(self._input, 1024)
        while (
            typed.endswith(b"\x1b") and select.select([self._input], [], [], _SEQUENCE_SECONDS)[0]
        ):
            typed += os.read(self._input, 1024)
        return list(parse_keys(typed.decode(errors="ignore"))) if typed else ["q"]

    def show(self, screen: str) -> None:
        """Replace what the screen shows."""
        sys.stdout.write(f"\x1b[H\x1b[2J{screen}")
        sys.stdout.flush()
