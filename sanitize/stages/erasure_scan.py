"""What a run has to do with those who are to be forgotten: their names found in the texts, and the documents they wrote.

The index knows neither: names have no pattern, and a document's user is no occurrence. Both are looked for in one pass, only where a
tombstone asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.keys import Key
from sanitize.core.text_cells import Leaf
from sanitize.stages import rewriting
from sanitize.storage import table_schemas
from sanitize.storage.corpus import Documents, cells_of, table_writer
from sanitize.storage.tombstones import Erased, users_of
from sanitize.text import name_search

GONE = pa.schema([pa.field("doc_no", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class ForgetTask:
    """One range of documents in which people are looked for."""

    first: int
    last: int
    documents: Documents
    leaves: tuple[Leaf, ...]
    erased: Erased
    key: Key
    folder: Path

    @property
    def told(self) -> str:
        """The task in words, for an error."""
        return self.documents.told(self.first, self.last)


def forget_task(task: ForgetTask) -> dict[str, Any]:
    """Write `mentions.parquet` (every mention of the names, as rows of `occurrences`) and `gone.parquet` (the users' documents)."""
    texts = [leaf.column for leaf in task.leaves] if task.erased.names else []
    users = ["user_id"] if task.erased.users and "user_id" in task.documents.schema.names else []
    columns = [*dict.fromkeys([*texts, *users])]
    mentioned = written = 0
    with (
        table_writer(task.folder / "mentions.parquet", table_schemas.OCCURRENCES.schema) as out,
        table_writer(task.folder / "gone.parquet", GONE) as gone_out,
    ):
        for table in task.documents.read(task.first, task.last, columns) if columns else ():
            table = table.combine_chunks()
            doc_no = np.asarray(table.column("doc_no"), np.int64)
            if users:
                ids = table.column("user_id").chunk(0).cast(pa.large_string())
                mine = np.isin(users_of(ids.fill_null(""), task.key), np.array(task.erased.users, np.int64)) & np.asarray(ids.is_valid())
                gone_out.write_table(pa.table([doc_no[mine]], schema=GONE))
                written += int(mine.sum())
            if texts:
                found = pl.concat(
                    name_search.rows(column.flat.texts, doc_no[column.flat.rows], column.cells, task.erased.names, task.key)
                    for column in cells_of(table, list(task.leaves))
                ).sort("doc_no", "cell", "start")
                if found.height:
                    out.write_table(found.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(table_schemas.OCCURRENCES.schema))
                mentioned += found.height
    return {"mentions": mentioned, "written": written}


def shunned(values: Sequence[Path], erased: Erased) -> tuple[str, ...]:
    """What stands before the @ in the erased addresses, in lower case: draws may put it together from other people's parts. One of fewer
    than five characters (`info`) tells nobody and is left out."""
    found: set[str] = set()
    for path in values:
        table = pl.DataFrame(pq.read_table(path, columns=["value_id", "value"], partitioning=None))
        mine = table.filter(pl.col("value_id").is_in(pl.Series(erased.values, dtype=pl.Int64).implode()))
        found |= set(mine["value"].str.to_lowercase().str.extract(r"\A([^@]{5,})@").drop_nulls())
    return tuple(sorted(found))


def says(edits: Path, shunned: Sequence[str]) -> bool:
    """True where a replacement of an earlier run has such a local part: its shard is made again."""
    if not edits.exists():
        return False
    made = pl.Series(pq.read_table(edits, columns=["replacement"], partitioning=None).column(0))
    return bool(rewriting.says(made, shunned).any())
