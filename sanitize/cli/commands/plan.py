"""`sanitize plan`: shows what a plan does, writes a plan file to start from, and tests the kinds of
a plan on their examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sanitize.cli.completion import complete_plan, complete_words
from sanitize.cli.console import format_facts, format_table, print_result, print_text
from sanitize.cli.options import (
    AsJson,
    FinderNames,
    PlanChanges,
    local_path,
    require_choice,
)

if TYPE_CHECKING:
    from sanitize.inspection.plan_tests import ExampleCounts, ExampleTestResult
    from sanitize.plans.coverage import PlanDescription
    from sanitize.plans.plan import Plan

ACTIONS = ("show", "init", "test")


def command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            autocompletion=complete_words(lambda: ACTIONS),
            help="show, init or test",
            show_default=False,
        ),
    ],
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN",
            autocompletion=complete_plan,
            help="a shipped plan or a TOML file; of init the file to write",
            show_default=False,
        ),
    ],
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="NAME",
            autocompletion=complete_plan,
            help="init: the shipped plan to begin with",
        ),
    ] = "redact",
    set_: PlanChanges = None,
    finder: FinderNames = None,
    as_json: AsJson = False,
) -> None:
    """Show what a plan looks for and what becomes of it (show), write a plan file to start from
    (init), or run the plan's own kinds on their examples (test), with exit 2 if one fails.

    What a plan does with texts is shown by `sanitize explain FILE --plan PLAN`.
    """
    from sanitize.plans.plan import load_plan, write_plan_template

    require_choice("plan", what, ACTIONS)
    if what == "init":
        name = write_plan_template(local_path(plan), from_)
        print_text(
            f"{plan}: a copy of plan {name} with comments. Next: sanitize plan show {plan}   |  "
            f" sanitize explain FILE --plan {plan}"
        )
    elif what == "show":
        print_result(
            load_plan(plan, set_ or (), finder or ()).describe(), as_json, _format_description
        )
    else:
        _test_examples(load_plan(plan, set_ or (), finder or ()), plan, as_json)


def _format_description(found: PlanDescription) -> str:
    from sanitize.plans.coverage import COVERAGE_HEADER

    lines = [
        f"{found.name}: {found.about}",
        "",
        format_table(COVERAGE_HEADER, list(found.table_rows())),
        "",
    ]
    return "\n".join([*lines, *format_facts(found.list_facts())])


def _test_examples(plan: Plan, name: str, as_json: bool) -> None:
    from sanitize.errors import PlanError
    from sanitize.inspection.plan_tests import check_kind_examples

    found = check_kind_examples(plan)
    print_result(found, as_json, _format_example_results)
    if found.failed:
        raise PlanError(
            f"{name}: {len(found.failed)} of {found.example_count} examples failed; correct the"
            " kinds, or the examples"
        )


def _format_example_results(result: ExampleTestResult) -> str:
    if not result.kinds:
        return (
            f"plan {result.plan} has no custom kinds, so no examples; docs/how_to/own_kinds.md says"
            f" how to add a [[kind]], `sanitize explain FILE --plan {result.plan}` shows what the"
            " plan does with texts"
        )
    failed_counts = {(failure.kind, failure.list): 0 for failure in result.failed}
    for failure in result.failed:
        failed_counts[failure.kind, failure.list] += 1

    def format_passed(counts: ExampleCounts, list_name: str) -> str:
        return (
            f"{getattr(counts, list_name) - failed_counts.get((counts.kind, list_name), 0)} of"
            f" {getattr(counts, list_name)}"
        )

    rows = [
        (counts.kind, format_passed(counts, "examples"), format_passed(counts, "counter_examples"))
        for counts in result.kinds
    ]
    lines = [format_table(("kind", "examples found", "counter-examples not found"), rows)]
    if result.failed:
        lines += [
            "",
            *(
                f"{failure.kind}.{failure.list}[{failure.index}]: {failure.reason}"
                for failure in result.failed
            ),
        ]
    incomplete = [
        counts.kind for counts in result.kinds if not (counts.examples and counts.counter_examples)
    ]
    if incomplete:
        lines += [
            "",
            (
                f"note: {', '.join(incomplete)}: the test needs both lists to tell much; fill"
                " examples and counter_examples"
            ),
        ]
    return "\n".join(lines)
