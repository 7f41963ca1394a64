"""Collapsed white space and the way back to the original bytes, against regular expressions."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sanitize.finders.known import CollapsedTexts
from sanitize.text.literal_search import LiteralMatches
from tests.support import to_buffers


@given(st.lists(st.text("ab\u00e9\u2028 \t\n\r\v\f\0", max_size=12).map(str.encode), max_size=5))
def test_collapsed_texts_are_those_of_the_reference(texts: list[bytes]) -> None:
    collapsed = CollapsedTexts(to_buffers(texts))
    expected = [re.sub(rb"[ \t\n\v\f\r]+", b" ", text) for text in texts]
    assert [text.encode() for text in collapsed.texts.to_pylist()] == expected
    # every span of a collapsed text is the span of the original from its first byte to its last; a
    # blank is the first one of its run
    for text_no, (original, text) in enumerate(zip(texts, expected, strict=True)):
        kept = [
            match.start()
            for match in re.finditer(
                rb"(?s)(?<![ \t\n\v\f\r])[ \t\n\v\f\r]|[^ \t\n\v\f\r]", original
            )
        ]
        spans = [
            (start, end) for start in range(len(text)) for end in range(start + 1, len(text) + 1)
        ]
        start, end = (
            (np.array(column, np.int64) for column in zip(*spans, strict=True))
            if spans
            else (np.empty(0, np.int64),) * 2
        )
        row = np.full(len(start), text_no, np.int64)
        found = collapsed.to_original(LiteralMatches(row, start, end, row))
        assert [column.tolist() for column in (found.text_no, found.start, found.end)] == [
            row.tolist(),
            [kept[first] for first in start.tolist()],
            [kept[last - 1] + 1 for last in end.tolist()],
        ]
