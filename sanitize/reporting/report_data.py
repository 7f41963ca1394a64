"""The report of a run, from its manifest and its tables: written into OUT when that is published, and made again later wherever one likes.

Counting is done in SQL under the engine's memory limit; what comes out are histograms of counts and small sums, whose size follows from the
number of kinds, header fields and different counts, not from the number of values.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.display import Told
from sanitize.core.engine import Engine
from sanitize.core.text_cells import Leaf
from sanitize.engines.local import Local
from sanitize.errors import LeakFound, UsageError
from sanitize.reporting.charts import draw
from sanitize.reporting.edit_samples import samples
from sanitize.reporting.html_report import ReportTables, Sample, card, figures
from sanitize.reporting.html_report import report as page_of
from sanitize.reporting.outcomes import FateTask, fates
from sanitize.storage import queries, remote_output, table_schemas, vault
from sanitize.storage.corpus import Corpus, Documents, read_json
from sanitize.storage.disk_errors import disk_trouble
from sanitize.storage.remote_storage import local_path
from sanitize.verification.leak_check import scan

SAMPLES = 12


def told(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What page and card are made from: the summary in a manifest, with its plan, versions, inputs and shards. No input file is named."""
    return {
        **manifest["summary"],
        "plan": manifest["plan"],
        "settings": manifest["settings"],
        "versions": {name: version for name, version in manifest["tool"].items() if name not in ("name", "formats")},
        "inputs": [{**one, "name": f"input {one['no'] + 1}"} for one in manifest["inputs"]],
        "outputs": manifest["shards"],
    }


def pages(manifest: Mapping[str, Any], shown: ReportTables) -> dict[str, str]:
    """The pages that are published beside the shards, by file name."""
    facts = told(manifest)
    return {"report.html": page_of(facts, shown), "README.md": card(facts, shown)}


def tables_of(engine: Engine, work: Path, run: Path, samples: Sequence[Sample], spill: Path, *, swept: bool) -> ReportTables:
    """What a page shows of the run in the folder `run` of WORK. `spill` is a folder of its own, which the caller clears; `swept` says
    whether what the leak check found was edited too."""
    spill.mkdir(parents=True, exist_ok=True)

    def there(name: str, *folders: Path) -> list[Path]:
        found = [path for folder in folders for path in sorted(folder.glob("[0-9]*.parquet"))]
        if not found:  # no room wrote it
            found = [spill / f"no-{name}.parquet"]
            pq.write_table(table_schemas.ALL[name].schema.empty_table(), found[0])
        return found

    def ask(name: str, reads: Mapping[str, Sequence[Path]], **given: object) -> pa.Table:
        engine.sql(queries.query(name).text, reads, spill / f"{name}.parquet", **given)
        return pq.read_table(spill / f"{name}.parquet", partitioning=None)

    counted = ask("count_histogram", {"value_counts": [work / "tables" / "value_counts" / "all.parquet"]}, kind="all")
    tasks = []
    for path in there("occurrences", work / "tables" / "occurrences"):
        sweep, edits = (run / folder / path.name for folder in ("sweep", "edits"))
        tasks.append(
            FateTask(
                occurrences=(path, sweep) if swept and sweep.is_file() else (path,),
                edits=edits if edits.is_file() else None,
                drops=tuple(sorted((run / "drops").glob("[0-9]*.parquet"))),
                out=spill / f"standing-{path.name}",
            )
        )
    became = fates(engine, tasks, spill / "fates.parquet")
    spent = ask("ledger_summary", {"ledger": there("ledger", run / "ledger")})
    return ReportTables(
        histogram=[tuple(row.values()) for row in counted.to_pylist()],
        fates=[tuple(row.values()) for row in became.to_pylist()],
        ledger=spent.to_pylist(),
        samples=samples,
    )


def report(
    out: Path | str,
    *,
    to: Path | str | None = None,
    figures_to: Path | str | None = None,
    work: Path | str | None = None,
    format: str = "png",
) -> dict[str, Any]:
    """The report of a published folder made again: the page as the file `to`, its figures as files in the folder `figures_to`.

    Without either the page goes to `OUT.report.html`, beside OUT. Nothing is written into OUT, whose pages are published as they are.
    Returns `out, work, page, figures, samples`; raises UsageError for a folder or place that will not do, LeakFound where the page would
    hold a value, MissingExtra where figures need matplotlib.
    """
    out, work = local_path(out), remote_output.here(work, out)
    manifest = _published(out).manifest
    run = work / "runs" / str(manifest["plan_hash"])
    described = read_json(work / "index.json")
    if described is None or not (run / "plan.json").is_file():
        raise UsageError(f"{work}: does not hold the run that made {out}; name its folder with --work (default: {out}.private)")
    page = local_path(to) if to is not None else None if figures_to is not None else out.with_name(f"{out.name}.report.html")
    for place in (page, figures_to):
        if place is not None:
            _outside(local_path(place), out, work)
    if page is not None and page.is_dir():
        raise UsageError(f"{page}: is a folder; name the file that the page is to be")
    with disk_trouble(work), vault.umask(0o077), tempfile.TemporaryDirectory(dir=vault.private(work / "spill"), prefix="report-") as spill:
        engine = Local(workers=1, spill=Path(spill))
        try:
            swept = manifest["settings"]["verify"] != "off"
            earlier = sum(part["shards"] for part in manifest.get("batches", ())[:-1])
            shown = tables_of(engine, work, run, _samples(described, run, earlier), Path(spill) / "asked", swept=swept)
        finally:
            engine.close()
        html = page_of(told(manifest), shown)
        flagged = run / "counts" / "flagged.parquet"
        if flagged.is_file() and (found := scan(flagged, {"the page": html})):
            raise LeakFound(f"the page would hold a {found[0][1]} that had to go; it was not written")
    with contextlib.suppress(OSError):
        (work / "spill").rmdir()
    drawn: list[Path] = []
    if figures_to is not None:
        with disk_trouble(Path(figures_to)):
            drawn = draw(figures(told(manifest), shown), Path(figures_to), format)
    if page is not None:
        with disk_trouble(page.parent):
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(html, "utf-8")
    made = {
        "out": str(out),
        "work": str(work),
        "page": str(page) if page is not None else None,
        "figures": [str(path) for path in drawn],
        "samples": len(shown.samples),
    }
    return Told("report", made)


def _published(out: Path) -> Corpus:
    if (out / "vault").is_dir():
        raise UsageError(f"{out}: is the private folder of a run; name the folder that it published, and this one with --work")
    return Corpus.open(out)


def _outside(place: Path, *folders: Path) -> None:
    """Refuse a place inside OUT, whose manifest says all that is there, or inside WORK, which holds only what a run put there."""
    for folder in folders:
        if place.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"{place}: lies inside {folder}, where nothing is added; take a place outside of it")


def _samples(described: Mapping[str, Any], run: Path, shard: int) -> list[Sample]:
    """The samples of a run, of a shard and those after it; none where its input has moved or changed since."""
    documents, first = (
        Documents.from_json(described["documents"], run.parents[1]),
        described["ranges"][shard][0] if described["ranges"] else 0,
    )
    edits = run / "edits" / f"{shard:05d}.parquet"
    if not edits.is_file() or not all(source.is_there() for source in documents.sources if source.first_doc_no >= first):
        return []
    return samples(documents, [Leaf(column, tuple(steps)) for column, *steps in described["leaves"]], edits, SAMPLES)
