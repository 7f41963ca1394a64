"""The screen of `sanitize label`: what a state of labelling (`inspection/label_session.py`) looks
like, and the loop of keys.

Values and contexts are masked by their shape until a key shows them. Control characters of texts
are escaped.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sanitize.core.table_rendering import escape_controls
from sanitize.inspection.label_session import (
    KindChoice,
    LabelState,
    Row,
    SpanChoice,
    find_span,
    get_row_text,
    press_key,
)

if TYPE_CHECKING:
    from rich.text import Text

_MIN_WIDTH, _MIN_TEXT_LINES = 20, 3
_FOCUS = "reverse"
_FIND_KEYS = "r right   w wrong   e wrong span   space skip   b back   s show   q quit   ? help"
_PASSAGE_KEYS = (
    "r nothing else   w wrong   m missed   space skip   b back   s show   q quit   ? help"
)
_SPAN_KEYS = (
    "tab: {handle}   left/right: a {step}   up/down: {large}   enter: take it   escape: back"
)
_KIND_KEYS = "type to narrow   arrows: another   enter: take it   escape: back"
_HELP = """\
A find: is what is marked a value of its kind, from its first character to its last?
  r  right
  w  wrong: it is no such value
  e  wrong span: it is one, with other boundaries, which you set next

A passage: are the marks right, and is there a value without one?
  left, right  choose a mark        w  the mark is wrong, or right again
  m  a value was missed: its span, then its kind        u  takes the last one back
  r  nothing else was missed: the passage is labelled
  up, down     scroll

space skips a row: it is asked again the next time        b goes back: a label may be changed
s shows the text, or masks it        q quits: the same command goes on with the rows without label
Every decision is in the file at once. Any key leaves this help."""


def label_at_terminal(state: LabelState, save: Callable[[tuple[Row, ...]], None]) -> LabelState:
    """Ask until the session ends; returns its last state. `save` gets the rows whenever one of them
    changed."""
    from sanitize.cli.keyboard import KeyReader

    with KeyReader() as keyboard:
        while not state.has_ended:
            keyboard.show(draw_screen(state, *shutil.get_terminal_size((80, 24))))
            for key in keyboard.read_keys():
                before, state = state.rows, press_key(state, key)
                if state.rows is not before:
                    save(state.rows)
                if state.has_ended:
                    break
    return state


def draw_screen(state: LabelState, width: int, height: int) -> str:
    """The screen of a state, with the codes of a terminal; colours unless NO_COLOR is set."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        no_color=bool(os.environ.get("NO_COLOR")),
        width=max(width - 1, _MIN_WIDTH),
        height=height,
        highlight=False,
        markup=False,
        emoji=False,
    )
    row = state.row
    head = Text(
        f"row {min(state.row_no + 1, len(state.rows)):,} of {len(state.rows):,},"
        f" {state.labelled_count:,} labelled",
        style="dim",
    )
    if state.has_help:
        lines = [head, Text(), *Text(_HELP).wrap(console, console.width)]
    elif row is None:
        left = len(state.rows) - state.labelled_count
        skipped = (
            f"{left:,} were skipped; the same command asks them again."
            if left
            else "All of them have a label."
        )
        lines = [
            head,
            Text(),
            *Text(f"That was the last row. {skipped}").wrap(console, console.width),
            Text(),
            Text("b back   q quit"),
        ]
    else:
        question = Text(_describe_question(state, row)).wrap(console, console.width)
        keys = Text(_list_keys(state, row), style="dim").wrap(console, console.width)
        text = _draw_find(state, row) if row["ask"] == "find" else _draw_passage(state, row)
        max_lines = max(height - len(question) - len(keys) - 5, _MIN_TEXT_LINES)
        body = _select_lines(
            list(text.wrap(console, console.width)), max_lines, 0 if state.entry else state.scroll
        )
        lines = [head, *question, Text(), *body, Text(), *keys]
    with console.capture() as capture:
        for number, line in enumerate(lines):
            console.print(line, end="" if number == len(lines) - 1 else "\n", soft_wrap=True)
    return str(capture.get()).replace("\n", "\r\n")


def _describe_question(state: LabelState, row: Row) -> str:
    """The question, with what was answered so far."""
    if isinstance(state.entry, KindChoice):
        return f"Which kind is it? {state.entry.typed}_  {_list_kinds(state)}"
    if isinstance(state.entry, SpanChoice):
        return (
            "Where is the missed value?" if state.entry.has_kind else f"Where is the {row['kind']}?"
        )
    if row["ask"] == "find":
        answer = {
            None: "",
            True: "   now: right",
            False: "   now: wrong span" if row.get("right_span") else "   now: wrong",
        }[row["right"]]
        return f"{row['kind']}: right?{answer}"
    found, added = row["found"], row.get("added") or row["missed"] or ()
    wrong = set(row.get("wrong") or ())
    mark = "no value is marked"
    if found:
        chosen = found[state.selected_find]
        mark = (
            f"mark {state.selected_find + 1} of {len(found)} is"
            f" {chosen['kind']}{', wrong' if state.selected_find in wrong else ''}"
        )
    names = ", ".join(one["kind"] if isinstance(one, dict) else str(one) for one in added)
    finished = "   now: nothing else is missing" if row["missed"] is not None else ""
    return f"Passage: {mark}; missed so far: {names or 'none'}{finished}"


def _list_kinds(state: LabelState) -> str:
    """The kinds around the selected one, which is in brackets."""
    assert isinstance(state.entry, KindChoice)
    matching, selected = state.matching_kinds, state.entry.selected
    first = max(0, min(selected - 2, len(matching) - 5))
    shown = [f"[{kind}]" if no == selected else kind for no, kind in enumerate(matching)][
        first : first + 5
    ]
    return f"{' '.join(shown)}   {selected + 1} of {len(matching)}"


def _list_keys(state: LabelState, row: Row) -> str:
    if isinstance(state.entry, KindChoice):
        return _KIND_KEYS
    if isinstance(state.entry, SpanChoice):
        is_span = state.entry.handle == "span"
        handle = {
            "span": "the whole span moves",
            "start": "the start moves",
            "end": "the end moves",
        }[state.entry.handle]
        step, large = ("word", "10 words") if is_span else ("character", "a word")
        return _SPAN_KEYS.format(handle=handle, step=step, large=large)
    return _FIND_KEYS if row["ask"] == "find" else _PASSAGE_KEYS


def _draw_find(state: LabelState, row: Row) -> Text:
    span = (state.entry.start, state.entry.end) if state.entry else find_span(row)
    return _draw_text(get_row_text(row), [(*span, row["kind"], _FOCUS)], state.has_clear_text)


def _draw_passage(state: LabelState, row: Row) -> Text:
    wrong = set(row.get("wrong") or ())
    spans = []
    for no, one in enumerate(row["found"]):
        style = "strike red" if no in wrong else "underline cyan"
        is_selected = no == state.selected_find and state.entry is None
        spans.append(
            (one["start"], one["end"], one["kind"], f"{_FOCUS} {style}" if is_selected else style)
        )
    added = [
        one
        for one in row.get("added") or row["missed"] or ()
        if isinstance(one, dict) and "start" in one
    ]
    spans += [(one["start"], one["end"], one["kind"], "bold underline green") for one in added]
    if state.entry is not None:
        spans.append((state.entry.start, state.entry.end, "", f"{_FOCUS} bold"))
    return _draw_text(row["text"], spans, state.has_clear_text)


def _draw_text(text: str, spans: Iterable[tuple[int, int, str, str]], is_clear: bool) -> Text:
    """A text with styled spans (start, end, kind, style), of which a later one covers an earlier;
    masked by shape unless `is_clear`."""
    from rich.text import Text

    styles = [("", "")] * len(text)
    for start, end, kind, style in spans:
        styles[start:end] = [(kind, style)] * (min(end, len(text)) - start)
    pieces: list[tuple[str, str, str]] = []
    start = 0
    for at in range(1, len(text) + 1):
        is_line_end = text[at - 1] == "\n" or text[at : at + 1] == "\n"
        if at == len(text) or styles[at] != styles[start] or is_line_end:
            pieces.append((text[start:at], *styles[start]))
            start = at
    shown = (
        [piece for piece, _, _ in pieces]
        if is_clear
        else _mask([(piece, kind) for piece, kind, _ in pieces])
    )
    drawn = Text()
    for (piece, _, style), content in zip(pieces, shown, strict=True):
        drawn.append("\n" if piece == "\n" else escape_controls(content), style=style)
    return drawn


def _mask(pieces: list[tuple[str, str]]) -> list[Any]:
    """The shapes of pieces of text, each with its kind."""
    import polars as pl

    from sanitize.storage.views.masks import mask_texts

    texts, kinds = (
        pl.Series([pair[place] for pair in pieces], dtype=pl.String) for place in (0, 1)
    )
    return list(mask_texts(texts, kinds))


def _select_lines(lines: list[Text], max_lines: int, scroll: int) -> list[Text]:
    """At most `max_lines` lines: those around the line with the focus, or `scroll` lines after
    them."""
    focused = next(
        (
            no
            for no, line in enumerate(lines)
            if any(_FOCUS in str(span.style) for span in line.spans)
        ),
        0,
    )
    first = min(
        max(min(max(focused - max_lines // 2, 0), len(lines) - max_lines) + scroll, 0),
        max(len(lines) - max_lines, 0),
    )
    return lines[first : first + max_lines]
