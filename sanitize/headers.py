"""What a mail header block is, seen from the buffers of a whole column: fields, folding, and where the body begins.

A text begins with a header block when its first line is a well-known field, or its first two fields look like fields. The block ends
at the first empty line. A folded line (one that begins with a space or a tab) belongs to the field above it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

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
        known = np.array([*(name in ID_FIELDS for name in self.names), False])  # the last entry serves index -1
        return known[self.index]


def sections(texts: pl.Series, data: npt.NDArray[np.uint8], offsets: I64, text_no: I64, starts: I64) -> Sections:
    """The section of every span of a column of texts.

    `data` and `offsets` are the column's Arrow buffers, `text_no` is the text of each span and `starts` its first byte in `data`.
    """
    if not len(starts):
        return Sections(np.empty(0, np.int32), [BODY])
    mail = texts.str.contains(_BLOCK).fill_null(False).to_numpy()
    if not mail.any():
        return Sections(np.full(len(starts), -1, np.int32), [BODY])
    # the header block of a mail ends where two line feeds meet for the first time
    feeds = np.flatnonzero(data == 10)
    meet = feeds[:-1][np.diff(feeds) == 1]
    which = np.searchsorted(meet, offsets[:-1])
    ends = offsets[1:].copy()
    there = which < len(meet)
    ends[there] = np.minimum(ends[there], meet[which[there]])
    in_mail = mail[text_no]
    index = np.where(in_mail, np.int32(0), np.int32(-1))
    inside = np.flatnonzero(in_mail & (starts < ends[text_no]))
    if not len(inside):
        return Sections(index, [BODY])
    # the line of each span, and from there up while the line is folded
    line = np.searchsorted(feeds, starts[inside])
    top = offsets[text_no[inside]]
    after = np.concatenate([[0], feeds + 1])  # after[n] is where line n begins
    begin = np.maximum(after[line], top)
    while True:
        folded = ((data[begin] == 32) | (data[begin] == 9)) & (begin > top)
        if not folded.any():
            break
        line = line - folded
        begin = np.maximum(after[line], top)
    # the field's name, from the line's first byte to its colon; a line that is no field has the name `header`
    lines, back = np.unique(begin, return_inverse=True)
    colons = np.flatnonzero(data == 58)
    at = np.searchsorted(colons, lines)
    stops = np.where(at < len(colons), colons[np.minimum(at, len(colons) - 1)] if len(colons) else lines, lines)
    ending = np.concatenate([feeds, [len(data)]])[np.searchsorted(feeds, lines)]
    stops = np.where((stops < ending) & (stops - lines <= 76), stops, lines)
    cuts = np.column_stack([lines, stops]).ravel()
    pieces = pa.LargeStringArray.from_buffers(len(cuts) - 1, pa.py_buffer(cuts.astype(np.int64)), pa.py_buffer(data))
    fields = pl.Series(pieces.take(pa.array(np.arange(0, len(cuts), 2)))).str.to_lowercase()
    fields = pl.select(pl.when(fields.str.contains(r"\A[!-9;-~]+\z")).then(fields).otherwise(pl.lit("header"))).to_series()
    named = fields.to_arrow().dictionary_encode()
    index[inside] = 1 + np.asarray(named.indices, np.int32)[back]
    return Sections(index, [BODY, *named.dictionary.to_pylist()])
