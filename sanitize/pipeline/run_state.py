"""State of a run: its index, plan, output folder (OUT), run hash and output increments (for
append); whether OUT is already up to date; the settings, costs and commands that are reported and
recorded. `PlannedRun` is what is known before the index is built, `RunState` what the stages of a
run (run.py) get as their first argument.
"""

from __future__ import annotations

import functools
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from sanitize.core.command_results import MeasuredRecall, to_json
from sanitize.engines.task_runner import TaskRunner
from sanitize.errors import OutputBroken, UsageError
from sanitize.pipeline import append
from sanitize.pipeline.append import OutputIncrement
from sanitize.pipeline.indexing import index_reuse
from sanitize.pipeline.indexing.index_build import IndexBuilder
from sanitize.pipeline.indexing.index_state import Index, IndexInputs, list_fields
from sanitize.pipeline.run_results import AppendedFiles, RunCosts, ShardResult
from sanitize.plans.plan import Plan, without_description
from sanitize.plans.settings import DESCRIPTION_SETTINGS, flag_of
from sanitize.stages import rewriting
from sanitize.storage import formats, publication, tombstones
from sanitize.storage.corpus import MANIFEST_VERSION, Corpus, Documents
from sanitize.storage.locks import require_unmoved
from sanitize.storage.private_folder import RUNS_FOLDER, TASKS_FOLDER, VAULT_FOLDER
from sanitize.storage.runs import publish_history
from sanitize.storage.runs.label_scores import read_scores
from sanitize.storage.runs.run_folders import PLAN_FILE
from sanitize.storage.task_records import Job
from sanitize.storage.tombstones import Tombstones
from sanitize.verification.leak_check import LEAK_CHECK_VERSION

T = TypeVar("T")
_BEFORE_ERASURE = "before an erasure was requested (sanitize subject --erase)"


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannedRun:
    """One plan over the inputs of an index, and the output folder that it publishes: known before
    the index is built."""

    inputs: IndexInputs  # what the index is built from
    tasks: TaskRunner  # runs the tasks of all stages
    plan: Plan
    output: Path
    erased: Tombstones
    # OUT in messages and in the summary, if not its path (a URL)
    display_name: str = ""
    # gets the manifest before anything is published, and raises to stop the run
    check_manifest: Callable[[Mapping[str, Any]], object] = lambda manifest: None
    # how many index increments each output increment and those before it cover; the first one
    # decides the run hash
    increment_ends: tuple[int, ...]
    # of the output to append to; `published_count`: its increments
    earlier_manifest: Mapping[str, Any] = field(default_factory=dict)
    published_count: int = 0

    @property
    def format(self) -> str:
        """The format of the shards."""
        return self.inputs.settings.format

    @property
    def suffix(self) -> str:
        """The suffix of the shards."""
        return formats.format_suffix(self.format)

    @functools.cached_property
    def run_hash(self) -> str:
        """The hash of the plan, the input and the options: everything that the results of the run
        depend on."""
        return self._compute_run_hash(self.increment_ends[0])

    @property
    def folder(self) -> Path:
        """The folder of the run in WORK."""
        return self.inputs.workspace / RUNS_FOLDER / self.run_hash

    @functools.cached_property
    def measured(self) -> MeasuredRecall | None:
        """What a labelled sample of the index says about its finders."""
        return read_scores(self.inputs.workspace, self.inputs.fingerprint)

    @property
    def blacklist_file(self) -> Path:
        """The word blacklist, in the vault of the run."""
        return self.folder / VAULT_FOLDER / "blacklist" / "00000.parquet"

    @property
    def has_privacy_ledger(self) -> bool:
        """True if an editor makes a privacy claim, so that what its mechanism spends is
        recorded."""
        return any(editor.privacy_unit for editor in self.plan.editors)

    @property
    def has_ordered_editors(self) -> bool:
        """True if an editor needs the replacements of all earlier shards, so that shards are
        rewritten one after the other."""
        return any(editor.is_sequential for editor in self.plan.editors)

    def _compute_run_hash(self, increment_count: int) -> str:
        """The hash of the plan and of everything its results depend on, over this many index
        increments."""
        versions = (rewriting.VERSION, LEAK_CHECK_VERSION)
        per_split = ["per split"] if self.inputs.settings.per_split else []
        # without this option, ids that hold values become codes
        kept_ids = self.inputs.settings.columns.policies.get("doc_id") == "keep"
        policies = self.inputs.policies_by_name
        paths = {str(path): policy for path, policy in policies.by_path.items()}
        return self.plan.hash(
            self.inputs.fingerprints[increment_count - 1],
            policies.by_column,
            versions,
            *([paths] if paths else []),
            *per_split,
            *(["kept ids"] if kept_ids else []),
        )

    def prepare_append(self) -> PlannedRun:
        """The run with the increment that is added to OUT. Raises UsageError if OUT does not exist
        (without `--replace`), or holds other files than the index."""
        append.check_plan_can_append(self.plan)
        increments, is_rebuild = self.inputs.increments, self.inputs.settings.replace
        exists = (self.output / "manifest.json").is_file()
        if not exists and not is_rebuild:
            # an index of several increments can only be published with --append
            alternative = (
                ""
                if len(self.inputs.closed_increments) > 1
                else "run the same command without --append first, or "
            )
            raise UsageError(
                f"{self.output}: does not exist, so nothing can be appended to it; {alternative}use"
                " --replace to create it from the whole index"
            )
        manifest: Mapping[str, Any] = {}
        if exists:
            corpus = Corpus.open(self.output)
            corpus.require_all_fields()
            manifest = corpus.manifest
        end_by_hash = {self._compute_run_hash(end): end for end in range(1, len(increments) + 1)}
        if manifest.get("run_hash") in end_by_hash:
            increment_ends = append.find_increment_ends(manifest, increments, self.output)
            if end_by_hash[str(manifest["run_hash"])] == increment_ends[0]:
                is_extended = increment_ends[-1] < len(increments)
                return replace(
                    self,
                    earlier_manifest=manifest,
                    published_count=len(increment_ends),
                    increment_ends=(
                        *increment_ends,
                        *([len(increments)] if is_extended else []),
                    ),
                )
        return self

    def summarize_costs(self, started_at: float, text_bytes: int) -> RunCosts:
        """Costs of this command by stage, its notes, and the paths of its results."""
        seconds, stages = time.monotonic() - started_at, dict(self.tasks.costs.costs)
        return RunCosts(
            notes=self.inputs.notes,
            text_bytes=text_bytes,
            stages=stages,
            seconds=round(seconds, 2),
            mb_per_s=round(text_bytes / 1e6 / max(seconds, 1e-9), 1),
            peak_rss_mb=max((stage.peak_rss_mb for stage in stages.values()), default=0.0),
            out=self.display_name or str(self.output),
            work=str(self.inputs.workspace),
        )

    def check_format(self) -> None:
        """Raise UsageError if the output format cannot hold the columns of the corpus."""
        columns = [
            field
            for field in self.inputs.survey.schema
            if self.inputs.policies.by_column[field.name] != "drop"
        ]
        formats.check_schema(self.format, pa.schema(columns))

    def describe_settings(self) -> dict[str, Any]:
        """The settings that decide the output, for the manifest."""
        settings, roles = self.inputs.settings, self.inputs.survey.roles
        roles = roles if roles.is_chosen else settings.columns.roles
        return {
            "rows_per_shard": settings.rows_per_shard,
            "max_doc_bytes": settings.max_doc_bytes,
            "max_doc_matches": settings.max_doc_matches,
            "verify": settings.verify,
            "sample": settings.sample,
            # without the shape: a later run recognises it again, and chooses the main text again;
            # patterns of file names may name people
            "roles": {
                name: value
                for name, value in asdict(roles).items()
                if name not in ("shape", "include")
                and (name not in ("is_chosen", "read_as", "lineage") or value)
            },
            # those that the user gave; the others follow from the input
            "policies": dict(settings.columns.policies),
            "erased": self.erased.counts,
            **({} if self.format == formats.PARQUET else {"format": self.format}),
            **({"per_split": True} if settings.per_split else {}),
            # only that the user gave a list, none of its contents
            **({"known": True} if settings.known else {}),
        }

    def is_output_current(self) -> bool:
        """True if OUT already is what this run would publish. Raises UsageError for an OUT from
        another plan, input or program, unless `--replace`."""
        if not self.output.exists():
            return False
        if not self.output.is_dir() or (
            any(self.output.iterdir()) and not (self.output / "manifest.json").is_file()
        ):
            raise UsageError(
                f"{self.output}: already exists and was not written by sanitize; use another -o, or"
                " move it away"
            )
        if not (self.output / "manifest.json").is_file():
            self.output.rmdir()
            return False
        corpus = Corpus.open(self.output)
        corpus.require_all_fields()
        is_extended = bool(self.earlier_manifest) and len(corpus.manifest["inputs"]) < len(
            self.inputs.input_files
        )
        is_same = (
            corpus.manifest_version == MANIFEST_VERSION
            and corpus.manifest.get("run_hash") == self.run_hash
            and (
                is_extended
                or corpus.manifest.get("settings", {}).get("verify") == self.inputs.settings.verify
            )
            and corpus.manifest["settings"].get("erased") == self.erased.counts
            and corpus.manifest["settings"].get("format", formats.PARQUET) == self.format
            and not self._find_changed_descriptions(corpus.manifest)
        )
        if is_same and is_extended:
            return False
        if is_same and corpus.manifest["summary"].get("measured") != to_json(self.measured):
            return False  # a sample was labelled since: only the pages change
        if is_same and self.inputs.settings.replace and not (self.folder / PLAN_FILE).is_file():
            # another plan's finders rebuilt the index: without the tables of this run, OUT cannot
            # be verified
            return False
        if is_same:
            try:
                corpus.check()
                if changes := publication.find_changed_files(
                    corpus.path, publication.read_mac_key(self.folder)
                ):
                    raise OutputBroken(
                        f"{corpus.path}: {'; '.join(changes)}; run again with --replace"
                    )
                return True
            except OutputBroken:
                if not self.inputs.settings.replace:
                    raise
        if not self.inputs.settings.replace:
            published_counts = Counter(
                entry.get("sha256") for entry in corpus.manifest.get("inputs", [])
            )
            current_counts = Counter(sha256 for _, sha256 in self.inputs.input_files)
            has_new_files = corpus.manifest.get("increments") or (
                published_counts and published_counts < current_counts
            )
            has_new_files = (
                has_new_files
                and corpus.manifest_version == MANIFEST_VERSION
                and not self.inputs.settings.append
                and self._has_plan_of(corpus.manifest)
            )
            difference = self._describe_difference(corpus.manifest)
            first_advice = "use --append to add the new files, or " if has_new_files else ""
            if difference == _BEFORE_ERASURE:
                # an erasure that was interrupted, or failed for this output
                first_advice = (
                    f"repeat that request first (sanitize subject {self.inputs.workspace} --match"
                    " FILE --erase), or "
                )
            raise UsageError(
                f"{self.display_name or self.output}: was made {difference}; {first_advice}"
                "use --replace to replace it once the new one is complete, or use another -o"
            )
        return False

    @property
    def description_settings(self) -> dict[str, str | None]:
        """What the user said about the dataset, by the names of the settings; None where nothing
        was said."""
        return {name: getattr(self.inputs.settings, name) for name in DESCRIPTION_SETTINGS}

    def _has_plan_of(self, manifest: Mapping[str, Any]) -> bool:
        """True if the published output was written with this plan, whatever its name then."""
        return without_description(manifest.get("plan", {})) == without_description(
            self.plan.public_settings()
        )

    def _find_changed_descriptions(self, manifest: Mapping[str, Any]) -> list[str]:
        """The settings of the description that are given and are not those of the published
        output."""
        published = manifest.get("description", {})
        return [
            name
            for name, text in self.description_settings.items()
            if text is not None and text != published.get(name, "")
        ]

    def _describe_difference(self, manifest: Mapping[str, Any]) -> str:
        """How the existing OUT differs from what this run would publish; continues the words "was
        made"."""
        if (version := manifest.get("format", MANIFEST_VERSION)) != MANIFEST_VERSION:
            return (
                f"by another version, whose manifest.json has format {version}, not"
                f" {MANIFEST_VERSION}"
            )
        published_files = [
            [entry.get("bytes"), entry.get("sha256")] for entry in manifest.get("inputs", [])
        ]
        if (
            published_files
            != self.inputs.input_files[
                : len(published_files) if self.inputs.settings.append else None
            ]
        ):
            return f"from another input ({self.inputs.describe_input_difference(published_files)})"
        if manifest.get("increments") and not self.inputs.settings.append:
            return f"in {len(manifest['increments'])} increments (--append)"
        if not self._has_plan_of(manifest):
            return "with another plan"
        if manifest.get("settings", {}).get("erased") != self.erased.counts:
            return _BEFORE_ERASURE
        if manifest.get("settings", {}).get("format", formats.PARQUET) != self.format:
            return "in another format (--format)"
        if names := self._find_changed_descriptions(manifest):
            return f"with another description ({', '.join(map(flag_of, names))})"
        return "with another key, other settings or another version"

    def confirm_before_swap(self, manifest_sha256: str) -> None:
        """Called just before OUT is swapped: checks that the input is unchanged and that OUT may be
        replaced, closes the increments and records the command."""
        require_unmoved(self.inputs.workspace)
        index_reuse.check_inputs_unchanged(self.inputs)
        self.is_output_current()
        command = {
            # one record, whichever links led to the folder
            "out": (self.display_name or os.path.realpath(self.output)),
            "inputs": self.inputs.input_set.display_names,
            "settings": self.inputs.settings.to_json(),
            "plan": self.plan.resolved_settings(),
            "run_hash": self.run_hash,
        }
        self.inputs.close_increments()
        publish_history.record_command(self.inputs.workspace, command, self.output, manifest_sha256)

    def start(self, index: Index) -> RunState:
        """The state of the run once its index is built."""
        return RunState(**{**list_fields(self), "inputs": index}, index=index)


def plan_run(
    builder: IndexBuilder,
    plan: Plan,
    output: Path,
    *,
    display_name: str = "",
    check_manifest: Callable[[Mapping[str, Any]], object] = lambda manifest: None,
) -> PlannedRun:
    """The run of a plan over the inputs of `builder`, which publishes OUT in one increment."""
    inputs = builder.inputs
    return PlannedRun(
        inputs=inputs,
        tasks=builder.tasks,
        plan=plan,
        output=output,
        erased=tombstones.read(inputs.workspace, inputs.key),
        display_name=display_name,
        check_manifest=check_manifest,
        increment_ends=(len(inputs.increments),),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class RunState(PlannedRun):
    """A planned run over an index that is built. The stages get it as their first argument."""

    index: Index

    @property
    def output_increments(self) -> tuple[OutputIncrement, ...]:
        """What OUT consists of: published increments, then the one that this run adds. Known when
        the index is built."""
        return append.build_output_increments(
            self.index.increments, self.increment_ends, len(self.index.task_ranges)
        )

    @property
    def task_nos(self) -> range:
        """The numbers of all tasks, which are those of the shards."""
        return range(len(self.index.task_ranges))

    def aggregated_split(self, task_no: int) -> str:
        """The split over which the aggregates of a task are computed; "" for the whole corpus
        (without --per-split)."""
        return self.index.task_splits[task_no] if self.index.settings.per_split else ""

    def counts_folder(self, increment: OutputIncrement, split: str) -> Path:
        """The folder of the aggregates of an increment, or with --per-split of one split of it."""
        return self.folder / f"counts{increment.record_suffix}{f'-{split}' if split else ''}"

    def task_files(self, *folder_names: str) -> list[Path]:
        """The files of a table in the run's folder, one per task."""
        return [self.folder.joinpath(*folder_names, f"{no:05d}.parquet") for no in self.task_nos]

    def summarize_append(self, shards: Sequence[ShardResult]) -> AppendedFiles | None:
        """The numbers of new files, documents and shards in OUT; None if nothing was appended.
        `shards` are the results of all shards of OUT."""
        *earlier, last = self.output_increments
        if not earlier or last.number <= self.published_count:
            return None
        files = append.describe_increments(self.output_increments, self.index.increments)[-1][
            "input_count"
        ]
        new_shards = shards[last.first_task : last.end_task]
        return AppendedFiles(
            files=files,
            documents=sum(shard.rows for shard in new_shards),
            shards=len(new_shards),
        )

    def select_readable_documents(self) -> Documents:
        """The documents of the last output increment whose files are still available; an append no
        longer needs the earlier ones."""
        documents, first_doc_no = (
            self.index.documents,
            self.index.task_ranges[self.output_increments[-1].first_task][0],
        )
        if len(self.output_increments) == 1:
            return documents
        return replace(
            documents,
            files=tuple(
                file
                for file in documents.files
                if file.first_doc_no >= first_doc_no and file.is_available()
            ),
        )

    def is_reusable(self, increment: OutputIncrement) -> bool:
        """True if an increment was published and no erasure was requested since: its shards stay as
        they are."""
        return (
            increment.number <= self.published_count
            and self.earlier_manifest["settings"].get("erased") == self.erased.counts
        )

    def find_increment(self, task_no: int) -> OutputIncrement:
        """The output increment that a task belongs to."""
        return next(
            increment for increment in self.output_increments if task_no < increment.end_task
        )

    def create_job(
        self,
        name: str,
        function: Callable[[Any], T],
        task: Any,
        outputs: Mapping[str, Path] | Path,
        *depends_on: object,
        result_type: type[T] | None = None,
        checked_next: frozenset[str] = frozenset(),
        increment: OutputIncrement | None = None,
    ) -> Job[T]:
        """A job of this plan, with its record in the run's folder. `increment`: its result depends
        on nothing after that increment."""
        return Job(
            function=function,
            result_type=result_type,
            task=task,
            record_path=self.folder / TASKS_FOLDER / f"{name}.json",
            fingerprint=self.index.record_fingerprint(
                "plan",
                self.run_hash,
                *depends_on,
                increment_index=increment.last_index_increment if increment else -1,
            ),
            outputs=outputs,
            checked_by_next_stage=checked_next,
            was_published=increment is not None and self.is_reusable(increment),
        )
