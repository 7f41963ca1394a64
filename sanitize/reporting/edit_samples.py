"""A few edits with the text around them, for the report, `explain` and the demo. They are raw: whoever shows them masks them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.text_cells import Leaf
from sanitize.reporting.html_report import Sample
from sanitize.storage.corpus import Documents, cells_of

_NEAR = 2_000  # samples are taken from the first documents of a task: one batch is read, not the corpus
_AROUND = 48


def samples(documents: Documents, leaves: Sequence[Leaf], edits: Path, count: int) -> list[Sample]:
    """Up to `count` edits of a task, as many kinds as there are first, in corpus order."""
    table = pq.read_table(edits, partitioning=None)
    if not table.num_rows:
        return []
    frame = pl.DataFrame(table).with_columns(pl.col("kind").cast(pl.String))
    first = int(frame["doc_no"].min())  # type: ignore[arg-type]
    near = frame.filter(pl.col("doc_no") < first + _NEAR).with_columns(turn=pl.int_range(pl.len()).over("kind"))
    chosen = near.sort("turn", "doc_no", "cell", "start_byte").head(count).sort("doc_no", "cell", "start_byte")
    wanted = chosen["doc_no"].unique().to_list()
    texts: dict[tuple[int, int], bytes] = {}
    columns = [*dict.fromkeys(leaf.column for leaf in leaves)]
    for batch in documents.read(min(wanted), max(wanted) + 1, columns):
        batch = batch.filter(pc.is_in(batch.column("doc_no"), value_set=pa.array(wanted))).combine_chunks()
        numbers = batch.column("doc_no").to_pylist()
        for column in cells_of(batch, list(leaves)) if batch.num_rows else []:
            for row, cell, text in zip(column.flat.rows, column.cells, column.flat.texts, strict=True):
                texts[numbers[row], int(cell)] = (text.as_py() or "").encode()
    found = []
    for row in chosen.iter_rows(named=True):
        raw, start, stop = texts[row["doc_no"], row["cell"]], row["start_byte"], row["stop_byte"]
        found.append(
            Sample(
                kind=row["kind"],
                before=raw[start:stop].decode(),
                after=row["replacement"],
                lead=raw[max(0, start - _AROUND) : start].decode(errors="ignore").rpartition("\n")[2],
                tail=raw[stop : stop + _AROUND].decode(errors="ignore").partition("\n")[0],
            )
        )
    return found
