"""Builds the index of a corpus in WORK: reads the files, finds every occurrence and counts them;
reuses an index that is up to date.

    read -> detect -> aggregate

If a finder needs the occurrences of the whole corpus (`known`), detection has two rounds; between
them the values of the first round are gathered.

Tasks are fixed ranges of `doc_no`; each leaves files and a record, so that the same command resumes
where it was stopped.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core import failpoints
from sanitize.core.command_results import IndexResult, StageCost
from sanitize.engines import spark, spark_session
from sanitize.engines.local import LocalEngine
from sanitize.engines.task_runner import FolderTask, TaskRunner
from sanitize.errors import (
    QuarantineExceeded,
    ResourceError,
    SanitizeError,
    UsageError,
    internal_error,
)
from sanitize.kinds.kind import custom_kinds
from sanitize.pipeline.indexing import index_increments, index_reuse, kept_columns, quarantine_limit
from sanitize.pipeline.indexing.index_state import IndexState
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.plan import Plan
from sanitize.plans.settings import Settings
from sanitize.readers import remote_input
from sanitize.readers.sandbox import SandboxedReader, input_bytes_of_task, survey_in_sandbox
from sanitize.readers.staging import build_documents
from sanitize.readers.survey import DocumentSample, IndexedInput, Survey, with_sample
from sanitize.stages import aggregates, detection, second_round_input
from sanitize.storage import private_folder, queries, table_schemas
from sanitize.storage.corpus import DocumentFile, Documents
from sanitize.storage.disk_errors import (
    DISK_ERRNOS,
    explain_access_error,
    get_disk_errno,
    make_disk_error,
    translate_disk_errors,
)
from sanitize.storage.files import read_json
from sanitize.storage.locks import lock_output, lock_workspace
from sanitize.storage.parquet_files import write_table_rows
from sanitize.storage.publication import recover_output
from sanitize.storage.task_records import Job, run_job
from sanitize.storage.views import escape_glob, quote_literal
from sanitize.verification.attribution import find_renamed_columns

# bytes that a run needs in WORK and OUT for each byte of input, measured on mail, logs and prose;
# compressed inputs are decompressed
_DISK_BYTES_PER_INPUT_BYTE, _DISK_BYTES_PER_COMPRESSED_BYTE = 1.0, 4.0


class IndexBuilder:
    """Builds or reuses the index of one WORK folder for one command. A context manager; holds the
    lock of WORK until it exits."""

    def __init__(
        self,
        inputs: Sequence[Path | str],
        workspace: Path,
        settings: Settings,
        detection_spec: DetectionSpec = DetectionSpec(),  # noqa: B008 - frozen
        *,
        keep_input: bool = False,
        held_locks: Collection[str] = (),
    ) -> None:
        """`detection_spec` comes from the plan: an index that was built with another one is
        rebuilt. With `keep_input`, `replace` replaces OUT and not the index of another input.
        `held_locks`: the real paths of the folders, WORK or OUT, whose locks the caller holds."""
        self._held_locks = held_locks
        self.state = IndexState(inputs, workspace, settings, detection_spec)
        self.state.keep_input = keep_input
        self.tasks = TaskRunner(
            LocalEngine(**self._engine_settings()), workspace, settings.progress
        )
        self._stack = contextlib.ExitStack()

    def _engine_settings(self) -> dict[str, Any]:
        settings = self.state.settings
        return {
            "workers": settings.workers or os.cpu_count() or 1,
            "spill": self.state.workspace / "spill",
            "memory_limit": settings.memory_limit,
        }

    def __enter__(self) -> IndexBuilder:
        self._is_new_workspace = not self.state.workspace.exists()
        try:
            with translate_disk_errors(self.state.workspace.parent):
                self._start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        reported: BaseException | None = error
        if isinstance(error, Exception) and (code := get_disk_errno(error)) is not None:
            reported = make_disk_error(self.state.workspace, code)  # outside of any task
        if (
            isinstance(reported, ResourceError)
            and reported.is_disk_error
            and hasattr(self.state, "survey")
        ):
            reported = reported.with_required_bytes(self._estimate_disk_bytes())
        elif isinstance(reported, Exception) and not isinstance(reported, SanitizeError):
            reported = internal_error(reported)
        if reported is not None and reported is not error:
            raise reported from None

    def _remove_unused_workspace(self, kind: type[BaseException] | None, *_: object) -> None:
        """After an error, delete a new WORK that holds nothing a second try could use. Its lock is
        still held."""
        if (
            kind is not None
            and self._is_new_workspace
            and not any(
                (self.state.workspace / name).exists() for name in ("index.json", "fetched")
            )
        ):
            shutil.rmtree(self.state.workspace, ignore_errors=True)

    def _clean_up(self) -> None:
        """Close the engine and delete leftovers of unfinished tasks. Called by the holder of WORK's
        lock after all work has ended."""
        self.tasks.engine.close()
        private_folder.remove_leftovers(self.state.workspace)

    def _survey_inputs(self, earlier: IndexedInput | None = None) -> Survey:
        """Survey the inputs; with `earlier`, only the files that an append adds to them."""
        state = self.state
        with self.tasks.costs.measure("read"), state.input_set.errors_with_urls():
            settings = state.settings
            return survey_in_sandbox(
                self.tasks.engine,
                state.input_paths,
                settings.columns.roles,
                settings.reading_memory_bytes,
                settings.max_doc_bytes,
                earlier,
            )

    def _start(self) -> None:
        """Open WORK: survey the inputs, lock the folder, load the key, start the engine."""
        state = self.state
        if state.settings.append and not (state.workspace / "index.json").is_file():
            raise UsageError(
                f"{state.workspace}: holds no index to append to. To publish these inputs for the"
                " first time, run the same command without --append; to add them to what is"
                " published, give its -o and --work"
            )
        self._stack.enter_context(custom_kinds(state.detection_spec.custom_kinds))
        for finder in state.detection_spec.finders:
            finder.validate_settings()
        state.known_list_hash  # noqa: B018 - raises here if the list cannot be read
        settings = state.settings
        # workers inherit it
        state.user_umask = self._stack.enter_context(private_folder.set_umask(0o077))
        if settings.engine == "spark":
            spark_session.validate_environment(settings.master, settings.remote)
        self._stack.callback(self.tasks.engine.close)
        # survey the inputs before anything is written, so that a mistake in them leaves no files
        # behind
        if settings.append:
            private_folder.require_current_index(
                state.workspace, read_json(state.workspace / "index.json")
            )
        closed_increments = (
            index_increments.parse_closed_increments(
                read_json(state.workspace / "index.json") or {}
            )
            if settings.append
            else ()
        )
        state.input_set = remote_input.list_inputs(
            state.given_inputs, state.workspace, len(closed_increments)
        )
        state.input_paths = state.input_set.paths_to_read
        if not state.input_set.remote_roots and not state.settings.append:
            state.set_survey(self._survey_inputs())
        # refuses a path that cannot be quoted for DuckDB
        quote_literal(escape_glob(str(state.workspace.resolve())))
        private_folder.open_workspace(state.workspace)
        if os.path.realpath(state.workspace) not in self._held_locks:
            self._stack.enter_context(lock_workspace(state.workspace))
        self._stack.push(self._remove_unused_workspace)
        self._stack.callback(self._clean_up)
        failpoints.hit("workspace:created")
        private_folder.remove_leftovers(state.workspace)
        if settings.engine == "spark":
            # only now: nothing before this line was written where another machine could see it
            self.tasks.engine = spark.SparkEngine(
                **self._engine_settings(), master=settings.master, remote=settings.remote
            )
        if state.input_set.remote_roots:
            with self.tasks.measure("fetch"):
                state.input_set.mark_unchanged(
                    {sha256 for increment in closed_increments for _, sha256 in increment.files}
                )
                state.input_set.fetch(state.settings.progress)
            state.input_paths = state.input_set.paths_to_read
            if not state.settings.append:
                state.set_survey(self._survey_inputs())
        state.key = private_folder.load_key(
            state.workspace, key_file=state.settings.key, seed=state.settings.seed
        )
        if state.settings.append:
            with self.tasks.measure("read"), state.input_set.errors_with_urls():
                index_reuse.prepare_append(state, self._survey_inputs)
        if count := state.survey.files_without_split:
            state.notes.append(
                f"files in train whose paths name no split: {count:,} (known are train, validation,"
                " test)"
            )
        if state.settings.sample < 1:
            state.survey = with_sample(
                state.survey, DocumentSample(state.settings.sample, state.key.subkey("sample"))
            )
            state.notes.append(
                f"this is a sample of {state.settings.sample:.3g} of the documents (--sample)"
            )

    def delete_fetched_inputs(self) -> None:
        """Delete the files that were fetched for a run; called after the run."""
        self.state.input_set.remove_fetched(
            {path: sha256 for path, (_, sha256) in self.state.file_hashes.items()}
        )

    def lock_output(self, output: Path) -> None:
        """Lock OUT until this command ends, and recover an interrupted publish. Of two runs with
        the same OUT the second fails here, even if each has its own WORK."""
        with translate_disk_errors(output.parent):
            try:
                with private_folder.set_umask(self.state.user_umask):
                    output.parent.mkdir(parents=True, exist_ok=True)
                if os.path.realpath(output) not in self._held_locks:
                    self._stack.enter_context(lock_output(output))
            except OSError as error:
                if error.errno in DISK_ERRNOS and error.errno != errno.EROFS:
                    raise
                reason = explain_access_error(output, error)
                raise UsageError(
                    f"{output}: no folder can be created there: {reason}; use another -o"
                ) from None
            recover_output(output)

    def build(self, plan: Plan | None = None) -> IndexResult:
        """Build the index, or reuse the existing one; returns its counts (the summary of `sanitize
        index`). With the plan of a run, columns that its output keeps are searched before detection
        (kept_columns.py), which may raise LeakFound."""
        state = self.state
        earlier_index = index_reuse.load_or_discard_index(state)
        with translate_disk_errors(state.workspace):
            staged = self._read_inputs()
        with self.tasks.measure("read"):
            state.documents = self._combine_documents(staged)
            quarantined = self._write_staging_quarantine()
        size, first_new_doc = (
            state.settings.rows_per_shard,
            state.earlier_documents.count if state.closed_increments else 0,
        )
        new_files = [file for file in state.documents.files if file.first_doc_no >= first_new_doc]
        state.task_ranges = [
            *(state.earlier_task_ranges if state.closed_increments else ()),
            *cut_tasks(new_files, size),
        ]
        reused = (
            bool(earlier_index.get("complete"))
            and earlier_index.get("fingerprint") == state.fingerprint
        )
        state.write_index_json(is_complete=reused)
        failpoints.hit("detect:index_json_written")
        # a file that vanished would stay quarantined when the command is run again
        index_reuse.check_inputs_unchanged(state)
        # detection only adds to what reading quarantined, so a run over the limit stops here
        self._check_quarantine_limit(
            pa.concat_tables(
                [
                    pq.read_table(path, partitioning=None)
                    for path in self._list_staging_quarantine_files()
                ]
            )
        )
        if plan is not None:
            state.kept_values = self._check_kept_columns(plan, quarantined)
        results = self.tasks.run(
            "detect",
            [
                self._create_find_job(no, low, high, quarantined)
                for no, (low, high) in enumerate(state.task_ranges)
            ],
        )
        state.notes += second_round_input.check_finders(
            state.detection_spec.finders, results, len(quarantined)
        )
        if state.has_second_round:
            results = self._run_second_round(results, quarantined)
        self.tasks.set_text_bytes(state.task_ranges, results)
        state.value_counts_file = state.workspace / "tables" / "value_counts" / "all.parquet"
        with self.tasks.measure("aggregate"):
            run_job(self._create_count_job())
            state.has_repeated_ids = self._has_repeated_ids()
        index_reuse.check_inputs_unchanged(state)
        state.write_index_json(is_complete=True)
        failpoints.hit("detect:index_complete")
        state.quarantine = self._load_quarantine()
        self._check_quarantine_limit(state.quarantine)
        by_kind, documents_by_kind = (
            _sum_counts(result[name] for result in results)
            for name in ("by_kind", "documents_by_kind")
        )
        return IndexResult(
            documents_in=state.documents.count,
            quarantined=state.quarantine.num_rows,
            occurrences=sum(by_kind.values()),
            by_kind=by_kind,
            documents_by_kind=documents_by_kind,
            # only of the files that this command read
            text_bytes=sum(
                result["text_bytes"] for result in results[len(state.earlier_task_ranges) :]
            ),
            changed=not reused,
            work=str(state.workspace),
            key="seed" if state.key.is_public else "secret",
            notes=state.notes,
            stages={stage: StageCost(**cost) for stage, cost in self.tasks.costs.costs.items()},
        )

    def _combine_documents(self, staged: Mapping[int, Mapping[str, Any]]) -> Documents:
        """All documents: those of the closed increments, then those of this command's files."""
        state = self.state
        if not state.closed_increments:
            return build_documents(state.survey, staged, state.workspace)
        sources = (
            build_documents(state.survey, staged, state.workspace).files
            if state.survey.files
            else ()
        )
        new_files = (
            replace(file, first_doc_no=file.first_doc_no + state.earlier_documents.count)
            for file in sources
        )
        return replace(state.earlier_documents, files=(*state.earlier_documents.files, *new_files))

    def _create_count_job(self) -> Job:
        state = self.state

        def write_counts(task: FolderTask) -> dict[str, Any]:
            aggregates.write_value_counts(
                self.tasks.engine,
                state.task_files("tables", "partial_counts"),
                task.folder / "value_counts.parquet",
            )
            return {}

        return Job(
            function=write_counts,
            task=FolderTask(state.workspace / "spill" / "count"),
            record_path=state.workspace / "tasks" / "count" / "value_counts.json",
            fingerprint=state.record_fingerprint("count", queries.get_query("value_counts").sql),
            outputs={"value_counts.parquet": state.value_counts_file},
        )

    def _has_repeated_ids(self) -> bool:
        """True if two documents share an id. Draws then depend on document positions; otherwise
        both would get the same variants."""
        state = self.state
        if not any("doc_id" in source.columns for source in state.documents.files):
            return False
        table = (
            private_folder.make_private_folder(state.workspace / "spill")
            / "repeated_document_ids.parquet"
        )
        self.tasks.engine.sql(
            queries.get_query("repeated_document_ids").sql,
            {"document_ids": state.task_files("tables", "document_ids")},
            table,
        )
        repeated_count = pq.read_metadata(table).num_rows
        if repeated_count:
            state.notes.append(
                f"{repeated_count:,} ids belong to more than one document; draws depend on a"
                " document's position in the corpus instead"
            )
        return bool(repeated_count)

    def _read_inputs(self) -> dict[int, dict[str, Any]]:
        """Read all files completely; decode those that are not used in place. Returns the result of
        each decoded unit, by its number."""
        state = self.state
        reading = SandboxedReader(
            survey=state.survey,
            named_inputs=tuple(map(str, state.input_paths)),
            workspace=state.workspace,
            fingerprint=state.record_fingerprint(
                "read", str(state.survey.schema), *state.sample_fingerprint
            ),
            max_doc_bytes=state.settings.max_doc_bytes,
            run_untrusted=functools.partial(
                self.tasks.run_untrusted,
                memory_bytes=state.settings.reading_memory_bytes,
                task_bytes=input_bytes_of_task,
            ),
            temporary_files=frozenset(
                str(path) for root in state.input_set.remote_roots for _, path in root.files
            ),
        )
        state.survey, staged = reading.read()
        return staged

    def _create_find_job(self, task_no: int, low: int, high: int, quarantined: list[int]) -> Job:
        """The find job of one task. If there is a second round, tables that the second round
        rewrites are written to `first_round/`."""
        state = self.state
        name = f"{task_no:05d}.parquet"
        first_folder = "first_round" if state.has_second_round else "tables"
        outputs = {
            "occurrences.parquet": state.workspace / first_folder / "occurrences" / name,
            "partial_counts.parquet": state.workspace / first_folder / "partial_counts" / name,
            "document_ids.parquet": state.workspace / "tables" / "document_ids" / name,
            "skipped.parquet": state.workspace / first_folder / "skipped" / name,
            "values.parquet": (
                state.workspace
                / "vault"
                / ("first_round/values" if state.has_second_round else "values")
                / name
            ),
            "quarantine.parquet": state.workspace / "quarantine" / "detect" / name,
        }
        if state.has_second_round:
            outputs["links.parquet"] = state.workspace / "first_round" / "links" / name
        return Job(
            function=detection.find_task,
            task=self._create_find_task(low, high, quarantined, f"detect-{task_no}"),
            record_path=state.workspace / "tasks" / "detect" / f"{task_no:05d}.json",
            fingerprint=state.record_fingerprint(
                "find", increment_index=state.find_increment_index(task_no)
            ),
            outputs=outputs,
            was_published=state.find_increment_index(task_no) < len(state.closed_increments),
        )

    def _create_find_task(
        self, low: int, high: int, quarantined: Sequence[int], spill: str
    ) -> detection.FindTask:
        state = self.state
        return detection.FindTask(
            first_doc_no=low,
            end_doc_no=high,
            documents=state.documents,
            leaves=state.leaves,
            key=state.key,
            max_doc_bytes=state.settings.max_doc_bytes,
            max_doc_matches=state.settings.max_doc_matches,
            output_columns=tuple(
                name for name, policy in state.policies.items() if policy != "drop"
            ),
            quarantined_docs=tuple(row for row in quarantined if low <= row < high),
            folder=state.workspace / "spill" / spill,
            detection_spec=state.detection_spec,
        )

    def _check_kept_columns(self, plan: Plan, quarantined: list[int]) -> list[dict[str, Any]]:
        """Search the columns that the output keeps, and all names; returns the decisions for the
        manifest, or raises LeakFound. An append searches only its own documents: the files of
        earlier increments may be missing now."""
        state = self.state
        first_task = len(state.earlier_task_ranges) if state.closed_increments else 0
        task_nos = range(first_task, len(state.task_ranges))
        tasks = [
            self._create_find_task(*state.task_ranges[task_no], quarantined, f"columns-{task_no}")
            for task_no in task_nos
        ]
        leaves = kept_columns.kept_leaves(state.survey.schema, state.policies)
        if tasks:
            kept_columns.check_names(
                state.survey.schema, state.policies, plan, tasks[0], state.survey.features
            )
        if fields := kept_columns.list_person_fields(state.leaves):
            state.notes.append(
                f"{', '.join(fields)}: named like fields that name people. They are searched like"
                " any text: a user name alone is not found"
            )
        candidates: tuple[str, ...] = ()
        if not state.closed_increments:  # the columns of an append are decided by the first run
            decided = {*state.settings.columns.policies, state.leaves[0].column}
            candidates = kept_columns.list_person_candidates(
                state.survey.schema, state.policies, decided
            )
        if not leaves and not candidates:
            return []
        jobs = [
            Job(
                function=detection.find_in_columns_task,
                task=replace(task, leaves=leaves, person_columns=candidates),
                record_path=state.workspace / "tasks" / "columns" / f"{task_no:05d}.json",
                fingerprint=state.record_fingerprint(
                    "find", "columns", [str(leaf) for leaf in leaves], candidates
                ),
                outputs={},
            )
            for task_no, task in zip(task_nos, tasks, strict=True)
        ]
        renamed_columns = find_renamed_columns(asdict(state.settings.columns.roles))
        results = self.tasks.run("columns", jobs)
        kept_columns.refuse_person_columns(results, candidates)
        return kept_columns.decide(results, leaves, plan, renamed_columns)

    def _run_second_round(
        self, results: Sequence[dict[str, Any]], quarantined: list[int]
    ) -> list[dict[str, Any]]:
        """Gather the values of the first round and search all documents again with them; returns
        the merged results of both rounds, one per task."""
        state = self.state
        suffix = f"-{len(state.increments):04d}" if len(state.increments) > 1 else ""
        forms_file, entities_file = (
            state.workspace / "vault" / "first_round" / f"known_terms{suffix}.parquet",
            state.workspace / "first_round" / f"entities{suffix}.parquet",
        )
        gather = second_round_input.GatherTask(
            occurrence_files=tuple(state.task_files("first_round", "occurrences")),
            value_files=tuple(state.task_files("vault", "first_round", "values")),
            link_files=tuple(state.task_files("first_round", "links")),
            known_values_file=state.settings.known,
            key=state.key,
            folder=state.workspace / "spill" / "second_round_input",
        )
        with self.tasks.measure("second_round"):
            run_job(
                Job(
                    function=second_round_input.gather_task,
                    task=gather,
                    record_path=state.workspace / "tasks" / "second_round" / f"input{suffix}.json",
                    fingerprint=state.record_fingerprint("known"),
                    outputs={"entities.parquet": entities_file, "known_terms.parquet": forms_file},
                    was_published=len(state.closed_increments) == len(state.increments),
                )
            )
        failpoints.hit("detect:second_round_input_written")
        jobs = []
        for no, (low, high) in enumerate(state.task_ranges):
            name = f"{no:05d}.parquet"
            first_round = detection.FirstRoundFiles(
                occurrences=gather.occurrence_files[no],
                values=gather.value_files[no],
                skipped=state.workspace / "first_round" / "skipped" / name,
                entities=entities_file,
                second_round_input=forms_file,
            )
            quarantine_rows = pq.read_table(
                state.workspace / "quarantine" / "detect" / name,
                columns=["doc_no"],
                partitioning=None,
            )
            task = self._create_find_task(
                low,
                high,
                sorted({*quarantined, *quarantine_rows.column("doc_no").to_pylist()}),
                f"second_round-{no}",
            )
            outputs = {
                "occurrences.parquet": state.workspace / "tables" / "occurrences" / name,
                "partial_counts.parquet": state.workspace / "tables" / "partial_counts" / name,
                "skipped.parquet": state.workspace / "tables" / "skipped" / name,
                "values.parquet": state.workspace / "vault" / "values" / name,
            }
            jobs.append(
                Job(
                    function=detection.second_round_task,
                    task=replace(task, first_round=first_round),
                    record_path=state.workspace / "tasks" / "second_round" / f"{no:05d}.json",
                    fingerprint=state.record_fingerprint(
                        "known", increment_index=state.find_increment_index(no)
                    ),
                    outputs=outputs,
                    was_published=state.find_increment_index(no) < len(state.closed_increments),
                )
            )
        return [
            {**first, **second}
            for first, second in zip(results, self.tasks.run("second_round", jobs), strict=True)
        ]

    def _write_staging_quarantine(self) -> list[int]:
        """Write the documents that staging could not read to the table `quarantine`, one file per
        increment; returns their `doc_no`."""
        state = self.state
        rows: list[tuple[Any, ...]] = []
        sources = state.documents.files
        for unit, source in zip(
            state.survey.units, sources[len(sources) - len(state.survey.units) :], strict=True
        ):
            if not unit.in_place:
                tables = pq.read_table(
                    state.workspace / "documents" / "quarantined" / f"{unit.no:05d}.parquet",
                    partitioning=None,
                )
                rows += [
                    (
                        source.first_doc_no + row["row"],
                        row["source"],
                        row["location"],
                        row["reason"],
                    )
                    for row in tables.to_pylist()
                ]

        def write_quarantine(task: FolderTask) -> dict[str, Any]:
            write_table_rows(
                task.folder / "quarantine.parquet", table_schemas.QUARANTINE.schema, rows
            )
            return {}

        if len(state.increments) > len(state.closed_increments):
            run_job(
                Job(
                    function=write_quarantine,
                    task=FolderTask(state.workspace / "spill" / "quarantined"),
                    record_path=state.workspace
                    / "tasks"
                    / "read"
                    / (
                        f"quarantined-{len(state.increments):04d}.json"
                        if state.closed_increments
                        else "quarantined.json"
                    ),
                    fingerprint=state.record_fingerprint("read", table_schemas.VERSION, rows),
                    outputs={"quarantine.parquet": self._list_staging_quarantine_files()[-1]},
                )
            )
        tables = [
            pq.read_table(path, columns=["doc_no"], partitioning=None)
            for path in self._list_staging_quarantine_files()
        ]
        return [int(no) for no in pa.concat_tables(tables).column("doc_no").to_pylist()]

    def _list_staging_quarantine_files(self) -> list[Path]:
        return [
            self.state.workspace / "quarantine" / "read" / f"{no:05d}.parquet"
            for no in range(len(self.state.increments))
        ]

    def _load_quarantine(self) -> pa.Table:
        files = [
            *self._list_staging_quarantine_files(),
            *self.state.task_files("quarantine", "detect"),
        ]
        return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]).sort_by(
            "doc_no"
        )

    def _check_quarantine_limit(self, quarantine: pa.Table) -> None:
        """Raises QuarantineExceeded if the rows of `quarantine` are more than the limit allows, by
        records or by bytes of files."""
        state = self.state
        total = max(state.documents.count, 1)
        if state.closed_increments:
            # only of the new documents, so that earlier good increments cannot hide a bad one
            total = max(state.documents.count - state.earlier_documents.count, 1)
            quarantine = quarantine.filter(
                pc.greater_equal(quarantine.column("doc_no"), state.earlier_documents.count)
            )
        loss = quarantine_limit.measure_loss(state.survey, quarantine, total)
        limit = 0.0 if state.settings.strict else state.settings.max_quarantine
        if loss.exceeds(limit):
            option = (
                "--strict allows none"
                if state.settings.strict
                else f"--max-quarantine allows {limit:.0%}"
            )
            raise QuarantineExceeded(
                f"{loss.describe()}; {option}. {loss.suggest_remedy(state.settings.strict)} "
                f"To see where they are: sanitize sql {state.workspace} --name quarantine_by_reason"
            )

    def _estimate_disk_bytes(self) -> int:
        """An estimate of the bytes that a run over this input needs in WORK and OUT together."""
        return sum(
            int(
                size
                * (
                    _DISK_BYTES_PER_COMPRESSED_BYTE
                    if _is_compressed(path)
                    else _DISK_BYTES_PER_INPUT_BYTE
                )
            )
            for path, size in self.state.survey.files
        )


def _is_compressed(path: str) -> bool:
    return path.endswith((".parquet", ".gz", ".zst"))


def cut_tasks(files: Sequence[DocumentFile], task_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of `task_rows` documents; a task ends with its split, so that no shard has documents
    of two splits."""
    for _, split_files in itertools.groupby(files, lambda file: file.split):
        first, *others = split_files
        end = first.first_doc_no + first.rows + sum(file.rows for file in others)
        yield from (
            (low, min(low + task_rows, end)) for low in range(first.first_doc_no, end, task_rows)
        )


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for entry in counts:
        total.update(entry)
    return dict(sorted(total.items()))
