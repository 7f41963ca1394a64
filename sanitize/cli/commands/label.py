"""`sanitize label`: a sample to label by hand, and what the labels say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sanitize.cli.console import show, table
from sanitize.cli.options import AsJson, Work, local_path


def command(
    work: Work,
    n: Annotated[int, typer.Option("--n", min=1, max=100_000, help="how many rows")] = 300,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=local_path, metavar="FILE", help="where the sample goes (default: WORK/labels/sample.jsonl)", show_default=False
        ),
    ] = None,
    score: Annotated[
        Path | None,
        typer.Option(parser=local_path, metavar="FILE", help="a labelled sample: precision and recall by kind", show_default=False),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            parser=local_path,
            metavar="WORK",
            help="an index of the same corpus by other finders: what all of them missed, without labels; again for a third",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="draws another sample")] = 0,
    as_json: AsJson = False,
) -> None:
    """A sample of finds and passages to label by hand; --score says what the labels tell."""
    from sanitize.inspection.annotation import label

    show(label(work, n=n, out=out, score=score, against=against, seed=seed), as_json, _told)


def _told(found: Mapping[str, Any]) -> str:
    if "kinds" in found:
        rows: list[tuple[Any, ...]] = [
            (
                kind,
                one["judged"],
                _with(one["precision"], one["precision_interval"]),
                one["found"] + one["missed"],
                _with(one["recall"], one["recall_interval"]),
            )
            for kind, one in found["kinds"].items()
        ]
        head = ("kind", "judged", "precision (95 %)", "in passages", "recall (95 %)")
        waiting = f"{found['not_labelled']:,} of {found['rows']:,} rows are not labelled yet"
        return "\n".join([table(head, rows), *(["", waiting] if found["not_labelled"] else [])])
    if "estimates" in found and len(found["finders"]) > 2:
        lists = len(found["finders"])
        rows = [
            (
                kind,
                *one["lists"],
                one["found"],
                "–" if one["least"] is None else f"{one['least']:,.0f} ({_range(one['least_interval'])})",
                "–" if one["loglinear"] is None else f"{one['loglinear']:,.0f} ({_range(one['loglinear_interval'])})",
            )
            for kind, one in found["estimates"].items()
        ]
        several = ("kind", *(f"index {number + 1}" for number in range(lists)), "by any", "at least (95 %)", "log-linear (95 %)")
        indexes = [f"index {number + 1}  {', '.join(said)}" for number, said in enumerate(found["finders"].values())]
        lines = [table(several, rows), "", *indexes, f"assumes  {found['assumes']}"]
        if found["one_finder_only"]:
            lines.append(f"alone    only one of them found any {', '.join(found['one_finder_only'])}: nothing can be said of these")
        return "\n".join(lines)
    if "estimates" in found:
        counts: list[tuple[Any, ...]] = [
            (
                kind,
                one["first"],
                one["second"],
                one["both"],
                "–" if one["estimate"] is None else round(one["estimate"]),
                _range(one["interval"]),
            )
            for kind, one in found["estimates"].items()
        ]
        lines = [table(("kind", "first", "second", "both", "estimate", "95 %"), counts), "", f"assumes  {found['assumes']}"]
        if found["one_finder_only"]:
            lines.append(f"alone    only one of the two found any {', '.join(found['one_finder_only'])}: nothing can be said of these")
        return "\n".join(lines)
    few = f"no row of {', '.join(found['left_out'])}: there are more strata than rows; take a larger --n"
    lines = [
        table(("stratum", "rows"), sorted(found["strata"].items())),
        *([few] if found["left_out"] else []),
        "",
        f"file  {found['file']}   (it holds texts; keep it private)",
    ]
    lines.append('fill  `right` of every find with true or false; `missed` of every passage with [] or [{"kind": "PERSON"}, ...], and')
    lines.append("      `wrong` with the places of its wrong finds")
    lines.append(f"next  sanitize label {found['work']} --score {found['file']}")
    return "\n".join(lines)


def _with(value: float | None, interval: list[float] | None) -> str:
    return "–" if value is None or interval is None else f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def _range(interval: list[float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:,.0f} to {interval[1]:,.0f}"
