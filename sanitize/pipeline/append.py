"""An append: what a run does to go on behind what was published, instead of making it anew.

    OUT's manifest, the batches of the index -> parts          edits of earlier shards -> what their variants say
    firsts - what was said -> firsts of the new part           labels old and new -> the same pseudonym for the same value

A part is what was published together: some batches, hence some ranges and shards. An earlier part stands as it was published; the new
one is decided with all that is known by now, and shares its rules: a variant is no value of any batch, and a value that a variant said
before is replaced from its first occurrence on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import I64, arrow
from sanitize.core.keys import Key, value_ids
from sanitize.core.parts import Editor
from sanitize.errors import LeakFound, OutputBroken, PlanError, UsageError
from sanitize.kinds.kind import every_kind
from sanitize.pipeline.index_increments import Batch
from sanitize.storage.corpus import table_writer

SAID = pa.schema([pa.field("value_id", pa.int64())])
_WAY_OUT = "run over all files with --replace, without --append"


@dataclass(frozen=True, kw_only=True)
class Part:
    """What was published together, or is to be: ranges `first` to `stop` - 1, up to the batch `batch` (a number from 0)."""

    no: int  # from 1
    first: int
    stop: int
    batch: int

    @property
    def name(self) -> str:
        """What is added to the names of its records: nothing for the first one."""
        return f"-{self.no:04d}" if self.no > 1 else ""


def parts_of(batches: Sequence[Batch], stops: Sequence[int], ranges: int) -> tuple[Part, ...]:
    """The parts that end behind so many batches each; the last one ends with the index, which has so many `ranges`."""
    counts = [0, *accumulate(batch.ranges for batch in batches)]
    ends = [*(counts[stop] for stop in stops[:-1]), ranges]
    return tuple(
        Part(no=no + 1, first=first, stop=stop, batch=behind - 1)
        for no, (first, stop, behind) in enumerate(zip([0, *ends], ends, stops, strict=False))
    )


def stops_of(manifest: Mapping[str, Any], batches: Sequence[Batch], where: Path) -> list[int]:
    """Behind how many batches each published part of a manifest ends. UsageError where its inputs are not those of the index."""
    told = manifest.get("batches") or [{"inputs": len(manifest["inputs"])}]
    files = [list(file) for batch in batches for file in batch.files]
    counts = list(accumulate(len(batch.files) for batch in batches))
    ends = list(accumulate(int(part["inputs"]) for part in told))
    was = [[one["bytes"], one["sha256"]] for one in manifest["inputs"]]
    if was != files[: len(was)] or len(was) != ends[-1] or not set(ends) <= set(counts):
        raise UsageError(f"{where}: was made of other files than the index that is to be added to; {_WAY_OUT}, or take another --work")
    return [counts.index(end) + 1 for end in ends]


def refuse(plan: Any) -> None:
    """PlanError for a plan whose parts would have to see the whole corpus again."""
    where = f"plan {plan.name}"
    for number, dropper in enumerate(plan.droppers):
        _refused(f"{where}: drop[{number}].use = {dropper.use!r}", "which of all documents stay")
    if plan.blacklist is not None:
        _refused(f"{where}: [blacklist]", "in how many users' documents each word stands")
    for number, editor in enumerate(plan.editors):
        if not editor.appends:
            _refused(f"{where}: edit[{number}].use = {editor.use!r}", "all documents at once")


def _refused(what: str, why: str) -> None:
    raise PlanError(f"{what} has to know {why}, so that earlier shards could not stand as they are; {_WAY_OUT}")


@dataclass(frozen=True, kw_only=True)
class SaidTask:
    """One shard whose variants are asked what they say."""

    edits: Path
    key: Key
    folder: Path


def said_task(task: SaidTask) -> dict[str, Any]:
    """Write `said.parquet`: the identities of all replacements of a shard as values of their kinds, ascending."""
    edits = pl.DataFrame(pq.read_table(task.edits, columns=["kind", "replacement"], partitioning=None))
    distinct = edits.select(pl.col("kind").cast(pl.String), "replacement").unique()
    found: list[I64] = [np.empty(0, np.int64)]
    known = every_kind()
    for (name,), group in distinct.group_by("kind"):
        if name in known:
            normal = known[str(name)].normalise(group["replacement"])
            found.append(value_ids(arrow(normal), str(name), task.key))
    with table_writer(task.folder / "said.parquet", SAID) as out:
        out.write_table(pa.table([np.unique(np.concatenate(found))], schema=SAID))
    return {}


def without_said(firsts: Path, said: Sequence[Path]) -> None:
    """Take the occurrences of values that a variant has said before out of a table of firsts: none of them stays."""
    ids = np.unique(np.concatenate([np.empty(0, np.int64), *(_ids(path) for path in said)]))
    table = pq.read_table(firsts, partitioning=None)
    if len(ids) and table.num_rows:
        stays = ~np.isin(np.asarray(table.column("value_id"), np.int64), ids)
        if not stays.all():
            pq.write_table(table.filter(pa.array(stays)), firsts)


def _ids(path: Path) -> I64:
    return np.asarray(pq.read_table(path, partitioning=None).column("value_id"), np.int64)


def one_pseudonym(editors: Sequence[Editor], earlier: Sequence[Path], new: Sequence[Path], values: Sequence[Path]) -> None:
    """UsageError where a value has another pseudonym in the new part than in an earlier one, or shares one with a value of an earlier part,
    though the plan says that it is one for the corpus. Of the tables `labels`; rare: what is drawn collided with a new value."""
    kinds = sorted({kind for editor in editors if getattr(editor, "scope", "") == "corpus" for kind in editor.kinds})
    if not kinds or not earlier:
        return
    of = pl.concat(pl.read_parquet(path, columns=["value_id", "kind"], glob=False) for path in values).with_columns(
        pl.col("kind").cast(pl.String)
    )
    of = of.filter(pl.col("kind").is_in(kinds)).unique("value_id")
    was, now = (_pseudonyms(some, of) for some in (earlier, new))
    both = was.join(now, on=["kind", "value_id"], suffix="_now").filter(pl.col("label") != pl.col("label_now"))
    shared = was.join(now, on=["kind", "label"], suffix="_now").filter(pl.col("value_id") != pl.col("value_id_now"))
    bad = both["value_id"].n_unique() + shared["value_id"].n_unique()
    if bad:
        raise UsageError(
            f"the pseudonyms of {bad:,} values are not the same in the earlier shards as they would be now: a new value has drawn the same "
            f"one, or is one. Nothing was published; {_WAY_OUT}"
        )


def _pseudonyms(labels: Sequence[Path], of: pl.DataFrame) -> pl.DataFrame:
    """The distinct pseudonyms in some tables `labels`: kind, value_id, label as the kind knows it for one value."""
    told = pl.concat(pl.read_parquet(path, columns=["label", "value_id"], glob=False) for path in labels).unique().join(of, on="value_id")
    frames = [group.with_columns(label=every_kind()[str(name)].normalise(group["label"])) for (name,), group in told.group_by("kind")]
    empty = told.clear()
    return pl.concat([empty, *(frame.select(empty.columns) for frame in frames)]).unique()


def as_published(shards: Sequence[Mapping[str, Any]], made: Sequence[Mapping[str, Any]], where: Path) -> None:
    """OutputBroken where a shard of an earlier part is not the one that was published."""
    for shard, here in zip(shards, made, strict=True):
        if shard["sha256"] != here["sha256"]:
            raise OutputBroken(
                f"{where}: {shard['path']} as it lies in the private folder is not the one that was published (sha256 differs), and cannot "
                f"be made the same again; nothing was touched. {_WAY_OUT[0].upper()}{_WAY_OUT[1:]}"
            )


def still_clean(seen: Sequence[Mapping[str, Any]], where: Path) -> None:
    """LeakFound where an earlier shard holds a value of which the new documents told: it cannot stand as it is."""
    leaks = Counter((no, kind) for no, result in enumerate(seen) for _, kind, _ in result["leaks"])
    left = {no: result["swept"] for no, result in enumerate(seen) if result["swept"]}
    if leaks or left:
        shards = len({no for no, _ in leaks} | left.keys())
        kinds = ", ".join(sorted({kind for _, kind in leaks})) or "values"
        raise LeakFound(
            f"{where}: {leaks.total() + sum(left.values()):,} places in {shards:,} of the {len(seen):,} earlier shards hold {kinds} that "
            "the finders had missed there and found in the new documents; they would have to be made again. Nothing was published, and OUT "
            f"is as it was. To clean all of it, {_WAY_OUT}"
        )


def told(parts: Sequence[Part], batches: Sequence[Batch]) -> list[dict[str, int]]:
    """Of each part the input files, documents and shards."""
    first, found = 0, []
    for part in parts:
        mine = batches[first : part.batch + 1]
        first = part.batch + 1
        found.append({"inputs": sum(len(one.files) for one in mine), "shards": part.stop - part.first})
    return found
