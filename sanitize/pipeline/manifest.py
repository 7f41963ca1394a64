"""What a run says of itself: the summary (`run --json`) and the manifest that is published. Counts and hashes; never a value, a key or
the name of an input file, which may be a person's.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.plans.plan import Plan
from sanitize.stages import detection, rewriting
from sanitize.storage import formats as formats_out
from sanitize.storage import table_schemas
from sanitize.storage.publication import shard_names
from sanitize.text.literal_search import FORMS


def kinds_found(
    plan: Plan,
    value_counts: Path,
    skipped: Sequence[Path],
    documents: Mapping[str, int],
    left: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Occurrences, distinct values, documents and refused candidates of the plan's kinds; what happened to them is filled in later.

    `left` has the first three for the documents that remain, where some were dropped. Refused candidates are those of all documents.
    """
    counted = pl.DataFrame(pq.read_table(value_counts, columns=["kind", "occurrences"], partitioning=None))
    rows = counted.group_by("kind").agg(pl.col("occurrences").sum(), values=pl.len()).sort("kind").iter_rows()
    found: dict[str, dict[str, Any]] = {
        kind: {
            "occurrences": times,
            "values": values,
            "documents": documents.get(kind, 0),
            "kept": 0,
            "replaced": 0,
            "left": 0,
            "skipped": {},
        }
        for kind, times, values in rows
    }
    for kind, entry in found.items() if left is not None else ():
        entry |= left.get(kind, dict.fromkeys(("occurrences", "values", "documents"), 0))  # type: ignore[union-attr]
    for path in skipped:
        for row in pq.read_table(path, partitioning=None).to_pylist():
            if row["kind"] in found:
                reasons = found[row["kind"]]["skipped"]
                reasons[row["reason"]] = reasons.get(row["reason"], 0) + row["candidates"]
    return {kind: entry for kind, entry in found.items() if kind in plan.find.kinds}


def summary_of(
    plan: Plan,
    plan_hash: str,
    *,
    documents: int,
    quarantine: pa.Table,
    kinds: dict[str, dict[str, Any]],
    applied: Sequence[Mapping[str, Any]],
    verified: Mapping[str, Any],
    drilled: Mapping[str, Any],
    policies: Mapping[str, str],
    public_key: bool,
    dropped: Sequence[Mapping[str, Any]] = (),
    told: Sequence[Mapping[str, Any]] = (),
    blacklist: Mapping[str, Any] | None = None,
    ledger: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The part of the summary that follows from input, plan and key alone; it stands in the manifest too.

    `dropped` says how many documents each part dropped and why, `told` what editors say beyond the counts of their kinds, `blacklist` how
    many n-grams are listed, where the plan asks for that, `ledger` what mechanisms with a privacy claim spent, where there are any.
    """
    for kind, entry in kinds.items():
        if kind in plan.edited:
            # counted again where they were edited: what the sweep added is among them
            for what in ("occurrences", "kept"):
                entry[what] = sum(result["by_kind"].get(kind, {}).get(what, 0) for result in applied)
        erased = sum(result["erased"].get(kind, 0) for result in applied)
        entry["replaced"] = entry["occurrences"] - entry["kept"] if kind in plan.edited else erased
        entry["left"] = entry["occurrences"] - entry["kept"] - entry["replaced"]
    rows = sum(result["rows"] for result in applied)
    checked = verified["mode"] != "off"
    return {
        "documents_in": documents,
        "documents_out": rows,
        "documents_dropped": documents - rows - quarantine.num_rows,
        "dropped": [dict(row) for row in dropped],
        "quarantined": quarantine.num_rows,
        "quarantine": {entry["values"]: entry["counts"] for entry in quarantine.column("reason").value_counts().to_pylist()},
        "occurrences": sum(entry["occurrences"] for entry in kinds.values()),
        "kept_originals": sum(entry["kept"] for entry in kinds.values()),
        "replaced": sum(entry["replaced"] for entry in kinds.values()),
        "by_kind": kinds,
        "erased": sum(times for result in applied for times in result["erased"].values()),
        "parts": [dict(one) for one in told],
        **({} if blacklist is None else {"blacklist": {**blacklist, "masked": sum(result["words"] for result in applied)}}),
        **({"ledger": [dict(one) for one in ledger]} if ledger else {}),
        "leaks": 0 if checked else None,  # with a leak nothing is published; unchecked is not none
        "verify": {"forms": list(FORMS) if checked else [], **verified, "files": len(applied) + 3},
        "drill": dict(drilled),
        "publishable": plan.publishable and checked,
        "plan_name": plan.name,
        "plan_hash": plan_hash,
        "key": "seed" if public_key else "secret",
        "columns": [{"name": name, "policy": policy} for name, policy in policies.items()],
    }


def manifest_of(
    summary: Mapping[str, Any],
    plan: Plan,
    files: Sequence[tuple[int, str]],
    applied: Sequence[Mapping[str, Any]],
    *,
    seed: int | None,
    settings: Mapping[str, Any],
    parts: Sequence[Mapping[str, int]] = (),
    beside: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """`manifest.json`: the summary, the resolved plan, versions, and the sha256 of every input and output (`files`: bytes, sha256).

    `parts` has the inputs, documents and shards of each, where something was appended; `beside`, pages that stand among the shards, with
    their texts.
    """
    key: dict[str, Any] = {"kind": summary["key"]}
    if summary["key"] == "seed":
        key |= {"seed": seed, "note": "reproducible, replacements guessable, no privacy claim"}
    suffix = formats_out.suffix(settings.get("format", formats_out.PARQUET))
    names = [f"data/{name}" for name in shard_names([part["shards"] for part in parts] or [len(applied)], suffix)]
    return {
        "format": 1,
        "tool": {"name": "corpus-sanitize", **versions(), "formats": formats()},
        "plan": plan.shown(),
        "plan_hash": summary["plan_hash"],
        "key": key,
        "publishable": summary["publishable"],
        "inputs": [{"no": no, "bytes": size, "sha256": known} for no, (size, known) in enumerate(files)],
        "shards": [
            {"path": path, **{name: one[name] for name in ("rows", "bytes", "sha256")}} for path, one in zip(names, applied, strict=True)
        ],
        **({"batches": [{"no": no, **part} for no, part in enumerate(parts, 1)]} if len(parts) > 1 else {}),
        **({"beside": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in beside.items()}} if beside else {}),
        "columns": summary["columns"],
        "settings": dict(settings),
        "summary": dict(summary),
    }


def versions() -> dict[str, str]:
    """The versions that decide what comes out."""
    return dict(_installed())


@functools.cache  # asked for every record, and read from files each time
def _installed() -> dict[str, str]:
    names = ("corpus-sanitize", "polars", "pyarrow", "duckdb", "numpy", "phonenumbers", "faker")
    found = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def formats() -> dict[str, int]:
    """The numbers that are raised when the same input, plan and key give other tables or other bytes."""
    return {"tables": table_schemas.VERSION, "index": detection.VERSION, "apply": rewriting.VERSION}
