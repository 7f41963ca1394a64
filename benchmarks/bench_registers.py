"""Precision and recall by kind on generated prose, mail, technical text and chat, and their finds
without a label.

    python -m benchmarks.bench_registers                 writes benchmarks/results/registers.json
                                                         and the tables of registers.md

The texts are those of `register_texts.py`, drawn from a seed; the finders are `patterns`, `names`
and `known`. A find is true if it overlaps a label of its kind; a label is found if a find of its
kind has its start and end. Only kinds with a label or a find in a register have a cell. The
templates were written from known errors: the figures say which of them are mended, not what another
text gives.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import describe_machine
from benchmarks.detection import Span, sanitize_find
from benchmarks.register_texts import REGISTERS, LabelledText, generate_texts

RESULTS = Path(__file__).with_name("results")
KINDS = (
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "IP_ADDRESS",
    "USER_AT_HOST",
    "URL",
    "US_SSN",
    "CREDIT_CARD",
    "IBAN_CODE",
    "PERSON",
)
_PLAN = """
leave = ["*"]
[find]
kinds = ["default", "PERSON", "USER_AT_HOST"]
finders = ["patterns", "names", "known"]
"""


def find_spans(texts: Sequence[str]) -> list[list[Span]]:
    """The occurrences of the finders `patterns`, `names` and `known` in each text, in the order of
    the texts."""
    with tempfile.TemporaryDirectory(prefix="registers-") as folder:
        plan = Path(folder) / "all_finds.toml"
        plan.write_text(_PLAN, "utf-8")
        os.environ["SANITIZE_FIND_ARGS"] = f"--plan {plan}"
        return sanitize_find()(list(texts))


def count_finds(
    texts: Sequence[LabelledText], found: Sequence[Sequence[Span]]
) -> dict[str, dict[str, dict[str, int]]]:
    """For each register and kind: `labels`, `found` (labels that a find equals), `finds` and `true`
    (finds that overlap a label)."""
    counts: dict[str, dict[str, Counter[str]]] = {
        register: {kind: Counter() for kind in KINDS} for register in REGISTERS
    }
    for text, spans in zip(texts, found, strict=True):
        for kind, row in counts[text.register].items():
            labels = {(start, end) for start, end, label in text.spans if label == kind}
            finds = {(start, end) for start, end, name in spans if name == kind}
            row["labels"] += len(labels)
            row["found"] += len(labels & finds)
            row["finds"] += len(finds)
            row["true"] += sum(
                any(start < stop and first < end for first, stop in labels) for start, end in finds
            )
    return {
        register: {kind: dict(row) for kind, row in rows.items() if row["labels"] or row["finds"]}
        for register, rows in counts.items()
    }


def format_table(result: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """A row for each kind: precision and recall in each register, and in parentheses the false
    finds."""
    lines = [f"| kind | {' | '.join(REGISTERS)} |", "|---|" + "--:|" * len(REGISTERS)]
    for kind in KINDS:
        rows = [result[register].get(kind) for register in REGISTERS]
        if any(rows):
            lines.append(f"| {kind} | " + " | ".join(map(_format_cell, rows)) + " |")
    return "\n".join(lines)


def _format_cell(row: Mapping[str, int] | None) -> str:
    """`precision, recall`; the number of finds where nothing is labelled; a dash where there is
    neither."""
    if not row:
        return "–"
    if not row["labels"]:
        return f"{row['finds']:,} false"
    precision = f"{row['true'] / row['finds']:.3f}" if row["finds"] else "–"
    return f"{precision}, {row['found'] / row['labels']:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=int, default=100, help="texts for each template")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of registers.json and registers.md"
    )
    options = parser.parse_args()
    texts = generate_texts(options.texts, options.seed)
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "texts": Counter(text.register for text in texts),
        "bytes": Counter(
            {
                r: sum(len(text.text.encode()) for text in texts if text.register == r)
                for r in REGISTERS
            }
        ),
        "counts": count_finds(texts, find_spans([text.text for text in texts])),
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "registers.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    (options.results / "registers.md").write_text(format_table(result["counts"]) + "\n", "utf-8")
    print(format_table(result["counts"]))


if __name__ == "__main__":
    main()
