"""What a mail header block is, seen from the buffers of a whole column: fields, folding, address lists, and where the body begins.

A text begins with a header block when its first line is a well-known field, or its first two fields look like fields. The block ends
at the first empty line. A folded line (one that begins with a space or a tab) belongs to the field above it.

`header_lines` knows the blocks of forwarded and quoted mails in a body too: at least two neighbouring lines that are fields such a block
has (From, To, Cc, Bcc, Sent, Date, Subject, Reply-To, Sender; indented, starred or quoted with `>` alike), with their folded lines.
`recipients` takes the address lists of lines apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.spans import Buffers, arrow, cut, matches

I64 = npt.NDArray[np.int64]
BODY = "body"
ID_FIELDS = frozenset(
    {
        "message-id",
        "in-reply-to",
        "references",
        "resent-message-id",
        "content-id",
        "original-message-id",
        "x-message-id",
        "x-original-message-id",
    }
)
ADDRESS_FIELDS = frozenset(
    f"{before}{field}"
    for before in ("", "resent-", "x-", "x-original-")
    for field in (
        "from",
        "to",
        "cc",
        "bcc",
        "reply-to",
        "sender",
        "return-path",
        "delivered-to",
        "envelope-to",
        "envelope-from",
        "errors-to",
    )
)
_NAME = r"[A-Za-z][A-Za-z0-9-]*:"
_BLOCK = (
    r"\A(?:From [^\n]*\n)?(?:"
    r"(?:[Ff]rom|FROM|[Tt]o|TO|[Dd]ate|DATE|[Ss]ubject|SUBJECT|[Mm]essage-[Ii][Dd]|[Rr]eceived|[Rr]eturn-[Pp]ath):"
    rf"|{_NAME}[^\n]*\n(?:[ \t][^\n]*\n)*{_NAME})"
)


@dataclass(frozen=True)
class Sections:
    """The section of every span: an index into `names`, -1 outside mail. `names[0]` is `body`."""

    index: npt.NDArray[np.int32]
    names: list[str]

    @property
    def is_id_field(self) -> npt.NDArray[np.bool_]:
        """True where a span stands in a field that holds message ids."""
        return self._in(ID_FIELDS)

    @property
    def is_address_field(self) -> npt.NDArray[np.bool_]:
        """True where a span stands in a field that holds addresses."""
        return self._in(ADDRESS_FIELDS)

    def _in(self, fields: frozenset[str]) -> npt.NDArray[np.bool_]:
        known = np.array([*(name in fields for name in self.names), False])  # the last entry serves index -1
        return known[self.index]


def sections(buffers: Buffers, text_no: I64, starts: I64) -> Sections:
    """The section of every span of a column of texts; `starts` is each span's first byte in the column, ascending."""
    if not len(starts):
        return Sections(np.empty(0, np.int32), [BODY])
    mail, low, high = blocks_of(buffers)
    if not len(mail):
        return Sections(np.full(len(starts), -1, np.int32), [BODY])
    place = np.minimum(np.searchsorted(mail, text_no), len(mail) - 1)
    in_mail = mail[place] == text_no
    index = np.where(in_mail, np.int32(0), np.int32(-1))
    inside = np.flatnonzero(in_mail & (starts < high[place]))
    if not len(inside):
        return Sections(index, [BODY])
    blocks = Buffers.of(cut(buffers, low, high))
    data, block = blocks.data, place[inside]
    top = blocks.offsets[block]
    # the line of each span, and from there up while the line is folded
    feeds = np.flatnonzero(data == 10)
    after = np.concatenate([[0], feeds + 1])  # after[n] is where line n begins
    line = np.searchsorted(feeds, starts[inside] - low[block] + top)
    begin = np.maximum(after[line], top)
    while True:
        folded = ((data[begin] == 32) | (data[begin] == 9)) & (begin > top)
        if not folded.any():
            break
        line = line - folded
        begin = np.maximum(after[line], top)
    # the field's name, from the line's first byte to its colon; a line that is no field has the name `header`
    new = np.append(True, np.diff(begin) != 0)
    lines, back = begin[new], np.cumsum(new) - 1
    colons = np.append(np.flatnonzero(data == 58), len(data))
    stops = colons[np.searchsorted(colons, lines)]
    # a line ends with its line feed, or with its block: the last line of a text may have none
    ending = np.minimum(np.append(feeds, len(data))[np.searchsorted(feeds, lines)], blocks.offsets[block[new] + 1])
    stops = np.where((stops < ending) & (stops - lines <= 76), stops, lines)
    written = cut(blocks, lines, stops).dictionary_encode()
    fields = pl.Series(written.dictionary).str.to_lowercase()
    fields = pl.select(pl.when(fields.str.contains(r"\A[!-9;-~]+\z")).then(fields).otherwise(pl.lit("header"))).to_series()
    named = fields.to_arrow().dictionary_encode()
    index[inside] = 1 + np.asarray(named.indices, np.int32)[np.asarray(written.indices)][back]
    return Sections(index, [BODY, *named.dictionary.to_pylist()])


def blocks_of(buffers: Buffers) -> tuple[I64, I64, I64]:
    """The texts that begin with a header block, and the first byte and the byte after each block: where two line feeds meet for the first
    time (a carriage return between them or not), or where the text ends."""
    texts = pl.Series(buffers.column())
    mail = np.flatnonzero(texts.str.contains(_BLOCK).to_numpy())
    low = buffers.offsets[mail]
    meet = texts.gather(mail).str.find(r"\n\r?\n")
    high = np.where(meet.is_null().to_numpy(), buffers.offsets[mail + 1], low + meet.fill_null(0).to_numpy().astype(np.int64))
    return mail, low, high


def bodies(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Every text without its header block and the empty line after it; a text that begins with none stays whole."""
    buffers = Buffers.of(texts)
    mail, _, high = blocks_of(buffers)
    starts, stops = buffers.offsets[:-1].copy(), buffers.offsets[1:]
    padded = np.append(buffers.data, np.zeros(2, np.uint8))
    starts[mail] = np.minimum(high + 2 + (padded[high + 1] == 13), stops[mail])
    return cut(buffers, starts, stops)


# ---------------------------------------------------------------------------------------------------------- header lines and their lists

LIST_FIELDS = ADDRESS_FIELDS | {
    "apparently-to",
    "bounces-to",
    "disposition-notification-to",
    "mail-followup-to",
    "mail-reply-to",
    "old-return-path",
    "return-receipt-to",
    "x-apparently-to",
    "x-beenthere",
    "x-mailing-list",
}
# fields of the header blocks that mail programs put into a body, and those of them that list addresses
_QUOTED = "from|to|cc|bcc|sent|date|subject|reply-to|sender"
_QUOTED_LISTS = frozenset({"from", "to", "cc", "bcc", "reply-to", "sender"})
_QUOTED_FIELD = rf"\A(?: ?>)*[ \t]*\*?((?i:{_QUOTED}))\*?[ \t]*:"
_QUOTED_FOLD = r"\A(?: ?>)*[ \t]+[^ \t\r\n>]"
_MARKS = r"\A((?: ?>)*)"
_FIELD = r"\A([!-9;-~]+)[ \t]*:"
_SOFT = (9, 32, 62)  # with these bytes begin lines that may go on with the one above


@dataclass(frozen=True, repr=False)
class HeaderLines:
    """The header line, folded lines included, in which each of some spans stands: first byte and byte after its line feed in the column,
    -1 where the span stands in no header line; `field` indexes `names`; `colon` is the byte of the field's colon, -1 where the line is
    no field; `lists` says whether it is a list of addresses."""

    start: I64
    stop: I64
    field: npt.NDArray[np.int32]
    names: list[str]
    colon: I64
    lists: npt.NDArray[np.bool_]


def header_lines(buffers: Buffers, text_no: I64, starts: I64) -> HeaderLines:
    """The header line of every span of a column of texts, in the block of a mail or in one that stands forwarded or quoted in a body;
    `starts` is each span's first byte in the column, ascending."""
    size = len(buffers.data)
    if not len(starts):
        nothing = np.empty(0, np.int64)
        return HeaderLines(nothing, nothing, np.empty(0, np.int32), [], nothing, np.empty(0, np.bool_))
    mail, _, high = blocks_of(buffers)
    top_end = buffers.offsets[:-1].copy()
    top_end[mail] = high
    begins = np.zeros(size + 1, np.bool_)
    begins[np.flatnonzero(buffers.data == 10) + 1] = True
    begins[buffers.offsets] = True
    begins[size] = False
    line = np.flatnonzero(begins)  # the first byte of every line
    ends = np.append(line[1:], size)
    soft = np.isin(buffers.data[line], _SOFT)
    soft[np.searchsorted(line, buffers.offsets[:-1][buffers.lengths > 0])] = False
    # around every line that holds a span: up to a line that can begin a field, down to the end of what may be folded, and one neighbour
    own = np.searchsorted(line, starts, side="right") - 1
    held, where = np.unique(own, return_inverse=True)
    hard = np.flatnonzero(~soft)
    at = np.searchsorted(hard, held, side="right")
    text_of_held = text_no[np.searchsorted(own, held)]
    first_line = np.searchsorted(line, buffers.offsets[text_of_held])
    last_line = np.searchsorted(line, buffers.offsets[text_of_held + 1]) - 1
    low = np.maximum(hard[at - 1] - 1, first_line)
    # np.append: below the last hard line of all there is only the column's end
    high_line = np.minimum(np.append(hard, len(line))[at], last_line)
    cover = np.zeros(len(line) + 1, np.int32)
    np.add.at(cover, low, 1)
    np.add.at(cover, high_line + 1, -1)
    near = np.flatnonzero(np.cumsum(cover[:-1]) > 0)
    text_of = np.searchsorted(buffers.offsets, line[near], side="right") - 1
    shown = pl.Series(cut(buffers, line[near], ends[near]))
    top = line[near] < top_end[text_of]
    frame = pl.DataFrame({"line": shown, "top": top}).select(
        field=pl.when("top")
        .then(pl.col("line").str.extract(_FIELD))
        .otherwise(pl.col("line").str.extract(_QUOTED_FIELD))
        .str.to_lowercase(),
        fold=pl.when("top").then(pl.col("line").str.contains(r"\A[ \t]")).otherwise(pl.col("line").str.contains(_QUOTED_FOLD)),
        marks=pl.when("top").then(None).otherwise(pl.col("line").str.extract(_MARKS)).fill_null(""),
        colon=pl.col("line").str.find(":", literal=True),
    )
    is_field = frame["field"].is_not_null().to_numpy()
    marks = np.asarray(arrow(frame["marks"]).dictionary_encode().indices, np.int64)
    joins = np.append(False, (np.diff(near) == 1) & (np.diff(text_of) == 0) & (np.diff(marks) == 0))  # with the line above, of one depth
    goes_on = frame["fold"].to_numpy() & ~is_field & joins & (top == np.append(False, top[:-1]))
    numbers = np.arange(len(near))
    head = np.maximum.accumulate(np.where(goes_on, 0, numbers))
    heads = np.flatnonzero(~goes_on)
    last = np.append(heads[1:], len(near)) - 1  # the last line of the field that begins at each of `heads`
    # in a body, a field counts where the line above it or the one below is a field too
    beside = is_field & ~top
    above = np.append(False, beside[:-1]) & joins
    below = np.append(beside[1:], False) & np.append(joins[1:], False)
    place = np.searchsorted(heads, head)
    counts = top | (beside[head] & (above[head] | below[last[place]]))
    names = frame["field"].fill_null("header")
    named = arrow(names).dictionary_encode()
    known: list[str] = named.dictionary.to_pylist()
    listing = np.array([name in LIST_FIELDS for name in known] or [False])
    listing_quoted = np.array([name in _QUOTED_LISTS for name in known] or [False])
    code = np.asarray(named.indices, np.int32)
    mine = np.searchsorted(near, held)
    mine_head = head[mine]
    good = counts[mine]
    field = code[mine_head]
    start = np.where(good, line[near[mine_head]], -1)
    stop = np.where(good, ends[near[last[place[mine]]]], -1)
    colon = np.where(good & is_field[mine_head], start + frame["colon"].fill_null(0).to_numpy()[mine_head].astype(np.int64), -1)
    lists = good & is_field[mine_head] & np.where(top[mine_head], listing[field], listing_quoted[field])
    return HeaderLines(start[where], stop[where], field[where], known, colon[where], lists[where])


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
_BLANK = r"(?:[ \t\r]|\n(?: ?>)*)*"
_SURNAME = rf'\A{_BLANK}[^ \t\r\n,;<>@"()]+{_BLANK}\z'
_FIRST_NAME = rf'\A{_BLANK}[^ \t\r\n<>@",;():][^<>@",;():]*<[^<>]*>'


def recipients(buffers: Buffers, lines: HeaderLines, starts: I64, stops: I64) -> Recipients:
    """The entry of every span that stands in a header line; spans ascend. An entry is what stands between commas or semicolons outside
    quotes, comments and `<` `>`; in `Roe, Ann <ann@example.com>` the comma behind a single word belongs to the name."""
    data = np.append(buffers.data, np.uint8(0))
    wrapped = (starts > 0) & (data[starts - 1] == 60) & (data[stops] == 62)
    head, tail = starts - wrapped, stops + wrapped
    nothing = np.zeros(len(starts), np.int64)
    found = Recipients(head.copy(), tail.copy(), head.copy(), tail.copy(), nothing, nothing.copy())
    other = np.flatnonzero((lines.colon >= 0) & ~lines.lists)
    around = [(lines.colon[other] + 1, head[other]), (tail[other], lines.stop[other])]
    alone = np.logical_and.reduce([blank(buffers, *side) for side in around])
    found.entries[other[alone]] = 1
    mine = np.flatnonzero(lines.lists)
    if not len(mine):
        return found
    value = lines.colon[mine] + 1
    one, which = np.unique(value, return_inverse=True)
    end = lines.stop[mine][np.searchsorted(value, one)]
    values = Buffers.of(cut(buffers, one, end))
    low, high = matches(values, _TOKENS)
    single = low[high - low == 1]
    owner = np.searchsorted(values.offsets, single, side="right") - 1
    # pieces: from the value's begin, or from behind a separator, to the next separator or the value's end
    begin = np.sort(np.concatenate([values.offsets[:-1], single + 1]))
    stop = np.sort(np.concatenate([values.offsets[1:], single]))
    line_of = np.sort(np.concatenate([np.arange(len(one)), owner]))
    pieces = pl.DataFrame({"text": pl.Series(cut(values, begin, stop)), "line": line_of})
    same = pl.col("line") == pl.col("line").shift(-1)
    surname = pl.col("text").str.contains(_SURNAME) & pl.col("text").shift(-1).str.contains(_FIRST_NAME)
    joined = pieces.select((same & surname).fill_null(False)).to_series().to_numpy() & (
        values.data[np.minimum(stop, len(values.data) - 1)] == 44
    )
    if joined.any():
        begin, stop, line_of = begin[~np.append(False, joined[:-1])], stop[~joined], line_of[~joined]
        pieces = pl.DataFrame({"text": pl.Series(cut(values, begin, stop)), "line": line_of})
    blanks = pieces.select(
        lead=pl.col("text").str.extract(rf"\A({_BLANK})").str.len_bytes().cast(pl.Int64),
        trail=pl.col("text").str.extract(rf"({_BLANK})\z").str.len_bytes().cast(pl.Int64),
    )
    lead, trail = blanks["lead"].to_numpy(), blanks["trail"].to_numpy()
    full = np.flatnonzero(lead < stop - begin)
    shift = one - values.offsets[:-1]
    line_of = line_of[full]
    entry_head, entry_tail = begin[full] + lead[full] + shift[line_of], stop[full] - trail[full] + shift[line_of]
    first = np.searchsorted(line_of, np.arange(len(one) + 1))
    entry = np.searchsorted(entry_head, starts[mine], side="right") - 1
    line = which
    last = entry == first[line + 1] - 1
    found.head[mine], found.tail[mine] = entry_head[entry], entry_tail[entry]
    found.before[mine] = np.where(entry == first[line], entry_head[entry], entry_tail[np.maximum(entry - 1, 0)])
    found.next[mine] = np.where(last, entry_tail[entry], entry_head[np.minimum(entry + 1, len(entry_head) - 1)])
    found.place[mine], found.entries[mine] = entry - first[line], first[line + 1] - first[line]
    return found


def blank(buffers: Buffers, starts: I64, stops: I64) -> npt.NDArray[np.bool_]:
    """True for spans of white space; they may overlap."""
    light = np.array([byte in b"\t\n\r " for byte in range(256)])
    dark = np.append(0, np.cumsum(~light[buffers.data], dtype=np.int32))
    found: npt.NDArray[np.bool_] = dark[starts] == dark[stops]
    return found
