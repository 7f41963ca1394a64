"""Collects the data of the report from the manifest and the tables of a run; renders it at
publication, and later with `sanitize report`.

Counts are computed in SQL under the engine's memory limit. The results are histograms and small
sums: their size depends on the number of kinds, header fields and distinct counts, not on the
number of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.command_results import CommandResult, to_json
from sanitize.core.engine import Engine
from sanitize.core.table_rendering import SummaryTable
from sanitize.engines.local import LocalEngine
from sanitize.errors import LeakFound, UsageError
from sanitize.kinds.kind import custom_kinds
from sanitize.plans.detection_spec import list_custom_kinds
from sanitize.plans.python_api import public_function
from sanitize.reporting.charts import write_charts
from sanitize.reporting.edit_samples import select_edit_samples
from sanitize.reporting.html_report import (
    EditSample,
    ReportTables,
    build_charts,
    render_card,
    render_report,
)
from sanitize.reporting.outcomes import OutcomeTask, count_outcomes
from sanitize.storage import private_folder, publication, queries, remote_output, table_schemas
from sanitize.storage.corpus import Corpus
from sanitize.storage.disk_errors import refuse_unwritable_path, translate_disk_errors
from sanitize.storage.parquet_files import read_table
from sanitize.storage.private_folder import (
    OCCURRENCES_FOLDER,
    RUNS_FOLDER,
    VALUE_COUNTS_FILE,
    SavedIndex,
)
from sanitize.storage.records.label_scores import read_scores
from sanitize.storage.remote_storage import require_local_path
from sanitize.storage.runs.run_folders import require_index_of_run
from sanitize.verification.leak_check import find_values_in_texts, write_terms_of_run
from sanitize.verification.published.published_folder import require_run_tables

SAMPLE_COUNT = 12
_PAGE_TERMS_BYTES = 1 << 30  # memory for the search terms of a page


@dataclass(frozen=True, kw_only=True, repr=False)
class ReportResult(CommandResult):
    """The result of `report`: the paths of the page (None if only figures were written) and of the
    figures, and how many samples of edits the page shows."""

    out: str
    work: str
    page: str | None
    figures: Sequence[str]
    samples: int

    def summary_table(self) -> SummaryTable:
        facts = [
            *([("page", self.page)] if self.page else []),
            *(("figure", path) for path in self.figures),
        ]
        return SummaryTable(title=f"sanitize report: {self.out}", facts=facts)


def render_pages(manifest: Mapping[str, Any], report_tables: ReportTables) -> dict[str, str]:
    """The pages that are published beside the shards, by file name."""
    return {
        "report.html": render_report(manifest, report_tables),
        "README.md": render_card(manifest, report_tables),
    }


def collect_report_tables(
    engine: Engine,
    work: Path,
    run_folder: Path,
    samples: Sequence[EditSample],
    spill: Path,
    *,
    swept: bool,
) -> ReportTables:
    """The tables of the page for the run in `run_folder` of WORK.

    `spill` is a folder for temporary files, which the caller deletes; `swept` says whether the
    sweep edited what the leak check found.
    """
    spill.mkdir(parents=True, exist_ok=True)

    def table_files(name: str, *folders: Path) -> list[Path]:
        files = [path for folder in folders for path in sorted(folder.glob("[0-9]*.parquet"))]
        if not files:  # no stage of the run wrote this table: use an empty one
            files = [spill / f"no-{name}.parquet"]
            pq.write_table(table_schemas.ALL_TABLES[name].schema.empty_table(), files[0])
        return files

    def run_named_query(
        name: str, tables: Mapping[str, Sequence[Path]], **parameters: object
    ) -> pa.Table:
        engine.sql(queries.get_query(name).sql, tables, spill / f"{name}.parquet", **parameters)
        return read_table(spill / f"{name}.parquet")

    value_counts = [work / VALUE_COUNTS_FILE]
    histogram = run_named_query("frequency_histogram", {"value_counts": value_counts}, kind="all")
    tasks = []
    for path in table_files("occurrences", work / OCCURRENCES_FOLDER):
        sweep, edits = (run_folder / folder / path.name for folder in ("sweep", "edits"))
        tasks.append(
            OutcomeTask(
                occurrences=(path, sweep) if swept and sweep.is_file() else (path,),
                edits=edits if edits.is_file() else None,
                drops=tuple(sorted((run_folder / "drops").glob("[0-9]*.parquet"))),
                outcomes_path=spill / f"shard_outcomes-{path.name}",
            )
        )
    outcomes = count_outcomes(engine, tasks, spill / "outcomes.parquet")
    ledger = run_named_query(
        "ledger_summary", {"ledger": table_files("ledger", run_folder / "ledger")}
    )
    return ReportTables(
        frequency_histogram=[tuple(row.values()) for row in histogram.to_pylist()],
        outcomes=[tuple(row.values()) for row in outcomes.to_pylist()],
        ledger=ledger.to_pylist(),
        samples=samples,
    )


@dataclass(frozen=True, kw_only=True)
class PublishedRun:
    """A published folder with its manifest, and of the private folder the folder of its run and
    index.json."""

    out: Path
    work: Path
    manifest: Mapping[str, Any]
    folder: Path
    index: SavedIndex


def open_published_run(out: Path, work: Path | str | None) -> PublishedRun:
    """The run that published OUT. Raises UsageError for a folder that is none, and for a WORK that
    is not that of the run."""
    work = remote_output.workspace_path(work, out)
    corpus = _open_output(out)
    corpus.require_current_manifest()
    run_hash = str(corpus.manifest["run_hash"])
    index, folder = require_index_of_run(work, run_hash, str(out)), work / RUNS_FOLDER / run_hash
    if (mac_key := publication.read_mac_key(folder)) is not None:
        # before anything else in the manifest is relied on
        publication.require_published_manifest(out, mac_key)
    manifest = corpus.manifest
    if (measured := read_scores(work, index.fingerprint)) is not None:
        # a sample may have been labelled since
        manifest = {**manifest, "summary": {**manifest["summary"], "measured": to_json(measured)}}
    return PublishedRun(out=out, work=work, manifest=manifest, folder=folder, index=index)


@public_function()
def report(
    out: Path | str,
    /,
    *,
    to: Path | str | None = None,
    figures: Path | str | None = None,
    work: Path | str | None = None,
    format: str = "png",
) -> ReportResult:
    """Write the report of a published folder again: the page to the file `to`, its charts to the
    folder `figures`.

    Without either, the page is written to `OUT.report.html`, beside OUT. Nothing is written into
    OUT: its files are in the manifest. Raises UsageError for an unsuitable folder or path,
    LeakFound if the page would contain a value, MissingExtra if charts need matplotlib.

    >>> import sanitize
    >>> sanitize.report("clean").page
    'clean.report.html'
    """
    published = open_published_run(require_local_path(out), work)
    out, work, manifest, run_folder, index = (
        published.out,
        published.work,
        published.manifest,
        published.folder,
        published.index,
    )
    page = (
        require_local_path(to)
        if to is not None
        else None
        if figures is not None
        else out.with_name(f"{out.name}.report.html")
    )
    for target in (page, figures):
        if target is not None:
            require_outside(require_local_path(target), out, work)
    if page is not None:
        if page.is_dir():
            raise UsageError(f"{page}: is a folder; expected the file to write the page to")
        require_page_or_new(page)
    with (
        translate_disk_errors(work),
        private_folder.set_umask(0o077),
        private_folder.read_workspace(work, "report") as spill,
    ):
        require_run_tables(
            work,
            run_folder,
            len(manifest["shards"]),
            [work / VALUE_COUNTS_FILE],
        )
        engine = LocalEngine(workers=1, spill=spill)
        try:
            swept = manifest["settings"]["verify"] != "off"
            earlier_shards = sum(
                increment["shard_count"] for increment in manifest.get("increments", ())[:-1]
            )
            with private_folder.report_broken_tables(work):
                samples = _collect_samples(index, run_folder, earlier_shards)
                tables = collect_report_tables(
                    engine, work, run_folder, samples, spill / "queries", swept=swept
                )
        finally:
            engine.close()
        html = render_report(manifest, tables)
        try:
            refuse_page_with_values(html, published, spill)
        except LeakFound:  # a surrogate may hold what looks like a value of another kind
            html = render_report(manifest, replace(tables, hides_surrogates=True))
            refuse_page_with_values(html, published, spill)
    chart_files: list[Path] = []
    if figures is not None:
        with translate_disk_errors(Path(figures)), refuse_unwritable_path(Path(figures)):
            chart_files = write_charts(build_charts(manifest, tables), Path(figures), format)
    if page is not None:
        with translate_disk_errors(page.parent), refuse_unwritable_path(page):
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(html, "utf-8")
    return ReportResult(
        out=str(out),
        work=str(work),
        page=str(page) if page is not None else None,
        figures=[str(path) for path in chart_files],
        samples=len(tables.samples),
    )


def require_page_or_new(path: Path) -> None:
    """Raise UsageError for a file that exists and is no HTML page: it may be an input, or
    somebody's work."""
    if path.is_file():
        with refuse_unwritable_path(path), open(path, "rb") as file:
            start = file.read(100)
        if start.strip() and not start.lstrip().lower().startswith(b"<!doctype html"):
            raise UsageError(
                f"{path}: exists and is no HTML page, so it is not overwritten; name another file,"
                " or move it away"
            )


def refuse_page_with_values(html: str, run: PublishedRun, spill: Path) -> None:
    """Raise LeakFound if a page holds a value that the run removed. Search terms are written below
    `spill`."""
    if run.manifest["settings"]["verify"] == "off":
        return
    with custom_kinds(list_custom_kinds(run.index)):
        # the values of the plan's own kinds are numbered after all built-in ones
        terms = spill / "page_terms"
        write_terms_of_run(run.manifest, run.work, run.folder, terms, _PAGE_TERMS_BYTES, "fast")
        if found := find_values_in_texts((terms,), {"the page": html}):
            raise LeakFound(
                f"the page would hold a {found[0][1]} value that the run removed; the page was not"
                " written"
            )


def _open_output(out: Path) -> Corpus:
    if (out / "vault").is_dir():
        raise UsageError(
            f"{out}: is the private folder of a run; give the folder that the run published, and"
            " this one with --work"
        )
    return Corpus.open(out)


def require_outside(path: Path, *folders: Path) -> None:
    """Raise UsageError for a path inside OUT, whose manifest lists all files, or inside WORK, which
    only runs write to."""
    for folder in folders:
        if path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(
                f"{path}: lies inside {folder}, where no file may be added; use a path outside"
                " of it"
            )


def _collect_samples(index: SavedIndex, run_folder: Path, first_shard: int) -> list[EditSample]:
    """Samples from one shard of a run, the first of the latest increment; none if its input has
    moved or changed since."""
    first_doc_no = index.task_ranges[first_shard][0] if index.task_ranges else 0
    edits = run_folder / "edits" / f"{first_shard:05d}.parquet"
    if not edits.is_file() or not all(
        source.is_available()
        for source in index.documents.files
        if source.first_doc_no >= first_doc_no
    ):
        return []
    return select_edit_samples(
        index.documents,
        index.leaves,
        edits,
        SAMPLE_COUNT,
    )
