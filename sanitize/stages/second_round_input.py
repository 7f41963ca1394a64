"""Collects the results of detection's first round over the whole corpus, as input of the second:
search terms and entities.

    links of all tasks -> entities (which values belong to one person) values and occurrences of all
    tasks, and a user's list -> forms (what the finder `known` searches for)

Costs one pass over the distinct values; no text is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.keys import Key
from sanitize.core.part_protocols import Finder
from sanitize.finders import known
from sanitize.stages.detection import FindResult

ENTITY_SCHEMA = pa.schema([pa.field("value_id", pa.int64()), pa.field("entity_id", pa.int64())])
# addresses beside one name; a name with more belongs to a mailing list or a role, and links nothing
_MAX_ADDRESSES_PER_NAME = 20


@dataclass(frozen=True, kw_only=True)
class GatherTask:
    """Results of the first round, one file per detection task."""

    occurrence_files: tuple[Path, ...]
    value_files: tuple[Path, ...]
    link_files: tuple[Path, ...]
    known_values_file: Path | None  # a user's list
    key: Key
    folder: Path


def check_finders(
    finders: Sequence[Finder], results: Sequence[FindResult], quarantined_count: int
) -> list[str]:
    """Check, after the first round, that the spans that finders read from external files match the
    documents; returns notes.

    `results` are those of the first round; `quarantined_count` documents were quarantined before
    it. Raises InputRefused where the spans belong to other documents.
    """
    total = sum((Counter(result.matched_by_finder) for result in results), Counter[str]())
    quarantined_count += sum(result.quarantined for result in results)
    return [
        note
        for finder in finders
        for note in finder.check_matched(total[finder.use], quarantined_count)
    ]


def gather_task(task: GatherTask) -> None:
    """Write `entities.parquet` (value_id ascending, entity_id) and `known_terms.parquet`."""
    links = pl.concat(
        [
            pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64}),
            *(pl.read_parquet(path, glob=False) for path in task.link_files),
        ]
    )
    entities = build_entities(links.unique())
    pq.write_table(
        entities.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(ENTITY_SCHEMA),
        task.folder / "entities.parquet",
    )
    listed = known.read_known_list(task.known_values_file) if task.known_values_file else None
    known.write_known_terms(
        task.value_files,
        task.occurrence_files,
        listed,
        task.key,
        task.folder / "known_terms.parquet",
    )


def build_entities(links: pl.DataFrame) -> pl.DataFrame:
    """The entity of each value: connected components of the graph of distinct pairs `value_id` (an
    address), `other` (a name).

    A component's smallest `value_id` is its `entity_id`. Names with more than
    `_MAX_ADDRESSES_PER_NAME` addresses are ignored. Returns the columns `value_id` (ascending) and
    `entity_id`.
    """
    ambiguous_names = links.group_by("other").len().filter(pl.col("len") > _MAX_ADDRESSES_PER_NAME)
    links = links.join(ambiguous_names, on="other", how="anti")
    ids = np.unique(np.concatenate([links["value_id"].to_numpy(), links["other"].to_numpy()]))
    address_rows, name_rows = (
        np.searchsorted(ids, links[name].to_numpy()) for name in ("value_id", "other")
    )
    label = np.arange(len(ids))
    while True:
        # min-label propagation with pointer jumping: take the smallest label of a neighbour, then
        # that label's label, until stable
        previous = label.copy()
        smallest = np.minimum(label[address_rows], label[name_rows])
        np.minimum.at(label, address_rows, smallest)
        np.minimum.at(label, name_rows, smallest)
        label = label[label]
        if (label == previous).all():
            break
    return pl.DataFrame(
        {"value_id": ids, "entity_id": ids[label] if len(ids) else ids},
        schema={"value_id": pl.Int64, "entity_id": pl.Int64},
    )
