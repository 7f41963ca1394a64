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

import argparse
import concurrent.futures
import datetime
import importlib.metadata
import json
import multiprocessing
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import corpora

FIND = ("read", "detect")
EDIT = ("aggregate", "rewrite", "publish")
# the aims of the main job: rate of find + rmft + write as a share of the floor's rate
AIMS = {"dense": 0.20, "sparse": 0.30}
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}


def copy_shards(source: Path, target: Path) -> None:
    """Read and write every row group, and print time and memory as JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    target.mkdir(parents=True)
    shards = sorted(source.glob("*.parquet"))

    def copy(path: Path) -> None:
        shard = pq.ParquetFile(path)
        with pq.ParquetWriter(
            target / path.name, shard.schema_arrow, compression="zstd", compression_level=1
        ) as writer:
            for group in range(shard.num_row_groups):
                writer.write_table(shard.read_row_group(group, use_threads=False))

    # not timed: the first pages from the system cost 0.3 s, which would make the floor look slower
    copy(shards[0])
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    for path in shards:
        copy(path)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        json.dumps(
            {
                "cpu_s": cpu,
                "wall_s": time.perf_counter() - began,
                "peak_rss_mb": after.ru_maxrss / 1024,
            }
        )
    )


def measure_command(
    command: list[str], **environment: str
) -> tuple[dict[str, Any], dict[str, float]]:
    """Run a command that prints one JSON object; returns the object, and time and memory of the
    process and its children."""
    began = time.perf_counter()
    # compiled modules are kept, as in an installation: without them each process would compile all
    # sources, for half a second
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    outside = {
        "cpu_s": used.ru_utime + used.ru_stime,
        "wall_s": time.perf_counter() - began,
        "peak_rss_mb": used.ru_maxrss / 1024,
    }
    return json.loads(printed.decode().strip().splitlines()[-1]), outside


def sanitize_run(
    source: Path, scratch: Path, *options: str, **environment: str
) -> tuple[dict[str, Any], dict[str, float]]:
    """One `sanitize run` of the default plan into an empty folder, which is deleted afterwards."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    console = Path(sys.executable).with_name("sanitize")
    try:
        return measure_command(
            [
                str(console),
                "run",
                str(source),
                "-o",
                str(scratch / "out"),
                "--plan",
                "rmft",
                "--seed",
                "0",
                *options,
                "--json",
            ],
            **environment,
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def bench_corpus(about: dict[str, Any], repeat: int, scratch: Path) -> dict[str, Any]:
    """Medians over `repeat` rounds of floor and run, which alternate so that both run under the
    same load."""
    source, floors, rounds = Path(about["path"]), [], []
    for _ in range(repeat):
        shutil.rmtree(scratch, ignore_errors=True)
        floors.append(
            measure_command(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.bench",
                    "--floor",
                    str(source),
                    str(scratch / "copy"),
                ],
                **ONE_THREAD,
            )[0]
        )
        rounds.append(sanitize_run(source, scratch, "--workers", "1", **ONE_THREAD))
        print(
            f"  floor {floors[-1]['cpu_s']:.2f} s, run {rounds[-1][1]['cpu_s']:.2f} s of CPU",
            file=sys.stderr,
        )

    def median_of(values: Iterable[float]) -> float:
        return float(statistics.median(values))

    stages = {
        name: {
            field: median_of(shown["stages"][name][field] for shown, _ in rounds)
            for field in rounds[0][0]["stages"][name]
        }
        for name in rounds[0][0]["stages"]
    }

    def stage_cpu_s(names: tuple[str, ...]) -> float:
        return sum(float(stages[name]["cpu_s"]) for name in names if name in stages)

    base = median_of(one["cpu_s"] for one in floors)
    find, edit, verify = stage_cpu_s(FIND), stage_cpu_s(EDIT), stage_cpu_s(("verify",))
    shown = rounds[-1][0]
    assert shown["leaks"] == 0
    return {
        "corpus": about,
        "occurrences": shown["occurrences"],
        "occurrences_per_kb": shown["occurrences"] / about["text_mb"] / 1e3,
        "replaced": shown["replaced"],
        "floor_cpu_s": base,
        "find_cpu_s": find,
        "edit_cpu_s": edit,
        "verify_cpu_s": verify,
        "stages": stages,
        "whole_process_cpu_s": median_of(outside["cpu_s"] for _, outside in rounds),
        "run_without_verify_of_floor": base / (find + edit),
        "verify_of_find": verify / find,
        "mb_per_cpu_s": {
            "floor": about["text_mb"] / base,
            "find": about["text_mb"] / find,
            "run_without_verify": about["text_mb"] / (find + edit),
        },
        # the largest single process, measured from outside and by the run itself
        "peak_rss_mb": max(
            median_of(outside["peak_rss_mb"] for _, outside in rounds),
            *(stage.get("peak_rss_mb", 0) for stage in stages.values()),
        ),
    }


def describe_machine() -> dict[str, Any]:
    """The machine: processor model, cores, memory, versions."""
    model = next(
        (
            line.split(":")[1].strip()
            for line in _read_lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = next(
        (
            int(line.split()[1]) // 1024
            for line in _read_lines("/proc/meminfo")
            if line.startswith("MemTotal")
        ),
        None,
    )
    packages = ("corpus-sanitize", "polars", "pyarrow", "duckdb", "numpy")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_mb": memory,
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }


def build_in_subprocess(build: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Build a corpus in a separate process: the peak memory of a child includes the memory of its
    parent at the start."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(build, *arguments).result()


def _read_lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def markdown(result: dict[str, Any]) -> str:
    """Format the result as a Markdown page."""
    about, names = result["machine"], list(result["corpora"])
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    rows: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        (
            "text, MB",
            lambda one: f"{one['corpus']['text_mb']:.0f} in {one['corpus']['mails']:,} mails",
        ),
        ("occurrences per KB", lambda one: f"{one['occurrences_per_kb']:.2f}"),
        ("floor: read and write, zstd 1, CPU-s", lambda one: f"{one['floor_cpu_s']:.2f}"),
        ("find (with read), CPU-s", lambda one: f"{one['find_cpu_s']:.2f}"),
        ("rmft and write (count, apply, publish), CPU-s", lambda one: f"{one['edit_cpu_s']:.2f}"),
        ("verify, CPU-s", lambda one: f"{one['verify_cpu_s']:.2f}"),
        ("whole process, start to end, CPU-s", lambda one: f"{one['whole_process_cpu_s']:.2f}"),
        (
            "find + rmft + write, MB per CPU-s",
            lambda one: f"{one['mb_per_cpu_s']['run_without_verify']:.0f}",
        ),
        (
            "**find + rmft + write, share of the floor's rate**",
            lambda one: f"**{one['run_without_verify_of_floor']:.3f}** (aim {one['aim']})",
        ),
        (
            "**verify, times the cost of find**",
            lambda one: f"**{one['verify_of_find']:.2f}** (aim 1)",
        ),
        ("largest process, MB", lambda one: f"{one['peak_rss_mb']:.0f} (aim 800)"),
    ]
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    lines += [
        f"| {label} | {' | '.join(show(result['corpora'][name]) for name in names)} |"
        for label, show in rows
    ]
    small = result["ten_thousand"]
    return "\n".join(
        [
            "# The main job compared with a plain copy",
            "",
            (
                f"{result['date']}, {about['cpu']}, {about['cores']} cores, Python"
                f" {about['python']}, {versions}. Medians of {result['repeat']}, CPU-seconds, one"
                " worker, one thread. Only the ratios are comparable across machines."
            ),
            "",
            *lines,
            "",
            (
                f"10,000 mails of 2 KB ({small['text_mb']:.0f} MB) through the whole run with "
                f"default workers: {small['wall_s']:.1f} s of wall time."
            ),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=500, help="MB of text in each corpus")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--dir",
        type=Path,
        default=corpora.corpora_folder(),
        help="folder of corpora and scratch copies",
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument(
        "--floor", type=Path, nargs=2, metavar=("SOURCE", "TARGET"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.floor:
        return copy_shards(*options.floor)
    options.dir.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=options.dir)) / "scratch"
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "repeat": options.repeat,
        "corpora": {},
    }
    try:
        for name, aim in AIMS.items():
            about = build_in_subprocess(corpora.build, name, options.mb, options.dir)
            print(f"{name}: {about['text_mb']:.0f} MB", file=sys.stderr)
            result["corpora"][name] = {**bench_corpus(about, options.repeat, scratch), "aim": aim}
        about = build_in_subprocess(corpora.build_count, "dense", 10_000, options.dir)
        walls = [
            sanitize_run(Path(str(about["path"])), scratch)[1]["wall_s"]
            for _ in range(options.repeat)
        ]
        result["ten_thousand"] = {"text_mb": about["text_mb"], "wall_s": statistics.median(walls)}
    finally:
        shutil.rmtree(scratch.parent, ignore_errors=True)
    for corpus in result["corpora"].values():
        corpus["corpus"]["path"] = Path(corpus["corpus"]["path"]).name
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "main_job.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.results / "main_job.md").write_text(markdown(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
