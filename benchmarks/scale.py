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

import argparse
import datetime
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import corpora
from benchmarks.bench import ONE_THREAD, build_in_subprocess, describe_machine, measure_command
from sanitize.array_types import F64
from sanitize.verification.search_terms import BYTES_PER_TERM

RESULTS = Path(__file__).parent / "results"
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
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    command = [
        str(Path(sys.executable).with_name("sanitize")),
        "run",
        str(about["path"]),
        "-o",
        str(scratch / "out"),
        "--seed",
        "0",
    ]
    summary, outside = measure_command([*command, "--workers", "1", "--json"], **ONE_THREAD)
    work = scratch / "out.private"

    def size(place: str) -> float:
        return sum(file.stat().st_size for file in work.glob(f"{place}/*.parquet")) / 1e6

    result = {
        "text_mb": about["text_mb"],
        "documents": about["mails"],
        "occurrences": summary["occurrences"],
        "distinct": summary["verify"]["values_checked"],
        "cpu_s": {
            name: summary["stages"][name]["cpu_s"] for name in STAGES if name in summary["stages"]
        },
        "peak_rss_mb": {
            name: summary["stages"][name]["peak_rss_mb"]
            for name in STAGES
            if name in summary["stages"]
        },
        "whole_cpu_s": outside["cpu_s"],
        "table_mb": {name: size(place) for name, place in (TRAVELS | STAYS).items()},
    }
    shutil.rmtree(scratch, ignore_errors=True)
    return result


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
    extrapolated, about = result["model"], result["machine"]
    lines = [
        (
            f"Measured {result['date']} on {about['cpu']}, {about['cores']} cores, one worker, over"
            f" {', '.join(format(one['text_mb'], '.0f') for one in result['runs'])} MB of generated"
            f" mail ({result['runs'][-1]['occurrences'] / result['runs'][-1]['text_mb'] / 1e3:.1f}"
            " occurrences a KB)."
        ),
        "",
        (
            "| stage | start, CPU-s | CPU-s a GB | exponent | core-hours a TB | largest process so"
            " far, MB, by size |"
        ),
        "|---|---|---|---|---|---|",
    ]
    for name, one in extrapolated["stages"].items():
        hours, peaks = (
            one["per_mb"] * 1e6 / 3600,
            ", ".join(f"{run['peak_rss_mb'][name]:.0f}" for run in result["runs"]),
        )
        lines.append(
            f"| {name} | {one['start']:.2f} | {one['per_mb'] * 1e3:.1f} | {one['exponent']:.2f} |"
            f" {hours:.1f} | {peaks} |"
        )
    lines += [
        f"| all | | | | {extrapolated['core_hours_per_tb']:.0f} | |",
        "",
        "| table | MB a GB of text | who needs it |",
        "|---|---|---|",
        *(
            f"| {name} | {extrapolated['tables'][name]['per_mb'] * 1e3:.1f} | the whole corpus:"
            " sent between machines |"
            for name in TRAVELS
        ),
        *(
            f"| {name} | {extrapolated['tables'][name]['per_mb'] * 1e3:.1f} | its own task: stays"
            " local |"
            for name in STAYS
        ),
        "",
        (
            "| text | core-hours | hours on 64 cores | sent between machines, GB | distinct values"
            " | parts of the leak check at 1 GB |"
        ),
        "|---|---|---|---|---|---|",
    ]
    for terabytes in (0.1, 1, 10):
        values = (
            extrapolated["distinct_at_1_mb"]
            * (terabytes * 1e6) ** extrapolated["distinct_exponent"]
        )
        hours = extrapolated["core_hours_per_tb"] * terabytes
        lines.append(
            f"| {terabytes:g} TB | {hours:,.0f} | {hours / 64:,.1f} |"
            f" {extrapolated['travels_gb_per_tb'] * terabytes:,.0f} | {values / 1e6:,.0f} million |"
            f" {max(1, values * BYTES_PER_TERM / (1 << 30)):,.0f} |"
        )
    lines += [
        "",
        (
            "| power law, tasks x occurrences | rows sent | counted per task | rows of the most"
            " frequent value | counted per task |"
        ),
        "|---|---|---|---|---|",
    ]
    for one in result["skew"]:
        pairs = [
            (one["model"][name], one["simulated"][name])
            for name in ("rows_plain", "rows_counted", "heaviest_plain", "heaviest_counted")
        ]
        cells = " | ".join(f"{expected:,.0f} ({seen:,.0f})" for expected, seen in pairs)
        lines.append(
            f"| rank^-{one['exponent']:g}, {one['tasks']} x {one['occurrences']:,} | {cells} |"
        )
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--mb", default="100,1000,5000", help="MB of text in each corpus, with commas"
    )
    parser.add_argument("--dir", type=Path, default=corpora.corpora_folder())
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs = []
    for size in (int(one) for one in options.mb.split(",")):
        about = build_in_subprocess(corpora.build, "dense", size, options.dir)
        runs.append(measure_run(about, options.dir / "scratch-scale"))
        print(f"{size} MB: {runs[-1]['whole_cpu_s']:.1f} s of CPU", file=sys.stderr)
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "runs": runs,
        "model": extrapolate(runs),
        "skew": compare_skew(values=200_000, tasks=40, occurrences=100_000),
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "scale.json").write_text(json.dumps(result, indent=1) + "\n")
    print(render_tables(result))


if __name__ == "__main__":
    main()
