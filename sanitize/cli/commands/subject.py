"""`sanitize subject`: where one person is, and out with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sanitize.cli.console import show
from sanitize.cli.options import AsJson, KeyFile, Quiet, Seed, Work, Workers, local_path


def command(
    work: Work,
    match: Annotated[
        Path,
        typer.Option(
            parser=local_path, metavar="FILE", help="who: one value, name or user:ID a line (# begins a comment)", show_default=False
        ),
    ],
    erase: Annotated[
        bool, typer.Option("--erase", help="take them out of every folder published from WORK, now and in later runs")
    ] = False,
    linked: Annotated[
        bool, typer.Option("--linked/--no-linked", help="also what stands under their display names, and their plus tags")
    ] = True,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(parser=local_path, metavar="RUN", help="a run folder of sanitize-train to look into, too", show_default=False),
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(parser=local_path, metavar="FILE", help="write the ids of their documents there, one a line", show_default=False),
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(parser=local_path, metavar="FILE", help="where the receipt goes (default: WORK/receipts)", show_default=False),
    ] = None,
    seed: Seed = None,
    key: KeyFile = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Where one person is: tables, documents, shards, checkpoints; --erase takes them out."""
    from sanitize.core.progress import shower
    from sanitize.errors import UsageError
    from sanitize.pipeline.erasure.subject import subject

    if receipt is not None and not erase:
        raise UsageError("--receipt: is written by --erase; add that, or leave --receipt out")
    found = subject(
        work,
        match,
        erase=erase,
        linked=linked,
        checkpoints=checkpoint or (),
        documents=documents,
        receipt=receipt,
        key_file=key,
        seed=seed,
        workers=workers,
        progress=shower(quiet),
    )
    show(found, as_json, _told, quiet)


def _told(found: Mapping[str, Any]) -> str:
    given, linked = found["given"], found["linked"]
    lines = [
        f"given      {_counted(given)}",
        f"linked     {_counted(linked)} under the same display names"
        + (f"; {linked['names_not_followed']} display names look like a list's or somebody else's" if linked["names_not_followed"] else ""),
        f"found      {found['occurrences']:,} occurrences in {found['documents']:,} documents"
        + (f", {found['documents_written']:,} of which they wrote" if found["documents_written"] else ""),
    ]
    most = sorted(found["places"], key=lambda place: -place["occurrences"])[:8]
    lines += [f"           {one['occurrences']:>7,} {one['kind']} in {one['section'] or 'the text'}" for one in most]
    for one in found["runs"]:
        where = f"{one['out']} (plan {one['plan']})"
        counts = (
            f"{one['left']:,} left, {one['replaced']:,} replaced, in {len(one['shards'])} shards"
            if one["left"] is not None
            else "not counted, it was made under an earlier index"
        )
        lines.append(f"published  {where}: {counts}")
    if nowhere := found["lines_without_a_match"]:
        lines.append(f"nowhere    line {', '.join(map(str, nowhere))} of the match stands nowhere in this corpus")
    lines += [f"elsewhere  {out} was published from here, and is not there any more: moved or removed" for out in found["elsewhere"]]
    for one in found["checkpoints"]:
        lines.append(
            f"trained    {one['run']}: {one['documents_seen']:,} of the documents seen; {one['checkpoints_after']} of {one['checkpoints']} "
            "checkpoints came after the first of them"
        )
    if erased := found.get("erased"):
        for one in erased["outs"]:
            lines.append(
                f"erased     {one['out']}: {one['places_erased']:,} places, {one['shards_rewritten']} of {one['shards']} shards rewritten, "
                f"{one['leaks']} leaks"
            )
            if one["encoded"]:
                forms = ", ".join(f"{times:,} in {form}" for form, times in one["encoded"].items())
                lines.append(
                    f"left       {forms}: values that had to go, this person's or others', in writings that only the full check reads; "
                    "`sanitize verify` says where"
                )
        if not erased["outs"]:
            lines.append("erased     nothing is published from here yet; later runs will leave them out")
        lines.append(f"receipt    {erased['receipt']}   (no values; it says what is not erased, too)")
    return "\n".join(lines)


def _counted(counts: Mapping[str, int]) -> str:
    told = [f"{counts[name]} {name if counts[name] != 1 else name[:-1]}" for name in ("values", "names", "users") if counts.get(name)]
    return ", ".join(told) or "nothing"
