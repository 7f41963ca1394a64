"""Runs every shipped plan but dp_mlm over real corpora, verifies each result, and counts where the
two disagree (expected: nowhere).

    python -m benchmarks.bench_verdicts --data ../shared/data

For each corpus and plan: whether `run` published, and if not, with which error; whether `verify`
then finds a leak; how many occurrences the leak check swept; and what the check costs beside
detection, in CPU-seconds. Writes benchmarks/results/verdicts.json and a table, verdicts.md. Corpora
are named by their files; no text of them is written.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import sanitize
from benchmarks import runner
from benchmarks.plan_runs import CORPORA, read_texts, run_plan
from sanitize.errors import SanitizeError
from sanitize.plans.shipped_plans import plan_names

PLANS = tuple(sorted(set(plan_names()) - {"dp_mlm"}))  # which needs a model


def measure(texts: pl.DataFrame, plan: str, folder: Path) -> dict[str, Any]:
    """One plan over one corpus: the outcome of `run` and of `verify`, and what the leak check costs
    beside detection."""
    try:
        done = run_plan(texts, plan, folder)
    except SanitizeError as error:
        return {
            "run": type(error).__name__,
            "verify": None,
            "contradiction": False,
            "message": str(error).replace(str(folder), "..."),
        }
    cpu = {name: cost.cpu_s for name, cost in done.stages.items()}
    verdict = "clean"
    try:
        sanitize.verify(folder / "out", workers=1)
    except SanitizeError as error:
        verdict = type(error).__name__
    return {
        "run": "published",
        "publishable": done.publishable,
        "verify": verdict,
        "contradiction": verdict != "clean",
        "values_checked": done.verify.values_checked,
        "swept": done.verify.swept,
        "text_mb": round(done.text_bytes / 1e6, 3),
        "detect_cpu_s": round(cpu.get("detect", 0) + cpu.get("second_round", 0), 2),
        "verify_cpu_s": round(cpu.get("verify", 0), 2),
    }


def measure_all(data: Path, documents: int, plans: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields one entry per corpus and plan."""
    for name, (_, genre) in CORPORA.items():
        texts = read_texts(data, name, documents)
        for plan in plans:
            with tempfile.TemporaryDirectory() as folder:
                measured = measure(texts, plan, Path(folder))
            entry = {"corpus": name, "genre": genre, "plan": plan, **measured}
            print(json.dumps(entry), flush=True)
            yield entry


def format_page(entries: Sequence[dict[str, Any]]) -> str:
    """One row per corpus: outcomes over all plans, and the cost of the check beside detection."""
    rows = []
    for name in dict.fromkeys(entry["corpus"] for entry in entries):
        own = [entry for entry in entries if entry["corpus"] == name]
        published = [entry for entry in own if entry["run"] == "published"]
        costs = [
            entry["verify_cpu_s"] / entry["detect_cpu_s"]
            for entry in published
            if entry["detect_cpu_s"] and entry["values_checked"]
        ]
        counts = (
            len(own),
            len(published),
            len(own) - len(published),
            sum(entry["verify"] == "clean" for entry in published),
            sum(entry["contradiction"] for entry in own),
            sum(entry["swept"] for entry in published),
        )
        cost = f"{min(costs):.2f} to {max(costs):.2f}" if costs else "–"
        rows.append([name, *(f"{count:,}" for count in counts), cost])
    head = "corpus,plans,published,stopped,clean in verify,contradictions,swept".split(",")
    table = runner.format_table([*head, "check / detection (CPU)"], rows, left=1)
    return "\n".join(table) + "\n"


def main() -> None:
    parser = runner.build_parser(__doc__, data=runner.DATA, documents=1_500)
    parser.add_argument("--plans", nargs="+", default=PLANS)
    options = parser.parse_args()
    entries = list(measure_all(options.data, options.documents, options.plans))
    contradictions = sum(entry["contradiction"] for entry in entries)
    result = runner.start_result(
        documents=options.documents, contradictions=contradictions, entries=entries
    )
    runner.save_result(options.results, "verdicts", result, format_page(entries))
    raise SystemExit(1 if contradictions else 0)


if __name__ == "__main__":
    main()
