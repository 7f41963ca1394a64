"""Reader for plain text files: one document a file, a paragraph or a line (`--documents`).

A file is text by its name (`.txt`, `.log`, `.md` and others), or if it was named by the user, is
plain text, and its name says no format; and only where its beginning is not another supported
format: mail or JSON lines in a `.txt` are read as mail or JSON lines, those in a language of markup
or code as text. Lines that are not UTF-8 are decoded in
the encoding that `encodings.py` guesses from them, or quarantined. The content is not changed,
including line ends; a paragraph ends before the line end that precedes a blank line or the end of
the file.
"""

from __future__ import annotations

import codecs
import functools
import os
import re
from collections.abc import Iterator
from io import BufferedReader

import pyarrow as pa

from sanitize.readers.byte_streams import (
    HEAD_BYTES,
    UTF8_BOM,
    detect_compression,
    looks_like_text,
    read_guarded,
    read_whole,
)
from sanitize.readers.encodings import FileDecoder
from sanitize.readers.jsonl import iter_lines
from sanitize.readers.staging_writer import RecordBatcher, TextDocument
from sanitize.readers.standard_form import TEXT_TYPE
from sanitize.readers.survey_types import FileSurvey, InputUnit, Roles, StagingLayout
from sanitize.storage.records.lineage import position_in_part

# what begins like a mail or like JSON in such a file is no mail and no record
MARKUP_SUFFIXES = (
    *(".md", ".markdown", ".rst", ".html", ".htm", ".xml", ".tex"),
    *(".py", ".ipynb", ".vcf", ".ics", ".srt", ".vtt"),
)
# files that often lie beside a data set without being part of it
COMPANION_SUFFIXES = (".log", *MARKUP_SUFFIXES)
FORMATS = {"text": (".txt", ".text", *COMPANION_SUFFIXES)}
_CONTROL = re.compile(r"[\0-\x06\x0e-\x1a\x1c-\x1f\x7f]")  # others occur in logs of terminals
TEXT_SCHEMA = pa.schema([("text", TEXT_TYPE)])
UNIT_BYTES = 64 << 20  # bytes of a file of lines in one unit


def detect_format(head: bytes) -> str | None:
    """None: text is not recognised by its content, since other files may begin like text."""
    return None


def confirm_format(head: bytes, format: str) -> str:
    """The format, or "" where the first bytes are not text."""
    if b"\0" in head:
        # valid text may hold a NUL, such as in a damaged line of a log; binary formats are not
        # valid UTF-8
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError:
            return ""
    return format if looks_like_text(head) else ""


def is_plain_text(head: bytes) -> bool:
    """True if the first bytes of a file are text in UTF-8, without control characters."""
    try:
        # a head may end inside a character
        is_whole = len(head) + len(UTF8_BOM) < HEAD_BYTES
        text = codecs.getincrementaldecoder("utf-8")().decode(head, is_whole)
    except UnicodeDecodeError:
        return False
    return bool(text) and not _CONTROL.search(text) and looks_like_text(head)


def survey_file(path: str, format: str, roles: Roles, max_doc_bytes: int) -> FileSurvey:
    """The units of one file; a file of lines is cut where it is large and not compressed."""
    size = os.path.getsize(path)
    step = (
        UNIT_BYTES
        if roles.documents == "lines" and detect_compression(path) is None and size > 2 * UNIT_BYTES
        else size
    )
    cuts = list(range(0, size, step or 1)) or [0]
    pieces = [
        InputUnit(no=0, path=path, format=format, files=(path,), start=start, end=stop)
        for start, stop in zip(cuts, [*cuts[1:], None], strict=True)
    ]
    return FileSurvey(
        schema=TEXT_SCHEMA,
        is_inferred=False,
        units=tuple(pieces),
        column_mapping=(("text", "text"),),
    )


def add_documents(
    path: str,
    format: str,
    unit: InputUnit,
    layout: StagingLayout,
    records: RecordBatcher[TextDocument],
    limit: int,
) -> None:
    """Adds the documents of one file to `records`, or the reasons why they cannot be read."""
    documents = layout.roles.documents
    decoder = FileDecoder(path, functools.partial(records.note_encoding, path))
    if documents == "file":
        raw, reason = read_whole(path, limit)
        text = None if reason else decoder.decode(raw.removeprefix(UTF8_BOM))
        reason = reason or ("unknown_encoding" if text is None else "")
        records.add(None if text is None else (text, None), path, "file", reason, len(raw))
        return
    count = 0
    iter_pieces = iter_lines if documents == "lines" else iter_paragraphs
    # a loop over documents: each is decoded on its own
    for item, reason in read_guarded(
        path, lambda stream: iter_pieces(stream, start=unit.start, end=unit.end, limit=limit)
    ):
        if item is None:
            location = position_in_part(unit.start, f"after {documents[:-1]} {count}")
            records.add(None, path, location, reason)
            continue
        count += 1
        number, _, piece = item
        location = position_in_part(unit.start, f"line {number}")
        text = None if piece is None else decoder.decode(piece)
        reason = "too_large" if piece is None else "unknown_encoding" if text is None else ""
        records.add(
            None if text is None else (text, None), path, location, reason, len(piece or b"")
        )


def iter_paragraphs(
    stream: BufferedReader, *, start: int = 0, end: int | None = None, limit: int
) -> Iterator[tuple[int, int, bytes | None]]:
    """(number of its first line from 1, byte where it begins, the paragraph) for every run of lines
    that are not blank.

    The paragraph is None where it is over the limit; no more than the limit is held of it. A file
    is never cut for paragraphs: `start` must be 0 and `end` None.
    """
    assert not start and end is None
    paragraph, is_oversized, position, line_number, first_line, begin_byte, at_line_start = (
        bytearray(),
        False,
        0,
        0,
        0,
        0,
        True,
    )
    while True:
        chunk = stream.readline(1 << 20)
        if not position:
            position, chunk = (
                (len(UTF8_BOM), chunk[len(UTF8_BOM) :])
                if chunk.startswith(UTF8_BOM)
                else (0, chunk)
            )
        line_number += at_line_start
        if (at_line_start and not chunk.strip()) or not chunk:
            if paragraph or is_oversized:
                yield (
                    first_line,
                    begin_byte,
                    (
                        None
                        if is_oversized
                        else bytes(paragraph.removesuffix(b"\n").removesuffix(b"\r"))
                    ),
                )
            paragraph, is_oversized = bytearray(), False
            if not chunk:
                return
        else:
            if not paragraph and not is_oversized:
                first_line, begin_byte = line_number, position
            paragraph += chunk
            if len(paragraph) > limit:
                paragraph, is_oversized = bytearray(), True
        at_line_start = chunk.endswith(b"\n")
        position += len(chunk)
