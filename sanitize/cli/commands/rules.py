"""`sanitize rules test`: tests the custom kinds of a plan on their examples."""

from __future__ import annotations

from typing import Annotated

import typer

from sanitize.cli.console import format_table, print_result
from sanitize.cli.options import AsJson, PlanChanges, require_choice
from sanitize.core.command_results import ExampleCounts, ExampleTestResult


def command(
    what: Annotated[str, typer.Argument(metavar="test", help="test: test the plan's custom kinds on their examples", show_default=False)],
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="a plan with [[kind]] tables", show_default=False)],
    set_: PlanChanges = None,
    as_json: AsJson = False,
) -> None:
    """Test the custom kinds of a plan on their examples; exit 2 if an example fails."""
    from sanitize.errors import PlanError
    from sanitize.inspection.rule_tests import check_kind_examples
    from sanitize.plans.plan import load_plan

    require_choice("rules", what, ("test",))
    found = check_kind_examples(load_plan(plan, set_ or ()))
    print_result(found, as_json, _format_example_results)
    if found.failed:
        raise PlanError(f"{plan}: {len(found.failed)} of {found.example_count} examples failed; correct the kinds, or the examples")


def _format_example_results(result: ExampleTestResult) -> str:
    if not result.kinds:
        return f"plan {result.plan} has no custom kinds; add a [[kind]] (docs/how_to/own_kinds.md)"
    failed_counts = {(failure.kind, failure.list): 0 for failure in result.failed}
    for failure in result.failed:
        failed_counts[failure.kind, failure.list] += 1

    def format_passed(counts: ExampleCounts, list_name: str) -> str:
        return f"{getattr(counts, list_name) - failed_counts.get((counts.kind, list_name), 0)} of {getattr(counts, list_name)}"

    rows = [(counts.kind, format_passed(counts, "examples"), format_passed(counts, "counter_examples")) for counts in result.kinds]
    lines = [format_table(("kind", "examples found", "counter-examples not found"), rows)]
    if result.failed:
        lines += ["", *(f"{failure.kind}.{failure.list}[{failure.index}]: {failure.reason}" for failure in result.failed)]
    incomplete = [counts.kind for counts in result.kinds if not (counts.examples and counts.counter_examples)]
    if incomplete:
        lines += ["", f"note: {', '.join(incomplete)}: the test needs both lists to tell much; fill examples and counter_examples"]
    return "\n".join(lines)
