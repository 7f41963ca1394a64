"""Applies a plan to an endless stream of records: one pass in order, each batch edited with what
was seen before it.

    batch of records -> texts -> find (ahead, in workers) -> edit, rewrite, check
    (batch_processor.py) -> sink -> acknowledged

What was seen lies in a private state folder: ids of values and variants (value_log.py), component
pools (component_log.py), and the position. A batch is acknowledged when the sink has written it and
one rename has put the new `state.json` in place. A process that ends at any instant leaves the
state of the last acknowledged batch, and the same records give the same bytes again, however they
are cut into batches (except for what the leak check of a batch sweeps). A stream cannot know a
value that comes later: see docs/how_to/stream.md.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Unpack

import pyarrow as pa

from sanitize.core import failpoints
from sanitize.core.arrow_buffers import fill_null_texts
from sanitize.core.command_results import KindOutcomes
from sanitize.core.engine import WorkerDied
from sanitize.core.keys import Key
from sanitize.core.span_table import SpanTable
from sanitize.core.text_cells import column_of_path
from sanitize.engines.worker_process import map_ahead
from sanitize.errors import (
    InputRefused,
    PlanError,
    QuarantineExceeded,
    ResourceError,
    UsageError,
    resume_note,
    suggest_names,
)
from sanitize.finders import patterns
from sanitize.kinds.kind import custom_kinds
from sanitize.pipeline.streaming import stream_state
from sanitize.pipeline.streaming.batch_processor import (
    BatchProcessor,
    BatchResult,
    StreamPriorValues,
    get_max_keep,
)
from sanitize.pipeline.streaming.column_value_log import ColumnValueLog
from sanitize.pipeline.streaming.component_log import ComponentLog
from sanitize.pipeline.streaming.record_batches import (
    ArrowBatch,
    DictBatch,
    QuarantineEntry,
    StreamBatch,
    StreamLayout,
    TextColumns,
)
from sanitize.pipeline.streaming.source_identity import check_source, describe_source
from sanitize.pipeline.streaming.sources_and_sinks import (
    JsonLinesFileSink,
    JsonLinesStreamSink,
    ParquetFolderSink,
    PathSource,
    Sink,
    describe_reason,
    read_descriptor,
    read_iterable,
    skip_records,
    survey_path,
)
from sanitize.pipeline.streaming.stream_result import StreamResult
from sanitize.pipeline.streaming.stream_state import StreamState, name_path
from sanitize.pipeline.streaming.value_log import ValueLog
from sanitize.plans.coverage import (
    describe_looked_for,
    describe_not_looked_for,
    describe_staying,
    list_models,
)
from sanitize.plans.default_plan import choose_stream_plan, continue_settings
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.plan import Plan, find_kinds_without_finder, name_finder
from sanitize.plans.python_api import (
    StreamOptions,
    name_type,
    public_function,
    python_names,
    to_python_names,
)
from sanitize.plans.settings import Settings, settings_of
from sanitize.readers.standard_form import describe_chosen_text, with_shape
from sanitize.stages.finder_pass import TextSearch
from sanitize.storage import private_folder
from sanitize.storage.corpus import CellColumn, flatten_cells
from sanitize.storage.disk_errors import refuse_unwritable_path, translate_disk_errors
from sanitize.storage.files import closed_streams, fsync
from sanitize.storage.locks import (
    lock_output,
    lock_workspace,
    remove_locked_folder,
    require_unmoved,
)
from sanitize.storage.records.splits import split_rank
from sanitize.storage.remote_storage import require_local_path
from sanitize.storage.task_records import hash_json
from sanitize.verification.search_terms import list_unsearched_forms

_MIN_RECORDS_FOR_LIMIT = 1_000  # records before the quarantined share is checked
_MAX_PENDING_BYTES = 64 << 20  # bytes of quarantined records held while no record has been readable
_MAX_LISTED_COLUMNS = 40  # most columns that an error message lists
_SECOND_ROUND_NOTE = (
    "find.finders: {finder} needs the whole corpus, so it was left out: what one record shows to be"
    " a name is searched in the records of its batch, not in later ones"
)


def to_stream_plan(plan: Plan) -> Plan:
    """The plan adapted to a stream: without the finders of the second round. Raises PlanError for
    other parts that need a corpus."""
    advice = (
        "a stream sees one record after the other; use `sanitize run`, or remove it from the plan"
    )
    if plan.droppers:
        raise PlanError(
            f"plan {plan.name}: drop[0].use = {plan.droppers[0].use!r} compares documents of the"
            f" whole corpus; {advice}"
        )
    if plan.blacklist is not None:
        raise PlanError(f"plan {plan.name}: [blacklist] counts users of the whole corpus; {advice}")
    finders = [finder for finder in plan.finders if not finder.second_round]
    other_finders = [
        one.use for one in finders if not (one.supports_stream or one.use == patterns.FINDER_NAME)
    ]
    if other_finders:
        raise PlanError(
            f"plan {plan.name}: find.finders: {', '.join(other_finders)} need documents of a"
            f" corpus; {advice}"
        )
    for kind in find_kinds_without_finder(plan.find.kinds, finders):
        raise PlanError(
            f"plan {plan.name}: {kind} is found only by values of the whole corpus; {advice}"
        )
    if plan.find.selection_rules:
        raise PlanError(
            f"plan {plan.name}: find.allow, find.deny and find.min_score select from an index;"
            f" {advice}"
        )
    editors = tuple(
        editor.for_streaming(f"plan {plan.name}: edit[{number}]")
        for number, editor in enumerate(plan.editors)
    )
    with custom_kinds(plan.custom_kinds):
        for editor in editors:
            editor.validate_settings(None)
    find = plan.find.model_copy(
        update={"finders": tuple(name_finder(finder) for finder in finders)}
    )
    return plan.model_copy(update={"editors": editors, "finders": tuple(finders), "find": find})


@dataclass(frozen=True, repr=False)
class ProcessedBatch:
    """A batch as read, its sanitized records, and the result of its processing."""

    source_batch: StreamBatch
    clean_batch: StreamBatch
    result: BatchResult


# the texts of a field, and its name or that of each text
_NamedTexts = tuple[pa.LargeStringArray, str | tuple[str, ...]]


@dataclass(frozen=True, repr=False)
class _BatchTexts:
    """A batch as read, and its texts."""

    batch: StreamBatch
    text_columns: TextColumns
    columns: Sequence[CellColumn]


class StreamProcessor:
    """Applies a plan to a stream. A context manager; holds the lock of the state folder until it
    exits."""

    def __init__(
        self,
        plan: Plan | str,
        state: Path | str | None,
        settings: Settings,
        *,
        reader: str = "the stream",
    ) -> None:
        self._given_plan = Plan.load(plan)
        self.plan = to_stream_plan(self._given_plan)
        self._left_out_finders = [
            finder.use for finder in Plan.load(plan).finders if finder.second_round
        ]
        self._detection_spec = self.plan.detection_spec
        self._reader = reader  # what errors name as the place
        self.settings, self._given_state = (
            settings,
            require_local_path(state) if state is not None else None,
        )
        self._stack = contextlib.ExitStack()
        self.documents_in = self.documents_out = self.swept_count = self._batch_count = 0
        self.inconclusive: Counter[str] = Counter()
        self.by_kind: dict[str, dict[str, int]] = {}
        self.quarantine_reasons: dict[str, int] = {}
        self.splits: set[str] = set()  # of the input files
        self.source_notes: list[str] = []  # what was left unread
        # column names so far, collected while no record has a main text
        self._seen_column_names: dict[str, None] = {}
        # columns given by options that no record has had yet
        self._missing_columns = settings.columns.option_by_column
        self._is_output_locked = False
        self._started_at = time.monotonic()

    def __enter__(self) -> StreamProcessor:
        try:
            self._stack.enter_context(custom_kinds(self._detection_spec.custom_kinds))
            self._open()
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _remove_unused_state(self, kind: type[BaseException] | None, *_: object) -> None:
        """After a user error, delete a new state in which nothing was acknowledged. Its lock is
        still held."""
        mistake = kind is not None and issubclass(kind, UsageError | InputRefused)
        if mistake and self._is_new_state and not StreamState.exists(self.state_folder):
            remove_locked_folder(self.state_folder)

    def _open(self) -> None:
        _refuse_fork()
        state_folder = self._given_state
        if state_folder is None:
            # without a state folder nothing is resumed: a temporary state is deleted when the
            # stream ends
            state_folder = Path(tempfile.mkdtemp(prefix="sanitize-stream-"))
            self._stack.callback(shutil.rmtree, state_folder, ignore_errors=True)
        self.state_folder = state_folder
        self._is_new_state = not state_folder.exists()
        with private_folder.set_umask(0o077), translate_disk_errors(state_folder.parent):
            private_folder.open_workspace(
                state_folder, forbidden_folder=private_folder.RUN_ONLY_FOLDER
            )
            self._stack.enter_context(lock_workspace(state_folder))
            self._stack.push(self._remove_unused_state)
            for leftover in state_folder.glob("*.tmp"):
                leftover.unlink()
            self.key: Key = private_folder.load_key(
                state_folder, key_file=self.settings.key, seed=self.settings.seed
            )
            columns, roles = self.settings.columns, self.settings.columns.roles
            saved = self._state = StreamState.open(
                state_folder,
                plan_hash=self.plan.hash(),
                key_id=self.key.id,
                columns_hash=hash_json([roles.text, roles.user, roles.id], dict(columns.policies)),
                plan=self._given_plan.resolved_settings(),
                columns=asdict(columns),
            )
            self.position, self.total_quarantined = saved.records, saved.quarantined
            self.sources, self.sinks = dict(saved.sources), dict(saved.sinks)
            if saved.shape is not None:
                roles = replace(roles, text=saved.shape.texts, shape=saved.shape)
            elif main := saved.find_chosen_text(roles.text[0]):
                roles = replace(roles, text=(main,), is_chosen=True)
            self.layout = StreamLayout(
                roles,
                columns.policies,
                list(saved.text_fields),
                list(saved.seen_columns),
                self._reader,
                self._detection_spec.opt_in_kinds,
            )
            self.value_log = ValueLog(
                private_folder.make_private_folder(
                    state_folder / private_folder.STREAM_ONLY_FOLDER
                ),
                saved.value_files,
                get_max_keep(self.plan.editors),
            )
            self.component_pools = (
                ComponentLog(
                    state_folder / stream_state.COMPONENT_LOG_FILE,
                    saved.component_log_bytes,
                )
                if any(editor.pooled_kinds for editor in self.plan.editors)
                else None
            )
            searches_columns = self.settings.verify != "off" and self.plan.publishable
            self.column_values = (
                ColumnValueLog(
                    state_folder / stream_state.COLUMN_VALUES_FILE,
                    saved.column_value_bytes,
                    check_mode=self.settings.verify,
                )
                if searches_columns
                else None
            )
            self._quarantine_file = (
                private_folder.make_private_folder(state_folder / stream_state.QUARANTINE_FOLDER)
                / "records.jsonl"
            )
            self._quarantine_file.touch(mode=0o600)
            os.truncate(self._quarantine_file, saved.quarantine_bytes)
        self._pending_quarantine: list[bytes] = []
        prior_values = StreamPriorValues(self.value_log, self.component_pools)
        self.processor = BatchProcessor(
            self.plan,
            self.key,
            prior_values,
            self.component_pools,
            self.settings.verify,
            self.settings.max_doc_matches,
            self.column_values,
        )

    def process(self, batches: Iterable[StreamBatch]) -> Generator[ProcessedBatch]:
        """The processed batches, in order. The caller must pass each to `add_result` before it
        requests the next one."""
        for inputs, found in self._search_ahead(batches):
            batch, text_columns = inputs.batch, inputs.text_columns
            result = self.processor.process(
                text_columns, inputs.columns, found, batch.has_any_field
            )
            for doc_no, reason in result.quarantined_docs.items():
                row = doc_no - self.position
                batch.quarantined[row] = QuarantineEntry(reason, raw=batch.encode_record(row))
            table = result.table
            if result.quarantined_docs:
                remaining = [
                    place
                    for place, row in enumerate(text_columns.record_rows.tolist())
                    if row not in batch.quarantined
                ]
                text_columns = replace(
                    text_columns, table=table, record_rows=text_columns.record_rows[remaining]
                )
            yield ProcessedBatch(
                batch,
                batch.rewrite(text_columns, table, result.edited_rows, self.layout, self.key),
                result,
            )

    def _search_ahead(
        self, batches: Iterable[StreamBatch]
    ) -> Iterator[tuple[_BatchTexts, Sequence[SpanTable]]]:
        """Each batch with the occurrences in its texts; workers search later batches ahead."""
        workers, limit = self.settings.workers or 1, self.settings.max_doc_matches
        search: Callable[[Sequence[_NamedTexts]], Sequence[SpanTable]]
        if workers == 1:
            search = TextSearch(self.key, self._detection_spec, max_doc_matches=limit).run_columns
        else:
            search = functools.partial(
                _search_in_worker, self.key.secret, self.key.is_public, self._detection_spec, limit
            )
        tasks = (
            (
                inputs,
                [
                    (fill_null_texts(column.flat.texts), field.list_names(column))
                    for field, column in zip(
                        inputs.text_columns.fields, inputs.columns, strict=True
                    )
                ],
            )
            for inputs in self._extract_texts(batches)
        )
        try:
            yield from map_ahead(search, tasks, workers=workers)
        except WorkerDied:
            raise ResourceError(
                "a worker died; run the same command again to resume from here, with fewer"
                " --workers"
            ) from None

    def _extract_texts(self, batches: Iterable[StreamBatch]) -> Iterator[_BatchTexts]:
        """Each batch with its texts."""
        first_doc_no = self.position
        for batch in batches:
            if (
                self.layout.main_column not in self.layout.seen_columns
                and self.layout.roles.shape is None
            ):
                # the first records that can be read decide, as the first file of a run does
                roles = with_shape(self.layout.roles, batch.infer_schema())
                if roles != self.layout.roles:
                    self.layout = StreamLayout(
                        roles,
                        self.layout.policies,
                        reader=self._reader,
                        opt_in_kinds=self.layout.opt_in_kinds,
                    )
            layout = self.layout
            text_columns = batch.extract_texts(layout, first_doc_no, self.settings.max_doc_bytes)
            self._missing_columns = {
                name: option
                for name, option in self._missing_columns.items()
                if not batch.has_column(name)
            }
            columns = flatten_cells(text_columns.table, text_columns.leaves)
            first_doc_no += len(batch)
            yield _BatchTexts(batch, text_columns, columns)

    def add_result(self, processed: ProcessedBatch, source: Path | None = None) -> None:
        """Add a processed batch to the state in memory (values seen, position, counts, quarantine),
        before the next one is processed."""
        batch, clean_batch, result = processed.source_batch, processed.clean_batch, processed.result
        for row, quarantine_entry in sorted(batch.quarantined.items()):
            self.quarantine_reasons[quarantine_entry.reason] = (
                self.quarantine_reasons.get(quarantine_entry.reason, 0) + 1
            )
            record = {
                "record": self.position + row,
                "location": quarantine_entry.place,
                "reason": quarantine_entry.reason,
                "raw": quarantine_entry.raw,
            }
            self._pending_quarantine.append(json.dumps(record).encode() + b"\n")
        self.value_log.add(result.new_ids, result.new_tags)
        if self.component_pools is not None:
            self.component_pools.confirm()
        self.position += len(batch)
        self._batch_count += 1
        if source is not None:
            self.sources.setdefault(name_path(source), {"records": 0})["records"] += len(batch)
        self.documents_in += len(batch)
        self.total_quarantined += len(batch.quarantined)
        self.documents_out += len(clean_batch)
        self.swept_count += result.swept_count
        self.inconclusive.update(result.inconclusive)
        for kind, counts in result.by_kind.items():
            total = self.by_kind.setdefault(kind, dict.fromkeys(counts, 0))
            for name, count in counts.items():
                total[name] += count
        if self.is_text_missing:
            self._seen_column_names |= dict.fromkeys(
                itertools.islice(
                    batch.iterate_field_names(self.layout.main_column), _MAX_LISTED_COLUMNS
                )
            )
            if (
                self.documents_in >= _MIN_RECORDS_FOR_LIMIT
                or sum(map(len, self._pending_quarantine)) > _MAX_PENDING_BYTES
            ):
                self.require_text_column()

    @property
    def notes(self) -> list[str]:
        """Notes on column options whose column no record had (with a misspelt name the option has
        no effect), and on lost splits."""
        notes = [
            f"--{option} {name}: no record had such a column"
            for name, option in self._missing_columns.items()
        ]
        if self.layout.roles.is_chosen:
            notes.append(describe_chosen_text(self.layout.main_path))
        if len(self.splits) > 1:
            notes.append(
                f"the input has the splits {', '.join(sorted(self.splits, key=split_rank))}; a"
                " stream writes all records to one output. Use sanitize run, which keeps splits,"
                " or stream each of them to an output of its own"
            )
        return self.source_notes + (notes if self.documents_in else [])

    @property
    def is_text_missing(self) -> bool:
        """True if no record so far, of this command or an earlier one, has a main text. Then
        nothing is acknowledged or written, unless `max_quarantine` allows all records to be
        quarantined."""
        return (
            self.layout.main_column not in self.layout.seen_columns
            and self.settings.max_quarantine < 1
        )

    def require_text_column(self) -> None:
        """Raise UsageError or InputRefused if there were records and none has a main text: a wrong
        column name, or no JSON lines."""
        if not (self.is_text_missing and self.documents_in):
            return
        count, main = (
            f"{self.documents_in:,} record{'s' if self.documents_in > 1 else ''}",
            self.settings.columns.roles.text[0],
        )
        if self._seen_column_names:
            raise UsageError(
                f"{self._reader}: none of its {count} has a text in a column {main};"
                f" {suggest_names(main, [name for name in self._seen_column_names if name != main][:_MAX_LISTED_COLUMNS])}"  # noqa: E501
                " Name the column with --text-column NAME."
            )
        reasons = ", ".join(
            f"{times:,}: {describe_reason(reason)}"
            for reason, times in sorted(self.quarantine_reasons.items())
        )
        raise InputRefused(
            f"{self._reader}: none of its {count} can be read ({reasons}). "
            + (
                "--max-quarantine 100% allows all of them to be quarantined"
                if self.sources
                else (
                    f"Expected JSON lines, one object per line with its text in a column {main}"
                    " (--text-column NAME names another); --lines takes each line as a text; all"
                    " other formats are read from files"
                )
            )
        )

    def commit(self) -> None:
        """Acknowledge all batches passed to `add_result`: write the quarantine and the state, the
        latter with one rename."""
        with private_folder.set_umask(0o077), translate_disk_errors(self.state_folder):
            with self._quarantine_file.open("ab") as file:
                file.write(b"".join(self._pending_quarantine))
                file.flush()
                os.fsync(file.fileno())
                quarantine_bytes = file.tell()
            self._pending_quarantine = []
            pool_bytes = self.component_pools.commit() if self.component_pools is not None else 0
            column_value_bytes = (
                self.column_values.commit() if self.column_values is not None else 0
            )
            value_files = self.value_log.commit()
            fsync(self.state_folder)
            failpoints.hit("stream:state_written")
            layout = self.layout
            self._state = replace(
                self._state,
                records=self.position,
                quarantined=self.total_quarantined,
                sources=self.sources,
                sinks=self.sinks,
                text_fields=layout.text_fields,
                seen_columns=layout.seen_columns,
                shape=layout.roles.shape,
                value_files=value_files,
                component_log_bytes=pool_bytes,
                column_value_bytes=column_value_bytes,
                quarantine_bytes=quarantine_bytes,
            )
            require_unmoved(self.state_folder)
            self._state.write(self.state_folder)
            failpoints.hit("stream:committed")
            self.value_log.delete_stale_files()
        self._check_quarantine_limit()

    def _check_quarantine_limit(self) -> None:
        count, limit = sum(self.quarantine_reasons.values()), self.settings.max_quarantine
        if self.documents_in >= _MIN_RECORDS_FOR_LIMIT and count > limit * self.documents_in:
            reasons = ", ".join(
                f"{times} {reason}" for reason, times in sorted(self.quarantine_reasons.items())
            )
            raise QuarantineExceeded(
                f"{count} of {self.documents_in} records were quarantined ({reasons});"
                f" --max-quarantine allows {limit:.0%}. All records so far are acknowledged; the"
                f" quarantined ones are in {self.state_folder}/quarantine"
            )

    def process_to_sink(
        self,
        batches: Iterable[StreamBatch],
        sink: Sink,
        *,
        source: Path | None = None,
        output: Path | None = None,
    ) -> None:
        """Process the batches and write them to the sink. `source` and `output` are stored in the
        state, so that the same command resumes the same files."""
        with (
            contextlib.closing(self.process(batches)) as steps,
            translate_disk_errors(Path(output or self.state_folder).parent),
        ):
            for step in steps:
                if not self.is_text_missing:
                    self._claim_output(sink, output)
                    sink.put(step.clean_batch)
                self.add_result(step, source)
                if not self.is_text_missing and sink.is_ready_to_commit():
                    self._commit_sink(sink, output)
            if not self.is_text_missing:
                self._claim_output(sink, output)
                self._commit_sink(sink, output)

    def finish(self, sink: Sink, output: Path | None = None) -> None:
        """Called after the last input: refuses a stream without any main text; creates the output
        even if it has no records."""
        self.require_text_column()
        if self.is_text_missing:
            with translate_disk_errors(Path(output or self.state_folder).parent):
                self._claim_output(sink, output)
                self._commit_sink(sink, output)

    def _claim_output(self, sink: Sink, output: Path | None) -> None:
        """Lock the output, and record in the state that it belongs to it, before the first record
        is written there.

        Raises Locked if another stream, with a state of its own, or a run writes there: neither
        sees yet what the other one will write.
        """
        if output is not None and not self._is_output_locked:
            with refuse_unwritable_path(output, "use another -o"):
                output.parent.mkdir(parents=True, exist_ok=True)
                self._stack.enter_context(lock_output(Path(os.path.realpath(output))))
            self._is_output_locked = True
        if output is not None and name_path(output) not in self.sinks:
            self.sinks[name_path(output)] = sink.commit()
            self.commit()

    def _commit_sink(self, sink: Sink, output: Path | None) -> None:
        position = sink.commit()
        failpoints.hit("stream:output_written")
        if output is not None:
            self.sinks[name_path(output)] = position
        self.commit()

    def skip_acknowledged(self, source: PathSource) -> Iterator[StreamBatch]:
        """The batches of a file or folder that are not acknowledged yet.

        Raises InputRefused if it does not begin with what was read from it before."""
        acknowledged = self.sources.setdefault(name_path(source.path), {"records": 0})
        if acknowledged["records"]:
            check_source(source.path, source.files, acknowledged)
        acknowledged.update(describe_source(source.path, source.files))
        return skip_records(source.batches, int(acknowledged["records"]))

    def summary(self) -> StreamResult:
        """Counts of this command, and the acknowledged position in the whole stream."""
        seconds = time.monotonic() - self._started_at
        kinds = {
            kind: KindOutcomes(
                **counts, replaced=counts["occurrences"] - counts["kept"] - counts["left_by_plan"]
            )
            for kind, counts in sorted(self.by_kind.items())
        }
        # without a state, a single batch is the whole corpus
        is_whole = self._given_state is None and self._batch_count == 1
        left_out_finders = [] if is_whole else self._left_out_finders
        return StreamResult(
            documents_in=self.documents_in,
            documents_out=self.documents_out,
            documents_dropped=0,
            quarantined=self.documents_in - self.documents_out,
            quarantine=dict(sorted(self.quarantine_reasons.items())),
            occurrences=sum(counts.occurrences for counts in kinds.values()),
            kept_originals=sum(counts.kept for counts in kinds.values()),
            replaced=sum(counts.replaced for counts in kinds.values()),
            by_kind=kinds,
            notes=[
                *self.notes,
                *(_SECOND_ROUND_NOTE.format(finder=finder) for finder in left_out_finders),
            ],
            swept=self.swept_count,
            inconclusive=dict(sorted(self.inconclusive.items())),
            leaks=0,
            position=self.position,
            changed=self.documents_in > 0,
            seconds=round(seconds, 2),
            plan_hash=self._given_plan.public_hash,
            state=str(self._given_state) if self._given_state is not None else None,
            shape=shape.describe() if (shape := self.layout.roles.shape) is not None else "",
            verify=self.settings.verify,
            not_searched=list_unsearched_forms(self.settings.verify),
            looked_for=describe_looked_for(self.plan),
            not_looked_for=describe_not_looked_for(self.plan.coverage()),
            stays_by_plan=describe_staying(self.plan.coverage()),
            models=list_models(self.plan),
        )


_first_process: list[int] = []  # id of the process in which the first stream was opened


def _refuse_fork() -> None:
    """Raise UsageError in a process that was forked from one that had a stream: the threads of
    Polars do not survive a fork, and Polars would wait for them forever. Other uses of Polars
    before the fork cannot be detected."""
    _first_process[:] = _first_process or [os.getpid()]
    if _first_process[0] != os.getpid():
        raise UsageError(
            "a stream in a process that was forked from one that had a stream would hang; start the"
            " process differently, such as with DataLoader(...,"
            " multiprocessing_context='forkserver'), or use num_workers=0"
        )


_worker_search: list[TextSearch] = []  # in a worker, which serves one stream only
# holds the custom kinds of that stream while the worker lives
_worker_context = contextlib.ExitStack()


def _search_in_worker(
    secret: bytes,
    is_public: bool,
    detection_spec: DetectionSpec,
    max_doc_matches: int,
    texts: Sequence[_NamedTexts],
) -> Sequence[SpanTable]:
    if not _worker_search:
        _worker_context.enter_context(custom_kinds(detection_spec.custom_kinds))
        _worker_search.append(
            TextSearch(Key(secret, is_public), detection_spec, max_doc_matches=max_doc_matches)
        )
    return _worker_search[0].run_columns(texts)


def choose_stream(
    plan: Plan | Path | str | None,
    state: Path | str | None,
    settings: Settings,
    changes: Sequence[str] = (),
    finders: Sequence[str] = (),
) -> tuple[Plan, Settings]:
    """The plan and the settings of a stream: without `plan`, or without options for columns, it
    goes on with those of its state."""
    saved = None if state is None else StreamState.read_options(Path(state))
    saved_plan, columns = saved or (None, {})
    if columns:
        earlier = Settings.of_columns(columns["roles"], columns["policies"])
        settings, _ = continue_settings(settings, earlier)
    return choose_stream_plan(plan, saved_plan, changes, finders), settings


@public_function("stream")
def stream(
    records: Any,
    /,
    *,
    plan: Plan | Path | str | None = None,
    state: Path | str | None = None,
    again: bool = False,
    **options: Unpack[StreamOptions],
) -> Iterator[Any]:
    """The records one after the other, sanitized: dictionaries for dictionaries, record batches for
    Arrow tables and batches.

    records  An iterable of dictionaries, Arrow record batches or Arrow tables; an Arrow table, a
    RecordBatchReader, or anything that gives
             an Arrow stream, such as a Polars frame or a relation of DuckDB. Up to `batch` of them
             are read before the first is returned, however slowly they arrive: use a small number
             for a source that pauses.
    plan     The name of a shipped plan, the path of a TOML file, or a `Plan`; by default that of
             the state, else `redact`.
    state    A private folder; with it a later call resumes where the last acknowledged batch ended.
             A batch is acknowledged when the record after it is requested, and at the end. Without
             it nothing is remembered, and with neither `seed` nor `key` every call has a key of its
             own.
    again    The records start from their beginning, and acknowledged ones are skipped; without it,
             they start after those.
    options  The settings of `sanitize stream --help`, such as `text_column="body"`.

    Records that cannot be processed are left out and stored in STATE/quarantine.
    Raises PlanError for a plan that needs the whole corpus, and what `run` raises.

    >>> import sanitize
    >>> records = [{"text": "Write to ann.lee@example.com"}, {"text": "no address"}]
    >>> list(sanitize.stream(records, plan="redact"))
    [{'text': 'Write to [EMAIL_ADDRESS]'}, {'text': 'no address'}]
    """
    if hasattr(records, "__arrow_c_stream__"):
        # an Arrow table, a Polars frame, a relation of DuckDB, ...
        records = pa.RecordBatchReader.from_stream(records)
    # check now, not when the first record is requested
    if isinstance(records, str | bytes | Path | Mapping) or not isinstance(records, Iterable):
        raise UsageError(
            f"stream: records is {name_type(records)}; expected an iterable of dictionaries, Arrow"
            " record batches or tables. Files are read by `sanitize stream FILE`"
        )
    chosen, settings = choose_stream(plan, state, settings_of("stream", options))
    to_stream_plan(chosen)
    return _iterate_in_context(records, chosen, state, settings, again)


def _iterate_in_context(
    source: Iterable[Any],
    plan: Plan,
    state: Path | str | None,
    settings: Settings,
    from_beginning: bool,
) -> Iterator[Any]:
    # custom kinds of the plan are active while a record is produced, not while the caller uses it
    context = contextvars.copy_context()
    records = _iterate_records(source, plan, state, settings, from_beginning)
    try:
        with python_names():
            while (record := context.run(next, records, _END)) is not _END:
                yield record
    finally:
        context.run(records.close)


_END = object()


def _iterate_records(
    source: Iterable[Any],
    plan: Plan,
    state: Path | str | None,
    settings: Settings,
    from_beginning: bool,
) -> Generator[Any]:
    with StreamProcessor(plan, state, settings, reader="stream") as processor:
        batches = read_iterable(source, settings.batch)
        with contextlib.closing(
            processor.process(
                skip_records(batches, processor.position) if from_beginning else batches
            )
        ) as steps:
            for step in steps:
                if isinstance(step.clean_batch, DictBatch):
                    yield from step.clean_batch.rows
                elif isinstance(step.clean_batch, ArrowBatch):
                    yield from step.clean_batch.table.combine_chunks().to_batches()
                processor.add_result(step)
                if not processor.is_text_missing:
                    processor.commit()
        processor.require_text_column()
        for note in processor.notes:
            warnings.warn(to_python_names(note), stacklevel=2)


def run_stream(
    inputs: Sequence[Path],
    output: Path | None,
    plan: Plan,
    state: Path | None,
    settings: Settings,
    *,
    stdin: int = 0,
    stdout: IO[bytes] | None = None,
    lines: bool = False,
) -> StreamResult:
    """`sanitize stream`: reads JSON lines (with `lines` texts) from standard input, or files;
    writes to standard output, a JSON lines file, or a Parquet folder.

    Returns the summary. A file that is given again is resumed after its acknowledged records;
    records on standard input are taken to follow the acknowledged ones.
    """
    private_folder.check_paths_disjoint(inputs, output, state)
    if lines and inputs:
        raise UsageError(
            "--lines reads texts from standard input; lines of text files are documents of"
            " `sanitize run --documents lines`"
        )
    if output is not None and not output.suffix:
        # a file ends with a batch, as only whole batches are acknowledged
        settings = replace(settings, batch=min(settings.batch, settings.rows_per_shard))
    with StreamProcessor(plan, state, settings) as processor:
        if state is None or not inputs:
            resume_note.set(lambda: _describe_resumption(processor.position, state))
        # survey every input before anything is written
        sources = [
            survey_path(path, settings.columns.roles, settings.max_doc_bytes, settings.batch)
            for path in inputs
        ]
        processor.splits.update(*(source.splits for source in sources))
        column_names = [names for source in sources for names in source.column_names]
        known_columns = set().union(*(columns for columns in column_names if columns is not None))
        for name, option in (
            settings.columns.option_by_column.items()
            if column_names and None not in column_names
            else ()
        ):
            if not {name, column_of_path(name)} & known_columns:
                raise UsageError(
                    f"--{option} {name}: there is no such column;"
                    f" {suggest_names(name, known_columns)}"
                )
        output_name = name_path(output) if output is not None else ""
        sink: Sink
        if output is None:
            if stdout is None and (sys.stdout is None or "stdout" in closed_streams):
                raise UsageError(
                    "the stream: standard output is closed; name a file or a folder with -o"
                )
            sink = JsonLinesStreamSink(stdout or sys.stdout.buffer)
        elif output.suffix in (".jsonl", ".ndjson"):
            sink = JsonLinesFileSink(output, processor.sinks.get(output_name))
        elif output.suffix:
            raise UsageError(
                f"{output}: a stream writes JSON lines (-o FILE.jsonl) or a folder of Parquet files"
                " (-o FOLDER, without a dot)"
            )
        else:
            sink = ParquetFolderSink(
                output, processor.sinks.get(output_name), settings.rows_per_shard
            )
        if not inputs:
            text_field = _get_text_field(settings) if lines else None
            batches = read_descriptor(
                stdin, settings.max_doc_bytes, settings.batch, text_field=text_field
            )
            processor.process_to_sink(batches, sink, output=output)
        for source in sources:
            processor.process_to_sink(
                processor.skip_acknowledged(source), sink, source=source.path, output=output
            )
            processor.source_notes += source.notes
        processor.finish(sink, output)
        return processor.summary()


def _describe_resumption(position: int, state: Path | None) -> str:
    """How a stream goes on that reads standard input, or has no state."""
    if state is None:
        return "without --state nothing is kept: the same command begins again, with all records"
    return (
        f"{position:,} records of standard input are acknowledged in {state}: send the same command"
        " the records after them"
    )


def _get_text_field(settings: Settings) -> str:
    """The field of the records that are made of lines of text. Raises UsageError for a path inside
    a field."""
    name = settings.columns.roles.text[0]
    if column_of_path(name) != name:
        raise UsageError(
            f"--text-column {name}: with --lines each record is one text; expected the name of a"
            " field, such as text"
        )
    return name
