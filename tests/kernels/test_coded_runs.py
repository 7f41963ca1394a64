"""Runs of coded characters, what they decode to, and rows of digits, against references that look
at every place."""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections.abc import Sequence
from functools import partial

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from sanitize.array_types import U8
from sanitize.core.arrow_buffers import fill_columns
from sanitize.kernels.coded_runs import (
    decode_ascii85,
    decode_runs,
    find_digit_rows,
    find_runs,
    find_separated_hex,
    find_uuencoded_lines,
)
from tests.support import to_buffers

BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
VALUES: U8 = np.full(256, 255, np.uint8)
VALUES[list(BASE64)] = np.arange(64)
TEXTS = st.lists(
    st.lists(st.sampled_from(list(b"aAbB7=- >\\\n\r\x00\xc3\xa9")), max_size=60).map(bytes),
    max_size=5,
)


def to_members(alphabets: Sequence[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    members = np.zeros(256, np.uint64)
    for number, alphabet in enumerate(alphabets):
        members[list(alphabet)] |= np.uint64(0xFF << 8 * number)
    return members


def reference_runs(
    text: bytes, alphabet: bytes, min_length: int, is_joined: bool
) -> list[tuple[int, int, bool]]:
    """Start, end and whether it continues the run above, of each run."""
    members = b"[" + re.escape(alphabet) + b"]"
    runs = [found.span() for found in re.finditer(members + b"+", text)]
    written: list[tuple[int, int, bool]] = []
    for start, end in runs:
        above = re.search(rb"(?<![ \t\r\\])[ \t\r\\]*\n[ \t>|#*]*\Z", text[:start])
        is_below = bool(is_joined and above and written and written[-1][1] == above.start())
        if end - start >= min_length:
            written.append((start, end, is_below))
        elif is_below and written[-1][1] - written[-1][0] >= min_length:
            written.append((start, end, True))
    return written


@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_runs_are_those_of_the_reference(texts: list[bytes], min_lengths: list[int]) -> None:
    alphabets = [b"aAbB7", b"ab7", b"AB", b"7- ", b"=b"][: len(min_lengths)]
    buffers = to_buffers(texts)
    for joined in (-1, 0):
        kernel = partial(
            find_runs,
            buffers.data,
            buffers.offsets,
            to_members(alphabets),
            np.array(min_lengths),
            joined,
        )
        number, *columns = fill_columns(kernel, 4, capacity=1)
        for row, (alphabet, min_length) in enumerate(zip(alphabets, min_lengths, strict=True)):
            expected = [
                (base + start, base + end, continues)
                for base, text in zip(buffers.offsets.tolist(), texts, strict=False)
                for start, end, continues in reference_runs(
                    text, alphabet, min_length, row == joined
                )
            ]
            assert (
                list(zip(*(column[number == row].tolist() for column in columns), strict=True))
                == expected
            )


def find_texts(data: bytes) -> list[tuple[int, int]]:
    """The longest stretches of bytes that may be text: printable ASCII, a first byte of a character
    before one that continues it, and a byte that continues a character after one of these two."""
    classes = "".join(
        "a"
        if 32 <= one < 127 or one in b"\t\n\r"
        else "c"
        if 0x80 <= one < 0xC0
        else "l"
        if 0xC2 <= one < 0xF5
        else "x"
        for one in data
    )
    return [found.span() for found in re.finditer("(?:a|l(?=c)|(?<=[lc])c)+", classes)]


def reference_pieces(
    run: bytes, bits: int, values: U8, alignment_count: int, min_bytes: int
) -> list[tuple[bytes, list[tuple[int, int]]]]:
    """The longest texts that a run decodes to from each of its first characters on, with the
    characters of each byte."""
    pieces = []
    for alignment in range(alignment_count):
        digits = "".join(f"{values[byte]:0{bits}b}" for byte in run[alignment:])
        decoded = bytes(int(digits[at : at + 8], 2) for at in range(0, len(digits) - 7, 8))
        spans = [
            (alignment + 8 * no // bits, alignment + -(-8 * (no + 1) // bits))
            for no in range(len(decoded))
        ]
        pieces += [
            (decoded[start:end], spans[start:end])
            for start, end in find_texts(decoded)
            if end - start >= min_bytes
        ]
    return pieces


def decode(
    data: bytes,
    runs: list[tuple[int, int, bool]],
    values: U8,
    bits: int,
    alignment_count: int,
    min_alone: int,
    min_bytes: int,
) -> list[tuple[bytes, list[tuple[int, int]]]]:
    starts, ends, continues = (np.array(column, np.int64) for column in zip(*runs, strict=True))
    size = 1
    while True:
        text, spans, piece_ends = (
            np.empty(size, np.uint8),
            np.empty((2, size), np.int64),
            np.empty(size, np.int64),
        )
        count, byte_count = decode_runs(
            *(
                np.frombuffer(data, np.uint8),
                starts,
                ends,
                continues,
                values,
                bits,
                alignment_count,
                min_alone,
                min_bytes,
            ),
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


@given(
    st.text(max_size=20).map(lambda text: text.encode().hex().encode()),
    st.binary(max_size=20).map(base64.b32encode),
)
def test_other_alphabets_are_decoded_at_each_alignment(hexadecimal: bytes, base32: bytes) -> None:
    for run, alphabet, bits, alignments in (
        (hexadecimal, b"0123456789abcdef", 4, 2),
        (base32.rstrip(b"="), b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 5, 8),
    ):
        values: U8 = np.full(256, 255, np.uint8)
        values[list(alphabet)] = np.arange(len(alphabet))
        if run:
            assert decode(
                run, [(0, len(run), False)], values, bits, alignments, 1, 3
            ) == reference_pieces(run, bits, values, alignments, 3)


def test_runs_that_continue_each_other_are_decoded_as_one_and_alone() -> None:
    text = "Ann Roe <ann@example.com>, 12 Mill Lane"
    code = base64.b64encode(text.encode())
    data = code[:21] + b"\n" + code[21:]
    pieces = decode(data, [(0, 21, False), (22, len(data), True)], VALUES, 6, 4, 11, 8)
    whole = next(spans for piece, spans in pieces if piece == text.encode())
    assert whole[0] == (0, 2) and whole[15] == (20, 23), (
        "a byte of both lines is of the characters from one to the other"
    )
    assert text.encode()[:15] in [piece for piece, _ in pieces]


@given(
    st.lists(
        st.one_of(st.binary(max_size=50), st.binary(min_size=1, max_size=45).map(binascii.b2a_uu)),
        max_size=6,
    ),
    st.booleans(),
)
def test_uuencoded_lines_are_those_of_the_reference(lines: list[bytes], has_returns: bool) -> None:
    text = b"\n".join(line.removesuffix(b"\n") + b"\r" * has_returns for line in lines)
    buffers = to_buffers([b"x", text, b"", text])
    found = list(
        zip(
            *fill_columns(partial(find_uuencoded_lines, buffers.data, buffers.offsets), 3, 1),
            strict=True,
        )
    )
    expected = []
    for base in buffers.offsets[[1, 3]].tolist():
        continues, start = False, base
        for line in text.split(b"\n"):
            code = line.removesuffix(b"\r")
            size = code[0] - 32 if code else 0
            is_code = (
                1 <= size <= 45
                and len(code) == 1 + -(-size // 3) * 4
                and all(32 <= byte <= 96 for byte in code[1:])
            )
            if is_code:
                expected.append((start + 1, start + 1 + -(-size * 8 // 6), continues))
            continues = is_code and size % 3 == 0
            start += len(line) + 1
    assert [tuple(map(int, row)) for row in found] == [
        (start, end, int(continues)) for start, end, continues in expected
    ]


@given(
    TEXTS.map(
        lambda texts: [
            text.replace(b"a", b"12").replace(b"b", b"345").replace(b"A", b".") for text in texts
        ]
    ),
    st.integers(1, 8),
)
def test_rows_of_digits_are_those_of_the_reference(texts: list[bytes], min_digits: int) -> None:
    buffers = to_buffers(texts)
    table = np.isin(np.arange(256), list(b"0123456789 .-")).astype(np.uint8)
    digits, ends = np.empty((2, max(1, len(buffers.data))), np.int64)
    row_count, digit_count = find_digit_rows(
        buffers.data, buffers.offsets, table, min_digits, digits, ends
    )
    rows = []
    for base, text in zip(buffers.offsets.tolist(), texts, strict=False):
        for found in re.finditer(rb"[0-9](?:[ .-]{0,4}[0-9])*", text):
            places = [
                base + found.start() + at
                for at, byte in enumerate(found.group())
                if byte in b"0123456789"
            ]
            if len(places) >= min_digits:
                rows.append(places)
    bounds = [0, *ends[:row_count].tolist()]
    assert digit_count == sum(map(len, rows)) and row_count == len(rows)
    assert [
        digits[low:high].tolist() for low, high in zip(bounds[:-1], bounds[1:], strict=True)
    ] == rows


def reference_separated_hex(run: bytes, min_bytes: int) -> list[list[int]]:
    """Where the pairs of digits of each sequence begin: the longest sequences of groups with the
    same sign between them."""
    groups = [
        (found.start(2), found.group(2))
        for found in re.finditer(rb"(0[xX])?([0-9A-Fa-f]+|(?<=x)|(?<=X))|[xX]", run)
        if found[2]
    ]
    # between each group and the next one; None where there can be no sequence
    signs, are_lines = ([], [])
    for (start, group), (following, _) in itertools.pairwise(groups):
        between = re.fullmatch(
            rb"([ \t\r\n]*)([,:;-]?)([ \t\r\n]*)(?:0[xX])?", run[start + len(group) : following]
        )
        is_separator = (
            between
            and (between[1] or between[2] or between[3])
            and len(between[1] + between[3]) <= 40
        )
        are_lines.append(b"\n" in run[start + len(group) : following])
        signs.append(between[2] if is_separator and between else None)
    sequences: list[list[int]] = []
    first = 0
    while first < len(groups):
        last = first
        while last + 1 < len(groups) and signs[last] is not None and signs[last] == signs[first]:
            lengths = len(groups[last][1]), len(groups[last + 1][1])
            if (
                lengths[0] % 2
                or lengths[1] % 2
                or (lengths[0] >= 6 and lengths[1] <= 4 and not are_lines[last])
            ):
                break
            last += 1
        is_even = len(groups[first][1]) % 2 == 0
        if is_even:
            pairs = [
                start + at
                for start, group in groups[first : last + 1]
                for at in range(0, len(group), 2)
            ]
            sequences += [pairs] if len(pairs) >= min_bytes else []
        is_sign = (
            last > first
            and last + 1 < len(groups)
            and signs[last] is not None
            and len(groups[last + 1][1]) % 2 == 0
        )
        is_address = (
            is_sign
            and len(groups[last][1]) >= 6
            and len(groups[last + 1][1]) <= 4
            and not are_lines[last]
        )
        first = last if is_sign and not is_address else last + 1
    return sequences


HEX_PARTS = [
    b"71",
    b"75",
    b"6E",
    b"7175",
    b"717569",
    b"00000030",
    b"7",
    b" ",
    b" ",
    b":",
    b", ",
    b"-",
    b"\n  ",
    b"0x",
    b"x",
    b" " * 41,
]


@given(st.lists(st.sampled_from(HEX_PARTS), max_size=20).map(b"".join), st.integers(1, 5))
@example(b"00000030: 7175 696E 7175", 3)
@example(b"00000030  71 75 69", 3)
@example(b"717569\n  71", 4)
@example(b"71:75 69 71", 3)
@example(b"0x71, 0x75,\n  0x69", 3)
def test_sequences_of_hexadecimal_groups_are_those_of_the_reference(
    run: bytes, min_bytes: int
) -> None:
    data = np.frombuffer(b"zz" + run + b"z", np.uint8)
    starts, ends = np.array([2]), np.array([2 + len(run)])
    found = fill_columns(partial(find_separated_hex, data, starts, ends, min_bytes), 3, 1)
    expected = reference_separated_hex(run, min_bytes)
    assert [start - 2 for start in found[0].tolist()] == [
        start for pairs in expected for start in pairs
    ]
    assert (found[1] - found[0] == 2).all()
    assert found[2].tolist() == [
        int(number > 0) for pairs in expected for number in range(len(pairs))
    ]


@given(
    st.lists(st.text("aZ<~ \n\u00e9", max_size=30), max_size=4),
    st.sampled_from([0, 7, 20]),
    st.booleans(),
    st.sampled_from(["", "<", "<~ ", "~>", "z", "x"]),
)
def test_ascii85_is_decoded_as_the_standard_library_does(
    texts: list[str], width: int, is_ended: bool, beside: str
) -> None:
    codes = [base64.a85encode(text.encode(), adobe=True, wrapcol=width) for text in texts]
    column = [
        beside.encode() + (code if is_ended else code[:-2]) + b"\x00" + beside.encode()
        for code in codes
    ]
    buffers, size = to_buffers(column), 1
    while True:
        text, spans, piece_ends = (
            np.empty(size, np.uint8),
            np.empty((2, size), np.int64),
            np.empty(size, np.int64),
        )
        count, byte_count = decode_ascii85(
            buffers.data, buffers.offsets, 1, text, *spans, piece_ends
        )
        if max(count, byte_count) <= size:
            break
        size = max(count, byte_count)
    assert text[:byte_count].tobytes() == "".join(texts).encode()
    for start, end in spans[:, :byte_count].T.tolist():
        group = buffers.data[start:end].tobytes()
        assert (
            2 <= len(group.translate(None, b" \n\t\r")) <= 5
            and group[:1].strip()
            and group[-1:].strip()
        )
