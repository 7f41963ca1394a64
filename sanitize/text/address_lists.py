"""Parses the address lists of mail header lines: the list entry of each span, and the display name
beside an address.

Entries are separated by commas or semicolons outside quotes, comments and `<` `>`. This holds for
the header block of a mail and for forwarded or quoted header blocks in a body
(`mail_headers.find_header_lines`). A display name is the text before its address, or the comment in
parentheses after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from sanitize.array_types import I64, U8, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    find_matches,
    is_in_byte_table,
    make_byte_table,
    slice_spans,
)
from sanitize.core.intervals import TextSpans
from sanitize.text.mail_headers import HeaderLines


@dataclass(frozen=True, repr=False)
class AddressEntries:
    """The entry of an address list that holds each span, one row per span; positions are byte
    offsets in the column.

    `entry_start` to `entry_end` is the entry. `previous_end` is where the entry before it ends and
    `next_start` where the one after it begins (its own start and end where there is no such entry).
    `entry_no` counts the entries before it in its line, `entry_count` all entries of the line. A
    span outside a list is an entry of its own, including its `<` `>`; its `entry_count` is 1 where
    its field holds nothing else, otherwise 0."""

    entry_start: I64
    entry_end: I64
    previous_end: I64
    next_start: I64
    entry_no: I64
    entry_count: I64


# quoted strings, comments and bracketed addresses (a comma inside them does not separate), and the
# separators themselves
_TOKEN_PATTERN = r'"(?:[^"\\]|\\(?s:.))*"|\((?:[^()\\]|\\(?s:.))*\)|<[^<>]*>|[,;]'
_QUOTE, _PARENTHESIS, _COMMA, _LESS_THAN, _GREATER_THAN, _LINE_FEED = b'"(,<>\n'
_SEPARATOR_BYTES = make_byte_table(b",;")
_SYNTAX_BYTES = make_byte_table(b',;"(<>\n')
_WHITESPACE_BYTES = make_byte_table(b" \t\r\n")
_BLANK_PATTERN = r"(?:[ \t\r]|\n(?: ?>)*)*"
_SURNAME_ENTRY_PATTERN = rf'\A{_BLANK_PATTERN}[^ \t\r\n,;<>@"()]+{_BLANK_PATTERN}\z'
_GIVEN_NAME_ENTRY_PATTERN = rf'\A{_BLANK_PATTERN}[^ \t\r\n<>@",;():][^<>@",;():]*<[^<>]*>'


def find_address_entries(
    buffers: TextBuffers, lines: HeaderLines, starts: I64, ends: I64
) -> AddressEntries:
    """Returns the address list entry of every span. `starts`, `ends` are byte offsets in the
    column, ascending.

    Entries are separated by commas or semicolons outside quotes, comments and `<` `>`; in `Roe, Ann
    <ann@example.com>` the comma after a single word belongs to the name."""
    found = _enclose_spans(buffers, lines, starts, ends)
    listed = np.flatnonzero(lines.is_address_list)
    if not len(listed):
        return found
    # several spans may be in one value, the text of a line after its colon; values ascend, as spans
    # do
    value_start_of_span = lines.colon[listed] + 1
    is_first_of_value = np.append(True, np.diff(value_start_of_span) != 0)
    value_of_span = np.cumsum(is_first_of_value) - 1
    value_start, value_end = (
        value_start_of_span[is_first_of_value],
        lines.end[listed[is_first_of_value]],
    )
    values = TextBuffers.from_array(slice_spans(buffers, value_start, value_end))
    syntax = _SyntaxBytes.find(values)
    # a line without a separator is one entry
    has_separator = syntax.has_separator
    single = listed[~has_separator[value_of_span]]
    found.entry_start[single] = lines.colon[single] + 1
    found.entry_count[single] = 1
    split_no = np.cumsum(has_separator) - 1  # of a value among those with separators
    is_in_list = has_separator[value_of_span]
    listed, list_of_span = listed[is_in_list], split_no[value_of_span[is_in_list]]
    if not len(listed):
        return found
    list_start = values.offsets[:-1][has_separator]
    list_of_piece, piece_start, piece_end = _split_into_pieces(values, syntax)
    blanks_before, blanks_after = _count_piece_edges(values, syntax, piece_start, piece_end)
    filled = np.flatnonzero(blanks_before < piece_end - piece_start)
    # from offsets in `values` to offsets in the column
    list_of_entry = list_of_piece[filled]
    values_to_column = (value_start[has_separator] - list_start)[list_of_entry]
    entry_start, entry_end = (
        (piece_start + blanks_before)[filled] + values_to_column,
        (piece_end - blanks_after)[filled] + values_to_column,
    )
    # invariant: entries ascend, and those of list i are the rows from first_entry[i] to
    # first_entry[i + 1]
    first_entry = np.searchsorted(list_of_entry, np.arange(len(list_start) + 1))
    first, after_last = first_entry[list_of_span], first_entry[list_of_span + 1]
    entry = np.searchsorted(entry_start, starts[listed], side="right") - 1
    found.entry_start[listed], found.entry_end[listed] = entry_start[entry], entry_end[entry]
    found.previous_end[listed] = np.where(
        entry == first, entry_start[entry], entry_end[np.maximum(entry - 1, 0)]
    )
    next_entry = np.minimum(entry + 1, len(entry_start) - 1)
    found.next_start[listed] = np.where(
        entry == after_last - 1, entry_end[entry], entry_start[next_entry]
    )
    found.entry_no[listed], found.entry_count[listed] = entry - first, after_last - first
    return found


def _enclose_spans(
    buffers: TextBuffers, lines: HeaderLines, starts: I64, ends: I64
) -> AddressEntries:
    """Every span as an entry of its own, with the `<` `>` around it; `entry_count` is 1 where its
    field, no list, holds nothing else."""
    is_wrapped = np.zeros(len(starts), np.bool_)
    inner = np.flatnonzero((starts > 0) & (ends <= len(buffers.data) - 1))
    is_wrapped[inner] = (buffers.data[starts[inner] - 1] == _LESS_THAN) & (
        buffers.data[ends[inner]] == _GREATER_THAN
    )
    entry_start, entry_end = starts - is_wrapped, ends + is_wrapped
    is_line_change = np.diff(lines.start) != 0
    is_only_span = np.append(is_line_change, True) & np.append(True, is_line_change)
    fields = np.flatnonzero(
        (lines.colon >= 0) & (lines.colon < entry_start) & ~lines.is_address_list & is_only_span
    )
    before = slice_spans(buffers, lines.colon[fields] + 1, entry_start[fields])
    after = slice_spans(buffers, entry_end[fields], lines.end[fields])
    is_blank_before, is_blank_after = (
        pl.Series(texts).str.contains(r"\A[ \t\r\n]*\z").to_numpy() for texts in (before, after)
    )
    entry_no, entry_count = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
    entry_count[fields[is_blank_before & is_blank_after]] = 1
    return AddressEntries(
        entry_start, entry_end, entry_start.copy(), entry_end.copy(), entry_no, entry_count
    )


@dataclass(frozen=True, repr=False)
class _SyntaxBytes:
    """The bytes of values that structure a list (`, ; " ( < >` and line feeds): position, byte and
    value of each, ascending.

    `first` has the first row of each value, and the number of rows at its end."""

    position: I64
    byte: U8
    value_no: I64
    first: I64

    @classmethod
    def find(cls, values: TextBuffers) -> _SyntaxBytes:
        """Those of all values."""
        position = np.flatnonzero(is_in_byte_table(values.data, _SYNTAX_BYTES))
        first = np.searchsorted(position, values.offsets)
        return cls(
            position,
            values.data[position],
            np.repeat(np.arange(len(values.offsets) - 1), np.diff(first)),
            first,
        )

    @cached_property
    def is_separator(self) -> Mask:
        """True for each comma and semicolon, wherever it is."""
        return _SEPARATOR_BYTES[self.byte]

    @cached_property
    def has_separator(self) -> Mask:
        """True for each value with a comma or semicolon."""
        return np.diff(np.append(0, np.cumsum(self.is_separator))[self.first]) > 0


def _find_separators(values: TextBuffers, syntax: _SyntaxBytes) -> I64:
    """The positions of the separators: every comma and semicolon outside `<` `>`; in a value with
    quotes, comments or unbalanced brackets, those that are tokens of their own."""
    depth_after = np.append(
        0, np.cumsum((syntax.byte == _LESS_THAN).astype(np.int64) - (syntax.byte == _GREATER_THAN))
    )
    # of brackets in the value
    depth = depth_after[1:] - depth_after[syntax.first[:-1]][syntax.value_no]
    is_irregular = (
        (syntax.byte == _QUOTE)
        | (syntax.byte == _PARENTHESIS)
        | (depth < 0)
        | (syntax.is_separator & (depth != 0))
    )
    needs_tokens = np.zeros(len(values.offsets) - 1, np.bool_)
    needs_tokens[syntax.value_no[is_irregular]] = True
    needs_tokens &= syntax.has_separator
    separators = syntax.position[syntax.is_separator & ~needs_tokens[syntax.value_no]]
    if not needs_tokens.any():
        return separators
    chosen = np.flatnonzero(needs_tokens)
    token_values = TextBuffers.from_array(
        slice_spans(values, values.offsets[chosen], values.offsets[chosen + 1])
    )
    token_start, token_end = find_matches(token_values, _TOKEN_PATTERN)
    separator = token_start[token_end - token_start == 1]  # every other token has two bytes or more
    chosen_no = np.searchsorted(token_values.offsets, separator, side="right") - 1
    shift = values.offsets[chosen] - token_values.offsets[:-1]
    return np.sort(np.concatenate([separators, separator + shift[chosen_no]]))


def _split_into_pieces(values: TextBuffers, syntax: _SyntaxBytes) -> TextSpans:
    """The pieces between separators, ascending; their lists are numbered among the values with
    separators.

    In `Roe, Ann <...>` a single word, its comma and a piece with brackets are one piece."""
    separators = _find_separators(values, syntax)
    list_start, list_end = (
        values.offsets[:-1][syntax.has_separator],
        values.offsets[1:][syntax.has_separator],
    )
    start, end = (
        np.sort(np.concatenate([list_start, separators + 1])),
        np.sort(np.concatenate([list_end, separators])),
    )
    list_no = np.searchsorted(list_start, start, side="right") - 1
    brackets = syntax.position[syntax.byte == _LESS_THAN]
    has_no_bracket = np.searchsorted(brackets, start) == np.searchsorted(brackets, end)
    is_before_comma = (list_no[:-1] == list_no[1:]) & (values.data[end[:-1]] == _COMMA)
    surname = np.flatnonzero(has_no_bracket[:-1] & ~has_no_bracket[1:] & is_before_comma)
    surname = surname[
        pl.Series(slice_spans(values, start[surname], end[surname]))
        .str.contains(_SURNAME_ENTRY_PATTERN)
        .to_numpy()
    ]
    given_names = pl.Series(slice_spans(values, start[surname + 1], end[surname + 1]))
    surname = surname[given_names.str.contains(_GIVEN_NAME_ENTRY_PATTERN).to_numpy()]
    return TextSpans(
        np.delete(list_no, surname), np.delete(start, surname + 1), np.delete(end, surname)
    )


def _count_piece_edges(
    values: TextBuffers, syntax: _SyntaxBytes, starts: I64, ends: I64
) -> tuple[I64, I64]:
    """The bytes at the start and end of each piece that belong to no entry: white space, and the
    quote marks of folded lines."""
    blanks_before, blanks_after = _count_edge_blanks(values, starts, ends)
    feeds, last = syntax.position[syntax.byte == _LINE_FEED], len(values.data) - 1
    is_quoted = (values.data[np.minimum(feeds + 1, last)] == _GREATER_THAN) | (
        values.data[np.minimum(feeds + 2, last)] == _GREATER_THAN
    )
    is_folded = np.zeros(len(starts), np.bool_)
    is_folded[np.maximum(np.searchsorted(starts, feeds[is_quoted], side="right") - 1, 0)] = True
    folded = np.flatnonzero(is_folded)
    if len(folded):
        texts = pl.Series(slice_spans(values, starts[folded], ends[folded]))
        blanks_before[folded] = (
            texts.str.extract(rf"\A({_BLANK_PATTERN})").str.len_bytes().to_numpy()
        )
        blanks_after[folded] = (
            texts.str.extract(rf"({_BLANK_PATTERN})\z").str.len_bytes().to_numpy()
        )
    return blanks_before, blanks_after


def _count_edge_blanks(buffers: TextBuffers, starts: I64, ends: I64) -> tuple[I64, I64]:
    """Counts the bytes of white space at the start and at the end of each span."""
    low, high = starts.copy(), ends.copy()
    rows = np.flatnonzero(low < high)
    while len(rows):
        rows = rows[_WHITESPACE_BYTES[buffers.data[low[rows]]]]
        low[rows] += 1
        rows = rows[low[rows] < high[rows]]
    rows = np.flatnonzero(starts < high)
    while len(rows):
        rows = rows[_WHITESPACE_BYTES[buffers.data[high[rows] - 1]]]
        high[rows] -= 1
        rows = rows[high[rows] > starts[rows]]
    return low - starts, ends - high


# -------------------------------------------------------------------------------- display names

_NAME_BEFORE_ADDRESS_PATTERN = r"\A[\s\"'<*]*([^<>\"]*?)[\s\"'<]*\z"
_ENTRY_OPENING_PATTERN = r"\A([\s\"'<*]*)"
_BLANK_CHARS = " \t\r\n"
_COMMENT_PATTERN = r"\(([^()]*)\)"
_NAME_LIKE_PATTERN = r"\A[\p{L}\p{M}][\p{L}\p{M}.'’, \u3000・·-]*\z"
_MAX_NAME_BYTES = 80
# titles and remarks beside a name do not belong to it: `Dr. Ann Roe`, `Ann Roe (Sales)`
_LEADING_TITLES_PATTERN = r"(?i)\A((?:(?:dr|mr|mrs|ms|miss|prof|professor|rev)(?:[.]\s*|\s+))*)"
_TRAILING_REMARK_PATTERN = r"\s*\([^()]*\)\s*\z"


def strip_titles(names: pl.Series) -> pl.Series:
    """Returns the names without leading titles and without a trailing remark in parentheses."""
    return names.str.replace(_TRAILING_REMARK_PATTERN, "").str.replace(_LEADING_TITLES_PATTERN, "")


def find_display_names(
    buffers: TextBuffers, lines: HeaderLines, starts: I64, ends: I64
) -> pl.Series:
    """Returns the display name beside each address in its list entry, as written, without titles
    and remarks in parentheses.

    The name is the text before the address, or a comment after it; null where there is none or the
    text does not look like a name. Spans ascend and do not overlap."""
    return find_display_name_spans(buffers, lines, starts, ends).names


class DisplayNames(NamedTuple):
    """A name for each address, null where there is none, and its start and end byte in the column,
    -1 then."""

    names: pl.Series
    start: I64
    end: I64


def find_display_name_spans(
    buffers: TextBuffers, lines: HeaderLines, starts: I64, ends: I64
) -> DisplayNames:
    """The names of `find_display_names`, and where they are."""
    nothing = pl.Series([None] * len(starts), dtype=pl.String)
    begin, end = np.full(len(starts), -1, np.int64), np.full(len(starts), -1, np.int64)
    entries = find_address_entries(buffers, lines, starts, ends)
    listed = np.flatnonzero(lines.is_address_list & (entries.entry_count > 0))
    # of several addresses in one entry the last is the mailbox; the text before it may itself be an
    # address
    listed = (
        listed[np.append(np.diff(entries.entry_start[listed]) != 0, True)]
        if len(listed)
        else listed
    )
    if not len(listed):
        return DisplayNames(nothing, begin, end)
    text_before = pl.Series(slice_spans(buffers, entries.entry_start[listed], starts[listed]))
    before = text_before.str.extract(_NAME_BEFORE_ADDRESS_PATTERN)
    # a single entry extends to the line's end
    entry_ends = np.where(entries.entry_count == 1, lines.end, np.maximum(entries.entry_end, ends))
    text_after = pl.Series(slice_spans(buffers, ends[listed], entry_ends[listed]))
    after = text_after.str.extract(_COMMENT_PATTERN)
    is_before = (before.str.len_bytes().fill_null(0) > 0).to_numpy()
    written = pl.select(pl.when(pl.Series(is_before)).then(before).otherwise(after)).to_series()
    # where the extracted name starts: after the quotes and brackets that open an entry, or after
    # the parenthesis of the first comment
    opening_bytes = (
        text_before.str.extract(_ENTRY_OPENING_PATTERN)
        .str.len_bytes()
        .fill_null(0)
        .to_numpy()
        .astype(np.int64)
    )
    comment_offset = (
        text_after.str.find(_COMMENT_PATTERN).fill_null(0).to_numpy().astype(np.int64) + 1
    )
    name_start = np.where(
        is_before, entries.entry_start[listed] + opening_bytes, ends[listed] + comment_offset
    )
    name_start += (
        (written.str.len_bytes() - written.str.strip_chars_start(_BLANK_CHARS).str.len_bytes())
        .fill_null(0)
        .to_numpy()
        .astype(np.int64)
    )
    stripped = written.str.strip_chars(_BLANK_CHARS).str.replace(_TRAILING_REMARK_PATTERN, "")
    titles = stripped.str.extract(_LEADING_TITLES_PATTERN).fill_null("")
    name_start += titles.str.len_bytes().to_numpy().astype(np.int64)
    stripped = stripped.str.replace(_LEADING_TITLES_PATTERN, "")
    name = stripped.str.replace_all(r"[ \t\r\n]+", " ")
    is_name = (
        name.str.contains(_NAME_LIKE_PATTERN) & (name.str.len_bytes() <= _MAX_NAME_BYTES)
    ).fill_null(False)
    has_name = is_name.to_numpy()
    begin[listed[has_name]] = name_start[has_name]
    end[listed[has_name]] = (
        name_start[has_name]
        + stripped.str.len_bytes().fill_null(0).to_numpy().astype(np.int64)[has_name]
    )
    names = nothing.scatter(listed, pl.select(pl.when(is_name).then(name)).to_series())
    return DisplayNames(names, begin, end)
