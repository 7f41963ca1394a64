"""Runs every shipped plan over real corpora, verifies each result, and counts where the two
disagree (expected: nowhere).

    python -m benchmarks.bench_verdicts --data ../shared/data

For each corpus and plan: whether `run` published, and if not, with which error; whether `verify`
then finds a leak; how many occurrences the leak check swept; and what the check costs beside
detection, in CPU-seconds. Writes benchmarks/results/verdicts.json and a table, verdicts.md. Corpora
are named by their files; no text of them is written.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import sanitize
from benchmarks.bench import describe_machine
from sanitize.errors import SanitizeError

RESULTS = Path(__file__).with_name("results")
PLANS = (
    "baseline",
    "blacklist",
    "erase",
    "header_dedup",
    "mask_words",
    "names",
    "pseudonymize",
    "redact",
    "rmft",
    "strict",
)
# file -> column of its texts, and what kind of texts these are
CORPORA = {
    "mail/enron.parquet": ("raw", "mail"),
    "mail/linux-man.parquet": ("raw", "mail"),
    "mail/spamassassin.parquet": ("raw", "mail"),
    "users/newsgroups20.parquet": ("raw", "mail"),
    "text/wikitext2_valid.txt": ("text", "web"),
    "text/tinyshakespeare.txt": ("text", "web"),
    "pii/lifebench_users1-6.jsonl": ("text", "chat"),
    "pii/pupa_new.jsonl": ("text", "chat"),
    "pii/presidio_synth_v2.jsonl": ("text", "chat"),
    "pii/wnut17_train.jsonl": ("text", "web"),
    "pii/ambientmeta_standard.jsonl": ("text", "chat"),
    "users/llmprivacy_synthetic.jsonl": ("response", "chat"),
    "users/mtsamples.jsonl": ("text", "web"),
}


def read_texts(path: Path, column: str, documents: int) -> pl.DataFrame:
    """The first documents of a corpus: an id, a user (one of 40, in turn) and a text each.
    Paragraphs, of a file of text."""
    if path.suffix == ".txt":
        texts = pl.Series(
            [part for part in path.read_text("utf-8").split("\n\n") if part.strip()][
                : 5 * documents
            ],
            dtype=pl.String,
        )
    elif path.suffix == ".parquet":
        raw = pl.read_parquet(path, columns=[column]).head(documents)[column]
        texts = pl.Series([one.decode("utf-8", "replace") for one in raw], dtype=pl.String)
    else:
        texts = pl.read_ndjson(path, infer_schema_length=None)[column].head(documents)
    numbers = range(len(texts))
    ids, users = (
        pl.Series([f"{prefix}{number}" for number in column])
        for prefix, column in (("d", numbers), ("u", (n % 40 for n in numbers)))
    )
    return pl.DataFrame({"id": ids, "user_id": users, "text": texts})


def measure(inputs: Path, plan: str, folder: Path) -> dict[str, Any]:
    """One plan over one corpus: the outcome of `run` and of `verify`, and what the leak check costs
    beside detection."""
    out = folder / "out"
    try:
        done = sanitize.run(inputs, out, plan=plan, id_column="id", seed=7, workers=1)
    except SanitizeError as error:
        return {
            "run": type(error).__name__,
            "verify": None,
            "contradiction": False,
            "message": str(error).replace(str(folder), "..."),
        }
    cpu = {name: cost.cpu_s for name, cost in done.stages.items()}
    try:
        sanitize.verify(out, workers=1)
        verdict = "clean"
    except SanitizeError as error:
        verdict = type(error).__name__
    return {
        "run": "published",
        "publishable": done.publishable,
        "verify": verdict,
        "contradiction": verdict != "clean",
        "values_checked": done.verify.values_checked,
        "swept": done.verify.swept,
        "text_mb": round(done.text_bytes / 1e6, 3),
        "detect_cpu_s": round(cpu.get("detect", 0) + cpu.get("second_round", 0), 2),
        "verify_cpu_s": round(cpu.get("verify", 0), 2),
    }


def measure_all(data: Path, documents: int, plans: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields one entry per corpus and plan."""
    for name, (column, genre) in CORPORA.items():
        with tempfile.TemporaryDirectory() as temporary:
            inputs = Path(temporary, "in.parquet")
            read_texts(data / name, column, documents).write_parquet(inputs)
            for plan in plans:
                with tempfile.TemporaryDirectory() as folder:
                    entry = {
                        "corpus": name,
                        "genre": genre,
                        "plan": plan,
                        **measure(inputs, plan, Path(folder)),
                    }
                print(json.dumps(entry), flush=True)
                yield entry


def format_table(entries: Sequence[dict[str, Any]]) -> str:
    """One row per corpus: outcomes over all plans, and the cost of the check beside detection under
    `redact` or the only plan."""
    lines = [
        (
            "| corpus | plans | published | stopped | clean in verify | contradictions | swept |"
            " check / detection (CPU) |"
        ),
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in dict.fromkeys(entry["corpus"] for entry in entries):
        own = [entry for entry in entries if entry["corpus"] == name]
        published = [entry for entry in own if entry["run"] == "published"]
        costs = [
            entry["verify_cpu_s"] / entry["detect_cpu_s"]
            for entry in published
            if entry["detect_cpu_s"] and entry["values_checked"]
        ]
        clean = sum(entry["verify"] == "clean" for entry in published)
        lines.append(
            f"| {name} | {len(own)} | {len(published)} | {len(own) - len(published)} | {clean} |"
            f" {sum(entry['contradiction'] for entry in own)} |"
            f" {sum(entry['swept'] for entry in published):,} | {min(costs):.2f} to"
            f" {max(costs):.2f} |"
            if costs
            else "–"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the corpora")
    parser.add_argument("--documents", type=int, default=1_500, help="documents of each corpus")
    parser.add_argument("--plans", nargs="+", default=PLANS)
    options = parser.parse_args()
    entries = list(measure_all(options.data, options.documents, options.plans))
    contradictions = sum(entry["contradiction"] for entry in entries)
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "documents": options.documents,
        "contradictions": contradictions,
        "entries": entries,
    }
    (RESULTS / "verdicts.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "verdicts.md").write_text(format_table(entries) + "\n")
    print(format_table(entries))
    raise SystemExit(1 if contradictions else 0)


if __name__ == "__main__":
    main()
