"""What a diff looks like at a terminal and in a pipe: before and after side by side, or one under
the other.

Colours are used at a terminal only, and not with NO_COLOR. Control characters of texts are escaped.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sanitize.core.table_rendering import escape_controls
from sanitize.reporting.diff_page import (
    CellDiff,
    DiffResult,
    DocumentDiff,
    Segment,
    describe_outcome,
    list_lines,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

MIN_SIDE_BY_SIDE = 120  # columns from which two texts fit beside each other
_STYLES_BEFORE = {
    "replaced": "red",
    "swept": "bold red",
    "kept": "yellow",
    "left": "cyan",
    "dropped": "red",
}
_STYLES_AFTER = {"replaced": "green", "swept": "bold green", "kept": "yellow", "left": "cyan"}


def draw_diff(result: DiffResult, *, width: int, side_by_side: bool, is_coloured: bool) -> str:
    """The documents of a diff as text; lines of the unified form are as long as they are, so that a
    pipe gets whole lines."""
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=is_coloured,
        color_system="standard" if is_coloured else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for document in result.documents:
        console.print(Text(_describe(document), style="bold"), soft_wrap=True)
        for cell in document.cells:
            console.print(Text(f"  {escape_controls(cell.leaf)}", style="dim"), soft_wrap=True)
            if side_by_side:
                console.print(_draw_beside(cell))
            else:
                _print_unified(console, cell)
        console.print()
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).rstrip("\n")


def _describe(document: DocumentDiff) -> str:
    names = [
        one
        for one in (
            document.doc_id if document.doc_id != str(document.doc_no) else "",
            document.split,
            f"({document.source}, {document.location})" if document.source else "",
        )
        if one
    ]
    return escape_controls(
        " ".join([f"document {document.doc_no}", *names]) + f": {describe_outcome(document)}"
    )


def _print_unified(console: Console, cell: CellDiff) -> None:
    from rich.text import Text

    for line in list_lines(cell):
        if line.omitted:
            console.print(Text(f"    ... {line.omitted:,} characters", style="dim"), soft_wrap=True)
            continue
        if line.is_changed:
            for sign, segments, styles, style in (
                ("-", line.before, _STYLES_BEFORE, "red"),
                ("+", line.after, _STYLES_AFTER, "green"),
            ):
                for text in _split_segments(segments, styles) if segments else ():
                    console.print(Text.assemble((f"  {sign} ", style), text), soft_wrap=True)
        else:
            console.print(
                Text.assemble("    ", *_split_segments(line.after, _STYLES_AFTER)), soft_wrap=True
            )
        for note in line.notes:
            console.print(Text(f"  ~ {escape_controls(note)}", style="dim"), soft_wrap=True)


def _draw_beside(cell: CellDiff) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(width=1)
    grid.add_column(ratio=5, overflow="fold")
    grid.add_column(ratio=5, overflow="fold")
    grid.add_column(ratio=2, overflow="fold", style="dim")
    for line in list_lines(cell):
        if line.omitted:
            grid.add_row("", Text(f"... {line.omitted:,} characters", style="dim"))
            continue
        before, after = _join(line.before, _STYLES_BEFORE), _join(line.after, _STYLES_AFTER)
        grid.add_row(
            "|" if line.is_changed else "",
            before,
            after,
            Text(escape_controls("; ".join(line.notes))),
        )
    return grid


def _join(segments: Sequence[Segment], styles: dict[str, str]) -> Text:
    from rich.text import Text

    return Text("\n").join(_split_segments(segments, styles))


def _split_segments(segments: Sequence[Segment], styles: dict[str, str]) -> Iterator[Text]:
    """Segments as styled texts, one for each line: an edit may span several."""
    from rich.text import Text

    current = Text()
    for mark, text in segments:
        for number, part in enumerate(text.split("\n")):
            if number:
                yield current
                current = Text()
            current.append(escape_controls(part), style=styles.get(mark, ""))
    yield current
