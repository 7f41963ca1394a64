"""Selects a few edits with the text around them, for the report, `explain` and the demo.

Samples hold raw texts and values; the caller must mask them before they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from sanitize.core.text_cells import LeafPath
from sanitize.reporting.html_report import EditSample, LinePiece
from sanitize.storage.corpus import Documents
from sanitize.storage.parquet_files import read_table

_MAX_DOCUMENTS = (
    2_000  # samples are taken from the first documents of a task: one batch is read, not the corpus
)
_CONTEXT_BYTES = 48
_MAX_LINE_BYTES = 200  # of a line that is shown, on either side of the edit


def select_edit_samples(
    documents: Documents, leaves: Sequence[LeafPath], edits: Path, count: int
) -> list[EditSample]:
    """Up to `count` edits of a task in corpus order, of as many kinds as possible. `edits` is the
    task's table of edits."""
    table = read_table(edits)
    if not table.num_rows:
        return []
    frame = pl.DataFrame(table).with_columns(pl.col("kind").cast(pl.String))
    first = int(frame["doc_no"].min())  # type: ignore[arg-type]
    # the first edit of every kind, then the second of every kind, and so on
    near = frame.filter(pl.col("doc_no") < first + _MAX_DOCUMENTS)
    chosen = near.with_columns(number=pl.int_range(pl.len()).over("kind")).filter(
        pl.col("number") < count
    )
    chosen = (
        chosen.sort("number", "doc_no", "cell", "start_byte")
        .head(count)
        .sort("doc_no", "cell", "start_byte")
    )
    wanted = chosen["doc_no"].unique().sort().to_list()
    texts = {
        place: text.encode()
        for place, text in documents.read_texts(leaves, np.array(wanted, np.int64)).items()
    }
    samples = []
    for row in chosen.iter_rows(named=True):
        raw, start, end = texts[row["doc_no"], row["cell"]], row["start_byte"], row["end_byte"]
        in_cell = near.lazy().filter(
            pl.col("doc_no") == row["doc_no"], pl.col("cell") == row["cell"]
        )
        line_start, line_end = _find_line(raw, start, end)
        first, last = max(line_start, start - _CONTEXT_BYTES), min(line_end, end + _CONTEXT_BYTES)
        samples.append(
            EditSample(
                kind=row["kind"],
                original=raw[start:end].decode(),
                replacement=row["replacement"],
                text_before=raw[first:start].decode(errors="ignore"),
                text_after=raw[end:last].decode(errors="ignore"),
                lead=_split_line(raw, first, start, in_cell),
                tail=_split_line(raw, end, last, in_cell),
                line_before=raw[line_start:line_end].decode(errors="ignore"),
                line_after="".join(
                    text for text, _ in _split_line(raw, line_start, line_end, in_cell)
                ),
            )
        )
    return samples


def _find_line(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """The line of an edit; of a long one the part around the edit."""
    line_end = raw.find(b"\n", end)
    return (
        max(raw.rfind(b"\n", 0, start) + 1, start - _MAX_LINE_BYTES),
        min(line_end if line_end >= 0 else len(raw), end + _MAX_LINE_BYTES),
    )


def _split_line(raw: bytes, first: int, last: int, edits: pl.LazyFrame) -> list[LinePiece]:
    """What became of a part of a text: its pieces, each with whether it is a replacement. Edits
    across an edge of the part are shown whole."""
    within = edits.filter(pl.col("start_byte") < last, pl.col("end_byte") > first)
    pieces: list[LinePiece] = []
    for start, end, replacement in (
        within.select("start_byte", "end_byte", "replacement")
        .sort("start_byte")
        .collect()
        .iter_rows()
    ):
        pieces += [(raw[first:start].decode(errors="ignore"), False), (replacement, True)]
        first = end
    pieces.append((raw[first:last].decode(errors="ignore"), False))
    return [piece for piece in pieces if piece[0]]
