"""Selects a few edits with the text around them, for the report, `explain` and the demo.

Samples hold raw texts and values; the caller must mask them before they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from sanitize.core.text_cells import LeafPath
from sanitize.reporting.html_report import EditSample
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
        line_before, line_after = _show_line(raw, start, end, in_cell)
        samples.append(
            EditSample(
                kind=row["kind"],
                original=raw[start:end].decode(),
                replacement=row["replacement"],
                text_before=raw[max(0, start - _CONTEXT_BYTES) : start]
                .decode(errors="ignore")
                .rpartition("\n")[2],
                text_after=raw[end : end + _CONTEXT_BYTES]
                .decode(errors="ignore")
                .partition("\n")[0],
                line_before=line_before,
                line_after=line_after,
            )
        )
    return samples


def _show_line(raw: bytes, start: int, end: int, edits: pl.LazyFrame) -> tuple[str, str]:
    """The line of an edit before and after all edits in it; of a long line the part around the
    edit."""
    line_start = max(raw.rfind(b"\n", 0, start) + 1, start - _MAX_LINE_BYTES)
    line_end = min(
        found if (found := raw.find(b"\n", end)) >= 0 else len(raw), end + _MAX_LINE_BYTES
    )
    after, position = b"", line_start
    in_line = edits.filter(pl.col("start_byte") >= line_start, pl.col("end_byte") <= line_end)
    for first, last, replacement in (
        in_line.select("start_byte", "end_byte", "replacement")
        .sort("start_byte")
        .collect()
        .iter_rows()
    ):
        after += raw[position:first] + replacement.encode()
        position = last
    after += raw[position:line_end]
    return raw[line_start:line_end].decode(errors="ignore"), after.decode(errors="ignore")
