"""Hash tables of ids against Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sanitize.kernels import value_sets

FACTOR = 0x9E3779B97F4A7C15
IDS = st.integers(0, 20) | st.integers(0, (1 << 63) - 1)


def make_table(ids: list[int], spare: int = 0) -> np.ndarray:
    table = np.zeros(1 << int(2 * (len(ids) + spare)).bit_length(), np.uint64)
    value_sets.insert(np.array(ids, np.int64), table)
    return table


@given(st.lists(IDS), st.lists(IDS))
def test_a_table_contains_what_was_inserted(ids: list[int], others: list[int]) -> None:
    found = np.empty(len(others), np.uint8)
    value_sets.contains(np.array(others, np.int64), make_table(ids), found)
    known = {number or 1 for number in ids}  # the id 0 is stored as 1
    assert found.tolist() == [(number or 1) in known for number in others]


@given(st.lists(IDS), st.lists(st.tuples(IDS, IDS, IDS)))
def test_a_row_is_found_if_one_of_its_ids_is_in_the_table(
    ids: list[int], rows: list[tuple[int, int, int]]
) -> None:
    found = np.empty(len(rows), np.uint8)
    value_sets.contains_any(np.array(rows, np.int64).reshape(-1, 3), make_table(ids), found)
    known = {number or 1 for number in ids}
    # 0: none
    assert found.tolist() == [any(number in known for number in row if number) for row in rows]


def reference_accept(draws: list[list[tuple[int, bool]]], doc_no: list[int]) -> list[int]:
    """Attempt by attempt: each occurrence without a draw gets the next one if no occurrence of its
    document has it."""
    accepted = [-1] * len(draws)
    used: set[tuple[int, int]] = set()
    for attempt in range(len(draws[0]) if draws else 0):
        for row, own in enumerate(draws):
            number, usable = own[attempt]
            if accepted[row] < 0 and usable and (doc_no[row], number) not in used:
                used.add((doc_no[row], number))
                accepted[row] = row * len(own) + attempt
    return accepted


@given(
    st.integers(1, 4).flatmap(
        lambda attempts: st.lists(
            st.tuples(
                st.integers(0, 2),
                st.lists(
                    st.tuples(st.integers(2, 9), st.booleans()),
                    min_size=attempts,
                    max_size=attempts,
                ),
            ),
            max_size=12,
        )
    ),
)
def test_the_first_new_draw_is_accepted(rows: list[tuple[int, list[tuple[int, bool]]]]) -> None:
    draws, doc_no = [own for _, own in rows], [doc for doc, _ in rows]
    flat = [draw for own in draws for draw in own]
    accepted = np.empty(len(rows), np.int64)
    value_sets.accept_new(
        np.array([number for number, _ in flat], np.int64),
        np.array([usable for _, usable in flat], np.uint8),
        np.array(doc_no, np.int64),
        FACTOR,
        make_table([], len(rows)),
        accepted,
    )
    assert accepted.tolist() == reference_accept(draws, doc_no)
