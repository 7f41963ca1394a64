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

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import corpora, runner
from sanitize.cli.main import LIBRARY_ENVIRONMENT
from sanitize.plans.settings import Settings

# the aims: rate of the stream as a share of the floor's rate
AIMS = {"dense": 0.30, "sparse": 0.50}


def measure_stream(source: str, folder: Path, plan: str) -> dict[str, Any]:
    """Cost, counts and size of the state of one stream."""
    from sanitize.engines.worker_process import tune_malloc
    from sanitize.pipeline.streaming.stream import run_stream
    from sanitize.plans.plan import load_plan

    tune_malloc()  # as the command does
    shards, loaded_plan, settings = corpora.list_shards(source), load_plan(plan), Settings(seed=0)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        target = Path(name)
        run_stream(shards[:1], target / "warm", loaded_plan, target / "warm.state", settings)
        cost, summary = runner.measure_call(
            lambda: run_stream(shards, target / "out", loaded_plan, target / "state", settings)
        )
        size = sum(path.stat().st_size for path in (target / "state").rglob("*") if path.is_file())
    return {**asdict(cost), "occurrences": summary.occurrences, "state_mb": size / 1e6}


def measure_corpus(name: str, mb: int, repeat: int, folder: Path) -> dict[str, Any]:
    """Medians over rounds of floor and streams, which take turns so that all run under the same
    load."""
    about = corpora.build(name, mb, folder)
    rounds: dict[str, list[dict[str, Any]]] = {"floor": [], "rmft": [], "redact": []}
    for _ in range(repeat):
        floor = runner.run_in_subprocess(corpora.measure_copy, about["path"])
        rounds["floor"].append(asdict(floor))
        for plan in ("rmft", "redact"):
            stream = (measure_stream, about["path"], folder, plan)
            rounds[plan].append(runner.run_in_subprocess(*stream, **LIBRARY_ENVIRONMENT))
        spent = ", ".join(f"{which} {each[-1]['cpu_s']:.2f} s" for which, each in rounds.items())
        print(f"  {spent} of CPU", file=sys.stderr)
    floor_cpu_s, rmft, redact_cpu_s = (
        runner.take_medians(rounds["floor"], "cpu_s")["cpu_s"],
        runner.take_medians(rounds["rmft"], "cpu_s", "peak_rss_mb"),
        runner.take_medians(rounds["redact"], "cpu_s")["cpu_s"],
    )
    return {
        "text_mb": about["text_mb"],
        "mails": about["mails"],
        "occurrences_per_kb": rmft["occurrences"] / about["text_mb"] / 1e3,
        "floor_cpu_s": floor_cpu_s,
        "stream_cpu_s": rmft["cpu_s"],
        "redact_cpu_s": redact_cpu_s,
        "stream_of_floor": floor_cpu_s / rmft["cpu_s"],
        "redact_of_floor": floor_cpu_s / redact_cpu_s,
        "mb_per_cpu_s": about["text_mb"] / rmft["cpu_s"],
        "state_mb": rmft["state_mb"],
        "peak_rss_mb": rmft["peak_rss_mb"],
        "aim": AIMS[name],
    }


ROWS = (
    ("text, MB", "{text_mb:.0f} in {mails:,} mails"),
    ("occurrences per KB", "{occurrences_per_kb:.2f}"),
    ("floor: read and write, zstd 1, CPU-s", "{floor_cpu_s:.2f}"),
    ("stream, plan rmft, CPU-s", "{stream_cpu_s:.2f}"),
    ("stream, plan redact, CPU-s", "{redact_cpu_s:.2f}"),
    ("rmft, MB per CPU-s", "{mb_per_cpu_s:.0f}"),
    ("**rmft, share of the floor's rate**", "**{stream_of_floor:.3f}** (aim {aim})"),
    ("redact, share of the floor's rate", "{redact_of_floor:.3f}"),
    ("state on the disk, MB", "{state_mb:.1f}"),
    ("process, MB", "{peak_rss_mb:.0f}"),
)


def format_page(result: dict[str, Any]) -> str:
    """The result as a Markdown page."""
    table = "\n".join(runner.format_columns(result["corpora"], ROWS))
    return f"""# A stream compared with a plain copy

{runner.describe_setting(result)}, CPU-seconds, one thread, including the leak check of every batch.

{table}
"""


def main() -> None:
    options = runner.build_parser(__doc__, mb=200, repeat=3, dir=runner.SCRATCH).parse_args()
    result = runner.start_result(repeat=options.repeat)
    result["corpora"] = {
        name: measure_corpus(name, options.mb, options.repeat, options.dir) for name in AIMS
    }
    runner.save_result(options.results, "stream", result, format_page(result))


if __name__ == "__main__":
    main()
