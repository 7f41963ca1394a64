"""Labelling as a state and keys: what every key does, and that no order of keys breaks a row. Also
what the screen shows of a state."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.cli.keyboard import parse_keys
from sanitize.cli.label_screen import draw_screen
from sanitize.inspection.label_session import (
    LabelState,
    find_span,
    get_row_text,
    is_labelled,
    press_key,
    start_session,
)

KINDS = ("AGE", "EMAIL_ADDRESS", "PERSON", "PHONE_NUMBER")


def find(
    before: str = "Dear ", value: str = "Ann Lee", after: str = " of Oslo,", **label: Any
) -> dict[str, Any]:
    start = 100 + len(before)
    span = {"start": start, "end": start + len(value), "kind": "PERSON"}
    return {
        "ask": "find",
        **span,
        "before": before,
        "value": value,
        "after": after,
        "right": None,
        **label,
    }


def passage(text: str = "Ann Lee and Bob Ray,\nann@example.com", **label: Any) -> dict[str, Any]:
    found = [
        {"start": 0, "end": 7, "kind": "PERSON"},
        {"start": 21, "end": 36, "kind": "EMAIL_ADDRESS"},
    ]
    return {
        "ask": "passage",
        "weight": 1.0,
        "text": text,
        "found": found,
        "wrong": [],
        "missed": None,
        **label,
    }


def press(rows: list[dict[str, Any]], keys: str, **options: Any) -> LabelState:
    """The state after keys separated by spaces."""
    state = start_session(rows, KINDS, **options)
    for key in keys.split():
        state = press_key(state, key)
    return state


@pytest.mark.parametrize(
    ("keys", "right", "span"),
    [
        ("r", True, None),
        ("w", False, None),
        ("e down enter", False, "Lee"),  # the start moves a word
        ("e left left tab right enter", False, "r Ann Lee "),
        ("e tab up enter", False, "Ann"),  # the end moves back a word
        # a span keeps a character
        ("e tab left left left left left left left left enter", False, "A"),
        ("e right right right right right right right right enter", False, "e"),
        ("e up up up enter", False, "Dear Ann Lee"),  # not beyond the text
        ("e tab down down down down enter", False, "Ann Lee of Oslo,"),
        ("e enter", None, None),  # nothing was moved: no decision
        ("e down escape", None, None),
        ("e down q enter", False, "Lee"),  # a decision key has no meaning here
        ("x m u space", None, None),
        ("e down enter b r", True, None),  # a label may be changed
        ("r b w b e down enter", False, "Lee"),
        ("? r", None, None),  # the key only leaves the help
        ("? r r", True, None),
    ],
)
def test_keys_at_a_find(keys: str, right: bool | None, span: str | None) -> None:
    state = press([find()], keys)
    row = state.rows[0]
    assert row["right"] is right
    start, end = find_span(row)
    assert get_row_text(row)[start:end] == (span or "Ann Lee")
    assert ("right_span" in row) == (span is not None)
    assert state.row_no == (1 if right is not None or keys.endswith("space") else 0)


# the last kind comes first
@pytest.mark.parametrize(
    ("keys", "wrong", "missed"),
    [
        ("r", [], []),
        ("w r", [0], []),
        ("w w r", [], []),
        ("right w r", [1], []),
        ("tab w tab w r", [0, 1], []),
        ("left w r", [1], []),
        ("m right right enter p e enter", [], None),  # not finished: not labelled
        ("m right tab tab down enter p e enter r", [], [("PERSON", "Bob Ray,")]),
        ("m right tab tab down left enter p e enter r", [], [("PERSON", "Bob Ray")]),
        ("m escape r", [], []),
        ("m enter escape escape r", [], []),
        ("m enter enter u r", [], []),
        # x fits no kind; `A` and `AG` do, and `A` all that contain it
        ("m enter a g x backspace enter r", [], [("PHONE_NUMBER", "and")]),
        ("m enter z e m a enter r", [], [("EMAIL_ADDRESS", "and")]),
        (
            "m enter p enter m down enter enter r",
            [],
            [("PERSON", "and"), ("PERSON", "ann@example.com")],
        ),
        ("r b m enter p enter", [], None),
        ("m enter p enter r b u", [], None),
        ("r b u", [], []),
        ("r b m enter p enter u r", [], []),
    ],
)
def test_keys_at_a_passage(
    keys: str, wrong: list[int], missed: list[tuple[str, str]] | None
) -> None:
    state = press([passage()], keys)
    row = state.rows[0]
    labels = (
        row["missed"]
        if row["missed"] is None
        else [(one["kind"], row["text"][one["start"] : one["end"]]) for one in row["missed"]]
    )
    if keys == "m enter a g x backspace enter r":
        # `a` narrows to the kinds with an A, those that begin with it first
        assert labels == [("AGE", "and")]
        return
    assert (row["wrong"], labels) == (wrong, missed)
    assert ("added" in row) == (missed is None)


def test_a_session_goes_on_at_the_first_row_without_label_and_keeps_skipped_rows_for_the_next() -> (
    None
):
    rows = [find(right=True), find(), passage(), find()]
    state = press(rows, "space r w")
    assert [is_labelled(row) for row in state.rows] == [True, False, True, True]
    assert state.row is None and not state.has_ended and state.labelled_count == 3
    again = start_session([dict(row) for row in state.rows], KINDS)
    assert again.row_no == 1 and again.kinds == ("EMAIL_ADDRESS", "PERSON", "AGE", "PHONE_NUMBER")
    assert press_key(again, "q").has_ended and press_key(state, "b").row_no == 3


def test_texts_are_masked_until_a_key_shows_them_and_again_in_the_next_row() -> None:
    def shown(state: LabelState) -> bool:
        return "Ann" in draw_screen(state, 80, 24) or "ann@" in draw_screen(state, 80, 24)

    rows = [find(), passage()]
    for keys, is_shown in (
        ("", False),
        ("s", True),
        ("s s", False),
        ("s r", False),
        ("r s", True),
        ("e", True),
        ("r m", True),
    ):
        assert shown(press(rows, keys)) == is_shown, keys
        assert shown(press(rows, keys, reveal=True)), keys
    assert "a***@e***.com" in draw_screen(press(rows, "r"), 80, 24)


def test_the_screen_escapes_what_a_text_would_do_to_the_terminal_and_has_no_colour_with_no_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = press([passage("Ann Lee \x1b[2J\x9b5m\u202eand\x07 more,\nann@example.com")], "s")
    screen = draw_screen(state, 60, 24)
    assert (
        not set(re.sub(r"\x1b\[[0-9;]*m|\r\n", "", screen)) & {"\x1b", "\x9b", "\x07", "\u202e"}
        and "U+001B[2JU+009B5mU+202E" in screen
    )
    codes = {code for found in re.findall(r"\x1b\[([0-9;]*)m", screen) for code in found.split(";")}
    assert codes & {"36"}
    monkeypatch.setenv("NO_COLOR", "1")
    codes = {
        code
        for found in re.findall(r"\x1b\[([0-9;]*)m", draw_screen(state, 60, 24))
        for code in found.split(";")
    }
    # the selected mark is still in reverse video
    assert "7" in codes and not codes & {str(code) for code in range(30, 48)}


@pytest.mark.parametrize("height", [8, 12, 24])
def test_a_long_passage_fits_the_screen_and_shows_the_selected_mark(height: int) -> None:
    text = "Ann Lee\n" + "word word\n" * 60
    row = passage(text + "Bob Ray\n" + "word\n" * 60)
    row["found"][1] = {"start": len(text), "end": len(text) + 7, "kind": "PERSON"}
    for keys, visible in (
        ("s", "Ann Lee"),
        ("s right", "Bob Ray"),
        ("s right up up down", "word word"),
        ("s" + " down" * 200, "word"),
    ):
        screen = re.sub(r"\x1b\[[0-9;]*m", "", draw_screen(press([row], keys), 40, height))
        assert visible in screen and len(screen.split("\r\n")) <= max(height, 11), keys


def test_names_of_keys() -> None:
    typed = "rW \t\r\n\x7f\x1b[A\x1b[D\x1bOC\x1b[1;5C\x1b[24~\x1b[Zé\x00\x1b\x04\x03"
    assert list(parse_keys(typed)) == [
        *(
            "r",
            "W",
            "space",
            "tab",
            "enter",
            "enter",
            "backspace",
            "up",
            "left",
            "right",
            "down",
            "left",
            "é",
            "escape",
            "q",
            "q",
        )
    ]


@settings(max_examples=60)
@given(
    keys=st.lists(
        st.sampled_from(
            "r w e m u b s ? p z space tab enter escape left right up down backspace".split()
        ),
        max_size=60,
    ),
    text=st.text(max_size=30),
)
def test_no_order_of_keys_breaks_a_row(keys: list[str], text: str) -> None:
    """Labels are always such that they can be scored and asked again: spans within their text,
    kinds that exist, texts unchanged."""
    rows = [find(after=text), passage(), passage(text + "x", found=[]), find(before=text)]
    state = start_session(rows, KINDS)
    for key in keys:
        state = press_key(state, key)
        assert 0 <= state.row_no <= len(rows) and draw_screen(state, 30, 10)
    for before, after in zip(rows, state.rows, strict=True):
        assert {
            name: after[name] for name in before if name not in ("right", "missed", "wrong")
        } == {name: before[name] for name in before if name not in ("right", "missed", "wrong")}
        if after["ask"] == "find":
            start, end = find_span(after)
            assert 0 <= start < end <= len(get_row_text(after)) and (
                "right_span" not in after or after["right"] is False
            )
        else:
            for one in after.get("added") or after["missed"] or ():
                assert 0 <= one["start"] < one["end"] <= len(after["text"]) and one["kind"] in KINDS
            assert set(after["wrong"]) <= set(range(len(after["found"]))) and (
                "added" not in after or after["missed"] is None
            )
