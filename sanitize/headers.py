"""What a mail header block is, seen from the buffers of a whole column: fields, folding, and where the body begins.

A text begins with a header block when its first line is a well-known field, or its first two fields look like fields. The block ends
at the first empty line. A folded line (one that begins with a space or a tab) belongs to the field above it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.spans import Buffers, cut

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
    texts = pl.Series(buffers.column())
    mail = np.flatnonzero(texts.str.contains(_BLOCK).to_numpy())
    if not len(mail):
        return Sections(np.full(len(starts), -1, np.int32), [BODY])
    # the header blocks alone, each up to where two line feeds meet for the first time (a carriage return between them or not)
    low = buffers.offsets[mail]
    meet = texts.gather(mail).str.find(r"\n\r?\n")
    high = np.where(meet.is_null().to_numpy(), buffers.offsets[mail + 1], low + meet.fill_null(0).to_numpy().astype(np.int64))
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
