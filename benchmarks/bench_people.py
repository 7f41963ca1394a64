"""Names of people by lists and context (`names`), by the small model (`ner`), and by both: quality
on labelled texts, and rates on mail.

    OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 python -m benchmarks.bench_people --data ../shared/data

Quality as in benchmarks/detection.py (exact spans of PERSON, pooled over the sets). *Names only* is
the same without what is no name: a title or a role before a name (`Ms.`, `Aunt`, `Director`) is cut
from labels and finds of every finder alike, and labels that are nothing else (`Borrower`) are
dropped, since some sets label titles and others do not. Rates are MB per CPU-second, without
loading, of the quality run and on mails (every fourth for patterns and names, every 200th for the
model); the rate of `names` and `ner` includes the patterns, and `ner, all lines` is the model
without its prefilter. Writes benchmarks/results/people.json and a table, people.md; counts only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks import detection
from benchmarks.bench import describe_machine

RESULTS = Path(__file__).with_name("results")
MAILS = ("enron", "linux-man", "spamassassin")
# finder -> one mail in so many is read
MAIL_FINDERS = {"sanitize": 4, "names": 4, "ner": 200, "ner, all lines": 200}
# words before a name that the labelled sets have as a part of it, or in its place
TITLES = (
    "Mr Mrs Ms Miss Mister Dr Prof Professor Sir Madam Aunt Auntie Uncle Brother Sister Elder"
    " Younger Grandma Grandpa Granny Old Little Boss Master Teacher Coach Manager General Director"
    " President Chairman Editor Engineer Consultant Captain Officer Doctor Nurse Principal Dean"
    " Squad Team Project Deputy Leader Supervisor Secretary Lawyer Attorney Judge Minister Senator"
    " Governor Mayor Lieutenant Sergeant Borrower Lender"
)
_TITLE = re.compile(rf"(?:(?:the\s+)?(?:{'|'.join(TITLES.split())})\b\.?\s*)+", re.IGNORECASE)


Labelled = tuple[str, list[detection.Span]]


def cut_titles(text: str, spans: Sequence[detection.Span]) -> list[detection.Span]:
    """The spans without titles at their beginnings; a span of titles alone is dropped."""
    cut = []
    for start, stop, kind in spans:
        title = _TITLE.match(text, start, stop)
        cut.append((title.end() if title else start, stop, kind))
    return [(start, stop, kind) for start, stop, kind in cut if start < stop]


def measure_quality(data: Path) -> dict[str, Any]:
    """By finder: its rate on the labelled sets, its scores, and its scores of names only."""
    sets: dict[str, list[Labelled]] = detection.read_sets(data)
    texts = [text for records in sets.values() for text, _ in records]
    names_only = {
        name: [(text, cut_titles(text, spans)) for text, spans in records]
        for name, records in sets.items()
    }
    size = sum(len(text.encode()) for text in texts) / 1e6
    out = {}
    for name in detection.PEOPLE:
        find = detection.FINDERS[name]()
        find(texts[:20])
        before = time.process_time()
        found = find(texts)
        rate = size / (time.process_time() - before)
        found_names = [cut_titles(text, spans) for text, spans in zip(texts, found, strict=True)]
        scores, scores_of_names = (
            detection.score_sets(sets, found),
            detection.score_sets(names_only, found_names),
        )
        out[name] = {
            "mb_per_cpu_s": rate,
            "scores": scores["PERSON"],
            "names_only": scores_of_names["PERSON"],
        }
        print(name, round(rate, 3), round(scores["PERSON"]["pooled"]["f2"], 3), flush=True)
    return out


def measure_mail(folder: Path) -> dict[str, dict[str, float]]:
    """By set of mails and finder: MB per CPU-second."""
    out: dict[str, dict[str, float]] = {}
    for name in MAILS:
        raw = pl.read_parquet(folder / f"{name}.parquet", columns=["raw"])["raw"]
        for finder, stride in MAIL_FINDERS.items():
            texts = [mail.decode("utf-8", "replace") for mail in raw[::stride]]
            size = sum(len(text.encode()) for text in texts) / 1e6
            find = detection.FINDERS[finder]()
            find(texts[:2])
            before = time.process_time()
            find(texts)
            out.setdefault(name, {})[finder] = size / (time.process_time() - before)
    return out


def format_tables(result: Mapping[str, Any]) -> str:
    """The two tables of docs/results/detection.md."""
    lines = [
        (
            "| PERSON | precision, recall, F2 (95 %) | names only | recall by overlap | MB per"
            " CPU-second |"
        ),
        "|---|---|---|--:|--:|",
    ]
    for name, one in result["quality"].items():
        cells = [_format_scores(one[part]["pooled"]) for part in ("scores", "names_only")]
        cells += [f"{one['scores']['pooled']['overlap_recall']:.2f}", f"{one['mb_per_cpu_s']:.2g}"]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    sets = next(iter(result["quality"].values()))["names_only"]["sets"]
    lines += [
        "",
        "| F2, names only | labels | " + " | ".join(result["quality"]) + " |",
        "|---|--:|" + "--:|" * len(result["quality"]),
    ]
    for name, one in sets.items():
        cells = [
            f"{finder['names_only']['sets'][name]['f2']:.2f}"
            for finder in result["quality"].values()
        ]
        lines.append("| " + " | ".join([name, f"{one['labels']:,}", *cells]) + " |")
    lines += [
        "",
        "| mails | patterns | names | of patterns | ner | ner, all lines | times |",
        "|---|" + "--:|" * 6,
    ]
    for name, rates in result["mail"].items():
        patterns, names, filtered, unfiltered = (rates[finder] for finder in MAIL_FINDERS)
        lines.append(
            f"| {name} | {patterns:.2g} | {names:.2g} | {names / patterns:.2f} | "
            f"{filtered:.2g} | {unfiltered:.2g} | {filtered / unfiltered:.1f} |"
        )
    labels = next(iter(result["quality"].values()))["scores"]["pooled"]["labels"]
    lines += [
        "",
        (
            f"{labels:,} labels. {result['date']}, {result['machine']['cpu']}, one thread; MB per"
            " CPU-second."
        ),
    ]
    return "\n".join(lines)


def _format_scores(pooled: Mapping[str, Any]) -> str:
    """`precision, recall, F2 (interval)`."""
    low, high = pooled["f2_interval"]
    return (
        f"{pooled['precision']:.2f}, {pooled['recall']:.2f}, {pooled['f2']:.2f} ({low:.2f} to"
        f" {high:.2f})"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=detection.DATA.parent, help="the folder with pii/ and mail/"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "quality": measure_quality(options.data / "pii"),
        "mail": measure_mail(options.data / "mail"),
    }
    (options.results / "people.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.results / "people.md").write_text(format_tables(result) + "\n")
    print(format_tables(result))


if __name__ == "__main__":
    main()
