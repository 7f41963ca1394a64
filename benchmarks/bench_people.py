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

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks import detection, runner

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


def cut_titles(text: str, spans: Sequence[detection.Span]) -> list[detection.Span]:
    """The spans without titles at their beginnings; a span of titles alone is dropped."""
    cut = []
    for start, stop, kind in spans:
        title = _TITLE.match(text, start, stop)
        cut.append((title.end() if title else start, stop, kind))
    return [(start, stop, kind) for start, stop, kind in cut if start < stop]


def measure_rate(name: str, texts: list[str]) -> tuple[float, list[list[detection.Span]]]:
    """MB per CPU-second of a finder, without its first texts, and its finds."""
    find = detection.FINDERS[name]()
    find(texts[:20])
    cost, found = runner.measure_call(lambda: find(texts))
    return sum(len(text.encode()) for text in texts) / 1e6 / cost.cpu_s, found


def measure_quality(data: Path) -> dict[str, Any]:
    """By finder: its rate on the labelled sets, its scores, and its scores of names only."""
    sets = detection.read_sets(data)
    texts = [text for records in sets.values() for text, _ in records]
    names_only = {
        name: [(text, cut_titles(text, spans)) for text, spans in records]
        for name, records in sets.items()
    }
    out = {}
    for name in detection.PEOPLE:
        rate, found = measure_rate(name, texts)
        found_names = [cut_titles(text, spans) for text, spans in zip(texts, found, strict=True)]
        out[name] = {
            "mb_per_cpu_s": rate,
            "scores": detection.score_sets(sets, found)["PERSON"],
            "names_only": detection.score_sets(names_only, found_names)["PERSON"],
        }
        print(name, round(rate, 3), round(out[name]["scores"]["pooled"]["f2"], 3), flush=True)
    return out


def measure_mail(folder: Path) -> dict[str, dict[str, float]]:
    """By set of mails and finder: MB per CPU-second."""
    out: dict[str, dict[str, float]] = {}
    for name in MAILS:
        raw = pl.read_parquet(folder / f"{name}.parquet", columns=["raw"])["raw"]
        out[name] = {
            finder: measure_rate(
                finder, [mail.decode("utf-8", "replace") for mail in raw[::stride]]
            )[0]
            for finder, stride in MAIL_FINDERS.items()
        }
    return out


def format_page(result: Mapping[str, Any]) -> str:
    """The tables of docs/results/detection.md."""
    quality = result["quality"]
    by_finder = [
        [
            name,
            *(_format_scores(one[part]["pooled"]) for part in ("scores", "names_only")),
            f"{one['scores']['pooled']['overlap_recall']:.2f}",
            f"{one['mb_per_cpu_s']:.2g}",
        ]
        for name, one in quality.items()
    ]
    first = next(iter(quality.values()))
    by_set = [
        [
            name,
            f"{one['labels']:,}",
            *(f"{finder['names_only']['sets'][name]['f2']:.2f}" for finder in quality.values()),
        ]
        for name, one in first["names_only"]["sets"].items()
    ]
    by_mails = []
    for name, rates in result["mail"].items():
        patterns, names, filtered, unfiltered = (rates[finder] for finder in MAIL_FINDERS)
        cells = [f"{patterns:.2g}", f"{names:.2g}", f"{names / patterns:.2f}"]
        cells += [f"{filtered:.2g}", f"{unfiltered:.2g}", f"{filtered / unfiltered:.1f}"]
        by_mails.append([name, *cells])
    finders = (
        "PERSON; precision, recall, F2 (95 %); names only; recall by overlap; MB per CPU-second"
    )
    mails = "mails; patterns; names; of patterns; ner; ner, all lines; times"
    lines = [
        *runner.format_table(finders.split("; "), by_finder, left=3),
        "",
        *runner.format_table(["F2, names only", "labels", *quality], by_set, left=1),
        "",
        *runner.format_table(mails.split("; "), by_mails, left=1),
        "",
        f"{first['scores']['pooled']['labels']:,} labels. {result['date']},"
        f" {result['machine']['cpu']}, one thread; MB per CPU-second.",
    ]
    return "\n".join(lines) + "\n"


def _format_scores(pooled: Mapping[str, Any]) -> str:
    """`precision, recall, F2 (interval)`."""
    f2 = detection.format_scores(pooled["f2"], pooled["f2_interval"])
    return f"{pooled['precision']:.2f}, {pooled['recall']:.2f}, {f2}"


def main() -> None:
    options = runner.build_parser(__doc__, data=runner.DATA).parse_args()
    result = runner.start_result(
        quality=measure_quality(options.data / "pii"), mail=measure_mail(options.data / "mail")
    )
    runner.save_result(options.results, "people", result, format_page(result))


if __name__ == "__main__":
    main()
