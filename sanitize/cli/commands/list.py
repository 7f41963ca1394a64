"""`sanitize list`: lists built-in kinds, finders, droppers, editors, plans and engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from sanitize.cli.completion import complete_words
from sanitize.cli.console import format_table, print_result
from sanitize.cli.options import AsJson, require_choice

LISTS = ("kinds", "finders", "droppers", "editors", "plans", "papers", "engines")


def command(
    what: Annotated[
        str,
        typer.Argument(
            autocompletion=complete_words(lambda: LISTS),
            help="kinds, finders, droppers, editors, plans, papers or engines",
        ),
    ] = "kinds",
    as_json: AsJson = False,
) -> None:
    """List the built-in kinds, finders, droppers, editors, plans, engines, or papers: plans of the
    papers, for comparisons."""
    from sanitize.core import part_protocols
    from sanitize.core.engine import engine_names
    from sanitize.kinds.kind import builtin_kinds
    from sanitize.plans.plan import load_plan
    from sanitize.plans.shipped_plans import list_plans

    def first_doc_lines(package: str, names: Iterable[str]) -> dict[str, str]:
        import importlib

        return {
            name: (importlib.import_module(f"sanitize.{package}.{name}").__doc__ or "").partition(
                "\n"
            )[0]
            for name in names
        }

    def describe_parts(part_type: part_protocols.PartType) -> dict[str, str]:
        return first_doc_lines(
            part_protocols.PACKAGES[part_type], part_protocols.list_part_names(part_type)
        )

    def describe_default_model(name: str) -> str:
        """What the finder needs, and whose model it uses without further settings."""
        from sanitize.errors import PlanError

        try:
            finder = part_protocols.load_part("find", {"use": name}, "find.finders")
        except PlanError:  # it has a setting without a default
            return ""
        return str(finder.attribution or finder.needs)

    lists: dict[str, Callable[[], dict[str, str]]] = {
        "kinds": lambda: {kind.name: kind.about for kind in builtin_kinds().values()},
        "finders": lambda: describe_parts("find"),
        "droppers": lambda: describe_parts("drop"),
        "editors": lambda: describe_parts("edit"),
        "plans": lambda: {name: load_plan(name).about for name in list_plans(of_papers=False)},
        "papers": lambda: {name: load_plan(name).about for name in list_plans(of_papers=True)},
        "engines": lambda: first_doc_lines("engines", engine_names()),
    }
    descriptions = lists[require_choice("list", what, LISTS)]()
    rows = [{"name": name, "about": text} for name, text in descriptions.items()]
    if what == "finders":
        rows = [{**row, "model": describe_default_model(row["name"])} for row in rows]
    if what == "kinds":
        kinds = builtin_kinds()
        rows = [
            {
                **row,
                "category": kinds[row["name"]].category,
                "searched_when": kinds[row["name"]].searched_when,
            }
            for row in rows
        ]
    print_result(
        rows,
        as_json,
        lambda rows: format_table(
            tuple(name.replace("_", " ") for name in rows[0]), [tuple(row.values()) for row in rows]
        ),
    )
