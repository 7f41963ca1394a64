"""What the benchmarks share: options, timed work and timed processes, the machine, result files,
tables.

Imports the standard library alone, since other tools run in interpreters without sanitize.
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
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DATA = ROOT.parent / "shared" / "data"  # real corpora, which are not part of the repository
SCRATCH = Path(tempfile.gettempdir()) / "corpus-sanitize-bench"
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
HELP = {
    "mb": "MB of text in each corpus",
    "repeat": "rounds, of which medians are reported",
    "dir": "folder of the generated corpora and of scratch copies",
    "data": "folder of the real corpora",
    "documents": "documents of each corpus",
    "texts": "texts for each template",
    "seed": "of the generated texts",
    "results": "folder of the result files",
}
Result = TypeVar("Result")


def build_parser(about: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """A parser with `--results`, and each option of `HELP` that has a default here."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n\n")[0])
    for name, default in {**defaults, "results": RESULTS}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=HELP[name])
    return parser


# ---- timed work and processes ----


@dataclass(frozen=True)
class Cost:
    """CPU-seconds, seconds, and the largest process in MB."""

    cpu_s: float
    wall_s: float
    peak_rss_mb: float


def used_cpu_seconds() -> float:
    """CPU-seconds of this process and its ended children so far."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def measure_call(work: Callable[[], Result]) -> tuple[Cost, Result]:
    """What a call costs in this process, and its result."""
    cpu_s, began = used_cpu_seconds(), time.perf_counter()
    result = work()
    cpu_s, wall_s = used_cpu_seconds() - cpu_s, time.perf_counter() - began
    return Cost(cpu_s, wall_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), result


def measure_in_turn(
    methods: Mapping[str, tuple[Callable[[], Any], float]],
    repeat: int,
    clock: Callable[[], float] = used_cpu_seconds,
) -> tuple[dict[str, float], dict[str, Any]]:
    """The rate of each method in units per CPU-second (medians of rounds in which the methods take
    turns, so that all run under the same load), and its last output. A method is a call, and the
    units that it processes, such as tokens."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    outputs: dict[str, Any] = {}
    for _ in range(repeat):
        for name, (work, _) in methods.items():
            began = clock()
            outputs[name] = work()
            seconds[name].append(clock() - began)
    rates = {name: units / statistics.median(seconds[name]) for name, (_, units) in methods.items()}
    return rates, outputs


def take_medians(rounds: Sequence[Mapping[str, Any]], *fields: str) -> dict[str, Any]:
    """The last of some rounds, with the medians of these fields."""
    medians = {field: statistics.median(one[field] for one in rounds) for field in fields}
    return {**rounds[-1], **medians}


def run_in_subprocess(work: Callable[..., Result], *arguments: Any, **environment: str) -> Result:
    """The result of a call in a new process of one thread, whose peak memory is its own."""
    spawn = multiprocessing.get_context("spawn")
    with (
        unittest.mock.patch.dict(os.environ, {**ONE_THREAD, **environment}),
        concurrent.futures.ProcessPoolExecutor(1, spawn) as pool,
    ):
        return pool.submit(work, *arguments).result()


def measure_command(
    command: Sequence[str], errors: Any = None, **environment: str
) -> tuple[dict[str, Any], Cost]:
    """Run a command that prints one JSON object; returns the object, and the cost of the process
    and its children. SystemExit if it fails; `errors` is a file for its standard error."""
    began = time.perf_counter()
    # compiled modules are kept, as in an installation: without them each process would compile all
    # sources, for half a second
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        stderr=errors,
        env=environment,
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    cost = Cost(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024)
    return json.loads(printed.decode().strip().splitlines()[-1]), cost


def run_sanitize(
    source: Path, folder: Path, *options: str, **environment: str
) -> tuple[dict[str, Any], Cost]:
    """One `sanitize run` into FOLDER/out with a fixed seed: its summary and its cost."""
    console = str(Path(sys.executable).with_name("sanitize"))
    command = [console, "run", str(source), "-o", str(folder / "out"), "--seed", "0", *options]
    return measure_command([*command, "--json"], **environment)


def run_and_remove(
    source: Path, parent: Path, *options: str, **environment: str
) -> tuple[dict[str, Any], Cost]:
    """The same into a new folder in `parent`, which is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        return run_sanitize(source, Path(folder), *options, **environment)


def run_worker(python: str, module: str, *arguments: str) -> dict[str, Any] | str:
    """The object that a module prints when another interpreter runs it, and `process_cpu_s`; or
    the reason of its failure.

    Tools may quote a text in an error: only its type is reported.
    """
    command = [python, "-m", module, *arguments]
    with tempfile.TemporaryFile() as errors:
        try:
            printed, cost = measure_command(command, errors, **ONE_THREAD, PYTHONPATH=str(ROOT))
        except SystemExit:
            errors.seek(0)
            last = (errors.read().decode("utf-8", "replace").splitlines() or ["?"])[-1]
            missing = re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", last)
            return f"not installed ({missing[1]})" if missing else f"failed ({last.split(':')[0]})"
    return {**printed, "process_cpu_s": cost.cpu_s}


# ---- the machine, and result files ----


def describe_processor() -> dict[str, Any]:
    """The processor model, the number of cores, the version of Python."""
    model = _read_field("/proc/cpuinfo", "model name") or platform.processor()
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def describe_machine(*packages: str) -> dict[str, Any]:
    """The processor, memory, load, and versions of the packages that every benchmark uses and of
    others."""
    memory = _read_field("/proc/meminfo", "MemTotal")
    shared = ("corpus-sanitize", "polars", "pyarrow", "duckdb", "numpy")
    return {
        **describe_processor(),
        "memory_mb": int(memory.split()[0]) // 1024 if memory else None,
        "load_average": os.getloadavg(),
        "versions": {name: importlib.metadata.version(name) for name in (*shared, *packages)},
    }


def _read_field(path: str, name: str) -> str:
    """The first value of a field in a file of the kernel; empty where there is none."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def start_result(*packages: str, **settings: Any) -> dict[str, Any]:
    """The beginning of a result: date, machine, settings."""
    today = datetime.date.today().isoformat()
    return {"date": today, "machine": describe_machine(*packages), **settings}


def save_result(folder: Path, name: str, result: Mapping[str, Any], page: str = "") -> None:
    """Write a result as NAME.json, and a page for readers as NAME.md, which is also printed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    if page:
        (folder / f"{name}.md").write_text(page, "utf-8")
        print(page)


# ---- tables ----


def format_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], left: int | None = None
) -> list[str]:
    """The lines of a Markdown table; columns after the first `left` ones are numbers."""
    left = len(head) if left is None else left
    marks = ["---"] * left + ["--:"] * (len(head) - left)
    lines = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in (head, *rows)]
    return [lines[0], f"|{'|'.join(marks)}|", *lines[1:]]


def format_columns(
    columns: Mapping[str, Mapping[str, Any]], rows: Iterable[tuple[str, str]]
) -> list[str]:
    """A table with a column for each entry: a row is a label, and a format string of its
    figures."""
    cells = [
        [label, *(template.format(**figures) for figures in columns.values())]
        for label, template in rows
    ]
    return format_table(["", *columns], cells, left=1)


def describe_setting(result: Mapping[str, Any]) -> str:
    """When, where and with which versions a result was measured."""
    about = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"{result['date']}, {about['cpu']}, {about['cores']} cores, Python {about['python']},"
        f" {versions}. Medians of {result['repeat']}"
    )


def print_aims(figures: Mapping[str, float], aims: Mapping[str, float]) -> None:
    """Print each figure that has an aim."""
    for name, aim in aims.items():
        print(f"{name} {figures[name]:.2f} (aim {aim:g})")
