"""What a run would do, from a sample: kinds and counts, masked pairs, an estimate of time and disk. Writes nothing that stays."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.corpus import policies_for
from sanitize.indexing import Indexing, Settings
from sanitize.plan import Plan
from sanitize.queries import masked
from sanitize.read import survey
from sanitize.run import Run
from sanitize.samples import samples

_SAMPLE = 1_000
_LABEL = re.compile(r"\[[A-Z_]+(-[0-9]+)?\]")


def explain(inputs: Sequence[Path], plan: Plan, settings: Settings | None = None) -> dict[str, Any]:
    """A description of the run: `sampled` documents were really sanitized in a temporary folder, and everything is scaled from them."""
    settings = settings or Settings()
    found = survey([Path(path) for path in inputs], settings.columns.roles)
    policies = policies_for(found.schema, found.layout.main, settings.columns)
    total_bytes = sum(size for _, size in found.files)
    with tempfile.TemporaryDirectory(prefix="sanitize-explain-") as folder:
        began = time.process_time()
        sample = _sample(found, Path(folder) / "sample.parquet", settings.max_doc_bytes)
        columns = replace(settings.columns, roles=replace(settings.columns.roles, text=(found.layout.leaf,), user=None, id=None))
        told = replace(settings, workers=1, columns=columns, max_quarantine=1.0, strict=False, progress=lambda *_: None)
        with Indexing([sample], Path(folder) / "work", told) as index:
            summary = Run(index, plan, Path(folder) / "out").sanitize()
            pairs = samples(
                index.documents, index.leaves, Path(folder) / "work" / "runs" / summary["plan_hash"] / "edits" / "00000.parquet", 6
            )
            work_bytes = sum(file.stat().st_size for file in (Path(folder) / "work").rglob("*") if file.is_file())
            out_bytes = sum(file.stat().st_size for file in (Path(folder) / "out").rglob("*.parquet"))
        cpu = time.process_time() - began
        sampled_bytes = sample.stat().st_size
    known = [unit.rows for unit in found.units]
    documents = sum(rows for rows in known if rows is not None) if None not in known else None
    scale = documents / max(summary["documents_in"], 1) if documents else max(1.0, total_bytes / max(sampled_bytes, 1))
    kinds = _series([pair.kind for pair in pairs])
    shown, after = (masked(_series(texts), kinds) for texts in ([pair.before for pair in pairs], [pair.after for pair in pairs]))
    return {
        "plan": plan.resolved(),
        "files": len(found.files),
        "bytes": total_bytes,
        "documents": documents,
        "unreadable_files": len(found.bad),
        "columns": [{"name": name, "policy": policy} for name, policy in policies.items()],
        "sampled": summary["documents_in"],
        "sample": {name: summary[name] for name in ("occurrences", "kept_originals", "replaced", "by_kind", "quarantined")},
        "pairs": [
            {"kind": pair.kind, "before": before, "after": pair.after if _LABEL.fullmatch(pair.after) else now}
            for pair, before, now in zip(pairs, shown, after, strict=True)
        ],
        "estimate": {
            "cpu_seconds": round(cpu * scale, 1),
            "work_mb": round(work_bytes * scale / 1e6, 1),
            "out_mb": round(out_bytes * scale / 1e6, 1),
        },
    }


def _series(texts: list[str]) -> pl.Series:
    return pl.Series(texts, dtype=pl.String)


def _sample(found: Any, path: Path, max_doc_bytes: int) -> Path:
    """The first documents of the input, in standard form, as one Parquet file."""
    from sanitize.corpus import Staging, documents_of, stage_task
    from sanitize.shards import writer

    units, staged, rows = [], {}, 0
    for unit in found.units:
        if not unit.view:
            folder = path.parent / "documents"
            folder.mkdir(exist_ok=True)
            task = Staging(unit=unit, layout=found.layout, max_doc_bytes=max_doc_bytes, folder=folder)
            staged[unit.no] = stage_task(task)
            (folder / "documents.parquet").rename(folder / f"{unit.no:05d}.parquet")
        units.append(unit)
        rows += unit.rows if unit.view else staged[unit.no]["rows"]
        if rows >= _SAMPLE:
            break
    documents = documents_of(replace(found, units=units), staged, path.parent)
    with writer(path, documents.schema) as out:
        for table in documents.read(0, min(_SAMPLE, documents.count)):
            out.write_table(pa.Table.from_arrays([table.column(name) for name in documents.schema.names], schema=documents.schema))
    assert pq.read_metadata(path).num_rows
    return path
