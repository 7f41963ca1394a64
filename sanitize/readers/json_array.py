"""Splits a JSON array into its elements as bytes. Holds at most one element in memory and parses
none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader

from sanitize.readers.byte_streams import TruncatedStream

_STRUCTURAL_BYTE = re.compile(rb'["{}\[\],]')
# a string without its closing quote
_STRING_BODY = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_WHITESPACE = re.compile(rb"[ \t\r\n]*+")


def iter_elements(
    stream: BufferedReader, *, limit: int, chunk_bytes: int = 1 << 18
) -> Iterator[tuple[int, int, bytes | None]]:
    """(number from 1, byte where it begins, the element) for every element of the array in a
    stream.

    The element is None where it is over the limit. Only brackets and quotes are examined, so an
    invalid element costs only itself as long as its brackets and quotes are balanced; where they
    are not, it has no end, and the file counts as truncated there. Raises TruncatedStream after the
    last whole element of a file without its closing bracket. Anything behind that bracket is one
    more element.
    """
    buffer = bytearray()
    # `buffer_offset`: the byte of the file where `buffer` begins; `position` and `begin_position`
    # count from there
    buffer_offset = position = begin_position = depth = number = 0
    oversized_start = 0  # the byte of the file where an element begins that is too large to be held
    in_string = is_oversized = (
        False  # is_oversized: the current element is over the limit, its bytes are dropped
    )

    def element_start() -> int:
        """Where the element begins in `buffer`, after whitespace."""
        blank = _WHITESPACE.match(buffer, begin_position)
        return blank.end() if blank else begin_position

    def read_more() -> bool:
        """Reads one chunk more and drops the bytes of elements that were yielded. False at the end
        of the stream."""
        nonlocal buffer_offset, position, begin_position, is_oversized, oversized_start
        if not is_oversized and position - begin_position > limit:
            is_oversized, oversized_start = True, buffer_offset + element_start()
        dropped = position if is_oversized else begin_position
        del buffer[:dropped]
        buffer_offset, position, begin_position = buffer_offset + dropped, position - dropped, 0
        chunk = stream.read1(chunk_bytes)
        buffer.extend(chunk)
        return bool(chunk)

    while not (found := _STRUCTURAL_BYTE.search(buffer)):
        if not read_more():
            return
    position = begin_position = found.end()
    while True:
        if in_string:
            body = _STRING_BODY.match(buffer, position)
            position = body.end() if body else position
            if buffer[position : position + 1] != b'"':
                # the string continues in the next chunk, or an escape is cut
                if not read_more():
                    raise TruncatedStream
                continue
            position, in_string = position + 1, False
        found = _STRUCTURAL_BYTE.search(buffer, position)
        if found is None:
            position = len(buffer)
            if read_more():
                continue
            if not depth and not is_oversized and buffer[begin_position:].strip():
                yield (
                    number + 1,
                    buffer_offset + begin_position,
                    bytes(buffer[begin_position:]).strip(),
                )
            raise TruncatedStream
        byte, position = found[0], found.end()
        if byte == b'"':
            in_string = True
        elif byte in b"{[":
            depth += 1
        elif byte in b"}]" and depth:
            depth -= 1
        elif not depth and byte != b"}":
            start = element_start()
            is_empty = start >= found.start() and not is_oversized
            if not (is_empty and byte == b"]"):
                number += 1
                too_large = is_oversized or found.start() - start > limit
                yield (
                    number,
                    oversized_start if is_oversized else buffer_offset + start,
                    None if too_large else bytes(buffer[start : found.start()]).rstrip(),
                )
            is_oversized, begin_position = False, position
            if byte == b"]":
                break
    while not buffer[position:].strip():
        position = begin_position = len(buffer)
        if not read_more():
            return
    yield number + 1, buffer_offset + position, b""
