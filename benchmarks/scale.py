"""How the main job grows with the corpus, and what that says of corpora far larger than this machine: the numbers behind docs/scale.md.

    python -m benchmarks.scale                    0.1, 1 and 5 GB: benchmarks/results/scale.json, and the tables of docs/scale.md
    python -m benchmarks.scale --mb 5,10,20 --results /tmp/x     a smoke run

Each size is one `sanitize run` on one worker. A stage costs what it costs to start plus so much a MB: both are fitted by least squares.
Beside them stands the exponent of its whole cost over the size (1 = in proportion; a start pulls it below), and its peak memory. What
would travel between machines is what tasks hand to `count`: its bytes are read off the files of WORK. The rest is a model: `distinct`
and `load` say how many rows travel where values follow a power law, and a simulation holds them against draws.
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
import numpy.typing as npt

from benchmarks import corpora
from benchmarks.bench import ONE_THREAD, apart, machine, measured
from sanitize.text.literal_search import BYTES_PER_TERM

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
STAGES = ("read", "detect", "aggregate", "rewrite", "verify", "publish")
# what one task hands to the whole: the tables that SQL gathers over the corpus
TRAVELS = {
    "counts of values": "tables/partial_counts",
    "spellings of values (vault)": "vault/values",
    "hashes of ids": "tables/document_ids",
}
STAYS = {"occurrences": "tables/occurrences", "edits": "runs/*/edits"}
F64 = npt.NDArray[np.float64]


def power_law(values: int, exponent: float) -> F64:
    """The shares of `values` values whose frequencies follow rank^-exponent."""
    weights = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum(), np.float64)


def distinct(shares: F64, occurrences: int) -> float:
    """How many distinct values are expected among so many independent draws: the sum of 1 - (1 - p)^m."""
    return float(-np.expm1(occurrences * np.log1p(-np.minimum(shares, 1 - 1e-12))).sum())


def load(shares: F64, tasks: int, occurrences: int) -> dict[str, float]:
    """Rows that `tasks` tasks of `occurrences` each hand over, as they are and counted first by task, and the most that one value has."""
    return {
        "rows_plain": float(tasks * occurrences),
        "rows_counted": tasks * distinct(shares, occurrences),
        "heaviest_plain": float(tasks * occurrences * shares[0]),
        "heaviest_counted": tasks * float(-np.expm1(occurrences * np.log1p(-min(float(shares[0]), 1 - 1e-12)))),
    }


def simulated(shares: F64, tasks: int, occurrences: int, seed: int) -> dict[str, float]:
    """The same, counted in draws."""
    random = np.random.default_rng(seed)
    drawn = random.multinomial(occurrences, shares, size=tasks)
    return {
        "rows_plain": float(drawn.sum()),
        "rows_counted": float((drawn > 0).sum()),
        "heaviest_plain": float(drawn.sum(axis=0).max()),
        "heaviest_counted": float((drawn > 0).sum(axis=0).max()),
    }


def fitted(sizes: Sequence[float], costs: Sequence[float]) -> dict[str, float]:
    """What a stage costs at the start and for each MB (least squares, neither below zero), and the exponent of its cost over the size."""
    x, y = np.array(sizes, np.float64), np.array(costs, np.float64)
    slope, start = (float(one) for one in np.polyfit(x, y, 1))
    if start < 0:
        start, slope = 0.0, float((x * y).sum() / (x * x).sum())
    exponent = float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-6)), 1)[0])
    return {"start": start, "per_mb": max(slope, 0.0), "exponent": exponent}


def run_of(about: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    """One run over a corpus: CPU-seconds and memory by stage, the sizes of its tables, and how many distinct values there are."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    command = [str(Path(sys.executable).with_name("sanitize")), "run", str(about["path"]), "-o", str(scratch / "out"), "--seed", "0"]
    told, outside = measured([*command, "--workers", "1", "--json"], **ONE_THREAD)
    work = scratch / "out.private"

    def size(place: str) -> float:
        return sum(file.stat().st_size for file in work.glob(f"{place}/*.parquet")) / 1e6

    found = {
        "text_mb": about["text_mb"],
        "documents": about["mails"],
        "occurrences": told["occurrences"],
        "distinct": told["verify"]["values_checked"],
        "cpu_s": {name: told["stages"][name]["cpu_s"] for name in STAGES if name in told["stages"]},
        "peak_rss_mb": {name: told["stages"][name]["peak_rss_mb"] for name in STAGES if name in told["stages"]},
        "whole_cpu_s": outside["cpu_s"],
        "table_mb": {name: size(place) for name, place in (TRAVELS | STAYS).items()},
    }
    shutil.rmtree(scratch, ignore_errors=True)
    return found


def model(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the runs say of a TB of such text."""
    sizes = [one["text_mb"] for one in runs]
    stages = {name: fitted(sizes, [one["cpu_s"][name] for one in runs]) for name in STAGES if name in runs[0]["cpu_s"]}
    tables = {name: fitted(sizes, [one["table_mb"][name] for one in runs]) for name in (TRAVELS | STAYS)}
    growth = np.polyfit(np.log(sizes), np.log([one["distinct"] for one in runs]), 1)
    return {
        "stages": stages,
        "tables": tables,
        "core_hours_per_tb": sum(one["per_mb"] for one in stages.values()) * 1e6 / 3600,
        "travels_gb_per_tb": sum(tables[name]["per_mb"] for name in TRAVELS) * 1e3,
        "distinct_exponent": float(growth[0]),
        "distinct_at_1_mb": float(np.exp(growth[1])),
    }


def tables(result: Mapping[str, Any]) -> str:
    """The tables of docs/scale.md."""
    said, about = result["model"], result["machine"]
    lines = [
        f"Measured {result['date']} on {about['cpu']}, {about['cores']} cores, one worker, over "
        f"{', '.join(format(one['text_mb'], '.0f') for one in result['runs'])} MB of generated mail"
        f" ({result['runs'][-1]['occurrences'] / result['runs'][-1]['text_mb'] / 1e3:.1f} occurrences a KB).",
        "",
        "| stage | start, CPU-s | CPU-s a GB | exponent | core-hours a TB | largest process so far, MB, by size |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in said["stages"].items():
        hours, peaks = one["per_mb"] * 1e6 / 3600, ", ".join(f"{run['peak_rss_mb'][name]:.0f}" for run in result["runs"])
        lines.append(f"| {name} | {one['start']:.2f} | {one['per_mb'] * 1e3:.1f} | {one['exponent']:.2f} | {hours:.1f} | {peaks} |")
    lines += [
        f"| all | | | | {said['core_hours_per_tb']:.0f} | |",
        "",
        "| table | MB a GB of text | who needs it |",
        "|---|---|---|",
        *(f"| {name} | {said['tables'][name]['per_mb'] * 1e3:.1f} | the whole corpus: it travels |" for name in TRAVELS),
        *(f"| {name} | {said['tables'][name]['per_mb'] * 1e3:.1f} | its own task: it stays |" for name in STAYS),
        "",
        "| text | core-hours | hours on 64 cores | travels, GB | distinct values | parts of the leak check at 1 GB |",
        "|---|---|---|---|---|---|",
    ]
    for terabytes in (0.1, 1, 10):
        values = said["distinct_at_1_mb"] * (terabytes * 1e6) ** said["distinct_exponent"]
        hours = said["core_hours_per_tb"] * terabytes
        lines.append(
            f"| {terabytes:g} TB | {hours:,.0f} | {hours / 64:,.1f} | {said['travels_gb_per_tb'] * terabytes:,.0f} "
            f"| {values / 1e6:,.0f} million | {max(1, values * BYTES_PER_TERM / (1 << 30)):,.0f} |"
        )
    lines += [
        "",
        "| power law, tasks x occurrences | rows that travel | counted first | the heaviest value | counted first |",
        "|---|---|---|---|---|",
    ]
    for one in result["skew"]:
        pairs = [
            (one["model"][name], one["simulated"][name]) for name in ("rows_plain", "rows_counted", "heaviest_plain", "heaviest_counted")
        ]
        cells = " | ".join(f"{expected:,.0f} ({seen:,.0f})" for expected, seen in pairs)
        lines.append(f"| rank^-{one['exponent']:g}, {one['tasks']} x {one['occurrences']:,} | {cells} |")
    return "\n".join(lines)


def skews(values: int, tasks: int, occurrences: int) -> list[dict[str, Any]]:
    """Model and simulation for flat, ordinary and steep frequencies."""
    found = []
    for exponent in (0.6, 1.0, 1.4):
        shares = power_law(values, exponent)
        found.append(
            {
                "exponent": exponent,
                "values": values,
                "tasks": tasks,
                "occurrences": occurrences,
                "model": load(shares, tasks, occurrences),
                "simulated": simulated(shares, tasks, occurrences, seed=0),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mb", default="100,1000,5000", help="MB of text in each corpus, with commas")
    parser.add_argument("--dir", type=Path, default=corpora.folder())
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs = []
    for size in (int(one) for one in options.mb.split(",")):
        about = apart(corpora.build, "dense", size, options.dir)
        runs.append(run_of(about, options.dir / "scratch-scale"))
        print(f"{size} MB: {runs[-1]['whole_cpu_s']:.1f} s of CPU", file=sys.stderr)
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "runs": runs,
        "model": model(runs),
        "skew": skews(values=200_000, tasks=40, occurrences=100_000),
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "scale.json").write_text(json.dumps(result, indent=1) + "\n")
    print(tables(result))
    if options.results == RESULTS:
        head, _, rest = PAGE.read_text("utf-8").partition("<!-- measured -->\n")
        _, _, tail = rest.partition("<!-- /measured -->")
        PAGE.write_text(f"{head}<!-- measured -->\n{tables(result)}\n<!-- /measured -->{tail}", "utf-8")


if __name__ == "__main__":
    main()
