"""Precision and recall by kind on generated prose, mail, technical text and chat, and their finds
without a label; and false finds per MB in numeric data, code, changelogs and dialogues.

    python -m benchmarks.bench_registers                 writes benchmarks/results/registers.json
                                                         and the tables of registers.md

The texts are those of `register_texts.py`, drawn from a seed; the finders are `patterns`, `names`
and `known`. A find is true if it overlaps a label of its kind; a label is found if a find of its
kind has its start and end. Only kinds with a label or a find in a register have a cell. The
templates were written from known errors: the figures say which of them are mended, not what another
text gives. In the texts without personal values every find is false; USER_NAME is searched there,
too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks import runner
from benchmarks.detection import Span, count_matches, find_by_settings
from benchmarks.labelled_templates import LabelledText
from benchmarks.register_texts import (
    REGISTERS,
    REGISTERS_WITHOUT_PEOPLE,
    generate_texts,
    generate_texts_without_people,
)

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


def find_spans(texts: Sequence[str], *further_kinds: str) -> list[list[Span]]:
    """The occurrences of the finders `patterns`, `names` and `known` in each text, in the order of
    the texts."""
    kinds = ["default", "PERSON", "USER_AT_HOST", *further_kinds]
    return find_by_settings('"names", "known"', kinds)(list(texts))


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
            one = count_matches(
                *({span for span in each if span[2] == kind} for each in (text.spans, spans))
            )
            row.update(labels=one.labels, found=one.hits, finds=one.finds, true=one.touching)
    return {
        register: {kind: dict(row) for kind, row in rows.items() if row["labels"] or row["finds"]}
        for register, rows in counts.items()
    }


def count_false_finds(
    texts: Sequence[LabelledText], found: Sequence[Sequence[Span]]
) -> dict[str, dict[str, int]]:
    """For each kind the finds in each register of texts without labels."""
    counts: dict[str, dict[str, int]] = {}
    for text, spans in zip(texts, found, strict=True):
        for _, _, kind in spans:
            row = counts.setdefault(kind, dict.fromkeys(REGISTERS_WITHOUT_PEOPLE, 0))
            row[text.register] += 1
    return dict(sorted(counts.items()))


def format_false_finds(counts: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> str:
    """A row for each kind that was found: its finds per MB of each register."""
    rows = [
        [kind, *(f"{row[register] / sizes[register] * 1e6:.0f}" for register in row)]
        for kind, row in counts.items()
    ]
    head = ["finds per MB", *REGISTERS_WITHOUT_PEOPLE]
    return "\n".join(runner.format_table(head, rows, left=1)) + "\n"


def format_table(result: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """A row for each kind: precision and recall in each register."""
    by_kind = {kind: [result[register].get(kind) for register in REGISTERS] for kind in KINDS}
    rows = [[kind, *map(_format_cell, rows)] for kind, rows in by_kind.items() if any(rows)]
    return "\n".join(runner.format_table(["kind", *REGISTERS], rows, left=1)) + "\n"


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
    options = runner.build_parser(__doc__, texts=100, seed=1).parse_args()
    texts = generate_texts(options.texts, options.seed)
    sizes = dict.fromkeys(REGISTERS, 0)
    for text in texts:
        sizes[text.register] += len(text.text.encode())
    result = runner.start_result(
        texts=Counter(text.register for text in texts),
        bytes=sizes,
        counts=count_finds(texts, find_spans([text.text for text in texts])),
    )
    without = generate_texts_without_people(10 * options.texts, options.seed)
    sizes = dict.fromkeys(REGISTERS_WITHOUT_PEOPLE, 0)
    for text in without:
        sizes[text.register] += len(text.text.encode())
    finds = count_false_finds(without, find_spans([text.text for text in without], "USER_NAME"))
    result["without_people"] = {"bytes": sizes, "finds": finds}
    page = format_table(result["counts"]) + "\n" + format_false_finds(finds, sizes)
    runner.save_result(options.results, "registers", result, page)


if __name__ == "__main__":
    main()
