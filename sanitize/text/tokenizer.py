"""The words of a column of texts as 64-bit hashes: `words` for what duplicates are known by, `spoken` for what people say.

To `words` a word is a run of ASCII letters and digits and of bytes outside ASCII, without regard to ASCII case, and of scripts that set no
blanks (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character; `characters` takes every code point that is no ASCII white space.
To `spoken` a word is a longest run of letters, marks and numbers (Unicode general categories L, M and N) in lower case, Unicode's full
mapping of the word by itself: `don't` and `e-mail` are two words each, `2nd` and `naïve` one. A letter with its accent has one hash, as one
character or as two.

Hashes follow a seed and are the same on every machine; that any two of ten million words share one has a chance of three in a million.
Costs about 3 ns a byte, 10 ns a run, and for `spoken` some 15 ns a byte of the runs that hold more than ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import Buffers, arrow, cut, matches, ranges, translated, within

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

# a letter or digit as itself in lower case, a byte outside ASCII as itself, all else zero
WORD_BYTES = bytes(byte if byte >= 128 or chr(byte).isalnum() else 0 for byte in range(256)).lower()
_SEEN = bytes(0 if byte in b" \t\n\v\f\r\0" else byte for byte in range(256)).lower()
# true for the first two bytes of a character of a script that sets no blanks: U+0E00-0EFF, 1000-107F, 1780-17FF, 2E80-9FFF, F900-FAFF and
# the planes 2 and 3; a number is the first byte * 256 + the second
_ALONE = np.zeros(1 << 16, np.bool_)
for _low, _high in ((0xE0B8, 0xE0BB), (0xE180, 0xE181), (0xE19E, 0xE19F), (0xE2BA, 0xE9BF), (0xEFA4, 0xEFAB), (0xF0A0, 0xF0BF)):
    _ALONE[_low : _high + 1] = True
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)  # the first so many bytes of a little-endian word
_RUNS = 1 << 16  # runs that are remembered, or a column's more
_BLOCK = 16_384  # words at a time: the columns then stay in the second-level cache
_MULTIPLY = np.uint64(0xFF51AFD7ED558CCD)  # the finalizer of MurmurHash3 (Appleby), as in `mixed`
_MULTIPLY_2 = np.uint64(0xC4CEB9FE1A85EC53)
_STEP = 0x9E3779B97F4A7C15  # odd: powers of it can be undone modulo 2^64
SPOKEN = r"[\p{L}\p{M}\p{N}]+"
_UNSPOKEN = r"[^\p{L}\p{M}\p{N}]"


@dataclass(frozen=True, repr=False)
class Words:
    """The hashes of all words of a column, text after text: those of text i are hashes[first[i]:first[i + 1]]."""

    hashes: U64
    first: I64

    @property
    def counts(self) -> I64:
        """How many words each text has."""
        return np.diff(self.first)


def words(buffers: Buffers, seed: int = 0, *, characters: bool = False) -> Words:
    """The words, or the characters, of every text."""
    size = len(buffers.data)
    raw = translated(buffers.data, _SEEN if characters else WORD_BYTES, 8)
    inside = raw[:size] != 0
    if characters:
        starts = np.flatnonzero(inside & (buffers.data.view(np.int8) >= -64))
        lead = buffers.data[starts]  # tells how many bytes its character has
        stops = starts + 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
    else:
        starts, stops = _runs_of(inside, buffers.offsets, _alone(buffers.data))
    first = np.searchsorted(starts, buffers.offsets).astype(np.int64)
    return Words(_hashes(raw, starts, stops, seed), first)


@dataclass(frozen=True, repr=False)
class Spoken:
    """The words of a column, in order: the text of each, its first and last + 1 byte in the column, and its hash."""

    text_no: npt.NDArray[np.int32]
    start: I64
    stop: I64
    hashes: U64

    def spelled(self, buffers: Buffers, rows: npt.NDArray[np.intp]) -> pa.LargeStringArray:
        """Some of the words in lower case, given in ascending order."""
        return arrow(pl.Series(cut(buffers, self.start[rows], self.stop[rows])).str.to_lowercase())


class Apart:
    """The words of runs of bytes that hold more than ASCII, each run taken apart once, for columns that come one after the other: the
    same few come again and again, and to take one apart costs as much as a thousand others."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._hashes = np.empty(0, np.uint64)  # of the runs, ascending
        self._row = np.empty(0, np.int64)
        self.many, self.at = np.empty(0, np.int64), np.empty(0, np.int64)  # how many words each run has, and where they stand below
        self.low, self.long, self.known = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64)

    def of(self, buffers: Buffers, start: I64, stop: I64, hashes: U64) -> I64:
        """The row of each run in `many` and `at`."""
        if len(self._hashes) > _RUNS:
            self._forget()
        distinct, first, same = np.unique(hashes, return_index=True, return_inverse=True)
        new = np.flatnonzero(~np.isin(distinct, self._hashes))
        if len(new):
            rows = np.sort(first[new])
            many, low, long, known = _taken_apart(cut(buffers, start[rows], stop[rows]))
            self._row = np.append(self._row, np.arange(len(self.many), len(self.many) + len(rows)))
            self._hashes = np.append(self._hashes, hashes[rows])
            order = np.argsort(self._hashes)
            self._hashes, self._row = self._hashes[order], self._row[order]
            self.at = np.append(self.at, len(self.low) + np.cumsum(many) - many)
            self.many, self.low = np.append(self.many, many), np.append(self.low, low)
            self.long, self.known = np.append(self.long, long), np.append(self.known, known)
        return self._row[np.searchsorted(self._hashes, distinct)][same]


def spoken(buffers: Buffers, apart: Apart | None = None) -> Spoken:
    """All words of every text, by Unicode's rules. Whoever asks for one column after the other hands over the same `apart`."""
    size = len(buffers.data)
    raw = translated(buffers.data, WORD_BYTES, 8)
    start, stop = _runs_of(raw[:size] != 0, buffers.offsets)
    hashes = _hashes(raw, start, stop, 0)
    beyond = np.flatnonzero(buffers.data >= 128)
    if len(beyond):
        # runs that hold more than ASCII are taken apart by Unicode's rules, each that is written in one way once
        wide = np.searchsorted(start, beyond, side="right") - 1
        wide = wide[np.append(True, np.diff(wide) != 0)]
        apart = Apart() if apart is None else apart
        row = apart.of(buffers, start[wide], stop[wide], hashes[wide])
        many, at = apart.many[row], apart.at[row]
        if (many == 1).all():
            start[wide] += apart.low[at]
            stop[wide] = start[wide] + apart.long[at]
            hashes[wide] = apart.known[at]
        else:
            begin = wide + np.cumsum(many - 1) - (many - 1)  # where the words of each come to stand
            each, word = ranges(at, at + many)
            put = begin[each] + word - at[each]
            # from what each place takes its word: the next run, the same again, or one behind those without words
            step = np.ones(len(start) + int((many - 1).sum()) + 1, np.int64)
            np.add.at(step, begin[many == 0], 1)
            step[put[word > at[each]]] = 0
            of = np.cumsum(step[:-1]) - 1
            start, stop, hashes = start[of], stop[of], hashes[of]
            start[put] += apart.low[word]
            stop[put] = start[put] + apart.long[word]
            hashes[put] = apart.known[word]
    counts = np.diff(np.searchsorted(start, buffers.offsets))
    return Spoken(np.repeat(np.arange(len(counts), dtype=np.int32), counts), start, stop, hashes)


def _taken_apart(runs: pa.LargeStringArray) -> tuple[I64, I64, I64, U64]:
    """How many words each run of bytes has, and run after run the place of each in its run, its bytes and its hash."""
    buffers = Buffers.of(runs)
    # what is between the characters that are in no word; to look for whole words costs ten times as much
    low, high = matches(buffers, _UNSPOKEN)
    low, high = np.sort(np.concatenate([buffers.offsets[:-1], high])), np.sort(np.concatenate([buffers.offsets[1:], low]))
    low, high = low[low < high], high[low < high]
    # an accent of its own behind its letter is the letter with it: one word, one hash
    folded = Buffers.of(arrow(pl.Series(cut(buffers, low, high)).str.to_lowercase().str.normalize("NFC")))
    hashes = _hashes(np.append(folded.data, np.zeros(8, np.uint8)), folded.offsets[:-1], folded.offsets[1:], 0)
    run = np.searchsorted(buffers.offsets, low, side="right") - 1
    return np.bincount(run, minlength=len(runs)), low - buffers.offsets[run], high - low, hashes


def touched(words: Spoken, starts: I64, stops: I64) -> tuple[I64, I64]:
    """The first word and the word after those that each span of the column touches."""
    first = np.searchsorted(words.stop, starts, side="right")
    return first, np.maximum(first, np.searchsorted(words.start, stops, side="left"))


def _alone(data: npt.NDArray[np.uint8]) -> I64:
    """First byte and byte after every character that is a word by itself."""
    leads = np.flatnonzero(data[:-1] >= 0xE0)
    starts = leads[_ALONE[data[leads].astype(np.int64) << 8 | data[leads + 1]]]
    return np.concatenate([starts, starts + 3 + (data[starts] >= 0xF0)])


def _runs_of(inside: npt.NDArray[np.bool_], offsets: I64, between: I64 | None = None) -> tuple[I64, I64]:
    """First byte and byte after every run of bytes that are inside a word, of one text each; a word also ends `between` bytes."""
    size = len(inside)
    edge = np.zeros(size + 1, np.bool_)
    edge[:size] = inside
    edge[1:] ^= inside
    # a word ends with its text, whatever follows in the buffer
    cuts = offsets[1:-1] if between is None else np.concatenate([offsets[1:-1], between])
    cuts = cuts[(cuts > 0) & (cuts < size)]
    glued = np.unique(cuts[inside[cuts] & inside[cuts - 1]])
    marks = np.flatnonzero(edge)
    if len(glued):
        marks = np.insert(marks, np.repeat(np.searchsorted(marks, glued), 2), np.repeat(glued, 2))
    return marks[::2], marks[1::2]


def runs(words: Words, size: int, *, short: bool = False) -> tuple[U64, I64]:
    """The hash of every run of `size` words, text after text, and where each text's begin (one more than texts). With `short`, a text
    of fewer words, but at least one, has one run: all of it."""
    return spans_of(words, *run_places(words, size, short=short))


def run_places(words: Words, size: int, *, short: bool = False) -> tuple[I64, I64, I64]:
    """The first word and the word after every run of `runs`, and where each text's begin."""
    counts = words.counts
    many = np.maximum(counts - size + 1, 0)
    if short:
        many = np.where((counts > 0) & (counts < size), 1, many)
    first = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
    at = within(words.first[:-1], words.first[:-1] + many)
    return at, np.minimum(at + size, np.repeat(words.first[1:], many)), first


def spans_of(words: Words, starts: I64, stops: I64, first: I64) -> tuple[U64, I64]:
    """The hash of each run of words: sum of hash * step^place, modulo 2^64 and moved to the run's begin, mixed."""
    count = len(words.hashes)
    powers = _powers(_STEP, count + 1)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words.hashes * powers[:-1], dtype=np.uint64)])
    back = _powers(pow(_STEP, -1, 1 << 64), count + 1)
    return mixed((total[stops] - total[starts]) * back[starts]), first


def mixed(numbers: U64) -> U64:
    """Every bit of a number spread over all 64: a bijection (MurmurHash3's finalizer)."""
    shifted = numbers >> np.uint64(33)
    numbers = numbers ^ shifted
    for multiplier in (_MULTIPLY, _MULTIPLY_2):
        numbers *= multiplier
        numbers ^= np.right_shift(numbers, np.uint64(33), out=shifted)
    return numbers


def _powers(base: int, count: int) -> U64:
    found = np.full(count, base, np.uint64)
    found[:1] = 1
    return np.cumprod(found, dtype=np.uint64)


def _hashes(raw: npt.NDArray[np.uint8], starts: I64, stops: I64, seed: int) -> U64:
    """A hash of the bytes of each span: eight at a time, so that nearly all words take one step."""
    windows = np.ndarray((len(raw) - 7,), "<u8", raw, strides=(1,))
    sizes = stops - starts
    salt = mixed(np.array([seed], np.uint64))[0]
    hashes = np.empty(len(starts), np.uint64)
    for low in range(0, len(starts), _BLOCK):
        here, size = starts[low : low + _BLOCK], sizes[low : low + _BLOCK]
        block = windows[here]
        block &= _MASKS[np.minimum(size, 8)]
        block += size.astype(np.uint64) * np.uint64(_STEP) + salt
        hashes[low : low + _BLOCK] = mixed(block)
    rows, done = np.flatnonzero(sizes > 8), 8
    while len(rows):
        block = windows[starts[rows] + done] & _MASKS[np.minimum(sizes[rows] - done, 8)]
        hashes[rows] = mixed(hashes[rows] ^ block) * np.uint64(_STEP) + np.uint64(done)
        done += 8
        rows = rows[sizes[rows] > done]
    return hashes
