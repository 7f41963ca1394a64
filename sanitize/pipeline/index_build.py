"""Builds the index of a corpus in WORK: reads the files, finds every occurrence and counts them; reuses an index that is up to date.

    read -> find -> count

If a finder needs the occurrences of the whole corpus (`known`), find has two rounds; between them the values of the first round are
gathered.

Tasks are fixed ranges of `doc_no`; each leaves files and a record, so that the same command resumes where it was stopped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core import failpoints
from sanitize.core.engine import TaskResult, WorkerDied
from sanitize.core.progress import ProgressUpdate
from sanitize.engines import spark, spark_session
from sanitize.engines.local import LocalEngine
from sanitize.errors import InputRefused, QuarantineExceeded, ResourceError, SanitizeError, UsageError, internal_error
from sanitize.kinds.kind import custom_kinds
from sanitize.pipeline import index_increments
from sanitize.pipeline.index_state import IndexState, stat_file
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.settings import Settings as Settings
from sanitize.plans.settings import StageCosts as StageCosts
from sanitize.readers import remote_input
from sanitize.readers.sandbox import SandboxedReader, input_bytes_of_task, survey_in_sandbox
from sanitize.readers.staging import build_documents
from sanitize.readers.survey import DocumentSample, with_sample
from sanitize.stages import aggregates, detection, second_round_input
from sanitize.storage import queries, table_schemas, vault
from sanitize.storage.corpus import Documents, file_sha256, read_json, write_table_rows
from sanitize.storage.disk_errors import get_disk_errno, make_disk_error, translate_disk_errors
from sanitize.storage.locks import lock_output, lock_workspace
from sanitize.storage.publication import Job, recover_output, run_job
from sanitize.storage.views import escape_glob, quote_literal

# bytes that a run needs in WORK and OUT for each byte of input, measured on mail, logs and prose; compressed inputs are decompressed
_DISK_BYTES_PER_INPUT_BYTE, _DISK_BYTES_PER_COMPRESSED_BYTE = 1.0, 4.0


@dataclass(frozen=True)
class FolderTask:
    """A task that has only a folder, for jobs that run in the main process."""

    folder: Path


class IndexBuilder(IndexState):
    """Builds or reuses the index of one WORK folder for one command. A context manager; holds the lock of WORK until it exits."""

    def __init__(
        self,
        inputs: Sequence[Path | str],
        workspace: Path,
        settings: Settings,
        detection_spec: DetectionSpec = DetectionSpec(),  # noqa: B008 - frozen
    ) -> None:
        """`detection_spec` comes from the plan: an index that was built with another one is rebuilt."""
        super().__init__(inputs, workspace, settings, detection_spec)
        self._text_bytes: dict[int, int] = {}  # text bytes of each task, by its first doc_no; empty until they are known
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> IndexBuilder:
        self._is_new_workspace = not self.workspace.exists()
        try:
            with translate_disk_errors(self.workspace.parent):
                self._start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, trace)
        reported: BaseException | None = error
        if isinstance(error, Exception) and (code := get_disk_errno(error)) is not None:
            reported = make_disk_error(self.workspace, code)  # outside of any task
        if isinstance(reported, ResourceError) and reported.is_disk_error and hasattr(self, "survey"):
            reported = reported.with_required_bytes(self._estimate_disk_bytes())
        elif isinstance(reported, Exception) and not isinstance(reported, SanitizeError):
            reported = internal_error(reported)
        if reported is not None and reported is not error:
            raise reported from None

    def _remove_unused_workspace(self, kind: type[BaseException] | None, *_: object) -> None:
        """After an error, delete a new WORK that holds nothing a second try could use. Its lock is still held."""
        if kind is not None and self._is_new_workspace and not any((self.workspace / name).exists() for name in ("index.json", "fetched")):
            shutil.rmtree(self.workspace, ignore_errors=True)

    def _clean_up(self) -> None:
        """Close the engine and delete leftovers of unfinished tasks. Called by the holder of WORK's lock after all work has ended."""
        self.engine.close()
        vault.remove_leftovers(self.workspace)

    def _survey_inputs(self) -> None:
        """Survey the inputs and set the result as the survey of what is to be read."""
        with self.stage_costs.measure("read"), self.input_set.errors_with_urls():
            self.set_survey(
                survey_in_sandbox(self.engine, self.input_paths, self.settings.columns.roles, self.settings.reading_memory_bytes)
            )

    def _start(self) -> None:
        if self.settings.append and not (self.workspace / "index.json").is_file():
            raise UsageError(f"{self.workspace}: holds no index to append to; run the same command without --append first")
        self._stack.enter_context(custom_kinds(self.detection_spec.custom_kinds))
        for finder in self.detection_spec.finders:
            finder.validate_settings()
        self.known_list_hash  # noqa: B018 - raises here if the list cannot be read
        settings = self.settings
        engine_args: dict[str, Any] = {
            "workers": settings.workers or os.cpu_count() or 1,
            "spill": self.workspace / "spill",
            "memory_limit": settings.memory_limit,
        }
        self.user_umask = self._stack.enter_context(vault.set_umask(0o077))  # workers inherit it
        if settings.engine == "spark":
            spark_session.validate_environment(settings.master, settings.remote)
        self.engine = LocalEngine(**engine_args)
        self._stack.callback(self.engine.close)
        # survey the inputs before anything is written, so that a mistake in them leaves no files behind
        if settings.append:
            vault.require_current_schema(self.workspace, read_json(self.workspace / "index.json"))
        closed_increments = (
            index_increments.parse_closed_increments(read_json(self.workspace / "index.json") or {}) if settings.append else ()
        )
        self.input_set = remote_input.list_inputs(self.given_inputs, self.workspace, len(closed_increments))
        self.input_paths = self.input_set.paths_to_read
        if not self.input_set.remote_roots and not self.settings.append:
            self._survey_inputs()
        quote_literal(escape_glob(str(self.workspace.resolve())))  # refuses a path that cannot be quoted for DuckDB
        vault.open_workspace(self.workspace)
        self._stack.enter_context(lock_workspace(self.workspace))
        self._stack.push(self._remove_unused_workspace)
        self._stack.callback(self._clean_up)
        failpoints.hit("workspace:created")
        vault.remove_leftovers(self.workspace)
        if settings.engine == "spark":  # only now: nothing before this line was written where another machine could see it
            self.engine = spark.SparkEngine(**engine_args, master=settings.master, remote=settings.remote)
        if self.input_set.remote_roots:
            with self.stage_costs.measure("fetch"), translate_disk_errors(self.workspace):
                self.input_set.mark_unchanged({sha256 for increment in closed_increments for _, sha256 in increment.files})
                self.input_set.fetch(self.settings.progress)
            self.input_paths = self.input_set.paths_to_read
            if not self.settings.append:
                self._survey_inputs()
        self.key = vault.load_key(self.workspace, key_file=self.settings.key_file, seed=self.settings.seed)
        if self.settings.append:
            with translate_disk_errors(self.workspace):
                self.prepare_append()
        if self.settings.sample < 1:
            self.survey = with_sample(self.survey, DocumentSample(self.settings.sample, self.key.subkey("sample")))
            self.notes.append(f"this is a sample of {self.settings.sample:.3g} of the documents (--sample)")

    def delete_fetched_inputs(self) -> None:
        """Delete the files that were fetched for a run; called after the run."""
        self.input_set.remove_fetched({path: sha256 for path, (_, sha256) in self.file_hashes.items()})

    def lock_output(self, output: Path) -> None:
        """Lock OUT until this command ends, and recover an interrupted publish. Of two runs with the same OUT the second fails here,
        even if each has its own WORK."""
        with translate_disk_errors(output.parent):
            with vault.set_umask(self.user_umask):
                output.parent.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(lock_output(output))
            recover_output(output)

    def build(self) -> dict[str, Any]:
        """Build the index, or reuse the existing one; returns its counts (the summary of `sanitize find`)."""
        earlier_index = self.load_or_discard_index()
        with translate_disk_errors(self.workspace):
            staged = self._read_inputs()
        with self.stage_costs.measure("read"), translate_disk_errors(self.workspace):
            self.documents = self._combine_documents(staged)
            quarantined = self._write_staging_quarantine()
        size, first_new_doc = self.settings.rows_per_shard, self.earlier_documents.count if self.closed_increments else 0
        task_starts = range(first_new_doc, self.documents.count, size)
        self.task_ranges = [
            *(self.earlier_task_ranges if self.closed_increments else ()),
            *((low, min(low + size, self.documents.count)) for low in task_starts),
        ]
        reused = bool(earlier_index.get("complete")) and earlier_index.get("fingerprint") == self.fingerprint
        self.write_index_json(is_complete=reused)
        failpoints.hit("detect:index_json_written")
        results = self.run_tasks(
            "find", [self._create_find_job(no, low, high, quarantined) for no, (low, high) in enumerate(self.task_ranges)]
        )
        self.notes += second_round_input.check_finders(self.detection_spec.finders, results, len(quarantined))
        if self.has_second_round:
            results = self._run_second_round(results, quarantined)
        self._text_bytes = {low: result["text_bytes"] for (low, _), result in zip(self.task_ranges, results, strict=True)}
        self.value_counts_file = self.workspace / "tables" / "value_counts" / "all.parquet"
        with self.stage_costs.measure("count"), translate_disk_errors(self.workspace):
            run_job(self._create_count_job())
            self.by_position = self._has_repeated_ids()
        self.check_inputs_unchanged()
        self.write_index_json(is_complete=True)
        failpoints.hit("detect:index_complete")
        self.quarantine = self._load_quarantine()
        self._check_quarantine_limit()
        by_kind, documents_by_kind = (_sum_counts(result[name] for result in results) for name in ("by_kind", "documents_by_kind"))
        return {
            "documents_in": self.documents.count,
            "quarantined": self.quarantine.num_rows,
            "occurrences": sum(by_kind.values()),
            "by_kind": by_kind,
            "documents_by_kind": documents_by_kind,
            # only of the files that this command read
            "text_bytes": sum(result["text_bytes"] for result in results[len(self.earlier_task_ranges) :]),
            "changed": not reused,
            "work": str(self.workspace),
            "key": "seed" if self.key.is_public else "secret",
            "notes": self.notes,
            "stages": self.stage_costs.costs,
        }

    def _combine_documents(self, staged: Mapping[int, Mapping[str, Any]]) -> Documents:
        """All documents: those of the closed increments, then those of this command's files."""
        if not self.closed_increments:
            return build_documents(self.survey, staged, self.workspace)
        sources = build_documents(self.survey, staged, self.workspace).files if self.survey.files else ()
        new_files = (replace(file, first_doc_no=file.first_doc_no + self.earlier_documents.count) for file in sources)
        return replace(self.earlier_documents, files=(*self.earlier_documents.files, *new_files))

    def _create_count_job(self) -> Job:
        def write_counts(task: FolderTask) -> dict[str, Any]:
            aggregates.write_value_counts(self.engine, self.task_files("tables", "partial_counts"), task.folder / "value_counts.parquet")
            return {}

        return Job(
            function=write_counts,
            task=FolderTask(self.workspace / "spill" / "count"),
            record_path=self.workspace / "tasks" / "count" / "value_counts.json",
            fingerprint=self.record_fingerprint("count", queries.get_query("value_counts").sql),
            outputs={"value_counts.parquet": self.value_counts_file},
        )

    def _has_repeated_ids(self) -> bool:
        """True if two documents share an id. Draws then depend on document positions; otherwise both would get the same variants."""
        if not any("doc_id" in source.columns for source in self.documents.files):
            return False
        table = vault.make_private_folder(self.workspace / "spill") / "repeated_ids.parquet"
        self.engine.sql(queries.get_query("repeated_ids").sql, {"document_ids": self.task_files("tables", "document_ids")}, table)
        repeated_count = pq.read_metadata(table).num_rows
        if repeated_count:
            self.notes.append(
                f"{repeated_count:,} ids belong to more than one document; draws depend on a document's position in the corpus instead"
            )
        return bool(repeated_count)

    def _read_inputs(self) -> dict[int, dict[str, Any]]:
        """Read all files completely; decode those that are not used in place. Returns the result of each decoded unit, by its number."""
        reading = SandboxedReader(
            survey=self.survey,
            named_inputs=tuple(map(str, self.input_paths)),
            workspace=self.workspace,
            fingerprint=self.record_fingerprint("read", str(self.survey.schema), *self.sample_fingerprint),
            max_doc_bytes=self.settings.max_doc_bytes,
            run_untrusted=self._run_untrusted,
            temporary_files=frozenset(str(path) for root in self.input_set.remote_roots for _, path in root.files),
        )
        self.survey, staged = reading.read()
        return staged

    def _run_untrusted(
        self, stage: str, function: Callable[[Any], Any], tasks: Sequence[Any], seconds: Callable[[Any], float]
    ) -> Iterator[tuple[int, TaskResult | WorkerDied]]:
        with self.stage_costs.measure("read") as cost:
            sizes = [input_bytes_of_task(task) for task in tasks]
            progress = ProgressUpdate(stage=stage, total_tasks=len(tasks), total_bytes=sum(sizes))
            if stage and tasks:
                self.settings.progress(progress)
            outcomes = self.engine.map_untrusted(function, tasks, time_limit=seconds, memory_bytes=self.settings.reading_memory_bytes)
            for number, (task_no, outcome) in enumerate(outcomes):
                if isinstance(outcome, TaskResult):
                    cost["cpu_s"] += outcome.cpu_s
                    cost["peak_rss_mb"] = max(cost["peak_rss_mb"], outcome.peak_rss_mb)
                    rows = outcome.result.get("rows", 0) if isinstance(outcome.result, dict) else 0
                    progress = replace(progress, documents=progress.documents + rows, peak_rss_mb=cost["peak_rss_mb"])
                progress = replace(progress, tasks_done=number + 1, bytes=progress.bytes + sizes[task_no])
                if stage:
                    self.settings.progress(progress)
                yield task_no, outcome

    def _create_find_job(self, task_no: int, low: int, high: int, quarantined: list[int]) -> Job:
        """The find job of one task. If there is a second round, tables that the second round rewrites are written to `first_round/`."""
        name = f"{task_no:05d}.parquet"
        first_folder = "first_round" if self.has_second_round else "tables"
        outputs = {
            "occurrences.parquet": self.workspace / first_folder / "occurrences" / name,
            "partial_counts.parquet": self.workspace / first_folder / "partial_counts" / name,
            "document_ids.parquet": self.workspace / "tables" / "document_ids" / name,
            "skipped.parquet": self.workspace / first_folder / "skipped" / name,
            "values.parquet": self.workspace / "vault" / ("first_round/values" if self.has_second_round else "values") / name,
            "quarantine.parquet": self.workspace / "quarantine" / "detect" / name,
        }
        if self.has_second_round:
            outputs["links.parquet"] = self.workspace / "first_round" / "links" / name
        return Job(
            function=detection.find_task,
            task=self._create_find_task(task_no, low, high, quarantined, f"detect-{task_no}"),
            record_path=self.workspace / "tasks" / "detect" / f"{task_no:05d}.json",
            fingerprint=self.record_fingerprint("find", increment_index=self.find_increment_index(task_no)),
            outputs=outputs,
            was_published=self.find_increment_index(task_no) < len(self.closed_increments),
        )

    def _create_find_task(self, task_no: int, low: int, high: int, quarantined: Sequence[int], spill: str) -> detection.FindTask:
        return detection.FindTask(
            no=task_no,
            first_doc_no=low,
            end_doc_no=high,
            documents=self.documents,
            leaves=self.leaves,
            key=self.key,
            max_doc_bytes=self.settings.max_doc_bytes,
            output_columns=tuple(name for name, policy in self.policies.items() if policy != "drop"),
            quarantined_docs=tuple(row for row in quarantined if low <= row < high),
            folder=self.workspace / "spill" / spill,
            detection_spec=self.detection_spec,
        )

    def _run_second_round(self, results: Sequence[dict[str, Any]], quarantined: list[int]) -> list[dict[str, Any]]:
        """Gather the values of the first round and search all documents again with them; returns the merged results of both rounds, one
        per task."""
        suffix = f"-{len(self.increments):04d}" if len(self.increments) > 1 else ""
        forms_file, entities_file = (
            self.workspace / "vault" / "first_round" / f"known_terms{suffix}.parquet",
            self.workspace / "first_round" / f"entities{suffix}.parquet",
        )
        gather = second_round_input.GatherTask(
            occurrence_files=tuple(self.task_files("first_round", "occurrences")),
            value_files=tuple(self.task_files("vault", "first_round", "values")),
            link_files=tuple(self.task_files("first_round", "links")),
            known_values_file=self.settings.known,
            key=self.key,
            folder=self.workspace / "spill" / "second_round_input",
        )
        with self.stage_costs.measure("known"), translate_disk_errors(self.workspace):
            run_job(
                Job(
                    function=second_round_input.gather_task,
                    task=gather,
                    record_path=self.workspace / "tasks" / "second_round" / f"input{suffix}.json",
                    fingerprint=self.record_fingerprint("known"),
                    outputs={"entities.parquet": entities_file, "known_terms.parquet": forms_file},
                    was_published=len(self.closed_increments) == len(self.increments),
                )
            )
        failpoints.hit("detect:second_round_input_written")
        jobs = []
        for no, (low, high) in enumerate(self.task_ranges):
            name = f"{no:05d}.parquet"
            first_round = detection.FirstRoundFiles(
                occurrences=gather.occurrence_files[no],
                values=gather.value_files[no],
                skipped=self.workspace / "first_round" / "skipped" / name,
                entities=entities_file,
                second_round_input=forms_file,
            )
            quarantine_rows = pq.read_table(self.workspace / "quarantine" / "detect" / name, columns=["doc_no"], partitioning=None)
            task = self._create_find_task(
                no, low, high, sorted({*quarantined, *quarantine_rows.column("doc_no").to_pylist()}), f"second_round-{no}"
            )
            outputs = {
                "occurrences.parquet": self.workspace / "tables" / "occurrences" / name,
                "partial_counts.parquet": self.workspace / "tables" / "partial_counts" / name,
                "skipped.parquet": self.workspace / "tables" / "skipped" / name,
                "values.parquet": self.workspace / "vault" / "values" / name,
            }
            jobs.append(
                Job(
                    function=detection.second_round_task,
                    task=replace(task, first_round=first_round),
                    record_path=self.workspace / "tasks" / "second_round" / f"{no:05d}.json",
                    fingerprint=self.record_fingerprint("known", increment_index=self.find_increment_index(no)),
                    outputs=outputs,
                    was_published=self.find_increment_index(no) < len(self.closed_increments),
                )
            )
        return [{**first, **second} for first, second in zip(results, self.run_tasks("known", jobs), strict=True)]

    def _write_staging_quarantine(self) -> list[int]:
        """Write the documents that staging could not read to the table `quarantine`, one file per increment; returns their `doc_no`."""
        rows: list[tuple[Any, ...]] = []
        sources = self.documents.files
        for unit, source in zip(self.survey.units, sources[len(sources) - len(self.survey.units) :], strict=True):
            if not unit.in_place:
                tables = pq.read_table(self.workspace / "documents" / "quarantined" / f"{unit.no:05d}.parquet", partitioning=None)
                rows += [(source.first_doc_no + row["row"], row["source"], row["location"], row["reason"]) for row in tables.to_pylist()]

        def write_quarantine(task: FolderTask) -> dict[str, Any]:
            write_table_rows(task.folder / "quarantine.parquet", table_schemas.QUARANTINE.schema, rows)
            return {}

        if len(self.increments) > len(self.closed_increments):
            run_job(
                Job(
                    function=write_quarantine,
                    task=FolderTask(self.workspace / "spill" / "quarantined"),
                    record_path=self.workspace
                    / "tasks"
                    / "read"
                    / (f"quarantined-{len(self.increments):04d}.json" if self.closed_increments else "quarantined.json"),
                    fingerprint=self.record_fingerprint("read", table_schemas.VERSION, rows),
                    outputs={"quarantine.parquet": self._list_staging_quarantine_files()[-1]},
                )
            )
        tables = [pq.read_table(path, columns=["doc_no"], partitioning=None) for path in self._list_staging_quarantine_files()]
        return [int(no) for no in pa.concat_tables(tables).column("doc_no").to_pylist()]

    def _list_staging_quarantine_files(self) -> list[Path]:
        return [self.workspace / "quarantine" / "read" / f"{no:05d}.parquet" for no in range(len(self.increments))]

    def _load_quarantine(self) -> pa.Table:
        files = [*self._list_staging_quarantine_files(), *self.task_files("quarantine", "detect")]
        return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]).sort_by("doc_no")

    def _check_quarantine_limit(self) -> None:
        quarantine, total = self.quarantine, max(self.documents.count, 1)
        if self.closed_increments:  # only of the new documents, so that earlier good increments cannot hide a bad one
            total = max(self.documents.count - self.earlier_documents.count, 1)
            quarantine = quarantine.filter(pc.greater_equal(quarantine.column("doc_no"), self.earlier_documents.count))
        count = quarantine.num_rows
        limit = 0.0 if self.settings.strict else self.settings.max_quarantine
        if count > limit * total:
            reasons = ", ".join(f"{entry['counts']} {entry['values']}" for entry in quarantine.column("reason").value_counts().to_pylist())
            option = "--strict allows none" if self.settings.strict else f"--max-quarantine allows {limit:.0%}"
            raise QuarantineExceeded(
                f"{count} of {total} records were quarantined ({reasons}); {option}. "
                f"To see where they are: sanitize sql {self.workspace} --name quarantine_by_reason"
            )

    def run_tasks(self, stage: str, tasks: Sequence[Any], function: Callable[[Any], dict[str, Any]] = run_job) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = [{}] * len(tasks)
        with self.stage_costs.measure(stage) as cost:
            ranges = [_get_doc_range(task) for task in tasks]
            text_bytes = self._text_bytes if all(low in self._text_bytes for low, _ in ranges) else {}
            progress = ProgressUpdate(
                stage=stage,
                total_tasks=len(tasks),
                total_documents=sum(high - low for low, high in ranges),
                total_bytes=sum(text_bytes.get(low, 0) for low, _ in ranges),
            )
            self.settings.progress(progress)
            runs_in_process = self.engine.runs_in_process(len(tasks))
            for number, finished in enumerate(self.engine.map_shards(function, tasks)):
                results[finished.task_no] = finished.result
                cost["cpu_s"] += 0.0 if runs_in_process else finished.cpu_s
                cost["peak_rss_mb"] = max(cost["peak_rss_mb"], finished.peak_rss_mb)
                low, high = ranges[finished.task_no]
                progress = replace(
                    progress,
                    tasks_done=number + 1,
                    documents=progress.documents + high - low,
                    bytes=progress.bytes + (text_bytes.get(low, 0) or _get_count(finished.result, "text_bytes")),
                    occurrences=progress.occurrences + (sum(finished.result["by_kind"].values()) if stage in ("find", "known") else 0),
                    peak_rss_mb=cost["peak_rss_mb"],
                )
                self.settings.progress(progress)
        return results

    def check_inputs_unchanged(self) -> None:
        """Raise InputRefused if an input file changed while it was being read; deletes what was read of the inputs."""
        for no, (path, _) in enumerate(self.survey.files):
            if stat_file(path) != self.file_hashes[path][0] and (
                not Path(path).is_file() or file_sha256(Path(path)) != self.input_hashes[no]
            ):
                if self.closed_increments:
                    self.discard_open_increment()
                for name in () if self.closed_increments else ("index.json", "tasks", "runs"):
                    (self.workspace / name).unlink() if (self.workspace / name).is_file() else shutil.rmtree(
                        self.workspace / name, ignore_errors=True
                    )
                raise InputRefused(
                    f"file {no + 1} of the input changed while it was being read; nothing was published. "
                    "Run the same command again when no program writes to it"
                )
        self.input_set.check_unchanged()

    def _estimate_disk_bytes(self) -> int:
        """An estimate of the bytes that a run over this input needs in WORK and OUT together."""
        return sum(
            int(size * (_DISK_BYTES_PER_COMPRESSED_BYTE if _is_compressed(path) else _DISK_BYTES_PER_INPUT_BYTE))
            for path, size in self.survey.files
        )


def _get_doc_range(task: Any) -> tuple[int, int]:
    """The documents of a task as (first doc_no, last + 1); (0, 0) if it has none."""
    inner = task.task if isinstance(task, Job) else task
    return getattr(inner, "first_doc_no", 0), getattr(inner, "end_doc_no", 0)


def _get_count(result: object, name: str) -> int:
    return int(result.get(name, 0)) if isinstance(result, Mapping) else 0


def _is_compressed(path: str) -> bool:
    return path.endswith((".parquet", ".gz", ".zst"))


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for entry in counts:
        total.update(entry)
    return dict(sorted(total.items()))
