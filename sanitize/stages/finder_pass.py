"""Runs the finders of a plan over columns of texts and merges their spans into one list of
occurrences per column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.array_types import F32, I32, I64
from sanitize.core.arrow_buffers import (
    TextBuffers,
    bytes_to_code_points,
    fill_null_texts,
    slice_spans,
    to_large_string,
)
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.part_protocols import FoundSpans, TextColumn
from sanitize.core.text_cells import LeafPath
from sanitize.finders import patterns
from sanitize.finders.patterns import NO_MATCH_LIMIT
from sanitize.kinds.kind import all_kinds
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.stages.scanner import Scanner
from sanitize.stages.span_conflicts import CompetingSpans, resolve_conflicts
from sanitize.storage.corpus import CellGroup, flatten_cells, group_cells, join_small_columns
from sanitize.text.mail_headers import find_sections

TOO_MANY_MATCHES = "too_many_matches"  # reason of a quarantine
# what a finder is shown of the spans that others found
_FINDER_VIEW_COLUMNS = (
    "text_no",
    "start_byte",
    "end_byte",
    "kind",
    "value_id",
)


@dataclass(frozen=True, repr=False)
class ColumnOccurrences:
    """Occurrences in a column of texts, sorted by (text, start, longest first). `kind` indexes the
    list of all kinds, `finder` the task's finders, `section` indexes `section_names`, -1 outside
    mail. `values` has the spellings: value_id, kind, value, normalised."""

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
    score: F32
    values: pl.DataFrame
    skipped: dict[tuple[int, str], int]
    match_counts: I64  # of each text: what the finders matched, accepted or not

    def finder_view(self) -> pl.DataFrame:
        """The occurrences as later finders see them: the columns `_FINDER_VIEW_COLUMNS`, with the
        name of the kind."""
        frame = pl.DataFrame({name: getattr(self, name) for name in _FINDER_VIEW_COLUMNS})
        return frame.with_columns(
            pl.Series("kind", list(all_kinds()), dtype=pl.String).gather(frame["kind"])
        )


NO_VALUES = pl.DataFrame(
    schema={"value_id": pl.Int64, "kind": pl.Int32, "value": pl.String, "normalised": pl.String}
)


class FinderPass:
    """Runs the finders of one round of a task, and merges what they find. A context manager: opens
    the finders on entry and closes them on exit."""

    def __init__(
        self,
        spec: DetectionSpec,
        leaves: Sequence[LeafPath],
        key: Key,
        second_round_input: Path | None = None,
        *,
        max_doc_matches: int = NO_MATCH_LIMIT,
    ) -> None:
        """`leaves` are the paths of the text cells. `second_round_input`: what the finders of the
        second round load; None in the first. `max_doc_matches`: what the finders of the first round
        may match in one document."""
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
        self.kind_numbers = {name: number for number, name in enumerate(all_kinds())}
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

    def find_in_batch(
        self, table: pa.Table
    ) -> tuple[pa.Table, list[tuple[CellGroup, ColumnOccurrences]], list[tuple[int, str]]]:
        """Run the first round on a batch of documents. Returns the batch without the documents that
        are to be quarantined, the occurrences in each group of cells, and (doc_no, reason) of the
        documents left out: those that a finder could not analyse, and those in which the finders
        match more than `max_doc_matches`. If there are any, the rest is searched again."""
        unread: list[tuple[int, str]] = []
        while True:
            doc_no, doc_id = (
                np.asarray(table.column("doc_no"), np.int64),
                table.column("doc_id").chunk(0),
            )
            self._batch_results, is_unread, group_occurrences = (
                [],
                np.zeros(table.num_rows, np.bool_),
                [],
            )
            match_counts = np.zeros(table.num_rows, np.int64)
            for group in group_cells(flatten_cells(table, list(self.leaves))):
                rows = group.rows
                positions = (
                    (doc_no[rows], doc_id.take(pa.array(rows)), group.cell)
                    if self.active_finders
                    else (None, None, None)
                )
                group_occurrences.append((group, self.find_in_texts(group.texts, *positions)))
                is_unread[rows[self._unread_texts]] = True
                np.add.at(match_counts, rows, group_occurrences[-1][1].match_counts)
            is_over = match_counts > self._max_doc_matches
            if not (is_unread | is_over).any():
                break
            unread += [(number, TOO_MANY_MATCHES) for number in doc_no[is_over].tolist()]
            unread += [(number, "not_analysed") for number in doc_no[is_unread & ~is_over].tolist()]
            table = table.filter(pa.array(~(is_unread | is_over))).combine_chunks()
            if not table.num_rows:
                return table, [], unread
        self._links += [
            spans.person_links for _, spans in self._batch_results if spans.person_links is not None
        ]
        for number, spans in self._batch_results:
            if spans.matched_count:
                self.matched_by_finder[self.finder_names[number]] = (
                    self.matched_by_finder.get(self.finder_names[number], 0) + spans.matched_count
                )
        return table, group_occurrences, unread

    def find_in_texts(
        self,
        texts: pa.LargeStringArray,
        doc_no: I64 | None = None,
        doc_id: pa.LargeStringArray | None = None,
        cell: I32 | None = None,
    ) -> ColumnOccurrences:
        """Occurrences that the first round finds in a column of texts."""
        texts = fill_null_texts(texts)
        assert self.scanner is not None
        occurrences = self._from_patterns(
            self.scanner.run(texts if self.patterns_no >= 0 else texts.slice(0, 0))
        )
        return self._merge_finders(
            TextColumn(
                texts,
                occurrences.finder_view() if self.active_finders else pl.DataFrame(),
                doc_no,
                doc_id,
                cell,
            ),
            occurrences,
        )

    def find_again(
        self, table: pa.Table, first_round_rows: pl.DataFrame
    ) -> Iterator[tuple[CellGroup, ColumnOccurrences]]:
        """Run the second round on a batch of documents; yields the occurrences in each group of
        cells. `first_round_rows` are the batch's rows of the table `occurrences`."""
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        for group in group_cells(flatten_cells(table, list(self.leaves))):
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
    ) -> ColumnOccurrences:
        """Second round on a column of texts. `first_round_rows` are its rows of the table
        `occurrences`, with the `text_no` of each."""
        texts = fill_null_texts(texts)
        first_round_rows = first_round_rows.sort(
            "text_no", "start_byte", -pl.col("end_byte"), maintain_order=True
        )
        section = first_round_rows["section"].unique(maintain_order=True).drop_nulls().to_list()
        section_no = {name: number for number, name in enumerate(section)}
        finder_no = {name: number for number, name in enumerate(self.finder_names)}
        columns = {
            name: first_round_rows[name].to_numpy()
            for name in ("text_no", "start_byte", "end_byte", "start", "end", "value_id", "score")
        }
        occurrences = ColumnOccurrences(
            **columns,
            kind=first_round_rows["kind"]
            .replace_strict(self.kind_numbers, return_dtype=pl.Int32)
            .to_numpy(),
            section=first_round_rows["section"]
            .replace_strict(section_no, default=-1, return_dtype=pl.Int32)
            .fill_null(-1)
            .to_numpy(),
            section_names=section,
            finder=first_round_rows["finder"]
            .replace_strict(finder_no, return_dtype=pl.Int32)
            .to_numpy(),
            values=NO_VALUES,
            skipped={},
            match_counts=np.zeros(len(texts), np.int64),
        )
        self._batch_results = []
        return self._merge_finders(TextColumn(texts, occurrences.finder_view()), occurrences)

    def _from_patterns(self, found: patterns.Detections) -> ColumnOccurrences:
        """Convert the results of the scanner to the numbering of kinds and finders of the task."""
        assert self.scanner is not None
        codes = np.array([self.kind_numbers[kind.name] for kind in self.scanner.kinds], np.int32)
        distinct, used = found.distinct, np.flatnonzero(np.bincount(found.value_no))
        value, normalised = (
            pl.Series(column.take(pa.array(used)))
            for column in (distinct.value, distinct.normalised)
        )
        values = {
            "value_id": distinct.value_id[used],
            "kind": codes[distinct.kind[used]],
            "value": value,
            "normalised": normalised,
        }
        return ColumnOccurrences(
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
            values=pl.DataFrame(values, schema=NO_VALUES.schema),
            skipped={
                (int(codes[kind]), reason): times for (kind, reason), times in found.skipped.items()
            },
            match_counts=found.match_counts,
        )

    def _merge_finders(
        self, column: TextColumn, occurrences: ColumnOccurrences
    ) -> ColumnOccurrences:
        """Run the active finders on a column and merge their spans into `occurrences` by the rules
        of sanitize/stages/span_conflicts.py."""
        if len(occurrences.match_counts) != len(column.texts):  # without the finder `patterns`
            occurrences = replace(occurrences, match_counts=np.zeros(len(column.texts), np.int64))
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
        old_count = len(occurrences.text_no)

        def concatenate(
            first: npt.NDArray[Any], others: Sequence[npt.NDArray[Any]]
        ) -> npt.NDArray[Any]:
            return np.concatenate([first, *others]).astype(first.dtype)

        claims = CompetingSpans(
            text_no=concatenate(occurrences.text_no, [spans.text_no for _, spans in finder_spans]),
            start=concatenate(
                occurrences.start_byte, [spans.start_byte for _, spans in finder_spans]
            ),
            end=concatenate(occurrences.end_byte, [spans.end_byte for _, spans in finder_spans]),
            kind_no=concatenate(
                occurrences.kind,
                [
                    np.array([self.kind_numbers[name] for name in s.kind_names], np.int32)[
                        s.kind_no
                    ]
                    for _, s in finder_spans
                ],
            ),
            finder_no=concatenate(
                occurrences.finder,
                [np.full(len(spans.text_no), finder_no) for finder_no, spans in finder_spans],
            ),
            score=concatenate(occurrences.score, [spans.score for _, spans in finder_spans]),
            exempt_finder_no=self.patterns_no,
        )
        given_value_ids = concatenate(
            np.full(old_count, -1, np.int64),
            [
                np.full(len(spans.text_no), -1) if spans.value_id is None else spans.value_id
                for _, spans in finder_spans
            ],
        )
        winners, lost = resolve_conflicts(claims)
        skipped = dict(occurrences.skipped)
        for kind, times in enumerate(np.bincount(claims.kind_no[lost], minlength=1).tolist()):
            if times:
                skipped[kind, "overlap"] = skipped.get((kind, "overlap"), 0) + times
        new_rows = winners[winners >= old_count]
        new_occurrences = self._complete_spans(
            column.texts, claims.take(new_rows), given_value_ids[new_rows]
        )
        columns: dict[str, Any] = {}
        for name in (
            "text_no",
            "start_byte",
            "end_byte",
            "start",
            "end",
            "kind",
            "value_id",
            "section",
            "finder",
            "score",
        ):
            columns[name] = concatenate(
                getattr(occurrences, name), [getattr(new_occurrences, name)]
            )
        # one list of section names for both
        names = [*dict.fromkeys([*occurrences.section_names, *new_occurrences.section_names])]
        section_no_by_name = {name: section_no for section_no, name in enumerate(names)}
        section_numbers = [
            np.array([*(section_no_by_name[name] for name in part.section_names), -1], np.int32)[
                part.section
            ]
            for part in (occurrences, new_occurrences)
        ]
        columns["section"] = np.concatenate(section_numbers)
        # position in `columns` of each claim that stays: old rows keep theirs, new rows follow in
        # order
        rank = np.empty(len(claims.text_no), np.int64)
        rank[new_rows] = old_count + np.arange(len(new_rows))
        positions = np.where(winners < old_count, winners, rank[winners])
        kept = {name: column[positions] for name, column in columns.items()}
        values = pl.concat([occurrences.values, new_occurrences.values])
        if len(lost):
            values = values.filter(
                pl.col("value_id").is_in(pl.Series(np.unique(kept["value_id"])).implode())
            )
        return ColumnOccurrences(
            **kept,
            section_names=names,
            values=values,
            skipped=skipped,
            match_counts=occurrences.match_counts,
        )

    def _complete_spans(
        self, texts: pa.LargeStringArray, spans: CompetingSpans, given_value_ids: I64
    ) -> ColumnOccurrences:
        """Add code point offsets, sections, value ids and spellings to sorted spans. Where
        `given_value_ids` is -1 the id is computed."""
        buffers = TextBuffers.from_array(texts)
        base = buffers.offsets[spans.text_no]
        low, high = base + spans.start, base + spans.end
        sections = find_sections(buffers, spans.text_no, low)
        start, stop = bytes_to_code_points(buffers, spans.text_no, low, high)
        encoded = slice_spans(buffers, low, high).dictionary_encode()
        code = np.asarray(encoded.indices, np.int64)
        value_id = np.empty(len(low), np.int64)
        frames = [NO_VALUES]
        for number in np.unique(spans.kind_no).tolist():
            kind_rows = np.flatnonzero(spans.kind_no == number)
            used, inverse = np.unique(code[kind_rows], return_inverse=True)
            kind, value = (
                list(all_kinds().values())[number],
                pl.Series(encoded.dictionary.take(pa.array(used))),
            )
            normalised = kind.normalise(value)
            ids = compute_value_ids(to_large_string(normalised), kind.name, self.key)[inverse]
            value_id[kind_rows] = np.where(
                given_value_ids[kind_rows] >= 0, given_value_ids[kind_rows], ids
            )
            rows = {
                "value_id": value_id[kind_rows],
                "kind": np.full(len(kind_rows), number),
                "value": value.gather(inverse),
                "normalised": normalised.gather(inverse),
            }
            frames.append(
                pl.DataFrame(rows, schema=NO_VALUES.schema).unique(
                    ["value_id", "value"], maintain_order=True
                )
            )
        return ColumnOccurrences(
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
            match_counts=np.zeros(len(texts), np.int64),
        )


class TextSearch:
    """The first round on columns of texts, without documents: the scanner, and the other finders
    that search each text by itself.

    What a stream finds in a record. `kinds` is the list that the kind numbers of its results index.
    """

    def __init__(
        self, key: Key, spec: DetectionSpec, *, max_doc_matches: int = NO_MATCH_LIMIT
    ) -> None:
        """The search of a text with more than `max_doc_matches` ends (see `Detections`)."""
        self._finder_pass = FinderPass(spec, (), key, max_doc_matches=max_doc_matches)
        assert self._finder_pass.scanner is not None
        self._scanner, self._is_open = self._finder_pass.scanner, False
        self.kinds = (
            list(all_kinds().values()) if self._finder_pass.active_finders else self._scanner.kinds
        )

    def run_columns(self, columns: Sequence[pa.LargeStringArray]) -> list[patterns.Detections]:
        """All occurrences in each of several columns of texts. Small columns are searched
        together."""
        found = list[patterns.Detections]()
        for (low, high), texts in join_small_columns(columns):
            found += self.run(texts).split([len(column) for column in columns[low:high]])
        return found

    def run(self, texts: pa.LargeStringArray) -> patterns.Detections:
        """All occurrences in a column of texts; a null text has none."""
        if not self._finder_pass.active_finders:
            return self._scanner.run(texts)
        if not self._is_open:
            self._finder_pass.__enter__()
            self._is_open = True
        texts = fill_null_texts(texts)
        found = self._finder_pass.find_in_texts(texts)
        buffers = TextBuffers.from_array(texts)
        base = buffers.offsets[found.text_no]
        spelled = pl.Series(
            slice_spans(buffers, base + found.start_byte, base + found.end_byte), dtype=pl.String
        )
        spellings = found.values.unique(["value_id", "value"], maintain_order=True).with_row_index(
            "value_no"
        )
        occurrences = pl.DataFrame(
            {"value_id": found.value_id, "value": spelled},
            schema={"value_id": pl.Int64, "value": pl.String},
        )
        joined = occurrences.join(
            spellings, on=["value_id", "value"], how="left", maintain_order="left"
        )
        assert joined["value_no"].null_count() == 0
        return patterns.Detections(
            text_no=found.text_no,
            start_byte=found.start_byte,
            end_byte=found.end_byte,
            start=found.start,
            end=found.end,
            value_no=joined["value_no"].cast(pl.Int64).to_numpy(),
            section_no=found.section,
            section_names=found.section_names,
            distinct=patterns.DistinctValues(
                kind=spellings["kind"].to_numpy(),
                value=to_large_string(spellings["value"]),
                normalised=to_large_string(spellings["normalised"]),
                value_id=spellings["value_id"].to_numpy(),
            ),
            skipped=found.skipped,
            match_counts=found.match_counts,
            score=found.score,
        )
