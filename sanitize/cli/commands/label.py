"""`sanitize label`: draws a sample to label by hand, and computes precision and recall from the labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sanitize.cli.console import format_table, print_result
from sanitize.cli.options import AsJson, WorkspacePath, local_path


def command(
    work: WorkspacePath,
    n: Annotated[int, typer.Option("--n", min=1, max=100_000, help="number of rows")] = 300,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="the file to write the sample to (default: WORK/labels/sample.jsonl)",
            show_default=False,
        ),
    ] = None,
    score: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="FILE", help="compute precision and recall by kind from this labelled sample", show_default=False
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            parser=local_path,
            metavar="WORK",
            help="an index of the same corpus by other finders: estimate what all of them missed, without labels; repeat for a third",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="another seed draws another sample")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw a sample of occurrences and passages to label by hand; --score computes precision and recall from it."""
    from sanitize.inspection.annotation import label

    print_result(label(work, n=n, out=out, score=score, against=against, seed=seed), as_json, _format_annotation)


def _format_annotation(result: Mapping[str, Any]) -> str:
    if "kinds" in result:
        rows: list[tuple[Any, ...]] = [
            (
                kind,
                scores["judged"],
                _format_estimate(scores["precision"], scores["precision_interval"]),
                scores["found"] + scores["missed"],
                _format_estimate(scores["recall"], scores["recall_interval"]),
            )
            for kind, scores in result["kinds"].items()
        ]
        header = ("kind", "judged", "precision (95 %)", "in passages", "recall (95 %)")
        waiting = f"{result['unlabelled_rows']:,} of {result['rows']:,} rows are not labelled yet"
        return "\n".join([format_table(header, rows), *(["", waiting] if result["unlabelled_rows"] else [])])
    if "estimates" in result and len(result["finders"]) > 2:
        index_count = len(result["finders"])
        rows = [
            (
                kind,
                *counts["found_by_list"],
                counts["found"],
                "–"
                if counts["lower_bound"] is None
                else f"{counts['lower_bound']:,.0f} ({_format_interval(counts['lower_bound_interval'])})",
                "–" if counts["loglinear"] is None else f"{counts['loglinear']:,.0f} ({_format_interval(counts['loglinear_interval'])})",
            )
            for kind, counts in result["estimates"].items()
        ]
        columns = ("kind", *(f"index {number + 1}" for number in range(index_count)), "by any", "at least (95 %)", "log-linear (95 %)")
        indexes = [f"index {number + 1}  {', '.join(finders)}" for number, finders in enumerate(result["finders"].values())]
        lines = [format_table(columns, rows), "", *indexes, f"assumes  {result['assumption']}"]
        if result["one_finder_only"]:
            lines.append(f"alone    only one index has any {', '.join(result['one_finder_only'])}: no estimate is possible for these")
        return "\n".join(lines)
    if "estimates" in result:
        rows = [
            (
                kind,
                counts["first"],
                counts["second"],
                counts["both"],
                "–" if counts["estimate"] is None else round(counts["estimate"]),
                _format_interval(counts["interval"]),
            )
            for kind, counts in result["estimates"].items()
        ]
        lines = [format_table(("kind", "first", "second", "both", "estimate", "95 %"), rows), "", f"assumes  {result['assumption']}"]
        if result["one_finder_only"]:
            lines.append(f"alone    only one index has any {', '.join(result['one_finder_only'])}: no estimate is possible for these")
        return "\n".join(lines)
    too_few_rows = f"no row of {', '.join(result['empty_strata'])}: there are more strata than rows; use a larger --n"
    lines = [
        format_table(("stratum", "rows"), sorted(result["strata"].items())),
        *([too_few_rows] if result["empty_strata"] else []),
        "",
        f"file  {result['file']}   (it holds texts; keep it private)",
    ]
    lines.append('fill  `right` of every find with true or false; `missed` of every passage with [] or [{"kind": "PERSON"}, ...], and')
    lines.append("      `wrong` with the indexes of the wrong entries of `found`, counted from 0")
    lines.append(f"next  sanitize label {result['work']} --score {result['file']}")
    return "\n".join(lines)


def _format_estimate(value: float | None, interval: list[float] | None) -> str:
    return "–" if value is None or interval is None else f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def _format_interval(interval: list[float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:,.0f} to {interval[1]:,.0f}"
