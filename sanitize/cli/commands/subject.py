"""`sanitize subject`: finds everything of one person, and with `--erase` removes it from all
outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sanitize.cli.console import print_result
from sanitize.cli.options import (
    FROM_OPTIONS,
    AsJson,
    Quiet,
    WorkspacePath,
    local_path,
    with_settings,
)
from sanitize.plans.settings import Settings

if TYPE_CHECKING:
    from sanitize.pipeline.erasure.subject_request import (
        GivenIdentifiers,
        LinkedIdentifiers,
        SubjectResult,
    )


@with_settings("subject")
def command(
    work: WorkspacePath,
    match: Annotated[
        Path,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="the person: one value, name or user:ID per line (# begins a comment)",
            show_default=False,
        ),
    ],
    erase: Annotated[
        bool,
        typer.Option(
            "--erase",
            help="remove the person from every folder published from WORK, now and in later runs",
        ),
    ] = False,
    linked: Annotated[
        bool,
        typer.Option(
            "--linked/--no-linked",
            help="also values with the same display names, and addresses with plus tags",
        ),
    ] = True,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            parser=local_path,
            metavar="RUN",
            help="a run folder of sanitize-train, to report which checkpoints saw the documents",
            show_default=False,
        ),
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="write the ids of the person's documents to this file, one per line",
            show_default=False,
        ),
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="the file to write the receipt to (default: in WORK/receipts)",
            show_default=False,
        ),
    ] = None,
    deleted: Annotated[
        list[Path] | None,
        typer.Option(
            parser=local_path,
            metavar="FOLDER",
            help=(
                "with --erase: a published folder that no longer exists anywhere, so that it is not"
                " missing"
            ),
            show_default=False,
        ),
    ] = None,
    settings: Settings = FROM_OPTIONS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show where one person occurs: tables, documents, shards, checkpoints. --erase removes
    them."""
    from sanitize.errors import UsageError
    from sanitize.pipeline.erasure.subject_request import subject

    if receipt is not None and not erase:
        raise UsageError(
            "--receipt: only --erase writes a receipt; add --erase, or leave --receipt out"
        )
    if deleted and not erase:
        raise UsageError(
            "--deleted: says which folders --erase need not reach; add --erase, or leave"
            " --deleted out"
        )
    found = subject(
        work,
        match,
        erase=erase,
        linked=linked,
        checkpoint=checkpoint or (),
        documents=documents,
        receipt=receipt,
        deleted=deleted or (),
        key=settings.key,
        seed=settings.seed,
        workers=settings.workers,
        progress=settings.progress,
    )
    print_result(found, as_json, _format_subject, quiet)


_UNREACHED = {
    "missing": "was published from here and is not found, here or beside the private folder",
    "other content": "was published from here; another folder is there now",
    "other workspace": "was published from here, and belongs to the private folder beside it",
    "copy": "is a copy, which --erase leaves as it is",
}


def _format_subject(result: SubjectResult) -> str:
    given, linked = result.given, result.linked
    lines = [
        f"given      {_format_counts(given)}",
        f"linked     {_format_counts(linked)} under the same display names"
        + (
            f"; {linked.names_not_followed} display names were not followed: they look like a"
            " list's or another person's"
            if linked.names_not_followed
            else ""
        ),
        f"found      {result.occurrences:,} occurrences in {result.documents:,} documents"
        + (
            f", {result.documents_authored:,} of which they wrote"
            if result.documents_authored
            else ""
        ),
    ]
    most_frequent = sorted(result.occurrences_by_section, key=lambda place: -place.occurrences)[:8]
    lines += [
        f"           {place.occurrences:>7,} {place.kind} in {place.section or 'the text'}"
        for place in most_frequent
    ]
    lines += [
        f"{'in' if number == 0 else '':<11}{place.source}, {place.location}"
        for number, place in enumerate(result.places)
    ]
    if (more := result.documents - len(result.places)) > 0:
        lines.append(f"{'':<11}and {more:,} more documents: table sources of `sanitize sql`")
    for run in result.runs:
        counts = (
            f"{run.remaining:,} left, {run.replaced:,} replaced, in {len(run.shards)} shards"
            if run.remaining is not None
            else "not counted: the run used an earlier index"
        )
        lines.append(f"published  {run.out} (plan {run.plan}): {counts}")
    if unmatched := result.unmatched_lines:
        lines.append(
            f"nowhere    line {', '.join(map(str, unmatched))} of the match file does not occur in"
            " this corpus"
        )
    lines += [
        f"unreached  {output.out}: {_UNREACHED[output.reason]}"
        for output in result.unreached_outputs
    ]
    for training in result.checkpoints:
        lines.append(
            f"trained    {training.run}: {training.documents_seen:,} of the documents seen;"
            f" {training.checkpoints_after} of {training.checkpoints} checkpoints came after the"
            " first of them"
        )
    if erased := result.erased:
        for output in erased.outputs:
            lines.append(
                f"erased     {output.out}: {output.occurrences_erased:,} places,"
                f" {output.shards_rewritten} of {output.shards} shards rewritten, {output.leaks}"
                " leaks"
            )
            if output.encoded_leaks:
                forms = ", ".join(
                    f"{times:,} in {form}" for form, times in output.encoded_leaks.items()
                )
                lines.append(
                    f"left       {forms}: removed values, of this person or of others, in encoded"
                    " forms that only the full check reads; `sanitize verify` shows where"
                )
        if not erased.outputs:
            lines.append(
                "erased     nothing is published from here yet; later runs will leave this"
                " person out"
            )
        lines.append(f"receipt    {erased.receipt}   (no values; it also lists what is not erased)")
    return "\n".join(lines)


def _format_counts(counts: GivenIdentifiers | LinkedIdentifiers) -> str:
    numbers = {name: getattr(counts, name, 0) for name in ("values", "names", "users")}
    texts = [
        f"{number} {name if number != 1 else name[:-1]}"
        for name, number in numbers.items()
        if number
    ]
    return ", ".join(texts) or "nothing"
