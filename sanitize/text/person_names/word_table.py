"""The words of a column of texts as arrays: flags of the lexicon, how each is written, and how it is joined to the next."""

from __future__ import annotations

import functools
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64, U8, U64, Mask
from sanitize.core.arrow_buffers import TextBuffers, is_in_byte_table, make_byte_table, slice_spans
from sanitize.text.name_lexicon import TITLE, load_name_lexicon
from sanitize.text.tokenizer import UnicodeTokens, tokenize_unicode

UPPERCASE_BYTES, LOWERCASE_BYTES = (make_byte_table(bytes(range(first, first + 26))) for first in b"Aa")
DIGIT_BYTES, DIGIT_OR_PLUS_BYTES = make_byte_table(b"0123456789"), make_byte_table(b"+0123456789")
WORD_JOINER_BYTES = make_byte_table(b"-'")
ENTRY_END_BYTES, ENTRY_SUFFIX_BYTES = (make_byte_table(signs) for signs in (b";:\n\r\t)>]\"'/|<", b"<([-|/"))
ENTRY_START_BYTES = make_byte_table(b";:\n\r\t(<[\"'|>")
COMMA, DOT, COLON, SLASH = ord(","), ord("."), ord(":"), ord("/")
SENTENCE_END_BYTES = make_byte_table(b".:!?>")
PUNCTUATION_BYTES = make_byte_table(b",!:;.\n\r-")


class WordTable:
    """The words of a column and their properties: `flags` of the lexicon, how it is written, and how it is joined to the next."""

    def __init__(self, buffers: TextBuffers) -> None:
        tokens: UnicodeTokens = tokenize_unicode(buffers)
        self.buffers, self.start, self.end, self.hashes = buffers, tokens.start, tokens.end, tokens.hashes
        self.text_no = tokens.text_no
        count = len(self.start)
        data = np.concatenate([buffers.data, np.zeros(4, np.uint8)])
        self.flags = load_name_lexicon().lookup_flags(tokens.hashes)
        head, tail, second = data[self.start], data[self.end - 1], data[self.start + 1]
        length = self.end - self.start
        self.is_capitalized = UPPERCASE_BYTES[head]
        non_ascii = np.flatnonzero(head >= 0xC3)
        if len(non_ascii):
            word_texts = pl.Series(slice_spans(buffers, self.start[non_ascii], self.end[non_ascii]))
            self.is_capitalized[non_ascii] = word_texts.str.contains(r"\A\p{Lu}").to_numpy()
        self.is_initial = self.is_capitalized & ((length == 1) | ((length == 2) & (head >= 0xC3)))
        self.is_uppercase = UPPERCASE_BYTES[head] & (length > 1) & UPPERCASE_BYTES[tail] & UPPERCASE_BYTES[second]
        self.is_lowercase = LOWERCASE_BYTES[head]
        has_digit = np.zeros(count, np.bool_)
        digit_offsets = np.flatnonzero(is_in_byte_table(buffers.data, DIGIT_BYTES))
        if len(digit_offsets):
            has_digit[np.searchsorted(self.start, digit_offsets, side="right") - 1] = True
        self.has_digit = has_digit
        # the gap between each word and the next
        gap = np.append(self.start[1:] - self.end[:-1], 0)
        byte_1, byte_2 = data[self.end], data[self.end + 1]
        same_text = np.append(np.diff(self.text_no) == 0, False)
        blank = (gap == 1) & (byte_1 == 32)
        self.is_tightly_joined = same_text & (((gap == 1) & WORD_JOINER_BYTES[byte_1]) | ((gap == 3) & (byte_1 == 0xE2)))
        may_have_dot = self.is_initial | ((self.flags & TITLE) > 0)
        self.is_joined = same_text & (
            blank
            | self.is_tightly_joined
            | ((gap == 2) & (byte_1 == 46) & (byte_2 == 32) & may_have_dot)
            | ((gap == 1) & (byte_1 == 46) & self.is_initial)
        )
        self.has_blank_after = same_text & blank
        self.has_next = same_text
        # the byte after each word; 0 at the end of its text
        self.next_byte = np.where(self.end < buffers.offsets[self.text_no + 1], byte_1, np.uint8(0))
        self.gap_bytes = gap
        self.padded_data = data

    def has_flag(self, flags: int) -> Mask:
        """True where a word has at least one of `flags`."""
        found: Mask = (self.flags & flags) > 0
        return found

    def has_flag_at(self, rows: I64, flags: int) -> Mask:
        """True for those of the words `rows` that have at least one of `flags`."""
        found: Mask = (self.flags[rows] & flags) > 0
        return found

    def is_word(self, *texts: str) -> Mask:
        """True where a word is one of some words, in any letter case."""
        found = np.zeros(len(self.hashes), np.bool_)
        for word_hash in hash_single_words(texts):
            found |= self.hashes == word_hash
        return found

    def is_word_at(self, rows: I64, *texts: str) -> Mask:
        """True for those of the words `rows` that are one of some words, in any letter case."""
        hashes, found = self.hashes[rows], np.zeros(len(rows), np.bool_)
        for word_hash in hash_single_words(texts):
            found |= hashes == word_hash
        return found

    def has_comma_after(self, rows: I64) -> Mask:
        """True for those of the words `rows` that a comma and a blank follow."""
        found: Mask = self.has_next[rows] & (self.gap_bytes[rows] == 2) & (self.next_byte[rows] == COMMA)
        return found

    @cached_property
    def text_keys(self) -> U64:
        """A number for each word that is the same for the same word of the same text, in any letter case."""
        return self.hashes ^ (self.text_no.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))

    def is_also_lowercase(self, rows: I64) -> Mask:
        """True for each of the words in `rows` if its text has it in lower case as well."""
        if not len(rows):
            return np.zeros(0, np.bool_)
        wanted, wanted_no = np.unique(self.text_keys[rows], return_inverse=True)
        is_text_wanted = np.zeros(len(self.buffers.offsets) - 1, np.bool_)
        is_text_wanted[self.text_no[rows]] = True
        lowercase = np.flatnonzero(self.is_lowercase & (self.flags == 0) & is_text_wanted[self.text_no])
        place = np.minimum(np.searchsorted(wanted, self.text_keys[lowercase]), len(wanted) - 1)
        is_present = np.zeros(len(wanted), np.bool_)
        is_present[place[wanted[place] == self.text_keys[lowercase]]] = True
        found: Mask = is_present[wanted_no]
        return found

    @cached_property
    def is_line_start(self) -> Mask:
        """True for the first word of each line."""
        starts_line = np.zeros(len(self.start) + 1, np.bool_)
        starts_line[np.searchsorted(self.start, np.flatnonzero(self.buffers.data == 10))] = True
        starts_line[np.searchsorted(self.start, self.buffers.offsets)] = True
        return starts_line[:-1]

    @cached_property
    def is_line_end(self) -> Mask:
        """True for the last word of each line."""
        return np.append(self.is_line_start[1:], np.ones(min(len(self.start), 1), np.bool_))

    @cached_property
    def byte_before(self) -> U8:
        """The byte before each word; 0 at the start of its text."""
        return self.look_back(np.arange(len(self.start)), 1)

    def look_back(self, rows: I64, distance: int) -> U8:
        """The byte `distance` bytes before the start of each of the words `rows`; 0 outside its text."""
        position = self.start[rows] - distance
        found: U8 = self.padded_data[position]
        found[position < self.buffers.offsets[self.text_no[rows]]] = 0
        return found

    def look_ahead(self, rows: I64, distance: int | I64) -> U8:
        """The byte `distance` bytes after the end of each of the words `rows`, 0 being the next byte; 0 outside its text."""
        position = self.end[rows] + distance
        found: U8 = self.padded_data[np.minimum(position, len(self.padded_data) - 1)]
        found[position >= self.buffers.offsets[self.text_no[rows] + 1]] = 0
        return found


def at_next_word(mask: Mask) -> Mask:
    """Returns for each word the value of `mask` for the word after it; False for the last word."""
    return np.append(mask[1:], np.zeros(min(len(mask), 1), np.bool_))


def at_previous_word(mask: Mask) -> Mask:
    """Returns for each word the value of `mask` for the word before it; False for the first word."""
    return np.append(np.zeros(min(len(mask), 1), np.bool_), mask[:-1])


def find_run_ends(is_linked: Mask) -> I64:
    """Returns for each word the last word of its run: `is_linked` is true for words that are linked to the next one."""
    own = np.arange(len(is_linked))
    own[is_linked] = len(is_linked)
    found: I64 = np.minimum.accumulate(own[::-1])[::-1]
    return found


@functools.cache
def hash_single_words(texts: tuple[str, ...]) -> U64:
    """Returns the hashes of some words, each a single word in lower case."""
    return tokenize_unicode(TextBuffers.from_array(pa.array(texts, pa.large_string()))).hashes
