"""The words of a column of texts as arrays: flags of the lexicon, how each is written, and how it
is joined to the next."""

from __future__ import annotations

import functools
import secrets
from functools import cached_property

import numpy as np
import polars as pl

from sanitize.array_types import I64, U8, U64, Mask
from sanitize.core.arrow_buffers import TextBuffers, make_byte_table, slice_spans, texts_to_arrow
from sanitize.core.keys import IdSet
from sanitize.kernels import text_words
from sanitize.text.name_lexicon import TITLE, load_name_lexicon
from sanitize.text.tokenizer import UnicodeTokens, mix_bits, tokenize_unicode

DIGIT_BYTES, DIGIT_OR_PLUS_BYTES = make_byte_table(b"0123456789"), make_byte_table(b"+0123456789")
ENTRY_END_BYTES, ENTRY_SUFFIX_BYTES = (
    make_byte_table(signs) for signs in (b";:\n\r\t)>]\"'/|<", b"<([-|/")
)
ENTRY_START_BYTES = make_byte_table(b";:\n\r\t(<[\"'|>")
COMMA, DOT, COLON, SLASH = ord(","), ord("."), ord(":"), ord("/")
SENTENCE_END_BYTES = make_byte_table(b".:!?>")
_FIRST_BYTE_OF_CAPITALS = 0xC3  # of capitals beyond ASCII in UTF-8, the least
PUNCTUATION_BYTES = make_byte_table(b",!:;.\n\r-")
# no result depends on it; words that were made to share a slot would be slow
_KEY_SECRET = np.uint64(secrets.randbits(64))


class WordTable:
    """The words of a column and their properties: `flags` of the lexicon, how it is written, and
    how it is joined to the next."""

    def __init__(self, buffers: TextBuffers) -> None:
        words: UnicodeTokens = tokenize_unicode(buffers)
        self.buffers, self.text_no, self.start, self.end, self.hashes = (
            buffers,
            words.text_no,
            words.start,
            words.end,
            words.hashes,
        )
        self.flags = load_name_lexicon().lookup_flags(words.hashes)
        # see `text_words.describe_words` for what they are
        self.is_capitalized = np.zeros(len(words.start), np.bool_)
        self._find_capitals_beyond_ascii()
        (
            self.is_initial,
            self.is_uppercase,
            self.is_lowercase,
            self.has_digit,
            self.is_line_start,
            self.has_next,
            self.is_joined,
            self.is_tightly_joined,
            self.has_blank_after,
        ) = masks = np.empty((9, len(words.start)), np.bool_)
        self.next_byte, self.gap_bytes, self.size = np.empty((3, len(words.start)), np.uint8)
        text_words.describe_words(
            *(
                buffers.data,
                buffers.offsets,
                words.text_no,
                words.start,
                words.end,
                self.flags,
                TITLE,
            ),
            *(
                self.is_capitalized.view(np.uint8),
                *masks.view(np.uint8),
                self.next_byte,
                self.gap_bytes,
                self.size,
            ),
        )

    def _find_capitals_beyond_ascii(self) -> None:
        """Sets `is_capitalized` for words that begin with a capital beyond ASCII."""
        position = self.buffers.non_ascii_bytes
        position = position[self.buffers.data[position] >= _FIRST_BYTE_OF_CAPITALS]
        rows = np.searchsorted(self.start, position)
        rows = rows[np.append(self.start, -1)[rows] == position]
        if len(rows):
            word_texts = pl.Series(slice_spans(self.buffers, self.start[rows], self.end[rows]))
            self.is_capitalized[rows] = word_texts.str.contains(r"\A\p{Lu}").to_numpy()

    def has_flag_at(self, rows: I64, flags: int) -> Mask:
        """True for those of the words `rows` that have at least one of `flags`."""
        found: Mask = (self.flags[rows] & flags) > 0
        return found

    def is_word_at(self, rows: I64, *texts: str) -> Mask:
        """True for those of the words `rows` that are one of some words, in any letter case."""
        hashes, found = self.hashes[rows], np.zeros(len(rows), np.bool_)
        for word_hash in hash_single_words(texts):
            found |= hashes == word_hash
        return found

    def has_comma_after(self, rows: I64) -> Mask:
        """True for those of the words `rows` that a comma and another byte, such as a blank,
        separate from the next word."""
        found: Mask = (self.gap_bytes[rows] == 2) & (self.next_byte[rows] == COMMA)
        return found

    def text_keys_at(self, rows: I64) -> U64:
        """A number for each of the words `rows` that is the same for the same word of the same
        text, in any letter case."""
        return mix_bits(
            self.hashes[rows]
            ^ (self.text_no[rows].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
            ^ _KEY_SECRET
        )

    @cached_property
    def _unlisted_lowercase(self) -> IdSet:
        """The keys of the words in lower case that no list has."""
        return IdSet.of(self.text_keys_at(np.flatnonzero(self.is_lowercase & (self.flags == 0))))

    def is_also_lowercase(self, rows: I64) -> Mask:
        """True for each of the words in `rows`, which no list has, if its text has it in lower case
        as well."""
        return self._unlisted_lowercase.contains(self.text_keys_at(rows))

    @cached_property
    def line_starts(self) -> I64:
        """The first word of each line, ascending."""
        return np.flatnonzero(self.is_line_start)

    @cached_property
    def is_line_end(self) -> Mask:
        """True for the last word of each line."""
        return np.append(self.is_line_start[1:], np.ones(min(len(self.start), 1), np.bool_))

    def look_back(self, rows: I64, distance: int) -> U8:
        """The byte `distance` bytes before the start of each of the words `rows`; 0 outside its
        text."""
        position = self.start[rows] - distance
        found: U8 = self.buffers.data[np.maximum(position, 0)]
        found[position < self.buffers.offsets[self.text_no[rows]]] = 0
        return found

    def look_ahead(self, rows: I64, distance: int | I64) -> U8:
        """The byte `distance` bytes after the end of each of the words `rows`, 0 being the next
        byte; 0 outside its text."""
        position = self.end[rows] + distance
        found: U8 = self.buffers.data[np.minimum(position, len(self.buffers.data) - 1)]
        found[position >= self.buffers.offsets[self.text_no[rows] + 1]] = 0
        return found


def at_next_word(mask: Mask) -> Mask:
    """Returns for each word the value of `mask` for the word after it; False for the last word."""
    return np.append(mask[1:], np.zeros(min(len(mask), 1), np.bool_))


def at_previous_word(mask: Mask) -> Mask:
    """Returns for each word the value of `mask` for the word before it; False for the first
    word."""
    return np.append(np.zeros(min(len(mask), 1), np.bool_), mask[:-1])


def narrow(found: Mask, is_kept: Mask) -> None:
    """Sets `found` to False where `is_kept` is false; `is_kept` has one entry for each place where
    `found` is true."""
    found[np.flatnonzero(found)[~is_kept]] = False


@functools.cache
def hash_single_words(texts: tuple[str, ...]) -> U64:
    """Returns the hashes of some words, each a single word in lower case."""
    return tokenize_unicode(TextBuffers.from_array(texts_to_arrow(texts))).hashes
