"""Pieces of texts: every part of a line that may contain a number without the values that were
found, and every run around an anchor."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.kinds.kind import Alternative, Kind, all_kinds
from sanitize.text.text_pieces import LiteralTable, TextPieces, find_digit_lines, find_runs
from tests.support import to_buffers

NUMERIC_KINDS = [kind for kind in all_kinds().values() if kind.digit_lines_only]
MARKS = re.compile(rb"[0-9]|[.][^\n]{4}[.]|-[^\n]{2}-|:[^\n]{0,4}:", re.DOTALL)
TEXTS = st.lists(st.text(st.sampled_from("ab .:-1é\n"), max_size=40), max_size=5)


def find_pieces(column: TextBuffers, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    low, high = (np.array([span[side] for span in spans], np.int64) for side in (0, 1))
    found = find_digit_lines(column, low, high)
    data, starts = found.buffers.data, found.piece_starts
    ends = np.append(starts[1:], len(data))[: len(starts)]
    sizes = ends - 1 - starts  # a byte that belongs to no piece separates them
    assert (data[ends - 1] == 0x7F).all()
    for start, size, start_in_pieces in zip(found.column_starts, sizes, starts, strict=True):
        assert (
            data[start_in_pieces : start_in_pieces + size].tobytes()
            == column.data[start : start + size].tobytes()
        )
    inner = [
        start_in_pieces + offset
        for start_in_pieces, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        for offset in range(size)
    ]
    expected = [
        start + offset
        for start, size in zip(found.column_starts.tolist(), sizes.tolist(), strict=True)
        for offset in range(size)
    ]
    assert found.to_column(np.array(inner, np.int64)).tolist() == expected
    assert len(found.buffers.offsets) - 1 <= len(starts) // 16 + 1
    return list(
        zip(found.column_starts.tolist(), (found.column_starts + sizes).tolist(), strict=True)
    )


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.data())
def test_returns_every_line_with_a_mark_except_found_spans(
    texts: list[str], data: st.DataObject
) -> None:
    column = to_buffers(texts)
    data_bytes = column.data.tobytes()
    edges = (
        sorted(data.draw(st.sets(st.integers(0, len(data_bytes)), max_size=8)))
        if data_bytes
        else []
    )
    spans = [span for span in zip(edges, edges[1:], strict=False) if data.draw(st.booleans())]
    pieces = find_pieces(column, spans)
    assert pieces == sorted(pieces)
    assert all(start < stop for start, stop in pieces)
    covered = np.zeros(len(data_bytes), np.bool_)
    for start, stop in pieces:
        assert not covered[start:stop].any()
        covered[start:stop] = True
        assert not any(start < edge < stop for edge in column.offsets.tolist())
    found_bytes = np.zeros(len(data_bytes), np.bool_)
    for start, stop in spans:
        assert not covered[start:stop].any()
        found_bytes[start:stop] = True
    # what the spans leave of a line is a piece if it has a mark
    expected, text_start = [], 0
    for text in texts:
        line_start = text_start
        for line in text.encode().split(b"\n"):
            not_found = bytes(
                b" \n"[int(is_found)]
                for is_found in found_bytes[line_start : line_start + len(line)]
            )
            free_spans = [free.span() for free in re.finditer(b" +", not_found)]
            expected += [
                (line_start + low, line_start + high)
                for low, high in free_spans
                if MARKS.search(line[low:high])
            ]
            line_start += len(line) + 1
        text_start += len(text.encode())
    assert pieces == expected


def test_a_long_text_without_marks_has_no_pieces() -> None:
    text = "Nothing to see here, and nothing there... either - or so\n" * 20_000
    assert find_pieces(to_buffers([text]), []) == []
    # a mark on both sides of the edge of a block
    block_end = len(text) + 262_144 - len(text) % 262_144
    text = text + "x" * (block_end - len(text) - 3) + "aa:bb:cc\n"
    [(start, stop)] = find_pieces(to_buffers([text, text[:-1]]), [])[:1]
    assert text.encode()[start:stop].endswith(b"aa:bb:cc")
    assert len(find_pieces(to_buffers([text, text[:-1]]), [])) == 2


@pytest.mark.parametrize("kind", NUMERIC_KINDS, ids=lambda kind: kind.name)
def test_matches_of_numeric_kinds_are_on_returned_lines(kind: Kind) -> None:
    """Every match of a pattern of a numeric kind is on such a line, and contains no line end."""
    pattern = kind.pattern.replace(r"(?-u:\b)", r"\b")

    @settings(max_examples=15, deadline=None, database=None)
    @given(st.from_regex(re.compile(pattern, re.ASCII)))
    def check(text: str) -> None:
        text = "".join(letter for letter in text if not "\ud800" <= letter <= "\udfff")
        column = to_buffers([text])
        pieces = find_pieces(column, [])
        for match in re.finditer(pattern, text, re.ASCII):
            if kind.name == "IT_FISCAL_CODE" and not re.search("[0-9]", match.group()):
                continue  # its check refuses a code without digits
            start, stop = (len(text[:position].encode()) for position in match.span())
            assert "\n" not in match.group()
            assert any(low <= start and stop <= high for low, high in pieces)
        # a piece is between two of these bytes, or at an end of its text: a pattern does not
        # distinguish these
        delimited_spans = [
            (start - 1, stop - 1)
            for start, stop in (
                match.span() for match in re.finditer(pattern, f"\x7f{text}\x7f", re.ASCII)
            )
        ]
        assert delimited_spans == [match.span() for match in re.finditer(pattern, text, re.ASCII)]

    check()


def test_numeric_kinds_are_searched_in_the_later_phases() -> None:
    """Ages and dates may be written in words, so their whole phase is searched in all lines."""
    other_kinds = {
        kind.name
        for kind in all_kinds().values()
        if kind.pattern and kind.phase > 1 and not kind.digit_lines_only and not kind.landmarks
    }
    assert other_kinds == {"AGE", "DATE_TIME", "USER_NAME"}
    assert all(kind.phase > 1 for kind in NUMERIC_KINDS)


# ---- the text around landmarks ----


def test_pieces_around_landmarks_are_whole_characters_of_one_text() -> None:
    texts = ["é" * 300 + "X" + "é" * 300 + "X" + "a" * 900, "X", "", "b" * 10 + "X"]
    buffers = to_buffers(texts)
    marks = np.flatnonzero(buffers.data == ord("X"))
    pieces = TextPieces.around_spans(buffers, marks, marks + 1)
    data = pieces.buffers.data.tobytes()
    joined = b"\x7f".join(
        [
            *((b"\xc3\xa9" * 80 + b"X" + b"\xc3\xa9" * 160)[:481],),
            *((b"\xc3\xa9" * 80 + b"X" + b"a" * 320),),
        ]
    )
    assert data == joined + b"\x7fX\x7f" + b"b" * 10 + b"X\x7f"
    assert (
        pieces.to_column(np.flatnonzero(pieces.buffers.data == ord("X"))).tolist() == marks.tolist()
    )
    pieces.mask_spans(marks[:1] - 2, marks[1:2] + 1)
    masked = pieces.buffers.data.tobytes()
    assert masked.count(b"X") == 2 and len(masked) == len(data) and b"b" * 10 + b"X" in masked
    none = np.empty(0, np.int64)
    assert not len(TextPieces.around_spans(buffers, none, none).buffers.data)


# ---- runs around anchors ----

ANCHORS, MARKING = ("@", "://", "[at", "( at"), {"one": ("=40", "b"), "two": ("b ", " at ")}
RUN_TEXTS = st.lists(
    st.lists(
        st.sampled_from(
            [*"ab=@:/[](<> \n\r\x00\x7fé", "=\n", "=\r\n", "://", "[at", "( at", "=40", " at "]
        ),
        max_size=25,
    ).map("".join),
    max_size=4,
)


def reference_runs(text: bytes) -> list[tuple[int, int]]:
    """The runs of a text that contain an anchor, byte by byte from the definition."""
    is_separator = []
    for position, byte in enumerate(text):
        before, after = text[position - 1 : position], text[position + 1 : position + 2]
        if byte == 32:
            is_separator.append(
                not (before and before in b"()<>[]{}") and not (after and after in b"()<>[]{}")
            )
        elif byte == 10:
            is_separator.append(before != b"=" and text[max(position - 2, 0) : position] != b"=\r")
        elif byte == 13:
            is_separator.append(before != b"=")
        else:
            is_separator.append(byte < 32 or byte == 127)
    runs = [
        match.span()
        for match in re.finditer(b"o+", bytes(b"oX"[separates] for separates in is_separator))
    ]
    # a literal of one byte is not looked for at the end of a text
    findable = text[:-1] + b" " if text.endswith(b"@") else text
    return [
        run for run in runs if any(anchor.encode() in findable[slice(*run)] for anchor in ANCHORS)
    ]


@settings(max_examples=300, deadline=None)
@given(RUN_TEXTS)
def test_runs_and_marks_are_those_of_the_reference(texts: list[str]) -> None:
    column = to_buffers(texts)
    table = LiteralTable.build(ANCHORS, MARKING)
    starts, ends, marks = find_runs(column, table)
    offsets = column.offsets.tolist()
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [
        (offset + low, offset + high)
        for offset, text in zip(offsets, texts, strict=False)
        for low, high in reference_runs(text.encode())
    ]
    for text, mark in zip(texts, marks.tolist(), strict=True):
        # a literal of one byte is not looked for at the end of a text
        expected = {
            name
            for name, literals in MARKING.items()
            if any(one in (text[:-1] if len(one) == 1 else text) for one in literals)
        }
        assert {name for name, bit in table.bits.items() if mark >> bit & 1} == expected


def test_many_runs_and_runs_of_any_length() -> None:
    texts = ["@ " * 5_000, "a" * 100_000 + "@" + "b" * 100_000, "", "@", "x@"]
    starts, ends, _ = find_runs(to_buffers(texts), LiteralTable.build(ANCHORS, {}))
    assert len(starts) == 5_001 and (ends - starts).max() == 200_001


def to_python(pattern: str) -> re.Pattern[str]:
    pattern = pattern.replace(r"(?-u:\b)", r"\b").replace(r"\z", r"\Z").replace("(?i-u:", "(?i:")
    return re.compile(pattern, re.ASCII)


ALTERNATIVES = [
    pytest.param(kind, alternative, marks=[pytest.mark.slow] if kind.landmarks else [])
    for kind in all_kinds().values()
    if kind.alternatives or kind.anchors
    for alternative in kind.list_alternatives()
]


@pytest.mark.parametrize(
    ("kind", "alternative"),
    ALTERNATIVES,
    ids=lambda value: value.name if isinstance(value, Kind) else value.pattern[:20],
)
def test_matches_meet_the_conditions_of_their_alternative(
    kind: Kind, alternative: Alternative
) -> None:
    """Every match is in a run with an anchor, or contains a landmark and an anchor, or a literal of
    its alternative and matches its conditions."""
    pattern = to_python(alternative.pattern)
    table = LiteralTable.build(kind.anchors, {})

    # a pattern with landmarks is long, and Python's engine slow on it
    @settings(max_examples=5 if kind.landmarks else 40, deadline=None, database=None)
    @given(st.from_regex(pattern))
    def check(text: str) -> None:
        text = "".join(letter for letter in text if not "\ud800" <= letter <= "\udfff")
        matches = list(pattern.finditer(text))
        if alternative.is_conditional:
            if matches and alternative.literals:
                assert any(literal in text for literal in alternative.literals)
            for condition in alternative.conditions:
                assert to_python(condition).search(text) or not matches
            return
        if kind.landmarks:
            for match in matches:
                assert pl.Series([match.group()]).str.contains(kind.landmarks).all()
                assert any(anchor in match.group() for anchor in kind.anchors)
            return
        starts, ends, _ = find_runs(to_buffers([text]), table)
        runs = list(zip(starts.tolist(), ends.tolist(), strict=True))
        for match in matches:
            low, high = (len(text[:position].encode()) for position in match.span())
            assert any(start <= low and high <= end for start, end in runs)

    check()


LATER = [
    (name, alternative)
    for kind in all_kinds().values()
    for name, alternative in (("tokens", kind.tokens), ("labelled", kind.labelled_text))
    if alternative
]


@pytest.mark.parametrize(("name", "alternative"), LATER, ids=lambda value: str(value)[:8])
def test_tokens_are_in_runs_and_labels_in_lines_with_a_literal(
    name: str, alternative: Alternative
) -> None:
    pattern = to_python(alternative.pattern)
    table = LiteralTable.build(alternative.literals, {})

    @settings(max_examples=300, deadline=None, database=None)
    @given(st.from_regex(pattern))
    def check(text: str) -> None:
        # of letters in any case, small ones, capitals and words with a capital are searched
        text = "".join(letter for letter in text if not "\ud800" <= letter <= "\udfff")
        text = text.lower() if name == "labelled" else text
        starts, ends, _ = find_runs(to_buffers([text]), table)
        runs = list(zip(starts.tolist(), ends.tolist(), strict=True))
        for match in pattern.finditer(text):
            low, high = (len(text[:position].encode()) for position in match.span())
            if name == "tokens":
                assert any(start <= low and high <= end for start, end in runs)
            else:
                assert any(one in match.group() for one in alternative.literals)

    check()
