"""`sanitize list`: the parts that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from sanitize.cli.console import show, table
from sanitize.cli.options import AsJson, one_of


def command(
    what: Annotated[str, typer.Argument(help="kinds, finders, droppers, editors, plans or engines")] = "kinds",
    as_json: AsJson = False,
) -> None:
    """What there is: kinds, finders, droppers, editors, plans, engines."""
    from sanitize.core import parts
    from sanitize.core.engine import engine_names
    from sanitize.kinds.kind import house_kinds
    from sanitize.plans import plan

    def said(room: str, names: Iterable[str]) -> dict[str, str]:
        import importlib

        return {name: (importlib.import_module(f"sanitize.{room}.{name}").__doc__ or "").partition("\n")[0] for name in names}

    def about(room: parts.Room) -> dict[str, str]:
        return said(parts.PACKAGES[room], parts.names(room))

    rooms: dict[str, Callable[[], dict[str, str]]] = {
        "kinds": lambda: {kind.name: kind.about for kind in house_kinds().values()},
        "finders": lambda: about("find"),
        "droppers": lambda: about("drop"),
        "editors": lambda: about("edit"),
        "plans": lambda: {name: plan.load_plan(name).about for name in plan.plan_names()},
        "engines": lambda: said("engines", engine_names()),
    }
    found = rooms[one_of("list", what, tuple(rooms))]()
    rows = [{"name": name, "about": text} for name, text in found.items()]
    if what == "kinds":
        rows = [{**row, "looked_for": house_kinds()[row["name"]].looked_for} for row in rows]
    show(rows, as_json, lambda rows: table(tuple(name.replace("_", " ") for name in rows[0]), [tuple(row.values()) for row in rows]))
