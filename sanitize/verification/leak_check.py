"""The leak check: searches an output for every value that should have been removed. The only stage that decides whether there is a leak.

Independent of the code that wrote the output: imports nothing from finders/, droppers/, editors/ or stages/ and uses none of their
patterns. It searches the literal removed values in every string of every output column, in the forms `exact`, `case-folded` (ASCII letter
case ignored) and `NFKC` (each character in its Unicode compatibility form). A match counts only where the kind's boundary rule allows it;
a match inside a kept original, or strictly inside a replacement, is no leak.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts
from sanitize.core.command_results import VerifyResult
from sanitize.core.engine import Engine, TaskResult
from sanitize.core.progress import ProgressCallback, ProgressUpdate, ignore_progress
from sanitize.core.text_cells import LeafPath, flatten_leaf, list_text_leaves
from sanitize.engines.local import LocalEngine
from sanitize.errors import LeakFound, OutputBroken, SanitizeError, UsageError, suggest_names
from sanitize.kinds.custom_kind import published_custom_kinds
from sanitize.kinds.kind import all_kinds, custom_kinds
from sanitize.plans.python_api import public_function
from sanitize.plans.settings import settings_of
from sanitize.storage import private_folder, publication, remote_output, table_schemas, tombstones
from sanitize.storage.corpus import CellColumn, CellGroup, Corpus, Documents, flatten_cells, group_cells
from sanitize.storage.files import attempt_file, read_json, read_regular_file
from sanitize.storage.parquet_files import write_table_rows
from sanitize.storage.remote_storage import is_url, redact_url
from sanitize.storage.views import ERASED_VALUES_FILE, list_column_values, read_erased_values, read_unselected_values, read_value_ids
from sanitize.text import name_search
from sanitize.text.decodings.coded_runs import find_coded_runs
from sanitize.text.literal_search import LITERAL_FORMS, LiteralMatcher, count_common_values, prepare_terms
from sanitize.verification.attribution import VerifyTask as VerifyTask
from sanitize.verification.attribution import (
    attribute_from_files,
    describe_column,
    find_renamed_columns,
    first_occurs_after,
    read_shard_batches,
)
from sanitize.verification.batch_check import ResidualMatches, SweepSpans, classify_matches, find_code_points, find_matches, select_residual
from sanitize.verification.full_check import LeakFinding, run_full_check
from sanitize.verification.parquet_pages import count_context_bytes, count_plain_bytes, read_pieces
from sanitize.verification.published_folder import PAGE_NAMES, ForeignNames, PublishedFolder, describe_changes, require_run_tables
from sanitize.verification.sweep_terms import DigestWords, SweepTerms
from sanitize.verification.value_forms import write_passes

_SINGLE_PROCESS_BYTES = 16 << 20  # with fewer bytes of shards one process is faster than starting workers
LEAK_CHECK_VERSION = 9  # raise it when the set of swept matches or of leaks changes
# remedy where the full check finds leaks that cannot be swept
UNSWEEPABLE_ADVICE = (
    "Values in texts are swept, in every form; a kept column can be cleaned (--sanitize COLUMN) or left out (--drop COLUMN), and a value "
    "that remains in a text can be listed with --known FILE, spelled as it is there; --verify fast searches for fewer forms, and would "
    "publish it"
)


def verify_task(task: VerifyTask) -> dict[str, Any]:
    """Check one shard.

    Returns `rows`, `text_bytes`, `kept_found` and `kept_expected` (kept originals found and expected), `swept` (removed values left in
    texts, written to `task.sweep_path` as occurrences), `ambiguous` (by kind, matches in texts that are too short to be conclusive),
    `leaks`: matches that cannot be swept, as (column, kind, doc_no) without any value; `plain_bytes`: the bytes of the texts of each column
    (`count_plain_bytes`); and `digest_words`: how many words are in `task.digest_words_path`.
    """
    matchers = LiteralMatcher.open_partitions(task.forbidden_values)
    sweep_terms = SweepTerms.open(task.sweep_terms) if task.sweep_terms else None
    names = matchers[0].kind_names
    kept = pl.DataFrame(pq.read_table(task.kept_originals, partitioning=None))
    kept_doc = kept["doc_no"].to_numpy()
    # kept originals whose values are too common to be searched cannot be counted
    is_unsearched = np.isin(kept["value_id"].to_numpy(), matchers[0].unsearched_ids)
    residual: list[ResidualMatches] = []
    inconclusive: list[ResidualMatches] = []
    leaks: list[tuple[str, str, int]] = []
    plain_bytes = Counter[str]()
    digest_words = DigestWords()
    rows = text_bytes = kept_found = 0
    leaf_numbers = {leaf: number for number, leaf in enumerate(task.leaves)}
    for table, doc_no in read_shard_batches(task):
        rows += table.num_rows
        low, high = np.searchsorted(kept_doc, [doc_no[0], doc_no[-1] + 1])
        batch_kept, found_in_batch = kept[int(low) : int(high)], 0
        searched_kept = batch_kept.filter(~pl.Series(is_unsearched[int(low) : int(high)])) if is_unsearched.any() else batch_kept
        leaves = [leaf for leaf in task.leaves if leaf.column in table.column_names]
        stored_leaves = {leaf.stored for leaf in leaves}
        columns = flatten_cells(table, leaves)
        for column in columns:
            if not column.leaf.steps:
                plain_bytes[column.leaf.column] += count_plain_bytes(column.flat.texts)
        task_leaf_no = np.array([leaf_numbers[leaf] for leaf in leaves], np.int64)
        groups = [dataclasses.replace(group, leaf_no=task_leaf_no[group.leaf_no]) for group in group_cells(columns)]
        for group in groups:
            texts = fill_null_texts(group.texts)
            text_bytes += len(TextBuffers.from_array(texts).data)
            runs = find_coded_runs(texts) if sweep_terms else {}
            if task.digest_words_path is not None:
                digest_words.add(texts, runs, doc_no[group.rows], group.cell)
            for matcher, matches, is_exact in find_matches(matchers, texts):
                outside, kept_count = select_residual(batch_kept, group, doc_no, matcher, matches, ranks_terms=False)
                if is_exact and searched_kept is not batch_kept:
                    _, kept_count = select_residual(searched_kept, group, doc_no, matcher, matches, ranks_terms=False)
                found_in_batch += kept_count if is_exact else 0
                residual.append(outside)
            for matcher, matches, conclusive, form in sweep_terms.find(texts, matchers, runs) if sweep_terms else ():
                for selected, found in ((conclusive, residual), (~conclusive, inconclusive)):
                    some = matches.take(np.flatnonzero(selected))
                    outside, _ = select_residual(batch_kept, group, doc_no, matcher, some, ranks_terms=False, form=form)
                    found.append(outside)
        if found_in_batch < searched_kept.height:
            # a finder may cut an escape off that stands before a value, such as =09: the value then has no word boundary
            found_in_batch = _count_kept(searched_kept, groups, doc_no, matchers)
        kept_found += found_in_batch
        for leaf in list_text_leaves(table.schema):
            if leaf not in stored_leaves:
                texts = fill_null_texts(flatten_leaf(table.column(leaf.column).chunk(0), leaf).texts)
                text_bytes += len(TextBuffers.from_array(texts).data)
                for matcher, matches, _ in find_matches(matchers, texts):
                    leaks += [(str(leaf), names[matcher.kind[term]], -1) for term in matches.term]
        leaks += _find_mentions(table, task.erased_names)
        for name, texts in _non_string_texts(table):
            leaks += [(name, names[matcher.kind[term]], -1) for matcher in matchers for term in matcher.find(texts).term]
    to_sweep, text_leaks = _classify_residual(task, residual, names)
    leaks += text_leaks
    _write_sweep(task, to_sweep, names)
    return {
        "rows": rows,
        "text_bytes": text_bytes,
        "kept_found": kept_found,
        "kept_expected": kept.height - int(is_unsearched.sum()),
        "swept": len(to_sweep),
        "ambiguous": _count_inconclusive(task, inconclusive, names),
        "leaks": leaks,
        "plain_bytes": dict(plain_bytes),
        "digest_words": digest_words.write(task, kept) if task.digest_words_path is not None else 0,
    }


def verify_with_digests(
    tasks: Sequence[VerifyTask],
    run_tasks: Callable[[Sequence[VerifyTask]], list[dict[str, Any]]],
    prepare_digests: Callable[[Sequence[Path]], tuple[Path, ...]],
) -> tuple[list[dict[str, Any]], tuple[Path, ...]]:
    """Check shards, and those with words that may be digests once more if any of these is the digest of a value. Returns the results, and
    the search terms of such digests. `prepare_digests` is `prepare_digest_terms` for some files of words."""
    results = run_tasks(tasks)
    rows = [row for row, result in enumerate(results) if result["digest_words"]]
    word_files = [path for row in rows if (path := tasks[row].digest_words_path) is not None]
    digest_terms = prepare_digests(word_files) if word_files else ()
    if digest_terms:
        repeated = [
            dataclasses.replace(tasks[row], sweep_terms=(*tasks[row].sweep_terms, *digest_terms), digest_words_path=None) for row in rows
        ]
        for row, result in zip(rows, run_tasks(repeated), strict=True):
            results[row] = result
    return results, digest_terms


def _count_kept(kept: pl.DataFrame, groups: Sequence[CellGroup], doc_no: I64, matchers: Sequence[LiteralMatcher]) -> int:
    """How many kept originals stand where they were kept, also without word boundaries."""
    count = 0
    for group in groups:
        texts = fill_null_texts(group.texts)
        for matcher in matchers:
            matches = matcher.find(texts, check_boundaries=False)
            count += select_residual(kept, group, doc_no, matcher, matches, ranks_terms=False)[1]
    return count


def _find_mentions(table: pa.Table, erased_names: Sequence[str]) -> list[tuple[str, str, int]]:
    """One entry (column, kind, -1) for each mention of an erased person in any text of a batch."""
    found: list[tuple[str, str, int]] = []
    for leaf in list_text_leaves(table.schema) if erased_names else ():
        texts = flatten_leaf(table.column(leaf.column).chunk(0), leaf).texts
        found += [(str(leaf), name_search.PERSON, -1)] * name_search.count_names(texts, erased_names)
    return found


def _non_string_texts(table: pa.Table) -> Iterator[tuple[str, pa.LargeStringArray]]:
    """Yields (name, texts) of what is no string column but may contain values: names of columns and fields, and columns of bytes."""
    yield "(column names)", pa.array([str(leaf) for leaf in list_text_leaves(table.schema)] + table.column_names, pa.large_string())
    for field in table.schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type) or pa.types.is_fixed_size_binary(field.type):
            values = table.column(field.name).chunk(0).cast(pa.large_binary()).fill_null(b"")
            _, offsets, data = values.buffers()  # the matcher compares bytes, whatever they spell
            yield field.name, pa.LargeStringArray.from_buffers(len(values), offsets, data, None, 0, values.offset)


def _classify_residual(
    task: VerifyTask, residual: Sequence[ResidualMatches], kind_names: Sequence[str]
) -> tuple[SweepSpans, list[tuple[str, str, int]]]:
    """`classify_matches` with the tables of the shard: what can be swept, and the leaks as (column, kind, doc_no)."""
    if not sum(map(len, residual)):
        return SweepSpans.empty(), []
    matches = ResidualMatches.concat(residual)
    attribution = attribute_from_files(
        task.edits, task.occurrences, task.atomic_kinds, matches.doc_no, matches.cell, matches.start, matches.end
    )
    to_sweep, leak_rows = classify_matches(matches, attribution, partial(first_occurs_after, task))
    leaf_no, kind, doc_no = (column[leak_rows].tolist() for column in (matches.leaf_no, matches.kind, matches.doc_no))
    return to_sweep, [(str(task.leaves[leaf]), kind_names[one], doc) for leaf, one, doc in zip(leaf_no, kind, doc_no, strict=True)]


def _count_inconclusive(task: VerifyTask, inconclusive: Sequence[ResidualMatches], kind_names: Sequence[str]) -> dict[str, int]:
    """The matches that are no part of a replacement and of no atomic value that the plan leaves, by kind."""
    if not sum(map(len, inconclusive)):
        return {}
    found = ResidualMatches.concat(inconclusive)
    attribution = attribute_from_files(task.edits, task.occurrences, task.atomic_kinds, found.doc_no, found.cell, found.start, found.end)
    is_other = ~(found.are_explained(attribution) | attribution.whole_replacement)
    return dict(Counter(kind_names[number] for number in found.kind[is_other].tolist()))


def _write_sweep(task: VerifyTask, to_sweep: SweepSpans, kind_names: Sequence[str]) -> None:
    """Write what is to be swept, as occurrences of the input text."""
    start, end = find_code_points(to_sweep, _read_input_cells(task, np.unique(to_sweep.doc_no)))
    spans = (to_sweep.doc_no, to_sweep.cell, start, end, to_sweep.start_byte, to_sweep.end_byte)
    kinds = [kind_names[number] for number in to_sweep.kind.tolist()]
    rows = [
        (*span, kind, value_id, table_schemas.SWEEP_FINDER, 1.0, None, None)
        for *span, kind, value_id in zip(*(column.tolist() for column in spans), kinds, to_sweep.value_id.tolist(), strict=True)
    ]
    with attempt_file(task.sweep_path, task.temp_folder / "sweep.parquet" if task.temp_folder else None) as path:
        write_table_rows(path, table_schemas.OCCURRENCES.schema, rows)


def _read_input_cells(task: VerifyTask, doc_nos: I64) -> Iterator[tuple[I64, list[CellColumn]]]:
    """Yields the text cells of these documents of the input, and the document of each row; nothing without documents."""
    if not len(doc_nos):
        return
    columns = [*dict.fromkeys(leaf.column for leaf in task.leaves)]
    for table in task.documents.read(int(doc_nos[0]), int(doc_nos[-1]) + 1, columns):
        table = table.filter(pc.is_in(table.column("doc_no"), value_set=pa.array(doc_nos))).combine_chunks()
        if table.num_rows:
            yield np.asarray(table.column("doc_no"), np.int64), flatten_cells(table, list(task.leaves))


def select_atomic_kinds(left_kinds: Sequence[str]) -> tuple[str, ...]:
    """The atomic kinds among those that a plan leaves: their values are one token, whatever they contain."""
    return tuple(name for name in left_kinds if all_kinds()[name].atomic)


def find_forbidden_values(forbidden_path: Path, texts: dict[str, str]) -> list[tuple[str, str]]:
    """Search texts (card, report, manifest) for forbidden values; returns (name of the text, kind) of each, without the value."""
    matchers = LiteralMatcher.open_partitions(forbidden_path)
    found = []
    for name, text in texts.items():
        for matcher, matches, _ in find_matches(matchers, pa.array([text], pa.large_string())):
            found += [(name, matcher.kind_names[matcher.kind[term]]) for term in np.unique(matches.term)]
    return found


def _find_values_in_file(forbidden_path: Path, path: Path) -> list[tuple[str, str]]:
    """As `find_forbidden_values`, for a file that is read piece by piece."""
    matchers = LiteralMatcher.open_partitions(forbidden_path)
    found = []
    for piece in read_pieces(path, count_context_bytes(max((int(matcher.lengths.max(initial=0)) for matcher in matchers), default=0))):
        bounds = (0, piece.start, piece.end, len(piece.data))
        before, inside, after = (piece.data[low:high].tobytes().decode("utf-8", "replace") for low, high in itertools.pairwise(bounds))
        start, end = len(before.encode()), len((before + inside).encode())
        for matcher, matches, _ in find_matches(matchers, pa.array([before + inside + after], pa.large_string())):
            is_inside = (matches.start >= start) & (matches.start < end)
            found += [("text", matcher.kind_names[matcher.kind[term]]) for term in np.unique(matches.term[is_inside])]
    return found


class _ProgressEngine(LocalEngine):
    """A local engine that reports its progress."""

    def __init__(self, progress: ProgressCallback, *, workers: int, spill: Path) -> None:
        super().__init__(workers=workers, spill=spill)
        self._progress = progress

    def map_shards(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[TaskResult]:
        peak = 0.0
        if tasks:
            self._progress(ProgressUpdate(stage="verify", total_tasks=len(tasks)))
        for number, done in enumerate(super().map_shards(function, tasks)):
            peak = max(peak, done.peak_rss_mb)
            self._progress(ProgressUpdate(stage="verify", tasks_done=number + 1, total_tasks=len(tasks), peak_rss_mb=peak))
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

    `fast` searches every string of every column, and the card, report and manifest, in the forms of the run's own check; `full` searches
    every byte of every file, and all text decoded from them, in all forms. Search terms are split so that they fit `memory_limit`. Returns
    `values_checked`, `forms`, `ambiguous` (matches of values that are too short or too common to be conclusive, by kind), and for `full`
    `bytes_searched` (by location) and `passes`.

    Raises OutputBroken (a broken or foreign shard), LeakFound (its `findings` say where), or UsageError where WORK is not the workspace of
    OUT.

    >>> import sanitize
    >>> result = sanitize.verify("clean", workers=1)
    >>> result.leaks, result.shards
    (0, 1)
    """
    if mode not in ("fast", "full"):
        raise UsageError(f"--mode {mode}: {suggest_names(mode, ('fast', 'full'))}")
    memory_bytes = settings_of("verify", {"workers": workers, "memory_limit": memory_limit}).memory_bytes
    if not is_url(out):
        return _verify_folder(Path(out), remote_output.workspace_path(work, out), mode, workers, memory_bytes, progress)
    work, output_name = remote_output.require_workspace(work, str(out)), redact_url(str(out))
    if not (work / "index.json").is_file():
        raise UsageError(f"{work}: is not the private folder of the run that wrote {output_name}; give that one with --work")
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


def _verify_folder(out: Path, work: Path, mode: str, workers: int | None, memory_bytes: int, progress: ProgressCallback) -> VerifyResult:
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
        _raise_on_changes(out, publication.read_mac_key(work / "runs" / corpus.manifest["plan_hash"]))
        raise


def _raise_on_changes(out: Path, mac_key: bytes | None) -> None:
    """Raises OutputBroken for a folder that has SHA256SUMS and is not as it was published."""
    changes = publication.find_changed_files(out, mac_key) if (out / publication.CHECKSUMS_NAME).is_file() else []
    if changes:
        raise OutputBroken(f"{out}: {describe_changes(changes)}; run again with --replace") from None


def _verify_corpus(
    corpus: Corpus, folder: PublishedFolder, work: Path, mode: str, workers: int | None, memory_bytes: int, progress: ProgressCallback
) -> VerifyResult:
    """`verify` of a corpus whose shards match the manifest; `folder` has the other files in it."""
    out, index_state = corpus.path, read_json(work / "index.json")
    private_folder.require_current_index(work, index_state)
    if corpus.manifest["settings"]["verify"] == "off":
        raise UsageError(
            f"{out}: was written with --verify off, so there is nothing to check it against; run again without --verify off, with --replace"
        )
    forbidden = "counts/forbidden_values.parquet"
    run_folder = private_folder.require_run_folder(work, str(corpus.manifest["plan_hash"]), str(out), forbidden)
    assert index_state is not None
    erased_values = [run_folder / ERASED_VALUES_FILE] if _has_erased_values_file(run_folder, _read_erasures(corpus, work)) else []
    with private_folder.read_workspace(work, "verify") as spill:
        column_values = list_column_values(run_folder, len(corpus.shards))
        require_run_tables(work, run_folder, len(corpus.shards), [run_folder / forbidden, *erased_values, *column_values])
        foreign_names = ForeignNames(folder, run_folder / forbidden, tombstones.read(work).names)
        folder.require_no_links(foreign_names)
        _require_erasures(corpus, work)
        tasks = list(_build_tasks(corpus, work, run_folder, index_state, spill))
        is_small = sum(task.shard_path.stat().st_size for task in tasks) < _SINGLE_PROCESS_BYTES
        engine = _ProgressEngine(progress, workers=workers or (1 if is_small else os.cpu_count() or 1), spill=spill)
        try:
            check = _check_full if mode == "full" else _check_fast
            found = check(engine, corpus, tasks, work, spill, memory_bytes)
        finally:
            engine.close()
    lost_count = found.pop("kept_expected") - found.pop("kept_found")
    findings = found.pop("findings")
    for finding in findings:
        if finding.location == "file name":
            foreign_names.hide(finding.file)
    findings = [dataclasses.replace(finding, file=foreign_names.describe(finding.file)) for finding in findings]
    changes = publication.find_changed_files(out, publication.read_mac_key(run_folder) or b"unknown")
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
    return VerifyResult(leaks=0, mode=mode, shards=len(tasks), **found, foreign_files=foreign_files, out=str(out), work=str(work))


def leak_error(output_name: str, findings: Sequence[LeakFinding], extra: str, advice: str) -> LeakFound:
    """The error for leaks: names the first five locations; all are in its `findings`."""
    total = sum(finding.count for finding in findings)
    shown = "; ".join(str(finding) for finding in findings[:5]) + (f"; and {len(findings) - 5} more locations" if findings[5:] else "")
    summary = f"{total} matches of removed values ({shown}); " if findings else ""
    error = LeakFound(f"{output_name}: {summary}{extra}{advice}")
    error.findings = [dataclasses.asdict(finding) for finding in findings]
    return error


def _suggest_remedy_after_run(corpus: Corpus, findings: Sequence[LeakFinding]) -> str:
    """Advice for leaks in a published OUT, by the files that they are in."""
    own_mode = corpus.manifest["settings"]["verify"]
    published_pages = {*PAGE_NAMES, *corpus.sidecar_files}
    in_data = [finding.location for finding in findings if finding.file.startswith("data/")]
    advice = []
    if any(not finding.file.startswith("data/") and finding.file not in published_pages for finding in findings):
        advice.append("Delete the files that no run published")
    if in_data and own_mode != "full":  # a full check of the run would have swept what is in texts
        advice.append(f"It was written with --verify {own_mode}: run again without that, with --replace")
    elif in_data:
        advice.append(f"{suggest_remedy(in_data)} with --replace")
    elif any(finding.file in published_pages for finding in findings):
        advice.append("Run again with --replace")
    return ". ".join(advice)


def suggest_remedy(locations: Iterable[str]) -> str:
    """Advice for leaks at these locations: columns, or the names of columns."""
    is_column_name = ["column names" in location or "column whose name" in location for location in locations]
    advice = ["Rename the column whose name is a value, in the input"] if any(is_column_name) else []
    if not all(is_column_name) or not is_column_name:
        advice.append(
            "A kept column can be cleaned (--sanitize COLUMN) or left out (--drop COLUMN); what a finder missed in a text can be listed "
            "with --known FILE"
        )
    return ". ".join([*advice, "Then run again"])


def raise_on_leaks(results: Sequence[Mapping[str, Any]], rechecked: set[int], renamed_columns: Mapping[str, str]) -> None:
    """Raise if the results of `verify_task` for all shards forbid publishing: LeakFound, or OutputBroken where a kept original is missing.

    `rechecked`: the shards that were swept and checked again; values left in their texts are leaks. `renamed_columns`: see
    `find_renamed_columns`.
    """
    leaks = [leak for result in results for leak in result["leaks"]]
    left_count = sum(result["swept"] for no, result in enumerate(results) if no in rechecked)
    if leaks or left_count:
        columns: dict[tuple[str, str], int] = {}
        for column, kind, _ in leaks:
            columns[column, kind] = columns.get((column, kind), 0) + 1
        shown = {column: column.strip("()") if column[0] == "(" else describe_column(column, renamed_columns) for column, _ in columns}
        counted = (f"{shown[column]}: {times} {kind}" for (column, kind), times in sorted(columns.items()))
        where = "; ".join(counted) or f"{left_count} in the texts"
        raise LeakFound(
            f"removed values still occur in the output ({where}); nothing was published. {suggest_remedy(name for name, _ in columns)}"
        )
    for no, result in enumerate(results):
        if result["kept_found"] != result["kept_expected"]:
            raise OutputBroken(
                f"shard {no}: {result['kept_expected']} kept originals were expected and {result['kept_found']} found; "
                "internal error, please report it. Nothing was published"
            )


def _build_tasks(corpus: Corpus, work: Path, run_folder: Path, index_state: Mapping[str, Any], spill: Path) -> Iterator[VerifyTask]:
    """Yields one task per shard of a published corpus, with the tables of what was kept and replaced in it."""
    documents = Documents.from_json(index_state["documents"], work)
    erased = _read_erasures(corpus, work)
    # the index may have more ranges, from another plan or from an append that was not published
    ranges = index_state["task_ranges"][: len(corpus.shards)]
    is_sequential = any(part.get("avoid") == "seen" for part in corpus.manifest["plan"]["edit"])
    earlier_shards = len(ranges) - corpus.manifest.get("increments", [{"shard_count": len(ranges)}])[-1]["shard_count"]
    for no, (shard, (low, high)) in enumerate(zip(corpus.shards, ranges, strict=True)):
        file_name = f"{no:05d}.parquet"
        yield VerifyTask(
            shard_no=no,
            first_doc_no=low,
            end_doc_no=high,
            shard_path=shard.path,
            forbidden_values=run_folder / "counts" / "forbidden_values.parquet",
            kept_originals=run_folder / "kept" / file_name,
            edits=run_folder / "edits" / file_name,
            occurrences=work / "tables" / "occurrences" / file_name,
            atomic_kinds=select_atomic_kinds(corpus.manifest["plan"]["leave"]),
            row_doc_nos=run_folder / "rows" / file_name,
            documents=documents,
            leaves=tuple(LeafPath(column, tuple(steps)) for column, *steps in index_state["leaf_paths"]),
            sweep_path=spill / file_name,
            erased_names=erased.names,
            renamed_columns=find_renamed_columns(corpus.manifest["settings"].get("roles", {})),
            columns=tuple(one["name"] for one in corpus.manifest["columns"] if one["policy"] != "drop"),
            value_counts=work / "tables" / "value_counts" / "all.parquet" if is_sequential or no < earlier_shards else None,
        )


def _read_erasures(corpus: Corpus, work: Path) -> tombstones.Tombstones:
    """The erased persons when OUT was written; an OUT from before a later erasure is refused (`_require_erasures`)."""
    return tombstones.read(work, erasures=corpus.manifest["settings"].get("erased", {}).get("erasures", 0))


def _has_erased_values_file(run_folder: Path, erased: tombstones.Tombstones) -> bool:
    """True if a run has written the values of erased persons. Earlier versions did so only for an erasure with mailboxes; without any, the
    tombstones have all values."""
    return bool(erased.mailbox_hashes) or (run_folder / "tasks" / "erased_values.json").exists()


def _require_erasures(corpus: Corpus, work: Path) -> None:
    """Raises LeakFound for an OUT that was written before the last erasures in WORK."""
    missing_count = tombstones.read(work).erasure_count - corpus.manifest["settings"].get("erased", {}).get("erasures", 0)
    if missing_count > 0:
        requests = "an erasure" if missing_count == 1 else f"{missing_count} erasures"
        raise LeakFound(
            f"{corpus.path}: was published before {requests} stored in {work} (sanitize subject --erase), and still holds what a run would "
            f"now remove; do not publish it. Repeat the request: sanitize subject {work} --match FILE --erase"
        )


def _check_fast(engine: Engine, corpus: Corpus, tasks: Sequence[VerifyTask], work: Path, spill: Path, memory_bytes: int) -> dict[str, Any]:
    """Repeat the check of `run`, over the shards and the metadata files."""
    if tasks:
        terms_path = prepare_terms(tasks[0].forbidden_values, spill / "search_terms", memory_bytes)
        tasks = [dataclasses.replace(task, forbidden_values=terms_path) for task in tasks]
    results = [done.result for done in engine.map_shards(verify_task, tasks)]
    texts = {}
    for page in (*PAGE_NAMES, *corpus.sidecar_files):
        try:
            texts[page] = read_regular_file(corpus.path / page).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problem = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
            raise OutputBroken(f"{corpus.path}: {page} {problem}; run again with --replace") from None
    counts: Counter[tuple[str, str, str, str]] = Counter()
    renamed_columns = find_renamed_columns(corpus.manifest["settings"].get("roles", {}))
    for result in results:
        counts.update(("data", describe_column(column, renamed_columns), kind, "fast") for column, kind, _ in result["leaks"])
        if result["swept"]:
            counts["data", "texts", "values", "fast"] += result["swept"]
    if tasks:
        counts.update((page, "text", kind, "fast") for page, kind in find_forbidden_values(tasks[0].forbidden_values, texts))
        folder, forbidden_values = PublishedFolder.read(corpus), tasks[0].forbidden_values
        for reported, names in (("foreign file", folder.foreign), ("foreign folder", folder.empty_folders)):
            for number, name in enumerate(names, 1):
                found = find_forbidden_values(forbidden_values, {"file name": os.fsencode(name).decode("utf-8", "replace")})
                found += _find_values_in_file(forbidden_values, corpus.path / name) if reported == "foreign file" else []
                counts.update((f"{reported} {number}", location, kind, "fast") for location, kind in found)
    return {
        "findings": [LeakFinding(*where, times) for where, times in sorted(counts.items())],
        "values_checked": corpus.manifest["summary"]["verify"]["values_checked"],
        "ambiguous_values": corpus.manifest["summary"]["verify"].get("ambiguous_values", 0),
        "forms": list(LITERAL_FORMS),
        "ambiguous": {},
        **{name: sum(result[name] for result in results) for name in ("rows", "kept_found", "kept_expected")},
    }


def _check_full(engine: Engine, corpus: Corpus, tasks: Sequence[VerifyTask], work: Path, spill: Path, memory_bytes: int) -> dict[str, Any]:
    """Check every file of the folder, in all forms."""
    out = corpus.path
    missing = [page for page in (*PAGE_NAMES, *corpus.sidecar_files) if not (out / page).is_file()]
    if missing:
        raise OutputBroken(f"{out}: {missing[0]} is missing; run again with --replace")
    kinds, erased = corpus.manifest["summary"]["verify"]["kinds"], _read_erasures(corpus, work)
    run_folder = work / "runs" / str(corpus.manifest["plan_hash"])
    erased_ids = read_erased_values(run_folder) if _has_erased_values_file(run_folder, erased) else erased.value_ids
    column_values, exclude_ids = list_column_values(run_folder, len(tasks)), read_unselected_values(run_folder / "counts")
    include_ids = (*erased_ids, *sorted({*read_value_ids(column_values)} - {*exclude_ids}))
    values = [*sorted((work / "vault" / "values").glob("*.parquet"))[: len(tasks)], *column_values]
    passes, value_count = write_passes(values, kinds, spill / "passes", memory_bytes, include_ids=include_ids, exclude_ids=exclude_ids)
    shards = [(task, task.shard_path.relative_to(out).as_posix()) for task in tasks]
    shard_paths = {task.shard_path for task in tasks}
    other_files = [
        (path, path.relative_to(out).as_posix()) for path in sorted(out.rglob("*")) if path.is_file() and path not in shard_paths
    ]
    empty_folders = [(out / name, name) for name in PublishedFolder.read(corpus).empty_folders]
    own_files = (*PAGE_NAMES, *corpus.sidecar_files)
    found = run_full_check(engine, shards, other_files, passes, spill, own_files, erased.names, empty_folders=empty_folders)
    forbidden_values = run_folder / "counts" / "forbidden_values.parquet"
    return {"values_checked": value_count, "ambiguous_values": count_common_values(forbidden_values), **found}
