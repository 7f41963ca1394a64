"""`sanitize redact`: rewrites texts and files, without a private folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sanitize.cli.console import format_facts, print_text
from sanitize.cli.options import (
    FROM_OPTIONS,
    FinderNames,
    Include,
    PlanChanges,
    PlanName,
    Quiet,
    ReadAs,
    local_path,
    with_settings,
)
from sanitize.plans.settings import Settings

if TYPE_CHECKING:
    from sanitize.inspection.file_redaction import RedactedFile, Redaction

_BINARY = (".parquet", ".pq", ".parq", ".arrow", ".feather", ".ipc")


@with_settings("redact")
def command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="files and folders: text, JSON, CSV, Parquet, Arrow, mails; - is standard input",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="a text instead of files", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            parser=local_path,
            metavar="OUT",
            help="a file, or a folder for several (default: one file to standard output)",
            show_default=False,
        ),
    ] = None,
    plan: PlanName = "redact",
    set_: PlanChanges = None,
    finder: FinderNames = None,
    read_as: ReadAs = None,
    include: Include = None,
    settings: Settings = FROM_OPTIONS,
    quiet: Quiet = False,
) -> None:
    """Rewrite texts and files by a plan, each in its own format; the result is checked as by `run`.

    All is read into memory and nothing private is kept: for a corpus use `sanitize run`.
    """
    from sanitize.errors import UsageError
    from sanitize.inspection.file_redaction import redact_files, redact_text
    from sanitize.plans.plan import load_plan

    chosen = load_plan(plan, set_ or (), finder or ())
    if (text is None) == (not inputs):
        raise UsageError(
            "redact: expected files, - for standard input, or a text with --text, and one of these"
        )
    if text is not None:
        clean, redaction = redact_text(text, chosen, settings)
        _write([(out, (clean + "\n").encode())])
    else:
        named = list(inputs or ())
        redaction = redact_files(named, chosen, settings, read_as=read_as, include=include or ())
        _write(_choose_targets(redaction.files, named, out))
    if not quiet:
        print_text("\n".join(_describe(redaction, chosen.name)), err=True)


def _choose_targets(
    files: list[RedactedFile], named: list[str], out: Path | None
) -> list[tuple[Path | None, bytes]]:
    """Where each file is written; None is standard output. Raises UsageError for a target that is
    an input, and for two files with one target."""
    from sanitize.errors import UsageError, printable_path

    is_folder = len(files) > 1 or any(os.path.isdir(one) for one in named)
    if out is None and is_folder:
        raise UsageError(f"redact: {len(files)} files need a folder: -o FOLDER")
    if is_folder and out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"{out}: is no folder; several files need one: -o FOLDER")
    if out is None:
        if files[0].name.endswith(_BINARY) and sys.stdout.isatty():
            raise UsageError("redact: the result is not text; name a file with -o")
        return [(None, files[0].content)]
    as_folder = is_folder or out.is_dir()
    targets = [out / one.place if as_folder else out for one in files]
    taken: dict[str, str] = {}
    inputs = {os.path.realpath(one.name) for one in files}
    for target, one in zip(targets, files, strict=True):
        real = os.path.realpath(target)
        if real in inputs:
            raise UsageError(
                f"{printable_path(str(target))}: is one of the inputs; name another -o"
            )
        if real in taken:
            raise UsageError(
                f"{printable_path(one.name)} and {printable_path(taken[real])} have one name in"
                " OUT; name their folder instead, or give each an -o of its own"
            )
        taken[real] = one.name
    return [(target, one.content) for target, one in zip(targets, files, strict=True)]


def _write(targets: list[tuple[Path | None, bytes]]) -> None:
    """Write each file at once, or not at all; standard output as it is."""
    from sanitize.errors import UsageError
    from sanitize.storage.disk_errors import refuse_unwritable_path, translate_disk_errors
    from sanitize.storage.files import closed_streams, replace_file

    for target, content in targets:
        if target is None:
            if sys.stdout is None or "stdout" in closed_streams:
                raise UsageError("redact: standard output is closed; name a file with -o")
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
            continue
        with refuse_unwritable_path(target, "use another -o"), translate_disk_errors(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, _compress(target.name, content))


def _compress(name: str, content: bytes) -> bytes:
    """The bytes compressed as a file of this name is."""
    import gzip

    import pyarrow as pa

    if name.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    is_zstd = name.endswith((".zst", ".zstd"))
    return pa.compress(content, "zstd", asbytes=True) if is_zstd else content


def _describe(redaction: Redaction, plan_name: str) -> list[str]:
    """What was replaced, and what not, for standard error."""
    counts = redaction.replaced
    replaced = ", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "nothing"
    facts = [("replaced", f"{replaced} (plan {plan_name})")]
    if redaction.results:
        facts += [
            (line.name, line.text)
            for line in redaction.results[-1].verdict
            if line.name in ("not looked for", "stays", "check") and line.level != "good"
        ]
    notes = [note for result in redaction.results for note in result.notes]
    return format_facts([*facts, *(("note", note) for note in [*redaction.notes, *notes])])
