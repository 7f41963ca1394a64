"""What a mail header block is, seen from the buffers of a whole column: fields, folding, address lists, and where the body begins.

A text begins with a header block when its first line is a well-known field, or its first two fields look like fields. The block ends
at the first empty line. A folded line (one that begins with a space or a tab) belongs to the field above it.

`header_lines` knows the blocks of forwarded and quoted mails in a body too: at least two neighbouring lines that are fields such a block
has (From, To, Cc, Bcc, Sent, Date, Subject, Reply-To, Sender, in English, German, French, Spanish, Italian, Portuguese or Dutch; indented,
starred or quoted with `>` alike), with their folded lines. A field is called by its English name.
`recipients` takes the address lists of lines apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.spans import Buffers, among, arrow, cut, first_after, last_before, matches, within

I64 = npt.NDArray[np.int64]
BODY = "body"
HEADER = "header"  # the field of a header line that is none
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


@dataclass(frozen=True, repr=False)
class Headers:
    """The header blocks of a column of texts, looked for once, when the first span asks for its section."""

    buffers: Buffers

    @cached_property
    def _found(self) -> tuple[I64, I64, I64]:
        return blocks_of(self.buffers)

    @cached_property
    def _blocks(self) -> tuple[Buffers, I64, I64]:
        """The blocks one after the other, and their line feeds and colons."""
        _, low, high = self._found
        blocks = Buffers.of(cut(self.buffers, low, high))
        return blocks, np.flatnonzero(blocks.data == 10), np.append(np.flatnonzero(blocks.data == 58), len(blocks.data))

    def sections(self, text_no: I64, starts: I64) -> Sections:
        """The section of every span; `starts` is each span's first byte in the column, ascending."""
        if not len(starts):
            return Sections(np.empty(0, np.int32), [BODY])
        mail, low, high = self._found
        if not len(mail):
            return Sections(np.full(len(starts), -1, np.int32), [BODY])
        place = np.minimum(np.searchsorted(mail, text_no), len(mail) - 1)
        in_mail = mail[place] == text_no
        index = np.where(in_mail, np.int32(0), np.int32(-1))
        inside = np.flatnonzero(in_mail & (starts < high[place]))
        if not len(inside):
            return Sections(index, [BODY])
        blocks, feeds, colons = self._blocks
        data, block = blocks.data, place[inside]
        top = blocks.offsets[block]
        # the line of each span, and from there up while the line is folded
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
        stops = colons[np.searchsorted(colons, lines)]
        # a line ends with its line feed, or with its block: the last line of a text may have none
        ending = np.minimum(np.append(feeds, len(data))[np.searchsorted(feeds, lines)], blocks.offsets[block[new] + 1])
        stops = np.where((stops < ending) & (stops - lines <= 76), stops, lines)
        written = cut(blocks, lines, stops).dictionary_encode()
        fields = pl.Series(written.dictionary).str.to_lowercase()
        # a name with an @ is an address that was taken for one, and a section's name stands in reports
        fields = pl.select(pl.when(fields.str.contains(r"\A[!-9;-?A-~]+\z")).then(fields).otherwise(pl.lit(HEADER))).to_series()
        named = fields.to_arrow().dictionary_encode()
        index[inside] = 1 + np.asarray(named.indices, np.int32)[np.asarray(written.indices)][back]
        return Sections(index, [BODY, *named.dictionary.to_pylist()])


def sections(buffers: Buffers, text_no: I64, starts: I64) -> Sections:
    """The section of every span of a column of texts; `starts` is each span's first byte in the column, ascending."""
    return Headers(buffers).sections(text_no, starts)


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
# fields that many mails have; one that few have can tell by its name alone who wrote them, so that no summary or page says others
WELL_KNOWN = LIST_FIELDS | ID_FIELDS | {"received", "subject", "header"}
# fields of the header blocks that mail programs put into a body, and those of them that list addresses
_SPOKEN = {
    "from": ("from", "von", "de", "da", "van"),
    "to": ("to", "an", "à", "para", "a", "aan"),
    "cc": ("cc",),
    "bcc": ("bcc",),
    "sent": ("sent", "gesendet", "envoyé", "enviado", "enviado el", "inviato", "verzonden"),
    "date": ("date", "datum", "fecha", "data"),
    "subject": ("subject", "betreff", "objet", "asunto", "oggetto", "assunto", "onderwerp"),
    "reply-to": ("reply-to", "antwort an", "répondre à", "responder a"),
    "sender": ("sender",),
}
_ENGLISH = {word: field for field, words in _SPOKEN.items() for word in words}
_QUOTED = "|".join(_ENGLISH)
_QUOTED_LISTS = frozenset({"from", "to", "cc", "bcc", "reply-to", "sender"})
_QUOTED_FIELD = rf"\A(?: ?>)*[ \t]*\*?((?i:{_QUOTED}))\*?[ \t\u00a0\u202f]*:"
_QUOTED_FOLD = r"\A(?: ?>)*[ \t]+[^ \t\r\n>]"
_MARKS = r"\A((?: ?>)*)"


def _among(letters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[list(letters)] = True
    return table


_FOLD = _among(b" \t")
_SOFT = _among(b" \t>")  # with these bytes begin lines of a body that may go on with the one above
_MAYBE = _among(b" \t>*" + bytes({letter.encode()[0] for word in _ENGLISH for letter in (word[0], word[0].upper())}))


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

    @classmethod
    def empty(cls, count: int) -> HeaderLines:
        """No span stands in a header line."""
        none = np.full(count, -1, np.int64)
        return cls(none, none.copy(), np.zeros(count, np.int32), [HEADER], none.copy(), np.zeros(count, np.bool_))

    def put(
        self, rows: I64, start: I64, stop: I64, colon: I64, lists: npt.NDArray[np.bool_], names: pl.Series, code: I64, which: I64
    ) -> None:
        """Write down the lines of some spans: span `rows[i]` stands in line `which[i]`, whose name is `names[code]`."""
        number = {name: place for place, name in enumerate(self.names)}
        for name in names:
            number.setdefault(name, len(number))
        self.names[:] = number
        known = np.array([number[name] for name in names], np.int32)[code]
        for column, values in ((self.start, start), (self.stop, stop), (self.colon, colon), (self.lists, lists), (self.field, known)):
            column[rows] = values[which]


def header_lines(buffers: Buffers, text_no: I64, starts: I64) -> HeaderLines:
    """The header line of every span of a column of texts, in the block of a mail or in one that stands forwarded or quoted in a body;
    `starts` is each span's first byte in the column, ascending."""
    mail, low, high = blocks_of(buffers)
    top_end = buffers.offsets[:-1].copy()
    top_end[mail] = high
    top = starts < top_end[text_no]
    found = HeaderLines.empty(len(starts))
    begin = _lines_of(buffers, text_no, starts, top)
    rows = np.flatnonzero(top)
    if len(rows):
        _of_blocks(found, rows, buffers, starts[rows], begin[rows], buffers.offsets[text_no[rows] + 1], top_end[text_no[rows]])
    # most lines of a body cannot belong to a field, by their first bytes
    rows = np.flatnonzero(~top)
    begin = begin[rows]
    soft, opens = _may_belong(buffers.data, begin)
    rows = rows[soft | opens]
    if len(rows):
        # the bodies of these alone
        new = np.append(True, np.diff(text_no[rows]) != 0)
        texts, place = text_no[rows[new]], np.cumsum(new) - 1
        some = Buffers.of(cut(buffers, top_end[texts], buffers.offsets[texts + 1]))
        shift = top_end[texts] - some.offsets[:-1]
        _of_quoted(found, rows, some, starts[rows] - shift[place], place, shift)
    return found


def _lines_of(buffers: Buffers, text_no: I64, starts: I64, folds: npt.NDArray[np.bool_]) -> I64:
    """The first byte of the line that each span stands in; where it `folds`, of the first of all lines that are one field with it."""
    text = buffers.offsets[text_no]
    floor = np.maximum(text, np.append(0, starts[:-1])) if len(starts) else text  # what lies above belongs to the span before, too
    feed = last_before(buffers, 10, starts, floor)
    rows = np.flatnonzero(folds & (feed >= 0))
    while len(rows):
        rows = rows[_FOLD[buffers.data[feed[rows] + 1]]]
        feed[rows] = last_before(buffers, 10, feed[rows], floor[rows])
        rows = rows[feed[rows] >= 0]
    return np.maximum.accumulate(np.maximum(feed + 1, text))


def _of_blocks(found: HeaderLines, rows: I64, buffers: Buffers, starts: I64, begin: I64, text_end: I64, high: I64) -> None:
    """The header lines of spans in the blocks that texts begin with: `rows` of `found` begin at `starts`, in lines that begin at `begin`,
    in blocks up to `high`."""
    new = np.append(True, np.diff(begin) != 0)
    which, line, last = np.cumsum(new) - 1, begin[new], starts[np.append(new[1:], True)]
    text_end, high = text_end[new], high[new]
    # a line goes on where the next one begins with white space; the last one of a block has its line feed behind the block
    feed = first_after(buffers, 10, last, high)
    folds = np.flatnonzero(feed + 1 < high)
    while len(folds):
        folds = folds[_FOLD[buffers.data[feed[folds] + 1]]]
        feed[folds] = first_after(buffers, 10, feed[folds] + 1, high[folds])
        folds = folds[feed[folds] + 1 < high[folds]]
    stop = np.minimum(feed + 1, text_end)
    # the name up to the first colon of the line; `header` where that is no field
    colon = first_after(buffers, 58, line, stop)
    encoded = cut(buffers, line, np.where(colon < stop, colon, line)).dictionary_encode()
    names = pl.Series(encoded.dictionary).str.extract(r"\A([!-9;-?A-~]+)[ \t]*\z").str.to_lowercase()
    is_field = names.is_not_null().to_numpy()
    code = np.asarray(encoded.indices, np.int64)
    lists = np.array([name in LIST_FIELDS for name in names])
    found.put(rows, line, stop, np.where(is_field[code], colon, -1), lists[code], names.fill_null(HEADER), code, which)


def _may_belong(data: npt.NDArray[np.uint8], begin: I64) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """By the first bytes of each line: whether it may be marked or folded, and whether else it may be a field."""
    first = data[begin]
    soft, opens = _SOFT[first], _MAYBE[first]
    rows = np.flatnonzero(opens & ~soft)
    opens[rows] = (data[np.minimum(begin[rows, None] + np.arange(1, 18), len(data) - 1)] == 58).any(axis=1)
    return soft, opens


def _of_quoted(found: HeaderLines, rows: I64, buffers: Buffers, starts: I64, text_no: I64, shift: I64) -> None:
    """The same for blocks that stand forwarded or quoted in a body; a span outside any stays as it was. `buffers` are bodies, and `shift`
    is how far each stands from its place in the column."""
    data = buffers.data
    begins = np.zeros(len(data) + 1, np.bool_)
    begins[1:] = data == 10
    begins[buffers.offsets] = True
    begins[-1] = False
    line = np.flatnonzero(begins)  # the first byte of every line
    own = np.searchsorted(line, starts, side="right") - 1
    ends = np.append(line[1:], len(data))
    soft = _SOFT[data[line]]
    edges = np.searchsorted(line, buffers.offsets)
    soft[edges[:-1]] = False
    # around every line that holds a span: up to a line that can begin a field, down to the end of what may be folded, and one neighbour
    held, where = np.unique(own, return_inverse=True)
    hard = np.flatnonzero(~soft)
    at = np.searchsorted(hard, held, side="right")
    text_of_held = text_no[np.searchsorted(own, held)]
    first_line, last_line = edges[text_of_held], edges[text_of_held + 1] - 1
    low = np.maximum(hard[at - 1] - 1, first_line)
    high = np.minimum(np.append(hard, len(line))[at], last_line)
    # the lines of all these ranges, which ascend, each once
    low = np.maximum(low, np.append(0, np.maximum.accumulate(high)[:-1] + 1))
    many = np.maximum(high - low + 1, 0)
    near = within(low, low + many)
    text_of = np.repeat(text_of_held, many)
    marked, opens = _may_belong(data, line[near])
    some = np.flatnonzero(marked | opens)
    colon = ends[near]
    colon[some] = first_after(buffers, 58, line[near[some]], colon[some])
    some = some[colon[some] < ends[near[some]]]
    # what stands before a colon is one of few
    before = cut(buffers, line[near[some]], colon[some] + 1).dictionary_encode()
    names = pl.Series(before.dictionary).str.extract(_QUOTED_FIELD).str.to_lowercase()
    names = pl.Series([_ENGLISH.get(name) for name in names.to_list()], dtype=pl.String)
    code = np.full(len(near), -1)
    code[some] = np.asarray(before.indices)
    is_field = np.append(names.is_not_null().to_numpy(), False)[code]
    # marks are rare; a line without any is of depth -1
    first = data[line[near]]
    quoted = np.flatnonzero((first == 62) | (first == 32) & (data[np.minimum(line[near] + 1, len(data) - 1)] == 62))
    marks = np.full(len(near), -1)
    depth = pl.Series(cut(buffers, line[near[quoted]], ends[near[quoted]])).str.extract(_MARKS)
    marks[quoted] = np.asarray(arrow(depth).dictionary_encode().indices)
    joins = np.append(False, (np.diff(near) == 1) & (np.diff(text_of) == 0) & (np.diff(marks) == 0))  # with the line above, of one depth
    goes_on = np.zeros(len(near), np.bool_)
    folds = np.flatnonzero(marked & ~is_field & joins)
    goes_on[folds] = pl.Series(cut(buffers, line[near[folds]], ends[near[folds]])).str.contains(_QUOTED_FOLD).to_numpy()
    head = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(near))))
    heads = np.flatnonzero(~goes_on)
    last = np.append(heads[1:], len(near)) - 1  # the last line of what begins at each of `heads`
    # a field counts where the line above it or the one below is a field too
    above = np.append(False, is_field[:-1]) & joins
    below = np.append(is_field[1:], False) & np.append(joins[1:], False)
    place = np.searchsorted(near, held)
    mine = head[place]
    ending = last[np.searchsorted(heads, mine)]
    counts = is_field[mine] & (above[mine] | below[ending])
    chosen = np.flatnonzero(counts)
    if not len(chosen):
        return
    mine, ending = mine[chosen], ending[chosen]
    lists = np.array([name in _QUOTED_LISTS for name in names])
    back = np.full(len(held), -1)
    back[chosen] = np.arange(len(chosen))
    inside = back[where] >= 0
    moved = shift[text_of_held[chosen]]
    start, stop = line[near[mine]] + moved, ends[near[ending]] + moved
    code = code[mine]
    found.put(rows[inside], start, stop, colon[mine] + moved, lists[code], names.fill_null(HEADER), code, back[where[inside]])


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
_SEPARATOR = _among(b",;")
_MARKED = _among(b',;"(<>\n')
_WHITE = _among(b" \t\r\n")
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
