"""Escapes, characters and line breaks, against regular expressions and plain loops."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import TextBuffers, fill_columns
from sanitize.kernels.escapes import (
    find_blank_runs,
    find_characters,
    find_controls,
    find_escapes,
    find_form_blanks,
    find_line_breaks,
    find_utf7_escapes,
    find_wrapped_signs,
    merge_windows,
    splice_windows,
)
from tests.support import to_buffers

HALVES = rb"[dD][89ABab][0-9A-Fa-f]{2}", rb"u[dD][C-Fc-f][0-9A-Fa-f]{2}"
PATTERNS = {
    ord("&"): rb"&(?:amp;)?(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][A-Za-z0-9]{1,24};)",
    ord("%"): (
        rb"%[Cc]2%[Aa]0|%(?:25)*(?:u" + rb"%".join(HALVES) + rb"|u[0-9A-Fa-f]{4}|[0-9A-Fa-f]{2})"
    ),
    ord("\\"): (
        rb"\\+(?:u"
        + rb"\\+".join(HALVES)
        + rb"|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}"
        rb"|[0-3][0-7]{1,2}|[4-7][0-7]|[\"/nrtbf])"
    ),
    256
    + ord("\\"): rb"\\+(?:[0-9][0-9A-Fa-f]{1,5}[ \t\n]?|[A-Fa-f][0-9A-Fa-f]{1,5}[ \t\n])",  # CSS
    ord("="): rb"=[Cc]2=[Aa]0|=(?:[0-9A-Fa-f]{2}|[ \t]*\r?\n)",
}
PARTS = [
    b"&",
    b"amp;",
    b"#",
    b"x",
    b"64",
    b";",
    b"a1",
    b"%",
    b"25",
    b"40",
    b"c2",
    b"A0",
    b"\\",
    b"u",
    b"d83D",
    b"dE00",
    b'"',
    b"n",
    b"=",
]
PARTS += [
    b" ",
    b"\t",
    b"\r",
    b"\n",
    b">",
    b"|",
    b"g",
    b"\x00",
    b"\xff",
    "é".encode(),
    "٣".encode(),
    "😀".encode(),
    b"\xe2\x80",
]
PARTS += [
    b"u{",
    b"}",
    b"U0000",
    b"0071",
    b"161",
    b"71",
    b"7",
    b"+",
    b"-",
    b"AHE",
    b"a",
    b"\x1b[",
    b"m",
    b"\x7f",
    b"\x01",
]
TEXTS = st.lists(st.lists(st.sampled_from(PARTS), max_size=25).map(b"".join), max_size=4)


def to_rows(
    columns: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...], buffers: TextBuffers
) -> list[tuple[int, int, int]]:
    """Number of the text, and start and end in it."""
    text_no, start, end = columns
    base = buffers.offsets[text_no]
    return list(zip(text_no.tolist(), (start - base).tolist(), (end - base).tolist(), strict=True))


@pytest.mark.parametrize("mark", PATTERNS)
@given(TEXTS)
@example(
    [
        rb"\u{71}\u{0000071}\u{}\U00000071\U0000007\161\461\47\4\8",
        rb"\71 a\e9 \e9x\0000711\7",
        b"%u0071%25u0071%ud83D%udE00%ud83D%u0071",
    ]
)
@example(
    [
        b"&amp;amp;",
        b"&amp;#64",
        b"&amp;x",
        b"%252540%2",
        b"%c2%a0",
        b"\\\\u0040\\",
        b"= \r\n=",
        b"=\n",
    ]
)
def test_escapes_are_those_of_the_pattern(mark: int, texts: list[bytes]) -> None:
    buffers = to_buffers(texts)
    found = fill_columns(partial(find_escapes, buffers.data, buffers.offsets, mark), 3, 1)
    expected = [
        (no, *match.span())
        for no, text in enumerate(texts)
        for match in re.finditer(PATTERNS[mark], text)
    ]
    assert to_rows(found, buffers) == expected


def is_utf7(code: bytes, is_ended: bool) -> bool:
    """Whether base64 behind a + is a shifted sequence of UTF-7, by Python's decoder."""
    try:
        text = (b"+" + code + b"-").decode("utf-7")
    except UnicodeError:
        return False
    units = np.frombuffer(text.encode("utf-16-le"), "<u2")
    is_allowed = (units >= 32) & ((units < 127) | (units >= 160)) | np.isin(units, [9, 10, 13])
    return bool(is_allowed.all() and (is_ended or (units < 0x800).all()))


UTF7_PARTS = [
    *(
        b"+",
        b"-",
        b"AHE",
        b"AHEAcQ",
        b"AOk",
        b"AQ",
        b"A",
        b"q",
        b"BBAEEQ",
        b"TgBOAQ",
        b"AAA",
        b"AH8",
        b" ",
        b".",
        b"\xc3\xa9",
    )
]


@given(st.lists(st.lists(st.sampled_from(UTF7_PARTS), max_size=12).map(b"".join), max_size=4))
@example(
    [
        b"quinn+AEA-x",
        b"quinn+AEA",
        b"+AHEAdQ.",
        b"+TgBOAQ +TgBOAQ-",
        b"a+-b +- a+-",
        b"+AHF",
        b"+AHEA",
    ]
)
def test_shifted_sequences_are_those_that_python_decodes(texts: list[bytes]) -> None:
    buffers = to_buffers(texts)
    found = to_rows(
        fill_columns(partial(find_utf7_escapes, buffers.data, buffers.offsets), 3, 1), buffers
    )
    expected = []
    for no, text in enumerate(texts):
        position = 0
        while match := re.compile(rb"\+([A-Za-z0-9+/]*)(-?)").search(text, position):
            is_plus = (
                not match[1]
                and match[2]
                and re.match(rb"[A-Za-z0-9]\+-[A-Za-z0-9]", text[max(0, match.start() - 1) :])
            )
            if match.start() > 0 and is_plus or (match[1] and is_utf7(match[1], bool(match[2]))):
                expected.append((no, *match.span()))
                position = match.end()
            else:
                position = match.start() + 1
    assert found == expected


@given(TEXTS)
@example([b"Ann+Roe", b"+a+", b"%C3%A9+a", b"a+%C3", b"1+%zz", b"\n+a+", b"C3+a"])
def test_form_blanks_are_between_wanted_bytes_or_beside_a_percent_escape(
    texts: list[bytes],
) -> None:
    buffers, pairs = to_buffers(texts), np.zeros((256, 256), np.uint8)
    pairs[ord("a"), ord("u")] = pairs[ord("n"), ord("R")] = 1
    found = fill_columns(partial(find_form_blanks, buffers.data, buffers.offsets, pairs), 3, 1)
    pattern = (
        rb"(?<=a)\+(?=u)|(?<=n)\+(?=R)|(?<=%[0-9A-Fa-f]{2})\+(?=.)|(?<=.)\+(?=%[0-9A-Fa-f]{2})"
    )
    expected = [
        (no, *match.span())
        for no, text in enumerate(texts)
        for match in re.finditer(pattern, text, re.DOTALL)
    ]
    assert to_rows(found, buffers) == expected


@given(TEXTS, st.integers(0, 1100))
@example([b"a\x01b\x00c\x00\x00d\x00e\x00", b"\x1b[32;1mq\x1b[", b"\x1b[" + b"1" * 50 + b"m"], 1020)
def test_control_characters_are_those_of_the_pattern(texts: list[bytes], padding: int) -> None:
    # over the ends of the blocks that are searched at once
    texts = [b" " * padding + text for text in texts]
    buffers = to_buffers(texts)
    found = fill_columns(partial(find_controls, buffers.data, buffers.offsets), 3, 1)
    pattern = (
        rb"\x1b\[["
        rb" -?]{0,38}[@-~]|[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\x00)(?<!\x00.)\x00(?!\x00)(?!.\x00)"  # noqa: E501
    )
    expected = [
        (no, *match.span())
        for no, text in enumerate(texts)
        for match in re.finditer(pattern, text, re.DOTALL)
    ]
    assert to_rows(found, buffers) == expected


WRAPPED_PARTS = [
    b"IMCEA",
    b"X-",
    b"bob",
    b"=",
    b"a.com",
    b"@",
    b"@",
    b"+40",
    b"+2E",
    b"_40",
    b"_2e",
    b"_",
    b"_CN",
    b"+",
    b".",
    b" ",
    b"7",
    b"(",
]


def reference_wrapped_signs(text: bytes) -> list[tuple[int, int]]:
    """By regular expressions: of each run of local characters before an @, the signs after IMCEA,
    or the last = before a host."""
    spans = []
    for part in re.finditer(rb"([A-Za-z0-9%&'+./=_-]+)@", text):
        wrapped = re.search(rb"IMCEA(.+)", part[1])
        if wrapped:
            signs = re.compile(rb"[+][0-9A-Fa-f]{2}|_(?:40|20|2[Ee])?").finditer(
                part[1], wrapped.start(1)
            )
            spans += [(part.start() + sign.start(), part.start() + sign.end()) for sign in signs]
        elif (
            (place := part[1].rfind(b"=")) > 0
            and b"." in part[1][place:]
            and part[1][-1:].isalpha()
        ):
            spans.append((part.start() + place, part.start() + place + 1))
    return spans


@given(st.lists(st.lists(st.sampled_from(WRAPPED_PARTS), max_size=12).map(b"".join), max_size=4))
@example(
    [
        b"list+bob=a.com@",
        b"=bob=a.com@x=c.de@",
        b"IMCEAX-_O=Y_CN=bob+40a+2Ecom+40Z@",
        b"IMCEA@IMCEA_@",
        b"a=b7.7@",
    ]
)
def test_signs_of_wrapped_addresses_are_those_of_the_reference(texts: list[bytes]) -> None:
    buffers = to_buffers(texts)
    found = fill_columns(partial(find_wrapped_signs, buffers.data, buffers.offsets), 3, 1)
    assert to_rows(found, buffers) == [
        (no, *span) for no, text in enumerate(texts) for span in reference_wrapped_signs(text)
    ]


@given(TEXTS, st.sets(st.integers(0, 0x500)))
def test_characters_of_known_blocks_are_found_and_other_blocks_reported(
    texts: list[bytes], known_blocks: set[int]
) -> None:
    buffers, wanted = to_buffers(texts), [0xE9, 0x663, 0x1F600]
    known_blocks |= {0x1F6}
    classes, is_known, unknown = (
        np.zeros(0x600 << 8, np.uint8),
        np.zeros(0x600, np.uint8),
        np.zeros(0x600, np.uint8),
    )
    classes[wanted], is_known[list(known_blocks)] = 2, 1
    found = fill_columns(
        partial(find_characters, buffers.data, buffers.offsets, classes, is_known, unknown, 2), 3, 1
    )
    characters = [
        (no, *match.span(), ord(match.group().decode()))
        for no, text in enumerate(texts)
        for match in re.finditer("é|٣|😀".encode(), text)
    ]
    assert to_rows(found, buffers) == [
        (no, start, end) for no, start, end, code in characters if code >> 8 in known_blocks
    ]
    assert np.flatnonzero(unknown).tolist() == sorted(
        {code >> 8 for *_, code in characters} - known_blocks
    )


def reference_line_breaks(text: bytes) -> list[tuple[int, int]]:
    breaks = []
    for match in re.finditer(
        rb"(?<![ \t\r\\])(?:[ \t\r\\]{0,40})\n(?=(?P<quotes>[ \t>|]{0,40}))", text
    ):
        start, end = match.start(), match.end("quotes")
        if (
            start > 0
            and end < len(text)
            and text[start - 1 : start] != b"\n"
            and text[end : end + 1] not in (b" ", b"\t", b"\r", b"\n")
        ):
            breaks.append((start, end))
    return breaks


@given(
    TEXTS,
    st.lists(
        st.tuples(st.sampled_from([*b"g1\xff;&"]), st.sampled_from([*b"g1\xff;&"])), max_size=8
    ),
)
def test_line_breaks_are_inside_paragraphs_and_between_the_wanted_bytes(
    texts: list[bytes], wanted: list[tuple[int, int]]
) -> None:
    buffers = to_buffers(texts)
    for pairs in (np.ones((256, 256), np.uint8), np.zeros((256, 256), np.uint8)):
        pairs[tuple(zip(*wanted, strict=True)) if wanted else ([], [])] = 1
        found = fill_columns(partial(find_line_breaks, buffers.data, buffers.offsets, pairs), 3, 1)
        expected = [
            (no, start, end)
            for no, text in enumerate(texts)
            for start, end in reference_line_breaks(text)
            if pairs[text[start - 1], text[end]]
        ]
        assert to_rows(found, buffers) == expected


@given(
    TEXTS,
    st.lists(
        st.tuples(st.sampled_from([*b"g1\xff;&"]), st.sampled_from([*b"g1\xff;&"])), max_size=8
    ),
)
def test_blank_runs_are_between_the_wanted_bytes(
    texts: list[bytes], wanted: list[tuple[int, int]]
) -> None:
    texts = [*texts, b"a" * 1023 + b"  b", b"g" + b" " * 40 + b"g" + b" " * 41 + b"g"]
    buffers = to_buffers(texts)
    for pairs in (np.ones((256, 256), np.uint8), np.zeros((256, 256), np.uint8)):
        pairs[tuple(zip(*wanted, strict=True)) if wanted else ([], [])] = 1
        found = fill_columns(partial(find_blank_runs, buffers.data, buffers.offsets, pairs), 3, 1)
        expected = [
            (no, *match.span())
            for no, text in enumerate(texts)
            for match in re.finditer(rb"(?<=[^ \t])[ \t]{2,40}(?=[^ \t])", text)
            if pairs[text[match.start() - 1], text[match.end()]]
        ]
        assert to_rows(found, buffers) == expected


def test_more_than_forty_blanks_are_no_wrapped_line() -> None:
    for text, expected in (
        (b"a" + b" " * 40 + b"\n" + b">" * 40 + b"b", [(0, 1, 82)]),
        (b"a" + b" " * 41 + b"\nb", [(0, 2, 43)]),  # the first blank is part of the line
        (b"a\n" + b" " * 41 + b"b", []),
    ):
        buffers = to_buffers([text])
        kernel = partial(
            find_line_breaks, buffers.data, buffers.offsets, np.ones((256, 256), np.uint8)
        )
        assert to_rows(fill_columns(kernel, 3), buffers) == expected


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=4),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 39), st.integers(1, 5), st.binary(max_size=4)),
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_windows_are_spliced(
    texts: list[bytes], places: list[tuple[int, int, int, bytes]], margin: int
) -> None:
    buffers = to_buffers(texts)
    kept: list[tuple[int, int, int, bytes]] = []
    for no, start, size, replacement in sorted(places):
        if (
            no < len(texts)
            and start + size <= len(texts[no])
            and (not kept or kept[-1][0] < no or kept[-1][2] <= start)
        ):
            kept.append((no, start, start + size, replacement))
    text_nos = np.array([no for no, *_ in kept], np.int64)
    starts, ends = (
        np.array([buffers.offsets[place[0]] + place[at] for place in kept], np.int64)
        for at in (1, 2)
    )
    replacements = to_buffers([place[3] for place in kept])
    windows = tuple(np.empty(len(kept), np.int64) for _ in range(3))
    count = merge_windows(buffers.data, buffers.offsets, text_nos, starts, ends, margin, *windows)
    window_text, low, high = (column[:count] for column in windows)
    covered = {
        at
        for no, start, end, _ in kept
        for at in range(*window_around(buffers, no, start, end, margin))
    }
    assert {
        at
        for first, last in zip(low.tolist(), high.tolist(), strict=True)
        for at in range(first, last)
    } == covered
    assert (low[1:] > high[:-1])[window_text[1:] == window_text[:-1]].all(), (
        "windows that touch are one"
    )
    size = int((high - low).sum() + replacements.lengths.sum() - (ends - starts).sum())
    spliced, offsets, first_places = (
        np.empty(size, np.uint8),
        np.empty(count + 1, np.int64),
        np.empty(count, np.int64),
    )
    spliced_starts = np.empty(len(kept), np.int64)
    splice_windows(
        *(buffers.data, low, high, starts, ends, replacements.data, replacements.offsets),
        *(spliced, offsets, spliced_starts, first_places),
    )
    raw, row = buffers.data.tobytes(), 0
    for window, (first, last) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        expected, position = b"", first
        assert first_places[window] == row
        while (
            row < len(kept)
            and first <= starts[row]
            and ends[row] <= last
            and text_nos[row] == window_text[window]
        ):
            expected += raw[position : starts[row]]
            assert spliced_starts[row] == offsets[window] + len(expected)
            expected, position, row = expected + kept[row][3], int(ends[row]), row + 1
        assert (
            spliced[offsets[window] : offsets[window + 1]].tobytes()
            == expected + raw[position:last]
        )


def window_around(
    buffers: TextBuffers, text_no: int, start: int, end: int, margin: int
) -> tuple[int, int]:
    low, high = buffers.offsets[text_no : text_no + 2].tolist()
    first, last = max(low, low + start - margin), min(high, low + end + margin)
    while first > low and buffers.data[first] in range(0x80, 0xC0):
        first -= 1
    while last < high and buffers.data[last] in range(0x80, 0xC0):
        last += 1
    return first, last
