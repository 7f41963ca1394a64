"""Line breaks are decoded where a value may have a blank, and the same values are found as if all
were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sanitize.array_types import Mask
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.decodings import iter_decodings
from sanitize.text.literal_search import LiteralMatcher, TermIndex

WORDS = st.lists(
    st.sampled_from(["ann", "Roe", "b", "12", "345", "-", "@x", "\n", "\n> ", "\r\n", " ", "é"]),
    min_size=1,
    max_size=14,
)


def find_over_line_breaks(
    texts: pa.LargeStringArray, matcher: LiteralMatcher, blank_pairs: Mask | None
) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for decoding in iter_decodings(texts, 60, ("line breaks", "digits"), blank_pairs=blank_pairs):
        matches = matcher.find(decoding.pieces, check_boundaries=False)
        spans = decoding.find_encoded_spans(matches.text_no, matches.start, matches.end)
        columns = (spans.text_no, spans.start, spans.end, matches.term)
        found |= set(zip(*(column[spans.is_encoded].tolist() for column in columns), strict=True))
    return found


@given(
    st.lists(WORDS.map("".join), max_size=4),
    st.lists(WORDS.map(lambda words: " ".join("".join(words).lower().split())), max_size=6),
)
def test_values_over_line_breaks_are_found_by_the_bytes_beside_their_blanks(
    texts: list[str], values: list[str]
) -> None:
    terms = [*values, "12345", " b", "ann "]
    matcher = LiteralMatcher(
        pa.array(terms, pa.large_string()), np.zeros(len(terms), np.int32), np.arange(len(terms))
    )
    column = pa.array([*texts, "\n".join(values)], pa.large_string())
    assert find_over_line_breaks(column, matcher, matcher.blank_pairs) == find_over_line_breaks(
        column, matcher, None
    )


def test_a_line_break_that_no_value_has_is_not_decoded() -> None:
    matcher = LiteralMatcher(
        pa.array(["ann roe"], pa.large_string()), np.zeros(1, np.int32), np.zeros(1, np.int64)
    )
    texts = pa.array(["mail Ann\n> Roe or", "see Ann\nMill", "7\n8 of 9"], pa.large_string())
    pieces = [
        piece
        for decoding in iter_decodings(texts, 9, ("line breaks",), blank_pairs=matcher.blank_pairs)
        for piece in decoding.pieces
    ]
    assert [piece.as_py() for piece in pieces] == ["mail Ann Roe or", "7 8 of 9"]


def test_hashes_of_terms_have_another_key_each_time() -> None:
    terms = TextBuffers.from_array(
        pa.array(["ann@example.com", "bob@example.com"], pa.large_string())
    )
    first, second = (TermIndex.build(terms, np.zeros(2, np.uint8)) for _ in range(2))
    assert set(first.term_hashes.tolist()).isdisjoint(second.term_hashes.tolist())
