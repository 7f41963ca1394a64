"""Detection of one task (`sanitize find`): writes occurrences, their counts, the raw values (for the vault) and quarantined records.

There are two rounds. The first reads a range of `doc_no` once and runs `patterns` and every finder that needs only the batch at hand.
Where a finder of the plan needs results of the whole corpus, these are collected (sanitize/stages/second_round_input.py), and the second
round reads the range again with them.

Each task is a pure function. A round costs one pass over the texts. Memory: one batch and the task's distinct values; in the second round
also the collected results.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import TextBuffers, bytes_to_code_points, fill_null_texts, slice_nested_spans, to_large_string
from sanitize.core.keys import Key, compute_value_ids, siphash
from sanitize.core.part_protocols import FoundSpans, TextColumn
from sanitize.core.text_cells import LeafPath, list_text_leaves
from sanitize.finders import patterns
from sanitize.kinds.kind import all_kinds
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.readers.survey import find_faults
from sanitize.stages.scanner import Scanner
from sanitize.stages.span_conflicts import CompetingSpans, resolve_conflicts
from sanitize.storage import table_schemas
from sanitize.storage.corpus import CellColumn, Documents, flatten_cells
from sanitize.storage.parquet_files import open_table_writer, write_table_rows
from sanitize.text.mail_headers import find_sections

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
VERSION = 3  # part of the index's fingerprint: raise it when what is written for the same input changes
LINK_SCHEMA = pa.schema([pa.field("value_id", pa.int64()), pa.field("other", pa.int64())])
_FINDER_VIEW_COLUMNS = ("text_no", "start_byte", "end_byte", "kind", "value_id")  # what a finder is shown of the spans that others found


@dataclass(frozen=True, kw_only=True)
class FindTask:
    """One range of documents to index: in the first round, or in the second where `first_round` names the results of the first."""

    no: int
    first_doc_no: int
    end_doc_no: int
    documents: Documents
    leaves: tuple[LeafPath, ...]
    key: Key
    max_doc_bytes: int
    output_columns: tuple[str, ...]  # columns of the output: their strings must be readable
    quarantined_docs: tuple[int, ...]  # documents of the range that were quarantined when they were staged or in the first round
    folder: Path  # attempts are written here: <table>.parquet
    detection_spec: DetectionSpec = DetectionSpec()
    first_round: FirstRoundFiles | None = None

    @property
    def description(self) -> str:
        """The task in words, for an error."""
        return self.documents.describe_range(self.first_doc_no, self.end_doc_no)

    def quarantine_row(self, doc_no: int, reason: str) -> tuple[int, str, str, str]:
        """A quarantined document as a row of the table `quarantine`: doc_no, source file, row in it, reason."""
        source = next(s for s in self.documents.files if s.first_doc_no <= doc_no < s.first_doc_no + s.rows)
        return doc_no, source.path, f"row {doc_no - source.first_doc_no}", reason


@dataclass(frozen=True, kw_only=True)
class FirstRoundFiles:
    """Results of the first round: the tables of one range, and what was collected from the whole corpus."""

    occurrences: Path
    values: Path
    skipped: Path
    entities: Path  # value_id, entity_id: values of one person share an entity_id
    second_round_input: Path  # search terms that the finders of the second round load


def find_task(task: FindTask) -> dict[str, Any]:
    """First round of one task. Returns the counts `documents`, `quarantined`, `text_bytes`, and by kind its occurrences and documents."""
    names = pa.array(list(all_kinds()), pa.string())
    scanner = Scanner(task.key, task.detection_spec)
    finder_pass = _FinderPass(task, scanner)
    output = _TaskOutput(task, names)
    text_bytes = documents = 0
    ids, id_key = [np.empty(0, np.uint64)], task.key.subkey("doc_id")
    texts = {name for name in task.output_columns if list_text_leaves(pa.schema([task.documents.schema.field(name)]))}
    columns = [*dict.fromkeys([*(leaf.column for leaf in task.leaves), *sorted(texts), "doc_id"])]
    with open_table_writer(task.folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema) as out, finder_pass:
        for table in task.documents.read(task.first_doc_no, task.end_doc_no, columns):
            table = table.combine_chunks()
            is_readable, quarantine_rows = _find_readable_rows(table, task)
            output.quarantine_rows += quarantine_rows
            if not is_readable.all():
                table = table.filter(pa.array(is_readable)).combine_chunks()
            if not table.num_rows:
                continue
            table, column_occurrences, unread = finder_pass.find_in_batch(table)
            output.quarantine_rows += [task.quarantine_row(doc_no, "not_analysed") for doc_no in unread]
            if not table.num_rows:
                continue
            documents += table.num_rows
            ids.append(siphash(table.column("doc_id").chunk(0), id_key))
            batch = _OccurrenceBatch(task, names, np.asarray(table.column("doc_no"), np.int64))
            for column, found in column_occurrences:
                text_bytes += int(pc.sum(pc.binary_length(column.flat.texts)).as_py() or 0)
                batch.add(found, column.flat.rows, column.cell)
            output.add(batch, out)
    with open_table_writer(task.folder / "document_ids.parquet", table_schemas.DOCUMENT_IDS.schema) as out:
        out.write_table(pa.table([np.concatenate(ids).astype(np.int64)], schema=table_schemas.DOCUMENT_IDS.schema))
    if any(finder.second_round for finder in task.detection_spec.finders):
        with open_table_writer(task.folder / "links.parquet", LINK_SCHEMA) as out:
            out.write_table(finder_pass.distinct_links().to_arrow(compat_level=pl.CompatLevel.oldest()).cast(LINK_SCHEMA))
    write_table_rows(task.folder / "quarantine.parquet", table_schemas.QUARANTINE.schema, output.quarantine_rows)
    counts = {
        "documents": documents,
        "quarantined": len(output.quarantine_rows),
        "text_bytes": text_bytes,
        "matched_by_finder": finder_pass.matched_by_finder,
    }
    return {**counts, **output.write()}


def second_round_task(task: FindTask) -> dict[str, Any]:
    """Second round of one task: the first round's occurrences, merged with what the finders that need the whole corpus find."""
    assert task.first_round is not None
    names = pa.array(list(all_kinds()), pa.string())
    finder_pass = _FinderPass(task, None)
    output = _TaskOutput(task, names)
    output.add_first_round(task.first_round)
    first_round_rows = pl.DataFrame(pq.read_table(task.first_round.occurrences, partitioning=None)).with_columns(
        pl.col("kind").cast(pl.String), pl.col("finder").cast(pl.String), pl.col("section").cast(pl.String)
    )
    numbers = first_round_rows["doc_no"].to_numpy()
    entities = pl.read_parquet(task.first_round.entities, glob=False).sort("value_id")
    columns = [*dict.fromkeys(leaf.column for leaf in task.leaves)]
    with open_table_writer(task.folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema) as out, finder_pass:
        for table in task.documents.read(task.first_doc_no, task.end_doc_no, columns):
            table = table.combine_chunks()
            doc_no = np.asarray(table.column("doc_no"), np.int64)
            if task.quarantined_docs:
                table = table.filter(pa.array(~np.isin(doc_no, np.array(task.quarantined_docs, np.int64)))).combine_chunks()
                doc_no = np.asarray(table.column("doc_no"), np.int64)
            if not table.num_rows:
                continue
            low, high = np.searchsorted(numbers, [doc_no[0], doc_no[-1] + 1])
            batch_rows = first_round_rows[int(low) : int(high)]
            batch = _OccurrenceBatch(task, names, doc_no, entities)
            for column in flatten_cells(table, list(task.leaves)):
                text_nos = pl.DataFrame(
                    {"doc_no": doc_no[column.flat.rows], "cell": column.cell, "text_no": np.arange(len(column.cell))},
                    schema={"doc_no": pl.Int64, "cell": pl.Int32, "text_no": pl.Int64},
                )
                column_rows = batch_rows.join(text_nos, on=["doc_no", "cell"], how="inner", maintain_order="left")
                batch.add(finder_pass.find_again(column.flat.texts, column_rows), column.flat.rows, column.cell)
            output.add(batch, out)
    return output.write()


@dataclass(frozen=True, repr=False)
class _ColumnOccurrences:
    """Occurrences in a column of texts, sorted by (text, start, longest first). `kind` indexes the list of all kinds, `finder` the task's
    finders, `section` indexes `section_names`, -1 outside mail. `values` has the spellings: value_id, kind, value, normalised."""

    text_no: I64
    start_byte: I64
    end_byte: I64
    start: I64
    end: I64
    kind: I32
    value_id: I64
    section: I32
    section_names: list[str]
    finder: I32
    score: npt.NDArray[np.float32]
    values: pl.DataFrame
    skipped: dict[tuple[int, str], int]

    def finder_view(self) -> pl.DataFrame:
        """The occurrences as later finders see them: the columns `_FINDER_VIEW_COLUMNS`, with the name of the kind."""
        frame = pl.DataFrame({name: getattr(self, name) for name in _FINDER_VIEW_COLUMNS})
        return frame.with_columns(pl.Series("kind", list(all_kinds()), dtype=pl.String).gather(frame["kind"]))


_NO_VALUES = pl.DataFrame(schema={"value_id": pl.Int64, "kind": pl.Int32, "value": pl.String, "normalised": pl.String})


class _FinderPass:
    """Runs the finders of one task. A context manager: opens the finders on entry and closes them on exit."""

    def __init__(self, task: FindTask, scanner: Scanner | None) -> None:
        self.task, self.scanner = task, scanner
        self.finder_names = [one.use for one in task.detection_spec.finders]
        self.kind_numbers = {name: number for number, name in enumerate(all_kinds())}
        second = task.first_round is not None
        self.active_finders = [
            (number, one)
            for number, one in enumerate(task.detection_spec.finders)
            if one.use != patterns.FINDER_NAME and one.second_round == second
        ]
        self.patterns_no = self.finder_names.index(patterns.FINDER_NAME) if patterns.FINDER_NAME in self.finder_names else -1
        self.matched_by_finder: dict[str, int] = {}  # by finder: spans from an external source that matched a document
        self._links: list[pl.DataFrame] = []
        self._batch_results: list[tuple[int, FoundSpans]] = []  # (finder number, its spans) for the current batch
        self._unread_texts = np.empty(0, np.int64)

    def __enter__(self) -> _FinderPass:
        for _, one in self.active_finders:
            one.open(self.task.key, self.task.first_round.second_round_input if self.task.first_round else None)
        return self

    def __exit__(self, *_: object) -> None:
        for _number, one in self.active_finders:
            one.close()

    def distinct_links(self) -> pl.DataFrame:
        """The distinct pairs of values that belong to one person: `value_id`, `other`."""
        return pl.concat([pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64}), *self._links]).unique().sort("value_id", "other")

    def find_in_batch(self, table: pa.Table) -> tuple[pa.Table, list[tuple[CellColumn, _ColumnOccurrences]], list[int]]:
        """Run the first round on a batch of documents. Returns the batch without the documents that a finder could not analyse, the
        occurrences in each column of cells, and the `doc_no` of the documents left out. If there are any, the rest is searched again."""
        unread: list[int] = []
        while True:
            doc_no, doc_id = np.asarray(table.column("doc_no"), np.int64), table.column("doc_id").chunk(0)
            self._batch_results, is_unread, column_occurrences = [], np.zeros(table.num_rows, np.bool_), []
            for column in flatten_cells(table, list(self.task.leaves)):
                rows = column.flat.rows
                positions = (doc_no[rows], doc_id.take(pa.array(rows)), column.cell) if self.active_finders else (None, None, None)
                column_occurrences.append((column, self._find_in_column(column.flat.texts, *positions)))
                is_unread[rows[self._unread_texts]] = True
            if not is_unread.any():
                break
            unread += doc_no[is_unread].tolist()
            table = table.filter(pa.array(~is_unread)).combine_chunks()
            if not table.num_rows:
                return table, [], unread
        self._links += [spans.person_links for _, spans in self._batch_results if spans.person_links is not None]
        for number, spans in self._batch_results:
            if spans.matched_count:
                self.matched_by_finder[self.finder_names[number]] = (
                    self.matched_by_finder.get(self.finder_names[number], 0) + spans.matched_count
                )
        return table, column_occurrences, unread

    def _find_in_column(
        self, texts: pa.LargeStringArray, doc_no: I64 | None, doc_id: pa.LargeStringArray | None, cell: I32 | None
    ) -> _ColumnOccurrences:
        """Occurrences that the first round finds in a column of texts."""
        texts = fill_null_texts(texts)
        assert self.scanner is not None
        occurrences = self._from_patterns(self.scanner.run(texts if self.patterns_no >= 0 else texts.slice(0, 0)))
        return self._merge_finders(
            TextColumn(texts, occurrences.finder_view() if self.active_finders else pl.DataFrame(), doc_no, doc_id, cell), occurrences
        )

    def find_again(self, texts: pa.LargeStringArray, first_round_rows: pl.DataFrame) -> _ColumnOccurrences:
        """Second round on a column of texts. `first_round_rows` are its rows of the table `occurrences`, with the `text_no` of each."""
        texts = fill_null_texts(texts)
        first_round_rows = first_round_rows.sort("text_no", "start_byte", -pl.col("end_byte"), maintain_order=True)
        section = first_round_rows["section"].unique(maintain_order=True).drop_nulls().to_list()
        section_no = {name: number for number, name in enumerate(section)}
        finder_no = {name: number for number, name in enumerate(self.finder_names)}
        columns = {
            name: first_round_rows[name].to_numpy() for name in ("text_no", "start_byte", "end_byte", "start", "end", "value_id", "score")
        }
        occurrences = _ColumnOccurrences(
            **columns,
            kind=first_round_rows["kind"].replace_strict(self.kind_numbers, return_dtype=pl.Int32).to_numpy(),
            section=first_round_rows["section"].replace_strict(section_no, default=-1, return_dtype=pl.Int32).fill_null(-1).to_numpy(),
            section_names=section,
            finder=first_round_rows["finder"].replace_strict(finder_no, return_dtype=pl.Int32).to_numpy(),
            values=_NO_VALUES,
            skipped={},
        )
        self._batch_results = []
        return self._merge_finders(TextColumn(texts, occurrences.finder_view()), occurrences)

    def _from_patterns(self, found: patterns.Detections) -> _ColumnOccurrences:
        """Convert the results of the scanner to the numbering of kinds and finders of the task."""
        assert self.scanner is not None
        codes = np.array([self.kind_numbers[kind.name] for kind in self.scanner.kinds], np.int32)
        distinct, used = found.distinct, np.flatnonzero(np.bincount(found.value_no))
        value, normalised = (pl.Series(column.take(pa.array(used))) for column in (distinct.value, distinct.normalised))
        values = {"value_id": distinct.value_id[used], "kind": codes[distinct.kind[used]], "value": value, "normalised": normalised}
        return _ColumnOccurrences(
            text_no=found.text_no,
            start_byte=found.start_byte,
            end_byte=found.end_byte,
            start=found.start,
            end=found.end,
            kind=codes[distinct.kind[found.value_no]],
            value_id=distinct.value_id[found.value_no],
            section=found.section_no,
            section_names=found.section_names,
            finder=np.full(len(found.text_no), max(self.patterns_no, 0), np.int32),
            score=np.ones(len(found.text_no), np.float32) if found.score is None else found.score,
            values=pl.DataFrame(values, schema=_NO_VALUES.schema),
            skipped={(int(codes[kind]), reason): times for (kind, reason), times in found.skipped.items()},
        )

    def _merge_finders(self, column: TextColumn, occurrences: _ColumnOccurrences) -> _ColumnOccurrences:
        """Run the active finders on a column and merge their spans into `occurrences` by the rules of sanitize/stages/span_conflicts.py."""
        finder_spans = [(finder_no, one.find_spans(column)) for finder_no, one in self.active_finders]
        self._batch_results += finder_spans
        self._unread_texts = np.unique(
            np.concatenate([np.empty(0, np.int64), *(s.unreadable_texts for _, s in finder_spans if s.unreadable_texts is not None)])
        )
        for _, spans in finder_spans:
            for (name, reason), times in spans.skipped_counts.items():
                reason_key = self.kind_numbers[name], reason
                occurrences.skipped[reason_key] = occurrences.skipped.get(reason_key, 0) + times
        finder_spans = [(finder_no, spans) for finder_no, spans in finder_spans if len(spans.text_no)]
        if not finder_spans:
            return occurrences
        old_count = len(occurrences.text_no)

        def concatenate(first: npt.NDArray[Any], others: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
            return np.concatenate([first, *others]).astype(first.dtype)

        claims = CompetingSpans(
            text_no=concatenate(occurrences.text_no, [spans.text_no for _, spans in finder_spans]),
            start=concatenate(occurrences.start_byte, [spans.start_byte for _, spans in finder_spans]),
            end=concatenate(occurrences.end_byte, [spans.end_byte for _, spans in finder_spans]),
            kind_no=concatenate(
                occurrences.kind,
                [np.array([self.kind_numbers[name] for name in s.kind_names], np.int32)[s.kind_no] for _, s in finder_spans],
            ),
            finder_no=concatenate(occurrences.finder, [np.full(len(spans.text_no), finder_no) for finder_no, spans in finder_spans]),
            score=concatenate(occurrences.score, [spans.score for _, spans in finder_spans]),
            exempt_finder_no=self.patterns_no,
        )
        given_value_ids = concatenate(
            np.full(old_count, -1, np.int64),
            [np.full(len(spans.text_no), -1) if spans.value_id is None else spans.value_id for _, spans in finder_spans],
        )
        winners, lost = resolve_conflicts(claims)
        skipped = dict(occurrences.skipped)
        for kind, times in enumerate(np.bincount(claims.kind_no[lost], minlength=1).tolist()):
            if times:
                skipped[kind, "overlap"] = skipped.get((kind, "overlap"), 0) + times
        new_rows = winners[winners >= old_count]
        new_occurrences = self._complete_spans(column.texts, claims.take(new_rows), given_value_ids[new_rows])
        columns: dict[str, Any] = {}
        for name in ("text_no", "start_byte", "end_byte", "start", "end", "kind", "value_id", "section", "finder", "score"):
            columns[name] = concatenate(getattr(occurrences, name), [getattr(new_occurrences, name)])
        # one list of section names for both
        names = [*dict.fromkeys([*occurrences.section_names, *new_occurrences.section_names])]
        section_no_by_name = {name: section_no for section_no, name in enumerate(names)}
        section_numbers = [
            np.array([*(section_no_by_name[name] for name in one.section_names), -1], np.int32)[one.section]
            for one in (occurrences, new_occurrences)
        ]
        columns["section"] = np.concatenate(section_numbers)
        # position in `columns` of each claim that stays: old rows keep theirs, new rows follow in order
        rank = np.empty(len(claims.text_no), np.int64)
        rank[new_rows] = old_count + np.arange(len(new_rows))
        positions = np.where(winners < old_count, winners, rank[winners])
        kept = {name: column[positions] for name, column in columns.items()}
        values = pl.concat([occurrences.values, new_occurrences.values])
        if len(lost):
            values = values.filter(pl.col("value_id").is_in(pl.Series(np.unique(kept["value_id"])).implode()))
        return _ColumnOccurrences(**kept, section_names=names, values=values, skipped=skipped)

    def _complete_spans(self, texts: pa.LargeStringArray, spans: CompetingSpans, given_value_ids: I64) -> _ColumnOccurrences:
        """Add code point offsets, sections, value ids and spellings to sorted spans. Where `given_value_ids` is -1 the id is computed."""
        buffers = TextBuffers.from_array(texts)
        base = buffers.offsets[spans.text_no]
        low, high = base + spans.start, base + spans.end
        sections = find_sections(buffers, spans.text_no, low)
        start, stop = bytes_to_code_points(buffers, spans.text_no, low, high)
        encoded = slice_nested_spans(buffers, low, high).dictionary_encode()
        code = np.asarray(encoded.indices, np.int64)
        value_id = np.empty(len(low), np.int64)
        frames = [_NO_VALUES]
        for number in np.unique(spans.kind_no).tolist():
            kind_rows = np.flatnonzero(spans.kind_no == number)
            used, inverse = np.unique(code[kind_rows], return_inverse=True)
            kind, value = list(all_kinds().values())[number], pl.Series(encoded.dictionary.take(pa.array(used)))
            normalised = kind.normalise(value)
            ids = compute_value_ids(to_large_string(normalised), kind.name, self.task.key)[inverse]
            value_id[kind_rows] = np.where(given_value_ids[kind_rows] >= 0, given_value_ids[kind_rows], ids)
            rows = {
                "value_id": value_id[kind_rows],
                "kind": np.full(len(kind_rows), number),
                "value": value.gather(inverse),
                "normalised": normalised.gather(inverse),
            }
            frames.append(pl.DataFrame(rows, schema=_NO_VALUES.schema).unique(["value_id", "value"], maintain_order=True))
        return _ColumnOccurrences(
            text_no=spans.text_no,
            start_byte=spans.start,
            end_byte=spans.end,
            start=start,
            end=stop,
            kind=spans.kind_no,
            value_id=value_id,
            section=sections.section_no,
            section_names=sections.section_names,
            finder=spans.finder_no,
            score=spans.score,
            values=pl.concat(frames),
            skipped={},
        )


class _TaskOutput:
    """Collects the tables of one task and writes them at its end."""

    def __init__(self, task: FindTask, kind_names: pa.Array) -> None:
        self.task, self.kind_names = task, kind_names
        self.partial_counts: list[pl.DataFrame] = []
        self.values: list[pl.DataFrame] = []
        self.skipped: dict[tuple[int, str], int] = {}
        self.quarantine_rows: list[tuple[int, str, str, str]] = []
        self.doc_count_by_kind = np.zeros(len(kind_names), np.int64)
        self.has_first_round = False

    def add_first_round(self, first_round: FirstRoundFiles) -> None:
        """Load values and counts of rejected candidates of the first round."""
        numbers = {name: number for number, name in enumerate(self.kind_names.to_pylist())}
        frame = pl.DataFrame(pq.read_table(first_round.values, partitioning=None)).with_columns(
            pl.col("kind").cast(pl.String).replace_strict(numbers, return_dtype=pl.Int32),
            pl.coalesce("normalised", "value").alias("normalised"),
        )
        self.values.append(frame.select(_NO_VALUES.columns))
        for row in pq.read_table(first_round.skipped, partitioning=None).to_pylist():
            self.skipped[numbers[row["kind"]], row["reason"]] = row["candidates"]
        self.has_first_round = True

    def add(self, batch: _OccurrenceBatch, out: pq.ParquetWriter) -> None:
        """Write the occurrences of a batch to `out` and add them to the counts."""
        if batch.pieces:
            rows = batch.build_table()
            out.write_table(rows, row_group_size=rows.num_rows)
            self.partial_counts.append(batch.count_values())
            self.doc_count_by_kind += batch.count_docs_by_kind()
            self.values.append(batch.spellings())
        for reason_key, times in batch.skipped.items():
            self.skipped[reason_key] = self.skipped.get(reason_key, 0) + times

    def write(self) -> dict[str, Any]:
        """Write the tables of the task; returns `by_kind` (occurrences) and `documents_by_kind`."""
        folder, names = self.task.folder, self.kind_names
        counts = _merge_counts(self.partial_counts)
        _write_table(folder / "partial_counts.parquet", table_schemas.VALUE_COUNTS, counts, names)
        spellings = pl.concat(self.values).unique(["value_id", "value"], maintain_order=True) if self.values else None
        if self.has_first_round and spellings is not None:  # a value whose spans all lost to the second round is not stored in the vault
            present_ids = counts["value_id"] if counts is not None else pl.Series([], dtype=pl.Int64)
            spellings = spellings.filter(pl.col("value_id").is_in(present_ids.implode()))
        _write_table(folder / "values.parquet", table_schemas.VALUE_SPELLINGS, spellings, names)
        write_table_rows(
            folder / "skipped.parquet",
            table_schemas.SKIPPED.schema,
            [(names[kind].as_py(), reason, times) for (kind, reason), times in sorted(self.skipped.items())],
        )
        by_kind: dict[str, int] = {}
        if counts is not None:
            summed = counts.group_by("kind").agg(pl.col("occurrences").sum())
            by_kind = {names[kind].as_py(): times for kind, times in summed.sort("kind").iter_rows()}
        documents_by_kind = {name: int(times) for name, times in zip(names.to_pylist(), self.doc_count_by_kind, strict=True) if times}
        return {"by_kind": by_kind, "documents_by_kind": documents_by_kind}


def _find_readable_rows(table: pa.Table, task: FindTask) -> tuple[npt.NDArray[np.bool_], list[tuple[int, str, str, str]]]:
    """Returns a mask of the readable rows, and a quarantine row for each other one. Records quarantined when staged get no second row."""
    is_readable = np.ones(table.num_rows, np.bool_)
    numbers = np.asarray(table.column("doc_no"), np.int64)
    if task.quarantined_docs:
        is_readable &= ~np.isin(numbers, np.array(task.quarantined_docs, np.int64))
    quarantine_rows = []
    for row, reason in sorted(find_faults(table.drop_columns(["doc_no"]).to_batches()[0], task.max_doc_bytes).items()):
        if is_readable[row]:
            quarantine_rows.append(task.quarantine_row(int(numbers[row]), reason))
            is_readable[row] = False
    return is_readable, quarantine_rows


class _OccurrenceBatch:
    """The occurrences of one batch, collected over its text leaves."""

    def __init__(self, task: FindTask, kind_names: pa.Array, doc_no: I64, entities: pl.DataFrame | None = None) -> None:
        self.kind_names, self.finder_names, self.doc_no, self.entities = (
            kind_names,
            [one.use for one in task.detection_spec.finders],
            doc_no,
            entities,
        )
        self.pieces: list[tuple[_ColumnOccurrences, I64, npt.NDArray[np.int32]]] = []
        self.skipped: dict[tuple[int, str], int] = {}
        self._sorted_columns: dict[str, npt.NDArray[Any]] = {}

    def add(self, occurrences: _ColumnOccurrences, rows: I64, cells: npt.NDArray[np.int32]) -> None:
        for reason_key, times in occurrences.skipped.items():
            self.skipped[reason_key] = self.skipped.get(reason_key, 0) + times
        if len(occurrences.text_no):
            self.pieces.append((occurrences, self.doc_no[rows[occurrences.text_no]], cells[occurrences.text_no]))

    def build_table(self) -> pa.Table:
        """The rows of the table `occurrences`, sorted."""
        sections = sorted({name for piece, _, _ in self.pieces for name in piece.section_names})
        section_no_by_name = {name: section_no for section_no, name in enumerate(sections)}
        columns: dict[str, list[npt.NDArray[Any]]] = {}
        for piece, doc_no, cell in self.pieces:
            lookup = np.array([*(section_no_by_name[name] for name in piece.section_names), -1], np.int32)
            columns.setdefault("doc_no", []).append(doc_no)
            columns.setdefault("cell", []).append(cell)
            columns.setdefault("section", []).append(lookup[piece.section])
            for name in ("start", "end", "start_byte", "end_byte", "kind", "value_id", "finder", "score"):
                columns.setdefault(name, []).append(getattr(piece, name))
        joined = {name: np.concatenate(parts) if len(parts) > 1 else parts[0] for name, parts in columns.items()}
        if len(self.pieces) > 1:
            order = np.lexsort((-joined["end"], joined["start"], joined["cell"], joined["doc_no"]))
            joined = {name: column[order] for name, column in joined.items()}
        self._sorted_columns = joined
        section = pa.array(joined["section"].astype(np.int32), mask=joined["section"] < 0)
        arrays: dict[str, pa.Array] = {
            **{name: pa.array(joined[name]) for name in ("doc_no", "cell", "start", "end", "start_byte", "end_byte", "value_id", "score")},
            "kind": pa.DictionaryArray.from_arrays(pa.array(joined["kind"].astype(np.int32)), self.kind_names),
            "finder": pa.DictionaryArray.from_arrays(pa.array(joined["finder"].astype(np.int32)), pa.array(self.finder_names)),
            "section": pa.DictionaryArray.from_arrays(section, pa.array(sections, pa.string())),
            "entity_id": self._entity_ids(joined["value_id"]),
        }
        return pa.table([arrays[name] for name in table_schemas.OCCURRENCES.schema.names], schema=table_schemas.OCCURRENCES.schema)

    def _entity_ids(self, value_id: I64) -> pa.Array:
        """The entity id of each value, null where it has none."""
        if self.entities is None or not self.entities.height:
            return pa.nulls(len(value_id), pa.int64())
        known = self.entities["value_id"].to_numpy()
        at = np.minimum(np.searchsorted(known, value_id), len(known) - 1)
        return pa.array(self.entities["entity_id"].to_numpy()[at], mask=known[at] != value_id)

    def count_values(self) -> pl.DataFrame:
        """The batch's share of `value_counts`. Call after `build_table`."""
        rows = self._sorted_columns
        order = np.argsort(rows["value_id"], kind="stable")
        value_id, doc_no = rows["value_id"][order], rows["doc_no"][order]
        new_value = np.diff(value_id, prepend=-1) != 0
        new_document = new_value | (np.diff(doc_no, prepend=-1) != 0)
        at = np.flatnonzero(new_value)
        first = order[at]
        return pl.DataFrame(
            {
                "value_id": value_id[at],
                "kind": rows["kind"][first].astype(np.int32),
                "occurrences": np.diff(np.append(at, len(order))),
                "documents": np.add.reduceat(new_document.astype(np.int64), at) if len(at) else np.empty(0, np.int64),
                "first_doc_no": rows["doc_no"][first],
                "first_cell": rows["cell"][first],
                "first_start": rows["start"][first],
            }
        )

    def count_docs_by_kind(self) -> I64:
        """Number of documents that contain each kind. Call after `build_table`."""
        rows = self._sorted_columns
        document = rows["doc_no"] - rows["doc_no"][0]  # offset in the batch; a batch has few documents
        held = np.zeros((int(document[-1]) + 1, len(self.kind_names)), np.bool_)
        held[document, rows["kind"]] = True
        return np.asarray(held.sum(axis=0), np.int64)

    def spellings(self) -> pl.DataFrame:
        """The spellings in the batch, for the vault: value_id, kind, value, normalised."""
        return pl.concat([piece.values for piece, _, _ in self.pieces])


def _merge_counts(partial: list[pl.DataFrame]) -> pl.DataFrame | None:
    """Add up the counts of batches, which hold different documents and are in corpus order; None where there are none."""
    if not partial:
        return None
    rest = ("kind", "first_doc_no", "first_cell", "first_start")
    return (
        pl.concat(partial)
        .group_by("value_id", maintain_order=True)
        .agg(pl.col("occurrences").sum(), pl.col("documents").sum(), *(pl.col(name).first() for name in rest))
        .sort("value_id")
    )


def _write_table(path: Path, table: table_schemas.TableSchema, frame: pl.DataFrame | None, kind_names: pa.Array) -> None:
    """Write a frame, whose `kind` is an index into `kind_names`, as the given table."""
    with open_table_writer(path, table.schema) as out:
        if frame is None or not frame.height:
            out.write_table(table.schema.empty_table())
            return
        arrays = []
        for field in table.schema:
            column = frame[field.name].to_arrow(compat_level=pl.CompatLevel.oldest())
            if field.name == "kind":
                column = pa.DictionaryArray.from_arrays(column.cast(pa.int32()), kind_names)
            if field.name == "normalised":
                column = pc.if_else(pc.equal(column, frame["value"].to_arrow(compat_level=pl.CompatLevel.oldest())), None, column)
            arrays.append(column.cast(field.type))
        out.write_table(pa.table(arrays, schema=table.schema), row_group_size=100_000)


@functools.cache
def hash_kind_sources() -> str:
    """Hash of all source files of sanitize/kinds, part of the index's fingerprint: which texts a kind accepts depends on functions and
    shared modules as much as on its pattern."""
    hash_ = hashlib.blake2b(digest_size=8)
    folder = resources.files("sanitize") / "kinds"
    for directory in (folder, folder / "countries"):
        for file in sorted(directory.iterdir(), key=lambda path: path.name):
            if file.name.endswith(".py"):
                hash_.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return hash_.hexdigest()
