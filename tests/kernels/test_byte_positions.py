"""Bytes that a kind forbids before or after a value, against the rule in Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sanitize.kernels import byte_positions as kernel

WORD_BYTES, NOT_BEFORE, NOT_AFTER = b"ab1", [b"a1", b"-"], [b"b", b"-1"]


def byte_tables(members: list[bytes]) -> np.ndarray:
    return np.array([[byte in one for byte in range(256)] for one in members], np.uint8)


@given(
    st.lists(st.text("ab1- ", max_size=8).map(str.encode), min_size=1, max_size=4),
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 8),
            st.integers(0, 8),
            st.integers(0, 1),
            st.integers(0, 3),
        ),
        max_size=12,
    ),
)
def test_forbidden_neighbours_are_those_of_the_rule(
    texts: list[bytes], drawn: list[tuple[int, int, int, int, int]]
) -> None:
    rows = []
    for text_no, first, last, kind, cuts in drawn:
        text_no %= len(texts)
        start, end = sorted((min(first, len(texts[text_no])), min(last, len(texts[text_no]))))
        rows.append((text_no, start, end, kind, cuts))

    def reference(text_no: int, start: int, end: int, kind: int, cuts: int) -> bool:
        text = texts[text_no]
        before = (
            start > 0 and text[start] in WORD_BYTES and text[start - 1] in NOT_BEFORE[kind]
            if start < end
            else False
        )
        after = (
            end < len(text) and text[end - 1] in WORD_BYTES and text[end] in NOT_AFTER[kind]
            if start < end
            else False
        )
        return (before and not cuts & 1) or (after and not cuts & 2)

    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    text_nos, starts, ends, kinds, cuts = np.array(rows, np.int64).reshape(-1, 5).T
    is_forbidden = np.empty(len(rows), np.uint8)
    kernel.find_forbidden_neighbours(
        np.frombuffer(b"".join(texts), np.uint8),
        offsets,
        np.ascontiguousarray(text_nos),
        starts + offsets[text_nos],
        ends + offsets[text_nos],
        kinds.astype(np.int32),
        cuts.astype(np.uint8),
        byte_tables([WORD_BYTES])[0],
        byte_tables(NOT_BEFORE),
        byte_tables(NOT_AFTER),
        is_forbidden,
    )
    assert is_forbidden.tolist() == [reference(*row) for row in rows]
