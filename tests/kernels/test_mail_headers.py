"""Kernels of mail headers against references that read a text line by line."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.kernels import mail_headers

TEXTS = st.lists(
    st.lists(
        st.sampled_from([*"aB:- \t\n\r", "\n", "\n\n", "\r\n", "To:", "\n x"]), max_size=20
    ).map("".join),
    max_size=4,
)


def layout(texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bytes of the texts, and where each begins and ends."""
    offsets = np.cumsum([0, *(len(text) for text in texts)])
    return np.frombuffer("".join(texts).encode(), np.uint8), offsets[:-1].copy(), offsets[1:].copy()


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_blocks_end_at_the_first_empty_line(texts: list[str]) -> None:
    data, starts, ends = layout(texts)
    found = np.empty(len(texts), np.int64)
    mail_headers.find_block_ends(data, starts, ends, found)
    empty_lines = [re.search(r"\n\r?\n", text) for text in texts]
    expected = [
        match.start() if match else len(text)
        for match, text in zip(empty_lines, texts, strict=True)
    ]
    assert (found - starts).tolist() == expected


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.data())
def test_fields_begin_above_their_folded_lines(texts: list[str], draw: st.DataObject) -> None:
    data, starts, _ = layout(texts)
    positions, text_starts, foldable, expected = [], [], [], []
    for text, start in zip(texts, starts.tolist(), strict=True):
        places = (
            sorted(draw.draw(st.sets(st.integers(0, max(len(text) - 1, 0)), max_size=6)))
            if text
            else []
        )
        header_end = draw.draw(
            st.sampled_from([0, *(match.end() for match in re.finditer("\n", text)), len(text)])
        )
        for place in places:
            line = text.rfind("\n", 0, place) + 1
            while place < header_end and line > 0 and text[line] in " \t":
                line = text.rfind("\n", 0, line - 1) + 1
            positions.append(start + place)
            text_starts.append(start)
            foldable.append(place < header_end)
            expected.append(start + line)
    found = np.empty(len(positions), np.int64)
    mail_headers.find_field_starts(
        data,
        np.array(text_starts, np.int64),
        np.array(positions, np.int64),
        np.array(foldable, np.bool_).view(np.uint8),
        found,
    )
    assert found.tolist() == expected


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.data())
def test_names_end_at_the_first_colon_of_a_line(texts: list[str], draw: st.DataObject) -> None:
    text = "".join(texts)
    data = np.frombuffer(text.encode(), np.uint8)
    pairs = draw.draw(st.lists(st.tuples(*[st.integers(0, len(text))] * 2).map(sorted), max_size=6))
    lines, ceilings = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    found = np.empty(len(pairs), np.int64)
    mail_headers.find_name_ends(data, lines, ceilings, 5, found)
    expected = []
    for line, ceiling in pairs:
        colon = re.match(r"[^:\n]{0,5}(?=:)", text[line:ceiling])
        expected.append(line + colon.end() if colon else line)
    assert found.tolist() == expected
