"""Runs `sanitize demo`: generates mails of invented people, sanitizes them, and shows what became
of the values."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from sanitize.cli.generated_mails import generate_mails, write_mbox
from sanitize.errors import UsageError
from sanitize.pipeline.run_results import RunResult
from sanitize.storage.private_folder import (
    OCCURRENCES_FOLDER,
    RUNS_FOLDER,
    VALUES_FOLDER,
    read_rows,
)

DEMO_SEED = 1  # of the demo's mails and of its key: the demo prints the same on every machine


# ---- the demo ----


def run_demo(folder: Path, mail_count: int, print_text: Callable[[str], None]) -> RunResult:
    """Write invented mails to `folder`, sanitize them beside it, and print what happened through
    `print_text`.

    Returns the result of the run. The same call again reuses the run and prints the same.
    Raises UsageError for a folder that holds anything else.
    """
    from sanitize.pipeline.run import run_with_settings
    from sanitize.plans.plan import load_plan
    from sanitize.plans.settings import Settings
    from sanitize.storage.disk_errors import refuse_unwritable_path

    mbox, out, marker = folder / "mails.mbox", folder / "clean", folder / ".demo"
    if folder.exists() and not marker.is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder}: holds other files, and the demo would overwrite them; use another --dir"
        )
    with refuse_unwritable_path(folder, "use another --dir"):
        folder.mkdir(parents=True, exist_ok=True)
        marker.write_text("made by `sanitize demo`, which may write over this folder\n", "ascii")
    write_mbox(generate_mails(mail_count, DEMO_SEED), mbox)
    print_text(
        f"{mail_count:,} mails by invented people: {mbox} ({mbox.stat().st_size // 1000:,} KB)\n"
    )
    print_text(f"$ sanitize run {mbox} -o {out} --plan rmft --seed {DEMO_SEED}\n")
    plan = load_plan("rmft")
    summary = run_with_settings([mbox], out, plan, settings=Settings(seed=DEMO_SEED, replace=True))
    work = Path(summary.work)
    state = (
        f"done in {summary.seconds} s"
        if summary.changed
        else "done before: the same command again changes nothing"
    )
    print_text(f"WHAT WAS FOUND ({state})\n\n{_format_kind_counts(summary)}\n")
    print_text(f"The plan `{plan.name}`: {plan.about}\n")
    print_text(
        f"THE FIVE MOST FREQUENT, masked (`sanitize top {work} --reveal` shows"
        f" them)\n\n{_format_top_values(work)}\n"
    )
    run_folder = work / RUNS_FOLDER / summary.run_hash
    for section in (
        _format_one_address(work, run_folder),
        _format_three_lines(work, run_folder),
        _format_closing(summary, out, work),
    ):
        print_text(section)
    return summary


def _format_kind_counts(summary: RunResult) -> str:
    entries = sorted(summary.by_kind.items(), key=lambda entry: -entry[1].occurrences)
    rows = [
        (
            kind,
            *(
                f"{count:,}"
                for count in (
                    counts.occurrences,
                    counts.values,
                    counts.kept,
                    counts.replaced,
                    counts.left_by_plan,
                )
            ),
        )
        for kind, counts in entries
    ]
    return _format_table(
        [("kind", "occurrences", "distinct", "kept", "replaced", "left by plan"), *rows]
    )


def _format_top_values(work: Path) -> str:
    from sanitize.storage import queries

    database = queries.open_connection(work)
    try:
        rows = queries.run_query(
            database, queries.get_query("top_values"), {"limit": 5}
        ).to_pylist()
    finally:
        database.close()
    header = ("rank", "kind", "value", "occurrences", "mails")
    lines = [
        (
            f"{row['rank']}",
            row["kind"],
            row["value"],
            f"{row['occurrences']:,}",
            f"{row['documents']:,}",
        )
        for row in rows
    ]
    return _format_table([header, *lines], left_columns=3)


_SHOWN_OCCURRENCES = 6  # occurrences of one address: enough to show each component kept once
_ADDRESS_COMPONENTS = {
    "its first name": r"\A([a-z]+)\.",
    "its last name": r"\.([a-z]+)@",
    "its domain": r"@(.*)\z",
}


def _format_one_address(work: Path, run_folder: Path) -> str:
    """What became of one address: its first occurrence, which is kept, and the variants of the next
    ones. "" if no address will do."""
    import polars as pl

    def read(folder: Path, *names: str) -> pl.DataFrame:
        return read_rows(work, folder, names)

    occurrences = read(
        work / OCCURRENCES_FOLDER, "doc_no", "cell", "start_byte", "value_id", "section"
    )
    edits = read(run_folder / "edits", "doc_no", "cell", "start_byte", "replacement")
    # addresses with a single spelling of the form first.last: then only the variants differ
    spellings = (
        read(work / VALUES_FOLDER, "value_id", "value")
        .group_by("value_id")
        .agg(pl.col("value").min(), count=pl.len())
    )
    plain = spellings.filter(
        pl.col("value").str.contains(r"\A[a-z]+\.[a-z]+@[^@]+\z"), pl.col("count") == 1
    )
    frame = occurrences.join(plain, on="value_id").join(
        edits, on=["doc_no", "cell", "start_byte"], how="left", maintain_order="left"
    )
    frame = frame.with_columns(number=pl.int_range(pl.len()).over("value_id")).filter(
        pl.col("number") < _SHOWN_OCCURRENCES
    )
    kept = pl.coalesce(
        pl.when(
            pl.col("value").str.extract(pattern) == pl.col("replacement").str.extract(pattern)
        ).then(pl.lit(name))
        for name, pattern in _ADDRESS_COMPONENTS.items()
    )
    frame = frame.with_columns(
        kept=pl.when(pl.col("replacement").is_null())
        .then(pl.lit("all (first occurrence)"))
        .otherwise(kept)
    )
    # the address that shows most: kept components, sections, mails; ties by value_id
    candidates = frame.group_by("value_id").agg(
        pl.len(),
        components=pl.col("kept").n_unique(),
        sections=pl.col("section").n_unique(),
        mails=pl.col("doc_no").n_unique(),
    )
    candidates = candidates.filter(pl.col("len") == _SHOWN_OCCURRENCES)
    candidates = candidates.sort("components", "sections", "mails", "value_id", descending=True)
    if not candidates.height:
        return ""
    rows = (
        frame.filter(pl.col("value_id") == candidates["value_id"][0])
        .sort("number")
        .rows(named=True)
    )
    lines = [
        (
            f"{row['doc_no'] + 1:,}",
            row["section"] or "",
            row["replacement"] or row["value"],
            row["kept"] or "",
        )
        for row in rows
    ]
    return (
        "WHAT BECAME OF ONE ADDRESS,"
        f" {rows[0]['value']}\n\n{_format_table([('mail', 'section', 'text in the output', 'kept component'), *lines], left_columns=4)}\n\nThe"  # noqa: E501
        " first occurrence is kept. Each later one becomes a new variant: one component, drawn at"
        " random, is kept,\nthe others come from other addresses of the corpus. No variant is an"
        " address that occurs in the corpus.\n"
    )


def _format_three_lines(work: Path, run_folder: Path) -> str:
    """Three lines before and after sanitizing."""
    from sanitize.reporting.edit_samples import select_edit_samples
    from sanitize.storage.private_folder import SavedIndex

    index = SavedIndex.read_complete(work)
    samples = select_edit_samples(
        index.documents,
        index.leaves,
        run_folder / "edits" / "00000.parquet",
        200,
    )
    # prefer lines of the body with a single value
    single_value = [
        sample
        for sample in samples
        if sample.text_before.strip()
        and sample.text_after.strip()
        and not re.search(r"[@\d<>]", sample.text_before + sample.text_after)
    ]
    chosen = []
    for kind in ("PHONE_NUMBER", "EMAIL_ADDRESS", "CREDIT_CARD"):
        chosen += [sample for sample in single_value if sample.kind == kind][:1]
    chosen += [sample for sample in samples if sample not in chosen][: 3 - len(chosen)]
    lines = []
    for sample in chosen:
        # only the sentence around the edit
        lead, tail = (
            re.split(r"(?<=[.!?]) ", sample.text_before)[-1],
            re.split(r"(?<=[.!?]) ", sample.text_after)[0],
        )
        lines.append(f"  - {lead}{sample.original}{tail}\n  + {lead}{sample.replacement}{tail}")
    return "THREE LINES, before and after\n\n" + "\n\n".join(lines) + "\n"


def _format_closing(summary: RunResult, out: Path, work: Path) -> str:
    """The verdict, where the files are, and commands to try next."""
    dropped, quarantined = summary.documents_dropped, summary.quarantined
    files = [
        (f"{out}/data", "the sanitized shards, for any trainer"),
        (f"{out}/report.html", "the report, to open in a browser"),
        (f"{work}", "the index, all edits and the raw values: private, never to be shared"),
    ]
    query = "SELECT kind, sum(occurrences) FROM value_counts GROUP BY 1"
    next_commands = [
        (f"sanitize top {work} --kind PHONE_NUMBER",),
        (f'sanitize sql {work} "{query}"',),
        (f"sanitize verify {out}",),
    ]
    verdict = []
    for line in summary.verdict:
        names, texts = (
            itertools.chain([line.name], itertools.repeat("")),
            textwrap.wrap(line.text, 100, break_on_hyphens=False),
        )
        verdict += [f"  {name:<14}  {text}" for name, text in zip(names, texts, strict=False)]
    return (
        "THE VERDICT\n\n" + "\n".join(verdict) + "\n"
        f"  {'documents':<14}  {summary.documents_in:,} in = {summary.documents_out:,} out +"
        f" {dropped:,} dropped"
        f" + {quarantined:,} in quarantine\n\n"
        f"FILES\n\n{_format_table(files, left_columns=2, has_header=False)}\n\n"
        f"NEXT\n\n{_format_table(next_commands, has_header=False)}"
    )


def _format_table(
    rows: Sequence[tuple[str, ...]], left_columns: int = 1, has_header: bool = True
) -> str:
    """An indented text table; the first `left_columns` columns are aligned to the left, the others
    to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if has_header:
        rows = [rows[0], tuple("-" * width for width in widths), *rows[1:]]
    alignments = "<" * left_columns + ">" * (len(widths) - left_columns)
    lines = (
        "  ".join(
            f"{text:{align}{width}}"
            for text, align, width in zip(row, alignments, widths, strict=True)
        )
        for row in rows
    )
    return "\n".join(f"  {line}".rstrip() for line in lines)


# ---- generating mails ----
