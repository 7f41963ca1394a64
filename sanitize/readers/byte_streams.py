"""Input files as byte streams: decompresses gzip and zstd by their magic bytes, skips a leading
UTF-8 BOM, and reports truncated streams.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from sanitize.readers.survey_types import UnreadableFile

COMPRESSION_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
UTF8_BOM = b"\xef\xbb\xbf"
HEAD_BYTES = 1 << 16
Item = TypeVar("Item")


# decompressed bytes of a file: for each compressed byte, and for any file. Deflate reaches 1,032;
# no real text compresses that well
MAX_COMPRESSION_RATIO, FREE_DECOMPRESSED_BYTES = 1_000, 1 << 30


class TruncatedStream(Exception):
    """A file ends too early, its compressed stream is damaged, or it is a decompression bomb
    (`reason`). What precedes the break was delivered before: bytes by `open_stream`, whole records
    or mails by the readers."""

    reason = "truncated"


class BombStream(TruncatedStream):
    """A compressed stream that holds far more than a file of its size can."""

    reason = "bomb"


class _DecompressedStream(io.RawIOBase):
    """A decompressed stream that delivers every byte before a break.

    Arrow discards what it has decompressed in the call that meets the break, so the last bytes are
    read again one by one.
    """

    def __init__(self, path: str, codec: str) -> None:
        self._path, self._codec, self._position = path, codec, 0
        self._source = self._open()
        self._bytes_before_break: io.BytesIO | None = None
        self._max_bytes = MAX_COMPRESSION_RATIO * os.path.getsize(path) + FREE_DECOMPRESSED_BYTES

    def _open(self) -> pa.NativeFile:
        return pa.CompressedInputStream(pa.OSFile(self._path), self._codec)

    def _read_until_break(self) -> io.BytesIO:
        self._source.close()
        self._source = self._open()
        remaining, tail = self._position, bytearray()
        try:
            while remaining:
                remaining -= len(self._source.read(min(remaining, 1 << 16)))
            while byte := self._source.read(1):
                tail += byte
        except OSError:
            pass
        return io.BytesIO(bytes(tail))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._bytes_before_break is None:
            try:
                data = self._source.read(len(buffer))
            except OSError:
                self._bytes_before_break = self._read_until_break()
        if self._bytes_before_break is not None and not (
            data := self._bytes_before_break.read(len(buffer))
        ):
            raise TruncatedStream
        if self._position > self._max_bytes:
            raise BombStream
        self._position += len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._source.close()
        super().close()


def detect_compression(path: str) -> str | None:
    """The codec of a compressed file (gzip or zstd), by its first bytes; None where it is not
    compressed."""
    with open(path, "rb") as file:
        first = file.read(4)
    return next(
        (name for magic, name in COMPRESSION_MAGIC.items() if first.startswith(magic)), None
    )


def open_stream(path: str) -> io.BufferedReader:
    """A buffered stream of the file's bytes, decompressed. It is not seekable where the file is
    compressed."""
    name = detect_compression(path)
    return io.BufferedReader(_DecompressedStream(path, name) if name else io.FileIO(path), 1 << 17)


def read_head(path: str) -> bytes:
    """The first 64 KiB of a file, decompressed, without the UTF-8 BOM; what precedes a break if
    there is one. Raises UnreadableFile."""
    head = b""
    try:
        with open_stream(path) as stream:
            try:
                while len(head) < HEAD_BYTES and (chunk := stream.read1(HEAD_BYTES - len(head))):
                    head += chunk
            except TruncatedStream:
                if not head:
                    raise UnreadableFile("truncated") from None
    except OSError:
        raise UnreadableFile("unreadable") from None
    return head.removeprefix(UTF8_BOM)


def looks_like_text(head: bytes) -> bool:
    """True where these first bytes of a file may be text: no PDF. A NUL in the first line means
    UTF-16 or no text; later NULs are allowed."""
    return b"\0" not in head.partition(b"\n")[0] and not head.startswith(b"%PDF-")


def read_whole(path: str, limit: int) -> tuple[bytes, str]:
    """(the bytes of a file, "") or (b"", the reason why it cannot be read). Reads at most limit + 1
    bytes."""
    try:
        with open_stream(path) as stream:
            raw = stream.read(limit + 1)
    except TruncatedStream as error:
        return b"", error.reason
    except OSError:
        return b"", "unreadable"
    reason = "" if 0 < len(raw) <= limit else "too_large" if raw else "empty_file"
    return (b"" if reason else raw), reason


def read_guarded(
    path: str, read: Callable[[io.BufferedReader], Iterator[Item]]
) -> Iterator[tuple[Item | None, str]]:
    """(item, "") for every item that `read` yields from a file; if reading the file fails, (None,
    reason) as the last item.

    Only reading is guarded: an exception of the consumer passes through.
    """
    try:
        with open_stream(path) as stream:
            for item in read(stream):
                yield item, ""
    except TruncatedStream as error:
        yield None, error.reason
    except OSError:
        yield None, "unreadable"
