"""How results are shown: one line of JSON, or text for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import typer

from sanitize.core.rendering import visible


def show(value: Any, as_json: bool, human: Callable[[Any], str], quiet: bool = False) -> None:
    if as_json:
        print_json(value)
    elif not quiet:
        say(human(value))


def say(text: str, err: bool = False) -> None:
    """A text on the terminal, line by line; control characters of names are spelled out, so that a file name cannot play tricks."""
    typer.echo("\n".join(visible(line) for line in text.split("\n")), err=err)


def print_json(value: Any, err: bool = False) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str), err=err)


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    cells = [
        head,
        *[tuple("" if value is None else f"{value:,}" if isinstance(value, int) else str(value) for value in row) for row in rows],
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    right = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(text.rjust(width) if side else text.ljust(width) for text, width, side in zip(row, widths, right, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def by_kind(by_kind: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (kind, entry["occurrences"], entry["values"], entry["kept"], entry["replaced"], entry["left"]) for kind, entry in by_kind.items()
    ]
    return table(("kind", "occurrences", "values", "kept", "replaced", "left by plan"), sorted(rows, key=lambda row: -row[1]))


def listed(blacklist: Mapping[str, Any]) -> str:
    """A blacklist in counts."""
    many = {reason: sum(one["ngrams"] for one in blacklist["listed"] if one["reason"] == reason) for reason in ("direct", "indirect")}
    few = f" and {many['indirect']:,} n-grams of fewer than {blacklist['k']} users" if blacklist["k"] > 1 else ""
    nobody = f", {blacklist['without_user']:,} of them of nobody" if blacklist["without_user"] else ""
    columns = blacklist["columns"]
    more = f" and {len(columns) - 4} more" if columns[4:] else ""
    several = f" (columns {', '.join(columns[:4])}{more}; --drop COLUMN leaves one out)" if columns[1:] else ""
    return f"{many['direct']:,} values{few} in {blacklist['documents']:,} documents{nobody}{several}; the list is in the vault"
