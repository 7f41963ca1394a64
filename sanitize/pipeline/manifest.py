"""Builds the summary of a run (`run --json`) and the published `manifest.json`. Counts and hashes;
never a value, a key or the name of an input file, which may be personal data.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import importlib.metadata
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from sanitize.core.command_results import (
    BlacklistCounts,
    CanaryCounts,
    ColumnPolicy,
    DroppedDocuments,
    KeptValues,
    KindCounts,
    LeakCheckCounts,
    MeasuredRecall,
    RunSummary,
)
from sanitize.errors import UsageError
from sanitize.pipeline.run_results import ShardResult
from sanitize.plans.coverage import (
    describe_looked_for,
    describe_not_looked_for,
    describe_staying,
    list_models,
    list_staying_kinds,
)
from sanitize.plans.plan import Plan
from sanitize.stages import detection, rewriting
from sanitize.storage import formats, table_schemas
from sanitize.storage.corpus import MANIFEST_VERSION
from sanitize.storage.parquet_files import read_table
from sanitize.storage.publication import shard_names


def summarize_kinds(
    plan: Plan,
    value_counts: Path,
    skipped_files: Sequence[Path],
    documents_by_kind: Mapping[str, int],
    remaining: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, KindCounts]:
    """Counts by kind of the plan: occurrences, distinct values, documents, and refused candidates
    by reason (`skipped`). `kept`, `replaced`, `left_by_plan` and `swept` are 0 until
    `build_summary` fills them in.

    `remaining` has the first three for the documents that remain, if some were dropped. Refused
    candidates are those of all documents.
    """
    counted = pl.DataFrame(read_table(value_counts, columns=["kind", "occurrences"]))
    rows = (
        counted.group_by("kind")
        .agg(pl.col("occurrences").sum(), values=pl.len())
        .sort("kind")
        .iter_rows()
    )
    skipped: dict[str, Counter[str]] = {}
    for path in skipped_files:
        for row in read_table(path).to_pylist():
            skipped.setdefault(row["kind"], Counter())[row["reason"]] += row["candidates"]
    return {
        kind: KindCounts(
            skipped=skipped.get(kind, {}),
            **(
                {
                    "occurrences": times,
                    "values": values,
                    "documents": documents_by_kind.get(kind, 0),
                }
                if remaining is None
                else remaining.get(kind, {})
            ),
        )
        for kind, times, values in rows
        if kind in plan.find.kinds
    }


def build_summary(
    plan: Plan,
    run_hash: str,
    *,
    documents: int,
    quarantine: pa.Table,
    kinds: Mapping[str, KindCounts],
    shards: Sequence[ShardResult],
    verify: LeakCheckCounts,
    canaries: CanaryCounts,
    columns: Sequence[ColumnPolicy],
    public_key: bool,
    dropped: Sequence[DroppedDocuments] = (),
    editor_reports: Sequence[Mapping[str, Any]] = (),
    blacklist: BlacklistCounts | None = None,
    ledger: Sequence[Mapping[str, Any]] = (),
    kept_values: Sequence[KeptValues] = (),
    shape: str = "",
    splits: Sequence[str] = (),
    measured: MeasuredRecall | None = None,
) -> RunSummary:
    """The summary of a run, as far as it follows from input, plan and key; the manifest contains
    it.

    `kinds` is what `summarize_kinds` returns, `blacklist` what `build_blacklist` does, and `splits`
    has the split of each shard, if there are several.
    """
    found = dict(kinds)
    for kind in sorted(
        {kind for shard in shards for kind, counts in shard.by_kind.items() if counts.swept}
    ):
        found.setdefault(kind, KindCounts())  # values of columns that no finder found in a text
    for kind, counts in found.items():
        edited, searched = kind in plan.editor_no_by_kind, kind in plan.find.kinds
        in_shards = [shard.by_kind.get(kind, KindCounts()) for shard in shards]
        if edited or not searched:
            # counted again from the edited shards: they include the occurrences that the sweep
            # added
            counts = replace(
                counts,
                occurrences=sum(shard.occurrences for shard in in_shards),
                kept=sum(shard.kept for shard in in_shards),
                swept=sum(shard.swept for shard in in_shards),
            )
        changed = counts.occurrences - counts.kept
        erased = sum(shard.erased.get(kind, 0) for shard in shards)
        replaced = erased if searched and not edited else changed
        found[kind] = replace(counts, replaced=replaced, left_by_plan=changed - replaced)
    rows = sum(shard.rows for shard in shards)
    rows_by_split = Counter[str]()
    for split, shard in zip(splits, shards, strict=True) if any(splits) else ():
        rows_by_split[split] += shard.rows
    coverage = plan.coverage()
    return RunSummary(
        documents_in=documents,
        documents_out=rows,
        documents_dropped=documents - rows - quarantine.num_rows,
        dropped=dropped,
        quarantined=quarantine.num_rows,
        quarantine={
            entry["values"]: entry["counts"]
            for entry in quarantine.column("reason").value_counts().to_pylist()
        },
        occurrences=sum(counts.occurrences for counts in found.values()),
        kept_originals=sum(counts.kept for counts in found.values()),
        replaced=sum(counts.replaced for counts in found.values()),
        by_kind=found,
        erased=sum(count for shard in shards for count in shard.erased.values()),
        editor_reports=editor_reports,
        blacklist=(
            None
            if blacklist is None
            else replace(blacklist, masked_words=sum(shard.masked_words for shard in shards))
        ),
        ledger=list(ledger),
        # a run with leaks publishes nothing; None means not checked
        leaks=None if verify.mode == "off" else 0,
        verify=verify,
        canaries=canaries,
        publishable=plan.publishable and verify.mode == "full",
        plan_name=plan.name,
        plan_hash=plan.public_hash,
        run_hash=run_hash,
        measured=measured,
        key="seed" if public_key else "secret",
        columns=columns,
        looked_for=describe_looked_for(plan),
        not_looked_for=describe_not_looked_for(coverage),
        stays_by_plan=describe_staying(coverage),
        staying_kinds=[
            kind
            for kind in list_staying_kinds(coverage)
            if kind in found and found[kind].occurrences
        ],
        models=list_models(plan),
        kept_values=kept_values,
        shape=shape,
        splits=rows_by_split,
    )


def describe_dataset(
    given: Mapping[str, str | None], published: Mapping[str, Any]
) -> dict[str, str]:
    """What card and report say about the dataset: `given` (dataset_name, purpose, responsible,
    license) with the date of today, in UTC.

    What is not given is taken from `published`, the description of the output that an append
    extends, and is empty otherwise.
    """
    return {
        "date": find_date(),
        **{name: text or published.get(name, "") for name, text in given.items()},
    }


def find_date() -> str:
    """The date of today, in UTC. A date in SOURCE_DATE_EPOCH (seconds since 1970) takes its place,
    for reproducible builds. Raises UsageError for a value of it, or a clock, that is no date."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    try:
        now = datetime.datetime.fromtimestamp(int(seconds or time.time()), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            "SOURCE_DATE_EPOCH: is not a date; expected the seconds since 1970, such as"
            " 1735689600, or no such variable"
            if seconds
            else "the clock of this machine is outside of the years 1 to 9999; set it"
        ) from None
    return now.date().isoformat()


def build_manifest(
    summary: RunSummary,
    plan: Plan,
    files: Sequence[tuple[int, str]],
    shards: Sequence[ShardResult],
    *,
    seed: int | None,
    settings: Mapping[str, Any],
    description: Mapping[str, str],
    increments: Sequence[Mapping[str, int]] = (),
    sidecar_files: Mapping[str, str] | None = None,
    splits: Sequence[str] = (),
    features: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`manifest.json`: the summary, the resolved plan, versions, and the sha256 of every input and
    output (`files`: bytes, sha256).

    `description` is what `describe_dataset` returns. `increments` has the `input_count` and
    `shard_count` of each output increment; `sidecar_files`, the texts of files beside the shards,
    by name; `splits` the split of each shard, if there are several; `features` those of `datasets`.
    """
    summary_json = summary.to_dict()
    key: dict[str, Any] = {"kind": summary.key}
    if summary.key == "seed":
        key |= {"seed": seed, "note": "reproducible, replacements can be guessed, no privacy claim"}
    suffix = formats.format_suffix(settings.get("format", formats.PARQUET))
    shard_counts = [increment["shard_count"] for increment in increments] or [len(shards)]
    names = [f"data/{name}" for name in shard_names(shard_counts, suffix, splits)]
    own_splits = list(splits) if any(splits) else []
    return {
        "format": MANIFEST_VERSION,
        "tool": {
            "name": "corpus-sanitize",
            **get_library_versions(),
            "formats": get_format_versions(),
        },
        "plan": plan.public_settings(),
        "plan_hash": summary.plan_hash,
        "run_hash": summary.run_hash,
        "key": key,
        "publishable": summary.publishable,
        # without names: a file name may be a person's name, and the manifest is published
        "inputs": [
            {"number": number, "bytes": size, "sha256": sha256}
            for number, (size, sha256) in enumerate(files)
        ],
        "shards": [
            {
                "path": path,
                "rows": shard.rows,
                "bytes": shard.bytes,
                "sha256": shard.sha256,
                **({"split": own_splits[no]} if own_splits else {}),
            }
            for no, (path, shard) in enumerate(zip(names, shards, strict=True))
        ],
        **(
            {
                "increments": [
                    {"number": number, **increment}
                    for number, increment in enumerate(increments, 1)
                ]
            }
            if len(increments) > 1
            else {}
        ),
        **(
            {
                "sidecar_files": {
                    name: hashlib.sha256(text.encode()).hexdigest()
                    for name, text in sidecar_files.items()
                }
            }
            if sidecar_files
            else {}
        ),
        "columns": summary_json["columns"],
        **({"features": dict(features)} if features else {}),
        "settings": dict(settings),
        "description": dict(description),
        "summary": summary_json,
    }


def get_library_versions() -> dict[str, str]:
    """Versions of the libraries that decide the output, by distribution name."""
    return dict(_installed())


@functools.cache  # called for every task record; reading package metadata is slow
def _installed() -> dict[str, str]:
    names = ("corpus-sanitize", "polars", "pyarrow", "duckdb", "numpy", "phonenumbers", "faker")
    found = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def get_format_versions() -> dict[str, int]:
    """Version numbers that are raised when the same input, plan and key give other tables or other
    bytes."""
    return {
        "tables": table_schemas.VERSION,
        "detection": detection.VERSION,
        "rewriting": rewriting.VERSION,
    }
