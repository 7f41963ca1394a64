"""Console output: results as one line of JSON or as text, and tables."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from sanitize.core.table_rendering import escape_controls
from sanitize.errors import ResourceError
from sanitize.storage.disk_errors import DISK_ERRNOS

if TYPE_CHECKING:
    from sanitize.core.command_results import BlacklistCounts, ColumnPolicy, KindCounts


def print_result(
    result: Any, as_json: bool, format_text: Callable[[Any], str], quiet: bool = False
) -> None:
    """Print a result as one line of JSON, or as the text that `format_text` gives; with `quiet` no
    text."""
    from sanitize.core.command_results import CommandResult

    with report_lost_output():
        if as_json:
            print_json(result.to_dict() if isinstance(result, CommandResult) else result)
        elif not quiet:
            print_text(format_text(result))


@contextlib.contextmanager
def report_lost_output() -> Iterator[None]:
    """Context in which a finished command prints its result, flushed at the end: a failed write is
    no failure of the command, and says so."""
    try:
        yield
        if sys.stdout is not None:  # None where the shell closed it with `>&-`
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in DISK_ERRNOS:
            raise
        raise ResourceError(
            f"standard output: a write failed ({errno.errorcode[error.errno]}). The command itself"
            " has completed, only its report was lost; the same command prints it again"
        ) from None


def print_text(text: str, err: bool = False) -> None:
    """Print a text. Control characters are escaped, so that a file name cannot change what the
    terminal shows."""
    typer.echo("\n".join(escape_controls(line) for line in text.split("\n")), err=err)


def print_json(value: Any, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    # elsewhere letters are JSON's own escapes
    is_unicode = "utf" in str(getattr(stream, "encoding", "utf-8")).lower()
    typer.echo(json.dumps(value, ensure_ascii=not is_unicode, sort_keys=True, default=str), err=err)


def format_table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """An aligned text table; columns of integers are aligned to the right, None is an empty cell. A
    line break in a cell is a blank."""
    cells = [
        header,
        *[
            tuple(
                (
                    ""
                    if value is None
                    else f"{value:,}"
                    if isinstance(value, int)
                    else escape_controls(str(value))
                )
                for value in row
            )
            for row in rows
        ],
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    numeric = [
        bool(rows) and all(isinstance(row[column], int) for row in rows)
        for column in range(len(header))
    ]
    lines = [
        "  ".join(
            text.rjust(width) if is_number else text.ljust(width)
            for text, width, is_number in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def format_kind_counts(kind_counts: Mapping[str, KindCounts]) -> str:
    """A table of the counts of every kind, most occurrences first."""
    from sanitize.core.command_results import tabulate_kinds

    return format_table(*tabulate_kinds(kind_counts))


LABEL_WIDTH = 16  # of the names of the lines of a summary


_MAX_COLUMNS = 60  # of a table of columns


def format_columns(columns: Sequence[ColumnPolicy]) -> str:
    """A table of columns: what each is taken for, what becomes of it, and why."""
    rows = [
        (column.name, column.taken_for, column.becomes, column.why)
        for column in columns[:_MAX_COLUMNS]
    ]
    if len(columns) > _MAX_COLUMNS:
        rows.append((f"{len(columns) - _MAX_COLUMNS:,} more: see the manifest", "", "", ""))
    return format_table(("column", "taken for", "becomes", "why"), rows)


def format_facts(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of a summary: names in a column, and texts beside it; at a terminal long texts are
    wrapped, elsewhere each is one line.

    A line break in a text is a blank: it may come from the input, as in the name of a column, and
    would begin a fact of its own.
    """
    width = max(60, shutil.get_terminal_size((120, 24)).columns) - LABEL_WIDTH
    lines = []
    for name, fact in facts:
        text = escape_controls(fact)
        wrapped = (
            textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
            if sys.stdout.isatty()
            else [text]
        )
        lines += [
            f"{label:<{LABEL_WIDTH}}{part}"
            for label, part in itertools.zip_longest([name], wrapped, fillvalue="")
        ]
    return lines


def format_blacklist(blacklist: BlacklistCounts) -> str:
    """The counts of a blacklist in one line."""
    ngram_counts = {
        reason: sum(entry.ngrams for entry in blacklist.listed if entry.reason == reason)
        for reason in ("direct", "indirect")
    }
    few_users = (
        f" and {ngram_counts['indirect']:,} n-grams of fewer than {blacklist.k} users"
        if blacklist.k > 1
        else ""
    )
    without_user = (
        f", {blacklist.documents_without_user:,} of them without a user"
        if blacklist.documents_without_user
        else ""
    )
    columns = blacklist.columns
    more = f" and {len(columns) - 4} more" if columns[4:] else ""
    read_columns = (
        f" (columns {', '.join(columns[:4])}{more}; --drop COLUMN leaves one out)"
        if columns[1:]
        else ""
    )
    return (
        f"{ngram_counts['direct']:,} values{few_users} in {blacklist.documents:,}"
        f" documents{without_user}{read_columns}; the list is in the vault"
    )
