"""Tests the custom kinds of a plan on their examples (`sanitize rules test`), and explains failures.

    plan -> for each of its kinds, the examples that are not found and the counter-examples that are

Each example is a text of its own, searched for everything that the plan finds by patterns and lists; finders that need a model or the
whole corpus do not run. The whole example must be a value; for a kind with `context` it must contain one. Messages never repeat an
example's text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sanitize.core.command_results import ExampleCounts, ExampleTestResult, FailedExample
from sanitize.core.keys import Key
from sanitize.kinds.custom_kind import CustomKind
from sanitize.kinds.kind import custom_kinds
from sanitize.plans.plan import Plan, load_plan
from sanitize.stages.scanner import Scanner

_SKIP_REASONS = {
    "boundary": "a letter or digit adjoins it; give the kind inside_words = true if it may occur inside words",
    "context": "no word of its context is near it",
    "overlap": "it overlaps a value of another kind, which is preferred",
}


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
    return ExampleTestResult(plan=plan.name, kinds=kinds, example_count=example_count, failed=failed)


def _check_examples(custom: CustomKind, scanner: Scanner) -> list[FailedExample]:
    """The failed examples of one kind: list, number in it, reason."""
    failed = []
    for list_name, texts, must_match in (("examples", custom.examples, True), ("counter_examples", custom.counter_examples, False)):
        for index, text in enumerate(texts):  # a loop over a handful of texts written by hand
            spans, reason = _find_kind(custom, text, scanner)
            if must_match and ((0, len(text)) in spans or (spans and custom.context)) or not (must_match or spans):
                continue
            if spans:
                reason = f"{'only ' if must_match else ''}{_format_ranges(spans)} of {len(text)} match"
            failed.append(FailedExample(kind=custom.name, list=list_name, index=index, reason=reason))
    return failed


def _find_kind(custom: CustomKind, text: str, scanner: Scanner) -> tuple[list[tuple[int, int]], str]:
    """The spans of a kind in a text, and the reason why there are none."""
    number = next(no for no, kind in enumerate(scanner.kinds) if kind.name == custom.name)
    found = scanner.run(pa.array([text], pa.large_string()))
    rows = np.flatnonzero(found.distinct.kind[found.value_no] == number)
    skip_reasons = [reason for kind, reason in found.skipped if kind == number]
    reason = "nothing in it matches"
    if skip_reasons:
        reason = _SKIP_REASONS.get(skip_reasons[0], f"its check ({custom.check}) rejects it")
    return [(int(found.start[row]), int(found.end[row])) for row in rows], reason


def _format_ranges(spans: Sequence[tuple[int, int]]) -> str:
    return "characters " + " and ".join(f"{low + 1} to {high}" for low, high in spans)
