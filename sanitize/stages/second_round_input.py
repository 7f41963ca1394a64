"""What is gathered from find's first round over the whole corpus, before the second: what `known` looks for, and whose each value is.

    links of all tasks -> entities          values and occurrences of all tasks, and a user's list -> forms

Costs a pass over the distinct values; nothing sees a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.keys import Key
from sanitize.core.parts import Finder
from sanitize.finders import known

ENTITIES = pa.schema([pa.field("value_id", pa.int64()), pa.field("entity_id", pa.int64())])
_MOST = 20  # addresses beside one name: with more it is the name of a list or a role, and links nobody


@dataclass(frozen=True, kw_only=True)
class GatherTask:
    """What the first round left, one file a task of find."""

    occurrences: tuple[Path, ...]
    values: tuple[Path, ...]
    links: tuple[Path, ...]
    listed: Path | None  # a user's list
    key: Key
    folder: Path


def placed(finders: Sequence[Finder], results: Sequence[Mapping[str, Any]], aside: int) -> list[str]:
    """What finders that were given spans from outside say of them, once the first round is over: notes, or InputRefused where they are of
    other documents. `aside` documents were set aside before it."""
    total = sum((Counter(result.get("placed", {})) for result in results), Counter[str]())
    aside += sum(result["quarantined"] for result in results)
    return [note for finder in finders for note in finder.check(total[finder.use], aside)]


def gather_task(task: GatherTask) -> dict[str, Any]:
    """Write `entities.parquet` (value_id, entity_id, ascending) and `forms.parquet`; returns how many rows each has."""
    links = pl.concat(
        [pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64}), *(pl.read_parquet(path, glob=False) for path in task.links)]
    )
    entities = entities_of(links.unique())
    pq.write_table(entities.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(ENTITIES), task.folder / "entities.parquet")
    listed = known.read_list(task.listed) if task.listed else None
    forms = known.gather(task.values, task.occurrences, listed, task.key, task.folder / "forms.parquet")
    return {"entities": entities.height, "forms": forms}


def entities_of(links: pl.DataFrame) -> pl.DataFrame:
    """Whose each value is, from distinct pairs `value_id` (an address), `other` (a name): all that is connected is one person's, and the
    smallest `value_id` among it is the `entity_id`. Names with many addresses connect nobody."""
    many = links.group_by("other").len().filter(pl.col("len") > _MOST)
    links = links.join(many, on="other", how="anti")
    ids = np.unique(np.concatenate([links["value_id"].to_numpy(), links["other"].to_numpy()]))
    one, other = (np.searchsorted(ids, links[name].to_numpy()) for name in ("value_id", "other"))
    label = np.arange(len(ids))
    while True:
        # each takes the smallest label among its neighbours, then that label's own, until nothing moves
        before = label.copy()
        low = np.minimum(label[one], label[other])
        np.minimum.at(label, one, low)
        np.minimum.at(label, other, low)
        label = label[label]
        if (label == before).all():
            break
    return pl.DataFrame(
        {"value_id": ids, "entity_id": ids[label] if len(ids) else ids}, schema={"value_id": pl.Int64, "entity_id": pl.Int64}
    )
