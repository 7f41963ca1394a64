"""`sanitize label`: draws a sample, asks for its labels at a terminal, and computes precision and
recall from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sanitize.cli.console import format_table, print_result
from sanitize.cli.options import AsJson, Reveal, WorkspacePath, local_path

if TYPE_CHECKING:
    from sanitize.inspection.annotation import LabelSample, LabelScores, MissedEstimate
    from sanitize.inspection.capture_recapture import SeveralIndexEstimate, TwoIndexEstimate


def command(
    work: WorkspacePath,
    n: Annotated[int, typer.Option("--n", min=1, max=100_000, help="number of rows")] = 300,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="the file of the sample and its labels (default: WORK/labels/sample.jsonl)",
            show_default=False,
        ),
    ] = None,
    score: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="compute precision and recall by kind from this labelled sample",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            parser=local_path,
            metavar="WORK",
            help=(
                "an index of the same corpus by other finders: estimate what all of them missed,"
                " without labels; repeat for a third"
            ),
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="another seed draws another sample")] = 0,
    ask: Annotated[
        bool | None,
        typer.Option(
            "--ask/--no-ask",
            help=(
                "ask for the labels here, one key each, or only write the file (default: ask at a"
                " terminal)"
            ),
            show_default=False,
        ),
    ] = None,
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    """Draw a sample of occurrences and passages, and ask for its labels, one key each; --score
    computes precision and recall from it.

    A session can be ended at any time: the same command goes on with the rows that have no label.
    Texts are masked until a key shows them. Off a terminal, or with --no-ask, the sample is only
    written, to be filled in with an editor.
    """
    from sanitize.cli.keyboard import has_terminal
    from sanitize.errors import UsageError
    from sanitize.inspection.annotation import estimate_missed, sample_for_labels, score_labels

    if ask and not has_terminal():
        raise UsageError(
            "--ask: standard input and output are not a terminal that reads single keys; leave"
            " --ask out to get a file to fill in"
        )
    if ask and (as_json or score is not None or against is not None):
        raise UsageError(
            "--ask excludes --json, --score and --against: it asks for labels, and they print"
            " results"
        )
    if score is not None and against is not None:
        raise UsageError(
            "--score and --against exclude each other: one reads labels, the other needs none"
        )
    if score is not None:
        print_result(score_labels(work, score), as_json, _format_scores)
    elif against is not None:
        print_result(estimate_missed(work, against), as_json, _format_missed)
    elif ask or (ask is None and not as_json and has_terminal()):
        print_result(
            _label_at_terminal(work, out, n=n, seed=seed, reveal=reveal), False, _format_session
        )
    else:
        print_result(sample_for_labels(work, n=n, out=out, seed=seed), as_json, _format_sample)


def _label_at_terminal(
    work: Path, out: Path | None, *, n: int, seed: int, reveal: bool
) -> LabelScores:
    """Draw the sample if there is none yet, ask for the labels it lacks, and return the scores of
    those it has."""
    from sanitize.cli.label_screen import label_at_terminal
    from sanitize.inspection.annotation import (
        SampleFile,
        get_sample_path,
        read_sample,
        sample_for_labels,
        score_labels,
    )
    from sanitize.inspection.label_session import start_session
    from sanitize.kinds.kind import all_kinds, custom_kinds
    from sanitize.plans.detection_spec import read_custom_kinds

    path = get_sample_path(work, out)
    if not path.exists():
        sample_for_labels(work, n=n, out=out, seed=seed)
    with custom_kinds(read_custom_kinds(work)):
        kinds = sorted(all_kinds())
    file = SampleFile(path)
    label_at_terminal(start_session(read_sample(path), kinds, reveal=reveal), file.save)
    return score_labels(work, path)


def _format_session(result: LabelScores) -> str:
    return f"{_format_scores(result)}\n\nlabels  {result.file}   (it holds texts; keep it private)"


def _format_sample(sample: LabelSample) -> str:
    too_few_rows = (
        f"no row of {', '.join(sample.empty_strata)}: there are more strata than rows; use a"
        " larger --n"
    )
    lines = [
        format_table(("stratum", "rows"), sorted(sample.strata.items())),
        *([too_few_rows] if sample.empty_strata else []),
        "",
        f"file  {sample.file}   (it holds texts; keep it private)",
    ]
    lines.append(
        "fill  `right` of every find with true or false; `missed` of every passage with [] or"
        ' [{"kind": "PERSON"}, ...], and'
    )
    lines.append("      `wrong` with the indexes of the wrong entries of `found`, counted from 0")
    lines.append(f"next  sanitize label {sample.work} --score {sample.file}")
    return "\n".join(lines)


def _format_scores(result: LabelScores) -> str:
    from sanitize.core.verdict import format_share

    rows: list[tuple[Any, ...]] = [
        (
            kind,
            scores.judged,
            scores.wrong_spans,
            format_share(scores.precision, scores.precision_interval, none="–"),
            scores.found + scores.missed,
            format_share(scores.recall, scores.recall_interval, none="–"),
        )
        for kind, scores in result.kinds.items()
    ]
    header = ("kind", "judged", "wrong span", "precision (95 %)", "in passages", "recall (95 %)")
    shown = (
        "shown by the next `sanitize run` of an output of this index, and by its report and verify"
    )
    waiting = f"{result.unlabelled_rows:,} of {result.rows:,} rows are not labelled yet"
    return "\n".join(
        [
            format_table(header, rows),
            "",
            *([waiting] if result.unlabelled_rows else []),
            *([shown] if rows else []),
        ]
    )


def _format_missed(result: MissedEstimate) -> str:
    rows = [_format_estimates(kind, counts) for kind, counts in result.estimates.items()]
    indexes: list[str] = []
    if len(result.finders) > 2:
        numbers = range(1, len(result.finders) + 1)
        header: tuple[str, ...] = (
            "kind",
            *(f"index {number}" for number in numbers),
            "by any",
            "estimate (95 %)",
        )
        indexes = [
            f"index {number}  {', '.join(finders)}"
            for number, finders in zip(numbers, result.finders.values(), strict=True)
        ]
    else:
        header = ("kind", "index 1", "index 2", "both", "estimate")
    lines = [format_table(header, rows), "", *indexes, f"assumes  {result.assumption}"]
    lines += [f"{kinds}: {reason}" for kinds, reason in result.list_obstacles()]
    return "\n".join(lines)


def _format_estimates(
    kind: str, counts: TwoIndexEstimate | SeveralIndexEstimate
) -> tuple[Any, ...]:
    """A row of the table of estimates."""
    from sanitize.inspection.capture_recapture import TwoIndexEstimate

    estimate = "–" if counts.estimate is None else f"{counts.estimate:,.0f}"
    if isinstance(counts, TwoIndexEstimate):
        return kind, counts.first, counts.second, counts.both, estimate
    if counts.interval is not None:
        estimate += f" ({counts.interval[0]:,.0f} to {counts.interval[1]:,.0f})"
    return kind, *counts.found_by_list, counts.found, estimate
