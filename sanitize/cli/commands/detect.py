"""`sanitize detect`: lists the occurrences in texts; with `--fail-on` it is a check with an exit
code of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

import sanitize
from sanitize.cli.completion import complete_kinds_and_categories
from sanitize.cli.console import format_table, print_json, print_text, report_lost_output
from sanitize.cli.options import (
    AsJson,
    FinderNames,
    Include,
    PlanChanges,
    PlanName,
    ReadAs,
    Reveal,
    local_path,
)

_MAX_SHOWN_LINES = 8  # line numbers of one kind in one file
_MAX_SHOWN_FILES = 5  # files without text that a note names


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="text files, folders of them, or - for standard input",
            show_default=False,
        ),
    ],
    plan: PlanName = "redact",
    set_: PlanChanges = None,
    finder: FinderNames = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="KIND,...",
            autocompletion=complete_kinds_and_categories,
            help=(
                "exit code 10 if one of these kinds or categories occurs ('*': all of the plan);"
                " prints counts and lines, no values"
            ),
            show_default=False,
        ),
    ] = None,
    lines: Annotated[
        bool,
        typer.Option("--lines", help="each line is a text of its own (default: each file is one)"),
    ] = False,
    include: Include = None,
    read_as: ReadAs = None,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    """List the occurrences in texts: kind, start, end (characters from 0), value (masked without
    --reveal), score."""
    from sanitize.errors import UsageError
    from sanitize.inspection.text_files import list_text_files
    from sanitize.plans.plan import load_plan

    if read_as not in (None, "text"):
        raise UsageError(
            f"--as {read_as}: detect reads every file as text, at the places in the file; what a"
            " plan finds in tables and mails is shown by `sanitize explain`"
        )
    if fail_on is None:
        loaded_plan = load_plan(plan, set_ or (), finder or ())
        _list_occurrences(files, include or (), loaded_plan, lines, reveal, as_json)
        return
    for option, is_given in (("--reveal", reveal), ("--lines", lines)):
        if is_given:
            raise UsageError(
                f"{option} has no effect with --fail-on, which prints no values, and lines by their"
                " numbers; leave it out"
            )
    entries = [entry.strip() for value in fail_on for entry in value.split(",") if entry.strip()]
    _check_files(
        list(list_text_files(files, include or ())),
        load_plan(plan, set_ or (), finder or ()),
        entries,
        as_json,
    )


def _check_files(
    files: Sequence[str], plan: sanitize.Plan, entries: Sequence[str], as_json: bool
) -> None:
    """Print the occurrences by file and kind. Raises OccurrencesFound if there is one."""
    from sanitize.errors import OccurrencesFound
    from sanitize.inspection.text_file_check import find_in_files, resolve_fail_kinds

    kinds = resolve_fail_kinds(entries, plan)
    search = find_in_files(files, plan, kinds)
    _note_unsearched(search.without_text)
    rows = [
        (_display_name(one.file), one.kind, one.occurrences, _format_lines(one.lines))
        for one in search.found
    ]
    searched = search.files - len(search.without_text)
    with report_lost_output():
        if as_json:
            for one in search.found:
                print_json({**asdict(one), "file": _display_name(one.file)})
        elif rows:
            print_text(format_table(("file", "kind", "occurrences", "lines"), rows))
        else:
            print_text(
                f"none of {', '.join(kinds)} was found in {searched:,} {_pluralize_files(searched)}"
                f" (plan {plan.name})"
            )
    if search.found:
        counts: dict[str, int] = {}
        for one in search.found:
            counts[one.kind] = counts.get(one.kind, 0) + one.occurrences
        listed = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
        found_files = len({one.file for one in search.found})
        raise OccurrencesFound(
            f"found {listed} in {found_files:,} of {searched:,} {_pluralize_files(searched)};"
            " remove or replace these values, or list those that may stay in find.allow of a plan"
        )


def _pluralize_files(count: int) -> str:
    return "file" if count == 1 else "files"


def _note_unsearched(files: Sequence[str]) -> None:
    """Name files without text on standard error."""
    if files:
        more = len(files) - _MAX_SHOWN_FILES
        names = ", ".join(map(_display_name, files[:_MAX_SHOWN_FILES])) + (
            f" and {more:,} more" if more > 0 else ""
        )
        print_text(f"note: not searched, no text: {names}", err=True)


def _display_name(file: str) -> str:
    from sanitize.errors import printable_path

    return "standard input" if file == "-" else printable_path(file)


def _format_lines(lines: Sequence[int]) -> str:
    """Line numbers in a short form, such as `3, 17-19 and 5 more`."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and runs[-1][1] == line - 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    shown = [
        f"{first}" if first == last else f"{first}-{last}"
        for first, last in runs[:_MAX_SHOWN_LINES]
    ]
    more = sum(last - first + 1 for first, last in runs[_MAX_SHOWN_LINES:])
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _list_occurrences(
    inputs: Sequence[str],
    include: Sequence[str],
    plan: sanitize.Plan,
    lines: bool,
    reveal: bool,
    as_json: bool,
) -> None:
    """Print one row for each occurrence; with the file's name where several are searched."""
    import polars as pl

    from sanitize.inspection.text_detection import detect
    from sanitize.inspection.text_files import read_file_texts
    from sanitize.storage.views.masks import mask_texts

    read = read_file_texts(inputs, include)
    files = [*read.texts, *read.without_text]
    has_files = len(files) > 1 or files[0] not in {str(local_path(path)) for path in inputs}
    texts: list[str] = []
    file_names: list[str] = []
    line_numbers: list[int] = []
    for file, text in read.texts.items():
        parts = text.removesuffix("\n").split("\n") if lines else [text]
        texts += parts
        file_names += itertools.repeat(_display_name(file), len(parts))
        line_numbers += range(1, len(parts) + 1)
    _note_unsearched(read.without_text)
    found = detect(texts, plan=plan, values=True)
    if not reveal:
        found = found.with_columns(value=mask_texts(found["value"], found["kind"]))
    found = found.with_columns(score=pl.col("score").cast(pl.Float64).round(3))
    by_text = pl.DataFrame(
        {"file": file_names, "line": line_numbers}, schema={"file": pl.String, "line": pl.Int64}
    )
    found = pl.concat([by_text[found["text_index"]], found], how="horizontal")
    columns = (
        (["file"] if has_files else [])
        + (["line"] if lines else [])
        + ["kind", "start", "end", "value", "score"]
    )
    with report_lost_output():
        if as_json:
            left_out = [
                name for name, is_shown in (("file", has_files), ("line", lines)) if not is_shown
            ]
            for row in found.drop(left_out).iter_rows(named=True):
                print_json(row)
        else:
            rows = [(*row[:-1], f"{row[-1]:g}") for row in found.select(columns).iter_rows()]
            place = (
                f"{len(read.texts):,} {_pluralize_files(len(read.texts))}"
                if has_files
                else _display_name(files[0])
            )
            print_text(
                format_table(tuple(columns), rows)
                if rows
                else f"nothing of plan {plan.name} was found in {place}"
            )
