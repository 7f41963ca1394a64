"""Whose a match is: a kept original's, a replacement's, an opaque value's that the plan leaves, or nobody's; and where it stood in the
input. The fast check and the full one ask the same questions here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import ranges
from sanitize.core.text_cells import Leaf, plain
from sanitize.errors import OutputBroken
from sanitize.storage import formats
from sanitize.storage.corpus import Documents

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class VerifyTask:
    """One shard to be looked at, with the tables that say what was kept and replaced in it."""

    no: int
    first: int
    last: int
    shard: Path
    flagged: Path
    kept: Path
    edits: Path
    occurrences: Path
    opaque: tuple[str, ...]  # kinds that the plan leaves, and that nothing inside is looked at for
    rows: Path  # the doc_no of every row of the shard
    documents: Documents
    leaves: tuple[Leaf, ...]
    sweep: Path  # what is left over in the text is written here, as occurrences
    names: tuple[str, ...] = ()  # of people who are to be forgotten: no mention may be left
    columns: tuple[str, ...] = ()  # of the shard, in their order: what a format other than Parquet does not say by itself
    later: Path | None = None  # value_counts: a variant may be a value that comes in a later document only, which the plan could not know
    further: tuple[Path, ...] = ()  # of a full check: identity forms, digits and digests, which a sweep takes out of the text as well
    aside: Path | None = None  # where an attempt writes `sweep` before that has its name

    def attempt(self, folder: Path) -> VerifyTask:
        """The task as one of several attempts at once may do it."""
        return replace(self, aside=folder / "sweep.parquet")


def batches(task: VerifyTask) -> Iterator[tuple[pa.Table, I64]]:
    """The shard's rows as plain tables, with the doc_no of each: documents that are gone have none."""
    if (packed := formats.by_suffix(task.shard)) is not None:
        yield from _unpacked(task, packed)
        return
    with pq.ParquetFile(task.shard, page_checksum_verification=True, pre_buffer=False) as file:
        numbers = np.asarray(pq.read_table(task.rows, partitioning=None).column("doc_no"), np.int64)
        if len(numbers) != file.metadata.num_rows:
            raise OutputBroken(f"{task.shard}: {file.metadata.num_rows} rows, where the run wrote {len(numbers)}; run again with --replace")
        at = 0
        for batch in file.iter_batches(5_000, use_threads=False):
            if batch.num_rows:
                columns = {name: plain(batch.column(name)) for name in batch.schema.names}
                yield pa.table(columns), numbers[at : at + batch.num_rows]
                at += batch.num_rows


def schema_of(task: VerifyTask) -> pa.Schema:
    """The columns of a shard."""
    if formats.by_suffix(task.shard) is None:
        return pq.read_schema(task.shard)
    return pa.schema([(name, formats.typed(task.documents.schema.field(name).type)) for name in task.columns])


def _unpacked(task: VerifyTask, packed: ModuleType) -> Iterator[tuple[pa.Table, I64]]:
    """The same of a shard that is no Parquet."""
    numbers = np.asarray(pq.read_table(task.rows, partitioning=None).column("doc_no"), np.int64)
    at = 0
    for batch in packed.batches(task.shard, schema_of(task)):
        for low in range(0, batch.num_rows, 5_000):
            part = batch.slice(low, 5_000)
            yield pa.Table.from_batches([part]).combine_chunks(), numbers[at : at + part.num_rows]
            at += part.num_rows
    if at != len(numbers):
        raise OutputBroken(f"{task.shard}: {at} rows, where the run wrote {len(numbers)}; run again with --replace")


def comes_later(task: VerifyTask, values: I64, doc_no: I64) -> Mask:
    """True where a value stands first in a document behind the one of that number: what a replacement said there it could not know."""
    if task.later is None or not len(values):
        return np.zeros(len(values), np.bool_)
    known = pq.read_table(task.later, columns=["value_id", "first_doc_no"], partitioning=None)
    known = known.filter(pc.is_in(known["value_id"], pa.array(np.unique(values))))
    first = dict(zip(*(column.to_pylist() for column in known.columns), strict=True))
    return np.array([first.get(int(one), -1) for one in values], np.int64) > doc_no


def inside_kept(kept: pl.DataFrame, docs: I64, cells: npt.NDArray[np.integer[Any]], begin: I64, end: I64) -> tuple[Mask, int]:
    """True for matches inside a kept original; and how many kept originals are matched from end to end."""
    if not kept.height:
        return np.zeros(len(docs), np.bool_), 0
    base = int(docs.min())
    unit = np.int64(1) << 30
    cell_count = int(max(cells.max(), kept["cell"].max())) + 1
    key = ((kept["doc_no"].to_numpy() - base) * cell_count + kept["cell"].to_numpy()) * unit
    mine = ((docs - base) * cell_count + cells) * unit
    start, stop = key + kept["start_byte"].to_numpy(), key + kept["stop_byte"].to_numpy()
    # the furthest end of all kept originals that begin before a match
    place = np.searchsorted(start, mine + begin, side="right") - 1
    inside = (place >= 0) & (np.maximum.accumulate(stop)[np.maximum(place, 0)] >= mine + end)
    each, entry = ranges(np.searchsorted(start, mine + begin, side="left"), place + 1)
    return inside, len(np.unique(entry[stop[entry] == (mine + end)[each]]))


def in_its_place(task: VerifyTask, kept: pl.DataFrame, docs: I64, cells: I64, text_no: I64, start: I64, stop: I64) -> Mask:
    """Which places in some cells are inside a kept original, or inside an opaque value that the plan leaves."""
    inside, _ = inside_kept(kept, docs[text_no], cells[text_no], start, stop)
    opaque = owned(task.edits, task.occurrences, task.opaque, docs[text_no], cells[text_no], start, stop).inside_opaque
    both: Mask = inside | opaque
    return both


@dataclass(frozen=True, repr=False)
class Owned:
    """What becomes of matches in output cells: `inside` a replacement or an opaque value and no more than a part of it; `whole` of a
    replacement; `across` the edge of one; and the input's bytes, whole replacements' originals taken in."""

    inside_edit: Mask
    inside_opaque: Mask
    whole: Mask
    across: Mask
    first: I64
    last: I64


def owned(edits_file: Path, occurrences: Path, opaque: tuple[str, ...], doc_no: I64, cell: I64, start: I64, stop: I64) -> Owned:
    """Look up matches (document, cell, output bytes) among the edits of their documents."""
    edits = pl.DataFrame(pq.read_table(edits_file, columns=["doc_no", "cell", "start_byte", "stop_byte", "replacement"], partitioning=None))
    found = pl.DataFrame(pq.read_table(occurrences, columns=["doc_no", "cell", "start_byte", "stop_byte", "kind"], partitioning=None))
    return owned_by(edits, found, opaque, doc_no, cell, start, stop)


def owned_by(edits: pl.DataFrame, found: pl.DataFrame, opaque: tuple[str, ...], doc_no: I64, cell: I64, start: I64, stop: I64) -> Owned:
    """The same among edits and occurrences that are at hand."""
    wanted = pl.Series(np.unique(doc_no))
    edits = edits.filter(pl.col("doc_no").is_in(wanted.implode())).with_columns(size=pl.col("replacement").str.len_bytes().cast(pl.Int64))
    left = found.filter(pl.col("doc_no").is_in(wanted.implode()) & pl.col("kind").cast(pl.String).is_in(list(opaque)))
    place = _Places(edits, int(max(cell.max(), edits["cell"].max() or 0, left["cell"].max() or 0)) + 1, int(doc_no.min()))
    mine = place.key(doc_no, cell)
    strictly = []
    whole = np.zeros(len(doc_no), np.bool_)
    for spans, is_edit in ((edits, True), (left, False)):
        key = place.key(spans["doc_no"].to_numpy(), spans["cell"].to_numpy())
        low = key + place.shifted(key, spans["start_byte"].to_numpy())
        high = low + spans["size"].to_numpy() if is_edit else key + place.shifted(key, spans["stop_byte"].to_numpy())
        strictly.append(np.zeros(len(doc_no), np.bool_))
        if len(low):
            at = np.maximum(np.searchsorted(low, mine + start, side="right") - 1, 0)
            within = (low[at] <= mine + start) & (high[at] >= mine + stop)
            equal = (low[at] == mine + start) & (high[at] == mine + stop)
            strictly[-1] |= within & ~equal
            whole |= equal & is_edit
    # edits that a match touches: those that begin before its end, less those that end before its beginning
    across = np.searchsorted(place.out_low, mine + stop, side="left") > np.searchsorted(place.out_high, mine + start, side="right")
    first, last = place.original(mine, start, stop)
    return Owned(strictly[0], strictly[1], whole, across & ~strictly[0] & ~whole, first, last)


class _Places:
    """Places in output texts for places in input texts, and back, by the edits between them."""

    _UNIT = np.int64(1) << 30

    def __init__(self, edits: pl.DataFrame, cells: int, first_doc_no: int) -> None:
        self.cells, self.base = cells, first_doc_no
        key = self.key(edits["doc_no"].to_numpy(), edits["cell"].to_numpy())
        self.low, self.high = key + edits["start_byte"].to_numpy(), key + edits["stop_byte"].to_numpy()
        grown = edits["size"].to_numpy() - (self.high - self.low)
        self.total = np.concatenate([[0], np.cumsum(grown)])
        self.out_low = self.low + self.total[:-1] - self.total[np.searchsorted(key, key)]
        self.out_high = self.out_low + edits["size"].to_numpy()

    def key(self, doc_no: I64, cell: I64) -> I64:
        """A number for each cell, ascending, with room for the places in it."""
        return (doc_no - self.base) * (self.cells * self._UNIT) + cell * self._UNIT

    def shifted(self, key: I64, place: I64) -> I64:
        """Places of the input text in the output text."""
        before = np.searchsorted(self.high, key + place, side="right")
        moved: I64 = place + self.total[before] - self.total[np.minimum(np.searchsorted(self.low, key), before)]
        return moved

    def original(self, key: I64, start: I64, stop: I64) -> tuple[I64, I64]:
        """Spans of the output text in the input text; one that reaches into a replacement takes the whole of what it replaced."""
        spans = []
        for place, left in ((start, True), (stop, False)):
            at = np.searchsorted(self.out_high if left else self.out_low, key + place, side="right" if left else "left")
            # `at` edits lie before the place; the next one (or, for a stop, the last of them) may hold it
            first = np.minimum(np.searchsorted(self.low, key), at)
            moved = place - (self.total[at] - self.total[first])
            if left:
                inner = np.minimum(at, max(len(self.low) - 1, 0))
                holds = (at < len(self.low)) & (self.out_low[inner] < key + place) if len(self.low) else np.zeros(len(place), np.bool_)
                spans.append(np.where(holds, self.low[inner] - key, moved) if len(self.low) else moved)
            else:
                inner = np.maximum(at - 1, 0)
                holds = (at > first) & (self.out_high[inner] > key + place) if len(self.low) else np.zeros(len(place), np.bool_)
                spans.append(np.where(holds, self.high[inner] - key, moved) if len(self.low) else moved)
        return spans[0], spans[1]
