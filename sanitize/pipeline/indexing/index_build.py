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
import operator
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core import failpoints
from sanitize.core.command_results import ColumnPolicy, KeptValues
from sanitize.core.text_cells import Policies
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
from sanitize.finders.known import read_known_list
from sanitize.kinds.kind import custom_kinds
from sanitize.pipeline.indexing import (
    column_roles,
    index_reuse,
    kept_columns,
    quarantine_limit,
)
from sanitize.pipeline.indexing.index_state import (
    EarlierIndex,
    Index,
    IndexInputs,
    ReadCorpus,
    find_leaves,
    list_fields,
    resolve_policies,
)
from sanitize.pipeline.run_results import IndexResult
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.plan import Plan
from sanitize.plans.settings import Settings
from sanitize.readers import remote_input
from sanitize.readers.remote_input import InputSet
from sanitize.readers.sandbox import SandboxedReader, input_bytes_of_task, survey_in_sandbox
from sanitize.readers.staging import build_documents
from sanitize.readers.standard_form import describe_chosen_text
from sanitize.readers.survey import (
    DocumentSample,
    IndexedInput,
    StagingResult,
    Survey,
    with_sample,
)
from sanitize.stages import aggregates, column_counts, detection, second_round_input
from sanitize.stages.occurrence_table_writer import OccurrenceCounts
from sanitize.storage import private_folder, queries, table_schemas
from sanitize.storage.corpus import DocumentFile, Documents
from sanitize.storage.disk_errors import (
    DISK_ERRNOS,
    explain_access_error,
    get_disk_errno,
    make_disk_error,
    translate_disk_errors,
)
from sanitize.storage.locks import (
    is_unmoved,
    lock_output,
    lock_workspace,
    remove_locked_folder,
)
from sanitize.storage.parquet_files import read_table, write_table_rows
from sanitize.storage.private_folder import (
    DOCUMENTS_FOLDER,
    FIRST_ROUND_FOLDER,
    OCCURRENCES_FOLDER,
    QUARANTINE_FOLDER,
    SKIPPED_FOLDER,
    SPILL_FOLDER,
    TABLES_FOLDER,
    TASKS_FOLDER,
    VALUE_COUNTS_FILE,
    VALUES_FOLDER,
    VAULT_FOLDER,
    SavedIndex,
)
from sanitize.storage.publication import recover_output
from sanitize.storage.task_records import Job, hash_json, run_job
from sanitize.storage.views.sql_text import check_encodable
from sanitize.verification.shard_reading import find_renamed_columns

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
        keeps_output_private: bool = False,
    ) -> None:
        """`detection_spec` comes from the plan: an index that was built with another one is
        rebuilt. With `keep_input`, `replace` replaces OUT and not the index of another input.
        `held_locks`: the real paths of the folders, WORK or OUT, whose locks the caller holds.
        `keeps_output_private`: only the user can read OUT."""
        self._given_inputs, self._workspace, self._settings = tuple(inputs), workspace, settings
        self._detection_spec, self._keep_input = detection_spec, keep_input
        self._held_locks, self._keeps_output_private = held_locks, keeps_output_private
        self._surveyed_files: Sequence[tuple[str, int]] = ()
        engine = LocalEngine(
            workers=settings.workers or os.cpu_count() or 1,
            spill=workspace / SPILL_FOLDER,
            memory_limit=settings.memory_limit,
        )
        self.tasks = TaskRunner(engine, workspace, settings.progress)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> IndexBuilder:
        self._is_new_workspace = not self._workspace.exists()
        try:
            with translate_disk_errors(self._workspace.parent):
                self.inputs = self._open_inputs()
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
            reported = make_disk_error(self._workspace, code)  # outside of any task
        if isinstance(reported, ResourceError) and reported.is_disk_error and self._surveyed_files:
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
                (self._workspace / name).exists()
                for name in (private_folder.INDEX_FILE, private_folder.FETCHED_FOLDER)
            )
        ):
            remove_locked_folder(self._workspace)

    def _clean_up(self) -> None:
        """Close the engine and delete leftovers of unfinished tasks. Called by the holder of WORK's
        lock after all work has ended."""
        self.tasks.engine.close()
        if is_unmoved(self._workspace):
            private_folder.remove_leftovers(self._workspace)

    def _survey_inputs(self, input_set: InputSet, earlier: IndexedInput | None = None) -> Survey:
        """Survey the inputs; with `earlier`, only the files that an append adds to them."""
        settings = self._settings
        with self.tasks.costs.measure("read"), input_set.errors_with_urls():
            survey = survey_in_sandbox(
                self.tasks.engine,
                input_set.paths_to_read,
                settings.columns.roles,
                settings.reading_memory_bytes,
                settings.max_doc_bytes,
                earlier,
            )
        self._surveyed_files = survey.files
        return survey

    def _survey_with_policies(self, input_set: InputSet) -> tuple[Survey, Policies]:
        """The survey of all inputs, and the policies of their columns."""
        survey = self._survey_inputs(input_set)
        return survey, resolve_policies(survey, self._settings, self._detection_spec.opt_in_kinds)

    def _open_inputs(self) -> IndexInputs:
        """Open WORK: survey the inputs, lock the folder, load the key, start the engine."""
        settings, workspace = self._settings, self._workspace
        if settings.append and not (workspace / private_folder.INDEX_FILE).is_file():
            raise UsageError(
                f"{workspace}: holds no index to append to. To publish these inputs for the"
                " first time, run the same command without --append; to add them to what is"
                " published, give its -o and --work"
            )
        self._stack.enter_context(custom_kinds(self._detection_spec.custom_kinds))
        for finder in self._detection_spec.finders:
            finder.validate_settings()
        known_list_hash = (
            hash_json(read_known_list(settings.known).rows()) if settings.known else None
        )
        # workers inherit it
        user_umask = self._stack.enter_context(private_folder.set_umask(0o077))
        if settings.engine == "spark":
            spark_session.validate_environment(settings.master, settings.remote)
        self._stack.callback(self.tasks.engine.close)
        # survey the inputs before anything is written, so that a mistake in them leaves no files
        # behind
        earlier = SavedIndex.read(workspace) if settings.append else None
        closed_increments = earlier.closed_increments if earlier else ()
        input_set = remote_input.list_inputs(self._given_inputs, workspace, len(closed_increments))
        surveyed = None
        if not input_set.remote_roots and not settings.append:
            surveyed = self._survey_with_policies(input_set)
        check_encodable(str(workspace.resolve()))
        private_folder.open_workspace(workspace)
        if os.path.realpath(workspace) not in self._held_locks:
            self._stack.enter_context(lock_workspace(workspace))
        self._stack.push(self._remove_unused_workspace)
        self._stack.callback(self._clean_up)
        failpoints.hit("workspace:created")
        private_folder.remove_leftovers(workspace)
        if settings.engine == "spark":
            # only now: nothing before this line was written where another machine could see it
            self.tasks.engine = spark.SparkEngine(
                workers=settings.workers or os.cpu_count() or 1,
                spill=workspace / SPILL_FOLDER,
                memory_limit=settings.memory_limit,
                master=settings.master,
                remote=settings.remote,
            )
        if input_set.remote_roots:
            with self.tasks.measure("fetch"):
                input_set.mark_unchanged(
                    {sha256 for increment in closed_increments for _, sha256 in increment.files}
                )
                input_set.fetch(settings.progress)
            if not settings.append:
                surveyed = self._survey_with_policies(input_set)
        key = private_folder.load_key(workspace, key_file=settings.key, seed=settings.seed)

        def create_inputs(survey: Survey, policies: Policies, earlier: EarlierIndex) -> IndexInputs:
            return IndexInputs(
                workspace=workspace,
                settings=settings,
                detection_spec=self._detection_spec,
                key=key,
                known_list_hash=known_list_hash,
                given_inputs=self._given_inputs,
                input_set=input_set,
                survey=survey,
                policies=policies,
                leaves=find_leaves(survey, policies, self._detection_spec.opt_in_kinds),
                earlier=earlier,
                keep_input=self._keep_input,
                user_umask=0o077 if self._keeps_output_private else user_umask,
                notes=[],
            )

        if surveyed is not None:
            inputs = create_inputs(*surveyed, EarlierIndex())
        else:
            with self.tasks.measure("read"), input_set.errors_with_urls():
                inputs = index_reuse.prepare_append(
                    workspace,
                    settings,
                    self._detection_spec.opt_in_kinds,
                    create_inputs,
                    functools.partial(self._survey_inputs, input_set),
                )
        if inputs.survey.roles.is_chosen:
            inputs.notes.append(describe_chosen_text(inputs.survey.layout.main_path))
        if count := inputs.survey.files_without_split:
            inputs.notes.append(
                f"files in train whose paths name no split: {count:,} (known are train, validation,"
                " test)"
            )
        if settings.sample < 1:
            inputs.notes.append(
                f"this is a sample of {settings.sample:.3g} of the documents (--sample)"
            )
            sample = DocumentSample(settings.sample, key.subkey("sample"))
            return replace(inputs, survey=with_sample(inputs.survey, sample))
        return inputs

    def delete_fetched_inputs(self) -> None:
        """Delete the files that were fetched for a run; called after the run."""
        self.inputs.input_set.remove_fetched(
            {path: sha256 for path, (_, sha256) in self.inputs.file_hashes.items()}
        )

    def lock_output(self, output: Path) -> None:
        """Lock OUT until this command ends, and recover an interrupted publish. Of two runs with
        the same OUT the second fails here, even if each has its own WORK."""
        with translate_disk_errors(output.parent):
            try:
                with private_folder.set_umask(self.inputs.user_umask):
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

    def build(self, plan: Plan | None = None) -> Index:
        """Build the index, or reuse the existing one. With the plan of a run, columns that its
        output keeps are searched before detection (kept_columns.py), which may raise LeakFound."""
        earlier_index = index_reuse.keep_or_discard_index(self.inputs)
        with translate_disk_errors(self.inputs.workspace):
            survey, staged = self._read_inputs()
        with self.tasks.measure("read"):
            corpus = self._cut_into_tasks(survey, staged)
            quarantined = _write_staging_quarantine(corpus)
        corpus = self._decide_columns(corpus, quarantined)
        reused = (
            earlier_index is not None
            and earlier_index.complete
            and earlier_index.fingerprint == corpus.fingerprint
        )
        corpus.write_index_json(corpus.documents, corpus.task_ranges, is_complete=reused)
        failpoints.hit("detect:index_json_written")
        # a file that vanished would stay quarantined when the command is run again
        index_reuse.check_inputs_unchanged(corpus)
        # detection only adds to what reading quarantined, so a run over the limit stops here
        _check_quarantine_limit(
            corpus,
            pa.concat_tables([read_table(path) for path in _list_staging_quarantine_files(corpus)]),
        )
        kept_values: list[KeptValues] = []
        if plan is not None:
            kept_values, coded_ids = self._check_kept_columns(corpus, plan, quarantined)
            corpus = corpus.with_columns(coded_ids)
        results = self.tasks.run(
            "detect",
            [
                _create_find_job(corpus, no, low, high, quarantined)
                for no, (low, high) in enumerate(corpus.task_ranges)
            ],
        )
        corpus.notes.extend(
            second_round_input.check_finders(
                corpus.detection_spec.finders, results, len(quarantined)
            )
        )
        if corpus.has_second_round:
            results = self._run_second_round(corpus, results, quarantined)
        text_bytes = [result.text_bytes for result in results]
        self.tasks.set_text_bytes(corpus.task_ranges, text_bytes)
        value_counts_file = corpus.workspace / VALUE_COUNTS_FILE
        with self.tasks.measure("aggregate"):
            run_job(self._create_count_job(corpus, value_counts_file))
            has_repeated_ids = self._has_repeated_ids(corpus)
        index_reuse.check_inputs_unchanged(corpus)
        corpus.write_index_json(corpus.documents, corpus.task_ranges, is_complete=True)
        failpoints.hit("detect:index_complete")
        quarantine = _load_quarantine(corpus)
        _check_quarantine_limit(corpus, quarantine)
        by_kind = _sum_counts(result.by_kind for result in results)
        return Index(
            **list_fields(corpus),
            value_counts_file=value_counts_file,
            has_repeated_ids=has_repeated_ids,
            quarantine=quarantine,
            kept_values=kept_values,
            counts=IndexResult(
                documents_in=corpus.documents.count,
                quarantined=quarantine.num_rows,
                occurrences=sum(by_kind.values()),
                by_kind=by_kind,
                documents_by_kind=_sum_counts(result.documents_by_kind for result in results),
                # only of the files that this command read
                text_bytes=sum(text_bytes[len(corpus.earlier.task_ranges) :]),
                changed=not reused,
                work=str(corpus.workspace),
                key="seed" if corpus.key.is_public else "secret",
                notes=corpus.notes,
                stages=dict(self.tasks.costs.costs),
            ),
        )

    def _cut_into_tasks(self, survey: Survey, staged: Mapping[int, StagingResult]) -> ReadCorpus:
        """The documents that were read, cut into tasks behind those of the closed increments."""
        inputs = self.inputs
        guessed = [pair for result in staged.values() for pair in result.guessed_encodings.items()]
        if files := dict(sorted(guessed)):
            inputs.notes.append(
                f"read in an encoding that was guessed, since they are not UTF-8: {len(files):,}"
                f" files ({_list_some([f'{path}: {files[path]}' for path in files])})"
            )
        documents = _combine_documents(inputs, survey, staged)
        new_files = [
            file for file in documents.files if file.first_doc_no >= inputs.earlier.document_count
        ]
        return ReadCorpus(
            **{**list_fields(inputs), "survey": survey},
            documents=documents,
            task_ranges=(
                *inputs.earlier.task_ranges,
                *cut_tasks(new_files, inputs.settings.rows_per_shard),
            ),
        )

    def _create_count_job(self, corpus: ReadCorpus, value_counts_file: Path) -> Job[None]:

        def write_counts(task: FolderTask) -> None:
            aggregates.write_value_counts(
                self.tasks.engine,
                corpus.task_files(TABLES_FOLDER, "partial_counts"),
                task.folder / "value_counts.parquet",
            )

        return Job(
            function=write_counts,
            task=FolderTask(corpus.workspace / SPILL_FOLDER / "count"),
            record_path=corpus.workspace / TASKS_FOLDER / "count" / "value_counts.json",
            fingerprint=corpus.record_fingerprint("count", queries.get_query("value_counts").sql),
            outputs={"value_counts.parquet": value_counts_file},
        )

    def _has_repeated_ids(self, corpus: ReadCorpus) -> bool:
        """True if two documents share an id. Draws then depend on document positions; otherwise
        both would get the same variants."""
        if not any("doc_id" in source.columns for source in corpus.documents.files):
            return False
        table = (
            private_folder.make_private_folder(corpus.workspace / SPILL_FOLDER)
            / "repeated_document_ids.parquet"
        )
        self.tasks.engine.sql(
            queries.get_query("repeated_document_ids").sql,
            {"document_ids": corpus.task_files(TABLES_FOLDER, "document_ids")},
            table,
        )
        repeated_count = pq.read_metadata(table).num_rows
        if repeated_count:
            corpus.notes.append(
                f"{repeated_count:,} ids belong to more than one document; draws depend on a"
                " document's position in the corpus instead"
            )
        return bool(repeated_count)

    def _read_inputs(self) -> tuple[Survey, dict[int, StagingResult]]:
        """Read all files completely; decode those that are not used in place. Returns the survey
        of what was read, and the result of each decoded unit, by its number."""
        inputs = self.inputs
        reading = SandboxedReader(
            survey=inputs.survey,
            named_inputs=tuple(map(str, inputs.input_set.paths_to_read)),
            workspace=inputs.workspace,
            fingerprint=inputs.record_fingerprint(
                "read", str(inputs.survey.schema), *inputs.sample_fingerprint
            ),
            max_doc_bytes=inputs.settings.max_doc_bytes,
            run_untrusted=functools.partial(
                self.tasks.run_untrusted,
                memory_bytes=inputs.settings.reading_memory_bytes,
                task_bytes=input_bytes_of_task,
            ),
            temporary_files=frozenset(
                str(path) for root in inputs.input_set.remote_roots for _, path in root.files
            ),
        )
        return reading.read()

    def _decide_columns(self, corpus: ReadCorpus, quarantined: list[int]) -> ReadCorpus:
        """The corpus with what counts over all rows decide about its columns; an append goes by
        what the first run decided."""
        if corpus.closed_increments:
            return corpus.with_columns(corpus.earlier.decided_columns)
        survey, asked = corpus.survey, corpus.settings.columns.policies
        decided = {name for name, policy in asked.items() if policy != "sanitize"}
        decided.add(corpus.leaves[0].column)
        names = column_roles.list_candidates(survey.schema, corpus.policies.by_column, decided)
        if not names:
            return corpus
        jobs = [
            Job(
                function=column_counts.count_columns_task,
                result_type=column_counts.ColumnCounts,
                task=replace(
                    _create_find_task(corpus, low, high, quarantined, f"columns-{task_no}"),
                    person_columns=names,
                ),
                record_path=corpus.workspace
                / TASKS_FOLDER
                / "column_cells"
                / f"{task_no:05d}.json",
                fingerprint=corpus.record_fingerprint(
                    "find", "column cells", column_counts.VERSION, names
                ),
                outputs={},
            )
            for task_no, (low, high) in enumerate(corpus.task_ranges)
        ]
        results = self.tasks.run("column_cells", jobs)
        # inside JSON nothing but its key stands before a value
        has_keys = any(finder.use == "fields" for finder in corpus.detection_spec.finders)
        columns = []
        for name, *parts in zip(names, *(one.columns for one in results), strict=True):
            counts = functools.reduce(operator.add, parts)
            if not has_keys or name in survey.layout.json_columns:
                counts = replace(counts, json=0)
            columns.append(column_roles.decide_column(name, counts))
        return corpus.with_columns(
            [one for one in columns if one.policy == asked.get(one.name, one.policy)]
        )

    def _check_kept_columns(
        self, corpus: ReadCorpus, plan: Plan, quarantined: list[int]
    ) -> tuple[list[KeptValues], list[ColumnPolicy]]:
        """Search the columns that the output keeps, and all names; returns the decisions for the
        manifest and the columns that become codes, or raises LeakFound. An append searches only its
        own documents: the files of earlier increments may be missing now."""
        first_task = len(corpus.earlier.task_ranges)
        task_nos = range(first_task, len(corpus.task_ranges))
        tasks = [
            _create_find_task(
                corpus, *corpus.task_ranges[task_no], quarantined, f"columns-{task_no}"
            )
            for task_no in task_nos
        ]
        leaves = kept_columns.kept_leaves(corpus.survey.schema, corpus.policies)
        if tasks:
            kept_columns.check_names(
                corpus.survey.schema, corpus.policies, plan, tasks[0], corpus.survey.features
            )
        if not leaves:
            return [], []
        jobs = [
            Job(
                function=detection.find_in_columns_task,
                result_type=detection.ColumnFindings,
                task=replace(task, leaves=leaves),
                record_path=corpus.workspace / TASKS_FOLDER / "columns" / f"{task_no:05d}.json",
                fingerprint=corpus.record_fingerprint(
                    "find", "columns", [str(leaf) for leaf in leaves]
                ),
                outputs={},
            )
            for task_no, task in zip(task_nos, tasks, strict=True)
        ]
        renamed_columns = find_renamed_columns(asdict(corpus.settings.columns.roles))
        results = self.tasks.run("columns", jobs)
        # earlier increments have the ids as they are
        may_code_ids = (
            not corpus.closed_increments and "doc_id" not in corpus.settings.columns.policies
        )
        return kept_columns.decide(
            results, leaves, plan, renamed_columns, may_code_ids=may_code_ids
        )

    def _run_second_round(
        self, corpus: ReadCorpus, results: Sequence[detection.FindResult], quarantined: list[int]
    ) -> list[detection.FindResult]:
        """Gather the values of the first round and search all documents again with them; returns
        the merged results of both rounds, one per task."""
        suffix = f"-{len(corpus.increments):04d}" if len(corpus.increments) > 1 else ""
        forms_file, entities_file = (
            corpus.workspace / VAULT_FOLDER / "first_round" / f"known_terms{suffix}.parquet",
            corpus.workspace / FIRST_ROUND_FOLDER / f"entities{suffix}.parquet",
        )
        gather = second_round_input.GatherTask(
            occurrence_files=tuple(corpus.task_files(FIRST_ROUND_FOLDER, "occurrences")),
            value_files=tuple(corpus.task_files(VAULT_FOLDER, "first_round", "values")),
            link_files=tuple(corpus.task_files(FIRST_ROUND_FOLDER, "links")),
            known_values_file=corpus.settings.known,
            key=corpus.key,
            folder=corpus.workspace / SPILL_FOLDER / "second_round_input",
        )
        with self.tasks.measure("second_round"):
            run_job(
                Job(
                    function=second_round_input.gather_task,
                    task=gather,
                    record_path=corpus.workspace
                    / TASKS_FOLDER
                    / "second_round"
                    / f"input{suffix}.json",
                    fingerprint=corpus.record_fingerprint("known"),
                    outputs={"entities.parquet": entities_file, "known_terms.parquet": forms_file},
                    was_published=len(corpus.closed_increments) == len(corpus.increments),
                )
            )
        failpoints.hit("detect:second_round_input_written")
        jobs = []
        for no, (low, high) in enumerate(corpus.task_ranges):
            name = f"{no:05d}.parquet"
            first_round = detection.FirstRoundFiles(
                occurrences=gather.occurrence_files[no],
                values=gather.value_files[no],
                skipped=corpus.workspace / FIRST_ROUND_FOLDER / "skipped" / name,
                entities=entities_file,
                second_round_input=forms_file,
            )
            quarantine_rows = read_table(
                corpus.workspace / QUARANTINE_FOLDER / "detect" / name,
                columns=["doc_no"],
            )
            task = _create_find_task(
                corpus,
                low,
                high,
                sorted({*quarantined, *quarantine_rows.column("doc_no").to_pylist()}),
                f"second_round-{no}",
            )
            outputs = {
                "occurrences.parquet": corpus.workspace / OCCURRENCES_FOLDER / name,
                "partial_counts.parquet": corpus.workspace
                / TABLES_FOLDER
                / "partial_counts"
                / name,
                "skipped.parquet": corpus.workspace / SKIPPED_FOLDER / name,
                "values.parquet": corpus.workspace / VALUES_FOLDER / name,
            }
            jobs.append(
                Job(
                    function=detection.second_round_task,
                    result_type=OccurrenceCounts,
                    task=replace(task, first_round=first_round),
                    record_path=corpus.workspace / TASKS_FOLDER / "second_round" / f"{no:05d}.json",
                    fingerprint=corpus.record_fingerprint(
                        "known", increment_index=corpus.find_increment_index(no)
                    ),
                    outputs=outputs,
                    was_published=corpus.find_increment_index(no) < len(corpus.closed_increments),
                )
            )
        return [
            replace(first, **vars(second))
            for first, second in zip(results, self.tasks.run("second_round", jobs), strict=True)
        ]

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
            for path, size in self._surveyed_files
        )


def _list_some(items: Sequence[str]) -> str:
    return ", ".join(items[:5]) + (", ..." if len(items) > 5 else "")


def _combine_documents(
    inputs: IndexInputs, survey: Survey, staged: Mapping[int, StagingResult]
) -> Documents:
    """All documents: those of the closed increments, then those of this command's files."""
    earlier = inputs.earlier
    if earlier.documents is None:
        return build_documents(survey, staged, inputs.workspace)
    sources = build_documents(survey, staged, inputs.workspace).files if survey.files else ()
    new_files = (
        replace(file, first_doc_no=file.first_doc_no + earlier.document_count) for file in sources
    )
    return replace(earlier.documents, files=(*earlier.documents.files, *new_files))


def _create_find_job(
    corpus: ReadCorpus, task_no: int, low: int, high: int, quarantined: list[int]
) -> Job[detection.FindResult]:
    """The find job of one task. If there is a second round, tables that the second round
    rewrites are written to `first_round/`."""
    name = f"{task_no:05d}.parquet"
    first_folder = FIRST_ROUND_FOLDER if corpus.has_second_round else TABLES_FOLDER
    outputs = {
        "occurrences.parquet": corpus.workspace / first_folder / "occurrences" / name,
        "partial_counts.parquet": corpus.workspace / first_folder / "partial_counts" / name,
        "document_ids.parquet": corpus.workspace / TABLES_FOLDER / "document_ids" / name,
        "skipped.parquet": corpus.workspace / first_folder / "skipped" / name,
        "values.parquet": (
            corpus.workspace
            / VAULT_FOLDER
            / ("first_round/values" if corpus.has_second_round else "values")
            / name
        ),
        "quarantine.parquet": corpus.workspace / QUARANTINE_FOLDER / "detect" / name,
    }
    if corpus.has_second_round:
        outputs["links.parquet"] = corpus.workspace / FIRST_ROUND_FOLDER / "links" / name
    return Job(
        function=detection.find_task,
        result_type=detection.FindResult,
        task=_create_find_task(corpus, low, high, quarantined, f"detect-{task_no}"),
        record_path=corpus.workspace / TASKS_FOLDER / "detect" / f"{task_no:05d}.json",
        fingerprint=corpus.record_fingerprint(
            "find", increment_index=corpus.find_increment_index(task_no)
        ),
        outputs=outputs,
        was_published=corpus.find_increment_index(task_no) < len(corpus.closed_increments),
    )


def _create_find_task(
    corpus: ReadCorpus, low: int, high: int, quarantined: Sequence[int], spill: str
) -> detection.FindTask:
    return detection.FindTask(
        first_doc_no=low,
        end_doc_no=high,
        documents=corpus.documents,
        leaves=corpus.leaves,
        key=corpus.key,
        max_doc_bytes=corpus.settings.max_doc_bytes,
        max_doc_matches=corpus.settings.max_doc_matches,
        output_columns=tuple(corpus.policies.list_columns("sanitize", "keep", "pseudonymize")),
        quarantined_docs=tuple(row for row in quarantined if low <= row < high),
        folder=corpus.workspace / SPILL_FOLDER / spill,
        detection_spec=corpus.detection_spec,
    )


def _write_staging_quarantine(corpus: ReadCorpus) -> list[int]:
    """Write the documents that staging could not read to the table `quarantine`, one file per
    increment; returns their `doc_no`."""
    rows: list[table_schemas.QuarantineRow] = []
    sources = corpus.documents.files
    for unit, source in zip(
        corpus.survey.units, sources[len(sources) - len(corpus.survey.units) :], strict=True
    ):
        if not unit.in_place:
            tables = read_table(
                corpus.workspace / DOCUMENTS_FOLDER / "quarantined" / f"{unit.no:05d}.parquet",
            )
            rows += [
                table_schemas.QuarantineRow(
                    source.first_doc_no + row["row"],
                    row["source"],
                    row["location"],
                    row["reason"],
                )
                for row in tables.to_pylist()
            ]

    def write_quarantine(task: FolderTask) -> None:
        write_table_rows(task.folder / "quarantine.parquet", table_schemas.QUARANTINE.schema, rows)

    if len(corpus.increments) > len(corpus.closed_increments):
        run_job(
            Job(
                function=write_quarantine,
                task=FolderTask(corpus.workspace / SPILL_FOLDER / "quarantined"),
                record_path=corpus.workspace
                / TASKS_FOLDER
                / "read"
                / (
                    f"quarantined-{len(corpus.increments):04d}.json"
                    if corpus.closed_increments
                    else "quarantined.json"
                ),
                fingerprint=corpus.record_fingerprint("read", table_schemas.VERSION, rows),
                outputs={"quarantine.parquet": _list_staging_quarantine_files(corpus)[-1]},
            )
        )
    tables = [
        read_table(path, columns=["doc_no"]) for path in _list_staging_quarantine_files(corpus)
    ]
    return [int(no) for no in pa.concat_tables(tables).column("doc_no").to_pylist()]


def _list_staging_quarantine_files(corpus: ReadCorpus) -> list[Path]:
    return [
        corpus.workspace / QUARANTINE_FOLDER / "read" / f"{no:05d}.parquet"
        for no in range(len(corpus.increments))
    ]


def _load_quarantine(corpus: ReadCorpus) -> pa.Table:
    files = [
        *_list_staging_quarantine_files(corpus),
        *corpus.task_files(QUARANTINE_FOLDER, "detect"),
    ]
    return pa.concat_tables([read_table(file) for file in files]).sort_by("doc_no")


def _check_quarantine_limit(corpus: ReadCorpus, quarantine: pa.Table) -> None:
    """Raises QuarantineExceeded if the rows of `quarantine` are more than the limit allows, by
    records or by bytes of files."""
    total = max(corpus.documents.count, 1)
    if corpus.closed_increments:
        # only of the new documents, so that earlier good increments cannot hide a bad one
        total = max(corpus.documents.count - corpus.earlier.document_count, 1)
        quarantine = quarantine.filter(
            pc.greater_equal(quarantine.column("doc_no"), corpus.earlier.document_count)
        )
    loss = quarantine_limit.measure_loss(corpus.survey, quarantine, total)
    limit = 0.0 if corpus.settings.strict else corpus.settings.max_quarantine
    if loss.exceeds(limit):
        option = (
            "--strict allows none"
            if corpus.settings.strict
            else f"--max-quarantine allows {limit:.0%}"
        )
        raise QuarantineExceeded(
            f"{loss.describe()}; {option}. {loss.suggest_remedy(corpus.settings.strict)} "
            f"To see where they are: sanitize sql {corpus.workspace} --name quarantine_by_reason"
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
    return dict(sorted(sum(map(Counter, counts), Counter[str]()).items()))
