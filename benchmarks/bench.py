"""Measures the cost of the main job against a plain copy of the same shards, in CPU-seconds of one
run on one machine.

    python -m benchmarks.bench                    two corpora of 500 MB, medians of three:
                                                  benchmarks/results/main_job.{json,md}
    python -m benchmarks.bench --mb 20 --repeat 1 --results /tmp/x     a smoke run

Only ratios within one run are comparable across machines. The floor reads and writes every row
group with pyarrow (zstd level 1, one thread) and is timed inside its own process, after the imports
and one shard of warming up; the stages of `sanitize run --workers 1` are timed by the run itself
(`stages` of its `--json`) and, as a check, from outside with all that its processes used.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import corpora, runner

FIND = ("read", "detect")
EDIT = ("aggregate", "rewrite", "publish")
# the aims of the main job: rate of find + rmft + write as a share of the floor's rate
AIMS = {"dense": 0.20, "sparse": 0.30}


def bench_corpus(about: dict[str, Any], repeat: int, folder: Path) -> dict[str, Any]:
    """Medians over rounds of floor and run, which take turns so that both run under the same
    load."""
    floors, runs = [], []
    for _ in range(repeat):
        floors.append(runner.run_in_subprocess(corpora.measure_copy, about["path"]).cpu_s)
        options = ("--plan", "rmft", "--workers", "1")
        run = runner.run_and_remove(Path(about["path"]), folder, *options, **runner.ONE_THREAD)
        runs.append(run)
        print(f"  floor {floors[-1]:.2f} s, run {runs[-1][1].cpu_s:.2f} s of CPU", file=sys.stderr)
    shown = runs[-1][0]
    assert shown["leaks"] == 0
    stages = {
        name: runner.take_medians([run["stages"][name] for run, _ in runs], *figures)
        for name, figures in shown["stages"].items()
    }

    def add_cpu_s(names: Iterable[str]) -> float:
        return sum(float(stages[name]["cpu_s"]) for name in names if name in stages)

    floor, text_mb = statistics.median(floors), about["text_mb"]
    find, edit, verify = add_cpu_s(FIND), add_cpu_s(EDIT), add_cpu_s(["verify"])
    return {
        "corpus": {**about, "path": Path(about["path"]).name},
        "occurrences": shown["occurrences"],
        "occurrences_per_kb": shown["occurrences"] / text_mb / 1e3,
        "replaced": shown["replaced"],
        "floor_cpu_s": floor,
        "find_cpu_s": find,
        "edit_cpu_s": edit,
        "verify_cpu_s": verify,
        "stages": stages,
        "whole_process_cpu_s": statistics.median(cost.cpu_s for _, cost in runs),
        "run_without_verify_of_floor": floor / (find + edit),
        "verify_of_find": verify / find,
        "mb_per_cpu_s": {
            "floor": text_mb / floor,
            "find": text_mb / find,
            "run_without_verify": text_mb / (find + edit),
        },
        # the largest single process, measured from outside and by the run itself
        "peak_rss_mb": max(
            statistics.median(cost.peak_rss_mb for _, cost in runs),
            *(stage.get("peak_rss_mb", 0) for stage in stages.values()),
        ),
    }


ROWS = (
    ("text, MB", "{corpus[text_mb]:.0f} in {corpus[mails]:,} mails"),
    ("occurrences per KB", "{occurrences_per_kb:.2f}"),
    ("floor: read and write, zstd 1, CPU-s", "{floor_cpu_s:.2f}"),
    ("find (with read), CPU-s", "{find_cpu_s:.2f}"),
    ("rmft and write (count, apply, publish), CPU-s", "{edit_cpu_s:.2f}"),
    ("verify, CPU-s", "{verify_cpu_s:.2f}"),
    ("whole process, start to end, CPU-s", "{whole_process_cpu_s:.2f}"),
    ("find + rmft + write, MB per CPU-s", "{mb_per_cpu_s[run_without_verify]:.0f}"),
    (
        "**find + rmft + write, share of the floor's rate**",
        "**{run_without_verify_of_floor:.3f}** (aim {aim})",
    ),
    ("**verify, times the cost of find**", "**{verify_of_find:.2f}** (aim 1)"),
    ("largest process, MB", "{peak_rss_mb:.0f} (aim 800)"),
)


def format_page(result: dict[str, Any]) -> str:
    """The result as a Markdown page."""
    table = "\n".join(runner.format_columns(result["corpora"], ROWS))
    return f"""# The main job compared with a plain copy

{runner.describe_setting(result)}, CPU-seconds, one worker, one thread. Only the ratios are \
comparable across machines.

{table}

10,000 mails of 2 KB ({result["ten_thousand"]["text_mb"]:.0f} MB) through the whole run with \
default workers: {result["ten_thousand"]["wall_s"]:.1f} s of wall time.
"""


def main() -> None:
    options = runner.build_parser(__doc__, mb=500, repeat=3, dir=runner.SCRATCH).parse_args()
    result = runner.start_result(repeat=options.repeat, corpora={})
    for name, aim in AIMS.items():
        about = corpora.build(name, options.mb, options.dir)
        print(f"{name}: {about['text_mb']:.0f} MB", file=sys.stderr)
        result["corpora"][name] = {**bench_corpus(about, options.repeat, options.dir), "aim": aim}
    about = corpora.build_count("dense", 10_000, options.dir)
    runs = [
        runner.run_and_remove(Path(about["path"]), options.dir, "--plan", "rmft")
        for _ in range(options.repeat)
    ]
    wall_s = statistics.median(cost.wall_s for _, cost in runs)
    result["ten_thousand"] = {"text_mb": about["text_mb"], "wall_s": wall_s}
    runner.save_result(options.results, "main_job", result, format_page(result))


if __name__ == "__main__":
    main()
