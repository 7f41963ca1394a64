"""`sanitize detect --fail-on`: the occurrences in text files of any size, by file and line, for
checks in a shell or in CI. Nothing is written.

Files are read in pieces of a few MB that end at a line end, so that memory does not depend on the
size of a file.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import polars as pl

from sanitize.errors import UsageError, suggest_names
from sanitize.inspection.text_detection import detect
from sanitize.inspection.text_files import find_byte_order_mark, open_file, refuse_file
from sanitize.kinds.kind import CATEGORIES, builtin_kinds, custom_kinds, get_kind
from sanitize.plans.kind_lists import ALL_KINDS
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.shipped_plans import plan_names
from sanitize.readers.byte_streams import TruncatedStream

_PIECE_BYTES = 4 << 20
_BATCH_BYTES, _BATCH_PIECES = 16 << 20, 2_000  # of pieces that are searched together
# of a piece without a line end, characters that the next piece has, too; at most _PIECE_BYTES
_OVERLAP = 1_000
_FIRST_BYTES = 8 << 10  # of a file, which tell whether it is text


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
            with open_file(file) as stream:
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
