"""The leak check of a run: searches every rewritten shard, has swept shards rewritten and checked
again, and searches the pages of OUT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core import failpoints
from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.command_results import CanarySample, LeakCheckCounts
from sanitize.core.keys import compute_value_ids
from sanitize.engines.local import LocalEngine
from sanitize.kinds.kind import all_kinds
from sanitize.pipeline import append
from sanitize.pipeline.column_values import ColumnValues
from sanitize.pipeline.run_state import RunState
from sanitize.pipeline.shard_rewriting import RewrittenShards, rewrite_swept_shards
from sanitize.pipeline.whole_corpus_stages import RewriteInputs
from sanitize.storage import private_folder, table_schemas
from sanitize.storage.formats import shard_path
from sanitize.storage.parquet_files import open_table_writer, read_table
from sanitize.storage.publication import shard_names
from sanitize.storage.runs.run_folders import find_unselected_values
from sanitize.verification.attribution import DrawTimes
from sanitize.verification.leak_check import (
    UNSWEEPABLE_ADVICE,
    count_removed_values,
    find_values_in_texts,
    leak_error,
    raise_on_leaks,
)
from sanitize.verification.published.file_check import check_files
from sanitize.verification.search_terms import (
    ValueCounts,
    list_searched_forms,
    list_unsearched_forms,
    write_terms,
)
from sanitize.verification.shard_check import ShardFindings, select_atomic_kinds, verify_task
from sanitize.verification.shard_reading import VerifyTask, find_renamed_columns

MAX_SWEEPS = 3  # of one shard


@dataclass(frozen=True, kw_only=True)
class CheckedShards:
    """The shards after the leak check, swept where it found a value, and what is needed to search
    the pages of OUT for the same values."""

    state: RunState
    shards: RewrittenShards
    report: LeakCheckCounts  # the `verify` entry of the summary
    terms: tuple[Path, ...] = ()  # empty if nothing is checked
    # of input files and shards, by the SHA-256 that the pages name
    file_sizes: Mapping[str, int] = field(default_factory=dict)

    def find_page_leaks(self, texts: dict[str, str]) -> list[tuple[str, str]]:
        """Removed values in the pages of OUT, as (page, kind)."""
        leaks = find_values_in_texts(self.terms, texts)
        if leaks or self.report.mode != "full":
            return leaks
        spill = private_folder.make_private_folder(
            self.state.index.workspace / private_folder.SPILL_FOLDER
        )
        folder = spill / "pages"
        folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        result = check_files(
            # a few small pages: starting workers would cost more
            LocalEngine(workers=1, spill=folder),
            [],
            [(folder / name, name) for name in texts],
            self.terms,
            own_files=list(texts),
            erased_names=self.state.erased.names,
            file_sizes=self.file_sizes,
        )
        return [(finding.file, finding.kind) for finding in result.findings]

    def select_publishable_samples(self, samples: Sequence[CanarySample]) -> list[CanarySample]:
        """The samples of invented people without those whose value occurs in the corpus, or that
        have a removed value, by chance."""
        index = self.state.index
        value_ids = [
            int(
                compute_value_ids(
                    to_large_string(kind.normalise(pl.Series([kind.hits[0][1]]))),
                    kind.name,
                    index.key,
                )[0]
            )
            for kind in (all_kinds()[sample.kind] for sample in samples)
        ]
        found = pl.scan_parquet(index.value_counts_file, glob=False).filter(
            pl.col("value_id").is_in(value_ids)
        )
        found_ids = set(found.select("value_id").collect()["value_id"])
        remaining = {
            f"sample {number}": sample
            for number, sample in enumerate(samples)
            if value_ids[number] not in found_ids
        }
        texts = {
            name: f"{sample.kind}\n{sample.before}\n{sample.after}"
            for name, sample in remaining.items()
        }
        # all in one search first, because leaks are rare; encoded values and erased names are only
        # searched once no plain value is left
        while (
            texts
            and self.find_page_leaks({"samples": "\n".join(texts.values())})
            and (leaks := self.find_page_leaks(texts))
        ):
            for name, _ in leaks:
                remaining.pop(name, None)
                texts.pop(name, None)
        return list(remaining.values())


def check_shards(state: RunState, inputs: RewriteInputs, shards: RewrittenShards) -> CheckedShards:
    """Run the leak check on every shard. A shard with remaining values in its text is swept,
    rewritten from `inputs` and checked again, up to `MAX_SWEEPS` times: a shard that is
    rewritten has other variants. Raises LeakFound for what is left then."""
    mode = state.index.settings.verify
    report = LeakCheckCounts(
        mode=mode,
        forms=list_searched_forms(mode),
        not_searched=list_unsearched_forms(mode),
        files=len(shards.results) + 3,  # manifest, card and report
    )
    if mode == "off":
        return CheckedShards(state=state, shards=shards, report=report)
    checks = _ShardChecks.prepare(state, mode, inputs)
    is_reused = [state.is_reusable(state.find_increment(no)) for no in state.task_nos]
    results = checks.verify(
        [checks.create_task(no, is_recheck=is_reused[no]) for no in state.task_nos]
    )
    append.check_earlier_shards_clean(
        [result for result, reused in zip(results, is_reused, strict=True) if reused], state.output
    )
    swept_task_nos = [no for no in state.task_nos if results[no].swept]
    # a value that the finders missed becomes an occurrence; only what is left after the sweeps is a
    # leak
    to_rewrite = swept_task_nos
    for sweep_no in range(MAX_SWEEPS):
        if not to_rewrite:
            break
        if sweep_no > 0:
            for no in to_rewrite:
                checks.add_recheck_to_sweep(no)
        shards = rewrite_swept_shards(state, inputs, shards, to_rewrite)
        tasks = [checks.create_task(no, is_recheck=True) for no in to_rewrite]
        for no, result in zip(
            to_rewrite, state.tasks.run("verify", tasks, function=verify_task), strict=True
        ):
            results[no] = result
        to_rewrite = [no for no in to_rewrite if results[no].swept]
    raise_on_leaks(results, set(swept_task_nos))
    failpoints.hit("run:leak_checked")
    sweep_files = state.task_files("sweep")
    inconclusive = [result.inconclusive for result in results]
    if mode == "full":
        inconclusive.append(checks.check_files(results))
    by_kind = Counter[str]()
    for counts in inconclusive:
        for (kind, _), times in counts.items():
            by_kind[kind] += times
    input_sizes = {sha256: size for size, sha256 in state.index.input_files}
    shard_sizes = {result.sha256: result.bytes for result in shards.results}
    return CheckedShards(
        state=state,
        shards=shards,
        report=replace(
            report,
            values_checked=checks.value_counts.searched,
            values_removed=checks.count_removed(inputs),
            ambiguous_values=checks.value_counts.common,
            swept=sum(pq.read_metadata(sweep_files[no]).num_rows for no in swept_task_nos),
            kinds=sorted(state.plan.leak_checked_kinds),
            unchecked_kinds=sorted(
                set(state.plan.editor_no_by_kind) - set(state.plan.leak_checked_kinds)
            ),
            inconclusive=dict(sorted(by_kind.items())),
        ),
        terms=checks.terms,
        file_sizes=input_sizes | shard_sizes,
    )


@dataclass(frozen=True)
class _ShardChecks:
    """The search terms of a run and its check tasks. The terms are prepared once and shared by all
    workers."""

    state: RunState
    mode: str
    column_values: ColumnValues
    terms: tuple[Path, ...]
    value_counts: ValueCounts
    include_ids: tuple[int, ...]

    @classmethod
    def prepare(cls, state: RunState, mode: str, inputs: RewriteInputs) -> _ShardChecks:
        """Write the search terms of the removed values, and of those of columns."""
        index, column_values = state.index, inputs.column_values
        value_files = index.task_files(private_folder.VALUES_FOLDER)
        # values without a selected occurrence
        exclude_ids = find_unselected_values(value_files, inputs.selected.value_id_files)
        folder = index.workspace / private_folder.SPILL_FOLDER / "terms"
        include_ids = (
            *inputs.erased_mentions.value_ids,
            *sorted({*column_values.value_ids} - {*exclude_ids}),
        )
        with state.tasks.measure("verify"):
            counts = write_terms(
                [*value_files, *column_values.files],
                state.plan.leak_checked_kinds,
                folder,
                index.settings.memory_bytes,
                include_ids=include_ids,
                exclude_ids=exclude_ids,
                check_mode=mode,
            )
        return cls(state, mode, column_values, (folder,), counts, include_ids)

    def count_removed(self, inputs: RewriteInputs) -> int:
        """How many of the values that were searched for were removed somewhere, after all
        sweeps."""
        state, index = self.state, self.state.index
        sweep_files = [path for path in state.task_files("sweep") if path.is_file()]
        with state.tasks.measure("verify"):
            return count_removed_values(
                state.tasks.engine,
                self.value_counts,
                state.plan.leak_checked_kinds,
                [*index.task_files(private_folder.VALUES_FOLDER), *self.column_values.files],
                [*inputs.selected.occurrence_files, *sweep_files],
                state.task_files("kept"),
                self.include_ids,
                private_folder.make_private_folder(index.workspace / private_folder.SPILL_FOLDER),
            )

    def verify(self, tasks: Sequence[VerifyTask]) -> list[ShardFindings]:
        """The results of the tasks."""
        return self.state.tasks.run("verify", tasks, function=verify_task)

    def create_task(self, task_no: int, is_recheck: bool = False) -> VerifyTask:
        """The check of one shard. What it sweeps is for `rewrite_swept_shards`; that of a
        recheck, for `add_recheck_to_sweep`."""
        state, index, name = self.state, self.state.index, f"{task_no:05d}.parquet"
        sweep_file, recheck_file = self._sweep_files(task_no)
        sweep_file.parent.mkdir(exist_ok=True)
        low, high = index.task_ranges[task_no]
        draws = DrawTimes(
            value_counts=index.value_counts_file,
            column_values=tuple(self.column_values.files),
            increment_starts=tuple(
                index.task_ranges[one.first_task][0]
                for one in state.output_increments
                if one.first_task < one.end_task
            ),
            sequential_parts=tuple(
                editor.use for editor in state.plan.editors if editor.is_sequential
            ),
        )
        return VerifyTask(
            shard_no=task_no,
            first_doc_no=low,
            end_doc_no=high,
            shard_path=shard_path(state.folder, state.format, task_no),
            terms=self.terms,
            check_mode=self.mode,
            values=index.workspace / private_folder.VALUES_FOLDER / name,
            kept_originals=state.folder / "kept" / name,
            edits=state.folder / "edits" / name,
            occurrences=index.workspace / private_folder.OCCURRENCES_FOLDER / name,
            atomic_kinds=select_atomic_kinds(state.plan.leave),
            row_doc_nos=state.folder / "rows" / name,
            documents=index.documents,
            leaves=index.leaves,
            sweep_path=recheck_file if is_recheck else sweep_file,
            erased_names=state.erased.names,
            renamed_columns=find_renamed_columns(asdict(index.settings.columns.roles)),
            draws=draws,
            columns=tuple(index.policies.list_columns("sanitize", "keep", "pseudonymize")),
        )

    def add_recheck_to_sweep(self, task_no: int) -> None:
        """Add what the recheck of a shard swept to what was swept in it before, for
        `rewrite_swept_shards`."""
        sweep_file, recheck_file = self._sweep_files(task_no)
        spans = pa.concat_tables(
            [read_table(path) for path in (sweep_file, recheck_file)]
        ).unify_dictionaries()
        keys = ["doc_no", "cell", "start_byte", "end_byte"]
        rows = (
            pl.DataFrame(spans.select(keys))
            .with_row_index("row")
            .unique(keys, keep="first")
            .sort(keys)["row"]
        )
        path = self.state.index.workspace / private_folder.SPILL_FOLDER / "sweep.parquet"
        with open_table_writer(path, table_schemas.OCCURRENCES.schema) as out:
            out.write_table(spans.take(rows.to_arrow()))
        path.rename(sweep_file)

    def _sweep_files(self, task_no: int) -> tuple[Path, Path]:
        """The files of what was swept in a shard, and of what its recheck sweeps."""
        folder = self.state.folder / "sweep"
        return folder / f"{task_no:05d}.parquet", folder / f"recheck-{task_no:05d}.parquet"

    def check_files(self, results: Sequence[ShardFindings]) -> Mapping[tuple[str, str], int]:
        """Search the bytes of the shards outside of their rows, which `verify_task` has checked;
        returns the inconclusive matches, by kind and form. The pages of OUT are checked when they
        are written. Raises LeakFound."""
        state, index = self.state, self.state.index
        with state.tasks.measure("verify"):
            names = shard_names(
                [
                    increment.end_task - increment.first_task
                    for increment in state.output_increments
                ],
                state.suffix,
                index.task_splits,
            )
            found = check_files(
                state.tasks.engine,
                [(self.create_task(no), f"data/{name}") for no, name in enumerate(names)],
                [],
                self.terms,
                erased_names=state.erased.names,
                checked_bytes=[result.plain_bytes for result in results],
            )
        if found.findings:
            named = {one.file for one in found.findings if one.location == "file name"}
            numbers = {f"data/{name}": f"shard {no}" for no, name in enumerate(names)}
            findings = [
                replace(one, file=numbers[one.file]) if one.file in named else one
                for one in found.findings
            ]
            advice = (
                "Rename the split whose name is a value, in the input"
                if named
                else UNSWEEPABLE_ADVICE
            )
            raise leak_error(
                state.display_name or str(state.output),
                findings,
                "",
                f"nothing was published. {advice}",
            )
        return found.inconclusive
