"""Names of people by lists and context (`names`), by the small model (`ner`), and by both: quality on labelled texts, and rates on mail.

    OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 python -m benchmarks.bench_people --data ../shared/data

Quality as in benchmarks/detection.py (exact spans of PERSON, pooled over the sets), on every set up to `--set-mb`: of a larger one, evenly
spaced records. Rates are MB per CPU-second, without loading, on every 200th mail of each set of mails; `ner, all lines` is the model
without its prefilter. Writes benchmarks/results/people.json and a table, people.md; counts only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks import detection
from benchmarks.bench import describe_machine

RESULTS = Path(__file__).with_name("results")
MAILS = ("enron", "linux-man", "spamassassin")
MAIL_FINDERS = ("ner", "ner, all lines")


def sample_records(records: list[tuple[str, list[detection.Span]]], megabytes: float) -> list[tuple[str, list[detection.Span]]]:
    """Evenly spaced records of a set, of about this size together; all of a smaller set."""
    size = sum(len(text.encode()) for text, _ in records) / 1e6
    return records[:: max(1, round(size / megabytes))]


def measure_quality(data: Path, megabytes: float) -> dict[str, Any]:
    """By finder: its scores and its rate on the labelled sets."""
    sets = {name: sample_records(records, megabytes) for name, records in detection.read_sets(data).items()}
    texts = [text for records in sets.values() for text, _ in records]
    size = sum(len(text.encode()) for text in texts) / 1e6
    out = {}
    for name in detection.PEOPLE:
        find = detection.FINDERS[name]()
        find(texts[:20])
        before = time.process_time()
        found = find(texts)
        out[name] = {"mb_per_cpu_s": size / (time.process_time() - before), "scores": detection.score_sets(sets, found)["PERSON"]}
    return out


def measure_mail(folder: Path) -> dict[str, dict[str, float]]:
    """By set of mails and finder: MB per CPU-second."""
    out: dict[str, dict[str, float]] = {}
    for name in MAILS:
        raw = pl.read_parquet(folder / f"{name}.parquet", columns=["raw"])["raw"][::200]
        texts = [mail.decode("utf-8", "replace") for mail in raw]
        size = sum(len(text.encode()) for text in texts) / 1e6
        for finder in MAIL_FINDERS:
            find = detection.FINDERS[finder]()
            find(texts[:2])
            before = time.process_time()
            find(texts)
            out.setdefault(name, {})[finder] = size / (time.process_time() - before)
    return out


def format_tables(result: Mapping[str, Any]) -> str:
    """The two tables of docs/results/detection.md."""
    lines = ["| PERSON | precision | recall | F2 (95 %) | recall by overlap | MB per CPU-second |", "|---|--:|--:|--:|--:|--:|"]
    for name, one in result["quality"].items():
        pooled = one["scores"]["pooled"]
        low, high = pooled["f2_interval"]
        cells = [f"{pooled['precision']:.2f}", f"{pooled['recall']:.2f}", f"{pooled['f2']:.2f} ({low:.2f} to {high:.2f})"]
        lines.append("| " + " | ".join([name, *cells, f"{pooled['overlap_recall']:.2f}", f"{one['mb_per_cpu_s']:.2g}"]) + " |")
    lines += ["", "| mails | ner | ner, all lines | times |", "|---|--:|--:|--:|"]
    for name, rates in result["mail"].items():
        filtered, unfiltered = (rates[finder] for finder in MAIL_FINDERS)
        lines.append(f"| {name} | {filtered:.2g} | {unfiltered:.2g} | {filtered / unfiltered:.1f} |")
    labels = next(iter(result["quality"].values()))["scores"]["pooled"]["labels"]
    lines += ["", f"{labels:,} labels. {result['date']}, {result['machine']['cpu']}, one thread; MB per CPU-second."]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=detection.DATA.parent, help="the folder with pii/ and mail/")
    parser.add_argument("--set-mb", type=float, default=0.5, help="MB of the largest labelled set")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "quality": measure_quality(options.data / "pii", options.set_mb),
        "mail": measure_mail(options.data / "mail"),
    }
    (options.results / "people.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.results / "people.md").write_text(format_tables(result) + "\n")
    print(format_tables(result))


if __name__ == "__main__":
    main()
