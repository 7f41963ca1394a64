"""The search terms of a published run, and the errors for leaks. In the texts of shards, also
during a run, `batch_check.classify_matches` decides what is a leak, elsewhere `findings`.

The leak check is independent of the code that wrote the output: it imports nothing from finders/,
droppers/, editors/ or stages/ and uses none of their patterns. It searches the literal removed
values, in all forms of `search_terms`, in every string of every output column (`shard_check`), and
in the bytes of every file (`published/file_check`). What adjoins a match decides how certain it is
(`boundaries`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.engine import Engine
from sanitize.errors import LeakFound, OutputBroken
from sanitize.storage import queries, tombstones
from sanitize.storage.private_folder import (
    TASKS_FOLDER,
    VALUES_FOLDER,
)
from sanitize.storage.runs.run_folders import (
    find_unselected_values,
    list_column_values,
    list_selected_ids,
    read_erased_values,
    read_value_ids,
)
from sanitize.verification.findings import Findings, LeakFinding
from sanitize.verification.search_terms import (
    SearchTerms,
    ValueCounts,
    count_searched,
    list_searched_forms,
    write_terms,
)
from sanitize.verification.shard_check import ShardFindings
from sanitize.verification.value_matches import find_value_matches

LEAK_CHECK_VERSION = 10  # raise it when the set of swept matches or of leaks changes
# remedy where the full check finds leaks that cannot be swept
UNSWEEPABLE_ADVICE = (
    "Values in texts are swept, in every form; a kept column can be left out (--drop COLUMN), or"
    " cleaned if it holds texts (--sanitize COLUMN), and a value that remains in a text can be"
    " listed with --known FILE, spelled as it is there; --verify fast searches for fewer forms, and"
    " would publish it"
)


def find_values_in_texts(terms: Sequence[Path], texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Search texts (card, report, manifest) for removed values as they are spelled; returns (name
    of the text, kind) of each that is certain, without the value."""
    found = []
    for name, text in texts.items():
        column, findings = pa.array([text], pa.large_string()), Findings()
        for one in SearchTerms.open(terms):
            for matches in find_value_matches(one, column, list_searched_forms("fast")):
                # a page shows cells: a short value counts as it does in them
                findings.add(name, one, matches, column, is_cell=True)
        found += sorted({(name, kind) for _, kind, _ in findings.leaks})
    return found


def leak_error(
    output_name: str, findings: Sequence[LeakFinding], extra: str, advice: str
) -> LeakFound:
    """The error for leaks: names the first five locations; all are in its `findings`."""
    total = sum(finding.count for finding in findings)
    shown = "; ".join(str(finding) for finding in findings[:5]) + (
        f"; and {len(findings) - 5} more locations" if findings[5:] else ""
    )
    summary = f"{total} matches of removed values ({shown}); " if findings else ""
    error = LeakFound(f"{output_name}: {summary}{extra}{advice}")
    error.findings = [dataclasses.asdict(finding) for finding in findings]
    return error


def suggest_remedy(locations: Iterable[str]) -> str:
    """Advice for leaks at these locations: columns, or the names of columns."""
    is_column_name = [
        "column names" in location or "column whose name" in location for location in locations
    ]
    advice = (
        ["Rename the column whose name is a value, in the input"] if any(is_column_name) else []
    )
    if not all(is_column_name) or not is_column_name:
        advice.append(
            "A kept column can be left out (--drop COLUMN), or cleaned if it holds texts"
            " (--sanitize COLUMN); what a finder missed in a text can be listed with --known FILE"
        )
    return ". ".join([*advice, "Then run again"])


def raise_on_leaks(results: Sequence[ShardFindings], rechecked: set[int]) -> None:
    """Raise if the results of `verify_task` for all shards forbid publishing: LeakFound, or
    OutputBroken where a kept original is missing.

    `rechecked`: the shards that were swept and checked again; values left in their texts are leaks.
    """
    leaks = sum((Counter(result.leaks) for result in results), Counter())
    left_count = sum(result.swept for no, result in enumerate(results) if no in rechecked)
    if leaks or left_count:
        by_location: Counter[tuple[str, str]] = Counter()
        for (location, kind, _), times in leaks.items():
            by_location[location, kind] += times
        counted = (
            f"{location}: {times} {kind}" for (location, kind), times in sorted(by_location.items())
        )
        where = "; ".join(counted) or f"{left_count} in the texts"
        error = LeakFound(
            f"removed values still occur in the output ({where}); nothing was published. "
            f"{suggest_remedy(location for location, _ in by_location)}"
        )
        found = [
            LeakFinding(f"shard {no}", *of, times)
            for no, result in enumerate(results)
            for of, times in sorted(result.leaks.items())
        ]
        error.findings = [dataclasses.asdict(finding) for finding in found]
        raise error
    for no, result in enumerate(results):
        if result.kept_found != result.kept_expected:
            raise OutputBroken(
                f"shard {no}: {result.kept_expected} kept originals were expected and"
                f" {result.kept_found} found; internal error, please report it. Nothing was"
                " published"
            )


def write_terms_of_run(
    manifest: Mapping[str, Any],
    work: Path,
    run_folder: Path,
    folder: Path,
    memory_bytes: int,
    mode: str,
) -> ValueCounts:
    """Write the search terms for a published OUT to `folder`, from the values of its shards in the
    vault."""
    values = PublishedValues.read(manifest, work, run_folder)
    return write_terms(
        values.files,
        values.kinds,
        folder,
        memory_bytes,
        include_ids=values.include_ids,
        exclude_ids=values.exclude_ids,
        check_mode=mode,
    )


@dataclass(frozen=True, kw_only=True)
class PublishedValues:
    """What the leak check of a published OUT searches for: the values of `kinds` in files of the
    vault, without `exclude_ids`, and those in `include_ids`."""

    files: Sequence[Path]
    kinds: Sequence[str]
    include_ids: Sequence[int]
    exclude_ids: Sequence[int]

    @classmethod
    def read(cls, manifest: Mapping[str, Any], work: Path, run_folder: Path) -> PublishedValues:
        """The values of the run that published OUT with this manifest."""
        erased, shard_count = read_erasures(manifest, work), len(manifest["shards"])
        erased_ids = (
            read_erased_values(run_folder)
            if has_erased_values_file(run_folder, erased)
            else erased.value_ids
        )
        found_values = sorted((work / VALUES_FOLDER).glob("*.parquet"))[:shard_count]
        column_values = list_column_values(run_folder, shard_count)
        exclude_ids = find_unselected_values(
            found_values, list_selected_ids(run_folder, shard_count)
        )
        return cls(
            files=[*found_values, *column_values],
            kinds=manifest["summary"]["verify"]["kinds"],
            include_ids=(*erased_ids, *sorted({*read_value_ids(column_values)} - {*exclude_ids})),
            exclude_ids=exclude_ids,
        )


def count_removed_values(
    engine: Engine,
    counts: ValueCounts,
    kinds: Sequence[str],
    values: Sequence[Path],
    occurrences: Sequence[Path],
    kept_originals: Sequence[Path],
    removed_ids: Sequence[int],
    spill: Path,
) -> int:
    """How many of the values that were searched for were removed somewhere: all but those of
    `kinds` of which every occurrence, in files of `occurrences` and of what was swept, is a kept
    original. Values in `removed_ids`, of columns and of erased persons, were."""
    if not any(pq.read_metadata(path).num_rows for path in kept_originals):
        return counts.searched
    query, found = queries.get_query("values_only_kept").sql, spill / "values_only_kept.parquet"
    engine.sql(query, {"occurrences": occurrences, "kept": kept_originals}, found)
    only_kept = np.setdiff1d(read_value_ids([found]), removed_ids)
    return counts.searched - count_searched(values, kinds, only_kept)


def read_erasures(manifest: Mapping[str, Any], work: Path) -> tombstones.Tombstones:
    """The erased persons when OUT was written; an OUT from before a later erasure is refused
    (`_require_erasures`)."""
    return tombstones.read(work, erasures=manifest["settings"].get("erased", {}).get("erasures", 0))


def has_erased_values_file(run_folder: Path, erased: tombstones.Tombstones) -> bool:
    """True if a run has written the values of erased persons. Earlier versions did so only for an
    erasure with mailboxes; without any, the tombstones have all values."""
    return (
        bool(erased.mailbox_hashes) or (run_folder / TASKS_FOLDER / "erased_values.json").exists()
    )
