"""The search of many terms against a reference that tries every term at every place."""

from __future__ import annotations

import string

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sanitize.array_types import U64
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.kernels.term_search import set_bits, set_start_bits
from sanitize.kinds.kind import ASCII_WORD_CHARS
from sanitize.text.literal_search import TermIndex

LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
BYTES = b"abAB1@.\x00\xc3\xa9"  # few, so that terms occur, begin with the same bytes and end with the same bytes


def to_buffers(texts: list[bytes]) -> TextBuffers:
    column = pa.array(texts, pa.large_binary())
    return TextBuffers.from_array(pa.LargeStringArray.from_buffers(len(column), *column.buffers()[1:]))


def byte_strings(max_size: int, min_size: int = 0) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(list(BYTES)), min_size=min_size, max_size=max_size).map(bytes)


def reference_matches(texts: list[bytes], terms: list[bytes], is_bounded: bool) -> set[tuple[int, int, int]]:
    """Number of the text, start in it, and row of the term of every match; `is_bounded`: none that begins inside a word."""
    found = set()
    for text_no, text in enumerate(texts):
        for start in range(len(text)):
            if is_bounded and start and text[start] in ASCII_WORD_CHARS and text[start - 1] in ASCII_WORD_CHARS:
                continue
            found |= {(text_no, start, row) for row, term in enumerate(terms) if text.translate(LOWER).startswith(term, start)}
    return found


@given(
    st.lists(byte_strings(60), max_size=6),
    st.lists(st.one_of(byte_strings(7, 1), byte_strings(30, 1)), max_size=30),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 59), st.integers(1, 40)), max_size=10),
    st.booleans(),
)
def test_matches_are_those_of_the_reference(
    texts: list[bytes], terms: list[bytes], cuts: list[tuple[int, int, int]], is_bounded: bool
) -> None:
    terms = terms + [texts[number][start : start + size] for number, start, size in cuts if number < len(texts)]
    terms = [term.translate(LOWER) for term in terms if term]
    rules = np.isin(np.arange(256), list(ASCII_WORD_CHARS)) * np.uint8(3 if is_bounded else 1)
    buffers, term_buffers = to_buffers(texts), to_buffers(terms)
    text_no, start, row = TermIndex.build(term_buffers).find(buffers, rules, term_buffers.data, term_buffers.offsets)
    found = list(zip(text_no.tolist(), (start - buffers.offsets[text_no]).tolist(), row.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == reference_matches(texts, terms, is_bounded)
    assert (np.diff(start) >= 0).all()


def test_more_matches_than_expected_are_all_found() -> None:
    buffers, terms = to_buffers([b"ab" * 5000]), to_buffers([b"ab", b"abababab"])
    _, start, row = TermIndex.build(terms).find(buffers, np.zeros(256, np.uint8), terms.data, terms.offsets)
    assert np.bincount(row).tolist() == [5000, 4997]
    assert start[row == 0].tolist() == list(range(0, 10_000, 2))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 4))
def test_bits_of_a_filter_are_numbered_by_the_highest_bits_of_a_hash(hashes: list[int], log2_words: int) -> None:
    bits: U64 = np.zeros(1 << log2_words, np.uint64)
    set_bits(np.array(hashes, np.uint64), bits)
    set_rows = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
    assert set_rows == sorted({number >> (64 - 6 - log2_words) for number in hashes})


def test_terms_of_one_or_two_bytes_may_begin_anywhere() -> None:
    for term, share in ((b"ab", 1.0), (b"abc", 0.1), (b"abcd", 0.01)):
        bits: U64 = np.zeros(64, np.uint64)
        set_start_bits(np.frombuffer(term, np.uint8), np.array([0, len(term)], np.int64), bits)
        assert 0 < np.unpackbits(bits.view(np.uint8)).mean() <= share
        assert share < 1 or (bits == np.uint64(2**64 - 1)).all()
