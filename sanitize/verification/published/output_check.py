"""`verify`: the leak check of a published output and of its pages. Every shard is checked as a run
checks it (`shard_check`), then the bytes of every file (`file_check`); `fast` searches for
spellings only."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

from sanitize.core.command_results import IF_SET, CommandResult, MeasuredRecall
from sanitize.core.engine import Engine, TaskResult
from sanitize.core.progress import ProgressCallback, ProgressUpdate, ignore_progress
from sanitize.core.table_rendering import SummaryTable
from sanitize.core.verdict import describe_recall, describe_search, name_label_command
from sanitize.engines.local import LocalEngine
from sanitize.errors import LeakFound, OutputBroken, SanitizeError, UsageError, suggest_names
from sanitize.kinds.custom_kind import published_custom_kinds
from sanitize.kinds.kind import custom_kinds
from sanitize.plans.python_api import public_function
from sanitize.plans.settings import settings_of
from sanitize.storage import private_folder, publication, remote_output, tombstones
from sanitize.storage.corpus import Corpus
from sanitize.storage.private_folder import (
    INDEX_FILE,
    OCCURRENCES_FOLDER,
    RUNS_FOLDER,
    VALUE_COUNTS_FILE,
    VALUES_FOLDER,
    SavedIndex,
)
from sanitize.storage.records.label_scores import read_scores
from sanitize.storage.remote_storage import is_url, redact_url
from sanitize.storage.runs.run_folders import (
    ERASED_VALUES_FILE,
    list_column_values,
    list_removable_occurrences,
    list_selected_ids,
    require_index_of_run,
)
from sanitize.verification.attribution import DrawTimes
from sanitize.verification.findings import LeakFinding
from sanitize.verification.leak_check import (
    PublishedValues,
    count_removed_values,
    has_erased_values_file,
    leak_error,
    read_erasures,
    suggest_remedy,
    write_terms_of_run,
)
from sanitize.verification.published.file_check import check_files
from sanitize.verification.published.published_folder import (
    PAGE_NAMES,
    ForeignNames,
    PublishedFolder,
    describe_changes,
    require_run_tables,
)
from sanitize.verification.search_terms import (
    list_searched_forms,
)
from sanitize.verification.shard_check import ShardFindings, select_atomic_kinds, verify_task
from sanitize.verification.shard_reading import VerifyTask, find_renamed_columns

# with fewer bytes of shards one process is faster than starting workers
_SINGLE_PROCESS_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True, repr=False)
class VerifyResult(CommandResult):
    """The result of `verify`: OUT matches its manifest, and none of `values_checked` values was
    found in `forms` outside of `kept_originals`, which are where they were kept. Of these values
    `values_removed` were removed somewhere; of the others every occurrence is a kept original.

    `ambiguous_values` further values, such as names of one word, may mean something else: a match
    of one is no leak. `inconclusive` counts matches that may be a removed value or chance, by kind:
    short ones, and those inside longer words and numbers. A full check also gives `passes`,
    `inconclusive_forms` and `bytes_searched`, by location. `foreign_files`: files that no run
    published, which were searched too; a name that may hold a value is a number. `measured` is what
    a labelled sample says about the finders; where it is None, `measure_recall_with` is the command
    that draws and scores one.
    """

    leaks: int
    mode: str
    shards: int
    values_checked: int
    values_removed: int
    forms: Sequence[str]
    inconclusive: Mapping[str, int]
    ambiguous_values: int = 0
    kept_originals: int
    rows: int
    out: str
    work: str
    passes: Annotated[int | None, IF_SET] = None
    inconclusive_forms: Annotated[Mapping[str, int] | None, IF_SET] = None
    bytes_searched: Annotated[Mapping[str, int] | None, IF_SET] = None
    foreign_files: Sequence[str] = ()
    measured: MeasuredRecall | None = None
    measure_recall_with: Annotated[str | None, IF_SET] = None

    def summary_table(self) -> SummaryTable:
        facts = [
            ("shards", f"{self.shards:,}, all match the manifest"),
            (
                "leaks",
                describe_search(
                    self.leaks,
                    self.values_checked,
                    self.values_removed,
                    len(self.forms),
                    self.kept_originals,
                ),
            ),
            ("forms", ", ".join(self.forms)),
            ("recall", describe_recall(self.measured, self.work).text),
            *(
                [("foreign files", f"{', '.join(self.foreign_files)}; searched too")]
                if self.foreign_files
                else []
            ),
        ]
        rows = sorted(self.inconclusive.items())
        return SummaryTable(
            title=f"sanitize verify: {self.out} ({self.mode})",
            facts=facts,
            header=("kind", "inconclusive places"),
            rows=rows,
        )


class _ProgressEngine(LocalEngine):
    """A local engine that reports its progress."""

    def __init__(self, progress: ProgressCallback, *, workers: int, spill: Path) -> None:
        super().__init__(workers=workers, spill=spill)
        self._progress = progress

    def map_shards(
        self, function: Callable[[Any], Any], tasks: Sequence[Any]
    ) -> Iterator[TaskResult]:
        peak = 0.0
        if tasks:
            self._progress(ProgressUpdate(stage="verify", total_tasks=len(tasks)))
        for number, done in enumerate(super().map_shards(function, tasks)):
            peak = max(peak, done.peak_rss_mb)
            self._progress(
                ProgressUpdate(
                    stage="verify", tasks_done=number + 1, total_tasks=len(tasks), peak_rss_mb=peak
                )
            )
            yield done


@public_function()
def verify(
    out: Path | str,
    /,
    *,
    work: Path | str | None = None,
    mode: str = "full",
    workers: int | None = None,
    memory_limit: str = "1GB",
    progress: ProgressCallback = ignore_progress,
) -> VerifyResult:
    """Check a published OUT again: every shard matches the manifest and contains no removed value.

    `fast` searches every string of every column, and the card, report and manifest, in the forms of
    the run's own check; `full` searches every byte of every file, and all text decoded from them,
    in all forms. Search terms are split so that they fit `memory_limit`. Returns `values_checked`,
    `forms`, `inconclusive` (matches that may be a value or chance, by kind), and for `full`
    `bytes_searched` (by location) and `passes`.

    Raises OutputBroken (a broken or foreign shard), LeakFound (its `findings` say where), or
    UsageError where WORK is not the workspace of OUT.

    >>> import sanitize
    >>> result = sanitize.verify("clean", workers=1)
    >>> result.leaks, result.shards
    (0, 1)
    """
    if mode not in ("fast", "full"):
        raise UsageError(f"--mode {mode}: {suggest_names(mode, ('fast', 'full'))}")
    memory_bytes = settings_of(
        "verify", {"workers": workers, "memory_limit": memory_limit}
    ).memory_bytes
    if not is_url(out):
        return _verify_folder(
            Path(out),
            remote_output.workspace_path(work, out),
            mode,
            workers,
            memory_bytes,
            progress,
        )
    work, output_name = remote_output.require_workspace(work, str(out)), redact_url(str(out))
    if not (work / INDEX_FILE).is_file():
        raise UsageError(
            f"{work}: is not the private folder of the run that wrote {output_name}; give that one"
            " with --work"
        )
    with (
        private_folder.set_umask(0o077),
        private_folder.read_workspace(work, "published") as folder,
        remote_output.RemoteOutput(str(out)).download_corpus(folder) as local_folder,
    ):
        try:
            found = _verify_folder(local_folder, work, mode, workers, memory_bytes, progress)
        except SanitizeError as error:
            error.args = (str(error).replace(str(folder), output_name),)
            raise
    return dataclasses.replace(found, out=output_name)


def _verify_folder(
    out: Path,
    work: Path,
    mode: str,
    workers: int | None,
    memory_bytes: int,
    progress: ProgressCallback,
) -> VerifyResult:
    """`verify` of a local folder."""
    try:
        corpus = Corpus.open(out)
    except OutputBroken:
        _raise_on_changes(out, None)
        raise
    corpus.require_current_manifest()
    try:
        folder = PublishedFolder.read(corpus)
        corpus.check()
        with custom_kinds(published_custom_kinds(corpus.manifest["plan"])):
            return _verify_corpus(corpus, folder, work, mode, workers, memory_bytes, progress)
    except (UsageError, LookupError, TypeError, ValueError, AttributeError):
        # an edited manifest can say anything, also that there is nothing to check
        _raise_on_changes(
            out, publication.read_mac_key(work / RUNS_FOLDER / corpus.manifest["run_hash"])
        )
        raise


def _raise_on_changes(out: Path, mac_key: bytes | None) -> None:
    """Raises OutputBroken for a folder that has SHA256SUMS and is not as it was published."""
    changes = (
        publication.find_changed_files(out, mac_key)
        if (out / publication.CHECKSUMS_NAME).is_file()
        else []
    )
    if changes:
        raise OutputBroken(
            f"{out}: {describe_changes(changes)}; run again with --replace"
        ) from None


def _verify_corpus(
    corpus: Corpus,
    folder: PublishedFolder,
    work: Path,
    mode: str,
    workers: int | None,
    memory_bytes: int,
    progress: ProgressCallback,
) -> VerifyResult:
    """`verify` of a corpus whose shards match the manifest; `folder` has the other files in it."""
    out = corpus.path
    if corpus.manifest["settings"]["verify"] == "off":
        raise UsageError(
            f"{out}: was written with --verify off, so there is nothing to check it against; run"
            " again without --verify off, with --replace"
        )
    run_hash = str(corpus.manifest["run_hash"])
    index = require_index_of_run(work, run_hash, str(out))
    run_folder = work / RUNS_FOLDER / run_hash
    erased = read_erasures(corpus.manifest, work)
    has_erased_values = has_erased_values_file(run_folder, erased)
    with private_folder.read_workspace(work, "verify") as spill:
        erased_values = [run_folder / ERASED_VALUES_FILE] if has_erased_values else []
        column_values = list_column_values(run_folder, len(corpus.shards))
        require_run_tables(
            work,
            run_folder,
            len(corpus.shards),
            [*erased_values, *column_values, *list_selected_ids(run_folder, len(corpus.shards))],
        )
        terms = spill / "terms"
        counts = write_terms_of_run(corpus.manifest, work, run_folder, terms, memory_bytes, mode)
        foreign_names = ForeignNames(folder, (terms,), tombstones.read(work).names)
        folder.require_no_links(foreign_names)
        _require_erasures(corpus, work)
        tasks = list(_build_tasks(corpus, work, run_folder, index, spill, (terms,), mode))
        is_small = sum(task.shard_path.stat().st_size for task in tasks) < _SINGLE_PROCESS_BYTES
        engine = _ProgressEngine(
            progress, workers=workers or (1 if is_small else os.cpu_count() or 1), spill=spill
        )
        try:
            found = _check(engine, corpus, folder, tasks, erased.names, spill, mode)
            values = PublishedValues.read(corpus.manifest, work, run_folder)
            names = [task.values.name for task in tasks]
            values_removed = count_removed_values(
                engine,
                counts,
                values.kinds,
                values.files,
                list_removable_occurrences(work, run_folder, names),
                [task.kept_originals for task in tasks],
                values.include_ids,
                spill,
            )
        finally:
            engine.close()
    kept_originals = sum(shard.kept_expected for shard in found.shards)
    lost_count = kept_originals - sum(shard.kept_found for shard in found.shards)
    for finding in found.findings:
        if finding.location == "file name":
            foreign_names.hide(finding.file)
    findings = [
        dataclasses.replace(finding, file=foreign_names.describe(finding.file))
        for finding in found.findings
    ]
    changes = publication.find_changed_files(
        out, publication.read_mac_key(run_folder) or b"unknown"
    )
    if findings or lost_count:
        raise leak_error(
            str(out),
            findings,
            (f"{lost_count} kept originals are missing or were moved; " if lost_count else "")
            + (f"{describe_changes(changes)}; " if changes else ""),
            f"do not publish it. {_suggest_remedy_after_run(corpus, findings)}",
        )
    if changes:
        raise OutputBroken(f"{out}: {describe_changes(changes)}; run again with --replace")
    folder.require_searchable(foreign_names)
    foreign_files = foreign_names.summarize(folder.foreign)
    measured = read_scores(work, index.fingerprint)
    return VerifyResult(
        leaks=0,
        mode=mode,
        shards=len(tasks),
        values_checked=counts.searched,
        values_removed=values_removed,
        forms=list_searched_forms(mode),
        inconclusive=found.inconclusive,
        ambiguous_values=counts.common,
        kept_originals=kept_originals,
        rows=sum(shard.rows for shard in found.shards),
        passes=found.passes if mode == "full" else None,
        inconclusive_forms=found.inconclusive_forms if mode == "full" else None,
        bytes_searched=found.bytes_searched if mode == "full" else None,
        foreign_files=foreign_files,
        measured=measured,
        measure_recall_with=None if measured else name_label_command(str(work)),
        out=str(out),
        work=str(work),
    )


def _suggest_remedy_after_run(corpus: Corpus, findings: Sequence[LeakFinding]) -> str:
    """Advice for leaks in a published OUT, by the files that they are in."""
    own_mode = corpus.manifest["settings"]["verify"]
    published_pages = {*PAGE_NAMES, *corpus.sidecar_files}
    in_data = [finding.location for finding in findings if finding.file.startswith("data/")]
    advice = []
    if any(
        not finding.file.startswith("data/") and finding.file not in published_pages
        for finding in findings
    ):
        advice.append("Delete the files that no run published")
    if in_data and own_mode != "full":  # a full check of the run would have swept what is in texts
        advice.append(
            f"It was written with --verify {own_mode}: run again without that, with --replace"
        )
    elif in_data:
        advice.append(f"{suggest_remedy(in_data)} with --replace")
    elif any(finding.file in published_pages for finding in findings):
        advice.append("Run again with --replace")
    return ". ".join(advice)


def _build_tasks(
    corpus: Corpus,
    work: Path,
    run_folder: Path,
    index: SavedIndex,
    spill: Path,
    terms: tuple[Path, ...],
    mode: str,
) -> Iterator[VerifyTask]:
    """Yields one task per shard of a published corpus, with the tables of what was kept and
    replaced in it."""
    erased = read_erasures(corpus.manifest, work)
    # the index may have more ranges, from another plan or from an append that was not published
    ranges = index.task_ranges[: len(corpus.shards)]
    counts = [one["shard_count"] for one in corpus.manifest.get("increments", [])]
    draws = DrawTimes(
        value_counts=work / VALUE_COUNTS_FILE,
        column_values=tuple(list_column_values(run_folder, len(ranges))),
        increment_starts=(0, *(ranges[shard_no][0] for shard_no in accumulate(counts[:-1]))),
        sequential_parts=tuple(
            part["use"] for part in corpus.manifest["plan"]["edit"] if part.get("avoid") == "seen"
        ),
    )
    for no, (shard, (low, high)) in enumerate(zip(corpus.shards, ranges, strict=True)):
        file_name = f"{no:05d}.parquet"
        yield VerifyTask(
            shard_no=no,
            first_doc_no=low,
            end_doc_no=high,
            shard_path=shard.path,
            terms=terms,
            check_mode=mode,
            values=work / VALUES_FOLDER / file_name,
            kept_originals=run_folder / "kept" / file_name,
            edits=run_folder / "edits" / file_name,
            occurrences=work / OCCURRENCES_FOLDER / file_name,
            atomic_kinds=select_atomic_kinds(corpus.manifest["plan"]["leave"]),
            row_doc_nos=run_folder / "rows" / file_name,
            documents=index.documents,
            leaves=index.leaves,
            sweep_path=spill / file_name,
            erased_names=erased.names,
            renamed_columns=find_renamed_columns(corpus.manifest["settings"].get("roles", {})),
            columns=tuple(
                one["name"] for one in corpus.manifest["columns"] if one["policy"] != "drop"
            ),
            draws=draws,
        )


def _require_erasures(corpus: Corpus, work: Path) -> None:
    """Raises LeakFound for an OUT that was written before the last erasures in WORK."""
    missing_count = tombstones.read(work).erasure_count - corpus.manifest["settings"].get(
        "erased", {}
    ).get("erasures", 0)
    if missing_count > 0:
        requests = "an erasure" if missing_count == 1 else f"{missing_count} erasures"
        raise LeakFound(
            f"{corpus.path}: was published before {requests} stored in {work} (sanitize subject"
            " --erase), and still holds what a run would now remove; do not publish it. Repeat the"
            f" request: sanitize subject {work} --match FILE --erase"
        )


@dataclass(frozen=True, kw_only=True)
class _FolderFindings:
    """What the check of a folder found: leaks in order, results by shard, inconclusive matches by
    kind and by form, passes over the terms, and bytes by location."""

    findings: Sequence[LeakFinding]
    shards: Sequence[ShardFindings]
    inconclusive: Mapping[str, int]
    inconclusive_forms: Mapping[str, int]
    passes: int
    bytes_searched: Mapping[str, int]


def _check(
    engine: Engine,
    corpus: Corpus,
    folder: PublishedFolder,
    tasks: Sequence[VerifyTask],
    erased_names: Sequence[str],
    spill: Path,
    mode: str,
) -> _FolderFindings:
    """Check the rows of all shards as a run does, then every file of the folder. A fast check of
    files searches those beside the shards."""
    out = corpus.path
    missing = [page for page in (*PAGE_NAMES, *corpus.sidecar_files) if not (out / page).is_file()]
    if missing:
        raise OutputBroken(f"{out}: {missing[0]} is missing; run again with --replace")

    result_by_task: dict[int, ShardFindings] = {
        done.task_no: done.result for done in engine.map_shards(verify_task, tasks)
    }
    results = [result_by_task[number] for number in range(len(tasks))]
    terms = tasks[0].terms if tasks else (spill / "terms",)
    shard_names = [task.shard_path.relative_to(out).as_posix() for task in tasks]
    shard_paths = {task.shard_path for task in tasks}
    other_files = [
        (path, path.relative_to(out).as_posix())
        for path in sorted(out.rglob("*"))
        if path.is_file() and path not in shard_paths
    ]
    files = check_files(
        engine,
        list(zip(tasks, shard_names, strict=True)) if mode == "full" else [],
        other_files,
        terms,
        forms=list_searched_forms(mode),
        own_files=(*PAGE_NAMES, *corpus.sidecar_files),
        erased_names=erased_names,
        checked_bytes=[result.plain_bytes for result in results],
        empty_folders=[(out / name, name) for name in folder.empty_folders],
    )
    leaks: Counter[tuple[str, str, str, str]] = Counter()
    inconclusive = Counter(files.inconclusive)
    for name, result in zip(shard_names, results, strict=True):
        for counts in (result.sweepable, result.leaks):
            leaks.update({(name, *where): times for where, times in counts.items()})
        inconclusive.update(result.inconclusive)
    by_kind, by_form = Counter[str](), Counter[str]()
    for (kind, form), times in inconclusive.items():
        by_kind[kind] += times
        by_form[form] += times
    findings = [LeakFinding(*where, times) for where, times in leaks.items()] + list(files.findings)
    return _FolderFindings(
        findings=sorted(findings, key=lambda one: (one.file, one.location, one.kind, one.form)),
        shards=results,
        inconclusive=dict(sorted(by_kind.items())),
        inconclusive_forms=dict(sorted(by_form.items())),
        passes=sum(len(list(folder.glob("pass-*"))) for folder in terms),
        bytes_searched=dict(files.bytes_searched),
    )
