"""Append (`run --append`): adds new files to a published output instead of rebuilding it.

    OUT's manifest, increments of the index -> output increments       edits of earlier shards -> forms of their replacements
    first occurrences - values with such a form -> first occurrences to keep   labels, old and new -> same value, same pseudonym

An output increment is what one command published together: one or more index increments, and so a
range of tasks and shards. The shards of earlier increments stay as they were published. The new
increment is edited with everything that is known by now, under the same rules: a variant never
equals a value of any increment, and a value of whatever kind that an earlier variant happened to
equal is replaced from its first occurrence on. A pseudonym is drawn with what was known when its
value was new, so that published pseudonyms never change."""  # noqa: E501

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

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import IdSet, Key
from sanitize.core.part_protocols import Editor
from sanitize.editors.synthesis.known_values import (
    contains_any,
    hash_surrogate_forms,
    list_conflicting_forms,
)
from sanitize.errors import LeakFound, OutputBroken, PlanError, UsageError
from sanitize.kinds.kind import all_kinds
from sanitize.stages.aggregates import iter_value_forms
from sanitize.storage.parquet_files import open_table_writer, read_table
from sanitize.storage.private_folder import IndexIncrement
from sanitize.verification.shard_check import ShardFindings

REPLACEMENT_FORMS_SCHEMA = pa.schema([pa.field("form", pa.int64())])
_RERUN_ADVICE = "run over all files with --replace, without --append"


@dataclass(frozen=True, kw_only=True)
class OutputIncrement:
    """What one command published, or will publish: tasks `first_task` to `end_task` - 1, which
    cover the index increments up to `last_index_increment` (numbered from 0)."""

    number: int  # from 1
    first_task: int
    end_task: int
    last_index_increment: int

    @property
    def record_suffix(self) -> str:
        """The suffix of this increment's record names; empty for the first increment."""
        return f"-{self.number:04d}" if self.number > 1 else ""


def build_output_increments(
    index_increments: Sequence[IndexIncrement], increment_ends: Sequence[int], task_count: int
) -> tuple[OutputIncrement, ...]:
    """The increments of an output. `increment_ends` has, for each, how many index increments it and
    those before it cover; the last one ends with the index, which has `task_count` tasks."""
    counts = [0, *accumulate(increment.task_count for increment in index_increments)]
    ends = [*(counts[end] for end in increment_ends[:-1]), task_count]
    return tuple(
        OutputIncrement(
            number=number + 1,
            first_task=first,
            end_task=end,
            last_index_increment=increment_end - 1,
        )
        for number, (first, end, increment_end) in enumerate(
            zip([0, *ends], ends, increment_ends, strict=False)
        )
    )


def find_increment_ends(
    manifest: Mapping[str, Any], index_increments: Sequence[IndexIncrement], where: Path
) -> list[int]:
    """For each published increment of a manifest, how many index increments it and those before it
    cover.

    Raises UsageError if the manifest's inputs are not those of the index. `where` opens the
    message."""
    published = manifest.get("increments") or [{"input_count": len(manifest["inputs"])}]
    files = [list(file) for increment in index_increments for file in increment.files]
    counts = list(accumulate(len(increment.files) for increment in index_increments))
    ends = list(
        accumulate(int(published_increment["input_count"]) for published_increment in published)
    )
    published_files = [[entry["bytes"], entry["sha256"]] for entry in manifest["inputs"]]
    if (
        published_files != files[: len(published_files)]
        or len(published_files) != ends[-1]
        or not set(ends) <= set(counts)
    ):
        raise UsageError(
            f"{where}: was made from other files than the index to append to; {_RERUN_ADVICE}, or"
            " use another --work"
        )
    return [counts.index(end) + 1 for end in ends]


def check_plan_can_append(plan: Any) -> None:
    """Raise PlanError for a plan with parts that need the whole corpus, so that earlier shards
    would change."""
    where = f"plan {plan.name}"
    for number, dropper in enumerate(plan.droppers):
        _refuse(
            f"{where}: drop[{number}].use = {dropper.use!r}",
            "which documents of the whole corpus remain",
        )
    if plan.blacklist is not None:
        _refuse(f"{where}: [blacklist]", "in how many users' documents each word occurs")
    for number, editor in enumerate(plan.editors):
        if not editor.supports_append:
            _refuse(f"{where}: edit[{number}].use = {editor.use!r}", "all documents at once")


def _refuse(what: str, why: str) -> None:
    raise PlanError(
        f"{what} has to know {why}, so earlier shards could not stay as they are; {_RERUN_ADVICE}"
    )


@dataclass(frozen=True, kw_only=True)
class ReplacementFormsTask:
    """One shard whose replacements are converted to forms."""

    edits: Path
    key: Key
    folder: Path


def replacement_forms_task(task: ReplacementFormsTask) -> None:
    """Write `replacement_forms.parquet`: the forms of a shard's replacements, read as values of
    their kinds, ascending."""
    edits = pl.DataFrame(read_table(task.edits, columns=["kind", "replacement"]))
    distinct = edits.select(pl.col("kind").cast(pl.String), "replacement").unique()
    found: list[I64] = [np.empty(0, np.int64)]
    known = all_kinds()
    for (name,), group in distinct.group_by("kind"):
        if name in known:
            forms = hash_surrogate_forms(
                known[str(name)], to_large_string(group["replacement"]), task.key
            )
            found.append(np.unique(forms[forms != 0]))
    with open_table_writer(
        task.folder / "replacement_forms.parquet", REPLACEMENT_FORMS_SCHEMA
    ) as out:
        out.write_table(
            pa.table([np.unique(np.concatenate(found))], schema=REPLACEMENT_FORMS_SCHEMA)
        )


def remove_replacement_values(
    first_occurrences_file: Path,
    replacement_form_files: Sequence[Path],
    value_files: Sequence[Path],
    key: Key,
) -> None:
    """Remove from a table of first occurrences those values that an earlier replacement equals in
    one of their forms, whatever its kind, so that none of them is kept.

    Rewrites `first_occurrences_file` in place if a row is removed. `replacement_form_files` are
    those of `replacement_forms_task`."""
    forms = [
        np.asarray(read_table(path).column("form"), np.int64) for path in replacement_form_files
    ]
    table = read_table(first_occurrences_file)
    if not forms or not table.num_rows:
        return
    replacements, found = IdSet.of(np.unique(np.concatenate(forms))), [np.empty(0, np.int64)]
    for kind, value_ids, value_forms in iter_value_forms(value_files, key):
        found.append(
            value_ids[contains_any(replacements, list_conflicting_forms(kind, value_forms))]
        )
    remains = ~np.isin(np.asarray(table.column("value_id"), np.int64), np.concatenate(found))
    if not remains.all():
        pq.write_table(table.filter(pa.array(remains)), first_occurrences_file)


def check_pseudonyms_consistent(
    editors: Sequence[Editor],
    earlier_label_files: Sequence[Path],
    new_label_files: Sequence[Path],
    value_files: Sequence[Path],
) -> None:
    """Raise UsageError if an editor gave a value of its `consistent_kinds` another pseudonym than
    earlier increments did, or gave it the pseudonym of another value there.

    Compares the tables `labels` of earlier and new shards. Rare: a draw collided with a new
    value."""
    kinds = sorted({kind for editor in editors for kind in editor.consistent_kinds})
    if not kinds or not earlier_label_files:
        return
    value_kinds = pl.concat(
        pl.read_parquet(path, columns=["value_id", "kind"], glob=False) for path in value_files
    ).with_columns(pl.col("kind").cast(pl.String))
    value_kinds = value_kinds.filter(pl.col("kind").is_in(kinds)).unique("value_id")
    earlier, current = (
        _read_pseudonyms(files, value_kinds) for files in (earlier_label_files, new_label_files)
    )
    changed = earlier.join(current, on=["kind", "value_id"], suffix="_now").filter(
        pl.col("label") != pl.col("label_now")
    )
    shared = earlier.join(current, on=["kind", "label"], suffix="_now").filter(
        pl.col("value_id") != pl.col("value_id_now")
    )
    conflict_count = changed["value_id"].n_unique() + shared["value_id"].n_unique()
    if conflict_count:
        raise UsageError(
            f"the pseudonyms of {conflict_count:,} values differ between the earlier shards and the"
            " new ones: a new value drew the same pseudonym, or equals one. Nothing was published;"
            f" {_RERUN_ADVICE}"
        )


def _read_pseudonyms(label_files: Sequence[Path], value_kinds: pl.DataFrame) -> pl.DataFrame:
    """The distinct pseudonyms in some tables `labels`: kind, value_id, and label in the normalised
    form of its kind."""
    labels = (
        pl.concat(
            pl.read_parquet(path, columns=["label", "value_id"], glob=False) for path in label_files
        )
        .unique()
        .join(value_kinds, on="value_id")
    )
    frames = [
        group.with_columns(label=all_kinds()[str(name)].normalise(group["label"]))
        for (name,), group in labels.group_by("kind")
    ]
    no_rows = labels.clear()
    return pl.concat([no_rows, *(frame.select(no_rows.columns) for frame in frames)]).unique()


def check_shards_unchanged(
    published_shards: Sequence[Mapping[str, Any]],
    rebuilt_hashes: Sequence[str],
    where: Path,
) -> None:
    """Raise OutputBroken if a rebuilt shard of an earlier increment, of which the SHA-256 is given,
    differs from the published one. `where` opens the message."""
    for shard, sha256 in zip(published_shards, rebuilt_hashes, strict=True):
        if shard["sha256"] != sha256:
            raise OutputBroken(
                f"{where}: {shard['path']} in the private folder is not the shard that was"
                " published (sha256 differs), and the published one cannot be reproduced; nothing"
                f" was changed. {_RERUN_ADVICE[0].upper()}{_RERUN_ADVICE[1:]}"
            )


def check_earlier_shards_clean(verify_results: Sequence[ShardFindings], where: Path) -> None:
    """Raise LeakFound if an earlier shard holds a value that was first found in the new documents:
    the shard cannot stay as it is."""
    leaks: Counter[tuple[int, str]] = Counter()
    for no, result in enumerate(verify_results):
        for (_, kind, _), times in result.leaks.items():
            leaks[no, kind] += times
    swept_by_shard = {no: result.swept for no, result in enumerate(verify_results) if result.swept}
    if leaks or swept_by_shard:
        shard_count = len({no for no, _ in leaks} | swept_by_shard.keys())
        kinds = ", ".join(sorted({kind for _, kind in leaks})) or "values"
        raise LeakFound(
            f"{where}: {leaks.total() + sum(swept_by_shard.values()):,} places in {shard_count:,}"
            f" of the {len(verify_results):,} earlier shards hold {kinds} that the finders missed"
            " there and found in the new documents; these shards would have to be rewritten."
            f" Nothing was published, and OUT is unchanged. To clean all of it, {_RERUN_ADVICE}"
        )


def describe_increments(
    output_increments: Sequence[OutputIncrement], index_increments: Sequence[IndexIncrement]
) -> list[dict[str, int]]:
    """For each output increment, its number of input files (`input_count`) and of shards
    (`shard_count`)."""
    first, counts = 0, []
    for output_increment in output_increments:
        increments = index_increments[first : output_increment.last_index_increment + 1]
        first = output_increment.last_index_increment + 1
        counts.append(
            {
                "input_count": sum(len(increment.files) for increment in increments),
                "shard_count": output_increment.end_task - output_increment.first_task,
            }
        )
    return counts
