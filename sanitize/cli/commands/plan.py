"""`sanitize plan`: shows what a plan does, writes a plan file to start from, and tests a plan on a
text and on its examples."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sanitize.cli.completion import complete_plan, complete_words
from sanitize.cli.console import format_facts, format_table, print_result, print_text
from sanitize.cli.options import (
    AsJson,
    FinderNames,
    PlanChanges,
    Reveal,
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
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="test: a text in UTF-8, or - for standard input",
            show_default=False,
        ),
    ] = None,
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
    reveal: Reveal = False,
    as_json: AsJson = False,
) -> None:
    """Show what a plan looks for and what becomes of it (show), write a plan file to start from
    (init), or test a plan (test).

    test runs the plan's own kinds on their examples and ends with exit 2 if one fails; with FILE it
    shows what becomes of each value in it, masked without --reveal.
    """
    from sanitize.errors import UsageError
    from sanitize.plans.plan import load_plan, write_plan_template

    require_choice("plan", what, ACTIONS)
    if text is not None and what != "test":
        raise UsageError(f"plan {what}: a second argument is only for test; leave it out")
    if what == "init":
        name = write_plan_template(local_path(plan), from_)
        print_text(
            f"{plan}: a copy of plan {name} with comments. Next: sanitize plan show {plan}   |  "
            f" sanitize plan test {plan} FILE"
        )
    elif what == "show":
        print_result(
            load_plan(plan, set_ or (), finder or ()).describe(), as_json, _format_description
        )
    elif text is None:
        _test_examples(load_plan(plan, set_ or (), finder or ()), plan, as_json)
    else:
        _test_on_text(load_plan(plan, set_ or (), finder or ()), text, reveal, as_json)


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
            f"plan {result.plan} has no custom kinds, so no examples; `sanitize plan test"
            f" {result.plan} FILE` tests it on a text, docs/how_to/own_kinds.md says how to add a"
            " [[kind]]"
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


def _test_on_text(plan: Plan, file: str, reveal: bool, as_json: bool) -> None:
    """Print each occurrence with what stands in its place; with `reveal` each changed line before
    and after, too."""
    import polars as pl

    from sanitize.cli.console import print_json
    from sanitize.errors import InputRefused
    from sanitize.inspection.plan_tests import try_plan
    from sanitize.inspection.text_files import refuse_device
    from sanitize.storage.views.masks import mask_replacements, mask_texts

    name = "standard input" if file == "-" else file
    if file != "-":
        refuse_device(local_path(file))
    try:
        raw = sys.stdin.buffer.read() if file == "-" else local_path(file).read_bytes()
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(
            f"{name}: cannot be read ({type(error).__name__}); expected a text in UTF-8"
        ) from None
    tried = try_plan(plan, text)
    kinds = pl.Series([one.kind for one in tried.occurrences], dtype=pl.String)
    before = pl.Series([one.before for one in tried.occurrences], dtype=pl.String)
    after = pl.Series([one.after for one in tried.occurrences], dtype=pl.String)
    if not reveal:
        before, after = mask_texts(before, kinds), mask_replacements(after, kinds)
    rows = [
        (one.line, one.kind, shown_before, "(stays)" if one.after is None else shown_after)
        for one, shown_before, shown_after in zip(tried.occurrences, before, after, strict=True)
    ]
    if as_json:
        names = ("line", "kind", "before", "after")
        for one, row in zip(tried.occurrences, rows, strict=True):
            print_json(
                {
                    **dict(zip(names, row, strict=True)),
                    "stays": one.after is None,
                    "after": None if one.after is None else row[3],
                }
            )
        return
    if not rows:
        print_text(f"nothing of plan {plan.name} was found in {name}")
        return
    print_text(format_table(("line", "kind", "before", "after"), rows))
    if reveal:
        for number, old, new in tried.changed_lines:
            print_text(f"\n{number} - {old}\n{number} + {new}")
