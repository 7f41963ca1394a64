"""Stages of a run that need the whole corpus before a text is edited: the scan for erased persons,
the droppers, the word blacklist, and the aggregates of the editors.

Each function takes the state of the run and the results of earlier stages, and returns its own
result; tables lie in the run's folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.command_results import BlacklistCounts, DroppedDocuments
from sanitize.core.part_protocols import Aggregates
from sanitize.engines.task_runner import FolderTask
from sanitize.pipeline import append
from sanitize.pipeline.append import OutputIncrement, ReplacementFormsTask, replacement_forms_task
from sanitize.pipeline.column_values import ColumnValues
from sanitize.pipeline.erasure import erasure_scan, mailboxes
from sanitize.pipeline.occurrence_selection import VALUE_ID_SCHEMA, SelectedOccurrences
from sanitize.pipeline.run_state import RunState
from sanitize.stages import batch_rewriting
from sanitize.stages.aggregates import AggregateSources, aggregate_for_editors
from sanitize.stages.corpus_pass import CorpusContext, run_droppers
from sanitize.stages.word_blacklist import build_blacklist
from sanitize.storage.files import file_sha256
from sanitize.storage.private_folder import SPILL_FOLDER, VALUES_FOLDER
from sanitize.storage.runs.run_folders import ERASED_VALUES_FILE, read_value_ids
from sanitize.storage.task_records import run_job
from sanitize.text.erased_addresses import ErasedAddresses


@dataclass(frozen=True, kw_only=True)
class ErasedMentions:
    """What the index does not have of erased persons. The files have one entry per task; all are
    empty if no tombstone lists names or users, and `document_files` also if these users wrote no
    document."""

    # of all erased values: those of the tombstones, and what `mailboxes.find_erased_values` adds
    value_ids: tuple[int, ...] = ()
    mention_files: tuple[Path, ...] = ()  # mentions of their names, as rows of `occurrences`
    document_files: tuple[Path, ...] = ()  # `doc_no` of the documents that erased users wrote
    document_count: int = 0  # of these documents
    addresses: ErasedAddresses | None = None  # which no replacement may have


@dataclass(frozen=True, kw_only=True)
class WordBlacklist:
    """The blacklist of the remaining documents."""

    path: Path
    sha256: str
    counts: BlacklistCounts  # without the masked words


@dataclass(frozen=True)
class AggregateFiles:
    """For each editor, the files of its aggregates by name, relative to WORK."""

    editors: Sequence[Mapping[str, Path]]


@dataclass(frozen=True, kw_only=True)
class RewriteInputs:
    """What the stages before rewriting decide over the whole corpus."""

    erased_mentions: ErasedMentions
    selected: SelectedOccurrences
    drop_files: tuple[Path, ...]  # one per dropper
    blacklist: WordBlacklist | None
    column_values: ColumnValues


def find_erased_mentions(state: RunState) -> ErasedMentions:
    """Find what the index does not have of erased persons: mentions of their names, and the
    documents they wrote. Find in the index which values are theirs."""
    index, erased = state.index, state.erased
    mention_files: tuple[Path, ...] = ()
    document_files: tuple[Path, ...] = ()
    document_count = 0
    if erased.names or erased.user_hashes:
        jobs = []
        mention_files, document_files = (
            tuple(state.task_files("erasure", name)) for name in ("mentions", "documents")
        )
        for no, (low, high) in enumerate(index.task_ranges):
            task = erasure_scan.ErasureScanTask(
                first_doc_no=low,
                end_doc_no=high,
                documents=index.documents,
                leaves=index.leaves,
                erased=erased,
                key=index.key,
                folder=index.workspace / SPILL_FOLDER / f"find_erased-{no}",
            )
            outputs = {
                "mentions.parquet": mention_files[no],
                "documents.parquet": document_files[no],
            }
            depends_on = (erased.names, erased.user_hashes)
            jobs.append(
                state.create_job(
                    f"find_erased-{no:05d}",
                    erasure_scan.erasure_scan_task,
                    task,
                    outputs,
                    *depends_on,
                    result_type=erasure_scan.ErasureCounts,
                    increment=state.find_increment(no),
                )
            )
        document_count = sum(
            result.authored_documents for result in state.tasks.run("find_erased", jobs)
        )
    value_ids, value_files = _find_erased_values(state), index.task_files(VALUES_FOLDER)
    return ErasedMentions(
        value_ids=value_ids,
        mention_files=mention_files,
        document_files=document_files,
        document_count=document_count,
        addresses=(
            ErasedAddresses.find(erased, index.key, value_files, value_ids) if value_ids else None
        ),
    )


def _find_erased_values(state: RunState) -> tuple[int, ...]:
    """The ids of all values of erased persons; written to a table of the run too where this needs
    the key, which `verify` does not have."""
    index, erased = state.index, state.erased
    if not (erased.value_ids or erased.mailbox_hashes):
        return ()
    value_files = index.task_files(VALUES_FOLDER)

    def write_erased_values(task: FolderTask) -> None:
        value_ids = mailboxes.find_erased_values(value_files, erased, index.key)
        pq.write_table(
            pa.table([np.array(value_ids, np.int64)], schema=VALUE_ID_SCHEMA),
            task.folder / "values.parquet",
        )

    job = state.create_job(
        "erased_values",
        write_erased_values,
        FolderTask(index.workspace / SPILL_FOLDER / "erased_values"),
        {"values.parquet": state.folder / ERASED_VALUES_FILE},
        erased.value_ids,
        erased.mailbox_hashes,
        mailboxes.VERSION,
    )
    run_job(job)
    return read_value_ids([state.folder / ERASED_VALUES_FILE])


def drop_documents(
    state: RunState, erased_mentions: ErasedMentions, occurrence_files: Sequence[Path]
) -> tuple[Path, ...]:
    """Run the droppers; returns the files of the table `drops`, one for each dropper, in plan
    order."""
    if not state.plan.droppers:
        return ()
    excluded = erased_mentions.document_files if erased_mentions.document_count else ()
    with state.tasks.measure("drop"):
        return run_droppers(
            _create_corpus_context(state, erased_mentions, occurrence_files, excluded),
            state.plan.droppers,
            state.folder / "drops",
        )


def build_word_blacklist(
    state: RunState,
    erased_mentions: ErasedMentions,
    occurrence_files: Sequence[Path],
    drop_files: tuple[Path, ...],
) -> WordBlacklist | None:
    """Write the blacklist of the remaining documents to the vault of this run; None if the plan has
    none."""
    if state.plan.blacklist is None:
        return None
    with state.tasks.measure("blacklist"):
        counts = build_blacklist(
            state.plan.blacklist,
            _create_corpus_context(
                state,
                erased_mentions,
                occurrence_files,
                (*drop_files, *erased_mentions.document_files),
            ),
            kinds=state.plan.find.kinds,
            key=state.index.key,
            out=state.blacklist_file,
            erased_value_ids=erased_mentions.value_ids,
            mention_files=erased_mentions.mention_files,
        )
        return WordBlacklist(
            path=state.blacklist_file, sha256=file_sha256(state.blacklist_file), counts=counts
        )


def aggregate_increment(
    state: RunState,
    increment: OutputIncrement,
    inputs: RewriteInputs,
    split: str = "",
) -> tuple[Aggregates, ...]:
    """The aggregates that the editors need for an increment, in plan order; they cover the corpus
    up to its end, or with `split` only that split of it. Values that a variant must not equal are
    always those of the whole corpus."""
    index, erased_mentions = state.index, inputs.erased_mentions
    occurrence_files, blacklist = inputs.selected.occurrence_files, inputs.blacklist
    split_tasks = [
        no
        for no, own_split in enumerate(index.task_splits[: increment.end_task])
        if not split or own_split == split
    ]
    excluded = (
        *(erased_mentions.document_files if erased_mentions.document_count else ()),
        *inputs.drop_files,
    )
    replacement_form_files = _collect_replacement_forms(state, increment)
    needs_corpus_pass = any(editor.pass_schemas for editor in state.plan.editors)
    corpus_context = (
        _create_corpus_context(state, erased_mentions, occurrence_files, excluded)
        if needs_corpus_pass
        else None
    )
    folder_task = FolderTask(index.workspace / SPILL_FOLDER / "counts")
    value_files = index.task_files(VALUES_FOLDER)[: increment.end_task]
    column_value_files = inputs.column_values.list_files(increment.end_task)

    def write_aggregates(task: FolderTask) -> AggregateFiles:
        sources = AggregateSources(
            engine=state.tasks.engine,
            occurrences=[occurrence_files[no] for no in split_tasks],
            is_selection=bool(state.plan.find.selection_rules or split),
            value_counts_file=index.value_counts_file,
            value_files=value_files,
            column_value_files=column_value_files,
            drop_files=excluded,
            folder=task.folder,
            key=index.key,
            increment_starts=[
                (earlier.first_task, index.task_ranges[earlier.first_task][0])
                for earlier in state.output_increments[: increment.number]
            ],
            blacklist_file=blacklist.path if blacklist else None,
        )
        aggregates = aggregate_for_editors(
            sources,
            tuple(state.plan.editors),
            corpus=corpus_context,
            filter_first_occurrences=lambda first_occurrences: append.remove_replacement_values(
                first_occurrences, replacement_form_files, value_files, index.key
            ),
        )
        return AggregateFiles(
            [
                {
                    name: Path(os.path.relpath(path, index.workspace))
                    for name, path in tables.tables.items()
                }
                for tables in aggregates
            ]
        )

    folder = state.counts_folder(increment, split)
    with state.tasks.measure("aggregate"):
        depends_on = [
            "paths relative to WORK",
            [file_sha256(path) for path in excluded],
            *(
                [[file_sha256(path) for path in replacement_form_files]]
                if replacement_form_files
                else []
            ),
            *([[file_sha256(path) for path in column_value_files]] if column_value_files else []),
        ]
        job = state.create_job(
            folder.name,
            write_aggregates,
            folder_task,
            folder,
            *depends_on,
            result_type=AggregateFiles,
            increment=increment,
        )
        files = run_job(job)
    # tables written to the task folder have been moved to the run's folder; the others belong to
    # the index
    task_folder = folder_task.folder.relative_to(index.workspace)
    return tuple(
        Aggregates(
            {
                name: (folder / path.name if path.parent == task_folder else index.workspace / path)
                for name, path in tables.items()
            }
        )
        for tables in files.editors
    )


def count_dropped(
    state: RunState, erased_mentions: ErasedMentions, drop_files: Sequence[Path]
) -> list[DroppedDocuments]:
    """Numbers of dropped documents by part and reason: erased ones first, then in plan order."""
    erased = DroppedDocuments(
        part=batch_rewriting.ERASURE_PART,
        reason="erased",
        documents=erased_mentions.document_count,
    )
    return [erased] * bool(erased.documents) + [
        DroppedDocuments(
            part=dropper.use, reason=dropper.reason, documents=pq.read_metadata(path).num_rows
        )
        for dropper, path in zip(state.plan.droppers, drop_files, strict=True)
    ]


def _create_corpus_context(
    state: RunState,
    erased_mentions: ErasedMentions,
    occurrence_files: Sequence[Path],
    excluded_doc_files: tuple[Path, ...],
) -> CorpusContext:
    """The corpus view for parts that read all texts before anything is edited (corpus pass)."""
    index, folder = state.index, state.folder / "corpus_passes"
    folder.mkdir(exist_ok=True)
    quarantine_file = folder / "quarantine.parquet"
    pq.write_table(index.quarantine.select(["doc_no"]), quarantine_file)
    return CorpusContext(
        engine=state.tasks.engine,
        run_jobs=state.tasks.run,
        documents=index.documents,
        leaves=index.leaves,
        ranges=index.task_ranges,
        occurrence_files=occurrence_files,
        folder=folder,
        spill=index.workspace / SPILL_FOLDER,
        fingerprint=index.record_fingerprint(
            "plan",
            state.run_hash,
            *([state.erased.user_hashes] if erased_mentions.document_count else []),
        ),
        excluded_doc_files=(quarantine_file, *excluded_doc_files),
    )


def _collect_replacement_forms(state: RunState, increment: OutputIncrement) -> list[Path]:
    """Files with the forms of the replacements of all shards before an increment; empty if no
    editor keeps first occurrences, or if no shard is earlier."""
    if not (
        increment.first_task
        and any(
            editor.keep and "first_occurrences" in editor.required_aggregates
            for editor in state.plan.editors
        )
    ):
        return []
    files, jobs = state.task_files("replacement_forms")[: increment.first_task], []
    for no, edits in enumerate(state.task_files("edits")[: increment.first_task]):
        name, outputs = f"replacement_forms-{no}", {"replacement_forms.parquet": files[no]}
        task = ReplacementFormsTask(
            edits=edits, key=state.index.key, folder=state.index.workspace / SPILL_FOLDER / name
        )
        jobs.append(
            state.create_job(
                f"replacement_forms-{no:05d}",
                replacement_forms_task,
                task,
                outputs,
                file_sha256(edits),
            )
        )
    state.tasks.run("aggregate", jobs)
    return files
