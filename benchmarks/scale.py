"""Measures how the main job scales with the corpus, and extrapolates to far larger corpora: the
numbers of docs/explanation/scale.md.

    python -m benchmarks.scale                    0.1, 1 and 5 GB: benchmarks/results/scale.json
                                                  (docs/explanation/scale.md)
    python -m benchmarks.scale --mb 5,10,20 --results /tmp/x     a smoke run

Each size is one `sanitize run` on one worker. The cost of a stage is a start cost plus a cost per
MB: both are fitted by least squares. Reported too are the exponent of its total cost over the size
(1 = proportional; a start cost lowers it), and its peak memory. The data sent between machines is
what tasks pass to `aggregate`: its size is read from the files of WORK. The rest is a model:
`expected_distinct` and `expected_rows` give the number of rows sent if values follow a power law,
and a simulation checks them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import corpora, runner
from sanitize.array_types import F64
from sanitize.verification.search_terms import BYTES_PER_TERM

STAGES = ("read", "detect", "aggregate", "rewrite", "verify", "publish")
# tables that each task passes on, and that SQL aggregates over the corpus
TRAVELS = {
    "counts of values": "tables/partial_counts",
    "spellings of values (vault)": "vault/values",
    "hashes of ids": "tables/document_ids",
}
STAYS = {"occurrences": "tables/occurrences", "edits": "runs/*/edits"}


def power_law(values: int, exponent: float) -> F64:
    """The shares of `values` values whose frequencies follow rank^-exponent."""
    weights = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum(), np.float64)


def expected_distinct(shares: F64, occurrences: int) -> float:
    """Expected number of distinct values among m independent draws: the sum of 1 - (1 - p)^m."""
    return float(-np.expm1(occurrences * np.log1p(-np.minimum(shares, 1 - 1e-12))).sum())


def expected_rows(shares: F64, tasks: int, occurrences: int) -> dict[str, float]:
    """Expected rows sent by `tasks` tasks of `occurrences` each, uncounted and counted per task,
    and those of the most frequent value."""
    return {
        "rows_plain": float(tasks * occurrences),
        "rows_counted": tasks * expected_distinct(shares, occurrences),
        "heaviest_plain": float(tasks * occurrences * shares[0]),
        "heaviest_counted": (
            tasks * float(-np.expm1(occurrences * np.log1p(-min(float(shares[0]), 1 - 1e-12))))
        ),
    }


def simulate_rows(shares: F64, tasks: int, occurrences: int, seed: int) -> dict[str, float]:
    """The same, counted in random draws."""
    random = np.random.default_rng(seed)
    drawn = random.multinomial(occurrences, shares, size=tasks)
    return {
        "rows_plain": float(drawn.sum()),
        "rows_counted": float((drawn > 0).sum()),
        "heaviest_plain": float(drawn.sum(axis=0).max()),
        "heaviest_counted": float((drawn > 0).sum(axis=0).max()),
    }


def fit_costs(sizes: Sequence[float], costs: Sequence[float]) -> dict[str, float]:
    """Start cost and cost per MB of a stage (least squares, neither below zero), and the exponent
    of its cost over the size."""
    x, y = np.array(sizes, np.float64), np.array(costs, np.float64)
    slope, start = (float(one) for one in np.polyfit(x, y, 1))
    if start < 0:
        start, slope = 0.0, float((x * y).sum() / (x * x).sum())
    exponent = float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-6)), 1)[0])
    return {"start": start, "per_mb": max(slope, 0.0), "exponent": exponent}


def measure_run(about: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    """One run over a corpus: CPU-seconds and memory by stage, the sizes of its tables, and the
    number of distinct values."""
    summary, cost = runner.run_sanitize(
        Path(about["path"]), scratch, "--plan", "rmft", "--workers", "1", **runner.ONE_THREAD
    )
    work = scratch / "out.private"
    stages = {name: summary["stages"][name] for name in STAGES if name in summary["stages"]}
    return {
        "text_mb": about["text_mb"],
        "documents": about["mails"],
        "occurrences": summary["occurrences"],
        "distinct": summary["verify"]["values_checked"],
        "cpu_s": {name: stage["cpu_s"] for name, stage in stages.items()},
        "peak_rss_mb": {name: stage["peak_rss_mb"] for name, stage in stages.items()},
        "whole_cpu_s": cost.cpu_s,
        "table_mb": {
            name: sum(file.stat().st_size for file in work.glob(f"{place}/*.parquet")) / 1e6
            for name, place in (TRAVELS | STAYS).items()
        },
    }


def extrapolate(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Extrapolate the runs to a TB of such text."""
    sizes = [one["text_mb"] for one in runs]
    stages = {
        name: fit_costs(sizes, [one["cpu_s"][name] for one in runs])
        for name in STAGES
        if name in runs[0]["cpu_s"]
    }
    tables = {
        name: fit_costs(sizes, [one["table_mb"][name] for one in runs]) for name in TRAVELS | STAYS
    }
    growth = np.polyfit(np.log(sizes), np.log([one["distinct"] for one in runs]), 1)
    return {
        "stages": stages,
        "tables": tables,
        "core_hours_per_tb": sum(one["per_mb"] for one in stages.values()) * 1e6 / 3600,
        "travels_gb_per_tb": sum(tables[name]["per_mb"] for name in TRAVELS) * 1e3,
        "distinct_exponent": float(growth[0]),
        "distinct_at_1_mb": float(np.exp(growth[1])),
    }


def render_tables(result: Mapping[str, Any]) -> str:
    """The tables of docs/explanation/scale.md."""
    model, about, runs = result["model"], result["machine"], result["runs"]
    sizes = ", ".join(f"{run['text_mb']:.0f}" for run in runs)
    density = runs[-1]["occurrences"] / runs[-1]["text_mb"] / 1e3
    stages = [
        [
            name,
            f"{one['start']:.2f}",
            f"{one['per_mb'] * 1e3:.1f}",
            f"{one['exponent']:.2f}",
            f"{one['per_mb'] * 1e6 / 3600:.1f}",
            ", ".join(f"{run['peak_rss_mb'][name]:.0f}" for run in runs),
        ]
        for name, one in model["stages"].items()
    ]
    stages.append(["all", "", "", "", f"{model['core_hours_per_tb']:.0f}", ""])
    users = dict.fromkeys(TRAVELS, "the whole corpus: sent between machines")
    users |= dict.fromkeys(STAYS, "its own task: stays local")
    tables = [
        [name, f"{model['tables'][name]['per_mb'] * 1e3:.1f}", user] for name, user in users.items()
    ]
    extrapolated = []
    for terabytes in (0.1, 1, 10):
        values = model["distinct_at_1_mb"] * (terabytes * 1e6) ** model["distinct_exponent"]
        hours = model["core_hours_per_tb"] * terabytes
        extrapolated.append(
            [
                f"{terabytes:g} TB",
                f"{hours:,.0f}",
                f"{hours / 64:,.1f}",
                f"{model['travels_gb_per_tb'] * terabytes:,.0f}",
                f"{values / 1e6:,.0f} million",
                f"{max(1, values * BYTES_PER_TERM / (1 << 30)):,.0f}",
            ]
        )
    skew = [
        [
            f"rank^-{one['exponent']:g}, {one['tasks']} x {one['occurrences']:,}",
            *(
                f"{expected:,.0f} ({one['simulated'][name]:,.0f})"
                for name, expected in one["model"].items()
            ),
        ]
        for one in result["skew"]
    ]
    lines = [
        f"Measured {result['date']} on {about['cpu']}, {about['cores']} cores, one worker, over"
        f" {sizes} MB of generated mail ({density:.1f} occurrences a KB)."
    ]
    for head, rows in (
        (
            "stage; start, CPU-s; CPU-s a GB; exponent; core-hours a TB;"
            " largest process so far, MB, by size",
            stages,
        ),
        ("table; MB a GB of text; who needs it", tables),
        (
            "text; core-hours; hours on 64 cores; sent between machines, GB; distinct values;"
            " parts of the leak check at 1 GB",
            extrapolated,
        ),
        (
            "power law, tasks x occurrences; rows sent; counted per task;"
            " rows of the most frequent value; counted per task",
            skew,
        ),
    ):
        lines += ["", *runner.format_table(head.split("; "), rows)]
    return "\n".join(lines)


def compare_skew(values: int, tasks: int, occurrences: int) -> list[dict[str, Any]]:
    """Model and simulation for flat, ordinary and steep frequencies."""
    rows = []
    for exponent in (0.6, 1.0, 1.4):
        shares = power_law(values, exponent)
        rows.append(
            {
                "exponent": exponent,
                "values": values,
                "tasks": tasks,
                "occurrences": occurrences,
                "model": expected_rows(shares, tasks, occurrences),
                "simulated": simulate_rows(shares, tasks, occurrences, seed=0),
            }
        )
    return rows


def main() -> None:
    parser = runner.build_parser(__doc__, dir=runner.SCRATCH)
    parser.add_argument(
        "--mb", default="100,1000,5000", help="MB of text in each corpus, with commas"
    )
    options = parser.parse_args()
    runs = []
    for size in map(int, options.mb.split(",")):
        about = corpora.build("dense", size, options.dir)
        with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
            runs.append(measure_run(about, Path(scratch)))
        print(f"{size} MB: {runs[-1]['whole_cpu_s']:.1f} s of CPU", file=sys.stderr)
    skew = compare_skew(values=200_000, tasks=40, occurrences=100_000)
    result = runner.start_result(runs=runs, model=extrapolate(runs), skew=skew)
    runner.save_result(options.results, "scale", result)
    print(render_tables(result))


if __name__ == "__main__":
    main()
