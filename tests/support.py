"""What tests of several packages share: draws and columns, the files of a corpus, references."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.keys import Draws
from sanitize.finders.patterns import PatternFinder

# of texts in which every token is a canary; the last two: its base64
CANARY = re.compile(r"canary|646[-.) ]*555[-. ]*01|c2FuYXJ5|Y2FuYXJ5", re.IGNORECASE)


class SimulatedKill(BaseException):
    """Raised instead of the end of the process."""


# ---- draws and columns ----


def make_draws(count: int, document: int = 7) -> Draws:
    """The draws of `count` occurrences in one cell of a document."""
    documents, cells = np.full(count, document, np.uint64), np.zeros(count, np.uint64)
    return Draws.from_words(
        b"sixteen bytes ok", documents, cells, np.arange(count, dtype=np.uint64)
    )


def to_buffers(texts: Sequence[str | bytes]) -> TextBuffers:
    """A column of texts, which may have bytes that are not UTF-8."""
    column = pa.array(texts, pa.large_binary())
    return TextBuffers.from_array(
        pa.LargeStringArray.from_buffers(len(column), *column.buffers()[1:])
    )


def find_pattern_values(
    finder: PatternFinder, texts: list[str]
) -> list[list[tuple[str, str, str]]]:
    """(kind, value, normalised form) of all occurrences, by text; checks that code points and bytes
    give the same value."""
    column = pa.array(texts, pa.large_string())
    spans = finder.run(column)
    forms = spans.values.normalised.to_pylist()
    found: list[list[tuple[str, str, str]]] = [[] for _ in texts]
    columns = (
        spans.text_no,
        *spans.find_code_points(column),
        spans.start_byte,
        spans.end_byte,
        spans.value_no,
    )
    for text_no, start, end, start_byte, end_byte, value_no in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        value = texts[text_no][start:end]
        assert texts[text_no].encode()[start_byte:end_byte].decode() == value
        kind = finder.kinds[spans.values.kind[value_no]].name
        found[text_no].append((kind, value, forms[value_no]))
    return found


# ---- files ----


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for one example of a property."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def to_json_lines(rows: Iterable[Any]) -> bytes:
    """A line for each row; bytes are a line of their own."""
    return b"".join(
        row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows
    )


def write_json_lines(path: Path, rows: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_json_lines(rows))
    return path


def read_rows(folder: Path, pattern: str = "*.parquet") -> list[dict[str, Any]]:
    """The rows of all Parquet files of a folder, in the order of their names."""
    return [
        row
        for path in sorted(folder.glob(pattern))
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]


def read_texts(out: Path) -> list[Any]:
    """The main texts of an output."""
    return [row["text"] for row in read_rows(out / "data")]


def read_files(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a folder, by its path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# ---- texts ----


def find_canaries(text: str) -> list[str]:
    """The canaries of a text with what is around them."""
    return [text[max(0, match.start() - 30) : match.end() + 10] for match in CANARY.finditer(text)]


def full_width(word: str) -> str:
    """The word in the letters of East Asian typography, whose compatibility form it is."""
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in word)


def reference_words(text: str) -> list[tuple[str, int, int]]:
    """The words of a text with their code points."""
    words, start = [], None
    for position, character in enumerate(text + "\0"):
        inside = unicodedata.category(character)[0] in "LMN"
        if inside and start is None:
            start = position
        elif not inside and start is not None:
            words.append((text[start:position].lower(), start, position))
            start = None
    return words


def collect_numbers(report: Any) -> list[float]:
    """Every number of a JSON value."""
    if isinstance(report, dict):
        return [number for value in report.values() for number in collect_numbers(value)]
    if isinstance(report, list | tuple):
        return [number for value in report for number in collect_numbers(value)]
    return [float(report)] if isinstance(report, float | int) else []
