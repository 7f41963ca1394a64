"""The files that `detect` and `redact` read, and their texts."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sanitize.errors import (
    InputRefused,
    printable_path,
    running_command_line,
)
from sanitize.readers.byte_streams import HEAD_BYTES, TruncatedStream, open_stream
from sanitize.readers.encodings import decode_with_guess
from sanitize.readers.survey import is_included
from sanitize.readers.survey_types import REASONS
from sanitize.storage.remote_storage import require_local_path

STANDARD_INPUT = "-"
_VERSION_CONTROL = {".git", ".hg", ".svn"}  # folders that are not searched
# the longest first: a mark of UTF-32 begins with one of UTF-16
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)


@dataclass(frozen=True, repr=False)
class FileTexts:
    """The texts of files by their names, and the files below the named folders that hold none."""

    texts: dict[str, str]
    without_text: list[str]


@dataclass(frozen=True)
class FileText:
    """The text of a file without its byte order mark, the mark, and how the text is written again:
    in its encoding, or in UTF-8 where the encoding `is_guessed`."""

    text: str
    mark: bytes = b""
    encoding: str = "utf-8"
    is_guessed: bool = False


def list_text_files(paths: Sequence[str], include: Sequence[str] = ()) -> dict[str, str]:
    """The named files, and the regular files below the named folders in the order of their names,
    each with its path below the folder that was named. `-` is standard input.

    Of folders only the files that match one of the patterns `include` (`is_included`). Links below
    a folder are not followed, and folders of version control not entered. Raises InputRefused for a
    path that does not exist, which may be a text and is not quoted, for one that cannot be listed,
    for a folder without files, and for patterns that match no file.
    """
    files: dict[str, str] = {}
    for number, path in enumerate(paths):
        if path == STANDARD_INPUT:
            files[path] = path
            continue
        local = require_local_path(path)
        if not os.path.lexists(local):
            raise InputRefused(
                f"argument {number + 1} is no file or folder; give a path, or - for a text on"
                " standard input (redact also takes --text)"
            )
        refuse_device(local)
        if not local.is_dir():
            files.setdefault(str(local), local.name)
            continue
        below = list(_walk_folder(local))
        if not below:
            raise InputRefused(f"{path}: this folder has no files")
        for name in below:
            place = os.path.relpath(name, local)
            if is_included(place, include):
                files.setdefault(name, place)
    if not files:
        raise InputRefused(f"--include {' '.join(include)}: matches no file")
    return files


def read_file_texts(paths: Sequence[str], include: Sequence[str] = ()) -> FileTexts:
    """The texts of the files of `list_text_files`, each file as one text. Raises InputRefused for a
    file that cannot be read, for a named one that holds no text, and if none of them holds one."""
    named = {str(require_local_path(path)) for path in paths}
    found = FileTexts({}, [])
    for file in list_text_files(paths, include):
        raw = read_bytes(file)
        try:
            found.texts[file] = decode_text(file, raw).text
        except InputRefused:
            if file in named:
                raise
            found.without_text.append(file)
    if found.without_text and not found.texts:
        raise refuse_file(found.without_text[0], "it holds no text, and no other file does")
    return found


def read_bytes(name: str) -> bytes:
    """The bytes of a file, decompressed, or of standard input. Raises InputRefused."""
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.buffer.read()
        with open_file(name) as stream:
            return stream.read()
    except TruncatedStream as error:
        raise refuse_file(name, REASONS[error.reason]) from None
    except OSError as error:
        raise refuse_file(name, f"it cannot be read ({type(error).__name__})") from None


def decode_text(name: str, raw: bytes) -> FileText:
    """The text of a file by its byte order mark, in UTF-8, or in the encoding that is guessed as in
    a run. Raises InputRefused for bytes that are no text."""
    mark, encoding = find_byte_order_mark(raw)
    try:
        found = FileText(raw[len(mark) :].decode(encoding), mark, encoding)
    except UnicodeDecodeError:
        if b"\0" in raw or encoding != "utf-8":
            raise refuse_file(name, "it holds no text") from None
        guessed = decode_with_guess(raw[len(mark) :])
        if guessed is None:
            raise refuse_file(name, REASONS["not_utf8"]) from None
        found = FileText(guessed, is_guessed=True)
    if not mark and "\0" in found.text[:HEAD_BYTES]:
        raise refuse_file(name, "it holds no text")
    return found


def find_byte_order_mark(raw: bytes) -> tuple[bytes, str]:
    """The byte order mark at the start of a file, and the encoding that it says; none in UTF-8
    without a mark."""
    return next((one for one in _BYTE_ORDER_MARKS if raw.startswith(one[0])), (b"", "utf-8"))


def refuse_file(name: str, reason: str) -> InputRefused:
    """The error for a file that cannot be read."""
    shown = "standard input" if name == STANDARD_INPUT else printable_path(name)
    is_command = running_command_line.get()
    advice = "name its format with --as" if is_command else "read it and give its texts"
    return InputRefused(f"{shown}: {reason}; leave it out, or {advice}")


def refuse_device(path: Path) -> None:
    """Raises InputRefused for a device, which may have no end."""
    if path.is_char_device() or path.is_block_device():
        raise InputRefused(
            f"{path}: is a device, which may have no end; expected a text file (`-` is standard"
            " input)"
        )


def _walk_folder(folder: Path) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise InputRefused(
            f"{error.filename}: this folder cannot be read ({type(error).__name__})"
        ) from None

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(set(folders) - _VERSION_CONTROL)
        for path in (os.path.join(place, name) for name in sorted(names)):
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def open_file(file: str) -> BinaryIO:
    """A file as a stream, decompressed where it is a regular file."""
    if file == STANDARD_INPUT:
        return open(0, "rb", closefd=False)
    return open_stream(file) if os.path.isfile(file) else open(file, "rb")
