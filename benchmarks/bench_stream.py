"""Measures the cost of a stream against a plain copy of the same shards, in CPU-seconds of one run
on one machine.

    python -m benchmarks.bench_stream                    two corpora of 200 MB, medians of three:
                                                         benchmarks/results/stream.{json,md}
    python -m benchmarks.bench_stream --mb 20 --repeat 1 --results /tmp/x     a smoke run

The floor is that of `bench.py`: every row group read and written with pyarrow (zstd level 1, one
thread). The stream reads the same shards once, with a state on the disk, and writes a folder of
Parquet with the same settings; both are timed inside their own process, after the imports and one
shard of warming up. The leak check of every batch is in it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import bench, corpora
from sanitize.cli.main import LIBRARY_ENVIRONMENT
from sanitize.plans.settings import Settings

# the aims: rate of the stream as a share of the floor's rate
AIMS = {"dense": 0.30, "sparse": 0.50}


def run_timed_stream(source: Path, target: Path, plan: str) -> None:
    """Stream the shards, and print time and memory as JSON."""
    from sanitize.engines.worker_process import tune_malloc
    from sanitize.pipeline.streaming.stream import run_stream
    from sanitize.plans.plan import load_plan

    tune_malloc()  # as the command does

    shards = sorted(source.glob("*.parquet"))
    loaded_plan = load_plan(plan)
    run_stream(shards[:1], target / "warm", loaded_plan, target / "warm.state", Settings(seed=0))
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    summary = run_stream(shards, target / "out", loaded_plan, target / "state", Settings(seed=0))
    after = resource.getrusage(resource.RUSAGE_SELF)
    size = sum(path.stat().st_size for path in (target / "state").rglob("*") if path.is_file())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    counts = {
        "occurrences": summary.occurrences,
        "replaced": summary.replaced,
        "quarantined": summary.quarantined,
        "state_mb": size / 1e6,
    }
    print(
        json.dumps(
            {
                "cpu_s": cpu,
                "wall_s": time.perf_counter() - began,
                "peak_rss_mb": after.ru_maxrss / 1024,
                **counts,
            }
        )
    )


def measure_corpus(name: str, mb: int, repeat: int, folder: Path, scratch: Path) -> dict[str, Any]:
    """Medians over some rounds of floor and stream, which alternate so that both run under the same
    load."""
    about = bench.build_in_subprocess(corpora.build, name, mb, folder)
    floors, streams, erased = [], [], []
    for _ in range(repeat):
        shutil.rmtree(scratch, ignore_errors=True)
        copy = [
            sys.executable,
            "-m",
            "benchmarks.bench",
            "--floor",
            str(about["path"]),
            str(scratch / "copy"),
        ]
        floors.append(bench.measure_command(copy, **bench.ONE_THREAD)[0])
        for plan, rounds in (("rmft", streams), ("redact", erased)):
            shutil.rmtree(scratch, ignore_errors=True)
            command = [
                sys.executable,
                "-m",
                "benchmarks.bench_stream",
                "--stream",
                str(about["path"]),
                str(scratch),
                "--plan",
                plan,
            ]
            rounds.append(
                bench.measure_command(command, **{**LIBRARY_ENVIRONMENT, **bench.ONE_THREAD})[0]
            )
        print(
            f"  floor {floors[-1]['cpu_s']:.2f} s, stream {streams[-1]['cpu_s']:.2f} s of CPU",
            file=sys.stderr,
        )

    def median_of(rounds: list[dict[str, Any]], field: str) -> float:
        return float(statistics.median(one[field] for one in rounds))

    base = median_of(floors, "cpu_s")
    return {
        "text_mb": about["text_mb"],
        "mails": about["mails"],
        "occurrences_per_kb": streams[-1]["occurrences"] / float(about["text_mb"]) / 1e3,
        "floor_cpu_s": base,
        "stream_cpu_s": median_of(streams, "cpu_s"),
        "redact_cpu_s": median_of(erased, "cpu_s"),
        "stream_of_floor": base / median_of(streams, "cpu_s"),
        "redact_of_floor": base / median_of(erased, "cpu_s"),
        "mb_per_cpu_s": float(about["text_mb"]) / median_of(streams, "cpu_s"),
        "state_mb": streams[-1]["state_mb"],
        "peak_rss_mb": median_of(streams, "peak_rss_mb"),
        "aim": AIMS[name],
    }


def markdown(result: dict[str, Any]) -> str:
    """Format the result as a Markdown page."""
    names = list(result["corpora"])
    rows = [
        ("text, MB", lambda one: f"{one['text_mb']:.0f} in {one['mails']:,} mails"),
        ("occurrences per KB", lambda one: f"{one['occurrences_per_kb']:.2f}"),
        ("floor: read and write, zstd 1, CPU-s", lambda one: f"{one['floor_cpu_s']:.2f}"),
        ("stream, plan rmft, CPU-s", lambda one: f"{one['stream_cpu_s']:.2f}"),
        ("stream, plan redact, CPU-s", lambda one: f"{one['redact_cpu_s']:.2f}"),
        ("rmft, MB per CPU-s", lambda one: f"{one['mb_per_cpu_s']:.0f}"),
        (
            "**rmft, share of the floor's rate**",
            lambda one: f"**{one['stream_of_floor']:.3f}** (aim {one['aim']})",
        ),
        ("redact, share of the floor's rate", lambda one: f"{one['redact_of_floor']:.3f}"),
        ("state on the disk, MB", lambda one: f"{one['state_mb']:.1f}"),
        ("process, MB", lambda one: f"{one['peak_rss_mb']:.0f}"),
    ]
    about = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    lines += [
        f"| {label} | {' | '.join(show(result['corpora'][name]) for name in names)} |"
        for label, show in rows
    ]
    head = (
        f"{result['date']}, {about['cpu']}, {about['cores']} cores, Python {about['python']},"
        f" {versions}. Medians of {result['repeat']}, "
    )
    return "\n".join(
        [
            "# A stream compared with a plain copy",
            "",
            head + "CPU-seconds, one thread, including the leak check of every batch.",
            "",
            *lines,
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=200, help="MB of text in each corpus")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--dir",
        type=Path,
        default=corpora.corpora_folder(),
        help="folder of corpora and scratch copies",
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument(
        "--stream", type=Path, nargs=2, metavar=("SOURCE", "TARGET"), help=argparse.SUPPRESS
    )
    parser.add_argument("--plan", default="rmft", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stream:
        source, target = options.stream
        return run_timed_stream(source, target, options.plan)
    options.dir.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=options.dir)) / "scratch"
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": bench.describe_machine(),
        "repeat": options.repeat,
    }
    try:
        result["corpora"] = {
            name: measure_corpus(name, options.mb, options.repeat, options.dir, scratch)
            for name in AIMS
        }
    finally:
        shutil.rmtree(scratch.parent, ignore_errors=True)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "stream.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.results / "stream.md").write_text(markdown(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
