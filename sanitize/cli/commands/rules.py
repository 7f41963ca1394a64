"""`sanitize rules test`: the kinds that a plan brings, tried on their examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sanitize.cli.console import show, table
from sanitize.cli.options import AsJson, Changes, one_of


def command(
    what: Annotated[str, typer.Argument(metavar="test", help="test: try the plan's own kinds on their examples", show_default=False)],
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="a plan with [[kind]] tables", show_default=False)],
    set_: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Try a plan's own kinds on the examples beside them; exit 2 where one comes out otherwise."""
    from sanitize.errors import PlanError
    from sanitize.inspection.rule_tests import rules
    from sanitize.plans.plan import load_plan

    one_of("rules", what, ("test",))
    found = rules(load_plan(plan, set_ or ()))
    show(found, as_json, _told)
    if found["failed"]:
        raise PlanError(f"{plan}: {len(found['failed'])} of {found['tried']} examples come out otherwise; mend the kinds, or the examples")


def _told(found: Mapping[str, Any]) -> str:
    if not found["kinds"]:
        return f"plan {found['plan']} brings no kinds of its own; add a [[kind]] (docs/kinds.md)"
    failed = {(one["kind"], one["list"]): 0 for one in found["failed"]}
    for one in found["failed"]:
        failed[one["kind"], one["list"]] += 1

    def good(one: Mapping[str, Any], name: str) -> str:
        return f"{one[name] - failed.get((one['kind'], name), 0)} of {one[name]}"

    rows = [(one["kind"], good(one, "examples"), good(one, "counter_examples")) for one in found["kinds"]]
    lines = [table(("kind", "examples found", "counter-examples not found"), rows)]
    if found["failed"]:
        lines += ["", *(f"{one['kind']}.{one['list']}[{one['entry']}]: {one['why']}" for one in found["failed"])]
    bare = [one["kind"] for one in found["kinds"] if not (one["examples"] and one["counter_examples"])]
    if bare:
        lines += ["", f"note: {', '.join(bare)}: examples of both sorts say more; give some in examples and counter_examples"]
    return "\n".join(lines)
