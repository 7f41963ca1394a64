"""Rewrites the shards of a run, output increment by output increment: aggregates, edits, conversion
to the output format.

A shard is one task: its documents with all edits applied. Shards of increments that are already
published are not rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64
from sanitize.core.part_protocols import Aggregates
from sanitize.pipeline import append
from sanitize.pipeline.append import OutputIncrement
from sanitize.pipeline.erasure import erasure_scan
from sanitize.pipeline.run_results import ShardResult
from sanitize.pipeline.run_state import RunState
from sanitize.pipeline.whole_corpus_stages import RewriteInputs, aggregate_increment
from sanitize.stages import rewriting
from sanitize.stages.rewriting import ShardCounts
from sanitize.storage import formats
from sanitize.storage.files import file_sha256
from sanitize.storage.formats import PackTask, pack_shard, shard_path
from sanitize.storage.parquet_files import read_table
from sanitize.storage.private_folder import SPILL_FOLDER, TABLES_FOLDER, VALUES_FOLDER, VAULT_FOLDER
from sanitize.storage.task_records import Job, hash_json, output_sha256

_AggregatesByPart = Mapping[tuple[OutputIncrement, str], tuple[Aggregates, ...]]


@dataclass(frozen=True)
class RewrittenShards:
    """The shards of a run, and the aggregates that the editors needed, by increment and, with
    per_split, split."""

    results: tuple[ShardResult, ...]
    aggregates: _AggregatesByPart


class ErasedInTask(NamedTuple):
    """The file of name mentions (if it has rows), the ids of values and names, and the
    documents."""

    mention_files: list[Path]
    value_ids: tuple[int, ...]
    documents: list[int]


@dataclass(frozen=True)
class ShardRewriter:
    """Rewrites shards of increments whose aggregates are known."""

    state: RunState
    inputs: RewriteInputs
    aggregates: _AggregatesByPart

    def rewrite(
        self,
        increment: OutputIncrement,
        task_sweeps: Sequence[tuple[int, tuple[Path, ...]]],
        is_rerun: bool = False,
    ) -> list[ShardResult]:
        """Rewrite shards of an increment, each with its swept spans; returns their results. With
        ordered editors, one shard after the other: a shard avoids the variants of the shards before
        it, or of all others if it is rewritten again (`is_rerun`)."""
        state = self.state
        if not state.has_ordered_editors:
            return self._run_jobs(
                [self._create_job(increment, no, *sweep) for no, sweep in task_sweeps]
            )
        if state.index.has_repeated_ids:
            state.index.notes.append(
                'with avoid = "seen" draws depend on document ids nevertheless: no variant is'
                " generated twice"
            )
        results, surrogate_files = [], dict(enumerate(state.task_files("surrogate_forms")))
        surrogates_hash = hash_json(
            [file_sha256(path) for path in surrogate_files.values()] if is_rerun else []
        )
        for no in range(task_sweeps[0][0] if task_sweeps and not is_rerun else 0):
            # after the shards of earlier increments
            surrogates_hash = hash_json(surrogates_hash, file_sha256(surrogate_files[no]))
        for no, sweep in task_sweeps:
            earlier = tuple(
                path
                for other_no, path in surrogate_files.items()
                if other_no != no and (is_rerun or other_no < no)
            )
            job = self._create_job(
                increment,
                no,
                *sweep,
                other_surrogate_files=earlier,
                surrogates_hash=surrogates_hash,
            )
            results += self._run_jobs([job])
            surrogates_hash = hash_json(
                surrogates_hash, output_sha256(job, "surrogate_forms.parquet")
            )
        return results

    def reuse(self, increment: OutputIncrement) -> list[ShardResult]:
        """Results of the shards of a published increment, which stay as they are; raises
        OutputBroken if one has changed."""
        state = self.state
        sweep_files = state.task_files("sweep")
        task_sweeps = [
            (no, (path,) if path.is_file() and pq.read_metadata(path).num_rows else ())
            for no, path in enumerate(sweep_files)
            if increment.first_task <= no < increment.end_task
        ]
        rebuilt = self.rewrite(increment, task_sweeps)
        append.check_shards_unchanged(
            state.earlier_manifest["shards"][increment.first_task : increment.end_task],
            [shard.sha256 for shard in rebuilt],
            state.output,
        )
        return rebuilt

    def _run_jobs(self, jobs: Sequence[Job[ShardCounts]]) -> list[ShardResult]:
        """Run rewrite jobs; returns their shards, converted to the output format."""
        results = self.state.tasks.run("rewrite", jobs)
        shards = [
            ShardResult(**vars(result), sha256=output_sha256(job, "shard.parquet"))
            for job, result in zip(jobs, results, strict=True)
        ]
        return shards if self.state.format == formats.PARQUET else self._convert(jobs, shards)

    def _convert(
        self, jobs: Sequence[Job[ShardCounts]], shard_results: Sequence[ShardResult]
    ) -> list[ShardResult]:
        """Write the same shards in the output format; returns their results with the sizes and
        hashes of the new files."""
        state, pack_jobs = self.state, []
        for job, result in zip(jobs, shard_results, strict=True):
            task_no = job.task.task_no
            task = PackTask(
                shard_no=task_no,
                first_doc_no=job.task.first_doc_no,
                end_doc_no=job.task.end_doc_no,
                shard=shard_path(state.folder, formats.PARQUET, task_no),
                format=state.format,
                folder=state.index.workspace / SPILL_FOLDER / f"pack-{task_no}",
            )
            outputs = {f"shard{state.suffix}": shard_path(state.folder, state.format, task_no)}
            pack_jobs.append(
                state.create_job(
                    f"pack-{state.format}-{task_no:05d}",
                    pack_shard,
                    task,
                    outputs,
                    result.sha256,
                )
            )
        state.tasks.run("convert", pack_jobs)
        return [
            replace(
                result,
                bytes=shard_path(state.folder, state.format, job.task.task_no).stat().st_size,
                sha256=output_sha256(pack_job, f"shard{state.suffix}"),
            )
            for result, job, pack_job in zip(shard_results, jobs, pack_jobs, strict=True)
        ]

    def _create_job(
        self,
        increment: OutputIncrement,
        task_no: int,
        *sweep_files: Path,
        other_surrogate_files: tuple[Path, ...] = (),
        surrogates_hash: str = "",
    ) -> Job[ShardCounts]:
        state, index = self.state, self.state.index
        low, high = index.task_ranges[task_no]
        quarantined_docs = np.asarray(index.quarantine.column("doc_no"), np.int64)
        excluded_docs = quarantined_docs[(quarantined_docs >= low) & (quarantined_docs < high)]
        for path in self.inputs.drop_files:
            in_task = (pc.field("doc_no") >= low) & (pc.field("doc_no") < high)
            dropped = read_table(path, columns=["doc_no"], filters=in_task)
            excluded_docs = np.concatenate(
                [excluded_docs, np.asarray(dropped.column("doc_no"), np.int64)]
            )
        mention_files, erased_value_ids, erased_docs = self.find_erased_in_task(task_no)
        task = rewriting.RewriteTask(
            task_no=task_no,
            first_doc_no=low,
            end_doc_no=high,
            documents=index.documents,
            leaves=index.leaves,
            policies=index.policies,
            key=index.key,
            editors=tuple(state.plan.editors),
            aggregates=self.aggregates[increment, state.aggregated_split(task_no)],
            by_position=index.has_repeated_ids and not state.has_ordered_editors,
            occurrences=(
                self.inputs.selected.occurrence_files[task_no],
                *mention_files,
                *sweep_files,
            ),
            excluded_docs=(*excluded_docs.tolist(), *erased_docs),
            folder=index.workspace / SPILL_FOLDER / f"rewrite-{task_no}",
            erased_value_ids=erased_value_ids,
            erased_addresses=self.inputs.erased_mentions.addresses,
            other_surrogate_files=other_surrogate_files,
        )
        name = f"{task_no:05d}.parquet"
        # a shard without erased persons keeps its fingerprint, so that it is not rewritten
        erasure_depends_on: list[object] = (
            [erased_value_ids, [file_sha256(path) for path in mention_files], erased_docs]
            if erased_value_ids or erased_docs
            else []
        )
        addresses = self.inputs.erased_mentions.addresses
        if addresses and erasure_scan.edits_have_erased_address(
            state.folder / "edits" / name, addresses
        ):
            erasure_depends_on.append("shunned")
        depends_on: list[object] = [
            [file_sha256(path) for path in sweep_files],
            *erasure_depends_on,
        ]
        if (blacklist := self.inputs.blacklist) is not None and any(
            "blacklist" in editor.required_aggregates for editor in state.plan.editors
        ):
            depends_on.append(blacklist.sha256)
        folder_by_file = {
            "shard": "shards",
            "edits": "edits",
            "kept": "kept",
            "rows": "rows",
            "labels": "vault/labels",
        }
        if state.has_privacy_ledger:
            folder_by_file |= {"ledger": "ledger", "draws": "draws"}
        if state.has_ordered_editors:
            folder_by_file |= {"surrogate_forms": "surrogate_forms"}
            depends_on.append(surrogates_hash)
        return state.create_job(
            f"rewrite-{task_no:05d}",
            rewriting.rewrite_task,
            task,
            {
                f"{file}.parquet": state.folder / folder / name
                for file, folder in folder_by_file.items()
            },
            *depends_on,
            result_type=ShardCounts,
            checked_next=(
                frozenset({"shard.parquet"}) if index.settings.verify != "off" else frozenset()
            ),
            increment=increment,
        )

    def find_erased_in_task(self, task_no: int) -> ErasedInTask:
        """What is erased in one task."""
        erased_mentions = self.inputs.erased_mentions
        values, documents = (
            np.array(erased_mentions.value_ids, np.int64),
            np.empty(0, np.int64),
        )
        mention_files: list[Path] = []
        if len(values):
            values = values[
                np.isin(
                    values,
                    _read_column(
                        self.state.index.task_files(TABLES_FOLDER, "partial_counts")[task_no],
                        "value_id",
                    ),
                )
            ]
        if erased_mentions.mention_files:
            mention_file = erased_mentions.mention_files[task_no]
            mention_files = [mention_file] if pq.read_metadata(mention_file).num_rows else []
            documents = _read_column(erased_mentions.document_files[task_no], "doc_no")
        names = [np.unique(_read_column(path, "value_id")) for path in mention_files]
        value_ids = tuple(np.concatenate([values, *names]).tolist())
        return ErasedInTask(mention_files, value_ids, documents.tolist())


def rewrite_shards(state: RunState, inputs: RewriteInputs) -> RewrittenShards:
    """Rewrite all shards, or take over those that are published. The aggregates of an increment
    need the edits of those before it."""
    results: list[ShardResult] = []
    aggregates: dict[tuple[OutputIncrement, str], tuple[Aggregates, ...]] = {}
    for increment in state.output_increments:
        task_nos = range(increment.first_task, increment.end_task)
        for split in dict.fromkeys(map(state.aggregated_split, task_nos)):
            aggregates[increment, split] = aggregate_increment(state, increment, inputs, split)
        rewriter = ShardRewriter(state, inputs, aggregates)
        results += (
            rewriter.reuse(increment)
            if state.is_reusable(increment)
            else rewriter.rewrite(increment, [(no, ()) for no in task_nos])
        )
    _check_pseudonyms(state)
    return RewrittenShards(tuple(results), aggregates)


def rewrite_swept_shards(
    state: RunState, inputs: RewriteInputs, shards: RewrittenShards, task_nos: Sequence[int]
) -> RewrittenShards:
    """The shards after these were rewritten with the spans in their sweep files."""
    rewriter, sweep_files = (
        ShardRewriter(state, inputs, shards.aggregates),
        state.task_files("sweep"),
    )
    results = list(shards.results)
    for increment in state.output_increments:
        swept = [no for no in task_nos if increment.first_task <= no < increment.end_task]
        if not swept:
            continue
        task_sweeps = [(no, (sweep_files[no],)) for no in swept]
        rewritten = rewriter.rewrite(increment, task_sweeps, is_rerun=True)
        for no, result in zip(swept, rewritten, strict=True):
            results[no] = result
    return replace(shards, results=tuple(results))


def summarize_editors(state: RunState, aggregates: _AggregatesByPart) -> list[Mapping[str, Any]]:
    """What editors report beyond the counts of their kinds, from the aggregates of the last
    increment."""
    last = state.output_increments[-1]
    return [
        {"part": editor.use, **({"split": split} if split else {}), **report}
        for (increment, split), last_aggregates in aggregates.items()
        if increment == last
        for editor, editor_aggregates in zip(state.plan.editors, last_aggregates, strict=True)
        if (report := editor.summarize(editor_aggregates))
    ]


def _check_pseudonyms(state: RunState) -> None:
    """Raise UsageError if a value would have two pseudonyms in the output."""
    labels, first_new_task = (
        state.task_files(VAULT_FOLDER, "labels"),
        state.output_increments[-1].first_task,
    )
    append.check_pseudonyms_consistent(
        state.plan.editors,
        labels[:first_new_task],
        labels[first_new_task:],
        state.index.task_files(VALUES_FOLDER),
    )


def _read_column(path: Path, name: str) -> I64:
    """One int64 column of a small table of WORK."""
    return np.asarray(read_table(path, columns=[name]).column(0), np.int64)
