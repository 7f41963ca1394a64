"""Recall of the plan `redact` on generated judgments, contracts, medical notes and support mails,
by type and kind, and its false finds.

    python -m benchmarks.bench_documents                 writes benchmarks/results/documents.json
                                                         and the tables of documents.md

The texts are those of `document_texts.py`, drawn from a seed. A label is *touched* if a find of any
kind covers a part of it, and *exact* if a find of any kind has its start and end, after punctuation
at the edges is trimmed. A find is false if it covers no part of a label. *Direct identifiers* are
all labels but dates of birth and what does not identify a person alone or is not looked for by
`redact` (`document_texts.INDIRECT`). Names are of Faker's lists, which the finder `names` reads, in
part: the figures of PERSON are too good. Templates that are held out were not looked at when rules
were changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import runner
from benchmarks.detection import Span, find_by_plan, trim_spans
from benchmarks.document_texts import INDIRECT, TYPES, Document, generate_documents

PLAN = "redact"
ALL = "all types"
DIRECT, DIRECT_HELD_OUT = "direct identifiers", "direct identifiers, held out"


@dataclass(frozen=True)
class Label:
    """A labelled value of a document, and what the finds cover of it."""

    document: Document
    kind: str
    start: int
    end: int
    is_touched: bool
    is_exact: bool


def match_labels(
    documents: Sequence[Document], found: Sequence[Sequence[Span]]
) -> tuple[list[Label], Counter[tuple[str, str]]]:
    """The labels of all documents, and the number of false finds by type and kind."""
    labels: list[Label] = []
    false_finds: Counter[tuple[str, str]] = Counter()
    for document, finds in zip(documents, found, strict=True):
        trimmed = {(start, end) for start, end, _ in trim_spans(document.text, finds)}
        labelled = trim_spans(document.text, document.spans)
        for start, end, kind in sorted(labelled):
            touched = any(first < end and start < last for first, last in trimmed)
            labels.append(Label(document, kind, start, end, touched, (start, end) in trimmed))
        for start, end, kind in finds:
            if not any(first < end and start < last for first, last, _ in document.spans):
                false_finds[document.template.document_type, kind] += 1
    return labels, false_finds


def count_labels(labels: Iterable[Label]) -> dict[str, int]:
    """How many labels there are, and how many are touched and exact."""
    rows = list(labels)
    return {
        "labels": len(rows),
        "touched": sum(one.is_touched for one in rows),
        "exact": sum(one.is_exact for one in rows),
    }


def count_by_type(labels: Sequence[Label]) -> dict[str, dict[str, dict[str, int]]]:
    """The counts of each kind, and of direct identifiers, in each type and in all."""
    rows: dict[str, Callable[[Label], bool]] = {
        DIRECT: lambda one: one.kind not in INDIRECT,
        DIRECT_HELD_OUT: lambda one: one.kind not in INDIRECT and one.document.template.held_out,
    }
    for kind in sorted({one.kind for one in labels}):
        rows[kind] = lambda one, kind=kind: one.kind == kind  # type: ignore[misc]
    counts = {}
    for row, is_counted in rows.items():
        own = [one for one in labels if is_counted(one)]
        by_type = {
            name: count_labels(one for one in own if one.document.template.document_type == name)
            for name in TYPES
        }
        counts[row] = {**by_type, ALL: count_labels(own)}
    return counts


def format_page(result: Mapping[str, Any]) -> str:
    """Touched and exact by kind and type; then the false finds per 100 texts."""
    columns = [*TYPES, ALL]
    rows = [
        [name, f"{counts[ALL]['labels']:,}", *(_format_cell(counts[one]) for one in columns)]
        for name, counts in result["counts"].items()
    ]
    titles = [name.replace("_", " ") for name in columns]
    false_rows = [
        [kind, *(f"{100 * row[name] / result['texts'][name]:.1f}" for name in TYPES)]
        for kind, row in result["false_finds"].items()
    ]
    lines = [
        *runner.format_table(["touched, exact", "labels", *titles], rows, left=1),
        "",
        *runner.format_table(["false finds per 100 texts", *titles[:-1]], false_rows, left=1),
    ]
    return "\n".join(lines) + "\n"


def _format_cell(counts: Mapping[str, int]) -> str:
    if not counts["labels"]:
        return "–"
    return f"{counts['touched'] / counts['labels']:.2f}, {counts['exact'] / counts['labels']:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    options = runner.build_parser(__doc__, texts=10, seed=1).parse_args(arguments)
    documents = generate_documents(options.texts, options.seed)
    found = find_by_plan(PLAN)([document.text for document in documents])
    labels, false_finds = match_labels(documents, found)
    kinds = sorted({kind for _, kind in false_finds})
    result = runner.start_result(
        seed=options.seed,
        texts=Counter(document.template.document_type for document in documents),
        counts=count_by_type(labels),
        false_finds={kind: {name: false_finds[name, kind] for name in TYPES} for kind in kinds},
    )
    runner.save_result(options.results, "documents", result, format_page(result))


if __name__ == "__main__":
    main()
