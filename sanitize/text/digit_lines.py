"""Where in a column of texts a number can stand: the lines that are worth a look, without what has been found in them already.

Most lines of most texts hold no digit, and looking for one costs a tenth of what the automata of the numbers cost. Nothing is lost: a
piece is a whole line but for values that were found, and what is asked here of a line is less than any kind asks (`Kind.numeric`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.arrow_buffers import BLOCK, GONE, I64, Buffers, cut, within

U8 = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

_WORD = 8  # bytes that are kept or left together
_NEAR = 5  # bytes from one separator to the next in a number without a digit
_TOGETHER = 16  # pieces in a text
_GAP = 7  # words without a mark that are passed over


@dataclass(frozen=True, repr=False)
class Pieces:
    """Pieces of a column of texts, ascending, none across two texts. `buffers` has them one after the other with a control byte, which no
    pattern matches, behind each: a text for every few, since what an automaton costs begins with each text."""

    buffers: Buffers
    places: I64  # where each piece begins in `buffers`
    starts: I64  # and in the column's bytes

    @classmethod
    def of(cls, buffers: Buffers, starts: I64, stops: I64) -> Pieces:
        """The pieces [start, stop) of a column."""
        texts = cut(buffers, starts, stops)
        places = np.concatenate([[0], np.cumsum(stops - starts + 1)])
        rows = np.append(np.arange(0, len(texts), _TOGETHER), len(texts))
        ends = np.arange(len(rows) - 1)  # binary_join writes no byte behind the last of a text
        data = pc.binary_join(pa.ListArray.from_arrays(pa.array(rows, pa.int32()), texts.cast(pa.string())), chr(GONE))
        return cls(Buffers.of(data.cast(pa.large_string())), places[:-1] - np.repeat(ends, np.diff(rows)), starts)

    def back(self, places: I64) -> I64:
        """The places in the column of ascending places in the pieces."""
        piece = np.searchsorted(self.places, places, side="right") - 1
        return self.starts[piece] + places - self.places[piece]


def numeric(buffers: Buffers, low: I64, high: I64) -> Pieces:
    """The lines that hold a digit, two `:` at most five bytes apart, two `.` five bytes apart or two `-` three bytes apart, without the
    spans [low, high), which ascend and do not overlap. A line may be there that holds none of these."""
    words, feeds = _marked(buffers.data)
    # what lies inside a span marks no line
    first, last = -(-low // _WORD), high // _WORD
    inside = last > first
    words[within(first[inside], last[inside])] = False
    words = _closed(words)
    edges = np.flatnonzero(np.diff(words, prepend=False, append=False))
    # from the last line feed in a word before to the first in a word behind: lines that touch are one piece
    begin, end = _lines(buffers.data, np.flatnonzero(feeds), edges[::2], edges[1::2])
    alone = begin[1:] > end[:-1]
    begin, end = begin[np.append(True, alone)[: len(begin)]], end[np.append(alone, True)[: len(end)]]
    texts = buffers.offsets[np.append(np.diff(buffers.offsets) > 0, True)]
    begin, end = _split(begin, end, texts, texts)
    begin, end = _without(begin, end, low, high)
    return Pieces.of(buffers, begin, end)


def _marked(data: U8) -> tuple[Bools, Bools]:
    """Which words of eight bytes hold what a number holds, and which hold a line feed."""
    count = -(-len(data) // _WORD)
    words, feeds = np.empty(count, np.bool_), np.empty(count, np.bool_)
    hot, line = np.empty(BLOCK, np.bool_), np.empty(BLOCK, np.bool_)
    seen = np.zeros(BLOCK + 2 * _NEAR, np.uint8)  # the block, and what stands behind it
    for at in range(0, len(data), BLOCK):
        ahead = data[at : at + BLOCK + _NEAR]
        seen[: len(ahead)], seen[len(ahead) :] = ahead, 0
        size = min(len(ahead), BLOCK)
        block = seen[:size]
        np.less(block - np.uint8(ord("0")), 10, out=hot[:size])
        for byte, apart in ((ord("."), 5), (ord("-"), 3)):  # `dead.beef.cafe`, `aa-bb-cc`
            here = seen == byte
            hot[:size] |= here[:size] & here[apart : apart + size]
        here = seen == ord(":")  # `::`, `aa:bb`, `dead:beef:`
        two = here[1:-1] | here[2:]
        hot[:size] |= here[:size] & (two[:size] | two[2 : size + 2] | here[_NEAR : size + _NEAR])
        np.equal(block, ord("\n"), out=line[:size])
        filled = -(-size // _WORD) * _WORD
        hot[size:filled] = line[size:filled] = False
        for marks, into in ((hot, words), (line, feeds)):
            into[at // _WORD : (at + filled) // _WORD] = marks[:filled].view(np.uint64) != 0
    return words, feeds


def _closed(words: Bools) -> Bools:
    """The words with gaps of up to seven between two marked ones marked too: fewer pieces, on the same lines."""
    out = np.concatenate([words, np.zeros(_GAP, np.bool_)])
    for step in (1, 2, 4):
        out[step:] |= out[:-step].copy()
    for step in (1, 2, 4):
        out[:-step] &= out[step:].copy()
    return out[: len(words)]


def _lines(data: U8, feeds: I64, first: I64, last: I64) -> tuple[I64, I64]:
    """The bytes from behind the last line feed that stands in a word before `first` to the first one in a word from `last` on."""
    before, behind = np.searchsorted(feeds, first) - 1, np.searchsorted(feeds, last)
    word = np.arange(_WORD)
    start = feeds[before[before >= 0]] * _WORD
    begin, end = np.zeros(len(first), np.int64), np.full(len(last), len(data))
    begin[before >= 0] = start + _WORD - np.argmax(data[start[:, None] + word[::-1]] == ord("\n"), axis=1)
    start = feeds[behind[behind < len(feeds)]] * _WORD
    end[behind < len(feeds)] = start + np.argmax(data[np.minimum(start[:, None] + word, len(data) - 1)] == ord("\n"), axis=1)
    return begin, end


def _split(begin: I64, end: I64, low: I64, high: I64) -> tuple[I64, I64]:
    """Ranges cut where an inner range [low, high) stands wholly inside one; an empty one cuts in two."""
    if not len(begin):
        return begin, end
    holder = np.searchsorted(begin, low, side="right") - 1
    held = (holder >= 0) & (low > begin[holder]) & (high < end[holder])
    return np.sort(np.concatenate([begin, high[held]])), np.sort(np.concatenate([end, low[held]]))


def _without(begin: I64, end: I64, low: I64, high: I64) -> tuple[I64, I64]:
    """Ranges without what spans [low, high) cover of them."""
    if not len(low) or not len(begin):
        return begin, end
    apart = low[1:] > high[:-1]  # spans that touch are one
    low, high = low[np.append(True, apart)], high[np.append(apart, True)]
    over = np.searchsorted(low, begin, side="right") - 1
    begin = np.where(over >= 0, np.maximum(begin, high[over]), begin)
    over = np.searchsorted(low, end, side="left") - 1
    end = np.where((over >= 0) & (high[over] >= end), low[over], end)
    some = begin < end
    begin, end = _split(begin[some], end[some], low, high)
    some = begin < end
    return begin[some], end[some]
