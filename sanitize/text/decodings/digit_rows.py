"""Joins the digits of numbers that are written with separators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import TextBuffers, make_byte_table
from sanitize.kernels.coded_runs import find_digit_rows
from sanitize.text.decodings.decoded_pieces import (
    Decoding,
    EncodedSpans,
    find_text_no,
    is_whole_word,
)

_MIN_DIGITS = 7  # a shorter row of digits does not identify a person
# blanks, hyphens, dots, slashes, underscores, brackets, and the bytes of their Unicode
# counterparts; without commas, as a list of numbers would become one row, and the bytes of Chinese
# signs, as its commas share them
NUMBER_BYTES = make_byte_table(
    b"0123456789 .-/_()+\t" + "\u00a0\u202f\u205f\u2212".encode() + bytes(range(0x80, 0x96))
)


def join_digits(buffers: TextBuffers) -> Decoding | None:
    """Joins rows of digits by leaving out their separators (up to four bytes of blanks and signs
    between two digits). A span counts as `is_encoded` where it is its whole row, or has no
    separators inside; elsewhere its digits may belong to several numbers."""
    data, capacity = buffers.data, len(buffers.data) // 32
    while True:
        digit_offsets, row_ends = np.empty((2, capacity), np.int64)
        row_count, digit_count = find_digit_rows(
            data, buffers.offsets, NUMBER_BYTES.view(np.uint8), _MIN_DIGITS, digit_offsets, row_ends
        )
        if digit_count <= capacity:
            break
        capacity = digit_count
    if not row_count:
        return None
    digit_offsets, offsets = (
        digit_offsets[:digit_count],
        np.concatenate([[0], row_ends[:row_count]]),
    )
    row_text = find_text_no(buffers, digit_offsets[offsets[:-1]])

    def find_encoded_spans(row_no: I64, start: I64, stop: I64) -> EncodedSpans:
        first, last = (
            digit_offsets[offsets[row_no] + start],
            digit_offsets[offsets[row_no] + stop - 1] + 1,
        )
        text_start = buffers.offsets[row_text[row_no]]
        is_word = is_whole_word(buffers, row_text[row_no], first, last)
        is_whole_row = (start == 0) & (stop == offsets[row_no + 1] - offsets[row_no])
        is_encoded = is_word & (is_whole_row | (last - first == stop - start))
        return EncodedSpans(
            row_text[row_no], first - text_start, last - text_start, is_encoded, is_word
        )

    return Decoding(
        "digits", TextBuffers(data[digit_offsets], offsets).to_array(), find_encoded_spans
    )


def join_decoded_digits(outer: Decoding) -> Decoding | None:
    """Joins rows of digits in decoded pieces; spans are those of the column."""
    buffers = TextBuffers.from_array(outer.pieces)
    inner = join_digits(buffers)
    if inner is None:
        return None
    find_in_pieces = inner.find_encoded_spans

    def find_encoded_spans(row_no: I64, start: I64, stop: I64) -> EncodedSpans:
        inside = find_in_pieces(row_no, start, stop)
        found = outer.find_encoded_spans(inside.text_no, inside.start, inside.end)
        return replace(
            found,
            is_encoded=found.is_encoded & inside.is_encoded,
            is_whole_word=inside.is_whole_word,
        )

    return replace(inner, find_encoded_spans=find_encoded_spans)
