"""Line ends and letters that may be inside a value, against regular expressions."""

from __future__ import annotations

import re
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import fill_columns
from sanitize.kernels.broken_values import find_broken_lines, find_read_letters
from sanitize.text.decodings.broken_values import _ROLES
from tests.support import to_buffers

MAX_HOST = 6
GROUP, SEPARATOR = "[0-9A-Z]", r"[ \-./()\n\r]"
# what is before the line end, without its last blanks, and what is behind it
BREAKS = [
    tuple(re.compile(pattern.encode(), re.DOTALL) for pattern in pair)
    for pair in (
        (rf"[\w.+-]@[A-Za-z0-9-]{{0,{MAX_HOST - 1}}}\Z", r"[> \t]*[A-Za-z0-9-]+\."),
        (rf"[\w.+-]@[A-Za-z0-9-]{{0,{MAX_HOST - 2}}}\.\Z", r"[> \t]*[A-Za-z0-9-]"),
        (r".[0-9]{2}-\Z", r"[> \t]{0,2}[0-9]{2}"),
        (r"..[0-9]=\Z", r"[> \t]{0,2}[0-9]."),
        (rf"{SEPARATOR}{GROUP}?[0-9]{{3}}\Z", rf"[> \t]{{0,2}}[0-9]{{4}}(?!{GROUP})"),
        (
            rf"{GROUP}{{4}} (?:{GROUP}|{SEPARATOR}){GROUP}{{3}}\Z",
            rf"[> \t]{{0,2}}{GROUP}{{4}}(?!{GROUP})",
        ),
    )
]
PARTS = st.sampled_from(
    ["a", "ann", "@", "b.", ".", "-", "=", "12", "345", "6789", "AB12", " ", "\r", "> ", "/", "_"]
    + ["\n"] * 6
)
TEXTS = st.lists(st.lists(PARTS, max_size=14).map("".join), max_size=4)


@given(TEXTS)
def test_broken_lines_are_those_of_the_reference(texts: list[str]) -> None:
    expected, base = list[int](), 0
    for text in map(str.encode, texts):
        for feed in (match.start() for match in re.finditer(b"\n", text)):
            before = re.sub(rb" ?\r? ?\Z", b"", text[:feed])
            behind = text[feed + 1 :]
            if any(one.search(before) and other.match(behind) for one, other in BREAKS):
                expected.append(base + feed)
        base += len(text)
    column = to_buffers([text.encode() for text in texts])
    kernel = partial(find_broken_lines, column.data, column.offsets, MAX_HOST)
    for capacity in (None, 1):
        (feeds,) = fill_columns(kernel, 1, capacity)
        assert feeds.tolist() == expected


@given(st.lists(st.text("OoIl19 -(a\n\0\xe9", max_size=12), max_size=4))
def test_read_letters_are_those_of_the_reference(texts: list[str]) -> None:
    expected, base = list[int](), 0
    for text in map(str.encode, texts):
        for match in re.finditer(b"[OoIl]", text):
            before, behind = text[: match.start()], text[match.end() :]
            is_beside_digit = before[-1:].isdigit() or behind[:1].isdigit()
            follows = re.search(rb"[ \-./()\n\r].{0,3}\Z", before, re.DOTALL)
            precedes = re.match(rb".{0,3}(?:[ \-./()\n\r\0]|\Z)", behind, re.DOTALL)
            if is_beside_digit and follows and precedes:
                expected.append(base + match.start())
        base += len(text)
    column = to_buffers([text.encode() for text in texts])
    kernel = partial(find_read_letters, column.data, column.offsets, _ROLES)
    for capacity in (None, 1):
        (letters,) = fill_columns(kernel, 1, capacity)
        assert letters.tolist() == expected
