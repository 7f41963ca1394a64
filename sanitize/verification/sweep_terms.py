"""What a run with full verification looks for before its sweep: the passes of the full check, and the forms that only they know, identity
forms, digits, and those digests of values that stand in texts.

A word of hexadecimal digits inside a kept original, or inside an opaque value that the plan leaves, belongs there. Costs one look at the
texts, and the digests of all values where any such word is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import filled
from sanitize.core.engine import Engine
from sanitize.storage.corpus import cells_of
from sanitize.text.decodings import digests
from sanitize.text.literal_search import ready
from sanitize.verification.attribution import VerifyTask, batches, in_its_place
from sanitize.verification.value_forms import FURTHER, Needles, heads_of, write_further, write_passes

_WORDS = pa.schema([("word", pa.string())])


@dataclass(frozen=True)
class Words:
    """One shard, and the file for the words in it that may be digests and stand where none belongs."""

    shard: VerifyTask
    out: Path
    aside: Path | None = None  # where an attempt writes before that has its name

    def attempt(self, folder: Path) -> Words:
        """The task as one of several attempts at once may do it."""
        return replace(self, aside=folder / "words.parquet")


def hidden(
    engine: Engine,
    shards: Sequence[VerifyTask],
    values: Sequence[Path],
    edited: Sequence[str],
    also: Sequence[int],
    alone: Sequence[int],
    spill: Path,
    memory: int,
) -> tuple[list[Path], tuple[Path, ...]]:
    """The passes over the values that had to go (see `write_passes`), and what `VerifyTask.further` holds, all made ready in `spill`."""
    passes, _ = write_passes(values, edited, spill / "passes", memory, also, alone)
    further = write_further(values, edited, spill / "further", also, alone)
    digested = write_digested(engine, shards, passes, spill / "digested")
    return passes, tuple(ready(path, path.with_suffix(""), memory) for path in (*further, digested))


def write_digested(engine: Engine, shards: Sequence[VerifyTask], passes: Sequence[Path], folder: Path) -> Path:
    """The digests of values of the passes that stand in texts of the shards, in a file that `ready` and `Flagged.read` take; `folder` is
    there for scratch."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [Words(shard, folder / f"{shard.no:06d}.parquet") for shard in shards]
    some = [tasks[done.place].out for done in engine.map_shards(words_of, tasks) if done.result]
    rows: dict[str, tuple[int, int]] = {}
    for done in engine.map_shards(whose, [(needles, tuple(sorted(some))) for needles in passes] if some else []):
        rows.update(done.result)
    words = sorted(rows)
    columns = [words, [rows[word][0] for word in words], [rows[word][1] for word in words]]
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, FURTHER, strict=True)], schema=FURTHER)
    pq.write_table(table, folder / "digests.parquet", row_group_size=max(1, len(words)))
    return folder / "digests.parquet"


def words_of(task: Words) -> int:
    """How many distinct words of one shard may be digests; they are written to its file."""
    shard, found = task.shard, set[str]()
    kept = pl.DataFrame(pq.read_table(shard.kept, partitioning=None))
    for table, doc_no in batches(shard):
        for column in cells_of(table, [leaf for leaf in shard.leaves if leaf.column in table.column_names]):
            texts = filled(column.flat.texts)
            words, *where = digests(texts)
            if words:
                belongs = in_its_place(shard, kept, doc_no[column.flat.rows], column.cells.astype(np.int64), *where)
                found.update(np.array(words, object)[~belongs])
    pq.write_table(pa.table([pa.array(sorted(found), pa.string())], schema=_WORDS), task.aside or task.out, compression="lz4")
    if task.aside:
        task.aside.rename(task.out)
    return len(found)


def whose(task: tuple[Path, tuple[Path, ...]]) -> dict[str, tuple[int, int]]:
    """The words that are digests of values of one pass: the number of the kind, and the `value_id`."""
    needles, files = task
    words = pl.concat([pl.DataFrame(pq.read_table(path, partitioning=None))["word"] for path in files]).unique()
    known = Needles.read(needles).digests(np.unique(heads_of(words)))
    there = set(words.filter(words.is_in(pl.Series(list(known), dtype=pl.String).implode())))
    return {word: of for word, of in known.items() if word in there}
