"""Header blocks: the section of positions in texts, by hand. Every `^` in a case marks the position
whose section is checked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.mail_headers import find_header_blocks, find_header_lines, find_sections

CASES: list[tuple[str, list[str | None]]] = [
    # fields, folded lines, the body
    ("From: ^Bob\nTo: ^Ann\n\n^Hello", ["from", "to", "body"]),
    ("From: Bob\nTo: Ann,\n ^Cleo,\n\t^Dan\nSubject: ^x\n\nHello", ["to", "to", "subject"]),
    ("To: Ann,\n Bob,\n  Cleo,\n   ^Dan\n\n^x", ["to", "body"]),
    ("^From: Bob\n^To: Ann\n\nx", ["from", "to"]),
    ("FROM: ^Bob\n\nx", ["from"]),
    ("Message-Id: ^x\nIN-REPLY-TO: ^y\n\n^z", ["message-id", "in-reply-to", "body"]),
    ("X-One: ^a\nX-Two: ^b\n\n^c", ["x-one", "x-two", "body"]),
    ("X-One: a\n ^folded\nX-Two: b\n\nc", ["x-one"]),
    # a block without an end, and one that ends with the text
    ("From: Bob\nTo: ^Ann", ["to"]),
    ("From: Bob\nTo: ^Ann\n", ["to"]),
    ("From: Bob\n\n^", ["body"]),
    # a body that looks like a header
    ("From: Bob\n\nTo: ^Ann\nSubject: ^x\n\nCc: ^y", ["body", "body", "body"]),
    ("From: Bob\n\n\n\nTo: ^Ann", ["body"]),
    ("From: Bob\n \nTo: ^Ann\n\n^x", ["to", "body"]),
    # the envelope line of an mbox
    (
        "From ^bob@example.com Mon Jan  1 12:00:00 2001\nFrom: ^Bob\n\n^x",
        ["header", "from", "body"],
    ),
    ("From bob Mon Jan  1 12:00:00 2001\nX-One: ^a\nX-Two: b\n\n^x", ["x-one", "body"]),
    ("From here to there it is far.\nNothing: ^x\n\n^y", [None, None]),
    # a colon in a value, a line without one, an invalid field name
    ("Subject: re: ^x: y\n\nA body: ^z", ["subject", "body"]),
    ("From: Bob\nno field ^here\nTo: ^Ann\n\n^x", ["header", "to", "body"]),
    ("From: Bob\nno field here: ^x\n\ny", ["header"]),
    ("From: Bob\n" + "x" * 77 + ": ^a\n" + "y" * 76 + ": ^b\n\nc", ["header", "y" * 76]),
    ("From: Bob\nÜber: ^a\n\nc", ["header"]),
    ("From: Bob\n: ^a\n\nc", ["header"]),
    ("From: Bob\nlast line without a ^colon", ["header"]),
    # no mail
    ("^Hello Bob,\n\n^see you. From: ^me", [None, None, None]),
    ("Note: ^one field only\n\n^text", [None, None]),
    ("Note: ^one field\nand no second\n\n^text", [None, None]),
    ("\nFrom: ^Bob\n\n^x", [None, None]),
    (" From: ^Bob\n\n^x", [None, None]),
    ("from me: ^x", [None]),
    ("", []),
    ("^", [None]),
    ("^谢谢: x\n谢谢: y\n\n^z", [None, None]),
    ("From: 谢谢 ^x\nTo: 🙂\n ^y\n\n谢谢 ^z", ["from", "to", "body"]),
]


def sections_at_marks(texts: list[str], before: int = 0) -> list[list[str | None]]:
    """The sections at the `^` of every text, all texts in one column after `before` other texts."""
    positions = []
    unmarked_texts = []
    for no, text in enumerate(texts):
        parts = text.split("^")
        unmarked_texts.append("".join(parts))
        position = 0
        for part in parts[:-1]:
            position += len(part.encode())
            positions.append((no, position))
    array = pa.array(["From: Zoe\n\n"] * before + unmarked_texts, pa.large_string()).slice(before)
    buffers = TextBuffers.from_array(array)
    table = np.array(positions, np.int64).reshape(-1, 2)
    found = find_sections(buffers, table[:, 0], buffers.offsets[table[:, 0]] + table[:, 1])
    out: list[list[str | None]] = [[] for _ in texts]
    for (no, _), index in zip(positions, found.section_no.tolist(), strict=True):
        out[no].append(None if index < 0 else found.section_names[index])
    return out


@pytest.mark.parametrize(("text", "expected"), CASES, ids=range(len(CASES)))
def test_sections_of_one_text(text: str, expected: list[str | None]) -> None:
    assert sections_at_marks([text]) == [expected]
    assert sections_at_marks([text], before=2) == [expected]


def test_sections_do_not_depend_on_neighbouring_texts() -> None:
    for order in (CASES, CASES[::-1], CASES[::2] + CASES[1::2]):
        assert sections_at_marks([text for text, _ in order]) == [expected for _, expected in order]


def test_leading_and_trailing_line_feeds_do_not_affect_the_next_text() -> None:
    texts = [
        "From: ^a\n",
        "\nTo: ^b\n\n^c",
        "From: ^d\n\n",
        "From: ^e",
        " To: ^f",
        "From: ^g\nTo: h\n",
        "\tx ^i",
        "",
        "From: ^j\n\n^k",
    ]
    expected = [
        ["from"],
        [None, None],
        ["from"],
        ["from"],
        [None],
        ["from"],
        [None],
        [],
        ["from", "body"],
    ]
    assert sections_at_marks(texts) == expected


def test_id_fields_are_recognised() -> None:
    text = (
        "References: <^a@b>\n <^c@d>\nFrom: ^x\nIn-Reply-To: ^e\nMESSAGE-ID: ^f\nnothing"
        " ^g\n\nMessage-ID: ^h"
    )
    parts = text.split("^")
    positions = np.cumsum([len(part) for part in parts[:-1]])
    buffers = TextBuffers.from_array(pa.array(["".join(parts)], pa.large_string()))
    found = find_sections(buffers, np.zeros(len(positions), np.int64), positions)
    assert found.is_id_field.tolist() == [True, True, False, True, True, False, False]


def test_texts_without_any_line_feed_or_colon() -> None:
    assert sections_at_marks(["^a", "b^"]) == [[None], [None]]
    assert sections_at_marks(["From:^x"]) == [["from"]]


def test_a_last_line_without_a_line_feed_ends_with_its_text() -> None:
    assert sections_at_marks(["X: y\nZ: \r\n^nobody", "X: y\nZ: ^z"]) == [["header"], ["z"]]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        # a field of a quoted block has a neighbouring field of the same quote depth
        ("Hi\nFrom: ^a\nTo: ^b\n", ["from", "to"]),
        ("Hi\n> From: ^a\n> To: ^b\n", ["from", "to"]),
        ("Hi\n > From: ^a\n > To: ^b\n", ["from", "to"]),
        ("Hi\nFrom: ^a\n> To: ^b\n", [None, None]),
        ("Hi\nFrom: ^a\n > To: ^b\n", [None, None]),
        ("Hi\n> From: ^a\n> > To: ^b\n", [None, None]),
        ("Hi\n > From: ^a\n> To: ^b\n", [None, None]),
        ("Hi\n> From: ^a\nTo: ^b\n", [None, None]),
        ("Hi\nFrom: ^a\n To: ^b\n", ["from", "to"]),
        # folded lines have the quote depth of their field
        ("Hi\n> From: x\n> To: a,\n>   ^b\n", ["to"]),
        ("Hi\nFrom: x\nTo: a,\n  ^b\n", ["to"]),
        ("Hi\n> From: x\n> To: a,\n  ^b\n", [None]),
        ("Hi\n > From: x\n > To: a,\n >  ^b\nTo: ^c\n", ["to", None]),
        # after a header block, and a single field
        ("From: Bob\n\nVon: ^a\nAn: ^b\n", ["from", "to"]),
        ("From: Bob\n\nTo: ^a\n", [None]),
        ("From: Bob\r\n\r\nTo: ^a\r\nCc: ^b\r\n", ["to", "cc"]),
    ],
)
def test_fields_of_quoted_blocks_have_one_quote_depth(text: str, fields: list[str | None]) -> None:
    unmarked = text.replace("^", "")
    positions = [
        index - number
        for number, index in enumerate(index for index, letter in enumerate(text) if letter == "^")
    ]
    # a text before it and one after it change nothing
    column = TextBuffers.from_array(
        pa.array(["From: x\n\n> To: y\n", unmarked, "> To: z\n"], pa.large_string())
    )
    lines = find_header_lines(
        column, np.ones(len(positions), np.int64), column.offsets[1] + np.array(positions)
    )
    found = [
        lines.field_names[field] if start >= 0 else None
        for field, start in zip(lines.field_code.tolist(), lines.start.tolist(), strict=True)
    ]
    assert found == fields


@pytest.mark.parametrize(
    ("text", "begins_with_headers"),
    [
        ("X-A: b\nX-B: c\n\nbody", True),
        ("X-A:\nX-B:", True),
        ("X-A:/x\n folded\nX-B:/", True),
        ("X-A: //x\nX-B: x", True),
        ("From: http://example.com/\n", True),
        ("http://example.com/a\nNote: see there", False),
        ("Note: see\nhttp://example.com/a\n", False),
        ("X-A: b", False),
    ],
)
def test_a_line_that_begins_with_a_url_is_no_header_field(
    text: str, begins_with_headers: bool
) -> None:
    texts, _, _ = find_header_blocks(
        TextBuffers.from_array(pa.array(["", text], pa.large_string()))
    )
    assert texts.tolist() == [1] * begins_with_headers
