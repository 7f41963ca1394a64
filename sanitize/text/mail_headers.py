"""What a mail header block is, seen from the buffers of a whole column: fields, folding, address lists, and where the body begins.

A text begins with a header block when its first line is a well-known field, or its first two fields look like fields. The block ends
at the first empty line. A folded line (one that begins with a space or a tab) belongs to the field above it.

`header_lines` knows the blocks of forwarded and quoted mails in a body too: at least two neighbouring lines that are fields such a block
has (From, To, Cc, Bcc, Sent, Date, Subject, Reply-To, Sender, in English, German, French, Spanish, Italian, Portuguese or Dutch; indented,
starred or quoted with `>` alike), with their folded lines. A field is called by its English name.
Address lists are taken apart in `sanitize/text/address_lists.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import Buffers, arrow, cut, first_after, last_before, table_of, within

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


_FOLD = table_of(b" \t")
_SOFT = table_of(b" \t>")  # with these bytes begin lines of a body that may go on with the one above
_MAYBE = table_of(b" \t>*" + bytes({letter.encode()[0] for word in _ENGLISH for letter in (word[0], word[0].upper())}))


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
