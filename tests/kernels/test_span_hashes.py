"""The hashes of the kernel against references in Python integers, SipHash's written from the
paper's definition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.keys import Draws, siphash

MASK = (1 << 64) - 1


def rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK


def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & MASK
    v1 = rotate(v1, 13) ^ v0
    v0 = rotate(v0, 32)
    v2 = (v2 + v3) & MASK
    v3 = rotate(v3, 16) ^ v2
    v0 = (v0 + v3) & MASK
    v3 = rotate(v3, 21) ^ v0
    v2 = (v2 + v1) & MASK
    v1 = rotate(v1, 17) ^ v2
    return v0, v1, rotate(v2, 32), v3


def reference_siphash(message: bytes, key: bytes) -> int:
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = (
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    )
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v = v[0], v[1], v[2], v[3] ^ word
        v = sip_round(*sip_round(*v))
        v = v[0] ^ word, v[1], v[2], v[3]
    v = v[0], v[1], v[2] ^ 0xFF, v[3]
    for _ in range(4):
        v = sip_round(*v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@given(
    st.lists(st.binary(max_size=70), max_size=8),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 3),
)
def test_texts_are_hashed_as_by_the_reference(texts: list[bytes], key: bytes, offset: int) -> None:
    column = pa.array(texts, pa.large_binary()).slice(offset)
    assert siphash(column, key).tolist() == [
        reference_siphash(text, key) for text in texts[offset:]
    ]


@given(
    st.lists(
        st.tuples(*[st.integers(0, MASK)] * 3, st.integers(0, (1 << 32) - 1)),
        min_size=1,
        max_size=6,
    ),
    st.binary(min_size=16, max_size=16),
    st.integers(0, (1 << 32) - 1),
    st.booleans(),
)
def test_draws_are_the_hash_of_their_words(
    rows: list[tuple[int, int, int, int]], key: bytes, attempt: int, one_lane: bool
) -> None:
    columns = np.array(rows, np.uint64)
    draws = Draws.from_words(key, *columns[:, :3].T).with_attempt(attempt)
    lanes = [rows[0][3]] * len(rows) if one_lane else [row[3] for row in rows]
    drawn = draws.u64(lanes[0] if one_lane else np.array(lanes, np.uint64))
    expected = [
        reference_siphash(
            b"".join(word.to_bytes(8, "little") for word in (*row[:3], attempt << 32 | lane)), key
        )
        for row, lane in zip(rows, lanes, strict=True)
    ]
    assert drawn.tolist() == expected
