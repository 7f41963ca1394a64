"""What a plan takes of the occurrences that the index holds: without what it allows, and without what is not sure enough for it.

    occurrences + values + the plan's [find.allow], [find.deny] and [find.min_score] -> occurrences, skipped

Nothing is read again: a value is judged by its identity form, an occurrence by its score. What `deny` names is taken whatever the other two
say; so is what somebody had erased. What is left out is counted as `allowed` or `score`, and the leak check does not look for a value
of which nothing was taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.kinds import ip_address
from sanitize.kinds.kind import kind as kind_named
from sanitize.plans.plan import Rules
from sanitize.storage import table_schemas
from sanitize.storage.corpus import table_writer, write_rows
from sanitize.storage.views import LEFT_ALONE

IDS = pa.schema([pa.field("value_id", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class ChooseTask:
    """The occurrences of one task of find, and the values that stand among them."""

    occurrences: Path
    values: Path
    rules: Rules
    erased: tuple[int, ...]
    folder: Path


def choose_task(task: ChooseTask) -> dict[str, Any]:
    """Write `occurrences.parquet` (those that the plan takes), `skipped.parquet`, and `ids.parquet` (the values among them)."""
    found = pq.read_table(task.occurrences, partitioning=None)
    values = pl.DataFrame(pq.read_table(task.values, partitioning=None)).with_columns(pl.col("kind").cast(pl.String))
    allowed, denied = (_matching(values, listed) for listed in (task.rules.allow, task.rules.deny))
    frame = pl.DataFrame(found.select(["value_id", "score", "kind"])).with_columns(pl.col("kind").cast(pl.String))
    least = frame["kind"].replace_strict(dict(task.rules.min_score), default=0.0, return_dtype=pl.Float32)
    always = np.isin(frame["value_id"].to_numpy(), np.concatenate([denied, np.array(task.erased, np.int64)]))
    free = np.isin(frame["value_id"].to_numpy(), allowed) & ~always
    unsure = (frame["score"] < least).to_numpy() & ~always & ~free
    taken = ~free & ~unsure
    with table_writer(task.folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema) as out:
        out.write_table(found.filter(pa.array(taken)).cast(table_schemas.OCCURRENCES.schema))
    rows = []
    for reason, where in (("allowed", free), ("score", unsure)):
        counts = frame.filter(pl.Series(where))["kind"].value_counts()
        rows += [(kind, reason, times) for kind, times in sorted(counts.iter_rows())]
    write_rows(task.folder / "skipped.parquet", table_schemas.SKIPPED.schema, rows)
    ids = np.unique(frame["value_id"].to_numpy()[taken])
    pq.write_table(pa.table([ids], schema=IDS), task.folder / "ids.parquet")
    return {"taken": int(taken.sum())}


def left_alone(values: Sequence[Path], ids: Sequence[Path], counts: Path) -> int:
    """Write the values of which nothing was taken in any task to a run's folder of counts; returns how many."""
    taken = np.unique(np.concatenate([np.empty(0, np.int64), *(_ids(path) for path in ids)]))
    alone = [np.setdiff1d(_ids(path), taken) for path in values]
    found = np.unique(np.concatenate([np.empty(0, np.int64), *alone]))
    counts.mkdir(exist_ok=True)
    pq.write_table(pa.table([found], schema=IDS), counts / LEFT_ALONE)
    return len(found)


def _ids(path: Path) -> Any:
    return np.asarray(pq.read_table(path, columns=["value_id"], partitioning=None).column("value_id"), np.int64)


def _matching(values: pl.DataFrame, listed: Mapping[str, Sequence[str]]) -> Any:
    """The ids of the values that a list names."""
    found = [np.empty(0, np.int64)]
    for name, entries in listed.items():
        mine = values.filter(pl.col("kind") == name)
        form = mine.select(pl.coalesce("normalised", "value")).to_series().str.to_lowercase()
        named = form.str.contains(pattern_of(name, entries))
        if name == ip_address.KIND.name:
            named |= ip_address.within(form, ip_address.networks(entries))
        found.append(mine.filter(named)["value_id"].to_numpy())
    return np.unique(np.concatenate(found))


def pattern_of(kind: str, entries: Sequence[str]) -> str:
    """One pattern for the entries of a list: `*` and `?` stand for any characters and for one, `@example.com` for all addresses of that
    host and of those below it; an entry without any of these is a value, in whatever spelling.
    What has a `/` is no address: networks are asked of their kind (`ip_address.within`)."""
    parts = []
    for entry in entries:
        if entry.startswith("@"):
            parts.append(rf".*@(?:.*[.])?{re.escape(entry[1:].lower())}")
        elif "*" in entry or "?" in entry:
            pieces = (".*" if piece == "*" else "." if piece == "?" else re.escape(piece.lower()) for piece in re.split(r"([*?])", entry))
            parts.append("".join(pieces))
        else:
            parts.append(re.escape(kind_named(kind).normalise(pl.Series([entry], dtype=pl.String)).str.to_lowercase()[0]))
    return r"(?s)\A(?:" + "|".join(parts) + r")\z"
