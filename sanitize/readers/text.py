"""Plain text files: one document each, or one for each paragraph or line (`--split`).

A file is text by its name (`.txt`, `.text`) and only where its beginning is nothing else that can be read: a mail or JSON lines in a
`.txt` are a mail and JSON lines. Bytes that are no UTF-8 are read as Windows-1252, as in mail without a charset. What stands in a file
stays as it is, line ends too; a paragraph ends before the line end behind which a blank line, or none, follows.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from io import BufferedReader

import pyarrow as pa

from sanitize.readers.byte_streams import MARK, begins_as_text, codec, guarded, whole
from sanitize.readers.jsonl import lines
from sanitize.readers.mail import decoded
from sanitize.readers.staging_writer import Records, Text
from sanitize.readers.standard_form import TEXT
from sanitize.readers.survey_types import Layout, Look, Roles, Unit

FORMATS = {"text": (".txt", ".text")}
COLUMNS = pa.schema([("text", TEXT)])
PIECE = 64 << 20  # bytes of a file of lines that one worker takes


def recognise(head: bytes) -> str | None:
    """Never by its content: what is no text begins like text too."""
    return None


def accepts(head: bytes, format: str) -> str:
    """The format, unless the beginning is no text."""
    if b"\0" in head:  # texts of people hold one where a line of a log was damaged; what is packed or drawn is no UTF-8
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError:
            return ""
    return format if begins_as_text(head) else ""


def look(path: str, format: str, roles: Roles) -> Look:
    """The units of one file; one of lines is cut where it is large and not compressed."""
    size = os.path.getsize(path)
    step = PIECE if roles.split == "lines" and codec(path) is None and size > 2 * PIECE else size
    cuts = list(range(0, size, step or 1)) or [0]
    pieces = [
        Unit(no=0, path=path, format=format, files=(path,), start=start, stop=stop)
        for start, stop in zip(cuts, [*cuts[1:], None], strict=True)
    ]
    return Look(schema=COLUMNS, soft=False, pieces=tuple(pieces), columns=(("text", "text"),))


def put(path: str, how: str, unit: Unit, layout: Layout, records: Records[Text], limit: int) -> None:
    """The documents of one file."""
    split = layout.roles.split
    if split == "file":
        raw, reason = whole(path, limit)
        records.put(None if reason else (decoded(raw.removeprefix(MARK), None), None), path, "file", reason, len(raw))
        return
    count = 0
    begun = lines if split == "lines" else paragraphs
    # a loop over documents: each is decoded for itself
    for found, reason in guarded(path, lambda stream: begun(stream, start=unit.start, stop=unit.stop, limit=limit)):
        if found is None:
            records.put(None, path, f"after {split[:-1]} {count}", reason)
            continue
        count += 1
        number, at, one = found
        place = f"line at byte {at}" if unit.start else f"line {number}"
        records.put(None if one is None else (decoded(one, None), None), path, place, "too_large" if one is None else "", len(one or b""))


def paragraphs(stream: BufferedReader, *, start: int = 0, stop: int | None = None, limit: int) -> Iterator[tuple[int, int, bytes | None]]:
    """(number of its first line from 1, byte where it begins, the paragraph) for every run of lines that are not blank; None for one
    over the limit, of which no more than that is held. A file is never cut for them: `start` is 0 and there is no `stop`."""
    assert not start and stop is None
    held, cut, at, number, first, begin, fresh = bytearray(), False, 0, 0, 0, 0, True
    while True:
        part = stream.readline(1 << 20)
        if not at:
            at, part = (len(MARK), part[len(MARK) :]) if part.startswith(MARK) else (0, part)
        number += fresh
        if (fresh and not part.strip()) or not part:
            if held or cut:
                yield first, begin, None if cut else bytes(held.removesuffix(b"\n").removesuffix(b"\r"))
            held, cut = bytearray(), False
            if not part:
                return
        else:
            if not held and not cut:
                first, begin = number, at
            held += part
            if len(held) > limit:
                held, cut = bytearray(), True
        fresh = part.endswith(b"\n")
        at += len(part)
