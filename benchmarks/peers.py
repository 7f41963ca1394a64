"""Compares the cost of other tools for the same work on the same texts, in CPU-seconds, in separate
processes and alternating rounds.

    python -m benchmarks.peers --peers-python VENV/bin/python        benchmarks/results/peers.{json,md}
    python -m benchmarks.peers --scale 0.1 --repeat 1 --results /tmp/x     a smoke run

Three tables:

*Rewriting*: Parquet in, every found value replaced, Parquet out, on generated mail. Once for e-mail
addresses alone, which every tool supports, once for all kinds of a tool (they differ: the table
lists them, and how many documents each one changed). Each tool replaces with its own functions:
Presidio's analyzer over a blank spaCy pipeline with its anonymizer, scrubadub's scrubber,
datatrove's formatter, the Polars plugin of maskops and the cleaner of piicleaner (both in Rust,
over whole batches), and as a floor `re.sub`. sanitize is measured as the whole command `sanitize
run`, including what the others do not have: the index, the leak check, the report; once with the
finder `patterns` for the kinds that the others have, too, and once with the plan `redact` as it is:
with names of people and directory entries, and a second search of the corpus for every value that
was found. The plain copy reads and writes the same shards and is an upper bound for any tool. Slow
tools get fewer documents of the same corpus; rates are MB of text per CPU-second after imports and
a warm-up (for sanitize too: the sum of its stages), and of the whole process.

*Near-duplicates*: texts to candidate pairs, 128 permutations, shingles of five words, the same
bands, in datasketch and rensa.

*The RMFT paper's preprocessing* (000, section on complexity): 10,000 data points of 6 e-mails on
average with 24,480 distinct addresses took 15 min 25 s (RMFT) and 10 min 12 s (header
deduplication). Here: `sanitize run` with the plans `rmft` and `header_dedup` on N generated mails,
wall time on all cores and CPU-seconds, with k (addresses a mail) and u (distinct ones), and the
exponent of N fitted over the cost without the start. Another machine, other mail, another
definition of a data point: only the order of magnitude and the exponent are comparable.

The tools are pinned in the extra `[peers]`; a missing tool is reported as missing. Nothing is
downloaded.
"""  # noqa: E501

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # the workers are run as files, by interpreters without sanitize

from benchmarks import detection  # noqa: E402

Clean = Callable[["pa.Array"], "pa.Array"]
EMAIL = "EMAIL_ADDRESS"
# MB of text that each gets: some seconds of work each
MB = {
    "plain copy": 100.0,
    "sanitize": 100.0,
    "re": 20.0,
    "datatrove": 20.0,
    "maskops": 20.0,
    "piicleaner": 20.0,
    "scrubadub": 4.0,
    "presidio": 1.5,
    "near_dup": 20.0,
    "datasketch": 4.0,
    "rensa": 20.0,
}
# what `maskops.mask_pii` looks for where no patterns are named (version 2.1.0)
MASKOPS_PATTERNS = tuple(
    (
        "email phone ip iban vat dni nie nin personalausweis us_passport curp rut cpf cnpj ssn"
        " arg_dni co_cc co_nit ec_cedula credit_card npi mbi nhs pe_dni nir codice_fiscale uy_ci"
        " sin tfn pesel bsn personnummer my_number rrn za_id il_id "
    ).split()
)
JOBS = ("addresses", "all kinds")
DISTRIBUTIONS = {"presidio": ("presidio-analyzer", "presidio-anonymizer"), "re": ()}
PAPER = {"rmft": 15 * 60 + 25, "header_dedup": 10 * 60 + 12}  # seconds
SIZES = (2_500, 5_000, 10_000, 20_000, 40_000)
NEAR = {"permutations": 128, "shingle": 5}


# --- rewriters: built once, then given the texts --------------------------------------------------


def plain_re(job: str) -> tuple[Clean, Sequence[str]]:
    """`re.sub` for each kind, by the patterns that one writes in an afternoon."""
    kinds = (
        [EMAIL]
        if job == "addresses"
        else [kind for kind in detection.PLAIN if kind not in ("PERSON", "DATE_TIME", "AGE")]
    )
    made = [(f"[{kind}]", re.compile(detection.PLAIN[kind])) for kind in kinds]

    def clean(text: str) -> str:
        for label, pattern in made:
            text = pattern.sub(label, text)
        return text

    return _text_by_text(clean), kinds


def _text_by_text(clean: Callable[[str], str]) -> Clean:
    """A function of one text, for an array of texts."""
    import pyarrow as pa

    return lambda texts: pa.array([clean(text) for text in texts.to_pylist()], texts.type)


def datatrove(job: str) -> tuple[Clean, Sequence[str]]:
    from datatrove.pipeline.formatters import PIIFormatter

    block = PIIFormatter(remove_ips=job != "addresses")
    return _text_by_text(block.format), [EMAIL] if job == "addresses" else [EMAIL, "IP_ADDRESS"]


def maskops(job: str) -> tuple[Clean, Sequence[str]]:
    """All patterns are those that it uses unless some are named."""
    import maskops as package
    import polars as pl

    patterns = ["email"] if job == "addresses" else None
    masked = package.mask_pii("text", patterns=patterns)

    def clean(texts: pa.Array) -> pa.Array:
        return (
            pl.DataFrame({"text": pl.Series(texts)})
            .select(masked)["text"]
            .to_arrow()
            .cast(texts.type)
        )

    return clean, patterns or MASKOPS_PATTERNS


def piicleaner(job: str) -> tuple[Clean, Sequence[str]]:
    import pyarrow as pa
    from piicleaner import Cleaner, get_available_cleaners

    cleaner = Cleaner("email" if job == "addresses" else "all")

    def clean(texts: pa.Array) -> pa.Array:
        return pa.array(cleaner.clean_pii_list(texts.to_pylist(), "redact"), texts.type)

    return clean, ["email"] if job == "addresses" else sorted(get_available_cleaners())


def scrubadub(job: str) -> tuple[Clean, Sequence[str]]:
    import scrubadub as package

    scrubber = package.Scrubber(locale="en_US")
    if job == "addresses":
        for name in list(scrubber._detectors):
            if name != "email":
                scrubber.remove_detector(name)
    return _text_by_text(scrubber.clean), sorted(scrubber._detectors)


def presidio(job: str) -> tuple[Clean, Sequence[str]]:
    from presidio_anonymizer import AnonymizerEngine

    analyzer, wanted = detection.presidio_analyzer()
    kinds = [EMAIL] if job == "addresses" else [kind for kind in wanted if kind != "DATE_TIME"]
    anonymizer = AnonymizerEngine()

    def clean(text: str) -> str:
        return str(
            anonymizer.anonymize(
                text=text,
                analyzer_results=analyzer.analyze(text=text, language="en", entities=kinds),
            ).text
        )

    return _text_by_text(clean), kinds


REWRITERS: dict[str, Callable[[str], tuple[Clean, Sequence[str]]]] = {
    "re": plain_re,
    "datatrove": datatrove,
    "maskops": maskops,
    "piicleaner": piicleaner,
    "scrubadub": scrubadub,
    "presidio": presidio,
}


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rewrite(name: str, job: str, source: Path, megabytes: float) -> dict[str, Any]:
    """Read the first documents of a corpus, replace, write them again: rate, share of documents
    changed, memory."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    clean, kinds = (None, []) if name == "plain copy" else REWRITERS[name](job)
    if clean:
        # warm-up
        clean(
            pa.array(
                [f"From: a{no}@example.com\nCall 202-555-01{no:02d} today." for no in range(20)]
            )
        )
    began, wall = _cpu_seconds(), time.perf_counter()
    bytes_in = documents = changed = 0
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
        for no, path in enumerate(sorted(source.glob("*.parquet"))):
            shard = pq.ParquetFile(path)
            with pq.ParquetWriter(
                f"{scratch}/{no}.parquet",
                shard.schema_arrow,
                compression="zstd",
                compression_level=1,
            ) as out:
                for batch in shard.iter_batches(1_000 if clean else 10_000, use_threads=False):
                    place = batch.schema.get_field_index("text")
                    texts = batch.column(place)
                    bytes_in += texts.nbytes
                    if clean:
                        made = clean(texts)
                        changed += pc.sum(pc.not_equal(texts, made)).as_py()
                        batch = batch.set_column(place, batch.schema.field(place), made)
                    documents += len(batch)
                    out.write_batch(batch)
                    if bytes_in >= megabytes * 1e6:
                        break
            if bytes_in >= megabytes * 1e6:
                break
    spent = _cpu_seconds() - began
    return {
        "kinds": list(kinds),
        "text_mb": bytes_in / 1e6,
        "documents": documents,
        "changed": changed / documents,
        "cpu_s": spent,
        "wall_s": time.perf_counter() - wall,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


# --- near-duplicates ------------------------------------------------------------------------------


def _texts(source: Path, megabytes: float) -> list[str]:
    import pyarrow.parquet as pq

    texts: list[str] = []
    size = 0
    for path in sorted(source.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(1_000, columns=["text"], use_threads=False):
            texts += batch.column(0).to_pylist()
            size += batch.column(0).nbytes
            if size >= megabytes * 1e6:
                return texts
    return texts


def _shingles(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9\u0080-\U0010ffff]+", text.lower())
    size = NEAR["shingle"]
    return [" ".join(words[at : at + size]) for at in range(max(1, len(words) - size + 1))]


def near_datasketch(texts: list[str], bands: int, rows: int) -> int:
    """Pairs that datasketch would compare."""
    from datasketch import MinHash, MinHashLSH

    index, first, pairs = (
        MinHashLSH(num_perm=NEAR["permutations"], params=(bands, rows)),
        MinHash(num_perm=NEAR["permutations"]),
        0,
    )
    for number, text in enumerate(texts):
        one = first.copy()
        one.update_batch([shingle.encode() for shingle in _shingles(text)])
        pairs += len(index.query(one))
        index.insert(number, one)
    return pairs


def near_rensa(texts: list[str], bands: int, rows: int) -> int:
    """The same with rensa, whose index uses bands x rows permutations."""
    from rensa import RMinHash, RMinHashLSH

    index, pairs = RMinHashLSH(0.8, bands * rows, bands), 0
    for number, text in enumerate(texts):
        one = RMinHash(bands * rows, 1)
        one.update(_shingles(text))
        pairs += len(index.query(one))
        index.insert(number, one)
    return pairs


def measure_near_duplicates(
    name: str, source: Path, megabytes: float, bands: int, rows: int
) -> dict[str, Any]:
    """Texts to candidate pairs, in memory: CPU-seconds and pairs."""
    if name == "near_dup":
        from benchmarks.bench_reduce import count_near_duplicate_pairs, read_text_batches

        count = len(_texts(source, megabytes))
        batches = read_text_batches(source, count)
        size = sum(int(batch.nbytes) for batch in batches)
        with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
            # not timed, as below
            count_near_duplicate_pairs([batches[0].slice(0, 100)], bands, rows, Path(scratch))
            began = _cpu_seconds()
            pairs = count_near_duplicate_pairs(batches, bands, rows, Path(scratch))
    else:
        texts = _texts(source, megabytes)
        count, size = len(texts), sum(len(text.encode()) for text in texts)
        work = near_datasketch if name == "datasketch" else near_rensa
        work(texts[:100], bands, rows)
        began = _cpu_seconds()
        pairs = work(texts, bands, rows)
    return {
        "documents": count,
        "text_mb": size / 1e6,
        "cpu_s": _cpu_seconds() - began,
        "pairs": pairs,
    }


# --- sanitize, and the rounds ---------------------------------------------------------------------


def write_plan(job: str, folder: Path) -> Path:
    """A plan that redacts what the finder `patterns` finds, of addresses alone or of all default
    kinds."""
    path = folder / f"redact_{job.split()[0]}.toml"
    kinds = EMAIL if job == "addresses" else "default"
    path.write_text(
        f'about = "For the comparison with other tools."\n\n[find]\nkinds = ["{kinds}"]\nfinders ='
        ' ["patterns"]\n\n[[edit]]\nuse = "redact"\nkinds = ["*"]\n',
        "utf-8",
    )
    return path


def run_sanitize(source: Path, plan: str, scratch: Path, *options: str) -> dict[str, Any]:
    """One whole `sanitize run` in a process of its own."""
    # not at the top: other tools run in interpreters without sanitize
    from benchmarks.bench import ONE_THREAD, measure_command

    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    console = str(Path(sys.executable).with_name("sanitize"))
    command = [
        console,
        "run",
        str(source),
        "-o",
        str(scratch / "out"),
        "--plan",
        plan,
        "--seed",
        "0",
        *options,
        "--json",
    ]
    try:
        summary, outside = measure_command(command, **ONE_THREAD)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {
        "summary": summary,
        **outside,
        "stages_cpu_s": sum(one["cpu_s"] for one in summary["stages"].values()),
    }


def measure_sanitize(source: Path, plan: str, scratch: Path) -> dict[str, Any]:
    """A row of the first table for `sanitize run` with one worker."""
    result = run_sanitize(source, plan, scratch, "--workers", "1")
    summary = result["summary"]
    assert summary["leaks"] == 0
    return {
        "kinds": [kind for kind, one in summary["by_kind"].items() if one["replaced"]],
        "text_mb": summary["text_bytes"] / 1e6,
        "documents": summary["documents_in"],
        "cpu_s": result["stages_cpu_s"],
        "process_cpu_s": result["cpu_s"],
        "peak_rss_mb": result["peak_rss_mb"],
        "packages": {},
    }


def run_worker(python: str, *arguments: str) -> dict[str, Any] | str:
    """The result of a worker in a separate process, with its CPU time; or the reason of its
    failure."""
    from benchmarks.bench import ONE_THREAD, measure_command

    command = [python, str(Path(__file__)), *arguments]
    try:
        summary, outside = measure_command(command, **ONE_THREAD, PYTHONPATH=str(ROOT))
    except SystemExit:
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT)}
        # to see why
        repeated = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        last = (repeated.stderr.strip().splitlines() or ["?"])[-1]
        missing = re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", last)
        return f"not installed ({missing[1]})" if missing else f"failed ({last.split(':')[0]})"
    return {**summary, "process_cpu_s": outside["cpu_s"]}


def worker_main(arguments: Sequence[str]) -> None:
    """A worker: prints one JSON object."""
    what, name, source, megabytes, *rest = arguments
    if what == "near":
        found = measure_near_duplicates(
            name, Path(source), float(megabytes), int(rest[0]), int(rest[1])
        )
    else:
        found = rewrite(name, rest[0], Path(source), float(megabytes))
    known = DISTRIBUTIONS.get(name, () if name in ("plain copy", "near_dup") else (name,))
    print(
        json.dumps({**found, "packages": {one: importlib.metadata.version(one) for one in known}})
    )


def median_rows(rounds: Sequence[dict[str, Any]], *fields: str) -> dict[str, Any]:
    """The last round with the medians of some fields."""
    return {
        **rounds[-1],
        **{field: statistics.median(one[field] for one in rounds) for field in fields},
    }


def compare_rewriting(
    source: Path, mb: dict[str, float], options: argparse.Namespace, scratch: Path
) -> dict[str, Any]:
    """The first table: for each job and tool, medians over alternating rounds."""
    tables: dict[str, Any] = {}
    for job in JOBS:
        rounds: dict[str, list[dict[str, Any]]] = {}
        missing: dict[str, str] = {}
        for _ in range(options.repeat):
            for name in ("plain copy", *REWRITERS):
                if name in missing:
                    continue
                python = sys.executable if name in ("plain copy", "re") else options.peers_python
                outcome = run_worker(
                    python, "--worker", "rewrite", name, str(source), str(mb[name]), job
                )
                if isinstance(outcome, str):
                    missing[name] = outcome
                else:
                    rounds.setdefault(name, []).append(outcome)
                print(
                    f"{job}, {name}:"
                    f" {outcome if isinstance(outcome, str) else round(outcome['cpu_s'], 2)}",
                    file=sys.stderr,
                )
            plans = {"sanitize": str(write_plan(job, scratch))} | (
                {"sanitize, plan redact": "redact"} if job != "addresses" else {}
            )
            for name, plan in plans.items():
                rounds.setdefault(name, []).append(measure_sanitize(source, plan, scratch / "run"))
                print(f"{job}, {name}: {rounds[name][-1]['cpu_s']:.2f}", file=sys.stderr)
        table = {
            name: median_rows(each, "cpu_s", "process_cpu_s", "peak_rss_mb")
            for name, each in rounds.items()
        }
        rate = table["sanitize"]["text_mb"] / table["sanitize"]["cpu_s"]
        for one in table.values():
            one["mb_per_cpu_s"] = one["text_mb"] / one["cpu_s"]
            one["sanitize_is_times"] = rate / one["mb_per_cpu_s"]
        tables[job] = table | {name: {"missing": why} for name, why in missing.items()}
    return tables


def compare_near_duplicates(
    source: Path, mb: dict[str, float], options: argparse.Namespace
) -> dict[str, Any]:
    """The second table."""
    from sanitize.droppers.near_dup import choose_bands

    bands, rows = choose_bands(0.8, NEAR["permutations"])
    rounds: dict[str, list[dict[str, Any]]] = {}
    missing: dict[str, str] = {}
    for _ in range(options.repeat):
        for name in ("near_dup", "datasketch", "rensa"):
            if name in missing:
                continue
            python = sys.executable if name == "near_dup" else options.peers_python
            outcome = run_worker(
                python, "--worker", "near", name, str(source), str(mb[name]), str(bands), str(rows)
            )
            if isinstance(outcome, str):
                missing[name] = outcome
            else:
                rounds.setdefault(name, []).append(outcome)
            print(
                f"near-duplicates, {name}:"
                f" {outcome if isinstance(outcome, str) else round(outcome['cpu_s'], 2)}",
                file=sys.stderr,
            )
    table = {name: median_rows(each, "cpu_s", "process_cpu_s") for name, each in rounds.items()}
    rate = table["near_dup"]["text_mb"] / table["near_dup"]["cpu_s"]
    for one in table.values():
        one["mb_per_cpu_s"] = one["text_mb"] / one["cpu_s"]
        one["sanitize_is_times"] = rate / one["mb_per_cpu_s"]
    missing_rows = {name: {"missing": why} for name, why in missing.items()}
    return {"bands": bands, "rows": rows, **NEAR, "tools": table | missing_rows}


def measure_preprocessing(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """The third table: wall time and CPU-seconds by N, k and u, and the exponent of N."""
    from benchmarks import corpora
    from benchmarks.bench import build_in_subprocess
    from benchmarks.scale import fit_costs

    found: dict[str, Any] = {}
    sizes = [max(200, round(size * options.scale)) for size in SIZES]
    for plan in PAPER:
        rows = []
        for size in sizes:
            about = build_in_subprocess(corpora.build_count, "dense", size, options.dir)
            each = [
                run_sanitize(Path(str(about["path"])), plan, scratch / "run")
                for _ in range(options.repeat)
            ]
            emails = each[-1]["summary"]["by_kind"][EMAIL]
            rows.append(
                {
                    "N": size,
                    "k": emails["occurrences"] / size,
                    "u": emails["values"],
                    "wall_s": statistics.median(one["wall_s"] for one in each),
                    "cpu_s": statistics.median(one["cpu_s"] for one in each),
                }
            )
            print(
                f"{plan}, N = {size:,}: {rows[-1]['wall_s']:.1f} s, {rows[-1]['cpu_s']:.1f} CPU-s",
                file=sys.stderr,
            )
        found[plan] = {
            "paper_s": PAPER[plan],
            "runs": rows,
            "fit": fit_costs([one["N"] / 1e3 for one in rows], [one["cpu_s"] for one in rows]),
        }
    return found


def format_ratio(ratio: float) -> str:
    """Format a ratio with two significant digits, or as an integer from 100 on."""
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2g}"


def markdown(result: dict[str, Any]) -> str:
    """Format the three tables as a Markdown page."""
    about = result["machine"]
    lines = [
        "# Comparison with other tools",
        "",
        (
            f"{result['date']}, {about['cpu']}, {about['cores']} cores, Python {about['python']}."
            f" Medians of {result['repeat']}, one thread; `python -m benchmarks.peers` writes this"
            " page, and its docstring describes the method. Only ratios are comparable."
        ),
    ]
    for job, table in result["rewriting"].items():
        lines += [
            "",
            f"## Find and replace, Parquet to Parquet: {job}",
            "",
            (
                "| tool | kinds | text, MB | documents changed | MB per CPU-s | with start-up |"
                " `sanitize run` is |"
            ),
            "|---|---|--:|--:|--:|--:|--:|",
        ]
        for name, one in sorted(table.items(), key=lambda pair: -pair[1].get("mb_per_cpu_s", 0)):
            if "missing" in one:
                lines.append(f"| {name} | {one['missing']} | | | | | |")
                continue
            versions = ", ".join(one["packages"].values())
            kinds = "none" if name == "plain copy" else str(len(one["kinds"]))
            changed = f"{one['changed']:.0%}" if one.get("changed") else ""
            lines.append(
                f"| {name} {versions} | {kinds} | {one['text_mb']:.1f} | {changed} |"
                f" {one['mb_per_cpu_s']:.3g} | {one['text_mb'] / one['process_cpu_s']:.3g} |"
                f" {format_ratio(one['sanitize_is_times'])}x |"
            )
        lines += [
            "",
            *(
                f"{name}: {', '.join(one['kinds'])}."
                for name, one in table.items()
                if job != "addresses" and one.get("kinds")
            ),
        ]
    pairs = result["near_duplicates"]
    lines += [
        "",
        (
            f"## Near-duplicates: candidate pairs ({pairs['permutations']} permutations,"
            f" {pairs['bands']} bands of {pairs['rows']})"
        ),
        "",
        "| tool | documents | pairs | MB per CPU-s | `near_dup` is |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, one in pairs["tools"].items():
        cells = (
            f"{one['documents']:,} | {one['pairs']:,} | {one['mb_per_cpu_s']:.3g} |"
            f" {format_ratio(one['sanitize_is_times'])}x |"
            if "pairs" in one
            else f"{one['missing']} | | | |"
        )
        lines.append(f"| {' '.join([name, *one.get('packages', {}).values()])} | {cells}")
    lines += [
        "",
        "## The RMFT paper's preprocessing",
        "",
        "| plan | N | k | u | wall, s | CPU-s | the paper, s (N = 10,000, k = 6, u = 24,480) |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for plan, one in result["preprocessing"].items():
        lines += [
            f"| {plan} | {row['N']:,} | {row['k']:.1f} | {row['u']:,} | {row['wall_s']:.1f} |"
            f" {row['cpu_s']:.1f} | {one['paper_s']} |"
            for row in one["runs"]
        ]
        fit = one["fit"]
        lines.append(
            f"| {plan}, fitted | N^{fit['exponent']:.2f} | | | | {fit['start']:.1f} +"
            f" {fit['per_mb']:.2f} a thousand | N k log u |"
            if plan == "rmft"
            else (
                f"| {plan}, fitted | N^{fit['exponent']:.2f} | | | | {fit['start']:.1f} +"
                f" {fit['per_mb']:.2f} a thousand | N log N |"
            )
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--peers-python",
        default=sys.executable,
        help="an interpreter that has the other tools (default: this one)",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes, for a smoke run")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="folder of corpora and scratch copies")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return worker_main(options.worker)
    from benchmarks import corpora
    from benchmarks.bench import build_in_subprocess, describe_machine

    options.dir = options.dir or corpora.corpora_folder()
    options.dir.mkdir(parents=True, exist_ok=True)
    mb = {name: size * options.scale for name, size in MB.items()}
    source = Path(
        str(
            build_in_subprocess(
                corpora.build, "dense", max(1, round(MB["sanitize"] * options.scale)), options.dir
            )["path"]
        )
    )
    scratch = Path(tempfile.mkdtemp(dir=options.dir))
    try:
        result = {
            "date": datetime.date.today().isoformat(),
            "machine": describe_machine(),
            "repeat": options.repeat,
            "rewriting": compare_rewriting(source, mb, options, scratch),
            "near_duplicates": compare_near_duplicates(source, mb, options),
            "preprocessing": measure_preprocessing(options, scratch),
        }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "peers.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    (options.results / "peers.md").write_text(markdown(result), "utf-8")
    print(markdown(result))


if __name__ == "__main__":
    main()
