"""What a run would do, from a sample: kinds and counts, masked pairs, an estimate of time and disk. Writes nothing that stays."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from sanitize.core.display import Told
from sanitize.core.engine import Died, Done
from sanitize.core.progress import silent
from sanitize.engines.local import Local
from sanitize.errors import MissingExtra, PlanError, UsageError
from sanitize.pipeline.index_build import Indexing, Settings
from sanitize.pipeline.run import Run
from sanitize.plans.plan import Plan
from sanitize.readers.sandbox import Reading, surveyed
from sanitize.readers.staging import documents_of, policies_for
from sanitize.readers.survey import Survey, Unit
from sanitize.reporting.edit_samples import samples
from sanitize.reporting.leak_forecast import KIND, forecast, read_curves
from sanitize.storage.corpus import writer
from sanitize.storage.remote_storage import is_url, local_path
from sanitize.storage.remote_storage import shown as shown_url
from sanitize.storage.views import masked

_SAMPLE = 1_000
_LABEL = re.compile(r"\[[A-Z_]+(-[0-9]+)?\]")


def explain(
    inputs: Sequence[Path | str] | Path | str, plan: Plan, settings: Settings | None = None, curves: Path | None = None
) -> dict[str, Any]:
    """A description of the run: `sampled` documents were really sanitized in a temporary folder, and everything is scaled from them.

    Where an editor lacks something to run, such as a model, `missing` says what, and the sample is counted only.

    With `curves` (a file of `sanitize-eval frontier`) there is `forecast`: how many of the sample's addresses models may say, by plan.
    """
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    settings = settings or Settings()
    for url in filter(is_url, inputs):
        raise UsageError(
            f"{shown_url(str(url))}: explain and --dry-run look at local files only; fetch some of it, or use `sanitize run --sample 1%`"
        )
    measured = read_curves(curves) if curves is not None else None
    with tempfile.TemporaryDirectory(prefix="sanitize-explain-") as folder:
        engine = Local(workers=1, spill=Path(folder) / "spill")
        found = surveyed(engine, [local_path(path) for path in inputs], settings.columns.roles, settings.reading_bytes)
        policies = policies_for(found.schema, found.layout.main, settings.columns)
        total_bytes = sum(size for _, size in found.files)
        began = time.process_time()
        sample = _sample(engine, found, Path(folder), settings)
        columns = replace(settings.columns, roles=replace(settings.columns.roles, text=(found.layout.leaf,), user=None, id=None))
        small = replace(settings, workers=1, columns=columns, max_quarantine=1.0, strict=False, append=False, progress=silent)
        plan = plan.knowing(settings.known)
        missing = _missing(plan)
        # what cannot run yet is left out of the sample, its kinds counted and no more
        tried = plan.model_copy(update={"editors": (), "leave": tuple(plan.find.kinds)}) if missing else plan
        with Indexing([sample], Path(folder) / "work", small, plan.sought) as index:
            summary = Run(index, tried, Path(folder) / "out").sanitize()
            pairs = samples(
                index.documents, index.leaves, Path(folder) / "work" / "runs" / summary["plan_hash"] / "edits" / "00000.parquet", 6
            )
            histogram = _histogram(index.value_counts) if measured is not None else []
            work_bytes = sum(file.stat().st_size for file in (Path(folder) / "work").rglob("*") if file.is_file())
            out_bytes = sum(file.stat().st_size for file in (Path(folder) / "out" / "data").iterdir())
        cpu = time.process_time() - began
        sampled_bytes = sample.stat().st_size
    known = [unit.rows for unit in found.units]
    documents = sum(rows for rows in known if rows is not None) if None not in known else None
    scale = documents / max(summary["documents_in"], 1) if documents else max(1.0, total_bytes / max(sampled_bytes, 1))
    kinds = _series([pair.kind for pair in pairs])
    shown, after = (masked(_series(texts), kinds) for texts in ([pair.before for pair in pairs], [pair.after for pair in pairs]))
    told = {
        **({"forecast": forecast(measured, histogram)} if measured is not None else {}),
        "plan": plan.shown(),
        **({"missing": missing} if missing else {}),
        **({"notes": notes} if (notes := plan.without_effect) else {}),
        "files": len(found.files),
        "bytes": total_bytes,
        "documents": documents,
        "unreadable_files": len(found.bad),
        "columns": [{"name": name, "policy": policy} for name, policy in policies.items()],
        "sampled": summary["documents_in"],
        "sample": {
            name: summary[name]
            for name in ("occurrences", "kept_originals", "replaced", "by_kind", "quarantined", "documents_dropped", "dropped", "blacklist")
            if name in summary
        },
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
    return Told("explain", told)


def _missing(plan: Plan) -> list[str]:
    """What the editors of the plan lack to run at all."""
    found = []
    for editor in plan.editors:
        try:
            editor.fits(None)
        except (PlanError, MissingExtra) as error:
            found.append(str(error))
    return found


def _histogram(counts: Path) -> list[tuple[int, int]]:
    """How many addresses occur once, twice, and so on."""
    frame = pl.read_parquet(counts, glob=False).filter(pl.col("kind").cast(pl.String) == KIND)
    return [(int(times), int(values)) for times, values in frame.group_by("occurrences").len().sort("occurrences").iter_rows()]


def _series(texts: list[str]) -> pl.Series:
    return pl.Series(texts, dtype=pl.String)


def _sample(engine: Local, found: Survey, folder: Path, settings: Settings) -> Path:
    """The first documents of the input, in standard form, as one Parquet file."""
    units: list[Unit] = []
    staged: dict[int, dict[str, Any]] = {}
    rows = 0

    def run(_: str, *task: Any) -> Iterator[tuple[int, Done | Died]]:
        work, tasks, seconds = task
        return engine.map_untrusted(work, tasks, seconds=seconds, memory=settings.reading_bytes)

    for unit in found.units:
        reading = Reading(
            survey=replace(found, units=[unit]), named=(), work=folder, fingerprint="", max_doc_bytes=settings.max_doc_bytes, run=run
        )
        survey, made = reading.read()
        units += survey.units
        staged |= made
        rows += made[unit.no]["rows"] if made else unit.rows or 0
        if rows >= _SAMPLE:
            break
    documents = documents_of(replace(found, units=units), staged, folder)
    with writer(folder / "sample.parquet", documents.schema) as out:
        for table in documents.read(0, min(_SAMPLE, documents.count)):
            out.write_table(pa.Table.from_arrays([table.column(name) for name in documents.schema.names], schema=documents.schema))
    return folder / "sample.parquet"
