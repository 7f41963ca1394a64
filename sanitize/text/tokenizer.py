"""Tokenizes a column of texts into 64-bit word hashes: `hash_words` for duplicate detection,
`tokenize_unicode` for natural language.

For `hash_words` a word is a run of ASCII letters and digits and of bytes outside ASCII, ignoring
ASCII case; in scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each
character is a word. With `by_character` every code point that is not ASCII white space is a word.
For `tokenize_unicode` a word is a longest run of letters, marks and numbers (Unicode general
categories L, M and N) in lower case (Unicode's full mapping of the word by itself): `don't` and
`e-mail` are two words each, `2nd` and `naïve` one. A letter with an accent has one hash, whether
written as one character or as two.

Hashes depend on a seed and are the same on every machine; the chance that any two of ten million
words share one is three in a million. Costs about 3 ns per byte, 10 ns per run, and for
`tokenize_unicode` about 15 ns per byte of the runs with characters beyond ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.array_types import I32, I64, U8, U64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    find_matches,
    slice_spans,
    to_large_string,
    translate_bytes,
)
from sanitize.core.intervals import expand_ranges
from sanitize.kernels import text_words

# a letter or digit as its lower case, a byte outside ASCII as itself, all other bytes as zero
FOLDED_WORD_BYTES = bytes(
    byte if byte >= 128 or chr(byte).isalnum() else 0 for byte in range(256)
).lower()
_FOLDED_VISIBLE_BYTES = bytes(
    0 if byte in b" \t\n\v\f\r\0" else byte for byte in range(256)
).lower()
# true for the first two bytes of a character of scripts without spaces: U+0E00-0EFF, 1000-107F,
# 1780-17FF, 2E80-9FFF, F900-FAFF and the planes 2 and 3; a number is the first byte * 256 + the
# second
_IS_SINGLE_CHAR_WORD = np.zeros(1 << 16, np.bool_)
for _low, _high in (
    (0xE0B8, 0xE0BB),
    (0xE180, 0xE181),
    (0xE19E, 0xE19F),
    (0xE2BA, 0xE9BF),
    (0xEFA4, 0xEFAB),
    (0xF0A0, 0xF0BF),
):
    _IS_SINGLE_CHAR_WORD[_low : _high + 1] = True
_WORD_BYTES = np.frombuffer(FOLDED_WORD_BYTES, np.uint8)
_EXPECTED_BYTES_PER_WORD = 4
_MAX_CACHED_RUNS = 1 << 16  # the cache is cleared once it holds more runs than this
# the finalizer of MurmurHash3 (Appleby), see `mix_bits`
_MURMUR_MULTIPLIER_1 = np.uint64(0xFF51AFD7ED558CCD)
_MURMUR_MULTIPLIER_2 = np.uint64(0xC4CEB9FE1A85EC53)
_POLYNOMIAL_BASE = 0x9E3779B97F4A7C15  # odd, so that its powers can be inverted modulo 2^64
UNICODE_WORD_PATTERN = r"[\p{L}\p{M}\p{N}]+"
_NON_WORD_PATTERN = r"[^\p{L}\p{M}\p{N}]"


@dataclass(frozen=True, repr=False)
class WordHashes:
    """The hashes of all words of a column, text after text: those of text i are
    hashes[offsets[i]:offsets[i + 1]]."""

    hashes: U64
    offsets: I64

    @property
    def counts(self) -> I64:
        """The number of words of each text."""
        return np.diff(self.offsets)


def hash_words(buffers: TextBuffers, seed: int = 0, *, by_character: bool = False) -> WordHashes:
    """Returns the hashes of the words of every text, or of its characters (`by_character`)."""
    raw = translate_bytes(
        buffers.data, _FOLDED_VISIBLE_BYTES if by_character else FOLDED_WORD_BYTES
    )
    inside = raw != 0
    if by_character:
        starts = np.flatnonzero(inside & (buffers.data.view(np.int8) >= -64))
        lead = buffers.data[starts]  # determines how many bytes its character has
        stops = starts + 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
    else:
        starts, stops = _find_word_runs(
            inside, buffers.offsets, _find_single_char_words(buffers.data)
        )
    first = np.searchsorted(starts, buffers.offsets).astype(np.int64)
    return WordHashes(_hash_byte_spans(raw, starts, stops, seed), first)


@dataclass(frozen=True, repr=False)
class UnicodeTokens:
    """The words of a column, in order: number of the text, start and end byte in the column, and
    hash of each."""

    text_no: I32
    start: I64
    end: I64
    hashes: U64

    def lowercase_texts(
        self, buffers: TextBuffers, rows: npt.NDArray[np.intp]
    ) -> pa.LargeStringArray:
        """Returns some of the words in lower case; `rows` ascend."""
        return to_large_string(
            pl.Series(slice_spans(buffers, self.start[rows], self.end[rows])).str.to_lowercase()
        )


class NonAsciiRunCache:
    """Caches the words of runs of bytes with characters beyond ASCII, for consecutive columns: the
    same few runs occur again and again, and splitting one costs as much as a thousand others."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._run_hashes = np.empty(0, np.uint64)  # of the runs, ascending
        self._run_rows = np.empty(0, np.int64)
        # the number of words of each run, and the row of its first word in the word arrays
        self.word_counts, self.first_word = np.empty(0, np.int64), np.empty(0, np.int64)
        self.word_offsets, self.word_lengths, self.word_hashes = (
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty(0, np.uint64),
        )

    def lookup(self, buffers: TextBuffers, start: I64, end: I64, hashes: U64) -> I64:
        """Returns the row of each run in `word_counts` and `first_word`; splits runs that are not
        cached yet."""
        if len(self._run_hashes) > _MAX_CACHED_RUNS:
            self._clear()
        distinct, first, distinct_no = np.unique(hashes, return_index=True, return_inverse=True)
        uncached = np.flatnonzero(~np.isin(distinct, self._run_hashes))
        if len(uncached):
            rows = np.sort(first[uncached])
            runs = TextBuffers.from_array(slice_spans(buffers, start[rows], end[rows]))
            words = _split_runs(runs)
            counts = np.bincount(words.text_no, minlength=len(rows))
            self._run_rows = np.append(
                self._run_rows, np.arange(len(self.word_counts), len(self.word_counts) + len(rows))
            )
            self._run_hashes = np.append(self._run_hashes, hashes[rows])
            order = np.argsort(self._run_hashes)
            self._run_hashes, self._run_rows = self._run_hashes[order], self._run_rows[order]
            self.first_word = np.append(
                self.first_word, len(self.word_offsets) + np.cumsum(counts) - counts
            )
            self.word_counts, self.word_offsets = (
                np.append(self.word_counts, counts),
                np.append(self.word_offsets, words.start - runs.offsets[words.text_no]),
            )
            self.word_lengths, self.word_hashes = (
                np.append(self.word_lengths, words.end - words.start),
                np.append(self.word_hashes, words.hashes),
            )
        return self._run_rows[np.searchsorted(self._run_hashes, distinct)][distinct_no]


def tokenize_unicode(
    buffers: TextBuffers, run_cache: NonAsciiRunCache | None = None
) -> UnicodeTokens:
    """Returns all words of every text, by Unicode's rules. For consecutive columns pass the same
    `run_cache`."""
    tokens, wide_runs = _find_runs(buffers)
    if not len(wide_runs):
        return tokens
    # runs with characters beyond ASCII are split by Unicode's rules, each distinct run once
    run_cache = NonAsciiRunCache() if run_cache is None else run_cache
    row = run_cache.lookup(
        buffers, tokens.start[wide_runs], tokens.end[wide_runs], tokens.hashes[wide_runs]
    )
    word_counts = run_cache.word_counts[row]
    words = _allocate_tokens(len(tokens.start) + int((word_counts - 1).sum()))
    text_words.replace_runs(
        *(tokens.text_no, tokens.start, tokens.end, tokens.hashes),
        *(wide_runs, word_counts, run_cache.first_word[row]),
        *(run_cache.word_offsets, run_cache.word_lengths, run_cache.word_hashes),
        *(words.text_no, words.start, words.end, words.hashes),
    )
    return words


def _allocate_tokens(count: int) -> UnicodeTokens:
    return UnicodeTokens(
        np.empty(count, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.uint64),
    )


def _find_runs(buffers: TextBuffers) -> tuple[UnicodeTokens, I64]:
    """Returns the runs of ASCII letters, digits and bytes beyond ASCII, and the rows of those with
    bytes beyond ASCII."""
    expected_count = len(buffers.data) // _EXPECTED_BYTES_PER_WORD + 1
    while True:
        runs, is_wide = _allocate_tokens(expected_count), np.empty(expected_count, np.bool_)
        count = text_words.find_words(
            *(buffers.data, buffers.offsets, _WORD_BYTES, 0, _POLYNOMIAL_BASE),
            *(runs.text_no, runs.start, runs.end, runs.hashes, is_wide.view(np.uint8)),
        )
        if count <= expected_count:
            runs = UnicodeTokens(
                runs.text_no[:count], runs.start[:count], runs.end[:count], runs.hashes[:count]
            )
            return runs, np.flatnonzero(is_wide[:count])
        expected_count = count


def _split_runs(buffers: TextBuffers) -> UnicodeTokens:
    """Splits runs of bytes into words."""
    # words are the text between non-word characters; searching for whole words costs ten times as
    # much
    low, high = find_matches(buffers, _NON_WORD_PATTERN)
    low, high = (
        np.sort(np.concatenate([buffers.offsets[:-1], high])),
        np.sort(np.concatenate([buffers.offsets[1:], low])),
    )
    low, high = low[low < high], high[low < high]
    # NFC: a letter followed by a combining accent has the same hash as the letter with that accent
    folded = TextBuffers.from_array(
        to_large_string(
            pl.Series(slice_spans(buffers, low, high)).str.to_lowercase().str.normalize("NFC")
        )
    )
    hashes = _hash_byte_spans(folded.data, folded.offsets[:-1], folded.offsets[1:], 0)
    run = np.searchsorted(buffers.offsets, low, side="right") - 1
    return UnicodeTokens(run.astype(np.int32), low, high, hashes)


def find_overlapping_words(words: UnicodeTokens, starts: I64, ends: I64) -> tuple[I64, I64]:
    """Returns for each span of the column the range of words (first, end) that it overlaps."""
    first = np.searchsorted(words.end, starts, side="right")
    return first, np.maximum(first, np.searchsorted(words.start, ends, side="left"))


def _find_single_char_words(data: U8) -> I64:
    """Returns start and end bytes of all characters that are a word by themselves, as one array of
    breaks."""
    leads = np.flatnonzero(data[:-1] >= 0xE0)
    starts = leads[_IS_SINGLE_CHAR_WORD[data[leads].astype(np.int64) << 8 | data[leads + 1]]]
    return np.concatenate([starts, starts + 3 + (data[starts] >= 0xF0)])


def _find_word_runs(
    is_word_byte: Mask, offsets: I64, extra_breaks: I64 | None = None
) -> tuple[I64, I64]:
    """Returns start and end of every run of word bytes; a run ends with its text, and at each of
    `extra_breaks`."""
    size = len(is_word_byte)
    edge = np.zeros(size + 1, np.bool_)
    edge[:size] = is_word_byte
    edge[1:] ^= is_word_byte
    # a word ends with its text, whatever follows in the buffer
    cuts = offsets[1:-1] if extra_breaks is None else np.concatenate([offsets[1:-1], extra_breaks])
    cuts = cuts[(cuts > 0) & (cuts < size)]
    inner_cuts = np.unique(cuts[is_word_byte[cuts] & is_word_byte[cuts - 1]])
    marks = np.flatnonzero(edge)
    if len(inner_cuts):
        marks = np.insert(
            marks, np.repeat(np.searchsorted(marks, inner_cuts), 2), np.repeat(inner_cuts, 2)
        )
    return np.ascontiguousarray(marks[::2]), np.ascontiguousarray(marks[1::2])


def hash_ngrams(words: WordHashes, n: int, *, keep_short: bool = False) -> tuple[U64, I64]:
    """Returns the hash of every n-gram (run of `n` words), text after text, and the offsets of each
    text's n-grams (one more than texts). With `keep_short` a text of fewer than `n` words, but at
    least one, has one n-gram: all of it."""
    starts, offsets = locate_ngrams(words, n, keep_short=keep_short)
    ends = np.minimum(starts + n, np.repeat(words.offsets[1:], np.diff(offsets)))
    return hash_word_ranges(words, starts, ends), offsets


def locate_ngrams(words: WordHashes, n: int, *, keep_short: bool = False) -> tuple[I64, I64]:
    """Returns the first word of every n-gram of `hash_ngrams`, and the offsets of each text's
    n-grams."""
    counts = words.counts
    ngram_counts = np.maximum(counts - n + 1, 0)
    if keep_short:
        ngram_counts = np.where((counts > 0) & (counts < n), 1, ngram_counts)
    ngram_offsets = np.concatenate([[0], np.cumsum(ngram_counts)]).astype(np.int64)
    return expand_ranges(words.offsets[:-1], words.offsets[:-1] + ngram_counts), ngram_offsets


def hash_word_ranges(words: WordHashes, starts: I64, ends: I64) -> U64:
    """Returns the hash of each range of words: the sum of hash * base^position modulo 2^64, with
    positions relative to the start of the range (polynomial rolling hash by prefix sums), mixed by
    `mix_bits`."""
    count = len(words.hashes)
    powers = _powers(_POLYNOMIAL_BASE, count + 1)
    total = np.concatenate(
        [np.zeros(1, np.uint64), np.cumsum(words.hashes * powers[:-1], dtype=np.uint64)]
    )
    inverse_powers = _powers(pow(_POLYNOMIAL_BASE, -1, 1 << 64), count + 1)
    return mix_bits((total[ends] - total[starts]) * inverse_powers[starts])


def mix_bits(numbers: U64) -> U64:
    """Mixes all 64 bits of each number: a bijection (MurmurHash3's finalizer)."""
    shifted = numbers >> np.uint64(33)
    numbers = numbers ^ shifted
    for multiplier in (_MURMUR_MULTIPLIER_1, _MURMUR_MULTIPLIER_2):
        numbers *= multiplier
        numbers ^= np.right_shift(numbers, np.uint64(33), out=shifted)
    return numbers


def _powers(base: int, count: int) -> U64:
    found = np.full(count, base, np.uint64)
    found[:1] = 1
    return np.cumprod(found, dtype=np.uint64)


def _hash_byte_spans(data: U8, starts: I64, ends: I64, seed: int) -> U64:
    """Returns a hash of the bytes of each span."""
    hashes = np.empty(len(starts), np.uint64)
    text_words.hash_words(data, starts, ends, seed, _POLYNOMIAL_BASE, hashes)
    return hashes
