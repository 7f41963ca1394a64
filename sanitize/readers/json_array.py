"""The elements of a JSON array as bytes, one after the other: no more than one of them is held, and none is parsed here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader

from sanitize.readers.byte_streams import Break

_MARK = re.compile(rb'["{}\[\],]')
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)  # all of a string but its last quote
_BLANK = re.compile(rb"[ \t\r\n]*+")


def elements(stream: BufferedReader, *, limit: int, chunk: int = 1 << 18) -> Iterator[tuple[int, int, bytes | None]]:
    """(number from 1, byte where it begins, the element) for every element of the array that a stream is.

    The element is None where it is over the limit. Brackets and quotes are all that is looked at, so one that is no JSON costs itself
    only, as long as those are even; where they are not, it has no end, and with it the file breaks off. Raises Break behind the last
    whole element of a file without its last bracket; what stands behind that bracket is one more element.
    """
    held = bytearray()
    at = place = begin = depth = number = 0  # `at`: the byte of the file where what is held begins
    since = 0  # ... and where an element does that is too large to be held
    quoted = cut = False

    def first_of() -> int:
        """Where the element begins, blanks left out."""
        blank = _BLANK.match(held, begin)
        return blank.end() if blank else begin

    def more() -> bool:
        """One chunk more, and what has been given is forgotten."""
        nonlocal at, place, begin, cut, since
        if not cut and place - begin > limit:
            cut, since = True, at + first_of()
        gone = place if cut else begin
        del held[:gone]
        at, place, begin = at + gone, place - gone, 0
        part = stream.read1(chunk)
        held.extend(part)
        return bool(part)

    while not (found := _MARK.search(held)):
        if not more():
            return
    place = begin = found.end()
    while True:
        if quoted:
            stop = _STRING.match(held, place)
            place = stop.end() if stop else place
            if held[place : place + 1] != b'"':  # nothing more, or half an escape
                if not more():
                    raise Break
                continue
            place, quoted = place + 1, False
        found = _MARK.search(held, place)
        if found is None:
            place = len(held)
            if more():
                continue
            if not depth and not cut and held[begin:].strip():
                yield number + 1, at + begin, bytes(held[begin:]).strip()
            raise Break
        mark, place = found[0], found.end()
        if mark == b'"':
            quoted = True
        elif mark in b"{[":
            depth += 1
        elif mark in b"}]" and depth:
            depth -= 1
        elif not depth and mark != b"}":
            first = first_of()
            empty = first >= found.start() and not cut
            if not (empty and mark == b"]"):
                number += 1
                over = cut or found.start() - first > limit
                yield number, since if cut else at + first, None if over else bytes(held[first : found.start()]).rstrip()
            cut, begin = False, place
            if mark == b"]":
                break
    while not held[place:].strip():
        place = begin = len(held)
        if not more():
            return
    yield number + 1, at + place, b""
