"""The address lists of header lines, taken apart: the entry in which each span stands, and the name that stands beside an address.

An entry is what stands between commas or semicolons outside quotes, comments and `<` `>`, in headers and in blocks that stand forwarded
or quoted in a body alike (`headers.header_lines`). A name is what stands before its address, or behind it in a comment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.arrow_buffers import Buffers, among, cut, matches, table_of
from sanitize.text.mail_headers import HeaderLines

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Recipients:
    """The entry of an address list in which each of some spans stands, in bytes of the column: `head` to `tail` is the entry, `before`
    where the entry before it ends and `next` where the one after it begins (its own head and tail where there is none); `place` counts the
    entries of its line before it, `entries` all of them. A span outside a list is an entry of its own, with its `<` `>`: of 1 where
    its field holds nothing else, else of 0."""

    head: I64
    tail: I64
    before: I64
    next: I64
    place: I64
    entries: I64


# what holds a comma that separates nothing, and what separates
_TOKENS = r'"(?:[^"\\]|\\(?s:.))*"|\((?:[^()\\]|\\(?s:.))*\)|<[^<>]*>|[,;]'
_SEPARATOR = table_of(b",;")
_MARKED = table_of(b',;"(<>\n')
_WHITE = table_of(b" \t\r\n")
_BLANK = r"(?:[ \t\r]|\n(?: ?>)*)*"
_SURNAME = rf'\A{_BLANK}[^ \t\r\n,;<>@"()]+{_BLANK}\z'
_FIRST_NAME = rf'\A{_BLANK}[^ \t\r\n<>@",;():][^<>@",;():]*<[^<>]*>'


def recipients(buffers: Buffers, lines: HeaderLines, starts: I64, stops: I64) -> Recipients:
    """The entry of every span that stands in a header line; spans ascend. An entry is what stands between commas or semicolons outside
    quotes, comments and `<` `>`; in `Roe, Ann <ann@example.com>` the comma behind a single word belongs to the name."""
    data, last_byte = buffers.data, len(buffers.data) - 1
    wrapped = np.zeros(len(starts), np.bool_)
    opened = np.flatnonzero((starts > 0) & (stops <= last_byte))
    opened = opened[data[starts[opened] - 1] == 60]
    wrapped[opened] = data[stops[opened]] == 62
    head, tail = starts - wrapped, stops + wrapped
    nothing = np.zeros(len(starts), np.int64)
    found = Recipients(head.copy(), tail.copy(), head.copy(), tail.copy(), nothing, nothing.copy())
    one_of = np.append(np.diff(lines.start) != 0, True) & np.append(True, np.diff(lines.start) != 0)  # alone in its line
    other = np.flatnonzero((lines.colon >= 0) & (lines.colon < head) & ~lines.lists & one_of)
    around = [cut(buffers, *side) for side in ((lines.colon[other] + 1, head[other]), (tail[other], lines.stop[other]))]
    alone = np.logical_and.reduce([pl.Series(texts).str.contains(r"\A[ \t\r\n]*\z").to_numpy() for texts in around])
    found.entries[other[alone]] = 1
    mine = np.flatnonzero(lines.lists)
    if not len(mine):
        return found
    # a line without a separator is one entry
    value = lines.colon[mine] + 1
    new = np.append(True, np.diff(value) != 0)
    which = np.cumsum(new) - 1
    end, one = lines.stop[mine[new]], value[new]
    values = Buffers.of(cut(buffers, one, end))
    marks = np.flatnonzero(among(values.data, _MARKED))
    kind = values.data[marks]
    parts = _SEPARATOR[kind]
    bounds = np.searchsorted(marks, values.offsets)
    several = np.diff(np.append(0, np.cumsum(parts))[bounds]) > 0
    single = mine[~several[which]]
    found.head[single] = lines.colon[single] + 1
    found.entries[single] = 1
    left = several[which]
    mine, which = mine[left], (np.cumsum(several) - 1)[which[left]]
    if not len(mine):
        return found
    # what separates: all that does outside `<` `>`, and in a value with quotes, comments or odd brackets what is no part of a token
    value_of = np.repeat(np.arange(len(one)), np.diff(bounds))
    level = np.append(0, np.cumsum((kind == 60).astype(np.int64) - (kind == 62)))
    level = level[1:] - level[bounds[:-1]][value_of]
    odd = np.zeros(len(one), np.bool_)
    odd[value_of[(kind == 34) | (kind == 40) | (level < 0) | (parts & (level != 0))]] = True
    odd &= several
    single = marks[parts & ~odd[value_of]]
    if odd.any():
        chosen = np.flatnonzero(odd)
        some = Buffers.of(cut(values, values.offsets[chosen], values.offsets[chosen + 1]))
        low, high = matches(some, _TOKENS)
        low = low[high - low == 1]
        shift = (values.offsets[chosen] - some.offsets[:-1])[np.searchsorted(some.offsets, low, side="right") - 1]
        single = np.sort(np.concatenate([single, low + shift]))
    # pieces: from the value's begin, or from behind a separator, to the next separator or the value's end
    top, bottom = values.offsets[:-1][several], values.offsets[1:][several]
    begin, stop = np.sort(np.concatenate([top, single + 1])), np.sort(np.concatenate([bottom, single]))
    line_of = np.searchsorted(top, begin, side="right") - 1
    one = one[several]
    # `Roe, Ann <...>`: a word alone, before a comma, and a piece with brackets that is of the same line
    angles = marks[kind == 60]
    bare = np.searchsorted(angles, begin) == np.searchsorted(angles, stop)
    words = np.flatnonzero(bare[:-1] & ~bare[1:] & (line_of[:-1] == line_of[1:]) & (values.data[stop[:-1]] == 44))
    words = words[pl.Series(cut(values, begin[words], stop[words])).str.contains(_SURNAME).to_numpy()]
    words = words[pl.Series(cut(values, begin[words + 1], stop[words + 1])).str.contains(_FIRST_NAME).to_numpy()]
    begin, stop, line_of = np.delete(begin, words + 1), np.delete(stop, words), np.delete(line_of, words)
    # folded lines of a quoted block begin with their marks
    feeds = marks[kind == 10]
    last = len(values.data) - 1
    feeds = feeds[(values.data[np.minimum(feeds + 1, last)] == 62) | (values.data[np.minimum(feeds + 2, last)] == 62)]
    folded = np.zeros(len(begin), np.bool_)
    folded[np.maximum(np.searchsorted(begin, feeds, side="right") - 1, 0)] = True
    lead, trail = _blank(values, begin, stop)
    rows = np.flatnonzero(folded)
    if len(rows):
        texts = pl.Series(cut(values, begin[rows], stop[rows]))
        lead[rows] = texts.str.extract(rf"\A({_BLANK})").str.len_bytes().to_numpy()
        trail[rows] = texts.str.extract(rf"({_BLANK})\z").str.len_bytes().to_numpy()
    full = np.flatnonzero(lead < stop - begin)
    shift = one - top
    line_of = line_of[full]
    entry_head, entry_tail = begin[full] + lead[full] + shift[line_of], stop[full] - trail[full] + shift[line_of]
    first = np.searchsorted(line_of, np.arange(len(one) + 1))
    entry = np.searchsorted(entry_head, starts[mine], side="right") - 1
    last = entry == first[which + 1] - 1
    found.head[mine], found.tail[mine] = entry_head[entry], entry_tail[entry]
    found.before[mine] = np.where(entry == first[which], entry_head[entry], entry_tail[np.maximum(entry - 1, 0)])
    found.next[mine] = np.where(last, entry_tail[entry], entry_head[np.minimum(entry + 1, len(entry_head) - 1)])
    found.place[mine], found.entries[mine] = entry - first[which], first[which + 1] - first[which]
    return found


def _blank(buffers: Buffers, starts: I64, stops: I64) -> tuple[I64, I64]:
    """How many bytes of white space each span begins with, and ends with."""
    low, high = starts.copy(), stops.copy()
    rows = np.flatnonzero(low < high)
    while len(rows):
        rows = rows[_WHITE[buffers.data[low[rows]]]]
        low[rows] += 1
        rows = rows[low[rows] < high[rows]]
    rows = np.flatnonzero(starts < high)
    while len(rows):
        rows = rows[_WHITE[buffers.data[high[rows] - 1]]]
        high[rows] -= 1
        rows = rows[high[rows] > starts[rows]]
    return low - starts, stops - high


# --------------------------------------------------------------------------------------------------------------------- display names

_BEFORE = r"\A[\s\"'<*]*([^<>\"]*?)[\s\"'<]*\z"
_OPENING = r"\A([\s\"'<*]*)"
_BLANKS = " \t\r\n"
_COMMENT = r"\(([^()]*)\)"
_NAME_LIKE = r"\A[\p{L}\p{M}][\p{L}\p{M}.'’, -]*\z"
_LONGEST_NAME = 80
# what is no part of a name that it stands beside: `Dr. Ann Roe`, `Ann Roe (Sales)`
_TITLES = r"(?i)\A((?:(?:dr|mr|mrs|ms|miss|prof|professor|rev)(?:[.]\s*|\s+))*)"
_REMARK = r"\s*\([^()]*\)\s*\z"


def untitled(names: pl.Series) -> pl.Series:
    """Names without the titles before them and a remark in parentheses behind."""
    return names.str.replace(_REMARK, "").str.replace(_TITLES, "")


def display_names(buffers: Buffers, lines: HeaderLines, starts: I64, stops: I64) -> pl.Series:
    """The name that stands beside each address in its entry of a list, as it is written: before it, or behind it in a comment, without
    titles and remarks in parentheses; null where there is none, or what stands there is no name. Spans ascend and do not overlap."""
    return display_spans(buffers, lines, starts, stops)[0]


def display_spans(buffers: Buffers, lines: HeaderLines, starts: I64, stops: I64) -> tuple[pl.Series, I64, I64]:
    """The same, and where in the column each name stands, first byte and byte after it; -1 where there is none."""
    nothing = pl.Series([None] * len(starts), dtype=pl.String)
    begin, end = np.full(len(starts), -1, np.int64), np.full(len(starts), -1, np.int64)
    entries = recipients(buffers, lines, starts, stops)
    listed = np.flatnonzero(lines.lists & (entries.entries > 0))
    # of several addresses in one entry the last is the mailbox, and what stands before it may be an address
    listed = listed[np.append(np.diff(entries.head[listed]) != 0, True)] if len(listed) else listed
    if not len(listed):
        return nothing, begin, end
    left = pl.Series(cut(buffers, entries.head[listed], starts[listed]))
    before = left.str.extract(_BEFORE)
    ending = np.where(entries.entries == 1, lines.stop, np.maximum(entries.tail, stops))  # an entry that has its field to itself
    right = pl.Series(cut(buffers, stops[listed], ending[listed]))
    after = right.str.extract(_COMMENT)
    ahead = (before.str.len_bytes().fill_null(0) > 0).to_numpy()
    written = pl.select(pl.when(pl.Series(ahead)).then(before).otherwise(after)).to_series()
    # the place of what was extracted: behind the marks that open an entry, or behind the first comment's parenthesis
    opened = left.str.extract(_OPENING).str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
    comment = right.str.find(_COMMENT).fill_null(0).to_numpy().astype(np.int64) + 1
    place = np.where(ahead, entries.head[listed] + opened, stops[listed] + comment)
    place += (written.str.len_bytes() - written.str.strip_chars_start(_BLANKS).str.len_bytes()).fill_null(0).to_numpy().astype(np.int64)
    bare = written.str.strip_chars(_BLANKS).str.replace(_REMARK, "")
    titles = bare.str.extract(_TITLES).fill_null("")
    place += titles.str.len_bytes().to_numpy().astype(np.int64)
    bare = bare.str.replace(_TITLES, "")
    name = bare.str.replace_all(r"[ \t\r\n]+", " ")
    good = (name.str.contains(_NAME_LIKE) & (name.str.len_bytes() <= _LONGEST_NAME)).fill_null(False)
    chosen = good.to_numpy()
    begin[listed[chosen]] = place[chosen]
    end[listed[chosen]] = place[chosen] + bare.str.len_bytes().fill_null(0).to_numpy().astype(np.int64)[chosen]
    return nothing.scatter(listed, pl.select(pl.when(good).then(name)).to_series()), begin, end
