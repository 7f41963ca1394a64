"""`find_digit_lines` returns every line that may contain a number, in order; no piece has more than one line without the values found."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.kinds.kind import Kind, all_kinds
from sanitize.text.digit_lines import find_digit_lines

NUMBERED = [kind for kind in all_kinds().values() if kind.digit_lines_only]
MARKS = re.compile(rb"[0-9]|[.][^\n]{4}[.]|-[^\n]{2}-|:[^\n]{0,4}:", re.DOTALL)
TEXTS = st.lists(st.text(st.sampled_from("ab .:-1é\n"), max_size=40), max_size=5)


def buffers(texts: list[str]) -> TextBuffers:
    return TextBuffers.from_array(pa.array(texts, pa.large_string()))


def pieces(given: TextBuffers, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    low, high = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    found = find_digit_lines(given, low, high)
    data, places = found.buffers.data, found.piece_starts
    behind = np.append(places[1:], len(data))
    parted = ~np.isin(behind, found.buffers.offsets)  # by a byte that is no piece's
    sizes = behind - parted - places
    assert (data[behind[parted] - 1] == 0x7F).all()
    for start, size, place in zip(found.column_starts, sizes, places, strict=True):
        assert data[place : place + size].tobytes() == given.data[start : start + size].tobytes()
    inner = [place + at for place, size in zip(places.tolist(), sizes.tolist(), strict=True) for at in range(size)]
    expected = [start + at for start, size in zip(found.column_starts.tolist(), sizes.tolist(), strict=True) for at in range(size)]
    assert found.to_column(np.array(inner, np.int64)).tolist() == expected
    assert len(found.buffers.offsets) - 1 <= len(places) // 16 + 1
    return list(zip(found.column_starts.tolist(), (found.column_starts + sizes).tolist(), strict=True))


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.data())
def test_every_line_with_a_mark_is_there_without_what_was_found(texts: list[str], data: st.DataObject) -> None:
    given = buffers(texts)
    whole = given.data.tobytes()
    places = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8))) if whole else []
    spans = [span for span in zip(places, places[1:], strict=False) if data.draw(st.booleans())]
    made = pieces(given, spans)
    assert made == sorted(made)
    assert all(start < stop for start, stop in made)
    covered = np.zeros(len(whole), np.bool_)
    for start, stop in made:
        assert not covered[start:stop].any()
        covered[start:stop] = True
        assert not any(start < edge < stop for edge in given.offsets.tolist())
    taken = np.zeros(len(whole), np.bool_)
    for start, stop in spans:
        assert not covered[start:stop].any()
        taken[start:stop] = True
    # the rest of a line with a digit is returned, up to both ends of the line
    at = 0
    for text in texts:
        for line in text.encode().split(b"\n"):
            free = ~taken[at : at + len(line)]
            if MARKS.search(bytes(byte if open_ else 1 for byte, open_ in zip(line, free, strict=True))):
                assert covered[at : at + len(line)][free].all()
            at += len(line) + 1
        at -= 1


def test_a_long_text_without_marks_is_not_looked_at() -> None:
    text = "Nothing to see here, and nothing there... either - or so\n" * 20_000
    assert pieces(buffers([text]), []) == []
    beyond = len(text) + 262_144 - len(text) % 262_144  # a mark on both sides of the edge of a block
    text = text + "x" * (beyond - len(text) - 3) + "aa:bb:cc\n"
    [(start, stop)] = pieces(buffers([text, text[:-1]]), [])[:1]
    assert text.encode()[start:stop].endswith(b"aa:bb:cc")
    assert len(pieces(buffers([text, text[:-1]]), [])) == 2


@pytest.mark.parametrize("kind", NUMBERED, ids=lambda kind: kind.name)
def test_no_number_is_elsewhere(kind: Kind) -> None:
    """Every match of a pattern of a numeric kind is on such a line, and contains no line end."""
    pattern = kind.pattern.replace(r"(?-u:\b)", r"\b")

    @settings(max_examples=15, deadline=None, database=None)
    @given(st.from_regex(re.compile(pattern, re.ASCII)))
    def check(text: str) -> None:
        text = "".join(letter for letter in text if not "\ud800" <= letter <= "\udfff")
        given = buffers([text])
        made = pieces(given, [])
        for match in re.finditer(pattern, text, re.ASCII):
            start, stop = (len(text[:place].encode()) for place in match.span())
            assert "\n" not in match.group()
            assert any(low <= start and stop <= high for low, high in made)
        # a piece is between two of these bytes, or at an end of its text: a pattern does not distinguish these
        beside = [(start - 1, stop - 1) for start, stop in (one.span() for one in re.finditer(pattern, f"\x7f{text}\x7f", re.ASCII))]
        assert beside == [match.span() for match in re.finditer(pattern, text, re.ASCII)]

    check()


def test_the_numeric_kinds_are_those_of_the_later_turns() -> None:
    """Ages and dates may be written in words, so their whole phase is searched in all lines."""
    others = {kind.name for kind in all_kinds().values() if kind.pattern and kind.phase > 1 and not kind.digit_lines_only}
    assert others == {"AGE", "DATE_TIME", "USER_NAME"}
    assert all(kind.phase > 1 for kind in NUMBERED)
