"""Finds occurrences of all kinds that have a pattern, in three phases over a column of texts; spans are exact in bytes and code points.

The patterns of a phase form one alternation, run by the linear-time regex engine of Polars, which writes a mark around each match; the
marks are read back from the bytes. Kind, check, normalised value and `value_id` are computed for distinct candidates only. A phase
searches the text that the earlier phases left (see `Kind.phase`). URLs are searched once more for values inside them. All kinds are always
searched, so that one index serves every plan, and no kind matches the text of another because a plan does not name that one; only national
identifiers are selected by country, and opt-in kinds on request. Names and free-form kinds are left to other finders.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.array_types import F32, I32, I64, U8, U64, Mask
from sanitize.core.arrow_buffers import (
    MASKED_BYTE,
    TextBuffers,
    bytes_to_code_points,
    fill_null_texts,
    find_matches,
    make_byte_table,
    slice_spans,
    to_large_string,
)
from sanitize.core.intervals import enumerate_ranges, expand_ranges, sort_spans
from sanitize.core.keys import Key, compute_value_ids
from sanitize.kinds.kind import ASCII_WORD_CHARS, Alternative, Kind, boundary_tables, list_kinds, unflatten_strings
from sanitize.text.mail_headers import HeaderBlocks, Sections
from sanitize.text.regex_threads import run_in_regex_thread
from sanitize.text.text_pieces import LiteralTable, TextPieces, find_digit_lines, find_runs

FINDER_NAME = "patterns"
_KINDS_SEARCHED_INSIDE = ("URL",)  # kinds that are searched for values of other kinds
_CONTEXT_BYTES_BEFORE, _CONTEXT_BYTES_AFTER = 48, 16  # bytes of context on either side
_LESS_THAN, _GREATER_THAN = ord("<"), ord(">")


@dataclass(frozen=True, repr=False)
class DistinctValues:
    """The distinct values of a batch. `kind` indexes `PatternFinder.kinds`; `normalised` is the normalised value of `value`."""

    kind: I32
    value: pa.LargeStringArray
    normalised: pa.LargeStringArray
    value_id: I64


@dataclass(frozen=True, repr=False)
class Detections:
    """Occurrences in a column of texts, sorted by (text_no, start, longest first), and their distinct values.

    `start_byte` and `end_byte` count from the text's first byte; `value_no` indexes `distinct`; `section_no` indexes `section_names`, -1
    outside mail. `skipped` counts candidates that were rejected, by (kind index, reason). `score` is the confidence of each occurrence;
    None means 1 for all.
    """

    text_no: I64
    start_byte: I64
    end_byte: I64
    start: I64
    end: I64
    value_no: I64
    section_no: I32
    section_names: list[str]
    distinct: DistinctValues
    skipped: dict[tuple[int, str], int]
    score: F32 | None = None


class PatternFinder:
    """Finder of all kinds in sanitize/kinds/ that have a pattern, with one key; of national identifiers only those of `countries`, of
    opt-in kinds only `opt_in_kinds`."""

    def __init__(self, key: Key, countries: Iterable[str] = (), opt_in_kinds: Iterable[str] = ()) -> None:
        self.key = key
        self.kinds: list[Kind] = [kind for kind in list_kinds(countries, opt_in_kinds).values() if kind.pattern]
        self._phases = sorted({kind.phase for kind in self.kinds})
        self._not_before, self._not_after = boundary_tables(self.kinds)
        self._is_word_byte = make_byte_table(ASCII_WORD_CHARS)
        self._literals = {phase: _build_literal_table([kind for kind in self.kinds if kind.phase == phase]) for phase in self._phases}
        self._kind_numbers = {kind.name: number for number, kind in enumerate(self.kinds)}

    def run(self, texts: pa.LargeStringArray) -> Detections:
        """Returns all occurrences in a column of texts; a null text has none."""
        buffers = TextBuffers.from_array(fill_null_texts(texts))
        spans, sections = self._search(buffers, with_sections=True)
        spans = self._search_inside_values(spans)
        text_no, starts, stops, value_no, candidate_no = spans.text_no, spans.starts, spans.ends, spans.value_no, spans.candidate_no
        if not spans.is_sorted:
            order = sort_spans(starts, stops)
            text_no, starts, stops, value_no, candidate_no = (column[order] for column in (text_no, starts, stops, value_no, candidate_no))
        text_start = buffers.offsets[text_no]
        start, stop = bytes_to_code_points(buffers, text_no, starts, stops)
        return Detections(
            text_no=text_no,
            start_byte=starts - text_start,
            end_byte=stops - text_start,
            start=start,
            end=stop,
            value_no=value_no,
            section_no=sections.section_no[candidate_no],
            section_names=sections.section_names,
            distinct=spans.distinct,
            skipped=spans.skipped,
        )

    def _search(
        self, buffers: TextBuffers, *, with_sections: bool = False, excluded_kinds: tuple[str, ...] = (), text_counts: I64 | None = None
    ) -> tuple[_CandidateSpans, Sections]:
        """Searches phase by phase, each in the text that the earlier phases left; returns the spans, and the section of every candidate
        (always -1 without `with_sections`). `text_counts` is how often each text occurs, for the counts in `skipped`."""
        spans, phase_sections, headers = _CandidateSpans.empty(), list[Sections](), HeaderBlocks(buffers)
        pieces: TextPieces | None = None  # searched by the first phase of digit_lines_only kinds and the phases after it
        for phase in self._phases:
            kinds = [kind for kind in self.kinds if kind.phase == phase and kind.name not in excluded_kinds]
            if not all(kind.digit_lines_only for kind in kinds):
                pieces, searched = None, _blank_out_spans(buffers, spans.starts, spans.ends)
            elif pieces is None:
                order = np.argsort(spans.starts, kind="stable")
                pieces = find_digit_lines(buffers, spans.starts[order], spans.ends[order])
                searched = pieces.buffers
            low, high = self._find_matches(searched, phase, kinds)
            starts, stops = (low, high) if pieces is None else (pieces.to_column(low), pieces.to_column(high - 1) + 1)
            text_no = np.searchsorted(buffers.offsets, starts, side="right") - 1
            sections = headers.find_sections(text_no, starts) if with_sections else Sections(np.full(len(starts), -1, np.int32), [])
            phase_sections.append(sections)
            field_flags = sections.is_id_field * 2 + sections.is_address_field
            phase_spans = self._resolve_candidates(
                buffers, text_no, starts, stops, field_flags, None if text_counts is None else text_counts[text_no], phase=phase
            )
            if pieces is not None and phase != self._phases[-1]:
                shift = (low - starts)[phase_spans.candidate_no]
                searched = _blank_out_spans(searched, phase_spans.starts + shift, phase_spans.ends + shift)
            spans = spans.concat(phase_spans, sum(len(earlier.section_no) for earlier in phase_sections[:-1]))
        return spans, _concat_sections(phase_sections)

    def _find_matches(self, buffers: TextBuffers, phase: int, kinds: list[Kind]) -> tuple[I64, I64]:
        """Returns start and end byte of every leftmost match of the kinds' patterns.

        An alternative with conditions is searched only in the texts that meet them, which finds the same. In the other texts, only the runs
        around anchors are searched, where all kinds have some.
        """
        alternatives = [alternative for kind in kinds for alternative in kind.list_alternatives()]
        unconditional = "|".join(alternative.pattern for alternative in alternatives if not alternative.is_conditional)
        literals = self._literals[phase]
        if literals is None:
            return run_in_regex_thread("search", find_matches, buffers, unconditional)
        starts, ends, marks = find_runs(buffers, literals)
        texts = buffers.to_array()
        matching_texts = [_select_texts(pl.Series(texts), marks, literals.bits, alternative) for alternative in alternatives]
        is_met = np.zeros(len(texts), np.bool_)
        for rows in matching_texts:
            is_met[rows] = True
        if is_met.any():
            in_other_text = ~is_met[np.searchsorted(buffers.offsets, starts, side="right") - 1]
            starts, ends = starts[in_other_text], ends[in_other_text]
        pieces = TextPieces.from_spans(buffers, starts, ends)
        low, high = run_in_regex_thread("search", find_matches, pieces.buffers, unconditional)
        low, high = pieces.to_column(low), pieces.to_column(high - 1) + 1
        if not is_met.any():
            return low, high
        text_rows = np.flatnonzero(is_met)
        part = TextBuffers.from_array(texts.take(pa.array(text_rows)))
        combined = "|".join(
            alternative.pattern
            for alternative, rows in zip(alternatives, matching_texts, strict=True)
            if not alternative.is_conditional or len(rows)
        )
        extra_low, extra_high = run_in_regex_thread("conditional search", find_matches, part, combined)
        extra_text = np.searchsorted(part.offsets, extra_low, side="right") - 1
        shift = buffers.offsets[text_rows[extra_text]] - part.offsets[extra_text]
        low, high = np.concatenate([low, extra_low + shift]), np.concatenate([high, extra_high + shift])
        order = np.argsort(low, kind="stable")
        return low[order], high[order]

    def _resolve_candidates(
        self, buffers: TextBuffers, text_no: I64, starts: I64, ends: I64, field_flags: I64, weights: I64 | None = None, *, phase: int
    ) -> _CandidateSpans:
        """Assigns a kind to each candidate, or drops it; decided once per distinct (value, bracketed, field). `field_flags` is 2 in an id
        field, 1 in an address field, else 0; `weights` is how often each candidate counts in `skipped`."""
        if not len(starts):
            return _CandidateSpans.empty()
        bracketed = (buffers.data[starts] == _LESS_THAN) & (buffers.data[ends - 1] == _GREATER_THAN)
        starts, ends = starts + bracketed, ends - bracketed
        encoded = slice_spans(buffers, starts, ends).dictionary_encode()
        code = np.asarray(encoded.indices, np.int64)
        # the same text with and without brackets, in and outside an id field, are distinct candidates
        variant = code * 8 + bracketed * 4 + field_flags
        variants = np.flatnonzero(np.bincount(variant, minlength=1))
        variant_row = np.zeros(int(variants[-1]) + 1 if len(variants) else 1, np.int64)
        variant_row[variants] = np.arange(len(variants))
        values = encoded.dictionary.take(pa.array(variants // 8))
        frame = pl.DataFrame(
            {
                "value": pl.Series(values),
                "bracketed": (variants & 4) > 0,
                "id_field": (variants & 2) > 0,
                "address_field": (variants & 1) > 0,
            }
        )
        kind, reasons, frame, prefix_size, suffix_size = run_in_regex_thread(f"kinds {phase}", self._assign_kinds, frame, phase)
        good = np.flatnonzero(kind >= 0)
        kinds, distinct_no = kind[good].astype(np.int32), np.arange(len(good))
        if prefix_size.any() or suffix_size.any():
            # one value may have been matched with different prefixes or suffixes
            pairs = pl.DataFrame({"kind": kinds, "value": frame["value"].gather(good)}).with_row_index("row")
            first = pairs.unique(["kind", "value"], keep="first", maintain_order=True).with_row_index("to")
            distinct_no = pairs.join(first, on=["kind", "value"], how="left", maintain_order="left")["to"].to_numpy().astype(np.int64)
            kinds, values = kinds[first["row"].to_numpy()], to_large_string(first["value"])
        else:
            values = values.take(pa.array(good))
        distinct = run_in_regex_thread(f"distinct {phase}", self._normalise_values, kinds, values)
        skipped: dict[tuple[int, str], int] = {}
        row = variant_row[variant]
        if reasons:
            counts = np.bincount(row, weights, minlength=len(variants))
            for kind_and_reason, rows in reasons.items():
                skipped[kind_and_reason] = int(counts[rows].sum())
        to_distinct = np.full(len(variants), -1, np.int64)
        to_distinct[good] = distinct_no
        value_no = to_distinct[row]
        keep = np.flatnonzero(value_no >= 0)
        cut_before, cut_after = prefix_size[row[keep]], suffix_size[row[keep]]
        starts, ends = starts[keep] + cut_before, ends[keep] - cut_after
        text_no, value_no = text_no[keep], value_no[keep]
        bad_boundary = self._violates_boundary(buffers, text_no, starts, ends, distinct.kind[value_no], cut_before == 0, cut_after == 0)
        no_context = self._lacks_context(buffers, text_no, starts, ends, value_no, distinct) & ~bad_boundary
        for reason, bad in (("boundary", bad_boundary), ("context", no_context)):
            if bad.any():
                counts = np.bincount(distinct.kind[value_no[bad]], None if weights is None else weights[keep[bad]])
                skipped |= {(number, reason): int(counts[number]) for number in np.flatnonzero(counts).tolist()}
        if (bad := bad_boundary | no_context).any():
            keep, text_no, starts, ends, value_no = keep[~bad], text_no[~bad], starts[~bad], ends[~bad], value_no[~bad]
        return _CandidateSpans(text_no, starts, ends, value_no, keep, distinct, skipped, True)

    def _lacks_context(self, buffers: TextBuffers, text_no: I64, starts: I64, ends: I64, value_no: I64, distinct: DistinctValues) -> Mask:
        """True where a value is accepted only in a context (`Kind.needs_context`), and its context does not satisfy the rule."""
        lacks_context = np.zeros(len(value_no), np.bool_)
        for number, kind in enumerate(self.kinds):
            if kind.needs_context is None or kind.context_rule is None or not len(value_rows := np.flatnonzero(distinct.kind == number)):
                continue
            needs_context = np.zeros(len(distinct.kind), np.bool_)
            values = pl.Series("value", distinct.value.take(pa.array(value_rows)))
            needs_context[value_rows] = run_in_regex_thread(f"doubt {kind.name}", kind.needs_context, values).to_numpy()
            rows = np.flatnonzero(needs_context[value_no])
            if not len(rows):
                continue
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
            lacks_context[rows] = ~run_in_regex_thread(f"context {kind.name}", kind.context_rule, windows).to_numpy()
        return lacks_context

    def _violates_boundary(
        self, buffers: TextBuffers, text_no: I64, starts: I64, ends: I64, kind: I32, check_left: Mask, check_right: Mask
    ) -> Mask:
        """True where the boundary rule of a kind forbids the value; `check_left` and `check_right`: whether that side is checked."""
        data, offsets, last = buffers.data, buffers.offsets, ends - 1
        bad_left = (
            check_left
            & (starts > offsets[text_no])
            & self._is_word_byte[data[starts]]
            & self._not_before[kind, data[np.maximum(starts - 1, 0)]]
        )
        bad_right = (
            check_right
            & (ends < offsets[text_no + 1])
            & self._is_word_byte[data[last]]
            & self._not_after[kind, data[np.minimum(ends, len(data) - 1)]]
        )
        violates: Mask = bad_left | bad_right
        return violates

    def _assign_kinds(self, candidates: pl.DataFrame, phase: int) -> tuple[I64, dict[tuple[int, str], I64], pl.DataFrame, I64, I64]:
        """Returns the kind of every candidate (-1 for none); the rows that a kind matched but its check rejected, by (kind, reason); the
        candidates without the prefix and suffix that the kind's pattern matches along with a value; and the bytes cut off on each side."""
        kind, prefix_size, suffix_size = (
            np.full(candidates.height, -1, np.int64),
            np.zeros(candidates.height, np.int64),
            np.zeros(candidates.height, np.int64),
        )
        open_rows = np.arange(candidates.height)
        refused: dict[tuple[int, str], I64] = {}
        rest = candidates  # the open rows, unchanged
        national_rejections: list[tuple[int, I64, pl.Series]] = []  # rows that checks of national identifiers rejected
        for kind_no, candidate_kind in enumerate(self.kinds):
            if not len(open_rows):
                break
            if candidate_kind.phase != phase:
                continue
            is_matched = candidate_kind.is_value(rest).to_numpy()
            matched_rows = open_rows[is_matched]
            if not len(matched_rows):
                continue
            values = candidates["value"].gather(matched_rows)
            if candidate_kind.prefix_pattern is not None or candidate_kind.suffix_pattern is not None:
                prefix_bytes, suffix_bytes, values = _strip_prefix_and_suffix(candidate_kind, values)
                was_stripped = (prefix_bytes + suffix_bytes) > 0
            else:
                was_stripped = None
            if candidate_kind.check is not None:
                reason = run_in_regex_thread(f"check {phase}", candidate_kind.check, values)
                is_rejected = reason.is_not_null().to_numpy()
                if candidate_kind.country is None:
                    for reason_name in reason.drop_nulls().unique().to_list():
                        refused[kind_no, reason_name] = matched_rows[(reason == reason_name).fill_null(False).to_numpy()]
                else:
                    is_matched[is_matched] = ~is_rejected  # a number rejected for one country may be valid for another
                    if is_rejected.any():
                        national_rejections.append((kind_no, matched_rows[is_rejected], reason.filter(pl.Series(is_rejected))))
                is_accepted = ~is_rejected
            else:
                is_accepted = np.ones(len(matched_rows), np.bool_)
            if was_stripped is not None and (was_stripped & is_accepted).any():
                stripped = np.flatnonzero(was_stripped & is_accepted)
                prefix_size[matched_rows[stripped]], suffix_size[matched_rows[stripped]] = prefix_bytes[stripped], suffix_bytes[stripped]
                candidates = candidates.with_columns(value=candidates["value"].scatter(matched_rows[stripped], values.gather(stripped)))
            kind[matched_rows[is_accepted]] = kind_no
            if is_matched.any():
                open_rows = open_rows[~is_matched]
                rest = rest.filter(pl.Series(~is_matched))
        is_counted = np.zeros(candidates.height, np.bool_)
        for rows in refused.values():
            is_counted[rows] = True  # each rejected row is counted once
        for kind_no, rows, reason in national_rejections:
            is_unassigned = (kind[rows] < 0) & ~is_counted[rows]
            is_counted[rows] = True
            for reason_name in reason.unique(maintain_order=True).to_list():
                unassigned_rows = rows[is_unassigned & (reason == reason_name).to_numpy()]
                if len(unassigned_rows):
                    refused[kind_no, reason_name] = unassigned_rows
        return kind, refused, candidates, prefix_size, suffix_size

    def _normalise_values(self, kind: I32, value: pa.LargeStringArray) -> DistinctValues:
        """Computes normalised values and ids, kind by kind."""
        ids = np.empty(len(kind), np.int64)
        order: list[npt.NDArray[np.intp]] = []
        forms: list[pa.Array] = []
        for number in np.flatnonzero(np.bincount(kind, minlength=1)):
            rows = np.flatnonzero(kind == number)
            value_kind = self.kinds[number]
            form = to_large_string(value_kind.normalise(pl.Series(value.take(pa.array(rows)))))
            ids[rows] = compute_value_ids(form, value_kind.name, self.key)
            order.append(rows)
            forms.append(form)
        if not forms:
            return DistinctValues(kind, value, value, ids)
        positions = np.empty(len(kind), np.int64)
        positions[np.concatenate(order)] = np.arange(len(kind))
        return DistinctValues(kind, value, pa.concat_arrays(forms).take(pa.array(positions)), ids)

    def _search_inside_values(self, spans: _CandidateSpans) -> _CandidateSpans:
        """Adds the values found inside other values such as URLs to the spans."""
        numbers = [self._kind_numbers[name] for name in _KINDS_SEARCHED_INSIDE if name in self._kind_numbers]
        outer = np.flatnonzero(np.isin(spans.distinct.kind, numbers))
        if not len(outer):
            return spans
        outer_texts = TextBuffers.from_array(spans.distinct.value.take(pa.array(outer)))
        outer_counts = np.bincount(spans.value_no, minlength=len(spans.distinct.kind))[outer]
        inner, _ = self._search(outer_texts, excluded_kinds=_KINDS_SEARCHED_INSIDE, text_counts=outer_counts)
        if not len(inner.text_no):
            return spans.concat(inner, 0)
        # every occurrence of an outer value contains the same inner spans
        order = np.argsort(spans.value_no, kind="stable")
        low = np.searchsorted(spans.value_no[order], outer[inner.text_no], side="left")
        high = np.searchsorted(spans.value_no[order], outer[inner.text_no], side="right")
        inner_no, position = enumerate_ranges(low, high)
        outer_spans = order[position]
        base = spans.starts[outer_spans] - outer_texts.offsets[inner.text_no[inner_no]]
        inner_spans = _CandidateSpans(
            spans.text_no[outer_spans],
            base + inner.starts[inner_no],
            base + inner.ends[inner_no],
            inner.value_no[inner_no],
            spans.candidate_no[outer_spans],
            inner.distinct,
            inner.skipped,
            False,
        )
        return spans.concat(inner_spans, 0)


def _strip_prefix_and_suffix(kind: Kind, values: pl.Series) -> tuple[I64, I64, pl.Series]:
    """Returns the bytes of the prefix and suffix that a kind's pattern matches along with each value, and the values without them."""
    frame = pl.DataFrame({"value": values}).with_columns(
        before=pl.lit("") if kind.prefix_pattern is None else pl.col("value").str.extract(rf"\A({kind.prefix_pattern})").fill_null(""),
        after=pl.lit("") if kind.suffix_pattern is None else pl.col("value").str.extract(rf"({kind.suffix_pattern})\z").fill_null(""),
    )
    frame = frame.select(
        pl.col("before").str.len_bytes().cast(pl.Int64),
        pl.col("after").str.len_bytes().cast(pl.Int64),
        value=pl.col("value").str.strip_prefix(pl.col("before")).str.strip_suffix(pl.col("after")),
    )
    return frame["before"].to_numpy(), frame["after"].to_numpy(), frame["value"]


def _build_literal_table(kinds: list[Kind]) -> LiteralTable | None:
    """Returns the anchors of the kinds of a phase and the literals of their alternatives; None where a kind states no anchors."""
    alternatives = [alternative for kind in kinds for alternative in kind.list_alternatives()]
    if not all(kind.anchors or all(alternative.is_conditional for alternative in kind.list_alternatives()) for kind in kinds):
        assert not any(alternative.is_conditional for alternative in alternatives), "a phase with conditions needs anchors"
        return None
    anchors = [anchor for kind in kinds for anchor in kind.anchors]
    return LiteralTable.build(anchors, {alternative.pattern: alternative.literals for alternative in alternatives if alternative.literals})


def _select_texts(texts: pl.Series, marks: U64, bits: dict[str, int], alternative: Alternative) -> I64:
    """Returns the texts that meet the conditions of an alternative; none if it has none. `marks` has the bits of the alternatives (by
    pattern) of which each text contains a literal."""
    rows = np.arange(len(texts) if alternative.is_conditional else 0)
    if alternative.literals:
        rows = np.flatnonzero(marks >> np.uint64(bits[alternative.pattern]) & np.uint64(1))
    for condition in alternative.conditions:
        rows = rows[texts.gather(rows).str.contains(condition).to_numpy()]
    return rows


def _blank_out_spans(buffers: TextBuffers, starts: I64, ends: I64) -> TextBuffers:
    """Returns the texts with the bytes of the given spans masked, so that no pattern matches them."""
    if not len(starts):
        return buffers
    data = buffers.data.copy()
    data[expand_ranges(starts, ends)] = MASKED_BYTE
    return TextBuffers(data, buffers.offsets)


def _cut_windows(buffers: TextBuffers, starts: I64, ends: I64) -> pl.Series:
    """Returns the bytes of each range as strings, with bytes beyond ASCII replaced by blanks; ranges may overlap."""
    return _blank_non_ascii(buffers.data[expand_ranges(starts, ends)], ends - starts)


def _blank_non_ascii(data: U8, sizes: I64) -> pl.Series:
    """Splits bytes into strings of these sizes, with bytes beyond ASCII replaced by blanks."""
    return unflatten_strings(np.where(data < 128, data, np.uint8(32)), np.concatenate([[0], np.cumsum(sizes)]))


def _cut_windows_before(buffers: TextBuffers, starts: I64, ends: I64) -> tuple[pl.Series, pl.Series]:
    """Like `_cut_windows`, and also the unchanged bytes of each range, without those of a character that begins before it."""
    data = buffers.data[expand_ranges(starts, ends)]
    plain = _blank_non_ascii(data, ends - starts)
    if not (data > 127).any():
        return plain, plain
    for _ in range(3):  # a character has up to three continuation bytes
        starts = starts + ((starts < ends) & ((buffers.data[np.minimum(starts, len(buffers.data) - 1)] & 0xC0) == 0x80))
    return plain, unflatten_strings(buffers.data[expand_ranges(starts, ends)], np.concatenate([[0], np.cumsum(ends - starts)]))


def _concat_sections(rounds: list[Sections]) -> Sections:
    """Concatenates the sections of the candidates of several phases."""
    names = list(dict.fromkeys(name for sections in rounds for name in sections.section_names))
    number = {name: name_no for name_no, name in enumerate(names)}
    # the last entry serves index -1
    index = [np.array([*(number[name] for name in sections.section_names), -1], np.int32)[sections.section_no] for sections in rounds]
    return Sections(np.concatenate(index) if index else np.empty(0, np.int32), names)


@dataclass(frozen=True, repr=False)
class _CandidateSpans:
    text_no: I64
    starts: I64  # in the column's bytes
    ends: I64
    value_no: I64
    candidate_no: I64  # the candidate it came from, for its section
    distinct: DistinctValues
    skipped: dict[tuple[int, str], int]
    is_sorted: bool

    @classmethod
    def empty(cls) -> _CandidateSpans:
        nothing, texts = np.empty(0, np.int64), pa.array([], pa.large_string())
        return cls(nothing, nothing, nothing, nothing, nothing, DistinctValues(nothing.astype(np.int32), texts, texts, nothing), {}, True)

    def concat(self, other: _CandidateSpans, candidate_count: int) -> _CandidateSpans:
        """Returns these spans and others; `candidate_no` of the others is shifted by `candidate_count`."""
        skipped = {name: self.skipped.get(name, 0) + other.skipped.get(name, 0) for name in self.skipped.keys() | other.skipped.keys()}
        if not len(self.text_no) and not len(self.distinct.kind):
            return replace(other, candidate_no=other.candidate_no + candidate_count, skipped=skipped)
        if not len(other.text_no):
            return replace(self, skipped=skipped)
        own, others = self.distinct, other.distinct
        return _CandidateSpans(
            np.concatenate([self.text_no, other.text_no]),
            np.concatenate([self.starts, other.starts]),
            np.concatenate([self.ends, other.ends]),
            np.concatenate([self.value_no, len(own.kind) + other.value_no]),
            np.concatenate([self.candidate_no, other.candidate_no + candidate_count]),
            DistinctValues(
                np.concatenate([own.kind, others.kind]),
                pa.concat_arrays([own.value, others.value]),
                pa.concat_arrays([own.normalised, others.normalised]),
                np.concatenate([own.value_id, others.value_id]),
            ),
            skipped,
            False,
        )
