"""Compares the cost of other tools for the same work on the same texts, in CPU-seconds, in separate
processes and alternating rounds.

    python -m benchmarks.peers --peers-python VENV/bin/python     benchmarks/results/peers.{json,md}
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
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import detection, near_duplicates, runner

if TYPE_CHECKING:
    import pyarrow as pa

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
        found = analyzer.analyze(text=text, language="en", entities=kinds)
        return str(anonymizer.anonymize(text=text, analyzer_results=found).text)

    return _text_by_text(clean), kinds


REWRITERS: dict[str, Callable[[str], tuple[Clean, Sequence[str]]]] = {
    "re": plain_re,
    "datatrove": datatrove,
    "maskops": maskops,
    "piicleaner": piicleaner,
    "scrubadub": scrubadub,
    "presidio": presidio,
}


def rewrite(name: str, job: str, source: Path, megabytes: float) -> dict[str, Any]:
    """Read the first documents of a corpus, replace, write them again: rate, share of documents
    changed, memory."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    clean, kinds = (None, []) if name == "plain copy" else REWRITERS[name](job)
    if clean:
        texts = [f"From: a{no}@example.com\nCall 202-555-01{no:02d} today." for no in range(20)]
        clean(pa.array(texts))  # warm-up
    counts = {"bytes": 0, "documents": 0, "changed": 0}

    def rewrite_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        place = batch.schema.get_field_index("text")
        texts = batch.column(place)
        counts["bytes"] += texts.nbytes
        counts["documents"] += len(batch)
        if not clean:
            return batch
        made = clean(texts)
        counts["changed"] += pc.sum(pc.not_equal(texts, made)).as_py()
        return batch.set_column(place, batch.schema.field(place), made)

    def rewrite_shards() -> None:
        with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
            for path in sorted(source.glob("*.parquet")):
                shard, target = pq.ParquetFile(path), Path(scratch, path.name)
                with pq.ParquetWriter(
                    target, shard.schema_arrow, compression="zstd", compression_level=1
                ) as out:
                    for batch in shard.iter_batches(1_000 if clean else 10_000, use_threads=False):
                        out.write_batch(rewrite_batch(batch))
                        if counts["bytes"] >= megabytes * 1e6:
                            return

    cost, _ = runner.measure_call(rewrite_shards)
    return {
        "kinds": list(kinds),
        "text_mb": counts["bytes"] / 1e6,
        "documents": counts["documents"],
        "changed": counts["changed"] / counts["documents"],
        **asdict(cost),
    }


def count_near_duplicates(
    name: str, source: Path, documents: int, bands: int, rows: int
) -> dict[str, Any]:
    """Texts to candidate pairs, in memory: CPU-seconds and pairs."""
    texts = near_duplicates.read_texts(source, documents)
    count_pairs = near_duplicates.METHODS[name]
    count_pairs([texts[0].slice(0, 100)], bands, rows)  # not timed: imports
    cost, pairs = runner.measure_call(lambda: count_pairs(texts, bands, rows))
    return {
        "documents": sum(map(len, texts)),
        "text_mb": near_duplicates.count_mb(texts),
        "cpu_s": cost.cpu_s,
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


def measure_sanitize(source: Path, plan: str, folder: Path) -> dict[str, Any]:
    """A row of the first table for `sanitize run` with one worker."""
    options = ("--plan", plan, "--workers", "1")
    summary, cost = runner.run_and_remove(source, folder, *options, **runner.ONE_THREAD)
    assert summary["leaks"] == 0
    return {
        "kinds": [kind for kind, one in summary["by_kind"].items() if one["replaced"]],
        "text_mb": summary["text_bytes"] / 1e6,
        "documents": summary["documents_in"],
        "cpu_s": sum(one["cpu_s"] for one in summary["stages"].values()),
        "process_cpu_s": cost.cpu_s,
        "peak_rss_mb": cost.peak_rss_mb,
        "packages": {},
    }


def worker_main(arguments: Sequence[str]) -> None:
    """A worker: prints one JSON object."""
    what, name, source, size, *rest = arguments
    if what == "near":
        found = count_near_duplicates(name, Path(source), int(size), *map(int, rest))
    else:
        found = rewrite(name, rest[0], Path(source), float(size))
    known = DISTRIBUTIONS.get(name, () if name in ("plain copy", "near_dup") else (name,))
    packages = {package: importlib.metadata.version(package) for package in known}
    print(json.dumps({**found, "packages": packages}))


def compare_rates(
    about: str,
    methods: Mapping[str, Callable[[], dict[str, Any] | str]],
    ours: str,
    repeat: int,
) -> dict[str, Any]:
    """A row for each tool: medians over alternating rounds, its rate, and how many times that is
    ours; or why it is missing."""
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in methods}
    missing: dict[str, Any] = {}
    for _ in range(repeat):
        for name, measure in methods.items():
            outcome = missing[name]["missing"] if name in missing else measure()
            if isinstance(outcome, str):
                missing[name] = {"missing": outcome}
            else:
                rounds[name].append(outcome)
            shown = outcome if isinstance(outcome, str) else f"{outcome['cpu_s']:.2f}"
            print(f"{about}, {name}: {shown}", file=sys.stderr)
    table = {}
    for name, each in rounds.items():
        if each:
            fields = {"cpu_s", "process_cpu_s", "peak_rss_mb"} & each[0].keys()
            table[name] = runner.take_medians(each, *fields)
            table[name]["mb_per_cpu_s"] = table[name]["text_mb"] / table[name]["cpu_s"]
    for one in table.values():
        one["sanitize_is_times"] = table[ours]["mb_per_cpu_s"] / one["mb_per_cpu_s"]
    return table | missing


def compare_rewriting(
    source: Path, mb: Mapping[str, float], options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """The first table: for each job and tool, medians over alternating rounds."""
    tables: dict[str, Any] = {}
    for job in JOBS:
        methods: dict[str, Callable[[], dict[str, Any] | str]] = {}
        for name in ("plain copy", *REWRITERS):
            python = sys.executable if name in ("plain copy", "re") else options.peers_python
            arguments = ("--worker", "rewrite", name, str(source), str(mb[name]), job)
            methods[name] = partial(runner.run_worker, python, "benchmarks.peers", *arguments)
        plan = str(write_plan(job, folder))
        methods["sanitize"] = partial(measure_sanitize, source, plan, folder)
        if job != "addresses":
            methods["sanitize, plan redact"] = partial(measure_sanitize, source, "redact", folder)
        tables[job] = compare_rates(job, methods, "sanitize", options.repeat)
    return tables


def compare_near_duplicates(
    source: Path, mb: Mapping[str, float], options: argparse.Namespace
) -> dict[str, Any]:
    """The second table."""
    from benchmarks.corpora import BYTES_PER_MAIL
    from sanitize.droppers.near_dup import choose_bands

    bands, rows = choose_bands(0.8, near_duplicates.PERMUTATIONS)
    methods: dict[str, Callable[[], dict[str, Any] | str]] = {}
    for name in near_duplicates.METHODS:
        python = sys.executable if name == "near_dup" else options.peers_python
        documents = max(1, round(mb[name] * 1e6 / BYTES_PER_MAIL["dense"]))
        arguments = ("near", name, source, documents, bands, rows)
        methods[name] = partial(
            runner.run_worker, python, "benchmarks.peers", "--worker", *map(str, arguments)
        )
    return {
        "bands": bands,
        "rows": rows,
        "permutations": near_duplicates.PERMUTATIONS,
        "shingle": near_duplicates.SHINGLE,
        "tools": compare_rates("near-duplicates", methods, "near_dup", options.repeat),
    }


def measure_preprocessing(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The third table: wall time and CPU-seconds by N, k and u, and the exponent of N."""
    from benchmarks import corpora
    from benchmarks.scale import fit_costs

    found: dict[str, Any] = {}
    for plan in PAPER:
        rows = []
        for size in (max(200, round(size * options.scale)) for size in SIZES):
            source = Path(corpora.build_count("dense", size, options.dir)["path"])
            runs = [
                runner.run_and_remove(source, folder, "--plan", plan, **runner.ONE_THREAD)
                for _ in range(options.repeat)
            ]
            emails = runs[-1][0]["by_kind"][EMAIL]
            row = {"N": size, "k": emails["occurrences"] / size, "u": emails["values"]}
            for field in ("wall_s", "cpu_s"):
                row[field] = statistics.median(getattr(cost, field) for _, cost in runs)
            rows.append(row)
            spent = f"{row['wall_s']:.1f} s, {row['cpu_s']:.1f} CPU-s"
            print(f"{plan}, N = {size:,}: {spent}", file=sys.stderr)
        found[plan] = {
            "paper_s": PAPER[plan],
            "runs": rows,
            "fit": fit_costs([one["N"] / 1e3 for one in rows], [one["cpu_s"] for one in rows]),
        }
    return found


def format_ratio(ratio: float) -> str:
    """Format a ratio with two significant digits, or as an integer from 100 on."""
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2g}"


def format_page(result: dict[str, Any]) -> str:
    """The three tables as a Markdown page."""
    about = result["machine"]
    lines = [
        "# Comparison with other tools",
        "",
        f"{result['date']}, {about['cpu']}, {about['cores']} cores, Python {about['python']}."
        f" Medians of {result['repeat']}, one thread; `python -m benchmarks.peers` writes this"
        " page, and its docstring describes the method. Only ratios are comparable.",
    ]
    for job, table in result["rewriting"].items():
        rows = []
        for name, one in sorted(table.items(), key=lambda pair: -pair[1].get("mb_per_cpu_s", 0)):
            if "missing" in one:
                rows.append([name, one["missing"], *[""] * 5])
                continue
            rows.append(
                [
                    f"{name} {', '.join(one['packages'].values())}".strip(),
                    "none" if name == "plain copy" else str(len(one["kinds"])),
                    f"{one['text_mb']:.1f}",
                    f"{one['changed']:.0%}" if one.get("changed") else "",
                    f"{one['mb_per_cpu_s']:.3g}",
                    f"{one['text_mb'] / one['process_cpu_s']:.3g}",
                    f"{format_ratio(one['sanitize_is_times'])}x",
                ]
            )
        head = ["tool", "kinds", "text, MB", "documents changed", "MB per CPU-s", "with start-up"]
        lines += ["", f"## Find and replace, Parquet to Parquet: {job}", ""]
        lines += [*runner.format_table([*head, "`sanitize run` is"], rows, left=2), ""]
        lines += [
            f"{name}: {', '.join(one['kinds'])}."
            for name, one in table.items()
            if job != "addresses" and one.get("kinds")
        ]
    pairs = result["near_duplicates"]
    rows = [
        [
            " ".join([name, *one["packages"].values()]),
            f"{one['documents']:,}",
            f"{one['pairs']:,}",
            f"{one['mb_per_cpu_s']:.3g}",
            f"{format_ratio(one['sanitize_is_times'])}x",
        ]
        if "pairs" in one
        else [name, one["missing"], "", "", ""]
        for name, one in pairs["tools"].items()
    ]
    head = ["tool", "documents", "pairs", "MB per CPU-s", "`near_dup` is"]
    lines += [
        "",
        f"## Near-duplicates: candidate pairs ({pairs['permutations']} permutations,"
        f" {pairs['bands']} bands of {pairs['rows']})",
        "",
        *runner.format_table(head, rows, left=1),
    ]
    rows = []
    for plan, one in result["preprocessing"].items():
        for run in one["runs"]:
            seconds = (f"{run[field]:.1f}" for field in ("wall_s", "cpu_s"))
            counts = (f"{run['N']:,}", f"{run['k']:.1f}", f"{run['u']:,}")
            rows.append([plan, *counts, *seconds, str(one["paper_s"])])
        fit = one["fit"]
        cost = f"{fit['start']:.1f} + {fit['per_mb']:.2f} a thousand"
        growth = {"rmft": "N k log u", "header_dedup": "N log N"}[plan]
        rows.append([f"{plan}, fitted", f"N^{fit['exponent']:.2f}", "", "", "", cost, growth])
    head = ["plan", "N", "k", "u", "wall, s", "CPU-s"]
    head.append("the paper, s (N = 10,000, k = 6, u = 24,480)")
    lines += ["", "## The RMFT paper's preprocessing", ""]
    return "\n".join([*lines, *runner.format_table(head, rows, left=1)]) + "\n"


def main() -> None:
    parser = runner.build_parser(__doc__, repeat=3, dir=runner.SCRATCH)
    parser.add_argument(
        "--peers-python",
        default=sys.executable,
        help="an interpreter that has the other tools (default: this one)",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes, for a smoke run")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker_main(options.worker)
    from benchmarks import corpora  # needs sanitize, unlike a worker

    mb = {name: size * options.scale for name, size in MB.items()}
    about = corpora.build("dense", max(1, round(mb["sanitize"])), options.dir)
    source = Path(about["path"])
    result = runner.start_result(repeat=options.repeat)
    with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
        folder = Path(scratch)
        result["rewriting"] = compare_rewriting(source, mb, options, folder)
        result["near_duplicates"] = compare_near_duplicates(source, mb, options)
        result["preprocessing"] = measure_preprocessing(options, folder)
    runner.save_result(options.results, "peers", result, format_page(result))


if __name__ == "__main__":
    main()
