"""The files that `detect` and `redact` read, and their texts; and the occurrences in text files of
any size, by file and line, for checks in a shell or in CI. Nothing is written.

For the check, files are read in pieces of a few MB that end at a line end, so that memory does not
depend on the size of a file.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from sanitize.errors import (
    InputRefused,
    UsageError,
    printable_path,
    running_command_line,
    suggest_names,
)
from sanitize.inspection.text_detection import detect
from sanitize.kinds.kind import CATEGORIES, builtin_kinds, custom_kinds, get_kind
from sanitize.plans.kind_lists import ALL_KINDS
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.shipped_plans import plan_names
from sanitize.readers.byte_streams import HEAD_BYTES, TruncatedStream, open_stream
from sanitize.readers.encodings import decode_with_guess
from sanitize.readers.survey import is_included
from sanitize.readers.survey_types import REASONS
from sanitize.storage.remote_storage import require_local_path

STANDARD_INPUT = "-"
_PIECE_BYTES = 4 << 20
_BATCH_BYTES, _BATCH_PIECES = 16 << 20, 2_000  # of pieces that are searched together
# of a piece without a line end, characters that the next piece has, too; at most _PIECE_BYTES
_OVERLAP = 1_000
_FIRST_BYTES = 8 << 10  # of a file, which tell whether it is text
_VERSION_CONTROL = {".git", ".hg", ".svn"}  # folders that are not searched
# the longest first: a mark of UTF-32 begins with one of UTF-16
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)


@dataclass(frozen=True, kw_only=True)
class LineOccurrences:
    """The occurrences of one kind in one file, with the lines in which they begin, counted from
    1."""

    file: str
    kind: str
    occurrences: int
    lines: list[int]


@dataclass(frozen=True, kw_only=True)
class FileSearch:
    """The result of a search in files: occurrences by file and kind, the number of files, and those
    that hold no text."""

    found: list[LineOccurrences]
    files: int
    without_text: list[str] = field(default_factory=list)


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
    file that cannot be read, and for a named one that holds no text."""
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
    return found


def read_bytes(name: str) -> bytes:
    """The bytes of a file, decompressed, or of standard input. Raises InputRefused."""
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.buffer.read()
        with _open_file(name) as stream:
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
        if b"\0" in raw or mark:
            raise refuse_file(name, "it holds no text") from None
        guessed = decode_with_guess(raw)
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


def find_in_files(files: Sequence[str], plan: Plan, kinds: Collection[str]) -> FileSearch:
    """The occurrences of some kinds in files, by file and kind. A text that is not UTF-8 is
    searched with U+FFFD for each wrong byte.

    Raises InputRefused for a file that cannot be read: a check that skips it would pass for the
    wrong reason.
    """
    found: list[LineOccurrences] = []
    without_text: list[str] = []
    lines_by_kind: dict[tuple[int, str], list[int]] = {}
    for batch in _batch_pieces(files, without_text):
        occurrences = detect([piece.text for piece in batch], plan=plan).filter(
            pl.col("kind").is_in(list(kinds))
        )
        for (number,), rows in occurrences.group_by("text_index", maintain_order=True):
            piece = batch[int(str(number))]
            rows = rows.filter(
                pl.col("start").is_between(piece.counted.start, piece.counted.stop, closed="left")
            )
            line_numbers = piece.first_line + np.searchsorted(
                _find_line_ends(piece.text), rows["start"].to_numpy()
            )
            for kind, line in zip(rows["kind"].to_list(), line_numbers.tolist(), strict=True):
                lines_by_kind.setdefault((piece.file_number, kind), []).append(line)
    for (number, kind), lines in sorted(lines_by_kind.items()):
        found.append(
            LineOccurrences(
                file=files[number], kind=kind, occurrences=len(lines), lines=sorted(set(lines))
            )
        )
    return FileSearch(found=found, files=len(files), without_text=without_text)


@dataclass(frozen=True)
class _Piece:
    """A part of a file: the number of the file, that of its first line, the positions of the
    occurrences that count, and its text."""

    file_number: int
    first_line: int
    counted: range
    text: str


def _batch_pieces(files: Sequence[str], without_text: list[str]) -> Iterator[list[_Piece]]:
    """The pieces of all files in batches; the names of files that hold no text are added to
    `without_text`."""
    batch: list[_Piece] = []
    size = 0
    for number, file in enumerate(files):
        try:
            with _open_file(file) as stream:
                start = stream.read(_FIRST_BYTES)
                mark, encoding = find_byte_order_mark(start)
                if encoding == "utf-8" and b"\0" in start:
                    without_text.append(file)
                    continue
                start = start[len(mark) :]
                for first_line, counted, text in _read_pieces(stream, start, encoding):
                    batch.append(_Piece(number, first_line, counted, text))
                    size += len(text)
                    if size >= _BATCH_BYTES or len(batch) >= _BATCH_PIECES:
                        yield batch
                        batch, size = [], 0
        except TruncatedStream:
            without_text.append(file)  # its text ends somewhere
        except OSError as error:
            raise refuse_file(file, f"it cannot be read ({type(error).__name__})") from None
    if batch:
        yield batch


def _open_file(file: str) -> BinaryIO:
    """A file as a stream, decompressed where it is a regular file."""
    if file == STANDARD_INPUT:
        return open(0, "rb", closefd=False)
    return open_stream(file) if os.path.isfile(file) else open(file, "rb")


def _read_pieces(stream: BinaryIO, start: bytes, encoding: str) -> Iterator[tuple[int, range, str]]:
    """(number of the first line, positions of the occurrences that count, text) of each piece.

    A piece ends at a line end. One without a line end ends anywhere, and the next begins with the
    last `_OVERLAP` characters of it: what begins in the first half of these counts in the first
    piece, the rest in the second, so that a value across the cut counts once.
    """
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    line, overlap, rest, block = 1, 0, "", start
    while block:
        rest += decoder.decode(block)
        if len(rest) - overlap >= _PIECE_BYTES:
            end = rest.rfind("\n") + 1
            next_overlap = 0 if end else _OVERLAP
            end = end or len(rest)
            yield line, range(overlap // 2, end - (next_overlap - next_overlap // 2)), rest[:end]
            line, overlap, rest = (
                line + rest.count("\n", 0, end),
                next_overlap,
                rest[end - next_overlap :],
            )
        block = stream.read(_PIECE_BYTES)
    rest += decoder.decode(b"", True)
    if rest:
        yield line, range(overlap // 2, len(rest)), rest


def _find_line_ends(text: str) -> np.ndarray:
    """The positions of all line ends of a text, in code points."""
    encoding = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"
    return np.flatnonzero(np.frombuffer(text.encode(encoding), np.uint32) == ord("\n"))


def resolve_fail_kinds(entries: Iterable[str], plan: Plan) -> list[str]:
    """The kinds that `--fail-on` names, of those that the plan looks for: kinds, categories
    (`contact`) or `*`.

    Raises UsageError for an unknown name, and for one that the plan does not look for: the check
    would pass whatever the texts hold.
    """
    with custom_kinds(plan.custom_kinds):
        categories = {name: get_kind(name).category for name in plan.find.kinds}
    chosen: dict[str, None] = {}
    for entry in entries:
        kinds = [
            name for name, category in categories.items() if entry in (name, category, ALL_KINDS)
        ]
        if kinds:
            chosen |= dict.fromkeys(kinds)
            continue
        if entry not in CATEGORIES and entry not in builtin_kinds():
            names = [*categories, *CATEGORIES, *builtin_kinds()]
            raise UsageError(
                f"--fail-on {entry}: there is no such kind or category;"
                f" {suggest_names(entry, dict.fromkeys(names))}"
            )
        raise UsageError(
            f"--fail-on {entry}: plan {plan.name} does not look for it{_name_plans_for(entry)}"
        )
    if not chosen:
        raise UsageError(
            "--fail-on: names no kind; expected kinds or categories, such as contact,SECRET."
            f" Categories: {', '.join(CATEGORIES)}"
        )
    return list(chosen)


def _name_plans_for(entry: str) -> str:
    """Advice on shipped plans that look for a kind or a category."""
    kinds = {name for name, kind in builtin_kinds().items() if entry in (name, kind.category)}
    plans = [name for name in plan_names() if kinds & set(load_plan(name).find.kinds)]
    if plans:
        return f"; these do: {', '.join(f'--plan {name}' for name in plans)}"
    countries = sorted({country for name in kinds if (country := builtin_kinds()[name].country)})
    if countries:
        return (
            f"; write a plan with it in find.kinds and {countries[0]} in find.countries (sanitize"
            " plan init FILE)"
        )
    return "; write a plan with it in find.kinds (sanitize plan init FILE)"
