"""`sanitize detect`: lists the occurrences in a text."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from sanitize.cli.console import format_table, print_text
from sanitize.cli.options import AsJson, PlanChanges, PlanName, Reveal, local_path


def command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="a text file in UTF-8, or - for standard input", show_default=False)],
    plan: PlanName = "rmft",
    set_: PlanChanges = None,
    lines: Annotated[bool, typer.Option("--lines", help="each line is a text of its own (default: the whole file is one)")] = False,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    """List the occurrences in a text: kind, start, end (characters from 0), value (masked without --reveal), score."""
    import polars as pl

    from sanitize.errors import InputRefused
    from sanitize.inspection.text_functions import detect
    from sanitize.plans.plan import load_plan
    from sanitize.storage.views import mask_texts

    name = "standard input" if file == "-" else file
    try:
        raw = sys.stdin.buffer.read() if file == "-" else local_path(file).read_bytes()
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(f"{name}: cannot be read ({type(error).__name__}); expected a text in UTF-8") from None
    texts = text.removesuffix("\n").split("\n") if lines else [text]
    found = detect(texts, plan=load_plan(plan, set_ or ()), values=True)
    if not reveal:
        found = found.with_columns(value=mask_texts(found["value"], found["kind"]))
    found = found.with_columns(score=pl.col("score").cast(pl.Float64).round(3))
    if as_json:
        for row in found.iter_rows(named=True):
            typer.echo(json.dumps(row, ensure_ascii=False, sort_keys=True))
        return
    columns = (["text_index"] if lines else []) + ["kind", "start", "end", "value", "score"]
    rows = [(*row[:-1], f"{row[-1]:g}") for row in found.select(columns).iter_rows()]
    header = tuple("line" if column == "text_index" else column for column in columns)
    if lines:
        rows = [(row[0] + 1, *row[1:]) for row in rows]
    print_text(format_table(header, rows) if rows else f"nothing of plan {plan} was found in {name}")
