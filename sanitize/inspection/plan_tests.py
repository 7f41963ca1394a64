"""Tests of a plan (`sanitize plan test`): its custom kinds on their examples, and what it does with
a text.

    plan -> for each of its kinds, the examples that are not found and the counter-examples that are
    plan, text -> each found occurrence with what stands in its place, and the rewritten text

A text is a corpus of one document, which is really sanitized in a temporary folder that is deleted
at the end. Each example is a text of its own, searched for everything that the plan finds by
patterns and lists; finders that need a model or the whole corpus do not run. The whole example must
be a value; for a kind with `context` it must contain one. Messages never repeat an example's text.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.command_results import CommandResult
from sanitize.core.keys import Key
from sanitize.core.table_rendering import SummaryTable
from sanitize.errors import InputRefused
from sanitize.kinds.custom_kind import CustomKind
from sanitize.kinds.kind import all_kinds, custom_kinds
from sanitize.pipeline.indexing.index_build import IndexBuilder
from sanitize.pipeline.run import run_plan
from sanitize.pipeline.run_state import plan_run
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.stages.scanner import Scanner
from sanitize.storage.private_folder import OCCURRENCES_FOLDER, RUNS_FOLDER, read_rows

_SKIP_REASONS = {
    "boundary": (
        "a letter or digit adjoins it; give the kind inside_words = true if it may occur inside"
        " words"
    ),
    "context": "no word of its context is near it",
    "overlap": "it overlaps a value of another kind, which is preferred",
}


@dataclass(frozen=True, kw_only=True)
class ExampleCounts:
    """How many examples, counter-examples and words a custom kind has."""

    kind: str
    examples: int
    counter_examples: int
    words: int


@dataclass(frozen=True, kw_only=True)
class FailedExample:
    """An example that is not found, or a counter-example that is: its kind, its list, its index
    there (from 0), and the reason."""

    kind: str
    list: str
    index: int
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class ExampleTestResult(CommandResult):
    """The result of `plan test` without a text: the custom kinds of a plan, and the examples that
    failed."""

    plan: str
    kinds: Sequence[ExampleCounts]
    example_count: int
    failed: Sequence[FailedExample]

    def summary_table(self) -> SummaryTable:
        rows = [(counts.kind, counts.examples, counts.counter_examples) for counts in self.kinds]
        facts = [("failed", f"{len(self.failed):,} of {self.example_count:,} examples")]
        header = ("kind", "examples", "counter-examples")
        return SummaryTable(
            title=f"sanitize plan test: {self.plan}", facts=facts, header=header, rows=rows
        )


def check_kind_examples(plan: Plan | str) -> ExampleTestResult:
    """Test the custom kinds of a plan (its file, or a `Plan`) on their examples.

    The result names the failed texts by kind, list and index in the list (from 0), with the reason.
    """
    plan = load_plan(plan) if isinstance(plan, str) else plan
    failed: list[FailedExample] = []
    with custom_kinds(plan.custom_kinds):
        scanner = Scanner(Key.from_seed(0), plan.detection_spec)
        for custom in plan.custom_kinds:
            failed += _check_examples(custom, scanner)
    kinds = [
        ExampleCounts(
            kind=custom.name,
            examples=len(custom.examples),
            counter_examples=len(custom.counter_examples),
            words=len(custom.words),
        )
        for custom in plan.custom_kinds
    ]
    example_count = sum(counts.examples + counts.counter_examples for counts in kinds)
    return ExampleTestResult(
        plan=plan.name, kinds=kinds, example_count=example_count, failed=failed
    )


def _check_examples(custom: CustomKind, scanner: Scanner) -> list[FailedExample]:
    """The failed examples of one kind: list, number in it, reason."""
    failed = []
    for list_name, texts, must_match in (
        ("examples", custom.examples, True),
        ("counter_examples", custom.counter_examples, False),
    ):
        for index, text in enumerate(texts):  # a loop over a handful of texts written by hand
            spans, reason = _find_kind(custom, text, scanner)
            if (
                must_match
                and ((0, len(text)) in spans or (spans and custom.context))
                or not (must_match or spans)
            ):
                continue
            if spans:
                reason = (
                    f"{'only ' if must_match else ''}{_format_ranges(spans)} of {len(text)} match"
                )
            failed.append(
                FailedExample(kind=custom.name, list=list_name, index=index, reason=reason)
            )
    return failed


def _find_kind(
    custom: CustomKind, text: str, scanner: Scanner
) -> tuple[list[tuple[int, int]], str]:
    """The spans of a kind in a text, and the reason why there are none."""
    number, texts = list(all_kinds()).index(custom.name), pa.array([text], pa.large_string())
    found = scanner.run(texts)
    found = found.take(found.kind == number)
    skip_reasons = [reason for kind, reason in found.skipped if kind == number]
    reason = "nothing in it matches"
    if skip_reasons:
        reason = _SKIP_REASONS.get(skip_reasons[0], f"its check ({custom.check}) rejects it")
    start, end = found.find_code_points(texts)
    return list(zip(start.tolist(), end.tolist(), strict=True)), reason


def _format_ranges(spans: Sequence[tuple[int, int]]) -> str:
    return "characters " + " and ".join(f"{low + 1} to {high}" for low, high in spans)


# ------------------------------------------------------------------------------------ on a text


@dataclass(frozen=True, kw_only=True, repr=False)
class TriedOccurrence:
    """An occurrence in a text: its line (from 1), its kind, its text, and the text in its place;
    None if it stays."""

    line: int
    kind: str
    before: str
    after: str | None


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanTrial:
    """What a plan does with a text: the found occurrences in order, and each line that changes,
    before and after, by its number."""

    occurrences: Sequence[TriedOccurrence]
    changed_lines: Sequence[tuple[int, str, str]]


def try_plan(plan: Plan, text: str) -> PlanTrial:
    """What a plan does with a text. Raises InputRefused for a text that cannot be a document, and
    what a run raises."""
    with tempfile.TemporaryDirectory(prefix="sanitize-plan-test-") as name:
        folder, work = Path(name), Path(name, "work")
        pq.write_table(
            pa.table({"text": pa.array([text], pa.large_string())}), folder / "text.parquet"
        )
        with IndexBuilder(
            [folder / "text.parquet"], work, Settings(workers=1), plan.detection_spec
        ) as index:
            summary = run_plan(index, plan_run(index, plan, folder / "out"))
            if summary.quarantined or summary.documents_dropped:
                raise InputRefused(
                    "the text was quarantined or dropped by the plan; expected a text in UTF-8 that"
                    " the plan keeps"
                )
            columns = ("start_byte", "end_byte", "kind")
            found = read_rows(work, work / OCCURRENCES_FOLDER, columns).sort(columns[:2]).to_dicts()
            edits_folder = work / RUNS_FOLDER / summary.run_hash / "edits"
            edit_rows = read_rows(work, edits_folder, (*columns, "replacement"))
            edits = edit_rows.sort(columns[:2]).to_dicts()
    raw = text.encode()
    occurrences = []
    edited = {(row["start_byte"], row["end_byte"]): row for row in edits}
    for row in {
        (one["start_byte"], one["end_byte"], one["kind"]): one for one in (*found, *edits)
    }.values():
        start, end = row["start_byte"], row["end_byte"]
        edit = edited.get((start, end)) or next(
            (one for one in edits if one["start_byte"] <= start and end <= one["end_byte"]), None
        )
        after = None if edit is None else edit["replacement"] if edit["start_byte"] == start else ""
        line = raw.count(b"\n", 0, start) + 1
        occurrences.append(
            (
                start,
                TriedOccurrence(
                    line=line, kind=row["kind"], before=raw[start:end].decode(), after=after
                ),
            )
        )
    changed = sorted({raw.count(b"\n", 0, row["start_byte"]) for row in edits})
    before, after_lines = text.split("\n"), _rewrite(raw, edits).split("\n")
    # else a value with a line end was replaced: the whole text is one entry
    is_aligned = len(before) == len(after_lines)
    lines = (
        [(number + 1, before[number], after_lines[number]) for number in changed]
        if is_aligned
        else [(1, text, "\n".join(after_lines))]
    )
    return PlanTrial(
        occurrences=[one for _, one in sorted(occurrences, key=lambda pair: pair[0])],
        changed_lines=lines,
    )


def _rewrite(raw: bytes, edits: Sequence[dict[str, Any]]) -> str:
    """The text with its edits applied."""
    pieces, position = [], 0
    for row in edits:
        pieces += [raw[position : row["start_byte"]], row["replacement"].encode()]
        position = row["end_byte"]
    return b"".join([*pieces, raw[position:]]).decode()
