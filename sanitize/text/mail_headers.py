"""Finds mail header blocks in a column of texts: fields, folded lines, address lists, and where the
body begins.

A text begins with a header block when its first line is a well-known field, or its first two fields
look like fields. The block ends at the first empty line. A folded line (one that begins with a
space or a tab) belongs to the field above it.

`find_header_lines` also recognises the header blocks of forwarded and quoted mails in a body: at
least two neighbouring lines with fields that such a block has (From, To, Cc, Bcc, Sent, Date,
Subject, Reply-To, Sender, in English, German, French, Spanish, Italian, Portuguese or Dutch; they
may be indented, starred or quoted with `>`), with their folded lines. A field is reported by its
English name. Address lists are parsed in `sanitize/text/address_lists.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I32, I64, U8, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    find_first_byte_after,
    make_byte_table,
    slice_spans,
    to_large_string,
)
from sanitize.core.intervals import TextSpans, expand_ranges
from sanitize.kernels import mail_headers as kernel

BODY_SECTION = "body"
_MAX_NAME_BYTES = 76  # of a header field that is reported by its name
UNKNOWN_FIELD = "header"  # field name of a header line that is not a valid field
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
_FIELD_NAME = r"[A-Za-z][A-Za-z0-9-]*:"
# a line that begins with a URL is no field
_HEADER_BLOCK_START = (
    r"\A(?:From [^\n]*\n)?(?:"
    r"(?:[Ff]rom|FROM|[Tt]o|TO|[Dd]ate|DATE|[Ss]ubject|SUBJECT|[Mm]essage-[Ii][Dd]|[Rr]eceived|[Rr]eturn-[Pp]ath):"
    rf"|{_FIELD_NAME}/?(?:[^/\n][^\n]*)?\n(?:[ \t][^\n]*\n)*{_FIELD_NAME}/?(?:[^/]|\z))"
)


@dataclass(frozen=True)
class Sections:
    """The section of every span: an index into `section_names`, -1 outside mail. `section_names[0]`
    is `body`."""

    section_no: I32
    section_names: list[str]

    @property
    def is_id_field(self) -> Mask:
        """True where a span is in a field that holds message ids."""
        return self._is_in(ID_FIELDS)

    @property
    def is_address_field(self) -> Mask:
        """True where a span is in a field that holds addresses."""
        return self._is_in(ADDRESS_FIELDS)

    def _is_in(self, fields: frozenset[str]) -> Mask:
        # the last entry serves index -1
        known = np.array([*(name in fields for name in self.section_names), False])
        return known[self.section_no]


@dataclass(frozen=True, repr=False)
class HeaderBlocks:
    """The header blocks of a column of texts; searched once, on the first call of
    `find_sections`."""

    buffers: TextBuffers

    @cached_property
    def _block_bounds(self) -> TextSpans:
        return find_header_blocks(self.buffers)

    def find_sections(self, text_no: I64, starts: I64) -> Sections:
        """Returns the section of every span; `starts` is each span's first byte in the column,
        ascending."""
        if not len(starts):
            return Sections(np.empty(0, np.int32), [BODY_SECTION])
        mail, low, high = self._block_bounds
        if not len(mail):
            return Sections(np.full(len(starts), -1, np.int32), [BODY_SECTION])
        block_no = np.minimum(np.searchsorted(mail, text_no), len(mail) - 1)
        in_mail = mail[block_no] == text_no
        index = np.where(in_mail, np.int32(0), np.int32(-1))
        inside = np.flatnonzero(in_mail & (starts < high[block_no]))
        if not len(inside):
            return Sections(index, [BODY_SECTION])
        # the line of each span, or the line above it that it is folded from; the name is before the
        # colon of that line
        begin = _find_field_starts(
            self.buffers, low[block_no[inside]], starts[inside], np.ones(len(inside), np.bool_)
        )
        is_first_of_line = np.append(True, np.diff(begin) != 0)
        lines, line_of_span = begin[is_first_of_line], np.cumsum(is_first_of_line) - 1
        stops = np.empty(len(lines), np.int64)
        kernel.find_name_ends(
            self.buffers.data,
            lines,
            high[block_no[inside]][is_first_of_line],
            _MAX_NAME_BYTES,
            stops,
        )
        written = slice_spans(self.buffers, lines, stops).dictionary_encode()
        fields = pl.Series(written.dictionary).str.to_lowercase()
        # a field name with an @ is really an address, and names of sections are printed in reports
        fields = pl.select(
            pl.when(fields.str.contains(r"\A[!-9;-?A-~]+\z"))
            .then(fields)
            .otherwise(pl.lit(UNKNOWN_FIELD))
        ).to_series()
        named = fields.to_arrow().dictionary_encode()
        index[inside] = (
            1 + np.asarray(named.indices, np.int32)[np.asarray(written.indices)][line_of_span]
        )
        return Sections(index, [BODY_SECTION, *named.dictionary.to_pylist()])


def find_sections(buffers: TextBuffers, text_no: I64, starts: I64) -> Sections:
    """Returns the section of every span of a column of texts; `starts` is each span's first byte in
    the column, ascending."""
    return HeaderBlocks(buffers).find_sections(text_no, starts)


def find_header_blocks(buffers: TextBuffers) -> TextSpans:
    """Returns the numbers of the texts that begin with a header block, and start and end byte of
    each block.

    A block ends at the first pair of line feeds (with or without a carriage return between them),
    or with its text."""
    mail = np.flatnonzero(
        pl.Series(buffers.to_array()).str.contains(_HEADER_BLOCK_START).to_numpy()
    )
    low, high = buffers.offsets[mail], np.empty(len(mail), np.int64)
    kernel.find_block_ends(buffers.data, low, buffers.offsets[mail + 1], high)
    return TextSpans(mail, low, high)


def extract_bodies(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Returns every text without its header block and the empty line after it; a text without a
    header block stays whole."""
    buffers = TextBuffers.from_array(texts)
    mail, _, high = find_header_blocks(buffers)
    starts, ends = buffers.offsets[:-1].copy(), buffers.offsets[1:]
    padded = np.append(buffers.data, np.zeros(2, np.uint8))
    starts[mail] = np.minimum(high + 2 + (padded[high + 1] == 13), ends[mail])
    return slice_spans(buffers, starts, ends)


# ----------------------------------------------------------------- header lines and their lists

ADDRESS_LIST_FIELDS = ADDRESS_FIELDS | {
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
# fields that many mails have; the name of a rare field can identify who wrote the mail, so
# summaries and pages print no other names
WELL_KNOWN_FIELDS = ADDRESS_LIST_FIELDS | ID_FIELDS | {"received", "subject", "header"}
# fields of the header blocks that mail programs put into a body, and those of them that list
# addresses
_QUOTED_FIELD_NAMES = {
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
_ENGLISH_FIELD_NAMES = {
    word: field for field, words in _QUOTED_FIELD_NAMES.items() for word in words
}
_QUOTED_NAMES_PATTERN = "|".join(_ENGLISH_FIELD_NAMES)
_QUOTED_LIST_FIELDS = frozenset({"from", "to", "cc", "bcc", "reply-to", "sender"})
_QUOTED_FIELD_PATTERN = rf"\A(?: ?>)*[ \t]*\*?((?i:{_QUOTED_NAMES_PATTERN}))\*?[ \t\u00a0\u202f]*:"
_QUOTED_FOLD_PATTERN = r"\A(?: ?>)*[ \t]+[^ \t\r\n>]"
_QUOTE_MARKS_PATTERN = r"\A((?: ?>)*)"


_FOLD_BYTES = make_byte_table(b" \t")
# first bytes of lines of a body that may continue the line above
_CONTINUATION_BYTES = make_byte_table(b" \t>")
_FIELD_START_BYTES = make_byte_table(
    b" \t>*"
    + bytes(
        {
            letter.encode()[0]
            for word in _ENGLISH_FIELD_NAMES
            for letter in (word[0], word[0].upper())
        }
    )
)


@dataclass(frozen=True, repr=False)
class HeaderLines:
    """The header line of each span, folded lines included, one row per span. `start` is its first
    byte in the column and `end` the byte after its line feed, -1 where the span is not in a header
    line. `field_code` indexes `field_names`. `colon` is the byte of the field's colon, -1 where the
    line is not a field. `is_address_list`: the field is a list of addresses."""

    start: I64
    end: I64
    field_code: I32
    field_names: list[str]
    colon: I64
    is_address_list: Mask

    @classmethod
    def empty(cls, span_count: int) -> HeaderLines:
        """Returns header lines for `span_count` spans, none of which is in a header line yet."""
        none = np.full(span_count, -1, np.int64)
        return cls(
            none,
            none.copy(),
            np.zeros(span_count, np.int32),
            [UNKNOWN_FIELD],
            none.copy(),
            np.zeros(span_count, np.bool_),
        )

    def set_lines(
        self,
        span_rows: I64,
        start: I64,
        end: I64,
        colon: I64,
        is_address_list: Mask,
        field_names: pl.Series,
        field_code: I64,
        line_rows: I64,
    ) -> None:
        """Stores the lines of some spans: span `span_rows[i]` is in line `line_rows[i]`. Line j has
        the name `field_names[field_code[j]]`, `start[j]`, `end[j]`, `colon[j]` and
        `is_address_list[j]`."""
        number = {name: place for place, name in enumerate(self.field_names)}
        for name in field_names:
            number.setdefault(name, len(number))
        self.field_names[:] = number
        known = np.array([number[name] for name in field_names], np.int32)[field_code]
        for column, values in (
            (self.start, start),
            (self.end, end),
            (self.colon, colon),
            (self.is_address_list, is_address_list),
            (self.field_code, known),
        ):
            column[span_rows] = values[line_rows]


def find_header_lines(buffers: TextBuffers, text_no: I64, starts: I64) -> HeaderLines:
    """Returns the header line of every span of a column of texts, in the header block of a mail or
    in a forwarded or quoted block of a body; `starts` is each span's first byte in the column,
    ascending."""
    mail, low, high = find_header_blocks(buffers)
    top_end = buffers.offsets[:-1].copy()
    top_end[mail] = high
    in_top_block = starts < top_end[text_no]
    found = HeaderLines.empty(len(starts))
    begin = _find_field_starts(buffers, buffers.offsets[text_no], starts, in_top_block)
    rows = np.flatnonzero(in_top_block)
    if len(rows):
        _set_block_lines(
            found,
            rows,
            buffers,
            starts[rows],
            begin[rows],
            buffers.offsets[text_no[rows] + 1],
            top_end[text_no[rows]],
        )
    # the first bytes show that most lines of a body cannot belong to a field
    rows = np.flatnonzero(~in_top_block)
    begin = begin[rows]
    may_continue, may_start_field = _classify_line_starts(buffers.data, begin)
    rows = rows[may_continue | may_start_field]
    if len(rows):
        # only the bodies of these spans
        is_first_of_text = np.append(True, np.diff(text_no[rows]) != 0)
        texts, body_no = text_no[rows[is_first_of_text]], np.cumsum(is_first_of_text) - 1
        bodies = TextBuffers.from_array(
            slice_spans(buffers, top_end[texts], buffers.offsets[texts + 1])
        )
        body_to_column = top_end[texts] - bodies.offsets[:-1]  # what to add to an offset in a body
        _set_quoted_lines(
            found, rows, bodies, starts[rows] - body_to_column[body_no], body_no, body_to_column
        )
    return found


def _find_field_starts(
    buffers: TextBuffers, text_starts: I64, positions: I64, is_foldable: Mask
) -> I64:
    """Returns the first byte of the line of each position (ascending) of texts that begin at
    `text_starts`; where it `is_foldable`, of the first line of the field that the line belongs
    to."""
    field_starts = np.empty(len(positions), np.int64)
    kernel.find_field_starts(
        buffers.data, text_starts, positions, is_foldable.view(np.uint8), field_starts
    )
    return field_starts


def _set_block_lines(
    lines: HeaderLines,
    span_rows: I64,
    buffers: TextBuffers,
    starts: I64,
    line_starts: I64,
    text_ends: I64,
    block_ends: I64,
) -> None:
    """Stores into `lines` the header lines of spans in the blocks at the start of texts: rows
    `span_rows` begin at `starts`, in lines that begin at `line_starts`, in texts that end at
    `text_ends` and blocks that end at `block_ends`."""
    is_first_of_line = np.append(True, np.diff(line_starts) != 0)
    line_of_span, line, last = (
        np.cumsum(is_first_of_line) - 1,
        line_starts[is_first_of_line],
        starts[np.append(is_first_of_line[1:], True)],
    )
    text_ends, block_ends = text_ends[is_first_of_line], block_ends[is_first_of_line]
    # a line continues where the next one begins with white space; the line feed of a block's last
    # line is after the end of the block
    feed = find_first_byte_after(buffers, 10, last, block_ends)
    folds = np.flatnonzero(feed + 1 < block_ends)
    while len(folds):
        folds = folds[_FOLD_BYTES[buffers.data[feed[folds] + 1]]]
        feed[folds] = find_first_byte_after(buffers, 10, feed[folds] + 1, block_ends[folds])
        folds = folds[feed[folds] + 1 < block_ends[folds]]
    stop = np.minimum(feed + 1, text_ends)
    # the name up to the first colon of the line; `header` where that is not a field name
    colon = find_first_byte_after(buffers, 58, line, stop)
    encoded = slice_spans(buffers, line, np.where(colon < stop, colon, line)).dictionary_encode()
    names = (
        pl.Series(encoded.dictionary).str.extract(r"\A([!-9;-?A-~]+)[ \t]*\z").str.to_lowercase()
    )
    is_field = names.is_not_null().to_numpy()
    code = np.asarray(encoded.indices, np.int64)
    lists = np.array([name in ADDRESS_LIST_FIELDS for name in names])
    lines.set_lines(
        span_rows,
        line,
        stop,
        np.where(is_field[code], colon, -1),
        lists[code],
        names.fill_null(UNKNOWN_FIELD),
        code,
        line_of_span,
    )


def _classify_line_starts(data: U8, line_starts: I64) -> tuple[Mask, Mask]:
    """Classifies lines by their first bytes: may be quoted or folded (a continuation), and, for the
    others, may be a field."""
    first = data[line_starts]
    may_continue, may_start_field = _CONTINUATION_BYTES[first], _FIELD_START_BYTES[first]
    rows = np.flatnonzero(may_start_field & ~may_continue)
    may_start_field[rows] = (
        data[np.minimum(line_starts[rows, None] + np.arange(1, 18), len(data) - 1)] == 58
    ).any(axis=1)
    return may_continue, may_start_field


def _set_quoted_lines(
    lines: HeaderLines,
    span_rows: I64,
    buffers: TextBuffers,
    starts: I64,
    text_no: I64,
    column_shift: I64,
) -> None:
    """Stores into `lines` the header lines of spans in forwarded or quoted blocks of a body; rows
    of other spans stay as they were.

    `buffers` are bodies, `text_no` and `starts` refer to them; `column_shift` is what to add to get
    from a body to the column."""
    line_start, first_line_of_text = _find_lines(buffers)
    line_with_span, with_span_row = np.unique(
        np.searchsorted(line_start, starts, side="right") - 1, return_inverse=True
    )
    text_of_line = text_no[np.searchsorted(with_span_row, np.arange(len(line_with_span)))]
    # from here on rows are nearby lines, which ascend; `first_row` is the row of the line at which
    # a field begins
    nearby, text_of_nearby = _find_nearby_lines(
        buffers, line_start, first_line_of_text, line_with_span, text_of_line
    )
    start, end = line_start[nearby], np.append(line_start[1:], len(buffers.data))[nearby]
    colon, name_no, names = _find_quoted_fields(buffers, start, end)
    is_field = np.append(names.is_not_null().to_numpy(), False)[name_no]
    quote_depth = _find_quote_depths(buffers, start, end)
    # with the line above
    is_joined = np.append(
        False, (np.diff(nearby) == 1) & (np.diff(text_of_nearby) == 0) & (np.diff(quote_depth) == 0)
    )
    is_folded = np.zeros(len(nearby), np.bool_)
    folds = np.flatnonzero(_classify_line_starts(buffers.data, start)[0] & ~is_field & is_joined)
    is_folded[folds] = (
        pl.Series(slice_spans(buffers, start[folds], end[folds]))
        .str.contains(_QUOTED_FOLD_PATTERN)
        .to_numpy()
    )
    field_start_of_row = np.maximum.accumulate(np.where(is_folded, 0, np.arange(len(nearby))))
    field_starts = np.flatnonzero(~is_folded)
    last_row_of_field = np.append(field_starts[1:], len(nearby)) - 1
    # a field counts where the line above it or the one below is a field too
    is_below_field = np.append(False, is_field[:-1]) & is_joined
    is_above_field = np.append(is_field[1:], False) & np.append(is_joined[1:], False)
    first_row = field_start_of_row[np.searchsorted(nearby, line_with_span)]
    last_row = last_row_of_field[np.searchsorted(field_starts, first_row)]
    adjoining = np.flatnonzero(
        is_field[first_row] & (is_below_field[first_row] | is_above_field[last_row])
    )
    if not len(adjoining):
        return
    adjoining_row = np.full(len(line_with_span), -1)
    adjoining_row[adjoining] = np.arange(len(adjoining))
    row_of_span = adjoining_row[with_span_row]
    is_set = row_of_span >= 0
    first_row, last_row, to_column = (
        first_row[adjoining],
        last_row[adjoining],
        column_shift[text_of_line[adjoining]],
    )
    lines.set_lines(
        span_rows[is_set],
        start[first_row] + to_column,
        end[last_row] + to_column,
        colon[first_row] + to_column,
        np.array([name in _QUOTED_LIST_FIELDS for name in names])[name_no[first_row]],
        names.fill_null(UNKNOWN_FIELD),
        name_no[first_row],
        row_of_span[is_set],
    )


def _find_lines(buffers: TextBuffers) -> tuple[I64, I64]:
    """The first byte of every line of the texts, and the first line of every text, followed by the
    number of lines."""
    is_line_start = np.zeros(len(buffers.data) + 1, np.bool_)
    is_line_start[1:] = buffers.data == 10
    is_line_start[buffers.offsets] = True
    is_line_start[-1] = False
    line_start = np.flatnonzero(is_line_start)
    return line_start, np.searchsorted(line_start, buffers.offsets)


def _find_nearby_lines(
    buffers: TextBuffers,
    line_start: I64,
    first_line_of_text: I64,
    line_with_span: I64,
    text_of_line: I64,
) -> tuple[I64, I64]:
    """The lines around every line with a span, each once, ascending, and the text of each: up to a
    line that can begin a field, down to the end of the lines that may be folded, and one neighbour
    on both sides, within the text."""
    may_continue = _CONTINUATION_BYTES[buffers.data[line_start]]
    may_continue[first_line_of_text[:-1]] = False
    field_starts = np.flatnonzero(~may_continue)
    next_field = np.searchsorted(field_starts, line_with_span, side="right")
    low = np.maximum(field_starts[next_field - 1] - 1, first_line_of_text[text_of_line])
    high = np.minimum(
        np.append(field_starts, len(line_start))[next_field],
        first_line_of_text[text_of_line + 1] - 1,
    )
    # ranges ascend and may overlap: each begins behind the end of those before it
    low = np.maximum(low, np.append(0, np.maximum.accumulate(high)[:-1] + 1))
    line_counts = np.maximum(high - low + 1, 0)
    return expand_ranges(low, low + line_counts), np.repeat(text_of_line, line_counts)


class _QuotedFields(NamedTuple):
    """The first colon of each line (its end where there is none), the number of its name (-1 where
    it has no colon), and the names: the English name of a field, null for anything else before a
    colon."""

    colon: I64
    name_no: I64
    names: pl.Series


def _find_quoted_fields(buffers: TextBuffers, start: I64, end: I64) -> _QuotedFields:
    """What is before the colons of lines."""
    candidates = np.flatnonzero(np.logical_or(*_classify_line_starts(buffers.data, start)))
    colon = end.copy()
    colon[candidates] = find_first_byte_after(buffers, 58, start[candidates], end[candidates])
    candidates = candidates[colon[candidates] < end[candidates]]
    # the texts before a colon are few distinct ones
    before = slice_spans(buffers, start[candidates], colon[candidates] + 1).dictionary_encode()
    words = pl.Series(before.dictionary).str.extract(_QUOTED_FIELD_PATTERN).str.to_lowercase()
    name_no = np.full(len(start), -1)
    name_no[candidates] = np.asarray(before.indices)
    names = [_ENGLISH_FIELD_NAMES.get(word) for word in words.to_list()]
    return _QuotedFields(colon, name_no, pl.Series(names, dtype=pl.String))


def _find_quote_depths(buffers: TextBuffers, start: I64, end: I64) -> I64:
    """A number for the quote marks at the start of each line, equal for equal marks; -1 without
    any, as in most lines."""
    second = buffers.data[np.minimum(start + 1, len(buffers.data) - 1)]
    quoted = np.flatnonzero(
        (buffers.data[start] == 62) | (buffers.data[start] == 32) & (second == 62)
    )
    marks = pl.Series(slice_spans(buffers, start[quoted], end[quoted])).str.extract(
        _QUOTE_MARKS_PATTERN
    )
    depth = np.full(len(start), -1)
    depth[quoted] = np.asarray(to_large_string(marks).dictionary_encode().indices)
    return depth
