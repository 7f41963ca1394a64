"""What became of every occurrence: occurrences and edits of each shard side by side, added up over the corpus.

    occurrences + edits + drops -> standing (a file a shard) -> fates (sql/fates.sql, once for each range of values)

A shard is a pure function of its tables: both lie in the order of their places, so that each occurrence finds its edits by search, not by
a join. What the whole corpus needs of it are numbers: how often each value stands there afterwards, a stand-in known by the hash of its
text. Nearly every stand-in is a value of its own, so they are counted range by range, each read by itself: memory is that of the tables of
one shard, and of `_AT_ONCE` rows, however large the corpus.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import ranges
from sanitize.core.engine import Engine
from sanitize.storage import queries

I64 = npt.NDArray[np.int64]
# rows without a section: how often each value stands there (`standing`: an original's value_id, the hash of a stand-in's text, 0 for what
# is no value any more); rows with one: where the same occurrences stood
_WORD = pa.dictionary(pa.int32(), pa.string())
STANDING = pa.schema(
    [
        pa.field("kind", _WORD),
        pa.field("fate", _WORD),
        pa.field("section", _WORD),
        pa.field("standing", pa.int64()),
        pa.field("occurrences", pa.int64()),
    ]
)
_FATES = ("original", "stand_in", "label", "removed", "with_another", "dropped")
_PLACE = ["doc_no", "cell", "start_byte", "stop_byte"]
_AT_ONCE = 2_000_000  # rows that are counted together: 100 bytes each in DuckDB
_GROUP = 8_192  # rows of a row group, which is what a range is read by


@dataclass(frozen=True, kw_only=True)
class FateTask:
    """One shard: its tables, and where what stands there is written."""

    occurrences: tuple[Path, ...]
    edits: Path | None
    drops: tuple[Path, ...]
    out: Path
    aside: Path | None = None

    def attempt(self, folder: Path) -> FateTask:
        """The task as one of several attempts at once may do it."""
        return replace(self, aside=folder / self.out.name)


def fates(engine: Engine, tasks: Sequence[FateTask], out: Path) -> pa.Table:
    """The rows of `sql/fates.sql` for all shards."""
    for _ in engine.map_shards(stand, tasks):
        pass
    files = [task.out for task in tasks]
    parts = -(-sum(pq.read_metadata(file).num_rows for file in files) // _AT_ONCE) or 1
    edges = [-(1 << 63) + part * (1 << 64) // parts for part in range(parts + 1)]  # ids and hashes lie evenly
    counted = []
    for low, high in itertools.pairwise(edges):
        engine.sql(queries.query("fates").text, {"standing": files}, out, low=low, high=high - 1)
        counted.append(pl.DataFrame(pq.read_table(out, partitioning=None)))
    key = ["kind", "fate", "section", "occurrences"]
    added = pl.concat(counted).group_by(key).agg(pl.col("distinct_values").sum())
    return added.sort(key, descending=[False, False, False, True]).to_arrow()


def stand(task: FateTask) -> None:
    """Write what stands in one shard, as `STANDING` says."""
    wanted = [*_PLACE, "value_id", "kind", "section"]
    read = [pq.read_table(path, columns=wanted, partitioning=None) for path in task.occurrences]
    found = pa.concat_tables(read).unify_dictionaries().combine_chunks()
    kind, kinds = _coded(found, "kind")
    section, sections = _coded(found, "section")
    sections = [*sections, ""]  # the last one is that of what stands in no mail
    place = {name: np.asarray(found.column(name), np.int64) for name in _PLACE}
    row, text, touched = _edited(place, kind, kinds, task.edits)
    dropped = _dropped(place["doc_no"], task.drops)
    standing = np.asarray(found.column("value_id"), np.int64)[row]
    fate = np.where(touched[row], _FATES.index("with_another"), _FATES.index("original"))
    edited = len(text)  # these rows come first
    label = pl.DataFrame({"text": text, "kind": pl.Series(kinds, dtype=pl.String).gather(kind[row[:edited]])}).select(
        pl.col("text").str.slice(1).str.starts_with(pl.col("kind"))
    )
    made_of = np.where(label.to_series(), _FATES.index("label"), _FATES.index("stand_in"))
    fate[:edited] = np.where(text == "", _FATES.index("removed"), made_of)
    # a stand-in is known by Polars' hash: 64 bits, the same in all processes of one run, and seen by nobody after it
    standing[:edited] = text.hash().reinterpret(signed=True).to_numpy()
    fate[dropped[row]] = _FATES.index("dropped")
    valued = (fate == _FATES.index("original")) | (fate == _FATES.index("stand_in"))
    made = _summed(kind[row] * len(_FATES) + fate, np.where(valued, standing, 0), section[row], kinds, sections)
    into = task.aside or task.out
    made = made.take(np.argsort(np.asarray(made.column("standing")), kind="stable"))
    with pq.ParquetWriter(into, STANDING, compression="lz4", write_statistics=["standing"], write_page_checksum=True) as out:
        out.write_table(made, row_group_size=_GROUP)
    into.rename(task.out)


def _coded(table: pa.Table, name: str) -> tuple[I64, list[str]]:
    """A column of words as numbers (-1 for none), and the words."""
    if not table.num_rows:
        return np.empty(0, np.int64), []
    column = table.column(name).chunk(0)
    return np.asarray(column.indices.fill_null(-1), np.int64), column.dictionary.to_pylist()


def _summed(what: I64, standing: I64, section: I64, kinds: list[str], sections: list[str]) -> pa.Table:
    """Each thing that stands there and how often, then each place and how often."""
    order = np.argsort(what, kind="stable")
    edges = np.flatnonzero(np.diff(what[order], prepend=-1, append=-1))
    ids = standing[order]
    for low, high in zip(edges[:-1], edges[1:], strict=True):  # a loop over kinds and what became of them
        ids[low:high].sort()
    new = np.diff(ids, prepend=0) != 0
    new[edges[:-1]] = True
    first = np.flatnonzero(new)
    place = what * len(sections) + np.where(section < 0, len(sections) - 1, section)
    times = np.bincount(place)
    used = np.flatnonzero(times)
    some = np.arange(len(first) + len(used)) >= len(first)  # the rows of places
    kind, fate = np.divmod(np.concatenate([what[order[first]], used // len(sections)]), len(_FATES))
    where = np.concatenate([np.zeros(len(first), np.int64), used % len(sections)])
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(kind, pa.int32()), pa.array(kinds, pa.string())),
        pa.DictionaryArray.from_arrays(pa.array(fate, pa.int32()), pa.array(_FATES, pa.string())),
        pa.DictionaryArray.from_arrays(pa.array(where, pa.int32(), mask=~some), pa.array(sections, pa.string())),
        pa.array(np.concatenate([ids[first], np.zeros(len(used), np.int64)])),
        pa.array(np.concatenate([np.diff(np.append(first, len(ids))), times[used]]), pa.int64()),
    ]
    return pa.table(columns, schema=STANDING)


def _dropped(numbers: I64, drops: tuple[Path, ...]) -> npt.NDArray[np.bool_]:
    """Which occurrences stand in documents that went."""
    if not drops or not len(numbers):
        return np.zeros(len(numbers), np.bool_)
    between = [("doc_no", ">=", int(numbers.min())), ("doc_no", "<=", int(numbers.max()))]
    read = [pq.read_table(path, columns=["doc_no"], filters=between, partitioning=None) for path in drops]
    return np.isin(numbers, np.concatenate([np.asarray(one.column(0), np.int64) for one in read]))


def _edited(place: dict[str, I64], kind: I64, kinds: list[str], edits: Path | None) -> tuple[I64, pl.Series, npt.NDArray[np.bool_]]:
    """The rows of the occurrences: first those that an edit of their own kind overlaps, one for each such edit, with what stands there
    instead; then the others. And for each occurrence whether any edit touches it."""
    count = len(kind)
    if edits is None or not pq.read_metadata(edits).num_rows or not count:
        return np.arange(count), pl.Series([], dtype=pl.String), np.zeros(count, np.bool_)
    made = pq.read_table(edits, columns=[*_PLACE, "kind", "replacement"], partitioning=None).unify_dictionaries().combine_chunks()
    there = {name: np.asarray(made.column(name), np.int64) for name in _PLACE}
    number = {name: place for place, name in enumerate(kinds)}
    code, names = _coded(made, "kind")
    code = np.array([number.get(name, -1) for name in names], np.int64)[code]
    # each cell with edits has a number; edits stand in their order and are disjoint, so that both their ends ascend
    cell, of = _cells(there, place)
    start, stop = (cell * (1 << 40) + there[name] for name in _PLACE[2:])
    assert (start[1:] >= stop[:-1]).all()
    low = np.searchsorted(stop, of * (1 << 40) + place["start_byte"], side="right")
    high = np.searchsorted(start, of * (1 << 40) + place["stop_byte"], side="left")
    low, high = (np.where(of >= 0, side, 0) for side in (low, np.maximum(low, high)))
    each, edit = ranges(low, high)
    own = kind[each] == code[edit]
    each, edit = each[own], edit[own]
    alone = np.ones(count, np.bool_)
    alone[each] = False
    text = pl.Series(made.column("replacement").chunk(0).take(pa.array(edit)), dtype=pl.String)
    return np.concatenate([each, np.flatnonzero(alone)]), text, high > low


def _cells(made: dict[str, I64], found: dict[str, I64]) -> tuple[I64, I64]:
    """A number for the cell of each edit, ascending, and the same for each occurrence: -1 where its cell has no edit."""
    width = int(max(made["cell"].max(), found["cell"].max())) + 1
    key, wanted = (one["doc_no"] * width + one["cell"] for one in (made, found))
    new = np.diff(key, prepend=-1) != 0
    known = key[new]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.cumsum(new) - 1, np.where(known[at] == wanted, at, -1)
