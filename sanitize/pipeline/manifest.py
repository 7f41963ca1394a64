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
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.plans.coverage import (
    describe_not_looked_for,
    describe_staying,
    list_looked_for,
    list_models,
    list_staying_kinds,
)
from sanitize.plans.plan import Plan
from sanitize.stages import detection, rewriting
from sanitize.storage import formats, table_schemas
from sanitize.storage.corpus import MANIFEST_VERSION
from sanitize.storage.publication import shard_names
from sanitize.verification.search_terms import list_searched_forms, list_unsearched_forms


def summarize_kinds(
    plan: Plan,
    value_counts: Path,
    skipped_files: Sequence[Path],
    documents_by_kind: Mapping[str, int],
    remaining: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Counts by kind of the plan: occurrences, distinct values, documents, and refused candidates
    by reason (`skipped`). `kept`, `replaced`, `left_by_plan` and `swept` are 0 until
    `build_summary` fills them in.

    `remaining` has the first three for the documents that remain, if some were dropped. Refused
    candidates are those of all documents.
    """
    counted = pl.DataFrame(
        pq.read_table(value_counts, columns=["kind", "occurrences"], partitioning=None)
    )
    rows = (
        counted.group_by("kind")
        .agg(pl.col("occurrences").sum(), values=pl.len())
        .sort("kind")
        .iter_rows()
    )
    summary_by_kind: dict[str, dict[str, Any]] = {
        kind: (
            new_kind_entry()
            | {
                "occurrences": times,
                "values": values,
                "documents": documents_by_kind.get(kind, 0),
            }
        )
        for kind, times, values in rows
    }
    for kind, entry in summary_by_kind.items() if remaining is not None else ():
        entry |= remaining.get(kind, dict.fromkeys(("occurrences", "values", "documents"), 0))  # type: ignore[union-attr]
    for path in skipped_files:
        for row in pq.read_table(path, partitioning=None).to_pylist():
            if row["kind"] in summary_by_kind:
                reasons = summary_by_kind[row["kind"]]["skipped"]
                reasons[row["reason"]] = reasons.get(row["reason"], 0) + row["candidates"]
    return {kind: entry for kind, entry in summary_by_kind.items() if kind in plan.find.kinds}


def new_kind_entry() -> dict[str, Any]:
    """The counts of a kind of which nothing was found."""
    counts = ("occurrences", "values", "documents", "kept", "replaced", "left_by_plan", "swept")
    return {**dict.fromkeys(counts, 0), "skipped": {}}


def build_summary(
    plan: Plan,
    plan_hash: str,
    *,
    documents: int,
    quarantine: pa.Table,
    kinds: dict[str, dict[str, Any]],
    shard_results: Sequence[Mapping[str, Any]],
    verification: Mapping[str, Any],
    canaries: Mapping[str, Any],
    policies: Mapping[str, str],
    public_key: bool,
    dropped: Sequence[Mapping[str, Any]] = (),
    editor_reports: Sequence[Mapping[str, Any]] = (),
    blacklist: Mapping[str, Any] | None = None,
    ledger: Sequence[Mapping[str, Any]] = (),
    kept_values: Sequence[Mapping[str, Any]] = (),
    shape: str = "",
    splits: Sequence[str] = (),
) -> dict[str, Any]:
    """The part of the summary that follows from input, plan and key alone; the manifest contains it
    too.

    `dropped`: how many documents each part dropped, and why. `editor_reports`: what editors report
    beyond the counts of their kinds. `blacklist`: how many n-grams are listed, if the plan has a
    blacklist. `ledger`: what mechanisms with a privacy claim spent, if any. `kept_values`: the
    decisions on values in kept columns (kept_columns.py). `shape`: that of the records, if one was
    recognised. `splits`: the split of each shard, if there are several.
    """
    for kind in sorted(
        {
            kind
            for result in shard_results
            for kind, counts in result["by_kind"].items()
            if counts["swept"]
        }
        - {*kinds}
    ):
        kinds[kind] = new_kind_entry()  # values of columns that no finder found in a text
    for kind, entry in kinds.items():
        if kind in plan.editor_no_by_kind or kind not in plan.find.kinds:
            # counted again from the edited shards: they include the occurrences that the sweep
            # added
            for count_name in ("occurrences", "kept", "swept"):
                entry[count_name] = sum(
                    result["by_kind"].get(kind, {}).get(count_name, 0) for result in shard_results
                )
        erased = sum(result["erased"].get(kind, 0) for result in shard_results)
        is_left = kind in plan.find.kinds and kind not in plan.editor_no_by_kind
        entry["replaced"] = erased if is_left else entry["occurrences"] - entry["kept"]
        entry["left_by_plan"] = entry["occurrences"] - entry["kept"] - entry["replaced"]
    rows = sum(result["rows"] for result in shard_results)
    rows_by_split = Counter[str]()
    for split, result in zip(splits, shard_results, strict=True) if any(splits) else ():
        rows_by_split[split] += result["rows"]
    checked = verification["mode"] != "off"
    coverage = plan.coverage()
    return {
        "documents_in": documents,
        "documents_out": rows,
        "documents_dropped": documents - rows - quarantine.num_rows,
        "dropped": [dict(row) for row in dropped],
        "quarantined": quarantine.num_rows,
        "quarantine": {
            entry["values"]: entry["counts"]
            for entry in quarantine.column("reason").value_counts().to_pylist()
        },
        "occurrences": sum(entry["occurrences"] for entry in kinds.values()),
        "kept_originals": sum(entry["kept"] for entry in kinds.values()),
        "replaced": sum(entry["replaced"] for entry in kinds.values()),
        "by_kind": kinds,
        "erased": sum(count for result in shard_results for count in result["erased"].values()),
        "editor_reports": [dict(report) for report in editor_reports],
        **(
            {}
            if blacklist is None
            else {
                "blacklist": {
                    **blacklist,
                    "masked_words": sum(result["masked_words"] for result in shard_results),
                }
            }
        ),
        **({"ledger": [dict(account) for account in ledger]} if ledger else {}),
        # a run with leaks publishes nothing; None means not checked
        "leaks": (0 if checked else None),
        "verify": {
            "forms": list_searched_forms(verification["mode"]),
            **verification,
            "files": len(shard_results) + 3,
            "not_searched": list_unsearched_forms(verification["mode"]),
            "unchecked_kinds": (
                sorted(set(plan.editor_no_by_kind) - set(plan.leak_checked_kinds))
                if checked
                else []
            ),
        },
        "canaries": dict(canaries),
        "publishable": plan.publishable and verification["mode"] == "full",
        "plan_name": plan.name,
        "plan_hash": plan_hash,
        "key": "seed" if public_key else "secret",
        "columns": [{"name": name, "policy": policy} for name, policy in policies.items()],
        "looked_for": list_looked_for(coverage),
        "not_looked_for": describe_not_looked_for(coverage),
        "stays_by_plan": describe_staying(coverage),
        "staying_kinds": [
            kind for kind in list_staying_kinds(coverage) if kinds.get(kind, {}).get("occurrences")
        ],
        "models": list_models(plan),
        "kept_values": [dict(decision) for decision in kept_values],
        **({"shape": shape} if shape else {}),
        **({"splits": dict(rows_by_split)} if rows_by_split else {}),
    }


def describe_dataset(
    given: Mapping[str, str | None], published: Mapping[str, Any]
) -> dict[str, str]:
    """What card and report say about the dataset: `given` (dataset_name, purpose, responsible,
    license) with the date of today, in UTC.

    What is not given is taken from `published`, the description of the output that an append
    extends, and is empty otherwise. A date in SOURCE_DATE_EPOCH (seconds since 1970) takes the
    place of today's, for reproducible builds.
    """
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.datetime.fromtimestamp(
        int(seconds) if seconds.isdigit() else time.time(), datetime.UTC
    )
    return {
        "date": now.date().isoformat(),
        **{name: text or published.get(name, "") for name, text in given.items()},
    }


def build_manifest(
    summary: Mapping[str, Any],
    plan: Plan,
    files: Sequence[tuple[int, str]],
    shard_results: Sequence[Mapping[str, Any]],
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
    key: dict[str, Any] = {"kind": summary["key"]}
    if summary["key"] == "seed":
        key |= {"seed": seed, "note": "reproducible, replacements can be guessed, no privacy claim"}
    suffix = formats.format_suffix(settings.get("format", formats.PARQUET))
    shard_counts = [increment["shard_count"] for increment in increments] or [len(shard_results)]
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
        "plan_hash": summary["plan_hash"],
        "key": key,
        "publishable": summary["publishable"],
        # without names: a file name may be a person's name, and the manifest is published
        "inputs": [
            {"number": number, "bytes": size, "sha256": sha256}
            for number, (size, sha256) in enumerate(files)
        ],
        "shards": [
            {
                "path": path,
                **{name: result[name] for name in ("rows", "bytes", "sha256")},
                **({"split": own_splits[no]} if own_splits else {}),
            }
            for no, (path, result) in enumerate(zip(names, shard_results, strict=True))
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
        "columns": summary["columns"],
        **({"features": dict(features)} if features else {}),
        "settings": dict(settings),
        "description": dict(description),
        "summary": dict(summary),
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
