"""The page of the papers' criteria, and its summary in README.md, from the kept results and the
history of the thresholds."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.criteria import FAILS, HOLDS, NOT_DECIDED, NOT_REPRODUCED, REPRODUCED, RESULTS
from docs.generate.markdown import format_table

HISTORY = Path(RESULTS).parents[1] / "criteria_history.toml"
NOT_MEASURED = ["Not measured yet."]
SIZES = ("real", "gpu", "cpu", "ci")  # in the order of the page
PAPERS = {
    "rmft": "Randomized masked fine-tuning",
    "early_detection": "Early detection of memorization",
    "recollect_rank": "Recollect and Rank",
    "ppmlm": "PPMLM",
    "unlearning": "DP2Unlearning",
}
VERDICTS = (REPRODUCED, NOT_REPRODUCED, NOT_DECIDED, HOLDS, FAILS)


def read_results(paper: str) -> list[dict[str, Any]]:
    """The kept results of a paper's script: those of pretrained models first, and those on own
    texts after the generated ones."""
    found = [json.loads(path.read_text("utf-8")) for path in RESULTS.glob(f"{paper}_*.json")]
    return sorted(
        (one for one in found if one["paper"] == paper),
        key=lambda one: (SIZES.index(one["size"]), one.get("data", "")),
    )


def read_history() -> dict[str, Any]:
    """When thresholds were set and what changed, by paper."""
    return tomllib.loads(HISTORY.read_text("utf-8"))


def get_verdict(criterion: Mapping[str, Any]) -> str:
    """The verdict of an entry; of results that are older than verdicts, whether the value holds."""
    return criterion.get("verdict") or (HOLDS if criterion["reproduced"] else FAILS)


def name_run(result: Mapping[str, Any]) -> str:
    """The size of a result, and its data and model if these are not the generated and the usual
    ones."""
    return f"`{result['size']}`" + "".join(
        f", {result[key]}" for key in ("model", "data") if key in result
    )


def describe_set_date(paper: str, name: str, history: Mapping[str, Any]) -> str:
    """The date at which a threshold was set, and of each later change; those after results are
    marked."""
    entry = history[paper]
    changes = [change for change in entry.get("changes", []) if name in change["criteria"]]
    later = [f"{change['date']}{'*' if change['after_results'] else ''}" for change in changes]
    date = entry.get("set_later", {}).get(name, entry["set"])
    return f"{date}" + (f"; changed {', '.join(later)}" if later else "")


def describe_measured(criterion: Mapping[str, Any]) -> str:
    """Value and interval."""
    interval = f" ({criterion['low']:.3g} to {criterion['high']:.3g})" if "low" in criterion else ""
    return f"{criterion['value']:.3g}{interval}"


def describe_events(criterion: Mapping[str, Any]) -> str:
    """The number of events, and how many it would take where the criterion is not decided."""
    events, needed = criterion.get("events"), criterion.get("events_needed")
    return "" if not events else f"{events:,}" + (f"; about {needed:,} needed" if needed else "")


def format_epochs(result: Mapping[str, Any]) -> list[str]:
    """Leaks and perplexity of each epoch of a pretrained model on mail; epoch 0 is the untrained
    model."""
    columns = {
        "seed": "seed",
        "lr": "lr",
        "plan": "plan",
        "epoch": "epoch",
        "leaked_web": "leaks, generic prompts",
        "leaked_cue": "leaks, cues",
        "addresses": "addresses",
        "ppl_mail": "perplexity of held-out mail",
    }
    rows = [
        [f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in columns]
        for row in result["tables"]["epochs"]
    ]
    return format_table(list(columns.values()), rows)


def list_changes(entry: Mapping[str, Any]) -> Iterable[str]:
    """A line for each change of a paper's criteria or sizes."""
    for change in entry.get("changes", []):
        names = ", ".join(f"`{name}`" for name in change["criteria"])
        when = f"{change['date']}" + (
            ", **after results had been seen**" if change["after_results"] else ""
        )
        yield f"- {when}: {names + ' ' if names else ''}{change['what']}."


def list_missed(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each result with criteria that are not reproduced, reported ones too, and the note
    of the script."""
    lines = []
    for result in results:
        missed = [
            f"`{name}`" + (f" ({criterion['note']})" if criterion["note"] else "")
            for name, criterion in result["criteria"].items()
            if get_verdict(criterion) in (NOT_REPRODUCED, FAILS)
        ]
        if missed:
            lines.append(f"- {name_run(result)}: {'; '.join(missed)}.")
    return lines


def papers_block() -> list[str]:
    """All criteria of all papers at all sizes, with the date of each threshold and every change of
    it."""
    history, lines = read_history(), list[str]()
    for paper, title in PAPERS.items():
        results = read_results(paper)
        lines += [f"## {title}", ""]
        if not results:
            lines += [*NOT_MEASURED, ""]
            continue
        for result in results:
            lines.append(f"- {name_run(result)}, {result['date']}: {result['scaled']}")
        for result in results:
            if result["tables"].get("epochs"):
                lines += ["", f"{name_run(result)} by epoch:", "", *format_epochs(result)]
        names = list(dict.fromkeys(name for result in results for name in result["criteria"]))
        rows = []
        # headline criteria first
        for name in sorted(
            names,
            key=lambda one: (
                not any(result["criteria"].get(one, {}).get("headline") for result in results)
            ),
        ):
            for number, result in enumerate(one for one in results if name in one["criteria"]):
                criterion = result["criteria"][name]
                comparison = f"{'>=' if criterion['above'] else '<='} {criterion['threshold']:.3g}"
                paper_value = (
                    f"{criterion['paper']:.3g}"
                    if isinstance(criterion["paper"], int | float)
                    else criterion["paper"]
                )
                rows.append(
                    [
                        f"`{name}`" if not number else "",
                        name_run(result) + ("" if criterion["headline"] else " (reported only)"),
                        describe_measured(criterion),
                        describe_events(criterion),
                        comparison,
                        paper_value,
                        describe_set_date(paper, name, history) if not number else "",
                        get_verdict(criterion),
                    ]
                )
        head = [
            "criterion",
            "size",
            "value (95 %)",
            "events",
            "threshold",
            "paper",
            "threshold set",
            "verdict",
        ]
        lines += ["", *format_table(head, rows), ""]
        if methods := sorted(
            {
                one["interval"]
                for result in results
                for one in result["criteria"].values()
                if one.get("interval")
            }
        ):
            lines += [f"Intervals: {'; '.join(methods)}.", ""]
        if changes := list(list_changes(history[paper])):
            lines += [
                "Changes after a threshold was set (\\* in the table: after results):",
                "",
                *changes,
                "",
            ]
        if missed := list_missed(results):
            lines += [
                "Not reproduced, by interval or by value alone, with the note of the script:",
                "",
                *missed,
                "",
            ]
    return lines[:-1]


def papers_summary_block() -> list[str]:
    """The headline criteria of each paper by verdict and size, without results on own texts of the
    generated sizes."""
    rows, sizes = [], list[str]()
    cells: dict[tuple[str, str], str] = {}
    for paper in PAPERS:
        for result in read_results(paper):
            if "data" in result and "model" not in result:
                continue
            verdicts = [get_verdict(one) for one in result["criteria"].values() if one["headline"]]
            counts = [
                f"{verdict}: {verdicts.count(verdict)}"
                for verdict in VERDICTS
                if verdict in verdicts
            ]
            cells[paper, result["size"]] = "; ".join(counts) or "no headline criterion"
            sizes.append(result["size"])
    shown = [size for size in SIZES if size in sizes]
    rows = [
        [title, *(cells.get((paper, size), "–") for size in shown)]
        for paper, title in PAPERS.items()
    ]
    return (
        format_table(["paper", *(f"`{size}`" for size in shown)], rows) if shown else NOT_MEASURED
    )
