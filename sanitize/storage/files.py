"""Writes files atomically (temporary file, fsync, rename), parses JSON and TOML that somebody else
may have written, and hashes files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import sys
import tomllib
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from sanitize.core import failpoints
from sanitize.errors import OutputBroken

# in place of the hash of an input file that cannot be read
UNREADABLE_SHA256 = hashlib.sha256(b"unreadable").hexdigest()
# a file or folder without permission, and a folder, which stands for the files in it that could not
# be listed
_MISSING_ACCESS = (errno.EACCES, errno.EPERM, errno.EISDIR)


class NotRegularFileError(OSError):
    """A pipe, a socket or a device in the place of a file."""


# of brackets in a line of JSON; Polars recurses over objects, and ends the process at some 600
MAX_NESTING = 128
_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_INNERMOST_PAIR = re.compile(rb"\[\]|\{\}")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


@contextlib.contextmanager
def open_regular_file(path: Path) -> Iterator[BufferedReader]:
    """Opens a file to read its bytes.

    Raises OSError; NotRegularFileError for a pipe, at which a reader waits for a writer, and for a
    device, which may have no end.
    """
    with open(
        path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    ) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotRegularFileError("not a regular file")
        yield file


def read_regular_file(path: Path) -> bytes:
    """The bytes of a file; raises as `open_regular_file` does."""
    with open_regular_file(path) as file:
        return file.read()


class FileState(NamedTuple):
    """What changes when a file is written or replaced. Programs that restore `mtime_ns` (copies,
    archives) cannot restore `ctime_ns`."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def stat_file(path: str | Path) -> FileState | None:
    """The state of a file; None if there is none or it cannot be asked for."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileState(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits; raises as `open_regular_file` does."""
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def input_sha256(path: str) -> str:
    """The SHA-256 of an input file; that of the word `unreadable` for a file or folder that cannot
    be read, which is quarantined."""
    try:
        return file_sha256(Path(path))
    except OSError as error:
        if error.errno in _MISSING_ACCESS:
            return UNREADABLE_SHA256
        raise


def tree_sha256(path: Path) -> str:
    """The SHA-256 over the relative names and hashes of all files below a folder; for a file, over
    its own."""
    total = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            total.update(f"{file.relative_to(path)}\0{file_sha256(file)}\n".encode())
    return total.hexdigest()


def fsync(path: Path) -> None:
    """Flushes a file or a folder to the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(
    path: Path, value: object, temp_path: Path | None = None, *, indent: int | None = 1
) -> None:
    """Writes JSON atomically: temporary file (`temp_path`, or `path` with .tmp appended), fsync,
    rename, fsync of the folder. With `indent` for people; without, a large value is written ten
    times as fast."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=indent, default=str)
    replace_file(path, text.encode() + b"\n", temp_path)


def replace_file(path: Path, content: bytes, temp_path: Path | None = None) -> None:
    """Writes a file atomically, as `write_json` does."""
    temp_path = temp_path or path.with_name(path.name + ".tmp")
    try:
        with temp_path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        failpoints.hit("file:temp_written")
        temp_path.rename(path)
    except BaseException:
        temp_path.unlink(missing_ok=True)
        raise
    fsync(path.parent)


def keep_latest(path: Path, earlier: Iterable[Path]) -> None:
    """Gives a file that was just written a later time than the earlier ones, whose order is that of
    their times: the clock may have gone back since."""
    times, latest = path.stat(), max((one.stat().st_mtime_ns for one in earlier), default=0)
    if times.st_mtime_ns <= latest:
        os.utime(path, ns=(times.st_atime_ns, latest + 1_000_000))


def write_private_lines(path: Path, lines: Iterable[str], *, overwrite: bool) -> None:
    """Writes lines of text atomically to a file of mode 0600: temporary file, fsync, rename, fsync
    of the folder.

    Raises FileExistsError for an existing file unless `overwrite`.
    """
    temp_path = path.with_name(path.name + ".tmp")
    try:
        handle = os.open(
            temp_path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600
        )
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        failpoints.hit("lines:temp_written")
        if overwrite:
            temp_path.rename(path)
        else:
            os.link(temp_path, path)
            temp_path.unlink()
    except BaseException:
        temp_path.unlink(missing_ok=True)
        raise
    fsync(path.parent)


@contextlib.contextmanager
def attempt_file(path: Path, temp_path: Path | None) -> Iterator[Path]:
    """Where a task writes a file: `temp_path`, which is then renamed to `path`, if several attempts
    may run at once; else `path`."""
    yield temp_path or path
    if temp_path:
        temp_path.rename(path)


def describe_read_error(error: Exception) -> str:
    """Why a file that the user named was not read."""
    if isinstance(error, NotRegularFileError):
        return "is not a regular file, but a pipe or a device"
    return f"cannot be read ({type(error).__name__})"


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None if the file is missing, unreadable, no regular file or not a
    JSON object."""
    try:
        return dict(parse_json(read_regular_file(path).decode("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def read_saved_json(path: Path, remedy: str) -> dict[str, Any] | None:
    """The object in a JSON file that sanitize wrote; None if the file is missing. Raises
    OutputBroken, with the remedy, for a damaged one."""
    saved = read_json(path)
    if saved is None and os.path.lexists(path):
        raise OutputBroken(f"{path}: is damaged: it cannot be read as a JSON object. {remedy}")
    return saved


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError for anything else, also for brackets nested
    deeper than Python can follow."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def require_shallow_lines(data: bytes) -> bytes:
    """JSON lines as they are, for parsers in compiled code, whose recursion would end the process.

    Raises ValueError if brackets in a line are nested deeper than `MAX_NESTING`.
    """
    for line in data.split(b"\n"):
        if line.count(b"[") + line.count(b"{") > MAX_NESTING:
            brackets = _JSON_STRING.sub(b"", line).translate(None, _NO_BRACKETS)
            for _ in range(MAX_NESTING):  # each turn removes the innermost pairs
                brackets = _INNERMOST_PAIR.sub(b"", brackets)
                if not brackets:
                    break
            else:
                raise ValueError("nested too deeply")
    return data


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text. Raises TOMLDecodeError for anything else, also for brackets nested
    deeper than Python can follow."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("nested too deeply") from None


# those of `stdin`, `stdout` and `stderr` with which the process was started closed
closed_streams: set[str] = set()


def open_closed_streams() -> None:
    """Opens the null device for those of stdin, stdout and stderr with which the process was
    started closed (`>&-`).

    The next file that is opened would get their number, and what is printed would be written into
    it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(opened, True)
            closed_streams.add(name)
            setattr(sys, name, open(opened, mode, closefd=False))  # noqa: SIM115 - stays open until the process ends
