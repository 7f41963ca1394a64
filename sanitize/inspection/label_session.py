"""Labelling a sample at the terminal, as a state and keys: `press_key` gives the state after a key,
and nothing here reads or draws.

A row of the sample is a decision. Of a find: right, wrong, or wrong span, with the right
boundaries. Of a passage: which of its found spans are wrong, what was missed (span and kind), and
that nothing else was. Keys are names: a character, or `left`, `right`, `up`, `down`, `tab`,
`enter`, `escape`, `backspace`, `space`.

The rows keep the format of the file that `annotation.py` draws and scores. Beyond it, a find with a
wrong span has `right_span` (`start` and `end` in the text of its cell), and a passage that is not
finished has `added`, what was missed so far: its `missed` stays null until then, so that an
unfinished passage is not scored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Row = Mapping[str, Any]
_WORD = re.compile(r"\S+")
_LARGE_STEP_WORDS = 10  # words that a large step moves a whole span
_MIN_LINE_CHARACTERS = 20  # of the narrowest screen: bounds the number of lines of a passage


@dataclass(frozen=True, kw_only=True)
class SpanChoice:
    """A span that is being set in the text of a row: `handle` says what the keys move. `has_kind`
    if a kind is chosen after it."""

    start: int
    end: int
    handle: Literal["span", "start", "end"]
    has_kind: bool


@dataclass(frozen=True, kw_only=True)
class KindChoice:
    """A kind that is being chosen for a span: `typed` narrows the list, `selected` is the place in
    the narrowed list."""

    start: int
    end: int
    typed: str = ""
    selected: int = 0


@dataclass(frozen=True, kw_only=True)
class LabelState:
    """What a session of labelling holds: the rows with the labels so far, the row that is asked,
    and what is being entered."""

    rows: tuple[Row, ...]
    kinds: tuple[str, ...]  # kinds that may be named, those of the sample first
    row_no: int = 0  # len(rows): all rows were asked
    always_shown: bool = False
    shown: bool = False  # the texts of this row
    selected_find: int = 0  # of a passage
    scroll: int = (
        0  # lines that a passage is moved on the screen, from where its selected find is seen
    )
    entry: SpanChoice | KindChoice | None = None
    has_help: bool = False
    has_ended: bool = False

    @property
    def row(self) -> Row | None:
        """The row that is asked; None at the end."""
        return self.rows[self.row_no] if self.row_no < len(self.rows) else None

    @property
    def has_clear_text(self) -> bool:
        """Whether texts and values of this row are shown."""
        return self.always_shown or self.shown

    @property
    def labelled_count(self) -> int:
        """The number of rows that have a label."""
        return sum(map(is_labelled, self.rows))

    @property
    def matching_kinds(self) -> tuple[str, ...]:
        """The kinds that fit what is typed: those that begin with it, then those that contain
        it."""
        typed = self.entry.typed.upper() if isinstance(self.entry, KindChoice) else ""
        return (
            *(kind for kind in self.kinds if kind.startswith(typed)),
            *(kind for kind in self.kinds if typed in kind and not kind.startswith(typed)),
        )


def is_labelled(row: Row) -> bool:
    """Whether a row has its label."""
    return row["right" if row["ask"] == "find" else "missed"] is not None


def start_session(rows: Sequence[Row], kinds: Sequence[str], *, reveal: bool = False) -> LabelState:
    """The state at the first row without a label; the kinds of the sample are offered first."""
    in_sample = {
        name
        for row in rows
        for name in (
            [row["kind"]] if row["ask"] == "find" else [one["kind"] for one in row["found"]]
        )
    }
    ordered = (
        *(kind for kind in kinds if kind in in_sample),
        *(kind for kind in kinds if kind not in in_sample),
    )
    state = LabelState(rows=tuple(rows), kinds=ordered, always_shown=reveal)
    return replace(state, row_no=_find_unlabelled(state, 0))


def get_row_text(row: Row) -> str:
    """The text of a row: that around a find and the find itself, or the passage."""
    return str(row["before"] + row["value"] + row["after"] if row["ask"] == "find" else row["text"])


def find_span(row: Row) -> tuple[int, int]:
    """The span of a find in the text of its row: that which was corrected, or else that which was
    found."""
    offset = row["start"] - len(row["before"])
    span = row.get("right_span") or row
    return span["start"] - offset, span["end"] - offset


def press_key(state: LabelState, key: str) -> LabelState:
    """The state after a key. A key without a meaning changes nothing."""
    if isinstance(state.entry, KindChoice):
        return _press_in_kind_choice(state, state.entry, key)
    if isinstance(state.entry, SpanChoice):
        return _press_in_span_choice(state, state.entry, key)
    if key == "q":
        return replace(state, has_ended=True)
    if key == "?" or state.has_help:
        return replace(state, has_help=not state.has_help)
    if key == "b":
        return _go_to(state, max(0, state.row_no - 1))
    row = state.row
    if row is None:
        return state
    if key == "s":
        return replace(state, shown=not state.shown)
    if key == "space":
        return _go_to(state, _find_unlabelled(state, state.row_no + 1))
    return (
        _press_at_find(state, row, key)
        if row["ask"] == "find"
        else _press_at_passage(state, row, key)
    )


def _press_at_find(state: LabelState, row: Row, key: str) -> LabelState:
    label = {name: value for name, value in row.items() if name != "right_span"}
    match key:
        case "r":
            return _decide(state, label | {"right": True})
        case "w":
            return _decide(state, label | {"right": False})
        case "e":
            start, end = find_span(row)
            return replace(
                state,
                shown=True,
                entry=SpanChoice(start=start, end=end, handle="start", has_kind=False),
            )
    return state


def _press_at_passage(state: LabelState, row: Row, key: str) -> LabelState:
    added = list(row.get("added") or row["missed"] or ())
    found = row["found"]
    match key:
        case "r":
            return _decide(
                state,
                {name: value for name, value in row.items() if name != "added"} | {"missed": added},
            )
        case "m":
            start, end = _first_free_word(row)
            return replace(
                state,
                shown=True,
                entry=SpanChoice(start=start, end=end, handle="span", has_kind=True),
            )
        case "u" if added:
            return _set_row(state, {**row, "added": added[:-1], "missed": None})
        case "w" if found:
            wrong = set(row.get("wrong") or ()) ^ {state.selected_find}
            return _set_row(state, {**row, "wrong": sorted(wrong)})
        case "left" | "right" | "tab" if found:
            step = -1 if key == "left" else 1
            return replace(state, selected_find=(state.selected_find + step) % len(found), scroll=0)
        case "up" | "down":
            last_line = len(row["text"]) // _MIN_LINE_CHARACTERS + row["text"].count("\n")
            return replace(
                state,
                scroll=min(max(state.scroll + (-1 if key == "up" else 1), -last_line), last_line),
            )
    return state


def _press_in_span_choice(state: LabelState, entry: SpanChoice, key: str) -> LabelState:
    row = state.row
    assert row is not None
    text = get_row_text(row)
    match key:
        case "escape":
            return replace(state, entry=None)
        case "tab":
            handles: tuple[Literal["span", "start", "end"], ...] = (
                ("span", "start", "end") if entry.has_kind else ("start", "end")
            )
            handle = handles[(handles.index(entry.handle) + 1) % len(handles)]
            return replace(state, entry=replace(entry, handle=handle))
        case "left" | "right" | "up" | "down":
            return replace(state, entry=_move(entry, text, key))
        case "enter" if entry.has_kind:
            return replace(state, entry=KindChoice(start=entry.start, end=entry.end))
        case "enter":
            offset = row["start"] - len(row["before"])
            span = {"start": entry.start + offset, "end": entry.end + offset}
            if span == {"start": row["start"], "end": row["end"]}:  # nothing was moved: no decision
                return replace(state, entry=None)
            return _decide(state, {**row, "right": False, "right_span": span})
    return state


def _press_in_kind_choice(state: LabelState, entry: KindChoice, key: str) -> LabelState:
    row, matching = state.row, state.matching_kinds
    assert row is not None
    match key:
        case "escape":
            return replace(
                state,
                entry=SpanChoice(start=entry.start, end=entry.end, handle="span", has_kind=True),
            )
        case "backspace":
            return replace(state, entry=replace(entry, typed=entry.typed[:-1], selected=0))
        case "left" | "up" | "right" | "down" | "tab" if matching:
            step = -1 if key in ("left", "up") else 1
            return replace(
                state, entry=replace(entry, selected=(entry.selected + step) % len(matching))
            )
        case "enter" if matching:
            added = [
                *(row.get("added") or row["missed"] or ()),
                {"kind": matching[entry.selected], "start": entry.start, "end": entry.end},
            ]
            # the kind that was chosen is offered first the next time
            kinds = (
                matching[entry.selected],
                *(kind for kind in state.kinds if kind != matching[entry.selected]),
            )
            return _set_row(
                replace(state, entry=None, kinds=kinds), {**row, "added": added, "missed": None}
            )
    if len(key) == 1 and (key.isalnum() or key == "_") and key.isascii():
        longer = replace(entry, typed=entry.typed + key, selected=0)
        return replace(
            state, entry=longer if replace(state, entry=longer).matching_kinds else entry
        )
    return state


def _set_row(state: LabelState, row: Row) -> LabelState:
    return replace(state, rows=(*state.rows[: state.row_no], row, *state.rows[state.row_no + 1 :]))


def _decide(state: LabelState, row: Row) -> LabelState:
    """Give the row its label, and go to the next row without one."""
    state = _set_row(state, row)
    return _go_to(state, _find_unlabelled(state, state.row_no + 1))


def _go_to(state: LabelState, row_no: int) -> LabelState:
    return replace(state, row_no=row_no, shown=False, selected_find=0, scroll=0, entry=None)


def _find_unlabelled(state: LabelState, first: int) -> int:
    """The first row from `first` on that has no label; the number of rows if there is none."""
    return next(
        (no for no in range(first, len(state.rows)) if not is_labelled(state.rows[no])),
        len(state.rows),
    )


# ---------------------------------------------------------------------------------------- spans


def _first_free_word(row: Row) -> tuple[int, int]:
    """The first word of a passage that overlaps no span of it; its first word if all do."""
    taken = [
        (one["start"], one["end"])
        for one in (*row["found"], *(row.get("added") or ()))
        if isinstance(one, dict) and "start" in one
    ]
    words = _list_words(row["text"])
    return next(
        (
            word
            for word in words
            if not any(start < word[1] and word[0] < end for start, end in taken)
        ),
        words[0],
    )


def _list_words(text: str) -> list[tuple[int, int]]:
    """The spans of the words of a text, at least one."""
    return [match.span() for match in _WORD.finditer(text)] or [(0, len(text))]


def _move(entry: SpanChoice, text: str, key: str) -> SpanChoice:
    """Move a span by words, or one of its boundaries by a character or a word. A span has at least
    one character."""
    is_back, is_large = key in ("left", "up"), key in ("up", "down")
    words = _list_words(text)
    if entry.handle == "span":
        at = next((no for no, (_, end) in enumerate(words) if end > entry.start), len(words) - 1)
        step = _LARGE_STEP_WORDS if is_large else 1
        start, end = words[min(max(at + (-step if is_back else step), 0), len(words) - 1)]
        return replace(entry, start=start, end=end)
    position = entry.start if entry.handle == "start" else entry.end
    if not is_large:
        position += -1 if is_back else 1
    else:  # to the next start of a word, or the next end of one
        edges = [word[0 if entry.handle == "start" else 1] for word in words]
        beyond = [edge for edge in edges if (edge < position if is_back else edge > position)]
        position = (
            (beyond[-1] if is_back else beyond[0]) if beyond else (0 if is_back else len(text))
        )
    if entry.handle == "start":
        return replace(entry, start=min(max(position, 0), entry.end - 1))
    return replace(entry, end=min(max(position, entry.start + 1), len(text)))
