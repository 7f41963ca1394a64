"""The leak check: looks again at what was made, and is the only room that may say "leak".

Independent of the rooms that made it: it imports nothing from find/, drop/ or edit/ and uses none of their patterns. It takes the
values that had to go and looks for their very bytes in every string of every output column, in the forms `exact`, `case-folded` (ASCII
without regard to case) and `NFKC` (each character in its Unicode compatibility form). A match counts where the kind's boundary rule
allows one; one inside an original that was kept on purpose, or strictly inside a replacement, belongs to that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize import tables
from sanitize.cells import Leaf, flatten, leaves, plain
from sanitize.errors import LeakFound, OutputBroken, UsageError
from sanitize.kinds.kind import kinds
from sanitize.matcher import FORMS, Flagged, Matches, ranges
from sanitize.shards import Corpus, Documents, cells_of, read_json, write_rows
from sanitize.spans import Buffers, code_points

I64 = npt.NDArray[np.int64]
VERSION = 1  # raise it when what is swept or what is a leak changes


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


def verify_task(task: VerifyTask) -> dict[str, Any]:
    """Look at one shard. Returns rows, text bytes, kept originals seen and missing, `swept` (left over in a text, written to
    `task.sweep` as occurrences), and `leaks`: what cannot be swept, as (column, kind, doc_no) without any value."""
    flagged = Flagged.read(task.flagged)
    kept = pl.DataFrame(pq.read_table(task.kept, partitioning=None))
    kept_doc = kept["doc_no"].to_numpy()
    residual: list[_Residual] = []
    leaks: list[tuple[str, str, int]] = []
    rows = text_bytes = seen = 0
    for table, doc_no in _batches(task):
        rows += table.num_rows
        low, high = np.searchsorted(kept_doc, [doc_no[0], doc_no[-1] + 1])
        here = kept[int(low) : int(high)]
        which = [leaf for leaf in task.leaves if leaf.column in table.column_names]
        for column in cells_of(table, which):
            texts = column.flat.texts.fill_null("") if column.flat.texts.null_count else column.flat.texts
            text_bytes += len(Buffers.of(texts).data)
            for seen_at, exact in ((flagged.find(texts), True), (flagged.find_compatible(texts), False)):
                if not len(seen_at.form):
                    continue
                docs, cells = doc_no[column.flat.rows[seen_at.text_no]], column.cells[seen_at.text_no]
                inside, hits = _inside(here, docs, cells, seen_at)
                seen += hits if exact else 0
                if not inside.all():
                    rest = np.flatnonzero(~inside)
                    span = (seen_at.start[rest], seen_at.stop[rest], seen_at.form[rest])
                    residual.append(_Residual(docs[rest], cells[rest].astype(np.int64), *span, str(column.leaf)))
        for leaf in leaves(table.schema):
            if leaf not in which:
                texts = flatten(table.column(leaf.column).chunk(0), leaf).texts.fill_null("")
                text_bytes += len(Buffers.of(texts).data)
                for seen_at in (flagged.find(texts), flagged.find_compatible(texts)):
                    leaks += [(str(leaf), flagged.names[flagged.kind[form]], -1) for form in seen_at.form]
        for name, texts in _other_texts(table):
            leaks += [(name, flagged.names[flagged.kind[form]], -1) for form in flagged.find(texts).form]
    swept, more = _sorted_out(task, residual, flagged) if residual else ([], [])
    leaks += more
    count = _write_sweep(task, swept, flagged)
    return {
        "rows": rows,
        "text_bytes": text_bytes,
        "kept_seen": seen,
        "kept_planned": kept.height,
        "swept": count,
        "leaks": leaks,
    }


def _other_texts(table: pa.Table) -> Iterator[tuple[str, pa.LargeStringArray]]:
    """What is no string and can hold one all the same: the names of columns and fields, and columns of bytes."""
    yield "(column names)", pa.array([str(leaf) for leaf in leaves(table.schema)] + table.column_names, pa.large_string())
    for field in table.schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type) or pa.types.is_fixed_size_binary(field.type):
            raw = table.column(field.name).chunk(0).cast(pa.large_binary()).fill_null(b"")
            _, offsets, data = raw.buffers()  # the matcher compares bytes, whatever they spell
            yield field.name, pa.LargeStringArray.from_buffers(len(raw), offsets, data, None, 0, raw.offset)


def _batches(task: VerifyTask) -> Iterator[tuple[pa.Table, I64]]:
    """The shard's rows as plain tables, with the doc_no of each: documents that are gone have none."""
    with pq.ParquetFile(task.shard, page_checksum_verification=True) as file:
        numbers = np.asarray(pq.read_table(task.rows, partitioning=None).column("doc_no"), np.int64)
        if len(numbers) != file.metadata.num_rows:
            raise OutputBroken(f"{task.shard}: {file.metadata.num_rows} rows, where the run wrote {len(numbers)}; run again with --replace")
        at = 0
        for batch in file.iter_batches(5_000, use_threads=False):
            if batch.num_rows:
                columns = {name: plain(batch.column(name)) for name in batch.schema.names}
                yield pa.table(columns), numbers[at : at + batch.num_rows]
                at += batch.num_rows


def _inside(kept: pl.DataFrame, docs: I64, cells: npt.NDArray[np.int32], seen_at: Matches) -> tuple[npt.NDArray[np.bool_], int]:
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
    place = np.searchsorted(start, mine + seen_at.start, side="right") - 1
    inside = (place >= 0) & (np.maximum.accumulate(stop)[np.maximum(place, 0)] >= mine + seen_at.stop)
    each, entry = ranges(np.searchsorted(start, mine + seen_at.start, side="left"), place + 1)
    return inside, len(np.unique(entry[stop[entry] == (mine + seen_at.stop)[each]]))


@dataclass(frozen=True)
class _Residual:
    """Matches that no kept original holds, in output bytes."""

    doc_no: I64
    cell: I64
    start: I64
    stop: I64
    form: I64
    column: str


def _sorted_out(
    task: VerifyTask, residual: list[_Residual], flagged: Flagged
) -> tuple[list[tuple[int, int, int, int, int]], list[tuple[str, str, int]]]:
    """What can be swept, in bytes of the input text, and what is a leak: a match that is all of a replacement.

    A match strictly inside a replacement, or strictly inside an opaque value that the plan leaves, belongs to that.
    """
    doc_no, cell, start, stop, form = (
        np.concatenate([getattr(one, name) for one in residual]) for name in ("doc_no", "cell", "start", "stop", "form")
    )
    column = np.repeat([one.column for one in residual], [len(one.form) for one in residual])
    wanted = pl.Series(np.unique(doc_no))
    edits = pl.DataFrame(pq.read_table(task.edits, columns=["doc_no", "cell", "start_byte", "stop_byte", "replacement"], partitioning=None))
    edits = edits.filter(pl.col("doc_no").is_in(wanted.implode())).with_columns(size=pl.col("replacement").str.len_bytes().cast(pl.Int64))
    found = pl.DataFrame(pq.read_table(task.occurrences, columns=["doc_no", "cell", "start_byte", "stop_byte", "kind"], partitioning=None))
    left = found.filter(pl.col("doc_no").is_in(wanted.implode()) & pl.col("kind").cast(pl.String).is_in(list(task.opaque)))
    place = _Places(edits, int(max(cell.max(), edits["cell"].max() or 0, left["cell"].max() or 0)) + 1, int(doc_no.min()))
    inside = np.zeros(len(form), np.bool_)
    whole = np.zeros(len(form), np.bool_)
    mine = place.key(doc_no, cell)
    for spans, is_edit in ((edits, True), (left, False)):
        key = place.key(spans["doc_no"].to_numpy(), spans["cell"].to_numpy())
        low = key + place.shifted(key, spans["start_byte"].to_numpy())
        high = low + spans["size"].to_numpy() if is_edit else key + place.shifted(key, spans["stop_byte"].to_numpy())
        if len(low):
            at = np.maximum(np.searchsorted(low, mine + start, side="right") - 1, 0)
            within = (low[at] <= mine + start) & (high[at] >= mine + stop)
            equal = (low[at] == mine + start) & (high[at] == mine + stop)
            inside |= within & ~equal
            whole |= equal & is_edit
    leaks = [(str(column[row]), flagged.names[flagged.kind[form[row]]], int(doc_no[row])) for row in np.flatnonzero(whole)]
    rest = np.flatnonzero(~inside & ~whole)
    first, last = place.original(mine[rest], start[rest], stop[rest])
    return list(zip(*(part.tolist() for part in (doc_no[rest], cell[rest], first, last, form[rest])), strict=True)), leaks


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


def _write_sweep(task: VerifyTask, swept: list[tuple[int, int, int, int, int]], flagged: Flagged) -> int:
    """Write what is left over as occurrences of the input text; the longest of two that begin together stays."""
    swept = sorted(set(swept), key=lambda entry: (entry[0], entry[1], entry[2], -entry[3]))
    rows = []
    wanted = {entry[0] for entry in swept}
    texts: dict[tuple[int, int], str] = {}
    if wanted:
        names = [*dict.fromkeys(leaf.column for leaf in task.leaves)]
        for table in task.documents.read(min(wanted), max(wanted) + 1, names):
            table = table.filter(pc.is_in(table.column("doc_no"), value_set=pa.array(sorted(wanted)))).combine_chunks()
            numbers = np.asarray(table.column("doc_no"), np.int64)
            for column in cells_of(table, list(task.leaves)) if table.num_rows else []:
                for row, cell, text in zip(column.flat.rows, column.cells, column.flat.texts, strict=True):
                    texts[int(numbers[row]), int(cell)] = text.as_py() or ""
    done = (-1, -1, -1)
    for doc_no, cell, start, stop, form in swept:
        if (doc_no, cell) == done[:2] and stop <= done[2]:
            continue
        done = (doc_no, cell, stop)
        one = Buffers.of(pa.array([texts[doc_no, cell]], pa.large_string()))
        (points,) = code_points(one, np.zeros(2, np.int64), np.array([start, stop]))
        kind = flagged.names[flagged.kind[form]]
        rows.append(
            (doc_no, cell, int(points[0]), int(points[1]), start, stop, kind, int(flagged.value_id[form]), tables.SWEEP, 1.0, None, None)
        )
    write_rows(task.sweep, tables.OCCURRENCES.schema, rows)
    return len(rows)


def opaque_of(leave: Sequence[str]) -> tuple[str, ...]:
    """Of the kinds that a plan leaves, those that are one token whatever they seem to hold."""
    return tuple(name for name in leave if kinds()[name].opaque)


def scan(flagged: Path, texts: dict[str, str]) -> list[tuple[str, str]]:
    """Which of some texts (card, report, manifest) hold a flagged value: (name, kind), without the value."""
    one = Flagged.read(flagged)
    found = []
    for name, text in texts.items():
        column = pa.array([text], pa.large_string())
        for seen_at in (one.find(column), one.find_compatible(column)):
            found += [(name, one.names[one.kind[form]]) for form in np.unique(seen_at.form)]
    return found


def check(out: Path | str, work: Path | str | None = None) -> dict[str, Any]:
    """Look at a published OUT again: every shard is what the manifest says, and holds nothing that had to go.

    Raises OutputBroken (a broken or foreign shard), LeakFound, or UsageError where WORK is not the one OUT was made in.
    """
    out, work = Path(out), Path(work or f"{out}.private")
    corpus = Corpus.open(out)
    corpus.check()
    described = read_json(work / "index.json")
    folder = work / "runs" / str(corpus.manifest["plan_hash"])
    flagged = folder / "counts" / "flagged.parquet"
    if corpus.manifest["settings"]["verify"] == "off":
        raise UsageError(f"{out}: was made with --verify off, so there is nothing to hold it against; run again without, and --replace")
    if described is None or not flagged.is_file():
        raise UsageError(f"{work}: does not hold the run that made {out}; name its folder with --work (default: {out}.private)")
    documents = Documents.from_json(described["documents"])
    which = tuple(Leaf(column, tuple(steps)) for column, *steps in described["leaves"])
    results = []
    with tempfile.TemporaryDirectory(prefix="sanitize-verify-") as spill:
        for no, (shard, (low, high)) in enumerate(zip(corpus.shards, described["ranges"], strict=True)):
            name = f"{no:05d}.parquet"
            task = VerifyTask(
                no=no,
                first=low,
                last=high,
                shard=shard.path,
                flagged=flagged,
                kept=folder / "kept" / name,
                edits=folder / "edits" / name,
                occurrences=work / "tables" / "occurrences" / name,
                opaque=opaque_of(corpus.manifest["plan"]["leave"]),
                rows=folder / "rows" / name,
                documents=documents,
                leaves=which,
                sweep=Path(spill) / name,
            )
            results.append(verify_task(task))
    try:
        texts = {page: (out / page).read_text("utf-8") for page in ("README.md", "report.html", "manifest.json")}
    except (OSError, UnicodeDecodeError) as error:
        raise OutputBroken(f"{out}: a page of it cannot be read ({type(error).__name__}); run again with --replace") from None
    pages = scan(flagged, texts)
    leaks = sum(len(result["leaks"]) + result["swept"] for result in results) + len(pages)
    lost = sum(result["kept_planned"] - result["kept_seen"] for result in results)
    if leaks or lost:
        raise LeakFound(
            f"{out}: {leaks} places hold a value that had to go, {lost} kept originals are not where they were left; do not publish it"
        )
    return {
        "leaks": 0,
        "shards": len(results),
        "rows": sum(result["rows"] for result in results),
        "forms": list(FORMS),
        "out": str(out),
        "work": str(work),
    }
