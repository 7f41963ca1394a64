"""Preview of a run (`sanitize explain`): counts and masked before/after pairs of a
sample, an estimate of time and disk.

The sample is really sanitized, in a temporary folder that is deleted at the end.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Unpack

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.command_results import (
    IF_NOT_EMPTY,
    IF_SET,
    ColumnPolicy,
    CommandResult,
    CorpusCounts,
    tabulate_kinds,
)
from sanitize.core.engine import TaskResult, WorkerDied
from sanitize.core.progress import ignore_progress
from sanitize.core.table_rendering import SummaryTable
from sanitize.core.text_cells import is_text_type
from sanitize.engines.local import LocalEngine
from sanitize.errors import MissingExtra, PlanError, UsageError, running_command_line
from sanitize.pipeline.data_objects import write_object
from sanitize.pipeline.indexing.column_roles import describe_columns
from sanitize.pipeline.indexing.index_build import IndexBuilder
from sanitize.pipeline.indexing.index_state import resolve_policies
from sanitize.pipeline.indexing.quarantine_limit import measure_loss
from sanitize.pipeline.input_objects import read_object, refuse_lineage
from sanitize.pipeline.run import run_plan
from sanitize.pipeline.run_results import RunResult
from sanitize.pipeline.run_state import plan_run
from sanitize.plans.plan import DEFAULT_PLAN, Plan
from sanitize.plans.python_api import (
    ExplainOptions,
    check_argument,
    name_data_object,
    public_function,
)
from sanitize.plans.settings import Settings, settings_of
from sanitize.readers.sandbox import SandboxedReader, survey_in_sandbox
from sanitize.readers.staging import build_documents
from sanitize.readers.survey import InputUnit, StagingResult, Survey, format_refusal
from sanitize.reporting.edit_samples import select_edit_samples
from sanitize.reporting.html_report import EditSample
from sanitize.reporting.leak_forecast import (
    FORECAST_KIND,
    LeakForecast,
    forecast_leaks,
    read_curves,
)
from sanitize.storage.parquet_files import open_text_writer, read_table
from sanitize.storage.private_folder import (
    DOCUMENTS_FOLDER,
    RUNS_FOLDER,
    VALUE_COUNTS_FILE,
    SavedIndex,
)
from sanitize.storage.remote_storage import is_url, redact_url, require_local_path
from sanitize.storage.views.masks import mask_replacements, mask_texts

_SAMPLE_DOCUMENTS = 1_000
# stages whose cost hardly depends on the number of documents
_FIXED_STAGES = ("canaries", "publish", "aggregate")
_MAX_LISTED_FILES = 5  # unreadable files named one by one


@dataclass(frozen=True, kw_only=True)
class ExampleEdit:
    """A value before and after it was edited, both masked by shape. With `reveal`, in clear text,
    with the line around it."""

    kind: str
    before: str
    after: str
    line_before: Annotated[str | None, IF_SET] = None
    line_after: Annotated[str | None, IF_SET] = None


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """What a run over the whole input will take: CPU-seconds, and MB (1e6 bytes) in WORK and
    OUT."""

    cpu_seconds: float
    workspace_mb: float
    output_mb: float


@dataclass(frozen=True, kw_only=True, repr=False)
class ExplainResult(CommandResult):
    """The result of `explain`: what a run would do, from the first `sampled_documents` documents.
    `documents` is None if they were not counted; `missing_requirements` says why the plan cannot
    run here. `unreadable` has the first files that cannot be read, each with the reason;
    `quarantine` counts the files and the records of the sample that a run would quarantine, by
    reason, and `refusal` says why a run would stop because of them."""

    plan: Mapping[str, Any]
    files: int
    bytes: int
    documents: int | None
    unreadable_files: int
    columns: Sequence[ColumnPolicy]
    sampled_documents: int
    sample: CorpusCounts
    examples: Sequence[ExampleEdit]
    estimate: CostEstimate
    forecast: Annotated[LeakForecast | None, IF_SET] = None
    missing_requirements: Annotated[Sequence[str], IF_NOT_EMPTY] = field(default_factory=list)
    notes: Annotated[Sequence[str], IF_NOT_EMPTY] = field(default_factory=list)
    unreadable: Sequence[str] = ()
    quarantine: Mapping[str, int] = field(default_factory=dict)
    refusal: Annotated[str | None, IF_SET] = None
    shape: str = ""

    def summary_table(self) -> SummaryTable:
        estimate = self.estimate
        facts = [
            ("plan", f"{self.plan['name']}: {self.plan['about']}"),
            (
                "input",
                (
                    f"{self.files:,} files, {self.bytes / 1e6:,.1f} MB, {self.unreadable_files:,}"
                    " files cannot be read"
                ),
            ),
            *([("refused", self.refusal)] if self.refusal else []),
            ("columns", ", ".join(f"{column.name}: {column.policy}" for column in self.columns)),
            (
                "estimate",
                (
                    f"{estimate.cpu_seconds:,} CPU-seconds, {estimate.output_mb:,} MB out,"
                    f" {estimate.workspace_mb:,} MB private"
                ),
            ),
            (
                "sampled",
                (
                    f"the first {self.sampled_documents:,} documents, sanitized in a temporary"
                    " folder; nothing was written"
                ),
            ),
            *(("missing", message) for message in self.missing_requirements),
            *(("note", message) for message in self.notes),
            *(
                (
                    pair.kind,
                    (
                        f"{pair.before} →"
                        f" {pair.after}{' (by shape)' if pair.line_before is None else ''}"
                    ),
                )
                for pair in self.examples
            ),
        ]
        header, rows = tabulate_kinds(self.sample.by_kind)
        return SummaryTable(title="sanitize explain", facts=facts, header=header, rows=rows)


@public_function("explain")
def explain(
    inputs: Any,
    /,
    *,
    plan: Plan | Path | str = DEFAULT_PLAN,
    forecast: Path | str | None = None,
    reveal: bool = False,
    **options: Unpack[ExplainOptions],
) -> ExplainResult:
    """Describe what `run` would do with the same inputs, files or data in memory, and write
    nothing. The first 1,000 documents (`sampled_documents`) are really sanitized in a temporary
    folder; the estimate of time and disk is scaled from them.

    If an editor cannot run because something is missing, such as a model, `missing_requirements`
    says what, and the sample is only counted. If a run would stop because too much cannot be read,
    `refusal` says why, and what to do. With `forecast` (curves.json of `sanitize-eval frontier`),
    the result has the number of the sample's addresses that models may leak, by plan. With
    `reveal`, examples are in clear text, with the lines around them. `options` name columns, as in
    `run`.

    Raises UsageError for URLs, and what `run` raises.

    >>> import polars, sanitize
    >>> polars.DataFrame({"text": ["Write to ann.lee@example.com"]}).write_parquet("mails.parquet")
    >>> result = sanitize.explain("mails.parquet", plan="redact")
    >>> result.sampled_documents, [(pair.kind, pair.after) for pair in result.examples]
    (1, [('EMAIL_ADDRESS', '[EMAIL_ADDRESS]')])
    """
    chosen, settings = Plan.load(plan), settings_of("explain", options)
    if name_data_object(inputs):
        refuse_lineage("explain", settings.lineage)
        with write_object("explain", read_object("explain", inputs).data) as (folder, _):
            return explain_with_settings(folder, chosen, settings, forecast, reveal=reveal)
    check_argument("explain", "inputs", inputs, Sequence[Path | str] | Path | str)
    return explain_with_settings(inputs, chosen, settings, forecast, reveal=reveal)


def explain_with_settings(
    inputs: Sequence[Path | str] | Path | str,
    plan: Plan,
    settings: Settings | None = None,
    curves: Path | str | None = None,
    *,
    reveal: bool = False,
) -> ExplainResult:
    """`explain` with its settings as one object."""
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    settings = settings or Settings()
    for url in filter(is_url, inputs):
        raise UsageError(
            f"{redact_url(str(url))}: explain reads local files only; download some of it,"
            " or use `sanitize run --sample 1%`"
        )
    measured_curves = read_curves(Path(curves)) if curves is not None else None
    # a command pays for the start of its process, too
    began = 0.0 if running_command_line.get() else _cpu_seconds()
    with tempfile.TemporaryDirectory(prefix="sanitize-explain-") as folder:
        engine = LocalEngine(workers=1, spill=Path(folder) / "spill")
        survey = survey_in_sandbox(
            engine,
            [require_local_path(path) for path in inputs],
            settings.columns.roles,
            settings.reading_memory_bytes,
            settings.max_doc_bytes,
        )
        policies = resolve_policies(survey, settings, plan.detection_spec.opt_in_kinds)
        total_bytes = sum(size for _, size in survey.files)
        sample, quarantine, scale = _write_sample(engine, survey, Path(folder), settings)
        sample_settings = replace(
            settings,
            text_column=settings.text_column if survey.roles.shape else (survey.layout.main_path,),
            user_column=None,
            id_column=None,
            read_as=None,
            include=(),
            lineage=False,
            workers=1,
            max_quarantine=1.0,
            strict=False,
            append=False,
            progress=ignore_progress,
        )
        plan = plan.with_known_values(settings.known)
        missing = _missing_requirements(plan)
        # if an editor cannot run, the sample is run without editors: its kinds are only counted
        sample_plan = (
            plan.model_copy(update={"editors": (), "leave": tuple(plan.find.kinds)})
            if missing
            else plan
        )
        fixed_cpu_seconds, overhead = _cpu_seconds() - began, 0.0
        if scale > 1:
            # what a run costs whatever its size, such as lexicons and canaries: that of a document
            first = Path(folder) / "first.parquet"
            with pq.ParquetFile(sample, pre_buffer=False) as file:
                pq.write_table(pa.Table.from_batches([next(file.iter_batches(1))]), first)
            for name in ("cold", "warm"):
                with IndexBuilder(
                    [first], Path(folder) / name, sample_settings, plan.detection_spec
                ) as index:
                    of_first = run_plan(
                        index, plan_run(index, sample_plan, Path(folder) / f"{name}_out")
                    )
                if name == "cold":
                    fixed_cpu_seconds = _cpu_seconds() - began
                overhead = _sum_scaled_stages(of_first)
        with IndexBuilder(
            [sample], Path(folder) / "work", sample_settings, plan.detection_spec
        ) as index:
            summary = run_plan(index, plan_run(index, sample_plan, Path(folder) / "out"))
            sample_cpu_seconds = _cpu_seconds() - began - fixed_cpu_seconds
            work = Path(folder) / "work"
            saved_index = SavedIndex.read_complete(work)
            pairs = select_edit_samples(
                saved_index.documents,
                saved_index.leaves,
                work / RUNS_FOLDER / summary.run_hash / "edits" / "00000.parquet",
                6,
            )
            histogram = (
                _address_frequencies(work / VALUE_COUNTS_FILE)
                if measured_curves is not None
                else []
            )
            decided = [one for one in saved_index.decided_columns if one.name in policies.by_column]
            policies = policies.with_columns({one.name: one.policy for one in decided})
            columns = describe_columns(survey, policies, settings.policies, decided, plan)
            work_bytes = sum(file.stat().st_size for file in work.rglob("*") if file.is_file())
            out_bytes = sum(
                file.stat().st_size for file in (Path(folder) / "out" / "data").iterdir()
            )
    if scale > 1:
        sample_cpu_seconds = max(0.0, _sum_scaled_stages(summary) - overhead)
    # the records of the units that were sampled, and one for each other file that cannot be read
    loss = measure_loss(survey, quarantine, max(summary.documents_in, quarantine.num_rows, 1))
    limit = 0.0 if settings.strict else settings.max_quarantine
    refusal = None
    if loss.exceeds(limit):
        option = (
            "--strict allows none" if settings.strict else f"--max-quarantine allows {limit:.0%}"
        )
        refusal = (
            f"{loss.describe()}; {option}. {loss.suggest_remedy(settings.strict, has_index=False)}"
        )
    return ExplainResult(
        plan=plan.public_settings(),
        files=len(survey.files),
        bytes=total_bytes,
        documents=(
            sum(unit.rows or 0 for unit in survey.units)
            if all(unit.rows is not None for unit in survey.units)
            else None
        ),
        unreadable_files=len(survey.unreadable),
        columns=columns,
        sampled_documents=summary.documents_in,
        sample=CorpusCounts(
            occurrences=summary.occurrences,
            kept_originals=summary.kept_originals,
            replaced=summary.replaced,
            by_kind=summary.by_kind,
            quarantined=summary.quarantined,
            documents_dropped=summary.documents_dropped,
            dropped=summary.dropped,
            blacklist=summary.blacklist,
        ),
        examples=_show_examples(pairs, reveal=reveal),
        estimate=CostEstimate(
            cpu_seconds=round(fixed_cpu_seconds + sample_cpu_seconds * scale, 1),
            workspace_mb=round(work_bytes * scale / 1e6, 1),
            output_mb=round(out_bytes * scale / 1e6, 1),
        ),
        forecast=(
            forecast_leaks(measured_curves, histogram) if measured_curves is not None else None
        ),
        missing_requirements=missing,
        notes=plan.ineffective_settings,
        unreadable=[
            format_refusal(path, reason) for path, reason in survey.unreadable[:_MAX_LISTED_FILES]
        ],
        quarantine=loss.reasons,
        refusal=refusal,
        shape=survey.roles.shape.describe() if survey.roles.shape else "",
    )


def _show_examples(pairs: Sequence[EditSample], *, reveal: bool) -> list[ExampleEdit]:
    """The edits masked by shape; with `reveal` in clear text, with the line around each."""
    if reveal:
        return [
            ExampleEdit(
                kind=pair.kind,
                before=pair.original,
                after=pair.replacement,
                line_before=pair.line_before,
                line_after=pair.line_after,
            )
            for pair in pairs
        ]
    kinds = _string_series([pair.kind for pair in pairs])
    before = mask_texts(_string_series([pair.original for pair in pairs]), kinds)
    after = mask_replacements(_string_series([pair.replacement for pair in pairs]), kinds)
    return [
        ExampleEdit(kind=pair.kind, before=old, after=new)
        for pair, old, new in zip(pairs, before, after, strict=True)
    ]


def _missing_requirements(plan: Plan) -> list[str]:
    """The messages of the editors that cannot run, such as for a missing model or package."""
    messages = []
    for editor in plan.editors:
        try:
            editor.validate_settings(None)
        except (PlanError, MissingExtra) as error:
            messages.append(str(error))
    return messages


def _address_frequencies(counts: Path) -> list[tuple[int, int]]:
    """Histogram of the addresses: (occurrences, number of addresses with so many)."""
    frame = pl.read_parquet(counts, glob=False).filter(
        pl.col("kind").cast(pl.String) == FORECAST_KIND
    )
    return [
        (int(times), int(values))
        for times, values in frame.group_by("occurrences").len().sort("occurrences").iter_rows()
    ]


def _string_series(texts: list[str]) -> pl.Series:
    return pl.Series(texts, dtype=pl.String)


def _write_sample(
    engine: LocalEngine, input_survey: Survey, folder: Path, settings: Settings
) -> tuple[Path, pa.Table, float]:
    """Write the first 1,000 documents of the input, in standard form, to one Parquet file. Returns
    its path; the table `quarantine` of what was read, with a row for each other file that the
    survey could not read; and how many times the sample the input is, by bytes: documents may
    differ much in length."""
    units: list[InputUnit] = []
    staged: dict[int, StagingResult] = {}
    rows, read_bytes, unit_bytes = 0, 0.0, _list_unit_bytes(input_survey)

    def run(_: str, *task: Any) -> Iterator[tuple[int, TaskResult | WorkerDied]]:
        work, tasks, seconds = task
        return engine.map_untrusted(
            work, tasks, time_limit=seconds, memory_bytes=settings.reading_memory_bytes
        )

    for unit in input_survey.units:
        reader = SandboxedReader(
            survey=replace(input_survey, units=[unit]),
            named_inputs=(),
            workspace=folder,
            fingerprint="",
            max_doc_bytes=settings.max_doc_bytes,
            run_untrusted=run,
        )
        survey, staged_units = reader.read()
        units += survey.units
        staged |= staged_units
        rows += staged_units[unit.no].rows if staged_units else unit.rows or 0
        read_bytes += unit_bytes[unit.no]
        if rows >= _SAMPLE_DOCUMENTS:
            break
    documents = build_documents(replace(input_survey, units=units), staged, folder)
    schema = documents.schema
    for name in input_survey.layout.json_columns:
        json_type = pa.json_(pa.large_string())
        data_type = json_type if is_text_type(schema.field(name).type) else pa.large_list(json_type)
        schema = schema.set(schema.get_field_index(name), pa.field(name, data_type))
    with open_text_writer(folder / "sample.parquet", schema) as out:
        for table in documents.read(0, min(_SAMPLE_DOCUMENTS, documents.count)):
            out.write_table(table.select(schema.names).cast(schema))
    quarantine_files = sorted((folder / DOCUMENTS_FOLDER / "quarantined").glob("*.parquet"))
    tables = [
        read_table(path, columns=["source", "location", "reason"]) for path in quarantine_files
    ]
    seen = {source for table in tables for source in table.column("source").to_pylist()}
    others = [(path, reason) for path, reason in input_survey.unreadable if path not in seen]
    unread = {
        "source": [path for path, _ in others],
        "location": ["file"] * len(others),
        "reason": [reason for _, reason in others],
    }
    quarantine = pa.concat_tables(
        [*tables, pa.table({name: pa.array(cells, pa.string()) for name, cells in unread.items()})]
    )
    share = read_bytes / max(sum(unit_bytes.values()), 1)
    if rows <= _SAMPLE_DOCUMENTS and share >= 1:
        return folder / "sample.parquet", quarantine, 1.0
    sampled = pq.read_metadata(folder / "sample.parquet")
    read_size = sum(
        _uncompressed_bytes(metadata) * file.rows / max(metadata.num_rows, 1)
        for file in documents.files
        for metadata in (pq.read_metadata(file.path),)
    )
    scale = read_size / max(_uncompressed_bytes(sampled), 1) / max(share, 1e-9)
    return folder / "sample.parquet", quarantine, max(1.0, scale)


def _sum_scaled_stages(result: RunResult) -> float:
    """The CPU-seconds of the stages whose cost depends on the number of documents."""
    return sum(cost.cpu_s for stage, cost in result.stages.items() if stage not in _FIXED_STAGES)


def _uncompressed_bytes(metadata: pq.FileMetaData) -> int:
    return sum(metadata.row_group(no).total_byte_size for no in range(metadata.num_row_groups))


def _list_unit_bytes(survey: Survey) -> dict[int, float]:
    """The bytes of each unit by its number: of several files, or of a piece of one; of Parquet its
    share of the rows."""
    file_bytes = {str(path): size for path, size in survey.files}
    file_rows = Counter[str]()
    for unit in survey.units:
        file_rows[unit.path] += unit.rows or 0
    found = {}
    for unit in survey.units:
        total = sum(file_bytes.get(str(path), 0) for path in unit.files or (unit.path,))
        found[unit.no] = (
            total * (unit.rows or 0) / max(file_rows[unit.path], 1)
            if unit.row_groups
            else (total if unit.end is None else unit.end) - unit.start
        )
    return found


def _cpu_seconds() -> float:
    """CPU-seconds of this process and of its workers that have ended."""
    return sum(os.times()[:4])
