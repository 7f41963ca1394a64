"""Runs all pipeline stages for one plan and one corpus. Resumable: the results of finished tasks are reused.

    read -> find -> count -> drop -> blacklist -> edit and apply -> verify -> publish

Tasks are fixed ranges of `doc_no`; each leaves files and a record, so that the same command resumes where it was stopped. The results of a
stage are reused as long as everything they depend on is the same: another plan on the same WORK only repeats edit, apply and verify.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core import failpoints
from sanitize.core.display import CommandResult
from sanitize.core.parts import Aggregates
from sanitize.engines.local import LocalEngine
from sanitize.errors import UsageError
from sanitize.finders.known import check_listed_kinds
from sanitize.kinds.kind import custom_kinds
from sanitize.pipeline import append, canaries
from sanitize.pipeline.append import OutputIncrement, ReplacementIdsTask, replacement_ids_task
from sanitize.pipeline.index_build import FolderTask, IndexBuilder, Settings
from sanitize.pipeline.manifest import build_manifest, build_summary, get_library_versions, summarize_kinds
from sanitize.pipeline.run_state import RunState
from sanitize.plans.plan import Plan, load_plan
from sanitize.reporting.edit_samples import select_edit_samples
from sanitize.reporting.report_data import SAMPLE_COUNT, collect_report_tables, render_pages
from sanitize.stages import erasure_scan, privacy_ledger, rewriting
from sanitize.stages.aggregates import aggregate_for_editors
from sanitize.stages.corpus_pass import CorpusContext, run_droppers
from sanitize.stages.word_blacklist import NO_USER_MESSAGE, build_blacklist
from sanitize.storage import formats, remote_output, vault
from sanitize.storage.corpus import Corpus, file_sha256, write_json
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.publication import Job, hash_json, output_sha256, publish_corpus, run_job, shard_names
from sanitize.storage.remote_storage import is_url, require_local_path
from sanitize.storage.shard_packing import PackTask, pack_shard, shard_path
from sanitize.text.literal_search import LiteralMatcher, prepare_terms
from sanitize.verification.full_check import run_full_check
from sanitize.verification.leak_check import (
    UNSWEEPABLE_ADVICE,
    VerifyTask,
    find_forbidden_values,
    leak_error,
    raise_on_leaks,
    select_atomic_kinds,
    verify_task,
)
from sanitize.verification.sweep_terms import prepare_sweep_terms


class PipelineRun(RunState):
    """Runs one plan over the corpus of `index` and publishes OUT."""

    def __init__(
        self,
        index: IndexBuilder,
        plan: Plan,
        output: Path,
        check_manifest: Callable[[Mapping[str, Any]], object] = lambda manifest: None,
        display_name: str = "",
    ) -> None:
        """`check_manifest` gets the manifest before anything is published, and raises to stop the run. `display_name`: OUT in messages, if
        not its path."""
        super().__init__(index, plan, output, display_name)
        self.check_manifest = check_manifest
        self.has_privacy_ledger = any(editor.privacy_unit for editor in plan.editors)
        self.has_ordered_editors = any(editor.is_sequential for editor in plan.editors)
        self.erased_document_count = 0  # documents written by erased users
        self.sweep_term_files: tuple[Path, ...] = ()  # further terms that a full check searches for and its sweep redacts

    def sanitize(self) -> dict[str, Any]:
        """Rewrite, check and publish; returns the summary."""
        started_at = time.monotonic()
        for editor in self.plan.editors:
            editor.validate_settings(None)
        formats.check_schema(
            self.format, pa.schema([field for field in self.index.survey.schema if self.index.policies[field.name] != "drop"])
        )
        self.index.lock_output(self.output)
        self.index.notes += self.plan.ineffective_settings
        if self.index.settings.append:
            self.prepare_append()
        if self.plan.blacklist is not None and self.plan.blacklist.k > 1:
            # files that are used in place show now whether they name users; for the others this is known after reading
            units = self.index.survey.units
            if all(unit.in_place and "user_id" not in dict(unit.column_mapping).values() for unit in units):
                raise UsageError(NO_USER_MESSAGE)
        if self.is_output_current():
            return {**Corpus.open(self.output).manifest["summary"], "changed": False, **self.summarize_costs(started_at, 0)}
        index_counts = self.index.build()
        self.output_increments = append.build_output_increments(self.index.increments, self.increment_ends, len(self.index.task_ranges))
        for editor in self.plan.editors:
            editor.validate_settings(self.index.documents.schema)
        self._find_erased()
        self.erased_local_parts = (
            erasure_scan.find_erased_local_parts(self.index.task_files("vault", "values"), self.erased) if self.erased.value_ids else ()
        )
        with translate_disk_errors(self.index.workspace):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / "plan.json", self.plan.resolved_settings())
        failpoints.hit("run:plan_written")
        self.selection.select(self.create_job, self.erased.value_ids)
        drops = self._drop_documents()
        blacklist = self._build_blacklist(drops)
        aggregates_by_increment: dict[OutputIncrement, tuple[Aggregates, ...]] = {}
        shard_results: list[dict[str, Any]] = []
        for increment in self.output_increments:
            aggregates_by_increment[increment] = self._aggregate(drops, increment)
            shard_results += (
                self._reuse_shards(increment, aggregates_by_increment[increment])
                if self.is_reusable(increment)
                else self._rewrite_increment(increment, aggregates_by_increment[increment])
            )
        self._check_pseudonyms()
        verification = self._verify_shards(aggregates_by_increment, shard_results)
        with self.index.stage_costs.measure("drill"), translate_disk_errors(self.index.workspace):
            canary_counts = canaries.check_canaries(
                self.index.engine,
                self.plan,
                self.select_readable_documents(),
                vault.make_private_folder(self.index.workspace / "spill") / "canaries",
            )
        summary = build_summary(
            self.plan,
            self.plan_hash,
            documents=self.index.documents.count,
            quarantine=self.index.quarantine,
            kinds=self._summarize_kinds(index_counts["documents_by_kind"], (*self._list_erased_document_files(), *drops)),
            shard_results=shard_results,
            dropped=self._count_dropped(drops),
            blacklist=blacklist,
            editor_reports=[
                {"part": editor.use, **report}
                for editor, editor_aggregates in zip(self.plan.editors, aggregates_by_increment[self.output_increments[-1]], strict=True)
                if (report := editor.summarize(editor_aggregates))
            ],
            verification=verification,
            canaries=canary_counts,
            policies=self.index.policies,
            public_key=self.index.key.is_public,
            ledger=self._account_privacy(),
        )
        with self.index.stage_costs.measure("publish"):
            self._publish_output(summary, shard_results)
        return {**summary, **self.summarize_append(), "changed": True, **self.summarize_costs(started_at, index_counts["text_bytes"])}

    def _account_privacy(self) -> list[dict[str, Any]]:
        """What mechanisms with a privacy claim spent, one entry each; adds a note for those with the user's own model."""
        if not self.has_privacy_ledger:
            return []
        documents = self.index.documents
        names = [f"{no:05d}.parquet" for no in range(len(self.index.task_ranges))]
        with self.index.stage_costs.measure("ledger"), translate_disk_errors(self.index.workspace):
            accounts = privacy_ledger.build_accounts(
                self.plan.editors,
                [self.folder / "ledger" / name for name in names],
                [self.folder / "draws" / name for name in names],
                is_only_editor=len(self.plan.editors) == 1,
                public_key=self.index.key.is_public,
                prior=privacy_ledger.find_prior_runs(self.folder.parent, self.plan_hash),
                versions=get_library_versions(),
                users=documents.read(0, documents.count, ["user_id"]) if "user_id" in documents.schema.names else None,
            )
        self.index.notes += [privacy_ledger.OWN_MODEL_WARNING for account in accounts if account["own_model"]]
        return accounts

    def _find_erased(self) -> None:
        """Find what the index does not have of erased persons: mentions of their names, and the documents they wrote."""
        if not (self.erased.names or self.erased.user_hashes):
            return
        index, jobs = self.index, []
        for no, (low, high) in enumerate(index.task_ranges):
            task = erasure_scan.ErasureScanTask(
                first_doc_no=low,
                end_doc_no=high,
                documents=index.documents,
                leaves=index.leaves,
                erased=self.erased,
                key=index.key,
                folder=index.workspace / "spill" / f"find_erased-{no}",
            )
            outputs = {f"{name}.parquet": self.folder / "erasure" / name / f"{no:05d}.parquet" for name in ("mentions", "documents")}
            depends_on = (self.erased.names, self.erased.user_hashes)
            jobs.append(
                self.create_job(
                    f"find_erased-{no:05d}", erasure_scan.erasure_scan_task, task, outputs, *depends_on, increment=self.find_increment(no)
                )
            )
        self.erased_document_count = sum(result["written"] for result in index.run_tasks("forget", jobs))

    def _create_corpus_pass(self, drops: Sequence[Path]) -> CorpusContext:
        """The corpus view for parts that read all texts before anything is edited (corpus pass)."""
        folder = self.folder / "corpus_passes"
        folder.mkdir(exist_ok=True)
        quarantine_file = folder / "quarantine.parquet"
        pq.write_table(self.index.quarantine.select(["doc_no"]), quarantine_file)
        return CorpusContext(
            engine=self.index.engine,
            run_jobs=self.index.run_tasks,
            documents=self.index.documents,
            leaves=self.index.leaves,
            ranges=self.index.task_ranges,
            occurrence_files=self.selection.occurrence_files,
            folder=folder,
            spill=self.index.workspace / "spill",
            fingerprint=self.index.record_fingerprint(
                "plan", self.plan_hash, *([self.erased.user_hashes] if self.erased_document_count else [])
            ),
            excluded_doc_files=(quarantine_file, *drops),
        )

    def _drop_documents(self) -> tuple[Path, ...]:
        """Run the droppers; returns the files of the table `drops`, one for each dropper, in plan order."""
        if not self.plan.droppers:
            return ()
        with self.index.stage_costs.measure("drop"), translate_disk_errors(self.index.workspace):
            return run_droppers(self._create_corpus_pass(self._list_erased_document_files()), self.plan.droppers, self.folder / "drops")

    def _list_erased_document_files(self) -> tuple[Path, ...]:
        """Files with the documents that erased users wrote, which all parts of the plan ignore; empty if there are none."""
        return (
            tuple(self.folder / "erasure" / "documents" / f"{no:05d}.parquet" for no in range(len(self.index.task_ranges)))
            if self.erased_document_count
            else ()
        )

    def _build_blacklist(self, drops: Sequence[Path]) -> dict[str, Any] | None:
        """Write the blacklist of the remaining documents to the vault of this run; returns its counts, or None if the plan has none."""
        if self.plan.blacklist is None:
            return None
        task_files = self.index.task_files("tables", "occurrences") if self.erased.names or self.erased.user_hashes else []
        erased_document_files, mention_files = (
            [self.folder / "erasure" / name / path.name for path in task_files] for name in ("documents", "mentions")
        )
        with self.index.stage_costs.measure("blacklist"), translate_disk_errors(self.index.workspace):
            blacklist_counts = build_blacklist(
                self.plan.blacklist,
                self._create_corpus_pass((*drops, *erased_document_files)),
                kinds=self.plan.find.kinds,
                key=self.index.key,
                out=self.blacklist_file,
                erased_value_ids=self.erased.value_ids,
                mention_files=mention_files,
            )
            self.blacklist_hash = file_sha256(self.blacklist_file)
        return blacklist_counts

    def _count_dropped(self, drops: Sequence[Path]) -> list[dict[str, Any]]:
        """Numbers of dropped documents by part and reason: erased ones first, then in plan order."""
        erased = (
            [{"part": rewriting.ERASURE_PART, "reason": "erased", "documents": self.erased_document_count}]
            if self.erased_document_count
            else []
        )
        return erased + [
            {"part": dropper.use, "reason": dropper.reason, "documents": pq.read_metadata(path).num_rows}
            for dropper, path in zip(self.plan.droppers, drops, strict=True)
        ]

    def _summarize_kinds(self, documents_by_kind: dict[str, int], drops: Sequence[Path]) -> dict[str, dict[str, Any]]:
        """Counts by kind in the documents that remain."""
        remaining = self.selection.count_remaining_kinds(bool(drops))
        return summarize_kinds(self.plan, self.index.value_counts_file, self.selection.skipped_files, documents_by_kind, remaining)

    def _reuse_shards(self, increment: OutputIncrement, aggregates: tuple[Aggregates, ...]) -> list[dict[str, Any]]:
        """Results of the shards of a published increment, which stay as they are; raises OutputBroken if one has changed."""
        sweep_files = {no: self.folder / "sweep" / f"{no:05d}.parquet" for no in range(increment.first_task, increment.end_task)}
        swept_tasks = {no for no, sweep in sweep_files.items() if sweep.is_file() and pq.read_metadata(sweep).num_rows}
        rebuilt = self._rewrite_shards(aggregates, [(no, (sweep,) if no in swept_tasks else ()) for no, sweep in sweep_files.items()])
        append.check_shards_unchanged(self.earlier_manifest["shards"][increment.first_task : increment.end_task], rebuilt, self.output)
        return rebuilt

    def _collect_replacement_ids(self, increment: OutputIncrement) -> list[Path]:
        """Files with the value ids that the replacements of all shards before an increment equal; empty if no editor keeps first
        occurrences, or if no shard is earlier."""
        if not (increment.first_task and any(editor.keep and "firsts" in editor.required_aggregates for editor in self.plan.editors)):
            return []
        jobs = []
        for no in range(increment.first_task):
            name = f"{no:05d}.parquet"
            edits = self.folder / "edits" / name
            task = ReplacementIdsTask(edits=edits, key=self.index.key, folder=self.index.workspace / "spill" / f"replacement_ids-{no}")
            jobs.append(
                self.create_job(
                    f"replacement_ids-{no:05d}",
                    replacement_ids_task,
                    task,
                    {"replacement_ids.parquet": self.folder / "replacement_ids" / name},
                    file_sha256(edits),
                )
            )
        self.index.run_tasks("count", jobs)
        return [self.folder / "replacement_ids" / f"{no:05d}.parquet" for no in range(increment.first_task)]

    def _check_pseudonyms(self) -> None:
        """Raise UsageError if a value would have two pseudonyms in the output."""
        labels, first_new_task = (
            [self.folder / "vault" / "labels" / path.name for path in self.index.task_files("tables")],
            self.output_increments[-1].first_task,
        )
        append.check_pseudonyms_consistent(
            self.plan.editors, labels[:first_new_task], labels[first_new_task:], self.index.task_files("vault", "values")
        )

    def _aggregate(self, drops: Sequence[Path], increment: OutputIncrement) -> tuple[Aggregates, ...]:
        """The aggregates that the editors need for an increment, in plan order; they cover the corpus up to its end."""
        drops = (*self._list_erased_document_files(), *drops)
        replacement_id_files = self._collect_replacement_ids(increment)
        corpus_context = self._create_corpus_pass(drops) if any(editor.pass_schemas for editor in self.plan.editors) else None
        folder_task = FolderTask(self.index.workspace / "spill" / "counts")

        def write_aggregates(task: FolderTask) -> dict[str, Any]:
            aggregates = aggregate_for_editors(
                self.index.engine,
                tuple(self.plan.editors),
                occurrences=self.selection.occurrence_files[: increment.end_task],
                is_selection=bool(self.plan.find.selection_rules),
                value_counts_file=self.index.value_counts_file,
                value_files=self.index.task_files("vault", "values")[: increment.end_task],
                drop_files=drops,
                folder=task.folder,
                filter_first_occurrences=lambda first_occurrences: append.remove_replacement_values(
                    first_occurrences, replacement_id_files
                ),
                corpus=corpus_context,
                blacklist_file=self.blacklist_file if self.plan.blacklist else None,
            )
            return {"editors": [{name: str(path) for name, path in tables.tables.items()} for tables in aggregates]}

        with self.index.stage_costs.measure("count"), translate_disk_errors(self.index.workspace):
            depends_on = [
                [file_sha256(path) for path in drops],
                *([[file_sha256(path) for path in replacement_id_files]] if replacement_id_files else []),
            ]
            record = run_job(
                self.create_job(
                    f"counts{increment.record_suffix}",
                    write_aggregates,
                    folder_task,
                    self.folder / f"counts{increment.record_suffix}",
                    *depends_on,
                    increment=increment,
                )
            )
        # tables written to the task folder have been moved to the run's folder; the others belong to the index
        return tuple(
            Aggregates(
                {
                    name: self.folder / f"counts{increment.record_suffix}" / Path(path).name
                    if Path(path).parent == folder_task.folder
                    else Path(path)
                    for name, path in tables.items()
                }
            )
            for tables in record["editors"]
        )

    def _verify_shards(
        self, aggregates: Mapping[OutputIncrement, tuple[Aggregates, ...]], shard_results: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Run the leak check on every shard. A shard with remaining values in its text is swept, rewritten (`shard_results` is updated) and
        checked again. Raises LeakFound for what is left then. Returns the `verify` entry of the summary."""
        mode = self.index.settings.verify
        if mode == "off":
            return {"mode": mode, "values_checked": 0, "swept": 0}
        task_nos = range(len(self.index.task_ranges))
        with self.index.stage_costs.measure("verify"), translate_disk_errors(self.index.workspace):
            values_checked = run_job(
                self.create_job(
                    "forbidden_values",
                    lambda task: {
                        "values": LiteralMatcher.write(
                            self.index.task_files("vault", "values"),
                            self.plan.leak_checked_kinds,
                            task.folder / "forbidden_values.parquet",
                            self.erased.value_ids,
                            self.selection.excluded_value_ids,
                        )
                    },
                    FolderTask(self.index.workspace / "spill" / "forbidden_values"),
                    {"forbidden_values.parquet": self.forbidden_values_file},
                    *([self.erased.value_ids] if self.erased.value_ids else []),
                )
            )["values"]
            # the search terms are prepared once and shared by all workers
            spill, memory = self.index.workspace / "spill", self.index.settings.memory_bytes
            self.forbidden_values_index = prepare_terms(self.forbidden_values_file, spill / "search_terms", memory)
            if mode == "full":
                values, erased_and_excluded = (
                    self.index.task_files("vault", "values"),
                    (self.erased.value_ids, self.selection.excluded_value_ids),
                )
                shards = [self._create_verify_task(no) for no in task_nos]
                self.search_passes, self.sweep_term_files = prepare_sweep_terms(
                    self.index.engine, shards, values, self.plan.leak_checked_kinds, *erased_and_excluded, spill, memory
                )
        is_reused = [self.is_reusable(self.find_increment(no)) for no in task_nos]
        results = self.index.run_tasks(
            "verify", [self._create_verify_task(no, is_recheck=is_reused[no]) for no in task_nos], function=verify_task
        )
        append.check_earlier_shards_clean([result for result, reused in zip(results, is_reused, strict=True) if reused], self.output)
        swept_task_nos = [no for no in task_nos if results[no]["swept"]]
        swept = sum(results[no]["swept"] for no in swept_task_nos)
        if swept_task_nos:
            # a value that the finders missed becomes an occurrence; only what is left after the sweep is a leak
            swept_by_increment = [
                (increment, [no for no in swept_task_nos if increment.first_task <= no < increment.end_task])
                for increment in self.output_increments
            ]
            rewritten = [
                rewritten_shard
                for increment, nos in swept_by_increment
                if nos
                for rewritten_shard in self._rewrite_increment(increment, aggregates[increment], nos)
            ]
            recheck_results = self.index.run_tasks(
                "verify", [self._create_verify_task(no, is_recheck=True) for no in swept_task_nos], function=verify_task
            )
            for no, rewritten_shard, result in zip(swept_task_nos, rewritten, recheck_results, strict=True):
                shard_results[no], results[no] = rewritten_shard, result
        raise_on_leaks(results, rechecked=set(swept_task_nos))
        failpoints.hit("run:leak_checked")
        report = {"mode": mode, "values_checked": values_checked, "swept": swept, "kinds": sorted(self.plan.leak_checked_kinds)}
        return report if mode == "fast" else {**report, **self._run_full_check()}

    def _run_full_check(self) -> dict[str, Any]:
        """Search every byte of the shards in all forms. The pages are checked when they are written. Raises LeakFound."""
        workspace = self.index.workspace
        with self.index.stage_costs.measure("verify"), translate_disk_errors(workspace):
            names = shard_names([increment.end_task - increment.first_task for increment in self.output_increments], self.suffix)
            shards = [(self._create_verify_task(no), f"data/{name}") for no, name in enumerate(names)]
            result = run_full_check(
                self.index.engine, shards, [], self.search_passes, workspace / "spill" / "full_check", erased_names=self.erased.names
            )
        if result["findings"]:
            raise leak_error(self.display_name or str(self.output), result["findings"], "", f"nothing was published. {UNSWEEPABLE_ADVICE}")
        return {"forms": result["forms"], "ambiguous": result["ambiguous"]}

    def _find_page_leaks(self, texts: dict[str, str]) -> list[tuple[str, str]]:
        """Forbidden values in the pages of OUT, as (page, kind)."""
        mode, folder = self.index.settings.verify, vault.make_private_folder(self.index.workspace / "spill") / "pages"
        leaks = find_forbidden_values(self.forbidden_values_index, texts) if mode != "off" else []
        if mode == "full" and not leaks:
            folder.mkdir(exist_ok=True)
            for name, text in texts.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(text, "utf-8")
            files = [(folder / name, name) for name in texts]
            engine = LocalEngine(workers=1, spill=folder)  # a few small pages: starting workers would cost more
            result = run_full_check(
                engine, [], files, self.search_passes, self.index.workspace / "spill" / "full_check", list(texts), self.erased.names
            )
            leaks = [(finding.file, finding.kind) for finding in result["findings"]]
        return leaks

    def _run_rewrite_jobs(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Run rewrite jobs; returns their results with the `sha256` of each shard, converted to the output format."""
        results = self.index.run_tasks("apply", jobs)
        shards = [{**result, "sha256": output_sha256(job, "shard.parquet")} for job, result in zip(jobs, results, strict=True)]
        return shards if self.format == formats.PARQUET else self._convert_shards(jobs, shards)

    def _convert_shards(self, jobs: Sequence[Job], shard_results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Write the same shards in the output format; returns their results with the sizes and hashes of the new files."""
        pack_jobs = []
        for job, result in zip(jobs, shard_results, strict=True):
            no = job.task.no
            task = PackTask(
                shard_no=no,
                first_doc_no=job.task.first_doc_no,
                end_doc_no=job.task.end_doc_no,
                shard=shard_path(self.folder, formats.PARQUET, no),
                format=self.format,
                folder=self.index.workspace / "spill" / f"pack-{no}",
            )
            outputs = {f"shard{self.suffix}": shard_path(self.folder, self.format, no)}
            pack_jobs.append(self.create_job(f"pack-{self.format}-{no:05d}", pack_shard, task, outputs, result["sha256"]))
        packed = self.index.run_tasks("pack", pack_jobs)
        return [
            {**result, **packed_result, "sha256": output_sha256(pack_job, f"shard{self.suffix}")}
            for result, packed_result, pack_job in zip(shard_results, packed, pack_jobs, strict=True)
        ]

    def _rewrite_increment(
        self, increment: OutputIncrement, aggregates: tuple[Aggregates, ...], swept_tasks: Sequence[int] | None = None
    ) -> list[dict[str, Any]]:
        """Rewrite all shards of an increment, or only those of `swept_tasks`, with what the leak check swept in them."""
        if swept_tasks is None:
            return self._rewrite_shards(aggregates, [(no, ()) for no in range(increment.first_task, increment.end_task)])
        return self._rewrite_shards(aggregates, [(no, (self.folder / "sweep" / f"{no:05d}.parquet",)) for no in swept_tasks], is_rerun=True)

    def _rewrite_shards(
        self, aggregates: tuple[Aggregates, ...], task_sweeps: Sequence[tuple[int, tuple[Path, ...]]], is_rerun: bool = False
    ) -> list[dict[str, Any]]:
        """Rewrite shards, each with its swept spans. With ordered editors, one shard after the other: each shard avoids the variants of the
        shards before it, and a shard that is rewritten again (`is_rerun`) avoids those of all others."""
        task_nos = range(len(self.index.task_ranges))
        if not self.has_ordered_editors:
            return self._run_rewrite_jobs([self._create_rewrite_job(aggregates, no, *sweep) for no, sweep in task_sweeps])
        if self.index.by_position:
            self.index.notes.append('with avoid = "seen" draws depend on document ids nevertheless: no variant is generated twice')
        results, surrogate_files = [], {no: self.folder / "surrogate_ids" / f"{no:05d}.parquet" for no in task_nos}
        surrogates_hash = hash_json([file_sha256(path) for path in surrogate_files.values()] if is_rerun else [])
        for no in range(task_sweeps[0][0] if task_sweeps and not is_rerun else 0):  # after the shards of earlier increments
            surrogates_hash = hash_json(surrogates_hash, file_sha256(surrogate_files[no]))
        for no, sweep in task_sweeps:
            earlier = tuple(path for other_no, path in surrogate_files.items() if other_no != no and (is_rerun or other_no < no))
            job = self._create_rewrite_job(aggregates, no, *sweep, other_surrogate_files=earlier, surrogates_hash=surrogates_hash)
            results += self._run_rewrite_jobs([job])
            surrogates_hash = hash_json(surrogates_hash, output_sha256(job, "surrogate_ids.parquet"))
        return results

    def _create_rewrite_job(
        self,
        aggregates: tuple[Aggregates, ...],
        task_no: int,
        *sweep_files: Path,
        other_surrogate_files: tuple[Path, ...] = (),
        surrogates_hash: str = "",
    ) -> Job:
        low, high = self.index.task_ranges[task_no]
        doc_no_filter = [("doc_no", ">=", low), ("doc_no", "<", high)]
        excluded_docs = np.asarray(self.index.quarantine.column("doc_no"), np.int64)
        excluded_docs = excluded_docs[(excluded_docs >= low) & (excluded_docs < high)]
        for path in sorted((self.folder / "drops").glob("*.parquet")) if self.plan.droppers else ():
            dropped = pq.read_table(path, columns=["doc_no"], filters=doc_no_filter, partitioning=None)
            excluded_docs = np.concatenate([excluded_docs, np.asarray(dropped.column("doc_no"), np.int64)])
        mention_files, erased_value_ids, erased_docs = self._find_erased_in_task(task_no)
        task = rewriting.RewriteTask(
            no=task_no,
            first_doc_no=low,
            end_doc_no=high,
            documents=self.index.documents,
            leaves=self.index.leaves,
            policies=self.index.policies,
            key=self.index.key,
            editors=tuple(self.plan.editors),
            aggregates=aggregates,
            by_position=self.index.by_position and not self.has_ordered_editors,
            occurrences=(self.selection.occurrence_files[task_no], *mention_files, *sweep_files),
            excluded_docs=(*excluded_docs.tolist(), *erased_docs),
            folder=self.index.workspace / "spill" / f"rewrite-{task_no}",
            erased_value_ids=erased_value_ids,
            erased_local_parts=self.erased_local_parts,
            other_surrogate_files=other_surrogate_files,
        )
        name = f"{task_no:05d}.parquet"
        # a shard without erased persons keeps its fingerprint, so that it is not rewritten
        erasure_depends_on = (
            [erased_value_ids, [file_sha256(path) for path in mention_files], erased_docs] if erased_value_ids or erased_docs else []
        )
        erasure_depends_on += (
            ["shunned"]
            if self.erased_local_parts and erasure_scan.edits_have_local_part(self.folder / "edits" / name, self.erased_local_parts)
            else []
        )
        depends_on = [[file_sha256(path) for path in sweep_files], *erasure_depends_on]
        if any("blacklist" in editor.required_aggregates for editor in self.plan.editors):
            depends_on.append(self.blacklist_hash)
        folder_by_file = {"shard": "shards", "edits": "edits", "kept": "kept", "rows": "rows", "labels": "vault/labels"}
        if self.has_privacy_ledger:
            folder_by_file |= {"ledger": "ledger", "draws": "draws"}
        if self.has_ordered_editors:
            folder_by_file |= {"surrogate_ids": "surrogate_ids"}
            depends_on.append(surrogates_hash)
        outputs = {f"{file}.parquet": self.folder / folder / name for file, folder in folder_by_file.items()}
        checked_next = frozenset({"shard.parquet"}) if self.index.settings.verify != "off" else frozenset[str]()
        return self.create_job(
            f"rewrite-{task_no:05d}",
            rewriting.rewrite_task,
            task,
            outputs,
            *depends_on,
            checked_next=checked_next,
            increment=self.find_increment(task_no),
        )

    def _find_erased_in_task(self, task_no: int) -> tuple[list[Path], tuple[int, ...], list[int]]:
        """What is erased in one task: the file of name mentions (if it has rows), the ids of values and names, and the documents."""
        values, documents = np.array(self.erased.value_ids, np.int64), np.empty(0, np.int64)
        mention_files: list[Path] = []
        if len(values):
            values = values[np.isin(values, _read_column(self.index.task_files("tables", "partial_counts")[task_no], "value_id"))]
        if self.erased.names or self.erased.user_hashes:
            mention_file, document_file = (self.folder / "erasure" / name / f"{task_no:05d}.parquet" for name in ("mentions", "documents"))
            mention_files, documents = (
                [mention_file] if pq.read_metadata(mention_file).num_rows else [],
                _read_column(document_file, "doc_no"),
            )
        names = [np.unique(_read_column(path, "value_id")) for path in mention_files]
        return mention_files, tuple(np.concatenate([values, *names]).tolist()), documents.tolist()

    def _create_verify_task(self, task_no: int, is_recheck: bool = False) -> VerifyTask:
        name = f"{task_no:05d}.parquet"
        (self.folder / "sweep").mkdir(exist_ok=True)
        low, high = self.index.task_ranges[task_no]
        return VerifyTask(
            shard_no=task_no,
            first_doc_no=low,
            end_doc_no=high,
            shard_path=shard_path(self.folder, self.format, task_no),
            forbidden_values=self.forbidden_values_index,
            sweep_terms=self.sweep_term_files,
            kept_originals=self.folder / "kept" / name,
            edits=self.folder / "edits" / name,
            occurrences=self.index.workspace / "tables" / "occurrences" / name,
            atomic_kinds=select_atomic_kinds(self.plan.leave),
            row_doc_nos=self.folder / "rows" / name,
            documents=self.index.documents,
            leaves=self.index.leaves,
            sweep_path=self.folder / "sweep" / (f"recheck-{name}" if is_recheck else name),
            erased_names=self.erased.names,
            value_counts=self.index.value_counts_file
            if self.has_ordered_editors or task_no < self.output_increments[-1].first_task
            else None,
            columns=tuple(name for name in self.index.documents.schema.names if self.index.policies[name] != "drop"),
        )

    def _publish_output(self, summary: dict[str, Any], shard_results: list[dict[str, Any]]) -> None:
        files = [(size, sha256) for size, sha256 in self.index.input_files]
        increments = append.describe_increments(self.output_increments, self.index.increments)
        shards = [shard_path(self.folder, self.format, no) for no in range(len(shard_results))]
        sidecar_files: dict[str, str] = {}
        if self.format != formats.PARQUET:
            names_and_paths = list(zip(shard_names([increment["shards"] for increment in increments], self.suffix), shards, strict=True))
            sidecar_files = formats.get_format(self.format).sidecar_files(names_and_paths)
        manifest = build_manifest(
            summary,
            self.plan,
            files,
            shard_results,
            seed=self.index.settings.seed,
            settings=self.describe_settings(),
            increments=increments,
            sidecar_files=sidecar_files,
        )
        self.check_manifest(manifest)
        report_folder = vault.make_private_folder(self.index.workspace / "spill") / "report"
        # samples come from the last increment: the input files of earlier ones may be missing now
        edits = self.folder / "edits" / f"{self.output_increments[-1].first_task:05d}.parquet"
        samples = (
            select_edit_samples(self.index.documents, self.index.leaves, edits, SAMPLE_COUNT)
            if self.select_readable_documents().files
            else []
        )
        with translate_disk_errors(self.index.workspace):
            swept = self.index.settings.verify != "off"
            report_tables = collect_report_tables(self.index.engine, self.index.workspace, self.folder, samples, report_folder, swept=swept)
        with vault.set_umask(self.index.user_umask):  # published files get the permissions of the user's other files
            publish_corpus(
                self.output,
                shards=[(path, result["sha256"]) for path, result in zip(shards, shard_results, strict=True)],
                shards_per_increment=[increment["shards"] for increment in increments],
                text_files={**render_pages(manifest, report_tables), **sidecar_files},
                manifest=manifest,
                before_swap=self.confirm_before_swap,
                find_leaks=self._find_page_leaks,
            )


def _read_column(path: Path, name: str) -> npt.NDArray[np.int64]:
    """One int64 column of a small table of WORK."""
    return np.asarray(pq.read_table(path, columns=[name], partitioning=None).column(0), np.int64)


def run(
    inputs: Sequence[Path | str] | Path | str,
    out: Path | str,
    plan: Plan | str = "rmft",
    work: Path | str | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Sanitize a corpus: index, rewrite, verify, and publish OUT with one rename. Returns the summary (`run --json`).

    `plan` is the name of a shipped plan, the path of a TOML file, or a `Plan` from `load_plan`.

    Raises a `SanitizeError` whose `exit_code` is that of the command; OUT is then unchanged.
    """
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    plan = load_plan(plan) if isinstance(plan, str) else plan
    settings = settings or Settings()
    remote = remote_output.RemoteOutput(str(out)) if is_url(out) else None
    work = remote_output.require_workspace(work, str(out)) if remote else remote_output.workspace_path(work, out)
    out = remote_output.mirror_path(work, str(out)) if remote else require_local_path(out)
    out = Path(os.path.realpath(out)) if out.is_symlink() else out  # a link is followed, not replaced
    if remote is not None:
        remote_output.check_urls_disjoint(inputs, remote.redacted_url)
    vault.check_paths_disjoint(inputs, None if remote else out, work)
    if settings.known:
        with custom_kinds(plan.custom_kinds):
            check_listed_kinds(settings.known, plan.find.kinds, plan.name)
    plan = plan.with_known_values(settings.known)
    with IndexBuilder(inputs, work, settings, plan.detection_spec) as index:
        if remote is not None:
            return CommandResult("run", _run_to_url(index, plan, out, remote))
        summary = PipelineRun(index, plan, out).sanitize()
        index.delete_fetched_inputs()
        return CommandResult("run", summary)


def _run_to_url(index: IndexBuilder, plan: Plan, output: Path, prefix: remote_output.RemoteOutput) -> dict[str, Any]:
    """A run that publishes OUT to a folder in WORK (`output`) and then uploads it."""
    index.user_umask = 0o077  # the folder in WORK stays private; the uploaded copy is the published one
    run = PipelineRun(index, plan, output, display_name=prefix.redacted_url)
    with prefix.hold_lock(index.workspace):
        # the plan hash of an output that is appended to is that of its first increment
        plan_hash = Corpus.open(output).manifest["plan_hash"] if index.settings.append and output.is_dir() else run.plan_hash
        prefix.check_replaceable(plan_hash, index.settings.replace)
        summary = run.sanitize()
        with index.stage_costs.measure("upload"):
            changed = prefix.publish(output, keep_versions=index.settings.keep_versions, before_switch=index.check_inputs_unchanged)
    index.delete_fetched_inputs()
    return {**summary, "changed": changed}


def find(
    inputs: Sequence[Path | str] | Path | str, work: Path | str, settings: Settings | None = None, plan: Plan | str = "rmft"
) -> dict[str, Any]:
    """Build only the index of a corpus in WORK; a later `run` with any plan that has the same finders reuses it. Returns its counts."""
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    work = remote_output.workspace_path(work)
    vault.check_paths_disjoint(inputs, None, work)
    settings = settings or Settings()
    plan = (load_plan(plan) if isinstance(plan, str) else plan).with_known_values(settings.known)
    with IndexBuilder(inputs, work, settings, plan.detection_spec) as index:
        return CommandResult("find", index.build())
