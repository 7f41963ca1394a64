"""Parses the address lists of mail header lines: the list entry of each span, and the display name beside an address.

Entries are separated by commas or semicolons outside quotes, comments and `<` `>`. This holds for the header block of a mail and for
forwarded or quoted header blocks in a body (`mail_headers.find_header_lines`). A display name is the text before its address, or the
comment in parentheses after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.arrow_buffers import TextBuffers, find_matches, is_in_byte_table, make_byte_table, slice_spans
from sanitize.text.mail_headers import HeaderLines

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class AddressEntries:
    """The entry of an address list that holds each span, one row per span; positions are byte offsets in the column.

    `entry_start` to `entry_end` is the entry. `previous_end` is where the entry before it ends and `next_start` where the one after it
    begins (its own start and end where there is no such entry). `entry_no` counts the entries before it in its line, `entry_count` all
    entries of the line. A span outside a list is an entry of its own, including its `<` `>`; its `entry_count` is 1 where its field
    holds nothing else, otherwise 0."""

    entry_start: I64
    entry_end: I64
    previous_end: I64
    next_start: I64
    entry_no: I64
    entry_count: I64


# quoted strings, comments and bracketed addresses (a comma inside them does not separate), and the separators themselves
_TOKEN_PATTERN = r'"(?:[^"\\]|\\(?s:.))*"|\((?:[^()\\]|\\(?s:.))*\)|<[^<>]*>|[,;]'
_SEPARATOR_BYTES = make_byte_table(b",;")
_SYNTAX_BYTES = make_byte_table(b',;"(<>\n')
_WHITESPACE_BYTES = make_byte_table(b" \t\r\n")
_BLANK_PATTERN = r"(?:[ \t\r]|\n(?: ?>)*)*"
_SURNAME_ENTRY_PATTERN = rf'\A{_BLANK_PATTERN}[^ \t\r\n,;<>@"()]+{_BLANK_PATTERN}\z'
_GIVEN_NAME_ENTRY_PATTERN = rf'\A{_BLANK_PATTERN}[^ \t\r\n<>@",;():][^<>@",;():]*<[^<>]*>'


def find_address_entries(buffers: TextBuffers, lines: HeaderLines, starts: I64, ends: I64) -> AddressEntries:
    """Returns the address list entry of every span. `starts`, `ends` are byte offsets in the column, ascending.

    Entries are separated by commas or semicolons outside quotes, comments and `<` `>`; in `Roe, Ann <ann@example.com>` the comma after
    a single word belongs to the name."""
    data, last_byte = buffers.data, len(buffers.data) - 1
    wrapped = np.zeros(len(starts), np.bool_)
    wrap_candidates = np.flatnonzero((starts > 0) & (ends <= last_byte))
    wrap_candidates = wrap_candidates[data[starts[wrap_candidates] - 1] == 60]
    wrapped[wrap_candidates] = data[ends[wrap_candidates]] == 62
    head, tail = starts - wrapped, ends + wrapped
    nothing = np.zeros(len(starts), np.int64)
    found = AddressEntries(head.copy(), tail.copy(), head.copy(), tail.copy(), nothing, nothing.copy())
    only_span = np.append(np.diff(lines.start) != 0, True) & np.append(True, np.diff(lines.start) != 0)  # the only span of its line
    other = np.flatnonzero((lines.colon >= 0) & (lines.colon < head) & ~lines.is_address_list & only_span)
    texts_around = [slice_spans(buffers, *side) for side in ((lines.colon[other] + 1, head[other]), (tail[other], lines.end[other]))]
    is_alone = np.logical_and.reduce([pl.Series(texts).str.contains(r"\A[ \t\r\n]*\z").to_numpy() for texts in texts_around])
    found.entry_count[other[is_alone]] = 1
    listed = np.flatnonzero(lines.is_address_list)
    if not len(listed):
        return found
    # a line without a separator is one entry
    value = lines.colon[listed] + 1
    is_first_of_value = np.append(True, np.diff(value) != 0)
    value_no = np.cumsum(is_first_of_value) - 1
    value_end, value_start = lines.end[listed[is_first_of_value]], value[is_first_of_value]
    values = TextBuffers.from_array(slice_spans(buffers, value_start, value_end))
    syntax_bytes = np.flatnonzero(is_in_byte_table(values.data, _SYNTAX_BYTES))
    syntax = values.data[syntax_bytes]
    is_separator = _SEPARATOR_BYTES[syntax]
    bounds = np.searchsorted(syntax_bytes, values.offsets)
    is_split = np.diff(np.append(0, np.cumsum(is_separator))[bounds]) > 0
    only_entry = listed[~is_split[value_no]]
    found.entry_start[only_entry] = lines.colon[only_entry] + 1
    found.entry_count[only_entry] = 1
    has_separator = is_split[value_no]
    listed, value_no = listed[has_separator], (np.cumsum(is_split) - 1)[value_no[has_separator]]
    if not len(listed):
        return found
    # separators: every comma and semicolon outside `<` `>`; in a value with quotes, comments or unbalanced brackets, those that are
    # tokens of their own
    value_of = np.repeat(np.arange(len(value_start)), np.diff(bounds))
    level = np.append(0, np.cumsum((syntax == 60).astype(np.int64) - (syntax == 62)))
    level = level[1:] - level[bounds[:-1]][value_of]
    needs_tokens = np.zeros(len(value_start), np.bool_)
    needs_tokens[value_of[(syntax == 34) | (syntax == 40) | (level < 0) | (is_separator & (level != 0))]] = True
    needs_tokens &= is_split
    separators = syntax_bytes[is_separator & ~needs_tokens[value_of]]
    if needs_tokens.any():
        chosen = np.flatnonzero(needs_tokens)
        token_values = TextBuffers.from_array(slice_spans(values, values.offsets[chosen], values.offsets[chosen + 1]))
        low, high = find_matches(token_values, _TOKEN_PATTERN)
        low = low[high - low == 1]
        shift = (values.offsets[chosen] - token_values.offsets[:-1])[np.searchsorted(token_values.offsets, low, side="right") - 1]
        separators = np.sort(np.concatenate([separators, low + shift]))
    # pieces: from the start of the value, or from the byte after a separator, to the next separator or the end of the value
    top, bottom = values.offsets[:-1][is_split], values.offsets[1:][is_split]
    begin, stop = np.sort(np.concatenate([top, separators + 1])), np.sort(np.concatenate([bottom, separators]))
    line_of = np.searchsorted(top, begin, side="right") - 1
    value_start = value_start[is_split]
    # `Roe, Ann <...>`: a single word before a comma, followed by a piece with brackets in the same line, is one entry
    angles = syntax_bytes[syntax == 60]
    bare = np.searchsorted(angles, begin) == np.searchsorted(angles, stop)
    words = np.flatnonzero(bare[:-1] & ~bare[1:] & (line_of[:-1] == line_of[1:]) & (values.data[stop[:-1]] == 44))
    words = words[pl.Series(slice_spans(values, begin[words], stop[words])).str.contains(_SURNAME_ENTRY_PATTERN).to_numpy()]
    words = words[pl.Series(slice_spans(values, begin[words + 1], stop[words + 1])).str.contains(_GIVEN_NAME_ENTRY_PATTERN).to_numpy()]
    begin, stop, line_of = np.delete(begin, words + 1), np.delete(stop, words), np.delete(line_of, words)
    # folded lines of a quoted block begin with quote marks, which do not belong to an entry
    feeds = syntax_bytes[syntax == 10]
    last = len(values.data) - 1
    feeds = feeds[(values.data[np.minimum(feeds + 1, last)] == 62) | (values.data[np.minimum(feeds + 2, last)] == 62)]
    folded = np.zeros(len(begin), np.bool_)
    folded[np.maximum(np.searchsorted(begin, feeds, side="right") - 1, 0)] = True
    lead, trail = _count_edge_blanks(values, begin, stop)
    rows = np.flatnonzero(folded)
    if len(rows):
        texts = pl.Series(slice_spans(values, begin[rows], stop[rows]))
        lead[rows] = texts.str.extract(rf"\A({_BLANK_PATTERN})").str.len_bytes().to_numpy()
        trail[rows] = texts.str.extract(rf"({_BLANK_PATTERN})\z").str.len_bytes().to_numpy()
    full = np.flatnonzero(lead < stop - begin)
    shift = value_start - top
    line_of = line_of[full]
    entry_head, entry_tail = begin[full] + lead[full] + shift[line_of], stop[full] - trail[full] + shift[line_of]
    first = np.searchsorted(line_of, np.arange(len(value_start) + 1))
    entry = np.searchsorted(entry_head, starts[listed], side="right") - 1
    last = entry == first[value_no + 1] - 1
    found.entry_start[listed], found.entry_end[listed] = entry_head[entry], entry_tail[entry]
    found.previous_end[listed] = np.where(entry == first[value_no], entry_head[entry], entry_tail[np.maximum(entry - 1, 0)])
    found.next_start[listed] = np.where(last, entry_tail[entry], entry_head[np.minimum(entry + 1, len(entry_head) - 1)])
    found.entry_no[listed], found.entry_count[listed] = entry - first[value_no], first[value_no + 1] - first[value_no]
    return found


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


# --------------------------------------------------------------------------------------------------------------------- display names

_NAME_BEFORE_ADDRESS_PATTERN = r"\A[\s\"'<*]*([^<>\"]*?)[\s\"'<]*\z"
_ENTRY_OPENING_PATTERN = r"\A([\s\"'<*]*)"
_BLANK_CHARS = " \t\r\n"
_COMMENT_PATTERN = r"\(([^()]*)\)"
_NAME_LIKE_PATTERN = r"\A[\p{L}\p{M}][\p{L}\p{M}.'’, -]*\z"
_MAX_NAME_BYTES = 80
# titles and remarks beside a name do not belong to it: `Dr. Ann Roe`, `Ann Roe (Sales)`
_LEADING_TITLES_PATTERN = r"(?i)\A((?:(?:dr|mr|mrs|ms|miss|prof|professor|rev)(?:[.]\s*|\s+))*)"
_TRAILING_REMARK_PATTERN = r"\s*\([^()]*\)\s*\z"


def strip_titles(names: pl.Series) -> pl.Series:
    """Returns the names without leading titles and without a trailing remark in parentheses."""
    return names.str.replace(_TRAILING_REMARK_PATTERN, "").str.replace(_LEADING_TITLES_PATTERN, "")


def find_display_names(buffers: TextBuffers, lines: HeaderLines, starts: I64, ends: I64) -> pl.Series:
    """Returns the display name beside each address in its list entry, as written, without titles and remarks in parentheses.

    The name is the text before the address, or a comment after it; null where there is none or the text does not look like a name.
    Spans ascend and do not overlap."""
    return find_display_name_spans(buffers, lines, starts, ends)[0]


def find_display_name_spans(buffers: TextBuffers, lines: HeaderLines, starts: I64, ends: I64) -> tuple[pl.Series, I64, I64]:
    """Like `find_display_names`, with the start and end byte of each name in the column; -1 where there is no name."""
    nothing = pl.Series([None] * len(starts), dtype=pl.String)
    begin, end = np.full(len(starts), -1, np.int64), np.full(len(starts), -1, np.int64)
    entries = find_address_entries(buffers, lines, starts, ends)
    listed = np.flatnonzero(lines.is_address_list & (entries.entry_count > 0))
    # of several addresses in one entry the last is the mailbox; the text before it may itself be an address
    listed = listed[np.append(np.diff(entries.entry_start[listed]) != 0, True)] if len(listed) else listed
    if not len(listed):
        return nothing, begin, end
    text_before = pl.Series(slice_spans(buffers, entries.entry_start[listed], starts[listed]))
    before = text_before.str.extract(_NAME_BEFORE_ADDRESS_PATTERN)
    entry_ends = np.where(
        entries.entry_count == 1, lines.end, np.maximum(entries.entry_end, ends)
    )  # a single entry extends to the line's end
    text_after = pl.Series(slice_spans(buffers, ends[listed], entry_ends[listed]))
    after = text_after.str.extract(_COMMENT_PATTERN)
    is_before = (before.str.len_bytes().fill_null(0) > 0).to_numpy()
    written = pl.select(pl.when(pl.Series(is_before)).then(before).otherwise(after)).to_series()
    # where the extracted name starts: after the quotes and brackets that open an entry, or after the parenthesis of the first comment
    opening_bytes = text_before.str.extract(_ENTRY_OPENING_PATTERN).str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
    comment_offset = text_after.str.find(_COMMENT_PATTERN).fill_null(0).to_numpy().astype(np.int64) + 1
    name_start = np.where(is_before, entries.entry_start[listed] + opening_bytes, ends[listed] + comment_offset)
    name_start += (
        (written.str.len_bytes() - written.str.strip_chars_start(_BLANK_CHARS).str.len_bytes()).fill_null(0).to_numpy().astype(np.int64)
    )
    stripped = written.str.strip_chars(_BLANK_CHARS).str.replace(_TRAILING_REMARK_PATTERN, "")
    titles = stripped.str.extract(_LEADING_TITLES_PATTERN).fill_null("")
    name_start += titles.str.len_bytes().to_numpy().astype(np.int64)
    stripped = stripped.str.replace(_LEADING_TITLES_PATTERN, "")
    name = stripped.str.replace_all(r"[ \t\r\n]+", " ")
    is_name = (name.str.contains(_NAME_LIKE_PATTERN) & (name.str.len_bytes() <= _MAX_NAME_BYTES)).fill_null(False)
    has_name = is_name.to_numpy()
    begin[listed[has_name]] = name_start[has_name]
    end[listed[has_name]] = name_start[has_name] + stripped.str.len_bytes().fill_null(0).to_numpy().astype(np.int64)[has_name]
    return nothing.scatter(listed, pl.select(pl.when(is_name).then(name)).to_series()), begin, end
