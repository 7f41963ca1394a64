"""Runs the finders of a plan over columns of texts and merges their spans into one list of
occurrences per column."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I32, I64
from sanitize.core.arrow_buffers import (
    TextBuffers,
    fill_null_texts,
    numbers_to_arrow,
    numbers_to_numpy,
    slice_spans,
    to_large_string,
)
from sanitize.core.intervals import sort_spans
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.part_protocols import FieldNames, FoundSpans, TextColumn
from sanitize.core.span_table import SpanTable, ValueTable
from sanitize.core.text_cells import LeafPath
from sanitize.finders import patterns
from sanitize.finders.patterns import NO_MATCH_LIMIT
from sanitize.kinds.kind import all_kinds
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.stages.scanner import Scanner
from sanitize.stages.span_conflicts import merge_spans
from sanitize.storage.corpus import (
    CellColumn,
    CellGroup,
    flatten_cells,
    group_cells,
    join_small_columns,
)
from sanitize.text.mail_headers import HeaderBlocks

TOO_MANY_MATCHES = "too_many_matches"  # reason of a quarantine


class FoundInBatch(NamedTuple):
    """A batch without the documents that are to be quarantined, the occurrences in each group of
    cells, and (doc_no, reason) of the documents left out."""

    table: pa.Table
    by_group: list[tuple[CellGroup, SpanTable]]
    unread: list[tuple[int, str]]


class FinderPass:
    """Runs the finders of one round of a task, and merges what they find. A context manager: opens
    the finders on entry and closes them on exit."""

    def __init__(
        self,
        spec: DetectionSpec,
        leaves: Sequence[LeafPath],
        key: Key,
        second_round_input: Path | pa.Table | None = None,
        *,
        known_values: ValueTable | None = None,
        max_doc_matches: int = NO_MATCH_LIMIT,
        unnamed_columns: Collection[str] = (),
    ) -> None:
        """`leaves` are the paths of the text cells. `second_round_input`: what the finders of the
        second round load; None in the first, and `known_values` those of the first, one row for
        each, ascending by id. `max_doc_matches`: what the finders of the first round may match in
        one document. `unnamed_columns`: those whose name says nothing about their cells."""
        self._unnamed_columns = frozenset(unnamed_columns)
        self._known_values = known_values or ValueTable.empty()
        self.leaves, self.key, self.second_round_input, self._max_doc_matches = (
            leaves,
            key,
            second_round_input,
            max_doc_matches,
        )
        self.scanner = (
            Scanner(key, spec, max_matches=max_doc_matches) if second_round_input is None else None
        )
        self.finder_names = [finder.use for finder in spec.finders]
        self._opt_in_kinds = spec.opt_in_kinds
        self._kinds = list(all_kinds().values())
        self.kind_numbers = {kind.name: number for number, kind in enumerate(self._kinds)}
        is_second_round = second_round_input is not None
        self.active_finders = [
            (number, finder)
            for number, finder in enumerate(spec.finders)
            if finder.use != patterns.FINDER_NAME and finder.second_round == is_second_round
        ]
        self.patterns_no = (
            self.finder_names.index(patterns.FINDER_NAME)
            if patterns.FINDER_NAME in self.finder_names
            else -1
        )
        # by finder: spans from an external source that matched a document
        self.matched_by_finder: dict[str, int] = {}
        self._links: list[pl.DataFrame] = []
        # (finder number, its spans) for the current batch
        self._batch_results: list[tuple[int, FoundSpans]] = []
        self._unread_texts = np.empty(0, np.int64)

    def __enter__(self) -> FinderPass:
        for _, finder in self.active_finders:
            finder.open(self.key, self.second_round_input)
        return self

    def __exit__(self, *_: object) -> None:
        for _number, finder in self.active_finders:
            finder.close()

    def distinct_links(self) -> pl.DataFrame:
        """The distinct pairs of values that belong to one person: `value_id`, `other`."""
        return (
            pl.concat(
                [pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64}), *self._links]
            )
            .unique()
            .sort("value_id", "other")
        )

    def find_in_batch(self, table: pa.Table) -> FoundInBatch:
        """Run the first round on a batch of documents. Documents that a finder could not analyse,
        and those in which the finders match more than `max_doc_matches`, are left out. If there are
        any, the rest is searched again."""
        unread: list[tuple[int, str]] = []
        while True:
            doc_no, doc_id = (
                numbers_to_numpy(table.column("doc_no")),
                table.column("doc_id").chunk(0),
            )
            self._batch_results, is_unread, group_occurrences = (
                [],
                np.zeros(table.num_rows, np.bool_),
                [],
            )
            match_counts = np.zeros(table.num_rows, np.int64)
            columns = flatten_cells(table, self.leaves)
            for group in group_cells(columns):
                rows = group.rows
                if self.active_finders:
                    leaf_nos, text_counts = np.unique(group.leaf_no, return_counts=True)
                    names = [self._name_fields(columns[no]) for no in leaf_nos.tolist()]
                    found = self.find_in_texts(
                        group.texts,
                        doc_no[rows],
                        doc_id.take(numbers_to_arrow(rows)),
                        group.cell,
                        FieldNames.from_columns(names, text_counts.tolist()),
                    )
                else:
                    found = self.find_in_texts(group.texts)
                group_occurrences.append((group, found))
                is_unread[rows[self._unread_texts]] = True
                np.add.at(match_counts, rows, group_occurrences[-1][1].match_counts)
            is_over = match_counts > self._max_doc_matches
            if not (is_unread | is_over).any():
                break
            unread += [(number, TOO_MANY_MATCHES) for number in doc_no[is_over].tolist()]
            unread += [(number, "not_analysed") for number in doc_no[is_unread & ~is_over].tolist()]
            table = table.filter(pa.array(~(is_unread | is_over))).combine_chunks()
            if not table.num_rows:
                return FoundInBatch(table, [], unread)
        self._links += [
            spans.person_links for _, spans in self._batch_results if spans.person_links is not None
        ]
        for number, spans in self._batch_results:
            if spans.matched_count:
                self.matched_by_finder[self.finder_names[number]] = (
                    self.matched_by_finder.get(self.finder_names[number], 0) + spans.matched_count
                )
        return FoundInBatch(table, group_occurrences, unread)

    def _name_fields(self, column: CellColumn) -> str | tuple[str, ...]:
        """The name of the field that the texts of a column fill, or of that of each text."""
        is_unnamed = not column.leaf.steps and column.leaf.column in self._unnamed_columns
        return "" if is_unnamed else column.field_names

    def find_in_texts(
        self,
        texts: pa.LargeStringArray,
        doc_no: I64 | None = None,
        doc_id: pa.LargeStringArray | None = None,
        cell: I32 | None = None,
        fields: FieldNames | None = None,
    ) -> SpanTable:
        """Occurrences that the first round finds in a column of texts (see `TextColumn`)."""
        texts = fill_null_texts(texts)
        assert self.scanner is not None
        if self.patterns_no >= 0:
            occurrences = self.scanner.run(texts)
            finder = np.full(len(occurrences), self.patterns_no, np.int32)
            occurrences = replace(occurrences, finder=finder)
        else:
            occurrences = SpanTable.no_spans(len(texts))
        if not self.active_finders:
            return occurrences
        view = self._show_to_finders(occurrences)
        column = TextColumn(texts, view, doc_no, doc_id, cell, fields, self._opt_in_kinds)
        return self._merge_finders(column, occurrences)

    def find_again(
        self, table: pa.Table, first_round_rows: pl.DataFrame
    ) -> Iterator[tuple[CellGroup, SpanTable]]:
        """Run the second round on a batch of documents; yields the occurrences in each group of
        cells. `first_round_rows` are the batch's rows of the table `occurrences`."""
        doc_no = numbers_to_numpy(table.column("doc_no"))
        for group in group_cells(flatten_cells(table, self.leaves)):
            text_nos = pl.DataFrame(
                {
                    "doc_no": doc_no[group.rows],
                    "cell": group.cell,
                    "text_no": np.arange(len(group.cell)),
                },
                schema={"doc_no": pl.Int64, "cell": pl.Int32, "text_no": pl.Int64},
            )
            group_rows = first_round_rows.join(
                text_nos, on=["doc_no", "cell"], how="inner", maintain_order="left"
            )
            yield group, self._find_again_in_texts(group.texts, group_rows)

    def _find_again_in_texts(
        self, texts: pa.LargeStringArray, first_round_rows: pl.DataFrame
    ) -> SpanTable:
        """Second round on a column of texts. `first_round_rows` are its rows of the table
        `occurrences`, with the `text_no` of each."""
        texts = fill_null_texts(texts)
        rows = first_round_rows.sort(
            "text_no", "start_byte", -pl.col("end_byte"), maintain_order=True
        )
        section_names = rows["section"].unique(maintain_order=True).drop_nulls().to_list()
        numbers = {
            "section": {name: number for number, name in enumerate(section_names)},
            "finder": {name: number for number, name in enumerate(self.finder_names)},
        }
        section_no, finder_no = (
            rows[name].replace_strict(known, default=-1, return_dtype=pl.Int32).fill_null(-1)
            for name, known in numbers.items()
        )
        occurrences = SpanTable(
            text_no=rows["text_no"].to_numpy(),
            start_byte=rows["start_byte"].to_numpy(),
            end_byte=rows["end_byte"].to_numpy(),
            value_no=np.searchsorted(self._known_values.value_id, rows["value_id"].to_numpy()),
            section_no=section_no.to_numpy(),
            finder=finder_no.to_numpy(),
            score=rows["score"].to_numpy(),
            values=self._known_values,
            section_names=tuple(section_names),
            skipped={},
            match_counts=np.zeros(len(texts), np.int64),
        )
        self._batch_results = []
        view = self._show_to_finders(occurrences)
        return self._merge_finders(TextColumn(texts, view), occurrences)

    def _show_to_finders(self, occurrences: SpanTable) -> pl.DataFrame:
        """The occurrences as later finders see them: text, bytes, the name of the kind, value."""
        columns = ("text_no", "start_byte", "end_byte", "kind", "value_id")
        frame = pl.DataFrame({name: getattr(occurrences, name) for name in columns})
        names = pl.Series("kind", [kind.name for kind in self._kinds], dtype=pl.String)
        return frame.with_columns(names.gather(frame["kind"]))

    def _merge_finders(self, column: TextColumn, occurrences: SpanTable) -> SpanTable:
        """Run the active finders on a column and merge their spans into `occurrences` by the rules
        of sanitize/stages/span_conflicts.py."""
        finder_spans = [
            (finder_no, finder.find_spans(column)) for finder_no, finder in self.active_finders
        ]
        for _, spans in finder_spans:
            np.add.at(occurrences.match_counts, spans.text_no, 1)
        self._batch_results += finder_spans
        self._unread_texts = np.unique(
            np.concatenate(
                [
                    np.empty(0, np.int64),
                    *(
                        s.unreadable_texts
                        for _, s in finder_spans
                        if s.unreadable_texts is not None
                    ),
                ]
            )
        )
        for _, spans in finder_spans:
            for (name, reason), times in spans.skipped_counts.items():
                reason_key = self.kind_numbers[name], reason
                occurrences.skipped[reason_key] = occurrences.skipped.get(reason_key, 0) + times
        finder_spans = [
            (finder_no, spans) for finder_no, spans in finder_spans if len(spans.text_no)
        ]
        if not finder_spans:
            return occurrences
        headers = HeaderBlocks(TextBuffers.from_array(column.texts))
        tables = [
            self._complete_spans(headers, finder_no, spans) for finder_no, spans in finder_spans
        ]
        return merge_spans([occurrences, *tables], exempt_finder=self.patterns_no)

    def _complete_spans(
        self, headers: HeaderBlocks, finder_no: int, spans: FoundSpans
    ) -> SpanTable:
        """What a finder found in a column of texts as a table: in order, with sections and values.
        A value id that the finder gives is taken instead of that of the text."""
        buffers = headers.buffers
        base = buffers.offsets[spans.text_no]
        order = sort_spans(base + spans.start_byte, base + spans.end_byte)
        text_no, low = spans.text_no[order], (base + spans.start_byte)[order]
        high = (base + spans.end_byte)[order]
        numbers = np.array([self.kind_numbers[name] for name in spans.kind_names], np.int32)
        kind_no = numbers[spans.kind_no[order]]
        given = np.full(len(order), -1) if spans.value_id is None else spans.value_id[order]
        # a value for each distinct text, kind and given id
        encoded = slice_spans(buffers, low, high).dictionary_encode()
        spelled = np.column_stack([numbers_to_numpy(encoded.indices), kind_no, given])
        spelled, value_no = np.unique(spelled, axis=0, return_inverse=True)
        value = pl.Series(encoded.dictionary, dtype=pl.String).gather(spelled[:, 0])
        kind, value_id = spelled[:, 1].astype(np.int32), spelled[:, 2].copy()
        normalised = value.clone()
        for number in np.unique(kind).tolist():
            rows = np.flatnonzero(kind == number)
            own = self._kinds[number].normalise(value.gather(rows))
            normalised = normalised.scatter(rows, own)
            ids = compute_value_ids(to_large_string(own), self._kinds[number].name, self.key)
            value_id[rows] = np.where(value_id[rows] >= 0, value_id[rows], ids)
        sections = headers.find_sections(text_no, low)
        return SpanTable(
            text_no=text_no,
            start_byte=low - buffers.offsets[text_no],
            end_byte=high - buffers.offsets[text_no],
            value_no=value_no.ravel(),
            section_no=sections.section_no,
            finder=np.full(len(order), finder_no, np.int32),
            score=spans.score[order].astype(np.float32),
            values=ValueTable(value_id, kind, to_large_string(value), to_large_string(normalised)),
            section_names=tuple(sections.section_names),
            skipped={},
            match_counts=np.zeros(len(buffers.lengths), np.int64),
        )


class TextSearch:
    """The first round on columns of texts, without documents: the scanner, and the other finders
    that search each text by itself. What a stream finds in a record."""

    def __init__(
        self, key: Key, spec: DetectionSpec, *, max_doc_matches: int = NO_MATCH_LIMIT
    ) -> None:
        """The search of a text with more than `max_doc_matches` ends (see `PatternFinder`)."""
        self._finder_pass = FinderPass(spec, (), key, max_doc_matches=max_doc_matches)
        self._is_open = False

    def run_columns(
        self, columns: Sequence[tuple[pa.LargeStringArray, str | tuple[str, ...]]]
    ) -> list[SpanTable]:
        """All occurrences in each of several columns of texts, each with the name of the field that
        it fills, or of that of each text; a null text has none. Small columns are searched
        together."""
        if not self._is_open:
            self._finder_pass.__enter__()
            self._is_open = True
        found = list[SpanTable]()
        for (low, high), texts in join_small_columns([texts for texts, _ in columns]):
            sizes = [len(column) for column, _ in columns[low:high]]
            fields = FieldNames.from_columns([names for _, names in columns[low:high]], sizes)
            found += self._finder_pass.find_in_texts(texts, fields=fields).split(sizes)
        return found
