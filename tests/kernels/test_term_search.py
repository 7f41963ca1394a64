"""The search of many terms against a reference that tries every term at every place."""

from __future__ import annotations

import string

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sanitize.array_types import U64
from sanitize.kernels.term_search import set_bits, set_start_bits
from sanitize.kinds.kind import ASCII_WORD_CHARS
from sanitize.text.literal_search import TermIndex
from tests.support import to_buffers

LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
# rules of bytes, as `find_terms` describes them: part of a word, no term may follow, letter, digit
RULES = np.array(
    [
        3 * (byte in ASCII_WORD_CHARS) + 8 * bytes([byte]).isalpha() + 16 * bytes([byte]).isdigit()
        for byte in range(256)
    ],
    np.uint8,
)
# few, so that terms occur, begin with the same bytes and end with the same bytes
BYTES = b"abAB1@.\x00\xc3\xa9"


def byte_strings(max_size: int, min_size: int = 0) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(list(BYTES)), min_size=min_size, max_size=max_size).map(bytes)


def is_inside(text: bytes, place: int) -> bool:
    """True if a place is between two letters, or between two digits."""
    beside = text[max(place - 1, 0) : place + 1]
    return len(beside) == 2 and place > 0 and (beside.isalpha() or beside.isdigit())


def reference_matches(
    texts: list[bytes], terms: list[bytes], is_bounded: bool, inside_lengths: list[int]
) -> set[tuple[int, int, int]]:
    """Number of the text, start in it, and row of the term of every match; `is_bounded`: none that
    begins inside a word. A term shorter than its `inside_lengths` is found only where neither end
    is between two letters, or between two digits."""
    found = set()
    for text_no, text in enumerate(texts):
        for start in range(len(text)):
            if (
                is_bounded
                and start
                and text[start] in ASCII_WORD_CHARS
                and text[start - 1] in ASCII_WORD_CHARS
            ):
                continue
            for row, term in enumerate(terms):
                is_cut = is_inside(text, start) or is_inside(text, start + len(term))
                if text.translate(LOWER).startswith(term, start) and not (
                    is_cut and len(term) < inside_lengths[row]
                ):
                    found.add((text_no, start, row))
    return found


@given(
    st.lists(byte_strings(60), max_size=6),
    st.lists(st.one_of(byte_strings(7, 1), byte_strings(30, 1)), max_size=30),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 59), st.integers(1, 40)), max_size=10),
    st.booleans(),
    st.lists(st.sampled_from([0, 2, 3, 4, 5, 8, 9, 12, 255]), min_size=40, max_size=40),
)
def test_matches_are_those_of_the_reference(
    texts: list[bytes],
    terms: list[bytes],
    cuts: list[tuple[int, int, int]],
    is_bounded: bool,
    lengths: list[int],
) -> None:
    terms = terms + [
        texts[number][start : start + size] for number, start, size in cuts if number < len(texts)
    ]
    terms = [term.translate(LOWER) for term in terms if term]
    rules = RULES & np.uint8(27 if is_bounded else 25)
    buffers, term_buffers = to_buffers(texts), to_buffers(terms)
    inside_lengths = np.array(lengths[: len(terms)], np.uint8)
    index = TermIndex.build(term_buffers, inside_lengths)
    least = min(lengths[: len(terms)], default=255)
    (text_no, start, _), row = index.find(
        buffers, rules, term_buffers.data, term_buffers.offsets, inside_lengths, least
    )
    found = list(
        zip(
            text_no.tolist(), (start - buffers.offsets[text_no]).tolist(), row.tolist(), strict=True
        )
    )
    assert len(found) == len(set(found))
    assert set(found) == reference_matches(texts, terms, is_bounded, lengths)
    assert (np.diff(start) >= 0).all()


def test_more_matches_than_expected_are_all_found() -> None:
    buffers, terms = to_buffers([b"ab" * 5000]), to_buffers([b"ab", b"abababab"])
    anywhere = np.zeros(2, np.uint8)
    index = TermIndex.build(terms, anywhere)
    (_, start, _), row = index.find(
        buffers, np.zeros(256, np.uint8), terms.data, terms.offsets, anywhere, 0
    )
    assert np.bincount(row).tolist() == [5000, 4997]
    assert start[row == 0].tolist() == list(range(0, 10_000, 2))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 4))
def test_bits_of_a_filter_are_numbered_by_the_highest_bits_of_a_hash(
    hashes: list[int], log2_words: int
) -> None:
    bits: U64 = np.zeros(1 << log2_words, np.uint64)
    set_bits(np.array(hashes, np.uint64), bits)
    set_rows = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
    assert set_rows == sorted({number >> (64 - 6 - log2_words) for number in hashes})


def test_terms_of_one_or_two_bytes_may_begin_anywhere() -> None:
    for term, share in ((b"ab", 1.0), (b"abc", 0.1), (b"abcd", 0.01)):
        bits: U64 = np.zeros(64, np.uint64)
        data, offsets = np.frombuffer(term, np.uint8), np.array([0, len(term)], np.int64)
        set_start_bits(data, offsets, np.array([len(term) + 1], np.uint8), bits)
        assert not bits.any()  # too short to begin inside a word
        set_start_bits(data, offsets, np.array([len(term)], np.uint8), bits)
        assert 0 < np.unpackbits(bits.view(np.uint8)).mean() <= share
        assert share < 1 or (bits == np.uint64(2**64 - 1)).all()
