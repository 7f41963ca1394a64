"""Counts what the sweep of the leak check removes from real mail, by written form, and how many
bytes beyond the values.

    python -m benchmarks.bench_sweeps --data ../shared/data --sample sweeps.txt
    python -m benchmarks.bench_sweeps --data ../shared/data --true 100 --no-person 11

With `--sample` a random sample of 100 sweeps is written to a private file, to be read: a sweep is
true if what was removed is the value, in some written form. The counts of the reader are given with
the second command and stored beside the figures. Bytes beyond a value are those that were removed
besides the characters that hold it; of a value in base64 the characters that share bits with it.
Writes benchmarks/results/sweeps.json and a table, sweeps.md; no text of the corpora.
"""

from __future__ import annotations

import math
import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks import runner
from benchmarks.plan_runs import read_sweeps, read_texts, run_plan

MAIL = ("mail/enron.parquet", "mail/linux-man.parquet", "mail/spamassassin.parquet")
PLANS = ("redact", "rmft")
_SEED, _SAMPLE_SIZE, _CONTEXT = 7, 100, 60


def classify_form(swept: str, value: str) -> str:
    """The written form of a swept text: how it differs from the value."""
    joined = re.sub(r"\s+", " ", re.sub(r"\s*\n[> |\t]*", " ", swept))
    if swept == value:
        return "as written"
    if swept.lower() == value.lower():
        return "other case"
    if joined.lower() in (value.lower(), value.lower().replace("- ", "-")):
        return "line break"
    if re.sub(r"=\n", "", swept).lower() == value.lower():
        return "quoted-printable line"
    digits, value_digits = re.sub(r"\D", "", swept), re.sub(r"\D", "", value)
    if len(digits) > 6 and digits == value_digits:
        return "other separators"
    if re.sub(r"[\W_]", "", swept).lower() == re.sub(r"[\W_]", "", value).lower():
        return "identity"
    return "base64" if re.fullmatch(r"[A-Za-z0-9+/=\s>]+", swept) else "other"


def count_bytes_beyond(form: str, swept: str, value: str) -> int:
    """Bytes that the sweep removed besides those that hold the value."""
    if form == "base64":
        return max(0, len(re.sub(r"[\s>]", "", swept)) - math.ceil(len(value.encode()) * 8 / 6))
    if form in ("line break", "quoted-printable line", "identity", "other separators"):
        return max(0, len(swept.encode()) - len(value.encode()))
    return 0


def collect_sweeps(data: Path, documents: int) -> Iterator[dict[str, Any]]:
    """One entry per sweep: corpus, plan, kind, form, bytes, and the texts around it."""
    for name in MAIL:
        texts = read_texts(data, name, documents)
        for plan in PLANS:
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary)
                done = run_plan(texts, plan, folder)
                values = pl.read_parquet(
                    folder / "out.private" / "vault" / "values" / "*.parquet",
                    columns=["value_id", "value"],
                ).unique("value_id")
                rows = read_sweeps(folder, done).join(values, on="value_id", maintain_order="left")
            for row in rows.iter_rows(named=True):
                raw = texts["text"][row["doc_no"]].encode()
                start, end = row["start_byte"], row["end_byte"]
                before, swept, after = (
                    raw[first:stop].decode(errors="replace")
                    for first, stop in (
                        (max(0, start - _CONTEXT), start),
                        (start, end),
                        (end, end + _CONTEXT),
                    )
                )
                form = classify_form(swept, row["value"])
                yield {
                    "corpus": name,
                    "plan": plan,
                    "kind": row["kind"],
                    "form": form,
                    "bytes": end - start,
                    "beyond": count_bytes_beyond(form, swept, row["value"]),
                    "value": row["value"],
                    "swept": swept,
                    "before": before,
                    "after": after,
                    "text_mb": done.text_bytes / 1e6,
                }


def write_sample(sweeps: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a sample for a reader, as many of each plan; the file has texts of the corpora and is
    private."""
    generator = random.Random(_SEED)  # noqa: S311 - draws a sample
    lines = []
    for plan in PLANS:
        of_plan = [sweep for sweep in sweeps if sweep["plan"] == plan]
        for sweep in generator.sample(of_plan, min(len(of_plan), _SAMPLE_SIZE // len(PLANS))):
            lines.append(
                f"{len(lines) // 2:3} {plan} {sweep['kind']} {sweep['form']}: {sweep['value']!r}"
            )
            lines.append(f"      {sweep['before']!r} >>{sweep['swept']!r}<< {sweep['after']!r}")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def summarize(sweeps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sweeps, their bytes, and the bytes beyond the values, by plan and form."""
    frame = pl.DataFrame(
        [{name: sweep[name] for name in ("plan", "form", "bytes", "beyond")} for sweep in sweeps]
    )
    grouped = frame.group_by("plan", "form").agg(
        pl.len().alias("sweeps"), pl.col("bytes").sum(), pl.col("beyond").sum()
    )
    return grouped.sort("plan", "sweeps", "form", descending=[False, True, False]).to_dicts()


def format_page(result: Mapping[str, Any]) -> str:
    """A row for each plan and form, and what the reader found."""
    rows = [
        [row["plan"], row["form"], *(f"{row[name]:,}" for name in ("sweeps", "bytes", "beyond"))]
        for row in result["by_form"]
    ]
    head = ["plan", "form", "sweeps", "bytes removed", "beyond the value"]
    lines = runner.format_table(head, rows, left=2)
    read = result["read"]
    if read:
        lines += [
            "",
            f"{read['true']} of {read['sampled']} sampled sweeps are the value in some written"
            f" form; of {read['no_person']} of them the value itself, as the finder had found it,"
            " is no personal data (names of companies and products, names of header fields).",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = runner.build_parser(__doc__, data=runner.DATA, documents=1_500)
    parser.add_argument(
        "--sample", type=Path, help="write a sample to this private file, to be read"
    )
    parser.add_argument("--true", type=int, help="sampled sweeps that were judged true")
    parser.add_argument(
        "--no-person", type=int, default=0, help="of these: the value is no personal data"
    )
    options = parser.parse_args()
    sweeps = list(collect_sweeps(options.data, options.documents))
    if options.sample:
        write_sample(sweeps, options.sample)
    read = {"sampled": _SAMPLE_SIZE, "true": options.true, "no_person": options.no_person}
    result = runner.start_result(
        documents=options.documents,
        text_mb={
            f"{sweep['corpus']}, {sweep['plan']}": round(sweep["text_mb"], 1) for sweep in sweeps
        },
        by_form=summarize(sweeps),
        read=None if options.true is None else read,
    )
    runner.save_result(options.results, "sweeps", result, format_page(result))


if __name__ == "__main__":
    main()
