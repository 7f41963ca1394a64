"""Selects the occurrences of the index that a run works on: without values that its plan allows,
and without those below the minimum score.

    occurrences + values + the plan's [find.allow], [find.deny] and [find.min_score] -> occurrences,
    skipped

No text is read again: lists are matched against the normalised form of a value, `min_score` against
the score of an occurrence. Values in `deny` are selected whatever the other two rules are; so are
erased values. Occurrences that are not selected are counted as `allowed` or `score`. The leak check
does not search for a value without any selected occurrence.
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

from sanitize.array_types import Mask
from sanitize.kinds import ip_address
from sanitize.kinds.kind import get_kind
from sanitize.pipeline.run_state import RunState
from sanitize.plans.plan import SelectionRules
from sanitize.stages import aggregates
from sanitize.storage import table_schemas
from sanitize.storage.parquet_files import open_table_writer, read_table, write_table_rows
from sanitize.storage.private_folder import (
    OCCURRENCES_FOLDER,
    SKIPPED_FOLDER,
    SPILL_FOLDER,
    VALUES_FOLDER,
)

VALUE_ID_SCHEMA = pa.schema([pa.field("value_id", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class SelectedOccurrences:
    """The occurrences that one run works on: those that the plan's rules select, in the folder of
    the run; without rules, all of the index."""

    occurrence_files: tuple[Path, ...]  # the table `occurrences`, one file per task
    # the table `skipped`: what finders refused, what the plan allows, and what scores too low
    skipped_files: tuple[Path, ...]
    value_id_files: tuple[Path, ...]  # ids of the values that are selected; empty without rules


def select_occurrences(state: RunState, erased_value_ids: tuple[int, ...]) -> SelectedOccurrences:
    """Leave out occurrences that the plan allows or whose score is too low, except those of
    `erased_value_ids`."""
    index, rules = state.index, state.plan.find.selection_rules
    occurrence_files = tuple(index.task_files(OCCURRENCES_FOLDER))
    refused_files = tuple(index.task_files(SKIPPED_FOLDER))
    if not rules:
        return SelectedOccurrences(
            occurrence_files=occurrence_files, skipped_files=refused_files, value_id_files=()
        )
    selected = {
        name: tuple(state.task_files("selected", name))
        for name in ("occurrences", "skipped", "value_ids")
    }
    jobs = []
    for no, values_file in enumerate(index.task_files(VALUES_FOLDER)):
        task = SelectionTask(
            occurrences_file=occurrence_files[no],
            values_file=values_file,
            rules=rules,
            erased_value_ids=erased_value_ids,
            folder=index.workspace / SPILL_FOLDER / f"select-{no}",
        )
        outputs = {f"{name}.parquet": files[no] for name, files in selected.items()}
        jobs.append(
            state.create_job(f"select-{no:05d}", selection_task, task, outputs, erased_value_ids)
        )
    state.tasks.run("select", jobs)
    return SelectedOccurrences(
        occurrence_files=selected["occurrences"],
        skipped_files=refused_files + selected["skipped"],
        value_id_files=selected["value_ids"],
    )


def count_remaining_kinds(
    state: RunState, selected: SelectedOccurrences, remaining_files: Sequence[Path]
) -> dict[str, dict[str, int]] | None:
    """Counts by kind of the selected occurrences in the remaining documents: those in
    `remaining_files`, or all if it is empty, as nothing was dropped. None if then the plan has no
    rules either."""
    if not (remaining_files or selected.value_id_files):
        return None
    with state.tasks.measure("aggregate"):
        counts_file = state.folder / "counts" / "remaining_kind_counts.parquet"
        counts_file.parent.mkdir(exist_ok=True)
        return aggregates.count_remaining_kinds(
            state.tasks.engine, remaining_files or selected.occurrence_files, counts_file
        )


@dataclass(frozen=True, kw_only=True)
class SelectionTask:
    """The occurrences of one detection task, and their values."""

    occurrences_file: Path
    values_file: Path
    rules: SelectionRules
    erased_value_ids: tuple[int, ...]
    folder: Path


def selection_task(task: SelectionTask) -> None:
    """Write `occurrences.parquet` (the selected ones), `skipped.parquet` and
    `value_ids.parquet`."""
    found = read_table(task.occurrences_file)
    values = pl.DataFrame(read_table(task.values_file)).with_columns(pl.col("kind").cast(pl.String))
    frame = pl.DataFrame(found.select(["value_id", "score", "kind"])).with_columns(
        pl.col("kind").cast(pl.String)
    )
    is_allowed, is_below_min = find_unselected(frame, values, task.rules, task.erased_value_ids)
    is_selected = ~is_allowed & ~is_below_min
    with open_table_writer(
        task.folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema
    ) as out:
        out.write_table(found.filter(pa.array(is_selected)).cast(table_schemas.OCCURRENCES.schema))
    rows = []
    for reason, mask in (("allowed", is_allowed), ("score", is_below_min)):
        counts = frame.filter(pl.Series(mask))["kind"].value_counts()
        rows += [(kind, reason, times) for kind, times in sorted(counts.iter_rows())]
    write_table_rows(task.folder / "skipped.parquet", table_schemas.SKIPPED.schema, rows)
    selected_ids = np.unique(frame["value_id"].to_numpy()[is_selected])
    pq.write_table(
        pa.table([selected_ids], schema=VALUE_ID_SCHEMA), task.folder / "value_ids.parquet"
    )


def find_unselected(
    occurrences: pl.DataFrame,
    values: pl.DataFrame,
    rules: SelectionRules,
    erased_value_ids: Sequence[int] = (),
) -> tuple[Mask, Mask]:
    """Two masks of the occurrences (`value_id`, `score`, `kind`): those whose value is allowed, and
    the others below the minimum score.

    `values` has `value_id`, `kind`, `value` and `normalised` (null: equal to the value) of each
    value. Neither mask has an occurrence of a denied or erased value.
    """
    allowed, denied = (_find_listed_values(values, listed) for listed in (rules.allow, rules.deny))
    value_ids = occurrences["value_id"].to_numpy()
    min_score = occurrences["kind"].replace_strict(
        dict(rules.min_score), default=0.0, return_dtype=pl.Float32
    )
    is_forced = np.isin(value_ids, np.concatenate([denied, np.array(erased_value_ids, np.int64)]))
    is_allowed = np.isin(value_ids, allowed) & ~is_forced
    return is_allowed, (occurrences["score"] < min_score).to_numpy() & ~is_forced & ~is_allowed


def _find_listed_values(values: pl.DataFrame, entries_by_kind: Mapping[str, Sequence[str]]) -> Any:
    """The ids of the values that match an entry of the lists (kind -> entries), ascending."""
    id_arrays = [np.empty(0, np.int64)]
    for name, entries in entries_by_kind.items():
        kind_values = values.filter(pl.col("kind") == name)
        normalised = (
            kind_values.select(pl.coalesce("normalised", "value")).to_series().str.to_lowercase()
        )
        is_listed = normalised.str.contains(build_list_pattern(name, entries))
        if name == ip_address.KIND.name:
            is_listed |= ip_address.is_in_networks(normalised, ip_address.parse_networks(entries))
        id_arrays.append(kind_values.filter(is_listed)["value_id"].to_numpy())
    return np.unique(np.concatenate(id_arrays))


def build_list_pattern(kind: str, entries: Sequence[str]) -> str:
    """One regex for the entries of a list, to match lower-case normalised values.

    `*` matches any characters and `?` one character; `@example.com` matches all addresses of that
    host and its subdomains; any other entry is a value, in any spelling. Entries with a `/` match
    no address here: networks are matched by `ip_address.is_in_networks`.
    """
    patterns = []
    for entry in entries:
        if entry.startswith("@"):
            patterns.append(rf".*@(?:.*[.])?{re.escape(entry[1:].lower())}")
        elif "*" in entry or "?" in entry:
            pieces = (
                ".*" if piece == "*" else "." if piece == "?" else re.escape(piece.lower())
                for piece in re.split(r"([*?])", entry)
            )
            patterns.append("".join(pieces))
        else:
            patterns.append(
                re.escape(
                    get_kind(kind)
                    .normalise(pl.Series([entry], dtype=pl.String))
                    .str.to_lowercase()[0]
                )
            )
    return r"(?s)\A(?:" + "|".join(patterns) + r")\z"
