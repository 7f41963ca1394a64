"""Files as streams of bytes: gzip and zstd undone by their magic, a leading UTF-8 mark skipped, a break reported as a break."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from sanitize.readers.survey_types import Unreadable

MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
MARK = b"\xef\xbb\xbf"
HEAD = 1 << 16
Item = TypeVar("Item")


class Break(Exception):
    """The compressed stream ends before its end, or is damaged here; all bytes before were delivered."""


class _Inflated(io.RawIOBase):
    """A decompressed stream that delivers every byte before a break.

    Arrow throws away what it has decompressed in the call that meets the break, so the last bytes are asked for one by one.
    """

    def __init__(self, path: str, codec: str) -> None:
        self._path, self._codec, self._at = path, codec, 0
        self._source = self._open()
        self._last: io.BytesIO | None = None

    def _open(self) -> pa.NativeFile:
        return pa.CompressedInputStream(pa.OSFile(self._path), self._codec)

    def _before_break(self) -> io.BytesIO:
        self._source.close()
        self._source = self._open()
        left, found = self._at, bytearray()
        try:
            while left:
                left -= len(self._source.read(min(left, 1 << 16)))
            while byte := self._source.read(1):
                found += byte
        except OSError:
            pass
        return io.BytesIO(bytes(found))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._last is None:
            try:
                data = self._source.read(len(buffer))
            except OSError:
                self._last = self._before_break()
        if self._last is not None and not (data := self._last.read(len(buffer))):
            raise Break
        self._at += len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._source.close()
        super().close()


def codec(path: str) -> str | None:
    """How a file is compressed, by its first bytes."""
    with open(path, "rb") as file:
        first = file.read(4)
    return next((name for magic, name in MAGIC.items() if first.startswith(magic)), None)


def opened(path: str) -> io.BufferedReader:
    """A buffered stream of the file's bytes, decompressed; without seek where it was compressed."""
    name = codec(path)
    return io.BufferedReader(_Inflated(path, name) if name else io.FileIO(path), 1 << 17)


def head(path: str) -> bytes:
    """The first 64 KiB of a file, decompressed, without the UTF-8 mark; as much as there is before a break."""
    found = b""
    try:
        with opened(path) as stream:
            try:
                while len(found) < HEAD and (part := stream.read1(HEAD - len(found))):
                    found += part
            except Break:
                if not found:
                    raise Unreadable("truncated") from None
    except OSError:
        raise Unreadable("unreadable") from None
    return found.removeprefix(MARK)


def begins_as_text(head: bytes) -> bool:
    """Whether what a file begins with may be text. A NUL in the first line is of UTF-16 or of no text at all, further on a character."""
    return b"\0" not in head.partition(b"\n")[0] and not head.startswith(b"%PDF-")


def whole(path: str, limit: int) -> tuple[bytes, str]:
    """(the bytes of a file, "") or (b"", the reason why not); no more than the limit is read."""
    try:
        with opened(path) as stream:
            raw = stream.read(limit + 1)
    except Break:
        return b"", "truncated"
    except OSError:
        return b"", "unreadable"
    reason = "" if 0 < len(raw) <= limit else "too_large" if raw else "empty_file"
    return (b"" if reason else raw), reason


def guarded(path: str, read: Callable[[io.BufferedReader], Iterator[Item]]) -> Iterator[tuple[Item | None, str]]:
    """(item, "") for all that `read` gives from a file; if the file fails on the way, (None, reason) as the last.

    Only reading is guarded: an error of who takes the items passes.
    """
    try:
        with opened(path) as stream:
            for item in read(stream):
                yield item, ""
    except Break:
        yield None, "truncated"
    except OSError:
        yield None, "unreadable"
