"""Header blocks: the section of positions in texts, by hand. Every `^` in a case marks the position whose section is checked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.mail_headers import find_header_lines, find_sections

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
    # a block that never ends, and one that ends with the text
    ("From: Bob\nTo: ^Ann", ["to"]),
    ("From: Bob\nTo: ^Ann\n", ["to"]),
    ("From: Bob\n\n^", ["body"]),
    # a body that looks like a header
    ("From: Bob\n\nTo: ^Ann\nSubject: ^x\n\nCc: ^y", ["body", "body", "body"]),
    ("From: Bob\n\n\n\nTo: ^Ann", ["body"]),
    ("From: Bob\n \nTo: ^Ann\n\n^x", ["to", "body"]),
    # the envelope line of an mbox
    ("From ^bob@example.com Mon Jan  1 12:00:00 2001\nFrom: ^Bob\n\n^x", ["header", "from", "body"]),
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


def look(texts: list[str], before: int = 0) -> list[list[str | None]]:
    """The sections at the `^` of every text, all texts in one column behind `before` others."""
    places = []
    plain = []
    for no, text in enumerate(texts):
        pieces = text.split("^")
        plain.append("".join(pieces))
        at = 0
        for piece in pieces[:-1]:
            at += len(piece.encode())
            places.append((no, at))
    array = pa.array(["From: Zoe\n\n"] * before + plain, pa.large_string()).slice(before)
    buffers = TextBuffers.from_array(array)
    table = np.array(places, np.int64).reshape(-1, 2)
    found = find_sections(buffers, table[:, 0], buffers.offsets[table[:, 0]] + table[:, 1])
    out: list[list[str | None]] = [[] for _ in texts]
    for (no, _), index in zip(places, found.section_no.tolist(), strict=True):
        out[no].append(None if index < 0 else found.section_names[index])
    return out


@pytest.mark.parametrize(("text", "expected"), CASES, ids=range(len(CASES)))
def test_sections_of_one_text(text: str, expected: list[str | None]) -> None:
    assert look([text]) == [expected]
    assert look([text], before=2) == [expected]


def test_no_text_sees_its_neighbours() -> None:
    for order in (CASES, CASES[::-1], CASES[::2] + CASES[1::2]):
        assert look([text for text, _ in order]) == [expected for _, expected in order]


def test_a_text_that_ends_or_begins_with_line_feeds_leaves_the_next_one_alone() -> None:
    texts = ["From: ^a\n", "\nTo: ^b\n\n^c", "From: ^d\n\n", "From: ^e", " To: ^f", "From: ^g\nTo: h\n", "\tx ^i", "", "From: ^j\n\n^k"]
    expected = [["from"], [None, None], ["from"], ["from"], [None], ["from"], [None], [], ["from", "body"]]
    assert look(texts) == expected


def test_id_fields_are_known() -> None:
    text = "References: <^a@b>\n <^c@d>\nFrom: ^x\nIn-Reply-To: ^e\nMESSAGE-ID: ^f\nnothing ^g\n\nMessage-ID: ^h"
    pieces = text.split("^")
    at = np.cumsum([len(piece) for piece in pieces[:-1]])
    buffers = TextBuffers.from_array(pa.array(["".join(pieces)], pa.large_string()))
    found = find_sections(buffers, np.zeros(len(at), np.int64), at)
    assert found.is_id_field.tolist() == [True, True, False, True, True, False, False]


def test_texts_without_any_line_feed_or_colon() -> None:
    assert look(["^a", "b^"]) == [[None], [None]]
    assert look(["From:^x"]) == [["from"]]


def test_a_last_line_without_a_line_feed_ends_with_its_text() -> None:
    assert look(["X: y\nZ: \r\n^nobody", "X: y\nZ: ^z"]) == [["header"], ["z"]]


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
        # after a header block, and alone
        ("From: Bob\n\nVon: ^a\nAn: ^b\n", ["from", "to"]),
        ("From: Bob\n\nTo: ^a\n", [None]),
        ("From: Bob\r\n\r\nTo: ^a\r\nCc: ^b\r\n", ["to", "cc"]),
    ],
)
def test_fields_of_quoted_blocks_stand_at_one_depth(text: str, fields: list[str | None]) -> None:
    bare = text.replace("^", "")
    places = [at - number for number, at in enumerate(at for at, letter in enumerate(text) if letter == "^")]
    # a text before it and one after it change nothing
    column = TextBuffers.from_array(pa.array(["From: x\n\n> To: y\n", bare, "> To: z\n"], pa.large_string()))
    lines = find_header_lines(column, np.ones(len(places), np.int64), column.offsets[1] + np.array(places))
    found = [
        lines.field_names[field] if start >= 0 else None
        for field, start in zip(lines.field_code.tolist(), lines.start.tolist(), strict=True)
    ]
    assert found == fields
