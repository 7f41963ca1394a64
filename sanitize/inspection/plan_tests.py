"""Tests of a plan (`sanitize plan test`): its custom kinds on their examples.

    plan -> for each of its kinds, the examples that are not found and the counter-examples that are

Each example is a text of its own, searched for everything that the plan finds by
patterns and lists; finders that need a model or the whole corpus do not run. The whole example must
be a value; for a kind with `context` it must contain one. Messages never repeat an example's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sanitize.core.command_results import CommandResult
from sanitize.core.keys import Key
from sanitize.core.table_rendering import SummaryTable
from sanitize.kinds.custom_kind import CustomKind
from sanitize.kinds.kind import all_kinds, custom_kinds
from sanitize.plans.plan import Plan, load_plan
from sanitize.stages.scanner import Scanner

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
    """The result of `plan test`: the custom kinds of a plan, and the examples that
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
