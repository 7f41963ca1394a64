r"""Finds occurrences of all kinds that have a pattern, in four phases over a column of texts;
spans are exact in bytes.

The patterns of a phase form one alternation, run by the linear-time regex engine of Polars, which
writes a mark around each match; the marks are read back from the bytes. Kind, check, normalised
value and `value_id` are computed for distinct candidates only. A phase searches the text that the
earlier phases left (see `Kind.phase`). Escapes that a text writes out, such as `\n`, separate
values and are part of none: the patterns search a view of the texts without them
(sanitize/text/decodings/written_escapes.py). Texts in which digits of other scripts, invisible
characters and the like may hide a value are searched in their plain reading first
(sanitize/text/decodings/plain_readings.py). URLs are
searched once more for values inside them. All kinds are always searched, so that one index serves
every plan, and no kind matches the text of another because a plan does not name that one; only
national identifiers are selected by country, and opt-in kinds on request. Names and free-form kinds
are left to other finders.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I32, I64, U8, U64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    fill_null_texts,
    find_alternatives,
    find_matches,
    find_matches_in,
    join_alternatives,
    make_byte_table,
    number_marked_texts,
    number_texts,
    slice_spans,
    to_large_string,
)
from sanitize.core.intervals import begins_group, enumerate_ranges, expand_ranges, sort_spans
from sanitize.core.keys import Key, compute_span_value_ids
from sanitize.core.span_table import SpanTable, ValueTable
from sanitize.kernels import byte_positions
from sanitize.kinds import labelled_forms
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    Alternative,
    Kind,
    boundary_tables,
    builtin_kinds,
    list_kinds,
    unflatten_strings,
)
from sanitize.kinds.labelled_forms import LabelTable
from sanitize.kinds.plain_forms import (
    ADDRESS_FIELD,
    BRACKETED,
    ID_FIELD,
    FormTable,
    make_form_table,
)
from sanitize.text.decodings.decoded_pieces import Decoding
from sanitize.text.decodings.plain_readings import decode_hidden_characters
from sanitize.text.decodings.written_escapes import separate_escapes
from sanitize.text.mail_headers import HeaderBlocks, Sections
from sanitize.text.regex_threads import run_in_regex_thread
from sanitize.text.text_pieces import (
    LiteralTable,
    TextPieces,
    find_digit_lines,
    find_runs,
    find_two_lines,
    find_values_below_labels,
    find_words,
    mask_spans,
    widen_spans,
)

FINDER_NAME = "patterns"
NO_MATCH_LIMIT = (1 << 63) - 1
_KINDS_SEARCHED_INSIDE = ("URL",)  # kinds that are searched for values of other kinds
_CONTEXT_BYTES_BEFORE, _CONTEXT_BYTES_AFTER = 48, 16  # bytes of context on either side
# what is searched in a phase, one after the other
_BEHIND_LABELS, _WHOLE, _TOKENS, _LABELLED, _EMBEDDED = range(5)
_LANDMARK_BYTES = 24  # on either side of the run of an anchor: what a landmark may match there
_MAX_BYTES_BEHIND_LABEL = 160
# on either side of what a plain reading decodes: more than a value, of which private keys and
# tokens are the longest, and what decides about it
_BYTES_BESIDE_DECODED = 1 << 14
_KINDS_PER_THREAD = 10  # each has up to three patterns, and a thread keeps 32
_LESS_THAN, _GREATER_THAN = ord("<"), ord(">")


class PatternFinder:
    """Finder of all kinds in sanitize/kinds/ that have a pattern, with one key; of national
    identifiers only those of `countries`, of opt-in kinds only `opt_in_kinds`. `max_matches`: the
    search of a text with more matches ends, and its spans are not complete."""

    def __init__(
        self,
        key: Key,
        countries: Iterable[str] = (),
        opt_in_kinds: Iterable[str] = (),
        *,
        max_matches: int = NO_MATCH_LIMIT,
    ) -> None:
        self.key, self._max_matches = key, max_matches
        self.kinds: list[Kind] = list(builtin_kinds().values())
        searched = list_kinds(countries, opt_in_kinds)
        number_by_name = {kind.name: number for number, kind in enumerate(self.kinds)}
        # the kinds that are searched by their patterns, by their number
        self._searched_kinds = {
            number_by_name[name]: kind for name, kind in searched.items() if kind.pattern
        }
        kinds = self._searched_kinds.values()
        self._labels = LabelTable(
            (
                (number_by_name[kind.name], kind)
                for kind in searched.values()
                if kind.labelled_forms and kind.country is None
            ),
            run_in_regex_thread,
        )
        self._phases = sorted({kind.phase for kind in kinds})
        # tokens, values beside their labels and inside longer words are searched in the text that
        # the values of their phase leave
        self._searches = sorted(
            (set() if self._labels.is_empty else {(labelled_forms.PHASE, _BEHIND_LABELS)})
            | {(phase, _WHOLE) for phase in self._phases}
            | {(kind.phase, _TOKENS) for kind in kinds if kind.tokens}
            | {(kind.phase, _LABELLED) for kind in kinds if kind.labelled_text}
            | {(kind.phase, _EMBEDDED) for kind in kinds if kind.embedded_pattern}
        )
        # not searched inside other values: these themselves, and values of several words
        self._not_inside = (
            *_KINDS_SEARCHED_INSIDE,
            *(kind.name for kind in kinds if kind.landmarks),
        )
        self._not_before, self._not_after = boundary_tables(self.kinds)
        self._is_word_byte = make_byte_table(ASCII_WORD_CHARS)
        self._can_begin = np.array(
            [make_byte_table(kind.first_bytes) for kind in self.kinds], np.bool_
        )
        self._forms = {
            phase: self._build_forms(phase) for phase in (*self._phases, labelled_forms.PHASE)
        }
        self._literals = {
            phase: _build_literal_table([kind for kind in kinds if kind.phase == phase])
            for phase in self._phases
        }

    def _build_forms(self, phase: int) -> tuple[FormTable, I32]:
        """The plain forms of all kinds of a phase, and the kind of each; the last entry is -1, for
        a value without a form."""
        forms = [
            (form, number)
            for number, kind in self._searched_kinds.items()
            if kind.phase == phase
            for form in kind.plain_forms
        ]
        return make_form_table(tuple(form for form, _ in forms)), np.array(
            [*(number for _, number in forms), -1], np.int32
        )

    def run(self, texts: pa.LargeStringArray) -> SpanTable:
        """Returns all occurrences in a column of texts; a null text has none."""
        buffers = TextBuffers.from_array(fill_null_texts(texts))
        view, headers = separate_escapes(buffers), HeaderBlocks(buffers)
        readings = [
            self._search_reading(buffers, headers, decoding)
            for decoding in (decode_hidden_characters(buffers, _BYTES_BESIDE_DECODED),)
            if decoding is not None
        ]
        written = buffers
        for spans in readings:
            view, written = (mask_spans(one, *spans.locate(buffers)) for one in (view, written))
        spans = self._search(view, written, headers=headers, max_matches=self._max_matches)
        spans = SpanTable.join([self._search_inside_values(spans), *readings])
        starts, ends = spans.locate(buffers)
        is_sorted = (starts[1:] > starts[:-1]).all()
        return spans if is_sorted else spans.take(sort_spans(starts, ends))

    def _search_reading(
        self, buffers: TextBuffers, headers: HeaderBlocks, decoding: Decoding
    ) -> SpanTable:
        """The occurrences in decoded texts that contain something decoded, as spans of the column;
        normalised forms and ids are those of the decoded values."""
        pieces = TextBuffers.from_array(decoding.pieces)
        found = self._search(separate_escapes(pieces), pieces, max_matches=self._max_matches)
        found = self._search_inside_values(found)
        places = decoding.find_encoded_spans(found.text_no, found.start_byte, found.end_byte)
        rows = np.flatnonzero(places.is_encoded)
        text_no, starts, ends = places.text_no[rows], places.start[rows], places.end[rows]
        low, high = buffers.offsets[text_no] + starts, buffers.offsets[text_no] + ends
        sections = headers.find_sections(text_no, low)
        # a value for each spelling in the column
        row_value = found.value_no[rows]
        spelling, _ = number_texts(buffers.data, low, high)
        pairs = spelling * (len(found.values) + 1) + row_value
        _, first, value_no = np.unique(pairs, return_index=True, return_inverse=True)
        values = replace(
            found.values.take(row_value[first]), value=slice_spans(buffers, low[first], high[first])
        )
        return replace(
            found.take(rows),
            text_no=text_no,
            start_byte=starts,
            end_byte=ends,
            value_no=value_no,
            values=values,
            section_no=sections.section_no,
            section_names=tuple(sections.section_names),
            skipped={},
            match_counts=np.bincount(text_no, minlength=len(buffers.lengths)),
        )

    def _search(
        self,
        view: TextBuffers,
        written: TextBuffers,
        *,
        headers: HeaderBlocks | None = None,
        excluded_kinds: tuple[str, ...] = (),
        text_counts: I64 | None = None,
        max_matches: int = NO_MATCH_LIMIT,
    ) -> SpanTable:
        """Searches phase by phase, each in the text that the earlier phases left; returns the
        spans of one phase after the other, without sections where there are no `headers`. `view` is
        the column with its escapes separated; values beside labels are searched in the column as
        `written`, since they may contain some (`%2F`).
        `text_counts` is how often each text occurs, for the counts in `skipped`. Of a text with
        more than `max_matches` no more candidates are resolved."""
        tables = [SpanTable.no_spans(len(view.lengths))]  # what was found, by search
        match_counts = np.zeros(len(view.lengths), np.int64)
        # without what was found: the view, and its lines with digits, from the first search on that
        # needs them
        left, lines = view, None
        for phase, search in self._searches:
            buffers = written if search == _LABELLED else view
            kinds = [
                kind
                for kind in self._searched_kinds.values()
                if kind.phase == phase and kind.name not in excluded_kinds
            ]
            landmarks = "|".join(filter(None, (kind.landmarks for kind in kinds)))
            in_lines = landmarks or all(kind.digit_lines_only for kind in kinds)
            if lines is None and (search == _BEHIND_LABELS or in_lines):
                starts, stops = SpanTable.join(tables).locate(view)
                order = np.argsort(starts, kind="stable")
                lines = find_digit_lines(view, starts[order], stops[order])
            if search == _BEHIND_LABELS:
                if excluded_kinds:  # inside of a value is no other label
                    continue
                assert lines is not None
                found = self._search_behind_labels(buffers, lines, headers)
                match_counts += np.bincount(found.text_no, minlength=len(match_counts))
            elif kinds:
                pieces = lines if in_lines else None
                if landmarks:
                    assert lines is not None
                    low, high = self._find_landmarks(lines, phase, landmarks)
                    if not len(low):
                        continue
                    pieces = TextPieces.around_spans(left, low, high)
                searched = left if pieces is None else pieces.buffers
                if buffers is not view:
                    searched = mask_spans(buffers, *SpanTable.join(tables).locate(buffers))
                low, high = (
                    _find_embedded_matches(searched, kinds)
                    if search == _EMBEDDED
                    else _find_labelled_matches(searched, kinds)
                    if search == _LABELLED
                    else _find_tokens(searched, kinds)
                    if search == _TOKENS
                    else self._find_matches(searched, phase, kinds)
                )
                if pieces is not None:
                    low, high = pieces.to_column(low), pieces.to_column(high - 1) + 1
                text_no = np.searchsorted(buffers.offsets, low, side="right") - 1
                match_counts += np.bincount(text_no, minlength=len(match_counts))
                if (is_over := match_counts > max_matches).any():
                    rest = ~is_over[text_no]
                    low, high, text_no = low[rest], high[rest], text_no[rest]
                found = self._resolve_candidates(
                    buffers,
                    text_no,
                    low,
                    high,
                    Sections(np.full(len(low), -1, np.int32), [])
                    if headers is None
                    else headers.find_sections(text_no, low),
                    None if text_counts is None else text_counts[text_no],
                    phase=phase,
                    is_labelled=search == _LABELLED,
                )
            else:
                continue
            tables.append(found)
            if (phase, search) != self._searches[-1]:
                starts, stops = found.locate(view)
                left = mask_spans(left, starts, stops, in_place=left is not view)
                if lines is not None:
                    lines.mask_spans(starts, stops)
        return replace(SpanTable.join(tables), match_counts=match_counts)

    def _find_landmarks(self, lines: TextPieces, phase: int, landmarks: str) -> tuple[I64, I64]:
        """Returns start and end byte of the runs around anchors in which, or up to
        `_LANDMARK_BYTES` beside which, a landmark is."""
        literals = self._literals[phase]
        assert literals is not None, "a kind with landmarks has anchors"
        starts, ends, _ = find_runs(lines.buffers, literals)
        low, high, _ = widen_spans(lines.buffers, starts, ends, *2 * (_LANDMARK_BYTES,))
        texts = pl.Series(slice_spans(lines.buffers, low, high), dtype=pl.String)
        is_near = run_in_regex_thread("landmarks", texts.str.contains, landmarks).to_numpy()
        starts, sizes = lines.to_column(starts[is_near]), (ends - starts)[is_near]
        return starts, starts + sizes

    def _find_matches(self, buffers: TextBuffers, phase: int, kinds: list[Kind]) -> tuple[I64, I64]:
        """Returns start and end byte of every leftmost match of the kinds' patterns.

        An alternative with conditions is searched by itself, only in the texts that meet them,
        which finds the same; the others together in the runs around anchors, where all kinds have
        some.
        """
        alternatives = [alternative for kind in kinds for alternative in kind.list_alternatives()]
        unconditional = "|".join(
            alternative.pattern for alternative in alternatives if not alternative.is_conditional
        )
        literals = self._literals[phase]
        if any(kind.landmarks for kind in kinds):
            patterns = [alternative.pattern for alternative in alternatives]
            return run_in_regex_thread("search", find_alternatives, buffers, patterns)
        if literals is None:
            return run_in_regex_thread("search", find_matches, buffers, unconditional)
        starts, ends, marks = find_runs(buffers, literals)
        pieces = TextPieces.from_spans(buffers, starts, ends)
        low, high = run_in_regex_thread("search", find_matches, pieces.buffers, unconditional)
        found = [(pieces.to_column(low), pieces.to_column(high - 1) + 1)]
        texts, searched = pl.Series(buffers.to_array()), list[str]()
        for alternative in alternatives:
            rows = _select_texts(texts, marks, literals.bits, alternative)
            if len(rows):
                found.append(
                    run_in_regex_thread(
                        "conditional search", find_matches_in, buffers, rows, alternative.pattern
                    )
                )
            if len(rows) or not alternative.is_conditional:
                searched.append(alternative.pattern)

        def find_again(rows: I64) -> tuple[I64, I64]:
            return run_in_regex_thread(
                "search again", find_matches_in, buffers, rows, "|".join(searched)
            )

        return join_alternatives(buffers, found, find_again, is_ordered=len(found) == 1)

    def _search_behind_labels(
        self, buffers: TextBuffers, lines: TextPieces, headers: HeaderBlocks | None
    ) -> SpanTable:
        """Searches the values behind labels, on the same line or alone on the next one. `lines`
        have the lines with digits, without what earlier phases found."""
        found = [
            self._find_behind_labels(pieces)
            for pieces in (find_values_below_labels(buffers, lines), lines)
        ]
        start, end, kind = (np.concatenate(columns) for columns in zip(*found, strict=True))
        _, rows = np.unique(start, return_index=True)
        # not where a label is inside the value of an earlier one
        rows = rows[start[rows] >= np.maximum.accumulate(np.concatenate([[0], end[rows]]))[:-1]]
        start, end, kind = start[rows], end[rows], kind[rows]
        text_no = np.searchsorted(buffers.offsets, start, side="right") - 1
        sections = (
            Sections(np.full(len(start), -1, np.int32), [])
            if headers is None
            else headers.find_sections(text_no, start)
        )
        return self._resolve_candidates(
            buffers, text_no, start, end, sections, kinds=kind, phase=labelled_forms.PHASE
        )

    def _find_behind_labels(self, pieces: TextPieces) -> tuple[I64, I64, I64]:
        """Returns start and end byte and kind of each value behind a label in the pieces."""
        texts = pieces.buffers
        low, high = run_in_regex_thread("labels", find_matches, texts, self._labels.pattern)
        piece = np.searchsorted(pieces.piece_starts, low, side="right") - 1
        stop = np.append(pieces.piece_starts, len(texts.data) + 1)[piece + 1] - 1
        stop = np.minimum(stop, widen_spans(texts, low, high, 0, _MAX_BYTES_BEHIND_LABEL)[1])
        behind = pl.Series(slice_spans(texts, high, stop), dtype=pl.String)
        labels = pl.Series(slice_spans(texts, low, high), dtype=pl.String)
        found = self._labels.decide(labels, behind)
        row = found["row"].to_numpy()
        start = pieces.to_column(high[row]) + found["start"].to_numpy()
        return start, start + found["size"].to_numpy(), found["kind"].to_numpy()

    def _resolve_candidates(
        self,
        buffers: TextBuffers,
        text_no: I64,
        starts: I64,
        ends: I64,
        sections: Sections,
        weights: I64 | None = None,
        *,
        kinds: I64 | None = None,
        phase: int,
        is_labelled: bool = False,
    ) -> SpanTable:
        """Assigns a kind to each candidate, or drops it; decided once per distinct (value,
        bracketed, field), unless `kinds` has the kind of each. `weights` is how often each
        candidate counts in `skipped`."""
        no_spans = SpanTable.no_spans(len(buffers.lengths))
        if not len(starts):
            return no_spans
        bracketed = (buffers.data[starts] == _LESS_THAN) & (buffers.data[ends - 1] == _GREATER_THAN)
        starts, ends = starts + bracketed, ends - bracketed
        field_flags = sections.is_id_field * ID_FIELD + sections.is_address_field * ADDRESS_FIELD
        marks = bracketed * BRACKETED + field_flags if kinds is None else kinds
        row, first = number_marked_texts(buffers.data, starts, ends, marks)
        candidates = _DistinctCandidates(
            TextBuffers.from_array(slice_spans(buffers, starts[first], ends[first])),
            marks[first].astype(np.uint8),
        )
        if kinds is None:
            (kind, cut_before, cut_after, reasons), form = self._assign_kinds(
                candidates, phase, is_labelled
            )
        else:
            kind, form = kinds[first].astype(np.int32), np.full(len(first), -1, np.int64)
            reasons = dict[tuple[int, str], I64]()
            cut_before = cut_after = np.zeros(len(first), np.int64)
        skipped: dict[tuple[int, str], int] = {}
        if reasons:
            counts = np.bincount(row, weights, minlength=len(first))
            for kind_and_reason, rows in reasons.items():
                skipped[kind_and_reason] = int(counts[rows].sum())
        good = np.flatnonzero(kind >= 0)
        to_distinct = np.full(len(first), -1, np.int64)
        to_distinct[good] = np.arange(len(good))
        if cut_before.any() or cut_after.any():
            # one value may have been matched with different prefixes or suffixes
            candidates = candidates.take(good, cut_before[good], cut_after[good])
            texts = candidates.texts
            number, first_of_same = number_marked_texts(
                texts.data, texts.offsets[:-1], texts.offsets[1:], kind[good]
            )
            order = np.argsort(first_of_same)
            to_distinct[good] = np.argsort(order)[number]
            candidates, good = candidates.take(first_of_same[order]), good[first_of_same[order]]
        elif len(good) < len(kind):
            candidates = candidates.take(good)
        distinct, needs_context = self._normalise_values(candidates, kind[good], form[good], phase)
        value_no = to_distinct[row]
        keep = np.flatnonzero(value_no >= 0)
        candidate_row = row[keep]
        starts, ends = (
            starts[keep] + cut_before[candidate_row],
            ends[keep] - cut_after[candidate_row],
        )
        text_no, value_no = text_no[keep], value_no[keep]
        cuts = (cut_before > 0) + 2 * (cut_after > 0).astype(np.uint8)
        bad_boundary = self._violates_boundary(
            buffers, text_no, starts, ends, distinct.kind[value_no], cuts[candidate_row]
        )
        no_context = (
            self._lacks_context(buffers, text_no, starts, ends, value_no, distinct, needs_context)
            & ~bad_boundary
        )
        for reason, bad in (("boundary", bad_boundary), ("context", no_context)):
            if bad.any():
                counts = np.bincount(
                    distinct.kind[value_no[bad]], None if weights is None else weights[keep[bad]]
                )
                skipped |= {
                    (number, reason): int(counts[number])
                    for number in np.flatnonzero(counts).tolist()
                }
        if (bad := bad_boundary | no_context).any():
            keep, text_no, starts, ends, value_no = (
                keep[~bad],
                text_no[~bad],
                starts[~bad],
                ends[~bad],
                value_no[~bad],
            )
        return replace(
            no_spans,
            text_no=text_no,
            start_byte=starts - buffers.offsets[text_no],
            end_byte=ends - buffers.offsets[text_no],
            value_no=value_no,
            section_no=sections.section_no[keep],
            finder=np.zeros(len(keep), np.int32),
            score=np.ones(len(keep), np.float32),
            values=distinct,
            section_names=tuple(sections.section_names),
            skipped=skipped,
        )

    def _lacks_context(
        self,
        buffers: TextBuffers,
        text_no: I64,
        starts: I64,
        ends: I64,
        value_no: I64,
        distinct: ValueTable,
        needs_context: Mask,
    ) -> Mask:
        """True where a value is accepted only in a context (`Kind.needs_context`), and its context
        does not satisfy the rule."""
        lacks_context = np.zeros(len(value_no), np.bool_)
        doubtful_rows = np.flatnonzero(needs_context[value_no])
        row_kind = distinct.kind[value_no[doubtful_rows]]
        for number in np.flatnonzero(np.bincount(row_kind)).tolist():
            kind, rows = self.kinds[number], doubtful_rows[row_kind == number]
            assert kind.context_rule is not None
            low = np.maximum(starts[rows] - _CONTEXT_BYTES_BEFORE, buffers.offsets[text_no[rows]])
            high = np.minimum(ends[rows] + _CONTEXT_BYTES_AFTER, buffers.offsets[text_no[rows] + 1])
            before, spelled = _cut_windows_before(buffers, low, starts[rows])
            windows = pl.DataFrame(
                {
                    "value": pl.Series(distinct.value.take(pa.array(value_no[rows]))),
                    "before": before,
                    "spelled": spelled,
                    "after": _cut_windows(buffers, ends[rows], high),
                }
            )
            lacks_context[rows] = ~run_in_regex_thread(
                f"context {kind.name}", kind.context_rule, windows
            ).to_numpy()
        return lacks_context

    def _violates_boundary(
        self, buffers: TextBuffers, text_no: I64, starts: I64, ends: I64, kind: I32, cuts: U8
    ) -> Mask:
        """True where the boundary rule of a kind forbids the value. A side is not checked where
        something was cut off: `cuts` is 1 for before the value, 2 for after it, 3 for both."""
        violates = np.empty(len(starts), np.bool_)
        tables = (
            self._is_word_byte.view(np.uint8),
            self._not_before.view(np.uint8),
            self._not_after.view(np.uint8),
        )
        byte_positions.find_forbidden_neighbours(
            buffers.data,
            buffers.offsets,
            text_no,
            starts,
            ends,
            kind,
            cuts,
            *tables,
            violates.view(np.uint8),
        )
        return violates

    def _assign_kinds(
        self, candidates: _DistinctCandidates, phase: int, is_labelled: bool
    ) -> tuple[_AssignedKinds, I64]:
        """Returns the kinds of all candidates, and the form of each in the phase's table (or
        -1)."""
        forms, kind_of_form = self._forms[phase]
        form = forms.match(candidates.texts, candidates.marks)
        kind = kind_of_form[form]
        cut_before, cut_after = np.zeros((2, len(kind)), np.int64)
        rows, reasons = np.flatnonzero(form < 0), dict[tuple[int, str], I64]()
        if len(rows):
            others = candidates.take(rows)
            kind[rows], cut_before[rows], cut_after[rows], rejected = self._assign_kinds_by_rules(
                others, phase, is_labelled
            )
            reasons = {
                kind_and_reason: rows[rejected_rows]
                for kind_and_reason, rejected_rows in rejected.items()
            }
        return _AssignedKinds(kind, cut_before, cut_after, reasons), form

    def _assign_kinds_by_rules(
        self, candidates: _DistinctCandidates, phase: int, is_labelled: bool
    ) -> _AssignedKinds:
        """Like `_assign_kinds`, by the functions of the kinds: for candidates that have no plain
        form."""
        frame = candidates.to_frame()
        first_byte = candidates.texts.data[
            np.minimum(candidates.texts.offsets[:-1], len(candidates.texts.data) - 1)
        ]
        is_marked = candidates.marks >= ID_FIELD
        kind = np.full(frame.height, -1, np.int32)
        cut_before, cut_after = np.zeros((2, frame.height), np.int64)
        is_open, is_counted = np.ones(frame.height, np.bool_), np.zeros(frame.height, np.bool_)
        refused: dict[tuple[int, str], I64] = {}
        # rows that checks of national identifiers rejected
        national_rejections: list[tuple[int, I64, pl.Series]] = []
        for kind_no, candidate_kind in self._searched_kinds.items():
            if candidate_kind.phase != phase:
                continue
            accepts_labelled = candidate_kind.accepts_labelled if is_labelled else None
            can_begin = is_labelled | self._can_begin[kind_no, first_byte] | is_marked
            rows = np.flatnonzero(is_open & can_begin)
            if not len(rows) or (is_labelled and accepts_labelled is None):
                continue
            thread = f"labelled {phase}"
            if not is_labelled:
                thread = f"kinds {phase} {kind_no // _KINDS_PER_THREAD}"
            part = frame if len(rows) == frame.height else frame[rows]
            is_value = (
                run_in_regex_thread(thread, candidate_kind.is_value, part)
                if accepts_labelled is None
                else run_in_regex_thread(thread, accepts_labelled, part["value"])
            )
            rows = rows[is_value.to_numpy()]
            if not len(rows):
                continue
            if (
                candidate_kind.prefix_pattern is not None
                or candidate_kind.suffix_pattern is not None
            ):
                before, after = run_in_regex_thread(
                    thread,
                    _measure_prefix_and_suffix,
                    candidate_kind,
                    frame["value"].gather(rows),
                )
            else:
                before = after = np.zeros(len(rows), np.int64)
            is_accepted = np.ones(len(rows), np.bool_)
            if candidate_kind.check is not None:
                reason = run_in_regex_thread(
                    f"check {phase}",
                    candidate_kind.check,
                    candidates.take(rows, before, after).to_series(),
                )
                is_accepted = reason.is_null().to_numpy()
                if is_accepted.all():
                    pass
                elif candidate_kind.country is None:
                    for reason_name in reason.drop_nulls().unique().to_list():
                        refused[kind_no, reason_name] = rows[
                            (reason == reason_name).fill_null(False).to_numpy()
                        ]
                    is_open[rows] = False
                    is_counted[rows[~is_accepted]] = True
                else:  # a number rejected for one country may be valid for another
                    national_rejections.append(
                        (kind_no, rows[~is_accepted], reason.filter(pl.Series(~is_accepted)))
                    )
            rows = rows[is_accepted]
            kind[rows], cut_before[rows], cut_after[rows], is_open[rows] = (
                kind_no,
                before[is_accepted],
                after[is_accepted],
                False,
            )
        for kind_no, rows, reason in national_rejections:
            is_unassigned = (kind[rows] < 0) & ~is_counted[rows]
            is_counted[rows] = True  # each rejected row is counted once
            for reason_name in reason.unique(maintain_order=True).to_list():
                unassigned_rows = rows[is_unassigned & (reason == reason_name).to_numpy()]
                if len(unassigned_rows):
                    refused[kind_no, reason_name] = unassigned_rows
        return _AssignedKinds(kind, cut_before, cut_after, refused)

    def _normalise_values(
        self, values: _DistinctCandidates, kind: I32, form: I64, phase: int
    ) -> tuple[ValueTable, Mask]:
        """Computes normalised values and ids; and whether values need context."""
        forms, _ = self._forms[phase]
        normalised = forms.normalise(values.texts, form)
        needs_context = forms.needs_context[form]
        other_rows = np.flatnonzero(form < 0)
        needs_context[other_rows] = False
        replaced = list[tuple[I64, pa.LargeStringArray]]()
        for number in np.flatnonzero(np.bincount(kind[other_rows])).tolist():
            rows, value_kind = other_rows[kind[other_rows] == number], self.kinds[number]
            part = values.take(rows).to_series()
            replaced.append(
                (
                    rows,
                    to_large_string(
                        run_in_regex_thread(f"distinct {phase}", value_kind.normalise, part)
                    ),
                )
            )
            if value_kind.needs_context is not None:
                needs_context[rows] = run_in_regex_thread(
                    f"doubt {value_kind.name}", value_kind.needs_context, part
                ).to_numpy()
        if replaced:
            rows, new = (
                np.concatenate([rows for rows, _ in replaced]),
                pa.concat_arrays([texts for _, texts in replaced]),
            )
            normalised = _replace_texts(normalised, rows, TextBuffers.from_array(new))
        ids = np.empty(len(kind), np.int64)
        for number in np.flatnonzero(np.bincount(kind)).tolist():
            rows = np.flatnonzero(kind == number)
            first, last = normalised.offsets[rows], normalised.offsets[rows + 1]
            ids[rows] = compute_span_value_ids(
                normalised.data, first, last, self.kinds[number].name, self.key
            )
        return (
            ValueTable(ids, kind, values.texts.to_array(), normalised.to_array()),
            needs_context,
        )

    def _search_inside_values(self, spans: SpanTable) -> SpanTable:
        """Adds the values found inside other values such as URLs to the spans."""
        numbers = [
            number
            for number, kind in self._searched_kinds.items()
            if kind.name in _KINDS_SEARCHED_INSIDE
        ]
        outer = np.flatnonzero(np.isin(spans.values.kind, numbers))
        if not len(outer):
            return spans
        outer_texts = TextBuffers.from_array(spans.values.value.take(pa.array(outer)))
        outer_texts = self._blank_out_opaque_parts(outer_texts, spans.values.kind[outer])
        outer_counts = np.bincount(spans.value_no, minlength=len(spans.values))[outer]
        inner = self._search(
            separate_escapes(outer_texts, inside_urls=True),
            outer_texts,
            excluded_kinds=self._not_inside,
            text_counts=outer_counts,
        )
        # every occurrence of an outer value contains the same inner spans
        order = np.argsort(spans.value_no, kind="stable")
        low = np.searchsorted(spans.value_no[order], outer[inner.text_no], side="left")
        high = np.searchsorted(spans.value_no[order], outer[inner.text_no], side="right")
        inner_no, position = enumerate_ranges(low, high)
        outer_spans, inner = spans.take(order[position]), inner.take(inner_no)
        inside = replace(
            outer_spans,
            start_byte=outer_spans.start_byte + inner.start_byte,
            end_byte=outer_spans.start_byte + inner.end_byte,
            value_no=inner.value_no,
            values=inner.values,
            skipped=inner.skipped,
            match_counts=np.zeros_like(spans.match_counts),
        )
        return SpanTable.join([spans, inside])

    def _blank_out_opaque_parts(self, values: TextBuffers, kind: I32) -> TextBuffers:
        """Returns values of some kinds with their parts masked that are searched for no other kind
        (`Kind.find_opaque_parts`)."""
        starts, ends = list[int](), list[int]()
        for number in np.unique(kind).tolist():
            find_parts = self.kinds[number].find_opaque_parts
            if find_parts is None:
                continue
            rows = np.flatnonzero(kind == number)
            column = pl.Series(values.to_array().take(pa.array(rows)))
            for row, start, end in run_in_regex_thread("opaque parts", find_parts, column):
                starts.append(int(values.offsets[rows[row]]) + start)
                ends.append(int(values.offsets[rows[row]]) + end)
        return mask_spans(values, np.array(starts, np.int64), np.array(ends, np.int64))


class _AssignedKinds(NamedTuple):
    """For every candidate its kind (-1 for none), and the bytes of the prefix and suffix that the
    kind's pattern matches along with a value; and the rows that a kind matched but its check
    rejected, by (kind, reason)."""

    kind: I32
    cut_before: I64
    cut_after: I64
    rejected: dict[tuple[int, str], I64]


@dataclass(frozen=True, repr=False)
class _DistinctCandidates:
    """Candidates with distinct texts or marks; a mark is a sum of BRACKETED, ID_FIELD and
    ADDRESS_FIELD."""

    texts: TextBuffers
    marks: U8

    def take(
        self, rows: I64, cut_before: I64 | int = 0, cut_after: I64 | int = 0
    ) -> _DistinctCandidates:
        """Some of the candidates, with bytes cut off on either side."""
        offsets = self.texts.offsets
        cut = slice_spans(self.texts, offsets[rows] + cut_before, offsets[rows + 1] - cut_after)
        return _DistinctCandidates(TextBuffers.from_array(cut), self.marks[rows])

    def to_series(self) -> pl.Series:
        return pl.Series("value", self.texts.to_array())

    def to_frame(self) -> pl.DataFrame:
        """The frame that `Kind.accepts` expects."""
        flags = {"bracketed": BRACKETED, "id_field": ID_FIELD, "address_field": ADDRESS_FIELD}
        return pl.DataFrame(
            [
                self.to_series(),
                *(pl.Series(name, (self.marks & flag) > 0) for name, flag in flags.items()),
            ]
        )


def _replace_texts(texts: TextBuffers, rows: I64, new: TextBuffers) -> TextBuffers:
    """Returns the texts with those of some rows replaced."""
    starts, ends = texts.offsets[:-1].copy(), texts.offsets[1:].copy()
    starts[rows], ends[rows] = len(texts.data) + new.offsets[:-1], len(texts.data) + new.offsets[1:]
    return TextBuffers.from_array(
        slice_spans(TextBuffers(np.concatenate([texts.data, new.data]), starts), starts, ends)
    )


def _measure_prefix_and_suffix(kind: Kind, values: pl.Series) -> tuple[I64, I64]:
    """Returns the bytes of the prefix and suffix that a kind's pattern matches along with each
    value."""
    patterns = {
        "before": None if kind.prefix_pattern is None else rf"\A(?:{kind.prefix_pattern})",
        "after": None if kind.suffix_pattern is None else rf"(?:{kind.suffix_pattern})\z",
    }
    sizes = values.to_frame("value").select(
        (pl.lit(0) if pattern is None else _extract_groups(pattern).str.len_bytes().fill_null(0))
        .cast(pl.Int64)
        .alias(name)
        for name, pattern in patterns.items()
    )
    return sizes["before"].to_numpy(), sizes["after"].to_numpy()


def _extract_groups(pattern: str) -> pl.Expr:
    """What the groups of a pattern match in `value` (one of them at a time), or all of the match
    where it has none."""
    group_count = _count_groups(pattern)
    if not group_count:
        return pl.col("value").str.extract(pattern, 0)
    groups = pl.col("value").str.extract_groups(pattern)
    return pl.coalesce(groups.struct.field(str(number)) for number in range(1, group_count + 1))


@functools.cache
def _count_groups(pattern: str) -> int:
    groups: pl.Struct = pl.select(pl.lit("").str.extract_groups(pattern)).to_series().dtype  # type: ignore[assignment]
    return len(groups.fields)


def _find_embedded_matches(buffers: TextBuffers, kinds: list[Kind]) -> tuple[I64, I64]:
    """Returns start and end byte of every leftmost match of the kinds' `embedded_pattern`."""
    words = find_words(buffers)
    pattern = "|".join(kind.embedded_pattern for kind in kinds if kind.embedded_pattern)
    low, high = run_in_regex_thread("search words", find_matches, words.buffers, pattern)
    return words.to_column(low), words.to_column(high - 1) + 1


def _find_tokens(buffers: TextBuffers, kinds: list[Kind]) -> tuple[I64, I64]:
    """Returns start and end byte of every leftmost match of the kinds' `tokens`."""
    tokens = [kind.tokens for kind in kinds if kind.tokens]
    starts, ends, _ = find_runs(buffers, _build_anchor_table(tokens))
    return _search_pieces(buffers, starts, ends, "tokens", tokens)


def _find_labelled_matches(buffers: TextBuffers, kinds: list[Kind]) -> tuple[I64, I64]:
    """Returns start and end byte of every leftmost match of the kinds' `labelled`, in the lines
    with one of its literals and the line after each."""
    labelled = [kind.labelled_text for kind in kinds if kind.labelled_text]
    found, _, _ = find_runs(buffers, _build_anchor_table(labelled))
    starts, ends = find_two_lines(buffers, found)
    is_first = begins_group(starts, ends)
    last = np.append(is_first[1:], is_first[:1])
    return _search_pieces(buffers, starts[is_first], ends[last], "lines", labelled)


def _build_anchor_table(alternatives: list[Alternative]) -> LiteralTable:
    return _make_literal_table(tuple(one for each in alternatives for one in each.literals), ())


def _search_pieces(
    buffers: TextBuffers, starts: I64, ends: I64, name: str, alternatives: list[Alternative]
) -> tuple[I64, I64]:
    """Returns start and end byte of every leftmost match of alternatives in parts of a column."""
    pieces = TextPieces.from_spans(buffers, starts, ends)
    pattern = "|".join(one.pattern for one in alternatives)
    low, high = run_in_regex_thread(f"search {name}", find_matches, pieces.buffers, pattern)
    return pieces.to_column(low), pieces.to_column(high - 1) + 1


def _build_literal_table(kinds: list[Kind]) -> LiteralTable | None:
    """Returns the anchors of the kinds of a phase and the literals of their alternatives; None
    where a kind states no anchors."""
    alternatives = [alternative for kind in kinds for alternative in kind.list_alternatives()]
    if not all(
        kind.anchors or all(alternative.is_conditional for alternative in kind.list_alternatives())
        for kind in kinds
    ):
        assert not any(alternative.is_conditional for alternative in alternatives), (
            "a phase with conditions needs anchors"
        )
        return None
    literals = {one.pattern: tuple(one.literals) for one in alternatives if one.literals}
    return _make_literal_table(
        tuple(anchor for kind in kinds for anchor in kind.anchors), tuple(literals.items())
    )


@functools.lru_cache(maxsize=64)  # those of built-in kinds are the same for every corpus
def _make_literal_table(
    anchors: tuple[str, ...], literals: tuple[tuple[str, tuple[str, ...]], ...]
) -> LiteralTable:
    return LiteralTable.build(anchors, dict(literals))


def _select_texts(
    texts: pl.Series, marks: U64, bits: dict[str, int], alternative: Alternative
) -> I64:
    """Returns the texts that meet the conditions of an alternative; none if it has none. `marks`
    has the bits of the alternatives (by pattern) of which each text contains a literal."""
    rows = np.arange(len(texts) if alternative.is_conditional else 0)
    if alternative.literals:
        rows = np.flatnonzero(marks >> np.uint64(bits[alternative.pattern]) & np.uint64(1))
    for condition in alternative.conditions:
        rows = rows[texts.gather(rows).str.contains(condition).to_numpy()]
    return rows


def _cut_windows(buffers: TextBuffers, starts: I64, ends: I64) -> pl.Series:
    """Returns the bytes of each range as strings, with bytes beyond ASCII replaced by blanks;
    ranges may overlap."""
    return _blank_non_ascii(buffers.data[expand_ranges(starts, ends)], ends - starts)


def _blank_non_ascii(data: U8, sizes: I64) -> pl.Series:
    """Splits bytes into strings of these sizes, with bytes beyond ASCII replaced by blanks."""
    return unflatten_strings(
        np.where(data < 128, data, np.uint8(32)), np.concatenate([[0], np.cumsum(sizes)])
    )


def _cut_windows_before(
    buffers: TextBuffers, starts: I64, ends: I64
) -> tuple[pl.Series, pl.Series]:
    """Like `_cut_windows`, and also the unchanged bytes of each range, without those of a character
    that begins before it."""
    data = buffers.data[expand_ranges(starts, ends)]
    plain = _blank_non_ascii(data, ends - starts)
    if not (data > 127).any():
        return plain, plain
    for _ in range(3):  # a character has up to three continuation bytes
        starts = starts + (
            (starts < ends)
            & ((buffers.data[np.minimum(starts, len(buffers.data) - 1)] & 0xC0) == 0x80)
        )
    return plain, unflatten_strings(
        buffers.data[expand_ranges(starts, ends)], np.concatenate([[0], np.cumsum(ends - starts)])
    )
