"""Context-free detection: the built-in patterns, and the custom kinds that a plan defines.

    texts -> occurrences

A custom kind is searched in the whole text, whatever else was found there: its pattern in one pass
of the linear-time regex engine, its words with the matcher of the leak check. Where an occurrence
of a custom kind and another one share bytes, the rules of sanitize/stages/span_conflicts.py decide,
as they do between finders; of equal score and length the custom kind wins. Costs one pass for each
custom kind with a pattern and one for each with words; nothing without custom kinds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64, U8, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    ascii_lower,
    fill_null_texts,
    find_matches,
    make_byte_table,
    slice_spans,
    to_large_string,
)
from sanitize.core.intervals import expand_ranges, sort_spans
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.span_table import SpanTable, ValueTable
from sanitize.finders.known import CollapsedTexts
from sanitize.finders.patterns import NO_MATCH_LIMIT, PatternFinder
from sanitize.kinds.custom_kind import CustomKind
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BOUNDARY,
    all_kinds,
    boundary_tables,
    unflatten_strings,
)
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.stages.span_conflicts import merge_spans
from sanitize.text.decodings.written_escapes import separate_escapes
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches, spell_beyond_ascii
from sanitize.text.mail_headers import HeaderBlocks

# bytes around a span that are searched for a context word
_CONTEXT_BYTES_BEFORE, _CONTEXT_BYTES_AFTER = (64, 32)
_WORD_BYTES = make_byte_table(ASCII_WORD_CHARS)


class Scanner:
    """Runs the built-in patterns and the custom kinds of a plan."""

    def __init__(self, key: Key, spec: DetectionSpec, *, max_matches: int = NO_MATCH_LIMIT) -> None:
        """The search of a text with more than `max_matches` ends (see `PatternFinder`)."""
        self._patterns = PatternFinder(
            key, spec.countries, spec.opt_in_kinds, max_matches=max_matches
        )
        self._custom_scanners = [_CustomKindScanner(custom, key) for custom in spec.custom_kinds]

    def run(self, texts: pa.LargeStringArray) -> SpanTable:
        """All occurrences in a column of texts; a null text has none. `finder` is 0 for all."""
        texts = fill_null_texts(texts)
        found = self._patterns.run(texts)
        if not self._custom_scanners:
            return found
        buffers = TextBuffers.from_array(texts)
        view, headers = separate_escapes(buffers), HeaderBlocks(buffers)
        tables = [one.run(buffers, view, headers) for one in self._custom_scanners]
        # the built-in patterns rank last: custom kinds win ties
        numbered = [
            replace(table, finder=np.full(len(table), number, np.int32))
            for number, table in enumerate([*tables, found])
        ]
        merged = merge_spans(numbered, exempt_finder=len(tables))
        return replace(merged, finder=np.zeros(len(merged), np.int32))


class _CustomKindScanner:
    """Searches the occurrences of one custom kind."""

    def __init__(self, custom: CustomKind, key: Key) -> None:
        self.custom, self.key = custom, key
        self.kind = all_kinds()[custom.name]
        self._boundary_before, self._boundary_after = boundary_tables([self.kind])
        words = _collapse_whitespace(pl.Series(custom.words, dtype=pl.String).str.strip_chars())
        self._exact_spellings = words.str.normalize("NFKC") if custom.case == "exact" else None
        forms = pl.concat(
            [ascii_lower(words), spell_beyond_ascii(pl.DataFrame({"word": words}), "word")["word"]]
        ).unique(maintain_order=True)
        self.number = list(all_kinds()).index(custom.name)
        self._word_search = LiteralMatcher(
            to_large_string(forms),
            np.full(len(forms), self.number, np.int32),
            np.zeros(len(forms), np.int64),
        )
        self._context_pattern = _build_words_pattern(custom.context) if custom.context else ""
        # `CORP\\[a-z]+` matches the user name in `CORP\tom`, which is no escape
        self._wants_backslash = r"\\" in custom.pattern or any(
            "\\" in word for word in custom.words
        )

    def run(self, buffers: TextBuffers, view: TextBuffers, headers: HeaderBlocks) -> SpanTable:
        """Its occurrences in a column of texts; `view` are the texts with separators for escapes
        (`separate_escapes`)."""
        custom, skipped = self.custom, dict[tuple[int, str], int]()

        def reject(
            reason: str, is_good: Mask, *columns: npt.NDArray[Any]
        ) -> list[npt.NDArray[Any]]:
            if not is_good.all():
                skipped[self.number, reason] = int((~is_good).sum())
            return [column[is_good] for column in columns]

        searched = buffers if self._wants_backslash else view
        low, high = (
            find_matches(searched, custom.pattern)
            if custom.pattern
            else (np.empty(0, np.int64), np.empty(0, np.int64))
        )
        low, high = low[high > low], high[high > low]
        match_counts = _count_in_texts(buffers, low)
        low, high = reject("boundary", self._keeps_boundary(view, low, high), low, high)
        if custom.words:
            word_spans = self._find_words(searched)
            match_counts += _count_in_texts(buffers, word_spans[0])
            low, high = np.concatenate([low, word_spans[0]]), np.concatenate([high, word_spans[1]])
            # sorted by start, longest first; duplicates removed
            order = sort_spans(low, high)
            low, high = low[order], high[order]
            is_new = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))[: len(low)]
            low, high = low[is_new], high[is_new]
        encoded = slice_spans(buffers, low, high).dictionary_encode()
        value_no, values = (
            np.asarray(encoded.indices, np.int64),
            pl.Series(encoded.dictionary, dtype=pl.String),
        )
        if self.kind.check is not None and len(values):
            is_valid = self.kind.check(values).is_null().to_numpy()
            low, high, value_no = reject(custom.check, is_valid[value_no], low, high, value_no)
        score = np.full(len(low), 1.0 if custom.score is None else custom.score, np.float32)
        if self._context_pattern:
            has_context = self._has_context(view, low, high)
            score[has_context] = 1.0
            if custom.score is None:
                low, high, value_no, score = reject(
                    "context", has_context, low, high, value_no, score
                )
        text_no = np.searchsorted(buffers.offsets, low, side="right") - 1
        base = buffers.offsets[text_no]
        normalised = to_large_string(self.kind.normalise(values))
        value_ids = compute_value_ids(normalised, self.kind.name, self.key)
        sections = headers.find_sections(text_no, low)
        kinds = np.full(len(value_ids), self.number, np.int32)
        return SpanTable(
            text_no=text_no,
            start_byte=low - base,
            end_byte=high - base,
            value_no=value_no,
            section_no=sections.section_no,
            finder=np.zeros(len(low), np.int32),
            score=score,
            values=ValueTable(value_ids, kinds, to_large_string(values), normalised),
            section_names=tuple(sections.section_names),
            skipped=skipped,
            match_counts=match_counts,
        )

    def _keeps_boundary(self, buffers: TextBuffers, low: I64, high: I64) -> Mask:
        """True for spans whose neighbouring bytes their kind's boundary rule allows."""
        text_no = np.searchsorted(buffers.offsets, low, side="right") - 1
        before, after = (
            buffers.data[np.maximum(low - 1, 0)],
            buffers.data[np.minimum(high, max(len(buffers.data) - 1, 0))],
        )
        is_forbidden = (
            (low > buffers.offsets[text_no])
            & _WORD_BYTES[buffers.data[low]]
            & self._boundary_before[0][before]
        )
        is_forbidden |= (
            (high < buffers.offsets[text_no + 1])
            & _WORD_BYTES[buffers.data[high - 1]]
            & self._boundary_after[0][after]
        )
        return np.asarray(~is_forbidden)

    def _find_words(self, buffers: TextBuffers) -> tuple[I64, I64]:
        """Start and end byte of each word of the list: with any white space between its parts, also
        in Unicode compatibility forms, and in its own letter case only where `case` is "exact".
        Sorted by start, longest first."""
        collapsed = CollapsedTexts(buffers)
        match_sets = [
            self._word_search.find(collapsed.texts),
            self._word_search.find_nfkc(collapsed.texts),
        ]
        found = collapsed.to_original(LiteralMatches.concat(match_sets))
        base = buffers.offsets[found.text_no]
        low, high = base + found.start, base + found.end
        order = sort_spans(low, high)
        low, high = low[order], high[order]
        if self._exact_spellings is not None and len(low):
            spellings = _collapse_whitespace(
                pl.Series(slice_spans(buffers, low, high))
            ).str.normalize("NFKC")
            is_exact = spellings.is_in(self._exact_spellings.implode()).to_numpy()
            low, high = low[is_exact], high[is_exact]
        return low, high

    def _has_context(self, buffers: TextBuffers, low: I64, high: I64) -> Mask:
        """True for spans with a context word near them in the same text."""
        text_no = np.searchsorted(buffers.offsets, low, side="right") - 1
        first = np.maximum(low - _CONTEXT_BYTES_BEFORE, buffers.offsets[text_no])
        last = np.minimum(high + _CONTEXT_BYTES_AFTER, buffers.offsets[text_no + 1])
        has_context = np.zeros(len(low), np.bool_)
        for begin, end in ((first, low), (high, last)):
            begin, end = _trim_cut_characters(buffers.data, begin, end)
            window = unflatten_strings(
                buffers.data[expand_ranges(begin, end)],
                np.concatenate([[0], np.cumsum(end - begin)]),
            )
            has_context |= window.str.contains(self._context_pattern).to_numpy()
        return has_context


def _count_in_texts(buffers: TextBuffers, starts: I64) -> I64:
    """The number of spans in each text."""
    return np.bincount(
        np.searchsorted(buffers.offsets, starts, side="right") - 1, minlength=len(buffers.lengths)
    )


def _trim_cut_characters(data: U8, start: I64, end: I64) -> tuple[I64, I64]:
    """Shrink byte ranges so that they neither begin nor end inside a UTF-8 character."""
    last = max(len(data) - 1, 0)
    for _ in range(3):
        start = start + ((start < end) & ((data[np.minimum(start, last)] & 0xC0) == 0x80))
        end = end - ((end > start) & (end <= last) & ((data[np.minimum(end, last)] & 0xC0) == 0x80))
    return start, end


def _build_words_pattern(words: Sequence[str]) -> str:
    """A regex for any of the words, in any letter case; an edge that is ASCII must be a word
    boundary."""
    parts = []
    for word in words:
        plain = re.escape(re.sub(r"\s+", " ", word.strip())).replace(r"\ ", r"\s+")
        parts.append(
            (BOUNDARY if word.strip()[:1].isascii() else "")
            + plain
            + (BOUNDARY if word.strip()[-1:].isascii() else "")
        )
    return "(?i)(?:" + "|".join(parts) + ")"


def _collapse_whitespace(texts: pl.Series) -> pl.Series:
    """Replace every run of white space by one space."""
    return texts.str.replace_all(r"\s+", " ")
