"""`sanitize diff`: shows what a run changed, document by document, at the terminal or as a page."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

import sanitize
from sanitize.cli.console import print_json, print_text, report_lost_output
from sanitize.cli.options import AsJson, WorkspaceOfOutput, local_path, require_choice
from sanitize.core.table_rendering import escape_controls

_VIEWS = ("auto", "side", "unified")


def command(
    out: Annotated[
        Path,
        typer.Argument(
            parser=local_path, metavar="OUT", help="a published folder", show_default=False
        ),
    ],
    work: WorkspaceOfOutput = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="documents with this kind, and the text around it; repeatable",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MARK",
            help="what was replaced, swept, kept, left or dropped; repeatable",
            show_default=False,
        ),
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option(
            "--id", metavar="ID", help="the document of this id; repeatable", show_default=False
        ),
    ] = None,
    document: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N", help="the document of this number, from 0; repeatable", show_default=False
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="draw N of the documents, instead of the first ones",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="another seed draws another sample")] = 0,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="the most documents that are shown")
    ] = 20,
    context: Annotated[int, typer.Option(min=0, help="characters shown around a change")] = 160,
    view: Annotated[
        str,
        typer.Option(
            help="side (before beside after), unified, or auto: side if the terminal is wide"
        ),
    ] = "auto",
    html: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="FILE", help="write an HTML page instead", show_default=False
        ),
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="show all texts, with what was removed")
    ] = False,
    reveal_output: Annotated[
        bool,
        typer.Option(
            "--reveal-output", help="show the texts that OUT holds; what was removed stays masked"
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a run changed, document by document: what was replaced, kept, left by the plan,
    swept or dropped, and by which part.

    Labels and surrogates are shown as published, other texts masked by shape unless they are
    revealed. The originals are read from the input files,
    which must be as they were.
    """
    from sanitize.cli.diff_screen import MIN_SIDE_BY_SIDE, draw_diff
    from sanitize.inspection.output_diff import diff

    require_choice("--view", view, _VIEWS)
    result = diff(
        out,
        work=work,
        kind=kind or (),
        only=only or (),
        id=id or (),
        document=document or (),
        sample=sample,
        seed=seed,
        limit=limit,
        context=context,
        reveal=reveal,
        reveal_output=reveal_output,
        html=html,
    )
    has_selection = bool(kind or only or id or document)
    with report_lost_output():
        if as_json:
            print_json(result.to_dict())
        elif result.page is not None:
            print_text(_summarize(result, has_selection))
        else:
            is_terminal = sys.stdout is not None and sys.stdout.isatty()
            width = shutil.get_terminal_size((100, 24)).columns
            beside = view == "side" or (
                view == "auto" and is_terminal and width >= MIN_SIDE_BY_SIDE
            )
            is_coloured = (
                is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
            )
            if result.documents:
                drawn = draw_diff(
                    result,
                    width=width if is_terminal else MIN_SIDE_BY_SIDE,
                    side_by_side=beside,
                    is_coloured=is_coloured,
                )
                # its texts are escaped; its colours are meant for the terminal
                typer.echo(f"{drawn}\n", color=is_coloured)
            print_text(_summarize(result, has_selection))


def _summarize(result: sanitize.DiffResult, has_selection: bool) -> str:
    from sanitize.reporting.diff_page import DIFF_TEXTS

    shown, matching = len(result.documents), result.matching
    if not matching and has_selection:
        return "no document has what was selected"
    if not matching:
        return (
            "no document was changed or dropped; --only kept and --only left show what was found"
            " and stays"
        )
    lines = [
        f"{shown:,} of {matching:,} documents that match; texts are {DIFF_TEXTS[result.shown]}"
    ]
    if result.shown == "shapes":
        lines.append("--reveal-output shows what OUT holds, --reveal everything")
    if shown < matching:
        lines.append(
            "--limit shows more, --sample N draws some, --kind, --only, --id and --document select"
        )
    if result.columns:
        columns = ", ".join(
            f"{escape_controls(column.name)} ({column.policy})" for column in result.columns
        )
        lines.append(f"columns changed as a whole: {columns}")
    if result.page is not None:
        lines.append(
            "page "
            f" {result.page}{'' if result.shown == 'shapes' else '   (it holds texts; keep it private)'}"  # noqa: E501
        )
    return "\n".join(lines)
