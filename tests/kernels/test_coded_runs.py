"""Runs of coded characters, what they decode to, and rows of digits, against references that look at every place."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sanitize.array_types import U8
from sanitize.core.arrow_buffers import TextBuffers, fill_columns
from sanitize.kernels.coded_runs import decode_runs, find_digit_rows, find_runs, find_uuencoded_lines

BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
VALUES: U8 = np.full(256, 255, np.uint8)
VALUES[list(BASE64)] = np.arange(64)
TEXTS = st.lists(st.lists(st.sampled_from(list(b"aAbB7=- \n\r\x00\xc3\xa9")), max_size=60).map(bytes), max_size=5)


def to_buffers(texts: Sequence[bytes]) -> TextBuffers:
    column = pa.array(texts, pa.large_binary())
    return TextBuffers.from_array(pa.LargeStringArray.from_buffers(len(column), *column.buffers()[1:]))


def to_members(alphabets: Sequence[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    members = np.zeros(256, np.uint32)
    for number, alphabet in enumerate(alphabets):
        members[list(alphabet)] |= 0xFF << 8 * number
    return members


def reference_runs(text: bytes, alphabet: bytes, min_length: int, is_joined: bool) -> list[tuple[int, int, bool]]:
    """Start, end and whether it continues the run above, of each run."""
    members = b"[" + re.escape(alphabet) + b"]"
    runs = [found.span() for found in re.finditer(members + b"+", text)]
    written: list[tuple[int, int, bool]] = []
    for start, end in runs:
        above = re.search(rb"\r?\n[ \t]?\Z", text[:start])
        is_below = bool(is_joined and above and written and written[-1][1] == above.start())
        if end - start >= min_length:
            written.append((start, end, is_below))
        elif is_below and written[-1][1] - written[-1][0] >= min_length:
            written.append((start, end, True))
    return written


@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_runs_are_those_of_the_reference(texts: list[bytes], min_lengths: list[int]) -> None:
    alphabets = [b"aAbB7", b"ab7", b"AB", b"7- "][: len(min_lengths)]
    buffers = to_buffers(texts)
    for joined in (-1, 0):
        kernel = partial(find_runs, buffers.data, buffers.offsets, to_members(alphabets), np.array(min_lengths), joined)
        number, *columns = fill_columns(kernel, 4, capacity=1)
        for row, (alphabet, min_length) in enumerate(zip(alphabets, min_lengths, strict=True)):
            expected = [
                (base + start, base + end, continues)
                for base, text in zip(buffers.offsets.tolist(), texts, strict=False)
                for start, end, continues in reference_runs(text, alphabet, min_length, row == joined)
            ]
            assert list(zip(*(column[number == row].tolist() for column in columns), strict=True)) == expected


def find_texts(data: bytes) -> list[tuple[int, int]]:
    """The longest stretches of bytes that may be text: printable ASCII, a first byte of a character before one that continues it, and a
    byte that continues a character after one of these two."""
    classes = "".join(
        "a" if 32 <= one < 127 or one in b"\t\n\r" else "c" if 0x80 <= one < 0xC0 else "l" if 0xC2 <= one < 0xF5 else "x" for one in data
    )
    return [found.span() for found in re.finditer("(?:a|l(?=c)|(?<=[lc])c)+", classes)]


def reference_pieces(run: bytes, bits: int, values: U8, alignment_count: int, min_bytes: int) -> list[tuple[bytes, list[tuple[int, int]]]]:
    """The longest texts that a run decodes to from each of its first characters on, with the characters of each byte."""
    pieces = []
    for alignment in range(alignment_count):
        digits = "".join(f"{values[byte]:0{bits}b}" for byte in run[alignment:])
        decoded = bytes(int(digits[at : at + 8], 2) for at in range(0, len(digits) - 7, 8))
        spans = [(alignment + 8 * no // bits, alignment + -(-8 * (no + 1) // bits)) for no in range(len(decoded))]
        pieces += [(decoded[start:end], spans[start:end]) for start, end in find_texts(decoded) if end - start >= min_bytes]
    return pieces


def decode(
    data: bytes, runs: list[tuple[int, int, bool]], values: U8, bits: int, alignment_count: int, min_alone: int, min_bytes: int
) -> list[tuple[bytes, list[tuple[int, int]]]]:
    starts, ends, continues = (np.array(column, np.int64) for column in zip(*runs, strict=True))
    size = 1
    while True:
        text, spans, piece_ends = np.empty(size, np.uint8), np.empty((2, size), np.int64), np.empty(size, np.int64)
        count, byte_count = decode_runs(
            *(np.frombuffer(data, np.uint8), starts, ends, continues, values, bits, alignment_count, min_alone, min_bytes),
            *(text, *spans, piece_ends),
        )
        if max(count, byte_count) <= size:
            break
        size = max(count, byte_count)
    bounds = [0, *piece_ends[:count].tolist()]
    return [
        (text[low:high].tobytes(), list(zip(*spans[:, low:high].tolist(), strict=True)))
        for low, high in zip(bounds[:-1], bounds[1:], strict=True)
    ]


@given(
    st.one_of(
        st.binary(max_size=40).map(base64.b64encode).map(lambda code: code.rstrip(b"=")),
        st.text(max_size=20).map(lambda text: base64.b64encode(text.encode()).rstrip(b"=")),
        st.lists(st.sampled_from(list(BASE64)), max_size=50).map(bytes),
    ),
    st.integers(1, 8),
)
def test_base64_is_decoded_at_each_alignment(run: bytes, min_bytes: int) -> None:
    if run:
        found = decode(run, [(0, len(run), False)], VALUES, 6, 4, 1, min_bytes)
        assert found == reference_pieces(run, 6, VALUES, 4, min_bytes)


@given(st.text(max_size=20).map(lambda text: text.encode().hex().encode()), st.binary(max_size=20).map(base64.b32encode))
def test_other_alphabets_are_decoded_at_each_alignment(hexadecimal: bytes, base32: bytes) -> None:
    for run, alphabet, bits, alignments in (
        (hexadecimal, b"0123456789abcdef", 4, 2),
        (base32.rstrip(b"="), b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 5, 8),
    ):
        values: U8 = np.full(256, 255, np.uint8)
        values[list(alphabet)] = np.arange(len(alphabet))
        if run:
            assert decode(run, [(0, len(run), False)], values, bits, alignments, 1, 3) == reference_pieces(run, bits, values, alignments, 3)


def test_runs_that_continue_each_other_are_decoded_as_one_and_alone() -> None:
    text = "Ann Roe <ann@example.com>, 12 Mill Lane"
    code = base64.b64encode(text.encode())
    data = code[:21] + b"\n" + code[21:]
    pieces = decode(data, [(0, 21, False), (22, len(data), True)], VALUES, 6, 4, 11, 8)
    whole = next(spans for piece, spans in pieces if piece == text.encode())
    assert whole[0] == (0, 2) and whole[15] == (20, 23), "a byte of both lines is of the characters from one to the other"
    assert text.encode()[:15] in [piece for piece, _ in pieces]


@given(st.lists(st.one_of(st.binary(max_size=50), st.binary(min_size=1, max_size=45).map(binascii.b2a_uu)), max_size=6), st.booleans())
def test_uuencoded_lines_are_those_of_the_reference(lines: list[bytes], has_returns: bool) -> None:
    text = b"\n".join(line.removesuffix(b"\n") + b"\r" * has_returns for line in lines)
    buffers = to_buffers([b"x", text, b"", text])
    found = list(zip(*fill_columns(partial(find_uuencoded_lines, buffers.data, buffers.offsets), 3, 1), strict=True))
    expected = []
    for base in buffers.offsets[[1, 3]].tolist():
        continues, start = False, base
        for line in text.split(b"\n"):
            code = line.removesuffix(b"\r")
            size = code[0] - 32 if code else 0
            is_code = 1 <= size <= 45 and len(code) == 1 + -(-size // 3) * 4 and all(32 <= byte <= 96 for byte in code[1:])
            if is_code:
                expected.append((start + 1, start + 1 + -(-size * 8 // 6), continues))
            continues = is_code and size % 3 == 0
            start += len(line) + 1
    assert [tuple(map(int, row)) for row in found] == [(start, end, int(continues)) for start, end, continues in expected]


@given(TEXTS.map(lambda texts: [text.replace(b"a", b"12").replace(b"b", b"345").replace(b"A", b".") for text in texts]), st.integers(1, 8))
def test_rows_of_digits_are_those_of_the_reference(texts: list[bytes], min_digits: int) -> None:
    buffers = to_buffers(texts)
    table = np.isin(np.arange(256), list(b"0123456789 .-")).astype(np.uint8)
    digits, ends = np.empty((2, max(1, len(buffers.data))), np.int64)
    row_count, digit_count = find_digit_rows(buffers.data, buffers.offsets, table, min_digits, digits, ends)
    rows = []
    for base, text in zip(buffers.offsets.tolist(), texts, strict=False):
        for found in re.finditer(rb"[0-9](?:[ .-]{0,4}[0-9])*", text):
            places = [base + found.start() + at for at, byte in enumerate(found.group()) if byte in b"0123456789"]
            if len(places) >= min_digits:
                rows.append(places)
    bounds = [0, *ends[:row_count].tolist()]
    assert digit_count == sum(map(len, rows)) and row_count == len(rows)
    assert [digits[low:high].tolist() for low, high in zip(bounds[:-1], bounds[1:], strict=True)] == rows
